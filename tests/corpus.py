"""Image files made here: good ones of every format with their pixels, and bad ones. The same bytes every time."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import cv2
import numpy as np
from PIL import Image

_ORIENTATION = 0x0112


@functools.cache
def photo(height: int = 21, width: int = 33) -> np.ndarray:
    """Something smooth in colour, as a photo is."""
    coarse = np.random.default_rng(7).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image.flags.writeable = False
    return image


def noise(shape: tuple[int, ...], dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(8).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def encoded(image: np.ndarray | Image.Image, format: str, orientation: int = 1, **options: object) -> bytes:
    """A file made by Pillow."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    if orientation != 1:
        exif = Image.Exif()
        exif[_ORIENTATION] = orientation
        options["exif"] = exif
    memory = io.BytesIO()
    picture.save(memory, format, **options)
    return memory.getvalue()


def by_opencv(image: np.ndarray, extension: str) -> bytes:
    return cv2.imencode(extension, image)[1].tobytes()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(image: np.ndarray, depth: int, kind: int, *, interlace: bool = False, palette: bytes | None = None) -> bytes:
    """A PNG of raw samples (H, W, samples), which Pillow cannot write in all its varieties."""
    height, width = image.shape[:2]

    def packed(part: np.ndarray) -> bytes:
        if depth == 16:
            rows = part.astype(">u2").reshape(part.shape[0], -1).view(np.uint8)
        elif depth == 8:
            rows = part.astype(np.uint8).reshape(part.shape[0], -1)
        else:
            bits = (part.reshape(part.shape[0], -1, 1) >> np.arange(depth)[::-1]) & 1
            rows = np.packbits(bits.reshape(part.shape[0], -1).astype(np.uint8), axis=1)
        return b"".join(b"\0" + row.tobytes() for row in rows)

    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    parts = [image[y::dy, x::dx] for y, x, dy, dx in passes] if interlace else [image]
    raw = b"".join(packed(part) for part in parts if part.size)
    first = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    plte = chunk(b"PLTE", palette) if palette else b""
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", first) + plte + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


#: The integers of TIFF, by the number of the type: BYTE, SHORT, LONG, the signed ones, IFD, and those of 8 bytes.
INTEGERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}


Entry: TypeAlias = tuple[int, int, int, Sequence[int]]  # tag, type, count and values


def directory(entries: Sequence[Entry], order: str = "<", *, big: bool = False, content: bytes = b"") -> bytes:
    """A TIFF, or an EXIF block, which is one.

    A count of 0 may have a value beside it all the same, as files have it. `content` begins at byte 16.
    """
    word, within = ("Q", 8) if big else ("I", 4)
    start = 16 + len(content)
    after = start + struct.calcsize(order + ("Q" if big else "H")) + len(entries) * (4 + 2 * within) + within
    table, far = struct.pack(order + ("Q" if big else "H"), len(entries)), b""
    for tag, kind, count, values in entries:
        packed = struct.pack(f"{order}{len(values)}{INTEGERS[kind]}", *values)
        if len(packed) > within:
            far, packed = far + packed, struct.pack(order + word, after + len(far))
        table += struct.pack(f"{order}HH{word}", tag, kind, count) + packed.ljust(within, b"\0")
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, start) if big else struct.pack(order + "I", start)
    return head.ljust(16, b"\0") + content + table + bytes(within) + far


def raw_tiff(image: np.ndarray, *entries: Entry, order: str = "<", big: bool = False) -> bytes:
    """A TIFF of bytes (H, W, 3) as they are, with more entries."""
    height, width, _ = image.shape
    found = {256: [width], 257: [height], 258: [8] * 3, 259: [1], 262: [2], 273: [16], 277: [3], 278: [height]}
    found |= {279: [image.size]}
    own = [(tag, 4, len(values), values) for tag, values in found.items()]
    return directory(sorted([*own, *entries], key=lambda entry: entry[0]), order, big=big, content=image.tobytes())


