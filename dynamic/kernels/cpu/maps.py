"""Reading one image anywhere: perspectives and maps, with borders of every kind.

An image here is (H, W, C) in any strides, and points are (x, y) in pixels from the centre of the first pixel: the pixel
of index i is at i.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy

from dynamic._base import pool
from dynamic.dtypes import convert

from . import warp
from .digits import above, exact_level, in_float32, raised

__all__ = ["BORDERS", "in_waves", "moved", "on_a_sphere", "perspective", "radius_of", "read", "remap", "waves"]

#: Borders of images.
BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")

#: NumPy's words for these borders.
_PADDED: dict[str, Any] = {"reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}
_MARGIN = 2  # pixels beyond the nearest one that an interpolation may read
_FAR = 1 << 20  # pixels; OpenCV takes float32 to integers
_REPEATS = 8  # OpenCV goes back from beyond a repeated image one image at a time
_BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101,
    "wrap": cv2.BORDER_WRAP,
}
_CODES = {"nn": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC}
_BLOCK = 1 << 17  # pixels whose points are computed at a time: in few steps, between which threads take turns
_FEW = 1 << 14  # pixels that are computed at a time where the steps are many, so that they stay in the cache

#: Points of some rows of a result: x and y of each pixel.
Points = Callable[[slice], tuple[Any, Any]]


def moved(by: float) -> Any:
    """The matrix that adds a number to both coordinates of a point."""
    return numpy.array([[1.0, 0.0, by], [0.0, 1.0, by], [0.0, 0.0, 1.0]])


def perspective(
    image: Any, matrix: Any, out: Any, *, fill: Any = 0.0, border: str = "constant", interpolation: str = "linear"
) -> None:
    """Fill `out` with the pixels that a perspective finds in an image, rounded and saturated to its dtype.

    Args:
        image: (H, W, C).
        matrix: Three rows and columns; takes (x, y, 1) of the result to (u, v, w), and (u / w, v / w) is read.
        out: Memory of the same number of channels, of any dtype.
        fill: Pixels of the border "constant": one value or one for each channel, saturated to the dtype of the image.
        border: One of `BORDERS`.
        interpolation: "nn", "linear" or "cubic".
    """
    far = _REPEATS * min(image.shape[:2]) if border in _PADDED else _FAR
    if border in _PADDED and interpolation == "cubic":
        far = min(image.shape[:2]) - _MARGIN  # OpenCV 5.0 finds wrong pixels beyond one repetition
    if border == "reflect_101" and 1 in image.shape[:2]:
        far = 0  # OpenCV reflects the only pixel for ever
    if _is_direct(image, out, interpolation) and _is_near(matrix, out.shape, far):
        flags = _CODES[interpolation] | cv2.WARP_INVERSE_MAP

        def into(source: Any, memory: Any, first: int, how: dict[str, Any]) -> None:
            below = matrix @ numpy.array([[1.0, 0.0, 0.0], [0.0, 1.0, first], [0.0, 0.0, 1.0]])
            # OpenCV computes in float32, whose overflow would be a point that it reflects two thousand million times.
            below = numpy.ldexp(below, -numpy.frexp(numpy.abs(below).max())[1])
            cv2.warpPerspective(source, below, memory.shape[1::-1], dst=memory, flags=flags, **how)

        filled = warp.filled(fill, image.dtype, image.shape[2]) if border == "constant" else None
        (warp.copied if interpolation == "nn" else warp.in_groups)(image, out, filled, into, _BORDERS[border])
        return
    read(
        image,
        functools.partial(_projected, matrix, out.shape[1]),
        out,
        fill=fill,
        border=border,
        interpolation=interpolation,
    )


def _is_direct(image: Any, out: Any, interpolation: str) -> bool:
    """Whether OpenCV can read an image at float32 points."""
    if not image.size or not out.size or max(image.shape[:2]) >= warp.OPENCV_LIMIT:
        return False
    return image.shape[2] <= warp.MOST_CHANNELS if interpolation == "nn" else in_float32(image.dtype)


def _is_near(matrix: Any, shape: Sequence[int], far: int) -> bool:
    """Whether all points that a perspective finds are in front of the eye and at most so many pixels away."""
    height, width = shape[:2]
    corners = numpy.array([[x, y, 1.0] for x in (0, width - 1) for y in (0, height - 1)])
    u, v, w = matrix @ corners.T
    nearest = numpy.abs(w).min() * far
    return bool(((w > 0).all() or (w < 0).all()) and max(numpy.abs(u).max(), numpy.abs(v).max()) < nearest)


def _projected(matrix: Any, width: int, rows: slice) -> tuple[Any, Any]:
    """The points that a perspective finds for some rows; those on the horizon are infinitely far away."""
    x = numpy.arange(width, dtype=numpy.float64)
    y = numpy.arange(rows.start, rows.stop, dtype=numpy.float64)[:, None]
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u, v, w = (row[0] * x + (row[1] * y + row[2]) for row in matrix)
        return u / w, v / w


def remap(image: Any, x: Any, y: Any, out: Any, *, shift: float = 0.0, interpolation: str = "linear") -> None:
    """Fill `out` with the pixels of an image that two maps of its shape name; outside is 0.

    Args:
        image: (H, W, C).
        x: For each pixel of the result.
        y: For each pixel of the result.
        out: Memory of the same number of channels, of any dtype.
        shift: Subtracted from both.
        interpolation: "nn", "linear" or "cubic".
    """

    def points(rows: slice) -> tuple[Any, Any]:
        return x[rows].astype(numpy.float64) - shift, y[rows].astype(numpy.float64) - shift

    read(image, points, out, interpolation=interpolation)


def radius_of(height: Any, width: Any) -> Any:
    """That of the sphere of an image, or of each of many."""
    return numpy.maximum(numpy.maximum(height // 2, width // 2), 1)


def on_a_sphere(height: int, width: int) -> Points:
    """The points that `sphere` reads: as far from the centre as the distance is, squared, in radii."""
    radius = radius_of(height, width)

    def points(rows: slice) -> tuple[Any, Any]:
        x = numpy.arange(width) - (width - 1) / 2
        y = (numpy.arange(rows.start, rows.stop) - (height - 1) / 2)[:, None]
        distance = x * x + y * y
        numpy.sqrt(distance, out=distance)
        distance /= radius
        return (width - 1) / 2 + distance * x, (height - 1) / 2 + distance * y

    return points


def in_waves(width: int, across: tuple[float, float, float], down: tuple[float, float, float]) -> Points:
    """The points that `water` reads; half a pixel is missing, as in DALI: they are places of corners, not of centres.

    Args:
        width: Number of columns.
        across: Amplitude, frequency and phase of the wave added to x.
        down: The same of the wave added to y.
    """

    def points(rows: slice) -> tuple[Any, Any]:
        x = numpy.arange(width, dtype=numpy.float32)
        y = numpy.arange(rows.start, rows.stop, dtype=numpy.float32)[:, None]
        beside, below = waves(y, x, across, down)
        return (x + beside).astype(numpy.float64) - 0.5, (y + below).astype(numpy.float64) - 0.5

    return points


def waves(y: Any, x: Any, across: tuple[float, float, float], down: tuple[float, float, float]) -> tuple[Any, Any]:
    """The offsets of waves, for the x of rows and the y of columns: float32, as DALI computes them.

    Sines are those float32 that are the nearest, which NumPy's own are not on each machine. It matters where pixels are
    read at their edges: the default frequencies take quarters of a wave at every 32nd one.

    Args:
        y: The rows, float32.
        x: The columns, float32.
        across: Amplitude, frequency and phase of the wave added to x.
        down: The same of the wave added to y.
    """

    def added(wave: Callable[[Any], Any], place: Any, shape: tuple[float, float, float]) -> Any:
        amplitude, frequency, phase = numpy.array(shape, numpy.float32)
        return amplitude * wave((place * frequency + phase).astype(numpy.float64)).astype(numpy.float32)

    with numpy.errstate(over="ignore", invalid="ignore"):
        return added(numpy.sin, y, across), added(numpy.cos, x, down)


def read(
    image: Any, points: Points, out: Any, *, fill: Any = 0.0, border: str = "constant", interpolation: str = "linear"
) -> None:
    """Fill `out` with the values at points of an image, rounded and saturated to its dtype.

    Args:
        image: (H, W, C).
        points: Called with a slice of rows: x and y of each of their pixels, float64; NaN is outside.
        out: Memory of the same number of channels, of any dtype.
        fill: As for `perspective`.
        border: As for `perspective`.
        interpolation: As for `perspective`.
    """
    if not out.size:
        return
    filled = warp.filled(fill, image.dtype, image.shape[2]) if border == "constant" else None
    if not image.size:  # nothing to repeat either
        out[...] = 0 if filled is None else convert(numpy, filled, out.dtype)
        return
    extents = image.shape[:2]
    if border in _PADDED:
        image = numpy.pad(image, [(_MARGIN, _MARGIN)] * 2 + [(0, 0)], mode=_PADDED[border])
    near = functools.partial(_near, points, extents, border, interpolation == "nn")
    if not _is_direct(image, out, interpolation):
        _gather(image, near, out, filled, interpolation)
        return

    def into(source: Any, memory: Any, first: int, how: dict[str, Any]) -> None:
        blocks = _blocks(memory.shape, _BLOCK)

        def one(i: int) -> None:
            rows = blocks[i]
            x, y = near(slice(first + rows.start, first + rows.stop))
            kind = numpy.int16 if interpolation == "nn" else numpy.float32
            places = numpy.empty((*x.shape, 2), kind)
            places[..., 0], places[..., 1] = x, y
            cv2.remap(source, places, warp.NO_MAP, _CODES[interpolation], dst=memory[rows], **how)

        pool.run_pieces(one, len(blocks), source.nbytes + memory.nbytes)

    (warp.copied if interpolation == "nn" else warp.in_groups)(image, out, filled, into)


def _near(points: Points, extents: Sequence[int], border: str, whole: bool, rows: slice) -> tuple[Any, Any]:
    """Points that read the same and are near the image; of a padded image where the border repeats it."""
    axes = points(rows)
    if whole:
        axes = numpy.floor(axes[0] + 0.5), numpy.floor(axes[1] + 0.5)
    x, y = (_folded(axis, extent, border) for axis, extent in zip(axes, extents[::-1], strict=True))
    return x, y


def _folded(axis: Any, extent: int, border: str) -> Any:
    """Coordinates along one axis; NaN becomes a place outside."""
    with numpy.errstate(invalid="ignore"):
        if border == "wrap":
            axis = axis % extent
        elif border == "reflect":
            axis = (axis + 0.5) % (2 * extent)
            axis = numpy.minimum(axis, 2 * extent - axis) - 0.5
        elif border == "reflect_101":
            period = max(1, 2 * extent - 2)
            axis = axis % period
            axis = numpy.minimum(axis, period - axis) if extent > 1 else axis * 0.0
        if border in _PADDED:
            axis, low, high = axis + _MARGIN, 0.0, extent + 2.0 * _MARGIN
        else:
            low, high = -2.0 - _MARGIN, extent + 1.0 + _MARGIN
        near = numpy.fmax(axis, low)  # NaN becomes `low`
    return numpy.minimum(near, high, out=near)


def _blocks(shape: Sequence[int], size: int) -> list[slice]:
    """Rows that together have about so many pixels."""
    step = max(1, size // max(1, shape[1]))
    return [slice(start, min(start + step, shape[0])) for start in range(0, shape[0], step)]


def _gather(image: Any, points: Points, out: Any, fill: Any, interpolation: str) -> None:
    """`read` in float64, for every dtype; cubic as OpenCV has it."""
    base = None if interpolation == "nn" else exact_level(image, *([] if fill is None else [fill]))
    if base is not None:
        image, fill = above(image, base), None if fill is None else above(fill, base)
    pixels = numpy.ascontiguousarray(image).reshape(-1, image.shape[-1])
    steps = {"nn": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[interpolation]
    blocks = _blocks(out.shape, _FEW)

    @warp.QUIET
    def one(i: int) -> None:
        rows = blocks[i]
        x, y = points(rows)
        if interpolation == "nn":
            (place,) = warp.places_of([y, x], image.shape, steps)
            convert(numpy, warp.take(pixels, place, fill), out.dtype, out=out[rows])
            return
        corners = [numpy.floor(y), numpy.floor(x)]
        weights = [
            [weight[..., None] for weight in _weights(axis - corner, len(steps))]
            for axis, corner in zip((y, x), corners, strict=True)
        ]
        total: Any = 0.0
        pairs = itertools.product(*weights)
        for place, (down, right) in zip(warp.places_of(corners, image.shape, steps), pairs, strict=True):
            total = total + warp.take(pixels, place, fill).astype(numpy.float64) * (down * right)
        raised(total, base, out[rows])

    pool.run_pieces(one, len(blocks), image.nbytes + out.nbytes)


def _weights(t: Any, count: int) -> list[Any]:
    """How much each of the pixels around counts for a point at a distance t behind the pixel before it."""
    if count == 2:
        return [1 - t, t]
    a = -0.75  # OpenCV's cubic

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]
