"""Copying a window of an image, and normalising its channels on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._array import Array
from dynamic.dtypes import convert

__all__ = ["copied", "erased", "masked", "normalised", "pasted"]


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
    part = image[tuple(inside)]
    if part.shape != out.shape:
        convert(numpy, numpy.broadcast_to(numpy.asarray(fill, numpy.float64), out.shape), out.dtype, out)
    convert(numpy, part, out.dtype, out[tuple(there)])


def erased(image: Array, regions: Sequence[tuple[Any, ...]], fill: Any, out: Array) -> None:
    """Copy an image and fill parts of it.

    Args:
        image: Any array.
        regions: What to fill, as indices.
        fill: What with: a value, or an array that broadcasts to `out`.
        out: Where to, of the shape and dtype of the image.
    """
    out[...] = image
    values = numpy.broadcast_to(convert(numpy, numpy.asarray(fill, numpy.float64), out.dtype), out.shape)
    for region in regions:
        out[region] = values[region]


def pasted(image: Array, corner: Sequence[int], fill: Any, out: Array) -> None:
    """Copy an image into a larger one.

    Args:
        image: Any array.
        corner: Where in each dimension of `out`.
        fill: What is around: a value, or an array that broadcasts to `out`.
        out: Where to.
    """
    copied(image, [-start for start in corner], fill, out)


def masked(image: Array, tile: int, ratio: float, angle: float, shift: tuple[float, float], out: Array) -> None:
    """Copy an image and set the corner of each tile of a grid to 0.

    Args:
        image: Shape (..., H, W, C).
        tile: The side of a tile.
        ratio: What part of it the corner is.
        angle: How far the grid is rotated, in radians.
        shift: How far it is moved, right and down.
        out: Where to, of the shape and dtype of the image.
    """
    height, width = image.shape[-3:-1]
    side, real = numpy.float32(tile), numpy.float32
    cos, sin = real(numpy.cos(real(angle))) / side, real(numpy.sin(real(angle))) / side
    x, y = numpy.arange(width, dtype=real), numpy.arange(height, dtype=real)
    part = real(ratio)
    out[...] = image
    across = x * cos - real(shift[0]) / side
    down = y * cos - real(shift[1]) / side
    if sin == 0:
        columns, rows = (values - numpy.floor(values) < part for values in (across, down))
        out[..., rows[:, None] & columns, :] = 0
        return
    inside = _fraction((-real(shift[0]) / side + y * -sin)[:, None] + x * cos) < part
    inside &= _fraction(down[:, None] + x * sin) < part
    out[..., inside, :] = 0


def _fraction(values: Array) -> Array:
    """How far each value is above the next integer below."""
    values -= numpy.floor(values)
    return values


def normalised(image: Array, factors: Array, shifts: Array, out: Array, *, mirror: bool) -> None:
    """Multiply each channel by a factor and add a shift, in float32, or in float64 where `out` is.

    Args:
        image: The window, shape (..., H, W, C).
        factors: One for each channel, float64.
        shifts: One for each channel, float64.
        out: Where to, shape (C, ..., H, W), of any dtype; integers are rounded and saturated.
        mirror: Whether to swap left and right.
    """
    if image.ndim > 3:
        for i in range(len(image)):
            normalised(image[i], factors, shifts, out[:, i], mirror=mirror)
        return
    if image.dtype == numpy.uint8 and out.dtype == numpy.float32 and image.size:
        _looked_up(image, factors, shifts, out, mirror=mirror)
        return
    real = numpy.dtype(numpy.float64 if numpy.float64 in (image.dtype, out.dtype) else numpy.float32)
    pixels = image[:, ::-1] if mirror else image
    for channel, (factor, shift) in enumerate(zip(factors, shifts, strict=True)):
        with numpy.errstate(over="ignore", invalid="ignore"):
            values = pixels[..., channel].astype(real) * real.type(factor) + real.type(shift)
        convert(numpy, values, out.dtype, out[channel])


def _looked_up(image: Array, factors: Array, shifts: Array, out: Array, *, mirror: bool) -> None:
    """The same from a table of the 256 values that a channel can have."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        tables = (numpy.arange(256.0)[None] * factors[:, None] + shifts[:, None]).astype(numpy.float32)
    planes = cv2.split(image) if image.strides[1:] == (image.shape[2], 1) else numpy.moveaxis(image, -1, 0).copy()
    for plane, table, target in zip(planes, tables, out, strict=True):
        pixels = cv2.flip(plane, 1) if mirror else plane
        if target.flags.c_contiguous:
            cv2.LUT(pixels, table, target)
        else:
            target[...] = cv2.LUT(pixels, table)
