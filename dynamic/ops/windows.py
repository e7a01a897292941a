"""Windows in images: which part of them to take, and taking it."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy

from dynamic._argument import Between, DTypeArgument, Layout, PerSample, Word
from dynamic._array import Array, asarray
from dynamic._call import Call as Together
from dynamic._call import Memory, together
from dynamic._described import Described
from dynamic._distributions import below
from dynamic._drawing import Call, distribution, streams
from dynamic._operator import Spec, operator
from dynamic._rng import Source
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.kernels.cpu import windows
from dynamic.kernels.cpu.places import cropped as _window_of
from dynamic.kernels.cpu.places import drawn
from dynamic.kernels.gpu import copies, images, pixels

from .geometry import LAYOUTS

__all__ = ["crop", "crop_mirror_normalize", "random_crop_generator", "roi_random_crop"]

_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Values: TypeAlias = float | tuple[float, ...]
_PAD = {"error": (), "pad": ("constant",), "trim_to_shape": ()}
_Policy: TypeAlias = Annotated[str, Word(_PAD)]
_AnyPolicy: TypeAlias = Annotated[str, Word({**_PAD, **windows.REPEATED})]
_Rounding: TypeAlias = Annotated[str, Word({"round": (), "truncate": ()})]


def _fill(
    operator: str, values: float | tuple[float, ...], channels: int, place: int | None, ndim: int,
    argument: str = "fill_values",
) -> Any:  # fmt: skip
    """What to fill with, as it broadcasts to an image whose channels are dimension `place`."""
    if isinstance(values, float):
        return values
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    if len(flat) not in (1, channels):
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


def _checked_fill(operator: str, call: Together, channels: Any) -> Any:
    """The values of `fill_values`, where they fit the channels of all samples."""
    values = call.fixed["fill_values"]
    for count in set(channels):
        _fill(operator, values, count, 0, 1)
    return numpy.asarray(values, numpy.float64).reshape(-1)


def windows_of(call: Together, samples: Sequence[tuple[Array, ...]], starts: Any, memory: Memory) -> Any:
    """Windows of many images, where each is one copy: in their own type, and inside of them; None of others."""
    images = [sample[0] for sample in samples]
    if call.fixed["out_of_bounds_policy"] not in {"error", "trim_to_shape"} or images[0].dtype != memory.outs[0].dtype:
        return None
    if isinstance(call.fixed["fill_values"], tuple):  # as many as there are channels, or refused
        return None
    windows.copied_inside(images, starts, memory.outs, 2 * memory.nbytes)
    return memory.storages()


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


@operator(layouts=LAYOUTS, output=_cropped, whole=True, kernel=_crop_on_gpu, many=_crop_many)
def crop(
    image: Array, /, *, crop: PerSample[tuple[_Extent, ...] | None] = None, crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None, crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5, crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5, dtype: DTypeArgument | None = None, fill_values: _Values = 0.0,
    out_of_bounds_policy: _AnyPolicy = "error", rounding: _Rounding = "round", layout: Layout = "HWC",
    out: Array = None,
) -> Array:  # fmt: skip
    """Take a window of each image, of each frame of a video, or of a volume.

    Args:
        crop: Height and width of the window, for volumes depth first; 0 is all, and fractions are cut off.
        crop_d: Its depth, instead of `crop`.
        crop_h: Its height, instead of `crop`.
        crop_w: Its width, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Where it lies: 0 at the front of a volume, 1 at its back.
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
    >>> dynamic.crop(image, crop=(2, 2), crop_pos_x=1.0).tolist()
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
_Order: TypeAlias = Annotated[str, Word({"CHW": ("fchw", "cdhw", "fcdhw"), "HWC": ("fhwc", "dhwc", "fdhwc")})]


def _normalised_layout(layout: str | None, /, output_layout: str = "CHW", **_: Any) -> str:
    """The layout of the result: frames first, channels before depth, height and width or after them."""
    layout = layout or output_layout
    space = "".join(letter for letter in "DHW" if letter in layout)
    before = "".join(letter for letter in "NF" if letter in layout)
    return before + (f"C{space}" if output_layout == "CHW" else f"{space}C")


