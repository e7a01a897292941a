"""The common part of readers of files: their arguments, a listing that is made once, and reading on threads."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypedDict, TypeVar, cast

from dynamic._arrays.array import Array
from dynamic._arrays.memory import keep_blocks
from dynamic._base.docstrings import described_as
from dynamic._base.origin import Origin
from dynamic._base.pool import run
from dynamic.data import Batch
from dynamic.devices import Device
from dynamic.errors import ArgumentError, DataError, DeviceError, Failure, shown
from dynamic.io._address import check_address, is_address, plain
from dynamic.io._bytes import NotOfTheSample, can_be, is_of_the_system, refuse_address
from dynamic.io._cache import Cache
from dynamic.io._remote import Remote
from dynamic.io._store import DISK, Store

from ._checks import flag, natural
from ._choice import Asked, Weights, asked, by_groups, selected, weighed
from ._listing import Listing, Packed
from ._place import Tally
from ._placed import Fingerprint, OnMismatch
from ._reader import LastBatch, OnError, Reader, Replaced

__all__ = [
    "Common",
    "PathLike",
    "Stored",
    "Unusable",
    "a_path",
    "absolute",
    "called_with",
    "names_of_files",
    "paths_of",
]

PathLike: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
Weighing: TypeAlias = "Sequence[float] | Array | Mapping[Any, float] | Callable[..., float]"
L = TypeVar("L", bound=Listing)
G = TypeVar("G")
X = TypeVar("X")
F = TypeVar("F", bound=Callable[..., None])

#: Names of the argument for the source in other libraries, and of other readers.
_ELSEWHERE = frozenset(
    [
        "data",
        "data_dir",
        "dir",
        "directory",
        "file",
        "file_names",
        "filename",
        "filenames",
        "files",
        "folder",
        "path",
        "paths",
        "root",
        "source",
        "url",
        "urls",
    ]
)
_SLOW = 2e-4  # seconds for a file: if each of the first of a batch takes so long, threads read the others
_TIMED = 2  # files; one alone may be late as another process had the core
_MANY_BYTES = 1 << 40


class Unusable(Exception):
    """A sample that was read and is unusable; the message says why."""


class Common(TypedDict, total=False):
    """The types of the arguments that all these readers have; `Stored` describes them."""

    random_shuffle: bool | None
    seed: int | None
    shuffle_after_epoch: bool | None
    shuffle_after_epoch_seed: int | None
    shard: str | None
    shard_id: int | None
    num_shards: int | None
    stick_to_shard: bool | None
    order_of: Reader[Any] | None
    where: Callable[..., bool] | None
    weights: Weighing | None
    replacement: bool | None
    num_samples: int | None
    pad_last_batch: bool | None
    last_batch: LastBatch | None
    on_error: OnError
    fingerprint: Fingerprint | None
    on_mismatch: OnMismatch
    storage_options: Mapping[str, Any] | None
    cache_dir: PathLike | None
    cache_bytes: int | None
    retries: int | None
    timeout: float | None
    reads_in_flight: int | None
    lazy_init: bool | None
    enable_checkpointing: bool | None
    initial_fill: int | None
    prefetch_queue_depth: int | None
    read_ahead: bool | None
    dont_use_mmap: bool | None
    skip_cached_images: bool | None
    tensor_init_bytes: int | None


def called_with(*sources: str) -> Callable[[F], F]:
    """Look at which arguments a reader is called with before it looks into any: one may be there by another name.

    Args:
        sources: The arguments that name the source.
    """

    def decorated(init: F) -> F:
        parameters = list(inspect.signature(init).parameters.values())[1:-1]
        known = [*(parameter.name for parameter in parameters), *Common.__annotations__]
        needed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]

        @functools.wraps(init)
        def checked(self: Stored[Any, Any], *positional: Any, **named: Any) -> None:
            for name in named:
                if name not in known:
                    raise _unknown(self._operator, name, known, sources)
            size = positional[0] if positional else named.get("max_batch_size")
            if isinstance(size, (str, bytes, os.PathLike, list, tuple)):
                hint = f"Give the source by name: {' or '.join(f'{name}=' for name in sources)}."
                raise ArgumentError(self._operator, "max_batch_size", "an integer of 1 or more", shown(size), hint)
            if size is not None:
                natural(self._operator, "max_batch_size", size, 1)
            for name in needed:
                if name not in named:
                    raise ArgumentError(self._operator, name, "given", "nothing")
            init(self, *positional, **named)

        return cast("F", checked)

    return decorated


def _unknown(operator: str, name: str, known: Sequence[str], sources: Sequence[str]) -> ArgumentError:
    error = ArgumentError.unknown(operator, name, known)
    if name not in _ELSEWHERE:
        return error
    meant = (*difflib.get_close_matches(name, sources, 1), *sources)[0]
    return ArgumentError(operator, name, error.expected, "", f"Did you mean {meant!r}?")


class Stored(Reader[G], Generic[L, G]):
    """A reader of samples that are stored in files.

    Subclasses take `Common` arguments as ``**common``, which stand in their signatures and docstrings like their own,
    and read samples (`_read`). `called_with` decorates their ``__init__``.
    """

    __signature__: ClassVar[inspect.Signature]
    _told_of: ClassVar[str] = "the name"  # of a sample: the arguments of functions as `where` and `weights`
    _store: Store = DISK  # of one that was pickled before there was another
    _leader: Stored[Any, Any] | None = None  # the reader whose order this one has
    _where: Callable[..., Any] | None = None  # until the samples are listed, as the next
    _asked: Asked | None = None
    _weights: Weights | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" not in vars(cls):
            return  # it is a part of readers
        own, shared = inspect.signature(cls.__init__), inspect.signature(Stored.__init__)
        parameters = [p for p in list(own.parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
        parameters += [p for p in shared.parameters.values() if p.kind is p.KEYWORD_ONLY]
        cls.__signature__ = own.replace(parameters=parameters, return_annotation=own.empty)
        described_as(Stored.__init__)(cls)

    def __init__(
        self,
        max_batch_size: int | None,
        name: str | None,
        device: Any,
        num_inputs: int | None,
        list_samples: Callable[[Store], L],
        /,
        *,
        random_shuffle: bool | None = False,
        seed: int | None = None,
        shuffle_after_epoch: bool | None = False,
        shuffle_after_epoch_seed: int | None = None,
        shard: str | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        stick_to_shard: bool | None = False,
        order_of: Reader[Any] | None = None,
        where: Callable[..., bool] | None = None,
        weights: Weighing | None = None,
        replacement: bool | None = None,
        num_samples: int | None = None,
        pad_last_batch: bool | None = False,
        last_batch: LastBatch | None = None,
        on_error: OnError = "raise",
        fingerprint: Fingerprint | None = None,
        on_mismatch: OnMismatch = "raise",
        storage_options: Mapping[str, Any] | None = None,
        cache_dir: PathLike | None = None,
        cache_bytes: int | None = 1 << 36,
        retries: int | None = 4,
        timeout: float | None = 60.0,
        reads_in_flight: int | None = 32,
        lazy_init: bool | None = False,
        enable_checkpointing: bool | None = False,
        initial_fill: int | None = None,
        prefetch_queue_depth: int | None = None,
        read_ahead: bool | None = None,
        dont_use_mmap: bool | None = None,
        skip_cached_images: bool | None = None,
        tensor_init_bytes: int | None = None,
    ) -> None:
        """The common arguments, after those by position and the function that makes the listing.

        Args:
            max_batch_size: Default of the batch size, and the largest that is allowed.
            name: A name to show.
            device: "cpu", where files are read.
            num_inputs: 0; readers have none.
            random_shuffle: Visit the samples in another random order each epoch.
            seed: Seed of the order, 0 to 2**64 - 1; None and -1 are 0: the same order in every run and on every rank.
                All shards must have one.
            shuffle_after_epoch: The same as `random_shuffle`, seeded by `shuffle_after_epoch_seed`.
            shuffle_after_epoch_seed: Seed of that order.
            shard: The source of the next two: "torch" (torch.distributed, initialised), or the environment of a
                launcher, "torchrun" (RANK and WORLD_SIZE) or "slurm" (SLURM_PROCID and SLURM_NTASKS).
            shard_id: The first shard of this reader, 0 to `num_shards` - 1; by default 0.
            num_shards: The number of readers that share each epoch; by default 1.
            stick_to_shard: Whether to keep one shard, of the same samples, in all epochs; by default shards rotate.
                With a shuffle, a state then fits this number of shards only.
            order_of: Another reader, of as many samples, to be paired with: row n of this listing comes beside row n of
                the other, as a mask beside its image. Pairs have one id, so keyed draws are the same for both. Shuffle,
                seed, shards, last batch, selection and weights are those of the other. Both need `on_error` "raise".
            where: A function that selects samples: True or False for a name (`File`: a name and a label, `COCO`: a name
                and the objects, `Map`: a row). Other samples do not exist for the reader. It is called once for each
                sample, at the listing.
            weights: The chances of samples to be drawn: a sequence of numbers in listed order, after `where`; a mapping
                by name (`File`: or by class or label); or a function as of `where`. Only ratios matter, and samples of
                weight 0 never come. The order of an epoch is random, by `seed`.
            replacement: Whether each place of an epoch is a draw from all samples, as by default: some come several
                times. Else samples come at most once, those of large weights early.
            num_samples: The number of samples of an epoch with `weights`; by default that of all samples, or without
                replacement that of all with weights above 0.
            pad_last_batch: The same as ``last_batch="pad"``.
            last_batch: The last batch if samples do not fill it on all shards: "partial" gives the rest, so some shards
                may make one step less; "drop" leaves it out; "pad" fills up with the last sample. With "drop" and "pad"
                all shards make equally many steps of full batches.
            on_error: The treatment of unreadable samples: "raise" an error that names all of the batch, and stay in
                place; "skip" them, down to an empty batch; or "replace" each by the next readable sample of the epoch,
                at most 100 places on. `skipped` lists those of the last two.
            fingerprint: The facts by which a state recognises its samples, besides names and labels: by default the
                sizes of 4,096 files, or of all samples in archives; the "sizes" of all files; or also the "contents",
                which are read once.
            on_mismatch: The treatment of a state of other samples or of another order: "raise"; "warn", and go on from
                the same position; or "adapt": give exactly the remaining samples of the epoch.
            storage_options: For addresses of object stores, such as ``"s3://bucket/train"``: arguments of the file
                systems of fsspec, such as ``{"anon": True}``. They are in no state and no error.
            cache_dir: A folder of this machine that keeps objects for later epochs and runs. Processes may share it.
            cache_bytes: The most bytes that it keeps.
            retries: The number of further attempts to read an object after a passing fault.
            timeout: Seconds without a byte after which an attempt has failed.
            reads_in_flight: The number of objects that are read at once.
            lazy_init: Whether to list the samples when they are first needed, and not now.
            enable_checkpointing: Makes no difference: a state can always be taken.
            initial_fill: Makes no difference: a shuffle is always over all samples.
            prefetch_queue_depth: Makes no difference.
            read_ahead: Makes no difference.
            dont_use_mmap: Makes no difference: files are read, never mapped.
            skip_cached_images: Makes no difference.
            tensor_init_bytes: Makes no difference.
        """
        operator = self._operator
        _only_cpu(operator, device, num_inputs)
        numbers = {
            "initial_fill": initial_fill,
            "prefetch_queue_depth": prefetch_queue_depth,
            "tensor_init_bytes": tensor_init_bytes,
        }
        for argument, number in numbers.items():
            natural(operator, argument, 1 if number is None else number)
        flags = {
            "enable_checkpointing": enable_checkpointing,
            "read_ahead": read_ahead,
            "dont_use_mmap": dont_use_mmap,
            "skip_cached_images": skip_cached_images,
        }
        for argument, value in flags.items():
            flag(operator, argument, value)
        anew = flag(operator, "shuffle_after_epoch", shuffle_after_epoch)
        shuffle = flag(operator, "random_shuffle", random_shuffle)
        stick = flag(operator, "stick_to_shard", stick_to_shard)
        if where is not None and not callable(where):
            raise ArgumentError(operator, "where", f"a function of {self._told_of}, or None", shown(where))
        self._where = where
        self._asked = asked(operator, weights, replacement, num_samples, sticks=stick)
        if anew and (shuffle or stick):
            other = "random_shuffle" if shuffle else "stick_to_shard"
            raise ArgumentError(operator, "shuffle_after_epoch", f"False with {other}=True", "bool True")
        super().__init__(
            max_batch_size=max_batch_size,
            name=name,
            shuffle=shuffle or anew or weights is not None,
            seed=shuffle_after_epoch_seed if anew else seed,
            shard=shard,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick,
            last_batch=_last_batch(operator, last_batch, pad=flag(operator, "pad_last_batch", pad_last_batch)),
            on_error=on_error,
            fingerprint=fingerprint,
            on_mismatch=on_mismatch,
        )
        self._store = _store_of(operator, storage_options, cache_dir, cache_bytes, retries, timeout, reads_in_flight)
        self._list_samples = list_samples
        self._listed: L | None = None
        if order_of is not None:
            for argument, given in (("where", where), ("weights", weights)):
                if given is not None:
                    expected = "None with order_of, whose samples are those of the other reader"
                    raise ArgumentError(operator, argument, expected, shown(given))
            self._take_order(
                order_of,
                shuffled=shuffle or anew,
                seeded=self._seeded,
                sticks=stick,
                sharded=(shard, shard_id, num_shards) != (None, None, None),
                ended=last_batch is not None or bool(pad_last_batch),
            )
        if not flag(operator, "lazy_init", lazy_init):
            _ = self._listing

    def __getstate__(self) -> dict[str, Any]:
        if self._where is not None or self._asked is not None:
            _ = self._listing  # functions may not be pickled, and are called once
        return super().__getstate__()

    @property
    def _listing(self) -> L:
        listed = self._listed
        if listed is None:
            with self._lock:
                listed = self._listed
                if listed is None:
                    listed = self._beside_leader(self._chosen(self._list_samples(self._store)))
                    self._listed, self._where, self._asked = listed, None, None
                    self.__dict__.pop("_list_samples", None)  # which may hold a list of millions of paths
        return listed  # without the lock: threads that read a batch ask for it while another holds that

    @property
    def _ids(self) -> Any:
        return self._listing.chosen_ids if self._leader is None else self._leader._ids

    @property
    def _count(self) -> int:
        drawn = self._drawn
        return self._distinct if drawn is None else drawn.count

    @property
    def _distinct(self) -> int:
        listing = self._listing
        return len(listing.names) if listing.chosen is None else len(listing.chosen)

    def _ids_of(self, indices: Any) -> Any:
        return self._listing.ids_of(self._rows(indices)) if self._leader is None else self._leader._ids_of(indices)

    def _names(self, indices: list[int]) -> list[str]:
        return self._listing.take(self._rows(indices))

    def _rows(self, numbers: Any) -> Any:
        """The numbers in the listing of some of the samples that are visited."""
        chosen = self._listing.chosen
        if chosen is None:
            return numbers
        return chosen[numbers].tolist() if isinstance(numbers, list) else chosen[numbers]

    def _loaded(self, numbers: list[int], origin: Origin) -> tuple[Batch, ...]:
        return self._read(self._rows(numbers), origin)

    # -- the choice of samples ----------------------------------------------------------------------------------------

    def _chosen(self, listed: L) -> L:
        """A listing with the samples that are selected. Their weights are known from here on."""
        operator = self._operator
        if self._where is not None:
            told = self._told(listed, listed.rows)
            listed = dataclasses.replace(
                listed, chosen=selected(operator, self._where, told, listed.names, self._told_of)
            )
        if self._asked is not None:
            rows = listed.rows
            names = listed.names if listed.chosen is None else listed.take(rows.tolist())
            self._weights = weighed(
                operator,
                self._asked,
                listed.chosen_ids,
                names,
                lambda: self._told(listed, rows),
                lambda mapping: by_groups(operator, mapping, self._groups(listed, rows), names),
                self._told_of,
            )
        return listed

    def _told(self, listed: L, rows: Any) -> Iterable[tuple[Any, ...]]:
        """For some samples, the arguments of functions as `where` and `weights`."""
        return zip(listed.names if listed.chosen is None else listed.take(rows.tolist()))

    def _groups(self, listed: L, rows: Any) -> Iterable[tuple[Array, Sequence[Any]]]:  # noqa: ARG002
        """Kinds of keys of a mapping as weights, but for names: for some samples the numbers of keys, and the keys."""
        return ()

    @property
    def _chooses(self) -> bool:
        """Whether some samples are selected, or all are drawn by weights, by this reader or that which it follows."""
        return self._drawn is not None or self._listing.chosen is not None

    @property
    def _drawn(self) -> Weights | None:
        if self._leader is not None:
            return self._leader._drawn
        _ = self._listing
        return self._weights

    @property
    def _listed_tally(self) -> str:
        if self._leader is not None:
            return self._leader._listed_tally
        listing = self._listing
        if listing.chosen is None:
            return ""
        if self._known_tally is None:
            self._known_tally = str(Tally.of(listing.ids))
        return self._known_tally

    _known_tally: str | None = None

    def _digests(self, *, sort: bool, contents: bool, sized: int) -> dict[str, str]:
        return self._listing.digests(sort=sort, contents=contents, sized=sized)

    def _digest_of_names(self, *, sort: bool) -> str:
        return self._listing.digest_of("names", sort)

    @property
    def _sized(self) -> int:
        return self._distinct if isinstance(self._listing, Packed) else super()._sized

    # -- the order of another reader ----------------------------------------------------------------------------------

    def _take_order(
        self, other: Any, *, shuffled: bool, seeded: bool, sticks: bool, sharded: bool, ended: bool
    ) -> None:
        """Take the order and the shards of another reader, as `order_of` asks for.

        Args:
            other: The value of `order_of`.
            shuffled: Whether a shuffle is asked for here as well; then it must be that of the other.
            seeded: The same of a seed.
            sticks: The same of `stick_to_shard`.
            sharded: The same of a shard.
            ended: The same of `last_batch`.
        """
        operator = self._operator
        if not isinstance(other, Stored):
            raise ArgumentError(operator, "order_of", "a reader of dynamic.readers, or None", shown(other))
        pairs = {
            "random_shuffle": (shuffled, self._rule.shuffle, other._rule.shuffle),
            "seed": (seeded, self._rule.seed, other._rule.seed),
            "stick_to_shard": (sticks, self._stick_to_shard, other._stick_to_shard),
            "shard_id": (sharded, self._shard_id, other._shard_id),
            "num_shards": (sharded, self._num_shards, other._num_shards),
            "last_batch": (ended, self._last_batch, other._last_batch),
        }
        for argument, (given, here, there) in pairs.items():
            if given and here != there:
                expected = f"left out, or {there!r} like the reader given as order_of"
                raise ArgumentError(operator, argument, expected, shown(here))
        if other._on_error != "raise":
            expected = "a reader with on_error='raise', of which every sample comes"
            raise ArgumentError(operator, "order_of", expected, f"one with on_error={other._on_error!r}")
        self._shard_id, self._num_shards = other._shard_id, other._num_shards
        self._launcher, self._last_batch = other._launcher, other._last_batch
        self._stick_to_shard, self._rule = other._stick_to_shard, other._rule
        self._follow(other)

    def _follow(self, leader: Stored[Any, Any]) -> None:
        """Let each sample come where that of the same row of another reader comes, whose rule this one has."""
        if self._on_error != "raise":
            expected = f"'raise' in a reader paired with {leader._operator}"
            raise ArgumentError(self._operator, "on_error", expected, shown(self._on_error))
        self._leader, self._paired, leader._paired = leader, True, True
        if self._listed is not None:
            self._listed = self._beside_leader(self._listed)

    def _beside_leader(self, listed: L) -> L:
        """A listing, in the order of the reader that this one follows."""
        if self._leader is None:
            return listed
        led = self._leader._listing
        ids = led.ids if led.beside is None else led.beside
        if len(ids) != len(listed.names):
            expected = f"a reader of as many samples as this one has, {len(listed.names)}"
            raise ArgumentError(self._operator, "order_of", expected, f"one of {len(ids)}")
        return dataclasses.replace(listed, beside=ids, chosen=led.chosen)

    def _files(self, indices: list[int], files: Listing | None = None) -> list[Array]:
        """The bytes of the file of each sample, or of some of other files."""
        listing: Listing = self._listing if files is None else files
        return self._each(indices, listing.read, listing.read_all, listing)

    @property
    def _reach(self) -> int:
        return self._listing.store.reach

    def _expect(self, indices: list[int]) -> None:
        listing = self._listing
        listing.store.expect(listing.wanted(self._rows(indices)))

    def _each(
        self,
        indices: list[int],
        read: Callable[[int], X],
        read_many: Callable[[list[int]], tuple[list[X], Mapping[int, Exception]]] | None = None,
        files: Listing | None = None,
    ) -> list[X]:
        """The results of a function of the number of each sample, on threads where files are slow to come.

        Args:
            indices: The numbers.
            read: The function.
            read_many: The same for many, on one thread: the results, and errors by their places.
            files: The files with these numbers; by default the samples.

        Raises:
            DataError: It raised an OSError of its own or `Unusable` for some; all of them are named. It is a `Replaced`
                where one was a `Changed`.
        """
        found: list[Any] = [None] * len(indices)
        failures: list[Failure] = []
        kind = DataError

        def note(i: int, error: Exception) -> None:
            nonlocal kind
            if not isinstance(error, Unusable) and not is_of_the_system(error):
                raise error
            reason = getattr(error, "strerror", None) or str(error)
            kind = Replaced if isinstance(error, NotOfTheSample) else kind
            failures.append(Failure(i, reason, source=(self._listing if files is None else files).source(indices[i])))

        def read_one(i: int) -> None:
            try:
                found[i] = read(indices[i])
            except (OSError, Unusable) as error:
                note(i, error)

        if indices:
            keep_blocks()  # files of some ten kB would be read into memory that was just given back to the system
            store = (self._listing if files is None else files).store
            done, slow = 0, not store.far
            while slow and done < min(_TIMED, len(indices)):
                start = time.perf_counter()
                read_one(done)
                slow = time.perf_counter() - start > _SLOW
                done += 1
            if store.far and read_many is None:
                store.each(read_one, len(indices))
            elif slow or read_many is None:
                run(lambda i: read_one(i + done), len(indices) - done, _MANY_BYTES if slow else 0)
            else:
                found[done:], errors = read_many(indices[done:])
                for i, error in errors.items():
                    note(i + done, error)
        if failures:
            raise kind(self._operator, sorted(failures, key=lambda failure: failure.index), len(indices))
        return found


def a_path(operator: str, argument: str, value: Any, *, here: bool = False) -> str:
    """A path made absolute, as the working folder may change, or an address.

    Args:
        operator: Of the reader.
        argument: Its argument.
        value: Of that.
        here: Whether it must be on this machine.
    """
    if not isinstance(value, (str, bytes, os.PathLike)) or not can_be(os.fsdecode(value)):
        raise ArgumentError(operator, argument, "a path", shown(plain(value) if isinstance(value, str) else value))
    path = os.fsdecode(value)
    if not is_address(path):
        return absolute(value)
    if here:
        refuse_address(operator, argument, path)
    check_address(operator, argument, path)
    return path.rstrip("/")


def paths_of(operator: str, argument: str, value: PathLike | Sequence[PathLike]) -> list[str]:
    """A path, or some of them, made absolute."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return [a_path(operator, argument, value)]
    if not isinstance(value, Sequence) or not value:
        raise ArgumentError(operator, argument, "a path, or a list of at least one", shown(value))
    return [a_path(operator, f"{argument}[{i}]", path) for i, path in enumerate(value)]


