"""Calls of random operators and distributions: their arguments, the places of their numbers, their results."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, asarray
from dynamic._arrays.memory import checked_extents, empty
from dynamic._base import pool
from dynamic._lift.binding import Binder, common_size, signature_without
from dynamic._lift.call import Call as OperatorCall
from dynamic._lift.call import Moving, Plan
from dynamic._lift.operator import Operator
from dynamic.data import Batch, Tensor
from dynamic.devices import Device, device_of_call
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DeviceError, shown

from ._distributions import Part
from ._philox import ELEMENT_STRIDE, Draw
from ._rng import Source, Turn

__all__ = [
    "Call",
    "Part",
    "Words",
    "distribution",
    "draw_of",
    "of_numbers",
    "random_operator",
    "streams_of",
]

P = ParamSpec("P")
R = TypeVar("R")
Extents: TypeAlias = tuple[int, ...]

_PART = 1 << 17  # numbers that are made at once; threads that make fewer wait for each other longer than they work
_IN_TURN = 1 << 12  # numbers that are made one by one, of which words are known at once
_LARGE = 1 << 11  # numbers that are worth being made in the order of their words
_BYTES_OF_WORK = 256  # memory to copy in the time of making a number, about
_COMMON = ("batch_size", "device", "rng")
_MOST = float(numpy.finfo(numpy.float32).max)
_MOST_AHEAD = 256  # words that are computed at once without need
_IN_THEIR_NAMES = ("decoders", "noise", "segmentation")  # modules that errors name, as callers do


def _name(function: Callable[..., Any]) -> str:
    """The name of a function in errors."""
    modules = [module for module in function.__module__.split(".") if module in _IN_THEIR_NAMES]
    return ".".join([*modules, function.__name__])


class OfInput(Protocol[P]):
    """A distribution with an input, as type checkers see it."""

    @overload
    def __call__(self, data: Batch, /, *inputs: P.args, **arguments: P.kwargs) -> Batch: ...
    @overload
    def __call__(self, data: Any, /, *inputs: Any, batch_size: int, **arguments: Any) -> Batch: ...
    @overload
    def __call__(self, data: Any, /, *inputs: P.args, **arguments: P.kwargs) -> Tensor | Batch: ...


class OfInputs(Protocol[P]):
    """A random operator with several results, as type checkers see it."""

    def __call__(self, data: Any, /, *inputs: P.args, **arguments: P.kwargs) -> tuple[Tensor | Batch, ...]: ...


class OfNumbers(Protocol[P]):
    """A distribution that needs no input, as type checkers see it."""

    @overload
    def __call__(self, shape_like: Batch, /, *inputs: P.args, **arguments: P.kwargs) -> Batch: ...
    @overload
    def __call__(self, shape_like: Any, /, *inputs: Any, batch_size: int, **arguments: Any) -> Batch: ...
    @overload
    def __call__(self, /, *, batch_size: int, **arguments: Any) -> Batch: ...
    @overload
    def __call__(self, shape_like: Any = None, /, *inputs: P.args, **arguments: P.kwargs) -> Tensor | Batch: ...


def of_numbers(function: Callable[Concatenate[Any, P], Tensor | Batch]) -> OfNumbers[P]:
    """`distribution` of a function that may be called without an input."""
    return cast("OfNumbers[P]", distribution(function))


@overload
def distribution(function: Callable[Concatenate[Any, P], Tensor | Batch]) -> OfInput[P]: ...  # type: ignore[overload-overlap] # told by the result
@overload
def distribution(function: Callable[P, R]) -> Callable[P, R]: ...
def distribution(function: Callable[..., R]) -> Callable[..., R]:
    """Bind the calls of a function that makes all numbers of a call at once; its parameter `call` gets a `Call`.

    A call that fails, however late, has drawn nothing: the source goes back, if nobody else has drawn since.
    """
    name = _name(function)
    binder = Binder(function, name, ("call",), _COMMON)

    @functools.wraps(function)
    def bound(*inputs: Any, **arguments: Any) -> R:
        binder.check_inputs(len(inputs))
        try:
            with Turn(name, arguments.pop("rng", None)) as turn:
                call = Call(binder, turn, inputs, arguments)
                return function(*call.inputs.values(), **call.values, call=call)
        except MemoryError as error:
            error.add_note(f"This was {name}().")
            raise

    vars(bound).update(__signature__=signature_without(function, "call"), arguments=binder.arguments)
    return bound


class Call:
    """One call of a distribution: how many samples of which shapes, and where.

    Args:
        binder: The declaration. The last of its inputs gives the shapes, where the call has it.
        turn: The source of the call.
        inputs: As given.
        arguments: As given, but for `rng`.
    """

    def __init__(self, binder: Binder, turn: Turn, inputs: Sequence[Any], arguments: dict[str, Any]) -> None:
        self.name, self.source = binder.name, turn
        batch_size, device = arguments.pop("batch_size", None), arguments.pop("device", None)
        self.inputs = {
            p.name: x if isinstance(x, (Tensor, Batch)) else Tensor(asarray(x, self.name, p.name))
            for p, x in zip(binder.inputs, inputs, strict=False)
            if x is not None or p.default is p.empty
        }
        self.n = common_size(self.name, batch_size, self.inputs | arguments, turn.sizes)
        fixed, self.varying = binder.values(arguments, self.n or 0)
        self.values: dict[str, Any] = fixed | self.varying
        shape_like = self.inputs.get(binder.inputs[-1].name) if binder.inputs else None
        self.shapes = self._shapes(shape_like)
        near = [shape_like, *self.inputs.values()] if shape_like is not None else [*self.inputs.values()]
        self.device = device_of_call(device, self.name) or (near[0].device if near else Device.current())

    def on_cpu(self) -> None:
        """Refuse a call elsewhere."""
        devices = [self.device, *(x.device for x in self.inputs.values())]
        if any(device.device_type != "cpu" for device in devices):
            raise DeviceError(f"{self.name}() runs on cpu; pass device='cpu', and inputs as x.cpu().")

    def _shapes(self, shape_like: Tensor | Batch | None) -> Extents | list[Extents]:
        """The shape of all samples where they are alike, else a list with one for each."""
        shape = self.values.pop("shape", None)
        if shape_like is not None:
            if shape is not None:
                raise ArgumentError(self.name, "shape", "None where an input gives the shape", shown(shape))
            shape = shape_like.shape
        if isinstance(shape, list):
            shape = [checked_extents(self.name, s if isinstance(s, tuple) else (s,)) for s in shape]
            if not shape:  # no samples: only the number of dimensions matters
                return (0,) * (1 if shape_like is None else shape_like.ndim)
            return shape[0] if len(set(shape)) == 1 else shape
        if shape is None:
            return ()
        return checked_extents(self.name, shape if isinstance(shape, tuple) else (shape,))

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The NumPy dtype that is asked for."""
        return numpy_dtype(self.values["dtype"])

    def float32(self, name: str) -> Any:
        """The value of an argument for all samples as a float32, or an array with one for each sample."""
        known = self.values[name]
        if known.__class__ is float and abs(known) <= _MOST:
            return numpy.float32(known)
        with numpy.errstate(over="ignore"):
            value = numpy.asarray(self.values[name], numpy.float64).astype(numpy.float32)
        finite = numpy.isfinite(value)
        if not finite.all():
            raise self.error(name, ~finite, "a finite float32")
        return value if value.ndim else value[()]

    def error(self, name: str, wrong: Any, expected: str) -> ArgumentError:
        """The error for an argument that is wrong for all samples, or for some by an array of flags."""
        value = self.values[name]
        if name not in self.varying:
            return ArgumentError(self.name, name, expected, shown(value))
        i = int(numpy.flatnonzero(wrong)[0])
        return ArgumentError(self.name, f"{name}[{i}]", expected, shown(value[i]))

    def fill(
        self,
        dtype: numpy.dtype[Any],
        compute: Callable[[Part], Array],
        stride: int = ELEMENT_STRIDE,
        kernel: Callable[[Draw, Any, int], None] | None = None,
        native: Callable[[Draw, Any, int], Array | None] | None = None,
    ) -> Array:
        """All numbers of the call, sample after sample, in one array of shape (total,). Here the source moves on.

        Args:
            dtype: Of the numbers.
            compute: Makes some of them.
            stride: How many words the elements of a sample are apart.
            kernel: Makes them on a GPU: where the words lie, how many numbers each sample has, and their address.
            native: Makes all of them on the CPU, of where the words lie, how many numbers each sample has, and how many
                there are; or returns None.
        """
        draw, sizes, total = self._drawn()
        if self.device.device_type == "gpu":
            cupy = cuda.cupy()
            with cuda.working(self.device.device_id):
                if kernel is None or not total:
                    return compute(_part(cupy, draw, sizes, 0, total, stride)) if total else cupy.empty(0, dtype)
                numbers = cupy.empty(total, dtype)
                kernel(draw, sizes, int(numbers.data.ptr))
                return numbers
        made = native(draw, sizes, total) if native is not None and total else None
        if made is not None:
            return made
        if 0 < total <= _PART:
            return compute(_part(numpy, draw, sizes, 0, total, stride))
        flat, ends = empty((total,), dtype), _ends(sizes, total)

        def one(i: int) -> None:
            start, stop = ends[i], ends[i + 1]
            flat[start:stop] = compute(_part(numpy, draw, sizes, start, stop, stride))

        pool.run(one, len(ends) - 1, total * _BYTES_OF_WORK)
        return flat

    def in_turn(self, dtype: numpy.dtype[Any], compute: Callable[[Part], Array]) -> Array:
        """As `fill`, on the CPU, each part after the one before it, for numbers that leave something to the next."""
        draw, sizes, total = self._drawn()
        flat = empty((total,), dtype)
        for start in range(0, total, _IN_TURN):
            stop = min(start + _IN_TURN, total)
            flat[start:stop] = compute(_part(numpy, draw, sizes, start, stop, ELEMENT_STRIDE))
        return flat

    def _drawn(self) -> tuple[Draw, Any, int]:
        """Where the words lie, how many numbers each sample has, or all have, and how many there are."""
        draw = self.source.draw(self.n)
        if isinstance(self.shapes, tuple):
            size = math.prod(self.shapes)
            return draw, size, len(draw.high) * size
        sizes = numpy.array([*map(math.prod, self.shapes)])
        return draw, sizes, int(sizes.sum())

    def result(self, flat: Array, layout: str | None = None) -> Tensor | Batch:
        """The numbers as a Tensor or Batch; dimensions of `flat` after the first are in every number."""
        inner: Extents = flat.shape[1:]
        if isinstance(self.shapes, list):
            return Batch([part.reshape(shape + inner) for shape, part in self.split(flat)], layout)
        if self.n is None:
            return Tensor(flat.reshape(self.shapes + inner), layout)
        return Batch(flat.reshape((self.n, *self.shapes, *inner)), layout)

    def split(self, flat: Array) -> list[tuple[Extents, Array]]:
        """For each sample its shape and its part of `flat`."""
        n = 1 if self.n is None else self.n
        shapes = self.shapes if isinstance(self.shapes, list) else [self.shapes] * n
        ends = itertools.accumulate(map(math.prod, shapes))
        return [(shape, flat[end - math.prod(shape) : end]) for shape, end in zip(shapes, ends, strict=True)]


