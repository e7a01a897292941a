"""Ctrl-C at any place: no sample is lost or comes twice, and the state afterwards is that of a run without one."""

from __future__ import annotations

import contextlib
import random as python_random
import threading

import numpy as np
import pytest
from interrupts import Interruption

from dynamic import ExternalSource, _locks, _pool, checkpoint
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG, uniform
from dynamic.readers import File

NAMES = [f"{i:02d}.bin" for i in range(11)]


@pytest.fixture(autouse=True)
def _no_lock_is_left():
    yield
    free = []

    def take():
        for lock in list(_locks._locks):
            free.append(lock.acquire(timeout=5))
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert all(free)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


def reader_of(root, **arguments):
    return File(files=NAMES, file_root=root, random_shuffle=True, **arguments)


def names_of(batches):
    return [name for jpegs, _ in batches for name in jpegs.origin.names]


def every_turn(run, most):
    """The places at which a run can be interrupted, or some of them where they are many."""
    with Interruption(None) as counting:
        run()
    turns = range(counting.places)
    if counting.places > most:
        turns = sorted(python_random.Random(5).sample(turns, most))
    assert counting.places > 5
    return turns


def interrupted(turn, take):
    """Take until the end, with an interruption on the way."""
    try:
        with Interruption(turn):
            take()
    except KeyboardInterrupt:
        take()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_reader_loses_nothing(root, whole, on_error):
    bad = {NAMES[3], NAMES[7]} if on_error == "skip" else set()

    def reader_with_holes():
        reader = reader_of(root, on_error=on_error)
        reader._listing.names[:] = [f"none/{name}" if name in bad else name for name in NAMES]
        return reader

    expected = names_of(reader_with_holes().next_epoch(3))
    assert len(expected) == len(NAMES) - len(bad)

    def run(turn):
        reader, received = reader_with_holes(), []

        def take():
            if whole:
                for batch in reader.next_epoch(3):
                    received.append(batch)
            else:
                while reader.epoch == 0 and reader.position < len(NAMES):
                    received.append(reader(3))

        interrupted(turn, take)
        assert names_of(received) == expected, turn
        assert checkpoint.verify_epoch([reader.get_state()]).samples == len(NAMES)
        assert len(reader.skipped) == len(bad)

    for turn in every_turn(lambda: run(None), 200):
        run(turn)


@pytest.mark.parametrize("depth", [0, 2])
def test_a_pipeline_loses_nothing(root, depth):
    @pipeline_def(batch_size=3, seed=5, prefetch_queue_depth=depth)
    def numbers():
        _, labels = fn.readers.file(files=NAMES, file_root=root, random_shuffle=True, name="files")
        return labels, fn.random.uniform(range=(0.0, 1.0))

    def run(turn):
        received = []
        with numbers() as pipe:

            def take():
                while len(received) < 6:
                    batch = pipe.run()
                    received.append(batch)

            interrupted(turn, take)
            states = pipe.checkpoint()
        return [(labels.tolist(), np.round(draws.tolist(), 9).tolist()) for labels, draws in received], states

    expected = run(None)
    for turn in every_turn(lambda: run(None), 40 if depth else 100):
        assert run(turn) == expected, turn


def test_an_epoch_of_a_pipeline_loses_nothing(root):
    @pipeline_def(batch_size=4, seed=5)
    def numbers():
        return fn.readers.file(files=NAMES, file_root=root, random_shuffle=True, name="files")

    def run(turn):
        received = []
        with numbers() as pipe:

            def take():
                for batch in pipe.next_epoch():
                    received.append(batch)

            interrupted(turn, take)
        return names_of(received)[: len(NAMES)]

    expected = run(None)
    assert sorted(expected) == NAMES
    for turn in every_turn(lambda: run(None), 40):
        assert run(turn) == expected, turn


def test_a_source_of_samples_loses_nothing():
    def run(turn):
        source, received = ExternalSource(lambda info: [info.idx_in_epoch, info.iteration], batch=False), []

        def take():
            while len(received) < 4:
                received.append(source(3))

        interrupted(turn, take)
        return [batch.tolist() for batch in received], source.get_state()

    expected = run(None)
    for turn in every_turn(lambda: run(None), 150):
        found = run(turn)
        assert found == expected, turn


def test_a_stream_stands_where_it_was_or_after_a_whole_operator():
    words = [RNG(5) for _ in range(2)]
    words[1].advance(7)
    for turn in every_turn(lambda: uniform(batch_size=4, rng=RNG(5)), 200):
        rng = RNG(5)
        with contextlib.suppress(KeyboardInterrupt), Interruption(turn):
            uniform(batch_size=4, rng=rng)
        assert rng.state in {word.state for word in words}, turn


def test_ctrl_c_does_not_wait_for_a_thread_that_hangs(monkeypatch):
    """One thread hangs, another is interrupted: the call ends at once, and the threads are there for the next."""
    hanging, going, mine = threading.Event(), threading.Event(), threading.get_ident()

    def hang(i):
        if threading.get_ident() != mine:
            hanging.set()
            going.wait()
        else:
            hanging.wait()
            raise KeyboardInterrupt

    before = _pool.get_num_threads()
    _pool.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            _pool._share(hang, range(4), 2)
        going.set()
        done = []
        _pool._share(done.append, range(100), 2)
        assert sorted(done) == list(range(100))
    finally:
        going.set()
        _pool.set_num_threads(before)


def test_an_error_waits_for_the_other_threads():
    """They go on writing to what the call returns."""
    working, finished, mine = threading.Event(), [], threading.get_ident()

    def work(i):
        if threading.get_ident() != mine:
            working.set()
            threading.Event().wait(0.05)
            finished.append(i)
        else:
            working.wait()
            raise ValueError("mine")

    _pool.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="mine"):
            _pool._share(work, range(4), 2)
        assert len(finished) == 1
    finally:
        _pool.set_num_threads(None)