def names_of_files(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The folder that files lie in, and their paths below it: they name samples wherever the folder is moved to."""
    if any(map(is_address, paths)):
        parts = [path.split("/") for path in paths]
        folders = zip(*(part[:-1] for part in parts), strict=False)
        common = [names[0] for names in itertools.takewhile(lambda names: len(set(names)) == 1, folders)]
        return "/".join(common), ["/".join(part[len(common) :]) for part in parts]
    root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120
    return root, [os.path.relpath(path, root).replace(os.sep, "/") for path in paths]


def absolute(path: PathLike) -> str:
    """An absolute path. Links are not followed."""
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100


def _store_of(
    operator: str, options: Any, cache_dir: Any, cache_bytes: Any, retries: Any, timeout: Any, in_flight: Any
) -> Store:
    """Where addresses are read, and files beside them."""
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(
            operator, "storage_options", "a dict of arguments of the file system", type(options).__name__
        )
    seconds = 60.0 if timeout is None else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ArgumentError(operator, "timeout", "a number of seconds above 0", shown(timeout))
    most, cache = natural(operator, "cache_bytes", 1 << 36 if cache_bytes is None else cache_bytes, 1), None
    if cache_dir is not None:
        folder = a_path(operator, "cache_dir", cache_dir, here=True)
        try:
            cache = Cache(folder, most)
        except OSError as error:
            expected = "a folder that can be written to"
            raise ArgumentError(operator, "cache_dir", expected, shown(folder), f"{error.strerror}.") from None
    return Remote(
        options,
        retries=natural(operator, "retries", 4 if retries is None else retries),
        timeout=float(seconds),
        in_flight=natural(operator, "reads_in_flight", 32 if in_flight is None else in_flight, 1, 1024),
        cache=cache,
    )


def _last_batch(operator: str, last_batch: LastBatch | None, *, pad: bool) -> LastBatch:
    if last_batch is None:
        return "pad" if pad else "partial"
    if pad and last_batch != "pad":
        raise ArgumentError(operator, "last_batch", "'pad' with pad_last_batch=True", shown(last_batch))
    return last_batch


def _only_cpu(operator: str, device: Any, num_inputs: Any) -> None:
    kind = device.device_type if isinstance(device, Device) else device
    kind = kind if isinstance(kind, str) else ""
    if kind in ("gpu", "cuda", "mixed") or kind.startswith(("gpu:", "cuda:")):
        raise DeviceError(f"{operator}(): files are read on the CPU; got {kind!r}. Move its batches to the device.")
    if kind != "cpu":
        raise ArgumentError(operator, "device", "'cpu'", shown(device))
    if num_inputs is not None and (not isinstance(num_inputs, int) or num_inputs):
        raise ArgumentError(operator, "num_inputs", "0: readers have no inputs", shown(num_inputs))
