"""Batches on a cluster of Ray: Ray Data reads and augments them on many machines, `Loader` has their exact state.

Import it by name, ``import dynamic.ray``; ray is imported when it is used.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from dynamic import ArgumentError, Batch, readers
from dynamic._base.origin import Origin
from dynamic._base.pool import limited
from dynamic.errors import shown
from dynamic.pipeline._epochs import Resumable, Source
from dynamic.pipeline._output import Varying, names, stepped
from dynamic.pipeline._run import columns as outputs_of
from dynamic.readers._checks import natural
from dynamic.readers._reader import (
    Reader,
    epoch_ended,
    order_of,
    pass_over_step,
    progress_of,
    share_of,
    state_at,
    steps_left,
    take_order,
)

if TYPE_CHECKING:
    import ray
    import ray.data

__all__ = ["Loader", "Step", "read"]

_OPERATOR = "ray.Loader"
#: The columns of a sample beside its outputs. "position" is that of the reader after the sample's batch; "layouts" are
#: those of the outputs, as JSON.
_OWN = ("epoch", "position", "sample_id", "sample_name", "layouts")
_MOST_BLOCKS = 10_000
#: Arguments of ``map_batches`` that tasks which read and apply a step have too.
_READING = frozenset(("concurrency", "memory", "num_cpus"))

Columns = dict[str, Any]


def read(
    reader: readers.Reader[Any],
    *,
    batch_size: int | None = None,
    output_map: Sequence[str] = ("data", "label"),
    blocks: int | None = None,
    **arguments: Any,
) -> ray.data.Dataset:
    """The rest of an epoch of a reader as a Dataset of Ray, a row for each sample, in the order of the epoch.

    The order is known before anything is read: a block is a stretch of it, which any machine of the cluster reads. A
    block that is lost with its machine is read again, with the same samples. The reader stays where it is. ::

        photos = read(reader, batch_size=64).map_batches(Step(embed, ["embedding"]))

    Args:
        reader: The reader, whose files all machines of the cluster must reach by the same paths or addresses.
        batch_size: Samples that are read at once; by default the `max_batch_size` of the reader.
        output_map: The names of columns, one for each output of the reader. Further columns are "epoch", "position",
            "sample_id", "sample_name" and "layouts", by which `Step` knows the samples.
        blocks: How many blocks; by default one for each batch, up to 10,000.
        arguments: Further ones of ``ray.data.read_datasource``, such as `concurrency` and `ray_remote_args`.

    Raises:
        ArgumentError: An argument is wrong.
    """
    if not isinstance(reader, Reader):
        raise ArgumentError("ray.read", "reader", "a reader", shown(reader))
    size = reader._batch_size("ray.read", batch_size)
    if size is None:
        raise ArgumentError("ray.read", "batch_size", "given for a reader without max_batch_size", "None")
    return _rest(reader, size, _Stepped("ray.read", None, _columns("ray.read", output_map)), blocks, arguments)


class _Stepped:
    """A step, and the names of its results.

    Args:
        operator: Whose errors these are.
        step: The step; None where there is none.
        output_map: The names of the results; None where these are numbers.
    """

    def __init__(self, operator: str, step: Callable[..., Any] | None, output_map: Sequence[str] | None) -> None:
        self._operator, self._step, self._output_map = operator, step, output_map

    def __call__(self, outputs: Sequence[Batch]) -> dict[str, Batch]:
        """The results for a batch."""
        output_map = [str(i) for i in range(len(outputs))] if self._output_map is None else self._output_map
        with _own_processors():
            found = stepped(
                self._operator, self._step, output_map, outputs, varying=Varying(self._operator, dynamic_shape=True)
            )
        for name, batch in found.items():
            if len(batch) != len(outputs[0]):
                expected = f"a function that gives as many samples as it takes, {len(outputs[0])}"
                raise ArgumentError(self._operator, "step", expected, f"{len(batch)} for {name!r}")
        _columns(self._operator, list(found))
        return found


def _rest(
    reader: Reader[Any], size: int, step: _Stepped, blocks: int | None, arguments: dict[str, Any]
) -> ray.data.Dataset:
    """The rest of the epoch, after a step."""
    import ray

    place = progress_of(reader).place
    steps = steps_left(reader, size)
    blocks = min(steps, _MOST_BLOCKS) if blocks is None else natural("ray.read", "blocks", blocks, 1)
    if not steps:
        return ray.data.from_items([])
    reader._compare_order()  # here, not among whatever readers come together in a process of the cluster
    bounds = [steps * i // blocks for i in range(blocks + 1)]
    chunk = size * reader._num_shards
    held = ray.put((reader, order_of(reader), step))
    parts = [
        _Part(held, place.epoch, place.position + first * chunk, last - first, size)
        for first, last in itertools.pairwise(bounds)
        if first < last
    ]
    found = ray.data.read_datasource(_source()(parts), override_num_blocks=len(parts), **arguments)
    found.context.execution_options.preserve_order = True
    return found


class _Part(NamedTuple):
    """Some batches of an epoch, in the order of the epoch."""

    held: Any  #: a reference of Ray to the reader, the order of the epoch, and the step
    epoch: int
    position: int  #: of the reader before the first
    steps: int
    size: int  #: of the batches

    def __call__(self) -> Iterator[Any]:
        """Blocks of Ray, one for each batch."""
        from ray.data.block import BlockAccessor

        reader, step = _held(self.held)
        reader.seek(self.position, self.epoch)
        batches = reader.next_epoch(self.size)
        for _ in range(self.steps):
            with _own_processors():
                outputs = outputs_of(next(batches))
            if len(outputs[0]):
                yield BlockAccessor.batch_to_block(self._own(reader, outputs[0]) | _arrays(step(outputs)))

    def _own(self, reader: Reader[Any], output: Batch) -> Columns:
        origin, n = output.origin, len(output)
        assert origin is not None
        return {
            "epoch": numpy.full(n, origin.epoch, numpy.uint64),
            "position": numpy.full(n, progress_of(reader).place.position, numpy.int64),
            "sample_id": origin.ids,
            "sample_name": numpy.array([name.encode("utf-8", "backslashreplace").decode() for name in origin.names]),
        }


_readers: dict[str, tuple[Reader[Any], _Stepped]] = {}  # of this process of the cluster: a listing is unpacked once


def _held(reference: Any) -> tuple[Reader[Any], _Stepped]:
    """The reader and the step of a reference. Those of the last two are kept.

    The order of the epoch lies in the memory of Ray, which all processes of a machine share.
    """
    import ray

    key = reference.hex()
    if key not in _readers:
        for old in list(_readers)[:-1]:
            del _readers[old]
        reader, order, step = ray.get(reference)
        take_order(reader, order)
        _readers[key] = reader, step
    return _readers[key]


def _own_processors() -> AbstractContextManager[None]:
    """Let a task of Ray use as many threads as it has processors, unless the environment says otherwise."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or "DYNAMIC_NUM_THREADS" in os.environ:
        return nullcontext()
    assigned = ray.get_runtime_context().get_assigned_resources()
    return limited(max(1, int(assigned["CPU"]))) if "CPU" in assigned else nullcontext()


