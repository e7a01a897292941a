"""Bounding boxes: their layouts, how they turn with an image, and which anchors they match.

Boxes are arrays of shape (n, 2 * d): where they start, then where they end, x before y before z.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array

from .rotations import quarter_turns

__all__ = [
    "Anchors",
    "Turns",
    "anchored",
    "areas",
    "encoded",
    "left",
    "matched",
    "offsets",
    "read",
    "rotated",
    "turns",
    "within",
    "written",
]

_PLAIN = ("xyXY", "xyzXYZ")
Pair: TypeAlias = tuple[int, int]


def read(boxes: Array, layout: str) -> Array:
    """A copy of boxes whose coordinates are laid out in any order, with ends ("xyXY") or extents ("xyWH")."""
    if layout in _PLAIN:
        return boxes.copy()
    found = boxes[:, _order(layout)]
    if "W" in layout:
        half = len(layout) // 2
        found[:, half:] += found[:, :half]
    return found


def written(boxes: Array, layout: str) -> Array:
    """A copy of boxes in a layout."""
    if layout in _PLAIN:
        return boxes.copy()
    half = len(layout) // 2
    made = numpy.empty_like(boxes)
    made[:, _order(layout)] = boxes
    if "W" in layout:
        made[:, _order(layout)[half:]] -= boxes[:, :half]
    return made


def _order(layout: str) -> list[int]:
    """Where the starts and the ends, or the extents, of x, y and z are in a layout."""
    half = len(layout) // 2
    return [layout.index(letter) for letter in "xyz"[:half] + ("WHD" if "W" in layout else "XYZ")[:half]]


class Turns(NamedTuple):
    """How the image of each box is turned: arrays with one number for each, in the dtype of the boxes."""

    cos: Array
    sin: Array
    width: Array  #: of the image
    height: Array
    canvas_width: Array  #: of the turned image
    canvas_height: Array


def turns(
    angles: Sequence[float], images: Sequence[Pair], canvases: Sequence[Pair], counts: Sequence[int], dtype: Any
) -> Turns:
    """How the images of some samples are turned, for each of their boxes.

    Args:
        angles: Degrees, counter-clockwise.
        images: Width and height of each image.
        canvases: Width and height of each turned image.
        counts: How many boxes each sample has.
        dtype: Of the boxes.
    """
    each = [
        (*_cos_and_sin(angle), *image, *canvas) for angle, image, canvas in zip(angles, images, canvases, strict=True)
    ]
    return Turns(*numpy.repeat(numpy.array(each, dtype).reshape(-1, 6).T, counts, axis=1))


def rotated(boxes: Array, turns: Turns, mode: str, *, normalized: bool) -> Array:
    """The boxes around the boxes of rotated images, in pixels, which may reach over the edges.

    Args:
        boxes: Of two dimensions, float32 or float64.
        turns: How the image of each is turned.
        mode: "expand" keeps all of the rotated boxes inside, "fixed" their old size, "halfway" is between.
        normalized: Whether the boxes are in units of the image, not of pixels.
    """
    real = boxes.dtype.type
    cos, sin, width, height, canvas_width, canvas_height = (each[:, None] for each in turns)
    x, y = boxes[:, [0, 2, 0, 2]], boxes[:, [1, 1, 3, 3]]
    if normalized:
        x, y = (x - real(0.5)) * width, (y - real(0.5)) * height
    else:
        x, y = x - width / 2, y - height / 2
    turned_x, turned_y = x * cos + y * sin, y * cos - x * sin
    turned_x, turned_y = turned_x + canvas_width / 2, turned_y + canvas_height / 2
    found = numpy.empty_like(boxes)
    for d, turned in enumerate((turned_x, turned_y)):
        turned.min(1, out=found[:, d])
        turned.max(1, out=found[:, d + 2])
    if mode != "expand":
        _shrink(found, x[:, 1] - x[:, 0], y[:, 2] - y[:, 0], real(0.25 if mode == "halfway" else 0.5))
    return found


@functools.lru_cache(maxsize=256)
def _cos_and_sin(angle: float) -> tuple[float, float]:
    """Of an angle in degrees, exact for quarter turns; radians are rounded to float32, as DALI does."""
    quarters = quarter_turns(angle)
    if quarters is not None:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters]
    angle = angle if abs(angle) < 1e30 else math.fmod(angle, 360)
    radians = float(numpy.float32(math.radians(angle)))
    return math.cos(radians), math.sin(radians)


def _shrink(boxes: Array, width: Array, height: Array, share: Any) -> None:
    """Take a share of the growth of boxes from each side, about their centres.

    The longer side is compared with the longer one: it may have been the other before the turn.
    """
    new_width, new_height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    swapped = (width < height) != (new_width < new_height)
    less_width = (new_width - numpy.where(swapped, height, width)) * share
    less_height = (new_height - numpy.where(swapped, width, height)) * share
    boxes[:, 0] += less_width
    boxes[:, 1] += less_height
    boxes[:, 2] -= less_width
    boxes[:, 3] -= less_height


def within(boxes: Array, turns: Turns, least: float) -> tuple[Array, Array]:
    """Boxes cut off at the edges of their canvas, and which of them keep at least such a part of their area."""
    edges = numpy.stack([turns.canvas_width, turns.canvas_height] * 2, axis=1)
    cut = numpy.minimum(numpy.maximum(boxes, 0), edges)
    return cut, areas(cut) / areas(boxes) >= boxes.dtype.type(least)


def left(rows: Array, kept: Array, counts: Sequence[int]) -> list[Array]:
    """For each sample those of its rows that are kept.

    Args:
        rows: Those of all samples, one sample after the other.
        kept: For each row whether it is.
        counts: How many rows each sample has.
    """
    rows = rows[kept]
    ends = [0, *numpy.concatenate([[0], numpy.cumsum(kept)])[numpy.cumsum(counts)].tolist()]
    return [rows[start:end] for start, end in itertools.pairwise(ends)]


def areas(boxes: Array) -> Array:
    """The areas of boxes, or their volumes."""
    half = boxes.shape[1] // 2
    found = boxes[:, half] - boxes[:, 0]
    for d in range(1, half):
        found *= boxes[:, half + d] - boxes[:, d]
    return found


class Anchors(NamedTuple):
    """Boxes of which some will stand for others."""

    boxes: Array
    edges: Array  #: a row for each of left, top, right and bottom; from the last anchor to the first
    sizes: Array  #: their areas, in the same order


def anchored(boxes: Array) -> Anchors:
    """The properties of anchors that matching needs."""
    edges = numpy.ascontiguousarray(_ordered(boxes)[::-1].T)
    return Anchors(boxes, edges, (edges[2] - edges[0]) * (edges[3] - edges[1]))


def matched(boxes: Array, counts: Sequence[int], anchors: Anchors, criteria: float) -> tuple[Array, Array, Array]:
    """Which anchors stand for which boxes: each for the one that overlaps it most, if by more than `criteria`.

    Each box has the anchor that overlaps it most, unless a later box needs the same. Of equals the last one is taken.

    Args:
        boxes: Those of all samples, one sample after the other.
        counts: How many boxes each sample has.
        anchors: One or more.
        criteria: A part of the union of an anchor and a box.

    Returns:
        For each anchor of a sample that stands for a box: the number of the sample, of the anchor, and of the box.
    """
    sized, ordered, count = numpy.array(counts), _ordered(boxes), len(anchors.boxes)
    order = numpy.argsort(-sized, kind="stable")  # those that have an i-th box come before those that have none
    firsts = (numpy.cumsum(sized) - sized)[order]
    tiny = numpy.finfo(boxes.dtype).tiny
    best = numpy.full((len(counts), count), tiny, boxes.dtype)
    whose = numpy.zeros(best.shape, numpy.int32)  # the number of the box, from 1 on
    memory = numpy.empty((2, *best.shape), boxes.dtype)
    for i in range(max(counts)):
        having = numpy.count_nonzero(sized > i)
        overlaps, other = memory[:, :having]
        _overlaps(ordered[firsts[:having] + i], anchors, overlaps, other)
        overlaps[numpy.arange(having), overlaps.argmax(1)] = 2
        better = (overlaps >= best[:having]).view(numpy.int8)
        numpy.maximum(whose[:having], better * numpy.int32(i + 1), out=whose[:having])
        numpy.fmax(best[:having], overlaps, out=best[:having])
    standing = numpy.flatnonzero(best > max(boxes.dtype.type(criteria), tiny))
    rows, which = numpy.divmod(standing, count)
    return order[rows], count - 1 - which, firsts[rows] + whose.reshape(-1)[standing] - 1


def _ordered(boxes: Array) -> Array:
    """Boxes, those that end before they start without extents."""
    return numpy.concatenate([boxes[:, :2], numpy.maximum(boxes[:, 2:], boxes[:, :2])], axis=1)


def _overlaps(boxes: Array, anchors: Anchors, out: Array, other: Array) -> None:
    """Write the intersection of each box with each anchor, as a part of their union.

    Args:
        boxes: The boxes.
        anchors: The anchors.
        out: Where to: a row for each box, in the order of the edges.
        other: Memory as large.
    """
    left, top, right, bottom = boxes.T[:, :, None]
    x, y, end_x, end_y = anchors.edges
    numpy.clip(end_x, left, right, out=out)
    out -= numpy.clip(x, left, right, out=other)
    height = numpy.clip(end_y, top, bottom)
    height -= numpy.clip(y, top, bottom, out=other)
    out *= height
    numpy.add(anchors.sizes, (right - left) * (bottom - top), out=other)
    other -= out
    numpy.maximum(other, numpy.finfo(out.dtype).tiny, out=other)
    out /= other


def encoded(boxes: Array) -> Array:
    """The centres and extents of boxes."""
    found = numpy.empty_like(boxes)
    for d in range(2):  # a column is faster than two
        found[:, d] = (boxes[:, d] + boxes[:, d + 2]) / 2
        found[:, d + 2] = boxes[:, d + 2] - boxes[:, d]
    return found


def offsets(boxes: Array, anchors: Array, means: Sequence[float], stds: Sequence[float], scale: float) -> Array:
    """How far boxes are from anchors, in extents of these, and the logarithms of how much larger; normalised."""
    box, anchor = encoded(boxes) * boxes.dtype.type(scale), encoded(anchors) * boxes.dtype.type(scale)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        moved = (box[:, :2] - anchor[:, :2]) / anchor[:, 2:]
        grown = numpy.log(box[:, 2:] / anchor[:, 2:])
        found = numpy.concatenate([moved, grown], axis=1)
        return (found - numpy.array(means, found.dtype)) / numpy.array(stds, found.dtype)
