"""The reader of RecordIO files, which MXNet's `im2rec` writes."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.errors import ArgumentError, displayed
from dynamic.io._bytes import Version
from dynamic.io._store import Store

from ._listing import unlisted
from ._reader import Batches
from ._records import Beginnings, InFiles, Places, pairs_in, whole_of
from ._stored import Common, PathLike, Stored, Unusable, called_with, paths_of
from ._tar import size_of

__all__ = ["MXNet"]

_MAGIC = 0xCED7230A
_BETWEEN = struct.pack("<I", _MAGIC)  # the bytes at which a record is split are in none of its parts
_PART = struct.Struct("<II")  # the beginning of a part: the magic number; the kind of the part, and its size
_SIZES = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)  # kinds of parts
_IMAGE = struct.Struct("<IfQQ")  # the beginning of a record: how many labels follow, a label, and two numbers
_LABEL_AT = 4


class MXNet(Stored["Records", Batches]):
    """Reads images and labels from RecordIO files, as MXNet has them.

    The outputs are the bytes of each image, mostly of a JPEG file, and its labels, float32: one, or as many as the
    record has. Records in several parts are put together. One that holds no image record is an error; see `on_error`.
    Files that were replaced or changed after they were listed are an error, whatever `on_error` says.

    A sample is known by the path of its file, below the folder that all files lie in, and its number in there, or in
    the index, in the order of the file.

    Args:
        path: The RecordIO files, one or several.
        index_path: A text file that says where the records are, as `im2rec` and DALI's `rec2idx` write it: one for
            each file, or one for all of them, which counts bytes as if they were one file. By default the files are
            gone through, which takes about 1 us for each record.

    Raises:
        ArgumentError: An argument is wrong, or there are no records.
        DataError: A file or an index is damaged.

    >>> import pathlib, struct, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.rec")
    >>> with path.open("wb") as file:
    ...     for label, image in [(7.0, b"first image!"), (8.0, b"second image")]:
    ...         record = struct.pack("<IfQQ", 0, label, 0, 0) + image
    ...         _ = file.write(struct.pack("<II", 0xCED7230A, len(record)) + record)
    >>> reader = ndd.readers.MXNet(path=path)
    >>> for images, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(image.array) for image in images], labels.tolist())
    [b'first image!', b'second image'] [[7.0], [8.0]]
    """

    _operator: ClassVar[str] = "readers.MXNet"

    @called_with("path")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        path: PathLike | Sequence[PathLike],
        index_path: PathLike | Sequence[PathLike] | None = None,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        files = tuple(paths_of(operator, "path", path))
        listed = index_path is not None and not (isinstance(index_path, list) and not index_path)
        indices = tuple(paths_of(operator, "index_path", index_path)) if index_path is not None and listed else ()
        if len(indices) > 1 and len(indices) != len(files):
            expected = f"one path, or one for each of the {len(files)} files"
            raise ArgumentError(operator, "index_path", expected, f"{len(indices)} paths")
        super().__init__(max_batch_size, name, device, num_inputs, functools.partial(_listed, files, indices), **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        with listing.opened() as files:

            def read(number: int) -> _Sample:
                return _sample(files.part(*listing.span(number)))

            def read_many(numbers: list[int]) -> tuple[list[Any], Mapping[int, Exception]]:
                samples, errors = list[Any](), dict[int, Exception]()
                for piece in files.pieces(listing.spans(numbers)):
                    errors |= piece.errors
                    for i, (start, end) in enumerate(itertools.pairwise(piece.offsets), piece.first):
                        samples.append(None)
                        if i not in piece.errors:
                            try:
                                samples[i] = _sample(piece.memory[start:end])
                            except Unusable as error:
                                errors[i] = error
                return samples, errors

            samples = self._each(indices, read, read_many)
        return (
            Batch([image for image, _ in samples], origin=origin, dtype=numpy.uint8, ndim=1),
            Batch([labels for _, labels in samples], origin=origin, dtype=numpy.float32, ndim=1),
        )


_Sample = tuple[Array, Array]  # the bytes of an image, and its labels


@dataclass(frozen=True)
class Records(InFiles):
    """The samples of RecordIO files; `counts` are bytes of their parts, with the beginnings of these."""


def _sample(stored: Array) -> _Sample:
    """The image and the labels of a record."""
    data = _joined(stored)
    if len(data) < _IMAGE.size:
        raise Unusable(f"holds no image record: it has {len(data)} bytes, and the header alone {_IMAGE.size}")
    count: int = _IMAGE.unpack_from(data)[0]
    end = _IMAGE.size + 4 * count
    if end > len(data):
        raise Unusable(f"holds no image record: of {count} labels there are {len(data) - _IMAGE.size} bytes")
    labels = numpy.frombuffer(data, "<f4", max(count, 1), _IMAGE.size if count else _LABEL_AT)
    return data[end:], labels.astype(numpy.float32)


def _joined(stored: Array) -> Array:
    """The data of a record of one part or several; bytes of other records may follow."""
    kind, start, end = _part(stored, 0)
    if kind == _WHOLE:
        return stored[start:end]
    if kind != _FIRST:
        raise Unusable("begins in the midst of a record")
    pieces = [stored[start:end].data]
    while kind != _LAST:
        kind, start, end = _part(stored, _padded(end))
        if kind not in (_MIDDLE, _LAST):
            raise Unusable(f"has no end after {len(pieces)} parts")
        pieces += [memoryview(_BETWEEN), stored[start:end].data]
    return numpy.frombuffer(bytearray().join(pieces), numpy.uint8)


def _part(stored: Array, at: int) -> tuple[int, int, int]:
    """The kind of a part, and where its data begins and ends."""
    if at + _PART.size > len(stored):
        raise Unusable("is cut off")
    magic, word = _PART.unpack_from(stored, at)
    if magic != _MAGIC:
        raise Unusable(f"has not the magic number of RecordIO at its byte {at}")
    start = at + _PART.size
    end = start + (word & _SIZES)
    if end > len(stored):
        raise Unusable(f"is cut off: of {end - start} bytes {len(stored) - start} are there")
    return word >> 29, start, end


def _padded(size: int) -> int:
    """Parts begin at multiples of four bytes."""
    return (size + 3) & ~3


_damaged = functools.partial(unlisted, MXNet._operator)


def _listed(files: Sequence[str], indices: Sequence[str], store: Store) -> Records:
    """The records of files."""
    shared = len(indices) == 1 and len(files) > 1

    @functools.cache
    def offsets(index: str, store: Store) -> tuple[Array, Array]:
        pairs, lines = pairs_in(MXNet._operator, index, store, "a key and an offset")
        order = numpy.argsort(pairs[:, 1], kind="stable")
        return pairs[order, 1], numpy.asarray(lines, numpy.int64)[order]

    def find(i: int, path: str, index: str | None, store: Store, versions: Mapping[str, Version]) -> Places:
        if index is None:
            return _in_file(path, store, versions.get(path))
        before = [store.plain(file) for file in files[:i]] if shared else []
        start = sum(whole_of(MXNet._operator, file, store, versions.get(file)) for file in before)
        whole = whole_of(MXNet._operator, path, store, versions.get(path))
        last = not shared or i == len(files) - 1
        return _in_index(index, *offsets(index, store), start, whole, path if last else "")

    return Records.of(MXNet._operator, files, [*indices] * len(files) if shared else indices, store, find)


def _in_index(index: str, offsets: Array, lines: Array, start: int, whole: int, path: str) -> Places:
    """Where the records of a file begin, and how many bytes they have until the next.

    Args:
        index: The path of the index.
        offsets: Where records begin, as it lists them, sorted.
        lines: Those that list them.
        start: Where the file begins.
        whole: How many bytes it has.
        path: That of the file, if none follows.
    """
    there = offsets - start
    beyond = numpy.flatnonzero(there > whole - _PART.size)
    if path and len(beyond):
        line, place = lines[beyond[0]], offsets[beyond[0]]
        raise _damaged(index, f"line {line}: there is no record at byte {place}, as {displayed(path)} ends before")
    there = numpy.unique(there[(there >= 0) & (there < whole)])
    return there, numpy.diff(there, append=whole)


def _in_file(path: str, store: Store, version: Version | None) -> Places:
    """Where the records of a file begin, and how many bytes they have."""
    try:
        with store.file(path, version=version) as file:
            places, ends = _walked(file, path, size_of(file))
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    found = numpy.array(places, numpy.int64)
    return found, numpy.array(ends, numpy.int64) - found


def _walked(file: BinaryIO, path: str, whole: int) -> tuple[list[int], list[int]]:
    """Go from part to part: where records begin, and where they end."""
    places, ends, at, inside = list[int](), list[int](), 0, False
    beginnings = Beginnings(file, _PART.size)
    while at < whole:
        beginning = beginnings.at(at, len(places))
        magic, word = _PART.unpack(beginning) if len(beginning) == _PART.size else (_MAGIC, _SIZES)
        kind, end = word >> 29, at + _PART.size + _padded(word & _SIZES)
        fits = inside != (kind in (_WHOLE, _FIRST)) and kind <= _LAST
        if magic != _MAGIC or end > whole or not fits:
            reason = "has not the magic number of RecordIO" if magic != _MAGIC else "is damaged or cut off"
            raise _damaged(path, f"record {len(ends)}, at byte {at} of {whole}, {reason}")
        if not inside:
            places.append(at)
        inside = kind in (_FIRST, _MIDDLE)
        if not inside:
            ends.append(end)
        at = end
    if inside:
        raise _damaged(path, f"record {len(ends)} has no end")
    return places, ends
