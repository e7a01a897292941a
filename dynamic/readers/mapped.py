"""The reader of anything that has a length and rows: data sets of Hugging Face and PyTorch, tables, arrays."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, Unpack

import numpy

from dynamic._arrays.array import Array, from_numbers, only_numbers
from dynamic._base.origin import Origin, sample_ids
from dynamic.data import Batch, as_batch, as_tensor
from dynamic.errors import ArgumentError, DataError, DynamicError, Failure, shown
from dynamic.io._store import Store

from ._checks import flag
from ._listing import Listing, _Once, packed, unlisted
from ._names import Names
from ._reader import Batches
from ._stored import Common, Stored, Unusable, called_with
from .npy import _Kind

__all__ = ["Map"]

Output: TypeAlias = "str | int | Callable[[Any], Any]"
Row: TypeAlias = Any
Type: TypeAlias = "numpy.dtype[Any] | None"  # that a data set declares for the floats of an output
Types: TypeAlias = "Sequence[Type] | None"  # of all outputs; None where none is declared
X = TypeVar("X")
_AT_ONCE = 1024  # rows of which a column is read
_NUMBERS = frozenset((int, float, bool))
_FIXED = _NUMBERS | {bytes}  # types of values that never change
_LISTS = (list, tuple, range)
#: Types of columns of floats by the words of pyarrow. Integers are as everywhere: JAX takes none of 64 bits.
_COLUMNS = {"double": "float64", "float": "float32", "halffloat": "float16"}
_SHAPE = operator.attrgetter("shape", "dtype")
#: Constants of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of 64 bits: no two rows have one id.
_STEP, _FIRST, _SECOND = (numpy.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Map(Stored["_Rows", Batches]):
    """Reads the rows of a data set that has ``__len__`` and ``__getitem__``.

    These are data sets of Hugging Face and PyTorch, tables of pyarrow and Lance, arrays of NumPy and h5py, mappings of
    columns to such arrays, lists, and classes of your own. The calling thread reads the rows of a batch, by one call of
    ``__getitems__`` or ``take`` if the data set has it.

    The id of a sample is the hash of its key, or without `key` of its row number. With a key, a state goes on with a
    data set that has other rows or another order (``on_mismatch="adapt"``). Without one, samples are their numbers, and
    a state tells data sets apart by their length and the fingerprint that Hugging Face gives.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu", where rows are read.
        num_inputs: 0; readers have none.
        dataset: The data set. Worker processes that are not forked get it by pickle.
        outputs: An output, or several: each is a path into a row, such as ``"label"``, ``"image.bytes"`` or ``0``, or a
            function of a row. By default a row is one output, and one that is a tuple or a list is as many as it has
            parts. Bytes and strings become bytes, uint8 of one dimension; arrays keep their type. Floats have the type
            of their column where the data set declares it, as Hugging Face, pyarrow and Lance do. Others, of Python
            lists and functions, are float32, and integers int32: a row with a number beyond these is an error.
        key: The part of a row that names it: a path or a function, as for `outputs`. Keys are strings, bytes or
            integers. All rows are asked for it when the samples are listed; a column alone is read where the data set
            has columns.
        scalar_labels: Give integers without dimensions as int64, except uint64: ``labels.torch()`` of a batch suits
            `cross_entropy` of PyTorch. By default those of Python are int32, and others have the type of the data set.

    Raises:
        ArgumentError: An argument is wrong, or the data set has no rows.
        DataError: A row has no key.

    >>> rows = [{"image": {"bytes": b"cat 1"}, "label": 0}, {"image": {"bytes": b"dog"}, "label": 1}]
    >>> reader = ndd.readers.Map(dataset=rows, outputs=["image.bytes", "label"], random_shuffle=True, seed=3)
    >>> for images, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(image.array) for image in images], labels.tolist())
    [b'dog', b'cat 1'] [1, 0]
    """

    _operator: ClassVar[str] = "readers.Map"
    _told_of: ClassVar[str] = "the row"
    _scalar_labels = False  # of one that was pickled before there was the argument

    @called_with("dataset")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        dataset: Any,
        outputs: Output | Sequence[Output] | None = None,
        key: Output | None = None,
        scalar_labels: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        self._scalar_labels = flag(self._operator, "scalar_labels", scalar_labels)
        source = _source(dataset)
        self._outputs = None if outputs is None else _parts("outputs", outputs)
        wanted = None if key is None else _part("key", key)
        list_samples = functools.partial(_listed, source, wanted, self._outputs)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _told(self, listed: _Rows, rows: Any) -> Iterable[tuple[Any, ...]]:
        return zip(listed.dataset.told(rows.tolist()))

    def _read(self, indices: list[int], origin: Origin) -> Batches:
        source = self._listing.dataset
        if isinstance(source, _Columns) and (columns := source.arrays(self._outputs)) is not None:
            return tuple(Batch(self._wide(column[indices], 1), origin=origin) for column in columns)
        kinds = self._kinds if self._on_error != "raise" or not indices else None
        if not indices:  # all were skipped
            return tuple(Batch([], origin=origin, dtype=kind.dtype, ndim=kind.ndim) for kind in kinds or ())
        try:
            types, wide = self._listing.types, self._scalar_labels
            columns = source.columns(self._outputs, indices, types, wide=wide)
            columns = columns or _columns(self._outputs, source.rows(indices), types, wide=wide)
            columns = [self._wide(column, 1) for column in columns]
            if kinds is not None:
                _check_alike([column[0] for column in columns], kinds)
        except Exception:
            self._one_by_one(indices, kinds)  # it names the rows that are to blame
            raise  # there are none
        return tuple(Batch(column, origin=origin) for column in columns)

    def _one_by_one(self, indices: list[int], kinds: list[_Kind] | None) -> None:
        """Raise an error that names the rows which cannot be read, if there are any."""
        listing, failures = self._listing, list[Failure]()
        cause: BaseException | None = None
        for i, number in enumerate(indices):
            try:
                arrays = self._arrays(number)
                kinds = kinds or [_Kind.of(array, listing.source(number)) for array in arrays]
                _check_alike(arrays, kinds)
            except Unusable as error:
                failures.append(Failure(i, str(error), source=listing.source(number)))
                cause = cause or error.__cause__
        if failures:
            raise DataError(self._operator, failures, len(indices)) from cause

    @_Once
    def _kinds(self) -> list[_Kind]:
        """The outputs of the first row that can be read: others are left out where `on_error` says so."""
        listing = self._listing
        for i in listing.rows.tolist():
            with contextlib.suppress(Unusable):  # it is named when its turn comes
                return [_Kind.of(array, listing.source(i)) for array in self._arrays(i)]
        return []

    def _arrays(self, number: int) -> list[Array]:
        """The outputs of a row."""
        return [self._wide(array, 0) for array in self._listing.arrays(number, wide=self._scalar_labels)]

    def _wide(self, values: Any, ndim: int) -> Any:
        """Integers as `scalar_labels` has them, where they are an array of so many dimensions; others as they are."""
        if not self._scalar_labels or not isinstance(values, numpy.ndarray) or values.ndim != ndim:
            return values
        fits = values.dtype.kind in "iu" and numpy.can_cast(values.dtype, numpy.int64)
        return values.astype(numpy.int64, copy=False) if fits else values


def _parts(argument: str, outputs: Any) -> list[Output]:
    """Outputs as a list of paths and functions."""
    several = isinstance(outputs, (list, tuple))
    parts = list(outputs) if several else [outputs]
    if not parts:
        raise ArgumentError(Map._operator, argument, "at least one output", "none")
    return [_part(f"{argument}[{i}]" if several else argument, part) for i, part in enumerate(parts)]


def _part(argument: str, part: Any) -> Output:
    if not isinstance(part, str) and not callable(part) and (isinstance(part, bool) or not isinstance(part, int)):
        raise ArgumentError(Map._operator, argument, "a path such as 'image.bytes', or a function", shown(part))
    checked: Output = part
    return checked


def _taken(row: Row, part: Output) -> Any:
    """A part of a row."""
    if not isinstance(part, (str, int)):
        return part(row)
    if row.__class__ is dict and part in row:
        return row[part]
    steps = [part] if not isinstance(part, str) or (isinstance(row, Mapping) and part in row) else part.split(".")
    for step in steps:
        row = _step(row, step, part)
    return row


def _step(value: Any, step: str | int, part: str | int) -> Any:
    if isinstance(value, Mapping):
        if step not in value:
            raise Unusable(f"has no part {part!r}; it has {', '.join(map(repr, value)) or 'none'}")
        return value[step]
    if isinstance(step, int) or step.lstrip("-").isdecimal():
        return value[int(step)]
    if not hasattr(value, step):
        raise Unusable(f"has no part {part!r}: {type(value).__name__} has no {step!r}")
    return getattr(value, step)


def _values(outputs: Sequence[Output] | None, row: Row) -> Sequence[Any]:
    """The outputs of a row."""
    if outputs is not None:
        return [_taken(row, part) for part in outputs]
    if isinstance(row, Mapping):
        raise Unusable(f"is a mapping; name its parts: outputs=[{', '.join(map(repr, row))}]")
    return row if isinstance(row, (tuple, list)) else [row]


def _columns(outputs: Sequence[Output] | None, rows: Iterable[Row], types: Types, *, wide: bool) -> list[Any]:
    """The outputs of rows as storage of Batches, in memory that is not the data set's: it may use that again."""
    found, ndarray = [], numpy.ndarray
    for row in rows:
        values = row if outputs is None and row.__class__ is tuple else _values(outputs, row)
        found.append(
            [
                value if (kind := value.__class__) in _FIXED else value.copy() if kind is ndarray else _owned(value)
                for value in values
            ]
            if types is None
            else [_owned(value, to) for value, to in zip(values, types, strict=True)]
        )
    columns = zip(*found, strict=True)
    return [_column(column, to, wide=wide) for column, to in zip(columns, _each(types), strict=False)]


