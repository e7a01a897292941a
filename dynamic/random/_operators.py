"""The distributions, and `choice` and `batch_permutation`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._base.docstrings import described_as
from dynamic._core import random as native
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, PerSample
from dynamic.data import Batch, Tensor, checked_batch_size
from dynamic.devices import DeviceLike
from dynamic.dtypes import convert, numpy_dtype
from dynamic.errors import ArgumentError, shown

from . import _distributions, _rejection
from . import _gpu as kernels
from ._drawing import Call, Part, distribution, of_numbers
from ._philox import ELEMENT_STRIDE, Draw
from ._rng import RNG, Source

__all__ = ["batch_permutation", "beta", "choice", "coin_flip", "normal", "uniform"]

if TYPE_CHECKING:
    Range: TypeAlias = Sequence[float] | Batch | Tensor | numpy.ndarray[Any, Any]
    Numbers: TypeAlias = Range | None
    Shape: TypeAlias = int | Sequence[int] | Batch | Tensor | numpy.ndarray[Any, Any] | None
    Kind: TypeAlias = Any
else:
    Range = PerSample[tuple[float, float]]
    Numbers = PerSample[tuple[float, ...] | None]
    Shape = PerSample[Annotated[int, Between(0)] | tuple[Annotated[int, Between(0)], ...] | None]
    Kind = DTypeArgument

_INDEX = numpy.dtype("uint64")


@functools.lru_cache(maxsize=256)
def _limits(low: float, high: float, dtype: numpy.dtype[Any]) -> tuple[bool, tuple[Any, Any, Any], bool]:
    fine, limits = _distributions.uniform_limits(numpy.float64(low), numpy.float64(high), dtype)
    return bool(fine), limits, bool(fine) and _distributions.sums_are_exact(limits)


@of_numbers
def uniform(
    shape_like: Any = None,
    /,
    *,
    range: Range = (-1.0, 1.0),
    values: Numbers = None,
    shape: Shape = None,
    dtype: Kind = "float32",
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Draw numbers that are equally likely everywhere in a range, or one of a few values.

    Args:
        shape_like: An array, Tensor or Batch whose shapes the result gets.
        range: Start and end. Floats are at least the start and less than the end. For integers the bounds are cut off
            to integers, and a real number between them is drawn and rounded: each bound is half as likely as the rest.
        values: Draw one of these numbers instead, each as likely as any other.
        shape: Extents of each sample; one number if left out.
        dtype: Of the result; any but bool.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: Where the result is made.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        A Batch where the number of samples is given by anything, else a Tensor.

    Raises:
        ArgumentError: The end of the range is not beyond its start, or there are no values.

    >>> angles = ndd.random.uniform(range=(-30, 30), batch_size=3, rng=ndd.random.RNG(5))
    >>> [round(angle, 3) for angle in angles.tolist()]
    [-29.459, -23.055, -25.554]
    """
    kind = _number_dtype(call)
    if call.values["values"] is not None:
        return _one_of_values(call, kind)
    if "range" in call.varying:
        low, high = numpy.array(call.values["range"], numpy.float64).reshape(-1, 2).T
        flags, limits = _distributions.uniform_limits(low, high, kind)
        fine, exact = bool(flags.all()), False
    else:
        flags = None
        fine, limits, exact = _limits(*call.values["range"], kind)
    if not fine:
        precision = "" if kind.kind in "iu" else f", as {'float16' if kind.itemsize == 2 else 'float32'} numbers"
        raise call.error("range", None if flags is None else ~flags, f"a start and a larger end{precision}")
    words = 2 if _distributions.wide(kind) else 1

    def compute(part: Part) -> Array:
        low, scale, top = map(part.of, limits)
        numbers = _distributions.uniform(part.xp, part.words(words), (low, scale, top), exact=exact)
        return numbers if numbers.dtype == kind else convert(part.xp, numbers, kind)

    return call.result(
        call.fill(
            kind,
            compute,
            kernel=lambda d, n, to: kernels.uniform(d, n, to, limits, kind),
            native=lambda d, n, total: native.uniform(d, n, total, limits, kind),
        )
    )


def _number_dtype(call: Call) -> numpy.dtype[Any]:
    if call.dtype.kind == "b":
        raise ArgumentError(
            call.name, "dtype", "the type of a number", "bool", "For True and False there is coin_flip."
        )
    return call.dtype


