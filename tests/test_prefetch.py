"""`prefetch`: a loop that is made ahead is, to whoever takes its batches, the loop without it."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import os
import pickle
import shutil
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interrupts import Interruption

import dynamic as ndd
from dynamic import ArgumentError, DataError, ExternalSource, checkpoint, prefetch
from dynamic._base import places
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG, coin_flip, get_default_rng, set_seed, uniform
from dynamic.readers import File, Map, Mix
from dynamic.testing import assert_resumable

NAMES = [f"{i:02d}.bin" for i in range(11)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    gc.collect()
    assert not threads()
    assert not places.makers


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "dynamic prefetch"]


def reader_of(root, **arguments):
    return File(files=NAMES, file_root=root, random_shuffle=True, seed=3, **arguments)


def mixture():
    return Mix({name: Map(dataset=[np.float32(i) for i in range(n)]) for name, n in (("a", 5), ("b", 8))}, stop=11)


def numbers(info):
    if info.idx_in_epoch == 11:
        raise StopIteration
    return [info.idx_in_epoch, info.epoch_idx]


class Job:
    """A loop whose readers, sources and RNGs are all used in the step."""

    def __init__(self, root, size, kind):
        self.size, self.kind = size, kind
        self.stream, self.other = RNG(seed=5), RNG(seed=6)
        made = {
            "reader": lambda: {"reader": reader_of(root)},
            "zip": lambda: {"reader": reader_of(root), "second": reader_of(root)},
            "mix": lambda: {"reader": mixture()},
            "source": lambda: {"reader": ExternalSource(numbers, batch=False)},
            "generator": lambda: {"reader": reader_of(root)},
            "nested": lambda: {"reader": reader_of(root)},
        }
        self.sources = made[kind]()

    @property
    def objects(self):
        return {**self.sources, "stream": self.stream, "other": self.other}

    def batches(self):
        """The rest of an epoch, before the step."""
        epochs = [source.next_epoch(self.size) for source in self.sources.values()]
        if self.kind == "zip":
            return zip(*epochs, strict=True)
        if self.kind == "generator":
            return (batch for batch in epochs[0])
        if self.kind == "nested":
            return prefetch(epochs[0], self.inner)
        return epochs[0]

    def inner(self, batch):
        return *batch, self.other()

    def step(self, batch):
        first = batch
        while isinstance(first, tuple):
            first = first[0]
        draws = uniform(batch_size=len(first), rng=self.stream).tolist(), coin_flip(rng=self.other.keyed([7])).tolist()
        values = [part.tolist() if isinstance(part, ndd.Batch) else part for part in flat(batch)]
        return values, draws, self.stream()

    def states(self):
        return copy.deepcopy({name: each.get_state() for name, each in self.objects.items()})


def flat(batch):
    return [part for each in batch for part in flat(each)] if isinstance(batch, tuple) else [batch]


KINDS = ["reader", "zip", "mix", "source", "generator", "nested"]


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_any_stop_goes_on_as_a_loop_without_prefetch(root, kind, data):
    """In the same objects and in new ones that get the states of a stop, with any depths before and after."""
    size = data.draw(st.integers(1, 5), "size")
    plain = Job(root, size, kind)
    expected = []
    for _ in range(2):
        for batch in plain.batches():
            expected.append((plain.step(batch), plain.states()))
        at_the_end = plain.states()
    steps = len(expected) // 2
    job, taken, epochs = Job(root, size, kind), [], 0
    while epochs < 2:
        stop = data.draw(st.integers(1, steps + 1), "stop")
        loop = iter(prefetch(job.batches(), job.step, data.draw(st.integers(1, 4), "depth")))
        for batch in itertools.islice(loop, stop):
            taken.append((batch, job.states()))
            assert taken[-1] == expected[len(taken) - 1]
        if len(taken) == steps * (epochs + 1):  # the loop has not been told that it is over
            assert next(loop, None) is None
            epochs += 1
        else:
            del loop
        if data.draw(st.booleans(), "anew"):
            other = Job(root, size, kind)
            for name, state in job.states().items():
                other.objects[name].set_state(state)
            if len(taken) == steps * epochs and kind != "source":
                for source in other.sources.values():
                    source.seek(0, epochs)  # a restored reader has an empty rest of the epoch first
            job = other
    assert taken == expected
    assert job.stream.state == plain.stream.state
    assert at_the_end == plain.states()


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3])
def test_a_loop_that_is_made_ahead_can_be_stopped_anywhere(root, depth):
    def job(batch_size, shard_id, num_shards):
        reader = reader_of(root, shard_id=shard_id, num_shards=num_shards)
        rng = RNG(seed=5)

        def step(batch):
            files, labels = batch
            return files, labels, uniform(rng=rng.keyed(files)["angle"])

        return {"reader": reader, "rng": rng}, lambda: iter(prefetch(reader.next_epoch(batch_size), step, depth))

    assert assert_resumable(job, batch_sizes=(2, 3), num_shards=(1, 2)).samples == len(NAMES)


def test_batches_are_made_ahead_and_places_are_those_of_the_taken(root):
    reader, rng, made, go_on = reader_of(root), RNG(5), [], threading.Semaphore(0)

    def step(batch):
        made.append((batch[1].tolist(), reader.position, rng()))
        go_on.release()
        return made[-1]

    loop = prefetch(reader.next_epoch(2), step, depth=3)
    assert len(loop) == 6
    for number, batch in enumerate(loop):
        assert reader.position == [2, 4, 6, 8, 10, 0][number] == batch[1]
        assert len(loop) == 5 - number
        if number == 0:
            for _ in range(4):
                assert go_on.acquire(timeout=60)
            assert len(made) >= 4
            twin, state = RNG(5), rng.state
            twin()
            assert state == twin.state
    assert reader.epoch == 1
    assert len(loop) == 0


def test_places_are_looked_at_while_a_batch_is_read():
    """A state takes no lock that is held as long as a batch is read."""
    reading, go_on = threading.Event(), threading.Event()

    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 2:
                reading.set()
                assert go_on.wait(60)
            return np.float32(index)

    def source(info):
        if info.idx_in_epoch == 4:
            raise StopIteration
        return [Rows()[info.idx_in_epoch]]

    for reader in (Map(dataset=Rows()), ExternalSource(source, batch=False)):
        reading.clear()
        go_on.clear()
        loop = iter(prefetch(reader.next_epoch(2)))
        next(loop)
        assert reading.wait(60)
        state = reader.get_state()
        assert state.get("position", state.get("sample")) == 2
        assert reader.epoch == 0
        go_on.set()
        assert len(list(loop)) == 1


@pytest.mark.parametrize("leave", ["break", "error", "del", "close", "generator"])
def test_no_thread_is_left_and_no_batch_is_lost(root, leave):
    reader = reader_of(root)
    loop, first = prefetch(reader.next_epoch(3), lambda batch: batch[0].origin.names), []
    if leave == "break":
        for names in loop:
            first += names
            break
    elif leave == "error":
        with pytest.raises(ZeroDivisionError):
            for names in loop:
                first += names
                raise ZeroDivisionError
    elif leave == "generator":
        inside = (names for names in loop)
        first += next(inside)
        inside.close()
    else:
        iterator = iter(loop)
        first += next(iterator)
        if leave == "close":
            iterator.close()
            iterator.close()
        del iterator
    assert not threads()
    assert reader.position == 3
    assert first + [n for names in loop for n in names] == [n for b, _ in reader_of(root).next_epoch(3)
                                                            for n in b.origin.names]  # fmt: skip


def test_the_items_of_an_iterable_source_are_kept(root):
    for cycle in (None, "raise"):
        source = ExternalSource([[i] for i in range(7)], cycle=cycle)
        taken = []
        while len(taken) < 7:
            for batch in prefetch(source.next_epoch(), depth=3):
                taken.append(batch.tolist())
                if len(taken) % 3 == 0:
                    break
        assert taken == [[i] for i in range(7)]


@pytest.mark.parametrize("where", ["reader", "step", "iterable"])
def test_an_error_comes_at_its_batch(root, where, tmp_path):
    folder = shutil.copytree(root, tmp_path / "samples")
    reader, rng = reader_of(folder), RNG(5)
    bad = next(itertools.islice(reader_of(root).next_epoch(2), 2, None))[0].origin.names
    if where == "reader":
        (folder / bad[1]).unlink()

    def batches():
        for number, batch in enumerate(reader.next_epoch(2)):
            if where == "iterable" and number == 2:
                raise ZeroDivisionError
            yield batch

    def step(batch):
        rng()
        if where == "step" and batch[0].origin.names == bad:
            raise ZeroDivisionError
        return batch

    loop, taken = iter(prefetch(batches() if where == "iterable" else reader.next_epoch(2), step, 4)), []
    with pytest.raises(DataError if where == "reader" else ZeroDivisionError) as caught:
        for _, labels in loop:
            taken.append(labels)
    assert len(taken) == 2
    assert where != "step" or any(entry.name == "step" for entry in caught.traceback)
    assert reader.position == (4 if where == "reader" else 6)  # as in a loop without prefetch
    other = RNG(5)
    other.advance(3 if where == "step" else 2)
    assert rng.state == other.state
    assert not threads()
    assert next(loop, None) is None


def test_a_step_cannot_end_the_loop_unseen(root):
    with pytest.raises(RuntimeError, match="the step raised StopIteration"):
        list(prefetch(reader_of(root).next_epoch(2), lambda batch: next(iter(()))))


def test_who_moves_what_is_made_ahead_is_told(root):
    reader, rng = reader_of(root), RNG(5)
    for _ in prefetch(reader.next_epoch(2), lambda batch: rng()):
        place = reader.get_state(), rng.state
        for move in (rng, lambda: reader(2), lambda: reader.seek(0), lambda: rng.set_state(RNG(1).state),
                     lambda: reader.set_state(reader.get_state()), lambda: uniform(rng=rng), lambda: rng.advance(1),
                     lambda: setattr(rng, "seed", 4), lambda: list(prefetch(reader.next_epoch(2)))):  # fmt: skip
            with pytest.raises(RuntimeError, match="is used ahead by a loop of prefetch\\(\\) that is under way"):
                move()
            assert (reader.get_state(), rng.state) == place
        rng.keyed([4])
        assert reader.epoch or len(reader.peek(2))
        repr(reader), repr(rng), reader.skipped, reader.explain(NAMES[0])
    rng()
    reader(2)


def test_a_load_into_a_loop_under_way_is_all_or_nothing(root, tmp_path):
    reader, rng, other = reader_of(root), RNG(5), RNG(6)
    checkpoint.save(tmp_path / "run.json", other=other, reader=reader, rng=rng)
    for _ in prefetch(reader.next_epoch(2), lambda batch: rng()):
        states = [each.get_state() for each in (reader, rng, other)]
        other()
        states[2] = other.get_state()
        with pytest.raises(RuntimeError, match="used ahead"):
            checkpoint.load(tmp_path / "run.json", other=other, reader=reader, rng=rng)
        assert states == [each.get_state() for each in (reader, rng, other)]


def test_the_default_stream_is_that_of_the_taker():
    def draws(loop):
        set_seed(5)
        found = [(each, get_default_rng().state) for each in loop]
        return found, uniform().tolist()

    plain = draws(uniform(batch_size=3).tolist() for _ in range(4))
    ahead = draws(prefetch(range(4), lambda _: uniform(batch_size=3).tolist(), 3))
    assert plain == ahead


def test_numbers_of_keyed_draws_are_those_of_the_taken():
    ids, other = RNG(5).keyed([1, 2]), RNG(5).keyed([1, 2])
    plain = [uniform(rng=other).tolist() for _ in range(9)]
    found = []
    for _ in range(3):
        for draws in prefetch(range(9), lambda _: uniform(rng=ids).tolist(), 3):
            found.append(draws)
            if len(found) % 3 == 0:
                break
    assert found == plain


def test_contexts_are_those_of_the_taker():
    with ndd.EvalContext(num_threads=1) as context:
        found = list(prefetch(range(2), lambda _: (ndd.EvalContext.current(), ndd.get_num_threads())))
    assert found == [(context, 1)] * 2


def test_readers_that_a_step_makes_are_as_good_as_others(root):
    def step(number):
        reader, rng = reader_of(root), RNG(number)
        reader(number + 1)
        return reader, rng, rng()

    made = []
    for number, (reader, rng, word) in enumerate(prefetch(range(3), step)):
        assert reader.position == number + 1
        assert word == RNG(number)()
        made.append((reader, rng))
    for number, (reader, rng) in enumerate(made):
        reader(2)
        rng()
        assert reader.position == number + 3


def test_streams_that_a_step_makes_do_not_stay():
    alive = []

    def step(number):
        rng = RNG(number)
        alive.append(weakref.ref(rng))
        return rng()

    for number, word in enumerate(prefetch(range(20), step)):
        assert word == RNG(number)()
        gc.collect()
        assert sum(each() is not None for each in alive) <= 6


def test_nothing_waits_for_a_step_that_hangs(root):
    """The loop is left; its thread ends with the step, and moves nothing any more."""
    reader, rng, begun, go_on = reader_of(root), RNG(5), threading.Event(), threading.Event()

    def step(batch):
        if reader.position > 2:
            begun.set()
            go_on.wait(60)
            rng()
        return batch

    for _ in prefetch(reader.next_epoch(2), step):
        assert begun.wait(60)
        break
    assert threads()
    rng()
    state = rng.state
    names = [name for files, _ in reader.next_epoch(2) for name in files.origin.names]
    go_on.set()
    for thread in threads():
        thread.join(60)
    assert (rng.state, reader.epoch) == (state, 1)
    assert names == [name for files, _ in reader_of(root).next_epoch(2) for name in files.origin.names][2:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_goes_on_from_the_batch_taken(root):
    reader = reader_of(root)
    expected = [files.origin.names for files, _ in reader_of(root).next_epoch(2)]
    loop = iter(prefetch(reader.next_epoch(2)))
    next(loop)
    pid = os.fork()
    if not pid:
        status = 1
        with contextlib.suppress(BaseException):
            with contextlib.suppress(RuntimeError):
                next(loop)
                os._exit(2)
            status = int([files.origin.names for files, _ in reader.next_epoch(2)] != expected[1:])
        os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert [files.origin.names for files, _ in loop] == expected[1:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_the_step_stands_where_the_step_does(root):
    reader = reader_of(root)

    def step(batch):
        pid = os.fork()
        if not pid:
            os._exit(reader.position)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert list(prefetch(reader.next_epoch(2), step)) == [2, 4, 6, 8, 10, 0]


def test_a_reader_is_pickled_where_it_stands(root):
    reader = reader_of(root)
    found = list(prefetch(reader.next_epoch(2), lambda batch: pickle.loads(pickle.dumps(reader)).position))
    assert found == [2, 4, 6, 8, 10, 0]


def test_pipelines_and_others_with_a_state_are_refused(root):
    @pipeline_def(batch_size=2)
    def labels():
        return fn.readers.file(files=NAMES, file_root=root)[1]

    with labels() as pipe:
        for loop in (pipe, pipe.next_epoch()):
            with pytest.raises(ArgumentError, match=r"prefetch\(\)|argument 'iterable'.*pipeline"):
                list(prefetch(loop))

    class Loader(list):
        def state_dict(self):
            return {}

    around = type("Around", (list,), {"dataset": Loader()})()
    for wrong in (3, Loader(), around, reader_of(root)):
        with pytest.raises(ArgumentError, match="argument 'iterable'"):
            prefetch(wrong)
    with pytest.raises(ArgumentError, match="argument 'step'"):
        prefetch([], 3)
    for depth in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="argument 'depth'"):
            prefetch([], None, depth)
    with pytest.raises(TypeError):
        len(prefetch(iter(())))


def test_threads_share_a_loop(root):
    reader, names, lock = reader_of(root), [], threading.Lock()
    loop = iter(prefetch(reader.next_epoch(1)))

    def take():
        for files, _ in loop:
            with lock:
                names.extend(files.origin.names)

    takers = [threading.Thread(target=take) for _ in range(4)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join(60)
    assert sorted(names) == NAMES
    assert reader.epoch == 1


@pytest.mark.slow
def test_a_ctrl_c_at_any_place_loses_nothing(root):
    expected = [files.origin.names for files, _ in reader_of(root).next_epoch(3)]
    draws = [RNG(5)]
    draws = [draws[0]() for _ in expected]

    def run(interruption):
        reader, rng, taken = reader_of(root), RNG(5), []
        loop = iter(prefetch(reader.next_epoch(3), lambda batch: (batch[0].origin.names, rng())))

        def take():
            for batch in loop:
                taken.append(batch)

        try:
            with interruption:
                take()
        except KeyboardInterrupt:
            assert reader.position % 11 == sum(len(names) for names, _ in taken) % 11, interruption.turn
            before = rng.state
            take()
            assert len(taken) == len(expected) or before != rng.state
        loop.close()
        assert taken == list(zip(expected, draws, strict=True)), interruption.turn
        assert reader.epoch == 1
        twin = RNG(5)
        twin.advance(len(expected))
        assert rng.state == twin.state

    run(counting := Interruption(None))
    assert counting.places > 20
    for turn in range(counting.places):
        run(Interruption(turn))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are not there")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one in a finalizer is no loss
def test_a_real_ctrl_c_leaves_the_loop_at_the_batch_taken(root):
    reader, taken = reader_of(root), []
    for _ in range(20):
        timer = threading.Timer(0.003, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for files, _ in prefetch(reader.next_epoch(2), lambda batch: (time.sleep(0.001), batch)[1]):
                taken += files.origin.names
                time.sleep(0.001)
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            timer.join()
            assert reader.position % 11 == len(taken) % 11
    assert len(taken) == 11 * reader.epoch + reader.position
    assert sorted(taken[:11]) == NAMES
