"""Memory that is used again: never while anything refers to it, whatever holds it and whichever thread asks."""

from __future__ import annotations

import collections
import gc
import queue
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic._arrays import memory
from dynamic._arrays.memory import empty

BYTE = np.dtype(np.uint8)
SIZES = [1 << 16, 70_000, 100_000, 1 << 17]

HOLDERS = {
    "the array": lambda a: a,
    "a view": lambda a: a[5:9],
    "a view of a view": lambda a: a[::2][3:].reshape(-1, 1).T,
    "a memoryview": memoryview,
    "an array over a memoryview": lambda a: np.asarray(memoryview(a)[7:]),
    "an array from a buffer": lambda a: np.frombuffer(a, np.uint8, 10),
    "another dtype": lambda a: a[:8].view(np.int64),
    "a subclass": lambda a: a.view(np.recarray),
    "a DLPack capsule": lambda a: a.__dlpack__(),
    "an array from DLPack": np.from_dlpack,
    "an iterator": lambda a: a.flat,
    "its base": lambda a: a.base,
}


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_block_is_used_again_once_nothing_holds_it(holder):
    array = empty((123_457,), BYTE)
    where = address(array)
    held = HOLDERS[holder](array)
    del array
    others = [empty((123_457,), BYTE) for _ in range(3)]
    assert where not in map(address, others)
    del held
    again = empty((123_457,), BYTE)
    assert address(again) == where
    assert not any(np.shares_memory(again, other) for other in others)


@given(st.lists(st.tuples(st.sampled_from(SIZES), st.integers(0, 9)), max_size=60), st.randoms(use_true_random=False))
def test_blocks_in_use_never_overlap(requests, chance):
    held = []
    for number, (size, keep) in enumerate(requests):
        array = empty((size,), BYTE)
        assert array.shape == (size,)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        array[:] = number
        held.append((number, array if keep % 2 else array[keep : keep + 3]))
        while len(held) > keep:
            held.pop(chance.randrange(len(held)))
        assert all((part == known).all() for known, part in held)


def test_memory_that_nobody_uses_is_bounded():
    large = 1 << 25
    held = [empty((large,), BYTE) for _ in range(20)]
    assert memory._kept <= memory._limit
    del held
    assert sum(loan.block.nbytes for loan in memory._loans.values()) == memory._kept <= memory._limit
    assert sum(size * len(free) for size, free in memory._free.items()) <= memory._limit
    too_large = empty((memory._limit + 1,), BYTE)
    assert too_large.base is None
    empty((1 << 16,), BYTE)
    assert set(memory._loans) == {id(loan.block) for loan in memory._loans.values()}


def test_a_block_in_frequent_use_outlives_those_that_were_lent_before_it_was_last():
    array = empty((1 << 25,), BYTE)
    often = next(reversed(memory._loans.values())).block
    for size in range(1 << 26, 3 << 26, 1 << 24):
        del array
        array = empty((1 << 25,), BYTE)
        empty((size,), BYTE)
    assert np.shares_memory(array, often)


@pytest.fixture
def other_memory(monkeypatch):
    """Blocks are made of buffers of this list."""
    made = []

    def memory_for(size):
        if size < 1 << 20:
            return None
        made.append(np.empty(size, np.uint8))
        return made[-1]

    monkeypatch.setattr(memory, "_memory_for", None)
    monkeypatch.setattr(memory, "_limit", memory._limit)
    monkeypatch.setattr(memory, "_kept", 0)
    monkeypatch.setattr(memory, "_loans", collections.OrderedDict())
    monkeypatch.setattr(memory, "_free", collections.defaultdict(collections.deque))
    free = [empty((1 << 20,), BYTE), empty((1 << 16,), BYTE)]
    del free
    memory.make_blocks_of(memory_for, memory._limit)
    return made


def test_blocks_are_made_of_other_memory_from_then_on(other_memory):
    """None that was made before is lent again."""
    assert not other_memory
    small, large = empty((1 << 16,), BYTE), empty((1 << 20,), BYTE)
    assert [np.shares_memory(each, other_memory[0]) for each in (small, large)] == [False, True]
    where = address(large)
    del large
    assert address(empty((1 << 20,), BYTE)) == where
    assert len(other_memory) == 1


