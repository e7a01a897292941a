"""How a job scales with cores, on a machine of few: libraries sleep as long as they would work.

    python benchmarks/cores.py [--threads 1 2 4 8 16 32 64] [--rounds 5] [--only "main job, 64"] [--without-core]

First the time of every call of a library that lets go of the interpreter's lock is measured: of simplejpeg, OpenCV,
cykooz-resizer, and of the jobs of the native library. Then these calls sleep so long instead. All that holds the lock
is done as always, so threads beyond the cores of this machine show how more cores would do.

The lock's share is told by two methods: the CPU time of one thread if these calls do nothing, and samples of the thread
that holds the lock, by py-spy where it is installed (`pip install py-spy`).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy
import simplejpeg
from rivals import MEAN, SIZE, STD
from training import files, renamed

import dynamic
from dynamic import _core
from dynamic._base import pool
from dynamic._core import _library, jpeg
from dynamic.kernels.cpu import resizer

ROOT = Path(__file__).parent.parent
AS_IS, MEASURED, SLEEPING, NOTHING = range(4)  # of `core_measure` in measured.h, too
RATE = 500  # samples a second
OPENCV = ("cvtColor", "copyMakeBorder", "flip", "LUT", "warpAffine", "remap", "resize", "merge", "split", "transform",
          "multiply", "subtract", "add", "convertScaleAbs", "GaussianBlur", "sepFilter2D", "mixChannels")  # fmt: skip


class Library:
    """Functions that can be replaced by sleeps.

    Attributes:
        mode: One of the four above.
    """

    def __init__(self) -> None:
        self.mode = AS_IS
        self._spent: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # nanoseconds and calls
        self._results: dict[Any, Any] = {}

    def replaced(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that does as the mode says."""
        spent = self._spent[name]

        def call(*arguments: Any, **named: Any) -> Any:
            if self.mode == AS_IS:
                return function(*arguments, **named)
            key = name, *(each.shape if isinstance(each, numpy.ndarray) else None for each in arguments)
            target = named.get("dst", named.get("buffer"))
            if self.mode == MEASURED:
                start = time.thread_time_ns()
                result = function(*arguments, **named)
                spent[0] += time.thread_time_ns() - start
                spent[1] += 1
                self._results[key] = result
                return result
            if target is None and key not in self._results:
                self._results[key] = function(*arguments, **named)
            elif self.mode == SLEEPING and spent[1]:
                time.sleep(spent[0] / spent[1] * 1e-9)
            return self._results[key] if target is None else target

        return call


class Resizer:
    """The resizer of a thread, replaced."""

    def __init__(self, library: Library, inner: Any) -> None:
        self.resize_pil = library.replaced("resize_pil", inner.resize_pil)
        self.resize = library.replaced("resize", inner.resize)


def replace_libraries() -> Callable[[int], None]:
    """Replace the functions of libraries, and return a function that sets the mode of all."""
    library = Library()
    simplejpeg.decode_jpeg = library.replaced("decode_jpeg", simplejpeg.decode_jpeg)
    for name in OPENCV:
        setattr(cv2, name, library.replaced(name, getattr(cv2, name)))
    made = resizer._Resizer.__init__

    def make(self: Any) -> None:
        made(self)
        self._resizer = Resizer(library, self._resizer)

    resizer._Resizer.__init__ = make
    decode = jpeg.Files.decode

    def all_done(self: Any, *arguments: Any, **named: Any) -> Any:
        done = decode(self, *arguments, **named)
        return done if library.mode in (AS_IS, MEASURED) else numpy.ones_like(done)  # else Python decodes them again

    jpeg.Files.decode = all_done

    def set_mode(mode: int) -> None:
        library.mode = mode
        if _core.in_use():
            _core.function("core_measure", ctypes.c_int)(mode)

    return set_mode


@contextlib.contextmanager
def measured_core() -> Iterator[None]:
    """Use a native library whose jobs can sleep; it is compiled here."""
    described = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert described is not None
    assert described.loader is not None
    hook = importlib.util.module_from_spec(described)
    described.loader.exec_module(hook)
    with tempfile.TemporaryDirectory() as folder:
        hook.build(Path(folder), (f'-DCORE_RUN="{Path(__file__).parent / "measured.h"}"',))
        _library._FOLDER = Path(folder)
        yield


