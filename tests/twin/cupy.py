"""A stand-in for cupy over host memory: as much of it as `dynamic` uses, and nothing else.

What is not listed here does not exist, so this file is the list of what the library asks of cupy. Where cupy differs
from NumPy, this does too: a part of an array and a reduction are arrays, never scalars; nothing becomes a NumPy array
unless `get` is called; NumPy arrays and cupy's are not mixed; an array of one device is not used on another.
"""

from __future__ import annotations

import math
import operator
import types
from typing import Any

import numpy

from . import device as _device

_UFUNCS = """
    abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_count bitwise_or
    bitwise_xor cbrt ceil conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs
    float_power floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert
    isfinite isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor maximum minimum mod modf multiply negative nextafter
    not_equal positive power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh sqrt
    square subtract tan tanh true_divide trunc
""".split()  # noqa: SIM905
_FUNCTIONS = """
    argmax clip concatenate expand_dims flatnonzero matmul nan_to_num searchsorted stack take where zeros_like
""".split()  # noqa: SIM905
_DTYPES = """
    bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 intp
""".split()  # noqa: SIM905
inf, pi, newaxis = numpy.inf, numpy.pi, None


class ndarray:
    """An array in the memory of a device."""

    __hash__ = None
    __array_priority__ = 100

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
        self.dtype = numpy.dtype(dtype)
        packed = numpy.lib.stride_tricks.as_strided(numpy.empty(0, self.dtype), self.shape, None).strides
        if strides is None:
            steps = [self.dtype.itemsize * math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]
            packed = tuple(steps)
        self.strides = packed if strides is None else tuple(strides)
        self.data = _device.alloc(self.nbytes) if memptr is None else memptr
        self.base: ndarray | None = None

    # What is known without the data

    @property
    def device(self) -> _device.Device:
        return _device.Device(self.data.device_id)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        flags = self._view().flags
        return types.SimpleNamespace(c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # Its data

    def _view(self) -> numpy.ndarray[Any, Any]:
        """The memory as it is now, whatever is queued."""
        if not self.size:
            return numpy.empty(self.shape, self.dtype)
        keeper = types.SimpleNamespace(__array_interface__={
            "data": (self.data.ptr, False), "shape": self.shape, "strides": self.strides, "typestr": self.dtype.str,
            "version": 3})  # fmt: skip
        return numpy.asarray(keeper)

    def _now(self, *, anywhere: bool = False) -> numpy.ndarray[Any, Any]:
        """What an operation on the current stream of the current device reads."""
        if not anywhere and self.data.device_id != _device.Device().id:
            raise ValueError(f"Array device must be same as the current device: array device = {self.data.device_id} "
                             f"while current = {_device.Device().id}")  # fmt: skip
        _device.get_current_stream(self.data.device_id).synchronize() if not anywhere else self._wait()
        return self._view().copy()

    def _wait(self) -> None:
        with self.device:
            _device.get_current_stream().synchronize()

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        host = self._now(anywhere=True).copy(order)
        if out is None:
            return host
        out[...] = host
        return out

    def item(self) -> Any:
        return self.get().item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
                        "array explicitly.")  # fmt: skip

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **arguments: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return globals()[ufunc.__name__](*inputs, **arguments)

    # Views

    def _viewing(self, view: numpy.ndarray[Any, Any]) -> ndarray:
        offset = view.__array_interface__["data"][0] - self.data.ptr if view.size else 0
        made = ndarray(view.shape, view.dtype, self.data + offset, view.strides)
        made.base = self if self.base is None else self.base
        return made

    def _outline(self) -> numpy.ndarray[Any, Any]:
        return self._view()

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        view = self._view()
        made = view.reshape(shape)
        return (
            self._viewing(made)
            if not view.size or numpy.shares_memory(made, view)
            else _new(self._now().reshape(shape))
        )

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1)

    def view(self, dtype: Any = None) -> ndarray:
        return self._viewing(self._view().view(self.dtype if dtype is None else dtype))

    def transpose(self, *axes: Any) -> ndarray:
        return self._viewing(self._view().transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return self._viewing(self._view().swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> ndarray:
        return self._viewing(self._view().squeeze(axis))

    @property
    def T(self) -> ndarray:
        return self.transpose()

    def __getitem__(self, index: Any) -> ndarray:
        entries = index if isinstance(index, tuple) else (index,)
        if all(e is None or e is Ellipsis or isinstance(e, (int, numpy.integer, slice)) for e in entries):
            return self._viewing(self._view()[(*entries, ...) if Ellipsis not in entries else entries])
        return _new(self._now()[_index(entries, self.shape)])

    def __setitem__(self, index: Any, value: Any) -> None:
        entries = index if isinstance(index, tuple) else (index,)
        plain, content, view = _index(entries, self.shape), _operand(value), self._view()
        self._now()

        def write() -> None:
            with numpy.errstate(all="ignore"):
                view[plain] = content

        _device.get_current_stream()._queue().add(write)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    # Copies

    def copy(self, order: str = "C") -> ndarray:
        if self.data.device_id == _device.Device().id:
            return _new(self._now().copy(order))
        assert self.flags.c_contiguous, "cupy copies to another device by itself only what is contiguous"
        made = ndarray(self.shape, self.dtype)
        made.data.copy_from_device_async(self.data, self.nbytes)
        return made

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if not copy and self.dtype == dtype:
            return self
        with numpy.errstate(all="ignore"):
            return _new(self._now().astype(dtype))

    def fill(self, value: Any) -> None:
        self[...] = value

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, numpy.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        content, view = arr.copy(), self._view()
        (stream or _device.get_current_stream())._queue().add(lambda: numpy.copyto(view, content))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        with numpy.errstate(all="ignore"):
            return _new(self._now().sum(axis, dtype, keepdims=keepdims))

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return _new(self._now().any(axis, keepdims=keepdims))

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return _new(self._now().all(axis, keepdims=keepdims))

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return _new(self._now().min(axis, keepdims=keepdims))

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return _new(self._now().max(axis, keepdims=keepdims))

    # Exchange

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        contiguous = self.flags.c_contiguous
        return {"data": (self.data.ptr, False), "shape": self.shape, "strides": None if contiguous else self.strides,
                "typestr": self.dtype.str, "descr": [("", self.dtype.str)], "version": 3,
                "stream": _device.get_current_stream(self.data.device_id).ptr or 1}  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        from . import capsules

        return capsules.exported(self, stream, max_version, dl_device, copy)


def _method(name: str, *, reflected: bool = False) -> Any:
    def method(self: ndarray, *others: Any) -> Any:
        if any(isinstance(other, numpy.ndarray) for other in others):
            return NotImplemented
        values = [_operand(x) for x in ((*others, self) if reflected else (self, *others))]
        with numpy.errstate(all="ignore"):
            return _new(getattr(operator, name)(*values))

    return method


def _in_place(name: str) -> Any:
    def method(self: ndarray, other: Any) -> ndarray:
        host = self._now()
        result = getattr(operator, name)(host, _operand(other))
        self[...] = _new(numpy.asarray(result).astype(host.dtype, casting="same_kind"))
        return self

    return method


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"]:
    _plain = {"and": "and_", "or": "or_"}.get(_name, _name)
    setattr(ndarray, f"__{_name}__", _method(_plain))
    setattr(ndarray, f"__r{_name}__", _method(_plain, reflected=True))
    setattr(ndarray, f"__i{_name}__", _in_place(_plain))
for _name in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs"]:
    setattr(ndarray, f"__{_name}__", _method(_name))


def _index(entries: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index as NumPy takes it; integers in arrays that are out of bounds wrap around, as on a GPU."""
    values = [entry._now() if isinstance(entry, ndarray) else entry for entry in entries]
    values = [
        numpy.asarray(value, None if value else numpy.intp) if isinstance(value, list) else value for value in values
    ]
    takes = [0 if v is None or v is Ellipsis else v.ndim if getattr(v, "dtype", 0) == "?" else 1 for v in values]
    plain, axis = [], 0
    for value, taken in zip(values, takes, strict=True):
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "iu":
            value = value % max(1, shape[axis])
        axis += len(shape) - sum(takes) if value is Ellipsis else taken
        plain.append(value)
    return tuple(plain)


def _operand(value: Any) -> Any:
    """A value as an operation reads it: arrays of a GPU and scalars, no NumPy arrays."""
    if isinstance(value, ndarray):
        return value._now() if value.ndim else value._now()[()]
    if isinstance(value, (bool, int, float, numpy.generic)) or value is None:
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _new(value: Any) -> Any:
    """A result, in new memory, once the current stream comes to it."""
    if isinstance(value, tuple):
        return tuple(map(_new, value))
    host = numpy.asarray(value)
    made = ndarray(host.shape, host.dtype)
    if host.size:
        view, content = made._view(), host.copy()
        _device.get_current_stream()._queue().add(lambda: numpy.copyto(view, content))
    return made


# Functions


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, blocking: bool = False
) -> ndarray:
    if isinstance(a, ndarray):
        there = a.data.device_id == _device.Device().id
        if there and not copy and dtype in (None, a.dtype):
            return a
        made = a.copy()
        return made if dtype is None else made.astype(dtype, copy=False)
    if hasattr(a, "__cuda_array_interface__"):
        return _of_interface(a, a.__cuda_array_interface__)
    if hasattr(a, "__cuda_array_interface__") or type(a).__name__ == "Tensor":
        raise AssertionError("the library hands no Tensors to cupy")
    return _new(numpy.asarray(a, dtype))


def array(
    obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False, ndmin: int = 0, *,
    blocking: bool = False,
) -> ndarray:  # fmt: skip
    return asarray(obj, dtype, copy=copy)


def _of_interface(owner: Any, interface: dict[str, Any]) -> ndarray:
    stream = interface.get("stream")
    if stream is not None:
        _device.queue(_device.Device().id, 0 if stream == 1 else stream).run(
            _device.queue(_device.Device().id, 0 if stream == 1 else stream).queued
        )
    dtype = numpy.dtype(interface["typestr"])
    size = math.prod(interface["shape"]) * dtype.itemsize
    memory = _device.MemoryPointer(_device.UnownedMemory(interface["data"][0], size, owner), 0)
    return ndarray(interface["shape"], dtype, memory, interface.get("strides"))


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray(shape, dtype)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _new(numpy.zeros(shape, dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    return _new(numpy.full(shape, fill_value, dtype))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    return _new(numpy.arange(start, stop, step, dtype) if stop is not None else numpy.arange(start, dtype=dtype))


def broadcast_to(array: ndarray, shape: Any) -> ndarray:
    return array._viewing(numpy.broadcast_to(array._view(), shape))


def from_dlpack(array: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    from . import capsules

    return capsules.imported(array)


def _function(name: str) -> Any:
    plain = getattr(numpy, name)

    def function(*inputs: Any, **arguments: Any) -> Any:
        if isinstance(plain, numpy.ufunc) and len(inputs) > plain.nin:
            *inputs, arguments["out"] = inputs  # type: ignore[assignment]
        values = [[_operand(x) for x in value] if isinstance(value, (list, tuple)) else _operand(value)
                  for value in inputs]  # fmt: skip
        out = arguments.pop("out", None)
        arguments = {key: _operand(v) if isinstance(v, ndarray) else v for key, v in arguments.items()}
        with numpy.errstate(all="ignore"):
            made = _new(plain(*values, **arguments))
        if out is None:
            return made
        out[...] = made
        return out

    function.__name__ = name
    return function


def _rfft(a: ndarray, n: int | None = None) -> ndarray:
    with numpy.errstate(all="ignore"):
        return _new(numpy.fft.rfft(_operand(a), n))  # type: ignore[no-any-return]


fft = types.SimpleNamespace(rfft=_rfft)
for _name in _UFUNCS + _FUNCTIONS:
    globals()[_name] = _function(_name)
for _name in _DTYPES:
    globals()[_name] = getattr(numpy, _name)


class RawModule:
    """A module of kernels, compiled for the host; a launch waits in its stream like anything else."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), **_: Any) -> None:
        from . import build

        self._module = build.RawModule(code=code, options=options)

    def get_function(self, name: str) -> Any:
        function = self._module.get_function(name)

        def launch(grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None) -> None:
            plain = tuple(numpy.uint64(a.data.ptr) if isinstance(a, ndarray) else a for a in args)
            queue = (stream or _device.get_current_stream())._queue()
            queue.add(lambda: function(grid, block, plain, shared_mem=shared_mem))

        return launch


cuda = types.SimpleNamespace(
    Device=_device.Device,
    Event=_device.Event,
    MemoryPointer=_device.MemoryPointer,
    Stream=_device.Stream,
    UnownedMemory=_device.UnownedMemory,
    alloc_pinned_memory=_device.alloc_pinned_memory,
    get_current_stream=_device.get_current_stream,
    is_available=lambda: True,
    runtime=types.SimpleNamespace(CUDARuntimeError=_device.CUDARuntimeError, getDeviceCount=lambda: _device.COUNT),
)
