"""Pipelines and readers in PyTorch: DALI's iterators, and the data set for loaders with workers."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import math
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import installed
import numpy as np
import pytest
from counting import COUNT, FILES, NAMES, laid_out, numbers, reader_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, StateMismatch, checkpoint
from dynamic.errors import StateError
from dynamic.pipeline import Pipeline, fn, pipeline_def
from dynamic.random import RNG, uniform
from dynamic.readers import File, _ranks

torch = pytest.importorskip("torch", reason="torch is not installed")

from dynamic.pytorch import (  # noqa: E402
    ClassificationIterator,
    Dataset,
    GenericIterator,
    LastBatchPolicy,
    Loader,
    RaggedIterator,
)
from dynamic.pytorch._shared import Shared  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*set_vital.*:UserWarning"),
]
ROOT = Path(__file__).parent.parent
FILL, DROP, PARTIAL = LastBatchPolicy
TAGS = [RaggedIterator.DENSE_TAG, RaggedIterator.SPARSE_LIST_TAG, RaggedIterator.SPARSE_COO_TAG]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


@pipeline_def(batch_size=4, num_threads=1, seed=12)
def counted(stop=None):
    def source(info):
        if info.idx_in_epoch == stop:
            raise StopIteration
        return np.array([info.epoch_idx, info.idx_in_epoch])

    return fn.external_source(source, batch=False, name="source")


@pipeline_def(batch_size=4, num_threads=1)
def iterated():
    return fn.external_source(itertools.count(), batch=False, name="source")


def plain(batches):
    return [[{name: value.tolist() for name, value in each.items()} for each in batch] for batch in batches]


def data(batches, pipeline=0):
    """The numbers of the files, batch by batch."""
    return [batch[pipeline]["data"].ravel().tolist() for batch in batches]


# Iterators


def test_batches_are_dicts_of_tensors(folder):
    with numbers(folder) as pipe, numbers(folder) as same:
        batch = next(GenericIterator(pipe, NAMES, reader_name="reader"))
        assert [{name: (value.dtype, tuple(value.shape)) for name, value in each.items()} for each in batch] == [
            {"data": (torch.uint8, (4, 1)), "label": (torch.int32, (4, 1)), "draw": (torch.float32, (4,))}
        ]
        for value, output in zip(batch[0].values(), same.run(), strict=True):
            assert value.tolist() == output.tolist()


@pytest.mark.parametrize("size", [1, 3, 4, 23, 30])
@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("policy", LastBatchPolicy)
def test_the_last_batch(folder, policy, shards, size):
    pipes = [numbers(folder, shard_id=k, num_shards=shards, batch_size=size) for k in range(shards)]
    make = functools.partial(GenericIterator, pipes, NAMES, reader_name="reader", auto_reset=True,
                             last_batch_policy=policy)  # fmt: skip
    chunk = size * shards
    if policy is DROP and chunk > COUNT:
        with pytest.raises(ArgumentError, match="small enough for this shard"):
            make()
        return
    iterator = make()
    for _ in range(3):
        batches = list(iterator)
        sizes = [[len(each["data"]) for each in batch] for batch in batches]
        all_ = [x for k in range(shards) for batch in data(batches, k) for x in batch]
        assert len(batches) == len(iterator) == (COUNT // chunk if policy is DROP else math.ceil(COUNT / chunk))
        if policy is PARTIAL:
            assert sorted(all_) == list(range(COUNT))
        else:
            assert sizes == [[size] * shards] * len(batches)
            assert policy is DROP or set(all_) == set(range(COUNT))
            assert policy is FILL or len(set(all_)) == len(all_)
    assert iterator.size == iterator._size == (COUNT // shards if policy is DROP else math.ceil(COUNT / shards))
    for pipe in pipes:
        pipe.close()


@pytest.mark.parametrize(("policy", "size", "last"), [
    (FILL, 10, [[8, 9, 9, 9]]), (PARTIAL, 10, [[8, 9]]), (DROP, 10, []), (FILL, -1, [[8, 9]]), (DROP, -1, [[8, 9]]),
])  # fmt: skip
def test_a_source_whose_last_batch_is_short(policy, size, last):
    """Where nothing says how large an epoch is, the last batch is like any other."""

    @pipeline_def(batch_size=4, num_threads=1)
    def short():
        def source(info):
            if info.iteration == 3:
                raise StopIteration
            return [np.array([4 * info.iteration + i]) for i in range(2 if info.iteration == 2 else 4)]

        return fn.external_source(source, batch=True, batch_info=True, name="source")

    with short() as pipe:
        batches = list(GenericIterator(pipe, ["data"], size=size, last_batch_policy=policy))
    assert data(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], *last]


#: Of DALI 2.4, for 7 samples and batches of 2, with pad_last_batch=True: the length, the size and an epoch.
DALI = {
    (FILL, 1): (4, 7, [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 6]]]), (FILL, 2): (2, 4, None),
    (DROP, 1): (3, 7, [[[0, 1]], [[2, 3]], [[4, 5]]]), (DROP, 2): (1, 3, None),
    (PARTIAL, 1): (4, 7, [[[0, 1]], [[2, 3]], [[4, 5]], [[6]]]), (PARTIAL, 2): (2, 4, None),
}  # fmt: skip


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize(("policy", "shards"), DALI)
def test_each_epoch_of_an_iterator_is_whole(folder, policy, shards, pad):
    @pipeline_def(batch_size=2, num_threads=1)
    def seven(shard):
        return fn.readers.file(file_root=folder, files=[f"{i:02}" for i in range(7)], name="reader", shard_id=shard,
                               num_shards=shards, pad_last_batch=pad)  # fmt: skip

    pipes = [seven(k) for k in range(shards)]
    iterator = ClassificationIterator(pipes, -1, "reader", "yes", last_batch_policy=policy)
    length, size, epoch = DALI[policy, shards]
    found = [[[each["label"].flatten().tolist() for each in batch] for batch in iterator] for _ in range(2)]
    assert (len(iterator), iterator.size) == (length, size)
    assert [len(batches) for batches in found] == [length] * 2
    assert epoch is None or found == [epoch] * 2
    assert policy is DROP or all({x for b in batches for each in b for x in each} == set(range(7)) for batches in found)
    for pipe in pipes:
        pipe.close()


def test_fill_repeats_the_last_sample(folder):
    with numbers(folder) as pipe:
        *_, last = data(GenericIterator(pipe, NAMES, reader_name="reader"))
    with numbers(folder) as pipe:
        *_, part = data(GenericIterator(pipe, NAMES, reader_name="reader", last_batch_policy="partial"))
    assert last == [*part, part[-1]]
    for kind, fill, expected in ((GenericIterator, True, last), (RaggedIterator, False, part)):  # of older scripts
        with numbers(folder) as pipe:
            *_, found = data(kind(pipe, NAMES, reader_name="reader", fill_last_batch=fill))
        assert found == expected


@given(bad=st.sets(st.integers(0, 8), max_size=8), size=st.integers(1, 4), shards=st.integers(1, 3),
       policy=st.sampled_from([FILL, PARTIAL]), stop=st.integers(0, 9), ragged=st.booleans())  # fmt: skip
def test_only_the_last_batch_is_filled_where_samples_are_skipped(folder, bad, size, shards, policy, stop, ragged):
    """Others are smaller by what could not be read, down to none; also after a resume."""
    files = [f"gone{i}" if i in bad else FILES[i] for i in range(9)]

    def iterators(texts):
        @pipeline_def(batch_size=size, seed=3, prefetch_queue_depth=0)
        def made(shard):
            sharded = {"name": "reader", "shard_id": shard, "num_shards": shards, "on_error": "skip"}
            return fn.readers.file(file_root=str(folder), files=files, **sharded)[1]

        kind = RaggedIterator if ragged else GenericIterator
        return [kind(made(shard, checkpoint=texts[shard]), ["label"], reader_name="reader", last_batch_policy=policy)
                for shard in range(shards)]  # fmt: skip

    def step(batches):
        return [batch["label"].flatten().tolist() for (batch,) in batches]

    every = iterators([None] * shards)
    stop = min(stop, -(-9 // (size * shards)))
    steps = [step(batches) for _, batches in zip(range(stop), zip(*every, strict=True), strict=False)]
    every = iterators([rank.checkpoints()[0] for rank in every] if steps else [None] * shards)
    steps += [step(batches) for batches in zip(*every, strict=True)]
    places = np.array_split(np.arange(9), range(size * shards, 9, size * shards))
    good = [[[int(i) for i in part[rank::shards] if i not in bad] for rank in range(shards)] for part in places]
    assert steps[:-1] == good[:-1]
    for found, expected in zip(steps[-1], good[-1], strict=True):
        missing = size - len(expected) if policy is FILL else 0
        assert found[: len(expected)] == expected or not expected
        assert len(found) == len(expected) + missing or not found
        assert set(found) <= {*expected, *[8] * (policy is FILL)}


@given(policy=st.sampled_from([FILL, DROP, PARTIAL]), stop=st.integers(0, 15), epoch=st.integers(0, 4),
       shards=st.integers(1, 3), every=st.booleans())  # fmt: skip
def test_an_iterator_goes_to_the_epoch_that_it_is_told(folder, policy, stop, epoch, shards, every):
    """A later one; else it goes on. All shards of it, or one."""

    def made():
        pipes = [numbers(folder, shard_id=i, num_shards=shards) for i in range(shards if every else 1)]
        return pipes, GenericIterator(pipes, NAMES, reader_name="reader", last_batch_policy=policy)

    def epochs(iterator, count):
        return [[[each["data"].flatten().tolist() for each in batch] for batch in iterator] for _ in range(count)]

    whole = epochs(made()[1], 6)
    pipes, iterator = made()
    given_ = [batch for _, batch in zip(range(stop), itertools.chain(*itertools.repeat(iterator, 3)), strict=False)]
    here, left = divmod(len(given_), len(whole[0]))
    iterator.sampler.set_epoch(epoch)
    rest = epochs(iterator, 1)[0]
    assert rest == (whole[epoch] if epoch > here else whole[here][left:])
    assert pipes[0].epoch == max(epoch, here) + 1
    assert epochs(iterator, 1)[0] == whole[max(epoch, here) + 1]


@pytest.mark.parametrize("policy", [FILL, DROP, PARTIAL])
def test_the_state_of_an_iterator_with_a_size_goes_on(policy):
    def made(pipe):
        return GenericIterator(pipe, ["x"], size=10, last_batch_policy=policy, auto_reset="yes")

    with counted() as pipe:
        whole = [batch[0]["x"].tolist() for batch in itertools.chain(*itertools.repeat(made(pipe), 4))]
    for stop in range(1, len(whole) - 1):
        with counted() as pipe, counted() as other:
            first, second = made(pipe), made(other)
            next(second)
            for _ in zip(range(stop), itertools.chain(*itertools.repeat(first, 4)), strict=False):
                pass
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
            assert next(iter(second))[0]["x"].tolist() == whole[stop]


def test_a_state_of_another_iterator_is_refused_and_changes_nothing(folder):
    def made(count=1, **arguments):
        pipes = [numbers(folder, shard_id=i, num_shards=count, **arguments) for i in range(count)]
        return GenericIterator(pipes, NAMES, reader_name="reader")

    iterator, state = made(), made(2).state_dict()
    next(iterator)
    before = iterator.state_dict()
    of_seed = made(seed=4)
    next(of_seed)
    for other, told in (
        (state, "pipelines: 2 in the state, 1 here"),
        ({"version": 1}, "this is not a state of an iterator"),
        (None, "this is not a state of an iterator"),
        (of_seed.state_dict(), "of another seed. seed: 4 in the state, 12 here"),
        (
            {**before, "checkpoints": [before["checkpoints"][0].replace('"reader"', '"other"')]},
            "digest|damaged|changed",
        ),
    ):
        with pytest.raises(StateError, match=told):
            iterator.load_state_dict(other)
        assert iterator.state_dict() == before
    other = made()
    other.load_state_dict(before)
    assert [data(each) for each in (iterator, other)] == [data(made())[1:]] * 2


@pytest.mark.parametrize("policy", ["fill", "DROP", PARTIAL])
def test_a_size_ends_the_epochs_of_endless_sources(policy):
    with counted() as pipe:
        iterator = GenericIterator(pipe, ["x"], size=10, auto_reset="yes", last_batch_policy=policy)
        epochs = [[batch[0]["x"][:, 1].tolist() for batch in iterator] for _ in range(2)]
        assert len(iterator) == len(epochs[0])
    last = {"fill": [[8, 9, 10, 11]], "DROP": [], PARTIAL: [[8, 9]]}[policy]
    assert epochs[0] == [[0, 1, 2, 3], [4, 5, 6, 7], *last]
    assert epochs[1][0] == [12, 13, 14, 15]  # what is left out is taken too


def test_a_source_that_ends_within_the_batch_that_is_left_out_ends_one_epoch():
    with counted(stop=10) as pipe:
        iterator = GenericIterator(pipe, ["x"], size=11, auto_reset="yes", last_batch_policy=DROP)
        epochs = [[batch[0]["x"].tolist() for batch in iterator] for _ in range(3)]
    assert epochs == [[[[e, k] for k in range(4)], [[e, k] for k in range(4, 8)]] for e in range(3)]


@given(shards=st.integers(1, 5), size=st.integers(1, 5), stop=st.integers(0, 9), others=st.integers(1, 5),
       kind=st.sampled_from([GenericIterator, RaggedIterator]), every=st.booleans())  # fmt: skip
def test_all_ranks_make_as_many_steps_wherever_they_were_stopped(folder, shards, size, stop, others, kind, every):
    def iterators(count, text=None):
        pipes = [numbers(folder, shard_id=i, num_shards=count, batch_size=size, checkpoint=text) for i in range(count)]
        groups = [pipes] if every else [[pipe] for pipe in pipes]  # all shards in one process, or one in each
        return [kind(group, NAMES, reader_name="reader", last_batch_policy=PARTIAL) for group in groups]

    def given_(step):
        return [x for each in step for part in each for x in part["data"].ravel().tolist()]

    ranks = iterators(shards)
    steps = [step for _, step in zip(range(stop), zip(*ranks, strict=True), strict=False)]  # zip: all end together
    texts = [text for rank in ranks for text in rank.checkpoints()]
    states = [json.loads(text)["states"]["reader"]["state"] for text in texts if stop]
    places = {COUNT * state["epoch"] + state["position"] for state in states}
    assert len(places) <= 1
    rest = iterators(others, texts[stop % len(texts)])
    more = [*zip(*rest, strict=True)]
    if stop <= len(ranks[0]):
        found = sorted(itertools.chain(*map(given_, [*steps, *more])))
        assert found == sorted(itertools.chain(*map(given_, zip(*iterators(1), strict=True))))


@given(count=st.integers(1, 5), shards=st.integers(1, 5), size=st.integers(1, 3), stop=st.integers(1, 9),
       rank=st.integers(0, 4))  # fmt: skip
def test_ranks_stay_in_one_epoch_where_there_are_fewer_samples_than_shards(folder, count, shards, size, stop, rank):
    def iterators(text=None):
        @pipeline_def(batch_size=size, seed=3)
        def made(shard):
            sharded = {"name": "reader", "shard_id": shard, "num_shards": shards}
            return fn.readers.file(file_root=str(folder), files=FILES[:count], **sharded)[1]

        how = {"reader_name": "reader", "auto_reset": True, "last_batch_policy": PARTIAL}
        return [GenericIterator(made(shard, checkpoint=text), ["label"], **how) for shard in range(shards)]

    def step(ranks):
        """What each rank gives; None at the end of an epoch."""
        found = [next(rank, None) for rank in ranks]
        return [None if batch is None else batch[0]["label"].flatten().tolist() for batch in found]

    ranks = iterators()
    for _ in range(stop):
        step(ranks)
    texts = [text for rank in ranks for text in rank.checkpoints()]
    states = [{name: entry["state"] for name, entry in json.loads(text)["states"].items()} for text in texts]
    places = [(each["pipeline"]["epoch"], each["reader"]["epoch"], each["reader"]["position"]) for each in states]
    assert len(set(places)) == 1
    whole = [step(ranks) for _ in range(6)]
    again = iterators(texts[rank % shards])
    assert [step(again) for _ in range(6)] == whole
    assert len({rank._courses[0].epoch for rank in again}) == 1


def test_a_source_that_ends_with_the_size_ends_one_epoch():
    with counted(stop=8) as pipe:
        iterator = GenericIterator(pipe, ["x"], size=8, auto_reset="yes")
        epochs = [[batch[0]["x"].tolist() for batch in iterator] for _ in range(3)]
    assert epochs == [[[[e, k] for k in range(4)], [[e, k] for k in range(4, 8)]] for e in range(3)]


def test_without_a_size_it_goes_on_until_the_source_ends(folder):
    with counted(stop=6) as pipe:
        iterator = GenericIterator(pipe, ["x"])
        for epoch in range(2):
            assert [len(batch[0]["x"]) for batch in iterator] == [4, 2]
            iter(iterator)
            assert next(iterator)[0]["x"][0].tolist() == [2 * epoch + 1, 0]
            next(iterator)
            with pytest.raises(StopIteration):
                next(iterator)
        with pytest.raises(TypeError, match="no length"):
            len(iterator)
    with numbers(folder) as pipe:
        iterator = GenericIterator(pipe, NAMES)
        assert len([next(iterator) for _ in range(20)]) == 20


def test_the_next_epoch_begins_at_reset_or_iter(folder):
    with numbers(folder) as pipe:
        iterator = GenericIterator(pipe, NAMES, reader_name="reader")
        first = data(iterator)
        with pytest.raises(StopIteration):
            iterator.next()
        iterator.reset()
        second = [iterator.next()]
        with pytest.warns(UserWarning, match="in the middle of an epoch"):
            iterator.reset()
        for _ in range(5):
            second.append(iterator.next())
        iterator.reset()  # before it has said that the epoch is over
        third = data(iterator)
        fourth = [iterator.next() for _ in iterator.output_map] if iter(iterator) else None
        assert len(first) == len(second) == len(third) == 6
        assert len({json.dumps(epoch[:3]) for epoch in (first, data(second), third, data(fourth))}) == 4
        iterator = GenericIterator(pipe, NAMES, reader_name="reader", auto_reset="yes")
        assert len(list(iterator)) == 3  # what was left
        assert len(list(iterator)) == 6


@examples(1.5)
@given(values=st.data())
def test_an_iterator_goes_on_in_mid_epoch(folder, values):
    policy, shards = values.draw(st.sampled_from(LastBatchPolicy)), values.draw(st.integers(1, 2))
    size = values.draw(st.integers(1, 6))

    def made(texts=None):
        texts = texts or [None] * shards
        pipes = [numbers(folder, shard_id=k, num_shards=shards, batch_size=size, checkpoint=texts[k],
                         prefetch_queue_depth=values.draw(st.integers(0, 2))) for k in range(shards)]  # fmt: skip
        return GenericIterator(pipes, NAMES, reader_name="reader", last_batch_policy=policy,
                               prepare_first_batch=values.draw(st.booleans()))  # fmt: skip

    whole = made()
    epochs = [plain(whole) for _ in range(3)]
    run, found = made(), [[]]
    while len(found) < 4:
        for _ in range(values.draw(st.integers(1, 5))):
            batch = next(run, None)
            if batch is None:
                found.append([])
                run.reset()
            else:
                found[-1] += plain([batch])
        texts = run.checkpoints()
        for pipe in run._pipelines:
            pipe.close()
        run = made(texts)
    # an epoch that ended right before a stop ends once more
    assert [epoch for epoch in found if epoch][:2] == epochs[:2]
    for pipe in (*run._pipelines, *whole._pipelines):
        pipe.close()


def test_the_count_of_an_epoch_by_size_goes_on():
    with counted() as pipe:
        iterator = GenericIterator(pipe, ["x"], size=10)
        expected = [plain(iterator) for _ in range(2)]
    with counted() as pipe:
        iterator = GenericIterator(pipe, ["x"], size=10)
        first = plain([next(iterator)])
        texts = iterator.checkpoints()
        rest = plain(iterator)
        ended = iterator.checkpoints()
        iterator.reset()
        begun = iterator.checkpoints()
    assert json.loads(texts[0])["states"]["iterator"]["state"]["given"] == {"dtype": "int64", "shape": [1], "data": [4]}
    for text, epochs in ((texts[0], [rest, expected[1]]), (ended[0], [[], expected[1]]), (begun[0], [expected[1]])):
        with counted(checkpoint=text) as pipe:
            iterator = GenericIterator(pipe, ["x"], size=10)
            assert [plain(iterator) for _ in epochs] == epochs
            assert pipe.checkpoint() == iterator.checkpoints()[0]
    assert first + rest == expected[0]
    with counted(checkpoint=texts[0]) as pipe:
        with pytest.raises(StateMismatch, match="size: 10 in the state, 12 here"):
            GenericIterator(pipe, ["x"], size=12)
        with pytest.raises(StateMismatch, match="pipelines: 1 in the state, 2 here"):
            GenericIterator([pipe, pipe], ["x"], size=10)
    states = {name: entry["state"] for name, entry in json.loads(texts[0])["states"].items()}
    arrays = [{"dtype": dtype, "shape": shape, "data": [4]} for dtype, shape in (("int32", [1]), ("int64", []))]
    for wrong in (5, {}, {**states["iterator"], "version": 2}, *({**states["iterator"], "given": x} for x in arrays)):
        other = checkpoint.Checkpoint()
        for name, state in {**states, "iterator": wrong}.items():
            other.set_state(name, state)
        text = other.serialize()
        with pytest.raises(StateError, match="this is not a state of an iterator"), counted(checkpoint=text) as pipe:
            GenericIterator(pipe, ["x"], size=10)


def test_samples_of_different_shapes_are_padded_or_an_error_that_names_the_output():
    @pipeline_def(batch_size=2, num_threads=1)
    def ragged():
        return fn.external_source(lambda info: np.ones(1 + info.idx_in_epoch, np.int16), batch=False), 5

    with ragged() as pipe:
        with pytest.raises(
            ArgumentError, match=r"'dynamic_shape' must be True for output 'x', .* \(\(1,\) and \(2,\)\)"
        ):
            next(GenericIterator(pipe, ["x", "y"]))
        padded = next(GenericIterator(pipe, ["x", "y"], dynamic_shape=True))[0]["x"]
    assert padded.tolist() == [[1, 0], [1, 1]]  # what was refused is not lost


@pytest.mark.parametrize("policy", LastBatchPolicy)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(1, 4))
def test_ragged_outputs_are_lists_or_sparse_tensors(folder, policy, lengths, batch_size):
    batch_size = min(batch_size, len(lengths))

    @pipeline_def(batch_size=batch_size, num_threads=1, prefetch_queue_depth=0)
    def ragged():
        _, labels = fn.readers.file(file_root=str(folder), files=FILES[: len(lengths)], name="reader")
        samples = fn.python_function(labels, function=lambda i: np.arange(1, lengths[int(i[0])] + 1, dtype=np.int16))
        return labels, samples, samples

    with ragged() as pipe:
        batches = RaggedIterator(pipe, ["label", "listed", "sparse"], reader_name="reader", last_batch_policy=policy,
                                 output_types=TAGS)  # fmt: skip
        found = [batch for (batch,) in batches]
    order = [place for batch in found for place in batch["label"].flatten().tolist()]
    extra = -len(lengths) % batch_size
    whole = list(range(len(lengths)))
    assert order == {FILL: whole + whole[-1:] * extra, PARTIAL: whole,
                     DROP: whole[: len(lengths) // batch_size * batch_size]}[policy]  # fmt: skip
    for batch in found:
        expected = [list(range(1, lengths[place] + 1)) for place in batch["label"].flatten().tolist()]
        assert [sample.tolist() for sample in batch["listed"]] == expected
        longest = max(map(len, expected))
        assert batch["sparse"].dtype == torch.int16
        assert batch["sparse"].to_dense().tolist() == [row + [0] * (longest - len(row)) for row in expected]


def test_what_cannot_be_a_sparse_tensor_is_told(folder):
    for tags in (TAGS[:2], "dense", ["dense", "ragged", "dense"], [1, 2, 3], 5):
        with numbers(folder) as pipe, pytest.raises(ArgumentError, match="'output_types' must be a list of 3 tags"):
            RaggedIterator(pipe, ["a", "b", "c"], output_types=tags)

    @pipeline_def(batch_size=2, num_threads=1)
    def images():
        return fn.external_source(lambda info: np.ones((1 + info.idx_in_epoch, 2), np.int16), batch=False)

    with images() as pipe:
        with pytest.raises(ArgumentError, match="'sparse_list' for output 'x', whose samples have 2 dimensions"):
            next(RaggedIterator(pipe, ["x"], output_types=["sparse_coo"]))
        with pytest.raises(ArgumentError, match="'dynamic_shape' must be True for output 'x'"):
            next(RaggedIterator(pipe, ["x"]))
        padded = next(RaggedIterator(pipe, ["x"], dynamic_shape=True))[0]["x"]
    assert padded.shape == (2, 2, 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_function_of_a_data_set_knows_its_pipeline(folder, workers):
    @pipeline_def(batch_size=4, num_threads=1)
    def sized(root):
        _, labels = fn.readers.file(file_root=root, files=FILES)
        pipe = Pipeline.current()
        return labels, pipe.batch_size, pipe.num_threads

    dataset = Dataset(functools.partial(sized, folder), ["label", "size", "threads"])
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers))
    assert {
        (size, threads)
        for batch in batches
        for size, threads in zip(batch["size"].tolist(), batch["threads"].tolist(), strict=True)
    } == {(4, 1)}
    assert sum(len(batch["label"]) for batch in batches) == COUNT


@pytest.mark.parametrize("dtype", ["int64", "float32", "uint8"])
def test_a_batch_of_no_samples_is_a_sparse_tensor_of_no_rows(dtype):
    nothing = np.zeros((0, 3), dtype)
    with pipeline_def(batch_size=2)(lambda: fn.external_source(lambda: nothing, name="x"))() as pipe:
        (batch,) = next(RaggedIterator(pipe, ["x"], output_types=["sparse_coo"]))
    assert (batch["x"].shape, batch["x"].dtype) == ((0, 0), getattr(torch, dtype))


def test_a_step_of_other_shards_alone_is_a_sparse_tensor_of_no_rows(folder):
    @pipeline_def(batch_size=COUNT, seed=1)
    def vectors(shard):
        root = {"file_root": str(folder), "files": FILES[:3]}
        _, labels = fn.readers.file(**root, name="reader", shard_id=shard, num_shards=2)
        return labels

    steps = []
    for shard in range(2):
        with vectors(shard, batch_size=1) as pipe:
            tags = {"output_types": ["sparse_coo"], "last_batch_policy": PARTIAL}
            found = list(RaggedIterator(pipe, ["x"], reader_name="reader", **tags))
            steps.append([tuple(step[0]["x"].shape) for step in found])
            assert {step[0]["x"].dtype for step in found} == {torch.int32}
    assert sorted(steps) == [[(1, 1), (0, 0)], [(1, 1), (1, 1)]]


def test_a_pipeline_with_nothing_left_gives_empty_lists_and_tensors(folder):
    with numbers(folder, shard_id=0, num_shards=2) as one, numbers(folder, shard_id=1, num_shards=2) as other:
        one.run()
        run = RaggedIterator([one, other], NAMES, reader_name="reader", last_batch_policy=PARTIAL,
                             output_types=[TAGS[2], TAGS[1], TAGS[0]])  # fmt: skip
        *_, (less, more) = run
    assert [len(more[name]) for name in NAMES] == [3, 3, 3]
    assert [len(less[name]) for name in NAMES] == [0, 0, 0]
    assert (less["data"].dtype, less["data"].shape, less["label"]) == (torch.uint8, (0, 0), [])


def test_wrong_arguments_are_named(folder):
    with numbers(folder) as pipe, numbers(folder, batch_size=2) as other:
        for arguments, told in [
            ({"pipelines": []}, "'pipelines' must be a Pipeline or a list"),
            ({"pipelines": None}, "'pipelines' must be a Pipeline or a list"),
            ({"size": 3, "reader_name": None, "last_batch_policy": DROP}, "'size' must be at least 4, as less is"),
            ({"pipelines": [pipe, other]}, r"of one batch size; got \[4, 2\]"),
            ({"output_map": ["a", "a"]}, "'output_map' must be a list of distinct names"),
            ({"output_map": 5}, "'output_map' must be a list"), ({"output_map": [["a"]] * 3}, "'output_map'"),
            ({"reader_name": ["reader"]}, "'reader_name' .*That is 'reader'"),
            ({"output_map": "data"}, "'output_map'"), ({"size": 0}, "'size'"), ({"size": 5}, "'size' must be left out"),
            ({"auto_reset": "maybe"}, "'auto_reset' must be one of False, None, no"),
            ({"last_batch_policy": "pad"}, "'last_batch_policy' must be one of .*partial"),
            ({"reader_name": "raeder"}, "'reader_name' .*That is 'reader'"),
            ({"pipelines": [pipe, pipe], "reader_name": None}, "'reader_name'"),
        ]:  # fmt: skip
            with pytest.raises(ArgumentError, match=told):
                GenericIterator(**{"pipelines": pipe, "output_map": NAMES, "reader_name": "reader", **arguments})
        with pytest.raises(ArgumentError, match="a list of 3 names"):
            next(ClassificationIterator(pipe, reader_name="reader"))
        pipe.run()
        for _ in pipe.next_epoch():
            pass
        with pytest.raises(StateMismatch, match=r"different epochs: \[1, 0\]"):
            GenericIterator([pipe, numbers(folder)], NAMES, reader_name="reader")
    with counted() as pipe, pytest.raises(ArgumentError, match="not a reader"):
        GenericIterator(pipe, ["x"], reader_name="source")


def test_an_error_leaves_the_iterator_where_it_was(tmp_path):
    @pipeline_def(batch_size=2, num_threads=1)
    def files():
        return fn.readers.file(file_root=tmp_path, files=list("abcd"), name="reader")

    for name in "abd":
        (tmp_path / name).write_bytes(name.encode())
    with files() as pipe:
        iterator = ClassificationIterator(pipe, reader_name="reader")
        assert next(iterator)[0]["label"].tolist() == [[0], [1]]
        for _ in range(2):
            with pytest.raises(ValueError, match="c"):
                next(iterator)
        (tmp_path / "c").write_bytes(b"c")
        assert [batch[0]["label"].tolist() for batch in iterator] == [[[2], [3]]]


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("kind", ["source", "iterable", *LastBatchPolicy])
@examples(0.2)
@given(shards=st.integers(1, 3), fails=st.sets(st.integers(0, 40), max_size=6))
def test_a_batch_that_cannot_become_tensors_is_the_next_one_again(folder, depth, kind, shards, fails):
    counter = itertools.count()

    def given_batches():
        reads = isinstance(kind, LastBatchPolicy)
        made = [numbers(folder, prefetch_queue_depth=depth, shard_id=k, num_shards=shards) if reads
                else (counted if kind == "source" else iterated)(prefetch_queue_depth=depth)
                for k in range(shards)]  # fmt: skip
        how = {"reader_name": "reader", "last_batch_policy": kind} if reads else {"size": 10 * shards}
        iterator = GenericIterator(made, NAMES if reads else ["x"], auto_reset=True, **how)
        found, epoch = [], iter(iterator)
        while len(found) < 12:
            before = iterator.checkpoints()
            try:
                found.append([{name: value.tolist() for name, value in each.items()} for each in next(epoch)])
            except StopIteration:
                found.append("end")
            except MemoryError:
                assert iterator.checkpoints() == before
        return found

    def torch_or_fail(batch, *arguments, **named):
        if next(counter) in fails:
            raise MemoryError
        return original(batch, *arguments, **named)

    original, whole = Batch.torch, given_batches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batch, "torch", torch_or_fail)
        assert given_batches() == whole


# The data set


def pipelines(folder, **arguments):
    return functools.partial(numbers, folder, **arguments)


def loader(dataset, workers, **arguments):
    return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, **arguments)


def listed(batches):
    return [{name: value.tolist() for name, value in batch.items()} for batch in batches]


def streams(folder, **arguments):
    """A pipeline that no batch of can be passed over without making it: two readers, and a stream of numbers."""

    @pipeline_def(batch_size=4, num_threads=1, seed=3)
    def made():
        data, _ = fn.readers.file(file_root=folder, files=FILES, name="reader")
        other, _ = fn.readers.file(file_root=folder, files=["03", "05", "08"], random_shuffle=True, name="other")
        return data, other, fn.random.uniform(range=(0.0, 1.0))

    return made(**arguments)


def sources(folder):
    """A pipeline whose source ends its epochs itself."""
    return counted(stop=10)


KINDS = {"pipeline": (pipelines, NAMES), "reader": (lambda folder: functools.partial(reader_of, folder), NAMES[:2]),
         "two readers": (lambda folder: functools.partial(streams, folder), NAMES),
         "source": (lambda folder: functools.partial(sources, folder), ["x"])}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_gives_the_same_with_any_number_of_workers_and_goes_on_with_another(folder, kind):
    make, output_map = KINDS[kind]
    alone = Dataset(make(folder), output_map)
    whole = [list(alone) for _ in range(3)]
    texts = [[json.dumps(batch.state) for batch in epoch] for epoch in whole]
    epochs = [listed(epoch) for epoch in whole]
    assert epochs[0] != epochs[1]
    length = 3 if kind == "source" else 6
    assert [len(epoch) for epoch in epochs] == [length] * 3
    # the same with workers, with their states, epoch after epoch
    dataset = Dataset(make(folder), output_map)
    for epoch, text in zip(epochs[:2], texts, strict=False):
        batches = list(loader(dataset, 2))
        assert listed(batches) == epoch
        assert [json.loads(json.dumps(batch.state)) for batch in batches] == [json.loads(t) for t in text]
    # stopped after k batches with some workers, and gone on with others
    for k, before, after in [(1, 2, 3), (length - 1, 3, 0), (length, 2, 0)]:
        for batch, _ in zip(loader(Dataset(make(folder), output_map), before), range(k), strict=False):
            state = json.loads(json.dumps(batch.state))
        resumed = Dataset(make(folder), output_map)
        resumed.load_state_dict(state)
        rest = [epochs[0][k:], epochs[1]] if k < length or kind == "source" else epochs[1:]
        assert [listed(loader(resumed, after)) for _ in range(2)] == rest


def test_every_place_can_be_gone_on_from(folder):
    dataset = Dataset(pipelines(folder), NAMES)
    whole = [list(dataset) for _ in range(3)]
    expected = [listed(epoch) for epoch in whole]
    for e in range(2):
        for k, batch in enumerate(whole[e][:-1], 1):
            dataset.load_state_dict(batch.state)
            assert dataset.epoch == e
            assert listed(dataset) == expected[e][k:]
            assert dataset.epoch == dataset.state_dict()["states"]["pipeline"]["epoch"] == e + 1
            assert listed(dataset) == expected[e + 1]
        dataset.load_state_dict(whole[e][-1].state)
        assert dataset.epoch == e + 1
        assert listed(dataset) == expected[e + 1]


def test_the_state_of_this_process(folder):
    dataset = Dataset(lambda: reader_of(folder))
    epoch = []
    for batch in dataset:
        assert dataset.state_dict() == batch.state
        epoch += listed([batch])
        if len(epoch) == 3:
            state = dataset.state_dict()
    assert dataset.state_dict()["states"]["reader"]["epoch"] == 1
    dataset.load_state_dict(state)
    assert listed(dataset) == epoch[3:]
    batches = loader(dataset, 1)
    next(iter(batches))
    with pytest.raises(RuntimeError, match=r"batch\.state"):
        dataset.state_dict()
    dataset.load_state_dict(state)
    assert dataset.state_dict() == state


def test_workers_that_stay_and_a_start_without_fork(folder):
    dataset = Dataset(pipelines(folder), NAMES)
    expected = [listed(dataset) for _ in range(3)]
    staying = loader(Dataset(pipelines(folder), NAMES), 2, persistent_workers=True)
    assert [listed(staying) for _ in range(3)] == expected
    del staying
    dataset = Dataset(reader_of(folder))
    expected = [listed(dataset) for _ in range(2)]
    spawned = loader(Dataset(reader_of(folder)), 1, multiprocessing_context="spawn")
    assert [listed(spawned) for _ in range(2)] == expected


def test_a_random_seed_is_that_of_all_workers(folder):
    def make():
        return numbers(folder, seed=None)

    dataset = Dataset(make, NAMES)
    found = listed(loader(dataset, 2))
    assert sorted(x for batch in found for (x,) in batch["data"]) == list(range(COUNT))
    assert listed(Dataset(make, NAMES)) != found


def test_ranks_and_workers_share_an_epoch(folder):
    found = []
    for rank in range(2):
        dataset = Dataset(pipelines(folder, shard_id=rank, num_shards=2, batch_size=3), NAMES)
        for batch, _ in zip(loader(dataset, 2), range(2), strict=False):
            found += batch["data"].ravel().tolist()
            state = batch.state
    for rank in range(3):
        dataset = Dataset(pipelines(folder, shard_id=rank, num_shards=3), NAMES)
        dataset.load_state_dict(state)
        found += [x for batch in loader(dataset, rank) for x in batch["data"].ravel().tolist()]
    assert sorted(found) == list(range(COUNT))


def test_outputs_are_transformed_in_the_worker(folder):
    def transform(data, labels):
        assert isinstance(data, Batch)
        return data * 2

    dataset = Dataset(reader_of(folder), ["twice"], step=transform, batch_size=3)
    assert len(dataset) == len(loader(dataset, 2)) == 8
    assert sorted(x for batch in loader(dataset, 2) for (x,) in batch["twice"].tolist()) == list(range(0, 2 * COUNT, 2))
    again = pickle.loads(pickle.dumps(Dataset(reader_of(folder))))
    assert type(again) is Dataset
    assert len(list(loader(again, 2))) == 6


def test_what_a_transform_gives_that_is_no_batch_is_named(folder):
    for transform, told in [
        (5, "a function of Batches; got int 5"), (lambda *_: 5, "output 0 is a Batch; got int 5. A NumPy array with"),
        (lambda *_: None, r"that returns its outputs; got one that returned None\. Does it end without a return\?"),
        (lambda data, _: {"x": None}, "'x' is a Batch; got None. A NumPy array with one entry for each of the 3 samp"),
        (lambda data, _: data, "'label', 'draw'; got one that returned 1 output. Return a dict .*, or pass output_"),
        (lambda data, _: [data] * 2, "'data', 'label', 'draw'; got one that returned 2 outputs. Return a dict with"),
        (lambda *_: (), "got one that returned 0 outputs"), (lambda *_: {}, r"dict has .* as keys; got the keys \[\]"),
        (lambda data, _: {0: data}, r"'step' must be a function whose dict has .* as keys; got the keys \[0\]"),
        (lambda data, _: {"x": np.array(data.origin.names)}, "ndarray of shape .* and dtype <U2. Text is no output"),
        (lambda data, _: {"x": "abc"}, "got str 'abc'. Text is no output"),
        (lambda data, _: (data, data.numpy()[:2]), r"output 1 is a Batch; got ndarray of shape \(2, 1\)"),
        (lambda data, _: {"x": data.torch()}, r"'x' is a Batch; got Tensor of shape \(3, 1\)"),
        (lambda data, _: {"x": data.origin.names}, r"got list of 3 str\. Text is no output: return jpegs\.origin\.ids"),
        (lambda data, _: {"x": [each.torch() for each in data]}, r"got list of 3 Tensor. .* ragged=\['x'\]"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            next(iter(Dataset(reader_of(folder), NAMES, step=transform, batch_size=3)))


@given(left=st.integers(0, 2), where=st.integers(0, 1))
def test_outputs_of_unequal_numbers_of_samples_are_refused(folder, left, where):
    def step(*outputs):
        outputs = [output[:left] if place == where else output for place, output in enumerate(outputs)]
        return dict(zip("xy", outputs, strict=True))

    def arrays(*outputs):
        return {**step(*outputs), "id": outputs[0].origin.ids}

    numbers = [left if place == where else 3 for place in range(2)]
    for made in (step, arrays):
        with pytest.raises(
            ArgumentError, match=rf"{numbers[0]} of 'x', {numbers[1]} of 'y'\. Leave the same samples out"
        ):
            next(iter(Dataset(reader_of(folder), step=made, batch_size=3)))
    alone = Dataset(reader_of(folder), step=lambda x, _: {"x": x[:left], "id": x.origin.ids}, batch_size=3)
    with pytest.raises(ArgumentError, match=rf"{left} of 'x', 3 of 'id'\. Leave the same samples out"):
        next(iter(alone))
    fewer = Dataset(reader_of(folder), step=lambda *outputs: tuple(output[:left] for output in outputs), batch_size=3)
    assert [len(value) for value in next(iter(fewer)).values()] == [left, left]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_step_draws_nothing_from_an_older_stream(folder, workers):
    rng = RNG(seed=5)
    draws = [lambda rng: {"rng": rng.keyed([1, 2, 3])["a"]}, lambda _: {"batch_size": 3, "rng": RNG(seed=5)},
             lambda _: {"batch_size": 3}, lambda _: {"batch_size": 3, "rng": ndd.random.get_default_rng()}]  # fmt: skip
    for draw in draws:
        made = Loader(reader_of(folder), lambda *_, draw=draw: uniform(range=(0, 1), **draw(rng)), batch_size=3,
                      output_map=["x"], num_workers=workers)  # fmt: skip
        assert next(iter(made))["x"].shape == (3,)
    for draw in (lambda: uniform(range=(0, 1), batch_size=3, rng=rng), rng):
        made = Loader(reader_of(folder), lambda *_, draw=draw: draw(), batch_size=3, num_workers=workers)
        with pytest.raises(
            (ArgumentError, RuntimeError), match=r"'rng' must be rng\.keyed\(jpegs\)\[\"name\"\] in the step"
        ):
            next(iter(made))
    assert rng.state == RNG(seed=5).state


def test_what_a_data_set_refuses(folder):
    for arguments, told in [
        ((5,), "'source' must be a function"), ((lambda: 5,), "'source'"), ((numbers(folder),), "'source'"),
        ((reader_of(folder), "data"), "'output_map'"),
        ((File(file_root=folder, files=["00"]),), "'batch_size' must be given"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            Dataset(*arguments)
    with pytest.raises(ArgumentError, match="'batch_size' must be left out"):
        Dataset(pipelines(folder), batch_size=3)
    dataset, other = Dataset(pipelines(folder), NAMES), Dataset(reader_of(folder))
    with pytest.raises(TypeError, match="no length"):
        len(Dataset(KINDS["source"][0](folder), ["x"]))
    with pytest.raises(ArgumentError, match="'batch_size' must be None with a pytorch.Dataset"):
        next(iter(torch.utils.data.DataLoader(other, batch_size=2)))
    state, of_reader = next(iter(dataset)).state, next(iter(other)).state
    with pytest.raises(StateMismatch, match="of a pipeline, and this has a reader"):
        other.load_state_dict(state)
    with pytest.raises(StateMismatch, match="not of a pipeline"):
        dataset.load_state_dict(of_reader)
    with pytest.raises(StateMismatch, match="seed: 12 in the state, 13 here"):
        Dataset(pipelines(folder, seed=13), NAMES).load_state_dict(state)
    with pytest.raises(StateMismatch, match="seed: 5 in the state, 6 here"):
        Dataset(File(file_root=folder, files=reader_of(folder)._names(list(range(COUNT))), random_shuffle=True, seed=6,
                     max_batch_size=4)).load_state_dict(of_reader)  # fmt: skip
    with pytest.raises(StateMismatch, match="workers: 2 in the state, 0 here"):
        dataset.load_state_dict({**state, "workers": 2})
    for damaged in (None, {}, {**state, "version": 2}, {**state, "skip": "1"}):
        with pytest.raises(StateError):
            dataset.load_state_dict(damaged)
    dataset.load_state_dict({**state, "states": {**state["states"], "other": {}}})
    with pytest.raises(StateMismatch, match="'other', which this pipeline does not have"):
        next(iter(dataset))


def spotted(files, _):
    """Files, arrays of none to a million bytes, the ids of samples, and boxes of which there may be none."""
    ids = files.origin.ids
    grown = ndd.as_batch([np.full(int(i % 3) << 19, int(i) % 251, np.uint8) for i in ids])
    return {"file": files, "grown": grown, "id": ids, "boxes": ndd.as_batch([np.full((i % 4, 4), 0.5) for i in ids])}


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_some_outputs_become_lists_and_others_are_padded(folder, workers):
    make = functools.partial(Loader, step=spotted, batch_size=4, num_workers=workers)
    reader = reader_of(folder)
    batches = make(reader, ragged=["boxes", "grown"])
    state, found = None, []
    for batch in batches:
        state = batch.state if len(found) == 8 else state
        for file, grown, number, boxes in zip(
            batch["file"], batch["grown"], batch["id"].tolist(), batch["boxes"], strict=True
        ):
            assert reader.explain(number).name == f"{int(file):02}"
            assert grown.tolist() == [number % 251] * (number % 3 << 19)
            assert boxes.tolist() == [[0.5] * 4] * (number % 4)
            boxes += 1  # memory of the trainer's own
            found.append(number)
        moved = batch.to("cpu", copy=True)
        assert moved.state == batch.state
        assert [each.shape for each in moved["boxes"]] == [each.shape for each in batch["boxes"]]
    assert len(set(found)) == COUNT
    assert ndd.checkpoint.verify_epoch([batches.state_dict()]).samples == COUNT
    rest = make(reader_of(folder), ragged=["boxes", "grown"])
    rest.load_state_dict(state)
    assert [x for batch in rest for x in batch["id"].tolist()] == found[12:]
    padded = next(iter(make(reader_of(folder), dynamic_shape=["boxes"], ragged=["grown"])))
    assert padded["boxes"].shape == (4, max(x % 4 for x in found[:4]), 4)
    both = next(iter(make(reader_of(folder), dynamic_shape=True, ragged=["grown"])))
    assert isinstance(both["grown"], list)
    assert torch.equal(both["boxes"], padded["boxes"])


def without_boxes(files, _):
    return {"boxes": ndd.as_batch([np.zeros((0, 4), np.float32)] * len(files)), "one": files.origin.ids}


@pytest.mark.parametrize("workers", [0, 1])
def test_lists_may_have_no_elements_at_all(folder, workers):
    for batch in Loader(reader_of(folder), without_boxes, batch_size=3, num_workers=workers, ragged=["boxes", "one"]):
        assert [(each.dtype, tuple(each.shape)) for each in batch["boxes"]] == [(torch.float32, (0, 4))] * len(
            batch["one"]
        )
        assert all(each.shape == () for each in batch["one"])


def test_outputs_of_several_shapes_are_named(folder):
    for arguments, told in [
        ({}, r"True for output 'grown', .* dynamic_shape=\['grown'\] pads it with zeros, and ragged=\['grown'\] makes"),
        ({"ragged": ["grown", "box"]}, "'ragged' must be names of outputs, .*; got 'box'. Did you mean 'boxes'"),
        ({"dynamic_shape": ["bax"]}, "'dynamic_shape' must be names of outputs"),
        ({"dynamic_shape": "boxes"}, "'dynamic_shape' must be True, False or a list of names of outputs; got str"),
        ({"ragged": True}, "'ragged' must be a list of names of outputs; got bool True"),
        (
            {"dynamic_shape": ["boxes"], "ragged": ["boxes"]},
            "'ragged' must be without 'boxes', which is in dynamic_shape",
        ),
    ]:
        with pytest.raises(ArgumentError, match=told):
            next(iter(Loader(reader_of(folder), spotted, batch_size=4, **arguments)))

    def images(files, _):
        return ndd.as_batch([np.zeros((1 + i, 2, 3), np.uint8) for i in range(len(files))], layout="HWC")

    with pytest.raises(ArgumentError, match=r"^pytorch.Loader\(\).* Or resize or crop the images"):
        next(iter(Loader(reader_of(folder), images, output_map=["data"], batch_size=4)))


# Trainers, which stop where an epoch's length says so, and begin an epoch as they like


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["pipeline", "reader", "two readers"])
def test_an_epoch_is_over_for_whoever_stops_at_its_length(folder, kind, workers):
    make, output_map = KINDS[kind]
    whole = Dataset(make(folder), output_map)
    epochs = [list(whole) for _ in range(3)]
    for made in (loader(Dataset(make(folder), output_map), workers),
                 loader(Dataset(make(folder), output_map), workers, **{"persistent_workers": True} if workers else {}),
                 Loader(Dataset(make(folder), output_map), num_workers=workers)):  # fmt: skip
        for epoch in epochs:
            batches = iter(made)
            found = [next(batches) for _ in range(len(made))]
            assert listed(found) == listed(epoch)
            assert [batch.state for batch in found] == [batch.state for batch in epoch]


@given(size=st.integers(1, 30), shards=st.integers(1, 3), last=st.sampled_from(["partial", "drop", "pad"]))
@examples(1 / 2)
def test_the_length_is_that_of_the_shard_with_most_batches(folder, size, shards, last):
    how = {"num_shards": shards, "last_batch": last}
    if last == "drop" and size * shards > COUNT:
        return
    for make in (lambda k: numbers(folder, batch_size=size, shard_id=k, **how),
                 lambda k: File(file_root=folder, files=FILES, max_batch_size=size, shard_id=k, **how)):  # fmt: skip
        datasets = [Dataset(functools.partial(make, k), NAMES[: 3 if make(0).__class__ is Pipeline else 2])
                    for k in range(shards)]  # fmt: skip
        assert len({len(dataset) for dataset in datasets}) == 1
        assert len(datasets[0]) == len(loader(datasets[0], 0)) == max(len(list(dataset)) for dataset in datasets)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["pipeline", "reader", "two readers", "source"])
def test_an_epoch_that_is_left_early_has_ended(folder, kind, workers):
    """However far workers were ahead; else a loop that always stops there would see nothing else."""
    make, output_map = KINDS[kind]
    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(4)]
    made = loader(Dataset(make(folder), output_map), workers)
    assert [listed(itertools.islice(made, stop)) for stop in (1, 2, 1)] == [epochs[0][:1], epochs[1][:2], epochs[2][:1]]
    assert listed(made) == epochs[3]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["pipeline", "reader", "two readers"])
def test_any_epoch_can_be_begun(folder, kind, workers):
    make, output_map = KINDS[kind]
    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(4)]
    dataset = Dataset(make(folder), output_map)
    made = loader(dataset, workers)
    for epoch in (0, 2, 3):
        dataset.set_epoch(epoch)
        assert dataset.epoch == epoch
        assert listed(made) == epochs[epoch]
        dataset.set_epoch(epoch + 1)  # where it is already
    shuffled = kind != "two readers"  # the first of which is not: nothing is lost there
    with (
        pytest.warns(UserWarning, match="epoch 3 comes again, in the same order")
        if shuffled
        else contextlib.nullcontext()
    ):
        dataset.set_epoch(3)
    assert listed(made) == epochs[3]
    dataset.set_epoch(1)
    batch = next(iter(made))
    dataset.load_state_dict(batch.state)
    dataset.set_epoch(1)
    assert listed(made) == epochs[1][1:]
    dataset.load_state_dict(batch.state)
    with pytest.raises(
        ArgumentError, match=r"'epoch' must be 1, the epoch of the loaded state; got 0.*set_epoch\(dataset"
    ):
        dataset.set_epoch(0)
    advanced = reader_of(folder)
    advanced.seek(0, 2)
    with pytest.raises(ArgumentError, match="'epoch' must be at least 2, the epoch of the source; got 1"):
        Dataset(advanced).set_epoch(1)


def test_batches_keep_their_state_wherever_trainers_move_them(folder):
    batch = next(iter(loader(Dataset(reader_of(folder)), 0)))
    moved = batch.to("cpu", non_blocking=True)
    assert type(moved) is type(batch)
    assert (listed([moved]), moved.state) == (listed([batch]), batch.state)
    with pytest.raises(AttributeError, match="has no state any more"):
        type(batch)(dict(batch)).state
    with pytest.raises(AttributeError, match="no attribute 'stat'"):
        batch.stat


@pytest.mark.parametrize("kind", ["pipeline", "reader", "two readers"])
def test_a_loader_of_ours_has_the_state_of_the_batch_that_was_taken(folder, kind):
    make, output_map = KINDS[kind]
    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(3)]
    for stop, before, after in [(0, 2, 0), (1, 2, 3), (5, 0, 2), (6, 2, 0), (7, 2, 2)]:
        first = Loader(Dataset(make(folder), output_map), num_workers=before)
        if stop > 6:
            assert listed(first) == epochs[0]
        taken = list(itertools.islice(first, stop % 6)) if stop % 6 else list(first)[: stop and 6]
        resumed = Loader(Dataset(make(folder), output_map), num_workers=after)
        if stop:
            resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
            assert not taken or stop == 6 or taken[-1].state == first.state_dict()
        epoch, place = divmod(stop, 6)
        assert [listed(resumed), listed(resumed)] == [epochs[epoch][place:], epochs[epoch + 1]]
    resumed.set_epoch(0)
    assert resumed.state_dict() == Dataset(make(folder), output_map).state_dict()
    assert listed(resumed) == epochs[0]


def test_what_a_loader_of_ours_refuses(folder):
    dataset = Dataset(reader_of(folder))
    for arguments, how, told in [
        (([],), {}, "'source' must be a function that makes"),
        ((dataset,), {"batch_size": 4}, "'batch_size' must be left out; got int 4. The data set has it"),
        ((dataset, lambda *batch: batch), {}, "'step' must be left out"),
        ((dataset,), {"in_order": False}, "'in_order' must be True"),
        ((reader_of(folder), 5), {}, "'step' must be a function of Batches"),
        ((reader_of(folder),), {"drop_last": True}, "'drop_last' must be left out; got bool True. .*last_batch='drop'"),
        ((reader_of(folder),), {"shuffle": True}, "'shuffle' must be left out.* random_shuffle=True"),
        ((reader_of(folder),), {"collate_fn": list}, "'collate_fn' must be left out.* The step makes batches"),
        ((File(file_root=folder, files=["00"]),), {}, r"pytorch\.Loader\(\): argument 'batch_size' must be given"),
        ((File(file_root=folder, files=["00"]),), {"batch_size": 0}, "must be an integer of 1 or more; got int 0"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            Loader(*arguments, **how)
    usual = {"drop_last": False, "shuffle": None, "collate_fn": torch.utils.data.default_convert}
    made = Loader(reader_of(folder), **usual)
    with pytest.raises(StateError, match=r"pytorch\.Loader: this is not a state"):
        made.load_state_dict(None)
    with pytest.raises(ArgumentError, match=r"torch\.save and json\.dump take loader\.state_dict\(\)"):
        checkpoint.save("place.json", loader=made)


def doubled(data, labels):
    return {"twice": data * 2, "label": labels}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_a_reader_with_a_step(folder, workers):
    made = Loader(reader_of(folder), doubled, batch_size=3, num_workers=workers)
    assert isinstance(made, torch.utils.data.DataLoader)
    assert (len(made), made.epoch) == (8, 0)
    batches = list(made)
    assert sorted(x for batch in batches for (x,) in batch["twice"].tolist()) == list(range(0, 2 * COUNT, 2))
    assert {tuple(batch) for batch in batches} == {("twice", "label")}
    assert made.epoch == 1
    one = Loader(reader_of(folder), lambda data, _: data * 2, output_map=["twice"], num_workers=workers)
    assert [x for batch in one for x in batch["twice"].ravel().tolist()] == [
        x for batch in batches for x in batch["twice"].ravel().tolist()
    ]


@examples(1 / 8)
@given(
    stop=st.integers(0, 13), before=st.integers(0, 2), after=st.integers(0, 2), persistent=st.booleans(),
    sizes=st.tuples(*[st.integers(1, 4)] * 2), shards=st.integers(1, 3), others=st.integers(1, 3),
)  # fmt: skip
def test_a_loader_goes_on_with_other_workers_ranks_and_batches(
    folder, stop, before, after, sizes, shards, others, persistent
):
    """By the state of any rank, which have all taken as many batches."""

    def made(size, workers, rank, ranks):
        how = {"persistent_workers": persistent and workers > 0}
        return Loader(reader_of(folder, shard_id=rank, num_shards=ranks), batch_size=size, num_workers=workers, **how)

    def taken(loader, count):
        found = {}
        while count > 0 and (batches := list(itertools.islice(loader, min(count, len(loader))))):
            found.setdefault(loader.state_dict()["states"]["reader"]["epoch"], []).extend(
                x for batch in batches for x in batch["data"].ravel().tolist()
            )
            count -= len(batches)
        return found

    loaders = [made(sizes[0], before if rank == 0 else 0, rank, shards) for rank in range(shards)]
    given_before = [taken(loader, min(stop, 2 * len(loader))) for loader in loaders]
    states = [json.dumps(loader.state_dict()) for loader in loaders]
    rest = []
    for rank in range(others):
        loader = made(sizes[1], after if rank == 0 else 0, rank, others)
        loader.load_state_dict(json.loads(states[rank % shards]))
        rest.append((loader.epoch, [x for batch in loader for x in batch["data"].ravel().tolist()]))
    (epoch,) = {epoch for epoch, _ in rest}
    found = [x for each in given_before for x in each.get(epoch, [])] + [x for _, part in rest for x in part]
    assert sorted(found) == list(range(COUNT))


def pairs_of(folder, **arguments):
    """Readers of numbers, and of the numbers after them."""
    first = reader_of(folder, **arguments)
    return [first, File(file_root=folder, files=FILES[1:] + FILES[:1], order_of=first, max_batch_size=4)]


PARTNERS = RNG(9)


def paired(first, _, second, labels):
    """Both numbers of each pair, and the draws of both."""
    draws = [uniform(range=(0.0, 1.0), rng=PARTNERS.keyed(numbers)) for numbers in (first, second)]
    return {"data": first, "second": second, "draw": draws[0] - draws[1], "label": labels}


@examples(1 / 4)
@given(
    stop=st.integers(1, 13), sizes=st.tuples(*[st.integers(1, 4)] * 2),
    workers=st.sampled_from([(0, 0), (2, 0), (0, 2)]),
    shards=st.integers(1, 2), others=st.integers(1, 2), last=st.sampled_from(["partial", "pad"]),
)  # fmt: skip
def test_readers_side_by_side_stop_and_go_on_together(folder, stop, sizes, workers, shards, others, last):
    def made(k, rank, ranks):
        readers = pairs_of(folder, shard_id=rank, num_shards=ranks, last_batch=last)
        return Loader(readers, paired, batch_size=sizes[k], num_workers=workers[k] if rank == 0 else 0)

    def rows(batches):
        found = [x for batch in batches for x in zip(*(batch[n].ravel().tolist() for n in batch), strict=True)]
        assert all((b == (a + 1) % COUNT and draw == 0.0) for a, b, draw, _ in found)
        return [a for a, *_ in found]

    before = [made(0, rank, shards) for rank in range(shards)]
    stop = min(stop, len(before[0]))
    given_before = [x for loader in before for x in rows(itertools.islice(loader, stop))]
    after = [made(1, rank, others) for rank in range(others)]
    state = json.loads(json.dumps(before[-1].state_dict()))
    for loader in after:
        loader.load_state_dict(state)
    (epoch,) = {loader.epoch for loader in after}
    found = rows(batch for loader in after for batch in loader) + ([] if epoch else given_before)
    assert set(found) == set(range(COUNT))
    assert last == "pad" or len(found) == COUNT


def test_readers_side_by_side_must_be_paired_and_so_their_states(folder):
    first, second = pairs_of(folder)
    state = Loader([first, second]).state_dict()
    assert list(state["states"]) == ["reader", "reader_1"]
    for source, message in [
        ([first, reader_of(folder)], r"'source\[1\]' must be a reader with order_of= the first"),
        ([second, first], r"'source\[1\]' must be a reader with order_of= the first"),
        ([first, 3], "or a list of readers"),
        ([], "or a list of readers"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            Loader(source)
    with pytest.raises(StateMismatch, match="is of 2 readers, and this has a reader"):
        Loader(first).load_state_dict(state)
    with pytest.raises(StateMismatch, match="is of a reader, and this has 2 readers"):
        Loader([first, second]).load_state_dict(Loader(first).state_dict())
    other = File(file_root=folder, files=FILES[2:] + FILES[:2], order_of=first, max_batch_size=4)
    with pytest.raises(StateMismatch):
        Loader([first, other]).load_state_dict(state)


def test_an_error_of_one_of_two_readers_comes_at_its_batch(tmp_path):
    laid_out(tmp_path)
    loader = Loader(pairs_of(tmp_path), paired)
    names = [name for batch, _ in reader_of(tmp_path).next_epoch() for name in batch.origin.names]
    (tmp_path / FILES[(int(names[9]) + 1) % COUNT]).rename(tmp_path / "away")
    with pytest.raises(Exception, match=r"cannot be read|is not the file|No such file"):
        for _ in loader:
            state = loader.state_dict()
    (tmp_path / "away").rename(tmp_path / FILES[(int(names[9]) + 1) % COUNT])
    loader.load_state_dict(state)
    assert [x for batch in loader for x in batch["data"].ravel().tolist()] == [int(name) for name in names[8:]]


@pytest.mark.parametrize("workers", [0, 2])
def test_partners_are_read_in_the_step_of_any_worker(folder, workers):
    reader = reader_of(folder)

    def step(numbers, _):
        others, _ = reader.partners(PARTNERS.keyed(numbers)["partners"])
        return {"data": numbers, "other": others}

    other = reader_of(folder)
    expected = []
    for first, _ in other.next_epoch(3):
        theirs, _ = other.partners(PARTNERS.keyed(first)["partners"])
        expected += zip(first.numpy().ravel().tolist(), theirs.numpy().ravel().tolist(), strict=True)
    loader, found = Loader(reader, step, num_workers=workers), []
    for batch in itertools.islice(loader, 2):
        found += zip(batch["data"].ravel().tolist(), batch["other"].ravel().tolist(), strict=True)
    reader = reader_of(folder)
    again = Loader(reader, step, batch_size=2, num_workers=2 - workers)
    again.load_state_dict(loader.state_dict())
    for batch in again:
        found += zip(batch["data"].ravel().tolist(), batch["other"].ravel().tolist(), strict=True)
    assert found == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_before_the_first_batch_is_that_of_the_epoch_that_begins(folder, workers):
    whole = Loader(reader_of(folder))
    epochs = [listed(whole) for _ in range(3)]
    made = Loader(reader_of(folder), num_workers=workers)
    assert listed(itertools.islice(made, 2)) == epochs[0][:2]
    batches = iter(made)
    time.sleep(0.3 * (workers > 0))  # workers are ahead
    other = Loader(reader_of(folder))
    other.load_state_dict(made.state_dict())
    assert listed(other) == epochs[1] == listed(batches)
    other.load_state_dict(made.state_dict())
    assert listed(other) == epochs[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_two_loaders_take_turns(folder, workers):
    make = functools.partial(Loader, num_workers=workers, persistent_workers=workers > 0)
    expected = [listed(Loader(reader_of(folder))), listed(Loader(reader_of(folder), batch_size=2))]
    train, check = make(reader_of(folder)), make(reader_of(folder), batch_size=2)
    for _ in range(2):  # the order of the second epoch is another
        trained, checked = [], []
        for batch in train:
            trained.append(batch)
            checked += list(itertools.islice(check, 3))
            state = train.state_dict()
            assert state == batch.state
        assert len(trained) == len(expected[0])
        assert len(checked) == 3 * len(trained)
    again = Loader(reader_of(folder), batch_size=2)
    again.load_state_dict(check.state_dict())
    assert again.epoch == 11  # each turn has begun one


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_draws_nothing_of_the_trainers_random_numbers(folder, workers):
    """Else dropout would differ in a run that begins an epoch in its midst."""
    before = torch.get_rng_state()
    made = Loader(reader_of(folder), num_workers=workers)
    for _ in itertools.islice(made, 2):
        pass
    assert torch.equal(torch.get_rng_state(), before)


def failing(data, labels):
    if 7 in data.numpy():
        raise RuntimeError("a bad sample")
    return data, labels


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_error_comes_at_its_batch(folder, workers, persistent):
    expected = listed(Loader(reader_of(folder)))
    bad = next(n for n, batch in enumerate(expected) if [7] in batch["data"])
    made = Loader(reader_of(folder), failing, num_workers=workers, persistent_workers=persistent and workers > 0)
    found = []
    with pytest.raises(RuntimeError, match="a bad sample"):
        for batch in made:
            found.append(batch)
    assert listed(found) == expected[:bad]
    if found:
        assert made.state_dict() == found[-1].state
    mended = Loader(reader_of(folder))
    mended.load_state_dict(made.state_dict())
    assert listed(mended) == expected[bad:]


def unreadable(data, labels):
    if 7 in data.numpy():
        raise ndd.errors.TruncatedImage("decoders.image", [ndd.errors.Failure(2, "it ends", "JPEG", "a.jpg")], 4)
    if 11 in data.numpy():
        raise ArgumentError("crop", "size", "a number", "None")
    return data, labels


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_workers_have_their_class_and_the_next_loop_is_the_next_epoch(folder, workers):
    epochs = [listed(epoch) for epoch in itertools.repeat(Loader(reader_of(folder)), 4)]
    made = Loader(reader_of(folder), unreadable, num_workers=workers)
    gc.disable()
    try:
        for number, epoch in enumerate(epochs):
            assert made.epoch == number
            bad = next(n for n, batch in enumerate(epoch) if [7] in batch["data"] or [11] in batch["data"])
            found = []
            kind = ndd.DataError if [7] in epoch[bad]["data"] else ArgumentError
            with pytest.raises(kind) as caught:
                for batch in made:
                    found.append(batch)
            assert listed(found) == epoch[:bad]
            assert multiprocessing.active_children() == []
            mended = Loader(reader_of(folder))
            mended.load_state_dict(made.state_dict())
            assert listed(mended) == epoch[bad:]
            if kind is ndd.DataError:
                assert type(caught.value) is ndd.errors.TruncatedImage
                assert "sample 2 (a.jpg): JPEG: it ends" in str(caught.value)
                assert len(caught.value.failures) == (not workers)
            assert ("Traceback" in str(caught.value)) == (workers > 0)
    finally:
        gc.enable()
    state = made.state_dict()
    for _ in range(2):  # the batch comes again
        made.load_state_dict(state)
        with pytest.raises(kind):
            list(made)
        assert made.state_dict() == state


def test_the_example_of_the_page_on_damaged_data(tmp_path, monkeypatch, capfd):
    page = (Path(__file__).parent.parent / "docs" / "damaged.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "from dynamic.pytorch" in block]
    monkeypatch.chdir(tmp_path)
    labels: list[int] = []
    installed.make_photos(tmp_path / "photos")
    photos = sorted((tmp_path / "photos").rglob("*.jpg"))
    photos[5].write_bytes(photos[5].read_bytes()[:300])
    names = {"train": lambda data, label: labels.extend(label.ravel().tolist())}
    exec(compile(code, "docs/damaged.md", "exec"), names)
    classes = sorted(path.name for path in (tmp_path / "photos").iterdir())
    expected = [classes.index(path.parent.name) for path in photos if path != photos[5]]
    assert sorted(labels) == sorted(expected)
    assert photos[5].name in capfd.readouterr().out


def test_a_data_set_whose_first_batch_fails_is_at_its_place(folder):
    dataset = Dataset(reader_of(folder), step=lambda *_: 1 / 0)
    for epoch in range(2):
        with pytest.raises(ZeroDivisionError):
            next(iter(dataset))
        other = Dataset(reader_of(folder))
        other.load_state_dict(dataset.state_dict())
        assert (other.epoch, dataset.epoch) == (epoch, epoch + 1)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loop_that_is_left_leaves_no_worker(folder, persistent):
    before = set(multiprocessing.active_children())
    for error in (None, RuntimeError, KeyboardInterrupt):
        made = Loader(reader_of(folder), num_workers=2, persistent_workers=persistent)
        with pytest.raises(error) if error else contextlib.nullcontext():
            for _ in made:
                assert len(set(multiprocessing.active_children()) - before) == 2
                if error is None:
                    break
                raise error
        del made
        gc.collect()
        assert set(multiprocessing.active_children()) <= before  # those of an earlier test may have ended


def test_an_interrupt_of_all_processes_leaves_none(folder):
    """As of a terminal, while the trainer waits for a slow step."""
    code = f"""
