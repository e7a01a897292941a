"""Operators that make one number of many: of all of a sample, or along some of its dimensions."""

# Some arguments are read by the functions of `_reduction` alone.
# ruff: noqa: ARG001

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias

import numpy

from ._arrays.array import Array, library
from ._lift.argument import GIVEN, Between, DTypeArgument, Layout, Several
from ._lift.call import Call
from ._lift.former import Many, Spec, planned
from ._lift.kernels import Memory
from ._lift.operator import Operator, operator
from .dtypes import DType, convert, numpy_dtype
from .errors import ArgumentError, shown
from .kernels.cpu import reductions
from .kernels.cpu.digits import above, level
from .kernels.gpu import arrays

__all__ = ["max", "mean", "mean_square", "min", "rms", "std_dev", "sum", "variance"]


def __dir__() -> list[str]:
    """What completion offers."""
    return __all__


P = ParamSpec("P")
_Kind: TypeAlias = "numpy.dtype[Any]"
_Axes: TypeAlias = int | Several[int]
_Places: TypeAlias = tuple[int, ...]  # dimensions, counted from the end: -1 is the last
_Degrees: TypeAlias = Annotated[int, Between(0)]

_UINT64, _INT64, _FLOAT32, _FLOAT64 = map(numpy.dtype, ("uint64", "int64", "float32", "float64"))


def _places(
    operator: str, ndim: int, *, layout: str | None, axes: int | _Places | None, axis_names: str | None, **_: Any
) -> _Places:
    """The dimensions of a sample that the arguments name."""
    if axis_names is not None:
        if axes is not None:
            raise ArgumentError(operator, "axis_names", "left out beside axes", shown(axis_names))
        letters = layout or ""
        if not set(axis_names) <= set(letters) or len(set(axis_names)) < len(axis_names):
            expected = f"some letters of {layout!r}, each once" if layout else "left out where there is no layout"
            raise ArgumentError(operator, "axis_names", expected, shown(axis_names))
        return tuple(letters.index(letter) - ndim for letter in axis_names)
    if axes is None:
        return tuple(range(-ndim, 0))
    given = (axes,) if isinstance(axes, int) else axes
    if not all(-ndim <= axis < ndim for axis in given):
        expected = f"in [{-ndim}, {ndim - 1}]" if ndim else "empty where there are no dimensions"
        raise ArgumentError(operator, "axes", expected, shown(axes))
    places = tuple(axis % ndim - ndim for axis in given)
    if len(set(places)) < len(places):
        raise ArgumentError(operator, "axes", "dimensions, each once", shown(axes))
    return places


def _remaining(extents: Any, places: _Places) -> list[Any]:
    """What is there for each dimension, without those that are reduced."""
    return [extent for axis, extent in enumerate(extents, -len(extents)) if axis not in places]


def _reduction(
    kind: Callable[[_Kind], _Kind], many: Many | None = None
) -> Callable[[Callable[Concatenate[Any, P], Any]], Operator[P]]:
    """Declare an operator that reduces dimensions. Its function is told which, from the end, as `across`.

    Args:
        kind: The dtype of the result for that of the input, where the caller asks for none.
        many: What does many large samples, as for `operator`.
    """

    def declared(body: Callable[Concatenate[Any, P], Any]) -> Operator[P]:
        name = f"reductions.{body.__name__}"

        def across(call: Call) -> _Places:
            return _places(name, call.inputs[0].ndim, **call.fixed)

        def output(
            data: Array, mean: Array | None = None, /, *, across: _Places, keep_dims: bool, dtype: DType | None = None,
            **_: Any,
        ) -> Spec:  # fmt: skip
            kept = tuple(1 if axis in across else n for axis, n in enumerate(data.shape, -data.ndim))
            shape = tuple(_remaining(data.shape, across))
            if mean is not None and mean.size != 1 and mean.shape not in {kept, shape}:
                raise ArgumentError(name, "mean", f"one number, or of shape {shape} or {kept}", str(mean.shape))
            return kept if keep_dims else shape, kind(data.dtype) if dtype is None else numpy_dtype(dtype)

        def out_kind(
            ndim: int, have: _Kind, /, *, keep_dims: bool, dtype: DType | None = None, **arguments: Any
        ) -> tuple[int, _Kind]:
            gone = 0 if keep_dims else len(_places(name, ndim, **arguments))
            return ndim - gone, kind(have) if dtype is None else numpy_dtype(dtype)

        def out_layout(letters: str | None, /, *, keep_dims: bool, **arguments: Any) -> str | None:
            if keep_dims or letters is None:
                return letters
            return "".join(_remaining(letters, _places(name, len(letters), **arguments))) or None

        plan = planned(output, layout=out_layout, kind=out_kind, across=across, many=many, weight=2)
        lift = operator(name=name, plan=plan, gpu=True, unit="array")
        return lift(body)

    return declared


