"""Batches pass from workers to the trainer in memory that is used again, without a copy.

In a worker the allocator of large results makes its blocks of segments, files in memory without names: the last
operator writes a batch where it will be read. A message has a descriptor of the segment and the place of the tensor in
it. The receiver keeps segments mapped as long as their worker has them.

Who still reads is known to the kernel: each message has an open file of its own with a shared lock, which lasts until
message and tensor are gone, or their process. Until then the worker keeps its tensor, so that the allocator does not
lend the block again.

A trainer may write into its tensors. So it shares memory only where nothing else in the worker refers to it; of other
memory, such as a result that is given with each batch, it has a private mapping.

Small tensors are in the message. Everything else goes torch's way: tensors of other memory, and all where Linux, room
or descriptors are missing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import mmap
import multiprocessing
import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from dynamic._arrays import memory
from dynamic._base.locks import new_lock

if sys.platform == "linux":
    import fcntl
    from multiprocessing.reduction import DupFd

if TYPE_CHECKING:
    import torch

    from dynamic import Batch

__all__ = ["alone", "hand_over_results", "in_one"]

_SMALL = 1 << 14  # bytes of a tensor in the message, of which a pipe has room for several
_SMALLEST = 1 << 20  # bytes of a segment; to send a descriptor costs more than to copy less
_LIMIT = 1 << 30  # bytes of blocks: those that are sent or read, beside those of other results
_MOST = 128  # segments at a time, each of which takes two descriptors


class _Place(NamedTuple):
    """A tensor in memory."""

    start: int  #: in bytes
    dtype: torch.dtype
    shape: torch.Size
    strides: Sequence[int]

    def of(self, buffer: Any) -> torch.Tensor:
        """The tensor in this memory, which it keeps."""
        import torch

        storage = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
        start = self.start // self.dtype.itemsize
        return torch.empty(0, dtype=self.dtype).set_(storage, start, self.shape, self.strides)


# -- in a worker ------------------------------------------------------------------------------------------------------


class _Segment(mmap.mmap):
    """A file in memory, with all its pages."""

    file: int
    name: bytes
    address: int
    alone: Any  #: a reference to the owner of its memory, where that belongs to one tensor alone

    def is_read(self) -> bool:
        """Whether there is a message, or a tensor of one."""
        assert sys.platform == "linux"
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.file, fcntl.LOCK_UN)
        return False


_segments: weakref.WeakValueDictionary[bytes, _Segment] = weakref.WeakValueDictionary()  # by name
_sent: list[tuple[_Segment, torch.Tensor]] = []
_lock = new_lock()


@functools.cache
def hand_over_results() -> None:
    """Let this process, a worker, hand large results over from now on."""
    import torch

    if sys.platform == "linux":
        memory.make_blocks_of(_segment, _LIMIT)
        ForkingPickler.register(torch.Tensor, _reduced)


def _segment(size: int) -> _Segment | None:
    """Memory for a block of the allocator; None leaves it to NumPy."""
    assert sys.platform == "linux"
    with _lock, contextlib.suppress(OSError), contextlib.ExitStack() as undo:  # there is no room, or no descriptor
        if size < _SMALLEST or len(_segments) >= _MOST:
            return None
        file = os.memfd_create("dynamic", os.MFD_CLOEXEC)
        undo.callback(os.close, file)
        os.posix_fallocate(file, 0, size)  # a page that is missing later would end the process
        segment = _Segment(file, size)
        weakref.finalize(segment, undo.pop_all().close)
        segment.file, segment.name, segment.alone = file, os.urandom(8), None
        segment.address = numpy.frombuffer(segment, numpy.uint8).ctypes.data
        _segments[segment.name] = segment
        return segment
    return None


def _found(tensor: torch.Tensor) -> tuple[_Segment, _Place] | None:
    """The segment in which a tensor is, and where."""
    address = tensor.data_ptr() if tensor.device.type == "cpu" else 0
    with _lock:
        segment = next((each for each in _segments.values() if 0 <= address - each.address < len(each)), None)
    if segment is None or (start := address - segment.address) % tensor.dtype.itemsize:
        return None
    return segment, _Place(start, tensor.dtype, tensor.shape, tensor.stride())


def alone(tensors: dict[str, Any], parts: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Find out to whose memory nothing else in this process refers.

    Args:
        tensors: To which nobody else refers. They are replaced by others of the same memory.
        parts: The shapes of the samples of those that become lists.
    """
    for name in list(tensors):
        if (found := _found(tensors[name])) is not None:
            segment, place = found
            lent = memory.lend_again(segment, functools.partial(tensors.__setitem__, name, None))
            if lent is not None:
                owner, nobody_else = lent
                tensors[name], segment.alone = place.of(owner), weakref.ref(owner) if nobody_else else None
    return tensors | {name: _Parts(tensors[name], shapes) for name, shapes in parts.items()}


