"""What a call costs before any pixel is touched: this library against NVIDIA DALI's dynamic mode, interleaved.

    python benchmarks/overhead.py [--rounds 15] [--mode eager]

Run it in an environment that has both (`pip install nvidia-dali-cuda120` works without a GPU); without DALI it prints
this library's times alone. Each case runs in both libraries in random order, round after round, so that a busy machine
slows both; the ratio is the median over the rounds of ours to DALI's. DALI runs in its default mode, `eager`, unless
another is named, and its results are waited for, so that both do all of the work.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy

import dynamic

try:
    import nvidia.dali.experimental.dynamic as dali
except ImportError:
    dali = None
try:
    import torch
except ImportError:
    torch = None

Case = tuple[str, Callable[[Any], Any], float | None]


def cases() -> list[Case]:
    """Name, call, and the ratio to stay below."""
    arrays = [numpy.zeros((32, 32, 3), numpy.uint8) for _ in range(1000)]
    whole = numpy.zeros((16, 32, 32, 3), numpy.uint8)
    small = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    made: dict[Any, dict[str, Any]] = {}

    def of(library: Any) -> dict[str, Any]:
        """Tensors and batches of a library, made once."""
        if library not in made:
            made[library] = {
                "tensor": library.tensor(small),
                "batch": library.batch(whole),
                "rng": library.random.RNG(seed=1),
            }
        return made[library]

    found: list[Case] = [
        ("as_tensor(ndarray)", lambda x: x.as_tensor(arrays[0]), 1),
        ("as_batch(64 arrays)", lambda x: x.as_batch(arrays[:64]), 1),
        ("as_batch(1000 arrays)", lambda x: x.as_batch(arrays), 1),
        ("t[0]", lambda x: of(x)["tensor"][0].evaluate(), 0.1),
        ("t + 1", lambda x: (of(x)["tensor"] + 1).evaluate(), 0.1),
        ("random.uniform(batch_size=64)", lambda x: x.random.uniform(
            range=[-30.0, 30.0], batch_size=64, rng=of(x)["rng"]).evaluate(), 1),
        ("flip of 16 images of 32 x 32", lambda x: x.flip(of(x)["batch"]).evaluate(), 0.1),
    ]  # fmt: skip
    if torch is not None:
        tensors = [torch.zeros(32, 32, 3, dtype=torch.uint8) for _ in range(1000)]
        found.insert(3, ("as_batch(64 torch tensors)", lambda x: x.as_batch(tensors[:64]), 1))
        found.insert(4, ("as_batch(1000 torch tensors)", lambda x: x.as_batch(tensors), 1))
    return found


def seconds(call: Callable[[], Any], at_least: float = 0.002) -> float:
    """Time of one call, from as many as take a while."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        elapsed = time.perf_counter() - start
        if elapsed >= at_least:
            return elapsed / count
        count *= 4


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mode", default="eager", choices=["eager", "sync_cpu"], help="DALI's evaluation mode")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    libraries = [dynamic] if dali is None else [dynamic, dali]
    if dali is None:
        print("DALI is not installed here: no ratios.")
    else:
        dali.EvalMode[arguments.mode].__enter__()
        print(f"DALI in mode {arguments.mode}, {rounds} rounds\n")
    print("| call | ours, us | DALI, us | ratio | goal |\n|---|--:|--:|--:|--:|")
    for name, call, limit in cases():
        times: list[list[float]] = [[] for _ in libraries]
        for library in libraries:
            call(library)
        for round in range(rounds):
            for column, library in random.Random(round).sample([*zip(times, libraries, strict=True)], len(libraries)):
                column.append(seconds(lambda call=call, library=library: call(library)))
        medians = [statistics.median(column) * 1e6 for column in times]
        cells = [name, *(f"{median:.1f}" for median in medians)]
        if dali is not None:
            ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
            cells += [f"{ratio:.3f}", f"{limit:.2f}{'' if ratio < limit else ', missed'}"]
        print(f"| {' | '.join(cells + (5 - len(cells)) * [''])} |")


if __name__ == "__main__":
    main()
