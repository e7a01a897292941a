"""JPEG: a walk over the markers that refuses faults of which libjpeg only warns, then libjpeg-turbo.

It is the one of simplejpeg, and for sampling factors that simplejpeg does not know the one of Pillow. Of ordinary files
`dynamic/_core/jpeg.c` does the same, with the same results.
"""

from __future__ import annotations

import collections
import functools
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy
import simplejpeg

from dynamic._arrays.memory import empty
from dynamic.errors import DecodeError

from . import exif
from ._common import (
    CHANNELS,
    Array,
    Buffer,
    Colours,
    Header,
    Limits,
    check_size,
    corrupt,
    limited,
    part,
    too_large,
    truncated,
    unsupported,
)

__all__ = ["FORMAT", "REDUCED_FROM", "SCALES", "check_scans", "decode", "header"]

FORMAT = "JPEG"
#: Into how many times fewer rows and columns a file can be decoded, besides 1.
SCALES = (2, 4, 8)
#: The larger side of the smallest image for which: of smaller ones, sizes do not tell simplejpeg which scale is meant.
REDUCED_FROM = 8
_SOI, _EOI, _SOS, _DNL, _DHT, _JPG, _DAC, _APP1, _APP2, _APP14 = (
    0xD8,
    0xD9,
    0xDA,
    0xDC,
    0xC4,
    0xC8,
    0xCC,
    0xE1,
    0xE2,
    0xEE,
)
_DRI, _DQT, _APP0, _COM = 0xDD, 0xDB, 0xE0, 0xFE
_TELL_NOTHING = frozenset((_DHT, _DQT, _APP0, _APP2, _COM))  # of the facts that a header is read for
_beginning_of_segment = struct.Struct(">BBH").unpack_from  # FF, the marker and the length
_BEGINNING = 1 << 10  # bytes; more than the header of most files without EXIF
_OUT_OF_PLACE = frozenset((0x00, 0x01, _SOI, *range(0xD0, 0xD8)))
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_DHT, _JPG, _DAC}
_PROGRESSIVE = 0xC2
_COLOURS: dict[int, Colours] = {1: "GRAY", 3: "RGB", 4: "CMYK"}  # by the number of components
#: Frames that are not supported, by marker.
_REFUSED = {
    **dict.fromkeys((0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF), "arithmetic coding"),
    0xC3: "lossless",
    0xC5: "hierarchical",
    0xC6: "hierarchical",
    0xC7: "hierarchical lossless",
}
_MARKER = re.compile(rb"\xff+([^\xff])", re.DOTALL)
#: The end of a scan: FF before a byte that makes it neither stuffed, nor a restart, nor a fill byte.
_END_OF_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
#: The same where there are no restarts.
_MARKER_IN_SCAN = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)
_END_OF_CODES = re.compile(rb"\xff[\xd0-\xd7]")  # within a scan: a restart
_NO_CODES = b"\x5a\xa5" * 8  # libjpeg passes over bytes behind the codes of a scan, unless it lacks some
#: Up to so many pixels libjpeg may find out by itself that a scan is too short: it decodes all rows before it says so.
_SOON_DECODED = 1 << 23
#: The first warning of libjpeg-turbo where a scan goes on below the height of the frame.
_MORE_ROWS = "extraneous bytes before marker 0xd9"
_BAD_PROFILE = "bad ICC marker"
#: The least part of the pixels that must be saved: leaving rows out takes a copy of the file and a walk over the rest.
_WORTH_LEAVING_OUT = 1 / 32


class _Frame(NamedTuple):
    """The header of the frame, and the start of the first scan."""

    progressive: bool
    components: dict[int, tuple[int, int]]  #: the sampling factors, horizontal and vertical, by identifier
    transform: int | None  #: of the Adobe segment, where there is one
    first_scan: int  #: the position of the marker of the first scan
    height_at: int  #: the position of the height
    restarts: bool  #: whether there may be restart markers in the scans
    needed: int  #: the least number of bits that the scans take


