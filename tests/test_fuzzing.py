"""A few thousand damaged inputs for everything that reads bytes; `make fuzz` goes on for hours."""

from __future__ import annotations

import random

import fuzzing
import pytest

COUNT = 1500


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_only_documented_exceptions_come_out(name, capfd):
    assert fuzzing.mutate(name, COUNT) == COUNT
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_some_inputs_to_begin_with_are_taken_and_some_refused(name):
    target, seeds = fuzzing.TARGETS[name]
    data = seeds()
    assert len(data) == len([x for x in data if isinstance(x, bytes)]) > 1
    damage = {fuzzing.damaged(data[0], data, random.Random(i)) for i in range(20)}
    assert len(damage) > 15
    target(data[0])


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
