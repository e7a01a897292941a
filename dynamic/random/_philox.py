"""Random words as a pure function of a key and a counter: Philox4x32-10, the same bits in NumPy and CuPy.

A block is four 32-bit words, made of a 64-bit key and a 128-bit counter in ten rounds (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", 2011). Nothing here has a state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from dynamic._core import random as native

__all__ = ["Draw", "blocks", "words"]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)  # added to each half of the key by a round
_ROUNDS = 10
_LOW = 0xFFFFFFFF
_MASK64 = (1 << 64) - 1

SAMPLE_STRIDE = 65537  # blocks of 2**64: from one sample's counter to the next one's
ELEMENT_STRIDE = 257  # words: from one element's place in its sample to the next one's

_FEW = 256  # up to so many blocks Python's long integers are faster than NumPy's arrays


def blocks(xp: Any, key: int, low: Any, high: Any, wanted: Sequence[int] = range(4)) -> list[Any]:
    """The words of many blocks with one key.

    Args:
        xp: numpy or cupy.
        key: The key, 64 bits.
        low: Lower halves of the counters: a uint64 array of shape (n,), or an integer for all.
        high: Upper halves of the counters, a uint64 array of shape (n,).
        wanted: Which words of each block, in this order.

    Returns:
        For each wanted word a uint32 array of shape (n,), possibly strided or read-only.
    """
    found = native.blocks(key, low, high) if xp is numpy else None
    if found is not None:
        return [found[w] for w in wanted]
    if xp is numpy and len(high) <= _FEW:
        return _few(key, low, high, wanted)
    return _many(xp, key, low, high, wanted)


def words(key: int, start: int, count: int) -> list[int]:
    """Some words of the one stream that a key has; word 4 * c + i is word i of the block with counter c."""
    first, skip = divmod(start, 4)
    low, high = first & _MASK64, first >> 64
    n = (skip + count + 3) // 4
    lower = numpy.arange(n, dtype=numpy.uint64) + numpy.uint64(low)
    upper = numpy.full(n, high, numpy.uint64)
    if low + n > _MASK64:
        upper += lower < low
    flat: list[int] = numpy.stack(blocks(numpy, key, lower, upper), axis=1).reshape(-1).tolist()
    return flat[skip : skip + count]


@functools.lru_cache(maxsize=64)
def _lanes(n: int) -> tuple[int, int, int, int]:
    """Integers of n lanes of 64 bits: each lane 1; each lane 32 ones; each lane a step of the key's halves."""
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * n, "little")
    return ones, ones * _LOW, ones * _STEPS[0], ones * _STEPS[1]


def _few(key: int, low: Any, high: Any, wanted: Sequence[int]) -> list[Any]:
    """All blocks at once in Python's long integers, a lane of 64 bits for each block.

    A product of two 32-bit numbers fits its lane, so one multiplication serves all blocks. Upper bits in the
    lanes of x1, x3 and the keys are cut off only where they would reach a product.
    """
    n = len(high)
    ones, mask, step0, step1 = _lanes(n)
    above = int.from_bytes(high.tobytes(), "little")
    x2, x3 = above & mask, above >> 32
    if isinstance(low, int):
        x0, x1 = (low & _LOW) * ones, (low >> 32) * ones
    else:
        below = int.from_bytes(low.tobytes(), "little")
        x0, x1 = below & mask, below >> 32
    m0, m1 = _MULTIPLIERS
    k0, k1 = (key & _LOW) * ones, (key >> 32) * ones
    for _ in range(_ROUNDS - 1):
        p0, p1 = x0 * m0, x2 * m1
        x0, x2 = (p1 >> 32 ^ x1 ^ k0) & mask, (p0 >> 32 ^ x3 ^ k1) & mask
        x1, x3 = p1, p0
        k0 += step0
        k1 += step1
    # The last round, of which a caller often wants one word only.
    p1 = x2 * m1 if 0 in wanted or 1 in wanted else 0
    p0 = x0 * m0 if 2 in wanted or 3 in wanted else 0
    final = (p1 >> 32 ^ x1 ^ k0 if 0 in wanted else 0, p1, p0 >> 32 ^ x3 ^ k1 if 2 in wanted else 0, p0)
    lanes = [(final[w] & mask).to_bytes(8 * n, "little") for w in wanted]
    return [numpy.frombuffer(lane, numpy.uint32)[::2] for lane in lanes]


