"""Sums, sums of squares and extremes over some dimensions of an array.

All work on blocks of shape (A, K, B), of which the K are made one: whatever dimensions are reduced is brought into this
form first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._array import Array

__all__ = ["extreme", "squares", "total"]

_LONG = 1 << 10  # elements; NumPy takes so many at once before its cost for each call shows
_SHORT = 1 << 5  # elements; NumPy is slow where it gets fewer at once
_CACHED = 1 << 15  # elements of temporaries that stay in the cache

_FLOAT64 = numpy.dtype("float64")


@numpy.errstate(all="ignore")
def total(array: Array, axes: Sequence[int], kind: numpy.dtype[Any]) -> Array:
    """The sum over some dimensions, which stay with extents of 1.

    Args:
        array: Any array.
        axes: The dimensions, from the first or from the end, without repetition; may be none.
        kind: The dtype of the result, and what is calculated in: integers wrap around.
    """
    return _folded(numpy.add, _blocks(array, axes), kind).reshape(_kept(array.shape, axes))


@numpy.errstate(all="ignore")
def extreme(ufunc: numpy.ufunc, array: Array, axes: Sequence[int]) -> Array:
    """The maximum or minimum over some dimensions, none of them empty, which stay with extents of 1."""
    return _folded(ufunc, _blocks(array, axes), array.dtype).reshape(_kept(array.shape, axes))


@numpy.errstate(all="ignore")
def squares(array: Array, axes: Sequence[int], centre: Array | None) -> Array:
    """The sum of the squares of the distances from `centre`, in float64; the dimensions stay with extents of 1.

    Args:
        array: Any array.
        axes: The dimensions, from the first or from the end, without repetition; may be none.
        centre: Numbers that broadcast to the shape of the result; 0 where there are none.
    """
    blocks = _blocks(array, axes)
    before, count, behind = blocks.shape
    shape = _kept(array.shape, axes)
    centres = None if centre is None else numpy.broadcast_to(centre, shape).reshape(before, 1, behind)
    result = numpy.zeros((before, 1, behind))
    rows = max(1, min(count, _CACHED // max(1, behind)))
    samples = max(1, _CACHED // max(1, rows * behind))
    for i in range(0, before, samples):
        for k in range(0, count, rows):
            part = blocks[i : i + samples, k : k + rows]
            if centres is not None:
                part = numpy.subtract(part, centres[i : i + samples], dtype=_FLOAT64)
            distances = numpy.multiply(part, part, dtype=_FLOAT64)
            result[i : i + samples] += _folded(numpy.add, distances, _FLOAT64)
    return result.reshape(shape)


def _kept(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    kept = list(shape)
    for axis in axes:
        kept[axis] = 1
    return tuple(kept)


def _blocks(array: Array, axes: Sequence[int]) -> Array:
    """The array as (A, K, B), where K are the elements that become one."""
    axes = sorted(axis % array.ndim for axis in axes if array.shape[axis] != 1)
    if not axes:
        return array.reshape(1, 1, array.size)
    first, last = axes[0], axes[-1] + 1
    inside = [axis for axis in range(first, last) if axis not in axes and array.shape[axis] != 1]
    if inside:  # the dimensions that stay are between: bring those that do not to the end
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        array = array.transpose(kept + axes)
        first, last = len(kept), array.ndim
    parts = array.shape[:first], array.shape[first:last], array.shape[last:]
    return numpy.ascontiguousarray(array).reshape(tuple(map(math.prod, parts)))


def _folded(ufunc: numpy.ufunc, blocks: Array, kind: numpy.dtype[Any]) -> Array:
    """(A, K, B) reduced to (A, 1, B), by folding until NumPy reduces many elements at once."""
    before, count, behind = blocks.shape
    while count > 1 and behind < _SHORT and not (behind == 1 and count >= _SHORT):
        width = max(1, min(count // 2, _LONG // max(1, behind)))
        rows = count // width
        if width * behind >= _SHORT:
            parts = blocks[:, : rows * width].reshape(before, rows, width * behind)
            folded = ufunc.reduce(parts, axis=1, dtype=kind).reshape(before, width, behind)
        else:
            folded = blocks[:, :width].astype(kind)
            for row in range(1, rows):
                ufunc(folded, blocks[:, row * width : (row + 1) * width], out=folded, dtype=kind, casting="unsafe")
        rest = blocks[:, rows * width :]
        if rest.shape[1]:
            ufunc(folded[:, : rest.shape[1]], rest, out=folded[:, : rest.shape[1]], dtype=kind, casting="unsafe")
        blocks, count = folded, width
    return ufunc.reduce(blocks, axis=1, dtype=kind, keepdims=True)
