"""The record of a pipeline's calls, by which a checkpoint is known to be of the same function."""

from __future__ import annotations

import collections
import difflib
import enum
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy

import dynamic
from dynamic import ArgumentError, Batch, StateError, StateMismatch, StateWarning, Tensor
from dynamic._base.state import JSON
from dynamic._lift.argument import IGNORED
from dynamic._lift.operator import Operator
from dynamic.auto_aug.core import Augmentation, Policy
from dynamic.errors import shown
from dynamic.readers._checks import natural

__all__ = ["Call", "Record", "call_of", "function_of", "seed_of"]

#: Arguments that may differ after a resume: where and how things are done, and the treatment of bad samples.
_OF_ALL = frozenset(["device", "num_threads", "prefetch_queue_depth", "on_error", "bytes_per_sample_hint", "preserve"])
#: Those of readers and sources: places of data, arguments that a reader compares by itself, and those without effect.
_OF_READERS = frozenset(
    [
        "shard",
        "shard_id",
        "num_shards",
        "file_root",
        "files",
        "filenames",
        "labels",
        "file_list",
        "paths",
        "index_paths",
        "path",
        "index_path",
        "annotations_file",
        "preprocessed_annotations",
        "save_preprocessed_annotations",
        "save_preprocessed_annotations_dir",
        "meta_files_path",
        "dump_meta_files",
        "dump_meta_files_path",
        "images",
        "random_shuffle",
        "where",
        "weights",
        "replacement",
        "num_samples",
        "shuffle_after_epoch",
        "shuffle_after_epoch_seed",
        "fingerprint",
        "on_mismatch",
        "lazy_init",
        "source",
        "read_ahead",
        "dont_use_mmap",
        "use_o_direct",
        "register_buffers",
        "verify",
        "cache_header_information",
        "skip_cached_images",
        "additional_decode_surfaces",
        "tensor_init_bytes",
        "initial_fill",
        "enable_checkpointing",
        "max_batch_size",
    ]
)
_MOST_LINES, _LONGEST = 20, 200  # of an error


class Call(NamedTuple):
    """A call as a checkpoint records it for comparisons, without devices, data and the seeds of readers."""

    path: str
    arguments: tuple[tuple[str, str], ...]  #: those by position under their numbers
    plain: bool  #: no reader, without a name or seed, and drawing nothing: so no draw depends on whether it is made

    def but_for(self, varying: Collection[str]) -> Call:
        """The same but for arguments that are not compared: ``"rotate angle"``, or a number for those by position."""
        if not varying:
            return self
        given = ((name, "..." if f"{self.path} {name}" in varying else value) for name, value in self.arguments)
        return self._replace(arguments=tuple(given))

    @property
    def kind(self) -> tuple[str, ...]:
        """Its parts that others with other values share."""
        return (self.path, *(name for name, _ in self.arguments))

    def __str__(self) -> str:
        words = [value if name.isdecimal() else f"{name}={value}" for name, value in self.arguments]
        return f"{self.path}({', '.join(words)})"


def call_of(path: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any], *, reads: bool, draws: bool) -> Call:
    """The record of a call.

    Args:
        path: The name that is called.
        inputs: Its positional arguments.
        arguments: Its keyword arguments.
        reads: Whether it is a reader or a source.
        draws: Whether it draws random numbers.
    """
    left_out = _OF_ALL | (_OF_READERS if reads else IGNORED.get(path, frozenset()))
    named = [(name, worded(value)) for name, value in sorted(arguments.items()) if name not in left_out]
    given = [*((str(i), worded(value)) for i, value in enumerate(inputs)), *named]
    return Call(path, tuple(given), not (reads or draws or "name" in arguments or "seed" in arguments))


def function_of(given: Any) -> Callable[..., Any]:
    """The function of a pipeline.

    Raises:
        ArgumentError: It cannot be called.
    """
    if not callable(given):
        raise ArgumentError("Pipeline", "function", "a function", shown(given))
    function: Callable[..., Any] = given
    return function


def seed_of(name: str, seed: Any) -> int | None:
    """The seed of a call, or of a pipeline; -1 is none, as in DALI."""
    none = seed is None or (isinstance(seed, (int, numpy.integer)) and seed == -1)
    return None if none else natural(name, "seed", seed, 0, 2**64 - 1)


