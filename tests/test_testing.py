"""`assert_resumable` accepts loops that can be resumed, and finds what is wrong with others."""

from __future__ import annotations

import re

import pytest

from dynamic import ExternalSource, readers
from dynamic.errors import ArgumentError
from dynamic.random import RNG, uniform
from dynamic.testing import Resumed, assert_resumable

NAMES = [f"{i}.bin" for i in range(9)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


def job(root, *, loop=None, objects=None, **arguments):
    """A factory of a loop that reads and draws; tests replace what they want to break."""

    def factory(batch_size, shard_id, num_shards):
        reader = readers.File(files=NAMES, file_root=root, shard_id=shard_id, num_shards=num_shards,
                              **{"random_shuffle": True} | arguments)  # fmt: skip
        rng = RNG(seed=5)

        def epoch():
            for jpegs, labels in reader.next_epoch(batch_size):
                yield loop(rng, jpegs, labels) if loop else (jpegs, uniform(rng=rng.keyed(jpegs)))

        kept = {"reader": reader, "rng": rng}
        return ({name: kept[name] for name in objects} if objects else kept), epoch

    return factory


def test_a_loop_that_keeps_its_state_passes(root):
    made = assert_resumable(job(root), epochs=2)
    assert made.samples == 9
    assert made.stops > 90
    assert assert_resumable(job(root, random_shuffle=False), batch_sizes=[4], num_shards=[2], epochs=1) == Resumed(2, 9)


def test_a_loop_may_yield_what_it_likes_by_sample(root):
    def values(rng, jpegs, labels):
        draws = uniform(rng=rng.keyed(jpegs)["x"]).tolist()
        return {name: (draw, label) for name, draw, label in zip(jpegs.origin.names, draws, labels, strict=True)}

    assert assert_resumable(job(root, loop=values), batch_sizes=[2, 3], num_shards=[1, 2]).samples == 9


def test_draws_by_place_are_found(root):
    """They depend on the batch size, and their stream is another on each shard."""
    with pytest.raises(AssertionError, match=r"Stopped after step \d+ with .*, resumed with .*other values"):
        assert_resumable(job(root, loop=lambda rng, jpegs, labels: (jpegs, uniform(rng=rng, batch_size=len(jpegs)))))


def test_a_reader_that_is_not_saved_is_found(root):
    with pytest.raises(AssertionError, match=r"resumed with .*came twice|never came"):
        assert_resumable(job(root, objects=["rng"]))


def test_what_is_not_saved_shows_in_the_same_objects_too(root):
    def factory(batch_size, shard_id, num_shards):
        objects, epoch = job(root)(batch_size, shard_id, num_shards)
        count = 0

        def counting():
            nonlocal count
            for jpegs, _ in epoch():
                count += 1
                yield jpegs if count < 6 else jpegs[:1]

        return objects, counting

    with pytest.raises(AssertionError, match="never came"):
        assert_resumable(factory, batch_sizes=[2], num_shards=[1])


def test_dropped_and_repeated_samples_are_found(root):
    with pytest.raises(AssertionError, match="never came"):
        assert_resumable(job(root, last_batch="drop"), batch_sizes=[1, 2, 4])
    with pytest.raises(AssertionError, match="came twice"):
        assert_resumable(job(root, last_batch="pad"), batch_sizes=[1, 2, 4])


@pytest.mark.parametrize("given", [[[], []], [[0, 1], []]])
def test_a_loop_that_gives_nothing_proves_nothing(given):
    empty = given.index([])

    def factory(batch_size, shard_id, num_shards):
        rng, epochs = RNG(seed=5), iter(given)

        def epoch():
            yield from ({sample: 0} for sample in next(epochs))

        return {"rng": rng}, epoch

    with pytest.raises(AssertionError, match=f"Without a stop: epoch {empty} gave no samples"):
        assert_resumable(factory)


def test_shards_that_step_differently_are_found(root):
    def factory(batch_size, shard_id, num_shards):
        return job(root)(batch_size + shard_id, shard_id, num_shards)

    with pytest.raises(AssertionError, match="different numbers of steps"):
        assert_resumable(factory, batch_sizes=[1], num_shards=[1, 2])


def test_a_source_of_ones_own_can_be_tested():
    def factory(batch_size, shard_id, num_shards):
        def source(info):
            number = info.idx_in_epoch * num_shards + shard_id
            if number >= 12:
                raise StopIteration
            return number

        external = ExternalSource(source, batch=False)
        return {"source": external}, lambda: (
            {n: n for n in batch.tolist()} for batch in external.next_epoch(batch_size)
        )

    assert assert_resumable(factory, num_shards=[1]).samples == 12
    with pytest.raises(AssertionError):  # its place counts the samples of one shard
        assert_resumable(factory, num_shards=[1, 2])


@pytest.mark.parametrize("step", [3, (3,), [], None.__class__])
def test_what_a_loop_should_not_yield_is_told(root, step):
    with pytest.raises(ArgumentError, match=re.escape("'factory' must be a function that gives")):
        assert_resumable(job(root, loop=lambda *_: step))
    with pytest.raises(ArgumentError, match="0 settings"):
        assert_resumable(job(root), batch_sizes=[])
