"""JPEG 2000, a bare codestream or in its JP2 container: taken apart here, and OpenJPEG (in OpenCV) sees a plain one.

Indices, comments and orders are left out of it, every tile is of one part, and every packet has been walked
over: of these OpenJPEG has had most of its faults.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import cv2
import numpy

from . import packets
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
from .packets import Coding, Tile

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "JPEG 2000"
_START, _SIZE, _PART, _DATA, _END = 0xFF4F, 0xFF51, 0xFF90, 0xFF93, 0xFFD9
_CODING, _CODING_OF_ONE, _STEPS, _STEPS_OF_ONE = 0xFF52, 0xFF53, 0xFF5C, 0xFF5D
#: Segments that decoding does without: lengths of tiles and packets, places of components, comments.
_LEFT_OUT = frozenset([0xFF55, 0xFF57, 0xFF58, 0xFF63, 0xFF64])
_REFUSED = {
    0xFF50: "high-throughput coding",
    0xFF5E: "regions of interest",
    0xFF5F: "a change of progression",
    0xFF60: "packet headers in the main header",
    0xFF61: "packet headers in that of a tile",
}
_COLOURS: dict[int, Colours] = {1: "GRAY", 3: "RGB", 4: "RGBA"}  # by the number of components
_LONGEST = 1 << 20  # rows and columns, for OpenCV
_MOST_TILES = 1 << 12  # OpenJPEG takes 10 kB for each
_PALETTE = b"\3\7\7\7"  # of three columns of 8 bits, as a palette says it
_MAPPED = b"\0\0\1\0\0\0\1\1\0\0\1\2"  # three columns of the palette of component 0
_SRGB, _GRAY, _SYCC = (struct.pack(">I", number) for number in (16, 17, 18))  # colour spaces
_JP2 = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 "

_Segments = dict[tuple[int, int], bytes]  # by marker and component (-1: of all)


@dataclass(slots=True)
class _Parts:
    """A tile of a codestream."""

    segments: _Segments = field(default_factory=dict)
    data: list[Buffer] = field(default_factory=list)
    count: int = 0  #: how many parts it says that there are, or the number of the last one; 0: it does not say


@dataclass(slots=True)
class _Stream:
    """The parts of a codestream."""

    segments: _Segments
    tiles: list[_Parts]
    extents: tuple[int, int]  #: columns and rows of a tile
    components: int
    bits: int
    container: _Container | None = None


@dataclass(slots=True)
class _Container:
    """The header of a JP2 file."""

    space: bytes = b""  #: the enumerated colour space; empty where there is a profile, or nothing
    size: tuple[int, int, int] = (0, 0, 0)  #: rows, columns and components
    palette: bytes = b""
    definition: bytes = b""  #: which channel is which


def header(data: Buffer, limits: Limits) -> Header:
    """Find the codestream, read its size, and find the parts of its tiles."""
    stream, container = (data, None) if data[0] == 0xFF else _codestream(data)
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
    if any(bytes(stream[43 + 3 * i : 45 + 3 * i]) != b"\1\1" for i in range(count)):
        raise unsupported(FORMAT, "components of different sizes")
    if container is not None and container.size != (bottom, right, count):
        told = "{1} x {0} pixels of {2} components".format(*container.size)
        raise corrupt(FORMAT, f"the container says {told}, the codestream {right} x {bottom} of {count}")
    indexed = container is not None and container.palette != b""
    if container is not None and indexed and (colours != "GRAY" or container.palette[2:6] != _PALETTE):
        raise unsupported(FORMAT, "a palette that is not one of three colours of 8 bits")
    across, down, tiles_left, tiles_top = struct.unpack_from(">4I", stream, 24)
    if tiles_left or tiles_top or not across or not down:
        raise corrupt(FORMAT, f"tiles of {across} x {down} that begin at {tiles_left}, {tiles_top}")
    needed = -(-right // across) * -(-bottom // down)
    if needed > _MOST_TILES:
        raise unsupported(FORMAT, f"{needed} tiles, where up to {_MOST_TILES} are read")
    segments, tiles = _taken_apart(stream, needed, count)
    found = _Stream(segments, tiles, (across, down), count, stream[42] + 1, container)
    return Header(FORMAT, bottom, right, "RGB" if indexed else colours, detail=found)


# -- the container


def _codestream(data: Buffer) -> tuple[Buffer, _Container]:
    """The codestream in a container, and its description."""
    container = _Container()
    for name, content in _boxes(data):
        if name == b"jp2c" and container is None:
            raise corrupt(FORMAT, "a codestream comes before its description")
        if name == b"jp2c":
            return content, container
        if name == b"jp2h":
            container = _described(content)
    raise truncated(FORMAT, "there is no codestream")


def _described(content: Buffer) -> _Container:
    inner: dict[bytes, bytes] = {}
    for name, box in _boxes(content):
        inner.setdefault(name, bytes(box))
    size = inner.get(b"ihdr", b"")
    if len(size) != 14:
        raise corrupt(FORMAT, "the container does not say how large the image is")
    found = _Container(definition=inner.get(b"cdef", b""), size=struct.unpack_from(">IIH", size))
    space = inner.get(b"colr", b"\2")
    if space[0:1] == b"\1":
        found.space = space[3:7]
        if found.space not in (_SRGB, _GRAY, _SYCC) or len(space) != 7:
            raise unsupported(FORMAT, f"colour space {int.from_bytes(found.space, 'big')}")
    if b"pclr" in inner:
        found.palette = inner[b"pclr"].ljust(6, b"\0")
        if inner.get(b"cmap") != _MAPPED:
            raise unsupported(FORMAT, "a palette whose columns are not mapped to red, green and blue")
        if len(found.palette) != 6 + 3 * int.from_bytes(found.palette[:2], "big"):
            raise corrupt(FORMAT, f"a palette of {len(found.palette)} bytes")
    return found


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


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def _contained(stream: bytes, head: Header) -> bytes:
    """A codestream in a container with the description of the file's, and nothing else."""
    found: _Stream = head.detail
    container = found.container
    if container is None:
        return stream
    channels = CHANNELS[head.colours]
    size = struct.pack(">IIHBBBB", head.height, head.width, found.components, found.bits - 1, 7, 0, 0)
    space = container.space or (_GRAY if channels == 1 else _SRGB)  # profiles are ignored
    inner = _box(b"ihdr", size) + _box(b"colr", b"\1\0\0" + space)
    if container.palette:
        inner += _box(b"pclr", container.palette) + _box(b"cmap", _MAPPED)
    if container.definition:
        _check_definition(container.definition, channels)
        inner += _box(b"cdef", container.definition)
    return _JP2 + _box(b"jp2h", inner) + struct.pack(">I4s", 0, b"jp2c") + stream