@functools.cache
def _of_sums(kind: _Kind) -> _Kind:
    return {"b": _UINT64, "u": _UINT64, "i": _INT64}.get(kind.kind, _of_means(kind))


def _of_means(kind: _Kind) -> _Kind:
    return _FLOAT64 if kind == _FLOAT64 else _FLOAT32


def _as_it_is(kind: _Kind) -> _Kind:
    return kind


def _count(data: Array, places: _Places) -> int:
    return math.prod(data.shape[axis] for axis in places)


def _kernels(data: Array) -> Any:
    """What adds up an array where it is."""
    return reductions if library(data) is numpy else arrays


def _stored(values: Array, out: Array) -> Array:
    return convert(library(out), values.reshape(out.shape), out.dtype, out)


def _mean(data: Array, places: _Places) -> Array:
    """The mean in float64; sums of integers of up to 32 bits are exact."""
    base = level([data], places) if data.dtype.itemsize == 8 else None
    data = data if base is None else above(data, base)
    mean = _divided(_kernels(data).total(data, places, _wide(data.dtype)), _count(data, places))
    return mean if base is None else mean + base


def _wide(kind: _Kind) -> _Kind:
    """What a mean is added up in."""
    return _of_sums(kind) if kind.kind in "biu" and kind.itemsize < 8 else _FLOAT64


def _divided(sums: Array, count: int) -> Array:
    """Means in float64; that of nothing is NaN."""
    if count:
        return sums / numpy.float64(count)
    with numpy.errstate(invalid="ignore"):
        return sums / numpy.float64(count)


def _of_many(
    call: Call, samples: Sequence[tuple[Array]], memory: Memory | None, *, kind: Callable[[_Kind], _Kind], mean: bool
) -> Array | None:
    """Sums or means of photos, where what is to be done of each is one call of OpenCV."""
    assert memory is not None, "reductions declare their output"
    (out,), data = memory.storages, [sample[0] for sample in samples]
    found = None if isinstance(out, list) else reductions.totals(data, call.plan.data, kind(data[0].dtype))
    if found is None:
        return None
    sums, counts = found
    return [_stored(sums / counts[:, None] if mean else sums, out)]


def _adding(kind: _Kind) -> _Kind:
    """What a sum is added up in."""
    return _FLOAT64 if kind.kind == "f" else _of_sums(kind)


def _mean_square(data: Array, places: _Places) -> Array:
    return _divided(_kernels(data).squares(data, places, None), _count(data, places))


def _extreme(function: Any, data: Array, places: _Places, out: Array, nothing: str) -> Array:
    """The largest or smallest; of no elements what is least or greatest in the dtype."""
    if _count(data, places):
        return _stored(_kernels(data).extreme(function, data, places), out)
    kind = data.dtype
    limits: Any = numpy.finfo(kind) if kind.kind == "f" else numpy.iinfo(numpy.uint8 if kind.kind == "b" else kind)
    out[...] = getattr(limits, nothing)
    return out


