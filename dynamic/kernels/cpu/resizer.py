"""Images resized by cykooz-resizer where it is installed, with filters that are renormalised at the edges.

There are platforms that it has no wheel for: products of matrices do the same there, more slowly.

It takes and gives bytes, which are copied twice each way while nobody else runs Python. Images of Pillow it reads and
writes where they are, and those may be made of memory of ours: where Pillow is installed, that is how bytes of one,
three or four channels go through it, with the same results.

The native library does the same with bytes and a linear filter, where it is quick: to the same bits.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import cv2
import numpy

from dynamic import _core
from dynamic._arrays.array import Array
from dynamic._core import resize
from dynamic.dtypes import convert

__all__ = ["CHANNELS", "FILTERS", "Shown", "is_installed", "is_native", "rows", "show", "show_natively"]

CHANNELS = {1: "", 2: "x2", 3: "x3", 4: "x4"}  #: numbers of channels, and how the library writes them
FILTERS = {"linear": 1, "cubic": 2, "lanczos3": 3}  #: how many pixels of the result a filter reaches
_KINDS = {"uint8": "U8", "float32": "F32"}
_THEIR_WORDS = {"linear": "bilinear", "cubic": "catmull_rom", "lanczos3": "lanczos3"}
_KEPT = 1 << 21  # bytes; memory for an image that is not larger is used again
_STEP = 32  # pixels; sizes of that memory are so many more and a half: rows a power of two apart share lines of caches
_MODES = {1: "L", 3: "RGBA", 4: "RGBA"}  # Pillow's modes of bytes; it keeps three channels as four
_SEEN = ("11", "12", "13")  # major versions of Pillow whose images the library reads as they are: seen in the tests


#: Arguments of `show` for a part, without the filter: a part, its padding, its box, memory, whether it is mirrored.
Shown: TypeAlias = tuple[Array, Sequence[int], Sequence[float], Array, bool]


@functools.cache
def is_installed() -> bool:
    """Whether the library is there and can be loaded."""
    try:
        import cykooz_resizer  # noqa: F401
    except ImportError:
        return False
    return True


def is_native() -> bool:
    """Whether bytes may be resized by the native library, instead of cykooz-resizer and to the same bits."""
    return _core.in_use() and resize.is_quick() and is_installed()


@functools.cache
def _pillow() -> Any:
    """Pillow's images, or None where it is not installed, may keep them in another way, or copies borrowed memory."""
    try:
        from PIL import Image, __version__
    except ImportError:
        return None
    pixels = numpy.zeros((1, 1), numpy.uint8)
    image = Image.frombuffer("L", (1, 1), pixels, "raw", "L", 0, 1)
    pixels[...] = 1
    return Image if __version__.split(".", 1)[0] in _SEEN and image.getpixel((0, 0)) == 1 else None


class _Canvas:
    """Memory that is an image of Pillow as well."""

    def __init__(self, core: Any, height: int, width: int, channels: int) -> None:
        mode = _MODES[channels]
        self.pixels = numpy.empty((height, width, len(mode)), numpy.uint8)
        image = _pillow().frombuffer(mode, (width, height), self.pixels, "raw", mode, 0, 1)
        self.image = core.PilImageWrapper(image)

    def holds(self, height: int, width: int) -> bool:
        """Whether an image of this size has room."""
        return height <= self.pixels.shape[0] and width <= self.pixels.shape[1]


