"""What a pipeline's function calls: its readers and sources, its random numbers, and a record of it all."""

from __future__ import annotations

import collections
import contextvars
import difflib
import enum
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy

import dynamic
from dynamic import ArgumentError, Batch, ExternalSource, StateMismatch, Tensor
from dynamic._origin import Origin
from dynamic._state import JSON, State
from dynamic.checkpoint._file import decoded
from dynamic.data._index import inside_samples
from dynamic.errors import shown
from dynamic.random import RNG
from dynamic.readers._checks import natural
from dynamic.readers._reader import LastBatch, Reader

from ._added import FORMER
from ._foreign import refuse
from ._names import SOURCES, looked_up, meant, members
from ._output import Output

__all__ = ["Ended", "Graph", "Name", "Outputs", "Step", "columns"]

Outputs: TypeAlias = tuple[Output, ...]
Source: TypeAlias = Reader[Any] | ExternalSource

#: The entry of a checkpoint that belongs to the pipeline itself.
OWN = "pipeline"
#: The entry of what goes round a pipeline, such as `dynamic.pytorch.GenericIterator`.
ITERATOR = "iterator"
_VERSION = 1
_OWN_STATE = {"version": int, "seed": int, "runs": int, "epoch": int, "calls": list, "varying": bool}
_run: contextvars.ContextVar[Run | None] = contextvars.ContextVar("dynamic.pipeline", default=None)


class Step(NamedTuple):
    """What one run made."""

    outputs: Outputs
    states: dict[str, JSON]  #: of everything, after it
    epoch: int  #: of the first reader or source
    last: bool  #: whether that one has no more batches in the epoch


class Ended(StopIteration):
    """A source has ended.

    Attributes:
        states: Of everything, now that it has.
        epoch: Of the first source; None if another has ended.
    """

    def __init__(self, states: dict[str, JSON], epoch: int | None) -> None:
        self.states, self.epoch = states, epoch


