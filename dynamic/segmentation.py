"""Operators on segmentation masks: random pixels and objects of them, and polygons of selected masks."""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy

from ._arrays.array import Array
from ._base.docstrings import described_as
from ._base.locks import new_lock
from ._lift.argument import GIVEN, Between, PerSample, Word
from ._lift.call import Call, Plan
from ._lift.operator import operator
from .data import Batch, Tensor
from .devices import DeviceLike
from .errors import ArgumentError, shown
from .kernels.cpu import masks
from .random._distributions import below
from .random._drawing import Words, random_operator, streams_of
from .random._rejection import unit64
from .random._rng import Source

__all__ = ["random_mask_pixel", "random_object_bbox", "select_masks"]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


if TYPE_CHECKING:
    Integer: TypeAlias = int | Batch | Tensor | None
    Integers: TypeAlias = int | Sequence[int] | Batch | Tensor | None
    Weights: TypeAlias = float | Sequence[float] | Batch | Tensor | None
    Probability: TypeAlias = float | Batch | Tensor
    Count: TypeAlias = int | None
    Format: TypeAlias = str
else:
    Integer = PerSample[int | None]
    Integers = PerSample[int | tuple[int, ...] | None]
    Weights = PerSample[Annotated[float, Between(0)] | tuple[Annotated[float, Between(0)], ...] | None]
    Probability = PerSample[Annotated[float, Between(0, 1)]]
    Count = Annotated[int, Between(1)] | None
    Format = Annotated[str, Word({"anchor_shape": (), "start_end": (), "box": ()})]

_PIXEL = "segmentation.random_mask_pixel"
_OBJECT = "segmentation.random_object_bbox"
_SELECT = "segmentation.select_masks"
_LEAST_LABEL = -(1 << 31)
_MOST = float(numpy.finfo(numpy.float32).max)


def _plan_pixels(call: Call) -> Plan:
    call.each(_check_pixels)
    return Plan((call.ndim,), numpy.dtype("int64"), None, 1, data=streams_of(call), weight=8.0)


@random_operator(plan=_plan_pixels, name=_PIXEL)
def random_mask_pixel(
    input: Any,
    /,
    *,
    foreground: PerSample[int] = 0,
    threshold: PerSample[float] = 0.0,
    value: Integer = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: Words = GIVEN,
    out: Array = GIVEN,
) -> None:
    """Draw a pixel of a mask, each as likely as any other, or one of the foreground.

    Args:
        input: The mask, of any shape with at least one pixel.
        foreground: Whether to draw from the foreground, if there is any; any integer but 0 means yes.
        threshold: Larger values are foreground.
        value: Values equal to this are foreground instead.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The indices of the pixel, int64 of shape (number of dimensions,).

    Raises:
        ArgumentError: The mask has no pixels, or both `threshold` and `value` are given.

    >>> mask = [[0, 0, 0], [0, 7, 0]]
    >>> ndd.segmentation.random_mask_pixel(mask, foreground=1, rng=ndd.random.RNG(5)).tolist()
    [1, 1]
    """
    if foreground and input.ndim:
        with numpy.errstate(over="ignore"):  # no element exceeds or equals a number outside of its type
            mask = input.view("u1") if value is not None and input.dtype == bool else input
            wanted = mask > threshold if value is None else mask == value
        count = int(numpy.count_nonzero(wanted))
        if count:
            out[...] = masks.pixel(wanted, below(plan, count))
            return
    out[...] = [below(plan, extent) for extent in input.shape]


def _check_pixels(mask: Array, /, *, threshold: float, value: int | None, **_: Any) -> None:
    if not mask.size:
        raise ArgumentError(_PIXEL, "input", "a mask with at least one pixel", f"shape {mask.shape}")
    if value is not None and threshold:
        raise ArgumentError(_PIXEL, "threshold", "left out when 'value' is given", shown(threshold))


