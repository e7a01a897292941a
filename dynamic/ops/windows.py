"""Windows in images: which part of them to take, and taking it."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy

from dynamic._argument import Between, DTypeArgument, Layout, PerSample, Word
from dynamic._array import Array, asarray
from dynamic._distributions import below
from dynamic._drawing import Call, distribution
from dynamic._operator import Spec, operator
from dynamic._rng import Source
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.kernels.cpu import windows

from .geometry import LAYOUTS

__all__ = ["crop", "crop_mirror_normalize", "random_crop_generator"]

_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Values: TypeAlias = float | tuple[float, ...]
_Policy: TypeAlias = Annotated[str, Word({"error": (), "pad": (), "trim_to_shape": ()})]
_Rounding: TypeAlias = Annotated[str, Word({"round": (), "truncate": ()})]


def _window_of(
    operator: str, shape: tuple[int, ...], layout: str, crop: tuple[float, ...] | None = None,
    crop_d: float | None = None, crop_h: float | None = None, crop_w: float | None = None, crop_pos_x: float = 0.5,
    crop_pos_y: float = 0.5, crop_pos_z: float = 0.5, out_of_bounds_policy: str = "error", rounding: str = "round",
    **_: Any,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Where a window begins in each dimension of an image, and its extents."""
    places = [layout.index(letter) for letter in "DHW" if letter in layout]
    single = {"D": crop_d, "H": crop_h, "W": crop_w}
    wanted: list[float | None] = [single[layout[place]] for place in places]
    if crop is not None:
        if any(extent is not None for extent in wanted):
            raise ArgumentError(operator, "crop", "left out beside crop_h and crop_w", shown(crop))
        if len(crop) != len(places):
            expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
            raise ArgumentError(operator, "crop", expected, str(len(crop)))
        wanted = list(crop)
    positions = {"D": crop_pos_z, "H": crop_pos_y, "W": crop_pos_x}
    starts, extents = [0] * len(shape), list(shape)
    for place, extent in zip(places, wanted, strict=True):
        whole = shape[place]
        extents[place] = int(extent or 0) or whole
        room = float(numpy.float32(positions[layout[place]]) * numpy.float32(whole - extents[place]))
        starts[place] = math.trunc(room + math.copysign(0.5, room)) if rounding == "round" else math.trunc(room)
        if starts[place] >= 0 and starts[place] + extents[place] <= whole:
            continue
        if out_of_bounds_policy == "error":
            expected = f"no larger than {whole} in {layout[place]}, unless out_of_bounds_policy is 'pad'"
            raise ArgumentError(operator, "crop", expected, str(extents[place]))
        if out_of_bounds_policy == "trim_to_shape":
            end = min(starts[place] + extents[place], whole)
            starts[place] = max(starts[place], 0)
            extents[place] = end - starts[place]
    return starts, extents


def _fill(operator: str, values: float | tuple[float, ...], channels: int, place: int | None, ndim: int) -> Any:
    """What to fill with, as it broadcasts to an image whose channels are dimension `place`."""
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    if len(flat) not in (1, channels):
        raise ArgumentError(operator, "fill_values", f"one value or {channels}, one a channel", str(len(flat)))
    return flat[0] if len(flat) == 1 or place is None else flat.reshape([-1] + [1] * (ndim - 1 - place))


def _cropped(image: Array, /, *, dtype: Any = None, layout: str, **arguments: Any) -> Spec:
    """Shape and dtype of what `crop` makes of an image."""
    _, extents = _window_of("crop", image.shape, layout, **arguments)
    return tuple(extents), image.dtype if dtype is None else dtype.dtype


