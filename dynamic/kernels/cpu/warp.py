"""Affine warps and flips of one image.

An image here has its spatial dimensions first, two (H, W) or three (D, H, W), and its channels last, in any strides:
other orders are views. A matrix of n rows and n + 1 columns says where a pixel comes from: it maps the centre of an
output pixel to a point of the input, both as (x, y) or (x, y, z), where the pixel of index i has its centre at i + 0.5.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.dtypes import convert

from .digits import above, exact_level, in_float32, raised

__all__ = [
    "MOST_CHANNELS",
    "MOVABLE",
    "NO_MAP",
    "OPENCV_LIMIT",
    "QUIET",
    "affine",
    "are_photos",
    "copied",
    "filled",
    "flip",
    "in_groups",
    "places_of",
    "quarter_turn",
    "step",
    "take",
]

_TILE = 1024, 1024  # rows and columns; OpenCV has coordinates in float32: at scale 1 exact to 1/4000 pixel there
_FARTHEST = 2.0**52  # pixels; no image is so large
OPENCV_LIMIT = 32000  # OpenCV takes no image with SHRT_MAX or more rows or columns
#: For functions that threads of the pool run, without the state of their caller: infinities are results like others.
QUIET = numpy.errstate(over="ignore", invalid="ignore")
NO_MAP: Any = None  # the second map of cv2.remap, which may be missing, is declared as an array
MOST_CHANNELS = 128  # of an image of OpenCV 5
_ALL = (slice(None), slice(None))
_POINTS = 256, 768  # a tile whose points are computed here
_FIXED = 2.0**48
_UPPER = 3 if sys.byteorder == "little" else 0  # where in an integer of 64 bits its upper 16 are
_BLOCK = 1 << 14  # output pixels that the NumPy kernel computes at a time, so that its temporaries stay in the cache
_STRIP = 1 << 21  # bytes of the rows of a temporary result
_MOST_WIDENED = 4  # times the pixels of a result; to widen an image of more costs more than it saves
_SAME_SIZE = {size: numpy.dtype(name) for size, name in ((1, "uint8"), (2, "uint16"), (4, "float32"), (8, "float64"))}
_ALONG = [[1.0, 0.0], [0.0, 1.0]]  # a shift
_DIRECT = frozenset(map(numpy.dtype, ("uint8", "uint16", "float32")))  # that OpenCV interpolates in floats

#: Called with an image, memory for some rows of the result, the number of the first of these, and the keywords of an
#: OpenCV function for the border; it fills the memory.
Into = Callable[[Any, Any, int, dict[str, Any]], None]


def affine(image: Any, matrix: Sequence[Sequence[float]], out: Any, *, fill: Any = None, nearest: bool = False) -> None:
    """Fill `out` with the pixels that a matrix finds in an image, interpolated, rounded and saturated to its dtype.

    Args:
        image: (H, W, C) or (D, H, W, C).
        matrix: From points of the output to points of the input, see the top of this module.
        out: Memory of the same number of dimensions and channels, of any dtype.
        fill: Pixels outside the image, one value or one for each channel, saturated to the dtype of the image; if
            None, the nearest pixel.
        nearest: Take the pixel that a point lies in; otherwise interpolate linearly between the centres around it.
    """
    if not out.size:
        return
    if fill is not None:
        fill = filled(fill, image.dtype, image.shape[-1])
    if not image.size:  # nothing to repeat either
        out[...] = 0 if fill is None else convert(numpy, fill, out.dtype)
        return
    # From here on it maps indices to indices.
    matrix = [[*map(float, row[:-1]), float(row[-1] + sum(row[:-1]) / 2 - 0.5)] for row in matrix]
    # Where pixels only move, infinities do not spread, and int64 loses no digit.
    nearest = nearest or all(number.is_integer() for row in matrix for number in row)
    if nearest and image.ndim == 3 and _turned(matrix) == _ALONG:
        _shifted(image, [_whole(row[-1]) for row in matrix], out, fill)
    elif image.ndim != 3 or _reach(matrix, out.shape) >= OPENCV_LIMIT:
        _gather(image, matrix, out, fill, nearest)
    elif nearest and image.shape[2] <= MOST_CHANNELS:
        _opencv_nearest(image, matrix, out, fill)
    elif not nearest and in_float32(image.dtype):
        _opencv_linear(image, matrix, out, fill)
    else:
        _gather(image, matrix, out, fill, nearest)


def are_photos(dtype: Any, out_dtype: Any, shapes: Sequence[Sequence[int]], results: Sequence[Sequence[int]]) -> bool:
    """Whether `step` takes images (H, W, C): of a type that OpenCV interpolates as it is, and of moderate size."""
    if dtype != out_dtype or dtype not in _DIRECT:
        return False
    for height, width, channels in itertools.chain(shapes, results):
        if not (0 < height <= _TILE[0] and 0 < width <= _TILE[1] and channels in (1, 3, 4)):
            return False
    return True


def step(image: Any, turn: Any, out: Any, fill: Any) -> pool.Step:
    """One call for `quarter_turn` or `affine` of one of images that `are_photos`, with the same result.

    Args:
        image: (H, W, C).
        turn: Number of quarter turns, or a matrix.
        out: Memory for the result.
        fill: As `filled` returns it, or None.
    """
    if isinstance(turn, int):
        return quarter_turn, (image, turn, out)
    (a, b, x), (c, d, y) = turn
    x, y = x + (a + b) / 2 - 0.5, y + (c + d) / 2 - 0.5
    height, width, channels = out.shape
    reach = max(abs(a) * width + abs(b) * height, abs(c) * width + abs(d) * height)
    work = max(image.size, out.size) * image.itemsize * 4 // channels
    moved = a.is_integer() and b.is_integer() and c.is_integer() and d.is_integer()
    exact = moved and x.is_integer() and y.is_integer()
    if exact or reach >= OPENCV_LIMIT or work > _STRIP or not image.flags.c_contiguous or not out.flags.c_contiguous:
        return functools.partial(affine, fill=fill), (image, turn, out)
    border = cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT
    value = (0.0,) if fill is None else fill.tolist()
    wider = channels == 3 and image.itemsize < 4 and image.size <= _MOST_WIDENED * out.size
    if channels == 1:
        image, out = image[..., 0], out[..., 0]
    matrix = numpy.array([[a, b, x], [c, d, y]])
    return _widened if wider else _interpolating, (image, matrix, out, border, value)


def _interpolating(image: Any, matrix: Any, out: Any, border: int, value: Sequence[float]) -> None:
    cv2.warpAffine(image, matrix, out.shape[1::-1], dst=out, flags=_LINEAR, borderMode=border, borderValue=value)


def _widened(image: Any, matrix: Any, out: Any, border: int, value: Sequence[float]) -> None:
    memory = cv2.cvtColor(image, cv2.COLOR_RGB2RGBA)
    memory = cv2.warpAffine(memory, matrix, out.shape[1::-1], flags=_LINEAR, borderMode=border, borderValue=value)
    cv2.cvtColor(memory, cv2.COLOR_RGBA2RGB, dst=out)


_LINEAR = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def _turned(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """A matrix without the shift."""
    return [list(row[:-1]) for row in matrix]


def _whole(place: float) -> int:
    """The pixel that a point along an axis lies in, as `_whole_places` finds it."""
    if abs(place) >= OPENCV_LIMIT:
        return math.floor(min(max(place, -_FARTHEST), _FARTHEST) + 0.5)
    return math.floor(round((place + 0.5) * _FIXED) / _FIXED)


def _shifted(image: Any, shift: Sequence[int], out: Any, fill: Any) -> None:
    """Fill `out` with an image that is shifted by whole pixels, (x, y)."""
    spans = [(-by, extent) for by, extent in zip(shift[::-1], image.shape, strict=False)]  # where the image lies
    if fill is None:
        rows, columns = (
            numpy.clip(numpy.arange(n) - start, 0, extent - 1)
            for n, (start, extent) in zip(out.shape, spans, strict=False)
        )
        convert(numpy, image[rows].take(columns, axis=1), out.dtype, out=out)
        return
    there, here = [], []
    for n, (start, extent) in zip(out.shape, spans, strict=False):
        first, last = max(start, 0), max(min(start + extent, n), 0)
        there.append(slice(first, max(first, last)))
        here.append(slice(first - start, max(first, last) - start))
    out[...] = numpy.tile(convert(numpy, fill, out.dtype), out.shape[1]).reshape(out.shape[1:])  # whole rows are fast
    target = out[tuple(there)]
    if target.size:
        convert(numpy, image[tuple(here)], out.dtype, out=target)


def _reach(matrix: Sequence[Sequence[float]], shape: Sequence[int]) -> float:
    """How far apart the points of a tile of a result of two dimensions can be, along either axis of the input."""
    height, width = map(min, shape, _TILE)
    return max(abs(x) * width + abs(y) * height for x, y, _ in matrix)


def filled(fill: float | Sequence[float], dtype: Any, channels: int) -> Any:
    """A fill, one value or one for each channel, as an array with one for each, saturated to a dtype."""
    return _filled(fill if isinstance(fill, (int, float)) else tuple(fill), dtype, channels)


@functools.lru_cache(64)
def _filled(fill: float | tuple[float, ...], dtype: Any, channels: int) -> Any:
    return numpy.broadcast_to(convert(numpy, numpy.atleast_1d(numpy.asarray(fill, numpy.float64)), dtype), channels)


def _gather(image: Any, matrix: Any, out: Any, fill: Any, nearest: bool) -> None:
    """`affine` in float64, for every dtype and number of dimensions; the matrix maps indices."""
    pixels = numpy.ascontiguousarray(image).reshape(-1, image.shape[-1]) if nearest else None
    planes, base = (None, None) if nearest else _padded(image, fill)
    step = max(1, _BLOCK // max(1, math.prod(out.shape[1:-1])))

    @QUIET
    def one(i: int) -> None:
        start = i * step
        block = out[start : start + step]
        points = [_points(row, start, block.shape[:-1]) for row in matrix[::-1]]
        if pixels is not None:
            (place,) = places_of([numpy.floor(point + 0.5) for point in points], image.shape, (0,))
            convert(numpy, take(pixels, place, fill), out.dtype, out=block)
        if planes is not None:
            _interpolate(planes, base, points, block)

    pool.run_pieces(one, -(-len(out) // step), image.nbytes + out.nbytes)


def _padded(image: Any, fill: Any) -> tuple[Any, Any]:
    """The channels of an image in float64, apart, each with one pixel of the outside before it and two behind.

    With them an exact level that was taken away from all, or None.
    """
    base = exact_level(image, *([] if fill is None else [fill]))
    if base is not None:
        image, fill = above(image, base), None if fill is None else above(fill, base)
    planes = numpy.empty((image.shape[-1], *(extent + 3 for extent in image.shape[:-1])))
    for channel, plane in enumerate(planes):
        if fill is None:
            plane[...] = numpy.pad(image[..., channel], (1, 2), mode="edge")
        else:
            plane[...] = fill[channel]
            plane[(slice(1, -2),) * plane.ndim] = image[..., channel]
    return planes, base


def _interpolate(planes: Any, base: Any, points: list[Any], out: Any) -> None:
    """Fill a block of `out` with the values at points of padded planes above a level, linearly."""
    extents = planes.shape[1:]
    strides = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    flat: Any = 0.0
    weights = []
    for point, extent, stride in zip(points, extents, strides, strict=True):
        numpy.clip(point, -1, extent - 3, out=point)
        corner = numpy.floor(point)
        weights.append(point - corner)
        flat = flat + (corner + 1) * stride
    index = flat.astype(numpy.intp)
    offsets = [sum(offset) for offset in itertools.product(*((0, stride) for stride in strides))]
    for channel, plane in enumerate(planes.reshape(len(planes), -1)):
        taps = [plane[offset:].take(index, mode="clip") for offset in offsets]
        raised(_between(taps, weights), base, out[..., channel])


def _between(taps: list[Any], weights: Sequence[Any]) -> Any:
    """The value between taps at the corners of a square or cube, the last axis varying fastest."""
    for weight in reversed(weights):
        taps = [a + (b - a) * weight for a, b in zip(taps[::2], taps[1::2], strict=True)]
    return taps[0]


def _points(row: Any, start: int, shape: Sequence[int]) -> Any:
    """Where along one axis of the input the pixels of a block of the output lie; the block begins at row `start`."""
    total = row[-1]
    for axis, factor in enumerate(row[-2::-1]):
        indices = numpy.arange(shape[axis]) + (start if axis == 0 else 0)
        total = total + (factor * indices).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return total


def places_of(corners: Sequence[Any], shape: Sequence[int], steps: Sequence[int]) -> list[tuple[Any, Any]]:
    """For all steps from corners along each axis, the last varying fastest: flat indices, and which are outside."""
    strides = [math.prod(shape[axis + 1 : -1]) for axis in range(len(corners))]
    axes = [
        [_along(corner + step, extent, stride) for step in steps]
        for corner, extent, stride in zip(corners, shape, strides, strict=False)
    ]
    places = []
    for parts in itertools.product(*axes):
        masks = [outside for _, outside in parts if outside is not None]
        places.append((sum(flat for flat, _ in parts), functools.reduce(numpy.bitwise_or, masks) if masks else None))
    return places


def _along(indices: Any, extent: int, stride: int) -> tuple[Any, Any]:
    """The part of flat indices that indices along one axis add, the nearest for those outside; and which are."""
    if indices.min() >= 0 and indices.max() < extent:
        return indices.astype(numpy.intp) * stride, None
    outside = (indices < 0) | (indices >= extent)
    return numpy.clip(indices, 0, extent - 1).astype(numpy.intp) * stride, outside


def take(pixels: Any, place: tuple[Any, Any], fill: Any) -> Any:
    """The pixels at a place that `places_of` found, those outside replaced by the fill where there is one."""
    flat, outside = place
    values = pixels.take(flat, axis=0, mode="clip")
    if outside is not None and fill is not None:
        values[outside] = fill
    return values


def _opencv_linear(image: Any, matrix: Any, out: Any, fill: Any) -> None:
    """`affine` for two dimensions, linear; the matrix maps indices."""

    def into(source: Any, memory: Any, first: int, how: dict[str, Any]) -> None:
        below = [[x, y, start + y * first] for x, y, start in matrix]
        tiles = list(_tiles(memory.shape, image.shape, below))

        def one(i: int) -> None:
            tile, part, shifted = tiles[i]
            cv2.warpAffine(
                source[part], numpy.array(shifted), memory[tile].shape[1::-1], dst=memory[tile], flags=_LINEAR, **how
            )

        pool.run_pieces(one, len(tiles), source.nbytes + memory.nbytes)

    in_groups(image, out, fill, into)


def in_groups(image: Any, out: Any, fill: Any, into: Into, border: int = cv2.BORDER_REPLICATE) -> None:
    """Interpolate in OpenCV, which does it exactly for one, three or four channels of a few dtypes only.

    Of three channels it reads each value by itself, of four whole pixels: integers get a fourth, in half the time.

    Args:
        image: (H, W, C), of a dtype that `in_float32` allows.
        out: Memory of the same number of channels, of any dtype.
        fill: Pixels outside, for each channel, or None.
        into: Interpolates.
        border: OpenCV's border where there is no fill.
    """
    work = image.dtype if image.dtype == out.dtype and image.dtype in _DIRECT else numpy.dtype("float32")
    planar = image.strides[-1] != image.itemsize
    groups = _groups(image.shape[-1], planar)
    for channels in groups:
        source, target = (image, out) if len(groups) == 1 else (image[..., channels], out[..., channels])
        source, target = _single(source), _single(target)
        if source.dtype != work or not _dense(source):
            source = numpy.ascontiguousarray(source, work)
        value = (0.0,) if fill is None else tuple(map(float, fill[channels].tolist()))
        how = {"borderMode": border if fill is None else cv2.BORDER_CONSTANT, "borderValue": value}
        _interpolated(source, target, into, how)


def _interpolated(source: Any, target: Any, into: Into, how: dict[str, Any]) -> None:
    """Interpolate channels that go together, straight into `target` or some rows at a time."""
    work = source.dtype
    same = target.dtype == work and _dense(target)
    wider = target.shape[2:] == (3,) and work.itemsize < 4 and source.size <= _MOST_WIDENED * target.size
    if same and not wider:
        into(source, target, 0, how)
        return
    source = cv2.cvtColor(source, cv2.COLOR_RGB2RGBA) if wider else source
    inner = (target.shape[1], 4) if wider else target.shape[1:]
    spans = _spans(len(target), min(len(target), max(1, _STRIP // (math.prod(inner) * work.itemsize))))

    def one(i: int) -> None:
        rows = spans[i]
        memory = empty((rows.stop - rows.start, *inner), work)
        into(source, memory, rows.start, how)
        if same:
            cv2.cvtColor(memory, cv2.COLOR_RGBA2RGB, dst=target[rows])
        else:
            convert(numpy, memory[..., :3] if wider else memory, target.dtype, out=target[rows])

    pool.run_pieces(one, len(spans), source.nbytes + target.nbytes)


def copied(image: Any, out: Any, fill: Any, into: Into, border: int = cv2.BORDER_REPLICATE) -> None:
    """Like `in_groups`, for functions that only copy pixels: of every dtype, and of up to `MOST_CHANNELS` channels."""
    source, target = _single(image), _single(out)
    source = source if _dense(source) else numpy.ascontiguousarray(source)
    memory = target if target.dtype == source.dtype and _dense(target) else numpy.empty(target.shape, source.dtype)
    if fill is not None:
        memory[...] = numpy.tile(fill, out.shape[1]).reshape(memory.shape[1:])  # whole rows are fast
    bits = _SAME_SIZE[source.itemsize]  # OpenCV only copies, and knows these types
    into(source.view(bits), memory.view(bits), 0, {"borderMode": border if fill is None else cv2.BORDER_TRANSPARENT})
    if memory is not target:
        convert(numpy, memory, out.dtype, out=target)


def _opencv_nearest(image: Any, matrix: Any, out: Any, fill: Any) -> None:
    """`affine` for two dimensions, nearest, with any number of channels; the matrix maps indices."""

    def into(source: Any, memory: Any, _: int, how: dict[str, Any]) -> None:
        tiles = list(_tiles(out.shape, image.shape, matrix, _POINTS))

        def one(i: int) -> None:
            tile, part, shifted = tiles[i]
            places = _whole_places(shifted, memory[tile].shape[:2], source[part].shape)
            cv2.remap(source[part], places, NO_MAP, cv2.INTER_NEAREST, dst=memory[tile], **how)

        pool.run_pieces(one, len(tiles), source.nbytes + memory.nbytes)

    copied(image, out, fill, into)


def _whole_places(matrix: Any, shape: Sequence[int], source: Sequence[int]) -> Any:
    """The pixels nearest to the points that a matrix finds, (x, y) as int16; far outside of the source they vary."""
    places = numpy.empty((*shape, 2), numpy.int16)
    exact = numpy.empty(shape, numpy.int64)
    for axis, (x, y, start) in enumerate(matrix):
        columns, rows = x * numpy.arange(shape[1]), y * numpy.arange(shape[0]) + (start + 0.5)
        if max(abs(rows[0]), abs(rows[-1])) + abs(columns[-1]) < OPENCV_LIMIT:
            # In integers of 48 digits behind the point the upper 16 are before it.
            down, across = (numpy.rint(each * _FIXED).astype(numpy.int64) for each in (rows, columns))
            places[..., axis] = numpy.add(down[:, None], across, out=exact).view(numpy.int16)[..., _UPPER::4]
        else:
            found = numpy.floor(rows[:, None] + columns)
            places[..., axis] = numpy.clip(found, -1, source[1 - axis], out=found)
    return places


def _tiles(
    shape: Sequence[int], source: Sequence[int], matrix: Any, most: tuple[int, int] = _TILE
) -> Iterator[tuple[Any, Any, Any]]:
    """Tiles of an output, the part of the source that each of them needs, and the matrix between their indices."""
    if max(shape[0], source[0]) <= most[0] and max(shape[1], source[1]) <= most[1]:
        yield _ALL, _ALL, matrix
        return
    (a, b, x), (c, d, y) = matrix
    for rows, columns in itertools.product(*map(_spans, shape[:2], most)):
        top, left = rows.start, columns.start
        right, bottom = columns.stop - left - 1, rows.stop - top - 1
        at_x, at_y = x + (a * left + b * top), y + (c * left + d * top)
        across, down = _read(at_x, a * right, b * bottom, source[1]), _read(at_y, c * right, d * bottom, source[0])
        yield (rows, columns), (down, across), [[a, b, at_x - across.start], [c, d, at_y - down.start]]


def _read(start: float, right: float, bottom: float, extent: int) -> slice:
    """The pixels that a tile reads along one axis: its first one at `start`, its others up to so much further."""
    low, high = start + min(0.0, right) + min(0.0, bottom), start + max(0.0, right) + max(0.0, bottom)
    first = min(max(math.floor(low) - 1, 0), extent - 1)
    return slice(first, min(max(math.floor(high) + 3, first + 1), extent))


@functools.lru_cache(64)
def _groups(channels: int, planar: bool) -> list[slice]:
    """Channels in groups of four, three or one: of two, and of more than four, OpenCV 5 interpolates in 1/32 pixel."""
    groups, start = [], 0
    while start < channels:
        size = 1 if planar else {1: 1, 2: 1, 3: 3}.get(channels - start, 4)
        groups.append(slice(start, start + size))
        start += size
    return groups


def _spans(extent: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, extent)) for start in range(0, extent, step)]


def _single(image: Any) -> Any:
    """An image without the dimension for its channels where there is but one: its stride could be anything."""
    return image[..., 0] if image.shape[2] == 1 else image


def _dense(image: Any) -> bool:
    """Whether OpenCV can use an image's memory as it is: whole pixels side by side, rows in order."""
    pixel = image.itemsize * math.prod(image.shape[2:])
    whole = image.ndim == 2 or image.strides[2] == image.itemsize
    return bool(whole and image.strides[1] == pixel and image.strides[0] >= pixel * image.shape[1])


