"""Tests for a loop and an operator of your own."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy

from dynamic import checkpoint
from dynamic.context import EvalContext
from dynamic.custom import Operator
from dynamic.data import Batch, Tensor, as_batch
from dynamic.errors import ArgumentError, shown

from ._base import pool
from ._base.state import Stateful

__all__ = ["Resumed", "assert_operator", "assert_resumable"]

Objects: TypeAlias = Mapping[str, Stateful]
Factory: TypeAlias = Callable[[int, int, int], "tuple[Objects, Callable[[], Iterator[Any]]]"]
_Record: TypeAlias = "tuple[Any, Any]"  # a sample, and its results


class Resumed(NamedTuple):
    """The trials of `assert_resumable`."""

    stops: int
    samples: int  #: of an epoch


class _Setting(NamedTuple):
    """How a part of a run is set up."""

    num_shards: int
    batch_size: int

    def __str__(self) -> str:
        return f"{self.num_shards} shards and batches of {self.batch_size}"


def assert_resumable(
    factory: Factory,
    *,
    batch_sizes: Sequence[int] = (1, 2, 3, 5),
    num_shards: Sequence[int] = (1, 2, 3),
    epochs: int = 2,
) -> Resumed:
    """Prove that a loop can be stopped after any step and resumed with any batch size and number of shards.

    The loop is run without a stop first, in one shard; then, for each batch size and number of shards, it is stopped
    after every step, saved to a file, and resumed with another batch size and number of shards, in new objects and in
    those that were used. Each time every sample must come once an epoch, with the same values as in the first run.

    Args:
        factory: Called with a batch size, the number of a shard and how many shards there are; gives a dict of the
            objects that have a state, and a function that runs the rest of an epoch. That is a generator which yields,
            for each step, a dict of samples and their values, or a tuple of Batches (or one Batch), the first of which
            knows where its samples came from.
        batch_sizes: The batch sizes to try.
        num_shards: The numbers of shards to try.
        epochs: How many epochs to run.

    Returns:
        How many stops were tried, and how many samples an epoch has.

    Raises:
        AssertionError: A sample is missing, comes twice, or has another value; the message says when it was stopped
            and how it was resumed. Or there are no samples in an epoch.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(7):
    ...     _ = (root / str(i)).write_bytes(bytes([i]))
    >>> def job(batch_size, shard_id, num_shards):
    ...     reader = ndd.readers.File(files=list("0123456"), file_root=root, random_shuffle=True,
    ...                               shard_id=shard_id, num_shards=num_shards)
    ...     rng = ndd.random.RNG(seed=5)
    ...     def epoch():
    ...         for jpegs, labels in reader.next_epoch(batch_size):
    ...             yield jpegs, labels, ndd.random.uniform(rng=rng.keyed(jpegs)["angle"])
    ...     return {"reader": reader, "rng": rng}, epoch
    >>> from dynamic.testing import assert_resumable
    >>> assert_resumable(job)
    Resumed(stops=80, samples=7)
    """
    settings = [_Setting(s, b) for s, b in itertools.product(num_shards, batch_sizes)]
    if not settings or epochs < 1:
        got = f"{len(settings)} settings and {epochs} epochs"
        raise ArgumentError("testing.assert_resumable", "epochs", "at least one, with a batch size and shards", got)
    first = _Run(factory, _Setting(1, settings[0].batch_size))
    expected = [_as_dict(records, "Without a stop") for records in first.all(epochs)]
    for number, samples in enumerate(expected):
        if not samples:
            raise AssertionError(f"Without a stop: epoch {number} gave no samples, of which nothing can be proved.")
    stops = 0
    others = itertools.cycle(settings)
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings:
            for stop in itertools.count():
                run = _Run(factory, setting)
                before = run.steps(stop)
                if run.epoch >= epochs:
                    break
                path = run.saved(Path(folder) / "run.json", stop % setting.num_shards)
                other = next(others)
                for resumed, how in ((_Run(factory, other), str(other)), (run, "the same objects")):
                    resumed.load(path, len(before) - 1)
                    after = resumed.all(epochs - resumed.epoch)
                    when = f"Stopped after step {stop} with {setting}, resumed with {how}"
                    _compare([*before[:-1], before[-1] + after[0], *after[1:]], expected, when)
                stops += 1
    return Resumed(stops, len(expected[0]))


class _Run:
    """A run of all shards in lock step."""

    def __init__(self, factory: Factory, setting: _Setting) -> None:
        parts = [factory(setting.batch_size, k, setting.num_shards) for k in range(setting.num_shards)]
        self._objects = [dict(objects) for objects, _ in parts]
        self._loops = [loop for _, loop in parts]
        self.epoch = 0

    def load(self, path: Path, epoch: int) -> None:
        for objects in self._objects:
            checkpoint.load(path, **objects)
        self.epoch = epoch

    def saved(self, path: Path, shard: int) -> Path:
        checkpoint.save(path, **self._objects[shard])
        return path

    def steps(self, count: int) -> list[list[_Record]]:
        """The results of so many steps: a list for each epoch, the last of which is the one under way."""
        epochs: list[list[_Record]] = [[]]
        steps = self._lock_step()
        for _ in range(count):
            records, ended = next(steps)
            epochs[-1] += records
            if ended:
                self.epoch += 1
                epochs.append([])
                steps = self._lock_step()
        return epochs

    def all(self, count: int) -> list[list[_Record]]:
        """The rest of this epoch, and `count` - 1 more."""
        self.epoch += count
        return [[record for records, _ in self._lock_step() for record in records] for _ in range(count)]

    def _lock_step(self) -> Iterator[tuple[list[_Record], bool]]:
        """For each step of an epoch the batches of all shards, and whether the epoch ended with it."""
        loops = [loop() for loop in self._loops]
        ended = False
        while not ended:
            steps = [next(loop, None) for loop in loops]
            ended = None in steps
            if ended and any(next(loop, None) is not None for loop in loops):  # all but the last step are everybody's
                raise AssertionError("The shards have different numbers of steps in an epoch.")
            yield [record for step in steps if step is not None for record in _records(step)], ended


def assert_operator(operator: Operator[...], /, *inputs: Batch, **arguments: Any) -> None:
    """Prove the properties of all operators of this library for one call.

    Samples of a Batch have the results that they have alone; their order, their strides, other samples and the number
    of threads change none; inputs stay as they are; an empty Batch gives results of the same kind. Call it with many
    inputs and arguments, such as Hypothesis draws.

    Args:
        operator: The operator.
        inputs: Batches of one size, 1 or more.
        arguments: As for the operator: values for all samples, and Batches with one for each.

    Raises:
        AssertionError: One of these does not hold; the message says which.

    >>> images = ndd.as_batch([numpy.ones((2, 3, 3)), numpy.zeros((4, 1, 3))], layout="HWC")
    >>> ndd.testing.assert_operator(ndd.rotate, images, angle=ndd.as_batch([10, 90]))
    """
    for i, x in enumerate(inputs):
        if not isinstance(x, Batch) or not len(x):
            raise ArgumentError("testing.assert_operator", f"inputs[{i}]", "a Batch of 1 or more samples", shown(x))
    before = _plain([list(x) for x in inputs])
    with EvalContext(num_threads=1):
        expected = _results(operator, inputs, arguments)
    places = range(len(inputs[0]))
    for i in places:
        own = {name: value[i] if isinstance(value, Batch) else value for name, value in arguments.items()}
        found = operator(*(x[i] for x in inputs), **own)
        alone = [found] if isinstance(found, Tensor) else list(found)
        _same(operator, expected, [[one] for one in alone], [i], "a sample alone")
        if [one.layout for one in alone] != [whole.layout for whole in expected]:
            raise AssertionError(f"{operator.name}(): the layout of a sample alone differs from that of a Batch.")
    for order, when in (
        ([*reversed(places)], "samples in another order"),
        ([*places] * 4, "samples that come four times"),
        ([0] * 3, "samples of one shape"),
    ):
        taken = {name: value[order] if isinstance(value, Batch) else value for name, value in arguments.items()}
        _same(operator, expected, _results(operator, [x[order] for x in inputs], taken), order, when)
    turned = [
        as_batch([numpy.asfortranarray(s[::-1])[::-1] for s in x.samples], layout=x.layout) if x.ndim else x
        for x in inputs
    ]
    _same(operator, expected, _results(operator, turned, arguments), places, "samples with other strides")
    with EvalContext(num_threads=4), pool.sharing_all():
        _same(operator, expected, _results(operator, inputs, arguments), places, "4 threads")
    nothing = {name: value[:0] if isinstance(value, Batch) else value for name, value in arguments.items()}
    for empty, full in zip(_results(operator, [x[:0] for x in inputs], nothing), expected, strict=True):
        kinds = [(x.dtype, x.ndim, x.layout) for x in (empty, full)]
        if len(empty) or kinds[0] != kinds[1]:
            raise AssertionError(f"{operator.name}(): an empty Batch gives {kinds[0]}, and others {kinds[1]}.")
    if _plain([list(x) for x in inputs]) != before:
        raise AssertionError(f"{operator.name}(): it changes its input.")


def _results(operator: Operator[...], inputs: Sequence[Batch], arguments: Mapping[str, Any]) -> list[Any]:
    found = operator(*inputs, **arguments)
    return list(found) if isinstance(found, tuple) else [found]


def _same(
    operator: Operator[...], expected: Sequence[Batch], found: Sequence[Any], places: Sequence[int], when: str
) -> None:
    """Refuse results that are not those of the samples at some places."""
    for whole, part in zip(expected, found, strict=True):
        for place, sample in zip(places, part, strict=True):
            if _plain(sample) != _plain(whole[place]):
                kinds = [f"{x.dtype} of shape {x.shape}" for x in (sample, whole[place])]
                told = f"{kinds[0]} for {kinds[1]}" if kinds[0] != kinds[1] else f"other values, {kinds[0]}"
                raise AssertionError(f"{operator.name}(): sample {place} has another result with {when}: {told}.")


def _records(step: Any) -> Iterator[_Record]:
    """The samples of a step and their values."""
    if isinstance(step, Mapping):
        yield from step.items()
        return
    batches = step if isinstance(step, (tuple, list)) else (step,)
    if not all(isinstance(batch, Batch) for batch in batches) or not batches or batches[0].origin is None:
        expected = "a generator of dicts, or of Batches of which the first knows where its samples came from"
        raise ArgumentError("testing.assert_resumable", "factory", f"a function that gives {expected}", shown(step))
    for i, sample in enumerate(batches[0].origin.ids.tolist()):
        yield sample, tuple(batch[i] for batch in batches)


def _plain(value: Any) -> Any:
    """A value that can be compared by ==."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Tensor):
        value = value.cpu().numpy()
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.dtype.str, value.shape, value.tobytes()
    return value


def _as_dict(records: list[_Record], when: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for sample, value in records:
        if sample in found:
            raise AssertionError(f"{when}: sample {sample!r} came twice in an epoch.")
        found[sample] = _plain(value)
    return found


def _compare(epochs: list[list[_Record]], expected: list[dict[Any, Any]], when: str) -> None:
    for number, (records, wanted) in enumerate(zip(epochs, expected, strict=True)):
        found = _as_dict(records, f"{when}, epoch {number}")
        if found.keys() != wanted.keys():
            missing, extra = wanted.keys() - found.keys(), found.keys() - wanted.keys()
            raise AssertionError(
                f"{when}, epoch {number}: {len(missing)} samples never came, such as "
                f"{sorted(map(str, missing))[:3]}, and {len(extra)} should not have, such as "
                f"{sorted(map(str, extra))[:3]}."
            )
        for sample, value in found.items():
            if value != wanted[sample]:
                raise AssertionError(f"{when}, epoch {number}: sample {sample!r} has other values than without a stop.")
