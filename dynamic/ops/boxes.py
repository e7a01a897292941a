"""Operators on bounding boxes: those that follow what is done to an image, and the targets of a detector."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias

import numpy

from dynamic._argument import Between, Four, Numbers, PerSample, Several, Two, Word, beside, chosen
from dynamic._arrays.array import Array, library
from dynamic._base import pool
from dynamic._call import Call, Memory, together
from dynamic._operator import Operator, Spec, operator
from dynamic.data import Batch, Tensor
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import boxes as kernels
from dynamic.kernels.cpu import rotations
from dynamic.kernels.gpu import boxes as gpu_kernels

__all__ = ["bb_flip", "bbox_paste", "bbox_rotate", "box_encoder"]

P = ParamSpec("P")
_FLOATS = "float16 float32 float64"
_Share: TypeAlias = Annotated[float, Between(0, 1)]
_Ratio: TypeAlias = Annotated[float, Between(1)]
_Side: TypeAlias = Annotated[int, Between(0)]
_Extent: TypeAlias = Annotated[float, Between(0)]


_CACHED = 1 << 20  # coordinates of anchors, for all samples that are done at once
_ROTATE = "bbox_rotate"
_Extents: TypeAlias = Two[Two[int]]
_Mode: TypeAlias = Annotated[str, Word({"expand": (), "halfway": (), "fixed": ()})]


def _alike(name: str) -> Callable[..., Spec]:
    """What is checked before `name` makes boxes of the same shape and dtype."""

    def spec(input: Array, /, **_: Any) -> Spec:
        if not input.ndim or input.shape[-1] % 4:
            raise ArgumentError(name, "input", "boxes of four numbers each", f"shape {input.shape}")
        return input.shape, input.dtype

    return spec


def _fours(boxes: Array) -> Array:
    """A view of boxes with one box in each row."""
    return boxes.reshape(*boxes.shape[:-1], boxes.shape[-1] // 4, 4)


@operator(
    dtypes=_FLOATS, output=_alike("bb_flip"), whole=("horizontal", "vertical"), independent="rows",
    devices=("cpu", "gpu"),
)  # fmt: skip
def bb_flip(
    input: Array, /, *, horizontal: PerSample[int] = 1, ltrb: bool = False, vertical: PerSample[int] = 0,
    out: Array = None,
) -> Array:  # fmt: skip
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


@operator(
    dtypes=_FLOATS, output=_alike("bbox_paste"), whole=("paste_x", "paste_y", "ratio"), independent="rows",
    devices=("cpu", "gpu"),
)  # fmt: skip
def bbox_paste(
    input: Array, /, *, ltrb: bool = False, paste_x: PerSample[float] = 0.5, paste_y: PerSample[float] = 0.5,
    ratio: PerSample[_Ratio], out: Array = None,
) -> Array:  # fmt: skip
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
    """Shifts that are made less where rounding would take what is scaled beyond 1."""
    shift = numpy.where(scale + shift > 1, 1 - scale, shift)
    while (beyond := scale + shift > 1).any():
        shift = numpy.where(beyond, numpy.nextafter(shift, -scale), shift)
    return shift


@numpy.errstate(all="ignore")
def _rotated(
    bboxes: Sequence[Array], labels: Sequence[Array | None], angles: Sequence[Any], extents: Sequence[_Extents],
    layout: str, mode: str, least: float, *, normalized: bool,
) -> tuple[list[Array], list[Array]]:  # fmt: skip
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


def _rotate_many(call: Call, samples: Sequence[tuple[Any, ...]], _: Memory | None) -> tuple[list[Array], list[Array]]:
    """`bbox_rotate` of all samples at once."""
    given, names = call.fixed, ("angle", "bbox_layout", "input_shape", "keep_size", "shape_layout", "size")
    samples = [(bboxes, labels[0] if labels else None) for bboxes, *labels in samples]
    extents, alike = [], None if call.varying else {name: given[name] for name in names}
    for i, (bboxes, labels) in enumerate(samples):
        own = alike or {name: value for name, value in call.arguments(i).items() if name in names}
        try:
            extents.append(_checked_rotation(bboxes, labels, **own))
        except Exception as error:
            error.add_note(call.note(_ROTATE, i))
            raise
    of_boxes, of_labels = zip(*samples, strict=True)
    return _rotated(of_boxes, of_labels, call.column("angle"), extents, given["bbox_layout"], given["mode"],
                    given["remove_threshold"], normalized=given["bbox_normalized"])  # fmt: skip


def _checked_rotation(bboxes: Array, labels: Array | None, *, bbox_layout: str, **arguments: Any) -> _Extents:
    """Width and height of an image and of the rotated one."""
    if bboxes.ndim != 2 or bboxes.shape[1] != 4:
        raise ArgumentError(_ROTATE, "bboxes", "of shape (N, 4)", f"shape {bboxes.shape}")
    if labels is not None and (not labels.ndim or len(labels) != len(bboxes)):
        raise ArgumentError(_ROTATE, "labels", f"one for each of the {len(bboxes)} boxes", f"shape {labels.shape}")
    if bbox_layout not in {"xyXY", "xyWH"}:
        raise ArgumentError(_ROTATE, "bbox_layout", "'xyXY' or 'xyWH'", repr(bbox_layout))
    return _image_and_canvas(**arguments)


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
        raise ArgumentError(_ROTATE, "size", "left out where keep_size is True", f"tuple {size}")
    if size is not None and len(size) != 2:
        raise ArgumentError(_ROTATE, "size", "a height and a width", f"tuple {size}")
    if keep_size:
        return (width, height), (width, height)
    rows, columns = rotations.canvas((height, width), angle) if size is None else map(int, size)
    return (width, height), (columns, rows)


class _Rotation(Operator[P]):
    """`bbox_rotate`: it has a second result only where there are labels."""

    def __call__(self, /, *inputs: Any, **arguments: Any) -> Any:
        boxes, labels = super().__call__(*inputs, **arguments)
        given = self._data(1, inputs[1], None) if len(inputs) > 1 else labels
        if isinstance(boxes, Tensor):
            labels = Tensor(labels.array, given.layout, labels.origin)
        elif len(boxes):
            boxes = Batch(together(boxes.samples), boxes.layout, boxes.origin)
            labels = Batch(together(labels.samples), given.layout, labels.origin)
        else:
            labels = Batch([], given.layout, labels.origin, numpy_dtype(given.dtype), given.ndim)
        return (boxes, labels) if len(inputs) > 1 else boxes


def _rotation(body: Callable[Concatenate[Any, P], Any]) -> _Rotation[P]:
    floats = frozenset(numpy_dtype(word) for word in _FLOATS.split())
    return _Rotation(body, layouts=None, dtypes=floats, output=None, out_layout=(None, lambda *_, **__: None),
                     out_kind=_kinds_of_rotated, across=None, values_from=None, whole=False, devices=("cpu",),
                     name=None, many=_rotate_many)  # fmt: skip


def _kinds_of_rotated(ndim: int, dtype: Any, **_: Any) -> list[tuple[int, Any]]:
    return [(ndim, dtype), (1, "int32")]


@_rotation
def bbox_rotate(
    bboxes: Array, labels: Array | None = None, /, *, angle: PerSample[float], bbox_layout: str = "xyXY",
    bbox_normalized: bool = True, input_shape: PerSample[Several[_Side]], keep_size: bool = False,
    mode: _Mode = "expand", remove_threshold: _Share = 0.1, shape_layout: str = "HW",
    size: PerSample[Several[_Extent] | None] = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Turn bounding boxes as `rotate` turns their image: the boxes around the turned ones.

    They are cut off at the edges of the canvas, and those that lose too much of their area are removed.

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
    arguments = {"angle": angle, "input_shape": input_shape, "shape_layout": shape_layout, "size": size,
                 "keep_size": keep_size}  # fmt: skip
    extents = _checked_rotation(bboxes, labels, bbox_layout=bbox_layout, **arguments)
    found, left = _rotated([bboxes], [labels], [angle], [extents], bbox_layout, mode, remove_threshold,
                           normalized=bbox_normalized)  # fmt: skip
    return found[0], left[0]


_Four: TypeAlias = Four[float]


def _targets(bboxes: Array, labels: Array, /, *, anchors: Numbers, stds: Any = (1.0,), **_: Any) -> tuple[Spec, Spec]:
    if bboxes.ndim != 2 or bboxes.shape[1] != 4:
        raise ArgumentError("box_encoder", "bboxes", "of shape (N, 4)", f"shape {bboxes.shape}")
    if labels.size != len(bboxes):
        raise ArgumentError("box_encoder", "labels", f"one for each of {len(bboxes)} boxes", f"shape {labels.shape}")
    if not anchors.size or anchors.size % 4:
        raise ArgumentError("box_encoder", "anchors", "one or more of four numbers each", f"shape {anchors.shape}")
    if 0 in stds:
        raise ArgumentError("box_encoder", "stds", "four numbers that are not 0", shown(stds))
    count = anchors.size // 4
    return ((count, 4), bboxes.dtype), ((count,), labels.dtype)


def _kinds_of_targets(ndim: int, dtype: Any, **_: Any) -> list[tuple[int, Any]]:
    return [(ndim, dtype), (1, "int32")]


def _encode_many(call: Call, samples: Sequence[tuple[Array, ...]], memory: Memory | None) -> Sequence[Array]:
    """`box_encoder` of all samples: of as many at once as the cache holds."""
    assert memory is not None, "it declares an output"
    given, (made, classes) = call.fixed, memory.storages()
    offsets = (given["means"], given["stds"], given["scale"]) if given["offset"] else None
    anchors = _anchors(given["anchors"], samples[0][0])
    step = max(1, _CACHED // given["anchors"].size)

    def some(k: int) -> None:
        part = slice(k * step, (k + 1) * step)
        bboxes, labels = zip(*samples[part], strict=True)
        _encode(bboxes, labels, anchors, given["criteria"], offsets, made[part], classes[part])

    pool.run(some, -(-call.count // step), call.work(memory.nbytes), "box_encoder")
    return made, classes


@operator(
    dtypes=_FLOATS, output=_targets, out_layout=(None, lambda *_, **__: None), out_kind=_kinds_of_targets,
    devices=("cpu", "gpu"), many=_encode_many,
)  # fmt: skip
def box_encoder(
    bboxes: Array, labels: Array, /, *, anchors: Numbers, criteria: _Share = 0.5, means: _Four = (0.0, 0.0, 0.0, 0.0),
    offset: bool = False, scale: float = 1.0, stds: _Four = (1.0, 1.0, 1.0, 1.0),
    out: tuple[Array, Array] = (None, None),
) -> tuple[Array, Array]:  # fmt: skip
    """Make the targets of a detector that is trained with anchors, as SSD is (Liu and others, 2016).

    An anchor stands for the box that it overlaps most, if the intersection of the two is more than `criteria` of their
    union; and each box has at least the anchor that overlaps it most. The others are background.

    Args:
        anchors: Boxes (left, top, right, bottom), in one sequence or an array of shape (M, 4).
        criteria: The least overlap, 0 to 1.
        means: What is subtracted from offsets: of x, y, width and height.
        offset: Whether the result is offsets from the anchors: of the centres in extents of the anchor, and the
            logarithms of the ratios of the extents; 0 for the background.
        scale: What boxes and anchors are multiplied by before offsets are computed.
        stds: What offsets are divided by, not 0.

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
    offsets = (means, stds, scale) if offset else None
    if library(bboxes) is not numpy:
        _encode_on_gpu(bboxes, labels, anchors, criteria, offsets, made, classes)
        return out
    _encode([bboxes], [labels], _anchors(anchors, bboxes), criteria, offsets, made[None], classes[None])
    return out


