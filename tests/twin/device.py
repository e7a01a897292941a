"""Two GPUs of host memory: streams that run late, events, and memory that is spoiled when it is new and when freed.

Nothing runs when it is queued. A stream runs what was queued on it when somebody must see the result: the host, or
the next operation on the same stream. So work that is queued on one stream and read on another without an event
between them reads 0xCD, memory that is freed while another stream still needs it becomes 0xDD, and a staging buffer
that is filled again too early sends the wrong bytes.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Self

import numpy

COUNT = 2
NEW, FREED = 0xCD, 0xDD
_handles = itertools.count(0x10, 0x10)
_streams: weakref.WeakValueDictionary[int, BaseStream] = weakref.WeakValueDictionary()
#: Blocks that were freed, so that a late reader sees what was written over them and not a fault.
_quarantine: collections.deque[Any] = collections.deque(maxlen=256)


class CUDARuntimeError(RuntimeError):
    """As cupy's: what the CUDA runtime answers."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, BaseStream] = {}


_thread = _Thread()


class Device:
    """A device; entered, the current one of the thread."""

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = _thread.device if device is None else int(getattr(device, "id", device))
        self._before: list[int] = []

    def __enter__(self) -> Self:
        if not 0 <= self.id < COUNT:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self._before.append(_thread.device)
        _thread.device = self.id
        return self

    def __exit__(self, *_: object) -> None:
        _thread.device = self._before.pop()

    def use(self) -> None:
        _thread.device = self.id

    def synchronize(self) -> None:
        for stream in [*_queues[self.id].values()]:
            stream.run(stream.queued)

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    __hash__ = None  # type: ignore[assignment]  # as of cupy's

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


class _Queue:
    """What is queued on a handle of a device, in order."""

    def __init__(self) -> None:
        self.todo: collections.deque[Callable[[], None]] = collections.deque()
        self.queued = self.ran = 0
        self.lock = threading.RLock()

    def add(self, work: Callable[[], None]) -> None:
        with self.lock:
            self.todo.append(work)
            self.queued += 1

    def run(self, until: int) -> None:
        with self.lock:
            while self.ran < until:
                self.ran += 1
                self.todo.popleft()()


_queues: list[dict[int, _Queue]] = [{} for _ in range(COUNT)]


def queue(device: int, handle: int) -> _Queue:
    return _queues[device].setdefault(handle, _Queue())


class Event:
    """A place in a queue."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._queue, self._place = _Queue(), 0

    def record(self, stream: BaseStream | None = None) -> None:
        self._queue = (stream or get_current_stream())._queue()
        self._place = self._queue.queued

    @property
    def done(self) -> bool:
        return self._queue.ran >= self._place

    def synchronize(self) -> None:
        self._queue.run(self._place)


class BaseStream:
    """A stream of a device; entered, the current one of the thread."""

    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr, self.device_id = ptr, device_id
        self._before: list[BaseStream] = []

    def _queue(self) -> _Queue:
        return queue(_thread.device if self.device_id < 0 else self.device_id, self.ptr)

    def use(self) -> BaseStream:
        if self.device_id not in (-1, _thread.device):
            raise RuntimeError(f"Stream on device {self.device_id} cannot be used on device {_thread.device}")
        _thread.streams[_thread.device] = self
        return self

    def __enter__(self) -> Self:
        self._before.append(get_current_stream())
        self.use()
        return self

    def __exit__(self, *_: object) -> None:
        _thread.streams[_thread.device] = self._before.pop()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseStream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    @property
    def done(self) -> bool:
        return not self._queue().todo

    def synchronize(self) -> None:
        self._queue().run(self._queue().queued)

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        queue, place = event._queue, event._place
        self._queue().add(lambda: queue.run(place))


class Stream(BaseStream):
    """A new stream of the current device."""

    null: BaseStream
    ptds: BaseStream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        handle = 0 if null else 2 if ptds else next(_handles)
        super().__init__(handle, -1 if null or ptds else _thread.device)
        if handle > 2:
            _streams[handle] = self

    @staticmethod
    def from_external(obj: Any) -> BaseStream:
        version, handle = obj.__cuda_stream__()
        assert version == 0
        return BaseStream(int(handle), _thread.device)


Stream.null, Stream.ptds = BaseStream(0, -1), BaseStream(2, -1)


def get_current_stream(device_id: int = -1) -> BaseStream:
    return _thread.streams.get(_thread.device if device_id < 0 else device_id, Stream.null)


class Memory:
    """A block of a device; freed in the order of the stream on which it was allocated."""

    def __init__(self, size: int) -> None:
        self.size, self.device_id = size, _thread.device
        block = numpy.full(max(1, size), NEW, numpy.uint8)
        self.ptr = block.ctypes.data
        weakref.finalize(self, _free, block, get_current_stream()._queue()).atexit = False


def _free(block: numpy.ndarray[Any, Any], queue: _Queue) -> None:
    queue.add(lambda: block.fill(FREED))
    _quarantine.append(block)


class UnownedMemory:
    """A block that somebody else keeps."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = _thread.device if device_id < 0 else device_id


class MemoryPointer:
    """A place in a block."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id
        self._offset = offset

    @property
    def device(self) -> Device:
        return Device(self.device_id)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self._offset + offset)

    def copy_from_host_async(self, mem: Any, size: int, stream: BaseStream | None = None) -> None:
        self._copy(self.ptr, address(mem), size, stream)

    def copy_to_host_async(self, mem: Any, size: int, stream: BaseStream | None = None) -> None:
        self._copy(address(mem), self.ptr, size, stream)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: BaseStream | None = None) -> None:
        self._copy(self.ptr, src.ptr, size, stream)

    @staticmethod
    def _copy(target: int, source: int, size: int, stream: BaseStream | None) -> None:
        (stream or get_current_stream())._queue().add(lambda: copy_bytes(target, source, size))


def copy_bytes(target: int, source: int, size: int) -> None:
    if size:
        ctypes.memmove(target, source, size)


def address(memory: Any) -> int:
    return int(getattr(getattr(memory, "value", memory), "ptr", getattr(memory, "value", memory)))


def alloc(size: int) -> MemoryPointer:
    return MemoryPointer(Memory(size), 0)


def alloc_pinned_memory(size: int) -> Any:
    """Host memory with an address; a buffer, as cupy's is."""
    kind = type("PinnedMemoryPointer", (ctypes.c_ubyte * max(1, size),), {"ptr": property(ctypes.addressof)})
    block = kind()
    ctypes.memset(block, NEW, max(1, size))
    return block


def reset() -> None:
    """Run all that is queued anywhere, and make device 0 and the null stream current."""
    for queues in _queues:
        for one in [*queues.values()]:
            one.run(one.queued)
        queues.clear()
    _thread.device = 0
    _thread.streams.clear()
