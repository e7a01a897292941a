"""The files that decoding is judged by: good ones with their pixels, damaged ones, and ones that ask for too much.

Each is made here, the same bytes every time, and says what is right: `decode` to these pixels, `refuse`, `either` (an
error, or these pixels, but no others), or `limit` (refuse, because it is too large).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Literal

import cv2
import numpy as np
import small_jpegs as sj
from corpus import bmp, by_opencv, chunk, encoded, lossless, noise, photo, png, tiff
from PIL import Image

Verdict = Literal["decode", "refuse", "either", "limit"]
FORMATS = ("JPEG", "PNG", "GIF", "WebP", "BMP", "TIFF", "PNM", "JPEG 2000", "none")


@dataclasses.dataclass(frozen=True)
class File:
    """One file, and what is right."""

    name: str
    data: bytes
    must: Verdict
    pixels: np.ndarray | None = None  #: (H, W, 3), uint8, upright; of `decode` and `either`
    within: float = 0  #: how far the mean of the differences may be from 0
    format: str = ""
    own: bool = False  #: whether the verdict is a choice of this library, by which others are not judged


def rgb(pixels: np.ndarray) -> np.ndarray:
    """Pixels of any channels and depth as (H, W, 3) of uint8."""
    if pixels.dtype == np.uint16:
        pixels = np.rint(pixels / 257).astype(np.uint8)
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    return np.repeat(pixels[..., :1], 3, axis=2) if pixels.shape[2] < 3 else pixels[..., :3]


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """What EXIF says, in NumPy: 2 to 4 are flips, 5 to 8 the same of the transposed image."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    turns = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}
    y, x = turns.get(orientation, (1, 1))
    return pixels[::y, ::x]


PHOTO = photo(48, 64)
GRAY = PHOTO[..., 1].copy()
_LOSSY = 6.0


def cuts(data: bytes, *parts: float) -> dict[str, bytes]:
    """The first part of a file, several times."""
    return {f"cut at {part:.0%}": data[: int(len(data) * part)] for part in parts}


def patched(data: bytes, place: int, content: bytes) -> bytes:
    return data[:place] + content + data[place + len(content) :]


def flipped(data: bytes, *places: int) -> bytes:
    changed = bytearray(data)
    for place in places:
        changed[place] ^= 0x10
    return bytes(changed)


def refused(files: dict[str, bytes], must: Verdict = "refuse") -> Iterator[File]:
    for name, data in files.items():
        yield File(name, data, must)


# -- JPEG


def exif(entries: list[tuple[int, int, int, int]], order: str = "<") -> bytes:
    """An APP1 segment with a directory: tag, type, count and value of each entry."""
    block = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    for tag, kind, count, value in entries:
        packed = struct.pack(order + "HH", value, 0) if kind == 3 else struct.pack(order + "I", value)
        block += struct.pack(order + "HHI", tag, kind, count) + packed
    return sj.segment(0xE1, b"Exif\0\0" + block + bytes(4))


def _good_jpegs() -> Iterator[File]:
    def good(name: str, data: bytes, pixels: np.ndarray = PHOTO, within: float = _LOSSY) -> File:
        return File(name, data, "decode", rgb(pixels), within)

    base = encoded(PHOTO, "JPEG", quality=92, subsampling=0)
    for sampling in ("444", "422", "420", "440", "411"):
        code = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
        for kind, extra in {"": [], " progressive": [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]}.items():
            options = [cv2.IMWRITE_JPEG_QUALITY, 92, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, code, *extra]
            yield good(f"{sampling}{kind}", cv2.imencode(".jpg", PHOTO[..., ::-1], options)[1].tobytes(), within=12)
    yield good("gray", encoded(GRAY, "JPEG", quality=92), GRAY)
    yield good("gray progressive", encoded(GRAY, "JPEG", quality=92, progressive=True), GRAY)
    yield good("optimised", encoded(PHOTO, "JPEG", quality=92, subsampling=0, optimize=True))
    for name, options in {"a row": {"restart_marker_rows": 1}, "a block": {"restart_marker_blocks": 1}}.items():
        yield good(f"restart after {name}", encoded(PHOTO, "JPEG", quality=92, subsampling=0, **options))
    for size in ((1, 1), (7, 9), (17, 8)):
        small = photo(*size)
        yield good(f"{size[0]} x {size[1]}", encoded(small, "JPEG", quality=95, subsampling=0), small)
    yield good("a profile of 100 kB", encoded(PHOTO, "JPEG", quality=92, subsampling=0, icc_profile=bytes(100_000)))
    wrong = sj.segment(0xE2, b"ICC_PROFILE\0\x05\x01" + bytes(50))
    yield good("a profile whose parts are missing", base[:2] + wrong + base[2:])
    yield good("comments", base[:2] + sj.segment(0xFE, b"") + sj.segment(0xFE, b"text\xff\xd9") + base[2:])
    yield good("fill bytes between segments", base[:2] + b"\xff\xff\xff" + base[2:])
    yield good("bytes after the end", base + b"\0more\xff\xd8\xff")
    yield good("a thumbnail", base[:2] + sj.segment(0xE1, b"Exif\0\0" + b"II*\0" + bytes(4) + base) + base[2:])
    for orientation in range(1, 9):
        data = base[:2] + exif([(0x112, 3, 1, orientation)], "<>"[orientation % 2]) + base[2:]
        yield good(f"EXIF orientation {orientation}", data, upright(PHOTO, orientation))
    for name, entry in {"LONG": (4, 1, 6), "BYTE": (1, 1, 6), "no number": (3, 0, 6), "two": (3, 2, 6)}.items():
        yield good(f"EXIF orientation of {name}", base[:2] + exif([(0x112, *entry)]) + base[2:], upright(PHOTO, 6))
    twice = exif([(0x112, 3, 1, 6)]) + exif([]) + sj.segment(0xE1, b"Exif\0\0goes on")
    yield good("EXIF that goes on", base[:2] + twice + base[2:], upright(PHOTO, 6))
    for name, entries in {
        "9": [(0x112, 3, 1, 9)],
        "0": [(0x112, 3, 1, 0)],
        "of four billion values": [(0x112, 3, 2**32 - 1, 6)],
        "of text": [(0x112, 2, 1, 6)],
    }.items():
        yield good(f"EXIF orientation {name}", base[:2] + exif(entries) + base[2:])
    cut = exif([(0x112, 3, 1, 6)])[4:-18]
    yield good("EXIF that is cut", base[:2] + sj.segment(0xE1, cut) + base[2:])
    yield good("EXIF with a directory beyond", base[:2] + sj.segment(0xE1, b"Exif\0\0MM\0*\xff\xff\xff\xff") + base[2:])


