"""Operators that DALI has in its module of this name: medians and extremes of windows, and two warps.

Operators that have become regular ones are here too, under DALI's former names.
Extents and positions of windows here have the width first, as DALI's have: (width, height).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy

from . import decoders  # noqa: F401
from ._arrays.array import Array
from ._arrays.described import Described, allocated
from ._base.docstrings import described_as
from ._lift.argument import GIVEN, Between, Layout, PerSample, Two, Word
from ._lift.call import Call, Plan
from ._lift.operator import operator
from .decoders import peek_image_shape  # noqa: F401
from .errors import ArgumentError, shown
from .kernels.cpu import filters
from .kernels.gpu import images
from .kernels.gpu.filters import ranked
from .ops.resize import resize  # noqa: F401
from .ops.warps import remap, warp_perspective
from .readers import _experimental

__all__ = ["dilate", "erode", "median_blur", "remap", "warp_perspective"]

#: The module ``experimental.readers``.
readers = _experimental


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


_IMAGES = ("HWC", "HW", "CHW", "FHWC", "FHW", "FCHW")
_Extent: TypeAlias = Annotated[int, Between(1, 4095)]
_Size: TypeAlias = Annotated[int, Between(1, 255)]
_Sizes: TypeAlias = _Size | Two[_Size]
_Extents: TypeAlias = _Extent | Two[_Extent]
_Place: TypeAlias = Annotated[int, Between(-1, 4095)]
_Anchor: TypeAlias = _Place | Two[_Place]
_Border: TypeAlias = Annotated[
    str,
    Word({"constant": (), "replicate": ("clamp",), "reflect": ("reflect_1001",), "reflect_101": (), "wrap": ()}),
]
_BORDERS = {"replicate": "clamp", "reflect": "reflect_1001"}


def _high_and_wide(value: Any) -> tuple[int, int]:
    """Height and width, given the width and the height, or one number for both."""
    width, height = value if isinstance(value, tuple) else (value, value)
    return height, width


def _plan_median(call: Call) -> Plan:
    """Height and width of the window of each image."""
    sizes = list(map(_high_and_wide, call.column("window_size")))
    for i, size in enumerate(sizes):
        if not size[0] % 2 == size[1] % 2 == 1:
            error = ArgumentError(call.name, "window_size", "odd", shown(call.column("window_size")[i]))
            raise call.noted(i, error)
    return Plan(call.shapes, call.dtype, data=sizes, weight=8.0)


def _median_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images(call.name, data, call.layout or "") for data in (inputs[0], target))
    windows = source.each(numpy.array(call.plan.data))
    ranked(source, result, windows, windows // 2, "clamp", "median")


@operator(layouts=_IMAGES, plan=_plan_median, gpu=_median_on_gpu, name="experimental.median_blur")
def median_blur(
    image: Array,
    /,
    *,
    window_size: PerSample[_Sizes] = 3,
    layout: Layout = GIVEN,
    plan: tuple[int, int] = GIVEN,
    out: Array = None,
) -> Array:
    """Replace each pixel by the median of the window around it, channel by channel.

    Pixels outside of an image are the nearest ones of its edge.

    Args:
        window_size: Extent of the window, or its width and height; odd numbers.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: An extent is even.

    >>> ndd.experimental.median_blur(ndd.as_tensor([[1, 2, 3], [4, 90, 6], [7, 8, 9]], dtype="uint8")).tolist()
    [[2, 3, 3], [4, 6, 6], [7, 8, 9]]
    """
    for plane, result in filters.planes(image, _spatial(layout), out):
        filters.medians(plane, plan, result)
    return out


def _plan_extreme(call: Call) -> Plan:
    """Height and width of the window of each image, and which of its pixels lies on the one that is computed."""
    sizes, found = list(map(_high_and_wide, call.column("mask_size"))), []
    for i, (size, anchor) in enumerate(zip(sizes, map(_high_and_wide, call.column("anchor")), strict=True)):
        for place, extent in zip(anchor, size, strict=True):
            if place >= extent:
                expected = f"less than the extent of the mask, {extent}"
                raise call.noted(i, ArgumentError(call.name, "anchor", expected, str(place)))
        places = [extent // 2 if place < 0 else place for place, extent in zip(anchor, size, strict=True)]
        found.append((size, places))
    return Plan(call.shapes, call.dtype, data=found, weight=8.0)


def _extreme_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout, rank = call.layout or "", "largest" if call.name.endswith("dilate") else "smallest"
    sizes, places = (numpy.array(column) for column in zip(*call.plan.data, strict=True))
    border = _BORDERS.get(call.fixed["border_mode"], call.fixed["border_mode"])
    data, between = inputs[0], allocated(target.shapes, target.dtype)  # kept until the last launch
    for left in range(call.fixed["iterations"] - 1, -1, -1):
        into = between.table if left % 2 else target
        source, result = images(call.name, data, layout), images(call.name, into, layout)
        ranked(source, result, source.each(sizes), source.each(places), border, rank)
        data = into


@operator(layouts=_IMAGES, plan=_plan_extreme, gpu=_extreme_on_gpu, name="experimental.dilate")
def dilate(
    image: Array,
    /,
    *,
    anchor: PerSample[_Anchor] = -1,
    border_mode: _Border = "constant",
    iterations: _Extent = 1,
    mask_size: PerSample[_Extents] = 3,
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Replace each pixel by the largest value of the window around it, channel by channel.

    Args:
        anchor: Which pixel of the window lies on the one that is computed: x and y, or one index for both; -1 is the
            middle, rounded up.
        border_mode: Pixels outside of the image: "constant" is nothing at all, "replicate" the nearest pixel,
            "reflect" the reflection about the edge, "reflect_101" about the edge pixels, "wrap" the other side.
        iterations: How often to do it.
        mask_size: Extent of the window, or its width and height.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: The anchor is not in the window.

    >>> ndd.experimental.dilate(ndd.as_tensor([[0, 0, 0, 9, 0]], dtype="uint8")).tolist()
    [[0, 0, 9, 9, 9]]
    """
    return _extreme(image, plan, border_mode, iterations, layout, out, largest=True)


@operator(layouts=_IMAGES, plan=_plan_extreme, gpu=_extreme_on_gpu, name="experimental.erode")
@described_as(dilate)
def erode(
    image: Array,
    /,
    *,
    anchor: PerSample[_Anchor] = -1,
    border_mode: _Border = "constant",
    iterations: _Extent = 1,
    mask_size: PerSample[_Extents] = 3,
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Replace each pixel by the smallest value of the window around it, channel by channel.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: The anchor is not in the window.

    >>> ndd.experimental.erode(ndd.as_tensor([[9, 9, 9, 0, 9]], dtype="uint8"), mask_size=(2, 1)).tolist()
    [[9, 9, 9, 0, 0]]
    """
    return _extreme(image, plan, border_mode, iterations, layout, out, largest=False)


def _extreme(image: Array, plan: Any, border: str, iterations: int, layout: str, out: Array, *, largest: bool) -> Array:
    border, (size, places) = _BORDERS.get(border, border), plan
    for plane, result in filters.planes(image, _spatial(layout), out):
        filters.extremes(plane, size, places, border, iterations, result, largest=largest)
    return out


def _spatial(layout: str) -> tuple[int, int]:
    return layout.index("H"), layout.index("W")
