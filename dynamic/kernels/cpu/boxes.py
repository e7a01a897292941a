"""Bounding boxes: their layouts, how they turn with an image, and which anchors they match.

Boxes are arrays of shape (n, 2 * d): where they start, then where they end, x before y before z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._array import Array

from .warp import quarter_turns

__all__ = ["areas", "encoded", "matched", "offsets", "read", "rotated", "within", "written"]

_PAIRS = 1 << 18  # of boxes and anchors that are compared at once


def read(boxes: Array, layout: str) -> Array:
    """A copy of boxes whose coordinates are laid out in any order, with ends ("xyXY") or extents ("xyWH")."""
    found = boxes[:, _order(layout)]
    if "W" in layout:
        half = len(layout) // 2
        found[:, half:] += found[:, :half]
    return found


def written(boxes: Array, layout: str) -> Array:
    """A copy of boxes in a layout."""
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
    found = numpy.stack([turned_x.min(1), turned_y.min(1), turned_x.max(1), turned_y.max(1)], axis=1)
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
    cut = numpy.clip(boxes, 0, numpy.array(canvas * 2, boxes.dtype))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        kept = areas(cut) / areas(boxes) >= boxes.dtype.type(least)
    return cut[kept], kept


def areas(boxes: Array) -> Array:
    """The areas of boxes, or their volumes."""
    half = boxes.shape[1] // 2
    return numpy.prod(boxes[:, half:] - boxes[:, :half], axis=1, dtype=boxes.dtype)


def matched(boxes: Array, anchors: Array, criteria: float) -> tuple[Array, Array]:
    """Which anchor stands for which box: the box that overlaps it most, if it does so by more than `criteria`.

    Each box has the anchor that overlaps it most, unless a later box needs the same. Of equals the last one is taken.

    Args:
        boxes: One or more.
        anchors: One or more.
        criteria: A part of the union of an anchor and a box.

    Returns:
        For each anchor its box, and whether it stands for one.
    """
    best, whose = numpy.full(len(anchors), -1, boxes.dtype), numpy.zeros(len(anchors), numpy.intp)
    at_once = max(1, _PAIRS // len(anchors))
    every = numpy.arange(len(anchors))
    for start in range(0, len(boxes), at_once):
        part = _overlaps(boxes[start : start + at_once], anchors)
        part[numpy.arange(len(part)), len(anchors) - 1 - part[:, ::-1].argmax(1)] = 2
        last = len(part) - 1 - part[::-1].argmax(0)
        found = part[last, every]
        better = found >= best
        best[better], whose[better] = found[better], start + last[better]
    return whose, best > boxes.dtype.type(criteria)


def _overlaps(boxes: Array, anchors: Array) -> Array:
    """The intersection of each box with each anchor, as a part of their union."""
    common = numpy.minimum(boxes[:, None, 2], anchors[:, 2]) - numpy.maximum(boxes[:, None, 0], anchors[:, 0])
    height = numpy.minimum(boxes[:, None, 3], anchors[:, 3]) - numpy.maximum(boxes[:, None, 1], anchors[:, 1])
    numpy.maximum(common, 0, out=common)
    common *= numpy.maximum(height, 0, out=height)
    union = numpy.add(areas(boxes)[:, None], areas(anchors), out=height)
    union -= common
    return numpy.divide(common, union, out=common, where=common > 0)


def encoded(boxes: Array) -> Array:
    """The centres and extents of boxes."""
    starts, ends = boxes[:, :2], boxes[:, 2:]
    return numpy.concatenate([(starts + ends) / 2, ends - starts], axis=1)


def offsets(boxes: Array, anchors: Array, means: Sequence[float], stds: Sequence[float], scale: float) -> Array:
    """How far boxes are from anchors, in extents of these, and the logarithms of how much larger; normalised."""
    box, anchor = encoded(boxes) * boxes.dtype.type(scale), encoded(anchors) * boxes.dtype.type(scale)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        moved = (box[:, :2] - anchor[:, :2]) / anchor[:, 2:]
        grown = numpy.log(box[:, 2:] / anchor[:, 2:])
        found = numpy.concatenate([moved, grown], axis=1)
        return (found - numpy.array(means, found.dtype)) / numpy.array(stds, found.dtype)
