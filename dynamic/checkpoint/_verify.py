"""Proof that an epoch was whole: every sample given as often as it should be, by all shards together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, overload

from dynamic._base.state import State
from dynamic.errors import ArgumentError, StateError, shown

__all__ = ["CountedEpoch", "VerifiedEpoch", "verify_epoch"]

_TYPES: dict[str, type] = {"epoch": int, "position": int, "samples": int, "given": str, "whole": str, "skipped": list}
_SAME = ("epoch", "position", "late", "shuffle", "seed", "dealt", "samples", "names", "labels", "sizes", "whole")
_SOMETIMES = ("listed", "weights", "replacement", "expected")
_ORDER = ("shuffle", "seed", "dealt", "weights", "replacement")
_ONE_PLACE = "Take all of them after the same step, or after loops that ended by themselves and not at their len."
_TALLY = re.compile(r"(\d{1,20}):([0-9a-f]{16})")


class VerifiedEpoch(NamedTuple):
    """An epoch that `verify_epoch` has found to be whole."""

    epoch: int
    samples: int
    shards: int
    skipped: tuple[str, ...]  #: ids of the samples that came up, and could not be read


class CountedEpoch(NamedTuple):
    """The same, with the number of times that each sample came."""

    epoch: int
    samples: int
    shards: int
    skipped: tuple[str, ...]  #: ids of the samples that came up, and could not be read
    counts: dict[str, int]  #: by name; 0 for those that did not come


class _Reader(Protocol):
    def _audited(self, state: State, epoch: int, given: tuple[int, int], /) -> tuple[dict[str, int], str]: ...


@overload
def verify_epoch(states: Iterable[State]) -> VerifiedEpoch: ...
@overload
def verify_epoch(states: Iterable[State], reader: _Reader) -> CountedEpoch: ...
def verify_epoch(states: Iterable[State], reader: _Reader | None = None) -> VerifiedEpoch | CountedEpoch:
    """Prove from the states of its readers that an epoch gave every sample exactly as often as it should.

    That is once, and with weights or in a mixture as often as the weights, the seed and the epoch say. Each reader
    keeps a count and a digest of the samples that it was given in the epoch; those of all shards together must be those
    of the epoch. After a resume in mid-epoch, the samples before the loaded place count as given: that all ranks had
    got there, with one batch size, is not proved. The digest is a sum of 64-bit hashes: it finds accidental errors, and
    is no signature.

    Args:
        states: The states of the readers of all shards, in any order, taken at the end of the epoch: after its last
            batch, or at the start of the next. States of loaders of readers do as well.
        reader: A reader of the same samples and order, which stays where it is. With it the result tells how often
            each sample came, and an error names one or two that were left out or repeated.

    Returns:
        The epoch, the number of samples and of shards, and which samples were skipped; with a reader also the number of
        times that each sample came.

    Raises:
        StateError: The epoch is not over, a shard is missing or there twice, or samples were left out or repeated.
        StateMismatch: The states are not of this reader.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in "abcde":
    ...     _ = (root / name).write_bytes(b"")
    >>> readers = [ndd.readers.File(files=list("abcde"), file_root=root, random_shuffle=True, shard_id=k,
    ...                             num_shards=2) for k in range(2)]
    >>> for reader in readers:
    ...     for jpegs, labels in reader.next_epoch(batch_size=2):
    ...         pass
    >>> ndd.checkpoint.verify_epoch([reader.get_state() for reader in readers])
    VerifiedEpoch(epoch=0, samples=5, shards=2, skipped=())
    """
    states = [_of_reader(state) for state in states]
    if not states:
        raise ArgumentError("checkpoint.verify_epoch", "states", "the states of the readers of all shards", "none")
    tallies = [_tally(state) for state in states]
    first: Any = states[0]
    for i, state in enumerate(states):
        other: Any = state
        different = next((key for key in (*_SAME, *_SOMETIMES) if other.get(key) != first.get(key)), None)
        if different is not None:
            shared = "order" if different in _ORDER else "place in one data set"
            hint = "Give all readers one seed." if different in _ORDER else _ONE_PLACE
            raise StateError(
                f"The states are not of one {shared}: {different!r} is {shown(first.get(different))} in number 0 and "
                f"{shown(other.get(different))} in number {i}. {hint}"
            )
    epoch, samples = first["epoch"], first["samples"]
    if first["position"] == 0 and epoch > 0:
        epoch -= 1
    elif first["position"] != samples:
        raise StateError(f"Epoch {epoch} is not over: {first['position']} of {samples} samples have been given.")
    given = sum(count for count, _ in tallies)
    digest = sum(part for _, part in tallies) % 2**64
    counts, told = ({}, "") if reader is None else reader._audited(states[0], epoch, (given, digest))
    told = f" It was {told}." if told else ""
    if given != samples:
        dropped = " Readers with last_batch='drop' leave the rest of an epoch out." if given < samples else ""
        raise StateError(
            f"In epoch {epoch} {given} samples were given by {len(states)} shards, and there are "
            f"{samples}. Give the states of all shards, each once.{dropped}{told}"
        )
    if digest != _tally(first, "expected" if "expected" in first else "whole")[1]:
        wrong = "some of them were given more than once, and others not at all"
        if "expected" in first:
            wrong = "some of them were given more often than they should be, and others less"
        raise StateError(f"In epoch {epoch} as many samples were given as there are, but {wrong}.{told}")
    skipped: dict[str, None] = {}
    for state in states:
        ids: Any = state["skipped"]
        skipped |= dict.fromkeys(map(str, ids))
    if reader is None:
        return VerifiedEpoch(epoch, samples, len(states), tuple(sorted(skipped)))
    return CountedEpoch(epoch, samples, len(states), tuple(sorted(skipped)), counts)


def _of_reader(state: Any) -> Any:
    """The state of the reader in that of a loader; another state as it is."""
    inner = state.get("states") if isinstance(state, dict) else None
    return inner["reader"] if isinstance(inner, dict) and "reader" in inner else state


def _tally(state: Any, key: str = "given") -> tuple[int, int]:
    """A number of samples and their digest, from the state of a reader."""
    known = isinstance(state, dict) and state.keys() >= {*_SAME, *_TYPES}
    known = known and all(type(state[name]) is kind for name, kind in _TYPES.items())
    found = _TALLY.fullmatch(state[key]) if known and isinstance(state[key], str) else None
    if found is None:
        raise StateError(f"This is not a state of a reader: {shown(state)}. Give states from get_state().")
    return int(found[1]), int(found[2], 16)
