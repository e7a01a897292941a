"""Resizing and blurring of whole batches: separable filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic.errors import DeviceError
from dynamic.kernels.cpu.resample import filter_values, spacing

from . import copies
from ._images import Images, joined, planes, tiles_of
from ._launch import code, launch, table

__all__ = ["Along", "blurred", "resampled", "resampled_arrays"]

_WIDE, _HIGH = 32, 16  # pixels of a block
_BAND_BYTES = 128  # of a row of one channel in shared memory, times the rows: 32 float32 or 16 float64
_MOST_KEPT = 128  # weights of a pixel
_KEPT, _NEAREST, _NEAREST_IN_TURN, _FILTERED, _WEIGHTED = range(5)
_AXIS = numpy.dtype(
    [
        ("begin", "f4"),
        ("scale", "f4"),
        ("resolution", "f4"),
        ("kind", "i4"),
        ("taps", "i4"),
        ("last", "i4"),
        ("values", "u4"),
        ("extent", "i4"),
    ]
)
_RESAMPLE = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("y", _AXIS),
        ("x", _AXIS),
        ("rows", "u4"),
        ("columns", "u4"),
        ("channels", "u4"),
        ("across", "u4"),
    ]
)
#: Types that have kernels of their own, and for how many channels at a time.
_OWN = {
    ("uint8", "uint8"): (1, 3, 4),
    ("uint8", "float32"): (3,),
    ("uint16", "uint16"): (4,),
    ("int16", "int16"): (4,),
    ("float32", "float32"): (1, 3, 4),
}


@dataclass(slots=True)
class Along:
    """The resampling along one dimension of images, as `kernels.cpu.resample.Along` has it for one of them."""

    start: NDArray[Any]  #: (M,)
    end: NDArray[Any]  #: (M,)
    filters: NDArray[numpy.str_]  #: (M,)
    antialias: bool
    running: bool | NDArray[numpy.bool_]  #: (M,) where it differs

    def of(self, images: Images) -> Along:
        """The same for each image of a sample."""
        running = self.running if isinstance(self.running, bool) else images.each(self.running)
        return Along(images.each(self.start), images.each(self.end), images.each(self.filters), self.antialias, running)


def resampled(source: Images, target: Images, down: Along, across: Along) -> None:
    """Fill each target with a resized image.

    Args:
        source: Images that have pixels.
        target: Images of as many channels each.
        down: The resampling along the rows of pixels.
        across: The resampling along the columns.
    """
    used = sorted({*down.filters.tolist(), *across.filters.tolist()} - {"nn"})
    parts = [numpy.append(filter_values(name), numpy.zeros(2, numpy.float32)) for name in used]
    places = dict(zip(used, numpy.cumsum([0, *map(len, parts)]).tolist(), strict=False))
    values = numpy.concatenate(parts) if parts else numpy.zeros(1, numpy.float32)
    axes = [_axis(along, source.shapes[:, i], target.shapes[:, i], places) for i, along in enumerate((down, across))]
    _launch(source, target, axes, values)


def resampled_arrays(
    source: Described, target: Described, bounds: NDArray[Any], filters: NDArray[numpy.str_], antialias: bool
) -> None:
    """Fill each target with an array that is resized along one dimension or two, which need not be neighbours.

    Args:
        source: Arrays of any number of dimensions.
        target: Contiguous arrays of as many dimensions.
        bounds: From where to where each dimension is shown: (N, ndim, 2).
        filters: The filter for each dimension: (N, ndim).
        antialias: Whether filters widen where the result is smaller.

    Raises:
        DeviceError: More than two dimensions of an array are resized.
    """
    starts, ends = bounds[:, :, 0], bounds[:, :, 1]
    resized = (source.shapes != target.shapes) | (starts != 0) | (ends != source.shapes)
    moved = resized | (filters == "gaussian")  # which blurs without resizing too
    if moved.sum(axis=1).max(initial=0) > 2:
        raise DeviceError(
            "tensor_resize() along more than two dimensions runs on cpu; its input is on a GPU. Move it with .cpu()."
        )
    # As on the CPU: the last of the dimensions that are resized is the columns, unless it is alone and others follow.
    last = numpy.where(resized, numpy.arange(source.ndim), -1).max(axis=1, initial=-1)
    columns = numpy.where((resized.sum(axis=1) > 1) | (last == source.ndim - 1), last, -1)
    for pattern in numpy.unique(moved, axis=0):
        which, axes = numpy.flatnonzero((moved == pattern).all(axis=1)), numpy.flatnonzero(pattern).tolist()
        before, after = source.take(which), target.take(which)
        steps = [
            Along(starts[which, i], ends[which, i], filters[which, i], antialias, columns[which] != i) for i in axes
        ]
        if axes:
            _resampled_along(before, after, axes, steps)
        else:
            copies.window(before, after)


def _resampled_along(source: Described, target: Described, axes: list[int], along: Sequence[Along]) -> None:
    """The same for arrays of which the same dimensions are resized, one or two from the first to the last."""
    (source, target), axes = joined([source, target], axes)
    steps: list[Along | None] = list(along)
    if len(axes) == 1:  # beside it is the one behind it, or the one before it, or one of a single element
        if source.ndim == 1:
            source, target = (_in_rows(data) for data in (source, target))
            axes = [1]
        behind = axes[0] + 1 < source.ndim
        axes = [axes[0], axes[0] + 1] if behind else [axes[0] - 1, axes[0]]
        steps.insert(1 if behind else 0, None)
    before, after = (planes(data, *axes) for data in (source, target))
    none = numpy.zeros(len(before))
    down, across = (
        Along(none, before.shapes[:, i], numpy.full(len(none), "nn"), antialias=False, running=False)
        if step is None
        else step.of(before)
        for i, step in enumerate(steps)
    )
    resampled(before, after, down, across)


def _in_rows(data: Described) -> Described:
    """Arrays of one dimension as arrays of one row."""
    shapes, strides = (numpy.insert(columns, 0, 1, axis=1) for columns in (data.shapes, data.strides))
    return Described(data.pointers, shapes, strides, data.dtype)


def _axis(along: Along, extents: NDArray[Any], sizes: NDArray[Any], places: dict[str, int]) -> NDArray[Any]:
    start, end, size = (numpy.asarray(each).astype(numpy.float32) for each in (along.start, along.end, sizes))
    kind = numpy.where(along.running, _NEAREST_IN_TURN, _NEAREST)
    axis = table(
        _AXIS, len(sizes), begin=start, scale=(end - start) / numpy.maximum(size, 1), kind=kind, taps=1, extent=extents
    )
    for name, place in places.items():
        here = along.filters == name
        if here.any():
            begin, scale, resolution = spacing(name, start[here], end[here], size[here], along.antialias)
            last = len(filter_values(name)) - 1
            count = numpy.ceil(numpy.float32(last) / resolution)
            for field, column in (
                ("begin", begin),
                ("scale", scale),
                ("resolution", resolution),
                ("taps", count),
                ("kind", _FILTERED),
                ("last", last),
                ("values", place),
            ):
                axis[field][here] = column
    same = (sizes == extents) & (along.start == 0) & (along.end == extents) & (along.filters != "gaussian")
    axis["kind"][same], axis["taps"][same] = _KEPT, 1
    return axis


def blurred(source: Images, target: Images, windows: Sequence[NDArray[Any]], sizes: NDArray[Any]) -> None:
    """Fill each target with an image that is weighted along both dimensions; the outside is reflected about the edges.

    Args:
        source: Images.
        target: Images of the same sizes.
        windows: For rows and for columns, the weights of all images one after the other.
        sizes: How many weights, an odd number, each image has for its rows, and for its columns: (M, 2).
    """
    values = numpy.concatenate(windows).astype(numpy.float32)
    axes, place = [], 0
    for i, window in enumerate(windows):
        ends = numpy.cumsum(sizes[:, i])
        axes.append(
            table(
                _AXIS,
                len(source),
                kind=_WEIGHTED,
                taps=sizes[:, i],
                extent=source.shapes[:, i],
                values=ends - sizes[:, i] + place,
            )
        )
        place += len(window)
    _launch(source, target, axes, values)


def _launch(source: Images, target: Images, axes: Sequence[NDArray[Any]], values: NDArray[Any]) -> None:
    down, across = axes
    tiles, beside = tiles_of(target.shapes, _HIGH, _WIDE)
    rows = table(
        _RESAMPLE,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        y=down,
        x=across,
        rows=target.shapes[:, 0],
        columns=target.shapes[:, 1],
        channels=target.shapes[:, 2],
        across=beside,
    )
    rows["from"] = source.strides
    pair = (source.dtype.name, target.dtype.name)
    each = _channels_at_once(pair, source.shapes[:, 2])
    kernel = "resample_any" if each is None else "resample_" + "_".join(pair)
    each = each or 4
    kept = [int(axis["taps"][axis["taps"] <= _MOST_KEPT].max(initial=0)) for axis in (across, down)]
    shared = each * 32 * _BAND_BYTES + 4 * (4 * (_WIDE + _HIGH) + kept[0] * _WIDE + kept[1] * _HIGH)
    types = code(source.dtype), code(target.dtype)
    launch("resample", f"{kernel}_{each}", tiles, [rows, values], (*map(numpy.uint32, kept), *types), shared)


def _channels_at_once(pair: tuple[str, str], channels: NDArray[Any]) -> int | None:
    """How many channels the kernel for two types that is to be used computes at a time; None where there is none."""
    own = _OWN.get(pair)
    if own is None:
        return None
    alike = int(channels[0]) if len(channels) and (channels == channels[0]).all() else 0
    return alike if alike in own else 4 if 4 in own else None
