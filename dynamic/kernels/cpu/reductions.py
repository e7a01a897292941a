"""Sums, sums of squares and extremes over some dimensions of an array.

All work on blocks of shape (A, K, B), of which the K are made one: whatever dimensions are reduced is brought into this
form first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cv2
import numpy
from numpy.typing import NDArray

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base import pool

__all__ = ["NARROW", "are_long", "extreme", "squares", "total", "totals"]

_SHORT = 1 << 5  # elements; NumPy is slow where it gets fewer at once
_LONG = 1 << 10  # elements; at so many the cost of a call no longer shows
_WIDE = 1 << 8  # pixels that are compared at once, of which few are left
_CACHED = 1 << 15  # elements of temporaries that stay in the cache
_LONG_SUM, _LONG_SQUARES = 1 << 11, 1 << 14  # elements of blocks that OpenCV does one by one
_AT_ONCE = 1 << 18  # the same where each step is so short that threads would wait for each other between them
_UNSHARED = 1 << 13  # elements of vectors that no BLAS shares out to threads of its own

_FLOAT64 = numpy.dtype("float64")
#: Types of which float32 holds every value. OpenCV adds them, and their squares, in integers or float64.
NARROW = frozenset(map(numpy.dtype, ("uint8", "uint16", "int16", "float32")))
#: Types in which OpenCV adds the elements of rows fast; integers of 32 bits have room for so many.
_OF_ROWS = {numpy.dtype("uint8"): cv2.CV_32S, numpy.dtype("float32"): cv2.CV_64F}
_FITTING = 1 << 23


@numpy.errstate(all="ignore")
def total(array: Array, axes: Sequence[int], kind: numpy.dtype[Any]) -> Array:
    """The sum over some dimensions, which stay with extents of 1.

    Args:
        array: Any array.
        axes: The dimensions, from the first or from the end, without repetition; may be none.
        kind: The dtype of the result, which has 64 bits, and of the calculation: integers wrap around.
    """
    form = _form(array.shape, tuple(axes))
    blocks = _blocks(array, form)
    if _is_long(blocks.shape, blocks.dtype, _LONG_SUM):
        sums: Array = numpy.array([cv2.sumElems(block[None])[: blocks.shape[2]] for block in blocks]).astype(kind)
    else:
        sums = _by_planes(lambda part, _: _sums(part, kind), blocks, kind)
    return sums.reshape(form.kept)


def are_long(shapes: Sequence[tuple[int, ...]], axes: Sequence[int], kind: numpy.dtype[Any]) -> bool:
    """Whether `totals` takes arrays of such shapes and of a dtype: each sum is one call of OpenCV."""
    forms = {_form(shape, tuple(axes)).blocks for shape in set(shapes)}
    alike = {before for before, _, _ in forms} == {1} and len({behind for _, _, behind in forms}) == 1
    return alike and all(_is_long(blocks, kind, _LONG_SUM) for blocks in forms)


def totals(
    arrays: Sequence[Array], axes: Sequence[int], kind: numpy.dtype[Any]
) -> tuple[Array, NDArray[numpy.float64]]:
    """`total` of many arrays that `are_long` as (N, B), and (N,) how many elements each number is the sum of.

    Threads would wait for each other if there were more steps between the calls of OpenCV than need be.
    """
    shapes = [_form(array.shape, tuple(axes)).blocks for array in arrays]
    sums: list[Any] = [None] * len(arrays)

    def some(part: slice) -> None:
        for i in range(part.start, part.stop):
            sums[i] = cv2.sumElems(_blocks(arrays[i], _form(arrays[i].shape, tuple(axes))))

    pool.run_parts(some, len(arrays), 2 * sum(array.nbytes for array in arrays))
    return numpy.array(sums)[:, : shapes[0][2]].astype(kind), numpy.array([float(count) for _, count, _ in shapes])


@numpy.errstate(all="ignore")
def extreme(ufunc: numpy.ufunc, array: Array, axes: Sequence[int]) -> Array:
    """The maximum or minimum over some dimensions, none of them empty, which stay with extents of 1."""
    form, kind = _form(array.shape, tuple(axes)), array.dtype
    blocks = _blocks(array, form)
    before, count, behind = blocks.shape
    if before == 1 < behind < _SHORT and count >= 4 * _WIDE:  # an image: in two steps, as the order does not matter
        whole = count // _WIDE * _WIDE
        folded = ufunc.reduce(blocks[:, :whole].reshape(-1, _WIDE * behind), axis=0).reshape(_WIDE, behind)
        ufunc(folded[: count - whole], blocks[0, whole:], out=folded[: count - whole])
        extremes = ufunc.reduce(folded, axis=0)
    else:
        extremes = _by_planes(lambda part, _: _folded(ufunc, part, kind), blocks, kind)
    return extremes.reshape(form.kept)


@numpy.errstate(all="ignore")
def squares(array: Array, axes: Sequence[int], centre: Array | None) -> Array:
    """The sum of the squares of the distances from `centre`, in float64; the dimensions stay with extents of 1.

    Args:
        array: Any array.
        axes: The dimensions, from the first or from the end, without repetition; may be none.
        centre: Numbers that broadcast to the shape of the result, float32 where the array has a type that is `NARROW`;
            0 where there are none.
    """
    form = _form(array.shape, tuple(axes))
    blocks = _blocks(array, form)
    before, _, behind = blocks.shape
    centres = None if centre is None else _filled(form.kept, centre).reshape(before, 1, behind)
    if _is_long(blocks.shape, blocks.dtype, _LONG_SQUARES):
        each = [None] * before if centres is None else centres[:, 0]
        by_opencv = _squares_of_integers if array.dtype.kind in "iu" else _squares_by_opencv
        sums = numpy.array([by_opencv(block, own) for block, own in zip(blocks, each, strict=True)])
    else:
        sums = _by_planes(_squares_by_numpy, blocks, _FLOAT64, centres)
    return sums.reshape(form.kept)


def _sums(blocks: Array, kind: numpy.dtype[Any]) -> Array:
    before, count, behind = blocks.shape
    depth = _OF_ROWS.get(blocks.dtype)
    if depth is None or not before or behind != 1 or not _SHORT <= count < _FITTING:
        return _folded(numpy.add, blocks, kind)
    return cv2.reduce(blocks[:, :, 0], 1, cv2.REDUCE_SUM, dtype=depth)[:, :, None].astype(kind)


def _by_planes(
    function: Callable[[Array, Array | None], Array],
    blocks: Array,
    kind: numpy.dtype[Any],
    centres: Array | None = None,
) -> Array:
    """`function` of blocks (A, K, B), which gives (A, 1, B): of small ones with few channels one by one, as (A, K, 1).

    Which way is taken must not depend on A: a sample has the same sum alone and in a batch.
    """
    before, count, behind = blocks.shape
    if blocks.dtype not in NARROW or not 2 <= behind <= 4 or not _SHORT * behind <= count * behind < _CACHED:
        return function(blocks, centres)
    result = numpy.empty((before, 1, behind), kind)
    step = max(1, 4 * _CACHED // (count * behind))
    memory = empty((behind, min(step, before), count), blocks.dtype)
    for i in range(0, before, step):
        some = slice(i, i + step)
        part = blocks[some]
        for channel, plane in enumerate(cv2.split(part, list(memory[:, : len(part)]))):
            only = slice(channel, channel + 1)
            result[some, :, only] = function(plane[:, :, None], None if centres is None else centres[some, :, only])
    return result


def _squares_of_integers(block: Array, centre: Array | None) -> Array:
    """Sums of squares of (K, B), exact as long as they are."""
    squares = _squares_by_opencv(block, None)
    if centre is None:
        return squares
    sums = cv2.sumElems(block[None])

    def around(total: float, square: float, place: float) -> float:
        if not math.isfinite(place):
            return place * place
        p, q = place.as_integer_ratio()
        return (int(square) * q * q - 2 * int(total) * p * q + len(block) * p * p) / (q * q)

    return numpy.array([around(*numbers) for numbers in zip(sums, squares.tolist(), centre.tolist(), strict=False)])


def _squares_of_row(row: Array, centre: float) -> Array:
    """The sum of squares of (K,), as an array of one number."""
    if not centre:
        return numpy.array([cv2.norm(row, cv2.NORM_L2SQR)])
    found, distances = 0.0, empty((min(_AT_ONCE, len(row)),), numpy.dtype(numpy.float32))
    for k in range(0, len(row), _AT_ONCE):
        part = row[k : k + _AT_ONCE]
        found += cv2.norm(numpy.subtract(part, numpy.float32(centre), out=distances[: len(part)]), cv2.NORM_L2SQR)
    return numpy.array([found])


def _squares_by_opencv(block: Array, centre: Array | None) -> Array:
    """Sums of squares of (K, B): of a table with long rows first, whose columns are added at once."""
    count, behind = block.shape
    if behind == 1:
        return _squares_of_row(block[:, 0], 0.0 if centre is None else float(centre[0]))
    width = _LONG // behind
    whole = count // width * width
    sums = numpy.zeros(behind)
    distances = empty((_AT_ONCE // (width * behind), width * behind), numpy.dtype(numpy.float32))
    for table in (block[:whole].reshape(-1, width * behind), block[whole:]):
        columns = table.shape[1]
        squares = numpy.zeros(columns)
        centres = None if centre is None else numpy.tile(centre, columns // behind)
        for k in range(0, len(table), len(distances)):
            part = table[k : k + len(distances)]
            if centres is not None:
                part = numpy.subtract(part, centres, out=distances[: len(part), :columns])
            elif part.dtype == numpy.uint8:
                part = part.astype(numpy.uint16)  # of which OpenCV is faster
            squares += cv2.reduce(part, 0, cv2.REDUCE_SUM2, dtype=cv2.CV_64F)[0]
        sums += numpy.add.reduce(squares.reshape(-1, behind), axis=0)
    return sums


def _squares_by_numpy(blocks: Array, centres: Array | None) -> Array:
    before, count, behind = blocks.shape
    rows = max(1, min(count, _CACHED // max(1, behind)))
    samples = max(1, min(before, _CACHED // max(1, rows * behind)))
    memory = empty((2, samples, rows, behind), _FLOAT64)
    result = numpy.empty((before, 1, behind))

    def distances(chosen: slice, first: int, out: Array) -> Array:
        part = blocks[chosen, first : first + rows]
        out = out[: part.shape[0], : part.shape[1]]
        if centres is None:
            out[...] = part
            return out
        return numpy.subtract(part, centres[chosen], out=out)

    for i in range(0, before, samples):
        chosen = slice(i, i + samples)
        sums = distances(chosen, 0, memory[0])
        if behind == 1 and _SHORT <= count <= _UNSHARED:
            result[chosen, 0, 0] = numpy.vecdot(sums[:, :, 0], sums[:, :, 0])
            continue
        numpy.multiply(sums, sums, out=sums)
        for k in range(rows, count, rows):
            more = distances(chosen, k, memory[1])
            sums[:, : more.shape[1]] += numpy.multiply(more, more, out=more)
        result[chosen] = _folded(numpy.add, sums, _FLOAT64)
    return result


def _filled(shape: Sequence[int], values: Array) -> Array:
    """Values that broadcast to a shape, written out: in a fifth of the time of `broadcast_to` where they are few."""
    filled = numpy.empty(shape, values.dtype)
    filled[...] = values
    return filled


class _Form(NamedTuple):
    """The shapes of an array before some of its dimensions are reduced, and after."""

    order: tuple[int, ...] | None  #: of its dimensions; None is as they are
    blocks: tuple[int, int, int]  #: (A, K, B), where K are the elements that become one
    kept: tuple[int, ...]  #: the shape with extents of 1


@functools.lru_cache(256)  # photos often are alike
def _form(shape: tuple[int, ...], axes: tuple[int, ...]) -> _Form:
    """The form of an array of some shape."""
    chosen = sorted(axis % len(shape) for axis in axes)
    kept = tuple(1 if axis in chosen else extent for axis, extent in enumerate(shape))
    chosen = [axis for axis in chosen if len(axes) == len(shape) or shape[axis] != 1]
    if not chosen:
        return _Form(None, (1, 1, math.prod(shape)), kept)
    order, first, last = None, chosen[0], chosen[-1] + 1
    if any(axis not in chosen and shape[axis] != 1 for axis in range(first, last)):
        # dimensions that stay are between: bring those that do not to the end
        rest = [axis for axis in range(len(shape)) if axis not in chosen]
        order, first, last = (*rest, *chosen), len(rest), len(shape)
    extents = [shape[axis] for axis in order or range(len(shape))]
    return _Form(order, (math.prod(extents[:first]), math.prod(extents[first:last]), math.prod(extents[last:])), kept)


def _blocks(array: Array, form: _Form) -> Array:
    """The array as (A, K, B)."""
    array = array if form.order is None else array.transpose(form.order)
    return numpy.ascontiguousarray(array).reshape(form.blocks)


def _is_long(blocks: tuple[int, int, int], kind: numpy.dtype[Any], least: int) -> bool:
    """Whether OpenCV is faster, block by block. This must not depend on how many there are."""
    _, count, behind = blocks
    return kind in NARROW and 1 <= behind <= 4 and count * behind >= least


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