@functools.cache
def _source() -> type:
    """The class of sources of Ray Data."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class Steps(Datasource):  # type: ignore[misc] # of ray
        def __init__(self, parts: Sequence[_Part]) -> None:
            super().__init__()
            self._parts = parts

        def get_name(self) -> str:
            return "dynamic"

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            del parallelism
            told = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(part, told) for part in self._parts]

    return Steps


class Step:
    """A function of Batches for ``map_batches`` of the rows of `read`: it knows the samples, and so do keyed draws.

    Ray may hand it any number of samples at once. A function that treats each sample by itself, as the operators here
    do, with draws of ``rng.keyed(batch)``, gives the same results however the cluster shares them out.

    Args:
        step: Called with the outputs of the reader, it returns a Batch, a tuple, or a dict of them, whose keys are then
            the names; or a class, of which each actor makes one without arguments.
        output_map: The names of columns, one for each result.

    Raises:
        ArgumentError: An argument is wrong.
    """

    def __init__(self, step: Callable[..., Any] | type | None, output_map: Sequence[str] = ("data", "label")) -> None:
        if step is not None and not callable(step):
            raise ArgumentError("ray.Step", "step", "a function of Batches", shown(step))
        made = step() if isinstance(step, type) else step
        self._stepped = _Stepped("ray.Step", made, _columns("ray.Step", output_map))

    def __call__(self, columns: Columns) -> Columns:
        """The columns after the step."""
        found = self._stepped(list(_batches(columns).values()))
        return {name: columns[name] for name in _OWN if name != "layouts"} | _arrays(found)


def _columns(operator: str, output_map: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, none of which is one that knows the samples."""
    found = names(operator, output_map)
    for name in _OWN:
        if name in found:
            raise ArgumentError(operator, "output_map", f"names other than {', '.join(_OWN)}", shown(name))
    return found


