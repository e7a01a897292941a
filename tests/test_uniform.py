"""Objects of a JSON file that are parsed at once are what the parser of JSON says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynamic.readers._annotations import _with_table
from dynamic.readers._uniform import Table, shortened

KEYS = st.lists(st.sampled_from(["id", "image_id", "bbox", "area", "x1", "é", "a b", '"']), min_size=1, unique=True)
NUMBERS = (
    st.integers(-(10**19), 10**19)
    | st.integers(-9, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(0, 10**6).map(lambda i: i / 100)
    | st.just(-0.0)
)


def refuse(constant):
    raise ValueError(constant)


@st.composite
def documents(draw):
    """A file whose annotations mostly look alike."""
    lengths = {key: draw(st.none() | st.integers(0, 5)) for key in draw(KEYS)}
    rows = [
        {key: draw(NUMBERS) if n is None else [draw(NUMBERS) for _ in range(n)] for key, n in lengths.items()}
        for _ in range(draw(st.integers(0, 4)))
    ]
    document = {"images": [{"id": 1, "file_name": draw(st.sampled_from(["a", '"annotations"', "annotations"]))}]}
    document |= {"annotations": rows, "more": draw(st.sampled_from([1, [], {"annotations": []}]))}
    how = draw(st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}]))
    return json.dumps(document, **how)


def told(text, parse):
    """What a text says, with the bits of its numbers; or that it is no JSON."""
    try:
        document = parse(text)
    except ValueError:
        return "no JSON"
    rows = document.get("annotations") if isinstance(document, dict) else None
    if isinstance(rows, Table):
        document["annotations"] = rows.rows()
    return repr(document)


@given(documents(), st.data())
def test_a_text_with_a_table_says_what_it_says_without(text, data):
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.text('0-.e,: {}[]"\u00a0\x0b\n', max_size=2)) + text[place + 1 :]
    expected = told(text, lambda text: json.loads(text, parse_constant=refuse))
    assert told(text, lambda text: _with_table(text, refuse)) == expected
    short = shortened(text, "annotations")
    if short is None or expected == "no JSON":
        return
    rows = short[2].rows()
    assert len(short[2]) == len(rows)
    for key in rows[0]:
        column = [row[key] for row in rows]
        integers = short[2].integers(key)
        if integers is not None:
            assert integers.tolist() == column
        for length in (0, 2, 4):
            floats = short[2].floats(key, length)
            if floats is not None:
                np.testing.assert_array_equal(
                    floats, np.array(column, np.float64).reshape(len(rows), length), strict=True
                )
                assert not (
                    np.signbit(floats) != np.signbit(np.array(column, np.float64).reshape(len(rows), length))
                ).any()


DECIMALS = st.integers(0, 10**16) | st.floats(0, 1e6) | st.decimals(-1000, 1000, places=3)


@given(st.lists(st.lists(DECIMALS.map(str), min_size=4, max_size=4), min_size=1))
@example([["0.1", "0.30000000000000004", "9007199254740993", "123456789012.345"]])
@example([["-0.0", "-0", "0.000000000000001", "99999999.9999999"]])
def test_decimals_have_the_bits_of_pythons(rows):
    text = ", ".join(f'{{"bbox": [{", ".join(row)}], "id": 7}}' for row in rows)
    table = Table.of(text.encode())
    if any("e" in number for row in rows for number in row):
        assert table is None or len(rows) == 1
        return
    expected = np.array([[float(json.loads(number)) for number in row] for row in rows])
    assert table.floats("bbox", 4).tobytes() == expected.tobytes()
    assert table.integers("id").tolist() == [7] * len(rows)
    assert table.integers("bbox") is table.integers("none") is table.floats("bbox", 3) is table.floats("id", 4) is None


ROW = '{"id": 1, "bbox": [1, 2.5, 3, 4]}'


@pytest.mark.parametrize("other", [
    '{"id": 01, "bbox": [1, 2.5, 3, 4]}', '{"id": 1., "bbox": [1, 2.5, 3, 4]}', '{"id": .1, "bbox": [1, 2.5, 3, 4]}',
    '{"id": -, "bbox": [1, 2.5, 3, 4]}', '{"id": 1-1, "bbox": [1, 2.5, 3, 4]}', '{"id": , "bbox": [1, 2.5, 3, 44]}',
    '{"id": 1, "bbox": [1, 2.5.1, 3, 4]}', '{"id": 1, "bbox": [12.5, , 3, 4]}', '{"id": 1, "bbox": [1, 2.5, 3]}',
    '{"id": 1, "bbox": [1, 2.5, 3, 4], }', '{"id": 1, "bbox": [1, 2.5, 3, 4]}}', '{"i1d": 1, "bbox": [1, 2.5, 3, 4]}',
    '{"id": 1e1, "bbox": [1, 2.5, 3, 4]}', '{"id": true, "bbox": [1, 2.5, 3, 4]}', '{1"id": , "bbox": [1, 2.5, 3, 4]}',
    '{"id": "1", "bbox": [1, 2.5, 3, 4]}', '{"id": 1,"bbox": [1, 2.5, 3, 4]}',
    '{"id": --1, "bbox": [1, 2.5, 3, 4]}'])  # fmt: skip
def test_an_object_that_looks_otherwise_makes_no_table(other):
    assert Table.of(f"{ROW}, {ROW}".encode()) is not None
    for rows in (f"{ROW}, {other}", f"{ROW}, {other}, {ROW}", f"{ROW}, {ROW},{ROW}", f"{ROW} {ROW}"):
        assert Table.of(rows.encode()) is None
