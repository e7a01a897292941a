"""Rotations: how large a rotated image is, and the matrix that says where its pixels come from.

An image has its spatial dimensions first, two (H, W) or three (D, H, W). Matrices are as in `warp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

__all__ = ["canvas", "canvases", "quarter_turns", "rotation", "rotations", "turns"]

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


def canvases(
    sizes: Sequence[Sequence[int]],
    angles: Sequence[float],
    axes: Sequence[Sequence[float] | None],
    frames: Sequence[int] | None = None,
) -> list[tuple[int, ...]]:
    """`canvas` of many images. Frames of a video get one size, as DALI computes it.

    An extent is the largest of all frames, one more where that gives it the parity that most of them would have; the
    even one where as many would have the other.

    Args:
        sizes: (H, W) or (D, H, W) of each.
        angles: Degrees.
        axes: For three dimensions, the (x, y, z) to rotate about.
        frames: For frames of videos, the number of frames of each video.

    >>> from dynamic.kernels.cpu.rotations import canvases
    >>> canvases([(20, 31)] * 3, [90, 0, 0], [None] * 3, [3])
    [(32, 31), (32, 31), (32, 31)]
    """
    grown: list[Any] = []
    odd: list[Any] = []
    if sizes and axes[0] is None:
        for (height, width), (cos, sin) in zip(sizes, _cos_sins(angles), strict=True):
            c, s = abs(cos), abs(sin)
            grown.append((math.ceil(c * height + s * width - 0.01), math.ceil(c * width + s * height - 0.01)))
            odd.append((height % 2, width % 2) if s <= c else (width % 2, height % 2))
        if frames is None:
            return [(h + (h - a) % 2, w + (w - b) % 2) for (h, w), (a, b) in zip(grown, odd, strict=True)]
    else:
        for size, angle, axis in zip(sizes, angles, axes, strict=True):
            extents, parities = _grown(size, angle, axis)
            grown.append(extents)
            odd.append(parities)
    result, parity = numpy.array(grown, int), numpy.array(odd, int)
    start = 0
    for count in frames or ():
        own = slice(start, start + count)
        if count:
            result[own], parity[own] = result[own].max(axis=0), 2 * parity[own].sum(axis=0) > count
        start += count
    return list(map(tuple, (result + (result - parity) % 2).tolist()))


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
    """`rotation` of many images at once.

    Args:
        sizes: (N, 2), height and width of each.
        output_sizes: (N, 2).
        angles: (N,), in degrees.

    Returns:
        (N, 2, 3).
    """
    cos, sin = numpy.array(_cos_sins(numpy.asarray(angles).tolist())).reshape(-1, 2).T
    (y, x), (v, u) = (numpy.asarray(each, numpy.float64).T / 2 for each in (sizes, output_sizes))
    return numpy.stack([cos, -sin, x - (cos * u - sin * v), sin, cos, y - (sin * u + cos * v)], 1).reshape(-1, 2, 3)


def quarter_turns(angle: float) -> int | None:
    """How many quarter turns an angle in degrees is, from 0 to 3; None where it is no whole number of them."""
    quarters, rest = divmod(angle, 90)
    return None if rest else int(quarters) % 4


def turns(
    sizes: Sequence[tuple[int, ...]],
    output_sizes: Sequence[tuple[int, ...]],
    angles: Sequence[float],
    axes: Sequence[Sequence[float] | None],
) -> list[Any]:
    """For each image the number of quarter turns that rotates it, where that moves whole pixels; else its matrix."""
    if not sizes or axes[0] is not None:
        return [rotation(*row) for row in zip(sizes, output_sizes, angles, axes, strict=True)]
    found: list[Any] = []
    for size, made, angle, (cos, sin) in zip(sizes, output_sizes, angles, _cos_sins(angles), strict=True):
        (y, x), (v, u) = size, made
        if angle % 90 == 0 and made == (size if angle % 180 == 0 else (x, y)):
            found.append(int(angle // 90) % 4)
        else:
            rows = [[cos, -sin, (x - (cos * u - sin * v)) / 2], [sin, cos, (y - (sin * u + cos * v)) / 2]]
            found.append(rows)
    return found


def _turn(angle: float, axis: Sequence[float]) -> Any:
    """The matrix that turns points (x, y, z) of the input counter-clockwise about an axis."""
    cos, sin = _cos_sin(angle)
    x, y, z = numpy.asarray(axis, numpy.float64) / math.hypot(*axis)
    along = numpy.outer((x, y, z), (x, y, z))
    across = numpy.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return cos * numpy.eye(3) + (1 - cos) * along + sin * across


def _cos_sins(angles: Sequence[float]) -> list[tuple[float, float]]:
    """`_cos_sin` of many angles."""
    near = numpy.array([angle if abs(angle) < 1e30 else math.fmod(angle, 360) for angle in angles], numpy.float64)
    radians = (near.astype(numpy.float32) * _RADIAN).tolist()
    # Not by NumPy, whose sines may have other last bits: which pixel a point halfway between two lies in tells them.
    return [
        (math.cos(radian), math.sin(radian)) if angle % 90 else _QUARTERS[int(angle // 90) % 4]
        for angle, radian in zip(angles, radians, strict=True)
    ]


_QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


def _cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine of degrees.

    The radians are rounded to float32: whether a sine is below a cosine at 45 degrees decides about DALI's canvas.
    """
    quarters = quarter_turns(angle)
    if quarters is not None:
        return _QUARTERS[quarters]
    angle = angle if abs(angle) < 1e30 else math.fmod(angle, 360)
    radians = float(numpy.float32(angle) * _RADIAN)
    return math.cos(radians), math.sin(radians)
