"""The reader of TFRecord files, and the features that it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, displayed
from dynamic.io._bytes import Piece, Version
from dynamic.io._store import Store

from ._checks import flag
from ._example import (
    Column,
    FixedLenFeature,
    VarLenFeature,
    columns,
    float32,
    int64,
    plain_rows,
    stored_features,
    string,
    values,
)
from ._listing import unlisted
from ._reader import Outputs
from ._records import Beginnings, InFiles, Places, pairs_in, whole_of
from ._stored import Common, PathLike, Stored, Unusable, called_with, paths_of
from ._tar import size_of
from ._wire import Malformed

__all__ = ["FixedLenFeature", "TFRecord", "VarLenFeature", "float32", "int64", "string"]

_BEFORE, _AFTER = 12, 4  # bytes around the data of a record: its length and a checksum of that; a checksum of it
_BLANK = bytes(_BEFORE)  # no record begins so: one without data has a checksum of that
_UNWRITTEN = "is of zeros: nothing was written there"


class TFRecord(Stored["Records", "dict[str, Batch]"]):
    """Reads features of the records in TFRecord files.

    Each record is a tf.train.Example. The output is a dict with a Batch for each of `features`, in their order, of
    int64, float32, or for strings uint8. Other parts of a record are passed over.

    A record with another kind or number of values cannot be read; see `on_error`. Checksums are not compared, but zeros
    are no records. Files must not be compressed. A file that changes after the listing is an error, whatever `on_error`
    is.

    The name of a sample is the path of its file, below the common folder of all files, and its number in there.

    Args:
        path: The TFRecord files, one or several.
        features: A dict from names to features, each a `FixedLenFeature` or `VarLenFeature` from this
            module, or of TensorFlow.
        index_path: An index for each file: a text file with the places of its records, as DALI's `tfrecord2idx` writes
            it. By default the files are walked through, about 1 us for each record.
        use_o_direct: Makes no difference.

    Raises:
        ArgumentError: An argument is wrong, or there are no records.
        DataError: A file or an index is damaged.

    >>> import pathlib, struct, tempfile
    >>> from dynamic.readers.tfrecord import FixedLenFeature
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.tfrecord")
    >>> with path.open("wb") as file:
    ...     for label, image in [(7, b"first image"), (8, b"second image")]:
    ...         image = bytes([10, 5, *b"image", 18, len(image) + 4, 10, len(image) + 2, 10, len(image), *image])
    ...         label = bytes([10, 5, *b"label", 18, 5, 26, 3, 10, 1, label])
    ...         entries = bytes([10, len(image), *image, 10, len(label), *label])
    ...         record = bytes([10, len(entries), *entries])  # a tf.train.Example
    ...         _ = file.write(struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0))
    >>> features = {"image": FixedLenFeature([], "string", ""), "label": FixedLenFeature([1], "int64", -1)}
    >>> reader = ndd.readers.TFRecord(path=path, features=features)
    >>> for batch in reader.next_epoch(batch_size=2):
    ...     print([bytes(image.array) for image in batch["image"]], batch["label"].tolist())
    [b'first image', b'second image'] [[7], [8]]
    """

    _operator: ClassVar[str] = "readers.TFRecord"

    @called_with("path")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        path: PathLike | Sequence[PathLike],
        features: Mapping[str, Any],
        index_path: PathLike | Sequence[PathLike] | None = None,
        use_o_direct: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        files = tuple(paths_of(operator, "path", path))
        listed = index_path is not None and not (isinstance(index_path, list) and not index_path)
        indices = tuple(paths_of(operator, "index_path", index_path)) if index_path is not None and listed else ()
        if listed and len(indices) != len(files):
            expected = f"one for each of the {len(files)} files"
            raise ArgumentError(operator, "index_path", expected, f"{len(indices)} paths")
        flag(operator, "use_o_direct", use_o_direct)
        self._columns = columns(operator, features)
        self._stored_names = frozenset(column.stored_name for column in self._columns)
        list_samples = functools.partial(_listed, files, indices)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        with listing.opened() as files:

            def read(number: int) -> list[Array | int]:
                return self._sample(_record(files.part(*listing.span(number))))

            def read_many(numbers: list[int]) -> tuple[list[Any], Mapping[int, Exception]]:
                samples, errors = list[Any](), dict[int, Exception]()
                for piece in files.pieces(listing.spans(numbers)):
                    errors |= piece.errors
                    samples += self._samples(piece, errors)
                return samples, errors

            samples = self._each(indices, read, read_many)
        return tuple(
            _batch([sample[k] for sample in samples], column, origin) for k, column in enumerate(self._columns)
        )

    def _given(self, outputs: Outputs) -> dict[str, Batch | Tensor]:
        return {column.name: output for column, output in zip(self._columns, outputs, strict=True)}

    def _samples(self, piece: Piece, errors: dict[int, Exception]) -> list[Any]:
        """The features of the records of a piece; errors are noted."""
        if not len(piece.memory):
            return [None] * (len(piece.offsets) - 1)
        starts, ends = numpy.array(piece.offsets[:-1]) + _BEFORE, numpy.array(piece.offsets[1:]) - _AFTER
        rows: list[Any] = plain_rows(piece.memory, starts, ends, self._columns)
        told = piece.memory.take(starts[:, None] - _BEFORE + numpy.arange(_BEFORE), mode="clip")
        plain = told[:, :8].copy().view("<u8")[:, 0] == ends - starts
        plain &= told.any(axis=1)
        for i in [
            i for i, (row, right) in enumerate(zip(rows, plain.tolist(), strict=True)) if row is None or not right
        ]:
            if piece.first + i in errors:
                continue
            try:
                rows[i] = self._sample(_record(piece.memory[piece.offsets[i] : piece.offsets[i + 1]]))
            except Unusable as error:
                errors[piece.first + i] = error
        return rows

    def _sample(self, record: Array) -> list[Array | int]:
        """The features of a record."""
        try:
            found = stored_features(memoryview(record), self._stored_names)
            return [values(column, found.get(column.stored_name)) for column in self._columns]
        except Malformed as error:
            raise Unusable(f"holds no tf.train.Example: {error}") from None


@dataclass(frozen=True)
class Records(InFiles):
    """The samples of TFRecord files; `counts` are bytes of data, without their frame."""

    before, after = _BEFORE, _AFTER


def _record(there: Array) -> Array:
    """The data of a record: uint8, one dimension."""
    size = len(there) - _BEFORE - _AFTER
    beginning = there[:_BEFORE].tobytes()
    told = _size(beginning)
    if beginning == _BLANK:
        raise Unusable(_UNWRITTEN)
    if told != size:
        raise Unusable(f"has {told} bytes of data, where {size} were listed")
    return there[_BEFORE : _BEFORE + size]


def _size(beginning: bytes) -> int:
    """The size of the data of a record that begins so."""
    return int.from_bytes(beginning[:8], "little")


def _batch(samples: list[Array | int], column: Column, origin: Origin) -> Batch:
    """The arrays of a feature, in one piece where all have one shape."""
    if not column.stacked:
        return Batch(samples, origin=origin, dtype=column.dtype, ndim=column.ndim)
    whole = empty((len(samples), *column.shape), column.dtype)
    if column.one and all(type(sample) is int for sample in samples):
        whole.reshape(-1)[:] = samples
        return Batch(whole, origin=origin)
    for i, sample in enumerate(samples):
        whole[i] = sample
    return Batch(whole, origin=origin)


_damaged = functools.partial(unlisted, TFRecord._operator)


def _listed(files: Sequence[str], indices: Sequence[str], store: Store) -> Records:
    """The records of files."""

    def find(i: int, path: str, index: str | None, store: Store, versions: Mapping[str, Version]) -> Places:  # noqa: ARG001
        return _in_file(path, store, versions) if index is None else _in_index(index, path, store, versions)

    return Records.of(TFRecord._operator, files, indices, store, find)


def _in_file(path: str, store: Store, versions: Mapping[str, Version]) -> Places:
    """Where the records of a file begin, and how many bytes of data they have."""
    try:
        with store.file(path, version=versions.get(path)) as file:
            places, sizes = _walked(file, path, size_of(file))
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    return numpy.array(places, numpy.int64), numpy.array(sizes, numpy.int64)


def _walked(file: BinaryIO, path: str, whole: int) -> tuple[list[int], list[int]]:
    """Go from record to record."""
    places, sizes, at = list[int](), list[int](), 0
    beginnings = Beginnings(file, _BEFORE)
    while at < whole:
        beginning = beginnings.at(at, len(places))
        size = _size(beginning)
        if beginning == _BLANK:
            raise _damaged(path, f"record {len(places)}, at byte {at} of {whole}, {_UNWRITTEN}")
        if len(beginning) < _BEFORE or _BEFORE + size + _AFTER > whole - at:
            if places or not beginning.startswith(b"\x1f\x8b"):
                raise _damaged(path, f"record {len(places)}, at byte {at} of {whole}, is damaged or cut off")
            raise _damaged(path, "is compressed, which is not supported, or damaged")
        places.append(at)
        sizes.append(size)
        at += _BEFORE + size + _AFTER
    return places, sizes


def _in_index(index: str, path: str, store: Store, versions: Mapping[str, Version]) -> Places:
    """The same, as an index says; it lists the bytes of whole records."""
    whole = whole_of(TFRecord._operator, path, store, versions.get(path))
    numbers, lines = pairs_in(TFRecord._operator, index, store, "an offset and a size")
    places, bytes_of_each = numbers[:, 0], numbers[:, 1]
    wrong = numpy.flatnonzero((bytes_of_each < _BEFORE + _AFTER) | (places + bytes_of_each > whole))
    if len(wrong):
        told = f"{bytes_of_each[wrong[0]]} bytes from byte {places[wrong[0]]} on"
        raise _damaged(index, f"line {lines[wrong[0]]}: there is no record of {told} in {displayed(path)}")
    return places.copy(), bytes_of_each - (_BEFORE + _AFTER)
