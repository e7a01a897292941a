"""`Loader`, which makes batches for JAX ahead, with an exact state, and `as_jax`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from dynamic import ArgumentError, Batch, Tensor
from dynamic._base.ahead import Ahead
from dynamic.errors import shown
from dynamic.pipeline._epochs import Resumable, Source, States
from dynamic.pipeline._output import Varying, names, stepped
from dynamic.readers._checks import natural

if TYPE_CHECKING:
    import jax

__all__ = ["Loader", "as_jax"]

_OPERATOR = "jax.Loader"


def as_jax(data: Batch | Tensor, *, pad: bool = False) -> jax.Array:
    """Return an array of JAX: (N, ...) of a Batch, or the elements of a Tensor. It is ``data.jax()`` as a function.

    Args:
        data: A Batch or a Tensor.
        pad: Whether to fill smaller samples with zeros, at the end of each dimension.

    Returns:
        An array of the same dtype on JAX's default device, or on the GPU where the data is.

    Raises:
        ArgumentError: The dtype has 64 bits, and ``jax_enable_x64`` is not set: JAX would halve it in silence.
        ValueError: The shapes differ, and `pad` is False.
    """
    if not isinstance(data, (Batch, Tensor)):
        raise ArgumentError("jax.as_jax", "data", "a Batch or a Tensor", shown(data))
    return data.jax(pad) if isinstance(data, Batch) else data.jax()


class Loader(Resumable):
    """Batches of a reader or a pipeline as dicts of JAX arrays, made ahead by a thread, with an exact state.

    The state after the batch taken last is JSON, which Orbax saves beside the weights. A run goes on with another
    number of processes or samples per batch, and gives every sample that is left of the epoch once. ::

        reader = ndd.readers.File(file_root="photos", random_shuffle=True, seed=7, last_batch="drop")
        loader = Loader(reader, step, batch_size=64, sharding=NamedSharding(mesh, PartitionSpec("data")))
        for epoch in range(loader.epoch, epochs):
            for batch in loader:
                training = train(training, batch["data"], batch["label"].ravel())

    Each `iter` begins the next epoch, or the rest of the one whose state was loaded. An epoch is over when its last
    batch was given, or when another begins, however far it has been read.

    Args:
        source: A reader; a list of readers, of which the others have ``order_of=`` the first; or a function without
            arguments that makes one of these or a `Pipeline`.
        step: A function of the outputs of all readers, called in the thread. It returns a Batch, a tuple, or a dict,
            whose keys are the names.
        batch_size: Samples in a batch of a reader; by default its `max_batch_size`.
        output_map: A name for each output.
        dynamic_shape: Whether to fill smaller samples with zeros, at the end of each dimension; or the names of the
            outputs to fill. Samples of different shapes are an error otherwise.
        sharding: A `jax.sharding.Sharding` of the global batch, of which the batch here is this process's part; by
            default an array is on JAX's default device.
        depth: The number of batches that are made ahead; with 0 there is no thread.

    Raises:
        ArgumentError: An argument is wrong.
    """

    def __init__(
        self,
        source: Source,
        step: Callable[..., Any] | None = None,
        *,
        batch_size: int | None = None,
        output_map: Sequence[str] = ("data", "label"),
        dynamic_shape: bool | Collection[str] = False,
        sharding: jax.sharding.Sharding | None = None,
        depth: int = 2,
    ) -> None:
        output_map = names(_OPERATOR, output_map)
        if step is not None and not callable(step):
            raise ArgumentError(_OPERATOR, "step", "a function of Batches", shown(step))
        self._depth = natural(_OPERATOR, "depth", depth, 0)
        super().__init__(_OPERATOR, source, batch_size)
        self._arrays = _Arrays(step, output_map, Varying(_OPERATOR, dynamic_shape), sharding, self._epochs.batch_size)
        if sharding is not None:
            self._epochs.check_order()

    def __iter__(self) -> Iterator[dict[str, jax.Array]]:
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        self._states, self._begun = self._next(), True
        ahead = Ahead(functools.partial(_made, self._epochs.rest(self._states), self._arrays), self._depth)
        try:
            ahead.start()
            while True:
                arrays, states = ahead.take()
                self._states, self._begun = states, arrays is not None
                if arrays is None:
                    return
                yield arrays
                del arrays  # or they would stay here while the next are made
        finally:
            ahead.close()


class _Arrays:
    """Makes the arrays of a batch.

    Args:
        step: As of `Loader`, and the next three.
        output_map: The names of outputs.
        varying: Those whose samples may differ in shape.
        sharding: Of the global batch.
        batch_size: Samples in a batch; None where that is not known.
    """

    def __init__(
        self,
        step: Callable[..., Any] | None,
        output_map: Sequence[str],
        varying: Varying,
        sharding: jax.sharding.Sharding | None,
        batch_size: int | None,
    ) -> None:
        self._step, self._output_map, self._varying = step, output_map, varying
        self._sharding, self._batch_size = sharding, batch_size

    def __call__(self, outputs: Sequence[Batch]) -> dict[str, jax.Array]:
        found = stepped(_OPERATOR, self._step, self._output_map, outputs, varying=self._varying)
        return {name: self._array(output, self._varying.pads(name)) for name, output in found.items()}

    def _array(self, output: Batch, pad: bool) -> jax.Array:
        if self._sharding is None:
            return output.jax(pad)
        import jax

        size = self._batch_size = self._batch_size or len(output)
        if len(output) != size:
            hint = "Give the reader last_batch='drop' or 'pad': all processes and devices share each batch evenly."
            expected, got = f"batches of {size} samples with a sharding", f"one of {len(output)}"
            raise ArgumentError(_OPERATOR, "source", expected, got, hint)
        local = numpy.asarray(output.to_device("cpu").jax(pad))
        return jax.make_array_from_process_local_data(self._sharding, local)


def _made(rest: Iterator[Any], arrays: _Arrays) -> tuple[dict[str, jax.Array] | None, States]:
    """The next batch and the states after it; None for the batch after the last."""
    outputs, states, _ = next(rest)
    return None if outputs is None else arrays(outputs), states
