"""How readers grow: time and memory of data sets of ten thousand to ten million samples, against NVIDIA DALI.

    python benchmarks/scale.py [--rounds 1] [--samples 10000 100000 1000000] [--only Map File]

Each figure is of a process of its own: a new shuffled reader until its first batch of 64; the memory that it holds
then, without the list that it was given; a state written to a file; a new reader that takes the state, until its next
batch; the step to the next epoch, which is a new shuffle. CPU time of all threads, medians over the rounds.

No samples are written but those that are read: most paths of the list of `File` lead to nothing, records are of 37
bytes, and ten archives are one on the disk. DALI draws from a buffer of 1,024 samples.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

BATCH = 64
SAMPLES = 10_000, 100_000, 1_000_000, 10_000_000
LIBRARIES = {"dynamic": "dynamic", "DALI": "nvidia.dali.experimental.dynamic"}
ARCHIVES = 10
FIGURES = {"first": "first batch, s", "memory": "MB", "save": "save, s", "resume": "resume, s",
           "epoch": "next epoch, s", "state": "state, bytes"}  # fmt: skip


class Rows:
    """A data set whose rows are asked for one by one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> int:
        return i


def of_array(library: Any, _: Path, count: int) -> Callable[[], Any]:
    """A reader of the rows of an array of NumPy."""
    array = numpy.zeros((count, 4), numpy.uint8)
    return lambda: library.readers.Map(dataset=array, random_shuffle=True)


def of_rows(library: Any, _: Path, count: int) -> Callable[[], Any]:
    """A reader of rows with keys."""
    return lambda: library.readers.Map(dataset=Rows(count), key=lambda row: f"photo-{row}", random_shuffle=True)


def of_list(library: Any, folder: Path, count: int) -> Callable[[], Any]:
    """A reader of a list of files."""
    there = count if library.__name__ == "dynamic" else 1000  # DALI reads more than it gives, and tells nobody of which
    files, labels = (
        [f"{i % there // 1000:05}/{i % there:08}.jpg" for i in range(count)],
        [i % 1000 for i in range(count)],
    )
    if there == 1000:
        (folder / "00000").mkdir(exist_ok=True)
        for name in files[:there]:
            (folder / name).write_bytes(b"photo")
    more = {} if library.__name__ == "dynamic" else {"enable_checkpointing": True}
    return lambda: library.readers.File(file_root=str(folder), files=files, labels=labels, random_shuffle=True, **more)


def of_records(library: Any, folder: Path, count: int) -> Callable[[], Any]:
    """A reader of a TFRecord file with an index."""
    module = "dynamic.readers.tfrecord" if library.__name__ == "dynamic" else "nvidia.dali.tfrecord"
    words = importlib.import_module(module)
    path = folder / f"{count}.tfrecord"
    if not path.exists():
        data = b"\n\x13\n\x11\n\x05label\x12\x08\x1a\x06\n\x04\x01\x02\x03\x04"  # a tf.train.Example
        record = struct.pack("<QI", len(data), 0) + data + bytes(4)
        with path.open("wb") as file:
            for start in range(0, count, 1 << 20):
                file.write(record * min(1 << 20, count - start))
        size = len(record)
        with path.with_suffix(".idx").open("w") as file:
            file.writelines(f"{i * size} {size}\n" for i in range(count))
    features = {"label": words.FixedLenFeature([4], words.int64, -1)}
    more = {} if library.__name__ == "dynamic" else {"enable_checkpointing": True}
    return lambda: library.readers.TFRecord(
        path=str(path), index_path=str(path.with_suffix(".idx")), features=features, random_shuffle=True, **more
    )


def of_archives(library: Any, folder: Path, count: int) -> Callable[[], Any]:
    """A reader of archives with indices."""
    paths = [folder / f"{count}-{k}.tar" for k in range(ARCHIVES)]
    if not paths[0].exists():
        each = count // ARCHIVES
        with paths[0].open("wb") as file:
            for i in range(each):
                entry = tarfile.TarInfo(f"{i:08}.cls")
                entry.size = 1
                file.write(entry.tobuf(tarfile.USTAR_FORMAT) + b"7".ljust(512, b"\0"))
            file.write(bytes(1024))
        with paths[0].with_suffix(".idx").open("w") as file:
            file.write(f"v1.2 {each}\n")
            file.writelines(f"cls {1024 * i + 512} 1 {i:08}.cls\n" for i in range(each))
        for path in paths[1:]:
            path.hardlink_to(paths[0])
            path.with_suffix(".idx").hardlink_to(paths[0].with_suffix(".idx"))
    indices = [str(path.with_suffix(".idx")) for path in paths]
    more = {} if library.__name__ == "dynamic" else {"enable_checkpointing": True}
    return lambda: library.readers.Webdataset(
        paths=list(map(str, paths)), index_paths=indices, ext=["cls"], random_shuffle=True, **more
    )