import multiprocessing, pathlib, time
from counting import reader_of
from dynamic.pytorch import Loader

def step(data, labels):
    time.sleep(0.2)
    return data, labels

for _ in Loader(reader_of(pathlib.Path({str(folder)!r})), step, batch_size=1, num_workers=2):
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(command, env=environment, start_new_session=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        workers = [int(word) for word in process.stdout.readline().split()]
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
    assert len(workers) == 2
    assert "KeyboardInterrupt" in told
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_batches_are_pinned_with_their_state(folder):
    """Without a GPU torch pins nothing, but takes the same way."""
    batch = Loader(reader_of(folder)).__iter__().__next__()
    pinned = torch.utils.data._utils.pin_memory.pin_memory
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self.clone())
        copy = pinned(batch)
    assert (type(copy), listed([copy]), copy.state, copy.ends) == (
        type(batch),
        listed([batch]),
        batch.state,
        batch.ends,
    )
    assert copy["data"].data_ptr() != batch["data"].data_ptr()


def test_lists_are_pinned(folder):
    batch = next(iter(Loader(reader_of(folder), spotted, batch_size=4, ragged=["boxes", "grown"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self.clone())
        copy = torch.utils.data._utils.pin_memory.pin_memory(batch)
    assert copy.state == batch.state
    for pinned, sample in zip(copy["grown"], batch["grown"], strict=True):
        assert torch.equal(pinned, sample)
        assert not len(sample) or pinned.data_ptr() != sample.data_ptr()


def test_a_data_set_that_was_dealt_out_already_is_not_dealt_out_again(folder):
    """By Accelerate, which says what loader is iterated over."""
    data_loader = pytest.importorskip("accelerate.data_loader", reason="accelerate is not installed")
    pytest.importorskip("accelerate").Accelerator(cpu=True)

    def dealt(source, dispatch):
        loader = torch.utils.data.DataLoader(Dataset(source, NAMES if callable(source) else NAMES[:2]), batch_size=None)
        how = {"num_processes": 2, "process_index": 0, "put_on_device": True, "device": torch.device("cpu")}
        return data_loader.prepare_data_loader(loader, dispatch_batches=dispatch, **how)

    assert sum(len(batch["data"]) for batch in dealt(pipelines(folder), True)) >= COUNT
    for dispatch, kind, shards in [
        (True, "DataLoaderDispatcher", 2), (False, "IterableDatasetShard", 2), (False, "IterableDatasetShard", 1)
    ]:  # fmt: skip
        for source in (pipelines(folder, num_shards=shards), reader_of(folder, num_shards=shards)):
            with pytest.raises(ArgumentError, match=rf"(?s){shards} shards, which a {kind}.*shard='torch'"):
                next(iter(dealt(source, dispatch)))


@pytest.mark.parametrize("kind", ["reader", "source"])
@pytest.mark.parametrize("workers", [0, 2])
def test_accelerate_keeps_a_loader_and_saves_its_state(folder, tmp_path, kind, workers):
    Accelerator = pytest.importorskip("accelerate", reason="accelerate is not installed").Accelerator
    make, output_map = KINDS[kind]

    def prepared():
        accelerator = Accelerator(cpu=True)
        loader = Loader(make(folder), output_map=output_map, num_workers=workers)
        assert accelerator.prepare(loader) is loader
        assert isinstance(loader, torch.utils.data.DataLoader)
        return accelerator, loader

    whole = Loader(make(folder), output_map=output_map)
    epochs = [listed(whole) for _ in range(2)]
    accelerator, loader = prepared()
    taken = []
    for number, batch in enumerate(loader):
        taken += listed([batch])
        assert accelerator.gradient_state.end_of_dataloader == (number == len(epochs[0]) - 1)
        accelerator.save_state(tmp_path / str(number), safe_serialization=False)
    assert not accelerator.gradient_state.in_dataloader
    assert taken == epochs[0]
    for number in range(len(epochs[0])):
        accelerator, loader = prepared()
        accelerator.load_state(tmp_path / str(number))
        rest = listed(loader)
        if kind == "source" and number == len(epochs[0]) - 1:
            assert rest == []  # nobody knew that it had ended
            rest = listed(loader)
        assert [*rest, *(listed(loader) if number < len(epochs[0]) - 1 else [])] == [
            *epochs[0][number + 1 :], *epochs[1]
        ]  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_not_passed_over_twice(folder, workers):
    Accelerator = pytest.importorskip("accelerate", reason="accelerate is not installed").Accelerator
    accelerator = Accelerator(cpu=True)
    whole = Loader(reader_of(folder))
    epochs = [listed(whole) for _ in range(2)]
    loader = accelerator.prepare(Loader(reader_of(folder), num_workers=workers))
    skipping = accelerator.skip_first_batches(loader, 2)  # as the Trainer of transformers does
    skipping.set_epoch(1)
    batches = iter(skipping)
    assert listed([next(batches)]) == epochs[1][2:3]
    with pytest.raises(RuntimeError, match="another loader takes the batches of this data set"):
        loader.state_dict()  # which nobody can know here
    assert listed(batches) == epochs[1][3:]
    loader.set_epoch(0)
    (batch,) = itertools.islice(loader, 1)
    loader.load_state_dict(batch.state)
    with pytest.raises((ArgumentError, RuntimeError), match="'num_batches' must be 0 after a state .* loaded; got 1"):
        next(iter(accelerator.skip_first_batches(loader, 1)))
    assert listed(loader) == epochs[0][1:]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["pipeline", "reader"])
def test_torchdatas_loader_goes_on(folder, workers, kind):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    make, output_map = KINDS[kind]

    def made():
        return torchdata.StatefulDataLoader(Dataset(make(folder), output_map), batch_size=None, num_workers=workers)

    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(3)]
    for stop in range(8):
        first, epoch = made(), stop // 6
        if epoch:
            for _ in zip(range(6), first, strict=False):  # and no more: nobody asks for a seventh
                pass
        if stop % 6:
            for _, batch in zip(range(stop % 6), first, strict=False):
                assert listed([batch])[0] in epochs[epoch]
        state = first.state_dict()
        resumed = made()
        resumed.load_state_dict(state)
        rest = [epochs[epoch][stop % 6 :], epochs[epoch + 1]]
        if stop == 6 and workers:  # whether that loader has said so, its workers are not told
            rest = [[], epochs[1]]
        assert [listed(resumed) for _ in range(2)] == rest, stop
    finished = made()
    assert listed(finished) == epochs[0]
    resumed = made()
    resumed.load_state_dict(finished.state_dict())
    assert listed(resumed) == epochs[1]
    other = torchdata.StatefulDataLoader(Dataset(make(folder), output_map), batch_size=None, num_workers=3)
    other.load_state_dict(state)
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        next(iter(other))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["pipeline", "reader"])
def test_torchdatas_loader_that_has_ended_goes_on_with_the_next_epoch(folder, kind, persistent, monkeypatch):
    """It asks for the next epoch at once, whether or not its workers have found that nothing is left of this one."""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    make, output_map = KINDS[kind]
    how = {"batch_size": None, "num_workers": 2, "persistent_workers": persistent}
    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(3)]
    follow = Shared.follow

    def later(*arguments):
        time.sleep(0.3)
        follow(*arguments)

    monkeypatch.setattr(Shared, "follow", later)  # in the workers, which are forked
    finished = torchdata.StatefulDataLoader(Dataset(make(folder), output_map), **how)
    assert listed(finished) == epochs[0]
    resumed = torchdata.StatefulDataLoader(Dataset(make(folder), output_map), **how)
    resumed.load_state_dict(finished.state_dict())
    assert [listed(resumed) for _ in range(2)] == epochs[1:]


