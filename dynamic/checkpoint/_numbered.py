"""Files that are numbered: each save takes the next free number, and loading takes the highest that is whole."""

# ruff: noqa: PTH108, PTH118 - paths are strings here, as they are given back

from __future__ import annotations

import contextlib
import os
import re
import warnings
from pathlib import Path
from typing import Any

from dynamic.errors import ArgumentError, StateError, StateWarning, shown
from dynamic.io._bytes import is_of_the_system, refuse_address

from ._atomic import read, sweep, write
from ._file import LARGEST, Entry, decoded

__all__ = ["newest", "written"]

_SEQ = re.compile(r"\{seq(?::0?(\d{1,2})d?)?\}")


def written(filename: Any, data: bytes, keep: int | None = None) -> str:
    """Write the text of a checkpoint to a plain path, which is replaced, or under the next free number of a pattern.

    Args:
        filename: The path, or a pattern: its last part has ``{seq}`` or ``{seq:04d}`` in it.
        data: The text.
        keep: How many whole files of the pattern are left once this one is durable; all by default.

    Returns:
        The path that was written.
    """
    pattern = _Pattern(filename)
    if not pattern.numbered:
        write(Path(pattern.text), data)
        return pattern.text
    pattern.sweep()
    number = max(pattern.files(), default=-1) + 1
    while True:
        path = pattern.path(number)
        try:
            write(Path(path), data, replace=False)
        except FileExistsError:
            number += 1
        else:
            if keep is not None:
                _prune(pattern, keep)
            return path


def newest(filename: Any, *, strict: bool = False, stacklevel: int) -> tuple[str, dict[str, Entry]]:
    """The plain path, or the file of a pattern that has the highest number and is whole, and its entries.

    Raises:
        FileNotFoundError: There is no such file.
        StateError: The file, or with `strict` the one with the highest number, or all of them, are damaged.
        OSError: They cannot be read, as links that lead nowhere.

    Warns:
        StateWarning: For each file with a higher number that was left out, and why.
    """
    pattern = _Pattern(filename)
    gone = True
    while gone:  # there may be newer ones than those that another process has removed meanwhile
        gone, unusable = False, list[tuple[str, OSError | StateError]]()
        for number, path in _from_the_highest(pattern):
            try:
                entries = decoded(read(Path(path), LARGEST), path)
            except (OSError, StateError) as error:
                if not pattern.numbered or not (isinstance(error, StateError) or is_of_the_system(error)):
                    raise
                if isinstance(error, FileNotFoundError) and number not in pattern.files():
                    gone = True
                elif strict:
                    raise
                else:
                    unusable.append((path, error))
            else:
                for left, reason in unusable:
                    told = reason if isinstance(reason, StateError) else f"{left} cannot be read: {reason.strerror}."
                    warnings.warn(f"Left out: {told}", StateWarning, stacklevel=stacklevel + 1)
                return path, entries
    if unusable:
        raise unusable[0][1]
    raise FileNotFoundError(f"There is no checkpoint file {str(filename)!r}.")


def _from_the_highest(pattern: _Pattern) -> list[tuple[int, str]]:
    return sorted(pattern.files().items(), reverse=True) if pattern.numbered else [(0, pattern.text)]


def _prune(pattern: _Pattern, keep: int) -> None:
    """Remove all files that come before the last so many whole ones.

    The newest is in its place by now: of those that cannot be read or removed, and folders, nothing more is asked.
    """
    for _, path in _from_the_highest(pattern):
        try:
            if not keep:
                os.unlink(path)
                continue
            decoded(read(Path(path), LARGEST), path)
        except StateError:
            continue  # it is damaged
        except OSError as error:
            if not is_of_the_system(error):
                raise
        else:
            keep -= 1


class _Pattern:
    """A path with a number in its last part, or a plain one."""

    def __init__(self, filename: Any) -> None:
        self.text = os.fsdecode(filename) if isinstance(filename, (str, bytes, os.PathLike)) else ""
        refuse_address("Checkpoint", "filename", self.text)
        folder, name = os.path.split(self.text)
        found = list(_SEQ.finditer(name))
        rest = _SEQ.sub("", name)
        if not name or len(found) > 1 or "{" in rest or "}" in rest or _SEQ.search(folder):
            raise ArgumentError(
                "Checkpoint",
                "filename",
                "a path whose last part has at most one {seq}",
                shown(filename),
                "A number is put for {seq} or {seq:04d}, and no more.",
            )
        self.numbered = bool(found)
        if found:
            start, end = found[0].span()
            self._folder, self._before, self._after = folder, name[:start], name[end:]
            self._width = int(found[0][1] or 1)
            self._names = re.escape(self._before) + r"(\d+)" + re.escape(self._after)

    def path(self, number: int) -> str:
        return os.path.join(self._folder, f"{self._before}{number:0{self._width}d}{self._after}")

    def sweep(self) -> None:
        """Remove the leftovers of killed writers of any of the files."""
        with contextlib.suppress(FileNotFoundError):
            sweep(Path(self._folder or "."), self._names)

    def files(self) -> dict[int, str]:
        """The files that are there, by number."""
        name = re.compile(self._names, re.ASCII)
        found: dict[int, str] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder or ".") as entries:
            for entry in entries:
                match = name.fullmatch(entry.name)
                if match:
                    found[int(match[1])] = os.path.join(self._folder, entry.name)
        return found
