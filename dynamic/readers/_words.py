"""Texts of many words, parsed all at once: an index of a million lines takes a second line by line."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from dynamic._arrays.array import Array

__all__ = ["DIGITS", "Text", "blocks", "decimals", "ending", "words"]

DIGITS = 18  # of a number, at most
_BLOCK = 1 << 18  # bytes of a text that are looked at together
#: Digits are the bytes whose upper half is 3, also if 6 is added to them.
_DIGITS, _SIX = numpy.uint64(0x3030303030303030), numpy.uint64(0x0606060606060606)
_HIGH, _LOW = numpy.uint64(0xF0F0F0F0F0F0F0F0), numpy.uint64(0x0F0F0F0F0F0F0F0F)
#: Of a word of 8 bytes those at its end, so many, whose order is little-endian.
_LAST = numpy.array([(1 << 64) - (1 << 8 * (8 - n)) for n in range(9)], numpy.uint64)


class Text:
    """Bytes of which some can be looked at eight at a time.

    Args:
        data: uint8, one dimension.
    """

    def __init__(self, data: Array) -> None:
        room = numpy.zeros(8 + -(-len(data) // 8) * 8 + 8, numpy.uint8)
        room[8 : 8 + len(data)] = data
        self.data = room[8 : 8 + len(data)]
        self._eights = room.view("<u8")

    def before(self, ends: Array) -> Array:
        """The eight bytes before some places, as little-endian numbers; before the text there are zeros."""
        eight, shift = ends >> 3, ((ends & 7) << 3).astype(numpy.uint64)
        found: Array = self._eights[eight] >> shift
        found |= self._eights[eight + 1] << (numpy.uint64(64) - shift)
        return found


def blocks(data: bytes) -> Iterator[Text]:
    """A text in pieces of whole lines that stay in a core's cache; a new line is put behind the last line."""
    start = 0
    while start < len(data):
        end = len(data)
        if end - start > _BLOCK:
            end = data.rfind(b"\n", start, start + _BLOCK) + 1 or data.find(b"\n", start) + 1 or end
        closed = data[start:end] if data[end - 1] == ord("\n") else data[start:end] + b"\n"
        yield Text(numpy.frombuffer(closed, numpy.uint8))
        start = end


def words(text: Text) -> tuple[Array, Array] | None:
    """Where the words of a text begin and end that is lines of words with one space between them.

    Returns:
        The places; those of ends are of a space or a new line. None for a text that has other white space or empty
        words, or does not end with a new line.
    """
    ends = numpy.flatnonzero(text.data <= ord(" "))
    found = text.data[ends]
    lengths = numpy.diff(ends, prepend=-1) - 1
    if not len(text.data) or text.data[-1] != ord("\n") or not lengths.all():
        return None
    if not ((found == ord(" ")) | (found == ord("\n"))).all():
        return None
    return ends - lengths, ends


def decimals(text: Text, starts: Array, ends: Array) -> Array | None:
    """Numbers from their decimal digits: int64. None where one has other letters, or more digits than 18.

    Args:
        text: Where they are.
        starts: Where each begins; none is empty.
        ends: Where each ends.
    """
    lengths = ends - starts
    if len(lengths) and lengths.max() > DIGITS:
        return None
    numbers = numpy.zeros(len(starts), numpy.uint64)
    for k in range(-(-int(lengths.max(initial=0)) // 8)):
        there = _LAST[numpy.clip(lengths - 8 * k, 0, 8)]
        digits = text.before(numpy.maximum(ends - 8 * k, 0)) & there
        if ((digits & (digits + (_SIX & there)) & _HIGH) != (_DIGITS & there)).any():
            return None
        digits &= _LOW
        for factor, bits, mask in _STEPS:
            digits = (digits * factor >> bits) & mask
        numbers += digits * numpy.uint64(10 ** (8 * k))
    return numbers.view(numpy.int64)


def ending(text: Text, ends: Array, lengths: Array) -> Array:
    """The last bytes before some places, so many of up to 8, as numbers: uint64."""
    found: Array = text.before(ends) & _LAST[lengths]
    return found


#: Of digits in bytes numbers of two digits in pairs of bytes are made, of these numbers of four, and of eight.
_STEPS = tuple(
    (numpy.uint64(factor), numpy.uint64(bits), numpy.uint64(mask))
    for factor, bits, mask in (
        ((10 << 8) + 1, 8, 0x00FF00FF00FF00FF),
        ((100 << 16) + 1, 16, 0x0000FFFF0000FFFF),
        ((10000 << 32) + 1, 32, 0x00000000FFFFFFFF),
    )
)
