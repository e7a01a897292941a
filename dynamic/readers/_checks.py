"""Checks of arguments that readers share."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy

from dynamic.errors import ArgumentError, nearest, shown

__all__ = ["flag", "natural", "unless_empty", "word"]

X = TypeVar("X")
_Word = TypeVar("_Word", bound=str)


def word(operator: str, argument: str, value: Any, words: tuple[_Word, ...]) -> _Word:
    """One of some words, which are in lower case."""
    for allowed in words:
        if isinstance(value, str) and value.lower() == allowed:
            return allowed
    listed = ", ".join(map(repr, words[:-1]))
    hint = nearest(value, words) if isinstance(value, str) else ""
    raise ArgumentError(operator, argument, f"{listed} or {words[-1]!r}", shown(value), hint)


def unless_empty(value: X) -> X | None:
    """A value, or None where it says nothing: False, an empty text or an empty list."""
    return None if isinstance(value, (bool, str, bytes, list, tuple)) and not value else value


def flag(operator: str, argument: str, value: Any, default: bool = False) -> bool:
    """A yes or no; None is the default."""
    if value is None:
        return default
    if not isinstance(value, (bool, numpy.bool_)):
        raise ArgumentError(operator, argument, "True or False", shown(value))
    return bool(value)


def natural(operator: str, argument: str, value: Any, low: int = 0, high: int | None = None) -> int:
    """An integer of at least `low` and at most `high`."""
    integral = isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)
    if not integral or value < low or (high is not None and value > high):
        span = f"an integer in [{low}, {high}]" if high is not None else f"an integer of {low} or more"
        raise ArgumentError(operator, argument, span, shown(value))
    return int(value)
