"""Which samples of a listing are visited, and how often: `where` selects them, and `weights` are their chances.

With weights the order of an epoch is a pure function of ids, weights, seed and epoch, as without. All arithmetic is
exact or in single operations that IEEE 754 defines, so that all machines agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.logarithm import FLOAT64_TERMS, log
from dynamic.errors import ArgumentError, DynamicError, shown
from dynamic.io._bytes import is_of_the_system

from ._checks import flag, natural
from ._listing import _Once, as_it_is
from ._order import keys

__all__ = ["Asked", "Weights", "asked", "by_groups", "occurrences", "selected", "weighed"]

Told: TypeAlias = Iterable[tuple[Any, ...]]  # for each sample the arguments of a function of it

_BITS = 62  # of the sum of all weights as integers
_LOW = numpy.uint64(0xFFFFFFFF)
_HALF = numpy.uint64(32)


class Asked(NamedTuple):
    """The arguments that ask for weights, before the samples are listed."""

    weights: Any  #: an array, a mapping or a function
    replacement: bool
    num_samples: int | None


def asked(operator: str, weights: Any, replacement: Any, num_samples: Any, *, sticks: bool) -> Asked | None:
    """The weights that arguments ask for, or None."""
    if weights is None:
        for argument, value in {"replacement": replacement, "num_samples": num_samples}.items():
            if value is not None:
                raise ArgumentError(operator, argument, "None unless weights are given", shown(value))
        return None
    if sticks:
        expected = "False with weights, which draw the samples of all shards from the whole data set"
        raise ArgumentError(operator, "stick_to_shard", expected, "bool True")
    if isinstance(weights, (str, bytes)) or not (callable(weights) or hasattr(weights, "__len__")):
        raise _no_weights(operator, shown(weights))
    count = None if num_samples is None else natural(operator, "num_samples", num_samples, 1)
    kept = weights if callable(weights) or isinstance(weights, Mapping) else _copied(weights)
    return Asked(kept, flag(operator, "replacement", replacement, default=True), count)


def _copied(weights: Any) -> Any:
    """Weights as they are now, whatever becomes of them until the samples are listed."""
    return numpy.array(weights) if hasattr(weights, "__array__") else as_it_is(weights)


def _no_weights(operator: str, got: str) -> ArgumentError:
    return ArgumentError(operator, "weights", "a number for each sample, a mapping of them, or a function", got)


# -- functions of samples ---------------------------------------------------------------------------------------------


def selected(operator: str, where: Callable[..., Any], told: Told, names: Sequence[str], of: str) -> Array:
    """The numbers of the samples that a function selects.

    Args:
        operator: Of the reader.
        where: The function.
        told: For each sample its arguments.
        names: The names of samples, for errors.
        of: The arguments in words.

    Raises:
        ArgumentError: It selects none, raises, or returns something else than a bool; the message names the sample.
    """
    kept = numpy.zeros(len(names), numpy.bool_)
    for i, answer in enumerate(_answers(operator, "where", where, told, names, of)):
        if answer.__class__ is not bool and not isinstance(answer, numpy.bool_):
            got = f"{shown(answer)} for sample {names[i]!r}"
            raise ArgumentError(operator, "where", f"a function of {of} that returns True or False", got)
        kept[i] = answer
    if not kept.any():
        expected = f"a function of {of} that selects at least one sample"
        raise ArgumentError(operator, "where", expected, f"one that selects none of {len(names)}")
    return numpy.flatnonzero(kept)


def _answers(
    operator: str, argument: str, function: Callable[..., Any], told: Told, names: Sequence[str], of: str
) -> Iterator[Any]:
    i = 0
    try:
        for i, arguments in enumerate(told):  # noqa: B007 - errors name the sample
            yield function(*arguments)
    except DynamicError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_of_the_system(error):  # a signal's handler ran in its midst
            raise
        got = f"{type(error).__name__} ({error}) for sample {names[i]!r}"
        raise ArgumentError(operator, argument, f"a function of {of}", got) from error


# -- weights ----------------------------------------------------------------------------------------------------------


def weighed(
    operator: str,
    asked: Asked,
    ids: Array,
    names: Sequence[str],
    told: Callable[[], Told],
    groups: Callable[[Mapping[Any, Any]], Any],
    of: str,
) -> Weights:
    """The weights of samples.

    Args:
        operator: Of the reader.
        asked: Its arguments.
        ids: The ids of the samples.
        names: Their names.
        told: For each sample the arguments of a function as weights.
        groups: The weights of all samples by a mapping.
        of: The arguments of a function in words.

    Raises:
        ArgumentError: A weight is missing, negative or not finite, all are zero, or there are too few; the message
            names the sample.
    """
    given = asked.weights
    if isinstance(given, Mapping):
        given = groups(given)
    elif callable(given):
        given = list(_answers(operator, "weights", given, told(), names, of))
    values = _numbers(operator, given, names)
    wrong = numpy.flatnonzero(~((values >= 0) & (values < numpy.inf)))
    if len(wrong):
        got = f"{values[wrong[0]]} for sample {names[int(wrong[0])]!r}"
        raise ArgumentError(operator, "weights", "finite numbers of 0 or more", got)
    there = int(numpy.count_nonzero(values))
    if not there:
        raise ArgumentError(operator, "weights", "numbers of which at least one is above 0", f"{len(values)} zeros")
    count = asked.num_samples
    if count is None:
        count = len(values) if asked.replacement else there
    if not asked.replacement and count > there:
        expected = f"at most {there}, the number of samples with weights above 0, without replacement"
        raise ArgumentError(operator, "num_samples", expected, str(count))
    _, exponent = numpy.frexp(values.max())
    scaled = numpy.ldexp(values, -int(exponent))
    scaled[(scaled == 0) & (values > 0)] = numpy.nextafter(0.0, 1.0)
    return Weights(ids, scaled, asked.replacement, count)


def _numbers(operator: str, given: Any, names: Sequence[str]) -> Array:
    """Weights as float64, one for each sample."""
    for i, value in enumerate(given if isinstance(given, (list, tuple)) else ()):
        if not isinstance(value, (int, float, numpy.number, numpy.bool_)):
            name = f" for sample {names[i]!r}" if i < len(names) else ""
            raise ArgumentError(operator, "weights", "numbers", f"{shown(value)}{name}")
    try:
        values: Array = numpy.asarray(given)
    except (TypeError, ValueError) as error:
        raise _no_weights(operator, shown(given)) from error
    if values.dtype.kind not in "biuf":
        raise _no_weights(operator, shown(given))
    values = values.astype(numpy.float64)
    if values.shape != (len(names),):
        got = f"{len(values)}" if values.ndim == 1 else f"an array of the shape {values.shape}"
        raise ArgumentError(operator, "weights", f"a number for each of the {len(names)} samples", got)
    return values


def by_groups(operator: str, mapping: Mapping[Any, Any], groups: Iterable[Any], names: Sequence[str]) -> Any:
    """The weights of samples by a mapping: of the first group of keys that it has some of.

    Args:
        operator: Of the reader.
        mapping: The mapping.
        groups: For each kind of key the keys of all samples, or an array of numbers of keys and the keys.
        names: The names of the samples, which are the last kind.
    """

    def lacks(key: Any) -> NoReturn:
        raise ArgumentError(operator, "weights", "a mapping with a number for each sample", f"none for {key!r}")

    for numbers, known in groups:
        if any(key in mapping for key in known):
            found = [mapping[key] if key in mapping else lacks(key) for key in known]
            return _numbers(operator, found, list(map(str, known)))[numbers]
    return [mapping[name] if name in mapping else lacks(name) for name in names]


@dataclass(frozen=True, eq=False)
class Weights:
    """The chances of samples to be drawn.

    Attributes:
        ids: Their ids: uint64 of shape (N,).
        values: Their weights, times a power of two that makes the greatest less than 1: float64 of shape (N,).
        replacement: Whether a sample is drawn for each place of an epoch, whatever came before.
        count: How many places an epoch has.
    """

    ids: Any
    values: Any
    replacement: bool
    count: int

    def order(self, seed: int, epoch: int) -> Array:
        """The sample numbers of an epoch: intp of shape (count,)."""
        if self.replacement:
            by_id, ends = self._line
            words = keys(numpy.arange(self.count, dtype=numpy.uint64), seed, f"weights {epoch}")
            places = _below(words, int(ends[-1]))
            order = numpy.argsort(places)  # as a search for sorted ones finds each near the last
            drawn = numpy.empty(self.count, numpy.intp)
            drawn[order] = by_id[numpy.searchsorted(ends, places[order], "right")]
            return drawn
        some = numpy.flatnonzero(self.values)
        words, times = self._race(seed, epoch, some)
        order = numpy.argsort(times)
        if ((ordered := times[order])[1:] == ordered[:-1]).any():
            order = numpy.lexsort((words, times))
        return some[order][: self.count]

    def up_to(self, number: int, seed: int, epoch: int) -> Array:
        """Which samples come up to one of them, without replacement: bool of shape (N,)."""
        words, times = self._race(seed, epoch, numpy.arange(len(self.ids)))
        before: Array = (times < times[number]) | ((times == times[number]) & (words <= words[number]))
        return before & (self.values > 0)

    def _race(self, seed: int, epoch: int, some: Array) -> tuple[Array, Array]:
        """The words of some samples, which are unlike each other, and when each of them comes.

        That is an exponential number divided by its weight (Efraimidis and Spirakis, 2006). Equal weights give the
        order of an ordinary shuffle.
        """
        words = keys(self.ids[some], seed, epoch)
        parts = ((~words).astype(numpy.float64) + 0.5) * 2.0**-64
        times = -log(numpy, parts, FLOAT64_TERMS)
        with numpy.errstate(divide="ignore", over="ignore", invalid="ignore"):  # by 0: it never comes
            times /= self.values[some]
        return words, times

    @_Once
    def _line(self) -> tuple[Array, Array]:
        """The samples sorted by id, and where each of their weights ends on a line of integers."""
        by_id = numpy.argsort(self.ids, kind="stable")
        values = self.values[by_id]
        lengths = numpy.rint(numpy.ldexp(values, _BITS - len(values).bit_length())).astype(numpy.uint64)
        lengths[values > 0] = numpy.maximum(lengths[values > 0], numpy.uint64(1))
        return by_id, numpy.cumsum(lengths, dtype=numpy.uint64)

    @_Once
    def digest(self) -> str:
        """A digest of the weights, whatever the order of the samples."""
        values = self.values[numpy.argsort(self.ids, kind="stable")].astype("<f8")
        return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def _below(words: Array, bound: int) -> Array:
    """Words of 64 bits as numbers below a bound: the upper 64 bits of their products, in halves."""
    high, low = words >> _HALF, words & _LOW
    upper, lower = numpy.uint64(bound >> 32), numpy.uint64(bound & 0xFFFFFFFF)
    crossed, other = high * lower, low * upper
    carried = ((low * lower) >> _HALF) + (crossed & _LOW) + (other & _LOW)
    found: Array = high * upper + (crossed >> _HALF) + (other >> _HALF) + (carried >> _HALF)
    return found


def occurrences(ids: Any, places: Any) -> Any:
    """The ids that draws of samples are keyed to, where one may come again in an epoch: another for each place."""
    return ids ^ keys(places.astype(numpy.uint64), 0, "occurrence")
