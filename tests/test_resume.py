"""Stop anywhere, resume anywhere: chains of stops, killed processes, changed data sets, files that cannot be read."""

from __future__ import annotations

import itertools
import json
import os
import random as python_random
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dynamic import checkpoint
from dynamic._base.origin import sample_ids
from dynamic.errors import ArgumentError, DataError, StateError, StateMismatch, StateWarning
from dynamic.pipeline import fn, pipeline_def
from dynamic.pipeline._epochs import Epochs
from dynamic.random import RNG, uniform
from dynamic.readers import File
from dynamic.readers._sketch import MOST, changed, is_sketch, sketch, smallest

NAMES = [f"{i:02d}.bin" for i in range(60)]


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


def reader_of(root, names, **arguments):
    return File(files=names, labels=[0] * len(names), file_root=root, **arguments)


def shards_of(root, names, shards, **arguments):
    return [reader_of(root, names, num_shards=shards, shard_id=k, **arguments) for k in range(shards)]


def drawn(rng, jpegs):
    return uniform(range=(-30.0, 30.0), rng=rng.keyed(jpegs)["angle"]).tolist()


def steps_of_epoch(readers, rng, batch_size):
    """For each step of all shards (epoch, name, draw) of its samples in the epoch's order; nothing at its end."""
    loops = [reader.next_epoch(batch_size) for reader in readers]
    by_share = loops
    while all(by_share):
        by_share = [[] for _ in readers]
        for k, loop in enumerate(loops):
            batch = next(loop, None)
            if batch is not None:
                epoch = batch[0].origin.epoch
                pairs = zip(batch[0].origin.names, drawn(rng, batch[0]), strict=True)
                by_share[(k + epoch) % len(readers)] = [(epoch, *pair) for pair in pairs]
        if not all(by_share):
            assert [next(loop, None) for loop in loops] == [None] * len(loops)  # the step was the last of the epoch
        yield [share[i] for i in range(batch_size) for share in by_share if i < len(share)]


def steps(readers, rng, batch_size):
    """The same, epoch after epoch."""
    while True:
        yield from steps_of_epoch(readers, rng, batch_size)


def rest_of(readers, rng, batch_size):
    """What is left of the epoch."""
    return list(itertools.chain(*steps_of_epoch(readers, rng, batch_size)))


def place(reader):
    state = reader.get_state()
    return state["epoch"], state["position"]


def names_of(records):
    return [name for _, name, _ in records]


# Chains of stops


def run_chain(root, path, chance):
    """A run in several parts, each with shards and batches of its own, that pass on one checkpoint file.

    Returns how many parts it had.
    """
    names, seed, shuffle = NAMES[: chance.randint(1, 41)], chance.getrandbits(64), chance.random() < 0.7
    records, ends, parts = [], 0, chance.randint(2, 6)
    for part in range(parts):
        shards, batch_size = chance.randint(1, 5), chance.randint(1, 9)
        readers = shards_of(root, names, shards, random_shuffle=shuffle, seed=seed)
        rng, other = RNG(seed), RNG(0)
        if chance.random() < 0.5:  # they have been used for something else
            for reader in readers:
                reader.seek(chance.randint(0, len(names)), epoch=chance.randint(0, 5))
                list(reader.next_epoch(2))
                reader.seek(0, epoch=0)
            uniform(rng=other)
        if part:
            for reader in readers:
                checkpoint.load(path, reader=reader, rng=other)
            assert (other.state, readers[0].epoch) == (rng.state, ends)
        run = steps(readers, rng, batch_size)
        for step in itertools.islice(run, chance.randint(0, 14)):
            records += step
            ended = place(readers[0])[0] > ends
            ends += ended
            assert set(map(place, readers)) == {(ends, len(records) - ends * len(names))}
            if ended or place(readers[0])[1] == len(names):
                assert checkpoint.verify_epoch([reader.get_state() for reader in readers]).shards == shards
        checkpoint.save(path, reader=chance.choice(readers), rng=rng)
    while place(readers[0])[0] == ends:
        records += next(run)
    one = [reader_of(root, names, random_shuffle=shuffle, seed=seed)]
    assert records == [record for _ in range(ends + 1) for record in rest_of(one, rng, len(names))]
    return parts


@pytest.mark.slow
def test_chains_of_stops_are_one_run(root, tmp_path):
    """Every sample once an epoch, in the same order, with the same draws, and epochs end as they did."""
    chance = python_random.Random(0)
    assert sum(run_chain(root, tmp_path / "run.json", chance) for _ in range(200)) >= 400


RANK = """
import json, os, sys, time
from dynamic import checkpoint, random, readers
root, out, names, rank, ranks, epochs, state = json.loads(sys.argv[1])
reader = readers.File(files=names, file_root=root, shard_id=rank, num_shards=ranks, random_shuffle=True, seed=3)
rng = random.RNG(7)
if state:
    checkpoint.load(state, reader=reader, rng=rng)
log = os.open(f"{out}/log-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while reader.epoch < epochs:
    for jpegs, _ in reader.next_epoch(batch_size=2):
        angles = random.uniform(range=(-30.0, 30.0), rng=rng.keyed(jpegs)["angle"]).tolist()
        state = reader.get_state()
        records = [[state["epoch"], name, angle] for name, angle in zip(jpegs.origin.names, angles)]
        os.write(log, (json.dumps([state["epoch"], state["position"], records]) + "\\n").encode())
        checkpoint.save(f"{out}/{rank}-{state['epoch']:04d}-{state['position']:04d}", reader=reader, rng=rng)
        time.sleep(0.005)
"""


