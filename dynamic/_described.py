"""N samples as a kernel sees them: addresses, shapes and strides in columns, made once for a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from ._array import Array

__all__ = ["Described", "described"]


@dataclass(slots=True)
class Described:
    """N samples of one dtype and number of dimensions.

    Attributes:
        pointers: (N,) address of the first element of each.
        shapes: (N, ndim) extents.
        strides: (N, ndim) steps, in bytes.
        dtype: Type of the elements.
    """

    pointers: NDArray[numpy.uint64]
    shapes: NDArray[numpy.int64]
    strides: NDArray[numpy.int64]
    dtype: numpy.dtype[Any]

    def __len__(self) -> int:
        return len(self.pointers)

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        return int(self.shapes.shape[1])


def described(storage: Array | Sequence[Array]) -> Described:
    """The samples of one (N, ...) array, by arithmetic alone, or of a sequence of one or more arrays, in one pass.

    Nothing is kept alive: the arrays must outlive the work that is given the addresses.
    """
    if not isinstance(storage, Sequence):
        return _of_whole(storage)
    first, count = storage[0], len(storage)
    pointers = numpy.fromiter(map(_address, storage), numpy.uint64, count)
    shapes = numpy.array([array.shape for array in storage], numpy.int64).reshape(count, first.ndim)
    strides = numpy.array([array.strides for array in storage], numpy.int64).reshape(count, first.ndim)
    return Described(pointers, shapes, strides, first.dtype)


def _of_whole(whole: Array) -> Described:
    count, *shape = whole.shape
    step, *strides = whole.strides
    places = numpy.arange(count, dtype=numpy.int64) * step + _address(whole)
    extents, steps = numpy.array(shape, numpy.int64), numpy.array(strides, numpy.int64)
    size = (count, len(shape))
    return Described(places.astype(numpy.uint64), numpy.broadcast_to(extents, size), numpy.broadcast_to(steps, size),
                     whole.dtype)  # fmt: skip


def _address(array: Array) -> int:
    """Where the first element of an array is; for an array without elements any number."""
    if isinstance(array, numpy.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)
