"""Parts of images that are filled, masked or pasted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._array import Array
from dynamic.dtypes import convert

from .windows import copied

__all__ = ["copied_part", "erased", "masked", "pasted"]


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


def copied_part(
    image: Array, axes: Sequence[int], start: Sequence[int], size: Sequence[int], target: Sequence[int], out: Array
) -> None:
    """Copy a window of an image into a larger array, and convert it to its type.

    Args:
        image: Any array.
        axes: The dimensions in which the window is bounded.
        start: Where it begins in each of them.
        size: Its extents there.
        target: Where it begins in `out`.
        out: Where to.
    """
    here, there = [slice(None)] * image.ndim, [slice(None)] * image.ndim
    for axis, first, extent, place in zip(axes, start, size, target, strict=True):
        here[axis], there[axis] = slice(first, first + extent), slice(place, place + extent)
    convert(numpy, image[tuple(here)], out.dtype, out[tuple(there)])


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
