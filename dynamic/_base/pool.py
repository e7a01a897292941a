"""The threads that run CPU kernels: a few persistent ones, which survive fork and nested calls.

A call shares its samples out one by one to whoever is free, the caller included. So it never waits for a thread: where
all are busy (a nested call, sixteen callers at once), the caller does the work itself.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from operator import index
from typing import Any, TypeAlias

from dynamic.errors import ArgumentError, shown

from .locks import new_lock

__all__ = [
    "WORTH_SPLITTING",
    "Step",
    "checked",
    "get_num_threads",
    "limited",
    "native_threads_for",
    "run",
    "run_parts",
    "run_pieces",
    "run_steps",
    "set_num_threads",
    "share_processors",
    "sharing_all",
    "split",
    "threads_for",
]

#: A function of a library, which lets other threads run, and its arguments.
Step: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

WORTH_SPLITTING = 1 << 23  # bytes of one sample; for fewer it does not pay to wake a thread
_worth_sharing = 1 << 24  # bytes of a call, times their weight; the same for many samples
_OF_A_THREAD = 1 << 21  # bytes times weight, of native code: a third of a millisecond, about
_oversubscribed = False  # whether there may be more threads than processors
_MOST = 1024
#: More threads than this make calls of Python slower: they wait for its lock. Native code has no such limit.
_USEFUL = 16

_lock = new_lock()
_executor: ThreadPoolExecutor | None = None
_workers = 0  # how many threads that has, at most
_wanted: int | None = None
_sharers = 1  # processes between which the processors are divided


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
    return _processors()


def share_processors(processes: int) -> None:
    """Let this process use its part of the processors, as one of several workers that work at the same time."""
    global _sharers
    _sharers = processes


def _processors() -> int:
    """The number of processors that this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(found // _sharers, 1)


def threads_for(work: float, most: int = _MOST) -> int:
    """How many threads share a call: one for little work, else as many as are set and there are processors.

    Args:
        work: Bytes that the call reads and writes, times the work for each byte: copying has 1.
        most: A limit of the code that they run.
    """
    return 1 if work < _worth_sharing else _useful(most)


def native_threads_for(work: float) -> int:
    """The same for native code, whose threads wake in microseconds: as many as have something to do."""
    most = int(work // _OF_A_THREAD)
    return _useful(min(most, _MOST)) if most > 1 or _oversubscribed else 1


def _useful(most: int = _MOST) -> int:
    """How many threads to run of those that are set: more than there are processors would only wait for each other."""
    wanted = get_num_threads()
    if wanted == 1 or _oversubscribed:
        return wanted
    return min(wanted, most, _processors())


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


@contextlib.contextmanager
def sharing_all() -> Iterator[None]:
    """Let threads share all calls inside, however little work and however few processors there are: for tests."""
    global _worth_sharing, _oversubscribed
    before = _worth_sharing, _oversubscribed
    _worth_sharing, _oversubscribed = 0, True
    try:
        yield
    finally:
        _worth_sharing, _oversubscribed = before


def run(function: Callable[[int], None], n: int, work: float) -> None:
    """Call ``function(i)`` for each i below n, in any order, on several threads where there is enough work.

    Args:
        function: Its first error ends the whole call, and is raised once no call is under way.
        n: Number of calls.
        work: Bytes that all calls together read and write, times the work for each byte: copying has 1.
    """
    _each(function, n, threads_for(work, _USEFUL) if n > 1 else 1)


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
    """The tasks that are left, until others have taken the last."""
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


def run_parts(function: Callable[[slice], None], n: int, work: float) -> None:
    """Call `function` for parts of ``range(n)`` that together are all of it: one for each thread.

    Args:
        function: As for `run`.
        n: Number of samples.
        work: As for `run`.
    """
    if n and work < _worth_sharing:
        function(slice(0, n))
    else:
        _run_parts(function, n, _useful(), 1)


def run_steps(steps: Sequence[Step], work: float) -> None:
    """Call functions of libraries, in any order.

    Their arguments are made before by one thread: threads that run Python in between wait for each other.

    Args:
        steps: The functions and their arguments.
        work: As for `run`.
    """
    if work < _worth_sharing:
        for function, arguments in steps:
            function(*arguments)
        return

    def one(i: int) -> None:
        function, arguments = steps[i]
        function(*arguments)

    run(one, len(steps), work)


def run_pieces(function: Callable[[int], None], n: int, work: int) -> None:
    """Like `run`, for the pieces of one sample, which are shared out where it is large.

    Args:
        function: As for `run`.
        n: Number of pieces.
        work: Bytes that all calls together read and write.
    """
    _each(function, n, _useful() if n > 1 and work >= WORTH_SPLITTING else 1)


def _each(function: Callable[[int], None], n: int, threads: int) -> None:
    """Call a function for each number below n, on so many threads."""
    if threads > 1:
        _share(function, range(n), min(threads, n), max(1, threads // n))
        return
    for i in range(n):
        function(i)


def split(function: Callable[[slice], None], n: int, work: int, step: int = 1) -> None:
    """Like `run_parts`, for one sample: call a function for parts of its rows, where it is large.

    Args:
        function: As for `run`.
        n: Number of rows.
        work: Bytes that all calls together read and write.
        step: Parts begin at multiples of it.
    """
    _run_parts(function, n, _useful() if work >= WORTH_SPLITTING else 1, step)


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