def _ends(sizes: Any, total: int) -> list[int]:
    """Where parts of so many numbers begin and end; only those of small samples of many sizes go across their ends."""
    if not total:
        return [0]
    if isinstance(sizes, int):
        samples = total // sizes
        if sizes <= _PART:
            parts = -(-samples // (_PART // sizes))
            return [*range(0, total, -(-samples // parts) * sizes), total]
    elif total < len(sizes) * _LARGE:
        return [*range(0, total, _PART), total]
    ends = [0]
    for size in itertools.repeat(sizes, samples) if isinstance(sizes, int) else sizes.tolist():
        count, start = -(-size // _PART), ends[-1]
        ends += [start + size * k // count for k in range(1, count + 1)]
    return ends


def _part(xp: Any, draw: Draw, sizes: Any, start: int, stop: int, stride: int) -> Part:
    """The numbers from `start` to `stop` of samples that have `sizes` of them each, or all the same number."""
    if isinstance(sizes, int) and sizes == 1:
        return Part(xp, draw, slice(start, stop), None, stride, start)
    if isinstance(sizes, int) and xp is numpy:
        sample, last = start // sizes, (stop - 1) // sizes
        if sample == last:
            elements = range(start - sample * sizes, stop - sample * sizes)
            return Part(xp, draw, slice(sample, sample + 1), elements, stride, start)
        if start % sizes == stop % sizes == 0 and stop - start >= _LARGE:
            return Part(xp, draw, slice(sample, last + 1), range(sizes), stride, start)
    places = xp.arange(start, stop)
    if isinstance(sizes, int):
        samples = places // sizes
        return Part(xp, draw, samples, (places - samples * sizes).astype(xp.uint64), stride, start)
    ends = numpy.cumsum(sizes)
    sample = int(numpy.searchsorted(ends, start, side="right"))
    if xp is numpy and stop <= ends[sample]:
        begin = int(ends[sample] - sizes[sample])
        return Part(xp, draw, slice(sample, sample + 1), range(start - begin, stop - begin), stride, start)
    samples = xp.searchsorted(xp.asarray(ends), places, side="right")
    first = xp.asarray(ends - sizes)
    return Part(xp, draw, samples, (places - first[samples]).astype(xp.uint64), stride, start)


class Words:
    """The words of a sample, one after the other."""

    def __init__(self, draw: Draw, sample: int, known: list[int]) -> None:
        self._draw, self._sample = draw, sample
        self.known = known  #: words so far, of which those from `place` on are the next ones
        self.place = 0

    def __iter__(self) -> Words:
        return self

    def __next__(self) -> int:
        self.look(self.place + 1)
        self.place += 1
        return self.known[self.place - 1]

    def look(self, end: int) -> None:
        """Know the words before one."""
        if len(self.known) < end:
            more = max(end - len(self.known), min(len(self.known), _MOST_AHEAD))
            self.known += self._draw.some(self._sample, len(self.known), more)


_AHEAD = 8  # words of each sample that are made together


def draw_of(call: OperatorCall) -> Draw:
    """The words of a call of a random operator, for its plan. Here the source moves on."""
    draw: Draw = call.source.draw(call.count if call.is_batch else None)
    return draw


def streams_of(call: OperatorCall) -> list[Words]:
    """The words of each sample of a call of a random operator, for its plan. Here the source moves on."""
    draw = draw_of(call)
    known = draw.following(_AHEAD).tolist()  # of all samples together
    return [Words(draw, i, known[i]) for i in range(call.count)]


class RandomOperator(Operator[P]):
    """An operator whose plan draws, once. A call that fails, however late, has drawn nothing."""

    if not TYPE_CHECKING:  # the types are those of `OfInput`

        def __call__(self, /, *inputs: Any, rng: Source | None = None, **arguments: Any) -> Any:
            while inputs and inputs[-1] is None:  # an optional input
                inputs = inputs[:-1]
            with Turn(self.name, rng) as turn:
                return self.called(inputs, arguments, source=turn)


class _Declaration(Protocol):
    """`random_operator` as type checkers see it: functions on samples fill `out`, or return several arrays."""

    @overload
    def __call__(self, body: Callable[Concatenate[Any, P], tuple[Array, ...]]) -> OfInputs[P]: ...
    @overload
    def __call__(self, body: Callable[Concatenate[Any, P], None]) -> OfInput[P]: ...


def random_operator(
    *,
    plan: Callable[[OperatorCall], Plan] | Moving,
    layouts: Sequence[str] | None = None,
    dtypes: str | None = None,
    gpu: Callable[..., None] | bool = False,
    name: str | None = None,
) -> _Declaration:
    """Declare an operator whose plan draws; the rest is as of `operator`."""

    def made(body: Callable[Concatenate[Any, P], Any]) -> Any:
        return RandomOperator(body, layouts, dtypes, plan, gpu, name=name, common=_COMMON)

    return cast("_Declaration", made)
