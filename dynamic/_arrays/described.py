"""N samples as a kernel sees them: addresses, shapes and strides in columns, made once for a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy
from numpy.typing import NDArray

from . import cuda
from .array import Array

__all__ = ["Described", "Views", "allocated", "apart_on_gpu", "described"]

_ALIGNMENT = 256  # bytes; of the samples in their common memory, as CUDA aligns blocks of its own


@dataclass(slots=True)
class Described:
    """N samples of one dtype and number of dimensions. Who has a description must keep the samples alive.

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

    @property
    def nbytes(self) -> NDArray[numpy.int64]:
        """(N,) bytes of the elements of each."""
        sizes: NDArray[numpy.int64] = self.shapes.prod(axis=1, dtype=numpy.int64) * self.dtype.itemsize
        return sizes

    def take(self, places: Any) -> Described:
        """Some of the samples."""
        return Described(self.pointers[places], self.shapes[places], self.strides[places], self.dtype)

    def window(self, starts: Any, shapes: Any) -> Described:
        """A part of each, given by where it begins and how large it is: (N, ndim)."""
        places = self.pointers.view(numpy.int64) + (starts * self.strides).sum(axis=1)
        return Described(places.view(numpy.uint64), shapes, self.strides, self.dtype)

    def unpacked(self) -> tuple[Described, NDArray[numpy.intp]]:
        """The items of each along its first dimension as samples, and in which sample each is."""
        counts = self.shapes[:, 0]
        owners = numpy.repeat(numpy.arange(len(self)), counts)
        places = numpy.arange(len(owners)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        items = self.take(owners)
        starts = items.pointers.view(numpy.int64) + places * items.strides[:, 0]
        return Described(starts.view(numpy.uint64), items.shapes[:, 1:], items.strides[:, 1:], self.dtype), owners

    @staticmethod
    def joined(tables: Sequence[Described]) -> Described:
        """The samples of several descriptions, of one dtype and number of dimensions."""
        columns = [(table.pointers, table.shapes, table.strides) for table in tables]
        pointers, shapes, strides = map(numpy.concatenate, zip(*columns, strict=True))
        return Described(pointers, shapes, strides, tables[0].dtype)

    def ordered(self, places: Sequence[int]) -> Described:
        """The same with dimension `places[i]` as dimension i."""
        return Described(self.pointers, self.shapes[:, places], self.strides[:, places], self.dtype)


class Views(Sequence[Array]):
    """Samples on a GPU, of which an array is made when it is asked for: making one takes as long as describing fifty.

    Args:
        table: Where they are.
        device_id: On which GPU.
        keeper: The owner of the memory: the buffer that all are in, or any object; it must allow weak references.
        packed: Whether they are C-contiguous and follow each other in `keeper`, which is an array of bytes.
    """

    __slots__ = ("_arrays", "_shapes", "device_id", "keeper", "packed", "table")

    def __init__(self, table: Described, device_id: int, keeper: Any, *, packed: bool = False) -> None:
        self.table, self.device_id, self.keeper, self.packed = table, device_id, keeper, packed
        self._arrays: list[Array | None] = [None] * len(table)
        self._shapes: list[tuple[int, ...]] | None = None

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Type of the elements."""
        return self.table.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        return self.table.ndim

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The extents of each."""
        if self._shapes is None:
            self._shapes = list(map(tuple, self.table.shapes.tolist()))
        return self._shapes

    @property
    def nbytes(self) -> int:
        """Bytes of the elements of all."""
        return int(self.table.nbytes.sum())

    def take(self, places: NDArray[numpy.intp]) -> Views:
        """Some of the samples, over the same memory."""
        return Views(self.table.take(places), self.device_id, self.keeper)

    def __len__(self) -> int:
        return len(self._arrays)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> list[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | list[Array]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        array = self._arrays[index]
        if array is None:
            array = self._arrays[index] = self._made(index)
        return array

    def _made(self, index: int) -> Array:
        cupy, table = cuda.cupy(), self.table
        shape, size = self.shapes[index], int(numpy.prod(table.shapes[index])) * table.dtype.itemsize
        memory = cupy.cuda.UnownedMemory(int(table.pointers[index]), size, self.keeper, self.device_id)
        place = cupy.cuda.MemoryPointer(memory, 0)
        return cupy.ndarray(shape, table.dtype, place, tuple(table.strides[index].tolist()))


def described(storage: Array | Sequence[Array]) -> Described:
    """The samples of one (N, ...) array, by arithmetic alone, or of a sequence of one or more arrays, in one pass."""
    if isinstance(storage, Views):
        return storage.table
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
    return Described(
        places.astype(numpy.uint64), numpy.broadcast_to(extents, size), numpy.broadcast_to(steps, size), whole.dtype
    )


def _address(array: Array) -> int:
    """Where the first element of an array is; for an array without elements any number."""
    if isinstance(array, numpy.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def rows(whole: Array) -> Views:
    """The samples of one (N, ...) array on a GPU."""
    return Views(described(whole), whole.device.id, whole)


def allocated(shapes: NDArray[numpy.int64], dtype: numpy.dtype[Any]) -> Views:
    """Uninitialised memory for N C-contiguous samples in one buffer of the current GPU.

    Args:
        shapes: (N, ndim) extents.
        dtype: Type of the elements.
    """
    cupy = cuda.cupy()
    table = packed(shapes, dtype)
    buffer = cupy.empty(_end(table), numpy.uint8)
    table.pointers += numpy.uint64(buffer.data.ptr)
    return Views(table, buffer.device.id, buffer, packed=True)


def apart_on_gpu(whole: Array, shapes: NDArray[numpy.int64]) -> Views:
    """Samples of some shapes, (N, ndim), whose elements lie one after the other in an array on a GPU."""
    table = packed(shapes, whole.dtype, alignment=1)
    table.pointers += numpy.uint64(whole.data.ptr)
    return Views(table, whole.device.id, whole)


def packed(shapes: NDArray[numpy.int64], dtype: numpy.dtype[Any], alignment: int = _ALIGNMENT) -> Described:
    """C-contiguous samples one after the other in a buffer whose address is 0."""
    count, ndim = shapes.shape
    strides = numpy.full((count, ndim), dtype.itemsize, numpy.int64)
    if ndim > 1:
        strides[:, :-1] *= shapes[:, :0:-1].cumprod(axis=1)[:, ::-1]
    table = Described(numpy.zeros(count, numpy.uint64), shapes, strides, dtype)
    if count:
        numpy.cumsum(_padded(table.nbytes[:-1], alignment), out=table.pointers[1:].view(numpy.int64))
    return table


def _end(table: Described) -> int:
    return int(table.pointers[-1]) + int(_padded(table.nbytes[-1])) if len(table) else 0


def _padded(sizes: Any, alignment: int = _ALIGNMENT) -> Any:
    return (sizes + (alignment - 1)) & -alignment
