"""Rows: what stands beside a sample of the first reader stays beside it, whatever the batch size and the shards."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import ArgumentError, OrderWarning, StateMismatch, checkpoint
from dynamic.checkpoint._file import Entry, encoded
from dynamic.errors import DataError
from dynamic.pipeline import fn, pipeline_def

EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for i in range(9):
        (root / str(i)).write_bytes(bytes([i]))
        (root / f"mask of {i}").write_bytes(bytes([i]))
    return root


def files(folder, name, count, bad=(), **arguments):
    """The labels of a reader, which are the rows. Names tell nothing of which samples belong together."""
    names = [f"gone{i}" if i in bad else f"mask of {i}" if name == "other" else str(i) for i in range(count)]
    return fn.readers.file(file_root=folder, files=names, name=name, **arguments)[1]


def ranks(folder, counts, shards, batch_size, text=None, *, first=None, second=None):
    """A pipeline for each shard, with two readers and draws."""

    @pipeline_def(batch_size=batch_size, seed=5, prefetch_queue_depth=0)
    def rows(shard):
        shard = {"shard_id": shard, "num_shards": shards, "random_shuffle": True}
        one = files(folder, "one", counts[0], **shard, **(first or {}))
        other = files(folder, "other", counts[1], **shard, **(second or {}))
        return one, other, fn.random.uniform(range=(0.0, 1000.0))

    return [rows(shard, checkpoint=text) for shard in range(shards)]


def given_rows(outputs):
    """The rows of a batch: the epoch, and a number of each output."""
    return [
        (outputs[0].origin.epoch, *map(int, row)) for row in zip(*(np.ravel(x.tolist()) for x in outputs), strict=True)
    ]


def steps(pipes, epochs=EPOCHS):
    """What all ranks together give in each step, to the end of some epochs."""
    while pipes[0]._course.epoch < epochs:
        for batches in itertools.zip_longest(*(pipe.next_epoch() for pipe in pipes)):
            yield [row for batch in batches if batch is not None for row in given_rows(batch)]
        assert len({pipe._course.epoch for pipe in pipes}) == 1


def states(pipe):
    return {name: entry["state"] for name, entry in json.loads(pipe.checkpoint())["states"].items()}


COUNTS = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(counts=COUNTS, shards=st.integers(1, 4), size=st.integers(1, 4), stop=st.integers(1, 20), rank=st.integers(0, 3),
       others=st.integers(1, 4), other_size=st.integers(1, 4))  # fmt: skip
def test_the_checkpoint_of_every_rank_is_good_for_any_number_of_them(
    folder, counts, shards, size, stop, rank, others, other_size
):
    """Of a second reader too: every row that is left comes once, with the same partner."""
    whole = sorted(row for step in steps(ranks(folder, counts, 1, 1)) for row in step)
    pipes = ranks(folder, counts, shards, size)
    found = [row for step in itertools.islice(steps(pipes), stop) for row in step]
    places = [[state["epoch"] * count + state["position"] for state, count in zip(
        (found[name] for name in ("one", "other")), counts, strict=True)] for found in map(states, pipes)]  # fmt: skip
    assert all(place == [place[0]] * 2 for place in places)  # the second is wherever the first is
    text = pipes[rank % shards].checkpoint()
    found += [row for step in steps(ranks(folder, counts, others, other_size, text)) for row in step]
    assert sorted(found) == whole


@given(counts=COUNTS, shards=st.integers(1, 4), size=st.integers(1, 4),
       policy=st.sampled_from(["partial", "pad", "drop"]))  # fmt: skip
def test_rows_stay_together_however_epochs_end(folder, counts, shards, size, policy):
    """Also with `run`, which goes from epoch to epoch by itself, and what the second says of its own last batch."""
    if policy == "drop" and counts[0] < shards * size:
        return
    whole = {row for step in steps(ranks(folder, counts, 1, 1)) for row in step}
    found = []
    for pipe in ranks(folder, counts, shards, size, first={"last_batch": policy}, second={"pad_last_batch": True}):
        while (batch := given_rows(pipe.run())) and batch[0][0] < EPOCHS:
            found += batch
    assert set(found) <= whole
    assert policy == "drop" or set(found) == whole
    assert policy == "pad" or len(found) == len(set(found))


@given(count=st.integers(4, 9), shards=st.integers(1, 4), size=st.integers(1, 4), stick=st.booleans())
def test_an_epoch_of_the_second_is_proved_to_be_whole(folder, count, shards, size, stick):
    stuck = {"stick_to_shard": stick}
    pipes = ranks(folder, (count, count), shards, size, first=stuck, second=stuck)
    for epoch in range(1, EPOCHS):
        given_ = [row[1:] for step in steps(pipes, epoch) for row in step]
        assert all(one == other for one, other, _ in given_)  # of one order, so an image stays with its mask
        found = [states(pipe)["other"] for pipe in pipes]
        assert checkpoint.verify_epoch(found).samples == count


@given(bad=st.sets(st.integers(0, 8)), shards=st.integers(1, 3), size=st.integers(1, 4), count=st.integers(1, 9))
def test_what_the_first_leaves_out_is_left_out_beside_it_too(folder, bad, shards, size, count):
    """Down to batches of no samples; the second is at the same place on all ranks all the same."""
    skipping = {"on_error": "skip", "files": [f"gone{i}" if i in bad else str(i) for i in range(9)]}

    def pipes(shards, size):
        @pipeline_def(batch_size=size, seed=5, prefetch_queue_depth=0)
        def rows(shard):
            shard = {"shard_id": shard, "num_shards": shards, "random_shuffle": True}
            one = fn.readers.file(file_root=folder, name="one", **skipping, **shard)[1]
            other = files(folder, "other", count, **shard)
            drawn = fn.random.uniform(range=(0.0, 1000.0))
            counted = fn.external_source(lambda info: info.idx_in_epoch, batch=False)
            return one, other, drawn, counted if shards == 1 else fn.constant(idata=0, shape=[])

        return [rows(shard) for shard in range(shards)]

    whole = [row for step in steps(pipes(1, 1)) for row in step]
    assert len(whole) == EPOCHS * (9 - len(bad))
    every = pipes(shards, size)
    found = [row for step in steps(every) for row in step]
    assert sorted(row[:4] for row in found) == sorted(row[:4] for row in whole)
    assert shards > 1 or found == whole
    places = {(state["epoch"], state["position"]) for state in (states(pipe)["other"] for pipe in every)}
    assert len(places) == 1


@given(shards=st.integers(1, 3), iterable=st.booleans(),
       sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4))  # fmt: skip
def test_a_source_of_samples_makes_none_to_fill_up_a_batch(folder, shards, sizes, iterable):
    """So its place, too, is the same for any batch size; the last sample of it fills up beside that of the reader."""
    sources = [itertools.count() for _ in range(shards)]

    @pipeline_def(seed=5, prefetch_queue_depth=0)
    def padded(shard):
        label = files(folder, "one", 9, shard_id=shard, num_shards=shards, pad_last_batch=True)
        return label, fn.external_source(sources[shard] if iterable else lambda info: info.idx_in_epoch, batch=False)

    pipes = [padded(shard, batch_size=sizes[0][0]) for shard in range(shards)]
    for size, stop in [*sizes, (2, 99)]:
        if not iterable:
            texts = [pipe.checkpoint() for pipe in pipes]
            pipes = [padded(shard, batch_size=size, checkpoint=texts[shard]) for shard in range(shards)]
        while stop and pipes[0]._course.epoch < EPOCHS:
            for shard, pipe in enumerate(pipes):
                for (label,), number in zip(*(output.tolist() for output in pipe.run()), strict=True):
                    *before, share = [range((shard + e) % shards, 9, shards) for e in range(pipe._course.epoch + 1)]
                    assert label not in share or number == sum(map(len, before)) + share.index(label)
            stop -= 1


def test_a_second_reader_replaces_what_it_cannot_read(folder):
    @pipeline_def(batch_size=2, prefetch_queue_depth=0)
    def two(bad):
        return files(folder, "one", 5), files(folder, "other", 4, bad, on_error="replace")

    for bad, expected in (((), [0, 1, 2, 3, 0]), ((0, 2), [1, 1, 3, 3, 1])):
        assert [row[2] for step in steps([two(bad)], 1) for row in step] == expected
    with pytest.raises(DataError, match="gone3"):
        two(range(4)).run()


def test_a_reader_that_is_not_called_in_a_run_goes_on_with_the_first(folder):
    """So it is at the same place on every rank, whatever plain Python finds there."""

    @pipeline_def(batch_size=1, prefetch_queue_depth=0)
    def sometimes():
        one = files(folder, "one", 9)
        if one.tolist()[0][0] not in (2, 3, 5):
            return one, files(folder, "other", 7)
        return one, one

    assert [row[1:] for step in steps([sometimes()], 1) for row in step] == [
        (i, i if i in (2, 3, 5) else i % 7) for i in range(9)
    ]


@given(counts=st.tuples(st.integers(1, 5), st.integers(1, 9)), shards=st.integers(1, 3), stop=st.integers(0, 9),
       rank=st.integers(0, 2))  # fmt: skip
def test_a_reader_beside_a_source_is_at_one_place_on_all_ranks(folder, counts, shards, stop, rank):
    """A source of one's own gives as many samples on each of them."""

    def pipes(text=None):
        @pipeline_def(batch_size=2, seed=5, prefetch_queue_depth=0)
        def rows(shard):
            def source(info):
                if info.idx_in_epoch >= counts[0]:
                    raise StopIteration
                return info.idx_in_epoch

            shard = {"shard_id": shard, "num_shards": shards, "random_shuffle": True}
            return fn.external_source(source, batch=False), files(folder, "other", counts[1], **shard)

        return [rows(shard, checkpoint=text) for shard in range(shards)]

    def numbers(every, runs):
        """What the reader gives on all ranks together, run by run; a source that ends is asked again."""
        found = []
        for _ in range(runs):
            for pipe in every:
                try:
                    outputs = pipe.run()
                except StopIteration:
                    pipe.reset()
                    outputs = pipe.run()
                found += np.ravel(outputs[1].tolist()).tolist()
        return found

    every = pipes()
    numbers(every, stop)
    text = every[rank % shards].checkpoint()
    assert numbers(pipes(text), 9) == numbers(every, 9)