def _column(values: Sequence[Any], to: Type, *, wide: bool) -> Any:
    first = values[0]
    if first.__class__ is bytes:
        return [numpy.frombuffer(value, numpy.uint8) for value in values]
    kinds = set(map(type, values))
    if kinds == {numpy.ndarray} and len(set(map(_SHAPE, values))) == 1:
        return numpy.concatenate(values).reshape(len(values), *first.shape) if first.ndim else numpy.stack(values)
    if kinds == {int} and to is None and min(values) >= -(2**31) and max(values) < 2**31:
        return numpy.array(values, numpy.int32)
    if kinds <= _NUMBERS:
        for value in values if to is None and len(kinds) > 1 else ():
            _as_numbers(value, to, wide=wide)  # an integer among floats is refused as it is elsewhere
        return _as_numbers(values, to, wide=wide)
    batch = as_batch(values, device="cpu")
    return batch.samples if batch.whole is None else batch.whole


def _each(types: Types) -> Iterable[Type]:
    """The declared type of each output."""
    return itertools.repeat(None) if types is None else types


def _as_numbers(value: Any, to: Type, *, wide: bool = False) -> Array:
    """A number of Python, or nested lists of these, as an array.

    Args:
        value: The number or numbers.
        to: The type that is declared; without one it is bool, int32 or float32, whatever other rows have.
        wide: Whether integers may be int64.

    Raises:
        Unusable: A number is beyond the type.
    """
    array = from_numbers(value, narrow=False)
    if to is not None:
        return array.astype(to)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "f":
        with numpy.errstate(over="ignore"):
            narrow: Array = array.astype(numpy.float32)
        beyond = numpy.isinf(narrow)
        if beyond.any() and (beyond := beyond & numpy.isfinite(array)).any():
            got = float(array[beyond][0])
            raise Unusable(f"has {got!r}, which is infinite as float32; give it as numpy.float64")
        return narrow
    least, most = int(array.min()), int(array.max())  # one without elements is of floats
    if least >= -(2**31) and most < 2**31:
        return array.astype(numpy.int32)
    if wide and most < 2**63:
        return array.astype(numpy.int64)
    got = most if most >= 2**31 else least
    kind = "int64" if wide else "int32"
    advice = "give it as numpy.uint64" if wide else "give it as a NumPy array of int64"
    if not wide and not array.ndim:
        advice = "pass scalar_labels=True, by which all integers without dimensions are int64"
    raise Unusable(f"has {got}, which is beyond {kind}; {advice}")