def _check_definition(definition: bytes, channels: int) -> None:
    """Refuse a definition of channels that names others, or one twice."""
    count = int.from_bytes(definition[:2], "big")
    if len(definition) != 2 + 6 * count:
        raise corrupt(FORMAT, f"a definition of {count} channels has {len(definition)} bytes")
    entries = list(struct.iter_unpack(">HHH", definition[2:]))
    named = {channel for channel, _, _ in entries}
    if len(named) != count or not named <= set(range(channels)):
        raise corrupt(FORMAT, f"channels {[entry[0] for entry in entries]} of {channels} are defined")
    meant = [of for _, kind, of in entries if kind == 0 and of not in (0, 0xFFFF)]
    if len(set(meant)) != len(meant) or any(of > channels for of in meant):
        raise corrupt(FORMAT, f"{channels} channels are said to be the colours {meant}")


# -- the codestream


def _taken_apart(stream: Buffer, needed: int, components: int) -> tuple[_Segments, list[_Parts]]:
    """The segments of the main header, and the parts of each tile."""
    segments: _Segments = {}
    tiles = [_Parts() for _ in range(needed)]
    tile: _Parts | None = None  # the one of whose part the header is read
    position, end_of_part, begun = 2, len(stream), False
    for _ in limited(FORMAT, "segments and parts of tiles", 1 << 17):
        if position + 2 > end_of_part:
            break
        (marker,) = struct.unpack_from(">H", stream, position)
        if marker == _END and tile is None:
            return segments, _whole(tiles)
        if marker == _DATA and tile is not None:
            tile.data.append(stream[position + 2 : end_of_part])
            position, end_of_part, tile = end_of_part, len(stream), None
            continue
        if position + 4 > end_of_part:
            break
        end = position + 2 + (stream[position + 2] << 8 | stream[position + 3])
        if end < position + 4:
            raise corrupt(FORMAT, f"the segment of marker {marker:04X} has length {end - position - 2}")
        if end > end_of_part:
            break
        if tile is None and (marker == _PART or begun):
            begun = True
            tile, end_of_part = _begun_part(stream, position, tiles)
        else:
            _collect(
                marker,
                bytes(stream[position + 4 : end]),
                segments if tile is None else tile.segments,
                components,
                allowed=tile is None or not tile.data,
            )
        position = end
    raise truncated(FORMAT, "the bytes end before the end-of-codestream marker")


