"""Operators that move pixels: rotate and flip."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import GATHERED, Array
from dynamic._arrays.described import Described
from dynamic._base.layout import spatial
from dynamic._base.pool import run_steps
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, InterpName, Layout, PerSample, Several, Three, Word
from dynamic._lift.call import Call, Moving, Plan, Shape
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import points, rotations, warp
from dynamic.kernels.gpu import copies as gpu_copies
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import warp as gpu_warp
from dynamic.types import DALIInterpType

from . import _copies as copies

__all__ = ["LAYOUTS", "flip", "rotate"]

#: Images, videos and volumes, with channels last, first, or without.
LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FHW", "FCHW", "DHWC", "DHW", "CDHW", "FDHWC", "FDHW", "FCDHW")

#: Rows of a matrix from points of the result to points of the input; or a number of quarter turns.
Turn: TypeAlias = int | Sequence[Sequence[float]]
#: How a value between pixels is read.
WarpInterp: TypeAlias = Annotated[
    InterpName, Word({"nn": ("nearest", "interp_nn"), "linear": ("interp_linear",)}, DALIInterpType)
]
#: An extent of a result; fractions are cut off.
Extent: TypeAlias = Annotated[float, Between(0)]


def _plan_rotation(call: Call) -> Plan:
    """The size of each rotated image, and the matrix that finds its pixels; for quarter turns their number."""
    layout, fixed, shapes = call.layout or "", call.fixed, call.shapes
    places, angles = spatial(layout), call.column("angle")
    axes = call.column("axis") if len(places) == 3 else [None] * call.count
    for i, axis in enumerate(axes) if len(places) == 3 else ():
        if axis is None or not any(axis):
            expected = "the (x, y, z) to rotate volumes about" if axis is None else "a vector other than zero"
            got = "nothing" if axis is None else f"tuple {axis}"
            raise call.noted(i, ArgumentError("rotate", "axis", expected, got))
    space = slice(places[0], places[-1] + 1)
    extents = [shape[space] for shape in shapes]
    kept = fixed["keep_size"] or "size" in call.varying or fixed["size"] is not None
    sizes = extents if kept else rotations.canvases(extents, angles, axes, call.frames)
    results = warped(call, places, sizes)
    turns = rotations.turns(extents, [shape[space] for shape in results], angles, axes)
    plan = Plan(results, call.asked, data=turns, weight=4.0)
    nearest = fixed["interp_type"] == "nn"
    if layout == "HWC" and not nearest and warp.are_photos(call.dtype, plan.dtype, shapes, results):
        plan.kernel = functools.partial(_turn_photos, fill=fixed["fill_value"])
    return plan


def _turn_photos(call: Call, memory: Memory, fill: Any) -> None:
    """Rotate images of a size and type that OpenCV interpolates in one call."""
    images, turns = call.columns()[0], call.plan.data
    fills = [fill if fill is None else warp.filled(fill, call.dtype, image.shape[-1]) for image in images]
    steps = list(map(warp.step, images, turns, memory.outs, fills))
    run_steps(steps, call.plan.weight * (call.bytes() + memory.nbytes))


def warped(
    call: Call, places: Sequence[int], extents: Sequence[Sequence[int]], *, rounded: bool = False
) -> list[Shape]:
    """Shapes of images that are moved into others, by the arguments `size` and `fill_value`.

    Args:
        call: The call.
        places: Spatial dimensions.
        extents: Of these, for images without a `size`.
        rounded: Whether fractions of a `size` are rounded, halves up, and not cut off.

    Raises:
        ArgumentError: There are too many or too few extents or values to fill with.
    """
    check_fill(call)
    whole = _rounded if rounded else int
    results = []
    for i, (shape, own, size) in enumerate(zip(call.shapes, extents, call.column("size"), strict=True)):
        if size is not None and len(size) != len(places):
            expected = f"{len(places)} extents, one for each spatial dimension of {call.layout}"
            raise call.noted(i, ArgumentError(call.name, "size", expected, str(len(size))))
        made = own if size is None else list(map(whole, size))
        results.append((*shape[: places[0]], *made, *shape[places[-1] + 1 :]))
    return results


def _rounded(extent: float) -> int:
    return math.floor(extent + 0.5)


def check_fill(call: Call) -> None:
    """Refuse an argument `fill_value` that does not fit the channels of an image."""
    fill, layout = call.fixed["fill_value"], call.layout or ""
    for i, shape in enumerate(call.shapes) if isinstance(fill, tuple) else ():
        channels = shape[layout.index("C")] if "C" in layout else 1
        if len(fill) not in {1, channels}:
            expected = f"one value or {channels}, one for each channel"
            raise call.noted(i, ArgumentError(call.name, "fill_value", expected, f"{len(fill)}"))


def image_extents(call: Call) -> Array:
    """Height and width of each image: (N, 2)."""
    layout = call.layout or ""
    places = [layout.index("H"), layout.index("W")]
    return numpy.array(call.shapes, numpy.int64).reshape(-1, call.ndim)[:, places]


def result_extents(call: Call) -> Array:
    """Height and width of each result of a planned call: (N, 2)."""
    layout, shapes = call.layout or "", call.plan.shapes
    places = [layout.index("H"), layout.index("W")]
    rows = numpy.array([shapes] * call.count if isinstance(shapes, tuple) else shapes, numpy.int64)
    return rows.reshape(-1, call.ndim)[:, places]


def _map_rotation(call: Call) -> Array:
    """The matrices of `_plan_rotation` the other way round, those of quarter turns too."""
    rows = rotations.rotations(image_extents(call), result_extents(call), call.column("angle"))
    back: Any = points.inverses(rows)  # which a turn always has
    return back


def _rotate_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout = call.layout or ""
    source, result = (images("rotate", data, layout) for data in (inputs[0], target))
    angles = source.each(numpy.array(call.column("angle")))
    matrices = rotations.rotations(source.shapes[:, :2], result.shapes[:, :2], angles)
    gpu_warp.affine(source, result, matrices, call.fixed["fill_value"], nearest=call.fixed["interp_type"] == "nn")


@operator(layouts=LAYOUTS, plan=Moving(_plan_rotation, _map_rotation), gpu=_rotate_on_gpu)
def rotate(
    image: Array,
    /,
    *,
    angle: PerSample[float],
    axis: PerSample[Three[float] | None] = None,
    dtype: DTypeArgument | None = None,
    fill_value: float | Several[float] | None = None,
    interp_type: WarpInterp = "linear",
    keep_size: bool = False,
    size: PerSample[Several[Extent] | None] = None,
    layout: Layout = GIVEN,
    plan: Turn = GIVEN,
    out: Array = None,
) -> Array:
    """Rotate each image counter-clockwise about its centre, or each volume about an axis.

    Quarter turns move pixels and change none. All frames of a video turn by the same angle.

    Args:
        angle: Degrees. A volume turns from x to y, y to z or z to x where the axis is z, x or y.
        axis: The (x, y, z) that a volume turns about, of any length; images ignore it.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        fill_value: Pixels outside the image, one value or one for each channel, saturated to the type of the image; by
            default the nearest pixel of the image.
        interp_type: How a value between pixels is read: "linear" or "nn", the nearest.
        keep_size: Keep the size of the image; by default it grows to hold every corner.
        size: Height and width of the result, for volumes depth first; fractions are cut off.

    Returns:
        Images of the same layout, and of the size that `size` or `keep_size` says.

    Raises:
        ArgumentError: A volume has no axis, or there are too many or too few extents or values to fill with.

    >>> ndd.rotate(ndd.as_tensor([[1, 2], [3, 4]], dtype="uint8"), angle=90).tolist()
    [[2, 4], [1, 3]]
    """
    # Batches of photos take `_turn_photos` instead, which has one call of OpenCV for each.
    for frame, result in zip(_frames(image, layout), _frames(out, layout), strict=True):
        if isinstance(plan, int):
            warp.quarter_turn(frame, plan, result)
        else:
            warp.affine(frame, plan, result, fill=fill_value, nearest=interp_type == "nn")
    return out


def _frames(image: Array, layout: str) -> Array:
    """A view of an image with its frames first, then depth, height and width, and its channels last."""
    if layout == "HWC":
        return image[None]
    if "C" not in layout:
        image, layout = image[..., None], layout + "C"
    if "F" not in layout:
        image, layout = image[None], "F" + layout
    return image.transpose([layout.index(letter) for letter in "FDHWC" if letter in layout])


def _plan_flip(call: Call) -> Plan:
    # One array whose rows, or whose pixels in rows, are in reverse order NumPy and OpenCV make as fast.
    several = bool(call.varying) or bool(call.fixed["horizontal"] and call.fixed["vertical"])
    many = call.count >= copies.MANY
    native = _flip_natively if many and (several or call.scattered(GATHERED)) else None
    return Plan(call.shapes, call.dtype, native=native)


def _flip_natively(call: Call, inputs: list[Described], memory: Memory) -> bool:
    return copies.copied(copies.flipped(inputs[0], _flags(call, inputs[0])), memory.described(), 2 * memory.nbytes)


def _flags(call: Call, data: Described) -> Any:
    """Which dimensions of each sample are mirrored: (N, ndim)."""
    flags = numpy.zeros(data.shapes.shape, bool)
    for letter, name in (("W", "horizontal"), ("H", "vertical"), ("D", "depthwise")):
        if letter in (call.layout or ""):
            flags[:, (call.layout or "").index(letter)] = list(map(bool, call.column(name)))
    return flags


def _map_flip(call: Call) -> Array:
    flags = numpy.array([call.column("horizontal"), call.column("vertical")]).T != 0
    return points.scaled(numpy.where(flags, -1, 1), numpy.where(flags, image_extents(call)[:, ::-1], 0))


def _flip_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    flags = _flags(call, inputs[0])
    gpu_copies.window(inputs[0], target, numpy.where(flags, inputs[0].shapes - 1, 0), numpy.where(flags, -1, 1))


@operator(layouts=LAYOUTS, plan=Moving(_plan_flip, _map_flip), gpu=_flip_on_gpu, unit="array")
def flip(
    image: Array,
    /,
    *,
    horizontal: PerSample[int] = 1,
    vertical: PerSample[int] = 0,
    depthwise: PerSample[int] = 0,
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Mirror each image or volume.

    Args:
        horizontal: Whether to swap left and right; any integer but 0 means yes.
        vertical: Whether to turn it upside down.
        depthwise: Whether to swap the front and the back of a volume; images ignore it.

    Returns:
        Images of the same shapes, dtype and layout.

    >>> ndd.flip(ndd.as_tensor([[1, 2], [3, 4]], dtype="uint8")).tolist()
    [[2, 1], [4, 3]]
    """
    if not out.size:
        return out
    if not layout.endswith("C"):
        image, out = image[..., None], out[..., None]
    if depthwise and "D" in layout:
        image = numpy.flip(image, layout.index("D"))
    if not horizontal:
        out[...] = image[..., ::-1, :, :] if vertical else image
        return out
    if not vertical and image.ndim > 3 and image.flags.c_contiguous:  # rows do not care whose they are
        rows = (-1, *image.shape[-2:])
        image, out = image.reshape(rows), out.reshape(rows)
    axes = (0, 1) if vertical else (1,)
    if image.ndim == 3:
        warp.flip(image, axes, out)
        return out
    for place in numpy.ndindex(image.shape[:-3]):
        warp.flip(image[place], axes, out[place])
    return out
