"""Locks that a forked child finds open: whichever thread of its parent held one is not there to let it go."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["new_lock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A lock that the thread that holds it may take again, as a handler of a signal does that runs in its midst."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    for lock in _locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
