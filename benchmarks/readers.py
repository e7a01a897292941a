"""What reading stored samples costs, against NVIDIA DALI, interleaved in one process.

    python benchmarks/readers.py [--rounds 9] [--samples 1024] [--only Numpy] [--cpu]

The same photos of 500 x 375 as files in folders, with annotations as COCO has them, in archives for Webdataset, in
TFRecord and RecordIO files and in LMDB databases, and as arrays of 224 x 224 for Numpy and for FITS. A round reads an
epoch in batches of 64, from memory that the system has read the files into; nothing is decoded. Ratios are medians over
the rounds of our time to DALI's, in listed order and shuffled. The time of a new reader until its first batch is
measured as well. With `--cpu` all times are CPU time of all threads, which other processes on the machine change less.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import json
import os
import random
import statistics
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy
import simplejpeg

import dynamic

BATCH = 64
SIZE = 500, 375


def imported(name: str) -> Any:
    """A library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


os.environ.setdefault("DALI_RESTRICT_PINNED_MEM", "1")  # without a GPU DALI's reader of FITS needs it
dali = imported("nvidia.dali.experimental.dynamic")
FEATURES = {dynamic: imported("dynamic.readers.tfrecord"), dali: imported("nvidia.dali.tfrecord")}


def photos(folder: Path, count: int) -> list[bytes]:
    """JPEG files, some of which are equal."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from photos import make

    found = [cv2.imread(str(path), cv2.IMREAD_COLOR_RGB) for path in sorted(make(folder).glob("*/*.jpg"))]
    how = {"quality": 90, "colorspace": "RGB", "colorsubsampling": "420"}
    files = [simplejpeg.encode_jpeg(numpy.ascontiguousarray(cv2.resize(image, SIZE)), **how) for image in found]
    return (files * (count // len(files) + 1))[:count]


def stored(folder: Path, files: list[bytes]) -> None:
    """Write the samples in each of the forms."""
    from astropy.io import fits

    for name in ("files/0", "arrays", "fits"):
        (folder / name).mkdir(parents=True)
    for i, file in enumerate(files):
        (folder / "files" / "0" / f"{i:06}.jpg").write_bytes(file)
        image = cv2.imdecode(numpy.frombuffer(file, numpy.uint8), cv2.IMREAD_COLOR_RGB)
        array = cv2.resize(image, (224, 224))
        numpy.save(folder / "arrays" / f"{i:06}.npy", array)
        fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(array)]).writeto(folder / "fits" / f"{i:06}.fits")
    annotated(folder, len(files))
    with tarfile.open(folder / "photos.tar", "w") as archive:
        for i, file in enumerate(files):
            for name, data in ((f"{i:06}.jpg", file), (f"{i:06}.cls", str(i % 10).encode())):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    lines, at = [], 0
    with (folder / "photos.tfrecord").open("wb") as records:
        for i, file in enumerate(files):
            data = example(file, i % 10)
            records.write(struct.pack("<QI", len(data), 0) + data + bytes(4))
            lines.append(f"{at} {len(data) + 16}\n")
            at += len(data) + 16
    (folder / "photos.idx").write_text("".join(lines))
    recorded(folder, files)


def recorded(folder: Path, files: list[bytes]) -> None:
    """Write records of MXNet, Caffe and Caffe2. No photo has the magic number that records are split at."""
    import lmdb

    lines, at = [], 0
    with (folder / "photos.rec").open("wb") as records:
        for i, file in enumerate(files):
            data = struct.pack("<IfQQ", 0, i % 10, i, 0) + file
            data = struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4)
            records.write(data)
            lines.append(f"{i}\t{at}\n")
            at += len(data)
    (folder / "photos.keys").write_text("".join(lines))
    for name, made in {"caffe": datum, "caffe2": tensors}.items():
        database = lmdb.open(str(folder / name), map_size=1 << 34, sync=False)
        with database, database.begin(write=True) as transaction:
            for i, file in enumerate(files):
                transaction.put(b"%08d" % i, made(file, i % 10), append=True)


def datum(file: bytes, label: int) -> bytes:
    """A photo and its label for Caffe."""
    return field(4, file) + bytes([5 << 3, label, 7 << 3, 1])


def tensors(file: bytes, label: int) -> bytes:
    """The same for Caffe2."""
    image = bytes([1 << 3, 1, 2 << 3, 4]) + field(6, file)
    return field(1, image) + field(1, bytes([1 << 3, 1, 2 << 3, 2]) + field(4, varint(label)))


def annotated(folder: Path, count: int) -> None:
    """Write annotations: seven boxes for each photo."""
    chance = numpy.random.default_rng(0)
    images = [{"id": i, "file_name": f"0/{i:06}.jpg", "width": SIZE[0], "height": SIZE[1]} for i in range(count)]
    boxes = [{"id": 7 * i + k, "image_id": i, "category_id": k + 1, "iscrowd": 0,
              "bbox": [float(x) for x in (chance.random(4) * 200).round(2)]}
             for i in range(count) for k in range(7)]  # fmt: skip
    categories = [{"id": k + 1, "name": str(k)} for k in range(7)]
    page = {"images": images, "annotations": boxes, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(page))


def example(file: bytes, label: int) -> bytes:
    """A photo and its label as tf.train.Example: maps of lists in Protocol Buffers."""
    of_file = field(1, b"image") + field(2, field(1, field(1, file)))
    of_label = field(1, b"label") + field(2, field(3, field(1, varint(label))))
    return field(1, field(1, of_file) + field(1, of_label))


def field(number: int, data: bytes) -> bytes:
    """A field of bytes in Protocol Buffers."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A number in Protocol Buffers."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def readers(folder: Path) -> dict[str, Callable[..., Any]]:
    """How to make each reader, of either library."""

    def tfrecord(library: Any, **arguments: Any) -> Any:
        words = FEATURES[library]
        features = {"image": words.FixedLenFeature((), words.string, ""),
                    "label": words.FixedLenFeature([1], words.int64, -1)}  # fmt: skip
        return library.readers.TFRecord(path=str(folder / "photos.tfrecord"), index_path=str(folder / "photos.idx"),
                                        features=features, **arguments)  # fmt: skip

    return {
        "File": lambda library, **more: library.readers.File(file_root=str(folder / "files"), **more),
        "Numpy": lambda library, **more: library.readers.Numpy(file_root=str(folder / "arrays"), **more),
        "Webdataset": lambda library, **more: library.readers.Webdataset(
            paths=str(folder / "photos.tar"), ext=["jpg", "cls"], **more),
        "TFRecord": tfrecord,
        "MXNet": lambda library, **more: library.readers.MXNet(
            path=str(folder / "photos.rec"), index_path=str(folder / "photos.keys"), **more),
        "Caffe": lambda library, **more: library.readers.Caffe(path=str(folder / "caffe"), **more),
        "Caffe2": lambda library, **more: library.readers.Caffe2(path=str(folder / "caffe2"), **more),
        "Fits": lambda library, **more: library.experimental.readers.Fits(file_root=str(folder / "fits"), **more),
        "COCO": lambda library, **more: library.readers.COCO(
            file_root=str(folder / "files"), annotations_file=str(folder / "annotations.json"), **more),
    }  # fmt: skip


