"""`together`: an operator moves an image, and with it masks, boxes and points."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy

from dynamic._arrays.array import Array
from dynamic._base.layout import warn_of_channels_first
from dynamic._lift import frames, kernels
from dynamic._lift.binding import function
from dynamic._lift.call import Call
from dynamic._lift.operator import Operator, movers
from dynamic.data import Batch, Tensor, as_tensor, first_shape
from dynamic.errors import ArgumentError, ScaleWarning, shown, warn_caller
from dynamic.kernels.cpu import boxes as layouts
from dynamic.kernels.cpu import points as kernel
from dynamic.random._drawing import RandomOperator
from dynamic.random._rng import Repeated, Source, Turn

from .geometry import image_extents, result_extents

__all__ = ["eager", "together"]

_NAME = "together"
_LAYOUTS = ("xyXY", "xyWH")
_FARTHEST = 2.0  # parts of an image; a box that is farther away is in pixels
_ROUNDING = 1e-9  # of the part of a box that is left
_NOTHING = 1e-3  # pixels; errors of rounding leave less


@function
def together(
    operator: Any,
    /,
    *inputs: Any,
    image: Any,
    masks: Any = None,
    boxes: Any = None,
    points: Any = None,
    labels: Any = None,
    bbox_layout: str = "xyXY",
    normalized: bool = False,
    min_visible: float = 0.0,
    mask_fill: float | None = None,
    rng: Source | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Call an operator on an image, and move masks, boxes and points as it moves the pixels.

    A random operator draws once for all. The image is a Tensor, and so is the rest; or it is a Batch, and the rest are
    Batches of as many samples, which may have different numbers of boxes and points, or none.

    Args:
        operator: `flip`, `rotate`, `crop`, `slice`, `resize`, `pad`, `paste`, `warp_affine`,
            `experimental.warp_perspective`, `random_resized_crop`, `resize_crop_mirror`, or one of your own whose plan
            is a `custom.Moving`. In the function of a pipeline call `fn.together` of these, or of those of `fn`.
        inputs: Its inputs after the image, such as a matrix.
        image: Images or videos.
        masks: Labels of pixels, laid out as "HW" or "HWC", of the height and width of the image. They get the nearest
            pixel, never a mixture. Masks "FHW" of an image that is no video are those of objects, one for each box, and
            stay with their boxes.
        boxes: Of shape (n, 4). Each becomes the box around its moved corners, cut off at the edges of the result.
            Those of which less than a thousandth of a pixel is left, in width or height, are dropped.
        points: Of shape (n, 2), x before y, in pixels from the corner of the first one. All are kept. Points (n, k, 2)
            beside boxes are k of each box, and stay with their boxes.
        labels: One for each box, numbers or rows of them, which stay with their boxes.
        bbox_layout: "xyXY", (left, top, right, bottom), or "xyWH", (left, top, width, height).
        normalized: Whether boxes and points are in parts of the width and the height of the image, and of the result,
            not in pixels.
        min_visible: The least part of the area of a moved box, 0 to 1, that must be on the result.
        mask_fill: Pixels of masks outside of the image. By default 0, or the nearest pixel where the image has it too.
        rng: Where a random operator draws from, see there; others draw nothing.
        arguments: Those of the operator.

    Returns:
        A dict of the names that were given; beside boxes "kept", the places of those that are left, and beside points
        "inside", which of them lie on the result.

    Raises:
        ArgumentError: The operator cannot tell where pixels go, or something does not fit the image. The message names
            the sample.

    >>> image = numpy.zeros((100, 200, 3), "uint8")
    >>> found = ndd.together(ndd.crop, image=image, boxes=[[10, 10, 60, 60], [150, 0, 200, 9]], labels=[3, 8],
    ...                      crop=(50, 100), crop_pos_x=0.0, crop_pos_y=0.0)
    >>> found["boxes"].tolist(), found["labels"].tolist(), found["kept"].tolist()
    ([[10.0, 10.0, 60.0, 50.0]], [3], [0])
    """
    operator = _checked(eager(operator), arguments)
    _check_options(bbox_layout, min_visible, labels is not None and boxes is None)
    image = _laid_out(image, "image")
    for name, value in (("batch_size", None), ("device", None)):
        if arguments.get(name, value) is not value:
            raise ArgumentError(_NAME, name, "left out", shown(arguments[name]), "Make a Batch, or move the image.")
    if frames.are_given((image, *inputs), arguments):
        raise ArgumentError(_NAME, "operator", "called with one value for all frames of a video", "per_frame values")
    is_random = isinstance(operator, RandomOperator)
    with Turn(operator.name, rng) if is_random else contextlib.nullcontext() as turn:
        call = operator.bound((image, *inputs), dict(arguments), source=turn)
        if call.layout is None or "D" in call.layout:
            raise ArgumentError(_NAME, "image", "images or videos", f"layout {call.layout!r}")
        found = {"image": operator.finished(call)}
        repeated = None if turn is None else Repeated(turn)
        call = replace(call, source=repeated)
        if masks is not None:
            masks = _masks(call, _like_image(call, "masks", masks))
            given = _for_masks(operator, call, masks, arguments, mask_fill)
            found["masks"] = operator.called((masks, *inputs), given, source=repeated)
        if boxes is not None or points is not None:
            moving = _Moving(call, operator.map(call) if call.count else numpy.empty((0, 3, 3)), normalized)
            found |= moving.rows(boxes, points, labels, found.get("masks"), bbox_layout, min_visible)
    return found


