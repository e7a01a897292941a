"""Operators on colours: brightness and contrast, hue and saturation, colour spaces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.docstrings import described_as
from dynamic._base.pool import Step, run_steps
from dynamic._lift.argument import GIVEN, DTypeArgument, ImageName, Layout, PerSample, Word
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.dtypes import uint8
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import color
from dynamic.kernels.gpu import Images, copies, images, pixels
from dynamic.types import DALIImageType

from .geometry import LAYOUTS

__all__ = [
    "brightness",
    "brightness_contrast",
    "color_space_conversion",
    "color_twist",
    "contrast",
    "hsv",
    "hue",
    "saturation",
]

_NUMBERS = "u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64"
#: The meaning of the channels of an image.
_Space: TypeAlias = Annotated[ImageName, Word({"RGB": (), "BGR": (), "GRAY": ("grey",), "YCbCr": ()}, DALIImageType)]
#: A factor of every value, and a shift.
_Linear: TypeAlias = tuple[float, float]


def _given(call: Call, **names: str) -> dict[str, Any]:
    """Arguments of a call by other names, arrays where they differ between samples; without those that it lacks."""
    given = {new: numpy.array(call.varying[name]) for new, name in names.items() if name in call.varying}
    return given | {new: call.fixed[name] for new, name in names.items() if name in call.fixed}


def _linear(call: Call, given: dict[str, Any]) -> _Linear | list[_Linear]:
    """A factor and a shift for all images, or for each."""
    if not call.varying:
        return color.linear_of_one(call.dtype, call.asked, **given)
    columns = (numpy.broadcast_to(each, call.count) for each in color.linear(call.dtype, call.asked, **given))
    return list(zip(*columns, strict=True))


def _each(call: Call) -> list[Any]:
    """The data of a plan for each image."""
    data = call.plan.data
    return data if isinstance(data, list) else [data] * call.count


def _plan_scaling(call: Call) -> Plan:
    """Brightness and contrast as a factor and a shift."""
    given = _given(
        call, brightness="brightness", shift="brightness_shift", contrast="contrast", center="contrast_center"
    )
    return Plan(call.shapes, call.asked, data=_linear(call, given), weight=2.0)


def _scale_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = pixels.flat(inputs[0]), pixels.flat(target)
    if source is None or result is None:
        source, result = (images(call.name, data, call.layout or "") for data in (inputs[0], target))
    _scale(source, result, source.each(numpy.array(_each(call))))


def _scale(source: Images, result: Images, numbers: Array) -> None:
    """Multiply all channels of images by one factor, and add one number."""
    shape = len(source), max(1, source.most_channels)
    pixels.normalised(source, result, *(numpy.broadcast_to(column[:, None], shape) for column in numbers.T))


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_scaling, gpu=_scale_on_gpu, unit="array")
def brightness_contrast(
    image: Array,
    /,
    *,
    brightness: PerSample[float] = 1.0,
    brightness_shift: PerSample[float] = 0.0,
    contrast: PerSample[float] = 1.0,
    contrast_center: PerSample[float | None] = None,
    dtype: DTypeArgument | None = None,
    plan: _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Change brightness and contrast: brightness * (center + contrast * (x - center)) + brightness_shift * range.

    The range is 1 for floats and the largest value of the result's type for integers.

    Args:
        brightness: Factor of every value.
        brightness_shift: Added to every value, as a part of the range.
        contrast: Factor of the distance to `contrast_center`.
        contrast_center: The value that contrast does not change; by default the middle of the range of the image's
            type: 128 for uint8, 0.5 for floats.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.

    Returns:
        Images of the same shapes and layout.

    >>> ndd.brightness_contrast([[[100], [200]]], contrast=2.0, contrast_center=150.0, dtype="u8").tolist()
    [[[50], [250]]]
    """
    color.scaled(image, *plan, out)
    return out


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_scaling, gpu=_scale_on_gpu, unit="array")
def brightness(
    image: Array,
    /,
    *,
    brightness: PerSample[float] = 1.0,
    brightness_shift: PerSample[float] = 0.0,
    dtype: DTypeArgument | None = None,
    plan: _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Change the brightness: brightness * x + brightness_shift * range.

    The range is 1 for floats and the largest value of the result's type for integers.

    Args:
        brightness: Factor of every value.
        brightness_shift: Added to every value, as a part of the range.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.

    Returns:
        Images of the same shapes and layout.

    >>> image = numpy.array([[[100], [200]]], "uint8")
    >>> ndd.brightness(image, brightness=1.5).tolist()
    [[[150], [255]]]
    """
    color.scaled(image, *plan, out)
    return out


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_scaling, gpu=_scale_on_gpu, unit="array")
def contrast(
    image: Array,
    /,
    *,
    contrast: PerSample[float] = 1.0,
    contrast_center: PerSample[float | None] = None,
    dtype: DTypeArgument | None = None,
    plan: _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Change the contrast: center + contrast * (x - center).

    Args:
        contrast: Factor of the distance to `contrast_center`.
        contrast_center: The value that contrast does not change; by default the middle of the range of the image's
            type: 128 for uint8, 0.5 for floats.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.

    Returns:
        Images of the same shapes and layout.

    >>> image = numpy.array([[[100], [200]]], "uint8")
    >>> ndd.contrast(image, contrast=0.5).tolist()
    [[[114], [164]]]
    """
    color.scaled(image, *plan, out)
    return out


def _pixels(image: Array, layout: str) -> Array:
    """A view of an image with its channels last."""
    if layout.endswith("C"):
        return image
    return numpy.moveaxis(image, layout.index("C"), -1) if "C" in layout else image[..., None]


def _plan_twist(call: Call) -> Plan:
    """The matrix that mixes the channels; of grey images, which have no hue or saturation, a factor and a shift.

    Raises:
        ArgumentError: An image has neither 1 nor 3 channels.
    """
    layout, space = call.layout or "", call.fixed.get("image_type", "RGB")
    shapes, place = call.shapes, layout.index("C") if "C" in layout else None
    channels = [1 if place is None else shape[place] for shape in shapes]
    if not set(channels) <= {1, 1 if space == "GRAY" else 3}:
        i = next(i for i, count in enumerate(channels) if count != 1 and (count != 3 or space == "GRAY"))
        expected = "of 1 channel (GRAY)" if space == "GRAY" else f"of 3 channels ({space}) or of 1 (GRAY)"
        raise call.noted(i, ArgumentError(call.name, "image", expected, f"{channels[i]} channels"))
    plan = Plan(shapes, call.asked, kernel=_twist_photos, weight=4.0)
    parts = _given(call, brightness="value" if call.name == "hsv" else "brightness", contrast="contrast")
    found: dict[int, Any] = {}
    if 1 in channels:
        found[1] = _linear(call, parts | {"center": color.grey(call.dtype)})
    if 3 in channels:
        own = {"hue": 0.0, "image_type": space} | _given(call, hue="hue", saturation="saturation") | parts
        numbers = [own.get(name, 1.0) for name in ("hue", "saturation", "brightness", "contrast", "image_type")]
        found[3] = (color.twist if call.varying else color.twist_of_one)(call.dtype, *numbers)
    if not call.varying and len(found) == 1:
        (plan.data,) = found.values()
    else:
        plan.data = [found[count][i] if call.varying else found[count] for i, count in enumerate(channels)]
    return plan


def _twist_photos(call: Call, memory: Memory) -> None:
    """Prepare a call of a library for each image, and share them out."""
    steps = [
        _twisting(image, call.layout or "", numbers, out)
        for image, numbers, out in zip(call.columns()[0], _each(call), memory.outs, strict=True)
    ]
    run_steps(steps, call.plan.weight * (call.bytes() + memory.nbytes))


def _twisting(image: Array, layout: str, numbers: Array | _Linear, out: Array) -> Step:
    """The call of a library that changes the colours of an image, or of many in one array."""
    if isinstance(numbers, tuple):
        return color.scaled, (image, *numbers, out)
    planes, results = _pixels(image, layout), _pixels(out, layout)
    return color.mixing(planes, numbers, results) or (color.mixed, (planes, numbers, results))


def _twisted(image: Array, layout: str, numbers: Array | _Linear, out: Array) -> Array:
    function, arguments = _twisting(image, layout, numbers, out)
    function(*arguments)
    return out


def _twist_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images(call.name, data, call.layout or "") for data in (inputs[0], target))
    grey, numbers = source.shapes[:, 2] == 1, _each(call)
    owners = source.each(numpy.arange(call.count))
    if grey.any():
        _scale(source.take(grey), result.take(grey), numpy.array([numbers[i] for i in owners[grey]]))
    if not grey.all():
        pixels.mixed(source.take(~grey), result.take(~grey), numpy.array([numbers[i] for i in owners[~grey]]))


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_twist, gpu=_twist_on_gpu, unit="array")
def color_twist(
    image: Array,
    /,
    *,
    brightness: PerSample[float] = 1.0,
    contrast: PerSample[float] = 1.0,
    dtype: DTypeArgument | None = None,
    hue: PerSample[float] = 0.0,
    image_type: _Space = "RGB",
    saturation: PerSample[float] = 1.0,
    layout: Layout = GIVEN,
    plan: Array | _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Turn the hue and change saturation, contrast and brightness, in this order.

    All are linear: the two axes of colour of YIQ are turned and multiplied. An image of one channel is grey, and only
    contrast and brightness change it.

    Args:
        brightness: Factor of every value.
        contrast: Factor of the distance to 128, for floats to 0.5.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        hue: Degrees.
        image_type: The meaning of the channels: "RGB", "BGR", "YCbCr" or "GRAY".
        saturation: Factor of the colours' distance to grey.

    Returns:
        Images of the same shapes and layout. Bytes may be 1 off where the result lies near the middle of two.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> red = numpy.array([[[200, 0, 0]]], "uint8")
    >>> ndd.color_twist(red, saturation=0.0, brightness=2.0).tolist()
    [[[120, 120, 120]]]
    """
    return _twisted(image, layout, plan, out)


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_twist, gpu=_twist_on_gpu, unit="array")
@described_as(color_twist)
def hue(
    image: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    hue: PerSample[float] = 0.0,
    image_type: _Space = "RGB",
    layout: Layout = GIVEN,
    plan: Array | _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Turn the hue, as `color_twist` does.

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> ndd.hue(numpy.array([[[200, 100, 100]]], "uint8"), hue=120.0).tolist()
    [[[80, 173, 37]]]
    """
    return _twisted(image, layout, plan, out)


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_twist, gpu=_twist_on_gpu, unit="array")
def saturation(
    image: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    image_type: _Space = "RGB",
    saturation: PerSample[float] = 1.0,
    layout: Layout = GIVEN,
    plan: Array | _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Change the saturation, as `color_twist` does.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        image_type: The meaning of the channels: "RGB", "BGR", "YCbCr" or "GRAY".
        saturation: Factor of the colours' distance to grey: 0 is grey, 1 changes nothing.

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> ndd.saturation(numpy.array([[[200, 100, 100]]], "uint8"), saturation=0.0).tolist()
    [[[130, 130, 130]]]
    """
    return _twisted(image, layout, plan, out)


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_twist, gpu=_twist_on_gpu, unit="array")
def hsv(
    image: Array,
    /,
    *,
    dtype: DTypeArgument = uint8,
    hue: PerSample[float] = 0.0,
    saturation: PerSample[float] = 1.0,
    value: PerSample[float] = 1.0,
    layout: Layout = GIVEN,
    plan: Array | _Linear = GIVEN,
    out: Array = None,
) -> Array:
    """Turn the hue of RGB images and multiply their saturation and brightness, as `color_twist` does.

    Args:
        dtype: Element type of the result, uint8 whatever the image's is; values are rounded and saturated to it.
        hue: Degrees.
        saturation: Factor of the colours' distance to grey.
        value: Factor of every value.

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> ndd.hsv(numpy.array([[[200, 100, 100]]], "uint8"), saturation=0.0, value=0.5).tolist()
    [[[65, 65, 65]]]
    """
    return _twisted(image, layout, plan, out)


#: Conversions that OpenCV does as DALI, to the last bit.
_CODES = {
    ("RGB", "BGR"): cv2.COLOR_RGB2BGR,
    ("BGR", "RGB"): cv2.COLOR_RGB2BGR,
    ("RGB", "GRAY"): cv2.COLOR_RGB2GRAY,
    ("BGR", "GRAY"): cv2.COLOR_BGR2GRAY,
    ("GRAY", "RGB"): cv2.COLOR_GRAY2RGB,
    ("GRAY", "BGR"): cv2.COLOR_GRAY2RGB,
}


def _plan_conversion(call: Call) -> Plan:
    """Channels of the result: images without channels get some, last, unless the result is grey too.

    Raises:
        ArgumentError: An image has not as many channels as `image_type` says.
    """
    layout, have, want = call.layout or "", call.fixed["image_type"], call.fixed["output_type"]
    place = layout.index("C") if "C" in layout else len(layout)
    before, after = (1 if space == "GRAY" else 3 for space in (have, want))
    new = "C" if "C" in layout or after > 1 else ""
    result = layout[:place] + new + layout[place + 1 :]

    def shape_of(shape: Shape) -> Shape:
        (count,) = shape[place : place + 1] or (1,)
        if count != before:
            expected = f"of {before} channel{'s' * (before > 1)} ({have})"
            raise ArgumentError(call.name, "image", expected, f"{count} channels")
        return (*shape[:place], *[after] * len(new), *shape[place + 1 :])

    weight = 1.0 if have == want or _is_copy(have, want) else 4.0
    return Plan(call.shapes_by(shape_of), call.dtype, result, data=_conversion(have, want, call.dtype), weight=weight)


def _is_copy(have: str, want: str) -> bool:
    """Whether the channels of one space are those of the other in reverse, or its one channel three times."""
    return want != "GRAY" and (have, want) in _CODES


@functools.cache
def _conversion(have: str, want: str, dtype: numpy.dtype[Any]) -> Callable[[Array, Array], None]:
    """A function that converts pixels, channels last."""
    code = _CODES.get((have, want))
    if have == want:
        return lambda pixels, out: numpy.copyto(out, pixels)
    if code is not None and dtype == numpy.uint8:
        return lambda pixels, out: color.recoded(pixels, code, out)
    if _is_copy(have, want):
        return lambda pixels, out: numpy.copyto(out, pixels[..., ::-1])
    if want == "GRAY" and have == "YCbCr":
        numbers = color.luma(dtype)
        return lambda pixels, out: color.picked(pixels, 0, *numbers, out)
    matrix = color.conversion(have, want, dtype)
    return lambda pixels, out: color.mixed(pixels, matrix, out, exact=True)


def _convert_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    have, want, source, layout = call.fixed["image_type"], call.fixed["output_type"], inputs[0], call.layout or ""
    if have == want:
        copies.window(source, target)
    elif _is_copy(have, want):
        place = layout.index("C") if "C" in layout else source.ndim
        steps, starts = numpy.ones_like(target.shapes), numpy.zeros_like(target.shapes)
        if have == "GRAY":
            strides = numpy.insert(source.strides, place, 0, axis=1) if "C" not in layout else source.strides.copy()
            strides[:, place] = 0
            source = Described(source.pointers, target.shapes, strides, source.dtype)
        else:
            steps[:, place], starts[:, place] = -1, 2
        copies.window(source, target, starts, steps)
    else:
        matrix = color.conversion(have, want, source.dtype)
        if (have, want) == ("YCbCr", "GRAY"):
            factor, shift = color.luma(source.dtype)
            matrix = numpy.array([[factor, 0.0, 0.0, shift]])
        result = images(call.name, target, layout if target.ndim == len(layout) else layout + "C")
        pixels.mixed(
            images(call.name, source, layout), result, numpy.broadcast_to(matrix, (len(result), *matrix.shape))
        )


@operator(layouts=LAYOUTS, dtypes=_NUMBERS, plan=_plan_conversion, gpu=_convert_on_gpu, unit="array")
def color_space_conversion(
    image: Array,
    /,
    *,
    image_type: _Space,
    output_type: _Space,
    layout: Layout = GIVEN,
    plan: Callable[[Array, Array], None] = GIVEN,
    out: Array = None,
) -> Array:
    """Convert images from one colour space to another.

    YCbCr is that of ITU-R BT.601: in bytes, Y is 16 to 235 and Cb and Cr are 16 to 240. Floats are in [0, 1].

    Args:
        image_type: The meaning of the channels: "RGB", "BGR", "YCbCr" or "GRAY".
        output_type: The same of the result.

    Returns:
        Images of the same dtype and layout with 3 channels, or 1 for "GRAY". Images without channels get them last.

    Raises:
        ArgumentError: The image has not as many channels as `image_type` says.

    >>> white = numpy.full((1, 1, 3), 255, "uint8")
    >>> ndd.color_space_conversion(white, image_type="RGB", output_type="YCbCr").tolist()
    [[[235, 128, 128]]]
    """
    if image.size:
        plan(_pixels(image, layout), _pixels(out, layout if out.ndim == len(layout) else layout + "C"))
    return out
