"""Many arrays as one: along a new dimension or an old one; and numbers of classes as vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy

from dynamic._arrays.array import Array, library
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Layout
from dynamic._lift.call import Call
from dynamic._lift.former import Spec, planned
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import order
from dynamic.kernels.gpu import arrays

from .shape import _dimensions, _place

__all__ = ["cat", "one_hot", "stack"]


def _check_name(operator: str, axis_name: str | None) -> None:
    if axis_name is not None and len(axis_name) != 1:
        raise ArgumentError(operator, "axis_name", "one letter", repr(axis_name))


def _refuse_others(operator: str, inputs: Sequence[Array], but: int | None) -> None:
    """Raise where an input has another dtype than the first, or another extent than in dimension `but`."""
    first = inputs[0]
    for i, other in enumerate(inputs):
        if other.dtype != first.dtype:
            hint = "Convert it with cast_like(x, the_first)."
            raise ArgumentError(
                operator, f"inputs[{i}]", f"of dtype {first.dtype}, like the first", str(other.dtype), hint
            )
        shapes = [[extent for place, extent in enumerate(x.shape) if place != but] for x in (first, other)]
        if other.ndim != first.ndim or shapes[0] != shapes[1]:
            where = "" if but is None else f" but for dimension {but}"
            expected = f"of shape {first.shape}, like the first{where}"
            raise ArgumentError(operator, f"inputs[{i}]", expected, str(other.shape))


def _stacked(*inputs: Array, axis: int = 0, axis_name: str | None = None, layout: str | None = None, **_: Any) -> Spec:
    first = inputs[0]
    _check_name("stack", axis_name)
    _refuse_others("stack", inputs, None)
    if axis_name is not None and first.ndim and not layout:
        raise ArgumentError("stack", "axis_name", "left out where the first input has no layout", repr(axis_name))
    place = _place("stack", "axis", axis, first.ndim + 1)
    return (*first.shape[:place], len(inputs), *first.shape[place:]), first.dtype


def _layout_of_stacked(given: str | None, *, axis: int = 0, axis_name: str | None = None, **_: Any) -> str | None:
    letters = given or ""
    place = axis % (len(letters) + 1)
    return None if axis_name is None else letters[:place] + axis_name + letters[place:]


def _kind_of_stacked(ndim: int, dtype: numpy.dtype[Any], **_: Any) -> tuple[int, Any]:
    return ndim + 1, dtype


@operator(
    plan=planned(_stacked, layout=_layout_of_stacked, kind=_kind_of_stacked, across=_dimensions), gpu=True, unit="array"
)
def stack(
    *inputs: Array,
    axis: int = 0,
    axis_name: str | None = None,
    layout: Layout = GIVEN,
    plan: int = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Join arrays of one shape along a new dimension.

    Args:
        axis: Where the new dimension is in the result; a negative number counts from its last.
        axis_name: Its letter in the layout; without, the result has no layout.

    Returns:
        As many dimensions as the inputs have, and one; the same dtype.

    Raises:
        ArgumentError: The inputs differ in dtype or shape, or `axis` is no place in the result.

    >>> ndd.stack([1, 2], [3, 4], axis=-1).tolist()
    [[1, 3], [2, 4]]
    """
    samples = inputs[0].ndim - plan
    library(out).stack(inputs, axis=samples + axis % (plan + 1), out=out)
    return out


def _axis(layout: str | None, ndim: int, axis: int | None, axis_name: str | None) -> int:
    """The dimension along which arrays are joined."""
    if axis_name is None:
        return _place("cat", "axis", axis or 0, ndim)
    if axis is not None:
        raise ArgumentError("cat", "axis", "left out beside axis_name", str(axis))
    if len(axis_name) != 1 or axis_name not in (layout or ""):
        raise ArgumentError("cat", "axis_name", f"a letter of the first input's layout, {layout!r}", repr(axis_name))
    return (layout or "").index(axis_name)


def _joined(
    *inputs: Array, axis: int | None = None, axis_name: str | None = None, layout: str | None = None, **_: Any
) -> Spec:
    first = inputs[0]
    place = _axis(layout, first.ndim, axis, axis_name)
    _refuse_others("cat", inputs, place)
    extent = sum(x.shape[place] for x in inputs)
    return (*first.shape[:place], extent, *first.shape[place + 1 :]), first.dtype


