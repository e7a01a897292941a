"""Random windows that overlap bounding boxes as they should, drawn word by word as DALI draws them.

A word may begin a window, or be its second word, depending on the windows before it. So windows are computed for all
words at once, and then it is found which of them were drawn: of all samples together, and for many thresholds, of which
those after the last one that was needed are forgotten.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._core import random as core
from dynamic.kernels.cpu.boxes import areas

from ._distributions import below
from ._drawing import Words
from ._philox import Draw
from ._rejection import permutation

__all__ = ["Found", "Rules", "remapped", "search"]

_AT_ONCE = 1 << 12  # windows that are drawn at once, of all samples together
_FIRST_ROUNDS = 16  # thresholds that are drawn at once at first: most samples need few
_PAIRS = 1 << 18  # of windows and boxes that are compared at once
_SPARE = 8  # words; a threshold may reject some, each about once in a billion times
_UNIT = numpy.float32(2.0**-32)
_BELOW_ONE = numpy.float32(1 - 2.0**-24)

Extents: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a window."""

    thresholds: tuple[float | None, ...]  #: least overlaps, of which one is drawn; None, the last, is the whole image
    attempts: int  #: how many windows are drawn for a threshold
    most: int  #: no new threshold is drawn after so many windows
    scaling: tuple[float, float]  #: range of the extents
    ratios: tuple[tuple[float, float], ...]  #: ranges of x / y, x / z and y / z, or one for all
    of_boxes: bool  #: whether overlap is a part of the box, not of the union of box and window
    all_boxes: bool  #: whether each box must overlap so much, not only one
    prune: float | None  #: the least part of a box that must be left; None: its centre must be inside


class Found(NamedTuple):
    """The windows of some samples, and the rest of their boxes."""

    any: Array  #: for each sample whether there is a window; else it is the whole image
    satisfied: Array  #: for each sample whether the window is as the rules say, not only the best one
    windows: Array  #: for each sample start and end in units of the image
    pixels: Array  #: for each sample the start in pixels, where windows have a fixed size
    kept: Array  #: for each box whether it is left


class _Rounds(NamedTuple):
    """A threshold, and attempts to draw a window for it, several times for each of some samples."""

    chosen: Array  #: (samples, rounds) the number of the threshold
    low: Array  #: (dimensions, samples, rounds * attempts) where windows begin
    high: Array  #: where they end
    there: Array  #: (samples, rounds * attempts) whether an attempt gave a window at all
    pixels: Array | None = None  #: where they begin in pixels, for windows of a fixed size


class _Source(Protocol):
    """A source of windows for samples that still need one."""

    def keep(self, chosen: Array) -> None:
        """Go on with some of them."""

    def draw(self, rounds: int) -> _Rounds:
        """The next rounds of each."""


