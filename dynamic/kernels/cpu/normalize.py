"""Means and deviations over some dimensions of an array, and normalising by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._array import Array

from .filters import real_of

__all__ = ["centred", "scaled", "sums"]

_SUMMED = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32", "float64")))  # what OpenCV sums
_FEW = 64  # sums of one row each are faster up to so many
_SHORT = 64  # NumPy computes along the last dimension, which should be longer


def sums(values: Array, axes: Sequence[int], *, squared: bool = False) -> Array:
    """Sums of values or of their squares over some dimensions, which keep an extent of 1, in float64.

    Args:
        values: An array that is not empty.
        axes: The dimensions, ascending.
        squared: Whether the squares are summed.
    """
    shape, count = values.shape, len(axes)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    rest = math.prod(kept)
    if not axes:
        return numpy.square(values, dtype=numpy.float64) if squared else values.astype(numpy.float64)
    if values.dtype not in _SUMMED:
        values = values.astype(real_of(values.dtype))
    values = numpy.ascontiguousarray(values)
    last = axes == list(range(values.ndim - count, values.ndim))
    if last and rest <= _FEW:
        rows = values.reshape(rest, 1, -1)
        found = [cv2.norm(row, cv2.NORM_L2SQR) if squared else cv2.sumElems(row)[0] for row in rows]
        return numpy.array(found).reshape(kept)
    if axes == list(range(count)):
        return _first(values, count, squared=squared).reshape(kept)
    with numpy.errstate(over="ignore", invalid="ignore"):
        total: Array = numpy.add.reduce(
            numpy.square(values, dtype=numpy.float64) if squared else values,
            tuple(axes), dtype=numpy.float64, keepdims=True,
        )  # fmt: skip
    return total


def _first(values: Array, count: int, *, squared: bool) -> Array:
    """Sums over the first dimensions: at first over all but one of them, so that there is much beside each other."""
    shape = values.shape
    rows = values.reshape(math.prod(shape[: max(1, count - 1)]), -1)
    total = cv2.reduce(rows, 0, cv2.REDUCE_SUM2 if squared else cv2.REDUCE_SUM, dtype=cv2.CV_64F)
    result: Array = total if count == 1 else numpy.add.reduce(total.reshape(shape[count - 1], -1), 0)
    return result


def centred(image: Array, mean: Array, out: Array) -> Array:
    """The image less a mean that broadcasts to it, written to contiguous `out` of float32 or float64."""
    (mean,), pixels, result = _long_rows([mean], image, out)
    with numpy.errstate(over="ignore", invalid="ignore"):
        numpy.subtract(pixels, mean.astype(out.dtype), out=result, dtype=out.dtype, casting="unsafe")
    return out


def scaled(values: Array, factor: Array, shift: float) -> None:
    """Multiply float32 or float64 by a factor that broadcasts to it, and add a number, in place."""
    (factor,), _, result = _long_rows([factor], values, values)
    with numpy.errstate(over="ignore", invalid="ignore"):
        numpy.multiply(result, factor.astype(values.dtype), out=result)
        if shift:
            numpy.add(result, values.dtype.type(shift), out=result)


def _long_rows(parameters: list[Array], image: Array, out: Array) -> tuple[list[Array], Any, Any]:
    """The same arrays with their last two dimensions as one, where parameters differ along a last one that is short."""
    if all(each.size == 1 for each in parameters):
        return [each.reshape(()) for each in parameters], image, out
    if image.ndim < 2 or image.shape[-1] > _SHORT or not image.flags.c_contiguous:
        return parameters, image, out
    extents, rows = image.shape[-2:], (*image.shape[:-2], -1)
    long = [numpy.broadcast_to(each, (*each.shape[:-2], *extents)).reshape(*each.shape[:-2], -1) for each in parameters]
    return long, image.reshape(rows), out.reshape(rows)
