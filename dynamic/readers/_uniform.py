"""Lists of JSON objects that all look alike but for their numbers, parsed all at once."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy

from dynamic._arrays.array import Array

from ._words import Text, decimals

__all__ = ["Table", "shortened"]

_LETTERS = b"0123456789-."  # of numbers without exponents
_SPACE = " \t\n\r"
_BEGIN, _END = re.compile(r"\s*:\s*\["), re.compile(rf"\}}[{_SPACE}]*\]")
_EXACT = 15  # digits of a number that float64 holds
_POWERS = numpy.array([float(10**k) for k in range(_EXACT + 1)])


class Table:
    """Objects of the same keys in the same order, whose values are numbers or lists of as many.

    Their text without numbers is that of the first object again and again, with the numbers in the same places. So all
    are JSON if the first is, and if each number is one.

    Args:
        data: The text of the list, without brackets.
        numbers: Where the numbers are, objects in rows.
        places: The first number of each key, and how many it has; None for one that is in no list.
    """

    def __init__(self, data: bytes, numbers: _Numbers, places: dict[str, tuple[int, int | None]]) -> None:
        self._data, self._numbers, self._places = data, numbers, places
        self._text = Text(numpy.frombuffer(data, numpy.uint8))

    @classmethod
    def of(cls, data: bytes) -> Table | None:
        """The table of a text; None where it is none."""
        first = data[: data.find(b"}") + 1]
        places, count = dict[str, tuple[int, int | None]](), 0
        try:
            row = json.loads(first)
        except ValueError:
            return None
        for key, value in row.items() if isinstance(row, dict) else ():
            numbers = value if type(value) is list else [value]
            if set(map(type, numbers)) - {int, float} or set(key) & set(_LETTERS.decode()):
                return None
            places[key] = count, len(numbers) if type(value) is list else None
            count += len(numbers)
        unit, whole = first.translate(None, _LETTERS), data.translate(None, _LETTERS)
        objects = whole.count(b"}")
        between = whole[len(unit) : whole.find(b"{", len(unit))] if objects > 1 else b","
        if not count or between.strip(_SPACE.encode()) != b"," or whole != between.join([unit] * objects):
            return None
        found = _numbers_in(numpy.frombuffer(data, numpy.uint8))
        if found is None or len(found.starts) != objects * count:
            return None
        lengths = found.ends - found.starts
        places_in_whole = (found.starts - numpy.cumsum(lengths) + lengths).reshape(objects, count)
        places_in_whole -= numpy.arange(objects)[:, None] * len(unit + between)
        if (places_in_whole != places_in_whole[0]).any():
            return None
        return cls(data, _Numbers(*(column.reshape(objects, count) for column in found)), places)

    def __len__(self) -> int:
        return len(self._numbers.starts)

    def rows(self) -> list[dict[str, Any]]:
        """The objects."""
        rows: list[dict[str, Any]] = json.loads(b"[%b]" % self._data)
        return rows

    def integers(self, key: str) -> Array | None:
        """The values of a key: int64. None where it has none, or not all are written as integers."""
        place, length = self._places.get(key, (0, 0))
        if length is not None:
            return None
        starts, ends, dots, negative = (column[:, place] for column in self._numbers)
        if (dots < ends).any():
            return None
        found = decimals(self._text, starts + negative, ends)
        return None if found is None else numpy.where(negative, -found, found)

    def floats(self, key: str, length: int) -> Array | None:
        """The values of a key that are lists of so many: float64 of shape (N, length). None where it has no such."""
        place, known = self._places.get(key, (0, 0))
        if known != length:
            return None
        starts, ends, dots, negative = (column[:, place : place + length].ravel() for column in self._numbers)
        starts, after = starts + negative, numpy.maximum(ends - dots - 1, 0)
        digits = ends - starts - (after > 0)
        # Numbers of the digits without dots, divided by powers of ten: for so few digits that is exactly rounded.
        dots_before = numpy.cumsum(self._numbers.dots < self._numbers.ends).reshape(len(self), -1)
        last = ends - dots_before[:, place : place + length].ravel()
        text = Text(numpy.frombuffer(self._data.translate(None, b"."), numpy.uint8))
        short = digits <= _EXACT
        numbers = decimals(text, (last - digits)[short], last[short])
        assert numbers is not None, "no more than 15 digits"
        found = numpy.empty(len(starts))
        found[short] = numbers / _POWERS[after[short]]
        for i in numpy.flatnonzero(~short).tolist():
            found[i] = float(self._data[starts[i] : ends[i]])
        negative = negative & ((after > 0) | (found != 0))  # "-0" is the integer 0
        return numpy.where(negative, -found, found).reshape(len(self), length)


class _Numbers(NamedTuple):
    """Numbers in a text."""

    starts: Array
    ends: Array
    dots: Array  #: where the dot of each is; its end where it has none
    negative: Array


def _numbers_in(letters: Array) -> _Numbers | None:
    """Where the numbers in a text are; None where something of their letters is no number of JSON."""
    inside = numpy.zeros(len(letters) + 2, numpy.bool_)
    inside[1:-1] = (letters - numpy.uint8(ord("-")) <= ord("9") - ord("-")) & (letters != ord("/"))
    edges = numpy.flatnonzero(inside[1:] != inside[:-1])
    starts, ends = edges[0::2], edges[1::2]
    negative = letters[starts] == ord("-")
    points = numpy.flatnonzero(letters == ord("."))
    owners = numpy.searchsorted(starts, points, "right") - 1
    dots = ends.copy()
    dots[owners] = points
    wholes = dots - starts - negative
    right = numpy.count_nonzero(letters == ord("-")) == numpy.count_nonzero(negative)
    right &= bool((owners[1:] != owners[:-1]).all() and (wholes > 0).all() and (ends - dots != 1).all())
    right = right and not ((letters[starts + negative] == ord("0")) & (wholes > 1)).any()
    return _Numbers(starts, ends, dots, negative) if right else None


def shortened(text: str, key: str) -> tuple[str, str, Table] | None:
    """A JSON text whose list of some key is short, the word in place of that list, and the list.

    None where the key, or that word, might be in another place too, or the list is no table. If the short text is JSON
    with the word in that list, the whole text is JSON with the table there.
    """
    name, word = f'"{key}"', f"the rows of {key}"
    begin = _BEGIN.match(text, text.find(name) + len(name)) if text.count(name) == 1 and word not in text else None
    end = _END.search(text, begin.end()) if begin else None
    if begin is None or end is None:
        return None
    table = Table.of(text[begin.end() : end.start() + 1].strip(_SPACE).encode("utf-8", "surrogatepass"))
    if table is None:
        return None
    return f'{text[: begin.end()]}"{word}"]{text[end.end() :]}', word, table
