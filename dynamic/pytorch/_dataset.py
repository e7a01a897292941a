"""A data set for `torch.utils.data.DataLoader`, whose order and state do not depend on the number of workers.

Each worker process goes through the same batches and makes every n-th of them, from its own number on. So a loader
gives what one process alone would give, in that order, and the state after a batch is that of a run in one process.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from dynamic import ArgumentError, Batch, OrderWarning, StateError, StateMismatch
from dynamic._base.state import JSON, MOST_COUNTED, State
from dynamic.errors import shown
from dynamic.pipeline._epochs import Epochs, Item, Source
from dynamic.pipeline._output import named, names
from dynamic.readers._checks import natural

from ._handover import alone, hand_over_results
from ._shared import Shared, Worker

__all__ = ["Batches", "Loading", "Outputs", "made"]

_OPERATOR = "pytorch.Dataset"
_TYPES = {"version": int, "states": dict, "skip": int, "workers": int, "ended": bool}
#: Classes of Accelerate that deal the batches of one data set out to all processes.
_DEALERS = ("DataLoaderDispatcher", "IterableDatasetShard")


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

    def to(self, device: Any, **how: Any) -> Self:
        """The same batch on a device, with its state: trainers look for this method.

        Args:
            device: As of ``torch.Tensor.to``.
            how: Further arguments of that, such as ``non_blocking=True``.
        """
        moved = type(self)({name: value.to(device, **how) for name, value in self.items()})
        moved.__dict__.update(self.__dict__)
        return moved

    def __getattr__(self, name: str) -> Any:
        if name == "state":
            raise AttributeError(
                "This batch has no state any more: it is a copy that was made of its tensors alone, as trainers make "
                "when they deal out, join or change batches. Take batch.state before, or save the loader's state."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Batches:
    """A `torch.utils.data.IterableDataset` of whole batches of a reader or a pipeline.

    For ``DataLoader(dataset, batch_size=None, num_workers=n)`` with any n: the batches and their order are those of one
    process, and so is the state that each batch carries, ``batch.state``. So a run goes on with another number of
    workers, and after `load_state_dict` gives every sample that is left of the epoch once.

    Each `iter` begins the next epoch, or the rest of the one whose state was loaded. An epoch is over when its last
    batch was given, or when another begins, however far it has been read.

    Args:
        source: A function without arguments that makes a `Pipeline` or a reader, or a reader. Where workers are not
            forked, it must be one that can be pickled.
        output_map: A name for each output.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        transform: Applied to the outputs, in the worker: called with Batches, it returns one or a tuple.
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
        self._loaded = False  # a state, since the last that was begun
        self._told = False  # the epoch, or a state
        self._shared = Shared(self._epochs.first)
        import torch.distributed

        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._epochs.check_order()  # here, as workers cannot ask the other ranks

    # -- states -------------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next `iter` begins, or goes on with: ``range(dataset.epoch, epochs)``."""
        following, start = self._shared.following, self._shared.start
        return self._epochs.epoch(start) + self._shared.begun if following is None else self._epochs.epoch(following)

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin an epoch, unless it does so, or goes on with that one, by itself.

        Args:
            epoch: 0 or more; as of samplers of PyTorch.

        Raises:
            ArgumentError: A state of another epoch was loaded, the epoch lies before the source's own, or Accelerate is
                about to deal out batches that are one process's own.
        """
        operator = f"{_OPERATOR}.set_epoch"
        natural(operator, "epoch", epoch, 0, MOST_COUNTED)
        self._refuse_dealers()
        self._told = True
        here = self.epoch
        if epoch == here:
            return
        if self._loaded and not self._shared.begun:
            hint = "Let the loader begin there: loader.set_epoch(dataset.epoch) with Accelerate."
            raise ArgumentError(operator, "epoch", f"{here}, the epoch of the loaded state", str(epoch), hint)
        if self._shared.begun and epoch == self._epochs.epoch(self._shared.start):
            self._warn_of_repetition(f"{operator}: epoch {epoch}")
        first = self._epochs.first
        if epoch < (least := self._epochs.epoch(first)):
            raise ArgumentError(operator, "epoch", f"at least {least}, the epoch of the source", str(epoch))
        self._now = None
        self._shared.put(first if epoch == least else self._epochs.start(first, epoch))

    def _warn_of_repetition(self, epoch: str) -> None:
        if self._epochs.shuffled:
            hint = "Accelerate counts an epoch only when it is asked for one batch more than there are."
            warnings.warn(f"{epoch} comes again, in the same order. {hint}", stacklevel=3)

    def _refuse_dealers(self) -> None:
        """Refuse to be dealt out where that loses samples, by the loader that Accelerate is iterating over."""
        loader = self._loader_of_accelerate()
        names = [kind.__name__ for each in (loader, getattr(loader, "dataset", None)) for kind in type(each).__mro__]
        dealer = next((name for name in names if name in _DEALERS), None)
        if dealer is None:
            return
        shards = self._epochs.num_shards
        if shards > 1 or dealer != _DEALERS[0]:
            hint = (
                "Leave the loader out of Accelerate's prepare() and give the reader shard='torch': so each process "
                "reads its own samples, and batches keep their state."
            )
            got = f"one of {shards} shards, which a {dealer} would share out again"
            expected = "a loader of all samples in prepare(), with dispatch_batches=True"
            raise ArgumentError(_OPERATOR, "source", expected, got, hint)

    def _loader_of_accelerate(self) -> Any:
        """The loader of this data set that Accelerate says is being iterated over; None where it says so of none."""
        state = sys.modules.get("accelerate.state")
        loader = None if state is None else state.GradientState().active_dataloader
        data = getattr(loader, "dataset", None)
        return loader if data is self or getattr(data, "dataset", None) is self else None

    def _warn_where_batches_are_passed_over(self) -> None:
        """Tell of a run that is resumed by `skip_first_batches`, where nobody has told its epoch."""
        loader = self._loader_of_accelerate()
        if self._epochs.shuffled and not self._told and type(loader).__name__ == "SkipDataLoader":
            text = (
                f"{_OPERATOR}: Accelerate passes over {loader.skip_batches} batches of epoch {self.epoch}, as no other "
                "was told. A run that goes on in another epoch repeats samples and leaves others out: hand the "
                "loader to accelerator.prepare(), which tells the epoch, or call set_epoch()."
            )
            warnings.warn(text, OrderWarning, stacklevel=3)

    def state_dict(self) -> State:
        """The state after the batch that was made last in this process.

        Raises:
            RuntimeError: The batches are made in workers, ahead: take the ``state`` of the batch that was used last.
        """
        worker = Worker.here()
        place = self._now or self._own
        if place is None:
            if not worker.total and self._shared.used:
                raise RuntimeError(
                    "pytorch.Dataset: workers make the batches, ahead of whoever takes them. Take the "
                    "state of the batch that was used last: batch.state."
                )
            place = Place(self._next(), worker.number, worker.total)
        return _state(place)

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` begin after the batch whose state this is, in any number of workers.

        After the last batch of an epoch that is the next epoch.

        Raises:
            StateError: This is not a state of a data set.
            StateMismatch: It is of another reader, or of one of several workers, where there are not so many now.
        """
        place, worker = _place(state_dict), Worker.here()
        self._epochs.check(place.states)
        if place.workers and place.workers != worker.total:
            difference = f"workers: {place.workers} in the state, {worker.total} here"
            hint = "The state of a batch, batch.state, is good for any number of workers."
            raise StateMismatch(
                f"{_OPERATOR}: the state is of one of several workers. {difference}. {hint}", [difference]
            )
        states = place.states
        if not place.workers and self._epochs.left(states) == 0:
            states = self._epochs.start(states)
        self._now, self._loaded, self._told = None, True, True
        if worker.total:
            self._own = place if place.workers else Place(states, worker.number, worker.total)
        else:
            self._shared.put(states)

    def _next(self) -> dict[str, JSON]:
        """Where the next iteration begins."""
        if (following := self._shared.following) is not None:
            return following
        start = self._shared.start
        if not self._shared.begun:
            return start
        return self._epochs.start(start if self._shared.used or self._now is None else self._now.states)

    # -- an epoch -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Outputs]:
        """The batches of an epoch that are this process's, from the place that was loaded or the start."""
        worker, shared = Worker.here(), self._shared
        if worker.total:
            hand_over_results()
        loaded, self._own = self._own, None
        if not worker.number:
            self._warn_where_batches_are_passed_over()
        if not worker.total:
            place = Place(self._next())
            shared.put(place.states)
            self._now, self._loaded = None, False
        elif loaded is None:
            place = self._now = Place(shared.begin(worker, self._next), worker.number, worker.total)
        else:
            shared.begin(worker, lambda: loaded.states)
            place = self._now = loaded
        if place.ended:
            return iter(())
        rest = self._epochs.rest(place.states, place.skip, max(worker.total, 1))
        if loaded is None:
            return self._epoch(rest, worker)
        # A loader whose state says that it has ended begins its next epoch at once, in other workers. By then all
        # workers that have nothing left of this one must have said so: they do it before they are asked for a batch.
        first = next(rest)
        if first.outputs is None:
            self._end(first, worker)
            return iter(())
        return self._epoch(itertools.chain([first], rest), worker)

    def _epoch(self, rest: Iterator[Item], worker: Worker) -> Iterator[Outputs]:
        stride, shared = max(worker.total, 1), self._shared
        for item in rest:
            if item.outputs is None:
                self._end(item, worker)
                return
            varying = self.output_map if self._dynamic_shape else ()
            found = named(_OPERATOR, self.output_map, self._transformed(item.outputs), varying)
            tensors = {name: output.torch(pad=self._dynamic_shape) for name, output in found.items()}
            _, states, following = item
            del _, item, found  # or their memory would not be the tensors' alone
            batch = Outputs(alone(tensors) if worker.total else tensors)
            batch.state = _state(Place(states))
            self._now = Place(states, stride - 1, worker.total)
            if not worker.total:
                shared.begun = True
            if following is not None:
                shared.follow(following)
            yield batch

    def _end(self, item: Item, worker: Worker) -> None:
        self._now = Place(item.states, worker.number, worker.total, ended=True) if worker.total else None
        if self._shared.following is None and worker.number == 0:
            self._shared.follow(item.states)

    def _transformed(self, outputs: Sequence[Batch]) -> Sequence[Batch]:
        if self._transform is None:
            return outputs
        result = self._transform(*outputs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        if not all(isinstance(each, Batch) for each in results):
            raise ArgumentError(_OPERATOR, "transform", "a function that gives Batches", shown(result))
        return results

    def __len__(self) -> int:
        """How many batches a whole epoch has, on the shard that has most.

        Raises:
            TypeError: The first source of the pipeline is not a reader.
        """
        return len(self._epochs)

    def __bool__(self) -> bool:
        return True


def _state(place: Place) -> State:
    return {"version": 1, **place._asdict()}


def _place(state: Any) -> Place:
    if not isinstance(state, Mapping) or {key: type(value) for key, value in state.items()} != _TYPES:
        raise StateError(f"{_OPERATOR}: this is not a state of a data set: {shown(state)}.")
    if state["version"] != 1:
        raise StateError(f"{_OPERATOR}: the state has version {state['version']}; this library reads 1.")
    return Place(state["states"], state["skip"], state["workers"], state["ended"])


class Told:
    """A sampler for trainers: it passes on the epoch that Lightning tells samplers before the first batch.

    Lightning does not return to the state of a loader that was saved at the end of an epoch.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[None]:
        """Nothing, for each batch, as torch's own sampler of such data sets."""
        return itertools.repeat(None)

    def set_epoch(self, epoch: int) -> None:
        """As of samplers of PyTorch."""
        self._dataset.set_epoch(epoch)


class Loading:
    """A `torch.utils.data.DataLoader` of a `Dataset`, whose state is that after the batch which was taken last.

    So trainers that save the state of their loader go on exactly, in the middle of an epoch too, with any number of
    workers. With several processes the state of one of them is good for all.

    Args:
        dataset: A `Dataset`.
        num_workers: How many processes make batches; with 0 this one does.
        arguments: Further ones of ``torch.utils.data.DataLoader``. A `batch_size` is not among them, as the data set
            gives whole batches.

    Raises:
        ArgumentError: An argument is wrong.
    """

    dataset: Batches

    def __init__(self, dataset: Batches, num_workers: int = 0, **arguments: Any) -> None:
        operator = "pytorch.DataLoader"
        if not isinstance(dataset, Batches):
            raise ArgumentError(operator, "dataset", "a dynamic.pytorch.Dataset", shown(dataset))
        if arguments.setdefault("batch_size") is not None:
            hint = "The data set gives whole batches."
            raise ArgumentError(operator, "batch_size", "left out", shown(arguments["batch_size"]), hint)
        if not arguments.get("in_order", True):
            raise ArgumentError(operator, "in_order", "True, as a place is one in an order", "False")
        super().__init__(dataset, num_workers=num_workers, **arguments)  # type: ignore[call-arg] # of torch's class
        self.__dict__["sampler"] = Told(dataset)  # torch keeps this attribute from being set
        self._taken: State | None = None

    def __iter__(self) -> Iterator[Outputs]:
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        for batch in super().__iter__():  # type: ignore[misc] # of torch's class
            self._taken = batch.state
            yield batch
        self._taken = None

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin an epoch; see `Dataset.set_epoch`."""
        self.dataset.set_epoch(epoch)
        self._taken = None

    def state_dict(self) -> State:
        """The state after the batch that was taken last, whatever the workers have made ahead."""
        return self._taken or _state(Place(self.dataset._next()))

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` begin after the batch whose state this is; see `Dataset.load_state_dict`."""
        self.dataset.load_state_dict(state_dict)
        self._taken = None


def made(module: str, name: str) -> type:
    """A class of this module as one of torch's, which its loaders and trainers ask for."""
    import torch.utils.data
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[Outputs] = _refuse
    body, base = {
        "Dataset": (Batches, torch.utils.data.IterableDataset),
        "DataLoader": (Loading, torch.utils.data.DataLoader),
    }[name]
    return type(name, (body, base), {"__module__": module, "__qualname__": name, "__doc__": body.__doc__})


def _refuse(*_: Any, **__: Any) -> Any:
    hint = "The data set gives whole batches."
    raise ArgumentError("DataLoader", "batch_size", "None with a pytorch.Dataset", "a number", hint)
