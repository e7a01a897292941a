"""Shared by the decoders of all formats: the header, the limits, and how an image is refused."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import cv2
import numpy

from dynamic._base.locks import new_lock
from dynamic.errors import CorruptImage, DecodeError, Failure, ImageTooLarge, TruncatedImage, UnsupportedImage

__all__ = [
    "CHANNELS",
    "MOST_INFLATED",
    "Array",
    "Buffer",
    "Colours",
    "Header",
    "Limits",
    "check_extents",
    "check_range",
    "check_size",
    "corrupt",
    "fields",
    "imdecode",
    "inflated",
    "is_bomb",
    "limited",
    "part",
    "too_large",
    "truncated",
    "unsupported",
]

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
#: Encoded bytes: one-dimensional, contiguous, one byte an element.
Buffer: TypeAlias = memoryview
#: The meaning of the channels of an array of pixels. CMYK counts ink: 0 is paper.
Colours: TypeAlias = Literal["GRAY", "GRAYA", "RGB", "RGBA", "BGR", "BGRA", "CMYK"]
CHANNELS: dict[Colours, int] = {"GRAY": 1, "GRAYA": 2, "RGB": 3, "BGR": 3, "RGBA": 4, "BGRA": 4, "CMYK": 4}


class Limits(NamedTuple):
    """How large an image may be before it is refused, and of which formats."""

    pixels: int = 2**27  #: width times height
    scans: int = 100  #: passes over a JPEG; real files have about 10
    encoded_bytes: int = 2**30
    formats: tuple[str, ...] | None = None  #: any where it is None


class Header(NamedTuple):
    """The description in an encoded image, read before any pixel is decoded."""

    format: str
    height: int  #: as stored: before the orientation is applied
    width: int
    colours: Colours  #: as they come out of the decoder
    orientation: int = 1  #: EXIF's: 1 is upright, 5 to 8 exchange height and width
    detail: Any = None  #: findings of the decoder of the format, for its second step
    extra: int = 0  #: channels behind those of the colours, of which only "ANY_DATA" gives anything

    def shape(self, channels: int, *, adjust_orientation: bool) -> tuple[int, int, int]:
        """Height, width and channels of the decoded image."""
        turned = adjust_orientation and self.orientation >= 5
        height, width = (self.width, self.height) if turned else (self.height, self.width)
        return height, width, channels

    def reduced(self, scale: int) -> Header:
        """The header of the image as it is decoded at 1 / scale of its size."""
        return self._replace(height=-(-self.height // scale), width=-(-self.width // scale))


def _refusal(kind: type[DecodeError], format: str | None, reason: str) -> DecodeError:
    return kind("decoders.image", [Failure(0, reason, format)])


def truncated(format: str | None, reason: str) -> DecodeError:
    """The bytes end before the image does."""
    return _refusal(TruncatedImage, format, reason)


def corrupt(format: str, reason: str) -> DecodeError:
    """The bytes contradict their format."""
    return _refusal(CorruptImage, format, reason)


def unsupported(format: str | None, reason: str) -> DecodeError:
    """The format, or this variety of it, is not supported."""
    return _refusal(UnsupportedImage, format, reason)


def too_large(format: str | None, reason: str) -> DecodeError:
    """The image is larger than a limit allows."""
    return _refusal(ImageTooLarge, format, reason)


_PIECE = 1 << 20  # bytes that are inflated at a time
_MUCH, _FACTOR = 48 << 20, 64  # bytes, and how often as many as they take packed, before they are looked at twice
MOST_INFLATED = 1032  # deflate packs at most this many bytes into one

_lock = new_lock()
_quiet_calls = 0
_level_before = 0


def imdecode(format: str, library: str, data: bytes | bytearray | Buffer, flags: int) -> Array:
    """OpenCV's decoder for a format, without its messages; None from it and its exceptions are CorruptImage."""
    try:
        with _quiet():
            image: Any = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), flags)
    except cv2.error as error:
        raise corrupt(format, f"{library} cannot decode it ({error.err})") from None
    if image is None:
        raise corrupt(format, f"{library} cannot decode it")
    decoded: Array = image
    return decoded


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep OpenCV from printing while at least one thread is inside; then its level is the old one."""
    global _quiet_calls, _level_before
    with _lock:
        _quiet_calls += 1
        if _quiet_calls == 1:
            _level_before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        with _lock:
            _quiet_calls -= 1
            if not _quiet_calls:
                cv2.utils.logging.setLogLevel(_level_before)


def check_size(format: str, height: int, width: int, limits: Limits) -> None:
    """Refuse an image that has no pixels, or more of them than allowed."""
    if height <= 0 or width <= 0:
        raise corrupt(format, f"the header says {width} x {height} pixels")
    if height * width > limits.pixels:
        raise too_large(
            format,
            f"the header says {width} x {height} pixels, more than max_pixels={limits.pixels}; "
            "pass a larger max_pixels to accept it",
        )


def check_extents(format: str, height: int, width: int, most: int) -> None:
    """Refuse an image that is higher or wider than its decoder takes."""
    if max(height, width) > most:
        raise unsupported(format, f"{width} x {height} pixels, where up to {most} are read either way")


def part(pixels: Array, head: Header, place: tuple[int, int, int, int] | None) -> Array:
    """A window of the pixels that came out of a decoder, all of them where it is None; refuses another size."""
    if pixels.shape[:2] != (head.height, head.width):
        what = f"{pixels.shape[1]} x {pixels.shape[0]} pixels came out of {head.width} x {head.height}"
        raise corrupt(head.format, what)
    if place is None:
        return pixels
    top, left, height, width = place
    return pixels[top : top + height, left : left + width]


def limited(format: str, what: str, most: int) -> Iterator[int]:
    """Numbers from 0 on, for a loop that ends by itself in all but hostile files: small parts make much work."""
    yield from range(most)
    raise corrupt(format, f"there are more than {most} {what}")


def is_bomb(packed: int, size: int) -> bool:
    """Whether so few bytes may hold so many that they are unpacked once before memory is taken for their content."""
    return size > _MUCH and size > _FACTOR * packed


def inflated(format: str, what: str, packed: bytes | Buffer, size: int) -> Iterator[bytes]:
    """Inflate bytes piece by piece; refuses more or fewer than there must be."""
    machine, done, rest, position = zlib.decompressobj(), 0, b"", 0
    whole = memoryview(packed)
    more = b""
    try:
        while not (machine.eof or more) and (rest or position < len(whole)):
            part = rest or whole[position : position + _PIECE]
            position += 0 if rest else _PIECE
            piece = machine.decompress(part, min(_PIECE, size - done) or 1)
            rest = machine.unconsumed_tail
            if done == size:
                more = piece
            elif piece:
                done += len(piece)
                yield piece
    except zlib.error as error:
        raise corrupt(format, f"{what}: they cannot be inflated ({error})") from None
    if more:
        raise corrupt(format, f"{what}: there are more than {size} bytes")
    if done < size or not machine.eof:
        raise truncated(format, f"{what}: {done} of {size} bytes are there, or the last ones do not end them")


def fields(rows: Array, bits: int) -> Array:
    """The values of 1, 2 or 4 bits in rows of bytes, the highest first."""
    places = numpy.arange(8 - bits, -1, -bits, dtype=numpy.uint8)
    values: Array = (rows[..., None] >> places) & numpy.uint8(2**bits - 1)
    return values.reshape(len(rows), -1)


def check_range(format: str, what: str, indices: Array, entries: int | Sequence[Any] | Array) -> None:
    """Refuse an index beyond the end of its table."""
    count = entries if isinstance(entries, int) else len(entries)
    if indices.size and int(indices.max()) >= count:
        raise corrupt(format, f"{what} {int(indices.max())} is used, but there are {count}")
