"""Parts of images that are filled, masked or pasted."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._base import pool
from dynamic.dtypes import convert

from .windows import copied, filled

__all__ = ["copied_part", "erased", "grid_of", "masked", "pasted"]

_AT_ONCE = 1 << 18  #: pixels of a mask that are made at once: in few steps, for threads take turns between them
_REMEMBERED = 1 << 16  # bytes; smaller masks are made once for all images of a batch
_SHARED = 1 << 20  # bytes; so are smaller ones that all images have


def erased(image: Array, regions: Sequence[tuple[Any, ...]], fill: Any, out: Array) -> None:
    """Copy an image and fill parts of it.

    Args:
        image: Any array.
        regions: The regions to fill, as indices.
        fill: A value, or an array that broadcasts to `out`.
        out: Where to, of the shape and dtype of the image.
    """
    convert(numpy, image, out.dtype, out)
    filled(out, regions, fill)


def pasted(image: Array, corner: Sequence[int], fill: Any, out: Array) -> None:
    """Copy an image into a larger one.

    Args:
        image: Any array.
        corner: Where in each dimension of `out`.
        fill: The surroundings: a value, or an array that broadcasts to `out`.
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
    if image.dtype == out.dtype:
        out[tuple(there)] = image[tuple(here)]
    else:
        convert(numpy, image[tuple(here)], out.dtype, out[tuple(there)])


def masked(image: Array, grid: Array, alike: bool, out: Array) -> None:
    """Copy an image and set the corner of each tile of a grid to 0.

    Args:
        image: Shape (..., H, W, C).
        grid: As `grid_of` gives it.
        alike: Whether it is that of other images of the same size too.
        out: Where to, of the shape and dtype of the image.
    """
    height, width, channels = image.shape[-3:]
    numbers = grid.tobytes()
    bits = numpy.dtype(f"uint{8 * image.itemsize}")
    source, target = image.view(bits), out.view(bits)
    if height * width * channels * bits.itemsize <= (_SHARED if alike else _REMEMBERED):
        numpy.bitwise_and(source, _mask_of_all(numbers, 0, height, width, channels, bits), out=target)
        return
    rows = max(1, _AT_ONCE // max(1, width))

    def one(i: int) -> None:
        first, last = i * rows, min((i + 1) * rows, height)
        mask = _mask(numbers, first, last, width, channels, bits)
        numpy.bitwise_and(source[..., first:last, :, :], mask, out=target[..., first:last, :, :])

    pool.run_pieces(one, -(-height // rows), image.nbytes + out.nbytes)


def grid_of(numbers: Any) -> Array:
    """A grid, or those of many images, in float32.

    Args:
        numbers: Rotation in radians, ratio of a corner to its tile, shifts to the right and down, side of a tile.
    """
    found: Array = numpy.clip(numbers, -1e30, 1e30).astype(numpy.float32)
    return found


def _mask(numbers: bytes, first: int, last: int, width: int, channels: int, bits: numpy.dtype[Any]) -> Array:
    """Some rows of a mask: all bits where nothing is hidden, else none."""
    turn, part, right, lower, side = numpy.frombuffer(numbers, numpy.float32)
    cos, sin = numpy.cos(turn) / side, numpy.sin(turn) / side
    x, y = numpy.arange(width, dtype=side.dtype), numpy.arange(first, last, dtype=side.dtype)[:, None]
    left, down = -right / side - y * sin, y * cos - lower / side
    across, aside = x * cos, x * sin
    if sin == 0:  # all rows are alike, and all columns
        left, aside = left[:1], aside[:1]
    hidden = (_fraction(left + across) < part) & (_fraction(down + aside) < part)
    mask = _repeated(hidden.astype(bits) - bits.type(1), channels)
    mask.flags.writeable = False
    return mask


_mask_of_all = functools.lru_cache(1)(_mask)  #: images of a batch are often given the same one


def _repeated(plane: Array, channels: int) -> Array:
    """An image with the same plane in each channel, or one channel that broadcasts to them."""
    if not 1 < channels <= 4 or plane.itemsize > 4 or not plane.size:
        return plane[..., None]
    signed = plane.view(numpy.int32) if plane.itemsize == 4 else plane
    return numpy.asarray(cv2.merge([signed] * channels)).view(plane.dtype)


def _fraction(values: Array) -> Array:
    """How far each value is above the next integer below."""
    values -= numpy.floor(values)
    return values
