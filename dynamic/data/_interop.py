"""How Tensors and Batches are made: `as_*` share memory where they can, `tensor` and `batch` copy.

A list becomes a Batch by one of three paths with equal results: our own Tensors give their storage as it is; arrays and
foreign tensors (NumPy, CuPy, torch, DLPack) are described in one pass and checked before any is taken; anything else
is turned into arrays one by one.
"""

from __future__ import annotations

import sys
from array import array as Numbers  # noqa: N812 - `array` is a common name here
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy

from dynamic._arrays.array import (
    Array,
    asarray,
    checked_array,
    from_numbers,
    from_torch,
    is_array,
    library,
    only_numbers,
)
from dynamic._arrays.dlpack import is_capsule
from dynamic._base.layout import checked
from dynamic._base.origin import Origin
from dynamic.devices import Device, DeviceLike, device_of_call
from dynamic.dtypes import DTypeLike, convert, dtype, numpy_dtype, storable
from dynamic.errors import ArgumentError, shown

from . import _bulk
from ._batch import Batch
from ._tensor import Tensor

__all__ = ["as_batch", "as_tensor", "batch", "tensor"]

Data = TypeVar("Data", Tensor, Batch)


def as_tensor(
    data: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    layout: str | None = None,
    pad: bool = False,
) -> Tensor:
    """Make a Tensor of any array or numbers, over the same memory where that is possible.

    Args:
        data: A Tensor; a Batch, whose samples become the outermost dimension; an array of NumPy, CuPy, torch or DLPack;
            a result of DALI itself; a buffer (bytes are uint8); a number, or nested lists of numbers. Integers of
            Python become int32, or uint32, int64 or uint64 if they are larger; floats become float32, infinite beyond
            its range. With `dtype` both are converted from their exact values. Arrays keep their dtype and may have any
            strides. Big-endian data is copied. A read-only array gives a read-only Tensor.
        dtype: Element type to convert to, saturating, and rounding half away from zero.
        device: The device of the Tensor; by default that of the data.
        layout: A letter for each dimension, such as "HWC"; by default that of `data`. It moves no data.
        pad: Whether to fill the samples of a ragged Batch or list with zeros, to one shape.

    Returns:
        A Tensor of the same shape.

    Raises:
        ArgumentError: The data is not numbers, or the layout does not have a letter for each dimension.
        DeviceError: This machine has no such device.
        ValueError: A Batch has samples of different shapes, and `pad` is False.

    >>> ndd.as_tensor([[1, 2.5]]).dtype
    DType(kind=Kind.float, bits=32, exponent_bits=8, significand_bits=23)
    >>> ndd.as_tensor(ndd.as_batch([[1], [2, 3]]), pad=True).tolist()
    [[1, 0], [2, 3]]
    """
    if data.__class__ is numpy.ndarray and dtype is None and device is None and layout is None:
        return Tensor(checked_array(data, "as_tensor", "data"))
    return _tensor("as_tensor", data, dtype, device, layout, pad)


def tensor(
    data: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    layout: str | None = None,
    pad: bool = False,
) -> Tensor:
    """Make a Tensor with memory of its own, of any array or numbers. Arguments and errors are those of `as_tensor`.

    >>> a = numpy.zeros(2)
    >>> t = ndd.tensor(a)
    >>> a[0] = 7
    >>> t.tolist()
    [0.0, 0.0]
    """
    made = _tensor("tensor", data, dtype, device, layout, pad)
    return made.to_device(made.device, force_copy=True)


def _tensor(
    operator: str, data: Any, to: DTypeLike, where: DeviceLike, layout: str | None = None, pad: bool = False
) -> Tensor:
    own_layout: str | None = None
    origin: Origin | None = None
    if pad and isinstance(data, (list, tuple)):
        data = as_batch(data)
    elif _is_dalis(data):
        data = _of_dali(operator, "data", data)
    if isinstance(data, Tensor):
        array, own_layout, origin = data.array, data.layout, data.origin
    elif isinstance(data, Batch):
        array = data.dense(pad)
        own_layout = "N" + (data.layout or "") if data.layout or not data.ndim else None
    elif to is not None and isinstance(data, (bool, int, float, list, tuple, range)):
        array = from_numbers(data, operator, "data", narrow=False)
    else:
        array = asarray(data, operator, "data")
    array = _as_dtype(operator, array, to)
    layout = checked(layout, array.ndim, operator) or own_layout
    return _on_device(operator, Tensor(array, layout, origin), where)


def _as_dtype(operator: str, array: Array, to: DTypeLike) -> Array:
    return array if to is None else convert(library(array), array, storable(to, operator))


