"""Equalizing the histograms of whole batches, of images or of their tiles, and tables of the lightness of colours."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cv2
import numpy
from numpy.typing import NDArray

from ._images import Images
from ._launch import launch, table

__all__ = ["equalized", "equalized_in_tiles"]

_BLOCK = 4096  # pixels
_PLANE = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 2),
        ("to", "i8", 2),
        ("rows", "u4"),
        ("columns", "u4"),
    ]
)
_MEMORY = 1 << 28  # bytes of tables that are made at once
_TILED = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("rows", "u4"),
        ("columns", "u4"),
        ("high", "u4"),
        ("wide", "u4"),
        ("down", "u4"),
        ("across", "u4"),
        ("limit", "u4"),
        ("first", "u4"),
    ]
)
_NONE = (numpy.zeros(1, numpy.uint16), numpy.zeros(1, numpy.float32))


def equalized(source: Images, target: Images) -> None:
    """Spread the values of each channel over their range, as `kernels.cpu.histograms.equalized` does.

    Args:
        source: Images of uint8 or uint16.
        target: Of the same shapes and type.
    """
    import cupy

    pixels = source.shapes[:, :2].prod(axis=1)
    counts = numpy.where(pixels > 0, source.shapes[:, 2], 0)
    owners = numpy.repeat(numpy.arange(len(source)), counts)  # of each channel its image
    channels = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    if not len(owners):
        return
    rows = table(
        _PLANE,
        len(owners),
        rows=source.shapes[owners, 0],
        columns=source.shapes[owners, 1],
        to=target.strides[owners, :2],
    )
    rows["from"] = source.strides[owners, :2]
    for name, images in (("source", source), ("target", target)):
        rows[name] = images.pointers[owners] + (channels * images.strides[owners, 2]).astype(numpy.uint64)
    size, tiles = source.dtype.itemsize, -(-pixels[owners] // _BLOCK)
    bins = cupy.zeros((len(owners), 1 << 8 * size), numpy.uint32)
    values = cupy.empty(bins.shape, source.dtype)
    places = [numpy.uint64(array.data.ptr) for array in (bins, values)]
    launch("histograms", f"count_{size}", tiles, [rows], places[:1])
    launch("histograms", f"spread_{size}", numpy.ones(len(owners), numpy.int64), [rows], places)
    launch("histograms", f"look_up_{size}", tiles, [rows], places[1:])


def equalized_in_tiles(
    source: Images, target: Images, tiles: tuple[int, int], limit: float, *, luma_only: bool
) -> None:
    """Spread the values of each tile by its own histogram, as `kernels.cpu.histograms.equalized_in_tiles` does.

    Args:
        source: Images of uint8 or uint16.
        target: Of the same shapes and type.
        tiles: Number of tiles across and down.
        limit: The most that a bin may hold, as a multiple of the mean; 0 or less is no limit.
        luma_only: Whether to spread the lightness of images of three channels, and not each of these.
    """
    seen = source.shapes.prod(axis=1) > 0
    coloured = seen & (source.shapes[:, 2] == 3) & luma_only
    for which, suffix in ((coloured, "_colours"), (seen & ~coloured, "")):
        places = numpy.flatnonzero(which)
        rows = _rows(source.take(places), target.take(places), tiles, limit, apart=not suffix)
        for part in _parts(rows, source.dtype):
            _launch(part, source.dtype, suffix)


def _rows(source: Images, target: Images, tiles: tuple[int, int], limit: float, *, apart: bool) -> NDArray[Any]:
    """The table, of images or of each of their channels."""
    counts = source.shapes[:, 2] if apart else numpy.ones(len(source), numpy.int64)
    owners = numpy.repeat(numpy.arange(len(source)), counts)
    channels = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    extents, grid = source.shapes[owners, :2], numpy.array(tiles[::-1], numpy.int64)
    # Where one of the extents is no multiple, both reach up to the next multiple beyond them.
    fits = (extents % grid == 0).all(axis=1, keepdims=True)
    sizes = numpy.where(fits, extents, extents + grid - extents % grid) // grid
    bins = 1 << 8 * source.dtype.itemsize
    most = numpy.maximum(min(limit, float(bins)) * sizes.prod(axis=1) / bins, 1) if limit > 0 else 0
    rows = table(
        _TILED,
        len(owners),
        to=target.strides[owners],
        rows=extents[:, 0],
        columns=extents[:, 1],
        high=sizes[:, 0],
        wide=sizes[:, 1],
        down=tiles[1],
        across=tiles[0],
        limit=most,
    )
    rows["from"] = source.strides[owners]
    for name, images in (("source", source), ("target", target)):
        rows[name] = images.pointers[owners] + (channels * images.strides[owners, 2]).astype(numpy.uint64)
    return rows


def _parts(rows: NDArray[Any], dtype: numpy.dtype[Any]) -> Iterator[NDArray[Any]]:
    """As many rows at a time as there is to be memory for: with two bytes the tables of a tile take 384 KiB."""
    if len(rows):
        tiles, size = int(rows["down"][0]) * int(rows["across"][0]), dtype.itemsize
        each = max(1, _MEMORY // (tiles * (256 if size == 1 else 65536 * (size + 4))))
        for start in range(0, len(rows), each):
            part = rows[start : start + each]
            part["first"] = numpy.arange(len(part)) * tiles
            yield part


def _launch(rows: NDArray[Any], dtype: numpy.dtype[Any], suffix: str) -> None:
    import cupy

    tiles = rows["down"].astype(numpy.int64) * rows["across"]
    total, size = int(tiles.sum()), dtype.itemsize
    counts = cupy.empty((total if size > 1 else 0, 1 << 16), numpy.uint32)  # bytes are counted in shared memory
    values = cupy.empty((total, 1 << 8 * size), dtype)
    tables = _NONE if not suffix else _of_bytes() if size == 1 else _of_two_bytes()
    places = [numpy.uint64(array.data.ptr) for array in (counts, values)]
    launch("clahe", f"clip{suffix}_{size}", tiles, [rows, *tables], places)
    pixels = rows["rows"].astype(numpy.int64) * rows["columns"]
    launch("clahe", f"blend{suffix}_{size}", -(-pixels // _BLOCK), [rows, *tables], places)


@functools.cache
def _of_bytes() -> tuple[NDArray[Any], NDArray[Any]]:
    """OpenCV's tables between bytes and L*a*b*, one behind the other.

    Red, green and blue become linear, 2040 at most; these become the roots of X, Y and Z, 1.0 at 32768; each lightness
    becomes Y and its root, 1.0 at 16384; and linear values, 4096 at most, bytes again.
    """
    values, part = numpy.arange(256), numpy.arange(256) / 255
    linear = numpy.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    at = numpy.arange(3072) / 2040
    roots = numpy.where(at < 216 / 24389, at * 841 / 108 + 16 / 116, numpy.cbrt(at)) * 32768
    roots = roots.round(3)  # values this near to a half are halves in OpenCV's float32, and go to the even number
    dark = values <= 20
    middle = numpy.where(dark, 16 / 116 + values * 5 / (3 * 17 * 29), (values * 100 / 255 + 16) / 116)
    light = numpy.where(dark, values * 180 / (17 * 29**3), middle**3)
    lights = numpy.stack([light, middle], axis=1).reshape(-1) * 16384
    parts = (2040 * linear, roots, lights, 255 * _gamma(numpy.arange(4096) / 4096))
    return numpy.concatenate([numpy.rint(each).astype(numpy.uint16) for each in parts]), _NONE[1]


def _gamma(linear: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Linear values as sRGB."""
    found = 1.055 * numpy.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return numpy.where(linear <= 0.0031308, linear * 12.92, found)


