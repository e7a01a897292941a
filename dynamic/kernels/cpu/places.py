"""Where windows lie: of `crop` and `slice`, and of the decoders that take a window."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._base.layout import axes_of as layout_axes
from dynamic._base.layout import spatial
from dynamic.errors import ArgumentError, shown

__all__ = ["Window", "axes_of", "cropped", "cropped_at_once", "each", "placed", "sliced", "sliced_at_once"]

#: Where a window begins in each dimension, and its extents.
Window: TypeAlias = tuple[Sequence[int], Sequence[int]]
_Values: TypeAlias = float | Sequence[float]

_FAR = 2.0**62  # beyond any array
_EXACT = 2.0**53  # integers up to here float64 holds
#: Layouts by the number of dimensions, of inputs without one.
_USUAL = {2: "HW", 3: "HWC", 4: "FHWC", 5: "FDHWC"}
#: The argument for the extent of a window along one dimension.
_EXTENTS_OF = {"F": "crop_d", "D": "crop_d", "H": "crop_h", "W": "crop_w"}
_ARE_EXTENTS = {"crop", *_EXTENTS_OF.values(), "shape", "rel_shape"}


@functools.lru_cache(1024)  # photos often are alike
def cropped(
    operator: str,
    shape: tuple[int, ...],
    layout: str,
    crop: tuple[float, ...] | None = None,
    crop_d: float | None = None,
    crop_h: float | None = None,
    crop_w: float | None = None,
    crop_pos_x: float = 0.5,
    crop_pos_y: float = 0.5,
    crop_pos_z: float = 0.5,
    out_of_bounds_policy: str = "error",
    rounding: str = "round",
    frames: bool = True,
    **_: Any,
) -> Window:
    """The window that the arguments of `crop` say; `frames` of a video may be taken as depth is."""
    places = spatial(layout)
    deep = crop_d is not None or (crop is not None and len(crop) == 3)
    if deep and frames and "F" in layout and "D" not in layout:
        places = (layout.index("F"), *places)
    single = {"F": crop_d, "D": crop_d, "H": crop_h, "W": crop_w}
    wanted: list[float | None] = [single[layout[place]] for place in places]
    said = {place: "crop" if crop is not None else _EXTENTS_OF[layout[place]] for place in places}
    if crop is not None:
        if any(extent is not None for extent in wanted):
            raise ArgumentError(operator, "crop", "left out when crop_h or crop_w is given", shown(crop))
        if len(crop) == 2 and "D" in layout:
            crop = (0, *crop)
        if len(crop) != len(places):
            expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
            raise ArgumentError(operator, "crop", expected, str(len(crop)))
        wanted = list(crop)
    positions = {"F": crop_pos_z, "D": crop_pos_z, "H": crop_pos_y, "W": crop_pos_x}
    starts, extents = [0] * len(shape), list(shape)
    for place, extent in zip(places, wanted, strict=True):
        whole = shape[place]
        extents[place] = int(extent or 0) or whole
        room = float(numpy.float32(positions[layout[place]])) * (whole - extents[place])  # in double, as DALI reckons
        starts[place] = _rounded(room) if rounding == "round" else math.trunc(room)
    arguments = [(said.get(place, "crop"),) * 2 for place in range(len(shape))]
    return placed(operator, arguments, shape, layout, (starts, extents), out_of_bounds_policy)


def cropped_at_once(
    shapes: Sequence[tuple[int, ...]],
    layout: str,
    sizes: Sequence[Any],
    positions: Sequence[Any],
    out_of_bounds_policy: str = "error",
    rounding: str = "round",
) -> list[Window] | None:
    """`cropped` for many images, in columns; None where it refuses one, and for videos and volumes.

    Args:
        shapes: Of the images.
        layout: Their layout.
        sizes: The arguments `crop`, `crop_d`, `crop_h` and `crop_w`, a list of the values of all images, or one value.
        positions: The same of `crop_pos_x` and `crop_pos_y`.
        out_of_bounds_policy: As there.
        rounding: As there.
    """
    both, *single = (values if isinstance(values, list) else [values] for values in sizes)
    if not set("HW") <= set(layout) <= set("HWC") or single[0] != [None]:
        return None
    if both == [None]:
        wanted = [[extent or 0.0 for extent in values] for values in single[1:]]
    elif single[1:] == [[None], [None]] and all(each is not None and len(each) == 2 for each in both):
        wanted = [list(values) for values in zip(*both, strict=True)]
    else:
        return None
    places = [layout.index(letter) for letter in "HW"]
    starts, extents = numpy.zeros((2, len(shapes), len(layout)), numpy.int64)
    extents[:] = shapes
    for place, own, position in zip(places, wanted, reversed(positions), strict=True):
        whole, limits = extents[:, place], numpy.array(own)
        if limits.max() >= _EXACT:
            return None
        extent = numpy.where(limits < 1, whole, limits.astype(numpy.int64))
        room = numpy.array(position, numpy.float32).astype(numpy.float64) * (whole - extent)
        first = _all_rounded(room) if rounding == "round" else numpy.trunc(room).astype(numpy.int64)
        if not _place_all(starts, extents, place, first, first + extent, out_of_bounds_policy):
            return None
    return list(zip(map(tuple, starts.tolist()), map(tuple, extents.tolist()), strict=True))


def _all_rounded(values: Array) -> Array:
    """The nearest integers, halves away from zero."""
    return numpy.trunc(values + numpy.copysign(0.5, values)).astype(numpy.int64)


def _place_all(starts: Array, extents: Array, place: int, first: Array, end: Array, policy: str) -> bool:
    """Set where windows begin in a dimension, and their extents, as `placed`; False where it refuses one."""
    whole = extents[:, place]
    if policy == "trim_to_shape":
        first, end = first.clip(0, whole), end.clip(0, whole)
    elif policy in {"error", "inside"} and ((first < 0) | (end > whole)).any():
        return False
    starts[:, place], extents[:, place] = first, numpy.maximum(end - first, 0)
    return True


def sliced_at_once(
    shapes: Sequence[tuple[int, ...]],
    layout: str | None,
    anchors: Array,
    sizes: Array,
    axes: int | tuple[int, ...] | None,
    axis_names: str,
    relative: tuple[bool, bool],
    policy: str,
) -> list[Window] | None:
    """`sliced` by an anchor and an extent for many arrays, in columns; None where it refuses one.

    Args:
        shapes: Of the arrays.
        layout: Their layout.
        anchors: (N, axes) numbers, or (1, axes) for all.
        sizes: The same.
        axes: As there.
        axis_names: As there.
        relative: Whether anchors and sizes of floats are parts of the whole.
        policy: As there.
    """
    chosen = _sliced_axes("slice", layout, len(shapes[0]), axes, axis_names)
    if any(each.ndim != 2 or each.shape[1] != len(chosen) or each.dtype.kind not in "iuf" for each in (anchors, sizes)):
        return None
    starts, extents = numpy.zeros((2, len(shapes), len(shapes[0])), numpy.int64)
    extents[:] = shapes
    for axis, *columns in zip(chosen, anchors.T, sizes.T, strict=True):
        low, size = (
            column.astype(numpy.float64) * (extents[:, axis] if parts and column.dtype.kind == "f" else 1)
            for column, parts in zip(columns, relative, strict=True)
        )
        if not ((numpy.abs(low) < _EXACT) & (numpy.abs(low + size) < _EXACT)).all():
            return None
        first, end = _all_rounded(low), _all_rounded(low + size)
        if (end < first).any() or not _place_all(starts, extents, axis, first, end, policy):
            return None
    return list(zip(map(tuple, starts.tolist()), map(tuple, extents.tolist()), strict=True))


def placed(
    operator: str,
    arguments: Sequence[tuple[str, str]],
    shape: tuple[int, ...],
    layout: str | None,
    window: Window,
    policy: str,
) -> Window:
    """A window as a policy allows it to lie in an image of some shape; "inside" is "error" with no others.

    Of the arguments for each dimension an error names the first where the window begins too early, the second where it
    ends too late.
    """
    starts, extents = map(list, window)
    for place, whole in enumerate(shape):
        start, end = starts[place], starts[place] + extents[place]
        if start >= 0 and end <= whole:
            continue
        if policy in {"error", "inside"}:
            name = layout[place] if layout else f"dimension {place}"
            argument = arguments[place][start >= 0]
            fits = extents[place] <= whole or argument not in _ARE_EXTENTS
            allowed = f"inside of 0..{whole} in {name}" if fits else f"no larger than {whole} in {name}"
            got = f"{start}..{end}" if fits else str(extents[place])
            allowed += ", unless out_of_bounds_policy is 'pad'" if policy == "error" else ""
            raise ArgumentError(operator, argument, allowed, got)
        if policy == "trim_to_shape":
            starts[place] = min(max(start, 0), whole)
            extents[place] = max(0, min(end, whole) - starts[place])
    return tuple(starts), tuple(extents)


def axes_of(
    operator: str,
    layout: str | None,
    ndim: int,
    axes: int | tuple[int, ...] | None,
    axis_names: str | None,
    default: str | None = None,
) -> tuple[int, ...]:
    """The dimensions of `axes`, else those of `axis_names`, which has a default."""
    names = None if axes is not None and axis_names == default else axis_names
    return layout_axes(operator, ndim, layout or _USUAL.get(ndim), axes, names) or ()


def sliced(
    operator: str,
    shape: tuple[int, ...],
    layout: str | None,
    anchor: Array | None,
    extent: Array | None,
    /,
    **arguments: Any,
) -> Window:
    """The window that the arguments of `slice` say, in an array of some shape."""
    first, wanted = (array if array is None else _Numbers.of(array) for array in (anchor, extent))
    return _sliced(operator, shape, layout, first, wanted, **arguments)


class _Numbers(NamedTuple):
    """A positional anchor or shape."""

    dtype: numpy.dtype[Any]
    shape: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, array: Array) -> _Numbers:
        """The numbers of an array."""
        return cls(array.dtype, array.shape, tuple(array.reshape(-1).tolist()))


@functools.lru_cache(1024)
def _sliced(
    operator: str,
    shape: tuple[int, ...],
    layout: str | None,
    anchor: _Numbers | None,
    extent: _Numbers | None,
    /,
    *,
    start: Any = None,
    rel_start: Any = None,
    end: Any = None,
    rel_end: Any = None,
    rel_shape: Any = None,
    axes: int | tuple[int, ...] | None = None,
    axis_names: str = "WH",
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    out_of_bounds_policy: str = "error",
    **others: Any,
) -> Window:
    """As `sliced`; `shape=` is among `others`."""
    named = {
        "start": start,
        "rel_start": rel_start,
        "end": end,
        "rel_end": rel_end,
        "shape": others.get("shape"),
        "rel_shape": rel_shape,
    }
    given = {name: value for name, value in named.items() if value is not None}
    chosen = _sliced_axes(operator, layout, len(shape), axes, axis_names)
    _check_together(operator, given, anchor, extent)
    starts, extents = [0] * len(shape), list(shape)
    wholes = [shape[axis] for axis in chosen]
    if anchor is None:
        values = {name: each(operator, name, value, len(chosen)) for name, value in given.items()}
        with numpy.errstate(over="ignore", invalid="ignore"):
            bounds = [
                _named(whole, {name: value[i] for name, value in values.items()}) for i, whole in enumerate(wholes)
            ]
    else:
        first = _positions(operator, "anchor", anchor, wholes, relative=normalized_anchor)
        wanted = _positions(operator, "shape", extent, wholes, relative=normalized_shape)
        bounds = [(a, a + b) for a, b in zip(first, wanted, strict=True)]
    beginning, ending = (next(iter(given)), list(given)[-1]) if anchor is None else ("anchor", "shape")
    for axis, (low, high) in zip(chosen, bounds, strict=True):
        if not (abs(low) < _FAR and abs(high) < _FAR):
            raise ArgumentError(operator, beginning, "between -2**62 and 2**62", f"{low:g} to {high:g}")
        starts[axis] = _rounded(low)
        extents[axis] = _rounded(high) - starts[axis]
        if extents[axis] < 0:
            raise ArgumentError(operator, ending, "at or after the start of the window", f"{low:g} to {high:g}")
    arguments = [(beginning, ending)] * len(shape)
    return placed(operator, arguments, shape, layout, (starts, extents), out_of_bounds_policy)


def _sliced_axes(
    operator: str, layout: str | None, ndim: int, axes: int | tuple[int, ...] | None, axis_names: str
) -> tuple[int, ...]:
    """The dimensions that are sliced."""
    if axes is None and not layout and ndim > 3 and axis_names == "WH":
        axes = (1, 0)  # as DALI does for four dimensions without a layout
    elif axes == () or (axes is None and axis_names == ""):  # as in DALI
        axes, axis_names = tuple(range(ndim)), "WH"
    return axes_of(operator, layout, ndim, axes, axis_names, "WH")


def _check_together(operator: str, given: dict[str, Any], anchor: _Numbers | None, extent: _Numbers | None) -> None:
    """Refuse arguments that contradict each other, and none at all."""
    if anchor is not None:
        if given:
            raise ArgumentError(operator, next(iter(given)), "left out when an anchor and a shape are given", "a value")
        if extent is None:
            raise ArgumentError(operator, "shape", "given with an anchor", "nothing")
        return
    for alternatives in (("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")):
        found = [name for name in alternatives if name in given]
        if len(found) > 1:
            raise ArgumentError(operator, found[1], f"left out when {found[0]!r} is given", shown(given[found[1]]))
    if not given:
        needs = "takes a start, an end or a shape, or an anchor and a shape; got none of them"
        raise ArgumentError(operator, "start", needs, "")


def each(operator: str, name: str, value: _Values, count: int) -> list[float]:
    """An argument's values for each of the axes: one value is for all of them."""
    values: list[float] = [value] if isinstance(value, (int, float)) else list(value)
    if len(values) not in (1, count):
        raise ArgumentError(operator, name, f"one value, or {count}, one for each axis", str(len(values)))
    return values * count if len(values) == 1 else values


