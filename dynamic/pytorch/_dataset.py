"""A data set for `torch.utils.data.DataLoader`, whose order and state do not depend on the number of workers.

Each worker process goes through the same batches and makes every n-th of them, from its own number on. So a loader
gives what one process alone would give, in that order, and the state after a batch is that of a run in one process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from dynamic import ArgumentError, Batch, EvalContext, StateError, StateMismatch
from dynamic._state import JSON, State
from dynamic.errors import shown
from dynamic.pipeline import Pipeline
from dynamic.pipeline._ahead import Ahead
from dynamic.pipeline._graph import OWN, Graph, Step
from dynamic.pipeline._pipeline import _seed
from dynamic.readers._reader import Reader

from ._iterator import names, tensors
from ._shared import Shared, Worker

__all__ = ["Batches", "Outputs", "made"]

Source: TypeAlias = "Reader | Callable[[], Reader | Pipeline]"

_OPERATOR = "pytorch.Dataset"
_TYPES = {"version": int, "states": dict, "skip": int, "workers": int, "ended": bool}


class Place(NamedTuple):
    """Where to begin."""

    states: dict[str, JSON]
    skip: int = 0  #: how many batches a worker passes over before its next
    workers: int = 0  #: how many workers there are, in the state of one of them; 0 for all of them together
    ended: bool = False  #: whether this worker has ended an epoch, in which others may still have batches


class Outputs(dict[str, Any]):
    """The tensors of a batch under their names, and the state of the data set after it.

    Attributes:
        state: For `Dataset.load_state_dict`, to go on with the batch after this one.
    """

    state: State


class Batches:
    """A `torch.utils.data.IterableDataset` of whole batches of a reader or a pipeline.

    For ``DataLoader(dataset, batch_size=None, num_workers=n)`` with any n: the batches and their order are those of one
    process, and so is the state that each batch carries, ``batch.state``. So a run goes on with another number of
    workers, and after `load_state_dict` gives every sample that is left of the epoch once.

    Each `iter` begins an epoch, or the rest of the one whose state was loaded. One that is left early begins again,
    unless a state is loaded.

    Args:
        source: A function without arguments that makes a `Pipeline` or a reader, or a reader. Where workers are not
            forked, it must be one that can be pickled.
        output_map: A name for each output.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        transform: What to do with the outputs, in the worker: called with Batches, it returns one or a tuple.
        dynamic_shape: Fill samples that are smaller than the largest of the batch with zeros at the end of each
            dimension; without it such an output is an error.

    Raises:
        ArgumentError: An argument is wrong.
    """

    def __init__(
        self,
        source: Source,
        output_map: Sequence[str] = ("data", "label"),
        *,
        batch_size: int | None = None,
        transform: Callable[..., Any] | None = None,
        dynamic_shape: bool = False,
    ) -> None:
        self.output_map = names(_OPERATOR, output_map)
        self._transform, self._dynamic_shape = transform, bool(dynamic_shape)
        object_: Any = source() if callable(source) and not isinstance(source, Reader) else source
        self._reader = object_ if isinstance(object_, Reader) else None
        if isinstance(object_, Reader):
            self._batch_size = object_._batch_size(_OPERATOR, batch_size)
            if self._batch_size is None:
                raise ArgumentError(_OPERATOR, "batch_size", "given for a reader without max_batch_size", "None")
            first = Place({"reader": object_.get_state()})
        elif isinstance(object_, Pipeline) and callable(source):
            if batch_size is not None:
                hint = "A pipeline knows its batch size."
                raise ArgumentError(_OPERATOR, "batch_size", "left out for a pipeline", shown(batch_size), hint)
            first = Place(dict(object_._own_states()))
        else:
            expected = "a function that makes a Pipeline or a reader, or a reader"
            raise ArgumentError(_OPERATOR, "source", expected, shown(object_))
        self._source = source
        self._own: Place | None = None  # of this process alone
        self._now: Place | None = None  # after the batch that was made last in this process
        self._shared = Shared(first.states)

    # -- states -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The state after the batch that was made last in this process.

        Raises:
            RuntimeError: The batches are made in workers, ahead: take the ``state`` of the batch that was used last.
        """
        worker = Worker.here()
        place = self._now or self._own
        if place is None:
            if not worker.total and self._shared.used:
                raise RuntimeError("pytorch.Dataset: workers make the batches, ahead of whoever takes them. Take the "
                                   "state of the batch that was used last: batch.state.")  # fmt: skip
            place = Place(self._shared.get(), worker.number, worker.total)
        return _state(place)

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` begin after the batch whose state this is, in any number of workers.

        Raises:
            StateError: This is no state of a data set.
            StateMismatch: It is of another reader, or of one of several workers, where there are not so many now.
        """
        place, worker = _place(state_dict), Worker.here()
        if self._reader is not None:
            before = self._reader.get_state()
            if set(place.states) != {"reader"}:
                raise StateMismatch(f"{_OPERATOR}: the state is of a pipeline, and this has a reader.",
                                    ["a pipeline in the state, a reader here"])  # fmt: skip
            self._reader.set_state(place.states["reader"])  # type: ignore[arg-type]
            self._reader.set_state(before)
        else:
            self._pipeline(place)
        if place.workers and place.workers != worker.total:
            difference = f"workers: {place.workers} in the state, {worker.total} here"
            hint = "The state of a batch, batch.state, is good for any number of workers."
            raise StateMismatch(f"{_OPERATOR}: the state is of one of several workers. {difference}. {hint}",
                                [difference])  # fmt: skip
        self._now = None
        if worker.total:
            self._own = place
        else:
            self._shared.put(place.states)

    # -- an epoch -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Outputs]:
        """The batches of an epoch that are this process's, from the place that was loaded or the start."""
        worker = Worker.here()
        place = Place(self._shared.begin(worker), worker.number, worker.total)
        place, self._own = self._own or place, None
        self._now = place if worker.total else None
        if place.ended:
            self._shared.end(worker, place.states)
            return iter(())
        return self._epoch(place, worker)

    def _epoch(self, place: Place, worker: Worker) -> Iterator[Outputs]:
        stride = max(worker.total, 1)
        for outputs, states in (
            self._of_pipeline(place, stride) if self._reader is None else self._of_reader(place, stride)
        ):
            if outputs is None:
                self._shared.end(worker, states)
                self._now = Place(states, worker.number, worker.total, ended=True) if worker.total else None
                return
            batch = Outputs(tensors(_OPERATOR, self.output_map, self._transformed(outputs), self._dynamic_shape))
            batch.state = _state(Place(states))
            self._now = Place(states, stride - 1, worker.total)
            yield batch

    def _transformed(self, outputs: Sequence[Batch]) -> Sequence[Batch]:
        if self._transform is None:
            return outputs
        result = self._transform(*outputs)
        return result if isinstance(result, (tuple, list)) else (result,)

    def _of_reader(self, place: Place, stride: int) -> Iterator[tuple[Any, dict[str, JSON]]]:
        """Batches with the states after them; at the end None, with the states at the start of the next epoch."""
        reader, size = self._reader, self._batch_size
        assert reader is not None
        assert size is not None
        reader.set_state(place.states["reader"])  # type: ignore[arg-type]
        rest, skip = reader.next_epoch(size), place.skip
        while True:
            for _ in range(skip):
                reader._pass_over(size)
            outputs = next(rest, None)
            yield outputs, {"reader": reader.get_state()}
            if outputs is None:
                return
            skip = stride - 1

    def _pipeline(self, place: Place) -> tuple[Pipeline, int]:
        """A new pipeline, which only lends its function, and the seed."""
        pipeline = self._source() if callable(self._source) else None
        assert isinstance(pipeline, Pipeline)
        return pipeline, _seed(pipeline._seed if pipeline._seeded else None, place.states)

    def _of_pipeline(self, place: Place, stride: int) -> Iterator[tuple[Any, dict[str, JSON]]]:
        """As of `_of_reader`."""
        pipeline, seed = self._pipeline(place)
        graph = Graph(pipeline._function, pipeline._batch_size, seed, place.states, pipeline._last_batch)
        threads = pipeline._context.num_threads
        ahead = Ahead(functools.partial(_Share(graph, place, stride).step, threads), pipeline._depth)
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
            raise TypeError(f"{_OPERATOR} of a pipeline has no length.")
        meta, drop = self._reader.get_metadata(), self._reader._last_batch == "drop"
        chunk = (self._batch_size or 1) * meta["number_of_shards"]
        return meta["epoch_size"] // chunk if drop else -(-meta["epoch_size"] // chunk)

    def __bool__(self) -> bool:
        return True


class _Share:
    """Makes every n-th batch of the rest of an epoch of a pipeline; then a step without outputs, again and again."""

    def __init__(self, graph: Graph, place: Place, stride: int) -> None:
        self._graph, self._skip, self._stride = graph, place.skip, stride
        own: Any = place.states[OWN]
        self._epoch: int = own["epoch"]
        self._end: Step | None = None
        self._states = place.states

    def step(self, num_threads: int) -> Step:
        if self._end is None:
            try:
                with EvalContext(num_threads=num_threads):
                    step = self._next()
            except StopIteration:
                self._states = self._graph.states(self._epoch + 1)
                step = None
            if step is not None:
                return step
            own: Any = self._states[OWN]
            self._end = Step((), {**self._states, OWN: {**own, "epoch": self._epoch + 1}}, self._epoch, last=True)
        return self._end

    def _next(self) -> Step | None:
        """The next batch of this share; None, with the states there, at the end of the epoch."""
        graph = self._graph
        while self._skip:
            if graph.ended:
                return None
            graph.skip()
            self._skip -= 1
            self._states = graph.states(self._epoch)
        if graph.ended:
            return None
        step = graph.step()
        if step.epoch != self._epoch:
            return None
        self._states, self._skip = step.states, self._stride - 1
        return step


def _state(place: Place) -> State:
    return {"version": 1, **place._asdict()}


def _place(state: Any) -> Place:
    if not isinstance(state, Mapping) or {key: type(value) for key, value in state.items()} != _TYPES:
        raise StateError(f"{_OPERATOR}: this is no state of a data set: {shown(state)}.")
    if state["version"] != 1:
        raise StateError(f"{_OPERATOR}: the state has version {state['version']}, and this library knows 1.")
    return Place(state["states"], state["skip"], state["workers"], state["ended"])


def made(module: str, name: str) -> type:
    """`Batches` as a class of torch's, which `DataLoader` asks for."""
    import torch.utils.data
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[Outputs] = _refuse
    documented = {"__module__": module, "__qualname__": name, "__doc__": Batches.__doc__}
    return type(name, (Batches, torch.utils.data.IterableDataset), documented)


def _refuse(*_: Any, **__: Any) -> Any:
    hint = "The data set gives whole batches."
    raise ArgumentError("DataLoader", "batch_size", "None with a pytorch.Dataset", "a number", hint)
