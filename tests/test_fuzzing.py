"""A few thousand damaged inputs for everything that reads bytes; `make fuzz` goes on for hours."""

from __future__ import annotations

import contextlib
import json
import random

import fuzzing
import pytest

pytestmark = pytest.mark.slow

COUNT = 1500


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_only_documented_exceptions_come_out(name, capfd):
    assert fuzzing.mutate(name, COUNT) == COUNT
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_damaged_inputs_differ_and_some_are_taken_and_some_refused(name, monkeypatch):
    target, seeds = fuzzing.TARGETS[name]
    inputs, taken = set(), []
    monkeypatch.setattr(fuzzing, "check", lambda _, data: (inputs.add(data), taken.append(target(data))))
    fuzzing.mutate(name, 400)
    assert len(inputs) > 300
    assert len(taken) - 400 == len(seeds()) > 1
    assert 0 < sum(taken) < len(taken)


def test_damaged_states_are_json_still():
    states = fuzzing.TARGETS["states"][1]()
    chance = random.Random(5)
    damage = [fuzzing.damaged_state(chance.choice(states), states, chance) for _ in range(400)]
    assert len(set(damage)) > 300
    right = 0
    for data in damage:
        with contextlib.suppress(ValueError):
            right += isinstance(json.loads(data), dict)
    assert right > 300


def test_what_comes_out_that_should_not_is_told_with_its_input(monkeypatch):
    def fails(data):
        if b"\xff" in data:
            raise KeyError("x")

    monkeypatch.setitem(fuzzing.TARGETS, "decode", (fails, lambda: [b"abcd" * 20]))
    with pytest.raises(KeyError) as caught:
        fuzzing.mutate("decode", 1000)
    (note,) = caught.value.__notes__
    data = bytes.fromhex(note.split("'")[1])
    with pytest.raises(KeyError):
        fails(data)


def test_checksums_of_pngs_are_mended():
    import hostile_files

    file = hostile_files.files()["PNG: a flip in the header"].data
    mended = fuzzing.repaired(file)
    assert mended != file
    assert fuzzing.repaired(mended) == mended
    assert fuzzing.repaired(b"text") == b"text"
