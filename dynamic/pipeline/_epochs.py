"""The batches of a reader or a pipeline from any place on, epoch by epoch, each with the states after it.

For adapters that iterate themselves: they keep the states of the batch that was used last.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dynamic import ArgumentError, Batch, ExternalSource, StateError, StateMismatch
from dynamic._base.ahead import Ahead
from dynamic._base.state import JSON, State, way_back
from dynamic.errors import shown
from dynamic.readers._place import Place as ReaderPlace
from dynamic.readers._placed import Progress
from dynamic.readers._ranks import check_order
from dynamic.readers._reader import (
    Reader,
    epoch_ended,
    is_shuffled,
    leader_of,
    num_shards_of,
    pass_over_step,
    progress_of,
    state_at,
    steps_left,
    steps_of_epoch,
)

from ._graph import Ended, Graph, Step, of_pipeline
from ._pipeline import Pipeline
from ._run import OWN, columns

__all__ = ["Epochs", "Item", "Place", "Resumable", "Source", "States", "place_of", "state_of"]

X = TypeVar("X")
Readers: TypeAlias = "Reader[Any] | Sequence[Reader[Any]]"
Source: TypeAlias = "Readers | Callable[[], Readers | Pipeline]"
States: TypeAlias = "dict[str, JSON]"
_TYPES = {"version": int, "states": dict, "skip": int, "workers": int, "ended": bool}  #: of the entries of a state


class Item(NamedTuple):
    """A batch of an epoch."""

    outputs: tuple[Batch, ...] | None  #: None after the last
    states: States  #: after it; at the start of the next epoch, after the last
    following: States | None = None  #: at the start of the next epoch, where this is known to be the last


class Place(NamedTuple):
    """The place of a data set or a loader."""

    states: States
    skip: int = 0  #: how many batches a worker passes over before its next
    workers: int = 0  #: how many workers there are, in the state of one of them; 0 for all of them together
    ended: bool = False  #: whether this worker has ended an epoch, in which others may still have batches


def state_of(place: Place) -> State:
    """A place as JSON values."""
    return {"version": 1, **place._asdict()}


def place_of(operator: str, state: Any) -> Place:
    """The place of a state.

    Raises:
        StateError: It is no such state.
    """
    if not isinstance(state, Mapping) or {key: type(value) for key, value in state.items()} != _TYPES:
        raise StateError(f"{operator}: this is not a state of a data set: {shown(state)}.")
    if state["version"] != 1:
        raise StateError(f"{operator}: the state has version {state['version']}; this library reads 1.")
    return Place(state["states"], state["skip"], state["workers"], state["ended"])


class Epochs:
    """A source of epochs.

    Args:
        operator: Whose errors these are.
        source: A function without arguments that makes a `Pipeline` or a reader, or a reader; or a list of readers, of
            which the first gives the others their order.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.

    Attributes:
        first: The states where the source is now.

    Raises:
        ArgumentError: An argument is wrong.
    """

    first: States

    def __init__(self, operator: str, source: Source, batch_size: int | None) -> None:
        self._operator, self._source = operator, source
        made: Any = source() if callable(source) and not isinstance(source, Reader) else source
        self._readers = _readers(operator, made)
        self._reader = self._readers.get("reader")
        self._batch_size: int | None = None
        self._length: int | None = None
        if self._reader is not None:
            self._batch_size = self._reader._batch_size(operator, batch_size)
            if self._batch_size is None:
                raise ArgumentError(operator, "batch_size", "given for a reader without max_batch_size", "None")
            self.first = {name: reader.get_state() for name, reader in self._readers.items()}
        elif isinstance(made, Pipeline) and callable(source):
            if batch_size is not None:
                hint = "A pipeline knows its batch size."
                raise ArgumentError(operator, "batch_size", "left out for a pipeline", shown(batch_size), hint)
            self.first = made._course.own_states()
        else:
            expected = "a function that makes a Pipeline or a reader, or a reader, or a list of readers"
            raise ArgumentError(operator, "source", expected, shown(made))

    def check(self, states: Mapping[str, JSON]) -> None:
        """Refuse states of another kind of source, or of another seed.

        Raises:
            StateMismatch: They are.
        """
        if self._reader is None:
            self._pipeline(states)
            return
        if set(states) != set(self._readers):
            here, there = (f"{n} readers" if n > 1 else "a reader" for n in (len(self._readers), len(states)))
            there = "a pipeline" if OWN in states else there
            raise StateMismatch(
                f"{self._operator}: the state is of {there}, and this has {here}.",
                [f"{there} in the state, {here} here"],
            )
        for name in self._readers:
            self._at(name, states, lambda *_: None)

    # -- places -------------------------------------------------------------------------------------------------------

    def epoch(self, states: States) -> int:
        """The number of the epoch in which states are."""
        state: Any = states[OWN if self._reader is None else "reader"]
        number: int = state["epoch"]
        return number

    def left(self, states: States) -> int | None:
        """How many batches are left of the epoch after states; None where the first source is not a reader."""
        return self._asked(states, steps_left)

    def start(self, states: States, epoch: int | None = None) -> States:
        """The states at the start of a later epoch, by default the next, whatever was given of this one.

        A source of a pipeline that is not a reader stays where it is; where the first one is none, its own next epoch
        begins, if it has a place.
        """
        epoch = self.epoch(states) + 1 if epoch is None else epoch
        return self._start(states, epoch) if self._reader is None else self._start_of_reader(states, epoch)

    def _start_of_reader(self, states: States, epoch: int) -> States:
        def started(reader: Reader[Any], _: int) -> JSON:
            after = epoch_ended(progress_of(reader))
            return state_at(reader, after if after.place.epoch == epoch else Progress(ReaderPlace(epoch, 0)))

        return {name: self._at(name, states, started) for name in self._readers}

    def _start(self, states: States, epoch: int) -> States:
        """The same of a pipeline. A batch of it is made: only then its sources are known."""
        here = self.epoch(states)
        name, first, _ = self._first(states)
        if isinstance(first, ExternalSource):
            own: Any = states[OWN]
            place: Any = {**first.get_state(), "epoch": first.epoch + epoch - here, "iteration": 0, "sample": 0}
            return {**states, OWN: {**own, "epoch": epoch}, name: place} if first.resumable else states
        pipeline, seed = self._pipeline(states)
        graph = pipeline._course.graph_at(states, seed)
        step = of_pipeline(weakref.ref(pipeline), pipeline.num_threads, graph.step)
        started = graph.start(epoch) if step.epoch < epoch else step.ends[here].next
        beside = {name: state for name, state in states.items() if name != OWN and name not in graph.readers}
        return {**started, **beside}

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch of a reader; None of a pipeline."""
        return self._batch_size

    @property
    def num_shards(self) -> int:
        """How many shards the first reader has; 1 where the first source is none."""
        return self._asked(self.first, lambda reader, _: num_shards_of(reader)) or 1

    @property
    def shuffled(self) -> bool:
        """Whether the first reader visits its samples in another order each epoch."""
        return bool(self._asked(self.first, lambda reader, _: is_shuffled(reader)))

    def check_order(self) -> None:
        """Compare the order of the first reader with those of other ranks.

        Raises:
            ArgumentError: Another rank has another order.
        """
        self._asked(self.first, lambda reader, _: check_order(reader))
        for name in list(self._readers)[1:]:
            check_order(self._readers[name])

    def _asked(self, states: States, ask: Callable[[Reader[Any], int], X]) -> X | None:
        """An answer of the first reader at states, for a batch size; None where the first source is none."""
        if self._reader is not None:
            return self._at("reader", states, ask)
        _, first, size = self._first(states)
        return ask(first, size) if isinstance(first, Reader) else None

    def _first(self, states: States) -> tuple[str, Any, int]:
        """The first reader or source of a pipeline at states, its name, and the batch size."""
        pipeline, seed = self._pipeline(states)
        graph = pipeline._course.graph_at(states, seed)
        name, first = of_pipeline(weakref.ref(pipeline), pipeline.num_threads, graph.first_source)
        return name, first, pipeline.batch_size

    def _at(self, name: str, states: Mapping[str, JSON], ask: Callable[[Reader[Any], int], X]) -> X:
        """An answer of a reader at states; then it is where it was."""
        reader, size = self._readers[name], self._batch_size
        assert size is not None
        back = way_back(reader)
        try:
            reader.set_state(states[name])  # type: ignore[arg-type] # checked there
            return ask(reader, size)
        finally:
            back()

    # -- batches ------------------------------------------------------------------------------------------------------

    def rest(self, states: States, skip: int = 0, stride: int = 1) -> Generator[Item]:
        """The rest of an epoch: batches with the states after them; at last None, and the states of the next epoch.

        Args:
            states: Where to begin.
            skip: How many batches to pass over first.
            stride: Of so many batches one is given.
        """
        if self._reader is None:
            return self._of_pipeline(states, skip, stride)
        return self._of_readers(self._reader, states, skip, stride)

    def _of_readers(self, first: Reader[Any], states: States, skip: int, stride: int) -> Generator[Item]:
        size = self._batch_size
        assert size is not None
        for name, reader in self._readers.items():
            reader.set_state(states[name])  # type: ignore[arg-type] # checked there
        rests = [reader.next_epoch(size) for reader in self._readers.values()]
        while True:
            for reader in self._readers.values():
                for _ in range(skip):
                    pass_over_step(reader, size)
            made = [[next(rest, None) for rest in rests]]  # of which nothing stays here while the consumer has it
            if made[0][0] is None:
                yield Item(None, {name: reader.get_state() for name, reader in self._readers.items()})
                return
            ended: States | None = None
            if not steps_left(first, size, progress_of(first).place):
                ended = {name: state_at(r, epoch_ended(progress_of(r))) for name, r in self._readers.items()}
            here: States = {name: state_at(r, progress_of(r)) for name, r in self._readers.items()}
            left = [progress_of(reader) for reader in self._readers.values()]
            yield Item(tuple(batch for outputs in made.pop() for batch in columns(outputs)), here, ended)
            if [progress_of(reader) for reader in self._readers.values()] != left:
                raise RuntimeError(
                    f"{self._operator}: something else has moved its reader since the last batch: another iterator of "
                    "this loader, another loader, or a loop over the reader. Samples would be lost; give each a reader "
                    "of its own."
                )
            skip = stride - 1

    def _pipeline(self, states: Mapping[str, JSON]) -> tuple[Pipeline, int]:
        """A new pipeline, which only lends its function, and the seed."""
        pipeline = self._source() if callable(self._source) else None
        assert isinstance(pipeline, Pipeline)
        return pipeline, pipeline._course.seed_at(states)

    def _of_pipeline(self, states: States, skip: int, stride: int) -> Generator[Item]:
        pipeline, seed = self._pipeline(states)
        graph = pipeline._course.graph_at(states, seed)
        threads = pipeline.num_threads
        share = _Share(graph, states, skip, stride)
        ahead = Ahead(functools.partial(share.step, weakref.ref(pipeline), threads), pipeline.prefetch_queue_depth)
        try:
            ahead.start()
            ended = False
            while not ended:
                made = [ahead.take()]  # of which nothing stays here while the consumer has it
                ended = not made[0].outputs
                yield _item(made.pop())
        finally:
            ahead.close()

    def __len__(self) -> int:
        """How many batches a whole epoch of the first reader has, on the shard that has most.

        Raises:
            TypeError: The first source is not a reader, so that nobody knows before it ends.
        """
        if self._length is None:
            self._length = self._asked(self.first, steps_of_epoch)
        if self._length is None:
            raise TypeError(f"{self._operator} has no length: the first source of its pipeline is not a reader.")
        return self._length