def test_what_workers_of_an_earlier_epoch_still_say_counts_for_nothing(folder, monkeypatch):
    """A loader of torchdata's begins an epoch while the workers of the one before are still there."""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    make, output_map = KINDS["reader"]
    dataset = Dataset(make(folder), output_map)
    epochs = [listed(dataset) for _ in range(3)]
    follow = Shared.follow

    def later(*arguments):
        time.sleep(0.5)
        follow(*arguments)

    monkeypatch.setattr(Shared, "follow", later)
    loader = torchdata.StatefulDataLoader(Dataset(make(folder), output_map), batch_size=None, num_workers=2)
    assert [batch["data"].tolist() for _, batch in zip(range(5), loader, strict=False)]
    for batch in loader:  # by now the others have come to their end
        assert listed([batch]) == epochs[1][:1]
        time.sleep(1)
        break
    assert listed(loader) == epochs[2]


@pytest.mark.parametrize("kind", ["pipeline", "reader", "source"])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_loop_that_is_left_goes_on_by_the_state_of_its_batch(folder, kind, persistent):
    """However far the workers were ahead, in the same loader too."""
    make, output_map = KINDS[kind]
    once = Dataset(make(folder), output_map)
    epochs = [listed(once) for _ in range(3)]
    for stop in (1, len(epochs[0]) - 1, len(epochs[0])):
        dataset = Dataset(make(folder), output_map)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
        taken = []
        for batch in loader:
            taken.append(batch)
            if len(taken) == stop:
                time.sleep(0.1)
                break
        dataset.load_state_dict(taken[-1].state)
        rest = [] if stop == len(epochs[0]) and kind != "source" else listed(loader)
        assert [listed(taken) + rest, listed(loader)] == epochs[:2]


