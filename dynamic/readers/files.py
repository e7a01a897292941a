"""The reader of files in folders."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy

from dynamic._array import Array, empty
from dynamic._origin import Origin
from dynamic._pool import run
from dynamic.data import Batch
from dynamic.devices import Device
from dynamic.errors import ArgumentError, DataError, DeviceError, Failure, displayed, shown

from ._checks import flag, natural
from ._listing import FILE_FILTERS, Listing, kind_of, listed_files, listed_folder, listed_lines
from ._placed import Fingerprint, OnMismatch
from ._reader import LastBatch, OnError, Reader

__all__ = ["File"]

PathLike: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

#: O_NONBLOCK: opening a fifo that nobody writes to must not wait; it changes nothing for regular files.
_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Threads pay where a file takes its time to come; files in memory that are read in 20 microseconds would be slower.
_WORTH_THREADS = 2e-4  # seconds for the first file of a batch
_MANY_BYTES = 1 << 40


class File(Reader):
    """Reads files and their labels: folders of classes, a list of paths, or a text file of paths and labels.

    Each batch is the contents of the files (a Batch of uint8, one dimension, layout None) and their labels (a Batch of
    int32, shape (1,)). Both know where the samples came from, so that errors name files and draws can be keyed.

    Epochs are exact: each gives every sample once, and `random_shuffle` shuffles all of them anew each epoch. See
    `Reader.next_epoch` for what an epoch is, and `get_state` for how to go on later.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu", where files are read.
        num_inputs: 0; readers have none.
        file_root: The folder whose folders are the classes; with `files` or `file_list`, what their paths start from.
        files: Paths to read. A path may occur more than once: each occurrence is a sample.
        labels: A label for each of `files`; by default its place in the list.
        file_list: A text file with a path, white space and a label on each line; relative paths start from its folder.
        file_filters: Shell patterns; with `file_root` alone, files that match none are not samples.
        dir_filters: Shell patterns; with `file_root` alone, folders that match none are not classes.
        case_sensitive_filter: Whether patterns distinguish "a" from "A".
        random_shuffle: Visit the samples in another random order each epoch.
        seed: Seed of the order, 0 to 2**64 - 1; None and -1 are 0: the same order in every run and on every rank.
        shuffle_after_epoch: The same as `random_shuffle`, seeded by `shuffle_after_epoch_seed`.
        shuffle_after_epoch_seed: Seed of that order.
        shard: Take the next two from the environment of a launcher: "torchrun" (RANK and WORLD_SIZE) or "slurm"
            (SLURM_PROCID and SLURM_NTASKS).
        shard_id: Which shard this reader starts with, 0 to `num_shards` - 1; by default 0.
        num_shards: How many readers share each epoch out; by default 1.
        stick_to_shard: Keep to one shard, of the same samples, in all epochs; by default take the next shard each
            epoch. With a shuffle, a state then fits this number of shards only.
        pad_last_batch: The same as ``last_batch="pad"``.
        last_batch: What becomes of the last batch if the samples do not fill it on all shards: "partial" gives what is
            left (a shard that nothing is left for makes one step less), "drop" leaves it out, and "pad" fills up with
            the last sample; with these two all shards make equally many steps of full batches.
        on_error: What becomes of a file that cannot be read: "raise" an error that names all such files of the batch,
            and stay; "skip" them, which makes the batch smaller, down to none; or "replace" each by the next file of
            the epoch's order that can be read, of at most 100. `skipped` lists the last two.
        fingerprint: What a state tells files from others by, besides their names and labels: their "sizes", or their
            "contents" as well, for which all of them are read once.
        on_mismatch: What `set_state` does with a state of other files or of another order: "raise"; "warn" and go on
            from the same position; or "adapt": give exactly the samples of the epoch that have not been given.
        lazy_init: List the files when they are first needed, instead of now.
        enable_checkpointing: Makes no difference: a state can always be taken.
        initial_fill: Makes no difference: a shuffle is always over all samples.
        prefetch_queue_depth: Makes no difference.
        read_ahead: Makes no difference.
        dont_use_mmap: Makes no difference: files are read, never mapped.
        skip_cached_images: Makes no difference.
        tensor_init_bytes: Makes no difference.

    Raises:
        ArgumentError: An argument is wrong, or there are no files.
        DataError: A class folder holds something else than files and folders that matches the filters.

    >>> root = getfixture("tmp_path")
    >>> for name in ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"]:
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     _ = (root / name).write_bytes(name.encode())
    >>> reader = dynamic.readers.File(file_root=root)
    >>> for jpegs, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(jpeg.array) for jpeg in jpegs], labels.tolist())
    [b'cat/1.jpg', b'cat/2.jpg'] [[0], [0]]
    [b'dog/1.jpg'] [[1]]
    """

    _operator: ClassVar[str] = "readers.File"

    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        file_root: PathLike | None = None,
        files: Sequence[PathLike] | None = None,
        labels: Sequence[int] | None = None,
        file_list: PathLike | None = None,
        file_filters: Sequence[str] | None = None,
        dir_filters: Sequence[str] | None = None,
        case_sensitive_filter: bool | None = False,
        random_shuffle: bool | None = False,
        seed: int | None = None,
        shuffle_after_epoch: bool | None = False,
        shuffle_after_epoch_seed: int | None = None,
        shard: str | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        stick_to_shard: bool | None = False,
        pad_last_batch: bool | None = False,
        last_batch: LastBatch | None = None,
        on_error: OnError = "raise",
        fingerprint: Fingerprint = "sizes",
        on_mismatch: OnMismatch = "raise",
        lazy_init: bool | None = False,
        enable_checkpointing: bool | None = False,
        initial_fill: int | None = None,
        prefetch_queue_depth: int | None = None,
        read_ahead: bool | None = None,
        dont_use_mmap: bool | None = None,
        skip_cached_images: bool | None = None,
        tensor_init_bytes: int | None = None,
    ) -> None:
        operator = self._operator
        _only_cpu(device, num_inputs)
        numbers = {"initial_fill": initial_fill, "prefetch_queue_depth": prefetch_queue_depth,
                   "tensor_init_bytes": tensor_init_bytes}  # fmt: skip
        for argument, number in numbers.items():
            natural(operator, argument, 1 if number is None else number)
        flags = {"enable_checkpointing": enable_checkpointing, "read_ahead": read_ahead, "dont_use_mmap": dont_use_mmap,
                 "skip_cached_images": skip_cached_images}  # fmt: skip
        for argument, value in flags.items():
            flag(operator, argument, value)
        anew = flag(operator, "shuffle_after_epoch", shuffle_after_epoch)
        shuffle = flag(operator, "random_shuffle", random_shuffle)
        stick = flag(operator, "stick_to_shard", stick_to_shard)
        if anew and (shuffle or stick):
            other = "random_shuffle" if shuffle else "stick_to_shard"
            raise ArgumentError(operator, "shuffle_after_epoch", f"False with {other}=True", "bool True")
        super().__init__(
            max_batch_size=max_batch_size,
            name=name,
            shuffle=shuffle or anew,
            seed=shuffle_after_epoch_seed if anew else seed,
            shard=shard,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick,
            last_batch=_last_batch(last_batch, pad=flag(operator, "pad_last_batch", pad_last_batch)),
            on_error=on_error,
            fingerprint=fingerprint,
            on_mismatch=on_mismatch,
        )
        self._source = _source(file_root, files, labels, file_list)
        self._filters = _patterns("file_filters", file_filters) or FILE_FILTERS, _patterns("dir_filters", dir_filters)
        self._case_sensitive = flag(operator, "case_sensitive_filter", case_sensitive_filter)
        self._listed: Listing | None = None
        if not flag(operator, "lazy_init", lazy_init):
            _ = self._listing

    @property
    def _listing(self) -> Listing:
        with self._lock:
            if self._listed is None:
                root, files, labels, file_list = self._source
                if files is not None:
                    self._listed = listed_files(root, files, labels)
                elif file_list is not None:
                    self._listed = listed_lines(file_list, root)
                else:
                    self._listed = listed_folder(root, *self._filters, case_sensitive=self._case_sensitive)
            return self._listed

    @property
    def _ids(self) -> Any:
        return self._listing.ids

    def _names(self, indices: list[int]) -> list[str]:
        names = self._listing.names
        return [names[i] for i in indices]

    def _digests(self, *, sort: bool, contents: bool) -> dict[str, str]:
        return self._listing.digests(sort=sort, contents=contents)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, Batch]:
        listing = self._listing
        contents: list[Array] = [None] * len(indices)
        failures: list[Failure] = []

        def read_one(i: int) -> None:
            path = listing.path(indices[i])
            try:
                contents[i] = _contents(path)
            except OSError as error:
                failures.append(Failure(i, error.strerror or str(error), source=displayed(path)))

        if not indices:
            return Batch([], origin=origin, dtype=numpy.dtype(numpy.uint8), ndim=1), Batch(listing.labels[:0, None])
        start = time.perf_counter()
        read_one(0)
        slow = time.perf_counter() - start > _WORTH_THREADS
        run(lambda i: read_one(i + 1), len(indices) - 1, _MANY_BYTES if slow else 0)
        if failures:
            raise DataError(self._operator, sorted(failures, key=lambda failure: failure.index), len(indices))
        labels = listing.labels[indices][:, None]
        return Batch(contents, origin=origin), Batch(labels, origin=origin)


def _contents(path: str) -> Array:
    """The bytes of a regular file: uint8, one dimension. All that were there when it was opened, and no others."""
    descriptor = os.open(path, _OPENING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"is a {kind_of(status.st_mode)}, not a regular file")
        data = empty((status.st_size + 1,), numpy.dtype(numpy.uint8))  # one more byte, to see that it has not grown
        done = 0
        while done < len(data) and (n := _read_into(data[done:], descriptor)):
            done += n
        if done != status.st_size:
            more = "more" if done > status.st_size else f"{done}"
            raise OSError(errno.EIO, f"changed while it was read: {more} bytes came of {status.st_size}")
        return data[:done]
    finally:
        os.close(descriptor)


def _read_into(data: Array, descriptor: int) -> int:
    if hasattr(os, "readv"):
        return os.readv(descriptor, [data])
    part = os.read(descriptor, len(data))  # pragma: no cover - Windows
    data[: len(part)] = numpy.frombuffer(part, numpy.uint8)  # pragma: no cover - Windows
    return len(part)  # pragma: no cover - Windows


def _source(
    file_root: PathLike | None,
    files: Sequence[PathLike] | None,
    labels: Sequence[int] | None,
    file_list: PathLike | None,
) -> tuple[str, Sequence[PathLike] | None, Sequence[int] | None, str | None]:
    """Where the samples are, with paths made absolute: the working folder may change."""
    operator = File._operator
    for argument, value in (("file_root", file_root), ("file_list", file_list)):
        if value is not None and not isinstance(value, (str, bytes, os.PathLike)):
            raise ArgumentError(operator, argument, "a path", shown(value))
    if files is not None and file_list is not None:
        raise ArgumentError(operator, "files", "None where file_list is given", shown(files))
    if files is None and labels is not None:
        raise ArgumentError(operator, "labels", "None unless files are given", shown(labels))
    if files is None and file_list is None and file_root is None:
        raise ArgumentError(operator, "file_root", "a path, unless files or file_list is given", "None")
    if isinstance(files, list):
        files = tuple(files)  # the caller may go on to change it
    root, listed = (None if path is None else _absolute(path) for path in (file_root, file_list))
    return root or "", files, labels, listed


def _absolute(path: PathLike) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are not followed


def _patterns(argument: str, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    if patterns is None:
        return None
    strings = not isinstance(patterns, (str, bytes)) and all(isinstance(pattern, str) for pattern in patterns)
    if not strings or not patterns:
        raise ArgumentError(File._operator, argument, "a list of at least one pattern such as '*.jpg'", shown(patterns))
    return tuple(patterns)


def _last_batch(last_batch: LastBatch | None, *, pad: bool) -> LastBatch:
    if last_batch is None:
        return "pad" if pad else "partial"
    if pad and last_batch != "pad":
        raise ArgumentError(File._operator, "last_batch", "'pad' with pad_last_batch=True", shown(last_batch))
    return last_batch


def _only_cpu(device: Any, num_inputs: Any) -> None:
    kind = device.device_type if isinstance(device, Device) else device
    if kind in ("gpu", "cuda", "mixed") or (isinstance(kind, str) and kind.startswith(("gpu:", "cuda:"))):
        raise DeviceError(f"readers.File(): files are read on the CPU; got {kind!r}. Decode on the device instead.")
    if kind != "cpu":
        raise ArgumentError(File._operator, "device", "'cpu'", shown(device))
    if num_inputs:
        raise ArgumentError(File._operator, "num_inputs", "0: readers have no inputs", shown(num_inputs))
