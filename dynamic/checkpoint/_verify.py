"""Proof that an epoch was whole: every sample given once, by all shards together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from dynamic._base.state import State
from dynamic.errors import ArgumentError, StateError, shown

__all__ = ["VerifiedEpoch", "verify_epoch"]

_TYPES: dict[str, type] = {"epoch": int, "position": int, "samples": int, "given": str, "whole": str, "skipped": list}
_SAME = ("epoch", "position", "late", "shuffle", "seed", "dealt", "samples", "names", "labels", "sizes", "whole")
_ORDER = ("shuffle", "seed", "dealt")
_ONE_PLACE = "Take all of them after the same step, or after loops that ended by themselves and not at their len."
_TALLY = re.compile(r"(\d{1,20}):([0-9a-f]{16})")


class VerifiedEpoch(NamedTuple):
    """An epoch that `verify_epoch` has found to be whole."""

    epoch: int
    samples: int
    shards: int
    skipped: tuple[str, ...]  #: ids of the samples that came up, and could not be read


def verify_epoch(states: Iterable[State]) -> VerifiedEpoch:
    """Prove from the states of its readers that an epoch gave every sample exactly once.

    Each reader keeps a count and a digest of the samples that it was given in the epoch; those of all shards together
    must be those of the data set. After a resume in mid-epoch, samples given before count as the share of each of the
    new shards. The digest is a sum of 64-bit hashes: it finds accidental errors, and is no signature.

    Args:
        states: The states of the readers of all shards, in any order, taken at the end of the epoch: after its last
            batch, or at the start of the next.

    Returns:
        The epoch, the number of samples and of shards, and which samples were skipped.

    Raises:
        StateError: The epoch is not over, a shard is missing or there twice, or samples were left out or repeated.

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
    states = list(states)
    if not states:
        raise ArgumentError("checkpoint.verify_epoch", "states", "the states of the readers of all shards", "none")
    tallies = [_tally(state) for state in states]
    first: Any = states[0]
    for i, state in enumerate(states):
        different = next((key for key in _SAME if state[key] != first[key]), None)
        if different is not None:
            shared = "order" if different in _ORDER else "place in one data set"
            hint = "Give all readers one seed." if different in _ORDER else _ONE_PLACE
            raise StateError(
                f"The states are not of one {shared}: {different!r} is {shown(first[different])} in number 0 and "
                f"{shown(state[different])} in number {i}. {hint}"
            )
    epoch, samples = first["epoch"], first["samples"]
    if first["position"] == 0 and epoch > 0:
        epoch -= 1
    elif first["position"] != samples:
        raise StateError(f"Epoch {epoch} is not over: {first['position']} of {samples} samples have been given.")
    given = sum(count for count, _ in tallies)
    if given != samples:
        raise StateError(
            f"In epoch {epoch} {given} samples were given by {len(states)} shards, and there are "
            f"{samples}. Give the states of all shards, each once."
        )
    whole = _tally(first, "whole")[1]
    if sum(digest for _, digest in tallies) % 2**64 != whole:
        raise StateError(
            f"In epoch {epoch} as many samples were given as there are, but some of them were given more "
            "than once, and others not at all."
        )
    skipped: dict[str, None] = {}
    for state in states:
        ids: Any = state["skipped"]
        skipped |= dict.fromkeys(map(str, ids))
    return VerifiedEpoch(epoch, samples, len(states), tuple(sorted(skipped)))


def _tally(state: Any, key: str = "given") -> tuple[int, int]:
    """A number of samples and their digest, from the state of a reader."""
    known = isinstance(state, dict) and state.keys() >= {*_SAME, *_TYPES}
    known = known and all(type(state[name]) is kind for name, kind in _TYPES.items())
    found = _TALLY.fullmatch(state[key]) if known else None
    if found is None:
        raise StateError(f"This is not a state of a reader: {shown(state)}. Give states from get_state().")
    return int(found[1]), int(found[2], 16)
