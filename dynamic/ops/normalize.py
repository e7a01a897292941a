"""Normalising by mean and standard deviation, given or found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._base import pool
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Layout, Numbers, PerSample, Several
from dynamic._lift.call import Call
from dynamic._lift.former import Spec, planned
from dynamic._lift.operator import operator
from dynamic.dtypes import float32
from dynamic.errors import ArgumentError, ScaleWarning, shown, warn_caller
from dynamic.kernels.cpu import normalize as kernels
from dynamic.kernels.cpu.digits import above, level
from dynamic.kernels.gpu import arrays

__all__ = ["normalize"]

_FEW_STEPS = 1 << 23  # bytes; of more, which threads share, what the steps find stays in the cache
_CACHED = 1 << 18  # bytes of small samples that are done at once
_FLOAT32 = numpy.dtype("float32")
_Axes: TypeAlias = int | Several[int]
_Epsilon: TypeAlias = Annotated[float, Between(0)]


def _normalized(image: Array, /, *, dtype: Any, mean: Any = None, stddev: Any = None, **_: Any) -> Spec:
    if mean is not None and stddev is not None:
        warn_of_fractions("normalize", "stddev", image.dtype, mean, stddev)
    return image.shape, dtype.dtype


def warn_of_fractions(operator: str, argument: str, kind: numpy.dtype[Any], mean: Any, deviation: Any) -> None:
    """Warn where integers are normalised by a mean and a deviation of values between 0 and 1.

    Args:
        operator: Normalises them.
        argument: Its name for the deviation.
        kind: Of the values.
        mean: One or several numbers.
        deviation: The same.
    """
    if kind.kind not in "iu":
        return
    means, deviations = numpy.asarray(mean), numpy.asarray(deviation)
    fractions = means.size and deviations.size and means.min() >= 0 and 0 < means.max() < 1
    if fractions and deviations.min() > 0 and deviations.max() < 1:
        text = (
            f"{operator}(): arguments 'mean' and '{argument}' are below 1, as of images with values from 0 to 1, but "
            f"the values are {kind}. Multiply both by the largest value, which is 255 of bytes."
        )
        warn_caller(text, ScaleWarning)


def _axes_of(
    ndim: int, layout: str | None, axes: int | tuple[int, ...] | None, axis_names: str | None, given: list[Array]
) -> list[int]:
    """The dimensions over which mean and deviation are found, ascending."""
    name = "normalize"
    if axes is not None and axis_names is not None:
        raise ArgumentError(name, "axes", "left out beside axis_names", shown(axes))
    if axis_names is not None:
        missing = [letter for letter in axis_names if letter not in (layout or "")]
        if missing or not axis_names or len(set(axis_names)) != len(axis_names):
            expected = f"different letters of the layout, {layout!r}"
            raise ArgumentError(name, "axis_names", expected, repr(axis_names), "as_tensor(x, layout=...) gives one.")
        return sorted((layout or "").index(letter) for letter in axis_names)
    if axes is not None:
        places = [axes] if isinstance(axes, int) else list(axes)
        found = sorted({place % ndim for place in places if -ndim <= place < ndim})
        if not places or len(found) != len(places):
            raise ArgumentError(name, "axes", f"different dimensions of the {ndim} of the input", shown(axes))
        return found
    arrays = [array for array in given if array.size > 1]
    return [axis for axis in range(ndim) if all(array.shape[axis] == 1 for array in arrays)]


def _given(argument: str, value: Array | None, image: Array) -> Array | None:
    """A mean or a deviation that broadcasts to the image, with as many dimensions."""
    if value is None:
        return None
    shape = (1,) * (image.ndim - value.ndim) + value.shape
    if len(shape) != image.ndim or any(a not in (1, b) for a, b in zip(shape, image.shape, strict=True)):
        expected = f"a number, or an array that broadcasts to the input, shape {image.shape}"
        raise ArgumentError("normalize", argument, expected, f"shape {value.shape}")
    return value.reshape(shape)


def _sums(image: Array, axes: list[int]) -> Array:
    """Sums over some dimensions, which keep an extent of 1, in float64."""
    if library(image) is numpy:
        return kernels.sums(image, axes)
    return arrays.total(image, axes, numpy.dtype(numpy.float64))


def _squares(image: Array, mean: Array, axes: list[int]) -> Array:
    """Sums of the squares of the distances from the mean."""
    if library(image) is numpy:
        return kernels.squares(image, mean, axes)
    return arrays.squares(image, axes, mean)


class _Found(NamedTuple):
    """The parameters of all samples together, as far as they are asked for and not given."""

    ndim: int = 0  #: of a sample
    mean: Any = None  #: above the level
    variance: Any = None
    level: Any = None  #: is taken from all samples first, if there is one


def _across(call: Call) -> _Found:
    """The number of dimensions of a sample, and mean and variance over all samples where they are asked for."""
    return _pooled(call) if call.fixed["batch"] else _Found(call.inputs[0].ndim)


def _pooled(call: Call) -> _Found:
    """Mean and variance over all samples, of what is not given."""
    plans = [_Plan(image, arguments) for (image,), arguments in zip(call.samples(), call.rows(), strict=True)]
    first = plans[0]
    for i, plan in enumerate(plans):
        if plan.kept != first.kept:
            expected = f"the same in all samples, {first.kept}, in the dimensions that stay apart"
            raise ArgumentError("normalize", f"image[{i}]", f"of an extent {expected}", str(plan.kept))
    count, ndim = sum(plan.count for plan in plans), call.inputs[0].ndim
    base = level([plan.image for plan in plans], first.axes) if first.mean is None else None
    if base is not None:
        for plan in plans:
            plan.image = above(plan.image, base)
    mean = None
    if any(plan.mean is None for plan in plans):
        mean = _total(plans, lambda plan: _sums(plan.image, plan.axes)) / max(1, count)
        for plan in plans:
            plan.mean = mean if plan.mean is None else plan.mean
    if all(plan.deviation is not None for plan in plans):
        return _Found(ndim, mean, None, base)
    squares = _total(plans, lambda plan: _squares(plan.image, plan.mean, plan.axes))
    return _Found(ndim, mean, _variance(squares, count, call.fixed["ddof"]), base)


def _total(plans: list[_Plan], part: Callable[[_Plan], Array]) -> Array:
    """The sum of what is found for each sample."""
    xp = library(plans[0].image)
    parts: list[Any] = [xp.zeros(plans[0].kept)] * len(plans)

    def one(i: int) -> None:
        if plans[i].image.size:
            parts[i] = part(plans[i])

    pool.run(one, len(plans), sum(plan.image.nbytes for plan in plans) if xp is numpy else 0)
    return xp.stack(parts).sum(axis=0)


def _variance(squares: Array, count: int, ddof: int) -> Array:
    return squares / (count - ddof) if count > ddof else library(squares).zeros_like(squares)


class _Plan:
    """What is to be done with one sample: its dimensions to sum over, and what is given."""

    def __init__(self, image: Array, arguments: dict[str, Any]) -> None:
        self.image = image = image.reshape(image.shape or 1)
        self.mean = _given("mean", arguments["mean"], image)
        self.deviation = _given("stddev", arguments["stddev"], image)
        given = [array for array in (self.mean, self.deviation) if array is not None]
        self.axes = _axes_of(image.ndim, arguments["layout"], arguments["axes"], arguments["axis_names"], given)
        self.count = math.prod(image.shape[axis] for axis in self.axes)
        self.kept = tuple(1 if axis in self.axes else extent for axis, extent in enumerate(image.shape))


def _kind(ndim: int, _: Any, *, dtype: Any, **__: Any) -> tuple[int, Any]:
    return ndim, dtype.dtype


@operator(plan=planned(_normalized, kind=_kind, across=_across, weight=2), gpu=True, unit="array")
def normalize(
    image: Array, /, *, axes: _Axes | None = None, axis_names: str | None = None, batch: bool = False, ddof: int = 0,
    dtype: DTypeArgument = float32, epsilon: _Epsilon = 0.0, mean: PerSample[Numbers | None] = None,
    scale: float = 1.0, shift: float = 0.0, stddev: PerSample[Numbers | None] = None, layout: Layout = GIVEN,
    plan: _Found = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Subtract the mean and divide by the standard deviation: scale * (x - mean) / stddev + shift.

    What is not given is found in the sample, or in all samples together. Where the deviation is 0, so is the quotient.

    Args:
        axes: Dimensions over which mean and deviation are found, one or several; negative ones count from the last. By
            default those where the given mean or deviation has an extent of 1, or all.
        axis_names: The same as letters of the layout.
        batch: Whether to find one mean and deviation of all samples together.
        ddof: The variance is the sum of squares divided by the number of values less this.
        dtype: Element type of the result; integers are rounded and saturated.
        epsilon: Added to the variance, found or given.
        mean: A number, or an array that broadcasts to the sample.
        scale: Factor of the result.
        shift: Added to the result.
        stddev: A number, or an array that broadcasts to the sample.

    Returns:
        Samples of the same shape and layout.

    Raises:
        ArgumentError: A dimension is none of the sample, an array does not broadcast, or `batch` is asked for samples
            that differ in a dimension that stays apart.

    >>> ndd.normalize(ndd.as_tensor([1.0, 2.0, 3.0, 4.0, 5.0]), scale=2**0.5).numpy().round(3).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    many = image.ndim > plan.ndim
    given = {"mean": mean, "stddev": stddev, "axes": axes, "axis_names": axis_names,
             "layout": layout[1:] if layout and many else layout}  # fmt: skip
    how = epsilon, scale, shift, ddof, plan
    if not many:
        _normalize(_Plan(image, given), image, out, *how)
    elif library(image) is numpy:
        own = _Plan(image[0, ...], given)
        if _are_same_together(own, out.dtype, plan):
            step = max(1, _CACHED // max(1, own.image.nbytes))
            for i in range(0, len(image), step):
                _normalize(own, image[i : i + step], out[i : i + step], *how)
        else:
            return NotImplemented
    else:
        _normalize(_Plan(image[0, ...], given), image, out, *how)
    return out


def _normalize(
    plan: _Plan, image: Array, out: Array, epsilon: float, scale: float, shift: float, ddof: int, found: _Found
) -> None:
    """Normalise a sample, or many at once that all are as the plan is, which is made of one of them."""
    axes, shape = plan.axes, plan.image.shape
    if image.ndim > len(shape):
        axes, shape = [axis - len(shape) for axis in axes], (len(image), *shape)
    elif image.ndim and image.shape != shape:  # many single numbers
        axes, shape = [-1], (len(image), 1)
    image = image.reshape(shape)
    if not image.size:
        return
    mean, variance = plan.mean if plan.mean is not None else found.mean, found.variance
    if _is_of_rows(plan, image, out.dtype, axes) and mean is None and variance is None:
        width = math.prod(shape[axis] for axis in axes)
        rows = numpy.ascontiguousarray(image).reshape(-1, width)
        kernels.normalized_rows(rows, ddof, epsilon, scale, shift, out.reshape(-1, width))
        return
    base = found.level if found.mean is not None else level([image], axes) if mean is None else None
    if base is not None:
        image = above(image, base)
    if mean is None:
        mean = _sums(image, axes) / plan.count
    if plan.deviation is None and variance is None:
        variance = _variance(_squares(image, mean, axes), plan.count, ddof)
    factor = _factor(plan.deviation, variance, epsilon, scale)
    normalized = kernels.normalized if library(image) is numpy else arrays.normalized
    normalized(image, mean, factor, shift, out.reshape(shape))


def _are_same_together(plan: _Plan, dtype: numpy.dtype[Any], found: _Found) -> bool:
    """Whether many samples that are as the plan's may be normalised at once, with the same results as one by one."""
    is_short = plan.count < kernels.LONG_ROW and plan.image.nbytes <= _CACHED
    return (
        is_short and found.mean is None and found.variance is None and _is_of_rows(plan, plan.image, dtype, plan.axes)
    )