def _encode(
    bboxes: Sequence[Array], labels: Sequence[Array], anchors: kernels.Anchors, criteria: float, offsets: Any,
    made: Array, classes: Array,
) -> None:  # fmt: skip
    """`box_encoder` of some samples at once."""
    boxes = _real(numpy.concatenate(bboxes))
    classes[...] = 0
    with numpy.errstate(over="ignore", invalid="ignore"):
        made[...] = 0 if offsets else kernels.encoded(anchors.boxes)
        samples, places, which = kernels.matched(boxes, list(map(len, bboxes)), anchors, criteria)
        chosen = boxes[which]
        known = kernels.offsets(chosen, anchors.boxes[places], *offsets) if offsets else kernels.encoded(chosen)
        made[samples, places] = known
    classes[samples, places] = numpy.concatenate([each.reshape(-1) for each in labels])[which]


@numpy.errstate(over="ignore", invalid="ignore")
def _anchors(given: Array, boxes: Array) -> kernels.Anchors:
    """Anchors in the type in which boxes are computed."""
    return kernels.anchored(given.reshape(-1, 4).astype(_real(boxes[:0]).dtype))


def _encode_on_gpu(
    bboxes: Array, labels: Array, anchors: Array, criteria: float, offsets: Any, made: Array, classes: Array
) -> None:
    """`box_encoder` of boxes on a GPU: all anchors at once, without asking which of them stand for a box."""
    xp, boxes = library(bboxes), _real(bboxes)
    fixed = xp.asarray(anchors.reshape(-1, 4).astype(boxes.dtype))
    background = xp.zeros_like(fixed) if offsets else gpu_kernels.encoded(fixed)
    if not len(boxes):
        made[...], classes[...] = background, 0
        return
    whose, which = gpu_kernels.matched(boxes, fixed, criteria)
    chosen = boxes[whose]
    targets = gpu_kernels.offsets(chosen, fixed, *offsets) if offsets else gpu_kernels.encoded(chosen)
    made[...] = xp.where(which[:, None], targets, background)
    classes[...] = xp.where(which, labels.reshape(-1)[whose], labels.dtype.type(0))
