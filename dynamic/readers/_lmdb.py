"""Records of LMDB databases: which there are, and their bytes. The library lmdb reads them."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy

from dynamic._arrays.array import Array
from dynamic._base.locks import new_lock
from dynamic._base.pool import run
from dynamic.errors import ArgumentError, displayed, shown
from dynamic.io._bytes import Unavailable, Version
from dynamic.io._bytes import opened as opened_file
from dynamic.io._remote import Wanted
from dynamic.io._store import DISK, Store

from ._listing import Packed, unlisted, versions_of
from ._names import Names
from ._stored import Unusable, names_of_files

__all__ = ["Databases", "InDatabases"]

_NODE = 8  # bytes of the least node of a page: no file has more records than nodes
_WAITS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # seconds: the last who held a database may be closing it
_LEAK = "-- a leak"  # a finding of lmdb.verify that does not concern who reads


@dataclass(frozen=True)
class InDatabases(Packed):
    """The samples of LMDB databases.

    Attributes:
        files: The data file of each database.
        numbers: For each sample the number of its database: int32 of shape (N,).
        counts: How many bytes its record has: int64 of shape (N,).
        begins: For each database how many bytes of a name are before the key.
    """

    files: Sequence[str]
    numbers: Any
    counts: Any
    begins: Sequence[int]

    @classmethod
    def of(cls, operator: str, paths: Sequence[str], store: Store, *, verify: bool) -> Self:  # noqa: ARG003
        """The records of databases, in the order of their keys.

        Args:
            operator: The reader.
            paths: Folders with a file "data.mdb", or such files.
            store: Not used: databases are on this machine.
            verify: Whether to look whether the files are sound, before the library maps them.
        """
        _library(operator)
        files = [os.path.join(path, "data.mdb") if os.path.isdir(path) else path for path in paths]  # noqa: PTH112, PTH118
        root, titles = names_of_files(paths)
        versions = versions_of(operator, files, DISK)
        found: list[tuple[list[bytes], Array]] = [([], numpy.empty(0, numpy.int64))] * len(files)

        def find(i: int) -> None:
            found[i] = _listed(operator, files[i], versions.get(files[i]), verify=verify)

        run(find, len(files), 0)
        counts = [len(keys) for keys, _ in found]
        if not sum(counts):
            told = ", ".join(map(displayed, files[:3]))
            raise ArgumentError(operator, "path", "databases with records", f"none in {told}")
        groups = [os.fsencode(f"{title}#") for title in titles]
        keys = [key for some, _ in found for key in some]
        lengths = numpy.fromiter(map(len, keys), numpy.int64, len(keys))
        return cls(
            root,
            Names(groups, counts, b"".join(keys), lengths, distinct=len(set(titles)) == len(titles)),
            numpy.zeros((len(keys), 0), numpy.int32),
            versions,
            files,
            numpy.repeat(numpy.arange(len(files), dtype=numpy.int32), counts),
            numpy.concatenate([sizes for _, sizes in found]),
            [len(group) for group in groups],
        )

    def path(self, index: int) -> str:
        """The data file of a sample."""
        return self.files[int(self.numbers[index])]

    def source(self, index: int) -> str:
        """The name of a sample in errors."""
        return f"{displayed(self.path(index))}: key {shown(self._keys([index])[0])}"

    def sizes_of(self, indices: Any) -> Any:
        """How many bytes some records have: int64 of shape (N,)."""
        return self.counts[indices]

    def wanted(self, indices: list[int]) -> list[Wanted]:  # noqa: ARG002
        """Nothing that is elsewhere."""
        return []

    def digest(self, index: int) -> bytes:
        """A digest of the bytes of a record."""
        return hashlib.blake2b(self.record(index, self.databases([index])).data, digest_size=16).digest()

    def record(self, index: int, databases: Databases) -> Array:
        """A copy of the bytes of a record: the mapping ends with the database."""
        with databases.environment(self.path(index)).begin(buffers=True) as transaction:
            value = transaction.get(databases.keys[index])
            if value is None or len(value) != self.counts[index]:
                there = "is no more there" if value is None else f"has {len(value)} bytes"
                raise Unusable(f"{there}, where {self.counts[index]} bytes were listed")
            return numpy.array(numpy.frombuffer(value, numpy.uint8))

    def databases(self, indices: list[int]) -> Databases:
        """The databases, to read some records of them."""
        return Databases(self.versions, dict(zip(indices, self._keys(indices), strict=True)))

    def _keys(self, indices: list[int]) -> list[bytes]:
        names = self.names
        assert isinstance(names, Names)
        numbers = numpy.asarray(indices, numpy.int64)
        begins = [self.begins[database] for database in self.numbers[numbers].tolist()]
        return [name[begin:] for name, begin in zip(names._some(numbers), begins, strict=True)]


class Databases:
    """Databases of which a batch takes several records. Threads may share it.

    Args:
        versions: Which version of each file is meant.
        keys: Those of the records, by their numbers.
    """

    def __init__(self, versions: Mapping[str, Version], keys: Mapping[int, bytes]) -> None:
        self.keys, self._versions, self._open = keys, versions, dict[str, _Open]()

    def environment(self, path: str) -> Any:
        """The environment of a database."""
        if path not in self._open:
            self._open[path] = _opened(path, self._versions.get(path))
        return self._open[path].environment


class _Open:
    """A database that is open as long as somebody has this."""

    __slots__ = ("__weakref__", "environment", "version")

    def __init__(self, version: Version) -> None:
        self.environment: Any = None
        self.version = version


_lock = new_lock()
_all_open: dict[str, weakref.ref[_Open]] = {}


def _opened(path: str, version: Version | None) -> _Open:
    """A database. The library opens a file once in a process, so all share it.

    Raises:
        OSError: The file cannot be read, is of another version, or is cut off.
    """
    with _lock:
        with opened_file(path) as file:
            status = os.fstat(file.fileno())
        if version is not None:
            version.check(status)
        known = _all_open.get(path)
        database = known() if known is not None else None
        if database is None or database.version != Version.of(status):
            database = _Open(Version.of(status))
            _all_open[path] = weakref.ref(database)  # before it is open: no exception may come between
        if database.environment is None:
            database.environment = _environment(path)
        wanted = (database.environment.info()["last_pgno"] + 1) * database.environment.stat()["psize"]
        if wanted > status.st_size:
            raise OSError(errno.EIO, f"is cut off: {status.st_size} bytes of {wanted} are there")
        return database


def _environment(path: str) -> Any:
    """A database as the library opens it. One that another thread is about to close is waited for."""
    import lmdb

    waits = iter(_WAITS)
    while True:
        try:
            return lmdb.open(path, subdir=False, readonly=True, lock=False, create=False)
        except lmdb.Error as error:
            busy = "already open" in str(error)
            pause = next(waits, None) if busy else None
            if pause is None:
                raise (Unavailable if busy else OSError)(errno.EBUSY if busy else errno.EIO, str(error)) from None
        time.sleep(pause)


def _library(operator: str) -> None:
    try:
        import lmdb  # noqa: F401
    except ImportError as error:
        hint = "pip install 'dynamic-batch[lmdb]'"
        raise ArgumentError(operator, "path", f"read by the library lmdb: {hint}", f"{error}") from None


def _listed(operator: str, path: str, version: Version | None, *, verify: bool) -> tuple[list[bytes], Array]:
    """The keys of a database, and how many bytes their records have."""
    import lmdb

    damaged = functools.partial(unlisted, operator, path)
    try:
        if verify and (problem := _problem(path, version)):
            raise damaged(f"is damaged: {problem}")
        database = _opened(path, version)
        with database.environment.begin(buffers=True) as transaction:
            entries = database.environment.stat()["entries"]
            whole = os.stat(path).st_size  # noqa: PTH116
            if entries > whole // _NODE:
                raise damaged(f"is damaged: it has {whole} bytes, and says {entries} records")
            keys, sizes = list[bytes](), list[int]()
            for key, value in transaction.cursor():
                if len(keys) == entries or len(value) > whole:
                    raise damaged(f"is damaged at record {len(keys)} of {entries}")
                keys.append(bytes(key))
                sizes.append(len(value))
    except lmdb.Error as error:
        raise damaged(f"is damaged: {error}") from None
    except OSError as error:
        raise damaged(error.strerror or str(error)) from None
    if len(keys) != entries:
        raise damaged(f"is damaged: it has {len(keys)} records of {entries}")
    return keys, numpy.array(sizes, numpy.int64)


_sound: dict[str, Version] = {}  # versions of files that were found sound


def _problem(path: str, version: Version | None) -> str:
    """The first fault of a data file, "" if it is sound. A version of it is looked at once: that takes a while."""
    from lmdb import verify

    with opened_file(path):
        pass  # it is a regular file
    if version is not None and _sound.get(path) == version:
        return ""
    try:
        problems = [problem for problem in verify.verify(path, subdir=False) if _LEAK not in problem]
    except verify.VerifyError as error:
        return str(error)
    if version is not None and not problems:
        _sound[path] = version
    return str(problems[0]) if problems else ""