def _one_of_values(call: Call, kind: numpy.dtype[Any]) -> Tensor | Batch:
    """For `uniform` with `values`."""
    rows = call.values["values"] if "values" in call.varying else [call.values["values"]]
    counts = numpy.array([len(row) for row in rows], numpy.uint64)
    if not counts.all():
        raise call.error("values", counts == 0, "at least one number")
    numbers = numpy.array([number for row in rows for number in row], numpy.float64)
    if kind.kind == "f":
        with numpy.errstate(over="ignore"):
            numbers = numbers.astype(numpy.float32)  # as DALI reads them, also for float64
    numbers = convert(numpy, numbers, kind)
    first = numpy.cumsum(counts) - counts
    finite = numpy.isfinite(numbers)
    if not finite.all():
        wrong = ~numpy.logical_and.reduceat(finite, first.astype(numpy.intp))
        raise call.error("values", wrong, f"finite {'float16' if kind.itemsize == 2 else 'float32'} numbers")
    own = (first, counts) if "values" in call.varying else (first[0], counts[0])

    def compute(part: Part) -> Array:
        xp, (word,) = part.xp, part.words(1)
        start, count = map(part.of, own)
        index = start + (word * count >> xp.uint64(32))
        return xp.asarray(numbers)[index.astype(xp.intp)]

    return call.result(call.fill(kind, compute, kernel=lambda d, n, to: kernels.picked(d, n, to, numbers, *own)))


