"""The state of a pipeline between runs: readers and sources, random numbers, and a record of the calls."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dynamic import ArgumentError, ExternalSource, StateMismatch
from dynamic._base.state import JSON, State, way_back
from dynamic.checkpoint._atomic import read
from dynamic.checkpoint._file import LARGEST, decoded
from dynamic.checkpoint._numbered import newest
from dynamic.context import within
from dynamic.errors import shown
from dynamic.random import RNG
from dynamic.readers._answers import Answers
from dynamic.readers._placed import Progress
from dynamic.readers._reader import (
    LastBatch,
    Reader,
    epoch_ended,
    has_step,
    pass_over_step,
    progress_of,
    state_at,
    steps_left,
)
from dynamic.readers._rows import left, passed

from ._calls import Call, Record
from ._fed import Fed
from ._foreign import refuse
from ._run import OWN, Outputs, Run, Source

__all__ = ["End", "Ended", "Graph", "Step", "current", "entries", "of_pipeline", "own_state", "seed_here"]

X = TypeVar("X")

_VERSION = 4
_FORMER_ORDERS = 2  # up to this version a pipeline's seed made the orders of its readers, which were not paired
_FORMER_SEEDS = 3  # up to this version the draws of calls with seeds of their own depended on the pipeline's seed too
_OWN_STATE = {"version": int, "seed": int, "runs": int, "epoch": int, "calls": list, "varying": list, "ordered": bool}
_FIRST_STATE = {"version": int, "seed": int, "runs": int, "epoch": int, "calls": list, "varying": bool}


class End(NamedTuple):
    """The states of everything at the end of an epoch, the same on all shards, as rows that others take count too."""

    last: dict[str, JSON]  #: where nothing is left of it
    next: dict[str, JSON]  #: at the start of the next one


class Step(NamedTuple):
    """The results of one run."""

    outputs: Outputs
    states: dict[str, JSON]  #: of everything, after it
    epoch: int  #: of the first reader or source
    begun: int  #: the epoch in which that one stood before
    end: End | None  #: of the epoch, where that one has no more batches in it
    ends: Mapping[int, End] = {}  #: by number: of epochs that had no more batches before this run's


class Ended(StopIteration):
    """A source has ended.

    Attributes:
        states: Of everything, now that it has.
        epoch: Of the first source; None if another has ended.
        between: Whether another has ended where the first reader stands between two epochs, whose end it is then.
    """

    def __init__(self, states: dict[str, JSON], epoch: int | None, *, between: bool) -> None:
        self.states, self.epoch, self.between = states, epoch, between


def _of_sources(states: Mapping[str, JSON]) -> dict[str, dict[str, Any]]:
    """The states of sources."""
    return {name: state for name, state in states.items() if isinstance(state, dict) and "iteration" in state}


def _to_end(states: Mapping[str, JSON]) -> set[str]:
    """Sources in the midst of an epoch where another has just ended its own, and nothing was given since."""
    sources = _of_sources(states)
    ended = any(state.get("epoch") and not state["iteration"] for state in sources.values())
    return {name for name, state in sources.items() if ended and state["iteration"]}


def _set_state(object_: Any, state: Any) -> None:
    object_.set_state(state)


def _go_to(object_: Any, state: Any) -> None:
    """Return to a state of this object's own, which an iterable can do as well."""
    (object_._go_to if isinstance(object_, ExternalSource) else object_.set_state)(state)


class _Made(BaseException):
    """The first source has been made, and the function is left."""


