"""Labels of files: integers, floats or names of classes, one or several for each file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic.errors import ArgumentError, displayed, shown

from ._checks import natural, word

__all__ = ["ANY", "LabelType", "Labelled", "Labels", "labels_given", "lines_of"]

LabelType: TypeAlias = Literal["int", "float", "class"]
_TYPES: tuple[LabelType, ...] = ("int", "float", "class")
_LABEL = {
    "int": rb"\s+(-?\d{1,19})",
    "float": rb"\s+([+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|(?i:nan|inf)))",
    "class": rb"\s+([^\s\0]+)",
}
_EXPECTED = {"int": "an integer of 32 bits", "float": "a number of float32", "class": "the name of a class"}
#: Raises the error for the label of a number, which is to be as the text says.
_Fault: TypeAlias = Callable[[int, str, str], ArgumentError]


class Labels(NamedTuple):
    """The type of labels that is asked for."""

    kind: LabelType | None = None  #: None: that of the values; of a text file "int"
    several: int | None = None  #: how many each file has; None: as many as there are, of a text file 1
    classes: tuple[str, ...] | None = None  #: the names of classes in their order; None: those that occur, sorted
    scalar: bool = False  #: whether they come without dimensions

    @classmethod
    def asked(cls, operator: str, kind: Any, several: Any, classes: Any, *, scalar: bool) -> Labels:
        """Check the arguments."""
        if classes is not None:
            names = tuple(classes) if isinstance(classes, (list, tuple)) else ()
            if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
                raise ArgumentError(operator, "classes", "a list of different names", shown(classes))
            if kind not in (None, "class"):
                raise ArgumentError(operator, "label_type", "'class' where classes are given", shown(kind))
            kind, classes = "class", names
        kind = None if kind is None else word(operator, "label_type", kind, _TYPES)
        return cls(kind, None if several is None else natural(operator, "num_labels", several, 1), classes, scalar)

    def width(self, operator: str, width: int) -> int:
        """How many labels each file has, which is refused if they are to have no dimensions."""
        if width > 1 and self.scalar:
            raise ArgumentError(operator, "scalar_labels", f"False, as each file has {width} labels", "True")
        return width


#: Labels of the type of the values, or integers of a text file.
ANY = Labels()


class Labelled(NamedTuple):
    """Labels as numbers."""

    numbers: Array  #: int32 or float32, of shape (N,), or (N, k) where each file has several
    classes: tuple[str, ...] | None  #: the names that they are places in


def labels_given(operator: str, labels: Any, count: int, wanted: Labels) -> Labelled:
    """Labels of a list or an array: one, or a row, for each of so many files."""
    dimensions: int = getattr(labels, "ndim", 1)
    if not isinstance(labels, (Sequence, numpy.ndarray)) or isinstance(labels, (str, bytes)) or not dimensions:
        raise ArgumentError(operator, "labels", "a list of integers, floats or names of classes", shown(labels))
    if isinstance(labels, numpy.ndarray) and (dimensions > 2 or 0 in labels.shape[1:]):
        raise ArgumentError(operator, "labels", "a label, or a row of some, for each file", shown(labels))
    if len(labels) != count:
        raise ArgumentError(operator, "labels", f"one label for each of the {count} files", f"{len(labels)} labels")
    values, width = _flat(operator, labels)
    if wanted.several not in (None, width or 1):
        raise ArgumentError(operator, "num_labels", f"{width or 1}, as labels has, or None", shown(wanted.several))

    def fault(i: int, expected: str, got: str) -> ArgumentError:
        place = f"labels[{i // width}][{i % width}]" if width else f"labels[{i}]"
        return ArgumentError(operator, place, expected, got)

    kind, columns = wanted.kind or _kind(values), wanted.width(operator, max(width, 1))
    return _numbered(values, kind, wanted.classes, columns, fault)


def _flat(operator: str, labels: Any) -> tuple[Any, int]:
    """Labels one after the other, and how many each file has; 0 where they do not lie in rows."""
    width: int
    if isinstance(labels, numpy.ndarray):
        values, width = labels.reshape(-1), labels.shape[1] if labels.ndim == 2 else 0
        return values if values.dtype.kind in "iuf" else values.tolist(), width
    rows = (list, tuple, numpy.ndarray)
    if not any(issubclass(kind, rows) for kind in set(map(type, labels))):
        return labels, 0
    width = max(len(labels[0]), 1) if isinstance(labels[0], rows) else 1
    for i, row in enumerate(labels):
        if not isinstance(row, rows) or getattr(row, "ndim", 1) != 1 or len(row) != width:
            raise ArgumentError(operator, f"labels[{i}]", f"a row of {width}, as of the other files", shown(row))
    return [value for row in labels for value in (row.tolist() if isinstance(row, numpy.ndarray) else row)], width


def lines_of(operator: str, file_list: str, lines: Sequence[bytes], wanted: Labels) -> tuple[list[str], Labelled]:
    """The paths and labels of the lines of a text file: a path, white space, and its labels; empty lines are nothing.

    Args:
        operator: Of the reader.
        file_list: The path of the text file.
        lines: Its lines.
        wanted: The labels.
    """
    kind, width = wanted.kind or "int", wanted.width(operator, wanted.several or 1)
    pattern = _pattern(kind, width)
    expected = f"a text file of lines 'path{' label' * width}'"
    paths, labels, numbers = list[str](), list[Any](), list[int]()
    for number, line in enumerate(lines, 1):
        found = pattern.fullmatch(line)
        if found:
            path, *values = found.groups()
            paths.append(os.fsdecode(path))
            labels += values
            numbers.append(number)
        elif line.strip():
            other = next((k for k in _TYPES if k != kind and _pattern(k, width).fullmatch(line)), None)
            hint = f"If it ends with a label, give label_type={other!r}." if other and wanted.kind is None else ""
            got = f"{shown(os.fsdecode(line))} in line {number} of {displayed(file_list)}"
            raise ArgumentError(operator, "file_list", f"{expected} with {_EXPECTED[kind]}", got, hint)
    if not paths:
        raise ArgumentError(operator, "file_list", "a text file with a line for each file", "an empty one")

    def fault(i: int, expected: str, got: str) -> ArgumentError:
        place = f"{got} in line {numbers[i // width]} of {displayed(file_list)}"
        return ArgumentError(operator, "file_list", f"a text file with {expected} behind each path", place)

    values = list(map(os.fsdecode, labels)) if kind == "class" else list(map(int if kind == "int" else float, labels))
    return paths, _numbered(values, kind, wanted.classes, width, fault)


def _pattern(kind: LabelType, width: int) -> re.Pattern[bytes]:
    return re.compile(rb"([^\0]*[^\s\0])" + _LABEL[kind] * width + rb"\s*")


def _kind(values: Any) -> LabelType:
    """The type of labels by the values."""
    if isinstance(values, numpy.ndarray):
        return "float" if values.dtype.kind == "f" else "int"
    kinds = set(map(type, values))
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return "class"
    return "float" if any(issubclass(kind, (float, numpy.floating)) for kind in kinds) else "int"


def _numbered(values: Any, kind: LabelType, classes: tuple[str, ...] | None, width: int, fault: _Fault) -> Labelled:
    """Labels as an array."""
    if kind == "class":
        values, classes = _places(values, classes, fault)
    numbers = _int32(values, fault) if kind != "float" else _float32(values, fault)
    return Labelled(numbers if width == 1 else numbers.reshape(-1, width), classes)


def _places(values: Any, classes: tuple[str, ...] | None, fault: _Fault) -> tuple[list[int], tuple[str, ...]]:
    """The place of each label among the names of classes."""
    values = values.tolist() if isinstance(values, numpy.ndarray) else values
    if not all(issubclass(kind, str) for kind in set(map(type, values))):
        i = next(i for i, value in enumerate(values) if not isinstance(value, str))
        raise fault(i, _EXPECTED["class"], shown(values[i]))
    names = tuple(sorted(set(values))) if classes is None else classes
    place = {name: i for i, name in enumerate(names)}
    try:
        return [place[value] for value in values], names
    except KeyError:
        i = next(i for i, value in enumerate(values) if value not in place)
        raise fault(i, f"one of the {len(names)} names that classes has", shown(values[i])) from None


def _int32(values: Any, fault: _Fault) -> Array:
    found: Any = None
    if isinstance(values, (range, numpy.ndarray)) or set(map(type, values)) == {int}:
        try:
            found = numpy.asarray(values)
        except OverflowError:
            found = None
    if found is not None and found.dtype.kind in "iu" and not (found.size and _beyond(found)):
        numbers: Array = found.astype(numpy.int32)
        return numbers
    for i, value in enumerate(values):
        integral = isinstance(value, (int, numpy.integer)) and not isinstance(value, (bool, numpy.bool_))
        if not integral or not -(2**31) <= value < 2**31:
            raise fault(i, _EXPECTED["int"], shown(value))
    return numpy.array(values, numpy.int32)


def _beyond(found: Array) -> bool:
    return int(found.min()) < -(2**31) or int(found.max()) >= 2**31


def _float32(values: Any, fault: _Fault) -> Array:
    if not isinstance(values, numpy.ndarray):
        for i, value in enumerate(values):
            number = isinstance(value, (int, float, numpy.integer, numpy.floating)) and not isinstance(value, bool)
            if not number or (isinstance(value, int) and abs(value) >= 2**128):
                raise fault(i, _EXPECTED["float"], shown(value))
        values = numpy.array(values, numpy.float64)
    with numpy.errstate(over="ignore"):
        numbers: Array = values.astype(numpy.float32)
    beyond = numpy.flatnonzero(numpy.isinf(numbers) & numpy.isfinite(values))
    if len(beyond):
        raise fault(int(beyond[0]), _EXPECTED["float"], shown(values[beyond[0]].item()))
    return numbers
