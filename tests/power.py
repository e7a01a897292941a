"""What a loss of power may leave of files, learnt from the calls of the system; and calls that fail, each in turn."""

from __future__ import annotations

import itertools
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

CALLS = ("open", "close", "stat", "fstat", "fchmod", "read", "write", "fsync", "rename", "replace", "link", "unlink",
         "mkdir", "scandir")  # fmt: skip
#: Those that can fail after they have had their effect.
EFFECTS = ("open", "fchmod", "write", "fsync", "rename", "replace", "link", "unlink", "mkdir")


class Interruption:
    """Does something at one of the calls of the system, counted from 0.

    Args:
        set_attribute: The function `setattr`, or one that undoes what it has done.
        turn: At which call.
        action: What is done; it may raise.
        late: Whether the call has had its effect before. A file is always closed, as systems do after an error too.
    """

    def __init__(self, set_attribute, turn, action, late=False):
        self.turn, self.action, self.late = turn, action, late
        self.calls, self.at = 0, None
        for call in CALLS:
            if hasattr(os, call):
                set_attribute(os, call, self._watched(call, getattr(os, call)))

    def _watched(self, call, original):
        def watched(*arguments, **keywords):
            self.calls += 1
            if self.calls - 1 != self.turn:
                return original(*arguments, **keywords)
            self.at = call
            if call == "close" or (self.late and call in EFFECTS):
                result = original(*arguments, **keywords)
                if call == "open":
                    os.close(result)
            self.action()
            return None

        return watched


@dataclass
class _File:
    written: bytes = b""
    safe: bytes = b""

    def frozen(self):
        return _File(self.written, self.safe)

    def outcomes(self):
        if self.written == self.safe:
            return [self.safe]
        length, half = len(self.written), len(self.written) // 2
        torn = [self.written[:half], self.written[:-1], bytes(half) + self.written[half:], bytes(length), b"#" * length]
        return list(dict.fromkeys([self.safe, self.written, b"", *torn]))


@dataclass
class _Folder:
    names: dict = field(default_factory=dict)
    safe: dict = field(default_factory=dict)
    changes: list = field(default_factory=list)  # since the last sync: a name that went, one that came, what it names

    def change(self, gone, come, node):
        self.names.pop(gone, None)
        if come is not None:
            self.names[come] = node
        self.changes.append((gone, come, node))

    def frozen(self):
        return _Folder(
            safe={name: node.frozen() for name, node in self.safe.items()},
            changes=[(gone, come, node and node.frozen()) for gone, come, node in self.changes],
        )

    def outcomes(self):
        """Each as a sorted tuple of names with the contents of a file, or of a folder, which is a tuple again."""
        found = set()
        for some in itertools.chain.from_iterable(
            itertools.combinations(self.changes, number) for number in range(len(self.changes) + 1)
        ):
            names = dict(self.safe)
            for gone, come, node in some:
                names.pop(gone, None)
                if come is not None:
                    names[come] = node
            found.update(
                tuple(sorted(zip(names, contents, strict=True)))
                for contents in itertools.product(*(node.outcomes() for node in names.values()))
            )
        return sorted(found)


class Disk:
    """What reaches a disk, learnt from the calls of the system: which of it survives is the choice of the power.

    The data of a file is safe once the file has been synced; the names in a folder once the folder has. Of what is not
    safe any part may survive: of the changes of names any subset; of data what was there before, the beginning, the
    end, the length alone, or something else.

    Args:
        set_attribute: The function `setattr`, or one that undoes what it has done.
        root: A folder, which is empty and safe.
    """

    def __init__(self, set_attribute, root):
        top = _Folder()
        self.events = []  # what may be on the disk after each call
        self._folders = {os.stat(root).st_ino: top}
        self._open_files = {}  # by descriptor: the file, and the place in it
        self._top = top
        for call in ("open", "close", "write", "fsync", "rename", "replace", "link", "unlink", "mkdir"):
            set_attribute(os, call, self._watched(call, getattr(os, call)))

    def _watched(self, call, original):
        def watched(*arguments, **keywords):
            result = original(*arguments, **keywords)
            getattr(self, f"_{call}")(result, *arguments)
            if call != "close":
                self.events.append(self._top.frozen())
            return result

        return watched

    def _place(self, path):
        folder, name = os.path.split(os.fspath(path))
        return self._folders.get(os.stat(folder or ".").st_ino), name

    def _open(self, descriptor, path, flags, *_):
        folder, name = self._place(path)
        if folder is None or not flags & (os.O_WRONLY | os.O_RDWR):
            return
        if name not in folder.names:
            folder.change(None, name, _File())
        if flags & os.O_TRUNC:
            folder.names[name].written = b""
        self._open_files[descriptor] = [folder.names[name], 0]

    def _close(self, _, descriptor):
        self._open_files.pop(descriptor, None)

    def _write(self, count, descriptor, data):
        if descriptor in self._open_files:
            file, start = self._open_files[descriptor]
            file.written = file.written[:start] + bytes(data[:count]) + file.written[start + count :]
            self._open_files[descriptor][1] += count

    def _fsync(self, _, descriptor):
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode) and status.st_ino in self._folders:
            folder = self._folders[status.st_ino]
            folder.safe, folder.changes = dict(folder.names), []
        elif descriptor in self._open_files:
            file = self._open_files[descriptor][0]
            file.safe = file.written

    def _rename(self, _, source, target):
        (folder, old), (other, new) = self._place(source), self._place(target)
        assert folder is other
        if folder is not None:
            folder.change(old, new, folder.names[old])

    _replace = _rename

    def _link(self, _, source, target):
        (folder, old), (other, new) = self._place(source), self._place(target)
        assert folder is other
        if folder is not None:
            folder.change(None, new, folder.names[old])

    def _unlink(self, _, path):
        folder, name = self._place(path)
        if folder is not None:
            folder.change(name, None, None)

    def _mkdir(self, _, path, *__):
        folder, name = self._place(path)
        if folder is not None:
            made = self._folders[os.stat(path).st_ino] = _Folder()
            folder.change(None, name, made)

    def states(self):
        """Every state that the disk may be in, as the number of calls that were made and an outcome of the root."""
        for calls, top in enumerate(self.events, 1):
            for outcome in top.outcomes():
                yield calls, outcome


def laid_out(outcome, folder: Path):
    """Make files and folders of an outcome."""
    for name, content in outcome:
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).mkdir()
            laid_out(content, folder / name)
