"""BMP without compression, read with NumPy alone. The run-length varieties leave pixels unset, so they are refused."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy

from ._common import (
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_range,
    check_size,
    corrupt,
    fields,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "BMP"
_CORE, _INFO = 12, 40
_HEADERS = (_CORE, _INFO, 52, 56, 64, 108, 124)
_PLAIN, _MASKS, _ALPHA_MASKS = 0, 3, 6
_COMPRESSIONS = {1: "run-length coding", 2: "run-length coding", 4: "JPEG inside BMP", 5: "PNG inside BMP"}
#: Bits of red, green, blue and alpha where the file does not say.
_DEFAULT_MASKS = {16: (0x7C00, 0x3E0, 0x1F, 0), 32: (0xFF0000, 0xFF00, 0xFF, 0)}


@dataclass(frozen=True, slots=True)
class _Layout:
    bits: int  #: a pixel
    start: int  #: of the rows
    upwards: bool
    palette: Array | None  #: (entries, 3) red, green, blue
    masks: tuple[int, int, int, int]


def header(data: Buffer, limits: Limits) -> Header:
    """Read the two headers, the masks and the palette."""
    if len(data) < 26:
        raise truncated(FORMAT, "the bytes end within the header")
    start, size = struct.unpack_from("<II", data, 10)
    if size not in _HEADERS:
        raise unsupported(FORMAT, f"a header of {size} bytes")
    if len(data) < 14 + size:
        raise truncated(FORMAT, "the bytes end within the header")
    if size == _CORE:
        width, height, planes, bits = struct.unpack_from("<HHHH", data, 18)
        compression = used = 0
    else:
        width, height, planes, bits, compression = struct.unpack_from("<iiHHI", data, 18)
        (used,) = struct.unpack_from("<I", data, 46)
    check_size(FORMAT, abs(height), width, limits)
    if compression not in (_PLAIN, _MASKS, _ALPHA_MASKS):
        raise unsupported(FORMAT, _COMPRESSIONS.get(compression, f"compression {compression}"))
    masked = compression != _PLAIN
    if planes != 1 or bits not in ((16, 32) if masked else (1, 4, 8, 16, 24, 32)):
        raise corrupt(FORMAT, f"{planes} planes of {bits} bits with compression {compression}")
    masks, tables = _read_masks(data, size, bits, compression)
    palette = _read_palette(data, tables, start, size, bits, used) if bits <= 8 else None
    if start < tables:
        raise corrupt(FORMAT, f"the pixels begin at byte {start}, inside the header")
    if start + abs(height) * _stride(width, bits) > len(data):
        raise truncated(FORMAT, f"the bytes end before row {abs(height)}")
    colours: Colours = "RGBA" if masks[3] else "RGB"
    if palette is not None and (palette == palette[:, :1]).all():
        colours = "GRAY"
    return Header(FORMAT, abs(height), width, colours, detail=_Layout(bits, start, height > 0, palette, masks))


def _stride(width: int, bits: int) -> int:
    return (width * bits + 31) // 32 * 4


def _read_masks(data: Buffer, size: int, bits: int, compression: int) -> tuple[tuple[int, int, int, int], int]:
    """The masks, and where the palette would begin."""
    end = 14 + size
    if compression == _PLAIN:
        return _DEFAULT_MASKS.get(bits, (0, 0, 0, 0)), end
    count = 4 if size >= 56 or compression == _ALPHA_MASKS else 3
    if size == _INFO:
        end += 4 * count
    if len(data) < 54 + 4 * count:
        raise truncated(FORMAT, "the bytes end within the masks")
    red, green, blue, *alpha = struct.unpack_from(f"<{count}I", data, 54)
    masks = red, green, blue, alpha[0] if alpha else 0
    for mask in masks:
        run = mask >> _shift(mask)
        if mask >> bits or run & (run + 1):
            raise corrupt(FORMAT, f"the mask {mask:#x} is not one run of the {bits} bits of a pixel")
    if not (red and green and blue) or red & green or red & blue or green & blue:
        raise corrupt(FORMAT, "the masks of the colours are empty or overlap")
    return masks, end


def _shift(mask: int) -> int:
    """How many zeros a mask ends with."""
    return (mask & -mask).bit_length() - 1 if mask else 0


def _read_palette(data: Buffer, tables: int, start: int, size: int, bits: int, used: int) -> Array:
    entry = 3 if size == _CORE else 4
    if used > 2**bits:
        raise corrupt(FORMAT, f"{used} colours for {bits} bits")
    # Old writers store fewer colours than they declare: those before the pixels count.
    count = min(used or 2**bits, max(0, min(start, len(data)) - tables) // entry)
    if count == 0:
        raise corrupt(FORMAT, "there is no palette")
    table = numpy.frombuffer(data, numpy.uint8, count * entry, tables).reshape(count, entry)
    return table[:, 2::-1]


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:
    """Decode to uint8 of shape (height, width, channels)."""
    layout: _Layout = head.detail
    stride = _stride(head.width, layout.bits)
    rows = numpy.frombuffer(data, numpy.uint8, head.height * stride, layout.start).reshape(head.height, stride)
    if layout.upwards:
        rows = rows[::-1]
    if layout.palette is not None:
        return _look_up(rows, head.width, layout.bits, layout.palette, head.colours)
    if layout.bits == 24:
        return rows[:, : head.width * 3].reshape(head.height, head.width, 3), "BGR"
    if layout.masks == _DEFAULT_MASKS[32] and layout.bits == 32:
        return numpy.ascontiguousarray(rows).reshape(head.height, head.width, 4)[..., :3], "BGR"
    words = numpy.ascontiguousarray(rows).view(f"<u{layout.bits // 8}")[:, : head.width]
    masks = layout.masks if layout.masks[3] else layout.masks[:3]
    return numpy.stack([_spread(words, mask) for mask in masks], axis=-1), head.colours


def _look_up(rows: Array, width: int, bits: int, palette: Array, colours: Colours) -> tuple[Array, Colours]:
    if bits < 8:
        rows = fields(rows, bits)
    indices = rows[:, :width]
    check_range(FORMAT, "colour", indices, palette)
    return palette[:, :1][indices] if colours == "GRAY" else palette[indices], colours


def _spread(words: Array, mask: int) -> Array:
    """The field under a mask, stretched to 0..255."""
    most = mask >> _shift(mask)
    field = (words & mask) >> _shift(mask)
    if most == 255:
        return field.astype(numpy.uint8)
    return ((field.astype(numpy.uint64) * 510 + most) // (2 * most)).astype(numpy.uint8)
