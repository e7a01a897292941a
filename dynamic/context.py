"""Evaluation modes, contexts, pools and streams: thin shells for scripts written for DALI.

Everything here is evaluated when it is called, on the CPU synchronously, so a mode changes nothing; a context and a
pool say how many threads to use; a stream is CuPy's current one.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from ._arrays import cuda
from ._base import pool
from .checkpoint import Checkpoint, _checkpoint
from .devices import Device, gpu_count
from .errors import ArgumentError, DeviceError, shown

__all__ = [
    "EvalContext",
    "EvalMode",
    "Stream",
    "ThreadPool",
    "get_current_stream",
    "get_default_stream",
    "set_current_stream",
    "set_default_stream",
    "stream",
]

R = TypeVar("R")


class _OfThread(threading.local):
    default: EvalContext | None = None


_of_thread = _OfThread()
#: The contexts entered in a thread, or in one of its asyncio tasks; contexts with the work to do on leaving.
_modes: ContextVar[tuple[EvalMode, ...]] = ContextVar("dynamic.modes", default=())
_entered: ContextVar[tuple[tuple[EvalContext, ExitStack], ...]] = ContextVar("dynamic.contexts", default=())


class EvalMode(enum.IntEnum):
    """When operators are evaluated in DALI. Here always at once; the modes exist so that scripts run unchanged.

    >>> with ndd.EvalMode.sync_cpu:
    ...     ndd.EvalMode.current().name
    'sync_cpu'
    """

    deferred = 1
    eager = 2
    sync_cpu = 3
    sync_full = 4
    default = eager

    __str__ = enum.Enum.__str__

    @staticmethod
    def current() -> EvalMode:
        """The mode of the innermost ``with`` of this thread or asyncio task, else `eager`."""
        modes = _modes.get()
        return modes[-1] if modes else EvalMode.eager

    def __enter__(self) -> Self:
        _modes.set((*_modes.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _modes.set(_modes.get()[:-1])


class ThreadPool:
    """A number of threads to run CPU kernels; all contexts share the threads themselves.

    Args:
        num_threads: How many, the caller's included; by default `get_num_threads()`.
        device_id: Kept for scripts written for DALI.
    """

    def __init__(self, num_threads: int | None = None, *, device_id: int | None = None) -> None:
        self.num_threads = pool.checked("ThreadPool", num_threads) or pool.get_num_threads()
        self.device_id = device_id

    def __repr__(self) -> str:
        return f"ThreadPool(num_threads={self.num_threads})"


class EvalContext:
    """How many threads the operators called inside use, and a `Checkpoint` that `checkpoint.current` gives inside.

    It holds in the thread, or the asyncio task, that enters it; several may be inside of one at the same time.

    Args:
        num_threads: How many, the caller's included; by default `get_num_threads()`.
        device_id: The GPU of the context; None for the CPU.
        cuda_stream: Kept for scripts written for DALI.
        thread_pool: A pool that says how many, instead of `num_threads`.

    >>> with ndd.EvalContext(num_threads=1) as context:
    ...     ndd.EvalContext.current() is context, ndd.get_num_threads()
    (True, 1)
    """

    def __init__(
        self,
        *,
        num_threads: int | None = None,
        device_id: int | None = None,
        cuda_stream: Any = None,
        thread_pool: ThreadPool | None = None,
    ) -> None:
        if thread_pool is not None and num_threads is not None:
            raise ArgumentError.either("EvalContext", "num_threads", "thread_pool", both=True)
        if thread_pool is not None and not isinstance(thread_pool, ThreadPool):
            raise ArgumentError("EvalContext", "thread_pool", "a ThreadPool or None", shown(thread_pool))
        self._wanted = pool.checked("EvalContext", num_threads)
        self._device = None if device_id is None else Device("gpu", device_id)
        self._pool = thread_pool
        self.cuda_stream = cuda_stream
        self.checkpoint = Checkpoint()

    @property
    def num_threads(self) -> int:
        """How many threads the operators called inside use."""
        wanted = self._wanted if self._pool is None else self._pool.num_threads
        return wanted or pool.get_num_threads()

    @property
    def thread_pool(self) -> ThreadPool:
        """The pool of the context."""
        return self._pool or ThreadPool(self.num_threads)

    @property
    def device_id(self) -> int | None:
        """The GPU of the context; None for the CPU."""
        return None if self._device is None else self._device.device_id

    @staticmethod
    def current() -> EvalContext:
        """The innermost context that this thread or task has entered, else the default of the thread."""
        entered = _entered.get()
        return entered[-1][0] if entered else EvalContext.default()

    @staticmethod
    def default() -> EvalContext:
        """The context of this thread outside of any other."""
        if _of_thread.default is None:
            _of_thread.default = EvalContext()
            _of_thread.default.checkpoint = _checkpoint.default()
        return _of_thread.default

    def evaluate_all(self) -> None:
        """Do nothing: everything is evaluated when it is called."""

    def __enter__(self) -> Self:
        stack = ExitStack()
        stack.enter_context(pool.limited(self.num_threads))
        stack.enter_context(_checkpoint.entered(self.checkpoint))
        if self._device is not None:
            stack.enter_context(self._device)
        _entered.set((*_entered.get(), (self, stack)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        *outer, (_, stack) = _entered.get()
        _entered.set(tuple(outer))
        stack.close()


def within(num_threads: int, function: Callable[[], R]) -> R:
    """Call a function in a context of its own. A Ctrl-C leaves nothing of it: it may come before an `__exit__`."""

    def inside() -> R:
        context = EvalContext(num_threads=num_threads)
        pool.limit.set(num_threads)
        _checkpoint.innermost.set(context.checkpoint)
        _entered.set((*_entered.get(), (context, ExitStack())))
        return function()

    return copy_context().run(inside)


class Stream:
    """A CUDA stream, for libraries that ask for one with ``__cuda_stream__``.

    Args:
        handle: Address of the stream.
        device_id: The GPU that it is on.
    """

    def __init__(self, handle: int, device_id: int = 0) -> None:
        self.handle, self.device_id = handle, device_id
        self._owner: Any = None  # the object that the stream lives as long as

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait until all work of the stream is done."""
        with cuda.cupy().cuda.Device(self.device_id):
            cuda.of_handle(self.handle).synchronize()


def stream(stream: Any = None, device_id: int | None = None) -> Stream:
    """A Stream of an object that has a handle: a Stream, a torch or CuPy stream, an address, or None for a new one.

    Raises:
        DeviceError: There is no GPU.
    """
    if not gpu_count():
        raise DeviceError("There are no streams without a GPU.")
    index = device_id or 0
    if isinstance(stream, Stream):
        return stream
    if stream is None:
        with cuda.cupy().cuda.Device(index):
            stream = cuda.cupy().cuda.Stream(non_blocking=True)
    handle = stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(handle, name, handle)
    if not isinstance(handle, int):
        raise ArgumentError("stream", "stream", "a CUDA stream or its address", shown(stream))
    found = Stream(handle, index)
    found._owner = stream
    return found


def get_current_stream(device_id: int | None = None) -> Stream | None:
    """CuPy's current stream; None without a GPU."""
    if not gpu_count():
        return None
    index = device_id or 0
    with cuda.cupy().cuda.Device(index):
        return stream(cuda.cupy().cuda.get_current_stream(), index)


def set_current_stream(stream: Stream | None) -> None:
    """Make a stream CuPy's current one in this thread; None makes it the default stream."""
    if stream is None and not gpu_count():
        return
    cuda.of_handle(0 if stream is None else stream.handle).use()


get_default_stream = get_current_stream
set_default_stream = set_current_stream
