"""The reader that mixes others by weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic._base.state import State, untold
from dynamic.data import Batch
from dynamic.errors import ArgumentError, DataError, Failure, shown

from ._checks import natural, word
from ._order import keys
from ._place import Place, Tally, checked, no_state, unfit
from ._placed import _ON_MISMATCH, Explanation, OnMismatch, Progress
from ._reader import LastBatch, OnError, Reader, Replaced
from ._stored import Stored

__all__ = ["Mix"]

Stop: TypeAlias = Literal["first", "longest"] | int
_BLOCK = 1024  # places that are shared out exactly, and shuffled among themselves
_UNIT = 1 << 32  # weights are multiples of 1 / _UNIT, so that shares are exact
_MOST = 1 << 31  # places of an epoch: products with weights fit in 64 bits


class Mix(Reader[Any]):
    """Mixes the samples of other readers by weights.

    The child that gives place n of an epoch is a function of the seed, the epoch and n. Each block of 1,024 places has
    exactly the share of each child, to one sample, in random order. A child gives its samples in its own order,
    shuffled or listed. So any batch size, shards and places to resume give the same mixture.

    All children have the same outputs. They are read here alone: their own places stay. Shards, the last batch and bad
    samples are arguments of the mixture, and a child must have none of these.

    Args:
        children: A reader for each name.
        weights: A positive number for each name; only their ratios matter. By default a child has as many shares as
            samples.
        stop: The end of an epoch: "first" ends it before a child would give a sample twice, and all children begin
            anew; "longest" when every child has given all its samples, and shorter ones have begun their next epochs
            meanwhile; a number is the number of samples. With the last two, children go on where they are in the next
            epoch, and each of their own epochs gives every sample once.
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        seed: Seed of the mixture, 0 to 2**64 - 1; None is 0.
        shard: As of `File`.
        shard_id: As of `File`.
        num_shards: As of `File`.
        last_batch: As of `File`.
        on_error: As of `File`.
        on_mismatch: As of `File`. With "adapt", a mixture of other weights, or of other children, goes on from the
            samples that each child has given.

    Raises:
        ArgumentError: An argument is wrong.

    >>> tens, units = ([numpy.float32(i * scale) for i in range(1, 6)] for scale in (10, 1))
    >>> children = {"tens": ndd.readers.Map(dataset=tens), "units": ndd.readers.Map(dataset=units)}
    >>> mix = ndd.readers.Mix(children, weights={"tens": 2, "units": 1}, stop=6, seed=1)
    >>> [batch.tolist() for (batch,) in mix.next_epoch(batch_size=3)]
    [[1.0, 10.0, 20.0], [30.0, 40.0, 2.0]]
    """

    _operator: ClassVar[str] = "readers.Mix"

    def __init__(
        self,
        children: Mapping[str, Reader[Any]],
        *,
        weights: Mapping[str, float] | None = None,
        stop: Stop = "first",
        max_batch_size: int | None = None,
        name: str | None = None,
        seed: int | None = None,
        shard: str | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        last_batch: LastBatch = "partial",
        on_error: OnError = "raise",
        on_mismatch: OnMismatch = "raise",
    ) -> None:
        self._children = _checked_children(children)
        self._paired = True
        super().__init__(
            max_batch_size=max_batch_size,
            name=name,
            shuffle=True,
            seed=seed,
            shard=shard,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=False,
            last_batch=last_batch,
            on_error=on_error,
            fingerprint=None,
            on_mismatch=on_mismatch,
        )
        sizes = [child._count for child in self._children.values()]
        self._sizes = numpy.array(sizes, numpy.int64)  # of epochs of children
        self._firsts = numpy.concatenate([[0], numpy.cumsum([child._distinct for child in self._children.values()])])
        self._ends = _shares(self._children, weights, sizes)
        self._stop = stop if isinstance(stop, str) else natural(self._operator, "stop", stop, 1, _MOST - 1)
        if isinstance(stop, str):
            word(self._operator, "stop", stop, ("first", "longest"))
        self._offsets, self._since = numpy.zeros(len(sizes), numpy.int64), 0  # of samples given, from an epoch on
        self._size = self._epoch_size(self._sizes)

    # -- the mixture --------------------------------------------------------------------------------------------------

    def _taken(self, places: int) -> Array:
        """The number of samples of each child in so many places from the start of an epoch."""
        ends: Array = (self._ends * numpy.uint64(places) + numpy.uint64(_UNIT // 2)) >> numpy.uint64(32)
        return numpy.diff(ends.astype(numpy.int64))

    def _epoch_size(self, sizes: Array) -> int:
        if not isinstance(self._stop, str):
            return self._stop
        first = self._stop == "first"
        low, high = (0, _MOST - 1)  # the greatest number of places that no child is too small for; or the least, less 1
        while low < high:
            middle = (low + high + 1) // 2
            taken = self._taken(middle)
            if (taken <= sizes).all() if first else (taken < sizes).any():
                low = middle
            else:
                high = middle - 1
        size = low if first else low + 1
        if not 0 < size < _MOST:
            raise ArgumentError(self._operator, "weights", "such that an epoch has samples, below 2**31", "others")
        return size

    def _sequence(self, epoch: int) -> Array:
        """The number of the child of each place of an epoch."""
        blocks = -(-self._size // _BLOCK)
        bounds = numpy.minimum(numpy.arange(blocks + 1, dtype=numpy.uint64) * numpy.uint64(_BLOCK), self._size)
        ends = (self._ends[:, None] * bounds + numpy.uint64(_UNIT // 2)) >> numpy.uint64(32)
        counts = numpy.diff(numpy.diff(ends.astype(numpy.int64), axis=1), axis=0)  # (children, blocks)
        numbers = numpy.repeat(numpy.tile(numpy.arange(len(counts)), blocks), counts.T.reshape(-1))
        by = keys(numpy.arange(self._size, dtype=numpy.uint64), self._rule.seed, f"mix {epoch}")
        order = numpy.lexsort((by, numpy.arange(self._size) // _BLOCK))
        sequence: Array = numpy.empty(self._size, numpy.int64)
        sequence[order] = numbers
        return sequence

    def _order(self, place: Place) -> Any:
        """The sample numbers of the epoch of a place, in their order; those of two epochs are kept."""
        epoch = place.epoch
        with self._ordering:
            key = Place(epoch, 0)
            if key not in self._orders:
                self._keep_order(key, self._made_order(epoch))
            return self._orders[key]

    def _made_order(self, epoch: int) -> Array:
        sequence = self._sequence(epoch)
        order = numpy.empty(self._size, numpy.int64)
        begun = self._begun(epoch)
        for number, child in enumerate(self._children.values()):
            places, size = numpy.flatnonzero(sequence == number), child._count
            turns = begun[number] + numpy.arange(len(places))
            if self._stop == "first":
                order[places] = self._firsts[number] + child._order(Place(epoch, 0))[turns]
                continue
            for own in range(int(turns[0]) // size, int(turns[-1]) // size + 1) if len(turns) else ():
                some = turns // size == own
                order[places[some]] = self._firsts[number] + child._order(Place(own, 0))[turns[some] % size]
        return order

    def _begun(self, epoch: int) -> list[int]:
        """How many samples each child has given before an epoch."""
        if self._stop == "first":
            return [0] * len(self._children)
        whole = self._taken(self._size).tolist()
        offsets = self._offsets.tolist() if epoch >= self._since else [0] * len(whole)
        return [offset + epoch * each for offset, each in zip(offsets, whole, strict=True)]

    def _given_by(self, place: Place) -> dict[str, int]:
        """How many samples each child has given before a place."""
        sums = zip(self._children, self._begun(place.epoch), self._taken_before(place), strict=True)
        return {name: begun + taken for name, begun, taken in sums}

    def _taken_before(self, place: Place) -> list[int]:
        numbers = self._order(place)[: place.position]
        return numpy.histogram(numbers, self._firsts)[0].tolist()  # type: ignore[no-any-return] # NumPy has no type for it

    # -- samples ------------------------------------------------------------------------------------------------------

    @property
    def _count(self) -> int:
        return self._size

    @property
    def _distinct(self) -> int:
        return int(self._firsts[-1])

    @property
    def _repeats(self) -> bool:
        return self._stop != "first" or any(child._repeats for child in self._children.values())

    @property
    def _ids(self) -> Any:
        if self._known_ids is None:
            self._known_ids = numpy.concatenate(
                [child._ids ^ _number_of(name) for name, child in self._children.items()]
            )
        return self._known_ids

    _known_ids: Any = None

    def _ids_of(self, indices: Any) -> Any:
        return self._ids[indices]

    def _names(self, indices: list[int]) -> list[str]:
        found = [""] * len(indices)
        for name, child, places, own in self._dealt(indices):
            for place, each in zip(places.tolist(), child._names(own), strict=True):
                found[place] = f"{name}/{each}"
        return found

    def _dealt(self, indices: list[int]) -> list[tuple[str, Reader[Any], Array, list[int]]]:
        """For each child that some samples are of: its name, it, their places, and their numbers in it."""
        numbers = numpy.asarray(indices, numpy.int64)
        owners = numpy.searchsorted(self._firsts, numbers, "right") - 1
        dealt = []
        for i, (name, child) in enumerate(self._children.items()):
            places = numpy.flatnonzero(owners == i)
            if len(places):
                dealt.append((name, child, places, (numbers[places] - self._firsts[i]).tolist()))
        return dealt

    @property
    def _reach(self) -> int:
        return max(child._reach for child in self._children.values())

    def _expect(self, indices: list[int]) -> None:
        for _, child, _, own in self._dealt(indices):
            child._expect(own)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        if not indices:
            child = next(iter(self._children.values()))
            return child._loaded([], origin)
        parts: list[tuple[str, Array, tuple[Batch, ...]]] = []
        failures: list[Failure] = []
        kind: type[DataError] = DataError
        for name, child, places, own in self._dealt(indices):
            try:
                parts.append((name, places, child._loaded(own, origin.take(places))))
            except DataError as error:
                kind = Replaced if isinstance(error, Replaced) else kind
                failures += [_moved(failure, places) for failure in error.failures]
        if failures:
            raise kind(self._operator, sorted(failures, key=lambda failure: failure.index), len(indices))
        return tuple(self._joined(parts, k, origin) for k in range(self._outputs_of(parts)))

    def _outputs_of(self, parts: list[tuple[str, Array, tuple[Batch, ...]]]) -> int:
        counts = {name: len(batches) for name, _, batches in parts}
        if len(set(counts.values())) > 1:
            raise ArgumentError(self._operator, "children", "readers of as many outputs each", shown(counts))
        return next(iter(counts.values()))

    def _joined(self, parts: list[tuple[str, Array, tuple[Batch, ...]]], k: int, origin: Origin) -> Batch:
        """An output of all children, in the order of the mixture."""
        if len(parts) == 1:
            return parts[0][2][k]
        kinds = {name: (str(batches[k].dtype), batches[k].ndim) for name, _, batches in parts}
        if len(set(kinds.values())) > 1:
            told = ", ".join(f"{name!r} {dtype} of {ndim} dimensions" for name, (dtype, ndim) in kinds.items())
            expected = "readers whose outputs have one dtype and number of dimensions"
            raise ArgumentError(self._operator, "children", expected, f"as output {k} {told}")
        samples: list[Any] = [None] * len(origin)
        for _, places, batches in parts:
            for place, sample in zip(places.tolist(), batches[k].samples, strict=True):
                samples[place] = sample
        return Batch(samples, origin=origin)

    def _given(self, outputs: Any) -> Any:
        return next(iter(self._children.values()))._given(outputs)

    def explain(self, sample: int | str, epoch: int | None = None) -> Explanation:
        """Find a sample in an epoch, as other readers. Its name begins with that of the child: ``"photos/7"``."""
        return super().explain(sample, epoch)

    # -- states -------------------------------------------------------------------------------------------------------

    def _digests(self, *, sort: bool, contents: bool, sized: int) -> dict[str, str]:
        del sort, contents, sized  # children have their own, in `_mixture`
        return {"names": self._digest_of_names(sort=True), "labels": "", "sizes": "", "contents": ""}

    def _digest_of_names(self, *, sort: bool) -> str:
        del sort
        text = json.dumps([self._mixture(), self._stop, list(self._children)], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _mixture(self) -> dict[str, Any]:
        """Each child's weight and samples, as far as the mixture depends on them."""
        shares = numpy.diff(self._ends.astype(numpy.int64)).tolist()
        found = {}
        for (name, child), share in zip(self._children.items(), shares, strict=True):
            found[name] = {"share": share, "state": child._state_at(Progress(), expected=False)}
        return found

    def _chances(self, place: Place, *, expected: bool) -> dict[str, Any]:
        return {"expected": str(self._expected(place))} if expected else {}

    def get_state(self) -> State:
        """Return the place and the mixture as JSON values. Take it at any time.

        Returns:
            A dict as of other readers, with the key "mixture". It has "stop", and the "share" of 2**32, the "state" at
            the start and the number of samples "given" of each child.
        """
        with self._ordering:
            return self._state_at(self._progress)

    def _state_at(self, progress: Progress, *, expected: bool = True) -> State:
        given = self._given_by(progress.place)
        children = {name: {**each, "given": given[name]} for name, each in self._mixture().items()}
        offsets = dict(zip(self._children, self._offsets.tolist(), strict=True))
        mixture: dict[str, Any] = {"stop": self._stop, "children": children, "offsets": offsets, "since": self._since}
        return {**super()._state_at(progress, expected=expected), "mixture": mixture}

    state_dict = get_state

    def set_state(self, state: State, *, on_mismatch: OnMismatch | None = None) -> None:
        """Return to the place of a state, as other readers. The children stay in place."""
        operator = self._operator
        with self._lock, self._ordering:
            given = dict(untold(state)) if isinstance(state, dict) else {}
            mixture = _checked_mixture(operator, given.pop("mixture", None))
            known = checked(operator, given)
            policy = self._on_mismatch
            if on_mismatch is not None:
                policy = word(f"{operator}.set_state", "on_mismatch", on_mismatch, _ON_MISMATCH)
            differences = self._changed(known, mixture)
            if differences and policy != "adapt":
                hint = "Give it the children and weights that it had, or on_mismatch='adapt' to go on with these."
                raise unfit(operator, differences, hint)
            if differences and self._stop == "first":
                hint = "With stop='first' children begin anew in each epoch: begin one with seek(0)."
                raise unfit(operator, differences, hint)
            back = self._way_back()
            try:
                place = self._adapted(known, mixture) if differences else self._same(known, mixture)
                skipped = {int(i, 16): self._skip_of_old(int(i, 16)) for i in known["skipped"]}
                self._go_to(place, Tally.parsed(known["given"]), skipped)
            except BaseException:
                back()
                raise

    def _way_back(self) -> Callable[[], None]:
        back, offsets, since = super()._way_back(), self._offsets, self._since

        def returned() -> None:
            back()
            with self._ordering:
                self._moved_to(offsets, since)

        return returned

    def _moved_to(self, offsets: Array, since: int) -> None:
        """Let children have given other numbers of samples, from an epoch on."""
        self._offsets, self._since = offsets, since
        self._begun_with = None
        self._orders.clear()
        self._tallies.clear()

    def _changed(self, known: dict[str, Any], mixture: dict[str, Any]) -> list[str]:
        """The differences of a state's mixture from this one."""
        found = []
        if mixture["stop"] != self._stop:
            found.append(f"stop: {mixture['stop']!r} in the state, {self._stop!r} here")
        if known["seed"] != self._rule.seed:
            found.append(f"seed: {known['seed']} in the state, {self._rule.seed} here")
        there, here = mixture["children"], self._mixture()
        found += [f"children: {name!r} is missing here" for name in there if name not in here]
        found += [f"children: {name!r} is not in the state" for name in here if name not in there]
        for name in here.keys() & there.keys():
            if there[name]["share"] != here[name]["share"]:
                before, now = (f"{each[name]['share'] / _UNIT:.6g}" for each in (there, here))
                found.append(f"weights: {name!r} has {before} in the state, {now} here")
            child = self._children[name]
            found += [f"{name}: {text}" for text in child._differences(checked(self._operator, there[name]["state"]))]
        return sorted(found)

    def _same(self, known: dict[str, Any], mixture: dict[str, Any]) -> Place:
        offsets = mixture["offsets"]
        before = numpy.array([offsets[name] for name in self._children], numpy.int64)
        if self._since != mixture["since"] or not numpy.array_equal(before, self._offsets):
            self._moved_to(before, mixture["since"])
        return self._exact(known)

    def _adapted(self, known: dict[str, Any], mixture: dict[str, Any]) -> Place:
        """The same place, from which each child goes on behind the samples that it has given."""
        place = Place(known["epoch"], min(known["position"], self._size))
        self._moved_to(numpy.zeros_like(self._offsets), 0)
        here, there = self._given_by(place), mixture["children"]
        given = [there[name]["given"] if name in there else 0 for name in here]
        offsets = numpy.array(given, numpy.int64) - numpy.array(list(here.values()), numpy.int64)
        self._moved_to(offsets, place.epoch)
        return place


