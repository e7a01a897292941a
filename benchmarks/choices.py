"""What choices of `docs/decisions` are worth: calls with each of them and without it, interleaved.

    python benchmarks/choices.py [--rounds 15]

A choice is undone by another value in the place of one of the library. The ratio is the median over the rounds of the
time without it to the time with it: of CPU on one thread, or, for choices about threads, of the wall clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy

import dynamic as ndd
from dynamic import _core
from dynamic._arrays import memory
from dynamic._base import pool
from dynamic._core import resize
from dynamic._lift import kernels
from dynamic.kernels.cpu import color, maps, resizer, warp


class Choice(NamedTuple):
    """A choice, and how it is undone."""

    name: str
    holder: Any
    attribute: str
    other: Any
    call: Callable[[], object]
    clock: Callable[[], float] = time.process_time


def cropped(photos: ndd.Batch) -> ndd.Batch:
    """Random windows of photos, always the same."""
    found: ndd.Batch = ndd.random_resized_crop(photos, size=(224, 224), rng=ndd.random.RNG(1))
    return found


def without_core(call: Callable[[], object]) -> Callable[[], object]:
    """A call without the native library."""

    def done() -> object:
        with _core.left_out():
            return call()

    return done


def choices() -> list[Choice]:
    """All of them, each with a call that it is for."""
    generator = numpy.random.default_rng(1)
    photos = ndd.as_batch([generator.integers(0, 256, (375, 500, 3), numpy.uint8) for _ in range(64)], layout="HWC")
    whole = ndd.as_batch(generator.integers(0, 256, (256, 32, 32, 3), numpy.uint8), layout="HWC")
    separate = ndd.as_batch([sample.copy() for sample in whole.samples], layout="HWC")
    tiles = ndd.as_batch(generator.integers(0, 256, (64, 64, 64, 3), numpy.uint8), layout="HWC")
    boxes = ndd.as_batch([generator.random((1 + i % 7, 4), numpy.float32) for i in range(256)])
    large = ndd.as_batch(generator.integers(0, 256, (1, 1080, 1920, 3), numpy.uint8), layout="HWC")
    halves = photos.samples[0].astype(numpy.float16)
    return [
        Choice("flip: dense small images at once", ndd.flip, "unit", "sample", lambda: ndd.flip(whole)),
        Choice("flip: separate small images copied first", kernels, "GATHERED", 0, lambda: ndd.flip(separate)),
        Choice("bb_flip: rows of boxes joined", ndd.bb_flip, "unit", "array", lambda: ndd.bb_flip(boxes)),
        Choice("normalize: boxes in groups of a shape", kernels, "_GROUPED", 1 << 20, lambda: ndd.normalize(boxes)),
        Choice("copy of 64 x 64: one thread", pool, "_worth_sharing", 0, lambda: ndd.copy(tiles), time.perf_counter),
        Choice("rotate: a thread for each photo", pool, "_worth_sharing", 1 << 60, lambda: ndd.rotate(photos, angle=20),
               time.perf_counter),
        Choice("hsv: blocks of 2^17 pixels", color, "_STRIP", 1 << 14, lambda: ndd.hsv(photos, hue=9),
               time.perf_counter),
        Choice("water: blocks of 2^17 pixels", maps, "_BLOCK", 1 << 14, lambda: ndd.water(photos), time.perf_counter),
        Choice("arithmetic: 512 MB of blocks", memory, "_limit", 1 << 28, lambda: photos * 2.0 + 1.0),
        Choice("arithmetic: blocks used again", memory, "_taken", lambda _: None, lambda: photos * 2.0 + 1.0),
        Choice("rotate: a fourth channel", warp, "_MOST_WIDENED", 0, lambda: ndd.rotate(photos, angle=20)),
        Choice("warp_affine: a fourth channel", warp, "_MOST_WIDENED", 0,
               lambda: ndd.warp_affine(photos, matrix=[[0.9, 0.1, 3], [-0.1, 0.9, 40]])),
        Choice("resize: natively", resize, "is_quick", lambda: False, lambda: ndd.resize(photos, size=(224, 224))),
        Choice("resize: a large photo natively", resize, "is_quick", lambda: False,
               lambda: ndd.resize(large, size=(224, 224))),
        Choice("random_resized_crop: natively", resize, "is_quick", lambda: False, lambda: cropped(photos)),
        Choice("resize: a large photo in Pillow's memory", resizer, "_pillow", lambda: None,
               without_core(lambda: ndd.resize(large, size=(224, 224)))),
        Choice("random_resized_crop: the same", resizer, "_pillow", lambda: None,
               without_core(lambda: cropped(photos)), time.perf_counter),
        Choice("cast of float16 by OpenCV", ndd.dtypes, "_MANY", 1 << 60, lambda: ndd.cast(halves, dtype="float32")),
    ]  # fmt: skip


def measured(choice: Choice, rounds: int) -> tuple[float, float]:
    """Seconds of the call, and how many times as long it takes without the choice."""
    ndd.set_num_threads(1 if choice.clock is time.process_time else None)
    times: list[float] = []
    ratios: list[float] = []
    for _ in range(rounds + 1):
        took = _time(choice)
        with patch.object(choice.holder, choice.attribute, choice.other):
            ratios.append(_time(choice) / took)
        times.append(took)
    return statistics.median(times[1:]), statistics.median(ratios[1:])


def _time(choice: Choice) -> float:
    """Seconds of a call, after one that nobody counts."""
    memory._loans.clear()  # blocks that are known under another bound
    memory._free.clear()
    memory._kept = 0
    choice.call()
    start, calls = choice.clock(), 0
    while calls < 3 or choice.clock() - start < 0.02:
        choice.call()
        calls += 1
    return (choice.clock() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description="What choices of docs/decisions are worth.")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{'':44}{'ms':>9}  without it")
    for choice in choices():
        seconds, ratio = measured(choice, rounds)
        print(f"{choice.name:44}{seconds * 1e3:9.3f}{ratio:12.2f}", flush=True)


if __name__ == "__main__":
    main()
