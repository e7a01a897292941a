"""Masks of objects as images of labels, made of polygons and run lengths as the COCO API makes them."""

from __future__ import annotations

import itertools

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty

from ._annotations import Annotated, Runs
from ._names import starts_of
from ._stored import Unusable

__all__ = ["counts_of", "drawn"]

_MOST_PIXELS = 2**27  # of a mask, as of an image that is decoded
_MOST_FILLED = 2**31  # pixels in a mask, each as often as labels are there; 16 labels may fill all of the largest
_MOST_CROSSINGS = 2**22  # of edges and columns; the masks of a real image have some thousand
_FARTHEST = 2**22  # pixels from the corner that a vertex may be; beyond, rounding would tell
_AT_ONCE = 2**20  # pixels of a mask that are filled, or transposed, in one call
_LONG = 64  # pixels of a span that is filled in a call of its own
_FINE = 5  # steps of a pixel's side in which COCO walks around a polygon


def drawn(listing: Annotated, sample: int) -> Array:
    """The mask of a sample: at each pixel the largest label of an object that it lies in."""
    assert listing.masks is not None
    height, width = listing.image_sizes[sample].tolist()
    if height * width > _MOST_PIXELS:
        raise Unusable(f"its mask of {height} x {width} pixels has more than {_MOST_PIXELS}")
    labels = listing.categories[listing.starts[sample] : listing.starts[sample + 1]]
    least, largest = (labels.min(), labels.max()) if len(labels) else (0, 0)
    columns = numpy.zeros((width, height), numpy.uint8 if least >= 0 and largest < 256 else numpy.int32)
    polygons, vertices = (
        column[starts[sample] : starts[sample + 1]]
        for column, starts in (
            (listing.masks.polygons, listing.masks.polygon_starts),
            (listing.masks.vertices, listing.masks.vertex_starts),
        )
    )
    spans = [_spans(polygons, vertices, height, width)] if len(polygons) else []
    spans += [_of_runs(runs, height, width) for runs in listing.masks.runs_of(sample)]
    if spans:
        objects, firsts, ends = numpy.concatenate(spans, axis=1)
        label_of = labels[objects]
        found = {
            label: _united(firsts[label_of == label], ends[label_of == label])
            for label in numpy.unique(label_of).tolist()
        }
        filled = sum(int((ends - firsts).sum()) for firsts, ends in found.values())
        if filled > _MOST_FILLED:
            raise Unusable(f"the masks of its {len(found)} labels fill {filled} pixels, more than {_MOST_FILLED}")
        for label, (firsts, ends) in found.items():
            _fill(columns.reshape(-1), firsts, ends, label)
    mask = empty((height, width, 1), numpy.dtype(numpy.int32))
    some = max(_AT_ONCE // height, 1)
    for first in range(0, width, some):
        mask[:, first : first + some, 0] = cv2.transpose(columns[first : first + some])
    return mask


def _united(firsts: Array, ends: Array) -> tuple[Array, Array]:
    """The spans that cover the same pixels once each, in order."""
    firsts, ends = firsts[ends > firsts], ends[ends > firsts]
    order = numpy.argsort(firsts, kind="stable")
    firsts, reach = firsts[order], numpy.maximum.accumulate(ends[order])
    begins, stops = numpy.ones((2, len(firsts)), numpy.bool_)
    begins[1:] = stops[:-1] = firsts[1:] > reach[:-1]
    return firsts[begins], reach[stops]


def _fill(pixels: Array, firsts: Array, ends: Array, label: int) -> None:
    """Set spans of pixels to a label."""
    long = ends - firsts >= _LONG
    for first, end in zip(firsts[long].tolist(), ends[long].tolist(), strict=True):
        pixels[first:end] = label
    firsts, lengths = firsts[~long], (ends - firsts)[~long]
    starts = starts_of(lengths)
    shifts = firsts - starts[:-1]
    cuts = [*numpy.searchsorted(starts, numpy.arange(0, starts[-1], _AT_ONCE)).tolist(), len(lengths)]
    for first, end in itertools.pairwise(cuts):
        pixels[numpy.repeat(shifts[first:end], lengths[first:end]) + numpy.arange(starts[first], starts[end])] = label


def _of_runs(runs: Runs, height: int, width: int) -> Array:
    """The spans of pixels, one column after the other, that run lengths cover: int64 of shape (3, spans)."""
    if (runs.height, runs.width) != (height, width):
        raise Unusable(
            f"the run lengths of object {runs.number} are of {runs.height} x {runs.width} pixels, its image "
            f"is of {height} x {width}"
        )
    ends = numpy.cumsum(counts_of(runs))
    pairs = ends[: len(ends) // 2 * 2].reshape(-1, 2)
    return numpy.stack([numpy.full(len(pairs), runs.number), pairs[:, 0], pairs[:, 1]])


def counts_of(runs: Runs) -> Array:
    """How many pixels are outside, inside, outside ...: int64. The rest is outside."""
    counts = _uncompressed(runs) if runs.counts.dtype == numpy.uint8 else runs.counts.astype(numpy.int64)
    if len(counts) and (counts.min() < 0 or counts.sum() > runs.height * runs.width):
        raise Unusable(f"the run lengths of object {runs.number} are not of {runs.height * runs.width} pixels")
    return counts


def _uncompressed(runs: Runs) -> Array:
    """The counts that a text of COCO says.

    Each character holds 5 bits of a number, lowest first, and whether more follow; the highest is its sign. From the
    fourth on, a number is the difference to the last but one.
    """
    bits = runs.counts.astype(numpy.int64) - 48
    if not len(bits):
        return bits
    last = bits & 32 == 0
    firsts = numpy.concatenate([[0], numpy.flatnonzero(last) + 1])
    lengths = numpy.diff(firsts)
    if bits.min() < 0 or bits.max() > 63 or firsts[-1] != len(bits) or lengths.max() > 7:
        raise Unusable(f"the run lengths of object {runs.number} are no compressed text of COCO")
    places = 5 * (numpy.arange(len(bits)) - numpy.repeat(firsts[:-1], lengths))
    numbers = numpy.add.reduceat((bits & 31) << places, firsts[:-1])
    numbers -= numpy.where(bits[last] & 16, 1 << 5 * lengths, 0)
    for start in (1, 2):
        numbers[start::2] = numpy.cumsum(numbers[start::2])
    return numbers


def _spans(polygons: Array, vertices: Array, height: int, width: int) -> Array:
    """The spans of pixels, one column after the other, that lie in polygons: int64 of shape (3, spans).

    The COCO API walks around a polygon in steps of a fifth of a pixel. Where it passes the middle of a column of
    pixels, the inside begins or ends, with the first pixel whose middle does not lie before the lower of the two steps.
    """
    far = numpy.flatnonzero((numpy.abs(vertices) > _FARTHEST).any(axis=1))
    if len(far):
        raise Unusable(f"a polygon has the vertex {vertices[far[0]].tolist()}, more than {_FARTHEST} pixels away")
    counts = polygons[:, 2] - polygons[:, 1]
    full = polygons[counts > 0]
    polygon = numpy.repeat(numpy.arange(len(polygons)), counts)
    following = numpy.arange(1, len(vertices) + 1)
    following[full[:, 2] - 1] = full[:, 1]
    corners = numpy.trunc(_FINE * vertices.astype(numpy.float64) + 0.5)
    edges = numpy.concatenate([corners, corners[following]], axis=1)
    edge, column, place = _crossings(edges, width)
    rows = numpy.clip(numpy.ceil((place - 2) / _FINE), 0, height).astype(numpy.int64)
    # in each column of each polygon there is an even number of them
    ordered = numpy.sort((polygon[edge] * width + column) * (height + 1) + rows)
    lines, firsts = numpy.divmod(ordered[0::2], height + 1)
    number, column = numpy.divmod(lines, width)
    firsts += column * height
    return numpy.stack([polygons[number, 0], firsts, firsts + ordered[1::2] - ordered[0::2]])


def _crossings(edges: Array, width: int) -> tuple[Array, Array, Array]:
    """Where edges pass the middles of columns of pixels: numbers of edges and columns, and the lower of the two steps.

    Edges are walked in the direction in which the longer side of theirs grows.
    """
    steep = numpy.abs(edges[:, 2] - edges[:, 0]) < numpy.abs(edges[:, 3] - edges[:, 1])
    back = numpy.where(steep, edges[:, 1] > edges[:, 3], edges[:, 0] > edges[:, 2])
    edges = numpy.where(back[:, None], edges[:, [2, 3, 0, 1]], edges)
    left, right = numpy.minimum(edges[:, 0], edges[:, 2]), numpy.maximum(edges[:, 0], edges[:, 2])
    first = numpy.maximum(numpy.ceil((left - 2) / _FINE), 0).astype(numpy.int64)
    end = numpy.minimum(numpy.floor((right - 3) / _FINE) + 1, width).astype(numpy.int64)
    counts = numpy.maximum(end - first, 0)
    starts = starts_of(counts)
    if starts[-1] > _MOST_CROSSINGS:
        raise Unusable(f"the edges of its polygons cross {starts[-1]} columns of pixels, more than {_MOST_CROSSINGS}")
    edge = numpy.repeat(numpy.arange(len(edges)), counts)
    column = numpy.arange(starts[-1]) - starts[:-1][edge] + first[edge]
    place = numpy.empty(len(edge))
    upright = steep[edge]
    for chosen, passed in ((upright, _passed_upright), (~upright, _passed_flat)):
        place[chosen] = passed(edges[edge[chosen]].T, _FINE * column[chosen] + 2.0)
    return edge, column, place


def _passed_flat(edges: Array, step: Array) -> Array:
    """The lower of the steps at, and behind, a horizontal place."""
    x, y, x_end, y_end = edges
    slope = (y_end - y) / (x_end - x)
    return numpy.minimum(numpy.trunc(y + slope * (step - x) + 0.5), numpy.trunc(y + slope * (step + 1 - x) + 0.5))


def _passed_upright(edges: Array, step: Array) -> Array:
    """The last step on the near side of the place behind a horizontal one."""
    x, y, x_end, y_end = edges
    slope = (x_end - x) / (y_end - y)
    steps = numpy.floor((step + 0.5 - x) / slope) + 2
    for _ in range(4):  # the division is less exact than the rounded place of a step, which decides
        steps -= (x + slope * steps + 0.5 >= step + 1) == (slope > 0)
    return y + steps
