"""Where samples are in memory, as kernels see them: addresses, shapes and strides in NumPy arrays."""

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
    """N samples of one dtype and number of dimensions. Who has a description must keep the samples alive."""

    pointers: NDArray[numpy.uint64]  #: (N,), the addresses of their first elements
    shapes: NDArray[numpy.int64]  #: (N, dimensions)
    strides: NDArray[numpy.int64]  #: (N, dimensions), in bytes
    dtype: numpy.dtype[Any]

    def __len__(self) -> int:
        return len(self.pointers)


def described(storage: Array | Sequence[Array]) -> Described:
    """Describe one array, whose outermost dimension are the samples, or a sequence of samples, which is not empty."""
    if isinstance(storage, Sequence):
        first = storage[0]
        pointers = numpy.fromiter(map(_address, storage), numpy.uint64, len(storage))
        shapes = numpy.array([array.shape for array in storage], numpy.int64).reshape(len(storage), first.ndim)
        strides = numpy.array([array.strides for array in storage], numpy.int64).reshape(len(storage), first.ndim)
        return Described(pointers, shapes, strides, first.dtype)
    n, inner = len(storage), storage.ndim - 1
    steps = numpy.arange(n, dtype=numpy.int64) * storage.strides[0]
    pointers = (numpy.int64(_address(storage)) + steps).astype(numpy.uint64)
    shapes = numpy.broadcast_to(numpy.array(storage.shape[1:], numpy.int64), (n, inner))
    strides = numpy.broadcast_to(numpy.array(storage.strides[1:], numpy.int64), (n, inner))
    return Described(pointers, shapes, strides, storage.dtype)


def _address(array: Array) -> int:
    return int(array.ctypes.data if isinstance(array, numpy.ndarray) else array.data.ptr)
