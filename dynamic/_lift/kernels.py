"""Running the function of an operator: on one sample, on many of one shape, on rows or values of many."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol

import numpy

from dynamic import _core
from dynamic._arrays import cuda
from dynamic._arrays.array import GATHERED, SMALL, Array, apart, are_small, current, is_array, stacked, values_of
from dynamic._arrays.described import allocated, described, rows
from dynamic._arrays.memory import check_room, empty
from dynamic._base import pool
from dynamic._core.described import described as read
from dynamic.data import Batch
from dynamic.errors import ArgumentError, DataError

from .call import Call, Shape

__all__ = ["UNITS", "Memory", "empties", "run", "together"]

#: The unit that the function of an operator gets at once. "array": one sample, or many of one shape as one array with a
#: dimension in front, "N" in the layout. "row", "value": the same, and rows or values are independent, so that those
#: of ragged samples may be joined. "view": as "array", and it returns views of its input.
UNITS = ("sample", "array", "row", "value", "view")

_GROUPED = 3  # samples of each shape on average; fewer are done one by one in the same time
_DTYPE, _NDIM = attrgetter("dtype"), attrgetter("ndim")
_ALIGNMENT = 64  # bytes; of the samples of a ragged result in their common memory


class Declared(Protocol):
    """The declaration of an operator, as kernels need it."""

    name: str
    unit: str
    gpu: Any
    layout_name: str | None
    lent: list[str]
    listed: frozenset[str]
    seals: bool  #: whether inputs are read-only views; the functions of the library write to none
    __wrapped__: Any


def run(operator: Declared, call: Call) -> list[Any]:
    """Storage of a Batch for each output."""
    plan = call.plan
    if call.device.device_type == "gpu":
        with current(call.device):
            if callable(operator.gpu) and plan.gpu:
                filled = Memory(call)
                operator.gpu(call, call.described(), filled.described())
                return _settled(call, filled.outs) if call.failures else filled.storages
            if not call.is_batch:
                return _alone(operator, call)
            found = _at_once(operator, call) if _takes_arrays(operator, call) and call.dense() else None
            return _one_by_one(operator, call) if found is None else found
    if plan.native is not None and not call.failures and _core.in_use():
        tables, filled = call.tables(), Memory(call)
        if tables is not None and plan.native(call, tables, filled):
            return _settled(call, filled.outs) if call.failures else filled.storages
    if not call.is_batch:
        return _alone(operator, call)
    if _takes_arrays(operator, call) and not call.failures:
        most = SMALL if operator.unit == "view" else GATHERED
        many = call if call.dense() else call.gathered(most) if call.count > 1 else None
        found = _at_once(operator, many) if many is not None else _small(operator, call) if call.count > 1 else None
        if found is not None:
            return found
    if plan.kernel is not None and call.count > 1 and not call.failures:
        memory = Memory(call) if plan.parts()[0].shapes is not None else None
        made = plan.kernel(call, memory)
        return list(made) if memory is None else memory.storages
    return _one_by_one(operator, call)


def _alone(operator: Declared, call: Call) -> list[Any]:
    """Results of the function for a Tensor."""
    plan, arguments, made = call.plan, call.fixed.copy(), []
    allocate = empty if call.library is numpy else call.library.empty
    for part in plan.parts():
        if part.shapes is not None:
            shape: Any = part.shapes if isinstance(part.shapes, tuple) else part.shapes[0]
            made.append(allocate(shape, part.dtype))
    for name in operator.lent:
        data = plan.data[0] if isinstance(plan.data, list) else plan.data
        arguments[name] = data if name == "plan" else tuple(made) if plan.outputs else made[0]
    try:
        inputs: Any = [column[0] for column in call.columns()]
        result = operator.__wrapped__(*(_sealed(inputs) if operator.seals else inputs), **arguments)
    except DataError as error:
        call.failures[0] = error
        return _settled(call, made)
    except Exception as error:
        _add_notes(error, call.note(0))
        raise
    if made:
        if result is not None and result is not arguments.get("out"):
            _check_filled(operator, result, arguments["out"], 0)
    else:
        made = list(result) if plan.outputs else [result]
        _check_arrays(operator, made, 0)
    return [[array] for array in made]


def _check_filled(operator: Declared, result: Any, out: Any, i: int) -> None:
    """Refuse a result that is not the memory that was to be filled."""
    if isinstance(result, numpy.ndarray) and result.size and not numpy.may_share_memory(result, out):
        raise TypeError(f"{operator.name}() returned a new array for sample {i}; fill `out`, or leave the plan out.")


def _check_arrays(operator: Declared, results: Sequence[Any], i: int) -> None:
    """Refuse results that are no arrays."""
    for result in results:
        if not is_array(result):
            found = type(result).__name__
            raise TypeError(f"{operator.name}() returned {found} for sample {i}; return an array.")


def _check_alike(operator: Declared, column: Sequence[Any]) -> None:
    """Refuse arrays of several dtypes or numbers of dimensions."""
    for name, of in (("dtype", _DTYPE), ("number of dimensions", _NDIM)):
        found = list(map(of, column))
        if len(set(found)) > 1:
            i = next(i for i, value in enumerate(found) if value != found[0])
            noun = "" if of is _DTYPE else " dimensions"
            told = f"{operator.name}() returned {found[0]}{noun} for sample 0 and {found[i]}{noun} for sample {i}"
            raise TypeError(f"{told}; return one {name}, or give it a plan.")


def _sealed(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Views of inputs that a function cannot write to."""
    return tuple([_read_only(array) if isinstance(array, numpy.ndarray) else array for array in arrays])


