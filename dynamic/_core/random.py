"""Random numbers and noise of a whole batch: the words that a draw says, and what distributions make of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray

from dynamic._arrays.memory import empty

from ._library import address, column, function, in_use, threads

__all__ = ["Source", "coin_flip", "in_use", "normal", "shot", "strewn", "uniform", "windows"]

_INT, _LONG, _WORD = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
_ARRAY = numpy.ndarray
_KINDS = {
    numpy.dtype(name): number
    for number, name in enumerate(("int8", "uint8", "int16", "uint16", "float32", "int32", "uint32", "float64"))
}
_FIRST_WIDE = _KINDS[numpy.dtype("int32")]
_UNIFORM, _NORMAL, _COIN, _STREWN, _SHOT = 0, 2, 4, 5, 6
_LONGEST, _LARGEST_AREA = 1 << 20, 1 << 12  # extent of an image, and area in images, of windows
_BYTES_OF_WORK = 32  # memory to copy in the time of making a number, about


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
        """The upper half of each sample's counter, uint64."""

    @property
    def phase(self) -> int:
        """The word of the first block to begin with."""


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
    _fill(which + (number >= _FIRST_WIDE), source, sizes, total, _rows(source, values), out, number, image=image)
    return out


def coin_flip(source: Source, sizes: Any, total: int, threshold: Any, kind: numpy.dtype[Any]) -> Any:
    """Whether words are below thresholds, 1 or 0 of any dtype."""
    if not in_use():
        return None
    out = empty((total,), kind)
    _fill(_COIN, source, sizes, total, _rows(source, [threshold]), out, kind.itemsize, numpy.ones(1, kind))
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
        limits: For each of these and each byte what products are compared with; bytes with more than 1 stay.
        image: The bytes.
    """
    if not in_use():
        return None
    out = empty((total,), image.dtype)
    _fill(_SHOT, source, sizes, total, _rows(source, [factors]), out, 1, limits, image=image)
    return out


def _rows(source: Source, values: Sequence[Any]) -> NDArray[Any]:
    """Parameters in rows: a column for all samples, or for each."""
    rows = numpy.zeros((3, len(source.high) if any(map(numpy.ndim, values)) else 1))
    for row, own in zip(rows, values, strict=False):
        row[...] = own
    return rows


def _fill(
    which: int,
    source: Source,
    sizes: Any,
    total: int,
    rows: NDArray[Any],
    out: NDArray[Any],
    kind: int,
    values: Any = None,
    channels: int = 1,
    image: Any = None,
) -> None:
    fill = function(
        "core_random",
        *(_INT, _WORD, _WORD, _ARRAY, _INT, _ARRAY, _LONG, _LONG, _ARRAY, _LONG, _INT, _ARRAY, _LONG),
        *(_ARRAY, _ARRAY, _INT),
    )
    ends = None if isinstance(sizes, int) else numpy.cumsum(sizes, dtype=numpy.int64)
    high = numpy.ascontiguousarray(source.high)
    fill(
        which,
        source.key,
        source.low,
        address(high),
        source.phase,
        None if ends is None else address(ends),
        sizes if ends is None else 0,
        total,
        address(rows),
        rows.shape[1],
        kind,
        None if values is None else address(values),
        channels,
        None if image is None else address(image),
        address(out),
        threads(total * _BYTES_OF_WORK),
    )


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
    draw = function("core_windows", _WORD, _WORD, _ARRAY, _INT, _LONG, _ARRAY, _ARRAY, _LONG, _ARRAY)
    extents, limits = column(images, numpy.int64), column(rules, numpy.float64)
    high = numpy.ascontiguousarray(source.high)
    found = numpy.empty((len(extents), 2, 2), numpy.int32)
    own = source.key, source.low, address(high), source.phase
    draw(*own, len(extents), address(extents), address(limits), attempts, address(found))
    return found
