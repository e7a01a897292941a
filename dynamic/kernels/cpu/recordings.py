"""Recordings: sound in the bytes of files. WAV of plain numbers is read here, all else by libsndfile, with soundfile.

A file is recognised by its first bytes. Memory for its values is taken where its header has been checked against its
size, and is filled as they are decoded: a file that says more than it holds is refused.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy

from dynamic import _core
from dynamic._arrays.array import Array
from dynamic._core import sound as native
from dynamic.dtypes import convert
from dynamic.errors import DecodeError, Failure

from .sound import ranged, resampled

__all__ = ["Recording", "Sound", "opened"]

_MOST_CHANNELS = 1024
_MOST_CHUNKS = 1000
_DENSEST = 1 << 13  # values of a channel for each byte; a frame of FLAC has 65535 in 11 bytes, of Opus 5760 in 2
_STREAMED = 0x7FFF0000  # sizes from here on are of programs that did not know
#: Elements of WAV files by format and bits of a sample; of 24 bits there are three bytes.
_ELEMENTS = {(1, 8): "u1", (1, 16): "<i2", (1, 24): "u1", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}
_FLOAT32 = numpy.dtype("float32")
_UNKNOWN = 1 << 60  # numbers of values from here on are none
_LARGEST_PAGE = 27 + 255 + 255 * 255  # bytes, of Ogg
#: Kilobits a second of MPEG 1 and of MPEG 2, layer 3, by their number in a header from 1 on.
_KILOBITS = (
    (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_TAGGED_RATE = (5, 8)  # the numbers of 64 kilobits, which leave room for a tag
_DIRECT = frozenset(map(numpy.dtype, ("int16", "int32", "float32")))  # types that files are read as


class Recording(NamedTuple):
    """A file whose header is read.

    Attributes:
        format: "WAV", "FLAC" and so on.
        rate: Values a second of each channel.
        frames: Values of each channel.
        channels: How many there are.
        values: Those of a WAV file, (frames, channels), as they are stored; of 24 bits (frames, channels, 3).
        file: That of soundfile, for all else.
        first: The first value that is wanted of that.
        flac: The frames of a FLAC file, which are decoded natively.
    """

    format: str
    rate: float
    frames: int
    channels: int
    values: Array | None = None
    file: Any = None
    first: int = 0
    flac: _Frames | None = None

    def part(self, offset: float, duration: float | None) -> Recording:
        """The part from some second on, of so many seconds or to the end."""
        first = min(self.frames, round(offset * self.rate))
        count = self.frames - first
        if duration is not None:
            count = min(count, round(duration * self.rate))
        values = None if self.values is None else self.values[first : first + count]
        return self._replace(frames=count, first=first, values=values)

    def _read_flac(self, flac: _Frames, out: Array) -> None:
        """Read it natively, where all is usual; otherwise libsndfile reads it, or names the fault."""
        frames = numpy.frombuffer(flac.data, numpy.uint8)[flac.start :]
        if self.first or not _core.in_use() or native.flac(frames, flac.bits, flac.most, out) < self.frames:
            file = _opened_by_libsndfile("FLAC", flac.data)
            file._replace(first=self.first, frames=self.frames).read(out)

    def read(self, out: Array) -> None:
        """Fill (frames, channels) of float32 with the values in [-1, 1], or of int16 or int32 in their range."""
        if self.values is not None:
            _convert(self.values, out)
            return
        if self.flac is not None:
            self._read_flac(self.flac, out)
            return
        floats = self.file.subtype.startswith(("FLOAT", "DOUBLE", "VORBIS", "OPUS", "MPEG"))
        values = numpy.empty(out.shape, _FLOAT32) if floats and out.dtype.kind == "i" else out
        with self.file, _wording(self.format):
            if self.first:
                self.file.seek(self.first)
            found = len(self.file.read(out=values))
            if found < self.frames:
                raise refused(self.format, f"it ends after {found} of {self.frames} values")
        if values is not out:
            _round(values, out)


class _Frames(NamedTuple):
    """The frames of a FLAC file.

    Attributes:
        data: The whole file.
        start: Where the first of them begins.
        bits: Of a value.
        most: Values of the largest frame.
    """

    data: memoryview
    start: int
    bits: int
    most: int


class _Bytes(io.BytesIO):
    """Bytes for libsndfile, which asks for places before the first in damaged files: it stays where it is then."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with contextlib.suppress(ValueError):
            super().seek(offset, whence)
        return self.tell()


