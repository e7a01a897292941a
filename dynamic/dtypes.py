"""Element types: their names, how two of them combine, and how values pass from one to another.

Promotion is DALI's (`promote`), conversion saturates and rounds half away from zero (`convert`). Both work on NumPy
dtypes and arrays, and on CuPy arrays alike; `DType` is the class for users.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy

from .errors import ArgumentError, shown
from .types import DALIDataType

__all__ = [
    "DType",
    "DTypeLike",
    "bfloat16",
    "bool_",
    "convert",
    "dtype",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "of_numpy",
    "promote",
    "rounded",
    "storable",
    "type_id",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

#: Anything that `dtype` understands: a DType, a NumPy or torch dtype, a word such as "float32" or "u8", a Python type.
DTypeLike: TypeAlias = Any


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """An element type. There is one object for each, so ``is`` compares them; ``==`` also accepts NumPy's and words.

    Attributes:
        name: The short name that tensors print: "u8", "f32", "bool".
        word: The long name: "uint8", "float32", "bool".
        kind: Whether it is signed, unsigned, floating point or boolean.
        bits: Size of an element in bits.
        exponent_bits: Bits of the exponent; None unless floating point.
        significand_bits: Stored bits of the significand; None unless floating point.
        type_id: DALI's constant for the type, which is a number; -1 of bfloat16, which has none there.

    >>> ndd.float32.bits, ndd.float32 == numpy.float32, str(ndd.float32)
    (32, True, 'f32')
    """

    class Kind(enum.Enum):
        """The kind of an element."""

        signed = "signed"
        unsigned = "unsigned"
        float = "float"
        bool = "bool"

    name: str
    word: str
    kind: DType.Kind
    bits: int
    exponent_bits: int | None
    significand_bits: int | None
    type_id: int

    @property
    def bytes(self) -> int:
        """Size of an element in bytes."""
        return self.bits // 8

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The NumPy dtype; with it ``numpy.dtype(dynamic.float32)`` works."""
        return numpy_dtype(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType) or other is None:
            return self is other
        try:
            return dtype(other) is self
        except ArgumentError:
            return False

    def __hash__(self) -> int:
        return hash(self.word)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        fields = f"kind={self.kind}, bits={self.bits}"
        if self.exponent_bits:
            fields += f", exponent_bits={self.exponent_bits}, significand_bits={self.significand_bits}"
        return f"DType({fields})"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return dtype, (self.word,)


_Kind = DType.Kind
uint8 = DType("u8", "uint8", _Kind.unsigned, 8, None, None, DALIDataType(0))
uint16 = DType("u16", "uint16", _Kind.unsigned, 16, None, None, DALIDataType(1))
uint32 = DType("u32", "uint32", _Kind.unsigned, 32, None, None, DALIDataType(2))
uint64 = DType("u64", "uint64", _Kind.unsigned, 64, None, None, DALIDataType(3))
int8 = DType("i8", "int8", _Kind.signed, 8, None, None, DALIDataType(4))
int16 = DType("i16", "int16", _Kind.signed, 16, None, None, DALIDataType(5))
int32 = DType("i32", "int32", _Kind.signed, 32, None, None, DALIDataType(6))
int64 = DType("i64", "int64", _Kind.signed, 64, None, None, DALIDataType(7))
float16 = DType("f16", "float16", _Kind.float, 16, 5, 10, DALIDataType(8))
float32 = DType("f32", "float32", _Kind.float, 32, 8, 23, DALIDataType(9))
float64 = DType("f64", "float64", _Kind.float, 64, 11, 52, DALIDataType(10))
bool_ = DType("bool", "bool", _Kind.bool, 8, None, None, DALIDataType(11))
bfloat16 = DType("bfloat16", "bfloat16", _Kind.float, 16, 8, 7, -1)

#: The types that arrays can have. bfloat16 is a name without storage: NumPy has no such element.
ALL = (bool_, uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, float32, float64)

_BY_NUMPY: dict[Any, DType] = {numpy.dtype(t.word): t for t in ALL}
_NUMPY: dict[DType, numpy.dtype[Any]] = {t: d for d, t in _BY_NUMPY.items()}
_BY_WORD: dict[str, DType] = {w: t for t in (*ALL, bfloat16) for w in (t.name, t.word)} | {
    "half": float16,
    "float": float32,
    "double": float64,
    "int": int32,
}
#: Python's own types; a Python int or float becomes the type that a Python number in a list does.
_BY_PYTHON: dict[type, DType] = {bool: bool_, float: float32, int: int32}
WORDS = "a dtype such as 'float32', 'u8', numpy.int16 or dynamic.bool"


