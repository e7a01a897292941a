"""Batches that a pipeline is fed from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dynamic import Batch
from dynamic._locks import new_lock

__all__ = ["Fed"]


class Fed:
    """Batches that wait under the names of sources, numbered from 0 in the order that they were fed.

    The place of a source is the number of its next batch: a run that is undone has used nothing, and a checkpoint tells
    where to feed on.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()  #: the names that a run has asked for
        self.waiting: dict[str, dict[int, tuple[Batch, object]]] = {}  #: with what each was given by
        self._lock = new_lock()

    def put(self, name: str, batch: Batch, place: int, by: object) -> None:
        """Let a batch wait behind the others; the first has the number of the place."""
        with self._lock:
            waiting = self.waiting.get(name, {})
            self.waiting[name] = {**waiting, max(waiting, default=place - 1) + 1: (batch, by)}

    def take_back(self, by: object) -> None:
        """Forget what was given by one call; what was fed after it moves up."""
        with self._lock:
            for name, waiting in self.waiting.items():
                left = [entry for _, entry in sorted(waiting.items()) if entry[1] is not by]
                self.waiting[name] = dict(enumerate(left, min(waiting, default=0)))

    def forget(self, names: Iterable[str]) -> None:
        """Forget all that waits under some names."""
        with self._lock:
            for name in names:
                self.waiting.pop(name, None)

    @property
    def unknown(self) -> list[str]:
        """Names under which batches wait that no run has asked for."""
        return sorted(self.waiting.keys() - self.asked)

    def source(self, name: str) -> Callable[[int], Batch]:
        """A source that gives the batch of a number, and forgets those before it."""

        def fed(number: int) -> Batch:
            self.asked.add(name)
            with self._lock:
                waiting = {place: entry for place, entry in self.waiting.get(name, {}).items() if place >= number}
                if number in waiting:
                    self.waiting[name] = waiting
                    return waiting[number][0]
            how = f"feed_input({name!r}, data) before each run, or run({name}=data)"
            others = f" There is data for {', '.join(map(repr, self.unknown))}." if self.unknown else ""
            raise RuntimeError(f"The pipeline's source {name!r} has no data: {how}.{others}")

        return fed
