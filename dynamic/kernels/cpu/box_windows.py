"""Random windows that overlap bounding boxes as they should, drawn word by word as DALI draws them.

A word may begin a window, or be its second word, depending on the windows before it. So windows are computed for all
words at once, and then it is found which of them were drawn.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy

from dynamic._array import Array
from dynamic._distributions import below
from dynamic._drawing import Words
from dynamic._rejection import permutation

from .boxes import areas

__all__ = ["Found", "Rules", "remapped", "search"]

_AT_ONCE = 256  # windows that are compared with boxes at once
_UNIT = numpy.float32(2.0**-32)
_BELOW_ONE = numpy.float32(1 - 2.0**-24)

Extents: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a window must be like."""

    thresholds: tuple[float | None, ...]  #: least overlaps, of which one is drawn; None is for the whole image
    attempts: int  #: how many windows are drawn for a threshold
    most: int  #: no new threshold is drawn after so many windows
    scaling: tuple[float, float]  #: range of the extents
    ratios: tuple[tuple[float, float], ...]  #: ranges of x / y, x / z and y / z, or one for all
    of_boxes: bool  #: whether overlap is a part of the box, not of the union of box and window
    all_boxes: bool  #: whether each box must overlap so much, not only one
    prune: float | None  #: the least part of a box that must be left; None: its centre must be inside


class Found(NamedTuple):
    """A window."""

    window: Array  #: its start and end, in units of the image
    pixels: Extents | None  #: its start in pixels, where it has a fixed size
    kept: Array  #: which boxes are left