#: The readers, the libraries that have them, and the most samples that a disk has room for.
READERS: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "Map, an array": (of_array, ("dynamic",), SAMPLES[-1]),
    "Map, rows with keys": (of_rows, ("dynamic",), SAMPLES[-1]),
    "File, a list": (of_list, ("dynamic", "DALI"), SAMPLES[-1]),
    "TFRecord, an index": (of_records, ("dynamic", "DALI"), SAMPLES[-1]),
    "Webdataset, indices": (of_archives, ("dynamic", "DALI"), SAMPLES[-1]),
}


def batch_of(reader: Any) -> None:
    """Read a batch, and wait for it."""
    outputs = next(reader.next_epoch(batch_size=BATCH))
    for output in outputs.values() if isinstance(outputs, dict) else outputs:
        output.evaluate()


def resident() -> int:
    """Bytes that this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measured(name: str, library_name: str, count: int, folder: Path) -> dict[str, float]:
    """The figures of a reader, in this process."""
    library = importlib.import_module(LIBRARIES[library_name])
    make = READERS[name][0](library, folder, count)
    if library_name == "dynamic":
        provide(make())
    before, start = resident(), time.process_time()
    reader = make()
    batch_of(reader)
    found = {"first": time.process_time() - start, "memory": (resident() - before) / 1e6}
    path = folder / "state"
    start = time.process_time()
    if library_name == "dynamic":
        library.checkpoint.save(path, reader=reader)
    else:
        path.write_text(str(reader.get_state()))
    found |= {"save": time.process_time() - start, "state": path.stat().st_size}
    start = time.process_time()
    again = make()
    if library_name == "dynamic":
        library.checkpoint.load(path, reader=again)
    else:
        again.set_state(path.read_text())
    batch_of(again)
    found["resume"] = time.process_time() - start
    if library_name == "dynamic":
        start = time.process_time()
        reader.seek(0, epoch=1)
        batch_of(reader)
        found["epoch"] = time.process_time() - start
    return found


def provide(reader: Any) -> None:
    """Write the files of the batches that are measured: the others of a list need not be there."""
    from dynamic.errors import DataError

    for epoch, position in ((0, 0), (0, BATCH), (1, 0)):
        reader.seek(position, epoch=epoch)
        try:
            reader.peek(BATCH)
        except DataError as error:
            for failure in error.failures:
                path = Path(failure.source or "")
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"photo")


def figures(name: str, library: str, count: int, folder: Path, rounds: int) -> dict[str, float]:
    """Medians of the figures of processes of their own."""
    command = [sys.executable, __file__, "--one", name, library, str(count), str(folder)]
    texts = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout for _ in range(rounds)]
    runs = [json.loads(text.strip().splitlines()[-1]) for text in texts]
    return {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--samples", type=int, nargs="*", default=list(SAMPLES))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, library, count, folder = options.one
        print(json.dumps(measured(name, library, int(count), Path(folder))))
        return
    print(f"| reader | library | samples | {' | '.join(FIGURES.values())} |")
    print(f"|---|---|--:|{'--:|' * len(FIGURES)}")
    for name, (_, libraries, most) in READERS.items():
        if options.only and not any(name.startswith(word) for word in options.only):
            continue
        for count in options.samples:
            with tempfile.TemporaryDirectory() as folder:
                for library in libraries if count <= most else ():
                    found = figures(name, library, count, Path(folder), options.rounds)
                    cells = [cell(figure, found.get(figure)) for figure in FIGURES]
                    print(f"| {name} | {library} | {count:,} | {' | '.join(cells)} |", flush=True)


def cell(figure: str, value: float | None) -> str:
    """A figure as text."""
    if value is None:
        return ""
    return f"{value:,.0f}" if figure in ("memory", "state") else f"{value:.2f}" if value >= 1 else f"{value:.4f}"


if __name__ == "__main__":
    main()
