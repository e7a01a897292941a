"""The loader for PyTorch: torch's own, with workers and pinned memory, and with an exact state."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from dynamic import ArgumentError
from dynamic._base.state import State
from dynamic.errors import shown
from dynamic.pipeline._epochs import Place, Source, state_of

from ._dataset import Batches, Outputs, Told, refuse

__all__ = ["Loading", "made"]

_OPERATOR = "pytorch.Loader"
#: Arguments of torch's loader for single samples, and their like here.
_NOT_OF_BATCHES = {
    "batch_sampler": "The reader has the order.",
    "collate_fn": "The step makes batches.",
    "drop_last": "Give the reader last_batch='drop'.",
    "sampler": "The reader has the order.",
    "shuffle": "Give the reader random_shuffle=True.",
}


class Loading:
    """A `torch.utils.data.DataLoader` of whole batches, with an exact state after each of them.

    A run goes on after any batch, with another number of workers, processes or samples per batch, and gives every
    sample that is left of the epoch once. Trainers save and restore the loader by themselves. With several processes
    give the reader ``shard="torch"``: each reads its own samples, and the state of one restores all. ::

        def step(jpegs, labels):
            images = ndd.random_resized_crop(ndd.decoders.image(jpegs), size=(224, 224), rng=rng.keyed(jpegs))
            return ndd.crop_mirror_normalize(images, mean=MEAN, std=STD), labels

        reader = ndd.readers.File(file_root="photos", random_shuffle=True, seed=7, scalar_labels=True)
        loader = Loader(reader, step, batch_size=64, num_workers=2, pin_memory=True)
        for epoch in range(loader.epoch, epochs):
            for batch in loader:
                train(batch["data"], batch["label"])

    Each `iter` begins the next epoch, or the rest of the one whose state was loaded. An epoch is over when its last
    batch was given, or when another begins, however far it has been read.

    Args:
        dataset: A reader; a list of readers, of which the others have ``order_of=`` the first; a function without
            arguments that makes one of these or a `Pipeline`; or a `Dataset`, which has the next five arguments itself.
        step: A function of the outputs of all readers, called in the worker. It returns a Batch, a tuple, or a dict,
            whose keys are the names.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        output_map: A name for each output.
        dynamic_shape: Whether to fill smaller samples with zeros, at the end of each dimension; or the names of the
            outputs to fill. Samples of different shapes are an error otherwise.
        ragged: Names of outputs that become a list with a tensor for each sample, such as boxes.
        num_workers: The number of processes that make batches; they share the processors. With 0 this one does.
        arguments: Further ones of ``torch.utils.data.DataLoader``, such as `pin_memory`, `persistent_workers` and
            `prefetch_factor`.

    Raises:
        ArgumentError: An argument is wrong.
    """

    dataset: Batches
    num_workers: int
    pin_memory: bool

    def __init__(
        self,
        dataset: Batches | Source,
        step: Callable[..., Any] | None = None,
        *,
        batch_size: int | None = None,
        output_map: Sequence[str] | None = None,
        dynamic_shape: bool | Collection[str] = False,
        ragged: Collection[str] = (),
        num_workers: int = 0,
        **arguments: Any,
    ) -> None:
        of_dataset = {
            "step": step,
            "batch_size": batch_size,
            "output_map": output_map,
            "dynamic_shape": dynamic_shape,
            "ragged": ragged or None,
        }
        given = {name: value for name, value in of_dataset.items() if value is not None and value is not False}
        if not isinstance(dataset, Batches):
            from dynamic.pytorch import Dataset

            made = Dataset.__new__(Dataset)
            made.operator = _OPERATOR  # whose errors those of its arguments are
            Dataset.__init__(made, dataset, **given)  # type: ignore[arg-type] # by their names
            dataset = made
        elif given:
            name, value = next(iter(given.items()))
            raise ArgumentError(_OPERATOR, name, "left out", shown(value), "The data set has it.")
        if not arguments.get("in_order", True):
            raise ArgumentError(_OPERATOR, "in_order", "True, as a place is one in an order", "False")
        from torch.utils.data import default_convert

        for name in _NOT_OF_BATCHES.keys() & arguments.keys():
            if arguments[name] not in (None, False, default_convert):  # which trainers pass on
                raise ArgumentError(_OPERATOR, name, "left out", shown(arguments[name]), _NOT_OF_BATCHES[name])
        # torch draws a seed of the workers at each `iter`. From the default generator that would change the draws of a
        # trainer, such as of dropout, which begins an epoch in its midst.
        arguments.setdefault("generator", own_generator())
        super().__init__(dataset, batch_size=None, num_workers=num_workers, **arguments)  # type: ignore[call-arg] # of torch's class
        self.__dict__["sampler"] = Counted(dataset)  # torch keeps this attribute from being set
        self._taken: State | None = None
        self._iterated = False

    @property
    def epoch(self) -> int:
        """The epoch of the next `iter`, from 0 on: loop over ``range(loader.epoch, epochs)``."""
        return self.dataset.epoch

    def __iter__(self) -> Iterator[Outputs]:
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        self._taken, self._iterated = None, True
        return self._batches()

    def _batches(self) -> Iterator[Outputs]:
        """The same. Nothing begins before the first is asked for: until then Lightning tells the epoch."""
        self._taken = state_of(Place(self.dataset._next()))
        try:
            for batch in super().__iter__():  # type: ignore[misc] # of torch's class
                self._taken = batch.state
                yield batch
        except Exception as error:
            if self.num_workers:  # the traceback in the worker is in the message
                error.__traceback__ = None  # torch's frames refer to it, and would keep workers until a collection
            raise
        self._taken = state_of(Place(self.dataset._next()))

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin an epoch. Loops need not call it.

        Args:
            epoch: 0 or more.

        Raises:
            ArgumentError: A state of another epoch was loaded, or the epoch lies before the source's own.
        """
        self.dataset.set_epoch(epoch)
        self._taken = None

    def state_dict(self) -> State:
        """Return the state after the batch taken last. Batches that workers made ahead do not count.

        Returns:
            JSON values, of about a kilobyte for a reader.

        Raises:
            RuntimeError: Another loader takes the batches of the data set, such as one of `skip_first_batches`.
        """
        if not self._iterated and self.dataset.is_begun:
            raise RuntimeError(
                f"{_OPERATOR}: another loader takes the batches of this data set. Take the state of the batch that was "
                "used last, batch.state, or load a state and iterate over this loader."
            )
        return self._taken or state_of(Place(self.dataset._next()))

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next `iter` go on after the batch of a state. After a last batch, that is the next epoch.

        Args:
            state_dict: A result of `state_dict`, with any number of workers, ranks and samples per batch.

        Raises:
            StateError: This is not a state of a loader.
            StateMismatch: It is of another reader or pipeline.
        """
        self.dataset.load_state_dict(state_dict)
        self._taken = None

    # -- Accelerate ---------------------------------------------------------------------------------------------------

    #: Accelerate's `save_state` and `load_state` ask loaders for their state that say so.
    use_stateful_dataloader = True

    @property
    def _is_accelerate_prepared(self) -> bool:
        """True, which Accelerate's `prepare` asks for: else it makes a loader of its own, without a state."""
        if "accelerate" in sys.modules and not isinstance(self, Prepared):
            self.__class__ = prepared(type(self))  # type: ignore[arg-type] # hashable
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        pass