def refused(kind: str | None, reason: str) -> DecodeError:
    """The error of one file."""
    return DecodeError("decoders.audio", [Failure(0, reason, kind)])


class Sound(NamedTuple):
    """A recording, and the sound that is wanted of it."""

    recording: Recording
    shape: tuple[int, ...]
    rate: float
    downmix: bool
    quality: float

    @classmethod
    def of(cls, recording: Recording, rate: float, most: int, quality: float, *, downmix: bool) -> Sound:
        """The sound of a recording at another rate, or at its own where that is 0, of no more values than allowed."""
        wanted = float(_FLOAT32.type(rate)) or recording.rate
        if not numpy.isfinite(wanted):
            raise refused(recording.format, f"it cannot be resampled to {rate:g} Hz")
        frames = recording.frames
        if wanted != recording.rate:
            frames = int(min(numpy.ceil(frames * wanted / recording.rate), 2.0**62))
        _check_size(recording, frames, most)
        shape = (frames,) if downmix else (frames, recording.channels)
        return cls(recording, shape, wanted, downmix, quality)

    def decode(self, out: Array) -> None:
        """Fill memory of its shape."""
        recording, resampling = self.recording, self.rate != self.recording.rate
        shape, mixing = (recording.frames, recording.channels), self.downmix and recording.channels > 1
        if out.dtype in _DIRECT and not mixing and not resampling:
            recording.read(out.reshape(shape))
            return
        values = numpy.empty(shape, _FLOAT32)
        recording.read(values)
        if self.downmix:
            values = values.mean(axis=1) if mixing else values[:, 0]
        if resampling:
            source, values = values, numpy.empty(out.shape, _FLOAT32)
            resampled(source, recording.rate / self.rate, self.quality, values)
        _round(values, out)


def _check_size(recording: Recording, frames: int, most: int) -> None:
    """Refuse a recording with more values than allowed, or whose result has."""
    if max(frames, recording.frames) * recording.channels > most:
        count = max(frames, recording.frames)
        reason = f"{count} values of {recording.channels} channels are more than max_values={most}"
        raise refused(recording.format, f"{reason}; pass a larger max_values to accept it")


def opened(data: memoryview) -> Recording:
    """The header of a file."""
    start = bytes(data[:12])
    if start[:4] == b"RIFF" and start[8:] == b"WAVE":
        found = _wav(data)
        if found is not None:
            return found
    kind = _kind(start)
    if kind is None:
        begins = (
            f"bytes that begin with {start[:8]!r} are no sound that is read here" if start else "there are no bytes"
        )
        raise refused(None, begins)
    found = _flac(data) if kind == "FLAC" and _core.in_use() else None
    return _opened_by_libsndfile(kind, data) if found is None else found


def _opened_by_libsndfile(kind: str, data: memoryview) -> Recording:
    """The header of a file that libsndfile reads."""
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: its library is not there
        raise refused(kind, f"this needs soundfile: pip install 'dynamic-batch[sound]' ({error})") from None
    if kind in _CHECKED:
        _CHECKED[kind](data)
    with _wording(kind):
        file = soundfile.SoundFile(_Bytes(data))
        if kind == "MP3" and (tagged := _tagged_mp3(data, file.frames)):
            file = soundfile.SoundFile(_Bytes(tagged))
        if file.frames > _UNKNOWN:
            raise refused(kind, "it does not say how many values it has")
        if not 0 <= file.frames <= _DENSEST * len(data):
            raise refused(kind, f"{len(data)} bytes cannot hold the {file.frames} values that it says")
        if not file.frames and _has_values(kind, data):
            raise refused(kind, "its header contradicts itself: no values of a sound")
        return Recording(kind, float(file.samplerate), file.frames, file.channels, file=file)


