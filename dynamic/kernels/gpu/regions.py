"""Parts of arrays that are filled, or pasted into larger ones, and grids whose squares are hidden."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic.errors import DeviceError

from ._images import Images
from ._launch import cells, code, launch, table

__all__ = ["filled", "masked", "part", "pasted"]

_DIMS = 6
_BLOCK = 2048  # elements, or pixels
_MOST = 1 << 31  # elements of a part
_CELL = 8  # bytes

_PART = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", _DIMS),
        ("to", "i8", _DIMS),
        ("extents", "u4", _DIMS),
        ("count", "u4"),
        ("fill", "u4"),
    ]
)
_GRID = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("cos", "f4"),
        ("sin", "f4"),
        ("left", "f4"),
        ("top", "f4"),
        ("hidden", "f4"),
        ("rows", "u4"),
        ("columns", "u4"),
        ("channels", "u4"),
    ]
)


def part(data: Described, which: NDArray[Any], starts: NDArray[Any], shapes: NDArray[Any]) -> Described:
    """Parts of some samples, each given by where it begins and how large it is.

    Args:
        data: Samples.
        which: The number of the sample that each part is of: (M,).
        starts: Its first element: (M, ndim).
        shapes: Its extents: (M, ndim).
    """
    strides = data.strides[which]
    places = data.pointers[which].astype(numpy.int64) + (starts * strides).sum(axis=1)
    return Described(places.astype(numpy.uint64), shapes, strides, data.dtype)


def filled(target: Described, values: NDArray[Any], channel: int | None) -> None:
    """Fill arrays.

    Args:
        target: Arrays in any strides.
        values: The fill of each, one value, or one for each channel: (M, 1) or (M, C).
        channel: The dimension of the channels where they have values of their own.
    """
    rows = _rows(target)
    rows["fill"] = numpy.arange(len(target)) * values.shape[1]
    if channel is not None:
        rows["from"][:, _DIMS - target.ndim + channel] = _CELL
    _launch(rows, target, target, cells(values.reshape(-1), target.dtype))


def pasted(source: Described, target: Described) -> None:
    """Copy arrays into others of their shapes, converted to their type; all may be in any strides."""
    rows = _rows(target)
    rows["source"] = source.pointers
    rows["from"][:, _DIMS - source.ndim :] = source.strides
    _launch(rows, source, target, numpy.zeros(1, numpy.uint64))


def _rows(target: Described) -> NDArray[Any]:
    if target.ndim > _DIMS:
        raise DeviceError(f"On a GPU parts of arrays have at most {_DIMS} dimensions.")
    counts = target.shapes.prod(axis=1)
    if counts.max(initial=0) >= _MOST:
        raise DeviceError("On a GPU parts of arrays have fewer than 2**31 elements.")
    rows = table(_PART, len(target), target=target.pointers, extents=1, count=counts)
    rows["extents"][:, _DIMS - target.ndim :] = target.shapes
    rows["to"][:, _DIMS - target.ndim :] = target.strides
    return rows


def _launch(rows: NDArray[Any], source: Described, target: Described, fills: NDArray[numpy.uint64]) -> None:
    name, types = f"part_{target.dtype.itemsize}", (numpy.int32(-1), numpy.int32(-1))
    if source.dtype != target.dtype:
        name, types = "part_any", (code(source.dtype), code(target.dtype))
    launch("regions", name, -(-rows["count"].astype(numpy.int64) // _BLOCK), [rows, fills], types)


def masked(source: Images, target: Images, grids: NDArray[numpy.float32]) -> None:
    """Copy images and set the corner of each tile of a grid to 0, as `kernels.cpu.regions.masked` does.

    Args:
        source: Images.
        target: Of the same shapes and type.
        grids: For each image the rotation of the grid in radians, the hidden part of a tile, how far the grid is
            moved right and down, and the side of a tile: (M, 5).
    """
    turn, hidden, right, lower, side = grids.T
    rows = table(
        _GRID,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        cos=numpy.cos(turn) / side,
        sin=numpy.sin(turn) / side,
        left=-right / side,
        top=lower / side,
        hidden=hidden,
        rows=source.shapes[:, 0],
        columns=source.shapes[:, 1],
        channels=source.shapes[:, 2],
    )
    rows["from"] = source.strides
    pixels = source.shapes[:, :2].prod(axis=1)
    launch("regions", f"grid_{source.dtype.itemsize}", -(-pixels // _BLOCK), [rows])