def _begun_part(stream: Buffer, position: int, tiles: list[_Parts]) -> tuple[_Parts, int]:
    """The tile of a part, and where the part ends."""
    if position + 12 > len(stream):
        raise truncated(FORMAT, "the bytes end within the header of a part of a tile")
    marker, length, number, size, which, count = struct.unpack_from(">HHHIBB", stream, position)
    if marker != _PART or length != 10:
        raise corrupt(FORMAT, f"marker {marker:04X} of length {length} should begin a part of a tile")
    size = size or len(stream) - 2 - position  # of the last part
    if number >= len(tiles) or size < 14:
        raise corrupt(FORMAT, f"a part of tile {number} of {len(tiles)} with {size} bytes")
    if position + size > len(stream):
        raise truncated(FORMAT, f"the bytes end within tile {number}")
    tile = tiles[number]
    if which != len(tile.data) or (count and (which > count or tile.count not in (0, count))):
        raise corrupt(FORMAT, f"part {which} of {count or tile.count} of tile {number} follows {len(tile.data)} parts")
    tile.count = count or tile.count
    return tile, position + size


def _whole(tiles: list[_Parts]) -> list[_Parts]:
    """Refuse a codestream where a tile, or a part of one, is missing."""
    found = sum(bool(tile.data) for tile in tiles)
    if found < len(tiles):
        raise truncated(FORMAT, f"{found} of {len(tiles)} tiles are there")
    for number, tile in enumerate(tiles):
        if len(tile.data) < tile.count:
            raise truncated(FORMAT, f"{len(tile.data)} of {tile.count} parts of tile {number} are there")
    return tiles


def _collect(marker: int, content: bytes, into: _Segments, components: int, *, allowed: bool) -> None:
    """Keep a segment that says how to decode; refuse one that is not known here, or out of place."""
    if marker in _REFUSED:
        raise unsupported(FORMAT, _REFUSED[marker])
    if marker in _LEFT_OUT or (marker == _SIZE and not into):
        return
    if marker not in (_CODING, _CODING_OF_ONE, _STEPS, _STEPS_OF_ONE) or not allowed:
        raise corrupt(FORMAT, f"the marker {marker:04X} is out of place")
    component = content[0] if marker in (_CODING_OF_ONE, _STEPS_OF_ONE) and content else -1
    if component >= components or (marker, component) in into:
        raise corrupt(FORMAT, f"the marker {marker:04X} is there twice, or of component {component} of {components}")
    into[marker, component] = content


