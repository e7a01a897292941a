"""Pixels of a batch: copied in any order of dimensions, and normalised by tables."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic._base import pool

from ._library import address, column, function, threads

__all__ = ["copied", "equalized", "normalised"]

_DEEPEST = 6  # dimensions of copies
_SIZES = frozenset((1, 2, 4, 8))
_PARTS = 4  # of the work of a thread, where samples are so few that they are cut to pieces
_INTEGER, _INT, _BYTES, _ARRAY = ctypes.c_int64, ctypes.c_int, ctypes.c_char_p, numpy.ndarray


def _pieces(count: int, work: int) -> tuple[int, int]:
    """Pieces of each sample, and threads."""
    useful = threads(work)
    if useful == 1 or count >= _PARTS * useful or work < count * pool.WORTH_SPLITTING:
        return 1, useful
    return -(-_PARTS * useful // count), useful


def copied(
    source: Described,
    target: Described,
    work: int,
    starts: NDArray[Any] | None = None,
    fill: NDArray[Any] | None = None,
    place: int | None = None,
) -> bool:
    """Copy a window of each sample; False where these are not taken.

    Args:
        source: Samples of any strides; of 0 they repeat an element.
        target: Memory of the shapes of the windows and the dtype of the samples, of any strides, without overlaps.
        work: Bytes that are read and written.
        starts: Where the windows begin, (N, ndim), or (1, ndim) for all; by default they are the samples.
        fill: The values outside of the samples, (N or 1, 1 or as many as there are channels); None where nothing is.
        place: The dimension of the channels, for several values.
    """
    count, ndim, size = len(source), source.ndim, source.dtype.itemsize
    if ndim > _DEEPEST or size not in _SIZES:
        return False
    columns = [
        column(values, numpy.int64)
        for values in (
            *(source.pointers.view(numpy.int64), source.shapes, source.strides),
            *(target.pointers.view(numpy.int64), target.shapes, target.strides),
        )
    ]
    places = list(map(address, columns))
    begin = None if starts is None else column(starts, numpy.int64)
    rows = (None, 0) if begin is None else (address(begin), ndim if len(begin) > 1 else 0)
    several = fill is not None and fill.shape[1] > 1 and place is not None
    values = (None, 0) if fill is None else (address(fill), fill.strides[0] if len(fill) > 1 else 0)
    call = function("core_copy", *[_INTEGER] * 3, *[_ARRAY] * 7, _INTEGER, _ARRAY, *[_INTEGER] * 3, _INT)
    call(count, ndim, size, *places, *rows, *values, place if several else -1, *_pieces(count, work))
    return True


def normalised(
    source: Described,
    target: Described,
    mirrored: bytes,
    tables: NDArray[Any],
    factors: Sequence[float],
    shifts: Sequence[float],
    *,
    floats: bool,
    work: int,
) -> None:
    """Replace bytes by the values of tables, one for each channel: as `dynamic.kernels.cpu.windows.normalised`.

    Args:
        source: Images of uint8, (H, W, C).
        target: The same shapes, of any strides.
        mirrored: For each 1 to swap left and right, else 0.
        tables: (C, 256) values of the results.
        factors: One for each channel.
        shifts: One for each channel.
        floats: Whether the values are ``bytes * factor + shift`` in float64, rounded to float32 and maybe to float16.
        work: Bytes that are read and written, times their weight.
    """
    count = len(source)
    numbers = _numbers(tuple(factors), tuple(shifts)) if floats else None
    places = (None, None) if numbers is None else (address(numbers), address(numbers) + numbers.strides[0])
    columns = _columns(source, target)  # which lives until the call is over
    call = function("core_normalise", _INTEGER, *[_ARRAY] * 5, _BYTES, _ARRAY, _INTEGER, _ARRAY, _ARRAY, _INTEGER, _INT)
    last = tables.itemsize, *places, *_pieces(count, work)
    call(count, *map(address, columns), mirrored, address(tables), *last)


@functools.lru_cache(64)
def _numbers(factors: tuple[float, ...], shifts: tuple[float, ...]) -> NDArray[Any] | None:
    """Both as an array; None where one is not finite: NaN has many bits."""
    numbers = numpy.array((factors, shifts))
    return numbers if numpy.isfinite(numbers).all() else None


def equalized(source: Described, target: Described, work: int) -> None:
    """Spread the values of each channel over their range: as `dynamic.kernels.cpu.histograms.equalized`.

    Args:
        source: Images of uint8, (H, W, C), of fewer than 2**31 pixels.
        target: The same shapes, of any strides.
        work: Bytes that are read and written, times their weight.
    """
    columns = _columns(source, target)
    call = function("core_equalize", _INTEGER, *[_ARRAY] * 5, _INT)
    call(len(source), *map(address, columns), threads(work))


def _columns(source: Described, target: Described) -> list[NDArray[Any]]:
    """Addresses and strides of both, and the shapes."""
    tables = source.pointers, source.strides, target.pointers, target.strides, target.shapes
    return list(map(numpy.ascontiguousarray, tables))
