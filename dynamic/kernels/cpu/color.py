"""Arithmetic on the colours of pixels: a factor and a shift for all channels, or a matrix that mixes them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cv2
import numpy

from dynamic._array import Array, empty
from dynamic.dtypes import convert

from . import tables

__all__ = ["channel", "mixed", "precision", "recoded", "scaled"]

_STRIP = 1 << 14  # pixels that are computed at a time, so that their floats stay in the cache
_FEW = 1 << 12  # values; what fewer of them take does not matter
_MANY = 1 << 17  # values of two bytes; for fewer a table of all does not pay
_NUDGE = 2.0**-14  # what makes OpenCV round a half up, and is too little to change anything else


def scaled(image: Array, factor: float, shift: float, out: Array) -> None:
    """Multiply every value by a factor and add a shift; integers are rounded half away from zero and saturated.

    Args:
        image: Any array of numbers.
        factor: Finite.
        shift: Finite.
        out: Where to, of the same shape and any dtype.
    """
    if image.dtype.kind in "iu" and (image.dtype.itemsize == 1 or (image.dtype.itemsize == 2 and image.size > _MANY)):
        table, affine = _table(factor, shift, image.dtype, out.dtype)
        if affine is None or image.size < _FEW or not (image.flags.c_contiguous and out.flags.c_contiguous):
            tables.looked_up(image, table, out)
        else:
            cv2.transform(image.reshape(len(image), -1), affine, out.reshape(len(out), -1))
        return
    _scaled(image, factor, shift, out)


def precision(image: Array, out: Array) -> numpy.dtype[Any]:
    """The type to compute in: float32 as DALI does, and float64 where that would lose digits."""
    wide = any(array.dtype.itemsize > (2 if array.dtype.kind in "iu" else 4) for array in (image, out))
    return numpy.dtype(numpy.float64 if wide else numpy.float32)


def _scaled(image: Array, factor: float, shift: float, out: Array) -> None:
    real = precision(image, out)
    with numpy.errstate(over="ignore", invalid="ignore"):
        by, more = numpy.asarray(factor).astype(real), numpy.asarray(shift).astype(real)
        for part, there in _strips(image, out, 8 * _STRIP):
            results = there if there.dtype == real else numpy.empty(part.shape, real)
            numpy.multiply(part, by, results)
            if more:
                numpy.add(results, more, results)
            if results is not there:
                convert(numpy, results, out.dtype, there)


@functools.lru_cache(maxsize=16)
def _table(factor: float, shift: float, have: numpy.dtype[Any], want: numpy.dtype[Any]) -> tuple[Array, Array | None]:
    """What becomes of each integer of one or two bytes, and the factors with which OpenCV's vectors find the same.

    For bytes these take half the time of a table; None where they find anything else.
    """
    size = 1 << (8 * have.itemsize)
    every = numpy.arange(size, dtype=f"u{have.itemsize}").view(have)
    table = numpy.empty(size, want)
    _scaled(every, factor, shift, table)
    affine = numpy.array([[factor, shift + _NUDGE]])
    if have != want or size > 256 or not numpy.array_equal(cv2.transform(every[None], affine)[0], table):
        return table, None
    return table, affine


def recoded(pixels: Array, code: int, out: Array) -> None:
    """Convert bytes, channels last, from one colour space to another by one of OpenCV's codes."""
    rows = numpy.ascontiguousarray(pixels).reshape(-1, *pixels.shape[-2:])
    if out.flags.c_contiguous:
        cv2.cvtColor(rows, code, out.reshape(-1).reshape(*rows.shape[:2], -1))
    else:
        out[...] = cv2.cvtColor(rows, code).reshape(out.shape)


def channel(pixels: Array, index: int) -> Array:
    """One channel of pixels, channels last, as an array of its own."""
    if pixels.dtype.itemsize > 4 or not pixels.flags.c_contiguous:
        return numpy.ascontiguousarray(pixels[..., index])
    return cv2.extractChannel(pixels.reshape(-1, *pixels.shape[-2:]), index).reshape(pixels.shape[:-1])


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
    values, sums = empty((1, room, pixels.shape[-1]), real), empty((1, room, channels), real)
    for part, there in _strips(pixels, out, _STRIP, channels):
        count = part.shape[1]
        values[:, :count] = part
        if real == numpy.float32:
            cv2.transform(values[:, : _padded(count)], matrix, sums[:, : _padded(count)])
        else:
            _added(values[:, :count], matrix, sums[:, :count])
        if out.dtype == numpy.uint8 and real == numpy.float32:
            _bytes(sums[:, :count], there)
        else:
            convert(numpy, sums[:, :count], out.dtype, there)


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
