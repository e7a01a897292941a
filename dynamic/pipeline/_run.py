"""One run of a pipeline's function: its calls, and the ways it goes."""

from __future__ import annotations

import collections
import contextvars
import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy
from numpy.typing import NDArray

from dynamic import ArgumentError, Batch, ExternalSource
from dynamic._base.origin import Origin
from dynamic.auto_aug._draws import recorder
from dynamic.data._index import deciding, in_pipeline
from dynamic.dtypes import numpy_dtype
from dynamic.errors import shown
from dynamic.random import RNG
from dynamic.readers._reader import LastBatch, Reader
from dynamic.readers._rows import (
    Rows,
    check_beside,
    columns,
    from_samples,
    pair,
    pass_over,
    rows_of_first,
    rows_of_shard,
    taken,
)

from ._added import FORMER, called, constant, input_sets
from ._calls import Call, call_of, seed_of
from ._fed import Fed, check_given, external_source
from ._films import FILMS, Films
from ._names import SOURCES, looked_up, reads
from ._nodes import drawing
from ._output import Output

__all__ = ["ITERATOR", "OWN", "Kept", "Outputs", "Run", "Source", "called_in_run", "columns", "in_run"]

Outputs: TypeAlias = tuple[Output, ...]
Source: TypeAlias = Reader[Any] | ExternalSource

#: The entry of a checkpoint that belongs to the pipeline itself.
OWN = "pipeline"
#: The entry of a loop over a pipeline, such as `dynamic.pytorch.GenericIterator`.
ITERATOR = "iterator"
_run: contextvars.ContextVar[Run | None] = contextvars.ContextVar("dynamic.pipeline", default=None)


def in_run() -> bool:
    """Whether this is in the function of a pipeline, as it is being run."""
    return _run.get() is not None


