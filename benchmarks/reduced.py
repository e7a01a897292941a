"""JPEG decoded at a half, a quarter or an eighth of its size: the time that it saves, and how far pixels are off.

    python benchmarks/reduced.py [--rounds 9] [--threads 2]

Time: 16 photos of 2000 x 1500, each of 20 photos side by side so that they have as much detail as small ones, become
batches of 224 x 224, whole or by random windows; and the same for 64 photos of 500 x 375. Interleaved in a random
order, beside NVIDIA DALI where it is installed, which has no such option.

Error: photos of 400 to 1000 pixels a side are decoded and resized, with and without the option, to so much less than
they are; beside them the photos that are resized before they are stored as JPEG, which tells how much that costs.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy
import simplejpeg

import dynamic

SIZE = [224, 224]
QUALITY = {"quality": 90, "colorspace": "RGB", "colorsubsampling": "420"}


def imported(name: str) -> Any:
    """A library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


dali = imported("nvidia.dali.experimental.dynamic")


def originals() -> list[Any]:
    """The photos that examples are made of, as they are stored, in RGB."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from photos import _sources

    return [cv2.imread(str(path), cv2.IMREAD_COLOR_RGB) for _, path in _sources()]


def encoded(image: Any) -> Any:
    """A JPEG file."""
    return numpy.frombuffer(simplejpeg.encode_jpeg(numpy.ascontiguousarray(image), **QUALITY), numpy.uint8)


def side_by_side(images: list[Any], first: int) -> Any:
    """A photo of 2000 x 1500 of 20 small ones."""
    parts = [cv2.resize(images[(first + k) % len(images)], (400, 375), interpolation=cv2.INTER_AREA) for k in range(20)]
    return numpy.vstack([numpy.hstack(parts[5 * row : 5 * row + 5]) for row in range(4)])


def ways(library: Any, files: list[Any], **how: Any) -> dict[str, Callable[[], Any]]:
    """From files to batches of 224 x 224: all of each photo, and a random window."""
    batch, rng = library.as_batch(files), library.random.RNG(seed=1)
    decoders = library.decoders
    return {
        "decode, resize": lambda: library.resize(decoders.image(batch, **how), size=SIZE),
        "decode random windows, resize": lambda: library.resize(
            decoders.image_random_crop(batch, rng=rng, **how), size=SIZE
        ),
    }


def measured(files: list[Any], rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Milliseconds a photo, wall and CPU, of each way and library: medians over the rounds."""
    rivals = {"dynamic": ways(dynamic, files), "with `at_least`": ways(dynamic, files, at_least=SIZE)}
    rivals |= {} if dali is None else {"DALI": ways(dali, files)}
    jobs = [(way, rival) for rival, functions in rivals.items() for way in functions]
    times: dict[tuple[str, str], list[tuple[float, float]]] = {job: [] for job in jobs}
    for round in range(rounds + 1):
        for way, rival in random.Random(round).sample(jobs, len(jobs)):
            start, cpu = time.perf_counter(), time.process_time()
            rivals[rival][way]().evaluate()
            spent = time.perf_counter() - start, time.process_time() - cpu
            if round:
                times[way, rival].append(spent)
    medians = {
        job: tuple(statistics.median(column) / len(files) * 1e3 for column in zip(*found, strict=True))
        for job, found in times.items()
    }
    return {way: {rival: medians[way, rival] for rival in rivals} for way in rivals["dynamic"]}


def difference(images: list[Any], scale: int, ratio: float) -> tuple[list[Any], list[Any]]:
    """How far pixels are off that are decoded at 1 / scale, and `ratio` times as large as the result; and by JPEG."""
    off, stored = [], []
    for image in images:
        size = [int(extent / scale / ratio) for extent in image.shape[:2]]
        least = [extent // scale for extent in image.shape[:2]]
        resize = functools.partial(dynamic.resize, size=size)
        file, true = encoded(image), resize(dynamic.as_tensor(image, layout="HWC"))
        exact = resize(dynamic.decoders.image(file)).numpy().astype(int)
        off.append(numpy.abs(resize(dynamic.decoders.image(file, at_least=least)).numpy() - exact).ravel())
        stored.append(numpy.abs(true.numpy() - exact).ravel())
    return off, stored


def told(differences: list[Any]) -> str:
    """Mean, 99th percentile, largest difference in levels, and PSNR: means over photos, but for the largest."""
    mean = statistics.fmean(each.mean() for each in differences)
    high = statistics.fmean(numpy.percentile(each, 99) for each in differences)
    psnr = statistics.fmean(10 * numpy.log10(255**2 / (each.astype(float) ** 2).mean()) for each in differences)
    return f"{mean:.2f} | {high:.0f} | {max(int(each.max()) for each in differences)} | {psnr:.1f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    for library in (dynamic, dali):
        if library is not None:
            library.set_num_threads(options.threads)
    images = originals()
    small = [cv2.resize(images[k % len(images)], (500, 375), interpolation=cv2.INTER_AREA) for k in range(64)]
    photos = {"2000 x 1500": [side_by_side(images, k) for k in range(16)], "500 x 375": small}
    names = ["dynamic", "with `at_least`"] + ["DALI"] * (dali is not None)
    print(f"| ms a photo, CPU (wall) | | {' | '.join(names)} |\n|---|---|{len(names) * '--:|'}")
    for title, some in photos.items():
        for way, found in measured([encoded(image) for image in some], options.rounds).items():
            print(f"| {way} | {title} | {' | '.join(f'{found[n][1]:.2f} ({found[n][0]:.2f})' for n in names)} |")
    large = [image for image in images if min(image.shape[:2]) >= 400]
    print("\n| decoded at | result at | mean | 99 % | largest | PSNR | JPEG itself: mean | 99 % | largest | PSNR |")
    print(f"|---|---|{8 * '--:|'}")
    for scale in (2, 4, 8):
        for ratio in (1.0, 1.5, 2.0):
            off, stored = difference(large, scale, ratio)
            print(f"| 1/{scale} | 1/{scale * ratio:g} | {told(off)} | {told(stored)} |")


if __name__ == "__main__":
    main()
