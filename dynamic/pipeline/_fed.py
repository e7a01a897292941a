"""Batches that a pipeline is fed from outside."""

from __future__ import annotations

from collections.abc import Callable

from dynamic import Batch

__all__ = ["Fed"]


class Fed:
    """Batches that wait under the names of sources, numbered from 0 in the order that they were fed.

    The place of a source is the number of its next batch: a run that is undone has used nothing, and a checkpoint tells
    where to feed on.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()  #: the names that a run has asked for
        self.waiting: dict[str, dict[int, Batch]] = {}

    def put(self, name: str, batch: Batch, place: int) -> None:
        """Let a batch wait behind the others; the first has the number of the place."""
        waiting = self.waiting.get(name, {})
        self.waiting[name] = {**waiting, max(waiting, default=place - 1) + 1: batch}

    def source(self, name: str) -> Callable[[int], Batch]:
        """A source that gives the batch of a number, and forgets those before it."""

        def fed(number: int) -> Batch:
            self.asked.add(name)
            waiting = {place: batch for place, batch in self.waiting.get(name, {}).items() if place >= number}
            if number not in waiting:
                how = f"feed_input({name!r}, data) before each run, or run({name}=data)"
                raise RuntimeError(f"The pipeline's source {name!r} has no data: {how}.")
            self.waiting[name] = waiting
            return waiting[number]

        return fed
