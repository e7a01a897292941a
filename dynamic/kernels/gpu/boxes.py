"""Which anchors boxes match, and the targets of a detector, in functions that CuPy has as NumPy has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays.array import Array, library

__all__ = ["encoded", "matched", "offsets"]


@numpy.errstate(all="ignore")
def matched(boxes: Array, anchors: Array, criteria: float) -> tuple[Array, Array]:
    """For each anchor the box that it stands for, and whether it stands for one; boxes (n, 4), anchors (m, 4)."""
    xp, tiny = library(boxes), boxes.dtype.type(numpy.finfo(boxes.dtype).tiny)
    count = len(boxes)
    (left, top, right, bottom), (x, y, end_x, end_y) = _edges(xp, boxes[:, None]), _edges(xp, anchors[None])
    width = xp.minimum(xp.maximum(end_x, left), right) - xp.minimum(xp.maximum(x, left), right)
    height = xp.minimum(xp.maximum(end_y, top), bottom) - xp.minimum(xp.maximum(y, top), bottom)
    common = width * height
    areas = (end_x - x) * (end_y - y) + (right - left) * (bottom - top)
    overlaps = common / xp.maximum(areas - common, tiny)
    numbers = xp.arange(len(anchors), dtype=numpy.int64)
    best = len(anchors) - 1 - xp.argmax(overlaps[:, ::-1], axis=1)  # the last of those that overlap most
    overlaps = xp.where(best[:, None] == numbers, boxes.dtype.type(2), xp.where(xp.isnan(overlaps), tiny, overlaps))
    most = overlaps.max(axis=0)
    whose = count - 1 - xp.argmax(overlaps[::-1], axis=0)
    return whose, most > max(boxes.dtype.type(criteria), tiny)


def _edges(xp: Any, boxes: Array) -> tuple[Array, Array, Array, Array]:
    """The edges of boxes, those that end before they start without extents."""
    left, top = boxes[..., 0], boxes[..., 1]
    return left, top, xp.maximum(boxes[..., 2], left), xp.maximum(boxes[..., 3], top)


def encoded(boxes: Array) -> Array:
    """The centres and extents of boxes."""
    start, end = boxes[:, :2], boxes[:, 2:]
    return library(boxes).concatenate([(start + end) / 2, end - start], axis=1)


@numpy.errstate(all="ignore")
def offsets(boxes: Array, anchors: Array, means: Sequence[float], stds: Sequence[float], scale: float) -> Array:
    """How far boxes are from anchors, in extents of these, and the logarithms of how much larger; normalised."""
    xp, real = library(boxes), boxes.dtype.type
    box, anchor = encoded(boxes) * real(scale), encoded(anchors) * real(scale)
    moved = (box[:, :2] - anchor[:, :2]) / anchor[:, 2:]
    found = xp.concatenate([moved, xp.log(box[:, 2:] / anchor[:, 2:])], axis=1)
    return (found - xp.asarray(means, boxes.dtype)) / xp.asarray(stds, boxes.dtype)
