"""Means and deviations over some dimensions of an array, and normalising by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._base import pool
from dynamic.dtypes import convert

from .filters import real_of, stored
from .tables import OF_OPENCV

__all__ = ["LONG_ROW", "normalized", "normalized_rows", "squares", "sums"]

_SUMMED = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32", "float64")))  # that OpenCV sums
_FEW = 64  # rows that are summed one by one
_COLOURS = 4  # channels that OpenCV sums at once
_ENOUGH = 1e-7  # of the square of the mean: a variance that sums of squares still tell
LONG_ROW = 1 << 14  # values; of shorter ones the sums must not depend on how many rows there are
_SHORT = 64  # NumPy computes along the last dimension, which should be longer
_QUIET = numpy.errstate(over="ignore", invalid="ignore")  # infinities are results like others
_BLOCK = 1 << 17  # values computed at a time, so that they stay in the cache


@_QUIET
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
        found = numpy.stack([sums(plane, axes) for plane in _planes(values)], -1)
    else:
        found = numpy.add.reduce(values, tuple(axes), dtype=numpy.float64)
    result: Array = found.reshape(kept)
    return result


def _beside(rows: Array) -> Array:
    """Sums of many rows."""
    rows = rows if rows.dtype.kind == "f" else rows.astype(numpy.float32)
    return cv2.reduce(rows, 1, cv2.REDUCE_SUM, dtype=cv2.CV_64F)


def _first(values: Array, count: int) -> Array:
    """Sums over the first dimensions: at first over all but one of them, so that there is much beside each other."""
    shape = values.shape
    rows = values.reshape(math.prod(shape[: max(1, count - 1)]), -1)
    total = cv2.reduce(rows, 0, cv2.REDUCE_SUM, dtype=cv2.CV_64F)
    result: Array = total if count == 1 else numpy.add.reduce(total.reshape(shape[count - 1], -1), 0)
    return result


@_QUIET
def squares(image: Array, mean: Array, axes: Sequence[int]) -> Array:
    """Sums of the squares of the image less a mean that broadcasts to it, over some dimensions.

    Args:
        image: An array that is not empty.
        mean: An array with as many dimensions.
        axes: The dimensions, ascending.
    """
    ndim = image.ndim
    if ndim > 1 and axes == list(range(1, ndim)) and len(image) <= _FEW:
        rows = [squares(image[i], mean[i if len(mean) > 1 else 0], list(range(ndim - 1))) for i in range(len(image))]
        return numpy.stack(rows)
    found = _at_once(image, mean, axes) if image.dtype in _SUMMED else None
    if found is not None:
        return found
    if ndim - 1 not in axes and image.shape[-1] <= _SHORT and axes != list(range(len(axes))):
        parts = [squares(plane, mean[..., min(i, mean.shape[-1] - 1)], axes) for i, plane in enumerate(_planes(image))]
        return numpy.stack(parts, -1)
    parts, buffer = [], numpy.empty(0, real_of(image.dtype))
    for part, (own_mean,) in _blocks(image, mean.astype(buffer.dtype)):
        if buffer.size < part.size:
            buffer = numpy.empty(part.size, buffer.dtype)
        values = buffer[: part.size].reshape(part.shape)
        rows, result, mean_of_rows = _long_rows(part, values, own_mean)
        _centred(rows, mean_of_rows, result)
        numpy.square(values, out=values)
        parts.append(sums(values, axes))
    return _together(parts, axes)


def _at_once(image: Array, mean: Array, axes: Sequence[int]) -> Array | None:
    """The same for all values or all of a channel, from sums of their squares; None where these lose digits."""
    kept = (1,) * (image.ndim - 1)
    if axes == list(range(image.ndim)) and mean.size == 1:
        values = numpy.ascontiguousarray(image).reshape(-1)
        whole = values.size - values.size % _COLOURS
        pixels, rest = values[:whole].reshape(1, -1, _COLOURS), values[whole:].astype(numpy.float64)
        shape: tuple[int, ...] = (*kept, 1)
    elif kept and axes == list(range(image.ndim - 1)) and image.shape[-1] <= _COLOURS and mean.size == mean.shape[-1]:
        pixels, rest = numpy.ascontiguousarray(image).reshape(len(image), -1, image.shape[-1]), numpy.empty(0)
        shape = (*kept, image.shape[-1])
    else:
        return None
    if not pixels.size:
        return numpy.square(rest - mean.reshape(-1)).sum().reshape(shape)
    means, deviations = (each.reshape(-1) for each in cv2.meanStdDev(pixels))
    variances = numpy.square(deviations)
    if image.dtype != numpy.uint8 and not (variances > _ENOUGH * numpy.square(means)).all():
        return None
    found = pixels.size // pixels.shape[-1] * (variances + numpy.square(means - mean.reshape(-1)))
    if shape[-1] == 1:
        found = found.sum() + numpy.square(rest - mean.reshape(-1)).sum()
    return found.reshape(shape)


def _planes(image: Array) -> list[Array]:
    """The channels of an image, each contiguous."""
    channels = image.shape[-1]
    if image.dtype not in _SUMMED:
        return [numpy.ascontiguousarray(image[..., i]) for i in range(channels)]
    parts = cv2.split(numpy.ascontiguousarray(image).reshape(len(image), -1, channels))
    return [part.reshape(image.shape[:-1]) for part in parts]


def _together(parts: list[Array], axes: Sequence[int]) -> Array:
    result: Array = numpy.add.reduce(parts, 0) if 0 in axes else numpy.concatenate(parts)
    return result


@_QUIET
def normalized(image: Array, mean: Array, factor: Array, shift: float, out: Array) -> None:
    """(image - mean) * factor + shift.

    Args:
        image: An array that is not empty.
        mean: Broadcasts to the image.
        factor: Broadcasts to the image.
        shift: A number.
        out: Where to, contiguous and of any dtype; integers are rounded and saturated.
    """
    if image.dtype == numpy.uint8 and out.dtype in OF_OPENCV and _looked_up(image, mean, factor, shift, out):
        return
    if image.ndim > 1 and image.shape[-1] <= _SHORT and _along_rows(mean, factor):
        for i, plane in enumerate(_planes(image)):
            own = [each[..., min(i, each.shape[-1] - 1)] for each in (mean, factor)]
            result = numpy.empty(plane.shape, out.dtype)
            normalized(plane, own[0], own[1], shift, result)
            out[..., i] = result
        return
    real = real_of(image.dtype, out.dtype)
    mean, factor = mean.astype(real), factor.astype(real)
    image, out, mean, factor = _long_rows(image, out, mean, factor)

    @_QUIET
    def some(rows: slice) -> None:
        start = rows.start
        own = [each if len(each) == 1 else each[rows] for each in (mean, factor)]
        for part, (own_mean, own_factor) in _blocks(image[rows], *own):
            result = out[start : start + len(part)]
            start += len(part)
            values = result if out.dtype == real else numpy.empty(part.shape, real)
            _centred(part, own_mean, values)
            numpy.multiply(values, own_factor, out=values)
            if shift:
                numpy.add(values, real.type(shift), out=values)
            if values is not result:
                stored(values, result)

    pool.split(some, len(image), image.nbytes + out.nbytes)


@_QUIET
def normalized_rows(rows: Array, ddof: int, epsilon: float, scale: float, shift: float, out: Array) -> None:
    """Rows, each normalised by a mean and a deviation of its own, in as few steps as can be.

    Args:
        rows: float32, or integers of up to 16 bits; contiguous, of two dimensions, not empty.
        ddof: Delta degrees of freedom: the variance is divided by the length of a row less this.
        epsilon: Added to the variances.
        scale: Factor of the result.
        shift: Added to the result.
        out: Where to, float32, the same.
    """
    count, whole = rows.shape[1], rows.dtype.kind != "f"
    rows = rows.astype(numpy.float32, copy=False)
    one = len(rows) == 1 and count >= LONG_ROW
    totals = numpy.array([[cv2.sumElems(rows)[0]]]) if one else cv2.reduce(rows, 1, cv2.REDUCE_SUM, dtype=cv2.CV_64F)
    means = totals / count
    about = means.astype(numpy.float32)
    numpy.subtract(rows, about, out=out)
    if one:
        found = numpy.array([[cv2.norm(out, cv2.NORM_L2SQR)]])
    else:
        found = cv2.reduce(numpy.square(out), 1, cv2.REDUCE_SUM, dtype=cv2.CV_64F)
    if whole:  # whose digits float32 has all, but not those of their mean
        found -= count * numpy.square(means - about)
    roots = numpy.sqrt((found / (count - ddof) if count > ddof else numpy.zeros_like(found)) + epsilon)
    factors = numpy.divide(scale, roots, out=numpy.zeros(roots.shape), where=roots != 0)
    numpy.multiply(out, factors.astype(numpy.float32), out=out)
    more = shift + (about - means) * factors if whole else numpy.array(shift)
    if more.any():
        numpy.add(out, more.astype(numpy.float32), out=out)


def _along_rows(*parameters: Array) -> bool:
    """Whether parameters are the same along rows of channels, but differ from row to row."""
    return all(each.shape[-2] == 1 for each in parameters) and any(each.size > each.shape[-1] for each in parameters)


def _looked_up(image: Array, mean: Array, factor: Array, shift: float, out: Array) -> bool:
    """The same from tables of the 256 values of uint8, where one is enough or one for each channel."""
    varying = {axis for each in (mean, factor) for axis, extent in enumerate(each.shape) if extent > 1}
    if varying == {0} and len(image) <= _FEW:
        for i in range(len(image)):
            own_mean, own_factor = (each if len(each) == 1 else each[i : i + 1] for each in (mean, factor))
            _looked_up(image[i : i + 1], own_mean, own_factor, shift, out[i : i + 1])
        return True
    channels = image.shape[-1] if varying else 1
    if not varying <= {image.ndim - 1} or channels > _COLOURS:
        return False
    values = (numpy.arange(256.0)[:, None] - mean.reshape(-1)) * factor.reshape(-1) + shift
    same = OF_OPENCV[out.dtype]
    table = convert(numpy, values, out.dtype).view(same).reshape(1, 256, channels)
    pixels = numpy.ascontiguousarray(image).reshape(len(image), -1, channels)
    target = out.view(same).reshape(pixels.shape)

    def some(rows: slice) -> None:
        cv2.LUT(pixels[rows], table, target[rows])

    pool.split(some, len(pixels), image.nbytes + out.nbytes)
    return True


def _blocks(image: Array, *parameters: Array) -> Iterator[tuple[Array, list[Array]]]:
    """Parts of an image along its first dimension, and their parts of arrays that broadcast to it."""
    step = max(1, _BLOCK * len(image) // image.size)
    for start in range(0, len(image), step):
        rows = slice(start, start + step)
        yield image[rows], [each if len(each) == 1 else each[rows] for each in parameters]


def _centred(image: Array, mean: Array, out: Array) -> None:
    if image.dtype != out.dtype:
        numpy.copyto(out, image, casting="unsafe")
        image = out
    numpy.subtract(image, mean, out=out)


def _long_rows(image: Array, out: Array, *parameters: Array) -> tuple[Array, ...]:
    """The same arrays with their last two dimensions as one, where parameters differ along a last one that is short."""
    if image.ndim < 2 or image.shape[-1] > _SHORT or not image.flags.c_contiguous:
        return image, out, *parameters
    if all(each.shape[-1] == 1 for each in parameters):
        return image, out, *parameters
    width, channels = image.shape[-2:]
    long = [_repeated(each, width, channels) if each.size > 1 else each[..., 0] for each in parameters]
    rows = (*image.shape[:-2], -1)
    return image.reshape(rows), out.reshape(rows), *long


def _repeated(parameter: Array, width: int, channels: int) -> Array:
    """A parameter for each place of the last two dimensions, as one."""
    if parameter.shape[-2] == 1:
        parameter = numpy.repeat(parameter, width, -2)
    if parameter.shape[-1] == 1:
        parameter = numpy.repeat(parameter, channels, -1)
    return parameter.reshape(*parameter.shape[:-2], -1)