def _readers(operator: str, made: Any) -> dict[str, Reader[Any]]:
    """The readers of a source by the names of their states; none of a pipeline.

    Raises:
        ArgumentError: One of several has an order of its own.
    """
    if isinstance(made, Reader):
        return {"reader": made}
    several = list(made) if isinstance(made, (list, tuple)) else []
    if not all(isinstance(reader, Reader) for reader in several):
        return {}
    for i, reader in enumerate(several[1:], 1):
        if leader_of(reader) not in several[:i]:
            expected = "a reader with order_of= the first, whose samples are in its order"
            raise ArgumentError(operator, f"source[{i}]", expected, shown(reader))
    return {"reader" if i == 0 else f"reader_{i}": reader for i, reader in enumerate(several)}


class Resumable:
    """A loader of one process, by the state after the batch that was taken last.

    Those of it iterate: they begin at `_next`, and keep in `_states` where the taken batch has left its sources.
    """

    def __init__(self, operator: str, source: Source, batch_size: int | None) -> None:
        self._operator, self._epochs = operator, Epochs(operator, source, batch_size)
        self._states, self._begun = self._epochs.first, False

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, on the shard that has most.

        Raises:
            TypeError: The first source of a pipeline is not a reader.
        """
        return len(self._epochs)

    def __bool__(self) -> bool:
        return True

    @property
    def epoch(self) -> int:
        """The epoch of the next `iter`, from 0 on: loop over ``range(loader.epoch, epochs)``."""
        return self._epochs.epoch(self._next())

    def _next(self) -> States:
        """Where the next iteration begins."""
        return self._epochs.start(self._states) if self._begun else self._states

    def state_dict(self) -> State:
        """Return the state after the batch taken last, as JSON values. Batches made ahead do not count."""
        return state_of(Place(self._states))

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` go on after the batch of a state. After a last batch, that is the next epoch.

        Args:
            state_dict: A result of `state_dict`, of a loader of the same data in the same order.

        Raises:
            StateError: This is not a state of a loader.
            StateMismatch: It is of another reader or pipeline, or of one of several workers of torch.
        """
        place = place_of(self._operator, state_dict)
        if place.workers:
            difference = f"workers: {place.workers} in the state, 0 here"
            raise StateMismatch(
                f"{self._operator}: the state is of one of several workers. {difference}.", [difference]
            )
        self._epochs.check(place.states)
        ended = self._epochs.left(place.states) == 0
        self._states, self._begun = self._epochs.start(place.states) if ended else place.states, False


