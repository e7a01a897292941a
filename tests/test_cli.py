"""`python -m dynamic.checkpoint`: what it prints, and its exit status."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import checkpoint
from dynamic.checkpoint import __main__
from dynamic.checkpoint.__main__ import main
from dynamic.checkpoint._atomic import read
from dynamic.errors import StateError
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG
from dynamic.readers import ExternalSource, File

pytestmark = pytest.mark.slow


@pytest.fixture
def saved(tmp_path):
    """Files of two shards after each of two steps, and their folder."""
    for name in "abcdefg":
        (tmp_path / name).write_bytes(b"")
    readers = [File(files=list("abcdefg"), file_root=tmp_path, random_shuffle=True, num_shards=2, shard_id=k)
               for k in range(2)]  # fmt: skip
    out = tmp_path / "out"
    for step in range(2):
        for k, reader in enumerate(readers):
            reader(2)
            checkpoint.save(out / f"{step}-{k}.json", reader=reader, rng=RNG(step))
    return out


def test_what_a_checkpoint_holds_is_shown(saved, capsys):
    assert main(["show", str(saved / "0-0.json"), str(saved / "1-1.json")]) == 0
    text = capsys.readouterr().out
    for line in ("  reader (File): epoch 0, 4 of 7 samples given, shuffled, seed 0, 2 of them by this shard\n",
                 "  reader (File): epoch 0, 7 of 7 samples given, shuffled, seed 0, 3 of them by this shard\n",
                 "  rng (RNG): seed 1, 0 words drawn\n"):  # fmt: skip
        assert line in text
    assert main(["show", "--json", str(saved / "0-0.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[str(saved / "0-0.json")]["reader"]["state"]["position"] == 4
    assert found[str(saved / "0-0.json")]["rng"]["type"] == "RNG"


@given(seed=st.integers(0, 2**64 - 1), words=st.integers(0, 2**70))
def test_the_place_of_a_generator_is_told_in_words(seed, words):
    rng = RNG(seed)
    rng.advance(words)
    assert __main__._in_words(rng.get_state()) == f"seed {seed}, {words} word{'s' * (words != 1)} drawn"


def test_states_of_every_kind_are_told_in_words(tmp_path, capsys):
    (tmp_path / "cat").mkdir()
    for name in "abc":
        (tmp_path / "cat" / f"{name}.jpg").write_bytes(b"x")
    (tmp_path / "cat" / "gone.jpg").symlink_to(tmp_path / "nothing")
    skipping, plain = File(file_root=tmp_path, on_error="skip"), File(file_root=tmp_path)
    skipping(4)
    by_sample, iterable = ExternalSource(lambda info: [info.idx_in_epoch], batch=False), ExternalSource([[1], [2]])
    by_sample(3)
    checkpoint.save(tmp_path / "run.json", skipping=skipping, plain=plain, by_sample=by_sample, iterable=iterable,
                    kept=Kept({"a": [1, {}], "b": {"c": 2}}), empty=Kept({}))  # fmt: skip
    with pipeline_def(batch_size=2, seed=5)(lambda: fn.readers.file(file_root=str(tmp_path), name="r"))() as pipe:
        pipe.run()
        pipe.checkpoint(tmp_path / "pipe.json")
    assert main(["show", str(tmp_path / "run.json"), str(tmp_path / "pipe.json")]) == 0
    told = capsys.readouterr().out.splitlines()
    for line in (
        "  skipping (File): epoch 0, 4 of 4 samples given, in listed order, 1 skipped that could not be read",
        "  plain (File): epoch 0, 0 of 4 samples given, in listed order",
        "  by_sample (ExternalSource): epoch 0, 3 samples in 1 batch taken",
        "  iterable (ExternalSource): epoch 0, 0 batches taken; cannot go back to there",
        "  kept (Kept):", "    a: [1, {}]", "    b.c: 2", "  empty (Kept):", "    {}",
        "  pipeline: epoch 0, 1 batch in all, seed 5", "  r: epoch 0, 2 of 4 samples given, in listed order",
    ):  # fmt: skip
        assert line in told


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "it is empty."), (b"\0" * 4096, "it has 4096 bytes, all of them zeros or blanks."),
    (b" \n", "it has 2 bytes, all of them zeros or blanks."), (b"hello", "it is not JSON: Expecting value in line 1"),
    (b"{\n'a'", "it is not JSON: .* in line 2, column 1."), (b"\"\xc3\"", "it is not JSON: byte 1 is 0xc3."),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_told(data, reason, tmp_path, capsys):
    (tmp_path / "run.json").write_bytes(data)
    assert main(["verify", str(tmp_path / "run.json")]) == 1
    assert re.search(f"is damaged, or not a checkpoint: {reason}", capsys.readouterr().out)
    with pytest.raises(StateError, match=reason):
        checkpoint.load(tmp_path / "run.json", rng=RNG(1))


def test_what_differs_is_told(saved, capsys):
    assert main(["diff", str(saved / "0-0.json"), str(saved / "0-0.json")]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", str(saved / "0-0.json"), str(saved / "1-0.json")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "reader.position: 4 -> 7" in lines
    assert {line.partition(":")[0] for line in lines} == {"reader.position", "reader.last", "reader.given", "rng.state"}
    checkpoint.save(saved / "other.json", rng=RNG(0))
    assert main(["diff", str(saved / "other.json"), str(saved / "0-0.json")]) == 1
    assert "reader.epoch: (not there) -> 0" in capsys.readouterr().out


class Kept:
    """What has the state that it is given."""

    def __init__(self, state):
        self.state = state

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state


STATES = st.recursive(st.integers(0, 1) | st.just({}), lambda x: st.dictionaries(st.sampled_from(["", "a", "a.a"]), x))


@given(states=st.tuples(*[st.dictionaries(st.sampled_from(["", "a", "a.a"]), STATES, min_size=1)] * 2))
def test_all_that_differs_is_told_whatever_its_name(tmp_path_factory, states):
    folder = tmp_path_factory.mktemp("states")
    for number, each in enumerate(states):
        checkpoint.save(folder / f"{number}.json", **{name: Kept(state) for name, state in each.items()})
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        status = main(["diff", str(folder / "0.json"), str(folder / "1.json")])
    assert status == (states[0] != states[1])
    assert bool(told.getvalue()) == (states[0] != states[1])


def test_whoever_reads_may_have_read_enough(saved):
    for count in (1, 500):
        files = [str(saved / "0-0.json")] * count
        with subprocess.Popen([sys.executable, "-m", "dynamic.checkpoint", "show", *files], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as done:  # fmt: skip
            done.stdout.close()
            assert done.stderr.read() == b""
            assert done.wait(60) == 2


def test_whole_files_are_told_from_damaged_ones(saved, capsys):
    assert main(["verify", *map(str, sorted(saved.iterdir()))]) == 0
    assert capsys.readouterr().out.count(": whole\n") == 4
    (saved / "0-0.json").write_bytes((saved / "0-0.json").read_bytes()[:-9])
    assert main(["verify", *map(str, sorted(saved.iterdir()))]) == 1
    text = capsys.readouterr().out
    assert text.count(": whole\n") == 3
    assert "0-0.json is damaged, or not a checkpoint" in text


def test_an_epoch_is_proved_from_the_files_of_all_ranks(saved, capsys):
    last = [str(saved / f"1-{k}.json") for k in range(2)]
    assert main(["verify", "--epoch", "reader", *last]) == 0
    assert "epoch 0: each of 7 samples once, on 2 shards\n" in capsys.readouterr().out
    assert main(["verify", "--epoch", "reader", *last[:1]]) == 1
    assert "4 samples were given by 1 shards" in capsys.readouterr().out
    assert main(["verify", "--epoch", "reader", str(saved / "0-0.json"), str(saved / "0-1.json")]) == 1
    assert "Epoch 0 is not over" in capsys.readouterr().out
    assert main(["verify", "--epoch", "train", *last]) == 2
    assert "no state 'train'; it has 'reader', 'rng'" in capsys.readouterr().err


def test_a_folder_is_scanned_for_pickles_and_damage_without_running_anything(saved, capsys):
    assert main(["scan", str(saved)]) == 0
    assert capsys.readouterr().out.count("a checkpoint of 'reader', 'rng'\n") == 4
    (saved / "notes.txt").write_text("nothing of interest\n")
    assert main(["scan", str(saved)]) == 0
    told = capsys.readouterr().out
    assert "notes.txt" not in told
    assert told.endswith("\n1 other file without a checkpoint or a pickle\n")
    assert main(["scan", str(saved / "notes.txt")]) == 0
    assert capsys.readouterr().out == f"{saved / 'notes.txt'}: neither a checkpoint nor a pickle\n"
    (saved / "deep").mkdir()
    (saved / "deep" / "old.pkl").write_bytes(pickle.dumps({"at": np.arange(3)}, 4))
    (saved / "bad.pkl").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    (saved / "torn.json").write_bytes((saved / "0-0.json").read_bytes()[:300])
    (saved / "gone.json").symlink_to(saved / "nothing")
    assert main(["scan", str(saved)]) == 1
    text = capsys.readouterr().out
    assert "bad.pkl: a pickle of protocol 0, which refers to os.system: loading it could run any code" in text
    assert "old.pkl: a pickle of protocol 4, which refers to numpy" in text
    assert "torn.json is damaged" in text
    assert main(["scan", "--json", str(saved)]) == 1
    found = {Path(each["path"]).name: each for each in json.loads(capsys.readouterr().out)}
    assert {name: each["kind"] for name, each in found.items()} == {
        **{f"{i}-{k}.json": "checkpoint" for i in range(2) for k in range(2)}, "notes.txt": "other",
        "old.pkl": "pickle", "bad.pkl": "pickle", "torn.json": "damaged"}  # fmt: skip
    assert found["bad.pkl"]["names"] == ["os.system"]
    assert found["0-0.json"]["names"] == ["reader", "rng"]


def test_what_cannot_be_read_is_told(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["list"])
    assert "show" in capsys.readouterr().err


class Hostile:
    """What puts a key and a text into a file that would do something to a terminal."""

    def get_state(self):
        return {"\x1b[2J\nkey": "\x1b[2J\n\ud800"}

    def set_state(self, state):
        """Nothing asks for it."""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text here")
def test_any_name_is_shown_on_one_line_of_any_terminal(encoding, tmp_path):
    names = [b"\xff.json", b"\x1b[31m\n.json", "ü漢.json".encode()]
    for name in names:
        path = os.path.join(tmp_path, os.fsdecode(name))
        checkpoint.save(path, **{"\x1b[2J\nname\ud800": Hostile()})
    Path(tmp_path, os.fsdecode(b"\xff.pkl")).write_bytes(pickle.dumps({"at": np.arange(3)}))
    Path(tmp_path, os.fsdecode(b"\xff.torn")).write_bytes(b'{"format": "dynamic-checkpoint"')
    files = sorted(os.path.join(os.fsencode(tmp_path), name) for name in os.listdir(os.fsencode(tmp_path)))
    gone = os.path.join(os.fsencode(tmp_path), b"\xff\x1b\n.gone")
    for command, status, count in (
        (["scan"], 2, 5),
        (["show"], 2, 9),
        (["verify"], 2, 4),
        (["verify", "--epoch", "\x1b"], 2, 1),
    ):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding, "strict") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main([*command, *map(os.fsdecode, (*files, gone))]) == status
        printed = [text.detach().getvalue().decode(encoding) for text in (out, err)]
        assert all(line.isprintable() for text in printed for line in text.split("\n"))
        assert "Traceback" not in printed[1]
        assert "\\udcff\\x1b\\n.gone" in printed[1]
        assert len(printed[0].splitlines()) >= count


def test_a_file_that_cannot_be_read_does_not_end_a_command(saved, capsys, monkeypatch):
    good, gone = str(saved / "0-0.json"), str(saved / "none.json")
    for command, told in (("scan", "a checkpoint of"), ("show", "reader (File)"), ("verify", "whole")):
        assert main([command, gone, good]) == 2
        printed = capsys.readouterr()
        assert "none.json" in printed.err
        assert told in printed.out
    (saved / "torn.json").write_bytes(b"{")
    assert main(["show", str(saved / "torn.json"), good]) == 2
    assert "reader (File)" in capsys.readouterr().out

    def refused(path, limit):
        if path.name == "0-0.json":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, limit)

    monkeypatch.setattr(__main__, "read", refused)
    assert main(["scan", str(saved)]) == 2
    printed = capsys.readouterr()
    assert "0-0.json" in printed.err
    assert printed.out.count("a checkpoint of") == 3


def test_a_folder_that_cannot_be_read_is_told(saved, capsys, monkeypatch):
    def walk(path, onerror):
        onerror(PermissionError(13, "Permission denied", "secret"))
        return iter([(path, [], ["0-0.json"])])

    monkeypatch.setattr(os, "walk", walk)
    assert main(["scan", str(saved)]) == 2
    printed = capsys.readouterr()
    assert "secret" in printed.err
    assert "0-0.json: a checkpoint of" in printed.out


def test_it_runs_as_a_module(saved):
    done = subprocess.run([sys.executable, "-m", "dynamic.checkpoint", "show", str(saved / "0-0.json")],
                          capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
    assert "reader (File)" in done.stdout
    assert done.stderr == ""
