"""Operators on the values of pixels: equalizing them, looking them up in a table, compressing them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._arrays.described import Described
from dynamic._core import pixels
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Layout, PerSample, Several
from dynamic._lift.call import Call, Plan
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.dtypes import float32
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import compression, histograms, tables
from dynamic.kernels.gpu import arrays, images, jpeg
from dynamic.kernels.gpu import histograms as spreading

from .geometry import LAYOUTS, _frames

__all__ = ["clahe", "equalize", "jpeg_compression_distortion", "lookup_table"]

_Tiles: TypeAlias = Annotated[int, Between(1, 1024)]
_MOST_WIDE_TILES = 1024
_Bins: TypeAlias = Annotated[int, Between(1)]
_Key: TypeAlias = Annotated[int, Between(0, 65535)]


def _plan_same(call: Call) -> Plan:
    return Plan(call.shapes, call.dtype, weight=8.0)


def _equalize_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("equalize", data, call.layout or "") for data in (inputs[0], target))
    spreading.equalized(source, result)


def _plan_equalization(call: Call) -> Plan:
    plan = _plan_same(call)
    photos = call.dtype == numpy.uint8 and "D" not in (call.layout or "")
    worth = call.count >= _FEW or (call.count > 0 and call.bytes() >= _MANY)
    if photos and worth and max(map(math.prod, set(call.shapes)), default=0) <= _LARGEST:
        plan.native = _equalize_natively
    return plan


_LARGEST = (1 << 31) - 1  # numbers that are counted
_FEW, _MANY = 4, 1 << 20  # images, and bytes of fewer, from which on a native call is faster


def _equalize_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    frames = [images("equalize", data, call.layout or "") for data in (inputs[0], memory.described())]
    source, target = (Described(table.pointers, table.shapes, table.strides, table.dtype) for table in frames)
    pixels.equalized(source, target, int(call.plan.weight * 2 * memory.nbytes))
    return True


@operator(layouts=LAYOUTS, dtypes="u8 u16", plan=_plan_equalization, gpu=_equalize_on_gpu)
def equalize(image: Array, /, *, layout: Layout = GIVEN, out: Array = None) -> Array:
    """Spread the values of each channel over their whole range, so that all ranges of brightness have as many pixels.

    Each channel and each frame of a video has its own histogram; a volume has one for each channel.

    Returns:
        Images of the same shapes, dtype and layout.

    >>> ndd.equalize(numpy.array([[5, 9, 9, 5, 200]], "uint8")).tolist()
    [[0, 170, 170, 0, 255]]
    """
    for frame, result in zip(_frames(image, layout), _frames(out, layout), strict=True):
        if frame.size:
            histograms.equalized(frame, result)
    return out


def _pictures(image: Array, out: Array, layout: str) -> Iterator[tuple[Array, Array]]:
    """The pictures (H, W, C) of an image, a video or a volume, with the memory for their results."""
    frames, results = _frames(image, layout), _frames(out, layout)
    for place in numpy.ndindex(frames.shape[:-3]) if frames.size else ():
        yield frames[place], results[place]


def _plan_tiles(call: Call) -> Plan:
    tiles_x, tiles_y, bins = (call.fixed[name] for name in ("tiles_x", "tiles_y", "bins"))
    if call.dtype == numpy.uint16 and tiles_x * tiles_y > _MOST_WIDE_TILES:
        expected = f"few enough for at most {_MOST_WIDE_TILES} tiles of uint16, each with a table of 65,536 values"
        raise ArgumentError("clahe", "tiles_x", expected, f"{tiles_x} x {tiles_y}")
    if bins & (bins - 1):
        raise ArgumentError("clahe", "bins", "a power of two", str(bins))
    if call.fixed["luma_only"]:
        _check_channels(call)
    return _plan_same(call)


def _tiled_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("clahe", data, call.layout or "") for data in (inputs[0], target))
    tiles, limit = (call.fixed["tiles_x"], call.fixed["tiles_y"]), call.fixed["clip_limit"]
    spreading.equalized_in_tiles(source, result, tiles, limit, luma_only=call.fixed["luma_only"])


@operator(layouts=LAYOUTS, dtypes="u8 u16", plan=_plan_tiles, gpu=_tiled_on_gpu)
def clahe(
    image: Array,
    /,
    *,
    bins: _Bins = 256,
    clip_limit: float,
    luma_only: bool = True,
    tiles_x: _Tiles,
    tiles_y: _Tiles,
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Spread the values of each part of an image by its own histogram, which is clipped to limit the contrast.

    The image is cut into tiles, and each pixel interpolates between the tables of the four tiles around it. Frames
    of videos and slices of volumes are images of their own.

    Args:
        bins: A power of two; every value has a bin of its own, whatever it is.
        clip_limit: How strong the contrast may become: 2 to 4 is common, 0 is no limit. It is the most that a bin may
            hold, as a multiple of the mean of all bins. The rest is shared out among all bins.
        luma_only: Whether the lightness of RGB images is spread and their colours are kept, or every channel by itself.
        tiles_x: Number of tiles across; of uint16 there are at most 1024 tiles altogether.
        tiles_y: Number of tiles down.

    Returns:
        Images of the same shapes, dtype and layout.

    Raises:
        ArgumentError: The image has neither 1 channel nor the 3 of RGB, `bins` is no power of two, or uint16 has
            too many tiles.

    >>> ndd.clahe(numpy.array([[[5], [9], [9], [200]]], "uint8"), tiles_x=1, tiles_y=1, clip_limit=0).tolist()
    [[[64], [191], [191], [255]]]
    """
    for picture, result in _pictures(image, out, layout):
        histograms.equalized_in_tiles(picture, (tiles_x, tiles_y), clip_limit, result, luma_only=luma_only)
    return out


