"""Arithmetic on the colours of pixels: a factor and a shift for all channels, or a matrix that mixes them."""

from __future__ import annotations

import functools
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.dtypes import convert

from . import tables
from .coordinates import multiplied
from .strips import shared, strips

__all__ = [
    "LUMA",
    "OFFSET",
    "YCBCR",
    "conversion",
    "grey",
    "linear",
    "linear_of_one",
    "luma",
    "middle",
    "mixed",
    "mixing",
    "picked",
    "recoded",
    "scaled",
    "twist",
    "twist_of_one",
]

_STRIP = 1 << 17  # pixels, or values, that are computed at a time: in few steps, between which threads take turns
_FEW = 1 << 12  # values; fewer take no time that matters
_MANY = 1 << 17  # values of two bytes; for fewer a table of all does not pay
_LARGE = 1e30
_FLOAT32, _FLOAT64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)
_EVERY = numpy.arange(256, dtype=numpy.uint8)[None]
_NUDGE = 2.0**-14  # makes OpenCV round a half up, and is too little to change anything else
_LAST_PLACE = 2.0**-16  # of float32 from 128 to 256: the least that makes OpenCV round every half up

#: From red, green and blue to luma and two axes of colour.
_YIQ = numpy.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])


def _through_yiq(inner: list[list[float]]) -> Array:
    """A matrix for luma and colours as one for red, green and blue, with a column for a shift."""
    return numpy.column_stack([numpy.linalg.inv(_YIQ) @ inner @ _YIQ, numpy.zeros(3)])


#: A turn of the colours is the sum of the first, the second times the cosine, and the third times the sine.
_LUMA_KEPT = _through_yiq([[1, 0, 0], [0, 0, 0], [0, 0, 0]])
_COLOUR_KEPT = _through_yiq([[0, 0, 0], [0, 1, 0], [0, 0, 1]])
_COLOUR_TURNED = _through_yiq([[0, 0, 0], [0, 0, 1], [0, -1, 0]])
#: BT.601 with Y in 16..235 and Cb, Cr in 16..240, from RGB in 0..255 (ITU-R BT.601-7, section 2.5.3 and 2.5.4).
YCBCR = numpy.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
OFFSET = numpy.array([16.0, 128.0, 128.0])
LUMA = numpy.array([0.299, 0.587, 0.114])
_OFFSET = OFFSET / 255

#: How to make each space of red, green and blue: factors, and shifts as parts of the range.
_FROM_RGB = {
    "RGB": (numpy.eye(3), numpy.zeros(3)),
    "BGR": (numpy.eye(3)[::-1], numpy.zeros(3)),
    "GRAY": (LUMA[None], numpy.zeros(1)),
    "YCbCr": (YCBCR, _OFFSET),
}
_INVERSE = numpy.linalg.inv(YCBCR)
#: How to make red, green and blue of each space.
_TO_RGB = {
    "RGB": _FROM_RGB["RGB"],
    "BGR": _FROM_RGB["BGR"],
    "GRAY": (numpy.ones((3, 1)), numpy.zeros(3)),
    "YCbCr": (_INVERSE, -_INVERSE @ _OFFSET),
}


@functools.cache
def _brightest(dtype: numpy.dtype[Any]) -> float:
    """The value of full brightness."""
    return 1.0 if dtype.kind in "fb" else float(numpy.iinfo(dtype).max)


