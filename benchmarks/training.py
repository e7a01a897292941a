"""What a trainer waits for: JPEG bytes to normalised float32 CHW batches of 64 random crops of 224 x 224.

    python benchmarks/training.py [--rounds 7] [--threads 2]

Against NVIDIA DALI's dynamic and pipeline modes, SPDL and Grain (as many threads), torch's DataLoader with Pillow,
albumentations, torchvision or a data set of Hugging Face (as many worker processes), and decoding alone, which nobody
can undercut; interleaved. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
from rivals import BATCH_SIZE, MEAN, RIVALS, SIZE, STD, batches_of


def imported(name: str) -> Any:
    """A library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def files() -> list[Any]:
    """256 JPEG photos of 500 x 375, as arrays of their bytes."""
    import cv2

    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from photos import make

    with tempfile.TemporaryDirectory() as folder:
        paths = sorted(make(Path(folder)).glob("*/*.jpg"))
        images = [cv2.resize(cv2.imread(str(path)), (500, 375)) for path in paths]
    encoded = [cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].ravel() for image in images]
    return [file for number in range(256 // len(encoded) + 1) for file in renamed(encoded, number)][:256]


def renamed(files: list[Any], number: int) -> list[Any]:
    """The same photos as files that nobody has seen: what was remembered of their headers helps no one, as in an epoch.

    Each gets a comment, the bytes after FF FE, behind its first marker.
    """
    comment = numpy.frombuffer(b"\xff\xfe\0\x0a" + number.to_bytes(8, "big"), numpy.uint8)
    return [numpy.concatenate([file[:2], comment, file[2:]]) for file in files]


def run_eagerly(library: Any, data: list[Any], *, crop_when_decoding: bool = False) -> None:
    """The job in dynamic mode: ours, or DALI's."""
    rng = library.random.RNG(seed=1)
    for part in batches_of(data):
        encoded = library.as_batch(part)
        if crop_when_decoding:
            images = library.resize(library.decoders.image_random_crop(encoded, rng=rng), size=[SIZE, SIZE])
        else:
            images = library.random_resized_crop(library.decoders.image(encoded), size=[SIZE, SIZE], rng=rng)
        mirror = library.random.coin_flip(batch_size=len(part), rng=rng)
        library.crop_mirror_normalize(images, mirror=mirror, mean=MEAN, std=STD).evaluate()


def stages(libraries: dict[str, Any], data: list[Any], rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Median milliseconds an image of each step of the job by library, wall and CPU, in batches."""
    rngs = {name: library.random.RNG(seed=1) for name, library in libraries.items()}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}

    def step(name: str, call: Callable[[], Any]) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        result = call()
        result.evaluate()
        spent = time.perf_counter() - start, time.process_time() - cpu
        found.setdefault(name, {}).setdefault(who, []).append(spent)
        return result

    order = [name for round in range(rounds + 1) for name in random.Random(round).sample([*libraries], len(libraries))]
    for number, who in enumerate(order):
        library = libraries[who]
        rng, encoded = rngs[who], library.as_batch(renamed(data[:BATCH_SIZE], number))
        images = step("decode", functools.partial(library.decoders.image, encoded))
        crop = functools.partial(library.random_resized_crop, images, size=[SIZE, SIZE], rng=rng)
        windows = step("random_resized_crop", crop)
        mirror = library.random.coin_flip(batch_size=BATCH_SIZE, rng=rng).evaluate()
        how = {"mirror": mirror, "mean": MEAN, "std": STD}
        step("crop_mirror_normalize", functools.partial(library.crop_mirror_normalize, windows, **how))
    return {name: {who: tuple(statistics.median(column) / BATCH_SIZE * 1e3 for column in zip(*some[1:], strict=True))
                   for who, some in times.items()} for name, times in found.items()}  # fmt: skip


def run_decoding(data: list[Any], pool: ThreadPoolExecutor, threads: int) -> None:
    """Only decode, with libjpeg-turbo."""
    import simplejpeg

    def some(part: list[Any]) -> None:
        for file in part:
            simplejpeg.decode_jpeg(file)

    for part in batches_of(data):
        list(pool.map(some, [part[k::threads] for k in range(threads)]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", nargs="*", default=[], help="words of the rivals' names; by default all")
    options = parser.parse_args()
    originals = files()
    data = originals.copy()
    ways: dict[str, Callable[[], Any]] = {}
    for name, rival in RIVALS.items():  # those with processes first, before there are threads that a fork would lose
        if not options.only or any(word in name for word in options.only):
            try:
                ways[name] = rival(data, options.threads)
            except ImportError as error:
                print(f"left out: {name} ({error})", file=sys.stderr)
    import dynamic

    eager = {"dynamic": dynamic, "DALI": imported("nvidia.dali.experimental.dynamic")}
    eager = {name: library for name, library in eager.items() if library is not None}
    for name, library in eager.items():
        library.set_num_threads(options.threads)
        ways[name] = functools.partial(run_eagerly, library, data)
        ways[f"{name}, cropped while decoding"] = functools.partial(run_eagerly, library, data, crop_when_decoding=True)
    with ThreadPoolExecutor(options.threads) as pool:
        ways["decoding alone (libjpeg-turbo)"] = lambda: run_decoding(data, pool, options.threads)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for round in range(options.rounds + 1):
            order = random.Random(round).sample(list(ways.items()), len(ways))  # nobody always comes after the same one
            for number, (name, way) in enumerate(order):
                data[:] = renamed(originals, len(ways) * round + number)
                start = time.perf_counter()
                way()
                if round:
                    times[name].append(time.perf_counter() - start)
    mean = sum(map(len, data)) // len(data)
    print(f"{len(data)} JPEG photos of 500 x 375, {mean} bytes each, {options.threads} threads or workers\n")
    ours = times["dynamic"], times["dynamic, cropped while decoding"]
    print("| | images/s | dynamic is ... as fast | with windows |\n|---|--:|--:|--:|")
    for name, found in sorted(times.items(), key=lambda each: -statistics.median(each[1])):
        gains = [statistics.median(b / a for a, b in zip(mine, found, strict=True)) for mine in ours]
        rate = len(data) / statistics.median(found)
        print(f"| {name} | {rate:,.0f} | {' | '.join(f'{gain:.2f}' for gain in gains)} |")
    print("\n| ms an image, CPU (wall) | " + " | ".join(eager) + " |\n|---|" + len(eager) * "--:|")
    for step, told in stages(eager, data, 2 * options.rounds).items():
        print(f"| {step} | " + " | ".join(f"{told[name][1]:.2f} ({told[name][0]:.2f})" for name in eager) + " |")


if __name__ == "__main__":
    main()
