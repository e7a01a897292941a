"""Windows in images: taking them, and normalising what is in them."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
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
from dynamic._lift.call import Call as Together
from dynamic._lift.former import Spec, planned
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.kernels.cpu import windows
from dynamic.kernels.cpu.places import cropped as _window_of
from dynamic.kernels.gpu import copies, images, pixels

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
    operator: str, values: float | tuple[float, ...], channels: int, place: int | None, ndim: int,
    argument: str = "fill_values", made: int | None = None,
) -> Any:  # fmt: skip
    """What to fill with, as it broadcasts to an image whose channels are dimension `place`.

    There may be a value for each channel, or for each that is `made`.
    """
    if isinstance(values, float):
        return values
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    if len(flat) not in (1, channels, made):
        raise ArgumentError(operator, argument, f"one value or {channels}, one a channel", str(len(flat)))
    return flat[0] if len(flat) == 1 or place is None else flat.reshape([-1] + [1] * (ndim - 1 - place))


def _cropped(image: Array, /, *, dtype: Any = None, layout: str, **arguments: Any) -> Spec:
    """Shape and dtype of what `crop` makes of an image."""
    _, extents = _window_of("crop", image.shape, layout, **arguments)
    return tuple(extents), image.dtype if dtype is None else dtype.dtype


_CROP_ARGUMENTS = ("crop", "crop_d", "crop_h", "crop_w", "crop_pos_x", "crop_pos_y", "crop_pos_z",
                   "out_of_bounds_policy", "rounding")  # fmt: skip


def _starts(operator: str, call: Together, shapes: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Where the window of each sample begins, in all of its dimensions; one of all where they are alike."""
    columns = [call.column(name) for name in _CROP_ARGUMENTS]
    if call.varying.keys().isdisjoint(_CROP_ARGUMENTS) and shapes.count(shapes[0]) == len(shapes):
        shapes = shapes[:1]
    return [_window_of(operator, tuple(shape), call.layout or "", *(column[i] for column in columns))[0]
            for i, shape in enumerate(shapes)]  # fmt: skip


def _starts_of_each(operator: str, call: Together, shapes: Sequence[Sequence[int]]) -> Any:
    """The same as an array (N, ndim)."""
    rows = numpy.array(_starts(operator, call, shapes), numpy.int64)
    return numpy.broadcast_to(rows, (call.count, rows.shape[1]))


def _checked_fill(operator: str, call: Together, channels: Any, made: Any = None) -> Any:
    """The values of `fill_values`, where they fit the channels of all samples, or those that are made of them."""
    values = call.fixed["fill_values"]
    for count, total in set(zip(channels, made or channels, strict=True)):
        _fill(operator, values, count, 0, 1, made=total)
    return numpy.asarray(values, numpy.float64).reshape(-1)


def windows_of(call: Together, samples: Sequence[tuple[Array, ...]], starts: Any, memory: Memory) -> Any:
    """Windows of many images, where each is one copy: in their own type, and inside of them; None of others."""
    images = [sample[0] for sample in samples]
    if call.fixed["out_of_bounds_policy"] not in {"error", "trim_to_shape"} or images[0].dtype != memory.outs[0].dtype:
        return None
    if isinstance(call.fixed["fill_values"], tuple):  # as many as there are channels, or refused
        return None
    windows.copied_inside(images, starts, memory.outs, 2 * memory.nbytes)
    return memory.storages


def _crop_many(call: Together, samples: Sequence[tuple[Array, ...]], memory: Memory | None) -> Any:
    assert memory is not None, "crop declares its output"
    return windows_of(call, samples, _starts("crop", call, [sample[0].shape for sample in samples]), memory)


def _crop_on_gpu(call: Together, inputs: list[Described], target: Described) -> Any:
    if call.fixed["out_of_bounds_policy"] in windows.REPEATED:
        return NotImplemented
    layout, (source, *_) = call.layout or "", inputs
    place = layout.index("C") if "C" in layout else None
    fill = _checked_fill("crop", call, [1] if place is None else source.shapes[:, place].tolist())
    copies.window(source, target, _starts_of_each("crop", call, source.shapes.tolist()), None, fill, place)
    return None


