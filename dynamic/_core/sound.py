"""Signals: resampled, and searched for silence."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy
from numpy.typing import NDArray

from ._library import address, function

__all__ = ["loud", "resampled"]

_INTEGER, _REAL, _ARRAY = ctypes.c_int64, ctypes.c_double, numpy.ndarray
Floats = NDArray[numpy.float32]


def resampled(source: Floats, step: float, weights: Floats, changes: Floats, out: Floats) -> None:
    """`dynamic.kernels.cpu.sound.resampled` of one padded signal."""
    tables = address(weights), address(changes), weights.shape[1]
    _resample()(address(source), step, *tables, address(out), len(out), out.strides[0] // out.itemsize)


def loud(signal: Floats, window: int, part: float, reference: float) -> tuple[int, int]:
    """`dynamic.kernels.cpu.sound.loud` of values in a row."""
    sums, found = numpy.empty(len(signal)), numpy.empty(2, numpy.int64)
    _loud()(address(signal), len(signal), window, part, reference, address(sums), address(found))
    first, count = found.tolist()
    return first, count


@functools.cache
def _resample() -> Any:
    tables = (_ARRAY, _ARRAY, _INTEGER)
    return function("core_resample", _ARRAY, _REAL, *tables, _ARRAY, _INTEGER, _INTEGER)


@functools.cache
def _loud() -> Any:
    return function("core_loud", _ARRAY, _INTEGER, _INTEGER, _REAL, _REAL, _ARRAY, _ARRAY)
