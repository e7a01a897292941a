"""GIF: the first frame, by OpenCV's decoder, after a walk over the blocks."""

from __future__ import annotations

import struct

import cv2

from ._common import Array, Buffer, Colours, Header, Limits, check_size, corrupt, imdecode, limited, truncated

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "GIF"
_BACKGROUND = 11  # where the colour is told that the first frame may leave uncovered
_EXTENSION, _IMAGE, _END, _CONTROL = 0x21, 0x2C, 0x3B, 0xF9


def header(data: Buffer, limits: Limits) -> Header:
    """Read the size of the screen, and walk to the end of the first frame."""
    if len(data) < 13:
        raise truncated(FORMAT, "the bytes end within the header")
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    check_size(FORMAT, height, width, limits)
    found = _first_frame(data, 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0), height, width)
    return Header(FORMAT, height, width, "RGB", detail=found)


def _first_frame(data: Buffer, position: int, height: int, width: int) -> tuple[int, list[int]]:
    """Where the first frame ends, and where there are flags that say whether a colour of it is transparent."""
    flags_at: list[int] = []
    for _ in limited(FORMAT, "extensions", 1 << 12):
        if position >= len(data):
            raise truncated(FORMAT, "the bytes end before the first frame does")
        kind = data[position]
        if kind == _END:
            raise corrupt(FORMAT, "there is no frame")
        if kind == _EXTENSION:
            start, position = position, _blocks(data, position + 2)
            if data[start + 1] == _CONTROL and data[start + 2]:
                flags_at.append(start + 3)
            continue
        if kind != _IMAGE:
            raise corrupt(FORMAT, f"byte {position} should begin a block")
        if position + 11 > len(data):
            raise truncated(FORMAT, "the bytes end within the first frame")
        left, top, across, down, flags = struct.unpack_from("<HHHHB", data, position + 1)
        if not across or not down or left + across > width or top + down > height:
            raise corrupt(FORMAT, "the first frame is not within the screen")
        start = position + 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        return _blocks(data, start + 1), flags_at
    raise AssertionError("`limited` does not end")


def _blocks(data: Buffer, position: int) -> int:
    """Where the blocks from a position on end."""
    for _ in limited(FORMAT, "blocks in a row", 1 << 20):
        if position >= len(data):
            raise truncated(FORMAT, "the bytes end within a block")
        size = data[position]
        position += size + 1
        if not size:
            break
    return position


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:
    """Decode the first frame to uint8 of shape (height, width, 3)."""
    end, flags_at = head.detail
    one = bytearray(data[:end]) + bytes([_END])  # what follows the first frame is not read, so it cannot harm
    for place in flags_at:
        one[place] &= ~1  # alpha is dropped: there is a colour under it
    if one[_BACKGROUND] >= 2 << (one[10] & 7):
        one[_BACKGROUND] = 0  # OpenCV would refuse one that is not in the palette
    return imdecode(FORMAT, "OpenCV", one, cv2.IMREAD_COLOR_BGR), "BGR"
