"""`readers.Mix`: exact shares, one mixture for any batches and shards, children that go on where they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import random, readers
from dynamic.errors import ArgumentError, DataError, StateError, StateMismatch
from dynamic.testing import assert_resumable

sizes_of = st.lists(st.integers(1, 30), min_size=1, max_size=4)
stops = st.sampled_from(["first", "longest"]) | st.integers(1, 70)


def child(number, size, shuffle=True):
    """A reader of the numbers 1000 * number, 1000 * number + 1 ..."""
    return readers.Map(dataset=np.arange(size) + 1000 * number, random_shuffle=shuffle, seed=number)


def mixed(sizes, weights=None, stop="first", **arguments):
    names = "abcdefgh"[: len(sizes)]
    children = {name: child(i, size) for i, (name, size) in enumerate(zip(names, sizes, strict=True))}
    shares = None if weights is None else dict(zip(names, weights, strict=True))
    return readers.Mix(children, weights=shares, stop=stop, **arguments)


def numbers(batches):
    return [int(n) for (batch,) in batches for n in batch.samples]


def owners(values):
    return np.asarray(values) // 1000


@given(sizes=sizes_of, data=st.data(), stop=stops, seed=st.integers(0, 9))
def test_shares_are_exact_over_any_stretch(sizes, data, stop, seed):
    weights = [data.draw(st.floats(0.05, 1)) for _ in sizes]
    reader = mixed(sizes, weights, stop, seed=seed)
    found = owners(numbers(reader.next_epoch(7)))
    assert len(found) == len(reader)
    shares = np.array(weights) / sum(weights)
    counts = np.bincount(found, minlength=len(sizes))
    assert (np.abs(counts - shares * len(found)) <= 1).all()


def test_shares_over_a_million_places():
    reader = mixed([10, 20, 30], [0.7, 0.2, 0.1], 1_000_000, seed=4)
    found = reader._sequence(0)
    for start, stop in ((0, 1_000_000), (0, 1024), (5 * 1024, 9 * 1024), (123, 400_123), (999_000, 1_000_000)):
        shares = np.bincount(found[start:stop], minlength=3) / (stop - start)
        most = 1 / (stop - start) if start % 1024 == stop % 1024 == 0 else 3 * (1024**0.5) / (stop - start)
        assert np.abs(shares - [0.7, 0.2, 0.1]).max() <= most + 1e-12
    assert not np.array_equal(found, reader._sequence(1))


@given(sizes=sizes_of, stop=stops, batch_size=st.integers(1, 9), shards=st.integers(1, 3))
def test_batches_and_shards_do_not_change_it(sizes, stop, batch_size, shards):
    whole = [numbers(mixed(sizes, stop=stop).next_epoch(1))]
    parts = [mixed(sizes, stop=stop, shard_id=k, num_shards=shards) for k in range(shards)]
    split = [numbers(part.next_epoch(batch_size)) for part in parts]
    assert sorted(n for part in split for n in part) == sorted(whole[0])


@given(sizes=sizes_of, data=st.data())
def test_first_gives_no_sample_twice(sizes, data):
    weights = [data.draw(st.floats(0.1, 1)) for _ in sizes]
    reader = mixed(sizes, weights)
    for _ in range(3):
        found = numbers(reader.next_epoch(5))
        assert len(set(found)) == len(found)
        counts = np.bincount(owners(found), minlength=len(sizes))
        assert (np.array(sizes) - counts >= 0).all()


@given(sizes=sizes_of, data=st.data(), stop=st.sampled_from(["longest", 11]))
def test_children_go_through_epochs_of_their_own(sizes, data, stop):
    """Whatever the mixture's epochs are, a child gives all its samples before it gives one again."""
    weights = [data.draw(st.floats(0.2, 1)) for _ in sizes]
    reader = mixed(sizes, weights, stop)
    found = [n for _ in range(4) for n in numbers(reader.next_epoch(3))]
    if stop == "longest":
        assert set(numbers(mixed(sizes, weights, stop).next_epoch(3))) == {
            1000 * i + k for i, size in enumerate(sizes) for k in range(size)
        }
    for i, size in enumerate(sizes):
        own = [n for n in found if n // 1000 == i]
        for start in range(0, len(own), size):
            assert len(set(own[start : start + size])) == len(own[start : start + size])


@given(
    sizes=sizes_of, stop=stops, seed=st.integers(0, 99),
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=6),
)  # fmt: skip
def test_chains_of_stops_give_the_run_without_one(sizes, stop, seed, steps):
    straight = mixed(sizes, stop=stop, seed=seed)
    expected = [n for _ in range(4) for n in numbers(straight.next_epoch(1))]
    found, state = [], None
    for batch_size, count in steps:
        reader = mixed(sizes, stop=stop, seed=seed)
        if state is not None:
            reader.set_state(json.loads(json.dumps(state)))
        while count and reader.epoch < 4:
            for batch in reader.next_epoch(batch_size):
                found += numbers([batch])
                count -= 1
                if not count:
                    break
        state = reader.get_state()
    assert found == expected[: len(found)]


@pytest.mark.parametrize("stop", ["first", "longest", 17])
def test_it_stops_and_resumes_anywhere(stop):
    def job(batch_size, shard_id, num_shards):
        reader = mixed([7, 5], stop=stop, seed=3, shard_id=shard_id, num_shards=num_shards)
        rng = random.RNG(seed=3)

        def epoch():
            for (batch,) in reader.next_epoch(batch_size):
                yield batch, random.uniform(range=[0.0, 90.0], rng=rng.keyed(batch)["angle"])

        return {"reader": reader, "rng": rng}, epoch

    if stop == "first":  # else samples come several times
        assert assert_resumable(job, batch_sizes=(1, 3), epochs=1).samples == len(mixed([7, 5], stop=stop))


