"""Pipelines and readers for TensorFlow: batches through `tf.data`, their place in `tf.train.Checkpoint`.

Import it by name, ``import dynamic.tensorflow``; tensorflow is imported when `Dataset` is first asked for.
"""

from __future__ import annotations

import contextlib
import functools
import json
import weakref
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from dynamic import ArgumentError, Batch, StateError
from dynamic.dtypes import numpy_dtype
from dynamic.errors import shown
from dynamic.pipeline._epochs import Epochs, Item, Source
from dynamic.pipeline._output import named, names

from ._base.locks import new_lock
from ._base.state import JSON, State

if TYPE_CHECKING:
    import tensorflow

__all__ = ["Dataset"]

_OPERATOR = "tensorflow.Dataset"
#: The key under which a batch carries the states after it.
STATE = "state"


class Batches:
    """Batches of a reader or a pipeline through `tf.data`, with a place that `tf.train.Checkpoint` saves and restores.

    Each ``iter`` gives the rest of an epoch, or the next where nothing is left: dicts of tensors, (N, ...). The place
    is that after the batch which was taken last, whatever `tf.data` has made ahead, because each batch carries its
    states. ::

        data = Dataset(lambda: augmented(folder), transform=lambda dataset: dataset.prefetch(2))
        checkpoint = tf.train.Checkpoint(model=model, data=data)

    Args:
        source: A function without arguments that makes a `Pipeline` or a reader; a reader; or a list of readers, of
            which the others have ``order_of=`` the first.
        output_map: A name for each output.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        transform: Applied to the `tf.data.Dataset` of an epoch, such as ``lambda dataset: dataset.prefetch(2)``.
            Its elements are dicts, whose entry "state" must stay as it is, and in its place in the order.
        dynamic_shape: Fill samples that are smaller than the largest of the batch with zeros at the end of each
            dimension; without it such an output is an error.
        ragged: Names of outputs that are to be `tf.RaggedTensor`: all dimensions of the samples, but for channels where
            the layout ends with C, may differ.

    Raises:
        ArgumentError: An argument is wrong.
    """

    def __init__(
        self,
        source: Source,
        output_map: Sequence[str] = ("data", "label"),
        *,
        batch_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        dynamic_shape: bool = False,
        ragged: Collection[str] = (),
    ) -> None:
        self.output_map = names(_OPERATOR, output_map)
        if STATE in self.output_map:
            expected = f"names other than {STATE!r}, where a batch carries its place"
            raise ArgumentError(_OPERATOR, "output_map", expected, shown(list(output_map)))
        if (
            not isinstance(ragged, Collection)
            or isinstance(ragged, str)
            or any(x not in self.output_map for x in ragged)
        ):
            expected = f"some of the names {', '.join(self.output_map)}"
            raise ArgumentError(_OPERATOR, "ragged", expected, shown(ragged))
        if transform is not None and not callable(transform):
            raise ArgumentError(_OPERATOR, "transform", "a function of data sets", shown(transform))
        self._transform, self._dynamic_shape, self._ragged = transform, bool(dynamic_shape), frozenset(ragged)
        self._epochs = Epochs(_OPERATOR, source, batch_size)
        self._states = self._epochs.first
        self._waiting: _Rest | None = None  # the next iteration of tf.data
        self._whole: Any = None  # the tf.data.Dataset of all epochs
        self._channels: dict[str, int] = {}  # of outputs, as the first batch tells

    # -- states -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The state after the batch that was taken last."""
        return {"version": 1, "states": self._states}

    def load_state_dict(self, state_dict: State) -> None:
        """Let the next ``iter`` begin after the batch whose state this is.

        Raises:
            StateError: This is not a state of a data set.
            StateMismatch: It is of another reader or pipeline.
        """
        self._states = self._checked(state_dict)

    def serialize(self) -> str:
        """The state as text, for `tf.train.Checkpoint`."""
        return json.dumps(self.state_dict())

    def deserialize(self, string_value: str | bytes) -> None:
        """Take the state that `tf.train.Checkpoint` restores.

        Raises:
            StateError: This is not a state of a data set.
            StateMismatch: It is of another reader or pipeline.
        """
        try:
            state = json.loads(string_value)
        except ValueError as error:
            raise StateError(f"{_OPERATOR}: this is not a state of a data set: {error}.") from error
        self.load_state_dict(state)

    def _checked(self, state: Any) -> dict[str, JSON]:
        known = isinstance(state, Mapping) and set(state) == {"version", "states"} and state["version"] == 1
        if not known or not isinstance(state["states"], Mapping):
            raise StateError(f"{_OPERATOR}: this is not a state of a data set: {shown(state)}.")
        states: dict[str, JSON] = dict(state["states"])
        self._epochs.check(states)
        return states

    # -- an epoch -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rest of the epoch, or the next where nothing is left; then the place is at the start of the one after."""
        with contextlib.closing(self._rest()) as rest:
            if rest.first is not None:
                self._waiting = rest
                if self._whole is None:
                    dataset = self._made(rest.first)
                    self._whole = dataset if self._transform is None else self._transform(dataset)
                for batch in self._whole:
                    yield self.taken(batch)
            self._states = rest.states

    def _rest(self) -> _Rest:
        rest = _Rest(self._epochs.rest(self._states))
        return _Rest(self._epochs.rest(rest.states)) if rest.first is None else rest

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next ``iter`` goes on with, or begins: ``range(data.epoch, epochs)``."""
        return self._epochs.epoch(self._states) + (self._epochs.left(self._states) == 0)

    def taken(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Note that a batch of `dataset` has been used.

        Args:
            batch: An element of a `tf.data.Dataset` that was made from `dataset`.

        Returns:
            The batch without its state.

        Raises:
            ArgumentError: It has no state: the `transform` has lost it.
        """
        if not isinstance(batch, Mapping) or STATE not in batch:
            expected = f"a function to data sets whose elements are dicts that keep their entry {STATE!r}"
            raise ArgumentError(_OPERATOR, "transform", expected, shown(batch))
        self._states = json.loads(batch[STATE].numpy())
        return {name: value for name, value in batch.items() if name != STATE}

    @property
    def dataset(self) -> tensorflow.data.Dataset:
        """The rest of the epoch as a `tf.data.Dataset`, for one iteration; the next epoch if this one has ended.

        Its elements have an entry "state" more, for `taken`, without which nobody knows where the run is.
        """
        rest = self._rest()
        assert rest.first is not None, "an epoch has a batch"
        self._waiting = rest
        return self._made(rest.first)

    def _made(self, first: Sequence[Batch]) -> tensorflow.data.Dataset:
        """A `tf.data.Dataset` of the waiting batches whenever it is iterated over; all are like the first."""
        import tensorflow

        kinds = {name: self._kind(name, output) for name, output in self._named(first).items()}
        signature = {**kinds, STATE: tensorflow.TensorSpec((), tensorflow.string)}
        made = functools.partial(_made, weakref.ref(self))  # which tensorflow never forgets
        return tensorflow.data.Dataset.from_generator(made, output_signature=signature)

    def _taken_over(self) -> Iterator[dict[str, Any]]:
        rest, self._waiting = self._waiting, None
        if rest is None:
            raise RuntimeError(f"{_OPERATOR}.dataset is for one iteration: take it anew for each epoch.")
        return ({**self._values(outputs), STATE: json.dumps(states)} for outputs, states in rest)

    def _named(self, outputs: Sequence[Batch]) -> dict[str, Batch]:
        varying = self.output_map if self._dynamic_shape else self._ragged
        advice = "dynamic_shape=True pads all with zeros, and ragged=[{0}] makes it a tf.RaggedTensor."
        return named(_OPERATOR, self.output_map, outputs, varying, advice)

    def _values(self, outputs: Sequence[Batch]) -> dict[str, Any]:
        """A batch for `tf.data`: arrays, and RaggedTensors."""
        found = {}
        for name, output in self._named(outputs).items():
            host = output.to_device("cpu")
            rank = self._rank(name, host)
            if not len(host):  # all were skipped
                inner = [self._channels.get(name, 0)] if _has_channels(host) else []
                host = Batch(
                    numpy.zeros((0, *[0] * (host.ndim - len(inner)), *inner), numpy_dtype(host.dtype)), host.layout
                )
            found[name] = ragged_tensor(host, rank) if rank else host.numpy(pad=True)
        return found

    def _rank(self, name: str, output: Batch) -> int:
        """How many dimensions of the samples may differ: none but in RaggedTensors, and there not the channels."""
        return output.ndim - _has_channels(output) if name in self._ragged else 0

    def _kind(self, name: str, output: Batch) -> Any:
        """The common type of all batches of an output, from the first of them."""
        import tensorflow

        extents: list[int | None] = [None] * (1 + output.ndim)
        if _has_channels(output) and len(output):
            extents[-1] = self._channels[name] = output.shape[0][-1]
        rank = self._rank(name, output)
        if rank:
            return tensorflow.RaggedTensorSpec(extents, numpy_dtype(output.dtype), ragged_rank=rank)
        return tensorflow.TensorSpec(extents, numpy_dtype(output.dtype))