@functools.cache
def middle(dtype: numpy.dtype[Any]) -> float:
    """The grey in the middle: 128 of bytes, a half of floats."""
    return 0.5 if dtype.kind == "f" else float(numpy.iinfo(dtype).max // 2 + 1)


def linear(
    have: numpy.dtype[Any],
    want: numpy.dtype[Any],
    brightness: Any = 1.0,
    shift: Any = 0.0,
    contrast: Any = 1.0,
    center: Any = None,
) -> tuple[Any, Any]:
    """Brightness and contrast as a factor and a summand, of one image or of many.

    Computed as DALI does: values near a half must be rounded to the same side.
    """
    real = _precision(have, want).type
    with numpy.errstate(over="ignore", invalid="ignore"):
        fixed, factor = real(middle(have) if center is None else center), real(contrast)
        added = real(shift) * real(_brightest(want)) + real(brightness) * (fixed - factor * fixed)
        return real(brightness) * factor, added


linear_of_one = functools.lru_cache(64)(linear)  #: the same of one image: those of a batch often have the same


def twist(
    dtype: numpy.dtype[Any],
    hue: Any,
    saturation: Any,
    brightness: Any = 1.0,
    contrast: Any = 1.0,
    image_type: str = "RGB",
) -> Any:
    """The matrix that turns hues, multiplies saturation, then changes contrast and brightness; or many of them."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        return _twist(grey(dtype), hue, saturation, brightness, contrast, image_type, _brightest(dtype))


def _twist(
    center: float, hue: Any, saturation: Any, brightness: Any, contrast: Any, image_type: str, bright: float
) -> Any:
    factor, shift = brightness * contrast, brightness * (center - contrast * center)
    turn = numpy.radians(hue)
    cosine, sine = (numpy.asarray(saturation * wave(turn))[..., None, None] for wave in (numpy.cos, numpy.sin))
    matrix = numpy.asarray(factor)[..., None, None] * (_LUMA_KEPT + cosine * _COLOUR_KEPT + sine * _COLOUR_TURNED)
    shifts = numpy.asarray(shift)[..., None]
    matrix[..., 3] = shifts
    if image_type == "RGB":
        return matrix
    (forth, there), (back, here) = _TO_RGB[image_type], _FROM_RGB[image_type]
    added = (matrix[..., :3] @ there * bright + shifts)[..., None, :]  # a row each: results are those of one image
    shifts = (added @ back.T)[..., 0, :] + here * bright
    return numpy.concatenate([back @ matrix[..., :3] @ forth, shifts[..., None]], axis=-1)


@functools.lru_cache(64)
def twist_of_one(*arguments: Any) -> Any:
    """One matrix: the images of a batch often have the same."""
    matrix = twist(*arguments)
    matrix.flags.writeable = False
    return matrix


def grey(dtype: numpy.dtype[Any]) -> float:
    """The grey about which `color_twist` changes the contrast."""
    return 0.5 if dtype.kind == "f" else 128.0


def conversion(have: str, want: str, dtype: numpy.dtype[Any]) -> Array:
    """The matrix, with a column of shifts, that makes one colour space of another."""
    (forth, there), (back, here) = _TO_RGB[have], _FROM_RGB[want]
    return numpy.column_stack([back @ forth, (back @ there + here) * _brightest(dtype)])


def luma(dtype: numpy.dtype[Any]) -> tuple[float, float]:
    """Factor and shift that make grey of Y of YCbCr."""
    factor = _INVERSE[0, 0]
    return factor, -factor * _OFFSET[0] * _brightest(dtype)


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
        if affine is None or image.size < _FEW:
            tables.looked_up(image, table, out)
            return
        shared(lambda part, there: _transformed(part, affine, there), image, out)
        return
    shared(lambda part, there: _scaled(part, factor, shift, there), image, out)


def _transformed(image: Array, affine: Any, out: Array) -> None:
    for part, there in strips(image, out):
        cv2.transform(part[None], affine, there[None])


def _precision(have: numpy.dtype[Any], want: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The type to compute in: float32 as DALI does, and float64 where that would lose digits of the image."""
    wide = have.itemsize > (2 if have.kind in "iu" else 4) or want == numpy.float64
    return _FLOAT64 if wide else _FLOAT32


def _scaled(image: Array, factor: float, shift: float, out: Array) -> None:
    real = _precision(image.dtype, out.dtype)
    with numpy.errstate(over="ignore", invalid="ignore"):
        by, more = numpy.asarray(factor).astype(real), numpy.asarray(shift).astype(real)
        for part, there in strips(image, out, _STRIP):
            results = there if there.dtype == real else numpy.empty(part.shape, real)
            numpy.multiply(part, by, results)
            if more:
                numpy.add(results, more, results)
            if results is not there:
                convert(numpy, results, out.dtype, there)


@functools.lru_cache(maxsize=16)
def _table(factor: float, shift: float, have: numpy.dtype[Any], want: numpy.dtype[Any]) -> tuple[Array, Array | None]:
    """A table for each integer of one or two bytes, and the factors with which OpenCV's vectors find the same.

    For bytes these take half the time of a table; None where they find anything else.
    """
    if have == want == numpy.uint8 and abs(factor) < _LARGE and abs(shift) < _LARGE:
        values = numpy.arange(256, dtype=numpy.float32) * numpy.float32(factor) + numpy.float32(shift)
        values = numpy.minimum(numpy.maximum(values, 0), 255)
        table = (values.astype(numpy.float64) + 0.5).astype(numpy.uint8)
        affine = numpy.array([[factor, shift + _NUDGE]])
        found = cv2.transform(_EVERY, affine)
        return table, affine if found.tobytes() == table.tobytes() else None
    size = 1 << (8 * have.itemsize)
    table = numpy.empty(size, want)
    _scaled(numpy.arange(size, dtype=f"u{have.itemsize}").view(have), factor, shift, table)
    return table, None


def recoded(pixels: Array, code: int, out: Array) -> None:
    """Convert bytes, channels last, from one colour space to another by one of OpenCV's codes."""
    shared(lambda part, there: _recoded(part, code, there), pixels, out, pixels=True)


def _recoded(pixels: Array, code: int, out: Array) -> None:
    for part, there in strips(pixels, out, channels=out.shape[-1]):
        cv2.cvtColor(part, code, there)


def picked(pixels: Array, channel: int, factor: float, shift: float, out: Array) -> None:
    """Multiply one channel of pixels by a factor and add a shift.

    Args:
        pixels: Channels last.
        channel: Which.
        factor: Finite.
        shift: Finite.
        out: Where to, of one channel, last.
    """
    shared(lambda part, there: _picked(part, channel, factor, shift, there), pixels, out, pixels=True)


def _picked(pixels: Array, channel: int, factor: float, shift: float, out: Array) -> None:
    for part, there in strips(pixels, out, _STRIP, 1):
        plane = numpy.ascontiguousarray(part[..., channel]) if part.itemsize > 4 else cv2.extractChannel(part, channel)
        scaled(plane, factor, shift, there[..., 0])


def mixed(pixels: Array, matrix: Array, out: Array, *, exact: bool = False) -> None:
    """Make each channel a sum of all channels, each with a factor, and of a shift.

    Args:
        pixels: Channels last.
        matrix: A row for each channel of the result: a factor for each channel, and the shift.
        out: Where to, channels last, of any dtype; integers are saturated.
        exact: Whether bytes must be rounded right; else they may be 1 off, in a third of the time.
    """
    if pixels.size:
        shared(lambda part, there: _mixed(part, matrix, there, exact), pixels, out, pixels=True)


def mixing(pixels: Array, matrix: Array, out: Array) -> pool.Step | None:
    """The one call of OpenCV that `mixed` is for bytes, unless they are many, or not in one piece."""
    in_one_piece = pixels.flags.c_contiguous and out.flags.c_contiguous and pixels.size > 0
    if not (pixels.dtype == out.dtype == numpy.uint8 and in_one_piece):
        return None
    if pixels.nbytes + out.nbytes >= pool.WORTH_SPLITTING or not _fits(matrix.tobytes(), matrix.dtype, len(matrix)):
        return None
    return cv2.transform, (pixels.reshape(1, -1, pixels.shape[-1]), matrix, out.reshape(1, -1, out.shape[-1]))


def _mixed(pixels: Array, matrix: Array, out: Array, exact: bool) -> None:
    channels = out.shape[-1]
    real = _precision(pixels.dtype, out.dtype)
    fits = pixels.dtype == numpy.uint8 and _fits(matrix.tobytes(), matrix.dtype, len(matrix))
    if fits and out.dtype == numpy.uint8 and not exact:
        for part, there in strips(pixels, out, channels=channels):
            cv2.transform(part, matrix, there)
        return
    room = min(_STRIP, pixels.size // pixels.shape[-1])
    values, sums = empty((1, room, pixels.shape[-1]), real), empty((1, room, channels), real)
    for part, there in strips(pixels, out, _STRIP, channels):
        count = part.shape[1]
        values[:, :count] = part
        multiplied(values[0, :count], matrix, sums[0, :count])
        if fits and out.dtype == numpy.uint8:
            _bytes(sums[:, :count], there)
        else:
            convert(numpy, sums[:, :count], out.dtype, there)


@functools.lru_cache(256)
def _fits(matrix: bytes, kind: numpy.dtype[Any], rows: int) -> bool:
    """Whether the integers of OpenCV, in which it computes with bytes, hold such factors and shifts."""
    factors = numpy.abs(numpy.frombuffer(matrix, kind).reshape(rows, -1))
    return bool((factors[:, :-1] < 31).all() and (factors[:, -1] < 1 << 16).all())


def _bytes(values: Array, out: Array) -> None:
    """Round and saturate float32 to bytes; a half goes up, as do values up to 2**-16 below it. Overwrites the values.

    To be exact takes as long again as the sums that are rounded, whose own error is as large.
    """
    cv2.threshold(values, 0.0, 0.0, cv2.THRESH_TOZERO, values)
    cv2.convertScaleAbs(values, out, 1.0, _LAST_PLACE)
