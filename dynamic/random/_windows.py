"""Random windows of images, as `random_resized_crop` and its relatives draw them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy

from dynamic._arrays.array import Array
from dynamic._core import random as native
from dynamic._lift.call import Call
from dynamic.errors import ArgumentError, shown

from ._distributions import below
from ._drawing import draw_of

__all__ = ["drawn"]

#: How many words a random window takes as a rule: two for each of five attempts and two for its place.
_USUALLY = 12
#: The least float32 above 0, and the largest.
_LEAST, _MOST = 2.0**-149, float(numpy.finfo(numpy.float32).max)
_MANY = 16  # images whose windows are found faster all at once
_WORD = numpy.uint64(0xFFFFFFFF)


def drawn(call: Call, images: Sequence[tuple[int, int]]) -> Array:
    """Random windows of images of given heights and widths, as `random_area` and the other arguments of a call say.

    Here the source of the call moves on.

    Returns:
        For each image the corner (y, x) and the shape of its window: int32 of shape (n, 2, 2).
    """
    rules = _Rules(_range(call, "random_area"), _range(call, "random_aspect_ratio"), call.fixed["num_attempts"])
    draw = draw_of(call)
    limits = (*rules.area, *rules.ratio, *map(math.log, rules.ratio))
    windows: Array | None = native.windows(draw, numpy.array(images).reshape(-1, 2), limits, rules.attempts)
    if windows is not None:
        return windows
    first = draw.following(_USUALLY)  # of all at once: much faster
    found, settled = numpy.empty((len(images), 4), numpy.int32), numpy.zeros(len(images), bool)
    if len(images) >= _MANY:
        found, settled = _windows(first, numpy.array(images), rules)
    for i in numpy.flatnonzero(~settled).tolist():
        words = itertools.chain(first[i].tolist(), itertools.islice(draw.stream(i), _USUALLY, None))
        found[i] = _window(words, *images[i], rules)
    return found.reshape(len(images), 2, 2)


class _Rules(NamedTuple):
    """The limits of a random window."""

    area: tuple[float, float]
    ratio: tuple[float, float]
    attempts: int


def _range(call: Call, argument: str) -> tuple[float, float]:
    low, high = call.fixed[argument]
    least = 0 if argument == "random_area" else _LEAST
    if not least <= low <= high <= _MOST:
        which = "above 0" if least else "of at least 0"
        expected = f"two finite float32 numbers {which}, the smaller one first"
        raise ArgumentError(call.name, argument, expected, shown(call.fixed[argument]))
    return low, high


def _windows(words: Array, images: Array, rules: _Rules) -> tuple[Array, Array]:
    """`_window` of many images at once.

    Args:
        words: The first words of each image, of shape (n, count).
        images: Heights and widths, of shape (n, 2).
        rules: The limits of windows.

    Returns:
        The anchors and shapes, of shape (n, 4), and for which of them these words are enough.
    """
    (least, most), (narrow, wide), attempts = rules
    low, high = math.log(narrow), math.log(wide)
    tried = words[:, : 2 * min(attempts, words.shape[1] // 2 - 1)].astype(numpy.float64)
    height, width = images[:, :1], images[:, 1:]
    pixels = (least + (most - least) * tried[:, ::2] * 2.0**-32) * height * width
    exponents = low + (high - low) * tried[:, 1::2] * 2.0**-32
    wanted = numpy.array([[*map(math.exp, row)] for row in exponents.tolist()])  # NumPy's own differs between machines
    w = numpy.maximum(numpy.trunc(numpy.sqrt(pixels * wanted) + 0.5), 1)
    h = numpy.maximum(numpy.trunc(numpy.sqrt(pixels / wanted) + 0.5), 1)
    fits = (w <= width) & (h <= height) & (narrow <= w / h) & (w / h <= wide)
    chosen, each = fits.argmax(axis=1), numpy.arange(len(words))
    shapes = numpy.minimum(numpy.stack([h[each, chosen], w[each, chosen]], axis=1), images).astype(numpy.int64)
    room = numpy.maximum(images + 1 - shapes, 1).astype(numpy.uint64)
    products = words[each[:, None], 2 * chosen[:, None] + (2, 3)] * room
    placed_at_once = (products & _WORD) >= (_WORD + 1) % room  # else `below` takes more words
    least_pixels, height, width = least * height[:, 0] * width[:, 0], height[:, 0], width[:, 0]
    large = height * numpy.maximum(1, numpy.trunc(height * wide)) < least_pixels
    large |= numpy.maximum(1, numpy.trunc(width / narrow)) * width < least_pixels
    settled = fits.any(axis=1) & placed_at_once.all(axis=1) & ~large
    corners = (products >> numpy.uint64(32)).astype(numpy.int64)
    return numpy.concatenate([corners, shapes], axis=1).astype(numpy.int32), settled


def _window(words: Iterator[int], height: int, width: int, rules: _Rules) -> tuple[int, int, int, int]:
    """The anchor and the shape of a window."""
    area, ratio, attempts = rules
    least = area[0] * height * width
    if height * max(1, int(height * ratio[1])) < least:  # no window in such a wide image is so large
        h, w = height, max(1, int(height * ratio[1]))
    elif max(1, int(width / ratio[0])) * width < least:
        h, w = max(1, int(width / ratio[0])), width
    else:
        h, w = _tried(words, height, width, area, ratio, attempts) or _limited(height, width, area[1], ratio)
    h, w = min(h, height), min(w, width)
    return below(words, height - h + 1), below(words, width - w + 1), h, w


def _tried(
    words: Iterator[int], height: int, width: int, area: tuple[float, float], ratio: tuple[float, float], attempts: int
) -> tuple[int, int] | None:
    """A window of random area and aspect ratio that fits, or None if so many have not."""
    (least, most), (narrow, wide) = area, ratio
    low, high = math.log(narrow), math.log(wide)
    for _ in range(attempts):
        pixels = (least + (most - least) * next(words) * 2.0**-32) * height * width
        wanted = math.exp(low + (high - low) * next(words) * 2.0**-32)
        w, h = int(math.sqrt(pixels * wanted) + 0.5) or 1, int(math.sqrt(pixels / wanted) + 0.5) or 1
        if w <= width and h <= height and narrow <= w / h <= wide:
            return h, w
    return None


def _limited(height: int, width: int, most: float, ratio: tuple[float, float]) -> tuple[int, int]:
    """The largest window of an allowed aspect ratio, made smaller if it has too much area."""
    h, w = height, width
    if width / height > ratio[1]:
        w = max(1, int(height * ratio[1]))
    elif width / height < ratio[0]:
        h = max(1, int(width / ratio[0]))
    scale = math.sqrt(min(1.0, most * height * width / (h * w)))
    return max(1, int(h * scale)), max(1, int(w * scale))