SEEDS = st.none() | st.integers(0, 99)


@given(seeds=st.tuples(SEEDS, SEEDS, SEEDS), own=SEEDS, count=st.integers(3, 9), size=st.integers(1, 4),
       stick=st.booleans())  # fmt: skip
def test_the_seeds_of_pipelines_decide_no_order(folder, seeds, own, count, size, stick):
    """So ranks with seeds of their own share one, and images keep their masks."""

    @pipeline_def(batch_size=size, prefetch_queue_depth=0)
    def rows(shard):
        arguments = {} if own is None else {"seed": own}
        arguments |= {"shard_id": shard, "num_shards": 3, "random_shuffle": True, "stick_to_shard": stick}
        return files(folder, "one", count, **arguments), files(folder, "other", count, **arguments)

    found = [row for step in steps([rows(shard, seed=seed) for shard, seed in enumerate(seeds)]) for row in step]
    assert sorted(found) == [(epoch, row, row) for epoch in range(EPOCHS) for row in range(count)]
    assert count < 9 or [row for _, row, _ in found] != [*range(count)] * EPOCHS


def test_readers_are_paired_where_they_share_a_shuffle(folder):
    def pairs(first, second, counts=(9, 9)):
        @pipeline_def(batch_size=9, prefetch_queue_depth=0)
        def two():
            return files(folder, "one", counts[0], **first), files(folder, "other", counts[1], **second)

        return [row[1] == row[2] for row in given_rows(two().run())]

    shuffled, later = {"random_shuffle": True}, {"shuffle_after_epoch": True}
    seeded = shuffled | {"seed": 3}
    for both in (shuffled, seeded, later, {}):
        assert all(pairs(both, both))
    assert all(pairs(seeded, later | {"shuffle_after_epoch_seed": 3}))
    for first, second in itertools.permutations([shuffled, seeded, {}], 2):
        assert not all(pairs(first, second))
    assert not all(pairs(shuffled, shuffled, (9, 8)))  # without a seed, nobody says that they belong together
    with pytest.warns(OrderWarning, match="the seed of 'one', but 8 samples instead of 9"):
        pairs(seeded, seeded, (9, 8))