def _item(step: Step) -> Item:
    return Item(step.outputs or None, step.states, step.end and step.end.next)


class _Share:
    """Makes every n-th batch of the rest of an epoch of a pipeline; then a step without outputs, again and again."""

    def __init__(self, graph: Graph, states: States, skip: int, stride: int) -> None:
        self._graph, self._skip, self._stride = graph, skip, stride
        own: Any = states[OWN]
        self._epoch: int = own["epoch"]
        self._end: Step | None = None
        self._begun = False
        self._states = states

    def step(self, whose: Callable[[], Any], num_threads: int) -> Step:
        """The next of these batches."""
        if self._end is None:
            try:
                step = of_pipeline(whose, num_threads, self._next)
            except StopIteration as end:
                beside = isinstance(end, Ended) and end.epoch is None  # a source that is not the first
                between = isinstance(end, Ended) and end.between
                if between and not self._begun:  # it ended with the epoch before, and is asked for this one
                    self._begun = True
                    return self.step(whose, num_threads)
                self._states = self._graph.states(self._epoch + (not beside))
                step = None
            self._begun = True
            if step is not None:
                return step
            self._end = Step((), self._states, self._epoch, self._epoch, None)
        return self._end

    def _next(self) -> Step | None:
        """The next batch of this share; None, with the states there, at the end of the epoch."""
        graph = self._graph
        while not graph.ended:
            step = graph.skip() if self._skip else graph.step()
            if step is not None and step.epoch != self._epoch:
                own: Any = self._states[OWN]
                end = step.ends.get(self._epoch)
                self._states = {**self._states, OWN: {**own, "epoch": step.begun}} if end is None else end.next
                return None
            self._states = self._states if step is None else step.states
            if not self._skip:
                self._skip = self._stride - 1
                return step
            self._skip -= 1
        self._states = graph.at_the_end(self._epoch).next
        return None
