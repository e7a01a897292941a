"""Operators on bounding boxes: to follow their image, and to make the targets of a detector."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._base import pool
from dynamic._lift.argument import GIVEN, Between, Four, Numbers, PerItem, PerSample, Several, Two, Word, beside, chosen
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.kernels import Memory, together
from dynamic._lift.operator import operator
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import boxes as kernels
from dynamic.kernels.cpu import rotations
from dynamic.kernels.gpu import boxes as gpu_kernels

__all__ = ["bb_flip", "bbox_paste", "bbox_rotate", "box_encoder"]

_FLOATS = "float16 float32 float64"
_Share: TypeAlias = Annotated[float, Between(0, 1)]
_Ratio: TypeAlias = Annotated[float, Between(1)]
_Side: TypeAlias = Annotated[int, Between(0)]
_Extent: TypeAlias = Annotated[float, Between(0)]


_CACHED = 1 << 20  # coordinates of anchors, for all samples that are done at once
_ROTATE = "bbox_rotate"
_Extents: TypeAlias = Two[Two[int]]
_Mode: TypeAlias = Annotated[str, Word({"expand": (), "halfway": (), "fixed": ()})]


def _plan_boxes(call: Call) -> Plan:
    """Boxes of the same shape and dtype."""

    def checked(shape: Shape) -> Shape:
        if not shape or shape[-1] % 4:
            raise ArgumentError(call.name, "input", "boxes of four numbers each", f"shape {shape}")
        return shape

    return Plan(call.shapes_by(checked), call.dtype)


def _fours(boxes: Array) -> Array:
    """A view of boxes with one box in each row."""
    return boxes.reshape(*boxes.shape[:-1], boxes.shape[-1] // 4, 4)


@operator(dtypes=_FLOATS, plan=_plan_boxes, gpu=True, unit="row")
def bb_flip(
    input: Array, /, *, horizontal: PerItem[int] = 1, ltrb: bool = False, vertical: PerItem[int] = 0, out: Array = None
) -> Array:
    """Mirror bounding boxes, as `flip` does their image.

    Coordinates are in units of the image: 0 is its left or upper edge, 1 its right or lower one.

    Args:
        horizontal: Whether left and right are swapped; any integer but 0 means yes.
        ltrb: Whether a box is (left, top, right, bottom); by default it is (left, top, width, height).
        vertical: Whether above and below are swapped.

    Returns:
        Boxes of the same shape and dtype.

    Raises:
        ArgumentError: The last extent is no multiple of 4.

    >>> ndd.bb_flip([[0.25, 0.5, 0.25, 0.125]]).tolist()
    [[0.5, 0.5, 0.25, 0.125]]
    """
    boxes, flipped = _fours(_real(input)), _fours(out)
    flipped[...] = boxes
    with numpy.errstate(over="ignore", invalid="ignore"):
        for axis, given in enumerate((horizontal, vertical)):
            first, last = boxes[..., axis], boxes[..., axis + 2]
            ends = [(axis, last), (axis + 2, first)] if ltrb else [(axis, first + last)]
            for place, end in ends:
                flipped[..., place] = chosen(given, 1 - end, boxes[..., place])
    return out


def _real(boxes: Array) -> Array:
    """Boxes in the type in which they are computed: float64 if they are, else float32."""
    return boxes if boxes.dtype == numpy.float64 else boxes.astype(numpy.float32, copy=False)


@operator(dtypes=_FLOATS, plan=_plan_boxes, gpu=True, unit="row")
def bbox_paste(
    input: Array,
    /,
    *,
    ltrb: bool = False,
    paste_x: PerItem[float] = 0.5,
    paste_y: PerItem[float] = 0.5,
    ratio: PerItem[_Ratio],
    out: Array = None,
) -> Array:
    """Move bounding boxes to where they are once their image is pasted on a larger canvas.

    Coordinates are in units of the image, and of the canvas in the result.

    Args:
        ltrb: Whether a box is (left, top, right, bottom); by default it is (left, top, width, height).
        paste_x: Where the image lies: 0 is at the left edge of the canvas, 1 at the right one, which it does not pass.
        paste_y: The same from above to below.
        ratio: How many times as wide and high as the image the canvas is, 1 or more.

    Returns:
        Boxes of the same shape and dtype.

    Raises:
        ArgumentError: The last extent is no multiple of 4.

    >>> ndd.bbox_paste([[0.5, 0.5, 0.25, 0.25]], ratio=2, paste_x=0).tolist()
    [[0.25, 0.5, 0.125, 0.125]]
    """
    boxes, pasted = _fours(_real(input)), _fours(out)
    with numpy.errstate(over="ignore", invalid="ignore"):
        ratios, *places = (numpy.asarray(each, numpy.float64).astype(boxes.dtype) for each in (ratio, paste_x, paste_y))
        scale, room = 1 / ratios, (ratios - 1) / ratios
        shifts = [_inside(scale, place * room) for place in places]
        for axis in range(4):
            shift = shifts[axis % 2] if ltrb or axis < 2 else 0
            column = boxes[..., axis]
            pasted[..., axis] = column * beside(scale, column) + beside(shift, column, boxes.dtype)
    return out


def _inside(scale: Array, shift: Array) -> Array:
    """Shifts, made less where rounding would take scaled boxes beyond 1."""
    shift = numpy.where(scale + shift > 1, 1 - scale, shift)
    while (beyond := scale + shift > 1).any():
        shift = numpy.where(beyond, numpy.nextafter(shift, -scale), shift)
    return shift


@numpy.errstate(all="ignore")
def _rotated(
    bboxes: Sequence[Array],
    labels: Sequence[Array | None],
    angles: Sequence[Any],
    extents: Sequence[_Extents],
    layout: str,
    mode: str,
    least: float,
    *,
    normalized: bool,
) -> tuple[list[Array], list[Array]]:
    """The boxes of some samples that are left, and their labels."""
    counts, given = list(map(len, bboxes)), bboxes[0].dtype
    boxes = kernels.read(_real(numpy.concatenate(bboxes)), layout)
    images, canvases = zip(*extents, strict=True)
    turns = kernels.turns(angles, images, canvases, counts, boxes.dtype)
    turned = kernels.rotated(boxes, turns, mode, normalized=normalized)
    found, kept = kernels.within(turned, turns, least)
    found = kernels.written(found, layout)
    if normalized:
        found *= 1 / numpy.stack([turns.canvas_width, turns.canvas_height] * 2, axis=1)
    none, ends = numpy.empty(0, numpy.int32), itertools.accumulate(counts)
    return kernels.left(found.astype(given, copy=False), kept, counts), [
        none if own is None else own[kept[end - count : end]]
        for own, end, count in zip(labels, ends, counts, strict=True)
    ]


def _rotate_many(call: Call, _: Memory | None) -> list[Any]:
    """`bbox_rotate` of all samples at once."""
    given, (boxes, *others) = call.fixed, call.columns()
    labels = others[0] if others else [None] * call.count
    how = given["bbox_layout"], given["mode"], given["remove_threshold"]
    found = _rotated(boxes, labels, call.column("angle"), call.plan.data, *how, normalized=given["bbox_normalized"])
    return [together(part) for part in found[: len(call.inputs)]]


def _checked_rotation(
    bboxes: Array,
    labels: Array | None = None,
    /,
    *,
    bbox_layout: str,
    angle: float,
    input_shape: tuple[int, ...],
    shape_layout: str,
    size: tuple[float, ...] | None,
    keep_size: bool,
    **_: Any,
) -> _Extents:
    """Width and height of an image and of the rotated one."""
    if bboxes.ndim != 2 or bboxes.shape[1] != 4:
        raise ArgumentError(_ROTATE, "bboxes", "of shape (N, 4)", f"shape {bboxes.shape}")
    if labels is not None and (not labels.ndim or len(labels) != len(bboxes)):
        raise ArgumentError(_ROTATE, "labels", f"one for each of the {len(bboxes)} boxes", f"shape {labels.shape}")
    if bbox_layout not in {"xyXY", "xyWH"}:
        raise ArgumentError(_ROTATE, "bbox_layout", "'xyXY' or 'xyWH'", repr(bbox_layout))
    return _image_and_canvas(angle, input_shape, shape_layout, size, keep_size)


@functools.lru_cache(maxsize=256)  # often they are the same for all samples
def _image_and_canvas(
    angle: float, input_shape: tuple[int, ...], shape_layout: str, size: tuple[float, ...] | None, keep_size: bool
) -> _Extents:
    """Width and height of the image and of the rotated one."""
    if not {"H", "W"} <= set(shape_layout):
        raise ArgumentError(_ROTATE, "shape_layout", "letters of which H and W are two", repr(shape_layout))
    places = shape_layout.index("H"), shape_layout.index("W")
    if len(input_shape) <= max(places):
        raise ArgumentError(_ROTATE, "input_shape", f"extents as {shape_layout!r} names them", f"tuple {input_shape}")
    height, width = (input_shape[place] for place in places)
    size = size or None
    if size is not None and keep_size:
        raise ArgumentError(_ROTATE, "size", "left out with keep_size=True", f"tuple {size}")
    if size is not None and len(size) != 2:
        raise ArgumentError(_ROTATE, "size", "a height and a width", f"tuple {size}")
    if keep_size:
        return (width, height), (width, height)
    rows, columns = rotations.canvas((height, width), angle) if size is None else map(int, size)
    return (width, height), (columns, rows)


def _plan_rotation(call: Call) -> Plan:
    """Boxes, and labels where they are given."""
    parts = [Plan(dtype=x._numpy_dtype, layout=x.layout, ndim=x.ndim) for x in call.inputs]
    several = parts if len(parts) > 1 else ()
    data = call.each(_checked_rotation)
    return Plan(dtype=call.dtype, outputs=several, data=data, kernel=_rotate_many, weight=8.0)


@operator(dtypes=_FLOATS, plan=_plan_rotation)
def bbox_rotate(
    bboxes: Array,
    labels: Array | None = None,
    /,
    *,
    angle: PerSample[float],
    bbox_layout: str = "xyXY",
    bbox_normalized: bool = True,
    input_shape: PerSample[Several[_Side]],
    keep_size: bool = False,
    mode: _Mode = "expand",
    remove_threshold: _Share = 0.1,
    shape_layout: str = "HW",
    size: PerSample[Several[_Extent] | None] = None,
    plan: _Extents = GIVEN,
) -> tuple[Array, Array]:
    """Turn bounding boxes as `rotate` turns their image: the boxes around the turned ones.

    They are cut off at the edges of the canvas, and those that lose too much of their area are removed.

    In a training loop prefer `together`, which moves images, masks, boxes and labels by one draw.

    Args:
        angle: Degrees, counter-clockwise.
        bbox_layout: "xyXY", (left, top, right, bottom), or "xyWH", (left, top, width, height).
        bbox_normalized: Whether boxes are in units of the image, and of the canvas in the result, not of pixels.
        input_shape: The extents of the image.
        keep_size: Whether the canvas is as large as the image; by default it grows to hold every corner.
        mode: How large the boxes become: "expand" holds all of the turned box, "fixed" has its size, "halfway" is
            between them.
        remove_threshold: The least part of the area of a turned box that must be on the canvas; 0 removes only boxes
            that have no area, as all do.
        shape_layout: Which of the extents are the height and the width: "HW", also for "HWC", or "CHW", ...
        size: Height and width of the canvas; fractions are cut off.

    Returns:
        The boxes that are left, and, where labels are given, theirs: a label is a row of them.

    Raises:
        ArgumentError: There are not four numbers in a box or not as many labels as boxes; or extents are missing.

    >>> box = [[0.0, 0.0, 0.5, 0.25]]
    >>> ndd.bbox_rotate(box, angle=90, input_shape=(100, 200)).tolist()
    [[0.0, 0.5, 0.25, 1.0]]
    >>> boxes, labels = ndd.bbox_rotate(box, [7], angle=90, input_shape=(100, 200), keep_size=True)
    >>> labels.tolist()
    [7]
    """
    how: Any = (bbox_layout, mode, remove_threshold)
    found, left = _rotated([bboxes], [labels], [angle], [plan], *how, normalized=bbox_normalized)
    return found[0] if labels is None else (found[0], left[0])


_Four: TypeAlias = Four[float]


class _Targets(NamedTuple):
    """The arguments of `box_encoder`, prepared once for all samples."""

    anchors: kernels.Anchors
    criteria: float
    offsets: tuple[Any, Any, float] | None  #: means, deviations and scale


def _plan_targets(call: Call) -> Plan:
    """A box and a label for each anchor."""
    given, anchors = call.fixed, call.fixed["anchors"]
    if not anchors.size or anchors.size % 4:
        raise ArgumentError(call.name, "anchors", "one or more of four numbers each", f"shape {anchors.shape}")
    if 0 in given["stds"]:
        raise ArgumentError(call.name, "stds", "four numbers that are not 0", shown(given["stds"]))

    def checked(bboxes: Array, labels: Array, /, **_: Any) -> None:
        if bboxes.ndim != 2 or bboxes.shape[1] != 4:
            raise ArgumentError(call.name, "bboxes", "of shape (N, 4)", f"shape {bboxes.shape}")
        if labels.size != len(bboxes):
            raise ArgumentError(call.name, "labels", f"one for each of {len(bboxes)} boxes", f"shape {labels.shape}")

    call.each(checked)
    with numpy.errstate(over="ignore", invalid="ignore"):
        made = kernels.anchored(anchors.reshape(-1, 4).astype(_real(numpy.empty(0, call.dtype)).dtype))
    offsets = (given["means"], given["stds"], given["scale"]) if given["offset"] else None
    labels, count = call.inputs[1], len(made.boxes)
    outputs = [Plan((count, 4), call.dtype, ndim=call.ndim), Plan((count,), labels._numpy_dtype, None, 1)]
    return Plan(outputs=outputs, data=_Targets(made, given["criteria"], offsets), kernel=_encode_many, weight=8.0)


def _encode_many(call: Call, memory: Memory) -> None:
    """`box_encoder` of all samples: of as many at once as the cache holds."""
    (bboxes, labels), (made, classes) = call.columns(), memory.storages
    step = max(1, _CACHED // (4 * len(made[0])))

    def some(k: int) -> None:
        part = slice(k * step, (k + 1) * step)
        _encode(bboxes[part], labels[part], call.plan.data, made[part], classes[part])

    pool.run(some, -(-call.count // step), call.plan.weight * (call.bytes() + memory.nbytes))


@operator(dtypes=_FLOATS, plan=_plan_targets, gpu=True)
def box_encoder(
    bboxes: Array,
    labels: Array,
    /,
    *,
    anchors: Numbers,
    criteria: _Share = 0.5,
    means: _Four = (0.0, 0.0, 0.0, 0.0),
    offset: bool = False,
    scale: float = 1.0,
    stds: _Four = (1.0, 1.0, 1.0, 1.0),
    plan: _Targets = GIVEN,
    out: tuple[Array, Array] = GIVEN,
) -> tuple[Array, Array]:
    """Make the targets of a detector that is trained with anchors, as SSD is (Liu and others, 2016).

    An anchor stands for the box that it overlaps most, if the intersection of the two is more than `criteria` of their
    union; and each box has at least the anchor that overlaps it most. The others are background.

    Args:
        anchors: Boxes (left, top, right, bottom), in one sequence or an array of shape (M, 4).
        criteria: The least overlap, 0 to 1.
        means: Subtracted from offsets: of x, y, width and height.
        offset: Whether the result is offsets from the anchors: of the centres in extents of the anchor, and the
            logarithms of the ratios of the extents; 0 for the background.
        scale: Factor of boxes and anchors before offsets are computed.
        stds: Divisors of offsets, not 0.

    Returns:
        For each anchor its box as (x of the centre, y, width, height), or the anchor itself where it is background; and
        its label, or 0. Shapes (M, 4) and (M,).

    Raises:
        ArgumentError: There are not four numbers in a box or an anchor, or not as many labels as boxes.

    >>> anchors = [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1]
    >>> boxes, labels = ndd.box_encoder([[0.125, 0.125, 0.625, 0.5]], [3], anchors=anchors)
    >>> boxes.tolist(), labels.tolist()
    ([[0.375, 0.3125, 0.5, 0.375], [0.75, 0.75, 0.5, 0.5]], [3, 0])
    """
    made, classes = out
    if library(bboxes) is numpy:
        _encode([bboxes], [labels], plan, made[None], classes[None])
    else:
        _encode_on_gpu(bboxes, labels, plan, made, classes)
    return out


def _encode(bboxes: Sequence[Array], labels: Sequence[Array], targets: _Targets, made: Array, classes: Array) -> None:
    """`box_encoder` of some samples at once."""
    boxes, (anchors, criteria, offsets) = _real(numpy.concatenate(bboxes)), targets
    classes[...] = 0
    with numpy.errstate(over="ignore", invalid="ignore"):
        made[...] = 0 if offsets else kernels.encoded(anchors.boxes)
        samples, places, which = kernels.matched(boxes, list(map(len, bboxes)), anchors, criteria)
        chosen = boxes[which]
        known = kernels.offsets(chosen, anchors.boxes[places], *offsets) if offsets else kernels.encoded(chosen)
        made[samples, places] = known
    classes[samples, places] = numpy.concatenate([each.reshape(-1) for each in labels])[which]


def _encode_on_gpu(bboxes: Array, labels: Array, targets: _Targets, made: Array, classes: Array) -> None:
    """`box_encoder` of boxes on a GPU: all anchors at once, without asking which of them stand for a box."""
    xp, boxes, (anchors, criteria, offsets) = library(bboxes), _real(bboxes), targets
    fixed = xp.asarray(anchors.boxes)
    background = xp.zeros_like(fixed) if offsets else gpu_kernels.encoded(fixed)
    if not len(boxes):
        made[...], classes[...] = background, 0
        return
    whose, which = gpu_kernels.matched(boxes, fixed, criteria)
    chosen = boxes[whose]
    found = gpu_kernels.offsets(chosen, fixed, *offsets) if offsets else gpu_kernels.encoded(chosen)
    made[...] = xp.where(which[:, None], found, background)
    classes[...] = xp.where(which, labels.reshape(-1)[whose], labels.dtype.type(0))
