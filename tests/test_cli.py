"""`python -m dynamic.checkpoint`: what it prints, and its exit status."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from dynamic import checkpoint
from dynamic.checkpoint.__main__ import main
from dynamic.random import RNG
from dynamic.readers import File


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
    for line in ("  reader (File)\n", "    position: 4\n", "    position: 7\n", "    shuffle: True\n", "  rng (RNG)\n",
                 "    state: 'Philox_0000000000000001_0000000000000000:0000000000000000_0'\n"):  # fmt: skip
        assert line in text


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
    assert "notes.txt: neither a checkpoint nor a pickle\n" in capsys.readouterr().out
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


def test_what_cannot_be_read_is_told(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["list"])
    assert "show" in capsys.readouterr().err


def test_it_runs_as_a_module(saved):
    done = subprocess.run([sys.executable, "-m", "dynamic.checkpoint", "show", str(saved / "0-0.json")],
                          capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
    assert "reader (File)" in done.stdout
    assert done.stderr == ""