def with_exif(data: bytes, *blocks: bytes) -> bytes:
    """A JPEG, PNG or WebP with EXIF blocks."""
    if data.startswith(b"\xff\xd8"):
        parts = [b"\xff\xe1" + struct.pack(">H", 8 + len(block)) + b"Exif\0\0" + block for block in blocks]
        return data[:2] + b"".join(parts) + data[2:]
    if data.startswith(b"\x89PNG"):
        return data[:33] + b"".join(chunk(b"eXIf", block) for block in blocks) + data[33:]
    height, width = np.asarray(Image.open(io.BytesIO(data))).shape[:2]
    canvas = struct.pack("<II", 0x08, width - 1)[:7] + struct.pack("<I", height - 1)[:3]
    parts = [(b"VP8X", canvas), *((b"EXIF", block) for block in blocks)]
    first, *others = (name + struct.pack("<I", len(part)) + part + bytes(len(part) % 2) for name, part in parts)
    body = b"WEBP" + first + data[12:] + b"".join(others)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def bmp(
    pixels: bytes,
    width: int,
    height: int,
    bits: int,
    *,
    masks: tuple[int, ...] = (),
    palette: bytes = b"",
    size: int = 40,
    compression: int | None = None,
    planes: int = 1,
) -> bytes:
    """A BMP of raw rows, with masks or a palette; a `size` of 12 is the header of OS/2."""
    kind = (3 if masks else 0) if compression is None else compression
    if size == 12:
        header = struct.pack("<IHHHH", 12, width, height, planes, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", size, width, height, planes, bits, kind, len(pixels), 0, 0, 0, 0)
    tables = struct.pack(f"<{len(masks)}I", *masks)
    if size > 40:  # the masks are part of the header then
        header, tables = header + tables + bytes(size - 40 - len(tables)), b""
    start = 14 + len(header) + len(tables) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + tables + palette + pixels


def _bmp_files() -> dict[str, tuple[bytes, np.ndarray]]:
    shades = np.array([[0, 1, 2], [3, 2, 1]])
    table = noise((4, 3))
    rows = {8: b"".join(bytes([*row, 0]) for row in shades[::-1].tolist())}
    rows[4] = bytes([0x32, 0x10, 0, 0, 0x01, 0x20, 0, 0])
    blue_first = b"".join(bytes([b, g, r, 0]) for r, g, b in table.tolist())
    files = {
        f"BMP palette of {bits} bits": (bmp(rows[bits], 3, 2, bits, palette=blue_first), table[shades])
        for bits in (4, 8)
    }
    files["BMP of OS/2"] = bmp(rows[8], 3, 2, 8, palette=bytes(table[:, ::-1].tobytes()), size=12), table[shades]
    ink = bytes([255, 255, 255, 0, 0, 0, 0, 0])
    files["BMP of 1 bit"] = bmp(b"\xa0\0\0\0", 3, 1, 1, palette=ink), np.array([[[0], [255], [0]]], np.uint8)
    words = np.array([[0x7FFF, 0x7C00], [0x03E0, 0x001F]], "<u2")
    primaries = np.array([[[255] * 3, [255, 0, 0]], [[0, 255, 0], [0, 0, 255]]], np.uint8)
    files["BMP 5-5-5"] = bmp(words[::-1].tobytes(), 2, 2, 16), primaries
    files["BMP 5-5-5 downwards"] = bmp(words.tobytes(), 2, -2, 16), primaries
    half = np.array([[16 << 11 | 32 << 5 | 16, 0]], "<u2")  # 16 of 31, 32 of 63, 16 of 31
    middle = np.array([[[132, 130, 132], [0, 0, 0]]], np.uint8)
    files["BMP 5-6-5"] = bmp(half.tobytes(), 2, 1, 16, masks=(0xF800, 0x7E0, 0x1F)), middle
    alpha = np.array([[0x80112233, 0xFF445566]], "<u4")
    with_alpha = np.array([[[0x11, 0x22, 0x33, 0x80], [0x44, 0x55, 0x66, 0xFF]]], np.uint8)
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    files["BMP with alpha"] = bmp(alpha.tobytes(), 2, 1, 32, masks=masks, size=108), with_alpha
    files["BMP with masks after the header"] = bmp(alpha.tobytes(), 2, 1, 32, masks=masks[:3]), with_alpha[..., :3]
    files["BMP of 32 bits"] = bmp(alpha.tobytes(), 2, 1, 32), with_alpha[..., :3]
    return files


def tiff(
    image: np.ndarray, order: str = "<", *, predictor: bool = False, tile: int = 0, invert: bool = False,
    turned: bool = False, multiplied: bool = False,
) -> bytes:  # fmt: skip
    """A TIFF (H, W, C) of 8 or 16 bits, deflated, in strips of 4 rows or in square tiles.

    With `turned` the lowest bit of a byte is its first; with `multiplied` the colours are said to be by their alpha.
    """
    height, width, samples = image.shape
    kind = np.dtype(image.dtype).newbyteorder(order)
    across, down = (tile, tile) if tile else (width, 4)
    parts = []
    for y in range(0, height, down):
        for x in range(0, width, across):
            part = image[y : y + down, x : x + across]
            if tile:
                part = np.pad(part, [(0, down - part.shape[0]), (0, across - part.shape[1]), (0, 0)])
            if predictor:
                part = np.concatenate([part[:, :1], part[:, 1:] - part[:, :-1]], axis=1)
            strip = np.frombuffer(zlib.compress(part.astype(kind).tobytes()), np.uint8)
            parts.append(np.packbits(np.unpackbits(strip, bitorder="little" if turned else "big")).tobytes())
    starts = np.cumsum([8, *map(len, parts)]).tolist()
    sizes = [len(part) for part in parts]
    entries = {256: [width], 257: [height], 258: [8 * image.itemsize] * samples, 259: [8], 277: [samples]}
    entries |= {262: [2 if samples > 2 else 0 if invert else 1], 317: [2 if predictor else 1]}
    entries |= {266: [2]} if turned else {}
    entries |= {338: [1]} if multiplied else {}
    entries |= (
        {322: [tile], 323: [tile], 324: starts[:-1], 325: sizes} if tile else {273: starts[:-1], 278: [4], 279: sizes}
    )
    table, extra = struct.pack(order + "H", len(entries)), b""
    after = starts[-1] + 2 + 12 * len(entries) + 4
    for tag, values in sorted(entries.items()):
        kind = 3 if tag in (258, 259, 262, 266, 277, 317, 338) else 4  # SHORT, or LONG
        packed = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(packed) > 4:
            extra, packed = extra + packed, struct.pack(order + "I", after + len(extra))
        table += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "I", starts[-1]) + b"".join(parts) + table + bytes(4) + extra