_COLUMN = numpy.array([[_MULTIPLIERS[0]], [_MULTIPLIERS[1]]], numpy.uint64)


@functools.lru_cache(maxsize=64)
def _keys(key: int) -> Any:
    """The halves of the key of each round, an array of shape (rounds, 2, 1)."""
    halves = [((key + round * _STEPS[0]) & _LOW, ((key >> 32) + round * _STEPS[1]) & _LOW) for round in range(_ROUNDS)]
    keys = numpy.array(halves, numpy.uint64)[..., None]
    keys.flags.writeable = False
    return keys


def _many(xp: Any, key: int, low: Any, high: Any, wanted: Sequence[int]) -> list[Any]:
    """All blocks at once in arrays."""
    n = len(high)
    factors, *pair = xp.zeros((2, n), xp.uint64), xp.empty((2, n), xp.uint64), xp.empty((2, n), xp.uint64)
    small, before = factors.view(xp.uint32)[:, ::2], pair[1].view(xp.uint32)[::-1, ::2]
    small[0], small[1] = low & _LOW, high & xp.uint64(_LOW)
    before[0], before[1] = low >> 32, high >> xp.uint64(32)
    _rounds(xp, key, range(_ROUNDS), factors, pair)
    rest = pair[(_ROUNDS - 1) % 2].view(xp.uint32)[::-1, ::2]
    return [rest[w // 2] if w % 2 else small[w // 2] for w in wanted]


def _rounds(xp: Any, key: int, rounds: range, factors: Any, pair: Sequence[Any]) -> None:
    """Some rounds, in four passes each over both halves of all blocks.

    Args:
        xp: numpy or cupy.
        key: The key.
        rounds: Which.
        factors: x0 and x2, which get multiplied: uint64 of shape (2, n), whose upper halves are zero.
        pair: Twice the same, for products, which rounds fill in turn. A product's upper half goes crosswise into a
            factor, its lower half crosswise is x1 and x3 of the next round.
    """
    # Words that follow each other in memory are read faster than every other one. So all are combined, each with the
    # one before it, and half of the results are cut off.
    made = factors.view(xp.uint32)[:, :-1]
    upper = [p.view(xp.uint32)[::-1, 1:] for p in pair]
    lower = [p.view(xp.uint32)[::-1, :-1] for p in pair]
    multipliers, keys = xp.asarray(_COLUMN), xp.asarray(_keys(key))
    for i in rounds:
        new, old = i % 2, 1 - i % 2
        xp.multiply(factors, multipliers, pair[new])
        xp.bitwise_xor(upper[new], lower[old], made)
        xp.bitwise_and(factors, xp.uint64(_LOW), factors)
        xp.bitwise_xor(factors, keys[i], factors)


def _progressions(
    key: int, lows: Sequence[int], high: Any, step: int, n: int, wanted: Sequence[Sequence[int]]
) -> list[list[Any]]:
    """The words of groups of blocks, in each of which the counters grow by a step in every sample, on the CPU.

    Where only the lowest of their four words changes, the first two rounds are the work of one, and of the last round
    only that half is done which makes the words that are wanted.

    Args:
        key: The key.
        lows: For each group the lower half of the first counter.
        high: For each sample the upper half, a uint64 array of shape (samples,).
        step: How much more each following counter is.
        n: Number of blocks in a sample and group.
        wanted: Which words of each group.

    Returns:
        For each group and wanted word a uint32 array of shape (samples, n), possibly strided.
    """
    shape, each = (len(lows), len(high), n), numpy.arange(n, dtype=numpy.uint64)
    if (
        math.prod(shape) <= _FEW
        or native.in_use()
        or any(low > _MASK64 or (low & _LOW) + step * n > _LOW for low in lows)
    ):
        begin = numpy.array([low & _MASK64 for low in lows], numpy.uint64)[:, None, None]
        above = high + numpy.array([low >> 64 for low in lows], numpy.uint64)[:, None]
        low = begin + each * numpy.uint64(step)
        carried = above[..., None] + (low < begin)
        words = blocks(numpy, key, numpy.broadcast_to(low, shape).reshape(-1), carried.reshape(-1))
        return [[words[w].reshape(shape)[group] for w in some] for group, some in enumerate(wanted)]
    m0, m1 = map(numpy.uint64, _MULTIPLIERS)
    (k0, k1), (next_k0, next_k1) = _keys(key)[:2, :, 0]
    c0, c1 = numpy.array([(low & _LOW, low >> 32) for low in lows], numpy.uint64).T[..., None, None]
    c2, c3 = (high & _LOW)[:, None], (high >> 32)[:, None]
    p1 = c2 * m1  # the products that do not change within a sample: of x2 in the first round, of x0 in the second
    next_p0 = (p1 >> 32 ^ c1 ^ k0) * m0
    p0 = c0 * m0 + each * (numpy.uint64(step) * m0)  # of x0 in the first round, in all samples
    factors, *pair = (numpy.empty((2, *shape), numpy.uint64) for _ in range(3))
    next_x3, next_p1 = pair[1]
    numpy.bitwise_xor(p0 >> 32, c3 ^ k1, next_p1)
    next_p1 *= m1
    numpy.right_shift(next_p1, 32, factors[0])
    factors[0] ^= p1 & _LOW ^ next_k0
    numpy.bitwise_xor(p0 & _LOW, next_p0 >> 32 ^ next_k1, factors[1])
    next_x3[...] = next_p0
    last = _ROUNDS - 1
    _rounds(numpy, key, range(2, last), factors.reshape(2, -1), [p.reshape(2, -1) for p in pair])
    before, products = pair[1 - last % 2], pair[last % 2]
    found = []
    for group, some in enumerate(wanted):
        halves = {}
        for half in {w // 2 for w in some}:
            product = products[1 - half, group]
            numpy.multiply(factors[1 - half, group], numpy.uint64(_MULTIPLIERS[1 - half]), product)
            lower, upper = (product.view(numpy.uint32)[:, k::2] for k in range(2))
            if 2 * half in some:
                upper = upper ^ before[1 - half, group].view(numpy.uint32)[:, ::2]
                upper ^= numpy.uint32(_keys(key)[last, half, 0])
            halves[half] = upper, lower
        found.append([halves[w // 2][w % 2] for w in some])
    return found


@functools.lru_cache(maxsize=64)
def sample_steps(n: int) -> Any:
    """How far the counters of n samples are from that of the first."""
    steps = numpy.arange(n, dtype=numpy.uint64) * numpy.uint64(SAMPLE_STRIDE)
    steps.setflags(write=False)
    return steps


class Draw(NamedTuple):
    """Where the words of one random operator lie: each sample has a stream of its own, each element a place in it.

    Element i of a sample reads the words from ``phase + 257 * i`` on, counted from the sample's block ``(high, low)``.
    """

    key: int
    low: int
    high: Any  #: uint64 array of shape (n,): the upper half of each sample's counter
    phase: int  #: 0 to 3: the word of the first block to begin with
    turn: Any = None  #: the key by which its source takes it back

    def words(
        self, xp: Any, samples: Any, elements: Any, count: int, stride: int = ELEMENT_STRIDE, skip: Any = None
    ) -> list[Any]:
        """The words of many elements.

        Args:
            xp: numpy or cupy.
            samples: For each element the number of its sample, an integer array; or a slice of all samples.
            elements: For each element its number in its sample, a uint64 array; with a slice a range of numbers, for
                the elements of each sample, or None for number 0.
            count: How many words each element needs.
            stride: How many words the elements are apart.
            skip: For each element how many of its words to pass over, a uint64 array; None for none.

        Returns:
            `count` uint32 arrays, in the order in which the words follow each other; an item for each element.
        """
        if isinstance(elements, range):
            return self._run(samples, elements, count, stride)
        high = xp.asarray(self.high)[samples]
        if elements is None and skip is None:
            return self._first(xp, high, count)
        place = xp.uint64(0) if elements is None else elements * xp.uint64(stride)
        place = place + (xp.uint64(self.phase) if skip is None else skip + xp.uint64(self.phase))
        low, word = (place >> xp.uint64(2)) + xp.uint64(self.low), (place & xp.uint64(3)).astype(xp.intp)
        high = high + (low < xp.uint64(self.low))
        each = xp.arange(len(place))
        block = xp.stack(blocks(xp, self.key, low, high))
        found = []
        for _ in range(count):
            found.append(block[word, each])
            word += 1
            over = xp.flatnonzero(word > 3)
            if len(over) and len(found) < count:
                word[over] = 0
                low[over] += xp.uint64(1)
                high[over] += low[over] == 0
                block[:, over] = xp.stack(blocks(xp, self.key, low[over], high[over]))
        return found

    def _first(self, xp: Any, high: Any, count: int) -> list[Any]:
        """The words of the first elements of samples, which all lie in the same block of their streams."""
        found: list[Any] = []
        while len(found) < count:
            block, word = divmod(self.phase + len(found), 4)
            low = self.low + block
            carried = high + xp.uint64(1) if low > _MASK64 else high
            found += blocks(xp, self.key, low & _MASK64, carried, range(word, min(4, word + count - len(found))))
        return found

    def _run(self, samples: slice, elements: range, count: int, stride: int) -> list[Any]:
        """The words of elements that follow each other: those four apart begin at the same word of their blocks."""
        high = numpy.asarray(self.high)[samples]
        groups = []  # which of four elements, the number of its word that a block begins with, and the words of that
        lows = []
        for i in range(4):
            block, word = divmod(self.phase + stride * (elements.start + i), 4)
            for k in range((word + count + 3) // 4):
                groups.append((i, 4 * k - word, range(max(0, word - 4 * k), min(4, word + count - 4 * k))))
                lows.append(self.low + block + k)
        n, wanted = (len(elements) + 3) // 4, [words for *_, words in groups]
        made = _progressions(self.key, lows, high, stride, n, wanted)
        found = [numpy.empty((len(high), len(elements)), numpy.uint32) for _ in range(count)]
        for (i, begin, words), values in zip(groups, made, strict=True):
            for word, own in zip(words, values, strict=True):
                there = found[begin + word][:, i::4]
                there[...] = own[:, : there.shape[1]]
        return [each.reshape(-1) for each in found]

    def some(self, sample: int, start: int, count: int) -> list[int]:
        """Some of the words of a sample, counted from the beginning of its first element."""
        counter = int(self.high[sample]) << 64 | self.low
        return words(self.key, (4 * counter + self.phase + start) % (1 << 130), count)

    def following(self, count: int, samples: Any = slice(None), starts: Any = 0) -> Any:
        """Some of the words of many samples at once, on the CPU.

        Args:
            count: How many of each.
            samples: The numbers of the samples; by default all.
            starts: For each how many words of it to pass over, an int64 array; or one number for all.

        Returns:
            uint32 of shape (samples, count).
        """
        high = numpy.asarray(self.high)[samples]
        first, skip = numpy.divmod(numpy.broadcast_to(starts, len(high)) + self.phase, 4)
        each = numpy.arange((int(skip.max(initial=0)) + count + 3) // 4, dtype=numpy.uint64)
        low = first.astype(numpy.uint64)[:, None] + each + numpy.uint64(self.low)
        found = blocks(numpy, self.key, low.reshape(-1), (high[:, None] + (low < numpy.uint64(self.low))).reshape(-1))
        words = numpy.stack(found, axis=1).reshape(len(high), 4 * len(each))
        return words[numpy.arange(len(high))[:, None], skip[:, None] + numpy.arange(count)]

    def stream(self, sample: int, element: int = 0) -> Iterator[int]:
        """The words of one element, one after the other without end: for methods that reject some."""
        place = ELEMENT_STRIDE * element
        while True:
            yield from self.some(sample, place, 8)
            place += 8
