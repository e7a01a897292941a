"""Means and deviations over some dimensions of an array, and normalising by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import cv2
import numpy

from dynamic._array import Array

from .filters import real_of, stored

__all__ = ["normalized", "squares", "sums"]

_SUMMED = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32", "float64")))  # what OpenCV sums
_FEW = 64  # rows that are summed one by one
_COLOURS = 4  # channels that OpenCV sums at once
_SHORT = 64  # NumPy computes along the last dimension, which should be longer
_BLOCK = 1 << 17  # values computed at a time, so that they stay in the cache


def sums(values: Array, axes: Sequence[int]) -> Array:
    """Sums over some dimensions, which keep an extent of 1, in float64.

    Args:
        values: An array that is not empty.
        axes: The dimensions, ascending.
    """
    shape, ndim, count = values.shape, values.ndim, len(axes)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    rest = math.prod(kept)
    if not axes:
        return values.astype(numpy.float64)
    if values.dtype not in _SUMMED:
        values = values.astype(real_of(values.dtype))
    values = numpy.ascontiguousarray(values)
    channels = shape[-1] if ndim - 1 not in axes else 1
    if axes == list(range(ndim - count, ndim)):  # the last ones
        rows = values.reshape(rest, 1, -1)
        found = numpy.array([cv2.sumElems(row)[0] for row in rows]) if rest <= _FEW else _beside(rows[:, 0])
    elif axes == list(range(ndim - 1)) and channels <= _COLOURS:
        found = numpy.array(cv2.sumElems(values.reshape(len(values), -1, channels))[:channels])
    elif axes == list(range(count)):
        found = _first(values, count)
    elif ndim - 1 not in axes and channels <= _SHORT:
        planes = cv2.split(values.reshape(math.prod(shape[:-2]), -1, channels))
        found = numpy.stack([sums(plane.reshape(shape[:-1]), axes) for plane in planes], -1)
    else:
        found = numpy.add.reduce(values, tuple(axes), dtype=numpy.float64)
    result: Array = found.reshape(kept)
    return result


def _beside(rows: Array) -> Array:
    return cv2.reduce(rows, 1, cv2.REDUCE_SUM, dtype=cv2.CV_64F)


def _first(values: Array, count: int) -> Array:
    """Sums over the first dimensions: at first over all but one of them, so that there is much beside each other."""
    shape = values.shape
    rows = values.reshape(math.prod(shape[: max(1, count - 1)]), -1)
    total = cv2.reduce(rows, 0, cv2.REDUCE_SUM, dtype=cv2.CV_64F)
    result: Array = total if count == 1 else numpy.add.reduce(total.reshape(shape[count - 1], -1), 0)
    return result


def squares(image: Array, mean: Array, axes: Sequence[int]) -> Array:
    """Sums of the squares of the image less a mean that broadcasts to it, over some dimensions.

    Args:
        image: An array that is not empty.
        mean: An array with as many dimensions.
        axes: The dimensions, ascending.
    """
    if image.dtype == numpy.uint8 and all(mean.shape[axis] == 1 for axis in axes):  # sums are exact: less work will do
        parts = [sums(numpy.square(part, dtype=numpy.uint16), axes) for part, _ in _blocks(image)]
        count = math.prod(image.shape[axis] for axis in axes)
        return numpy.maximum(_together(parts, axes) - 2 * mean * sums(image, axes) + count * numpy.square(mean), 0)
    real, parts = real_of(image.dtype), []
    for part, (own_mean,) in _blocks(image, mean):
        values = numpy.empty(part.shape, real)
        _centred(part, own_mean, values)
        with numpy.errstate(over="ignore", invalid="ignore"):
            numpy.square(values, out=values)
        parts.append(sums(values, axes))
    return _together(parts, axes)


def _together(parts: list[Array], axes: Sequence[int]) -> Array:
    result: Array = numpy.add.reduce(parts, 0) if 0 in axes else numpy.concatenate(parts)
    return result


def normalized(image: Array, mean: Array, factor: Array, shift: float, out: Array) -> None:
    """(image - mean) * factor + shift.

    Args:
        image: An array that is not empty.
        mean: Broadcasts to the image.
        factor: Broadcasts to the image.
        shift: A number.
        out: Where to, of any dtype; integers are rounded and saturated.
    """
    real = real_of(image.dtype, out.dtype)
    direct = out.dtype == real and out.flags.c_contiguous
    start = 0
    for part, (own_mean, own_factor) in _blocks(image, mean, factor):
        result = out[start : start + len(part)]
        start += len(part)
        values = result if direct else numpy.empty(part.shape, real)
        _centred(part, own_mean, values)
        _scaled(values, own_factor, shift)
        if not direct:
            stored(values, result)


def _blocks(image: Array, *parameters: Array) -> Iterator[tuple[Array, list[Array]]]:
    """Parts of an image along its first dimension, and what belongs to them of arrays that broadcast to it."""
    step = max(1, _BLOCK * len(image) // image.size)
    for start in range(0, len(image), step):
        rows = slice(start, start + step)
        yield image[rows], [each if len(each) == 1 else each[rows] for each in parameters]


def _centred(image: Array, mean: Array, out: Array) -> None:
    mean, pixels, result = _long_rows(mean, image, out)
    with numpy.errstate(over="ignore", invalid="ignore"):
        numpy.copyto(result, pixels, casting="unsafe")
        numpy.subtract(result, mean.astype(out.dtype), out=result)


def _scaled(values: Array, factor: Array, shift: float) -> None:
    factor, _, result = _long_rows(factor, values, values)
    with numpy.errstate(over="ignore", invalid="ignore"):
        numpy.multiply(result, factor.astype(values.dtype), out=result)
        if shift:
            numpy.add(result, values.dtype.type(shift), out=result)


def _long_rows(parameter: Array, image: Array, out: Array) -> tuple[Array, Array, Array]:
    """The same arrays with their last two dimensions as one, where the parameter differs along a last one, a short."""
    if parameter.size == 1:
        return parameter.reshape(()), image, out
    if image.ndim < 2 or image.shape[-1] > _SHORT or not image.flags.c_contiguous:
        return parameter, image, out
    extents, rows, own = image.shape[-2:], (*image.shape[:-2], -1), parameter.shape[:-2]
    return numpy.broadcast_to(parameter, (*own, *extents)).reshape(*own, -1), image.reshape(rows), out.reshape(rows)