def started(root, out, names, ranks, epochs, state=""):
    out.mkdir()
    told = [json.dumps([str(root), str(out), names, k, ranks, epochs, state]) for k in range(ranks)]
    return [subprocess.Popen([sys.executable, "-c", RANK, arguments]) for arguments in told]


def logged(out, ranks):
    """For each rank and place what was given in the step before it; whole lines only."""
    return [{(epoch, position): records for epoch, position, records in map(json.loads, lines)}
            for k in range(ranks) for lines in [(out / f"log-{k}").read_text().split("\n")[:-1]]]  # fmt: skip


def in_mid_epoch(out, ranks):
    """The newest place in mid-epoch that all ranks have saved."""
    saved = [{path.name.partition("-")[2] for path in out.glob(f"{k}-*-*")} for k in range(ranks)]
    places = [tuple(map(int, place.split("-"))) for place in set.intersection(*saved)]
    return max((place for place in places if place[0] and place[1] < 41), default=None)


@pytest.mark.slow
def test_three_killed_processes_go_on_as_two(root, tmp_path):
    names, first, second = NAMES[:41], tmp_path / "first", tmp_path / "second"
    processes = started(root, first, names, 3, 1000)
    limit = time.monotonic() + 120
    try:
        while in_mid_epoch(first, 3) is None and time.monotonic() < limit:
            time.sleep(0.002)
    finally:
        for process in processes:
            assert process.poll() is None, "a rank ended before it was killed"
            process.send_signal(signal.SIGKILL)
            process.wait()
    epoch, position = place = in_mid_epoch(first, 3)
    state = first / f"1-{epoch:04d}-{position:04d}"
    for process in started(root, second, names, 2, epoch + 2, str(state)):
        assert process.wait(timeout=120) == 0
    records = [record for log in logged(first, 3) for made, step in log.items() if made <= place for record in step]
    records += [record for log in logged(second, 2) for step in log.values() for record in step]
    one, rng = [reader_of(root, names, random_shuffle=True, seed=3)], RNG(7)
    expected = [list(record) for _ in range(epoch + 2) for record in rest_of(one, rng, 9)]
    assert sorted(records) == sorted(expected)


# What changed


@given(st.sets(st.integers(0, 2**64 - 1), max_size=60), st.sets(st.integers(0, 2**64 - 1), max_size=9), st.data())
def test_a_sketch_tells_what_was_added_and_how_much_removed(ids, more, data):
    gone = set(data.draw(st.lists(st.sampled_from(sorted(ids)), max_size=9))) if ids else set()
    now = data.draw(st.permutations(sorted((ids - gone) | more)))
    added = sorted(more - (ids - gone) - (gone & more))
    removed = len(gone - more)
    before = sketch(np.array(sorted(ids), np.uint64))
    assert is_sketch(before)
    found = changed(before, len(ids), np.array(now, np.uint64))
    if len(added) + removed > MOST:
        assert found is None
    else:
        assert found is not None
        assert (sorted(now[i] for i in found.added), found.removed) == (added, removed)


def test_a_sketch_of_many_is_no_larger():
    ids = np.random.default_rng(1).integers(0, 2**64, 200_000, np.uint64)
    before = sketch(ids)
    assert len(before) == len(sketch(ids[:16]))
    assert smallest(before).tolist() == sorted(ids.tolist())[:16]
    assert smallest(sketch(ids[:3])).tolist() == sorted(ids[:3].tolist())
    found = changed(before, len(ids), np.concatenate([ids[5:], np.array([7, 8], np.uint64)]))
    assert (found.added.tolist(), found.removed) == ([199_995, 199_996], 5)
    assert changed(before, len(ids), ids[100:]) is None
    assert changed(before, len(ids), np.concatenate([ids[100:], ids[:100] + np.uint64(1)])) is None


runs_of_shards = st.tuples(st.integers(1, 4), st.integers(1, 5))


@st.composite
def edits(draw):
    before = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=25).map(sorted))
    gone = draw(st.sets(st.sampled_from(before), max_size=5))
    more = draw(st.sets(st.sampled_from(sorted(set(NAMES) - set(before))), max_size=5))
    after = sorted((set(before) - gone) | more)
    assume(after)
    return before, after


@pytest.mark.parametrize("back", [False, True])
def test_what_was_gone_at_a_resume_and_is_back_at_the_next_is_new(root, back):
    """A state has no room for what is no more there. From the next epoch on each comes once."""
    reader = reader_of(root, NAMES, random_shuffle=True)
    seen = [*reader(3)[0].origin.names]
    without = [name for name in NAMES if name != seen[0]]
    for names in (without, NAMES if back else without):
        state = reader.get_state()
        reader = reader_of(root, names, random_shuffle=True, on_mismatch="adapt")
        reader.set_state(state)
        seen += reader(2)[0].origin.names
    seen += [name for batch, _ in reader.next_epoch(4) for name in batch.origin.names]
    assert sorted(seen) == sorted([*NAMES, seen[0]] if back else NAMES)
    assert sorted(name for batch, _ in reader.next_epoch(4) for name in batch.origin.names) == sorted(names)


