"""Operators on whole arrays, in functions that CuPy and NumPy share: a launch or more for each array.

A function here does the same as the one of its name in `kernels.cpu`, or as the operator does there without one. All
take arrays of either library, and numbers in NumPy arrays where these are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays.array import Array, library
from dynamic.dtypes import convert

__all__ = ["extreme", "mapped", "normalized", "one_hot", "squares", "total", "transform"]

_FLOAT64 = numpy.dtype(numpy.float64)
_KEYS = 1 << 16


@numpy.errstate(all="ignore")
def total(array: Array, axes: Sequence[int], kind: numpy.dtype[Any]) -> Array:
    """The sum over some dimensions, which stay with extents of 1, in a dtype."""
    if not axes:
        return array.astype(kind)
    return array.sum(axis=tuple(axes), dtype=kind, keepdims=True)


@numpy.errstate(all="ignore")
def squares(array: Array, axes: Sequence[int], centre: Array | None) -> Array:
    """The sum of the squares of the distances from `centre`, or from 0, in float64; dimensions as for `total`."""
    distances = array.astype(_FLOAT64)
    if centre is not None:
        distances -= library(array).asarray(centre)
    distances *= distances
    return total(distances, axes, _FLOAT64)


def extreme(ufunc: numpy.ufunc, array: Array, axes: Sequence[int]) -> Array:
    """The maximum (for `numpy.fmax`) or minimum of numbers over some dimensions, which stay with extents of 1."""
    if not axes:
        return array
    xp, name, places = library(array), "max" if ufunc is numpy.fmax else "min", {"axis": tuple(axes), "keepdims": True}
    if array.dtype.kind != "f":
        return getattr(array, name)(**places)
    missing, kind = xp.isnan(array), array.dtype.type
    known = xp.where(missing, kind(-numpy.inf if name == "max" else numpy.inf), array)
    return xp.where(missing.all(**places), kind(numpy.nan), getattr(known, name)(**places))


@numpy.errstate(all="ignore")
def normalized(image: Array, mean: Array, factor: Array, shift: float, out: Array) -> None:
    """(image - mean) * factor + shift, rounded and saturated to the dtype of `out`."""
    xp, real = library(image), _real(image.dtype, out.dtype)
    values = image.astype(real)
    values -= xp.asarray(mean, real)
    values *= xp.asarray(factor, real)
    if shift:
        values += real.type(shift)
    convert(xp, values, out.dtype, out)


def _real(*kinds: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The type to compute in: float64 where one of some types has more digits than float32."""
    wide = any(kind == _FLOAT64 or (kind.kind in "iu" and kind.itemsize > 2) for kind in kinds)
    return _FLOAT64 if wide else numpy.dtype(numpy.float32)


def one_hot(numbers: Array, count: int, off: Any, on: Any, following: int, out: Array) -> None:
    """Write `on` at the class of each number and `off` everywhere else; fractions are cut off."""
    if not out.size:
        return
    xp = library(numbers)
    rows = (xp.trunc(numbers) if numbers.dtype.kind == "f" else numbers).reshape(-1, 1, following)
    out[...] = xp.where(rows == xp.arange(count, dtype=numpy.int32).reshape(-1, 1), on, off).reshape(out.shape)


def mapped(data: Array, table: Array, out: Array) -> None:
    """Look integers or bools up in a table of 65536 values; others get the default behind these."""
    xp = library(data)
    most = 1 << 8 * data.dtype.itemsize
    if data.dtype.kind != "i" and most <= _KEYS:
        out[...] = xp.asarray(table[:most])[data.astype(numpy.int32)]
        return
    found = (data >= 0) & (data < _KEYS)
    places = xp.where(found, data.astype(numpy.int64), numpy.int64(_KEYS))
    out[...] = xp.asarray(table)[places]


@numpy.errstate(all="ignore")
def transform(points: Array, matrix: Array, out: Array, work: numpy.dtype[Any]) -> None:  # noqa: ARG001 - as on the CPU
    """Fill `out` with points multiplied by a matrix whose last column is added; computed in float64."""
    xp = library(points)
    factors, shift = xp.asarray(matrix[:, :-1].T), xp.asarray(matrix[:, -1])
    convert(xp, xp.matmul(points.astype(_FLOAT64), factors) + shift, out.dtype, out)
