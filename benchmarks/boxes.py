"""Images with boxes, masks and labels: `together` beside torchvision's `transforms.v2` on `tv_tensors`.

    python benchmarks/boxes.py [--images 32] [--rounds 7]

It needs torchvision. Both use one thread; times of the process, medians of rounds that take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

import dynamic as ndd

MATRIX = [[1.0, 0.1, 3.0], [-0.1, 1.0, 3.0]]
BILINEAR = {"interpolation": v2.InterpolationMode.BILINEAR}
#: The operator and its arguments, and the transform of torchvision.
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "flip": (ndd.flip, {}, v2.RandomHorizontalFlip(1.0)),
    "resize": (ndd.resize, {"size": (256, 256)}, v2.Resize((256, 256), antialias=True)),
    "random_resized_crop": (ndd.random_resized_crop, {"size": 224}, v2.RandomResizedCrop(224, antialias=True)),
    "rotate": (
        ndd.rotate,
        {"angle": 30.0, "fill_value": 0, "keep_size": True},
        v2.RandomRotation((30, 30), **BILINEAR),
    ),
    "warp_affine": (
        ndd.warp_affine,
        {"matrix": MATRIX, "fill_value": 0},
        v2.RandomAffine((6, 6), translate=(0.01, 0.01), **BILINEAR),
    ),
}


def samples(count: int, boxes: int) -> list[dict[str, Any]]:
    """Photos of noise with boxes, a mask and labels."""
    generator, made = numpy.random.default_rng(1), []
    for height, width in generator.integers(300, 500, (count, 2)).tolist():
        corners = numpy.sort(generator.uniform(0, [width, height], (boxes, 2, 2)), axis=1)
        made.append(
            {
                "image": generator.integers(0, 256, (height, width, 3), numpy.uint8),
                "boxes": corners.reshape(-1, 4).astype(numpy.float32),
                "masks": generator.integers(0, 20, (height, width), numpy.uint8),
                "labels": numpy.arange(boxes),
            }
        )
    return made


def theirs(sample: dict[str, Any]) -> dict[str, Any]:
    """A sample as torchvision takes it."""
    size, boxes = sample["masks"].shape, torch.from_numpy(sample["boxes"])
    return {
        "image": tv_tensors.Image(torch.from_numpy(sample["image"]).permute(2, 0, 1).contiguous()),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
        "masks": tv_tensors.Mask(torch.from_numpy(sample["masks"])),
        "labels": torch.from_numpy(sample["labels"]),
    }


def timed(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    """Print a row for each operator and number of boxes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ndd.set_num_threads(1)
    sanitize = v2.SanitizeBoundingBoxes()
    print("boxes  operator             torchvision ms  dynamic ms  ratio")
    for boxes in (8, 100):
        rows = samples(arguments.images, boxes)
        layouts = {"image": "HWC", "masks": "HW"}
        batch = {name: ndd.as_batch([row[name] for row in rows], layout=layouts.get(name)) for name in rows[0]}
        tensors = list(map(theirs, rows))
        for name, (call, given, transform) in CASES.items():
            runs = (
                lambda t=transform, x=tensors: [sanitize(t(row)) for row in x],
                lambda c=call, g=given, b=batch: ndd.together(c, **b, **g),
            )
            times = [[timed(run) for run in runs] for _ in range(arguments.rounds + 1)][1:]
            other, own = (1000 * statistics.median(column) for column in zip(*times, strict=True))
            print(f"{boxes:5}  {name:20} {other:14.1f} {own:11.1f} {own / other:6.2f}", flush=True)


if __name__ == "__main__":
    main()
