"""Names of samples in one piece of memory: a text of its own for each of a million takes as long as to list them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, overload

import numpy

from dynamic._arrays.array import Array
from dynamic._core import names as core

__all__ = ["Names", "normal", "starts_of"]

_AT_ONCE = 1 << 16  # names that are made at a time, where all are gone through
_CODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


def starts_of(counts: Any) -> Array:
    """Where things begin of which there are so many, and behind it where the last end."""
    return numpy.concatenate([[0], numpy.cumsum(counts, dtype=numpy.int64)])


def normal(name: str) -> str:
    """A name without parts that mean nothing."""
    return os.path.normpath(name).replace(os.sep, "/") if "//" in name or "." in name else name


class Names(Sequence[str]):
    """Names of samples that come in groups, such as folders and archives.

    Args:
        groups: The beginning of the names of each group.
        counts: How many samples each has.
        own: The other parts of the names, one after the other; by default they are numbers, from 0 in each group.
        lengths: How many bytes each of these has.
        distinct: Whether all names are known to be different as they stand here.
    """

    def __init__(
        self,
        groups: Sequence[bytes],
        counts: Any,
        own: bytes | None = None,
        lengths: Any = (),
        *,
        distinct: bool = False,
    ) -> None:
        self._groups, self._firsts = tuple(groups), starts_of(counts)
        self._own, self._ends = own, starts_of(lengths)
        self._plain = self._looks_plain()
        self.distinct = distinct and self._plain

    @property
    def plain(self) -> bool:
        """Whether no name has parts that mean nothing, as far as was found at a glance."""
        return self._plain

    @property
    def counts(self) -> Array:
        """How many samples each group has."""
        counts: Array = numpy.diff(self._firsts)
        return counts

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        chosen = range(len(self))[index]
        return self.take([chosen])[0] if isinstance(chosen, int) else self.take(chosen)

    def __iter__(self) -> Iterator[str]:
        return (name.decode(_CODING, _ERRORS) for name in self._encoded())

    def take(self, indices: Sequence[int]) -> list[str]:
        """Some of the names."""
        return [name.decode(_CODING, _ERRORS) for name in self._some(numpy.asarray(indices, numpy.int64))]

    def hashes(self) -> Array | None:
        """The hashes of all names, as of `sample_ids`; None where Python makes them."""
        if not self._plain or not core.in_use():
            return None
        return core.ids_of(self._groups, self._firsts, self._own, self._ends)

    def regrouped(self, groups: Sequence[bytes], counts: Any, numbers: Any, *, distinct: bool) -> Names:
        """Some names in groups of other beginnings.

        Args:
            groups: The beginnings.
            counts: How many names each has.
            numbers: Of the names here, whose own parts are taken.
            distinct: Whether all new names are known to be different.
        """
        own, firsts, ends = self._own or b"", self._ends[numbers].tolist(), self._ends[numbers + 1].tolist()
        chosen = b"".join([own[i:k] for i, k in zip(firsts, ends, strict=True)])
        return Names(groups, counts, chosen, self._ends[numbers + 1] - self._ends[numbers], distinct=distinct)

    def _some(self, numbers: Array) -> list[bytes]:
        of: Array = numpy.searchsorted(self._firsts, numbers, "right") - 1
        groups: list[int] = of.tolist()
        starts = self._groups
        if self._own is None:
            numbers = numbers - self._firsts[of]
            return [b"%b%d" % (starts[group], i) for group, i in zip(groups, numbers.tolist(), strict=True)]
        own = self._own
        firsts: list[int] = self._ends[numbers].tolist()
        ends: list[int] = self._ends[numbers + 1].tolist()
        return [starts[group] + own[i:k] for group, i, k in zip(groups, firsts, ends, strict=True)]

    def _encoded(self) -> Iterator[bytes]:
        parts = range(0, len(self), _AT_ONCE)
        return chain.from_iterable(self._some(numpy.arange(i, min(i + _AT_ONCE, len(self)))) for i in parts)

    def normal(self, indices: Any = None) -> Iterable[bytes]:
        """All names, or some, as bytes without parts that mean nothing. They can be gone through more than once."""
        if indices is None:
            return _Normal(self)
        names = self._some(numpy.asarray(indices, numpy.int64))
        return names if self._plain else [_normal(name) for name in names]

    def _looks_plain(self) -> bool:
        """Whether no name has such parts, as far as can be told at a glance."""
        if any(_normal(group + b"x") != group + b"x" for group in self._groups):
            return False
        if not self._own:
            return self._own is None
        if b"//" in self._own or b"/." in self._own or not (self._ends[1:] > self._ends[:-1]).all():
            return False
        letters = numpy.frombuffer(self._own, numpy.uint8)
        firsts, lasts = letters[self._ends[:-1]], letters[self._ends[1:] - 1]
        return not bool(((firsts == ord("/")) | (firsts == ord(".")) | (lasts == ord("/"))).any())


class _Normal(Iterable[bytes]):
    def __init__(self, names: Names) -> None:
        self._names = names

    def __iter__(self) -> Iterator[bytes]:
        names = self._names._encoded()
        return names if self._names._plain else map(_normal, names)


def _normal(name: bytes) -> bytes:
    return os.fsencode(normal(os.fsdecode(name)))
