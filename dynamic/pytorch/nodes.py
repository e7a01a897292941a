"""Readers as nodes of `torchdata.nodes`, with operators on their batches: `Reader`, `DictMapper` and `ToTorch`.

torchdata and torch are imported when one of these is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from dynamic._base.origin import Origin
from dynamic._base.state import State
from dynamic.context import stream
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, DeviceError, StateError, shown
from dynamic.readers._checks import natural
from dynamic.readers._reader import Reader as AnyReader

if TYPE_CHECKING:
    import torch
    from torchdata.nodes import BaseNode

    class _Node:
        """The members of `BaseNode`, whose subclasses these become."""

        def reset(self, initial_state: State | None = None) -> None: ...

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
    good for any batch size and number of shards, and for the reader by itself.

    Each `reset` without a state begins an epoch: first the reader's first, then the next, however far the last has been
    read. So an epoch that is left early has ended, and nothing depends on how far a `Prefetcher` was ahead. One with a
    state of which nothing is left of its epoch begins the next, as a `Loader` would.

    Args:
        reader_type: A class of `dynamic.readers`.
        batch_size: Samples in a batch; None for single samples, as Tensors, unless `max_batch_size` is given.
        output_names: A name for each output. May be left out where there are two, "data" and "label", and of
            `readers.TFRecord`, whose outputs have names.
        **kwargs: The arguments of the reader. Its files are listed at once, with `lazy_init` too, to know its outputs.

    Raises:
        ArgumentError: The names are not as many as the outputs; or the reader raises it.
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
        self._reader._batch_size("next_epoch", batch_size)
        self._batch_size = batch_size
        self._names = _names(self._reader, output_names)
        self._begun: int | None = None  # the epoch in which the last reset left the reader
        self._epoch: Iterator[Any] | None = None

    def reset(self, initial_state: State | None = None) -> None:
        """Go to the place of a state, or behind it where its epoch has ended; without one, to the next epoch's start.

        Raises:
            StateError: This is no state of a reader; or StateMismatch, where it is of other data. The node stays as it
                was.
        """
        reader = self._reader
        if initial_state is not None:
            reader.set_state(initial_state)
            rest = reader.next_epoch(self._batch_size)
            if not len(rest):  # else a `Loader` finds that out, and gives this state all through the next epoch
                next(rest, None)
        elif reader._place.epoch == self._begun:
            reader.seek(0, self._begun + 1)
        self._begun = reader.epoch
        self._epoch = reader.next_epoch(self._batch_size)
        super().reset(initial_state)

    def next(self) -> Named:
        """The next batch.

        Raises:
            StopIteration: The epoch has ended.
            RuntimeError: `reset` has not been called.
        """
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
    names = _PAIR if given is None else tuple(given) if isinstance(given, Iterable) else ()
    if len(names) != len(nothing) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
        got = "None" if given is None else shown(given)
        raise ArgumentError("nodes.Reader", "output_names", f"{len(nothing)} different names", got)
    return names


class _Over(_Node):
    """A node that has its items from another, and its state.

    Args:
        operator: Its name in errors.
        source: The other node.
    """

    def __init__(self, operator: str, source: BaseNode[Named]) -> None:
        from torchdata.nodes import BaseNode

        super().__init__()
        self._operator = operator
        if not isinstance(source, BaseNode):
            raise ArgumentError(operator, "source", "a node of torchdata", shown(source))
        self._source = source

    def reset(self, initial_state: State | None = None) -> None:
        """Reset the other node.

        Raises:
            StateError: This is not a state of such a node.
        """
        if initial_state is None:
            self._source.reset()
        elif isinstance(initial_state, Mapping) and initial_state.keys() == {"source"}:
            self._source.reset(initial_state["source"])
        else:
            raise StateError(f"{self._operator}: this is not a state of such a node: {shown(initial_state)}.")
        super().reset(initial_state)

    def get_state(self) -> State:
        """That of the other node."""
        return {"source": self._source.state_dict()}

    def _named(self) -> Named:
        """The next dict of the other node."""
        named = self._source.next()
        if not isinstance(named, Mapping):
            raise ArgumentError(self._operator, "source", "a node of dicts", f"one of {shown(named)}")
        return dict(named)


class Mappers(_Over):
    """The dicts of another node, one entry of them changed.

    Args:
        source: A node of dicts.
        map_fn: Called with a Tensor or Batch, returns the replacement.
        key: The name of the entry.

    Raises:
        ArgumentError: `source` is no node, or `map_fn` cannot be called.
    """

    def __init__(self, source: BaseNode[Named], map_fn: Callable[[Any], Tensor | Batch], key: str = "data") -> None:
        super().__init__("nodes.DictMapper", source)
        if not callable(map_fn):
            raise ArgumentError(self._operator, "map_fn", "a function", shown(map_fn))
        self._function, self._key = map_fn, key

    def next(self) -> Named:
        """The next dict.

        Raises:
            ArgumentError: It has no such entry.
            StopIteration: The epoch has ended.
        """
        named = self._named()
        if not isinstance(self._key, str) or self._key not in named:
            raise ArgumentError(self._operator, "key", f"one of {', '.join(map(repr, named))}", shown(self._key))
        named[self._key] = self._function(named[self._key])
        return named


class Converters(_Over):
    """The dicts of another node as tuples of torch tensors, all on one device: a GPU where one of them is there.

    Args:
        source: A node of dicts of Tensors and Batches; the samples of a Batch must have one shape.
        output_stream: The CUDA stream that the tensors will be used on: of torch, or as for `dynamic.stream`;
            by default torch's current one where the node is made.

    Raises:
        ArgumentError: `source` is no node, or `output_stream` no stream.
        DeviceError: A stream is given, and torch has no GPU.
    """

    def __init__(self, source: BaseNode[Named], output_stream: Any = None) -> None:
        super().__init__("nodes.ToTorch", source)
        self._stream = _stream(output_stream)
        self._given = output_stream  # which ends when nobody keeps it

    def next(self) -> tuple[torch.Tensor, ...]:
        """The next tuple, in the order of the dict.

        Raises:
            ArgumentError: An entry is neither a Tensor nor a Batch, its samples differ in shape, or there are some on
                one GPU and some on another.
            StopIteration: The epoch has ended.
        """
        import torch

        named = self._named()
        for name, value in named.items():
            if not isinstance(value, Tensor | Batch):
                raise ArgumentError(self._operator, name, "a Tensor or a Batch", shown(value))
        gpus = sorted({value.device.device_id for value in named.values() if value.device.device_id is not None})
        if len(gpus) > 1:
            expected, got = "a node whose dicts are on one GPU", f"some on the GPUs {', '.join(map(str, gpus))}"
            raise ArgumentError(self._operator, "source", expected, got)
        with torch.cuda.stream(self._stream):
            return tuple(self._converted(name, value.gpu(gpus[0]) if gpus else value) for name, value in named.items())

    def _converted(self, name: str, value: Tensor | Batch) -> torch.Tensor:
        if isinstance(value, Batch) and len(shapes := list(dict.fromkeys(value.shape))) > 1:
            hint = "Resize them before, or pad them: DictMapper(source, dynamic.pad, key)."
            got = f"{shapes[0]} and {shapes[1]}"
            raise ArgumentError(self._operator, name, "a Batch of samples of one shape", got, hint)
        return value.torch()


def _stream(given: Any) -> torch.cuda.Stream | None:
    """The stream of torch for this one; None where torch has no GPU."""
    import torch

    if torch.cuda.is_available():
        if given is None:
            return torch.cuda.current_stream()
        if isinstance(given, torch.cuda.Stream):
            return given
        made = stream(given, max(getattr(given, "device_id", 0), 0))  # CuPy says -1 of its default streams
        return torch.cuda.ExternalStream(made.handle, made.device_id)
    if given is not None:
        raise DeviceError(f"nodes.ToTorch: there are no streams without a GPU, but 'output_stream' is {shown(given)}.")
    return None


_MADE: dict[str, type] = {"Reader": Readers, "DictMapper": Mappers, "ToTorch": Converters}


def __getattr__(name: str) -> Any:
    """The classes become nodes of torchdata when they are first asked for.

    Raises:
        ImportError: torchdata, or torch, is not installed.
    """
    if name not in _MADE:
        raise AttributeError(f"dynamic.pytorch.nodes has no {name!r}")
    try:
        from torchdata.nodes import BaseNode
    except ImportError as error:
        raise ImportError(
            f"dynamic.pytorch.nodes.{name} needs torch and torchdata: pip install torch torchdata"
        ) from error
    body = _MADE[name]
    documented = {"__module__": __name__, "__qualname__": name, "__doc__": body.__doc__}
    globals()[name] = made = type(BaseNode)(name, (body, BaseNode), documented)
    return made
