"""One call of an operator: its inputs and arguments, and the plan of its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, joined_alike
from dynamic._arrays.described import Described, described
from dynamic._base.origin import Origin
from dynamic._core.described import described as read
from dynamic.data import Batch, Tensor
from dynamic.devices import Device
from dynamic.dtypes import dtype, numpy_dtype
from dynamic.errors import ArgumentError, DataError, Failure

__all__ = ["Call", "Moving", "Plan", "Shape"]

R = TypeVar("R")
E = TypeVar("E", bound=Exception)

#: The extents of a sample.
Shape: TypeAlias = tuple[int, ...]


@dataclass(slots=True)
class Plan:
    """The results of a call, known before they are computed.

    Attributes:
        shapes: A list with the shape of each sample, or one tuple for all. None lets the kernel return new arrays.
        dtype: NumPy dtype of the result.
        layout: Layout of the result; by default that of the input. It is dropped where the number of letters differs
            from that of the dimensions.
        ndim: Dimensions of the result of an empty Batch; by default those of the layout, else of the input.
        outputs: For several outputs a plan of each, which has the attributes above.
        data: Found while planning, for the parameter `plan` of the kernel: a list has an entry for each sample,
            anything else is the same for all.
        kernel: Called on the CPU with the call and the memory of a Batch, instead of the operator's function; it fills
            the memory, or returns storage of its own where there is none.
        native: Called on the CPU where the native library is in use, before all others, of a Tensor too, with the call,
            the places of inputs and the memory; it fills the memory, or returns False to leave that to the others.
        weight: Work for each byte of inputs and results; copying has 1. It decides whether threads share the call.
        gpu: Whether the operator's GPU kernel takes the call; otherwise its function gets CuPy arrays.
        on_error: For samples that raise a DataError: "raise" one error of all, "skip" them, or "null", empty results.
    """

    shapes: Sequence[Shape] | Shape | None = None
    dtype: Any = None
    layout: str | EllipsisType | None = ...
    ndim: int | None = None
    outputs: Sequence[Plan] = ()
    data: Any = None
    kernel: Callable[[Call, Any], Any] | None = None
    native: Callable[[Call, list[Described], Any], bool] | None = None
    weight: float = 1.0
    gpu: bool = True
    on_error: str = "raise"

    def parts(self) -> Sequence[Plan]:
        """A plan of each output."""
        return self.outputs or [self]


@dataclass(frozen=True, slots=True)
class Moving:
    """The plan of an operator that moves pixels, and the map by which it moves them: for `together`.

    Attributes:
        plan: The function that plans.
        map: A function of a planned call: for each sample the matrix from points of the input to points of the result,
            (N, 3, 3) float64. Points are (x, y, 1), in pixels from the corner of the first one.
    """

    plan: Callable[[Call], Plan]
    map: Callable[[Call], Array]


_UNPLANNED = Plan()  # never changed: a call gets a plan of its own


@dataclass(slots=True, eq=False)
class Call:
    """The inputs and arguments of one call, checked and converted.

    Attributes:
        name: Of the operator.
        inputs: Tensors and Batches.
        device: Of the results.
        count: Number of samples: 1 for a Tensor.
        is_batch: Whether the result is a Batch.
        fixed: Arguments that are the same for all samples.
        varying: Arguments of each sample.
        layout: Of the first input.
        origin: Where the samples came from, where a reader gave them.
        frames: Where the samples are frames of videos, the number of frames of each video.
        source: Of random numbers, for the plan of a random operator.
        plan: The plan, once it is made.
        failures: Errors of samples that cannot be read.
    """

    name: str
    inputs: list[Tensor | Batch]
    device: Device
    count: int
    is_batch: bool
    fixed: dict[str, Any]
    varying: dict[str, list[Any]]
    layout: str | None
    origin: Origin | None
    frames: Sequence[int] | None = None
    source: Any = None
    plan: Plan = field(default_factory=lambda: _UNPLANNED)
    failures: dict[int, DataError] = field(default_factory=dict)
    _shapes: dict[int, Sequence[Shape]] = field(default_factory=dict, init=False)
    _alike: bool | None = field(default=None, init=False)
    _tables: list[Described] | None = field(default=None, init=False)

    @property
    def library(self) -> Any:
        """NumPy or CuPy, whichever allocates the results."""
        return numpy if self.device.device_type == "cpu" else cuda.cupy()

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """NumPy dtype of the first input."""
        return self.inputs[0]._numpy_dtype

    @property
    def ndim(self) -> int:
        """Dimensions of a sample of the first input; 0 where there is none."""
        return self.inputs[0].ndim if self.inputs else 0

    @property
    def shapes(self) -> Sequence[Shape]:
        """Shape of each sample of the first input."""
        return self._shapes_of(0)

    def _shapes_of(self, i: int) -> Sequence[Shape]:
        found = self._shapes.get(i)
        if found is None:
            x = self.inputs[i]
            found = self._shapes[i] = x.shape if isinstance(x, Batch) else [x.shape] * self.count
        return found

    @property
    def asked(self) -> numpy.dtype[Any]:
        """NumPy dtype of the argument `dtype`; that of the first input where the caller gave none."""
        wanted = self.fixed.get("dtype")
        return self.dtype if wanted is None else numpy_dtype(dtype(wanted))

    def column(self, name: str) -> list[Any]:
        """An argument of all samples, one value each."""
        if name in self.varying:
            return self.varying[name]
        if name not in self.fixed:
            raise ArgumentError.unknown(self.name, name, [*self.fixed, *self.varying])
        return [self.fixed[name]] * self.count

    def columns(self) -> list[Sequence[Array]]:
        """The arrays of each input, one for each sample."""
        return [x.samples if isinstance(x, Batch) else [x.array] * self.count for x in self.inputs]

    def samples(self) -> Sequence[tuple[Array, ...]]:
        """The inputs of each sample; on a GPU arrays are made when they are asked for."""
        columns = self.columns()
        if self.device.device_type == "gpu":
            return _Rows(columns, self.count)
        return list(zip(*columns, strict=True)) if columns else [()] * self.count

    def rows(self, **more: Sequence[Any] | None) -> list[dict[str, Any]]:
        """The arguments of each sample, and columns of more where there are any."""
        columns = self.varying | {name: column for name, column in more.items() if column is not None}
        if not columns:
            return [self.fixed] * self.count
        return [self.fixed | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def each(
        self, function: Callable[..., R], *, of_values: bool = False, among: Collection[str] | None = None
    ) -> list[R]:
        """Results of a function for each sample, given its inputs and arguments.

        A DataError makes its sample one of `failures`, and it gets the result of another.

        Args:
            function: Called as the operator's function is, once for samples of the same shapes and arguments.
            of_values: Whether the function reads the values of inputs, and is called for every sample.
            among: The arguments of each sample that the function reads; by default all.
        """
        if not self.count:
            return []
        if not (self.varying if among is None else among) and not of_values and self.alike():
            return [self._of_first(function)] * self.count
        samples, rows = self.samples(), self.rows()
        keys = [None] * self.count if of_values else self._keys()
        found: list[Any] = []
        known: dict[Any, Any] = {}
        for i in range(self.count):
            key = keys[i]
            if key is not None and key in known:
                found.append(known[key])
                continue
            try:
                found.append(function(*samples[i], **rows[i]))
            except DataError as error:
                self.failures[i] = error
                found.append(None)
                continue
            except Exception as error:
                error.add_note(self.note(i))
                raise
            if key is not None:
                known[key] = found[-1]
        if self.failures:
            good = next((result for i, result in enumerate(found) if i not in self.failures), None)
            if good is None:
                raise self.collected()
            found = [good if i in self.failures else result for i, result in enumerate(found)]
        return found

    def _of_first(self, function: Callable[..., R]) -> R:
        """The result of a function for the first sample."""
        sample = [x.array if isinstance(x, Tensor) else first_of(x) for x in self.inputs]
        try:
            return function(*sample, **self.fixed)
        except DataError as error:
            self.failures = dict.fromkeys(range(self.count), error)
            raise self.collected() from None
        except Exception as error:
            error.add_note(self.note(0))
            raise

    def shapes_by(self, function: Callable[[Shape], Shape]) -> list[Shape]:
        """Shapes of results, by those of the first input: a function is called once for each."""
        known: dict[Shape, Shape] = {}
        shapes = self.shapes
        for shape in shapes[:1] if self.alike() else dict.fromkeys(shapes):
            try:
                known[shape] = function(shape)
            except ArgumentError as error:
                self.noted(shapes.index(shape), error)
                raise
        return [known[shapes[0]]] * self.count if len(known) == 1 else [known[shape] for shape in shapes]

    def _keys(self) -> list[Any]:
        """For each sample its shapes and arguments, hashable; None where an argument is not."""
        shapes = [self._shapes_of(i) for i in self._separate()]
        keys: list[Any] = list(zip(*shapes, *self.varying.values(), strict=True))
        try:
            hash(tuple(keys))
        except TypeError:  # an argument that is an array
            return [None] * self.count
        return keys

    def uniform(self) -> bool:
        """Whether all samples have the same shapes and arguments."""
        return not self.varying and self.alike()

    def alike(self) -> bool:
        """Whether all samples have the same shapes."""
        if self._alike is None:
            columns = map(self._shapes_of, self._separate())
            self._alike = all([shapes.count(shapes[0]) == self.count for shapes in columns if self.count])  # noqa: C419
        return self._alike

    def _separate(self) -> list[int]:
        """The numbers of inputs that are separate arrays."""
        return [i for i, x in enumerate(self.inputs) if isinstance(x, Batch) and x.whole is None]

    def bytes(self) -> int:
        """Bytes of the inputs; of separate samples as many as the first has, each."""
        total = 0
        for x in self.inputs if self.count else ():
            if isinstance(x, Tensor):
                total += self.count * int(x.array.nbytes)
            else:
                total += int(self.count * x.samples[0].nbytes if x.whole is None else x.whole.nbytes)
        return total

    def described(self) -> list[Described]:
        """The place of each input in memory, for GPU kernels."""
        return list(map(described, self.storages()))

    def tables(self) -> list[Described] | None:
        """The same for native functions; None where the arrays of an input are not of one dtype."""
        if self._tables is None:
            self._tables = [table for storage in self.storages() if (table := read(storage)) is not None]
        return self._tables if len(self._tables) == len(self.inputs) else None

    def storages(self) -> list[Any]:
        """The arrays of each input: one of all samples, or one for each."""
        return [
            [x.array] * self.count if isinstance(x, Tensor) else x.samples if x.whole is None else x.whole
            for x in self.inputs
        ]

    def dense(self) -> bool:
        """Whether each input is a Batch that is one array."""
        return all([isinstance(x, Batch) and x.whole is not None for x in self.inputs])  # noqa: C419 - faster

    def scattered(self, most: int) -> bool:
        """Whether an input is separate arrays on the CPU of several shapes, or of more bytes than `gathered` copies."""
        if self.device.device_type != "cpu" or not self.count:
            return False
        separate: list[Any] = [self.inputs[i] for i in self._separate()]
        return any(x.samples[0].nbytes > most for x in separate) or not self.alike()

    def gathered(self, most: int) -> Call | None:
        """This call with separate samples of one shape copied to one array; None where they differ.

        Args:
            most: Bytes of a sample; larger ones are not copied.
        """
        inputs: list[Tensor | Batch] = []
        for x in self.inputs:
            if isinstance(x, Tensor) or (x.whole is None and (x.samples[0].nbytes > most or not self.alike())):
                return None
            inputs.append(x if x.whole is not None else Batch(joined_alike(x.samples), x.layout))
        return replace(self, inputs=inputs)

    def taken(self, columns: list[Sequence[Array]], places: list[int]) -> Call:
        """This call for some samples of one shape.

        Args:
            columns: The arrays of each input.
            places: Numbers of the samples.
        """
        wholes = [joined_alike([column[i] for i in places]) for column in columns]
        inputs: list[Tensor | Batch] = [Batch(whole, x.layout) for whole, x in zip(wholes, self.inputs, strict=True)]
        varying = {name: [values[i] for i in places] for name, values in self.varying.items()}
        return replace(self, inputs=inputs, count=len(places), varying=varying)

    def note(self, i: int) -> str:
        """The place of an error: the sample's number, source, shapes and layout."""
        arrays = [x.samples[i] if isinstance(x, Batch) else x.array for x in self.inputs]
        parts = [f"shape {array.shape} {array.dtype}" for array in arrays] + [f"layout {self.layout}"] * bool(arrays)
        source = f" ({self.origin.names[i]})" if self.origin is not None else ""
        return f"In {self.name}(), sample {i} of {self.count}{source}" + (f": {', '.join(parts)}." if parts else ".")

    def noted(self, i: int, error: E) -> E:
        """An error of a sample, with the note of its place."""
        error.add_note(self.note(i))
        return error

    def collected(self) -> DataError:
        """One error for all samples that cannot be read."""
        failures = []
        for i, error in sorted(self.failures.items()):
            cause = error.failures[0]
            source = self.origin.names[i] if self.origin is not None else cause.source
            failures.append(Failure(i, cause.reason, cause.format, source))
        kinds = [type(error) for error in self.failures.values()]
        kind = next(k for k in kinds[0].__mro__ if all(issubclass(other, k) for other in kinds))
        error_of_all: DataError = kind(self.name, failures, self.count)
        return error_of_all


def first_of(batch: Batch) -> Array:
    """The first sample, without making the others."""
    whole = batch.whole
    return batch.samples[0] if whole is None else whole[0, ...]


class _Rows(Sequence["tuple[Array, ...]"]):
    """Rows of columns, each made when it is asked for."""

    def __init__(self, columns: list[Sequence[Array]], count: int) -> None:
        self._columns, self._count = columns, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        return tuple(column[index] for column in self._columns)