def _on_device(operator: str, data: Data, where: DeviceLike) -> Data:
    target = device_of_call(where, operator)
    return data if target is None else data.to_device(target)


def as_batch(
    tensors: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    layout: str | None = None,
) -> Batch:
    """Make a Batch of samples, over the same memory where that is possible.

    Args:
        tensors: A Batch; a result of DALI itself; an array or Tensor, whose outermost dimension becomes the samples; or
            an iterable of samples, as of `as_tensor`. All samples have one dtype, device, number of dimensions and
            layout; shapes may differ. Python numbers are promoted together: ``[1, 2.5]`` is float32.
        dtype: Element type to convert to, also from samples of several types. An empty Batch needs it.
        device: The device of the Batch; by default that of the samples.
        layout: A letter for each dimension of a sample, such as "HWC".

    Returns:
        A Batch over one (N, ...) array if an array or plain numbers were given, else over separate samples.

    Raises:
        ArgumentError: A sample is not numbers, or differs from the first; the message has its index.
        DeviceError: This machine has no such device.

    >>> ndd.as_batch([[1, 2, 3], [4, 5]]).shape
    [(3,), (2,)]
    >>> ndd.as_batch(numpy.zeros((4, 2, 3))).batch_size
    4
    """
    return _batch("as_batch", tensors, dtype, device, layout)


def batch(
    tensors: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    layout: str | None = None,
) -> Batch:
    """Make a Batch with memory of its own. Arguments and errors are those of `as_batch`.

    Samples of one shape become one (N, ...) array.

    >>> a = numpy.zeros((2, 3))
    >>> b = ndd.batch(a)
    >>> a[0] = 7
    >>> b.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    made = _batch("batch", tensors, dtype, device, layout)
    shared = made.whole is None and len(made) and len(set(made.shape)) == 1
    if shared:
        return Batch(made.dense(), made.layout, made.origin)
    return made.to_device(made.device, force_copy=True)


def _batch(operator: str, data: Any, to: DTypeLike, where: DeviceLike, layout: str | None) -> Batch:
    if _is_dalis(data):
        data = _of_dali(operator, "tensors", data)
    if isinstance(data, Batch):
        made = data
    elif isinstance(data, Tensor):
        inner = data.layout[1:] if data.layout and data.ndim else None
        made = Batch(_with_samples(operator, data.array, data), inner or None)
    elif (
        is_array(data)
        or isinstance(data, (bytearray, memoryview, Numbers))
        or any(hasattr(data, name) for name in ("__dlpack__", "__cuda_array_interface__", "__array_interface__"))
        or (hasattr(data, "__array__") and not isinstance(data, list))
        or is_capsule(data)
    ):
        made = Batch(_with_samples(operator, asarray(data, operator, "tensors"), data))
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict, set, frozenset)):
        made = _of_samples(operator, list(data), to, layout)
    else:
        raise ArgumentError(operator, "tensors", "an array or an iterable of samples", shown(data))
    if to is not None:
        made = _batch_as_dtype(operator, made, to)
    layout = checked(layout, made.ndim, operator, "sample")
    if layout is not None and layout != (made.layout or None):
        made = Batch(
            made.whole if made.whole is not None else made.samples, layout, made.origin, made._numpy_dtype, made.ndim
        )
    return _on_device(operator, made, where)


def _is_dalis(data: Any) -> bool:
    """Whether this is data of DALI itself."""
    return type(data).__module__.startswith("nvidia.dali") and hasattr(data, "layout")


def is_batch(data: Any) -> bool:
    """Whether this is a Batch, or one of DALI's."""
    return isinstance(data, Batch) or (_is_dalis(data) and type(data).__name__.startswith(("Batch", "TensorList")))


def _of_dali(operator: str, argument: str, data: Any) -> Tensor | Batch:
    """The data of a Tensor, Batch, TensorCPU or TensorListCPU of DALI's, with its layout.

    Outputs of pipelines, the last two and those of GPUs, are copied: some pipelines use their memory again.
    """
    layout = (data.layout() if callable(data.layout) else data.layout) or None
    name = type(data).__name__
    made_by_a_pipeline = name not in ("Tensor", "Batch")

    def array(item: Any) -> Array:
        found = asarray(item, operator, argument)
        return found.copy() if made_by_a_pipeline else found

    if name == "Batch":
        items, kind = list(data.tensors), dtype(str(data.dtype))
    elif name.startswith("TensorList"):
        items, kind = [data[i] for i in range(len(data))], dtype(data.dtype)
    else:
        return Tensor(array(data), layout)
    return Batch([array(item) for item in items], layout, None, numpy_dtype(kind), len(layout or ""))


