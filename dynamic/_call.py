"""One call of an operator once its arguments are bound, and memory for its results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy

from ._arrays import cuda
from ._arrays.array import Array, apart, are_small, current, joined_alike, only_numbers, stacked, values_of
from ._arrays.described import Described, allocated, described, rows
from ._arrays.memory import check_room, empty
from ._base.origin import Origin
from ._base.pool import Step, run_parts, run_steps
from .data import Batch, Tensor, as_one
from .devices import Device
from .dtypes import dtype, numpy_dtype
from .errors import ArgumentError, DataError, DeviceError, Failure

__all__ = [
    "Call", "Kernel", "Many", "Memory", "Planned", "Spec", "at_once", "check_input", "of_nothing", "of_small",
    "on_one_device", "specs", "stepwise", "together",
]  # fmt: skip

#: Shape and NumPy dtype of a result.
Spec: TypeAlias = tuple[tuple[int, ...], "numpy.dtype[Any]"]

_GROUPED = 3  # samples of each shape on average; fewer are done one by one in the same time
_ALIGNMENT = 64  # bytes; of the samples of a ragged result in their common memory


class Planned(NamedTuple):
    """What an output function returns that has found out more of a sample than what its result will look like."""

    spec: Any  #: a `Spec`, or a tuple of them for several outputs
    plan: Any  #: what the operator's function is given as `plan`


class Declared(Protocol):
    """What an operator says of itself."""

    name: str
    output: Callable[..., Any] | None
    values_from: int | None
    devices: tuple[str, ...]
    on_host: bool
    kernel: Kernel | None
    independent: str
    views: bool
    variadic: bool
    layout_name: str | None  #: of the argument that is told the layout
    outputs: int
    out_kind: Callable[..., Any] | None
    __wrapped__: Callable[..., Any]


@dataclass(slots=True)
class Call:
    """One call of an operator, once its arguments are bound."""

    inputs: list[Tensor | Batch]
    device: Device
    count: int
    is_batch: bool
    fixed: dict[str, Any]
    varying: dict[str, list[Any]]
    layout: str | None
    origin: Origin | None
    failures: dict[int, DataError] = field(default_factory=dict)
    shapes: list[list[tuple[int, ...]]] | None = None  #: those of inputs whose samples are separate, once known
    plans: list[Any] = field(default_factory=list)  #: for each sample, where the operator plans

    @property
    def library(self) -> Any:
        """What the memory of the results is allocated with: NumPy or CuPy."""
        return numpy if self.device.device_type == "cpu" else cuda.cupy()

    def samples(self) -> Sequence[tuple[Array, ...]]:
        """The inputs of each sample; on a GPU they are made when they are asked for."""
        columns = self._columns()
        if self.device.device_type == "gpu":
            return _Rows(columns, self.count)
        return list(zip(*columns, strict=True)) if columns else [()] * self.count

    def _columns(self) -> list[Sequence[Array]]:
        return [x.samples if isinstance(x, Batch) else [x.array] * self.count for x in self.inputs]

    def bytes(self) -> int:
        """About how much memory the inputs take: where they are separate, as much as the first of them each."""
        return sum(
            int(x.whole.nbytes)
            if isinstance(x, Batch) and x.whole is not None
            else self.count * int(x.array.nbytes if isinstance(x, Tensor) else x.samples[0].nbytes)
            for x in self.inputs
        )

    def sizes(self) -> list[int] | None:
        """Bytes of the inputs of each sample, where these are separate; those that are not are all of one size."""
        apart = [x.samples for x in self.inputs if isinstance(x, Batch) and x.whole is None]
        if len(apart) == 1:
            return [array.nbytes for array in apart[0]]
        return [sum(array.nbytes for array in arrays) for arrays in zip(*apart, strict=True)] if apart else None

    def work(self, more: int) -> int:
        """Bytes that threads share, of the inputs and so many more; none on a GPU, whose work is only begun here."""
        return self.bytes() + more if self.device.device_type == "cpu" else 0

    def described(self) -> list[Described]:
        """Where each input is, for kernels."""
        storages = [x.whole if isinstance(x, Batch) and x.whole is not None else column
                    for x, column in zip(self.inputs, self._columns(), strict=True)]  # fmt: skip
        return list(map(described, storages))

    def column(self, name: str) -> list[Any]:
        """An argument of all samples, one value each."""
        return self.varying[name] if name in self.varying else [self.fixed[name]] * self.count

    def arguments(self, i: int) -> dict[str, Any]:
        """The arguments of one sample."""
        if not self.varying:
            return self.fixed
        return {**self.fixed, **{name: values[i] for name, values in self.varying.items()}}

    def one_array_each(self) -> bool:
        """Whether each input is a Batch that holds one array."""
        return all(isinstance(x, Batch) and x.whole is not None for x in self.inputs)

    def gathered(self, most: int) -> Call | None:
        """This call with samples that are separate, but of one shape, copied to one array; None where it cannot.

        The shapes of all but the first of them are looked at only where that is of no more than so many bytes.
        """
        inputs: list[Tensor | Batch] = []
        for x in self.inputs:
            whole = as_one(x, most) if isinstance(x, Batch) else None
            if whole is None:
                return None
            inputs.append(Batch(whole, x.layout))
        return replace(self, inputs=inputs)

    def taken(self, columns: list[Sequence[Array]], places: list[int]) -> Call:
        """This call for some samples of one shape, which inputs of separate samples have in columns."""
        wholes = [joined_alike([column[i] for i in places]) for column in columns]
        inputs: list[Tensor | Batch] = [Batch(whole, x.layout) for whole, x in zip(wholes, self.inputs, strict=True)]
        varying = {name: [values[i] for i in places] for name, values in self.varying.items()}
        return replace(self, inputs=inputs, count=len(places), varying=varying)

    def likeness(self, i: int) -> Any:
        """What shape and dtype of the result of a sample depend on: samples of one are alike; None where none are."""
        if self.shapes is None:
            self.shapes = [x.shape for x in self.inputs if isinstance(x, Batch) and x.whole is None]
        key = (*(shapes[i] for shapes in self.shapes), *(values[i] for values in self.varying.values()))
        try:
            hash(key)
        except TypeError:  # an argument that is an array
            return None
        return key

    def uniform(self) -> bool:
        """Whether all samples have the same shapes and arguments."""
        if self.varying:
            return False
        return all(isinstance(x, Tensor) or x.whole is not None or len(set(x.shape)) == 1 for x in self.inputs)

    def note(self, operator: str, i: int) -> str:
        """Where an error happened."""
        arrays = [x.samples[i] if isinstance(x, Batch) else x.array for x in self.inputs]
        what = [f"shape {array.shape} {array.dtype}" for array in arrays] + [f"layout {self.layout}"] * bool(arrays)
        name = f" ({self.origin.names[i]})" if self.origin is not None else ""
        return f"In {operator}(), sample {i} of {self.count}{name}" + (f": {', '.join(what)}." if what else ".")

    def settled(self, operator: str, outs: list[Any]) -> Any:
        """Results of which some failed: one error for all that did, unless an argument `on_error` lets them pass."""
        policy = self.fixed.get("on_error", "raise")
        if policy == "null":
            nothing = (slice(0),) * max(1, outs[0].ndim - 1)
            return [out[nothing] if i in self.failures else out for i, out in enumerate(outs)]
        if policy == "raise" or not self.is_batch:
            raise self.collected(operator)
        kept = [i for i in range(self.count) if i not in self.failures]
        if self.origin is not None:
            self.origin = self.origin.take(kept)
        return together([outs[i] for i in kept]) if kept else outs[0][None][:0]

    def collected(self, operator: str) -> DataError:
        """One error for all samples that cannot be read."""
        failures = []
        for i, error in sorted(self.failures.items()):
            cause = error.failures[0]
            source = self.origin.names[i] if self.origin is not None else cause.source
            failures.append(Failure(i, cause.reason, cause.format, source))
        kinds = [type(error) for error in self.failures.values()]
        kind = next(k for k in kinds[0].__mro__ if all(issubclass(other, k) for other in kinds))
        error_of_all: DataError = kind(operator, failures, self.count)
        return error_of_all


def specs(operator: Declared, call: Call, samples: Sequence[tuple[Array, ...]]) -> list[Any]:
    """Shape and dtype of the results of each of some samples; of one where they are all alike."""
    assert operator.output is not None, "asked of operators with an output function"
    found: list[Any] = []
    known: dict[Any, Any] = {}  # many samples are alike
    of_values = operator.values_from is not None and operator.values_from < len(call.inputs)
    once = call.count == 1 or (not of_values and call.uniform())
    for i in range(1 if once else len(samples)):
        key = None if once or of_values else call.likeness(i)
        try:
            spec = known.get(key) or operator.output(*samples[i], **call.arguments(i))
            found.append(spec)
            if key is not None:
                known[key] = spec
        except DataError as error:
            call.failures[i] = error
            found.append(None)
        except Exception as error:
            error.add_note(call.note(operator.name, i))
            raise
    if call.failures:  # the others are tried all the same, so that one error can name all that fail
        stand_in = next((spec for spec in found if spec is not None), None)
        if stand_in is None:
            raise call.collected(operator.name)
        found = [stand_in if spec is None else spec for spec in found]
    if found and isinstance(found[0], Planned):
        call.plans = [each.plan for each in found] * (call.count // len(found))
        found = [each.spec for each in found]
    return found


def of_nothing(operator: Declared, call: Call, layouts: Sequence[str | None]) -> Any:
    """What an empty Batch becomes: an empty array, or one for each output, whose layouts are told.

    By default it has as many dimensions as the layout, or the input; and the dtype that is asked for, or the input's.
    """
    data = call.inputs[0] if call.inputs else Tensor(numpy.float32(0))
    if operator.out_kind is None:
        kind = call.fixed.get("dtype")
        kind = data._numpy_dtype if kind is None else numpy_dtype(dtype(kind))
        kinds: Any = [(len(layout) if layout else data.ndim, kind) for layout in layouts]
    else:
        kinds = operator.out_kind(data.ndim, data._numpy_dtype, **call.fixed)
        kinds = kinds if operator.outputs else [kinds]
    with current(call.device):
        parts = [call.library.empty((0,) * (1 + ndim), kind) for ndim, kind in kinds]
    return parts if operator.outputs else parts[0]


def at_once(operator: Declared, call: Call) -> Array | None:
    """What a function makes of samples that are one array, given many at a time: a part for each thread.

    None where it declines them, which it does of all or of none.
    """
    wholes: list[Array] = [x.whole for x in call.inputs if isinstance(x, Batch)]
    layout = {operator.layout_name: call.layout and f"N{call.layout}"} if operator.layout_name is not None else {}
    arguments, body = {**call.fixed, **layout}, operator.__wrapped__
    if operator.views:
        views: Array = body(*wholes, **arguments)
        return views
    shape, kind = specs(operator, call, [tuple(whole[0, ...] for whole in wholes)])[0]
    storage = (empty if call.library is numpy else call.library.empty)((call.count, *shape), kind)
    declined: list[slice] = []

    def some(part: slice) -> None:
        own = {name: values[part] for name, values in call.varying.items()}
        try:
            if body(*(whole[part] for whole in wholes), **arguments, **own, out=storage[part]) is NotImplemented:
                declined.append(part)
        except Exception as error:
            error.add_note(f"In {operator.name}(), samples {part.start} to {part.stop - 1} of {call.count}.")
            raise

    run_parts(some, call.count, call.work(storage.nbytes), operator.name)
    return None if declined else storage


def of_small(operator: Declared, call: Call) -> Array | list[Array] | None:
    """What an operator that takes many samples at once makes of small ones that are ragged; None of others."""
    parts = _of_parts(operator, call)
    return parts if parts is not None or operator.views else _of_groups(operator, call)


def _of_parts(operator: Declared, call: Call) -> list[Array] | None:
    """What becomes of samples whose rows, or values, are independent: as one; None of others."""
    whole, values = call.inputs[0], operator.independent == "values"
    if not operator.independent or not isinstance(whole, Batch) or len(call.inputs) > 1 or (values and call.varying):
        return None
    samples = whole.samples
    if not are_small(samples):
        return None
    rows = samples[0].shape[1:]
    if not values and (whole.ndim < 2 or any(sample.shape[1:] != rows for sample in samples)):
        return None
    ((shape, kind),) = specs(operator, call, [(samples[0],)])
    joined = values_of(samples) if values else numpy.concatenate(samples)
    sizes = [len(sample) for sample in samples] if call.varying else []
    varying = {name: numpy.repeat(numpy.asarray(column), sizes, axis=0) for name, column in call.varying.items()}
    out = empty((len(joined), *(() if values else shape[1:])), kind)
    try:
        operator.__wrapped__(joined, **call.fixed, **varying, out=out)
    except Exception as error:
        error.add_note(f"In {operator.name}(), samples 0 to {call.count - 1} of {call.count}.")
        raise
    return apart(out.reshape(-1), [sample.shape if values else (len(sample), *shape[1:]) for sample in samples])


def _of_groups(operator: Declared, call: Call) -> Array | list[Array] | None:
    """What becomes of samples of a few shapes, done at once for each shape; None of others.

    None where one is refused too: the error names it where they are done one by one.
    """
    columns = [x.samples for x in call.inputs if isinstance(x, Batch)]
    if len(columns) < len(call.inputs) or not all(map(are_small, columns)):
        return None
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for i, arrays in enumerate(zip(*columns, strict=True)):
        groups.setdefault(tuple([array.shape for array in arrays]), []).append(i)
    if len(groups) * _GROUPED > call.count:
        return None
    parts: list[Array] = []
    for places in groups.values():
        try:
            part = at_once(operator, call.taken(columns, places))
        except ArgumentError:
            return None
        except Exception as error:
            error.add_note(f"These are samples {', '.join(map(str, places))} of {call.count}.")
            raise
        if part is None:
            return None
        parts.append(part)
    if len({part.shape[1:] for part in parts}) == 1:
        out = empty((call.count, *parts[0].shape[1:]), parts[0].dtype)
        for places, part in zip(groups.values(), parts, strict=True):
            out[places] = part
        return out
    results: list[Any] = [None] * call.count
    for places, part in zip(groups.values(), parts, strict=True):
        for place, result in zip(places, part, strict=True):
            results[place] = result
    return results


#: What a GPU runs for a whole call: given the call, a description of each input and of the memory for the results.
Kernel: TypeAlias = Callable[[Call, "list[Described]", Any], Any]


class Memory:
    """Where the results of a call are written: for each output one array, and in it a place for each sample.

    Args:
        call: The call.
        specs: Shape and dtype of the result of each sample, or of all; or tuples of these, one for each output.
        several: Whether they are tuples.
    """

    def __init__(self, call: Call, specs: list[Any], *, several: bool) -> None:
        allocate = _allocated if call.library is numpy else _allocated_on_gpu
        columns = zip(*(specs if several else [(spec,) for spec in specs]), strict=True)
        parts = [allocate(list(column), call.count) for column in columns]
        self._several = several
        self._storages: list[Any] = [part[0] for part in parts]
        self._places: list[Any] = [part[1] for part in parts]
        self.outs: list[Any] = list(zip(*self._places, strict=True)) if several else self._places[0]
        self.nbytes = sum(int(storage.nbytes) for storage in self._storages)

    def described(self) -> Any:
        """Where the results are, for kernels: a description, or one for each of several outputs."""
        parts = [described(storage) for storage in self._written()]
        return parts if self._several else parts[0]

    def storages(self) -> Any:
        """What was written, as storage of a Batch or of several: one array, or a list of views into it."""
        parts = self._written()
        return parts if self._several else parts[0]

    def _written(self) -> list[Any]:
        return [
            storage if storage.ndim == places[0].ndim + 1 and storage.dtype == places[0].dtype else places
            for storage, places in zip(self._storages, self._places, strict=True)
        ]


#: What the CPU runs for a whole call: given the call, the inputs of each sample and the memory for the results, if that
#: is known, it gives what each output becomes: an array or a list of them.
Many: TypeAlias = Callable[[Call, "Sequence[tuple[Array, ...]]", "Memory | None"], Any]


def stepwise(step: Callable[..., Step | None]) -> Many:
    """What does many samples where each comes to one call of a library: all are made ready before threads do anything.

    Args:
        step: Called as the operator's function is: what is to be done for a sample; None where it is more.
    """

    def many(call: Call, samples: Sequence[tuple[Array, ...]], memory: Memory | None) -> Any:
        assert memory is not None, "these operators declare their output"
        steps = []
        for i, (sample, out) in enumerate(zip(samples, memory.outs, strict=True)):
            found = step(*sample, **call.arguments(i), out=out)
            if found is None:
                return None
            steps.append(found)
        run_steps(steps, call.work(memory.nbytes), step.__name__)
        return memory.storages()

    return many


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


def _allocated_on_gpu(specs: list[Spec], count: int) -> tuple[Any, Sequence[Array]]:
    """As `_allocated`, on the current GPU; the views are made when they are asked for."""
    shape, kind = specs[0]
    if len(set(specs)) == 1:
        whole = cuda.cupy().empty((count, *shape), kind)
        return whole, rows(whole)
    views = allocated(numpy.array([shape for shape, _ in specs], numpy.int64), kind)
    return views, views


def _allocated(specs: list[Spec], count: int) -> tuple[Array, list[Array]]:
    """Memory for the results of `count` samples, one array where they are alike, else a buffer; and a view for each."""
    if len(set(specs)) == 1:
        shape, kind = specs[0]
        whole = empty((count, *shape), kind)
        return whole, list(whole) if shape else [whole[i, ...] for i in range(count)]
    sizes = [math.prod(shape) * kind.itemsize for shape, kind in specs]
    for (shape, kind), size in zip(specs, sizes, strict=True) if 0 in sizes else ():
        check_room(shape, kind, size)
    starts = [0, *itertools.accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = empty((starts[-1],), numpy.dtype("uint8"))
    views = [
        buffer[start : start + size].view(kind).reshape(shape)
        for start, size, (shape, kind) in zip(starts, sizes, specs, strict=False)
    ]
    return buffer, views


def check_input(operator: Declared, device: Device) -> None:
    """Refuse an input that is on a device from which an operator takes none."""
    have = ("cpu",) if operator.on_host else operator.devices
    if device.device_type not in have:
        does = f"{operator.name}() {'takes inputs from' if operator.on_host else 'runs on'} {' and '.join(have)}"
        raise DeviceError(f"{does}; its input is on {device}. Move it with .cpu().")


def on_one_device(
    operator: Declared, name: Callable[[int], str], given: Sequence[Any], inputs: list[Tensor | Batch]
) -> list[Tensor | Batch]:
    """Inputs on one device: what was given as Python numbers is moved to the others.

    Of an operator with a kernel for GPUs, what comes after the data may stay on the CPU, where it is read.

    Args:
        operator: The operator.
        name: The name of an input.
        given: What the caller gave for each.
        inputs: What it became.

    Raises:
        DeviceError: Two of them are on different devices.
    """
    devices = [x.device for x in inputs]
    if all(device is Device.CPU for device in devices):
        return inputs
    read = operator.kernel is not None and not operator.variadic
    aside = [read and i > 0 and device is Device.CPU for i, device in enumerate(devices)]
    placed = [i for i, value in enumerate(given) if not aside[i] and not only_numbers(value)] or [0]
    first = devices[placed[0]]
    for i in placed:
        if devices[i] != first:
            both = f"{name(placed[0])!r} is on {first} and {name(i)!r} on {devices[i]}"
            raise DeviceError(f"{operator.name}(): {both}; move them to one device first.")
    return [x if stays else x.to_device(first) for x, stays in zip(inputs, aside, strict=True)]


def together(samples: list[Array]) -> Array | list[Array]:
    """Samples as storage of a Batch: one array where their shapes are alike."""
    whole = stacked(samples) if samples else None
    return samples if whole is None else whole
