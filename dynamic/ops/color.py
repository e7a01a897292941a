"""Operators on colours: brightness and contrast, hue and saturation, colour spaces."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import functools
from typing import Annotated, Any, TypeAlias

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.pool import Step
from dynamic._lift.argument import GIVEN, DTypeArgument, ImageName, Layout, PerSample, Word
from dynamic._lift.call import Call
from dynamic._lift.former import Spec, planned, stepwise
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
#: What the channels of an image are.
_Space: TypeAlias = Annotated[ImageName, Word({"RGB": (), "BGR": (), "GRAY": ("grey",), "YCbCr": ()}, DALIImageType)]


def _converted(image: Array, /, *, dtype: Any = None, **_: Any) -> Spec:
    """Shape and dtype of the result: those of the image, or the dtype that is asked for."""
    return image.shape, image.dtype if dtype is None else dtype.dtype


def _kind(ndim: int, _: Any, *, dtype: Any, **__: Any) -> tuple[int, Any]:
    """What an empty Batch becomes: the dtype that is asked for."""
    return ndim, dtype.dtype


def _scaled(
    image: Array, out: Array, brightness: float = 1.0, shift: float = 0.0, contrast: float = 1.0,
    center: float | None = None,
) -> Array:  # fmt: skip
    factor, added = color.linear_of_one(image.dtype, out.dtype, brightness, shift, contrast, center)
    color.scaled(image, factor, added, out)
    return out


def _scale_on_gpu(operator: str, call: Call, inputs: list[Described], target: Described) -> None:
    """`brightness_contrast`, and its parts."""
    have, names = inputs[0].dtype, {"brightness": "brightness", "brightness_shift": "shift", "contrast": "contrast"}
    known = call.fixed.keys() | call.varying.keys()
    given = {key: numpy.array(call.column(name)) for name, key in names.items() if name in known}
    if "contrast_center" in known:
        centers = call.column("contrast_center")
        given["center"] = numpy.array([color.middle(have) if center is None else center for center in centers])
    factors, shifts = color.linear(have, target.dtype, **given)
    source, result = pixels.flat(inputs[0]), pixels.flat(target)
    if source is None or result is None:
        source, result = (images(operator, data, call.layout or "") for data in (inputs[0], target))
    _scale(source, result, call.count, factors, shifts)


def _scale(source: Images, result: Images, count: int, factors: Any, shifts: Any) -> None:
    """Multiply all channels of images by one factor, and add one number."""
    shape = len(source), max(1, source.most_channels)
    each = (source.each(numpy.broadcast_to(column, count)) for column in (factors, shifts))
    pixels.normalised(source, result, *(numpy.broadcast_to(column[:, None], shape) for column in each))


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, weight=4),
    gpu=functools.partial(_scale_on_gpu, "brightness_contrast"),
    unit="array",
)
def brightness_contrast(
    image: Array, /, *, brightness: PerSample[float] = 1.0, brightness_shift: PerSample[float] = 0.0,
    contrast: PerSample[float] = 1.0, contrast_center: PerSample[float | None] = None,
    dtype: DTypeArgument | None = None, out: Array = None,
) -> Array:  # fmt: skip
    """Change brightness and contrast: brightness * (center + contrast * (x - center)) + brightness_shift * range.

    The range is 1 for floats and the largest value of the result's type for integers.

    Args:
        brightness: Factor of every value.
        brightness_shift: What is added, as a part of the range.
        contrast: Factor of the distance to `contrast_center`.
        contrast_center: The value that contrast does not change; by default the middle of the range of the image's
            type: 128 for uint8, 0.5 for floats.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.

    Returns:
        Images of the same shapes and layout.

    >>> ndd.brightness_contrast([[[100], [200]]], contrast=2.0, contrast_center=150.0, dtype="u8").tolist()
    [[[50], [250]]]
    """
    return _scaled(image, out, brightness, brightness_shift, contrast, contrast_center)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, weight=4),
    gpu=functools.partial(_scale_on_gpu, "brightness"),
    unit="array",
)
def brightness(
    image: Array, /, *, brightness: PerSample[float] = 1.0, brightness_shift: PerSample[float] = 0.0,
    dtype: DTypeArgument | None = None, out: Array = None,
) -> Array:  # fmt: skip
    """Change the brightness: brightness * x + brightness_shift * range.

    The range is 1 for floats and the largest value of the result's type for integers.

    Args:
        brightness: Factor of every value.
        brightness_shift: What is added, as a part of the range.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.

    Returns:
        Images of the same shapes and layout.

    >>> image = numpy.array([[[100], [200]]], "uint8")
    >>> ndd.brightness(image, brightness=1.5).tolist()
    [[[150], [255]]]
    """
    return _scaled(image, out, brightness, brightness_shift)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, weight=4),
    gpu=functools.partial(_scale_on_gpu, "contrast"),
    unit="array",
)
def contrast(
    image: Array, /, *, contrast: PerSample[float] = 1.0, contrast_center: PerSample[float | None] = None,
    dtype: DTypeArgument | None = None, out: Array = None,
) -> Array:  # fmt: skip
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
    return _scaled(image, out, contrast=contrast, center=contrast_center)


def _pixels(image: Array, layout: str) -> Array:
    """A view of an image with its channels last."""
    if layout.endswith("C"):
        return image
    return numpy.moveaxis(image, layout.index("C"), -1) if "C" in layout else image[..., None]


def _check_channels(name: str, channels: int, image_type: str) -> None:
    if channels not in ((1,) if image_type == "GRAY" else (1, 3)):
        expected = "of 1 channel (GRAY)" if image_type == "GRAY" else f"of 3 channels ({image_type}) or of 1 (GRAY)"
        raise ArgumentError(name, "image", expected, f"{channels} channels")


def _twisted(
    name: str, image: Array, layout: str, out: Array, hue: float, saturation: float,
    brightness: float = 1.0, contrast: float = 1.0, image_type: str = "RGB",
) -> Array:  # fmt: skip
    """Turn hues, multiply saturation, then change contrast and brightness."""
    planes, results = _pixels(image, layout), _pixels(out, layout)
    _check_channels(name, planes.shape[-1], image_type)
    if planes.shape[-1] == 1:  # grey has no hue, and its saturation is none
        return _scaled(image, out, brightness, 0.0, contrast, color.grey(image.dtype))
    color.mixed(planes, color.twist_of_one(image.dtype, hue, saturation, brightness, contrast, image_type), results)
    return out


def _twist_on_gpu(operator: str, call: Call, inputs: list[Described], target: Described) -> None:
    """`color_twist`, its parts, and `hsv`, whose `value` is its brightness."""
    source, result = (images(operator, data, call.layout or "") for data in (inputs[0], target))
    known = call.fixed.keys() | call.varying.keys()
    names = {"hue": "hue", "saturation": "saturation", "brightness": "brightness", "contrast": "contrast"}
    given = {
        key: numpy.array(call.column(name)) for name, key in (names | {"value": "brightness"}).items() if name in known
    }
    space, have = call.fixed.get("image_type", "RGB"), inputs[0].dtype
    channels = source.shapes[:, 2]
    for count in set(channels.tolist()):
        _check_channels(operator, count, space)
    grey = channels == 1
    if grey.any():
        plain = {name: given[name] for name in ("brightness", "contrast") if name in given}
        numbers = color.linear(have, target.dtype, **plain, center=numpy.full(call.count, color.grey(have)))
        _scale(source.take(grey), result.take(grey), call.count, *numbers)
    if not grey.all():
        matrices = source.each(
            color.twist(have, **{"hue": 0.0, "saturation": numpy.ones(call.count), **given}, image_type=space)
        )
        pixels.mixed(source.take(~grey), result.take(~grey), matrices[~grey])


def _twist_step(
    image: Array, /, *, hue: float = 0.0, saturation: float = 1.0, brightness: float = 1.0, value: float = 1.0,
    contrast: float = 1.0, image_type: str = "RGB", layout: str, out: Array, **_: Any,
) -> Step | None:  # fmt: skip
    """What `color_twist` and the like come to for a photo."""
    if not layout.endswith("C") or image.shape[-1] != 3 or image_type == "GRAY":
        return None
    matrix = color.twist_of_one(image.dtype, hue, saturation, brightness * value, contrast, image_type)
    return color.mixing(image, matrix, out)


_twist_many = stepwise(_twist_step)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, many=_twist_many, weight=4),
    gpu=functools.partial(_twist_on_gpu, "color_twist"),
    unit="array",
)
def color_twist(
    image: Array, /, *, brightness: PerSample[float] = 1.0, contrast: PerSample[float] = 1.0,
    dtype: DTypeArgument | None = None, hue: PerSample[float] = 0.0, image_type: _Space = "RGB",
    saturation: PerSample[float] = 1.0, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Turn the hue and change saturation, contrast and brightness, in this order.

    All are linear: the two axes of colour of YIQ are turned and multiplied. An image of one channel is grey, and only
    contrast and brightness change it.

    Args:
        brightness: Factor of every value.
        contrast: Factor of the distance to 128, for floats to 0.5.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        hue: Degrees.
        image_type: What the channels are: "RGB", "BGR", "YCbCr" or "GRAY".
        saturation: Factor of the colours' distance to grey.

    Returns:
        Images of the same shapes and layout. Bytes may be 1 off where the result lies near the middle of two.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> red = numpy.array([[[200, 0, 0]]], "uint8")
    >>> ndd.color_twist(red, saturation=0.0, brightness=2.0).tolist()
    [[[120, 120, 120]]]
    """
    return _twisted("color_twist", image, layout, out, hue, saturation, brightness, contrast, image_type)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, many=_twist_many, weight=4),
    gpu=functools.partial(_twist_on_gpu, "hue"),
    unit="array",
)
def hue(
    image: Array, /, *, dtype: DTypeArgument | None = None, hue: PerSample[float] = 0.0, image_type: _Space = "RGB",
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Turn the hue, as `color_twist` does.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        hue: Degrees.
        image_type: What the channels are: "RGB", "BGR", "YCbCr" or "GRAY".

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> ndd.hue(numpy.array([[[200, 100, 100]]], "uint8"), hue=120.0).tolist()
    [[[80, 173, 37]]]
    """
    return _twisted("hue", image, layout, out, hue, 1.0, image_type=image_type)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, many=_twist_many, weight=4),
    gpu=functools.partial(_twist_on_gpu, "saturation"),
    unit="array",
)
def saturation(
    image: Array, /, *, dtype: DTypeArgument | None = None, image_type: _Space = "RGB",
    saturation: PerSample[float] = 1.0, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Change the saturation, as `color_twist` does.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        image_type: What the channels are: "RGB", "BGR", "YCbCr" or "GRAY".
        saturation: Factor of the colours' distance to grey: 0 is grey, 1 changes nothing.

    Returns:
        Images of the same shapes and layout.

    Raises:
        ArgumentError: The image has neither 1 nor 3 channels.

    >>> ndd.saturation(numpy.array([[[200, 100, 100]]], "uint8"), saturation=0.0).tolist()
    [[[130, 130, 130]]]
    """
    return _twisted("saturation", image, layout, out, 0.0, saturation, image_type=image_type)


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_converted, kind=_kind, many=_twist_many, weight=4),
    gpu=functools.partial(_twist_on_gpu, "hsv"),
    unit="array",
)
def hsv(
    image: Array, /, *, dtype: DTypeArgument = uint8, hue: PerSample[float] = 0.0, saturation: PerSample[float] = 1.0,
    value: PerSample[float] = 1.0, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
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
    return _twisted("hsv", image, layout, out, hue, saturation, value)


def _space_layout(layout: str | None, /, output_type: str = "RGB", **_: Any) -> str | None:
    """The layout of the result: images without channels get some, last, unless the result is grey too."""
    return layout if not layout or "C" in layout or output_type == "GRAY" else layout + "C"


def _spaced(image: Array, /, *, image_type: str, output_type: str, layout: str) -> Spec:
    """Shape and dtype of what `color_space_conversion` makes of an image."""
    have, want = (1 if space == "GRAY" else 3 for space in (image_type, output_type))
    shape = list(image.shape if "C" in layout else (*image.shape, 1))
    place = layout.index("C") if "C" in layout else -1
    if shape[place] != have:
        expected = f"of {have} channel{'s' * (have > 1)} ({image_type})"
        raise ArgumentError("color_space_conversion", "image", expected, f"{shape[place]} channels")
    shape[place] = want
    return tuple(shape if "C" in layout or want == 3 else shape[:-1]), image.dtype


#: What OpenCV converts as DALI does, to the last bit.
_CODES = {
    ("RGB", "BGR"): cv2.COLOR_RGB2BGR,
    ("BGR", "RGB"): cv2.COLOR_RGB2BGR,
    ("RGB", "GRAY"): cv2.COLOR_RGB2GRAY,
    ("BGR", "GRAY"): cv2.COLOR_BGR2GRAY,
    ("GRAY", "RGB"): cv2.COLOR_GRAY2RGB,
    ("GRAY", "BGR"): cv2.COLOR_GRAY2RGB,
}


def _convert_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    name, have, want = "color_space_conversion", call.fixed["image_type"], call.fixed["output_type"]
    source, layout = inputs[0], call.layout or ""
    if have == want:
        copies.window(source, target)
    elif (have, want) in _CODES and want != "GRAY":  # reversed, or the one channel three times
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
        result = images(name, target, _space_layout(layout, want) or layout)
        pixels.mixed(images(name, source, layout), result, numpy.broadcast_to(matrix, (len(result), *matrix.shape)))


@operator(
    layouts=LAYOUTS,
    dtypes=_NUMBERS,
    plan=planned(_spaced, layout=_space_layout, weight=4),
    gpu=_convert_on_gpu,
    unit="array",
)
def color_space_conversion(
    image: Array, /, *, image_type: _Space, output_type: _Space, layout: Layout = GIVEN, out: Array = None
) -> Array:
    """Convert images from one colour space to another.

    YCbCr is that of ITU-R BT.601: in bytes, Y is 16 to 235 and Cb and Cr are 16 to 240. Floats are in [0, 1].

    Args:
        image_type: What the channels are: "RGB", "BGR", "YCbCr" or "GRAY".
        output_type: What they become: one of the same.

    Returns:
        Images of the same dtype and layout with 3 channels, or 1 for "GRAY". Images without channels get them last.

    Raises:
        ArgumentError: The image has not as many channels as `image_type` says.

    >>> white = numpy.full((1, 1, 3), 255, "uint8")
    >>> ndd.color_space_conversion(white, image_type="RGB", output_type="YCbCr").tolist()
    [[[235, 128, 128]]]
    """
    pixels, results = _pixels(image, layout), _pixels(out, _space_layout(layout, output_type) or layout)
    code = _CODES.get((image_type, output_type))
    if not image.size:
        return out
    if image_type == output_type:
        out[...] = image
    elif code is not None and image.dtype == numpy.uint8:
        color.recoded(pixels, code, results)
    elif code is not None and output_type != "GRAY":  # reversed, or the one channel three times
        results[...] = pixels[..., ::-1]
    elif (image_type, output_type) == ("YCbCr", "GRAY"):
        color.picked(pixels, 0, *color.luma(image.dtype), results)
    else:
        color.mixed(pixels, color.conversion(image_type, output_type, image.dtype), results, exact=True)
    return out
