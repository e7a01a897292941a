"""Distributions that reject some of their words: Poisson, gamma and beta, and permutations, as DALI draws them.

Words are used and rejected as in the C++ standard library of DALI (libstdc++), so the same seed gives the same numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ._distributions import Part, below, canonical

__all__ = ["Beta", "derangement", "limits_of_products", "permutation", "poisson", "unit64"]

_AT_ONCE = 8  # uniform numbers that are made at once, of which the last may not be needed
SMALL = 12.0  #: a Poisson mean below which uniform numbers are multiplied


def poisson(part: Part, mean: Any) -> Any:
    """Numbers with the Poisson distribution.

    Small means multiply uniform numbers until they are below exp(-mean); larger ones reject from a normal and an
    exponential hull (Devroye, "Non-Uniform Random Variate Generation", 1986, X.3.3 with its errata).

    Args:
        part: Which numbers to draw.
        mean: For each its mean: float64 of shape (n,); 0 gives 0.

    Returns:
        float64 of shape (n,), of whole numbers.
    """
    uniforms = _Uniforms(part)
    found, product = numpy.zeros(len(mean)), numpy.ones(len(mean))
    limit = limits_of_products(mean)
    for uniform in uniforms.first:
        product *= uniform
        found += product > limit
    left, taken = numpy.flatnonzero(product > limit), _AT_ONCE
    product, limit = product[left], limit[left]
    while len(left):
        for uniform in part.more(left, numpy.full(len(left), taken, numpy.uint64), _AT_ONCE):
            product *= uniform
            found[left] += product > limit
        taken, rest = taken + _AT_ONCE, product > limit
        left, product, limit = left[rest], product[rest], limit[rest]
    large = numpy.flatnonzero(mean >= SMALL)
    if len(large):
        found[large] = _Large(uniforms, mean, large).numbers()
    return found


def limits_of_products(mean: Any) -> Any:
    """For each Poisson mean, how large a product of uniform numbers counts; 1 for large means, and for 0."""
    return numpy.exp(-mean, where=(mean > 0) & (mean < SMALL), out=numpy.ones(mean.shape))


class _Uniforms:
    """Uniform numbers for each of some numbers, of which some take more than others."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.first = part.canonical(_AT_ONCE)  #: the first ones of all, a row each
        self._taken = numpy.zeros(part.size, numpy.uint64)

    def following(self, at: Any) -> Any:
        """The next one for each of some."""
        taken = self._taken[at]
        self._taken[at] = taken + numpy.uint64(1)
        later = numpy.flatnonzero(taken >= _AT_ONCE)
        if not len(later):
            return self.first[taken, at]
        found = self.first[numpy.minimum(taken, numpy.uint64(_AT_ONCE - 1)), at]
        found[later] = self._part.more(at[later], taken[later])[0]
        return found


