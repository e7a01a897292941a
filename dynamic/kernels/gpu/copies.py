"""Copies of whole samples, of windows of them in any strides, and conversions between element types."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described
from dynamic.errors import DeviceError

from ._images import contiguous
from ._launch import cells, code, launch, table

__all__ = ["pieces", "window"]

_CHUNK = 16384
_DIMS = 6
_BY_ROW = 0x80000000
_MOST = 1 << 31  # rows, and elements of a row
_FEW_ROWS = 8

_PIECE = numpy.dtype([("source", "u8"), ("target", "u8"), ("bytes", "u8")])
_WINDOW = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("strides", "i8", _DIMS),
        ("extents", "u4", _DIMS),
        ("low", "u4", _DIMS),
        ("high", "u4", _DIMS),
        ("rows", "u4"),
        ("fill", "u4"),
        ("divisor", "u4"),
        ("channels", "u4"),
        ("across", "u4"),
        ("wide", "u4"),
    ]
)
#: Conversions that have kernels of their own.
_PAIRS = frozenset(
    {("uint8", "float32"), ("uint8", "float16"), ("float32", "uint8"), ("float32", "float16"), ("float16", "float32")}
)


def pieces(source: NDArray[numpy.uint64], target: NDArray[numpy.uint64], sizes: NDArray[Any]) -> None:
    """Copy pieces of memory, which do not overlap: gather them into one buffer, or scatter one.

    Args:
        source: The address of each.
        target: Where to.
        sizes: Bytes of each.
    """
    rows = table(_PIECE, len(sizes), source=source, target=target, bytes=sizes)
    launch("copy", "pieces", -(-sizes.astype(numpy.int64) // _CHUNK), [rows])


def window(
    source: Described,
    target: Described,
    starts: NDArray[Any] | None = None,
    steps: NDArray[Any] | None = None,
    fill: Any = 0.0,
    channel: int | None = None,
) -> None:
    """Copy a window of each array, which may reach over its edges and run backwards, to the type of the target.

    Args:
        source: Arrays in any strides.
        target: Contiguous arrays of the windows' shapes.
        starts: Which element of the source, in each dimension, the first of the window is: (N, ndim).
        steps: How far apart the elements of the window are: (N, ndim), not 0.
        fill: Values outside: one, or as many as there are channels, or (N, either of these).
        channel: The dimension of the channels where there are several values.

    Raises:
        DeviceError: The arrays have too many dimensions, or too many elements in one of them.
    """
    count = len(source)
    whole = numpy.zeros_like(source.shapes) if starts is None else numpy.asarray(starts, numpy.int64)
    step = numpy.ones_like(source.shapes) if steps is None else numpy.asarray(steps, numpy.int64)
    values = numpy.asarray(fill, numpy.float64)
    values = values.reshape(count if values.ndim == 2 else 1, -1)
    if source.dtype == target.dtype and starts is None and steps is None and contiguous(source):
        pieces(source.pointers, target.pointers, target.shapes.prod(axis=1) * target.dtype.itemsize)
        return
    groups = _Groups(source, target.shapes, whole, step)
    rows = _rows(source, target, groups, whole)
    rows["fill"] = numpy.arange(count) * values.shape[1] if len(values) > 1 else 0
    rows["divisor"], rows["channels"] = _channels(groups, channel, values.shape[1])
    tiles = _tiles(rows)
    sections = [rows, cells(values, target.dtype)]
    if source.dtype == target.dtype:
        launch("copy", f"window_{source.dtype.itemsize}", tiles, sections)
    elif (source.dtype.name, target.dtype.name) in _PAIRS:
        launch("copy", f"window_{source.dtype.name}_{target.dtype.name}", tiles, sections)
    else:
        types = code(source.dtype), code(target.dtype)
        launch("copy", "window_any", tiles, sections, types)


class _Groups:
    """Dimensions of windows, those that lie in memory as one taken for one; from the first to the last."""

    def __init__(self, source: Described, shapes: NDArray[Any], starts: NDArray[Any], steps: NDArray[Any]) -> None:
        last, size = source.shapes - 1, abs(steps)
        before, behind = numpy.where(steps > 0, (-starts, last - starts), (starts - last, starts))
        low = numpy.clip(-(-before // size), 0, shapes)
        high = numpy.clip(behind // size + 1, low, shapes)
        strides = source.strides * steps
        self.shapes = shapes
        self.first: list[int] = []  # of each group its first dimension
        self.extents: list[Any] = []
        self.strides: list[Any] = []
        self.low: list[Any] = []
        self.high: list[Any] = []
        one = numpy.ones(len(source), numpy.int64)
        group = (one, one * source.dtype.itemsize, one * 0, one)
        for axis in range(source.ndim - 1, -1, -1):
            extent, stride, first, end = group
            own = shapes[:, axis], strides[:, axis], low[:, axis], high[:, axis]
            fits = (own[1] == stride * extent) | (own[0] == 1) | (extent == 1)
            if ((first == 0) & (end == extent) & fits).all():
                group = (own[0] * extent, numpy.where(extent == 1, own[1], stride), own[2] * extent, own[3] * extent)
            else:
                self._add(axis + 1, group)
                group = own
        self._add(0, group)

    def _add(self, axis: int, group: tuple[Any, Any, Any, Any]) -> None:
        self.first.insert(0, axis)
        for column, values in zip((self.extents, self.strides, self.low, self.high), group, strict=True):
            column.insert(0, values)


def _rows(source: Described, target: Described, groups: _Groups, starts: NDArray[Any]) -> NDArray[Any]:
    """The table, but for the fill."""
    count, used = len(source), len(groups.first)
    if used > _DIMS:
        raise DeviceError(f"On a GPU windows of arrays have at most {_DIMS} dimensions that are not contiguous.")
    rows = table(_WINDOW, count, target=target.pointers, extents=1, high=1)
    rows["source"] = (source.pointers.astype(numpy.int64) + (starts * source.strides).sum(axis=1)).astype(numpy.uint64)
    for name in ("strides", "extents", "low", "high"):
        columns = numpy.stack(getattr(groups, name), axis=1)
        if name == "extents":
            lines = columns[:, :-1].prod(axis=1)
            if count and max(columns.max(), lines.max()) >= _MOST:
                raise DeviceError("On a GPU arrays have fewer than 2**31 rows, and elements in a row.")
            rows["rows"] = lines
        rows[name][:, _DIMS - used :] = columns
    quads = -(-rows["extents"][:, -1].astype(numpy.int64) // 4)
    rows["wide"] = rows["rows"] < _FEW_ROWS
    rows["across"] = numpy.minimum(numpy.ceil(numpy.log2(numpy.maximum(quads, 1))), numpy.where(rows["wide"], 8, 5))
    return rows


def _channels(groups: _Groups, channel: int | None, values: int) -> tuple[Any, Any]:
    """How the channel of an element follows from its place in the row, or from its row."""
    if values == 1 or channel is None:
        return 1, 1
    behind = groups.first[-1]
    if channel >= behind:
        return groups.shapes[:, channel + 1 :].prod(axis=1), values
    return groups.shapes[:, channel + 1 : behind].prod(axis=1), values | _BY_ROW


def _tiles(rows: NDArray[Any]) -> NDArray[numpy.int64]:
    side = 1 << rows["across"].astype(numpy.int64)
    wide = rows["wide"] == 1
    columns, down = side * numpy.where(wide, 16, 4), 256 // side * numpy.where(wide, 1, 4)
    found: NDArray[numpy.int64] = -(-rows["extents"][:, -1].astype(numpy.int64) // columns) * -(
        -rows["rows"].astype(numpy.int64) // down
    )
    return found