@pytest.mark.parametrize("shuffle", [True, False])
@given(edit=edits(), first=runs_of_shards, parts=st.lists(runs_of_shards, min_size=1, max_size=3),
       count=st.sampled_from([1, 2, 3, 0, 7]), seed=st.integers(0, 3))  # fmt: skip
@example(edit=(NAMES[3:7], [*NAMES[1:3], *NAMES[4:6], *NAMES[7:9]]), first=(1, 1), parts=[(2, 1)], count=2, seed=0)
def test_adapting_gives_exactly_what_was_not_given(root, shuffle, edit, first, parts, count, seed):
    """After any edit, on any shards; and a run that was adapted may be stopped again."""
    before, after = edit
    rng, seen = RNG(1), []
    readers = shards_of(root, before, first[0], random_shuffle=shuffle, seed=seed)
    for step in itertools.islice(steps(readers, rng, first[1]), count):
        seen += step
    state = readers[0].get_state()
    epoch = state["epoch"]
    seen = [name for made, name, _ in seen if made == epoch]
    ids = {f"{explained.id:016x}" for explained in map(reader_of(root, after).explain, after)}
    given_late = []
    for shards, batch_size in parts:
        readers = shards_of(root, after, shards, random_shuffle=shuffle, seed=seed, on_mismatch="adapt")
        if state["position"] and not given_late and not set(before) & set(after):
            with pytest.raises(StateMismatch, match="None of the samples that the state names is here"):
                readers[0].set_state(state)
            return
        if not shuffle and state["position"] and state["last"] not in ids and before != after:
            with pytest.raises(StateError, match="no telling"):  # where in the list the last one was
                readers[0].set_state(state)
            return
        for reader in readers:
            reader.set_state(state)
        assert readers[0].epoch == epoch
        run = steps(readers, rng, batch_size)
        given_late += names_of(next(run))
        state = json.loads(json.dumps(readers[-1].get_state()))
        if state["epoch"] > epoch:
            break
    while place(readers[0])[0] == epoch:
        given_late += names_of(next(run))
    assert sorted(given_late) == sorted(set(after) - set(seen))
    assert checkpoint.verify_epoch([reader.get_state() for reader in readers]).samples == len(after)
    assert readers[0].get_state()["late"] == []
    assert sorted(names_of(rest_of(readers, rng, batch_size))) == after


@given(st.integers(1, 20), st.integers(0, 20), st.sampled_from([{"seed": 1}, {"random_shuffle": False}, {}]),
       st.sampled_from([{"seed": 2}, {"random_shuffle": False}]), runs_of_shards)  # fmt: skip
def test_adapting_to_another_order_ends_the_epoch_by_the_old_one(root, n, position, old, new, part):
    names, rng = NAMES[:n], RNG(1)
    one = [reader_of(root, names, **{"random_shuffle": True} | old)]
    position = min(position, n)
    given_before = names_of(rest_of(one, rng, 4))[:position]
    one[0].seek(position, epoch=0)
    readers = shards_of(root, names, part[0], **{"random_shuffle": True} | new, on_mismatch="adapt")
    for reader in readers:
        reader.set_state(one[0].get_state())
    assert given_before + names_of(rest_of(readers, rng, part[1])) == given_before + names_of(rest_of(one, rng, 4))
    fresh = [reader_of(root, names, **{"random_shuffle": True} | new)]
    fresh[0].seek(0, epoch=1)
    assert rest_of(readers, rng, part[1]) == rest_of(fresh, rng, 4)


def test_a_reader_in_an_epoch_of_another_order_takes_its_own_states_back(root, tmp_path):
    """Also when a load fails, and all objects go back to where they were."""
    first, second = (reader_of(root, NAMES[:9], random_shuffle=True, seed=seed) for seed in (1, 2))
    first(4)
    second.set_state(first.get_state(), on_mismatch="adapt")
    second(2)
    state = second.get_state()
    assert state["seed"] == 1
    second(2)
    second.set_state(state)
    assert second.get_state() | {"given": ""} == state | {"given": ""}
    other = reader_of(root, NAMES[:9], random_shuffle=True, seed=2)
    other(1)
    checkpoint.save(tmp_path / "run.json", reader=other, rng=RNG(1))

    class Refusing(RNG):
        __qualname__ = "RNG"

        def set_state(self, state):
            if self.state != RNG(state=state).state:
                raise StateError("no")

    with pytest.raises(StateError, match="no"):
        checkpoint.load(tmp_path / "run.json", reader=second, rng=Refusing(7))
    assert (second.epoch, second.position, second.get_state()["last"]) == (0, 6, state["last"])
    with pytest.raises(StateMismatch, match="seed: 1 in the state, 2 here"):
        other.set_state(state)