class _Resizer:
    """The objects of cykooz-resizer, made once for each thread.

    The library is imported at the first use: where Pillow is installed, it imports that too.
    """

    def __init__(self) -> None:
        import cykooz_resizer as library
        from cykooz_resizer import rust_lib as core  # the classes around it take 5 % of a random resized crop

        self._core, self._resizer = core, core.RustResizer()  # it keeps its memory, and is locked while it works
        self._options = {
            name: library.ResizeOptions(
                library.ResizeAlg.convolution(library.FilterType[theirs]), use_alpha=False
            ).rust_options
            for name, theirs in _THEIR_WORDS.items()
        }
        self._kinds = {
            (numpy.dtype(dtype), channels): library.PixelType[kind + suffix].value
            for dtype, kind in _KINDS.items()
            for channels, suffix in CHANNELS.items()
        }
        self._result: tuple[Any, Any] = None, None
        self._sources: dict[int, _Canvas] = {}  # by the number of channels
        self._results: dict[int, _Canvas] = {}

    def show(
        self, part: Array, padding: Sequence[int], box: Sequence[float], filter: str, out: Array, *, mirrored: bool
    ) -> None:
        """As the function below."""
        options = self._options[filter].set_crop_box(*box)
        of_bytes = part.dtype == out.dtype == numpy.uint8
        if of_bytes and filter == "linear" and part.shape[2] in _MODES and _pillow() is not None:
            self._in_place(part, padding, options, out, mirrored=mirrored)
            return
        if any(padding):
            above, below, before, after = padding
            wider = cv2.copyMakeBorder(part, above, below, before, after, cv2.BORDER_REPLICATE)
            part = wider.reshape(*wider.shape[:2], part.shape[2])
        if not of_bytes or filter != "linear":  # others leave the range of bytes
            part = part.astype(numpy.float32, copy=False)
        found = self._copied(part, options, (*out.shape[:2], part.shape[2]))
        found = cv2.flip(found, 1).reshape(found.shape) if mirrored else found
        if of_bytes:
            out[...] = found if filter == "linear" else numpy.clip(found + numpy.float32(0.5), 0, 255)
        else:
            convert(numpy, found, out.dtype, out)

    def rows(self, image: Array, columns: tuple[int, int], top: float, height: float, out: Array) -> None:
        """As the function below."""
        left, right = (column * image.shape[2] for column in columns)
        crop = self._options["linear"].set_crop_box
        if image.flags.c_contiguous and _pillow() is not None:
            source, result = (self._lines(each) for each in (image, out))
            self._resizer.resize_pil(source, result, crop(left, top, right - left, height))
            return
        part = image[:, slice(*columns)].reshape(len(image), right - left, 1)
        found = self._copied(part, crop(0, top, right - left, height), (len(out), right - left, 1))
        out[...] = found.reshape(out.shape)

    def _lines(self, pixels: Array) -> Any:
        """An image whose channels are beside each other, over the same memory."""
        height, width = len(pixels), pixels.shape[1] * pixels.shape[2]
        return self._core.PilImageWrapper(_pillow().frombuffer("L", (width, height), pixels, "raw", "L", 0, 1))

    def _in_place(self, part: Array, padding: Sequence[int], options: Any, out: Array, *, mirrored: bool) -> None:
        """Resize bytes without another copy of them than that into memory that is used again and again."""
        (rows, columns, channels), (above, below, before, after) = part.shape, padding
        height, width = above + rows + below, before + columns + after
        source = self._source(height, width, channels)
        pixels = source.pixels[:height, :width]
        inside = pixels[above : above + rows, before : before + columns]
        if channels == 3:
            cv2.cvtColor(part, cv2.COLOR_RGB2RGBA, dst=inside)
        else:
            inside[...] = part
        if before or after:
            between = pixels[above : above + rows]
            between[:, :before], between[:, before + columns :] = inside[:, :1], inside[:, -1:]
        if above or below:
            pixels[:above], pixels[above + rows :] = pixels[above], pixels[above + rows - 1]
        result = self._made(out.shape[0], out.shape[1], channels)
        self._resizer.resize_pil(source.image, result.image, options)
        found = cv2.flip(result.pixels, 1).reshape(result.pixels.shape) if mirrored else result.pixels
        if channels != 3:
            out[...] = found
        elif out.flags.c_contiguous:
            cv2.cvtColor(found, cv2.COLOR_RGBA2RGB, dst=out)
        else:
            out[...] = cv2.cvtColor(found, cv2.COLOR_RGBA2RGB)

    def _source(self, height: int, width: int, channels: int) -> _Canvas:
        """Where to write an image of a size: at the upper left of a canvas that may be larger."""
        known = self._sources.get(channels)
        if known is not None and known.holds(height, width):
            return known
        rows, columns = (-(-extent // _STEP) * _STEP + _STEP // 2 for extent in (height, width))
        if known is not None:  # the next image may be as high as that was, and as wide as this one
            tall, wide = max(rows, known.pixels.shape[0]), max(columns, known.pixels.shape[1])
            rows, columns = (tall, wide) if tall * wide * known.pixels.shape[2] <= _KEPT else (rows, columns)
        made = _Canvas(self._core, rows, columns, channels)
        if made.pixels.nbytes <= _KEPT:
            self._sources[channels] = made
        return made

    def _made(self, height: int, width: int, channels: int) -> _Canvas:
        """Where a result of a size is made; results are often of one size."""
        known = self._results.get(channels)
        if known is None or known.pixels.shape[:2] != (height, width):
            known = _Canvas(self._core, height, width, channels)
        if known.pixels.nbytes <= _KEPT:
            self._results[channels] = known
        return known

    def _copied(self, part: Array, options: Any, made: tuple[int, ...]) -> Array:
        """The result of an image that is copied to the library and back: of the same dtype, and read-only."""
        kind = self._kinds[part.dtype, part.shape[2]]
        result = self._result[1] if self._result[0] == (made, kind) else self._core.Image(made[1], made[0], kind, None)
        if math.prod(made) * part.dtype.itemsize <= _KEPT:
            self._result = (made, kind), result
        pixels = part.tobytes()  # one copy: a second block of this size would be mapped anew
        source = self._core.Image(part.shape[1], part.shape[0], kind, pixels)
        self._resizer.resize(source, result, options)
        return numpy.frombuffer(result.buffer(), part.dtype).reshape(made)


class _OfThread(threading.local):
    resizer: _Resizer | None = None  #: while nobody uses it


_of_thread = _OfThread()


def _taken() -> _Resizer:
    """The one of this thread, which is to be given back; a handler of a signal that resizes meanwhile has another."""
    resizer, _of_thread.resizer = _of_thread.resizer, None
    return resizer or _Resizer()


def rows(image: Array, columns: tuple[int, int], top: float, height: float, out: Array) -> None:
    """Fill `out` with the rows of a result, of some columns of an image that stay, by a linear filter that widens.

    An image that is C-contiguous is read where it is, if Pillow is installed.

    Args:
        image: Bytes (H, W, C): all rows that the filter needs.
        columns: The first one that is taken, and the one after the last.
        top: Where in the image the first row of the result begins.
        height: How many rows of the image the result shows.
        out: Memory for the result, of bytes and as many columns, C-contiguous.
    """
    resizer = _taken()
    resizer.rows(image, columns, top, height, out)
    _of_thread.resizer = resizer


def show(
    part: Array, padding: Sequence[int], box: Sequence[float], filter: str, out: Array, *, mirrored: bool = False
) -> None:
    """Fill `out` with a part of an image.

    Args:
        part: The pixels that are needed, (H, W, C), of bytes or of a dtype whose digits float32 has.
        padding: More pixels, which are as those at the edges: above, below, left, right.
        box: Left, upper edge, width and height of the part in all these.
        filter: One of `FILTERS`, which widens where the result is smaller.
        out: Memory for the result (height, width, C), of any dtype.
        mirrored: Whether the result shows it from right to left.
    """
    usual = filter == "linear" and part.dtype == out.dtype == numpy.uint8 and is_native()
    if usual and show_natively([(part, padding, box, out, mirrored)]):
        return
    resizer = _taken()
    resizer.show(part, padding, box, filter, out, mirrored=mirrored)
    _of_thread.resizer = resizer


def show_natively(parts: Sequence[Shown]) -> bool:
    """`show` of parts of bytes with a linear filter by the native library; False where it refuses one.

    Args:
        parts: Of images with as many channels: the arguments of `show` for each. Their memories do not overlap.
    """
    if not parts:
        return True
    # Memory that is used again is that much larger than an image at least.
    beyond = _STEP // 2 if parts[0][0].shape[2] in _MODES and _pillow() is not None else 0
    return resize.shown(parts, beyond)
