"""Putting elements elsewhere: dimensions in another order, and classes into vectors."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._base.pool import Step

__all__ = ["BY_SIZE", "one_hot", "permuted", "permuting"]

_WORTH_A_CALL = 1 << 13  # bytes; smaller matrices NumPy transposes as fast
_MOST = 1 << 31  # rows or columns; OpenCV counts with 32 bits
#: Types that OpenCV knows, by their size; only the bytes count.
BY_SIZE = {size: numpy.dtype(word) for size, word in ((1, "uint8"), (2, "int16"), (4, "int32"), (8, "float64"))}


def permuted(source: Array, places: Sequence[int], out: Array) -> None:
    """Copy with dimension `places[i]` as dimension i; OpenCV is up to ten times as fast as NumPy at it.

    Args:
        source: The source.
        places: For each dimension of the result which one of the source it is.
        out: Where to, C-contiguous.
    """
    step = permuting(source, tuple(places), out)
    if step is not None:
        _call(step)
        return
    matrices = _matrices(source.shape, tuple(places), source.itemsize)
    assert matrices is not None, "else it is one call"
    count, rows, columns, channels = matrices
    kind = BY_SIZE[source.itemsize]
    results = out.view(kind).reshape(count, columns, rows, channels)
    for matrix, result in zip(source.view(kind).reshape(matrices), results, strict=True):
        _call(_transposing(matrix, result))


def permuting(source: Array, places: tuple[int, ...], out: Array) -> Step | None:
    """The one call that `permuted` is, unless there are several matrices to transpose."""
    matrices = _matrices(source.shape, places, source.itemsize) if source.flags.c_contiguous else None
    if matrices is None:
        return numpy.copyto, (out, source.transpose(places))
    count, rows, columns, channels = matrices
    if count > 1:
        return None
    kind = BY_SIZE[source.itemsize]
    return _transposing(source.view(kind).reshape(matrices[1:]), out.view(kind).reshape(columns, rows, channels))


def _call(step: Step) -> None:
    function, arguments = step
    function(*arguments)


@functools.lru_cache(256)
def _matrices(shape: tuple[int, ...], places: tuple[int, ...], itemsize: int) -> tuple[int, int, int, int] | None:
    """Number, rows, columns and channels of the matrices whose transposition this is; None where NumPy does as well."""
    size = math.prod(shape) * itemsize
    if size < _WORTH_A_CALL:
        return None
    runs = _runs(shape, places)
    first = len(runs) == 3 and runs[0][0] < min(runs[1][0], runs[2][0])
    last = len(runs) == 3 and runs[2][0] > max(runs[0][0], runs[1][0])
    if not (len(runs) == 2 or first or last):
        return None
    extents = [math.prod(shape[i] for i in run) for run in runs]
    count = extents.pop(0) if first else 1
    columns, rows, channels = (*extents, 1)[:3]
    few = columns <= 4 and (itemsize == 8 or channels > 1)
    if few or channels > 4 or max(rows, columns) >= _MOST or size < count * _WORTH_A_CALL:
        return None
    return count, rows, columns, channels


def _runs(shape: Sequence[int], places: Sequence[int]) -> list[list[int]]:
    """The dimensions of the source in the order of the result, those together that stay neighbours."""
    kept = [i for i, extent in enumerate(shape) if extent != 1]
    following = dict(itertools.pairwise(kept))
    runs: list[list[int]] = []
    for place in places:
        if shape[place] == 1:
            continue
        if runs and following.get(runs[-1][-1]) == place:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _transposing(matrix: Array, out: Array) -> Step:
    """A function that swaps rows and columns; OpenCV splits and merges few of them faster, as channels."""
    rows, columns, channels = matrix.shape
    if channels > 1:
        return cv2.transpose, (matrix, out)
    if columns <= 4 and matrix.itemsize == 1:
        return cv2.split, (matrix.reshape(1, rows, columns), list(out.reshape(columns, 1, rows)))
    if rows <= 4:
        return cv2.merge, (list(matrix.reshape(rows, 1, columns)), out.reshape(1, columns, rows))
    return cv2.transpose, (matrix[..., 0], out[..., 0])


def one_hot(numbers: Array, count: int, off: Any, on: Any, following: int, out: Array) -> None:
    """Write `on` at the class of each number and `off` everywhere else; fractions are cut off.

    Args:
        numbers: Numbers of classes, or others.
        count: How many classes there are.
        off: A scalar of the result's dtype.
        on: A scalar of the result's dtype.
        following: How many elements of `numbers` lie behind the dimension of the classes.
        out: Where to, C-contiguous: `count` times as many elements as `numbers`.
    """
    if not out.size:
        return
    if following == 1:
        out[...] = off
        found = numpy.flatnonzero((numbers > -1) & (numbers < count))
        out.reshape(-1)[found * count + numbers.reshape(-1)[found].astype(numpy.intp)] = on
        return
    rows = (numpy.trunc(numbers) if numbers.dtype.kind == "f" else numbers).reshape(-1, following)
    planes = out.reshape(-1, count, following)
    for k in range(count):
        if off == 0 and on == 1:
            numpy.equal(rows, k, out=planes[:, k])
        else:
            planes[:, k] = off
            numpy.copyto(planes[:, k], on, where=rows == k)
