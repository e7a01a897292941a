"""Random numbers and noise of a whole batch: the words of a draw, and the numbers that distributions make of them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray

from dynamic._arrays.memory import empty

from ._library import address, column, function, in_use, threads

__all__ = ["Source", "blocks", "coin_flip", "in_use", "normal", "search", "shot", "strewn", "uniform", "windows"]

_INT, _LONG, _WORD, _REAL = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float
_ARRAY = ctypes.c_void_p
_KINDS: dict[numpy.dtype[Any], int] = {
    numpy.dtype(name): number
    for number, name in enumerate(("int8", "uint8", "int16", "uint16", "float32", "int32", "uint32", "float64"))
}
_UINT32 = numpy.dtype("uint32")
_INT32: numpy.dtype[Any] = numpy.dtype("int32")  # of those that are computed in float64 the first
_LIKE: dict[numpy.dtype[Any], numpy.dtype[Any]] = {
    numpy.dtype("bool"): numpy.dtype("uint8"),
    numpy.dtype("uint32"): _INT32,
}  # for 0 and 1
_UNIFORM, _NORMAL, _COIN, _STREWN, _SHOT = 0, 2, 4, 5, 6
_LONGEST, _LARGEST_AREA = 1 << 20, 1 << 12  # extent of an image, and area in images, of windows
_LARGEST_SCALE = 1e6  # of the extents of windows
_Three = ctypes.c_double * 3
_BYTES_OF_WORK = 32  # memory to copy in the time of making a number, about


class _Draw(ctypes.Structure):
    """Where the words of n samples lie."""

    _fields_ = (("key", _WORD), ("low", _WORD), ("high", _ARRAY), ("phase", _WORD), ("n", _LONG))


class _Call(ctypes.Structure):
    """The struct `call` in C."""

    _fields_ = (
        *(("draw", _Draw), ("ends", _ARRAY), ("total", _LONG), ("parameters", _ARRAY), ("each", _LONG)),
        *(("values", _ARRAY), ("image", _ARRAY), ("out", _ARRAY), ("channels", _LONG), ("kind", _INT), ("which", _INT)),
    )


class _Windows(ctypes.Structure):
    """The struct `windows` in C."""

    _fields_ = (("draw", _Draw), ("images", _ARRAY), ("rules", _ARRAY), ("attempts", _LONG), ("found", _ARRAY))


class _Search(ctypes.Structure):
    """The struct `search` in C."""

    _fields_ = (
        ("draw", _Draw),
        *((name, _ARRAY) for name in ("samples", "ends", "boxes", "areas", "images", "least", "found", "states")),
        *((name, _LONG) for name in ("attempts", "rounds")),
        *((name, _INT) for name in ("thresholds", "whole", "of_boxes", "all_boxes")),
        *((name, _REAL) for name in ("prune", "low", "range")),
        ("ratios", _REAL * 2),
    )


class Source(Protocol):
    """Where the words of a call lie, as `dynamic.random` says it."""

    @property
    def key(self) -> int:
        """The key."""

    @property
    def low(self) -> int:
        """The lower half of all counters."""

    @property
    def high(self) -> Any:
        """The upper half of each sample's counter, a contiguous array of uint64."""

    @property
    def phase(self) -> int:
        """The word of the first block to begin with."""


def blocks(key: int, low: Any, high: Any) -> Any:
    """The words of many blocks with one key, uint32 of shape (4, n); None where nothing is compiled.

    Args:
        key: The key.
        low: Lower halves of the counters, a uint64 array, or an integer for all.
        high: Upper halves of the counters, a uint64 array.
    """
    if not in_use():
        return None
    lower = numpy.full(len(high), low, numpy.uint64) if isinstance(low, int) else column(low, numpy.uint64)
    upper = column(high, numpy.uint64)
    found = empty((4, len(upper)), _UINT32)
    make = function("core_blocks", _WORD, _ARRAY, _ARRAY, _LONG, _ARRAY)
    make(key, address(lower), address(upper), len(upper), address(found))
    return found


