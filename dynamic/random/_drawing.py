"""What all distributions have in common: the arguments of a call, where its numbers lie, and what the caller gets."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, asarray
from dynamic._arrays.memory import checked_extents, empty
from dynamic._base import pool
from dynamic._lift.argument import Argument
from dynamic._lift.binding import Binder
from dynamic._lift.kernels import together
from dynamic.data import Batch, Tensor, checked_batch_size
from dynamic.devices import Device, DeviceLike, device_of_call
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DeviceError, shown

from ._distributions import Part
from ._philox import ELEMENT_STRIDE, Draw
from ._rng import Keyed, Source, Turn

__all__ = ["Call", "Part", "Words", "declared_arguments", "distribution", "of_numbers", "on_cpu", "sampled"]

P = ParamSpec("P")
R = TypeVar("R")
Extents: TypeAlias = tuple[int, ...]

_PART = 1 << 17  # numbers that are made at once; threads that make fewer wait for each other longer than they work
_IN_TURN = 1 << 12  # numbers that are made one by one, of which words are known at once
_LARGE = 1 << 11  # numbers that are worth being made in the order of their words
_BYTES_OF_WORK = 256  # memory to copy in the time of making a number, about
_COMMON = ("batch_size", "device", "rng")
_MOST_AHEAD = 256  # words that are computed at once without need
_IN_THEIR_NAMES = ("decoders", "noise", "segmentation")  # modules that errors name, as callers do

_declared: dict[str, Binder] = {}


def _name(function: Callable[..., Any]) -> str:
    """What errors call a function."""
    modules = [module for module in function.__module__.split(".") if module in _IN_THEIR_NAMES]
    return ".".join([*modules, function.__name__])


def declared_arguments(function: Callable[..., Any]) -> dict[str, Argument]:
    """What is known of the arguments of a distribution; of another function, nothing."""
    binder = _declared.get(_name(function))
    return {} if binder is None else binder.arguments


class OfInput(Protocol[P]):
    """A distribution with an input, as type checkers see it."""

    @overload
    def __call__(self, data: Batch, /, *inputs: P.args, **arguments: P.kwargs) -> Batch: ...
    @overload
    def __call__(self, data: Any, /, *inputs: Any, batch_size: int, **arguments: Any) -> Batch: ...
    @overload
    def __call__(self, data: Any, /, *inputs: P.args, **arguments: P.kwargs) -> Tensor | Batch: ...


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
    """`distribution` of what may be called without an input."""
    return cast("OfNumbers[P]", distribution(function))


@overload
def distribution(function: Callable[Concatenate[Any, P], Tensor | Batch]) -> OfInput[P]: ...  # type: ignore[overload-overlap] # told by the result
@overload
def distribution(function: Callable[P, R]) -> Callable[P, R]: ...
def distribution(function: Callable[..., R]) -> Callable[..., R]:
    """Read a declaration once, and refuse arguments that it does not have in the words of this library.

    A call that fails, however late, has drawn nothing: the source goes back, if nobody else has drawn since.
    """
    name = _name(function)
    binder = _declared[name] = Binder(function, name, common=_COMMON)

    @functools.wraps(function)
    def checked(*inputs: Any, **arguments: Any) -> R:
        binder.check_inputs(len(inputs))
        binder.check_names(arguments)
        for key in binder.ignored & arguments.keys():
            del arguments[key]
        turn = arguments["rng"] = Turn(name, arguments.get("rng"))
        try:
            return function(*inputs, **arguments)
        except BaseException as error:
            turn.give_back()
            if isinstance(error, MemoryError):
                error.add_note(f"This was {name}().")
            raise

    return checked


class Call:
    """One call of a distribution, its arguments converted: how many samples of which shapes, and where.

    Args:
        name: Of the distribution.
        shape_like: The input that gives the shapes, or None.
        batch_size: As given.
        device: As given.
        rng: As given, or the turn of the call.
        a: Another input, whose batch size counts.
        inputs: More of them, by their names.
        given: The other arguments.
    """

    def __init__(
        self,
        name: str,
        shape_like: Any,
        batch_size: Any,
        device: DeviceLike,
        rng: Source | Turn | None,
        /,
        a: Tensor | Batch | None = None,
        inputs: Mapping[str, Tensor | Batch] | None = None,
        **given: Any,
    ) -> None:
        self.name, self.source = name, rng if isinstance(rng, Turn) else Turn(name, rng)
        if shape_like is not None and not isinstance(shape_like, (Tensor, Batch)):
            shape_like = Tensor(asarray(shape_like, name, "shape_like"))
        self.varying = {key: len(value) for key, value in given.items() if isinstance(value, Batch)}
        known_inputs = {**(inputs or {}), "a": a, "shape_like": shape_like}
        sizes = {key: len(value) for key, value in known_inputs.items() if isinstance(value, Batch)}
        self.n = self._count(batch_size, sizes | self.varying)
        fixed, varying = _declared[name].values(given, 0 if self.n is None else self.n)
        self.values: dict[str, Any] = fixed | varying
        self.shapes = self._shapes(shape_like)
        near = next((x for x in (shape_like, a, *(inputs or {}).values()) if isinstance(x, (Tensor, Batch))), None)
        self.device = device_of_call(device, name) or (Device.current() if near is None else near.device)

    def _count(self, batch_size: Any, sizes: dict[str, int]) -> int | None:
        """Number of samples, or None where nothing is a Batch and one Tensor is asked for."""
        if batch_size is not None:
            sizes = {"batch_size": checked_batch_size(self.name, batch_size), **sizes}
        first, count = next(iter(sizes.items()), ("", None))
        if isinstance(self.source.rng, Keyed):
            first, count = "rng", self.source.rng.batch_size
        for name, size in sizes.items():
            if size != count:
                expected = (
                    f"of size {count}, like {first!r}" if count is not None else "no Batch: 'rng' is for one sample"
                )
                if name == "batch_size":
                    expected = f"{count}, which is what 'rng' is for"
                raise ArgumentError(
                    self.name, name, expected, str(size) if name == "batch_size" else f"a Batch of {size}"
                )
        return count

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
        with numpy.errstate(over="ignore"):
            value = numpy.asarray(self.values[name], numpy.float64).astype(numpy.float32)
        finite = numpy.isfinite(value)
        if not finite.all():
            raise self.error(name, ~finite, "a finite float32")
        return value if value.ndim else value[()]

    def error(self, name: str, wrong: Any, expected: str) -> ArgumentError:
        """What to raise for an argument that is wrong for all samples, or for some as an array of flags says."""
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
    ) -> Array:
        """All numbers of the call, sample after sample, in one array of shape (total,). Here the source moves on.

        Args:
            dtype: Of the numbers.
            compute: Makes some of them.
            stride: How many words the elements of a sample are apart.
            kernel: Makes them on a GPU: where the words lie, how many numbers each sample has, and their address.
        """
        draw, sizes, total = self._drawn()
        if self.device.device_type == "gpu":
            cupy = cuda.cupy()
            with cuda.working(self.device.device_id):
                if kernel is None or not total:
                    return compute(_part(cupy, draw, sizes, 0, total, stride)) if total else cupy.empty(0, dtype)
                made = cupy.empty(total, dtype)
                kernel(draw, sizes, int(made.data.ptr))
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
        """The numbers as what the caller gets; dimensions of `flat` after the first are in every number."""
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


def on_cpu(name: str, argument: str, value: Any) -> Tensor | Batch:
    """An input of a random operator that runs on the CPU."""
    data = value if isinstance(value, (Tensor, Batch)) else Tensor(asarray(value, name, argument))
    if data.device.device_type != "cpu":
        raise DeviceError(f"{name}() runs on cpu; its input is on {data.device}. Move it with .cpu().")
    return data


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


class Samples:
    """The inputs and arguments of each sample of a random operator, checked before anything is drawn.

    Args:
        call: The call.
        inputs: Its inputs.
        check: Called with the inputs and arguments of each sample.
    """

    def __init__(self, call: Call, inputs: Sequence[Tensor | Batch], check: Callable[..., object]) -> None:
        if call.device.device_type != "cpu":
            raise DeviceError(f"{call.name}() runs on cpu; pass device='cpu'.")
        self.call, self.origin = call, inputs[0].origin
        self.count = count = 1 if call.n is None else call.n
        columns = [x.samples if isinstance(x, Batch) else [x.array] * count for x in inputs]
        self.inputs = list(zip(*columns, strict=True))
        varying = {name: call.values[name] for name in call.varying}
        self.values = [call.values] * count
        if varying:
            self.values = [{**call.values, **{name: own[i] for name, own in varying.items()}} for i in range(count)]
        for i in range(count):
            self.noted(i, check)

    def noted(self, i: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function makes of a sample; in errors it is named."""
        try:
            return function(*arguments, *self.inputs[i], **self.values[i])
        except Exception as error:
            error.add_note(f"In {self.call.name}(), sample {i} of {self.count}.")
            raise

    def wrapped(self, columns: Sequence[list[Array]], kinds: Sequence[tuple[int, Any]]) -> tuple[Tensor | Batch, ...]:
        """Results as Tensors or Batches.

        Args:
            columns: For each result what each sample gives.
            kinds: The number of dimensions and the dtype of each, for an empty Batch.
        """
        if self.call.n is None:
            return tuple(Tensor(column[0]) for column in columns)
        if not self.count:
            return tuple(Batch([], None, self.origin, numpy.dtype(kind), ndim) for ndim, kind in kinds)
        return tuple(Batch(together(column), None, self.origin) for column in columns)


