"""Moves between the memory of the host and of GPUs: one buffer and one asynchronous copy for a batch, however ragged.

Host memory that a GPU can copy by itself is scarce and slow to get, so a few blocks of it are kept for each GPU and
used in turn; one is filled again only once the copy out of it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, device_of
from dynamic._arrays.described import Described, Views, allocated, described
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic._base.locks import new_lock
from dynamic.devices import Device
from dynamic.kernels.gpu.copies import window

__all__ = ["copies", "gathered", "moved", "moved_samples"]

_SLOTS = 3  # blocks for each GPU
_LARGEST = 1 << 28  # bytes that go through a block at once
_SHARED = 1 << 16  # bytes from which memory that is used again is faster


class _Slot:
    """A block of host memory, and the event after which it is free."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.memory: Any = None
        self.bytes: Array = numpy.empty(0, numpy.uint8)
        self.event: Any = None

    def block(self, size: int) -> tuple[Any, Array]:
        """The address and the bytes of so much memory that no copy needs any more."""
        if self.event is not None:
            self.event.synchronize()
            self.event = None
        if len(self.bytes) < size or self.memory is None:
            self.memory = None  # the old block goes before there is a new one
            self.memory = cuda.cupy().cuda.alloc_pinned_memory(size)
            self.bytes = numpy.frombuffer(self.memory, numpy.uint8, size)
        return self.memory.ptr, self.bytes[:size]


class _Ring:
    """The blocks of one GPU."""

    def __init__(self) -> None:
        self._slots = [_Slot() for _ in range(_SLOTS)]
        self._lock = new_lock()
        self._next = 0

    def slot(self) -> _Slot:
        with self._lock:
            self._next = (self._next + 1) % _SLOTS
            return self._slots[self._next]


_rings: dict[int, _Ring] = {}


def _slot(device_id: int) -> _Slot:
    ring = _rings.get(device_id)
    if ring is None:
        ring = _rings.setdefault(device_id, _Ring())  # one for all threads that come first at once
    return ring.slot()


def moved(array: Array, device: Device) -> Array:
    """A copy of an array on a device."""
    source = device_of(array)
    if device == source:
        with cuda.working(source.device_id):
            return copies([array])[0] if source.device_type == "cpu" else array.copy()
    if source.device_type == "cpu":
        return _to_gpu([array], device)[0]
    if device.device_type == "cpu":
        return _to_host([array], source)[0]
    return _between(array, source, device)


def copies(samples: Sequence[Array]) -> list[Array]:
    """Copies of arrays on the CPU, dense and in C order."""
    size = sum(sample.nbytes for sample in samples)
    if size < _SHARED:
        return [sample.copy() for sample in samples]
    found = [empty(sample.shape, sample.dtype) for sample in samples]
    pool.run(lambda i: numpy.copyto(found[i], samples[i]), len(samples), 2 * size)
    return found


def moved_samples(samples: Sequence[Array], device: Device) -> list[Array] | Views:
    """Copies of one or more samples on a device, in one buffer, copied at once."""
    source = Device("gpu", samples.device_id) if isinstance(samples, Views) else device_of(samples[0])
    if source.device_type == "cpu":
        return copies(samples) if device == source else _to_gpu(samples, device)
    if device.device_type == "cpu":
        return _to_host(samples, source)
    views = _packed_views(samples, source)
    if device == source:
        return views if views is not samples else _rebased(views, moved(views.keeper, device))
    return _rebased(views, _between(views.keeper, source, device))


def gathered(samples: Sequence[Array], target: Array | Views) -> None:
    """Copy samples of a GPU into other memory there in one launch on the current stream, zeros behind smaller ones.

    Args:
        samples: Of any strides.
        target: One (N, ...) C-contiguous array, or views of C-contiguous memory, whose extents are as large or larger.
    """
    table = described(samples)
    places = described(target)
    window(table, places, starts=None if (table.shapes == places.shapes).all() else numpy.zeros_like(table.shapes))


def _to_gpu(samples: Sequence[Array], device: Device) -> Views:
    shapes = numpy.array([sample.shape for sample in samples], numpy.int64).reshape(len(samples), samples[0].ndim)
    with cuda.working(device.device_id):
        views = allocated(shapes, samples[0].dtype)
        for part, start, stop in _parts(views):
            _send(samples[part], views.table.take(part), views.keeper.data + start, stop - start, device)
    return views