def _plan_objects(call: Call) -> Plan:
    given = [name for name in ("classes", "class_weights", "output_class") if _is_given(call, name)]
    if call.fixed["ignore_class"] and given:
        got = "a Batch" if given[0] in call.varying else shown(call.fixed[given[0]])
        raise ArgumentError(_OBJECT, given[0], "left out with ignore_class=True", got)
    call.each(_check_objects)
    parts = [Plan((call.ndim,), numpy.dtype("int32"), None, 1)] * 2
    if call.fixed["format"] == "box":
        parts = [Plan((2 * call.ndim,), numpy.dtype("int32"), None, 1)]
    if call.fixed["output_class"]:
        parts.append(Plan((), _kind_of_labels(call.dtype), None, 0))
    plan = Plan(outputs=parts) if len(parts) > 1 else parts[0]
    plan.data, plan.weight = streams_of(call), 8.0
    return plan


def _is_given(call: Call, name: str) -> bool:
    return name in call.varying or call.fixed[name] not in (None, False)


@random_operator(dtypes="bool int8 uint8 int16 uint16 int32 uint32 int64 uint64", plan=_plan_objects, name=_OBJECT)
@described_as(random_mask_pixel)
def random_object_bbox(
    input: Any,
    /,
    *,
    background: Integer = None,
    cache_objects: bool = False,
    class_weights: Weights = None,
    classes: Integers = None,
    foreground_prob: Probability = 1.0,
    format: Format = "anchor_shape",
    ignore_class: bool = False,
    k_largest: Count = None,
    output_class: bool = False,
    threshold: Integers = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: Words = GIVEN,
    out: Any = GIVEN,
) -> Any:
    """Draw an object of a mask of labels: first a class, then one of its objects, and tell its bounding box.

    An object is a connected component of one label: elements next to each other along a dimension, not across a
    corner. Where no object is found the box is that of the whole mask.

    Args:
        input: The mask: integers or bool, one or more dimensions.
        background: The label that is no class; by default 0, or less than all classes if 0 is one of them.
        cache_objects: Whether to remember the objects of masks, 64 MB of them: a mask that comes again takes less time.
        class_weights: How likely each class is, relative to the others; without `classes` they are those of the labels
            from 0 on, without the background.
        classes: The labels that are classes; by default all but the background, each as likely.
        foreground_prob: How likely an object is drawn at all, not the whole mask.
        format: "anchor_shape", where the box begins and its extents; "start_end", where it begins and ends; "box", both
            of these in one result.
        ignore_class: Whether each object is as likely as any other, whatever its class.
        k_largest: Only so many objects with the largest boxes are drawn from, of the class or of all.
        output_class: Whether to tell the label of the object, or of the background where there is none.
        threshold: The least extents of a box, one for all dimensions or one for each.

    Returns:
        Two results of int32 with a number for each dimension, or one with twice as many if the format is "box"; then,
        if asked for, the label: int32, or int64 for masks of 64 bits.

    Raises:
        ArgumentError: Arguments contradict each other or the number of dimensions, or the mask is not of labels.

    >>> mask = [[0, 0, 0, 2], [1, 1, 0, 2]]
    >>> ndd.segmentation.random_object_bbox(mask, classes=[2], format="box", rng=ndd.random.RNG(5)).tolist()
    [0, 3, 2, 4]
    """
    chance: Any = foreground_prob
    wanted = unit64(plan) < float(numpy.float32(chance))
    known, weights, other = _classes(classes, class_weights, background)
    find = functools.partial(_cached if cache_objects else _found, input)
    pick = functools.partial(_picked, plan, least=threshold, most=k_largest)
    box, label = None, other
    if wanted and ignore_class:
        box = pick(find(masks.regions, other))
    elif wanted:
        present = [found for found in find(masks.labels) if found != other]
        if known is None:
            known, weights = present, [1.0] * len(present)
        weights = [weight if one in present else 0.0 for one, weight in zip(known, weights, strict=True)]
        while box is None and any(weights):
            ends = [float(numpy.float32(end)) for end in itertools.accumulate(weights)]
            place = bisect.bisect_left(ends, unit64(plan) * ends[-1])
            place = next(i for i in range(place, len(weights)) if weights[i])
            box, weights[place] = pick(find(masks.objects, known[place])), 0.0
            label = other if box is None else known[place]
    start, end = numpy.array([[0] * input.ndim, input.shape]) if box is None else box
    results = [start, end - start if format == "anchor_shape" else end]
    if format == "box":
        results = [numpy.concatenate([start, end])]
    for target, result in zip(out if isinstance(out, tuple) else (out,), [*results, label], strict=False):
        target[...] = result
    return out


