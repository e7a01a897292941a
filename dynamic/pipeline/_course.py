"""The course of a pipeline: its place, and the batches that are made ahead of it."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from dynamic import ArgumentError
from dynamic._base.ahead import Ahead
from dynamic._base.locks import new_lock
from dynamic._base.places import is_ahead
from dynamic._base.state import JSON
from dynamic.readers._answers import Answers
from dynamic.readers._reader import LastBatch

from ._fed import Fed
from ._graph import End, Ended, Graph, Step, current, of_pipeline, own_state, seed_here
from ._nodes import Drawn, drawing
from ._run import ITERATOR, OWN

__all__ = ["Course", "Place"]


class Place(NamedTuple):
    """Where a pipeline stands between two batches.

    Attributes:
        states: After the batch that was taken last; None before the first.
        epoch: Of the first reader.
        end: The end of the epoch, once its last batch was taken.
        iterator: The state of an iterator around the pipeline.
        seed: Of the pipeline.
        answers: The items of iterables since the batch that was taken last.
    """

    states: dict[str, JSON] | None
    epoch: int
    end: End | None
    iterator: JSON
    seed: int
    answers: dict[str, Answers[Any]]


class Course:
    """The inner interface of a pipeline: epochs and iterators move it by this. It has the attributes of `Place`.

    Args:
        whose: A reference to the pipeline.
        make_graph: Called with this course, states, a seed, and items of iterables: the graph at a place.
        drawn: The graph of the pipeline.
        depth: How many batches are made ahead.
        states: Of a checkpoint, to go on from.
        seed: As it was given.
        sets_up: Whether the pipeline has an `iter_setup` of its own, called before each run.
    """

    def __init__(
        self,
        whose: Callable[[], Any],
        make_graph: Callable[..., Graph],
        drawn: Drawn,
        depth: int,
        states: dict[str, JSON] | None,
        seed: int | None,
        *,
        sets_up: bool,
    ) -> None:
        self._whose, self._make_graph, self._drawn, self._sets_up = whose, make_graph, drawn, sets_up
        self.depth, self._given_seed = depth, seed
        iterator = None if states is None else states.pop(ITERATOR, None)
        self.states, self.iterator, self.seed = states, iterator, self.seed_at(states)
        self.epoch: int = 0 if states is None else own_state(states)["epoch"]
        self.end: End | None = None
        self.answers: dict[str, Answers[Any]] = {}
        self.fed = Fed()
        self.feeding: object | None = None  # the owner of batches that are fed now
        self.graph: Graph | None = None
        self.last_batch: LastBatch | None = None
        self._lock = new_lock()  # who holds it starts, takes and moves the place: each batch goes to one thread
        self._ahead: Ahead[Step] | None = None
        self._closing: Any = None  # closes it once nobody refers to the pipeline any more

    # -- places -------------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        """The place, for `go_back`."""
        return Place(self.states, self.epoch, self.end, self.iterator, self.seed, self.answers)

    def go_back(self, place: Place) -> None:
        """Return to a place."""
        self.forget_ahead()
        self.states, self.epoch, self.end, self.iterator, self.seed, self.answers = place

    def restore(self, states: dict[str, JSON], seed: int) -> None:
        """Go on from the states of a checkpoint, as a pipeline that is made with it."""
        iterator = states.pop(ITERATOR, None)
        self.go_back(Place(states, own_state(states)["epoch"], None, iterator, seed, {}))

    def seed_at(self, states: Mapping[str, JSON] | None) -> int:
        """The seed that a pipeline like this one has at the states of a checkpoint."""
        return seed_here(self._given_seed, states)

    def own_states(self) -> dict[str, JSON]:
        """The states of a checkpoint."""
        states = dict(self.states or self.graph_at(None).states(0))
        return {**states, OWN: {**own_state(states), "epoch": self.epoch}}

    def leave_epoch(self) -> None:
        """Go to the start of the next epoch, where the last batch of this one was taken."""
        if self.end is not None:
            self.states, self.epoch, self.end = self.end.next, self.epoch + 1, None

    @property
    def has_ended(self) -> bool:
        """Whether the first reader has no more batches in the epoch."""
        return self.end is not None or self.peek().epoch != self.epoch

    def stand_at_the_end(self) -> None:
        """Let the place be the end of the epoch, of which nothing is left, and not yet the next one."""
        end = self.end or self.peek().ends.get(self.epoch)
        self.states = self.states if end is None else end.last

    def end_epochs(self, last_batch: LastBatch) -> None:
        """Let the first reader end its epochs so, whatever it is told in the function."""
        if self.last_batch != last_batch:
            self.last_batch = last_batch
            self.forget_ahead()

    # -- batches ------------------------------------------------------------------------------------------------------

    def alone(self) -> AbstractContextManager[Any]:
        """A lock that one thread holds at a time."""
        if is_ahead():
            hint = "A pipeline makes its batches ahead by itself: iterate it without prefetch()."
            raise ArgumentError("prefetch", "iterable", "a loop over readers", "one that runs a pipeline", hint)
        if current.get()() is self._whose() and drawing.get() is not self._drawn:
            raise RuntimeError("Pipeline: its own function, which makes the batch, cannot ask for one.")
        return self._lock

    def graph_at(
        self, states: Mapping[str, JSON] | None, seed: int | None = None, answers: dict[str, Answers[Any]] | None = None
    ) -> Graph:
        """The state that runs share, at a place."""
        return self._make_graph(self, states, self.seed if seed is None else seed, answers)

    @property
    def is_running(self) -> bool:
        """Whether batches are made already."""
        return self._ahead is not None

    def start(self) -> Ahead[Step]:
        """Begin to make batches."""
        if self._ahead is None or self._ahead.pid != os.getpid():  # a forked child goes on from the last consumed batch
            pipeline = self._whose()
            graph = self.graph_at(self.states, answers=self.answers)
            make = functools.partial(self._set_up, graph.step) if self._sets_up else graph.step
            ahead = Ahead(functools.partial(of_pipeline, self._whose, pipeline.num_threads, make), self.depth)
            if self._closing is not None:
                self._closing.detach()
            self._closing = weakref.finalize(pipeline, ahead.close)
            ahead.start()
            self.graph, self._ahead = graph, ahead
        return self._ahead

    def _set_up(self, step: Callable[[], Step]) -> Step:
        """Call `iter_setup`, and make a step; where that fails, nothing was fed."""
        self.feeding = object()
        try:
            self._whose().iter_setup()
            return step()
        except BaseException:
            self.fed.take_back(self.feeding)
            raise
        finally:
            self.feeding = None

    def peek(self) -> Step:
        """The next batch, which stays the next."""
        with self.alone():
            return self._asked(Ahead.peek)

    def peek_anew(self) -> Step:
        """The same for the first batch of an epoch: a source beside the first may have ended with the epoch before."""
        try:
            return self.peek()
        except Ended as end:
            if not end.between:
                raise
            return self.peek()

    def take(self) -> Step:
        """The next batch, as far as making it goes."""
        states: Any = self.states or {}
        for name, answers in list(self.answers.items()):
            answers.held = states[name]["sample"] if name in states else answers.held
        if self.fed.unknown:
            self.peek()
        if unknown := self.fed.unknown:
            self._ahead = None  # batches made ahead may have used inputs that are taken back
            self.fed.forget(unknown)
            names = ", ".join(map(repr, unknown))
            raise ArgumentError("Pipeline.feed_input", "data_node", "the name of a source without a function", names)
        return self._asked(Ahead.take)

    def _asked(self, ask: Callable[[Ahead[Step]], Step]) -> Step:
        """The batch made ahead. If a source has ended instead, that is told once, and noted."""
        ahead = self.start()
        try:
            return ask(ahead)
        except Ended as end:
            self.states = end.states
            self.epoch = self.epoch if end.epoch is None else end.epoch
            raise
        except BaseException as error:
            if not (self.depth or isinstance(error, Exception)):  # the batch may be over: go on after the last
                self._ahead = None
            raise

    def forget_ahead(self) -> None:
        """Make the batches made ahead again."""
        self.close()
        self._ahead = None

    def close(self) -> None:
        """Stop making batches."""
        if self._ahead is not None:
            self._ahead.close()
