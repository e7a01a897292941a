"""JPEG files of a batch: their headers, and their pixels by the libjpeg-turbo that Pillow's wheels bundle."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described

from ._library import address, function, in_use, threads

__all__ = ["Files", "is_here"]

#: The numbers of libjpeg for three channels; where there is one, it is gray.
_COLOURS = {"RGB": 6, "BGR": 8}
#: In the order of `struct libjpeg` in jpeg.c.
_FUNCTIONS = (
    "jpeg_std_error",
    "jpeg_CreateDecompress",
    "jpeg_read_header",
    "jpeg_start_decompress",
    "jpeg_crop_scanline",
    "jpeg_skip_scanlines",
    "jpeg_read_scanlines",
    "jpeg_finish_decompress",
    "jpeg_abort_decompress",
    "jpeg_destroy_decompress",
)
_COLUMNS = 14  # of `struct sample`
_MOST = 1 << 62  # of anything


def is_here() -> bool:
    """Whether the native path is in use, and Pillow has a libjpeg-turbo that it can call."""
    return in_use() and _library() is not None


@functools.cache
def _library() -> NDArray[numpy.uint64] | None:
    """The addresses of the functions of Pillow's libjpeg-turbo; None where it has none of the interface of jpeg.c."""
    fits = function("core_jpeg_fits", numpy.ndarray, result=ctypes.c_int)
    for path in _places():
        try:
            library = ctypes.CDLL(str(path))  # never unloaded
            found = [ctypes.cast(library[name], ctypes.c_void_p).value for name in _FUNCTIONS]
        except (OSError, AttributeError):  # of another system, or an older libjpeg
            continue
        table = numpy.array(found, numpy.uint64)
        if fits(address(table)) == _COLUMNS:  # else the library is of other sources
            return table
    return None


def _places() -> Iterator[Path]:
    """Where Pillow's wheels have it."""
    spec = importlib.util.find_spec("PIL")
    if spec is None or spec.origin is None:
        return
    package = Path(spec.origin).parent
    if sys.platform == "darwin":
        yield from package.glob(".dylibs/libjpeg.62*.dylib")
    yield from package.parent.glob("pillow.libs/libjpeg-*.so.62*")


class Files:
    """The files of a batch in a table: their headers, and the windows of their images.

    Args:
        files: The bytes of each.
        most_bytes: The largest file that is taken.
        most_pixels: The largest image that is taken.
        channels: Of the results, 1 or 3; 0 for those of the file.
        upright: Whether images are turned upright, and windows are those of the upright image.
    """

    def __init__(
        self, files: Described, most_bytes: int, most_pixels: int, *, channels: int = 0, upright: bool = False
    ) -> None:
        self._table, self._upright = numpy.empty((len(files), _COLUMNS), numpy.int64), upright
        self._table[:, 0] = files.pointers
        self._table[:, 1:2] = files.shapes
        self._table[:, 9:10] = files.strides
        number, count = ctypes.c_int64, len(files)
        read = function("core_jpeg_headers", numpy.ndarray, *(number,) * 3, *(ctypes.c_int,) * 2)
        read(address(self._table), count, min(most_bytes, _MOST), min(most_pixels, _MOST), channels, upright)
        #: Which files are ordinary: C reads them as `images.jpeg.header` does. The others are to be read by Python.
        self.known: NDArray[numpy.bool_] = self._table[:, 2] != 0
        #: (N,) the EXIF orientations that images are turned upright from; 0 where a file is not known.
        self.orientations = self._table[:, 2]
        #: (N, 2) where (y, x) the window of each begins, and its (N, 3) height, width and channels: at first the image.
        self.corners, self.shapes = self._table[:, 3:5], self._table[:, 5:8]
        #: (N, 2) height and width of the upright images.
        self.sizes = self.shapes[:, :2].copy()
        #: (N,) how many rows and columns become one; windows are those of the reduced images.
        self.scales = self._table[:, 13]
        self.scales[...] = 1

    def decode(
        self, targets: Described, *, colours: str, most_scans: int, fast_idct: bool, work: float
    ) -> NDArray[numpy.bool_]:
        """Decode the windows, as `images.decode` does.

        Args:
            targets: The memory for each: uint8, of the shape of the window.
            colours: "RGB" or "BGR", of windows of three channels.
            most_scans: How many scans are allowed.
            fast_idct: Whether to be faster and less exact.
            work: Bytes times the work for each, for the number of threads.

        Returns:
            Which files went well. The others are to be decoded by Python, which may find no fault.
        """
        table, library = self._table, _library()
        assert library is not None, "asked where it is here"
        table[:, 5:8], table[:, 8], table[:, 9:12] = targets.shapes, targets.pointers, targets.strides
        table[:, 12] = 0
        number, word, count = ctypes.c_int64, ctypes.c_int, len(table)
        run = function("core_jpeg_decode", numpy.ndarray, numpy.ndarray, number, number, *(word,) * 4)
        how = min(most_scans, _MOST), _COLOURS[colours], fast_idct, self._upright, threads(work)
        run(address(library), address(table), count, *how)
        done: NDArray[numpy.bool_] = table[:, 12] != 0
        return done