def _kind_of_labels(kind: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """The type of labels as results, of a mask's type."""
    return numpy.dtype("int64" if kind.itemsize == 8 else "int32")


def _check_objects(mask: Array, /, **values: Any) -> None:
    if not mask.ndim:
        raise ArgumentError(_OBJECT, "input", "of one dimension or more", "a number")
    classes, weights, background = values["classes"], values["class_weights"], values["background"]
    label = numpy.iinfo(_kind_of_labels(mask.dtype))
    if background is not None and not label.min <= background <= label.max:
        raise ArgumentError(_OBJECT, "background", f"an {label.dtype}", shown(background))
    if classes is not None and background in _several(classes):
        raise ArgumentError(_OBJECT, "background", "none of the classes", shown(background))
    if classes is not None and weights is not None and len(_several(classes)) != len(_several(weights)):
        raise ArgumentError(_OBJECT, "class_weights", f"{len(_several(classes))} numbers, one a class", shown(weights))
    if weights is not None and sum(_rounded(weights)) > _MOST:
        raise ArgumentError(_OBJECT, "class_weights", "numbers whose sum is a finite float32", shown(weights))
    least = values["threshold"]
    if least is not None and len(_several(least)) not in (1, mask.ndim):
        raise ArgumentError(_OBJECT, "threshold", f"one extent or {mask.ndim}", shown(values["threshold"]))


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _classes(classes: Any, weights: Any, background: Any) -> tuple[Sequence[int] | None, list[float], int]:
    """The labels that are classes, or None for all; their weights as float32 numbers; and the background."""
    known = None if classes is None else _several(classes)
    if background is None:
        background = min(known) - 1 if known and 0 in known else 0
        if known and background < _LEAST_LABEL:  # from the other end, the first that is none
            background = next(label for label in itertools.count(-1 - _LEAST_LABEL, -1) if label not in known)
    if weights is None:
        return known, [1.0] * len(known or ()), background
    rounded = _rounded(weights)
    labels = (label for label in itertools.count() if label != background)
    return known or tuple(itertools.islice(labels, len(rounded))), rounded, background


def _rounded(weights: Any) -> list[float]:
    """Weights as float32 numbers."""
    with numpy.errstate(over="ignore"):
        return [float(numpy.float32(weight)) for weight in _several(weights)]


def _picked(words: Words, boxes: Array, *, least: Any, most: int | None) -> Array | None:
    """One of some boxes."""
    sizes = boxes[:, 1] - boxes[:, 0]
    if least is not None:
        large = (sizes >= numpy.array(least)).all(axis=1)
        boxes, sizes = boxes[large], sizes[large]
    if most is not None and most < len(boxes):
        boxes = boxes[numpy.argsort(-sizes.prod(axis=1), kind="stable")[:most]]
    return boxes[below(words, len(boxes))] if len(boxes) else None


def _found(mask: Array, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(mask, *arguments)


class _Remembered:
    """Results of recent masks, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0
        self._found: dict[tuple[Any, ...], tuple[int, Any]] = {}
        self._lock = new_lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        """A result, or None."""
        with self._lock:
            entry = self._found.pop(key, None)
            if entry is not None:
                self._found[key] = entry  # now the newest
        return None if entry is None else entry[1]

    def put(self, key: tuple[Any, ...], found: Any) -> None:
        """Remember a result; the oldest ones are forgotten where there is too much."""
        size = _OF_ENTRY + (found.nbytes if isinstance(found, numpy.ndarray) else _OF_NUMBER * len(found))
        with self._lock:
            if size > self.most or key in self._found:
                return
            self._found[key] = size, found
            self.size += size
            while self.size > self.most:
                self.size -= self._found.pop(next(iter(self._found)))[0]


_OF_ENTRY, _OF_NUMBER = 1 << 10, 1 << 6  # bytes, about: of a key and its entry, and of an integer in a list
_cache = _Remembered(1 << 26)


def _cached(mask: Array, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function of a mask, remembered from its last call."""
    digest = hashlib.sha256(numpy.ascontiguousarray(mask).data).digest()
    key = (digest, mask.shape, mask.dtype.str, function.__name__, arguments)
    found = _cache.get(key)
    if found is None:
        found = function(mask, *arguments)
        found = numpy.ascontiguousarray(found) if isinstance(found, numpy.ndarray) else found  # no view of more
        _cache.put(key, found)
    return found


def _plan_selection(call: Call) -> Plan:
    """The polygons of each sample that are selected."""
    found = call.each(_selected, of_values=True)
    polygons, vertices = call.inputs[1:]
    points = [(sum(end - start for _, start, end in chosen), width) for chosen, width in found]
    outputs = [
        Plan([(len(chosen), 3) for chosen, _ in found], polygons._numpy_dtype, None, 2),
        Plan(points, vertices._numpy_dtype, None, 2),
    ]
    return Plan(outputs=outputs, data=[chosen for chosen, _ in found])


def _selected(mask_ids: Array, polygons: Array, vertices: Array, /, **_: Any) -> tuple[list[list[int]], int]:
    """Polygons that are selected, and the number of coordinates of a vertex."""
    if mask_ids.ndim != 1:
        raise ArgumentError(_SELECT, "mask_ids", "of one dimension", f"shape {mask_ids.shape}")
    if polygons.ndim != 2 or polygons.shape[1] != 3 or polygons.dtype.kind not in "iu":
        raise ArgumentError(_SELECT, "polygons", "integers of shape (N, 3)", f"shape {polygons.shape} {polygons.dtype}")
    if vertices.ndim != 2:
        raise ArgumentError(_SELECT, "vertices", "of two dimensions", f"shape {vertices.shape}")
    chosen = _chosen(mask_ids.tolist(), polygons.tolist())
    if not all(0 <= start <= end <= len(vertices) for _, start, end in chosen):
        raise ArgumentError(_SELECT, "polygons", f"ranges of the {len(vertices)} vertices", "a start or an end beyond")
    return chosen, vertices.shape[1]


def _chosen(mask_ids: list[int], polygons: list[list[int]]) -> list[list[int]]:
    """Which polygons are those of some masks, mask by mask."""
    wanted: dict[int, list[list[int]]] = {mask: [] for mask in mask_ids}
    if len(wanted) < len(mask_ids):
        raise ArgumentError(_SELECT, "mask_ids", "masks that are all different", shown(mask_ids))
    for row in polygons:
        if row[0] in wanted:
            wanted[row[0]].append(row)
    for mask, rows in wanted.items():
        if not rows:
            raise ArgumentError(_SELECT, "mask_ids", "masks that have polygons", str(mask))
    return [row for rows in wanted.values() for row in rows]


@operator(dtypes="int8 uint8 int16 uint16 int32 uint32 int64 uint64", plan=_plan_selection, name=_SELECT)
def select_masks(
    mask_ids: Array,
    polygons: Array,
    vertices: Array,
    /,
    *,
    reindex_masks: bool = False,
    plan: Sequence[tuple[int, int, int]] = (),
    out: tuple[Array, Array] = (None, None),
) -> tuple[Array, Array]:
    """Select the polygons of some masks, and their vertices.

    Polygons have shape (N, 3): of which mask it is, and where its vertices begin and end.

    Args:
        reindex_masks: Whether masks are numbered anew, by their places in `mask_ids`.

    Returns:
        The polygons of the first mask, then those of the second, and so on; and their vertices only.

    Raises:
        ArgumentError: A mask is given twice or has no polygon, or a polygon has vertices that there are not.

    >>> polygons, vertices = [[5, 0, 3], [7, 3, 6]], [[0, 0], [0, 1], [1, 0], [4, 4], [4, 5], [5, 4]]
    >>> chosen, points = ndd.segmentation.select_masks([7], polygons, vertices)
    >>> chosen.tolist(), points.tolist()
    ([[7, 0, 3]], [[4, 4], [4, 5], [5, 4]])
    """
    chosen, points = out
    numbers = {mask: number for number, mask in enumerate(mask_ids.tolist())}
    place, rows = 0, []
    for mask, start, end in plan:
        points[place : place + end - start] = vertices[start:end]
        rows.append((numbers[mask] if reindex_masks else mask, place, place + end - start))
        place += end - start
    chosen[...] = numpy.array(rows, chosen.dtype).reshape(-1, 3)
    return out
