"""Goals of reliability: what is asked, and what measures it; `tests/reliability.py` makes a table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ROWS", "Row", "goal"]

ROWS: list[Row] = []


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: Its number, and which part of it where it has several: "G12 hostile".
        asked: What is asked, in words.
        measure: Called with whether a sample will do, of a few seconds; returns the figure and whether the goal holds.
        sampled: Whether the tests take that sample; not where other tests measure the same anyway.
    """

    name: str
    asked: str
    measure: Callable[[bool], tuple[str, bool]]
    sampled: bool


def goal(name: str, asked: str, *, sampled: bool = True) -> Callable[[Callable[[bool], tuple[str, bool]]], Row]:
    """Declare the function below to measure a goal."""

    def declared(measure: Callable[[bool], tuple[str, bool]]) -> Row:
        row = Row(name, asked, measure, sampled)
        assert name not in {known.name for known in ROWS}, name
        ROWS.append(row)
        return row

    return declared
