"""TIFF: directory, strips and tiles are read by us; libtiff (in OpenCV) only unpacks LZW and PackBits, one by one."""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy

from ._common import Array, Buffer, Colours, Header, Limits, check_size, corrupt, imdecode, truncated, unsupported

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "TIFF"
_SIZES = {1: 1, 3: 2, 4: 4}  # bytes of the types that matter here: BYTE, SHORT, LONG
_CODES = {1: "B", 3: "H", 4: "I"}
_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS = 1, 5, 8, 32946, 32773
_COMPRESSIONS = (_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS)
_MOST_ENTRIES = 4096
_BIG = ord("+")  # in the place of the star
_CLEAR, _END, _MOST_CODES = 256, 257, 4096  # of LZW


@dataclass(frozen=True, slots=True)
class _Directory:
    tags: dict[int, tuple[int, ...]]
    strips: list[Buffer]
    bits: int
    samples: int
    order: str
    part: tuple[int, int]  #: pixels across and down of a strip or tile


def header(data: Buffer, limits: Limits) -> Header:
    """Read the first directory, and find the strips or tiles in the file."""
    order = "<" if data[0] == 0x49 else ">"
    if _BIG in data[2:4]:
        raise unsupported(FORMAT, "BigTIFF")
    tags = _read_tags(data, order)
    width, height = _one(tags, 256), _one(tags, 257)
    check_size(FORMAT, height, width, limits)
    samples, photometric = _one(tags, 277, 1), _one(tags, 262)
    bits = set(tags.get(258, (1,)))
    colours = _colours(tags, samples, photometric, bits)
    compression = _one(tags, 259, _NONE)
    if compression not in _COMPRESSIONS:
        raise unsupported(FORMAT, f"compression {compression}")
    (depth,) = bits
    tiled = 322 in tags
    part = (_one(tags, 322), _one(tags, 323)) if tiled else (width, min(_one(tags, 278, height), height))
    strips = _find_strips(data, tags, height, width, part, samples * depth)
    orientation = _one(tags, 274, 1)
    detail = _Directory(tags, strips, depth, samples, order, part)
    return Header(FORMAT, height, width, colours, detail.bits, orientation if 1 <= orientation <= 8 else 1, detail)


def _read_tags(data: Buffer, order: str) -> dict[int, tuple[int, ...]]:
    if len(data) < 8:
        raise truncated(FORMAT, "the bytes end within the header")
    (start,) = struct.unpack_from(order + "I", data, 4)
    if start + 2 > len(data):
        raise truncated(FORMAT, "the directory lies beyond the end")
    (count,) = struct.unpack_from(order + "H", data, start)
    if start + 2 + 12 * count > len(data):
        raise truncated(FORMAT, "the bytes end within the directory")
    if count > _MOST_ENTRIES:
        raise corrupt(FORMAT, f"the directory has {count} entries")
    tags: dict[int, tuple[int, ...]] = {}
    for entry in range(start + 2, start + 2 + 12 * count, 12):
        tag, kind, number = struct.unpack_from(order + "HHI", data, entry)
        if kind not in _SIZES or tag in tags:
            continue
        size = _SIZES[kind] * number
        place = entry + 8 if size <= 4 else struct.unpack_from(order + "I", data, entry + 8)[0]
        if place + size > len(data):
            raise truncated(FORMAT, f"the values of tag {tag} lie beyond the end")
        tags[tag] = struct.unpack_from(f"{order}{number}{_CODES[kind]}", data, place)
    return tags


def _one(tags: dict[int, tuple[int, ...]], tag: int, default: int | None = None) -> int:
    values = tags.get(tag) or ((default,) if default is not None else ())
    if not values:
        raise corrupt(FORMAT, f"tag {tag} is missing")
    return values[0]