def _normalised(
    image: Array, /, *, dtype: Any, layout: str, output_layout: str = "CHW", pad_output: bool = False, **arguments: Any
) -> Spec:
    """Shape and dtype of what `crop_mirror_normalize` makes of an image."""
    _, extents = _window_of(_CMN, image.shape, layout, **arguments)
    channels = image.shape[layout.index("C")]
    sizes = dict(zip(layout, extents, strict=True))
    sizes["C"] = 1 << max(0, channels - 1).bit_length() if pad_output else channels
    return tuple(sizes[letter] for letter in _normalised_layout(layout, output_layout)), dtype.dtype


def _normalise_on_gpu(call: Together, inputs: list[Described], target: Described) -> None:
    layout, (data, *_) = call.layout or "", inputs
    source, result = (
        images(_CMN, data, layout),
        images(_CMN, target, _normalised_layout(layout, call.fixed["output_layout"])),
    )
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
    starts = _starts_of_each(_CMN, call, data.shapes.tolist())[:, [layout.index("H"), layout.index("W")]]
    mirror = source.each(numpy.array(call.column("mirror")) != 0)
    pixels.normalised(source, result, *numbers, starts=source.each(starts), mirror=mirror,
                      fill=_checked_fill(_CMN, call, channels))  # fmt: skip


def _normalise_many(call: Together, samples: Sequence[tuple[Array, ...]], memory: Memory | None) -> Any:
    """`crop_mirror_normalize` for images whose windows are alike and inside of them, some at a time as of one array."""
    assert memory is not None, "crop_mirror_normalize declares its output"
    whole, layout, fixed = memory.storages(), call.layout or "", call.fixed
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
    return whole


@operator(
    layouts=_WITH_CHANNELS, output=_normalised, out_layout=_normalised_layout, whole=("mirror",),
    kernel=_normalise_on_gpu, many=_normalise_many,
)  # fmt: skip
def crop_mirror_normalize(
    image: Array, /, *, crop: PerSample[tuple[_Extent, ...] | None] = None, crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None, crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5, crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5, dtype: DTypeArgument = float32, fill_values: _Values = 0.0,
    mean: PerSample[_Values] = 0.0, mirror: PerSample[int] = 0, out_of_bounds_policy: _Policy = "error",
    output_layout: _Order = "CHW", pad_output: bool = False, rounding: _Rounding = "round", scale: float = 1.0,
    shift: float = 0.0, std: PerSample[_Values] = 1.0, layout: Layout = "HWC", out: Array = None,
) -> Array:  # fmt: skip
    """Take a window of each image, mirror it or not, and normalise its channels: scale * (x - mean) / std + shift.

    Args:
        crop: Height and width of the window, for volumes depth first; 0 is all, and fractions are cut off.
        crop_d: Its depth, instead of `crop`.
        crop_h: Its height, instead of `crop`.
        crop_w: Its width, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Where it lies: 0 at the front of a volume, 1 at its back.
        dtype: Element type of the result; integers are rounded and saturated.
        fill_values: What is outside of the image, and in channels that are added: one value or one for each channel. It
            is not normalised.
        mean: Subtracted from each channel: one value, or one for each.
        mirror: Whether to swap left and right; any integer but 0 means yes.
        out_of_bounds_policy: What to do with a window that is larger than the image: "error", "pad" it with
            `fill_values` (or "constant"), or "trim_to_shape".
        output_layout: Whether the channels come before height and width, "CHW", or after them, "HWC".
        pad_output: Add channels until their number is a power of two.
        rounding: How the place becomes whole: "round" (half away from zero) or "truncate".
        scale: Factor of the result.
        shift: Added to the result.
        std: What each channel is divided by: one value, or one for each.

    Returns:
        Images of the layout `output_layout`, behind frames and with the depth before the height.

    Raises:
        ArgumentError: The window is larger than the image and the policy is "error", or there are too many or too few
            extents or values.

    >>> image = numpy.full((2, 2, 3), 200, "uint8")
    >>> normalised = dynamic.crop_mirror_normalize(image, mean=[100, 200, 50], std=[50, 1, 100])
    >>> normalised.layout, normalised.numpy()[:, 0, 0].tolist()
    ('CHW', [2.0, 0.0, 1.5])
    """
    window = _window_of(_CMN, image.shape, layout, crop, crop_d, crop_h, crop_w, crop_pos_x, crop_pos_y, crop_pos_z,
                        out_of_bounds_policy, rounding)  # fmt: skip
    channels = image.shape[layout.index("C")]
    factors, shifts = _factors(channels, mean, std, scale, shift)
    fill = _fill(_CMN, fill_values, channels, 0, out.ndim)
    order, places = _orders(layout, output_layout)
    pixels, results = image.transpose(order), out.transpose(places)
    inside, there, mirrored = _overlap(*window, image.shape, order)
    pixels = pixels[inside]
    if len(results) > channels or pixels.shape[:-1] != results.shape[1:]:
        outside = convert(numpy, numpy.asarray(fill, numpy.float64), results.dtype)
        results[:channels] = outside
        results[channels:] = 0 if outside.ndim else outside
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
        given[name] = numpy.broadcast_to(flat, channels)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        factors = scale / given["std"]
        return tuple(factors.tolist()), tuple((shift - given["mean"] * factors).tolist())