@operator(layouts=(*LAYOUTS, "CFHW"), plan=planned(_cropped, many=_crop_many), gpu=_crop_on_gpu, unit="array")
@without_effect("image_type")
def crop(
    image: Array, /, *, crop: PerSample[Several[_Extent] | None] = None, crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None, crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5, crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5, dtype: DTypeArgument | None = None, fill_values: _Values = 0.0,
    out_of_bounds_policy: _AnyPolicy = "error", rounding: _Rounding = "round", layout: Layout = GIVEN,
    out: Array = None,
) -> Array:  # fmt: skip
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
        fill_values: What is outside of the image, one value or one for each channel.
        out_of_bounds_policy: What to do with a window that is larger than the image: "error", "pad" it with
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
    starts, _ = _window_of("crop", image.shape, layout, crop, crop_d, crop_h, crop_w, crop_pos_x, crop_pos_y,
                           crop_pos_z, out_of_bounds_policy, rounding)  # fmt: skip
    place = layout.index("C") if "C" in layout else None
    fill = _fill("crop", fill_values, image.shape[place] if place is not None else 1, place, image.ndim)
    return windows.taken("crop", image, starts, out_of_bounds_policy, fill, out)


_OF_WINDOWS = {"mirror", *_CROP_ARGUMENTS}  # what may differ between images that are normalised some at a time
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


def _normalised(
    image: Array,
    /,
    *,
    dtype: Any,
    layout: str,
    output_layout: str = "CHW",
    pad_output: bool = False,
    mean: Any = 0.0,
    std: Any = 1.0,
    **arguments: Any,
) -> Spec:
    """Shape and dtype of what `crop_mirror_normalize` makes of an image."""
    if mean != 0 and std != 1:
        warn_of_fractions(_CMN, "std", image.dtype, mean, std)
    _, extents = _window_of(_CMN, image.shape, layout, **arguments)
    channels = image.shape[layout.index("C")]
    sizes = dict(zip(layout, extents, strict=True))
    sizes["C"] = 1 << max(0, channels - 1).bit_length() if pad_output else channels
    return tuple(sizes[letter] for letter in _normalised_layout(layout, output_layout)), dtype.dtype


def _normalise_on_gpu(call: Together, inputs: list[Described], target: Described) -> None:
    layout, (data, *_) = call.layout or "", inputs
    places = _starts_of_each(_CMN, call, data.shapes.tolist())
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
    pixels.normalised(source, result, *numbers, starts=source.each(starts), mirror=mirror,
                      fill=fill if call.fixed["out_of_bounds_policy"] == "pad" else 0.0)  # fmt: skip


def _frames(data: Described, place: int, starts: Any, counts: Any) -> Described:
    """Some of the frames, dimension `place`, of each video."""
    first = starts[:, place]
    if (first < 0).any() or (first + counts > data.shapes[:, place]).any():
        raise DeviceError(f"{_CMN}() pads with frames on cpu; its input is on a GPU. Move it with .cpu().")
    shapes = data.shapes.copy()
    shapes[:, place] = counts
    pointers = data.pointers + (first * data.strides[:, place]).astype(numpy.uint64)
    return Described(pointers, shapes, data.strides, data.dtype)


