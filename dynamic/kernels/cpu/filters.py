"""Filters: a pixel of the result depends on the window around it.

An image here has its spatial dimensions first, one to three of them, and its channels last, as `planes` gives it.
Arithmetic is in float32, or in float64 where the input or the result has more than 24 bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.dtypes import convert

from .digits import in_float32
from .warp import MOST_CHANNELS

__all__ = ["correlated", "extremes", "laplacian", "medians", "planes", "real_of", "separable", "stored"]

_DEPTHS = {
    numpy.dtype("uint8"): cv2.CV_8U,
    numpy.dtype("int8"): cv2.CV_8S,
    numpy.dtype("uint16"): cv2.CV_16U,
    numpy.dtype("int16"): cv2.CV_16S,
    numpy.dtype("int32"): cv2.CV_32S,
    numpy.dtype("float32"): cv2.CV_32F,
    numpy.dtype("float64"): cv2.CV_64F,
}
_FILTERED = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32", "float64")))  # types that OpenCV filters
_ROUNDED = frozenset(map(numpy.dtype, ("uint8", "int8", "uint16", "int16")))  # types that `stored` converts to fast
_WITHIN_INT = 2.0**31  # OpenCV saturates integers of 32 bits
_CACHED = 1 << 16  # values that are rounded at a time, so that they stay in the cache
_BORDERS: dict[str, tuple[int | None, Any]] = {
    "reflect_101": (cv2.BORDER_REFLECT_101, "reflect"),
    "reflect_1001": (cv2.BORDER_REFLECT, "symmetric"),
    "clamp": (cv2.BORDER_REPLICATE, "edge"),
    "wrap": (None, "wrap"),
    "constant": (cv2.BORDER_CONSTANT, "constant"),
}
_MEDIANS = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32")))  # types of OpenCV's medians
_LARGE_MEDIANS = frozenset([numpy.dtype("uint8")])  # of windows larger than 5
_SAME = 1e-7  # of the largest weight: a difference that float32 does not tell
_ONE = numpy.ones(1)
_FIRST = {3: (0, 1), 4: (0, 1, 2)}  # the spatial dimensions of one image (H, W, C), or volume
_QUIET = numpy.errstate(over="ignore", invalid="ignore")  # infinities are results like others
_BLOCK = 1 << 20  # values of windows that are sorted at a time


def planes(array: Array, spatial: tuple[int, ...], *more: Array) -> Iterator[tuple[Array, ...]]:
    """The images in an array, as views with channels last; of further arrays with the same dimensions those beside.

    Args:
        array: Any array.
        spatial: Which of its dimensions are spatial. If the last is not, it is that of the channels.
        more: Arrays whose other dimensions have the same extents.
    """
    if spatial == _FIRST.get(array.ndim):
        yield array, *more
        return
    views = []
    for each in (array, *more):
        others = [i for i in range(each.ndim) if i not in spatial]
        if each.ndim - 1 in spatial:
            views.append(each.transpose([*others, *spatial])[..., None])
        else:
            views.append(each.transpose([*others[:-1], *spatial, each.ndim - 1]))
    many = views[0].shape[: -1 - len(spatial)]
    for place in numpy.ndindex(many) if many else [()]:
        yield tuple(view[place] for view in views)


def real_of(*kinds: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The type to compute in: float64 where one of the types has more than 24 bits, else float32."""
    return numpy.dtype(numpy.float32 if in_float32(*kinds) else numpy.float64)


def stored(values: Array, out: Array) -> None:
    """Convert float32 or float64 to the type of `out`, as `convert` does; to small integers in a third of the time.

    Args:
        values: Overwritten; the memory afterwards is undefined.
        out: Where to, of the same shape.
    """
    if not (out.dtype in _ROUNDED and out.flags.c_contiguous and values.flags.c_contiguous):
        convert(numpy, values, out.dtype, out)
        return
    flat, there = values.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _CACHED):
        part = slice(start, start + _CACHED)
        _rounded(flat[part], there[part])