def test_readers_beside_a_source_are_paired_with_each_other(folder):
    @pipeline_def(batch_size=3, prefetch_queue_depth=0)
    def three():
        source = fn.external_source(lambda: [np.zeros(1)] * 3)
        return source, *(files(folder, name, 9, random_shuffle=True) for name in ("one", "other"))

    pipe = three()
    for _ in range(4):
        _, one, other = pipe.run()
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("first", "second", "told"), [
    ({}, {"on_error": "replace"}, "'on_error' must be 'raise' as of 'one', which has as many samples"),
    ({"on_error": "replace"}, {}, "'on_error' must be 'raise' in 'one', because a replaced sample would break"),
])  # fmt: skip
def test_no_sample_of_a_pair_is_replaced(folder, shuffled, first, second, told):
    @pipeline_def(batch_size=1, prefetch_queue_depth=0)
    def two():
        return (files(folder, "one", 4, random_shuffle=shuffled, **first),
                files(folder, "other", 4, random_shuffle=shuffled, **second))  # fmt: skip

    with pytest.raises(ArgumentError, match=told):
        two().run()


@given(gone=st.sets(st.integers(0, 8), max_size=4), stop=st.integers(0, 4), late=st.booleans())
def test_pairs_are_adapted_together(folder, gone, stop, late):
    """Where both lose samples, or get some, the rest of the epoch has each pair that is left once."""

    @pipeline_def(batch_size=2, prefetch_queue_depth=0, seed=1)
    def two(rows):
        return tuple(
            fn.readers.file(file_root=folder, files=[f"{prefix}{row}" for row in rows], labels=list(rows),
                            random_shuffle=True, on_mismatch="adapt", name=name)[1]
            for name, prefix in (("one", ""), ("other", "mask of "))
        )  # fmt: skip

    some, every = sorted({*range(9)} - gone), list(range(9))
    before, after = (some, every) if late else (every, some)
    pipe = two(before)
    seen = [row for _ in range(stop) for row in given_rows(pipe.run())]
    rest = [row for step in steps([two(after, checkpoint=pipe.checkpoint())], 1) for row in step]
    assert all(one == other for _, one, other in seen + rest)
    if rest and not any(epoch for epoch, *_ in seen):
        assert sorted({row[1] for row in seen} & {*after} | {row[1] for row in rest}) == after
        assert not {row[1] for row in seen} & {row[1] for row in rest}


