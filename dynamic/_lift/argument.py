"""One argument of an operator, read once from its annotation: how to convert, check, describe and draw it.

An annotation is built of ``float`` (finite), ``int``, ``bool``, ``str``, ``tuple[X, Y]``, ``tuple[X, ...]``, ``X | Y``,
``X | None`` and ``Annotated[X, Between(low, high)]``, of the kinds declared at the end (`Interp`, `ImageType`,
`DTypeArgument`, `Numbers`), and of ``PerSample[...]`` around any of these.
"""

from __future__ import annotations

import enum
import math
import operator
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, NewType, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy

from dynamic._arrays.array import Array, asarray, library
from dynamic.data import Batch, Tensor, as_one
from dynamic.data._transfer import moved
from dynamic.devices import Device
from dynamic.dtypes import WORDS, DType, DTypeLike, dtype, numpy_dtype
from dynamic.errors import ArgumentError, nearest, shown
from dynamic.types import DALIImageType, DALIInterpType

__all__ = [
    "GIVEN",
    "IGNORED",
    "KINDS",
    "Argument",
    "Between",
    "DTypeArgument",
    "Four",
    "ImageName",
    "ImageType",
    "Interp",
    "InterpName",
    "Layout",
    "Numbers",
    "PerItem",
    "PerSample",
    "Several",
    "Three",
    "Two",
    "Word",
    "argument",
    "beside",
    "chosen",
    "from_host",
    "ignored_by",
    "is_layout",
    "on_host",
    "without_effect",
]

F = TypeVar("F", bound=Callable[..., Any])
X = TypeVar("X")
Convert = Callable[[Any], Any]
_PER_SAMPLE, _PER_ITEM = "per sample", "per item"
_LAYOUT = "layout"

if TYPE_CHECKING:  # the values of a caller
    PerSample: TypeAlias = X | Batch | Tensor | numpy.ndarray[Any, Any] | numpy.generic
    PerItem: TypeAlias = PerSample[X]
    Several: TypeAlias = Sequence[X] | Tensor | numpy.ndarray[Any, Any]
    Two: TypeAlias = Several[X]
    Three: TypeAlias = Several[X]
    Four: TypeAlias = Several[X]
    Layout = NewType("Layout", str)  # which no caller has
    InterpName: TypeAlias = str | DALIInterpType
    ImageName: TypeAlias = str | DALIImageType
    _ElementType: TypeAlias = DTypeLike
else:  # the values of a kernel
    #: One value for all samples, or a Batch with one for each. The caller may give either; a kernel sees one value.
    PerSample = Annotated[X, _PER_SAMPLE]
    #: The same, of a kernel for arrays of many samples: it sees a list where a Batch is given.
    PerItem = Annotated[X, _PER_SAMPLE, _PER_ITEM]
    #: Any number of values, in any sequence or array; a kernel sees a tuple.
    Several = tuple[X, ...]
    Two = tuple[X, X]
    Three = tuple[X, X, X]
    Four = tuple[X, X, X, X]
    #: Marks the parameter through which a kernel is told the layout of its input; no argument of the operator.
    Layout = Annotated[str, _LAYOUT]
    InterpName = ImageName = str
    _ElementType = DType
