"""tf.train.Example, which records of TFRecord files are: the features to ask for, and how they are stored."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, overload

import numpy

from dynamic import dtypes
from dynamic._arrays.array import Array
from dynamic.dtypes import DTypeLike
from dynamic.errors import ArgumentError, shown

from ._stored import Unusable
from ._wire import BYTES, CONTINUED, CUT_OFF, FOUR, VARINT, Malformed, fields, length, only, varints

__all__ = [
    "Column",
    "FixedLenFeature",
    "VarLenFeature",
    "columns",
    "float32",
    "int64",
    "plain_rows",
    "stored_features",
    "string",
    "values",
]

#: Types of the values of a feature.
int64, float32, string = "int64", "float32", "string"

_DALIS = (int64, string, float32)  # by the numbers that they are in DALI
_ARRAYS: dict[str, numpy.dtype[Any]] = {
    int64: numpy.dtype(numpy.int64),
    float32: numpy.dtype(numpy.float32),
    string: numpy.dtype(numpy.uint8),
}
_MOST_VALUES = 1 << 31  # of a list; a record cannot have more bytes
_MOST_DIMENSIONS = 32

_KINDS = {1: string, 2: float32, 3: int64}  # types of the lists of a feature, by the number of their field

# Bytes are mostly where they always are, and that is asked for first; `fields` reads other forms.
_FIRST = 1 << 3 | BYTES  # field 1, bytes
_SECOND = 2 << 3 | BYTES
_OF_INTEGERS = 3 << 3 | BYTES
_LONG_LENGTH = 35  # bits of a length that are looked at together; a record of more is large enough to be read alone


@dataclass(frozen=True)
class FixedLenFeature:
    """A feature that has as many values in each record, or a string.

    Args:
        shape: Of the array that the values make; a record with another number of them is refused. A string is an array
            of its bytes, of one dimension, whatever the shape is, which must be of one element: ``[]`` or ``[1]``.
        dtype: "int64", "float32" or "string"; or a dtype that means one of these.
        default_value: The value for a record without the feature, or without values of it: values for the whole shape,
            or one for all of it. By default such a record is an error.

    >>> from dynamic.readers.tfrecord import FixedLenFeature
    >>> FixedLenFeature([2, 2], "int64", 0)
    FixedLenFeature(shape=(2, 2), dtype='int64', default_value=0)
    """

    shape: Sequence[int]
    dtype: DTypeLike
    default_value: Any = None

    def __post_init__(self) -> None:
        operator = "tfrecord.FixedLenFeature"
        object.__setattr__(self, "shape", _shape(operator, "shape", self.shape, 0))
        object.__setattr__(self, "dtype", _kind(operator, self.dtype))
        if self.dtype == string and math.prod(self.shape) != 1:
            expected = "a shape of one element, of one string"
            raise ArgumentError(operator, "shape", expected, shown(self.shape))
        if self.default_value is not None:
            object.__setattr__(self, "default_value", _default(operator, self.shape, self.dtype, self.default_value))


@dataclass(frozen=True, init=False)
class VarLenFeature:
    """A feature that has any number of values in each record: an array of one dimension, or more with `partial_shape`.

    Args:
        partial_shape: May be left out. The shape of the array without its first dimension, whose extent follows from
            the number of values.
        dtype: "int64" or "float32"; or a dtype that means one of these.
        default_value: Makes no difference: a record that does not have the feature has no values of it.

    >>> from dynamic.readers.tfrecord import VarLenFeature
    >>> VarLenFeature("int64", 0)
    VarLenFeature(partial_shape=(), dtype='int64', default_value=0)
    >>> VarLenFeature([4], "float32", 0.0).partial_shape
    (4,)
    """

    partial_shape: Sequence[int]
    dtype: DTypeLike
    default_value: Any

    @overload
    def __init__(self, dtype: DTypeLike, default_value: Any = None, /) -> None: ...
    @overload
    def __init__(
        self, partial_shape: Sequence[int] = ..., dtype: DTypeLike = ..., default_value: Any = ...
    ) -> None: ...
    def __init__(self, partial_shape: Any = (), dtype: DTypeLike = None, default_value: Any = None) -> None:
        operator = "tfrecord.VarLenFeature"
        if not _is_shape(partial_shape):  # it is left out
            if dtype is not None and default_value is not None:
                raise ArgumentError(operator, "partial_shape", "a list of extents", shown(partial_shape))
            partial_shape, dtype, default_value = (), partial_shape, default_value if dtype is None else dtype
        object.__setattr__(self, "partial_shape", _shape(operator, "partial_shape", partial_shape, 1))
        object.__setattr__(self, "dtype", _kind(operator, dtype))
        object.__setattr__(self, "default_value", default_value)
        if self.dtype == string:
            hint = "A string is read by FixedLenFeature([], 'string', '')."
            raise ArgumentError(operator, "dtype", "'int64' or 'float32'", "'string'", hint)


Feature: TypeAlias = FixedLenFeature | VarLenFeature


class Column(NamedTuple):
    """A feature that is read."""

    name: str
    stored_name: bytes
    kind: str
    shape: tuple[int, ...]  #: where it has no fixed length, without the first dimension
    fixed: bool
    missing: Array | None  #: the value of records without it

    @property
    def stacked(self) -> bool:
        """Whether all samples have one shape."""
        return self.fixed and self.kind != string

    @property
    def one(self) -> bool:
        """Whether all samples have one integer."""
        return self.kind == int64 and self.fixed and math.prod(self.shape) == 1

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Of the arrays."""
        return _ARRAYS[self.kind]

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        if self.kind == string:
            return 1
        return len(self.shape) + (not self.fixed)


