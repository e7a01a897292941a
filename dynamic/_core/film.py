"""Frames of videos as RGB, with the results of libswscale."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from ._library import address, function, in_use

__all__ = ["SITES", "in_use", "rgb"]

_LEAST = 16  # rows and columns; for fewer libswscale has other filters
_BT_601 = (104597, 132201, 25675, 53279)  # in 1/65536: red of V, blue of U, green of U and of V
#: The same by the number that files have for a colour space; 2 is of those that do not say.
_CHROMA = {1: (117489, 138438, 13975, 34925), 2: _BT_601, 5: _BT_601, 6: _BT_601, 9: (110013, 140363, 12277, 42626)}


#: Where chroma lies beside luma, in 1/128 of its distance: across and down. Files say which; PyAV does not.
SITES = ((128, 128), (64, 128), (64, 64), (128, 64))


def rgb(planes: Sequence[NDArray[Any]], out: NDArray[Any], space: int, site: tuple[int, int], *, full: bool) -> bool:
    """Fill (height, width, 3) of uint8 with the colours of a frame; False leaves that to others.

    The result is libswscale's with the flags BILINEAR, ACCURATE_RND and FULL_CHR_H_INT.

    Args:
        planes: Luma and both chromas, of uint8: the latter of the same size, or of half of it.
        out: The memory.
        space: The number of the colour space.
        site: One of `SITES`.
        full: Whether values are in [0, 255], and not in limited range.
    """
    height, width = planes[0].shape
    if space not in _CHROMA or min(height, width) < _LEAST or not out.flags.c_contiguous:
        return False
    places, parts, regular = _neighbours(width, planes[1].shape[1], height, planes[1].shape[0], site)
    addresses = numpy.array([address(plane) for plane in planes], numpy.uint64)
    strides = numpy.array([plane.strides[0] for plane in planes], numpy.int64)
    memory = numpy.empty(4 * width, numpy.int16)
    factors = _factors(space, full=full)
    tables = address(places), address(parts), regular, address(factors)
    _call()(address(addresses), address(strides), height, width, *tables, address(memory), address(out))
    return True


@functools.cache
def _call() -> Any:
    extents = (ctypes.c_int64, ctypes.c_int64)
    tables = (numpy.ndarray, numpy.ndarray, ctypes.c_int, numpy.ndarray)
    return function("core_film_rgb", numpy.ndarray, numpy.ndarray, *extents, *tables, numpy.ndarray, numpy.ndarray)


@functools.lru_cache(64)
def _neighbours(
    width: int, columns: int, height: int, rows: int, site: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], int]:
    """For each column, and then each row, the first of two neighbours in chroma, and the part of the second."""
    across, down = _line(columns, width, 1 << 14, site[0]), _line(rows, height, 1 << 12, site[1])
    places, parts = (numpy.concatenate(pair).astype(numpy.int32) for pair in zip(across, down, strict=True))
    return places, parts, (1 + (site[0] == 64)) * (width == 2 * columns)


def _line(source: int, target: int, one: int, site: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Linear interpolation as libswscale has it: places, and the part of the value behind, in 1/one."""
    step = ((source << 16) + (target >> 1)) // target
    site = 128 if source == target else site
    place = step - (site << 9) + 2 * step * numpy.arange(target, dtype=numpy.int64)
    first = place >> 17
    part = (place - (first << 17)) << 13
    passed = part >= (1 - 0.002) * (1 << 30)  # a neighbour of next to no weight is left out
    first, part = first + passed, numpy.where(passed, 0, part)
    whole = (part * one + (1 << 29) - 1) >> 30  # the first one's is rounded half up
    whole[(first < 0) | (first >= source - 1)] = 0
    return first.clip(0, source - 1), whole


@functools.cache
def _factors(space: int, *, full: bool) -> NDArray[Any]:
    """Scale and offset of luma, and factors of chroma: of V in red and green, of U in green and blue."""
    red, blue, green_u, green_v = _CHROMA[space]
    scale, least = (1 << 16, 0) if full else ((255 << 16) // 219, 16 << 16)
    if full:
        red, blue, green_u, green_v = (value * 224 // 255 for value in _CHROMA[space])
    numbers = [scale << 13, least << 9, red << 13, -green_v << 13, -green_u << 13, blue << 13]
    return numpy.array([(number + (1 << 15)) >> 16 for number in numbers], numpy.int32)
