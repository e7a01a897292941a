"""Operators that keep the shape and change, or keep, the values."""
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from dynamic._argument import DTypeArgument
from dynamic._array import Array, library
from dynamic._operator import Spec, operator
from dynamic.dtypes import convert, numpy_dtype

__all__ = ["cast", "copy"]


def _as_dtype(input: Array, *, dtype: DTypeArgument) -> Spec:
    return input.shape, numpy_dtype(dtype)


def _as_input(input: Array) -> Spec:
    return input.shape, input.dtype


@operator(output=_as_dtype, whole=True, devices=("cpu", "gpu"))
def cast(input: Array, /, *, dtype: DTypeArgument, out: Array) -> Array:
    """Convert to another element type, saturating and rounding half away from zero.

    Args:
        dtype: The element type. To bool means whether the rounded value is not 0; NaN becomes 0 in integers.

    Returns:
        Shape and layout of the input.

    >>> cast(as_tensor([0.5, -1.5, 300.0]), dtype="uint8").tolist()
    [1, 0, 255]
    """
    return convert(library(input), input, numpy_dtype(dtype), out)


@operator(output=_as_input, whole=True, devices=("cpu", "gpu"))
def copy(input: Array, /, *, out: Array) -> Array:
    """Copy into new memory.

    Returns:
        Shape, dtype and layout of the input.

    >>> t = as_tensor([1, 2])
    >>> dynamic.copy(t).tolist()
    [1, 2]
    """
    out[...] = input
    return out