def test_other_mixtures_are_refused_by_name():
    state = mixed([7, 5], [0.7, 0.3], 10, seed=1).get_state()
    for reader, told in (
        (mixed([7, 5], [0.6, 0.4], 10, seed=1), "weights: 'a' has 0.7 in the state, 0.6 here"),
        (mixed([7, 5], [0.7, 0.3], 11, seed=1), "stop: 10 in the state, 11 here"),
        (mixed([7, 5], [0.7, 0.3], 10, seed=2), "seed: 1 in the state, 2 here"),
        (mixed([7, 6], [0.7, 0.3], 10, seed=1), "b: samples: 5 in the state, 6 here"),
        (mixed([7], [0.7], 10, seed=1), "children: 'b' is missing here"),
        (mixed([7, 5, 2], [0.7, 0.3, 1], 10, seed=1), "children: 'c' is not in the state"),
    ):
        with pytest.raises(StateMismatch) as caught:
            reader.set_state(state)
        assert told in str(caught.value)
        assert (reader.epoch, reader.position) == (0, 0)
    plain = child(0, 3)
    with pytest.raises(StateError, match="it is of another reader"):
        mixed([3]).set_state(plain.get_state())
    with pytest.raises(StateError, match="mixture"):
        plain.set_state(state)


@given(given=st.integers(1, 16), old=st.floats(0.1, 0.9), new=st.floats(0.1, 0.9))
def test_other_weights_go_on_from_the_samples_that_children_have_given(given, old, new):
    before = mixed([7, 5], [old, 1 - old], 16, seed=1)
    found = numbers(before(1) for _ in range(given))
    after = mixed([7, 5], [new, 1 - new], 16, seed=1, on_mismatch="adapt")
    after.set_state(before.get_state())
    found += numbers(after(1) for _ in range(40))
    again = mixed([7, 5], [new, 1 - new], 16, seed=1)
    again.set_state(after.get_state())
    found += numbers(again(1) for _ in range(20))
    for i, size in enumerate([7, 5]):
        own = [n for n in found if n // 1000 == i]
        for start in range(0, len(own), size):
            assert len(set(own[start : start + size])) == len(own[start : start + size])


def test_a_child_more_goes_on():
    before = mixed([7, 5], [1, 1], 16, seed=1)
    first = numbers(before(1) for _ in range(6))
    after = mixed([7, 5, 4], [1, 1, 1], 16, seed=1, on_mismatch="adapt")
    after.set_state(before.get_state())
    found = first + numbers(after(1) for _ in range(12))
    assert all(found.count(n) <= 2 for n in found)
    assert any(n >= 2000 for n in found)


class Faulty:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            raise RuntimeError("gone")
        return np.int64(1000 + i)


def test_errors_name_the_sample_of_a_child():
    children = {"good": child(0, 4, shuffle=False), "bad": readers.Map(dataset=Faulty())}
    with pytest.raises(DataError, match=r"readers.Mix\(\): 1 of 8 samples") as caught:
        readers.Mix(children)(8)
    assert caught.value.failures[0].source == "row 2"
    skipping = readers.Mix(children, on_error="skip")
    assert len(skipping(8)[0]) == 7
    assert skipping.skipped[0].source == "row 2"


def test_names_and_ids_tell_children_apart():
    same = readers.Map(dataset=np.arange(4)), readers.Map(dataset=np.arange(4))
    (batch,) = readers.Mix({"x": same[0], "y": same[1]})(8)
    assert len(set(batch.origin.ids.tolist())) == 8
    assert sorted(batch.origin.names) == [f"{name}/{i}" for name in "xy" for i in range(4)]


def test_explain_knows_who_comes_in_an_epoch():
    reader = mixed([3, 9], [1, 1])
    come = {name for (batch,) in reader.next_epoch(4) for name in batch.origin.names}
    assert 3 < len(come) < 12
    for name in (f"{c}/{i}" for c, size in (("a", 3), ("b", 9)) for i in range(size)):
        if name in come:
            assert reader.explain(name, 0).name == name
        else:
            with pytest.raises(ArgumentError, match="a sample that comes in the epoch"):
                reader.explain(name, 0)


@pytest.mark.parametrize(
    ("children", "arguments", "told"),
    [
        ({}, {}, "a dict of names and readers"),
        ([1], {}, "a dict of names and readers"),
        ({"a": 5}, {}, "a reader of dynamic.readers"),
        ({"a": child(0, 3)}, {"weights": {"b": 1}}, "a number for each of"),
        ({"a": child(0, 3)}, {"weights": {"a": 0}}, "a finite number above 0"),
        ({"a": child(0, 3)}, {"stop": "last"}, "'first'"),
        ({"a": child(0, 3)}, {"stop": 0}, "stop"),
        ({"a": readers.Map(dataset=[1, 2], num_shards=2)}, {}, "without num_shards"),
        ({"a": readers.Map(dataset=[1, 2], on_error="skip")}, {}, "without on_error"),
        ({"a": child(0, 3), "b": child(1, 3000)}, {"weights": {"a": 1e12, "b": 1}}, "at least 1 /"),
    ],
)
def test_arguments_that_are_none(children, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        readers.Mix(children, **arguments)


def test_outputs_unlike_each_other_are_told():
    children = {"a": child(0, 3), "b": readers.Map(dataset=np.zeros((3, 2)))}
    with pytest.raises(ArgumentError, match="'a' .* of 0 dimensions, 'b' .* of 1 dimensions"):
        readers.Mix(children)(6)
