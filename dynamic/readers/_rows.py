"""Which samples of a reader stand beside those of the first: rows, that are the same for any batch size and shards."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from dynamic._base.origin import Origin
from dynamic._base.state import way_back
from dynamic.data import Batch
from dynamic.errors import ArgumentError, OrderWarning, StateMismatch, shown

from ._place import Place
from ._placed import Progress
from ._reader import Reader, _Share, epoch_ended
from ._stored import Stored
from .external import ExternalSource

__all__ = [
    "Rows",
    "check_beside",
    "columns",
    "from_samples",
    "left",
    "pair",
    "pass_over",
    "passed",
    "rows_of_first",
    "rows_of_shard",
    "taken",
]


class Rows(NamedTuple):
    """The rows of a step, numbered from its beginning, the epochs of a reader being one after another.

    All shards together take the next rows, and each some of them. Readers beside the first take the same rows as it
    does, so that all of them have moved alike, on every shard, whatever a shard was given.
    """

    numbers: NDArray[numpy.intp]  #: of the rows of this shard, in their order
    repeated: int  #: how many of them, at the end, only fill up the batch
    kept: NDArray[numpy.bool_]  #: which of them the first reader could read
    moved: int  #: how many all shards together take, or leave out


def rows_of_first(reader: Reader[Any], before: Progress, size: int, batch: Batch) -> Rows:
    """The rows that the first reader has taken.

    Args:
        reader: That reader.
        before: Where it was before the step.
        size: The batch size.
        batch: Its batch.
    """
    place, moved = before.place, 0
    while (share := reader._share(place, size)) is None:  # no more of this epoch for this shard
        moved += reader._count - place.position
        place = Place(place.epoch + 1, 0)
    numbers = share.places - place.position + moved
    kept = numpy.ones(len(numbers), bool)
    if len(batch) < len(numbers) and batch.origin is not None:
        order = reader._order(place)
        kept = numpy.isin(reader._drawn_ids(share.places, order[share.places]), batch.origin.ids)
    return Rows(numbers, share.repeated, kept, moved + share.position - place.position)


def rows_of_shard(reader: Reader[Any], size: int) -> Rows:
    """The rows of a reader's own shard, where a source is first, and gives so many samples on each."""
    shards = reader._num_shards
    numbers = reader._shard(reader._place.epoch) + numpy.arange(size) * shards
    return Rows(numbers, 0, numpy.ones(size, bool), size * shards)


def check_beside(path: str, reader: Reader[Any], name: str, first: Any) -> None:
    """Refuse a reader that cannot keep to the rows of the first.

    Args:
        path: The name of the call.
        reader: The reader.
        name: That of the first reader or source.
        first: That one.

    Raises:
        ArgumentError: It cannot.
    """
    if reader._on_error == "skip":
        expected = f"'raise' or 'replace' beside {name!r}, which gives as many samples"
        raise ArgumentError(f"fn.{path}", "on_error", expected, "'skip'")
    if not isinstance(first, Reader):
        return
    if reader._num_shards != first._num_shards:
        expected = f"{first._num_shards}, like the first reader {name!r}, which sets the steps"
        raise ArgumentError(f"fn.{path}", "num_shards", expected, shown(reader._num_shards))
    alike = first._stick_to_shard and first._count == reader._count
    if reader._stick_to_shard and reader._num_shards > 1 and not alike:
        expected = f"False beside {name!r}, which does not stick to its shard or has another number of samples"
        raise ArgumentError(f"fn.{path}", "stick_to_shard", expected, "True")


def pair(path: str, reader: Reader[Any], earlier: Mapping[str, Any], *, seeded: bool, former: bool) -> None:
    """Let a new reader follow an earlier one of as many samples and the same shuffle, row by row.

    Args:
        path: The name of its call.
        reader: The reader.
        earlier: The readers and sources that were made before, by name.
        seeded: Whether it was given a seed.
        former: Whether the run began under a version that did not pair readers.

    Raises:
        ArgumentError: One of the two replaces samples by itself, which would part the pairs.
        StateMismatch: The run began with samples that were not paired.

    Warns:
        OrderWarning: The reader was given the seed of one that has another number of samples.
    """
    reader._paired = True  # so that it is not compared with readers outside of the pipeline
    for name, other in earlier.items():
        if not isinstance(other, Stored) or not isinstance(reader, Stored) or reader._leader is not None:
            continue
        if other._chooses or reader._chooses:
            if _follows_choice(path, reader, name, other):
                return
            continue
        if other._rule != reader._rule:
            continue
        shuffled, here, there = reader._rule.shuffle, reader._count, other._count
        if here != there:
            if seeded and shuffled:
                text = (
                    f"fn.{path}(): this reader has the seed of {name!r}, but {here} samples instead of {there}, so "
                    "that they are not paired. Give it another seed if they do not belong together."
                )
                warnings.warn(text, OrderWarning, stacklevel=2)
            continue
        if numpy.array_equal(reader._ids, other._ids):  # in one order anyway
            continue
        _refuse_replacing(path, name, reader, other)
        if shuffled and other._leader is None:
            if former:
                difference = f"order of {reader._name!r}: its own in the state, that of {name!r} here"
                text = f"Pipeline: the checkpoint is of another order. {difference}. Begin the run anew."
                raise StateMismatch(text, [difference])
            reader._follow(other)
            return


