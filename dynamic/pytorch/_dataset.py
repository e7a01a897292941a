"""A data set for `torch.utils.data.DataLoader`, whose order and state do not depend on the number of workers.

Each worker process goes through the same batches and makes every n-th of them, from its own number on. So a loader
gives what one process alone would give, in that order, and the state after a batch is that of a run in one process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dynamic import ArgumentError, Batch, StateError, StateMismatch
from dynamic._state import JSON, State
from dynamic.errors import shown
from dynamic.pipeline._epochs import Epochs, Source
from dynamic.pipeline._output import named, names

from ._shared import Shared, Worker

__all__ = ["Batches", "Outputs", "made"]

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
    unless a state is loaded, or workers had read it to its end: what was taken, nobody tells them.

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
        if transform is not None and not callable(transform):
            raise ArgumentError(_OPERATOR, "transform", "a function of Batches", shown(transform))
        self._transform, self._dynamic_shape = transform, bool(dynamic_shape)
        self._epochs = Epochs(_OPERATOR, source, batch_size)
        self._own: Place | None = None  # of this process alone
        self._now: Place | None = None  # after the batch that was made last in this process
        self._shared = Shared(self._epochs.first)

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
        self._epochs.check(place.states)
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
        begun = Place(self._shared.begin(worker), worker.number, worker.total)
        loaded, self._own = self._own, None
        place = loaded or begun
        self._now = place if worker.total else None
        rest: Iterator[Any] = iter([(None, place.states)])
        if not place.ended:
            rest = self._epochs.rest(place.states, place.skip, max(worker.total, 1))
        if loaded is None:
            return self._epoch(rest, worker)
        # A loader whose state says that it has ended begins its next epoch at once, in other workers. By then all
        # workers that have nothing left of this one must have said so: they do it before they are asked for a batch.
        first = next(rest)
        if first[0] is None:
            self._end(first[1], worker)
            return iter(())
        return self._epoch(itertools.chain([first], rest), worker)

    def _end(self, states: dict[str, JSON], worker: Worker) -> None:
        self._shared.end(worker, states)
        self._now = Place(states, worker.number, worker.total, ended=True) if worker.total else None

    def _epoch(self, rest: Iterator[Any], worker: Worker) -> Iterator[Outputs]:
        stride = max(worker.total, 1)
        for outputs, states in rest:
            if outputs is None:
                self._end(states, worker)
                return
            varying = self.output_map if self._dynamic_shape else ()
            found = named(_OPERATOR, self.output_map, self._transformed(outputs), varying)
            batch = Outputs({name: output.torch(pad=self._dynamic_shape) for name, output in found.items()})
            batch.state = _state(Place(states))
            self._now = Place(states, stride - 1, worker.total)
            yield batch

    def _transformed(self, outputs: Sequence[Batch]) -> Sequence[Batch]:
        if self._transform is None:
            return outputs
        result = self._transform(*outputs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        if not all(isinstance(each, Batch) for each in results):
            raise ArgumentError(_OPERATOR, "transform", "a function that gives Batches", shown(result))
        return results

    def __len__(self) -> int:
        """How many batches an epoch of the reader has; a TypeError for a pipeline, which tells that as it runs."""
        return len(self._epochs)

    def __bool__(self) -> bool:
        return True


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
