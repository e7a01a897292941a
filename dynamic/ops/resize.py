"""Operators that change the size of images and arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base import pool
from dynamic._base.docstrings import described_as
from dynamic._base.layout import spatial
from dynamic._core import resize as native
from dynamic._lift.argument import (
    GIVEN,
    Between,
    DTypeArgument,
    Interp,
    Layout,
    PerSample,
    Several,
    Word,
    without_effect,
)
from dynamic._lift.call import Call, Moving, Plan
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import Operator, operator, registry
from dynamic.data import Batch, Tensor
from dynamic.devices import Device, DeviceLike
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import points, resample, resizer, scaled
from dynamic.kernels.cpu.places import cropped
from dynamic.kernels.cpu.scaled import Along
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import resample as gpu_resample
from dynamic.random._drawing import random_operator
from dynamic.random._rng import Source
from dynamic.random._windows import drawn

from ._sizes import ROUNDINGS, SIZE_ARGUMENTS, Span, cut, filter_of, image_spans, tensor_spans
from .geometry import LAYOUTS, image_extents, result_extents
from .random_windows import Count, Pair, random_crop_generator

__all__ = ["random_resized_crop", "resize", "resize_crop_mirror", "tensor_resize"]

P = ParamSpec("P")

_Extents: TypeAlias = float | Several[float]
_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Mode: TypeAlias = Annotated[str, Word({"default": (), "stretch": (), "not_larger": (), "not_smaller": ()})]
_Rounding: TypeAlias = Annotated[str, Word({"round": (), "truncate": ()})]
_SizeRounding: TypeAlias = Annotated[str, Word(dict.fromkeys(ROUNDINGS, ()))]
_LAYOUTS = (*LAYOUTS, "CFHW", "CFDHW")
_FILTERS = ("interp_type", "min_filter", "mag_filter")
_LINEAR = {"linear", "triangular", None}
_MANY = 8  # samples that are worth columns
_MOST_WHOLE = 1 << 20  # pixels
_OTHER_SIZES = frozenset(SIZE_ARGUMENTS) - {"size", "mode", "roi_relative", "subpixel_scale"}
_OF_FRAMES = ("FHWC", "FHW", "CHW")  # each is resized by itself
_NATIVE_LAYOUTS = ("HWC", "HW", *_OF_FRAMES)


def _plan_spans(call: Call, found: Sequence[dict[int, Span]]) -> Plan:
    """Results of which some dimensions are made of spans, and the others stay."""
    shapes = [
        tuple([spans[i].size if i in spans else extent for i, extent in enumerate(shape)])
        for shape, spans in zip(call.shapes, found, strict=True)
    ]
    return Plan(shapes, call.asked, data=list(found), weight=4.0)


def _fill(
    image: Array,
    found: dict[int, Span],
    out: Array,
    antialias: bool,
    interp_type: Any,
    min_filter: Any,
    mag_filter: Any,
    last: int | None,
) -> None:
    """Resample an image to its spans; `last` is the one that DALI takes for the columns."""
    along: list[Along | None] = [None] * image.ndim
    for place, span in found.items():
        along[place] = _along(span, antialias, interp_type, min_filter, mag_filter, running=place != last)
    resample.resample(image, along, out)


@functools.lru_cache(256)  # images of a batch are often alike
def _along(
    span: Span, antialias: bool, interp_type: str, min_filter: str | None, mag_filter: str | None, *, running: bool
) -> Along:
    """The resampling along one dimension."""
    return Along(span.start, span.end, filter_of(span, interp_type, min_filter, mag_filter), antialias, running)


def _filters_of(call: Call) -> list[tuple[str, str | None, str | None]]:
    return list(zip(*map(call.column, _FILTERS), strict=True))


def _on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    """Images resampled to the spans of a plan."""
    layout, filters = call.layout or "", _filters_of(call)
    source, result = images(call.name, inputs[0], layout), images(call.name, target, layout)
    steps = []
    for letter in "HW":
        spans = [each[layout.index(letter)] for each in call.plan.data]
        kinds = numpy.array([filter_of(span, *names) for span, names in zip(spans, filters, strict=True)])
        bounds = numpy.array([span[1:] for span in spans], numpy.float64).reshape(-1, 2)
        start, end, kinds = source.each(bounds[:, 0]), source.each(bounds[:, 1]), source.each(kinds)
        steps.append(gpu_resample.Along(start, end, kinds, call.fixed["antialias"], running=letter == "H"))
    gpu_resample.resampled(source, result, *steps)


class _Resize(Operator[P]):
    """`resize`, which has a second output where it is asked for one."""

    if not TYPE_CHECKING:  # the types are those of every operator

        def __call__(self, /, *inputs: Any, **arguments: Any) -> Any:
            save, device = arguments.get("save_attrs"), arguments.get("device")
            resized = super().__call__(*inputs, **arguments)
            return (resized, self._extents(inputs[0], device, resized)) if save else resized

    def _extents(self, image: Any, device: DeviceLike, resized: Tensor | Batch) -> Tensor | Batch:
        """Extents of each image in its spatial dimensions, on the CPU."""
        data = self.data(0, image, device)
        places = spatial(self.checked_input(data) or "")
        shapes = data.shape if isinstance(data, Batch) else [data.shape]
        extents = numpy.array([[shape[place] for place in places] for shape in shapes], numpy.int32)
        if isinstance(resized, Tensor):
            return Tensor(extents[0])
        rows = extents.reshape(-1, len(places))
        return Batch(rows if isinstance(data, Batch) else rows.repeat(len(resized), axis=0))


def _show_natively(
    call: Call,
    images: Described,
    outs: Described,
    memory: Memory,
    windows: scaled.Windows,
    usual: Array,
    spans: Callable[[int], dict[int, Span]],
    mirrored: Array | None = None,
) -> bool:
    """Show windows of the usual images natively, and resize the others to their spans one by one."""
    places = numpy.flatnonzero(usual)
    if call.layout in _OF_FRAMES:
        (images, owners), (outs, _) = images.take(places).unpacked(), outs.take(places).unpacked()
        places = places[owners]
    elif len(places) < len(usual):
        images, outs = images.take(places), outs.take(places)
    if len(places) != len(usual) or call.layout in _OF_FRAMES:
        windows, mirrored = windows.take(places), None if mirrored is None else mirrored[places]
    if not len(places) or not native.many(images, *windows, outs, mirrored):
        return False
    samples, others = call.columns()[0], numpy.flatnonzero(~usual).tolist()

    def one(j: int) -> None:
        i = others[j]
        last = (call.layout or "").index("W")
        _fill(samples[i], spans(i), memory.outs[i], call.fixed["antialias"], "linear", None, None, last)

    pool.run(one, len(others), call.plan.weight * sum(samples[i].nbytes + memory.outs[i].nbytes for i in others))
    return True


def _resize_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    """Images of bytes resampled to the spans of a plan, with a linear filter that widens."""
    images, outs, first = inputs[0], memory.described(), (call.layout or "").index("H")
    if not (images.shapes.all() and outs.shapes.all()):
        return False
    table = numpy.array([each[first] + each[first + 1] for each in call.plan.data], numpy.float64).reshape(-1, 2, 3)
    sizes, starts, ends = numpy.moveaxis(table, 2, 0)
    channels = images.shapes[:, first + 2] if images.ndim > first + 2 else numpy.ones(len(images), numpy.int64)
    extents = images.shapes[:, first : first + 2]
    found = scaled.resized_at_once(extents, channels, sizes, starts, ends)
    if found is None:
        return False
    windows, usual = found
    upside_down, mirrored = (ends < starts).T
    if upside_down.any():
        strides = outs.strides.copy()
        last = numpy.where(upside_down, (outs.shapes[:, first] - 1) * strides[:, first], 0)
        strides[upside_down, first] *= -1
        outs = Described((outs.pointers.view(numpy.int64) + last).view(numpy.uint64), outs.shapes, strides, outs.dtype)
    return _show_natively(call, images, outs, memory, windows, usual, call.plan.data.__getitem__, mirrored)


def _plan_images(call: Call, found: Sequence[dict[int, Span]]) -> Plan:
    """Images resampled to spans; natively where many are of bytes, and some filter widens."""
    plan, fixed = _plan_spans(call, found), call.fixed
    if call.count < _MANY or call.layout not in _NATIVE_LAYOUTS or not call.dtype == call.asked == numpy.uint8:
        return plan
    linear = call.varying.keys().isdisjoint(_FILTERS) and {fixed[name] for name in _FILTERS} <= _LINEAR
    if not (linear and fixed["antialias"] and call.device is Device.CPU and resizer.is_native()):
        return plan
    first = call.layout.index("H")
    for spans, shape in {id(each): (each, shape) for each, shape in zip(found, call.shapes, strict=True)}.values():
        (height, top, bottom), (width, left, right) = spans[first], spans[first + 1]
        if top or left or not (bottom == shape[first] <= height and right == shape[first + 1] <= width):
            plan.native = _resize_natively  # else OpenCV is as fast
            break
    return plan


def _map_spans(call: Call) -> Array:
    """Where pixels go that are resampled to the spans of a plan."""
    places = [(call.layout or "").index(letter) for letter in "WH"]
    table = numpy.array([[each[place] for place in places] for each in call.plan.data], numpy.float64)
    sizes, starts, ends = numpy.moveaxis(table.reshape(call.count, 2, 3), 2, 0)
    scales = numpy.where(ends != starts, sizes / numpy.where(ends != starts, ends - starts, 1), 0)
    return points.scaled(scales, -starts * scales)


def _plan_resize(call: Call) -> Plan:
    def spans(image: Array, /, *, layout: str, **arguments: Any) -> dict[int, Span]:
        return image_spans("resize", image.shape, layout, *map(arguments.get, SIZE_ARGUMENTS))

    found = _whole_spans(call)
    return _plan_images(call, call.each(spans) if found is None else found)


def _whole_spans(call: Call) -> list[dict[int, Span]] | None:
    """The spans of many whole images at one size; None where the size is given in another way."""
    fixed, layout = call.fixed, call.layout or ""
    if call.count < _MANY or "D" in layout or not call.varying.keys().isdisjoint(SIZE_ARGUMENTS):
        return None
    size = fixed["size"]
    if size is None or fixed["mode"] != "default" or any(fixed[name] is not None for name in _OTHER_SIZES):
        return None
    sizes = size if isinstance(size, tuple) else (size, size)
    if len(sizes) != 2 or not all(0 < each <= _MOST_WHOLE and each == int(each) for each in sizes):
        return None
    first, (down, across) = layout.index("H"), map(int, sizes)
    known = set(call.shapes)
    if any(0 in shape for shape in known):
        return None
    found = {
        shape: {first: Span(down, 0.0, float(shape[first])), first + 1: Span(across, 0.0, float(shape[first + 1]))}
        for shape in known
    }
    return list(map(found.__getitem__, call.shapes))


def _resizing(body: Callable[Concatenate[Any, P], Any]) -> _Resize[P]:
    made = _Resize(body, _LAYOUTS, plan=Moving(_plan_resize, _map_spans), gpu=_on_gpu)
    registry[made.name] = made
    return made


@_resizing
@without_effect("image_type", "minibatch_size", "temp_buffer_hint")
def resize(
    image: Array,
    /,
    *,
    antialias: bool = True,
    dtype: DTypeArgument | None = None,
    interp_type: PerSample[Interp] = "linear",
    mag_filter: PerSample[Interp | None] = None,
    max_size: _Extents | None = None,
    min_filter: PerSample[Interp | None] = None,
    mode: _Mode = "default",
    resize_longer: PerSample[float | None] = None,
    resize_shorter: PerSample[float | None] = None,
    resize_x: PerSample[float | None] = None,
    resize_y: PerSample[float | None] = None,
    resize_z: PerSample[float | None] = None,
    roi_end: PerSample[_Extents | None] = None,
    roi_relative: bool = False,
    roi_start: PerSample[_Extents | None] = None,
    save_attrs: bool = False,
    size: PerSample[_Extents | None] = None,
    subpixel_scale: bool = True,
    layout: Layout = GIVEN,
    plan: dict[int, Span] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Resize each image, each frame of a video, or each volume.

    Args:
        antialias: Whether filters widen where the result is smaller, so that no pixel is left out.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        interp_type: How a value between pixels is read: "nn", "linear", "cubic", "lanczos3" or "gaussian"; "triangular"
            is "linear".
        mag_filter: The same for dimensions that become larger or stay, instead of `interp_type`.
        max_size: The most extents of the result, one for all dimensions or one for each; 0 is no limit.
        min_filter: The same for dimensions that become smaller, instead of `interp_type`.
        mode: Meaning of `size`: "default", where missing extents (0) keep the aspect ratio; "stretch", where they keep
            the image's; "not_larger" or "not_smaller" than it, with the image's aspect ratio.
        resize_longer: The longer extent of the result, which keeps the aspect ratio.
        resize_shorter: The shorter extent of the result, which keeps the aspect ratio.
        resize_x: Width of the result; less than 0 mirrors it.
        resize_y: Height of the result; less than 0 mirrors it.
        resize_z: Depth of the result, for volumes.
        roi_end: Where in the image the result ends, in pixels, one for all dimensions or one for each.
        roi_relative: Whether the region is in parts of the extents.
        roi_start: Where in the image the result starts; beyond `roi_end` the result is mirrored.
        save_attrs: Whether to return the extents of the image as well.
        size: Height and width of the result, for volumes depth first; one number for all; less than 0 mirrors.
        subpixel_scale: Whether the scale stays where extents are rounded; otherwise the region does.

    Returns:
        Images of the same layout. With `save_attrs` a pair: these, and the extents of each image in its spatial
        dimensions, int32.

    Raises:
        ArgumentError: The size is given in no way or in two, or there are too many or too few numbers.

    >>> image = numpy.arange(16, dtype="uint8").reshape(4, 4)
    >>> ndd.resize(image, size=[2, 4]).tolist()
    [[3, 4, 5, 6], [10, 11, 12, 13]]
    >>> ndd.resize(image, resize_shorter=2, save_attrs=True)[1].tolist()
    [4, 4]
    """
    _fill(image, plan, out, antialias, interp_type, min_filter, mag_filter, layout.index("W"))
    return out


