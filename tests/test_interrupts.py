"""Ctrl-C at any place: no sample is lost or comes twice, and the state afterwards is that of a run without one."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import random as python_random
import sys
import threading
import zlib

import numpy as np
import pytest
from interrupts import Interruption

from dynamic import EvalContext, ExternalSource, checkpoint, get_num_threads
from dynamic._base import locks, pool
from dynamic.context import within
from dynamic.pipeline import Pipeline, fn, pipeline_def
from dynamic.pipeline._nodes import DataNode
from dynamic.random import RNG, uniform
from dynamic.readers import File

pytestmark = pytest.mark.slow

NAMES = [f"{i:02d}.bin" for i in range(11)]


def _no_context_is_left():
    assert EvalContext.current() is EvalContext.default()
    assert checkpoint.current() is EvalContext.default().checkpoint
    assert pool._limit.num_threads is None


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    assert sys.exc_info() == (None, None, None)  # nor an error that counts as being handled
    _no_context_is_left()
    held = []

    def take():
        for lock in list(locks._locks):
            if lock.acquire(timeout=5):
                lock.release()
            else:
                held.append(lock)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert not held, [(lock, gc.get_referrers(lock)) for lock in held]


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


def every_turn(run, most, part=0, parts=1):
    """Interruptions at each place of what a run does with them.

    Where a run comes by more than so many, at one of the times that it comes by each place of our code; tests of the
    same code share its places between them, and say which part is theirs.
    """
    run(Interruption(None))  # the first call of an operator does more than the others
    run(counting := Interruption(None))
    assert counting.places > 5
    turns = range(counting.places)
    if counting.places > most:
        times = [turns for (code, at), turns in counting.found.items()
                 if zlib.crc32(f"{code.co_qualname} {at}".encode()) % parts == part]  # fmt: skip
        turns = sorted(map(python_random.Random(5).choice, times))
    came = 0
    for turn in turns:
        interruption = Interruption(turn)
        yield interruption
        came += interruption.places > turn
    assert came > 0.5 * len(turns)  # with threads there are now more, now fewer places


def interrupted(interruption, take):
    """Take until the end, with an interruption on the way."""
    try:
        with interruption:
            take()
    except KeyboardInterrupt:
        take()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_reader_loses_nothing(root, whole, on_error):
    bad = {NAMES[3], NAMES[7]} if on_error == "skip" else set()

    def reader_with_holes():
        reader = reader_of(root, on_error=on_error)
        names = [f"none/{name}" if name in bad else name for name in NAMES]
        reader._listed = dataclasses.replace(reader._listing, names=names)
        return reader

    expected = names_of(reader_with_holes().next_epoch(3))
    assert len(expected) == len(NAMES) - len(bad)

    def run(interruption):
        reader, received = reader_with_holes(), []

        def take():
            if whole:
                for batch in reader.next_epoch(3) if reader.epoch == 0 else ():
                    received.append(batch)
            else:
                while reader.epoch == 0:
                    received.append(reader(3))

        interrupted(interruption, take)
        assert names_of(received) == expected, interruption.turn
        assert checkpoint.verify_epoch([reader.get_state()]).samples == len(NAMES)
        assert len(reader.skipped) == len(bad)

    for interruption in every_turn(run, 600):
        run(interruption)


@pytest.mark.parametrize(("depth", "scheduled"), [(0, False), (2, False), (0, True)])
def test_a_pipeline_loses_nothing(root, depth, scheduled):
    @pipeline_def(batch_size=3, seed=5, prefetch_queue_depth=depth)
    def numbers():
        _, labels = fn.readers.file(files=NAMES, file_root=root, random_shuffle=True, name="files")
        return labels, fn.random.uniform(range=(0.0, 1.0))

    def run(interruption):
        received = []
        with numbers() as pipe:

            def take():
                while len(received) < 5:
                    if scheduled and not pipe._scheduled:
                        pipe.schedule_run()
                    batch = pipe.share_outputs() if scheduled else pipe.run()
                    received.append(batch)

            interrupted(interruption, take)
            states = pipe.checkpoint()
        assert isinstance(fn.random.uniform(range=(0.0, 1.0)), DataNode)  # no pipeline is marked as running
        return [(labels.tolist(), np.round(draws.tolist(), 9).tolist()) for labels, draws in received], states

    expected = run(Interruption(None))
    for interruption in every_turn(run, 40 if depth else 100, 0, 3 if scheduled else 1):
        assert run(interruption) == expected, interruption.turn


def test_an_epoch_of_a_pipeline_loses_nothing(root):
    @pipeline_def(batch_size=4, seed=5)
    def numbers():
        return fn.readers.file(files=NAMES, file_root=root, random_shuffle=True, name="files")

    def run(interruption):
        received = []
        with numbers() as pipe:

            def take():
                for batch in pipe.next_epoch():
                    received.append(batch)

            interrupted(interruption, take)
        return names_of(received)[: len(NAMES)]

    expected = run(Interruption(None))
    assert sorted(expected) == NAMES
    for interruption in every_turn(run, 40):
        assert run(interruption) == expected, interruption.turn


@pytest.mark.parametrize("at_once", [True, False])
def test_a_pipeline_that_is_fed_loses_nothing(at_once):
    @pipeline_def(batch_size=2, seed=5)
    def numbers():
        return fn.external_source(name="x"), fn.external_source(lambda info: info.idx_in_epoch, batch=False)

    def run(interruption):
        received = []
        with numbers() as pipe:
            if not at_once:
                for i in range(4):
                    pipe.feed_input("x", [i])

            def take():
                while len(received) < 4:
                    batch = pipe.run(x=[len(received)]) if at_once else pipe.run()
                    received.append(batch)

            interrupted(interruption, take)
            assert [*pipe._course.fed.waiting["x"]] == [3]  # those before it are free
            states = pipe.checkpoint()
        return [[output.tolist() for output in outputs] for outputs in received], states

    expected = run(Interruption(None))
    assert expected[0] == [[[i], [i]] for i in range(4)]
    for interruption in every_turn(run, 100, at_once, 2):
        assert run(interruption) == expected, interruption.turn


def test_nothing_is_left_of_the_context_of_a_step():
    def run(interruption):
        with contextlib.suppress(KeyboardInterrupt), interruption:
            assert within(3, get_num_threads) == 3
        _no_context_is_left()

    for interruption in every_turn(run, 1000):
        run(interruption)


def test_no_limit_of_a_task_is_left(monkeypatch):
    def run(interruption):
        with contextlib.suppress(KeyboardInterrupt), interruption:
            pool.run(done.append, 6, 1 << 30)
            pool.run_parts(done.append, 6, 1 << 30)
        assert pool._limit.num_threads is None

    done = []
    monkeypatch.setattr(pool, "_wanted", 2)
    for worth in (0, 1 << 40):
        monkeypatch.setattr(pool, "_worth_sharing", worth)
        for interruption in every_turn(run, 1000):
            run(interruption)


SOURCES = {
    "SampleInfo": lambda: (lambda info: [info.idx_in_epoch, info.iteration], {"batch": False}),
    "samples": lambda: (iter(range(12)), {"batch": False}),
    "batches": lambda: (iter([[i] * 3 for i in range(4)]), {"batch": True}),
    "no argument": lambda: (itertools.count().__next__, {"batch": False}),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("piped", [False, True])
def test_a_source_loses_nothing(kind, piped):
    def run(interruption):
        given, arguments = SOURCES[kind]()
        source, received = ExternalSource(given, **arguments), []
        pipe = Pipeline(
            function=lambda: fn.external_source(given, **arguments), batch_size=3, prefetch_queue_depth=0, seed=5
        )

        def take():
            while len(received) < 4:
                received.append(pipe.run()[0] if piped else source(3))

        interrupted(interruption, take)
        return [batch.tolist() for batch in received], source.get_state()

    expected = run(Interruption(None))
    for interruption in every_turn(run, 100, list(SOURCES).index(kind) if piped else 0, len(SOURCES) if piped else 1):
        assert run(interruption) == expected, interruption.turn


def test_a_stream_stands_where_it_was_or_after_a_whole_operator():
    words = [RNG(5) for _ in range(2)]
    words[1].advance(7)

    def run(interruption):
        rng = RNG(5)
        with contextlib.suppress(KeyboardInterrupt), interruption:
            uniform(batch_size=4, rng=rng)
        assert rng.state in {word.state for word in words}, interruption.turn

    for interruption in every_turn(run, 200):
        run(interruption)


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

    pool.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            pool._share(hang, range(4), 2)
        going.set()
        done = []
        pool._share(done.append, range(100), 2)
        assert sorted(done) == list(range(100))
    finally:
        going.set()
        pool.set_num_threads(None)


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

    pool.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="mine"):
            pool._share(work, range(4), 2)
        assert len(finished) == 1
    finally:
        pool.set_num_threads(None)
