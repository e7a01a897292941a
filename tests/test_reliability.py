"""A sample of every goal of reliability, and the table in the docs."""

from __future__ import annotations

import re

import pytest
import reliability

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
