"""Copies and fills of all samples of a call by the native library, given by where they are in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic._core import address
from dynamic._core.pixels import copied
from dynamic.dtypes import convert

__all__ = ["MANY", "copied", "fills", "flipped", "regions"]

#: Samples of which copies are made natively: a call costs as much as a dozen of NumPy's.
MANY = 16


def flipped(source: Described, flags: NDArray[Any]) -> Described:
    """Samples with some dimensions reversed: (N, ndim) flags."""
    last = source.window(numpy.where(flags, source.shapes - 1, 0), source.shapes)
    return Described(last.pointers, last.shapes, numpy.where(flags, -source.strides, source.strides), source.dtype)


def fills(values: Sequence[Any], channels: Any, dtype: numpy.dtype[Any]) -> NDArray[Any] | None:
    """The values to fill with, rounded and saturated to a dtype, (N, M); None where they do not fit the channels.

    Args:
        values: One number or several for each sample, or of one sample for all.
        channels: How many each sample has.
        dtype: Of the samples.
    """
    most = len(values[0]) if isinstance(values[0], tuple) else 1
    if any((len(each) if isinstance(each, tuple) else 1) != most for each in values):
        return None
    if most != 1 and (numpy.asarray(channels) != most).any():
        return None
    return _converted(tuple(values), dtype)


@functools.lru_cache(16)
def _converted(values: tuple[Any, ...], dtype: numpy.dtype[Any]) -> NDArray[Any]:
    found: NDArray[Any] = convert(numpy, numpy.array(values, numpy.float64).reshape(len(values), -1), dtype)
    return found


def regions(
    target: Described, starts: NDArray[Any], shapes: NDArray[Any], fill: NDArray[Any], place: int | None, work: int
) -> None:
    """Fill a region of each sample.

    Args:
        target: Samples.
        starts: Where each region begins: (N, ndim).
        shapes: Its extents: (N, ndim).
        fill: By `fills`.
        place: The dimension of the channels, for several values.
        work: Bytes that are written.
    """
    strides = numpy.zeros_like(shapes)
    if place is not None and fill.shape[1] > 1:
        strides[:, place] = fill.itemsize
    rows = numpy.arange(len(target)) * (fill.strides[0] if len(fill) > 1 else 0) + address(fill)
    values = Described(rows.astype(numpy.uint64), shapes, strides, fill.dtype)
    copied(values.window(starts, shapes), target.window(starts, shapes), work)
