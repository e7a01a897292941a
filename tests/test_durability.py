"""Files of checkpoints outlive anything: loss of power at any moment, full disks, and many writers at once."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from dynamic import checkpoint
from dynamic.checkpoint import Checkpoint
from dynamic.errors import ArgumentError, StateError, StateWarning


class Value:
    """Something with a state."""

    def __init__(self, value=None):
        self.value = value

    def get_state(self):
        return {"value": self.value}

    def set_state(self, state):
        self.value = state["value"]


def names(folder):
    return sorted(os.listdir(folder))


# Loss of power


class Disk:
    """What reaches a disk, learnt from the system calls that are made: which of it survives is the power's choice.

    Data of a file is safe once the file has been synced, a change of the names in a folder once the folder has. Of what
    is not safe, any part may survive: of the changes of names any subset, of data its beginning, its length alone, or
    something else.
    """

    def __init__(self, monkeypatch, folder):
        self.folder = os.path.realpath(folder)
        self.data = {}  # by inode: what was written, and what of it is safe
        self.safe_names, self.changes = {}, []  # names to inodes; and changes since, as functions of such a dict
        self.events = []  # after each call: what may be on the disk
        self._descriptors = {}
        for call in ("open", "write", "fsync", "rename", "replace", "link", "unlink"):
            monkeypatch.setattr(os, call, self._watched(call, getattr(os, call)))

    def _watched(self, call, original):
        def watched(*arguments, **keywords):
            result = original(*arguments, **keywords)
            getattr(self, f"_{call}")(result, *arguments)
            self.events.append(self._snapshot())
            return result

        return watched

    def _open(self, descriptor, path, flags, *_):
        if os.path.dirname(os.path.realpath(path)) == self.folder and flags & os.O_CREAT:
            inode = os.fstat(descriptor).st_ino, len(self.data)  # a number may be used again
            self.data[inode] = [b"", b""]
            self._descriptors[descriptor] = inode
            name = os.path.basename(path)
            self.changes.append(lambda found, name=name, inode=inode: found.__setitem__(name, inode))

    def _write(self, count, descriptor, data):
        if descriptor in self._descriptors:
            self.data[self._descriptors[descriptor]][0] += bytes(data[:count])

    def _fsync(self, _, descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.safe_names = self._names(self.changes)
            self.changes = []
        elif descriptor in self._descriptors:
            written = self.data[self._descriptors[descriptor]]
            written[1] = written[0]

    def _rename(self, _, source, target):
        source, target = os.path.basename(source), os.path.basename(target)

        def rename(found):
            if source in found:
                found[target] = found.pop(source)

        self.changes.append(rename)

    _replace = _rename

    def _link(self, _, source, target):
        source, target = os.path.basename(source), os.path.basename(target)

        def link(found):
            if source in found:
                found[target] = found[source]

        self.changes.append(link)

    def _unlink(self, _, path):
        self.changes.append(lambda found, name=os.path.basename(path): found.pop(name, None))

    def _names(self, changes):
        found = dict(self.safe_names)
        for change in changes:
            change(found)
        return found

    def _snapshot(self):
        return (
            dict(self.safe_names),
            list(self.changes),
            {inode: tuple(written) for inode, written in self.data.items()},
        )

    def states(self):
        """Every state of the disk after each call, as (number of calls, {name: contents}); each state once a call."""
        for calls, (safe_names, changes, data) in enumerate(self.events, 1):
            self.safe_names, seen = safe_names, set()
            survivors = itertools.chain.from_iterable(
                itertools.combinations(changes, n) for n in range(len(changes) + 1))  # fmt: skip
            for some in survivors:
                found = self._names(some)
                for contents in itertools.product(*(forms(*data[inode]) for inode in found.values())):
                    state = tuple(sorted(zip(found, contents, strict=True)))
                    if state not in seen:
                        seen.add(state)
                        yield calls, dict(state)


def forms(written, safe):
    """What a file may hold after a loss of power."""
    if written == safe:
        return [safe]
    return list(
        dict.fromkeys([safe, written, b"", written[: len(written) // 2], bytes(len(written)), b"#" * len(written)])
    )


def bad_states(monkeypatch, tmp_path, filename, save, load):
    """Save three values, cut the power at each call; how many states there were, and those that load wrongly."""
    folder, after = tmp_path / "saved", tmp_path / "after"
    folder.mkdir()
    after.mkdir()
    with monkeypatch.context() as patch:
        disk = Disk(patch, folder)
        returned = []  # how many calls had been made when each save returned
        for value in range(3):
            save(folder / filename, value)
            returned.append(len(disk.events))
    count, bad = 0, []
    for calls, files in disk.states():
        for name in names(after):
            os.unlink(after / name)
        for name, data in files.items():
            (after / name).write_bytes(data)
        count += 1
        done = sum(calls >= end for end in returned)  # so many saves were over
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StateWarning)
                found = load(after / filename)
        except (FileNotFoundError, StateError):
            found = -1  # there is none yet
        except Exception as error:
            found = error
        if not isinstance(found, int) or not done - 1 <= found <= done:
            bad.append((calls, sorted(files), found))
    return count, bad


def saved(path, value):
    checkpoint.save(path, a=Value(value))


def loaded(path):
    checkpoint.load(path, a=(value := Value()))
    return value.value


def saved_with_few_kept(path, value):
    states = Checkpoint()
    states.set_state("a", {"value": value})
    states.save(path, keep=1)


def loaded_latest(path):
    checkpoint.load_latest(path, a=(value := Value()))
    return value.value


def saved_without_links(path, value):
    def unsupported(*_):
        raise PermissionError(1, "Operation not permitted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", unsupported)
        saved(path, value)


CASES = {"one file": ("run.json", saved, loaded), "numbered files": ("run-{seq}.json", saved, loaded_latest),
         "numbered files, of which one is kept": ("run-{seq}.json", saved_with_few_kept, loaded_latest),
         "numbered files, on a disk without links": ("run-{seq}.json", saved_without_links, loaded_latest)}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_after_any_loss_of_power_the_newest_whole_checkpoint_is_there(monkeypatch, tmp_path, case):
    """The one whose save was over last, or the one that was being saved; never an older one, a torn one, or none."""
    count, bad = bad_states(monkeypatch, tmp_path, *CASES[case])
    assert bad == []
    assert count > 50
    print(f"{case}: {count} states of the disk")


def without_file_sync(path, value):
    with pytest.MonkeyPatch.context() as patch:
        watched = os.fsync
        patch.setattr(os, "fsync", lambda fd: watched(fd) if stat.S_ISDIR(os.fstat(fd).st_mode) else None)
        saved(path, value)


def without_folder_sync(path, value):
    with pytest.MonkeyPatch.context() as patch:
        watched = os.fsync
        patch.setattr(os, "fsync", lambda fd: None if stat.S_ISDIR(os.fstat(fd).st_mode) else watched(fd))
        saved(path, value)


def in_place(path, value):
    (data := Checkpoint()).set_state("a", {"value": value})
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(descriptor, data.serialize().encode())
    os.fsync(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("broken", [without_file_sync, without_folder_sync, in_place])
def test_the_simulation_finds_what_is_wrong_with_other_ways_to_save(monkeypatch, tmp_path, broken):
    _, bad = bad_states(monkeypatch, tmp_path, "run.json", broken, loaded)
    assert bad


# Many writers

WRITER = """
import sys
from dynamic import checkpoint
class Value:
    def __init__(self, value): self.value = value
    def get_state(self): return {"value": self.value}
    def set_state(self, state): self.value = state["value"]
