"""From random words to numbers: uniform, normal, integers below a bound; some of the numbers of a call (`Part`). The
arithmetic is DALI's.

Everything is written in single operations that IEEE 754 defines to the last bit (add, multiply, divide, square root,
conversion); `log` and `cos` are polynomials of these. So NumPy and CuPy agree on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from dynamic._arrays.logarithm import FLOAT64_TERMS as _FLOAT64_TERMS
from dynamic._arrays.logarithm import log as _log
from dynamic._arrays.logarithm import polynomial as _polynomial

from ._philox import Draw

__all__ = ["Part", "below", "canonical", "joined", "normal", "uniform", "uniform_limits", "wide"]

_WORD = 2.0**-32
_HALF_WAY = 0x10000000  # the 29 bits that a float64 has beyond a float32, exactly between two float32


def wide(dtype: numpy.dtype[Any]) -> bool:
    """Whether numbers of a dtype are computed in float64, from 64 random bits each, rather than float32 from 32."""
    return dtype.itemsize >= 4 and dtype != numpy.float32


def joined(xp: Any, first: Any, second: Any) -> Any:
    """Two words as one integer of 64 bits, the first word lowest."""
    return first.astype(xp.uint64) | second.astype(xp.uint64) << xp.uint64(32)


# -- uniform ----------------------------------------------------------------------------------------------------------


def uniform_limits(low: Any, high: Any, dtype: numpy.dtype[Any]) -> tuple[Any, tuple[Any, Any, Any]]:
    """Whether two numbers are a range, and its description for `uniform`.

    Args:
        low: Start of the range, a float64 or an array of them.
        high: Its end, which no value reaches but by rounding to an integer.
        dtype: Of the values. The bounds of integers are cut off to integers of that type, others rounded to float32.

    Returns:
        Whether the start is below the end, and both are finite; and the start, the factor of the random integer, and
        the largest value, in the type in which values are computed.
    """
    kind: Any = numpy.float64 if wide(dtype) else numpy.float32
    with numpy.errstate(over="ignore", invalid="ignore"):
        if dtype.kind in "iu":
            limits = numpy.iinfo(dtype)
            fine = low < high
            # DALI takes bounds as float32; those that float32 cannot tell apart are taken as they are.
            low, high = (numpy.where(abs(x) <= 2.0**24, x.astype(numpy.float32), x) for x in (low, high))
            low, high = (kind(numpy.clip(numpy.trunc(x), float(limits.min), float(limits.max))) for x in (low, high))
            top = numpy.nextafter(high, low)
        else:
            low, high = numpy.asarray((low, high), numpy.float16 if dtype.itemsize == 2 else numpy.float32)
            fine = (low < high) & numpy.isfinite(numpy.float32(high) - numpy.float32(low))
            if dtype.itemsize == 2:
                top, low = kind(numpy.nextafter(high, low)), kind(low)
            else:
                low, high = kind(low), kind(high)
                top = numpy.nextafter(high, low)
        return fine, (low, (top - low) * kind(2.0 ** (-64 if wide(dtype) else -32)), top)


def uniform(xp: Any, found: list[Any], limits: tuple[Any, Any, Any], *, exact: bool = False) -> Any:
    """Numbers of a range: float32 of one word each, or float64 of two; `exact` as `sums_are_exact` says."""
    low, scale, top = limits
    if len(found) == 2:
        values = _fused_float64(xp, joined(xp, *found).astype(xp.float64), scale, low)
    elif exact:
        total = found[0].astype(xp.float32).astype(xp.float64)
        total *= scale
        total += low
        values = total.astype(xp.float32)
    else:
        values = _fused_float32(xp, found[0].astype(xp.float32), scale, low)
    return xp.minimum(values, top, out=values)


def sums_are_exact(limits: tuple[Any, Any, Any]) -> bool:
    """Whether float64 holds every float32 of a word, times the factor of a range, plus its start, to the last bit."""
    low, scale, top = (float(x) for x in limits)
    if low == 0:
        return True
    finest = max(scale.as_integer_ratio()[1], low.as_integer_ratio()[1])
    return max(abs(low), abs(top)) * finest < 2.0**52


def _fused_float32(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """Multiply and add float32 numbers, a * b + c, rounded once."""
    product = a.astype(xp.float64)
    product *= b  # exact: 48 of 53 bits
    total = product + c
    if c.ndim or c:  # else the sum is exact
        tied = xp.flatnonzero((total.view(xp.uint64) & xp.uint64(0x1FFFFFFF)) == _HALF_WAY)
        if len(tied):  # the digits that float64 has rounded off decide to which side it goes
            near = total[tied]
            rest = _rest_of_sum(product[tied], c[tied] if c.ndim else c, near)
            total[tied] = xp.where(rest != 0, xp.nextafter(near, xp.copysign(xp.inf, rest)), near)
    return total.astype(xp.float32)


def _rest_of_sum(a: Any, b: Any, total: Any) -> Any:
    """The exact sum a + b less ``total``, the rounded one."""
    part = total - a
    return (a - (total - part)) + (b - part)


def _halves(a: Any) -> tuple[Any, Any]:
    """Two float64 of at most 26 bits with the sum a."""
    shifted = a * 134217729.0
    upper = shifted - (shifted - a)
    return upper, a - upper


def _fused_float64(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """Multiply and add float64 numbers, a * b + c, rounded once.

    After Boldo and Melquiond: the exact product and sum in parts, the smaller ones added with rounding to odd.
    """
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    product = a * b
    rest = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    inner = c + rest
    inner_rest = _rest_of_sum(c, rest, inner)
    total = product + inner
    total_rest = _rest_of_sum(product, inner, total)
    small = inner_rest + total_rest
    lost = _rest_of_sum(inner_rest, total_rest, small)
    even = (small.view(xp.uint64) & xp.uint64(1)) == 0
    odd = xp.where((lost != 0) & even, xp.nextafter(small, xp.copysign(xp.inf, lost)), small)
    return total + odd


def canonical(xp: Any, found: list[Any]) -> Any:
    """Numbers in [0, 1) of two words each, float64."""
    return xp.minimum(joined(xp, *found).astype(xp.float64) * 2.0**-64, 1.0 - 2.0**-53)


@dataclass(slots=True)
class Part:
    """Some of the numbers of a call: which elements of which samples they are."""

    xp: Any
    draw: Draw
    samples: Any  #: for each number its sample, or a slice of the samples, which have as many numbers each
    elements: Any  #: for each number its place in its sample; with a slice the range of places, or None for place 0
    stride: int  #: how many words the elements of a sample are apart
    start: int  #: how many numbers of the call come before

    @property
    def size(self) -> int:
        """How many numbers there are."""
        each = 1 if self.elements is None else len(self.elements)
        return (self.samples.stop - self.samples.start) * each if isinstance(self.samples, slice) else each

    @property
    def places(self) -> Any:
        """For each number its place in its sample."""
        if self.elements is None:
            return numpy.zeros(self.size, numpy.uint64)
        if isinstance(self.elements, range):
            return numpy.tile(numpy.array(self.elements, numpy.uint64), self.samples.stop - self.samples.start)
        return self.elements

    def words(self, count: int) -> list[Any]:
        """The first words of each number."""
        return self.draw.words(self.xp, self.samples, self.elements, count, self.stride)

    def stream(self, i: int) -> Iterator[int]:
        """All words of a number, one after the other."""
        if self.elements is None:
            return self.draw.stream(self.samples.start + i)
        if isinstance(self.elements, range):
            sample, place = divmod(i, len(self.elements))
            return self.draw.stream(self.samples.start + sample, self.elements[place])
        return self.draw.stream(int(self.samples[i]), int(self.elements[i]))

    def canonical(self, count: int) -> Any:
        """Numbers in [0, 1) of the first words of each number, two words each: float64 of shape (count, size)."""
        words = self.words(2 * count)
        return self.xp.stack([canonical(self.xp, words[i : i + 2]) for i in range(0, 2 * count, 2)])

    def more(self, at: Any, taken: Any, count: int = 1) -> list[Any]:
        """Numbers in [0, 1) of later words of some of the numbers, two words each.

        Args:
            at: Which, an integer array.
            taken: For each of them how many such numbers it has had, a uint64 array.
            count: How many for each.
        """
        if isinstance(self.elements, range):
            samples, places = numpy.divmod(at, len(self.elements))
            samples, elements = samples + self.samples.start, (places + self.elements.start).astype(numpy.uint64)
        elif self.elements is None:
            samples, elements = at + self.samples.start, None
        else:
            samples, elements = self.samples[at], self.elements[at]
        skip = taken * self.xp.uint64(2)
        found = self.draw.words(self.xp, samples, elements, 2 * count, self.stride, skip)
        return [canonical(self.xp, found[i : i + 2]) for i in range(0, 2 * count, 2)]

    def of(self, value: Any) -> Any:
        """A value for all samples, or an array with one for each, as it concerns the numbers."""
        if not value.ndim:
            return value
        own = self.xp.asarray(value)[self.samples]
        if not isinstance(self.elements, range):
            return own
        return numpy.repeat(own, len(self.elements)) if len(own) > 1 else own[0]


# -- normal -----------------------------------------------------------------------------------------------------------

_PI_HIGH, _PI_LOW = 3.1415926534682512, 1.2154201013012384e-10  # the first has 31 bits: differences to it are exact
_FLOAT32_TERMS = 7


def normal(xp: Any, found: list[Any]) -> Any:
    """Numbers with the standard normal distribution (Box and Muller): float32 of two words, or float64 of four."""
    if len(found) == 2:
        kind, terms, unit = xp.float32, _FLOAT32_TERMS, _WORD
        u, v = (w.astype(kind) for w in found)
    else:
        kind, terms, unit = xp.float64, _FLOAT64_TERMS, 2.0**-64
        u, v = (joined(xp, *pair).astype(kind) for pair in (found[:2], found[2:]))
    u *= kind(unit)
    v *= kind(unit)
    turn = kind(2 * numpy.pi) * v
    if not u.all():  # the logarithm of 0: take the other number, or the least where both are 0
        none = u == 0
        turn = xp.where(none, kind(0), turn)
        u = xp.where(none, xp.maximum(v, kind(unit)), u)
    radius = _log(xp, u.astype(xp.float64), terms).astype(kind)
    radius *= kind(-2)
    xp.sqrt(radius, out=radius)
    radius *= _cos(xp, turn.astype(xp.float64), terms).astype(kind)
    return radius


def scaled(xp: Any, values: Any, mean: Any, stddev: Any) -> Any:
    """Normal numbers with another mean and standard deviation."""
    kind = values.dtype
    fused = _fused_float32 if kind.itemsize == 4 else _fused_float64
    with numpy.errstate(over="ignore"):
        return fused(xp, values, stddev.astype(kind), mean.astype(kind))


def _cos(xp: Any, x: Any, terms: int) -> Any:
    """The cosine of x in [0, 2 pi], as the sine of pi / 2 - x or of x - 3 pi / 2."""
    y = x - _PI_HIGH
    rest = xp.where(y < 0, _PI_LOW * 0.5, _PI_LOW * -1.5)
    r = xp.absolute(y, out=y)
    r -= _PI_HIGH / 2
    r += rest
    z = r * r
    small = _polynomial(z, _SINE[:terms])
    small *= z
    small *= r
    r += small
    return r


def _sine_coefficients() -> list[float]:
    found, factorial = [], 1
    for k in range(1, _FLOAT64_TERMS + 1):
        factorial *= -2 * k * (2 * k + 1)
        found.append(1 / factorial)
    return found


_SINE = _sine_coefficients()


# -- integers ---------------------------------------------------------------------------------------------------------


def below(stream: Iterator[int], n: int) -> int:
    """A number in [0, n), each as likely as any other, of a stream of words; n is at most 2**64.

    One product with a word (Lemire's method, which rejects a few words), the upper half first where n is beyond 2**32,
    as in the uniform_int_distribution of the C++ library.
    """
    if n == 1 << 32:
        return next(stream)
    if n < 1 << 32:
        while True:
            product = next(stream) * n
            if (product & 0xFFFFFFFF) >= (1 << 32) % n:
                return product >> 32
    while True:
        found = (below(stream, (n - 1 >> 32) + 1) << 32) + next(stream)
        if found < n:
            return found