_RCM = "resize_crop_mirror"
_CROP_ARGUMENTS = ("crop", "crop_d", "crop_h", "crop_w", "crop_pos_x", "crop_pos_y", "crop_pos_z", "rounding")


def _plan_cut(call: Call) -> Plan:
    return _plan_images(call, call.each(_cut))


def _cut(image: Array, /, *, layout: str, mirror: int, **arguments: Any) -> dict[int, Span]:
    """The spans of a window of the resized image, mirrored."""
    sizes, crops = (tuple(map(arguments.get, names)) for names in (SIZE_ARGUMENTS, _CROP_ARGUMENTS))
    return _cut_spans(image.shape, layout, mirror, sizes, crops)


@functools.lru_cache(1024)  # photos often are alike
def _cut_spans(
    shape: tuple[int, ...], layout: str, mirror: int, sizes: tuple[Any, ...], crops: tuple[Any, ...]
) -> dict[int, Span]:
    found = image_spans(_RCM, shape, layout, *sizes)
    resized = tuple(found[i].size if i in found else extent for i, extent in enumerate(shape))
    given = dict(zip(_CROP_ARGUMENTS, crops, strict=True))
    starts, extents = cropped(_RCM, resized, layout, **given, out_of_bounds_policy="pad", frames=False)
    if 0 in shape and all(extents):
        said = next((name for name in ("crop_d", "crop_h", "crop_w") if given[name]), "crop")
        raise ArgumentError(_RCM, said, "0 where the image has no pixels", shown(tuple(extents)))
    bits = {"W": 1, "H": 2, "D": 4}
    return {
        place: cut(span, starts[place], extents[place], mirror=bool(mirror & bits[layout[place]]))
        for place, span in found.items()
    }


