"""Which array library holds an array, and how anything becomes one. No classes of a user's.

Every array that enters is a numpy.ndarray (or, once a GPU is asked for, a cupy.ndarray) of one of the dtypes in
`dtypes.ALL`, in native byte order, of any strides, read-only or not. Memory is shared wherever it can be.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, TypeAlias

import numpy

from dynamic.devices import Device
from dynamic.dtypes import ALL, numpy_dtype
from dynamic.errors import ArgumentError, shown

from . import cuda, dlpack

__all__ = [
    "DEEPEST",
    "GATHERED",
    "SMALL",
    "Array",
    "apart",
    "are_small",
    "asarray",
    "checked_array",
    "current",
    "device_of",
    "from_numbers",
    "from_torch",
    "is_array",
    "joined_alike",
    "library",
    "only_numbers",
    "stacked",
    "values_of",
]

#: A numpy.ndarray or a cupy.ndarray.
Array: TypeAlias = Any

SUPPORTED = frozenset(numpy_dtype(t) for t in ALL)
_NUMBERS = (bool, int, float)
_DTYPES = "numbers of one of the types bool, (u)int8 to (u)int64, float16, float32, float64"


def library(array: Array) -> ModuleType:
    """The module whose functions work on an array: numpy or cupy. Never imports cupy."""
    if isinstance(array, numpy.ndarray):
        return numpy
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return cupy
    raise TypeError(f"{type(array).__name__} is neither a numpy nor a cupy array")


def device_of(array: Array) -> Device:
    """Where an array is."""
    return Device.CPU if isinstance(array, numpy.ndarray) else Device("gpu", array.device.id)


def current(device: Device) -> AbstractContextManager[Any]:
    """A context in which this thread allocates and launches on a device, on the current stream."""
    return nullcontext() if device.device_type == "cpu" else cuda.working(device.device_id)


def is_array(value: object) -> bool:
    """Whether a value is an array of a library that holds our storage."""
    if isinstance(value, numpy.ndarray):
        return True
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def checked_array(array: Array, operator: str, argument: str) -> Array:
    """An array of a library of ours as storage: supported dtype, native byte order, no subclass."""
    dtype = array.dtype
    if dtype in SUPPORTED and (type(array) is numpy.ndarray or not isinstance(array, numpy.ndarray)):
        return array
    if _is_masked(array):
        raise ArgumentError(operator, argument, "an array without masked values", shown(array), _UNMASKED)
    if isinstance(array, numpy.ndarray):
        array = array.view(numpy.ndarray)
    native = dtype.newbyteorder("=")
    if native not in SUPPORTED:
        raise ArgumentError(operator, argument, _DTYPES, f"dtype {dtype}", _hint_for(dtype))
    return array.astype(native, copy=False)


_UNMASKED = "Fill the masked values first: array.filled(value)."
_NO_TEXT = "Text has no place in a Tensor; bytes are a buffer of uint8, and imread and readers take paths."


def _is_masked(value: Any) -> bool:
    """Whether an array, or one in nested sequences, has masked values, which NumPy would take for any others."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_masked, value))
    return isinstance(value, numpy.ma.MaskedArray) and bool(value.mask.any())


def _hint_for(dtype: Any) -> str:
    if dtype.kind == "c":
        return "Pass the real and the imaginary part."
    if dtype.kind == "S":
        return "Several files are a Batch: as_batch([...])."
    if dtype.kind == "U":
        return _NO_TEXT
    return ""


def asarray(value: Any, operator: str = "as_tensor", argument: str = "data") -> Array:
    """An array with the value's numbers: over the same memory where the value has any, else new.

    NumPy and CuPy arrays, torch tensors, DLPack producers, ``__cuda_array_interface__``, ``__array_interface__`` and
    ``__array__``, DLPack's capsules, buffers (bytes are uint8), numbers and nested sequences of numbers, tried in this
    order.
    """
    if is_array(value):
        return checked_array(value, operator, argument)
    if isinstance(value, numpy.generic):
        return checked_array(numpy.asarray(value), operator, argument)
    if isinstance(value, (*_NUMBERS, list, tuple, range)):
        return from_numbers(value, operator, argument)
    if isinstance(value, (bytes, bytearray)):
        return numpy.frombuffer(value, numpy.uint8)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return from_torch(value, operator, argument)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value, operator, argument)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_interface(value, operator, argument)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__") or isinstance(value, memoryview):
        return checked_array(numpy.asarray(value), operator, argument)
    if dlpack.is_capsule(value):
        return _from_dlpack(dlpack.Given(value), operator, argument)
    try:
        view = memoryview(value)
    except TypeError:
        hint = _NO_TEXT if isinstance(value, (str, os.PathLike)) else ""
        raise ArgumentError(
            operator, argument, "numbers: an array, a buffer, a number or nested lists of numbers", shown(value), hint
        ) from None
    return checked_array(numpy.asarray(view), operator, argument)


