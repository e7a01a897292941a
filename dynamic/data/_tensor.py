"""One array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from dynamic import _repr
from dynamic._arithmetic import evaluate, operand
from dynamic._array import Array, device_of, moved
from dynamic._layout import after_indexing, combined
from dynamic._origin import Origin
from dynamic.devices import Device, DeviceLike
from dynamic.errors import ArgumentError, DeviceError

from ._operators import Data, foreign_operand, wanted_device

if TYPE_CHECKING:
    import jax
    import torch


class Tensor(Data):
    """One array of numbers on one device, with an optional layout such as "HWC".

    Made by `as_tensor` (shares memory) and `tensor` (copies), and by operators. A Tensor never changes: indexing gives
    views, operators give new Tensors, and a read-only array stays read-only.

    Args:
        array: A numpy or cupy array of a supported dtype, taken as it is.
        layout: A letter for each dimension.
        origin: Where the sample came from.

    >>> t = as_tensor([[1, 2], [3, 4]], layout="HW")
    >>> t
    Tensor(
        [[1 2]
         [3 4]],
        dtype=i32,
        layout="HW",
        device="cpu",
        shape=(2, 2))
    >>> (t[0] + 0.5).tolist()
    [1.5, 2.5]
    """

    __slots__ = ("_array", "_layout", "_origin")

    def __init__(self, array: Array, layout: str | None = None, origin: Origin | None = None) -> None:
        self._array, self._layout, self._origin = array, layout, origin

    @property
    def array(self) -> Array:
        """The storage: a numpy.ndarray, or a cupy.ndarray on a GPU. Not to be written to."""
        return self._array

    @property
    def layout(self) -> str | None:
        """What each dimension is, a letter each ("HWC"), or None."""
        return self._layout

    @property
    def origin(self) -> Origin | None:
        """Where the sample came from, if a reader gave it."""
        return self._origin

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self._array.ndim)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._array.size)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self._array.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._array.nbytes)

    @property
    def _numpy_dtype(self) -> numpy.dtype[Any]:
        dtype: numpy.dtype[Any] = self._array.dtype
        return dtype

    @property
    def device(self) -> Device:
        """Where the data is."""
        return device_of(self._array)

    def to_device(self, device: DeviceLike, force_copy: bool = False) -> Tensor:
        """The Tensor on a device: itself where it is there already and no copy is forced."""
        target = wanted_device(device)
        if target == self.device and not force_copy:
            return self
        return Tensor(moved(self._array, target), self._layout, self._origin)

    def item(self) -> bool | int | float:
        """The only element as a Python number.

        Raises:
            ValueError: There are more elements, or none.
        """
        if self.size != 1:
            raise ValueError(f"Tensor has {self.size} elements, expected 1")
        value: bool | int | float = self._array.item()
        return value

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        return self._array.tolist()

    def numpy(self) -> NDArray[Any]:
        """A NumPy array over the same memory, read-only where this Tensor's is; a Tensor on a GPU must move first."""
        return self.__array__()

    def torch(self, copy: bool | None = None) -> torch.Tensor:
        """A torch tensor of the elements.

        Args:
            copy: False shares the memory or raises, True copies, None shares where torch can: it cannot represent
                read-only memory or negative strides.

        Raises:
            BufferError: `copy` is False and the memory cannot be shared.
        """
        return torch_tensor(self._array, copy)

    def jax(self) -> jax.Array:
        """The elements as an array of JAX, on the GPU where they are there, else on JAX's default device.

        Raises:
            ArgumentError: The dtype has 64 bits, which JAX would halve without a word unless ``jax_enable_x64`` is set.
        """
        return jax_array(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not isinstance(self._array, numpy.ndarray):
            raise TypeError(f"This Tensor is on {self.device}; move it with .cpu() first.")
        return numpy.array(self._array, dtype=dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if isinstance(self._array, numpy.ndarray):
            raise AttributeError("This Tensor is on the CPU; move it with .gpu() first.")  # noqa: TRY004 - hasattr asks
        interface: dict[str, Any] = self._array.__cuda_array_interface__
        return interface

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        array = self._array
        if any(stride < 0 for stride in array.strides):  # torch.from_dlpack aborts the process on one
            if copy is False:
                raise BufferError("A negative stride cannot be exported through DLPack without a copy.")
            array = array.copy()
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._array.__dlpack_device__()
        return int(kind), int(index)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or "out" in kwargs:
            return self._reduced(ufunc, method, inputs, kwargs)
        arrays, layouts = [], []
        for x in inputs:
            if isinstance(x, Tensor):
                arrays.append(x._array)
                layouts.append(x._layout)
                continue
            array = operand(x)
            if array is None:
                array = foreign_operand(x) if not isinstance(x, Data) else None
            if array is None:
                return NotImplemented
            arrays.append(array)
        refuse_mixed_devices(arrays)
        result = evaluate(ufunc, arrays, kwargs)
        if isinstance(result, tuple):
            return tuple(self._wrapped(part, layouts) for part in result)
        return self._wrapped(result, layouts)

    def _wrapped(self, result: Any, layouts: list[str | None]) -> Tensor:
        array = result if result.__class__ is numpy.ndarray else numpy.asarray(result)
        return Tensor(array, combined(layouts, array.ndim, "arithmetic"), self._origin)

    def _reduced(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``numpy.add.reduce(tensor)`` and its like: NumPy's own, on the arrays; nothing is written into a Tensor."""
        if method in ("at", "__call__") or kwargs.get("out") is not None:
            return NotImplemented
        arrays = [x._array if isinstance(x, Tensor) else x for x in inputs]
        return Tensor(numpy.asarray(getattr(ufunc, method)(*arrays, **kwargs)))

    def __getitem__(self, index: Any) -> Tensor:
        plain = plain_index(index)
        part = self._array[plain]
        if part.__class__ is not numpy.ndarray and isinstance(part, numpy.generic):
            part = numpy.asarray(part)
        return Tensor(part, after_indexing(self._layout, plain, part.ndim), self._origin)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a Tensor with no dimensions")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a Tensor with no dimensions")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        found = self == value
        return bool(found._array.any()) if isinstance(found, Tensor) else False

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"The truth value of a Tensor of {self.size} elements is ambiguous.")
        return bool(self._array.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.ndim or self._array.dtype.kind not in "iu":
            raise TypeError(f"only an integer Tensor with no dimensions is an index, not {self.dtype} {self.shape}")
        return int(self._array)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return _repr.of_tensor(self)

    def _repr_html_(self) -> str:
        return _repr.html_of(repr(self), [self._array], self._layout)

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        return _restored, (moved(self._array, Device.CPU), self._layout, self._origin, self.device)


def _restored(array: Array, layout: str | None, origin: Origin | None, device: Device) -> Tensor:
    return Tensor(moved(array, device), layout, origin)


def plain_index(index: Any) -> tuple[Any, ...]:
    """An index with Tensors, lists and NumPy integers in it as one that NumPy and CuPy understand."""
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(_plain_entry(entry) for entry in entries)


def _plain_entry(entry: Any) -> Any:
    if entry.__class__ is int or entry is None or entry is Ellipsis:
        return entry
    if isinstance(entry, slice):
        bounds = (entry.start, entry.stop, entry.step)
        return slice(*(b if b is None or b.__class__ is int else b.__index__() for b in bounds))
    if isinstance(entry, bool):
        raise IndexError("a bool is no index; index with an array of bools, or with int(...)")
    if isinstance(entry, Tensor):
        return entry._array if entry.ndim or entry._array.dtype.kind == "b" else entry.__index__()
    if isinstance(entry, list):
        array = numpy.asarray(entry)
        return array if array.size else array.astype(numpy.intp)
    return entry


def refuse_mixed_devices(arrays: list[Array]) -> None:
    """Raise DeviceError where arrays of different devices meet; numbers go anywhere."""
    if all(isinstance(a, (numpy.ndarray, numpy.generic)) for a in arrays):
        return
    devices = {str(device_of(a)) for a in arrays if getattr(a, "ndim", 0)}
    if len(devices) > 1:
        raise DeviceError(f"Operands are on {' and '.join(sorted(devices))}; move them to one device first.")


def torch_tensor(array: Array, copy: bool | None) -> torch.Tensor:
    """A torch tensor over an array's memory, or over a copy of it."""
    import torch

    if not isinstance(array, numpy.ndarray):
        shared = torch.from_dlpack(array)
        return shared.clone() if copy else shared
    shareable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    if copy is False and not shareable:
        raise BufferError("torch cannot share memory that is read-only or has negative strides; pass copy=None.")
    return torch.from_numpy(array.copy() if copy or not shareable else array)


def jax_array(array: Array) -> jax.Array:
    """An array of JAX with the elements of another, of the same dtype."""
    import jax

    if array.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
        hint = "Cast it, or call jax.config.update('jax_enable_x64', True)."
        raise ArgumentError("jax", "data", "of at most 32 bits", str(array.dtype), hint)
    return jax.numpy.asarray(array) if isinstance(array, numpy.ndarray) else jax.dlpack.from_dlpack(array)
