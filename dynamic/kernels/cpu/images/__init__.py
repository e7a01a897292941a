"""Image files: recognised by their first bytes, checked before memory is taken, decoded by the strictest decoder."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic.errors import DecodeError

from . import bmp, convert, gif, jpeg, jpeg2000, png, pnm, tiff, webp
from ._common import Array, Buffer, Colours, Header, Limits, part, too_large, truncated, unsupported

__all__ = [
    "FORMATS",
    "Header",
    "Limits",
    "check_scans",
    "decode",
    "header",
    "is_known",
    "jpeg_target",
    "reduced",
    "window",
]

#: The formats that are read, and other spellings of their names.
FORMATS: dict[str, tuple[str, ...]] = {
    "JPEG": ("jpg",),
    "PNG": (),
    "BMP": (),
    "PNM": (),
    "WebP": (),
    "TIFF": ("tif",),
    "GIF": (),
    "JPEG 2000": ("jpeg2000", "jp2"),
}

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
    (b"\xff\x4f", jpeg2000),
)
_OF_LIBJPEG: dict[str, Colours] = {"RGB": "RGB", "BGR": "BGR", "GRAY": "GRAY"}  # output types that it makes


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


def is_known(beginning: bytes) -> bool:
    """Whether a file that begins so may be an image."""
    with contextlib.suppress(DecodeError):
        return bool(_format(memoryview(beginning)))
    return False


def header(data: Buffer, limits: Limits) -> Header:
    """The header of an encoded image; refuses one that is larger than allowed, or of another format."""
    module = _format(data)
    if limits.formats is not None and module.FORMAT not in limits.formats:
        raise unsupported(module.FORMAT, f"this format is none of formats={limits.formats}; name it to accept the file")
    if len(data) > limits.encoded_bytes:
        raise too_large(
            module.FORMAT,
            f"there are more than max_encoded_bytes={limits.encoded_bytes} bytes; pass a "
            "larger max_encoded_bytes to accept it",
        )
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
    scale: int = 1,
) -> None:
    """Decode an image into `out`, whose shape and dtype set size, channels and range of values.

    Args:
        data: The file.
        head: Its header.
        limits: How large it may be.
        output_type: The meaning of the channels of `out`.
        adjust_orientation: Whether to turn the image upright.
        fast_idct: Whether to decode JPEG faster and less exactly.
        out: Where to.
        corner: Where (y, x) the window begins that `out` is of the image, upright if it is turned so; by default `out`
            is the whole image.
        scale: A JPEG may be decoded at a half, a quarter or an eighth of its size, as 2, 4 and 8 say; `out` and
            `corner` are of the reduced image.
    """
    orientation = head.orientation if adjust_orientation else 1
    place = window(head.reduced(scale), orientation, corner, out.shape)
    if not out.size:
        return
    if head.format == jpeg.FORMAT:
        target = jpeg_target(head, output_type)
        direct = place is None and orientation == 1 and target == output_type and out.dtype == numpy.uint8
        pixels, colours = jpeg.decode(
            data, head, limits, target, fast_idct=fast_idct, out=out if direct else None, place=place, scale=scale
        )
        if direct and pixels.base is not None and numpy.may_share_memory(pixels, out):
            return
    else:
        pixels, colours = png.decode(head) if head.format == png.FORMAT else _format(data).decode(data, head)
        pixels = part(pixels, head, place)
    pixels = convert.colours(pixels, colours, output_type)
    if orientation == 1:
        convert.values(pixels, out)
    else:
        convert.upright(pixels, orientation, out)


def window(
    head: Header, orientation: int, corner: Sequence[int] | None, shape: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """Where a window of the upright image lies in the stored one: its first row and column, height and width.

    None where it is the whole image.
    """
    if corner is None:
        return None
    (top, left), (rows, columns) = corner, shape[:2]
    if orientation >= 5:
        top, left, rows, columns = left, top, columns, rows
    if orientation in (3, 4, 6, 7):
        top = head.height - top - rows
    if orientation in (2, 3, 7, 8):
        left = head.width - left - columns
    place = (top, left, rows, columns)
    return None if place == (0, 0, head.height, head.width) else place


#: Whether rows and columns of the upright image run backwards in the file, by the EXIF orientation.
_BACKWARDS = numpy.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 0], [0, 0], [0, 1], [1, 1], [1, 0]], numpy.bool_)


def reduced(
    sizes: Array, orientations: Array, corners: Array, extents: Array, at_least: Sequence[int]
) -> tuple[Array, Array, Array]:
    """At which scales windows of JPEG files are decoded, so that they are at least so large, and where they are then.

    Libjpeg makes a pixel of a reduced image from 2, 4 or 8 rows and columns of the stored one. The edges of a window
    move to the nearest edges of these; where the image ends, the reduced one does.

    Args:
        sizes: Height and width of each upright image, of shape (n, 2); the other arrays are of these too.
        orientations: The EXIF orientations that they are turned upright from; 0 for a file that cannot be reduced.
        corners: Where (y, x) each window begins.
        extents: Height and width of each window.
        at_least: The least height and width.

    Returns:
        The scales: 1, 2, 4 or 8 rows and columns become one. The corners and the extents in the reduced images.
    """
    least, scales = numpy.minimum(at_least, 1 << 16), numpy.ones((len(sizes), 1), numpy.int64)
    possible = (orientations > 0) & (sizes.max(axis=1, initial=0) >= jpeg.REDUCED_FROM)
    for scale in jpeg.SCALES:
        scales[possible & (extents >= scale * least).all(axis=1)] = scale
    backwards, ends_there = _BACKWARDS[orientations], -(-sizes // scales)
    first = numpy.where(backwards, sizes - corners - extents, corners)
    last = first + extents
    last = numpy.where(last == sizes, ends_there, (last + scales // 2) // scales)
    first = (first + scales // 2) // scales
    return scales[:, 0], numpy.where(backwards, ends_there - last, first), last - first


def check_scans(data: Buffer, head: Header, limits: Limits) -> None:
    """Refuse a JPEG that ends too early, or whose scans are too many, or cannot hold its pixels."""
    jpeg.check_scans(data, head, limits)


def jpeg_target(head: Header, output_type: str) -> Colours:
    """The colours to ask of libjpeg for an output type: the nearest that it makes itself."""
    if output_type == "ANY_DATA" and head.colours == "GRAY":
        return "GRAY"
    return _OF_LIBJPEG.get(output_type, "RGB")