def uniform(source: Source, sizes: Any, total: int, limits: Sequence[Any], kind: numpy.dtype[Any]) -> Any:
    """Numbers of a range.

    Args:
        source: Where the words lie.
        sizes: How many numbers each sample has, an array; or all of them, an integer.
        total: How many there are, one or more.
        limits: As `uniform_limits` says, for all samples or for each.
        kind: Of the numbers.

    Returns:
        An array of shape (total,), or None for types that are left to Python.
    """
    return _numbers(_UNIFORM, source, sizes, total, limits, kind)


def normal(
    source: Source, sizes: Any, total: int, moments: Sequence[Any], kind: numpy.dtype[Any], image: Any = None
) -> Any:
    """Numbers with the normal distribution, or the elements of an image with such numbers added; the rest as above."""
    return _numbers(_NORMAL, source, sizes, total, moments, kind, image)


def _numbers(
    which: int, source: Source, sizes: Any, total: int, values: Any, kind: numpy.dtype[Any], image: Any = None
) -> Any:
    number = _KINDS.get(kind)
    if number is None or not in_use():
        return None
    out = empty((total,), kind)
    _fill(which + (number >= _KINDS[_INT32]), source, sizes, total, _rows(source, values), out, number, image=image)
    return out


def coin_flip(source: Source, sizes: Any, total: int, threshold: Any, kind: numpy.dtype[Any]) -> Any:
    """Whether words are below thresholds, 1 or 0."""
    number = _KINDS.get(_LIKE.get(kind, kind))
    if number is None or number > _KINDS[_INT32] or not in_use():
        return None
    out = empty((total,), kind)
    _fill(_COIN, source, sizes, total, _rows(source, [threshold]), out, number)
    return out