@pytest.mark.parametrize("shuffle", [True, False])
def test_half_a_data_set_goes_on_with_what_is_left(root, shuffle):
    names, rng = NAMES[:40], RNG(1)
    readers = [reader_of(root, names, random_shuffle=shuffle)]
    seen = [name for step in itertools.islice(steps(readers, rng, 4), 4) for name in names_of(step)]
    half = [name for i, name in enumerate(names) if i % 2]
    other = reader_of(root, half, random_shuffle=shuffle)
    state = readers[0].get_state()
    with pytest.raises(StateMismatch, match=r"samples: 40 in the state, 20 here; names: more than 11 were") as caught:
        other.set_state(state)
    assert caught.value.differences[0] == "samples: 40 in the state, 20 here"
    with pytest.warns(StateWarning, match="new ones may have to wait"):
        other.set_state(state, on_mismatch="adapt")
    assert sorted(names_of(rest_of([other], rng, 3))) == sorted(set(half) - set(seen))


@given(seed=st.integers(0, 9), position=st.integers(1, 29), gone=st.sets(st.sampled_from(NAMES[:30]), min_size=12),
       named=st.booleans(), shuffle=st.booleans())  # fmt: skip
def test_where_too_much_has_changed_a_sample_that_is_still_here_is_the_proof(
    root, seed, position, gone, named, shuffle
):
    """Where none of those that a state names is here, nobody knows whether the others have the names that they had."""
    one = reader_of(root, NAMES[:30], random_shuffle=shuffle, seed=seed)
    order = names_of(rest_of([one], RNG(1), 30))
    one.seek(position, epoch=0)
    ids = dict(zip(sample_ids([name.encode() for name in NAMES[:30]]).tolist(), NAMES, strict=False))
    proofs = {order[position - 1], *(ids[i] for i in sorted(ids)[:16])}
    gone = gone if named else gone | proofs
    left = [name for name in NAMES[:30] if name not in gone]
    assume(left)
    other = reader_of(root, left, random_shuffle=shuffle, seed=seed)
    if not proofs - gone or (not shuffle and order[position - 1] in gone):
        told = "There is no telling" if proofs - gone else "None of the samples that the state names is here"
        with pytest.raises(StateMismatch, match=told) as caught:
            other.set_state(one.get_state(), on_mismatch="adapt")
        assert caught.value.differences[1] == "names: more than 11 were added or removed"
        assert (other.epoch, other.position) == (0, 0)
    else:
        with pytest.warns(StateWarning, match="Every sample of the epoch that is still there will be given once"):
            other.set_state(one.get_state(), on_mismatch="adapt")
        assert sorted(names_of(rest_of([other], RNG(1), 4))) == sorted(set(left) & set(order[position:]))


@given(n=st.integers(1, 30), more=st.integers(0, 5), position=st.integers(1, 30), shuffle=st.booleans())
def test_samples_that_all_have_other_names_are_not_adapted_to(root, n, more, position, shuffle):
    one, names = (
        reader_of(root, NAMES[:n], random_shuffle=shuffle),
        [f"{root.name}/{name}" for name in NAMES[: n + more]],
    )
    one.seek(min(position, n))
    other = reader_of(root.parent, names, random_shuffle=shuffle, on_mismatch="adapt")
    before = other.get_state()
    with pytest.raises(StateMismatch, match="None of the samples that the state names is here"):
        other.set_state(one.get_state())
    assert other.get_state() == before


def test_a_warning_keeps_the_position(root):
    first = reader_of(root, NAMES[:9], random_shuffle=True)
    first(4)
    other = reader_of(root, NAMES[:3], random_shuffle=True, seed=5, on_mismatch="warn")
    with pytest.warns(StateWarning, match=r"seed: 0 in the state, 5 here; names: 6 removed.*position") as caught:
        other.set_state(first.get_state())
    assert caught[0].filename == __file__
    assert (other.epoch, other.position) == (0, 3)
    with pytest.raises(ArgumentError, match="'on_mismatch' must be 'raise', 'warn' or 'adapt'"):
        other.set_state(first.get_state(), on_mismatch="ignore")


def test_what_cannot_be_adapted_is_refused_and_changes_nothing(root):
    swapped = reader_of(root, NAMES[4::-1])
    first = reader_of(root, NAMES[:5])
    first(2)
    before = swapped.get_state()
    with pytest.raises(StateError, match="no telling"):
        swapped.set_state(first.get_state(), on_mismatch="adapt")
    first(1)
    with pytest.raises(StateError, match="no telling"):  # the last one is where it was, others are not
        reader_of(root, [NAMES[i] for i in (0, 3, 2, 1, 4)]).set_state(first.get_state(), on_mismatch="adapt")
    dealt = reader_of(root, NAMES[:5], random_shuffle=True, num_shards=2, stick_to_shard=True)
    dealt(1)
    with pytest.raises(StateError, match="no telling"):
        reader_of(root, NAMES[:6], random_shuffle=True).set_state(dealt.get_state(), on_mismatch="adapt")
    assert swapped.get_state() == before


@pytest.mark.parametrize("change", [{"late": ["0" * 16]}, {"late": [3]}, {"late": ["x" * 16]}, {"sketch": "AAAA"},
                                    {"given": "1"}, {"given": "1:zz"}, {"skipped": ["0"]}, {"dealt": 0}, {"whole": ""},
                                    {"samples": 3}])  # fmt: skip
