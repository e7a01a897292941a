"""What policies of augmentation cost, against NVIDIA DALI, interleaved in one process.

    python benchmarks/augmentation.py [--rounds 15] [--threads 2] [--size 500x375]

Batches of 64 separate photos in memory: AutoAugment for ImageNet, RandAugment of two augmentations of magnitude 9, and
TrivialAugment, which DALI has in pipelines with conditionals only; what such a pipeline takes that does nothing is told
beside. Ratios are medians over the rounds of our time to DALI's.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2

import dynamic
from dynamic.auto_aug import auto_augment, rand_augment, trivial_augment

BATCH = 64
#: Each scheme: the module of it, the function, and its arguments.
SCHEMES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "AutoAugment": (auto_augment, "auto_augment_image_net", {}),
    "RandAugment(2, 9)": (rand_augment, "rand_augment", {"n": 2, "m": 9}),
    "TrivialAugment": (trivial_augment, "trivial_augment_wide", {}),
}


def photos(size: tuple[int, int]) -> list[Any]:
    """Photos of a size, of which some are equal."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from photos import make

    with tempfile.TemporaryDirectory() as folder:
        found = [cv2.imread(str(path), cv2.IMREAD_COLOR_RGB) for path in sorted(make(Path(folder)).glob("*/*.jpg"))]
    images = [cv2.resize(image, size) for image in found]
    return [images[i % len(images)].copy() for i in range(BATCH)]


def pipeline_of_dali(images: list[Any], scheme: str | None, threads: int) -> Callable[[], Any] | None:
    """DALI's scheme, or a pipeline that does nothing; None where DALI is not installed."""
    try:
        import nvidia.dali.auto_aug.auto_augment
        import nvidia.dali.auto_aug.rand_augment
        import nvidia.dali.auto_aug.trivial_augment
        from nvidia.dali import fn, pipeline_def
    except ImportError:
        return None

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, enable_conditionals=True,
                  prefetch_queue_depth=1)  # fmt: skip
    def augmented() -> Any:
        data = fn.external_source(lambda: images, layout="HWC", no_copy=True)
        if scheme is None:
            return data
        module, name, arguments = SCHEMES[scheme]
        theirs = getattr(nvidia.dali.auto_aug, module.__name__.rpartition(".")[2])
        return getattr(theirs, name)(data, **arguments)

    pipe = augmented()
    pipe.build()
    run: Callable[[], Any] = pipe.run
    return run


def timed(function: Callable[[], Any]) -> float:
    """Milliseconds a sample."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3 / BATCH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", default="500x375")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # DALI's of its own former names
    dynamic.set_num_threads(options.threads)
    width, height = map(int, options.size.split("x"))
    images = photos((width, height))
    batch, rng = dynamic.as_batch(images, layout="HWC"), dynamic.random.RNG(seed=5)
    print("| scheme | ms each | DALI, ms | ratio |\n|---|--:|--:|--:|")
    for scheme, (module, name, arguments) in SCHEMES.items():
        ours = functools.partial(getattr(module, name), batch, **arguments, rng=rng)
        runs = [ours, *(pipeline_of_dali(images, what, options.threads) for what in (scheme, None))]
        known = [run for run in runs if run is not None]
        times: list[list[float]] = [[] for _ in known]
        for number in range(options.rounds + 2):
            for run, column in random.Random(number).sample([*zip(known, times, strict=True)], len(known)):
                milliseconds = timed(run)
                if number >= 2:  # caches are filled
                    column.append(milliseconds)
        mine = statistics.median(times[0])
        if len(known) == 1:
            print(f"| {scheme} | {mine:.2f} | | |")
            continue
        ratio = statistics.median(a / b for a, b in zip(*times[:2], strict=True))
        theirs, nothing = (statistics.median(column) for column in times[1:])
        print(f"| {scheme} | {mine:.2f} | {theirs:.2f} ({nothing:.2f} for nothing) | {ratio:.2f} |")


if __name__ == "__main__":
    main()
