"""What a trainer waits for: JPEG bytes to normalised float32 CHW batches of 64 random crops of 224 x 224.

    python benchmarks/training.py [--rounds 7] [--threads 2]

Against NVIDIA DALI's dynamic mode (as many threads), torch's DataLoader with Pillow or albumentations (as many worker
processes), and decoding alone, which nobody can undercut; interleaved. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy

BATCH_SIZE, SIZE = 64, 224
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]


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


def batches_of(data: list[Any]) -> Iterator[list[Any]]:
    """The files, so many at a time."""
    return (data[start : start + BATCH_SIZE] for start in range(0, len(data), BATCH_SIZE))


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


def stages(library: Any, data: list[Any], rounds: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds an image of each step of the job, wall and CPU, in batches."""
    rng, found = library.random.RNG(seed=1), {}

    def step(name: str, call: Callable[[], Any]) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        result = call()
        result.evaluate()
        found.setdefault(name, []).append((time.perf_counter() - start, time.process_time() - cpu))
        return result

    for round in range(rounds + 1):
        encoded = library.as_batch(renamed(data[:BATCH_SIZE], round))
        images = step("decode", functools.partial(library.decoders.image, encoded))
        crop = functools.partial(library.random_resized_crop, images, size=[SIZE, SIZE], rng=rng)
        windows = step("random_resized_crop", crop)
        mirror = library.random.coin_flip(batch_size=BATCH_SIZE, rng=rng).evaluate()
        how = {"mirror": mirror, "mean": MEAN, "std": STD}
        step("crop_mirror_normalize", functools.partial(library.crop_mirror_normalize, windows, **how))
    return {name: tuple(statistics.median(column) / BATCH_SIZE * 1e3 for column in zip(*times[1:], strict=True))
            for name, times in found.items()}  # fmt: skip


def run_decoding(data: list[Any], pool: ThreadPoolExecutor, threads: int) -> None:
    """Only decode, with libjpeg-turbo."""
    import simplejpeg

    def some(part: list[Any]) -> None:
        for file in part:
            simplejpeg.decode_jpeg(file)

    for part in batches_of(data):
        list(pool.map(some, [part[k::threads] for k in range(threads)]))


def window(generator: Any, height: int, width: int) -> tuple[int, int, int, int]:
    """A random window as most libraries draw it: left, upper, right, lower."""
    for _ in range(10):
        area = generator.uniform(0.08, 1) * height * width
        ratio = numpy.exp(generator.uniform(numpy.log(3 / 4), numpy.log(4 / 3)))
        w, h = round(float(numpy.sqrt(area * ratio))), round(float(numpy.sqrt(area / ratio)))
        if 0 < w <= width and 0 < h <= height:
            x, y = generator.integers(0, width - w + 1), generator.integers(0, height - h + 1)
            return int(x), int(y), int(x + w), int(y + h)
    return 0, 0, width, height


class OfPillow:
    """A dataset of torch: the job with Pillow, one image at a time."""

    def __init__(self, data: list[Any]) -> None:
        self.data = data
        self.generator = numpy.random.default_rng(1)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        from PIL import Image

        image = Image.open(io.BytesIO(self.data[i].tobytes())).convert("RGB")
        box = window(self.generator, image.height, image.width)
        image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
        if self.generator.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = numpy.asarray(image, numpy.float32)
        normal = (pixels - numpy.float32(MEAN)) / numpy.float32(STD)
        return numpy.ascontiguousarray(normal.transpose(2, 0, 1))


class OfAlbumentations(OfPillow):
    """The same with albumentations, whose resizing does not antialias."""

    def __getitem__(self, i: int) -> Any:
        import albumentations
        import cv2

        if not hasattr(self, "transform"):
            cv2.setNumThreads(0)
            mean, std = ([value / 255 for value in values] for values in (MEAN, STD))
            self.transform = albumentations.Compose([
                albumentations.RandomResizedCrop(size=(SIZE, SIZE)), albumentations.HorizontalFlip(),
                albumentations.Normalize(mean=mean, std=std)])  # fmt: skip
        image = cv2.imdecode(self.data[i], cv2.IMREAD_COLOR_RGB)
        return numpy.ascontiguousarray(self.transform(image=image)["image"].transpose(2, 0, 1))


def loader(dataset: Any, workers: int) -> Callable[[], None]:
    """Iterates over a dataset in batches, in worker processes that are started now."""
    import torch

    batches = torch.utils.data.DataLoader(dataset, BATCH_SIZE, num_workers=workers, persistent_workers=True)

    def run() -> None:
        for _ in batches:
            pass

    run()
    return run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    originals = files()
    data = originals.copy()
    ways: dict[str, Callable[[], Any]] = {}
    if imported("torch") is not None:  # first of all, before there are threads that a fork would lose
        if imported("PIL") is not None:
            ways["torch DataLoader, Pillow"] = loader(OfPillow(data), options.threads)
        if imported("albumentations") is not None:
            ways["torch DataLoader, albumentations"] = loader(OfAlbumentations(data), options.threads)
    import dynamic

    dynamic.set_num_threads(options.threads)
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
    print(f"{len(data)} JPEG photos of 500 x 375, {mean} bytes each, {options.threads} threads")
    print(f"{'':36}{'images/s':>10}{'dynamic is':>14}")
    for name, found in times.items():
        gain = statistics.median(b / a for a, b in zip(times["dynamic"], found, strict=True))
        print(f"{name:36}{len(data) / statistics.median(found):10.0f}{gain:9.2f} x as fast")
    for name, library in eager.items():
        print(f"{name}, ms an image, CPU (wall): ", end="")
        told = stages(library, data, 2 * options.rounds).items()
        print(", ".join(f"{step} {cpu:.2f} ({wall:.2f})" for step, (wall, cpu) in told))


if __name__ == "__main__":
    main()
