"""Bytes of files: all that were there when a file was opened, or a part of them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.locks import new_lock
from dynamic.errors import ArgumentError, shown

__all__ = [
    "Changed",
    "NotOfTheSample",
    "Opened",
    "Piece",
    "Span",
    "Unavailable",
    "Version",
    "can_be",
    "contents",
    "is_of_the_system",
    "kind_of",
    "opened",
    "refuse_address",
    "together",
]

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
#: The path of a file, and the first byte and the size of a part of it.
Span: TypeAlias = tuple[str, int, int]

_BYTE = numpy.dtype(numpy.uint8)
_NOTHING = numpy.empty(0, numpy.uint8)
_BEGINNING, _FIRST = 1 << 16, 16  # bytes that tell size and type
_TOGETHER = 16  # files that are read into one piece of memory, which stays as long as any of them
_SMALL = 1 << 20  # bytes of a file that is read so
_ALIGNED = 64  # bytes: where files begin in there
_AT_ONCE = 1 << 22  # bytes of parts of files that are read so
_MOST_OPEN = 64  # files at once; a process may have a thousand, and a batch may be of more archives than that


def kind_of(mode: int) -> str:
    """The kind of file of a mode, in words."""
    return next((word for check, word in _KINDS if check(mode)), "special file")


def can_be(path: str) -> bool:
    """Whether a file may have a path: not with NUL or characters that cannot be encoded in it."""
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


def opened(path: str, buffered: int = 0) -> BinaryIO:
    """A regular file, open for reading; an OSError says that it is none."""
    file: BinaryIO = open(path, "rb", buffered, opener=_at_once)  # noqa: SIM115 - whoever asks for it closes it
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        raise OSError(errno.EINVAL, f"is a {kind_of(mode)}, not a regular file")
    return file


def _at_once(path: str, flags: int) -> int:
    """Open a file that may be a fifo, which nobody writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def is_of_the_system(error: BaseException) -> bool:
    """Whether a call of the system raised an error, rather than a signal's handler that ran in its midst.

    Handlers that end slow calls raise TimeoutError, which is an OSError without a number.
    """
    return isinstance(error, OSError) and error.errno is not None


class NotOfTheSample(OSError):
    """An error that says nothing of the sample: another attempt, or another listing, may give it."""


class Changed(NotOfTheSample):
    """A file is of another version than the one that is meant."""


class Unavailable(NotOfTheSample):
    """A store does not give an object that it may well have."""


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
        status = _regular(descriptor)
        if version is not None:
            version.check(status)
        if wanted is not None and status.st_size > _BEGINNING:
            first = os.read(descriptor, _FIRST)
            if not wanted(first):
                return numpy.frombuffer(first, numpy.uint8)
            os.lseek(descriptor, 0, os.SEEK_SET)
        if size is None and most is not None and status.st_size > most:
            data = numpy.zeros(most, numpy.uint8)  # the system gives memory for written pages only
            _filled(data[:_BEGINNING], descriptor, min(most, _BEGINNING))
            return data
        if size is not None:
            return _part(descriptor, start, size, status.st_size)
        return _whole(_room(status.st_size, 1), descriptor)
    finally:
        os.close(descriptor)


def together(paths: Sequence[str]) -> tuple[list[Array], dict[int, OSError]]:
    """The bytes of many regular files, as `contents` gives them; small ones lie in common memory.

    Returns:
        The bytes of each file, none of those that cannot be read; and why these cannot, by their places.
    """
    found: list[Array] = []
    errors: dict[int, OSError] = {}
    for first in range(0, len(paths), _TOGETHER):
        found += _some_together(paths[first : first + _TOGETHER], first, errors)
    return found, errors


