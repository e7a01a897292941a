"""The changes of a data set, from a sketch of some hundred bytes: which samples are new, and how many are gone.

The sketch of a set of ids is its first power sums in a prime field, and its smallest ids. The difference of the sums of
two sets belongs to the ids that only one of them has, however large the sets are, and as long as these are few they can
be found in it: the power sums of L numbers follow a linear recurrence of order L, which the Berlekamp-Massey algorithm
finds and whose roots the numbers are (Minsky, Trachtenberg and Zippel, "Set reconciliation with nearly optimal
communication complexity", 2003). Where they are many, the smallest ids tell whether the sets have anything in common:
ids are hashes, so these are gone from a set no more often than others (Broder, "On the resemblance and containment of
documents", 1997).
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, NamedTuple

import numpy

__all__ = ["MOST", "Change", "changed", "is_sketch", "sketch", "smallest"]

_PRIME = (1 << 31) - 1
_SUMS = 24
_SMALLEST = 16  # of a set of which half is gone, all of them are gone in one case of 65536
#: So many samples may differ for all of them to be found. One pair of sums is left over to check the answer by.
MOST = _SUMS // 2 - 1
_CHUNK = 1 << 15  # numbers that stay in a core's cache


class Change(NamedTuple):
    """How a set of ids differs from an earlier one."""

    added: Any  #: places of the new ones among the ids: intp of shape (A,)
    removed: int  #: how many are gone


def sketch(ids: Any) -> str:
    """The sketch of some ids, as text; their order makes no difference.

    >>> from dynamic.readers._sketch import changed, sketch
    >>> before = sketch(numpy.arange(1000, dtype="uint64"))
    >>> changed(before, 1000, numpy.arange(3, 1001, dtype="uint64"))
    Change(added=array([997]), removed=3)
    """
    least = numpy.unique(numpy.partition(ids, _SMALLEST)[:_SMALLEST] if len(ids) > _SMALLEST else ids)
    return base64.b64encode(struct.pack(f"<{_SUMS}I", *_power_sums(ids)) + least.astype("<u8").tobytes()).decode()


def is_sketch(text: str) -> bool:
    """Whether a text may be a sketch. Those of version 1 of a reader's state have no ids in them."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    ids, rest = divmod(len(data) - 4 * _SUMS, 8)
    if not 0 <= ids <= _SMALLEST or rest:
        return False
    least = smallest(text)
    return max(struct.unpack_from(f"<{_SUMS}I", data)) < _PRIME and bool((least[1:] > least[:-1]).all())


def smallest(text: str) -> Any:
    """The smallest of the ids that a sketch is of, uint64 of shape (n,), n up to 16.

    >>> from dynamic.readers._sketch import sketch, smallest
    >>> smallest(sketch(numpy.arange(5, 1000, dtype="uint64")))[:3]
    array([5, 6, 7], dtype=uint64)
    """
    return numpy.frombuffer(base64.b64decode(text), "<u8", offset=4 * _SUMS).astype(numpy.uint64)


def changed(before: str, count: int, ids: Any) -> Change | None:
    """The difference of a set of ids to an earlier one; None if it is too large to be found.

    Args:
        before: The sketch of the earlier ids.
        count: How many these were.
        ids: The ids now, uint64 of shape (N,).
    """
    old = struct.unpack_from(f"<{_SUMS}I", base64.b64decode(before))
    more = len(ids) - count
    if abs(more) > MOST:
        return None
    recurrence = _recurrence([(new - was) % _PRIME for new, was in zip(_power_sums(ids), old, strict=True)])
    order = len(recurrence) - 1
    if order > MOST or abs(more) > order or (order + more) % 2:
        return None
    added = numpy.flatnonzero(_value(recurrence, _residues(ids)) == 0) if order else numpy.empty(0, numpy.intp)
    if len(added) != (order + more) // 2:  # two ids of one residue: rare, and not worth more than to give up
        return None
    return Change(added, order - len(added))


def _residues(ids: Any) -> Any:
    """The ids as numbers of the field other than 0, whose powers would not show."""
    return ids % numpy.uint64(_PRIME - 1) + numpy.uint64(1)


def _power_sums(ids: Any) -> list[int]:
    sums = [0] * _SUMS
    for start in range(0, len(ids), _CHUNK):
        numbers = _residues(ids[start : start + _CHUNK])
        powers, rest = numpy.ones_like(numbers), numpy.empty_like(numbers)
        for i in range(_SUMS):
            powers *= numbers  # a remainder takes five times as long as adding the bits beyond 31, twice
            for _ in range(2):
                numpy.right_shift(powers, numpy.uint64(31), out=rest)
                powers &= numpy.uint64(_PRIME)
                powers += rest  # as 2 ** 31 is 1 in the field
            sums[i] += int(powers.sum())
    return [total % _PRIME for total in sums]


def _recurrence(terms: list[int]) -> list[int]:
    """The coefficients c of the shortest recurrence of a sequence: c[0] * t[n] + c[1] * t[n - 1] + ... = 0, c[0] = 1.

    The algorithm of Berlekamp and Massey.
    """
    current, previous = [1], [1]
    order, shift, divisor = 0, 1, 1
    for n, term in enumerate(terms):
        error = (term + sum(current[i] * terms[n - i] for i in range(1, min(order, len(current) - 1) + 1))) % _PRIME
        if not error:
            shift += 1
            continue
        factor = error * pow(divisor, -1, _PRIME)
        longer = current + [0] * (len(previous) + shift - len(current))
        for i, coefficient in enumerate(previous, shift):
            longer[i] = (longer[i] - factor * coefficient) % _PRIME
        if 2 * order <= n:
            previous, divisor = current, error
            order, shift = n + 1 - order, 1
        else:
            shift += 1
        current = longer
    return (current + [0] * (order + 1))[: order + 1]


def _value(coefficients: list[int], numbers: Any) -> Any:
    """A polynomial at some numbers, the coefficient of the highest power first."""
    value = numpy.full_like(numbers, coefficients[0])
    for coefficient in coefficients[1:]:
        value = (value * numbers + numpy.uint64(coefficient)) % numpy.uint64(_PRIME)
    return value
