"""Resizing of one array of any number of dimensions, with DALI's filters: each dimension by itself, one after another.

Of n pixels that show the input from `start` to `end`, pixel i has its centre at start + (i + 0.5) * (end - start) / n.
It is the weighted mean of the input's pixels around there; those beyond the edges are as the pixels at the edges. The
filters are DALI's: tables of values with straight lines between them, and places in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import keep_blocks
from dynamic.dtypes import convert

from . import warp
from .digits import above, exact_level, in_float32, raised
from .scaled import Along, scale

__all__ = ["filter_values", "product", "resample", "spacing"]

_PRODUCTS = 1 << 18  # of one product of matrices: with more OpenBLAS starts threads of its own
_MOST_PLACES = 1 << 18  # pixels of a result whose places are kept
_FEW = 8
_SHORT = 256  # pixels; many dimensions of so many may be remembered
_KEPT = 1 << 21  # bytes of the weights of one dimension; larger ones are found in parts and not remembered
_OF_TAP = 12  # bytes: an index, and a weight
_ROW = 64  # numbers; the trailing dimensions of an array that are worth products of their own


def resample(image: Array, along: Sequence[Along | None], out: Array) -> None:
    """Fill `out` with a resized image, rounded and saturated to its dtype.

    Args:
        image: Any array that has pixels.
        along: The resampling along each dimension; None for none.
        out: Memory for the result, of the sizes that are wanted, of any dtype.
    """
    if not out.size:
        return
    keep_blocks()
    if _nearest_at_once(image, along, out):
        return
    steps: dict[int, Along] = {}
    for axis, step in enumerate(along):
        if step is None or _is_identity(step, image.shape[axis], out.shape[axis]):
            continue
        if step.filter == "nn":
            image = _nearest(image, axis, step, out.shape[axis])
        else:
            steps[axis] = step
    if not steps:
        convert(numpy, image, out.dtype, out=out)
    elif not _is_narrow(image, out) or not scale(image, steps, out):
        _general(image, steps, out)


def _is_narrow(image: Array, out: Array) -> bool:
    """Whether float32 has the digits of an image and its result."""
    return in_float32(image.dtype) and out.dtype != numpy.float64


def _is_identity(step: Along, extent: int, size: int) -> bool:
    return size == extent and (step.start, step.end) == (0, extent) and step.filter != "gaussian"


def _nearest_at_once(image: Array, along: Sequence[Along | None], out: Array) -> bool:
    """Take the nearest pixels in both dimensions of an image at once, as OpenCV can where pixels are of few bytes."""
    if not 2 <= image.ndim <= 3 or image.dtype != out.dtype or not out.flags.c_contiguous or any(along[2:]):
        return False
    rows, columns = along[:2]
    if rows is None or columns is None or not rows.filter == columns.filter == "nn":
        return False
    width = math.prod(image.shape[2:]) * image.itemsize
    if width not in warp.MOVABLE or image.strides[2:] not in ((), (image.itemsize,)):
        return False
    parts = _as_opencv(rows, image.shape[0], out.shape[0]), _as_opencv(columns, image.shape[1], out.shape[1])
    source, target = image, out
    if image.ndim < 3 or image.dtype != numpy.uint8:  # else they are bytes, channels last
        source, target = (x.reshape(*x.shape[:2], -1).view(numpy.uint8) for x in (image, out))
    if None not in parts:
        cv2.resize(source[parts], out.shape[1::-1], dst=target, interpolation=cv2.INTER_NEAREST_EXACT)
        return True
    if max(image.shape[:2]) >= warp.OPENCV_LIMIT or math.prod(out.shape[:2]) > _MOST_PLACES:
        return False
    places = _places(rows, columns, image.shape[:2], out.shape[:2])
    cv2.remap(source, places, warp.NO_MAP, cv2.INTER_NEAREST, dst=target)
    return True


@functools.lru_cache(8)
def _places(down: Along, across: Along, extents: tuple[int, int], sizes: tuple[int, int]) -> Array:
    """The nearest pixel of each pixel of a result, (x, y) as int16."""
    places = numpy.empty((*sizes, 2), numpy.int16)
    places[..., 0] = _nearest_places(across, extents[1], sizes[1])
    places[..., 1] = _nearest_places(down, extents[0], sizes[0])[:, None]
    places.flags.writeable = False
    return places


@functools.lru_cache(256)
def _as_opencv(step: Along, extent: int, size: int) -> slice | None:
    """The part of a dimension in which OpenCV finds the nearest pixels where we do, if there is one.

    OpenCV says where: it is given numbers instead of pixels. Ours are DALI's, with its errors of rounding.
    """
    if min(extent, step.end) <= max(0, step.start):
        return None
    part = slice(max(0, math.floor(step.start)), min(extent, math.ceil(step.end)))
    numbers = numpy.arange(part.start, part.stop, dtype=numpy.int32)[None]
    found = cv2.resize(numbers, (size, 1), interpolation=cv2.INTER_NEAREST_EXACT)[0]
    return part if numpy.array_equal(found, _nearest_places(step, extent, size)) else None


def _nearest(image: Array, axis: int, step: Along, size: int) -> Array:
    """The pixels that the centres of the result's pixels lie in."""
    indices = _nearest_places(step, image.shape[axis], size)
    inner = math.prod(image.shape[axis + 1 :])
    if not 1 < inner <= _FEW:
        return image.take(indices, axis=axis)
    # NumPy moves rows much faster than a few numbers at a time.
    columns = _swapped(image.reshape(-1, image.shape[axis], inner)).take(indices, axis=0)
    return _swapped(columns).reshape(*image.shape[:axis], size, *image.shape[axis + 1 :])