def _owned(value: Any, to: Type = None) -> Any:
    """A value that stays as it is."""
    kind = value.__class__
    if kind is numpy.ndarray:
        return value.copy()
    if kind in _FIXED:
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    if isinstance(value, _LISTS) and only_numbers(value):
        return _as_numbers(value, to)
    return as_tensor(value, device="cpu").array.copy()


def _array(value: Any, to: Type, *, wide: bool) -> Array:
    owned = _owned(value, to)
    if isinstance(owned, bytes):
        return numpy.frombuffer(owned, numpy.uint8)
    return _as_numbers(owned, to, wide=wide) if owned.__class__ in _NUMBERS else as_tensor(owned).array


def _contents(value: Any) -> Array:
    """A value as digests of contents have it since the first version."""
    if isinstance(value, _LISTS):
        return as_tensor(value, device="cpu").array
    owned = _owned(value)
    return numpy.frombuffer(owned, numpy.uint8) if isinstance(owned, bytes) else as_tensor(owned).array


def _declared(schema: Any, part: Output) -> Type:
    """The type of the floats in a part of rows, by the schema of pyarrow; None where there are none."""
    if not isinstance(part, str):
        return None
    name, *rest = [part] if part in schema.names else part.split(".")
    kind: Any = schema.field(name).type if name in schema.names else None
    for step in rest:
        place = kind.get_field_index(step) if hasattr(kind, "get_field_index") else -1
        kind = kind.field(place).type if place >= 0 else getattr(kind, "value_type", None)
    while (inner := getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)) is not None:
        kind = inner
    return numpy.dtype(_COLUMNS[str(kind)]) if str(kind) in _COLUMNS else None