def _colours(tags: dict[int, tuple[int, ...]], samples: int, photometric: int, bits: set[int]) -> Colours:
    if len(bits) != 1 or not bits <= {8, 16}:
        raise unsupported(FORMAT, f"{sorted(bits)} bits a channel")
    if set(tags.get(339, (1,))) != {1}:
        raise unsupported(FORMAT, "channels that are not unsigned integers")
    if _one(tags, 284, 1) != 1 and samples > 1:
        raise unsupported(FORMAT, "channels in separate planes")
    if photometric in (0, 1) and samples == 1:
        return "GRAY"
    if photometric == 2 and samples in (3, 4):
        return "RGB" if samples == 3 else "RGBA"
    if photometric == 3 and samples == 1 and bits == {8}:
        if len(tags.get(320, ())) != 3 * 256:
            raise corrupt(FORMAT, "the palette does not have 256 colours")
        return "RGB"
    raise unsupported(FORMAT, f"photometric interpretation {photometric} with {samples} channels")


def _find_strips(
    data: Buffer, tags: dict[int, tuple[int, ...]], height: int, width: int, part: tuple[int, int], bits: int
) -> list[Buffer]:
    """The bytes of each strip or tile; there must be as many as the image needs, and each must hold its rows."""
    tiled = 322 in tags
    across, down = part
    if across <= 0 or down <= 0 or across * down > 4 * height * width + 2**20:
        raise corrupt(FORMAT, f"strips or tiles of {across} x {down} pixels")
    needed = -(-width // across) * -(-height // down)
    starts, counts = tags.get(324 if tiled else 273, ()), tags.get(325 if tiled else 279, ())
    if len(starts) != needed or len(counts) != needed:
        raise corrupt(FORMAT, f"{len(starts)} strips or tiles where {needed} are needed")
    compression = _one(tags, 259, _NONE)
    strips = []
    for i, (start, count) in enumerate(zip(starts, counts, strict=True)):
        if start + count > len(data):
            raise truncated(FORMAT, "a strip or tile lies beyond the end")
        rows = down if tiled else min(down, height - i * down)
        size = -(-across * bits // 8) * rows
        strip = data[start : start + count]
        if compression == _NONE and count < size:
            raise truncated(FORMAT, f"a strip or tile has {count} bytes for {size}")
        if compression in (_DEFLATE, _OLD_DEFLATE):
            strip = memoryview(_inflated(strip, size))
        strips.append(strip)
    return strips


def _inflated(strip: Buffer, size: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(strip, size)
        if len(content) == size:
            machine.decompress(machine.unconsumed_tail, 1)
    except zlib.error as error:
        raise corrupt(FORMAT, f"a strip or tile cannot be inflated: {error}") from None
    if len(content) < size:
        raise truncated(FORMAT, f"a strip or tile holds {len(content)} of {size} bytes")
    if not machine.eof and machine.unconsumed_tail:
        raise corrupt(FORMAT, "a strip or tile holds more than its rows")
    return content


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:  # noqa: ARG001 - the strips are in the header
    """Decode to uint8 or uint16 of shape (height, width, channels)."""
    directory: _Directory = head.detail
    predictor = _one(directory.tags, 317, 1)
    if predictor not in (1, 2):
        raise unsupported(FORMAT, f"predictor {predictor}")
    image = numpy.empty((head.height, head.width, directory.samples), f"u{directory.bits // 8}")
    across, down = directory.part
    places = itertools.product(range(0, head.height, down), range(0, head.width, across))
    for (top, left), strip in zip(places, directory.strips, strict=True):
        target = image[top : top + down, left : left + across]
        part = _part(directory, strip, down if 322 in directory.tags else len(target))
        if predictor == 2:
            part = numpy.cumsum(part, axis=1, dtype=part.dtype)
        target[...] = part[: target.shape[0], : target.shape[1]]
    if _one(directory.tags, 262) == 0:
        image = numpy.invert(image)
    if head.colours == "RGB" and directory.samples == 1:
        palette = numpy.array(directory.tags[320], numpy.uint16).reshape(3, 256).T
        return (palette[image[..., 0]] >> 8).astype(numpy.uint8), "RGB"
    return image, head.colours


def _part(directory: _Directory, strip: Buffer, rows: int) -> Array:
    """The values of a strip or tile: (rows, pixels, channels)."""
    kind, across = numpy.dtype(f"{directory.order}u{directory.bits // 8}"), directory.part[0]
    shape = (rows, across, directory.samples)
    size = math.prod(shape) * kind.itemsize
    compression = _one(directory.tags, 259, _NONE)
    if compression in (_LZW, _PACKBITS):
        strip = memoryview(_unpacked(strip, compression, rows, size // rows))
    return numpy.frombuffer(strip, kind, math.prod(shape)).reshape(shape).astype(kind.newbyteorder("="))


def _unpacked(strip: Buffer, compression: int, rows: int, row: int) -> bytes:
    """The bytes of a strip or tile.

    libtiff fills up with anything what is missing of bytes, and refuses to where there are 16 bits a value: so it is
    told that there are. An odd number of bytes, which few files have in a strip, is unpacked here.
    """
    if rows * row % 2:
        content = b"".join((_lzw if compression == _LZW else _packbits)(strip, rows * row))
        if len(content) < rows * row:
            raise truncated(FORMAT, f"a strip or tile holds {len(content)} of {rows * row} bytes")
        return content[: rows * row]
    height, width = (rows, row // 2) if row % 2 == 0 else (rows // 2, row)
    words = imdecode(FORMAT, "libtiff", _file_of(strip, compression, height, width), cv2.IMREAD_UNCHANGED)
    if words.shape != (height, width) or words.dtype != numpy.uint16:
        raise corrupt(FORMAT, "libtiff cannot decode it")
    return words.astype("<u2", copy=False).tobytes()


def _file_of(strip: Buffer, compression: int, height: int, width: int) -> bytes:
    """A file with one strip or tile and the tags that libtiff needs to see it as so many shades of 16 bits."""
    content = bytes(strip) + b"\0" * (len(strip) % 2)
    values = (width, height, 16, compression, 1, 8, 1, height, len(strip))
    entries = zip((256, 257, 258, 259, 262, 273, 277, 278, 279), values, strict=True)
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    return b"II*\0" + struct.pack("<I", 8 + len(content)) + content + struct.pack("<H", 9) + table + bytes(4)


def _packbits(strip: Buffer, size: int) -> Iterator[bytes]:
    """Runs, until there are enough bytes: as they are after a count below 128, one byte repeated after a larger one."""
    position = done = 0
    while done < size and position < len(strip):
        count = strip[position]
        run = bytes(strip[position + 1 : position + 2 + (count if count < 128 else 0)])
        if count > 128:
            run *= 257 - count
        position += 1 + (count + 1 if count < 128 else count > 128)
        done += len(run) * (count != 128)
        if count != 128:
            yield run


def _lzw(strip: Buffer, size: int) -> Iterator[bytes]:
    """What codes of 9 to 12 bits stand for, until there are enough bytes."""
    first = [bytes([i]) for i in range(256)] + [b"", b""]
    table, known, bits, held, done = first.copy(), b"", 0, 0, 0
    for byte in strip:
        held, bits = held << 8 | byte, bits + 8
        width = min(12, max(9, (len(table) + bool(known)).bit_length()))
        if bits < width:
            continue
        bits -= width
        code, held = held >> bits, held & (1 << bits) - 1
        if code == _CLEAR:
            table, known = first.copy(), b""
            continue
        if code == _END or done >= size:
            return
        if code > len(table) or (code == len(table) and not known):
            raise corrupt(FORMAT, f"the code {code} of a strip stands for nothing")
        entry = table[code] if code < len(table) else known + known[:1]
        if known and len(table) < _MOST_CODES:
            table.append(known + entry[:1])
        known, done = entry, done + len(entry)
        yield entry
