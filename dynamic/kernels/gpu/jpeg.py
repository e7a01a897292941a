"""JPEG files decoded by nvImageCodec, an optional library: on a GPU, or on the host for a comparison."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy

from dynamic import _cuda, _pool
from dynamic._array import Array
from dynamic._locks import new_lock

__all__ = ["decoded", "library"]

#: Colours of half the resolution are interpolated, as on the CPU.
_OPTIONS = ":fancy_upsampling=1"


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
        threads = _pool.get_num_threads()
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
    stream = 0 if device_id is None else _cuda.cupy().cuda.get_current_stream().ptr
    with one.lock:
        found = one.decoder.decode(streams, params=parameters, cuda_stream=stream)
    xp = numpy if device_id is None else _cuda.cupy()
    return [None if image is None else xp.asarray(image) for image in found]


def _stream(codec: Any, file: Array, window: tuple[int, int, int, int] | None) -> Any:
    whole = codec.CodeStream(file)
    if window is None:
        return whole
    top, left, height, width = window
    return whole.get_sub_code_stream(0, region=codec.Region(top, left, top + height, left + width))