def dtype(value: DTypeLike) -> DType:
    """Find an element type by a name.

    Args:
        value: A DType, a NumPy dtype or scalar type, a torch dtype, a word ("float32", "f32", "bool"), one of Python's
            own types (`bool`, and `int` and `float` for the types that Python numbers get: int32 and float32), or one
            of the constants of `dynamic.types` or of `nvidia.dali.types` (`types.FLOAT`).

    Raises:
        ArgumentError: The value names no type that arrays here can have (complex, text, objects, dates).

    >>> ndd.dtype("u8"), ndd.dtype(numpy.float64) is ndd.float64
    (DType(kind=Kind.unsigned, bits=8), True)
    """
    return dtype_of(value, "dtype", "value")


def dtype_of(value: DTypeLike, operator: str, argument: str = "dtype") -> DType:
    """The element type that an argument of an operator names."""
    found = _lookup(value)
    if found is None:
        raise ArgumentError(operator, argument, WORDS, shown(value))
    return found


def _lookup(value: Any) -> DType | None:
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return _BY_WORD.get(value)
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    if isinstance(value, enum.Enum) or type(value).__name__ == "DALIDataType":  # that of nvidia.dali.types is none
        return _BY_WORD.get(value.name.lower())
    if type(value).__module__ == "torch":
        return _BY_WORD.get(str(value).removeprefix("torch."))
    try:
        return _BY_NUMPY.get(numpy.dtype(value).newbyteorder("=")) if value is not None else None
    except (TypeError, ValueError, RuntimeError):  # data has a dtype too, and may not like to be asked
        return None


def of_numpy(value: numpy.dtype[Any]) -> DType | None:
    """The element type of arrays of a NumPy dtype in native byte order, or None where there is none."""
    return _BY_NUMPY.get(value)


def numpy_dtype(value: DType, operator: str = "dtype", argument: str = "value") -> numpy.dtype[Any]:
    """The NumPy dtype of an element type, which an argument of an operator may have named."""
    try:
        return _NUMPY[value]
    except KeyError:
        raise ArgumentError(operator, argument, "a type that NumPy arrays can have", str(value)) from None


def storable(value: DTypeLike, operator: str) -> numpy.dtype[Any]:
    """The NumPy dtype that the argument `dtype` of an operator names."""
    return numpy_dtype(dtype_of(value, operator), operator, "dtype")


def type_id(value: DTypeLike) -> int:
    """Return DALI's constant for an element type; its `NO_TYPE`, -1, for bfloat16, which it lacks.

    >>> ndd.type_id(ndd.float32)
    <DALIDataType.FLOAT: 9>
    """
    return dtype(value).type_id