def _segments(
    data: Buffer | bytes, position: int, passed_over: frozenset[int] = frozenset()
) -> Iterator[tuple[int, int, int]]:
    """The markers from a position on: each marker with the first byte of its segment and the one after the last.

    Some markers may be passed over where nothing is wrong with their segments.
    """
    size = len(data)
    for _ in limited(FORMAT, "segments", 1 << 14):
        if position + 4 <= size:
            fill, marker, length = _beginning_of_segment(data, position)
            end = position + 2 + length
            if marker in passed_over and fill == 0xFF and length >= 2 and end <= size:
                position = end
                continue
        start = position + 2
        if start > size or data[position] != 0xFF or data[position + 1] == 0xFF:
            start = _after_fill(data, position)
        marker = data[start - 1]
        if marker in _OUT_OF_PLACE:
            raise corrupt(FORMAT, f"marker FF{marker:02X} at byte {start - 2} is out of place")
        if marker == _EOI:
            yield marker, start, start
            return
        first = start + 2
        length = data[start] << 8 | data[start + 1] if first <= size else 2
        if start + length > size or first > size:
            raise truncated(FORMAT, f"the bytes end within the segment of marker FF{marker:02X}")
        if length < 2:
            raise corrupt(FORMAT, f"the segment of marker FF{marker:02X} has length {length}")
        position = start + length
        yield marker, first, position


def _after_fill(data: Buffer | bytes, position: int) -> int:
    """Where a marker ends that has fill bytes before it, or is none."""
    found = _MARKER.match(data, position)
    if found is None:
        if position + 1 < len(data) and data[position] != 0xFF:
            raise corrupt(FORMAT, f"byte {position} should begin a marker")
        raise truncated(FORMAT, "the bytes end before the end-of-image marker")
    return found.end()


def header(data: Buffer, limits: Limits) -> Header:
    """Read the markers up to the first scan."""
    found = _begun(bytes(data[:_BEGINNING]), limits) or _header(data, limits)
    _check_amount(found, len(data) - found.detail.first_scan)
    return found


@functools.lru_cache(maxsize=1024)
def _begun(beginning: bytes, limits: Limits) -> Header | None:
    """The header, where the first bytes hold all of it: remembered, because a call asks for it two or three times."""
    try:
        return _header(beginning, limits)
    except DecodeError:
        return None


def _header(data: Buffer | bytes, limits: Limits) -> Header:
    frame: tuple[int, bytes] | None = None
    orientation: int | None = None
    transform, height_at, restarts = None, 0, False
    for marker, start, end in _segments(data, 2, _TELL_NOTHING):
        if marker in _FRAMES:
            if frame is not None:
                raise corrupt(FORMAT, "there are two frames")
            frame, height_at = (marker, bytes(data[start:end])), start + 1
        elif marker == _APP1 and bytes(data[start : start + 6]) == b"Exif\0\0":
            orientation = orientation or exif.orientation(memoryview(data)[start + 6 : end])
        elif marker == _APP14 and end - start >= 12 and bytes(data[start : start + 5]) == b"Adobe":
            transform = data[start + 11]
        elif marker == _DRI:
            restarts = True
        elif marker == _DAC:
            raise unsupported(FORMAT, "arithmetic coding")
        elif marker == _SOS:
            if frame is None:
                raise corrupt(FORMAT, "a scan comes before the frame")
            height, width, components, needed = _read_frame(*frame)
            check_size(FORMAT, height, width, limits)
            colours = _COLOURS[len(components)]
            if colours == "CMYK" and transform not in (0, 2):
                raise unsupported(FORMAT, "four components without an Adobe marker that defines them")
            progressive = frame[0] == _PROGRESSIVE
            detail = _Frame(progressive, components, transform, start - 4, height_at, restarts, needed)
            return Header(FORMAT, height, width, colours, orientation or 1, detail)
        elif marker in (_EOI, _DNL):
            raise corrupt(FORMAT, "there is no scan")
    raise corrupt(FORMAT, "there is no scan")


