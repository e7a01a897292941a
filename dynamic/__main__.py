"""The command ``dynamic``: look into a folder of images, measure the main job on it, draw its augmented samples.

``dynamic inspect | bench | show FOLDER`` and ``dynamic checkpoint ...``; ``python -m dynamic`` is the same.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy

import dynamic as ndd

from ._measure import Measured
from .checkpoint.__main__ import ABOUT, declare, run, tell
from .data import Batch
from .errors import DecodeError, Failure
from .kernels.cpu import images
from .readers import File
from .readers._listing import FILE_FILTERS, matcher

_SIZE = 224
_MEAN, _STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
_GAP = 4  # pixels between the pictures of a sheet


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 if all is well, 1 if files cannot be read, and 2 after an error."""
    parser = argparse.ArgumentParser("dynamic", description="Look at data sets of images, and at checkpoints.")
    parser.add_argument("--version", action="version", version=f"dynamic {ndd.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    inspect = commands.add_parser("inspect", help="tell classes, sizes and formats; 1 if files cannot be read")
    bench = commands.add_parser("bench", help="measure decoding, cropping and normalising of the images")
    show = commands.add_parser("show", help="draw augmented samples in one picture")
    for command in (inspect, bench, show):
        command.add_argument("folder", type=Path, metavar="FOLDER", help="folders of classes, or images")
    inspect.add_argument("--decode", action="store_true", help="decode each image, instead of reading its header")
    inspect.add_argument("--json", action="store_true", help="print an object of JSON")
    bench.add_argument("--batch-size", type=_natural, default=64, metavar="N")
    bench.add_argument("--seconds", type=float, default=5.0, metavar="S", help="how long to measure")
    bench.add_argument("--threads", type=_natural, metavar="N", help="by default one for each processor")
    bench.add_argument("--trace", type=Path, metavar="FILE", help="write a file for chrome://tracing")
    show.add_argument("--output", type=Path, default=Path("sheet.png"), metavar="FILE", help="of PNG: %(default)s")
    show.add_argument("--samples", type=_natural, default=4, metavar="N", help="rows: %(default)s")
    show.add_argument("--draws", type=_natural, default=6, metavar="N", help="columns beside the image: %(default)s")
    for command in (bench, show):
        command.add_argument("--size", type=_natural, default=_SIZE, metavar="N", help="of the crops: %(default)s")
        command.add_argument("--seed", type=int, default=0, metavar="N")
    inspect.set_defaults(function=_inspect)
    bench.set_defaults(function=_bench)
    show.set_defaults(function=_show)
    declare(commands.add_parser("checkpoint", help="look at checkpoints", description=ABOUT))
    try:
        return run(parser.parse_args(arguments))
    except KeyboardInterrupt:
        return 130


def _natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


_natural.__name__ = "number"  # in errors of argparse


def _reader(folder: Path, **arguments: Any) -> File:
    """A reader of the images in a folder, or in its folders of classes, that skips unreadable files."""
    if folder.is_dir() and not any(each.is_dir() for each in folder.iterdir()):
        wanted = matcher(FILE_FILTERS, case_sensitive=False)
        names = sorted(each.name for each in folder.iterdir() if wanted(bytes(each.relative_to(folder))))
        return File(files=names, file_root=folder, on_error="skip", **arguments)
    return File(file_root=folder, on_error="skip", **arguments)


# -- inspect ----------------------------------------------------------------------------------------------------------


def _inspect(chosen: argparse.Namespace) -> int:
    reader = _reader(chosen.folder)
    classes: collections.Counter[str] = collections.Counter()
    formats: collections.Counter[str] = collections.Counter()
    shapes: list[tuple[int, int]] = []
    weight, bad = 0, []
    for files, labels in reader.next_epoch(64):
        names = files.origin.names if files.origin is not None else []
        if reader.classes is not None:
            classes.update(reader.classes[number] for (number,) in labels.tolist())
        weight += sum(file.size for file in files.samples)
        failures = {failure.index: failure.reason for failure in _undecoded(files)} if chosen.decode else {}
        for i, (name, file) in enumerate(zip(names, files.samples, strict=True)):
            try:
                head = images.header(numpy.asarray(file).data, images.Limits())
            except DecodeError as error:
                failures.setdefault(i, error.failures[0].reason)
            else:
                formats[head.format] += 1
                shapes.append(head.shape(3, adjust_orientation=True)[:2])
            if i in failures:
                bad.append((name, failures[i]))
    for failure in reader.skipped:
        path = Path(str(failure.source))
        within = path.is_relative_to(chosen.folder.absolute())
        bad.append((str(path.relative_to(chosen.folder.absolute()) if within else path), failure.reason))
    bad.sort()
    found: dict[str, Any] = {
        "files": len(reader),
        "bytes": weight,
        "classes": dict(classes),
        "formats": dict(_by_count(formats)),
        "sizes": _sizes(shapes),
        "unreadable": [{"name": name, "reason": reason} for name, reason in bad],
    }
    if chosen.json:
        tell(json.dumps(found))
    else:
        _tell_of(chosen.folder, found, decoded=chosen.decode)
    return int(bool(bad))


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _undecoded(files: Batch) -> Sequence[Failure]:
    """The images of a batch that cannot be decoded."""
    try:
        ndd.decoders.image(files)
    except DecodeError as error:
        return error.failures
    return ()


def _sizes(shapes: list[tuple[int, int]]) -> dict[str, list[int]]:
    """Width and height of the image with the fewest pixels, of a middle one, and of that with the most."""
    ordered = sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))
    places = {"smallest": 0, "median": len(ordered) // 2, "largest": len(ordered) - 1}
    return {name: [ordered[place][1], ordered[place][0]] for name, place in places.items()} if ordered else {}


def _tell_of(folder: Path, found: dict[str, Any], *, decoded: bool) -> None:
    classes, bad = found["classes"], found["unreadable"]
    tell(f"{folder}: {found['files']} files, {found['bytes'] / 1e6:.1f} MB")
    counts = _by_count(classes)
    some = counts if len(counts) <= 10 else [*counts[:5], ("...", 0), *counts[-4:]]
    told = ", ".join(f"{name} {count}" if count else name for name, count in some)
    tell(f"classes    {len(classes)}: {told}" if classes else "classes    none")
    tell(f"formats    {', '.join(f'{name} {count}' for name, count in found['formats'].items()) or 'none'}")
    sizes = ", ".join(f"{name} {width} x {height}" for name, (width, height) in found["sizes"].items())
    tell(f"sizes      {sizes or 'none'} (width x height)")
    tell(f"unreadable {len(bad)}" + ("" if decoded else ", by their headers; --decode decodes each image"))
    for each in bad:
        tell(f"  {each['name']}: {each['reason']}")


# -- bench ------------------------------------------------------------------------------------------------------------


def _bench(chosen: argparse.Namespace) -> int:
    reader = _reader(chosen.folder, random_shuffle=True, seed=chosen.seed)
    with ndd.EvalContext(num_threads=chosen.threads):
        report: Measured[Batch] = ndd.measure(map(_Job(chosen.size, chosen.seed), _endless(reader, chosen.batch_size)))
        done, end = [], time.monotonic() + chosen.seconds
        for batch in report:
            done.append(len(batch))
            if time.monotonic() > end and len(done) > 1:
                break
        rate, threads = sum(done[1:]) / report.waited, ndd.get_num_threads()
    told = f"{threads} thread{'s' * (threads > 1)}"
    tell(f"{rate:.0f} images/s in batches of {chosen.batch_size} at {chosen.size} x {chosen.size}, {told}")
    for part in report.parts:
        tell(f"  {part.name:24} {1e6 * part.seconds / sum(done[1:]):8.1f} us an image  {part.share:6.1%}")
    if chosen.trace is not None:
        report.trace(chosen.trace)
    return 0


def _endless(reader: File, batch_size: int) -> Iterator[tuple[Batch, ...]]:
    while True:
        yield from reader.next_epoch(batch_size)


class _Job:
    """Decode, crop at random, mirror at random, normalise."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._rng = (size, size), ndd.random.RNG(seed)

    def __call__(self, batch: tuple[Batch, ...]) -> Batch:
        files = batch[0]
        crops, mirror = self.augmented(ndd.decoders.image(files))
        return ndd.crop_mirror_normalize(crops, mirror=mirror, mean=_MEAN, std=_STD)

    def augmented(self, photos: Batch) -> tuple[Batch, Batch]:
        """Random windows, and which of them are to be mirrored."""
        crops: Batch = ndd.random_resized_crop(photos, size=self._size, rng=self._rng)
        mirror: Any = ndd.random.coin_flip(batch_size=len(photos), rng=self._rng)
        return crops, mirror


# -- show -------------------------------------------------------------------------------------------------------------


def _show(chosen: argparse.Namespace) -> int:
    reader = _reader(chosen.folder, random_shuffle=True, seed=chosen.seed)
    job, size, status = _Job(chosen.size, chosen.seed), chosen.size, 0
    rows: list[list[Any]] = []
    for files, _ in reader.next_epoch(1):
        name = files.origin.names[0] if files.origin is not None and len(files) else ""
        try:
            photo = ndd.decoders.image(files)
        except DecodeError as error:
            tell(f"left out: {error}")
            status = 1
            continue
        if not len(photo):
            continue
        tell(f"{len(rows) + 1}: {name}")
        crops, mirror = job.augmented(ndd.as_batch([photo[0]] * chosen.draws))
        whole: Batch = ndd.resize(photo, size=(size, size), mode="not_larger")
        rows.append(
            [
                _in_square(numpy.asarray(each), size)
                for each in itertools.chain(whole, ndd.flip(crops, horizontal=mirror))
            ]
        )
        if len(rows) == chosen.samples:
            break
    status |= bool(reader.skipped)
    if not rows:
        tell(f"{chosen.folder}: no image could be decoded")
        return 2
    sheet = numpy.concatenate([numpy.concatenate(row, 1) for row in rows])
    _, data = cv2.imencode(".png", sheet[_GAP // 2 :, _GAP // 2 :, ::-1])
    chosen.output.write_bytes(data.tobytes())
    tell(f"{chosen.output}: {len(rows)} rows; the image, and {chosen.draws} draws of it")
    return status


def _in_square(picture: Any, size: int) -> Any:
    """A picture in the middle of a white square with a margin."""
    square = numpy.full((size + _GAP, size + _GAP, 3), 255, numpy.uint8)
    y, x = ((size + _GAP - extent) // 2 for extent in picture.shape[:2])
    square[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    return square


if __name__ == "__main__":
    raise SystemExit(main())
