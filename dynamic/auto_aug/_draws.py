"""Where the numbers of policies come from, in the function of a pipeline and elsewhere."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import numpy
from numpy.typing import NDArray

import dynamic
from dynamic import ArgumentError, Batch, Tensor
from dynamic._base.layout import warn_of_channels_first
from dynamic._lift.binding import check_given
from dynamic.data import checked_batch_size, first_shape
from dynamic.errors import shown
from dynamic.random import RNG, Keyed, get_default_rng
from dynamic.random._drawing import OfInput

__all__ = [
    "Source",
    "by_place",
    "drawn",
    "handed",
    "laid_out",
    "on_samples",
    "recorder",
    "sample_scheme",
    "scheme",
    "whole_number",
]

P = ParamSpec("P")
R = TypeVar("R")
#: The type of ``rng=``.
Source: TypeAlias = RNG | Keyed


class Recorder(Protocol):
    """A receiver of calls in a pipeline's function: it gives them random numbers, and records them."""

    def __call__(
        self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any], /
    ) -> Any: ...


#: In the function of a pipeline, the receiver of its calls; elsewhere None.
recorder: ContextVar[Recorder | None] = ContextVar("dynamic.auto_aug", default=None)


def handed(path: str, function: Callable[..., R], inputs: tuple[Any, ...], arguments: dict[str, Any]) -> R:
    """The result of a function that draws, in a pipeline with the numbers of its samples."""
    hand = recorder.get()
    if hand is not None:
        found: R = hand(path, inputs, arguments, function)
        return found
    if arguments.pop("seed", None) is not None:
        raise ArgumentError(
            path,
            "seed",
            "left out outside of a pipeline's function",
            "one",
            "Pass rng=dynamic.random.RNG(seed), which goes on from call to call.",
        )
    return function(*inputs, **arguments)


def scheme(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function be one call of a pipeline, whatever it calls."""
    path, signature = f"auto_aug.{function.__name__}", inspect.signature(function)

    @functools.wraps(function)
    def called(*inputs: P.args, **arguments: P.kwargs) -> R:
        check_given(path, signature.parameters, inputs, arguments)
        given = dict(signature.bind(*inputs, **arguments).arguments)
        further = given.pop("kwargs", {})
        return handed(path, function, (), {**given, **further})

    return called


def sample_scheme(function: Callable[Concatenate[Any, P], Tensor | Batch]) -> OfInput[P]:
    """`scheme` of a function that gives a Batch for a Batch, and for a batch size."""
    return cast("OfInput[P]", scheme(function))


def by_place(op: Callable[..., Any]) -> int:
    """How many arguments a function takes by position, as far as it tells."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        return sum(p.kind in kinds for p in inspect.signature(op).parameters.values())
    except (TypeError, ValueError):
        return 0


@contextlib.contextmanager
def drawn(name: str, data: Batch, count: int, rng: Source | None) -> Iterator[NDArray[numpy.float64]]:
    """Numbers in [0, 1) of each sample, in shape (N, count), for a block of code.

    Here the source moves on, once; if the block fails it goes back, unless somebody else has drawn since.

    Args:
        name: The caller, for errors.
        data: The samples.
        count: How many for each.
        rng: Where from; by default this thread's stream.
    """
    if rng is not None and not isinstance(rng, (RNG, Keyed)):
        raise ArgumentError(name, "rng", "an RNG, or the draws of RNG.keyed", shown(rng))
    single = isinstance(rng, Keyed) and rng.batch_size is None
    if isinstance(rng, Keyed) and (1 if single else rng.batch_size) != len(data):
        raise ArgumentError(name, "rng", f"for {len(data)} samples, like the data", f"one for {rng.batch_size or 1}")
    size, stream = None if single else len(data), get_default_rng() if rng is None else rng
    turn = stream.turn
    found = dynamic.random.uniform(
        range=(0.0, 1.0), shape=count, dtype="float64", batch_size=size, device="cpu", rng=stream
    )
    try:
        yield numpy.asarray(found, numpy.float64).reshape(len(data), count)
    except BaseException:
        stream.give_back(turn)
        raise


def on_samples(
    name: str, function: Callable[[Batch], Batch], data: Any, *beside: Any, batch_size: int | None = None
) -> Tensor | Batch:
    """The result of a function of a Batch, or of one sample, which may stand for several.

    Args:
        name: The caller, for errors.
        function: Of Batches.
        data: A Batch, or one sample.
        beside: Further arguments: one sample stands for as many as a Batch has there, or the draws of `RNG.keyed`.
        batch_size: For how many one sample stands.
    """
    if batch_size is not None:
        batch_size = checked_batch_size(name, batch_size)
    if isinstance(data, Batch):
        if batch_size not in (None, len(data)):
            raise ArgumentError(name, "batch_size", f"{len(data)}, like the data", str(batch_size))
        return function(data)
    sizes = [batch_size, *(x.batch_size for x in beside if isinstance(x, (Batch, Keyed)))]
    count = next((size for size in sizes if size is not None), None)
    if count is not None:
        return function(Batch.broadcast(data, count))
    one = data if isinstance(data, Tensor) else dynamic.as_tensor(data)
    return function(Batch(one.array[None], one.layout, one.origin)).select(0)


def laid_out(samples: Batch) -> Batch:
    """Samples with the layout that operators on images take them to have without one."""
    usual = {2: "HW", 3: "HWC", 4: "FHWC"}.get(samples.ndim)
    if samples.layout or usual is None:
        return samples
    warn_of_channels_first("auto_aug", first_shape(samples), usual)
    return dynamic.as_batch(samples, layout=usual)


def whole_number(numbers: NDArray[numpy.float64], count: int) -> NDArray[numpy.int64]:
    """Numbers in [0, 1) as integers of 0 to `count` - 1."""
    return numpy.minimum((numbers * count).astype(numpy.int64), count - 1)