@functools.lru_cache(maxsize=1024)  # photos often have the same size
def _read_frame(marker: int, segment: bytes) -> tuple[int, int, dict[int, tuple[int, int]], int]:
    """Height, width, the sampling factors of each component, and the least number of bits that the scans take."""
    if marker in _REFUSED:
        raise unsupported(FORMAT, _REFUSED[marker])
    if len(segment) < 6:
        raise corrupt(FORMAT, "the frame header is too short")
    bits, height, width, count = struct.unpack_from(">BHHB", segment)
    if bits != 8:
        raise unsupported(FORMAT, f"{bits} bits a channel")
    if height == 0:
        raise unsupported(FORMAT, "a height that follows the first scan")
    if count not in (1, 3, 4):
        raise unsupported(FORMAT, f"{count} components")
    if len(segment) != 6 + 3 * count:
        raise corrupt(FORMAT, f"the frame header has {len(segment)} bytes for {count} components")
    components = {segment[i]: divmod(segment[i + 1], 16) for i in range(6, len(segment), 3)}
    if len(components) != count:
        raise corrupt(FORMAT, "two components have one identifier")
    if any(not 1 <= factor <= 4 for factors in components.values() for factor in factors):
        raise corrupt(FORMAT, "a sampling factor is not between 1 and 4")
    return height, width, components, _needed(height, width, components, marker == _PROGRESSIVE)