_AHEAD = 8  # words of each sample that are made together


def streams(draw: Draw, count: int) -> list[Words]:
    """The words of each of so many samples, of which the first ones are made together."""
    known = draw.following(_AHEAD).tolist()
    return [Words(draw, i, known[i]) for i in range(count)]


def sampled(
    call: Call,
    inputs: Sequence[Tensor | Batch],
    check: Callable[..., object],
    make: Callable[..., tuple[Array, ...]],
    kinds: Sequence[tuple[int, Any]],
) -> tuple[Tensor | Batch, ...]:
    """The results of a random operator that has inputs, made sample by sample. Here the source moves on.

    Args:
        call: The call.
        inputs: Its inputs.
        check: Called with the inputs and arguments of each sample before anything is drawn.
        make: Called with the words of a sample, and its inputs and arguments: its results.
        kinds: Number of dimensions and dtype of each result, for an empty Batch.
    """
    samples = Samples(call, inputs, check)
    words = streams(call.source.draw(call.n), samples.count)
    results: list[tuple[Array, ...]] = [()] * samples.count

    def one(i: int) -> None:
        results[i] = samples.noted(i, make, words[i])

    work = 8 * sum(array.nbytes for arrays in samples.inputs for array in arrays)
    pool.run(one, samples.count, work)
    return samples.wrapped([*map(list, zip(*results, strict=True))], kinds)