def _read_only(array: Array) -> Array:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _add_notes(error: Exception, place: str) -> None:
    """Tell where a function failed, and the way out where it wrote to an input."""
    error.add_note(place)
    if "read-only" in str(error) or "readonly" in str(error):
        error.add_note("Inputs are the caller's memory and read-only. Copy one before you write: image = image.copy().")


def _takes_arrays(operator: Declared, call: Call) -> bool:
    """Whether the function takes the samples of a call as one array."""
    if operator.unit == "sample" or isinstance(call.plan.data, list):
        return False
    if operator.unit in ("row", "value") and len({x.ndim for x in call.inputs}) > 1:
        return False  # they would be broadcast sample against row
    return call.varying.keys() <= operator.listed


def _one_by_one(operator: Declared, call: Call) -> list[Any]:
    """Results of the function for each sample."""
    plan, samples, body = call.plan, call.samples(), operator.__wrapped__
    if operator.seals and call.library is numpy:
        samples = list(map(_sealed, samples))
    memory = Memory(call) if plan.parts()[0].shapes is not None else None
    results: list[Any] = [None] * call.count
    outs = results if memory is None else memory.outs
    data = plan.data if isinstance(plan.data, list) else [plan.data] * call.count
    arguments = call.rows(**{name: outs if name == "out" else data for name in operator.lent})
    failures = call.failures

    def one(i: int) -> None:
        if i in failures:
            return
        try:
            result = results[i] = body(*samples[i], **arguments[i])
            if memory is None:
                _check_arrays(operator, result if plan.outputs else (result,), i)
            elif result is not None and result is not outs[i]:
                _check_filled(operator, result, outs[i], i)
        except DataError as error:
            failures[i] = error
        except Exception as error:
            _add_notes(error, call.note(i))
            raise

    alone = call.device.device_type == "gpu" or operator.unit == "view"
    work = 0.0 if alone else (call.bytes() + (memory.nbytes if memory else 0)) * plan.weight
    pool.run(one, call.count, work)
    if failures:
        return _settled(call, outs)
    if memory is not None:
        return memory.storages
    columns = list(map(list, zip(*results, strict=True))) if plan.outputs else [results]
    for column in columns:
        _check_alike(operator, column)
    return columns


def _settled(call: Call, outs: list[Any]) -> list[Any]:
    """Results of which some failed, as the plan's `on_error` says."""
    policy, failures = call.plan.on_error, call.failures
    if policy == "null":
        nothing = (slice(0),) * max(1, outs[0].ndim - 1)
        return [[out[nothing] if i in failures else out for i, out in enumerate(outs)]]
    if policy == "raise" or not call.is_batch:
        raise call.collected()
    kept = [i for i in range(call.count) if i not in failures]
    if call.origin is not None:
        call.origin = call.origin.take(kept)
    return [together([outs[i] for i in kept]) if kept else outs[0][None][:0]]