@pytest.mark.parametrize("kind", ["pipeline", "reader", "source"])
@pytest.mark.parametrize("ahead", [0, 2])
def test_torchdatas_nodes_go_on(folder, kind, ahead):
    nodes = pytest.importorskip("torchdata.nodes", reason="torchdata is not installed")
    make, output_map = KINDS[kind]

    def made(**arguments):
        node = nodes.IterableWrapper(Dataset(make(folder), output_map))
        return nodes.Loader(nodes.Prefetcher(node, ahead) if ahead else node, **arguments)

    whole = Dataset(make(folder), output_map)
    epochs = [listed(whole) for _ in range(3)]
    length = len(epochs[0])
    once = made()
    assert [listed(once) for _ in range(2)] == epochs[:2]
    for stop in range(2 * length):
        first, epoch = made(), stop // length
        if epoch:
            assert listed(first) == epochs[0]
        found = listed(itertools.islice(first, stop - length * epoch)) if stop % length else []
        state = json.loads(json.dumps(first.state_dict()))
        resumed = made()
        resumed.load_state_dict(state)
        rest = [listed(resumed) for _ in range(2)]
        assert [found + rest[0], rest[1]] == epochs[epoch : epoch + 2], stop
    found, state = [], None
    for stop in (length, 1, length - 1, 2, 1):  # from the end of an epoch on too
        resumed = made(**{"restart_on_stop_iteration": False} if kind == "source" else {})
        if state is not None:
            resumed.load_state_dict(state)
        batches = itertools.chain.from_iterable(resumed for _ in range(2))
        found += listed(itertools.islice(batches, stop))
        state = json.loads(json.dumps(resumed.state_dict()))
    assert found == [*epochs[0], *epochs[1], *epochs[2]][: len(found)]
    assert len(found) == 2 * length + 3


