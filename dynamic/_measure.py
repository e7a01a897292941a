"""Where the time of a training loop goes: to waiting for data, or to the step; and where that of its loader goes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from ._base import clock
from .errors import ArgumentError, shown

__all__ = ["Measured", "measure"]

X = TypeVar("X")

_STEP = "step"
_OTHER = "other Python"
_IDLE = 0.05  # the share of waiting up to which the step sets the pace


class Part(NamedTuple):
    """The share of an operator or a reader in the loader's time."""

    name: str
    calls: int
    seconds: float  #: its own, without operators that it calls
    share: float


class Measured(Generic[X]):
    """A loop, and a report on its last pass: made by `measure`. Printed, the report is a table.

    Figures leave out the first batch, before which much is done for the first time.

    Attributes:
        batches: How many were taken.
        seconds: Of the whole pass, the first batch included.
        first: Seconds until the first batch was there.
        waited: Seconds that the trainer waited for the others.
        stepped: Seconds that it worked on them.
    """

    def __init__(self, iterable: Iterable[X]) -> None:
        self._iterable = iterable
        self._watch = clock.Watch()
        self._begin()

    def _begin(self) -> None:
        self.batches, self.seconds, self.first, self.waited, self.stepped = 0, 0.0, 0.0, 0.0, 0.0
        self._thread = threading.get_ident()

    def __len__(self) -> int:
        """As of the iterable."""
        return len(self._iterable)  # type: ignore[arg-type] # a TypeError of its own where it has none

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[X]:
        watch = self._watch = clock.Watch()
        self._begin()
        clock.watch_more(1)
        try:
            began = perf_counter()
            iterator = self._watched(iter, self._iterable)
            while True:
                asked = perf_counter()
                try:
                    batch = self._watched(next, iterator)
                except StopIteration:
                    break
                given = perf_counter()
                self.batches += 1
                if self.batches == 1:
                    self.first = given - began
                    watch.totals = {}
                else:
                    self.waited += given - asked
                try:
                    yield batch
                finally:
                    del batch
                    done = perf_counter()
                    self.seconds = done - began
                    self.stepped += done - given if self.batches > 1 else 0.0
                    watch.spans.append(clock.Span(_STEP, self._thread, given, done))
        finally:
            clock.watch_more(-1)

    def _watched(self, function: Any, value: Any) -> Any:
        """Call a function whose time is that of the loader."""
        token = clock.current.set(self._watch)
        try:
            return clock.noted(clock.TAKING, function, value)
        finally:
            clock.current.reset(token)

    # -- the report ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> float:
        """The share of the time that the trainer waited for data, 0 to 1."""
        seconds = self.waited + self.stepped
        return self.waited / seconds if seconds else 0.0

    @property
    def steps_per_second(self) -> float | None:
        """Batches a second that the step would take if it never waited; None where there is too little to tell."""
        return _rate(self.batches - 1, self.stepped)

    @property
    def loads_per_second(self) -> float | None:
        """Batches a second that the loader would make if it never waited for the step; None if nobody knows.

        It is not known of loaders that work in other processes, or that began before the loop did.
        """
        stages = self._stages()
        return min(stages) if stages else None

    @property
    def is_made_ahead(self) -> bool:
        """Whether another thread or process makes batches while the step works."""
        return self._makers() or bool(getattr(self._iterable, "num_workers", 0))

    def _makers(self) -> bool:
        return any(name == clock.MAKING for _, name in self._watch.totals)

    def _stages(self) -> list[float]:
        """Batches a second of each thread that takes part in making them, while it does not wait for another."""
        totals = dict(self._watch.totals)
        workers = getattr(self._iterable, "num_workers", None)
        foreign = not self._makers() and not {name for _, name in totals} - {clock.TAKING}
        if workers or (foreign and workers is None):
            return []  # it may wait for other processes
        rates = []
        for (thread, name), total in totals.items():
            if name in (clock.MAKING, clock.TAKING):
                waits = totals.get((thread, clock.WAITING), clock.Total()).seconds
                batches = total.calls if name == clock.MAKING else self.batches - 1
                rates.append(_rate(batches, total.seconds - waits))
        return [rate for rate in rates if rate is not None]

    @property
    def parts(self) -> list[Part]:
        """The operators and readers of the loader, the one first that takes most of its time."""
        calls: dict[str, tuple[int, float]] = {}
        for (_, name), total in dict(self._watch.totals).items():
            if name != clock.WAITING:
                name = _OTHER if name in (clock.MAKING, clock.TAKING) else name
                before = calls.get(name, (0, 0.0))
                calls[name] = before[0] + total.calls, before[1] + total.own
        whole = sum(seconds for _, seconds in calls.values()) or 1.0
        found = [Part(name, n, seconds, seconds / whole) for name, (n, seconds) in calls.items()]
        return sorted(found, key=lambda part: -part.seconds)

    @property
    def verdict(self) -> str:
        """The bottleneck, in a sentence."""
        loads, steps = self.loads_per_second, self.steps_per_second
        if self.batches < 2 or steps is None:
            return "There are too few batches to tell."
        waited = f"the trainer waited {self.waiting:.0%} of the time for data"
        if self.waiting < _IDLE:
            return f"The step sets the pace: {waited}."
        if loads is None:
            return f"The loader sets the pace: {waited}."
        if not self.is_made_ahead:
            hidden = min(1 / loads, 1 / steps) / (1 / loads + 1 / steps)
            return f"Loader and step take turns: {waited}; prefetch() would save {hidden:.0%} of it all."
        if loads > steps:
            return f"The loader is fast enough, but not evenly: {waited}; a greater depth would help."
        most = self.parts[0]
        return f"The loader sets the pace: {waited}; {most.share:.0%} of the loader's time goes to {most.name}."

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "batches": self.batches,
            "seconds": self.seconds,
            "first": self.first,
            "waited": self.waited,
            "stepped": self.stepped,
            "waiting": self.waiting,
            "loads_per_second": self.loads_per_second,
            "steps_per_second": self.steps_per_second,
            "parts": [part._asdict() for part in self.parts],
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.batches} batches in {self.seconds:.3g} s, the first after {self.first:.3g} s",
            f"waited for data     {self.waited:10.3f} s  {self.waiting:6.1%}",
            f"step                {self.stepped:10.3f} s  {1 - self.waiting if self.stepped else 0:6.1%}",
            f"loader alone        {_told(self.loads_per_second, self._at_least)} batches/s",
            f"step alone          {_told(self.steps_per_second, None)} batches/s",
        ]
        if {part.name for part in self.parts} - {_OTHER}:
            width = max(len(part.name) for part in self.parts)
            lines.append(f"{'the loader':{width}}       calls       ms each    share")
            for part in self.parts:
                each = 1000 * part.seconds / max(part.calls, 1)
                calls = "" if part.name == _OTHER else part.calls
                lines.append(f"  {part.name:{width}}  {calls:>8}  {each:12.3f}   {part.share:6.1%}")
        return "\n".join([*lines, self.verdict])

    @property
    def _at_least(self) -> float | None:
        """Batches a second that the loader made in any case."""
        return _rate(self.batches - 1, self.waited + self.stepped)

    def __repr__(self) -> str:
        return f"<measure of {self._iterable!r}: {self.batches} batches>"

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the calls of all threads as a file that chrome://tracing and Perfetto open.

        Args:
            path: The file, of JSON. Of very long loops it holds the beginning.
        """
        spans = list(self._watch.spans)
        began = min((span.start for span in spans), default=0.0)
        pid = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}}
            for thread, name in dict(self._watch.threads).items()
        ]
        events += [
            {
                "ph": "X",
                "name": span.name,
                "cat": _STEP if span.name == _STEP else "loader",
                "pid": pid,
                "tid": span.thread,
                "ts": 1e6 * (span.start - began),
                "dur": 1e6 * (span.end - span.start),
            }
            for span in spans
        ]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), "utf-8")


def _rate(batches: int, seconds: float) -> float | None:
    return batches / seconds if batches > 0 and seconds > 0 else None


def _told(rate: float | None, at_least: float | None) -> str:
    if rate is not None:
        return f"{rate:10.1f}  "
    return f"  not known: at least {at_least:.1f}" if at_least is not None else "  not known:"


def measure(loop: Iterable[X]) -> Measured[X]:
    """Measure a training loop: how long it waits for data, and which operators and readers take the loader's time.

    Iterate the result in place of the loop, and print it afterwards. Nothing else is measured while that lasts, and
    nothing costs time where no loop is measured. Times are those of calls; work on a GPU goes on after them.

    Args:
        loop: Batches: an epoch of a reader, a generator, `prefetch`, a pipeline, a loader of PyTorch.

    Raises:
        ArgumentError: It is no iterable.

    >>> report = ndd.measure(ndd.prefetch(range(20), ndd.as_tensor))
    >>> for batch in report:
    ...     pass
    >>> report.batches, sorted(report.as_dict())[:4]
    (20, ['batches', 'first', 'loads_per_second', 'parts'])
    """
    iterable: object = loop
    if not isinstance(iterable, Iterable):
        hint = "Readers give one by next_epoch(batch_size)."
        raise ArgumentError("measure", "loop", "an iterable of batches", shown(iterable), hint)
    return Measured(loop)