@pytest.mark.parametrize("holder", ["nobody", *HOLDERS])
def test_memory_is_lent_again_where_nobody_else_refers_to_it(holder, other_memory):
    held = [empty((1 << 20,), BYTE)]
    held[0][:] = 7
    else_where = HOLDERS[holder](held[0]) if holder in HOLDERS else None
    owner, nobody_else = memory.lend_again(other_memory[0], held.clear)
    assert nobody_else == (holder == "nobody")
    assert (owner == 7).all()
    assert np.shares_memory(owner, other_memory[0])
    others = [empty((1 << 20,), BYTE) for _ in range(3)]
    assert not any(np.shares_memory(owner, other) for other in others)
    where = address(owner)
    del owner, else_where
    assert address(empty((1 << 20,), BYTE)) == where


def test_what_is_not_lent_is_not_lent_again(other_memory):
    held = [empty((1 << 20,), BYTE)]
    memory._loans.clear()  # as of a block that was forgotten
    assert memory.lend_again(other_memory[0], held.clear) is None
    assert len(held) == 1


def stress(seconds_of_work, threads=8):
    """Fill memory, pass it on to other threads, and look whether it is what it was. Returns what was not."""
    wrong, numbers, passed = [], iter(range(1 << 60)), queue.SimpleQueue()
    clock = time.thread_time

    def work(seed):
        chance, held = random.Random(seed), []
        begun = clock()
        while clock() - begun < seconds_of_work and not wrong:
            number = next(numbers) % 251
            array = empty((chance.choice(SIZES),), BYTE)
            array[:] = number
            part = array[chance.randrange(1000) :] if chance.random() < 0.5 else array
            del array
            (passed.put if chance.random() < 0.3 else held.append)((number, part))
            if chance.random() < 0.3 and not passed.empty():
                held.append(passed.get())
            if len(held) > 6:
                known, part = held.pop(chance.randrange(len(held)))
                if part.min() != known or part.max() != known:
                    wrong.append((known, part[:10].tolist()))
                del part

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    while not passed.empty():
        known, part = passed.get()
        if part.min() != known or part.max() != known:
            wrong.append((known, part[:10].tolist()))
    return wrong


@pytest.mark.parametrize("interval", [0.005, 1e-6])
def test_threads_never_get_memory_that_is_in_use(interval):
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        assert stress(0.15) == []
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_handler_of_a_signal_may_ask_for_memory():
    """It runs between any two steps of the thread that it interrupts, inside of `empty` too."""
    held, count = [], [0]

    def handle(*_):
        count[0] += 1
        array = empty((SIZES[count[0] % 4],), BYTE)
        array[:] = 255
        held.append(array)
        del held[:-5]

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        mine, rounds = [], 0
        while count[0] < 300:
            rounds += 1
            array = empty((SIZES[rounds % 4],), BYTE)
            array[:] = rounds % 255
            mine.append((rounds % 255, array))
            if len(mine) > 5:
                number, array = mine.pop(0)
                assert array.min() == array.max() == number
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(array.min() == 255 for array in held)


def test_arrays_in_cycles_are_freed_by_the_collector_and_used_again():
    array = empty((99_000,), BYTE)
    where, cycle = address(array), [array]
    cycle.append(cycle)
    del array, cycle
    others = [empty((99_000,), BYTE) for _ in range(2)]
    assert where not in map(address, others)
    gc.collect()
    assert address(empty((99_000,), BYTE)) == where


TRACED = """
import sys
def look(frame, event, argument):
    # elsewhere it may be Python itself that fails, as 3.12.1 does
    if frame.f_globals["__name__"] == "dynamic._arrays.memory":
        frame.f_locals
    return look
sys.settrace(look)
import dynamic._arrays.memory
sys.settrace(None)
import numpy
first = dynamic._arrays.memory.empty((1 << 17,), numpy.dtype(numpy.uint8))
second = dynamic._arrays.memory.empty((1 << 17,), numpy.dtype(numpy.uint8))
print(numpy.shares_memory(first, second))
"""


def test_a_debugger_that_looked_at_the_import_changes_nothing():
    """It holds references, so that counts of references are not what they would be."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
