"""Operators that DALI has in its module of this name: medians and extremes of windows, and two warps.

What has become an operator like the others is here too, under DALI's former name for it.
Extents and positions of windows here have the width first, as DALI's have: (width, height).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from . import decoders  # noqa: F401
from ._argument import Between, Layout, PerSample, Two, Word
from ._array import Array
from ._operator import Spec, operator
from .decoders import peek_image_shape  # noqa: F401
from .errors import ArgumentError, shown
from .kernels.cpu import filters
from .ops.resize import resize  # noqa: F401
from .ops.warps import remap, warp_perspective

__all__ = ["dilate", "erode", "median_blur", "remap", "warp_perspective"]

_IMAGES = ("HWC", "HW", "CHW", "FHWC", "FHW", "FCHW")
_Extent: TypeAlias = Annotated[int, Between(1, 4095)]
_Size: TypeAlias = Annotated[int, Between(1, 255)]
_Sizes: TypeAlias = _Size | Two[_Size]
_Extents: TypeAlias = _Extent | Two[_Extent]
_Place: TypeAlias = Annotated[int, Between(-1, 4095)]
_Anchor: TypeAlias = _Place | Two[_Place]
_Border: TypeAlias = Annotated[
    str,
    Word({
        "constant": (),
        "replicate": ("clamp",),
        "reflect": ("reflect_1001",),
        "reflect_101": (),
        "wrap": (),
    }),
]  # fmt: skip
_BORDERS = {"replicate": "clamp", "reflect": "reflect_1001"}


def _same(image: Array, /, **_: Any) -> Spec:
    return image.shape, image.dtype


def _high_and_wide(value: Any) -> tuple[int, int]:
    """Height and width, given the width and the height, or one number for both."""
    width, height = value if isinstance(value, tuple) else (value, value)
    return height, width


@operator(layouts=_IMAGES, output=_same, name="experimental.median_blur")
def median_blur(
    image: Array,
    /,
    *,
    window_size: PerSample[_Sizes] = 3,
    layout: Layout = "HWC",
    out: Array = None,
) -> Array:
    """Replace each pixel by the median of the window around it, channel by channel.

    What is outside of an image is the nearest of its pixels.

    Args:
        window_size: Extent of the window, or its width and height; odd numbers.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: An extent is even.

    >>> dynamic.experimental.median_blur(as_tensor([[1, 2, 3], [4, 90, 6], [7, 8, 9]], dtype="uint8")).tolist()
    [[2, 3, 3], [4, 6, 6], [7, 8, 9]]
    """
    size = _high_and_wide(window_size)
    if not all(extent % 2 for extent in size):
        raise ArgumentError("experimental.median_blur", "window_size", "odd", shown(window_size))
    for plane, result in filters.planes(image, _spatial(layout), out):
        filters.medians(plane, size, result)
    return out


@operator(layouts=_IMAGES, output=_same, name="experimental.dilate")
def dilate(
    image: Array, /, *, anchor: PerSample[_Anchor] = -1, border_mode: _Border = "constant", iterations: _Extent = 1,
    mask_size: PerSample[_Extents] = 3, layout: Layout = "HWC", out: Array = None,
) -> Array:  # fmt: skip
    """Replace each pixel by the largest value of the window around it, channel by channel.

    Args:
        anchor: Which pixel of the window lies on the one that is computed: x and y, or one index for both; -1 is the
            middle, rounded up.
        border_mode: What is outside of the image: "constant" is nothing at all, "replicate" the nearest pixel,
            "reflect" the reflection about the edge, "reflect_101" about the edge pixels, "wrap" the other side.
        iterations: How often to do it.
        mask_size: Extent of the window, or its width and height.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: The anchor is not in the window.

    >>> dynamic.experimental.dilate(as_tensor([[0, 0, 0, 9, 0]], dtype="uint8")).tolist()
    [[0, 0, 9, 9, 9]]
    """
    return _extreme("experimental.dilate", image, mask_size, anchor, border_mode, iterations, layout, out)


@operator(layouts=_IMAGES, output=_same, name="experimental.erode")
def erode(
    image: Array, /, *, anchor: PerSample[_Anchor] = -1, border_mode: _Border = "constant", iterations: _Extent = 1,
    mask_size: PerSample[_Extents] = 3, layout: Layout = "HWC", out: Array = None,
) -> Array:  # fmt: skip
    """Replace each pixel by the smallest value of the window around it, channel by channel.

    Args:
        anchor: Which pixel of the window lies on the one that is computed: x and y, or one index for both; -1 is the
            middle, rounded up.
        border_mode: What is outside of the image: "constant" is nothing at all, "replicate" the nearest pixel,
            "reflect" the reflection about the edge, "reflect_101" about the edge pixels, "wrap" the other side.
        iterations: How often to do it.
        mask_size: Extent of the window, or its width and height.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: The anchor is not in the window.

    >>> dynamic.experimental.erode(as_tensor([[9, 9, 9, 0, 9]], dtype="uint8"), mask_size=(2, 1)).tolist()
    [[9, 9, 9, 0, 0]]
    """
    return _extreme("experimental.erode", image, mask_size, anchor, border_mode, iterations, layout, out)


def _extreme(
    name: str, image: Array, mask_size: Any, anchor: Any, border: str, iterations: int, layout: str, out: Array
) -> Array:
    size = _high_and_wide(mask_size)
    places = []
    for place, extent in zip(_high_and_wide(anchor), size, strict=True):
        if place >= extent:
            raise ArgumentError(name, "anchor", f"less than the extent of the mask, {extent}", str(place))
        places.append(extent // 2 if place < 0 else place)
    largest = name.endswith("dilate")
    for plane, result in filters.planes(image, _spatial(layout), out):
        filters.extremes(plane, size, places, _BORDERS.get(border, border), iterations, result, largest=largest)
    return out


def _spatial(layout: str) -> tuple[int, int]:
    return layout.index("H"), layout.index("W")