def _reduced(tensor: torch.Tensor) -> Any:
    """A tensor as a message has it."""
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    odd = tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.requires_grad
    if odd or tensor.layout != torch.strided or tensor.device.type != "cpu" or not tensor.numel():
        return reduce_tensor(tensor)
    if tensor.nbytes <= _SMALL:
        whole = tensor.clone(memory_format=torch.contiguous_format)
        place = _Place(0, tensor.dtype, tensor.shape, whole.stride())
        return place.of, (bytearray(whole.view(-1).view(torch.uint8).numpy()),)
    with _lock:
        _sent[:] = [each for each in _sent if each[0].is_read()]
        message = _handed_over(tensor)
    return reduce_tensor(tensor) if message is None else (_received, message)


def _handed_over(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """The arguments of `_received` for a tensor in a segment; None for others, and where that cannot be."""
    assert sys.platform == "linux"
    if (found := _found(tensor)) is None:
        return None
    segment, place = found
    with contextlib.suppress(OSError), contextlib.ExitStack() as undo:
        file = os.open(f"/proc/self/fd/{segment.file}", os.O_RDWR)  # os.dup would give it no lock of its own
        undo.callback(os.close, file)
        fcntl.flock(file, fcntl.LOCK_SH)
        if segment.is_read():  # or locks say nothing here
            is_alone = segment.alone is not None and segment.alone() is not None
            message = DupFd(file), place, len(segment), is_alone, segment.name, set(_segments), os.getpid()
            _sent.append((segment, tensor))
            return message
    return None


def in_one(output: Batch) -> torch.Tensor:
    """The elements of all samples in one tensor, in memory that can be handed over."""
    import torch

    parts = [sample.torch().reshape(-1) for sample in output]
    size = sum(part.nbytes for part in parts)
    if not size or parts[0].device.type != "cpu":
        return torch.cat(parts) if parts else torch.empty(0)
    whole = torch.from_numpy(memory.empty((size,), numpy.dtype("uint8"))).view(parts[0].dtype)
    return torch.cat(parts, out=whole)


class _Parts:
    """Tensors of several shapes in one, which goes to the trainer as one message, and is a list of them there.

    Args:
        whole: The elements of all.
        shapes: Of each.
    """

    def __init__(self, whole: torch.Tensor, shapes: Sequence[Sequence[int]]) -> None:
        self._whole, self._shapes = whole, shapes

    def __reduce__(self) -> Any:
        return _parted, (self._whole, self._shapes)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(_parted(self._whole, self._shapes))

    def __len__(self) -> int:
        return len(self._shapes)


def _parted(whole: torch.Tensor, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    sizes = [math.prod(shape) for shape in shapes]
    return [part.view(shape) for part, shape in zip(whole.split(sizes), shapes, strict=True)] if shapes else []


# -- in the trainer ---------------------------------------------------------------------------------------------------

_mapped: dict[int, dict[bytes, torch.UntypedStorage]] = {}  # by worker and name
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mapped.clear)


def _received(
    sent: Any, place: _Place, size: int, is_alone: bool, name: bytes, names: set[bytes], worker: int
) -> torch.Tensor:
    """The tensor of a message."""
    import torch

    file = sent.detach()
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, file)
        maps = _maps(worker) if is_alone else {}
        for gone in maps.keys() - names:
            del maps[gone]
        if name not in maps:  # by opening it anew, as a mapping would keep the lock of `file`
            maps[name] = torch.UntypedStorage.from_file(f"/proc/self/fd/{file}", is_alone, size)
        memory = torch.empty(0, dtype=torch.uint8).set_(maps[name]).numpy()
        weakref.finalize(memory, undo.pop_all().close).atexit = False
    return place.of(memory)


def _maps(worker: int) -> dict[bytes, torch.UntypedStorage]:
    """The mapped segments of a process, for as long as it is known as a child of this one."""
    if worker not in _mapped:
        process = next((each for each in multiprocessing.active_children() if each.pid == worker), None)
        if process is None:
            return {}
        _mapped[worker] = {}
        weakref.finalize(process, _mapped.pop, worker, None)
    return _mapped[worker]
