"""Errors and warnings: their classes, and the wording that they share::

    DynamicError
     ├─ ArgumentError (TypeError, ValueError)  a wrong, missing or unknown argument
     ├─ DeviceError (RuntimeError)             no such device, or no kernel for it
     ├─ DataError (ValueError)                 samples that cannot be read
     │   └─ DecodeError                        ... whose bytes are no accepted image
     │       ├─ TruncatedImage  CorruptImage  UnsupportedImage  ImageTooLarge
     └─ StateError (ValueError)                a state is damaged, or of another kind
         └─ StateMismatch                      ... of other data or other arguments

Warnings are UserWarnings:

- `StateWarning`: a state that cannot be restored exactly;
- `OrderWarning`: readers that seem to belong together, and are shuffled apart;
- `EmptyClassWarning`: folders without files that count as classes;
- `LayoutWarning`: data without a layout that looks channels first;
- `ScaleWarning`: integers that are normalised by means and deviations of fractions.

An error of an argument reads ``operator(): argument 'name' must be <expected>; got <type> <value>. <advice>``; that of
a name ``operator() has no argument 'name'. <advice>``.

Each class can be made of its message alone, and its attributes are then empty: PyTorch raises an error of a loader's
worker so, with the worker's traceback as the message.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType

__all__ = [
    "ArgumentError",
    "CorruptImage",
    "DataError",
    "DecodeError",
    "DeviceError",
    "DynamicError",
    "EmptyClassWarning",
    "Failure",
    "ImageTooLarge",
    "LayoutWarning",
    "OrderWarning",
    "ScaleWarning",
    "StateError",
    "StateMismatch",
    "StateWarning",
    "TruncatedImage",
    "UnsupportedImage",
]


class DynamicError(Exception):
    """Base of every error that this library raises on purpose."""


class ArgumentError(DynamicError, TypeError, ValueError):
    """An argument of a function is missing, unknown, of the wrong type or out of range.

    Attributes:
        operator: Name of the function.
        argument: Name of the argument, with the sample where there is one for each: ``angle[2]``.
        expected: Values that are accepted; or, where `got` is empty, all that is wrong.
        got: The value, as the message shows it.
        hint: A sentence with advice, or "".
    """

    def __init__(self, operator: str, argument: str = "", expected: str = "", got: str = "", hint: str = "") -> None:
        self.operator = operator if expected else ""  # else it is the message
        self.argument, self.expected, self.got, self.hint = argument, expected, got, hint
        if not expected:
            super().__init__(operator)
            return
        wrong = f"(): argument {argument!r} must be {expected}; got {got}" if got else f"() {expected}"
        text = f"{operator}{wrong}."
        super().__init__(f"{text} {hint}" if hint else text)

    def __reduce__(self) -> tuple[type[ArgumentError], tuple[str, ...]]:
        return type(self), (self.operator or str(self), self.argument, self.expected, self.got, self.hint)

    @classmethod
    def unknown(cls, operator: str, name: str, known: Iterable[str], kind: str = "argument") -> ArgumentError:
        """The function has no argument, or other thing, of that name; the nearest one is named."""
        known = sorted(known)
        takes = f"It takes {', '.join(known)}." if known else "It takes none."
        return cls(operator, name, f"has no {kind} {name!r}", "", nearest(name, known) or takes)

    @classmethod
    def either(cls, operator: str, first: str, second: str, *, both: bool) -> ArgumentError:
        """The function takes one of two arguments; it got both, or neither."""
        return cls(operator, first, f"takes either {first!r} or {second!r}; got {'both' if both else 'neither'}", "")

    @classmethod
    def inputs(
        cls, operator: str, names: Sequence[str], given: int, arguments: Iterable[str], required: Sequence[str] = ()
    ) -> ArgumentError:
        """The function takes other inputs by position.

        Args:
            operator: Name of the function.
            names: Its inputs by position.
            given: Number of those that came.
            arguments: Names of its other arguments.
            required: Those of them that have no default.
        """
        counted = f"{len(names)} positional argument{'s' * (len(names) > 1)} ({', '.join(names)})"
        named = list(arguments)
        usual = [name for name in (operator.rpartition(".")[2], *_MEANT) if name in named]
        meant = [*required, *usual, *named]
        hint = f"The others are given by name, such as {meant[0]}=." if meant and given > len(names) else ""
        takes = f"takes {counted if names else 'no positional arguments'}; got {given}"
        return cls(operator, "inputs", takes, "", hint)


#: Arguments that are meant most often by a value without a name, beside those of the name of their function.
_MEANT = ("size", "range", "mean", "sigma", "shape", "axes")


#: Names of arguments, and words for their values, in torchvision, Pillow and OpenCV, by those for them here.
_ELSEWHERE = {
    "interp_type": "interpolation interp resample",
    "angle": "degrees",
    "fill_value": "fill",
    "probability": "p",
    "stddev": "std",
    "linear": "bilinear trilinear inter_linear",
    "cubic": "bicubic inter_cubic",
    "lanczos3": "lanczos lanczos4 inter_lanczos4",
    "nn": "nearest_exact nearest-exact inter_nearest",
    "triangular": "box hamming area inter_area",
    "gray": "l grayscale",
    "ycbcr": "ycrcb",
    "any_data": "unchanged",
}
_HERE = {theirs: here for here, names in _ELSEWHERE.items() for theirs in names.split()}


def nearest(name: str, known: Iterable[str]) -> str:
    """A question for the known name that another stands for elsewhere, or is most like; "" where there is none."""
    lower = {each.lower(): each for each in known}
    meant = _HERE.get(name.lower())
    close = [meant] if meant in lower else difflib.get_close_matches(name.lower(), lower, 1)
    return f"Did you mean {lower[close[0]]!r}?" if close else ""


class DeviceError(DynamicError, RuntimeError):
    """The data is on a device, or is asked onto one, that this machine or the operator cannot use."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one sample could not be read."""

    index: int  #: the sample's place in its batch; -1 for a file that holds, or lists, many
    reason: str
    format: str | None = None  #: "JPEG", "PNG", ...: the format of the first bytes
    source: str | None = None  #: the file that the sample came from, where it is known

    def __str__(self) -> str:
        kind = f"{self.format}: " if self.format else ""
        if self.index < 0:
            return f"{displayed(self.source or '')}: {kind}{self.reason}"
        where = f" ({displayed(self.source)})" if self.source else ""
        return f"sample {self.index}{where}: {kind}{self.reason}"