def strewn(source: Source, sizes: Any, total: int, chances: Any, levels: Sequence[Any], image: Any) -> Any:
    """Pixels of an image, some of which become pepper or salt.

    Args:
        source: Where the words lie.
        sizes: How many pixels each sample has, as for `uniform`.
        total: How many there are.
        chances: Of one of both, and of salt, as float32 numbers, for all samples or for each.
        levels: Values of pepper and salt.
        image: The elements of all pixels, as many of each.
    """
    kind, n = image.dtype, len(source.high)
    each = n if any(numpy.ndim(values) for values in (*chances, *levels)) else 1
    values = numpy.empty((each, 2), kind)
    values[:, 0], values[:, 1] = levels
    rows = _rows(source, [*chances, numpy.arange(each) if each > 1 else 0.0])
    out = empty(image.shape, kind)
    _fill(_STREWN, source, sizes, total, rows, out, kind.itemsize, values, len(image) // total, image)
    return out


def shot(source: Source, sizes: Any, total: int, factors: Any, limits: Any, image: Any) -> Any:
    """Bytes with the noise of counted photons, of which few are expected.

    Args:
        source: Where the words lie.
        sizes: As for `uniform`.
        total: As for `uniform`.
        factors: How many levels a photon makes, for all samples or for each.
        limits: For each of these and each byte the limit of the products; bytes with more than 1 stay.
        image: The bytes.
    """
    if not in_use():
        return None
    out = empty((total,), image.dtype)
    _fill(_SHOT, source, sizes, total, _rows(source, [factors]), out, 1, limits, image=image)
    return out


def _rows(source: Source, values: Sequence[Any]) -> Any:
    """Parameters, in rows: a column for all samples, as C numbers, or an array with one for each."""
    if not any(map(numpy.ndim, values)):
        return _Three(*values)
    rows = numpy.zeros((3, len(source.high)))
    for row, own in zip(rows, values, strict=False):
        row[...] = own
    return rows


@functools.cache
def _random() -> Callable[..., None]:
    return function("core_random", _ARRAY, ctypes.c_int)


def _source(source: Source) -> _Draw:
    return _Draw(source.key, source.low, address(source.high), source.phase, len(source.high))


def _fill(
    which: int,
    source: Source,
    sizes: Any,
    total: int,
    rows: Any,
    out: NDArray[Any],
    kind: int,
    values: Any = None,
    channels: int = 1,
    image: Any = None,
) -> None:
    alone = sizes.__class__ is int and sizes == 1 and which != _SHOT  # each is the only one of its sample
    ends = None if alone else _ends(sizes, len(source.high))
    common = rows.__class__ is _Three
    call = _Call(
        _source(source),
        None if ends is None else address(ends),
        total,
        ctypes.addressof(rows) if common else address(rows),
        1 if common else rows.shape[1],
        None if values is None else address(values),
        None if image is None else address(image),
        address(out),
        channels,
        kind,
        which,
    )
    _random()(ctypes.byref(call), threads(total * _BYTES_OF_WORK))


def _ends(sizes: Any, n: int) -> NDArray[Any]:
    """Where the numbers of each of n samples end."""
    return numpy.cumsum(numpy.broadcast_to(sizes, n), dtype=numpy.int64)


def windows(source: Source, images: Any, rules: Sequence[float], attempts: int) -> Any:
    """Random windows of images.

    Args:
        source: Where the words of each image lie.
        images: Heights and widths, of shape (n, 2).
        rules: The least and the largest area, ratio and logarithm of the ratio.
        attempts: How many windows are drawn for an image before one is taken as large as it may be.

    Returns:
        For each image the corner (y, x) and the shape of its window: int32 of shape (n, 2, 2). None for numbers so
        large that float64 does not hold products of integers, as Python does.
    """
    if not in_use() or rules[0] > _LARGEST_AREA or not 1 <= images.min(initial=1) <= images.max(initial=1) <= _LONGEST:
        return None
    extents, limits = column(images, numpy.int64), column(rules, numpy.float64)
    found = numpy.empty((len(extents), 2, 2), numpy.int32)
    call = _Windows(_source(source), address(extents), address(limits), attempts, address(found))
    function("core_windows", _ARRAY)(ctypes.byref(call))
    return found


def search(
    source: Source,
    samples: Any,
    boxes: Any,
    areas: Any,
    counts: Any,
    images: Any,
    *,
    scaling: tuple[float, float],
    ratios: tuple[float, float],
    thresholds: Sequence[float | None],
    attempts: int,
    rounds: int,
    of_boxes: bool,
    all_boxes: bool,
    prune: float | None,
) -> Any:
    """Windows of random extents that overlap boxes as they should; arguments as those of `_box_windows`.

    Returns:
        For each sample whether there is a window, and whether it is as the rules say, a bool array of shape (n, 2); and
        start and end, float32. None in three dimensions, and for windows that are much larger than an image.
    """
    if not in_use() or boxes.shape[1] != 4 or scaling[1] > _LARGEST_SCALE:
        return None
    low, high = map(numpy.float32, scaling)
    least = numpy.array([numpy.inf if threshold is None else threshold for threshold in thresholds])
    columns = [column(samples, numpy.int64), column(numpy.cumsum(counts), numpy.int64)]
    columns += [column(array, numpy.float32) for array in (boxes, areas)]
    extents = None if images is None else column(images, numpy.float32)
    found = numpy.empty((len(samples), 4), numpy.float32)
    states = numpy.zeros((len(samples), 2), numpy.bool_)
    call = _Search(
        _source(source),
        *map(address, columns),
        None if extents is None else address(extents),
        *map(address, (least, found, states)),
        *(attempts, rounds, len(thresholds), thresholds[-1] is None, of_boxes, all_boxes),
        *(-1.0 if prune is None else prune, low, high - low, (_REAL * 2)(*ratios)),
    )
    work = len(boxes) * attempts * _BYTES_OF_WORK
    function("core_search", _ARRAY, _LONG, ctypes.c_int)(ctypes.byref(call), len(samples), threads(work))
    return states, found
