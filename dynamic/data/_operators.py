"""The common part of Tensor and Batch: operators, and the members that need only a device and a dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, cast, overload

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

from dynamic._arrays.array import Array, asarray, is_array
from dynamic.devices import Device, DeviceLike, device
from dynamic.dtypes import DType, of_32_bits, of_numpy
from dynamic.errors import ArgumentError, shown

from ._arithmetic import spoken

_MOST_SAMPLES = 2**31 - 1  # numbered by an int32, as in DALI

X = TypeVar("X")
X_co = TypeVar("X_co", covariant=True)


class _Samples(Protocol):
    """A Batch, which this module does not know."""

    @property
    def samples(self) -> Any: ...


M = TypeVar("M", bound=_Samples)


class _Bound(Protocol[X_co]):
    """An operator of a Tensor or Batch for type checkers: with a Batch it gives one, with all else its own class."""

    @overload
    def __call__(self, other: M, /) -> M: ...
    @overload
    def __call__(self, other: Any, /) -> X_co: ...


class _Operator(Protocol):
    def __get__(self, instance: X, owner: Any) -> _Bound[X]: ...


def _three(name: str) -> tuple[_Operator, _Operator, _Operator]:
    """The methods of an operator; ``a += b`` makes a new object and rebinds ``a``, as data is never written."""
    plain, reflected = (getattr(NDArrayOperatorsMixin, f"__{prefix}{name}__") for prefix in ("", "r"))
    return plain, reflected, plain


class Data(NDArrayOperatorsMixin):
    """One or many arrays of one dtype on one device, with a layout."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment] # == is elementwise

    __add__, __radd__, __iadd__ = _three("add")
    __sub__, __rsub__, __isub__ = _three("sub")
    __mul__, __rmul__, __imul__ = _three("mul")
    __matmul__, __rmatmul__, __imatmul__ = _three("matmul")
    __truediv__, __rtruediv__, __itruediv__ = _three("truediv")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _three("floordiv")
    __mod__, __rmod__, __imod__ = _three("mod")
    __pow__, __rpow__, __ipow__ = _three("pow")
    __lshift__, __rlshift__, __ilshift__ = _three("lshift")
    __rshift__, __rrshift__, __irshift__ = _three("rshift")
    __and__, __rand__, __iand__ = _three("and")
    __xor__, __rxor__, __ixor__ = _three("xor")
    __or__, __ror__, __ior__ = _three("or")
    if TYPE_CHECKING:
        __lt__: _Operator
        __le__: _Operator
        __gt__: _Operator
        __ge__: _Operator

        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __invert__(self) -> Self: ...

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


def into_arrays(ufunc: numpy.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy that writes into arrays of NumPy, by NumPy's rules; into data nothing is written.

    ``total += tensor``, where the left side is such an array, and ``numpy.add(a, batch, out=total)``.
    """
    written = inputs[:1] if method == "at" else kwargs["out"]
    if any(isinstance(x, Data) for x in written):
        raise TypeError(f"numpy.{ufunc.__name__} cannot write into a Tensor or Batch: data never changes")
    return getattr(ufunc, method)(*(numpy.asarray(x) if isinstance(x, Data) else x for x in inputs), **kwargs)


def no_operand(ufunc: numpy.ufunc, inputs: tuple[Any, ...], value: Any) -> Any:
    """The error for a value that is not a number, unless its class may know the operation."""
    if hasattr(type(value), "__array_ufunc__"):
        return NotImplemented
    kinds = " and ".join(repr(type(x).__name__) for x in inputs)
    raise TypeError(f"unsupported operand type(s) for {spoken(ufunc)}: {kinds}")


def foreign_operand(value: Any, *, short: bool = False) -> Array | None:
    """A NumPy or other array that stands beside a Tensor or Batch in an expression; None where it is none.

    Args:
        value: Anything.
        short: Whether arrays of NumPy have 32 bits, as in the functions of pipelines.
    """
    if is_array(value) or isinstance(value, numpy.generic) or hasattr(value, "__dlpack__"):
        array = asarray(value, "arithmetic", "operand")
        return of_32_bits(array) if short and isinstance(value, numpy.ndarray) and value.ndim else array
    return None


def checked_batch_size(operator: str, value: Any) -> int:
    """A number of samples that a caller gave as `batch_size`."""
    if isinstance(value, bool) or not isinstance(value, (int, numpy.integer)) or not 0 <= value <= _MOST_SAMPLES:
        raise ArgumentError(operator, "batch_size", f"an integer of 0 or more, at most {_MOST_SAMPLES}", shown(value))
    return int(value)


def first_shape(data: Any) -> tuple[int, ...] | None:
    """The shape of a Tensor, or of the first sample of a Batch; None where there is no sample."""
    if not hasattr(data, "samples"):
        return cast("tuple[int, ...]", data.shape)
    if data._whole is not None:
        return data._whole.shape[1:] if len(data) else None
    return data.shape[0] if len(data) else None


def wanted_device(value: DeviceLike) -> Device:
    """The device of a `to_device` call."""
    found = device(value)
    if found is None:
        raise ArgumentError("to_device", "device", "a device such as 'cpu' or 'gpu:0'", shown(value))
    return found
