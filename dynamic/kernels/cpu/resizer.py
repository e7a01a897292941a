"""Images of bytes resized by cykooz-resizer, with a linear filter that is renormalised at the edges."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy

from dynamic._array import Array

__all__ = ["CHANNELS", "resized"]

CHANNELS = {1: "U8", 2: "U8x2", 3: "U8x3", 4: "U8x4"}  #: numbers of channels, and what the library calls them
_KEPT = 1 << 20  # bytes; memory for a result that is not larger is used again


class _Resizer:
    """What cykooz-resizer needs, made once for each thread.

    The library is imported at the first use: where Pillow is installed, it imports that too.
    """

    def __init__(self) -> None:
        import cykooz_resizer as library

        linear = library.ResizeAlg.convolution(library.FilterType.bilinear)
        self._library, self._resizer = library, library.Resizer()  # it keeps its memory, and is locked while it works
        self._options = library.ResizeOptions(linear, use_alpha=False)
        self._kinds = {channels: library.PixelType[name] for channels, name in CHANNELS.items()}
        self._result: tuple[tuple[int, ...], Any] = (), None

    def resized(self, pixels: bytes, shape: tuple[int, ...], box: tuple[float, ...], size: tuple[int, ...]) -> Array:
        """As the function below."""
        kind, made = self._kinds[shape[2]], (*size, shape[2])
        result = self._result[1] if self._result[0] == made else self._library.ImageData(size[1], size[0], kind)
        if math.prod(made) <= _KEPT:
            self._result = made, result  # results are often of one size
        self._options.crop_box = self._library.CropBox(*box)
        self._resizer.resize(self._library.ImageData(shape[1], shape[0], kind, pixels), result, self._options)
        return numpy.frombuffer(result.get_buffer(), numpy.uint8).reshape(made)


_threads = threading.local()


def resized(pixels: bytes, shape: tuple[int, ...], box: tuple[float, ...], size: tuple[int, ...]) -> Array:
    """A part of an image.

    Args:
        pixels: The image, uint8.
        shape: Its shape (H, W, C).
        box: Left, upper edge, width and height of the part.
        size: Height and width of the result.

    Returns:
        The part, uint8 of shape (height, width, C), which is read-only.
    """
    try:
        found: _Resizer = _threads.resizer
    except AttributeError:
        found = _threads.resizer = _Resizer()
    return found.resized(pixels, shape, box, size)
