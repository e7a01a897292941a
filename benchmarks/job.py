"""The job of the README, decode and rotate photos in batches of 8: this library against NVIDIA DALI, interleaved.

    python benchmarks/job.py [FOLDER] [--rounds 7]

FOLDER holds JPEG photos in class folders; without it the photos of `examples/photos.py` are used. Files are in memory.
Run it in an environment that has both libraries; without DALI it prints this library's figures alone.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
from training import renamed

import dynamic

try:
    import nvidia.dali.experimental.dynamic as dali
except ImportError:
    dali = None

BATCH_SIZE = 8


def photos(folder: Path | None) -> list[Any]:
    """The bytes of the photos of a folder, or of the ones of the examples."""
    if folder is None:
        sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
        from photos import make

        with tempfile.TemporaryDirectory() as temporary:
            return photos(make(Path(temporary)))
    files = [numpy.fromfile(path, numpy.uint8) for path in sorted(folder.glob("*/*.jpg"))]
    return files[: len(files) // BATCH_SIZE * BATCH_SIZE]


def run(library: Any, files: list[Any], *, rotate: bool) -> None:
    """Decode all files, and rotate them by random angles."""
    rng = library.random.RNG(seed=1)
    for start in range(0, len(files), BATCH_SIZE):
        images = library.decoders.image(library.as_batch(files[start : start + BATCH_SIZE]))
        if rotate:
            angles = library.random.uniform(range=[-30.0, 30.0], batch_size=BATCH_SIZE, rng=rng)
            images = library.rotate(images, angle=angles, fill_value=0)
        images.evaluate()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    files = photos(arguments.folder)
    libraries = [dynamic] if dali is None else [dynamic, dali]
    threads = dynamic.get_num_threads()
    print(f"{len(files)} photos, {sum(map(len, files)) // len(files)} bytes each, {threads} threads\n")
    print("| job | dynamic, images/s | DALI, images/s | of DALI's time |\n|---|--:|--:|--:|")
    for name, rotate in (("decode", False), ("decode and rotate", True)):
        times: list[list[float]] = [[] for _ in libraries]
        for round in range(arguments.rounds + 1):
            order = random.Random(round).sample([*zip(times, libraries, strict=True)], len(libraries))
            for number, (column, library) in enumerate(order):
                new = renamed(files, len(libraries) * round + number)
                start = time.perf_counter()
                run(library, new, rotate=rotate)
                if round:  # the first one warms up
                    column.append(time.perf_counter() - start)
        cells = [name, *(f"{len(files) / statistics.median(column):,.0f}" for column in times)]
        known = f"{statistics.median(a / b for a, b in zip(*times, strict=True)):.3f}" if dali is not None else "| "
        print(f"| {' | '.join([*cells, known])} |")


if __name__ == "__main__":
    main()
