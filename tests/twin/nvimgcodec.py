"""A stand-in for nvImageCodec: as much of it as the library uses, with libjpeg-turbo instead of a GPU.

It refuses what the real one refuses in the same way: with None in the place of the image and a line on stderr. As on a
GPU, colours come out a little other than those of libjpeg: every value is 1 higher where it can be.
"""

from __future__ import annotations

import enum
import sys
from typing import Any

import cupy
import numpy
import simplejpeg

NVIMGCODEC_DEVICE_CPU_ONLY = -99999


class BackendKind(enum.Enum):
    """Where to decode."""

    CPU_ONLY = 0
    GPU_ONLY = 1
    HYBRID_CPU_GPU = 2
    HW_GPU_ONLY = 3


CPU_ONLY = BackendKind.CPU_ONLY


class ColorSpec(enum.Enum):
    """What the channels mean."""

    SRGB = 1
    GRAY = 2


class SampleFormat(enum.Enum):
    """How channels lie in memory."""

    I_RGB = 3
    I_Y = 5


class Backend:
    """A way to decode."""

    def __init__(self, backend_kind: BackendKind, load_hint: float = 1.0) -> None:
        self.backend_kind = backend_kind


class Region:
    """A part of an image."""

    def __init__(self, start_y: int, start_x: int, end_y: int, end_x: int) -> None:
        self.rows, self.columns = slice(start_y, end_y), slice(start_x, end_x)


class CodeStream:
    """An encoded image; nothing is looked at before it is decoded."""

    def __init__(self, array: Any, region: Region | None = None) -> None:
        self.array, self.region = array, region

    def get_sub_code_stream(self, image_idx: int = 0, region: Region | None = None) -> CodeStream:
        """A part of it."""
        return CodeStream(self.array, region)


class DecodeParams:
    """How to decode."""

    def __init__(
        self, apply_exif_orientation: bool = True, color_spec: ColorSpec = ColorSpec.SRGB,
        allow_any_depth: bool = False, sample_format: SampleFormat = SampleFormat.I_RGB,
    ) -> None:  # fmt: skip
        self.apply_exif_orientation, self.color_spec, self.sample_format = (
            apply_exif_orientation,
            color_spec,
            sample_format,
        )


class Image:
    """Pixels in the memory of a GPU."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__


class Decoder:
    """What decodes on a device."""

    #: What the decoders were asked for: how many images at a time.
    calls: list[int] = []

    def __init__(
        self, device_id: int = -1, max_num_cpu_threads: int = 0, backends: Any = None, options: str = ""
    ) -> None:
        self.device_id, self.options = device_id, options

    def decode(self, srcs: list[CodeStream], *, params: DecodeParams, cuda_stream: int = 0) -> list[Image | None]:
        """The images, ready on a stream."""
        assert cuda_stream == cupy.cuda.get_current_stream().ptr
        assert not params.apply_exif_orientation
        self.calls.append(len(srcs))
        return [self._decoded(i, stream, params) for i, stream in enumerate(srcs)]

    def _decoded(self, i: int, stream: CodeStream, params: DecodeParams) -> Image | None:
        space = "GRAY" if params.color_spec is ColorSpec.GRAY else "RGB"
        try:
            pixels = simplejpeg.decode_jpeg(stream.array.tobytes(), space)
        except ValueError as error:
            print(f"Something went wrong during decoding image #{i}: {error}", file=sys.stderr)
            return None
        if stream.region is not None:
            pixels = pixels[stream.region.rows, stream.region.columns]
        other = numpy.minimum(pixels, 254) + numpy.uint8(1)
        with cupy.cuda.Device(self.device_id):
            return Image(cupy.asarray(other))
