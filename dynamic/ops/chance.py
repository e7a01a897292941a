"""`sometimes`: an operator on some of the samples, by chance."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy

from dynamic._base.origin import Origin
from dynamic._lift.binding import function
from dynamic.data import Batch, Tensor, as_tensor
from dynamic.errors import ArgumentError, shown
from dynamic.random import uniform
from dynamic.random._rng import RNG, Keyed, Source, source

from .geometry import flip
from .together import eager, together

__all__ = ["sometimes"]

_NAME = "sometimes"


@function
def sometimes(
    probability: Any,
    operator: Callable[..., Any],
    /,
    *inputs: Any,
    rng: Source | None = None,
    **arguments: Any,
) -> Any:
    """Call an operator with some of the samples; the others stay as they are.

    Each sample has a coin of its own. Inputs and arguments that are Batches are taken for the chosen samples only.

    Args:
        probability: That of a sample to be chosen, 0 to 1; or a Batch of one for each.
        operator: An operator, or a function of Batches that returns one of as many samples, of the same dtype, layout
            and number of dimensions. Sizes may change. `together` is one too:
            ``sometimes(0.5, ndd.together, ndd.rotate, image=images, boxes=boxes, angle=angles)``.
        inputs: Those of the operator. The first is a Batch, or one sample, a Tensor.
        rng: Where coins are drawn from, and after them the draws of a random operator; by default this thread's stream.
            With keyed draws both belong to samples.
        arguments: Those of the operator.

    Returns:
        The samples in their order; of `together` its dict.

    Raises:
        ArgumentError: The operator changes the dtype, layout or number of samples, or returns something else.

    >>> images = ndd.as_batch(numpy.arange(8, dtype="uint8").reshape(4, 1, 2), layout="HW")
    >>> ndd.sometimes(0.5, ndd.flip, images, rng=ndd.random.RNG(5)).tolist()
    [[[1, 0]], [[3, 2]], [[4, 5]], [[7, 6]]]
    """
    operator = eager(operator)
    if not callable(operator):
        raise ArgumentError(_NAME, "operator", "an operator, or a function of Batches", shown(operator))
    first = arguments.get("image") if operator is together else inputs[0] if inputs else None
    if first is None:
        missing = "'image'" if operator is together else "input"
        raise ArgumentError(_NAME, missing.strip("'"), "given: a Batch, or one sample", "nothing")
    batched = isinstance(first, Batch)
    count = len(first) if isinstance(first, Batch) else 1
    stream = source(_NAME, rng)
    size = stream.batch_size if isinstance(stream, Keyed) else count if batched else None
    if (size is not None) != batched or (size or count) != count:
        raise ArgumentError(_NAME, "rng", f"for {count} samples, like the data", f"one for {size or 1}")
    least = _checked(probability, count)
    turn = stream.turn
    try:
        coins = numpy.asarray(
            uniform(range=(0.0, 1.0), dtype="float64", batch_size=size, device="cpu", rng=stream)
        ).reshape(-1)
        call = _Call(operator, inputs, arguments, stream)
        return call.batch(first, coins < least) if batched else call.alone(first, bool(coins[0] < least[0]))
    except BaseException:
        stream.give_back(turn)
        raise


def _checked(probability: Any, count: int) -> Any:
    """The probability of each sample."""
    given = probability
    if isinstance(probability, Batch):
        if len(probability) != count:
            raise ArgumentError(_NAME, "probability", f"a Batch of {count}", f"one of {len(probability)}")
        given = probability.cpu().dense().reshape(-1)
    found = numpy.asarray(given)
    if found.dtype.kind not in "iuf" or found.shape not in ((), (count,)) or not ((found >= 0) & (found <= 1)).all():
        raise ArgumentError(_NAME, "probability", "a number from 0 to 1, or a Batch of them", shown(probability))
    return numpy.broadcast_to(found, count)


class _Call:
    """The call of an operator with some of the samples."""

    def __init__(
        self, operator: Callable[..., Any], inputs: tuple[Any, ...], arguments: dict[str, Any], stream: RNG | Keyed
    ) -> None:
        self._operator, self._inputs, self._arguments, self._stream = operator, inputs, arguments, stream
        self._draws = "rng" in _parameters(operator)

    def alone(self, data: Any, chosen: bool) -> Any:
        """The result for one sample."""
        if chosen:
            return self._operator(*self._inputs, **self._arguments, **({"rng": self._stream} if self._draws else {}))
        if self._operator is together:
            return _unmoved(self._arguments)
        return data if isinstance(data, Tensor) else as_tensor(data)

    def batch(self, data: Batch, chosen: Any) -> Any:
        """The result for a Batch."""
        there, rest = numpy.flatnonzero(chosen), numpy.flatnonzero(~chosen)
        made: Any = data.select(there)
        if len(there) or self._draws:  # a stream moves on, however many are chosen
            inputs, arguments = self._taken(there, len(data))
            if self._draws:
                arguments["rng"] = self._stream.take(there) if isinstance(self._stream, Keyed) else self._stream
            made = self._operator(*inputs, **arguments)
        if self._operator is together:
            left = _unmoved(self._taken(rest, len(data))[1])
            return {name: _merged(made[name], left[name], there, rest) for name in made}
        if not isinstance(made, Batch) or len(made) != len(there):
            expected = f"one that gives a Batch of {len(there)} samples for as many"
            raise ArgumentError(_NAME, "operator", expected, shown(made))
        return _merged(made, data.select(rest), there, rest)

    def _taken(self, places: Any, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs and arguments of some samples."""

        def taken(name: str, value: Any) -> Any:
            if not isinstance(value, Batch):
                return value
            if len(value) != count:
                raise ArgumentError(_NAME, name, f"a Batch of {count}, like the data", f"one of {len(value)}")
            return value.select(places)

        inputs = tuple(taken(f"inputs[{i}]", value) for i, value in enumerate(self._inputs))
        return inputs, {name: taken(name, value) for name, value in self._arguments.items()}


def _parameters(function: Callable[..., Any]) -> set[str]:
    """The names of the parameters of a function, as far as it tells."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _unmoved(arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of `together` of samples that stay."""
    own = {name: value for name, value in arguments.items() if name in _parameters(together) - {"rng"}}
    return together(flip, horizontal=0, **own)


def _merged(made: Any, left: Any, there: Any, rest: Any) -> Any:
    """Samples that were changed, and those that were not, in their order."""
    for name, one, other in (
        ("dtype", made.dtype, left.dtype),
        ("layout", made.layout or left.layout, left.layout or made.layout),
        ("number of dimensions", made.ndim, left.ndim),
        ("device", made.device, left.device),
    ):
        if one != other:
            hint = "Cast before or after, so that all samples are alike." if name == "dtype" else ""
            expected = f"one that keeps the {name} {other}, which the other samples have"
            raise ArgumentError(_NAME, "operator", expected, str(one), hint)
    if not len(there) or not len(rest):
        return made if len(there) else left
    samples: list[Any] = [None] * (len(there) + len(rest))
    for places, part in ((there, made), (rest, left)):
        for place, sample in zip(places.tolist(), part.samples, strict=True):
            samples[place] = sample
    origin = Origin.joined([made.origin, left.origin])
    order = numpy.argsort(numpy.concatenate([there, rest]))
    return Batch(samples, made.layout or left.layout, origin and origin.take(order.tolist()))
