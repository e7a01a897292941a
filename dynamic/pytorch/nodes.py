"""Readers as nodes of `torchdata.nodes`, with what is done to their batches: `Reader`, `DictMapper` and `ToTorch`.

torchdata and torch are imported when one of these is first asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from dynamic._origin import Origin
from dynamic._state import State
from dynamic.context import stream
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.readers._checks import natural
from dynamic.readers._reader import Reader as AnyReader

if TYPE_CHECKING:
    import torch

    class _Node:
        """What `torchdata.nodes.BaseNode` has, whose subclasses these become."""

        def reset(self, initial_state: State | None = None) -> None: ...
        def state_dict(self) -> State: ...
        def next(self) -> Any: ...

    Reader: TypeAlias = "Readers"
    DictMapper: TypeAlias = "Mappers"
    ToTorch: TypeAlias = "Converters"
else:
    _Node = object

__all__ = ["DictMapper", "Reader", "ToTorch"]

Named: TypeAlias = "dict[str, Tensor | Batch]"

_PAIR = ("data", "label")


class Readers(_Node):
    """A reader as a node of dicts: each output by its name.

    Its state is the reader's, so it is exact in the midst of an epoch too, behind a `Prefetcher` and in a `Loader`, and
    good for any batch size. An epoch that is left early has ended: `reset` goes to the next.

    Args:
        reader_type: A class of `dynamic.readers`.
        batch_size: Samples in a batch; None for single samples, as Tensors.
        output_names: A name for each output. May be left out where there are two, "data" and "label", and of
            `readers.TFRecord`, whose outputs have names.
        **kwargs: What the reader is made with.

    Raises:
        ArgumentError: The names are not as many as the outputs; or what the reader raises.
    """

    def __init__(
        self,
        reader_type: type[AnyReader[Any]],
        *,
        batch_size: int | None,
        output_names: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not (isinstance(reader_type, type) and issubclass(reader_type, AnyReader)):
            raise ArgumentError("nodes.Reader", "reader_type", "a class of dynamic.readers", shown(reader_type))
        if batch_size is not None:
            kwargs.setdefault("max_batch_size", natural("nodes.Reader", "batch_size", batch_size, 1))
        self._reader = reader_type(**kwargs)
        self._batch_size = batch_size
        self._names = _names(self._reader, output_names)
        self._epoch: Iterator[Any] | None = None

    def reset(self, initial_state: State | None = None) -> None:
        """Go to the place of a state; without one, to the start of an epoch."""
        super().reset(initial_state)
        reader = self._reader
        if initial_state is not None:
            reader.set_state(initial_state)
        elif reader.position:
            reader.seek(0, reader.epoch + 1)
        self._epoch = reader.next_epoch(self._batch_size)

    def next(self) -> Named:
        """The next batch, or a StopIteration at the end of the epoch."""
        if self._epoch is None:
            raise RuntimeError("nodes.Reader: next() before reset().")
        outputs = next(self._epoch)
        return dict(zip(self._names, outputs.values() if isinstance(outputs, dict) else outputs, strict=True))

    def get_state(self) -> State:
        """That of the reader."""
        return self._reader.get_state()

    def get_metadata(self) -> dict[str, int]:
        """That of the reader."""
        return self._reader.get_metadata(self._batch_size)


def _names(reader: AnyReader[Any], given: Iterable[str] | None) -> Sequence[str]:
    """The names of the outputs of a reader."""
    nothing = reader._given(reader._read([], Origin(0, numpy.zeros(0, numpy.uint64), [])))
    if given is None and isinstance(nothing, dict):
        return tuple(nothing)
    names = _PAIR if given is None and len(nothing) == len(_PAIR) else () if given is None else tuple(given)
    if len(names) != len(nothing) or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        got = "None" if given is None else shown(names)
        raise ArgumentError("nodes.Reader", "output_names", f"{len(nothing)} different names", got)
    return names


class _Over(_Node):
    """A node that has its items from another, and its state."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source

    def reset(self, initial_state: State | None = None) -> None:
        """Reset the other node."""
        super().reset(initial_state)
        self._source.reset(None if initial_state is None else initial_state["source"])

    def get_state(self) -> State:
        """That of the other node."""
        return {"source": self._source.state_dict()}


class Mappers(_Over):
    """The dicts of another node, one entry of them changed.

    Args:
        source: A node of dicts.
        map_fn: Called with a Tensor or Batch, gives what takes its place.
        key: The name of the entry.
    """

    def __init__(self, source: Any, map_fn: Callable[[Any], Tensor | Batch], key: str = "data") -> None:
        super().__init__(source)
        self._function, self._key = map_fn, key

    def next(self) -> Named:
        """The next dict.

        Raises:
            ArgumentError: It has no such entry.
        """
        named = dict(self._source.next())
        if self._key not in named:
            raise ArgumentError("nodes.DictMapper", "key", f"one of {', '.join(map(repr, named))}", shown(self._key))
        named[self._key] = self._function(named[self._key])
        return named


class Converters(_Over):
    """The dicts of another node as tuples of torch tensors, all on one device: a GPU where one of them is there.

    Args:
        source: A node of dicts of Tensors and Batches; the samples of a Batch must have one shape.
        output_stream: The CUDA stream that the tensors will be used on: a torch stream, or what `dynamic.stream` takes;
            by default torch's current one where the node is made.
    """

    def __init__(self, source: Any, output_stream: Any = None) -> None:
        super().__init__(source)
        self._stream = _stream(output_stream)

    def next(self) -> tuple[torch.Tensor, ...]:
        """The next tuple, in the order of the dict.

        Raises:
            DeviceError: There are some on one GPU and some on another.
        """
        values: list[Any] = list(self._source.next().values())
        gpus = sorted({value.device.device_id for value in values if value.device.device_type == "gpu"})
        if len(gpus) > 1:
            raise DeviceError(f"nodes.ToTorch: outputs are on the GPUs {', '.join(map(str, gpus))}; move them to one.")
        with self._stream or contextlib.nullcontext():
            return tuple((value.gpu(gpus[0]) if gpus else value).torch() for value in values)


def _stream(given: Any) -> Any:
    """A context in which a stream is torch's current one; None without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    if given is None:
        given = torch.cuda.current_stream()
    elif not isinstance(given, torch.cuda.Stream):
        made = stream(given)
        given = torch.cuda.ExternalStream(made.handle, made.device_id)
    return torch.cuda.stream(given)


_MADE: dict[str, type] = {"Reader": Readers, "DictMapper": Mappers, "ToTorch": Converters}


def __getattr__(name: str) -> Any:
    """The classes become nodes of torchdata when they are first asked for."""
    if name not in _MADE:
        raise AttributeError(f"dynamic.pytorch.nodes has no {name!r}")
    try:
        from torchdata.nodes import BaseNode
    except ImportError as error:
        raise ImportError("dynamic.pytorch.nodes needs torchdata: pip install torchdata") from error
    body = _MADE[name]
    documented = {"__module__": __name__, "__qualname__": name, "__doc__": body.__doc__}
    globals()[name] = made = type(BaseNode)(name, (body, BaseNode), documented)
    return made
