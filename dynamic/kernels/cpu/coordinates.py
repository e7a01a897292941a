"""Linear maps of many points."""

from __future__ import annotations

from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic.dtypes import convert

__all__ = ["multiplied", "transform"]

_MOST = 4  # coordinates that OpenCV takes
_LAST = 64  # points; more than OpenCV's vectors leave over


def transform(points: Any, matrix: Any, out: Any, work: Any) -> None:
    """Fill `out` with points multiplied by a matrix, rounded and saturated to its dtype.

    Args:
        points: (..., n), of any dtype.
        matrix: (m, n + 1); the last column is added.
        out: Memory of shape (..., m), of any dtype.
        work: float32 or float64, the dtype to compute in.
    """
    if not out.size:
        return
    rows, columns = len(matrix), points.shape[-1]
    count = out.size // rows  # points may have no coordinates
    source = numpy.ascontiguousarray(points, work).reshape(count, columns)
    direct = out.dtype == work and out.flags.c_contiguous
    result = out.reshape(count, rows) if direct else numpy.empty((count, rows), work)
    if 0 < columns <= _MOST and rows <= _MOST:
        multiplied(source, matrix, result)
    else:
        # Not by BLAS: how many points there are would change last bits.
        with numpy.errstate(over="ignore", invalid="ignore"):  # as OpenCV does
            *factors, shifts = matrix.T.astype(work)
            result[...] = shifts
            for column, factor in zip(source.T, factors, strict=True):
                result += column[:, None] * factor
    if not direct:
        convert(numpy, result.reshape(out.shape), out.dtype, out=out)


def multiplied(points: Array, matrix: Any, out: Array) -> None:
    """Fill `out` with points multiplied by a matrix: the result of one does not depend on its place.

    OpenCV leaves the last few points to single steps, which may find other last bits than its vectors. So these points
    are done again, with others behind them.

    Args:
        points: (n, k), float32 or float64, k at most 4.
        matrix: (m, k + 1), m at most 4; the last column is added.
        out: Memory of shape (n, m), of the same dtype.
    """
    count, last = len(points), min(len(points), _LAST)
    if count > last:
        cv2.transform(points[None], matrix, dst=out[None])
    padded = numpy.zeros((1, 2 * _LAST, points.shape[1]), points.dtype)
    padded[0, :last] = points[count - last :]
    out[count - last :] = cv2.transform(padded, matrix).reshape(2 * _LAST, -1)[:last]