class Name:
    """A name in `fn`, which is called in a pipeline's function."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self._path}.{name}")

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        run = _run.get()
        if run is None:
            hint = f"Elsewhere call dynamic.{self._path}."
            raise RuntimeError(f"fn.{self._path}() is for functions under pipeline_def. {hint}")
        token = inside_samples.set(False)  # that is for what a user writes
        try:
            return run.call(self._path, inputs, arguments)
        finally:
            inside_samples.reset(token)

    def __repr__(self) -> str:
        return f"<fn.{self._path}>"

    def __dir__(self) -> list[str]:
        return members(self._path)

    @property
    def __wrapped__(self) -> Any:
        """What is called, for its signature."""
        return meant(self._path)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return inspect.getdoc(self.__wrapped__)


class Graph:
    """What lasts from one run to the next.

    Args:
        function: The pipeline's function.
        batch_size: The most samples in a batch.
        seed: Of all random numbers, and of readers that are given none.
        states: Of a checkpoint to go on from; each object takes its own when it is made.
        last_batch: How the first reader ends its epochs, if not as it is told to in the function.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        batch_size: int,
        seed: int,
        states: Mapping[str, JSON] | None,
        last_batch: LastBatch | None = None,
    ) -> None:
        self.batch_size, self.rng, self.last_batch = batch_size, RNG(seed), last_batch
        self.sources: dict[str, Source] = {}
        self.streams: dict[str, RNG] = {}
        self.primary: str | None = None
        self._function = function
        self._calls: list[str] = []
        self._varying = False
        self._runs = 0
        self._expected: list[str] | None = None
        self._given: dict[str, JSON] = {}  # the states of a checkpoint
        if states is not None:
            own = own_state(states)
            self._runs, self._varying, self._expected = own["runs"], own["varying"], own["calls"] or None
            self._given = {name: state for name, state in states.items() if name != OWN}
        self._waiting = dict(self._given)  # those whose objects are not made yet

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self) -> Step:
        """Run the function once; after an error everything stands where it stood before."""
        before = self._places()
        run = Run(self)
        try:
            outputs = run.made(self._function)
            self._compare(run.calls)
        except BaseException as error:
            self._return(before, run.ended)
            if isinstance(error, StopIteration) and run.ended is not None:
                ended = self.sources[run.ended]
                epoch = getattr(ended, "epoch", None) if run.ended == self.primary else None
                raise Ended(self.states(0), epoch) from error
            raise
        self._runs, self._given = self._runs + 1, {}
        return Step(outputs, self.states(run.epoch), run.epoch, self.ended)

    @property
    def ended(self) -> bool:
        """Whether the first reader has no more batches in the epoch; False as long as it has not been made."""
        primary = self.sources.get(self.primary or "")
        return isinstance(primary, Reader) and not len(primary.next_epoch(self.batch_size))

    def skip(self) -> None:
        """Do as if the function had been run; it is, unless a reader is all that would move, or is not made yet."""
        primary = self.sources.get(self.primary or "")
        if len(self.sources) > 1 or self.streams or not isinstance(primary, Reader):
            self.step()
        elif primary._pass_over(self.batch_size):
            self._runs += 1

    def states(self, epoch: int) -> dict[str, JSON]:
        """The states of everything, as the entries of a checkpoint."""
        own: dict[str, JSON] = {"version": _VERSION, "seed": self.rng.seed, "runs": self._runs, "epoch": epoch,
                                "calls": list(self._calls), "varying": self._varying}  # fmt: skip
        return {OWN: own, **self._waiting, **self._places()}

    def _places(self) -> dict[str, State]:
        return {name: object_.get_state() for name, object_ in (*self.sources.items(), *self.streams.items())}

    def _return(self, before: Mapping[str, State], ended: str | None) -> None:
        """Undo a run: what was made in it is forgotten, what was there goes back; a source that has ended stays."""
        kinds: tuple[dict[str, Any], ...] = (self.sources, self.streams)
        for kind in kinds:
            for name in list(kind):
                if name in before and name != ended and getattr(kind[name], "resumable", True):
                    kind[name].set_state(before[name])
                elif name not in before and name != ended:
                    del kind[name]
                    if name in self._given:
                        self._waiting[name] = self._given[name]
        if self.primary not in self.sources:
            self.primary = None

    def _compare(self, calls: list[str]) -> None:
        """Refuse a checkpoint of another pipeline; notice a function that does not always call the same."""
        if self._expected is not None:
            known = set(self._expected)
            if calls != self._expected and not (self._varying and known.issuperset(calls)):
                differences = [line for line in difflib.ndiff(self._expected, calls) if line[0] in "-+"]
                told = "\n".join(differences)
                raise StateMismatch(f"Pipeline: the checkpoint is of another pipeline: - there, + here\n{told}",
                                    differences)  # fmt: skip
            if self._waiting:
                names = ", ".join(map(repr, sorted(self._waiting)))
                raise StateMismatch(f"Pipeline: the checkpoint has states of {names}, which this pipeline has not.",
                                    [f"{names} in the state, missing here"])  # fmt: skip
            self._calls, self._expected = self._expected, None
        if not self._calls:
            self._calls = calls
        elif calls != self._calls and not set(self._calls).issuperset(calls):
            self._calls, self._varying = sorted({*self._calls, *calls}), True
        elif calls != self._calls:
            self._varying = True

    # -- what a function uses -----------------------------------------------------------------------------------------

    def source(self, name: str, make: Callable[[], Source]) -> Source:
        """The reader or source of a name, made when it is first asked for."""
        if name not in self.sources:
            self.sources[name] = self._resumed(name, make())
            self.primary = self.primary or name
        return self.sources[name]

    def stream(self, label: str, key: str) -> RNG:
        """The stream of a random operator whose numbers belong to no samples."""
        name = f"stream {label}"
        if name not in self.streams:
            digest = hashlib.blake2b(key.encode(), digest_size=8, key=self.rng.seed.to_bytes(8, "little")).digest()
            self.streams[name] = self._resumed(name, RNG(int.from_bytes(digest, "little")))
        return self.streams[name]

    def forget_streams(self, labels: Iterable[str]) -> None:
        """Undo that these were made."""
        for label in labels:
            self.streams.pop(f"stream {label}", None)

    def _resumed(self, name: str, object_: Any) -> Any:
        """An object that was just made, with its state of the checkpoint."""
        if name in self._waiting:
            object_.set_state(self._waiting[name])
            del self._waiting[name]
        return object_


