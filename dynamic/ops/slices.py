"""Parts of arrays along any of their dimensions: slice, pad, erase."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Layout, PerSample, Several, without_effect
from dynamic._lift.call import Call, Moving, Plan, Shape
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.data import Tensor, as_one
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import places, points, regions, windows
from dynamic.kernels.gpu import copies as gpu_copies
from dynamic.kernels.gpu import regions as parts

from . import _copies as copies
from .windows import _AnyPolicy, _fill, channels_of, map_windows, plan_windows, starts_of_each

__all__ = ["erase", "pad", "slice"]

_Axes: TypeAlias = int | Several[int]
_Whole: TypeAlias = int | Several[int]
_Values: TypeAlias = float | Several[float]
_Multiple: TypeAlias = Annotated[int, Between(1)]


def filling(operator: str, values: Any, image: Array, layout: str | None, argument: str = "fill_value") -> Any:
    """The values to fill with, as they broadcast to an image."""
    place = channels_of(layout, image.ndim)
    return _fill(operator, values, image.shape[place] if place is not None else 1, place, image.ndim, argument)


def _plan_slice(call: Call) -> Plan:
    found = _windows(call) if len(call.inputs) == 3 and call.count > 1 else None
    return plan_windows(call, call.each(_window, of_values=len(call.inputs) > 1) if found is None else found)


_NAMED = "start", "rel_start", "end", "rel_end", "shape", "rel_shape"  # they say a window without an anchor


def _windows(call: Call) -> list[places.Window] | None:
    """The windows by anchors and extents; None where they are found one by one."""
    fixed = call.fixed
    anchors, sizes = (x.array[None] if isinstance(x, Tensor) else as_one(x) for x in call.inputs[1:])
    if call.varying or any(fixed[name] is not None for name in _NAMED):
        return None
    if not isinstance(anchors, numpy.ndarray) or not isinstance(sizes, numpy.ndarray):
        return None
    relative = fixed["normalized_anchor"], fixed["normalized_shape"]
    how = fixed["axes"], fixed["axis_names"], relative, fixed["out_of_bounds_policy"]
    return places.sliced_at_once(call.shapes, call.layout, anchors, sizes, *how)


def _window(
    input: Array,
    anchor: Array = None,
    extent: Array = None,
    /,
    *,
    dtype: Any,
    fill_values: Any,
    layout: str | None,
    **arguments: Any,
) -> places.Window:
    """The window that the arguments of `slice` say."""
    return places.sliced("slice", input.shape, layout, anchor, extent, **arguments)


def _slice_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    """Anchors and extents that are on the GPU were waited for: they say how large the results are."""
    copy_on_gpu(call, inputs[0], target, starts_of_each(call), "fill_values")


def copy_on_gpu(call: Call, source: Described, target: Described, starts: Any, argument: str) -> None:
    """Copy windows; the fill outside is an argument of all samples, or of each."""
    place = channels_of(call.layout, source.ndim)
    fills = _fills(call, argument, target, place)
    gpu_copies.window(source, target, starts, None, fills if argument in call.varying else fills[0], place)


def _fills(call: Call, argument: str, data: Described, place: int | None) -> Any:
    """The values to fill each sample with, repeated until all have as many: (N, M)."""
    counts = data.shapes[:, place].tolist() if place is not None else [1] * call.count
    values = [numpy.asarray(each, numpy.float64).reshape(-1) for each in call.column(argument)]
    for size, count in set(zip(map(len, values), counts, strict=True)):
        _fill(call.name, (0.0,) * size, count, place, data.ndim, argument)  # which refuses values that do not fit
    most = max(map(len, values))
    return numpy.stack([numpy.resize(each, most) for each in values])


@operator(plan=Moving(_plan_slice, map_windows), gpu=_slice_on_gpu)
@without_effect("image_type")
def slice(
    input: Array,
    anchor: Array = None,
    extent: Array = None,
    /,
    *,
    axes: PerSample[_Axes | None] = None,
    axis_names: str = "WH",
    dtype: DTypeArgument | None = None,
    end: PerSample[_Whole | None] = None,
    fill_values: _Values = 0.0,
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    out_of_bounds_policy: _AnyPolicy = "error",
    rel_end: PerSample[_Values | None] = None,
    rel_shape: PerSample[_Values | None] = None,
    rel_start: PerSample[_Values | None] = None,
    shape: PerSample[_Whole | None] = None,
    start: PerSample[_Whole | None] = None,
    layout: Layout = GIVEN,
    plan: Sequence[int] = (),
    out: Array = None,
) -> Array:
    """Take a window of each array, given by where it begins and where it ends or how large it is.

    An anchor and an extent may be given as inputs instead of by name: integers are positions, floats parts of the
    whole, in the order of the axes.

    Args:
        axes: The dimensions that are sliced, by number; all of the others are kept. None at all, ``[]``, are all.
        axis_names: The same by the letters of the layout, where `axes` is not given. Width comes first by default.
        dtype: Element type of the result, by default the input's; values are rounded and saturated to it.
        end: Where the window ends; by default where the array does.
        fill_values: Values outside of the array, one value or one for each channel.
        normalized_anchor: Whether an anchor of floats is a part of the whole, and not a position.
        normalized_shape: Whether an extent of floats is a part of the whole, and not a size.
        out_of_bounds_policy: Treatment of a window that is not inside: "error", "pad" it with `fill_values` (or
            "constant"), "trim_to_shape", or go on with the array: "edge" (or "clamp") repeats its last elements;
            "reflect_1001" (or "reflect") goes back from there; "reflect_101" too, without repeating them; "wrap"
            begins again at the other edge.
        rel_end: Where the window ends, as a part of the whole.
        rel_shape: The size of the window, as a part of the whole.
        rel_start: Where the window begins, as a part of the whole.
        shape: The size of the window.
        start: Where the window begins; by default where the array does.

    Returns:
        Windows of the same layout. Begin and end are rounded, halves away from zero, each on its own.

    Raises:
        ArgumentError: The window is not inside and the policy is "error"; arguments contradict each other; there are
            too many or too few numbers for the axes.

    >>> image = numpy.arange(12, dtype="uint8").reshape(3, 4)
    >>> ndd.slice(image, start=(2, 1), shape=2).tolist()
    [[6, 7], [10, 11]]
    >>> ndd.slice(image, [0.5], [0.5], axes=1).tolist()
    [[2, 3], [6, 7], [10, 11]]
    >>> ndd.slice([1, 2, 3], start=-2, shape=7, axes=0, out_of_bounds_policy="reflect_101").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    fill = filling("slice", fill_values, out, layout, "fill_values")
    return windows.taken("slice", input, plan, out_of_bounds_policy, fill, out)