def _some_together(paths: Sequence[str], first: int, errors: dict[int, OSError]) -> list[Array]:
    """The same for a few files, of which the first has this number."""
    found = [_NOTHING] * len(paths)
    descriptors: list[int] = []  # all that must be closed
    begun: list[tuple[int, int, int, int]] = []  # place, descriptor, and where the bytes of the file begin and end
    room = 0
    try:
        for i, path in enumerate(paths):
            try:
                descriptors.append(os.open(path, _OPENING))
                descriptor = descriptors[-1]
                size = _regular(descriptor).st_size
                if size > _SMALL:
                    found[i] = _whole(_room(size, 1), descriptor)
                else:
                    begun.append((i, descriptor, room, room + size + 1))
                    room += -(-(size + 1) // _ALIGNED) * _ALIGNED
            except OSError as error:
                _note(first + i, error, errors)
        memory: Array | None = None  # each has its own where there is not enough for all
        with contextlib.suppress(MemoryError):
            memory = empty((room,), _BYTE)
        for i, descriptor, start, end in begun:
            try:
                data = _room(end - start - 1, 1) if memory is None else memory[start:end]
                found[i] = _whole(data, descriptor)
            except OSError as error:
                _note(first + i, error, errors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return found


def _note(place: int, error: OSError, errors: dict[int, OSError]) -> None:
    if not is_of_the_system(error):
        raise error
    errors[place] = error


def _regular(descriptor: int) -> os.stat_result:
    """The status of an open file, which must be a regular one."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"is a {kind_of(status.st_mode)}, not a regular file")
    return status


def _whole(data: Array, descriptor: int) -> Array:
    """All bytes of a file, read to memory that has room for one more, to see that it has not grown."""
    size = len(data) - 1
    done = _filled(data, descriptor, max(size, 1))
    if done != size:
        more = "more" if done > size else f"{done}"
        raise OSError(errno.EIO, f"changed while it was read: {more} bytes came of {size}")
    return data[:size]


class Piece(NamedTuple):
    """Parts of files in one piece of memory."""

    first: int  #: the number of the first
    memory: Array  #: uint8
    offsets: list[int]  #: where each begins, and where the last ends
    errors: dict[int, OSError]  #: by their numbers: those that could not be read


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
        found = self._files.get(path) or self._opened(path)
        if found is None:
            return contents(path, start, size, version=self._versions.get(path))
        _inside(start, size, found[1])
        return _filled_from(_room(size), found[0], start)

    def pieces(self, spans: Sequence[Span]) -> Iterator[Piece]:
        """The same for many parts, some at a time: in one call those that follow each other in a file."""
        first = 0
        while first < len(spans):
            offsets, errors = [0], dict[int, OSError]()
            for _, _, size in spans[first:]:
                if offsets[-1] + size > _AT_ONCE:
                    break
                offsets.append(offsets[-1] + size)
            alone = len(offsets) == 1  # it is large: its place is checked before memory is taken
            if alone:
                offsets.append(spans[first][2])
            memory = _NOTHING
            try:
                memory = self.part(*spans[first]) if alone else _room(offsets[-1])
            except OSError as error:
                for i in range(first, first + len(offsets) - 1):
                    _note(i, error, errors)
            else:
                if not alone:
                    self._fill_all(spans[first : first + len(offsets) - 1], memory, first, errors)
            yield Piece(first, memory, offsets, errors)
            first += len(offsets) - 1

    def _fill_all(self, spans: Sequence[Span], memory: Array, number: int, errors: dict[int, OSError]) -> None:
        """Read parts of which the first has a number to memory, and note which cannot be read."""
        first, at = 0, 0
        while first < len(spans):
            path, start, _ = spans[first]
            stop, after = start, first
            while after < len(spans) and spans[after][0] == path and spans[after][1] == stop:
                stop += spans[after][2]
                after += 1
            run, at = memory[at : at + stop - start], at + stop - start
            try:
                self._fill(path, start, run)
            except OSError as error:
                if after == first + 1 or not is_of_the_system(error):
                    _note(number + first, error, errors)
                for i in range(first, after if after > first + 1 else first):
                    here = spans[i][1] - start
                    self._fill_all(spans[i : i + 1], run[here : here + spans[i][2]], number + i, errors)
            first = after

    def _fill(self, path: str, start: int, data: Array) -> None:
        there = self._files.get(path) or self._opened(path)
        if there is None:
            data[:] = contents(path, start, len(data), version=self._versions.get(path))
        else:
            _inside(start, len(data), there[1])
            _filled_from(data, there[0], start)

    def _opened(self, path: str) -> tuple[int, int] | None:
        if not hasattr(os, "preadv"):
            return None  # pragma: no cover - Windows
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


def _filled_from(data: Array, descriptor: int, start: int) -> Array:
    """Read the bytes of a file from some place on."""
    assert sys.platform != "win32"
    done = 0
    while done < len(data) and (n := os.preadv(descriptor, [data[done:] if done else data], start + done)):
        done += n
    return _complete(data, done)


def _filled(data: Array, descriptor: int, least: int) -> int:
    """Read until so many bytes are there, or the file ends: how many came, which may be more."""
    done = 0
    while done < least and (n := _read_into(data[done:] if done else data, descriptor)):
        done += n
    return done


if hasattr(os, "readv"):

    def _read_into(data: Array, descriptor: int) -> int:
        assert sys.platform != "win32"
        return os.readv(descriptor, [data])

else:  # pragma: no cover - Windows

    def _read_into(data: Array, descriptor: int) -> int:
        part = os.read(descriptor, len(data))
        data[: len(part)] = numpy.frombuffer(part, numpy.uint8)
        return len(part)