def eager(operator: Any) -> Any:
    """The operator behind a function of `fn`, which pipelines may give."""
    of_pipelines = (getattr(operator, "__module__", None) or "").startswith("dynamic.pipeline.")
    return getattr(operator, "__wrapped__", operator) if of_pipelines else operator


def _checked(operator: Any, arguments: dict[str, Any]) -> Any:
    """The operator, if it tells where pixels go."""
    if not isinstance(operator, Operator) or operator.map is None:
        known = ", ".join(sorted(movers))
        name = operator.name if isinstance(operator, Operator) else getattr(operator, "__name__", None)
        got = f"{name}()" if name else shown(operator)
        hint = "Others move no pixels, or not in a way that boxes could follow: call them on the image alone."
        if name == "crop_mirror_normalize":
            hint = "Flip and crop with together first, then normalise the image with crop_mirror_normalize."
        raise ArgumentError(_NAME, "operator", f"one of {known}", got, hint)
    if arguments.get("save_attrs"):
        raise ArgumentError(_NAME, "save_attrs", "left out", "True")
    return operator


def _check_options(bbox_layout: Any, min_visible: Any, lonely: bool) -> None:
    if bbox_layout not in _LAYOUTS:
        raise ArgumentError(_NAME, "bbox_layout", " or ".join(map(repr, _LAYOUTS)), shown(bbox_layout))
    if isinstance(min_visible, bool) or not isinstance(min_visible, (int, float)) or not 0 <= min_visible <= 1:
        raise ArgumentError(_NAME, "min_visible", "a number from 0 to 1", shown(min_visible))
    if lonely:
        raise ArgumentError(_NAME, "labels", "given with boxes, whose labels they are", "labels alone")


def _laid_out(given: Any, name: str) -> Tensor | Batch:
    """Data with the layout that images have by their number of dimensions."""
    data: Tensor | Batch = given if isinstance(given, (Tensor, Batch)) else as_tensor(given)
    usual = {2: "HW", 3: "HWC", 4: "FHWC"}.get(data.ndim)
    if data.layout or usual is None:
        return data
    warn_of_channels_first(f"{_NAME}, {name}", first_shape(data), usual)
    storage: Any = data.array if isinstance(data, Tensor) else data.samples if data.whole is None else data.whole
    return type(data)(storage, usual, data.origin)


