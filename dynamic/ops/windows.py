"""Windows in images, as they are and normalised."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic import _core
from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.docstrings import described_as
from dynamic._core import pixels
from dynamic._lift.argument import (
    GIVEN,
    Between,
    DTypeArgument,
    Layout,
    PerItem,
    PerSample,
    Several,
    Word,
    without_effect,
)
from dynamic._lift.call import Call, Moving, Plan, Shape
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.kernels.cpu import points, windows
from dynamic.kernels.cpu.places import Window, cropped, cropped_at_once
from dynamic.kernels.cpu.tables import OF_OPENCV
from dynamic.kernels.gpu import copies as gpu_copies
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import pixels as gpu_pixels

from . import _copies as copies
from .geometry import LAYOUTS
from .normalize import warn_of_fractions

__all__ = ["crop", "crop_mirror_normalize"]

_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Values: TypeAlias = float | Several[float]
_PAD = {"error": (), "pad": ("constant",), "trim_to_shape": ()}
_Policy: TypeAlias = Annotated[str, Word(_PAD)]
_AnyPolicy: TypeAlias = Annotated[str, Word({**_PAD, **windows.REPEATED})]
_Rounding: TypeAlias = Annotated[str, Word({"round": (), "truncate": ()})]


def _fill(
    operator: str,
    values: Any,
    channels: int,
    place: int | None,
    ndim: int,
    argument: str = "fill_values",
    made: int | None = None,
) -> Any:
    """The fill, as it broadcasts to an image whose channels are dimension `place`.

    There may be a value for each channel, or for each that is `made`.
    """
    if isinstance(values, float):
        return values
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    if len(flat) not in (1, channels, made):
        raise ArgumentError(operator, argument, f"one value or {channels}, one for each channel", str(len(flat)))
    return flat[0] if len(flat) == 1 or place is None else flat.reshape([-1] + [1] * (ndim - 1 - place))


def _window(
    image: Array,
    /,
    *,
    name: str,
    layout: str,
    crop: Any,
    crop_d: Any,
    crop_h: Any,
    crop_w: Any,
    crop_pos_x: float,
    crop_pos_y: float,
    crop_pos_z: float,
    out_of_bounds_policy: str,
    rounding: str,
    **_: Any,
) -> Window:
    """The window in an image that the arguments of `crop` say: where it begins, and its extents."""
    positions = crop_pos_x, crop_pos_y, crop_pos_z
    sizes = crop, crop_d, crop_h, crop_w
    return cropped(name, image.shape, layout, *sizes, *positions, out_of_bounds_policy, rounding)


_SIZES = "crop", "crop_d", "crop_h", "crop_w"
_POSITIONS = "crop_pos_x", "crop_pos_y"


def _windows(call: Call) -> Sequence[Window]:
    """The window in each image."""
    own = call.varying.keys() & {*_SIZES, *_POSITIONS, "crop_pos_z"}
    if call.count > 1 and (own or not call.alike()):
        sizes, positions = ([(call.varying | call.fixed)[name] for name in names] for names in (_SIZES, _POSITIONS))
        how = call.fixed["out_of_bounds_policy"], call.fixed["rounding"]
        found = cropped_at_once(call.shapes, call.layout or "", sizes, positions, *how)
        if found is not None:
            return found
    return call.each(functools.partial(_window, name=call.name), among=own)


def are_alike(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are equal."""
    return bool(values) and values.count(values[0]) == len(values)


def starts_of_each(call: Call) -> Any:
    """Where the window of each sample begins, (N, ndim), by the `data` of a plan."""
    rows = numpy.array(call.plan.data, numpy.int64)
    return numpy.broadcast_to(rows, (call.count, rows.shape[-1]))


def map_windows(call: Call) -> Array:
    """Where pixels go that are in windows: for a plan with starts."""
    layout = call.layout or ""
    starts = starts_of_each(call)
    return points.scaled(1.0, -starts[:, [layout.index("W"), layout.index("H")]])