def _parts(views: Views) -> list[tuple[slice, int, int]]:
    """The samples in parts that fit into a block, if at all: which, and where they begin and end in the buffer."""
    starts = (views.table.pointers - views.table.pointers[:1]).astype(numpy.int64)
    ends = starts + views.table.nbytes
    parts, first = [], 0
    for i in range(1, len(views) + 1):
        if i == len(views) or ends[i] - starts[first] > _LARGEST:
            parts.append((slice(first, i), int(starts[first]), int(ends[i - 1])))
            first = i
    return [part for part in parts if part[2] > part[1]]


def _send(samples: Sequence[Array], table: Described, target: Any, size: int, device: Device) -> None:
    stream = cuda.cupy().cuda.get_current_stream()
    slot = _slot(device.device_id or 0)
    with slot.lock:
        address, block = slot.block(size)
        places = _host_views(table, block)
        _copy_each(places, samples, size)
        target.copy_from_host_async(address, size, stream)
        slot.event = stream.record()


def _to_host(samples: Sequence[Array], source: Device) -> list[Array]:
    with cuda.working(source.device_id):
        views = _packed_views(samples, source)
        made: list[Array] = []
        for part, start, stop in _parts(views) or [(slice(None), 0, 0)]:
            made += _receive(views, part, start, stop - start, source)
    return made


def _receive(views: Views, part: slice, start: int, size: int, source: Device) -> list[Array]:
    host = empty((size,), numpy.dtype(numpy.uint8))
    table = views.table.take(part)
    places = _host_views(table, host)
    if not size:
        return places
    stream = cuda.cupy().cuda.get_current_stream()
    slot = _slot(source.device_id or 0)
    with slot.lock:
        address, block = slot.block(size)
        (views.keeper.data + start).copy_to_host_async(address, size, stream)
        stream.record().synchronize()
        _copy_each(places, _host_views(table, block), size)
    return places


def _copy_each(targets: list[Array], sources: Sequence[Array], size: int) -> None:
    def one(i: int) -> None:
        targets[i][...] = sources[i]

    pool.run(one, len(targets), 2 * size)


def _host_views(table: Described, block: Array) -> list[Array]:
    """The samples that a table has in a GPU's buffer, at the same distances in a block of host memory."""
    offsets = (table.pointers - table.pointers[:1]).tolist()
    return [
        numpy.ndarray(shape, table.dtype, block, offset) if size else numpy.empty(shape, table.dtype)
        for shape, offset, size in zip(table.shapes.tolist(), offsets, table.nbytes.tolist(), strict=True)
    ]


def _packed_views(samples: Sequence[Array], source: Device) -> Views:
    """Samples of a GPU in one buffer: these, where they are, else copies."""
    if isinstance(samples, Views) and samples.packed:
        return samples
    table = described(samples)
    with cuda.working(source.device_id):
        if len(samples) == 1 and not isinstance(samples, Views) and samples[0].flags.c_contiguous:
            return Views(table, samples[0].device.id, samples[0], packed=True)
        views = allocated(table.shapes, table.dtype)
        gathered(samples, views)
    return views


def _rebased(views: Views, buffer: Array) -> Views:
    """The samples of one buffer in a copy of it."""
    table = views.table
    pointers = table.pointers - numpy.uint64(views.keeper.data.ptr) + numpy.uint64(buffer.data.ptr)
    return Views(Described(pointers, table.shapes, table.strides, table.dtype), buffer.device.id, buffer, packed=True)


def _between(array: Array, source: Device, device: Device) -> Array:
    """A copy on another GPU, made on its current stream once the array is ready."""
    with cuda.working(source.device_id):
        array = array if array.flags.c_contiguous else array.copy()
        ready, home = cuda.cupy().cuda.get_current_stream().record(), cuda.cupy().cuda.get_current_stream()
    with cuda.working(device.device_id):
        stream = cuda.cupy().cuda.get_current_stream()
        stream.wait_event(ready)
        made = cuda.cupy().array(array)
        done = stream.record()
    with cuda.working(source.device_id):
        home.wait_event(done)  # the memory is not used again before it is read
    return made