@functools.cache
def promote(a: numpy.dtype[Any], b: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The dtype in which two operands meet, by DALI's table.

    A float beats an integer and keeps its own width (int64 with float32 is float32), a bool gives way to any number,
    and integers of different sign meet in the narrowest signed type that is wider than the unsigned one, at most int64.

    >>> str(ndd.dtypes.promote(numpy.dtype("uint8"), numpy.dtype("int8")))
    'int16'
    """
    if a == b:
        return a
    if "b" in (a.kind, b.kind):
        return b if a.kind == "b" else a
    if "f" in (a.kind, b.kind) and a.kind != b.kind:
        return a if a.kind == "f" else b
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return numpy.dtype(f"i{min(8, max(signed.itemsize, 2 * unsigned.itemsize))}")


def rounded(xp: Any, values: Any) -> Any:
    """Floating-point values rounded half away from zero: 0.5 is 1, -2.5 is -3. Exact for every value."""
    kind = values.dtype.type
    nearly_half = numpy.nextafter(kind(0.5), kind(0))  # to add 1/2 would make 1 of the largest number below it
    with numpy.errstate(invalid="ignore"):  # signalling NaN
        return xp.trunc(values + xp.copysign(nearly_half, values))


def convert(xp: Any, array: Any, to: numpy.dtype[Any], out: Any = None) -> Any:
    """The values of an array as another dtype: saturated, rounded half away from zero, NaN as 0.

    A bool is whether the rounded value is not 0, as in DALI: 0.4 is False, 0.5 and NaN are True.

    The array itself comes back where the dtype is the same already and no `out` is given.
    """
    have = array.dtype
    if have == to:
        return array if out is None else _copied(xp, array, out)
    if to.kind == "f" or have.kind == "b":
        if xp is numpy and array.size >= _MANY and _is_of_half(have, to) and (out is None or out.shape == array.shape):
            return _of_half(array, to, out)
        if out is None:
            with numpy.errstate(over="ignore"):  # float64 beyond float16 is infinite, as in DALI
                return array.astype(to, copy=False)
        with numpy.errstate(over="ignore"):
            out[...] = array
        return out
    if not array.ndim:  # NumPy makes scalars of these, which are no arrays
        values = convert(xp, array[None], to)[0, ...]
    elif to.kind == "b":
        values = (rounded(xp, array) if have.kind == "f" else array) != 0
    elif have.kind == "f":
        values = _float_to_int(xp, array, to)
    else:
        values = _int_to_int(xp, array, to)
    if out is None:
        return values
    out[...] = values
    return out


def of_32_bits(array: Any) -> Any:
    """Numbers of 64 bits in 32, as constants of DALI's pipelines are; integers that 32 bits do not hold stay."""
    to = {"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(array.dtype.name)
    if to is None:
        return array
    if array.dtype.kind in "iu" and array.size:
        limits = numpy.iinfo(to)
        if array.min() < limits.min or array.max() > limits.max:
            return array
    return convert(numpy, array, numpy.dtype(to))


_LONG = 1 << 18  # bytes; shorter copies stay in the cache


def _copied(xp: Any, array: Any, out: Any) -> Any:
    """Copy to memory of the same type.

    Long copies go through vectors: in two thirds of the time that the string instructions take which memcpy uses for it
    (on Zen 4, where the copy does not stay in the cache; where it does, in the same).
    """
    long = xp is numpy and out.nbytes >= _LONG and array.shape == out.shape
    if long and array.flags.c_contiguous and out.flags.c_contiguous:
        word = f"u{out.itemsize}"
        numpy.positive(array.view(word), out=out.view(word))
    else:
        out[...] = array
    return out


_MANY = 1 << 10  # elements; for fewer it does not pay to call OpenCV
_ROW = 1 << 24  # elements that OpenCV takes as one row
_NOTHING: Any = 0.0  # a number, where OpenCV declares an array
_FLOAT16, _FLOAT32 = numpy.dtype(numpy.float16), numpy.dtype(numpy.float32)
_IN_FLOAT32 = frozenset(map(numpy.dtype, ("float32", "uint8", "int8", "uint16", "int16")))  # it holds their values


def _is_of_half(have: numpy.dtype[Any], to: numpy.dtype[Any]) -> bool:
    """Whether this is a conversion to or from float16 in which OpenCV finds the same bits as NumPy."""
    return have in _IN_FLOAT32 if to == _FLOAT16 else have == _FLOAT16 and to == _FLOAT32


def _of_half(array: Any, to: numpy.dtype[Any], out: Any) -> Any:
    """Such a conversion, six to twenty times as fast as NumPy's: by the vectors of the processor."""
    result = numpy.empty(array.shape, to) if out is None else out
    memory: Any = result if result.flags.c_contiguous else numpy.empty(array.shape, to)
    flat: Any = numpy.ascontiguousarray(array).reshape(1, -1)
    there, depth = memory.reshape(1, -1), cv2.CV_16F if to == _FLOAT16 else cv2.CV_32F
    for start in range(0, array.size, _ROW):
        some = slice(start, start + _ROW)
        # Unlike adding nothing, subtracting it keeps the sign of -0.0.
        cv2.subtract(flat[:, some], _NOTHING, dst=there[:, some], dtype=depth)
    if memory is not result:
        result[...] = memory
    return result


def _float_to_int(xp: Any, array: Any, to: numpy.dtype[Any]) -> Any:
    limits = numpy.iinfo(to)
    if array.dtype.itemsize == 2:
        array = convert(xp, array, numpy.dtype(numpy.float32))  # float16 has no room for the limits of most integers
    with numpy.errstate(invalid="ignore"):
        values = rounded(xp, array)
        if to.itemsize * 8 <= numpy.finfo(values.dtype).nmant:  # both limits are values of the float type
            xp.clip(values, limits.min, limits.max, out=values)
            values[xp.isnan(values)] = 0
            return values.astype(to)
        above, below = values >= float(limits.max), values <= float(limits.min)
        values[above | below | xp.isnan(values)] = 0
        whole = values.astype(to)
        whole[above], whole[below] = limits.max, limits.min
        return whole


def _int_to_int(xp: Any, array: Any, to: numpy.dtype[Any]) -> Any:
    have, want = numpy.iinfo(array.dtype), numpy.iinfo(to)
    low, high = max(have.min, want.min), min(have.max, want.max)
    if (low, high) != (have.min, have.max):
        array = xp.clip(array, array.dtype.type(low), array.dtype.type(high))
    return array.astype(to)
