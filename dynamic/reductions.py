"""Operators that make one number of many: of all of a sample, or along some of its dimensions."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, cast

import numpy

from ._arrays.array import Array, library
from ._base.layout import axes_of
from ._lift.argument import GIVEN, Between, DTypeArgument, Several
from ._lift.call import Call, Plan, Shape
from ._lift.kernels import Memory
from ._lift.operator import Operator, operator
from .dtypes import convert
from .errors import ArgumentError
from .kernels.cpu import reductions
from .kernels.cpu.digits import above, level
from .kernels.gpu import arrays

__all__ = ["max", "mean", "mean_square", "min", "rms", "std_dev", "sum", "variance"]


def __dir__() -> list[str]:
    """Names for completion."""
    return __all__


P = ParamSpec("P")
_Kind: TypeAlias = "numpy.dtype[Any]"
_Axes: TypeAlias = int | Several[int]
_Places: TypeAlias = tuple[int, ...]  # dimensions, counted from the end: -1 is the last
_Degrees: TypeAlias = Annotated[int, Between(0)]

_UINT64, _INT64, _FLOAT32, _FLOAT64 = map(numpy.dtype, ("uint64", "int64", "float32", "float64"))


def _places(call: Call) -> _Places:
    """The dimensions of a sample that the arguments name."""
    found = axes_of(call.name, call.ndim, call.layout, call.fixed["axes"], call.fixed["axis_names"])
    return tuple(range(-call.ndim, 0)) if found is None else tuple(place - call.ndim for place in found)


def _plan(call: Call, kind: Callable[[_Kind], _Kind], adding: Callable[[_Kind], _Kind] | None) -> Plan:
    """Shapes without the dimensions that are reduced, which are given to the kernel."""
    places, keep = _places(call), call.fixed["keep_dims"]
    remaining = [axis for axis in range(-call.ndim, 0) if axis not in places]

    def kept(shape: Shape) -> Shape:
        return tuple([1 if axis in places else n for axis, n in enumerate(shape, -call.ndim)])

    def reduced(shape: Shape) -> Shape:
        return tuple([shape[axis] for axis in remaining])

    def check(data: Array, mean: Array, /, **_: Any) -> None:
        if mean.size != 1 and mean.shape not in {kept(data.shape), reduced(data.shape)}:
            expected = f"one number, or of shape {reduced(data.shape)} or {kept(data.shape)}"
            raise ArgumentError(call.name, "mean", expected, str(mean.shape))

    if len(call.inputs) > 1:
        call.each(check)
    shapes, asked = call.shapes_by(kept if keep else reduced), call.fixed.get("dtype")
    plan = Plan(shapes, kind(call.dtype) if asked is None else call.asked, data=places)
    if not keep:
        plan.ndim = len(remaining)
        plan.layout = "".join([call.layout[axis] for axis in remaining]) or None if call.layout else None
    apart = call.library is numpy and not call.dense() and len(set(shapes)) == 1
    if adding is not None and apart and reductions.are_long(call.shapes, places, call.dtype):
        plan.kernel = functools.partial(_of_photos, kind=adding(call.dtype), mean=kind is _of_means)
    return plan


def _of_photos(call: Call, memory: Memory, kind: _Kind, *, mean: bool) -> None:
    """Sums or means of samples that each are one call of OpenCV."""
    sums, counts = reductions.totals(call.columns()[0], call.plan.data, kind)
    _stored(sums / counts[:, None] if mean else sums, memory.storages[0])


def _to_any(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: DTypeArgument | None = None,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array: ...


def _to_same(
    input: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array: ...


def _from_mean(
    data: Array,
    mean: Array | None = None,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    ddof: _Degrees = 0,
    plan: _Places = GIVEN,
    out: Array = GIVEN,
) -> Array: ...


_ARGUMENTS = """Args:
    axes: The dimensions to reduce: one or several, negative from the end; by default all, and none for an empty list,
        which leaves the shape as it is.
    axis_names: The dimensions by their letters in the layout ("HW"), instead of `axes`.
    keep_dims: Leave the reduced dimensions there, with extents of 1."""
_MORE = {
    _to_any: "\n    dtype: Element type of the result; integers are rounded and saturated.",
    _from_mean: "\n    ddof: Subtracted from the number of elements before it divides.",
}
_RAISES = """Raises:
    ArgumentError: The sample does not have these dimensions."""


def _reduction(
    declared: Callable[Concatenate[Any, P], Any],
    kind: Callable[[_Kind], _Kind],
    adding: Callable[[_Kind], _Kind] | None = None,
) -> Callable[[Callable[..., Array]], Operator[P]]:
    """Make an operator of a function that is given an array and the dimensions to reduce, from the end.

    Args:
        declared: Has the arguments of the operator.
        kind: The dtype of the result for that of the input, where the caller asks for none.
        adding: For sums and means, the dtype for the sums of large samples.
    """

    def made(function: Callable[..., Array]) -> Operator[P]:
        @functools.wraps(declared)
        def body(*inputs: Any, plan: Any, out: Any, ddof: int | None = None, **_: Any) -> Any:
            more = {} if ddof is None else {"ddof": ddof}
            return _stored(function(inputs[0], plan, *inputs[1:], **more), out)

        first, returns, example = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        arguments = _ARGUMENTS + _MORE.get(declared, "")
        body.__doc__ = f"{first}\n\n{arguments}\n\n{returns}\n\n{_RAISES}\n\n{example}"
        body.__name__, body.__qualname__ = function.__name__, function.__qualname__
        vars(body)["__signature__"] = inspect.signature(vars(body).pop("__wrapped__"))
        plan = functools.partial(_plan, kind=kind, adding=adding)
        lift = operator(name=f"reductions.{function.__name__}", plan=plan, gpu=True, unit="array")
        return lift(cast(Callable[Concatenate[Any, P], Any], body))

    return made


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
    """The kernels for an array, where it is."""
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
    """The dtype for the sum of a mean."""
    return _of_sums(kind) if kind.kind in "biu" and kind.itemsize < 8 else _FLOAT64


def _divided(sums: Array, count: int) -> Array:
    """Means in float64; that of nothing is NaN."""
    if count:
        return sums / numpy.float64(count)
    with numpy.errstate(invalid="ignore"):
        return sums / numpy.float64(count)


def _mean_square(data: Array, places: _Places) -> Array:
    return _divided(_kernels(data).squares(data, places, None), _count(data, places))


def _adding(kind: _Kind) -> _Kind:
    """The dtype for a sum."""
    return _FLOAT64 if kind.kind == "f" else _of_sums(kind)


def _extreme(function: Any, data: Array, places: _Places, nothing: str) -> Array:
    """The largest or smallest; of no elements the least or greatest of the dtype."""
    if _count(data, places):
        return _kernels(data).extreme(function, data, places)
    kind = data.dtype
    limits: Any = numpy.finfo(kind) if kind.kind == "f" else numpy.iinfo(numpy.uint8 if kind.kind == "b" else kind)
    kept = [1 if axis in places else extent for axis, extent in enumerate(data.shape, -data.ndim)]
    return library(data).full(kept, getattr(limits, nothing), kind)


@_reduction(_to_any, _of_sums, _adding)
def sum(data: Array, places: _Places) -> Array:
    """Add up elements.

    Returns:
        Shape and layout without the dimensions that are reduced; uint64 for unsigned integers and bools, int64
        for signed integers, float32 for floats, but float64 for float64. Sums beyond 64 bits wrap around.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.sum(x, axes=1).tolist()
    [9, 12]
    """
    return _kernels(data).total(data, places, _adding(data.dtype))


@_reduction(_to_any, _of_means, _wide)
def mean(data: Array, places: _Places) -> Array:
    """Average elements.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.
        The mean of nothing is NaN.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.mean(x, axis_names="H").tolist()
    [2.0, 3.0, 5.5]
    """
    return _mean(data, places)


@_reduction(_to_any, _of_means)
def mean_square(data: Array, places: _Places) -> Array:
    """Average the squares of elements.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.mean_square(x[0], keep_dims=True).tolist()
    [13.666666984558105]
    """
    return _mean_square(data, places)


@_reduction(_to_any, _of_means)
def rms(data: Array, places: _Places) -> Array:
    """Take the root of the mean square of elements.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.rms(x, axes=0).tolist()[0]
    2.2360680103302
    """
    return library(data).sqrt(_mean_square(data, places))


@_reduction(_to_same, _as_it_is)
def max(data: Array, places: _Places) -> Array:
    """Find the largest element; NaN is passed over where there are numbers.

    Returns:
        Shape and layout without the dimensions that are reduced; dtype of the input. Of nothing it is
        the smallest finite number of the dtype.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.max(x, axes=1).tolist()
    [6, 5]
    """
    return _extreme(numpy.fmax, data, places, "min")


@_reduction(_to_same, _as_it_is)
def min(data: Array, places: _Places) -> Array:
    """Find the smallest element; NaN is passed over where there are numbers.

    Returns:
        Shape and layout without the dimensions that are reduced; dtype of the input. Of nothing it is
        the largest finite number of the dtype.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.min(x).tolist()
    1
    """
    return _extreme(numpy.fmin, data, places, "max")


def _variance(data: Array, places: _Places, mean: Array | None, ddof: int) -> Array:
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


@_reduction(_from_mean, _of_means)
def variance(data: Array, places: _Places, mean: Array | None = None, *, ddof: int) -> Array:
    """Average the squares of distances from the mean.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.variance(x, axes=0, ddof=1).tolist()
    [2.0, 2.0, 0.5]
    """
    return _variance(data, places, mean, ddof)


@_reduction(_from_mean, _of_means)
def std_dev(data: Array, places: _Places, mean: Array | None = None, *, ddof: int) -> Array:
    """Take the root of the variance: of the mean square of distances from the mean.

    Returns:
        Shape and layout without the dimensions that are reduced; float32, or float64 for float64.

    >>> x = ndd.as_tensor([[1, 2, 6], [3, 4, 5]], layout="HW")
    >>> ndd.reductions.std_dev(x, axes=0).tolist()
    [1.0, 1.0, 0.5]
    >>> ndd.reductions.std_dev(x, 0.0).tolist() == ndd.reductions.rms(x).tolist()
    True
    """
    return library(data).sqrt(_variance(data, places, mean, ddof))