class Run:
    """One run of the function."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls: list[str] = []
        self.epoch = 0
        self.ended: str | None = None
        self._counts: collections.Counter[str] = collections.Counter()
        self._taken: dict[str, Any] = {}
        self._samples: Batch | None = None  # those that random numbers belong to
        self._streams: list[str] = []  # of random numbers that belong to no samples
        self._late = False

    def made(self, function: Callable[[], Any]) -> Outputs:
        """What the function returns, as Batches.

        Random numbers belong to the samples of the first reader. Where the function draws before it reads, that one is
        known from the second run on; in the first, the function is called once more.
        """
        if self.graph.primary is not None:
            self._take(self.graph.primary, self.graph.sources[self.graph.primary])
        results = contextvars.copy_context().run(self._called, function)  # a Ctrl-C leaves nothing in this context
        results = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(self._output(result) for result in results)

    def _called(self, function: Callable[[], Any]) -> Any:
        _run.set(self)
        inside_samples.set(True)
        results = function()
        if self._late:
            self.calls, self._late = [], False
            self._counts.clear()
            self.graph.forget_streams(self._streams)
            results = function()
        return results

    def _output(self, value: Any) -> Output:
        return Output.of(value if isinstance(value, Batch) else Batch.broadcast(dynamic.as_tensor(value), self._size))

    @property
    def _size(self) -> int:
        first = next(iter(self._taken.values()), None)
        return self.graph.batch_size if first is None else len(columns(first)[0])

    def call(self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Do what a name of `fn` stands for."""
        path = FORMER.get(path, path)
        name, seed = arguments.pop("name", None), _seed(path, arguments.pop("seed", None))
        self._counts[path] += 1
        label = name if name is not None else f"{path} {self._counts[path]}"
        reads = path == "external_source" or path.startswith("readers.")
        self.calls.append(told(path, inputs, arguments if reads or seed is None else {**arguments, "seed": seed}))
        if reads:
            return self._read(path, label, inputs, {**arguments, "seed": seed} if seed is not None else arguments)
        function, takes = looked_up(path)
        for former, now in _FORMERLY.items():
            if former in arguments and (now is None or now in takes):
                value = arguments.pop(former)
                arguments |= {} if now is None else {now: value}
        if "device" in arguments:
            arguments["device"] = {"mixed": "gpu"}.get(arguments["device"], arguments["device"])
        if "rng" in takes and "rng" not in arguments:
            arguments["rng"] = self._draws(label, label if seed is None else f"seed {seed}")
        if not any(isinstance(x, Batch) for x in (*inputs, *arguments.values())) and "batch_size" in takes:
            arguments["batch_size"] = self._size
        return function(*inputs, **arguments)

    def _draws(self, label: str, key: str) -> Any:
        """The numbers of a call. Calls with one key draw the same: an image and its mask are cropped alike."""
        if self._samples is not None:
            return self.graph.rng.keyed(self._samples)[key]
        self._streams.append(label)
        return self.graph.stream(label, key)

    # -- readers and sources ------------------------------------------------------------------------------------------

    def _read(self, path: str, label: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        if label in (OWN, ITERATOR) or label.startswith("stream "):
            expected = f"another than {OWN!r} and {ITERATOR!r}, and not a stream's"
            raise ArgumentError(f"fn.{path}", "name", expected, shown(label))
        new = label not in self.graph.sources
        source = self.graph.source(label, functools.partial(self._make, path, label, inputs, arguments))
        if label not in self._taken:
            self._late = self._late or (new and bool(self._streams) and self.graph.primary == label)
            self._take(label, source)
        outputs = self._taken[label]
        return outputs[0] if isinstance(outputs, tuple) and len(outputs) == 1 else outputs

    def _make(self, path: str, label: str, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Source:
        if path == "external_source":
            return external_source(label, inputs, arguments)
        kind = SOURCES.get(path.lower())
        if kind is None:
            known = [name.removeprefix("readers.") for name in SOURCES if name.startswith("readers.")]
            raise ArgumentError.unknown("fn.readers", path.removeprefix("readers."), known)
        arguments.setdefault("seed", self.graph.rng.seed)
        if self.graph.last_batch is not None and self.graph.primary is None:
            arguments = {**arguments, "pad_last_batch": False, "last_batch": self.graph.last_batch}
        reader: Reader[Any] = kind(*inputs, name=label, **arguments)
        return reader

    def _take(self, label: str, source: Source) -> None:
        """Let a reader or source give its part of the batch."""
        try:
            if isinstance(source, ExternalSource):
                outputs = self._from_source(source)
            elif label == self.graph.primary:
                outputs = source(self.graph.batch_size)
            else:
                outputs = exactly(source, self._size)
        except StopIteration:
            self.ended = label
            raise
        self._taken[label] = outputs
        if label == self.graph.primary:
            first = columns(outputs)[0]
            origin = first.origin
            self._samples = first if origin is not None else None
            self.epoch = origin.epoch if origin is not None else getattr(source, "epoch", 0)

    def _from_source(self, source: ExternalSource) -> Any:
        outputs = source(self._size if source._batch is False else None)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(outputs[0]) > self.graph.batch_size:
            expected = f"one that makes at most {self.graph.batch_size} samples at a time"
            raise ArgumentError("fn.external_source", "source", expected, f"a batch of {len(outputs[0])}")
        return outputs


def _seed(path: str, seed: Any) -> int | None:
    """The seed of a call; -1 is none, as in DALI."""
    none = seed is None or (isinstance(seed, (int, numpy.integer)) and seed == -1)
    return None if none else natural(f"fn.{path}", "seed", seed)


def external_source(label: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> ExternalSource:
    """What a call of ``fn.external_source`` makes, with the arguments of DALI's that mean nothing here left out."""
    known = inspect.signature(ExternalSource).parameters
    given = {name: value for name, value in arguments.items() if value is not None and name not in _OF_DALIS_SOURCES}
    for name in given:
        if name not in known:
            raise ArgumentError.unknown("fn.external_source", name, known)
    return ExternalSource(*inputs, **{"batch": True, **given}, name=label)


def columns(outputs: Any) -> tuple[Batch, ...]:
    """The Batches that a reader gave, with or without names."""
    found: tuple[Batch, ...] = tuple(outputs.values()) if isinstance(outputs, dict) else outputs
    return found


def exactly(reader: Reader[Any], size: int) -> Any:
    """So many samples of a reader, of its next epoch too where this one ends."""
    parts = [reader(size)]
    while (missing := size - sum(len(columns(part)[0]) for part in parts)) > 0:
        parts.append(reader(missing))
    if len(parts) == 1:
        return parts[0]
    joined = tuple(
        Batch([sample for batch in column for sample in batch.samples], column[0].layout,
              Origin.joined([batch.origin for batch in column]))
        for column in zip(*map(columns, parts), strict=True)
    )  # fmt: skip
    return dict(zip(parts[0], joined, strict=True)) if isinstance(parts[0], dict) else joined


def told(path: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> str:
    """A call as the checkpoint records it: what would be compared, without devices, data and seeds."""
    given = [worded(value) for value in inputs] + [
        f"{name}={worded(value)}" for name, value in sorted(arguments.items()) if name not in _NOT_COMPARED
    ]
    return f"{path}({', '.join(given)})"


#: Arguments that may differ after a resume: where things are done, and what a reader compares by itself.
_NOT_COMPARED = frozenset(
    ["device", "shard", "shard_id", "num_shards", "file_root", "files", "labels", "file_list", "random_shuffle",
     "on_mismatch", "lazy_init", "prefetch_queue_depth", "source", "num_threads", "read_ahead", "dont_use_mmap"]
)  # fmt: skip


#: Names that arguments of DALI's operators had, and what they are now; None where they make no difference.
_FORMERLY = {"output_dtype": "dtype", "preserve": None, "bytes_per_sample_hint": None}

_OF_DALIS_SOURCES = frozenset(
    ["seed", "cuda_stream", "use_copy_kernel", "blocking", "parallel", "no_copy", "prefetch_queue_depth", "ndim",
     "bytes_per_sample_hint", "preserve"]
)  # fmt: skip


def worded(value: Any) -> str:
    """A value as the record has it: numbers and words as they are, of all else only what kind of thing it is."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(worded, value))}]"
    if isinstance(value, (bool, int, float, str, type(None), numpy.generic)):
        return repr(value.item() if isinstance(value, numpy.generic) else value)
    if isinstance(value, (Batch, Tensor)):
        return "Batch" if isinstance(value, Batch) else "Tensor"
    if isinstance(value, dynamic.DType):
        return str(value)
    return f"<{type(value).__name__}>"


def own_state(states: Mapping[str, JSON]) -> dict[str, Any]:
    """The entry of the pipeline itself.

    Raises:
        StateMismatch: There is none, so the checkpoint is of something else.
    """
    own = states.get(OWN)
    if not isinstance(own, dict) or {key: type(value) for key, value in own.items()} != _OWN_STATE:
        hint = "dynamic.checkpoint.load is for objects that a program names itself."
        raise StateMismatch(f"Pipeline: the checkpoint is of no pipeline: it has {sorted(states)}. {hint}",
                            ["pipeline: missing in the state"])  # fmt: skip
    if own["version"] != _VERSION:
        raise StateMismatch(f"Pipeline: the state has version {own['version']}, and this library knows {_VERSION}.",
                            [f"version: {own['version']} in the state, {_VERSION} here"])  # fmt: skip
    return own


def entries(text: str | bytes) -> dict[str, JSON]:
    """The states in the text of a checkpoint.

    Raises:
        StateError: It is none of ours: damaged, a pickle, or written by DALI.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    refuse(data)
    return {name: entry.state for name, entry in decoded(data, "what is given as checkpoint=").items()}