def run(data: list[Any], size: int, how: str) -> None:
    """A job on all files, in batches of a size."""
    rng = dynamic.random.RNG(seed=1)
    for start in range(0, len(data), size):
        part = data[start : start + size]
        encoded = dynamic.as_batch(part)
        if how == "rotate":
            angles = dynamic.random.uniform(range=[-30.0, 30.0], batch_size=len(part), rng=rng)
            dynamic.rotate(dynamic.decoders.image(encoded), angle=angles, fill_value=0)
            continue
        if how == "windows":
            images = dynamic.resize(dynamic.decoders.image_random_crop(encoded, rng=rng), size=[SIZE, SIZE])
        else:
            images = dynamic.random_resized_crop(dynamic.decoders.image(encoded), size=[SIZE, SIZE], rng=rng)
        mirror = dynamic.random.coin_flip(batch_size=len(part), rng=rng)
        dynamic.crop_mirror_normalize(images, mirror=mirror, mean=MEAN, std=STD)


JOBS = {
    "main job, 64": (64, "main"),
    "main job, 256": (256, "main"),
    "main job, 8": (8, "main"),
    "windows, 64": (64, "windows"),
    "decode + rotate, 8": (8, "rotate"),
    "decode + rotate, 64": (64, "rotate"),
}


def with_threads(count: int) -> None:
    """Use so many threads, as on a machine that has as many cores."""
    dynamic.set_num_threads(count)
    pool._processors = lambda: count


def images_a_second(data: list[Any], job: tuple[int, str], rounds: int) -> float:
    """The median over rounds, each of files that nobody has seen."""
    found = []
    for number in range(rounds):
        new = renamed(data, time.monotonic_ns() + number)
        start = time.perf_counter()
        run(new, *job)
        found.append(len(new) / (time.perf_counter() - start))
    return statistics.median(found)


def by_itself(data: list[Any], job: tuple[int, str], rounds: int) -> float:
    """Microseconds of CPU an image, in one thread."""
    found = []
    for number in range(rounds):
        new = renamed(data, time.monotonic_ns() + number)
        start = time.process_time()
        run(new, *job)
        found.append((time.process_time() - start) / len(new) * 1e6)
    return statistics.median(found)


def held(name: str, seconds: float = 8) -> float | None:
    """Microseconds an image in which some thread of two holds the lock, by samples of py-spy; None without it."""
    program = shutil.which("py-spy")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        counts, samples = Path(folder) / "counts", Path(folder) / "samples"
        child = [sys.executable, __file__, "--only", name, "--child", str(counts), "--seconds", str(seconds)]
        how = ["--gil", "--nonblocking", "--rate", str(RATE), "--format", "raw", "--output", str(samples)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([program, "record", *how, "--", *child], check=True, capture_output=True, env=environment)
        lines = samples.read_text().splitlines()
        taken = sum(int(line.rsplit(" ", 1)[1]) for line in lines if "images_a_second" in line)
        return taken / RATE / int(counts.read_text()) * 1e6


def child(name: str, counts: Path, seconds: float) -> None:
    """Run a job for some seconds, and write the number of images."""
    data, size, start = files()[:256], 0, time.perf_counter()
    with_threads(2)
    while time.perf_counter() - start < seconds:
        images_a_second(data, JOBS[name], 1)
        size += len(data)
    counts.write_text(str(size))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=JOBS)
    parser.add_argument("--without-core", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=8, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.without_core:
        os.environ["DYNAMIC_CORE"] = "0"
    if options.child is not None:
        child(options.only[0], options.child, options.seconds)
        return
    jobs = {name: JOBS[name] for name in options.only}
    sampled = {name: held(name) for name in jobs}
    data = files()[:256]
    with contextlib.nullcontext() if options.without_core else measured_core():
        set_mode = replace_libraries()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK, for threads made from now on: sleeps end in time
        with_threads(1)
        print(f"{len(data)} photos of 500 x 375, native library: {_core.info()['native library']}\n")
        print("| us an image, one thread | all | Python's own | lock held, sampled |\n|---|--:|--:|--:|")
        rates: dict[str, list[float]] = {}
        for name, job in jobs.items():
            run(data, *job)
            set_mode(MEASURED)
            whole = by_itself(data, job, options.rounds)
            set_mode(NOTHING)
            own = by_itself(data, job, options.rounds)
            by_samples = "py-spy is missing" if sampled[name] is None else f"{sampled[name]:.0f}"
            print(f"| {name} | {whole:.0f} | {own:.0f} | {by_samples} |", flush=True)
            set_mode(SLEEPING)
            rates[name] = []
            for count in options.threads:
                with_threads(count)
                rates[name].append(images_a_second(data, job, options.rounds))
            with_threads(1)
            set_mode(AS_IS)
        print("\n| images/s (times one thread) | " + " | ".join(map(str, options.threads)) + " |")
        print("|---|" + len(options.threads) * "--:|")
        for name, found in rates.items():
            print(f"| {name} | " + " | ".join(f"{rate:,.0f} ({rate / found[0]:.1f})" for rate in found) + " |")


if __name__ == "__main__":
    main()
