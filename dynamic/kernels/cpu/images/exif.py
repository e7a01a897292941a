"""The one EXIF entry that decoding needs, by one rule for all formats: the first orientation that there is.

TIFF asks readers to take any kind of integer, and files have all of them. A block with anything odd in it has no
orientation, so that a later one may tell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ._common import Buffer

__all__ = ["orientation"]

_PREFIX = b"Exif\0\0"  # of JPEG; some put it into other formats too
_TAG = 0x0112
_MOST = 0xFFFF  # entries: those of a BigTIFF may claim to be any number
_KINDS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}


class _Layout(NamedTuple):
    """How a TIFF is laid out, by its first four bytes."""

    order: str
    start_at: int  #: the position of the directory's own
    word: str  #: the type of positions and counts
    many: str  #: the type of the number of entries


_LAYOUTS = {
    b"II*\0": _Layout("<", 4, "I", "H"),
    b"MM\0*": _Layout(">", 4, "I", "H"),
    b"II+\0": _Layout("<", 8, "Q", "Q"),
    b"MM\0+": _Layout(">", 8, "Q", "Q"),
}


def orientation(block: Buffer) -> int | None:
    """The orientation, 1 to 8, of a TIFF or of an EXIF block, which is one; None if it gives none."""
    if bytes(block[:6]) == _PREFIX:
        block = block[6:]
    layout = _LAYOUTS.get(bytes(block[:4]))
    if layout is None:
        return None
    try:
        return next((value for value in _values(block, layout) if 1 <= value <= 8), None)
    except (struct.error, OverflowError):  # a position is beyond the end
        return None


def _values(block: Buffer, layout: _Layout) -> Iterator[int]:
    """The first value of each entry of the first directory that is an orientation."""
    order, start_at, word, many = layout
    (start,) = struct.unpack_from(order + word, block, start_at)
    (count,) = struct.unpack_from(order + many, block, start)
    within = struct.calcsize(order + word)  # bytes of values that an entry holds itself
    first, length = start + struct.calcsize(order + many), 4 + 2 * within
    entry = struct.Struct(f"{order}HH{word}")
    for position in range(first, first + length * min(count, _MOST), length):
        tag, kind, values = entry.unpack_from(block, position)
        if tag != _TAG or kind not in _KINDS:
            continue
        code, place = order + _KINDS[kind], position + entry.size
        size = struct.calcsize(code) * max(values, 1)  # some count none, and write one
        if size > within:
            (place,) = struct.unpack_from(order + word, block, place)
            if not values or place + size > len(block):
                continue
        yield struct.unpack_from(code, block, place)[0]
