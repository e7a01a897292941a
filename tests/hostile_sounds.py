"""Hostile sound files: headers that lie, containers that run in circles, bombs, and files that end early.

Each is made here, the same bytes every time, with a verdict: `refuse`, or `either` (an error or a sound).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

import numpy as np
from corpus import recorded, sound
from hostile_files import File, cuts, flipped, patched, refused

FORMATS = ("WAV", "FLAC", "OGG", "MP3", "AIFF")
_PLAIN = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)


def riff(name: bytes, content: bytes, size: int | None = None, order: str = "<") -> bytes:
    """A chunk, which may say another size than it has."""
    return (
        name + struct.pack(order + "I", len(content) if size is None else size) + content + b"\0" * (len(content) % 2)
    )


def wav(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def form(
    code: int = 1, channels: int = 1, rate: int = 8000, block: int = 2, bits: int = 16, more: bytes = b""
) -> bytes:
    return riff(b"fmt ", struct.pack("<HHIIHH", code, channels, rate, rate * block % 2**32, block, bits) + more)


DATA = riff(b"data", sound(100, 1).astype("<i2").tobytes())


def _wavs() -> Iterator[File]:
    good = wav(form(), DATA)
    adpcm = recorded(sound(600, 1), "WAV", "IMA_ADPCM")
    at = adpcm.index(b"fmt ") + 8
    lists = functools.reduce(lambda inner, _: riff(b"LIST", b"adtl" + inner), range(300), b"")
    fact = riff(b"fact", b"\xff" * 4)
    yield from refused({f"PCM {name}": data for name, data in cuts(good, 0.1, 0.5, 0.95).items()})
    yield from refused(
        {
            "ADPCM cut": adpcm[:200],
            "no channels": wav(form(channels=0, block=0), DATA),
            "1025 channels": wav(form(channels=1025, block=2050), DATA),
            "65535 channels": wav(form(channels=65535, block=65534), DATA),
            "a rate of 0": wav(form(rate=0), DATA),
            "blocks of 0 bytes": wav(form(block=0), DATA),
            "blocks of 65535 bytes": wav(form(block=65535), DATA),
            "a format of 15 bytes": wav(riff(b"fmt ", _PLAIN[:15]), DATA),
            "a format of four gigabytes": wav(riff(b"fmt ", _PLAIN, 0xFFFFFFFF), DATA),
            "a format and no values": wav(form()),
            "values and no format": wav(DATA),
            "values before the format": wav(DATA, form()),
            "values of 2 GB": wav(form(), riff(b"data", bytes(100), 0x7FFEFFFF)),
            "chunks of 0 bytes": wav(riff(b"junk", b"") * 50_000),
            "a chunk that reaches back": wav(form(), riff(b"junk", bytes(8), 0xFFFFFFF0), DATA),
            "a chunk beyond the end": wav(riff(b"LIST", b"INFO", 0x7FFFFFF0), form(), DATA),
            "ADPCM with blocks of 0 bytes": patched(adpcm, at + 12, b"\0\0"),
            "ADPCM with no channels": patched(adpcm, at + 2, b"\0\0"),
            "ADPCM with 65535 channels": patched(adpcm, at + 2, b"\xff\xff"),
            "MPEG of a million blocks": wav(form(0x55, 2, 44100, 1, 0), riff(b"data", b"\xff\xfb" * 2000)),
        }
    )
    yield from refused(
        {
            "0 bits": wav(form(bits=0), DATA),
            "65535 bits": wav(form(bits=65535), DATA),
            "an unknown code": wav(form(0x1234), DATA),
            "a rate of four billion": wav(form(rate=0xFFFFFFFF), DATA),
            "a size of 0": wav(form(), DATA, size=0),
            "a size of four gigabytes": wav(form(), DATA, size=0xFFFFFFFF),
            "two formats": wav(form(), form(channels=2, block=4), DATA),
            "two parts of values": wav(form(), DATA, DATA),
            "lists in lists": wav(form(), lists, DATA),
            "a million cues": wav(form(), riff(b"cue ", struct.pack("<I", 1_000_000) + bytes(240)), DATA),
            "loops of a sampler": wav(form(), riff(b"smpl", struct.pack("<9I", *[0] * 7, 0xFFFFFFFF, 0)), DATA),
            "a fact of four billion values": wav(form(3, 1, 8000, 4, 32), fact, riff(b"data", bytes(400))),
            "ADPCM of 65535 values a block": patched(adpcm, at + 18, b"\xff\xff"),
            "ADPCM of no values a block": patched(adpcm, at + 18, b"\0\0"),
            "an unknown identifier": wav(form(0xFFFE, more=struct.pack("<HHI", 22, 16, 4) + b"\xee" * 16), DATA),
        },
        "either",
    )  # fmt: skip


def _flac(metadata: list[tuple[int, bytes]], frames: bytes, sizes: dict[int, int] | None = None) -> bytes:
    """A FLAC file of blocks of metadata, some of which say another size."""
    found = b"fLaC"
    for i, (kind, content) in enumerate(metadata):
        last = 0x80 if i == len(metadata) - 1 else 0
        found += bytes([kind | last]) + (sizes or {}).get(i, len(content)).to_bytes(3, "big") + content
    return found + frames


def _info(base: bytes, **parts: int) -> bytes:
    """The first block of a file with other fields: least, most (a block), rate, channels, bits, values."""
    packed = int.from_bytes(base[10:18], "big")
    found = {"rate": packed >> 44, "channels": (packed >> 41 & 7) + 1, "bits": (packed >> 36 & 31) + 1,
             "values": packed & (2**36 - 1), "least": int.from_bytes(base[:2], "big"),
             "most": int.from_bytes(base[2:4], "big")} | parts  # fmt: skip
    packed = found["rate"] << 44 | found["channels"] - 1 << 41 | found["bits"] - 1 << 36 | found["values"]
    return struct.pack(">HH", found["least"], found["most"]) + base[4:10] + packed.to_bytes(8, "big") + base[18:]


def _flacs() -> Iterator[File]:
    whole = recorded(sound(20_000, 1), "FLAC")
    frames, info = whole[whole.index(b"\xff\xf8", 42) :], whole[8:42]
    silence = recorded(np.zeros((3_000_000, 1)), "FLAC")
    comments = struct.pack("<I", 4) + b"test" + struct.pack("<I", 0xFFFFFFFF)
    picture = struct.pack(">II", 3, 0xFFFFFF) + bytes(40)
    yield from refused({f"FLAC {name}": data for name, data in cuts(whole, 0.001, 0.1, 0.5, 0.95, 0.999).items()})
    yield from refused(
        {
            "many faults": flipped(whole, *range(100, len(whole), 97)),
            "a fault in a frame": flipped(whole, len(whole) // 2),
            "an unknown number of values": _flac([(0, _info(info, values=0))], frames),
            "no frames": _flac([(0, info)], b""),
            "2**36 values": _flac([(0, _info(info, values=2**36 - 1))], frames),
            "2**28 values": _flac([(0, _info(info, values=2**28))], frames[:3000]),
            "ten values more": _flac([(0, _info(info, values=20_010))], frames),
            "no information": _flac([(1, bytes(20))], frames),
            "information of 3 bytes": _flac([(0, info[:3])], frames),
            "information of 16 MB": _flac([(0, info)], frames, {0: 0xFFFFFF}),
            "a block beyond the end": _flac([(0, info), (1, b"")], b"", {1: 0xFFFFFF}),
            "blocks that never end": b"fLaC\0\0\0\x22" + info + b"\1\0\0\0" * 100_000,
            "a marker alone": b"fLaC",
            "noise behind the header": _flac([(0, info)], np.random.default_rng(1).bytes(3000)),
            "zeros behind the header": _flac([(0, info)], bytes(100_000)),
            "markers of frames alone": _flac([(0, info)], b"\xff\xf8" * 20_000),
        }
    )
    bomb = _flac([(0, _info(info, values=300_000_000)), (1, bytes(60_000))], silence[86:])
    yield from refused({"silence of 300 million values": bomb}, "limit")
    yield from refused(
        {
            "8 channels, 1 in frames": _flac([(0, _info(info, channels=8))], frames),
            "32 bits, 16 in frames": _flac([(0, _info(info, bits=32))], frames),
            "4 bits, 16 in frames": _flac([(0, _info(info, bits=4))], frames),
            "a rate of 0": _flac([(0, _info(info, rate=0))], frames),
            "a rate of a million": _flac([(0, _info(info, rate=2**20 - 1))], frames),
            "one value": _flac([(0, _info(info, values=1))], frames),
            "blocks of 0 values": _flac([(0, _info(info, least=0, most=0))], frames),
            "blocks of 65535 values": _flac([(0, _info(info, least=65535, most=65535))], frames),
            "frames twice": whole + frames,
            "places that lie": _flac([(0, info), (3, b"\0" * 8 + b"\xff" * 8 + b"\xff\xff")], frames),
            "a million places": _flac([(0, info), (3, b"\xff" * 18 * 5000)], frames),
            "four billion comments": _flac([(0, info), (4, comments)], frames),
            "a picture of 16 MB": _flac([(0, info), (6, picture)], frames),
            "a cue sheet of 100 tracks": _flac([(0, info), (5, bytes(395) + b"\x64")], frames),
            "a picture with a name of 4 GB": _flac([(0, info), (6, struct.pack(">II", 3, 2**32 - 1))], frames),
        },
        "either",
    )  # fmt: skip


@functools.cache
def _crcs() -> list[int]:
    found = []
    for i in range(256):
        value = i << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
        found.append(value)
    return found


def page(
    content: bytes, granule: int = 0, flags: int = 0, serial: int = 7, number: int = 0, lacing: bytes = b""
) -> bytes:
    """A page of Ogg with a right checksum."""
    lacing = lacing or b"\xff" * (len(content) // 255) + bytes([len(content) % 255])
    head = struct.pack("<4sBBqIII", b"OggS", 0, flags, granule, serial, number, 0) + bytes([len(lacing)]) + lacing
    crc = 0
    for byte in head + content:
        crc = (crc << 8 & 0xFFFFFFFF) ^ _crcs()[crc >> 24 ^ byte]
    return head[:22] + struct.pack("<I", crc) + head[26:] + content


def pages(data: bytes) -> list[tuple[bytes, int, int, int, int, bytes]]:
    """The pages of a file, as the arguments of `page`."""
    found, place = [], 0
    while place < len(data):
        flags, granule, serial, number = struct.unpack_from("<BqII", data, place + 5)
        lacing = data[place + 27 : place + 27 + data[place + 26]]
        begin = place + 27 + len(lacing)
        place = begin + sum(lacing)
        found.append((data[begin:place], granule, flags, serial, number, lacing))
    return found


def _changed(data: bytes, which: int, **parts: int | bytes) -> bytes:
    """A file with another page, of a right checksum."""
    names = ("content", "granule", "flags", "serial", "number", "lacing")
    made = [dict(zip(names, one, strict=True)) for one in pages(data)]
    made[which] |= parts
    return b"".join(page(**one) for one in made)


def _oggs() -> Iterator[File]:
    vorbis, opus = (recorded(sound(9000, 1), "OGG", code) for code in ("VORBIS", "OPUS"))
    head, opus_head = pages(vorbis)[0][0], pages(opus)[0][0]
    mixed = b"".join(page(*a) + page(*b[:3], 99, *b[4:]) for a, b in zip(pages(vorbis), pages(opus), strict=False))
    yield from refused({f"Vorbis {name}": data for name, data in cuts(vorbis, 0.001, 0.1, 0.3).items()})
    yield from refused(
        {
            "Opus cut at half": opus[: len(opus) // 2],
            "Vorbis cut at half": vorbis[: len(vorbis) // 2],
            "a wrong checksum": flipped(vorbis, vorbis.index(b"OggS", 100) + 22),
            "another stream in between": _changed(vorbis, 2, serial=8),
            "a page alone": page(b""),
            "pages of nothing": page(b"", flags=2) + page(b"") * 20_000,
            "pages without end": b"".join(page(b"a" * 255, lacing=b"\xff", number=i) for i in range(3000)),
            "no channels": _changed(vorbis, 0, content=patched(head, 11, b"\0")),
            "blocks of 2**15": _changed(vorbis, 0, content=patched(head, 28, b"\xff")),
            "blocks of 1": _changed(vorbis, 0, content=patched(head, 28, b"\0")),
            "no codebooks": b"".join(page(*one) for one in pages(vorbis)[:1]),
            "an unknown code": page(b"\x01unknown" + bytes(30), flags=2),
            "Opus of no channels": _changed(opus, 0, content=patched(opus_head, 9, b"\0")),
            "Opus of 2**62 values": _changed(opus, -1, granule=2**62),
        }
    )
    yield from refused(
        {
            "2**62 values": _changed(vorbis, -1, granule=2**62),
            "2**40 values": _changed(vorbis, -1, granule=2**40),
            "255 channels": _changed(vorbis, 0, content=patched(head, 11, b"\xff")),
            "a rate of 0": _changed(vorbis, 0, content=patched(head, 12, bytes(4))),
            "a rate of four billion": _changed(vorbis, 0, content=patched(head, 12, b"\xff" * 4)),
            "a place before the first": _changed(vorbis, -1, granule=-5),
            "no values at the end": _changed(vorbis, -1, granule=0),
            "pages out of order": _changed(vorbis, 2, number=77),
            "no last page": _changed(vorbis, -1, flags=0),
            "two files": vorbis + vorbis,
            "two streams together": mixed,
            "faults in the codebooks": flipped(vorbis, *range(200, 3000, 41)),
            "values of noise": _changed(vorbis, -1, content=np.random.default_rng(2).bytes(len(pages(vorbis)[-1][0]))),
            "Opus that skips 65535": _changed(opus, 0, content=patched(opus_head, 10, b"\xff\xff")),
            "Opus of 255 channels": _changed(opus, 0, content=patched(opus_head, 9, b"\xff")),
            "Opus of an unknown family": _changed(opus, 0, content=patched(opus_head, 18, b"\x77")),
            "Opus 128 times as loud": _changed(opus, 0, content=patched(opus_head, 16, b"\xff\x7f")),
        },
        "either",
    )  # fmt: skip


def _mp3s() -> Iterator[File]:
    whole = recorded(sound(20_000, 1), "MP3", rate=32000)
    xing = next((whole.index(name) for name in (b"Xing", b"Info") if name in whole), 0)
    size = b"\x7f" * 4
    yield from refused(
        {
            "a tag alone": b"ID3\4\0\0" + size,
            "a tag of 256 MB": b"ID3\4\0\0" + size + whole,
            "tags in a row": b"ID3\4\0\0\0\0\0\0" * 50_000,
            "markers alone": b"\xff\xfb" * 20_000,
            "ones": b"\xff" * 50_000,
            "a header alone": whole[:4],
            "a reserved rate": b"\xff\xfb\x9c\0" * 5000,
        },
        "either",
    )
    yield from refused(
        {
            **{f"MP3 {name}": data for name, data in cuts(whole, 0.05, 0.5, 0.95).items()},
            "four billion frames": patched(whole, xing + 8, b"\xff" * 4),
            "no frames": patched(whole, xing + 8, bytes(4)),
            "noise behind a header": whole[:4] + np.random.default_rng(3).bytes(20_000),
            "faults": flipped(whole, *range(500, len(whole), 91)),
            "another rate in the middle": whole + recorded(sound(4000, 2), "MP3", rate=48000),
            "no count of frames": without_count(whole),
            "a free bitrate": patched(whole, 2, bytes([whole[2] & 0x0F])),
        },
        "either",
    )


def without_count(data: bytes) -> bytes:
    """An MP3 file without its first frame, which says how many there are."""
    place = 4
    while data[place : place + 2] != data[:2] or (data[place + 2] ^ data[2]) & 0x0C:
        place += 1
    return data[place:]


def aiff(common: bytes, *chunks: bytes, size: int | None = None) -> bytes:
    body = b"AIFF" + riff(b"COMM", common, order=">") + b"".join(chunks)
    return b"FORM" + struct.pack(">I", len(body) if size is None else size) + body


def _aiffs() -> Iterator[File]:
    rate = struct.pack(">HQ", 16383 + 12, 8000 << 51)
    values = riff(b"SSND", bytes(8) + sound(100, 1).astype(">i2").tobytes(), order=">")

    def common(channels: int = 1, frames: int = 100, bits: int = 16, by: bytes = rate) -> bytes:
        return struct.pack(">HIH", channels, frames, bits) + by

    good = aiff(common(), values)
    yield from refused({f"AIFF {name}": data for name, data in cuts(good, 0.05, 0.1).items()})
    yield from refused(
        {
            "values of four gigabytes": aiff(common(), patched(values, 4, b"\xff" * 4)),
            "AIFF cut at half": good[: len(good) // 2],
            "no channels": aiff(common(0), values),
            "65535 channels": aiff(common(65535), values),
            "a header alone": aiff(common()),
            "no description": b"FORM" + struct.pack(">I", 4 + len(values)) + b"AIFF" + values,
            "a description of 3 bytes": aiff(b"abc", values),
            "chunks of 0 bytes": aiff(common(), riff(b"junk", b"") * 50_000),
            "an unknown code": b"FORM\0\0\1\0AIFC" + riff(b"COMM", common() + b"abcd\0\0", order=">") + values,
        }
    )
    yield from refused(
        {
            "four billion values": aiff(common(frames=0xFFFFFFFF), values),
            "no values": aiff(common(frames=0), values),
            "0 bits": aiff(common(bits=0), values),
            "33 bits": aiff(common(bits=33), values),
            "a rate of 0": aiff(common(by=bytes(10)), values),
            "a rate of infinity": aiff(common(by=b"\x7f\xff\x80" + bytes(7)), values),
            "a rate below 0": aiff(common(by=b"\xc0" + rate[1:]), values),
            "an offset of four gigabytes": aiff(common(), patched(values, 8, b"\xff" * 4)),
            "a size of 0": aiff(common(), values, size=0),
            "a thousand marks that are not there": aiff(common(), riff(b"MARK", b"\x03\xe8", order=">"), values),
        },
        "either",
    )


@functools.cache
def files() -> dict[str, File]:
    """All files by format and name."""
    found: dict[str, File] = {}
    for kind, make in zip(FORMATS, (_wavs, _flacs, _oggs, _mp3s, _aiffs), strict=True):
        for file in make():
            name = f"{kind}: {file.name}"
            assert name not in found, name
            found[name] = File(name, file.data, file.must, format=kind)
    return found
