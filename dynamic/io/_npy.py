"""Arrays in the bytes of ``.npy`` files: the common part of the reader and the decoder.

Nothing is unpickled, and no memory is taken on the word of a header.
"""

from __future__ import annotations

import functools
import io
import math
import re
import tokenize
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from numpy.lib import format as npy

from dynamic._arrays.array import Array
from dynamic.dtypes import of_numpy
from dynamic.errors import shown

__all__ = ["Header", "NoArray", "Opened", "beyond", "header", "header_end", "opened", "values"]

_MAGIC = b"\x93NUMPY"
_BEFORE_HEADER = 12  # bytes: the magic word, the version, and the length of the header in two bytes or four
_LONGEST = 10_000  # bytes of a header; NumPy refuses longer ones too
_LONG = re.compile(rb"(?<=\d)L(?=[,)\s])")  # integers as Python 2 wrote them
#: Names and types. NumPy is shown no others: of "a4" it warns, and of "M8[s/0]" it divides by zero: the process ends.
_TEXT = re.compile(rb"u?(['\"])[<>=|]?(?!a\d+\1)[\w?]*(?:\[\w*\])?\1")
#: Signs that no writer puts into a header outside of texts; Python and NumPy might print a warning of them.
_STRANGE = re.compile(rb"[\\\0-\x1f]|['\"][^'\"]*|\b(?!(?:\d+|True|False)\b)\w+")
_MOST_OF_NOTHING = 1 << 32  # the product of the other extents where one is 0, so that many times 8 bytes is a number


class NoArray(Exception):
    """Bytes that are no array that is read here; the message says why."""


class Header(NamedTuple):
    """The header of a file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: numpy.dtype[Any]  #: in the order of bytes of the file
    native: numpy.dtype[Any]  #: in that of this machine

    @property
    def nbytes(self) -> int:
        """How many bytes the array has."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.native} of {len(self.shape)} dimensions"


class Opened(NamedTuple):
    """A file whose header is read and whose array is there as a whole."""

    header: Header
    data: Array  #: the bytes of the array

    @property
    def array(self) -> Array:
        """Its type, in words."""
        return values(self.data, self.header)


def opened(data: Array) -> Opened:
    """The array in the bytes of a whole file.

    Args:
        data: The bytes: uint8, one dimension, contiguous.

    Raises:
        NoArray: They are no array, or not all of it, or more.
    """
    start = header_end(data)
    if start > len(data):
        raise NoArray("ends within its header")
    head = header(data[:start].tobytes())
    size = start + head.nbytes
    if len(data) < size:
        raise NoArray(f"ends too early: {len(data)} bytes of {size} are there")
    if len(data) > size:
        raise NoArray(f"goes on where its array ends: {len(data)} bytes are there, and it has {size}")
    if 0 in head.shape and math.prod(max(extent, 1) for extent in head.shape) > _MOST_OF_NOTHING:
        raise NoArray(_impossible(head.shape))
    return Opened(head, data[start:])


def header_end(data: Array) -> int:
    """Where the header of a file ends, which may be beyond the bytes read so far."""
    return _end(data[:_BEFORE_HEADER].tobytes())


@functools.lru_cache(maxsize=64)
def _end(beginning: bytes) -> int:
    if len(beginning) < _BEFORE_HEADER or not beginning.startswith(_MAGIC):
        raise NoArray("is not a .npy file")
    major, minor = beginning[6:8]
    if (major, minor) not in ((1, 0), (2, 0), (3, 0)):
        raise NoArray(f"has version {major}.{minor} of the format, which is not known here")
    prefix = 10 if major == 1 else _BEFORE_HEADER
    length = int.from_bytes(beginning[8:prefix], "little")
    if length > _LONGEST:
        raise NoArray(f"has a header of {length} bytes; up to {_LONGEST} are read")
    return prefix + length


@functools.lru_cache(maxsize=256)  # the files of a data set mostly begin alike
def header(data: bytes) -> Header:
    """Parse all bytes before the array."""
    prefix, parse = (10, npy.read_array_header_1_0) if data[6] == 1 else (_BEFORE_HEADER, npy.read_array_header_2_0)
    text = _LONG.sub(b" ", data[prefix:]).rstrip()
    if strange := _STRANGE.search(_TEXT.sub(b" ", text)):
        raise NoArray(f"has a header that cannot be understood: {strange.group()[:20].decode('latin-1')!r}")
    cleaned = data[8:prefix] + text.ljust(len(data) - prefix)
    try:
        shape, fortran, kind = parse(io.BytesIO(cleaned), max_header_size=_LONGEST)
    except (
        ValueError,
        SyntaxError,
        TypeError,
        IndexError,
        RecursionError,
        MemoryError,
        tokenize.TokenError,
        Warning,
    ) as error:
        told = (str(error) or type(error).__name__).splitlines()[0][:100]
        raise NoArray(f"has a header that cannot be understood: {told}") from None
    if kind.kind not in "biuf" or of_numpy(kind.newbyteorder("=")) is None:  # others may have no order, or no hash
        raise NoArray(f"holds {kind}, which is not supported")
    if min(shape, default=0) < 0 or len(shape) > 32 or beyond(shape, kind):
        raise NoArray(_impossible(shape))
    return Header(tuple(map(int, shape)), bool(fortran), kind, kind.newbyteorder("="))


def beyond(shape: Sequence[int], kind: numpy.dtype[Any]) -> bool:
    """Whether no array can have a shape."""
    return math.prod(max(extent, 1) for extent in shape) * kind.itemsize >= 1 << 63


def values(data: Array, head: Header) -> Array:
    """Bytes as an array in C order of numbers in the order of bytes of this machine; bools are 0 or 1."""
    if head.dtype.kind == "b" and data.max(initial=0) > 1:
        data = (data != 0).view(numpy.uint8)
    flat = data.view(head.dtype)
    if not flat.flags.aligned:
        flat = flat.copy()
    array = flat.reshape(head.shape, order="F" if head.fortran else "C")
    return array.astype(head.native, order="C", copy=False)


def _impossible(shape: Sequence[int]) -> str:
    return f"has a shape that cannot be: {shown(shape)}"
