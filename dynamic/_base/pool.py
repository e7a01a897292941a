"""The threads that run CPU kernels: a few persistent ones, which survive fork and nested calls.

A call shares its samples out one by one to whoever is free, the caller included. So it never waits for a thread: where
all are busy (a nested call, sixteen callers at once), the caller does the work itself.
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from operator import index
from typing import Any, NamedTuple, TypeAlias

from dynamic.errors import ArgumentError, shown

from .locks import new_lock

__all__ = [
    "WORTH_SPLITTING",
    "Step",
    "checked",
    "get_num_threads",
    "limited",
    "run",
    "run_parts",
    "run_pieces",
    "run_steps",
    "set_num_threads",
    "split",
]

#: A function of a library, which lets other threads run, and its arguments.
Step: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

WORTH_SPLITTING = 1 << 23  # bytes of one sample; for fewer it does not pay to wake a thread
_WORTH_THREADS = 1 << 18  # bytes; to hand less work to a thread and back never pays
_MUCH = 1 << 24  # bytes; what takes so many is surely worth threads
_WORTH_SHARING = 1e-4  # seconds; tasks that take so long are shared
_WORTH_TRYING = 2e-5  # tasks that take so long are where it is faster: mostly, threads that take turns so often wait
_SURELY = 3  # times as long; tasks that will surely take it are shared from the first
_MEASURED = 3  # times; an operator's first one may be slow
_TIMED = 4  # tasks, of many, that are timed where it is not known that sharing pays
_MOST = 1024

_lock = new_lock()
_executor: ThreadPoolExecutor | None = None
_workers = 0  # how many threads that has, at most
_wanted: int | None = None


class _Rule(NamedTuple):
    """When one thread does what was shared before."""

    worse: float  #: where several took so many times as long as one
    tried: int  #: each of so many times
    seconds: float  #: for so long


_LONG = _Rule(1.5, 10, 2.0)  # more than two threads take on one CPU: the system may take one away for a while
_SHORT = _Rule(0.95, 4, 10.0)


class _Known:
    """What is known of the tasks of an operator: what one thread took for them, and several."""

    __slots__ = ("alone", "shared", "when")

    def __init__(self) -> None:
        self.alone: tuple[float, ...] = ()  #: seconds for each byte, the last times that it was measured
        self.when = -math.inf  #: when it was last
        self.shared: tuple[tuple[float, float], ...] = ()  #: when, and the same, where they were shared

    def cost(self) -> float:
        """Seconds for each byte; 0 until they were measured often enough."""
        return min(self.alone) if len(self.alone) == _MEASURED else 0.0

    def was_alone(self, cost: float) -> None:
        """Add what one thread took."""
        self.alone, self.when = (*self.alone, cost)[-_MEASURED:], time.perf_counter()

    def was_shared(self, cost: float) -> None:
        """Add what several took."""
        self.shared = (*self.shared, (time.perf_counter(), cost))[-_LONG.tried :]

    def lost(self, rule: _Rule) -> bool:
        """Whether the last calls were slower shared, and not long ago."""
        since, cost = time.perf_counter() - rule.seconds, self.cost()
        recent = [shared for when, shared in self.shared[-rule.tried :] if when > since]
        return cost > 0 and len(recent) == rule.tried and min(recent) > rule.worse * cost


_known: dict[tuple[str, int], _Known] = {}  # by what is done, and how often 2 goes into the bytes of a task


class _Limit(threading.local):
    """How many threads a task that a thread works at may use; None outside of tasks."""

    num_threads: int | None = None


_limit = _Limit()
#: How many threads the calls of a thread, or of one of its asyncio tasks, may use; None as many as all others.
limit: ContextVar[int | None] = ContextVar("dynamic.limit", default=None)


@contextlib.contextmanager
def limited(num_threads: int | None) -> Iterator[None]:
    """Let the calls inside use so many threads."""
    before = limit.get()
    limit.set(num_threads)
    try:
        yield
    finally:
        limit.set(before)


def get_num_threads() -> int:
    """How many threads run CPU kernels, the caller's included.

    By default the value of the environment variable DYNAMIC_NUM_THREADS or DALI_NUM_THREADS, else the number of CPUs
    that this process may use.

    >>> ndd.get_num_threads() >= 1
    True
    """
    chosen = _limit.num_threads or limit.get() or _wanted
    if chosen is not None:
        return chosen
    for name in ("DYNAMIC_NUM_THREADS", "DALI_NUM_THREADS"):
        if name in os.environ:
            return _from_environment(name)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _from_environment(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise ArgumentError("get_num_threads", name, f"an integer in [1, {_MOST}]", shown(text))
    return int(text)


def set_num_threads(n: int | None) -> None:
    """Set how many threads run CPU kernels, the caller's included; None goes back to the default.

    Results never depend on it.

    Raises:
        ArgumentError: The number is not an integer in [1, 1024].
    """
    global _wanted, _executor
    n = checked("set_num_threads", n, "n")
    with _lock:
        _executor, _wanted = None, n  # the old threads end once no call uses them


def checked(operator: str, num_threads: int | None, argument: str = "num_threads") -> int | None:
    """A number of threads that a caller gave."""
    if num_threads is None:
        return None
    count = 0
    if not isinstance(num_threads, bool):
        with contextlib.suppress(TypeError):
            count = index(num_threads)
    if not 1 <= count <= _MOST:
        raise ArgumentError(operator, argument, f"an integer in [1, {_MOST}] or None", shown(num_threads))
    return count


def run(function: Callable[[int], None], n: int, work: int, name: str = "", sizes: Sequence[int] | None = None) -> None:
    """Call ``function(i)`` for each i below n, in any order, on several threads where that pays.

    Args:
        function: What it raises ends the whole call; the first error is raised once no call is under way.
        n: Number of calls.
        work: Bytes that all calls together read and write.
        name: Of what is done. What took long the last times is shared from its first call on, what was slower shared
            is not, and what is short is where that was faster.
        sizes: For each call about what part of `work` it is, in any unit, where that differs.
    """
    available = get_num_threads() if n > 1 and work >= _WORTH_THREADS else 1
    if available <= 1:
        for i in range(n):
            function(i)
        return
    threads, each = min(available, n), max(1, available // n)
    size = max(1, work) / n
    known = _known.setdefault((name, int(size).bit_length()), _Known()) if name else _Known()
    expected = known.cost() * size
    timed = 1 if expected >= _WORTH_SHARING else min(_TIMED, max(1, n // 4))
    short = _WORTH_TRYING <= expected < _WORTH_SHARING
    worth = short or expected >= _SURELY * _WORTH_SHARING
    alone = known.lost(_SHORT if short else _LONG) or (short and known.when < time.perf_counter() - _SHORT.seconds)
    outside = _limit.num_threads
    first, took, begun = 0, 0.0, time.perf_counter()
    try:  # not `limited`: a Ctrl-C may come in between what that does
        _limit.num_threads = each
        while (alone or not worth) and first < n:  # samples may be of many sizes, and the first one a small one
            function(first)
            first, now = first + 1, time.perf_counter()
            took = (now - begun) / max(1, first - 1)
            begun = now if first == 1 else begun  # the first one is often slow: others do not count it
            worth = first >= min(2, timed) and took >= (1 if first >= timed else _SURELY) * _WORTH_SHARING
    finally:
        _limit.num_threads = outside
    if first:
        cost = took / _mean(sizes, slice(int(first > 1), first), size)
        known.was_alone(cost if first > 1 else min(cost, known.cost() or cost))
    if first < n:
        begun = time.perf_counter()
        _share(function, range(first, n), min(threads, n - first), each)
        known.was_shared((time.perf_counter() - begun) / (n - first) / _mean(sizes, slice(first, n), size))


def _mean(sizes: Sequence[int] | None, part: slice, size: float) -> float:
    """The bytes of each of some calls, on average, where those of all are `size`."""
    if sizes is None:
        return size
    return size * max(1, sum(sizes[part])) / max(1, sum(sizes)) * len(sizes) / max(1, len(sizes[part]))


def _share(function: Callable[[int], None], numbers: Iterable[int], threads: int, each: int = 1) -> None:
    """Call a function for each of some numbers, on so many threads, this one included; a call may use `each`."""
    todo = collections.deque(numbers)

    def work_off() -> None:
        outside = _limit.num_threads
        try:
            _limit.num_threads = each
            for i in _taken(todo):
                function(i)
        except BaseException:
            todo.clear()
            raise
        finally:
            _limit.num_threads = outside

    helpers: list[Future[None]] = []
    try:
        _submit(work_off, threads - 1, helpers)
        work_off()
        _end(helpers)
    except BaseException as error:
        todo.clear()
        if isinstance(error, Exception):  # else, at a Ctrl-C, they are left alone: one may hang in a read
            _end(helpers)
        raise
    for helper in helpers:
        if not helper.cancelled():
            helper.result()


def _taken(todo: collections.deque[int]) -> Iterator[int]:
    """What is to be done, until others have taken the last."""
    while True:
        try:
            yield todo.popleft()
        except IndexError:
            return


def _submit(task: Callable[[], None], count: int, helpers: list[Future[None]]) -> None:
    """Let other threads do a task as well; none of them as the interpreter ends."""
    try:
        while len(helpers) < count:
            helpers.append(_threads(count).submit(task))
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise


def _end(helpers: list[Future[None]]) -> None:
    """Wait: no thread may go on writing to the results of a call that is over."""
    for helper in helpers:
        if not helper.cancel():
            helper.exception()


def run_parts(function: Callable[[slice], None], n: int, work: int, name: str) -> None:
    """Call `function` for parts of ``range(n)`` that together are all of it: one for each thread where that pays.

    Args:
        function: As for `run`.
        n: Number of samples.
        work: Bytes that all calls together read and write.
        name: Of what is done. Where it is not much, it is measured whether several threads are faster.
    """
    _where_it_pays(lambda threads: _run_parts(function, n, threads, 1), n, work, name)


def run_steps(steps: Sequence[Step], work: int, name: str) -> None:
    """Do what is ready to be done, in any order: threads would wait for each other at anything more in between.

    Args:
        steps: The steps.
        work: Bytes that all of them read and write.
        name: As for `run_parts`.
    """

    def one(i: int) -> None:
        function, arguments = steps[i]
        function(*arguments)

    _where_it_pays(lambda threads: _each(one, len(steps), threads), len(steps), work, name)


def _where_it_pays(function: Callable[[int], None], n: int, work: int, name: str) -> None:
    """Call a function with how many threads it may use for n things: one, where several were not faster before."""
    threads = get_num_threads() if n > 1 and work >= _WORTH_THREADS else 1
    if threads == 1 or work >= _MUCH:
        function(threads)
        return
    known = _known.setdefault((f"{name} at once", work.bit_length()), _Known())
    begun = time.perf_counter()
    alone = not known.cost() or known.lost(_SHORT) or known.when < begun - _SHORT.seconds
    function(1 if alone else threads)
    (known.was_alone if alone else known.was_shared)((time.perf_counter() - begun) / work)


def run_pieces(function: Callable[[int], None], n: int, work: int) -> None:
    """Like `run`, for the pieces of one sample, which are shared out where it is large.

    Args:
        function: As for `run`.
        n: Number of pieces.
        work: Bytes that all calls together read and write.
    """
    _each(function, n, get_num_threads() if n > 1 and work >= WORTH_SPLITTING else 1)


def _each(function: Callable[[int], None], n: int, threads: int) -> None:
    """Call a function for each number below n, on so many threads."""
    if threads > 1:
        _share(function, range(n), min(threads, n))
        return
    for i in range(n):
        function(i)


def split(function: Callable[[slice], None], n: int, work: int, step: int = 1) -> None:
    """Like `run_parts`, for one sample: call a function for parts of its rows, where it is large.

    Args:
        function: As for `run`.
        n: Number of rows.
        work: Bytes that all calls together read and write.
        step: What the beginnings of parts are multiples of.
    """
    _run_parts(function, n, get_num_threads() if work >= WORTH_SPLITTING else 1, step)


def _run_parts(function: Callable[[slice], None], n: int, threads: int, step: int) -> None:
    steps = -(-n // step)
    parts = min(threads, steps)
    if parts <= 1:
        if n:
            function(slice(0, n))
        return
    ends = [min(n, k * steps // parts * step) for k in range(parts + 1)]
    _share(lambda k: function(slice(ends[k], ends[k + 1])), range(parts), parts)


def _threads(count: int) -> ThreadPoolExecutor:
    """So many threads or more; where there were fewer, those end once no call uses them."""
    global _executor, _workers
    with _lock:
        if _executor is None or _workers < count:
            _executor, _workers = ThreadPoolExecutor(count, thread_name_prefix="dynamic"), count
        return _executor


def _forget_threads() -> None:
    """In a forked child there are no threads."""
    global _executor
    _executor = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
