"""Windows at random: of random area and aspect ratio, and inside of a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.argument import GIVEN, Between, PerSample
from dynamic._lift.call import Call, Plan
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError, shown
from dynamic.random._distributions import below
from dynamic.random._drawing import Words, random_operator, streams_of
from dynamic.random._rng import Source
from dynamic.random._windows import drawn

__all__ = ["random_crop_generator", "roi_random_crop"]

if TYPE_CHECKING:
    Pair: TypeAlias = Sequence[float]
    Count: TypeAlias = int
    Extents: TypeAlias = Batch | Tensor | Sequence[int]
    Maybe: TypeAlias = Extents | None
else:
    Pair = tuple[float, float]
    Extents, Maybe = PerSample[tuple[int, ...]], PerSample[tuple[int, ...] | None]
    Count = Annotated[int, Between(1, 10_000)]  # bounds the attempts for an image that no window fits


def _plan_windows(call: Call) -> Plan:
    windows = drawn(call, call.each(_image, of_values=True))
    numbers = numpy.dtype("int32")
    outputs = [Plan(dtype=numbers, layout=None, ndim=1)] * 2
    return Plan(outputs=outputs, data=list(windows), kernel=lambda *_: [windows[:, i].copy() for i in range(2)])


def _image(shape: Array, /, **_: Any) -> tuple[int, int]:
    if shape.ndim != 1 or len(shape) < 2 or shape.dtype.kind not in "iu" or (shape[:2] < 1).any():
        expected = "the height and width of an image, integers above 0"
        raise ArgumentError("random_crop_generator", "shape", expected, shown(shape.tolist()))
    return int(shape[0]), int(shape[1])


@random_operator(plan=_plan_windows)
def random_crop_generator(
    shape: Any,
    /,
    *,
    random_area: Pair = (0.08, 1.0),
    random_aspect_ratio: Pair = (3 / 4, 4 / 3),
    num_attempts: Count = 10,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: Array = GIVEN,
) -> tuple[Array, Array]:
    """Draw a window of random area and aspect ratio for images of given shapes, as for training classifiers.

    The area is uniform in its range, the aspect ratio log-uniform, and both are drawn again until the window fits.
    Where no window can have so much area, or none was found, it is as large as the aspect ratios and the area allow.

    Args:
        shape: Height and width of the image, and more extents that do not matter: integers, shape (2,) or longer.
        random_area: The least and the most area, as a part of that of the image.
        random_aspect_ratio: The least and the largest width / height, more than 0.
        num_attempts: How often to draw before giving up, at most 10,000.
        batch_size: Number of samples; a Batch of shapes, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The upper left corner (y, x) of the window and its shape (height, width): int32 of shape (2,) each.

    Raises:
        ArgumentError: A range is empty or not positive, or a shape is none of an image.

    >>> anchor, shape = ndd.random_crop_generator([480, 640], rng=ndd.random.RNG(5))
    >>> anchor.tolist(), shape.tolist()
    ([2, 429], [178, 152])
    """
    return tuple(plan)


def _plan_starts(call: Call) -> Plan:
    rooms = call.each(_rooms)
    data = list(zip(rooms, streams_of(call), strict=True))
    return Plan([(len(room),) for room in rooms], numpy.dtype("int64"), None, 1, data=data)


@random_operator(plan=_plan_starts)
def roi_random_crop(
    input: Any = None,
    /,
    *,
    crop_shape: Extents,
    in_shape: Maybe = None,
    roi_end: Maybe = None,
    roi_shape: Maybe = None,
    roi_start: Extents,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: tuple[list[tuple[int, int]], Words] = GIVEN,
    out: Array = GIVEN,
) -> None:
    """Draw where a window of a given shape begins, inside of a region, or around it where it is larger.

    Args:
        input: Arrays that the windows shall lie in, in place of `in_shape`.
        crop_shape: The shape of the window: an extent for each dimension.
        in_shape: The shape of the array that the window shall lie in; by default it may lie anywhere.
        roi_end: Where the region ends.
        roi_shape: The shape of the region, in place of `roi_end`.
        roi_start: Where the region begins.
        batch_size: Number of samples; a Batch among the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        Where the window begins in each dimension: int64 of shape (n,), every place as likely as the others.

    Raises:
        ArgumentError: Arguments contradict each other or differ in length, or a window or a region is not inside.

    >>> ndd.roi_random_crop(crop_shape=[2, 9], roi_start=[3, 4], roi_end=[8, 6], rng=ndd.random.RNG(1)).tolist()
    [6, 1]
    """
    rooms, words = plan
    out[...] = [low + below(words, count) for low, count in rooms]


def _rooms(
    input: Array = None,
    /,
    *,
    crop_shape: tuple[int, ...],
    roi_start: tuple[int, ...],
    in_shape: tuple[int, ...] | None,
    roi_end: tuple[int, ...] | None,
    roi_shape: tuple[int, ...] | None,
) -> list[tuple[int, int]]:
    """For each dimension the first place where a window may begin, and how many such places there are."""
    name = "roi_random_crop"
    if (roi_end is None) == (roi_shape is None):
        raise ArgumentError.either(name, "roi_end", "roi_shape", both=roi_end is not None)
    if input is not None:
        if in_shape is not None:
            raise ArgumentError(name, "in_shape", "left out when there is an input", shown(in_shape))
        in_shape = input.shape
    for argument, values in {"roi_start": roi_start, "roi_end": roi_end, "roi_shape": roi_shape}.items():
        if values is not None and len(values) != len(crop_shape):
            raise ArgumentError(name, argument, f"{len(crop_shape)} numbers, as 'crop_shape' has", str(len(values)))
    if in_shape is not None and len(in_shape) < len(crop_shape):
        raise ArgumentError(name, "in_shape", f"{len(crop_shape)} numbers, as 'crop_shape' has", str(len(in_shape)))
    ends = roi_end or tuple(start + extent for start, extent in zip(roi_start, roi_shape or (), strict=True))
    found = []
    for d, (extent, start, end) in enumerate(zip(crop_shape, roi_start, ends, strict=True)):
        whole = None if in_shape is None else in_shape[d]
        if extent < 0 or (whole is not None and extent > whole):
            expected = "0 or more" if whole is None else f"between 0 and the {whole} of the input"
            raise ArgumentError(name, "crop_shape", expected, str(extent))
        if end < start or (whole is not None and not 0 <= start <= end <= whole):
            expected = "at most the end of the region" + ("" if whole is None else f", and both within 0..{whole}")
            raise ArgumentError(name, "roi_start", expected, f"{start}..{end}")
        low, high = min(start, end - extent), max(start, end - extent)
        if whole is not None:
            low, high = max(low, 0), min(high, whole - extent)
        if not -(1 << 63) <= low <= high < 1 << 63:
            raise ArgumentError(name, "roi_start", "in the range of int64", f"{low}..{high}")
        found.append((low, high - low + 1))
    return found
