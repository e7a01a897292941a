"""Reading whole batches of images anywhere: perspectives, maps, spheres and waves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic.kernels.cpu.maps import BORDERS

from ._images import Images, tiles_of
from ._launch import cells, code, launch, table

__all__ = ["GIVEN", "KEPT", "PERSPECTIVE", "SPHERE", "WAVES", "read"]

#: How points are found: the image as it is, by a matrix, by two maps, on a sphere, or in waves.
KEPT, PERSPECTIVE, GIVEN, SPHERE, WAVES = range(5)

_TILE = 32
_MAP = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("numbers", "f8", 9),
        ("maps", "u8", 2),
        ("steps", "i8", 4),
        ("height", "i4"),
        ("width", "i4"),
        ("rows", "u4"),
        ("columns", "u4"),
        ("channels", "u4"),
        ("across", "u4"),
        ("way", "u4"),
    ],
    align=True,
)
_OWN = ("uint8", "float32")  # with kernels of their own
_KINDS = ("nn", "linear", "cubic")


def read(
    source: Images,
    target: Images,
    way: Any,
    numbers: NDArray[Any],
    *,
    fill: float | Sequence[float] = 0.0,
    border: str = "constant",
    interpolation: str,
    maps: Sequence[Described] = (),
    waves: Sequence[NDArray[Any]] = (),
) -> None:
    """Fill each target with the values at points of an image, as `kernels.cpu.maps.read` does.

    Args:
        source: Images.
        target: Of as many channels each, and of the same type.
        way: How points are found, of all images or of each.
        numbers: Parameters of the points, (M, up to 9): a matrix; an offset subtracted from maps; the centre of a
            sphere and its radius; where the waves of columns begin behind those of rows.
        fill: Pixels of the border "constant", one value or one for each channel.
        border: One of `BORDERS`.
        interpolation: "nn", "linear" or "cubic".
        maps: Where x and y are given, two maps for each image: (rows, columns).
        waves: For waves, the offsets of the x of each row and of the y of each column, of all images.
    """
    tiles, across = tiles_of(target.shapes, _TILE, _TILE)
    rows = table(
        _MAP,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        height=source.shapes[:, 0],
        width=source.shapes[:, 1],
        rows=target.shapes[:, 0],
        columns=target.shapes[:, 1],
        channels=target.shapes[:, 2],
        across=across,
        way=way,
    )
    rows["from"] = source.strides
    rows["numbers"][:, : numbers.shape[1]] = numbers
    for i, each in enumerate(maps):
        rows["maps"][:, i] = each.pointers
        rows["steps"][:, 2 * i : 2 * i + 2] = each.strides
    outside = numpy.asarray(fill, numpy.float64).reshape(-1)
    outside = numpy.broadcast_to(outside, max(1, source.most_channels)) if len(outside) == 1 else outside
    name = source.dtype.name if source.dtype.name in _OWN else "any"
    types = [code(source.dtype), *(code(each.dtype) for each in maps), *[numpy.int32(-1)] * (2 - len(maps))]
    scalars = numpy.uint32(BORDERS.index(border)), numpy.uint32(_KINDS.index(interpolation)), *types
    added = numpy.concatenate(waves).astype(numpy.float64) if waves else numpy.zeros(1)
    launch("maps", f"map_{name}", tiles, [rows, cells(outside, source.dtype), added], scalars)