path, me = sys.argv[1:]
for i in range(50):
    print(checkpoint.save(path, a=Value(f"{me}/{i}")))
"""


def writers(path, count=8):
    return [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(me)], stdout=subprocess.PIPE, text=True)
            for me in range(count)]  # fmt: skip


def test_eight_processes_save_fifty_numbered_files_each(tmp_path):
    written = [
        path for process in writers(tmp_path / "run-{seq:05d}.json") for path in process.communicate()[0].split()
    ]
    assert len(set(written)) == 400
    assert names(tmp_path) == [f"run-{i:05d}.json" for i in range(400)]
    assert sorted(map(loaded, written)) == sorted(f"{me}/{i}" for me in range(8) for i in range(50))


def test_while_eight_processes_replace_a_file_it_is_always_whole(tmp_path):
    path = tmp_path / "run.json"
    saved(path, "first")
    processes, values = writers(path), set()
    while any(process.poll() is None for process in processes):
        values.add(loaded(path))
        time.sleep(0.002)
    assert all(len(process.communicate()[0].split()) == 50 for process in processes)
    assert len(values) > 1
    assert loaded(path).endswith("/49")
    assert names(tmp_path) == ["run.json"]


# Processes that are killed

KILLED = """
import os, shutil, signal, sys, warnings
from dynamic import checkpoint
warnings.simplefilter("ignore")
class Value:
    def __init__(self, value=None): self.value = value
    def get_state(self): return {"value": self.value}
    def set_state(self, state): self.value = state["value"]
