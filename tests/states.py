"""Goals of checkpoints, readers and old states: what their tests measure, in full."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random as python_random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pickles
import pytest
import test_checkpoint
import test_durability
import test_legacy
import test_resume
from goals import goal

import dynamic
from dynamic import checkpoint
from dynamic.checkpoint import _file, legacy
from dynamic.errors import ArgumentError, StateError, StateMismatch
from dynamic.random import RNG
from dynamic.readers import File


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def samples_in(path):
    for name in test_resume.NAMES:
        (path / name).write_bytes(name.encode())
    return path


@goal("G5 damaged checkpoints", "every flip of a bit and every cut: none accepted", sampled=False)
def damaged(sample):
    with folder() as path:
        reader = test_resume.reader_of(samples_in(path), test_resume.NAMES[:9], random_shuffle=True)
        reader(3)
        good = _file.encoded({"reader": _file.Entry("File", reader.get_state())})
    files = [good[:i] for i in range(len(good))]
    files += [good[:i] + bytes([good[i] ^ 1 << bit]) + good[i + 1 :] for i in range(len(good)) for bit in range(8)]
    files, accepted = files[:: 50 if sample else 1], 0
    for data in files:
        try:
            _file.decoded(data, "run.json")
            accepted += 1
        except StateError:
            continue
    return f"{accepted} of {len(files)} accepted", not accepted


@goal("G6 power cuts", "every state that a cut may leave of the disk in 3 saves: none lost or torn",
      sampled=False)  # fmt: skip
def power_cuts(sample):
    total = wrong = 0
    for filename, save, load in list(test_durability.CASES.values())[: 1 if sample else None]:
        with folder() as path, pytest.MonkeyPatch.context() as patch:
            count, lost, left = test_durability.after_loss_of_power(patch, path, filename, save, load)
        total, wrong = total + count, wrong + len(lost) + len(left)
    return f"{wrong} of {total} states wrong", total > 0 and not wrong


@goal("G7 killed", "a process killed at any call of a save: nothing torn, lost, or left over after the next save",
      sampled=False)  # fmt: skip
def killed(sample):
    kills = []
    for name, load in [("run.json", "one"), ("run-{seq}.json", "all")][: 1 if sample else None]:
        with folder() as path:
            command = [sys.executable, "-c", test_durability.KILLED, str(path / "saved"), name, load]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
            if done.returncode:
                return done.stderr.splitlines()[-1], False
            kills.append(int(done.stdout))
    return f"{sum(kills)} kills, none", min(kills) >= 10


def _environment():
    return {**os.environ, "PYTHONPATH": str(Path(dynamic.__file__).parent.parent)}


@goal("G7 errors", "EIO, ENOSPC or EINTR at any call of a save: nothing torn, lost or left over", sampled=False)
def failing(sample):
    count = wrong = 0
    for number, call in itertools.product((5, 28, 4), test_checkpoint.CALLS[: 2 if sample else None]):
        for late in (False, True) if call in test_checkpoint.LATE else (False,):
            for turn in range(20):
                with folder() as path, pytest.MonkeyPatch.context() as patch:
                    file = path / "c.json"
                    checkpoint.save(file, a=test_durability.Value("old"))
                    calls = test_checkpoint.fail(patch, call, turn, late, number)
                    with contextlib.suppress(OSError):
                        checkpoint.save(file, a=test_durability.Value("new"))
                    patch.undo()
                    found = test_durability.loaded(file)
                    checkpoint.save(file, a=test_durability.Value("next"))
                    whole = found in ("old", "new") and test_durability.loaded(file) == "next"
                    wrong += not whole or os.listdir(path) != ["c.json"]
                if calls() <= turn:  # it was not called so often: no error came
                    break
                count += 1
    return f"{count} errors, {wrong} wrong", count > 0 and not wrong


@goal("G8 writers", "8 processes save 50 numbered files each at once: 400 whole files, no error", sampled=False)
def writers(sample):
    with folder() as path, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", _environment()["PYTHONPATH"])
        processes = test_durability.writers(path / "run-{seq:05d}.json", 2 if sample else 8)
        written = [name for process in processes for name in process.communicate()[0].split()]
        whole = {test_durability.loaded(name) for name in written}
        errors = sum(process.returncode != 0 for process in processes)
        wanted = 50 * len(processes)
        right = len(set(written)) == len(whole) == len(os.listdir(path)) == wanted and not errors
    return f"{len(whole)} whole files, {errors} errors", right


@goal("G9 resume", "2000 chains of stops on any shards and batches: order, draws and ends of epochs of one run",
      sampled=False)  # fmt: skip
def resume(sample):
    with folder() as path:
        root, parts = samples_in(path), 0
        chains = 20 if sample else 2000
        for number in range(chains):
            parts += test_resume.run_chain(root, path / "run.json", python_random.Random(number))
    return f"{chains} of {chains} chains, {parts} parts", True


CHANGES = {
    "a file added": lambda names: {"files": [*names, "57.bin"]},
    "a file removed": lambda names: {"files": names[1:]},
    "a file renamed": lambda names: {"files": ["58.bin", *names[1:]]},
    "half of them": lambda names: {"files": names[::2]},
    "three of them": lambda names: {"files": names[:3]},
    "another order": lambda names: {"files": names[::-1], "random_shuffle": False},
    "other labels": lambda names: {"labels": [1] * len(names)},
    "another seed": lambda names: {"seed": 9},
    "no shuffle": lambda names: {"random_shuffle": False},
    "shards of their own": lambda names: {"stick_to_shard": True, "num_shards": 2},
}


@goal("G10 changes", "other data or arguments: refused, and differences are named; shards and batches may differ")
def changed(sample):
    with folder() as path:
        names, refused = test_resume.NAMES[:30], 0
        first = File(files=names, labels=[0] * 30, file_root=samples_in(path), random_shuffle=True)
        first(7)
        state = first.get_state()
        changes = dict(CHANGES)
        for change in changes.values():
            arguments = {"files": names, "random_shuffle": True} | change(names)
            arguments = {"labels": [0] * len(arguments["files"])} | arguments
            try:
                File(file_root=path, **arguments).set_state(state)
            except StateMismatch as error:
                refused += bool(error.differences)
        (path / names[0]).write_bytes(b"edited, to another size")
        try:
            File(files=names, labels=[0] * 30, file_root=path, random_shuffle=True).set_state(state)
        except StateMismatch as error:
            refused += bool(error.differences)
    return f"{refused} of {len(changes) + 1} refused", refused == len(changes) + 1


@goal("G11 shards", "from W to W' shards in mid-epoch, both 1 to 8: every sample that is left exactly once")
def shards(sample):
    wrong = pairs = 0
    with folder() as path:
        root, rng = samples_in(path), RNG(1)
        for before, after in itertools.product(range(1, 9, 3 if sample else 1), repeat=2):
            names = test_resume.NAMES[:41]
            readers = test_resume.shards_of(root, names, before, random_shuffle=True)
            given = test_resume.names_of(next(test_resume.steps(readers, rng, 2)))
            state = readers[-1].get_state()
            readers = test_resume.shards_of(root, names, after, random_shuffle=True)
            for reader in readers:
                reader.set_state(state)
            given += test_resume.names_of(test_resume.rest_of(readers, rng, 3))
            wrong += collections.Counter(given) != collections.Counter(names)
            pairs += 1
    return f"{pairs - wrong} of {pairs} pairs exact", not wrong


@goal("G12 hostile pickles", "pickles that run code: none runs or imports anything, all are refused", sampled=False)
def hostile(sample):
    corpus = dict(itertools.islice(test_legacy.HOSTILE.items(), 5 if sample else None))
    with folder() as path:
        (path / "read").mkdir()
        read = _read_in_a_child(corpus, path / "read")
    wrong = [name for name, found in read.items() if found[:2] != [3, False]]
    return f"{len(wrong)} of {len(read)} ran, imported or were taken", not wrong


def _read_in_a_child(corpus, path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", _environment()["PYTHONPATH"])
        return test_legacy.in_a_child(test_legacy.READ, corpus, path)


@goal("G12 malformed pickles", "refused within 2 s of CPU and 64 MB", sampled=False)
def malformed(sample):
    corpus = dict(itertools.islice(test_legacy.MALFORMED.items(), 5 if sample else None))
    with folder() as path:
        read = _read_in_a_child(corpus, path)
    taken = [name for name, found in read.items() if found[:2] != [3, False]]
    seconds, memory = (max(found[i] for found in read.values()) for i in (2, 3))
    figure = f"{len(read) - len(taken)} of {len(read)} refused; {seconds:.1f} s and {memory:.0f} MB at most"
    return figure, not taken and seconds < 2 and memory < 64


@goal("G13 old states", "harmless pickles of protocols 0 to 5, of NumPy 1, 2 and Python 2: values, types and orders",
      sampled=False)  # fmt: skip
def harmless(sample):
    cases = [(data, value) for data, value in test_legacy.HARMLESS.values()]
    cases += [(pickles.of_old_numpy(data), value) for data, value in cases] + list(pickles.of_python_2().values())
    cases, right = cases[:: 10 if sample else 1], 0
    for data, value in cases:
        with warnings.catch_warnings(), contextlib.suppress(AssertionError, StateError, ArgumentError):
            warnings.simplefilter("ignore")
            test_legacy.same(value, legacy.read(data, allow="plain", classes={"old.State": "stateful"}))
            right += 1
    return f"{right} of {len(cases)} come back", right == len(cases)