def columns(operator: str, features: Mapping[str, Any]) -> list[Column]:
    """The features that are asked for."""
    if not isinstance(features, Mapping) or not features:
        raise ArgumentError(operator, "features", "a dict from names to features", shown(features))
    found = []
    for name, given in features.items():
        if not isinstance(name, str):
            raise ArgumentError(operator, "features", "a dict whose keys are names", f"the key {shown(name)}")
        try:
            stored_name = name.encode()
        except UnicodeEncodeError:
            raise ArgumentError(operator, "features", "a dict whose keys are names", f"the key {shown(name)}") from None
        feature = _feature(operator, name, given)
        kind = str(feature.dtype)
        if isinstance(feature, VarLenFeature):
            shape = tuple(feature.partial_shape)
            nothing = numpy.zeros((0, *shape), _ARRAYS[kind])
            found.append(Column(name, stored_name, kind, shape, fixed=False, missing=nothing))
        else:
            missing = _default_array(feature)
            found.append(Column(name, stored_name, kind, tuple(feature.shape), fixed=True, missing=missing))
    return found


def _feature(operator: str, name: str, given: Any) -> Feature:
    """A feature, which may be one of TensorFlow."""
    if isinstance(given, (FixedLenFeature, VarLenFeature)):
        return given
    kind = type(given).__name__
    if kind == "FixedLenFeature" and hasattr(given, "shape") and hasattr(given, "dtype"):
        return FixedLenFeature(given.shape, given.dtype, getattr(given, "default_value", None))
    if kind == "VarLenFeature" and hasattr(given, "dtype"):
        return VarLenFeature(getattr(given, "partial_shape", ()), given.dtype)
    hint = "DALI's own features cannot be looked into: import FixedLenFeature from here." if kind == "Feature" else ""
    expected = "a FixedLenFeature or a VarLenFeature"
    raise ArgumentError(operator, f"features[{name!r}]", expected, shown(given), hint)


