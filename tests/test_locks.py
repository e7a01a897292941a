"""Locks: a forked child finds them open, and a handler of a signal may take one that is held."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dynamic._base import locks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's, about forks beside threads
def test_a_lock_is_open_in_a_child():
    lock = locks.new_lock()
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)
        with lock:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_whoever_holds_a_lock_may_take_it_again():
    lock = locks.new_lock()
    with lock, lock:
        thread = threading.Thread(target=lambda: taken.append(lock.acquire(blocking=False)))
        taken = []
        thread.start()
        thread.join()
    assert taken == [False]


def test_a_lock_that_is_gone_is_forgotten():
    before = len(locks._locks)
    lock = locks.new_lock()
    assert len(locks._locks) == before + 1
    del lock
    assert len(locks._locks) == before
