"""Linear maps of many points."""

from __future__ import annotations

from typing import Any

import cv2
import numpy

from dynamic.dtypes import convert

__all__ = ["transform"]

_MOST = 4  # coordinates that OpenCV takes


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
    source = numpy.ascontiguousarray(points, work).reshape(-1, columns)
    direct = out.dtype == work and out.flags.c_contiguous
    result = out.reshape(-1, rows) if direct else numpy.empty((len(source), rows), work)
    if 0 < columns <= _MOST and rows <= _MOST:
        cv2.transform(source[None], matrix, dst=result[None])
    else:
        numpy.matmul(source, matrix[:, :-1].T.astype(work), out=result)
        result += matrix[:, -1].astype(work)
    if not direct:
        convert(numpy, result.reshape(out.shape), out.dtype, out=out)
