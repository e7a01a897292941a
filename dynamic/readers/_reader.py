"""The common part of readers: steps and epochs over the samples of a shard, and the treatment of bad ones."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar, overload

import numpy

from dynamic._base import clock
from dynamic._base.origin import Origin
from dynamic._base.places import Shadowed
from dynamic._base.state import State
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, DataError, Failure, shown

from ._checks import flag, natural, word
from ._place import Place, Tally
from ._placed import Fingerprint, OnMismatch, Placed, Progress
from ._ranks import check_order

__all__ = ["Epoch", "LastBatch", "OnError", "Reader"]

X = TypeVar("X")
G = TypeVar("G")  # the batches of a reader with a batch size
Outputs: TypeAlias = "tuple[Batch | Tensor, ...]"
Batches: TypeAlias = "tuple[Batch, ...]"
LastBatch: TypeAlias = Literal["partial", "drop", "pad"]
OnError: TypeAlias = Literal["raise", "skip", "replace"]
_LAST_BATCH: tuple[LastBatch, ...] = ("partial", "drop", "pad")
_ON_ERROR: tuple[OnError, ...] = ("raise", "skip", "replace")
_REPLACEMENTS = 100  # samples that are tried in the place of one that cannot be read


class _Share(NamedTuple):
    """The samples of a shard in a step."""

    places: Any  #: in the order of the epoch, shape (B,)
    repeated: int  #: how many of them, at the end, only fill up the batch
    position: int  #: of the reader after it


def progress_of(reader: Reader[Any]) -> Progress:
    """The place of a reader, and the samples that it has given there."""
    return reader._progress


def state_at(reader: Reader[Any], progress: Progress) -> State:
    """The state of a reader at another place."""
    return reader._state_at(progress)


def order_of(reader: Reader[Any]) -> Any:
    """The numbers of samples in the order of the epoch in which a reader is."""
    return reader._order(reader._place)


def take_order(reader: Reader[Any], order: Any) -> None:
    """Let a copy of a reader have the same, without sorting."""
    reader._keep_order(reader._place, order)


def steps_left(reader: Reader[Any], batch_size: int, place: Place | None = None) -> int:
    """The number of steps that are left of an epoch, by default from the place of the reader."""
    return reader._steps(reader._place if place is None else place, batch_size)


def steps_of_epoch(reader: Reader[Any], batch_size: int) -> int:
    """The number of steps of a whole epoch, on the shard that has most."""
    samples, chunk = reader._count, batch_size * reader._num_shards
    return samples // chunk if reader._last_batch == "drop" else -(-samples // chunk)


def pass_over_step(reader: Reader[Any], batch_size: int) -> bool:
    """Move a reader by a step without reading; False where the epoch has no more."""
    return reader._pass_over(batch_size)


def share_of(reader: Reader[Any], batch_size: int) -> _Share | None:
    """The samples of the next step of a reader in its epoch; None where the epoch has no more."""
    return reader._share(reader._place, batch_size)


def has_step(reader: Reader[Any], place: Place, batch_size: int) -> bool:
    """Whether the epoch has a step at a place."""
    return reader._share(place, batch_size) is not None


def leader_of(reader: Reader[Any]) -> Reader[Any] | None:
    """The reader whose order a reader has, by `order_of`; None where it has its own."""
    return reader._leader


def num_shards_of(reader: Reader[Any]) -> int:
    """The number of shards of a reader."""
    return reader._num_shards


def is_shuffled(reader: Reader[Any]) -> bool:
    """Whether a reader visits its samples in another order each epoch."""
    return reader._rule.shuffle


def epoch_ended(progress: Progress) -> Progress:
    """At the start of the next epoch. The tally of this one is kept until a sample is given there."""
    place = Place(progress.place.epoch + 1, 0)
    # At position 0 this shard was given nothing.
    return progress._replace(place=place, over=False) if progress.place.position else Progress(place)


def _single(batches: tuple[Batch, ...]) -> tuple[Tensor, ...] | None:
    """The one sample of batches that have one, or None."""
    return tuple(batch._sample(0) for batch in batches) if len(batches[0]) else None


class Reader(Placed, Generic[G]):
    """A source of samples, visited in exact epochs, with a place that can be saved: the methods of all readers.

    Make one of the readers of this module, such as `File`. Call it for a batch, or loop over `next_epoch`.
    """

    # Subclasses tell the samples (`_distinct`, `_ids`, `_names`, `_digests`) and read them (`_read`).

    _leader: Reader[Any] | None = None  # the reader whose order this one has
    _compared: bool = False  # whether its order was compared with those of the other shards

    def __init__(
        self,
        *,
        max_batch_size: int | None,
        name: str | None,
        shuffle: bool,
        seed: int | None,
        shard: str | None,
        shard_id: int | None,
        num_shards: int | None,
        stick_to_shard: bool,
        last_batch: LastBatch,
        on_error: OnError,
        fingerprint: Fingerprint | None,
        on_mismatch: OnMismatch,
    ) -> None:
        super().__init__(
            shuffle=shuffle,
            seed=seed,
            shard=shard,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick_to_shard,
            fingerprint=fingerprint,
            on_mismatch=on_mismatch,
        )
        self._name = name
        self._max_batch_size = (
            None if max_batch_size is None else natural(self._operator, "max_batch_size", max_batch_size, 1)
        )
        self._last_batch = word(self._operator, "last_batch", last_batch, _LAST_BATCH)
        self._on_error = word(self._operator, "on_error", on_error, _ON_ERROR)

    @abstractmethod
    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        """The samples of these numbers, which may be none; or a DataError that names all that cannot be read."""

    @property
    def _reach(self) -> int:
        """How many samples are asked for before they are read; 0 where that is of no use."""
        return 0

    def _expect(self, indices: list[int]) -> None:
        """Ask for samples that will be read next."""

    def _loaded(self, numbers: list[int], origin: Origin) -> tuple[Batch, ...]:
        """The same, of numbers among the samples that are visited."""
        return self._read(numbers, origin)

    def _given(self, outputs: Outputs) -> Any:
        """Outputs as users get them: a tuple, unless they have names."""
        return outputs

    @overload
    def next_epoch(self, batch_size: int, ctx: Any = None, capture: bool | None = False) -> Epoch[G]: ...
    @overload
    def next_epoch(self, batch_size: None = None, ctx: Any = None, capture: bool | None = False) -> Epoch[Any]: ...
    def next_epoch(
        self,
        batch_size: int | None = None,
        ctx: Any = None,  # noqa: ARG002
        capture: bool | None = False,
    ) -> Epoch[Any]:
        """Iterate over the rest of the current epoch; after its last batch, over the next epoch.

        The place belongs to the reader. If you leave a loop early, the next one goes on there, and two iterators share
        the samples of the epoch. An iterator belongs to the epoch of its first batch, and ends when the reader goes to
        another. After a sample that cannot be read, the next step tries the same samples again.

        A loop may end by itself, at its ``len``, or by a ``break`` at the last batch: the next loop has the next epoch.
        A reader that resumes after a last batch finds that epoch empty once, so loops over epochs count right.

        Args:
            batch_size: Samples in a batch, at least 1; by default `max_batch_size`. Without both, steps give single
                samples as Tensors.
            ctx: Kept for scripts written for DALI.
            capture: Makes no difference: nothing runs ahead of a loop.

        Returns:
            An iterator over tuples of Batches (or of Tensors; `TFRecord` gives dicts). Its ``len`` is the number of
            steps that are left.

        Raises:
            ArgumentError: The batch size is below 1 or above `max_batch_size`; or another shard has another order.
            DataError: Samples cannot be read; it names all of the batch. The reader stays in place.

        >>> reader = ndd.readers.Map(dataset=list(range(5)))
        >>> for epoch in range(reader.epoch, 2):
        ...     for (numbers,) in reader.next_epoch(batch_size=2):
        ...         print(epoch, numbers.tolist())
        0 [0, 1]
        0 [2, 3]
        0 [4]
        1 [0, 1]
        1 [2, 3]
        1 [4]
        """
        flag(f"{self._operator}.next_epoch", "capture", capture)
        return Epoch(self, self._batch_size("next_epoch", batch_size))

    @overload
    def __call__(self, batch_size: int) -> G: ...
    @overload
    def __call__(self, batch_size: None = None) -> Any: ...
    def __call__(self, batch_size: int | None = None) -> Any:
        """Read the next batch, from the next epoch where this one has no more.

        Args:
            batch_size: Samples in a batch, as of `next_epoch`.

        Returns:
            A tuple of Batches, or of Tensors without a batch size; `TFRecord` gives a dict.

        Raises:
            ArgumentError: The batch size is out of range, or no batch is left for this shard in any epoch.
            DataError: Samples cannot be read. The reader stays in place.

        >>> reader = ndd.readers.Map(dataset=list(range(3)))
        >>> [reader(batch_size=2)[0].tolist() for _ in range(3)]
        [[0, 1], [2], [0, 1]]
        """
        size = self._batch_size("__call__", batch_size)

        def step(progress: Progress) -> tuple[G, Progress]:
            outputs, after = self._next(progress, size)
            return self._given(outputs), after

        return self._given_out(step)

    def _given_out(self, step: Callable[[Progress], tuple[X, Progress]]) -> X:
        """The batch of a step, and the move to its end: both, or neither if something interrupts it."""
        self._compare_order()
        call = clock.begin(self._operator) if clock.watching else None
        before = after = None
        try:
            with self._lock:
                before = self._progress
                outputs, after = step(before)
                self._progress = after
            if call is not None:
                clock.end(call)
        except BaseException:
            if before is not None and self._progress is after:
                self._progress = before
            raise
        return outputs

    def _compare_order(self) -> None:
        """Before the first batch, compare the order with those of the other shards."""
        if not self._compared:
            check_order(self)
            self._compared = True

    def _next(self, progress: Progress, size: int | None) -> tuple[Outputs, Progress]:
        """The next batch, of the next epoch where this one has no more."""
        ends = 0
        while ends <= self._num_shards:
            share = self._share(progress.place, size or 1)
            if share is None:
                progress, ends = progress._replace(place=Place(progress.place.epoch + 1, 0)), ends + 1
                continue
            outputs, progress = self._step(progress, share, size)
            if outputs:
                return outputs, progress
        raise ArgumentError(
            self._operator,
            "batch_size",
            "small enough for this shard to get a batch",
            str(size),
            f"There are {self._count} samples on {self._num_shards} shards.",
        )

    def __len__(self) -> int:
        """Number of samples of an epoch, over all shards; ``len(reader.next_epoch(8))`` is one of steps."""
        return self._count

    def __iter__(self) -> NoReturn:
        """Refuse: only `next_epoch` knows how many samples a batch has.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"{self._operator} is no iterator; write: for batch in reader.next_epoch(batch_size=...)")

    def __bool__(self) -> bool:
        return True

    def get_metadata(self, batch_size: int | None = None) -> dict[str, int]:
        """The size of an epoch and its division, as in DALI.

        Args:
            batch_size: Makes no difference.

        Returns:
            A dict of integers with the keys "epoch_size" (samples of all shards), "epoch_size_padded" (the next
            multiple of the number of shards, if the last batch is padded), "number_of_shards", "shard_id",
            "pad_last_batch" and "stick_to_shard".

        >>> reader = ndd.readers.Map(dataset=list(range(5)), num_shards=2, last_batch="pad")
        >>> reader.get_metadata()["epoch_size"], reader.get_metadata()["epoch_size_padded"]
        (5, 6)
        """
        self._batch_size("get_metadata", batch_size)
        n, shards, pad = self._count, self._num_shards, self._last_batch == "pad"
        return {
            "epoch_size": n,
            "epoch_size_padded": -(-n // shards) * shards if pad else n,
            "number_of_shards": shards,
            "shard_id": self._shard_id,
            "pad_last_batch": int(pad),
            "stick_to_shard": int(self._stick_to_shard),
        }

    @overload
    def peek(self, batch_size: int) -> G: ...
    @overload
    def peek(self, batch_size: None = None) -> Any: ...
    def peek(self, batch_size: int | None = None) -> Any:
        """Read the next batch of this epoch, and stay in place.

        Args:
            batch_size: Samples in a batch, as of `next_epoch`.

        Returns:
            The outputs that the next step gives.

        Raises:
            IndexError: The epoch has no more batches for this shard.
            DataError: Samples cannot be read.

        >>> reader = ndd.readers.Map(dataset=list(range(5)))
        >>> reader.peek(2)[0].tolist(), reader(2)[0].tolist()
        ([0, 1], [0, 1])
        """
        size = self._batch_size("peek", batch_size)
        self._compare_order()
        with self._lock:
            place = self._place
            while share := self._share(place, size or 1):
                batches, _ = self._read_share(place, share)
                if outputs := batches if size is not None else _single(batches):
                    return self._given(outputs)
                place = place._replace(position=share.position)
            raise IndexError(f"{self._operator}: epoch {place.epoch} has no more batches for this shard.")

    def _batch_size(self, method: str, batch_size: int | None) -> int | None:
        size = self._max_batch_size
        if batch_size is not None:
            size = natural(f"{self._operator}.{method}", "batch_size", batch_size, 1, self._max_batch_size)
        if size is None and self._on_error == "skip" and self._num_shards > 1:
            expected = "given with on_error='skip' on several shards"
            hint = "Steps without a sample would let the shards drift apart."
            raise ArgumentError(f"{self._operator}.{method}", "batch_size", expected, "None", hint)
        return size

    def _share(self, place: Place, batch_size: int) -> _Share | None:
        """The samples of this shard in the next step; None if there are none."""
        n, shards = self._count, self._num_shards
        start, stop = place.position + self._shard(place.epoch), place.position + batch_size * shards
        if place.position >= n or (self._last_batch == "drop" and stop > n):
            return None
        inside = numpy.arange(start, min(stop, n), shards)
        if self._last_batch == "pad":
            padding = batch_size - len(inside)
            return _Share(numpy.append(inside, numpy.full(padding, n - 1)), padding, min(stop, n))
        return _Share(inside, 0, min(stop, n)) if len(inside) else None

    def _steps(self, place: Place, batch_size: int) -> int:
        """How many more steps this shard makes in the epoch."""
        chunk = batch_size * self._num_shards
        full, rest = divmod(max(self._count - place.position, 0), chunk)
        spared = {"drop": chunk, "pad": 0, "partial": self._shard(place.epoch)}[self._last_batch]
        return full + (rest > spared)

    def _rest(self, progress: Progress, batch_size: int | None) -> tuple[Outputs | None, Progress]:
        """The next batch of the epoch, or None and the start of the next one."""
        while share := self._share(progress.place, batch_size or 1):
            outputs, progress = self._step(progress, share, batch_size)
            if outputs:
                return outputs, progress
        return None, epoch_ended(progress)

    def _step(self, progress: Progress, share: _Share, batch_size: int | None) -> tuple[Outputs | None, Progress]:
        """Read a share, and tell where that leads. A single sample may be skipped: None."""
        batches, failed = self._read_share(progress.place, share)
        after = self._moved(progress, share, failed)
        after = Progress(*after[:-1], not self._steps(after.place, batch_size or 1))
        return batches if batch_size is not None else _single(batches), after

    def _pass_over(self, batch_size: int) -> bool:
        """Go past the next batch of the epoch without reading it; False if there is none."""
        with self._lock:
            share = self._share(self._place, batch_size)
            if share is not None:
                self._progress = self._moved(self._progress, share, {})
            return share is not None

    def _moved(self, progress: Progress, share: _Share, failed: dict[int, Failure]) -> Progress:
        """Past a share."""
        place, given, before, skipped, _ = progress
        taken = share.places[: len(share.places) - share.repeated]
        more = Tally.of(self._ids_of(self._order(place)[taken]))
        place = Place(place.epoch, share.position, place.rule, place.late)
        if progress.place.position:
            return Progress(place, given.plus(more), before, {**skipped, **failed})
        return Progress(place, more, None, failed)

    def partners(self, draws: Any, /) -> Any:
        """Read a random partner for each sample of a batch, from the whole data set: for `mixup` and `cutmix`.

        The reader stays in place. The partner of a sample does not depend on batch sizes and shards. `where` and
        `weights` choose partners as they choose samples. Now and then a sample is its own partner.

        Args:
            draws: Keyed draws of the batch, such as ``rng.keyed(jpegs)["partners"]``.

        Returns:
            Outputs as of a batch of as many samples, with the names and ids of the partners. A partner that cannot be
            read is replaced by the next one, unless `on_error` is "raise".

        Raises:
            ArgumentError: These are no keyed draws, or the reader has no samples.
            DataError: A partner cannot be read, and `on_error` is "raise".

        >>> reader = ndd.readers.Map(dataset=list(range(100)))
        >>> (numbers,) = reader(batch_size=3)
        >>> (others,) = reader.partners(ndd.random.RNG(seed=1).keyed(numbers)["partners"])
        >>> others.shape, reader.position
        ([(), (), ()], 3)
        """
        operator = f"{self._operator}.partners"
        if not hasattr(draws, "draw") or not hasattr(draws, "epoch"):
            hint = 'Write reader.partners(rng.keyed(batch)["partners"]).'
            raise ArgumentError(operator, "draws", "the draws of RNG.keyed", shown(draws), hint)
        if not self._count:
            raise ArgumentError(operator, "draws", "those of a reader that has samples", "one of none")
        self._compare_order()
        turn = draws.turn
        try:
            words = draws.draw(draws.batch_size).following(2).tolist()
            places = numpy.array([(high << 32 | low) * self._count >> 64 for high, low in words], numpy.int64)
            with self._lock:
                place = self._place if draws.epoch == self._place.epoch else Place(draws.epoch, 0)
                on_error: OnError = "raise" if self._on_error == "raise" else "replace"
                outputs, _ = self._read_share(place, _Share(places, 0, place.position), on_error)
        except BaseException:
            draws.give_back(turn)
            raise
        return self._given(outputs if draws.batch_size is not None else _single(outputs) or ())

    def _read_share(
        self, place: Place, share: _Share, on_error: OnError | None = None
    ) -> tuple[tuple[Batch, ...], dict[int, Failure]]:
        """Read a share, as far as it can be read; the failures by sample id."""
        on_error = self._on_error if on_error is None else on_error
        order = self._order(place)
        failed: dict[int, Failure] = {}
        places, tries = share.places, numpy.zeros(len(share.places), numpy.intp)
        if reach := self._reach:
            first = share.position + self._shard(place.epoch)
            after = numpy.arange(first, min(first + reach * self._num_shards, len(order)), self._num_shards)
            self._expect(order[numpy.append(places, after)].tolist())
        while True:
            there = (places + tries) % len(order)
            indices = order[there]
            numbers = indices.tolist()
            try:
                origin = Origin(place.epoch, self._drawn_ids(there, indices), self._names(numbers))
                return self._loaded(numbers, origin), failed
            except DataError as error:
                if on_error == "raise" or isinstance(error, Replaced):
                    raise
                bad = [failure.index for failure in error.failures]
                for failure in error.failures:
                    if not tries[failure.index]:
                        number = numbers[failure.index]
                        failed[int(self._ids[number])] = dataclasses.replace(failure, index=number)
                if on_error == "skip":
                    places, tries = numpy.delete(places, bad), numpy.delete(tries, bad)
                else:
                    tries[bad] += 1
                    if tries.max() >= min(len(order), _REPLACEMENTS):
                        raise

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name is not None else ""
        order = f"shuffled with seed {self._rule.seed}" if self._rule.shuffle else "in listed order"
        if (drawn := self._drawn) is not None:
            how = "with" if drawn.replacement else "without"
            order = f"drawn by weights {how} replacement from {self._distinct} with seed {self._rule.seed}"
        launcher = f" (from {self._launcher})" if self._launcher else ""
        return (
            f"<{self._operator}{name}: {self._count} samples {order}, shard {self._shard_id} of "
            f"{self._num_shards}{launcher}, epoch {self.epoch}, position {self.position}>"
        )


class Replaced(DataError):
    """Files are others than those that were listed, or their store is out of reach: `on_error` is no help."""


class Epoch(Iterator[G]):
    """The rest of an epoch of a reader, made by `Reader.next_epoch`. Threads may share it: each batch goes to one."""

    _ended = Shadowed[bool]()

    def __init__(self, reader: Reader[G], batch_size: int | None) -> None:
        self._reader, self._batch_size = reader, batch_size
        self._epoch: int | None = None
        self._ended = False

    def __next__(self) -> G:
        if self._ended:
            raise StopIteration
        outputs = self._reader._given_out(self._step)
        if outputs is None:
            self._ended = True
            raise StopIteration
        return outputs

    def _step(self, progress: Progress) -> tuple[G | None, Progress]:
        here = self._here(progress)
        if self._epoch is None:
            self._epoch = here.place.epoch
        if here.place.epoch != self._epoch:
            return None, progress
        outputs, after = self._reader._rest(here, self._batch_size)
        return None if outputs is None else self._reader._given(outputs), after

    def _here(self, progress: Progress) -> Progress:
        """Where this iterator goes on: in the next epoch, where the reader's is over and was another one's."""
        return epoch_ended(progress) if progress.over and progress.place.epoch != self._epoch else progress

    def _left(self, here: Progress) -> int:
        over = self._ended or self._epoch not in (None, here.place.epoch)
        return 0 if over else self._reader._steps(here.place, self._batch_size or 1)

    def __len__(self) -> int:
        """How many steps are left. An empty rest of an epoch, of which a loop up to this asks nothing, ends it."""
        reader = self._reader
        if self._epoch is None:
            with reader._lock:
                here = self._here(reader._progress)
                left = self._left(here)
                if self._epoch is None:
                    self._epoch = here.place.epoch
                    if not left:
                        reader._progress = here._replace(over=True)
        return self._left(self._here(reader._progress))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self._left(self._here(self._reader._progress))} more steps of {self._reader!r}>"