def test_a_checkpoint_of_readers_that_were_not_paired_is_refused(folder):
    """Of version 2 of a pipeline's state; with one reader it goes on, which `test_checkpoint.py` shows."""
    seeded = {"seed": 5}  # as the pipeline gave them then
    [pipe] = ranks(folder, (9, 9), 1, 2, first=seeded, second=seeded)
    pipe.run()
    entries = {name: Entry(entry["type"], entry["state"])
               for name, entry in json.loads(pipe.checkpoint())["states"].items()}  # fmt: skip
    entries["pipeline"].state["version"] = 2
    with pytest.raises(StateMismatch, match="order of 'other': its own in the state, that of 'one' here"):
        ranks(folder, (9, 9), 1, 2, encoded(entries))[0].run()


@pytest.mark.parametrize(("first", "second", "told"), [
    ({}, {"on_error": "skip"}, r"'on_error' must be 'raise' or 'replace' beside 'one'"),
    ({"num_shards": 2}, {}, r"'num_shards' must be 2, like the first reader 'one'"),
    ({}, {"num_shards": 2}, r"'num_shards' must be 1"),
    ({"num_shards": 2}, {"num_shards": 2, "stick_to_shard": True}, r"'stick_to_shard' must be False beside 'one'"),
    ({"num_shards": 2, "stick_to_shard": True}, {"num_shards": 2, "stick_to_shard": True}, "another number of samples"),
])  # fmt: skip
def test_what_cannot_be_kept_beside_another_reader_is_refused(folder, first, second, told):
    @pipeline_def(batch_size=1, prefetch_queue_depth=0)
    def two():
        return files(folder, "one", 4, **first), files(folder, "other", 5, **second)

    with pytest.raises(ArgumentError, match=told):
        two().run()
