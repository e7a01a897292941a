"""GIF: the first frame. Blocks, palettes and places are read here; Pillow's decoder makes indices of the codes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy

from ._common import Array, Buffer, Colours, Header, Limits, check_range, check_size, corrupt, limited, truncated

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "GIF"
_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_MOST_CODES = 1 << 12  # of which one stands for at most as many pixels
_SHADES = numpy.arange(256, dtype=numpy.uint8).repeat(3).reshape(256, 3)  # where there is no palette: 1 is white
_SHADES[1] = 255


@dataclass(frozen=True, slots=True)
class _Frame:
    place: tuple[int, int, int, int]  #: first row and column, height and width
    interlaced: bool
    palette: Array  #: of the frame, or else of the file: (colours, 3)
    background: Array  #: the colour where the frame covers nothing
    bits: int  #: of the first codes, less 1
    data: Buffer  #: the blocks


def header(data: Buffer, limits: Limits) -> Header:
    """Read the size of the screen, and walk to the end of the first frame."""
    if len(data) < 13:
        raise truncated(FORMAT, "the bytes end within the header")
    width, height, flags, background = struct.unpack_from("<HHBB", data, 6)
    check_size(FORMAT, height, width, limits)
    palette, position = _palette(data, 13, flags)
    known = palette is not None and background < len(palette)
    colour = palette[background] if palette is not None and known else numpy.zeros(3, numpy.uint8)
    frame = _first_frame(data, position, (height, width), palette, colour)
    return Header(FORMAT, height, width, "RGB", detail=frame)


def _palette(data: Buffer, position: int, flags: int) -> tuple[Array | None, int]:
    """The palette at a position, if the flags say that there is one, and where it ends."""
    if not flags & 0x80:
        return None, position
    end = position + (3 << (flags & 7) + 1)
    if end > len(data):
        raise truncated(FORMAT, "the bytes end within a palette")
    return numpy.frombuffer(data, numpy.uint8, end - position, position).reshape(-1, 3), end


def _first_frame(
    data: Buffer, position: int, size: tuple[int, int], palette: Array | None, background: Array
) -> _Frame:
    for _ in limited(FORMAT, "extensions", 1 << 12):
        if position >= len(data):
            raise truncated(FORMAT, "the bytes end before the first frame does")
        kind = data[position]
        if kind == _END:
            raise corrupt(FORMAT, "there is no frame")
        if kind == _EXTENSION:
            position = _blocks(data, position + 2)
            continue
        if kind != _IMAGE:
            raise corrupt(FORMAT, f"byte {position} should begin a block")
        if position + 11 > len(data):
            raise truncated(FORMAT, "the bytes end within the first frame")
        left, top, across, down, flags = struct.unpack_from("<HHHHB", data, position + 1)
        if not across or not down or left + across > size[1] or top + down > size[0]:
            raise corrupt(FORMAT, "the first frame is not within the screen")
        own, start = _palette(data, position + 10, flags)
        colours = next((found for found in (own, palette) if found is not None), _SHADES)
        end = _blocks(data, start + 1)
        bits, codes = data[start], data[start + 1 : end]
        if not 2 <= bits <= 8:
            raise corrupt(FORMAT, f"codes for values of {bits} bits")
        count = 8 * len(codes) // (bits + 1)
        if count * min(count, _MOST_CODES) < across * down:  # a code stands for one pixel more than those before it
            raise truncated(FORMAT, f"{len(codes)} bytes cannot hold {across} x {down} pixels")
        return _Frame((top, left, down, across), bool(flags & 0x40), colours, background, bits, codes)
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


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:  # noqa: ARG001 - the blocks are in the header
    """Decode the first frame to uint8 of shape (height, width, 3)."""
    from PIL import Image

    frame: _Frame = head.detail
    top, left, height, width = frame.place
    try:
        decoded = Image.frombytes("L", (width, height), frame.data, "gif", frame.bits, int(frame.interlaced), -1)
    except ValueError as error:
        enough = "not enough" not in str(error)
        raise (corrupt if enough else truncated)(FORMAT, f"the codes of the first frame: {error}") from None
    indices = numpy.asarray(decoded)
    check_range(FORMAT, "colour", indices, frame.palette)
    if (height, width) == (head.height, head.width):
        return frame.palette[indices], "RGB"
    image = numpy.empty((head.height, head.width, 3), numpy.uint8)
    image[...] = frame.background
    image[top : top + height, left : left + width] = frame.palette[indices]
    return image, "RGB"