def _flac(data: memoryview) -> Recording | None:
    """A FLAC file of usual numbers; None of any other."""
    place, last = 4, 0
    info = bytes(data[8:42])
    for _ in range(_MOST_CHUNKS):
        if last or place + 4 > len(data):
            break
        last, size = data[place] & 0x80, int.from_bytes(data[place + 1 : place + 4], "big")
        if place == 4 and (data[place] & 0x7F or size != 34):
            return None
        place += 4 + size
    packed = int.from_bytes(info[10:18], "big")
    rate, channels, bits, count = packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1, packed & (1 << 36) - 1
    most = int.from_bytes(info[2:4], "big")
    if not last or place >= len(data) or not rate or not 8 <= bits <= 24 or not most:
        return None
    if not 0 < count <= _DENSEST * len(data):
        return None
    return Recording("FLAC", float(rate), count, channels, flac=_Frames(data, place, bits, most))


# Files that libsndfile reads in silence as a shorter sound.


def _check_ogg(data: memoryview) -> None:
    """Refuse a file whose last page is not whole."""
    place, end = _last_page(data)
    if place >= 0 and end > len(data):
        raise refused("OGG", f"its last page ends after {len(data) - place} of {end - place} bytes")


def _last_page(data: memoryview) -> tuple[int, int]:
    """The places where the last page of an Ogg file begins, -1 for none, and where it says that it ends."""
    from_, tail = max(0, len(data) - _LARGEST_PAGE), bytes(data[-_LARGEST_PAGE:])
    place = tail.rfind(b"OggS\0")
    if place < 0:
        return -1, 0
    count = tail[place + 26] if place + 26 < len(tail) else 1
    sizes = tail[place + 27 : place + 27 + count]
    return from_ + place, from_ + place + 27 + count + sum(sizes)


def _has_values(kind: str, data: memoryview) -> bool:
    """Whether the last page of an Ogg file says that values end there."""
    place = _last_page(data)[0] if kind == "OGG" else -1
    return place >= 0 and int.from_bytes(data[place + 6 : place + 14], "little", signed=True) > 0


def _check_aiff(data: memoryview) -> None:
    """Refuse a file whose chunk of values is shorter than it says."""
    place = 12
    for _ in range(_MOST_CHUNKS):
        name, size = bytes(data[place : place + 4]), int.from_bytes(data[place + 4 : place + 8], "big")
        if name == b"SSND" and place + 8 + size > len(data):
            raise refused("AIFF", f"its values end after {len(data) - place - 8} of {size} bytes")
        place += 8 + size + size % 2
        if name == b"SSND" or place >= len(data):
            break


def _tagged_mp3(data: memoryview, estimate: int) -> bytes | None:
    """A file that says how many frames it has; None where libsndfile has estimated it well, from the first of them."""
    start = 0
    if bytes(data[:3]) == b"ID3":
        start = 10 + functools.reduce(lambda size, byte: size << 7 | byte & 127, data[6:10], 0)
    header = bytes(data[start : start + 4])
    size = _mp3_size(header)
    if not size or any(name in bytes(data[start : start + 64]) for name in (b"Xing", b"Info", b"VBRI")):
        return None
    place, count = start, 0
    while size and place + size <= len(data):
        place, count = place + size, count + 1
        size = _mp3_size(bytes(data[place : place + 4]))
    mono, second = header[3] >> 6 == 3, not header[1] & 8
    values = 576 if second else 1152  # of a frame
    if abs(count * values - estimate) <= 2 * values:
        return None
    tag = bytearray([255, header[1] | 1, header[2] & 0x0D | _TAGGED_RATE[second] << 4, header[3]])
    size = _mp3_size(bytes(tag))
    tag += bytes((9 if mono else 17) if second else (17 if mono else 32)) + b"Xing\0\0\0\1" + count.to_bytes(4, "big")
    return b"".join((data[:start], tag.ljust(size, b"\0"), data[start:]))


def _mp3_size(header: bytes) -> int:
    """The bytes of a frame of layer 3; 0 where there is none."""
    if len(header) < 4 or header[0] != 255 or header[1] & 0xE6 != 0xE2 or header[1] & 0x18 == 8:
        return 0
    version, bitrate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if bitrate in (0, 15) or rate == 3:
        return 0
    second = version != 3
    kilobits = _KILOBITS[second][bitrate - 1]
    hertz = (44100, 48000, 32000)[rate] >> {3: 0, 2: 1, 0: 2}[version]
    return (72 if second else 144) * 1000 * kilobits // hertz + (header[2] >> 1 & 1)


