"""Files that are whole or not there: written beside their place, made durable, and moved in one step."""

# ruff: noqa: PTH105, PTH108, PTH116 - each call of the system by its own name

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from pathlib import Path
from types import ModuleType

from dynamic.errors import StateError

_locks: ModuleType | None
try:
    import fcntl as _locks
except ImportError:  # pragma: no cover - Windows
    _locks = None

__all__ = ["read", "sweep", "write"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_OLD = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: int | None = getattr(os, "O_DIRECTORY", None)  # None: folders cannot be opened (Windows)
_OLD_PART = 3600.0  # seconds after which a part is of a killed writer, where no lock tells
_LONGEST = 200  # bytes of a file's name that the name of a part of it begins with
_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EROFS}


def read(path: Path, limit: int) -> bytes:
    """The contents of a regular file of at most `limit` bytes; a fifo does not hang.

    Raises:
        StateError: It is larger, or something else than a regular file.
        OSError: It cannot be read, or is not there.
    """
    descriptor = os.open(path, _OLD | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StateError(f"{path} is not a checkpoint: it is not a regular file.")
        parts = []
        left = limit + 1
        while left and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if not left:
            raise StateError(f"{path} is not a checkpoint: it is larger than {limit} bytes.")
        return b"".join(parts)
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Put a file in its place: whole and durable, or not at all.

    The data goes to a new file in the same folder, and to the disk, before it is renamed; then the folder goes to the
    disk. After an error the place is as it was, unless the last of this fails, which a note of the error says.

    Args:
        path: The place. Its folder is made if it is missing; a link is followed.
        data: The contents.
        replace: Whether a file that is there already makes way; if not, FileExistsError.

    Raises:
        StateError: There is a fifo, a device or a socket, which does not make way.
        OSError: The file cannot be written.
    """
    path = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StateError(f"{path} is not a regular file: no checkpoint is put in its place.")
    _make_folder(path.parent)
    sweep(path.parent, re.escape(_beginning(path.name)))
    descriptor, part = _new(path)
    try:
        try:
            _fill(descriptor, data, path)
        finally:
            if _locks is None:  # Windows neither moves nor removes an open file
                _close(descriptor)
        _move(part, path, replace=replace)
    except BaseException:
        _discard(part)
        raise
    finally:
        if _locks is not None:
            _close(descriptor)
    try:
        _sync_folder(path.parent)
    except OSError as error:
        error.add_note(f"{path} is written, but may not outlive a loss of power: its folder could not be synced.")
        raise


def _discard(part: Path) -> None:
    """Remove a part that is of no use. The error that matters is the one on its way."""
    with contextlib.suppress(OSError):
        os.unlink(part)


def _close(descriptor: int) -> None:
    """Close a file of which nothing is left to be written: an error would mean nothing."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _fill(descriptor: int, data: bytes, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _move(part: Path, path: Path, *, replace: bool) -> None:
    if replace:
        (os.replace if _locks is None else os.rename)(part, path)
        return
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        os.close(os.open(path, _NEW, 0o666))  # this file system has no links: take the name, then fill the place
        try:
            os.replace(part, path)
        except BaseException:
            _discard(path)
            raise
    else:
        _discard(part)  # the file is in its place; if this fails, the next save sweeps the part


def _beginning(name: str) -> str:
    """As much of the name of a file as leaves room for the rest of the name of a part of it."""
    while len(os.fsencode(name)) > _LONGEST:
        name = name[:-1]
    return name


def _new(path: Path) -> tuple[int, Path]:
    """A new file beside a place, held by a lock until it is closed, so that no sweep takes it for left over."""
    while True:
        part = path.with_name(f".{_beginning(path.name)}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, _NEW | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if _lock(descriptor) and _is_there(part):
                return descriptor, part
        except BaseException:
            _discard(part)
            _close(descriptor)
            raise
        _close(descriptor)  # a sweep came between


def _is_there(path: Path) -> bool:
    """Whether there is a file; an error where that cannot be told, to which `Path.exists` says no (Python 3.14)."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def sweep(folder: Path, names: str) -> None:
    """Remove the leftovers of killed writers in a folder: parts of files that nobody holds.

    Args:
        folder: The folder.
        names: A regular expression of the names of the files.
    """
    pattern = re.compile(rf"\.(?:{names})\.[0-9a-f]{{16}}\.part")
    with os.scandir(folder) as entries:
        parts = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for part in parts:
        with contextlib.suppress(OSError):  # gone already, or another's: either way it is not ours to remove
            if _locks is None:
                if os.stat(part).st_mtime < time.time() - _OLD_PART:
                    os.unlink(part)
                continue
            descriptor = os.open(part, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            try:
                _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
                os.unlink(part)
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file; whether nobody else holds it. Where there are no locks, nobody does."""
    try:
        if _locks is not None:
            _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _make_folder(folder: Path) -> None:
    """Make a folder durable: one that is missing, or that somebody has made a moment ago and not synced."""
    if folder.is_dir():
        with contextlib.suppress(PermissionError):  # the folder above may be another's, which cannot be opened
            _sync_folder(folder.parent)
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make changes of the names in a folder durable, where the system can."""
    if _FOLDER is None:
        return
    descriptor = os.open(folder, os.O_RDONLY | _FOLDER | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)
