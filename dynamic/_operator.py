"""The one idea of this library: an operator is a plain function on one sample.

`@operator` reads its signature once and lifts it to Tensors and Batches. A call takes four steps: bind the arguments,
find the memory of the results, run the function on every sample, wrap the results.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, Concatenate, Generic, ParamSpec, get_args, get_origin, get_type_hints, overload

import numpy

from . import _frames
from ._argument import WITHOUT_EFFECT, Argument, argument, is_layout
from ._arrays.array import GATHERED, SMALL, asarray, current
from ._base import pool
from ._base.layout import fitting, warn_of_channels_first
from ._call import Call, Kernel, Many, Memory, Spec, at_once, check_input, of_nothing, of_small, on_one_device, specs
from .data import Batch, Tensor, checked_batch_size, first_shape
from .devices import Device, DeviceLike, device_of_call
from .dtypes import ALL, dtype, numpy_dtype
from .errors import ArgumentError, DataError, DeviceError

__all__ = ["Operator", "Spec", "operator", "registry"]

P = ParamSpec("P")

#: Every operator by its name.
registry: dict[str, Operator[...]] = {}

#: Parameters of a function that only the lift passes: memory for the result, and what `output` and `across` have found.
_OF_THE_LIFT = ("out", "plan", "across")
_COMMON = {"batch_size": "int | None", "device": "DeviceLike"}


class Operator(Generic[P]):
    """A function on one sample, lifted to Tensors and Batches; made by `operator`."""

    def __init__(
        self,
        body: Callable[Concatenate[Any, P], Any],
        layouts: tuple[str, ...] | None,
        dtypes: frozenset[numpy.dtype[Any]],
        output: Callable[..., Any] | None,
        out_layout: Any,
        out_kind: Callable[..., Any] | None,
        across: Callable[[Call], Any] | None,
        values_from: int | None,
        whole: bool | Sequence[str],
        devices: tuple[str, ...],
        name: str | None,
        kernel: Kernel | None = None,
        on_host: bool = False,
        independent: str = "",
        many: Many | None = None,
    ) -> None:
        functools.update_wrapper(self, body)
        self.name = name or body.__name__
        self.layouts, self.dtypes, self.output, self.out_layout = layouts, dtypes, output, out_layout
        self.devices = (*devices, "gpu") if kernel is not None and "gpu" not in devices else devices
        self.kernel, self.on_host, self.independent, self.many = kernel, on_host, independent, many
        self.values_from, self.whole = values_from, whole is not False
        self.out_kind, self.across, self.views = out_kind, across, self.whole and output is None
        self._listed = frozenset[str]() if isinstance(whole, bool) else frozenset(whole)
        self._gathered = SMALL if self.views else GATHERED  # bytes of samples that are copied to one array
        hints = get_type_hints(body, include_extras=True)
        parameters = list(inspect.signature(body).parameters.values())
        self.inputs = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)]
        self.variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
        keyword = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name not in _OF_THE_LIFT]
        self.layout_name = next((p.name for p in keyword if is_layout(hints[p.name])), None)
        self._lent = [p.name for p in parameters if p.name in _OF_THE_LIFT[:2]]
        self.arguments: dict[str, Argument] = {
            p.name: argument(self.name, p, hints[p.name]) for p in keyword if p.name != self.layout_name
        }
        defaults = {p.name: p.default for p in keyword}
        self._required = [a for a in self.arguments.values() if a.required]
        optional = [(a, defaults[a.name]) for a in self.arguments.values() if not a.required]
        self._defaults = {a.name: None if default is None else a.one(default) for a, default in optional}
        returned = get_args(hints["return"]) if get_origin(hints["return"]) is tuple else ()
        self.outputs = len(returned)  # 0 for one result that is no tuple
        self._least, self._most = sum(p.default is p.empty for p in self.inputs), len(self.inputs)
        self._usual_layout = {len(layout): layout for layout in reversed(layouts or ())}
        public = [p for p in [*self.inputs, *keyword] if p.name != self.layout_name]
        common = [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=t) for n, t in _COMMON.items()]
        self.__signature__ = Signature([*public, *common])
        registry[self.name] = self

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
        if _frames.are_given(inputs, arguments):
            return _frames.each(self, inputs, arguments)
        batch_size, device = arguments.pop("batch_size", None), arguments.pop("device", None)
        call = self._bound(inputs, batch_size, device, arguments)
        try:
            results = self._results(call) if call.count else of_nothing(self, call, self._layouts_out(call))
        except MemoryError as error:
            error.add_note(f"This was {self.name}() of {call.count} samples.")
            raise
        layouts = self._layouts_out(call)
        if not self.outputs:
            return self._wrapped(call, results, layouts[0])
        return tuple(self._wrapped(call, part, layout) for part, layout in zip(results, layouts, strict=True))

    def __get__(self, instance: object, owner: type | None = None) -> Operator[P]:
        """Itself, in classes too: by this method `help` and other tools know a routine, and show its signature."""
        return self

    def _given(self, given: tuple[Any, ...], where: DeviceLike) -> list[Tensor | Batch]:
        """What is given by position as data on one device."""
        if not self._least <= len(given) <= (math.inf if self.variadic else self._most):
            if self.variadic:
                raise ArgumentError(self.name, "inputs", "takes one or more positional arguments; got none", "")
            required = [known.name for known in self._required]
            raise ArgumentError.inputs(self.name, [p.name for p in self.inputs], len(given), self.arguments, required)
        inputs = [self._data(i, x, where) for i, x in enumerate(given)]
        return inputs if len(given) < 2 else on_one_device(self, self._name_of_input, given, inputs)

    def _bound(self, given: tuple[Any, ...], batch_size: Any, where: DeviceLike, arguments: dict[str, Any]) -> Call:
        inputs = self._given(given, where)
        count = self._count(inputs, arguments, batch_size)
        layout = self._checked_input(inputs[0]) if inputs else None
        fixed = self._defaults.copy()
        varying: dict[str, list[Any]] = {}
        for name, value in arguments.items():
            known = self.arguments.get(name)
            if known is None:
                if name in WITHOUT_EFFECT.get(self.name, ()):
                    continue
                raise ArgumentError.unknown(self.name, name, [*self.arguments, *_COMMON])
            if isinstance(value, Batch):
                varying[name] = known.each(value, 1 if count is None else count)
                fixed.pop(name, None)
            elif value is not None:
                fixed[name] = known.one(value)
        for known in self._required:
            if known.name not in fixed and known.name not in varying:
                raise ArgumentError(self.name, known.name, known.expected, "nothing")
        if self.layout_name is not None:
            fixed[self.layout_name] = layout
        origin = next((x.origin for x in inputs if x.origin is not None), None)
        if origin is not None and len(origin) != (count or 1):
            origin = None
        there = inputs[0].device if inputs and not self.on_host else self._device(where)
        call = Call(inputs, there, 1 if count is None else count, count is not None, fixed, varying, layout, origin)
        if self.across is not None and call.count:
            fixed["across"] = self.across(call)
        return call

    def _name_of_input(self, index: int) -> str:
        return f"{self.inputs[0].name}[{index}]" if self.variadic else self.inputs[index].name

    def _data(self, index: int, value: Any, where: DeviceLike) -> Tensor | Batch:
        tensors = isinstance(value, (Tensor, Batch))
        data: Tensor | Batch = value if tensors else Tensor(asarray(value, self.name, self._name_of_input(index)))
        if where is not None and not self.on_host:
            data = data.to_device(device_of_call(where, self.name))
        check_input(self, data.device)
        return data

    def _device(self, where: DeviceLike) -> Device:
        """Where an operator without inputs, or with inputs on the host, makes its result."""
        found = device_of_call(where, self.name) or (Device.CPU if self.inputs else Device.current())
        if found.device_type not in self.devices:
            raise DeviceError(f"{self.name}() runs on {' and '.join(self.devices)}, not on {found}.")
        return found

    def _count(self, inputs: list[Tensor | Batch], arguments: dict[str, Any], batch_size: Any) -> int | None:
        """Number of samples, or None where nothing is a Batch and one Tensor is asked for."""
        sizes = [(self._name_of_input(i), len(x)) for i, x in enumerate(inputs) if isinstance(x, Batch)]
        sizes += [(name, len(value)) for name, value in arguments.items() if isinstance(value, Batch)]
        if batch_size is not None:
            sizes.insert(0, ("batch_size", checked_batch_size(self.name, batch_size)))
        if not sizes:
            return None
        first, count = sizes[0]
        for name, size in sizes[1:]:
            if size != count:
                raise ArgumentError(self.name, name, f"a Batch of {count}, like {first!r}", f"a Batch of {size}")
        return count

    def _checked_input(self, data: Tensor | Batch) -> str | None:
        """The layout of an input; where it has none, the first declared one with as many dimensions."""
        name, layout = self._name_of_input(0), data.layout or None
        if data._numpy_dtype not in self.dtypes:
            allowed = ", ".join(sorted(d.name for d in self.dtypes))
            hint = "Convert it with cast(x, dtype=...)."
            raise ArgumentError(self.name, name, f"of dtype {allowed}", str(data._numpy_dtype), hint)
        if self.layouts is None or layout in self.layouts:
            return layout
        if layout is None and data.ndim in self._usual_layout:
            layout = self._usual_layout[data.ndim]
            warn_of_channels_first(self.name, first_shape(data), layout)
            return layout
        got = f"layout {layout!r}" if layout else f"{data.ndim} dimensions, no layout"
        raise ArgumentError(self.name, name, f"laid out as {', '.join(self.layouts)}", got)

    def _results(self, call: Call) -> Any:
        """What becomes of all samples: a storage of Batch, or a tuple of them for several outputs."""
        if call.device.device_type == "cpu":
            return self._results_of_body(call)
        with current(call.device):
            return self._results_of_body(call) if self.kernel is None else self._results_of_kernel(call, self.kernel)

    def _results_of_kernel(self, call: Call, kernel: Kernel) -> Any:
        """What a GPU makes of all samples in one launch, however ragged they are."""
        memory = Memory(call, specs(self, call, call.samples()), several=bool(self.outputs))
        if kernel(call, call.described(), memory.described()) is NotImplemented:
            return self._results_of_body(call)
        return call.settled(self.name, memory.outs) if call.failures else memory.storages()

    def _results_of_body(self, call: Call) -> Any:
        """What the function makes of the samples one by one, or of many at a time where it can."""
        if self.whole and call.varying.keys() <= self._listed:
            on_cpu = call.device.device_type == "cpu" and call.count > 1
            many = call if call.one_array_each() else call.gathered(self._gathered) if on_cpu else None
            found = at_once(self, many) if many is not None else of_small(self, call) if on_cpu else None
            if found is not None:
                return found
        samples = call.samples()
        memory = None
        if self.output is not None:
            memory = Memory(call, specs(self, call, samples), several=bool(self.outputs))
        many_at_once = self.many if call.count > 1 and call.library is numpy else None
        if many_at_once is not None and (done := many_at_once(call, samples, memory)) is not None:
            return done
        results: list[Any] = [None] * call.count
        outs = results if memory is None else memory.outs
        lent = [(name, outs if name == "out" else call.plans) for name in self._lent]
        body, same = self.__wrapped__, None if lent or call.varying else call.fixed

        def one(i: int) -> None:
            if i in call.failures:
                return
            try:
                results[i] = body(*samples[i], **(same or {**call.arguments(i), **{name: of[i] for name, of in lent}}))
            except DataError as error:
                call.failures[i] = error
            except Exception as error:
                error.add_note(call.note(self.name, i))
                raise

        work = 0 if self.views else call.work(memory.nbytes if memory else 0)
        pool.run(one, call.count, work, self.name, call.sizes() if work else None)
        if call.failures:
            return call.settled(self.name, outs)
        if memory is not None:
            return memory.storages()
        return list(map(list, zip(*results, strict=True))) if self.outputs else results

    def _layouts_out(self, call: Call) -> list[str | None]:
        """The layout of each result."""
        count = max(1, self.outputs)
        each = self.out_layout if isinstance(self.out_layout, tuple) else (self.out_layout,) * count
        return [g(call.layout, **call.fixed) if callable(g) else call.layout if g is None else str(g) for g in each]

    def _wrapped(self, call: Call, storage: Any, layout: str | None) -> Tensor | Batch:
        layout = fitting(layout, storage[0].ndim if isinstance(storage, Sequence) else storage.ndim - 1)
        if call.is_batch:
            return Batch(storage, layout, call.origin)
        return Tensor(storage[0] if isinstance(storage, Sequence) else storage[0, ...], layout, call.origin)

    __name__: str
    __wrapped__: Callable[..., Any]

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __reduce__(self) -> str:
        return self.__name__


def operator(
    *,
    layouts: Sequence[str] | None = None,
    dtypes: str | None = None,
    output: Callable[..., Any] | None = None,
    out_layout: Any = None,
    values_from: int | None = None,
    whole: bool | Sequence[str] = False,
    devices: Sequence[str] = ("cpu",),
    name: str | None = None,
    out_kind: Callable[..., Any] | None = None,
    across: Callable[[Call], Any] | None = None,
    kernel: Kernel | None = None,
    on_host: bool = False,
    independent: str = "",
    many: Many | None = None,
) -> Callable[[Callable[Concatenate[Any, P], Any]], Operator[P]]:
    """Lift a function on one sample to Tensors and Batches.

    Positional-only parameters of the function are inputs, of which there may be none or, as `*inputs`, one or more;
    keyword-only ones are arguments. A parameter `out` is given the memory for the result, which the function fills; one
    annotated `Layout` is told the layout of the first input; `plan` and `across` are given what `output` and the
    function of that name found out. A function that is annotated to return a tuple has several outputs.

    Args:
        layouts: What the first input may be laid out as; where it has no layout, the first with as many dimensions. By
            default any, and none.
        dtypes: Element types that the first input may have, in one string; by default all.
        output: Called with the inputs and arguments of a sample: shape and dtype of its result, or a tuple of these, or
            that `Planned` with what the function is given as `plan`. With it, results are allocated once for all.
        out_layout: Layout of the result, or a function of the input's layout and the arguments; by default the
            input's; none where it has not as many letters as the result dimensions. A tuple for several outputs.
        values_from: The first input whose values `output` looks at, and not only at shapes and dtypes; none by default.
        whole: Whether the function takes many samples of one shape at once as well: arrays with one more dimension in
            front, layout "N...". Or the names of arguments that may differ between these samples, and are lists then;
            the shape of the result may not depend on them. It may return NotImplemented, by shapes and dtypes, to be
            given the samples one by one. Without `output` it gives views of its input, or copies where there is no
            view.
        devices: Where the function runs.
        name: What errors call it, where that is not the function's own name.
        out_kind: Called with the number of dimensions and the dtype of the first input and the arguments that are the
            same for all samples: the number of dimensions and the dtype of the result, or a tuple of these; an empty
            Batch becomes that. By default the number of letters of its layout, or of the input's dimensions, and the
            argument `dtype`, or the input's.
        across: Called once with the call: what the results of all samples depend on, passed to the function and to
            `output`.
        kernel: Called once for all samples where they are on a GPU, with the call, a description of each input, and one
            of the memory for the result (a list of them for several outputs), which it fills but for samples that
            failed; or it returns NotImplemented, and the function is called with arrays on the GPU. Needs `output`.
        on_host: Whether inputs are on the CPU wherever the result is, which `device` says.
        independent: "values", or "rows" of the first dimension, where what becomes of each does not depend on others
            and `whole` is declared: small ragged samples are done as one, arguments that may differ told row by row.
        many: Called instead of the function for all samples of a Batch on the CPU, with the call, the inputs of each
            sample and, with `output`, the memory for the results: what the function makes of each, or None to call it.
    """
    kinds = frozenset(numpy_dtype(t) for t in (ALL if dtypes is None else map(dtype, dtypes.split())))
    declared = (tuple(layouts) if layouts is not None else None, kinds, output, out_layout, out_kind, across)
    return lambda body: Operator(body, *declared, values_from, whole, tuple(devices), name, kernel, on_host,
                                 independent, many)  # fmt: skip