def _checked_fill(operator: str, call: Call, channels: Any, made: Any = None) -> Any:
    """The values of `fill_values`, where they fit the channels of all samples, or those that are made of them."""
    values = call.fixed["fill_values"]
    for count, total in set(zip(channels, made or channels, strict=True)):
        _fill(operator, values, count, 0, 1, made=total)
    return numpy.asarray(values, numpy.float64).reshape(-1)


def plan_windows(call: Call, found: Sequence[Window]) -> Plan:
    """Windows as they are in the images. Where each is one copy, all are made by a kernel."""
    starts: Any
    extents: Any
    if are_alike(found):
        starts, extents = found[0]
    else:
        starts, extents = [start for start, _ in found], [extent for _, extent in found]
    policy, fill = call.fixed["out_of_bounds_policy"], call.fixed["fill_values"]
    plan = Plan(extents, call.asked, data=starts, gpu=policy not in windows.REPEATED)
    if policy in {"error", "trim_to_shape"} and plan.dtype == call.dtype and not isinstance(fill, tuple):
        plan.kernel = _copy_windows
    many = call.count >= copies.MANY and (call.name == "slice" or call.varying or not call.dense())
    if policy == "pad" and plan.dtype == call.dtype and many:
        plan.native = _copy_windows_natively
    return plan


def _copy_windows_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    target = memory.described()
    place = channels_of(call.layout, target.ndim)
    channels = 1 if place is None else target.shapes[:, place]
    fill = copies.fills([call.fixed["fill_values"]], channels, target.dtype)
    rows = call.plan.data if isinstance(call.plan.data, list) else [call.plan.data]
    starts = numpy.array(rows, numpy.int64)
    return fill is not None and copies.copied(inputs[0], target, 2 * memory.nbytes, starts, fill, place)


def channels_of(layout: str | None, ndim: int) -> int | None:
    """The dimension that the channels are in; the last one of an array without layout that has three or more."""
    if layout:
        return layout.index("C") if "C" in layout else None
    return ndim - 1 if ndim > 2 else None


def _copy_windows(call: Call, memory: Memory) -> None:
    starts = call.plan.data if isinstance(call.plan.data, list) else [call.plan.data] * call.count
    windows.copied_inside(call.columns()[0], starts, memory.outs, 2 * memory.nbytes)


def _plan_crop(call: Call) -> Plan:
    return plan_windows(call, _windows(call))


def _crop_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout, (source, *_) = call.layout or "", inputs
    place = layout.index("C") if "C" in layout else None
    fill = _checked_fill("crop", call, [1] if place is None else source.shapes[:, place].tolist())
    gpu_copies.window(source, target, starts_of_each(call), None, fill, place)


@operator(layouts=(*LAYOUTS, "CFHW"), plan=Moving(_plan_crop, map_windows), gpu=_crop_on_gpu, unit="array")
@without_effect("image_type")
def crop(
    image: Array,
    /,
    *,
    crop: PerSample[Several[_Extent] | None] = None,
    crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None,
    crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5,
    crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5,
    dtype: DTypeArgument | None = None,
    fill_values: _Values = 0.0,
    out_of_bounds_policy: _AnyPolicy = "error",
    rounding: _Rounding = "round",
    layout: Layout = GIVEN,
    plan: Sequence[int] = GIVEN,
    out: Array = None,
) -> Array:
    """Take a window of each image, of each frame of a video, or of a volume.

    Args:
        crop: Height and width of the window, of volumes also the depth first and of videos the number of frames;
            0 is all, and fractions are cut off.
        crop_d: Its depth or number of frames, instead of `crop`.
        crop_h: Its height, instead of `crop`.
        crop_w: Its width, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Where it lies: 0 at the front of a volume or at the first frame, 1 at the back or the last.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        fill_values: Pixels outside of the image, one value or one for each channel.
        out_of_bounds_policy: For a window that is larger than the image: "error", "pad" it with
            `fill_values` (or "constant"), "trim_to_shape", or go on with the image: "edge" (or "clamp"),
            "reflect_1001" (or "reflect"), "reflect_101", "wrap".
        rounding: How the place becomes whole: "round" (half away from zero) or "truncate".

    Returns:
        Windows of the same layout.

    Raises:
        ArgumentError: The window is larger than the image and the policy is "error", or there are too many or too few
            extents or values.

    >>> image = numpy.arange(12, dtype="uint8").reshape(3, 4)
    >>> ndd.crop(image, crop=(2, 2), crop_pos_x=1.0).tolist()
    [[6, 7], [10, 11]]
    """
    starts = plan if len(plan) == image.ndim else (0, *plan)
    place = layout.index("C") if "C" in layout else None
    fill = _fill("crop", fill_values, image.shape[place] if place is not None else 1, place, image.ndim)
    return windows.taken("crop", image, starts, out_of_bounds_policy, fill, out)


