"""A stand-in for torch with CUDA tensors, over the stand-in for cupy: as much of it as `dynamic` asks of a tensor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy

from . import cupy as _cupy
from . import device as _device


class dtype:
    """An element type."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return f"torch.{self.word}"


dtype.__module__ = "torch"
_WORDS = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16 complex64"
_DTYPES = {word: dtype(word) for word in _WORDS.split()}
globals().update(_DTYPES)
strided, sparse_coo = "torch.strided", "torch.sparse_coo"


class device:
    """Where a tensor is."""

    def __init__(self, type: str, index: int | None = None) -> None:
        self.type, self.index = type, index

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


device.__module__ = "torch"


class _Streams(threading.local):
    def __init__(self) -> None:
        self.current: dict[int, Stream] = {}


_streams = _Streams()


class Stream:
    """A stream; `cuda_stream` is its address."""

    def __init__(self, device: int | None = None, stream: Any = None) -> None:
        self._index = _device.Device().id if device is None else device
        with _device.Device(self._index):
            self.inner = _device.Stream(non_blocking=True) if stream is None else stream
        self.cuda_stream = self.inner.ptr

    def synchronize(self) -> None:
        with _device.Device(self._index):
            self.inner.synchronize()


class cuda:
    """`torch.cuda`."""

    Stream = Stream

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def current_stream(device: int | None = None) -> Stream:
        index = _device.Device().id if device is None else device
        return _streams.current.get(index) or Stream(index, _device.Stream.null)

    @staticmethod
    @contextlib.contextmanager
    def stream(stream: Stream) -> Iterator[None]:
        before = _streams.current.get(stream._index)
        _streams.current[stream._index] = stream
        try:
            yield
        finally:
            _streams.current[stream._index] = before


@contextlib.contextmanager
def _working(index: int) -> Iterator[None]:
    with _device.Device(index), cuda.current_stream(index).inner:
        yield


class Tensor:
    """A tensor on a GPU."""

    def __init__(self, array: Any, *, kind: Any = None, neg: bool = False) -> None:
        self._array, self._neg = array, neg
        self.dtype = kind or _DTYPES[{"bool": "bool"}.get(array.dtype.name, array.dtype.name)]
        self.requires_grad, self.layout, self.is_cuda = False, strided, True
        self.dlpack_calls = 0

    @property
    def device(self) -> device:
        return device("cuda", self._array.device.id)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        return self._array.ndim

    def size(self) -> tuple[int, ...]:
        return self._array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self._array.itemsize for step in self._array.strides)

    def data_ptr(self) -> int:
        return self._array.data.ptr if self._array.size else 0

    def untyped_storage(self) -> Any:
        return self._array.data.mem

    def is_neg(self) -> bool:
        return self._neg

    def is_conj(self) -> bool:
        return False

    def resolve_neg(self) -> Tensor:
        if not self._neg:
            return self
        with _working(self._array.device.id):
            return Tensor(-self._array)

    def requires_grad_(self) -> Tensor:
        self.requires_grad = True
        return self

    def detach(self) -> Tensor:
        return Tensor(self._array, neg=self._neg)

    def transpose(self, a: int, b: int) -> Tensor:
        return Tensor(self._array.swapaxes(a, b))

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        with _working(self._array.device.id):
            host = self._array.get()
        return -host if self._neg else host

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __mul__(self, other: Any) -> Tensor:
        with _working(self._array.device.id):
            return Tensor(self._array * other)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._array.device.id

    def __dlpack__(self, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        self.dlpack_calls += 1
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        assert stream != 0
        if stream == 2:
            raise BufferError("per-thread default stream is not supported.")
        with _working(self._array.device.id):
            return self._array.__dlpack__(stream=stream, max_version=max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.requires_grad:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")
        return self._array.__cuda_array_interface__


def as_tensor(values: Any, device: str = "cuda:0") -> Tensor:
    with _working(int(device.partition(":")[2] or 0)):
        return Tensor(_cupy.asarray(numpy.asarray(values)))


def from_dlpack(producer: Any) -> Tensor:
    kind, index = producer.__dlpack_device__()
    assert kind == 2, "the stand-in for torch has tensors on GPUs only"
    with _working(index):
        current = cuda.current_stream(index).cuda_stream
        capsule = producer.__dlpack__(stream=current or 1, max_version=(1, 0))

        class Given:
            def __dlpack__(self, **_: Any) -> Any:
                return capsule

            def __dlpack_device__(self) -> tuple[int, int]:
                return kind, index

        return Tensor(_cupy.from_dlpack(Given()))
