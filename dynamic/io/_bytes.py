"""Bytes of files: all that were there when a file was opened, or a part of them."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.locks import new_lock
from dynamic.errors import ArgumentError, shown

__all__ = ["Changed", "Opened", "Version", "can_be", "contents", "is_of_the_system", "kind_of", "refuse_address"]

_KINDS = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)

#: O_NONBLOCK: opening a fifo that nobody writes to must not wait; it changes nothing for regular files.
_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: The beginning of an address: two letters at least, as one is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_BYTE = numpy.dtype(numpy.uint8)
_BEGINNING, _FIRST = 1 << 16, 16  # bytes that tell how large something is, and what
_MOST_OPEN = 64  # files at once; a process may have a thousand, and a batch may be of more archives than that


def kind_of(mode: int) -> str:
    """What a file mode is the mode of, in words."""
    return next((word for check, word in _KINDS if check(mode)), "special file")


def can_be(path: str) -> bool:
    """Whether a file may have a path: not where NUL is in it, or what cannot be encoded."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def refuse_address(operator: str, argument: str, path: str) -> None:
    """Refuse an address such as "s3://bucket/train", which the system would take for a folder "s3:" of this machine.

    Raises:
        ArgumentError: The path is one.
    """
    if "://" in path and (found := _SCHEME.match(path)):
        rest = path[found.end() :]
        hint = f"Write {rest!r}." if found[1].lower() == "file" else "Copy the files to this machine, or mount them."
        raise ArgumentError(operator, argument, "a path on this machine, not an address", shown(path), hint)


def is_of_the_system(error: BaseException) -> bool:
    """Whether a call of the system raised an error, rather than a signal's handler that ran in its midst.

    Handlers that end what takes too long raise TimeoutError, which is an OSError without a number.
    """
    return isinstance(error, OSError) and error.errno is not None


class Changed(OSError):
    """A file is of another version than the one that is meant."""


class Version(NamedTuple):
    """The version of a file: another file at its path, or later writing, has another one.

    Places in a file are those of one version; in another they are of other bytes.
    """

    size: int
    time: int | None  #: of its last change; None on another machine, whose copy has a time and a number of its own
    number: int | None  #: in the file system

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """The version of a file that has this status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)

    def elsewhere(self) -> Version:
        """The same on any machine."""
        return Version(self.size, None, None)

    def check(self, status: os.stat_result) -> None:
        """Raise `Changed` if a file with this status is of another version."""
        if self not in (found := Version.of(status), found.elsewhere()):
            told = f", of {found.size} bytes instead of {self.size}" if found.size != self.size else ""
            raise Changed(errno.ESTALE, f"is no more the file that was listed: it is another, or was changed{told}")


def contents(
    path: str,
    start: int = 0,
    size: int | None = None,
    most: int | None = None,
    wanted: Callable[[bytes], bool] | None = None,
    version: Version | None = None,
) -> Array:
    """The bytes of a regular file: uint8, one dimension.

    Args:
        path: Of the file.
        start: The first byte.
        size: How many bytes; by default all that were there when it was opened, and no others.
        most: Of a file that is larger only the beginning is read; zeros stand for the others of so many bytes.
        wanted: Whether a file that begins so is read on; else its first bytes are all that is given.
        version: Which version of the file is meant.

    Raises:
        OSError: The file cannot be read, is none or of another version, or has not so many bytes.
    """
    descriptor = os.open(path, _OPENING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"is a {kind_of(status.st_mode)}, not a regular file")
        if version is not None:
            version.check(status)
        if wanted is not None and status.st_size > _BEGINNING:
            first = os.read(descriptor, _FIRST)
            if not wanted(first):
                return numpy.frombuffer(first, numpy.uint8)
            os.lseek(descriptor, 0, os.SEEK_SET)
        if size is None and most is not None and status.st_size > most:
            data = numpy.zeros(most, numpy.uint8)  # the system gives memory for what is written, and not for the rest
            _filled(data[:_BEGINNING], descriptor, min(most, _BEGINNING))
            return data
        if size is not None:
            return _part(descriptor, start, size, status.st_size)
        data = _room(status.st_size, 1)  # one more, to see that it has not grown
        done = _filled(data, descriptor, max(status.st_size, 1))
        if done != status.st_size:
            more = "more" if done > status.st_size else f"{done}"
            raise OSError(errno.EIO, f"changed while it was read: {more} bytes came of {status.st_size}")
        return data[:done]
    finally:
        os.close(descriptor)


class Opened:
    """Files of which a batch takes several parts: to open and close one each time takes longer than to read a photo.

    Threads may share it.

    Args:
        versions: Which version of each is meant.
    """

    def __init__(self, versions: Mapping[str, Version]) -> None:
        self._versions = versions
        self._files: dict[str, tuple[int, int]] = {}  # the descriptor of each, and how large it is
        self._lock = new_lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._files:
            os.close(self._files.popitem()[1][0])

    def part(self, path: str, start: int, size: int) -> Array:
        """The same as `contents`."""
        if not hasattr(os, "preadv"):
            return contents(path, start, size, version=self._versions.get(path))  # pragma: no cover - Windows
        found = self._files.get(path) or self._opened(path)
        if found is None:
            return contents(path, start, size, version=self._versions.get(path))
        descriptor, whole = found
        _inside(start, size, whole)
        data = _room(size)
        done = 0
        while done < size and (n := os.preadv(descriptor, [data[done:]], start + done)):
            done += n
        return _complete(data, done)

    def _opened(self, path: str) -> tuple[int, int] | None:
        with self._lock:
            if path not in self._files:
                if len(self._files) >= _MOST_OPEN:
                    return None
                descriptor = os.open(path, _OPENING)
                try:
                    status = os.fstat(descriptor)
                    if version := self._versions.get(path):
                        version.check(status)
                except BaseException:
                    os.close(descriptor)
                    raise
                self._files[path] = descriptor, status.st_size
            return self._files[path]


def _part(descriptor: int, start: int, size: int, whole: int) -> Array:
    _inside(start, size, whole)
    os.lseek(descriptor, start, os.SEEK_SET)
    data = _room(size)
    return _complete(data, _filled(data, descriptor, size))


def _room(size: int, more: int = 0) -> Array:
    """Memory for bytes of a file, which may have holes and more bytes than any memory."""
    try:
        return empty((size + more,), _BYTE)
    except MemoryError:
        raise OSError(errno.ENOMEM, f"has {size} bytes to be read, more than there is memory for") from None


def _inside(start: int, size: int, whole: int) -> None:
    if start + size > whole:
        raise OSError(errno.EIO, f"has {whole} bytes, where {size} from byte {start} on are wanted")


def _complete(data: Array, done: int) -> Array:
    if done != len(data):
        raise OSError(errno.EIO, f"changed while it was read: {done} bytes came of {len(data)}")
    return data


def _filled(data: Array, descriptor: int, least: int) -> int:
    """Read until so many bytes are there, or the file ends: how many came, which may be more."""
    done = 0
    while done < least and (n := _read_into(data[done:] if done else data, descriptor)):
        done += n
    return done


if hasattr(os, "readv"):

    def _read_into(data: Array, descriptor: int) -> int:
        return os.readv(descriptor, [data])

else:  # pragma: no cover - Windows

    def _read_into(data: Array, descriptor: int) -> int:
        part = os.read(descriptor, len(data))
        data[: len(part)] = numpy.frombuffer(part, numpy.uint8)
        return len(part)