def _of_interface(value: Any, operator: str, argument: str) -> Array:
    array = cuda.cupy().asarray(value)
    if value.__cuda_array_interface__["data"][1]:  # nobody may write to it, which CuPy cannot remember
        with cuda.working(array.device.id):
            array = array.copy()
    return checked_array(array, operator, argument)


def from_torch(tensor: Any, operator: str, argument: str) -> Array:
    """A view of a torch tensor; on the CPU by `Tensor.numpy`, which is five times as fast as DLPack, and as strict."""
    if tensor.requires_grad:
        raise ArgumentError(
            operator, argument, "data without a gradient", "a torch tensor that requires_grad", "Pass tensor.detach()."
        )
    tensor = tensor.resolve_neg() if tensor.is_neg() else tensor
    place = tensor.device.type
    if place == "meta":
        raise ArgumentError(operator, argument, "data in memory", "a torch tensor of the device 'meta', which has none")
    if place != "cpu":
        return _from_dlpack(tensor, operator, argument)
    try:
        return checked_array(tensor.numpy(), operator, argument)
    except (TypeError, RuntimeError) as error:  # sparse, quantized, bfloat16, float8, conjugate: torch says which
        if isinstance(error, ArgumentError):
            raise
        got = f"a torch tensor of {tensor.dtype}, {tensor.layout}"
        raise ArgumentError(operator, argument, _DTYPES, got, f"torch says: {error}") from error


