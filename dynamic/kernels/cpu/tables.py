"""Lookup tables for integers."""

from __future__ import annotations

import functools
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic.dtypes import convert

from .strips import shared, strips

__all__ = ["OF_OPENCV", "looked_up", "mapped", "table"]

#: Element types of tables, each with one of the same size that OpenCV can look up.
OF_OPENCV = {
    numpy.dtype(t): numpy.dtype(same)
    for t, same in (
        ("uint8", "uint8"),
        ("int8", "uint8"),
        ("uint16", "int16"),
        ("int16", "int16"),
        ("float16", "int16"),
        ("int32", "int32"),
        ("float32", "float32"),
    )
}

_KEYS = 1 << 16
_STRIP = 1 << 16  # wide integers that are looked up at a time


def looked_up(image: Array, table: Array, out: Array) -> None:
    """Look every integer of one or two bytes up in a table of 256 or 65536.

    Args:
        image: The integers; negative ones read the second half of the table.
        table: Of the dtype of `out`.
        out: Where to.
    """
    kind = numpy.dtype(numpy.float64) if out.dtype.itemsize == 8 else out.dtype  # OpenCV only moves the bytes

    def some(image: Array, out: Array) -> None:
        for part, there in strips(image, out):
            cv2.LUT(part[None].view(f"u{part.itemsize}"), table.view(kind), there[None].view(kind))

    shared(some, image, out)


@functools.lru_cache(maxsize=8)
def table(keys: tuple[int, ...], values: tuple[float, ...], default: float, dtype: numpy.dtype[Any]) -> Array:
    """A table of the values of the keys 0 to 65535, and behind them the default, which also fills the gaps.

    Of a key that is given twice the last value counts.
    """
    numbers = numpy.full(_KEYS + 1, default, numpy.float64)
    numbers[list(keys)] = values
    found: Array = convert(numpy, numbers, dtype)
    found.flags.writeable = False
    return found


def mapped(data: Array, table: Array, out: Array) -> None:
    """Look integers of any type, or bools, up in a result of `table`."""
    kind, default = data.dtype, table[-1]
    if kind.itemsize == 1 and kind.kind != "i":
        looked_up(data, table[:256], out)
    elif kind == numpy.uint16:
        looked_up(data, table[:_KEYS], out)
    elif kind.itemsize <= 2:
        half = 1 << (8 * kind.itemsize - 1)
        looked_up(data, numpy.concatenate([table[:half], numpy.full(half, default, table.dtype)]), out)
    else:
        shared(lambda part, there: _mapped(part, table, there), data, out)


def _mapped(data: Array, table: Array, out: Array) -> None:
    for part, there in strips(data, out, _STRIP):
        places = numpy.where((part >= 0) & (part < _KEYS), part, _KEYS).astype(numpy.intp)
        numpy.take(table, places, out=there, mode="clip")
