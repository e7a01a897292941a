"""`where` and `weights`: the samples that are selected and drawn, on all readers, with places, states and draws."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_stored import KINDS, MOST, columns, moved

from dynamic import checkpoint, random, readers
from dynamic.checkpoint.__main__ import main
from dynamic.errors import ArgumentError, DataError, OrderWarning, StateError, StateMismatch, StateWarning
from dynamic.pipeline import fn, pipeline_def
from dynamic.readers._choice import _below
from dynamic.testing import assert_resumable

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
pytestmark = pytest.mark.filterwarnings("ignore:.*have as many samples and the same seed")
N = 24
#: For each kind of reader a function of the arguments of `where` that tells the number of a sample.
NUMBER = {
    "File": lambda name, label: int(name[-6:-4]) + 0 * label,
    "Numpy": lambda name: int(name[-6:-4]),
    "Webdataset": lambda name: int(name[-2:]),
    "Sequence": lambda name: int(name[:2]),
    "NemoAsr": lambda name: int(name[:2]),
    "Video": lambda name, label: int(name[2:4]) + 0 * label,
    "TFRecord": lambda name: int(name.rpartition("#")[2]),
    "MXNet": lambda name: int(name.rpartition("#")[2]),
    "Caffe": lambda name: int(name.rpartition("#")[2]),
    "Caffe2": lambda name: int(name.rpartition("#")[2]),
    "Fits": lambda name: int(name[-7:-5]),
    "COCO": lambda name, objects: int(name[:2]) + 0 * len(objects.labels),
    "Map": lambda row: int(row["file"]["name"]),
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    found = {}
    for kind in KINDS:
        found[kind.name] = tmp_path_factory.mktemp(kind.name)
        kind.write(found[kind.name], range(MOST))
    return found


def by(kind, function):
    """A function of the number of a sample as one of the arguments that this kind of reader gives."""
    return lambda *told: function(NUMBER[kind.name](*told))


def numbers(kind, batches):
    return [i for batch in batches for i in kind.numbers(batch)]


def mapped(size=N, **arguments):
    return readers.Map(dataset=np.arange(size), **arguments)


def given_by(reader, batch_size=4):
    return [int(n) for (batch,) in reader.next_epoch(batch_size) for n in batch.samples]


weights_of = st.lists(st.just(0.0) | st.floats(2.0**-30, 2.0**30), min_size=1, max_size=30).filter(any)


# -- where ------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_selection_is_a_data_set_of_its_own(kind, shuffle, tmp_path):
    """Order, ids, names and digests are those of the selected samples alone, by any function."""
    kind.write(tmp_path, range(MOST))
    whole = kind.made(tmp_path)
    ids = dict(zip(range(MOST), whole._ids.tolist(), strict=True))

    @given(kept=st.sets(st.integers(0, MOST - 1), min_size=1), batch_size=st.integers(1, 9), shards=st.integers(1, 3))
    def compare(kept, batch_size, shards):
        arguments = {"where": by(kind, kept.__contains__), "random_shuffle": shuffle, "fingerprint": "contents"}
        reader = kind.made(tmp_path, **arguments)
        assert len(reader) == len(kept) == reader.get_metadata()["epoch_size"]
        batches = list(reader.next_epoch(batch_size))
        found = numbers(kind, batches)
        assert sorted(found) == sorted(kept)
        assert [len(columns(batch)[0]) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        origins = [columns(batch)[0].origin for batch in batches]
        assert [i for origin in origins for i in origin.ids.tolist()] == [ids[i] for i in found]
        order = [i for i in numbers(kind, kind.made(tmp_path, random_shuffle=shuffle).next_epoch(5)) if i in kept]
        assert found == order  # that of all samples, without the others
        parts = [kind.made(tmp_path, **arguments, shard_id=k, num_shards=shards) for k in range(shards)]
        assert sorted(i for part in parts for i in numbers(kind, part.next_epoch(batch_size))) == sorted(kept)
        assert checkpoint.verify_epoch([part.get_state() for part in parts], reader).counts == {
            name: 1 for origin in origins for name in origin.names
        }

    compare()


@kinds
def test_a_selection_has_the_state_of_a_data_set_of_these_files_alone(kind, tmp_path):
    if kind.packed:
        pytest.skip("names of samples in archives are their numbers there")
    for name in ("all", "some"):
        (tmp_path / name).mkdir()
    kind.write(tmp_path / "all", range(MOST))
    kind.write(tmp_path / "some", range(0, MOST, 2))
    fingerprints = {"fingerprint": "contents", "random_shuffle": True}
    reader = kind.made(tmp_path / "all", where=by(kind, lambda i: i % 2 == 0), **fingerprints)
    reader(3)
    alone = kind.made(tmp_path / "some", **fingerprints)
    state = reader.get_state()
    assert {**alone.get_state(), "listed": state["listed"]}.keys() == state.keys()
    alone.set_state(state)
    assert numbers(kind, alone.next_epoch(4)) == numbers(kind, reader.next_epoch(2))


@kinds
def test_only_selected_samples_are_read(kind, tmp_path):
    kind.write(tmp_path, range(6))
    reader = kind.spoilt(tmp_path, 5, where=by(kind, lambda i: i < 5), fingerprint="contents")
    assert numbers(kind, reader.next_epoch(2)) == list(range(5))
    assert not reader.skipped
    assert reader.get_state()["samples"] == 5


@kinds
@pytest.mark.slow
@pytest.mark.parametrize("how", ["where", "with replacement", "without replacement"])
def test_a_run_may_be_stopped_and_go_on_with_other_shards_and_batches(kind, how, tmp_path):
    kind.write(tmp_path, range(7))

    def job(batch_size, shard_id, num_shards):
        arguments = {"where": by(kind, lambda i: i != 3), "random_shuffle": True}
        if how != "where":
            arguments["weights"] = by(kind, lambda i: i % 4)
            arguments |= {"replacement": how == "with replacement", "num_samples": 4 + 3 * (how == "with replacement")}
        reader = kind.made(tmp_path, seed=4, shard_id=shard_id, num_shards=num_shards, **arguments)
        rng = random.RNG(seed=3)

        def epoch():
            for outputs in reader.next_epoch(batch_size):
                batches = columns(outputs)
                yield *batches, random.uniform(rng=rng.keyed(batches[0])["angle"])

        return {"reader": reader, "rng": rng}, epoch

    assert assert_resumable(job, batch_sizes=(2, 3), num_shards=(1, 3)).samples == {
        "where": 6,
        "with replacement": 7,
    }.get(how, 4)


@kinds
def test_another_selection_is_told_and_may_be_adapted_to(kind, roots):
    def selecting(*left_out, **arguments):
        return kind.made(
            roots[kind.name], random_shuffle=True, where=by(kind, lambda i: i not in left_out), **arguments
        )

    reader = selecting(3, 4)
    first = numbers(kind, [reader(5)])
    state = moved(reader.get_state())
    for other, told in (
        (selecting(3), f"where: it selected 21 of the same {MOST} samples in the state, 22 here; 1 added"),
        (selecting(3, 4, 5), f"where: it selected 21 of the same {MOST} samples in the state, 20 here; 1 removed"),
        (kind.made(roots[kind.name], random_shuffle=True), f"where: it selected 21 of the same {MOST} samples"),
    ):
        with pytest.raises(StateMismatch, match=told):
            other.set_state(state)
        assert (other.epoch, other.position) == (0, 0)
    other = selecting(3, 5)
    other.set_state(state, on_mismatch="adapt")
    rest = numbers(kind, other.next_epoch(4))
    assert sorted({*first, *rest} - {5}) == sorted(set(range(MOST)) - {3, 5})
    assert len(rest) == len(set(rest) - set(first))


@kinds
def test_functions_that_fail_name_the_sample(kind, roots):
    label, others = "the name and the label", {"COCO": "the name and the objects", "Map": "the row"}
    of = (others | {"File": label, "Video": label}).get(kind.name, "the name")

    def broken(i):
        return 1 / (i - 2) != 0

    for argument in ("where", "weights"):
        with pytest.raises(ArgumentError, match=rf"'{argument}' must be a function of {of}.*ZeroDivisionError") as told:
            kind.made(roots[kind.name], **{argument: by(kind, broken)})
        assert isinstance(told.value.__cause__, ZeroDivisionError)
        assert re.search(r"for sample '.*2(\D*|#0\.pgm|\.nut#0)'", str(told.value))
    with pytest.raises(ArgumentError, match=rf"'where' must be a function of {of} that selects at least one sample"):
        kind.made(roots[kind.name], where=by(kind, lambda _: False))
    with pytest.raises(ArgumentError, match="True or False; got int 1 for sample '"):
        kind.made(roots[kind.name], where=by(kind, lambda _: 1))
    with pytest.raises(ArgumentError, match=f"'where' must be a function of {of}, or None"):
        kind.made(roots[kind.name], where="name")
    with pytest.raises(ArgumentError, match="TypeError"):
        kind.made(roots[kind.name], where=lambda: True)


@kinds
def test_a_reader_with_functions_can_be_pickled_and_listed_late(kind, roots):
    asked = []

    def even(i):
        asked.append(i)
        return i % 2 == 0

    arguments = {"where": by(kind, even), "weights": by(kind, lambda i: i + 1), "lazy_init": True}
    reader = kind.made(roots[kind.name], **arguments)
    assert not asked
    again = pickle.loads(pickle.dumps(reader))
    assert sorted(asked) == list(range(MOST))
    assert numbers(kind, again.next_epoch(3)) == numbers(kind, reader.next_epoch(5))
    assert sorted(asked) == list(range(MOST))  # once


def test_labels_and_objects_select(tmp_path):
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    dogs = readers.File(file_root=tmp_path, where=lambda name, label: label == 1)
    assert dogs(4)[1].tolist() == [[1]]
    assert dogs.classes == ("cat", "dog")
    kind = next(kind for kind in KINDS if kind.name == "COCO")
    kind.write(tmp_path, range(9))
    reader = kind.made(tmp_path, where=lambda name, objects: bool((objects.labels == 2).any()))
    assert numbers(kind, reader.next_epoch(3)) == [2, 5, 8]
    with pytest.raises(ArgumentError, match="read-only"):
        kind.made(tmp_path, where=lambda name, objects: objects.boxes.fill(0))


def test_a_second_occurrence_of_a_path_stays_that(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    whole = readers.File(file_root=tmp_path, files=["a", "a"])
    second = readers.File(file_root=tmp_path, files=["a", "a"], where=lambda name, label: label == 1)
    assert second(1)[0].origin.ids.tolist() == whole._ids[1:].tolist()


class Rows:
    """Rows that count how often they are asked for."""

    def __init__(self, bad=-1):
        self.asked, self.bad = [], bad

    def __len__(self):
        return 9

    def __getitem__(self, i):
        self.asked.append(i)
        if i == self.bad:
            raise OSError(5, "gone")
        return {"label": i % 3, "value": np.int64(i)}


def test_rows_are_had_for_a_function_once_and_named_where_they_cannot():
    rows = Rows()
    reader = readers.Map(dataset=rows, outputs="value", where=lambda row: row["label"] == 1)
    assert rows.asked == list(range(9))
    assert given_by(reader) == [1, 4, 7]
    with pytest.raises(DataError, match="row 4.*it cannot be had"):
        readers.Map(dataset=Rows(bad=4), outputs="value", where=lambda row: row["label"] == 1)


def test_columns_are_read_alone():
    class Column(list):
        def __getitem__(self, i):
            raise AssertionError("it is not asked for")

    reader = readers.Map(dataset={"x": np.arange(6), "y": Column([0] * 6)}, outputs="x", where=lambda row: row["x"] > 3)
    assert given_by(reader) == [4, 5]
    with pytest.raises(ArgumentError, match="KeyError.*'z'.* for sample '0'"):
        readers.Map(dataset={"x": np.arange(6)}, where=lambda row: row["z"])


# -- weights ----------------------------------------------------------------------------------------------------------


@given(weights=weights_of, seed=st.integers(0, 2**64 - 1), count=st.integers(1, 40), data=st.data())
def test_the_sample_of_a_place_depends_on_nothing_else(weights, seed, count, data):
    """With replacement: neither on the length of the epoch, nor batches, shards and the order of the list."""
    reader = mapped(len(weights), weights=weights, seed=seed, num_samples=count)
    found = given_by(reader, data.draw(st.integers(1, 9)))
    assert len(found) == count == len(reader)
    assert all(weights[i] > 0 for i in found)
    more = given_by(mapped(len(weights), weights=weights, seed=seed, num_samples=count + 7))
    assert more[:count] == found
    turned = data.draw(st.permutations(range(len(weights))))
    moved_ = readers.Map(dataset=np.array(turned), key=lambda row: int(row), seed=seed, num_samples=count,
                         weights=[weights[i] for i in turned])  # fmt: skip
    keyed = readers.Map(dataset=np.arange(len(weights)), key=lambda row: int(row), seed=seed, num_samples=count,
                        weights=weights)  # fmt: skip
    assert given_by(moved_) == given_by(keyed)
    shards = data.draw(st.integers(1, 3))
    parts = [mapped(len(weights), weights=weights, seed=seed, num_samples=count, shard_id=k, num_shards=shards)
             for k in range(shards)]  # fmt: skip
    dealt = [given_by(part, 1) for part in parts]
    assert [i for step in itertools.zip_longest(*dealt) for i in step if i is not None] == found
    assert checkpoint.verify_epoch([part.get_state() for part in parts], reader).counts == {
        str(i): found.count(i) for i in range(len(weights))
    }


@given(weights=weights_of, seed=st.integers(0, 2**64 - 1), data=st.data())
def test_without_replacement_each_comes_at_most_once(weights, seed, data):
    there = np.count_nonzero(weights)
    reader = mapped(len(weights), weights=weights, seed=seed, replacement=False)
    found = given_by(reader)
    assert sorted(found) == np.flatnonzero(weights).tolist()
    count = data.draw(st.integers(1, there))
    some = mapped(len(weights), weights=weights, seed=seed, replacement=False, num_samples=count)
    assert given_by(some) == found[:count]
    kept = data.draw(st.sets(st.sampled_from(found), min_size=1))
    fewer = mapped(len(weights), where=lambda i: int(i) in kept, weights=lambda i: weights[i], seed=seed,
                   replacement=False)  # fmt: skip
    assert given_by(fewer) == [i for i in found if i in kept]  # others do not move the order


@given(size=st.integers(1, 30), seed=st.integers(0, 99), weight=st.floats(2.0**-30, 2.0**30))
def test_equal_weights_without_replacement_are_a_shuffle(size, seed, weight):
    weighted = mapped(size, weights=[weight] * size, replacement=False, seed=seed)
    shuffled = mapped(size, random_shuffle=True, seed=seed)
    for _ in range(3):
        assert given_by(weighted) == given_by(shuffled)


@pytest.mark.parametrize("replacement", [True, False])
def test_shares_over_a_million_draws(replacement):
    """Of the first place of an epoch without replacement; chi-square against the weights, at 1 in 10,000."""
    weights = np.array([0.0, 1, 2, 3, 4, 10, 0.5, 79.5])
    if replacement:
        counts = np.bincount(mapped(8, weights=weights, num_samples=1_000_000, seed=5)._order(_place(0)), minlength=8)
    else:
        reader = mapped(8, weights=weights, replacement=False, num_samples=1, seed=5)
        counts = np.bincount([int(reader._drawn.order(5, epoch)[0]) for epoch in range(20_000)], minlength=8)
    expected = counts.sum() * weights / weights.sum()
    assert counts[0] == 0
    chi = ((counts[1:] - expected[1:]) ** 2 / expected[1:]).sum()
    assert chi < 27.9  # 6 degrees of freedom


def test_pairs_of_places_are_independent():
    counts = np.zeros((4, 4))
    order = mapped(4, weights=[1, 2, 3, 4], num_samples=400_000, seed=1)._order(_place(0))
    np.add.at(counts, (order[::2], order[1::2]), 1)
    chances = np.outer([1, 2, 3, 4], [1, 2, 3, 4]) / 100
    chi = ((counts - 200_000 * chances) ** 2 / (200_000 * chances)).sum()
    assert chi < 44.3  # 15 degrees of freedom, at 1 in 10,000
    epochs = [mapped(4, weights=[1, 2, 3, 4], num_samples=20_000, seed=1)._order(_place(e)) for e in (0, 1)]
    assert abs((epochs[0] == epochs[1]).mean() - 0.3) < 0.02


def _place(epoch):
    return readers._reader.Place(epoch, 0)


def test_orders_are_those_of_all_machines():
    """Known answers: another machine or version of NumPy must give the same."""
    weights = [0.1 * (i % 7) for i in range(N)]
    assert given_by(mapped(weights=weights, seed=3, num_samples=12)) == WITH
    assert given_by(mapped(weights=weights, seed=3, num_samples=12, replacement=False)) == WITHOUT
    (batch,) = mapped(weights=weights, seed=3)(2)
    assert batch.origin.ids.tolist() == IDS


WITH = [4, 23, 3, 5, 19, 6, 6, 5, 13, 11, 12, 13]
WITHOUT = [19, 16, 11, 5, 1, 13, 20, 23, 18, 3, 6, 17]
IDS = [3769569676013784697, 3148658067596929942]


@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9), bound=st.integers(1, 2**63))
def test_words_below_a_bound_are_exact(words, bound):
    assert _below(np.array(words, np.uint64), bound).tolist() == [word * bound >> 64 for word in words]


@given(scale=st.integers(-1000, 1000), weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=9))
def test_weights_of_any_size(scale, weights):
    with np.errstate(under="ignore"):
        small = np.ldexp(weights, scale)
    for replacement in (True, False):
        expected = given_by(mapped(len(weights), weights=weights, replacement=replacement))
        assert given_by(mapped(len(weights), weights=small, replacement=replacement)) == expected
    extreme = [5e-324, 1.7e308, 1.0]
    assert sorted(given_by(mapped(3, weights=extreme, replacement=False))[1:]) == [0, 2]
    assert set(given_by(mapped(3, weights=extreme))) == {1}


@given(weights=weights_of, seed=st.integers(0, 99), batch_size=st.integers(1, 5), stop=st.integers(0, 5))
def test_draws_of_a_sample_that_comes_again_are_others(weights, seed, batch_size, stop):
    """And the same for any batches, and after a stop."""

    def draws(reader, batch_size, steps=None):
        rng = random.RNG(7)
        batches = itertools.islice(reader.next_epoch(batch_size), steps)
        return [(int(n), u) for (batch,) in batches
                for n, u in zip(batch.samples, random.uniform(rng=rng.keyed(batch)["a"], dtype="float64").tolist(),
                                strict=True)]  # fmt: skip

    made = {"size": len(weights), "weights": weights, "seed": seed, "num_samples": 3 * len(weights)}
    expected = draws(mapped(**made), 1)
    assert len({u for _, u in expected}) == len(expected)
    reader = mapped(**made)
    found = draws(reader, batch_size, stop)
    later = mapped(**made)
    later.set_state(moved(reader.get_state()))
    if reader.position < len(reader) and not reader.epoch:
        assert found + draws(later, 2) == expected
    explained = [
        reader.explain(id_, 0) for (batch,) in mapped(**made).next_epoch(4) for id_ in batch.origin.ids.tolist()
    ]
    assert [(e.place, e.name) for e in explained] == [(p, str(n)) for p, (n, _) in enumerate(expected)]
    number, u = expected[-1]
    told = reader.explain(explained[-1].id, 0)
    again = random.uniform(rng=random.RNG(7).keyed([told.id], 0)["a"], dtype="float64").tolist()
    assert again == [u]
    assert told.times == [n for n, _ in expected].count(number)
    assert reader.explain(str(number), 0).place == [n for n, _ in expected].index(number)


def test_a_sample_that_does_not_come_is_told():
    reader = mapped(3, weights=[0, 1, 1], num_samples=4)
    with pytest.raises(ArgumentError, match="a sample that comes in the epoch 0; got str '0'"):
        reader.explain("0")
    assert reader.counts()["0"] == 0
    assert sum(reader.counts().values()) == 4
    assert "comes" in str(reader.explain("1"))


def test_mappings_of_weights(tmp_path):
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    def made(weights, **arguments):
        return readers.File(file_root=tmp_path, weights=weights, num_samples=50, **arguments)

    for weights in ({"cat": 1, "dog": 5}, {0: 1, 1: 5}, {"cat/1.jpg": 1, "cat/2.jpg": 1, "dog/1.jpg": 5}, [1, 1, 5],
                    np.array([1, 1, 5], np.float32), lambda name, label: 5 if label else 1):  # fmt: skip
        assert made(weights).get_state() == made([1.0, 1.0, 5.0]).get_state()
    only = made({"dog": 2}, where=lambda name, label: label == 1)
    assert set(only._order(_place(0))) == {0}
    for weights, told in (({"cat": 1}, "none for 'dog'"), ({1: 1}, "none for 0"), ({"cow": 1}, "none for 'cat/1.jpg'"),
                          ({"cat": 1, "dog": "2"}, "got str '2' for sample 'dog'")):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            made(weights)
    keyed = readers.Map(dataset=["a", "b"], key=lambda row: row, weights={"a": 0, "b": 1})
    assert [bytes(b.array) for (batch,) in keyed.next_epoch(3) for b in batch] == [b"b", b"b"]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"weights": [1] * (N - 1)}, f"'weights' must be a number for each of the {N} samples; got {N - 1}"),
    ({"weights": [1] * (N - 1) + [-1]}, r"finite numbers of 0 or more; got -1.0 for sample '23'"),
    ({"weights": [1] * (N - 1) + [float("nan")]}, "got nan for sample '23'"),
    ({"weights": [1] * (N - 1) + [float("inf")]}, "got inf for sample '23'"),
    ({"weights": [1] * (N - 1) + ["1"]}, "got str '1' for sample '23'"),
    ({"weights": np.zeros(N)}, f"at least one is above 0; got {N} zeros"),
    ({"weights": np.ones((N, 1))}, rf"of the shape \({N}, 1\)"),
    ({"weights": "balanced"}, "a mapping of them, or a function; got str 'balanced'"),
    ({"weights": 3}, "got int 3"),
    ({"weights": lambda _: None}, "got None for sample '0'"),
    ({"replacement": True}, "'replacement' must be None unless weights are given"),
    ({"num_samples": 3}, "'num_samples' must be None unless weights are given"),
    ({"weights": np.ones(N), "num_samples": 0}, "'num_samples' must be an integer of 1 or more"),
    ({"weights": np.ones(N), "replacement": 1}, "'replacement' must be True or False"),
    ({"weights": np.ones(N), "replacement": False, "num_samples": N + 1}, f"'num_samples' must be at most {N}"),
    ({"weights": np.ones(N), "stick_to_shard": True}, "'stick_to_shard' must be False with weights"),
])  # fmt: skip
def test_weights_that_are_none(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        mapped(**arguments)


def test_weights_are_those_of_the_call():
    weights = np.ones(N)
    reader = mapped(weights=weights, lazy_init=True)
    weights[:] = 0
    assert len(given_by(reader)) == N


# -- states -----------------------------------------------------------------------------------------------------------


def test_other_weights_are_refused_by_name():
    weights = np.arange(N) + 1.0
    state = moved(mapped(weights=weights, num_samples=30).get_state())
    for arguments, told in (
        ({"weights": weights[::-1], "num_samples": 30}, "weights: others for the same samples"),
        ({"weights": weights, "num_samples": 31}, "num_samples: 30 in the state, 31 here"),
        ({"weights": weights, "num_samples": 20, "replacement": False}, "replacement: True in the state, False here"),
        ({"random_shuffle": True}, "weights: some in the state, none here"),
        ({"weights": weights, "num_samples": 30, "seed": 9}, "seed: 0 in the state, 9 here"),
    ):
        reader = mapped(**arguments)
        with pytest.raises(StateMismatch, match=told):
            reader.set_state(state)
        assert (reader.epoch, reader.position) == (0, 0)
    with pytest.raises(StateMismatch, match="weights: none in the state, some here"):
        mapped(weights=weights).set_state(mapped(random_shuffle=True).get_state())
    mapped(weights=4 * weights, num_samples=30).set_state(state)


@pytest.mark.parametrize(
    "damage", [{"weights": 3}, {"replacement": "no"}, {"expected": "1"}, {"listed": "x"}, {"odd": 1}]
)
def test_damaged_states_are_refused(damage):
    state = moved(mapped(weights=np.ones(N), where=lambda i: i < N).get_state())
    with pytest.raises(StateError):
        mapped(weights=np.ones(N)).set_state(state | damage)
    with pytest.raises(StateError, match="go together"):
        mapped(weights=np.ones(N)).set_state({k: v for k, v in state.items() if k != "replacement"})


@given(
    weights=weights_of, seeds=st.tuples(st.integers(0, 3), st.integers(0, 3)), stop=st.integers(1, 30), data=st.data()
)
def test_with_replacement_an_epoch_is_adapted_from_the_place_on(weights, seeds, stop, data):
    """By the same weights under its old seed to its end; by others from there on, without a word."""
    size = len(weights)
    before = mapped(size, weights=weights, seed=seeds[0], num_samples=20)
    before.seek(min(stop, 20))
    state = moved(before.get_state())
    same = mapped(size, weights=weights, seed=seeds[1], num_samples=25, on_mismatch="adapt")
    same.set_state(state)
    longer = given_by(mapped(size, weights=weights, seed=seeds[0], num_samples=25))
    assert given_by(same) == longer[min(stop, 20) :]
    assert given_by(same) == _epoch(mapped(size, weights=weights, seed=seeds[1], num_samples=25), 1)
    other = [w + data.draw(st.floats(0, 1)) for w in weights]
    changed = mapped(size, weights=other, seed=seeds[0], num_samples=20, on_mismatch="adapt")
    changed.set_state(state)
    assert given_by(changed) == given_by(mapped(size, weights=other, seed=seeds[0], num_samples=20))[min(stop, 20) :]


def _epoch(reader, epoch):
    reader.set_epoch(epoch)
    return given_by(reader)


@given(kept=st.sets(st.integers(0, 19), min_size=1), stop=st.integers(1, 19), seed=st.integers(0, 9))
def test_without_replacement_an_epoch_is_adapted_to_other_data(kept, stop, seed):
    """Each sample that is still there comes once, as it does without weights, as long as the last one is there."""

    def made(which):
        return mapped(20, where=lambda i: int(i) in which, weights=lambda i: 1.0 + i, replacement=False, seed=seed)

    before = made(set(range(20)))
    first = [int(n) for n in before(stop)[0].samples]
    after = made(kept)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after.set_state(moved(before.get_state()), on_mismatch="adapt")
    rest = given_by(after) if after.position < len(after) else []
    if not caught:
        assert len(rest) == len(set(rest) - set(first))
        assert set(rest) | set(first) >= kept
    else:
        assert issubclass(caught[0].category, StateWarning)
        assert first[-1] not in kept or 20 - len(kept) > 11


def test_a_shuffle_becomes_weighted_with_a_warning():
    before = mapped(random_shuffle=True)
    before(5)
    after = mapped(weights=np.ones(N), replacement=False, on_mismatch="adapt")
    with pytest.warns(StateWarning, match="Samples given before may come again"):
        after.set_state(before.get_state())
    assert (after.position, len(given_by(after))) == (5, N - 5)


def test_a_state_does_not_grow():
    sizes = []
    for size in (10, 100_000):
        reader = mapped(size, where=lambda i: i >= 0, weights=np.ones(size), num_samples=2 * size)
        reader.seek(size)
        sizes.append(len(json.dumps(reader.get_state())))
    assert sizes[1] < sizes[0] + 300


# -- epochs that are proved -------------------------------------------------------------------------------------------


def test_samples_too_often_or_too_rarely_are_named():
    reader = mapped(weights=np.arange(N) + 1.0, num_samples=40, seed=2)
    given_by(reader)
    state = reader.get_state()
    counts = checkpoint.verify_epoch([state], reader).counts
    assert (sum(counts.values()), counts) == (40, reader.counts(0))
    order = reader._order(_place(0))
    one, other = next(name for name, n in counts.items() if n), next(name for name, n in counts.items() if not n)
    tally = readers._reader.Tally
    wrong = order.copy()
    wrong[np.flatnonzero(wrong == int(one))[0]] = int(other)
    for numbers_, told in (
        (wrong, f"some of them were given more often .* It was '{other}' once too often and '{one}' once too rarely"),
        (np.append(order, 3), "41 samples were given .* It was '3' once too often"),
        (order[1:], f"39 samples were given .* It was '{order[0]}' once too rarely"),
        (np.zeros_like(order), "more than two samples"),
    ):
        with pytest.raises(StateError, match=told):
            checkpoint.verify_epoch([state | {"given": str(tally.of(reader._ids[numbers_]))}], reader)
    with pytest.raises(StateError, match="some of them were given more often than they should be"):
        checkpoint.verify_epoch([state | {"given": str(tally.of(reader._ids[wrong]))}])
    with pytest.raises(StateMismatch):
        checkpoint.verify_epoch([state], mapped(weights=np.ones(N), num_samples=40, seed=2))
    assert reader.epoch == 1
    assert checkpoint.verify_epoch([mapped(random_shuffle=True, seed=1).get_state() | {
        "position": N, "given": state_of_whole(), "last": "0" * 16}]).samples == N  # fmt: skip


def state_of_whole():
    return mapped().get_state()["whole"]


def mixture(stop, **arguments):
    rare = mapped(8, weights=[5, 1, 1, 1, 1, 1, 1, 0], num_samples=9, seed=5)
    plain = readers.Map(dataset=np.arange(100, 111), random_shuffle=True, where=lambda i: i != 105, seed=6)
    return readers.Mix({"rare": rare, "plain": plain}, weights={"rare": 0.6, "plain": 0.4}, stop=stop, **arguments)


@pytest.mark.parametrize("stop", ["first", "longest", 17])
def test_a_mixture_of_such_readers_stops_and_resumes_anywhere(stop):
    def job(batch_size, shard_id, num_shards):
        reader = mixture(stop, seed=3, shard_id=shard_id, num_shards=num_shards)
        rng = random.RNG(seed=3)

        def epoch():
            for (batch,) in reader.next_epoch(batch_size):
                yield batch, random.uniform(range=[0.0, 90.0], rng=rng.keyed(batch)["angle"])

        return {"reader": reader, "rng": rng}, epoch

    assert assert_resumable(job, batch_sizes=(2, 5), num_shards=(1, 3)).samples == len(mixture(stop))
    whole = mixture(stop, seed=3)
    found = list(given_by(whole))
    assert 105 not in found
    assert 7 not in found
    counts = checkpoint.verify_epoch([whole.get_state()], whole).counts
    assert counts == {f"{'rare' if i < 100 else 'plain'}/{i if i < 100 else i - 100}": found.count(i)
                      for i in [*range(8), *(n for n in range(100, 111) if n != 105)]}  # fmt: skip


def test_a_thousand_random_stops_give_the_run_without_one():
    rng = np.random.default_rng(1)

    def made():
        return mixture(997, seed=8)

    straight, expected = made(), []
    while len(expected) < 4 * 997:
        for (batch,) in straight.next_epoch(50):
            expected += zip(batch.origin.ids.tolist(), map(int, batch.samples), strict=True)
    found, state, reader = [], None, made()
    for stop in range(1000):
        if stop % 10 == 0:
            reader = made()
        if state is not None:
            reader.set_state(state)
        (batch,) = reader(int(rng.integers(1, 7)))
        found += zip(batch.origin.ids.tolist(), map(int, batch.samples), strict=True)
        state = moved(reader.get_state())
        reader(int(rng.integers(1, 9)))  # lost with the run
    assert found == expected[: len(found)]
    assert len(found) > 2500


def test_a_mixture_names_a_changed_child():
    state = mixture(31).get_state()
    rare = mapped(8, weights=[4, 1, 1, 1, 1, 1, 1, 0], num_samples=9, seed=5)
    plain = readers.Map(dataset=np.arange(100, 111), random_shuffle=True, where=lambda i: i != 106, seed=6)
    other = readers.Mix({"rare": rare, "plain": plain}, weights={"rare": 0.6, "plain": 0.4}, stop=31)
    with pytest.raises(StateMismatch) as told:
        other.set_state(state)
    assert "rare: weights: others for the same samples" in str(told.value)
    assert "plain: where: it selected 10 of the same 11 samples in the state, 10 here; 1 added" in str(told.value)


# -- other readers, pipelines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [
    {"where": lambda i: i % 2 == 1, "random_shuffle": True}, {"weights": np.arange(N), "seed": 2},
    {"weights": np.arange(N), "replacement": False, "num_samples": 5}, {"where": lambda i: i > 20},
])  # fmt: skip
def test_a_reader_with_the_order_of_another_has_its_choice(choice):
    def pair(**arguments):
        images = mapped(**choice, **arguments)
        return images, readers.Map(dataset=np.arange(N) + 1000, order_of=images)

    images, masks = pair()
    for one, other in zip(images.next_epoch(3), masks.next_epoch(3), strict=True):
        assert [int(n) + 1000 for n in one[0].samples] == [int(n) for n in other[0].samples]
        assert one[0].origin.ids.tolist() == other[0].origin.ids.tolist()
    assert len(images) == len(masks)
    images.seek(2)
    masks.seek(2)
    for reader, again in zip((images, masks), pair(), strict=True):
        again.set_state(moved(reader.get_state()))
        assert given_by(again) == given_by(reader)
    with pytest.raises(ArgumentError, match="'where' must be None with order_of"):
        mapped(order_of=images, where=lambda i: i > 1)
    with pytest.raises(ArgumentError, match="'weights' must be None with order_of"):
        mapped(order_of=images, weights=np.ones(N))


@pytest.mark.parametrize("choice", [{"where": lambda i: i % 2 == 1}, {"weights": np.arange(N), "num_samples": 30},
                                    {"where": lambda i: i > 3, "random_shuffle": True}])  # fmt: skip
@pytest.mark.parametrize("size", [3, 4])
def test_a_pipeline_draws_alike_and_keeps_pairs_together(choice, size):
    def made(size, text=None):
        @pipeline_def(batch_size=size, seed=1, checkpoint=text)
        def rows():
            images = fn.readers.map(dataset=np.arange(N), **choice)
            masks = fn.readers.map(dataset=np.arange(N) + 1000, random_shuffle=choice.get("random_shuffle", False))
            return images, masks, fn.random.uniform(range=(0.0, 1.0))

        return rows()

    def rows(pipe):
        return [
            tuple(float(x) for x in row)
            for outputs in pipe.next_epoch()
            for row in zip(*(o.tolist() for o in outputs), strict=True)
        ]

    expected = rows(made(1))
    assert [int(row[0]) for row in expected] == given_by(mapped(**choice))
    assert all(row[0] + 1000 == row[1] for row in expected)
    assert len({row[2] for row in expected}) == len(expected)
    pipe = made(size)
    epoch = pipe.next_epoch()
    first = [tuple(float(x) for x in row) for outputs in itertools.islice(epoch, 2)
             for row in zip(*(o.tolist() for o in outputs), strict=True)]  # fmt: skip
    assert first + rows(made(5, pipe.checkpoint())) == expected


def test_a_pipeline_tells_of_two_choices():
    @pipeline_def(batch_size=3)
    def rows():
        images = fn.readers.map(dataset=np.arange(N), random_shuffle=True)
        return images, fn.readers.map(dataset=np.arange(N) + 1, random_shuffle=True, where=lambda i: i > 3)

    with pytest.warns(OrderWarning, match="a selection or weights of its own"):
        rows().run()


def test_bad_samples_are_skipped_and_replaced_where_they_come_again():
    class Faulty:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i == 2:
                raise ValueError("gone")
            return np.int64(i)

    expected = given_by(mapped(4, weights=[1, 1, 5, 1], num_samples=20))
    skipping = readers.Map(dataset=Faulty(), weights=[1, 1, 5, 1], num_samples=20, on_error="skip")
    assert given_by(skipping) == [i for i in expected if i != 2]
    assert [failure.source for failure in skipping.skipped] == ["row 2"]
    replacing = readers.Map(dataset=Faulty(), weights=[1, 1, 5, 1], num_samples=20, on_error="replace")
    found = given_by(replacing)
    assert len(found) == 20
    assert all(i == j for i, j in zip(found, expected, strict=True) if j != 2)
    for reader in (skipping, replacing):
        assert checkpoint.verify_epoch([reader.get_state()], replacing).samples == 20


def test_external_sources_refuse_them():
    for argument in ("where", "weights", "replacement", "num_samples"):
        with pytest.raises(ArgumentError, match=f"ExternalSource.* has no argument '{argument}'. Its source decides"):
            readers.ExternalSource(lambda i: i, **{argument: 1})


@pytest.mark.parametrize("stop", [None, "longest"])
def test_partners_come_by_the_same_chances(stop):
    """For `mixup`: only samples that come in the epoch, whatever the batches are."""

    def found(batch_size):
        reader = mapped(weights=[i % 2 for i in range(N)], num_samples=200, seed=1)
        reader = reader if stop is None else readers.Mix({"a": reader}, stop=stop)
        rng, pairs = random.RNG(2), []
        for (batch,) in reader.next_epoch(batch_size):
            (others,) = reader.partners(rng.keyed(batch)["partners"])
            pairs += zip(batch.origin.ids.tolist(), map(int, others.samples), others.origin.ids.tolist(), strict=True)
        return pairs

    pairs = found(7)
    assert pairs == found(1)
    assert {other % 2 for _, other, _ in pairs} == {1}
    assert len({partner for _, _, partner in pairs}) > 100


def test_labels_of_several_kinds(tmp_path):
    files = [f"{i}.jpg" for i in range(6)]
    several = readers.File(file_root=tmp_path, files=files, labels=[[i, -i] for i in range(6)],
                           where=lambda name, labels: labels[1] < -3)  # fmt: skip
    assert several._names([0, 1]) == ["4.jpg", "5.jpg"]
    named = {"files": files, "labels": list("abcabc"), "num_samples": 30}
    by_class = readers.File(file_root=tmp_path, weights={"a": 0, "b": 1, "c": 0}, **named)
    assert set(by_class._order(_place(0)).tolist()) == {1, 4}
    floats = readers.File(file_root=tmp_path, files=files, labels=[0.5, 1.5] * 3, weights={0.5: 0, 1.5: 2})
    assert set(floats._order(_place(0)).tolist()) <= {1, 3, 5}
    rows = readers.File(file_root=tmp_path, files=files, labels=[[1, 2]] * 6, weights=dict.fromkeys(files, 1))
    assert len(rows) == 6


_DRAWN = "each as often as weights and seed say"


@pytest.mark.parametrize(("make", "told", "proved"), [
    (lambda **shard: mapped(where=lambda i: i < 9, random_shuffle=True, **shard),
     "0 of 9 samples given, shuffled, seed 0, 9 of 24 samples selected", "each of 9 samples once"),
    (lambda **shard: mapped(weights=np.arange(N), num_samples=11, seed=3, **shard),
     "0 of 11 samples given, drawn by weights with replacement, seed 3", f"11 samples, {_DRAWN}"),
    (lambda **shard: mixture(21, **shard), "0 of 21 samples given, mixed, seed 0", f"21 samples, {_DRAWN}"),
])  # fmt: skip
def test_the_command_line_tells_and_proves_epochs(make, told, proved, tmp_path, capsys):
    for k in range(2):
        reader = make(shard_id=k, num_shards=2)
        given_by(reader, 2)
        checkpoint.save(tmp_path / f"run-{k}.json", reader=reader)
    assert main(["show", str(tmp_path / "run-0.json")]) == 0
    assert f"epoch 1, {told}" in capsys.readouterr().out
    assert main(["verify", "--epoch", "reader", *(str(tmp_path / f"run-{k}.json") for k in range(2))]) == 0
    assert f"epoch 0: {proved}, on 2 shards" in capsys.readouterr().out