def _normalise_many(call: Together, samples: Sequence[tuple[Array, ...]], memory: Memory | None) -> Any:
    """`crop_mirror_normalize` for images whose windows are alike and inside of them, some at a time as of one array."""
    assert memory is not None, "crop_mirror_normalize declares its output"
    (whole,), layout, fixed = memory.storages, call.layout or "", call.fixed
    if layout not in ("HWC", "CHW") or isinstance(whole, list) or not call.varying.keys() <= _OF_WINDOWS:
        return None
    shapes = [image.shape for image, *_ in samples]
    order, places = _orders(layout, fixed["output_layout"])
    out = whole.transpose(1 + places[0], 0, 1 + places[1], 1 + places[2])
    channels, _, height, width = out.shape
    if isinstance(fixed["fill_values"], tuple) or any(shape[order[2]] != channels for shape in shapes):
        return None
    starts = [(start[order[0]], start[order[1]]) for start in _starts(_CMN, call, shapes)]
    starts = starts * (call.count // len(starts))
    pictures = [image.transpose(order)[max(top, 0) : top + height, max(left, 0) : left + width]
                for (image, *_), (top, left) in zip(samples, starts, strict=True)]  # fmt: skip
    if any(picture.shape != (height, width, channels) for picture in pictures):
        return None
    factors = _factors(channels, *(fixed[name] for name in ("mean", "std", "scale", "shift")))
    windows.normalised(pictures, *factors, out, list(map(bool, call.column("mirror"))))
    return [whole]


@operator(
    layouts=_WITH_CHANNELS,
    plan=planned(_normalised, layout=_normalised_layout, many=_normalise_many),
    gpu=_normalise_on_gpu,
    unit="array",
)
@without_effect("image_type")
def crop_mirror_normalize(
    image: Array, /, *, crop: PerSample[Several[_Extent] | None] = None, crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None, crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5, crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5, dtype: DTypeArgument = float32, fill_values: _Values = 0.0,
    mean: PerSample[_Values] = 0.0, mirror: PerItem[int] = 0, out_of_bounds_policy: _Policy = "error",
    output_layout: _Order = "CHW", pad_output: bool = False, rounding: _Rounding = "round", scale: float = 1.0,
    shift: float = 0.0, std: PerSample[_Values] = 1.0, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Take a window of each image, mirror it or not, and normalise its channels: scale * (x - mean) / std + shift.

    Args:
        crop: Height and width of the window, of volumes also the depth first and of videos the number of frames;
            0 is all, and fractions are cut off.
        crop_d: Its depth or number of frames, instead of `crop`.
        crop_h: Its height, instead of `crop`.
        crop_w: Its width, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Where it lies: 0 at the front of a volume or at the first frame, 1 at the back or the last.
        dtype: Element type of the result; integers are rounded and saturated.
        fill_values: What is outside of the image: one value or one for each channel, with those that are added or
            without. It is not normalised.
        mean: Subtracted from each channel: one value, or one for each.
        mirror: Whether to swap left and right; any integer but 0 means yes.
        out_of_bounds_policy: What to do with a window that is larger than the image: "error", "pad" it with
            `fill_values` (or "constant"), or "trim_to_shape".
        output_layout: Whether the channels come before height and width, "CHW", or after them, "HWC".
        pad_output: Add channels until their number is a power of two: of 0, or where the policy is "pad" of what
            `fill_values` has as one value, or for them.
        rounding: How the place becomes whole: "round" (half away from zero) or "truncate".
        scale: Factor of the result.
        shift: Added to the result.
        std: What each channel is divided by: one value, or one for each; not 0.

    Returns:
        Images of the layout `output_layout`, behind frames and with the depth before the height.

    Raises:
        ArgumentError: The window is larger than the image and the policy is "error", there are too many or too few
            extents or values, or one of `std` is 0.

    >>> image = numpy.full((2, 2, 3), 200, "uint8")
    >>> normalised = ndd.crop_mirror_normalize(image, mean=[100, 200, 50], std=[50, 1, 100])
    >>> normalised.layout, normalised.numpy()[:, 0, 0].tolist()
    ('CHW', [2.0, 0.0, 1.5])
    """
    window = _window_of(_CMN, image.shape, layout, crop, crop_d, crop_h, crop_w, crop_pos_x, crop_pos_y, crop_pos_z,
                        out_of_bounds_policy, rounding)  # fmt: skip
    channels = image.shape[layout.index("C")]
    factors, shifts = _factors(channels, mean, std, scale, shift)
    order, places = _orders(layout, output_layout)
    pixels, results = image.transpose(order), out.transpose(places)
    fill = numpy.asarray(_fill(_CMN, fill_values, channels, 0, out.ndim, made=len(results)), numpy.float64)
    inside, there, mirrored = _overlap(*window, image.shape, order)
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
    """What of a transposed image, but of its channels, is in a window; where in that it is, as it is or mirrored."""
    starts, extents, shape = (tuple(each[i] for i in order[:-1]) for each in (starts, extents, shape))
    inside, there = windows.overlap(starts, shape, extents)
    *before, last, rest = there
    return inside, there, (*before, slice(extents[-1] - last.stop, extents[-1] - last.start), rest)


@functools.lru_cache(256)
def _orders(layout: str, output_layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How to transpose an image to (samples, frames, depth,) height, width, channels; a result to channels first."""
    made = _normalised_layout(layout, output_layout)
    return (tuple(layout.index(letter) for letter in "NFDHWC" if letter in layout),
            tuple(made.index(letter) for letter in "CNFDHW" if letter in made))  # fmt: skip


@functools.lru_cache(256)
def _factors(
    channels: int, mean: float | tuple[float, ...], std: float | tuple[float, ...], scale: float, shift: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What to multiply each channel by, and what to add."""
    given = {}
    for name, values in (("mean", mean), ("std", std)):
        flat = numpy.asarray(values, numpy.float64).reshape(-1)
        if len(flat) not in (1, channels):
            raise ArgumentError(_CMN, name, f"one value or {channels}, one a channel", str(len(flat)))
        if not (numpy.abs(flat) <= _LARGEST).all():
            raise ArgumentError(_CMN, name, "numbers that float32 holds", shown(values))
        given[name] = numpy.broadcast_to(flat, channels)
    if not (numpy.abs(given["std"]) >= 1 / _LARGEST).all():
        raise ArgumentError(_CMN, "std", "not 0, and such that 1 / std is a finite float32", shown(std))
    with numpy.errstate(over="ignore", invalid="ignore"):
        factors = scale / given["std"]
        return tuple(factors.tolist()), tuple((shift - given["mean"] * factors).tolist())