class DataError(DynamicError, ValueError, RuntimeError):
    """Samples that cannot be read or listed; `failures` lists every failing one of the batch, and the message ten.

    One that a worker of PyTorch's loaders has raised has no `failures`: PyTorch hands on its message alone.

    DALI raises a RuntimeError for them.
    """

    def __init__(self, operator: str, failures: Sequence[Failure] | None = None, total: int = 1) -> None:
        self.operator, self.total = ("", 0) if failures is None else (operator, total)
        self.failures = tuple(failures or ())
        if failures is None:
            super().__init__(operator)  # which is the message
            return
        failed = f"{len(self.failures)} of {total} samples cannot be read" if total else "the samples cannot be listed"
        lines = [f"{operator}(): {failed}."]
        lines += [f"  {failure}" for failure in self.failures[:10]]
        if len(self.failures) > 10:
            lines.append(f"  ... and {len(self.failures) - 10} more")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[DataError], tuple[str] | tuple[str, tuple[Failure, ...], int]]:
        return type(self), (self.operator, self.failures, self.total) if self.operator else (str(self),)


class DecodeError(DataError):
    """Samples whose bytes are no image, sound or array that can be decoded."""


class TruncatedImage(DecodeError):
    """The bytes end before the image does."""


class CorruptImage(DecodeError):
    """The bytes contradict their format."""


class UnsupportedImage(DecodeError):
    """The format, or this variety of it, is not supported."""


class ImageTooLarge(DecodeError):
    """The image is larger than the limits allow."""


class StateError(DynamicError, ValueError):
    """A saved state is damaged, or does not fit the object that it is given to."""


class StateMismatch(StateError):
    """A saved state is of other data, or of other arguments, than the object has.

    Attributes:
        differences: The differences, one by one: ``"seed: 1 in the state, 2 here"``.
    """

    def __init__(self, text: str, differences: Sequence[str] = ()) -> None:
        self.differences = tuple(differences)
        super().__init__(text)

    def __reduce__(self) -> tuple[type[StateMismatch], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.differences)


class StateWarning(UserWarning):
    """A state is taken or returned to, but not exactly: the message names the loss."""


class OrderWarning(UserWarning):
    """An order may be another than is meant, of two readers or of numbered frames: the message says how to mend it."""


class EmptyClassWarning(UserWarning):
    """Folders without files count as classes, and shift the labels of those behind them: the message names them."""


class LayoutWarning(UserWarning):
    """Data without a layout is read as channels last, but its shape looks like channels first."""


class ScaleWarning(UserWarning):
    """Integers are normalised by a mean and a deviation below 1, as of images whose values go from 0 to 1."""


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn of the line that called this library, however deep within: so it is told once for each such line."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and (frame.f_globals.get("__package__") or "").split(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def displayed(path: str) -> str:
    """A path on one line of plain text, whatever bytes are in its name."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)


def shown(value: object) -> str:
    """A value as an error message shows it: with its type, on one line, short."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not replace the error that is being worded
        text = f"(whose repr raises {type(error).__name__})"
    if value is None:
        return text
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