def _exact_jpegs() -> Iterator[File]:
    levels = [noise((4, 6)).astype(int) if i == 0 else noise((8, 6)).astype(int)[i : i + 4] for i in range(4)]
    color = np.stack([sj.enlarged(level) for level in levels[:3]], axis=-1)
    one = [(1, 1)] * 3
    files = {"together": {}, "apart": {"interleaved": False}, "with restarts": {"restart": 3}}
    for name, options in files.items():
        data = sj.flat(levels[:3], one, transform=0, **options)
        yield File(f"RGB stored as it is, {name}", data, "decode", color.astype(np.uint8))
    for name, transform in {"CMYK": 0, "YCCK": 2}.items():
        stored = color
        if transform == 2:
            levels = [noise((4, 6)).astype(int) % 90 + 80, np.full((4, 6), 110), np.full((4, 6), 140), levels[3]]
            stored = 255 - _from_ycc(*(sj.enlarged(level) for level in levels[:3]))
        paper = sj.enlarged(levels[3])[..., None]
        data = sj.flat(levels, [(1, 1)] * 4, transform=transform)
        yield File(name, data, "decode", np.rint(stored * paper / 255).astype(np.uint8), 1)
    inks = [noise((4, 6)).astype(int), *(np.full((2, 3), level) for level in (90, 200, 150))]
    stored = np.stack([sj.enlarged(inks[0]), *(np.full((32, 48), level) for level in (90, 200))], axis=-1)
    data = sj.flat(inks, [(2, 2), (1, 1), (1, 1), (1, 1)], transform=0)
    yield File("CMYK with one ink in full", data, "decode", np.rint(stored * 150 / 255).astype(np.uint8), 1)
    unmarked = sj.flat(levels, [(1, 1)] * 4)
    yield File("CMYK without a marker that says so", unmarked, "either", np.zeros((32, 48, 3), np.uint8))
    for factors in ((2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (3, 1), (1, 3), (4, 2), (3, 2)):
        luma = noise((2 * factors[1], 2 * factors[0])).astype(int) % 140 + 60
        blocks = [luma, np.full((2, 2), 100), np.full((2, 2), 150)]
        pixels = np.rint(_from_ycc(sj.enlarged(luma), 100, 150)).astype(np.uint8)
        for word, interleaved in {"together": True, "apart": False}.items():
            data = sj.flat(blocks, [factors, (1, 1), (1, 1)], interleaved=interleaved)
            yield File(f"factors {factors}, {word}", data, "decode", pixels, 1)


def _from_ycc(y: np.ndarray, b: np.ndarray | int, r: np.ndarray | int) -> np.ndarray:
    red, blue = y + 1.402 * (r - 128), y + 1.772 * (b - 128)
    return np.stack([red, y - 0.344136 * (b - 128) - 0.714136 * (r - 128), blue], axis=-1).clip(0, 255)


def _bad_jpegs() -> Iterator[File]:
    base = encoded(PHOTO, "JPEG", quality=92, subsampling=0)
    progressive = encoded(PHOTO, "JPEG", quality=92, progressive=True)
    restarts = encoded(PHOTO, "JPEG", quality=92, subsampling=0, restart_marker_blocks=1)
    start, frame = base.index(b"\xff\xda"), base.index(b"\xff\xc0")
    bits = start + 14
    half = (bits + len(base)) // 2
    rare = sj.flat([np.full((8, 16), 90), np.full((4, 4), 90), np.full((4, 4), 90)], [(4, 2), (1, 1), (1, 1)])
    sized = {"taller": (4000, 64), "wider": (48, 4000), "of no width": (48, 0), "of no height": (0, 64)}
    yield from refused(
        {
            **cuts(base, 0.1, 0.3, 0.6, 0.9, 0.99),
            **{f"progressive {k}": v for k, v in cuts(progressive, 0.5, 0.95).items()},
            "no end": base[:-2],
            "half an end": base[:-1],
            "only a start": base[:2],
            "only a start and FF": base[:3],
            "an early end": base[:half] + sj.EOI,
            "no scan": base[:start] + sj.EOI,
            "no frame": base[:frame] + base[start:],
            "no tables": sj.SOI + base[frame:],
            "no quantisation": base.replace(b"\xff\xdb", b"\xff\xec"),
            **{name: patched(base, frame + 5, struct.pack(">HH", *size)) for name, size in sized.items()},
            "arithmetic": patched(base, frame, b"\xff\xc9"),
            "lossless": patched(base, frame, b"\xff\xc3"),
            "hierarchical": patched(base, frame, b"\xff\xc5"),
            "12 bits": patched(base, frame + 4, b"\x0c"),
            "two frames": base[:start] + base[frame:],
            "two components": base.replace(base[frame:start], sj.frame(48, 64, [(1, 1)] * 2), 1),
            "one identifier twice": patched(base, frame + 13, base[frame + 10 : frame + 11]),
            "a sampling factor of 0": patched(base, frame + 11, b"\x01"),
            "one of 5": patched(base, frame + 11, b"\x51"),
            "a scan of an unknown component": patched(base, start + 5, b"\x09"),
            "a scan of no component": patched(base, start + 4, b"\0"),
            "a scan of unknown codes": patched(base, start + 6, b"\x33"),
            "a segment of length 0": patched(base, 4, b"\0\0"),
            "one of length 1": patched(base, 4, b"\0\1"),
            "one beyond the end": patched(base, 4, b"\xff\xff"),
            "text between segments": base[:2] + b"text" + base[2:],
            "a marker in the scan": patched(base, half, b"\xff\xc4"),
            "an end in the scan": patched(base, half, sj.EOI),
            "a start in the scan": patched(base, half, sj.SOI),
            "too many codes": _overfull(base),
            "a byte between its own": base.replace(b"\n", b"\r\n"),
            "half of it twice": base[:half] + base[bits:],
            "a part missing": base[:half] + base[half + 40 :],
            "a frame of two bytes": base[:frame] + sj.segment(0xC0, b"\x08\0") + base[start:],
            "a frame with a byte more": base[:frame] + sj.segment(0xC0, base[frame + 4 : start] + b"\0") + base[start:],
            "factors that do not divide the largest": sj.flat(
                [np.full((2, 6), 90), np.full((2, 4), 90), np.full((2, 2), 90)], [(3, 1), (2, 1), (1, 1)]
            ),
            "rare factors and an unknown component": patched(rare, rare.index(b"\xff\xda") + 5, b"\x09"),
            "rare factors and no end": rare[:-2],
            **{f"rare factors, {k}": v for k, v in cuts(rare, 0.8, 0.95).items()},
            "rare factors and an early end": rare[:-12] + sj.EOI,
            "rare factors and too few bits": rare[: rare.index(b"\xff\xda") + 20] + sj.EOI,
            "two frames, progressive": progressive[:-2] + base[frame:start] + sj.EOI,
            "an unknown component, progressive": patched(progressive, progressive.rindex(b"\xff\xda") + 5, b"\x09"),
            "a height that follows, progressive": progressive[:-2] + sj.segment(0xDC, b"\0\x30") + sj.EOI,
            "missing components": sj.flat([noise((2, 2)).astype(int)] * 3, [(1, 1)] * 3, interleaved=False).rpartition(
                b"\xff\xda"
            )[0]
            + sj.EOI,
            "a height that follows": patched(base, frame + 5, b"\0\0")[:-2] + sj.segment(0xDC, b"\0\x30") + sj.EOI,
        }
    )
    ok = {"pixels": PHOTO, "within": _LOSSY}
    for name, data in {
        "zeros in the scan": patched(base, half, bytes(300)),
        "a restart lost": _without_restart(restarts),
        "restarts exchanged": restarts.replace(b"\xff\xd1", b"\xff\xd3", 1),
        "flips in the scan": flipped(base, *range(bits + 100, half, 37)),
        "shorter than its data": patched(base, frame + 5, b"\0\x10"),
        "codes that are the usual ones left out": base.replace(b"\xff\xc4", b"\xff\xec"),
    }.items():
        yield File(name, data, "either", **(ok | {"pixels": PHOTO[:16]} if name.startswith("shorter") else ok))
    last = progressive.rindex(b"\xff\xda")
    many = progressive[:-2] + progressive[last:-2] * 300 + sj.EOI
    large = encoded(np.zeros((1500, 2000), np.uint8), "JPEG", progressive=True)
    last = large.rindex(b"\xff\xda")
    yield from refused(
        {
            "of 30000 x 30000": patched(base, frame + 5, struct.pack(">HH", 30000, 30000)),
            "of 65500 x 65500": patched(base, frame + 5, struct.pack(">HH", 65500, 65500)),
            "300 scans": many,
            "800 scans of 3 million pixels": large[:-2] + large[last:-2] * 800 + sj.EOI,
            "300 scans, not progressive": sj.flat(
                [noise((2, 2)).astype(int)] * 3, [(1, 1)] * 3, interleaved=False, scans=100
            ),
            "of 65500 x 65500, progressive": patched(
                progressive, progressive.index(b"\xff\xc2") + 5, struct.pack(">HH", 65500, 65500)
            ),
        },
        "limit",
    )


def _overfull(data: bytes) -> bytes:
    """More Huffman codes of one bit than there are."""
    return patched(data, data.index(b"\xff\xc4") + 5, b"\x09")


def _without_restart(data: bytes) -> bytes:
    """What lies between two restart markers is gone, and one of them."""
    first, second = data.index(b"\xff\xd2"), data.index(b"\xff\xd3")
    return data[:first] + data[second:]


# -- PNG

SIGNATURE, IEND = b"\x89PNG\r\n\x1a\n", chunk(b"IEND", b"")


def ihdr(width: int, height: int, depth: int = 8, kind: int = 2, *methods: int) -> bytes:
    compression, filtering, interlace = (*methods, 0, 0, 0)[:3]
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, compression, filtering, interlace))