def values(column: Column, feature: memoryview | None) -> Array:
    """The array of a feature of a record; its stored part comes from `stored_features`.

    Raises:
        Unusable: It is of another type or shape, or damaged.
    """
    kind, stored = (0, memoryview(b"")) if feature is None else _list_of(feature)
    if not len(stored):
        return _missing(column)
    if _KINDS[kind] != column.kind:
        raise Unusable(f"feature {column.name!r} holds {_KINDS[kind]}, where {column.kind} is asked for")
    if column.kind == string:
        found = _strings(stored)
        if len(found) > 1:
            raise Unusable(f"feature {column.name!r} has {len(found)} strings, where one is asked for")
        return numpy.frombuffer(found[0], numpy.uint8) if found else _missing(column)
    array = _integers(stored) if column.kind == int64 else _floats(stored)
    if not array.size:
        return _missing(column)
    each = math.prod(column.shape)
    if array.size != each if column.fixed else array.size % each:
        needed = f"needs {each}" if column.fixed else f"needs a multiple of {each}"
        raise Unusable(
            f"feature {column.name!r} has {array.size} values, where the shape {list(column.shape)} {needed}"
        )
    return array.reshape(column.shape if column.fixed else (-1, *column.shape))


def plain_rows(memory: Array, starts: Array, ends: Array, columns: Sequence[Column]) -> list[list[Array | int] | None]:
    """The values of many records at once, where they are as they mostly are; None for those that are not.

    Such are laid out as the first: features of the same names in the same order, each once, each a list in one piece
    that is not empty. All steps of `stored_features` and `values` are taken for all records together.

    Args:
        memory: Where the records are.
        starts: Where each begins there, int64.
        ends: Where each ends.
        columns: The features that are read.
    """
    right, found = numpy.ones(len(starts), numpy.bool_), dict[bytes, _Lists]()
    at, stop = _spans(memory, starts, _FIRST, right)
    right &= stop == ends
    while len(at) and at[0] < ends[0]:
        start, stop = _spans(memory, at, _FIRST, right)
        begin, after = _spans(memory, start, _FIRST, right)
        feature, last = _spans(memory, after, _SECOND, right)
        right &= (stop <= ends) & (last == stop)
        if not right[0]:
            break
        own = memory[begin[0] : after[0]]
        right &= after - begin == len(own)
        right &= (memory.take(begin[:, None] + numpy.arange(len(own)), mode="clip") == own).all(axis=1)
        name = own.tobytes()
        if name in found:
            return [None] * len(starts)
        tag = int(memory[min(feature[0], len(memory) - 1)])
        inside, list_end = _spans(memory, feature, tag, right)
        first, values_end = _spans(memory, inside, _FIRST, right)
        right &= (list_end == stop) & (values_end == stop) & (first < stop)
        found[name] = _Lists(tag, feature, first, stop)
        at = stop
    right &= at == ends
    rows: list[Any] = [[] if fits else None for fits in right.tolist()]
    numbers = numpy.flatnonzero(right)
    try:
        for column in columns:
            lists = found.get(column.stored_name)
            for number, value in zip(numbers.tolist(), _column(memory, column, lists, numbers), strict=True):
                rows[number].append(value)
    except Unusable:  # one record after the other, they tell of which
        return [None] * len(starts)
    return rows


class _Lists(NamedTuple):
    """A feature of many records."""

    tag: int  #: of the kind of the lists
    features: Array  #: where each begins
    firsts: Array  #: where the values begin
    ends: Array


def _column(memory: Array, column: Column, lists: _Lists | None, numbers: Array) -> Sequence[Array | int]:
    """The values of a feature of some of the records."""
    if lists is None:
        return [_missing(column) for _ in numbers]
    firsts, ends = lists.firsts[numbers], lists.ends[numbers]
    if column.one and lists.tag == _OF_INTEGERS and (ends == firsts + 1).all() and (memory[firsts] < CONTINUED).all():
        found: list[int] = memory[firsts].tolist()
        return found
    if column.kind == string and lists.tag == _FIRST:
        return [memory[first:end] for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)]
    data, features = memoryview(memory), lists.features[numbers].tolist()
    return [values(column, data[first:end]) for first, end in zip(features, ends.tolist(), strict=True)]