def test_a_state_that_was_tampered_with_is_refused(root, change):
    reader = reader_of(root, NAMES[:9], random_shuffle=True)
    reader(4)
    state = reader.get_state()
    with pytest.raises(StateError, match=next(iter(change)) if "samples" not in change else "'position' is 4 of 3"):
        reader.set_state(state | change)
    assert reader.get_state() == state


# Proof of an epoch


def test_an_epoch_that_was_not_whole_is_told(root):
    readers = shards_of(root, NAMES[:10], 2, random_shuffle=True)
    for reader in readers:
        reader(3)
    states = [reader.get_state() for reader in readers]
    with pytest.raises(StateError, match="Epoch 0 is not over: 6 of 10"):
        checkpoint.verify_epoch(states)
    for reader in readers:
        list(reader.next_epoch(3))
    states = [reader.get_state() for reader in readers]
    assert checkpoint.verify_epoch(states) == (0, 10, 2, ())
    with pytest.raises(StateError, match="5 samples were given by 1 shards"):
        checkpoint.verify_epoch(states[:1])
    with pytest.raises(StateError, match="more than once"):
        checkpoint.verify_epoch([states[0], states[0]])
    readers[0](1)
    with pytest.raises(StateError, match="'epoch' is|'position' is"):
        checkpoint.verify_epoch([reader.get_state() for reader in readers])
    with pytest.raises(ArgumentError, match="'states'"):
        checkpoint.verify_epoch([])
    for name, kind in (("epoch", str), ("position", float), ("samples", bool), ("skipped", str), ("given", list)):
        with pytest.raises(StateError, match="not a state of a reader"):
            checkpoint.verify_epoch([{**states[0], name: kind(states[0][name])}, states[1]])
    with pytest.raises(StateError, match="not a state of a reader"):
        checkpoint.verify_epoch([{"epoch": 1}])


class Broken:
    """What takes no state, so that a load of it fails."""

    def get_state(self):
        return {}

    def set_state(self, state):
        raise StateError("broken")


@given(n=st.integers(1, 20), position=st.integers(0, 20), part=runs_of_shards, shuffle=st.booleans(),
       failing=st.lists(st.integers(0, 3), max_size=4))  # fmt: skip
def test_a_load_that_fails_leaves_no_trace(root, tmp_path_factory, n, position, part, shuffle, failing):
    """Also of what a state does not tell: what a shard was given before there were as many as now."""
    one = reader_of(root, NAMES[:n], random_shuffle=shuffle)
    one.seek(min(position, n))
    readers, rng = shards_of(root, NAMES[:n], part[0], random_shuffle=shuffle), RNG(1)
    for reader in readers:
        reader.set_state(one.get_state())
    path = checkpoint.save(tmp_path_factory.getbasetemp() / "failing.json", reader=one, broken=Broken())
    run = steps(readers, rng, part[1])
    for k in failing:
        if place(readers[0])[0] == 0:
            next(run)
        before = readers[k % part[0]].get_state()
        with pytest.raises(StateError, match="broken"):
            checkpoint.load(path, reader=readers[k % part[0]], broken=Broken())
        assert readers[k % part[0]].get_state() == before
    while place(readers[0])[0] == 0:
        next(run)
    if any(reader.get_state()["given"] != "0:0000000000000000" for reader in readers):
        assert checkpoint.verify_epoch([reader.get_state() for reader in readers]) == (0, n, part[0], ())


def test_a_load_that_fails_keeps_why_samples_were_skipped_and_what_was_adopted(root, tmp_path):
    names = [*NAMES[:3], "gone"]
    reader = reader_of(root, names, on_error="skip", max_batch_size=4)
    reader()
    skipped, before = reader.skipped, reader.get_state()
    assert skipped[0].reason == "No such file or directory"
    path = checkpoint.save(tmp_path / "run.json", reader=reader, broken=Broken())
    with pytest.raises(StateError, match="broken"):
        checkpoint.load(path, reader=reader, broken=Broken())
    assert (reader.skipped, reader.get_state()) == (skipped, before)
    Epochs("Dataset", reader, 2).check({"reader": reader_of(root, names).get_state()})
    assert (reader.skipped, reader.get_state()) == (skipped, before)
    other = reader_of(root, names, random_shuffle=True, on_mismatch="adapt")
    with pytest.raises(StateError, match="broken"):
        checkpoint.load(path, reader=other, broken=Broken())
    with pytest.raises(StateMismatch, match="shuffle: False in the state, True here"):
        other.set_state(before, on_mismatch="raise")


