"""Points and boxes that move with the pixels of their images.

Points are (x, y) in pixels from the corner of the first pixel, whose centre is at 0.5. A map is a matrix (3, 3) from
points (x, y, 1) of an image to those of a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays.array import Array

__all__ = ["around", "inverses", "moved", "scaled"]

_NEAR = 1e-9  # the least third coordinate of a point, as a part of the largest of its box, that is not at infinity


def scaled(scales: Any, shifts: Any) -> Array:
    """Maps that multiply coordinates and then shift them.

    Args:
        scales: (N, 2), or numbers that broadcast to it, x before y.
        shifts: (N, 2).
    """
    shifts = numpy.asarray(shifts, numpy.float64)
    maps = numpy.zeros((len(shifts), 3, 3))
    maps[:, 0, 0], maps[:, 1, 1] = numpy.broadcast_to(scales, shifts.shape).T
    maps[:, :2, 2], maps[:, 2, 2] = shifts, 1
    return maps


def inverses(rows: Any) -> Array | None:
    """The maps of matrices the other way round, of two rows or of three; None where one has no inverse."""
    rows = numpy.asarray(rows, numpy.float64)
    rows = rows.reshape(len(rows), -1, 3)
    maps = numpy.zeros((len(rows), 3, 3))
    maps[:, 2, 2] = 1
    maps[:, : rows.shape[1]] = rows
    try:
        found = numpy.linalg.inv(maps)
    except numpy.linalg.LinAlgError:
        return None
    return found if numpy.isfinite(found).all() else None


def moved(points: Array, maps: Array, counts: Sequence[int]) -> Array:
    """Points of images as points of the results.

    Args:
        points: (M, 2) float64, those of all images, one image after the other.
        maps: (N, 3, 3), that of each image.
        counts: How many points each image has.
    """
    each = numpy.repeat(maps, counts, axis=0)
    x, y = points[:, 0], points[:, 1]
    u, v, w = (each[:, i, 0] * x + each[:, i, 1] * y + each[:, i, 2] for i in range(3))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.stack([u / w, v / w], axis=1)


def around(boxes: Array, maps: Array, extents: Array, counts: Sequence[int]) -> tuple[Array, Array]:
    """The boxes around the moved corners of boxes, cut off at the edges of the results.

    A perspective may show a box on both sides of its horizon, or a part of it beyond all bounds.

    Args:
        boxes: (M, 4) float64, left, top, right, bottom; those of all images, one image after the other.
        maps: (N, 3, 3), that of each image.
        extents: (N, 2), width and height of each result.
        counts: How many boxes each image has.

    Returns:
        The boxes, without extents where nothing is left; and the part of the area of each that is left.
    """
    edges = numpy.repeat(extents.astype(numpy.float64), counts, axis=0)
    edges = numpy.concatenate([edges, edges], axis=1)
    affine = (maps[:, 2] == (0, 0, 1)).all()
    each = numpy.repeat(maps, counts, axis=0)
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]
    u, v = (each[:, i, :1] * x + each[:, i, 1:2] * y + each[:, i, 2:] for i in range(2))
    if affine:
        found = _bounds(u, v)
        cut = numpy.clip(found, 0, edges)
        return cut, _areas(cut) / numpy.maximum(_areas(found), numpy.finfo(numpy.float64).tiny)
    w = each[:, 2, :1] * x + each[:, 2, 1:2] * y + each[:, 2, 2:]
    near, far = (_before_horizon(sign * u, sign * v, sign * w) for sign in (1, -1))
    parts = [numpy.clip(part, 0, edges) for part in (near, far)]
    seen = [_areas(part) > 0 for part in parts]
    cut = numpy.where(seen[0][:, None], parts[0], parts[1])
    both = seen[0] & seen[1]
    low, high = numpy.minimum(*parts), numpy.maximum(*parts)
    cut[both] = numpy.concatenate([low[:, :2], high[:, 2:]], axis=1)[both]
    whole = numpy.maximum(sum(_areas(part) for part in (near, far)), numpy.finfo(numpy.float64).tiny)
    return cut, sum(_areas(part) for part in parts) / whole


def _before_horizon(u: Array, v: Array, w: Array) -> Array:
    """The boxes around the parts of quadrangles whose third coordinate is positive; without extents if there is none.

    A side that crosses the horizon ends near it.
    """
    least = _NEAR * numpy.abs(w).max(axis=1, keepdims=True, initial=0)
    after = [numpy.roll(each, -1, axis=1) for each in (u, v, w)]
    crosses = (w > least) != (after[2] > least)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        share = (least - w) / (after[2] - w)
        ends = [each + share * (next_ - each) for each, next_ in zip((u, v), after, strict=False)]
        seen = numpy.concatenate([w > least, crosses], axis=1)
        points = [
            numpy.where(seen, numpy.concatenate([own / w, end / least], axis=1), numpy.nan)
            for own, end in zip((u, v), ends, strict=True)
        ]
    hidden = ~(w > least).any(axis=1)
    for each in points:
        each[hidden] = 0
    return _bounds(*points)


def _bounds(x: Array, y: Array) -> Array:
    """The boxes around points, of which some may not be a number."""
    return numpy.stack([reduced(each, 1) for reduced in (numpy.fmin.reduce, numpy.fmax.reduce) for each in (x, y)], 1)


def _areas(boxes: Array) -> Array:
    with numpy.errstate(over="ignore"):
        areas: Array = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return areas