def _spans(memory: Array, at: Array, tag: int, right: Array) -> tuple[Array, Array]:
    """Where the bytes of a field of each record begin and end; those whose field has another tag are not right."""
    right &= memory.take(at, mode="clip") == tag
    byte = memory.take(at + 1, mode="clip")
    size, start, shift = (byte & 0x7F).astype(numpy.int64), at + 2, 0
    more = byte >= CONTINUED
    while more.any() and shift < _LONG_LENGTH:
        shift += 7
        byte = memory.take(start, mode="clip")
        size += (byte & 0x7F).astype(numpy.int64) * more << shift
        start = start + more
        more = more & (byte >= CONTINUED)
    right &= ~more
    return start, start + size


def _missing(column: Column) -> Array:
    """The array of a feature that a record does not have."""
    if column.missing is None:
        raise Unusable(f"has no feature {column.name!r}, which has no default value")
    return column.missing.copy()


def _is_shape(value: Any) -> bool:
    if isinstance(value, numpy.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _shape(operator: str, argument: str, value: Any, least: int) -> tuple[int, ...]:
    """Extents as a tuple."""
    if not _is_shape(value):
        raise ArgumentError(operator, argument, "a list of extents", shown(value))
    for i, extent in enumerate(value):
        integral = isinstance(extent, (int, numpy.integer)) and not isinstance(extent, bool)
        if not integral or extent < least:
            raise ArgumentError(operator, f"{argument}[{i}]", f"an integer of {least} or more", shown(extent))
    extents = tuple(map(int, value))
    if len(extents) > _MOST_DIMENSIONS or math.prod(max(extent, 1) for extent in extents) >= _MOST_VALUES:
        expected = f"at most {_MOST_DIMENSIONS} extents of less than 2**31 values"
        raise ArgumentError(operator, argument, expected, shown(extents))
    return extents


def _kind(operator: str, value: DTypeLike) -> str:
    """The type of values: one of the three words."""
    if type(value) is int and 0 <= value < len(_DALIS):
        return _DALIS[value]
    word = value if isinstance(value, str) else getattr(value, "name", None)  # TensorFlow's dtypes have a name
    if not isinstance(word, str) or word not in _ARRAYS:
        try:
            word = dtypes.dtype(value).word
        except ArgumentError:
            word = None
    if word not in _ARRAYS:
        raise ArgumentError(operator, "dtype", "'int64', 'float32' or 'string'", shown(value))
    return str(word)


def _default(operator: str, shape: Sequence[int], kind: str, value: Any) -> Any:
    """A default value: bytes, a number, or a tuple of as many as the shape has."""
    if kind == string:
        one = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        try:
            return one if isinstance(one, bytes) else one.encode()
        except (AttributeError, UnicodeEncodeError):
            raise ArgumentError(operator, "default_value", "a string", shown(value)) from None
    expected = f"one {kind}, or {math.prod(shape)} for the shape {list(shape)}"
    try:
        array = numpy.asarray(value)
    except (ValueError, OverflowError):
        raise ArgumentError(operator, "default_value", expected, shown(value)) from None
    allowed = "bi" if kind == int64 else "biuf"
    if array.dtype.kind not in allowed or array.size not in (1, math.prod(shape)):
        raise ArgumentError(operator, "default_value", expected, shown(value))
    return array.item() if array.ndim == 0 else tuple(array.ravel().tolist())


def _default_array(feature: FixedLenFeature) -> Array | None:
    """The value of records without a feature; None where that is an error."""
    value, kind = feature.default_value, _ARRAYS[str(feature.dtype)]
    if feature.dtype == string:
        return None if value is None else numpy.frombuffer(value, numpy.uint8)
    if not math.prod(feature.shape):
        return numpy.zeros(feature.shape, kind)
    if value is None:
        return None
    with numpy.errstate(over="ignore"):
        array = numpy.asarray(value).astype(kind)
    return numpy.broadcast_to(array, feature.shape) if array.size == 1 else array.reshape(feature.shape)


def stored_features(record: memoryview, names: Container[bytes]) -> dict[bytes, memoryview]:
    """The stored parts of some features of a record, by name. Others are passed over unseen.

    Raises:
        Unusable: The record is no tf.train.Example.
    """
    found: dict[bytes, memoryview] = {}
    tag, start = only(record)
    if tag == _FIRST:
        _take_entries(record[start:], names, found)
    else:
        for number, wire, start, stop in fields(record):
            if number == 1 and wire == BYTES:
                _take_entries(record[start:stop], names, found)
    return found


def _list_of(feature: memoryview) -> tuple[int, memoryview]:
    """The type of a feature as a number in `_KINDS`, and its stored list; 0 where it holds nothing."""
    tag, start = only(feature)
    if tag in (_FIRST, _SECOND, 3 << 3 | BYTES):
        return tag >> 3, feature[start:]
    kind, parts = 0, list[memoryview]()
    for number, wire, start, stop in fields(feature):
        if wire == BYTES and number in _KINDS:
            if number != kind:  # a list of another kind replaces the one so far
                kind, parts = number, []
            parts.append(feature[start:stop])
    return kind, memoryview(b"".join(parts))


def _strings(stored: memoryview) -> list[memoryview]:
    """The strings of a list."""
    tag, start = only(stored)
    if tag == _FIRST:
        return [stored[start:]]
    return [stored[start:stop] for number, wire, start, stop in fields(stored) if number == 1 and wire == BYTES]


def _floats(stored: memoryview) -> Array:
    """The numbers of a list of floats: float32."""
    tag, start = only(stored)
    parts = [stored[start:]] if tag == _FIRST else _first_of(stored, FOUR)
    for part in parts:
        if len(part) % 4:
            raise Malformed(f"a list of floats has {len(part)} bytes")
    packed = parts[0] if len(parts) == 1 else b"".join(parts)
    return numpy.frombuffer(packed, "<f4").astype(numpy.float32)  # a copy: these may begin anywhere


def _integers(stored: memoryview) -> Array:
    """The numbers of a list of integers: int64."""
    tag, start = only(stored)
    if tag == _FIRST:
        return varints(stored[start:])
    parts = _first_of(stored, VARINT)
    if any(len(part) and part[-1] & CONTINUED for part in parts):
        raise Malformed(CUT_OFF)
    return varints(memoryview(b"".join(parts)))


def _first_of(stored: memoryview, wire: int) -> list[memoryview]:
    """The numbers of a list that are not all in one piece: each for itself, or some packed, or both."""
    return [stored[start:stop] for number, how, start, stop in fields(stored) if number == 1 and how in (wire, BYTES)]


def _take_entries(data: memoryview, names: Container[bytes], found: dict[bytes, memoryview]) -> None:
    """Take the features out of a map of them. Of several with one name it is the last that counts."""
    at, end = 0, len(data)
    while at < end:
        if at + 6 <= end and data[at] == _FIRST and data[at + 2] == _FIRST and (size := data[at + 1]) < CONTINUED:
            start, stop = at + 4, at + 2 + size  # it is short, and so are the lengths in it
            after = start + data[at + 3]
            if after + 2 <= stop <= end and data[after] == _SECOND and after + 2 + data[after + 1] == stop:
                name = data[start:after].tobytes()
                if name in names:
                    found[name] = data[after + 2 : stop]
                at = stop
                continue
        number, wire, start, at = next(fields(data, at))
        if number == 1 and wire == BYTES:
            name, feature = _entry(data[start:at])
            if name in names:
                found[name] = feature


def _entry(entry: memoryview) -> tuple[bytes, memoryview]:
    """The name and the feature of an entry of a map, which are fields 1 and 2 of it."""
    end = len(entry)
    if end > 3 and entry[0] == _FIRST:
        size, start = length(entry, 1)
        stop = start + size
        if stop < end and entry[stop] == _SECOND:
            size, begin = length(entry, stop + 1)
            if begin + size == end:
                return entry[start:stop].tobytes(), entry[begin:]
    name, parts = b"", list[memoryview]()
    for number, wire, start, stop in fields(entry):
        if number == 1 and wire == BYTES:
            name = entry[start:stop].tobytes()
        elif number == 2 and wire == BYTES:
            parts.append(entry[start:stop])  # several would be parts of one
    return name, parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