def test_importing_it_takes_no_torch():
    code = "import sys, dynamic.pytorch; assert 'torch' not in sys.modules; dynamic.pytorch.GenericIterator"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no 'Datset'"):
        from dynamic import pytorch

        pytorch.Datset


def test_the_examples_of_the_page(folder, tmp_path):
    page = (ROOT / "docs" / "trainers.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    (iterator,) = [block for block in blocks if "import ClassificationIterator" in block]
    (ours,) = [block for block in blocks if "from dynamic.pytorch import Loader" in block]
    ours = ours.replace('file_root="photos"', "file_root=root").replace("pin_memory=True", "pin_memory=False")
    images = tmp_path / "images"
    for k in range(COUNT):
        (images / f"{k % 2}").mkdir(parents=True, exist_ok=True)
        picture = np.full((8, 8, 3), 9 * k, np.uint8)
        (images / f"{k % 2}" / f"{k:02}.ppm").write_bytes(b"P6 8 8 255 " + picture.tobytes())

    @pipeline_def(batch_size=4, num_threads=1, seed=12)
    def augmented(folder):
        return fn.readers.file(file_root=folder, files=FILES, random_shuffle=True,
                               name="photos")  # fmt: skip

    class Stop(Exception):
        pass

    def run(code, stop, **names):
        seen, names = [], {"augmented": augmented, "root": images if code is ours else folder, **names}
        code = re.sub(r"^(checkpoint|state) = None.*\n", "", code, flags=re.M)  # or that of a run that was stopped

        def train(data, labels):
            if len(seen) == stop:
                raise Stop
            seen.append(data.tolist())

        with contextlib.suppress(Stop):
            names["train"] = train
            exec(code, names)
        return seen, names

    for code, name, length in ((iterator, "checkpoint", 6), (ours, "state", 3)):
        whole, _ = run(code, 99, **{name: None})
        assert len(whole) == 3 * length
        for stop in (2, length, 3 * length - 1, 3 * length):  # at the end of an epoch, and of the last one, too
            first, names = run(code, stop, **{name: None})
            rest, _ = run(code, 99, **{name: names[name]})
            assert first + rest == whole


@pytest.mark.parametrize("of_pipeline", [False, True])
def test_a_data_set_of_another_order_than_on_other_ranks_is_refused(folder, monkeypatch, of_pipeline):
    """Also where only workers read, which cannot ask. Ranks share a store; here, one process is both."""
    store = torch.distributed.HashStore()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", lambda: store)

    def made(rank, seed):
        for known in (_ranks._readers, _ranks._shards, _ranks._counts):
            known.clear()
        arguments = {"file_root": folder, "files": FILES, "random_shuffle": True, "seed": seed}
        arguments |= {"shard_id": rank, "num_shards": 2}
        if not of_pipeline:
            return Dataset(File(**arguments), batch_size=4)

        @pipeline_def(batch_size=4, num_threads=1, seed=12 + rank)
        def read():
            return fn.readers.file(name="reader", **arguments)

        return Dataset(read)

    assert [len(made(rank, 3)) for rank in range(2)] == [math.ceil(math.ceil(COUNT / 2) / 4)] * 2
    with pytest.raises(ArgumentError, match="'seed' must be the same on all 2 shards"):
        made(1, 4)


def test_derived_iterators_find_what_those_of_dali_have(folder):
    """Classes in public scripts count batches by the attributes of DALI's iterators."""

    class Counted(GenericIterator):
        def __len__(self):
            size = self._size_no_pad // self._shards_num if self._last_batch_policy is DROP else self.size
            size = size if self._reader_name else size // self._num_gpus
            return size // self.batch_size if self._last_batch_policy is DROP else math.ceil(size / self.batch_size)

        def __next__(self):
            [batch] = super().__next__()
            return batch["data"]

    for policy in LastBatchPolicy:
        pipes = [numbers(folder, shard_id=1, num_shards=2)]
        iterator = Counted(pipes, NAMES, reader_name="reader", last_batch_policy=policy, auto_reset=True)
        assert [len(iterator), iterator._pipes] == [GenericIterator.__len__(iterator), pipes]
        assert len([*iterator]) in (len(iterator), len(iterator) - 1)  # the last batch may be of the other shard alone
        sized = Counted([counted()], ["data"], size=10, last_batch_policy=policy)
        assert len(sized) == GenericIterator.__len__(sized)


def test_names_of_dali_are_those_of_here_or_say_what_there_is():
    import dynamic.pytorch as ours

    for name in ("GenericIterator", "ClassificationIterator", "RaggedIterator"):
        assert getattr(ours, f"DALI{name}") is getattr(ours, name)
    for name in ("DALIProxy", "experimental"):
        with pytest.raises(AttributeError, match=rf"dynamic\.pytorch has no '{name}'\. [A-Z].*\.$"):
            getattr(ours, name)


def test_an_output_is_copied_into_a_tensor_that_is_there():
    from dynamic import as_batch, as_tensor
    from dynamic.pytorch import feed_ndarray

    for kind in ("uint8", "int64", "float16", "float32", "bool"):
        array = np.arange(12).reshape(3, 4).astype(kind)
        for data in (as_tensor(array), as_batch(list(array))):
            target = torch.zeros((3, 4), dtype=getattr(torch, kind))
            assert feed_ndarray(data, target, cuda_stream=None) is target
            assert target.tolist() == array.tolist()
    for wrong in (torch.zeros(3, 4, dtype=torch.int32), torch.zeros(4, 3), np.zeros((3, 4), np.float32)):
        with pytest.raises(ArgumentError, match=r"'arr' must be a torch.float32 tensor of shape \(3, 4\)"):
            feed_ndarray(as_tensor(np.zeros((3, 4), np.float32)), wrong)
    with pytest.raises(ArgumentError, match="a Tensor or a Batch"):
        feed_ndarray([1], torch.zeros(1))


def _is_even(name, label):
    assert name == FILES[label]
    return label % 2 == 0


@pytest.mark.parametrize("choice", [
    {"where": _is_even}, {"where": lambda name, label: label > 2, "weights": lambda name, label: label},
    {"weights": dict.fromkeys(range(COUNT), 1.0) | {5: 9.0}, "num_samples": 60},
    {"weights": np.arange(COUNT), "replacement": False, "num_samples": 9},
])  # fmt: skip
def test_workers_give_selected_and_drawn_samples(folder, choice):
    """The batches of one process, with a stop after each, in workers that are forked and spawned."""

    def batches(given):
        return [(batch["data"].tolist(), batch["label"].tolist()) for batch in given]

    for epoch in range(2):
        reader = reader_of(folder, **choice)
        reader.seek(0, epoch)
        expected = [(data.tolist(), labels.tolist()) for data, labels in reader.next_epoch()]
        for workers in (0, 1, 3):
            given = iter(loader(Dataset(reader_of(folder, **choice)), workers))
            if epoch:
                list(given)
                continue
            found = [next(given) for _ in range(2)]
            assert batches([*found, *given]) == expected
            later = Dataset(reader_of(folder, **choice))
            later.load_state_dict(found[-1].state)
            assert batches([*found, *loader(later, 3 - workers)]) == expected
    spawned = loader(Dataset(reader_of(folder, **choice)), 1, multiprocessing_context="spawn")
    assert batches(spawned) == batches(loader(Dataset(reader_of(folder, **choice)), 0))


def test_pipelines_with_outputs_of_unequal_numbers_of_samples_are_refused(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(b"no image")

    @pipeline_def(batch_size=2)
    def unequal():
        data, labels = fn.readers.file(name="r", file_root=str(tmp_path), files=["a", "b"])
        return fn.decoders.image(data, on_error="skip"), labels

    with pytest.raises(ArgumentError, match=r"GenericIterator\(\) .* 0 of 'data', 2 of 'label'\. Leave the same"):
        next(GenericIterator(unequal(), NAMES[:2], reader_name="r"))


def test_an_iterator_whose_reader_something_else_moved_says_so(folder):
    made = Loader(reader_of(folder), lambda numbers, _: {"numbers": numbers}, batch_size=2)
    outer = iter(made)
    next(outer)
    next(iter(made))  # as to log a batch
    with pytest.raises(RuntimeError, match=r"pytorch\.Loader: something else has moved its reader .* of its own"):
        next(outer)
    reader = reader_of(folder)
    first, second = (Loader(reader, lambda numbers, _: {"numbers": numbers}, batch_size=2) for _ in range(2))
    with pytest.raises(RuntimeError, match="another loader, or a loop over the reader"):
        list(zip(first, second, strict=True))
    rest = Loader(reader_of(folder), lambda numbers, _: {"numbers": numbers}, batch_size=2)
    for _ in rest:
        break
    assert len(list(rest)) == len(rest)  # a loop that was left is not in the way
