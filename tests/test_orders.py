"""Orders that readers share: shards of one data set take one order, and masks stay beside their images."""

from __future__ import annotations

import itertools
import json
import pickle
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import ArgumentError, OrderWarning, StateError, StateMismatch, checkpoint
from dynamic.random import RNG, uniform
from dynamic.readers import File, Numpy, Webdataset, _ranks

MOST = 9


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    for i in range(MOST):
        (root / f"{i}.jpg").write_bytes(b"%d" % i)
        (root / f"mask-{i}.png").write_bytes(b"%d" % i)
        np.save(root / f"depth {MOST - i}.npy", np.full((1,), i, np.uint8))
    return root


def images(root, rows=range(MOST), **arguments):
    return File(file_root=root, files=[f"{i}.jpg" for i in rows], labels=list(rows), **arguments)


def masks(root, rows=range(MOST), **arguments):
    return File(file_root=root, files=[f"mask-{i}.png" for i in rows], labels=list(rows), **arguments)


def rows_of(reader, size, stop=None):
    return [row for _, rows in itertools.islice(reader.next_epoch(size), stop) for (row,) in rows.tolist()]


# -- order_of ---------------------------------------------------------------------------------------------------------

SHUFFLES = st.fixed_dictionaries(
    {"num_shards": st.integers(1, 3), "last_batch": st.sampled_from(["partial", "pad"])},
    optional={"random_shuffle": st.booleans(), "seed": st.integers(0, 9), "stick_to_shard": st.booleans()},
)


@given(arguments=SHUFFLES, count=st.integers(1, MOST), size=st.integers(1, 4), stop=st.integers(0, 9),
       others=st.integers(1, 3), other_size=st.integers(1, 4))  # fmt: skip
def test_each_sample_comes_beside_that_of_its_row(root, arguments, count, size, stop, others, other_size):
    """On every shard, in every epoch, after a resume with other shards too, and with the same draws."""
    rng = RNG(3)
    stuck = arguments.get("random_shuffle") and arguments.get("stick_to_shard")

    def pairs(shard, shards):
        first = images(root, range(count), **arguments | {"shard_id": shard, "num_shards": shards})
        return first, masks(root, range(count), order_of=first)

    def step(both, size):
        (jpegs, one), (pngs, other) = (reader(size) for reader in both)
        assert one.tolist() == other.tolist()
        assert [name.removesuffix(".jpg") for name in jpegs.origin.names] == [
            name.removeprefix("mask-").removesuffix(".png") for name in pngs.origin.names
        ]
        draws = [uniform(rng=rng.keyed(batch)["angle"]).tolist() for batch in (jpegs, pngs)]
        assert draws[0] == draws[1]

    if count < 3 * size or count < 3 * other_size:
        return  # a shard may have no batch
    every = [pairs(shard, arguments["num_shards"]) for shard in range(arguments["num_shards"])]
    for _ in range(stop):
        for both in every:
            step(both, size)
    states = json.loads(json.dumps([reader.get_state() for reader in every[0]]))
    shards = arguments["num_shards"] if stuck else others
    every = [pairs(shard, shards) for shard in range(shards)]
    for both in every:
        for reader, state in zip(both, states, strict=True):
            reader.set_state(state)
    for _ in range(4):
        for both in every:
            step(both, other_size)


def test_every_kind_of_reader_follows_every_other(root):
    first = Numpy(file_root=root, file_filter="*.npy", random_shuffle=True, seed=4)
    second = masks(root, order_of=first)
    third = Numpy(file_root=root, file_filter="*.npy", order_of=second)
    rows = [[int(array[0]) for array in batch[0].samples] for batch in (first(MOST), third(MOST))]
    assert rows[0] == rows[1]
    listed = [MOST - 1 - label for (label,) in second(MOST)[1].tolist()]  # depth files are listed the other way round
    assert listed == rows[0]
    assert sorted(listed) == [*range(MOST)]
    assert listed != [*range(MOST)]


def test_a_pair_is_pickled_lazily_listed_and_verified(root):
    first = images(root, random_shuffle=True, lazy_init=True)
    second = masks(root, order_of=first, lazy_init=True)
    first, second = pickle.loads(pickle.dumps((first, second)))
    assert rows_of(first, 2) == rows_of(second, 4)
    assert checkpoint.verify_epoch([second.get_state()]).samples == MOST
    assert second.explain("mask-3.png").place == first.explain("3.jpg").place