def _tiff_files() -> dict[str, tuple[bytes, np.ndarray]]:
    files = {}
    for order in "<>":
        for shape, dtype in (
            ((21, 33, 3), np.uint8),
            ((10, 17, 4), np.uint8),
            ((9, 5, 1), np.uint16),
            ((9, 5, 3), np.uint16),
        ):
            image = noise(shape, dtype)
            for options in ({}, {"predictor": True}, {"tile": 16}, {"tile": 16, "predictor": True}):
                name = f"TIFF {order} {shape} {np.dtype(dtype)} {' '.join(options)}"
                files[name] = tiff(image, order, **options), image
    white = noise((5, 6, 1))
    files["TIFF where 0 is white"] = tiff(white, invert=True), 255 - white
    files["TIFF of turned bytes"] = tiff(white, turned=True), white
    for kind in (np.uint8, np.uint16):
        most, light = np.iinfo(kind).max, noise((5, 6, 4), kind)
        light[..., 3] |= 1
        dark = light.astype(np.int64)
        dark[..., :3] = (dark[..., :3] * dark[..., 3:] + most // 2) // most
        back = dark.copy()
        back[..., :3] = np.minimum(most, (dark[..., :3] * most + dark[..., 3:] // 2) // dark[..., 3:])
        name = f"TIFF of colours times alpha, {np.dtype(kind)}"
        files[name] = tiff(dark.astype(kind), multiplied=True), back.astype(kind)
    return files


@functools.cache
def small_files() -> dict[str, bytes]:
    """A few good files, in colour and gray."""
    color, gray = photo(5, 7), photo(5, 7)[..., 0].copy()
    return {
        "JPEG": encoded(color, "JPEG"),
        "JPEG gray": encoded(gray, "JPEG"),
        "JPEG turned": encoded(color, "JPEG", 6),
        "PNG": encoded(color, "PNG"),
        "PNG gray": encoded(gray, "PNG"),
        "PNG alpha": encoded(noise((4, 3, 4)), "PNG"),
        "PPM": encoded(color, "PPM"),
        "BMP": encoded(color, "BMP"),
        "WebP": encoded(color, "WEBP", lossless=True),
        "TIFF": encoded(color, "TIFF"),
        "GIF": encoded(Image.fromarray(color).quantize(16), "GIF"),
        "JPEG 2000": encoded(photo(32, 32), "JPEG2000", irreversible=False),
    }


def sound(count: int = 40, channels: int = 2, seed: int = 0) -> np.ndarray:
    """Two tones and some noise, (count, channels) of float64 in [-1, 1]."""
    generator, time = np.random.default_rng(seed), np.arange(count)[:, None]
    tones = 0.5 * np.sin(time / (5 + np.arange(channels))) + 0.3 * np.sin(time / 17)
    return np.clip(tones + generator.normal(0, 0.02, (count, channels)), -1, 1)


def recorded(values: np.ndarray, kind: str = "WAV", subtype: str | None = None, rate: int = 8000) -> bytes:
    """A sound file."""
    import soundfile  # which not all have that read images

    file = io.BytesIO()
    soundfile.write(file, values, rate, format=kind, subtype=subtype)
    return file.getvalue()


#: Formats and codes of sound files.
SOUNDS = [
    *(
        ("WAV", code)
        for code in ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM"]
    ),
    *(("WAVEX", code) for code in ("PCM_16", "PCM_24")),
    *(("FLAC", code) for code in ("PCM_16", "PCM_24")),
    *(("OGG", code) for code in ("VORBIS", "OPUS")),
    *(("AIFF", "PCM_16"), ("MP3", "MPEG_LAYER_III")),
]


@functools.cache
def small_sounds() -> dict[str, bytes]:
    """A good file of each kind, of one channel and of two."""
    return {f"{kind} {code} {channels}": recorded(sound(30 + 9 * channels, channels, i), kind, code)
            for i, (kind, code) in enumerate(SOUNDS) for channels in (1, 2)}  # fmt: skip


@functools.cache
def lossless() -> dict[str, tuple[bytes, np.ndarray]]:
    """Files with the channels that are in them: (H, W, C), uint8 or uint16."""
    color, alpha = photo(), noise((21, 33, 4))
    gray = color[..., 0].copy()
    quantized = Image.fromarray(color).quantize(256)
    looked_up = np.asarray(quantized.convert("RGB"))
    deep, deep_color = noise((20, 30), np.uint16), noise((20, 30, 3), np.uint16)
    files = {**_bmp_files(), **_tiff_files()}
    for name, format, options in (
        ("PNG", "PNG", {}), ("BMP", "BMP", {}), ("PNM", "PPM", {}), ("TIFF", "TIFF", {}),
        ("TIFF LZW", "TIFF", {"compression": "tiff_lzw"}),
        ("TIFF deflate", "TIFF", {"compression": "tiff_adobe_deflate"}),
        ("TIFF packbits", "TIFF", {"compression": "packbits"}), ("WebP", "WEBP", {"lossless": True, "exact": True}),
        ("JPEG 2000", "JPEG2000", {"irreversible": False}),
    ):  # fmt: skip
        files[f"{name} color"] = encoded(color, format, **options), color
        if format != "WEBP":
            files[f"{name} gray"] = encoded(gray, format, **options), gray[..., None]
        if format not in ("PPM", "BMP"):
            files[f"{name} alpha"] = encoded(alpha, format, **options), alpha
    for format in ("PNG", "BMP", "TIFF", "GIF"):
        files[f"{format} palette"] = encoded(quantized, format), looked_up
    for extension in (".png", ".tiff", ".pgm"):
        files[f"16 bit gray {extension}"] = by_opencv(deep, extension), deep[..., None]
    for extension in (".png", ".tiff", ".ppm"):
        files[f"16 bit color {extension}"] = by_opencv(deep_color[..., ::-1], extension), deep_color
    for depth in (1, 2, 4, 8):
        shades = noise((5, 13, 1)).astype(int) % (1 << depth)
        full = (shades * (255 // ((1 << depth) - 1))).astype(np.uint8)
        palette = noise((1 << depth, 3))
        for interlace in (False, True):
            word = f"{depth} bit{' interlaced' if interlace else ''}"
            files[f"PNG gray {word}"] = png(shades, depth, 0, interlace=interlace), full
            indexed = png(shades, depth, 3, interlace=interlace, palette=palette.tobytes())
            files[f"PNG palette {word}"] = indexed, palette[shades[..., 0]]
    for samples, kind in ((2, 4), (3, 2), (4, 6)):
        for depth, dtype in ((8, np.uint8), (16, np.uint16)):
            image = noise((6, 9, samples), dtype)
            expected = image
            for interlace in (False, True):
                files[f"PNG type {kind}, {depth} bit, {interlace}"] = (
                    png(image, depth, kind, interlace=interlace),
                    expected,
                )
    files["PBM text"] = (
        b"P1 3 2 # ink is 1\n1 0 1\n0 1 0\n",
        np.array([[0, 255, 0], [255, 0, 255]], np.uint8)[..., None],
    )
    files["PBM"] = b"P4 3 2\n\xa0\x40", np.array([[0, 255, 0], [255, 0, 255]], np.uint8)[..., None]
    files["PGM text"] = b"P2\n3 1\n255\n0 7 255\n", np.array([[0, 7, 255]], np.uint8)[..., None]
    files["PPM text"] = b"P3 1 1 255 1 2 3\n", np.array([[[1, 2, 3]]], np.uint8)
    return files


def jpeg_with_size(height: int, width: int) -> bytes:
    """A small JPEG whose frame says that it is of another size."""
    data = bytearray(encoded(photo(), "JPEG"))
    place = data.index(b"\xff\xc0")
    data[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(data)


@functools.cache
def bad() -> dict[str, tuple[bytes, str]]:
    """Files that are refused, with the class of the error."""
    jpeg, gray16 = encoded(photo(), "JPEG"), by_opencv(noise((20, 30), np.uint16), ".png")
    start = jpeg.index(b"\xff\xda")
    scan, frame = jpeg[start:-2], jpeg[jpeg.index(b"\xff\xc0") : start]
    progressive = encoded(photo(), "JPEG", progressive=True)
    last = progressive.rindex(b"\xff\xda")
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 1, 0, 0, 0, 0))
    signature, end = b"\x89PNG\r\n\x1a\n", chunk(b"IEND", b"")
    small = chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 3, 8, 0, 0, 0, 0))
    return {
        "nothing": (b"", "TruncatedImage"),
        "text": (b"this is no image", "UnsupportedImage"),
        "a PDF": (b"%PDF-1.4\n" + bytes(100), "UnsupportedImage"),
        "JPEG taller than its data": (jpeg_with_size(4000, 33), "TruncatedImage"),
        "JPEG of 65500 x 65500": (jpeg_with_size(65500, 65500), "ImageTooLarge"),
        "JPEG without an end": (jpeg[:-2], "TruncatedImage"),
        "JPEG whose scan ends early": (jpeg[:-30] + b"\xff\xd9", "TruncatedImage"),
        "JPEG with bytes behind its scan": (jpeg[:-2] + bytes(20) + jpeg[-2:], "CorruptImage"),
        "JPEG without a scan": (jpeg[:start] + b"\xff\xd9", "CorruptImage"),
        "JPEG with arithmetic coding": (jpeg.replace(b"\xff\xc0", b"\xff\xc9", 1), "UnsupportedImage"),
        "JPEG without loss": (jpeg.replace(b"\xff\xc0", b"\xff\xc3", 1), "UnsupportedImage"),
        "JPEG with a marker in the scan": (jpeg[: start + 60] + b"\xff\xc4" + jpeg[start + 62 :], "DecodeError"),
        "JPEG of many scans": (progressive[:-2] + progressive[last:-2] * 200 + b"\xff\xd9", "ImageTooLarge"),
        "JPEG with two frames": (jpeg[:start] + frame + scan + b"\xff\xd9", "CorruptImage"),
        "PNG of 100000 x 100000": (signature + header + chunk(b"IDAT", zlib.compress(b"")) + end, "ImageTooLarge"),
        "PNG with too few rows": (signature + small + chunk(b"IDAT", zlib.compress(bytes(8))) + end, "DecodeError"),
        "PNG with too many": (signature + small + chunk(b"IDAT", zlib.compress(bytes(80))) + end, "DecodeError"),
        "PNG without a palette": (png(noise((3, 3, 1)) % 4, 2, 3), "CorruptImage"),
        "PNG with a palette too short": (png(np.full((3, 3, 1), 3), 2, 3, palette=bytes(6)), "CorruptImage"),
        "PNG with a wrong checksum": (gray16[:40] + bytes([gray16[40] ^ 1]) + gray16[41:], "CorruptImage"),
        "PNG with a chunk of 4 GB": (signature + b"\xff\xff\xff\xffIDAT" + bytes(50), "DecodeError"),
        "BMP with run lengths": (
            b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 4, 4, 1, 8, 1, 20, 0, 0, 0, 0) + bytes(50),
            "UnsupportedImage",
        ),
        "BMP with JPEG inside": (bmp(bytes(8), 2, 1, 0, compression=4), "UnsupportedImage"),
        "BMP of 7 bits": (bmp(bytes(8), 2, 1, 7), "CorruptImage"),
        "BMP of two planes": (bmp(bytes(8), 2, 1, 24, planes=2), "CorruptImage"),
        "BMP with a strange header": (bmp(bytes(80), 2, 1, 24, size=80), "UnsupportedImage"),
        "BMP with overlapping masks": (bmp(bytes(8), 2, 1, 32, masks=(0xFF, 0xFF, 0xFF00)), "CorruptImage"),
        "BMP with a mask in pieces": (bmp(bytes(8), 2, 1, 32, masks=(0xFF0000, 0xA000, 0xFF)), "CorruptImage"),
        "BMP without a palette": (bmp(bytes(8), 2, 1, 8), "CorruptImage"),
        "BMP with an index beyond the palette": (bmp(b"\5\0\0\0", 1, 1, 8, palette=bytes(8)), "CorruptImage"),
        "TIFF of floats": (encoded(np.zeros((3, 3), np.float32), "TIFF"), "UnsupportedImage"),
        "TIFF with JPEG inside": (encoded(Image.new("RGB", (9, 9)), "TIFF", compression="jpeg"), "UnsupportedImage"),
        "GIF with a frame outside": (
            b"GIF89a" + struct.pack("<HHBBB", 3, 3, 0, 0, 0) + b"," + struct.pack("<HHHHB", 2, 2, 3, 3, 0) + bytes(9),
            "CorruptImage",
        ),
        "WebP that moves": (
            encoded(photo(), "WEBP", save_all=True, append_images=[Image.fromarray(255 - photo())]),
            "UnsupportedImage",
        ),
        "WebP of 16383 x 16383": (
            b"RIFF\x16\0\0\0WEBPVP8L\x0a\0\0\0\x2f" + struct.pack("<I", 0xFFFFFFF) + bytes(5),
            "ImageTooLarge",
        ),
        "PNM of 10**9 x 10**9": (b"P6 1000000000 1000000000 255\n" + bytes(9), "ImageTooLarge"),
        "PFM": (b"Pf\n3 2\n-1.0\n" + bytes(24), "UnsupportedImage"),
        "P7": (b"P7\nWIDTH 1\nHEIGHT 1\nENDHDR\n" + bytes(3), "UnsupportedImage"),
        "TIFF with an endless directory": (b"II*\0\x08\0\0\0\xff\xff" + bytes(50), "TruncatedImage"),
        "TIFF of a strip beyond the end": (encoded(photo(), "TIFF")[:-200], "DecodeError"),
        "GIF without a frame": (b"GIF89a" + struct.pack("<HHBBB", 3, 3, 0, 0, 0) + b";", "CorruptImage"),
        "JPEG 2000 without a codestream": (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(8), "DecodeError"),
    }  # fmt: skip
