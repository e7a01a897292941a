"""Image files: recognised by their first bytes, checked before memory is taken, decoded by the strictest decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from . import bmp, convert, gif, jpeg, jpeg2000, png, pnm, tiff, webp
from ._common import Array, Buffer, Header, Limits, corrupt, too_large, truncated, unsupported

__all__ = ["Header", "Limits", "decode", "header"]

_SIGNATURES: tuple[tuple[bytes, Any], ...] = (
    (b"\xff\xd8", jpeg),
    (b"\x89PNG", png),
    (b"BM", bmp),
    (b"GIF87a", gif),
    (b"GIF89a", gif),
    (b"II*\0", tiff),
    (b"MM\0*", tiff),
    (b"II+\0", tiff),
    (b"MM\0+", tiff),
    (b"\0\0\0\x0cjP  \r\n\x87\n", jpeg2000),
    (b"\xff\x4f\xff\x51", jpeg2000),
)


def _format(data: Buffer) -> Any:
    """The module for a file, by its first bytes; names are never looked at."""
    start = bytes(data[:16])
    for signature, module in _SIGNATURES:
        if start.startswith(signature):
            return module
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return webp
    if (
        start[:1] == b"P"
        and (start[1:2].isdigit() or start[1:2] in b"fF")
        and (start[2:3].isspace() or start[2:3] == b"#")
    ):
        pnm.check_kind(data)
        return pnm
    if not start:
        raise truncated(None, "there are no bytes")
    if any(signature.startswith(start) for signature, _ in _SIGNATURES):
        raise truncated(None, f"there are only {len(start)} bytes")
    raise unsupported(None, f"bytes that begin with {start[:8]!r} are no image format that is read here")


def header(data: Buffer, limits: Limits) -> Header:
    """What an encoded image says about itself; refuses one that is larger than the limits allow."""
    module = _format(data)
    if len(data) > limits.encoded_bytes:
        raise too_large(module.FORMAT, f"{len(data)} bytes are more than max_encoded_bytes={limits.encoded_bytes}")
    found: Header = module.header(data, limits)
    return found


def decode(
    data: Buffer,
    head: Header,
    limits: Limits,
    output_type: str,
    *,
    adjust_orientation: bool,
    fast_idct: bool,
    out: Array,
    corner: Sequence[int] | None = None,
) -> None:
    """Decode an image into `out`, whose shape and dtype say what is wanted of size, channels and range of values.

    Args:
        data: The file.
        head: Its header.
        limits: How large it may be.
        output_type: What the channels of `out` are to mean.
        adjust_orientation: Whether to turn the image upright.
        fast_idct: Whether to decode JPEG faster and less exactly.
        out: Where to.
        corner: Where (y, x) the window begins that `out` is of the image, upright if it is turned so; by default `out`
            is the whole image.
    """
    orientation = head.orientation if adjust_orientation else 1
    window = _window(head, orientation, corner, out)
    if window == (0, 0, head.height, head.width):
        window = None
    if not out.size:
        return
    bottom = head.height if window is None else window[0] + window[2]
    if head.format == jpeg.FORMAT:
        target = jpeg_target(head, output_type)
        direct = window is None and orientation == 1 and target == output_type and out.dtype == numpy.uint8
        pixels, colours = jpeg.decode(
            data, head, limits, target, fast_idct=fast_idct, out=out if direct else None, bottom=bottom
        )
        if direct and pixels.base is not None and numpy.may_share_memory(pixels, out):
            return
    elif head.format == png.FORMAT:
        pixels, colours = png.decode(head)
    else:
        pixels, colours = _format(data).decode(data, head)
    if pixels.shape[1] != head.width or not bottom <= pixels.shape[0] <= head.height:
        raise corrupt(
            head.format, f"{pixels.shape[1]} x {pixels.shape[0]} pixels came out of {head.width} x {head.height}"
        )
    if window is not None:
        pixels = pixels[window[0] : bottom, window[1] : window[1] + window[3]]
    pixels = convert.colours(pixels, colours, output_type)
    if orientation != 1:
        pixels = convert.upright(pixels, orientation)
    convert.values(pixels, out)


def _window(
    head: Header, orientation: int, corner: Sequence[int] | None, out: Array
) -> tuple[int, int, int, int] | None:
    """Where a window of the upright image lies in the stored one: its first row and column, height and width."""
    if corner is None:
        return None
    (top, left), (rows, columns) = corner, out.shape[:2]
    if orientation >= 5:
        top, left, rows, columns = left, top, columns, rows
    if orientation in (3, 4, 6, 7):
        top = head.height - top - rows
    if orientation in (2, 3, 7, 8):
        left = head.width - left - columns
    return top, left, rows, columns


def jpeg_target(head: Header, output_type: str) -> str:
    """What to ask of libjpeg for an output type: the nearest that it makes itself."""
    if output_type in ("RGB", "BGR", "GRAY"):
        return output_type
    return "GRAY" if output_type == "ANY_DATA" and head.colours == "GRAY" else "RGB"