#: The default of parameters that no caller gives.
GIVEN: Any = None


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds of a number, both allowed: they check it, document it, and draw it in the tests."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"of at least {self.low:g}"
        return f"in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """One of a few words; each may have other spellings, and constants of an enumeration may stand for them too."""

    spellings: Mapping[str, tuple[str, ...]]
    enumeration: type[enum.IntEnum] | None = None

    def convert(self, value: Any) -> str:
        """The word that a value means."""
        if self.enumeration is not None:
            foreign = isinstance(value, enum.Enum) and type(value).__name__ != self.enumeration.__name__
            if isinstance(value, int) and not isinstance(value, bool) and not foreign:
                value = self.enumeration(value).name
            elif type(value).__name__ == self.enumeration.__name__:  # one of nvidia.dali.types
                value = value.name
        if isinstance(value, str):
            for word, others in self.spellings.items():
                if value.lower() in (word.lower(), *others):
                    return word
        raise _NoWord(getattr(value, "name", value), self.spellings)  # the name of an enumeration's constant


class _Fraction(ValueError):
    """A number of an array is not the integer that it should be."""

    hint = 'Draw integers with dtype="int32", or round the numbers with cast.'


class _NoWord(ValueError):
    """A value is none of some words; `hint` asks for the one that may be meant."""

    def __init__(self, value: object, words: Iterable[str]) -> None:
        self.hint = nearest(value, words) if isinstance(value, str) else ""
        super().__init__(value)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The values that an annotation allows."""

    convert: Convert
    expected: str
    scalar: bool = True  # a one-element array stands for its element
    integral: bool = False  # floats in arrays must be whole
    column: type[float | int] | None = None  # numbers that are checked a column at a time
    arrays: bool = False  # arrays stay arrays, and a whole one may be checked at once
    row: bool = False  # a sequence is one value


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator: its name, kind and checks."""

    operator: str
    name: str
    plain: Any  #: the annotation less its marks; the tests draw values from it
    per_sample: bool
    per_item: bool  #: whether a kernel for many samples takes a list
    required: bool
    kind: _Kind

    @property
    def expected(self) -> str:
        """The allowed values, in the words of an error."""
        return f"{self.kind.expected}, or a Batch with one for each sample" if self.per_sample else self.kind.expected

    def one(self, value: Any) -> Any:
        """The value that a kernel sees, for a value given for all samples."""
        try:
            return self.kind.convert(_plain(value, self.kind))
        except (TypeError, ValueError, OverflowError) as error:
            hint = getattr(error, "hint", "")
            if not hint and self.per_sample and _are_many(value, self.kind):
                hint = "One value for each sample is a Batch: as_batch([...]), or batch_size= of a random operator."
            raise ArgumentError(self.operator, self.name, self.expected, _shown(value), hint) from None

    def each(self, batch: Batch, n: int) -> list[Any]:
        """The values that the kernel sees, sample by sample, for a Batch."""
        if not self.per_sample:
            raise ArgumentError(self.operator, self.name, f"{self.expected}, the same for all samples", "a Batch")
        if len(batch) != n:
            expected = f"one value for each of the {n} samples"
            raise ArgumentError(self.operator, self.name, expected, f"a Batch of {len(batch)}")
        whole = as_one(batch) if self.kind.column or self.kind.arrays else None
        column = self._column(whole) if self.kind.column else None
        if column is not None:
            return column
        if self.kind.arrays and batch.ndim and isinstance(whole, numpy.ndarray) and numpy.isfinite(whole).all():
            return list(whole.astype(numpy.float64))
        values = []
        for i, sample in enumerate(batch.samples):
            try:
                values.append(self.kind.convert(_plain(sample, self.kind)))
            except (TypeError, ValueError, OverflowError) as error:
                name, hint = f"{self.name}[{i}]", getattr(error, "hint", "")
                raise ArgumentError(self.operator, name, self.kind.expected, _shown(sample), hint) from None
        return values

    def _column(self, whole: Array | None) -> list[Any] | None:
        """A whole column of finite numbers at once; None where there is a closer look to take."""
        kinds = "iu" if self.kind.column is int else "fiu"
        if not isinstance(whole, numpy.ndarray) or whole.size != len(whole) or whole.dtype.kind not in kinds:
            return None
        if whole.dtype.kind == "f" and not numpy.isfinite(whole).all():
            return None
        column = whole.reshape(-1)
        numbers: list[Any] = (column if self.kind.column is int else column.astype(numpy.float64) + 0.0).tolist()
        return numbers


#: The annotations of arguments, for errors.
KINDS = (
    "float, int, bool, str, tuple[X, ...], X | None, Annotated[X, Between(low, high)], Annotated[str, Word({...})], "
    "DTypeArgument, Numbers, Interp, ImageType, or PerSample[X] of one of these"
)


def argument(operator_name: str, parameter: Parameter, annotation: Any) -> Argument:
    """Read a parameter of a declaration."""
    marks = get_args(annotation) if get_origin(annotation) is Annotated else ()
    per_sample, per_item = _PER_SAMPLE in marks, _PER_ITEM in marks
    plain = _unmarked(annotation) if per_sample else annotation
    required = parameter.default is parameter.empty
    try:
        kind = _kind(plain)
    except (KeyError, TypeError):
        raise ArgumentError(operator_name, parameter.name, f"annotated: {KINDS}", shown(annotation)) from None
    return Argument(operator_name, parameter.name, plain, per_sample, per_item, required, kind)


def without_effect(*names: str) -> Callable[[F], F]:
    """Let an operator take arguments that say how DALI works and change no result."""

    def marked(body: F) -> F:
        _ignored[body] = frozenset(names)
        return body

    return marked


#: The same by the names of operators, once they are declared.
IGNORED: dict[str, frozenset[str]] = {}


def from_host(body: F) -> F:
    """Let the inputs of an operator stay on the CPU; `device` places only the result."""
    _of_host.add(body)
    return body


def on_host(body: Callable[..., Any]) -> bool:
    """Whether the inputs of a function stay on the CPU."""
    return body in _of_host


_of_host: set[Callable[..., Any]] = set()
_ignored: dict[Callable[..., Any], frozenset[str]] = {}


def ignored_by(body: Callable[..., Any]) -> frozenset[str]:
    """The arguments that a function takes `without_effect`."""
    return _ignored.get(body, frozenset())


def is_layout(annotation: Any) -> bool:
    """Whether a parameter is the one through which a kernel is told the layout."""
    return get_origin(annotation) is Annotated and _LAYOUT in get_args(annotation)


def _unmarked(annotation: Any) -> Any:
    plain, *marks = get_args(annotation)
    rest = tuple(m for m in marks if m not in (_PER_SAMPLE, _PER_ITEM))
    return Annotated[(plain, *rest)] if rest else plain


def _shown(value: Any) -> str:
    """A value for an error message: a Tensor or an array by its elements, where they are few."""
    array = value.array if isinstance(value, Tensor) else value
    if isinstance(array, numpy.ndarray):
        if array.size == 1:
            return shown(array.item())
        inner = shown(array.tolist()).removeprefix("list ") if array.size <= 8 else f"of shape {array.shape}"
        return f"{type(value).__name__} {inner}"
    return shown(value)


def _are_many(value: Any, kind: _Kind) -> bool:
    """Whether a wrong value may be meant for each sample: numbers where there is one, or rows where it is a row."""
    ndim = getattr(value, "ndim", None)
    if isinstance(ndim, int) and not isinstance(value, Batch):  # of ours, NumPy's or torch's
        return ndim > kind.row
    many = isinstance(value, (list, tuple))
    return many and (not kind.row or any(isinstance(each, (list, tuple, numpy.ndarray, Tensor)) for each in value))


def _plain(value: Any, kind: _Kind) -> Any:
    """A value as Python numbers and sequences, where it is an array of them."""
    if isinstance(value, Batch):
        raise TypeError("a Batch is taken by `each`")
    if isinstance(value, Tensor):
        value = value.array
    elif isinstance(value, numpy.generic) or hasattr(value, "__dlpack__"):
        value = asarray(value)
    else:
        return value[0] if kind.scalar and isinstance(value, (list, tuple)) and len(value) == 1 else value
    array = value if isinstance(value, numpy.ndarray) else moved(value, Device.CPU)
    if kind.arrays:
        return array
    if kind.integral and array.dtype.kind == "f":
        if not numpy.isfinite(array).all():
            raise ValueError(value)
        if (array % 1).any():
            raise _Fraction(value)
        return _integers(array.item() if kind.scalar and array.size == 1 else array.tolist())
    return array.item() if kind.scalar and array.size == 1 else array.tolist()


def _integers(value: Any) -> Any:
    return [_integers(v) for v in value] if isinstance(value, list) else int(value)


def _kind(plain: Any) -> _Kind:
    origin, arguments = get_origin(plain), get_args(plain)
    if origin is Annotated:
        return _marked(*arguments)
    if origin in (Union, types.UnionType):
        kinds = [_kind(a) for a in arguments if a is not type(None)]
        return kinds[0] if len(kinds) == 1 else _any_of(kinds)
    if origin is tuple:
        return _sequence(arguments)
    return _SCALARS[plain]


def _marked(inner: Any, mark: Any) -> _Kind:
    if isinstance(mark, Word):
        return _Kind(mark.convert, "one of " + ", ".join(map(repr, mark.spellings)))
    if isinstance(mark, Between):
        return _bounded(_kind(inner), mark)
    if isinstance(mark, _Kind):
        return mark
    raise TypeError(f"no argument has the mark {mark!r}")


def _bounded(kind: _Kind, bounds: Between) -> _Kind:
    # A bound in a Batch of float32 may be rounded to just outside of it.
    low, high = min(bounds.low, float(numpy.float32(bounds.low))), max(bounds.high, float(numpy.float32(bounds.high)))

    def convert(value: Any) -> Any:
        number = kind.convert(value)
        if not low <= number <= high:
            raise ValueError(value)
        return number

    return replace(kind, convert=convert, expected=f"{kind.expected} {bounds}", column=None)


def _any_of(kinds: list[_Kind]) -> _Kind:
    def convert(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.convert(value)
            except (TypeError, ValueError, OverflowError):
                continue
        raise ValueError(value)

    expected = " or ".join(kind.expected for kind in sorted(kinds, key=lambda kind: kind.row))
    scalar, integral, row = (any(flags) for flags in zip(*((k.scalar, k.integral, k.row) for k in kinds), strict=True))
    return _Kind(convert, expected, scalar, integral, row=row)


def _sequence(arguments: tuple[Any, ...]) -> _Kind:
    if arguments[1:] == (...,):
        item = _kind(arguments[0])

        def convert(value: Any) -> Any:
            one = isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0  # a number is a sequence of one
            return tuple(map(item.convert, [value] if one else _items(value)))

        return _Kind(convert, f"a sequence of {_plural(item.expected)}", scalar=False, integral=item.integral, row=True)
    kinds = [_kind(a) for a in arguments]

    def convert_each(value: Any) -> Any:
        return tuple(kind.convert(v) for kind, v in zip(kinds, _items(value), strict=True))

    expected = f"a sequence of {len(kinds)} {_plural(kinds[0].expected)}"
    return _Kind(convert_each, expected, scalar=False, integral=all(k.integral for k in kinds), row=True)


#: The nouns of `expected`, one and many.
_NOUNS = {
    "a finite number": "finite numbers",
    "an integer": "integers",
    "a sequence": "sequences",
    "a string": "strings",
}


def _plural(expected: str) -> str:
    """The allowed values of a sequence, whose items are as `expected` says."""
    noun = next((noun for noun in _NOUNS if expected.startswith(noun)), None)
    return f"items, each {expected}" if noun is None else expected.replace(noun, _NOUNS[noun], 1)


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, (str, bytes, Mapping, set, frozenset)):
        raise TypeError(value)
    return list(value)


def _real(value: Any) -> float:
    number = float(value) if not isinstance(value, (str, bytes)) else math.nan
    if not math.isfinite(number):
        raise ValueError(value)
    return number + 0.0  # not -0.0: it equals 0.0, and caches would mix them up


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return operator.index(value)


def _flag(value: Any) -> bool:
    if value in (0, 1) and isinstance(value, (bool, int, numpy.bool_)):
        return bool(value)
    raise TypeError(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _element_type(value: Any) -> DType:
    found = dtype(value)
    numpy_dtype(found)  # bfloat16 has none
    return found


def _numbers(value: Any) -> Array:
    array = numpy.asarray(value)
    if array.dtype.kind not in "biuf" or not numpy.isfinite(array).all():
        raise ValueError(value)
    return array.astype(numpy.float64, copy=False)


_SCALARS: dict[Any, _Kind] = {
    float: _Kind(_real, "a finite number", column=float),
    int: _Kind(_integer, "an integer", integral=True, column=int),
    bool: _Kind(_flag, "True or False"),
    str: _Kind(_string, "a string"),
}

# The kinds of argument that many operators have.

#: How a value between pixels is read.
Interp: TypeAlias = Annotated[
    InterpName,
    Word(
        {
            "nn": ("nearest", "interp_nn"),
            "linear": ("interp_linear",),
            "cubic": ("interp_cubic",),
            "lanczos3": ("interp_lanczos3",),
            "triangular": ("interp_triangular",),
            "gaussian": ("interp_gaussian",),
        },
        DALIInterpType,
    ),
]
#: The colour space of an image.
ImageType: TypeAlias = Annotated[
    ImageName, Word({"RGB": (), "BGR": (), "GRAY": ("grey",), "YCbCr": (), "ANY_DATA": ("any",)}, DALIImageType)
]
#: An element type, in any of the forms that `dtype` takes.
DTypeArgument: TypeAlias = Annotated[_ElementType, _Kind(_element_type, WORDS, scalar=False)]
#: Finite numbers in any shape, a matrix, a vector or one number: a kernel sees an array of float64.
Numbers: TypeAlias = Annotated[Any, _Kind(_numbers, "finite numbers", scalar=False, arrays=True, row=True)]


def beside(value: Any, array: Array, dtype: Any = None) -> Array:
    """One value, or one for each item of the first dimension of an array, where the array is, so that it broadcasts."""
    return library(array).asarray(value, dtype).reshape(-1, *(1,) * (array.ndim - 1))


def chosen(flags: Any, array: Array, other: Array) -> Array:
    """An array where a flag is set, else the other: one flag, or one for each item of the first dimension."""
    if isinstance(flags, int):
        return array if flags else other
    return library(array).where(beside(flags, array, bool), array, other)