_WITH_CHANNELS = tuple(layout for layout in LAYOUTS if "C" in layout)
_CMN = "crop_mirror_normalize"
_LARGEST = float(numpy.finfo(numpy.float32).max)
_Order: TypeAlias = Annotated[str, Word({"CHW": ("fchw", "cdhw", "fcdhw"), "HWC": ("fhwc", "dhwc", "fdhwc")})]


def _normalised_layout(layout: str | None, /, output_layout: str = "CHW", **_: Any) -> str:
    """The layout of the result: frames first, channels before depth, height and width or after them."""
    layout = layout or output_layout
    space = "".join(letter for letter in "DHW" if letter in layout)
    before = "".join(letter for letter in "NF" if letter in layout)
    return before + (f"C{space}" if output_layout == "CHW" else f"{space}C")


def _plan_normalisation(call: Call) -> Plan:
    """The window of each image, and the shape that it has once its channels are in order."""
    layout, fixed = call.layout or "", call.fixed
    order, pad = fixed["output_layout"], fixed["pad_output"]
    for mean, std in set(zip(call.column("mean"), call.column("std"), strict=True)):
        if mean != 0 and std != 1:
            warn_of_fractions(_CMN, "std", call.dtype, mean, std)
    made = _normalised_layout(call.layout, order)
    found = _windows(call)
    alike, known = are_alike(found), dict[Any, Shape]()
    for _, extents in found[:1] if alike else found:
        if extents not in known:
            sizes = dict(zip(layout, extents, strict=True))
            sizes["C"] = 1 << max(0, sizes["C"] - 1).bit_length() if pad else sizes["C"]
            known[extents] = tuple([sizes[letter] for letter in made])
    shapes = [known[extents] for _, extents in found]
    plan = Plan(shapes, call.asked, made, data=found, weight=2.0)
    if alike:
        plan.shapes, plan.data = shapes[0], found[0]
    if layout not in ("HWC", "CHW") or isinstance(fixed["fill_values"], tuple) or not _PIXELS.isdisjoint(call.varying):
        return plan
    worth = call.count >= _FEW or (call.count > 0 and call.bytes() >= _LARGE)
    if worth and call.dtype == numpy.uint8 and plan.dtype in OF_OPENCV and _core.in_use():
        plan.native = _normalise_natively
    else:
        plan.kernel = _kernel_of(call, plan)
    return plan


def _kernel_of(call: Call, plan: Plan) -> Callable[[Call, Memory], None] | None:
    """The kernel for all images, where their windows are alike and inside of them."""
    shapes: Any = [plan.shapes] if isinstance(plan.shapes, tuple) else plan.shapes
    found = plan.data if isinstance(plan.data, list) else [plan.data] * call.count
    made = _normalised_layout(call.layout, call.fixed["output_layout"])
    if len(set(shapes)) == 1 and _are_inside(call.shapes, found, shapes[0], call.layout or "", made):
        return _normalise_all
    return None


_FEW, _LARGE = 4, 1 << 17  # images, and bytes of fewer, from which on a native call is faster
_PIXELS = frozenset(("mean", "std"))  # arguments of each sample that keep images from being normalised together