def epoch(reader: Any) -> None:
    """Read all batches of an epoch."""
    for outputs in reader.next_epoch(batch_size=BATCH):
        evaluated(outputs)


def evaluated(outputs: Any) -> None:
    """Wait until a batch is there."""
    for output in outputs.values() if isinstance(outputs, dict) else outputs:
        output.evaluate()


def timed(function: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Seconds."""
    start = clock()
    function()
    return clock() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    count = options.samples // BATCH * BATCH
    clock = time.process_time if options.cpu else time.perf_counter
    titles = ["reader", "us a sample", "of DALI's", "shuffled", "ms to the first batch", "of DALI's"]
    print(line(titles))
    print("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        stored(Path(folder), photos(Path(folder) / "photos", count))
        for name, make in readers(Path(folder)).items():
            if not options.only or name in options.only:
                print(line([name, *row(make, count, options.rounds, clock)]), flush=True)


def row(make: Callable[..., Any], count: int, rounds: int, clock: Callable[[], float]) -> list[str]:
    """What a reader takes, and what part of DALI's time that is."""
    libraries = [library for library in (dynamic, dali) if library is not None]
    ways = {"listed": False, "shuffled": True}
    jobs: dict[tuple[str, Any], Callable[[], None]] = {}
    for library in libraries:
        for way, shuffle in ways.items():
            jobs[way, library] = functools.partial(epoch, make(library, random_shuffle=shuffle))
        jobs["first", library] = functools.partial(lambda library: first_batch(make(library)), library)
    times: dict[tuple[str, Any], list[float]] = {job: [] for job in jobs}
    for round in range(rounds + 1):
        for job, call in random.Random(round).sample([*jobs.items()], len(jobs)):  # nobody always follows the same one
            seconds = timed(call, clock)
            if round:
                times[job].append(seconds)
    ours = {way: statistics.median(times[way, dynamic]) for way in (*ways, "first")}
    ratios = dict.fromkeys(ours, "")
    if dali is not None:
        for way in ratios:
            pairs = zip(times[way, dynamic], times[way, dali], strict=True)
            ratios[way] = f"{statistics.median(a / b for a, b in pairs):.2f}"
    return [f"{ours['listed'] / count * 1e6:.1f}", ratios["listed"], ratios["shuffled"], f"{ours['first'] * 1e3:.1f}",
            ratios["first"]]  # fmt: skip


def first_batch(reader: Any) -> None:
    """Read one batch."""
    evaluated(next(reader.next_epoch(batch_size=BATCH)))


def line(cells: list[str]) -> str:
    """A line of the table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
