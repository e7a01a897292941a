"""Content of object stores that is kept in a folder of this machine, which processes may share."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import warnings
from collections.abc import Iterator
from typing import Any

from dynamic._base.locks import new_lock

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

__all__ = ["Cache"]

_DIGEST = 16  # bytes behind the content of each file
_PART = ".part"
_OLD = 3600.0  # seconds, after which a part is of a process that was killed
_FREED = 16  # the part of the size that is freed at a time


class Cache:
    """A folder of contents by keys: each is there as a whole or not at all, also where a process is killed.

    A full cache drops contents that this run has not used, the oldest first. If there are none,
    it takes no more: a run that reads more than it holds finds the same part again in each epoch.

    Args:
        folder: It is made where there is none.
        most: How many bytes all contents may have together.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder, self._most = folder, most
        self._full = self._warned = False
        self._lock = new_lock()
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        with self._held():
            os.utime(self._path("lock"))
            self._begun = os.stat(self._path("lock")).st_mtime  # noqa: PTH116 - by the clock of its file system

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_lock": None}

    def __setstate__(self, attributes: dict[str, object]) -> None:
        self.__dict__.update(attributes)
        self._lock = new_lock()

    def _path(self, *names: str) -> str:
        return os.path.join(self._folder, *names)  # noqa: PTH118

    def _of(self, key: str) -> str:
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
        return self._path(digest[:2], digest[2:])

    def has(self, key: str) -> bool:
        """Whether there is content of a key, as far as can be told at a glance."""
        return os.path.exists(self._of(key))  # noqa: PTH110

    def get(self, key: str) -> bytes | None:
        """The content of a key, or None."""
        path = self._of(key)
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                status = os.fstat(file.fileno())
                data = file.read()
        except OSError:
            return None  # it was dropped, or never kept
        content = data[:-_DIGEST]
        if data[-_DIGEST:] != _digest(content):  # a machine went down before it was on the disk
            with contextlib.suppress(OSError):
                os.remove(path)  # noqa: PTH107
            return None
        if status.st_mtime < self._begun:
            with contextlib.suppress(OSError):
                os.utime(path)
        return content

    def put(self, key: str, content: bytes | memoryview) -> None:
        """Keep content, where there is room for it."""
        size = len(content) + _DIGEST
        if self._full or size > self._most:
            return
        path = self._of(key)
        part = f"{path}.{secrets.token_hex(8)}{_PART}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            try:
                with open(part, "xb") as file:  # noqa: PTH123
                    file.write(content)
                    file.write(_digest(content))
                with self._held():
                    if not self.has(key) and self._room_for(size):
                        os.replace(part, path)  # noqa: PTH105
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(part)  # noqa: PTH107
        except OSError as error:
            self._full = True
            if not self._warned:
                self._warned = True
                text = f"The cache {self._folder!r} cannot be written to, and takes no more: {error.strerror}."
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _room_for(self, size: int) -> bool:
        """Count so many bytes more, which were made room for; the lock is held."""
        try:
            with open(self._path("size"), encoding="ascii") as file:  # noqa: PTH123
                total = int(file.read())
        except (OSError, ValueError):
            total = -1  # nobody has counted, or was killed as it did
        if total < 0 or total + size > self._most:
            total = self._freed(size)
        fits = total + size <= self._most
        # Before the content is there: after a kill it is less than is counted, and never more.
        with open(self._path("size"), "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(str(total + size * fits))
        self._full = not fits
        return fits

    def _freed(self, size: int) -> int:
        """How many bytes are kept, after useless files were removed."""
        kept, total = list[tuple[float, int, str]](), 0
        for entry in _files(self._folder):
            try:
                status = entry.stat()
                if entry.name.endswith(_PART):
                    if status.st_mtime < self._begun - _OLD:
                        os.remove(entry.path)  # noqa: PTH107
                    continue
            except (FileNotFoundError, PermissionError):  # gone, or open in another process of Windows
                continue
            kept.append((status.st_mtime, status.st_size, entry.path))
            total += status.st_size
        if total + size <= self._most:
            return total
        for used, there, path in sorted(kept):
            if used >= self._begun or total + size <= self._most - self._most // _FREED:
                break
            try:
                os.remove(path)  # noqa: PTH107
            except FileNotFoundError:
                pass
            except PermissionError:  # Windows removes no file that another process reads
                continue
            total -= there
        return total

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """A lock among threads and processes."""
        with self._lock, open(self._path("lock"), "ab") as file:  # noqa: PTH123
            if fcntl is None:
                with _locked_byte(file.fileno()):
                    yield
                return
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file.fileno(), fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open too


@contextlib.contextmanager
def _locked_byte(descriptor: int) -> Iterator[None]:
    """The first byte of a file locked, as Windows does it: a try lasts ten seconds."""
    while True:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            break
        except OSError as error:
            if error.errno not in (errno.EDEADLK, errno.EACCES):
                raise
    try:
        yield
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """The files of the folders in a folder."""
    with os.scandir(folder) as entries:
        folders = [entry.path for entry in entries if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False)]
    for path in folders:
        with os.scandir(path) as entries:
            yield from entries
