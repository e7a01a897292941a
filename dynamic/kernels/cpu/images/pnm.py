"""PBM, PGM and PPM (P1 to P6), read with NumPy alone. Shades are stretched from 0..maxval to the full range."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy

from ._common import Array, Buffer, Colours, Header, Limits, check_size, corrupt, truncated, unsupported

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "PNM"
_FIELD = re.compile(rb"(?:\s|#[^\n\r]*[\n\r])++([0-9]{1,10})(?![0-9])")
_SHORT = re.compile(rb"(?:\s|#[^\n\r]*[\n\r])*+(?:#[^\n\r]*|[0-9]*)")
_SPACE = re.compile(rb"\s")
_LONGEST_HEADER = 1 << 16
_WHITE, _PART = b" \t\n\r\v\f", 1 << 16  # white space; bytes of numbers that are taken apart at once
_COMMENT = re.compile(rb"#[^\n\r]*")


@dataclass(frozen=True, slots=True)
class _Layout:
    plain: bool  #: numbers written as text
    most: int
    start: int  #: of the pixels


def header(data: Buffer, limits: Limits) -> Header:
    """Read the numbers before the pixels."""
    kind = data[1] - 0x30
    plain, channels, fields = kind <= 3, 3 if kind in (3, 6) else 1, 2 if kind in (1, 4) else 3
    position, values, end = 2, [], min(len(data), _LONGEST_HEADER)
    for _ in range(fields):
        found = _FIELD.match(data, position, end)
        if found is None:
            short = end == len(data) and _SHORT.fullmatch(data, position) is not None
            raise (truncated if short else corrupt)(FORMAT, "the header is not width, height and largest value")
        values.append(int(found[1]))
        position = found.end()
    width, height, most = (*values, 1)[:3]
    if position >= len(data):
        raise truncated(FORMAT, "the bytes end within the header")
    if bytes(data[position : position + 1]) not in (b" ", b"\n", b"\t", b"\r", b"\v", b"\f") and not plain:
        raise corrupt(FORMAT, "no white space between the header and the pixels")
    check_size(FORMAT, height, width, limits)
    if not 1 <= most <= 65535:
        raise corrupt(FORMAT, f"the largest value is {most}; it must be 1 to 65535")
    detail = _Layout(plain, most, position + (not plain))
    needed = _needed(kind, height, width * channels, most)
    if detail.start + needed > len(data):
        raise truncated(FORMAT, f"{len(data) - detail.start} of {needed} bytes of pixels are there")
    return Header(FORMAT, height, width, "RGB" if channels == 3 else "GRAY", detail=detail)


def _needed(kind: int, height: int, row: int, most: int) -> int:
    """The bytes that the pixels need at least."""
    if kind == 1:
        return height * row
    if kind == 4:
        return height * ((row + 7) // 8)
    if kind <= 3:
        return 2 * height * row - 1
    return height * row * (2 if most > 255 else 1)


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:
    """Decode to uint8 or uint16 of shape (height, width, channels)."""
    layout: _Layout = head.detail
    channels = 3 if head.colours == "RGB" else 1
    shape = head.height, head.width, channels
    if data[1] in b"14":
        return _bits(data, head) * numpy.uint8(255), "GRAY"
    count = head.height * head.width * channels
    if layout.plain:
        values = _numbers(data[layout.start :], count)
    else:
        values = numpy.frombuffer(data, ">u2" if layout.most > 255 else "u1", count, layout.start)
    if int(values.max()) > layout.most:
        raise corrupt(FORMAT, f"the value {int(values.max())} is larger than the largest, {layout.most}")
    pixels = values.astype(numpy.uint16 if layout.most > 255 else numpy.uint8).reshape(shape)
    full = 65535 if layout.most > 255 else 255
    if layout.most != full:
        table = (numpy.arange(layout.most + 1) * (2 * full) + layout.most) // (2 * layout.most)
        pixels = table.astype(pixels.dtype)[pixels]
    return pixels, head.colours


def _numbers(data: Buffer, count: int) -> Array:
    text, values = _COMMENT.sub(b" ", data), numpy.empty(count, numpy.int64)
    start = done = 0
    while done < count and start < len(text):
        space = _SPACE.search(text, start + _PART)
        end = len(text) if space is None else space.start()
        words = text[start:end].split(maxsplit=count - done)[: count - done]
        if not all(word.isdigit() and len(word) <= 5 for word in words):
            raise corrupt(FORMAT, "a value is not a number from 0 to 65535")
        values[done : done + len(words)] = numpy.array(words, "S5").astype(numpy.int64)
        start, done = end, done + len(words)
    if done < count:
        raise truncated(FORMAT, f"{done} of {count} values are there")
    return values


def _bits(data: Buffer, head: Header) -> Array:
    """Ones where the paper is white."""
    layout: _Layout = head.detail
    if layout.plain:
        digits = _COMMENT.sub(b"", data[layout.start :]).translate(None, _WHITE)[: head.height * head.width]
        if len(digits) < head.height * head.width:
            raise truncated(FORMAT, f"{len(digits)} of {head.height * head.width} values are there")
        ink = numpy.frombuffer(digits, numpy.uint8) - numpy.uint8(0x30)
        if (ink > 1).any():
            raise corrupt(FORMAT, "a value is neither 0 nor 1")
    else:
        stride = (head.width + 7) // 8
        packed = numpy.frombuffer(data, numpy.uint8, head.height * stride, layout.start).reshape(head.height, stride)
        ink = numpy.unpackbits(packed, axis=1, count=head.width)
    return (1 - ink).astype(numpy.uint8).reshape(head.height, head.width, 1)


def check_kind(data: Buffer) -> None:
    """Refuse the kinds of Netpbm files that are not read: P7 and floating point."""
    if data[1] not in b"123456":
        raise unsupported(FORMAT, f"the kind P{chr(data[1])}")
