"""DLPack of the stand-in for cupy: NumPy's capsules of host memory that say they are of a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynamic._arrays.dlpack import Head, dtype_of

from . import device as _device


def exported(array: Any, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    if copy:
        raise NotImplementedError("cupy copies to the CPU only")
    if stream is None or stream > 0:
        theirs = _device.queue(array.data.device_id, 0 if stream in (None, 1) else stream)
        event = _device.get_current_stream(array.data.device_id).record()
        queue, place = event._queue, event._place
        theirs.add(lambda: queue.run(place))
    view = array._view()
    view = numpy.lib.stride_tricks.as_strided(_Keeping(view, array), view.shape, view.strides) if view.size else view
    capsule = view.__dlpack__(max_version=max_version)
    tensor = Head(capsule).tensor
    tensor.device_type, tensor.device_id = 2, array.data.device_id
    return capsule


class _Keeping:
    """Host memory that keeps the array that owns it."""

    def __init__(self, view: numpy.ndarray[Any, Any], owner: Any) -> None:
        self.__array_interface__ = view.__array_interface__
        self.owner = owner


class _OnHost:
    """The capsule of a GPU as one of the CPU, which NumPy takes."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def imported(producer: Any) -> Any:
    from . import cupy

    kind, index = producer.__dlpack_device__()
    if kind not in (2, 13):
        raise TypeError(f"unsupported device type {kind}")
    capsule = producer.__dlpack__(stream=_device.get_current_stream().ptr or 1, max_version=(1, 0))
    head = Head(capsule)
    if (head.tensor.device_type, head.tensor.device_id) != (kind, index):
        raise BufferError("the capsule is of another device than the producer says")
    assert dtype_of(*head.element) is not None
    head.tensor.device_type, head.tensor.device_id = 1, 0
    host = numpy.from_dlpack(_OnHost(capsule))
    memory = _device.UnownedMemory(host.__array_interface__["data"][0], math.prod(host.shape), host, index)
    return cupy.ndarray(host.shape, host.dtype, _device.MemoryPointer(memory, 0), host.strides)