if TYPE_CHECKING:
    Pair: TypeAlias = Sequence[float]
    Count: TypeAlias = int
    Extents: TypeAlias = Batch | Tensor | Sequence[int]
    Maybe: TypeAlias = Extents | None
else:
    Pair = tuple[float, float]
    Extents, Maybe = PerSample[tuple[int, ...]], PerSample[tuple[int, ...] | None]
    Count = Annotated[int, Between(1)]


@distribution
def random_crop_generator(
    shape: Any,
    /,
    *,
    random_area: Pair = (0.08, 1.0),
    random_aspect_ratio: Pair = (3 / 4, 4 / 3),
    num_attempts: Count = 10,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
) -> tuple[Tensor | Batch, Tensor | Batch]:
    """Draw a window of random area and aspect ratio for images of given shapes, as for training classifiers.

    The area is uniform in its range, the aspect ratio log-uniform, and both are drawn again until the window fits.
    Where no window can have so much area, or none was found, it is as large as the aspect ratios and the area allow.

    Args:
        shape: Height and width of the image, and more extents that do not matter: integers, shape (2,) or longer.
        random_area: The least and the most area, as a part of that of the image.
        random_aspect_ratio: The least and the largest width / height, more than 0.
        num_attempts: How often to draw before giving up, 1 or more.
        batch_size: Number of samples; a Batch of shapes, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The upper left corner (y, x) of the window and its shape (height, width): int32 of shape (2,) each.

    Raises:
        ArgumentError: A range is empty or not positive, or a shape is none of an image.

    >>> anchor, shape = dynamic.random_crop_generator([480, 640], rng=dynamic.random.RNG(5))
    >>> anchor.tolist(), shape.tolist()
    ([2, 429], [178, 152])
    """
    name = "random_crop_generator"
    if not isinstance(shape, (Tensor, Batch)):
        shape = Tensor(asarray(shape, name, "shape"))
    given = {"random_area": random_area, "random_aspect_ratio": random_aspect_ratio, "num_attempts": num_attempts}
    call = Call(name, None, batch_size, device, rng, shape if isinstance(shape, Batch) else None, **given)
    if call.device.device_type != "cpu" or shape.device.device_type != "cpu":
        raise DeviceError("random_crop_generator() runs on cpu; pass device='cpu', and its input as shape.cpu().")
    images = [_image(f"shape[{i}]" if isinstance(shape, Batch) else "shape", array)
              for i, array in enumerate(shape.samples if isinstance(shape, Batch) else [shape.array])]  # fmt: skip
    n = 1 if call.n is None else call.n
    both = drawn(call, images * n if isinstance(shape, Tensor) else images)
    anchors, shapes = both[:, 0].copy(), both[:, 1].copy()
    if call.n is None:
        return Tensor(anchors[0]), Tensor(shapes[0])
    origin = shape.origin
    return Batch(anchors, origin=origin), Batch(shapes, origin=origin)


def _image(argument: str, array: Array) -> tuple[int, int]:
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu" or (array[:2] < 1).any():
        expected = "the height and width of an image, integers above 0"
        raise ArgumentError("random_crop_generator", argument, expected, shown(array.tolist()))
    return int(array[0]), int(array[1])


