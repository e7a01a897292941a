"""Protocol Buffers: the fields of messages, and numbers of several bytes.

A field begins with its number times 8 and its wire type: `VARINT`, `EIGHT` bytes, `BYTES` (a length and so many bytes)
or `FOUR` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from dynamic._arrays.array import Array

from ._stored import Unusable

__all__ = [
    "BYTES",
    "CONTINUED",
    "CUT_OFF",
    "EIGHT",
    "FOUR",
    "VARINT",
    "Malformed",
    "fields",
    "length",
    "only",
    "varints",
]

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
CONTINUED = 0x80  # the bit of a varint's byte that says that another follows
CUT_OFF = "it ends within a field"
_LONGEST = 10  # bytes of a varint
_TAGS = 1 << 32  # tags are less
_NEGATIVE = 1 << 63  # from here on, of 64 bits, numbers are negative
_FEW = 48  # bytes of varints; for fewer it is faster to go through them one by one


class Malformed(Unusable):
    """Bytes that are no message; the text says why, and who reads them says of which kind."""


def fields(data: memoryview, at: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: their numbers and wire types, and where their values begin and end."""
    end = len(data)
    while at < end:
        tag, at = length(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == BYTES:
            size, at = length(data, at)
            stop = at + size
        elif wire == VARINT:
            stop = length(data, at)[1]
        elif wire in (EIGHT, FOUR):
            stop = at + (8 if wire == EIGHT else 4)
        else:
            raise Malformed(f"a field of wire type {wire}")
        if not number or tag >= _TAGS:
            raise Malformed(f"a field of number {number}")
        if stop > end:
            raise Malformed(CUT_OFF)
        yield number, wire, at, stop
        at = stop


def only(data: memoryview) -> tuple[int, int]:
    """The first byte of the tag of the one field of a message, and where its bytes begin; 0 where that is not so."""
    if len(data) > 1 and data[0] & 7 == BYTES:
        size, start = (data[1], 2) if data[1] < CONTINUED else length(data, 1)
        if start + size == len(data):
            return data[0], start
    return 0, 0


def length(data: memoryview, at: int) -> tuple[int, int]:
    """The varint that begins somewhere, and where it ends."""
    try:
        value = data[at]
        if not value & CONTINUED:
            return value, at + 1
        value &= 0x7F
        for shift in range(7, 7 * _LONGEST, 7):
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if not byte & CONTINUED:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
    except IndexError:
        raise Malformed(CUT_OFF) from None
    raise Malformed(f"a number of more than {_LONGEST} bytes")


def varints(data: memoryview) -> Array:
    """Numbers that follow each other: int64."""
    if len(data) > _FEW:
        return _many_varints(numpy.frombuffer(data, numpy.uint8))
    values, at = list[int](), 0
    while at < len(data):
        value, at = length(data, at)
        values.append(value if value < _NEGATIVE else value - 2 * _NEGATIVE)
    return numpy.array(values, numpy.int64)


def _many_varints(data: Array) -> Array:
    """The same, byte by byte of all of them together."""
    last = numpy.flatnonzero(data < CONTINUED)
    if len(last) == len(data):
        return data.astype(numpy.int64)
    if not len(last) or last[-1] != len(data) - 1:
        raise Malformed(CUT_OFF)
    lengths = numpy.diff(last, prepend=-1)
    longest = int(lengths.max())
    if longest > _LONGEST:
        raise Malformed(f"a number of more than {_LONGEST} bytes")
    first = last - lengths + 1
    values = (data[first] & 0x7F).astype(numpy.uint64)
    for k in range(1, longest):
        some = numpy.flatnonzero(lengths > k)
        values[some] |= (data[first[some] + k] & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * k)
    return values.view(numpy.int64)