class _Large:
    """Poisson numbers of means of 12 and more."""

    def __init__(self, uniforms: _Uniforms, mean: Any, at: Any) -> None:
        self._uniforms, self._at = uniforms, at
        self._spare = numpy.full(len(at), numpy.nan)  # the second of each pair of normal numbers
        mean = mean[at]
        self._m = m = numpy.floor(mean)
        self._log_mean = numpy.log(mean)
        self._log_m = _log_factorials(m)
        self._sm = numpy.sqrt(m)
        quarter_pi = math.pi / 4
        d = numpy.floor(numpy.clip(numpy.sqrt(2 * m * numpy.log(32 * m / quarter_pi)), 6.0, m) + 0.5)
        cx = 2 * m + d
        self._d, self._scx, self._inverse = d, numpy.sqrt(cx / 2), 1 / cx
        c1 = self._sm * math.sqrt(math.pi / 2)
        c2 = numpy.sqrt(quarter_pi * cx) * numpy.exp(self._inverse) + c1
        c5 = c2 + 2 + math.exp(1 / 78)
        tail = 2 * cx * numpy.exp(-d * self._inverse * (1 + d / 2)) / d
        self._limits = c1, c2, c2 + 1, c2 + 2, c5
        self._whole = tail + c5

    def numbers(self) -> Any:
        found = numpy.empty(len(self._at))
        left = numpy.arange(len(self._at))
        while len(left):
            x, weight, fits = self._proposed(left, self._uniform(left) * self._whole[left])
            total = x + self._m[left]
            bound = self._log_m[left] - _log_factorials(numpy.where(fits, total, 0.0))
            fits &= weight - x * self._log_mean[left] <= bound
            found[left[fits]] = total[fits]
            left = left[~fits]
        return found

    def _uniform(self, which: Any) -> Any:
        return self._uniforms.following(self._at[which])

    def _proposed(self, left: Any, u: Any) -> tuple[Any, Any, Any]:
        """A difference from the mean, the logarithm of its weight, and whether it is within the limits."""
        exponential = -numpy.log(1 - self._uniform(left))
        c1, c2, c3, c4, c5 = (limit[left] for limit in self._limits)
        x = numpy.select([u <= c2, u <= c3, u <= c4], [0.0, -1.0, 0.0], 1.0)
        weight = numpy.where((u > c4) & (u <= c5), 1 / 78, 0.0)
        fits = numpy.ones(len(left), bool)
        normal = numpy.flatnonzero(u <= c2)
        if len(normal):
            below_mean, which = u[normal] <= c1[normal], left[normal]
            z = self._normal(which)
            y = numpy.where(below_mean, -abs(z) * self._sm[which] - 1, 1 + abs(z) * self._scx[which])
            x[normal] = numpy.where(below_mean, numpy.floor(y), numpy.ceil(y))
            weight[normal] = numpy.where(below_mean, -z * z / 2, y * (2 - y) * self._inverse[which])
            fits[normal] = numpy.where(below_mean, x[normal] >= -self._m[which], x[normal] <= self._d[which])
        tail = numpy.flatnonzero(u > c5)
        if len(tail):
            which = left[tail]
            d, inverse = self._d[which], self._inverse[which]
            v = -numpy.log(1 - self._uniform(which))
            y = d + v * (2 / inverse) / d
            x[tail] = numpy.ceil(y)
            weight[tail] = -d * inverse * (1 + y / 2)
        return x, weight - exponential, fits

    def _normal(self, which: Any) -> Any:
        """Normal numbers by Marsaglia's polar method, two of each pair of uniform numbers that is not rejected."""
        found = self._spare[which]
        self._spare[which] = numpy.nan
        new = numpy.flatnonzero(numpy.isnan(found))
        while len(new):
            x = 2 * self._uniform(which[new]) - 1
            y = 2 * self._uniform(which[new]) - 1
            r2 = x * x + y * y
            fits = (r2 <= 1) & (r2 != 0)
            scale = numpy.sqrt(-2 * numpy.log(r2[fits]) / r2[fits])
            self._spare[which[new[fits]]] = x[fits] * scale
            found[new[fits]] = y[fits] * scale
            new = new[~fits]
        return found


def _log_factorials(numbers: Any) -> Any:
    """The logarithm of n! for each of some whole numbers."""
    distinct, places = numpy.unique(numbers, return_inverse=True)
    return numpy.array([math.lgamma(n + 1) for n in distinct.tolist()])[places]


# -- beta -------------------------------------------------------------------------------------------------------------

_BEFOREHAND = 16  # uniform numbers of each that are made with those of all others; more are rarely needed


class _Gamma:
    """Gamma numbers of one sample (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000)."""

    def __init__(self, alpha: float) -> None:
        self._alpha, self._raised = alpha, alpha + 1 if alpha < 1 else alpha
        self._a = self._raised - 1 / 3
        self._scale = 1 / math.sqrt(9 * self._a)
        self._spare: float | None = None  # the second of two normal numbers
        self._v, self._u = 1.0, 1.0  # the parts of the last number

    def number(self, uniform: Callable[[], float]) -> float:
        """The next one."""
        a = self._a
        while True:
            z = self._spare
            if z is None:
                z = self._normal(uniform)
            else:
                self._spare = None
            v = 1 + self._scale * z
            if v <= 0:
                continue
            v = v * v * v
            u = uniform()
            if u <= 1 - 0.0331 * z * z * z * z or math.log(u) <= 0.5 * z * z + a * (1 - v + math.log(v)):
                break
        self._v = v
        if self._raised == self._alpha:
            return a * v
        while not (u := uniform()):
            pass
        self._u = u
        return float(u ** (1 / self._alpha) * a * v)

    def logarithm(self) -> float:
        """That of the last number: those of a small alpha may be too small for a float."""
        whole = math.log(self._a * self._v)
        return whole if self._raised == self._alpha else math.log(self._u) / self._alpha + whole

    def _normal(self, uniform: Callable[[], float]) -> float:
        while True:
            x = 2 * uniform() - 1
            y = 2 * uniform() - 1
            r2 = x * x + y * y
            if 0 < r2 <= 1:
                scale = math.sqrt(-2 * math.log(r2) / r2)
                self._spare = x * scale
                return y * scale


