"""TIFF: directory, strips and tiles are read by us; libtiff (in OpenCV) only unpacks LZW and PackBits, one by one."""

from __future__ import annotations

import collections
import itertools
import struct
from dataclasses import dataclass
from typing import TypeAlias

import cv2
import numpy

from dynamic.kernels.cpu.strips import strips

from . import exif
from ._common import (
    CHANNELS,
    MOST_INFLATED,
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_size,
    corrupt,
    fields,
    imdecode,
    inflated,
    is_bomb,
    too_large,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "TIFF"
_SIZES = {1: 1, 3: 2, 4: 4, 16: 8}  # bytes of the types that matter here: BYTE, SHORT, LONG, LONG8
_Tags: TypeAlias = dict[int, Array]  # views of the file: hostile ones may claim millions of values each
_CODES = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}
_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS = 1, 5, 8, 32946, 32773
_COMPRESSIONS = (_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS)
_PREDICTED = (_LZW, _DEFLATE, _OLD_DEFLATE)  # of the others a predictor means nothing
_PLANES = 2  # the channels are stored one after the other, and not pixel by pixel
_MOST_ENTRIES, _MOST_SAMPLES, _MOST_PARTS = 4096, 16, 1 << 17
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _INDEX, _INK = 0, 1, 2, 3, 5  # photometric interpretations
_ASSOCIATED = 1  # alpha, by which the colours are multiplied
_LOWEST_FIRST = 2  # the order of the bits of a byte
_TURNED_ROUND = numpy.packbits(numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1)[:, ::-1])
_BIG = ord("+")  # in the place of the star
_SHARED = 4  # how often the bytes of a file may be of several strips
_STRICT = (16, 10, 12, 14)  # bits of values that libtiff fills nothing up with
_TOGETHER = (1, 2, 3, 5, 7, 11)
_MOST_OF_BYTE = 255  # colours of palettes have 16 bits
_PIXELS = 1 << 16  # that are divided by their alpha at a time
_LONGEST = 1 << 20  # rows and columns, for OpenCV


@dataclass(frozen=True, slots=True)
class _Directory:
    tags: _Tags
    strips: list[Buffer]
    bits: int
    samples: int
    planes: int  #: how many there are of `samples` channels each
    order: str
    part: tuple[int, int]  #: pixels across and down of a strip or tile