def _plan_pad(call: Call) -> Plan:
    largest = tuple(map(max, zip(*call.shapes, strict=True)))
    native = _pad_natively if call.count >= copies.MANY else None
    return Plan(call.each(functools.partial(_padded, largest=largest)), call.dtype, native=native)


def _pad_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    target = memory.described()
    place, fill = _native_fills(call, target)
    starts = numpy.zeros((1, target.ndim), numpy.int64)
    return fill is not None and copies.copied(inputs[0], target, 2 * memory.nbytes, starts, fill, place)


def _native_fills(call: Call, data: Described) -> tuple[int | None, Any]:
    """The dimension of the channels, and the values of `fill_value`; None where they do not fit."""
    place = channels_of(call.layout, data.ndim)
    values = call.varying.get("fill_value") or [call.fixed["fill_value"]]
    return place, copies.fills(values, 1 if place is None else data.shapes[:, place], data.dtype)


def _padded(
    input: Array, /, *, largest: Shape, align: Any, axes: Any, axis_names: Any, shape: Any, layout: Any, **_: Any
) -> Shape:
    """The shape of a padded array, given the largest extents in the batch."""
    everywhere = not axes and axes != 0 and not axis_names
    chosen = tuple(range(input.ndim)) if everywhere else places.axes_of("pad", layout, input.ndim, axes, axis_names)
    extents = list(input.shape)
    wanted = places.each("pad", "shape", shape, len(chosen)) if shape != () else [-1.0] * len(chosen)
    multiples = places.each("pad", "align", align, len(chosen)) if align != () else [1.0] * len(chosen)
    for axis, extent, multiple in zip(chosen, wanted, multiples, strict=True):
        least = max(int(extent), extents[axis]) if extent > 0 else largest[axis]
        extents[axis] = -(-least // int(multiple)) * int(multiple)
    return tuple(extents)


def _pad_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    copy_on_gpu(call, inputs[0], target, numpy.zeros_like(inputs[0].shapes), "fill_value")


def _map_pad(call: Call) -> Array:
    return points.scaled(1.0, numpy.zeros((call.count, 2)))  # pixels stay


@operator(plan=Moving(_plan_pad, _map_pad), gpu=_pad_on_gpu)
def pad(
    input: Array,
    /,
    *,
    align: PerSample[_Multiple | Several[_Multiple]] = (),
    axes: PerSample[_Axes | None] = None,
    axis_names: str | None = None,
    fill_value: PerSample[_Values] = 0.0,
    shape: PerSample[_Whole] = (),
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Extend each array at its ends, to the largest extents in the batch or to a given shape.

    Args:
        align: Divisor of the extents: one number, or one for each of the axes.
        axes: The dimensions that are extended, by number; by default all.
        axis_names: The same by the letters of the layout, where `axes` is not given.
        fill_value: The fill, one value or one for each channel, saturated to the type of the input.
        shape: The least extents, one for each of the axes; -1 is the largest extent in the batch.

    Returns:
        Arrays of the same dtype and layout; nothing is ever cut off.

    Raises:
        ArgumentError: There are too many or too few numbers for the axes, or values for the channels.

    >>> ndd.as_tensor(ndd.pad(ndd.as_batch([[1, 2, 3], [4]]), fill_value=9)).tolist()
    [[1, 2, 3], [4, 9, 9]]
    >>> ndd.pad(numpy.ones((1, 3), "uint8"), align=(2, 4)).tolist()
    [[1, 1, 1, 0], [0, 0, 0, 0]]
    """
    windows.copied(input, [0] * input.ndim, filling("pad", fill_value, out, layout), out)
    return out


def _plan_erasure(call: Call) -> Plan:
    """The regions to erase from each array, as indices."""

    def regions(input: Array, /, *, fill_value: Any, layout: Any, **arguments: Any) -> list[tuple[Any, ...]]:
        return _regions(input.shape, layout, **arguments)

    small = call.count >= 2 * copies.MANY and call.bytes() <= call.count * _CACHED
    native = _erase_natively if small else None
    return Plan(call.shapes, call.dtype, data=call.each(regions), native=native)


_CACHED = 1 << 16  # bytes of a sample; of larger ones what was copied has left the cache as a second call fills


def _erase_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    (source,), target = inputs, memory.described()
    place, fill = _native_fills(call, source)
    if fill is None or not copies.copied(source, target, 2 * memory.nbytes):
        return False
    owners, starts, sizes = _parts(call)
    if len(owners):
        fill = fill[owners] if len(fill) > 1 else fill
        copies.regions(target.take(owners), starts, sizes, fill, place, memory.nbytes)
    return True


def _parts(call: Call) -> tuple[Any, Any, Any]:
    """The regions of all samples: of which each is, where it begins, and its extents."""
    found = call.plan.data
    alike = all(own is found[0] for own in found)  # then they are converted once
    parts = [part for own in found[: 1 if alike else None] for region in own for part in region]
    bounds = numpy.array([[part.start for part in parts], [part.stop for part in parts]], numpy.int64)
    columns = bounds.reshape(2, -1, call.ndim).transpose(1, 2, 0)
    if alike:
        columns = numpy.concatenate([columns] * call.count)
    owners = numpy.repeat(numpy.arange(call.count), list(map(len, found)))
    return owners, columns[..., 0], numpy.maximum(columns[..., 1] - columns[..., 0], 0)


def _erase_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, place = inputs[0], channels_of(call.layout, inputs[0].ndim)
    fills = _fills(call, "fill_value", source, place)
    gpu_copies.window(source, target)
    owners, starts, sizes = _parts(call)
    if not len(owners):
        return
    values = fills[owners]
    several = values.shape[1] > 1
    if several:  # a region may begin with another channel than the first
        counts = source.shapes[:, place]
        last = numpy.minimum(counts, values.shape[1])[owners, None] - 1
        channels = numpy.minimum(starts[:, place, None] + numpy.arange(counts.max()), last)
        values = numpy.take_along_axis(values, channels, 1)
    parts.filled(parts.part(target, owners, starts, sizes), values, place if several else None)


@operator(plan=_plan_erasure, gpu=_erase_on_gpu)
def erase(
    input: Array,
    /,
    *,
    anchor: PerSample[_Values] = (),
    axes: PerSample[_Axes | None] = None,
    axis_names: str = "HW",
    centered_anchor: bool = False,
    fill_value: PerSample[_Values] = 0.0,
    normalized: bool | None = None,
    normalized_anchor: bool = False,
    normalized_shape: bool = False,
    shape: PerSample[_Values] = (),
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Fill one region of each array, or several, with a value.

    Args:
        anchor: Where each region begins, region after region, each in the order of the axes; by default at the start.
        axes: The dimensions that a region is bounded in, by number.
        axis_names: The same by the letters of the layout, where `axes` is not given.
        centered_anchor: Whether an anchor is the middle of its region.
        fill_value: The fill, one value or one for each channel, saturated to the type of the input.
        normalized: Both of the next two, in place of them.
        normalized_anchor: Whether anchors are parts of the whole, and not positions.
        normalized_shape: Whether shapes are parts of the whole, and not sizes.
        shape: How large each region is, like `anchor`. Nothing is erased where there is none.

    Returns:
        Arrays of the same shape, dtype and layout. Parts of a region outside of the array do not matter; begins and
        ends are cut off to integers.

    Raises:
        ArgumentError: There are not as many anchors as shapes, or too many values for the channels.

    >>> image = numpy.ones((2, 6), "uint8")
    >>> ndd.erase(image, anchor=(0, 1, 1, 4), shape=(2, 1, 1, 2), fill_value=9).tolist()
    [[1, 9, 1, 1, 1, 1], [1, 9, 1, 1, 9, 9]]
    """
    regions.erased(input, plan, filling("erase", fill_value, out, layout), out)
    return out


_FAR = 1e15  # beyond any array


@functools.lru_cache(256)  # those of a batch are often alike
def _regions(
    whole: Shape,
    layout: str | None,
    *,
    axes: Any,
    axis_names: str,
    anchor: Any,
    shape: Any,
    normalized: bool | None,
    normalized_anchor: bool,
    normalized_shape: bool,
    centered_anchor: bool,
) -> list[tuple[Any, ...]]:
    """The regions to erase from an array, in float32 as DALI reckons."""
    axes = places.axes_of("erase", layout, len(whole), axes, axis_names, "HW")
    corners, sizes = ([given] if isinstance(given, float) else given for given in (anchor, shape))
    count = len(axes)
    for name, values, others in (("anchor", corners, sizes), ("shape", sizes, corners)):
        if count == 0 or len(values) % count or (len(values) and len(others) > len(values)):
            expected = f"{count} numbers for each region, as many as of the {'shape' if name == 'anchor' else 'anchor'}"
            raise ArgumentError("erase", name, expected, shown(values))
    if not sizes:
        if corners:
            raise ArgumentError("erase", "shape", "given with anchors", "nothing")
        return []
    low, size = numpy.array([corners or [0.0] * len(sizes), sizes]).clip(-_FAR, _FAR).astype(numpy.float32)
    extents = numpy.array([whole[axis] for axis in axes] * (len(sizes) // count), numpy.float32)
    low = low * extents if (normalized_anchor if normalized is None else normalized) else low
    size = size * extents if (normalized_shape if normalized is None else normalized) else size
    low = low - size / numpy.float32(2) if centered_anchor else low
    bounds = list(zip(low.tolist(), (low + size).tolist(), strict=True))
    found = []
    for i in range(0, len(sizes), count):
        region: list[Any] = [numpy.s_[0:extent] for extent in whole]
        for k, axis in enumerate(axes, i):
            first, last = (int(min(max(bound, 0), whole[axis])) for bound in bounds[k])
            region[axis] = numpy.s_[first:last]
        found.append(tuple(region))
    return found
