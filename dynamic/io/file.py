"""The bytes of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import numpy

from dynamic._arrays.array import Array
from dynamic._base import pool
from dynamic._base.origin import Origin, sample_ids
from dynamic.data import Batch, Tensor, checked_batch_size
from dynamic.devices import DeviceLike, device_of_call
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DataError, Failure, shown

from ._address import check_address, is_address
from ._bytes import can_be, is_of_the_system
from ._remote import Remote
from ._store import DISK, Store

__all__ = ["read"]


class Bytes(NamedTuple):
    """The results of `opened`."""

    data: Tensor | Batch  #: of one file, or of several; the origin names them, and those that cannot be read are empty
    failures: dict[int, Failure]  #: why they cannot be read, by their places


def read(
    filepaths: Any,
    /,
    *,
    dont_use_mmap: bool = False,  # noqa: ARG001
    use_o_direct: bool = False,  # noqa: ARG001
    batch_size: int | None = None,
    device: DeviceLike = None,
) -> Tensor | Batch:
    """Read whole files.

    Args:
        filepaths: A path or an address of an object store, or a sequence of them. A Tensor or Batch of bytes holds one
            in all, or in each sample.
        dont_use_mmap: Without effect: files are always read, for one that is cut off while mapped ends the process.
        use_o_direct: Without effect.
        batch_size: Number of samples of a Batch of one file, read once.
        device: Where the result is; by default on the CPU.

    Returns:
        The bytes, uint8 of shape (n,): a Tensor for one path, a Batch for a sequence.

    Raises:
        ArgumentError: These are no paths, or not as many as `batch_size` says.
        DataError: Some files cannot be read; the message names all of them.

    >>> ndd.io.file.read("missing.bin")
    Traceback (most recent call last):
    dynamic.errors.DataError: io.file.read(): 1 of 1 samples cannot be read.
      sample 0 (missing.bin): No such file or directory
    """
    name = "io.file.read"
    there, count = device_of_call(device, name), None if batch_size is None else checked_batch_size(name, batch_size)
    found = opened(name, "filepaths", filepaths)
    if found.failures:
        total = len(found.data) if isinstance(found.data, Batch) else 1
        raise DataError(name, [found.failures[i] for i in sorted(found.failures)], total)
    data = found.data
    if count is not None and isinstance(data, Tensor):
        data = Batch.broadcast(data, count)
    elif isinstance(data, Batch) and count not in (None, len(data)):
        raise ArgumentError(name, "batch_size", f"{len(data)}, as there are so many files", str(count))
    return data if there is None else data.to_device(there)


def opened(
    operator: str, argument: str, paths: Any, limit: int | None = None, wanted: Callable[[bytes], bool] | None = None
) -> Bytes:
    """Read files for an operator.

    Args:
        operator: Its name.
        argument: The argument that says which.
        paths: Its value: a path, a sequence of paths, or data that holds them.
        limit: The most bytes that it will take of a file; one more is given where there are more.
        wanted: Whether it takes files that begin so; of others only that is read.

    Raises:
        ArgumentError: These are no paths.
    """
    if isinstance(paths, (Tensor, Batch)):
        paths = _told(operator, argument, paths)
    elif isinstance(paths, numpy.ndarray) and not paths.ndim:
        paths = paths.item()
    elif isinstance(paths, numpy.ndarray) and paths.dtype in (numpy.uint8, numpy.int8):
        paths = _told(operator, argument, Tensor(paths))
    one = isinstance(paths, (str, bytes, os.PathLike))
    if not one and not isinstance(paths, Iterable):
        raise ArgumentError(operator, argument, "a path or a sequence of paths", shown(paths))
    each, store = [paths] if one else list(paths), cast("Store", DISK)
    for i, item in enumerate(each):
        path = isinstance(item, (str, bytes, os.PathLike))
        if not path or not can_be(os.fsdecode(item).replace("\0", "")):  # one with NUL is a file that is not there
            raise ArgumentError(operator, argument if one else f"{argument}[{i}]", "a path", shown(item))
        if is_address(os.fsdecode(item)):
            check_address(operator, argument if one else f"{argument}[{i}]", os.fsdecode(item))
            store = store if store.far else Remote()
    names = [store.plain(os.fsdecode(item)) for item in each]
    origin = Origin(0, sample_ids([os.fsencode(name) for name in names]), names)
    files, failures = _read(names, limit, wanted, store)
    if one:
        return Bytes(Tensor(files[0], None, origin), failures)
    return Bytes(Batch(files, None, origin, numpy.dtype("uint8"), 1), failures)


def _told(operator: str, argument: str, paths: Tensor | Batch) -> bytes | list[bytes]:
    """The paths that samples hold, a byte for each letter."""
    letters = numpy_dtype(paths.dtype) in (numpy.uint8, numpy.int8)
    if not letters or (paths.ndim != 1 and (isinstance(paths, Tensor) or len(paths))):
        got = f"{paths.dtype.word} of {paths.ndim} dimensions"
        raise ArgumentError(operator, argument, "a path, or bytes (uint8 or int8, one dimension) that are one", got)
    host = paths.cpu()
    return host.array.tobytes() if isinstance(host, Tensor) else [sample.tobytes() for sample in host.samples]


def _read(
    names: list[str], limit: int | None, wanted: Callable[[bytes], bool] | None, store: Store
) -> tuple[list[Array], dict[int, Failure]]:
    """The bytes of files, one more than the limit at most; none of those that cannot be read, and why."""
    files: list[Any] = [numpy.empty(0, numpy.uint8)] * len(names)
    failures: dict[int, Failure] = {}

    def one(i: int) -> None:
        try:
            files[i] = store.contents(names[i], most=None if limit is None else limit + 1, wanted=wanted)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and not is_of_the_system(error):
                raise
            failures[i] = Failure(i, getattr(error, "strerror", None) or str(error), source=names[i])

    if store.far:
        store.each(one, len(names))
    else:
        pool.run(one, len(names), len(names) << 22)
    return files, failures
