"""Bytes at other sizes, by a linear filter that widens where the result is smaller."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described

from ._library import address, function, threads

__all__ = ["is_quick", "many", "shown"]

_WEIGHT = 4.0  # of a byte
_RECORD = struct.Struct("18q4d")  # `window` in C


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
    table = numpy.ones((len(images), 22), numpy.int64)
    table[:, 0], table[:, 1 : 1 + images.ndim], table[:, 4:12] = images.pointers, images.strides, parts
    table[:, 12], table[:, 13], table[:, 14 : 14 + images.ndim] = outs.pointers, outs.strides[:, 0], outs.shapes
    table[:, 17] = 0 if mirrored is None else mirrored
    table[:, 18:].view(numpy.float64)[...] = boxes
    (top, bottom, left, right), (height, width, channels) = table[:, 4:8].T, table[:, 14:17].T
    work = _WEIGHT * float((((bottom - top) * (right - left) + height * width) * channels).sum())
    return bool(_call()(address(table), len(images), 0, threads(work)))


def shown(parts: Sequence[tuple[Array, Sequence[int], Sequence[float], Array, bool]], beyond: int = 0) -> bool:
    """The same for parts of images (H, W, C), each given by itself.

    Args:
        parts: The pixels that are needed; how many more there are, as in `parts` above; as in `boxes`; memory for the
            result, of any strides; whether it is shown from right to left.
        beyond: How many more rows and columns there are, whose values do not matter.

    Returns:
        Whether all are there: a filter may reach farther than `beyond`, or pixels of memory lie apart.
    """
    records, size = [], 0
    for part, padding, box, out, mirrored in parts:
        rows, columns, channels = part.shape
        step, *apart = out.strides
        if apart == [-channels, 1]:
            out, mirrored = out[:, ::-1], not mirrored
        elif apart != [channels, 1]:
            return False
        ends, shape = (0, rows, 0, columns), (*out.shape, mirrored)
        records.append(_RECORD.pack(address(part), *part.strides, *ends, *padding, address(out), step, *shape, *box))
        size += part.size + out.size
    return bool(_call()(b"".join(records), len(records), beyond, threads(_WEIGHT * size)))


@functools.cache
def _call() -> Any:
    return function("core_resize", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, result=ctypes.c_int)