def _from_dlpack(value: Any, operator: str, argument: str) -> Array:
    try:
        kind, index = _dlpack_device(value, operator, argument)
        if Device.type_from_dlpack(kind) == "gpu":
            return checked_array(dlpack.taken(value, index, operator, argument), operator, argument)
        return checked_array(numpy.from_dlpack(value), operator, argument)
    except RuntimeError as error:  # NumPy's, of a type or number of dimensions that it has not; or of a device
        error.add_note(f"{operator}(): this is about argument {argument!r}, {shown(value)}.")
        raise
    except (BufferError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        if hasattr(value, "__array__") and not hasattr(value, "__cuda_array_interface__"):
            return checked_array(numpy.asarray(value), operator, argument)
        raise ArgumentError(operator, argument, "data that DLPack can share", shown(value), str(error)) from error


def _dlpack_device(value: Any, operator: str, argument: str) -> tuple[int, int]:
    told = value.__dlpack_device__()
    try:
        kind, index = told
        return int(kind), int(index)
    except (TypeError, ValueError):
        expected = "data whose __dlpack_device__() returns two numbers"
        raise ArgumentError(operator, argument, expected, shown(told)) from None


def from_numbers(value: Any, operator: str = "as_tensor", argument: str = "data", *, narrow: bool = True) -> Array:
    """An array of a number or of nested sequences; Python's numbers become bool, int32 or float32.

    An integer beyond int32 makes the array uint32, int64 or uint64, whichever is the first to hold all of them. With
    `narrow` off they stay int64 and float64. Where anything in it has a dtype of its own (a NumPy scalar, an array, a
    Tensor), the dtype is the one in which NumPy combines all of it.
    """
    leaves = {type(value)} if isinstance(value, _NUMBERS) else _leaf_types(value)
    try:
        array = numpy.asarray(value)
    except OverflowError:
        raise ArgumentError(operator, argument, "integers of at most 64 bits", shown(value)) from None
    except ValueError as error:
        raise ArgumentError(
            operator,
            argument,
            "sequences of equal lengths",
            shown(value),
            "For samples of different shapes use as_batch.",
        ) from error
    except (TypeError, RuntimeError) as error:  # of a torch tensor in it, which says why it is no array
        raise ArgumentError(operator, argument, "numbers", shown(value), str(error)) from error
    if not all(map(_is_plain, leaves)):
        if any(issubclass(leaf, numpy.ma.MaskedArray) for leaf in leaves) and _is_masked(value):
            raise ArgumentError(operator, argument, "without masked values", shown(value), _UNMASKED)
        if array.dtype not in SUPPORTED:
            hint = _NO_TEXT if any(issubclass(leaf, os.PathLike) for leaf in leaves) else _hint_for(array.dtype)
            raise ArgumentError(operator, argument, _DTYPES, shown(value), hint)
        return checked_array(array, operator, argument)
    integral = not any(issubclass(leaf, float) for leaf in leaves)
    if array.dtype.kind not in "biuf" or (integral and array.size and array.dtype.kind == "f"):
        raise ArgumentError(operator, argument, "integers in the range of int64 or of uint64", shown(value))
    return _narrowed(array) if narrow else array


def only_numbers(value: Any) -> bool:
    """Whether a value is a Python number, or nested sequences of nothing else."""
    if isinstance(value, (list, tuple, range)):
        return all(map(_is_plain, _leaf_types(value)))
    return _is_plain(type(value))


def _is_plain(leaf: type) -> bool:
    """Whether a type is one of Python's numbers; NumPy's float64 is a float too, but has a dtype of its own."""
    return issubclass(leaf, _NUMBERS) and not issubclass(leaf, numpy.generic)


def _narrowed(array: Array) -> Array:
    if array.dtype.kind == "f":
        with numpy.errstate(over="ignore"):
            return array.astype(numpy.float32)
    if array.dtype.kind == "b" or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for candidate in (numpy.int32, numpy.uint32, numpy.int64, numpy.uint64):
        limits = numpy.iinfo(candidate)
        if limits.min <= low and high <= limits.max:
            return array.astype(candidate)
    raise AssertionError("numpy made an integer array that fits no integer type")


def _leaf_types(value: Iterable[Any], depth: int = 0) -> set[type]:
    """Types of the leaves of nested lists and tuples; those of lists themselves where they are too deep for arrays."""
    types = set(map(type, value))
    nested = {t for t in types if issubclass(t, (list, tuple, range))}
    if depth > DEEPEST:
        return types
    leaves = types - nested
    for item in value if nested else ():
        if type(item) in nested:
            leaves |= _leaf_types(item, depth + 1)
    return leaves


DEEPEST = 64  # dimensions of a NumPy array


SMALL = 1 << 12  # bytes; to copy an array of so many takes less than to call a function for it alone
GATHERED = 1 << 15  # the same, of arrays of one shape, with which something is computed


def stacked(arrays: Sequence[Array], most: float = math.inf) -> Array | None:
    """Arrays as one (N, ...) array; None where they have not one shape, or the first has more than so many bytes."""
    first = arrays[0]
    if first.nbytes > most or any(array.shape != first.shape for array in arrays):
        return None
    return joined_alike(arrays)


def joined_alike(arrays: Sequence[Array]) -> Array:
    """Arrays of one shape as one (N, ...) array."""
    first = arrays[0]
    if not first.ndim:
        return library(first).stack(arrays)
    return library(first).concatenate(arrays).reshape(len(arrays), *first.shape)  # in a fifth of the time of stack


def are_small(arrays: Sequence[Array]) -> bool:
    """Whether arrays are in host memory, and on average so small that copying them costs little."""
    return isinstance(arrays[0], numpy.ndarray) and sum(array.nbytes for array in arrays) <= SMALL * len(arrays)


def values_of(arrays: Sequence[Array]) -> Array:
    """The elements of arrays in one dimension, one array after the other."""
    return numpy.concatenate([array.reshape(-1) for array in arrays])


def apart(values: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Arrays of some shapes, whose elements lie one after the other."""
    ends = list(itertools.accumulate(map(math.prod, shapes)))
    starts = [0, *ends[:-1]]
    return [values[i:j].reshape(shape) for i, j, shape in zip(starts, ends, shapes, strict=True)]