def search(
    words: Words, boxes: Array, rules: Rules, image: Extents | None, crop: Extents | None
) -> tuple[Found | None, bool]:
    """Draw windows for a threshold, and for another one until any window was good; then take the last good one.

    Args:
        words: The words of the sample.
        boxes: float32, starts and ends in units of the image.
        rules: What the window must be like.
        image: The extents of the image, x first, where they are known.
        crop: The extents of the window in pixels, or None for random ones.

    Returns:
        A window, or None for the whole image; and whether it is as the rules say, not only the best one.
    """
    source = _Random(rules, boxes.shape[1] // 2, image) if crop is None else _Fixed(crop, image or ())
    sizes = areas(boxes)
    count, best = 0, -1.0
    found: Found | None = None
    good = False
    while not good and count < rules.most:
        threshold = rules.thresholds[below(words, len(rules.thresholds))]
        if threshold is None:
            return None, True
        for start in range(0, rules.attempts, _AT_ONCE):
            windows, pixels = source.draw(words, min(_AT_ONCE, rules.attempts - start))
            chosen = None
            for k, overlap in enumerate(_overlaps(windows, boxes, sizes, rules)):
                if overlap >= threshold or overlap > best:
                    best, chosen = overlap, k
            if chosen is not None:
                kept = _kept(windows[chosen], boxes, rules.prune)
                found = Found(windows[chosen], pixels[chosen] if pixels else None, kept)
                good = best >= threshold and (not len(boxes) or bool(kept.any()))
        count += rules.attempts
    return found, good


def _overlaps(windows: Array, boxes: Array, sizes: Array, rules: Rules) -> list[float]:
    """For each window the least overlap with a box, or the largest one if one box is enough."""
    if not len(boxes) or not len(windows):
        return [0.0] * len(windows)
    common = _common(windows, boxes)
    whole = numpy.broadcast_to(sizes, common.shape)
    if not rules.of_boxes:
        whole = sizes + areas(windows)[:, None] - common
    found = numpy.divide(common, whole, out=numpy.zeros_like(common), where=common > 0)
    overlaps: list[float] = (found.min(1) if rules.all_boxes else found.max(1)).tolist()
    return overlaps


def _common(windows: Array, boxes: Array) -> Array:
    """The area that each window has in common with each box."""
    ndim = boxes.shape[1] // 2
    extents = [
        numpy.minimum(windows[:, None, ndim + d], boxes[:, ndim + d]) - numpy.maximum(windows[:, None, d], boxes[:, d])
        for d in range(ndim)
    ]
    found = numpy.maximum(extents[0], 0)
    for extent in extents[1:]:
        found *= numpy.maximum(extent, 0)
    return found


def _kept(window: Array, boxes: Array, prune: float | None) -> Array:
    """Which boxes are left in a window."""
    ndim = boxes.shape[1] // 2
    if prune is None:
        centres = (boxes[:, :ndim] + boxes[:, ndim:]) / 2
        return numpy.asarray(((window[:ndim] <= centres) & (centres < window[ndim:])).all(1))
    common = _common(window[None], boxes)[0]
    parts = numpy.divide(common, areas(boxes), out=numpy.zeros_like(common), where=common > 0)
    return (parts >= numpy.float32(prune)) & (parts > 0)


def remapped(boxes: Array, window: Array) -> Array:
    """Boxes in units of a window, cut off at its edges."""
    ndim = boxes.shape[1] // 2
    low, high = window[:ndim], window[ndim:]
    corners = numpy.maximum(boxes[:, :ndim], low), numpy.minimum(boxes[:, ndim:], high)
    return numpy.concatenate([numpy.clip((corner - low) / (high - low), 0, 1) for corner in corners], axis=1)


class _Fixed:
    """Windows of a fixed size in pixels; where it is larger than the image, that lies inside of it."""

    def __init__(self, crop: Extents, image: Extents) -> None:
        self._crop, self._image = crop, image

    def draw(self, words: Words, attempts: int) -> tuple[Array, list[Extents]]:
        """Some windows, and where they begin in pixels."""
        starts = []
        for _ in range(attempts):
            room = [whole - part for part, whole in zip(self._crop, self._image, strict=True)]
            starts.append(tuple(below(words, abs(r) + 1) + min(r, 0) if r else 0 for r in room))
        image = numpy.array(self._image, numpy.float32)
        low = numpy.array(starts, numpy.float32) / image
        return numpy.concatenate([low, numpy.array(self._crop, numpy.float32) / image + low], axis=1), starts


@functools.lru_cache(maxsize=64)
def _ratios(given: tuple[tuple[float, float], ...], ndim: int) -> tuple[dict[Pair, Any], dict[Pair, Any]]:
    """The allowed ratios of each two extents, float32, and those of them, either way round, that are one number."""
    ranges = [(numpy.float32(least), numpy.float32(largest)) for least, largest in given]
    pairs = itertools.combinations(range(ndim), 2)
    allowed = {pair: ranges[k % len(ranges)] for k, pair in enumerate(pairs)}
    fixed = {pair: least for pair, (least, largest) in allowed.items() if least == largest}
    return allowed, {**fixed, **{(j, i): numpy.float32(1 / float(ratio)) for (i, j), ratio in fixed.items()}}


class _Random:
    """Windows of random extents and places."""

    def __init__(self, rules: Rules, ndim: int, image: Extents | None) -> None:
        self._ndim = ndim
        low, high = (numpy.float32(bound) for bound in rules.scaling)
        self._low, self._range = low, high - low
        self._image = None if image is None else numpy.array(image, numpy.float32)[:, None]
        self._ratios, self._fixed = _ratios(rules.ratios, ndim)
        self._first = self._end = 0  # the words whose windows are known
        self._fits: list[bool] = []

    def draw(self, words: Words, attempts: int) -> tuple[Array, None]:
        """The windows of some attempts; those without an allowed aspect ratio are left out."""
        end = words.place + 2 * self._ndim * attempts
        if self._end < end:
            words.look(end + 1)
            self._prepare(words)
        place, places = words.place - self._first, []
        for _ in range(attempts):
            if self._fits[place]:
                places.append(place)
                place += self._ndim
            place += self._ndim
        words.place = self._first + place
        starts = self._starts[:, places]
        return numpy.concatenate([starts, starts + self._extents[:, places]]).T, None

    def _prepare(self, words: Words) -> None:
        """Compute the windows of all known words from this place on."""
        ndim, self._first, self._end = self._ndim, words.place, len(words.known) - 1
        found = numpy.array(words.known[words.place :], numpy.uint32)
        units = numpy.minimum(found.astype(numpy.float32) * _UNIT, _BELOW_ONE)
        count = len(units) - 2 * ndim
        each = numpy.arange(ndim)[:, None] + numpy.arange(count)
        extents = (units * self._range + self._low)[each]
        absolute = extents if self._image is None else extents * self._image
        if self._fixed:
            absolute = self._with_fixed_ratios(absolute, found[ndim : ndim + count])
            extents = absolute if self._image is None else absolute / self._image
        fits = numpy.ones(count, bool)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            for (i, j), (least, largest) in self._ratios.items():
                ratio = absolute[i] / absolute[j]
                fits &= (least <= ratio) & (ratio <= largest)
        self._starts, self._extents, self._fits = units[each + ndim] * (1 - extents), extents, fits.tolist()

    def _with_fixed_ratios(self, extents: Array, words: Array) -> Array:
        """Set extents that have a fixed ratio to others, in random order, and keep the largest extent."""
        orders = math.factorial(self._ndim)
        drawn = words.astype(numpy.uint64) * numpy.uint64(orders) >> numpy.uint64(32)
        found = extents.copy()
        for number in range(orders):
            order = permutation(iter([((2 * number + 1) << 31) // orders]), self._ndim)
            part = found[:, drawn == number]
            for first, second in itertools.combinations(order, 2):
                ratio = self._fixed.get((second, first))
                if ratio is not None:
                    part[second] = part[first] * ratio
            found[:, drawn == number] = part
        with numpy.errstate(divide="ignore", invalid="ignore"):
            return extents.max(0) * found / found.max(0)