def _positions(operator: str, name: str, given: _Numbers | None, wholes: list[int], *, relative: bool) -> list[float]:
    """The numbers of a positional anchor or shape; where floats are relative, they are parts of the whole."""
    assert given is not None, "asked for where both are given"
    dtype, shape, values = given
    if len(shape) > 1 or len(values) != len(wholes) or dtype.kind not in "iuf":
        expected = f"{len(wholes)} numbers, one for each axis"
        raise ArgumentError(operator, name, expected, f"{dtype} of shape {shape}")
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise ArgumentError(operator, name, "finite numbers", shown(numbers))
    if relative and dtype.kind == "f":
        return [value * whole for value, whole in zip(numbers, wholes, strict=True)]
    return numbers


def _named(whole: int, given: dict[str, float]) -> tuple[float, float]:
    """Where a window begins and ends in a dimension, as named arguments say it: in float32 as DALI reckons."""
    low = float(given.get("start", 0))
    if "rel_start" in given:
        low = float(numpy.float32(given["rel_start"]) * numpy.float32(whole))
    if "end" in given:
        return low, given["end"]
    if "rel_end" in given:
        return low, float(numpy.float32(given["rel_end"]) * numpy.float32(whole))
    if "shape" in given:
        return low, low + given["shape"]
    if "rel_shape" in given:
        part = numpy.float32(given["rel_shape"])
        if "rel_start" in given:
            high = (float(numpy.float32(given["rel_start"])) + float(part)) * whole
            return low, max(low, high) if part >= 0 else high
        return low, float(numpy.float32(low) + part * numpy.float32(whole))
    return low, whole


def _rounded(value: float) -> int:
    """The nearest integer, halves away from zero."""
    return math.trunc(value + math.copysign(0.5, value))
