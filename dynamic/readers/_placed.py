"""Samples in an order, and a place among them that can be saved, returned to, and told from any other."""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy

from dynamic._base.locks import new_lock
from dynamic._base.places import Shadowed
from dynamic._base.state import MOST_COUNTED, State, untold
from dynamic.errors import ArgumentError, Failure, StateWarning, shown

from ._checks import natural, word
from ._choice import Weights, occurrences
from ._environment import environment_shard
from ._order import Order
from ._place import (
    VERSION,
    Place,
    Rule,
    Tally,
    Untold,
    adapted,
    checked,
    hexadecimal,
    known_samples,
    no_state,
    rule_of,
    tally_keys,
    unfit,
    what_changed,
)
from ._sketch import sketch

__all__ = ["Explanation", "Fingerprint", "OnMismatch", "Placed"]

#: Seed of the shuffle where none is given: fixed, so that all ranks and a resumed run agree without a word.
_DEFAULT_SEED = 0

_SIZED = 4096  # samples whose sizes are told: where 1 file in 1000 has another, 98 of 100 times one of them has

OnMismatch: TypeAlias = Literal["raise", "warn", "adapt"]
Fingerprint: TypeAlias = Literal["sizes", "contents"]
_FINGERPRINTS: tuple[Fingerprint, ...] = ("sizes", "contents")
_ON_MISMATCH: tuple[OnMismatch, ...] = ("raise", "warn", "adapt")

_DIGESTS = {
    "labels": "the same samples with other labels",
    "sizes": "the same samples with other sizes",
    "contents": "samples of the same names and sizes with other contents",
}


class Explanation(NamedTuple):
    """Where a sample is in an epoch; printed, it is a sentence."""

    name: str
    id: int  #: that draws are keyed to: of the sample, or where it may come again in an epoch of this time
    epoch: int
    place: int  #: how many samples come before it in the order of the epoch
    given: bool  #: whether it lies before the reader's place
    shard: int | None  #: which shard will be given it, of those there are now
    times: int = 1  #: how often it comes in the epoch

    def __str__(self) -> str:
        state = "has been given" if self.given else f"comes on shard {self.shard}"
        again = f"; it comes {self.times} times in the epoch" if self.times > 1 else ""
        place = f"has place {self.place} in epoch {self.epoch} and {state}{again}"
        return f"{self.name!r} (id {hexadecimal(self.id)}) {place}"


class Progress(NamedTuple):
    """How far a reader is. Replaced as a whole: an interrupted step is done or not begun."""

    place: Place = Place(0, 0)
    given: Tally = Tally()  #: the samples given to this shard in the epoch, after `before`
    before: Place | None = None  #: up to there its share counts as given to this shard
    skipped: Mapping[int, Failure] = {}  #: by id: samples of this epoch that could not be read
    over: bool = False  #: whether this process was given all batches of the epoch, and the next begins; in no state