def _good_pngs() -> Iterator[File]:
    base = encoded(PHOTO, "PNG")
    body = base[33:]
    for name, (data, pixels) in lossless().items():
        if name.startswith(("PNG", "16 bit")) and data.startswith(SIGNATURE):
            yield File(name.removeprefix("PNG "), data, "decode", rgb(pixels), int(pixels.dtype == np.uint16))
    text = chunk(b"tEXt", b"Comment\0" + bytes(1000)) + chunk(b"gAMA", struct.pack(">I", 1)) + chunk(b"abCd", b"?")
    bomb = zlib.compress(bytes(50_000_000), 9)
    inflated = chunk(b"zTXt", b"Comment\0\0" + bomb) + chunk(b"iCCP", b"profile\0\0" + bomb)
    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in PHOTO))
    pieces = b"".join(chunk(b"IDAT", packed[i : i + 1]) for i in range(400)) + chunk(b"IDAT", packed[400:])
    key = chunk(b"tRNS", struct.pack(">HHH", *PHOTO[0, 0]))
    animation = chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(
        b"fcTL", struct.pack(">5IHHBB", 0, 64, 48, 0, 0, 1, 9, 0, 0)
    )
    for name, data in {
        "text, gamma and an unknown chunk": base[:33] + text + body,
        "50 MB of text and profile": base[:33] + inflated + body,
        "400 chunks of a byte": base[:33] + chunk(b"IDAT", b"") + pieces + IEND,
        "bytes after the end": base + b"more",
        "a transparent colour": base[:33] + key + body,
        "a palette that is not needed": base[:33] + chunk(b"PLTE", bytes(9)) + body,
        "an animation": base[:33] + animation + body[:-12] + chunk(b"fdAT", bytes(9)) + IEND,
    }.items():
        yield File(name, data, "decode", PHOTO)
    block = struct.pack("<4sIHHHIHHI", b"II*\0", 8, 1, 0x112, 3, 1, 6, 0, 0)
    yield File("EXIF orientation 6", base[:33] + chunk(b"eXIf", block) + body, "decode", upright(PHOTO, 6))
    for filter, rows in enumerate(_filtered(PHOTO.astype(int))):
        data = SIGNATURE + ihdr(64, 48) + chunk(b"IDAT", zlib.compress(rows)) + IEND
        yield File(f"filter {filter}", data, "decode", PHOTO)