def _are_inside(shapes: Sequence[Shape], found: Sequence[Window], result: Shape, layout: str, made: str) -> bool:
    """Whether all windows are inside of their images, and hold as many channels as the results."""
    down, across, channels = (layout.index(letter) for letter in "HWC")
    if are_alike(shapes) and are_alike(found):
        shapes, found = shapes[:1], found[:1]
    for shape, (starts, extents) in zip(shapes, found, strict=True):
        if shape[channels] != result[made.index("C")]:
            return False
        for place in (down, across):
            if not 0 <= starts[place] <= shape[place] - extents[place]:
                return False
    return True


def _normalise_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout, (data, *_) = call.layout or "", inputs
    found = call.plan.data if isinstance(call.plan.data, list) else [call.plan.data]
    places = numpy.array([starts for starts, _ in found], numpy.int64)
    places = numpy.broadcast_to(places, (call.count, places.shape[1]))
    if "F" in layout:
        data = _frames(data, layout.index("F"), places, target.shapes[:, 0])
    made = _normalised_layout(layout, call.fixed["output_layout"])
    source, result = images(_CMN, data, layout), images(_CMN, target, made)
    channels = data.shapes[:, layout.index("C")].tolist()
    mean, std, scale, shift = map(call.column, ("mean", "std", "scale", "shift"))
    if call.varying.keys().isdisjoint(("mean", "std")) and channels.count(channels[0]) == len(channels):
        numbers: Any = numpy.array(_factors(channels[0], mean[0], std[0], scale[0], shift[0]))
    else:
        each = [_factors(*row) for row in zip(channels, mean, std, scale, shift, strict=True)]
        most = max(channels)
        padded = numpy.array([[part + (0.0,) * (most - len(part)) for part in both] for both in each])
        numbers = padded.reshape(len(each), 2, most).transpose(1, 0, 2)
        numbers = [source.each(part) for part in numbers]
    starts = places[:, [layout.index("H"), layout.index("W")]]
    mirror = source.each(numpy.array(call.column("mirror")) != 0)
    fill = _checked_fill(_CMN, call, channels, target.shapes[:, made.index("C")].tolist())
    gpu_pixels.normalised(
        source,
        result,
        *numbers,
        starts=source.each(starts),
        mirror=mirror,
        fill=fill if call.fixed["out_of_bounds_policy"] == "pad" else 0.0,
    )


def _frames(data: Described, place: int, starts: Any, counts: Any) -> Described:
    """Some of the frames, dimension `place`, of each video."""
    first = starts[:, place]
    if (first < 0).any() or (first + counts > data.shapes[:, place]).any():
        raise DeviceError(f"{_CMN}() pads with frames on cpu; its input is on a GPU. Move it with .cpu().")
    shapes = data.shapes.copy()
    shapes[:, place] = counts
    pointers = data.pointers + (first * data.strides[:, place]).astype(numpy.uint64)
    return Described(pointers, shapes, data.strides, data.dtype)


def _normalise_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    """`crop_mirror_normalize` of images of bytes that have as many channels."""
    layout, fixed, kind = call.layout or "", call.fixed, call.plan.dtype
    source = _in_order(inputs[0], layout)
    target = _in_order(memory.described(), _normalised_layout(layout, fixed["output_layout"]))
    channels = int(source.shapes[0, 2])
    if not call.alike() and (source.shapes[:, 2] != channels).any():
        return False
    try:
        numbers = _factors(channels, fixed["mean"], fixed["std"], fixed["scale"], fixed["shift"])
    except ArgumentError:  # which the others raise
        call.plan.kernel = _kernel_of(call, call.plan)
        return False
    mirrored = bytes(map(bool, call.column("mirror")))
    if not call.alike() or call.plan.data != ((0, 0, 0), call.shapes[0]) or target.shapes[0, 2] != channels:
        source, target = _overlapping(call, memory, source, target, mirrored)
    tables = windows.tables_of(*numbers, kind)
    pixels.normalised(source, target, mirrored, tables, *numbers, floats=kind.kind == "f", work=2 * memory.nbytes)
    return True


def _in_order(table: Described, layout: str) -> Described:
    return table if layout == "HWC" else table.ordered([layout.index(letter) for letter in "HWC"])


