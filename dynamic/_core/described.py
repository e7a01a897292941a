"""Columns of samples: as `dynamic._arrays.described` has them, in a tenth of the time."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence

import numpy

from dynamic._arrays import described as arrays
from dynamic._arrays.array import Array
from dynamic._arrays.described import Described

from ._library import address, function

__all__ = ["described"]

_HEAD = object.__basicsize__
_INTEGER, _ARRAY = ctypes.c_int64, numpy.ndarray


def described(storage: Array | Sequence[Array]) -> Described | None:
    """The samples of one (N, ...) array, or of a sequence of one or more arrays in host memory.

    None where the dtypes or numbers of dimensions of the arrays differ.
    """
    if type(storage) is _ARRAY:
        return _of_whole(storage)
    found = _read(storage) if type(storage) is list and _knows_arrays() else None
    if found is None and len({(array.dtype, array.ndim) for array in storage}) == 1:
        return arrays.described(storage)
    return found


def _of_whole(whole: Array) -> Described:
    count, ndim = len(whole), whole.ndim - 1
    shapes, strides = numpy.empty((2, count, ndim), numpy.int64)
    shapes[:], strides[:] = whole.shape[1:], whole.strides[1:]
    pointers = numpy.arange(count, dtype=numpy.int64)
    pointers *= whole.strides[0]
    pointers += address(whole)
    return Described(pointers.view(numpy.uint64), shapes, strides, whole.dtype)


def _read(samples: list[Array]) -> Described | None:
    if set(map(type, samples)) != {_ARRAY}:
        return None
    first, count = samples[0], len(samples)
    ndim = first.ndim
    objects, pointers = numpy.fromiter(map(id, samples), numpy.uint64, count), numpy.empty(count, numpy.uint64)
    columns = numpy.empty((2, count, ndim), numpy.int64)
    places = address(pointers), address(columns), address(columns) + columns.nbytes // 2
    read = function("core_describe", _INTEGER, _ARRAY, _INTEGER, _INTEGER, *[_ARRAY] * 3, result=ctypes.c_int)
    alike = read(count, address(objects), _HEAD, ndim, *places)
    return Described(pointers, columns[0], columns[1], first.dtype) if alike else None


@functools.cache
def _knows_arrays() -> bool:
    """Whether NumPy's arrays lie in memory as its C API says: those of another interpreter may not."""
    samples = [numpy.empty((3, 1, 4), numpy.uint8)[:, :, ::-2], numpy.empty((2, 5, 2), numpy.uint8)]
    found, true = _read(samples) if sys.implementation.name == "cpython" else None, arrays.described(samples)
    columns = "pointers", "shapes", "strides"
    return found is not None and all((getattr(found, name) == getattr(true, name)).all() for name in columns)
