"""A sample of every goal of reliability, and the table in the docs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess

import lifetimes
import load
import pytest
import reliability

pytestmark = pytest.mark.slow

ROWS = reliability.rows()


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.sampled])
def test_a_goal_holds_in_a_sample(name):
    figure, holds = next(row for row in ROWS if row.name == name).measure(True)
    assert holds, figure
    assert figure


def test_the_table_in_the_docs_has_every_goal_and_all_hold():
    _, _, rest = reliability.PAGE.read_text().partition(reliability.BEGIN)
    table, end, _ = rest.partition(reliability.END)
    assert end
    told = re.findall(r"^\| (G.*?) \| (.*?) \| .* \| (yes|\*\*no\*\*) \|$", table, re.MULTILINE)
    assert told == [(row.name, row.asked, "yes") for row in ROWS]


def test_a_goal_that_raises_is_missed(capsys):
    row = reliability.Row("G0", "nothing", lambda sample: ("", 1 / 0), True)
    assert reliability.measured(row, True) == ("ZeroDivisionError: division by zero", False)
    assert "1 / 0" in capsys.readouterr().err
    assert reliability.line_of(row, "a|b", False) == r"| G0 | nothing | a\|b | **no** |"


def test_what_a_machine_lacks_is_skipped_by_name_and_not_counted(monkeypatch):
    ended = {"here": (0, ""), "not here": (lifetimes.SKIPPED, "no GPU"), "loud": (0, "text"), "killed": (-9, "")}
    monkeypatch.setattr(lifetimes, "SITUATIONS", dict.fromkeys(ended))
    done = subprocess.CompletedProcess([], 0, json.dumps(ended), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    figure = "1 of 3 situations: not loud, killed; skipped: not here (no GPU)"
    assert lifetimes.lifetimes.measure(False) == (figure, False)
    del ended["loud"], ended["killed"]
    done.stdout = json.dumps(ended)
    assert lifetimes.lifetimes.measure(False) == ("1 of 1 situations; skipped: not here (no GPU)", True)


def test_a_goal_says_what_it_skips_without_torch(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(load, "in_a_process", lambda function, *_, seconds: function is load.started)
    assert load.start_methods.measure(False)[0].endswith("3 of 3 equal; DataLoader differs")
    assert not load.start_methods.measure(False)[1]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    figure = "fork, spawn, forkserver: 3 of 3 equal; DataLoader skipped: torch is not installed"
    assert load.start_methods.measure(False) == (figure, True)