def empties(call: Call) -> list[Any]:
    """Results of an empty Batch: an array for each output.

    By default it has as many dimensions as its layout, else as the input, and the dtype that is asked for, else the
    input's.
    """
    found = []
    with current(call.device):
        for part in call.plan.parts():
            kind = call.asked if part.dtype is None else numpy.dtype(part.dtype)
            layout = call.layout if part.layout is ... else part.layout
            ndim = part.ndim if part.ndim is not None else len(layout) if layout else call.ndim
            found.append(call.library.empty((0,) * (1 + ndim), kind))
    return found


def _at_once(operator: Declared, call: Call) -> list[Any] | None:
    """Results of the function for samples that are one array, a part for each thread; None where theirs differ."""
    wholes: list[Array] = [x.whole for x in call.inputs if isinstance(x, Batch)]
    layout = {operator.layout_name: call.layout and f"N{call.layout}"} if operator.layout_name is not None else {}
    lent = {"plan": call.plan.data} if "plan" in operator.lent else {}
    arguments, body = {**call.fixed, **layout, **lent}, operator.__wrapped__
    if operator.seals:
        wholes = list(_sealed(wholes))
    if operator.unit == "view":
        return [body(*wholes, **arguments)]
    shape = _alike(call.plan.shapes)
    if shape is None:
        return None
    storage = (empty if call.library is numpy else call.library.empty)((call.count, *shape), call.plan.dtype)

    def some(part: slice) -> None:
        own = {name: values[part] for name, values in call.varying.items()}
        try:
            body(*(whole[part] for whole in wholes), **arguments, **own, out=storage[part])
        except Exception as error:
            _add_notes(error, f"In {operator.name}(), samples {part.start} to {part.stop - 1} of {call.count}.")
            raise

    on_cpu = call.device.device_type == "cpu"
    pool.run_parts(some, call.count, (call.bytes() + storage.nbytes) * call.plan.weight if on_cpu else 0)
    return [storage]


def _small(operator: Declared, call: Call) -> list[Any] | None:
    """Results for small ragged samples, done at once; None of others."""
    joined = _joined(operator, call) if operator.unit in ("row", "value") else None
    return joined if joined is not None or operator.unit == "view" else _groups(operator, call)


def _joined(operator: Declared, call: Call) -> list[Any] | None:
    """Results for the rows, or values, of all samples as one; None where they cannot be joined."""
    whole, values = call.inputs[0], operator.unit == "value"
    if not isinstance(whole, Batch) or len(call.inputs) > 1 or (values and call.varying):
        return None
    samples = whole.samples
    if not are_small(samples):
        return None
    rest = samples[0].shape[1:]
    if not values and (whole.ndim < 2 or any(sample.shape[1:] != rest for sample in samples)):
        return None
    shapes: Any = call.plan.shapes
    shape, kind = shapes if isinstance(shapes, tuple) else shapes[0], call.plan.dtype
    joined = values_of(samples) if values else numpy.concatenate(samples)
    sizes = [len(sample) for sample in samples] if call.varying else []
    varying = {name: numpy.repeat(numpy.asarray(column), sizes, axis=0) for name, column in call.varying.items()}
    lent = {"plan": call.plan.data} if "plan" in operator.lent else {}
    out = empty((len(joined), *(() if values else shape[1:])), kind)
    try:
        operator.__wrapped__(joined, **call.fixed, **lent, **varying, out=out)
    except Exception as error:
        error.add_note(f"In {operator.name}(), samples 0 to {call.count - 1} of {call.count}.")
        raise
    return [apart(out.reshape(-1), [sample.shape if values else (len(sample), *shape[1:]) for sample in samples])]


def _groups(operator: Declared, call: Call) -> list[Any] | None:
    """Results for samples of a few shapes, done at once for each shape; None of others.

    None where one is refused too: the error names it where they are done one by one.
    """
    columns = [x.samples for x in call.inputs if isinstance(x, Batch)]
    if len(columns) < len(call.inputs) or not columns or not all(map(are_small, columns)):
        return None
    groups: dict[tuple[Shape, ...], list[int]] = {}
    for i, arrays in enumerate(zip(*columns, strict=True)):
        groups.setdefault(tuple([array.shape for array in arrays]), []).append(i)
    if len(groups) * _GROUPED > call.count:
        return None
    parts: list[Array] = []
    for places in groups.values():
        found = _of_group(operator, call, columns, places)
        if found is None:
            return None
        parts += found
    return [_scattered(list(groups.values()), parts, call.count)]


