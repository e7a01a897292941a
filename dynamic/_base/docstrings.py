"""Descriptions of arguments that several functions share: one docstring has them, the others take them over."""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["described_as"]

F = TypeVar("F", bound=Callable[..., Any])

_SECTION = re.compile(r"^Args:\n(.*?)(?=\n\n|\Z)", re.M | re.S)


def _entries(function: Callable[..., Any]) -> dict[str, str]:
    """The descriptions of arguments in a docstring, by name."""
    section = _SECTION.search(inspect.cleandoc(function.__doc__ or ""))
    entries = re.split(r"^ {4}(?=\w+: )", section[1], flags=re.M)[1:] if section else []
    return {entry.partition(":")[0]: entry.strip() for entry in entries}


def described_as(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Complete the arguments of a docstring, in the order of the signature, by descriptions in other docstrings.

    Args:
        others: The functions that describe them; later ones come first.
    """

    def completed(function: F) -> F:
        if function.__doc__ is None:  # under python -OO
            return function
        known = functools.reduce(operator.or_, [*map(_entries, others), _entries(function)])
        entries = [known[name] for name in inspect.signature(function).parameters if name in known]
        section = "\n    ".join(["Args:", *entries])
        text = inspect.cleandoc(function.__doc__)
        if not _SECTION.search(text):
            summary, *rest = text.split("\n\nReturns:", 1)
            text = "\n\nReturns:".join([f"{summary}\n\nArgs:\n", *rest])
        function.__doc__ = _SECTION.sub(lambda _: section, text, count=1)
        return function

    return completed
