"""Files of checkpoints outlive anything: loss of power at any moment, full disks, and many writers at once."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from power import Disk, laid_out

from dynamic import checkpoint
from dynamic.checkpoint import Checkpoint, _atomic
from dynamic.errors import ArgumentError, StateError, StateWarning

pytestmark = pytest.mark.slow


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


def after_loss_of_power(monkeypatch, tmp_path, filename, save, load, *, until_lost=False):
    """Save three values, cut the power at each call, load, and save again; to the end, or until something is lost.

    Returns:
        The number of states of the disk, those from which an older value is loaded than the last one whose save was
        over, or anything else, and those after which a save leaves something over or is not loaded.
    """
    folder, after = tmp_path / "saved", tmp_path / "after"
    folder.mkdir()
    with monkeypatch.context() as patch:
        disk = Disk(patch.setattr, folder)
        returned = []  # how many calls had been made when each save returned
        for value in range(3):
            save(folder / filename, value)
            returned.append(len(disk.events))
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what follows need not outlive anything
    count, lost, left = 0, [], []
    for calls, outcome in disk.states():
        after.mkdir()
        laid_out(outcome, after)
        count += 1
        done = sum(calls >= end for end in returned)  # so many saves were over
        found = loaded_or_error(load, after / filename)
        if not isinstance(found, int) or found < done - 1:
            lost.append((calls, outcome, found))
        saved(after / filename, 9)
        if loaded_or_error(load, after / filename) != 9 or any(after.rglob(".*")):
            left.append((calls, outcome))
        shutil.rmtree(after)
        if until_lost and lost:
            break
    return count, lost, left


def loaded_or_error(load, path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StateWarning)
            return load(path)
    except (FileNotFoundError, StateError):
        return -1  # there is none
    except Exception as error:
        return error


def saved(path, value):
    checkpoint.save(path, a=Value(value))


def loaded(path):
    checkpoint.load(path, a=(value := Value()))
    return value.value


def keeping(count):
    def saved_with_few_kept(path, value):
        states = Checkpoint()
        states.set_state("a", {"value": value})
        states.save(path, keep=count)

    return saved_with_few_kept


def loaded_latest(path):
    checkpoint.load_latest(path, a=(value := Value()))
    return value.value


def unsupported(*_):
    raise PermissionError(1, "Operation not permitted")


def without_links(save):
    def saved_without_links(path, value):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "link", unsupported)
            save(path, value)

    return saved_without_links


def in_a_folder_made_before(path, value):
    path.parent.mkdir(exist_ok=True)
    saved(path, value)


def after_one_that_failed(path, value):
    """The new file of another save is there, but its name is not on the disk."""

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and os.path.samestat(os.fstat(descriptor), os.stat(path.parent)):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        fsync = os.fsync
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output") as caught:
            saved(path, value)
        assert "may not outlive a loss of power" in caught.value.__notes__[0]
    saved(path, value)


CASES = {
    "one file": ("run.json", saved, loaded),
    "one file, after a save that failed": ("run.json", after_one_that_failed, loaded),
    "one file in new folders": ("new/newer/run.json", saved, loaded),
    "one file in a folder that was made before": ("new/run.json", in_a_folder_made_before, loaded),
    "numbered files": ("run-{seq}.json", saved, loaded_latest),
    "numbered files, after a save that failed": ("run-{seq}.json", after_one_that_failed, loaded_latest),
    "numbered files in new folders": ("new/newer/run-{seq}.json", saved, loaded_latest),
    "numbered files, two of which are kept": ("run-{seq}.json", keeping(2), loaded_latest),
    "numbered files, one of which is kept": ("run-{seq}.json", keeping(1), loaded_latest),
    "numbered files, on a disk without links": ("run-{seq}.json", without_links(saved), loaded_latest),
    "numbered files, one of which is kept, on a disk without links":
        ("run-{seq}.json", without_links(keeping(1)), loaded_latest),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_after_any_loss_of_power_the_newest_whole_checkpoint_is_there(monkeypatch, tmp_path, case):
    """The one whose save was over last, or one that was being saved; never an older one, a torn one, or none."""
    count, lost, left = after_loss_of_power(monkeypatch, tmp_path, *CASES[case])
    assert (lost, left) == ([], [])
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


def without_sync_of_the_folder_above(path, value):
    def sync(folder):
        if folder == path.parent:
            original(folder)

    with pytest.MonkeyPatch.context() as patch:
        original = _atomic._sync_folder
        patch.setattr(_atomic, "_sync_folder", sync)
        saved(path, value)


def text_of(value):
    (states := Checkpoint()).set_state("a", {"value": value})
    return states.serialize().encode()


def synced_folder(path):
    descriptor = os.open(path.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def renamed_before_it_is_synced(path, value):
    part = path.with_name("part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(descriptor, text_of(value))
    os.rename(part, path)
    os.fsync(descriptor)
    os.close(descriptor)
    synced_folder(path)


def in_place(path, value, flags=os.O_TRUNC):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    os.write(descriptor, text_of(value))
    os.fsync(descriptor)
    os.close(descriptor)
    synced_folder(path)


def in_place_without_truncation(path, value):
    in_place(path, value, 0)


def removed_before_it_is_renamed(path, value):
    part = path.with_name("part")
    in_place(part, value)
    path.unlink(missing_ok=True)
    os.rename(part, path)
    synced_folder(path)


def pruned_before_the_new_one_is_durable(path, value):
    for old in path.parent.iterdir():
        os.unlink(old)
    saved(path, value)


BROKEN = [("run.json", without_file_sync, loaded), ("run-{seq}.json", without_file_sync, loaded_latest),
          ("run.json", without_folder_sync, loaded), ("run-{seq}.json", without_folder_sync, loaded_latest),
          ("new/run.json", without_sync_of_the_folder_above, loaded), ("run.json", renamed_before_it_is_synced, loaded),
          ("run.json", in_place, loaded), ("run.json", in_place_without_truncation, loaded),
          ("run.json", removed_before_it_is_renamed, loaded),
          ("run-{seq}.json", pruned_before_the_new_one_is_durable, loaded_latest)]  # fmt: skip


@pytest.mark.parametrize(("filename", "save", "load"), BROKEN)
def test_the_simulation_finds_what_is_wrong_with_other_ways_to_save(monkeypatch, tmp_path, filename, save, load):
    assert after_loss_of_power(monkeypatch, tmp_path, filename, save, load, until_lost=True)[1]


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


def unreadable(path, how):
    """Something with the name of a checkpoint that gives nothing when it is read."""
    if how == "folder":
        path.mkdir()
    else:
        path.symlink_to({"dangling": "nowhere", "looping": path.name, "faulty disk": "/proc/self/mem"}[how])


@pytest.mark.parametrize("how", ["dangling", "looping", "faulty disk", "folder"])
def test_older_files_are_loaded_where_the_newest_cannot_be_read(tmp_path, how):
    pattern, value = tmp_path / "run-{seq}.json", Value()
    path = checkpoint.save(pattern, a=Value(7))
    unreadable(tmp_path / "run-5.json", how)
    with pytest.warns(StateWarning, match=r"Left out: .*run-5\.json (cannot be read: \w|is not a checkpoint)"):
        assert checkpoint.load_latest(pattern, a=value) == path
    assert value.value == 7
    with pytest.raises((OSError, StateError)):
        Checkpoint().load(pattern, strict=True)
    os.unlink(path)
    with pytest.raises((OSError, StateError)):
        checkpoint.load_latest(pattern, a=value)


@pytest.mark.parametrize("how", ["dangling", "looping", "faulty disk", "folder"])
def test_what_bears_the_name_of_a_file_and_is_none_is_no_reason_to_fail_once_all_is_saved(tmp_path, how):
    pattern = tmp_path / "run-{seq}.json"
    states = Checkpoint()
    states.set_state("a", {"value": 1})
    paths = [states.save(pattern) for _ in range(3)]
    unreadable(tmp_path / "run-1000.json", how)
    (tmp_path / "run-0000.json").mkdir()
    paths += [states.save(pattern, keep=2) for _ in range(2)]
    assert [os.path.basename(path) for path in paths[3:]] == ["run-1001.json", "run-1002.json"]
    left = {name for name in names(tmp_path) if (tmp_path / name).is_file() and not (tmp_path / name).is_symlink()}
    assert left == {"run-1001.json", "run-1002.json"}
    assert (tmp_path / "run-0000.json").is_dir()


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


def test_the_newest_file_is_loaded_where_all_that_were_there_have_made_way(tmp_path, monkeypatch):
    """Another process saves one after the other, and keeps one."""
    pattern = tmp_path / "run-{seq}.json"
    checkpoint.save(pattern, a=Value(0))
    from dynamic.checkpoint import _numbered

    original, saved = _numbered.read, []

    def read(path, limit):
        if len(saved) < 3:
            saved.append(checkpoint.save(pattern, a=Value(len(saved) + 1)))
            os.unlink(path)
        return original(path, limit)

    monkeypatch.setattr(_numbered, "read", read)
    value = Value()
    assert checkpoint.load_latest(pattern, a=value) == saved[-1]
    assert value.value == 3
    while names(tmp_path):
        os.unlink(tmp_path / names(tmp_path)[0])
    with pytest.raises(FileNotFoundError, match="no checkpoint file"):
        checkpoint.load_latest(pattern, a=value)
