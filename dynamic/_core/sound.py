"""Signals: resampled, searched for silence, and decoded from FLAC; powers of spectra, and banks of filters."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy
from numpy.typing import NDArray

from ._library import address, function

__all__ = ["flac", "loud", "powers", "resampled", "summed", "weighted"]

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


def weighted(frames: Floats, window: Floats, out: Floats) -> None:
    """`dynamic.kernels.cpu.sound.weighted` of rows of values in a row."""
    count, length = frames.shape
    step, into = (array.strides[0] // array.itemsize for array in (frames, out))
    _weigh()(address(frames), step, count, address(window), length, address(out), into)


def powers(spectra: NDArray[numpy.complex64], power: int, out: Floats) -> None:
    """`dynamic.kernels.cpu.sound.powers` of (T, n) spectra in C order."""
    by_bin, by_row = (stride // out.itemsize for stride in out.strides)
    _powers()(address(spectra), *spectra.shape, power == 2, address(out), by_row, by_bin)


def summed(
    source: Floats, firsts: NDArray[numpy.int64], counts: NDArray[numpy.int64], weights: Floats, out: Floats
) -> None:
    """`dynamic.kernels.cpu.sound.summed` of rows in C order."""
    filters = address(firsts), address(counts), address(weights), len(firsts)
    _bank()(address(source), source.shape[1], *filters, address(out))


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


@functools.cache
def _weigh() -> Any:
    return function("core_weigh", _ARRAY, _INTEGER, _INTEGER, _ARRAY, _INTEGER, _ARRAY, _INTEGER)


@functools.cache
def _powers() -> Any:
    return function("core_powers", _ARRAY, _INTEGER, _INTEGER, ctypes.c_int, _ARRAY, _INTEGER, _INTEGER)


@functools.cache
def _bank() -> Any:
    return function("core_bank", _ARRAY, _INTEGER, _ARRAY, _ARRAY, _ARRAY, _INTEGER, _ARRAY)