def _like_image(call: Call, name: str, given: Any) -> Tensor | Batch:
    """Data beside the images: a Batch of as many samples where they are one."""
    batched = isinstance(call.inputs[0], Batch)
    data: Tensor | Batch = given if isinstance(given, (Tensor, Batch)) else as_tensor(given)
    if isinstance(data, Batch) != batched:
        kinds = "a Batch, as the images are" if batched else "one sample, as the image is"
        raise ArgumentError(_NAME, name, kinds, f"a {type(data).__name__}", "as_batch makes one." if batched else "")
    if isinstance(data, Batch) and len(data) != call.count:
        raise ArgumentError(_NAME, name, f"a Batch of {call.count}, as the images are", f"one of {len(data)}")
    return data


def _masks(call: Call, masks: Tensor | Batch) -> Tensor | Batch:
    """Masks with a layout, each of the height and width of its image."""
    masks = _laid_out(masks, "masks")
    layout = masks.layout or ""
    if not {"H", "W"} <= set(layout):
        raise ArgumentError(_NAME, "masks", "laid out as HW, HWC or FHW", f"layout {layout!r}, {masks.ndim} dimensions")
    places = layout.index("H"), layout.index("W")
    shapes = masks.shape if isinstance(masks, Batch) else [masks.shape] * call.count
    for i, (shape, extents) in enumerate(zip(shapes, image_extents(call).tolist(), strict=True)):
        own = [shape[place] for place in places]
        if own != extents:
            expected = f"of the height and width of the image, {tuple(extents)}"
            raise call.noted(i, ArgumentError(_NAME, "masks", expected, f"{tuple(own)}"))
    return masks


def _for_masks(
    operator: Any, call: Call, masks: Tensor | Batch, arguments: dict[str, Any], mask_fill: float | None
) -> dict[str, Any]:
    """The arguments of an operator for masks: the nearest pixel, a fill of their own, and the same dimensions."""
    left_out = ("dtype", "min_filter", "mag_filter")
    given = {name: value for name, value in arguments.items() if name not in left_out}
    if "interp_type" in operator.arguments:
        given["interp_type"] = "nn"
    for name in {"fill_value", "fill_values"} & operator.arguments.keys():
        usual = (call.varying | call.fixed)[name]  # None repeats the edge
        if mask_fill is not None or usual is not None:
            given[name] = 0.0 if mask_fill is None else mask_fill
    image, layout = call.layout or "", masks.layout or ""
    if "axis_names" in operator.arguments and layout != image:
        axes = given.pop("axes", None)
        if isinstance(axes, (Batch, Tensor)):
            hint = "Name them by axis_names."
            raise ArgumentError(_NAME, "axes", "the same for all samples beside masks of another layout", "each", hint)
        axes = () if axes is None else tuple(numpy.atleast_1d(axes).tolist())
        names = "".join(image[axis] for axis in axes) or given.get("axis_names")
        given["axis_names"] = names or call.fixed["axis_names"] or "HW"
    return given