class Beta:
    """Numbers with a beta distribution: of two gamma numbers the part that is the first.

    They are made in their order, part by part, for the numbers of a sample leave normal numbers to each other.

    Args:
        words: How many words a uniform number is made of: 1 for float32, 2 for float64.
    """

    def __init__(self, words: int) -> None:
        self._words = words
        self._gammas = _Gamma(1.0), _Gamma(1.0)

    def numbers(self, part: Part, alpha: Any, beta: Any) -> Any:
        """Those of a part.

        Args:
            part: Which.
            alpha: For all samples the first parameter, or for each: float64.
            beta: The second.
        """
        found = numpy.empty(part.size)
        begin = (part.places == 0).tolist()
        first, second = self._gammas
        parameters = [numpy.broadcast_to(part.of(values), part.size).tolist() for values in (alpha, beta)]
        words = part.words(_BEFOREHAND * self._words)
        units = _units32(words) if self._words == 1 else _units64(words)
        for i, row in enumerate(units.T.tolist()):
            if begin[i]:
                first, second = (_Gamma(values[i]) for values in parameters)
            uniform = itertools.chain(row, self._later(part, i)).__next__
            x, y = first.number(uniform), second.number(uniform)
            found[i] = x / (x + y) if x and y else _share(first.logarithm(), second.logarithm())
        self._gammas = first, second
        return found

    def _later(self, part: Part, i: int) -> Iterator[float]:
        """Further uniform numbers of one of a part."""
        stream = itertools.islice(part.stream(i), _BEFOREHAND * self._words, None)
        while True:
            yield unit64(stream) if self._words == 2 else float(_units32(next(stream)))


def _share(log_x: float, log_y: float) -> float:
    """X / (x + y)."""
    low, high = sorted((log_x, log_y))
    less = math.exp(max(low - high, -1e3))
    return (1 if log_x > log_y else less) / (1 + less)


def _units32(words: Any) -> Any:
    """Numbers in [0, 1) of one word each."""
    rounded = numpy.asarray(words, numpy.uint32).astype(numpy.float32).astype(numpy.float64)
    return numpy.minimum(rounded * 2.0**-32, 1 - 2.0**-24)


def _units64(words: Any) -> Any:
    """Numbers in [0, 1) of two words each, the first one lowest."""
    return numpy.stack([canonical(numpy, words[i : i + 2]) for i in range(0, len(words), 2)])


def unit64(stream: Iterator[int]) -> float:
    """A number in [0, 1) of two words."""
    low = next(stream)
    return min(float(low + (next(stream) << 32)) * 2.0**-64, 1 - 2.0**-53)


# -- permutations -----------------------------------------------------------------------------------------------------


def permutation(stream: Iterator[int], n: int) -> list[int]:
    """The numbers below n in random order; two exchanges are drawn at a time, as std::shuffle does."""
    order = list(range(n))
    i = 1
    if n and n % 2 == 0:
        j = below(stream, 2)
        order[1], order[j] = order[j], order[1]
        i = 2
    while i < n:
        first, second = divmod(below(stream, (i + 1) * (i + 2)), i + 2)
        order[i], order[first] = order[first], order[i]
        order[i + 1], order[second] = order[second], order[i + 1]
        i += 2
    return order


def derangement(stream: Iterator[int], n: int) -> list[int]:
    """The numbers below n in random order such that none is in its own place: one cycle of all (Sattolo)."""
    order = list(range(n))
    for i in range(n - 1):
        j = i + 1 + below(stream, n - 1 - i)
        order[i], order[j] = order[j], order[i]
    return order