def _overlapping(
    call: Call, memory: Memory, source: Described, target: Described, mirrored: bytes
) -> tuple[Described, Described]:
    """The overlap of each image with its window, in both, where the rest of the window is filled."""
    found, layout, fixed = call.plan.data, call.layout or "", call.fixed
    rows = numpy.array([starts for starts, _ in (found if isinstance(found, list) else [found])], numpy.int64)
    starts = rows[:, [layout.index(letter) for letter in "HWC"]]
    first, last = numpy.maximum(starts, 0), numpy.minimum(starts + target.shapes, source.shapes)
    sizes = numpy.maximum(last - first, 0)
    if (sizes != target.shapes).any():
        padded = fixed["out_of_bounds_policy"] == "pad"
        fill = convert(numpy, numpy.array(fixed["fill_values"] if padded else 0.0), call.plan.dtype)
        for result in memory.storages[0] if isinstance(memory.storages[0], list) else memory.storages:
            result[...] = fill
        there = numpy.broadcast_to(first - starts, target.shapes.shape).copy()
        turned = numpy.frombuffer(mirrored, bool)
        there[:, 1] = numpy.where(turned, target.shapes[:, 1] - (last - starts)[:, 1], there[:, 1])
        target = target.window(there, sizes)
    return source.window(first, sizes), target


def _normalise_all(call: Call, memory: Memory) -> None:
    """`crop_mirror_normalize` for images whose windows are alike and inside of them, as if they were one array."""
    fixed, layout, (images,) = call.fixed, call.layout or "", call.columns()
    found = call.plan.data if isinstance(call.plan.data, list) else [call.plan.data] * call.count
    order, places = _orders(layout, fixed["output_layout"])
    out = memory.storages[0].transpose(1 + places[0], 0, 1 + places[1], 1 + places[2])
    channels, _, height, width = out.shape
    pictures = []
    for image, (starts, _) in zip(images, found, strict=True):
        top, left = starts[order[0]], starts[order[1]]
        pictures.append(image.transpose(order)[top : top + height, left : left + width])
    factors = _factors(channels, fixed["mean"], fixed["std"], fixed["scale"], fixed["shift"])
    windows.normalised(pictures, *factors, out, list(map(bool, call.column("mirror"))))