def _follows_choice(path: str, reader: Stored[Any, Any], name: str, other: Stored[Any, Any]) -> bool:
    """Let a new reader follow an earlier one that selects or draws some of as many samples; tell whether it does.

    It takes their selection and weights; one that has its own does not follow.

    Warns:
        OrderWarning: Both could be paired, but for the selection or weights of the new one.
    """
    if len(reader._listing.names) != len(other._listing.names):
        return False
    if reader._rule not in (other._rule, other._rule._replace(shuffle=False)):
        return False
    if reader._chooses:
        text = (
            f"fn.{path}(): this reader has as many samples as {name!r}, and a selection or weights of its own, so that "
            "they are not paired. Leave these out, and it takes those of the other; else give it another seed."
        )
        warnings.warn(text, OrderWarning, stacklevel=2)
        return False
    _refuse_replacing(path, name, reader, other)
    leader = other if other._leader is None else other._leader
    reader._rule = leader._rule
    reader._follow(leader)
    return True


def _refuse_replacing(path: str, name: str, reader: Stored[Any, Any], other: Stored[Any, Any]) -> None:
    """Refuse pairs of which one reader replaces samples by itself."""
    for whose, one in ((f"as of {name!r}, which has as many samples", reader), (f"in {name!r}", other)):
        if one._on_error == "replace":
            expected = f"'raise' {whose}, because a replaced sample would break its pair"
            raise ArgumentError(f"fn.{path}", "on_error", expected, "'replace'")


def taken(reader: Reader[Any], rows: Rows) -> Any:
    """The batch of a reader beside the first: its samples of the rows that were read."""
    reader._batch_size("__call__", max(len(rows.numbers), 1))
    numbers = rows.numbers[rows.kept]
    repeated = int(rows.kept[len(rows.kept) - rows.repeated :].sum())

    def step(progress: Progress) -> tuple[Any, Progress]:
        parts, after = _gone(reader, progress, numbers, repeated, rows.moved)
        if not parts:
            parts = [reader._read_share(after.place, _Share(numbers, 0, 0))[0]]
        return reader._given(_joined(parts)), after

    return reader._given_out(step)


def passed(reader: Reader[Any], progress: Progress, rows: int) -> Progress:
    """Where a reader is after so many rows of which this shard was given none."""
    return _gone(reader, progress, numpy.arange(0), 0, rows)[1]


def pass_over(reader: Reader[Any], rows: int) -> None:
    """Let a reader go past so many rows."""
    reader._given_out(lambda progress: (None, passed(reader, progress, rows)))


def left(reader: Reader[Any], progress: Progress) -> int:
    """How many rows all shards together have left in the epoch."""
    return reader._count - progress.place.position


def from_samples(source: ExternalSource, rows: Rows) -> Any:
    """The batch of a source of samples beside the first: the last one again where rows only fill up the batch."""
    own = len(rows.numbers) - rows.repeated
    back = way_back(source)
    outputs: Any = source(max(own, 1))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if not own:
        back()
    if not rows.repeated or len(outputs[0]) < own:
        return outputs
    places = numpy.arange(len(rows.numbers)).clip(max=len(outputs[0]) - 1)
    return tuple(output._selected(places) for output in outputs)


def _gone(
    reader: Reader[Any], progress: Progress, numbers: NDArray[numpy.intp], repeated: int, moved: int
) -> tuple[list[tuple[Batch, ...]], Progress]:
    """The samples of some rows, those of each epoch apart, and where they lead."""
    parts = []
    while True:
        place, here = progress.place, min(moved, left(reader, progress))
        inside = numbers[numbers < here]
        numbers, moved = numbers[len(inside) :] - here, moved - here
        if here:
            share = _Share(place.position + inside, 0 if len(numbers) else repeated, place.position + here)
            batches, failed = reader._read_share(place, share) if len(inside) else ((), {})
            parts += [batches] * bool(batches)
            progress = reader._moved(progress, share, failed)
        if not moved:
            return parts, progress
        progress = epoch_ended(progress)


def columns(outputs: Any) -> tuple[Batch, ...]:
    """The Batches that a reader gave, with or without names."""
    found: tuple[Batch, ...] = tuple(outputs.values()) if isinstance(outputs, dict) else outputs
    return found


def _joined(parts: list[tuple[Batch, ...]]) -> tuple[Batch, ...]:
    """Batches one after the other, output by output."""
    if len(parts) == 1:
        return parts[0]
    return tuple(
        Batch(
            [sample for batch in column for sample in batch.samples],
            column[0].layout,
            Origin.joined([batch.origin for batch in column]),
        )
        for column in zip(*parts, strict=True)
    )
