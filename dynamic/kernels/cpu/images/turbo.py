"""Windows of JPEG files by TurboJPEG 3, the interface of libjpeg-turbo itself, where the machine has it.

It leaves out the inverse transforms and the colours of what is around a window. The libjpeg-turbo of wheels has no
function for that. TurboJPEG is a part of libjpeg-turbo 3, of Conda's and Homebrew's packages among others; its errors
are results, and its decoder is the one that simplejpeg calls, so pixels are the same with it and without it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

import numpy
import simplejpeg

from dynamic._arrays.memory import empty
from dynamic.errors import ArgumentError, shown

from ._common import CHANNELS, Array, Buffer, Colours

__all__ = ["library", "window"]

#: Where it may be: what the loader of the system finds, Conda's, Homebrew's, and the packages of libjpeg-turbo itself.
_PLACES = {
    "linux": ("libturbojpeg.so.0", f"{sys.prefix}/lib/libturbojpeg.so.0", "/opt/libjpeg-turbo/lib64/libturbojpeg.so.0"),
    "darwin": (
        f"{sys.prefix}/lib/libturbojpeg.dylib",
        "/opt/homebrew/opt/jpeg-turbo/lib/libturbojpeg.dylib",
        "/usr/local/opt/jpeg-turbo/lib/libturbojpeg.dylib",
        "/opt/libjpeg-turbo/lib/libturbojpeg.dylib",
    ),
    "win32": (f"{sys.prefix}/Library/bin/turbojpeg.dll", "C:/libjpeg-turbo64/bin/turbojpeg.dll"),
}
_DECOMPRESS, _STOP_ON_WARNING, _FAST_DCT = 1, 0, 10  # TJINIT_DECOMPRESS, TJPARAM_STOPONWARNING, TJPARAM_FASTDCT
_FORMATS: dict[Colours, int] = {"RGB": 0, "BGR": 1, "GRAY": 6}  # TJPF_...
#: Colours of half the width are interpolated from their neighbours, which edges of what is decoded do not have.
_MARGIN = 2


class _Region(ctypes.Structure):
    """A `tjregion`."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int), ("w", ctypes.c_int), ("h", ctypes.c_int))


class Library:
    """The functions of one TurboJPEG. Raises OSError or AttributeError where it is none, or one before version 3."""

    def __init__(self, path: str) -> None:
        self.path = path
        handle, size, pointer, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
        short = ctypes.PyDLL(path)  # calls of a few microseconds, for which nobody need take Python's lock
        self.set_window = _function(short.tj3SetCroppingRegion, number, handle, _Region)
        self.create = _function(short.tj3Init, handle, number)
        self.destroy = _function(short.tj3Destroy, None, handle)
        self.set = _function(short.tj3Set, number, handle, number, number)
        self.read_header = _function(short.tj3DecompressHeader, number, handle, pointer, size)
        self.problem = _function(short.tj3GetErrorStr, ctypes.c_char_p, handle)
        long = ctypes.CDLL(path)
        self.decode = _function(long.tj3Decompress8, number, handle, pointer, size, pointer, number, number)


def _function(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


@functools.lru_cache(maxsize=1)
def library() -> Library | None:
    """The TurboJPEG of this machine, if it has one that decodes windows as simplejpeg decodes images.

    The environment variable DYNAMIC_TURBOJPEG may say where it is; if it is empty, none is looked for.
    """
    named = os.environ.get("DYNAMIC_TURBOJPEG")
    for path in _PLACES.get(sys.platform, ()) if named is None else filter(None, [named]):
        try:
            found = Library(path)
        except (OSError, AttributeError):  # there is none, or an older one
            continue
        if _is_exact(found):
            return found
    if named:
        expected = "the path of a TurboJPEG 3 whose pixels are simplejpeg's, or empty"
        raise ArgumentError("decoders", "DYNAMIC_TURBOJPEG", expected, shown(named))
    return None


def _is_exact(found: Library) -> bool:
    """Whether a library decodes windows of an image of noise, with colours of half the size, as simplejpeg does."""
    noise = numpy.random.default_rng(0).integers(0, 256, (56, 72, 3), dtype=numpy.uint8)
    file = memoryview(simplejpeg.encode_jpeg(noise, 90, "RGB", "420"))
    whole = simplejpeg.decode_jpeg(file)
    for top, left, height, width in ((0, 17, 56, 31), (9, 33, 20, 39), (31, 1, 2, 2)):
        pixels, problem = window(found, file, "RGB", (top, left, height, width), 72, 16, fast_idct=False)
        if problem or not numpy.array_equal(pixels, whole[top : top + height, left : left + width]):
            return False
    return True


def window(
    found: Library,
    file: Buffer | bytearray,
    colours: Colours,
    place: tuple[int, int, int, int],
    extent: int,
    step: int,
    *,
    fast_idct: bool,
) -> tuple[Array, str]:
    """Decode a window of a JPEG file.

    Args:
        found: What decodes it.
        file: The file.
        colours: "RGB", "BGR" or "GRAY".
        place: The window's first row and column, its height and width.
        extent: The width of the image.
        step: The width of a block of the file with all its colours: where windows may begin.
        fast_idct: Whether to be faster and less exact.

    Returns:
        The pixels, uint8 of shape (height, width, channels), and libjpeg's first warning or its error, "" if there is
        none; where there is one, pixels may be missing.
    """
    top, left, height, width = place
    first = max(left - _MARGIN, 0) // step * step
    last = min(left + width + _MARGIN, extent)
    pixels = empty((height, last - first, CHANNELS[colours]), numpy.dtype(numpy.uint8))
    data = numpy.frombuffer(file, numpy.uint8)
    handle = _decoder(found)
    try:
        failed = bool(
            found.set(handle, _FAST_DCT, int(fast_idct))
            or found.read_header(handle, data.ctypes.data, data.size)
            or found.set_window(handle, _Region(first, top, last - first, height))
            or found.decode(
                handle, data.ctypes.data, data.size, pixels.ctypes.data, pixels.strides[0], _FORMATS[colours]
            )
        )
        problem = found.problem(handle).decode(errors="replace") if failed else ""
    finally:
        found.destroy(handle)
    return pixels[:, left - first : left - first + width], problem


def _decoder(found: Library) -> int:
    """A new decoder: one that has decoded would lend the next file the tables that it lacks."""
    handle: int | None = found.create(_DECOMPRESS)
    if not handle or found.set(handle, _STOP_ON_WARNING, 1):
        raise MemoryError("TurboJPEG has no memory for a decoder")
    return handle
