"""Batches that a pipeline is fed from outside."""

from __future__ import annotations

import collections
from collections.abc import Callable

from dynamic import Batch

__all__ = ["Fed"]


class Fed:
    """Batches that wait under the names of sources; a run uses the first of each, which goes when the run is taken."""

    def __init__(self) -> None:
        self.known: frozenset[str] = frozenset()  #: the names that a whole run has asked for
        self._used: set[str] = set()
        self._waiting: dict[str, collections.deque[Batch]] = {}

    def put(self, name: str, batch: Batch) -> None:
        """Let a batch wait."""
        self._waiting.setdefault(name, collections.deque()).append(batch)

    def source(self, name: str) -> Callable[[], Batch]:
        """A source without arguments, which gives the first batch that waits under a name."""

        def first() -> Batch:
            self._used.add(name)
            if not self._waiting.get(name):
                how = f"feed_input({name!r}, data) before each run, or run({name}=data)"
                raise RuntimeError(f"The pipeline's source {name!r} has no data: {how}.")
            return self._waiting[name][0]

        return first

    def taken(self) -> None:
        """Forget what the run that was taken has used."""
        self.known = frozenset(self._used)
        for name in self._used:
            if self._waiting.get(name):
                self._waiting[name].popleft()

    @property
    def unknown(self) -> set[str]:
        """Names under which batches wait that nobody asks for."""
        return {name for name, waiting in self._waiting.items() if waiting} - self._used