def _check_channels(call: Call) -> None:
    layout = call.layout or ""
    for i, shape in enumerate(call.shapes) if "C" in layout else ():
        channels = shape[layout.index("C")]
        if channels not in (1, 3):
            error = ArgumentError(call.name, "image", "of 3 channels (RGB) or of 1 (GRAY)", f"{channels} channels")
            raise call.noted(i, error)


def _plan_compression(call: Call) -> Plan:
    _check_channels(call)
    height, width = ((call.layout or "").index(letter) for letter in "HW")
    for i, shape in enumerate(call.shapes):
        if max(shape[height], shape[width]) > compression.LARGEST:
            expected = f"at most {compression.LARGEST} pixels high and wide"
            raise call.noted(i, ArgumentError(call.name, "image", expected, f"{shape[height]} x {shape[width]}"))
    qualities = [min(max(quality, 1), 100) for quality in call.column("quality")]
    return Plan(call.shapes, call.dtype, data=qualities, weight=8.0)


def _compressed_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("jpeg_compression_distortion", data, call.layout or "") for data in (inputs[0], target))
    jpeg.compressed(source, result, source.each(numpy.array(call.plan.data)))


@operator(layouts=LAYOUTS, dtypes="u8", plan=_plan_compression, gpu=_compressed_on_gpu)
def jpeg_compression_distortion(
    image: Array, /, *, quality: PerSample[int] = 50, layout: Layout = GIVEN, plan: int = GIVEN, out: Array = None
) -> Array:
    """Compress images as JPEG files do and decompress them: blocks, ringing and colours of half the resolution.

    Frames of videos and slices of volumes are images of their own.

    Args:
        quality: 1, the lowest, to 100; values beyond are clipped.

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 channel nor the 3 of RGB, or is higher or wider than a file can hold.

    >>> image = numpy.arange(64, dtype="uint8").reshape(8, 8)
    >>> ndd.jpeg_compression_distortion(image, quality=10).tolist()[0]
    [7, 7, 7, 7, 7, 7, 7, 7]
    """
    for picture, result in _pictures(image, out, layout):
        compression.compressed(picture, plan, result)
    return out


def _plan_lookup(call: Call) -> Plan:
    """The table of the values of all integers."""
    keys, values = (
        given if isinstance(given, tuple) else (given,) for given in map(call.fixed.get, ("keys", "values"))
    )
    if len(keys) != len(values):
        raise ArgumentError("lookup_table", "values", f"one for each of the {len(keys)} keys", str(len(values)))
    table = tables.table(keys, values, call.fixed["default_value"], call.asked)
    return Plan(call.shapes, call.asked, data=table, weight=8.0)


@operator(dtypes="bool u8 i8 u16 i16 u32 i32 u64 i64", plan=_plan_lookup, gpu=True, unit="value")
def lookup_table(
    data: Array,
    /,
    *,
    default_value: float = 0.0,
    dtype: DTypeArgument = float32,
    keys: _Key | Several[_Key] = (),
    values: float | Several[float] = (),
    plan: Array = None,
    out: Array = None,
) -> Array:
    """Replace integers by the values that a table has for them.

    Args:
        default_value: The value for integers that are no keys.
        dtype: Element type of the result; values are rounded and saturated to it.
        keys: Integers in [0, 65535]; of a key that is given twice, the last value counts.
        values: One for each key.

    Returns:
        Arrays of the same shapes and layout.

    Raises:
        ArgumentError: There are not as many values as keys.

    >>> ndd.lookup_table(numpy.array([1, 4, 0]), keys=[0, 4], values=[0.5, 2.5], default_value=-1).tolist()
    [-1.0, 2.5, 0.5]
    """
    (tables if library(out) is numpy else arrays).mapped(data, plan, out)
    return out