@pytest.mark.parametrize(("first", "second", "told"), [
    ({}, {"order_of": 3}, "'order_of' must be a reader of dynamic.readers, or None; got int 3"),
    ({}, {"rows": range(3)}, "'order_of' must be a reader of as many samples as this one has, 3; got one of 9"),
    ({"on_error": "skip"}, {}, "'order_of' must be a reader with on_error='raise', of which every sample comes"),
    ({"on_error": "replace"}, {}, "'order_of' must be a reader with on_error='raise'"),
    ({}, {"on_error": "replace"}, "'on_error' must be 'raise' in a reader paired with readers"),
    ({}, {"random_shuffle": True}, "'random_shuffle' must be left out, or False like the reader"),
    ({"random_shuffle": True, "seed": 3}, {"seed": 4}, "'seed' must be left out, or 3"),
    ({"num_shards": 2}, {"num_shards": 3}, "'num_shards' must be left out, or 2"),
    ({"num_shards": 2}, {"num_shards": 2, "shard_id": 1}, "'shard_id' must be left out, or 0"),
    ({"last_batch": "pad"}, {"last_batch": "drop"}, "'last_batch' must be left out, or 'pad'"),
])  # fmt: skip
def test_what_cannot_follow_is_refused(root, first, second, told):
    with pytest.raises(ArgumentError, match=told):
        masks(root, **{"order_of": images(root, **first), **second})


def test_what_the_other_reader_says_may_be_said_again(root):
    arguments = {"random_shuffle": True, "seed": 5, "num_shards": 2, "shard_id": 1, "last_batch": "pad"}
    first = images(root, **arguments)
    same, unseeded = (masks(root, order_of=first, **arguments | {"seed": seed}) for seed in (5, -1))
    assert rows_of(same, 2) == rows_of(unseeded, 2) == rows_of(first, 2)


def test_a_state_tells_pairs_from_other_pairs(root):
    first = images(root, random_shuffle=True)
    second = masks(root, order_of=first)
    second(2)
    state = second.get_state()
    reversed_ = masks(root, [*range(MOST)][::-1], order_of=first)
    with pytest.raises(StateMismatch, match="names"):
        reversed_.set_state(state)
    for mode in ("raise", "adapt"):
        alone = masks(root, random_shuffle=True, on_mismatch=mode)
        with pytest.raises(StateMismatch, match="names"):
            alone.set_state(state)


@given(gone=st.sets(st.integers(0, MOST - 1), max_size=4), stop=st.integers(0, 4), late=st.booleans())
def test_pairs_go_on_in_other_data_together(root, gone, stop, late):
    some = sorted({*range(MOST)} - gone)
    before, after = (some, range(MOST)) if late else (range(MOST), some)

    def pair(rows):
        first = images(root, rows, random_shuffle=True, on_mismatch="adapt")
        return first, masks(root, rows, order_of=first, on_mismatch="adapt")

    both = pair(before)
    seen = [rows_of(reader, 1, stop) for reader in both]
    states = [reader.get_state() for reader in both]
    both = pair(after)
    rest = []
    for reader, state in zip(both, states, strict=True):
        reader.set_state(state)
        rest.append(rows_of(reader, 2))
    assert seen[0] == seen[1]
    assert rest[0] == rest[1]
    assert sorted([*{*seen[0]} & {*after}, *rest[0]]) == [*after]


def test_readers_that_look_like_pairs_are_told(root):
    """A script written for DALI gives both the same seed."""
    first, second = images(root, random_shuffle=True, seed=12), masks(root, random_shuffle=True, seed=12)
    first(2)
    with pytest.warns(OrderWarning, match="not paired.*Give one of them order_of= the other") as told:
        second(2)
    assert len(told) == 1
    second(2)
    masks(root, random_shuffle=True, seed=13)(2)  # said to be another order
    masks(root)(2)
    masks(root, range(MOST - 1), random_shuffle=True, seed=12)(2)
    del second
    images(root, random_shuffle=True, seed=12)(2)  # the same data, in the same order


# -- one order for all ranks ------------------------------------------------------------------------------------------