def _with_samples(operator: str, array: Array, data: Any) -> Array:
    if not array.ndim:
        raise ArgumentError(
            operator,
            "tensors",
            "an array with at least one dimension",
            shown(data),
            "For many copies of one sample use Batch.broadcast(sample, batch_size).",
        )
    return array


def _batch_as_dtype(operator: str, made: Batch, to: DTypeLike) -> Batch:
    wanted = storable(to, operator)
    if made._numpy_dtype == wanted:
        return made
    if made.whole is not None:
        return Batch(convert(library(made.whole), made.whole, wanted), made.layout, made.origin)
    samples = [convert(library(s), s, wanted) for s in made.samples]
    return Batch(samples, made.layout, made.origin, wanted, made.ndim)


def _of_samples(operator: str, items: list[Any], to: DTypeLike, layout: str | None) -> Batch:
    if not items:
        if to is None:
            raise ArgumentError(operator, "dtype", "the element type of a Batch without samples", "None")
        return Batch([], None, None, storable(to, operator), len(layout or ""))
    kinds = set(map(type, items))
    if all(issubclass(kind, Tensor) for kind in kinds):
        arrays, own_layout = list(map(_ARRAY, items)), _common_layout(operator, items, layout)
        return Batch(_uniform(operator, arrays, to), own_layout, Origin.joined(list(map(_ORIGIN, items))))
    if kinds <= {bool, int, float}:
        return Batch(from_numbers(items, operator, "tensors", narrow=to is None))
    cupy = sys.modules.get("cupy")
    if kinds == {numpy.ndarray} or (cupy is not None and kinds == {cupy.ndarray}):
        return Batch(_uniform(operator, items, to))
    own_layout = _common_layout(operator, items, layout) if any(issubclass(kind, Tensor) for kind in kinds) else None
    if not any(issubclass(kind, Batch) for kind in kinds) and all(hasattr(kind, "__dlpack__") for kind in kinds):
        alike = to is None or len({str(item.dtype) for item in items}) == 1
        views = _bulk.on_gpu(operator, items) if alike and not any(map(is_array, items)) else None
        if views is not None:
            return Batch(views, own_layout)
        _describe(operator, items, to)
        take = from_torch if _are_of_torch(kinds) and items[0].device.type == "cpu" else _foreign
        return Batch(_uniform(operator, _taken(operator, items, take), to), own_layout)
    return Batch(_one_by_one(operator, items, to), own_layout)


_ARRAY = attrgetter("_array")
_ORIGIN = attrgetter("_origin")
_DTYPE = attrgetter("dtype")
_NDIM = attrgetter("ndim")


def _uniform(operator: str, arrays: list[Array], to: DTypeLike) -> list[Array]:
    """The arrays as samples of one dtype, number of dimensions and device; an error has the index of the odd one."""
    if len(set(map(_NDIM, arrays))) > 1:
        is_empty = any(array.shape == (0,) for array in arrays)
        hint = "An empty list has one dimension: for no boxes write numpy.zeros((0, 4))." if is_empty else ""
        _refuse_first_different(operator, arrays, _NDIM, "dimensions", hint)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        where = {array.device.id if isinstance(array, cupy.ndarray) else None for array in arrays}
        if len(where) > 1:
            _refuse_first_different(operator, arrays, _device_word, "device", "Move them to one device first.")
    dtypes = set(map(_DTYPE, arrays))
    if len(dtypes) == 1 and next(iter(dtypes)) in _NATIVE:
        return arrays
    arrays = [checked_array(array, operator, f"tensors[{i}]") for i, array in enumerate(arrays)]
    if to is not None:
        return [_as_dtype(operator, array, to) for array in arrays]
    if len(set(map(_DTYPE, arrays))) > 1:
        _refuse_first_different(operator, arrays, _DTYPE, "dtype", "Pass dtype= to convert all samples to one.")
    return arrays


_NATIVE = frozenset(numpy.dtype(c) for c in "?bBhHiIlLqQefd")


def _device_word(array: Array) -> str:
    return "cpu" if isinstance(array, numpy.ndarray) else f"gpu:{array.device.id}"


def _refuse_first_different(operator: str, items: Sequence[Any], key: Any, name: str, hint: str) -> None:
    first = key(items[0])
    for i, item in enumerate(items):
        if key(item) != first:
            expected = f"like tensors[0], with {name} {first}"
            raise ArgumentError(operator, f"tensors[{i}]", expected, f"{name} {key(item)}", hint)