def called_in_run(path: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Do a call of `fn`: in a run its work, in a graph that is being drawn a note of it.

    Raises:
        RuntimeError: It is neither in the function of a pipeline nor in its graph.
    """
    run = _run.get()
    if run is None:
        hint = f"Elsewhere call dynamic.{path}."
        raise RuntimeError(f"fn.{path}() is for functions under pipeline_def, and for graphs. {hint}")
    tokens = in_pipeline.set(False), deciding.set(None)  # those are for code of a user
    try:
        return run.call(path, inputs, arguments)
    finally:
        in_pipeline.reset(tokens[0])
        deciding.reset(tokens[1])


class Kept(Protocol):
    """The state between runs."""

    batch_size: int
    rng: RNG
    last_batch: LastBatch | None
    sources: dict[str, Source]
    primary: str | None
    fed: Fed

    @property
    def former_orders(self) -> bool: ...
    @property
    def former_seeds(self) -> bool: ...
    def source(self, name: str, make: Callable[[], Source]) -> Source: ...
    def stream(self, label: str, key: str, seed: int) -> RNG: ...
    def forget_streams(self, labels: Iterable[str]) -> None: ...


class _Again(BaseException):
    """The function must be called once more."""


class _Fork(BaseException):
    """A condition holds for some samples and not for others.

    Attributes:
        truth: For each sample whether it does.
    """

    def __init__(self, truth: NDArray[numpy.bool_]) -> None:
        self.truth = truth


#: Advice for a function that does not let itself be left.
_KEPT = (
    "Pipeline: the function must be called once more, for samples that go another way or for draws before the "
    "first reader, and has caught the signal for it. Write `except Exception:` where it has `except:` or "
    "`except BaseException:`, and no `return` in a `finally:`."
)


class Run:
    """One run of the function.

    With conditionals, ``if`` and ``while`` of a Batch are for each sample. Where a condition holds for some of them,
    the function is called again for those, and for the others; the calls it had made until then are not made again,
    but repeat their results. So each sample goes its own way, and the results of all ways are put together.

    Args:
        graph: The state between runs.
        conditionals: Whether a Batch may be a condition.
    """

    def __init__(self, graph: Kept, *, conditionals: bool = False) -> None:
        self.graph = graph
        self.calls: list[Call] = []  # until the first condition: those are the same for all samples
        self.decided = False
        self.epoch = 0
        self.ended: str | None = None  # the source that has ended
        self.end: StopIteration | None = None  # by which it has said so
        self._leaving: _Again | _Fork | None = None  # an exception to leave the function by
        self._conditionals = conditionals
        self._counts: collections.Counter[str] = collections.Counter()
        self._taken: dict[str, Any] = {}
        self._read_already: set[str] = set()  # the names of readers and sources that were called on this way
        self._samples: Batch | None = None  # those that random numbers belong to
        self._rows: Rows | None = None  # those that the first reader took; None where a source is first
        self._streams: list[str] = []  # of random numbers that belong to no samples
        self._group: NDArray[numpy.intp] | None = None  # the samples that go this way; None is all
        self._record: list[tuple[str, Any]] = []  # calls on this way, and their results
        self._known: list[tuple[str, Any]] = []  # the beginning of that, from before the ways parted
        self._within = False  # a call that makes others
        self._conditions: dict[CodeType, int] = {}  # on this way: functions, and the line of the last one in each

    def made(self, function: Callable[[], Any]) -> Outputs:
        """The results of the function, as Batches.

        Random numbers belong to the samples of the first reader. Where the function draws before it reads, that one is
        known from the second run on; in the first, the function is called once more.
        """
        if self.graph.primary is not None:
            self._take(self.graph.primary, self.graph.sources[self.graph.primary])
        while True:
            try:
                outputs = contextvars.copy_context().run(self._called, function)  # a Ctrl-C leaves nothing in this one
                self._pass_over_the_others()
                return outputs
            except _Again:
                self.calls = []
                self.graph.forget_streams(self._streams)

    def _called(self, function: Callable[[], Any]) -> Outputs:
        _run.set(self)
        drawing.set(None)
        recorder.set(self._whole)
        in_pipeline.set(True)
        if self._conditionals:
            deciding.set(self._decide)
        return self._ways(function, None, [])

    def _ways(
        self, function: Callable[[], Any], group: NDArray[numpy.intp] | None, known: list[tuple[str, Any]]
    ) -> Outputs:
        """The results of the function for some of the samples.

        Args:
            function: The function.
            group: The places of the samples in the batch; None is all.
            known: Their calls so far, and the results.
        """
        self._group, self._known, self._record = group, known, []
        self._counts.clear()
        self._read_already.clear()
        self._conditions.clear()
        try:
            results = self._results(function)
        except _Fork as fork:
            record, parts = self._record, []
            for path, found in record:
                if isinstance(found, Batch) and len(found) != len(fork.truth):
                    expected = f"a function whose calls before a condition all give {len(fork.truth)} samples"
                    raise ArgumentError("Pipeline", "function", expected, f"{len(found)} of fn.{path}()") from None
            for way in (True, False):
                places = numpy.flatnonzero(fork.truth == way)
                before = [(path, _chosen(found, places)) for path, found in record]
                parts.append((places, self._ways(function, places if group is None else group[places], before)))
            return _merged(parts)
        results = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(self._output(i, result) for i, result in enumerate(results))

    def _results(self, function: Callable[[], Any]) -> Any:
        """The results of the function, unless it is to be called again, which it must not keep to itself."""
        self._leaving = None
        try:
            results = function()
        except Exception as error:
            if self._leaving is None:
                if isinstance(error, UnboundLocalError):
                    self._check_set(error)
                raise
            raise RuntimeError(_KEPT) from error
        if self._leaving is not None:
            raise RuntimeError(_KEPT) from self._leaving
        return results

    def _check_set(self, error: UnboundLocalError) -> None:
        """Tell of a variable that was not set on this way, in a function with a condition before its use."""
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        condition = self._conditions.get(frame.f_code)
        if condition is None:
            return
        variable = str(error).split("'")[1]
        group = [] if self._group is None else self._group.tolist()
        whose = f"samples {', '.join(map(str, group[:9]))}{' and others' * (len(group) > 9)}" if group else "any sample"
        raise ArgumentError(
            "Pipeline",
            "function",
            f"one that sets {variable!r} whichever way a sample goes",
            f"no value of it for {whose}, in {frame.f_code.co_filename}, line {line}",
            f"Set it in both branches, or before the condition. The last one was in line {condition}.",
        ) from error

    def _left_by(self, signal: _Again | _Fork) -> _Again | _Fork:
        """The exception to leave the function by, to be called again."""
        self._leaving = signal
        return signal

    def _decide(self, condition: Batch) -> bool:
        """Whether a condition holds, if that is one answer for all samples that go this way."""
        if len(condition) != self._size or any(sample.size != 1 for sample in condition.samples):
            raise ValueError(f"A condition is one number for each sample; this is {condition!r}.")
        self.decided = True
        asking = sys._getframe(2)  # beyond `Batch.__bool__`
        self._conditions[asking.f_code] = asking.f_lineno
        truth = numpy.array([bool(sample.reshape(())) for sample in condition.cpu().samples], bool)
        if truth.all() or not truth.any():
            return bool(truth.all())
        raise self._left_by(_Fork(truth))

    def _output(self, place: int, value: Any) -> Output:
        if isinstance(value, Batch):
            if self.decided and len(value) != self._size:
                expected = f"one whose outputs have as many samples as there are, or go this way: {self._size}"
                raise ArgumentError("Pipeline", "function", expected, f"one of {len(value)}")
            return Output.of(value)
        try:
            one = constant(value)
        except ArgumentError as error:
            expected = f"one whose output {place} is a Batch, or numbers for all samples"
            raise ArgumentError("Pipeline", "function", expected, error.got, error.hint) from error
        return Output.of(Batch.broadcast(one, self._size))

    @property
    def _size(self) -> int:
        if self._group is not None:
            return len(self._group)
        first = next(iter(self._taken.values()), None)
        return self.graph.batch_size if first is None else len(columns(first)[0])

    def _whole(
        self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any]
    ) -> Any:
        """Call a function that calls others, by chance and with some of the samples: all of it is one call."""
        tokens, self._within = (recorder.set(_drawn_already), deciding.set(None)), True
        try:
            return self.call(path, inputs, arguments, function)
        finally:
            self._within = False
            recorder.reset(tokens[0])
            deciding.reset(tokens[1])

    def call(
        self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any] | None = None
    ) -> Any:
        """Call the function of a name of `fn`, or a function under that name."""
        path = FORMER.get(path, path)
        if self._within and function is None:
            return self._part(path, inputs, arguments)
        self._counts[path] += 1
        if len(self._record) < len(self._known):
            self._record.append(self._known[len(self._record)])
            before, found = self._record[-1]
            if before != path:
                raise RuntimeError(
                    f"fn.{path}() is called where fn.{before}() was: before a condition a function must "
                    "call the same for all samples"
                )
            return _own(found)
        found = self._done(path, inputs, arguments, function)
        if self._conditionals:
            self._record.append((path, found))
        return _own(found)

    def _part(self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Make a part of another call, for some of its samples."""
        if reads(path):
            expected = "that of a reader or source that is called before any augmentation"
            raise ArgumentError(f"fn.{path}", "name", expected, "a call inside of one")
        function, takes = looked_up(path)
        if "rng" in takes:
            _check_drawn(f"fn.{path}", arguments)
        own = {key: value for key, value in arguments.items() if key not in ("name", "seed")}
        return called(function, input_sets(path, inputs), _renamed(path, own, takes))

    def _done(
        self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any] | None
    ) -> Any:
        name, seed = arguments.pop("name", None), seed_of(f"fn.{path}", arguments.pop("seed", None))
        if not isinstance(name, str | None):
            raise ArgumentError(f"fn.{path}", "name", "a string", shown(name))
        label = name if name is not None else f"{path} {self._counts[path]}"
        if path == "external_source" and name is None:
            check_given(inputs, arguments)
        is_read = reads(path)
        takes: frozenset[str] = frozenset()
        if function is not None:
            takes = frozenset(inspect.signature(function).parameters)
        elif not is_read:
            function, takes = looked_up(path)
        if not self.decided:
            told = {} if is_read else {"name": name, "seed": seed}
            own = {key: value for key, value in told.items() if value is not None}
            self.calls.append(call_of(path, inputs, {**arguments, **own}, reads=is_read, draws="rng" in takes))
        if is_read or function is None:
            return self._read(path, label, inputs, {**arguments, "seed": seed} if seed is not None else arguments)
        if self.decided and path in _ACROSS:
            argument = _ACROSS[path]
            if argument is None or not any(arguments.get(argument) is no for no in (None, False)):
                expected = "for samples that all go one way, as it mixes them"
                raise ArgumentError(f"fn.{path}", argument or "input", expected, "a call after a condition")
        arguments = _renamed(path, arguments, takes)
        if "rng" in takes and arguments.get("rng") is None:
            arguments["rng"] = self._draws(label, seed)
        sets = input_sets(path, inputs)
        if not any(isinstance(x, Batch) for x in (*sets[0], *arguments.values())) and "batch_size" in takes:
            arguments["batch_size"] = self._size
        return called(function, sets, arguments)

    def _draws(self, label: str, seed: int | None) -> Any:
        """The numbers of a call. Those with one seed draw the same: an image and its mask are cropped alike."""
        key = label if seed is None else f"seed {seed}"
        of_pipeline = seed is None or self.graph.former_seeds
        rng = self.graph.rng if of_pipeline else RNG(seed)
        if self._samples is not None:
            samples = self._samples if self._group is None else self._samples._selected(self._group)
            return rng.keyed(samples)[key]
        self._streams.append(label)
        return self.graph.stream(label, key, rng.seed)

    # -- readers and sources ------------------------------------------------------------------------------------------

    def _read(self, path: str, label: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        if label in (OWN, ITERATOR, *self._read_already) or label.startswith("stream "):
            expected = f"another than {OWN!r}, {ITERATOR!r}, a stream's, and those of readers and sources above"
            raise ArgumentError(f"fn.{path}", "name", expected, shown(label))
        self._read_already.add(label)
        if label not in self._taken and self.decided:
            raise ArgumentError(
                f"fn.{path}", "name", "that of a reader or source that is called before any condition", shown(label)
            )
        new = label not in self.graph.sources
        source = self.graph.source(label, functools.partial(self._make, path, label, inputs, arguments))
        if label not in self._taken:
            self._take(label, source)
            if new and self._streams and self.graph.primary == label:
                raise self._left_by(_Again())
        outputs = _chosen(self._taken[label], self._group) if self._group is not None else self._taken[label]
        several = isinstance(source, ExternalSource) and source._outputs is not None
        return outputs[0] if isinstance(outputs, tuple) and len(outputs) == 1 and not several else outputs

    def _make(self, path: str, label: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Source:
        if path == "external_source":
            return external_source(label, inputs, arguments, self.graph.fed)
        if path == FILMS:
            return Films(self.graph.fed, label, self.graph.batch_size, arguments)
        kind = SOURCES.get(path.lower())
        if kind is None:
            known = [name.removeprefix("readers.") for name in SOURCES if name.startswith("readers.")]
            raise ArgumentError.unknown("fn.readers", path.removeprefix("readers."), known, "reader")
        seeded = "seed" in arguments
        former = self.graph.former_orders
        arguments.setdefault("seed", self.graph.rng.seed if former else None)
        first = self.graph.primary
        if self.graph.last_batch is not None and first is None:
            arguments = {**arguments, "pad_last_batch": False, "last_batch": self.graph.last_batch}
        reader: Reader[Any] = kind(*inputs, name=label, **arguments)
        if first is not None:
            check_beside(path, reader, first, self.graph.sources[first])
        pair(path, reader, self.graph.sources, seeded=seeded, former=former)
        return reader

    def _take(self, label: str, source: Source) -> None:
        """Let a reader or source give its part of the batch."""
        try:
            if isinstance(source, ExternalSource):
                outputs = self._from_source(source)
            elif label == self.graph.primary:
                before = source._progress
                outputs = source(self.graph.batch_size)
                self._rows = rows_of_first(source, before, self.graph.batch_size, columns(outputs)[0])
            else:
                outputs = taken(source, self._rows_of(source))
        except StopIteration as end:
            self.ended, self.end = label, end
            raise
        self._taken[label] = outputs
        if label == self.graph.primary:
            first = columns(outputs)[0]
            origin = first.origin
            self._samples = first if origin is not None else None
            self.epoch = origin.epoch if origin is not None else getattr(source, "epoch", 0)

    def _rows_of(self, reader: Reader[Any]) -> Rows:
        """The rows that a reader beside the first takes."""
        return rows_of_shard(reader, self._size) if self._rows is None else self._rows

    def _pass_over_the_others(self) -> None:
        """Let readers that were not called keep to the rows of the first all the same."""
        for name, reader in self.graph.sources.items():
            if name not in self._taken and isinstance(reader, Reader):
                pass_over(reader, self._rows_of(reader).moved)

    def _from_source(self, source: ExternalSource) -> Any:
        """The samples of a source for the rows of this batch, without those that the first reader could not read."""
        size = self._size if self._rows is None else len(self._rows.numbers)
        if self._rows is not None and source._batch is False:
            outputs = from_samples(source, self._rows)
        else:
            given = source(size if source._batch is False else None)
            outputs = given if isinstance(given, tuple) else (given,)
        first = next(iter(self._taken), None)
        for count in map(len, outputs):
            if count > self.graph.batch_size or (first is not None and count != size):
                which = f"at most {self.graph.batch_size}" if first is None else f"as many as {first!r} gives, {size}"
                raise ArgumentError("fn.external_source", "source", f"one that makes {which}", f"a batch of {count}")
            if count != len(outputs[0]):
                got = f"batches of {len(outputs[0])} and {count} samples"
                raise ArgumentError("fn.external_source", "source", "one whose outputs have as many samples", got)
        if self._rows is not None and not self._rows.kept.all():
            outputs = _chosen(outputs, numpy.flatnonzero(self._rows.kept))
        return outputs


def _drawn_already(path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any]) -> Any:
    """A call that draws, inside of another one."""
    _check_drawn(path, arguments)
    return function(*inputs, **{name: value for name, value in arguments.items() if name != "seed"})


def _check_drawn(path: str, arguments: Mapping[str, Any]) -> None:
    """Refuse draws that nobody could repeat."""
    if arguments.get("rng") is None:
        raise ArgumentError(path, "rng", "given inside of an augmentation, whose chance is its magnitude", "nothing")


def _renamed(path: str, arguments: dict[str, Any], takes: frozenset[str]) -> dict[str, Any]:
    """The arguments of a call in the names of now."""
    for former, now in _FORMERLY.items():
        if former in arguments and (now is None or now in takes):
            if now in arguments:
                expected = f"left out when {now!r} is given, its present name"
                raise ArgumentError(f"fn.{path}", former, expected, "both")
            value = arguments.pop(former)
            arguments |= {} if now is None else {now: value}
    if "device" in arguments:
        arguments["device"] = {"mixed": "gpu"}.get(arguments["device"], arguments["device"])
    return arguments


def _own(found: Any) -> Any:
    """The result of a call, for the function to keep and change."""
    if isinstance(found, dict):
        return found.copy()
    return type(found)(map(_own, found)) if isinstance(found, (tuple, list)) else found


def _chosen(value: Any, places: NDArray[numpy.intp]) -> Any:
    """Some samples of the result of a call."""
    if isinstance(value, Batch):
        return value.select(places)
    if isinstance(value, (tuple, list)):
        return type(value)(_chosen(item, places) for item in value)
    if isinstance(value, dict):
        return {name: _chosen(item, places) for name, item in value.items()}
    return value


def _merged(parts: Sequence[tuple[NDArray[numpy.intp], Outputs]]) -> Outputs:
    """The outputs of samples that went different ways, in their order."""
    (_, first), (_, second) = parts
    if len(first) != len(second):
        _differ("as many outputs", f"{len(first)} and {len(second)}")
    order = numpy.argsort(numpy.concatenate([places for places, _ in parts]))
    merged = []
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        for name, a, b in (
            ("dtype", one.dtype, other.dtype),
            ("number of dimensions", one.ndim, other.ndim),
            ("layout", one._layout, other._layout),
            ("device", one.device, other.device),
        ):
            if a != b:
                _differ(f"one {name} for output {i}", f"{a} and {b}")
        samples = [*one.samples, *other.samples]
        origins = [output.origin for output in (one, other)]
        origin = Origin.joined(origins)
        merged.append(
            Output(
                [samples[place] for place in order],
                one._layout,
                origin and origin.take(order.tolist()),
                numpy_dtype(one.dtype),
                one.ndim,
            )
        )
    return tuple(merged)


def _differ(expected: str, got: str) -> NoReturn:
    raise ArgumentError("Pipeline", "function", f"one that gives {expected}, whichever way a sample goes", got)


#: Operators for which a sample is not alone, and the argument that makes it so; None where it never is.
_ACROSS = {
    "permute_batch": None,
    "batch_permutation": None,
    "random.batch_permutation": None,
    "normalize": "batch",
    "multi_paste": "in_ids",
    "dl_tensor_python_function": "batch_processing",
    "python_function": "batch_processing",
}

#: Former names of arguments of DALI's operators, and the present ones; None for those without effect.
_FORMERLY = {"output_dtype": "dtype", "preserve": None, "bytes_per_sample_hint": None}
