"""Noise on images and other arrays: of sensors (gaussian, shot) and of broken pixels (salt and pepper).

Every function takes ``rng=``, as those of `dynamic.random` do: a stream gives a batch its noise by place, and
``rng.keyed(batch)`` gives every sample its own wherever it is.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from ._arrays.array import Array, current, library
from ._arrays.memory import empty
from ._base import pool
from ._base.docstrings import described_as
from ._core import random as native
from ._lift.argument import GIVEN, Between, PerSample
from .data import Batch, Tensor
from .devices import DeviceLike
from .dtypes import convert, numpy_dtype
from .errors import ArgumentError, DeviceError
from .random import _distributions, _rejection
from .random import _gpu as kernels
from .random._drawing import Call, Part, distribution
from .random._philox import ELEMENT_STRIDE, Draw
from .random._rng import Source

__all__ = ["gaussian", "salt_and_pepper", "shot"]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


_Probability: TypeAlias = Annotated[float, Between(0, 1)]


@distribution
def gaussian(
    image: Any,
    /,
    *,
    mean: PerSample[float] = 0.0,
    stddev: PerSample[float] = 1.0,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Add a number with a normal distribution to each element.

    Args:
        image: A Tensor or Batch, or an array, of any shape, layout and dtype but bool.
        mean: Mean of the noise.
        stddev: Standard deviation of the noise; 0 changes nothing where the mean is 0 too.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: The device of the input.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The same shapes, layout and dtype; integers are rounded and saturated.

    Raises:
        ArgumentError: An argument is not finite.

    >>> gray = numpy.full((2, 3), 100, "uint8")
    >>> ndd.noise.gaussian(gray, stddev=20, rng=ndd.random.RNG(5)).tolist()
    [[107, 85, 133], [102, 113, 127]]
    """
    old, kind = _elements(call, image)
    shift, spread = call.float32("mean"), call.float32("stddev")
    wide = _distributions.wide(kind)

    def drawn(part: Part) -> Array:
        numbers = _distributions.normal(part.xp, part.words(4 if wide else 2))
        return _distributions.scaled(part.xp, numbers, part.of(shift), part.of(spread))

    def compute(part: Part) -> Array:
        return _added(part.xp, old[part.start : part.start + part.size], drawn(part))

    def native_noise(draw: Draw, sizes: Any, _: int) -> Array | None:
        def make(draw: Draw, sizes: Any, total: int, moments: Sequence[Array], some: Array) -> Array | None:
            return native.normal(draw, sizes, total, moments, kind, some)

        return old.natively(make, draw, sizes, [shift, spread])

    if call.device.device_type == "cpu":
        return _result(image, call, call.fill(kind, compute, native=native_noise))
    real = numpy.dtype(numpy.float64 if wide else numpy.float32)
    noise = call.fill(real, drawn, kernel=lambda d, n, to: kernels.normal(d, n, to, shift, spread, real))
    with current(call.device):
        xp = library(noise)
        return _result(image, call, _added(xp, old[0 : len(old)], noise) if len(old) else convert(xp, noise, kind))


def _added(xp: Any, values: Array, noise: Array) -> Array:
    """Values and noise, in the dtype of the values. Less than a half changes no integer, nor digits beyond float64."""
    kind = values.dtype
    sums: Array = convert(xp, values.astype(noise.dtype) + noise, kind)
    return xp.where(abs(noise) < 0.5, values, sums) if kind.kind in "iu" and kind.itemsize == 8 else sums


_PART = 1 << 16  # numbers that are made at once
_TOGETHER = 1 << 17  # elements of samples that native code gets together; a larger sample comes alone
#: Makes results natively: of where the words lie, how many numbers samples have, and all, parameters, and the elements.
_Native: TypeAlias = Callable[[Draw, Any, int, Sequence[Array], Array], "Array | None"]
_BYTES_OF_WORK = 512  # memory to copy in the time of making one, about
_COUNTED = 1e32  # photons; the noise of more is less than float64 tells


