"""Whether the readers of a job shuffle alike: each shard takes its places of one order, which needs one seed.

A reader is compared before its first batch: with the readers of this process, and with those of the other ranks where
`torch.distributed` runs.
"""

from __future__ import annotations

import collections
import os
import sys
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import numpy

from dynamic._base.locks import new_lock
from dynamic.errors import ArgumentError, OrderWarning

from ._place import Rule
from ._placed import Placed

__all__ = ["check_order"]

_readers: weakref.WeakSet[Placed] = weakref.WeakSet()  # of this process, that have been asked for a batch
_shards: dict[tuple[str, int, Rule], set[int]] = collections.defaultdict(set)  # that readers here have had, by order
_counts: collections.Counter[str] = collections.Counter()  # of readers, by data set and number of shards
_lock = new_lock()
_inherited: Any = None  # a store whose connection belongs to the parent of this process

#: The arguments that make the parts of a rule.
_ARGUMENTS = {"shuffle": "random_shuffle", "seed": "seed", "dealt": "stick_to_shard"}


def check_order(reader: Placed) -> None:
    """Compare the order of a reader with those of the others of its job.

    Raises:
        ArgumentError: Another shard has another order, so that samples would be left out and repeated.

    Warns:
        OrderWarning: Another reader has as many samples and was given the same seed, and they are not paired.
    """
    with _lock:
        others = [other for other in _readers if other is not reader]
        _readers.add(reader)
    others = [o for o in others if o._count == reader._count and o._num_shards == reader._num_shards]
    if reader._num_shards > 1:
        alike = [other for other in others if _chances(other) == _chances(reader)]
        _check_process(reader, [other for other in alike if _data(other) == _data(reader)])
        _check_ranks(reader)
    if reader._rule.shuffle and reader._seeded and not reader._paired:
        _warn_unless_paired(reader, others)


def _data(reader: Placed) -> str:
    """A digest of the samples, in any order."""
    return reader._digest_of_names(sort=True)


def _rule(reader: Placed) -> Rule:
    """The rule of a reader's orders, without parts that make no difference."""
    rule = reader._rule
    return rule if rule.shuffle else Rule(shuffle=False, seed=0, dealt=1)


def _chances(reader: Placed) -> str:
    """The weights of a reader in short; empty where it has none."""
    drawn = reader._drawn
    return "" if drawn is None else f"{drawn.digest} {drawn.count} {drawn.replacement}"


def _check_process(reader: Placed, others: Iterable[Placed]) -> None:
    """Compare with the readers of the same data set in this process: other shards of it may be here."""

    def shards(rule: Rule) -> set[int]:
        return _shards[_data(reader), reader._num_shards, rule]

    mine = shards(_rule(reader))
    mine.add(reader._shard_id)
    for rule in {_rule(other) for other in others}:
        # Readers of one shard are two runs or two views. An order of which all shards were here lacks none. Shuffled
        # and listed readers are no ranks of one job.
        alike = rule._replace(seed=0) == _rule(reader)._replace(seed=0)
        if alike and not mine & shards(rule) and len(shards(rule)) < reader._num_shards:
            raise _another(reader, rule)


def _check_ranks(reader: Placed) -> None:
    """Compare with the other ranks, by a key of the store of torch.distributed that the first of them sets."""
    store = _store()
    if store is None:
        return
    # Readers of one data set are told apart by their number, which is the same on every rank.
    data = f"{reader._of}/{reader._num_shards}"
    with _lock:
        number = _counts[data]
        _counts[data] += 1
    key = f"dynamic/order/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{data}/{number}"
    mine = "/".join([*map(str, map(int, _rule(reader))), _chances(reader), _data(reader)])
    first = store.compare_set(key, "", mine).decode()
    if first != mine:
        with _lock:
            _counts[data] -= 1  # another try is compared with the same
        *numbers, chances, _ = first.split("/")
        shuffle, seed, dealt = map(int, numbers)
        raise _another(reader, Rule(shuffle=bool(shuffle), seed=seed, dealt=dealt), chances)


def _store() -> Any:
    """The store that all ranks share; None where torch.distributed is not initialised, or was so before a fork."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    return None if store is _inherited else store


def _forked() -> None:
    global _inherited
    _inherited = _store()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _another(reader: Placed, rule: Rule, chances: str | None = None) -> ArgumentError:
    """The error that another shard has another order, or other weights."""
    own = _rule(reader)
    if own == rule:
        expected = f"the same on all {reader._num_shards} shards, which share one order"
        if chances == _chances(reader):
            argument, got = ("where", "another selection") if reader._listed_tally else ("samples", "another order")
            return ArgumentError(reader._operator, argument, expected, f"{got} of the same samples on another")
        got = f"{_chances(reader) or 'none'} here and {chances or 'none'} on another (digest, samples, replacement)"
        return ArgumentError(reader._operator, "weights", expected, got)
    part = next(name for name in Rule._fields if getattr(own, name) != getattr(rule, name))
    return ArgumentError(
        reader._operator,
        _ARGUMENTS[part],
        f"the same on all {reader._num_shards} shards, which share one order",
        f"{getattr(own, part)} here and {getattr(rule, part)} on another",
        "Leave it out, or give a value that does not depend on the rank.",
    )


def _warn_unless_paired(reader: Placed, others: Iterable[Placed]) -> None:
    """Tell of a reader that looks like the other half of pairs: of as many samples, with the same seed."""
    for other in (other for other in others if other._seeded and not other._paired):
        alike = other._shard_id == reader._shard_id and other._rule == reader._rule
        # Else it is the same data set, before a change, or another selection of it.
        if alike and not numpy.isin(other._ids, reader._ids).any() and other._of != reader._of:
            warnings.warn(
                f"{reader._operator}: this reader and {other!r} have as many samples and the same seed, and their "
                "samples are not paired, as each shuffles by its own names. Give one of them order_of= the other if "
                "they belong together, else seeds of their own.",
                OrderWarning,
                stacklevel=2,
            )
            return