@pytest.mark.parametrize("depth", [0, 2])
def test_a_run_that_fails_and_is_made_again_is_in_the_proof_as_if_it_had_not(root, depth):
    failing = []

    def made(shard_id, num_shards, batch_size, **arguments):
        @pipeline_def(batch_size=batch_size, seed=1, prefetch_queue_depth=depth)
        def function():
            _, labels = fn.readers.file(name="reader", file_root=root, files=NAMES[:9], shard_id=shard_id,
                                        num_shards=num_shards)  # fmt: skip
            if failing and failing.pop():
                raise OSError("disk")
            return labels

        return function(**arguments)

    one = made(0, 1, 3)
    one.run()
    states = []
    for shard_id in range(2):
        pipe = made(shard_id, 2, 2, checkpoint=one.checkpoint())
        runs = 0
        failing[:] = [True, False] * (not shard_id)  # its second run
        while runs < 2:
            try:
                pipe.run()
                runs += 1
            except OSError:
                pass
        states.append(json.loads(pipe.checkpoint())["states"]["reader"]["state"])
        pipe.close()
    assert checkpoint.verify_epoch(states) == (0, 9, 2, ())


def test_samples_that_were_dropped_are_missing_from_the_proof(root):
    readers = shards_of(root, NAMES[:10], 2, last_batch="drop")
    for reader in readers:
        list(reader.next_epoch(2))
    with pytest.raises(StateError, match=r"In epoch 0 8 samples were given .* last_batch='drop' leave the rest"):
        checkpoint.verify_epoch([reader.get_state() for reader in readers])
    none = shards_of(root, NAMES[:2], 3, last_batch="drop")
    assert [list(reader.next_epoch(2)) for reader in none] == [[]] * 3
    with pytest.raises(StateError, match=r"In epoch 0 0 samples were given .* last_batch='drop' leave the rest"):
        checkpoint.verify_epoch([reader.get_state() for reader in none])
    padded = shards_of(root, NAMES[:10], 2, last_batch="pad")
    assert [sum(len(jpegs) for jpegs, _ in reader.next_epoch(4)) for reader in padded] == [8, 8]
    assert checkpoint.verify_epoch([reader.get_state() for reader in padded]).samples == 10


# Files that cannot be read


@pytest.fixture
def holes(tmp_path):
    """A folder that lacks some of the files that are asked for."""
    bad = {NAMES[i] for i in (1, 4, 5, 9)}
    for name in NAMES[:10]:
        if name not in bad:
            (tmp_path / name).write_bytes(name.encode())
    return tmp_path, bad


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10])
@pytest.mark.parametrize("shards", [1, 3])
def test_bad_files_are_skipped_and_listed(holes, batch_size, shards):
    folder, bad = holes
    readers = shards_of(folder, NAMES[:10], shards, random_shuffle=True, on_error="skip")
    rng = RNG(1)
    counts = [len(reader.next_epoch(batch_size)) for reader in readers]
    given_out = [[jpegs for jpegs, labels in reader.next_epoch(batch_size) if len(labels) == len(jpegs)]
                 for reader in readers]  # fmt: skip
    assert [len(batches) for batches in given_out] == counts  # a step of bad samples alone is an empty batch
    names = [name for batches in given_out for jpegs in batches for name in jpegs.origin.names]
    assert sorted(names) == sorted(set(NAMES[:10]) - bad)
    assert {failure.source.rsplit("/")[-1] for reader in readers for failure in reader.skipped} == bad
    assert all("No such file" in failure.reason for reader in readers for failure in reader.skipped)
    states = [reader.get_state() for reader in readers]
    assert len(checkpoint.verify_epoch(states).skipped) == 4
    again = shards_of(folder, NAMES[:10], shards, random_shuffle=True, on_error="skip")
    for reader, state in zip(again, states, strict=True):
        reader.set_state(state)
    assert checkpoint.verify_epoch(states) == checkpoint.verify_epoch([reader.get_state() for reader in again])
    assert {failure.source for reader in again for failure in reader.skipped} == bad
    assert rest_of(again, rng, 5) == rest_of(readers, rng, 5)  # a resume repeats them


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_worker_knows_what_it_could_not_read_itself(holes, on_error, workers):
    """Of n workers each passes over the batches of the others without reading them."""
    folder, bad = holes

    def states(skip, stride):
        made = Epochs("Dataset", reader_of(folder, NAMES[:10], random_shuffle=True, on_error=on_error), 2)
        return [state["reader"] for outputs, state, *_ in made.rest(made.first, skip, stride) if outputs]

    alone = states(0, 1)
    shared = [states(k, workers) for k in range(workers)]
    for i, state in enumerate(alone):
        other = shared[i % workers][i // workers]
        assert set(other["skipped"]) <= set(state["skipped"])
        assert other | {"skipped": []} == state | {"skipped": []}
    lists = [of_one[-1]["skipped"] for of_one in shared]
    assert sorted(i for of_one in lists for i in of_one) == sorted(alone[-1]["skipped"])
    assert len(alone[-1]["skipped"]) == len(bad)


def test_single_samples_are_skipped_on_one_shard_only(holes):
    folder, bad = holes
    reader = reader_of(folder, NAMES[:10], on_error="skip")
    assert [bytes(jpeg.array).decode() for jpeg, _ in reader.next_epoch()] == [n for n in NAMES[:10] if n not in bad]
    reader.seek(4)
    assert [bytes(pair[0].array) for pair in (reader.peek(), reader(), reader.peek())] == [
        b"06.bin",
        b"06.bin",
        b"07.bin",
    ]
    reader.seek(9)
    with pytest.raises(IndexError, match="no more"):
        reader.peek()
    assert bytes(reader()[0].array) == b"00.bin"  # of the next epoch
    with pytest.raises(ArgumentError, match="'batch_size' must be given with on_error='skip'"):
        reader_of(folder, NAMES[:10], on_error="skip", num_shards=2).next_epoch()


@pytest.mark.parametrize(("batch_size", "shards"), [(1, 1), (3, 1), (10, 1), (2, 3)])
def test_bad_files_are_replaced_by_the_next_of_the_order(holes, batch_size, shards):
    folder, bad = holes
    one = [reader_of(folder, NAMES[:10], random_shuffle=True, on_error="replace")]
    order = [one[0].explain(name).place for name in NAMES[:10]]
    by_place = [NAMES[order.index(i)] for i in range(10)]
    expected = [next(n for n in by_place[i:] + by_place[:i] if n not in bad) for i in range(10)]
    readers = shards_of(folder, NAMES[:10], shards, random_shuffle=True, on_error="replace")
    assert names_of(rest_of(readers, RNG(1), batch_size)) == expected
    states = [reader.get_state() for reader in readers]
    assert checkpoint.verify_epoch(states).skipped == tuple(
        sorted(f"{readers[0].explain(name).id:016x}" for name in bad)
    )


def test_where_nothing_can_be_read_replacing_is_an_error(tmp_path):
    reader = reader_of(tmp_path, NAMES[:3], on_error="replace")
    with pytest.raises(DataError, match=r"2 of 2 samples cannot be read"):
        reader(2)
    assert (reader.position, reader.skipped) == (0, [])


# Anywhere in time


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 3), st.booleans())
def test_seeking_and_peeking(root, n, position, epoch, shuffle):
    names, rng = NAMES[:n], RNG(1)
    position = min(position, n)
    readers = [reader_of(root, names, random_shuffle=shuffle)]
    expected = [rest_of(readers, rng, 4) for _ in range(epoch + 1)][-1]
    readers[0].seek(position, epoch=epoch)
    state = readers[0].get_state()
    if position < n:
        peeked = readers[0].peek(batch_size=3)[0]
        assert list(peeked.origin.names) == names_of(expected[position : position + 3])
    else:
        with pytest.raises(IndexError, match=f"epoch {epoch} has no more"):
            readers[0].peek(batch_size=3)
    assert readers[0].get_state() == state
    assert rest_of(readers, rng, 3) == expected[position:]
    readers[0].set_epoch(epoch)
    readers[0].seek(position)
    readers[0].set_epoch(epoch)  # it is there already
    assert (readers[0].epoch, readers[0].position) == (epoch, position)


