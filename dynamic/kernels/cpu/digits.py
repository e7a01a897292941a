"""Digits of numbers: which fit in float32, and values less a level near them, whose differences fit in float64.

Sums of numbers of 32 bits or more are rounded, and so is a 64-bit integer that becomes a float64. Both cost nothing of
the values' differences where a level is taken away first: a constant is then 0, exactly. Arrays are NumPy's or CuPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays.array import Array, library
from dynamic.dtypes import convert

__all__ = ["above", "exact_level", "in_float32", "level", "raised"]

#: Types of which float32 holds every value.
_NARROW = frozenset(map(numpy.dtype, ("bool", "uint8", "int8", "uint16", "int16", "float16", "float32")))
_FLOAT64 = numpy.dtype("float64")
_NEAR = 2.0**-20  # of a level: values that differ more have digits enough without one
_EXACT = 1 << 53  # integers up to here float64 holds
_HALF = 2.0**62  # distances of 64-bit integers below this do not wrap around


def in_float32(*dtypes: Any) -> bool:
    """Whether float32 holds all values of some dtypes."""
    return _NARROW.issuperset(dtypes)


def level(arrays: Sequence[Array], axes: Sequence[int]) -> Array | None:
    """The first value along some dimensions, where those in their middle and at their end are near it; elsewhere 0.

    Three values tell, so this costs next to nothing: if others are farther off, the deviation is large, and no digit
    that counts is lost either way.

    Args:
        arrays: Alike but for the extents of these dimensions.
        axes: The dimensions, from the first or from the end.

    Returns:
        Of the arrays' dtype, with extents of 1 in these dimensions; None where 0 is all there is to take away, and
        where sums in float64 are exact.
    """
    arrays = [array for array in arrays if array.size]
    if not arrays or not axes or in_float32(arrays[0].dtype):
        return None
    xp = library(arrays[0])
    first, *others = [value for array in arrays for value in _three(array, {axis % array.ndim for axis in axes})]
    wide = first.astype(_FLOAT64)
    near = xp.isfinite(wide) & (wide != 0)
    with numpy.errstate(over="ignore", invalid="ignore"):
        for other in others:
            near &= abs(other.astype(_FLOAT64) - wide) <= _NEAR * abs(wide)
    return xp.where(near, first, first.dtype.type(0)) if near.any() else None


def _three(array: Array, axes: set[int]) -> list[Array]:
    """The first values along some dimensions, those in the middle, and the last ones."""
    ends = [[0, extent // 2, extent - 1] for extent in array.shape]
    return [
        array[tuple(slice(ends[i][k], ends[i][k] + 1) if i in axes else slice(None) for i in range(array.ndim))]
        for k in range(3)
    ]


def exact_level(array: Array, *more: Array) -> Any:
    """A value that can be taken from all others without rounding, where that keeps digits of them; else None.

    Args:
        array: Not empty.
        more: Other values that are to be taken along, of the same dtype.
    """
    if array.dtype.itemsize < 8:
        return None
    low, high = min(each.min() for each in (array, *more)), max(each.max() for each in (array, *more))
    if array.dtype.kind == "f":
        if 0 < high / 2 <= low:
            return low if numpy.isfinite(high) else None
        return high if low / 2 >= high and numpy.isfinite(low) and high < 0 else None
    return low if int(high) - int(low) <= _EXACT else None


def above(array: Array, level: Any) -> Array:
    """An array less a level, in float64."""
    if array.dtype == _FLOAT64:
        return array - level
    distances = array.astype(_FLOAT64) - level.astype(_FLOAT64)
    if array.dtype.itemsize == 8:
        wrapped = (array - level).view(numpy.int64).astype(_FLOAT64)
        distances = library(array).where(abs(distances) < _HALF, wrapped, distances)
    return distances


def raised(values: Array, level: Any, out: Array) -> None:
    """Store values above an exact level, or as they are where it is None, rounded and saturated to the dtype of `out`.

    Args:
        values: float64, used up.
        level: A value of `exact_level`.
        out: Where to, of the same shape.
    """
    if level is None or level.dtype == _FLOAT64 or out.dtype.kind not in "iu" or abs(int(level)) <= _EXACT:
        if level is not None:
            values += _FLOAT64.type(level)
        convert(numpy, values, out.dtype, out)
        return
    # Half away from zero, as all of the numbers have the sign of the level.
    steps = numpy.floor(values + 0.5) if level > 0 else numpy.ceil(values - 0.5)
    limits, base = numpy.iinfo(level.dtype), int(level)
    steps = steps.astype(numpy.int64).clip(max(limits.min - base, -(1 << 63)), min(limits.max - base, (1 << 63) - 1))
    convert(numpy, steps.view(level.dtype) + level, out.dtype, out)