@operator(plan=planned(_joined, across=_dimensions), gpu=True, unit="array")
def cat(
    *inputs: Array,
    axis: int | None = None,
    axis_name: str | None = None,
    layout: Layout = GIVEN,
    plan: int = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Join arrays along one of their dimensions.

    Args:
        axis: Which, by default the first; a negative number counts from the last.
        axis_name: Its letter in the layout, instead of `axis`.

    Returns:
        As many dimensions as the inputs have; dtype and layout of the first.

    Raises:
        ArgumentError: The inputs differ in dtype, or in an extent of another dimension; there is no such dimension.

    >>> ndd.cat([1, 2], [3]).tolist()
    [1, 2, 3]
    """
    samples = inputs[0].ndim - plan
    place = _axis(layout and layout[samples:], plan, axis, axis_name)
    library(out).concatenate(inputs, axis=samples + place, out=out)
    return out


def _across_one_hot(call: Call) -> tuple[int, bool, Array]:
    """How many dimensions a sample has, whether all samples are single numbers, and the values of off and on."""
    own = call.fixed
    single = own["axis"] is None and all(x.size == 1 for (x,) in call.samples())
    values = convert(numpy, numpy.array([own["off_value"], own["on_value"]]), own["dtype"].dtype)
    return call.inputs[0].ndim, single, values


def _encoded(
    input: Array, /, *, axis: int | None = None, axis_name: str | None = None, dtype: Any = float32,
    num_classes: int = 0, across: Any, layout: str | None = None, **_: Any,
) -> Spec:  # fmt: skip
    _check_name("one_hot", axis_name)
    if across[1]:
        return (num_classes,), dtype.dtype
    if axis_name is not None and input.ndim and not layout:
        raise ArgumentError("one_hot", "axis_name", "left out where the input has no layout", repr(axis_name))
    place = _place("one_hot", "axis", -1 if axis is None else axis, input.ndim + 1)
    return (*input.shape[:place], num_classes, *input.shape[place:]), dtype.dtype


def _layout_of_encoded(
    given: str | None, *, axis: int | None = None, axis_name: str | None = None, across: Any = (0, False), **_: Any
) -> str | None:
    if axis_name is None or across[1]:
        return axis_name
    return _layout_of_stacked(given, axis=-1 if axis is None else axis, axis_name=axis_name)


def _kind_of_encoded(
    ndim: int, _: numpy.dtype[Any], *, axis: int | None = None, dtype: Any = float32, **__: Any
) -> tuple[int, Any]:
    return 1 if axis is None and ndim <= 1 else ndim + 1, dtype.dtype


@operator(
    plan=planned(_encoded, layout=_layout_of_encoded, kind=_kind_of_encoded, across=_across_one_hot),
    gpu=True,
    unit="array",
)
def one_hot(
    input: Array, /, *, axis: int | None = None, axis_name: str | None = None, dtype: DTypeArgument = float32,
    num_classes: Annotated[int, Between(0)], off_value: float = 0.0, on_value: float = 1.0, layout: Layout = GIVEN,
    plan: tuple[int, bool, Array] = GIVEN, out: Array = GIVEN,
) -> Array:  # fmt: skip
    """Encode numbers of classes: a vector with one value at the class and another everywhere else.

    Args:
        axis: Where the dimension of the classes is in the result; a negative number counts from its last. By default
            it is the last, and where all samples have one element, it is the only one.
        axis_name: Its letter in the layout; without, the result has no layout.
        dtype: Element type of the result.
        num_classes: How many classes there are.
        off_value: The value of all other classes; rounded and saturated to `dtype`.
        on_value: The value of the class; rounded and saturated to `dtype`.

    Returns:
        As many dimensions as the input has, and one; fractions of numbers are cut off, and a number that is no class
        has `off_value` everywhere.

    Raises:
        ArgumentError: `axis` is no place in the result.

    >>> ndd.one_hot([2, 0], num_classes=3, dtype="uint8").tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    ndim, single, (off, on) = plan
    on_cpu = library(out) is numpy
    if input.size == 1 and on_cpu:  # a label: much faster than many numbers
        out[...] = off
        number = input.item()
        if num_classes and -1 < number < num_classes:
            out.reshape(-1)[int(number)] = on
        return out
    samples = input.ndim - ndim
    place = samples + (0 if single else (-1 if axis is None else axis) % (ndim + 1))
    following = 1 if single else math.prod(input.shape[place:])
    (order if on_cpu else arrays).one_hot(input, num_classes, off, on, following, out)
    return out
