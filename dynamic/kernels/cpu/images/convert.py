"""From decoded pixels to the wanted ones: channels, orientation, range of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import library
from dynamic.dtypes import convert
from dynamic.kernels.cpu import color
from dynamic.kernels.cpu.strips import strips

from ._common import CHANNELS, Array, Colours

__all__ = ["channels", "colours", "upright", "values"]


def channels(have: Colours, output_type: str, extra: int = 0) -> int:
    """How many channels an output type has, for a file with these colours and so many channels more."""
    if output_type == "ANY_DATA":
        return CHANNELS[have] + extra
    return 1 if output_type == "GRAY" else 3


def colours(pixels: Array, have: Colours, want: str) -> Array:
    """Pixels (H, W, C) with the channels of an output type; alpha is dropped."""
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if want == "ANY_DATA":
        if have == "BGRA":
            return pixels[..., [2, 1, 0, 3]]
        return pixels[..., ::-1] if have == "BGR" else pixels
    if have in ("GRAY", "GRAYA"):
        gray = pixels[..., :1]
        if want == "YCbCr":
            return _to_ycbcr(numpy.repeat(gray, 3, axis=2))
        return gray if want == "GRAY" else numpy.repeat(gray, 3, axis=2)
    rgb = _from_ink(pixels) if have == "CMYK" else pixels[..., 2::-1] if have in ("BGR", "BGRA") else pixels[..., :3]
    if want == "BGR":
        return rgb[..., ::-1]
    if want == "GRAY" and pixels.dtype != numpy.uint8:
        return numpy.asarray(convert(numpy, rgb @ color.LUMA, rgb.dtype))[..., None]
    if want == "GRAY":
        gray = cv2.cvtColor(numpy.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)
        return numpy.asarray(gray)[..., None]
    return _to_ycbcr(rgb) if want == "YCbCr" else rgb


def _from_ink(cmyk: Array) -> Array:
    """Red, green and blue of the paper's white under two layers of ink."""
    paper = (255 - cmyk).astype(numpy.uint16)
    return ((paper[..., :3] * paper[..., 3:] + 127) // 255).astype(numpy.uint8)


def _to_ycbcr(rgb: Array) -> Array:
    converted: Array = numpy.empty(rgb.shape, rgb.dtype)
    color.mixed(rgb, color.conversion("RGB", "YCbCr", rgb.dtype), converted, exact=True)
    return converted


_STRIP = 1 << 16  # values that are stretched at a time
_MOST_TURNED = 4  # channels, at once: OpenCV transposes no pixels of five
_TURNS: dict[int, Callable[[Any, Any], Any]] = {
    2: lambda pixels, out: cv2.flip(pixels, 1, dst=out),
    3: lambda pixels, out: cv2.rotate(pixels, cv2.ROTATE_180, dst=out),
    4: lambda pixels, out: cv2.flip(pixels, 0, dst=out),
    5: lambda pixels, out: cv2.transpose(pixels, dst=out),
    6: lambda pixels, out: cv2.rotate(pixels, cv2.ROTATE_90_CLOCKWISE, dst=out),
    7: lambda pixels, out: cv2.flip(cv2.transpose(pixels), -1, dst=out),
    8: lambda pixels, out: cv2.rotate(pixels, cv2.ROTATE_90_COUNTERCLOCKWISE, dst=out),
}


def upright(pixels: Array, orientation: int, out: Array) -> None:
    """As `values`, for pixels (H, W, C) in an EXIF orientation of 2 to 8: they are turned the right way up."""
    if pixels.shape[2] > _MOST_TURNED:
        for first in range(0, pixels.shape[2], _MOST_TURNED):
            some = slice(first, first + _MOST_TURNED)
            upright(pixels[..., some], orientation, out[..., some])
        return
    turn, pixels = _TURNS[orientation], numpy.ascontiguousarray(pixels)
    if pixels.dtype == out.dtype and out.flags.c_contiguous:
        turn(pixels, out)
    else:
        values(turn(pixels, None).reshape(out.shape), out)


def values(pixels: Array, out: Array) -> None:
    """Put pixels into memory of any dtype, the full range of theirs to the full range of that; floats are in [0, 1]."""
    if pixels.dtype == out.dtype:
        out[...] = pixels
    elif library(out) is numpy:
        for part, there in strips(pixels, out, _STRIP):
            _stretched(part, there)
    else:
        _stretched(pixels, out)


def _stretched(pixels: Array, out: Array) -> None:
    """The same, of another dtype."""
    have, want = _most(pixels.dtype), _most(out.dtype)
    if out.dtype == numpy.bool_:
        out[...] = pixels > have // 2
    elif out.dtype.kind == "f":
        out[...] = (pixels / numpy.float64(have)).astype(out.dtype)
    elif want % have == 0:
        out[...] = pixels.astype(out.dtype) * out.dtype.type(want // have)
    else:
        convert(library(pixels), pixels * (want / have), out.dtype, out=out)


def _most(dtype: numpy.dtype[Any]) -> int:
    return 1 if dtype.kind in "fb" else int(numpy.iinfo(dtype).max)