class Prepared(Loading):
    """A loader that places its batches on the process's device and tells Accelerate where an epoch ends.

    It is one of Accelerate's own, `DataLoaderShard`: `skip_first_batches` makes another of its data set, which can be
    told an epoch.
    """

    #: As `skip_first_batches` reads them.
    device = rng_types = synchronized_generator = None
    iteration = 0
    end_of_dataloader, remainder = False, -1

    @property  # type: ignore[misc] # Accelerate's own class names that of a loader inside
    def __class__(self) -> Any:
        return type(self)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __iter__(self) -> Iterator[Outputs]:
        """The batches of the next epoch, or the rest of the one whose state was loaded, on the process's device."""
        from accelerate.state import GradientState, PartialState

        process, shards = PartialState(), self.dataset._epochs.num_shards
        if process.num_processes > 1 and shards == 1:
            hint = "Give it shard='torch': Accelerate leaves a Loader as it is, and each process reads its own samples."
            expected, got = f"of a reader with {process.num_processes} shards", "one of all samples in each process"
            raise ArgumentError(_OPERATOR, "dataset", expected, got, hint)
        return self._placed(super().__iter__(), GradientState(), process.device)

    def _placed(self, batches: Iterator[Outputs], gradients: Any, device: Any) -> Iterator[Outputs]:
        self.end_of_dataloader, self.remainder = False, -1
        gradients._add_dataloader(self)
        try:
            for batch, ends in self._with_ends(batches):
                self.end_of_dataloader, self._taken = ends, batch.state
                yield batch.to(device, non_blocking=self.pin_memory)
            self._taken = None
        finally:
            gradients._remove_dataloader(self)

    def _with_ends(self, batches: Iterator[Outputs]) -> Iterator[tuple[Outputs, bool]]:
        """Batches, and whether each is the last of its epoch. A source that ends by itself is asked for one more."""
        if self.dataset.is_sized:
            yield from ((batch, batch.ends) for batch in batches)
            return
        before = next(batches, None)
        for batch in batches:
            assert before is not None
            yield before, False
            before = batch
        if before is not None:
            yield before, True


@functools.cache
def prepared(kind: Any) -> type:
    """The class of a loader, as one of Accelerate's."""
    from accelerate.data_loader import DataLoaderShard

    documented = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (Prepared, kind, DataLoaderShard), documented)


_loaders = itertools.count()


def own_generator() -> Any:
    """A generator for the seeds of workers, other than that of any loader before. Its seed follows torch's own."""
    import torch

    return torch.Generator().manual_seed((torch.initial_seed() + next(_loaders)) % 2**63)


class Counted(Told):
    """The same for a loader. Lightning's Fabric counts epochs from 0 in each process: after a state, from its epoch."""

    _first = 0  #: the epoch that the trainer calls 0

    def set_epoch(self, epoch: int) -> None:
        """As of samplers of PyTorch."""
        if self._dataset.is_loaded:
            self._first = self._dataset.epoch - epoch
        self._dataset.set_epoch(self._first + epoch)


def made(module: str, name: str) -> type:
    """A class of this package as one of torch's, which its loaders and trainers ask for."""
    import torch.utils.data
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[Outputs] = refuse
    body, base = {
        "Dataset": (Batches, torch.utils.data.IterableDataset),
        "Loader": (Loading, torch.utils.data.DataLoader),
    }[name]
    return type(name, (body, base), {"__module__": module, "__qualname__": name, "__doc__": body.__doc__})