@given(shards=st.integers(2, 4), seeds=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_shards_of_one_process_have_one_seed(root, shards, seeds):
    """Else samples would be left out and repeated: so says the first batch of a reader that has another."""
    _ranks._shards.clear()
    readers = [images(root, random_shuffle=True, seed=seed, shard_id=shard, num_shards=shards)
               for shard, seed in enumerate(seeds[:shards])]  # fmt: skip
    if len({*seeds[:shards]}) == 1:
        assert sorted(row for reader in readers for row in rows_of(reader, 2)) == [*range(MOST)]
        return
    with pytest.raises(ArgumentError, match=f"'seed' must be the same on all {shards} shards"):
        for reader in readers:
            reader(1)


def test_runs_and_views_of_their_own_may_have_other_seeds(root):
    def reader(shard, seed):
        return images(root, random_shuffle=True, seed=seed, shard_id=shard, num_shards=2)

    every = [reader(shard, seed) for seed in (1, 2) for shard in range(2)]
    for one in every:
        one(1)
    view = reader(0, 3)
    view(1)
    del view
    reader(1, 4)(1)  # the other view is gone


class Store:
    """The part of a store of torch.distributed that is asked."""

    def __init__(self):
        self.values = {}

    def compare_set(self, key, expected, desired):
        if self.values.get(key, "") == expected:
            self.values[key] = desired
        return self.values[key].encode()


@pytest.fixture
def rank(monkeypatch):
    """A function that makes this process another rank of a job with torch.distributed."""
    store = Store()
    distributed = types.SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        distributed_c10d=types.SimpleNamespace(_get_default_store=lambda: store),
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)

    def as_another():
        _ranks._readers.clear()
        _ranks._shards.clear()
        _ranks._counts.clear()

    as_another()
    yield as_another
    as_another()


@pytest.mark.parametrize(("first", "second", "argument"), [
    ({"seed": 12}, {"seed": 13}, "seed"),
    ({}, {"seed": 13}, "seed"),
    ({}, {"random_shuffle": False}, "random_shuffle"),
    ({}, {"stick_to_shard": True}, "stick_to_shard"),
    ({"weights": range(1, MOST + 1)}, {"weights": [1] * MOST}, "weights"),
    ({"weights": [1] * MOST}, {"weights": [1] * MOST, "replacement": False}, "weights"),
    ({}, {"weights": [1] * MOST}, "weights"),
    ({}, {"where": lambda name, label: label != 2}, "where"),
    ({"where": lambda name, label: label != 1}, {"where": lambda name, label: label != 2}, "where"),
])  # fmt: skip
def test_ranks_of_torch_are_asked(root, rank, first, second, argument):
    def reader(shard, **arguments):
        return images(root, **{"random_shuffle": True, "num_shards": 2, "shard_id": shard} | arguments)

    reader(0, **first)(1)
    rank()
    reader(1, **first)(1)
    rank()
    other = reader(1, **second)
    for step in (other.peek, other):
        with pytest.raises(ArgumentError, match=f"'{argument}' must be the same on all 2 shards"):
            step(1)
    assert other.position == 0


def test_readers_of_one_data_set_are_asked_about_one_by_one(root, rank):
    for shard in range(2):
        for seed in (1, 2, 1):  # two views, and one made anew
            images(root, random_shuffle=True, seed=seed, num_shards=2, shard_id=shard)(1)
        images(root, random_shuffle=True, seed=shard)(1)  # not shared between ranks
        rank()


def test_states_of_other_orders_are_no_epoch(root):
    readers = [images(root, random_shuffle=True, seed=seed, num_shards=2) for seed in (1, 2)]
    with pytest.raises(StateMismatch, match="seed: 1 in the state, 2 here"):
        readers[1].set_state(readers[0].get_state())
    with pytest.raises(StateError, match="not of one order: 'seed' is int 1 in number 0 and int 2 in number 1"):
        checkpoint.verify_epoch([reader.get_state() for reader in readers])


def test_archives_follow_too(root, tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for i in range(MOST):
            archive.add(root / f"{MOST - 1 - i}.jpg", f"{i}.jpg")
    first = images(root, random_shuffle=True)
    second = Webdataset(paths=tmp_path / "a.tar", ext=["jpg"], order_of=first)
    rows = [[int(bytes(sample)) for sample in reader(MOST)[0].samples] for reader in (first, second)]
    assert rows[0] == [MOST - 1 - row for row in rows[1]]
