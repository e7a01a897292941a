"""Indices of arrays: from those of users to those of NumPy and CuPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, device_of, is_array
from dynamic.devices import Device
from dynamic.errors import ArgumentError, shown

from ._operators import Data
from ._transfer import moved

#: Whether this is the function of a pipeline, where ``batch[...]`` means ``batch.slice[...]`` and NumPy's arrays beside
#: Batches have 32 bits.
in_pipeline: ContextVar[bool] = ContextVar("dynamic.in_pipeline", default=False)

#: The truth of a Batch, in the function of a pipeline with conditionals.
deciding: ContextVar[Callable[[Any], bool] | None] = ContextVar("dynamic.deciding", default=None)


class NewAxis:
    """A dimension of extent 1 in an index, as None is, which may have a letter: `newaxis` and ``newaxis("C")``.

    Args:
        name: Its letter in the layout of the result.
    """

    __slots__ = ("name",)

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or len(name) != 1):
            raise ArgumentError("newaxis", "name", "one letter", shown(name))
        self.name = name

    def __call__(self, name: str | None = None) -> NewAxis:
        """The same with a letter."""
        return NewAxis(name)

    def __repr__(self) -> str:
        return "newaxis" if self.name is None else f"newaxis({self.name!r})"


def new_axes(index: Any) -> tuple[str | None, ...]:
    """The letters of the new dimensions of an index, in their order."""
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(getattr(entry, "name", None) for entry in entries if entry is None or isinstance(entry, NewAxis))


def plain_index(index: Any) -> tuple[Any, ...]:
    """An index with Tensors, lists and NumPy integers in it as one that NumPy and CuPy understand."""
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(_plain_entry(entry) for entry in entries)


def _plain_entry(entry: Any) -> Any:
    if entry.__class__ is int or entry is None or entry is Ellipsis:
        return entry
    if isinstance(entry, slice):
        bounds = (entry.start, entry.stop, entry.step)
        return slice(*(b if b is None or b.__class__ is int else _integer(b) for b in bounds))
    if isinstance(entry, NewAxis):
        return None
    if isinstance(entry, bool):
        raise IndexError("a bool is not an index; index with an array of bools, or with int(...)")
    if isinstance(entry, Data):
        array = getattr(entry, "array", None)
        if array is None:
            raise IndexError("a Batch is not an index of a Tensor; batch.slice[...] takes one for each sample")
        return array if array.ndim or array.dtype.kind == "b" else cast(Any, entry).__index__()
    if isinstance(entry, list):
        array = numpy.asarray(entry)
        return array if array.size else array.astype(numpy.intp)
    return entry


def on_gpu(array: Array, index: tuple[Any, ...]) -> Array:
    """A part of an array on a GPU, with NumPy's errors: CuPy takes integers out of bounds modulo the extent."""
    device, plain, axis = device_of(array), list(index), 0
    taken = sum(entry.ndim if is_mask(entry) else entry is not None and entry is not Ellipsis for entry in index)
    with cuda.working(device.device_id):
        for i, entry in enumerate(index):
            if entry is Ellipsis:
                axis += array.ndim - taken
            elif is_array(entry):
                _check_bounds(entry, array.shape[axis:], axis)
                plain[i] = entry if device_of(entry) == device else moved(entry, device)
                axis += entry.ndim if is_mask(entry) else 1
            elif entry is not None:
                plain[i] = entry if isinstance(entry, slice) else _integer(entry)
                axis += 1
        return array[tuple(plain)]


def is_mask(entry: Any) -> bool:
    """Whether an entry of an index is an array of bools, which stands for as many dimensions as it has."""
    return is_array(entry) and entry.dtype == bool


def _integer(entry: Any) -> int:
    try:
        return operator.index(entry)
    except TypeError:
        raise IndexError(f"{shown(entry)} is not an index: give integers, slices, None, ... or arrays") from None


def _check_bounds(entry: Array, extents: tuple[int, ...], axis: int) -> None:
    if entry.dtype.kind == "b":
        if entry.shape != extents[: entry.ndim]:
            raise IndexError(f"a mask of shape {entry.shape} for dimensions {extents[: entry.ndim]}")
        return
    if entry.dtype.kind not in "iu":
        raise IndexError(f"an index is an array of integers or bools, not of {entry.dtype}")
    extent = extents[0] if extents else 0
    places = moved(entry, Device.CPU)
    if places.size and not -extent <= int(places.min()) <= int(places.max()) < extent:
        raise IndexError(f"an index in [{places.min()}, {places.max()}] for dimension {axis} of extent {extent}")