def _of_group(operator: Declared, call: Call, columns: list[Sequence[Array]], places: list[int]) -> list[Array] | None:
    """Results for samples of one shape; None where one is refused."""
    some = call.taken(columns, places)
    shapes = call.plan.shapes
    some.plan = replace(call.plan, shapes=shapes[places[0]] if isinstance(shapes, list) else shapes)
    try:
        return _at_once(operator, some)
    except ArgumentError:
        return None
    except Exception as error:
        error.add_note(f"These are samples {', '.join(map(str, places))} of {call.count}.")
        raise


def _scattered(groups: Sequence[list[int]], parts: Sequence[Array], count: int) -> Any:
    """Results of groups of samples as storage of all, one array where their shapes are alike."""
    if len({part.shape[1:] for part in parts}) == 1:
        out = empty((count, *parts[0].shape[1:]), parts[0].dtype)
        for places, part in zip(groups, parts, strict=True):
            out[places] = part
        return out
    results: list[Any] = [None] * count
    for places, part in zip(groups, parts, strict=True):
        for place, result in zip(places, part, strict=True):
            results[place] = result
    return results


class Memory:
    """The results of a call as its kernel writes them.

    Attributes:
        outs: Memory for each sample; of several outputs tuples.
        storages: Storage of a Batch for each output: one array, or a list of views.
        nbytes: Bytes of all results.
    """

    def __init__(self, call: Call) -> None:
        allocate = _allocated if call.library is numpy else _allocated_on_gpu
        self._several, self._on_cpu = bool(call.plan.outputs), call.library is numpy
        self.storages: list[Any] = []
        self.nbytes = 0
        columns = []
        for part in call.plan.parts():
            buffer, whole, places = allocate(part.shapes, part.dtype, call.count)
            self.storages.append(places if whole is None else whole)
            self.nbytes += int(buffer.nbytes)
            columns.append(places)
        self.outs: list[Any] = list(zip(*columns, strict=True)) if self._several else columns[0]

    def described(self) -> Any:
        """The place of the results, for kernels of many samples; a list for several outputs."""
        parts = list(map(read if self._on_cpu else described, self.storages))
        return parts if self._several else parts[0]


def _alike(shapes: Any) -> Shape | None:
    """The shape that all samples have; None where they differ."""
    if isinstance(shapes, tuple):
        return shapes
    return shapes[0] if len(set(shapes)) == 1 else None


def _allocated(shapes: Any, kind: Any, count: int) -> tuple[Array, Array | None, Any]:
    """Memory for the results: the buffer, the array of all where their shapes are alike, and a view for each."""
    shape = _alike(shapes)
    if shape is not None:
        whole = empty((count, *shape), kind)
        return whole, whole, list(whole) if shape else [whole[i, ...] for i in range(count)]
    kind = numpy.dtype(kind)
    sizes = [math.prod(shape) * kind.itemsize for shape in shapes]
    for each, size in zip(shapes, sizes, strict=True) if 0 in sizes else ():
        check_room(each, kind, size)
    starts = [0, *itertools.accumulate([-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes])]
    buffer = empty((starts[-1],), numpy.dtype("uint8"))
    views = [numpy.ndarray(each, kind, buffer, start) for start, each in zip(starts, shapes, strict=False)]
    return buffer, None, views


def _allocated_on_gpu(shapes: Any, kind: Any, count: int) -> tuple[Any, Any, Any]:
    """As `_allocated`, on the current GPU; the views are made when they are asked for."""
    shape = _alike(shapes)
    if shape is not None:
        whole = cuda.cupy().empty((count, *shape), kind)
        return whole, whole, rows(whole)
    views = allocated(numpy.array(shapes, numpy.int64), numpy.dtype(kind))
    return views, None, views


def together(samples: list[Array]) -> Array | list[Array]:
    """Samples as storage of a Batch: one array where their shapes are alike."""
    whole = stacked(samples) if samples else None
    return samples if whole is None else whole