class _Moving:
    """The boxes and points of the samples of a call.

    Args:
        call: The call, planned.
        maps: Where its pixels go.
        normalized: Whether coordinates are parts of the extents.
    """

    def __init__(self, call: Call, maps: Array, normalized: bool) -> None:
        self._call, self._maps = call, maps
        self._results = result_extents(call)[:, ::-1]
        self._images = image_extents(call)[:, ::-1]
        self._normalized = normalized

    def rows(
        self, boxes: Any, points: Any, labels: Any, masks: Any, bbox_layout: str, min_visible: float
    ) -> dict[str, Any]:
        """All results that have rows."""
        found: dict[str, Any] = {}
        kept: list[Array] | None = None
        if boxes is not None:
            found["boxes"], kept = self._boxes(boxes, bbox_layout, min_visible)
            places = numpy.arange(max(map(len, kept), default=0))
            video = "F" in (self._call.layout or "")
            if masks is not None and (masks.layout or "").startswith("F") and not video:  # of objects
                found["masks"] = self._left("masks", masks, kept)
        if points is not None:
            found |= self._points(points, kept)
        if kept is not None:
            if labels is not None:
                found["labels"] = self._left("labels", labels, kept)
            found["kept"] = self._wrapped([places[: len(own)][own] for own in kept], None)
        return found

    def _columns(self, name: str, data: Any, shape: str) -> tuple[Tensor | Batch, list[Array]]:
        """The arrays of all samples on the CPU; numbers but for booleans."""
        data = _like_image(self._call, name, data)
        if data._numpy_dtype.kind not in "iuf":
            raise ArgumentError(_NAME, name, f"numbers of shape {shape}", f"dtype {data.dtype}")
        host = data.cpu()
        return data, list(host.samples) if isinstance(host, Batch) else [host.array] * self._call.count

    def _boxes(self, given: Any, layout: str, min_visible: float) -> tuple[Any, list[Array]]:
        """The boxes that are left, and for each sample which of its boxes they are."""
        data, columns = self._columns("boxes", given, "(n, 4)")
        for i, own in enumerate(columns):
            if own.ndim != 2 or own.shape[1] != 4:
                hint = "" if own.size else "No boxes are numpy.zeros((0, 4))."
                raise self._error(i, "boxes", "of shape (n, 4)", f"shape {own.shape}", hint)
        counts = list(map(len, columns))
        boxes = layouts.read(_joined(columns, (0, 4)), layout)
        self._check_boxes(boxes, counts, layout)
        scale = numpy.tile(self._images if self._normalized else numpy.ones_like(self._images), 2)
        boxes *= numpy.repeat(scale, counts, axis=0)
        cut, share = kernel.around(boxes, self._maps, self._results, counts)
        left = (cut[:, 2:] - cut[:, :2] > _NOTHING).all(axis=1) & (share >= min_visible - _ROUNDING)
        if self._normalized:
            cut /= numpy.repeat(numpy.maximum(numpy.tile(self._results, 2), 1), counts, axis=0)
        kind = data._numpy_dtype if data._numpy_dtype.kind == "f" else numpy.dtype("float32")
        rows = layouts.written(cut, layout).astype(kind)
        ends = numpy.cumsum(counts)[:-1]
        parts = numpy.split(left, ends) if counts else []
        return self._wrapped(layouts.left(rows, left, counts) if counts else [], data, 2, kind), parts

    def _check_boxes(self, boxes: Array, counts: Sequence[int], layout: str) -> None:
        """Refuse boxes that are none, and coordinates that seem to be in another unit."""
        wrong = ~(numpy.isfinite(boxes).all(axis=1) & (boxes[:, :2] <= boxes[:, 2:]).all(axis=1))
        if wrong.any():
            row = int(wrong.argmax())
            i, k = self._owner(row, counts)
            expected = "finite, with left <= right and top <= bottom"
            hint = "Those of a left, a top, a width and a height are bbox_layout='xyWH'." if layout == "xyXY" else ""
            got = f"{boxes[row].tolist()} (left, top, right, bottom) as box {k}"
            raise self._error(i, "boxes", expected, got, hint)
        self._check_unit("boxes", boxes, counts)

    def _check_unit(self, name: str, rows: Array, counts: Sequence[int]) -> None:
        if self._normalized:
            far = (numpy.abs(rows) > _FARTHEST).any(axis=1)
            if far.any():
                row = int(far.argmax())
                i, _ = self._owner(row, counts)
                hint = "Leave normalized=True out for pixels."
                raise self._error(i, name, "parts of the extents of the image, 0 to 1", f"{rows[row].tolist()}", hint)
        elif rows.size and 0 < rows.max() <= 1 and (rows % 1 != 0).any() and (self._images > 2).any():
            text = f"{_NAME}(): {name} are read as pixels, and none is beyond 1. Parts of an image are normalized=True."
            warn_caller(text, ScaleWarning)

    def _points(self, given: Any, kept: list[Array] | None) -> dict[str, Any]:
        """The moved points, and which of them lie on the result."""
        data, columns = self._columns("points", given, "(n, 2)")
        for i, own in enumerate(columns):
            if own.ndim < 2 or own.shape[-1] != 2:
                hint = "" if own.size else "No points are numpy.zeros((0, 2))."
                raise self._error(i, "points", "of shape (n, 2), or (n, k, 2)", f"shape {own.shape}", hint)
        if kept is not None and data.ndim > 2:
            columns = [own[rows] for own, rows in zip(columns, self._fitting("points", columns, kept), strict=True)]
        shapes = [own.shape for own in columns]
        counts = [own.size // 2 for own in columns]
        points = _joined([own.reshape(-1, 2) for own in columns], (0, 2))
        if points.size and not numpy.isfinite(points).all():
            i, k = self._owner(int((~numpy.isfinite(points)).any(axis=1).argmax()), counts)
            raise self._error(i, "points", "finite", f"another as point {k}")
        self._check_unit("points", points, counts)
        if self._normalized:
            points = points * numpy.repeat(self._images, counts, axis=0)
        kind = data._numpy_dtype if data._numpy_dtype.kind == "f" else numpy.dtype("float32")
        with numpy.errstate(over="ignore"):
            moved = kernel.moved(points, self._maps, counts).astype(kind)
        edges = numpy.repeat(self._results, counts, axis=0)
        inside = ((moved >= 0) & (moved < edges)).all(axis=1)
        if self._normalized:
            moved /= numpy.maximum(edges, 1).astype(kind)
        ends = numpy.cumsum(counts)[:-1]
        parts = numpy.split(moved, ends) if counts else []
        flags = numpy.split(inside, ends) if counts else []
        made = [own.reshape(shape) for own, shape in zip(parts, shapes, strict=True)]
        seen = [own.reshape(shape[:-1]) for own, shape in zip(flags, shapes, strict=True)]
        return {
            "points": self._wrapped(made, data, data.ndim, kind),
            "inside": self._wrapped(seen, None, data.ndim - 1, bool),
        }

    def _left(self, name: str, given: Any, kept: list[Array]) -> Any:
        """Those rows of labels, or masks of objects, whose boxes are left."""
        data = _like_image(self._call, name, given) if name == "labels" else given
        columns = list(data.samples) if isinstance(data, Batch) else [data.array] * self._call.count
        rows = self._fitting(name, columns, kept)
        parts = [own[left] for own, left in zip(columns, rows, strict=True)]
        return self._wrapped(parts, data, data.ndim, data._numpy_dtype)

    def _fitting(self, name: str, columns: Sequence[Array], kept: list[Array]) -> list[Array]:
        """Which boxes of each sample are left, where there is a row for each."""
        for i, (own, left) in enumerate(zip(columns, kept, strict=True)):
            if not own.ndim or len(own) != len(left):
                expected = f"one for each of the {len(left)} boxes"
                raise self._error(i, name, expected, f"shape {own.shape}")
        return kept

    def _wrapped(self, arrays: list[Any], like: Any, ndim: int = 1, kind: Any = numpy.int64) -> Any:
        """The arrays of all samples as the image is, where its data was; of none by the dtype and the dimensions."""
        call, layout = self._call, None if like is None else like.layout
        if not call.is_batch:
            made: Any = Tensor(arrays[0], layout, call.origin)
        else:
            storage = kernels.together(arrays) if arrays else numpy.empty((0,) * (1 + ndim), kind)
            made = Batch(storage, layout, call.origin)
        return made if like is None else made.to_device(like.device)

    def _owner(self, row: int, counts: Sequence[int]) -> tuple[int, int]:
        """The sample of a row, and its place in it."""
        ends = numpy.cumsum(counts)
        i = int(numpy.searchsorted(ends, row, side="right"))
        return i, row - int(ends[i] - counts[i])

    def _error(self, i: int, name: str, expected: str, got: str, hint: str = "") -> ArgumentError:
        return self._call.noted(i, ArgumentError(_NAME, name, expected, got, hint))


def _joined(columns: Sequence[Array], none: tuple[int, int]) -> Array:
    return numpy.concatenate(columns).astype(numpy.float64) if columns else numpy.empty(none)
