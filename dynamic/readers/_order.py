"""The order in which the samples of an epoch are visited: a pure function of their ids, a seed and the epoch.

A shuffled epoch is the ids sorted by a 64-bit key that a mixer makes of (seed, epoch, id). So nothing is stored, every
order is as likely as any other, and a file more or less leaves the order of all the others as it was. The mixer maps
ids one to one onto keys; samples of one id (which 64-bit hashes of real paths do not have) keep their listed order.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy

__all__ = ["Order", "keys", "mix", "sorted_by"]

_DEALT = "deal"  # stands where the epoch stands, in the key of the order by which samples are dealt to shards


def keys(ids: Any, seed: int, epoch: int | str) -> Any:
    """The sort keys of ids in an epoch: uint64, different for different ids."""
    first, second = _words(seed, epoch)
    mixed = ids ^ numpy.uint64(first)
    mix(mixed)
    mixed ^= numpy.uint64(second)
    mix(mixed)
    return mixed


@functools.lru_cache(64)
def _words(seed: int, epoch: int | str) -> tuple[int, int]:
    """The words that tell the orders of seeds and epochs apart."""
    first, second = struct.unpack("<QQ", hashlib.blake2b(f"{seed}/{epoch}".encode(), digest_size=16).digest())
    return first, second


def mix(words: Any) -> None:
    """Mix the bits of each word in place, one to one: the finaliser of SplitMix64."""
    words ^= words >> numpy.uint64(30)
    words *= numpy.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> numpy.uint64(27)
    words *= numpy.uint64(0x94D049BB133111EB)
    words ^= words >> numpy.uint64(31)


def sorted_by(keys: Any) -> Any:
    """The places of keys in their order, equal ones as they come: intp of shape (N,)."""
    order = numpy.argsort(keys)
    ordered = keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        return numpy.argsort(keys, kind="stable")  # which takes twice as long
    return order


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the samples with these ids: as they are listed, or shuffled anew each epoch.

    Attributes:
        ids: The sample ids, uint64 of shape (N,).
        seed: Seed of the shuffle; None for the listed order.
        dealt: Number of shards that keep their own samples through all epochs. With 1 the whole is shuffled; with more
            the samples are dealt to the shards once, shuffled within each, and laid so that shard k has places
            k, k + dealt, k + 2 * dealt ...
    """

    ids: Any
    seed: int | None = None
    dealt: int = 1

    def of(self, epoch: int) -> Any:
        """The sample numbers of an epoch in their order: intp of shape (N,)."""
        n = len(self.ids)
        if self.seed is None:
            return numpy.arange(n)
        mixed = keys(self.ids, self.seed, epoch)
        if self.dealt == 1:
            return sorted_by(mixed)
        dealt = min(self.dealt, max(1, n))  # other shards have none
        shard = numpy.empty(n, numpy.intp)
        shard[sorted_by(keys(self.ids, self.seed, _DEALT))] = numpy.arange(n) % dealt
        order = numpy.empty(n, numpy.intp)
        places = numpy.concatenate([numpy.arange(k, n, dealt) for k in range(dealt)])
        order[places] = numpy.lexsort((mixed, shard))
        return order