def _arrays(batches: dict[str, Batch]) -> Columns:
    """The columns of Batches, and that of their layouts."""
    found: Columns = {}
    layouts = json.dumps({name: batch.layout for name, batch in batches.items() if batch.layout})
    for name, batch in batches.items():
        local = batch.to_device("cpu")
        found[name] = _ragged(local.samples) if local.whole is None else local.whole
    found["layouts"] = numpy.full(len(next(iter(batches.values()))), layouts)
    return found


def _ragged(samples: Sequence[Any]) -> Any:
    """An array of arrays."""
    found = numpy.empty(len(samples), object)
    for i, sample in enumerate(samples):
        found[i] = sample
    return found


def _batches(columns: Columns) -> dict[str, Batch]:
    """The Batches of the columns of `read` and `Step`."""
    lacking = [name for name in _OWN if name not in columns]
    if lacking:
        hint = "Take them along through whatever comes between."
        raise ArgumentError("ray.Step", "columns", "the rows of ray.read", f"rows without {', '.join(lacking)}", hint)
    epochs = numpy.unique(columns["epoch"])
    if len(epochs) > 1:
        raise ArgumentError("ray.Step", "columns", "rows of one epoch", f"rows of the epochs {epochs.tolist()}")
    origin = Origin(int(epochs[0]), columns["sample_id"], [str(name) for name in columns["sample_name"]])
    layouts = json.loads(str(columns["layouts"][0]))
    found = {}
    for name, column in columns.items():
        if name not in _OWN:
            storage = [numpy.asarray(sample) for sample in column] if column.dtype == object else column
            found[name] = Batch(storage, layouts.get(name), origin)
    return found


