"""Texts of many words, parsed at once, are what they are word by word."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynamic.readers import _words
from dynamic.readers._words import Text, blocks, decimals, words

LINES = st.lists(
    st.lists(st.integers(0, 10**18 - 1).map(str) | st.text("0189/:a-+.\u0660", min_size=1, max_size=20), min_size=1),
    min_size=1,
    max_size=8,
)


def text_of(data):
    return Text(np.frombuffer(data, np.uint8))


@given(LINES)
@example([["0" * 18]])
@example([["1" * 19]])
@example([["9" * 8, "9" * 9, "9" * 16, "9" * 17]])
def test_words_and_numbers_are_those_of_python(lines):
    data = "".join(" ".join(line) + "\n" for line in lines).encode()
    text = text_of(data)
    starts, ends = words(text)
    found = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert found == data.split()
    assert data[ends[-1] :] == b"\n"
    numbers = decimals(text, starts, ends)
    if all(re.fullmatch(rb"[0-9]{1,18}", word) for word in found):
        assert numbers.tolist() == [int(word) for word in found]
    else:
        assert numbers is None
    for word, start, end in zip(found, starts, ends, strict=True):  # each by itself
        alone = decimals(text, np.array([start]), np.array([end]))
        assert (alone is not None) == (re.fullmatch(rb"[0-9]{1,18}", word) is not None)
        assert alone is None or alone.tolist() == [int(word)]


@pytest.mark.parametrize("letter", range(256))
def test_a_digit_is_no_other_byte(letter):
    for place in range(9):
        data = bytearray(b"1234567890\n")
        data[place] = letter
        found = decimals(text_of(bytes(data)), np.array([0]), np.array([10]))
        assert (found is not None) == (chr(letter) in "0123456789")


@given(st.text("01 \t\r\n\x0b\xa0", max_size=9).map(str.encode))
def test_other_white_space_and_empty_words_are_not_taken(data):
    found = words(text_of(data))
    plain = re.fullmatch(rb"([^\s]+[ \n])*[^\s]+\n", data) is not None
    assert (found is not None) == plain


@given(st.text("0 \n", max_size=40).map(str.encode), st.integers(1, 12))
def test_blocks_are_whole_lines(data, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_words, "_BLOCK", size)
        parts = [block.data.tobytes() for block in blocks(data)]
    assert b"".join(parts) == (data if data.endswith(b"\n") or not data else data + b"\n")
    assert all(part.endswith(b"\n") and (len(part) <= size + 1 or part.count(b"\n") == 1) for part in parts)
