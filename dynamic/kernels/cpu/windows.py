"""Copying a window of an image, and normalising its channels on the way."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._array import Array
from dynamic.dtypes import convert

__all__ = ["copied", "filled", "normalised"]


def copied(image: Array, starts: Sequence[int], fill: Any, out: Array) -> None:
    """Copy a window, which may reach over the edges of the image, and convert it to the type of `out`.

    Args:
        image: Any array.
        starts: Where the window begins in each dimension; negative is before the edge. Its shape is that of `out`.
        fill: What is outside of the image: a value, or an array that broadcasts to `out`.
        out: Where to.
    """
    inside, there = [], []
    for start, size, extent in zip(starts, image.shape, out.shape, strict=True):
        first, last = max(start, 0), min(start + extent, size)
        inside.append(slice(first, max(first, last)))
        there.append(slice(first - start, max(first, last) - start))
    part = image[(*inside, ...)]  # with the dots, of no dimensions too an array
    if part.shape != out.shape:
        filled(out, _around(out.shape, there) if part.size else [...], fill)
    convert(numpy, part, out.dtype, out[(*there, ...)])


def _around(shape: Sequence[int], box: Sequence[slice]) -> list[tuple[slice, ...]]:
    """The parts of an array that are not in a box, none of them twice."""
    index, parts = [slice(None)] * len(shape), []
    for axis, (middle, extent) in enumerate(zip(box, shape, strict=True)):
        for rest in (slice(0, middle.start), slice(middle.stop, extent)):
            if rest.start < rest.stop:
                index[axis] = rest
                parts.append(tuple(index))
        index[axis] = middle
    return parts


_SHORT = 64  # elements


@functools.lru_cache(maxsize=256)
def _row(fill: bytes, shape: tuple[int, ...], to: numpy.dtype[Any], last: tuple[int, ...]) -> Array:
    """Float64 as another type, repeated along the last dimensions of an array: what takes longer than filling with it.

    NumPy copies whole rows fast, and pixels of a few channels one by one.
    """
    values = numpy.asarray(convert(numpy, numpy.frombuffer(fill).reshape(shape), to))
    wide = [1] * (len(last) - len(shape)) + list(shape)
    if len(last) > 1:
        wide[-1] = last[-1]
        if last[-1] < _SHORT:
            wide[-2] = last[-2]
    return numpy.ascontiguousarray(numpy.broadcast_to(values, wide))


def filled(array: Array, parts: Sequence[Any], fill: Any) -> None:
    """Fill parts of an array.

    Args:
        array: The array.
        parts: Indices of its parts.
        fill: What with: a value, or an array that broadcasts to all of `array`; rounded and saturated to its type.
    """
    values = numpy.asarray(fill, numpy.float64)
    row = _row(values.tobytes(), values.shape, array.dtype, array.shape[-2:])
    whole = numpy.broadcast_to(row, array.shape)
    for part in parts:
        array[part] = whole[part]


#: Element types of tables, each with one of the same size that OpenCV can look up.
_TABLES = {numpy.dtype(t): numpy.dtype(same) for t, same in (
    ("uint8", "uint8"), ("int8", "uint8"), ("uint16", "int16"), ("int16", "int16"), ("float16", "int16"),
    ("int32", "int32"), ("float32", "float32"))}  # fmt: skip


def normalised(
    image: Array, factors: tuple[float, ...], shifts: tuple[float, ...], out: Array, *, mirror: bool
) -> None:
    """Multiply each channel by a factor and add a shift, in float32, or in float64 where `out` is.

    Args:
        image: The window, shape (..., H, W, C).
        factors: One for each channel.
        shifts: One for each channel.
        out: Where to, shape (C, ..., H, W), of any dtype; integers are rounded and saturated.
        mirror: Whether to swap left and right.
    """
    if image.ndim > 3:
        for i in range(len(image)):
            normalised(image[i], factors, shifts, out[:, i], mirror=mirror)
        return
    if image.dtype == numpy.uint8 and out.dtype in _TABLES and image.size:
        _looked_up(image, factors, shifts, out, mirror=mirror)
        return
    real = numpy.dtype(numpy.float64 if numpy.float64 in (image.dtype, out.dtype) else numpy.float32)
    pixels = image[:, ::-1] if mirror else image
    for channel, (factor, shift) in enumerate(zip(factors, shifts, strict=True)):
        with numpy.errstate(over="ignore", invalid="ignore"):
            values = pixels[..., channel].astype(real) * real.type(factor) + real.type(shift)
        convert(numpy, values, out.dtype, out[channel])


def _looked_up(
    image: Array, factors: tuple[float, ...], shifts: tuple[float, ...], out: Array, *, mirror: bool
) -> None:
    """The same from a table of the 256 values that a channel can have."""
    tables = _tables(factors, shifts, out.dtype)
    planes = cv2.split(image) if image.strides[1:] == (image.shape[2], 1) else numpy.moveaxis(image, -1, 0).copy()
    for plane, table, target in zip(planes, tables, out.view(_TABLES[out.dtype]), strict=True):
        pixels = cv2.flip(plane, 1) if mirror else plane
        if target.flags.c_contiguous:
            cv2.LUT(pixels, table, target)
        else:
            target[...] = cv2.LUT(pixels, table)


@functools.lru_cache(256)
def _tables(factors: tuple[float, ...], shifts: tuple[float, ...], to: numpy.dtype[Any]) -> Array:
    with numpy.errstate(over="ignore", invalid="ignore"):
        values = numpy.arange(256.0) * numpy.array(factors)[:, None] + numpy.array(shifts)[:, None]
        tables: Array = convert(numpy, values.astype(numpy.float32), to).view(_TABLES[to])
    tables.flags.writeable = False
    return tables