def header(data: Buffer, limits: Limits) -> Header:
    """Read the first directory, and find the strips or tiles in the file."""
    order = "<" if data[0] == 0x49 else ">"
    tags = _read_tags(data, order)
    width, height = _one(tags, 256), _one(tags, 257)
    check_size(FORMAT, height, width, limits)
    samples, photometric = _one(tags, 277, 1), _one(tags, 262)
    if height * width * samples > 4 * limits.pixels:
        raise too_large(
            FORMAT,
            f"the header says {width} x {height} pixels of {samples} channels, more than "
            f"max_pixels={limits.pixels} of 4; pass a larger max_pixels to accept it",
        )
    bits = _each(tags, 258, min(samples, _MOST_SAMPLES))
    colours = _colours(tags, samples, photometric, bits)
    compression = _one(tags, 259, _NONE)
    if compression not in _COMPRESSIONS:
        raise unsupported(FORMAT, f"compression {compression}")
    (depth,) = bits
    planes = samples if _one(tags, 284, 1) == _PLANES else 1
    tiled = 322 in tags
    part = (_one(tags, 322), _one(tags, 323)) if tiled else (width, min(_one(tags, 278, height), height))
    strips = _find_strips(data, tags, height, width, part, samples // planes * depth, planes)
    detail = _Directory(tags, strips, depth, samples // planes, planes, order, part)
    extra = 0 if photometric == _INDEX else samples - CHANNELS[colours]
    return Header(FORMAT, height, width, colours, exif.orientation(data) or 1, detail, extra)


def _read_tags(data: Buffer, order: str) -> _Tags:
    big = _BIG in data[2:4]
    word, many, within = ("Q", "Q", 8) if big else ("I", "H", 4)  # `within`: bytes of values that an entry holds itself
    if len(data) < 2 * within:
        raise truncated(FORMAT, "the bytes end within the header")
    if big and bytes(data[4:8]) != struct.pack(order + "HH", within, 0):
        raise corrupt(FORMAT, "a BigTIFF whose offsets do not have 8 bytes")
    (start,) = struct.unpack_from(order + word, data, within)
    first, length = start + struct.calcsize(order + many), 4 + 2 * within
    if first > len(data):
        raise truncated(FORMAT, "the directory lies beyond the end")
    (count,) = struct.unpack_from(order + many, data, start)
    if first + length * count > len(data):
        raise truncated(FORMAT, "the bytes end within the directory")
    if count > _MOST_ENTRIES:
        raise corrupt(FORMAT, f"the directory has {count} entries")
    tags: _Tags = {}
    for entry in range(first, first + length * count, length):
        tag, kind, number = struct.unpack_from(order + "HH" + word, data, entry)
        if kind not in _SIZES or tag in tags:
            continue
        size, place = _SIZES[kind] * number, entry + 4 + within
        if size > within:
            (place,) = struct.unpack_from(order + word, data, place)
        if place + size > len(data):
            raise truncated(FORMAT, f"the values of tag {tag} lie beyond the end")
        tags[tag] = numpy.frombuffer(data, order + _CODES[kind], number, place)
    return tags


def _one(tags: _Tags, tag: int, default: int | None = None) -> int:
    if tag in tags and len(tags[tag]):
        return int(tags[tag][0])
    if default is None:
        raise corrupt(FORMAT, f"tag {tag} is missing")
    return default


def _each(tags: _Tags, tag: int, samples: int) -> set[int]:
    """The values of a tag that has one for each channel, 1 by default."""
    return set(tags[tag][:samples].tolist()) if tag in tags else {1}


def _colours(tags: _Tags, samples: int, photometric: int, bits: set[int]) -> Colours:
    """The meaning of the first channels."""
    if len(bits) != 1 or not bits <= ({8, 16} if samples > 1 else {1, 2, 4, 8, 16}):
        raise unsupported(FORMAT, f"{samples} channels of {sorted(bits)} bits")
    if _each(tags, 339, samples) != {1}:
        raise unsupported(FORMAT, "channels that are not unsigned integers")
    if _one(tags, 284, 1) not in (1, _PLANES):
        raise corrupt(FORMAT, f"planar configuration {_one(tags, 284)}")
    if photometric in (_WHITE_IS_ZERO, _BLACK_IS_ZERO) and 1 <= samples <= 2:
        return "GRAY" if samples == 1 else "GRAYA"
    if photometric == _RGB and 3 <= samples <= _MOST_SAMPLES:
        return "RGB" if samples == 3 else "RGBA"
    if photometric == _INK and samples == 4 and bits == {8} and _one(tags, 332, 1) == 1:
        return "CMYK"
    if photometric == _INDEX and samples == 1:
        if 320 not in tags or len(tags[320]) != 3 << max(bits):
            raise corrupt(FORMAT, f"the palette does not have {1 << max(bits)} colours")
        return "RGB"
    raise unsupported(FORMAT, f"photometric interpretation {photometric} with {samples} channels")


def _find_strips(
    data: Buffer, tags: _Tags, height: int, width: int, part: tuple[int, int], bits: int, planes: int
) -> list[Buffer]:
    """The bytes of each strip or tile, as they are in the file; there must be as many as the image needs."""
    tiled = 322 in tags
    across, down = part
    if across <= 0 or down <= 0 or across * down > 4 * height * width + 2**20:
        raise corrupt(FORMAT, f"strips or tiles of {across} x {down} pixels")
    of_plane = -(-width // across) * -(-height // down)
    needed = of_plane * planes
    if needed > _MOST_PARTS:
        raise unsupported(FORMAT, f"{needed} strips or tiles")
    starts, counts = (tags.get(tag, numpy.empty(0, "u4")) for tag in ((324, 325) if tiled else (273, 279)))
    if len(starts) != needed or len(counts) != needed:
        raise corrupt(FORMAT, f"{len(starts)} strips or tiles where {needed} are needed")
    compression = _one(tags, 259, _NONE)
    strips, claimed = [], 0
    for i, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        if start + count > len(data):
            raise truncated(FORMAT, "a strip or tile lies beyond the end")
        rows = down if tiled else min(down, height - i % of_plane * down)
        size = -(-across * bits // 8) * rows
        if _most_unpacked(compression, count) < size:
            raise truncated(FORMAT, f"a strip or tile has {count} bytes for {size}")
        strips.append(data[start : start + (min(count, size) if compression == _NONE else count)])
        claimed += len(strips[-1])
    if claimed > _SHARED * len(data) + (1 << 20):
        raise corrupt(FORMAT, f"strips or tiles share bytes: they are of {claimed} in a file of {len(data)}")
    return strips


def _most_unpacked(compression: int, size: int) -> int:
    """How many bytes so many may hold at most."""
    if compression == _PACKBITS:
        return 128 * -(-size // 2)
    if compression == _LZW:
        codes = 8 * size // 9
        return codes * min(codes, 4096)  # the first stand for one byte each, and others for one more than those before
    return size if compression == _NONE else MOST_INFLATED * (size + 1)


def _inflated(strip: Buffer, size: int) -> bytes:
    """The bytes of a strip or tile, all of which are there."""
    pieces = inflated(FORMAT, "a strip or tile", strip, size)
    if is_bomb(len(strip), size):
        collections.deque(pieces, 0)
        pieces = inflated(FORMAT, "a strip or tile", strip, size)
    return b"".join(pieces)


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:  # noqa: ARG001 - the strips are in the header
    """Decode to uint8 or uint16 of shape (height, width, channels)."""
    directory: _Directory = head.detail
    tags, bits, samples = directory.tags, directory.bits, directory.samples
    predictor = _one(tags, 317, 1) if _one(tags, 259, _NONE) in _PREDICTED else 1
    if predictor not in (1, 2) or (predictor == 2 and bits < 8):
        raise unsupported(FORMAT, f"predictor {predictor} of {bits} bits")
    image = numpy.empty((head.height, head.width, samples * directory.planes), "u1" if bits <= 8 else "u2")
    across, down = directory.part
    places = itertools.product(range(directory.planes), range(0, head.height, down), range(0, head.width, across))
    for (plane, top, left), strip in zip(places, directory.strips, strict=True):
        target = image[top : top + down, left : left + across, plane : plane + samples]
        part = _part(directory, strip, down if 322 in tags else len(target))
        if predictor == 2:
            part = numpy.cumsum(part, axis=1, dtype=part.dtype)
        target[...] = part[: target.shape[0], : target.shape[1]]
    if _one(tags, 262) == _INDEX:
        palette = tags[320].reshape(3, -1).T
        if int(palette.max()) > _MOST_OF_BYTE:  # else they are bytes, as some write them, and not almost black
            palette = palette >> 8
        return palette.astype(numpy.uint8)[image[..., 0]], "RGB"
    if bits < 8:
        image *= 255 // (2**bits - 1)
    if head.colours in ("GRAYA", "RGBA") and _one(tags, 338, 0) == _ASSOCIATED:
        for part, there in strips(image, image, _PIXELS, image.shape[2]):
            there[...] = _divided(part, CHANNELS[head.colours] - 1)
    if _one(tags, 262) == _WHITE_IS_ZERO:
        numpy.invert(image[..., 0], out=image[..., 0])
    return image, head.colours


def _divided(image: Array, alpha: int) -> Array:
    """Colours that were multiplied by their alpha, the channel of this number, as they were before."""
    most, by = numpy.uint32(numpy.iinfo(image.dtype).max), image[..., alpha : alpha + 1].astype(numpy.uint32)
    colours = (image[..., :alpha] * most + by // 2) // numpy.maximum(by, 1)
    return numpy.concatenate([numpy.minimum(colours, most).astype(image.dtype), image[..., alpha:]], axis=-1)


def _part(directory: _Directory, strip: Buffer, rows: int) -> Array:
    """The values of a strip or tile: (rows, pixels, channels)."""
    bits, (across, _) = directory.bits, directory.part
    if _one(directory.tags, 266, 1) == _LOWEST_FIRST:
        strip = memoryview(_TURNED_ROUND[numpy.frombuffer(strip, numpy.uint8)].tobytes())
    kind = numpy.dtype(f"{directory.order}u{-(-bits // 8)}")
    row = -(-across * directory.samples * bits // 8)
    size = rows * row
    compression = _one(directory.tags, 259, _NONE)
    if compression in (_DEFLATE, _OLD_DEFLATE):
        strip = memoryview(_inflated(strip, size))
    elif compression in (_LZW, _PACKBITS):
        strip = memoryview(_unpacked(strip, compression, rows, row))
    values = numpy.frombuffer(strip, kind, size // kind.itemsize).reshape(rows, -1).astype(kind.newbyteorder("="))
    if bits < 8:
        values = fields(values, bits)[:, :across]
    return values.reshape(rows, across, -1)


def _unpacked(strip: Buffer, compression: int, rows: int, row: int) -> bytes:
    """The bytes of a strip or tile that is packed in another way.

    libtiff would fill up missing values of 8 bits, and refuses larger ones. So it is told that there
    are values of 16 bits; where a row has an odd number of bytes, that they are of a size that makes such rows, and
    then, when all are there, the truth.
    """
    fitting = (k for k in _TOGETHER if rows % k == 0 and any(_width(row * k, bits) for bits in _STRICT))
    together = next(fitting, rows)  # rows that are taken as one: those of 31 bytes, for example, do not fit alone
    rows, row = rows // together, row * together
    bits = next((bits for bits in _STRICT if _width(row, bits) is not None), 16)
    width = _width(row, bits) or row // 2
    exact = bits == 16 and 2 * width == row
    if max(rows, width if exact else row) > _LONGEST:
        raise unsupported(FORMAT, f"a strip or tile of {rows} rows of {row} bytes")
    values = _by_libtiff(strip, compression, rows, width, bits) if width else None
    if values is None or not exact:
        values = _by_libtiff(strip, compression, rows, row, 8)
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _width(row: int, bits: int) -> int | None:
    """How many values of a size make a row of so many bytes, where any number does."""
    width = row * 8 // bits
    return width if width and -(-width * bits // 8) == row else None


def _by_libtiff(strip: Buffer, compression: int, height: int, width: int, bits: int) -> Array:
    """The values of a strip or tile, (height, width), by way of a file that has no other."""
    content = bytes(strip) + b"\0" * (len(strip) % 2)
    values = (width, height, bits, compression, 1, 8, 1, height, len(strip))
    entries = zip((256, 257, 258, 259, 262, 273, 277, 278, 279), values, strict=True)
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    start = struct.pack("<I", 8 + len(content))
    file = b"II*\0" + start + content + struct.pack("<H", len(values)) + table + bytes(4)
    image = imdecode(FORMAT, "libtiff", file, cv2.IMREAD_UNCHANGED)
    if image.shape != (height, width) or image.itemsize != (1 if bits == 8 else 2):
        raise corrupt(FORMAT, "libtiff cannot decode it")
    return image