class Record:
    """The calls of all runs so far, each as often as one of them has made it.

    It does not grow with the number of runs: an argument that has had two values is not compared from then on.

    Attributes:
        calls: In their order.
        least: How often each was made in every run.
        varying: Arguments that are not compared, as of `Call.but_for`.
        ordered: Whether they have come in one order.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.least: collections.Counter[Call] = collections.Counter()
        self.varying: set[str] = set()
        self.ordered = True
        self._last: list[Call] | None = None
        self._entries: dict[str, JSON] | None = None
        self._first: _First | None = None  # instead, in a checkpoint of the first version

    def __bool__(self) -> bool:
        return bool(self.calls or self._first or self._last is not None)

    @property
    def branches(self) -> bool:
        """Whether some calls are made in some runs only."""
        return self._first.varying if self._first else self.least != collections.Counter(self.calls)

    @property
    def entries(self) -> dict[str, JSON]:
        """It as JSON values."""
        if self._entries is None:
            calls: list[JSON] = [
                {"call": call.path, "arguments": dict(call.arguments), "plain": call.plain, "always": always}
                for call, always in _within(self.calls, self.least)
            ]
            varying: list[JSON] = [*sorted(self.varying)]
            self._entries = {"calls": calls, "varying": varying, "ordered": self.ordered}
        return self._entries

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Self:
        """The calls that `entries` was made of.

        Raises:
            StateError: It was made of none.
        """
        made = cls()
        if entries["version"] == 1:
            made._first = _First(entries["calls"], entries["varying"]) if entries["calls"] else None
            return made
        if not all(map(_is_entry, entries["calls"])):
            raise StateError(f"Pipeline: this is not a state of a pipeline: 'calls' is {shown(entries['calls'])}.")
        for entry in entries["calls"]:
            arguments = sorted(entry["arguments"].items(), key=_order)
            made.calls.append(Call(entry["call"], tuple(arguments), entry["plain"]))
            made.least[made.calls[-1]] += entry["always"]
        made.varying, made.ordered = set(map(str, entries["varying"])), entries["ordered"]
        return made

    def learn(self, run: list[Call]) -> None:
        """Take the calls of a run in."""
        if run == self._last:
            return
        begun = bool(self.calls or self._last is not None)
        self._last, self._entries, self._first = run, None, None
        if not begun:
            self.calls, self.least = list(run), collections.Counter(run)
            return
        self._notice_what_varies(run)
        calls = [call.but_for(self.varying) for call in run]
        count, known = collections.Counter(calls), collections.Counter(self.calls)
        self.ordered = self.ordered and _follows(self.calls, _shared(calls, known))
        self.calls = _merged(self.calls, calls) if self.ordered else [*self.calls, *(count - known).elements()]
        self.least &= count

    def _notice_what_varies(self, run: list[Call]) -> None:
        """Take no more notice of arguments that have had two values, so that calls differ in nothing else."""
        calls = [call.but_for(self.varying) for call in run]
        count, known = collections.Counter(calls), collections.Counter(self.calls)
        gone = list((known - count).elements())
        for call in (count - known).elements():
            like = next((other for other in gone if other.kind == call.kind), None)
            if like is not None:
                gone.remove(like)
                pairs = zip(call.arguments, like.arguments, strict=True)
                self.varying |= {f"{call.path} {one[0]}" for one, other in pairs if one != other}
        least: collections.Counter[Call] = collections.Counter()
        for call, times in self.least.items():
            least[call.but_for(self.varying)] += times
        self.calls, self.least = [call.but_for(self.varying) for call in self.calls], least

    def compare(self, run: list[Call]) -> None:
        """Refuse, or warn of, a run of which this is no record.

        Calls that draw nothing may be made in some runs only, as plain Python goes, and no draw depends on them.

        Raises:
            StateMismatch: Readers, sources, draws or arguments are others.

        Warns:
            StateWarning: Other calls are made, or not.
        """
        if self._first is not None:
            return self._first.compare(run)
        calls = [call.but_for(self.varying) for call in run]
        count, known = collections.Counter(calls), collections.Counter(self.calls)
        gone = self.least - count
        new = collections.Counter({call: n for call, n in (count - known).items() if self.least[call] == known[call]})
        moved = self.ordered and not _follows(self.calls, _shared(calls, known))
        if not (gone or new or moved):
            return None
        others = [*gone, *new]
        changed = {call.path for call in gone} & {call.path for call in new}
        differences = _differences(self.calls if moved else gone.elements(), calls if moved else new.elements())
        lines = "\n".join(differences)
        if moved or changed or not all(call.plain for call in others):
            raise StateMismatch(
                f"Pipeline: the checkpoint is of another pipeline: - there, + here\n{lines}\n{_HINT}", differences
            )
        warnings.warn(
            f"Pipeline: these calls are not those of the checkpoint: - there, + here\n{lines}\n{_NO_DRAWS}",
            StateWarning,
            stacklevel=2,
        )
        return None


class _First(NamedTuple):
    """A record of the first version."""

    calls: list[str]  #: without names
    varying: bool  #: whether some were made in some runs only, and they have no order

    def compare(self, run: list[Call]) -> None:
        """Refuse the calls of another pipeline."""
        calls = [str(call._replace(arguments=tuple(x for x in call.arguments if x[0] != "name"))) for call in run]
        if calls != self.calls and not (self.varying and set(self.calls).issuperset(calls)):
            differences = _differences(self.calls, calls)
            lines = "\n".join(differences)
            told = f"Pipeline: the checkpoint is of another pipeline: - there, + here\n{lines}"
            raise StateMismatch(told, differences)


_HINT = (
    "Values that plain Python changes from run to run are known once they changed before a checkpoint; numbers "
    "that it computes may be given as arrays, which are not compared."
)
_NO_DRAWS = "They draw nothing, so all draws are as they were."


def _is_entry(entry: Any) -> bool:
    """Whether this is a call as `Record.entries` has it."""
    kinds = {"call": str, "arguments": dict, "plain": bool, "always": bool}
    if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != kinds:
        return False
    return all(isinstance(value, str) for value in entry["arguments"].values())


def _order(entry: tuple[str, str]) -> tuple[bool, int, str]:
    """Arguments by position come first, in their order."""
    name = entry[0]
    return (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)


def _within(calls: Iterable[Call], count: Mapping[Call, int]) -> Iterator[tuple[Call, bool]]:
    """Calls, and for each whether it is one of so many of its like."""
    seen: collections.Counter[Call] = collections.Counter()
    for call in calls:
        seen[call] += 1
        yield call, seen[call] <= count[call]


def _shared(calls: Iterable[Call], count: Mapping[Call, int]) -> list[Call]:
    """Those of the calls that are also in a count, in their order."""
    return [call for call, inside in _within(calls, count) if inside]


def _follows(known: Iterable[Call], run: Iterable[Call]) -> bool:
    """Whether calls are made in the order in which others are known, that may be more."""
    left = iter(known)
    return all(call in left for call in run)


def _merged(known: Sequence[Call], run: Sequence[Call]) -> list[Call]:
    """Both, in an order that is that of each; their common entries, which follow the known ones, come once."""
    merged: list[Call] = []
    left = iter(known)
    for call, shared in _within(run, collections.Counter(known)):
        if shared:
            for other in left:
                merged.append(other)
                if other == call:
                    break
        else:
            merged.append(call)
    return [*merged, *left]


def _differences(there: Iterable[Any], here: Iterable[Any]) -> list[str]:
    """The lines that differ, as many and as long as one reads."""
    told = [
        line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
        for line in difflib.ndiff([*map(str, there)], [*map(str, here)])
        if line[0] in "-+"
    ]
    more = len(told) - _MOST_LINES
    return told if more <= 1 else [*told[:_MOST_LINES], f"... and {more} more"]


def worded(value: Any) -> str:
    """A value as the record has it: numbers and words as they are, of all else only its kind."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(worded, value))}]"
    if isinstance(value, (bool, int, float, str, type(None), numpy.generic)):
        return repr(value.item() if isinstance(value, numpy.generic) else value)
    if isinstance(value, (Batch, Tensor)):
        return "Batch" if isinstance(value, Batch) else "Tensor"
    if isinstance(value, dynamic.DType):
        return str(value)
    if isinstance(value, (Augmentation, Operator)):
        return repr(value)
    if isinstance(getattr(value, "__wrapped__", None), Operator):  # that of `fn`
        return repr(value.__wrapped__)
    if isinstance(value, Policy):
        return f"{value!r} of {[*value.augmentations.values()]}"
    return f"<{type(value).__name__}>"
