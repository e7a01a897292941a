"""Random windows of images with bounding boxes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.argument import GIVEN, Between, PerSample, Word
from dynamic._lift.call import Call, Plan
from dynamic._lift.kernels import together
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu.boxes import left as rows_left
from dynamic.kernels.cpu.boxes import read, written
from dynamic.random import _box_windows
from dynamic.random._drawing import draw_of, random_operator
from dynamic.random._philox import Draw
from dynamic.random._rng import Source

__all__ = ["random_bbox_crop"]

if TYPE_CHECKING:
    Ranges: TypeAlias = Sequence[float]
    Shares: TypeAlias = float | Sequence[float]
    Share: TypeAlias = float | None
    Count: TypeAlias = int
    Extents: TypeAlias = Sequence[int] | Batch | Tensor | None
    Metric: TypeAlias = str
else:
    Ranges = tuple[Annotated[float, Between(0)], ...]
    Shares = Annotated[float, Between(0, 1)] | tuple[Annotated[float, Between(0, 1)], ...]
    Share = Annotated[float, Between(0, 1)] | None
    Count = Annotated[int, Between(1)]
    Extents = PerSample[tuple[Annotated[int, Between(1)], ...] | None]
    Metric = Annotated[str, Word({"iou": (), "overlap": ()})]

_NAME = "random_bbox_crop"
_MOST = 10_000
_MOST_ATTEMPTS = {"num_attempts": 1_000_000, "total_num_attempts": 100_000}
_TOLERANCE = 1e-5  # of coordinates: a start and an extent may add up to a little more than 1


def _plan_crops(call: Call) -> Plan:
    """Windows and the boxes in them, of all samples at once: which boxes are left decides the shapes."""
    kinds: list[tuple[int, Any]] = [(1, "float32"), (1, "float32"), (2, call.dtype)]
    kinds += [(labels.ndim, labels._numpy_dtype) for labels in call.inputs[1:]]
    kinds += [(1, "int32")] * call.fixed["output_bbox_indices"]
    outputs = [Plan(dtype=numpy.dtype(kind), layout=None, ndim=ndim) for ndim, kind in kinds]
    columns = _cropped(call, _rules(call), len(kinds))
    data = list(zip(*columns, strict=True))
    return Plan(outputs=outputs, data=data, kernel=lambda *_: [together(column) for column in columns])


@random_operator(dtypes="float16 float32 float64", plan=_plan_crops)
def random_bbox_crop(
    boxes: Any,
    labels: Any = None,
    /,
    *,
    all_boxes_above_threshold: bool = True,
    allow_no_crop: bool = True,
    aspect_ratio: Ranges = (1.0, 1.0),
    bbox_layout: str | None = None,
    bbox_prune_threshold: Share = None,
    crop_shape: Extents = None,
    input_shape: Extents = None,
    ltrb: bool = True,
    num_attempts: Count = 1,
    output_bbox_indices: bool = False,
    quiet: bool = False,
    scaling: Ranges = (1.0, 1.0),
    shape_layout: str | None = None,
    threshold_type: Metric = "iou",
    thresholds: Shares = (0.0,),
    total_num_attempts: Count | None = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: tuple[Array, ...] = GIVEN,
) -> tuple[Array, ...]:
    """Draw a window that overlaps bounding boxes enough, and cut the boxes to it.

    One of the thresholds is drawn, and then windows. The last one is taken that overlaps the boxes by the threshold; if
    there is none, or no box is left in it, another threshold is drawn.

    In a training loop prefer `together`, which moves images, masks, boxes and labels by one draw.

    Args:
        boxes: Extents (N, 4), or (N, 6) for volumes, in units of the image: 0 to 1.
        labels: Labels of the boxes, shape (N, ...).
        all_boxes_above_threshold: Whether each box must overlap so much; otherwise one is enough.
        allow_no_crop: Whether the whole image is drawn as often as each threshold; never where there is a `crop_shape`.
        aspect_ratio: The least and the largest width / height, for volumes also of x / z and y / z; in pixels if there
            is an `input_shape`, otherwise in units of the image.
        bbox_layout: Meaning of the numbers of a box, such as "xyXY" or "xyWH": x, y, z starts, X, Y, Z ends, W, H, D
            extents, in any order; instead of `ltrb`.
        bbox_prune_threshold: The least part of a box that must lie in the window; by default its centre must.
        crop_shape: The extents of the window in pixels, instead of `aspect_ratio` and `scaling`.
        input_shape: The extents of the image in pixels.
        ltrb: Whether boxes are "xyXY", or "xyzXYZ"; otherwise they are "xyWH", or "xyzWHD".
        num_attempts: How many windows are drawn for a threshold, at most 1,000,000.
        output_bbox_indices: Whether to tell which boxes are left.
        quiet: Whether not to warn if the window is only the best one found.
        scaling: The least and the largest extents of a window, in units of the image.
        shape_layout: Letters for the extents of `crop_shape` and `input_shape`, such as "HW" or "HWC"; by default "WH",
            for volumes "WHD".
        threshold_type: Overlap: "iou", the intersection as a part of the union of box and window, or "overlap",
            as a part of the box.
        thresholds: Least overlaps, 0 to 1, of which one is drawn.
        total_num_attempts: After so many windows the best one is taken, at most 100,000; by default after 10,000.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The start of the window (x, y) and its shape (width, height), float32, in units of the image; with a
        `crop_shape` in pixels. Then the boxes that are left in it, in its units; their labels, if there are labels; and
        their places among the boxes, int32, if they are asked for.

    Raises:
        ArgumentError: Boxes reach out of the image, or arguments contradict each other.

    >>> boxes = [[0.25, 0.25, 0.5, 0.5], [0.5, 0.25, 0.75, 0.75]]
    >>> anchor, shape, left, labels = ndd.random_bbox_crop(
    ...     boxes, [3, 4], scaling=(0.3, 0.9), thresholds=(0.1, 0.3), allow_no_crop=False, rng=ndd.random.RNG(5))
    >>> labels.tolist()
    [3, 4]
    """
    return plan


def _rules(call: Call) -> _box_windows.Rules:
    """The rules that the arguments of all samples say."""
    values = call.fixed | call.varying
    ratios, scaling = values["aspect_ratio"], values["scaling"]
    for name, length in (("scaling", (2,)), ("aspect_ratio", (2, 6))):
        ranges = values[name]
        if len(ranges) not in length or any(low > high for low, high in zip(ranges[::2], ranges[1::2], strict=True)):
            expected = f"{' or '.join(map(str, length))} numbers, in pairs of a minimum and a maximum"
            raise ArgumentError(_NAME, name, expected, shown(ranges))
        if values["crop_shape"] is not None and ranges != (1.0, 1.0):
            raise ArgumentError(_NAME, name, "left out when 'crop_shape' is given", shown(ranges))
    if values["crop_shape"] is not None and values["input_shape"] is None:
        raise ArgumentError(_NAME, "input_shape", "given with crop_shape", "None")
    if values["bbox_layout"] is not None and not values["ltrb"]:
        raise ArgumentError(_NAME, "ltrb", "left out when 'bbox_layout' is given", "False")
    given = values["thresholds"] if isinstance(values["thresholds"], tuple) else (values["thresholds"],)
    thresholds = [float(numpy.float32(threshold)) for threshold in given]
    whole = values["allow_no_crop"] and values["crop_shape"] is None
    if not thresholds:
        raise ArgumentError(_NAME, "thresholds", "one number or more", shown(given))
    for name, most in _MOST_ATTEMPTS.items():
        if (values[name] or 0) > most:
            raise ArgumentError(_NAME, name, f"at most {most}", str(values[name]))
    return _box_windows.Rules(
        thresholds=(*thresholds, None) if whole else tuple(thresholds),
        attempts=values["num_attempts"],
        most=values["total_num_attempts"] or _MOST,
        scaling=scaling,
        ratios=tuple(zip(ratios[::2], ratios[1::2], strict=True)),
        of_boxes=values["threshold_type"] == "overlap",
        all_boxes=values["all_boxes_above_threshold"],
        prune=values["bbox_prune_threshold"],
    )


def _check(boxes: Array, labels: Array | None = None, /, **values: Any) -> None:
    """Refuse inputs and arguments of a sample that do not go together."""
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 6):
        raise ArgumentError(_NAME, "boxes", "of shape (N, 4) or (N, 6)", f"shape {boxes.shape}")
    if labels is not None and (not labels.ndim or len(labels) != len(boxes)):
        raise ArgumentError(_NAME, "labels", f"one for each of the {len(boxes)} boxes", f"shape {labels.shape}")
    ndim = boxes.shape[1] // 2
    _box_layout(ndim, values["bbox_layout"], ltrb=values["ltrb"])
    for name in ("crop_shape", "input_shape"):
        _extents(name, values[name], values["shape_layout"], ndim)


@functools.lru_cache(maxsize=64)
def _box_layout(ndim: int, layout: str | None, *, ltrb: bool) -> str:
    """The layout of boxes that the arguments mean."""
    starts, ends, extents = "xyz"[:ndim], "XYZ"[:ndim], "WHD"[:ndim]
    if layout is None:
        return starts + (ends if ltrb else extents)
    if sorted(layout) not in (sorted(starts + ends), sorted(starts + extents)):
        expected = f"the letters of {starts + ends!r} or {starts + extents!r} in any order"
        raise ArgumentError(_NAME, "bbox_layout", expected, repr(layout))
    return layout


def _extents(name: str, shape: tuple[int, ...] | None, layout: str | None, ndim: int) -> tuple[int, ...] | None:
    """The extents of the image or the window, x first."""
    layout, places = _letters(layout, ndim)
    if shape is None:
        return None
    if len(shape) != len(layout):
        raise ArgumentError(_NAME, name, f"{len(layout)} extents, as {layout!r} names them", shown(shape))
    if max(shape) >= 1 << 31:
        raise ArgumentError(_NAME, name, "extents below 2**31", shown(shape))
    return tuple(shape[place] for place in places)


@functools.lru_cache(maxsize=64)
def _letters(layout: str | None, ndim: int) -> tuple[str, list[int]]:
    """The layout of extents, and where in it those of x, y and z are."""
    letters = "WHD"[:ndim]
    layout = letters if layout is None else layout
    if not set(letters) <= set(layout):
        raise ArgumentError(_NAME, "shape_layout", f"letters of which {ndim} are {', '.join(letters)}", repr(layout))
    return layout, [layout.index(letter) for letter in letters]


class _Group(NamedTuple):
    """Some of the samples of a call, whose boxes have one number of dimensions."""

    samples: list[int]
    layout: str
    counts: Array  #: how many boxes each has
    boxes: Array  #: those of all, one sample after the other, as they were given
    corners: Array  #: the same as starts and ends, float32 or float64
    labels: list[Sequence[Array]]
    images: Array | None  #: extents, x first
    crops: Array | None


def _groups(call: Call) -> Iterator[_Group]:
    """The samples of a call by the number of dimensions."""
    values, samples = call.fixed, call.samples()
    widths = [boxes.shape[1] for boxes, *_ in samples]
    for width in sorted(set(widths)):
        chosen, ndim = [i for i, own in enumerate(widths) if own == width], width // 2
        each, *labels = zip(*(samples[i] for i in chosen), strict=True)
        boxes, counts = numpy.concatenate(each), numpy.array([*map(len, each)])
        layout = _box_layout(ndim, values["bbox_layout"], ltrb=values["ltrb"])
        corners = read(boxes.astype(numpy.promote_types(boxes.dtype, numpy.float32), copy=False), layout)
        images, crops = (_all_extents(call, chosen, name, ndim) for name in ("input_shape", "crop_shape"))
        outside = numpy.flatnonzero(~((corners >= -_TOLERANCE) & (corners <= 1 + _TOLERANCE)).all(1))
        if len(outside):
            sample = chosen[int(numpy.searchsorted(numpy.cumsum(counts), outside[0], side="right"))]
            wrong = ArgumentError(_NAME, "boxes", "in units of the image, 0 to 1", "a box that reaches out of it")
            raise call.noted(sample, wrong)
        yield _Group(chosen, layout, counts, boxes, corners, list(labels), images, crops)


def _cropped(call: Call, rules: _box_windows.Rules, results: int) -> list[list[Array]]:
    """Each result of all samples. Here the source moves on."""
    columns: list[list[Array]] = [[None] * call.count for _ in range(results)]
    call.each(_check)
    groups = list(_groups(call))
    draw = draw_of(call)
    for group in groups:
        for column, found in zip(columns, _windows(group, rules, draw, call.fixed), strict=True):
            for i, result in zip(group.samples, found, strict=True):
                column[i] = result
    return columns


def _windows(group: _Group, rules: _box_windows.Rules, draw: Draw, values: Mapping[str, Any]) -> list[Sequence[Array]]:
    """Each result of some samples."""
    corners, counts, ndim = group.corners, group.counts, group.corners.shape[1] // 2
    narrow = corners.astype(numpy.float32, copy=False)
    found = _box_windows.search(draw, numpy.array(group.samples), narrow, counts, rules, group.images, group.crops)
    if not found.satisfied.all() and not values["quiet"]:
        text = f"{_NAME}(): no window overlaps the boxes enough; the best one is taken. quiet=True says nothing."
        warnings.warn(text, UserWarning, stacklevel=2)
    starts, ends = found.windows[:, :ndim], found.windows[:, ndim:]
    shapes = ends - starts
    if group.crops is not None:
        sized = found.any[:, None]
        starts, shapes = numpy.where(sized, found.pixels, starts), numpy.where(sized, group.crops, shapes)
    owners = numpy.repeat(numpy.arange(len(counts)), counts)
    left = written(_box_windows.remapped(corners, found.windows[owners].astype(corners.dtype)), group.layout)
    left = numpy.where(found.any[owners, None], left.astype(group.boxes.dtype), group.boxes)
    last = numpy.cumsum(counts).tolist()
    parts = [slice(end - count, end) for end, count in zip(last, counts.tolist(), strict=True)]
    kept = [found.kept[part] for part in parts]
    results: list[Sequence[Array]] = [
        list(starts.astype(numpy.float32, copy=False)),
        list(shapes.astype(numpy.float32, copy=False)),
        rows_left(left, found.kept, counts.tolist()),
        *([own[keep] for own, keep in zip(column, kept, strict=True)] for column in group.labels),
    ]
    if values["output_bbox_indices"]:
        results.append([numpy.flatnonzero(keep).astype(numpy.int32) for keep in kept])
    return results


def _all_extents(call: Call, chosen: list[int], name: str, ndim: int) -> Array | None:
    """The extents of the images or the windows of some samples, x first; None where they are not given."""
    column, layout = call.column(name), call.fixed["shape_layout"]
    if name not in call.varying and call.fixed[name] is None:
        return None
    return numpy.array([_extents(name, column[i], layout, ndim) for i in chosen], numpy.int64)
