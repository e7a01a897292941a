"""DALI's iterators for JAX: batches of pipelines as dicts of arrays, epoch by epoch; functions that make them."""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy

from dynamic import ArgumentError
from dynamic._base.docstrings import described_as
from dynamic._base.locks import new_lock
from dynamic.devices import gpu_count
from dynamic.errors import shown
from dynamic.pipeline import Pipeline, pipeline_def
from dynamic.pipeline._iterators import Iterating, LastBatchPolicy
from dynamic.pipeline._run import Outputs

if TYPE_CHECKING:
    import jax

__all__ = [
    "DALIGenericIterator",
    "DALIGenericPeekableIterator",
    "data_iterator",
    "get_spec_for_array",
    "peekable_data_iterator",
]


class DALIGenericIterator(Iterating):
    """Gives the batches of pipelines as dicts of JAX arrays.

    With `reader_name` an epoch is that of the pipelines' first reader, and exact: every sample comes once, and all
    shards make equally many batches. Without it, and without `size`, it goes on until a source ends. `Loader` does the
    same with fewer arguments.

    It goes on from pipelines that were made with ``checkpoint=``, also in the middle of an epoch, which then ends where
    it would have.

    Args:
        pipelines: A `Pipeline`, or a list of them, one for each device of this process.
        output_map: A name for each output.
        size: Samples in an epoch, of all pipelines together, where these have no reader but endless sources.
        reader_name: Name of the first reader.
        auto_reset: Begin the next epoch by itself: "yes" or True; else ``reset()`` or a new ``iter()`` does.
        last_batch_padded: Makes no difference: padding follows from `last_batch_policy`.
        last_batch_policy: FILL or DROP, or its name.
        prepare_first_batch: Begin to make batches now, not when the first is asked for.
        sharding: A `jax.sharding.Sharding` of the global batch, of which the batches of the pipelines, one after the
            other, are this process's part.
        pmap_compatible: Give arrays a first dimension for the pipelines, as ``jax.pmap`` takes them; several pipelines
            without `sharding` always do.
        devices: Those that such arrays are put on, one for each pipeline; by default all are on JAX's default device.
        dynamic_shape: Fill samples that are smaller than the largest of the batch with zeros at the end of each
            dimension; without it such an output is an error.

    Raises:
        ArgumentError: An argument is wrong.
        StateError: A checkpoint has no state of an iterator where that should be.
        StateMismatch: The pipelines come from checkpoints that do not belong together.
    """

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | Literal["yes", "no"] | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy | str = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        sharding: jax.sharding.Sharding | None = None,
        pmap_compatible: bool | None = None,
        *,
        devices: Sequence[jax.Device] | None = None,
        dynamic_shape: bool = False,
    ) -> None:
        super().__init__(
            pipelines,
            output_map,
            size,
            reader_name,
            auto_reset,
            last_batch_policy=last_batch_policy,
            dynamic_shape=dynamic_shape,
            last_batch_padded=last_batch_padded,
            prepare_first_batch=prepare_first_batch,
        )
        if self._last_batch_policy is LastBatchPolicy.PARTIAL:
            expected = "FILL or DROP: arrays of one shape for all batches"
            raise ArgumentError(self._operator, "last_batch_policy", expected, shown(last_batch_policy))
        if sharding is not None and devices is not None:
            raise ArgumentError(self._operator, "devices", "left out with sharding=", shown(devices))
        if devices is not None and len(devices) != len(self._pipelines):
            expected = f"one for each of the {len(self._pipelines)} pipelines"
            raise ArgumentError(self._operator, "devices", expected, str(len(devices)))
        several = len(self._pipelines) > 1 if pmap_compatible is None else pmap_compatible
        self._sharding, self._devices_of_pipelines = sharding, devices
        self._stacks = sharding is None and (several or (devices is not None and pmap_compatible is None))

    def __next__(self) -> dict[str, jax.Array]:
        """The next batch.

        Raises:
            StopIteration: The epoch has ended.
        """
        found: dict[str, jax.Array] = super().__next__()
        return found

    def _tensors(self, outputs: Outputs) -> dict[str, Any]:
        return {name: output.jax(self._dynamic_shape) for name, output in self._named(outputs).items()}

    def _repeated(self, value: Any, size: int) -> Any:
        import jax.numpy

        missing = size - len(value)
        return jax.numpy.concatenate([value, *[value[-1:]] * missing]) if missing > 0 and len(value) else value

    def _result(self, dicts: list[dict[str, Any]]) -> Any:
        if len(dicts) == 1 and self._sharding is None and not self._stacks:
            return dicts[0]
        return {name: self._joined([each[name] for each in dicts]) for name in dicts[0]}

    def _joined(self, shards: list[jax.Array]) -> jax.Array:
        """One array of those of all pipelines."""
        import jax

        if len({shard.shape for shard in shards}) > 1:
            got = ", ".join(str(shard.shape) for shard in shards)
            raise ArgumentError(self._operator, "pipelines", "batches of one shape at a time", got)
        local = numpy.stack([numpy.asarray(shard) for shard in shards])
        if self._sharding is not None:
            whole = local.reshape(-1, *local.shape[2:])
            return jax.make_array_from_process_local_data(self._sharding, whole)
        if self._devices_of_pipelines is None:
            return jax.device_put(local)
        mesh = jax.sharding.Mesh(numpy.array(self._devices_of_pipelines), ("device",))
        return jax.device_put(local, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("device")))


