"""Images in samples: which extents and strides are theirs, whatever the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic.errors import DeviceError

__all__ = ["Images", "contiguous", "images", "joined", "planes", "tiles_of"]


@dataclass(slots=True)
class Images:
    """Images with their height, width and channels in this order; the frames of a video are images."""

    pointers: NDArray[numpy.uint64]
    shapes: NDArray[numpy.int64]  #: (M, 3)
    strides: NDArray[numpy.int64]  #: (M, 3), in bytes
    dtype: numpy.dtype[Any]
    owners: NDArray[numpy.int64] | None  #: of each image the sample that it is of; None where it is its own

    def __len__(self) -> int:
        return len(self.pointers)

    def take(self, which: NDArray[Any]) -> Images:
        """Some of them."""
        owners = (numpy.arange(len(self)) if self.owners is None else self.owners)[which]
        return Images(self.pointers[which], self.shapes[which], self.strides[which], self.dtype, owners)

    def each(self, column: Any) -> Any:
        """An array with an item for each sample, as one with an item for each image."""
        return column if self.owners is None else column[self.owners]

    @property
    def most_channels(self) -> int:
        """The most channels that any of them has."""
        return int(self.shapes[:, 2].max(initial=0))


def images(operator: str, data: Described, layout: str) -> Images:
    """The images in samples of a layout.

    Raises:
        DeviceError: They are volumes.
    """
    if "D" in layout:
        raise DeviceError(f"{operator}() of volumes runs on cpu; its input is on a GPU. Move it with .cpu().")
    axes = [layout.index(letter) for letter in "HWC" if letter in layout]
    shapes, strides = data.shapes[:, axes], data.strides[:, axes]
    if "C" not in layout:
        ones = numpy.ones((len(data), 1), numpy.int64)
        shapes, strides = numpy.hstack([shapes, ones]), numpy.hstack([strides, ones * data.dtype.itemsize])
    if "F" not in layout:
        return Images(data.pointers, shapes, strides, data.dtype, None)
    return _frames(data, [layout.index("F")], shapes, strides)


def _frames(data: Described, axes: Sequence[int], shapes: NDArray[Any], strides: NDArray[Any]) -> Images:
    """An image for each place along some dimensions, of the shapes and strides that its sample has."""
    counts = data.shapes[:, axes].prod(axis=1)
    owners = numpy.repeat(numpy.arange(len(data)), counts)
    places = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    offsets = numpy.zeros(len(owners), numpy.int64)
    for axis in reversed(axes):
        extents = data.shapes[owners, axis]
        offsets += places % extents * data.strides[owners, axis]
        places = places // extents
    pointers = (data.pointers[owners].astype(numpy.int64) + offsets).astype(numpy.uint64)
    return Images(pointers, shapes[owners], strides[owners], data.dtype, owners)


def planes(data: Described, down: int, across: int) -> Images:
    """Arrays as images of which two dimensions are the height and the width.

    One dimension behind both is the channels; all others have images of their own.
    """
    behind = [axis for axis in range(data.ndim) if axis > max(down, across)][-1:]
    others = [axis for axis in range(data.ndim) if axis not in (down, across, *behind)]
    ones = numpy.ones((len(data), 1 - len(behind)), numpy.int64)
    shapes = numpy.hstack([data.shapes[:, [down, across, *behind]], ones])
    strides = numpy.hstack([data.strides[:, [down, across, *behind]], ones * data.dtype.itemsize])
    return (
        _frames(data, others, shapes, strides) if others else Images(data.pointers, shapes, strides, data.dtype, None)
    )


def joined(arrays: Sequence[Described], apart: Sequence[int]) -> tuple[list[Described], list[int]]:
    """Arrays of the same samples with fewer dimensions: those that lie as one in the memory of all are taken for one.

    Args:
        arrays: Of as many samples and dimensions.
        apart: Dimensions that stay as they are.

    Returns:
        The arrays, and which dimensions of theirs those are now.
    """
    columns: list[list[tuple[Any, Any]]] = [
        [] for _ in arrays
    ]  # of each, extents and strides from the last dimension on
    kept, last = [], -1  # the last that stays, by its number from the end
    for axis in range(arrays[0].ndim - 1, -1, -1):
        own = [(data.shapes[:, axis], data.strides[:, axis]) for data in arrays]
        found = [column[-1] for column in columns if column]
        if axis in apart:
            last = len(columns[0])
            kept.append(last)
        elif found and last < len(columns[0]) - 1 and all(map(_follow, own, found)):
            for column, (extent, stride), (size, step) in zip(columns, own, found, strict=True):
                column[-1] = extent * size, numpy.where(size == 1, stride, step)
            continue
        for column, pair in zip(columns, own, strict=True):
            column.append(pair)
    results = []
    for data, column in zip(arrays, columns, strict=True):
        shapes, strides = (numpy.stack(part[::-1], axis=1) for part in zip(*column, strict=True))
        results.append(Described(data.pointers, shapes, strides, data.dtype))
    return results, [len(columns[0]) - 1 - place for place in reversed(kept)]


def _follow(before: tuple[Any, Any], behind: tuple[Any, Any]) -> bool:
    """Whether all of a dimension are as far apart as the elements of the one behind it are together."""
    extent, size = before[0], behind[0]
    return bool(((before[1] == behind[1] * size) | (extent == 1) | (size == 1)).all())


def tiles_of(shapes: NDArray[Any], height: int, width: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """How many tiles images have, and how many of them side by side."""
    across = -(-shapes[:, 1] // width)
    down = -(-shapes[:, 0] // height)
    return numpy.where(shapes[:, 2] > 0, across * down, 0), across


def contiguous(source: Described) -> bool:
    """Whether the elements of each sample lie one after the other."""
    steps = numpy.full(len(source), source.dtype.itemsize)
    for axis in range(source.ndim - 1, -1, -1):
        if not ((source.strides[:, axis] == steps) | (source.shapes[:, axis] <= 1)).all():
            return False
        steps = steps * source.shapes[:, axis]
    return True