@of_numbers
@described_as(uniform)
def normal(
    shape_like: Any = None,
    /,
    *,
    mean: PerSample[float] = 0.0,
    stddev: PerSample[float] = 1.0,
    shape: Shape = None,
    dtype: Kind = "float32",
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Draw numbers with the normal distribution.

    Args:
        mean: Where the numbers are most likely, a float32.
        stddev: Standard deviation, a float32.
        dtype: Of the result; any but bool. Integers are rounded, and those beyond the type's limits become the limits.

    Returns:
        A Batch where the number of samples is given by anything, else a Tensor.

    >>> noise = ndd.random.normal(stddev=0.1, shape=(2, 3), rng=ndd.random.RNG(5))
    >>> noise.shape, noise.dtype == "float32"
    ((2, 3), True)
    """
    kind = _number_dtype(call)
    moments = call.float32("mean"), call.float32("stddev")
    words = 4 if _distributions.wide(kind) else 2

    def compute(part: Part) -> Array:
        values = _distributions.normal(part.xp, part.words(words))
        return convert(part.xp, _distributions.scaled(part.xp, values, *map(part.of, moments)), kind)

    return call.result(
        call.fill(
            kind,
            compute,
            kernel=lambda d, n, to: kernels.normal(d, n, to, *moments, kind),
            native=lambda d, n, total: native.normal(d, n, total, moments, kind),
        )
    )


@of_numbers
@described_as(uniform)
def coin_flip(
    shape_like: Any = None,
    /,
    *,
    probability: PerSample[float] = 0.5,
    shape: Shape = None,
    dtype: Kind = "int32",
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Draw 1 with a probability, else 0.

    Args:
        probability: Of 1; a float32.
        dtype: Of the result; bool gives True and False.

    Returns:
        A Batch where the number of samples is given by anything, else a Tensor.

    >>> ndd.random.coin_flip(probability=1.0, batch_size=3).tolist()
    [1, 1, 1]
    """
    kind = call.dtype
    probabilities = call.float32("probability")
    wrong = (probabilities < 0) | (probabilities > 1)
    if wrong.any():
        raise call.error("probability", wrong, "a number in [0, 1]")
    # So many of the 2**32 words are below the threshold; a float64 holds it exactly, and every word.
    threshold = numpy.floor(numpy.float64(probabilities) * 2.0**32)

    def compute(part: Part) -> Array:
        (word,) = part.words(1)
        return (word < part.of(threshold)).astype(kind)

    return call.result(
        call.fill(
            kind,
            compute,
            kernel=lambda d, n, to: kernels.coin_flip(d, n, to, threshold, kind),
            native=lambda d, n, total: native.coin_flip(d, n, total, threshold, kind),
        )
    )


@distribution
def choice(
    a: Any,
    shape_like: Any = None,
    /,
    *,
    p: Numbers = None,
    shape: Shape = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Draw items of a list, or integers below a bound.

    Args:
        a: An array, Tensor or list, whose items along the first dimension are drawn; or a positive integer n, for
            integers in [0, n). A Batch gives each sample its own.
        shape_like: An array, Tensor or Batch whose shapes the draw gets.
        p: Probability of each item, a float32; they add up to 1. One number is that of a single item. By default all
            items are alike.
        shape: How many items each sample draws, and how they are arranged; one item if left out.
        batch_size: Number of samples; a Batch of any of the arguments, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        A Batch where the number of samples is given by anything, else a Tensor; of a's dtype, its shape that of the
        draw and then that of an item.

    Raises:
        ArgumentError: There is nothing to choose from; or the probabilities are not one for each item, not in [0, 1],
            or their sum is not 1.

    >>> ndd.random.choice([10, 20, 30], p=[0, 1, 0], shape=2).tolist()
    [20, 20]
    """
    call.on_cpu()
    counts = _counts(a)
    if call.values["p"] is None:
        indices = _equally_likely(call, counts, in_turn=a.ndim > 1)
    else:
        edges = _Edges(_edges(call, counts))
        indices = call.fill(_INDEX, edges.chosen, 2 if a.ndim > 1 else ELEMENT_STRIDE)
    return _items(call, a, indices)


def _counts(a: Tensor | Batch) -> Array:
    """From how many items each sample chooses: a uint64 array, without dimensions for a Tensor."""
    if isinstance(a, Tensor):
        return numpy.uint64(_count("a", a.array))
    return numpy.array([_count(f"a[{i}]", array) for i, array in enumerate(a.samples)], numpy.uint64)


def _count(name: str, array: Array) -> int:
    if not array.ndim and (array.dtype.kind not in "iu" or array <= 0):
        raise ArgumentError("choice", name, "an array of items, or a positive integer", shown(array.item()))
    if array.ndim and not len(array):
        raise ArgumentError("choice", name, "at least one item", f"an array of shape {array.shape}")
    return len(array) if array.ndim else int(array)


def _equally_likely(call: Call, counts: Array, *, in_turn: bool) -> Array:
    """Indices below the counts. Items that are arrays read one stream of words a sample, in turn, as in DALI."""
    redone: list[Draw] = []

    def compute(part: Part) -> Array:
        n = part.of(counts)
        if (counts > 1 << 32).any():
            each = numpy.broadcast_to(n, part.size).tolist()
            return numpy.array([_distributions.below(part.stream(i), bound) for i, bound in enumerate(each)], _INDEX)
        (word,) = part.words(1)
        product = word * n
        found = product >> numpy.uint64(32)
        rejected = numpy.flatnonzero((product & numpy.uint64(0xFFFFFFFF)) < numpy.uint64(1 << 32) % n).tolist()
        if in_turn and rejected:  # those that follow read other words
            redone.append(part.draw)
            return found
        for i in rejected:
            found[i] = _distributions.below(part.stream(i), int(n[i] if n.ndim else n))
        return found

    flat = call.fill(_INDEX, compute, 1 if in_turn else ELEMENT_STRIDE)
    if redone:
        for sample, (_, own) in enumerate(call.split(flat)):
            stream, n = redone[0].stream(sample), int(counts[sample] if counts.ndim else counts)
            own[:] = [_distributions.below(stream, n) for _ in own]
    return flat


def _edges(call: Call, counts: Array) -> list[Array]:
    """For each sample, or for all, the sums of the probabilities up to each item."""
    if "p" not in call.varying:
        wanted = {*counts.reshape(-1).tolist()}
        return [_sums("p", call.values["p"], min(wanted - {len(call.values["p"])}, default=len(call.values["p"])))]
    each = numpy.broadcast_to(counts, len(call.values["p"])).tolist()
    return [_sums(f"p[{i}]", row, n) for i, (row, n) in enumerate(zip(call.values["p"], each, strict=True))]


def _sums(name: str, row: tuple[float, ...], n: int) -> Array:
    if len(row) != n:
        raise ArgumentError("choice", name, f"{n} numbers, one for each item", f"{len(row)} numbers")
    p = numpy.array(row, numpy.float32).astype(numpy.float64)
    total = p.sum()
    if ((p < 0) | (p > 1)).any() or abs(total - 1) >= 1e-4:
        raise ArgumentError("choice", name, "numbers in [0, 1] whose sum is 1", f"{shown(row)}, of sum {total:g}")
    sums = numpy.minimum(numpy.cumsum(p / total), 1.0)  # rounding may go beyond
    sums[-1] = 1.0
    return sums


class _Edges:
    """Sums of probabilities, of which each sample has some, or all have the same ones."""

    def __init__(self, rows: list[Array]) -> None:
        self._flat, counts = numpy.concatenate(rows or [numpy.empty(0)]), numpy.array([*map(len, rows)], numpy.intp)
        self._first = numpy.cumsum(counts) - counts
        self._last = self._first + counts - 1  # which are 1, and so more than any number
        self._steps = int(counts.max(initial=1) - 1).bit_length()

    def chosen(self, part: Part) -> Array:
        """For each number the first item up to which the probabilities add up to it: found by halves, all at once."""
        values = _distributions.canonical(numpy, part.words(2))
        if len(self._first) == 1:
            return numpy.searchsorted(self._flat, values)
        first = part.of(self._first)
        low, high = first, part.of(self._last)
        for _ in builtins.range(self._steps):
            middle = (low + high) >> 1
            below = self._flat[middle] < values
            low, high = numpy.where(below, middle + 1, low), numpy.where(below, high, middle)
        return numpy.broadcast_to(low - first, len(values))


def _items(call: Call, a: Tensor | Batch, indices: Array) -> Tensor | Batch:
    """The chosen items as a Tensor or Batch."""
    kind = numpy_dtype(a.dtype)
    if not a.ndim:
        return call.result(indices.astype(kind))
    places = indices.astype(numpy.intp)
    ndim = len(call.shapes[0] if isinstance(call.shapes, list) else call.shapes)
    layout = {0: (a.layout or "")[1:] or None, 1: a.layout}.get(ndim)
    if isinstance(a, Tensor):
        return call.result(a.array[places], layout)
    parts = zip(a.samples, call.split(places), strict=True)
    samples = [array[part].reshape(shape + array.shape[1:]) for array, (shape, part) in parts]
    return Batch(samples, layout, dtype=kind, ndim=ndim + a.ndim - 1)


@of_numbers
@described_as(uniform)
def beta(
    shape_like: Any = None,
    /,
    *,
    alpha: PerSample[float] = 1.0,
    beta: PerSample[float] = 1.0,
    shape: Shape = None,
    dtype: Kind = "float32",
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    call: Call = GIVEN,
) -> Tensor | Batch:
    """Draw numbers in [0, 1] with a beta distribution, as mixup uses them.

    Args:
        alpha: First parameter, positive.
        beta: Second parameter, positive.
        dtype: Of the result: a float type.
        device: The CPU.

    Returns:
        A Batch where the number of samples is given by anything, else a Tensor.

    Raises:
        ArgumentError: A parameter is not positive, or the dtype is no float type.

    >>> share = ndd.random.beta(alpha=2.0, beta=2.0, batch_size=3, rng=ndd.random.RNG(5))
    >>> [round(number, 3) for number in share.tolist()]
    [0.954, 0.579, 0.428]
    """
    call.on_cpu()
    if call.dtype.kind != "f":
        raise ArgumentError("beta", "dtype", "a floating-point type", str(call.dtype))
    parameters = []
    for name in ("alpha", "beta"):
        value = call.float32(name)
        if not (value > 0).all():
            raise call.error(name, ~(value > 0), "a positive float32")
        parameters.append(value.astype(numpy.float64))
    drawn = _rejection.Beta(2 if _distributions.wide(call.dtype) else 1)
    return call.result(call.in_turn(call.dtype, lambda part: drawn.numbers(part, *parameters)))


@distribution
def batch_permutation(
    *,
    allow_repetitions: bool | None = None,
    no_fixed_points: bool | None = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: RNG | None = None,
    call: Call = GIVEN,
) -> Batch:
    """Draw an order of the samples of a batch: their numbers, each once.

    Args:
        allow_repetitions: Draw each number by itself, so that some come twice and others not at all.
        no_fixed_points: No sample gets its own number, unless it is the only one.
        batch_size: Number of samples.
        device: The CPU.
        rng: A stream; by default this thread's. Draws by sample cannot be an order of a batch.

    Returns:
        A Batch of int32 numbers.

    Raises:
        ArgumentError: There is no `batch_size`, or `rng` is keyed.

    >>> ndd.random.batch_permutation(batch_size=5, rng=ndd.random.RNG(5)).tolist()
    [3, 0, 1, 2, 4]
    """
    if not isinstance(call.source.rng, RNG):
        hint = "An order is of a batch, not of its samples."
        raise ArgumentError("batch_permutation", "rng", "an RNG", shown(call.source.rng), hint)
    call.on_cpu()
    n = checked_batch_size("batch_permutation", call.n)
    draw = call.source.draw(n)
    words = draw.stream(0) if n else iter(())
    if not allow_repetitions:
        order = (_rejection.derangement if no_fixed_points else _rejection.permutation)(words, n)
    elif no_fixed_points and n > 1:
        order = [(j := _distributions.below(words, n - 1)) + (j >= i) for i in builtins.range(n)]
    else:
        order = [_distributions.below(words, n) for _ in builtins.range(n)]
    return Batch(numpy.array(order, numpy.int32), dtype=numpy.dtype(numpy.int32), ndim=0)
