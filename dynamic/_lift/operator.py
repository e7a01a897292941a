"""`operator`: a function on samples becomes a call on Tensors and Batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, Concatenate, Generic, Literal, ParamSpec, overload

import numpy

from dynamic._arrays.array import asarray, only_numbers
from dynamic._arrays.described import Views
from dynamic._base import clock
from dynamic._base.layout import fitting, warn_of_channels_first
from dynamic.data import Batch, Tensor, first_shape
from dynamic.devices import Device, DeviceLike, device_of_call
from dynamic.dtypes import ALL, dtype, numpy_dtype
from dynamic.errors import ArgumentError, DeviceError, DynamicError, shown

from . import frames, kernels
from .argument import Argument, on_host
from .binding import Binder, common_size
from .call import Call, Moving, Plan

__all__ = ["Operator", "movers", "operator", "registry"]

P = ParamSpec("P")

#: Every operator of the library by its name.
registry: dict[str, Operator[...]] = {}
#: Those that tell where pixels go, the random ones too.
movers: dict[str, Operator[...]] = {}

_COMMON = {"batch_size": "int | None", "device": "DeviceLike", "rng": "Source | None"}


class Operator(Generic[P]):
    """A function on samples as a call on Tensors and Batches; made by `operator`."""

    def __init__(
        self,
        body: Callable[Concatenate[Any, P], Any],
        layouts: Sequence[str] | None = None,
        dtypes: str | Sequence[str] | None = None,
        plan: Callable[[Call], Plan] | Moving | None = None,
        gpu: Callable[..., None] | bool = False,
        unit: str = "sample",
        name: str | None = None,
        common: Sequence[str] = ("batch_size", "device"),
    ) -> None:
        functools.update_wrapper(self, body)
        self.name = name or body.__name__
        if unit not in kernels.UNITS:
            raise ArgumentError("operator", "unit", f"one of {', '.join(map(repr, kernels.UNITS))}", shown(unit))
        if isinstance(layouts, str):
            raise ArgumentError("operator", "layouts", "a list of layouts", shown(layouts), f"Write [{layouts!r}].")
        self.layouts = None if layouts is None else tuple(layouts)
        words = dtypes.split() if isinstance(dtypes, str) else dtypes
        self.dtypes = frozenset(numpy_dtype(t) for t in (ALL if words is None else map(dtype, words)))
        self.map = None
        if isinstance(plan, Moving):
            self.map, plan = plan.map, plan.plan
            if (body.__module__ or "").startswith("dynamic."):
                movers[self.name] = self
        self.plan = plan or _unplanned
        self.gpu, self.unit = gpu, unit
        self.devices = ("cpu", "gpu") if gpu else ("cpu",)
        self._binder = binder = Binder(body, self.name, ("out", "plan"), common)
        self.inputs, self.least, self.variadic = binder.inputs, binder.least, binder.variadic
        self._input_names = [p.name for p in self.inputs]
        self.layout_name, self.lent = binder.layout_name, binder.lent
        self.arguments: dict[str, Argument] = binder.arguments
        self.listed = frozenset(known.name for known in binder.arguments.values() if known.per_item)
        self.on_host = on_host(body)
        self.seals = unit != "view" and not (body.__module__ or "").startswith("dynamic.")
        if plan is None and (self.lent or unit in ("array", "row", "value")):
            told = f"given for unit={unit!r}" if not self.lent else f"given for the parameter {self.lent[0]!r}"
            raise ArgumentError("operator", "plan", f"{told} of {self.name}()", "nothing")
        self._usual_layout = {len(layout): layout for layout in reversed(self.layouts or ())}
        further = [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=_COMMON[n]) for n in common]
        self.__signature__ = Signature([*self.inputs, *binder.keyword, *further])

    @overload  # of `resize`, which has two results then
    def __call__(self, input: Any, /, *inputs: Any, save_attrs: Literal[True], **arguments: Any) -> tuple[Any, Any]: ...
    @overload
    def __call__(self, input: Batch, /, *inputs: P.args, **arguments: P.kwargs) -> Batch: ...
    @overload
    def __call__(self, input: Tensor, /, *inputs: P.args, **arguments: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, input: Batch | Tensor, /, *inputs: P.args, **arguments: P.kwargs) -> Batch | Tensor: ...
    @overload
    def __call__(self, input: Any, /, *inputs: P.args, **arguments: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, input: Any, /, *inputs: Any, batch_size: int, **arguments: Any) -> Batch: ...
    @overload
    def __call__(self, input: Any, /, *inputs: Any, device: DeviceLike, **arguments: Any) -> Any: ...
    @overload
    def __call__(self: Operator[...], /, **arguments: Any) -> Any: ...
    def __call__(self, /, *inputs: Any, **arguments: Any) -> Any:
        evaluate = frames.each if frames.are_given(inputs, arguments) else Operator.called
        if clock.watching:
            return clock.noted(self.name, evaluate, self, inputs, arguments)
        return evaluate(self, inputs, arguments)

    def called(
        self,
        given: tuple[Any, ...],
        arguments: dict[str, Any],
        frames_of_each: Sequence[int] | None = None,
        source: Any = None,
    ) -> Any:
        """The results of a call: bind, plan, allocate, run, wrap."""
        return self.finished(self.bound(given, arguments, frames_of_each, source))

    def finished(self, call: Call) -> Any:
        """The results of a call that is bound."""
        try:
            plan = call.plan = self._planned(call)
            storages = kernels.run(self, call) if call.count else kernels.empties(call)
        except MemoryError as error:
            error.add_note(f"This was {self.name}() of {call.count} samples.")
            raise
        results = [
            _wrapped(call, storage, call.layout if part.layout is ... else part.layout)
            for storage, part in zip(storages, plan.parts(), strict=True)
        ]
        return tuple(results) if plan.outputs else results[0]

    def _planned(self, call: Call) -> Plan:
        """The plan of a call, checked against it."""
        try:
            plan = self.plan(call)
        except Exception as error:
            if not isinstance(error, DynamicError):
                error.add_note(f"In the plan of {self.name}() for {call.count} samples.")
            raise
        if not isinstance(plan, Plan):
            raise TypeError(f"The plan of {self.name}() returned {type(plan).__name__}; return a Plan.")
        for part in plan.parts():
            if part.dtype is not None and not isinstance(part.dtype, numpy.dtype):
                part.dtype = numpy_dtype(dtype(part.dtype))
            if part.shapes is not None and part.dtype is None:
                raise TypeError(f"The plan of {self.name}() has shapes and no dtype.")
            if isinstance(part.shapes, list) and len(part.shapes) != call.count:
                raise TypeError(f"The plan of {self.name}() has {len(part.shapes)} shapes for {call.count} samples.")
        if isinstance(plan.data, list) and len(plan.data) != call.count:
            raise TypeError(f"The plan of {self.name}() has {len(plan.data)} items of data for {call.count} samples.")
        return plan

    def __get__(self, instance: object, owner: type | None = None) -> Operator[P]:
        """Itself, in classes too: by this method `help` and other tools know a routine, and show its signature."""
        return self

    def bound(
        self,
        given: tuple[Any, ...],
        arguments: dict[str, Any],
        frames: Sequence[int] | None = None,
        source: Any = None,
    ) -> Call:
        """A call, its inputs and arguments checked; those of `batch_size` and `device` are taken from `arguments`."""
        batch_size, where = arguments.pop("batch_size", None), arguments.pop("device", None)
        self._binder.check_inputs(len(given))
        inputs = [self.data(i, x, where) for i, x in enumerate(given)]
        if len(inputs) > 1:
            inputs = self._on_one_device(given, inputs)
        count = self.count(inputs, arguments, batch_size, None if source is None else source.sizes)
        layout = self.checked_input(inputs[0]) if inputs else None
        fixed, varying = self._binder.values(arguments, 1 if count is None else count)
        if self.layout_name is not None:
            fixed[self.layout_name] = layout
        origin = None
        for x in inputs:
            if x.origin is not None:
                origin = x.origin if len(x.origin) == (count or 1) else None
                break
        there = inputs[0].device if inputs and not self.on_host else self._device(where)
        is_batch = count is not None
        return Call(
            self.name,
            inputs,
            there,
            count if count is not None else 1,
            is_batch,
            fixed,
            varying,
            layout,
            origin,
            frames,
            source,
        )

    def data(self, index: int, value: Any, where: DeviceLike) -> Tensor | Batch:
        """An input as data on the device where the operator takes it."""
        tensors = isinstance(value, (Tensor, Batch))
        data: Tensor | Batch = value if tensors else Tensor(asarray(value, self.name, self._binder.input_name(index)))
        if where is not None and not self.on_host:
            data = data.to_device(device_of_call(where, self.name))
        device = data.device
        have = ("cpu",) if self.on_host else self.devices
        if device is not Device.CPU and device.device_type not in have:
            does = f"{self.name}() {'takes inputs from' if self.on_host else 'runs on'} {' and '.join(have)}"
            raise DeviceError(f"{does}; its input is on {device}. Move it with .cpu().")
        return data

    def _on_one_device(self, given: Sequence[Any], inputs: list[Tensor | Batch]) -> list[Tensor | Batch]:
        """Inputs on one device: Python numbers are moved to the device of the others.

        Of an operator with a GPU kernel, inputs after the data may stay on the CPU, where they are read.
        """
        devices = [x.device for x in inputs]
        if all(device is Device.CPU for device in devices):
            return inputs
        read = callable(self.gpu) and not self.variadic
        aside = [read and i > 0 and device is Device.CPU for i, device in enumerate(devices)]
        placed = [i for i, value in enumerate(given) if not aside[i] and not only_numbers(value)] or [0]
        first = devices[placed[0]]
        for i in placed:
            if devices[i] != first:
                name, other = self._binder.input_name(placed[0]), self._binder.input_name(i)
                both = f"{name!r} is on {first} and {other!r} on {devices[i]}"
                raise DeviceError(f"{self.name}(): {both}; move them to one device first.")
        return [x if stays else x.to_device(first) for x, stays in zip(inputs, aside, strict=True)]

    def _device(self, where: DeviceLike) -> Device:
        """Where an operator without inputs, or with inputs on the host, makes its result."""
        found = device_of_call(where, self.name) or (Device.CPU if self.inputs else Device.current())
        if found.device_type not in self.devices:
            raise DeviceError(f"{self.name}() runs on {' and '.join(self.devices)}, not on {found}.")
        return found

    def input_name(self, index: int) -> str:
        """The name of an input in errors."""
        return self._binder.input_name(index)

    def count(
        self,
        inputs: Sequence[Tensor | Batch],
        arguments: dict[str, Any],
        batch_size: Any,
        drawn: Mapping[str, int | None] | None = None,
    ) -> int | None:
        """Number of samples; None where nothing is a Batch and the result is one Tensor."""
        names = self._input_names if not self.variadic else [self.input_name(i) for i in range(len(inputs))]
        return common_size(self.name, batch_size, dict(zip(names, inputs, strict=False)) | arguments, drawn)

    def checked_input(self, data: Tensor | Batch) -> str | None:
        """The layout of the first input; where it has none, the first declared one with as many dimensions."""
        layout = data.layout or None
        if data._numpy_dtype not in self.dtypes:
            allowed = ", ".join(sorted(d.name for d in self.dtypes))
            hint = "Convert it with cast(x, dtype=...)."
            got = str(data._numpy_dtype)
            raise ArgumentError(self.name, self.input_name(0), f"of dtype {allowed}", got, hint)
        if self.layouts is None or layout in self.layouts:
            return layout
        if layout is None and data.ndim in self._usual_layout:
            layout = self._usual_layout[data.ndim]
            warn_of_channels_first(self.name, first_shape(data), layout)
            return layout
        got = f"layout {layout!r}" if layout else f"{data.ndim} dimensions, no layout"
        is_file = data.ndim == 1 and data._numpy_dtype == numpy.uint8
        hint = "Are these bytes of a file? Decode them first, with decoders.image." if is_file else ""
        raise ArgumentError(self.name, self.input_name(0), f"laid out as {', '.join(self.layouts)}", got, hint)

    def usual_layout(self, ndim: int) -> str | None:
        """The layout of inputs that have none."""
        return self._usual_layout.get(ndim)

    __name__: str
    __wrapped__: Callable[..., Any]

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __reduce__(self) -> str:
        return self.__name__


def _wrapped(call: Call, storage: Any, layout: str | None) -> Tensor | Batch:
    """Storage as a Batch, or the one sample in it as a Tensor."""
    separate = isinstance(storage, (list, Views))
    layout = fitting(layout, storage[0].ndim if separate else storage.ndim - 1)
    if call.is_batch:
        return Batch(storage, layout, call.origin)
    return Tensor(storage[0] if separate else storage[0, ...], layout, call.origin)


def _unplanned(_: Call) -> Plan:
    """The plan of an operator without one: its function returns new arrays."""
    return Plan()


def operator(
    *,
    layouts: Sequence[str] | None = None,
    dtypes: str | Sequence[str] | None = None,
    plan: Callable[[Call], Plan] | Moving | None = None,
    gpu: Callable[..., None] | bool = False,
    unit: str = "sample",
    name: str | None = None,
) -> Callable[[Callable[Concatenate[Any, P], Any]], Operator[P]]:
    """Turn a function on one sample into an operator on Tensors and Batches.

    Positional-only parameters of the function are inputs, of which there may be none or, as `*inputs`, one or more;
    keyword-only ones are arguments. A parameter `out` gets the memory for the result, which the function fills; `plan`
    gets the `data` of the plan; one annotated `Layout` gets the layout of the first input.

    Args:
        layouts: Layouts of the first input; one without a layout gets the first with as many dimensions. By default
            any, and none.
        dtypes: Element types of the first input, in a list or in one string; by default all.
        plan: Called once for each call with a `Call`: the `Plan` of the results. Without it the function returns new
            arrays. With `Moving` the operator also tells where pixels go, so that `together` takes it.
        gpu: A kernel for GPUs, called once with the call, a description of each input and of the memory for the result;
            True where the function takes CuPy arrays as well; False where the operator runs on the CPU only.
        unit: The function gets at once a "sample"; "array", one sample or many of one shape, with one more
            dimension in front and an N in the layout; "row" or "value", as "array" where rows or values do not depend
            on each other; "view", as "array" where the result is a view of the input.
        name: The name in errors and documentation; by default the function's.

    Raises:
        ArgumentError: The declaration is wrong: a default, an annotation, a unit, or a plan is missing.

    >>> from dynamic.custom import PerSample, operator
    >>> @operator(layouts=["HWC"])
    ... def darker(image, /, *, by: PerSample[float] = 2.0):
    ...     return image / by
    >>> darker(ndd.as_batch(numpy.ones((2, 1, 1, 1)), layout="HWC"), by=ndd.as_batch([1, 4])).tolist()
    [[[[1.0]]], [[[0.25]]]]
    """

    def made(body: Callable[Concatenate[Any, P], Any]) -> Operator[P]:
        lifted = Operator(body, layouts, dtypes, plan, gpu, unit, name)
        if (body.__module__ or "").startswith("dynamic."):  # those of others are no part of its pages and tests
            registry[lifted.name] = lifted
        return lifted

    return made
