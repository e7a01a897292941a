"""A thread that makes things ahead of whoever takes them, a bounded number of them."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from dynamic import ArgumentError
from dynamic._base.locks import new_lock
from dynamic.errors import shown
from dynamic.readers._checks import natural

__all__ = ["Ahead", "depth_of"]

X = TypeVar("X")
_PATIENCE = 1.0  # seconds to wait for a batch that is not wanted any more


class Ahead(Generic[X]):
    """Calls a function again and again in a thread of its own, and keeps its results until they are taken.

    Exceptions of the function are raised where its result would have been taken; it is called again when that is asked
    for once more. A child that was forked has no such thread: make another `Ahead` there.

    Args:
        make: The function. It must not refer to whatever owns this object, or neither is ever freed.
        depth: How many results may wait; with 0 there is no thread, and they are made when they are asked for.

    `start` it before anything else.
    """

    def __init__(self, make: Callable[[], X], depth: int) -> None:
        self.pid = os.getpid()
        self._make, self._depth = make, depth
        self._made: collections.deque[tuple[X | None, BaseException | None]] = collections.deque()
        self._changed = threading.Condition()
        self._taking = new_lock()
        self._closed = self._failed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to make results."""
        if self._depth:
            self._thread = threading.Thread(target=self._work, name="dynamic pipeline", daemon=True)
            try:
                self._thread.start()
            except BaseException:
                self.close()
                raise

    def peek(self) -> X:
        """The next result, which stays the next."""
        if self.pid != os.getpid():
            raise RuntimeError("This iteration began in another process, which has forked; begin one here.")
        if self._closed:
            raise RuntimeError("The pipeline is closed. Make a new one.")
        if not self._depth:
            if not self._made:
                self._made.append((self._make(), None))
        else:
            with self._changed:
                if self._failed and not self._made:  # the error has been raised
                    self._failed = False
                    self._changed.notify_all()
                while not self._made:
                    if self._closed:
                        raise RuntimeError("The pipeline is closed. Make a new one.")
                    self._changed.wait()
        result, error = self._made[0]
        if error is not None:
            with self._changed:
                self._made.clear()
            raise error
        return result  # type: ignore[return-value] # there is one where there is no error

    def take(self) -> X:
        """The next result, which stays the next where something interrupts this. Each goes to one thread."""
        result: X | None = None
        try:
            with self._taking:
                result = self.peek()
                with self._changed:
                    self._made.popleft()
                    self._changed.notify_all()
        except BaseException:
            if result is not None and not (self._made and self._made[0][0] is result):
                self._made.appendleft((result, None))
            raise
        return result

    def close(self) -> None:
        """Let the thread end, and wait until it has; a second at most, where it hangs."""
        if self.pid != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._made.clear()
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(_PATIENCE)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (self._failed or len(self._made) >= self._depth):
                    self._changed.wait()
                if self._closed:
                    return
            result, error = None, None
            try:
                result = self._make()
            except BaseException as caught:  # noqa: BLE001 - raised where the result is taken
                error = caught
            with self._changed:
                if not self._closed:
                    self._made.append((result, error))
                self._failed = error is not None
                self._changed.notify_all()
            del result, error  # or the last batch would stay until the next is made


def depth_of(given: Any) -> int:
    """How many things are made ahead, as the argument `prefetch_queue_depth` of a pipeline says it."""
    if isinstance(given, Mapping):
        if given.keys() != {"cpu_size", "gpu_size"}:
            expected = "a number, or a dict with 'cpu_size' and 'gpu_size'"
            raise ArgumentError("Pipeline", "prefetch_queue_depth", expected, shown(dict(given)))
        natural("Pipeline", "prefetch_queue_depth", given["gpu_size"], 0)
        given = given["cpu_size"]
    return natural("Pipeline", "prefetch_queue_depth", given, 0)