def _common_layout(operator: str, items: list[Any], layout: str | None) -> str | None:
    """The layout of all samples; one that is no Tensor has none."""
    layouts = [item._layout if isinstance(item, Tensor) else None for item in items]
    if layout is None:
        _refuse_first_different_in(operator, layouts, "layout", "Pass layout= to relabel all of them.")
    return layouts[0]


def _describe(operator: str, items: list[Any], to: DTypeLike) -> None:
    """Compare the properties of foreign tensors, before the first of them is taken."""
    devices = [_foreign_device(x) for x in items]
    if devices.count(devices[0]) != len(devices):
        _refuse_first_different_in(operator, list(map(_device_of, devices)), "device", "Move them to one device first.")
    _refuse_first_different_in(operator, [_foreign_ndim(x) for x in items], "dimensions", "")
    if to is None:
        kinds = [getattr(x, "dtype", None) for x in items]
        if kinds.count(kinds[0]) != len(kinds):
            words = [_foreign_dtype(x) for x in items]
            _refuse_first_different_in(operator, words, "dtype", "Pass dtype= to convert all samples to one.")


def _refuse_first_different_in(operator: str, values: list[Any], name: str, hint: str) -> None:
    if values.count(values[0]) != len(values):
        _refuse_first_different(operator, values, _itself, name, hint)


def _itself(value: Any) -> Any:
    return value


def _foreign_device(item: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(item, torch.Tensor):
        return item.device
    if isinstance(item, numpy.ndarray):
        return Device.CPU
    return Device.from_dlpack(item.__dlpack_device__())


def _device_of(device: Any) -> Any:
    """A device of torch as one of ours, where we have it."""
    if isinstance(device, Device):
        return device
    return Device.CPU if device.type == "cpu" else Device("gpu", device.index or 0) if device.type == "cuda" else device


def _foreign_dtype(item: Any) -> str:
    kind = item._numpy_dtype if isinstance(item, Tensor) else getattr(item, "dtype", None)
    kind = kind.newbyteorder("=") if isinstance(kind, numpy.dtype) else kind
    return str(kind).removeprefix("torch.")


def _foreign_ndim(item: Any) -> int | None:
    ndim = getattr(item, "ndim", None)
    if isinstance(ndim, int):
        return ndim
    shape = getattr(item, "shape", None)
    return len(shape) if shape is not None else None


def _are_of_torch(kinds: set[type]) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and all(issubclass(kind, torch.Tensor) for kind in kinds)


def _foreign(item: Any, operator: str, argument: str) -> Array:
    return item.array if isinstance(item, Tensor) else asarray(item, operator, argument)


def _taken(operator: str, items: list[Any], take: Callable[[Any, str, str], Array]) -> list[Array]:
    """The arrays of foreign tensors; the index is put into an error only once there is one."""
    arrays: list[Array] = []
    try:
        for item in items:
            arrays.append(take(item, operator, "tensors"))  # noqa: PERF401 - its length is the index of the failing one
    except ArgumentError as error:
        name = f"tensors[{len(arrays)}]"
        raise ArgumentError(operator, name, error.expected, error.got, error.hint) from error
    return arrays


def _element(operator: str, index: int, item: Any) -> Array:
    if item is None or isinstance(item, (Batch, str)):
        raise ArgumentError(
            operator,
            f"tensors[{index}]",
            "a sample: an array, a number or nested lists of numbers",
            "a Batch" if isinstance(item, Batch) else shown(item),
            "For names of samples take their numbers, origin.ids." if isinstance(item, str) else "",
        )
    return item.array if isinstance(item, Tensor) else asarray(item, operator, f"tensors[{index}]")


def _one_by_one(operator: str, items: list[Any], to: DTypeLike) -> list[Array]:
    """Samples of any kind; Python numbers in them are promoted together."""
    plain = [i for i, item in enumerate(items) if only_numbers(item)]
    numbers = {i: from_numbers(items[i], operator, f"tensors[{i}]", narrow=False) for i in plain}
    if numbers and to is None:
        flat = [array.ravel() for array in numbers.values() if array.size]
        narrow = from_numbers(numpy.concatenate(flat).tolist() if flat else [], operator, "tensors").dtype
        numbers = {i: convert(numpy, array, narrow) for i, array in numbers.items()}
    arrays = [numbers[i] if i in numbers else _element(operator, i, item) for i, item in enumerate(items)]
    return _uniform(operator, arrays, to)


Tensor._of_anything, Batch._of_anything = _tensor, _batch