def _variance(data: Array, mean: Array | None, places: _Places, ddof: int) -> Array:
    """The mean square of the distances from `mean`, or from their own mean, in float64."""
    count, xp = _count(data, places), library(data)
    base = level([data], places) if mean is None else None
    data = data if base is None else above(data, base)
    kept = [1 if axis in places else extent for axis, extent in enumerate(data.shape, -data.ndim)]
    own = _mean(data, places) if mean is None else mean.astype(_FLOAT64, copy=False)
    # one mean for each element of the result, or one for each sample
    own = own.reshape(kept if own.size == math.prod(kept) else (-1, *(1,) * (data.ndim - 1)))
    kind = _FLOAT32 if data.dtype in reductions.NARROW else _FLOAT64
    rounded = kind != _FLOAT64 and mean is not None and mean.dtype not in reductions.NARROW
    far = numpy.finfo(kind).max
    centre = (xp.clip(own, -far, far) if rounded else own).astype(kind)
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        squares = _kernels(data).squares(data, places, centre)
        if mean is None:  # from the centre they are this much farther than from the mean
            squares = xp.maximum(squares - count * (own - centre) ** 2, 0)
        elif rounded and (own != centre).any():
            more = count * (centre - own) * (2 * _mean(data, places).reshape(kept) - centre - own)
            squares = xp.where(own == centre, squares, xp.maximum(squares + more, 0))
        return squares / numpy.float64(builtins.max(0, count - ddof))


@_reduction(_of_sums, functools.partial(_of_many, kind=_adding, mean=False))
def sum(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: DTypeArgument | None = None,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Add up elements.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        dtype: Element type of the result; integers are rounded and saturated.

    Returns:
        Shape and layout without the dimensions that are reduced; uint64 for unsigned integers and bools, int64
        for signed integers, float32 for floats, but float64 for float64. Sums beyond 64 bits wrap around.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.sum(x, axes=1).tolist()
    [9, 12]
    """
    return _stored(_kernels(input).total(input, plan, _adding(input.dtype)), out)


@_reduction(_of_means, functools.partial(_of_many, kind=_wide, mean=True))
def mean(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: DTypeArgument | None = None,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Average elements.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        dtype: Element type of the result; integers are rounded and saturated.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.
        The mean of nothing is NaN.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.mean(x, axis_names="H").tolist()
    [2.0, 3.0, 5.5]
    """
    return _stored(_mean(input, plan), out)


@_reduction(_of_means)
def mean_square(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: DTypeArgument | None = None,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Average the squares of elements.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        dtype: Element type of the result; integers are rounded and saturated.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.mean_square(x[0], keep_dims=True).tolist()
    [13.666666984558105]
    """
    return _stored(_mean_square(input, plan), out)


@_reduction(_of_means)
def rms(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: DTypeArgument | None = None,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Take the root of the mean square of elements.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        dtype: Element type of the result; integers are rounded and saturated.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.rms(x, axes=0).tolist()[0]
    2.2360680103302
    """
    return _stored(library(out).sqrt(_mean_square(input, plan)), out)


@_reduction(_as_it_is)
def max(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find the largest element; NaN is passed over where there are numbers.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.

    Returns:
        Shape and layout without the dimensions that are reduced; dtype of the input. Of nothing it is
        the smallest finite number of the dtype.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.max(x, axes=1).tolist()
    [6, 5]
    """
    return _extreme(numpy.fmax, input, plan, out, "min")


@_reduction(_as_it_is)
def min(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find the smallest element; NaN is passed over where there are numbers.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.

    Returns:
        Shape and layout without the dimensions that are reduced; dtype of the input. Of nothing it is
        the largest finite number of the dtype.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.min(x).tolist()
    1
    """
    return _extreme(numpy.fmin, input, plan, out, "max")


@_reduction(_of_means)
def variance(
    data: Array,
    mean: Array | None = None,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    ddof: _Degrees = 0,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Average the squares of distances from the mean.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        ddof: What is taken from the number of elements before it divides.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.variance(x, axes=0, ddof=1).tolist()
    [2.0, 2.0, 0.5]
    """
    return _stored(_variance(data, mean, plan, ddof), out)


@_reduction(_of_means)
def std_dev(
    data: Array,
    mean: Array | None = None,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    ddof: _Degrees = 0,
    layout: Layout = GIVEN,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Take the root of the variance: of the mean square of distances from the mean.

    Args:
        axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty
            list, which leaves the shape as it is.
        axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
        keep_dims: Leave the reduced dimensions there, with extents of 1.
        ddof: What is taken from the number of elements before it divides.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    Raises:
        ArgumentError: The sample does not have these dimensions.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.std_dev(x, axes=0).tolist()
    [1.0, 1.0, 0.5]
    >>> ndd.reductions.std_dev(x, 0.0).tolist() == ndd.reductions.rms(x).tolist()
    True
    """
    return _stored(library(out).sqrt(_variance(data, mean, plan, ddof)), out)