def test_a_place_that_is_none_cannot_be_sought(root):
    reader = reader_of(root, NAMES[:3])
    with pytest.raises(ArgumentError, match=r"seek\(\): argument 'position' must be an integer in \[0, 3\]"):
        reader.seek(4)
    with pytest.raises(ArgumentError, match=r"'epoch'"):
        reader.seek(0, epoch=-1)
    with pytest.raises(ArgumentError, match=r"set_epoch\(\): argument 'epoch'"):
        reader.set_epoch(1.5)


@given(st.one_of(st.integers(0, 2**64 - 1), st.integers(0), st.sampled_from([2**64 - 1, 2**64, 10**400])))
def test_an_epoch_that_can_be_reached_can_be_saved_and_drawn_in(root, epoch):
    reader, state = (
        reader_of(root, NAMES[:3], random_shuffle=True),
        reader_of(root, NAMES[:3], random_shuffle=True).get_state(),
    )
    if epoch >= 2**64:
        for go in (
            lambda: reader.seek(1, epoch),
            lambda: reader.set_epoch(epoch),
            lambda: reader.explain(NAMES[0], epoch),
        ):
            with pytest.raises(ArgumentError, match="argument 'epoch' must be an integer in"):
                go()
        with pytest.raises(StateError, match="'epoch' is int"):
            reader.set_state(state | {"epoch": epoch})
        with pytest.raises(StateError, match="'seed' is int"):
            reader.set_state(state | {"seed": epoch})
        assert reader.get_state() == state
        return
    reader.seek(1, epoch)
    other = reader_of(root, NAMES[:3], random_shuffle=True)
    states = checkpoint.Checkpoint()
    states.register(reader, "reader")
    states.collect()
    again = checkpoint.Checkpoint()
    again.deserialize(states.serialize())
    again.register(other, "reader")
    assert other.epoch == epoch
    (jpegs, _), (same, _) = reader(2), other(2)
    assert (place(other)[0], drawn(RNG(1), same)) == (epoch, drawn(RNG(1), jpegs))


def test_what_lacks_and_what_is_too_much_in_a_state_are_told_apart(root):
    reader = reader_of(root, NAMES[:3])
    state = reader.get_state()
    with pytest.raises(StateError, match=r"not a state of a reader: it lacks 'contents', .*; it has 'algorithm', "
                                         r"'state', as no reader's state\. Use a state") as told:  # fmt: skip
        reader.set_state(RNG(1).get_state())
    assert "'epoch'" in str(told.value)
    with pytest.raises(StateError, match=r"not a state of a reader: it lacks 'late'\. Use a state"):
        reader.set_state({key: value for key, value in state.items() if key != "late"})
    with pytest.raises(StateError, match=r"not a state of a reader: it has 'more', 3, as no reader's state\. Use"):
        reader.set_state(state | {"more": 1, 3: 4})


