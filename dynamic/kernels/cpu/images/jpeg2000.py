"""JPEG 2000, a bare codestream or in its JP2 container: sizes are checked, then OpenJPEG (in OpenCV) decodes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cv2

from ._common import (
    CHANNELS,
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_extents,
    check_size,
    corrupt,
    imdecode,
    limited,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "JPEG 2000"
_SIZE, _PART, _END = 0xFF51, 0xFF90, 0xFFD9
_COLOURS: dict[int, Colours] = {1: "GRAY", 3: "RGB", 4: "RGBA"}  # by the number of components
_LONGEST = 1 << 20  # rows and columns, for OpenCV
_PALETTE = b"\3\7\7\7"  # of three columns of 8 bits, as a palette says it


def header(data: Buffer, limits: Limits) -> Header:
    """Find the codestream, and read its size segment."""
    stream, palette = (data, None) if data[0] == 0xFF else _codestream(data)
    if len(stream) < 42:
        raise truncated(FORMAT, "the bytes end within the size segment")
    if stream[2] << 8 | stream[3] != _SIZE:
        raise corrupt(FORMAT, "the codestream does not begin with its size")
    right, bottom, left, top = struct.unpack_from(">4I", stream, 8)
    (count,) = struct.unpack_from(">H", stream, 40)
    check_size(FORMAT, bottom - top, right - left, limits)
    check_extents(FORMAT, bottom - top, right - left, _LONGEST)
    if len(stream) < 42 + 3 * count:
        raise truncated(FORMAT, "the bytes end within the size segment")
    colours = _COLOURS.get(count)
    depths = {stream[42 + 3 * i] for i in range(count)}
    if colours is None or depths - {7, 15} or len(depths) != 1:
        raise unsupported(FORMAT, f"{count} components of {sorted(d % 128 + 1 for d in depths)} bits")
    if left or top:
        raise unsupported(FORMAT, f"an image that begins at {left}, {top}")
    if palette is not None and (colours != "GRAY" or palette != _PALETTE):
        raise unsupported(FORMAT, "a palette that is not one of three colours of 8 bits")
    if any(bytes(stream[43 + 3 * i : 45 + 3 * i]) != b"\1\1" for i in range(count)):
        raise unsupported(FORMAT, "components of different sizes")
    _check_tiles(stream, *struct.unpack_from(">4I", stream, 24), height=bottom, width=right)
    return Header(FORMAT, bottom, right, "RGB" if palette else colours, detail=palette)


def _codestream(data: Buffer) -> tuple[Buffer, bytes | None]:
    """The codestream in a container, and what its palette is of: how many columns, and their depths."""
    palette = None
    for name, content in _boxes(data):
        if name == b"jp2c":
            return content, palette
        if name == b"jp2h" and b"pclr" in (inner := dict(_boxes(content))):
            palette = bytes(inner[b"pclr"][2:6]) if b"cmap" in inner else b""
    raise truncated(FORMAT, "there is no codestream")


def _check_tiles(stream: Buffer, across: int, down: int, left: int, top: int, *, height: int, width: int) -> None:
    """Refuse a codestream without an end, or where a tile has no part."""
    if left or top or not across or not down:
        raise corrupt(FORMAT, f"tiles of {across} x {down} that begin at {left}, {top}")
    needed, found, position = -(-width // across) * -(-height // down), set[int](), 2
    for _ in limited(FORMAT, "segments and parts of tiles", 1 << 17):
        if position + 2 > len(stream):
            break
        (marker,) = struct.unpack_from(">H", stream, position)
        if marker == _END:
            if len(found) < needed:
                raise truncated(FORMAT, f"{len(found)} of {needed} tiles are there")
            return
        if position + 12 > len(stream) or (found and marker != _PART):
            break
        length = 2 + (stream[position + 2] << 8 | stream[position + 3])
        if marker == _PART:
            tile, length = struct.unpack_from(">HI", stream, position + 4)
            length = length or len(stream) - 2 - position  # of the last part
            if tile >= needed or length < 14:
                raise corrupt(FORMAT, f"a part of tile {tile} of {needed} with {length} bytes")
            found.add(tile)
        position += length
    raise truncated(FORMAT, "the bytes end before the end-of-codestream marker")


def _boxes(data: Buffer) -> Iterator[tuple[bytes, Buffer]]:
    """The names and contents of boxes."""
    position = 0
    for _ in limited(FORMAT, "boxes", 1 << 12):
        if position + 8 > len(data):
            return
        length, name = struct.unpack_from(">I4s", data, position)
        start, end = position + 8, position + length
        if length == 1 and position + 16 <= len(data):
            start, end = position + 16, position + struct.unpack_from(">Q", data, position + 8)[0]
        elif length == 0:
            end = len(data)
        if end < start:
            raise corrupt(FORMAT, f"a box of length {length}")
        if end > len(data):
            raise truncated(FORMAT, "the bytes end within a box")
        yield name, data[start:end]
        position = end


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:
    """Decode to uint8 or uint16 of shape (height, width, channels)."""
    image = imdecode(FORMAT, "OpenJPEG", data, cv2.IMREAD_COLOR_BGR if head.detail else cv2.IMREAD_UNCHANGED)
    if image.size != head.height * head.width * CHANNELS[head.colours]:
        raise corrupt(FORMAT, f"the container does not say what {CHANNELS[head.colours]} components mean")
    swapped: dict[Colours, Colours] = {"RGB": "BGR", "RGBA": "BGRA"}
    return image, swapped.get(head.colours, head.colours)