def _filtered(image: np.ndarray) -> Iterator[bytes]:
    """The rows under each of the five filters."""
    left, above, corner = (np.zeros_like(image) for _ in range(3))
    left[:, 1:], above[1:], corner[1:, 1:] = image[:, :-1], image[:-1], image[:-1, :-1]
    guess = left + above - corner
    far = np.stack([abs(guess - side) for side in (left, above, corner)])
    paeth = np.choose(far.argmin(axis=0), [left, above, corner])
    for number, predicted in enumerate([0, left, above, (left + above) // 2, paeth]):
        rows = ((image - predicted) % 256).astype(np.uint8)
        yield b"".join(bytes([number]) + row.tobytes() for row in rows)


def _bad_pngs() -> Iterator[File]:
    base, three = encoded(PHOTO, "PNG"), ihdr(3, 3, 8, 0)
    place = base.index(b"IDAT")
    body, first = base[33:], SIGNATURE + three
    data = chunk(b"IDAT", zlib.compress(bytes(12)))

    def idat(content: bytes) -> bytes:
        return SIGNATURE + three + chunk(b"IDAT", content) + IEND

    packed = zlib.compress(bytes(12))
    yield from refused(
        {
            **cuts(base, 0.001, 0.02, 0.1, 0.5, 0.9, 0.99),
            "no end": base[:-12],
            "no pixels": SIGNATURE + ihdr(64, 48) + IEND,
            "a flip in the header": flipped(base, 20),
            "one in the pixels": flipped(base, place + 300),
            "one in a checksum": flipped(base, len(base) - 1),
            "rows missing": idat(zlib.compress(bytes(8))),
            "one row too many": idat(zlib.compress(bytes(16))),
            "much too many rows": idat(zlib.compress(bytes(10**6))),
            "a filter 5": idat(zlib.compress(b"\5\0\0\0" * 3)),
            "no zlib header": idat(packed[2:]),
            "a zlib window too large": idat(b"\xf8" + packed[1:]),
            "a wrong Adler checksum": idat(packed[:-1] + b"\7"),
            "zlib that is cut": idat(packed[:-5]),
            "empty pixels": idat(b""),
            "no palette": png(noise((3, 3, 1)) % 4, 2, 3),
            "a palette too short": png(np.full((3, 3, 1), 3), 2, 3, palette=bytes(6)),
            "a palette after the pixels": SIGNATURE + ihdr(3, 3, 8, 3) + data + chunk(b"PLTE", bytes(9)) + IEND,
            "a palette of 4 bytes": SIGNATURE + ihdr(3, 3, 8, 3) + chunk(b"PLTE", bytes(4)) + data + IEND,
            "two palettes": SIGNATURE + ihdr(3, 3, 8, 3) + chunk(b"PLTE", bytes(3)) * 2 + data + IEND,
            "3 bits": SIGNATURE + ihdr(3, 3, 3, 0) + data + IEND,
            "colour type 5": SIGNATURE + ihdr(3, 3, 8, 5) + data + IEND,
            "colour of 4 bits": SIGNATURE + ihdr(3, 3, 4, 2) + data + IEND,
            "interlacing 2": SIGNATURE + ihdr(3, 3, 8, 0, 0, 0, 2) + data + IEND,
            "compression 1": SIGNATURE + ihdr(3, 3, 8, 0, 1) + data + IEND,
            "of no width": SIGNATURE + ihdr(0, 3) + data + IEND,
            "of no height": SIGNATURE + ihdr(3, 0) + data + IEND,
            "no header": SIGNATURE + body,
            "a filter 7 after 56 million pixels": _long_png(b"\7" + bytes(8000)),
            "a row too few of 56 million pixels": _long_png(b""),
            "a header that is late": SIGNATURE + chunk(b"tEXt", b"a\0b") + base[8:],
            "two headers": first + three + data + IEND,
            "pixels in two places": first + data[:20] + chunk(b"tEXt", b"a\0b") + data + IEND,
            "pixels around text": first
            + chunk(b"IDAT", packed[:6])
            + chunk(b"tEXt", b"a\0b")
            + chunk(b"IDAT", packed[6:])
            + IEND,
            "a chunk of 4 GB": SIGNATURE + three + b"\xff\xff\xff\xffIDAT" + bytes(500),
            "an unknown chunk that matters": first + chunk(b"ABCD", b"") + data + IEND,
            "a name that is none": first + chunk(b"ID\0T", b"") + data + IEND,
            "transferred as text": base.replace(b"\r\n", b"\n"),
            "a long header": SIGNATURE + chunk(b"IHDR", bytes(14)) + data + IEND,
        }
    )
    line = bytes(1 + 12000 // 8)
    squeeze = zlib.compressobj(9)
    flat = b"".join(squeeze.compress(line) for _ in range(12000)) + squeeze.flush()
    yield from refused(
        {
            "of 100000 x 100000": SIGNATURE + ihdr(100_000, 100_000, 1, 0) + data + IEND,
            "of 2**31 - 1": SIGNATURE + ihdr(2**31 - 1, 2**31 - 1, 16, 6) + data + IEND,
            "144 million pixels in a few kilobytes": SIGNATURE + ihdr(12000, 12000, 1, 0) + chunk(b"IDAT", flat) + IEND,
        },
        "limit",
    )


def _long_png(last: bytes) -> bytes:
    """56 million pixels, of which the last row is this."""
    squeeze, line = zlib.compressobj(9), bytes(8001)
    packed = [squeeze.compress(line) for _ in range(6999)] + [squeeze.compress(last), squeeze.flush()]
    return SIGNATURE + ihdr(8000, 7000, 8, 0) + chunk(b"IDAT", b"".join(packed)) + IEND


# -- the other formats


def gif(
    screen: tuple[int, int],
    corner: tuple[int, int],
    indices: np.ndarray,
    palette: np.ndarray,
    own: np.ndarray | None = None,
    background: int = 0,
    bits: int = 8,
    *,
    interlaced: bool = False,
    rows: int | None = None,
    codes: bytes | None = None,
) -> bytes:
    """A GIF of one frame whose codes are the indices themselves; the table is cleared before it would grow."""
    clear, step = 1 << bits, (1 << bits) - 2
    values = indices.ravel().tolist()
    groups = (values[i : i + step] for i in range(0, len(values), step))
    body = packed_codes([code for group in groups for code in (clear, *group)] + [clear + 1], bits + 1)
    body = body if codes is None else codes
    flags = 0x80 | bits - 1
    file = b"GIF89a" + struct.pack("<HHBBB", screen[1], screen[0], flags, background, 0) + palette.tobytes()
    rows = len(indices) if rows is None else rows
    local = 0 if own is None else flags
    file += b"," + struct.pack("<HHHHB", corner[1], corner[0], indices.shape[1], rows, local | 0x40 * interlaced)
    file += (b"" if own is None else own.tobytes()) + bytes([bits])
    blocks = (body[i : i + 255] for i in range(0, len(body), 255))
    return file + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0;"


def packed_codes(codes: list[int], width: int) -> bytes:
    """Codes of a width, the lowest bits first."""
    held = size = 0
    content = bytearray()
    for code in codes:
        held |= code << size
        size += width
        while size >= 8:
            content.append(held & 255)
            held >>= 8
            size -= 8
    return bytes(content) + bytes([held]) * (size > 0)


def _gifs() -> Iterator[File]:
    picture = Image.fromarray(PHOTO).quantize(64)
    pixels = np.asarray(picture.convert("RGB"))
    base = encoded(picture, "GIF")
    moving = encoded(picture, "GIF", save_all=True, append_images=[Image.fromarray(255 - PHOTO).quantize(64)])
    frame = base.index(b",\0\0\0\0")
    table, one, pixels_beyond = noise((256, 3)), np.zeros((1, 11585), np.uint8), np.full((4, 5), 9, np.uint8)
    wide = gif((11585, 11585), (0, 0), one, table, rows=11585, codes=b"")
    for name, data in {
        "plain": base,
        "moving": moving,
        "interlaced": encoded(picture, "GIF", interlace=1),
        "a comment": encoded(picture, "GIF", comment=b"text" * 100),
        "a transparent colour": encoded(picture, "GIF", transparency=int(np.asarray(picture)[0, 0])),
        "a background that is no colour": patched(base, 11, b"\xff"),
        "cut after the first frame": moving[: len(moving) * 6 // 10],
    }.items():
        yield File(name, data, "decode", pixels)
    local = base[frame + 9]
    coded = frame + 10 + (3 << (local & 7) + 1 if local & 0x80 else 0)
    yield from refused(
        {
            **cuts(base, 0.001, 0.05, 0.5, 0.9),
            "no frame": base[:frame] + b";",
            "a frame outside": patched(base, frame + 1, b"\1\0\1\0"),
            "of no width": patched(base, 6, b"\0\0"),
            "codes of 0 bits": patched(base, coded, b"\0"),
            "codes of 12 bits": patched(base, coded, b"\x0c"),
            "no block": patched(base, frame, b"?"),
            "a palette that is cut": base[:20],
            "a colour that there is not": gif((4, 5), (0, 0), pixels_beyond, table[:4], bits=8),
            "no codes for many pixels": gif((11585, 11585), (0, 0), one, table, rows=11585, codes=b""),
            "a few bytes for many pixels": gif((11585, 11585), (0, 0), one, table, rows=11585, codes=bytes(300)),
            "codes of 12 bits for many pixels": patched(wide, wide.index(b",") + 10, b"\x0b"),
            "one row of codes": gif((9, 11585), (0, 0), one, table, rows=9),
        }
    )
    clears = packed_codes([4] * 150_000 + [4, 0, 0] * 15 + [5], 3)
    file = gif((5, 6), (0, 0), np.zeros((5, 6), np.uint8), table[:4], bits=2, codes=clears)
    yield File("nothing but new tables", file, "decode", np.broadcast_to(table[0], (5, 6, 3)))
    yield from refused({"of 65535 x 65535": patched(base, 6, b"\xff\xff\xff\xff")}, "limit")


def _webps() -> Iterator[File]:
    alpha = noise((48, 64, 4))
    alpha[..., 3] |= 1  # colour under no alpha at all may be given up
    plain, exact = encoded(PHOTO, "WEBP", lossless=True), encoded(alpha, "WEBP", lossless=True, exact=True)
    lossy, both = encoded(PHOTO, "WEBP", quality=95), encoded(np.dstack([PHOTO, GRAY | 1]), "WEBP", quality=95)
    profiled = encoded(PHOTO, "WEBP", lossless=True, icc_profile=bytes(200))
    for name, data, pixels, within in (
        ("lossless", plain, PHOTO, 0),
        ("lossless with alpha", exact, alpha[..., :3], 0),
        ("lossy", lossy, PHOTO, 8),
        ("lossy with alpha", both, PHOTO, 8),
        ("a profile", profiled, PHOTO, 0),
        *((f"EXIF orientation {o}", encoded(PHOTO, "WEBP", o, lossless=True), upright(PHOTO, o), 0) for o in (3, 6)),
        ("bytes after the end", plain + b"more", PHOTO, 0),
    ):
        yield File(name, data, "decode", pixels, within)
    moving = encoded(PHOTO, "WEBP", save_all=True, append_images=[Image.fromarray(255 - PHOTO)])
    canvas = profiled.index(b"VP8X") + 12
    yield from refused(
        {
            **cuts(plain, 0.01, 0.5, 0.95),
            **{f"lossy {k}": v for k, v in cuts(lossy, 0.5, 0.95).items()},
            "moving": moving,
            "cut, and its size with it": b"RIFF" + struct.pack("<I", len(plain) // 2 - 8) + plain[8 : len(plain) // 2],
            "a size too small": patched(plain, 4, struct.pack("<I", 20)),
            "another canvas": patched(profiled, canvas, b"\1"),
            "lossy, of 11585 x 11585": patched(lossy, 26, struct.pack("<HH", 11585, 11585)),
            "lossless, of 11585 x 11585, noise": patched(plain, 21, struct.pack("<I", 11584 | 11584 << 14)),
            "no picture": b"RIFF\x04\0\0\0WEBP",
            "a version of its own": patched(plain, 24, bytes([plain[24] | 0xE0])),
            "another signature": patched(plain, 20, b"\x2e"),
            "a chunk with no room": patched(plain, 4, struct.pack("<I", len(plain) - 4)) + b"abcd",
            "a canvas that is cut": b"RIFF\x10\0\0\0WEBPVP8X\4\0\0\0\0\0\0\0",
            "no key frame": patched(lossy, 23, b"\0\0\0"),
            "two pictures": b"RIFF" + struct.pack("<I", 2 * len(plain) - 20) + plain[8:] + plain[12:],
        }
    )
    yield from refused(
        {
            "of 16383 x 16383 in 30 bytes": b"RIFF\x16\0\0\0WEBPVP8L\x0a\0\0\0\x2f"
            + struct.pack("<I", 0xFFFFFFF)
            + bytes(5)
        },
        "limit",
    )


def _bmps() -> Iterator[File]:
    base = encoded(PHOTO, "BMP")
    for name, (data, pixels) in lossless().items():
        if name.startswith("BMP"):
            yield File(name.removeprefix("BMP "), data, "decode", rgb(pixels), 2 * ("5-" in name))
    runs = struct.pack("<IiiHHIIiiII", 40, 4, 4, 1, 8, 1, 6, 0, 0, 4, 0) + bytes(16)
    beyond = b"BM" + struct.pack("<IHHI", 76, 0, 0, 70) + runs + b"\0\2\xff\xff\0\1"
    yield from refused(
        {
            **cuts(base, 0.001, 0.003, 0.5, 0.99),
            "run lengths that leave pixels out": beyond,
            "a palette too short": bmp(b"\5\0\0\0", 1, 1, 8, palette=bytes(8)),
            "no palette": bmp(bytes(8), 2, 1, 8),
            "7 bits": bmp(bytes(8), 2, 1, 7),
            "two planes": bmp(bytes(8), 2, 1, 24, planes=2),
            "JPEG inside": bmp(bytes(8), 2, 1, 0, compression=4),
            "overlapping masks": bmp(bytes(8), 2, 1, 32, masks=(255, 255, 0xFF00)),
            "a mask in pieces": bmp(bytes(8), 2, 1, 32, masks=(0xFF0000, 0xA000, 0xFF)),
            "a strange header": bmp(bytes(80), 2, 1, 24, size=80),
            "of no width": patched(base, 18, bytes(4)),
            "of a negative width": patched(base, 18, b"\xff\xff\xff\xff"),
        }
    )
    yield File("pixels inside of the header", patched(base, 10, b"\x1a\0\0\0"), "either", PHOTO)
    yield from refused(
        {
            "of the least height": patched(base, 22, b"\0\0\0\x80"),
            "of 40000 x 40000": patched(base, 18, struct.pack("<ii", 40000, 40000)),
        },
        "limit",
    )


def _tiffs() -> Iterator[File]:
    for name, (data, pixels) in lossless().items():
        if "TIFF" in name or "tiff" in name:
            yield File(name.removeprefix("TIFF "), data, "decode", rgb(pixels), int(pixels.dtype == np.uint16))
    yield File("EXIF orientation 8", encoded(PHOTO, "TIFF", 8), "decode", upright(PHOTO, 8))
    odd = noise((3, 31))
    yield File("LZW, rows of 31 bytes", encoded(odd, "TIFF", compression="tiff_lzw"), "decode", rgb(odd))
    yield File("one row of 31 bytes", encoded(odd[:1], "TIFF", compression="packbits"), "decode", rgb(odd[:1]))
    base, deflated, lzw = encoded(PHOTO, "TIFF"), tiff(PHOTO), encoded(PHOTO, "TIFF", compression="tiff_lzw")
    start = struct.unpack_from("<I", deflated, 4)[0]
    entry = {struct.unpack_from("<H", deflated, at)[0]: at for at in range(start + 2, start + 2 + 12 * 10, 12)}
    short = tiff(PHOTO[:4])
    yield from refused(
        {
            **cuts(base, 0.001, 0.1, 0.9),
            **{f"deflated {k}": v for k, v in cuts(deflated, 0.5, 0.9).items()},
            "a strip that is too short": patched(short, entry_of(short, 257) + 8, b"\x04\0\0\0")
            .replace(struct.pack("<HHII", 278, 4, 1, 4), struct.pack("<HHII", 278, 4, 1, 40))
            .replace(struct.pack("<HHII", 257, 4, 1, 4), struct.pack("<HHII", 257, 4, 1, 40)),
            "a predictor for floats": patched(
                guessed := tiff(PHOTO, predictor=True), entry_of(guessed, 317) + 8, b"\3"
            ),
            "a plain strip that is too short": patched(base, entry_of(base, 279) + 8, b"\1\0"),
            "tiles of two billion pixels": (tiled := tiff(PHOTO, tile=16)).replace(
                struct.pack("<HHII", 322, 4, 1, 16), struct.pack("<HHII", 322, 4, 1, 2**31), 1
            ),
            "tiles of no pixels": tiled.replace(
                struct.pack("<HHII", 322, 4, 1, 16), struct.pack("<HHII", 322, 4, 1, 0), 1
            ),
            "a strip of more than its rows": patched(deflated, entry[256] + 8, b"\x20"),
            "a flip in a strip": flipped(deflated, 60),
            "an endless directory": b"II*\0\x08\0\0\0\xff\xff" + bytes(50),
            "a directory beyond": patched(deflated, 4, b"\xff\xff\xff\x7f"),
            "four billion values": patched(deflated, entry[273] + 4, b"\xff\xff\xff\xff"),
            "of no width": patched(deflated, entry[256] + 8, bytes(4)),
            "too few strips": patched(deflated, entry[278] + 8, b"\1\0\0\0"),
            "strips beyond": base[:-3000],
            "LZW that is cut": patched(lzw, entry_of(lzw, 279) + 8, b"\x80\0"),
            "floats": encoded(np.zeros((3, 3), np.float32), "TIFF"),
            "JPEG inside": encoded(Image.new("RGB", (9, 9)), "TIFF", compression="jpeg"),
            "BigTIFF of no entries": b"II+\0\x08\0\0\0" + bytes(60),
            "BigTIFF that is cut": varied_tiff(PHOTO, big=True)[:-40],
            "BigTIFF of its header alone": varied_tiff(PHOTO, big=True)[:15],
            "BigTIFF with offsets of 4 bytes": patched(varied_tiff(PHOTO, big=True), 4, b"\4"),
            "BigTIFF with a directory beyond": patched(varied_tiff(PHOTO, big=True), 8, b"\xff" * 8),
            "BigTIFF of 2**63 values": patched(
                varied_tiff(PHOTO, big=True), varied_tiff(PHOTO, big=True).index(b"\2\1\3\0") + 4, b"\xff" * 8
            ),
            "a plane missing": varied_tiff(PHOTO, planes=True, tags={277: [4]}),
            "a planar configuration of 3": varied_tiff(PHOTO, tags={284: [3]}),
            "4 bits with a predictor": varied_tiff(GRAY[..., None] >> 4, 4, tags={262: [1], 317: [2]}),
            "a palette of 8 colours for 4 bits": varied_tiff(GRAY[..., None] >> 4, 4, tags={262: [3], 320: [0] * 24}),
            "colour of 4 bits": varied_tiff(PHOTO >> 4, 4),
            "17 channels": varied_tiff(noise((3, 4, 17))),
            "no channels": varied_tiff(GRAY[..., None], tags={262: [1], 277: [0]}),
        }
    )
    yield from refused(
        {
            **{
                f"{word} of 125 bytes for 134 million": _in_strips(11585, 11585, kind, order, bytes(125))
                for word, kind in {"LZW": 5, "PackBits": 32773, "deflate": 8, "plain": 1}.items()
                for order in (1,)
            },
            **{
                f"strips that share bytes, {word}, order {order}": _in_strips(11000, 1, kind, order, bytes(32000))
                for word, kind in {"LZW": 5, "PackBits": 32773, "deflate": 8, "plain": 1}.items()
                for order in (1, 2)
            },
            "deflate that holds nothing": _in_strips(8000, 1, 8, 1, b"\x78\1" + b"\0\0\0\xff\xff" * 9000),
        }
    )
    for order in (1, 2):
        data = bytes(_REVERSED[byte] for byte in GRAY[:9].tobytes()) if order == 2 else GRAY[:9].tobytes()
        yield File(f"plain bytes in order {order}", _in_strips(9, 9, 1, order, data, 64), "decode", rgb(GRAY[:9]))
    size = patched(patched(deflated, entry[256] + 8, b"\0\0\2\0"), entry[257] + 8, b"\0\0\2\0")
    yield from refused({"of 131072 x 131072": size}, "limit")


_REVERSED = [int(f"{byte:08b}"[::-1], 2) for byte in range(256)]


def _in_strips(height: int, rows: int, compression: int, order: int, data: bytes, width: int = 11585) -> bytes:
    """A gray TIFF whose strips, of so many rows, are all of these bytes."""
    count = -(-height // rows)
    tags = {256: width, 257: height, 258: 8, 259: compression, 262: 1, 266: order, 273: 0, 277: 1, 278: rows, 279: 0}
    after = 8 + 2 + 12 * len(tags) + 4
    content = after + 8 * count * (count > 1)
    entries = b""
    for tag, value in tags.items():
        several = tag in (273, 279)
        value = {273: after if count > 1 else content, 279: after + 4 * count if count > 1 else len(data)}.get(
            tag, value
        )
        entries += struct.pack("<HHII", tag, 4, count if several else 1, value)
    lists = struct.pack("<I", content) * count + struct.pack("<I", len(data)) * count if count > 1 else b""
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + lists + data


def varied_tiff(
    image: np.ndarray, bits: int = 8, order: str = "<", *, big: bool = False, planes: bool = False, tile: int = 0,
    rows: int = 20, tags: dict[int, list[int]] | None = None,
) -> bytes:  # fmt: skip
    """A TIFF of unsigned integers (H, W, C) of 1 to 16 bits: RGB and deflated, if `tags` say nothing else.

    Args:
        image: The values.
        bits: Of a value.
        order: Of the bytes.
        big: Whether it is BigTIFF.
        planes: Whether each channel is stored by itself.
        tile: The width and height of tiles; 0 for strips.
        rows: Of a strip.
        tags: Values that are to be in the directory.
    """
    height, width, channels = image.shape
    found = {256: [width], 257: [height], 258: [bits] * channels, 259: [8], 262: [2], 277: [channels], 278: [rows]}
    found |= {284: [2 if planes else 1], 322: [tile], 323: [tile]} | (tags or {})
    across, down = (tile, tile) if tile else (width, rows)
    step, parts = 1 if planes else channels, []
    for c, y, x in itertools.product(range(0, channels, step), range(0, height, down), range(0, width, across)):
        part = image[y : y + down, x : x + across, c : c + step]
        if tile:
            part = np.pad(part, [(0, down - part.shape[0]), (0, across - part.shape[1]), (0, 0)])
        if found.get(317) == [2] and bits >= 8:
            part = np.diff(part, axis=1, prepend=part.dtype.type(0))
        packed = part.astype(f"{order}u{-(-bits // 8)}").tobytes()
        if bits < 8:
            each = np.unpackbits(part.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits :]
            packed = np.packbits(each.reshape(len(part), -1), axis=1).tobytes()
        parts.append(packed if found[259] == [1] else zlib.compress(packed))
    starts = np.cumsum([16, *map(len, parts)]).tolist()
    found |= dict(zip((324, 325) if tile else (273, 279), (starts[:-1], list(map(len, parts))), strict=True))
    for tag in (278,) if tile else (322, 323):
        del found[tag]
    word, many, within = ("Q", "Q", 8) if big else ("I", "H", 4)
    table, extra = struct.pack(order + many, len(found)), b""
    after = starts[-1] + len(table) + len(found) * (4 + 2 * within) + within
    for tag, values in sorted(found.items()):
        kind = 3 if max(values) < 2**16 and tag not in (273, 279) else 16 if big else 4  # SHORT, LONG8 or LONG
        content = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else word}", *values)
        if len(content) > within:
            extra, content = extra + content, struct.pack(order + word, after + len(extra))
        table += struct.pack(order + "HH" + word, tag, kind, len(values)) + content.ljust(within, b"\0")
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, starts[-1]) if big else struct.pack(order + "I", starts[-1])
    return head.ljust(16, b"\0") + b"".join(parts) + table + bytes(within) + extra


def _varied_tiffs() -> Iterator[File]:
    def good(name: str, data: bytes, pixels: np.ndarray, within: float = 0) -> File:
        return File(name, data, "decode", rgb(pixels), within)

    shades, deep = GRAY[..., None], PHOTO * np.uint16(257)
    for order in "<>":
        yield good(f"BigTIFF {order}", varied_tiff(PHOTO, order=order, big=True), PHOTO)
        yield good(f"BigTIFF {order} of tiles", varied_tiff(PHOTO, order=order, big=True, tile=32), PHOTO)
        yield good(f"planes {order} of 16 bits", varied_tiff(deep, 16, order, planes=True), PHOTO)
    yield good("planes", varied_tiff(PHOTO, planes=True), PHOTO)
    yield good("planes of tiles", varied_tiff(PHOTO, planes=True, tile=16), PHOTO)
    yield good("planes with a predictor", varied_tiff(PHOTO, planes=True, tags={317: [2]}), PHOTO)
    for channels, kind in {2: 1, 5: 2, 6: 2}.items():
        data = varied_tiff(noise((9, 7, channels)), tags={262: [kind], 338: [0] * (channels - 1 - kind // 2 * 2)})
        yield good(f"{channels} channels", data, noise((9, 7, channels))[..., : kind * 2 - 1])
    for bits in (1, 2, 4):
        levels = shades >> (8 - bits)
        stretched = levels * np.uint8(255 // (2**bits - 1))
        yield good(f"{bits} bits", varied_tiff(levels, bits, tags={262: [1]}), stretched)
        yield good(f"{bits} bits where 0 is white", varied_tiff(levels, bits, tags={262: [0]}), 255 - stretched)
        table = noise((3, 2**bits)).astype(int)
        data = varied_tiff(levels, bits, tags={262: [3], 320: (table * 257).ravel().tolist()})
        yield good(f"a palette of {bits} bits", data, table.T[levels[..., 0]].astype(np.uint8))
        data = varied_tiff(levels, bits, tags={262: [3], 320: table.ravel().tolist()})
        yield good(f"a palette of {bits} bits, of bytes", data, table.T[levels[..., 0]].astype(np.uint8))
    for compression, word in {"raw": "", "packbits": "PackBits ", "tiff_lzw": "LZW "}.items():
        line = encoded(Image.fromarray(GRAY > 99), "TIFF", compression=compression)
        yield good(f"{word}1 bit", line, np.uint8(255) * (GRAY > 99))
    yield good("ink", encoded(Image.fromarray(255 - PHOTO).convert("CMYK"), "TIFF"), 255 - PHOTO)
    plain = varied_tiff(PHOTO, tags={259: [1], 317: [2]})
    yield good("a predictor that means nothing", patched(plain, 16, PHOTO.tobytes()), PHOTO)


def entry_of(data: bytes, tag: int) -> int:
    """Where an entry of a directory lies."""
    start = struct.unpack_from("<I", data, 4)[0]
    return next(at for at in range(start + 2, len(data), 12) if struct.unpack_from("<H", data, at)[0] == tag)


def _pnms() -> Iterator[File]:
    base, deep = encoded(PHOTO, "PPM"), by_opencv(noise((9, 5), np.uint16), ".pgm")
    for name, (data, pixels) in lossless().items():
        if data[:1] == b"P" and data[1:2].isdigit():
            yield File(name.removeprefix("PNM "), data, "decode", rgb(pixels), int(pixels.dtype == np.uint16))
    shades = np.array([[0, 17, 255]], np.uint8)
    yield File("15 shades", b"P5 3 1 15\n\0\1\x0f", "decode", rgb(shades))
    yield File("comments", b"P5 # a\n3 # b\n1\n#\n255\n" + shades.tobytes(), "decode", rgb(shades))
    yield from refused(
        {
            **cuts(base, 0.0005, 0.5, 0.99),
            "deep, cut": deep[:-1],
            "a largest value of 0": b"P5 3 1 0\n\0\0\0",
            "one of 65536": b"P5 3 1 65536\n" + bytes(6),
            "a negative width": b"P5 -3 1 255\n\0\0\0",
            "a value beyond the largest": b"P5 3 1 15\n\0\1\x10",
            "text that is cut": b"P2 3 1 255 1 2",
            "words": b"P2 3 1 255 a b c",
            "P7": b"P7\nWIDTH 1\nHEIGHT 1\nENDHDR\n" + bytes(3),
            "floats": b"Pf\n3 2\n-1.0\n" + bytes(24),
            "of no width": b"P6 0 1 255\n" + bytes(9),
            "bits that are no bits": b"P1 3 1 1 2 0",
        }
    )
    yield from refused({"of 10**9 x 10**9": b"P6 1000000000 1000000000 255\n" + bytes(9)}, "limit")


def _jpegs_2000() -> Iterator[File]:
    base = encoded(PHOTO, "JPEG2000", irreversible=False)
    gray = encoded(GRAY, "JPEG2000", irreversible=False)
    bare = base[base.index(b"\xff\x4f\xff\x51") :]
    part = bare.index(b"\xff\x90\0\n")
    for name, data, pixels in (
        ("color", base, PHOTO),
        ("gray", gray, rgb(GRAY)),
        ("a bare codestream", bare, PHOTO),
        ("a long box", _in_long_box(base, bare), PHOTO),
        ("tiles", encoded(PHOTO, "JPEG2000", irreversible=False, tile_size=(16, 20)), PHOTO),
        ("a last part that goes on to the end", patched(bare, part + 6, bytes(4)), PHOTO),
        ("bytes after the end", bare + b"\0\0more", PHOTO),
    ):
        yield File(name, data, "decode", pixels)
    shades, table = noise((9, 13)) % 4, noise((4, 3))
    indexed = encoded(shades, "JPEG2000", irreversible=False)
    columns = struct.pack(">HB", 4, 3) + b"\7\7\7" + table.tobytes()
    mapped = _box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, i) for i in range(3)))
    yield File("a palette", _with_palette(indexed, _box(b"pclr", columns) + mapped), "decode", table[shades])
    channels = _box(b"cdef", struct.pack(">H9H", 3, 0, 0, 1, 1, 0, 2, 2, 0, 3))
    yield File("channels in their order", _with_palette(base, channels), "decode", PHOTO)
    backwards = _with_palette(base, channels.replace(b"\0\0\0\0\0\1", b"\0\2\0\0\0\1", 1))
    head = base.index(b"ihdr") + 4
    size = base.index(b"\xff\x51")
    yield from refused(
        {
            **cuts(base, 0.005, 0.1, 0.5, 0.95),
            "a box of length 5": patched(base, 12, b"\0\0\0\5"),
            "no codestream": base[:40],
            "a bare codestream that is cut": bare[: len(bare) // 2],
            "a bare codestream of 41 bytes": bare[:41],
            "a codestream without its size": bare[:2] + bare[50:],
            "17 bits": patched(base, size + 40, b"\x10" * 1),
            "cut, with an end": bare[: len(bare) // 2] + sj.EOI,
            "a palette of no columns": _with_palette(indexed, _box(b"pclr", b"\0\4\0") + mapped),
            "a palette that nothing is mapped to": _with_palette(indexed, _box(b"pclr", columns)),
            "a palette of colour": _with_palette(base, _box(b"pclr", columns) + mapped),
            "a tile missing": _with_tiles(bare, 32),
            "a tile that there is not": patched(bare, part + 4, b"\0\1"),
            "a part of no bytes": patched(bare, part + 6, b"\0\0\0\x0d"),
            "tiles of no width": _with_tiles(bare, 0),
            "tiles with an offset": patched(bare, 32, b"\0\0\0\1"),
            "an image with an offset": patched(base, size + 12, b"\0\0\0\1"),
            "one channel twice": backwards,
            "channels without end": _with_palette(base, _box(b"cdef", b"\xff\xff\0\0")),
            "a colour that there is not": _with_palette(base, channels.replace(b"\0\3", b"\0\7")),
            "a colour space of Lab": base.replace(b"\1\0\0\0\0\0\x10", b"\1\0\0\0\0\0\x0e"),
            "another size in the container": patched(base, head + 3, b"\x31"),
            "no size in the container": base.replace(b"ihdr", b"ihdX"),
            "no description": base.replace(b"jp2h", b"free"),
            "a palette of colours that are not there": _with_palette(indexed, _box(b"pclr", columns[:-1]) + mapped),
            "an unknown palette": _with_palette(indexed, _box(b"pclr", b"")),
        }
    )
    yield from refused({"of 2**31 x 2**31": patched(base, size + 6, b"\x7f\xff\xff\xff\x7f\xff\xff\xff")}, "limit")


def codestream(
    size: tuple[int, int],
    *parts: tuple[int, int, int, bytes],
    components: int = 1,
    tile: tuple[int, int] | None = None,
    levels: int = 5,
    layers: int = 1,
    block: int = 4,
    precincts: bytes = b"",
    extra: bytes = b"",
) -> bytes:
    """A codestream of JPEG 2000 with these parts of tiles: the tile, which part of how many it is, and its bytes."""
    height, width = size
    down, across = tile or size
    sizes = struct.pack(">H8IH", 0, width, height, 0, 0, across, down, 0, 0, components) + b"\7\1\1" * components
    style = bytes([bool(precincts), 0]) + struct.pack(">H", layers) + bytes([0, levels, block, block, 0, 1]) + precincts
    steps = b"\x40" + b"\x40" * (3 * levels + 1)
    segments = ((0xFF51, sizes), (0xFF52, style), (0xFF5C, steps))
    stream = (
        b"\xff\x4f" + b"".join(struct.pack(">HH", marker, 2 + len(held)) + held for marker, held in segments) + extra
    )
    for number, which, count, data in parts:
        stream += struct.pack(">HHHIBBH", 0xFF90, 10, number, 14 + len(data), which, count, 0xFF93) + data
    return stream + b"\xff\xd9"


def _codestreams() -> Iterator[File]:
    """Codestreams that say much and hold little, and such as are out of the usual."""
    short, gray = b"\xff\x55\0\x0a\0\x60\0\0\0\0\0\x14", np.full((64, 64, 3), 128, np.uint8)  # TLM: a part of 20 bytes
    side, random = 11585, np.random.default_rng(3)
    four = [(0, i, 0, b"\0" if i else b"\0\0\0") for i in range(4)]
    for name, data in {
        "lengths of fewer parts than there are": codestream((64, 64), *four, extra=short),
        "packets without anything": codestream((64, 64), (0, 0, 1, bytes(6))),
        "a part that says it is beyond the last": codestream((64, 64), (0, 0, 1, bytes(5)), (0, 1, 1, b"\0")),
    }.items():
        yield File(name, data, "decode", gray)
    for progression in ("LRCP", "RLCP", "RPCL", "PCRL", "CPRL"):
        parts = {"precinct_size": (32, 64), "tile_size": (40, 30), "codeblock_size": (8, 16), "num_resolutions": 3}
        options = {"progression": progression, "quality_layers": [9, 1], "plt": True, **parts}
        data = encoded(PHOTO, "JPEG2000", irreversible=False, **options)
        yield File(f"{progression}, precincts, layers", data, "decode", PHOTO)
    whole = codestream((64, 64), (0, 0, 1, bytes(6)))
    style = whole[whole.index(b"\xff\x52") :][:14]
    yield from refused(
        {
            "no packets": codestream((side, side), (0, 0, 1, b"")),
            "no packets, of a small image": codestream((64, 64), (0, 0, 1, b"")),
            "fewer packets than there must be": codestream((64, 64), (0, 0, 1, bytes(5))),
            "bytes behind the packets": codestream((64, 64), (0, 0, 1, bytes(7))),
            **{f"{n} random bytes": codestream((side, side), (0, 0, 1, random.bytes(n))) for n in (6, 20, 400, 9000)},
            "noise for an image of 96 x 96": codestream((96, 96), (0, 0, 1, random.bytes(5000))),
            "precincts of 1 x 1": codestream((4096, 4096), (0, 0, 1, b"\0"), levels=0, precincts=b"\0"),
            "precincts of 2 x 2": codestream((4096, 4096), (0, 0, 1, bytes(6)), levels=1, precincts=b"\1\x11"),
            "precincts of 4 x 4, with bytes": codestream(
                (4096, 4096), (0, 0, 1, bytes(1 << 20)), levels=0, precincts=b"\x22"
            ),
            "blocks of 4 x 4": codestream((side, side), (0, 0, 1, bytes(6)), block=0),
            "65535 layers": codestream((512, 512), (0, 0, 1, bytes(6 * 65535)), layers=65535),
            "65535 layers of many blocks": codestream(
                (1600, 1600), (0, 0, 1, b"\x80" * 65535), levels=0, block=0, layers=65535
            ),
            "125000 tiles": codestream((side, side), (0, 0, 1, bytes(6)), tile=(32, 33)),
            "a part that comes too soon": codestream((64, 64), (0, 1, 0, bytes(6))),
            "a part of fewer": codestream((64, 64), *four[:1], (0, 1, 2, bytes(3)), (0, 2, 3, b"")),
            "one part of two": codestream((64, 64), (0, 0, 2, bytes(6))),
            "33 levels": codestream((64, 64), (0, 0, 1, bytes(34)), levels=33),
            "precincts of 1 x 1 where bands are halves": codestream(
                (64, 64), (0, 0, 1, bytes(6)), levels=1, precincts=b"\x11\0"
            ),
            "no layers": codestream((64, 64), (0, 0, 1, bytes(6)), layers=0),
            "no quantisation": whole.replace(b"\xff\x5c", b"\xff\x64"),
            "no coding style": whole.replace(b"\xff\x52", b"\xff\x64"),
            "two coding styles": codestream((64, 64), (0, 0, 1, bytes(6)), extra=style),
            **{
                f"the marker {marker.hex()}": codestream((64, 64), (0, 0, 1, bytes(6)), extra=marker + b"\0\4\0\0")
                for marker in (b"\xff\x50", b"\xff\x5e", b"\xff\x5f", b"\xff\x60", b"\xff\x61", b"\xff\x30")
            },
        }
    )


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def _with_tiles(stream: bytes, side: int) -> bytes:
    """A codestream that says that its tiles are of this width and height."""
    return patched(stream, 24, struct.pack(">II", side, side))


def _with_palette(data: bytes, boxes: bytes) -> bytes:
    """A file with more in its header; its colour space is sRGB."""
    start = data.index(b"jp2h") - 4
    size = struct.unpack_from(">I", data, start)[0]
    head = data[start + 8 : start + size].replace(b"\1\0\0\0\0\0\x11", b"\1\0\0\0\0\0\x10")
    return data[:start] + _box(b"jp2h", head + boxes) + data[start + size :]


def _in_long_box(data: bytes, stream: bytes) -> bytes:
    """The codestream in a box whose length has 8 bytes."""
    before = data[: data.index(b"jp2c") - 4]
    return before + struct.pack(">I4sQ", 1, b"jp2c", 16 + len(stream)) + stream


def _others() -> Iterator[File]:
    jpeg, picture = encoded(PHOTO, "JPEG"), encoded(PHOTO, "PNG")
    yield from refused(
        {
            "nothing": b"",
            "one byte": b"\xff",
            "zeros": bytes(1000),
            "text": b"this is no image",
            "noise": noise((999,)).tobytes(),
            "a page": b"<!DOCTYPE html><html></html>",
            "an SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            "a PDF": b"%PDF-1.4\n",
            "an archive": b"PK\3\4" + bytes(60),
            "a program": b"\x7fELF\2\1\1" + bytes(60),
            "an icon": b"\0\0\1\0\1\0" + bytes(60),
            "HEIC": b"\0\0\0\x18ftypheic" + bytes(60),
            "a sound": b"RIFF\x24\0\0\0WAVEfmt " + bytes(60),
            "PSD": b"8BPS\0\1" + bytes(60),
            "a JPEG that calls itself PNG": SIGNATURE + jpeg[8:],
            "a PNG that calls itself JPEG": b"\xff\xd8\xff" + picture[3:],
            "a PNG that calls itself BMP": b"BM" + picture[2:],
            "a JPEG that calls itself GIF": b"GIF89a" + jpeg,
            "a JPEG that calls itself WebP": b"RIFF" + struct.pack("<I", len(jpeg) + 4) + b"WEBP" + jpeg,
            "a PNG that calls itself TIFF": b"II*\0" + picture[4:],
            "text that begins as PNM does": b"P5 people came",
        }
    )


MAKERS: dict[str, tuple[Callable[[], Iterator[File]], ...]] = {
    "JPEG": (_good_jpegs, _exact_jpegs, _bad_jpegs),
    "PNG": (_good_pngs, _bad_pngs),
    "GIF": (_gifs,),
    "WebP": (_webps,),
    "BMP": (_bmps,),
    "TIFF": (_tiffs, _varied_tiffs),
    "PNM": (_pnms,),
    "JPEG 2000": (_jpegs_2000, _codestreams),
    "none": (_others,),
}


#: Varieties that are valid but not supported here, and faults after which the right pixels can be had all the same.
OWN_CHOICES = {
    "JPEG": ("EXIF orientation of four billion values", "EXIF orientation of text", "a segment of length 0",
             "one of length 1"),
    "PNG": ("no end", "one in a checksum", "one row too many", "much too many rows", "a palette after the pixels",
            "a palette of 4 bytes", "two palettes", "compression 1", "a header that is late", "two headers",
            "pixels in two places", "an unknown chunk that matters"),
    "GIF": ("a frame outside", "of no width", "cut after the first frame"),
    "WebP": ("moving", "two pictures"),
    "BMP": ("two planes", "a strange header", "overlapping masks", "a mask in pieces", "of a negative width"),
    "TIFF": ("floats", "JPEG inside", "four billion values", "colour of 4 bits", "17 channels"),
    "PNM": ("P7", "floats"),
    "JPEG 2000": ("65535 layers", "65535 layers of many blocks", "blocks of 4 x 4", "125000 tiles", "no description",
                  "another size in the container", "no size in the container", "a colour space of Lab",
                  "precincts of 4 x 4, with bytes", "one part of two"),
}  # fmt: skip


@functools.cache
def files() -> dict[str, File]:
    """All files by format and name."""
    found: dict[str, File] = {}
    for format, makers in MAKERS.items():
        for maker in makers:
            for file in maker():
                name = f"{format}: {file.name}"
                assert name not in found, f"two files are called {name}"
                assert (file.pixels is not None) == (file.must in ("decode", "either")), name
                own = file.name in OWN_CHOICES.get(format, ())
                found[name] = dataclasses.replace(file, name=name, format=format, own=own)
    return found


def large(size: int) -> Iterator[File]:
    """Files of about a size that are nothing but parts to walk over, or that say that there are very many of them."""
    n = size
    base, picture = encoded(PHOTO, "JPEG"), encoded(PHOTO, "PNG")
    progressive = encoded(PHOTO, "JPEG", progressive=True)
    scan = progressive[: progressive.index(b"\xff\xda") + 10]

    def directory(*tags: tuple[int, int, int]) -> bytes:
        entries = b"".join(struct.pack("<HHII", tag, 4, count, value) for tag, count, value in tags)
        return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)

    def one_strip(compression: int) -> bytes:
        tags = {256: 1001, 257: 1001, 258: 8, 259: compression, 262: 1, 273: 110, 278: 1001, 279: n}
        return directory(*((tag, 1, value) for tag, value in tags.items()))

    many = ((256, 1, 1), (257, 1, n // 8), (258, 1, 8), (259, 1, 1), (262, 1, 1), (273, n // 8, 200), (278, 1, 1),
            (279, n // 8, 200))  # fmt: skip
    yield from refused(
        {
            "JPEG: segments": sj.SOI + b"\xff\xfe\0\2" * (n // 4),
            "JPEG: segments between scans": progressive[:-2] + b"\xff\xfe\0\2" * (n // 4),
            "JPEG: fill bytes": sj.SOI + b"\xff" * n,
            "JPEG: stuffed bytes": scan + b"\xff\0" * (n // 2),
            "JPEG: restarts": scan + b"\xff\xd0" * (n // 2),
            "JPEG: scans": progressive[:-2] + base[base.index(b"\xff\xda") : -2] * (n // 1000),
            "PNG: chunks": picture[:33] + chunk(b"teXt", b"") * (n // 12),
            "PNG: chunks of no pixels": picture[:33] + chunk(b"IDAT", b"") * (n // 12) + IEND,
            "PNG: a chunk": picture[:33] + chunk(b"teXt", bytes(n)),
            "GIF: extensions": b"GIF89a\3\0\3\0\0\0\0" + b"!\xfe\0" * (n // 3),
            "GIF: blocks": b"GIF89a\3\0\3\0\0\0\0!\xfe" + b"\1a" * (n // 2),
            "WebP: chunks": b"RIFF" + struct.pack("<I", n + 4) + b"WEBP" + b"abcd\0\0\0\0" * (n // 8),
            "JPEG 2000: boxes": b"\0\0\0\x0cjP  \r\n\x87\n" + b"\0\0\0\x08free" * (n // 8),
            "TIFF: tags": directory(*((1000 + i, n // 4, 8) for i in range(4096))) + bytes(n),
            "TIFF: strips": directory(*many) + bytes(90) + struct.pack("<I", 1) * (n // 8 - 90),
            "TIFF: codes that mean nothing": one_strip(5) + b"\x80\x40\x20\x10\x08\x04\x02\x01\x00" * (n // 9 + 10),
            "TIFF: runs that mean nothing": one_strip(32773) + b"\x80" * (n + 20),
            "PNM: white space": b"P5" + b" " * n,
            "PNM: comments": b"P5 " + b"#\n" * (n // 2),
            "PNM: digits": b"P5 " + b"1" * n,
            "PNM: words": b"P2 4000 %d 255 " % (n // 8000) + b"12345678 " * (n // 9),
            "PNM: bits": b"P1 4000 %d " % (n // 8000) + b"1 " * (n // 2 - 9000),
        }
    )