@described_as(DALIGenericIterator)
class DALIGenericPeekableIterator(DALIGenericIterator):
    """A `DALIGenericIterator` whose next batch can be looked at, for CLU's loops. All batches have the same shapes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._peeked: dict[str, jax.Array] | None = None
        self._real: Any = None
        self._spec: dict[str, jax.ShapeDtypeStruct] | None = None
        self._taking = new_lock()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    def __iter__(self) -> Self:
        """This iterator; the next epoch begins if this one has ended, and no batch of it was peeked at."""
        if self._peeked is None:
            super().__iter__()
        return self

    def __next__(self) -> dict[str, jax.Array]:
        """The next batch.

        Raises:
            StopIteration: The epoch has ended.
            ArgumentError: It has other shapes or dtypes than the first.
        """
        with self._taking:
            found, self._peeked = self._looked(), None
            return found

    def peek(self) -> dict[str, jax.Array]:
        """The next batch, which stays the next."""
        with self._taking:
            return self._looked()

    def peek_async(self) -> concurrent.futures.Future[dict[str, jax.Array]]:
        """A future of `peek`."""
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(1)
        return self._pool.submit(self.peek)

    @property
    def element_spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and dtype of each output; of those of the next batch, if none was taken yet."""
        if self._spec is None:
            self.peek()
        assert self._spec is not None
        return self._spec

    def checkpoints(self) -> list[bytes]:
        """The checkpoints of the pipelines after the batch that was taken last.

        Raises:
            RuntimeError: The next batch was peeked at.
        """
        if self._peeked is not None:
            raise RuntimeError(f"{self._operator}.checkpoints(): take the batch that was peeked at by next() first.")
        return super().checkpoints()

    @property
    def is_nonpadding(self) -> Any:
        """Which samples of the batch that was made last are no repetitions of the last one of the epoch: bools.

        Raises:
            RuntimeError: No reader makes the epochs, or no batch was made.
        """
        if self._reader_name is None or self._real is None:
            raise RuntimeError(f"{self._operator}.is_nonpadding is known after a batch, with reader_name=.")
        numbers = numpy.arange(self.batch_size)
        found = numpy.concatenate([numbers < count for count in self._real])
        if self._sharding is None:
            return found
        import jax

        return jax.make_array_from_process_local_data(self._sharding, found)

    def _looked(self) -> dict[str, jax.Array]:
        if self._peeked is None:
            self._real = self._left_of_each()
            found = super().__next__()
            spec = {name: get_spec_for_array(array) for name, array in found.items()}
            if self._spec is not None and spec != self._spec:
                expected = f"batches of the shapes and dtypes of the first, {self._spec}"
                raise ArgumentError(self._operator, "pipelines", expected, str(spec))
            self._peeked, self._spec = found, spec
        return self._peeked