folder, name, load = sys.argv[1], sys.argv[2], {"one": checkpoint.load, "all": checkpoint.load_latest}[sys.argv[3]]
path, killed = os.path.join(folder, name), 0
for call in ("open", "fstat", "fchmod", "write", "fsync", "rename", "link", "unlink", "close", "scandir"):
    for turn in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        checkpoint.save(path, a=Value("old"))
        child = os.fork()
        if not child:
            original, calls = getattr(os, call), []
            def dying(*arguments, **keywords):
                calls.append(call)
                if len(calls) > turn:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **keywords)
            setattr(os, call, dying)
            checkpoint.save(path, a=Value("new"))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        load(path, a=(value := Value()))
        assert value.value in (("old", "new") if code else ("new",)), (call, turn, value.value)
        if not code:
            break
        assert code == -signal.SIGKILL, code
        killed += 1
        checkpoint.save(path, a=Value("next"))
        load(path, a=value)
        left = [file for file in os.listdir(folder) if file.startswith(".")]
        assert value.value == "next" and left == [], (call, turn, value.value, left)
print(killed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("name", "load"), [("run.json", "one"), ("run-{seq}.json", "all")])
def test_a_process_killed_at_any_call_of_a_save_leaves_a_whole_file(tmp_path, name, load):
    """And the next save of that file removes what it left behind."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "saved"), name, load], capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10


# A disk that is full


@pytest.mark.parametrize("limit", [0, 1, 100])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, limit):
    path = tmp_path / "run.json"
    saved(path, "old")
    write, left = os.write, [limit]

    def full(descriptor, data):
        if not left[0]:
            raise OSError(28, "No space left on device")
        done = write(descriptor, data[: left[0]])
        left[0] -= done
        return done

    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        saved(path, "new")
    monkeypatch.undo()
    assert loaded(path) == "old"
    assert names(tmp_path) == ["run.json"]
    assert before in (0, len(os.listdir("/proc/self/fd")) if before else 0)


# Numbered files


def test_the_newest_whole_file_is_loaded_and_those_left_out_are_named(tmp_path):
    pattern = tmp_path / "run-{seq:03d}.json"
    value = Value()
    with pytest.raises(FileNotFoundError, match="no checkpoint file"):
        checkpoint.load_latest(pattern, a=value)
    paths = [checkpoint.save(pattern, a=Value(i)) for i in range(4)]
    assert [Path(path).name for path in paths] == [f"run-{i:03d}.json" for i in range(4)]
    assert checkpoint.load_latest(pattern, a=value) == paths[3]
    Path(paths[3]).write_bytes(Path(paths[3]).read_bytes()[:-40])
    Path(paths[2]).write_bytes(b"")
    with pytest.warns(StateWarning, match="Left out: .*run-00[23]") as caught:
        assert checkpoint.load_latest(pattern, a=value) == paths[1]
    assert (value.value, len(caught), caught[0].filename) == (1, 2, __file__)
    for path in paths[:2]:
        Path(path).write_bytes(b"")
    with pytest.raises(StateError, match="run-003"):
        checkpoint.load_latest(pattern, a=value)
    assert value.value == 1


def test_a_whole_file_that_does_not_fit_is_not_passed_over(tmp_path):
    class Refusing(Value):
        def set_state(self, state):
            if state["value"] == 1:
                raise StateError("other data")
            super().set_state(state)

    pattern = tmp_path / "run-{seq}.json"
    for i in range(2):
        checkpoint.save(pattern, a=Refusing(i))
    with pytest.raises(StateError, match="other data"):
        checkpoint.load_latest(pattern, a=Refusing())
    with pytest.raises(StateError, match="holds the states of 'a'; the objects given are 'b'"):
        checkpoint.load_latest(pattern, b=Refusing())


def test_the_last_whole_files_are_kept(tmp_path):
    pattern = tmp_path / "run-{seq}.json"
    (tmp_path / "other.json").write_text("mine")
    for i in range(5):
        states = Checkpoint()
        states.set_state("a", {"value": i})
        states.save(pattern, keep=3)
        if i == 3:
            (tmp_path / "run-3.json").write_bytes(b"torn")
    assert names(tmp_path) == ["other.json", *(f"run-{i}.json" for i in (1, 2, 3, 4))]  # a torn one does not count
    states.save(pattern, keep=1)
    assert names(tmp_path) == ["other.json", "run-5.json"]
    states.save(tmp_path / "plain.json", keep=1)
    assert names(tmp_path) == ["other.json", "plain.json", "run-5.json"]
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(ArgumentError, match="'keep' must be an integer of 1 or more"):
            states.save(pattern, keep=wrong)
    assert names(tmp_path) == ["other.json", "plain.json", "run-5.json"]


def test_files_that_vanish_while_they_are_looked_at_are_no_error(tmp_path, monkeypatch):
    """Another process keeps fewer files."""
    pattern = tmp_path / "run-{seq}.json"
    paths = [checkpoint.save(pattern, a=Value(i)) for i in range(3)]
    from dynamic.checkpoint import _numbered

    original, gone = _numbered.read, []

    def read(path, limit):
        if not gone:
            gone.append(path)
            os.unlink(path)
        return original(path, limit)

    monkeypatch.setattr(_numbered, "read", read)
    assert checkpoint.load_latest(pattern, a=(value := Value())) == paths[1]
    assert value.value == 1
