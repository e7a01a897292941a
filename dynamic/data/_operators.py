"""What Tensor and Batch have in common: operators, and the members that ask for no more than a device and a dtype."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

from dynamic._array import Array, asarray, is_array
from dynamic.devices import Device, DeviceLike, device
from dynamic.dtypes import DType, of_numpy
from dynamic.errors import ArgumentError, shown


class Data(NDArrayOperatorsMixin):
    """One or many arrays of one dtype on one device, with a layout."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment] # == is elementwise

    # `a += b` makes a new object and rebinds `a`: data is never written.
    __iadd__ = NDArrayOperatorsMixin.__add__
    __isub__ = NDArrayOperatorsMixin.__sub__
    __imul__ = NDArrayOperatorsMixin.__mul__
    __imatmul__ = NDArrayOperatorsMixin.__matmul__
    __itruediv__ = NDArrayOperatorsMixin.__truediv__
    __ifloordiv__ = NDArrayOperatorsMixin.__floordiv__
    __imod__ = NDArrayOperatorsMixin.__mod__
    __ipow__ = NDArrayOperatorsMixin.__pow__
    __ilshift__ = NDArrayOperatorsMixin.__lshift__
    __irshift__ = NDArrayOperatorsMixin.__rshift__
    __iand__ = NDArrayOperatorsMixin.__and__
    __ixor__ = NDArrayOperatorsMixin.__xor__
    __ior__ = NDArrayOperatorsMixin.__or__

    @property
    def _numpy_dtype(self) -> numpy.dtype[Any]:
        raise NotImplementedError  # Tensor and Batch each say it

    @property
    def device(self) -> Device:
        """Where the data is."""
        raise NotImplementedError  # Tensor and Batch each say it

    @property
    def dtype(self) -> DType:
        """The element type."""
        found = of_numpy(self._numpy_dtype)
        assert found is not None, f"storage of dtype {self._numpy_dtype}"
        return found

    def to_device(self, device: DeviceLike, force_copy: bool = False) -> Self:
        """The data on a device: itself where it is there already and no copy is forced."""
        raise NotImplementedError  # Tensor and Batch each say it

    def cpu(self) -> Self:
        """The data in host memory; itself where it is there already."""
        return self.to_device(Device.CPU)

    def gpu(self, index: int | None = None) -> Self:
        """The data on a GPU: number `index`, else the one it is on, else the first."""
        if index is None:
            return self if self.device.device_type == "gpu" else self.to_device("gpu")
        return self.to_device(Device("gpu", index))

    def evaluate(self) -> Self:
        """The data itself: everything is evaluated when it is called."""
        return self

    def __eq__(self, other: object) -> Any:
        return NotImplemented if _is_nothing(other) else numpy.equal(cast(Any, self), cast(Any, other))

    def __ne__(self, other: object) -> Any:
        return NotImplemented if _is_nothing(other) else numpy.not_equal(cast(Any, self), cast(Any, other))


def _is_nothing(value: object) -> bool:
    """Whether a value cannot be compared with numbers, so that == is plainly False."""
    return value is None or isinstance(value, (str, bytes)) or value is Ellipsis


def foreign_operand(value: Any) -> Array | None:
    """A NumPy or other array that stands beside a Tensor or Batch in an expression; None where it is none."""
    if is_array(value) or isinstance(value, numpy.generic) or hasattr(value, "__dlpack__"):
        return asarray(value, "arithmetic", "operand")
    return None


def wanted_device(value: DeviceLike) -> Device:
    """The device of a `to_device` call."""
    found = device(value)
    if found is None:
        raise ArgumentError("to_device", "device", "a device such as 'cpu' or 'gpu:0'", shown(value))
    return found