@distribution
def shot(
    image: Any,
    /,
    *,
    factor: PerSample[float] = 20.0,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Give each element the noise of counted photons: of a mean of element / factor, times the factor.

    The variance of the result is factor times the element.

    Args:
        image: A Tensor or Batch, or an array, of any shape, layout and dtype but bool; less than 0 counts as 0.
        factor: How many levels a photon makes, 0 or more; 0 changes nothing.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The same shapes, layout and dtype; integers are rounded and saturated. NaN and infinity stay.

    Raises:
        ArgumentError: The factor is negative or not finite.

    >>> gray = numpy.full((2, 3), 100, "uint8")
    >>> ndd.noise.shot(gray, factor=20, rng=ndd.random.RNG(5)).tolist()
    [[140, 140, 40], [80, 60, 20]]
    """
    call.on_cpu()
    old, kind = _elements(call, image)
    factors = call.float32("factor")
    if not (factors >= 0).all():
        raise call.error("factor", ~(factors >= 0), "0 or more")
    real = numpy.float64 if kind == numpy.float64 else numpy.float32

    def noisy(part: Part, own: Array, factors: Array = factors) -> Array:
        unit = numpy.broadcast_to(part.of(factors), part.size)
        counted, photons = _photons(own.astype(real), unit)
        found = _rejection.poisson(part, photons).astype(real) * unit
        return numpy.where(counted, convert(numpy, found, kind), own)

    def made(draw: Draw, sizes: Any, total: int, own: Sequence[Array], some: Array) -> Array | None:
        return _shot(draw, sizes, total, own[0], some, lambda part, values: noisy(part, values, own[0]))

    def native_noise(draw: Draw, sizes: Any, _: int) -> Array | None:
        return old.natively(made, draw, sizes, [factors]) if kind == numpy.uint8 else None

    def compute(part: Part) -> Array:
        return noisy(part, old[part.start : part.start + part.size])

    return _result(image, call, call.fill(kind, compute, native=native_noise))


def _photons(values: Array, unit: Any) -> tuple[Array, Array]:
    """For which values photons are counted, and how many are expected of each; 0 of the others."""
    counted = (unit > 0) & numpy.isfinite(values)
    with numpy.errstate(over="ignore"):
        photons = numpy.maximum(values, 0) / numpy.where(counted, unit, 1)
    counted &= photons < _COUNTED
    return counted, numpy.where(counted, photons, 0).astype(numpy.float64)


def _shot(
    draw: Draw, sizes: Any, total: int, factors: Any, image: Array, noisy: Callable[[Part, Array], Array]
) -> Array | None:
    """Bytes with noise: those of few photons natively, the others by `noisy`."""
    counted, photons = _photons(numpy.arange(256, dtype=numpy.float32), factors.reshape(-1, 1))
    limits = numpy.where(counted, _rejection.limits_of_products(photons), 2.0)
    large = photons >= _rejection.SMALL
    limits[large] = 2.0
    made = native.shot(draw, sizes, total, factors, limits, image)
    if made is None or not large.any():
        return made
    ends = numpy.cumsum(numpy.broadcast_to(sizes, len(draw.high)))
    if len(large) == 1:
        places = numpy.flatnonzero(large[0][image])
    else:
        flags = [own[part] for own, part in zip(large, numpy.split(image, ends[:-1]), strict=True)]
        places = numpy.flatnonzero(numpy.concatenate(flags))
    samples = numpy.searchsorted(ends, places, side="right")
    elements = (places - (ends - sizes)[samples]).astype(numpy.uint64)

    def one(i: int) -> None:
        some = slice(i * _PART, (i + 1) * _PART)
        part = Part(numpy, draw, samples[some], elements[some], ELEMENT_STRIDE, 0)
        made[places[some]] = noisy(part, image[places[some]])

    pool.run(one, -(-len(places) // _PART), _BYTES_OF_WORK * len(places))
    return made


@distribution
@described_as(gaussian)
def salt_and_pepper(
    image: Any,
    /,
    *,
    prob: PerSample[_Probability] = 0.05,
    salt_vs_pepper: PerSample[_Probability] = 0.5,
    per_channel: bool = False,
    salt_val: PerSample[float | None] = None,
    pepper_val: PerSample[float | None] = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Make some pixels white (salt) and some black (pepper).

    Args:
        image: A Tensor or Batch, or an array. The channels are the dimension C of the layout, the last one if there is
            no layout, and none if the layout has no C.
        prob: How likely a pixel is to be changed, 0 to 1.
        salt_vs_pepper: How likely a pixel that is changed becomes salt, 0 to 1.
        per_channel: Whether channels are changed each by itself, or pixels as a whole.
        salt_val: The value of salt; by default the largest of the dtype, 1 for floats.
        pepper_val: The value of pepper; by default the smallest of the dtype, -1 for floats.

    Returns:
        The same shapes, layout and dtype; the values of salt and pepper are rounded and saturated.

    Raises:
        ArgumentError: An argument is out of its range.

    >>> gray = numpy.full((2, 3, 1), 100, "uint8")
    >>> ndd.noise.salt_and_pepper(gray, prob=0.7, rng=ndd.random.RNG(5)).numpy()[..., 0].tolist()
    [[255, 0, 255], [100, 100, 0]]
    """
    old, kind = _elements(call, image, bool_too=True)
    likely, salty = call.float32("prob"), call.float32("salt_vs_pepper")
    shapes, levels = call.shapes, _levels(call, kind)
    axis = None if call.values["per_channel"] else _channels(image)
    if axis is not None:
        call.shapes = [_without(s, axis) for s in shapes] if isinstance(shapes, list) else _without(shapes, axis)

    def compute(part: Part) -> Array:
        number = part.words(1)[0].astype(part.xp.float32) * numpy.float32(2.0**-32)
        chance = part.of(likely)
        return (number < chance).astype(numpy.uint8) + (number < chance * part.of(salty))

    if _in_one_pass(call, old, shapes, axis):

        def strewn(draw: Draw, sizes: Any, total: int, own: Sequence[Array], some: Array) -> Array:
            return native.strewn(draw, sizes, total, own[:2], own[2:], some)

        values = [likely, likely * salty, *levels]
        flat = call.fill(kind, compute, native=lambda draw, sizes, _: old.natively(strewn, draw, sizes, values))
        call.shapes = shapes
        return _result(image, call, flat)
    marks = call.fill(numpy.dtype(numpy.uint8), compute)  # 0: stays, 1: pepper, 2: salt
    xp = library(marks)
    with current(image.device):
        parts = call.split(marks)
        call.shapes = shapes
        flat = empty((len(old),), kind) if xp is numpy else xp.empty(len(old), kind)
        results = call.split(flat)

        def one(i: int) -> None:
            (own, new), (_, mark) = results[i], parts[i]
            pepper, salt = (value[i] if value.ndim else value[()] for value in levels)
            channels, behind = (1, 1) if axis is None else (own[axis], math.prod(own[axis % len(own) + 1 :]))
            pixels = len(mark) // max(1, behind), channels, behind
            _strewn(xp, mark, old.samples[i].reshape(pixels), pepper, salt, new.reshape(pixels))

        pool.run(one, len(results), 64 * flat.nbytes if xp is numpy else 0)
        return _result(image, call, flat)


def _in_one_pass(call: Call, old: _Elements, shapes: Any, axis: int | None) -> bool:
    """Whether native code takes a call: where the channels of a pixel are side by side, as many in all samples."""
    if not native.in_use() or call.device.device_type != "cpu" or not len(old):
        return False
    some = shapes if isinstance(shapes, list) else [shapes]
    return axis is None or (axis % len(some[0]) == len(some[0]) - 1 and len({shape[-1] for shape in some}) == 1)


def _strewn(xp: Any, marks: Array, image: Array, pepper: Any, salt: Any, out: Array) -> None:
    """Pixels with salt and pepper.

    Args:
        xp: numpy or cupy.
        marks: For each pixel 0 (stays), 1 (pepper) or 2 (salt).
        image: Shape (A, C, B): the channels of a pixel are as far apart as there are elements behind them.
        pepper: A value.
        salt: A value.
        out: Where to.
    """
    if xp is not numpy:  # which would wait for the number of those that are changed
        marks = marks.reshape(len(out), 1, -1)
        out[...] = xp.where(marks == 0, image, xp.where(marks == 1, pepper, salt))
        return
    convert(numpy, image, out.dtype, out)
    changed = numpy.flatnonzero(marks != 0)
    before, beside = numpy.divmod(changed, max(1, out.shape[2]))
    out[before, :, beside] = numpy.where(marks[changed] == 1, pepper, salt)[:, None]


class _Elements:
    """The elements of all samples one after the other, of which a part is put together when it is asked for."""

    def __init__(self, samples: Sequence[Array], whole: Array | None) -> None:
        self._whole = whole
        self.samples = [sample.reshape(-1) for sample in samples]
        self._ends = list(itertools.accumulate(map(len, self.samples)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def natively(self, make: _Native, draw: Draw, sizes: Any, values: Sequence[Array]) -> Array | None:
        """All results that native code makes, of a few samples at a time where these are not one array.

        Args:
            make: Makes results of where words lie, sizes, how many there are, values and elements; or returns None.
            draw: Where the words of all samples lie.
            sizes: How many numbers each sample has, an array; or all of them, an integer.
            values: Parameters, for all samples or for each.
        """
        whole, n = self._whole, len(self.samples)
        if whole is not None and whole.flags.c_contiguous and whole.flags.aligned:
            return make(draw, sizes, self._total(sizes, slice(0, n)), values, whole.reshape(-1))
        out: Array | None = None
        first, start = 0, 0
        while first < n:
            last = max(first + 1, bisect.bisect_right(self._ends, start + _TOGETHER))
            some, stop = slice(first, last), self._ends[last - 1]
            own = [value[some] if value.ndim and len(value) > 1 else value for value in values]
            part, counts = draw._replace(high=draw.high[some]), sizes if isinstance(sizes, int) else sizes[some]
            joined = numpy.concatenate(self.samples[some])  # aligned, and of a few samples alone
            if stop > start:
                found = make(part, counts, self._total(sizes, some), own, joined)
                if found is None:
                    return None
                out = empty((len(self),), found.dtype) if out is None else out
                out[start:stop] = found
            first, start = last, stop
        return out

    @staticmethod
    def _total(sizes: Any, some: slice) -> int:
        return sizes * (some.stop - some.start) if isinstance(sizes, int) else int(sizes[some].sum())

    def __getitem__(self, part: slice) -> Array:
        start, parts = part.start, []
        for i in range(bisect.bisect_right(self._ends, start), len(self.samples)):
            before = self._ends[i] - len(self.samples[i])
            parts.append(self.samples[i][start - before : part.stop - before])
            start = self._ends[i]
            if start >= part.stop:
                break
        return parts[0] if len(parts) == 1 else library(parts[0]).concatenate(parts)


def _elements(call: Call, image: Tensor | Batch, *, bool_too: bool = False) -> tuple[_Elements, numpy.dtype[Any]]:
    """The elements of all samples, and their dtype."""
    if call.device != image.device:
        device = image.device.device_type
        raise DeviceError(f"{call.name}() runs on the device of its input, {device}; move the input first.")
    kind = numpy_dtype(image.dtype)
    if kind.kind == "b" and not bool_too:
        raise ArgumentError(call.name, "image", "of numbers", "bool")
    with current(image.device):
        if isinstance(image, Batch):
            return _Elements(image.samples, image.whole), kind
        whole = image.array if call.n is None else None
        return _Elements([image.array] * (1 if call.n is None else call.n), whole), kind


def _result(image: Tensor | Batch, call: Call, flat: Array) -> Tensor | Batch:
    """The elements in the shapes of the input, with its layout and origin."""
    made = call.result(flat, image.layout)
    if isinstance(made, Batch):
        storage = made.samples if made.whole is None else made.whole
        storage = storage if len(made) else flat.reshape((0,) * (1 + image.ndim))
        return Batch(storage, image.layout, image.origin, dtype=numpy_dtype(image.dtype), ndim=image.ndim)
    return Tensor(made.array, image.layout, image.origin)


def _channels(image: Tensor | Batch) -> int | None:
    """Which dimension has the channels."""
    if image.layout:
        return image.layout.index("C") if "C" in image.layout else None
    return -1 if image.ndim else None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i != axis % len(shape))


def _levels(call: Call, kind: numpy.dtype[Any]) -> list[Any]:
    """The values of pepper and salt in the dtype, for all samples or for each."""
    defaults: dict[str, tuple[Any, Any]] = {"b": (False, True), "f": (-1, 1)}
    limits = defaults.get(kind.kind) or (numpy.iinfo(kind).min, numpy.iinfo(kind).max)
    levels = []
    for name, default in zip(("pepper_val", "salt_val"), limits, strict=True):
        value = call.values[name]
        levels.append(
            numpy.array(default, kind) if value is None else convert(numpy, numpy.asarray(value, float), kind)
        )
    return levels
