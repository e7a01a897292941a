"""JPEG: files decoded by nvImageCodec, an optional library, on a GPU or on the host; and images that look like some."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays import cuda
from dynamic._arrays.array import Array
from dynamic._base import pool
from dynamic._base.locks import new_lock

from ._images import Images, tiles_of
from ._launch import launch, table

__all__ = ["compressed", "decoded", "library"]

#: Colours of half the resolution are interpolated, as on the CPU.
_OPTIONS = ":fancy_upsampling=1"

_BLOCKS = 32  # of 8x8 pixels
_HIGH, _WIDE = 32, 64  # pixels of as many
_COMPRESSED = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("colours", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("rows", "u4"),
        ("columns", "u4"),
        ("down", "u4"),
        ("across", "u4"),
        ("beside", "u4"),
        ("percent", "u4"),
    ]
)
#: The steps of quantisation that the standard suggests for quality 50, of brightness and of colours.
_STEPS = numpy.array([
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51,
    87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99,
    99, 99, 99, *[99] * 32,
], numpy.uint16)  # fmt: skip


def library() -> ModuleType | None:
    """The module of nvImageCodec, or None where it is not installed."""
    try:
        return importlib.import_module("nvidia.nvimgcodec")
    except ImportError:
        return None


class _Codec:
    """The decoder of a device, which one thread uses at a time."""

    def __init__(self, codec: Any, device_id: int | None) -> None:
        self.lock = new_lock()
        threads = pool.get_num_threads()
        if device_id is None:
            host = {"device_id": codec.NVIMGCODEC_DEVICE_CPU_ONLY, "backends": [codec.Backend(codec.CPU_ONLY)]}
            self.decoder = codec.Decoder(max_num_cpu_threads=threads, options=_OPTIONS, **host)
        else:
            self.decoder = codec.Decoder(device_id=device_id, max_num_cpu_threads=threads, options=_OPTIONS)


@functools.lru_cache(16)
def _codec(codec: ModuleType, device_id: int | None) -> _Codec:
    """The decoder of a device; to make one takes a second."""
    return _Codec(codec, device_id)


def decoded(
    codec: ModuleType,
    files: Sequence[Array],
    windows: Sequence[tuple[int, int, int, int] | None],
    *,
    gray: bool,
    device_id: int | None,
) -> list[Array | None]:
    """The pixels of JPEG files, uint8 of shape (height, width, 3 or 1), as they are stored, on the current stream.

    Args:
        codec: The module of nvImageCodec.
        files: Their bytes, each one-dimensional and contiguous.
        windows: Which part of each image: its first row and column, height and width; None for all of it.
        gray: Whether to give the luma alone, and not red, green and blue.
        device_id: On which GPU; None for the host.

    Returns:
        For each file an array, or None where it is refused: then nvImageCodec has printed why.
    """
    streams = [_stream(codec, file, window) for file, window in zip(files, windows, strict=True)]
    kind = (codec.ColorSpec.GRAY, codec.SampleFormat.I_Y) if gray else (codec.ColorSpec.SRGB, codec.SampleFormat.I_RGB)
    parameters = codec.DecodeParams(apply_exif_orientation=False, color_spec=kind[0], sample_format=kind[1])
    one = _codec(codec, device_id)
    stream = 0 if device_id is None else cuda.cupy().cuda.get_current_stream().ptr
    with one.lock:
        found = one.decoder.decode(streams, params=parameters, cuda_stream=stream)
    xp = numpy if device_id is None else cuda.cupy()
    return [None if image is None else xp.asarray(image) for image in found]


def _stream(codec: Any, file: Array, window: tuple[int, int, int, int] | None) -> Any:
    whole = codec.CodeStream(file)
    if window is None:
        return whole
    top, left, height, width = window
    return whole.get_sub_code_stream(0, region=codec.Region(top, left, top + height, left + width))


def compressed(source: Images, target: Images, qualities: NDArray[Any]) -> None:
    """Fill each target with an image after JPEG compression, as `kernels.cpu.compression.compressed` does.

    Args:
        source: Images of uint8 with one channel, or three: red, green and blue.
        target: Of the same shapes.
        qualities: Of each image, 1 to 100.
    """
    tiles, beside = tiles_of(source.shapes, _HIGH, _WIDE)
    blocks = -(-source.shapes[:, :2] // 16)  # of the colours, whose resolution is half
    percent = numpy.where(qualities < 50, 5000 // qualities, 200 - 2 * qualities)
    rows = table(
        _COMPRESSED,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        rows=source.shapes[:, 0],
        columns=source.shapes[:, 1],
        down=blocks[:, 0],
        across=blocks[:, 1],
        beside=beside,
        percent=percent,
    )
    rows["from"] = source.strides
    grey, coloured = (numpy.flatnonzero((source.shapes[:, 2] == channels) & (tiles > 0)) for channels in (1, 3))
    launch("jpeg", "jpeg_1", tiles[grey], [rows[grey], _STEPS])
    if len(coloured):
        rows, planes = rows[coloured], 2 * blocks[coloured].prod(axis=1)
        memory = cuda.cupy().empty(64 * int(planes.sum()), numpy.uint8)
        rows["colours"] = memory.data.ptr + 64 * (numpy.cumsum(planes) - planes).astype(numpy.uint64)
        launch("jpeg", "jpeg_colours", -(-planes // _BLOCKS), [rows, _STEPS])
        launch("jpeg", "jpeg_3", tiles[coloured], [rows, _STEPS])
