"""Samples drawn by weights: their shares over a million draws, and the time of a million samples.

    python benchmarks/chances.py

Shares are compared with the weights by chi-square. Times are of the process, the least of five; where torch is
installed, its WeightedRandomSampler draws as many. Memory is what is
allocated for the weights and the order of an epoch.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy

from dynamic import readers
from dynamic.readers._place import Place

DRAWS = SAMPLES = 1_000_000
WEIGHTS = {"once": 1, "twice": 2, "five": 5, "tenth": 0.1, "never": 0, "most": 91.9}


def least(function: Callable[[], Any], times: int = 5) -> float:
    """The least seconds of a process that a function takes."""
    found = []
    for _ in range(times):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def shares() -> None:
    """The table of shares."""
    weights = numpy.array(list(WEIGHTS.values()))
    expected = weights / weights.sum()
    reader = readers.Map(dataset=numpy.arange(len(weights)), weights=weights, num_samples=DRAWS, seed=1)
    drawn = numpy.bincount(reader._order(Place(0, 0)), minlength=len(weights))
    alone = readers.Map(dataset=numpy.arange(len(weights)), weights=weights, replacement=False, num_samples=1, seed=1)
    chances = alone._drawn
    assert chances is not None
    first = numpy.bincount([int(chances.order(1, e)[0]) for e in range(DRAWS // 10)], minlength=len(weights))
    print("| weight | share that is due | with replacement | first, without |\n|---|---|---|---|")
    for weight, due, one, other in zip(weights, expected, drawn / drawn.sum(), first / first.sum(), strict=True):
        print(f"| {weight:g} | {due:.4%} | {one:.4%} | {other:.4%} |")
    there = weights > 0
    for name, counts in (("with replacement", drawn), ("first without", first)):
        due = counts.sum() * expected[there]
        chi = float(((counts[there] - due) ** 2 / due).sum())
        print(f"chi-square {name}: {chi:.2f}, {there.sum() - 1} degrees of freedom, {counts.sum():,} draws")


def times() -> None:
    """The table of times."""
    weights = numpy.random.default_rng(0).random(SAMPLES)
    data = numpy.arange(SAMPLES)
    rows: dict[str, float] = {"listed, without weights": least(lambda: readers.Map(dataset=data))}
    rows["made of an array of weights"] = least(lambda: readers.Map(dataset=data, weights=weights))
    rows["made of a function of each row"] = least(lambda: readers.Map(dataset=data, weights=lambda row: row + 1.0), 1)
    rows["where, a function of each row"] = least(lambda: readers.Map(dataset=data, where=lambda row: bool(row % 2)), 1)
    for how, replacement in (("with", True), ("without", False)):
        tracemalloc.start()
        drawn = readers.Map(dataset=data, weights=weights, replacement=replacement)._drawn
        assert drawn is not None
        drawn.order(1, 3)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"memory, {how} replacement: at most {peak:.0f} MiB")
        rows[f"the order of an epoch, {how} replacement"] = least(lambda drawn=drawn: drawn.order(1, 3))  # type: ignore[misc]
    plain = readers.Map(dataset=data, random_shuffle=True)
    rows["the order of an epoch, shuffled"] = least(lambda: plain._orders.clear() or plain._order(Place(1, 0)))  # type: ignore[func-returns-value]
    reader = readers.Map(dataset=data, weights=weights)
    reader.get_state()
    rows["a state"] = least(reader.get_state)
    try:
        import torch
    except ImportError:
        print("torch is not installed")
    else:
        for how, replacement in (("with", True), ("without", False)):
            sampler = torch.utils.data.WeightedRandomSampler(weights.tolist(), SAMPLES, replacement)
            rows[f"torch's WeightedRandomSampler, {how} replacement"] = least(lambda sampler=sampler: list(sampler))  # type: ignore[misc]
    print("| a million samples | seconds of a process |\n|---|---|")
    for name, seconds in rows.items():
        print(f"| {name} | {seconds:.3f} |")


if __name__ == "__main__":
    shares()
    times()