@numpy.errstate(all="ignore")  # extents and ratios may be 0, or as large as float32 holds
def search(
    draw: Draw, samples: Array, boxes: Array, counts: Array, rules: Rules, images: Array | None, crops: Array | None
) -> Found:
    """Draw windows for a threshold, and for another one until any window was good; then take the last good one.

    Args:
        draw: Where the words of samples lie.
        samples: Their numbers there.
        boxes: float32, starts and ends in units of the image, of one sample after the other.
        counts: How many boxes each sample has.
        rules: The rules for the window.
        images: The extents of each image, x first, where they are known.
        crops: The extents of each window in pixels, or None for random ones.
    """
    n, ndim = len(samples), boxes.shape[1] // 2
    owners, sizes = numpy.repeat(numpy.arange(n), counts), areas(boxes)
    found = Found(
        numpy.zeros(n, bool),
        numpy.zeros(n, bool),
        numpy.zeros((n, 2 * ndim), numpy.float32),
        numpy.zeros((n, ndim), numpy.int64),
        numpy.ones(len(boxes), bool),
    )
    best, most = numpy.full(n, -1.0), -(-rules.most // rules.attempts)
    native = None if crops is not None else _natively(draw, samples, boxes, sizes, counts, rules, images, most)
    if native is not None:
        found.any[:], found.satisfied[:] = native[0].T
        found.windows[:] = native[1]
        n = 0  # none is left
    step = max(1, _AT_ONCE // rules.attempts)
    for start in range(0, n, step):
        active, done = numpy.arange(start, min(start + step, n)), 0
        image, crop = (None if each is None else each[active] for each in (images, crops))
        source: _Source = _Random(draw, rules, ndim, samples[active], image)
        if crop is not None:
            source = _Fixed(draw, rules, samples[active], image, crop)
        while len(active) and done < most:
            rounds = max(1, min(_AT_ONCE // (len(active) * rules.attempts), most - done, max(done, _FIRST_ROUNDS)))
            chosen = numpy.zeros(n, bool)
            chosen[active] = True
            theirs = numpy.flatnonzero(chosen[owners])
            going = _resolved(
                source.draw(rounds), active, boxes[theirs], sizes[theirs], counts[active], rules, best, found
            )
            active, done = active[going], done + rounds
            source.keep(going)
    found.windows[~found.any] = numpy.repeat([0.0, 1.0], ndim)
    left = _left(found.windows[owners].T, boxes.T, rules.prune)
    found.kept[...] = left | ~found.any[owners]
    return found


def _natively(
    draw: Draw,
    samples: Array,
    boxes: Array,
    sizes: Array,
    counts: Array,
    rules: Rules,
    images: Array | None,
    rounds: int,
) -> tuple[Array, Array] | None:
    """The windows of `_core.random.search`, where no two extents have a fixed ratio."""
    if _ratios(rules.ratios, boxes.shape[1] // 2)[1]:
        return None
    found: tuple[Array, Array] | None = core.search(
        draw,
        samples,
        boxes,
        sizes,
        counts,
        images,
        scaling=rules.scaling,
        ratios=rules.ratios[0],
        thresholds=rules.thresholds,
        attempts=rules.attempts,
        rounds=rounds,
        of_boxes=rules.of_boxes,
        all_boxes=rules.all_boxes,
        prune=rules.prune,
    )
    return found


def _resolved(
    drawn: _Rounds, samples: Array, boxes: Array, sizes: Array, counts: Array, rules: Rules, best: Array, found: Found
) -> Array:
    """Take the windows that rounds end with, or else the best ones so far. Returns which samples need more rounds.

    Args:
        drawn: The rounds.
        samples: The numbers of their samples.
        boxes: The boxes of these.
        sizes: Their areas.
        counts: How many boxes each of the samples has.
        rules: The rules for windows.
        best: For each sample of the search the overlap of the window that is taken so far.
        found: The results so far.
    """
    k, rounds = drawn.chosen.shape
    whole = drawn.chosen == (len(rules.thresholds) - 1 if rules.thresholds[-1] is None else -1)
    least = numpy.array([numpy.inf if threshold is None else threshold for threshold in rules.thresholds])[drawn.chosen]
    overlaps = _overlaps(drawn, boxes, sizes, counts, rules).reshape(k, rounds, rules.attempts)
    passing = overlaps >= least[..., None]
    passes = passing.any(2)
    which = numpy.where(passes, rules.attempts - 1 - passing[..., ::-1].argmax(2), overlaps.argmax(2))
    reached = numpy.take_along_axis(overlaps, which[..., None], 2)[..., 0]
    places = which + numpy.arange(rounds) * rules.attempts
    low, high = _beside(drawn.low, places), _beside(drawn.high, places)
    ends = whole | (passes & _any_left(low, high, boxes, counts, rules.prune))
    ended, last = ends.any(1), ends.argmax(1)
    # Where no round ends it: the last one that passes, or the first of those after it that is better than all before.
    numbers, each = numpy.arange(rounds), numpy.arange(k)
    passed = numpy.where(passes.any(1), rounds - 1 - passes[:, ::-1].argmax(1), -1)
    before = numpy.where(passed >= 0, reached[each, passed], best[samples])
    later = numpy.where(numbers > passed[:, None], reached, -numpy.inf)
    better = later.max(1) > before
    picked = numpy.where(ended, last, numpy.where(better, later.argmax(1), passed))
    best[samples] = numpy.where(better, later.max(1), before)
    found.any[samples] |= picked >= 0
    entire = ended & whole[each, last]
    found.any[samples[entire]] = False
    found.satisfied[samples[ended]] = True
    taken = numpy.flatnonzero(~entire & (picked >= 0))
    at = (slice(None), taken, picked[taken])
    found.windows[samples[taken]] = numpy.concatenate([low[at], high[at]]).T
    if drawn.pixels is not None:
        found.pixels[samples[taken]] = drawn.pixels[:, taken, places[taken, picked[taken]]].T
    return ~ended


def _any_left(low: Array, high: Array, boxes: Array, counts: Array, prune: float | None) -> Array:
    """Whether any box of a sample is left in each of some windows of it, or it has none."""
    left = numpy.ones(low.shape[1:], bool)
    having = numpy.flatnonzero(counts)
    if len(having):
        own = numpy.repeat(numpy.arange(len(counts)), counts)
        windows = numpy.concatenate([low, high])[:, own]
        kept = _left(windows, boxes.T[:, :, None], prune)
        left[having] = numpy.logical_or.reduceat(kept, (numpy.cumsum(counts) - counts)[having], axis=0)
    return left


def _overlaps(drawn: _Rounds, boxes: Array, sizes: Array, counts: Array, rules: Rules) -> Array:
    """For each window the least overlap with a box, or the largest one if one box is enough; -2 where there is none.

    In an image without boxes it is 1: there any window is good.
    """
    overlaps = numpy.ones(drawn.there.shape, numpy.float32)
    having = numpy.flatnonzero(counts)
    own, ends = numpy.repeat(numpy.arange(len(counts)), counts), boxes.T[:, :, None]
    firsts = (numpy.cumsum(counts) - counts)[having]
    fold = numpy.minimum if rules.all_boxes else numpy.maximum
    step = max(1, _PAIRS // max(1, len(boxes)))
    for start in range(0, overlaps.shape[1] if len(having) else 0, step):
        part = slice(start, start + step)
        low, high = drawn.low[..., part], drawn.high[..., part]
        common = _common(low[:, own], high[:, own], ends)
        whole = sizes[:, None]
        if not rules.of_boxes:
            extents = high - low
            for extent in extents[1:]:
                extents[0] *= extent
            whole = whole + extents[0][own] - common
        parts = numpy.divide(common, whole, out=numpy.zeros_like(common), where=common > 0)
        overlaps[having, part] = fold.reduceat(parts, firsts, axis=0)
    overlaps[~drawn.there] = -2
    return overlaps


def _common(low: Sequence[Array], high: Sequence[Array], boxes: Array) -> Array:
    """The area that windows have in common with boxes.

    Args:
        low: Where windows start in each dimension.
        high: Where they end.
        boxes: Where boxes start in each dimension, and then where they end.
    """
    ndim = len(low)
    found: Array = numpy.float32(1)
    for d in range(ndim):
        extent = numpy.minimum(high[d], boxes[ndim + d]) - numpy.maximum(low[d], boxes[d])
        found = found * numpy.maximum(extent, 0)
    return found


def _left(windows: Array, boxes: Array, prune: float | None) -> Array:
    """Which boxes are left in the windows beside them; starts and ends come first of both."""
    ndim = len(boxes) // 2
    low, high, start, end = windows[:ndim], windows[ndim:], boxes[:ndim], boxes[ndim:]
    if prune is None:
        inside: Any = True
        for d in range(ndim):
            centre = (start[d] + end[d]) / 2
            inside = inside & (low[d] <= centre) & (centre < high[d])
        return inside
    common = _common(low, high, boxes)
    size = end[0] - start[0]
    for d in range(1, ndim):
        size = size * (end[d] - start[d])
    parts = numpy.divide(common, size, out=numpy.zeros_like(common), where=common > 0)
    return (parts >= numpy.float32(prune)) & (parts > 0)


@numpy.errstate(all="ignore")  # windows may be empty
def remapped(boxes: Array, windows: Array) -> Array:
    """Boxes in units of the windows beside them, cut off at their edges."""
    ndim = boxes.shape[1] // 2
    low, high = windows[:, :ndim], windows[:, ndim:]
    corners = numpy.maximum(boxes[:, :ndim], low), numpy.minimum(boxes[:, ndim:], high)
    return numpy.concatenate([numpy.clip((corner - low) / (high - low), 0, 1) for corner in corners], axis=1)


class _Fixed:
    """Windows of a fixed size in pixels; where it is larger than the image, that lies inside of it."""

    def __init__(self, draw: Draw, rules: Rules, samples: Array, images: Array | None, crops: Array) -> None:
        assert images is not None, "a window of a fixed size has an image of a known size"
        self._words, self._rules = [Words(draw, sample, []) for sample in samples.tolist()], rules
        self._crops, self._images = crops, images

    def keep(self, chosen: Array) -> None:
        """Go on with some samples."""
        self._words = list(itertools.compress(self._words, chosen))
        self._crops, self._images = self._crops[chosen], self._images[chosen]

    def draw(self, rounds: int) -> _Rounds:
        """The next rounds of each sample."""
        count, attempts, ndim = len(self._rules.thresholds), self._rules.attempts, self._crops.shape[1]
        chosen: list[int] = []
        starts: list[int] = []
        for words, room in zip(self._words, (self._images - self._crops).tolist(), strict=True):
            for _ in range(rounds):
                chosen.append(below(words, count))
                starts += [below(words, abs(r) + 1) + min(r, 0) if r else 0 for _ in range(attempts) for r in room]
        pixels = numpy.array(starts, numpy.int64).reshape(len(self._words), -1, ndim).transpose(2, 0, 1)
        images, crops = (each.T[:, :, None].astype(numpy.float32) for each in (self._images, self._crops))
        low = pixels.astype(numpy.float32) / images
        there = numpy.ones(low.shape[1:], bool)
        return _Rounds(numpy.array(chosen).reshape(-1, rounds), low, crops / images + low, there, pixels)


@functools.lru_cache(maxsize=64)
def _ratios(given: tuple[tuple[float, float], ...], ndim: int) -> tuple[dict[Pair, Any], dict[Pair, Any]]:
    """The allowed ratios of each two extents, float32, and those of them, either way round, that are one number."""
    ranges = [(numpy.float32(least), numpy.float32(largest)) for least, largest in given]
    pairs = itertools.combinations(range(ndim), 2)
    allowed = {pair: ranges[k % len(ranges)] for k, pair in enumerate(pairs)}
    fixed = {pair: least for pair, (least, largest) in allowed.items() if least == largest}
    return allowed, {
        **fixed,
        **{(j, i): numpy.float32(1 / float(ratio) if ratio else math.inf) for (i, j), ratio in fixed.items()},
    }


def _beside(values: Array, places: Array) -> Array:
    """For each row the values in some places of it."""
    return values[..., numpy.arange(len(places))[:, None], places]


class _Random:
    """Windows of random extents and places."""

    def __init__(self, draw: Draw, rules: Rules, ndim: int, samples: Array, images: Array | None) -> None:
        self._draw, self._rules, self._ndim, self._samples = draw, rules, ndim, samples
        low, high = (numpy.float32(bound) for bound in rules.scaling)
        self._low, self._range = low, high - low
        self._images = None if images is None else images.astype(numpy.float32)
        self._ratios, self._fixed = _ratios(rules.ratios, ndim)
        self._places = numpy.zeros(len(samples), numpy.int64)  # the words that each sample has used

    def keep(self, chosen: Array) -> None:
        """Go on with some samples."""
        self._samples, self._places = self._samples[chosen], self._places[chosen]
        self._images = None if self._images is None else self._images[chosen]

    def draw(self, rounds: int) -> _Rounds:
        """The next rounds of each sample; attempts without an allowed aspect ratio give no window."""
        ndim, attempts = self._ndim, self._rules.attempts
        words = self._draw.following(rounds * (1 + 2 * ndim * attempts) + _SPARE, self._samples, self._places)
        count = words.shape[1] - 2 * ndim + 1
        starts, extents, fits = self._windows(words, count)
        k = len(words)
        rows = numpy.arange(k)[:, None] * count  # places are counted through all of them
        later = numpy.minimum(numpy.arange(count) + ndim * (1 + fits), count - 1) + rows
        jumps = [later.reshape(-1)]  # for each word where it goes on 1, 2, 4, ... attempts later
        while 2 << len(jumps) <= 2 * attempts:
            jumps.append(jumps[-1].take(jumps[-1]))
        chosen = numpy.zeros((k, rounds), numpy.int64)
        places = numpy.zeros((k, rounds, attempts), numpy.int64)
        place = rows[:, 0]
        for number in range(rounds):
            chosen[:, number], place = self._below(words, place - rows[:, 0])
            place = places[:, number, 0] = place + rows[:, 0]
            for bit, jump in enumerate(jumps):
                if attempts >> bit & 1:
                    place = jump.take(place)
        for bit, jump in enumerate(jumps):
            more = places[..., 1 << bit : 2 << bit]
            more[...] = jump.take(places[..., : more.shape[2]])
        self._places += place - rows[:, 0]
        flat = places.reshape(k, -1)
        low, extents = (each.reshape(ndim, -1).take(flat, axis=1) for each in (starts, extents))
        return _Rounds(chosen, low, low + extents, fits.reshape(-1).take(flat))

    def _below(self, words: Array, place: Array) -> tuple[Array, Array]:
        """The number of a threshold for each sample, as `below` finds it from a place on, and the place after it."""
        count, rows = len(self._rules.thresholds), numpy.arange(len(words)) * words.shape[1]
        product = words.take(place + rows) * numpy.uint64(count)
        found, place, least = product >> numpy.uint64(32), place + 1, (1 << 32) % count
        rejected = product & numpy.uint64(0xFFFFFFFF) < least
        while least and rejected.any():
            product = words.take(place + rows) * numpy.uint64(count)
            found, place = numpy.where(rejected, product >> numpy.uint64(32), found), place + rejected
            rejected &= product & numpy.uint64(0xFFFFFFFF) < least
        return found, place

    def _windows(self, words: Array, count: int) -> tuple[Array, Array, Array]:
        """The windows that begin at the first words: starts, extents, and whether they have an allowed ratio."""
        ndim = self._ndim
        units = numpy.minimum(words.astype(numpy.float32) * _UNIT, _BELOW_ONE)
        extents = numpy.stack([units[:, d : d + count] for d in range(ndim)]) * self._range + self._low
        images = None if self._images is None else self._images.T[:, :, None]
        absolute = extents if images is None else extents * images
        if self._fixed:
            absolute = self._with_fixed_ratios(extents, images, words[:, ndim : ndim + count])
            extents = absolute if images is None else absolute / images
        fits = numpy.ones(absolute.shape[1:], bool)
        for (i, j), (least, largest) in self._ratios.items():
            ratio = absolute[i] / absolute[j]
            fits &= (least <= ratio) & (ratio <= largest)
        starts = numpy.stack([units[:, d : d + count] for d in range(ndim, 2 * ndim)]) * (1 - extents)
        return starts, extents, fits

    def _with_fixed_ratios(self, extents: Array, images: Array | None, words: Array) -> Array:
        """Set extents that have a fixed ratio to others, in random order, and keep the largest part of the image.

        DALI keeps the largest extent in pixels, with which a window may be larger than the image.
        """
        orders = math.factorial(self._ndim)
        drawn = words.astype(numpy.uint64) * numpy.uint64(orders) >> numpy.uint64(32)
        found = extents.copy() if images is None else extents * images
        for number in range(orders):
            order = permutation(iter([((2 * number + 1) << 31) // orders]), self._ndim)
            part = found[:, drawn == number]
            for first, second in itertools.combinations(order, 2):
                ratio = self._fixed.get((second, first))
                if ratio is not None:
                    part[second] = part[first] * ratio
            found[:, drawn == number] = part
        if images is None:
            return extents.max(0) * found / found.max(0)
        largest = (found / images).argmax(0)[None]
        image = numpy.take_along_axis(numpy.broadcast_to(images, found.shape), largest, 0)
        return extents.max(0) * image * found / numpy.take_along_axis(found, largest, 0)