@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_a_sample_can_be_explained(root, n, shards, made, epoch, stick):
    names, rng = NAMES[:n], RNG(1)
    readers = shards_of(root, names, shards, random_shuffle=True, stick_to_shard=stick)
    for reader in readers:
        reader.seek(min(made * shards, n), epoch=epoch)
    told = {name: readers[0].explain(name) for name in names}
    assert sorted(explanation.place for explanation in told.values()) == list(range(n))
    assert sum(explanation.given for explanation in told.values()) == readers[0].position
    for k, reader in enumerate(readers):
        for jpegs, _ in reader.next_epoch(1):
            assert told[jpegs.origin.names[0]].shard == k
            assert told[jpegs.origin.names[0]].id == jpegs.origin.ids[0]
    some = told[names[0]]
    for sample in (some.id, f"{some.id:016x}"):
        assert readers[0].explain(sample, epoch=epoch)[:4] == some[:4]
    jpegs, _ = reader_of(root, names, random_shuffle=True)(n)
    draws = dict(zip(jpegs.origin.names, drawn(rng, jpegs), strict=True))
    keyed = rng.keyed([some.id], 0)["angle"]
    assert uniform(range=(-30.0, 30.0), rng=keyed).tolist() == [draws[names[0]]]
    assert f"{names[0]!r} (id {some.id:016x}) has place {some.place} in epoch {epoch} and " in str(some)
    for unknown in ("nothing", 3, -1, 2**64, 1.5, None, "f" * 16):
        with pytest.raises(ArgumentError, match="'sample' must be the name or id"):
            readers[0].explain(unknown)


# Launchers and forks


@pytest.mark.parametrize(("word", "names"), [("torchrun", ("RANK", "WORLD_SIZE")),
                                             ("slurm", ("SLURM_PROCID", "SLURM_NTASKS"))])  # fmt: skip
def test_a_launcher_says_which_shard(root, monkeypatch, word, names):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ArgumentError, match=f"no {names[0]} in the environment"):
        reader_of(root, NAMES[:3], shard=word)
    monkeypatch.setenv(names[0], "1")
    monkeypatch.setenv(names[1], "3")
    reader = reader_of(root, NAMES[:3], shard=word)
    assert f"shard 1 of 3 (from {word})" in repr(reader)
    assert [jpegs.origin.names for jpegs, _ in reader.next_epoch(5)] == [NAMES[1:2]]
    with pytest.raises(ArgumentError, match="'shard_id' must be left out"):
        reader_of(root, NAMES[:3], shard=word, shard_id=1)
    for wrong in ("3", "x", "-1"):
        monkeypatch.setenv(names[0], wrong)
        with pytest.raises(ArgumentError, match=f"{names[0]}='?{wrong}"):
            reader_of(root, NAMES[:3], shard=word)
    with pytest.raises(ArgumentError, match="'torchrun' or 'slurm'"):
        reader_of(root, NAMES[:3], shard="mpi")


def test_torch_says_which_shard(root, monkeypatch):
    """Where its process group is initialised, by whatever launcher."""
    torch = types.ModuleType("torch")
    torch.distributed = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: False, get_rank=lambda: 1, get_world_size=lambda: 3
    )
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(ArgumentError, match="'torch', which is not installed"):
        reader_of(root, NAMES[:3], shard="torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    with pytest.raises(ArgumentError, match=r"where torch\.distributed is initialised.*init_process_group\(\) first"):
        reader_of(root, NAMES[:3], shard="torch")
    torch.distributed.is_initialized = lambda: True
    reader = reader_of(root, NAMES[:3], shard="torch")
    assert "shard 1 of 3 (from torch)" in repr(reader)
    assert [jpegs.origin.names for jpegs, _ in reader.next_epoch(5)] == [NAMES[1:2]]
    with pytest.raises(ArgumentError, match="'num_shards' must be left out with shard='torch'"):
        reader_of(root, NAMES[:3], shard="torch", num_shards=3)


def test_a_reader_imports_no_torch_unless_asked(root):
    code = "import sys; from dynamic.readers import File; File(file_root=sys.argv[1], files=['a'], labels=[0])"
    command = [sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules", str(root)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_another_thread_reads_leaves_a_reader_that_works(root):
    reader = reader_of(root, NAMES[:9])
    locked, done = threading.Event(), threading.Event()

    def hold():
        with reader._lock:
            locked.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
        child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if len(reader(4)[0]) == 4 else 1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.slow
def test_the_state_of_a_million_samples_is_small(tmp_path):
    names = [f"{i:07d}.jpg" for i in range(1_000_000)]
    reader = File(files=names, file_root=tmp_path, random_shuffle=True)
    reader.seek(654_321)
    state = reader.get_state()
    assert len(json.dumps(state)) < 1000
    again = File(files=names[1:], file_root=tmp_path, random_shuffle=True, on_mismatch="adapt")
    again.set_state(state)
    assert again.position == 654_321 - reader.explain(names[0]).given
