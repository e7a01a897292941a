"""Masks of labels: which there are, where their objects are, and single pixels of them."""

from __future__ import annotations

import math

import cv2
import numpy

from dynamic._arrays.array import Array

__all__ = ["labels", "objects", "pixel", "regions"]


def labels(mask: Array) -> list[int]:
    """The values of a mask, in ascending order."""
    flat = mask.reshape(-1)
    if not flat.size:
        return []
    changes = numpy.flatnonzero(flat[1:] != flat[:-1])
    found: list[int] = numpy.unique(flat[numpy.concatenate([[0], changes + 1])]).tolist()
    return found


def pixel(mask: Array, number: int) -> tuple[int, ...]:
    """The place of a pixel that is set, where these are numbered in the order of memory.

    Args:
        mask: bool, of any shape.
        number: Less than the number of pixels that are set.
    """
    rows = mask.reshape(-1, mask.shape[-1])
    ends = numpy.cumsum(numpy.count_nonzero(rows, axis=1))
    row = int(numpy.searchsorted(ends, number, side="right"))
    column = numpy.flatnonzero(rows[row])[number - (int(ends[row - 1]) if row else 0)]
    return tuple(map(int, numpy.unravel_index(row * mask.shape[-1] + int(column), mask.shape)))


def objects(mask: Array, label: int) -> Array:
    """The bounding boxes of connected elements of a value.

    Args:
        mask: Any array of one dimension or more. Elements are connected if they differ by one in one index.
        label: The value.

    Returns:
        int64 of shape (n, 2, ndim): where each begins and ends, in the order of their first elements.
    """
    planes = _planes(mask)
    slices, height, width = planes.shape
    image = numpy.zeros((slices, height + 1, width), numpy.uint8)  # a row of zeros parts the slices
    numpy.equal(planes, label, out=image[:, :height].view(numpy.bool_))
    return _boxes(image, mask, 1)


def regions(mask: Array, background: int) -> Array:
    """The bounding boxes of connected elements that have the same value, whatever it is, but for the background."""
    planes = _planes(mask)
    slices, height, width = planes.shape
    image = numpy.zeros((slices, 2 * height, max(2 * width - 1, 0)), numpy.uint8)
    flags = image.view(numpy.bool_)  # of elements whether they are wanted, and between two whether they are equal
    wanted = numpy.not_equal(planes, background)
    flags[:, ::2, ::2] = wanted
    flags[:, ::2, 1::2] = wanted[:, :, 1:] & (planes[:, :, 1:] == planes[:, :, :-1])
    flags[:, 1:-1:2, ::2] = wanted[:, 1:] & (planes[:, 1:] == planes[:, :-1])
    return _boxes(image, mask, 2)


def _planes(mask: Array) -> Array:
    """A view of a mask as slices of two dimensions."""
    shape = (1, 1, *mask.shape)
    return mask.reshape(math.prod(shape[:-2]), *shape[-2:])


def _boxes(image: Array, mask: Array, step: int) -> Array:
    """The bounding boxes of the connected components of a mask.

    Args:
        image: Slices of set elements, uint8, with a row of zeros below each.
        mask: The mask.
        step: How far the elements of the mask are apart in the image.
    """
    slices, rows, columns = image.shape
    if not mask.size:
        return numpy.empty((0, 2, mask.ndim), numpy.int64)
    flat = image.reshape(slices * rows, columns)
    x, y, width, height = cv2.boundingRect(flat)  # most of an image is often empty, and finding out takes little time
    part = flat[y : y + height, x : x + width] if slices == 1 and width else flat
    _, numbers, statistics, _ = cv2.connectedComponentsWithStats(part, connectivity=4)
    left, top, width, height = statistics[1:, :4].T.astype(numpy.int64)
    if part is not flat:
        left, top = left + x, top + y
    slice_of, top = numpy.divmod(top, rows)
    starts = [*numpy.unravel_index(slice_of, (1, *mask.shape[:-2])), top // step, left // step]
    extents = [numpy.ones_like(top)] * (len(starts) - 2) + [(height + step - 1) // step, (width + step - 1) // step]
    low, size = numpy.stack(starts, axis=1), numpy.stack(extents, axis=1)
    boxes = numpy.stack([low, low + size], axis=1)[:, :, -mask.ndim :]
    if slices == 1:
        return boxes
    places = numbers.reshape(*mask.shape[:-2], rows, columns)[..., ::step, ::step][..., : mask.shape[-2], :]
    first = _joined(len(boxes), *_touching(places, mask))
    merged = boxes.copy()
    numpy.minimum.at(merged[:, 0], first, boxes[:, 0])
    numpy.maximum.at(merged[:, 1], first, boxes[:, 1])
    return merged[numpy.unique(first)]


def _touching(numbers: Array, mask: Array) -> tuple[Array, Array]:
    """Which parts of slices touch each other in another slice and have the same value, pairs of numbers from 0 on."""
    count = int(numbers.max(initial=0))
    pairs = [numpy.empty(0, numpy.int64)]
    for axis in range(mask.ndim - 2):
        ahead = (slice(None),) * axis
        one, other = (*ahead, slice(None, -1)), (*ahead, slice(1, None))
        both = (numbers[one] > 0) & (numbers[other] > 0) & (mask[one] == mask[other])
        pair = (numbers[one][both].astype(numpy.int64) - 1) * count + (numbers[other][both] - 1)
        pairs.append(pair[numpy.flatnonzero(numpy.diff(pair, prepend=-1))])  # most repeat the one before
    return numpy.divmod(numpy.unique(numpy.concatenate(pairs)), max(1, count))


def _joined(count: int, a: Array, b: Array) -> Array:
    """For each of `count` parts the first one that it is joined with, by pairs of parts and in any number of steps."""
    first = numpy.arange(count)
    while True:
        low, high = numpy.minimum(first[a], first[b]), numpy.maximum(first[a], first[b])
        if (low == high).all():
            return first
        numpy.minimum.at(first, high, low)
        while (first[first] != first).any():
            first = first[first]
