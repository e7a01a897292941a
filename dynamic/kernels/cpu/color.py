"""Arithmetic on the colours of pixels: a factor and a shift for all channels, or a matrix that mixes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy

from dynamic._array import Array
from dynamic.dtypes import convert

from . import tables

__all__ = ["mixed", "precision", "scaled"]

_STRIP = 1 << 14  # pixels that are computed at a time, so that their floats stay in the cache
_FEW = 1 << 12  # values; for fewer a table is made and read before another way is found to be as exact
_NUDGE = 2.0**-14  # what makes OpenCV round a half up, and is too little to change anything else


def scaled(image: Array, factor: float, shift: float, out: Array) -> None:
    """Multiply every value by a factor and add a shift; integers are rounded half away from zero and saturated.

    Args:
        image: Any array of numbers.
        factor: Finite.
        shift: Finite.
        out: Where to, of the same shape and any dtype.
    """
    if image.dtype.itemsize == 1:
        values = numpy.arange(256, dtype=numpy.uint8).view(image.dtype)
        table = numpy.empty(256, out.dtype)
        _scaled(values, factor, shift, table)
        if image.size < _FEW or image.dtype != out.dtype or not _vectorised(image, factor, shift, table, out):
            tables.looked_up(image, table, out)
        return
    for part, there in _strips(image, out, 3 * _STRIP):
        _scaled(part, factor, shift, there)


def precision(image: Array, out: Array) -> numpy.dtype[Any]:
    """The type to compute in: float32 as DALI does, and float64 where that would lose digits."""
    wide = any(array.dtype.itemsize > (2 if array.dtype.kind in "iu" else 4) for array in (image, out))
    return numpy.dtype(numpy.float64 if wide else numpy.float32)


def _scaled(values: Array, factor: float, shift: float, out: Array) -> None:
    real = precision(values, out)
    with numpy.errstate(over="ignore", invalid="ignore"):
        results = out if out.dtype == real else numpy.empty(values.shape, real)
        numpy.multiply(values, numpy.asarray(factor).astype(real), out=results)
        results += numpy.asarray(shift).astype(real)
        if results is not out:
            convert(numpy, results, out.dtype, out)


def _vectorised(image: Array, factor: float, shift: float, table: Array, out: Array) -> bool:
    """Compute bytes with OpenCV's vectors, where these find all that is in the table. It takes half of the time."""
    if not (image.flags.c_contiguous and out.flags.c_contiguous):
        return False
    affine = numpy.array([[factor, shift + _NUDGE]])
    values = numpy.arange(256, dtype=numpy.uint8).view(image.dtype)
    if not numpy.array_equal(cv2.transform(values[None], affine)[0], table):
        return False
    cv2.transform(image.reshape(len(image), -1), affine, out.reshape(len(out), -1))
    return True


def mixed(pixels: Array, matrix: Array, out: Array, *, exact: bool = False) -> None:
    """Make each channel a sum of all channels, each with a factor, and of a shift.

    Args:
        pixels: Channels last.
        matrix: A row for each channel of the result: a factor for each channel, and the shift.
        out: Where to, channels last, of any dtype; integers are saturated.
        exact: Whether bytes must be rounded right; else they may be 1 off, in a third of the time.
    """
    if not pixels.size:
        return
    channels = out.shape[-1]
    real = precision(pixels, out)
    if pixels.dtype == out.dtype == numpy.uint8 and not exact and numpy.abs(matrix[:, :-1]).max() < 32:
        for part, there in _strips(pixels, out, None, channels):
            cv2.transform(part, matrix, there)
        return
    # What vectors and what single steps find differs in the last bit: nothing may depend on where a pixel is.
    room = _padded(min(_STRIP, pixels.size // pixels.shape[-1]))
    values = numpy.zeros((1, room, pixels.shape[-1]), real)
    sums = numpy.empty((1, room, channels), real)
    for part, there in _strips(pixels, out, _STRIP, channels):
        count = part.shape[1]
        values[:, :count] = part
        mixing, mixed_ = values[:, : _padded(count)], sums[:, : _padded(count)]
        if real == numpy.float32:
            cv2.transform(mixing, matrix, mixed_)
        else:
            _added(mixing, matrix, mixed_)
        if out.dtype == numpy.uint8 and real == numpy.float32:
            _bytes(mixed_[:, :count], there)
        else:
            convert(numpy, mixed_[:, :count], out.dtype, there)


def _padded(count: int) -> int:
    return -(-count // 64) * 64


def _added(pixels: Array, matrix: Array, out: Array) -> None:
    with numpy.errstate(over="ignore", invalid="ignore"):
        for channel, (*factors, shift) in enumerate(matrix):
            out[..., channel] = shift
            for k, factor in enumerate(factors):
                out[..., channel] += factor * pixels[..., k]


def _bytes(values: Array, out: Array) -> None:
    """Round and saturate float32 to bytes; a half goes up. Overwrites the values."""
    cv2.threshold(values, 0.0, 0.0, cv2.THRESH_TOZERO, values)
    cv2.convertScaleAbs(values, out, 1.0, _NUDGE)


def _strips(image: Array, out: Array, size: int | None, channels: int | None = None) -> Iterator[tuple[Array, Array]]:
    """Parts of two arrays, contiguous and in OpenCV's form where the channels are told, of so many elements or pixels.

    Where `out` is not contiguous, what was written to a part is copied to it once the next one is asked for.
    """
    if image.ndim > 3 and not (image.flags.c_contiguous and out.flags.c_contiguous):
        for one, there in zip(image, out, strict=True):
            yield from _strips(one, there, size, channels)
        return
    results = out if out.flags.c_contiguous else numpy.empty(out.shape, out.dtype)
    image = numpy.ascontiguousarray(image)
    if channels is None:
        flat, flat_results = image.reshape(-1), results.reshape(-1)
    else:
        flat, flat_results = image.reshape(-1, image.shape[-1]), results.reshape(-1, channels)
    step = size or max(1, len(flat))
    for start in range(0, len(flat), step):
        part, there = flat[start : start + step], flat_results[start : start + step]
        yield (part, there) if channels is None else (part[None], there[None])
    if results is not out:
        out[...] = results
