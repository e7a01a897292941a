"""Python calls that common operations make, and the modules they enter: what a call costs before any pixel is touched.

    python benchmarks/calls.py [--list rotate]

Counted by `sys.setprofile` after a first call, on one thread, for 4 and for 64 images; functions of libraries written
in C do not count. `--list` prints the functions that one operation calls, most frequent first.
"""

from __future__ import annotations

import argparse
import collections
import io
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy
from PIL import Image

import dynamic as ndd

PACKAGE = pathlib.Path(ndd.__file__).parent


def operations(n: int, folder: pathlib.Path) -> dict[str, Callable[[], Any]]:
    """Operations on n images by name."""
    images = ndd.as_batch(numpy.zeros((n, 32, 48, 3), numpy.uint8), layout="HWC")
    ragged = ndd.as_batch([numpy.zeros((32, 48 + i % 3, 3), numpy.uint8) for i in range(n)], layout="HWC")
    arrays = [numpy.zeros((32, 48, 3), numpy.uint8) for _ in range(n)]
    angles = ndd.as_batch(numpy.linspace(1, 80, n, dtype=numpy.float32))
    image = images.samples[0]
    rng = ndd.random.RNG(seed=1)
    for name in "ab":
        (folder / name).mkdir(exist_ok=True)
    for i in range(4 * n):
        encoded = io.BytesIO()
        Image.fromarray(numpy.full((32, 48, 3), i, numpy.uint8)).save(encoded, "JPEG")
        (folder / "ab"[i % 2] / f"{i}.jpg").write_bytes(encoded.getvalue())
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=1)

    def batches() -> Iterator[Any]:
        while True:
            yield from reader.next_epoch(batch_size=n)

    stream = batches()

    def step() -> Any:
        files, _ = next(stream)
        return ndd.decoders.image(files)

    def save() -> None:
        ndd.checkpoint.save(folder / "state.json", reader=reader, rng=rng)

    def load() -> None:
        ndd.checkpoint.load(folder / "state.json", reader=reader, rng=rng)

    return {
        "rotate, angle=Batch": lambda: ndd.rotate(images, angle=angles),
        "rotate, ragged": lambda: ndd.rotate(ragged, angle=angles),
        "rotate of a Tensor": lambda: ndd.rotate(image, angle=30),
        "crop": lambda: ndd.crop(images, crop=(16, 16)),
        "crop, ragged": lambda: ndd.crop(ragged, crop=(16, 16)),
        "random_resized_crop": lambda: ndd.random_resized_crop(images, size=(24, 24), rng=rng),
        "uniform": lambda: ndd.random.uniform(range=(0, 1), batch_size=n, rng=rng),
        "as_batch": lambda: ndd.as_batch(arrays, layout="HWC"),
        "File step and decode": step,
        "save": save,
        "load": load,
    }


def counted(operation: Callable[[], Any]) -> collections.Counter[tuple[str, str]]:
    """How often each function of Python was called, by file and name."""
    calls: collections.Counter[tuple[str, str]] = collections.Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print the table, or the functions of one operation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", metavar="NAME", help="print the functions that an operation calls")
    arguments = parser.parse_args()
    ndd.set_num_threads(1)
    found: dict[str, list[tuple[int, int]]] = {}
    for n in (4, 64):
        with tempfile.TemporaryDirectory() as folder:
            for name, operation in operations(n, pathlib.Path(folder)).items():
                operation()
                calls = counted(operation)
                files = {file for file, _ in calls if pathlib.Path(file).is_relative_to(PACKAGE)}
                found.setdefault(name, []).append((sum(calls.values()), len(files)))
                if arguments.list == name and n == 4:
                    for (file, function), times in calls.most_common():
                        print(f"{times:5} {pathlib.Path(file).name}:{function}")
    if arguments.list is None:
        print(f"{'':24}{'4 images':>20}{'64 images':>20}{'each more':>12}")
        for name, ((few, modules), (many, more)) in found.items():
            print(f"{name:24}{few:>9} in {modules:>3} mod.{many:>9} in {more:>3} mod.{(many - few) / 60:>12.1f}")


if __name__ == "__main__":
    main()
