"""One array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from numpy.typing import NDArray

from dynamic._arrays import cuda, dlpack
from dynamic._arrays.array import Array, device_of, is_array
from dynamic._base.layout import after_indexing, checked, combined
from dynamic._base.origin import Origin
from dynamic.devices import Device, DeviceLike
from dynamic.dtypes import DTypeLike
from dynamic.errors import ArgumentError

from . import _repr
from ._arithmetic import evaluate, operand, spoken, together
from ._index import new_axes, on_gpu, plain_index
from ._operators import Data, foreign_operand, into_arrays, no_operand, wanted_device
from ._storage import is_array_of_ours, ready
from ._transfer import moved

if TYPE_CHECKING:
    import jax
    import torch


class Tensor(Data):
    """One array of numbers on one device, with an optional layout such as "HWC".

    Made by `as_tensor` (shares memory) and `tensor` (copies), and by operators. A Tensor never changes: indexing gives
    views, operators give new Tensors, and a read-only array stays read-only.

    Args:
        data: Anything that `as_tensor` takes; its memory is shared where it can be.
        layout: A letter for each dimension.
        origin: Where the sample came from.
        dtype: Element type to convert to.
        device: Where to put it; by default where it is.

    >>> t = ndd.as_tensor([[1, 2], [3, 4]], layout="HW")
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

    __slots__ = ("__weakref__", "_array", "_layout", "_origin", "_ready")

    #: `as_tensor` with the name that errors have; set by `_interop`, which knows all that can be data.
    _of_anything: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        data: Any,
        layout: str | None = None,
        origin: Origin | None = None,
        *,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
    ) -> None:
        if dtype is None and device is None and is_array_of_ours(data):
            if layout is not None and (layout.__class__ is not str or len(layout) != data.ndim):
                layout = checked(layout, data.ndim, "Tensor")
        else:
            made: Tensor = Tensor._of_anything("Tensor", data, dtype, device, layout)
            data, layout, origin = made.array, made.layout, origin or made.origin
        self._array, self._layout, self._origin = data, layout, origin
        self._ready = None if data.__class__ is numpy.ndarray else ready(data)

    @property
    def array(self) -> Array:
        """The storage: a numpy.ndarray, or a cupy.ndarray that is ready on the current stream. Do not write to it."""
        if self._ready is not None:
            self._ready.here(self._array)
        return self._array

    @property
    def layout(self) -> str | None:
        """A letter for each dimension ("HWC"), or None."""
        return self._layout

    @property
    def origin(self) -> Origin | None:
        """Epoch, id and name of the sample, if a reader gave it; else None."""
        return self._origin

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each dimension, a tuple of integers."""
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
        """The device of the data: the CPU, or a GPU by number."""
        return device_of(self._array)

    def to_device(self, device: DeviceLike, force_copy: bool = False) -> Tensor:
        """Move the Tensor to a device. One that is there already is given back as it is.

        Args:
            device: "cpu", "gpu", "gpu:1" or a Device.
            force_copy: Whether to copy also where the data is there already.

        Returns:
            A Tensor of the same elements, layout and origin.

        Raises:
            DeviceError: This machine has no such device, or no CuPy.

        >>> t = ndd.as_tensor([1, 2])
        >>> t.to_device("cpu") is t, t.to_device("cpu", force_copy=True) is t
        (True, False)
        """
        target = wanted_device(device)
        if target == self.device and not force_copy:
            return self
        return Tensor(moved(self.array, target), self._layout, self._origin)

    def item(self) -> bool | int | float:
        """Return the only element as a Python number, from any number of dimensions.

        Returns:
            A bool, an int or a float.

        Raises:
            ValueError: There are more elements, or none.

        >>> ndd.as_tensor([[7]]).item()
        7
        """
        if self.size != 1:
            raise ValueError(f"Tensor has {self.size} elements, expected 1")
        value: bool | int | float = host(self).item()
        return value

    def tolist(self) -> Any:
        """Return the elements as Python numbers in nested lists; one number if there are no dimensions.

        >>> ndd.as_tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return host(self).tolist()

    def numpy(self) -> NDArray[Any]:
        """Return a read-only NumPy array over the same memory. ``numpy.array(tensor)`` makes a writable copy.

        Returns:
            An array of the same shape and dtype.

        Raises:
            TypeError: The Tensor is on a GPU; call ``cpu()`` first.

        >>> t = ndd.as_tensor(numpy.zeros((2, 3)))
        >>> t.numpy().shape, t.numpy().flags.writeable
        ((2, 3), False)
        """
        return self.__array__()

    def torch(self, copy: bool | None = None) -> torch.Tensor:
        """Return a torch tensor of the same shape, dtype and device.

        Args:
            copy: False shares the memory or raises; True copies; None shares where torch can. It cannot represent
                read-only memory, negative strides, or strides of parts of an element.

        Returns:
            A tensor that shares memory with this one, or owns a copy.

        Raises:
            ImportError: torch is not installed.
            BufferError: `copy` is False and the memory cannot be shared.
        """
        return torch_tensor(self, copy)

    def cupy(self) -> Any:
        """Return a CuPy array over the same memory, ready on the current stream.

        Raises:
            TypeError: The Tensor is on the CPU; call ``gpu()`` first.
        """
        if self._ready is None:
            raise TypeError("This Tensor is on the CPU; move it with .gpu() first.")
        return self.array

    def jax(self) -> jax.Array:
        """Return an array of JAX: on the same GPU, or from the CPU on JAX's default device.

        Returns:
            An array of the same shape and dtype.

        Raises:
            ImportError: JAX is not installed.
            ArgumentError: The dtype has 64 bits, and ``jax_enable_x64`` is not set: JAX would halve it in silence.
        """
        return jax_array(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not isinstance(self._array, numpy.ndarray):
            raise TypeError(f"This Tensor is on {self.device}; move it with .cpu() first.")
        array = numpy.array(self._array, dtype=dtype, copy=copy)
        if array is not self._array or not array.flags.writeable:
            return array
        view = array.view()
        view.setflags(write=False)
        return view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if isinstance(self._array, numpy.ndarray):
            raise AttributeError("This Tensor is on the CPU; move it with .gpu() first.")  # noqa: TRY004 - hasattr asks
        array = self.array
        with cuda.working(array.device.id):
            interface: dict[str, Any] = array.__cuda_array_interface__
        return interface

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.exported(self.array, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._array.__dlpack_device__()
        return int(kind), int(index)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs or method == "at":
            return into_arrays(ufunc, method, inputs, kwargs)
        if method != "__call__":
            return self._reduced(ufunc, method, inputs, kwargs)
        arrays, layouts = [], []
        for x in inputs:
            if isinstance(x, Tensor):
                arrays.append(x.array)
                layouts.append(x._layout)
                continue
            array = operand(x)
            if array is None:
                array = foreign_operand(x) if not isinstance(x, Data) else None
            if array is None:
                return no_operand(ufunc, inputs, x)
            arrays.append(array)
        try:
            result = evaluate(ufunc, together(inputs, arrays), kwargs)
        except Exception as error:
            error.add_note(f"In {ufunc.__name__}.")
            raise
        if isinstance(result, tuple):
            return tuple(self._wrapped(part, layouts, ufunc) for part in result)
        return self._wrapped(result, layouts, ufunc)

    def _wrapped(self, result: Any, layouts: list[str | None], ufunc: Any) -> Tensor:
        array = result if is_array(result) else numpy.asarray(result)
        return Tensor(array, combined(layouts, array.ndim, spoken(ufunc)), self._origin)

    def _reduced(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``numpy.add.reduce(tensor)`` and its like: NumPy's own, on the arrays."""
        arrays = [x._array if isinstance(x, Tensor) else x for x in inputs]
        return Tensor(numpy.asarray(getattr(ufunc, method)(*arrays, **kwargs)))

    def __getitem__(self, index: Any) -> Tensor:
        plain = plain_index(index)
        part = self._array[plain] if self._ready is None else on_gpu(self.array, plain)
        if part.__class__ is not numpy.ndarray and isinstance(part, numpy.generic):
            part = numpy.asarray(part)
        added = new_axes(index) if any(entry is None for entry in plain) else ()
        return Tensor(part, after_indexing(self._layout, plain, part.ndim, added), self._origin)

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
        return bool(host(found).any()) if isinstance(found, Tensor) else False

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"The truth value of a Tensor of {self.size} elements is ambiguous.")
        return bool(host(self).item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __round__(self, digits: int | None = None) -> int | float:
        return round(self.item(), digits)

    def __index__(self) -> int:
        if self.ndim or self._array.dtype.kind not in "iu":
            raise TypeError(f"only an integer Tensor with no dimensions is an index, not {self.dtype} {self.shape}")
        return int(host(self))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return _repr.of_tensor(self)

    def _repr_html_(self) -> str:
        return _repr.html_of(self, [self.array], repr(self))

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        return _restored, (moved(self.array, Device.CPU), self._layout, self._origin, self.device)


def _restored(array: Array, layout: str | None, origin: Origin | None, device: Device) -> Tensor:
    return Tensor(array if device.device_type == "cpu" else moved(array, device), layout, origin)


def host(tensor: Tensor) -> NDArray[Any]:
    """The elements in host memory, over the same memory where they are there."""
    array: NDArray[Any] = tensor.array if tensor._ready is None else moved(tensor.array, Device.CPU)
    return array


def torch_tensor(tensor: Tensor, copy: bool | None) -> torch.Tensor:
    """A torch tensor over a Tensor's memory, or over a copy of it."""
    import torch

    array = tensor.array
    if tensor._ready is not None:
        return torch.from_dlpack(tensor.to_device(tensor.device, force_copy=True) if copy else tensor)
    shareable = array.flags.writeable and dlpack.has_whole_strides(array)
    if copy is False and not shareable:
        reason = "read-only, or has strides that are negative or no multiples of an element"
        raise BufferError(f"torch cannot share memory that is {reason}; pass copy=None.")
    return torch.from_numpy(array.copy() if copy or not shareable else array)


def jax_array(tensor: Tensor) -> jax.Array:
    """An array of JAX with a Tensor's elements, of the same dtype."""
    import jax

    if tensor.itemsize == 8 and not jax.config.jax_enable_x64:
        hint = "Cast it, or call jax.config.update('jax_enable_x64', True)."
        raise ArgumentError("jax", "data", "of at most 32 bits", str(tensor._numpy_dtype), hint)
    if tensor._ready is None:
        return jax.numpy.asarray(tensor.array)
    if not tensor.array.flags.c_contiguous:  # JAX refuses strides with gaps
        tensor = tensor.to_device(tensor.device, force_copy=True)
    return jax.dlpack.from_dlpack(tensor)
