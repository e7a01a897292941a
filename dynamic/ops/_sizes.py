"""How large a resized image is, and which part of the input it shows: arithmetic in float32 and float64 as DALI's.

Halves of a pixel decide about whole extents, so values that DALI keeps in float32 are rounded to float32 here too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from dynamic._base.layout import axes_of, spatial
from dynamic.errors import ArgumentError, shown

__all__ = ["ROUNDINGS", "SIZE_ARGUMENTS", "Span", "cut", "filter_of", "image_spans", "tensor_spans"]

_LEAST_REGION = 1e-3  # pixels; a region that is empty by an error of rounding shows something all the same
_MOST_STRETCH = 10.0
_FARTHEST = 1e9
_FARTHEST_REGION = 1 << 20  # pixels
_MOST = 2.0**60  # pixels; no memory holds so many, and products with any extent are float32
_LARGEST = float(numpy.finfo(numpy.float32).max)


class Span(NamedTuple):
    """One dimension of a result: its pixels, and the part of the input that they show."""

    size: int
    start: float
    end: float  #: less than `start` where the result is mirrored


def filter_of(span: Span, interp_type: str, min_filter: str | None, mag_filter: str | None) -> str:
    """The filter for one dimension."""
    kind = interp_type
    if min_filter or mag_filter:
        smaller = span.size < abs(numpy.float32(span.end) - numpy.float32(span.start))
        kind = (min_filter if smaller else mag_filter) or interp_type
    return "linear" if kind == "triangular" else kind


#: How the size of a result becomes whole.
ROUNDINGS: dict[str, Callable[[float], int]] = {
    "round": lambda size: math.floor(size + 0.5),
    "truncate": math.trunc,
    "ceil": math.ceil,
}


def _spans(
    extents: Sequence[int],
    wanted: Sequence[float],
    *,
    mode: str = "default",
    max_size: Sequence[float] | None = None,
    region: tuple[Sequence[float], Sequence[float]] | None = None,
    relative: bool = False,
    subpixel_scale: bool = True,
    alignment: Sequence[float] | None = None,
    rounding: str = "round",
    empty: bool = False,
) -> list[Span]:
    """The span of each dimension.

    Args:
        extents: Those of the input.
        wanted: Those of the result; 0 where the mode decides, and less where it is to be mirrored.
        mode: "default", "stretch", "not_larger" or "not_smaller".
        max_size: The most extents of the result; 0 or less is no limit.
        region: Where in the input the result starts and ends; by default all of it.
        relative: Whether the region is in parts of the extents.
        subpixel_scale: Whether the region changes with the size when that is rounded, so that the scale stays.
        alignment: Which point of the region stays where it is then, from 0 for its start to 1 for its end.
        rounding: How sizes become whole, see `ROUNDINGS`.
        empty: Whether the input has no pixels: results of 0 pixels are allowed.
    """
    parts, signed = [], []
    for i, (extent, size) in enumerate(zip(extents, wanted, strict=True)):
        low, high = (0.0, float(extent)) if region is None else _region(extent, region[0][i], region[1][i], relative)
        parts.append((min(low, high), max(low, high)))
        signed.append(-_float32(size) if high < low else _float32(size))
    sizes = _sizes(signed, [_float32(high - low) for low, high in parts], mode, max_size)
    found = []
    for i, ((low, high), size) in enumerate(zip(parts, sizes, strict=True)):
        whole = max(0 if empty else 1, ROUNDINGS[rounding](abs(size)))
        start, end = (high, low) if size < 0 else (low, high)
        if subpixel_scale and whole != abs(size) and size:
            stretch = min(whole / abs(size), _MOST_STRETCH)
            centre = start + (end - start) * (0.5 if alignment is None else _float32(alignment[i]))
            start, end = (
                _float32(min(max(centre + (x - centre) * stretch, -_FARTHEST), _FARTHEST)) for x in (start, end)
            )
        found.append(Span(whole, start, end))
    return found


def cut(span: Span, start: int, size: int, *, mirror: bool) -> Span:
    """The part of a result from pixel `start` on, which may reach over its ends."""
    step = (span.end - span.start) / span.size if span.size else 0.0
    first, last = (_limited(span.start + step * place) for place in (start, start + size))
    return Span(size, last, first) if mirror else Span(size, first, last)


def _float32(value: float) -> float:
    return float(numpy.float32(value))


def _limited(value: float) -> float:
    """A place that is not farther away than anything may be."""
    return _float32(min(max(value, -_MOST), _MOST))


def _region(extent: int, low: float, high: float, relative: bool) -> tuple[float, float]:
    """The start and the end of a region along one dimension, at least a thousandth of a pixel apart."""
    if not extent:
        return 0.0, 0.0
    low, high = _float32(low), _float32(high)
    if relative:
        low, high = low * extent, high * extent
    if abs(high - low) < _LEAST_REGION:
        offset = math.copysign(_LEAST_REGION / 2, high - low)
        low, high = low - offset, high + offset
    return _limited(low), _limited(high)


def _sizes(
    wanted: Sequence[float], extents: Sequence[float], mode: str, max_size: Sequence[float] | None
) -> list[float]:
    """The sizes of the result before they are rounded: those that are missing found, limits and the mode obeyed."""
    given = [bool(size and extent) for size, extent in zip(wanted, extents, strict=True)]
    if not any(given):
        return list(extents)
    if all(given) and max_size is None and mode in ("default", "stretch"):
        return list(wanted)
    scales = [_float32(size / extent) if extent else 1.0 for size, extent in zip(wanted, extents, strict=True)]
    chosen = [abs(scale) for scale, is_given in zip(scales, given, strict=True) if is_given]
    limits = [math.inf] * len(extents) if max_size is None else [_float32(m) if m > 0 else math.inf for m in max_size]
    if mode in ("not_larger", "not_smaller"):
        scale = min(chosen) if mode == "not_larger" else max(chosen)
        scale = min(scale, *(limit / extent for limit, extent in zip(limits, extents, strict=True) if extent))
        return [
            size if is_given and abs(own) == scale else _float32(extent * math.copysign(scale, own))
            for size, extent, own, is_given in zip(wanted, extents, scales, given, strict=True)
        ]
    average = math.prod(chosen) if len(chosen) == 1 else math.prod(chosen) ** (1 / len(chosen))
    rest = average if mode == "default" else 1.0
    sizes = [
        size if is_given else _float32(extent * rest)
        for size, extent, is_given in zip(wanted, extents, given, strict=True)
    ]
    return [math.copysign(min(abs(size), limit), size) for size, limit in zip(sizes, limits, strict=True)]


#: The arguments that decide the size of an image, in the order of `image_spans`.
SIZE_ARGUMENTS = (
    "size",
    "resize_x",
    "resize_y",
    "resize_z",
    "resize_shorter",
    "resize_longer",
    "mode",
    "max_size",
    "roi_start",
    "roi_end",
    "roi_relative",
    "subpixel_scale",
)
_SINGLE = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}
_METHODS = ("size", "resize_shorter", "resize_longer", "resize_x, resize_y or resize_z")


def _each(operator: str, argument: str, value: Any, count: int, most: float = _LARGEST) -> list[float]:
    """One number for each of some dimensions, of one for all of them or of as many, from -most to most."""
    several = isinstance(value, tuple)
    if several and len(value) != count:
        raise ArgumentError(operator, argument, f"one number or {count}, one for each dimension", str(len(value)))
    if value and (max(map(abs, value)) if several else abs(value)) > most:
        expected = "numbers in the range of float32" if most == _LARGEST else "a size that fits in memory"
        raise ArgumentError(operator, argument, expected, shown(value))
    return list(value) if several else [value] * count


def _scaled(shape: Sequence[int], scales: Sequence[float], given: Any) -> list[float]:
    """Extents times scales, in float32."""
    sizes: list[float] = (numpy.array(scales, numpy.float32) * numpy.array(shape, numpy.float64)).tolist()
    if any(abs(size) > _MOST for size in sizes):
        raise ArgumentError("tensor_resize", "scales", "small enough for the result to fit in memory", shown(given))
    return list(map(_float32, sizes))


def _given_region(operator: str, start: Any, end: Any, count: int) -> tuple[list[float], list[float]] | None:
    """The start and the end of a region, or None where none is given."""
    if start is None and end is None:
        return None
    for name, value, other in (("roi_start", start, "roi_end"), ("roi_end", end, "roi_start")):
        if value is None:
            raise ArgumentError(operator, name, f"given where {other!r} is", "None")
    return _each(operator, "roi_start", start, count), _each(operator, "roi_end", end, count)


def _check_near(operator: str, extents: Sequence[int], spans: Sequence[Span], roi_end: Any) -> None:
    """Refuse a region whose pixels nobody has memory for: those outside of the input are made too."""
    for extent, (_, start, end) in zip(extents, spans, strict=True):
        if roi_end is not None and max(abs(start), abs(end)) > extent + _FARTHEST_REGION:
            expected = f"within {_FARTHEST_REGION} pixels of the input"
            raise ArgumentError(operator, "roi_end", expected, shown(roi_end))


@functools.lru_cache(1024)  # photos often are alike
def image_spans(
    operator: str,
    shape: tuple[int, ...],
    layout: str,
    size: Any,
    resize_x: float | None,
    resize_y: float | None,
    resize_z: float | None,
    resize_shorter: float | None,
    resize_longer: float | None,
    mode: str,
    max_size: Any,
    roi_start: Any,
    roi_end: Any,
    roi_relative: bool,
    subpixel_scale: bool,
    /,
) -> dict[int, Span]:
    """The span of each spatial dimension of an image."""
    places = spatial(layout)
    single = {"D": resize_z, "H": resize_y, "W": resize_x}
    separate = [value for value in single.values() if value is not None]
    methods = (size, resize_shorter, resize_longer, separate or None)
    given = [name for name, value in zip(_METHODS, methods, strict=True) if value is not None]
    if len(given) != 1:
        expected = "one of " + ", ".join(map(repr, _METHODS[:3])) + f" and {_METHODS[3]}"
        raise ArgumentError(operator, given[0] if given else "size", expected, " and ".join(given) or "none")
    if size is not None:
        wanted = _each(operator, "size", size, len(places), _MOST)
    elif separate:
        letters = [layout[place] for place in places]
        wanted = [_each(operator, _SINGLE[letter], single[letter] or 0.0, 1, _MOST)[0] for letter in letters]
    else:
        if mode != "default":
            raise ArgumentError(operator, "mode", f"left out when {given[0]!r} is given", shown(mode))
        mode = "not_larger" if resize_shorter is None else "not_smaller"
        extent = resize_longer if resize_shorter is None else resize_shorter
        wanted = _each(operator, given[0], extent, len(places), _MOST)
    found = _spans(
        [shape[place] for place in places],
        wanted,
        mode=mode,
        max_size=None if max_size is None else _each(operator, "max_size", max_size, len(places)),
        region=_given_region(operator, roi_start, roi_end, len(places)),
        relative=roi_relative,
        subpixel_scale=subpixel_scale,
        empty=0 in shape,
    )
    _check_near(operator, [shape[place] for place in places], found, roi_end)
    return dict(zip(places, found, strict=True))


def tensor_spans(
    shape: tuple[int, ...],
    layout: str | None,
    *,
    sizes: Any = None,
    scales: Any = None,
    axes: Any = None,
    axis_names: str | None = None,
    alignment: Any = 0.5,
    mode: str = "default",
    max_size: Any = None,
    roi_start: Any = None,
    roi_end: Any = None,
    roi_relative: bool = False,
    size_rounding: str = "round",
    subpixel_scale: bool = True,
    **_: Any,
) -> dict[int, Span]:
    """The span of each dimension of an array."""
    name = "tensor_resize"
    if (sizes is None) == (scales is None):
        raise ArgumentError.either(name, "sizes", "scales", both=sizes is not None)
    if scales is not None and mode in ("not_larger", "not_smaller"):
        raise ArgumentError(name, "mode", "'default' or 'stretch' beside 'scales'", shown(mode))
    named = axes_of(name, len(shape), layout, axes, axis_names)
    places = range(len(shape)) if named is None else named

    def spread(argument: str, value: Any, others: Sequence[float], most: float = _LARGEST) -> list[float]:
        full = list(others)
        for place, number in zip(places, _each(name, argument, value, len(places), most), strict=True):
            full[place] = number
        return full

    none = [0.0] * len(shape)
    if sizes is not None:
        wanted = spread("sizes", sizes, shape, _MOST)
    else:
        wanted = _scaled(shape, spread("scales", scales, [1.0] * len(shape)), scales)
    region = _given_region(name, roi_start, roi_end, len(places))
    if region is not None:
        ends = [1.0] * len(shape) if roi_relative else shape
        region = spread("roi_start", tuple(region[0]), none), spread("roi_end", tuple(region[1]), ends)
    found = _spans(
        shape,
        wanted,
        mode=mode,
        max_size=None if max_size is None else spread("max_size", max_size, none),
        region=region,
        relative=roi_relative,
        subpixel_scale=subpixel_scale,
        alignment=spread("alignment", alignment, [0.5] * len(shape)),
        rounding=size_rounding,
        empty=0 in shape,
    )
    _check_near(name, shape, found, roi_end)
    return dict(enumerate(found))