@operator(layouts=LAYOUTS, output=_cropped, whole=True)
def crop(
    image: Array, /, *, crop: PerSample[tuple[_Extent, ...] | None] = None, crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None, crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5, crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5, dtype: DTypeArgument | None = None, fill_values: _Values = 0.0,
    out_of_bounds_policy: _Policy = "error", rounding: _Rounding = "round", layout: Layout = "HWC", out: Array = None,
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
            `fill_values`, or "trim_to_shape".
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
    windows.copied(image, starts, fill, out)
    return out


_WITH_CHANNELS = tuple(layout for layout in LAYOUTS if "C" in layout)
_CMN = "crop_mirror_normalize"
_Order: TypeAlias = Annotated[str, Word({"CHW": ("fchw", "cdhw", "fcdhw"), "HWC": ("fhwc", "dhwc", "fdhwc")})]


def _normalised_layout(layout: str | None, /, output_layout: str = "CHW", **_: Any) -> str:
    """The layout of the result: frames first, channels before depth, height and width or after them."""
    layout = layout or output_layout
    space = "".join(letter for letter in "DHW" if letter in layout)
    return ("F" if "F" in layout else "") + (f"C{space}" if output_layout == "CHW" else f"{space}C")


def _normalised(
    image: Array, /, *, dtype: Any, layout: str, output_layout: str = "CHW", pad_output: bool = False, **arguments: Any
) -> Spec:
    """Shape and dtype of what `crop_mirror_normalize` makes of an image."""
    _, extents = _window_of(_CMN, image.shape, layout, **arguments)
    channels = image.shape[layout.index("C")]
    sizes = dict(zip(layout, extents, strict=True))
    sizes["C"] = 1 << max(0, channels - 1).bit_length() if pad_output else channels
    return tuple(sizes[letter] for letter in _normalised_layout(layout, output_layout)), dtype.dtype


@operator(layouts=_WITH_CHANNELS, output=_normalised, out_layout=_normalised_layout)
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
            `fill_values`, or "trim_to_shape".
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
    starts, extents = _window_of(_CMN, image.shape, layout, crop, crop_d, crop_h, crop_w, crop_pos_x, crop_pos_y,
                                 crop_pos_z, out_of_bounds_policy, rounding)  # fmt: skip
    channels = image.shape[layout.index("C")]
    factors, shifts = _factors(channels, mean, std, scale, shift)
    last = [layout.index(letter) for letter in "FDHWC" if letter in layout]
    pixels, starts, extents = image.transpose(last), [starts[i] for i in last], [extents[i] for i in last]
    made = _normalised_layout(layout, output_layout)
    results = out.transpose([made.index(letter) for letter in "CFDHW" if letter in made])
    fill = _fill(_CMN, fill_values, channels, 0, results.ndim)
    box = [(max(start, 0), min(start + extent, size))
           for start, extent, size in zip(starts[:-1], extents[:-1], pixels.shape[:-1], strict=True)]  # fmt: skip
    there = [slice(first - start, max(first, stop) - start) for (first, stop), start in zip(box, starts, strict=False)]
    if mirror:
        width = extents[-2]
        there[-1] = slice(width - there[-1].stop, width - there[-1].start)
    window = pixels[tuple(slice(first, max(first, stop)) for first, stop in box)]
    if len(results) > channels or window.shape[:-1] != results.shape[1:]:
        outside = convert(numpy, numpy.asarray(fill, numpy.float64), results.dtype)
        results[:channels] = outside
        results[channels:] = 0 if outside.ndim else outside
    windows.normalised(window, factors, shifts, results[(slice(channels), *there)], mirror=bool(mirror))
    return out


def _factors(
    channels: int, mean: float | tuple[float, ...], std: float | tuple[float, ...], scale: float, shift: float
) -> tuple[Array, Array]:
    """What to multiply each channel by, and what to add."""
    given = {}
    for name, values in (("mean", mean), ("std", std)):
        flat = numpy.asarray(values, numpy.float64).reshape(-1)
        if len(flat) not in (1, channels):
            raise ArgumentError(_CMN, name, f"one value or {channels}, one a channel", str(len(flat)))
        given[name] = numpy.broadcast_to(flat, channels)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        factors = scale / given["std"]
        return factors, shift - given["mean"] * factors


if TYPE_CHECKING:
    Pair: TypeAlias = Sequence[float]
    Count: TypeAlias = int
else:
    Pair = tuple[float, float]
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
        random_area: The least and the most area, as a part of that of the image, more than 0.
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
    area, ratio = _range(call, "random_area"), _range(call, "random_aspect_ratio")
    images = [_image(f"shape[{i}]" if isinstance(shape, Batch) else "shape", array)
              for i, array in enumerate(shape.samples if isinstance(shape, Batch) else [shape.array])]  # fmt: skip
    n = 1 if call.n is None else call.n
    draw = call.source.draw(call.n)
    images = images * n if isinstance(shape, Tensor) else images
    windows = [_window(draw.stream(i), *images[i], area, ratio, call.values["num_attempts"]) for i in range(n)]
    both = numpy.array(windows, numpy.int32).reshape(n, 2, 2)
    anchors, shapes = both[:, 0].copy(), both[:, 1].copy()
    if call.n is None:
        return Tensor(anchors[0]), Tensor(shapes[0])
    origin = shape.origin
    return Batch(anchors, origin=origin), Batch(shapes, origin=origin)


def _range(call: Call, argument: str) -> tuple[float, float]:
    low, high = call.values[argument]
    if not 0 < low <= high < math.inf:
        expected = "two finite numbers above 0, the first no larger than the second"
        raise ArgumentError(call.name, argument, expected, shown(call.values[argument]))
    return low, high


def _image(argument: str, array: Array) -> tuple[int, int]:
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu" or (array[:2] < 1).any():
        expected = "the height and width of an image, integers above 0"
        raise ArgumentError("random_crop_generator", argument, expected, shown(array.tolist()))
    return int(array[0]), int(array[1])


def _window(
    words: Iterator[int], height: int, width: int, area: tuple[float, float], ratio: tuple[float, float], attempts: int
) -> list[tuple[int, int]]:
    """The anchor and the shape of a window."""
    widest, tallest = max(1, int(height * ratio[1])), max(1, int(width / ratio[0]))
    least = area[0] * height * width
    if height * widest < least:  # no window in such a wide image is so large
        shape = height, widest
    elif tallest * width < least:
        shape = tallest, width
    else:
        shape = _tried(words, height, width, area, ratio, attempts) or _limited(height, width, area[1], ratio)
    shape = min(shape[0], height), min(shape[1], width)
    anchor = below(words, height - shape[0] + 1), below(words, width - shape[1] + 1)
    return [anchor, shape]


def _tried(
    words: Iterator[int], height: int, width: int, area: tuple[float, float], ratio: tuple[float, float], attempts: int
) -> tuple[int, int] | None:
    """A window of random area and aspect ratio that fits, or None if so many have not."""
    logarithms = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(attempts):
        pixels = _between(words, *area) * height * width
        wanted = math.exp(_between(words, *logarithms))
        w, h = (
            max(1, math.floor(math.sqrt(pixels * wanted) + 0.5)),
            max(1, math.floor(math.sqrt(pixels / wanted) + 0.5)),
        )
        if w <= width and h <= height and ratio[0] <= w / h <= ratio[1]:
            return h, w
    return None


def _limited(height: int, width: int, most: float, ratio: tuple[float, float]) -> tuple[int, int]:
    """The largest window of an allowed aspect ratio, made smaller if it has too much area."""
    h, w = height, width
    if width / height > ratio[1]:
        w = max(1, int(height * ratio[1]))
    elif width / height < ratio[0]:
        h = max(1, int(width / ratio[0]))
    scale = math.sqrt(min(1.0, most * height * width / (h * w)))
    return max(1, int(h * scale)), max(1, int(w * scale))


def _between(words: Iterator[int], low: float, high: float) -> float:
    return low + (high - low) * next(words) * 2.0**-32
