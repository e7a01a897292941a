"""The batches of a reader or a pipeline from any place on, epoch by epoch, each with the states after it.

For adapters that iterate themselves: they keep the states of the batch that was used last.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias

from dynamic import ArgumentError, Batch, StateMismatch
from dynamic._state import JSON, way_back
from dynamic.errors import shown
from dynamic.readers._reader import Reader

from ._ahead import Ahead
from ._graph import Ended, Graph, Step, of_pipeline, seed_here
from ._pipeline import Pipeline
from ._run import OWN, columns

__all__ = ["Epochs", "Source", "States"]

Source: TypeAlias = "Reader[Any] | Callable[[], Reader[Any] | Pipeline]"
States: TypeAlias = "dict[str, JSON]"


class Epochs:
    """A source of epochs.

    Args:
        operator: Whose errors these are.
        source: A function without arguments that makes a `Pipeline` or a reader, or a reader.
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
        self._reader = made if isinstance(made, Reader) else None
        self._batch_size: int | None = None
        if isinstance(made, Reader):
            self._batch_size = made._batch_size(operator, batch_size)
            if self._batch_size is None:
                raise ArgumentError(operator, "batch_size", "given for a reader without max_batch_size", "None")
            self.first = {"reader": made.get_state()}
        elif isinstance(made, Pipeline) and callable(source):
            if batch_size is not None:
                hint = "A pipeline knows its batch size."
                raise ArgumentError(operator, "batch_size", "left out for a pipeline", shown(batch_size), hint)
            self.first = dict(made._own_states())
        else:
            expected = "a function that makes a Pipeline or a reader, or a reader"
            raise ArgumentError(operator, "source", expected, shown(made))

    def check(self, states: Mapping[str, JSON]) -> None:
        """Refuse states of another kind of source, or of another seed.

        Raises:
            StateMismatch: They are.
        """
        if self._reader is None:
            self._pipeline(states)
            return
        if set(states) != {"reader"}:
            raise StateMismatch(f"{self._operator}: the state is of a pipeline, and this has a reader.",
                                ["a pipeline in the state, a reader here"])  # fmt: skip
        back = way_back(self._reader)
        try:
            self._reader.set_state(states["reader"])  # type: ignore[arg-type] # what is no state is refused there
        finally:
            back()

    def rest(
        self, states: States, skip: int = 0, stride: int = 1
    ) -> Generator[tuple[tuple[Batch, ...] | None, States]]:
        """The rest of an epoch: batches with the states after them; at last None, and the states of the next epoch.

        Args:
            states: Where to begin.
            skip: How many batches to pass over first.
            stride: Of so many batches one is given.
        """
        if self._reader is None:
            return self._of_pipeline(states, skip, stride)
        return self._of_reader(self._reader, states, skip, stride)

    def _of_reader(self, reader: Reader[Any], states: States, skip: int, stride: int) -> Generator[tuple[Any, States]]:
        size = self._batch_size
        assert size is not None
        reader.set_state(states["reader"])  # type: ignore[arg-type] # what is no state is refused there
        rest = reader.next_epoch(size)
        while True:
            for _ in range(skip):
                reader._pass_over(size)
            outputs = next(rest, None)
            yield None if outputs is None else columns(outputs), {"reader": reader.get_state()}
            if outputs is None:
                return
            skip = stride - 1

    def _pipeline(self, states: Mapping[str, JSON]) -> tuple[Pipeline, int]:
        """A new pipeline, which only lends its function, and the seed."""
        pipeline = self._source() if callable(self._source) else None
        assert isinstance(pipeline, Pipeline)
        return pipeline, seed_here(pipeline._seed if pipeline._seeded else None, states)

    def _of_pipeline(self, states: States, skip: int, stride: int) -> Generator[tuple[Any, States]]:
        pipeline, seed = self._pipeline(states)
        graph = pipeline._graphed(states, seed)
        threads = pipeline._context.num_threads
        share = _Share(graph, states, skip, stride)
        ahead = Ahead(functools.partial(share.step, weakref.ref(pipeline), threads), pipeline._depth)
        try:
            ahead.start()
            while True:
                step = ahead.take()
                yield step.outputs or None, step.states
                if not step.outputs:
                    return
        finally:
            ahead.close()

    def __len__(self) -> int:
        """How many batches an epoch of the reader has; a TypeError for a pipeline, which tells that as it runs."""
        if self._reader is None:
            raise TypeError(f"{self._operator} of a pipeline has no length.")
        meta, drop = self._reader.get_metadata(self._batch_size), self._reader._last_batch == "drop"
        chunk = (self._batch_size or 1) * meta["number_of_shards"]
        return meta["epoch_size"] // chunk if drop else -(-meta["epoch_size"] // chunk)


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