def _needed(height: int, width: int, components: dict[int, tuple[int, int]], progressive: bool) -> int:
    """The least number of bits that the pixels of a file take."""
    across = max(h for h, _ in components.values())
    down = max(v for _, v in components.values())
    blocks = sum(-(-width * h // (8 * across)) * -(-height * v // (8 * down)) for h, v in components.values())
    # A Huffman code has a bit at least; a block has one code, and one more for its end unless the file is progressive.
    return blocks * (1 if progressive else 2)


def _check_amount(head: Header, coded: int) -> None:
    if coded * 8 < head.detail.needed:
        raise truncated(FORMAT, f"{coded} bytes cannot hold {head.width} x {head.height} pixels")


def check_scans(data: Buffer, head: Header, limits: Limits) -> None:
    """Refuse a file without end, with too many scans, or with fewer bits in them than its pixels need."""
    frame: _Frame = head.detail
    if bytes(data[-2:]) == b"\xff\xd9" and _is_plain(data, frame) and head.height * head.width <= _SOON_DECODED:
        return  # libjpeg warns wherever this would find fault
    collections.deque(_scans(data, head, limits), maxlen=0)


def _scans(data: Buffer, head: Header, limits: Limits) -> Iterator[tuple[int, int]]:
    """Where the codes of each scan begin and end; faults of the scans are told by the end of the last."""
    frame: _Frame = head.detail
    scans = coded = 0
    missing = set(frame.components)
    position = frame.first_scan
    while True:
        for marker, start, end in _segments(data, position):  # noqa: B007 - of the scan, used after the loop
            if marker == _SOS:
                break
            if marker in _FRAMES:
                raise corrupt(FORMAT, "there are two frames")
            if marker == _DNL:
                raise unsupported(FORMAT, "a height that follows the first scan")
            if marker == _EOI:
                if missing:
                    raise truncated(FORMAT, f"{len(missing)} of {len(frame.components)} components have no scan")
                return _check_amount(head, coded)
        scans += 1
        if scans > limits.scans:
            raise too_large(FORMAT, f"more than max_scans={limits.scans} scans; pass a larger max_scans to accept it")
        missing -= _scanned(data[start:end], frame)
        following = _END_OF_SCAN.search(data, end)
        if following is None:
            raise truncated(FORMAT, "the bytes end before the end-of-image marker")
        position = following.start()
        coded += position - end
        yield end, position


def _is_plain(data: Buffer, frame: _Frame) -> bool:
    """Whether all components are in the first scan, and entirely."""
    return not frame.progressive and data[frame.first_scan + 4] == len(frame.components)


def _scanned(segment: Buffer, frame: _Frame) -> set[int]:
    """The components whose lowest frequency a scan holds."""
    count = segment[0] if segment else 0
    if not 1 <= count <= 4 or len(segment) != 4 + 2 * count:
        raise corrupt(FORMAT, f"a scan header of {len(segment)} bytes for {count} components")
    components = set(segment[1 : 1 + 2 * count : 2])
    if not components <= frame.components.keys():
        raise corrupt(FORMAT, "a scan of a component that the frame does not have")
    return components if segment[1 + 2 * count] == 0 else set()


def decode(
    data: Buffer,
    head: Header,
    limits: Limits,
    colours: Colours,
    *,
    fast_idct: bool = False,
    out: Array | None = None,
    place: tuple[int, int, int, int] | None = None,
    scale: int = 1,
) -> tuple[Array, Colours]:
    """Decode to "RGB", "BGR" or "GRAY", or to CMYK where the file is that, into `out` where it is given and fits.

    Args:
        data: The file.
        head: Its header.
        limits: How large it may be.
        colours: The meaning of the channels.
        fast_idct: Whether to be faster and less exact.
        out: Where to decode the whole image to.
        place: The window that is wanted: its first row and column, height and width. Rows below may be left out, and
            then damage there is not found.
        scale: How many rows and columns become one: 1, 2, 4 or 8. `out` and `place` are of the reduced image.

    Returns:
        The pixels, uint8 of shape (height, width, channels), and the meaning of their channels.
    """
    check_scans(data, head, limits)
    want = head.colours if head.colours == "CMYK" else colours
    pixels = None if place is None else _window(data, head, want, place, fast_idct, scale)
    if pixels is None:
        size = head.reduced(scale)
        if out is None or want != colours:
            out = empty((size.height, size.width, CHANNELS[want]), numpy.dtype(numpy.uint8))
        pixels = part(_whole(data, head, limits, want, fast_idct, out, scale), size, place)
    if want == "CMYK":
        return numpy.invert(pixels), "CMYK"  # Adobe stores the paper that is left, not the ink
    return pixels, want


def _whole(data: Buffer, head: Header, limits: Limits, want: Colours, fast_idct: bool, out: Array, scale: int) -> Array:
    """All pixels."""
    try:
        return _by_simplejpeg(data, want, fast_idct, out, scale)
    except ValueError as error:
        reason = str(error)
        if "Could not determine subsampling" in reason:
            return _by_pillow(data, head, limits, want, scale)
        raise (truncated if "remature end" in reason else corrupt)(FORMAT, reason) from None


def _by_simplejpeg(data: Buffer, want: Colours, fast_idct: bool, out: Array, scale: int) -> Array:
    """All pixels; libjpeg's errors and its warnings, but those of a colour profile, are ValueErrors."""
    least = {} if scale == 1 else {"min_height": out.shape[0], "min_width": out.shape[1]}  # only one scale gives these
    try:
        pixels: Array = simplejpeg.decode_jpeg(data, want, fastdct=fast_idct, buffer=out, **least)
    except ValueError as error:
        if _BAD_PROFILE not in str(error):
            raise
        pixels = simplejpeg.decode_jpeg(_without_profile(data), want, fastdct=fast_idct, buffer=out, **least)
    return pixels


def _without_profile(data: Buffer) -> Buffer:
    """A file without its colour profile, which no pixel depends on here."""
    parts, kept = [], 0
    for marker, start, end in _segments(data, 2):
        if marker == _APP2:
            parts.append(data[kept : start - 4])
            kept = end
        elif marker in (_SOS, _EOI):
            break
    return memoryview(b"".join([*parts, data[kept:]]))


def _by_pillow(data: Buffer, head: Header, limits: Limits, want: Colours, scale: int) -> Array:
    """All pixels of a file with sampling factors that simplejpeg does not know.

    Pillow hides the warnings of its libjpeg-turbo. So all scans are checked here, and the file is decoded again,
    with bytes behind the codes of each: they change the pixels where libjpeg would make up codes that are missing.
    """
    frame: _Frame = head.detail
    shown = [factors for k, factors in enumerate(frame.components.values()) if k == 0 or want != "GRAY"]
    largest = [max(extents) for extents in zip(*frame.components.values(), strict=True)]
    if any(most % factor for factors in shown for most, factor in zip(largest, factors, strict=True)):
        raise unsupported(FORMAT, "sampling factors that do not divide the largest one")
    longer, kept = bytearray(), 0
    for start, end in _scans(data, head, limits):
        longer += data[kept:start]
        longer += _END_OF_CODES.sub(_NO_CODES + rb"\g<0>", bytes(data[start:end])) + _NO_CODES
        kept = end
    longer += data[kept:]
    pixels = _one_by_pillow(bytes(data), head, want)
    if not numpy.array_equal(pixels, _one_by_pillow(bytes(longer), head, want)):
        raise truncated(FORMAT, "premature end of a scan")
    return pixels if scale == 1 else _one_by_pillow(bytes(data), head, want, scale)


def _one_by_pillow(data: bytes, head: Header, want: Colours, scale: int = 1) -> Array:
    from PIL import Image  # takes a while, for a few files

    mode, size = {"GRAY": "L", "CMYK": "CMYK"}.get(want, "RGB"), head.reduced(scale)
    try:
        image = Image.frombytes(mode, (size.width, size.height), data, "jpeg", mode, "", scale, 0)
    except (OSError, ValueError) as error:
        raise corrupt(FORMAT, f"Pillow cannot decode it ({error})") from None
    pixels = numpy.asarray(image).reshape(size.height, size.width, -1)
    return pixels[..., ::-1] if want == "BGR" else pixels


def _window(
    data: Buffer, head: Header, want: Colours, place: tuple[int, int, int, int], fast_idct: bool, scale: int
) -> Array | None:
    """The pixels of a window, decoded without the rows below it.

    None where that saves too little, or where it cannot be told whether it went well: damage is found, or not, as in
    the native path.
    """
    frame: _Frame = head.detail
    top, _, height, width = place
    size = head.reduced(scale)
    if not _is_plain(data, frame) or height * width > (1 - _WORTH_LEAVING_OUT) * size.height * size.width:
        return None
    rows = _rows_down_to(top + height, head, scale)
    if rows < head.height and _ends_after_scan(data, frame):
        return _upper_rows(data, head, want, place, rows, fast_idct, scale)
    return None


def _rows_down_to(bottom: int, head: Header, scale: int) -> int:
    """How many rows of a file are read where those from `bottom` on, of the reduced image, are not needed.

    All of them where leaving some out saves too little, and where there are restarts: only of a file without them does
    libjpeg-turbo say nothing but that there are more bytes, and only once it has made all rows.
    """
    frame: _Frame = head.detail
    row_of_blocks = 8 * max(v for _, v in frame.components.values())
    rows = -(-(bottom + _needed_below(frame)) * scale // row_of_blocks) * row_of_blocks
    return head.height if frame.restarts or head.height - rows < _WORTH_LEAVING_OUT * head.height else rows


def _needed_below(frame: _Frame) -> int:
    """How many rows of pixels below those that are wanted are looked at to interpolate colours of less height."""
    down = max(v for _, v in frame.components.values())
    return down if down > 1 else 0


def _ends_after_scan(data: Buffer, frame: _Frame) -> bool:
    """Whether nothing but the end of the file follows the first scan, of a file without restarts."""
    found = _MARKER_IN_SCAN.search(data, frame.first_scan + 2)
    return found is not None and data[found.start() + 1] == _EOI


def _upper_rows(
    data: Buffer, head: Header, want: Colours, place: tuple[int, int, int, int], rows: int, fast_idct: bool, scale: int
) -> Array | None:
    """The pixels of a window, decoded from a copy of the file that says it has so many rows; None if in doubt."""
    shorter, size = bytearray(data), head._replace(height=rows).reduced(scale)
    struct.pack_into(">H", shorter, head.detail.height_at, rows)
    pixels = empty((size.height, size.width, CHANNELS[want]), numpy.dtype(numpy.uint8))
    try:
        _by_simplejpeg(memoryview(shorter), want, fast_idct, pixels, scale)
    except ValueError as error:
        if _MORE_ROWS not in str(error):
            return None
    return part(pixels, size, place)
