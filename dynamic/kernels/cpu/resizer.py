"""Images resized by cykooz-resizer, with filters that are renormalised at the edges."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._array import Array

__all__ = ["CHANNELS", "FILTERS", "resized"]

CHANNELS = {1: "", 2: "x2", 3: "x3", 4: "x4"}  #: numbers of channels, and how the library writes them
FILTERS = {"linear": 1, "cubic": 2, "lanczos3": 3}  #: how many pixels of the result a filter reaches
_KINDS = {"uint8": "U8", "float32": "F32"}
_THEIR_WORDS = {"linear": "bilinear", "cubic": "catmull_rom", "lanczos3": "lanczos3"}
_KEPT = 1 << 20  # bytes; memory for a result that is not larger is used again


class _Resizer:
    """What cykooz-resizer needs, made once for each thread.

    The library is imported at the first use: where Pillow is installed, it imports that too.
    """

    def __init__(self) -> None:
        import cykooz_resizer as library
        from cykooz_resizer import rust_lib as core  # the classes around it take 5 % of a random resized crop

        self._resizer, self._image = core.RustResizer(), core.Image  # it keeps its memory, and is locked while it works
        self._options = {name: library.ResizeOptions(library.ResizeAlg.convolution(library.FilterType[theirs]),
                                                     use_alpha=False).rust_options
                         for name, theirs in _THEIR_WORDS.items()}  # fmt: skip
        self._kinds = {(numpy.dtype(dtype), channels): library.PixelType[kind + suffix].value
                       for dtype, kind in _KINDS.items() for channels, suffix in CHANNELS.items()}  # fmt: skip
        self._result: tuple[Any, Any] = None, None

    def resized(
        self, pixels: bytes, shape: tuple[int, ...], dtype: numpy.dtype[Any], box: Sequence[float],
        size: tuple[int, ...], filter: str,
    ) -> Array:  # fmt: skip
        """As the function below."""
        kind, made = self._kinds[dtype, shape[2]], (*size, shape[2])
        if self._result[0] == (made, kind):
            result = self._result[1]
        else:
            result = self._image(size[1], size[0], kind, None)
        if math.prod(made) * dtype.itemsize <= _KEPT:
            self._result = (made, kind), result  # results are often of one size
        source, options = self._image(shape[1], shape[0], kind, pixels), self._options[filter].set_crop_box(*box)
        self._resizer.resize(source, result, options)
        return numpy.frombuffer(result.buffer(), dtype).reshape(made)


_threads = threading.local()


def resized(
    pixels: bytes, shape: tuple[int, ...], dtype: numpy.dtype[Any], box: Sequence[float], size: tuple[int, ...],
    filter: str,
) -> Array:  # fmt: skip
    """A part of an image.

    Args:
        pixels: The image.
        shape: Its shape (H, W, C).
        dtype: Its dtype, uint8 or float32.
        box: Left, upper edge, width and height of the part.
        size: Height and width of the result.
        filter: One of `FILTERS`, which widens where the result is smaller.

    Returns:
        The part, of the same dtype and shape (height, width, C), which is read-only.
    """
    try:
        found: _Resizer = _threads.resizer
    except AttributeError:
        found = _threads.resizer = _Resizer()
    return found.resized(pixels, shape, dtype, box, size, filter)
