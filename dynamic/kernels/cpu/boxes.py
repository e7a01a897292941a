"""Bounding boxes: their layouts, how they turn with an image, and which anchors they match.

Boxes are arrays of shape (n, 2 * d): where they start, then where they end, x before y before z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._array import Array

from .rotations import quarter_turns

__all__ = ["areas", "encoded", "matched", "offsets", "read", "rotated", "within", "written"]

_PLAIN = ("xyXY", "xyzXYZ")


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


def rotated(
    boxes: Array, angle: float, size: tuple[int, int], canvas: tuple[int, int], mode: str, *, normalized: bool
) -> Array:
    """The boxes around the boxes of a rotated image, in pixels, which may reach over its edges.

    Args:
        boxes: Of two dimensions, float32 or float64.
        angle: Degrees, counter-clockwise.
        size: Width and height of the image.
        canvas: Width and height of the rotated image.
        mode: "expand" keeps all of the rotated boxes inside, "fixed" their old size, "halfway" is between.
        normalized: Whether the boxes are in units of the image, not of pixels.
    """
    real = boxes.dtype.type
    (width, height), (canvas_width, canvas_height) = map(real, size), map(real, canvas)
    x, y = boxes[:, [0, 2, 0, 2]], boxes[:, [1, 1, 3, 3]]
    if normalized:
        x, y = (x - real(0.5)) * width, (y - real(0.5)) * height
    else:
        x, y = x - width / 2, y - height / 2
    cos, sin = map(real, _cos_and_sin(angle))
    turned_x, turned_y = x * cos + y * sin, y * cos - x * sin
    turned_x, turned_y = turned_x + canvas_width / 2, turned_y + canvas_height / 2
    found = numpy.empty_like(boxes)
    for d, turned in enumerate((turned_x, turned_y)):
        turned.min(1, out=found[:, d])
        turned.max(1, out=found[:, d + 2])
    if mode != "expand":
        _shrink(found, x[:, 1] - x[:, 0], y[:, 2] - y[:, 0], real(0.25 if mode == "halfway" else 0.5))
    return found


def _cos_and_sin(angle: float) -> tuple[float, float]:
    """Of an angle in degrees, exact for quarter turns; radians are rounded to float32, as DALI does."""
    quarters = quarter_turns(angle)
    if quarters is not None:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters]
    radians = float(numpy.float32(math.radians(angle)))
    return math.cos(radians), math.sin(radians)


def _shrink(boxes: Array, width: Array, height: Array, share: Any) -> None:
    """Take from each side a share of what boxes have grown by, about their centres.

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


def within(boxes: Array, canvas: tuple[int, int], least: float) -> tuple[Array, Array]:
    """Boxes cut off at the edges of a canvas, and which of them keep at least such a part of their area."""
    cut = numpy.minimum(numpy.maximum(boxes, 0), numpy.array(canvas * 2, boxes.dtype))
    kept = areas(cut) / areas(boxes) >= boxes.dtype.type(least)
    return cut[kept], kept


def areas(boxes: Array) -> Array:
    """The areas of boxes, or their volumes."""
    half = boxes.shape[1] // 2
    found = boxes[:, half] - boxes[:, 0]
    for d in range(1, half):
        found *= boxes[:, half + d] - boxes[:, d]
    return found


def matched(boxes: Array, anchors: Array, criteria: float) -> tuple[Array, Array]:
    """Which anchor stands for which box: the box that overlaps it most, if it does so by more than `criteria`.

    Each box has the anchor that overlaps it most, unless a later box needs the same. Of equals the last one is taken.

    Args:
        boxes: Any number.
        anchors: One or more.
        criteria: A part of the union of an anchor and a box.

    Returns:
        For each anchor its box, and whether it stands for one.
    """
    columns = numpy.ascontiguousarray(_ordered(anchors).T)
    sizes = (columns[2] - columns[0]) * (columns[3] - columns[1])
    best = numpy.full(len(anchors), numpy.finfo(boxes.dtype).tiny, boxes.dtype)
    whose = numpy.zeros(len(anchors), numpy.intp)
    overlaps, other = numpy.empty_like(best), numpy.empty_like(best)
    for i, box in enumerate(_ordered(boxes)):
        _overlaps(box, columns, sizes, overlaps, other)
        overlaps[len(overlaps) - 1 - int(overlaps[::-1].argmax())] = 2
        better = numpy.flatnonzero(overlaps >= best)
        best[better], whose[better] = overlaps[better], i
    return whose, best > max(boxes.dtype.type(criteria), numpy.finfo(boxes.dtype).tiny)


def _ordered(boxes: Array) -> Array:
    """Boxes, those that end before they start without extents."""
    return numpy.concatenate([boxes[:, :2], numpy.maximum(boxes[:, 2:], boxes[:, :2])], axis=1)


def _overlaps(box: Array, anchors: Array, sizes: Array, out: Array, other: Array) -> None:
    """Write the intersection of a box with each anchor, as a part of their union.

    Args:
        box: The box.
        anchors: A row for each coordinate.
        sizes: Their areas.
        out: Where to.
        other: Memory as large.
    """
    numpy.clip(anchors[2], box[0], box[2], out=out)
    out -= numpy.clip(anchors[0], box[0], box[2], out=other)
    height = numpy.clip(anchors[3], box[1], box[3])
    height -= numpy.clip(anchors[1], box[1], box[3], out=other)
    out *= height
    numpy.add(sizes, (box[2] - box[0]) * (box[3] - box[1]), out=other)
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
