"""DALI's capture mode runs ahead of a loop, with the same results. Here it exists so that scripts run unchanged."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["invariant"]

T = TypeVar("T")


def invariant(value: T) -> T:
    """The value itself. For DALI it is a promise that the value stays the same while a loop runs.

    >>> ndd.capture.invariant([3])
    [3]
    """
    return value
