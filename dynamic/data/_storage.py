"""The storage of Tensors and Batches: arrays that they hold as they are."""

from __future__ import annotations

from typing import Any

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import is_array
from dynamic._arrays.described import Views

__all__ = ["NUMBERS", "is_array_of_ours", "is_storage", "ready"]

#: NumPy's numbers of the types that arrays here can have, whatever their byte order.
NUMBERS = frozenset(numpy.dtype(code).num for code in "?bBhHiIlLqQefd")


def is_array_of_ours(value: Any) -> bool:
    """Whether a value is an array of NumPy or CuPy, no subclass, of a type that is stored here."""
    if value.__class__ is numpy.ndarray:
        return value.dtype.num in NUMBERS and value.dtype.isnative
    return not isinstance(value, numpy.ndarray) and is_array(value)


def is_storage(value: Any, dtype: Any) -> bool:
    """Whether a Batch may hold a value as it is, of which `dtype` was said.

    A list must be of arrays of one dtype and number of dimensions, of which the first and the last are looked at.
    """
    if value.__class__ is not list:
        return isinstance(value, Views) or (is_array_of_ours(value) and value.ndim > 0 and dtype in (None, value.dtype))
    if not value:
        return isinstance(dtype, numpy.dtype)
    first, last = value[0], value[-1]
    if not (is_array_of_ours(first) and is_array_of_ours(last)):
        return False
    return first.dtype == last.dtype and first.ndim == last.ndim and (dtype is None or dtype == first.dtype)


def ready(kept: Any) -> cuda.Ready | None:
    """Where an array or views of a GPU are ready; None on the CPU."""
    if kept.__class__ is numpy.ndarray or kept.__class__ is list:
        return None
    return cuda.Ready(kept.device_id if isinstance(kept, Views) else kept.device.id)
