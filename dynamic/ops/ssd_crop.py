"""The random crop with which the detector SSD was trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.argument import GIVEN, Between, Layout
from dynamic._lift.call import Call, Plan, Shape
from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError
from dynamic.random._distributions import below
from dynamic.random._drawing import random_operator, streams_of
from dynamic.random._rng import Source

__all__ = ["ssd_random_crop"]

if TYPE_CHECKING:
    Count: TypeAlias = int
else:
    Count = Annotated[int, Between(1, 1000)]

_NAME = "ssd_random_crop"
_LAYOUTS = ("HWC", "HW", "CHW")
_OVERLAPS = (None, 0.1, 0.3, 0.5, 0.7, 0.9, 0.0)  # the least of each box; None is the whole image
_LEAST = 0.3  # of the height and the width


class _Window(NamedTuple):
    """The part of an image that is left.

    Attributes:
        rows: Of the image.
        columns: Of the image.
        kept: Which boxes are left.
        boxes: These in units of the window.
    """

    rows: slice
    columns: slice
    kept: Array
    boxes: Array


def _plan(call: Call) -> Plan:
    call.each(_check)
    layout, samples = call.layout or "", call.samples()
    places, height, width = [], layout.index("H"), layout.index("W")
    for (image, boxes, _), words in zip(samples, streams_of(call), strict=True):
        extents = image.shape[height], image.shape[width]
        places.append(_drawn(words, boxes.astype(numpy.float64), extents, call.fixed["num_attempts"]))
    shapes = [_cut(image.shape, layout, place) for (image, *_), place in zip(samples, places, strict=True)]
    counts = [int(numpy.count_nonzero(place.kept)) for place in places]
    kinds, ndims = zip(*((x._numpy_dtype, x.ndim) for x in call.inputs), strict=True)
    labels = [(count, *own.shape[1:]) for (*_, own), count in zip(samples, counts, strict=True)]
    outputs = [
        Plan(shapes, kinds[0], ndim=ndims[0]),
        Plan([(count, 4) for count in counts], kinds[1], None, ndims[1]),
        Plan(labels, kinds[2], None, ndims[2]),
    ]
    return Plan(outputs=outputs, data=places)


def _check(_image: Array, boxes: Array, labels: Array, /, **_: Any) -> None:
    """Refuse inputs of a sample that do not go together."""
    if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype.kind != "f":
        raise ArgumentError(_NAME, "boxes", "floats of shape (N, 4)", f"{boxes.dtype} of shape {boxes.shape}")
    if not labels.ndim or len(labels) != len(boxes):
        raise ArgumentError(_NAME, "labels", f"one for each of the {len(boxes)} boxes", f"shape {labels.shape}")


def _drawn(words: Iterator[int], boxes: Array, extents: tuple[int, int], attempts: int) -> _Window:
    """Draw an overlap and windows until one of them is good enough."""
    starts, ends = boxes[:, :2], boxes[:, 2:]
    sides = extents[::-1]
    sizes, centres = (ends - starts).prod(1), (starts + ends) / 2
    while (least := _OVERLAPS[below(words, len(_OVERLAPS))]) is not None:
        for _ in range(attempts):
            size = numpy.array([_LEAST + (1 - _LEAST) * _unit(words) for _ in range(2)])
            if not 0.5 <= size[0] / size[1] <= 2:
                continue
            low = (1 - size) * [_unit(words), _unit(words)]
            high = low + size
            common = numpy.maximum(numpy.minimum(ends, high) - numpy.maximum(starts, low), 0).prod(1)
            if (common < least * (sizes + size.prod() - common)).any():
                continue
            kept = ((low <= centres) & (centres <= high)).all(1)
            left, top, right, bottom = (math.floor(x * n + 0.5) for x, n in zip([*low, *high], sides * 2, strict=True))
            if kept.any() and left < right and top < bottom:
                moved = numpy.clip((boxes[kept] - [*low, *low]) / [*size, *size], 0, 1)
                return _Window(slice(top, bottom), slice(left, right), kept, moved)
    return _Window(slice(0, extents[0]), slice(0, extents[1]), numpy.ones(len(boxes), bool), boxes)


def _unit(words: Iterator[int]) -> float:
    """A number at least 0 and less than 1."""
    return next(words) * 2.0**-32


def _cut(shape: Shape, layout: str, window: _Window) -> Shape:
    sides = {"H": window.rows.stop - window.rows.start, "W": window.columns.stop - window.columns.start}
    return tuple(sides.get(letter, extent) for letter, extent in zip(layout, shape, strict=True))


@random_operator(layouts=_LAYOUTS, plan=_plan, name=_NAME)
def ssd_random_crop(
    image: Any,
    boxes: Any,
    labels: Any,
    /,
    *,
    num_attempts: Count = 1,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    layout: Layout = GIVEN,
    plan: _Window = GIVEN,
    out: tuple[Array, Array, Array] = GIVEN,
) -> None:
    """Crop images as in the training of the detector SSD: by windows that overlap bounding boxes enough.

    Either the whole image is taken, or a least overlap with each box is drawn: 0, 0.1, 0.3, 0.5, 0.7 or 0.9, the
    intersection as a part of the union. Then windows are drawn of 0.3 to 1 of the height and the width, one side at
    most twice the other. Boxes whose centre is in the window are left. If no window is good enough, or no box is left,
    all is drawn again. `random_bbox_crop` has more choices.

    Args:
        image: Images.
        boxes: Left, top, right and bottom of boxes, (N, 4), in units of the image: 0 to 1.
        labels: Labels of the boxes, shape (N, ...).
        num_attempts: How many windows are drawn for an overlap, at most 1000.
        batch_size: Number of samples; a Batch of any of the inputs, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The windows of the images, the boxes that are left in units of the window, and their labels.

    Raises:
        ArgumentError: Boxes and labels are not one for each other, or have other shapes.

    >>> image, boxes = numpy.zeros((20, 30, 3), "uint8"), numpy.array([[0.2, 0.3, 0.7, 0.8]], "float32")
    >>> window, left, labels = ndd.ssd_random_crop(image, boxes, [7], rng=ndd.random.RNG(5))
    >>> window.shape, labels.tolist()
    ((20, 30, 3), [7])
    """
    places = tuple({"H": plan.rows, "W": plan.columns}.get(letter, slice(None)) for letter in layout)
    out[0][...] = image[places]
    out[1][...] = plan.boxes
    out[2][...] = labels[plan.kept]
