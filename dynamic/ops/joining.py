"""Many arrays as one: along a new dimension or an old one; and numbers of classes as vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy

from dynamic._arrays.array import SMALL, Array, library
from dynamic._arrays.described import Described
from dynamic._lift.argument import GIVEN, Between, DTypeArgument
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import order
from dynamic.kernels.gpu import arrays

from . import _copies as copies
from .shape import place_of

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


def _inserted(layout: str | None, place: int, letter: str | None) -> str | None:
    """A layout with one more letter; none where no letter is given."""
    return None if letter is None else (layout or "")[:place] + letter + (layout or "")[place:]


def _plan_stack(call: Call) -> Plan:
    """The dimensions of a sample, and the place of the new one."""
    name = call.fixed["axis_name"]
    _check_name(call.name, name)
    if name is not None and call.ndim and not call.layout:
        raise ArgumentError(call.name, "axis_name", "left out where the first input has no layout", repr(name))
    place = place_of(call.name, "axis", call.fixed["axis"], call.ndim + 1)

    def shape_of(*inputs: Array, **_: Any) -> Shape:
        _refuse_others(call.name, inputs, None)
        return (*inputs[0].shape[:place], len(inputs), *inputs[0].shape[place:])

    layout = _inserted(call.layout, place, name)
    native = _stack_natively if call.count >= copies.MANY and not place and call.scattered(SMALL) else None
    return Plan(call.each(shape_of), call.dtype, layout, call.ndim + 1, data=(call.ndim, place), native=native)


def _stack_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    place, target = call.plan.data[1], memory.described()
    steps, strides = target.strides[:, place], numpy.delete(target.strides, place, 1)
    places = [(target.pointers.view(numpy.int64) + i * steps).view(numpy.uint64) for i in range(len(inputs))]
    parts = [Described(place, inputs[0].shapes, strides, target.dtype) for place in places]
    return copies.copied(Described.joined(inputs), Described.joined(parts), 2 * memory.nbytes)


@operator(plan=_plan_stack, gpu=True, unit="array")
def stack(
    *inputs: Array, axis: int = 0, axis_name: str | None = None, plan: tuple[int, int] = GIVEN, out: Array = GIVEN
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
    ndim, place = plan
    library(out).stack(inputs, axis=inputs[0].ndim - ndim + place, out=out)
    return out


def _axis(layout: str | None, ndim: int, axis: int | None, axis_name: str | None) -> int:
    """The dimension along which arrays are joined."""
    if axis_name is None:
        return place_of("cat", "axis", axis or 0, ndim)
    if axis is not None:
        raise ArgumentError("cat", "axis", "left out when 'axis_name' is given", str(axis))
    if len(axis_name) != 1 or axis_name not in (layout or ""):
        raise ArgumentError("cat", "axis_name", f"a letter of the first input's layout, {layout!r}", repr(axis_name))
    return (layout or "").index(axis_name)


def _plan_cat(call: Call) -> Plan:
    """The dimensions of a sample, and the one along which they are joined."""
    place = _axis(call.layout, call.ndim, call.fixed["axis"], call.fixed["axis_name"])

    def shape_of(*inputs: Array, **_: Any) -> Shape:
        _refuse_others(call.name, inputs, place)
        extent = sum(x.shape[place] for x in inputs)
        return (*inputs[0].shape[:place], extent, *inputs[0].shape[place + 1 :])

    native = _cat_natively if call.count >= copies.MANY and not place and call.scattered(SMALL) else None
    return Plan(call.each(shape_of), call.dtype, data=(call.ndim, place), native=native)


def _cat_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    place, target = call.plan.data[1], memory.described()
    parts, starts = [], numpy.zeros_like(inputs[0].shapes)
    for source in inputs:
        parts.append(target.window(starts, source.shapes))
        starts[:, place] += source.shapes[:, place]
    return copies.copied(Described.joined(inputs), Described.joined(parts), 2 * memory.nbytes)


@operator(plan=_plan_cat, gpu=True, unit="array")
def cat(
    *inputs: Array,
    axis: int | None = None,
    axis_name: str | None = None,
    plan: tuple[int, int] = GIVEN,
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
    ndim, place = plan
    library(out).concatenate(inputs, axis=inputs[0].ndim - ndim + place, out=out)
    return out


def _plan_one_hot(call: Call) -> Plan:
    """The dimensions of a sample, the place of the classes, and the values of off and on."""
    given, ndim, name = call.fixed, call.ndim, call.fixed["axis_name"]
    _check_name(call.name, name)
    values = convert(numpy, numpy.array([given["off_value"], given["on_value"]]), call.asked)
    if given["axis"] is None and (all(math.prod(shape) == 1 for shape in set(call.shapes)) if call.count else ndim < 2):
        return Plan([(given["num_classes"],)] * call.count, call.asked, name, 1, data=(ndim, 0, *values))
    if name is not None and ndim and not call.layout:
        raise ArgumentError(call.name, "axis_name", "left out where the input has no layout", repr(name))
    place = place_of(call.name, "axis", -1 if given["axis"] is None else given["axis"], ndim + 1)
    shapes = call.shapes_by(lambda shape: (*shape[:place], given["num_classes"], *shape[place:]))
    layout = _inserted(call.layout, place, name)
    return Plan(shapes, call.asked, layout, ndim + 1, data=(ndim, place, *values))


@operator(plan=_plan_one_hot, gpu=True, unit="array")
def one_hot(
    input: Array,
    /,
    *,
    axis: int | None = None,
    axis_name: str | None = None,
    dtype: DTypeArgument = float32,
    num_classes: Annotated[int, Between(0)],
    off_value: float = 0.0,
    on_value: float = 1.0,
    plan: tuple[int, int, Any, Any] = GIVEN,
    out: Array = GIVEN,
) -> Array:
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
    ndim, place, off, on = plan
    on_cpu = library(out) is numpy
    if input.size == 1 and on_cpu:  # a label: much faster than many numbers
        out[...] = off
        number = input.item()
        if num_classes and -1 < number < num_classes:
            out.reshape(-1)[int(number)] = on
        return out
    following = math.prod(input.shape[input.ndim - ndim + place :])
    (order if on_cpu else arrays).one_hot(input, num_classes, off, on, following, out)
    return out
