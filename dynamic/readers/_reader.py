"""What all readers share: epochs, shards, the place among the samples, and its state.

A place is an epoch and a position in it. The position counts the samples of the epoch that all shards together have
been given: a step of B samples on each of S shards takes the next B * S of the epoch's order (fewer at its end), and
of these shard k takes every S-th, from the k-th on. So the position means the same for any number of shards and any
batch size, and shards that step alike have the same place after each step.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy

from dynamic._origin import Origin
from dynamic._state import State
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, StateError, shown

from ._order import Order

__all__ = ["DEFAULT_SEED", "Epoch", "LastBatch", "Reader", "flag", "natural"]

#: Seed of the shuffle where none is given: fixed, so that all ranks and a resumed run agree without a word.
DEFAULT_SEED = 0

LastBatch: TypeAlias = Literal["partial", "drop", "pad"]

_VERSION = 1
_PLACE = {"version": int, "epoch": int, "position": int, "last": str, "shuffle": bool, "seed": int, "dealt": int,
          "samples": int}  # fmt: skip
_DIGESTS = {"names": "other samples, or in another order", "labels": "the same samples with other labels",
            "sizes": "the same samples with other sizes"}  # fmt: skip


class _Place(NamedTuple):
    epoch: int
    position: int


def flag(operator: str, argument: str, value: Any, default: bool = False) -> bool:
    """A yes or no; None is the default."""
    if value is None:
        return default
    if not isinstance(value, (bool, numpy.bool_)):
        raise ArgumentError(operator, argument, "True or False", shown(value))
    return bool(value)


def natural(operator: str, argument: str, value: Any, low: int = 0, high: int | None = None) -> int:
    """An integer of at least `low` and at most `high`."""
    integral = isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)
    if not integral or value < low or (high is not None and value > high):
        span = f"an integer in [{low}, {high}]" if high is not None else f"an integer of {low} or more"
        raise ArgumentError(operator, argument, span, shown(value))
    return int(value)


class Reader(ABC):
    """A source of samples, visited in an order, with a place that can be saved.

    Subclasses say which samples there are (`_ids`, `_names`, `_digests`) and read them (`_read`).
    """

    _operator: ClassVar[str]

    def __init__(
        self,
        *,
        max_batch_size: int | None,
        name: str | None,
        shuffle: bool,
        seed: int | None,
        shard_id: int | None,
        num_shards: int | None,
        stick_to_shard: bool,
        last_batch: LastBatch,
    ) -> None:
        operator = self._operator
        self._name = name
        self._max_batch_size = (
            None if max_batch_size is None else natural(operator, "max_batch_size", max_batch_size, 1)
        )
        self._num_shards = natural(operator, "num_shards", 1 if num_shards is None else num_shards, 1)
        self._shard_id = natural(operator, "shard_id", 0 if shard_id is None else shard_id, 0, self._num_shards - 1)
        self._stick_to_shard = stick_to_shard
        self._shuffle = shuffle
        self._seed = DEFAULT_SEED if seed in (None, -1) else natural(operator, "seed", seed, 0, 2**64 - 1)
        self._last_batch = last_batch
        self._place = _Place(0, 0)
        self._orders: dict[int, Any] = {}
        self._lock = threading.RLock()

    @property
    @abstractmethod
    def _ids(self) -> Any:
        """The id of each sample: uint64 of shape (N,)."""

    @abstractmethod
    def _names(self, indices: list[int]) -> list[str]:
        """What to call some samples."""

    @abstractmethod
    def _digests(self, *, sort: bool) -> dict[str, str]:
        """Digests of the data set under the keys of `_DIGESTS`, of its listed order too if not `sort`."""

    @abstractmethod
    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        """The samples of these numbers, or a DataError that names all that cannot be read."""

    @property
    def epoch(self) -> int:
        """The epoch that the next sample belongs to, or that all samples have been given of: 0, 1, 2 ..."""
        return self._place.epoch

    @property
    def position(self) -> int:
        """How many samples of the epoch have been given, to all shards together."""
        return self._place.position

    def next_epoch(self, batch_size: int | None = None) -> Epoch:
        """Iterate over the rest of the current epoch; then the reader stands at the start of the next.

        The place is the reader's, not the iterator's: an iterator that is left early leaves the reader where it got to,
        and several of them share the samples of the epoch out among themselves. An iterator belongs to the epoch in
        which it is first asked for a batch, and ends when the reader goes to another. After an error that a sample
        cannot be read, the next step tries the same samples again.

        The end of an epoch is a step of its own: a reader that is left, or saved, right after the last batch has an
        epoch of no more batches before it, and then the next, just as the loop that it was taken from.

        Args:
            batch_size: Samples in a batch; by default `max_batch_size`, and where that is not given either, the
                iterator gives single samples as Tensors.

        Returns:
            An iterator over tuples of Batches (or Tensors), whose ``len`` is the number of steps that are left.
        """
        return Epoch(self, self._batch_size("next_epoch", batch_size))

    def __call__(self, batch_size: int | None = None) -> tuple[Batch | Tensor, ...]:
        """Read the next batch, of the next epoch where this one has no more; see `next_epoch`."""
        size = self._batch_size("__call__", batch_size)
        with self._lock:
            place = self._place
            for _ in range(self._num_shards + 1):
                share = self._share(place, size or 1)
                if share is not None:
                    return self._step(place.epoch, share, size)
                place = _Place(place.epoch + 1, 0)
        raise ArgumentError(self._operator, "batch_size", "so small that there is a batch for this shard", str(size),
                            f"There are {len(self._ids)} samples on {self._num_shards} shards.")  # fmt: skip

    def get_metadata(self, batch_size: int | None = None) -> dict[str, int]:
        """The size of the data set and how it is divided.

        Args:
            batch_size: Makes no difference.

        Returns:
            "epoch_size" (samples of all shards), "epoch_size_padded" (the same, made a multiple of the number of shards
            where the last batch is padded), "number_of_shards", "shard_id", "pad_last_batch" and "stick_to_shard".
        """
        self._batch_size("get_metadata", batch_size)
        n, shards, pad = len(self._ids), self._num_shards, self._last_batch == "pad"
        return {
            "epoch_size": n,
            "epoch_size_padded": -(-n // shards) * shards if pad else n,
            "number_of_shards": shards,
            "shard_id": self._shard_id,
            "pad_last_batch": int(pad),
            "stick_to_shard": int(self._stick_to_shard),
        }

    def get_state(self) -> State:
        """The place, and what it is a place in; taken at any time, also before the first batch.

        Returns:
            JSON values: "version" (of the state's form); "epoch" and "position"; "last", the id of the last sample
            given, in hexadecimal; "shuffle", "seed" and "dealt" (the number of shards that keep their own samples, else
            1); and the fingerprint of the data set: the number of "samples", and digests over their "names", "labels"
            and "sizes".
        """
        with self._lock:
            epoch, position = self._place
            return {
                "version": _VERSION,
                "epoch": epoch,
                "position": position,
                "last": self._last(epoch, position),
                "shuffle": self._shuffle,
                "seed": self._seed,
                "dealt": self._dealt,
                "samples": len(self._ids),
                **self._digests(sort=self._shuffle),
            }

    def set_state(self, state: State) -> None:
        """Return to the place of a state, at any time, also of a reader that has been used.

        Args:
            state: What `get_state` of this or another reader of the same data in the same order gave. The number of
                shards and the batch size may differ.

        Raises:
            StateError: The state is not one of a reader, or is of another data set or order; the message lists
                what differs, and the reader stays as it was.
        """
        with self._lock:
            checked = self._checked(state)
            differences = self._differences(checked)
            if differences:
                listed = "; ".join(differences)
                raise StateError(f"{self._operator}: the state does not fit this reader. {listed}. "
                                 "Give it the data and arguments that it had when the state was taken.")  # fmt: skip
            place = _Place(checked["epoch"], checked["position"])
            if place.position > len(self._ids):
                raise self._no_state(f"'position' is {place.position} of {len(self._ids)} samples")
            if checked["last"] != self._last(*place):
                raise self._no_state(f"'last' is not the sample before position {place.position}")
            self._place = place

    state_dict = get_state
    load_state_dict = set_state

    def _no_state(self, reason: str) -> StateError:
        return StateError(f"{self._operator}: this is no state of a reader: {reason}. Use one that get_state() gave.")

    def _checked(self, state: Any) -> dict[str, Any]:
        """The state, if its keys and types are those of one."""
        if not isinstance(state, dict):
            raise self._no_state(f"it must be a dict, and is {shown(state)}")
        if state.get("version", _VERSION) != _VERSION:
            raise StateError(f"{self._operator}: the state has version {shown(state['version'])}, and this library "
                             f"knows {_VERSION}. Use the library that it was made with, or a newer one.")  # fmt: skip
        types = _PLACE | dict.fromkeys(_DIGESTS, str)
        if odd := sorted(map(str, state.keys() ^ types.keys())):
            raise self._no_state(f"{', '.join(odd)} {'is' if len(odd) == 1 else 'are'} missing or too much")
        for key, kind in types.items():
            if type(state[key]) is not kind or (kind is int and state[key] < 0):
                raise self._no_state(f"{key!r} is {shown(state[key])}")
        return state

    def _differences(self, state: dict[str, Any]) -> list[str]:
        """What of the data and the order is not as in a state."""
        found = []
        mine: dict[str, Any] = {"samples": len(self._ids), "shuffle": self._shuffle}
        if state["shuffle"] and self._shuffle:
            mine |= {"seed": self._seed, "dealt": self._dealt}
        for key, value in mine.items():
            if state[key] != value:
                found.append(f"{key}: {state[key]!r} in the state, {value!r} here")
        digests = self._digests(sort=state["shuffle"])
        changed = [key for key in _DIGESTS if state[key] != digests[key]]
        if "names" in changed:  # then the others are of other files
            changed = ["names"]
        return found + [f"{key}: {_DIGESTS[key]}" for key in changed]

    @property
    def _dealt(self) -> int:
        return self._num_shards if self._shuffle and self._stick_to_shard else 1

    def _order(self, epoch: int) -> Any:
        """The sample numbers of an epoch in their order; that of this epoch and another are kept."""
        with self._lock:
            if epoch not in self._orders:
                for old in sorted(self._orders)[:-1]:
                    del self._orders[old]
                self._orders[epoch] = Order(self._ids, self._seed if self._shuffle else None, self._dealt).of(epoch)
            return self._orders[epoch]

    def _last(self, epoch: int, position: int) -> str:
        """The id of the sample before a position, in hexadecimal; all zeros at the start."""
        return f"{int(self._ids[self._order(epoch)[position - 1]]) if position else 0:016x}"

    def _batch_size(self, method: str, batch_size: int | None) -> int | None:
        if batch_size is None:
            return self._max_batch_size
        return natural(f"{self._operator}.{method}", "batch_size", batch_size, 1, self._max_batch_size)

    def _shard(self, epoch: int) -> int:
        """Which shard this reader has in an epoch: its own, or another each epoch."""
        return self._shard_id if self._stick_to_shard else (self._shard_id + epoch) % self._num_shards

    def _share(self, place: _Place, batch_size: int) -> tuple[Any, int] | None:
        """The places that this shard takes in the next step, and the position after it; None if it has none."""
        n, shards = len(self._ids), self._num_shards
        start, stop = place.position + self._shard(place.epoch), place.position + batch_size * shards
        if place.position >= n or (self._last_batch == "drop" and stop > n):
            return None
        if self._last_batch == "pad":
            return numpy.minimum(numpy.arange(start, stop, shards), n - 1), min(stop, n)
        return (numpy.arange(start, min(stop, n), shards), min(stop, n)) if start < n else None

    def _steps(self, place: _Place, batch_size: int) -> int:
        """How many more steps this shard makes in the epoch."""
        chunk = batch_size * self._num_shards
        full, rest = divmod(max(len(self._ids) - place.position, 0), chunk)
        spared = {"drop": chunk, "pad": 0, "partial": self._shard(place.epoch)}[self._last_batch]
        return full + (rest > spared)

    def _step(self, epoch: int, share: tuple[Any, int], batch_size: int | None) -> tuple[Batch | Tensor, ...]:
        """Read a share, then move on: after an error the place is as before."""
        places, position = share
        indices = self._order(epoch)[places]
        numbers = indices.tolist()
        outputs = self._read(numbers, Origin(epoch, self._ids[indices], self._names(numbers)))
        self._place = _Place(epoch, position)
        return outputs if batch_size is not None else tuple(output[0] for output in outputs)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lock": None, "_orders": {}}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name is not None else ""
        order = f"shuffled with seed {self._seed}" if self._shuffle else "in listed order"
        n = len(self._ids)
        return (f"<{self._operator}{name}: {n} samples {order}, shard {self._shard_id} of {self._num_shards}, "
                f"epoch {self.epoch}, position {self.position}>")  # fmt: skip


class Epoch(Iterator[tuple[Batch | Tensor, ...]]):
    """The rest of an epoch of a reader, made by `Reader.next_epoch`. Threads may share it: each batch goes to one."""

    def __init__(self, reader: Reader, batch_size: int | None) -> None:
        self._reader, self._batch_size = reader, batch_size
        self._epoch: int | None = None
        self._ended = False

    def __next__(self) -> tuple[Batch | Tensor, ...]:
        reader = self._reader
        with reader._lock:
            place = reader._place
            if self._epoch is None:
                self._epoch = place.epoch
            if self._ended or place.epoch != self._epoch:
                self._ended = True
                raise StopIteration
            share = reader._share(place, self._batch_size or 1)
            if share is None:
                self._ended = True
                reader._place = _Place(place.epoch + 1, 0)
                raise StopIteration
            return reader._step(place.epoch, share, self._batch_size)

    def __len__(self) -> int:
        """How many steps are left."""
        place = self._reader._place
        over = self._ended or self._epoch not in (None, place.epoch)
        return 0 if over else self._reader._steps(place, self._batch_size or 1)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{len(self)} more steps of {self._reader!r}>"
