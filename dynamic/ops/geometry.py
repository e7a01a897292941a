"""Operators that move pixels: rotate and flip."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias

import numpy

from dynamic._argument import GIVEN, Between, DTypeArgument, InterpName, Layout, PerSample, Several, Three, Word
from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.layout import spatial
from dynamic._call import Call
from dynamic._operator import Operator, Spec, operator
from dynamic.data import Batch
from dynamic.dtypes import ALL, numpy_dtype
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import rotations, warp
from dynamic.kernels.gpu import copies, images
from dynamic.kernels.gpu import warp as gpu_warp
from dynamic.types import DALIInterpType

__all__ = ["LAYOUTS", "flip", "rotate"]

P = ParamSpec("P")

#: Images, videos and volumes, with channels last, first, or without.
LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FHW", "FCHW", "DHWC", "DHW", "CDHW", "FDHWC", "FDHW", "FCDHW")

#: How a value between pixels is read.
WarpInterp: TypeAlias = Annotated[
    InterpName, Word({"nn": ("nearest", "interp_nn"), "linear": ("interp_linear",)}, DALIInterpType)
]
#: An extent of a result; fractions are cut off.
Extent: TypeAlias = Annotated[float, Between(0)]


def _rotated(
    image: Array, /, *, angle: float, axis: tuple[float, ...] | None = None, dtype: Any = None,
    fill_value: Any = None, keep_size: bool = False, size: tuple[float, ...] | None = None,
    layout: str, **_: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of what `rotate` makes of an image."""
    places = spatial(layout)
    extents = [image.shape[place] for place in places]
    if len(places) == 3 and axis is None:
        raise ArgumentError("rotate", "axis", "the (x, y, z) to rotate volumes about", "nothing")
    if len(places) == 3 and not any(axis or ()):
        raise ArgumentError("rotate", "axis", "a vector that points somewhere", f"tuple {axis}")
    if size is None and not keep_size:
        extents = list(rotations.canvas(extents, angle, axis if len(places) == 3 else None))
    return warped("rotate", image, layout, extents, size=size, fill_value=fill_value, dtype=dtype)


def warped(
    operator: str, image: Array, layout: str, extents: Sequence[int], *, size: Sequence[float] | None, fill_value: Any,
    dtype: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of an image that is moved into another.

    Args:
        operator: Its name, for errors.
        image: The image.
        layout: Its layout.
        extents: Those of its spatial dimensions where there is no `size`.
        size: The argument of that name; fractions are cut off.
        fill_value: The argument of that name.
        dtype: The argument of that name.

    Raises:
        ArgumentError: There are too many or too few extents or values to fill with.
    """
    places = spatial(layout)
    if size is not None and len(size) != len(places):
        expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
        raise ArgumentError(operator, "size", expected, str(len(size)))
    channels = image.shape[layout.index("C")] if "C" in layout else 1
    if isinstance(fill_value, tuple) and len(fill_value) not in {1, channels}:
        raise ArgumentError(operator, "fill_value", f"one value or {channels}, one a channel", f"{len(fill_value)}")
    shape = list(image.shape)
    for place, extent in zip(places, extents if size is None else size, strict=True):
        shape[place] = int(extent)
    return tuple(shape), image.dtype if dtype is None else dtype.dtype


def _rotate_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout = call.layout or ""
    source, result = (images("rotate", data, layout) for data in (inputs[0], target))
    angles = source.each(numpy.array(call.column("angle")))
    matrices = rotations.rotations(source.shapes[:, :2], result.shapes[:, :2], angles)
    gpu_warp.affine(source, result, matrices, call.fixed["fill_value"], nearest=call.fixed["interp_type"] == "nn")


class _Rotate(Operator[P]):
    """`rotate`, which gives all frames of a video one canvas where their angles differ."""

    def of_frames(self, frames: Batch, counts: Sequence[int], arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of frames, with the size of the canvas of their video."""
        if arguments.get("keep_size") or arguments.get("size") is not None or not len(frames):
            return arguments
        layout = self._checked_input(frames) or ""
        places = spatial(layout)
        angles, axes = (self._of_each(name, arguments.get(name), len(frames)) for name in ("angle", "axis"))
        sizes: list[tuple[int, ...]] = []
        for start, stop in pairwise(accumulate(counts, initial=0)):
            turns = list(zip(angles[start:stop], axes[start:stop], strict=True))
            if len(places) == 3 and not all(axis is not None and any(axis) for _, axis in turns):
                return arguments  # `rotate` tells what is wrong
            extents = [frames.shape[start][place] for place in places] if turns else []
            sizes += [rotations.common_canvas(extents, turns)] * len(turns)
        return {**arguments, "size": Batch(numpy.array(sizes, numpy.float32))}

    def _of_each(self, name: str, value: Any, count: int) -> list[Any]:
        if isinstance(value, Batch):
            return self.arguments[name].each(value, count)
        return [None if value is None else self.arguments[name].one(value)] * count


def _rotation(body: Callable[Concatenate[Any, P], Any]) -> _Rotate[P]:
    return _Rotate(body, LAYOUTS, frozenset(map(numpy_dtype, ALL)), _rotated, None, None, None, values_from=None,
                   whole=False, devices=("cpu",), name=None, kernel=_rotate_on_gpu)  # fmt: skip


@_rotation
def rotate(
    image: Array, /, *, angle: PerSample[float], axis: PerSample[Three[float] | None] = None,
    dtype: DTypeArgument | None = None, fill_value: float | Several[float] | None = None,
    interp_type: WarpInterp = "linear", keep_size: bool = False, size: PerSample[Several[Extent] | None] = None,
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Rotate each image counter-clockwise about its centre, or each volume about an axis.

    Quarter turns move pixels and change none. All frames of a video turn by the same angle.

    Args:
        angle: Degrees. A volume turns from x to y, y to z or z to x where the axis is z, x or y.
        axis: The (x, y, z) that a volume turns about, of any length; images ignore it.
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        fill_value: What is outside the image, one value or one for each channel, saturated to the type of the image; by
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
    images, results = _frames(image, layout), _frames(out, layout)
    volume = "D" in layout
    turns = None if volume else rotations.quarter_turns(angle)
    moved = turns is not None and results.shape[1:3] == images.shape[1:3][:: -1 if turns % 2 else 1]
    matrix = rotations.rotation(images.shape[1:-1], results.shape[1:-1], angle, axis if volume else None)
    for frame, result in zip(images, results, strict=True):
        if moved:
            warp.quarter_turn(frame, turns, result)
        else:
            warp.affine(frame, matrix, result, fill=fill_value, nearest=interp_type == "nn")
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


def _same(image: Array, /, **_: Any) -> Spec:
    return image.shape, image.dtype


def _flip_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout, (source, *_) = call.layout or "", inputs
    starts, steps = numpy.zeros_like(source.shapes), numpy.ones_like(source.shapes)
    for letter, name in (("W", "horizontal"), ("H", "vertical"), ("D", "depthwise")):
        if letter in layout:
            axis, flags = layout.index(letter), numpy.array(call.column(name)) != 0
            starts[:, axis] = numpy.where(flags, source.shapes[:, axis] - 1, 0)
            steps[:, axis] = numpy.where(flags, -1, 1)
    copies.window(source, target, starts, steps)


@operator(layouts=LAYOUTS, output=_same, whole=True, kernel=_flip_on_gpu)
def flip(
    image: Array, /, *, horizontal: PerSample[int] = 1, vertical: PerSample[int] = 0, depthwise: PerSample[int] = 0,
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
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