class Placed(ABC):
    """An object with samples, an order in which they are visited, and a place in it.

    Subclasses say which samples there are (`_count`, `_ids`, `_names`, `_digests`).
    """

    _operator: ClassVar[str]
    _seeded: bool = False  # whether it was given a seed
    _paired: bool = False  # whether its order is known to fit that of other readers, or need not
    _progress = Shadowed[Progress]()
    _begun_with: tuple[Place, Tally] | None = None  # a place, and the tally of this shard's share before it

    def __init__(
        self,
        *,
        shuffle: bool,
        seed: int | None,
        shard: str | None,
        shard_id: int | None,
        num_shards: int | None,
        stick_to_shard: bool,
        fingerprint: Fingerprint | None,
        on_mismatch: OnMismatch,
    ) -> None:
        operator = self._operator
        if shard is not None:
            shard_id, num_shards = environment_shard(operator, shard, shard_id, num_shards)
        self._launcher = shard
        self._num_shards = natural(operator, "num_shards", 1 if num_shards is None else num_shards, 1)
        self._shard_id = natural(operator, "shard_id", 0 if shard_id is None else shard_id, 0, self._num_shards - 1)
        self._stick_to_shard = stick_to_shard
        seed = natural(operator, "seed", -1 if seed is None else seed, -1, MOST_COUNTED)
        self._seeded = seed != -1
        seed = _DEFAULT_SEED if seed == -1 else seed
        self._rule = Rule(shuffle, seed, self._num_shards if shuffle and stick_to_shard else 1)
        self._fingerprint = None if fingerprint is None else word(operator, "fingerprint", fingerprint, _FINGERPRINTS)
        self._on_mismatch = word(operator, "on_mismatch", on_mismatch, _ON_MISMATCH)
        self._adopted: set[Rule] = set()  # of other readers, whose epochs this one was made to end
        self._progress = Progress()
        self._orders: dict[Place, Any] = {}
        self._tallies: dict[Place, Tally] = {}
        self._known_sets: dict[str, str] | None = None
        self._lock = new_lock()  # who holds it moves the reader, as long as a batch is read
        self._ordering = new_lock()

    @property
    @abstractmethod
    def _count(self) -> int:
        """The number of samples in an epoch."""

    @property
    @abstractmethod
    def _distinct(self) -> int:
        """The number of samples that there are, each of which may come several times in an epoch or not at all."""

    @property
    def _drawn(self) -> Weights | None:
        """The weights by which samples are drawn, if they are."""
        return None

    @property
    def _repeats(self) -> bool:
        """Whether a sample may come several times in an epoch: then its draws are keyed to the place as well."""
        return self._drawn is not None and self._drawn.replacement

    @property
    def _listed_tally(self) -> str:
        """The tally of all samples that are listed, of which some may be selected; empty where all are."""
        return ""

    @property
    @abstractmethod
    def _ids(self) -> Any:
        """The id of each sample: uint64 of shape (N,)."""

    @abstractmethod
    def _ids_of(self, indices: Any) -> Any:
        """The ids of some samples, which may be found faster than all."""

    @abstractmethod
    def _names(self, indices: list[int]) -> list[str]:
        """The names of some samples in errors."""

    @abstractmethod
    def _digests(self, *, sort: bool, contents: bool, sized: int) -> dict[str, str]:
        """Digests over the "names", "labels", "sizes" and "contents" (or empty), and their order if not `sort`.

        That of sizes is over those of `sized` samples, of the least ids.
        """

    @abstractmethod
    def _digest_of_names(self, *, sort: bool) -> str:
        """The first of these alone."""

    @property
    def _sized(self) -> int:
        """Of how many samples a state tells the sizes."""
        n = self._distinct
        return min(n, _SIZED) if self._fingerprint is None else n

    @property
    def _place(self) -> Place:
        return self._progress.place

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0 on: loop over ``range(reader.epoch, epochs)``.

        After the last batch of an epoch it is the next one. A state taken there still has the epoch of that batch: a
        reader that resumes from it finds no more batches in that epoch.
        """
        progress = self._progress
        return progress.place.epoch + progress.over

    @property
    def position(self) -> int:
        """The number of samples that all shards together have taken from the epoch."""
        progress = self._progress
        return 0 if progress.over else progress.place.position

    @property
    def skipped(self) -> list[Failure]:
        """The unreadable samples of this epoch that this shard has skipped or replaced, with reasons.

        `Failure.index` is the sample's number in the listing. After a resume, samples from before the state are listed
        without their reason.
        """
        return list(self._progress.skipped.values())

    def seek(self, position: int, epoch: int | None = None) -> None:
        """Go to a place.

        Args:
            position: The number of samples that all shards together have taken, 0 to the size of an epoch.
            epoch: The epoch, 0 to 2**64 - 1; by default this one.

        Raises:
            ArgumentError: There is no such place.

        >>> reader = ndd.readers.Map(dataset=list(range(10)))
        >>> reader.seek(6)
        >>> reader(batch_size=2)[0].tolist()
        [6, 7]
        """
        operator = f"{self._operator}.seek"
        with self._lock:
            position = natural(operator, "position", position, 0, self._count)
            epoch = self._place.epoch if epoch is None else natural(operator, "epoch", epoch, 0, MOST_COUNTED)
            place = self._place if epoch == self._place.epoch else Place(epoch, 0)
            self._go_to(place._replace(position=position), Tally(), {})

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, as samplers of PyTorch do. A reader that is in it stays in place.

        Args:
            epoch: The epoch, 0 to 2**64 - 1.

        Raises:
            ArgumentError: There is no such epoch.

        >>> reader = ndd.readers.Map(dataset=list(range(10)))
        >>> reader.set_epoch(3)
        >>> reader(batch_size=2)[0].origin.epoch
        3
        """
        if natural(f"{self._operator}.set_epoch", "epoch", epoch, 0, MOST_COUNTED) != self.epoch:
            self.seek(0, epoch)

    def explain(self, sample: int | str, epoch: int | None = None) -> Explanation:
        """Find a sample in an epoch. Of a sample that comes several times, it is the first time.

        ``rng.keyed([explanation.id], epoch)["angle"]`` gives its keyed draws.

        Args:
            sample: Its name (a path relative to the root) or its id, an integer or 16 hexadecimal digits. The ids in
                ``batch.origin`` tell repetitions of a sample apart.
            epoch: The epoch; by default this one.

        Returns:
            Name, id, epoch, place in the order, and the shard that it comes on. Printed, it is a sentence.

        Raises:
            ArgumentError: There is no such sample, or it does not come in the epoch.

        >>> reader = ndd.readers.Map(dataset=[{"id": f"photo-{i}"} for i in range(9)], outputs=["id"], key="id",
        ...                          random_shuffle=True, num_shards=2)
        >>> print(reader.explain("photo-4"))  # doctest: +ELLIPSIS
        'photo-4' (id ...) has place ... in epoch 0 and comes on shard ...
        """
        operator = f"{self._operator}.explain"
        here = self._place
        epoch = here.epoch if epoch is None else natural(operator, "epoch", epoch, 0, MOST_COUNTED)
        order = self._order(here if epoch == here.epoch else Place(epoch, 0))
        number, place = self._number(operator, sample, order)
        times = int(numpy.count_nonzero(order == number))
        if not times:
            expected = f"a sample that comes in the epoch {epoch}"
            raise ArgumentError(operator, "sample", expected, shown(sample))
        place = int(numpy.flatnonzero(order == number)[0]) if place is None else place
        begun = here.position if epoch == here.epoch else 0
        given = epoch < here.epoch or place < begun
        shard = None if given else self._shard_of(epoch, (place - begun) % self._num_shards)
        drawn = int(self._drawn_ids(numpy.array([place]), order[place : place + 1])[0])
        return Explanation(self._names([number])[0], drawn, epoch, place, given, shard, times)

    def counts(self, epoch: int | None = None) -> dict[str, int]:
        """Count how often each sample comes in an epoch, on all shards together.

        Args:
            epoch: The epoch, 0 to 2**64 - 1; by default this one.

        Returns:
            The count by name, 0 for samples that do not come. Without weights it is 1, but for names that are listed
            more than once.

        >>> reader = ndd.readers.Map(dataset=["a", "b", "c"], weights=[2, 1, 0], num_samples=100, seed=1)
        >>> counts = reader.counts()
        >>> sum(counts.values()), counts["0"] > counts["1"], counts["2"]
        (100, True, 0)
        """
        here = self._place
        if epoch is None:
            epoch = here.epoch
        epoch = natural(f"{self._operator}.counts", "epoch", epoch, 0, MOST_COUNTED)
        return self._counted(self._order(here if epoch == here.epoch else Place(epoch, 0)))

    def _counted(self, order: Any) -> dict[str, int]:
        """How often samples come in an order."""
        found: dict[str, int] = {}
        times = numpy.bincount(order, minlength=self._distinct).tolist()
        for name, more in zip(self._names(list(range(self._distinct))), times, strict=True):
            found[name] = found.get(name, 0) + more
        return found

    def _audited(self, state: State, epoch: int, given: tuple[int, int]) -> tuple[dict[str, int], str]:
        """How often each sample comes in an epoch, and in words how a tally of given samples differs from that.

        Args:
            state: A state in this epoch, or at the start of the next.
            epoch: The epoch.
            given: The number of samples and the digest.

        Raises:
            StateMismatch: The state is of another reader.
        """
        back = self._way_back()
        try:
            self.set_state(state, on_mismatch="raise")
            place = self._place
            order = self._order(place if place.epoch == epoch else Place(epoch, 0, place.rule))
        finally:
            back()
        expected = Tally.of(self._ids[order])
        more = given[0] - expected.samples
        if more == 0 and given[1] == expected.digest:
            return self._counted(order), ""
        hashes, lacks = tally_keys(self._ids), numpy.uint64((given[1] - expected.digest) % 2**64)
        if more == 1:
            found = [(i, -1) for i in numpy.flatnonzero(hashes == lacks).tolist()]
        elif more == -1:
            found = [(-1, i) for i in numpy.flatnonzero(hashes + lacks == 0).tolist()]
        else:
            there = numpy.flatnonzero(numpy.isin(hashes, hashes + lacks)) if more == 0 else numpy.zeros(0, numpy.intp)
            found = [(i, int(numpy.flatnonzero(hashes == hashes[i] - lacks)[0])) for i in there[:1].tolist()]
        for often, rarely in found[:1]:
            parts = ((often, "often"), (rarely, "rarely"))
            return {}, " and ".join(f"{self._names([i])[0]!r} once too {word}" for i, word in parts if i >= 0)
        return {}, "more than two samples too often or too rarely"

    def _drawn_ids(self, places: Any, numbers: Any) -> Any:
        """The ids that draws of samples at some places of an epoch are keyed to."""
        ids = self._ids_of(numbers)
        return occurrences(ids, places) if self._repeats else ids

    def _number(self, operator: str, sample: Any, order: Any) -> tuple[int, int | None]:
        """The number of a sample in the listing, and its place in an epoch if an id tells it."""
        wanted: int | None = None
        if isinstance(sample, (int, numpy.integer)) and not isinstance(sample, bool):
            wanted = int(sample)
        elif isinstance(sample, str):
            names = self._names(list(range(len(self._ids))))
            if sample in names:
                return names.index(sample), None
            wanted = int(sample, 16) if re.fullmatch("[0-9a-f]{16}", sample) else None
        if wanted is None or not 0 <= wanted < 2**64:
            found = numpy.empty(0, numpy.intp)
        else:
            found = numpy.flatnonzero(self._ids == numpy.uint64(wanted))
            if not len(found) and self._repeats:
                places = self._drawn_ids(numpy.arange(len(order)), order)
                for place in numpy.flatnonzero(places == numpy.uint64(wanted)).tolist():
                    return int(order[place]), place
        if not len(found):
            raise ArgumentError(operator, "sample", "the name or id of a sample of this reader", shown(sample))
        return int(found[0]), None

    def get_state(self) -> State:
        """Return the place, with its data and order, as JSON values. Take it at any time.

        Returns:
            A dict of about a kilobyte, listed in docs/checkpoints.md. It has the place ("epoch", "position", "last"),
            the order ("shuffle", "seed", "dealt"), digests of the data set ("samples", "names", "labels", "sized",
            "sizes", "contents", "whole", "sketch"), and tallies of this shard ("given", "skipped"). Only these differ
            between shards. A selection adds "listed"; weights add "weights", "replacement" and "expected".

        >>> reader = ndd.readers.Map(dataset=list(range(10)))
        >>> _ = reader(batch_size=4)
        >>> state = reader.get_state()
        >>> state["epoch"], state["position"], state["samples"]
        (0, 4, 10)
        """
        return self._state_at(self._progress)  # no lock: others may take long to read a batch

    def _state_at(self, progress: Progress, *, expected: bool = True) -> State:
        """The state at a place, wherever this reader has got to since, with or without the tally of its epoch."""
        place = progress.place
        rule = place.rule or self._rule
        return {
            "version": VERSION,
            "epoch": place.epoch,
            "position": place.position,
            "last": hexadecimal(self._last(place)),
            "late": [hexadecimal(i) for i in place.late],
            "shuffle": rule.shuffle,
            "seed": rule.seed,
            "dealt": rule.dealt,
            "samples": self._count,
            "sized": self._sized,
            **self._digests(sort=rule.shuffle, contents=self._fingerprint == "contents", sized=self._sized),
            **self._sets(),
            **self._chances(place, expected=expected),
            "given": str(self._tally(progress)),
            "skipped": [hexadecimal(i) for i in progress.skipped],
        }

    def _chances(self, place: Place, *, expected: bool) -> dict[str, Any]:
        """The keys of a state that tell of a selection, and how often samples come in an epoch."""
        found: dict[str, Any] = {"listed": self._listed_tally} if self._listed_tally else {}
        if self._drawn is not None:
            found |= {"weights": self._drawn.digest, "replacement": self._drawn.replacement}
            if expected:
                found["expected"] = str(self._expected(place))
        return found

    def _expected(self, place: Place) -> Tally:
        """The tally of the epoch that `given` is of, where that is not every sample once."""
        if not place.position and place.epoch:
            place = Place(place.epoch - 1, 0, place.rule)
        key = Place(place.epoch, 0, place.rule, place.late)
        found = self._tallies.get(key)
        if found is None:
            found = Tally.of(self._ids[self._order(place)])
            self._tallies.clear()
            self._tallies[key] = found
        return found

    def set_state(self, state: State, *, on_mismatch: OnMismatch | None = None) -> None:
        """Return to the place of a state. The reader may be new or used; after an error it stays as it was.

        Args:
            state: A result of `get_state`, of a reader of the same data in the same order. The number of shards and the
                batch size may differ.
            on_mismatch: The treatment of a state of other data or of another order: "raise", "warn" or "adapt"; by
                default the argument of the reader.

        Raises:
            StateMismatch: The state is of another data set or order; the message lists the differences. With "adapt":
                the rest of the epoch cannot be told.
            StateError: The state is not one of a reader.

        >>> reader = ndd.readers.Map(dataset=list(range(10)))
        >>> _ = reader(batch_size=4)
        >>> later = ndd.readers.Map(dataset=list(range(10)))
        >>> later.set_state(reader.get_state())
        >>> later(batch_size=3)[0].tolist()
        [4, 5, 6]
        """
        with self._lock:
            known = checked(self._operator, untold(state))
            policy = self._on_mismatch
            if on_mismatch is not None:
                policy = word(f"{self._operator}.set_state", "on_mismatch", on_mismatch, _ON_MISMATCH)
            differences = self._differences(known)
            place = self._mended(known, differences, policy) if differences else self._exact(known)
            skipped = {int(i, 16): self._skip_of_old(int(i, 16)) for i in known["skipped"]}
            self._go_to(place, Tally.parsed(known["given"]), skipped)

    state_dict = get_state

    def load_state_dict(self, state_dict: State) -> None:
        """Return to the place of a state, as `set_state`: the name of PyTorch."""
        self.set_state(state_dict)

    def _way_back(self) -> Callable[[], None]:
        with self._lock:
            progress, adopted = self._progress, frozenset(self._adopted)
        return functools.partial(self._return_to, progress, adopted)

    def _return_to(self, progress: Progress, adopted: frozenset[Rule]) -> None:
        with self._lock:
            self._progress, self._adopted = progress, set(adopted)

    def _exact(self, state: dict[str, Any]) -> Place:
        """The place of a state of the same data in the same order."""
        late = tuple(int(i, 16) for i in state["late"])
        rule = rule_of(state)
        place = Place(state["epoch"], state["position"], rule if rule in self._adopted else None, late)
        if late and not numpy.isin(numpy.array(late, numpy.uint64), self._ids).all():
            raise no_state(self._operator, "'late' has ids of no samples")
        if state["last"] != hexadecimal(self._last(place)):
            raise no_state(self._operator, f"'last' is not the sample before position {place.position}")
        return place

    def _mended(self, state: dict[str, Any], differences: list[str], policy: OnMismatch) -> Place:
        """The place to take for that of a state which does not fit."""
        if policy == "raise":
            hint = "Give it the data and arguments of the state, or on_mismatch='adapt'."
            raise unfit(self._operator, differences, hint)
        if policy == "warn":
            hint = (
                "It goes on from the same position, so that samples may be left out or repeated; "
                "on_mismatch='adapt' does neither."
            )
            warnings.warn(str(unfit(self._operator, differences, hint)), StateWarning, stacklevel=3)
            return Place(state["epoch"], min(state["position"], self._count))
        same = self._digest_of_names(sort=state["shuffle"]) == state["names"]
        drawn = self._drawn
        if drawn is not None or "weights" in state:
            place, exact = self._redrawn(state, same_list=same), True
            if place is None:
                return self._from_there_on(state, differences)
            return self._adopting(place)
        try:
            place, exact = adapted(state, self._ids, same_list=same)
        except Untold as untold_:
            hint = f"{untold_}. Begin an epoch with seek(0), or give the reader the data that it had."
            raise unfit(self._operator, differences, hint) from None
        if not exact:
            hint = (
                "Every sample of the epoch that is still there will be given once; new ones may have to wait for "
                "the next epoch."
            )
            warnings.warn(str(unfit(self._operator, differences, hint)), StateWarning, stacklevel=3)
        return self._adopting(place)

    def _redrawn(self, state: dict[str, Any], *, same_list: bool) -> Place | None:
        """The place of a state that has weights, if its epoch can go on as it would have; else None."""
        drawn, rule = self._drawn, rule_of(state)
        if drawn is None or state.get("replacement") != drawn.replacement:
            return None
        if same_list:
            place, _ = adapted(state, self._ids, same_list=True)
            place = place._replace(position=min(place.position, self._count))
            return place if state["weights"] == drawn.digest else None
        if drawn.replacement:
            return None
        with contextlib.suppress(Untold):
            up_to = functools.partial(drawn.up_to, seed=rule.seed, epoch=state["epoch"])
            place, exact = adapted(state, self._ids, same_list=False, up_to=up_to)
            return place if exact and place.position <= self._count else None
        return None

    def _from_there_on(self, state: dict[str, Any], differences: list[str]) -> Place:
        """The position of a state, from which samples are drawn as here."""
        drawn = self._drawn
        if drawn is None or not drawn.replacement:
            hint = (
                "It goes on from the same position with these weights. Samples given before may come again in this "
                "epoch, and others not at all."
            )
            warnings.warn(str(unfit(self._operator, differences, hint)), StateWarning, stacklevel=4)
        return Place(state["epoch"], min(state["position"], self._count))

    def _adopting(self, place: Place) -> Place:
        """A place, whose rule this reader follows to the end of its epoch."""
        if place.rule == self._rule:
            return place._replace(rule=None)
        if place.rule is not None:
            self._adopted.add(place.rule)
        return place

    def _differences(self, state: dict[str, Any]) -> list[str]:
        """The differences of data and order to a state."""
        found = []
        drawn = self._drawn
        mine: dict[str, Any] = {"samples": self._count}
        if rule_of(state) not in self._adopted:
            mine["shuffle"] = self._rule.shuffle
            if state["shuffle"] and self._rule.shuffle:
                mine |= {"seed": self._rule.seed, "dealt": self._rule.dealt}
        for key, value in mine.items():
            if state[key] != value:
                told = "num_samples" if key == "samples" and (drawn is not None or "weights" in state) else key
                found.append(f"{told}: {state[key]!r} in the state, {value!r} here")
        if (drawn is None) != ("weights" not in state):
            found.append(f"weights: {'none' if drawn else 'some'} in the state, {'some' if drawn else 'none'} here")
        elif drawn is not None and state["replacement"] != drawn.replacement:
            found.append(f"replacement: {state['replacement']} in the state, {drawn.replacement} here")
        if state["names"] != self._digest_of_names(sort=state["shuffle"]):  # then the others are of other samples
            return [*found, self._other_names(state)]
        if drawn is not None and state.get("weights", drawn.digest) != drawn.digest:
            found.append("weights: others for the same samples")
        digests = self._digests(sort=state["shuffle"], contents=bool(state["contents"]), sized=state["sized"])
        if state["sizes"] != digests["sizes"]:  # then the contents differ as well
            digests["contents"] = state["contents"]
        return found + [f"{key}: {text}" for key, text in _DIGESTS.items() if state[key] != digests[key]]

    def _other_names(self, state: dict[str, Any]) -> str:
        """The difference of the samples to those of a state."""
        change = what_changed(state, self._ids, self._names)
        whole, here = self._sets()["whole"], self._of
        if here != state.get("listed", state["whole"]) or whole == state["whole"]:
            return f"names: {change}"
        before, now, of = known_samples(state), self._distinct, Tally.parsed(here).samples
        return f"where: it selected {before} of the same {of} samples in the state, {now} here; {change}"

    @property
    def _of(self) -> str:
        """The tally of the data set that the samples are of, or are selected from."""
        return self._listed_tally or self._sets()["whole"]

    def _skip_of_old(self, sample_id: int) -> Failure:
        found = numpy.flatnonzero(self._ids == numpy.uint64(sample_id))
        number = int(found[0]) if len(found) else -1
        name = self._names([number])[0] if len(found) else hexadecimal(sample_id)
        return Failure(number, "was skipped before the state was taken", source=name)

    def _sets(self) -> dict[str, str]:
        """The keys of a state that tell which samples are in a set, whatever their order."""
        if self._known_sets is None:
            self._known_sets = {"whole": str(Tally.of(self._ids)), "sketch": sketch(self._ids)}
        return self._known_sets

    def _go_to(self, place: Place, given: Tally, skipped: dict[int, Failure]) -> None:
        """Take a place. Of the samples before it in its epoch the share of this shard counts as given to it."""
        begun, self._begun_with = place.position > 0, None
        self._progress = Progress(place, Tally() if begun else given, place if begun else None, skipped)

    def _tally(self, progress: Progress) -> Tally:
        """The tally of this shard in its epoch, or in the last one where it stands at the start of one."""
        before = progress.before
        if before is None:
            return progress.given
        known = self._begun_with
        if known is None or known[0] != before:
            order = self._order(before)[: before.position]
            share = order[self._shard(before.epoch) :: self._num_shards]
            known = self._begun_with = before, Tally.of(self._ids[share])
        return progress.given.plus(known[1])

    def _order(self, place: Place) -> Any:
        """The sample numbers of the epoch of a place in their order; that of this epoch and another are kept."""
        key = Place(place.epoch, 0, place.rule, place.late)
        _ = self._count  # samples are listed before the lock is taken
        with self._ordering:
            if key not in self._orders:
                rule = place.rule or self._rule
                order = numpy.arange(self._distinct)
                if self._drawn is not None:
                    order = self._drawn.order(rule.seed, place.epoch)
                elif rule.shuffle:
                    order = Order(self._ids, rule.seed, rule.dealt).of(place.epoch)
                if place.late:
                    late = numpy.isin(self._ids[order], numpy.array(place.late, numpy.uint64))
                    order = numpy.concatenate([order[~late], order[late]])
                self._keep_order(place, order)
            return self._orders[key]

    def _keep_order(self, place: Place, order: Any) -> None:
        for old in list(self._orders)[:-1]:
            del self._orders[old]
        self._orders[Place(place.epoch, 0, place.rule, place.late)] = order

    def _last(self, place: Place) -> int:
        """The id of the sample before a place; 0 at the start."""
        return int(self._ids_of(self._order(place)[place.position - 1 : place.position])[0]) if place.position else 0

    def _shard(self, epoch: int) -> int:
        """Which shard this reader has in an epoch: its own, or another each epoch."""
        return self._shard_id if self._stick_to_shard else (self._shard_id + epoch) % self._num_shards

    def _shard_of(self, epoch: int, share: int) -> int:
        """Which `shard_id` has a share in an epoch: `_shard` the other way round."""
        return share if self._stick_to_shard else (share - epoch) % self._num_shards

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lock": None, "_ordering": None, "_orders": {}, "_progress": self._progress}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._lock, self._ordering = new_lock(), new_lock()
        self._tallies = {}
