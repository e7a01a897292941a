"""New arrays: filled with one value, or with zeros or ones."""

# `zeros` and `ones` have no input, which the types of `operator` ask for.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._arrays.memory import checked_extents
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, PerSample, Several
from dynamic._lift.former import Spec, planned
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, int32
from dynamic.errors import ArgumentError

__all__ = ["full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

_Extent: TypeAlias = Annotated[int, Between(0)]
_Shape: TypeAlias = PerSample[Several[_Extent] | _Extent | None]


def _shape(operator: str, shape: Any, layout: str | None) -> tuple[int, ...]:
    """The shape of a result, which has no dimensions where none is given."""
    extents = () if shape is None else shape if isinstance(shape, tuple) else (shape,)
    if layout and len(layout) != len(extents):
        expected = f"a letter for each of the {len(extents)} dimensions of the result"
        raise ArgumentError(operator, "layout", expected, repr(layout))
    return checked_extents(operator, extents)


def _laid_out(_: str | None, *, layout: str | None = None, **__: Any) -> str | None:
    return layout or None


def _refuse_wider(operator: str, value: Array, shape: tuple[int, ...]) -> None:
    """Raise where a value cannot be repeated to fill a shape."""
    fits = len(value.shape) <= len(shape) and all(
        own in (1, extent) for own, extent in zip(reversed(value.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ArgumentError(operator, "fill_value", f"a number or an array that repeats to {shape}", str(value.shape))


def _filled(fill_value: Array, /, *, shape: Any = None, layout: str | None = None) -> Spec:
    extents = _shape("full", fill_value.shape if shape is None else shape, layout)
    _refuse_wider("full", fill_value, extents)
    return extents, fill_value.dtype


def _kind_of_filled(ndim: int, dtype: numpy.dtype[Any], *, shape: Any = None, **_: Any) -> tuple[int, Any]:
    return ndim if shape is None else len(_shape("full", shape, None)), dtype


@operator(plan=planned(_filled, layout=_laid_out, kind=_kind_of_filled), gpu=True)
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


def _as_first(data_like: Array, fill_value: Array, /) -> Spec:
    _refuse_wider("full_like", fill_value, data_like.shape)
    return data_like.shape, data_like.dtype


@operator(plan=planned(_as_first), gpu=True)
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


def _new(operator: str) -> Any:
    def spec(*, dtype: Any = int32, shape: Any = None, layout: str | None = None) -> Spec:
        return _shape(operator, shape, layout), dtype.dtype

    return spec


def _kind_of_new(_: int, __: numpy.dtype[Any], *, dtype: Any = int32, shape: Any = None, **___: Any) -> tuple[int, Any]:
    return len(_shape("", shape, None)), dtype.dtype


_made: dict[str, Any] = {"layout": _laid_out, "kind": _kind_of_new}


@operator(plan=planned(_new("zeros"), **_made), gpu=True, unit="array")
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


@operator(plan=planned(_new("ones"), **_made), gpu=True, unit="array")
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


def _alike(data_like: Array, /, *, dtype: Any = None) -> Spec:
    return data_like.shape, data_like.dtype if dtype is None else dtype.dtype


@operator(plan=planned(_alike), gpu=True, unit="value")
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


@operator(plan=planned(_alike), gpu=True, unit="value")
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
