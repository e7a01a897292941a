"""A thread that makes things ahead of whoever takes them, a bounded number of them."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from . import clock
from .locks import new_lock

__all__ = ["Ahead"]

X = TypeVar("X")
_PATIENCE = 1.0  # seconds to wait for a batch that is not wanted any more


class Ahead(Generic[X]):
    """Calls a function again and again in a thread of its own, and keeps its results until they are taken.

    Exceptions of the function are raised where its result would have been taken; it is called again when that is asked
    for once more. A child that was forked has no such thread: make another `Ahead` there.

    Args:
        make: The function. It must not refer to whatever owns this object, or neither is ever freed.
        depth: How many results may wait; with 0 there is no thread, and they are made when they are asked for.
        name: The name of the maker in errors.
        run: Runs the work of the thread in it.

    `start` it before anything else.
    """

    def __init__(
        self,
        make: Callable[[], X],
        depth: int,
        name: str = "pipeline",
        run: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.pid = os.getpid()
        self._make, self._depth, self._name, self._run = make, depth, name, run
        self._made: collections.deque[tuple[X | None, BaseException | None]] = collections.deque()
        self._changed = threading.Condition()
        self._taking = new_lock()
        self._closed = self._failed = False
        self._thread: threading.Thread | None = None
        self._watch = clock.current.get()  # of the loop that takes the results

    def start(self) -> None:
        """Begin to make results."""
        if self._depth:
            target, arguments = (self._work, ()) if self._run is None else (self._run, (self._work,))
            self._thread = threading.Thread(target=target, args=arguments, name=f"dynamic {self._name}", daemon=True)
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
            raise RuntimeError(f"The {self._name} is closed. Make a new one.")
        if not self._depth:
            if not self._made:
                self._made.append((self._make(), None))
        else:
            if clock.watching:
                self._watch = clock.current.get()
            with self._changed:
                if self._failed and not self._made:  # the error has been raised
                    self._failed = False
                    self._changed.notify_all()
                waiting = clock.begin(clock.WAITING) if clock.watching and not self._made else None
                while not self._made:
                    if self._closed:
                        raise RuntimeError(f"The {self._name} is closed. Make a new one.")
                    self._changed.wait()
                clock.end(waiting)
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
            if result is not None:
                self.put_back(result)
            raise
        return result

    def put_back(self, result: X) -> None:
        """Let a result be the next again."""
        if not (self._made and self._made[0][0] is result):
            self._made.appendleft((result, None))

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
                if clock.watching:
                    clock.current.set(self._watch)
                    result = clock.noted(clock.MAKING, self._make)
                else:
                    result = self._make()
            except BaseException as caught:  # noqa: BLE001 - raised where the result is taken
                error = caught
            with self._changed:
                if not self._closed:
                    self._made.append((result, error))
                self._failed = error is not None
                self._changed.notify_all()
            del result, error  # or the last batch would stay until the next is made
