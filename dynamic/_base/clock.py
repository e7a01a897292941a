"""Times of calls of operators and readers, noted while `measure` asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from .locks import new_lock

__all__ = ["MAKING", "TAKING", "WAITING", "Span", "Watch", "begin", "current", "end", "noted", "watch_more"]

R = TypeVar("R")

MAKING = "making a batch"  # in a thread that makes them ahead
TAKING = "waiting for data"  # in the thread that takes them from the measured loop
WAITING = "waiting for a batch made ahead"
_MOST_SPANS = 200_000

#: How many loops are measured. While there are none, nothing is asked and nothing noted.
watching = 0
#: The watch of the loop that is being measured here.
current: ContextVar[Watch | None] = ContextVar("dynamic.watch", default=None)
_lock = new_lock()


class _Thread(threading.local):
    inner = 0.0  # seconds of the calls inside of the one under way


_thread = _Thread()


class Total(NamedTuple):
    """The time of the calls of one name in one thread."""

    calls: int = 0
    seconds: float = 0.0
    own: float = 0.0  #: without that of calls inside


class Span(NamedTuple):
    """One call, in the seconds of `time.perf_counter`."""

    name: str
    thread: int
    start: float
    end: float


class Watch:
    """The times of one pass over a loop.

    Attributes:
        totals: By thread and name.
        spans: Single calls, the first of them where there are very many.
        threads: The names of threads.
    """

    def __init__(self) -> None:
        self.totals: dict[tuple[int, str], Total] = {}
        self.spans: list[Span] = []
        self.threads: dict[int, str] = {}

    def note(self, name: str, start: float, end: float, own: float) -> None:
        """Add a call."""
        thread = threading.get_ident()
        key = thread, name
        totals = self.totals  # only this thread writes to this key
        before = totals.get(key) or Total()
        totals[key] = Total(before.calls + 1, before.seconds + end - start, before.own + own)
        if len(self.spans) < _MOST_SPANS:
            self.spans.append(Span(name, thread, start, end))
            self.threads.setdefault(thread, threading.current_thread().name)


class _Call(NamedTuple):
    """A call under way."""

    watch: Watch
    name: str
    start: float
    outside: float  # `inner` of the call around it


def begin(name: str) -> _Call | None:
    """Note that a call begins; None where it belongs to no loop that is measured."""
    watch = current.get()
    if watch is None:
        return None
    outside, _thread.inner = _thread.inner, 0.0
    return _Call(watch, name, perf_counter(), outside)


def end(call: _Call | None) -> None:
    """Note that it has ended."""
    if call is not None:
        now = perf_counter()
        seconds = now - call.start
        call.watch.note(call.name, call.start, now, seconds - _thread.inner)
        _thread.inner = call.outside + seconds


def noted(name: str, function: Callable[..., R], *arguments: Any) -> R:
    """Call a function, and note its time."""
    call = begin(name)
    try:
        return function(*arguments)
    finally:
        end(call)


def watch_more(loops: int) -> None:
    """Tell that so many loops more are measured, or fewer."""
    global watching
    with _lock:
        watching += loops