def get_spec_for_array(jax_array: jax.Array) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array."""
    import jax

    return jax.ShapeDtypeStruct(jax_array.shape, jax_array.dtype)


def _decorated(kind: type[DALIGenericIterator], function: Callable[..., Any] | None, how: dict[str, Any]) -> Any:
    """A function that makes an iterator, of one that makes a batch; or a decorator of such functions."""
    if function is None:
        return functools.partial(_decorated, kind, how=how)
    make = pipeline_def(function)

    @functools.wraps(function)
    def created(*inputs: Any, checkpoints: Sequence[bytes] | None = None, **given: Any) -> DALIGenericIterator:
        sharding, devices = how["sharding"], how["devices"]
        if sharding is None and devices is None:
            given.setdefault("device_id", 0 if gpu_count() else None)
            checkpoint = checkpoints[0] if checkpoints else None
            return kind([make(*inputs, checkpoint=checkpoint, **given)], **how)
        import jax

        name = kind.__name__
        if devices is not None and jax.process_count() > 1:
            raise ArgumentError(name, "devices", "left out with several processes", shown(devices), "Pass sharding=.")
        here = list(jax.local_devices() if devices is None else devices)
        shards = jax.device_count() if devices is None else len(here)
        if checkpoints and len(checkpoints) != len(here):
            raise ArgumentError(name, "checkpoints", f"one for each of {len(here)} devices", str(len(checkpoints)))
        size = given.pop("batch_size", None)
        if not isinstance(size, int) or size % shards:
            raise ArgumentError(name, "batch_size", f"a multiple of the number of devices, {shards}", shown(size))
        pipelines = []
        for i, device in enumerate(here):
            own = {
                "batch_size": size // shards,
                "device_id": i if gpu_count() else None,
                "shard_id": device.id if devices is None else i,
                "num_shards": shards,
                "checkpoint": checkpoints[i] if checkpoints else None,
            }
            pipelines.append(make(*inputs, **given, **own))
        return kind(pipelines, **how)

    return created


def data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: bool | Literal["yes", "no"] | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy | str = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: jax.sharding.Sharding | None = None,
    devices: Sequence[jax.Device] | None = None,
    pmap_compatible: bool | None = None,
) -> Any:
    """Make a function that makes a `DALIGenericIterator` of the one below, which makes batches as under `pipeline_def`.

    The function that is made takes the arguments of both, and `checkpoints`, a result of the iterator's. With
    `sharding` or `devices` there is a pipeline for each device of this process: `batch_size` is that of all devices
    together, and the function below gets `shard_id` and `num_shards` for its reader.

    Args:
        pipeline_fn: The function.
        output_map: As of `DALIGenericIterator`, and the next.
        size: Samples in an epoch.
        reader_name: Name of the first reader.
        auto_reset: Begin the next epoch by itself.
        last_batch_padded: Makes no difference.
        last_batch_policy: FILL or DROP, or its name.
        prepare_first_batch: Begin to make batches now.
        sharding: A `jax.sharding.Sharding` of the global batch.
        devices: Those that the batches are for, as ``jax.pmap`` takes them.
        pmap_compatible: Give arrays a first dimension for the devices.

    Raises:
        ArgumentError: An argument is wrong; of a call, the batch size is no multiple of the number of devices.
    """
    return _decorated(DALIGenericIterator, pipeline_fn, _how(locals()))


@described_as(data_iterator)
def peekable_data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: bool | Literal["yes", "no"] | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy | str = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: jax.sharding.Sharding | None = None,
    devices: Sequence[jax.Device] | None = None,
    pmap_compatible: bool | None = None,
) -> Any:
    """`data_iterator` of a `DALIGenericPeekableIterator`.

    Raises:
        ArgumentError: An argument is wrong; of a call, the batch size is no multiple of the number of devices.
    """
    return _decorated(DALIGenericPeekableIterator, pipeline_fn, _how(locals()))


def _how(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "pipeline_fn"}
