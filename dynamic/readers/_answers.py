"""The items of an iterable, kept so that they can be asked for again."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from dynamic._base.locks import new_lock
from dynamic.errors import StateWarning

__all__ = ["Answers"]

X = TypeVar("X")
_END = object()


class Answers(Generic[X]):
    """The items of an iterable, numbered from the first one that is asked for: a number gives the same item again.

    Args:
        begin: Makes the iterator; called again after it has ended.
        keep: Makes the kept form of an item.
        asked_on: Whether an iterator that has ended is asked for more, and no other is made.

    Attributes:
        held: Items of this number and later ones are kept; None keeps those of the last call.
        moved: By how much numbers are higher than those that were asked for at first.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], keep: Callable[[Any], X], *, asked_on: bool = False) -> None:
        self.held: int | None = None
        self.moved = 0
        self._begin, self._keep, self._asked_on = begin, keep, asked_on
        self._iterator: Iterator[Any] | None = None
        self._given: dict[int, Any] = {}  # items that are not kept yet
        self._kept: dict[int, Any] = {}
        self._lock = new_lock()
        self._asking: int | None = None  # the process that is asking the iterator

    def forget(self, number: int) -> None:
        """Nobody will ask for those before a number any more, unless they are held."""
        with self._lock:
            number = number if self.held is None else min(number, self.held)
            for old in [other for other in self._kept if other < number - self.moved]:
                del self._kept[old]

    def renumber(self, number: int, to: int) -> None:
        """Renumber an item, and those before and after it likewise."""
        with self._lock:
            self.moved += to - number

    def __getitem__(self, number: int) -> X:
        """The item of a number.

        Raises:
            StopIteration: It ended there.
        """
        with self._lock:
            number -= self.moved
            if number not in self._kept:
                if number not in self._given:
                    if self._asking not in (None, os.getpid()):  # forked in its midst, and cannot go on here
                        self._iterator = None
                        warnings.warn(
                            "a source was being asked as the process forked; it begins again here",
                            StateWarning,
                            stacklevel=2,
                        )
                    try:
                        self._asking = os.getpid()
                        self._iterator = self._begin() if self._iterator is None else self._iterator
                        once = itertools.starmap(self._iterator.__next__, [()])
                        self._given.update(zip((number,), once, strict=False))  # in C: no Ctrl-C comes between
                    finally:
                        self._asking = None
                    if number not in self._given:
                        self._given[number] = _END
                        self._iterator = self._iterator if self._asked_on else None
                given = self._given[number]
                self._kept[number] = given if given is _END else self._keep(given)
                del self._given[number]
            kept = self._kept[number]
            if kept is _END:
                raise StopIteration
            found: X = kept
            return found