def _rounded(values: Array, out: Array) -> None:
    """Round half away from zero and saturate: each value by itself, whichever way the others make faster.

    As `dtypes.rounded` does: adding the largest number below 1/2 and cutting off is exact.
    """
    low, high, nearly_half = _limits(values.dtype, out.dtype)
    least, most = values.min(), values.max()
    if not (least > -_WITHIN_INT and most < _WITHIN_INT):  # NaN among them too
        convert(numpy, values, out.dtype, out)
        return
    if least < low or most > high:
        numpy.clip(values, low, high, out=values)
    if least < 0 and low < 0:
        numpy.add(values, _with_signs(nearly_half, values), out=values)
    else:
        numpy.add(values, nearly_half, out=values)
    numpy.copyto(out, values, casting="unsafe")


@functools.cache
def _limits(real: numpy.dtype[Any], whole: numpy.dtype[Any]) -> tuple[Any, Any, Any]:
    """The smallest and the largest integer of a type, and the largest number below 1/2, in a type of floats."""
    kind, limits = real.type, numpy.iinfo(whole)
    return kind(limits.min), kind(limits.max), numpy.nextafter(kind(0.5), kind(0))


def _with_signs(number: Any, values: Array) -> Array:
    """A number with the signs of values: `copysign`, by bits in a third of the time."""
    bits = numpy.dtype(f"u{values.itemsize}")
    signs = values.view(bits) & numpy.copysign(number.dtype.type(0), -1).view(bits)
    numpy.bitwise_or(signs, number.view(bits), out=signs)
    return signs.view(values.dtype)


def _by_rows(function: Callable[[Array, Array], None], image: Array, reach: int, out: Array) -> None:
    """Filter an image; where it is large, as many parts of its rows at once as there are threads.

    Args:
        function: Filters an image into memory for the result; both have as many rows.
        image: Shape (*spatial, C).
        reach: How many rows above or below a pixel its window ends.
        out: Where to, of the same shape and any dtype.
    """
    if image.ndim != 3 or image.nbytes + out.nbytes < pool.WORTH_SPLITTING:
        function(image, out)
        return

    @_QUIET
    def some(rows: slice) -> None:
        if rows == slice(0, len(image)):
            function(image, out)
            return
        low, high = max(0, rows.start - reach), min(len(image), rows.stop + reach)
        values = empty((high - low, *out.shape[1:]), out.dtype)
        function(image[low:high], values)
        out[rows] = values[rows.start - low : rows.stop - low]

    pool.split(some, len(image), image.nbytes + out.nbytes, 2 * reach + 1)


