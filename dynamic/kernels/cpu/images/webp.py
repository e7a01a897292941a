"""WebP: the container and the sizes are checked, then libwebp (in OpenCV), which is strict and silent."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cv2

from . import exif
from ._common import (
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_size,
    corrupt,
    imdecode,
    limited,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "decode", "header"]

FORMAT = "WebP"
_LEAST_BITS = 1.5  # of a block of 16 x 16: its two modes have probabilities of at most 145 and 142 in 256
_ANIMATION, _EXIF = 0x02, 0x08  # flags of the canvas


def _chunks(data: Buffer) -> Iterator[tuple[bytes, Buffer]]:
    if len(data) < 20:
        raise truncated(FORMAT, "the bytes end within the header")
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    if end > len(data):
        raise truncated(FORMAT, f"{len(data)} of {end} bytes are there")
    position = 12
    for _ in limited(FORMAT, "chunks", 1 << 12):
        if position >= end:
            return
        if position + 8 > end:
            raise corrupt(FORMAT, "the last chunk has no room")
        name, size = struct.unpack_from("<4sI", data, position)
        if position + 8 + size > end:
            raise corrupt(FORMAT, "a chunk goes beyond the end of the file")
        yield name, data[position + 8 : position + 8 + size]
        position += 8 + size + size % 2


def header(data: Buffer, limits: Limits) -> Header:
    """Read the sizes in the container and in the picture, and the orientation."""
    canvas: tuple[int, int] | None = None
    frame: tuple[int, int, bool] | None = None
    alpha = has_exif = False
    orientation: int | None = None
    for name, chunk in _chunks(data):
        if name == b"VP8X":
            canvas = _read_canvas(chunk)
            has_exif = bool(chunk[0] & _EXIF)
        elif name in (b"VP8 ", b"VP8L"):
            if frame is not None:
                raise corrupt(FORMAT, "there are two pictures")
            frame = _read_lossy(chunk) if name == b"VP8 " else _read_lossless(chunk)
        elif name == b"ALPH":
            alpha = canvas is not None
        elif name == b"EXIF" and has_exif:
            orientation = orientation or exif.orientation(chunk)
    if frame is None:
        raise corrupt(FORMAT, "there is no picture")
    height, width, transparent = frame
    if canvas is not None and canvas != (height, width):
        raise corrupt(FORMAT, f"a canvas of {canvas[1]} x {canvas[0]} pixels with a picture of {width} x {height}")
    check_size(FORMAT, height, width, limits)
    return Header(FORMAT, height, width, "RGBA" if alpha or transparent else "RGB", orientation or 1)


def _read_canvas(chunk: Buffer) -> tuple[int, int]:
    if len(chunk) < 10:
        raise corrupt(FORMAT, "the chunk VP8X is too short")
    if chunk[0] & _ANIMATION:
        raise unsupported(FORMAT, "animation")
    return 1 + int.from_bytes(chunk[7:10], "little"), 1 + int.from_bytes(chunk[4:7], "little")


def _read_lossy(chunk: Buffer) -> tuple[int, int, bool]:
    if len(chunk) < 10 or bytes(chunk[3:6]) != b"\x9d\x01\x2a" or chunk[0] & 1:
        raise corrupt(FORMAT, "the picture does not begin with a key frame")
    width, height = (extent & 0x3FFF for extent in struct.unpack_from("<HH", chunk, 6))
    first = int.from_bytes(chunk[:3], "little") >> 5
    if 10 + first > len(chunk):
        raise corrupt(FORMAT, "the first part of the picture is longer than the picture")
    if 8 * (first + 8) < _LEAST_BITS * -(-height // 16) * -(-width // 16):
        raise truncated(FORMAT, f"{first} bytes cannot tell how the blocks of {width} x {height} pixels are predicted")
    return height, width, False


def _read_lossless(chunk: Buffer) -> tuple[int, int, bool]:
    if len(chunk) < 5 or chunk[0] != 0x2F:
        raise corrupt(FORMAT, "the lossless picture does not begin with its signature")
    bits = int.from_bytes(chunk[1:5], "little")
    if bits >> 29:
        raise corrupt(FORMAT, f"version {bits >> 29} of lossless coding")
    return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF), bool(bits >> 28 & 1)


def decode(data: Buffer, head: Header) -> tuple[Array, Colours]:
    """Decode to uint8 of shape (height, width, channels)."""
    flags = cv2.IMREAD_UNCHANGED if head.colours == "RGBA" else cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
    image = imdecode(FORMAT, "libwebp", data, flags)
    if image.shape[:2] != (head.height, head.width):
        raise corrupt(FORMAT, "libwebp cannot decode it")
    if head.colours == "RGBA" and image.shape[2] != 4:
        return image, "BGR"
    return image, "BGRA" if head.colours == "RGBA" else "RGB"