class Loader(Resumable):
    """Batches of a reader that a cluster of Ray makes ahead, with an exact state.

    The state is that after the batch which was taken last, whatever the cluster has made ahead: JSON, and the same as
    that of `jax.Loader` and `pytorch.Loader`. A run goes on with another number of blocks, actors, machines, processes
    or samples per batch, and gives every sample that is left of the epoch once. ::

        reader = ndd.readers.File(file_root="photos", random_shuffle=True, seed=7)
        loader = Loader(reader, step, batch_size=64)
        for epoch in range(loader.epoch, epochs):
            for batch in loader:
                train(batch["data"].torch(), batch["label"].torch())

    Each `iter` begins the next epoch, or the rest of the one whose state was loaded. An epoch is over when its last
    batch was given, or when another begins, however far it has been read. In training with several processes, as by Ray
    Train, each has a loader of its own, of a reader with its shard; the state of one of them is good for all.

    Args:
        source: A reader, or a function without arguments that makes one. All machines must reach its files.
        step: As of `Step`: applied on the cluster, in the tasks that read. A class is made once by each of the actors
            that `concurrency` asks for, which are a stage of their own.
        batch_size: Samples in a batch; by default the reader's `max_batch_size`.
        output_map: A name for each output.
        blocks: Into how many blocks the rest of an epoch is divided; by default one for each batch, up to 10,000.
        prefetch_batches: How many blocks are fetched ahead to this machine.
        arguments: Further ones of ``map_batches``, such as `concurrency`, `num_cpus` and `num_gpus`. With others than
            `concurrency`, `memory` and `num_cpus` a function is a stage of its own too.

    Raises:
        ArgumentError: An argument is wrong.
    """

    def __init__(
        self,
        source: Source,
        step: Callable[..., Any] | type | None = None,
        *,
        batch_size: int | None = None,
        output_map: Sequence[str] = ("data", "label"),
        blocks: int | None = None,
        prefetch_batches: int = 2,
        **arguments: Any,
    ) -> None:
        self._output_map = _columns(_OPERATOR, output_map)
        if step is not None and not callable(step):
            raise ArgumentError(_OPERATOR, "step", "a function of Batches", shown(step))
        if arguments and step is None:
            raise ArgumentError(_OPERATOR, "step", f"given with {next(iter(arguments))!r}", "None")
        reader = source() if callable(source) and not isinstance(source, Reader) else source
        if not isinstance(reader, Reader):
            raise ArgumentError(_OPERATOR, "source", "a reader, or a function that makes one", shown(reader))
        self._step, self._arguments = step, arguments
        self._blocks = None if blocks is None else natural(_OPERATOR, "blocks", blocks, 1)
        self._prefetch = natural(_OPERATOR, "prefetch_batches", prefetch_batches, 0)
        super().__init__(_OPERATOR, reader, batch_size)
        self._reader = reader

    def __iter__(self) -> Iterator[dict[str, Batch]]:
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        self._states, self._begun = self._next(), False
        reader, size = self._reader, self._epochs.batch_size
        assert size is not None
        reader.set_state(self._states["reader"])  # type: ignore[arg-type] # checked there
        rows = _Rows(self._dataset(reader, size), self._prefetch)
        while share := share_of(reader, size):
            columns = rows.of(share.position, len(share.places))
            if reader._on_error != "skip" and (columns is None or len(columns["position"]) < len(share.places)):
                raise RuntimeError(f"{_OPERATOR}: the cluster lost samples of the batch before {share.position}.")
            pass_over_step(reader, size)
            self._states, self._begun = {"reader": state_at(reader, progress_of(reader))}, True
            if columns is not None:
                yield _batches(columns)
                del columns  # or they would stay here while the next are fetched
            elif (row := rows.row()) is not None:  # all of the batch was skipped
                yield {name: batch[:0] for name, batch in _batches(row).items()}
        self._states, self._begun = {"reader": state_at(reader, epoch_ended(progress_of(reader)))}, False

    def _dataset(self, reader: Reader[Any], size: int) -> ray.data.Dataset:
        """The rest of the epoch on the cluster. A stage of its own costs a copy of the data."""
        step, output_map, arguments = self._step, self._output_map, self._arguments
        if not isinstance(step, type) and set(arguments) <= _READING:
            return _rest(reader, size, _Stepped(_OPERATOR, step, output_map), self._blocks, arguments)
        found = _rest(reader, size, _Stepped(_OPERATOR, None, None), self._blocks, {})
        if isinstance(step, type):
            made: dict[str, Any] = {"fn_constructor_args": (step, output_map), **arguments}
            return found.map_batches(Step, batch_size=size, **made)
        return found.map_batches(Step(step, output_map), batch_size=size, **arguments)


class _Rows:
    """The rows of a Dataset in its order, however Ray has cut them into blocks.

    Args:
        dataset: The Dataset.
        prefetch: How many of its blocks are fetched ahead.
    """

    def __init__(self, dataset: ray.data.Dataset, prefetch: int) -> None:
        blocks = dataset.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=prefetch)
        self._blocks: Iterator[Columns] = iter(blocks)
        self._columns: Columns | None = None  # of the block that is being taken
        self._taken = 0

    def of(self, position: int, most: int) -> Columns | None:
        """The rows of the batch that ends at a position; None where there is none.

        Args:
            position: The position.
            most: How many rows the batch has, if none were skipped.
        """
        parts: list[Columns] = []
        while most and self._fill():
            assert self._columns is not None
            positions = self._columns["position"][self._taken : self._taken + most]
            if (positions < position).any():
                raise RuntimeError(f"{_OPERATOR}: the cluster gave samples out of order: preserve_order was changed.")
            count = int((positions == position).sum())
            if count:
                parts.append({k: v[self._taken : self._taken + count] for k, v in self._columns.items()})
            self._taken, most = self._taken + count, most - count
            if count < len(positions):
                break
        return _joined(parts) if parts else None

    def row(self) -> Columns | None:
        """A row of the last block that was fetched; None where there was none."""
        return self._columns and {k: v[:1] for k, v in self._columns.items()}

    def _fill(self) -> bool:
        """Have a row; False where there are no more."""
        while self._columns is None or self._taken >= len(self._columns["position"]):
            following = next(self._blocks, None)
            if following is None:
                return False
            self._columns, self._taken = following, 0
        return True


def _joined(parts: Sequence[Columns]) -> Columns:
    """The rows of parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    found = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        alike = len({(column.dtype, column.shape[1:]) for column in columns}) == 1
        samples = [sample for column in columns for sample in column]
        found[name] = numpy.concatenate(columns) if alike or name in _OWN else _ragged(samples)
    return found