@functools.cache
def _of_two_bytes() -> tuple[NDArray[Any], NDArray[Any]]:
    """L*a*b* at the points of a grid of red, green and blue, 1.0 at 16384; and a spline from linear values to sRGB.

    OpenCV interpolates float32 on such a grid, so at its points it is exact.
    """
    points = numpy.linspace(0, 1, 33, dtype=numpy.float32)
    colours = numpy.stack(numpy.meshgrid(points, points, points, indexing="ij"), axis=-1).reshape(33, 33 * 33, 3)
    lab = cv2.cvtColor(colours, cv2.COLOR_RGB2Lab)
    grid = numpy.rint((lab + (0.0, 128.0, 128.0)) * (163.84, 64.0, 64.0)).astype(numpy.uint16)
    return grid.reshape(-1), _spline(_gamma(numpy.arange(1025) / 1024).astype(numpy.float32))


def _spline(values: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
    """The natural cubic spline through values: for each step the coefficients of 1, t, t**2 and t**3; in float32."""
    count = len(values) - 1
    bends = (values[2:] - values[1:-1] * 2 + values[:-2]) * 3
    factors, parts = numpy.zeros(count, numpy.float32), numpy.zeros(count, numpy.float32)
    for i in range(1, count):
        factors[i] = 1 / (4 - factors[i - 1])
        parts[i] = (bends[i - 1] - parts[i - 1]) * factors[i]
    seconds = numpy.zeros(count + 1, numpy.float32)
    for i in range(count - 1, -1, -1):
        seconds[i] = parts[i] - factors[i] * seconds[i + 1]
    here, there = seconds[:-1], seconds[1:]
    firsts = values[1:] - values[:-1] - (there + here * 2) / 3
    found: NDArray[numpy.float32] = numpy.stack([values[:-1], firsts, here, (there - here) / 3], axis=1)
    return found
