"""What storage on a GPU costs: batches of many tensors, moves, and the host's time for a call.

Host times are the median of many calls without waiting for the GPU in between; rates are for whole moves.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

STAND_IN = "--stand-in" in sys.argv
MANY, BATCH, SIDE = (50, 16, 32) if STAND_IN else (1000, 256, 500)


@contextlib.contextmanager
def gpu() -> Iterator[tuple[Any, Any]]:
    """cupy, and torch where it has CUDA; or what stands in for them."""
    if not STAND_IN:
        import cupy

        try:
            import torch
        except ImportError:
            yield cupy, None
            return
        yield cupy, torch if torch.cuda.is_available() else None
        return
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import twin

    with twin.with_gpu(), twin.with_torch() as torch:
        import cupy

        yield cupy, torch


def median(call: Callable[[], Any], wait: Callable[[], None], repeats: int, *, to_the_end: bool) -> float:
    """Seconds of a call: until it returns, or until the GPU is done."""
    times = []
    for _ in range(repeats + 3):
        wait()
        begun = time.perf_counter()
        kept = call()
        if to_the_end:
            wait()
        times.append(time.perf_counter() - begun)
        del kept
    return statistics.median(times[3:])


def main() -> None:
    import dynamic

    with gpu() as (cupy, torch):
        wait = cupy.cuda.Device(0).synchronize
        rng = numpy.random.default_rng(0)
        repeats = 3 if STAND_IN else 50
        rows: list[tuple[str, str]] = []

        def host(name: str, call: Callable[[], Any]) -> float:
            seconds = median(call, wait, repeats, to_the_end=False)
            rows.append((name, f"{seconds * 1e6:10.1f} us"))
            return seconds

        def rate(name: str, nbytes: int, call: Callable[[], Any]) -> None:
            seconds = median(call, wait, max(3, repeats // 5), to_the_end=True)
            rows.append((name, f"{nbytes / seconds / 1e9:10.1f} GB/s, {seconds * 1e3:.2f} ms"))

        shapes = [(int(h), int(w), 3) for h, w in rng.integers(SIDE // 2, SIDE, (MANY, 2))]
        there = [cupy.empty(shape, numpy.uint8) for shape in shapes]
        if torch is not None:
            tensors = [torch.from_dlpack(array) for array in there]
            host(f"as_batch of {MANY} torch CUDA tensors", lambda: dynamic.as_batch(tensors))
            host("  the same through __dlpack__ of each", lambda: [cupy.from_dlpack(t) for t in tensors])
        host(f"as_batch of {MANY} CuPy arrays", lambda: dynamic.as_batch(there))
        b = dynamic.as_batch(there)
        nbytes = sum(int(array.nbytes) for array in there)
        rate(f"gather {MANY} arrays into one buffer (read and written)", 2 * nbytes,
             lambda: b.to_device("gpu", force_copy=True))  # fmt: skip
        rate("  the same by a plain copy of as many bytes", 2 * nbytes, cupy.empty(nbytes, numpy.uint8).copy)

        images = [rng.integers(0, 255, shape, numpy.uint8) for shape in shapes[:BATCH]]
        ragged = dynamic.as_batch(images)
        size = sum(image.nbytes for image in images)
        rate(f"{BATCH} ragged images to the GPU", size, ragged.gpu)
        moved = ragged.gpu()
        rate(f"{BATCH} ragged images from the GPU", size, moved.cpu)
        whole = dynamic.as_batch(numpy.zeros((BATCH, SIDE, SIDE, 3), numpy.uint8))
        rate(f"{BATCH} images of one shape to the GPU", whole.whole.nbytes, whole.gpu)

        uniform = dynamic.as_batch(numpy.zeros((BATCH, 8, 8, 3), numpy.uint8)).gpu()
        host("t[0] of a Batch on the GPU", lambda: moved[0])
        host("t + 1 on the GPU, one array", lambda: uniform + 1)
        host(f"Batch + 1 on the GPU, {BATCH} ragged samples", lambda: moved + 1)
        host(f"cast of {BATCH} images of one shape", lambda: dynamic.cast(uniform, dtype="float32"))
        for name in ("flip", "rotate"):
            function = getattr(dynamic, name)
            arguments = {"angle": 10.0} if name == "rotate" else {}
            if "gpu" in function.devices:
                host(f"{name} of {BATCH} ragged images", lambda f=function, a=arguments: f(moved, **a))
                host(f"{name} of {BATCH} images of one shape", lambda f=function, a=arguments: f(uniform, **a))
        for name, figure in rows:
            print(f"{name:60s} {figure}")


if __name__ == "__main__":
    main()
