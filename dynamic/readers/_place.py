"""A place in a data set, its state, and its adaptation to a data set that has changed since.

A place is an epoch and a position in it. The position counts the samples of the epoch that all shards together have
been given: a step of B samples on each of S shards takes the next B * S of the epoch's order (fewer at its end), and
of these shard k takes every S-th, from the k-th on. So the position means the same for any number of shards and any
batch size, and shards that step alike have the same place after each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from dynamic._base.state import MOST_COUNTED
from dynamic.errors import StateError, StateMismatch, shown

from ._order import keys
from ._sketch import MOST, Change, changed, is_sketch, smallest

__all__ = [
    "VERSION",
    "Place",
    "Rule",
    "Tally",
    "Untold",
    "adapted",
    "checked",
    "hexadecimal",
    "known_samples",
    "no_state",
    "rule_of",
    "tally_keys",
    "unfit",
    "what_changed",
]

VERSION = 3
_SIZED_SINCE = 3  # states of earlier versions tell the sizes of all samples
_ID = re.compile(r"[0-9a-f]{16}")
_TALLY = re.compile(r"(\d{1,20}):([0-9a-f]{16})")
_MASK64 = (1 << 64) - 1
_TYPES: dict[str, type] = {
    "version": int,
    "epoch": int,
    "position": int,
    "last": str,
    "late": list,
    "shuffle": bool,
    "seed": int,
    "dealt": int,
    "samples": int,
    "names": str,
    "labels": str,
    "sized": int,
    "sizes": str,
    "contents": str,
    "whole": str,
    "sketch": str,
    "given": str,
    "skipped": list,
}
#: Of readers that have a selection or weights.
_SOMETIMES: dict[str, type] = {"listed": str, "weights": str, "replacement": bool, "expected": str}


class Rule(NamedTuple):
    """The rule of the order of an epoch."""

    shuffle: bool
    seed: int
    dealt: int  #: number of shards that keep their own samples through a shuffle, else 1


class Place(NamedTuple):
    """Where a reader is."""

    epoch: int
    position: int
    rule: Rule | None = None  #: of this epoch, where it is not the reader's own: it began under another
    late: tuple[int, ...] = ()  #: ids that come after all others in this epoch: they arrived while it was under way


class Tally(NamedTuple):
    """A number of samples and a digest of which; those of several shards are added up.

    The digest is the sum of a 64-bit hash of each id, modulo 2**64. So it is the same in any order, and tallies whose
    sum is that of the whole data set are, but for accidents of one in 2**64, of every sample exactly once.
    """

    samples: int = 0
    digest: int = 0

    @classmethod
    def of(cls, ids: Any) -> Tally:
        """The tally of samples with these ids."""
        return cls(len(ids), int(tally_keys(ids).sum(dtype=numpy.uint64)))

    @classmethod
    def parsed(cls, text: str) -> Tally:
        """The tally of a text that `str` gave."""
        samples, digest = text.split(":")
        return cls(int(samples), int(digest, 16))

    def plus(self, other: Tally) -> Tally:
        """The tally of both."""
        return Tally(self.samples + other.samples, (self.digest + other.digest) & _MASK64)

    def __str__(self) -> str:
        return f"{self.samples}:{hexadecimal(self.digest)}"


def tally_keys(ids: Any) -> Any:
    """The hashes of ids that a tally adds up."""
    return keys(ids, 0, "tally")


class Untold(Exception):
    """A state lacks the wanted information; the message says why."""


def hexadecimal(sample_id: int) -> str:
    """An id as states have it."""
    return f"{sample_id:016x}"


def checked(operator: str, given: Any) -> dict[str, Any]:
    """The state, if its keys, types and texts are those of one."""
    if not isinstance(given, dict):
        raise no_state(operator, f"it must be a dict, and is {shown(given)}")
    state: dict[str, Any] = given
    version: Any = state.get("version", VERSION)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise StateError(
            f"{operator}: the state has version {shown(version)}; this library "
            f"reads 1 to {VERSION}. Use the version that wrote it, or a newer one."
        )
    if version < _SIZED_SINCE and "sized" not in state:
        state = state | {"sized": state.get("samples")}
    lacking = ", ".join(map(repr, sorted(_TYPES.keys() - state.keys())))
    unknown = ", ".join(sorted(map(repr, state.keys() - _TYPES.keys() - _SOMETIMES.keys())))
    if lacking or unknown:
        told = (f"it lacks {lacking}" if lacking else "", f"it has {unknown}, as no reader's state" if unknown else "")
        raise no_state(operator, "; ".join(filter(None, told)))
    for key, kind in (_TYPES | {key: kind for key, kind in _SOMETIMES.items() if key in state}).items():
        value: Any = state[key]
        counts = not isinstance(value, int) or 0 <= value <= MOST_COUNTED
        if type(value) is not kind or not counts or not _is_well_formed(key, value):
            raise no_state(operator, f"{key!r} is {shown(value)}")
    for key, most in (("position", state["samples"]), ("sized", max(known_samples(state), state["samples"]))):
        if state[key] > most:
            raise no_state(operator, f"{key!r} is {state[key]} of {most} samples")
    if ("weights" in state) != ("replacement" in state):
        raise no_state(operator, "'weights' and 'replacement' go together")
    return state


def known_samples(state: dict[str, Any]) -> int:
    """How many samples the data set of a state has; "samples" are those of an epoch."""
    return Tally.parsed(state["whole"]).samples


def _is_well_formed(key: str, value: Any) -> bool:
    if key in ("late", "skipped"):
        return all(type(item) is str and _ID.fullmatch(item) for item in value) and len(set(value)) == len(value)
    if key == "last":
        return _ID.fullmatch(value) is not None
    if key in ("given", "whole", "listed", "expected"):
        return _TALLY.fullmatch(value) is not None
    if key == "dealt":
        return bool(value)
    return key != "sketch" or is_sketch(value)


def rule_of(state: dict[str, Any]) -> Rule:
    """The rule of the order of a checked state."""
    return Rule(state["shuffle"], state["seed"], state["dealt"])


def no_state(operator: str, reason: str) -> StateError:
    """The error that something is no state of a reader."""
    return StateError(f"{operator}: this is not a state of a reader: {reason}. Use a state from get_state().")


def what_changed(state: dict[str, Any], ids: Any, names: Callable[[list[int]], list[str]]) -> str:
    """In words: how the samples differ from those of a state whose digest of names is another one."""
    change = changed(state["sketch"], known_samples(state), ids)
    if change is None:
        return f"more than {MOST} were added or removed"
    parts = []
    if len(change.added):
        some = ", ".join(map(repr, names(change.added[:3].tolist())))
        parts.append(f"{len(change.added)} added ({some}{', ...' if len(change.added) > 3 else ''})")
    if change.removed:
        parts.append(f"{change.removed} removed")
    return " and ".join(parts) or "the same, listed in another order"


def unfit(operator: str, differences: list[str], hint: str) -> StateMismatch:
    """The error that a state does not fit a reader."""
    return StateMismatch(
        f"{operator}: the state does not fit this reader. {'; '.join(differences)}. {hint}", differences
    )


def adapted(
    state: dict[str, Any], ids: Any, *, same_list: bool, up_to: Callable[[int], Any] | None = None
) -> tuple[Place, bool]:
    """The place of a state among samples that may be others by now: exactly those not given yet come after it.

    The epoch goes on by the rule that it began under. In a shuffled order every sample has a key of its own, whatever
    the others are, so the last one that was given tells which come after it. Samples that are new, and would come
    before it, come last.

    Args:
        state: The state, checked.
        ids: The ids of the samples now, in listed order.
        same_list: Whether these are the samples of the state, listed in the same order or shuffled.
        up_to: Which samples come up to one of some number, where that is not as the rule says: with weights.

    Returns:
        The place, and whether it is exact: if not, there are too many new samples for all to be told from the old
        ones, and those of them that would come before the last one have to wait for the next epoch.

    Raises:
        Untold: There is no telling which samples have been given; or whether these are samples of the state at all.
    """
    rule = rule_of(state)
    late = numpy.array([int(i, 16) for i in state["late"]], numpy.uint64)
    if same_list:
        return Place(state["epoch"], state["position"], rule, tuple(late.tolist())), True
    if not state["position"]:
        return Place(state["epoch"], 0), True
    last = numpy.uint64(int(state["last"], 16))
    change = changed(state["sketch"], known_samples(state), ids)
    if not _some_are_here(state, ids, change):
        raise Untold(
            "None of the samples that the state names is here: all may have other names by now, as where a "
            "file of another folder joins, or the root is another"
        )
    before = _up_to(last, rule, state, ids, change) if up_to is None else _raced(last, state, ids, change, up_to)
    if before is None:
        raise Untold("There is no telling which of the samples had been given when the state was taken")
    came_late = numpy.isin(ids, late)
    among_late = last in late
    seen = before | ~came_late if among_late else before & ~came_late
    if change is not None:
        seen[change.added] = False
    later = ~seen if among_late else ~seen & (before | came_late)
    return Place(state["epoch"], int(seen.sum()), rule, tuple(ids[later].tolist())), change is not None


def _some_are_here(state: dict[str, Any], ids: Any, change: Change | None) -> bool:
    """Whether some samples of a state are known to be among those here. If not, all may have got other names."""
    if change is not None:
        return bool(change.removed < known_samples(state))
    named = numpy.array([int(i, 16) for i in (state["last"], *state["late"], *state["skipped"])], numpy.uint64)
    return bool(numpy.isin(ids, numpy.concatenate([named, smallest(state["sketch"])])).any())


def _raced(last: Any, state: dict[str, Any], ids: Any, change: Change | None, up_to: Callable[[int], Any]) -> Any:
    """As `_up_to`, of weights; None also where they are seen to be others, as not so many samples come before."""
    place = numpy.flatnonzero(ids == last)
    if not len(place) or change is None:
        return None
    before = up_to(int(place[0]))
    old = before.copy()
    old[change.added] = False
    return before if 0 <= state["position"] - int(old.sum()) <= change.removed else None


def _up_to(last: Any, rule: Rule, state: dict[str, Any], ids: Any, change: Change | None) -> Any:
    """Which samples the order puts up to the last one that was given; None if that cannot be known."""
    if rule.shuffle:
        if rule.dealt > 1:  # which shard has which sample depends on all of them
            return None
        found = keys(ids, rule.seed, state["epoch"])
        return found <= keys(numpy.array([last]), rule.seed, state["epoch"])
    place = numpy.flatnonzero(ids == last)
    if not len(place) or (change is not None and not len(change.added) and not change.removed):
        return None
    before = numpy.arange(len(ids)) <= place[0]
    old = before.copy()
    if change is not None:
        old[change.added] = False
    gone = state["position"] - int(old.sum())  # of those that were given
    return before if 0 <= gone <= (known_samples(state) if change is None else change.removed) else None
