"""Files that DALI's dynamic mode saved: generators go on bit for bit, whatever else is in them or wrong with them."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from dali_oracle import Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

from dynamic import checkpoint
from dynamic.checkpoint import Checkpoint
from dynamic.errors import StateError, StateWarning
from dynamic.random import RNG, uniform
from dynamic.readers import File

#: Written by DALI 2.4.0: a reader in the middle of an epoch, an RNG of seed 1234 after two draws of three numbers, and
#: one of seed 2**64 - 1 that has passed over a million words.
PHILOX = "Philox_00000000000004D2_0000000000000000:0000000000000003_2"
FAR = "Philox_FFFFFFFFFFFFFFFF_0000000000000000:000000000003D090_0"
GENERATORS = (
    f'"rng": {{"state": "{PHILOX}", "type": "RNG"}}, "fl\\u00e9 \\ud83d\\ude00": {{"state": "{FAR}", "type": "RNG"}}'
)
READER = "ChAKCjE1NjUxNTg0MzgQABgD"
OF_READERS = {
    kind: f'{{"version": 2, "states": {{"reader": {{"state": "{READER}", "type": "{kind}"}}, {GENERATORS}}}}}'
    for kind in ("File", "Numpy")
}
WITHOUT_NAMES = (
    f'{{"version": 2, "states": {{"__op_0": {{"state": "{PHILOX}", "type": "RNG"}}, '
    f'"__op_1": {{"state": "{FAR}", "type": "RNG"}}}}}}'
)
#: What DALI's first generator gave from its state after one draw, in its second.
SECOND = [0.8855268955230713, 0.9419139623641968, 0.9889001846313477]


def test_the_second_draw_is_dalis():
    rng = RNG(1234)
    uniform(range=[0.0, 1.0], batch_size=3, rng=rng)
    assert uniform(range=[0.0, 1.0], batch_size=3, rng=rng).tolist() == SECOND
    assert rng.state == PHILOX
    far = RNG(2**64 - 1)
    far.advance(10**6)
    assert far.state == FAR


@pytest.mark.parametrize("kind", OF_READERS)
def test_all_generators_of_a_file_go_on_and_its_reader_does_not(tmp_path, kind):
    path = tmp_path / "run.json"
    path.write_text(OF_READERS[kind])
    first, second = RNG(1), RNG(2)
    with pytest.warns(StateWarning, match=rf"Left out: .*its state of 'reader' \({kind}\) cannot be used"):
        checkpoint.load(path, **{"rng": first, "fl\xe9 \U0001f600": second})
    assert (first.state, second.state) == (PHILOX, FAR)
    for name in "abc":
        (tmp_path / name).touch()
    reader = File(files=list("abc"), file_root=tmp_path, random_shuffle=True)
    before = reader.get_state()
    states, rng = Checkpoint(), RNG(3)
    states.load(path)
    states.register(rng, "rng")
    with pytest.raises(StateError, match=rf"'reader' \({kind}\) cannot be used"):
        states.register(reader, "reader")
    assert rng.state == PHILOX
    assert reader.get_state() == before


def test_generators_without_names_come_in_their_order():
    states, first, second = Checkpoint(), RNG(1), RNG(2)
    states.deserialize(WITHOUT_NAMES)
    states.register(first)
    states.register(second)
    assert (first.state, second.state) == (PHILOX, FAR)


def test_generators_are_saved_again_as_ours(tmp_path):
    states = Checkpoint()
    states.deserialize(WITHOUT_NAMES)
    again = Checkpoint()
    again.load(states.save(tmp_path / "ours.json"))
    rng = RNG(1)
    again.register(rng)
    assert rng.state == PHILOX
    assert json.loads((tmp_path / "ours.json").read_text())["format"] == "dynamic-checkpoint"


junk = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.lists(st.none())
)
states_of_text = st.sampled_from(
    [PHILOX, FAR, PHILOX + "\n", PHILOX.lower(), PHILOX[:-1], PHILOX[:-1] + "4", "", "abc"]
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "state": states_of_text | junk,
        "type": st.sampled_from(["RNG", "File", "Numpy", "Own", None]) | junk,
        "more": junk,
    },
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(2) | junk,
        "states": st.fixed_dictionaries({}, optional={"rng": entries | junk, "reader": entries | junk}) | junk,
        "more": junk,
    },
)


@given(documents)
def test_a_file_gives_what_its_text_says_or_is_refused(document):
    rng, states = RNG(7), Checkpoint()
    before = rng.state
    try:
        states.deserialize(json.dumps(document))
        states.register(rng, "rng")
    except (StateError, KeyError):
        assert rng.state == before
    else:
        assert document.keys() == {"version", "states"}
        assert type(document["version"]) is int
        assert document["version"] == 2
        entry = document["states"]["rng"]
        assert entry["type"] in ("RNG", None)
        assert rng.state == entry["state"].upper().replace("PHILOX", "Philox")


@given(st.data())
def test_a_file_that_was_cut_is_refused(data):
    text = OF_READERS["File"]
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(StateError):
        Checkpoint().deserialize(text[:cut])


def test_draws_go_on_from_a_file_of_dalis(dali: Oracle, tmp_path):
    """DALI saves a file in the middle of an epoch, and draws on; we load the file and draw the same."""
    for i in range(7):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]))
    numbers = dali.script(
        "files = [f'{i}.bin' for i in range(7)]\n"
        "reader = ndd.readers.File(file_root=root, files=files, random_shuffle=True, enable_checkpointing=True)\n"
        "rng = ndd.random.RNG(seed=77)\n"
        "draw = lambda: [float(np.asarray(t)) for t in "
        "ndd.random.uniform(range=[-1.0, 3.0], batch_size=5, rng=rng).evaluate().tensors]\n"
        "next(reader.next_epoch(batch_size=3)); draw()\n"
        "saved = ndd.checkpoint.Checkpoint()\n"
        "saved.register(reader, 'reader'); saved.register(rng, 'rng'); saved.collect()\n"
        "saved.save(root + '/run-{seq}.json')\n"
        "result = [draw() for _ in range(4)]",
        root=str(tmp_path),
    )
    rng = RNG(1)
    with pytest.warns(StateWarning, match=r"Left out: .*its state of 'reader' \(File\) cannot be used"):
        path = checkpoint.load_latest(tmp_path / "run-{seq}.json", rng=rng)
    assert path.endswith("run-0.json")
    drawn = [uniform(range=[-1.0, 3.0], batch_size=5, rng=rng).tolist() for _ in range(4)]
    assert np.array_equal(np.array(drawn), np.array(numbers))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left out here
        states, again = Checkpoint(), RNG(1)
        states.load(path)
        states.register(again, "rng")
    assert uniform(range=[-1.0, 3.0], batch_size=5, rng=again).tolist() == numbers[0]