@operator(layouts=_LAYOUTS, plan=Moving(_plan_cut, _map_spans), gpu=_on_gpu)
@without_effect("minibatch_size", "temp_buffer_hint")
@described_as(resize)
def resize_crop_mirror(
    image: Array,
    /,
    *,
    antialias: bool = True,
    crop: PerSample[Several[_Extent] | None] = None,
    crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5,
    crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5,
    crop_w: PerSample[_Extent | None] = None,
    dtype: DTypeArgument | None = None,
    interp_type: PerSample[Interp] = "linear",
    mag_filter: PerSample[Interp | None] = None,
    max_size: _Extents | None = None,
    min_filter: PerSample[Interp | None] = None,
    mirror: PerSample[int] = 0,
    mode: _Mode = "default",
    resize_longer: PerSample[float | None] = None,
    resize_shorter: PerSample[float | None] = None,
    resize_x: PerSample[float | None] = None,
    resize_y: PerSample[float | None] = None,
    resize_z: PerSample[float | None] = None,
    roi_end: PerSample[_Extents | None] = None,
    roi_relative: bool = False,
    roi_start: PerSample[_Extents | None] = None,
    rounding: _Rounding = "round",
    size: PerSample[_Extents | None] = None,
    subpixel_scale: bool = True,
    layout: Layout = GIVEN,
    plan: dict[int, Span] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Resize each image, take a window of it and mirror it, all at once: nothing outside of the window is computed.

    A window that is larger than the resized image shows its edges again and again.

    Args:
        crop: Height and width of the window, for volumes depth first; 0 is all, and fractions are cut off.
        crop_d: Its depth, instead of `crop`.
        crop_h: Its height, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Where it lies: 0 at the front of a volume, 1 at its back.
        crop_w: Its width, instead of `crop`.
        mirror: Axes to mirror: 1 left and right, 2 top and bottom, 4 front and back, or a sum of these.
        rounding: How the place becomes whole: "round" (half away from zero) or "truncate".

    Returns:
        Images of the same layout, of the size of the window.

    Raises:
        ArgumentError: The size is given in no way or in two, or there are too many or too few numbers.

    >>> image = numpy.arange(16, dtype="uint8").reshape(4, 4)
    >>> ndd.resize_crop_mirror(image, size=[2, 4], crop=[2, 2], mirror=1).tolist()
    [[5, 4], [12, 11]]
    """
    _fill(image, plan, out, antialias, interp_type, min_filter, mag_filter, layout.index("W"))
    return out


def _plan_tensor_resize(call: Call) -> Plan:
    def spans(array: Array, /, *, dtype: Any, layout: str | None, **arguments: Any) -> dict[int, Span]:
        return tensor_spans(array.shape, layout, **arguments)

    return _plan_spans(call, call.each(spans))


def _arrays_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    spans = [list(plan.values()) for plan in call.plan.data]
    kinds = [[filter_of(span, *names) for span in each] for each, names in zip(spans, _filters_of(call), strict=True)]
    bounds = numpy.array(spans, numpy.float64).reshape(call.count, -1, 3)[:, :, 1:]
    gpu_resample.resampled_arrays(inputs[0], target, bounds, numpy.array(kinds, str), call.fixed["antialias"])


@operator(plan=_plan_tensor_resize, gpu=_arrays_on_gpu)
@without_effect("minibatch_size", "temp_buffer_hint")
@described_as(resize)
def tensor_resize(
    array: Array,
    /,
    *,
    alignment: PerSample[_Extents] = 0.5,
    antialias: bool = True,
    axes: int | Several[int] | None = None,
    axis_names: str | None = None,
    dtype: DTypeArgument | None = None,
    interp_type: PerSample[Interp] = "linear",
    mag_filter: PerSample[Interp | None] = None,
    max_size: _Extents | None = None,
    min_filter: PerSample[Interp | None] = None,
    mode: _Mode = "default",
    roi_end: PerSample[_Extents | None] = None,
    roi_relative: bool = False,
    roi_start: PerSample[_Extents | None] = None,
    scales: PerSample[_Extents | None] = None,
    size_rounding: _SizeRounding = "round",
    sizes: PerSample[_Extents | None] = None,
    subpixel_scale: bool = True,
    layout: Layout = GIVEN,
    plan: dict[int, Span] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Resize arrays along any dimensions.

    Args:
        alignment: Which point of the region stays where it is when a size is rounded: 0 its start, 1 its end.
        axes: The dimensions that the other arguments are about, negative from the end; by default all.
        axis_names: The same by the letters of the layout.
        dtype: Element type of the result, by default the input's; values are rounded and saturated to it.
        max_size: The most sizes of the result, one for all dimensions or one for each; 0 is no limit.
        mode: Meaning of `sizes`: "default", where missing ones are scaled as the others on average; "stretch", where
            they stay; "not_larger" or "not_smaller", where all dimensions have one scale, also those not in `axes`.
        roi_end: Where in the input the result ends, one for all dimensions or one for each.
        roi_start: Where in the input the result starts; beyond `roi_end` the result is mirrored.
        scales: Sizes of the result as parts of the input's.
        size_rounding: How sizes become whole: "round", "truncate" or "ceil".
        sizes: Sizes of the result; 0 is missing, less than 0 mirrors.

    Returns:
        Arrays of the same layout.

    Raises:
        ArgumentError: Sizes and scales are both given, or neither, or there are too many or too few numbers.

    >>> ndd.tensor_resize(numpy.arange(6.0), sizes=[3]).tolist()
    [0.625, 2.5, 4.375]
    """
    resized = [i for i, span in plan.items() if span != (array.shape[i], 0, array.shape[i])]
    columns = bool(resized) and (len(resized) > 1 or resized[0] == array.ndim - 1)
    _fill(array, plan, out, antialias, interp_type, min_filter, mag_filter, resized[-1] if columns else None)
    return out


_FLAT = tuple(layout for layout in _LAYOUTS if "D" not in layout)
_BY_DEFAULT = ("linear", None, None)  # the filters: of any case, of dimensions that become smaller, and larger

if TYPE_CHECKING:
    _Size: TypeAlias = int | Sequence[int]
    _Filter: TypeAlias = str
    _OtherFilter: TypeAlias = str | None
    _DType: TypeAlias = Any
else:
    _Size = Annotated[int, Between(1)] | tuple[Annotated[int, Between(1)], ...]
    _Filter, _OtherFilter, _DType = PerSample[Interp], PerSample[Interp | None], DTypeArgument


def _map_random(call: Call) -> Array:
    """Where pixels go: the windows are drawn once more."""
    windows = drawn(call, [(height, width) for height, width in image_extents(call).tolist()])[:, :, ::-1]
    scales = result_extents(call)[:, ::-1] / windows[:, 1]
    return points.scaled(scales, -windows[:, 0] * scales)


def _plan_random(call: Call) -> Plan:
    """Spans of random windows; for the usual images, parts as `scaled.show` takes them."""
    layout, sizes = call.layout or "", call.fixed["size"]
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    if len(sizes) not in (1, 2):
        raise ArgumentError(call.name, "size", "a height and a width, or one number for both", shown(sizes))
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    first = layout.index("H")
    places, shapes = (first, first + 1), call.shapes
    extents = [(shape[first], shape[first + 1]) for shape in shapes]
    for i, both in enumerate(extents):
        if 0 in both:
            raise call.noted(i, ArgumentError(call.name, "image", "an image with pixels", f"shape {shapes[i]}"))
    windows = drawn(call, extents)

    def spans(i: int) -> dict[int, Span]:
        along = zip(places, sizes, *windows[i].astype(float).tolist(), strict=True)
        return {place: Span(size, start, start + extent) for place, size, start, extent in along}

    made = [shape[:first] + sizes + shape[first + 2 :] for shape in shapes]
    plan = Plan(made[0] if len(set(made)) == 1 else made, call.asked, weight=4.0)
    usual = layout == "HWC" and call.dtype == plan.dtype == numpy.uint8 and call.fixed["antialias"]
    usual = usual and call.device is Device.CPU and resizer.is_installed()
    if not (usual and call.count and set(_filters_of(call)) == {_BY_DEFAULT}):
        plan.data = list(map(spans, range(call.count)))
        return plan
    corners, regions, scales = windows[:, 0], windows[:, 1], windows[:, 1] / numpy.array(sizes)
    small = scaled.are_small(numpy.array([shape[2] for shape in shapes]), regions, scales)
    parts = scaled.windows(numpy.array(extents), corners, regions, scales)

    def data() -> list[Any]:
        each = zip(parts.each(), small.tolist(), strict=True)
        return [part if is_small else spans(i) for i, (part, is_small) in enumerate(each)]

    def natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
        done = _show_natively(call, inputs[0], memory.described(), memory, parts, small, spans)
        if not done:
            call.plan.data = data()
        return done

    if call.count >= _MANY and resizer.is_native():
        plan.native = natively
    else:
        plan.data = data()
    return plan


@random_operator(layouts=_FLAT, plan=Moving(_plan_random, _map_random), gpu=_on_gpu)
@without_effect("minibatch_size", "temp_buffer_hint")
@described_as(resize, random_crop_generator)
def random_resized_crop(
    image: Any,
    /,
    *,
    size: _Size,
    antialias: bool = True,
    dtype: _DType | None = None,
    interp_type: _Filter = "linear",
    mag_filter: _OtherFilter = None,
    min_filter: _OtherFilter = None,
    num_attempts: Count = 10,
    random_area: Pair = (0.08, 1.0),
    random_aspect_ratio: Pair = (3 / 4, 4 / 3),
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    layout: Layout = GIVEN,
    plan: dict[int, Span] | scaled.Window = GIVEN,
    out: Array = GIVEN,
) -> None:
    """Take a window of random area and aspect ratio of each image and resize it, as for training classifiers.

    The windows are those that `random_crop_generator` draws. Filters also read the pixels around them.

    Args:
        image: Images or videos.
        size: Height and width of the result, or one number for both.
        interp_type: How a value between pixels is read, see `resize`.
        random_area: The least and the most area of the window, as a part of that of the image.
        batch_size: Number of samples; a Batch of images, and a keyed `rng`, say it too.
        device: Where the images are moved to before, by default nowhere.

    Returns:
        Images of the same layout and of the given size.

    Raises:
        ArgumentError: A range is empty or not positive, or an image has no pixels or is none.

    >>> image = numpy.arange(48 * 64, dtype="float32").reshape(48, 64)
    >>> ndd.random_resized_crop(image, size=[2, 3], rng=ndd.random.RNG(5)).shape
    (2, 3)
    """
    if isinstance(plan, dict):
        _fill(image, plan, out, antialias, interp_type, min_filter, mag_filter, layout.index("W"))
    else:
        scaled.show(image, plan, out)