def _is_of_rows(plan: _Plan, image: Array, dtype: numpy.dtype[Any], axes: list[int]) -> bool:
    """Whether what is normalised are rows, together not large, without a given mean or deviation, to float32.

    Of float32, or of short integers while they are few: more are looked up in a table.
    """
    if plan.mean is not None or plan.deviation is not None or library(image) is not numpy or dtype != _FLOAT32:
        return False
    if not axes or axes[0] % image.ndim != image.ndim - len(axes):
        return False
    if image.dtype.kind in "iu":
        return bool(image.dtype.itemsize <= 2 and plan.count < kernels.LONG_ROW and image.nbytes < _FEW_STEPS)
    return bool(image.dtype == _FLOAT32 and image.nbytes < _FEW_STEPS)


@numpy.errstate(over="ignore", invalid="ignore")
def _factor(deviation: Array | None, variance: Any, epsilon: float, scale: float) -> Array:
    """What to multiply by; 0 where the deviation is 0."""
    if deviation is not None and not epsilon:
        root = deviation
    else:
        squared = variance if deviation is None else numpy.square(deviation)
        root = library(squared).sqrt(squared + epsilon)
    if library(root) is numpy:
        return numpy.divide(scale, root, out=numpy.zeros(root.shape), where=root != 0)
    return library(root).where(root != 0, scale / root, 0.0)
