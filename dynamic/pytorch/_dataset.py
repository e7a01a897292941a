"""A data set for `torch.utils.data.DataLoader`, whose order and state do not depend on the number of workers.

Each worker process goes through the same batches and makes every n-th of them, from its own number on. So a loader
gives the batches of one process alone, in that order, and the state after a batch is that of a run in one process.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Self

from dynamic import ArgumentError, Batch, OrderWarning, StateMismatch
from dynamic._base.pool import share_processors
from dynamic._base.state import JSON, MOST_COUNTED, State
from dynamic.errors import shown
from dynamic.pipeline._epochs import Epochs, Item, Place, Source, place_of, state_of
from dynamic.pipeline._output import Varying, names, stepped
from dynamic.readers._checks import natural

from ._handover import alone, hand_over_results, in_one
from ._shared import Shared, Worker

__all__ = ["Batches", "Outputs", "Told", "refuse"]

_OPERATOR = "pytorch.Dataset"
_AS_LIST = "dynamic_shape=[{0}] pads it with zeros, and ragged=[{0}] makes it a list of tensors."
#: Classes of Accelerate that deal the batches of one data set out to all processes.
_DEALERS = ("DataLoaderDispatcher", "IterableDatasetShard")


class Outputs(dict[str, Any]):
    """The tensors of a batch under their names, and the state of the data set after it.

    Attributes:
        state: For `Dataset.load_state_dict`, to go on with the batch after this one.
        ends: Whether this is known to be the last batch of its epoch.
    """

    state: State
    ends: bool

    def to(self, device: Any, **how: Any) -> Self:
        """The same batch on a device, with its state: trainers look for this method.

        Args:
            device: As of ``torch.Tensor.to``.
            how: Further arguments of that, such as ``non_blocking=True``.
        """
        moved = type(self)(
            {
                name: [each.to(device, **how) for each in value] if isinstance(value, list) else value.to(device, **how)
                for name, value in self.items()
            }
        )
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

    Use it in ``DataLoader(dataset, batch_size=None, num_workers=n)``. With any n the batches, their order and their
    states, ``batch.state``, are those of one process. After `load_state_dict` a run gives every sample that is left of
    the epoch once, also with other workers.

    Each `iter` begins the next epoch, or the rest of the one whose state was loaded. An epoch is over when its last
    batch was given, or when another begins, however far it has been read.

    Args:
        source: A reader; a list of readers, of which the others have ``order_of=`` the first; or a function without
            arguments that makes one of these or a `Pipeline`. Where workers are not forked, it must be picklable.
        output_map: A name for each output.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        step: Applied to the outputs, in the worker: called with Batches, it returns one, a tuple, or a dict of them,
            whose keys are then the names.
        dynamic_shape: Whether to fill smaller samples with zeros, at the end of each dimension; or the names of the
            outputs to fill. Samples of different shapes are an error otherwise.
        ragged: Names of outputs that become a list with a tensor for each sample, such as boxes.

    Raises:
        ArgumentError: An argument is wrong.
    """

    operator = _OPERATOR  #: whose errors those of a batch are

    def __init__(
        self,
        source: Source,
        output_map: Sequence[str] = ("data", "label"),
        *,
        batch_size: int | None = None,
        step: Callable[..., Any] | None = None,
        dynamic_shape: bool | Collection[str] = False,
        ragged: Collection[str] = (),
    ) -> None:
        self.output_map = names(self.operator, output_map)
        if step is not None and not callable(step):
            raise ArgumentError(self.operator, "step", "a function of Batches", shown(step))
        self._step, self._varying = step, Varying(self.operator, dynamic_shape, ragged)
        self._epochs = Epochs(self.operator, source, batch_size)
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
        """The epoch of the next `iter`, from 0 on: loop over ``range(dataset.epoch, epochs)``."""
        following, start = self._shared.following, self._shared.start
        return self._epochs.epoch(start) + self._shared.begun if following is None else self._epochs.epoch(following)

    @property
    def is_begun(self) -> bool:
        """Whether batches have been made since the place was put."""
        return self._shared.begun

    @property
    def is_loaded(self) -> bool:
        """Whether a state was loaded that no `iter` has begun with yet."""
        return self._loaded and not self._shared.begun

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin an epoch. Loops need not call it.

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
        if self.is_loaded:
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

    def _check_batches_that_are_passed_over(self) -> None:
        """Refuse `skip_first_batches` after a state was loaded, and warn of it where nobody has told the epoch."""
        loader = self._loader_of_accelerate()
        skipped = getattr(loader, "skip_batches", 0)
        if skipped and self.is_loaded:
            hint = "Iterate over the loader itself: load_state has restored its place already."
            expected = "0 after a state of the data set was loaded"
            raise ArgumentError("skip_first_batches", "num_batches", expected, str(skipped), hint)
        if self._epochs.shuffled and not self._told and type(loader).__name__ == "SkipDataLoader":
            text = (
                f"{_OPERATOR}: Accelerate passes over {skipped} batches of epoch {self.epoch}, as no other "
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
        return state_of(place)

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` begin after the batch whose state this is, in any number of workers.

        After the last batch of an epoch that is the next epoch.

        Raises:
            StateError: This is not a state of a data set.
            StateMismatch: It is of another reader, or of one of several workers, where there are not so many now.
        """
        place, worker = place_of(self.operator, state_dict), Worker.here()
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
            share_processors(worker.total)
        loaded, self._own = self._own, None
        if not worker.number:
            self._check_batches_that_are_passed_over()
        if not worker.total:
            place = Place(self._next())
            shared.put(place.states)
            self._now, self._loaded = place, False
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
        if not worker.total:
            shared.begun = True
        for item in rest:
            if item.outputs is None:
                self._end(item, worker)
                return
            found = stepped(
                self.operator, self._step, self.output_map, item.outputs, varying=self._varying, as_list=_AS_LIST
            )
            tensors = self._tensors(found, bool(worker.total))
            shapes = {name: list(found[name].shape) for name in self._varying.ragged}
            _, states, following = item
            del _, item, found  # or their memory would not be the tensors' alone
            batch = Outputs(alone(tensors, shapes) if worker.total else tensors)
            batch.state, batch.ends = state_of(Place(states)), following is not None
            self._now = Place(states, stride - 1, worker.total)
            if following is not None:
                shared.follow(following)
            yield batch

    def _tensors(self, outputs: dict[str, Batch], for_trainer: bool) -> dict[str, Any]:
        """The tensors of outputs; of those that become lists one tensor of all samples, if it goes to the trainer."""
        padded, listed = self._varying.pads, self._varying.ragged
        return {
            name: output.torch(pad=padded(name))
            if name not in listed
            else in_one(output)
            if for_trainer
            else [sample.torch() for sample in output]
            for name, output in outputs.items()
        }

    def _end(self, item: Item, worker: Worker) -> None:
        self._now = Place(item.states, worker.number, worker.total, ended=True) if worker.total else None
        if self._shared.following is None and worker.number == 0:
            self._shared.follow(item.states)

    def __len__(self) -> int:
        """How many batches a whole epoch has, on the shard that has most.

        Raises:
            TypeError: The first source of the pipeline is not a reader.
        """
        return len(self._epochs)

    @property
    def is_sized(self) -> bool:
        """Whether its length is known."""
        try:
            return len(self) >= 0
        except TypeError:
            return False

    def __bool__(self) -> bool:
        return True


class Told:
    """A sampler for trainers: it passes on the epoch that Lightning tells samplers before the first batch.

    Lightning's Trainer does not return to the state of a loader that was saved at the end of an epoch.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[None]:
        """Nothing, for each batch, as torch's own sampler of such data sets."""
        return itertools.repeat(None)

    def set_epoch(self, epoch: int) -> None:
        """As of samplers of PyTorch."""
        self._dataset.set_epoch(epoch)


def refuse(*_: Any, **__: Any) -> Any:
    """Refuse to join batches, as a `collate_fn` of torch."""
    hint = "The data set gives whole batches."
    raise ArgumentError("DataLoader", "batch_size", "None with a pytorch.Dataset", "a number", hint)