def _checked_children(children: Any) -> dict[str, Reader[Any]]:
    operator = Mix._operator
    if not isinstance(children, Mapping) or not children or not all(isinstance(name, str) for name in children):
        raise ArgumentError(operator, "children", "a dict of names and readers", shown(children))
    for name, child in children.items():
        argument = f"children[{name!r}]"
        if not isinstance(child, (Stored, Mix)):
            raise ArgumentError(operator, argument, "a reader of dynamic.readers", shown(child))
        if isinstance(child, Mix):
            raise ArgumentError(operator, argument, "no mixture: give all readers to one", shown(child))
        alone = {"num_shards": child._num_shards == 1, "on_error": child._on_error == "raise"}
        for option, fits in alone.items():
            if not fits:
                raise ArgumentError(
                    operator, argument, f"a reader without {option}: give it to the mixture", shown(child)
                )
    return dict(children)


def _shares(children: Mapping[str, Any], weights: Any, sizes: Sequence[int]) -> Array:
    """The ends of the shares of children, in units of which a whole has 2**32: uint64 of one more than there are."""
    operator = Mix._operator
    if weights is None:
        weights = dict(zip(children, sizes, strict=True))
    if not isinstance(weights, Mapping) or weights.keys() != children.keys():
        raise ArgumentError(operator, "weights", f"a dict with a number for each of {list(children)}", shown(weights))
    for name, weight in weights.items():
        number = isinstance(weight, (int, float, numpy.number)) and not isinstance(weight, bool)
        if not number or not 0 < weight < float("inf"):
            raise ArgumentError(operator, f"weights[{name!r}]", "a finite number above 0", shown(weight))
    exact = [Fraction(weights[name]) for name in children]  # by their order, not that of the weights
    total, ends, summed = sum(exact), [0], Fraction(0)
    for weight in exact:
        summed += weight
        ends.append(round(summed * _UNIT / total))
    if min(numpy.diff(ends)) <= 0:
        raise ArgumentError(operator, "weights", f"each at least 1 / {_UNIT} of their sum", shown(weights))
    return numpy.array(ends, numpy.uint64)


def _number_of(name: str) -> Any:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, person=b"dynamic mix")
    return numpy.uint64(int.from_bytes(digest.digest(), "little"))


def _moved(failure: Failure, places: Array) -> Failure:
    """The failure of a child's sample, at its place in the batch of the mixture."""
    return Failure(int(places[failure.index]), failure.reason, failure.format, failure.source)


def _checked_mixture(operator: str, given: Any) -> dict[str, Any]:
    keys_of_child = {"share": int, "state": dict, "given": int}
    if not isinstance(given, dict) or given.keys() != {"stop", "children", "offsets", "since"}:
        raise no_state(operator, "it has no 'mixture': it is of another reader")
    whole = isinstance(given["children"], dict) and isinstance(given["offsets"], dict) and type(given["since"]) is int
    if not whole or given["children"].keys() != given["offsets"].keys() or given["since"] < 0:
        raise no_state(operator, "'mixture' is damaged")
    for name, child in given["children"].items():
        kinds = {key: type(value) for key, value in child.items()} if isinstance(child, dict) else {}
        if kinds != keys_of_child or type(given["offsets"][name]) is not int:
            raise no_state(operator, f"the child {name!r} of 'mixture' is damaged")
    return given