def quarter_turn(image: Any, turns: int, out: Any) -> None:
    """Rotate a two-dimensional image counter-clockwise by whole quarter turns: pixels only move.

    Args:
        image: (H, W, C).
        turns: Number of quarter turns.
        out: Memory of the rotated image's shape, of any dtype.
    """
    code = (None, cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_CLOCKWISE)[turns % 4]
    source, target = _as_bytes(image), _as_bytes(out)
    if code is None or image.dtype != out.dtype or target is None or source is None or source.shape[2] not in MOVABLE:
        convert(numpy, numpy.rot90(image, turns), out.dtype, out=out)
    else:
        cv2.rotate(source, code, dst=target)


MOVABLE = frozenset((1, 2, 3, 4, 6, 8, 12, 16, 24, 32))  # bytes of a pixel that OpenCV transposes


def flip(image: Any, axes: Sequence[int], out: Any) -> None:
    """Reverse a two-dimensional image along some of its first two axes.

    Args:
        image: (H, W, C).
        axes: 0 to turn it upside down, 1 to swap left and right.
        out: Memory of the same shape and dtype.
    """
    source, target = (_as_bytes(image), _as_bytes(out)) if 1 in axes else (None, None)
    if source is None or target is None:  # without axis 1 whole rows move, which NumPy does as fast
        out[...] = numpy.flip(image, tuple(axes)) if axes else image
    else:
        cv2.flip(source, -1 if 0 in axes else 1, dst=target)


def _as_bytes(image: Any) -> Any:
    """An (H, W, C) array as one of bytes that OpenCV can use, or None where there is no such view."""
    pixel = image.itemsize * image.shape[2]
    if image.flags.c_contiguous and image.strides[1:] == (pixel, image.itemsize) and 0 < pixel <= MOST_CHANNELS:
        return image.view(numpy.uint8)
    image = _single(image)
    if not image.size or not _dense(image) or pixel > MOST_CHANNELS:
        return None
    return image.view(numpy.uint8).reshape(*image.shape[:2], pixel)