class Graph:
    """The state between runs.

    Args:
        function: The pipeline's function.
        batch_size: The most samples in a batch.
        seed: Of all random numbers. Readers have seeds of their own, so that all ranks share one order.
        states: Of a checkpoint to go on from; each object takes its own when it is made.
        last_batch: How the first reader ends its epochs, if not as declared in the function.
        fed: The batches for sources without a function.
        check: Refuses outputs.
        conditionals: Whether a Batch may be a condition, for each sample.
        answers: Items of the iterables among the sources, from a batch on that somebody may go back to. By default
            the items of the last run are kept.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        batch_size: int,
        seed: int,
        states: Mapping[str, JSON] | None,
        last_batch: LastBatch | None,
        fed: Fed,
        check: Callable[[Outputs], None],
        *,
        conditionals: bool = False,
        answers: dict[str, Answers[Any]] | None = None,
    ) -> None:
        self.batch_size, self.rng, self.last_batch, self.fed = batch_size, RNG(seed), last_batch, fed
        self.sources: dict[str, Source] = {}
        self.streams: dict[str, RNG] = {}
        self.primary: str | None = None
        self._function, self._conditionals, self._check = function, conditionals, check
        self._answers, self._hold = {} if answers is None else answers, answers is not None
        self._record = Record()
        self._runs = 0
        self._version = _VERSION
        self._begun: dict[str, Progress] = {}  # where readers were before the run
        self._expected: Record | None = None
        self._given: dict[str, JSON] = {}  # the states of a checkpoint
        if states is not None:
            own = own_state(states)
            self._runs, self._expected = own["runs"], Record.of(own) or None
            self._version = max(own["version"], _FORMER_ORDERS)
            self._given = {name: state for name, state in states.items() if name != OWN}
        self._waiting = dict(self._given)  # those whose objects are not made yet
        self._to_end = _to_end(self._given)  # sources whose epoch may end where another's has
        self._leaving = False  # the function, as soon as it has a source

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self) -> Step:
        """Run the function once; after an error everything stands where it stood before."""
        before = self._places()
        back = {name: way_back(object_) for name, object_ in (*self.sources.items(), *self.streams.items())}
        self._begun = self._progress
        run = Run(self, conditionals=self._conditionals)
        try:
            outputs = run.made(self._function)
            self._check(outputs)
            self._compare(run.calls, ways=run.decided)
        except BaseException as error:
            between = isinstance(error, StopIteration) and run.ended is not None and self._between
            self._return(back, run.ended)
            if isinstance(error, StopIteration) and error is not run.end:
                hint = "That is for sources that end; a next() in the function has found no more."
                raise RuntimeError(f"Pipeline: the function raised StopIteration. {hint}") from error
            if isinstance(error, StopIteration) and run.ended is not None:
                if run.ended in self._to_end:  # with the one that has ended, as nothing was given since
                    self._to_end.discard(run.ended)
                    return self.step()
                ended, states = self.sources[run.ended], self.states(0)
                self._to_end = _of_sources(states).keys() - {run.ended}
                epoch = getattr(ended, "epoch", None) if run.ended == self.primary else None
                raise Ended(states, epoch, between=between) from error
            raise
        self._to_end = set()
        ends = self._ends(before, run.epoch)
        begun = run.epoch if self.first_reader is None else self._begun[self.primary or ""].place.epoch
        self._runs, self._given = self._runs + 1, dict(self._waiting)
        end = self.at_the_end(run.epoch) if self.ended else None
        return Step(outputs, self.states(run.epoch), run.epoch, begun, end, ends)

    def _ends(self, before: Mapping[str, State], epoch: int) -> dict[int, End]:
        """The ends of the epochs that had no more batches before a run's.

        Args:
            before: The states of all objects before the run, but for those that were made in it.
            epoch: The epoch of the run's batch.
        """
        progress, ends = dict(self._begun), {}
        while self.first_reader is not None and (over := progress[self.primary or ""].place.epoch) < epoch:
            ends[over], progress = self._end({**self._given, **before}, progress, over)
        return ends

    def at_the_end(self, epoch: int) -> End:
        """The end of an epoch of which the first reader has no more batches."""
        return self._end({**self._waiting, **self._places()}, self._progress, epoch)[0]

    def start(self, epoch: int) -> dict[str, JSON]:
        """The states at the start of a later epoch than that of the first reader, whatever is left until there."""
        states, progress = {**self._waiting, **self._places()}, self._progress
        started = states
        for over in range(progress[self.primary or ""].place.epoch, epoch):
            end, progress = self._end(states, progress, over)
            started = end.next
        return started

    def _end(
        self, states: Mapping[str, JSON], progress: Mapping[str, Progress], epoch: int
    ) -> tuple[End, dict[str, Progress]]:
        """The end of an epoch, and where readers are at the start of the next.

        Args:
            states: Of all objects, somewhere in it.
            progress: Where its readers are there.
            epoch: Its number.
        """
        first, primary = self.first_reader, self.primary or ""
        rows = 0 if first is None else left(first, progress[primary])
        readers = self.readers
        last = {name: passed(reader, progress[name], rows) for name, reader in readers.items()}
        following = last if first is None else {**last, primary: epoch_ended(last[primary])}
        there, after = (
            {
                OWN: self._own_state(number),
                **states,
                **{name: state_at(reader, at[name]) for name, reader in readers.items()},
            }
            for number, at in ((epoch, last), (epoch + 1, following))
        )
        return End(there, after), following

    @property
    def readers(self) -> dict[str, Reader[Any]]:
        """The readers among the sources."""
        return {name: reader for name, reader in self.sources.items() if isinstance(reader, Reader)}

    @property
    def _progress(self) -> dict[str, Progress]:
        """Where readers are."""
        return {name: progress_of(reader) for name, reader in self.readers.items()}

    @property
    def first_reader(self) -> Reader[Any] | None:
        """The reader whose epochs these are; None where there is none, or it has not been made."""
        primary = self.sources.get(self.primary or "")
        return primary if isinstance(primary, Reader) else None

    @property
    def _between(self) -> bool:
        """Whether the first reader stood between two epochs before the run."""
        if self.first_reader is None:
            return False
        place = self._begun[self.primary or ""].place
        return place.position == 0 or not has_step(self.first_reader, place, self.batch_size)

    @property
    def has_run(self) -> bool:
        """Whether the function has been run, so that its sources are known."""
        return bool(self._record)

    @property
    def ended(self) -> bool:
        """Whether the first reader has no more batches in the epoch; False as long as it has not been made."""
        return self.first_reader is not None and not steps_left(self.first_reader, self.batch_size)

    def first_source(self) -> tuple[str, Source]:
        """The first reader or source of the function, and its name. The function is left there, and nothing is read."""
        self._leaving = True
        try:
            Run(self, conditionals=self._conditionals).made(self._function)
        except _Made:
            pass
        finally:
            self._leaving = False
        if self.primary is None:
            raise ArgumentError("Pipeline", "function", "a function that calls a reader or a source", "no such call")
        return self.primary, self.sources[self.primary]

    def skip(self) -> Step | None:
        """Do as if the function had been run; it is, unless a reader is all that would move, and was made before."""
        if len(self.sources) > 1 or self.streams or self.first_reader is None:
            return self.step()
        if pass_over_step(self.first_reader, self.batch_size):
            self._runs += 1
        return None

    def states(self, epoch: int) -> dict[str, JSON]:
        """The states of everything, as the entries of a checkpoint."""
        return {OWN: self._own_state(epoch), **self._waiting, **self._places()}

    def _own_state(self, epoch: int) -> dict[str, JSON]:
        record = self._expected or self._record
        return {"version": self._version, "seed": self.rng.seed, "runs": self._runs, "epoch": epoch, **record.entries}

    def _places(self) -> dict[str, State]:
        return {name: object_.get_state() for name, object_ in (*self.sources.items(), *self.streams.items())}

    def _return(self, back: Mapping[str, Callable[[], None]], ended: str | None) -> None:
        """Undo a run: its results are forgotten, its sources go back; a source that has ended stays."""
        kinds: tuple[dict[str, Any], ...] = (self.sources, self.streams)
        for kind in kinds:
            for name in list(kind):
                if name in back and name != ended:
                    back[name]()
                elif name not in back and name != ended:
                    del kind[name]
                    if name in self._given:
                        self._waiting[name] = self._given[name]
        if self.primary not in self.sources:
            self.primary = None

    def _compare(self, calls: list[Call], *, ways: bool) -> None:
        """Refuse a checkpoint of another pipeline; notice a function that does not always call the same.

        Args:
            calls: The calls until the first condition.
            ways: Whether there was one, so that there may be streams on ways that no sample went in this run.
        """
        if self._expected is not None:
            self._expected.compare(calls)
            parts = ways or self._expected.branches
            if waiting := {name for name in self._waiting if not (parts and name.startswith("stream "))}:
                names = ", ".join(map(repr, sorted(waiting)))
                raise StateMismatch(
                    f"Pipeline: the checkpoint has states of {names}, which this pipeline does not have.",
                    [f"{names} in the state, missing here"],
                )
            self._record, self._expected = self._expected, None
        self._record.learn(calls)

    @property
    def former_orders(self) -> bool:
        """Whether readers keep to the orders that they had when the run began, under a former version."""
        return self._version <= _FORMER_ORDERS

    @property
    def former_seeds(self) -> bool:
        """Whether draws of calls with seeds depend on the pipeline's seed too, as under former versions."""
        return self._version <= _FORMER_SEEDS

    # -- readers, sources and random numbers --------------------------------------------------------------------------

    def source(self, name: str, make: Callable[[], Source]) -> Source:
        """The reader or source of a name, made when it is first asked for."""
        if name not in self.sources:
            made = self._resumed(name, make(), _go_to if name in self._answers else _set_state)
            if isinstance(made, ExternalSource) and made._answers is not None:
                made._answers = self._answers.setdefault(name, made._answers)
                if self._hold and made._answers.held is None:
                    made._answers.held = made._place.sample
            self.sources[name] = made
            if isinstance(made, Reader):
                self._begun[name] = made._progress
            if self.primary is None:
                self.primary = name
        if self._leaving:
            raise _Made
        return self.sources[name]

    def stream(self, label: str, key: str, seed: int) -> RNG:
        """The stream of a random operator whose numbers belong to no samples."""
        name = f"stream {label}"
        if name not in self.streams:
            digest = hashlib.blake2b(key.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
            self.streams[name] = self._resumed(name, RNG(int.from_bytes(digest, "little")))
        return self.streams[name]

    def forget_streams(self, labels: Iterable[str]) -> None:
        """Undo that these were made: those of a checkpoint wait for their states again."""
        for name in [f"stream {label}" for label in labels]:
            self.streams.pop(name, None)
            if name in self._given:
                self._waiting[name] = self._given[name]

    def _resumed(self, name: str, object_: Any, go_to: Callable[[Any, Any], None] = _set_state) -> Any:
        """An object that was just made, with its state of the checkpoint."""
        if name in self._waiting:
            go_to(object_, self._waiting[name])
            del self._waiting[name]
        return object_


def _nobody() -> None:
    return None


#: A reference to the pipeline whose function is being called.
current: ContextVar[Callable[[], Any]] = ContextVar("dynamic.pipeline.current", default=_nobody)


def of_pipeline(whose: Callable[[], Any], num_threads: int, step: Callable[[], X]) -> X:
    """Make a step with the threads of a pipeline, which its function can ask for.

    Args:
        whose: A reference to the pipeline.
        num_threads: How many threads it has.
        step: Makes the step.
    """

    def made() -> X:
        current.set(whose)
        return within(num_threads, step)

    return copy_context().run(made)  # a Ctrl-C leaves nothing in this one


def own_state(states: Mapping[str, JSON]) -> dict[str, Any]:
    """The entry of the pipeline itself.

    Raises:
        StateMismatch: There is none, so the checkpoint is of something else.
    """
    own = states.get(OWN)
    kinds = {key: type(value) for key, value in own.items()} if isinstance(own, dict) else {}
    if kinds not in (_OWN_STATE, _FIRST_STATE) or not isinstance(own, dict):
        hint = "dynamic.checkpoint.load is for objects that a program names itself."
        raise StateMismatch(
            f"Pipeline: the checkpoint is not of a pipeline: it has {sorted(states)}. {hint}",
            ["pipeline: missing in the state"],
        )
    if own["version"] not in (range(_FORMER_ORDERS, _VERSION + 1) if kinds == _OWN_STATE else (1,)):
        raise StateMismatch(
            f"Pipeline: the state has version {own['version']}; this library reads {_VERSION}.",
            [f"version: {own['version']} in the state, {_VERSION} here"],
        )
    return own


def seed_here(seed: int | None, states: Mapping[str, JSON] | None) -> int:
    """The seed of a pipeline: the one that is given, else the checkpoint's, else a random one."""
    if seed is None:
        return own_state(states)["seed"] if states is not None else secrets.randbits(63)
    if states is not None and (there := own_state(states)["seed"]) != seed:
        difference = f"seed: {there} in the state, {seed} here"
        raise StateMismatch(f"Pipeline: the checkpoint is of another seed. {difference}.", [difference])
    return seed


def entries(checkpoint: Any) -> dict[str, JSON]:
    """The states in the text of a checkpoint, or in the file that a path names, the newest whole one of a pattern.

    Raises:
        ArgumentError: It is something else.
        StateError: It is none of ours: damaged, a pickle, or written by DALI.
    """
    if isinstance(checkpoint, (str, os.PathLike)) and (path := os.fsdecode(checkpoint))[:2] != "{\n" and "{seq" in path:
        return {name: entry.state for name, entry in newest(path, stacklevel=4)[1].items()}
    text, source = _text(checkpoint), "the value of checkpoint="
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    refuse(data)
    if isinstance(text, str) and not text.startswith("{"):
        source += ", which is the path of no file,"
    return {name: entry.state for name, entry in decoded(data, source).items()}


def _text(checkpoint: Any) -> str | bytes:
    named = isinstance(checkpoint, str) and os.path.isfile(checkpoint)  # noqa: PTH113 - most texts can be no path
    if named or isinstance(checkpoint, os.PathLike):
        return read(Path(checkpoint), LARGEST)
    if not isinstance(checkpoint, (str, bytes)):
        expected = "a result of Pipeline.checkpoint(), or a path to one"
        raise ArgumentError("Pipeline", "checkpoint", expected, shown(checkpoint))
    return checkpoint
