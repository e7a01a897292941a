"""Signals: resampled, searched for silence, and decoded from FLAC."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy
from numpy.typing import NDArray

from ._library import address, function

__all__ = ["flac", "loud", "resampled"]

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


def flac(frames: NDArray[numpy.uint8], bits: int, most: int, out: NDArray[Any]) -> int:
    """Fill (values, channels) of float32, int16 or int32 with the values of the frames of a FLAC file.

    Args:
        frames: Bytes from the first frame on.
        bits: Of a value.
        most: Values of the largest frame.
        out: C-contiguous.

    Returns:
        How many there are before a frame is damaged or unusual.
    """
    count, channels = out.shape
    memory, kind = numpy.empty((channels, most), numpy.int32), ("float32", "int16", "int32").index(out.dtype.name)
    numbers = channels, bits, count, address(memory), most
    found: int = _flac()(address(frames), len(frames), *numbers, address(out), kind)
    return found


@functools.cache
def _flac() -> Any:
    return function(
        "core_flac",
        *(_ARRAY, _INTEGER, ctypes.c_int, ctypes.c_int, _INTEGER, _ARRAY, _INTEGER, _ARRAY, ctypes.c_int),
        result=_INTEGER,
    )


@functools.cache
def _resample() -> Any:
    tables = (_ARRAY, _ARRAY, _INTEGER)
    return function("core_resample", _ARRAY, _REAL, *tables, _ARRAY, _INTEGER, _INTEGER)


@functools.cache
def _loud() -> Any:
    return function("core_loud", _ARRAY, _INTEGER, _INTEGER, _REAL, _REAL, _ARRAY, _ARRAY)
