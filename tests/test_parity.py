"""The names of DALI: the record, the page that compares it with ours, and a reason for each that is missing."""

from __future__ import annotations

import json

import make_parity
import record_names
from dali_oracle import dali_fixture  # noqa: F401


def test_page_is_current():
    """`python docs/make_parity.py` writes it."""
    assert make_parity.PAGE.read_text(encoding="utf-8") == make_parity.page()


def test_every_missing_name_has_a_reason_and_no_other_name_has_one():
    missing = {name for kind in make_parity.kinds() for name in kind.missing}
    reasons = make_parity.explained()
    assert (missing - reasons.keys(), reasons.keys() - missing) == (set(), set())
    assert all(len(reason) > 5 for reason in reasons.values())


def test_counts_are_those_of_the_record():
    record = record_names.recorded()
    found = {kind.title: kind for kind in make_parity.kinds()}
    assert found["Operators"].names == len(record["operators"]) == 123
    assert found["Arguments of operators"].names == sum(map(len, record["operators"].values())) == 772
    assert found["Readers"].names == len(record["readers"]) == 13
    assert found["Functions of `fn`"].names == len(record["fn"]) == 172
    assert all(0 <= kind.lost + len(kind.missing) <= kind.names for kind in found.values())


def test_record_is_of_the_real_dali(dali):
    assert json.loads(record_names.text(record_names.record(dali))) == record_names.recorded()