def _nearest_places(step: Along, extent: int, size: int) -> Array:
    """Which pixels those are, reckoned in float32."""
    scale = (numpy.float32(step.end) - numpy.float32(step.start)) / numpy.float32(size)
    half = numpy.float32(0.5)
    if step.running:
        places = numpy.full(size, scale)
        places[0] = numpy.float32(step.start) + half * scale
        numpy.add.accumulate(places, out=places)
    else:
        places = numpy.float32(step.start) + (numpy.arange(size, dtype=numpy.float32) + half) * scale
    return numpy.clip(numpy.floor(places), 0, extent - 1).astype(numpy.intp)


# Everything else: each dimension is a product with a matrix whose few numbers lie along its diagonal.


def _general(image: Array, steps: dict[int, Along], out: Array) -> None:
    """Resize along some dimensions, in float32, or in float64 where that has not the digits."""
    real = numpy.dtype(numpy.float32 if _is_narrow(image, out) else numpy.float64)
    taps = {}
    for axis, step in steps.items():
        taps[axis] = _taps(step, image.shape[axis], out.shape[axis])
        image = image[(slice(None),) * axis + (taps[axis].pixels,)]
    if not _in_order(image):  # products of matrices add up in an order that depends on that of memory
        image = numpy.ascontiguousarray(image)
    if out.dtype == real and image.itemsize < real.itemsize:
        image = image.astype(real)
    base = exact_level(image)
    image = image if base is None else above(image, base)
    along = _multiplied if image.dtype.kind != "f" or numpy.isfinite(image).all() else _summed
    for axis in sorted(steps, key=lambda axis: out.shape[axis] / image.shape[axis]):
        size = out.shape[axis]
        outer, inner = math.prod(image.shape[:axis]), math.prod(image.shape[axis + 1 :])
        shape = (*image.shape[:axis], size, *image.shape[axis + 1 :])
        image = along(image.reshape(outer, image.shape[axis], inner), taps[axis], real).reshape(shape)
    if base is None and out.dtype.kind == "u" and out.itemsize <= 2 and along is _multiplied:
        _rounded(image, out)
    else:
        raised(image, base, out)


def _in_order(image: Array) -> bool:
    """Whether the elements of the last dimension are side by side, and those of each other one farther apart."""
    strides = [stride for stride, extent in zip(image.strides, image.shape, strict=True) if extent > 1]
    return not strides or (strides[-1] == image.itemsize and strides == sorted(strides, reverse=True))


def _rounded(values: Array, out: Array) -> None:
    """Round finite numbers to small unsigned integers; `values` is used up."""
    values += values.dtype.type(0.5)
    out[...] = numpy.clip(values, 0, numpy.iinfo(out.dtype).max, out=values)


def _multiplied(image: Array, taps: _Taps, real: numpy.dtype[Any]) -> Array:
    """The second of three dimensions resized, by products of matrices."""
    outer, _, inner = image.shape
    if inner == 1:
        result = numpy.empty((outer, taps.size), real)
        for matrix in taps.matrices(real):
            product(matrix, image[..., 0].T, result.T)
        return result[..., None]
    if outer == 1 or inner >= _ROW:
        result = numpy.empty((outer, taps.size, inner), real)
        for matrix in taps.matrices(real):
            for source, target in zip(image, result, strict=True):
                product(matrix, source, target)
        return result
    swapped = _swapped(image).reshape(-1, outer * inner)
    result = numpy.empty((taps.size, outer * inner), real)
    for matrix in taps.matrices(real):
        product(matrix, swapped, result)
    return _swapped(result.reshape(taps.size, outer, inner))