class _Rest:
    """The rest of an epoch, whose first batch is known before it is asked for.

    Attributes:
        first: The outputs of the first batch; None if there is none.
        states: Where the next epoch begins, once this one has ended.
    """

    def __init__(self, batches: Generator[Item]) -> None:
        self._batches = batches
        self.first, self.states, _ = next(batches)
        self._lock, self._closed = new_lock(), False

    def __iter__(self) -> Iterator[tuple[tuple[Batch, ...], dict[str, JSON]]]:
        outputs, states = self.first, self.states
        while outputs is not None:
            yield outputs, states
            with self._lock:  # tf.data asks in a thread of its own
                if self._closed:
                    return
                outputs, states, _ = next(self._batches)
        self.states = states
        self.close()

    def close(self) -> None:
        """End it, wherever it is."""
        with self._lock:
            self._closed = True
            self._batches.close()


def _made(data: weakref.ref[Batches]) -> Iterator[dict[str, Any]]:
    """The generator for `tf.data`: a function that does not keep the data set."""
    here = data()
    assert here is not None, "whoever iterates has the data set"
    return here._taken_over()


def _has_channels(output: Batch) -> bool:
    return (output.layout or "").endswith("C")


def ragged_tensor(batch: Batch, rank: int) -> Any:
    """A `tf.RaggedTensor` of samples whose first `rank` dimensions may differ."""
    import tensorflow

    extents = numpy.array(batch.shape, numpy.int64).reshape(len(batch), batch.ndim)
    rows = numpy.ones(len(batch), numpy.int64)
    lengths = []
    for dimension in range(rank):
        lengths.append(numpy.repeat(extents[:, dimension], rows))
        rows = rows * extents[:, dimension]
    parts = [sample.reshape(count, *sample.shape[rank:]) for sample, count in zip(batch.samples, rows, strict=True)]
    inner = batch.dense().shape[1 + rank :] if not parts else ()
    values = numpy.concatenate(parts) if parts else numpy.zeros((0, *inner), numpy_dtype(batch.dtype))
    return tensorflow.RaggedTensor.from_nested_row_lengths(values, lengths, validate=False)


if TYPE_CHECKING:
    Dataset = Batches


def __getattr__(name: str) -> Any:
    """`Dataset`, which has a base class of tensorflow's, is made when it is first asked for."""
    if name != "Dataset":
        raise AttributeError(f"dynamic.tensorflow has no {name!r}")
    import tensorflow

    documented = {"__module__": __name__, "__qualname__": name, "__doc__": Batches.__doc__}
    globals()[name] = type(name, (Batches, tensorflow.train.experimental.PythonState), documented)
    return globals()[name]