def _check_alike(arrays: Sequence[Array], kinds: Sequence[_Kind]) -> None:
    """Refuse outputs unlike those of another row."""
    if len(arrays) != len(kinds):
        raise Unusable(f"has {len(arrays)} outputs, where {kinds[0].source if kinds else 'another'} has {len(kinds)}")
    for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True)):
        if (array.dtype, array.ndim) != (kind.dtype, kind.ndim):
            raise Unusable(f"has {_Kind.of(array, '')} as output {i}, where {kind.source} has {kind}")


def _twice(make: Callable[..., X], *arguments: Any) -> X:
    """The result of code of a data set or a user; an error that it gives twice is `Unusable`.

    An error that a second try does not give is no fault of a row, as that of a signal's handler, and stays itself.
    """
    try:
        return make(*arguments)
    except Exception:
        try:
            make(*arguments)
        except Exception as again:
            known = isinstance(again, (Unusable, DynamicError))
            raise Unusable(str(again) if known else f"{type(again).__name__}: {again}") from again
        raise


class _Row(Mapping[Any, Any]):
    """A row whose parts are read when they are asked for."""

    def __init__(self, names: Sequence[Any], read: Callable[[Any], Any], number: int) -> None:
        self._names, self._read, self._number = names, read, number

    def __getitem__(self, name: Any) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)[self._number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _had(read: Callable[[int], Row], i: int) -> Row:
    """A row, for which a function asks while the rows are listed."""
    try:
        return _twice(read, i)
    except Unusable as error:
        raise _unlisted(i, f"it cannot be had: {error}") from error


class _Source:
    """A data set, one row or several at a time."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def fingerprint(self) -> str:
        """The text by which a data set of Hugging Face tells itself from others; empty for others."""
        found = getattr(self.dataset, "_fingerprint", "")
        return found if isinstance(found, str) else ""

    def rows(self, indices: list[int]) -> Iterable[Row]:
        """Rows: all at once where the data set can, else each when it is asked for."""
        if len(indices) > 1 and (found := self._many(indices)) is not None:
            if len(found) != len(indices):
                raise Unusable(f"{len(found)} rows came, where {len(indices)} were asked for")
            return found
        return map(self.row if type(self) is not _Source else self.dataset.__getitem__, indices)

    def row(self, i: int) -> Row:
        """A row."""
        return self.dataset[i]

    def _many(self, indices: list[int]) -> list[Row] | None:
        """Rows, where the data set has several at once."""
        return list(self.dataset.__getitems__(indices)) if hasattr(self.dataset, "__getitems__") else None

    def told(self, numbers: list[int]) -> Iterator[Row]:
        """Some rows for a function of each: of a data set with columns those are read that it asks for."""
        names = self.names()
        if names is None:
            yield from (_had(self.row, i) for i in numbers)
            return
        for start in range(0, len(numbers), _AT_ONCE):
            block = numbers[start : start + _AT_ONCE]
            read = functools.cache(functools.partial(self.part, block))
            yield from (_Row(names, read, k) for k in range(len(block)))

    def names(self) -> list[str] | None:
        """The names of columns that can be read alone."""
        names = getattr(self.dataset, "column_names", None)
        return names if isinstance(names, list) and hasattr(self.dataset, "select_columns") else None

    def part(self, numbers: list[int], name: str) -> Any:
        """The values of a column in some rows."""
        return self.dataset.select_columns([name])[numbers][name]

    def columns(
        self,
        outputs: Sequence[Output] | None,  # noqa: ARG002
        indices: list[int],  # noqa: ARG002
        types: Types,  # noqa: ARG002
        *,
        wide: bool,  # noqa: ARG002
    ) -> list[Any] | None:
        """The outputs of rows as `_columns` gives them, where the data set has these by columns; else None."""
        return None

    @property
    def schema(self) -> Any:
        """The schema of pyarrow by which the floats of Python in rows have types; None where there is none."""
        return None

    def column(self, part: Output) -> Any:
        """The values of a column of all rows; None where it is no column."""
        names = getattr(self.dataset, "column_names", None)
        return self.dataset[part] if isinstance(names, list) and part in names else None


class _HuggingFace(_Source):
    """A data set of Hugging Face: a list of numbers asks it for columns of rows."""

    @property
    def schema(self) -> Any:
        """As of others: that of the features, unless a format or a transform gives other values."""
        plain = (getattr(self.dataset, "format", None) or {"type": ""})["type"] is None
        return getattr(getattr(self.dataset, "features", None), "arrow_schema", None) if plain else None

    def columns(
        self, outputs: Sequence[Output] | None, indices: list[int], types: Types, *, wide: bool
    ) -> list[Any] | None:
        """As of others."""
        names, parts = self.dataset.column_names, outputs or ()
        paths = [(part, "") if part in names else part.partition(".")[::2] for part in parts if isinstance(part, str)]
        if not paths or len(paths) < len(parts) or not all(name in names for name, _ in paths):
            return None
        rows, found = self.dataset[indices], []
        for (name, rest), to in zip(paths, _each(types), strict=False):
            values = [_taken(value, rest) for value in rows[name]] if rest else rows[name]
            if len(values) != len(indices):
                raise Unusable(f"{len(values)} rows came, where {len(indices)} were asked for")
            owned = [value if value.__class__ in _FIXED else _owned(value, to) for value in values]
            found.append(_column(owned, to, wide=wide))
        return found


class _Table(_Source):
    """A table of pyarrow or Lance, whose rows are mappings."""

    @property
    def schema(self) -> Any:
        """As of others."""
        return self.dataset.schema

    def __len__(self) -> int:
        return int(self.dataset.count_rows() if hasattr(self.dataset, "count_rows") else self.dataset.num_rows)

    def row(self, i: int) -> Row:
        """A row."""
        return self._many([i])[0]

    def names(self) -> list[str] | None:
        """As of others."""
        return list(self.dataset.schema.names)

    def part(self, numbers: list[int], name: str) -> Any:
        """As of others."""
        alone = hasattr(self.dataset, "to_table")  # of Lance, where a scan may ask for columns
        found = self.dataset.take(numbers, columns=[name]) if alone else self.dataset.select([name]).take(numbers)
        return found.column(name).to_pylist()

    def _many(self, indices: list[int]) -> list[Row]:
        found: list[Row] = self.dataset.take(indices).to_pylist()
        return found

    def column(self, part: Output) -> Any:
        """As of others."""
        if part not in self.dataset.schema.names:
            return None
        table = self.dataset.to_table(columns=[part]) if hasattr(self.dataset, "to_table") else self.dataset
        return table.column(part).to_pylist()


class _Columns(_Source):
    """Arrays of one length: a row has an element of each."""

    dataset: Mapping[Any, Any]

    def __len__(self) -> int:
        return len(next(iter(self.dataset.values())))

    def row(self, i: int) -> Row:
        """A row."""
        return {name: column[i] for name, column in self.dataset.items()}

    def told(self, numbers: list[int]) -> Iterator[Row]:
        """As of others."""
        names = list(self.dataset)
        return (_Row(names, self.dataset.__getitem__, i) for i in numbers)

    def column(self, part: Output) -> Any:
        """As of others."""
        return self.dataset.get(part) if isinstance(part, (str, int)) else None

    def arrays(self, outputs: Sequence[Output] | None) -> list[Array] | None:
        """Arrays of NumPy that are the outputs of all rows; None where there are others."""
        columns = [self.column(part) for part in (self.dataset if outputs is None else outputs)]
        usual = all(isinstance(column, numpy.ndarray) and column.dtype.kind in "biuf" for column in columns)
        return columns if usual else None


class _Array(_Columns):
    """One array, whose elements along its first dimension are the rows."""

    def told(self, numbers: list[int]) -> Iterator[Row]:
        """As of others."""
        return (self.dataset[0][i] for i in numbers)

    def row(self, i: int) -> Row:
        """A row."""
        return self.dataset[0][i]


def _source(dataset: Any) -> _Source:
    """The rows of a data set, of any of the kinds that are known."""
    if hasattr(dataset, "schema") and hasattr(dataset, "take"):
        return _checked(_Table(dataset), dataset)
    if hasattr(dataset, "iloc") and hasattr(dataset, "columns"):
        dataset = {name: dataset[name].to_numpy() for name in dataset.columns}
    tensors = getattr(dataset, "tensors", None)
    if type(dataset).__name__ == "TensorDataset" and isinstance(tensors, tuple):
        with contextlib.suppress(Exception):  # those of a GPU, or of a graph, are read row by row
            return _checked(_Columns({i: numpy.asarray(tensor) for i, tensor in enumerate(tensors)}), dataset)
    if isinstance(getattr(dataset, "column_names", None), list) and _Source(dataset).fingerprint:
        return _checked(_HuggingFace(dataset), dataset)
    if isinstance(dataset, Mapping):
        lengths = {len(column) for column in dataset.values() if hasattr(column, "__len__")}
        if len(lengths) != 1 or not all(hasattr(column, "__len__") for column in dataset.values()):
            raise _unfit("a mapping of columns of one length", dataset)
        return _checked(_Columns(dict(dataset)), dataset)
    if hasattr(dataset, "dtype") and hasattr(dataset, "shape") and not hasattr(dataset, "__getitems__"):
        return _checked(_Array({0: dataset}), dataset)
    sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not sized or isinstance(dataset, (str, bytes, bytearray, type)):
        raise _unfit("a data set with __len__ and __getitem__", dataset)
    return _checked(_Source(dataset), dataset)


def _checked(source: _Source, dataset: Any) -> _Source:
    try:
        size = len(source)
    except TypeError as error:  # a class has the method, and says that this object has none
        raise _unfit(f"a data set with a length ({error})", dataset) from None
    if not size:
        raise _unfit("a data set of at least one row", dataset)
    return source


def _unfit(expected: str, dataset: Any) -> ArgumentError:
    hint = "Without one, take its samples from readers.ExternalSource." if "__len__" in expected else ""
    return ArgumentError(Map._operator, "dataset", expected, shown(dataset), hint)


class _Numbers(Sequence[str]):
    """The names of samples that have no keys: their numbers."""

    def __init__(self, count: int) -> None:
        self._numbers = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        found = self._numbers[index]
        return str(found) if isinstance(found, int) else list(map(str, found))


@dataclass(frozen=True)
class _Rows(Listing):
    """The rows of a data set, by their keys or numbers. They have no labels."""

    dataset: _Source
    outputs: Sequence[Output] | None

    @property
    def keyed(self) -> bool:
        """Whether samples have keys."""
        return not isinstance(self.names, _Numbers)

    @_Once
    def ids(self) -> Any:
        """The sample ids: hashes of keys, or of row numbers."""
        if self.keyed:
            keys = self.names
            if isinstance(keys, Names):
                return sample_ids(keys.normal(), keys.hashes())
            return sample_ids(name.encode("utf-8", "surrogateescape") for name in keys)
        found = (numpy.arange(len(self.names), dtype=numpy.uint64) + numpy.uint64(1)) * _STEP
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            found = (found ^ (found >> numpy.uint64(shift))) * factor
        return found ^ (found >> numpy.uint64(31))

    def take(self, indices: Sequence[int]) -> list[str]:
        """The names of some samples."""
        return super().take(indices) if self.keyed else list(map(str, indices))

    def source(self, index: int) -> str:
        """The name of a row in errors."""
        return f"row {index}, key {self.names[index]!r}" if self.keyed else f"row {index}"

    @_Once
    def contents(self) -> Any:
        """A digest of the outputs of each row, read once: uint8 of shape (N, 16), 0 where it cannot be read."""
        digests = numpy.zeros((len(self.names), 16), numpy.uint8)
        for i in self.rows.tolist():
            with contextlib.suppress(Unusable):  # the row is named when it is read
                found = hashlib.blake2b(digest_size=16)
                for array in _twice(lambda i=i: list(map(_contents, _values(self.outputs, self.dataset.row(i))))):
                    found.update(f"{array.dtype.str}{array.shape}".encode())
                    found.update(numpy.ascontiguousarray(array).data)
                digests[i] = numpy.frombuffer(found.digest(), numpy.uint8)
        return digests

    @_Once
    def types(self) -> Types:
        """The declared type of the floats of each output."""
        schema = self.dataset.schema
        return None if schema is None or self.outputs is None else [_declared(schema, part) for part in self.outputs]

    def arrays(self, index: int, *, wide: bool) -> list[Array]:
        """The outputs of a row."""

        def made() -> list[Array]:
            values = _values(self.outputs, self.dataset.row(index))
            return [_array(value, to, wide=wide) for value, to in zip(values, _each(self.types), strict=False)]

        return _twice(made)

    def sizes_of(self, indices: Any) -> Any:
        """For each sample without a key the fingerprint of the data set, as a number; else 0."""
        text = "" if self.keyed else self.dataset.fingerprint
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") if text else 0
        return numpy.full(len(indices), number, numpy.int64)


def _listed(dataset: _Source, key: Output | None, outputs: Sequence[Output] | None, store: Store) -> _Rows:
    """The rows of a data set as they are now."""
    del store  # they lie where the data set has them
    count = len(dataset)
    names: Any = _Numbers(count) if key is None else _in_one_piece(_keys(dataset, key, count))
    return _Rows("", names, numpy.zeros((count, 0), numpy.int32), dataset, outputs)


def _in_one_piece(keys: list[str]) -> Sequence[str]:
    """Keys as names, unless they look like paths, whose spellings are names too."""
    names = packed(keys)
    return names if names.plain else keys


def _keys(dataset: _Source, key: Output, count: int) -> list[str]:
    """The keys of all rows, as text."""
    column = dataset.column(key)
    if column is not None:
        return [_key(value, i) for i, value in enumerate(column)]
    return [_key_of(dataset, key, i) for i in range(count)]


def _key_of(dataset: _Source, key: Output, i: int) -> str:
    try:
        return _key(_twice(lambda: _taken(dataset.row(i), key)), i)
    except Unusable as error:
        raise _unlisted(i, f"its key cannot be had: {error}") from error


def _key(value: Any, i: int) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (str, int, numpy.integer)) and not isinstance(value, bool):
        return str(value)
    reason = f"its key is to be a string, bytes or an integer; it is {shown(value)}"
    raise _unlisted(i, reason)


def _unlisted(i: int, reason: str) -> DataError:
    return unlisted(Map._operator, f"row {i}", reason)