#: Checks by format, which refuse a file that libsndfile would cut short.
_CHECKED = {"OGG": _check_ogg, "AIFF": _check_aiff}


def _kind(start: bytes) -> str | None:
    """The format of a file that libsndfile reads, by its first bytes."""
    if start[:4] == b"RIFF" and start[8:] == b"WAVE":
        return "WAV"
    if start[:4] == b"FORM" and start[8:] in (b"AIFF", b"AIFC"):
        return "AIFF"
    if start[:3] == b"ID3" or (start[:1] == b"\xff" and len(start) > 1 and start[1] & 0xE6 == 0xE2):
        return "MP3"
    return {b"fLaC": "FLAC", b"OggS": "OGG"}.get(start[:4])


@contextlib.contextmanager
def _wording(kind: str) -> Iterator[None]:
    """Turn the message of libsndfile into the error of a file."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, DecodeError):
            raise
        raise refused(kind, f"libsndfile says: {error}") from None


def _wav(data: memoryview) -> Recording | None:
    """A WAV file of plain numbers; None of one with any others."""
    form: tuple[int, ...] | None = None
    place = 12
    for _ in range(_MOST_CHUNKS):
        if place + 8 > len(data):
            break
        name, size = bytes(data[place : place + 4]), int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8
        if name == b"fmt ":
            if size < 16 or place + size > len(data):
                raise refused("WAV", "its format ends too early")
            fields = numpy.frombuffer(data, "<u2", 8, place).tolist()
            if fields[0] == 0xFFFE and size >= 26:
                fields[0] = int.from_bytes(data[place + 24 : place + 26], "little")
            form = fields[0], fields[1], fields[2] + (fields[3] << 16), fields[6], fields[7]
        elif name == b"data":
            found = None if form is None else _numbers(data, place, size, *form)
            if found is None and len(data) - place < size < _STREAMED:
                raise refused("WAV", f"its values end after {len(data) - place} of {size} bytes")
            return found
        place += size + size % 2
    raise refused("WAV", "it has no values, or ends before they begin")


def _numbers(
    data: memoryview, place: int, size: int, code: int, channels: int, rate: int, block: int, bits: int
) -> Recording | None:
    """The values of a WAV file, where they are plain numbers."""
    element = _ELEMENTS.get((code, bits))
    if element is None:
        return None
    if not 1 <= channels <= _MOST_CHANNELS or not rate or block != channels * bits // 8:
        raise refused("WAV", f"its header contradicts itself: {channels} channels, {rate} Hz, blocks of {block} bytes")
    there = len(data) - place
    if size > there and size < _STREAMED:
        raise refused("WAV", f"it ends after {there // block} of {size // block} values")
    frames = min(size, there) // block
    shape = (frames, channels, 3) if bits == 24 else (frames, channels)
    values = numpy.frombuffer(data, element, frames * block // numpy.dtype(element).itemsize, place).reshape(shape)
    return Recording("WAV", float(rate), frames, channels, values)


@numpy.errstate(all="ignore")
def _convert(values: Array, out: Array) -> None:
    """Stored numbers as floats in [-1, 1], or in the range of a type of integers, as libsndfile has them."""
    bits, wanted = 8 * values.itemsize, 8 * out.itemsize
    if values.dtype.kind == "f":
        _round(values.astype(_FLOAT32, copy=False), out)
        return
    if values.ndim == 3:
        wide = numpy.zeros((*values.shape[:2], 4), numpy.uint8)
        wide[..., 1:] = values
        values, bits = wide.view("<i4")[..., 0], 32
    elif bits == 8:
        values = values.astype(numpy.int16) - numpy.int16(128)
    if out.dtype.kind == "f":
        numpy.multiply(values, _FLOAT32.type(2.0 ** (1 - bits)), out=out, casting="unsafe")
    elif wanted < bits:
        out[...] = values >> (bits - wanted)
    else:
        numpy.left_shift(values.astype(out.dtype), wanted - bits, out=out)


def _round(values: Array, out: Array) -> None:
    """Floats in the range of the type of `out`, rounded and saturated."""
    convert(numpy, ranged(values, out.dtype), out.dtype, out)
