"""Operators that keep the shape and change, or keep, the values."""

from __future__ import annotations

from typing import Any

import numpy

from dynamic._arrays.array import SMALL, Array, are_small, asarray
from dynamic._arrays.described import Described
from dynamic._lift.argument import GIVEN, DTypeArgument
from dynamic._lift.binding import function
from dynamic._lift.call import Call, Plan
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.dtypes import convert
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu.strips import shared
from dynamic.kernels.gpu import copies as gpu_copies

from . import _copies as copies

__all__ = ["cast", "cast_like", "copy"]


def _plan_copy(call: Call) -> Plan:
    many = call.count >= copies.MANY and call.asked == call.dtype
    apart = many and call.scattered(SMALL) and not are_small(call.columns()[0])
    return Plan(call.shapes, call.asked, native=_copy_natively if apart else None)


def _copy_natively(_: Call, inputs: list[Described], memory: Memory) -> bool:
    return copies.copied(inputs[0], memory.described(), 2 * memory.nbytes)


def _copied(input: Array, out: Array) -> Array:
    shared(lambda part, there: convert(numpy, part, there.dtype, there), input, out)
    return out


def _convert_on_gpu(_: Call, inputs: list[Described], target: Described) -> None:
    gpu_copies.window(inputs[0], target)


@operator(plan=_plan_copy, gpu=_convert_on_gpu, unit="value")
def cast(input: Array, /, *, dtype: DTypeArgument, out: Array = GIVEN) -> Array:
    """Convert to another element type, saturating and rounding half away from zero.

    Args:
        dtype: The element type. To bool means whether the rounded value is not 0; NaN becomes 0 in integers.

    Returns:
        Shape and layout of the input.

    >>> ndd.cast(ndd.as_tensor([0.5, -1.5, 300.0]), dtype="uint8").tolist()
    [1, 0, 255]
    """
    return _copied(input, out)


@function
def cast_like(input: Any, like: Any, /, *, batch_size: int | None = None, device: DeviceLike = None) -> Tensor | Batch:
    """Convert to the element type of another array, saturating and rounding half away from zero.

    Args:
        input: The data to convert.
        like: A Tensor or Batch, or an array, whose element type is wanted.
        batch_size: Number of samples, where none of the inputs is a Batch.
        device: Where to.

    Returns:
        Shape and layout of the first input.

    >>> ndd.cast_like([0.5, -1.5, 300.0], numpy.zeros(3, "uint8")).tolist()
    [1, 0, 255]
    """
    other = like if isinstance(like, (Tensor, Batch)) else Tensor(asarray(like, "cast_like", "like"))
    if isinstance(other, Batch) and batch_size is None:
        batch_size = len(other)
        if isinstance(input, Batch) and len(input) != batch_size:
            raise ArgumentError(
                "cast_like", "like", f"a Batch of {len(input)}, like 'input'", f"a Batch of {batch_size}"
            )
    return cast(input, dtype=other.dtype, batch_size=batch_size, device=device)


@operator(plan=_plan_copy, gpu=_convert_on_gpu, unit="value")
def copy(input: Array, /, *, out: Array = GIVEN) -> Array:
    """Copy into new memory.

    Returns:
        Shape, dtype and layout of the input.

    >>> t = ndd.as_tensor([1, 2])
    >>> ndd.copy(t).tolist()
    [1, 2]
    """
    return _copied(input, out)
