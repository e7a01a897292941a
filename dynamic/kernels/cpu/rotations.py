"""Rotations: how large a rotated image is, and the matrix that says where its pixels come from.

An image has its spatial dimensions first, two (H, W) or three (D, H, W). Matrices are as in `warp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

__all__ = ["canvas", "common_canvas", "quarter_turns", "rotation", "rotations"]

_RADIAN = numpy.float32(math.pi / 180)


def canvas(size: Sequence[int], angle: float, axis: Sequence[float] | None = None) -> tuple[int, ...]:
    """The size that holds all corners of a rotated image, as DALI computes it.

    A hundredth of a pixel is allowed to be lost, and an extent grows by one where that keeps its parity: the parity of
    the input extent that points most in its direction, so that the centre stays a corner or a centre of pixels.

    Args:
        size: (H, W) or (D, H, W).
        angle: Degrees.
        axis: For three dimensions, the (x, y, z) to rotate about.

    >>> from dynamic.kernels.cpu.rotations import canvas
    >>> canvas((100, 200), 30)
    (188, 224)
    """
    return tuple(extent + (extent - parity) % 2 for extent, parity in zip(*_grown(size, angle, axis), strict=True))


def common_canvas(size: Sequence[int], turns: Sequence[tuple[float, Sequence[float] | None]]) -> tuple[int, ...]:
    """The size that holds all frames of a video, each rotated by its own angle (and axis), as DALI computes it.

    An extent is the largest of all frames, one more where that gives it the parity that most of them would have; the
    even one where as many would have the other.

    >>> from dynamic.kernels.cpu.rotations import common_canvas
    >>> common_canvas((20, 31), [(90, None), (0, None), (0, None)])
    (32, 31)
    """
    grown, parities = map(numpy.array, zip(*(_grown(size, angle, axis) for angle, axis in turns), strict=True))
    extents = grown.max(axis=0)
    odd = 2 * parities.sum(axis=0) > len(parities)
    return tuple((extents + (extents - odd) % 2).tolist())


def _grown(size: Sequence[int], angle: float, axis: Sequence[float] | None) -> tuple[Sequence[int], Sequence[int]]:
    """The extents of a rotated image, and for each whether it had better be odd."""
    if axis is None:
        (height, width), (cos, sin) = size, map(abs, _cos_sin(angle))
        grown = math.ceil(cos * height + sin * width - 0.01), math.ceil(cos * width + sin * height - 0.01)
        return grown, (height % 2, width % 2) if sin <= cos else (width % 2, height % 2)
    matrix, extents = numpy.abs(_turn(angle, axis)), numpy.asarray(size[::-1])
    nearest = numpy.argmax(matrix + 1e-7 * numpy.eye(3), axis=1).tolist()  # of equals the one on the diagonal
    return numpy.ceil(matrix @ extents - 0.01).astype(int)[::-1].tolist(), (extents[nearest] % 2)[::-1].tolist()


def rotation(
    size: Sequence[int], output_size: Sequence[int], angle: float, axis: Sequence[float] | None = None
) -> list[list[float]]:
    """The matrix that rotates about the centre of an input of `size` and puts it into the centre of the output."""
    if axis is None:  # as `rotations` has it, without arrays of a few numbers
        (y, x), (v, u), (cos, sin) = size, output_size, _cos_sin(angle)
        return [[cos, -sin, (x - (cos * u - sin * v)) / 2], [sin, cos, (y - (sin * u + cos * v)) / 2]]
    turn = _turn(angle, axis).T
    middle, output_middle = (numpy.asarray(s[::-1], numpy.float64) / 2 for s in (size, output_size))
    rows: list[list[float]] = numpy.column_stack([turn, middle - turn @ output_middle]).tolist()
    return rows


def rotations(sizes: Any, output_sizes: Any, angles: Any) -> Any:
    """What `rotation` says of many images at once.

    Args:
        sizes: (N, 2), height and width of each.
        output_sizes: (N, 2).
        angles: (N,), in degrees.

    Returns:
        (N, 2, 3).
    """
    angles = numpy.asarray(angles, numpy.float64)
    quarters, rest = numpy.divmod(angles, 90)
    near = numpy.where(abs(angles) < 1e30, angles, numpy.fmod(angles, 360))
    radians = (near.astype(numpy.float32) * _RADIAN).astype(numpy.float64)
    whole, quarter = rest == 0, (quarters % 4).astype(int)
    # Not by NumPy, whose sines may have other last bits: which pixel a point halfway between two lies in tells them.
    cosines, sines = ([function(each) for each in radians.tolist()] for function in (math.cos, math.sin))
    cos = numpy.where(whole, numpy.array([1.0, 0.0, -1.0, 0.0])[quarter], cosines)
    sin = numpy.where(whole, numpy.array([0.0, 1.0, 0.0, -1.0])[quarter], sines)
    (y, x), (v, u) = (numpy.asarray(each, numpy.float64).T / 2 for each in (sizes, output_sizes))
    return numpy.stack([cos, -sin, x - (cos * u - sin * v), sin, cos, y - (sin * u + cos * v)], 1).reshape(-1, 2, 3)


def quarter_turns(angle: float) -> int | None:
    """How many quarter turns an angle in degrees is, from 0 to 3; None where it is no whole number of them."""
    quarters, rest = divmod(angle, 90)
    return None if rest else int(quarters) % 4


def _turn(angle: float, axis: Sequence[float]) -> Any:
    """The matrix that turns points (x, y, z) of the input counter-clockwise about an axis."""
    cos, sin = _cos_sin(angle)
    x, y, z = numpy.asarray(axis, numpy.float64) / math.hypot(*axis)
    along = numpy.outer((x, y, z), (x, y, z))
    across = numpy.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return cos * numpy.eye(3) + (1 - cos) * along + sin * across


def _cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine of degrees.

    The radians are rounded to float32: whether a sine is below a cosine at 45 degrees decides about DALI's canvas.
    """
    quarters = quarter_turns(angle)
    if quarters is not None:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters]
    angle = angle if abs(angle) < 1e30 else math.fmod(angle, 360)
    radians = float(numpy.float32(angle) * _RADIAN)
    return math.cos(radians), math.sin(radians)
