"""Operators on points: coord_flip and coord_transform."""

# ruff: noqa: N803 - DALI's names

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._lift.argument import GIVEN, DTypeArgument, Numbers, PerItem, PerSample, Word, beside, chosen
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.dtypes import float32
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import coordinates
from dynamic.kernels.cpu.digits import in_float32
from dynamic.kernels.gpu import arrays

__all__ = ["coord_flip", "coord_transform"]

_FLOAT32, _FLOAT64 = numpy.dtype("float32"), numpy.dtype("float64")
_ORDERS = ("", "x", "y", "z", "xy", "yx", "xz", "zx", "yz", "zy", "xyz", "xzy", "yxz", "yzx", "zxy", "zyx")
_Order: TypeAlias = Annotated[str, Word(dict.fromkeys(_ORDERS, ()))]


def _plan_flip(call: Call) -> Plan:
    layout = call.fixed["layout"]

    def checked(shape: Shape) -> Shape:
        extent = shape[-1] if shape else 0
        if not shape or (not layout and not 1 <= extent <= 3):
            raise ArgumentError(call.name, "points", "points of one to three coordinates", f"shape {shape}")
        if layout and len(layout) != extent:
            expected = f"a letter for each of the {extent} coordinates"
            raise ArgumentError(call.name, "layout", expected, repr(layout))
        return shape

    return Plan(call.shapes_by(checked), call.dtype if call.dtype.kind == "f" else _FLOAT32)


@operator(plan=_plan_flip, gpu=True, unit="row")
def coord_flip(
    points: Array,
    /,
    *,
    center_x: PerItem[float] = 0.5,
    center_y: PerItem[float] = 0.5,
    center_z: PerItem[float] = 0.5,
    flip_x: PerItem[int] = 1,
    flip_y: PerItem[int] = 0,
    flip_z: PerItem[int] = 0,
    layout: _Order = "",
    out: Array = GIVEN,
) -> Array:
    """Mirror points about a centre: x becomes 2 * center_x - x.

    The last dimension of the input has the coordinates of a point.

    Args:
        center_x: The centre.
        center_y: The centre.
        center_z: The centre.
        flip_x: Whether to mirror x; any integer but 0 means yes.
        flip_y: Whether to mirror y.
        flip_z: Whether to mirror z.
        layout: Which coordinates there are, in their order: by default "x", "xy" or "xyz".

    Returns:
        Points of the same shape and layout; integers become float32.

    Raises:
        ArgumentError: There are no coordinates, or more than three, or not those of `layout`.

    >>> ndd.coord_flip([[0.25, 1.0]]).tolist()
    [[0.75, 1.0]]
    """
    asked = {"x": (flip_x, center_x), "y": (flip_y, center_y), "z": (flip_z, center_z)}
    for place, letter in enumerate(layout or "xyz"[: points.shape[-1]]):
        flip, center = asked[letter]
        values = points[..., place].astype(out.dtype)
        with numpy.errstate(over="ignore", invalid="ignore"):
            mirrored = (2 * beside(center, values, numpy.float64)).astype(out.dtype) - values
        out[..., place] = chosen(flip, mirrored, values)
    return out


def _plan_transform(call: Call) -> Plan:
    """A matrix with the vector as its last column."""

    def matrix_of(i: int, shape: Shape, *given: Any) -> Array:
        try:
            return _matrix(shape, *given)
        except ArgumentError as error:
            call.noted(i, error)
            raise

    shapes, names = call.shapes[:1] if call.uniform() else call.shapes, ("M", "MT", "T")
    if call.varying or len({shape[-1:] for shape in shapes}) != 1:
        given = zip(shapes, *map(call.column, names), strict=True)
        data: Any = [matrix_of(i, *own) for i, own in enumerate(given)]
        rows = [len(matrix) for matrix in data]
    else:
        data = matrix_of(0, shapes[0], *[call.fixed[name] for name in names])
        rows = [len(data)] * len(shapes)
    results = [(*shape[:-1], count) for shape, count in zip(shapes, rows, strict=True)]
    return Plan(results[0] if len(results) == 1 else results, call.asked, data=data)


def _matrix(shape: Shape, M: Array | None, MT: Array | None, T: Array | None) -> Array:
    """The matrix of `coord_transform` for points of a shape."""
    name, columns = "coord_transform", shape[-1] if shape else 0
    if not shape:
        raise ArgumentError(name, "points", "points, with at least one dimension", "a number")
    if MT is not None and (M is not None or T is not None):
        raise ArgumentError(name, "MT", "left out when 'M' or 'T' is given", "both")
    if MT is not None and (rows := _rows("MT", MT, columns + 1)) is not None:
        return MT.reshape(rows, columns + 1)
    factor = M if M is not None else MT if MT is not None else numpy.ones(())
    rows = None if M is None else _rows("M", M, columns)
    matrix = numpy.zeros((columns if rows is None else rows, columns + 1))
    if T is not None and T.shape not in {(), (1,), (len(matrix),)}:
        expected = f"one number or {len(matrix)}, one for each coordinate"
        raise ArgumentError(name, "T", expected, f"numbers in shape {T.shape}")
    if rows is None:
        numpy.fill_diagonal(matrix, factor)
    else:
        matrix[:, :-1] = factor.reshape(rows, columns)
    if T is not None:
        matrix[:, -1] = T
    return matrix


def _rows(name: str, given: Array, columns: int) -> int | None:
    """The number of rows of a matrix, or None where it is one number, a factor."""
    if given.size == 1:
        return None
    if given.ndim == 2 and given.shape[1] == columns:
        return int(given.shape[0])
    if given.ndim == 1 and columns and given.size % columns == 0:
        return int(given.size) // columns
    expected = f"one number, or rows of {columns}"
    raise ArgumentError("coord_transform", name, expected, f"numbers in shape {given.shape}")


@operator(plan=_plan_transform, gpu=True, unit="row")
def coord_transform(
    points: Array,
    /,
    *,
    M: PerSample[Numbers | None] = None,
    MT: PerSample[Numbers | None] = None,
    T: PerSample[Numbers | None] = None,
    dtype: DTypeArgument = float32,
    plan: Array = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Multiply points, or colours, by a matrix and add a vector: M @ point + T.

    The last dimension of the input has the coordinates of a point. A matrix of m rows gives points of m coordinates.

    Args:
        M: The matrix, as nested lists or one list row by row; one number is a factor of all coordinates.
        MT: The matrix with the vector as one more column, instead of `M` and `T`.
        T: The vector; one number is added to all coordinates.
        dtype: Element type of the result; integers are rounded and saturated.

    Returns:
        Points of the same layout.

    Raises:
        ArgumentError: A matrix or vector does not fit the points or the other, or there are `MT` and `M` or `T`.

    >>> ndd.coord_transform([[1.0, 2.0]], M=[[0, 1], [1, 0]], T=[10, 20]).tolist()
    [[12.0, 21.0]]
    """
    kernels = coordinates if library(out) is numpy else arrays
    kernels.transform(points, plan, out, _FLOAT32 if in_float32(points.dtype, out.dtype) else _FLOAT64)
    return out
