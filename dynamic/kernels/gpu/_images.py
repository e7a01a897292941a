"""Images in samples: which extents and strides are theirs, whatever the layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._described import Described
from dynamic.errors import DeviceError

__all__ = ["Images", "contiguous", "images", "tiles_of"]


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
        """What belongs to each sample, an array, for each image."""
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
    frame = layout.index("F")
    counts = data.shapes[:, frame]
    owners = numpy.repeat(numpy.arange(len(data)), counts)
    places = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    pointers = data.pointers[owners] + (places * data.strides[owners, frame]).astype(numpy.uint64)
    return Images(pointers, shapes[owners], strides[owners], data.dtype, owners)


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