@operator(layouts=_WITH_CHANNELS, plan=_plan_normalisation, gpu=_normalise_on_gpu, unit="array")
@without_effect("image_type")
@described_as(crop)
def crop_mirror_normalize(
    image: Array,
    /,
    *,
    crop: PerSample[Several[_Extent] | None] = None,
    crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None,
    crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5,
    crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5,
    dtype: DTypeArgument = float32,
    fill_values: _Values = 0.0,
    mean: PerSample[_Values] = 0.0,
    mirror: PerItem[int] = 0,
    out_of_bounds_policy: _Policy = "error",
    output_layout: _Order = "CHW",
    pad_output: bool = False,
    rounding: _Rounding = "round",
    scale: float = 1.0,
    shift: float = 0.0,
    std: PerSample[_Values] = 1.0,
    layout: Layout = GIVEN,
    plan: Window = GIVEN,
    out: Array = None,
) -> Array:
    """Take a window of each image, mirror it or not, and normalise its channels: scale * (x - mean) / std + shift.

    Args:
        dtype: Element type of the result; integers are rounded and saturated.
        fill_values: Pixels outside of the image: one value or one for each channel, with those that are added or
            without. It is not normalised.
        mean: Subtracted from each channel: one value, or one for each.
        mirror: Whether to swap left and right; any integer but 0 means yes.
        out_of_bounds_policy: For a window that is larger than the image: "error", "pad" it with
            `fill_values` (or "constant"), or "trim_to_shape".
        output_layout: Whether the channels come before height and width, "CHW", or after them, "HWC".
        pad_output: Add channels until their number is a power of two. They are 0; with the policy "pad" they have the
            `fill_values`, one for all or one for each.
        scale: Factor of the result.
        shift: Added to the result.
        std: Divisor of each channel: one value, or one for each; not 0.

    Returns:
        Images of the layout `output_layout`, behind frames and with the depth before the height.

    Raises:
        ArgumentError: The window is larger than the image and the policy is "error"; there are too many or too few
            extents or values; one of `std` is 0.

    >>> image = numpy.full((2, 2, 3), 200, "uint8")
    >>> normalised = ndd.crop_mirror_normalize(image, mean=[100, 200, 50], std=[50, 1, 100])
    >>> normalised.layout, normalised.numpy()[:, 0, 0].tolist()
    ('CHW', [2.0, 0.0, 1.5])
    """
    starts, extents = plan
    if len(starts) < image.ndim:  # many images
        starts, extents = (0, *starts), (len(image), *extents)
    channels = image.shape[layout.index("C")]
    numbers: tuple[Any, ...] = mean, std, scale, shift
    factors, shifts = _factors(channels, *numbers)
    order, places = _orders(layout, output_layout)
    pixels, results = image.transpose(order), out.transpose(places)
    fill = numpy.asarray(_fill(_CMN, fill_values, channels, 0, out.ndim, made=len(results)), numpy.float64)
    inside, there, mirrored = _overlap(starts, extents, image.shape, order)
    pixels = pixels[inside]
    if len(results) > channels or pixels.shape[:-1] != results.shape[1:]:
        results[...] = 0
        if out_of_bounds_policy == "pad":
            results[: len(fill) if fill.ndim else None] = convert(numpy, fill, results.dtype)
    parts = [results[(slice(channels), *place)] for place in (there, mirrored)]
    flags: Any = mirror
    if not isinstance(flags, list):
        windows.normalised(pixels[None], factors, shifts, parts[bool(flags)][:, None], [bool(flags)])
    elif mirrored == there:
        windows.normalised(pixels, factors, shifts, parts[0], list(map(bool, flags)))
    else:
        for i, flag in enumerate(map(bool, flags)):
            windows.normalised(pixels[i : i + 1], factors, shifts, parts[flag][:, i : i + 1], [flag])
    return out


@functools.lru_cache(256)  # photos often are alike
def _overlap(
    starts: Sequence[int], extents: Sequence[int], shape: tuple[int, ...], order: tuple[int, ...]
) -> tuple[Any, Any, Any]:
    """The overlap of a window with a transposed image, channels apart: in the image, in the window, and mirrored."""
    starts, extents, shape = (tuple(each[i] for i in order[:-1]) for each in (starts, extents, shape))
    inside, there = windows.overlap(starts, shape, extents)
    *before, last, rest = there
    return inside, there, (*before, slice(extents[-1] - last.stop, extents[-1] - last.start), rest)


@functools.lru_cache(256)
def _orders(layout: str, output_layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How to transpose an image to (samples, frames, depth,) height, width, channels; a result to channels first."""
    made = _normalised_layout(layout, output_layout)
    return (
        tuple(layout.index(letter) for letter in "NFDHWC" if letter in layout),
        tuple(made.index(letter) for letter in "CNFDHW" if letter in made),
    )


@functools.lru_cache(256)
def _factors(
    channels: int, mean: float | tuple[float, ...], std: float | tuple[float, ...], scale: float, shift: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The factor and the shift of each channel."""
    given = {}
    for name, values in (("mean", mean), ("std", std)):
        flat = numpy.asarray(values, numpy.float64).reshape(-1)
        if len(flat) not in (1, channels):
            raise ArgumentError(_CMN, name, f"one value or {channels}, one for each channel", str(len(flat)))
        if not (numpy.abs(flat) <= _LARGEST).all():
            raise ArgumentError(_CMN, name, "numbers in the range of float32", shown(values))
        given[name] = numpy.broadcast_to(flat, channels)
    if not (numpy.abs(given["std"]) >= 1 / _LARGEST).all():
        raise ArgumentError(_CMN, "std", "not 0, with 1 / std in the range of float32", shown(std))
    with numpy.errstate(over="ignore", invalid="ignore"):
        factors = scale / given["std"]
        return tuple(factors.tolist()), tuple((shift - given["mean"] * factors).tolist())
