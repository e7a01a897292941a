"""New arrays: filled with one value, or with zeros or ones."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from dynamic._arrays.array import Array, library
from dynamic._arrays.memory import checked_extents
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, PerSample, Several
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, int32
from dynamic.errors import ArgumentError

__all__ = ["full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

_Extent: TypeAlias = Annotated[int, Between(0)]
_Shape: TypeAlias = PerSample[Several[_Extent] | _Extent | None]


def _plan_new(call: Call) -> Plan:
    """The shapes that are given, by default those of the values to fill with.

    Raises:
        ArgumentError: A layout has too few or too many letters, or a value does not repeat to its shape.
    """

    def extents_of(shape: Any, own: Shape) -> Shape:
        extents = own if shape is None else shape if isinstance(shape, tuple) else (shape,)
        return checked_extents(call.name, extents)

    def shape_of(value: Array | None = None, /, *, shape: Any, layout: str | None, **_: Any) -> Shape:
        own: Shape = () if value is None else value.shape
        extents = extents_of(shape, own)
        if layout and len(layout) != len(extents):
            expected = f"a letter for each of the {len(extents)} dimensions of the result"
            raise ArgumentError(call.name, "layout", expected, repr(layout))
        _refuse_wider(call.name, own, extents)
        return extents

    ndim = None if call.count else len(extents_of(call.fixed.get("shape"), (0,) * call.ndim))
    return Plan(call.each(shape_of), call.asked, call.fixed["layout"] or None, ndim)


def _refuse_wider(operator: str, own: Shape, shape: Shape) -> None:
    """Raise where a value of a shape cannot be repeated to fill another."""
    pairs = zip(reversed(own), reversed(shape), strict=False)
    if len(own) > len(shape) or any(extent not in (1, wanted) for extent, wanted in pairs):
        raise ArgumentError(operator, "fill_value", f"a number or an array that repeats to {shape}", str(own))


@operator(plan=_plan_new, gpu=True)
def full(fill_value: Array, /, *, layout: str | None = None, shape: _Shape = None, out: Array = GIVEN) -> Array:
    """Make an array that is filled with a value.

    Args:
        layout: Layout of the result.
        shape: Its extents, by default the value's own.

    Returns:
        The dtype of the value; a value with dimensions is repeated as NumPy broadcasts it.

    Raises:
        ArgumentError: The value does not repeat to the shape.

    >>> ndd.full([1, 2], shape=(2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    out[...] = fill_value
    return out


def _plan_alike(call: Call) -> Plan:
    if len(call.inputs) > 1:
        call.each(lambda data_like, fill_value: _refuse_wider(call.name, fill_value.shape, data_like.shape))
    return Plan(call.shapes, call.asked)


@operator(plan=_plan_alike, gpu=True)
def full_like(data_like: Array, fill_value: Array, /, *, out: Array = GIVEN) -> Array:
    """Make an array like another one, filled with a value.

    Returns:
        Shape, dtype and layout of the first input. The value is rounded and saturated to the dtype, and repeated as
        NumPy broadcasts it.

    Raises:
        ArgumentError: The value does not repeat to the shape.

    >>> ndd.full_like(numpy.zeros(2, "uint8"), 300.0).tolist()
    [255, 255]
    """
    out[...] = convert(library(out), fill_value, out.dtype)
    return out


@operator(plan=_plan_new, gpu=True, unit="array")  # type: ignore[arg-type] # it has no input
def zeros(
    *, dtype: DTypeArgument = int32, layout: str | None = None, shape: _Shape = None, out: Array = GIVEN
) -> Array:
    """Make an array of zeros.

    Args:
        dtype: Its element type.
        layout: Its layout.
        shape: Its extents; without, it is a single number.

    Returns:
        Zeros, or False.

    >>> ndd.zeros(shape=(2, 3)).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    out[...] = 0
    return out


@operator(plan=_plan_new, gpu=True, unit="array")  # type: ignore[arg-type] # it has no input
def ones(*, dtype: DTypeArgument = int32, layout: str | None = None, shape: _Shape = None, out: Array = GIVEN) -> Array:
    """Make an array of ones.

    Args:
        dtype: Its element type.
        layout: Its layout.
        shape: Its extents; without, it is a single number.

    Returns:
        Ones, or True.

    >>> ndd.ones(shape=2, dtype="float32").tolist()
    [1.0, 1.0]
    """
    out[...] = 1
    return out


@operator(plan=_plan_alike, gpu=True, unit="value")
def zeros_like(data_like: Array, /, *, dtype: DTypeArgument | None = None, out: Array = GIVEN) -> Array:
    """Make an array of zeros like another one.

    Args:
        dtype: Its element type, by default the other one's.

    Returns:
        Shape and layout of the input.

    >>> ndd.zeros_like([[1.5, 2.5]]).tolist()
    [[0.0, 0.0]]
    """
    out[...] = 0
    return out


@operator(plan=_plan_alike, gpu=True, unit="value")
def ones_like(data_like: Array, /, *, dtype: DTypeArgument | None = None, out: Array = GIVEN) -> Array:
    """Make an array of ones like another one.

    Args:
        dtype: Its element type, by default the other one's.

    Returns:
        Shape and layout of the input.

    >>> ndd.ones_like([[1.5, 2.5]], dtype="int8").tolist()
    [[1, 1]]
    """
    out[...] = 1
    return out
