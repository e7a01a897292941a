"""Image files made here: good ones of every format with their pixels, and bad ones. The same bytes every time."""

from __future__ import annotations

import functools
import io
import struct
import zlib

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


@functools.cache
def lossless() -> dict[str, tuple[bytes, np.ndarray]]:
    """Files with the channels that are in them: (H, W, C), uint8 or uint16."""
    color, alpha = photo(), noise((21, 33, 4))
    gray = color[..., 0].copy()
    quantized = Image.fromarray(color).quantize(256)
    looked_up = np.asarray(quantized.convert("RGB"))
    deep, deep_color = noise((20, 30), np.uint16), noise((20, 30, 3), np.uint16)
    files: dict[str, tuple[bytes, np.ndarray]] = {}
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
