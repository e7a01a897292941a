"""Copying a window of an image, and normalising its channels on the way."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import Array, library
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.dtypes import convert
from dynamic.errors import ArgumentError

from .digits import in_float32
from .order import BY_SIZE
from .tables import OF_OPENCV
from .warp import MOST_CHANNELS

__all__ = ["REPEATED", "copied", "copied_inside", "filled", "normalised", "overlap", "tables_of", "taken"]


#: The ways in which a window goes on beyond the edges of an image, and their other names.
REPEATED = {"edge": ("clamp",), "reflect_1001": ("reflect",), "reflect_101": (), "wrap": ()}


def taken(operator: str, image: Array, starts: Sequence[int], policy: str, fill: Any, out: Array) -> Array:
    """Copy a window, filled outside of the image by a policy: see `copied` and `repeated`."""
    if policy not in REPEATED:
        copied(image, starts, fill, out)
    elif image.size:
        repeated(image, starts, policy, out)
    elif out.size:
        expected = "'pad' for an image without pixels"
        raise ArgumentError(operator, "out_of_bounds_policy", expected, repr(policy))
    return out


def copied(image: Array, starts: Sequence[int], fill: Any, out: Array) -> None:
    """Copy a window, which may reach over the edges of the image, and convert it to the type of `out`.

    Args:
        image: Any array.
        starts: Where the window begins in each dimension; negative is before the edge. Its shape is that of `out`.
        fill: Pixels outside of the image: a value, or an array that broadcasts to `out`.
        out: Where to.
    """
    inside, there = overlap(tuple(starts), image.shape, out.shape)
    part = image[inside]
    if part.shape != out.shape:
        filled(out, _around(out.shape, there[:-1]) if part.size else [...], fill)
    convert(numpy, part, out.dtype, out[there])


def repeated(image: Array, starts: Sequence[int], policy: str, out: Array) -> None:
    """Copy a window of an image that goes on over its edges, as a policy says; on a GPU as well.

    Args:
        image: Any array that has elements.
        starts: Where the window begins in each dimension. Its shape is that of `out`.
        policy: "edge" repeats the last row of pixels; "reflect_1001" goes back from there, repeating it, and
            "reflect_101" without; "wrap" begins again at the other edge.
        out: Where to.
    """
    xp = library(image)
    for axis, (start, extent) in enumerate(zip(starts, out.shape, strict=True)):
        size = image.shape[axis]
        if start >= 0 and start + extent <= size:
            image = image[(slice(None),) * axis + (slice(start, start + extent),)]
            continue
        places = numpy.arange(start, start + extent)
        if policy == "edge":
            places = places.clip(0, size - 1)
        elif policy == "wrap":
            places %= size
        else:
            period = 2 * size - 2 * (policy == "reflect_101")
            places %= max(period, 1)
            places = numpy.minimum(places, period - (policy == "reflect_1001") - places)
        image = xp.take(image, xp.asarray(places), axis)
    convert(xp, image, out.dtype, out)


def copied_inside(images: Sequence[Array], starts: Sequence[Sequence[int]], outs: Sequence[Array], work: int) -> None:
    """`copied` for many images whose windows are inside of them, in their own type.

    Threads would wait for each other if there were more steps between these copies than need be.

    Args:
        images: The images.
        starts: Where each window begins.
        outs: Where to.
        work: Bytes that are read and written.
    """
    rows = zip(starts, images, outs, strict=True)
    places = [overlap(tuple(start), image.shape, out.shape)[0] for start, image, out in rows]

    def some(part: slice) -> None:
        for image, place, out in zip(images[part], places[part], outs[part], strict=True):
            out[...] = image[place]

    pool.run_parts(some, len(images), work)


@functools.lru_cache(1024)
def overlap(starts: tuple[int, ...], shape: tuple[int, ...], extents: tuple[int, ...]) -> tuple[Any, Any]:
    """The overlap of an array and a window, as indices in both."""
    inside: list[slice] = []
    there: list[slice] = []
    for start, size, extent in zip(starts, shape, extents, strict=True):
        first, last = max(start, 0), min(start + extent, size)
        inside.append(slice(first, max(first, last)))
        there.append(slice(first - start, max(first, last) - start))
    return (*inside, ...), (*there, ...)  # with the dots, of no dimensions too an array


def _around(shape: Sequence[int], box: Sequence[slice]) -> list[tuple[slice, ...]]:
    """The parts of an array that are not in a box, none of them twice."""
    index, parts = [slice(None)] * len(shape), []
    for axis, (middle, extent) in enumerate(zip(box, shape, strict=True)):
        for rest in (slice(0, middle.start), slice(middle.stop, extent)):
            if rest.start < rest.stop:
                index[axis] = rest
                parts.append(tuple(index))
        index[axis] = middle
    return parts


_SHORT = 64  # elements


@functools.lru_cache(maxsize=256)
def _repeated(fill: bytes, shape: tuple[int, ...], to: numpy.dtype[Any], whole: tuple[int, ...]) -> Array:
    """Float64 as another type, broadcast to a shape, with real rows of it; making them takes longer than filling.

    NumPy copies whole rows fast, and pixels of a few channels one by one.
    """
    values = numpy.asarray(convert(numpy, numpy.frombuffer(fill).reshape(shape), to))
    last = whole[-2:]
    wide = [1] * (len(last) - len(shape)) + list(shape)
    if len(last) > 1:
        wide[-1] = last[-1]
        if last[-1] < _SHORT:
            wide[-2] = last[-2]
    return numpy.broadcast_to(numpy.ascontiguousarray(numpy.broadcast_to(values, wide)), whole)


def filled(array: Array, parts: Sequence[Any], fill: Any) -> None:
    """Fill parts of an array.

    Args:
        array: The array.
        parts: Indices of its parts.
        fill: A value, or an array that broadcasts to all of `array`; rounded and saturated to its type.
    """
    values = numpy.asarray(fill, numpy.float64)
    whole = _repeated(values.tobytes(), values.shape, array.dtype, array.shape)
    for part in parts:
        array[part] = whole[part]


_CACHE = 3 << 18  # bytes of pixels that are split into channels before they are looked up


def normalised(
    images: Array | Sequence[Array],
    factors: tuple[float, ...],
    shifts: tuple[float, ...],
    out: Array,
    mirrored: Sequence[bool],
) -> None:
    """Multiply each channel by a factor and add a shift, in float32, or in float64 where that has more digits.

    Args:
        images: Windows, shape (N, ..., H, W, C), or a list of N such of one shape.
        factors: One for each channel.
        shifts: One for each channel.
        out: Where to, shape (C, N, ..., H, W), of any dtype; integers are rounded and saturated.
        mirrored: For each of the N whether to swap left and right.
    """
    if not len(images) or not images[0].size:
        return
    if images[0].ndim > 3:
        for i, mirror in enumerate(mirrored):
            normalised(images[i], factors, shifts, out[:, i], [mirror] * len(images[i]))
        return
    way = _looked_up if images[0].dtype == numpy.uint8 and out.dtype in OF_OPENCV else _calculated
    pieces = _pieces(len(images), images[0], _CACHE if way is _looked_up else 4 * _CACHE)

    def one(k: int) -> None:
        some, rows = pieces[k]
        way([image[rows] for image in images[some]], factors, shifts, out[:, some, rows], mirrored[some])

    pool.run_pieces(one, len(pieces), len(images) * images[0].nbytes + out.nbytes)


def _pieces(count: int, image: Array, most: int) -> list[tuple[slice, slice]]:
    """Which of so many images, and rows of them, to do at once, of so many bytes: all rows where one is not larger.

    Not less: at each call of NumPy and OpenCV threads wait for Python's lock.
    """
    height, size = len(image), image.nbytes
    if size > most:
        step = max(1, most * height // size)
        return [(slice(i, i + 1), slice(row, row + step)) for i in range(count) for row in range(0, height, step)]
    step = most // size
    return [(slice(first, first + step), slice(None)) for first in range(0, count, step)]


def _calculated(
    images: Sequence[Array], factors: tuple[float, ...], shifts: tuple[float, ...], out: Array, mirrored: Sequence[bool]
) -> None:
    """The same for all types."""
    wide = out.dtype == numpy.float64 or not in_float32(images[0].dtype)
    real = numpy.dtype(numpy.float64 if wide else numpy.float32)
    with numpy.errstate(over="ignore", invalid="ignore"):
        by, more = (numpy.array(numbers).astype(real)[:, None, None] for numbers in (factors, shifts))
    for i, (image, mirror) in enumerate(zip(images, mirrored, strict=True)):
        shape = image.shape[2], *image.shape[:2]
        values = out[:, i] if out.dtype == real else empty(shape, real)
        with numpy.errstate(over="ignore", invalid="ignore"):
            if image.dtype == real and values.flags.c_contiguous and not mirror:
                _split(image, values)
            else:
                planes = _split(image, empty(shape, image.dtype))
                numpy.copyto(values, _flipped(planes) if mirror else planes, casting="unsafe")
            values *= by
            values += more
        if out.dtype != real:
            convert(numpy, values, out.dtype, out[:, i])


def _split(image: Array, planes: Array) -> Array:
    """The channels of an image (H, W, C), in memory for them (C, H, W)."""
    kind = BY_SIZE.get(image.itemsize)
    straight = image.strides[1:] == (image.shape[2] * image.itemsize, image.itemsize)
    if kind is not None and straight and image.shape[2] <= MOST_CHANNELS:
        cv2.split(image.view(kind), list(planes.view(kind)))
    else:
        planes[...] = numpy.moveaxis(image, -1, 0)
    return planes


def _flipped(planes: Array) -> Array:
    """Planes (C, H, W) with left and right swapped: a copy, where OpenCV makes it, for NumPy reads such slowly."""
    kind = BY_SIZE.get(planes.itemsize)
    if kind is None or not planes.size:
        return planes[..., ::-1]
    return (
        numpy.asarray(cv2.flip(planes.view(kind).reshape(-1, planes.shape[-1]), 1))
        .view(planes.dtype)
        .reshape(planes.shape)
    )


def _looked_up(
    images: Sequence[Array], factors: tuple[float, ...], shifts: tuple[float, ...], out: Array, mirrored: Sequence[bool]
) -> None:
    """The same from a table of the 256 values that a channel can have."""
    height, width, channels = images[0].shape
    tables, targets = tables_of(factors, shifts, out.dtype), out.view(OF_OPENCV[out.dtype])
    planes = empty((len(images), channels, height, width), images[0].dtype)
    unturned = numpy.empty(planes.shape[1:] if any(mirrored) else (0,), planes.dtype)
    for image, mirror, place in zip(images, mirrored, planes, strict=True):
        split = _split(image, unturned if mirror else place)
        if mirror:
            cv2.flip(split.reshape(-1, width), 1, place.reshape(-1, width))
    for channel, table in enumerate(tables):
        pixels, target = planes[:, channel].reshape(-1, height * width), targets[channel]
        if target[0].flags.c_contiguous:
            cv2.LUT(pixels, table, target.reshape(-1, height * width))
        else:
            target[...] = cv2.LUT(pixels, table).reshape(target.shape)


@functools.lru_cache(256)
def tables_of(factors: tuple[float, ...], shifts: tuple[float, ...], to: numpy.dtype[Any]) -> Array:
    """The normalised values of all bytes, (C, 256), as types of OpenCV."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        values = numpy.arange(256.0) * numpy.array(factors)[:, None] + numpy.array(shifts)[:, None]
        tables: Array = convert(numpy, values.astype(numpy.float32), to).view(OF_OPENCV[to])
    tables.flags.writeable = False
    return tables
