"""How much of a training loop `prefetch` hides: the main job beside a step that lets the processors go.

    python benchmarks/overlap.py [--step 0.75] [--rounds 5] [--batches 24]

The step sleeps for a share of the loader's time, as a host does that waits for a GPU. The plain loop takes loader and
step in turn; ahead, the shorter of the two should cost nothing. Hidden is the time that is saved, as a share of the
shorter one. Loops run in turn, round after round; the figures are medians.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy
from PIL import Image

import dynamic as ndd

BATCH = 16


def photos(folder: Path, count: int) -> None:
    """JPEG files of 400 x 300 pixels."""
    generator = numpy.random.default_rng(1)
    for i in range(count):
        data = io.BytesIO()
        small = Image.fromarray(generator.integers(0, 255, (30, 40, 3), numpy.uint8))
        small.resize((400, 300)).save(data, "JPEG")
        (folder / f"{i:05}.jpg").write_bytes(data.getvalue())


Loop = Callable[[], Iterable[Any]]


def main_job(folder: Path, count: int) -> tuple[Loop, Loop]:
    """A loop over an epoch of photos, as it stands and made ahead."""
    names = [f"{i:05}.jpg" for i in range(count)]
    reader = ndd.readers.File(files=names, file_root=folder, random_shuffle=True, seed=1)
    rng = ndd.random.RNG(seed=1)

    def step(batch: Any) -> Any:
        draws = rng.keyed(batch[0])
        images = ndd.decoders.image(batch[0])
        crops = ndd.random_resized_crop(images, size=(224, 224), rng=draws["crop"])
        mirror = ndd.random.coin_flip(rng=draws["mirror"])
        return ndd.crop_mirror_normalize(crops, mirror=mirror, mean=[0.0] * 3, std=[255.0] * 3)

    return lambda: map(step, reader.next_epoch(BATCH)), lambda: ndd.prefetch(reader.next_epoch(BATCH), step)


def waiting(batches: int) -> tuple[Loop, Loop]:
    """A loop whose loader waits 50 ms for each batch, as for storage."""
    reader = ndd.readers.Map(dataset=[numpy.float32(i) for i in range(batches)])

    def step(batch: Any) -> Any:
        time.sleep(0.05)
        return batch

    return lambda: map(step, reader.next_epoch(1)), lambda: ndd.prefetch(reader.next_epoch(1), step)


def timed(loop: Iterable[Any], sleep: float) -> float:
    """Seconds of a loop whose step sleeps."""
    start = time.perf_counter()
    for _ in loop:
        if sleep:
            time.sleep(sleep)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--step", type=float, default=0.75, help="of the loader's time: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    arguments = parser.parse_args()
    count = arguments.batches
    print(f"{'seconds':16}{'loader':>8}{'step':>8}{'plain':>8}{'ahead':>8}{'hidden':>10}")
    with tempfile.TemporaryDirectory() as temporary:
        photos(Path(temporary), count * BATCH)
        jobs = {"main job": main_job(Path(temporary), count * BATCH), "waiting loader": waiting(count)}
        for name, (plain, ahead) in jobs.items():
            timed(plain(), 0)
            rounds = []
            for _ in range(arguments.rounds):
                loader = timed(plain(), 0)
                sleep = arguments.step * loader / count
                step = timed(range(count), sleep)
                in_turn, overlapped = timed(plain(), sleep), timed(ahead(), sleep)
                rounds.append((loader, step, in_turn, overlapped, (in_turn - overlapped) / min(loader, step)))
            *seconds, hidden = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{name:16}" + "".join(f"{value:8.3f}" for value in seconds) + f"{hidden:10.1%}")


if __name__ == "__main__":
    main()
