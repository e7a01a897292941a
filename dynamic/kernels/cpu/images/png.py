"""PNG: every chunk is checked and the pixels are inflated by us, exactly; libpng then cannot fail."""

from __future__ import annotations

import collections
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy

from . import exif
from ._common import (
    MOST_INFLATED,
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_extents,
    check_range,
    check_size,
    corrupt,
    imdecode,
    inflated,
    is_bomb,
    limited,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "PNG"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _RGB, _PALETTE, _GRAYA, _RGBA = 0, 2, 3, 4, 6
#: Colours and samples a pixel by colour type, with the bit depths that it may have.
_TYPES: dict[int, tuple[Colours, int, tuple[int, ...]]] = {
    _GRAY: ("GRAY", 1, (1, 2, 4, 8, 16)),
    _RGB: ("RGB", 3, (8, 16)),
    _PALETTE: ("RGB", 1, (1, 2, 4, 8)),
    _GRAYA: ("GRAYA", 2, (8, 16)),
    _RGBA: ("RGBA", 4, (8, 16)),
}
#: Adam7: first row, first column, and steps of each pass.
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
_LONGEST = 1_000_000  #: rows and columns that libpng takes


@dataclass(frozen=True, slots=True)
class _Chunks:
    depth: int
    type: int
    interlaced: bool
    pixels: list[Buffer]  #: the IDAT chunks, from the name to the checksum
    palette: Buffer | None


def _chunks(data: Buffer) -> Iterator[tuple[bytes, Buffer]]:
    """The chunks: the name of each, and its bytes from the name to the checksum."""
    position = 8
    for _ in limited(FORMAT, "chunks", 1 << 16):
        if position + 12 > len(data):
            raise truncated(FORMAT, "the bytes end before the IEND chunk")
        length, name = struct.unpack_from(">I4s", data, position)
        if not name.isalpha():
            raise corrupt(FORMAT, f"byte {position + 4} should begin the name of a chunk")
        end = position + 8 + length
        if end + 4 > len(data):
            raise truncated(FORMAT, f"the bytes end within the chunk {name.decode()}")
        whole = data[position + 4 : end + 4]
        if name != b"IDAT":  # the pixels are checked when they are decoded
            _check(whole)
        yield name, whole
        position = end + 4


def _check(whole: Buffer) -> None:
    if zlib.crc32(whole[:-4]) != struct.unpack(">I", whole[-4:])[0]:
        raise corrupt(FORMAT, f"the checksum of the chunk {bytes(whole[:4]).decode()} is wrong")


def header(data: Buffer, limits: Limits) -> Header:
    """Read the first chunk, and of the others the orientation and where the pixels are."""
    if data[:8] != _SIGNATURE:
        raise (
            truncated(FORMAT, "the bytes end within the signature")
            if len(data) < 8
            else corrupt(FORMAT, "the signature is damaged, as by a transfer in text mode")
        )
    chunks = _chunks(data)
    name, whole = next(chunks)
    first = whole[4:-4]
    if name != b"IHDR" or len(first) != 13:
        raise corrupt(FORMAT, "the first chunk is not IHDR")
    width, height, depth, kind, compression, filtering, interlace = struct.unpack(">IIBBBBB", first)
    check_size(FORMAT, height, width, limits)
    check_extents(FORMAT, height, width, _LONGEST)
    if kind not in _TYPES or depth not in _TYPES[kind][2] or compression or filtering or interlace > 1:
        raise corrupt(FORMAT, f"colour type {kind} with {depth} bits, methods {compression}, {filtering}, {interlace}")
    found, orientation = _collect(chunks, depth, kind, interlace == 1)
    return Header(FORMAT, height, width, _TYPES[kind][0], orientation or 1, found)


def _collect(
    chunks: Iterator[tuple[bytes, Buffer]], depth: int, kind: int, interlaced: bool
) -> tuple[_Chunks, int | None]:
    pixels: list[Buffer] = []
    palette, orientation, previous = None, None, b""
    for name, whole in chunks:
        chunk = whole[4:-4]
        if name == b"IDAT":
            if pixels and previous != b"IDAT":
                raise corrupt(FORMAT, "the IDAT chunks are not in one row")
            pixels.append(whole)
        elif name == b"PLTE":
            if pixels or palette is not None or not 3 <= len(chunk) <= 768 or len(chunk) % 3:
                raise corrupt(FORMAT, "a PLTE chunk is out of place or of a wrong length")
            palette = chunk
        elif name == b"eXIf":
            orientation = orientation or exif.orientation(chunk)
        elif name == b"IEND":
            break
        elif name[0] < 0x61:  # an upper-case letter: a decoder must understand this chunk
            raise (corrupt if name == b"IHDR" else unsupported)(FORMAT, f"the chunk {name.decode()} is out of place")
        previous = name
    if not pixels:
        raise corrupt(FORMAT, "there is no IDAT chunk")
    if kind == _PALETTE and palette is None:
        raise corrupt(FORMAT, "there is no palette")
    return _Chunks(depth, kind, interlaced, pixels, palette), orientation


def _rows(head: Header) -> list[tuple[int, int]]:
    """How many rows there are and how many bytes each has, with its filter: one pair, or one for each Adam7 pass."""
    found: _Chunks = head.detail
    bits = found.depth * _TYPES[found.type][1]
    passes = _PASSES if found.interlaced else ((0, 0, 1, 1),)
    sizes = [(-(-(head.height - y) // down), -(-(head.width - x) // across)) for y, x, down, across in passes]
    return [(rows, 1 + (columns * bits + 7) // 8) for rows, columns in sizes if rows > 0 and columns > 0]


def _packed(head: Header) -> bytes | Buffer:
    """The compressed pixels, whose checksums are right and which may be enough."""
    found: _Chunks = head.detail
    for whole in found.pixels:
        _check(whole)
    packed = found.pixels[0][4:-4] if len(found.pixels) == 1 else b"".join(whole[4:-4] for whole in found.pixels)
    if (len(packed) + 1) * MOST_INFLATED < sum(rows * size for rows, size in _rows(head)):
        raise truncated(FORMAT, f"{len(packed)} bytes cannot hold {head.width} x {head.height} pixels")
    return packed


def _inflated(head: Header, packed: bytes | Buffer) -> Iterator[bytes]:
    """The rows with their filters, piece by piece."""
    parts, done = _rows(head), 0
    for piece in inflated(FORMAT, "pixels", packed, sum(rows * size for rows, size in parts)):
        values, first = numpy.frombuffer(piece, numpy.uint8), -done
        for rows, size in parts:  # `first` and `last`: where this part lies in the piece
            last = first + rows * size
            if first < len(values) and last > 0:
                check_range(FORMAT, "filter", values[first if first >= 0 else first % size : max(last, 0) : size], 5)
            first = last
        done += len(piece)
        yield piece


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(name)))


def decode(head: Header) -> tuple[Array, Colours]:
    """Decode to the file's own channels, with a palette applied.

    Returns:
        The pixels, uint8 or uint16 of shape (height, width, channels), and the meaning of their channels.
    """
    found: _Chunks = head.detail
    # Palette indices are decoded as shades, so that a hostile index meets our check and not libpng's warning.
    kind = _GRAY if found.type == _PALETTE else found.type
    first = struct.pack(">IIBBBBB", head.width, head.height, found.depth, kind, 0, 0, found.interlaced)
    packed = _packed(head)
    if is_bomb(len(packed), sum(rows * size for rows, size in _rows(head))):
        collections.deque(_inflated(head, packed), 0)
    stored, clean = zlib.compressobj(0), bytearray(_SIGNATURE + _chunk(b"IHDR", first))
    for piece in _inflated(head, packed):
        clean += _chunk(b"IDAT", stored.compress(piece))
    clean += _chunk(b"IDAT", stored.flush()) + _chunk(b"IEND", b"")
    image = imdecode(FORMAT, "libpng", clean, cv2.IMREAD_UNCHANGED)
    if found.type == _PALETTE and found.palette is not None:
        palette = numpy.frombuffer(found.palette, numpy.uint8).reshape(-1, 3)
        indices = image // (255 // (2**found.depth - 1))
        check_range(FORMAT, "colour", indices, palette)
        return palette[indices], "RGB"
    image = image.reshape(head.height, head.width, -1)
    if found.type == _GRAYA:
        return image[..., 2:], "GRAYA"  # libpng's answer is blue, green, red, alpha
    colours: dict[int, Colours] = {_GRAY: "GRAY", _RGB: "BGR", _RGBA: "BGRA"}
    return image, colours[found.type]