@distribution
def roi_random_crop(
    input: Any = None,
    /,
    *,
    crop_shape: Extents,
    in_shape: Maybe = None,
    roi_end: Maybe = None,
    roi_shape: Maybe = None,
    roi_start: Extents,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
) -> Tensor | Batch:
    """Draw where a window of a given shape begins, inside of a region, or around it where it is larger.

    Args:
        input: Arrays that the windows shall lie in, in place of `in_shape`.
        crop_shape: The shape of the window: an extent for each dimension.
        in_shape: The shape of the array that the window shall lie in; by default it may lie anywhere.
        roi_end: Where the region ends.
        roi_shape: The shape of the region, in place of `roi_end`.
        roi_start: Where the region begins.
        batch_size: Number of samples; a Batch among the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        Where the window begins in each dimension: int64 of shape (n,), every place as likely as the others.

    Raises:
        ArgumentError: Arguments contradict each other or differ in length, or a window or a region is not inside.

    >>> roi_random_crop(crop_shape=[2, 9], roi_start=[3, 4], roi_end=[8, 6], rng=dynamic.random.RNG(1)).tolist()
    [6, 1]
    """
    name = "roi_random_crop"
    if (roi_end is None) == (roi_shape is None):
        got = "neither" if roi_end is None else "both"
        raise ArgumentError(name, "roi_end", "given, or 'roi_shape', and not both", got)
    if input is not None and in_shape is not None:
        raise ArgumentError(name, "in_shape", "left out where an input says it", shown(in_shape))
    if input is not None and not isinstance(input, (Tensor, Batch)):
        input = Tensor(asarray(input, name, "input"))
    call = Call(name, None, batch_size, device, rng, input, crop_shape=crop_shape, in_shape=in_shape, roi_end=roi_end,
                roi_shape=roi_shape, roi_start=roi_start)  # fmt: skip
    if call.device.device_type != "cpu":
        raise DeviceError("roi_random_crop() runs on cpu; pass device='cpu'.")
    n = 1 if call.n is None else call.n
    columns = {key: value if key in call.varying else [value] * n for key, value in call.values.items()}
    if input is not None:
        columns["in_shape"] = input.shape if isinstance(input, Batch) else [input.shape] * n
    rooms = [_rooms(**{key: values[i] for key, values in columns.items()}) for i in range(n)]
    starts = [numpy.array([low + below(words, count) for low, count in room], numpy.int64)
              for words, room in zip(streams(call.source.draw(call.n), n), rooms, strict=True)]  # fmt: skip
    if call.n is None:
        return Tensor(starts[0])
    return Batch(together(starts), None, None if input is None else input.origin, numpy.dtype("int64"), 1)


def _rooms(
    crop_shape: tuple[int, ...], roi_start: tuple[int, ...], in_shape: tuple[int, ...] | None = None,
    roi_end: tuple[int, ...] | None = None, roi_shape: tuple[int, ...] | None = None,
) -> list[tuple[int, int]]:  # fmt: skip
    """For each dimension the first place where a window may begin, and how many such places there are."""
    name = "roi_random_crop"
    for argument, values in {"roi_start": roi_start, "roi_end": roi_end, "roi_shape": roi_shape}.items():
        if values is not None and len(values) != len(crop_shape):
            raise ArgumentError(name, argument, f"{len(crop_shape)} numbers, as 'crop_shape' has", str(len(values)))
    if in_shape is not None and len(in_shape) < len(crop_shape):
        raise ArgumentError(name, "in_shape", f"{len(crop_shape)} numbers, as 'crop_shape' has", str(len(in_shape)))
    ends = roi_end or tuple(start + extent for start, extent in zip(roi_start, roi_shape or (), strict=True))
    found = []
    for d, (extent, start, end) in enumerate(zip(crop_shape, roi_start, ends, strict=True)):
        whole = None if in_shape is None else in_shape[d]
        if extent < 0 or (whole is not None and extent > whole):
            expected = "0 or more" if whole is None else f"between 0 and the {whole} of the input"
            raise ArgumentError(name, "crop_shape", expected, str(extent))
        if end < start or (whole is not None and not 0 <= start <= end <= whole):
            expected = "such that the region ends after it begins" + ("" if whole is None else f", within 0..{whole}")
            raise ArgumentError(name, "roi_start", expected, f"{start}..{end}")
        low, high = min(start, end - extent), max(start, end - extent)
        if whole is not None:
            low, high = max(low, 0), min(high, whole - extent)
        found.append((low, high - low + 1))
    return found
