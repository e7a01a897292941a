"""Images at other sizes, with cykooz-resizer, or with OpenCV where a linear filter does not widen.

With bytes both compute in integers, and the first pass of cykooz-resizer rounds to bytes too; with others in float32.
Nothing here needs cykooz-resizer to be installed: images that only it would resize are left to the caller.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.dtypes import convert

from . import resizer, warp

__all__ = ["Along", "Window", "Windows", "are_small", "resized_at_once", "scale", "show", "windows"]

_BAND = 1 << 20  # bytes of an image that are resized at once
_LEAST = 1e-3  # pixels; of a window without extent the library makes nothing at all
_SHRUNK = 2.0  # times as many rows as those of the result, from which on to make these first pays
_MOST_PADDING = 4096  # pixels; a window farther outside of the image is computed the general way


class Along(NamedTuple):
    """The resampling along one dimension: the part that is shown, and the filter."""

    start: float
    end: float  #: less than `start` to mirror
    filter: str  #: "nn", "linear", "cubic", "lanczos3" or "gaussian"
    antialias: bool  #: whether the filter widens where the result is smaller
    running: bool = False  #: whether "nn" finds each place from the one before, adding up errors as DALI does for rows

    def scale(self, size: int) -> float:
        """How many pixels of the input are one of the result."""
        return abs(self.end - self.start) / size

    @property
    def turn(self) -> int:
        """-1 where it is mirrored."""
        return -1 if self.end < self.start else 1


def scale(image: Array, steps: dict[int, Along], out: Array) -> bool:
    """Resize images with few channels, of bytes or with a linear filter, and say whether they are such.

    Args:
        image: Any array that has pixels, of a dtype whose digits float32 has.
        steps: The resampling along dimensions, by their numbers.
        out: Memory for the result.
    """
    if not out.flags.c_contiguous:
        return False
    way = _way(tuple(steps.items()), image.shape, out.shape, image.dtype == out.dtype == numpy.uint8)
    if way is None:
        return False
    resize, both, first = way
    if image.ndim == 3 and not first:
        return resize(image, both, out)
    frames, results = (
        array.reshape(-1, *array.shape[first : first + 2], math.prod(array.shape[first + 2 :]))
        for array in (image, out)
    )
    return all(resize(frame, both, result) for frame, result in zip(frames, results, strict=True))


class _Way(NamedTuple):
    """A way of resizing images."""

    resize: Callable[[Array, Sequence[Along], Array], bool]  #: one image (H, W, C); it says whether it could
    both: tuple[Along, Along]  #: the resampling of rows and columns
    first: int  #: the dimension of the rows, which that of the columns follows


@functools.lru_cache(256)  # images of a batch are often alike
def _way(
    steps: tuple[tuple[int, Along], ...], shape: tuple[int, ...], made: tuple[int, ...], of_bytes: bool
) -> _Way | None:
    """A way of resizing images so, if there is one."""
    known = dict(steps)
    first = min(known) if len(known) > 1 else max(0, max(known) - 1)
    channels = math.prod(shape[first + 2 :])
    if max(known) > first + 1 or len(shape) < first + 2 or channels not in resizer.CHANNELS:
        return None
    name, *others = {step.filter for step in known.values()}
    if others or name not in resizer.FILTERS or any(abs(step.end - step.start) < _LEAST for step in known.values()):
        return None
    extents, sizes = shape[first : first + 2], made[first : first + 2]
    down, across = (known.get(axis) or Along(0, shape[axis], name, antialias=False) for axis in (first, first + 1))
    both, linear = (down, across), name == "linear"
    enlarged = [step.scale(size) <= 1 for step, size in zip(both, sizes, strict=True)]
    narrow = all(larger or not step.antialias for step, larger in zip(both, enlarged, strict=True))
    whole = all({step.start, step.end} == {0, extent} for step, extent in zip(both, extents, strict=True))
    if linear and narrow and whole and max(extents + sizes) < warp.OPENCV_LIMIT:
        return _Way(_of_opencv, both, first)
    widened = all(larger or step.antialias for step, larger in zip(both, enlarged, strict=True))
    if linear and narrow and not (of_bytes and widened):
        return _Way(_bilinear, both, first)
    wanted = widened and (linear or of_bytes)
    return _Way(_resized, both, first) if wanted and resizer.is_installed() else None


def _of_opencv(frame: Array, steps: Sequence[Along], out: Array) -> bool:
    """Resize one whole image (H, W, C) with a filter that does not widen: OpenCV is the fastest there."""
    down, across, size = steps[0].turn, steps[1].turn, out.shape[1::-1]
    if not frame.dtype == out.dtype == numpy.uint8:
        frame = frame.astype(numpy.float32, copy=False)
    if down == across == 1 and frame.dtype == out.dtype:
        cv2.resize(frame, size, dst=out, interpolation=cv2.INTER_LINEAR)
        return True
    found = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR).reshape(out.shape)[::down, ::across]
    convert(numpy, found, out.dtype, out=out)
    return True


def _bilinear(frame: Array, steps: Sequence[Along], out: Array) -> bool:
    """Resize one image (H, W, C) with a filter that does not widen, which cykooz-resizer has not."""
    (top, bottom), (left, right) = (step[:2] for step in steps)
    height, width = out.shape[:2]
    warp.affine(frame, [[(right - left) / width, 0, left], [0, (bottom - top) / height, top]], out)
    return True


def _resized(frame: Array, steps: Sequence[Along], out: Array) -> bool:
    """Resize one image (H, W, C), unless too much of the window is outside."""
    mirrored = steps[0].turn < 0, steps[1].turn < 0
    out = out[::-1] if mirrored[0] else out
    window = _window(*steps, frame.shape, out.shape)
    if window is not None:
        show(frame, window, out, mirrored=mirrored[1])
        return True
    if steps[0].filter != "linear" or not frame.dtype == out.dtype == numpy.uint8:
        return False  # to convert bands of a large image takes longer than products of matrices
    pieces = _pieces(*steps, frame.shape, out.shape)
    if pieces is None:
        return False
    shown = [[(*_needed(frame, one.window), *one.target(out, mirrored[1])) for one in some] for some in pieces]
    if resizer.is_native() and all(map(resizer.show_natively, shown)):
        return True
    down, across = (_Axis.of(step, *sizes) for step, *sizes in zip(steps, out.shape, frame.shape, strict=False))
    if down.scale >= _SHRUNK:
        _rows_first(frame, down, across, out, mirrored=mirrored[1])
        return True
    for some in shown:

        def one(i: int, some: Sequence[resizer.Shown] = some) -> None:
            part, padding, box, target, mirror = some[i]
            resizer.show(part, padding, box, "linear", target, mirrored=mirror)

        pool.run_pieces(one, len(some), 2 * frame.nbytes)
    return True


@functools.lru_cache(256)
def _window(vertical: Along, horizontal: Along, shape: tuple[int, ...], made: tuple[int, ...]) -> Window | None:
    """The window that resizes an image at once, unless it is too large or too far outside."""
    down, across = _Axis.of(vertical, made[0], shape[0]), _Axis.of(horizontal, made[1], shape[1])
    lines, columns = down.part(), across.part()
    if max(lines.padding + columns.padding) > _MOST_PADDING or _rows(down, across, shape[2]) < down.size:
        return None
    box = columns.start, lines.start, across.scale * across.size, down.scale * down.size
    return Window((*lines.inside, *columns.inside), (*lines.padding, *columns.padding), box, down.filter)


def _rows(down: _Axis, across: _Axis, channels: int) -> int:
    """How many rows of a result to make at once."""
    return max(8, int(_BAND / (across.size * across.scale * channels) / down.scale))


class _Piece(NamedTuple):
    """A part of the result of a large image, which is made by itself."""

    rows: slice
    columns: slice | None  #: None where it has them all
    window: Window

    def target(self, out: Array, mirrored: bool) -> tuple[Array, bool]:
        """Its memory, and whether it is mirrored there."""
        rows = out[self.rows]
        if self.columns is None:
            return rows, mirrored
        return (rows[:, ::-1] if mirrored else rows)[:, self.columns], False


@functools.lru_cache(64)
def _pieces(
    vertical: Along, horizontal: Along, shape: tuple[int, ...], made: tuple[int, ...]
) -> tuple[list[_Piece], list[_Piece]] | None:
    """The pieces of a large image of bytes, and those at its edges, which lie over them; None too far outside."""
    down, across = _Axis.of(vertical, made[0], shape[0]), _Axis.of(horizontal, made[1], shape[1])
    inside = across.low >= 0 and across.low + across.scale * across.size <= across.extent
    columns = across.part()
    if (not inside and max(columns.padding) > _MOST_PADDING) or max(down.part().padding) > _MOST_PADDING:
        return None
    if down.scale >= _SHRUNK:
        bands = _bands(down, _few_rows(down, columns, shape[2]))
        parts = [(start + first, band.some(first, last)) for start, band in bands for first, last in band.sections()]
        return [_piece(start, part, across, columns) for start, part in parts], []
    rows = -(-down.size // -(-down.size // _rows(down, across, shape[2])))
    before, after = across.edges() if inside else (across.size, 0)
    # To copy a large image with a few more columns takes as long as to resize it.
    padded = before + after >= across.size
    most = [_piece(start, band, across, columns, padded=padded) for start, band in _bands(down, rows)]
    edges = [] if padded else [(0, before), (across.size - after, across.size)]
    sides = [(across.some(*ends), slice(*ends)) for ends in edges if ends[0] < ends[1]]
    return most, [_piece(0, down, some, some.part(), place) for some, place in sides]


def _piece(
    start: int, down: _Axis, across: _Axis, columns: _Part, place: slice | None = None, *, padded: bool = True
) -> _Piece:
    """A piece from row `start` on, with pixels beyond the left and right edges or without them."""
    lines = down.part()
    sides, left = (columns.padding, columns.start) if padded else ((0, 0), columns.start - columns.padding[0])
    (first, last), width = columns.inside, across.scale * across.size
    width = min(width, last - first + sum(sides) - left)  # it may have been rounded up beyond the last column
    box = left, lines.start, width, down.scale * down.size
    window = Window((*lines.inside, *columns.inside), (*lines.padding, *sides), box)
    return _Piece(slice(start, start + down.size), place, window)


def _bands(down: _Axis, rows: int) -> Iterator[tuple[int, _Axis]]:
    """Bands of so many rows, and where they begin."""
    for start in range(0, down.size, rows):
        yield start, down.some(start, min(start + rows, down.size))


def _few_rows(down: _Axis, columns: _Part, channels: int) -> int:
    """The number of rows of a band that is made of many."""
    most = max(1.0, down.scale / 4)  # so that threads share strong reductions too
    first, last = columns.inside
    return -(-down.size // math.ceil(down.size * (last - first) * channels * most / _BAND))


def _rows_first(frame: Array, down: _Axis, across: _Axis, out: Array, *, mirrored: bool) -> None:
    """Resize one image in the two steps of cykooz-resizer: few rows are made of many, and then the columns of these."""
    columns = across.part()
    (left, right), sides, start = columns
    bands = list(_bands(down, _few_rows(down, columns, frame.shape[2])))

    def one(i: int) -> None:
        row, band = bands[i]
        between = empty((band.size, right - left, frame.shape[2]), frame.dtype)
        for first, last in band.sections():
            _lines(frame, band.some(first, last), (left, right), between[first:last])
        box = start, 0.0, across.scale * across.size, float(band.size)
        resizer.show(between, (0, 0, *sides), box, "linear", out[row:][: band.size], mirrored=mirrored)

    pool.run_pieces(one, len(bands), 2 * frame.nbytes)


def _lines(frame: Array, down: _Axis, columns: tuple[int, int], out: Array) -> None:
    """Resize some columns of an image along its rows alone."""
    part = down.part()
    lines = frame[slice(*part.inside)]
    if any(part.padding):
        lines = cv2.copyMakeBorder(lines[:, slice(*columns)], *part.padding, 0, 0, cv2.BORDER_REPLICATE)
        lines, columns = lines.reshape(-1, *out.shape[1:]), (0, out.shape[1])
    resizer.rows(lines, columns, part.start, down.scale * down.size, out)


class Window(NamedTuple):
    """A part of an image, and which pixels a filter needs to show it."""

    inside: Sequence[int]  #: the first row and the one after the last, and the same for the columns
    padding: Sequence[int]  #: more pixels, which are as those at the edges: above, below, left, right
    box: Sequence[float]  #: where the part lies in all these: left, upper edge, width, height
    filter: str = "linear"


class Windows(NamedTuple):
    """Windows of many images, in columns."""

    parts: Array  #: (n, 8): `inside` and `padding` of each
    boxes: Array  #: (n, 4)

    def each(self) -> list[Window]:
        """One for each image."""
        rows = zip(self.parts.tolist(), self.boxes.tolist(), strict=True)
        return [Window(part[:4], part[4:], box) for part, box in rows]

    def take(self, places: Array) -> Windows:
        """Those of some images."""
        return Windows(self.parts[places], self.boxes[places])


def windows(extents: Array, low: Array, lengths: Array, scales: Array) -> Windows:
    """Parts of images that are to be shown with a linear filter that widens: as `_Axis.part` finds them.

    Args:
        extents: Heights and widths of the images, of shape (n, 2).
        low: Where the parts begin (y, x), the same.
        lengths: Their heights and widths, the same.
        scales: How many pixels of an image are one of its result, the same.
    """
    reach = numpy.maximum(scales, 1) + 0.5 - scales / 2
    first, last = numpy.floor(low - reach).astype(numpy.int64), numpy.ceil(low + lengths + reach).astype(numpy.int64)
    parts, boxes = numpy.empty((len(first), 8), numpy.int64), numpy.empty((len(first), 4))
    parts[:, :4:2], parts[:, 1:4:2] = numpy.minimum(numpy.maximum(first, 0), extents - 1), numpy.minimum(last, extents)
    numpy.maximum(parts[:, 1:4:2], 1, out=parts[:, 1:4:2])
    numpy.maximum(parts[:, :4:2] - first, 0, out=parts[:, 4::2])
    numpy.maximum(last - parts[:, 1:4:2], 0, out=parts[:, 5::2])
    boxes[:, 1::-1], boxes[:, :1:-1] = low - parts[:, :4:2] + parts[:, 4::2], lengths
    return Windows(parts, boxes)


def are_small(channels: Array, shapes: Array, scales: Array) -> Array:
    """Which windows of images of bytes are shown at one size at once.

    Args:
        channels: Those of the images, of shape (n,).
        shapes: Heights and widths of the windows, of shape (n, 2).
        scales: How many of their pixels are one of the result, the same.
    """
    small: Array = numpy.multiply(*shapes.T, dtype=numpy.int64) <= _BAND // max(resizer.CHANNELS)
    small &= numpy.maximum(*scales.T) <= 2 * _MOST_PADDING - 1
    small &= (channels >= 1) & (channels <= max(resizer.CHANNELS))
    return small


def resized_at_once(
    extents: Array, channels: Array, sizes: Array, starts: Array, ends: Array
) -> tuple[Windows, Array] | None:
    """Windows of images of bytes that `scale` would resize at once with a linear filter that widens.

    Args:
        extents: Heights and widths of the images, of shape (n, 2).
        channels: Of shape (n,).
        sizes: Heights and widths of the results, of shape (n, 2).
        starts: Where in the images they start.
        ends: Where they end, less than the start to mirror.

    Returns:
        The windows, and which of them are such, of shape (n,). None where none is.
    """
    low, high, lengths = numpy.minimum(starts, ends), numpy.maximum(starts, ends), abs(ends - starts)
    scales = lengths / sizes
    same = ((sizes == extents) & (starts == 0) & (ends == extents)).all(axis=1)
    by_opencv = ((scales <= 1) & (low == 0) & (high == extents) & (extents < warp.OPENCV_LIMIT)).all(axis=1)
    by_opencv &= (sizes < warp.OPENCV_LIMIT).all(axis=1)
    rows = numpy.trunc(_BAND / (sizes[:, 1] * scales[:, 1] * channels) / scales[:, 0])
    large = numpy.maximum(rows, 8) < sizes[:, 0]
    taken: Array = (channels >= 1) & (channels <= max(resizer.CHANNELS)) & (lengths >= _LEAST).all(axis=1)
    taken &= ~(same | by_opencv | large)
    if not taken.any():
        return None
    found = windows(extents, low, scales * sizes, scales)
    return found, taken & (found.parts[:, 4:].max(axis=1) <= _MOST_PADDING)


def show(image: Array, window: Window, out: Array, *, mirrored: bool = False) -> None:
    """Fill `out` with a part of an image (H, W, C) of bytes."""
    resizer.show(*_needed(image, window), window.filter, out, mirrored=mirrored)


def _needed(image: Array, window: Window) -> tuple[Array, Sequence[int], Sequence[float]]:
    """The pixels of an image that a window needs, how many more, and where it lies in all these."""
    top, bottom, left, right = window.inside
    return image[top:bottom, left:right], window.padding, window.box


class _Axis(NamedTuple):
    """One dimension of an image and of its result."""

    low: float  #: where the result begins
    scale: float  #: how many pixels of the image are one of the result
    size: int
    extent: int
    filter: str

    @staticmethod
    def of(step: Along, size: int, extent: int) -> _Axis:
        """The axis of a step."""
        return _Axis(min(step.start, step.end), step.scale(size), size, extent, step.filter)

    def some(self, first: int, last: int) -> _Axis:
        """A part of the result."""
        return self._replace(low=self.low + self.scale * first, size=last - first)

    @property
    def reach(self) -> float:
        """How many pixels from its middle the filter ends."""
        return resizer.FILTERS[self.filter] * max(self.scale, 1.0)

    def part(self) -> _Part:
        """The pixels of the image that are needed."""
        low, scale, size, extent, _ = self
        reach = self.reach + 0.5 - scale / 2
        first, last = math.floor(low - reach), math.ceil(low + scale * size + reach)
        if first >= 0 and last <= extent and first < extent and last > 0:
            return _Part((first, last), (0, 0), low - first)
        start, stop = min(max(first, 0), extent - 1), max(min(last, extent), 1)
        before, after = start - first if first < 0 else 0, last - stop if last > extent else 0
        return _Part((start, stop), (before, after), low - start + before)

    def sections(self) -> Iterator[tuple[int, int]]:
        """Parts of the result: the two ends, which need pixels outside of the image, and the middle."""
        head, tail = self.edges()
        ends = {0, head, self.size - tail, self.size} if head + tail < self.size else {0, self.size}
        return itertools.pairwise(sorted(ends))

    def edges(self) -> tuple[int, int]:
        """How many pixels of the result, at its start and at its end, need pixels outside of the image."""
        reach = self.reach - 0.5
        rooms = self.low, self.extent - self.low - self.scale * self.size
        before, after = (max(0, math.ceil((reach - room) / self.scale - 0.5)) for room in rooms)
        return before, after


class _Part(NamedTuple):
    """Which pixels along one dimension a filter needs to show a window."""

    inside: tuple[int, int]  #: the first one and the one after the last
    padding: tuple[int, int]  #: how many more it needs before and after, which are as those at the edges
    start: float  #: where the window starts in all of these
