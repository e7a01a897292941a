"""Normalising by mean and standard deviation, given or found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._base import pool
from dynamic._base.layout import axes_of
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Numbers, PerSample, Several
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.dtypes import float32
from dynamic.errors import ArgumentError, ScaleWarning, warn_caller
from dynamic.kernels.cpu import normalize as kernels
from dynamic.kernels.cpu.digits import above, level
from dynamic.kernels.gpu import arrays

__all__ = ["normalize"]

_FEW_STEPS = 1 << 23  # bytes; threads share more, and the results of their steps stay in the cache
_CACHED = 1 << 18  # bytes of small samples that are done at once
_FLOAT32 = numpy.dtype("float32")
_Axes: TypeAlias = int | Several[int]
_Epsilon: TypeAlias = Annotated[float, Between(0)]


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
    found = axes_of("normalize", ndim, layout, axes, axis_names)
    if found is not None:
        if not found:
            argument = "axes" if axis_names is None else "axis_names"
            raise ArgumentError("normalize", argument, "at least one dimension", "none")
        return sorted(found)
    arrays = [array for array in given if array.size > 1]
    return [axis for axis in range(ndim) if all(array.shape[axis] == 1 for array in arrays)]


def _given(argument: str, value: Array | None, extents: Shape) -> Array | None:
    """A mean or a deviation that broadcasts to an image, with as many dimensions."""
    if value is None:
        return None
    shape = (1,) * (len(extents) - value.ndim) + value.shape
    if len(shape) != len(extents) or any(a not in (1, b) for a, b in zip(shape, extents, strict=True)):
        expected = f"a number, or an array that broadcasts to the input, shape {extents}"
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


class _Plan:
    """The parameters of samples of one shape: dimensions to sum over, and a mean and a deviation, if they are known."""

    def __init__(self, call: Call, shape: Shape, mean: Array | None, deviation: Array | None) -> None:
        self.shape = shape = shape or (1,)
        self.mean = _given("mean", mean, shape)  #: above the level
        self.deviation = _given("stddev", deviation, shape)
        self.variance: Any = None
        self.level: Any = None  #: is subtracted from the samples first, if there is one
        given = [array for array in (self.mean, self.deviation) if array is not None]
        self.axes = _axes_of(len(shape), call.layout, call.fixed["axes"], call.fixed["axis_names"], given)
        self.count = math.prod(shape[axis] for axis in self.axes)
        self.kept = tuple(1 if axis in self.axes else extent for axis, extent in enumerate(shape))
        self.nbytes = math.prod(shape) * call.dtype.itemsize
        #: Whether rows are normalised to float32; of integers only short ones, as for many a table is faster.
        self.rows = not given and call.library is numpy and call.asked == _FLOAT32 and self._is_of_rows(call.dtype)

    def _is_of_rows(self, kind: numpy.dtype[Any]) -> bool:
        trailing = bool(self.axes) and self.axes[0] == len(self.shape) - len(self.axes)
        short = kind.kind in "iu" and kind.itemsize <= 2 and self.count < kernels.LONG_ROW
        return trailing and (short or kind == _FLOAT32)

    @property
    def together(self) -> bool:
        """Whether many such samples are normalised at once, with the same results as one by one."""
        return self.rows and self.mean is None and self.count < kernels.LONG_ROW and self.nbytes <= _CACHED


def _plan_normalize(call: Call) -> Plan:
    """The parameters of each shape of sample; of each sample, where they differ or each takes its own time."""

    def of_sample(image: Array, /, *, mean: Array | None, stddev: Array | None, **_: Any) -> _Plan:
        if mean is not None and stddev is not None:
            warn_of_fractions(call.name, "stddev", image.dtype, mean, stddev)
        return _Plan(call, image.shape, mean, stddev)

    plans = call.each(of_sample)
    if call.fixed["batch"] and plans:
        _pool(call, plans)
    together = not call.varying and (call.library is not numpy or all(plan.together for plan in set(plans)))
    data = dict(zip(call.shapes, plans, strict=True)) if together else plans
    return Plan(call.shapes, call.asked, data=data, weight=2.0)


def _pool(call: Call, plans: list[_Plan]) -> None:
    """Find mean and variance over all samples, where they are not given."""
    first = plans[0]
    for i, plan in enumerate(plans):
        if plan.kept != first.kept:
            expected = f"the same in all samples, {first.kept}, in the dimensions that are not reduced"
            raise ArgumentError(call.name, f"image[{i}]", f"of an extent {expected}", str(plan.kept))
    images = [image.reshape(plan.shape) for image, plan in zip(call.columns()[0], plans, strict=True)]
    count, base = sum(plan.count for plan in plans), None
    if first.mean is None:
        base = level(images, first.axes)
        images = images if base is None else [above(image, base) for image in images]
        mean = _total(images, plans, lambda image, plan: _sums(image, plan.axes)) / max(1, count)
        for plan in plans:
            plan.mean, plan.level = mean, base
    if first.deviation is None:
        squares = _total(images, plans, lambda image, plan: _squares(image, plan.mean, plan.axes))
        for plan in plans:
            plan.variance = _variance(squares, count, call.fixed["ddof"])


def _total(images: list[Array], plans: list[_Plan], part: Callable[[Array, _Plan], Array]) -> Array:
    """The sum of the results for each sample."""
    xp = library(images[0])
    parts: list[Any] = [xp.zeros(plans[0].kept)] * len(plans)

    def one(i: int) -> None:
        if images[i].size:
            parts[i] = part(images[i], plans[i])

    pool.run(one, len(plans), sum(image.nbytes for image in images) if xp is numpy else 0)
    return xp.stack(parts).sum(axis=0)


def _variance(squares: Array, count: int, ddof: int) -> Array:
    return squares / (count - ddof) if count > ddof else library(squares).zeros_like(squares)


@operator(plan=_plan_normalize, gpu=True, unit="array")
def normalize(
    image: Array,
    /,
    *,
    axes: _Axes | None = None,
    axis_names: str | None = None,
    batch: bool = False,
    ddof: int = 0,
    dtype: DTypeArgument = float32,
    epsilon: _Epsilon = 0.0,
    mean: PerSample[Numbers | None] = None,
    scale: float = 1.0,
    shift: float = 0.0,
    stddev: PerSample[Numbers | None] = None,
    plan: _Plan | dict[Shape, _Plan] = GIVEN,
    out: Array = None,
) -> Array:
    """Subtract the mean and divide by the standard deviation: scale * (x - mean) / stddev + shift.

    A mean or deviation that is not given is that of the sample, or of all samples together. Where the deviation is 0,
    so is the quotient.

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
        ArgumentError: A dimension is none of the sample, or an array does not broadcast; with `batch`, samples differ
            in a dimension that stays apart.

    >>> ndd.normalize(ndd.as_tensor([1.0, 2.0, 3.0, 4.0, 5.0]), scale=2**0.5).numpy().round(3).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    how = epsilon, scale, shift, ddof
    own = plan if isinstance(plan, _Plan) else plan.get(image.shape) or plan[image.shape[1:]]
    if image.nbytes == own.nbytes or library(image) is not numpy:
        _normalize(own, image, out, *how)
        return out
    step = max(1, _CACHED // max(1, own.nbytes))
    for i in range(0, len(image), step):
        _normalize(own, image[i : i + step], out[i : i + step], *how)
    return out


def _normalize(plan: _Plan, image: Array, out: Array, epsilon: float, scale: float, shift: float, ddof: int) -> None:
    """Normalise a sample, or many at once."""
    axes, shape = plan.axes, plan.shape
    if image.ndim > len(shape):
        axes, shape = [axis - len(shape) for axis in axes], (len(image), *shape)
    elif image.ndim and image.shape != shape:  # many single numbers
        axes, shape = [-1], (len(image), 1)
    image = image.reshape(shape)
    if not image.size:
        return
    if plan.rows and plan.mean is None and image.nbytes < _FEW_STEPS:
        width = math.prod(shape[axis] for axis in axes)
        rows = numpy.ascontiguousarray(image).reshape(-1, width)
        kernels.normalized_rows(rows, ddof, epsilon, scale, shift, out.reshape(-1, width))
        return
    mean, variance = plan.mean, plan.variance
    base = level([image], axes) if mean is None else plan.level
    if base is not None:
        image = above(image, base)
    if mean is None:
        mean = _sums(image, axes) / plan.count
    if plan.deviation is None and variance is None:
        variance = _variance(_squares(image, mean, axes), plan.count, ddof)
    factor = _factor(plan.deviation, variance, epsilon, scale)
    normalized = kernels.normalized if library(image) is numpy else arrays.normalized
    normalized(image, mean, factor, shift, out.reshape(shape))


@numpy.errstate(over="ignore", invalid="ignore")
def _factor(deviation: Array | None, variance: Any, epsilon: float, scale: float) -> Array:
    """The factor of the result; 0 where the deviation is 0."""
    if deviation is not None and not epsilon:
        root = deviation
    else:
        squared = variance if deviation is None else numpy.square(deviation)
        root = library(squared).sqrt(squared + epsilon)
    if library(root) is numpy:
        return numpy.divide(scale, root, out=numpy.zeros(root.shape), where=root != 0)
    return library(root).where(root != 0, scale / root, 0.0)