def separable(image: Array, windows: Sequence[Array], out: Array) -> None:
    """Correlate with one window along each spatial dimension; the image is reflected about its edge pixels.

    Args:
        image: Shape (*spatial, C).
        windows: An odd number of weights for each spatial dimension, float64.
        out: Where to, of the same shape and any dtype.
    """
    _by_rows(lambda part, result: _separated(part, windows, result), image, len(windows[0]) // 2, out)


def _separated(image: Array, windows: Sequence[Array], out: Array) -> None:
    real = real_of(image.dtype, out.dtype)
    if not image.size:
        return
    if image.shape[-1] > MOST_CHANNELS:
        _by_channels(_separated, image, windows, out)
        return
    if len(windows) == 1:
        image, out, windows = image[None], out[None], (_ONE, *windows)
    source = _readable(image, real)
    if len(windows) == 3:
        volume = numpy.empty(image.shape, real)
        rows = source.reshape(len(source), -1), volume.reshape(len(volume), -1)
        _separable(rows[0], (windows[0], _ONE), rows[1])
        for part, result in zip(volume, out, strict=True):
            _separated(part, windows[1:], result)
    elif out.flags.c_contiguous and out.dtype in (source.dtype, real):
        _separable(source, windows, out)
    else:
        values = numpy.empty(image.shape, real)
        _separable(source, windows, values)
        stored(values, out)


def _separable(source: Array, windows: Sequence[Array], out: Array) -> None:
    depth = _DEPTHS[out.dtype]
    cv2.sepFilter2D(source, depth, windows[1], windows[0], dst=out, borderType=cv2.BORDER_REFLECT_101)


@_QUIET
def laplacian(image: Array, terms: Sequence[Sequence[Array]], out: Array) -> None:
    """The sum of several separable filters, rounded once.

    Args:
        image: Shape (*spatial, C).
        terms: For each filter a window for each spatial dimension.
        out: Where to, of the same shape and any dtype.
    """
    reach = max(len(windows[0]) // 2 for windows in terms)
    _by_rows(lambda part, result: _summed(part, terms, result), image, reach, out)


def _summed(image: Array, terms: Sequence[Sequence[Array]], out: Array) -> None:
    real = real_of(image.dtype, out.dtype)
    small = len(terms) == 2 and all(len(window) <= 3 for windows in terms for window in windows)
    if small and image.dtype.kind in "iu" and image.shape[-1] <= MOST_CHANNELS:
        _summed_at_once(image, terms, real, out)
        return
    direct = out.dtype == real and out.flags.c_contiguous
    total = out if direct else numpy.empty(image.shape, real)
    part = numpy.empty(image.shape, real) if len(terms) > 1 else total
    _separated(image, terms[0], total)
    for term in terms[1:]:
        _separated(image, term, part)
        numpy.add(total, part, out=total)
    if not direct:
        stored(total, out)


def _summed_at_once(image: Array, terms: Sequence[Sequence[Array]], real: numpy.dtype[Any], out: Array) -> None:
    """The sum of two filters of up to 3 x 3 pixels, by one kernel.

    Of integers only: where the weights of the two cancel out, an infinite pixel must make NaN, which one kernel
    leaves out.
    """
    if not image.size:
        return
    weights = numpy.zeros((3, 3))
    for windows in terms:
        down, across = (len(window) // 2 for window in windows)
        weights[1 - down : 2 + down, 1 - across : 2 + across] += numpy.outer(*windows)
    source, whole = _readable(image, real), numpy.array_equal(weights, numpy.rint(weights))
    direct = out.flags.c_contiguous and (out.dtype == real or (whole and _direct(source, weights, out, real)))
    values = out if direct else numpy.empty(image.shape, real)
    cv2.filter2D(source, _DEPTHS[values.dtype], weights, dst=values, borderType=cv2.BORDER_REFLECT_101)
    if not direct:
        stored(values, out)


@_QUIET
def correlated(image: Array, kernel: Array, anchor: Sequence[int], border: str, fill: Any, out: Array) -> None:
    """Correlate with a kernel; integers are rounded half to even, as OpenCV and DALI do.

    Args:
        image: Shape (*spatial, C).
        kernel: Weights, as many dimensions as are spatial.
        anchor: Which of the weights lies on the pixel that is computed.
        border: Pixels outside of the image: a key of the table of borders, or "none": only whole windows count.
        fill: The value outside where `border` is "constant".
        out: Where to, of any dtype.
    """
    if not image.size or not out.size:
        return
    if image.shape[-1] > MOST_CHANNELS:
        _by_channels(correlated, image, kernel, anchor, border, fill, out)
        return
    real = real_of(image.dtype, out.dtype)
    weights = numpy.asarray(kernel, numpy.float64)
    if len(anchor) == 1:
        image, weights, anchor, out = image[None], weights[None], (0, *anchor), out[None]
    native = _BORDERS[border][0] if border != "none" else None
    if native is None or len(anchor) == 3 or (border == "constant" and fill != 0):
        if border != "none":
            image = _padded(image, weights.shape, anchor, border, fill)
        _whole_windows(_readable(image, real), weights, out, real)
        return

    def some(image: Array, out: Array) -> None:
        source = _readable(image, real)
        direct = out.flags.c_contiguous and _direct(source, weights, out, real)
        values = out if direct else numpy.empty(out.shape, real)
        _correlated(source, weights, anchor, native, values)
        if not direct:
            _to_even(values, out)

    _by_rows(some, image, len(weights), out)


def _whole_windows(source: Array, weights: Array, out: Array, real: numpy.dtype[Any]) -> None:
    """Correlate where all of the kernel lies on the image."""
    if weights.ndim == 3:
        values = numpy.zeros(out.shape, real)
        for depth, layer in enumerate(weights):
            for i, result in enumerate(values):
                result += _inside(source[i + depth], layer, real, result.shape)
        _to_even(values, out)
        return
    values = _inside(source, weights, out.dtype if _direct(source, weights, out, real) else real, out.shape)
    if values.dtype == out.dtype:
        out[...] = values
    else:
        _to_even(values, out)


def _inside(source: Array, weights: Array, kind: numpy.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The results of whole windows, a part of all results."""
    values = numpy.empty(source.shape, kind)
    middle = [extent // 2 for extent in weights.shape]
    _correlated(source, weights, middle, cv2.BORDER_REFLECT_101, values)
    return values[middle[0] : middle[0] + shape[0], middle[1] : middle[1] + shape[1]]


def _correlated(source: Array, weights: Array, anchor: Sequence[int], border: int, out: Array) -> None:
    """Correlate an image of OpenCV's types; with two windows where the kernel is their product."""
    place, depth = (anchor[1], anchor[0]), _DEPTHS[out.dtype]
    top = numpy.unravel_index(numpy.abs(weights).argmax(), weights.shape)
    column, row = weights[:, top[1]], weights[top[0]] / (weights[top] or 1)
    if numpy.abs(numpy.outer(column, row) - weights).max() <= _SAME * abs(weights[top]):
        cv2.sepFilter2D(source, depth, row, column, dst=out, anchor=place, borderType=border)
    else:
        cv2.filter2D(source, depth, weights, dst=out, anchor=place, borderType=border)


def _direct(source: Array, weights: Array, out: Array, real: numpy.dtype[Any]) -> bool:
    """Whether OpenCV may round and saturate to the type of the result itself."""
    if out.dtype == real:
        return True
    return out.dtype == source.dtype and float(numpy.abs(weights).sum()) * 65536 < _WITHIN_INT


def _to_even(values: Array, out: Array) -> None:
    if out.dtype.kind in "iu":
        numpy.rint(values, out=values)
    convert(numpy, values, out.dtype, out)


def medians(image: Array, size: Sequence[int], out: Array) -> None:
    """The median of the window around each pixel; outside is the nearest pixel of the edge.

    Args:
        image: Shape (*spatial, C).
        size: Extents of the window, odd numbers.
        out: Where to, of the same shape and dtype.
    """
    _by_rows(lambda part, result: _medians(part, size, result), image, size[0] // 2, out)


def _medians(image: Array, size: Sequence[int], out: Array) -> None:
    if not image.size or set(size) == {1}:
        out[...] = image
    elif len(size) == 2 and size[0] == size[1] and image.dtype in (_MEDIANS if size[0] <= 5 else _LARGE_MEDIANS):
        if image.shape[-1] in (1, 3, 4) and out.flags.c_contiguous:
            cv2.medianBlur(numpy.ascontiguousarray(image), size[0], dst=out)
            return
        for channel in range(image.shape[-1]):
            out[..., channel] = cv2.medianBlur(numpy.ascontiguousarray(image[..., channel]), size[0])
    else:
        _sorted_medians(image, size, out)


def _sorted_medians(image: Array, size: Sequence[int], out: Array) -> None:
    count = math.prod(size)
    padded = numpy.pad(image, [*((extent // 2, extent // 2) for extent in size), (0, 0)], "edge")
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, tuple(size), tuple(range(len(size))))
    rows = max(1, _BLOCK // (count * math.prod(image.shape[1:])))
    for first in range(0, len(image), rows):
        block = windows[first : first + rows]
        values = block.reshape(*block.shape[: image.ndim], count)
        out[first : first + rows] = numpy.partition(values, count // 2, -1)[..., count // 2]


def extremes(
    image: Array, size: Sequence[int], anchor: Sequence[int], border: str, iterations: int, out: Array, *, largest: bool
) -> None:
    """The largest or smallest value of the window around each pixel.

    Args:
        image: Shape (*spatial, C).
        size: Extents of the window.
        anchor: Which pixel of the window lies on the one that is computed.
        border: Pixels outside of the image; "constant" is nothing at all.
        iterations: How often.
        out: Where to, of the same shape and dtype.
        largest: Whether the largest is wanted.
    """
    border = "clamp" if border == "constant" else border  # the edge is in each window that reaches over it
    if _BORDERS[border][0] is None:
        _extreme(image, size, anchor, border, iterations, out, largest)
        return

    def some(image: Array, out: Array) -> None:
        _extreme(image, size, anchor, border, iterations, out, largest)

    _by_rows(some, image, size[0] * iterations, out)


def _extreme(
    image: Array, size: Sequence[int], anchor: Sequence[int], border: str, iterations: int, out: Array, largest: bool
) -> None:
    if not image.size:
        return
    native = _BORDERS[border][0]
    if len(size) == 2 and native is not None and image.dtype in _FILTERED and image.shape[-1] <= MOST_CHANNELS:
        function = cv2.dilate if largest else cv2.erode
        source, mask = numpy.ascontiguousarray(image), numpy.ones(tuple(size), numpy.uint8)
        target = out if out.flags.c_contiguous else numpy.empty(out.shape, out.dtype)
        for _ in range(iterations):
            function(source, mask, dst=target, anchor=(anchor[1], anchor[0]), borderType=native)
            source = target
        if target is not out:
            out[...] = target
        return
    for _ in range(iterations):
        image = _extremes(image, size, anchor, _BORDERS[border][1], numpy.maximum if largest else numpy.minimum)
    out[...] = image


def _extremes(
    image: Array, size: Sequence[int], anchor: Sequence[int], mode: Any, better: Callable[..., Array]
) -> Array:
    for axis, (extent, before) in enumerate(zip(size, anchor, strict=True)):
        around = [(0, 0)] * image.ndim
        around[axis] = (before, extent - 1 - before)
        padded = numpy.moveaxis(numpy.pad(image, around, mode), axis, 0)
        length = image.shape[axis]
        result = padded[:length].copy()
        for start in range(1, extent):
            better(result, padded[start : start + length], out=result)
        image = numpy.moveaxis(result, 0, axis)
    return image


def _readable(image: Array, real: numpy.dtype[Any]) -> Array:
    """A contiguous image of a type that OpenCV filters and whose results can have the type `real`."""
    if image.dtype in _FILTERED and (image.dtype != numpy.float32 or real == numpy.float32):
        return numpy.ascontiguousarray(image)
    return image.astype(real, order="C")


def _padded(image: Array, size: Sequence[int], anchor: Sequence[int], border: str, fill: Any) -> Array:
    around = [(before, extent - 1 - before) for extent, before in zip(size, anchor, strict=True)]
    values = {"constant_values": convert(numpy, numpy.asarray(fill), image.dtype)} if border == "constant" else {}
    return numpy.pad(image, [*around, (0, 0)], _BORDERS[border][1], **values)


def _by_channels(function: Callable[..., None], image: Array, *arguments: Any) -> None:
    """Call a kernel with as many channels at a time as OpenCV takes."""
    *rest, out = arguments
    for first in range(0, image.shape[-1], MOST_CHANNELS):
        part = slice(first, first + MOST_CHANNELS)
        function(image[..., part], *rest, out[..., part])
