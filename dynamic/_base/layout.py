"""Layouts: one letter for each dimension ("HWC"), and their fate in indexing and broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from dynamic.errors import ArgumentError, LayoutWarning, shown, warn_caller

__all__ = ["after_indexing", "axes_of", "checked", "combined", "fitting", "spatial", "warn_of_channels_first"]


def checked(layout: Any, ndim: int, operator: str, whose: str = "Tensor") -> str | None:
    """A layout that a caller gave, or None where there is none: "" and None both mean that."""
    if layout is None or (isinstance(layout, str) and not layout):
        return None
    if not isinstance(layout, str):
        raise ArgumentError(operator, "layout", 'a string such as "HWC"', shown(layout))
    if len(layout) != ndim:
        expected = f"a letter for each of the {ndim} dimensions of the {whose}"
        raise ArgumentError(operator, "layout", expected, f"{len(layout)} letters, {layout!r}")
    return layout


@functools.lru_cache(256)
def axes_of(
    operator: str, ndim: int, layout: str | None, axes: int | tuple[int, ...] | None, axis_names: str | None
) -> tuple[int, ...] | None:
    """The dimensions that an argument `axes` names by number, or `axis_names` by letters; None without either."""
    if axes is not None:
        if axis_names is not None:
            raise ArgumentError(operator, "axis_names", "left out when 'axes' is given", shown(axis_names))
        found = (axes,) if isinstance(axes, int) else axes
        if not all(-ndim <= axis < ndim for axis in found) or len({axis % ndim for axis in found}) < len(found):
            expected = f"different dimensions in [{-ndim}, {ndim - 1}]" if ndim else "empty: there are no dimensions"
            raise ArgumentError(operator, "axes", expected, shown(axes))
        return tuple(axis % ndim for axis in found)
    if axis_names is None:
        return None
    letters = layout or ""
    if not set(axis_names) <= set(letters) or len(set(axis_names)) < len(axis_names):
        expected = f"different letters of the layout {layout!r}" if layout else "left out: the input has no layout"
        raise ArgumentError(operator, "axis_names", expected, shown(axis_names), "as_tensor(x, layout=...) gives one.")
    return tuple(letters.index(letter) for letter in axis_names)


def combined(layouts: Sequence[str | None], ndim: int, operator: str) -> str | None:
    """The layout of a result that several operands were broadcast to, or None where no operand's describes it.

    One layout must be a suffix of the other ("C" of "HWC"), because broadcasting aligns the last dimensions.
    """
    result: str | None = None
    for layout in layouts:
        if not layout or layout == result:
            continue
        if result is None or layout.endswith(result):
            result = layout
        elif not result.endswith(layout):
            hint = "Give one of them the other's layout with as_tensor(x, layout=...)."
            raise ArgumentError(operator, "layout", f"a suffix of {result!r}, or the reverse", repr(layout), hint)
    return result if result is not None and len(result) == ndim else None


_USUAL_CHANNELS, _MOST_CHANNELS = frozenset((1, 3, 4)), 4


def warn_of_channels_first(operator: str, shape: Sequence[int] | None, layout: str) -> None:
    """Warn where data without a layout, which is read as laid out in some way, looks channels first.

    Args:
        operator: Reads it.
        shape: Of a sample; none where there are no samples.
        layout: How it is read.
    """
    if layout[-3:] != "HWC" or shape is None or shape[-1] <= _MOST_CHANNELS or shape[-3] not in _USUAL_CHANNELS:
        return
    fix = "as_tensor" if len(shape) == 3 else "as_batch"
    text = (
        f"{operator}(): data of shape {tuple(shape)} without a layout is read as {layout}, with {shape[-1]} channels. "
        f'If its channels come first, say so: {fix}(x, layout="CHW"). If they do not: as_tensor(x, layout="{layout}").'
    )
    warn_caller(text, LayoutWarning)


def fitting(layout: str | None, ndim: int) -> str | None:
    """A layout, or None where it does not have a letter for each dimension."""
    return layout if layout and len(layout) == ndim else None


def after_indexing(
    layout: str | None, index: tuple[Any, ...], result_ndim: int, added: Sequence[str | None] = ()
) -> str | None:
    """The layout after ``array[index]``: an integer drops its letter, a slice keeps it, a new axis leaves no layout.

    An array keeps its letter, which goes first where NumPy puts its dimension first.

    Args:
        layout: Before.
        index: Integers, slices, arrays, None and Ellipsis.
        result_ndim: How many dimensions there are then.
        added: The letters of new axes, None for those that have none.

    Raises:
        IndexError: A new axis has a letter, and other dimensions have none.
    """
    named = [letter for letter in added if letter is not None]
    if not layout:
        if named and len(named) < result_ndim:
            raise IndexError(f"newaxis({named[0]!r}) has a letter, but there is no layout that it could be part of")
        return "".join(named) or None
    consumed = sum(i is not None and i is not Ellipsis for i in index)
    letters: list[str] = []
    place, names = 0, iter(added)
    for entry in index:
        if entry is None and (name := next(names, None)) is not None:
            letters.append(name)
            continue
        if entry is None or _is_mask_of_many(entry):
            return None
        if entry is Ellipsis:
            skipped = len(layout) - consumed
            letters.append(layout[place : place + skipped])
            place += skipped
            continue
        if isinstance(entry, slice):
            letters.append(layout[place])
        elif getattr(entry, "ndim", 0) == 1:
            letters.insert(0 if _are_apart(index) else len(letters), layout[place])
        place += 1
    result = "".join(letters) + layout[place:]
    return result if result and len(result) == result_ndim else None


def ndim_after_indexing(ndim: int, index: tuple[Any, ...]) -> int:
    """How many dimensions ``array[index]`` has, whatever the extents of the array.

    Raises:
        IndexError: The array has fewer dimensions than the index.
    """
    arrays = [entry for entry in index if getattr(entry, "ndim", 0)]
    taken = sum(entry.ndim if entry.dtype == bool else 1 for entry in arrays)
    whole = sum(not isinstance(entry, slice) and entry is not None and entry is not Ellipsis for entry in index)
    left = ndim - taken - (whole - len(arrays))
    if left < sum(isinstance(entry, slice) for entry in index):
        raise IndexError(f"too many indices: samples have {ndim} dimensions")
    dimensions = [1 if entry.dtype == bool else entry.ndim for entry in arrays]
    return left + sum(entry is None for entry in index) + max(dimensions, default=0)


def _are_apart(index: tuple[Any, ...]) -> bool:
    """Whether a slice or new axis is between the arrays and integers of an index: the arrays' dimension comes first."""
    chosen = [i for i, e in enumerate(index) if not (e is None or e is Ellipsis or isinstance(e, slice))]
    return chosen[-1] - chosen[0] >= len(chosen)


def _is_mask_of_many(entry: Any) -> bool:
    return getattr(entry, "ndim", 0) > 1


@functools.cache
def spatial(layout: str) -> tuple[int, ...]:
    """The places of depth, height and width, in this order.

    >>> from dynamic._base.layout import spatial
    >>> spatial("CHW")
    (1, 2)
    """
    return tuple(layout.index(letter) for letter in "DHW" if letter in layout)