def _swapped(image: Array) -> Array:
    """A copy with the first two of three dimensions swapped."""
    if image.shape[2] * image.itemsize in warp.MOVABLE and image.size:
        image = numpy.ascontiguousarray(image)
        return (
            cv2.transpose(image.view(numpy.uint8))
            .view(image.dtype)
            .reshape(image.shape[1], image.shape[0], image.shape[2])
        )
    return numpy.ascontiguousarray(image.swapaxes(0, 1))


#: The rows of a matrix in blocks: the rows, the columns that are not 0 in all of them, and these.
_Matrix: TypeAlias = "list[tuple[slice, slice, Array]]"
#: For some pixels of a result those of the input that each of them is made of, and their weights.
_Found: TypeAlias = "tuple[Array, Array]"


class _Taps:
    """The pixels of an input that each pixel of a result is made of, along one dimension.

    Weights are remembered where they have few bytes. Of longer dimensions some pixels of the result are found at a
    time, each time anew.

    Args:
        step: The resampling along the dimension.
        extent: Of the input.
        size: Of the result.
    """

    def __init__(self, step: Along, extent: int, size: int) -> None:
        one = numpy.float32
        self.size, self._extent = size, extent
        self._table = numpy.append(filter_values(step.filter), numpy.zeros(2, one))
        self._place = spacing(step.filter, one(step.start), one(step.end), one(size), step.antialias)
        self._count = math.ceil(one(len(self._table) - 3) / self._place[2])
        ends = self._first(numpy.array([0, size - 1], one))[1].astype(int).tolist()
        low, high = (min(max(end, 0), extent - 1) for end in (min(ends), max(ends) + self._count - 1))
        self.pixels = slice(low, high + 1)  #: the pixels of the input that are needed
        read = high + 1 - low
        self._rows = int(min(32, max(8, 32 * size / read)))  # of a block of a matrix
        work = size * (_OF_TAP * self._count + 4 * (self._rows * read // size + self._count))
        most = size if work <= _KEPT else max(1, size * _KEPT // (work * self._rows)) * self._rows
        self._parts = [slice(start, min(start + most, size)) for start in range(0, size, most)]
        self._matrices: dict[numpy.dtype[Any], _Matrix] = {}

    def matrices(self, real: numpy.dtype[Any]) -> Iterator[_Matrix]:
        """The weights of a column of these pixels, some blocks of rows at a time."""
        if len(self._parts) > 1:
            yield from (self._made(real, part) for part in self._parts)
            return
        if real not in self._matrices:
            self._matrices[real] = self._made(real, self._parts[0])
        yield self._matrices[real]

    def parts(self, real: numpy.dtype[Any]) -> Iterator[tuple[slice, _Found]]:
        """Parts of the result, and the pixels that they need, counted from the first."""
        return ((part, self._found(part, real)) for part in self._parts)

    def _made(self, real: numpy.dtype[Any], part: slice) -> _Matrix:
        (indices, weights), rows = self._found(part, real), self._rows
        size, begin = len(indices), part.start
        starts = numpy.arange(0, size, rows)
        low = numpy.minimum.reduceat(indices.min(axis=1), starts)
        width = numpy.maximum.reduceat(indices.max(axis=1), starts) + 1 - low
        most = int(width.max())
        flat = (indices - low.repeat(rows)[:size, None] + numpy.arange(size)[:, None] * most).reshape(-1)
        full = numpy.bincount(flat, weights.reshape(-1), size * most).reshape(size, most).astype(real)
        return [
            (slice(begin + i, begin + i + rows), slice(first, first + extent), full[i : i + rows, :extent])
            for i, first, extent in zip(starts.tolist(), low.tolist(), width.tolist(), strict=True)
        ]

    def _found(self, part: slice, real: numpy.dtype[Any]) -> _Found:
        """Indices and weights; the weights of a pixel sum up to 1, as far as a type of floats can tell."""
        one, resolution, last = numpy.float32, self._place[2], len(self._table) - 3
        places, first = self._first(numpy.arange(part.start, part.stop, dtype=one))
        count = numpy.arange(self._count)
        at = ((first - places)[:, None] + count.astype(one)) * resolution
        below = numpy.floor(at).astype(numpy.intp)
        low, high = self._table[numpy.minimum(below, last + 1)], self._table[numpy.minimum(below + 1, last + 1)]
        weights = (low + (at - below.astype(one)) * (high - low)).astype(real, copy=False)
        total = weights.sum(axis=1, keepdims=True)
        weights /= numpy.where(total == 0, real.type(1), total)
        indices = numpy.clip(first.astype(numpy.intp)[:, None] + count, 0, self._extent - 1)
        return indices - self.pixels.start, weights

    def _first(self, pixels: Array) -> _Found:
        """Where in the input pixels of the result begin, and the first pixels behind that."""
        begin, scale, _ = self._place
        places = pixels * scale + begin
        return places, numpy.ceil(places)


@numpy.errstate(all="ignore")  # BLAS also computes with the memory beside small matrices, and NumPy warns of that
def product(matrix: Sequence[tuple[slice, slice, Array]], source: Array, target: Array) -> None:
    """`target` = `matrix` @ `source`, in pieces that stay in the cache: many in one call, without Python's lock."""
    for rows, columns, block in matrix:
        part, result = source[columns].astype(target.dtype, copy=False), target[rows]
        step = max(16, _PRODUCTS // block.size // 16 * 16)
        whole = part.shape[1] // step * step
        if whole:
            numpy.matmul(block, _pieces(part[:, :whole], step), out=_pieces(result[:, :whole], step))
        if whole < part.shape[1]:
            numpy.matmul(block, part[:, whole:], out=result[:, whole:])


def _pieces(matrix: Array, step: int) -> Array:
    """A view of so many columns at a time."""
    return matrix.reshape(len(matrix), -1, step).swapaxes(0, 1)


def _summed(image: Array, taps: _Taps, real: numpy.dtype[Any]) -> Array:
    """The second of three dimensions resized, tap by tap: infinities and NaN reach no farther than the filter."""
    total = numpy.zeros((len(image), taps.size, image.shape[2]), real)
    with numpy.errstate(invalid="ignore", over="ignore"):
        for part, (indices, weights) in taps.parts(real):
            for index, weight in zip(indices.T, weights.T, strict=True):
                total[:, part] += image.take(index, axis=1) * weight[:, None]
    return total


def _taps(step: Along, extent: int, size: int) -> _Taps:
    """For each pixel of the result the pixels of the input that it is made of, and their weights."""
    return (_few_taps if max(extent, size) <= _SHORT else _many_taps)(step, extent, size)


_many_taps, _few_taps = functools.lru_cache(16)(_Taps), functools.lru_cache(256)(_Taps)


def spacing(filter: str, start: Any, end: Any, size: Any, antialias: Any) -> tuple[Any, Any, Any]:
    """Where the pixels lie that a filter reads, in float32: for one image, or for many by arrays.

    Args:
        filter: Its name.
        start: As in `Along`, a float32.
        end: The same.
        size: Of the result, a float32.
        antialias: As in `Along`.

    Returns:
        Where the filter of pixel 0 begins, how far apart the pixels are, and how many values of the filter lie between
        two pixels of the input.
    """
    one = numpy.float32
    width, last = end - start, one(len(filter_values(filter)) - 1)
    wider = numpy.where(
        numpy.logical_and(antialias, abs(width) > size), abs(width) / numpy.maximum(size, one(1)), one(1)
    )
    resolution = last / numpy.maximum(one(1), _diameter(filter, wider))
    scale, anchor = width / numpy.maximum(size, one(1)), last * one(0.5) / resolution
    return start + (one(0.5) * scale - one(0.5) - anchor), scale, resolution


def _diameter(filter: str, wider: Any) -> Any:
    """How many pixels a filter covers, in float32."""
    if filter == "gaussian":  # twice the width, but DALI takes this way, and rounds on it
        wide = numpy.asarray(wider, numpy.float64) * 0.5 / math.sqrt(2)
        return numpy.float32(4 * math.sqrt(2)) * wide.astype(numpy.float32)
    return numpy.float32({"linear": 2, "cubic": 4, "lanczos3": 6}[filter]) * wider


@functools.cache
def filter_values(filter: str) -> Array:
    """The values of a filter from one end to the other, evenly spaced."""
    if filter == "linear":
        return numpy.array([0, 1, 0], numpy.float32)
    if filter == "gaussian":
        return numpy.exp(-(numpy.linspace(-2, 2, 65) ** 2)).astype(numpy.float32)
    if filter == "lanczos3":
        x = numpy.linspace(-3, 3, 193)
        return (numpy.sinc(x) * numpy.sinc(x / 3)).astype(numpy.float32)
    x = abs(numpy.linspace(-2, 2, 129))
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return numpy.where(x < 1, near, far).astype(numpy.float32)
