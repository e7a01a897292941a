"""Bytes at other sizes, by a linear filter that widens where the result is smaller."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described

from ._library import address, column, function, threads

__all__ = ["is_quick", "many", "one"]

_WEIGHT = 4.0  # of a byte
_ADDRESS, _INTEGER = ctypes.c_void_p, ctypes.c_int64
_TYPES = (*[_ADDRESS] * 8, _INTEGER, _INTEGER, _INTEGER, ctypes.c_int)


@functools.cache
def is_quick() -> bool:
    """Whether the library has the instructions for it: otherwise cykooz-resizer is faster."""
    return bool(function("core_resize_is_quick", result=ctypes.c_int)())


def many(
    images: Described,
    parts: NDArray[numpy.int64],
    boxes: NDArray[numpy.float64],
    outs: Described,
    mirrored: NDArray[numpy.bool_] | None = None,
) -> bool:
    """`dynamic.kernels.cpu.resizer.show` of parts of many images (H, W, C) or (H, W) of bytes, with a linear filter.

    Args:
        images: With 1 to 4 channels.
        parts: (N, 8): the first row and the one after the last, the same of the columns, and how many more there are
            above, below, before and after, which are as those at the edges.
        boxes: (N, 4): where the results lie in all these: left, upper edge, width, height.
        outs: Memory for the results, in which the pixels of a row follow each other.
        mirrored: (N,) whether a result is shown from right to left.

    Returns:
        Whether all are there: there may be no memory.
    """
    of_bytes = column(parts, numpy.int64)
    tables = images.strides, of_bytes, column(boxes, numpy.float64), outs.pointers, outs.shapes, outs.strides
    arrays = [images.pointers, *tables] if mirrored is None else [images.pointers, *tables, column(mirrored, bool)]
    arrays = list(map(numpy.ascontiguousarray, arrays))
    places = [*map(address, arrays), None][:8]
    sides = of_bytes[:, 1:4:2] - of_bytes[:, 0:4:2]
    work = _WEIGHT * float(sides.prod(axis=1).sum() + outs.shapes.prod(axis=1).sum())
    return bool(_call()(*places, images.ndim, 0, len(images), threads(work)))


def one(
    part: Array, padding: Sequence[int], box: Sequence[float], out: Array, *, mirrored: bool = False, beyond: int = 0
) -> bool:
    """The same for one image (H, W, C).

    Args:
        part: The pixels that are needed.
        padding: As in `parts`.
        box: As in `boxes`.
        out: Memory for the result, of any strides.
        mirrored: As above.
        beyond: How many more rows and columns there are, whose values do not matter.

    Returns:
        Whether it is there: a filter may reach farther than `beyond`, or pixels of `out` lie apart.
    """
    height, width, channels = out.shape
    strides = out.strides
    if strides[1] == -channels:
        out, mirrored = out[:, ::-1], not mirrored
    if out.strides[1:] != (channels, 1):
        return False
    numbers = [address(part), *part.strides, 0, part.shape[0], 0, part.shape[1], *padding]
    numbers += [address(out), height, width, channels, *out.strides, mirrored]
    table, place = numpy.array(numbers, numpy.int64), numpy.array(box, numpy.float64)
    start = address(table)
    at = [start + 8 * i for i in (0, 1, 4, 12, 13, 16, 19)]
    return bool(_call()(*at[:3], address(place), *at[3:], 3, beyond, 1, 1))


def _call() -> Any:
    return function("core_resize", *_TYPES, result=ctypes.c_int)