def _codings(main: _Segments, own: _Segments, components: int) -> tuple[bytes, list[Coding]]:
    """The coding of a tile: of all its components, and of each."""
    general = own.get((_CODING, -1)) or main.get((_CODING, -1)) or b""
    if len(general) < 10:
        raise corrupt(FORMAT, "there is no coding style, or it is too short")
    found = []
    for component in range(components):
        # The order of precedence: of this component in the tile, in the tile, of this component, in the main header.
        style = steps = b""
        for held in (main, own):
            if (_CODING, -1) in held:
                style = held[_CODING, -1][:1] + held[_CODING, -1][5:]
            style = held.get((_CODING_OF_ONE, component), b"?" + style)[1:]
            steps = held.get((_STEPS, -1), steps)
            steps = held.get((_STEPS_OF_ONE, component), b"?" + steps)[1:]
        found.append(packets.coding(style, steps))
    order, layers, mixed = struct.unpack_from(">BHB", general, 1)
    if general[0] > 7 or order > 4 or not layers or mixed > 1:
        raise corrupt(FORMAT, f"coding style {general[0]}, progression {order}, {layers} layers, transform {mixed}")
    if mixed and components > 2 and len({(one.reversible, one.levels) for one in found[:3]}) > 1:
        raise corrupt(FORMAT, "components that are mixed are not coded alike")
    return general, found


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:  # noqa: ARG001 - its parts are in the header
    """Decode to uint8 or uint16 of shape (height, width, channels)."""
    found: _Stream = head.detail
    sizes = struct.pack(">8IH", head.width, head.height, 0, 0, *found.extents, 0, 0, found.components)
    content = b"\0\0" + sizes + bytes([found.bits - 1, 1, 1]) * found.components
    clean = bytearray(struct.pack(">HHH", _START, _SIZE, 2 + len(content)) + content + _written(found.segments))
    walk, filled = packets.Walk(), False
    for number, parts in enumerate(found.tiles):
        whole = b"".join(parts.data)
        general, codings = _codings(found.segments, parts.segments, found.components)
        filled |= walk.tile(_place(number, head), general, codings, whole)
        own = _written(parts.segments)
        clean += struct.pack(">HHHIBB", _PART, 10, number, 14 + len(own) + len(whole), 0, 1) + own
        clean += struct.pack(">H", _DATA) + whole
    clean += struct.pack(">H", _END)
    wide = numpy.uint8 if found.bits == 8 else numpy.uint16
    flags = cv2.IMREAD_COLOR_BGR if head.colours == "RGB" and found.components == 1 else cv2.IMREAD_UNCHANGED
    if not filled and _is_plain(found.container):  # coefficients of 0, which take OpenJPEG as long as others
        shape = head.height, head.width, CHANNELS[head.colours]
        return numpy.full(shape, 1 << (found.bits - 1), wide), head.colours
    image = imdecode(FORMAT, "OpenJPEG", _contained(bytes(clean), head), flags)
    if image.size != head.height * head.width * CHANNELS[head.colours]:
        raise corrupt(FORMAT, f"the container does not define {CHANNELS[head.colours]} components")
    swapped: dict[Colours, Colours] = {"RGB": "BGR", "RGBA": "BGRA"}
    return image, swapped.get(head.colours, head.colours)


def _is_plain(container: _Container | None) -> bool:
    """Whether pixels are the components of the codestream."""
    return container is None or not (container.palette or container.definition or container.space == _SYCC)


def _written(segments: _Segments) -> bytes:
    return b"".join(
        struct.pack(">HH", marker, 2 + len(content)) + content for (marker, _), content in sorted(segments.items())
    )


def _place(number: int, head: Header) -> Tile:
    across, down = head.detail.extents
    row, column = divmod(number, -(-head.width // across))
    return Tile(row * down, column * across, min(head.height, (row + 1) * down), min(head.width, (column + 1) * across))
