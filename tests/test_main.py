"""The command `dynamic`: its tables, pictures and exit status."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dynamic as ndd
from dynamic import checkpoint
from dynamic.__main__ import main
from dynamic.random import RNG

pytestmark = pytest.mark.slow


@pytest.fixture
def photos(tmp_path):
    """Two classes: four images of three formats, one of them lying on its side."""
    root, generator = tmp_path / "photos", np.random.default_rng(5)
    files = {"cat/1.jpg": (40, 30), "cat/2.png": (8, 6), "cat/3.bmp": (20, 10), "dog/1.jpg": (64, 48)}
    for name, size in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        picture, tag = Image.fromarray(generator.integers(0, 255, (*size[::-1], 3), np.uint8)), Image.Exif()
        tag[274] = 6 if name == "dog/1.jpg" else 1
        picture.save(root / name, **({"exif": tag} if name.endswith("jpg") else {}))
    return root


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def spoilt(photos):
    data = (photos / "cat/1.jpg").read_bytes()
    (photos / "cat/cut.jpg").write_bytes(data[: len(data) // 2])
    (photos / "cat/text.jpg").write_bytes(b"hello")
    (photos / "dog/gone\x1b.jpg").symlink_to(photos / "nothing")


def test_a_data_set_is_told(photos, capsys):
    assert main(["inspect", str(photos)]) == 0
    text = capsys.readouterr().out
    for line in ("photos: 4 files, 0.0 MB", "classes    2: cat 3, dog 1", "formats    JPEG 2, BMP 1, PNG 1",
                 "sizes      smallest 8 x 6, median 40 x 30, largest 48 x 64 (width x height)",
                 "unreadable 0, by their headers; --decode decodes each image"):  # fmt: skip
        assert line in text
    assert main(["inspect", str(photos / "cat"), "--json", "--decode"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == sum(file.stat().st_size for file in (photos / "cat").iterdir())
    assert (found["files"], found["classes"], found["unreadable"]) == (3, {}, [])


def test_files_that_cannot_be_read_are_told(photos, capsys):
    spoilt(photos)
    for options, names in ((["--decode"], ["cat/cut.jpg", "cat/text.jpg", "dog/gone\\x1b.jpg"]),
                           ([], ["cat/text.jpg", "dog/gone\\x1b.jpg"])):  # fmt: skip
        assert main(["inspect", str(photos), *options, "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert [each["name"] for each in found["unreadable"]] == names
        assert all(each["reason"] for each in found["unreadable"])
        assert found["files"] == 7
        assert main(["inspect", str(photos), *options]) == 1
        text = capsys.readouterr().out
        assert f"unreadable {len(names)}" in text
        assert "  dog/gone\\x1b.jpg: No such file or directory\n" in text


def test_many_classes_are_told_in_short(photos, capsys):
    for number in range(20):
        (photos / f"class {number:02}").mkdir()
        (photos / f"class {number:02}" / "1.jpg").write_bytes((photos / "cat/1.jpg").read_bytes())
    assert main(["inspect", str(photos)]) == 0
    assert "22: cat 3, class 00 1, class 01 1, class 02 1, class 03 1, ..., " in capsys.readouterr().out


def test_the_main_job_is_measured(photos, capsys, tmp_path):
    arguments = ["bench", str(photos), "--batch-size", "2", "--size", "16", "--seconds", "0.05", "--threads", "1"]
    assert main([*arguments, "--trace", str(tmp_path / "trace.json")]) == 0
    text = capsys.readouterr().out
    assert "images/s in batches of 2 at 16 x 16, 1 thread\n" in text
    for name in ("readers.File", "decoders.image", "random_resized_crop", "coin_flip", "crop_mirror_normalize"):
        assert name in text
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spoilt(photos)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert "of 2 samples cannot be read.\n  sample " in told
    assert "Traceback" not in told


def test_a_sheet_shows_samples_and_draws_of_them(photos, capsys, tmp_path):
    sheets = []
    for seed in ("3", "3", "4"):
        path = tmp_path / f"{len(sheets)}.png"
        assert main(["show", str(photos), "--output", str(path), "--samples", "3", "--draws", "2", "--size", "24",
                     "--seed", seed]) == 0  # fmt: skip
        sheets.append(pixels(path))
    assert sheets[0].shape == (3 * 28 - 2, 3 * 28 - 2, 3)
    assert (sheets[0] == sheets[1]).all()
    assert (sheets[0] != sheets[2]).any()
    names = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()[:3]]
    photo = ndd.decoders.image(np.fromfile(photos / names[0], np.uint8))
    whole = np.asarray(ndd.resize(photo, size=(24, 24), mode="not_larger"))
    y, x = ((28 - extent) // 2 - 2 for extent in whole.shape[:2])
    assert (sheets[0][y : y + whole.shape[0], x : x + whole.shape[1]] == whole).all()
    spoilt(photos)
    assert main(["show", str(photos), "--output", str(tmp_path / "rest.png"), "--size", "24", "--samples", "9"]) == 1
    assert capsys.readouterr().out.count("left out: ") == 2
    assert len(pixels(tmp_path / "rest.png")) == 4 * 28 - 2


MISTAKES = [
    ["inspect", "none"],
    ["bench", "none"],
    ["show", "none"],
    [],
    ["inspect"],
    ["fly"],
    ["show", "none", "--samples", "0"],
    ["bench", "none", "--size", "x"],
    ["checkpoint", "show", "none"],
    ["checkpoint"],
]


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_mistakes_are_told_without_a_traceback(arguments, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert capsys.readouterr().err


def test_it_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "dynamic", "inspect", "none"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("readers.File(): argument 'file_root' must be a folder")
    assert "Traceback" not in done.stderr


def test_a_sheet_that_cannot_be_written_is_told(photos, capsys, tmp_path):
    assert main(["show", str(photos), "--output", str(tmp_path / "none" / "sheet.png")]) == 2
    assert "No such file" in capsys.readouterr().err
    for file in photos.rglob("*.*"):
        file.write_bytes(b"hello")
    assert main(["show", str(photos), "--output", str(tmp_path / "sheet.png")]) == 2
    assert not (tmp_path / "sheet.png").exists()


def test_checkpoints_are_looked_at_by_the_same_command(tmp_path, capsys):
    checkpoint.save(tmp_path / "run.json", rng=RNG(1))
    assert main(["checkpoint", "show", str(tmp_path / "run.json")]) == 0
    assert "rng (RNG): seed 1, 0 words drawn" in capsys.readouterr().out
    assert main(["checkpoint", "diff", *[str(tmp_path / "run.json")] * 2]) == 0


@pytest.mark.parametrize("command", [[], ["inspect"], ["bench"], ["show"], ["checkpoint"], ["checkpoint", "scan"]])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    assert f"usage: {' '.join(['dynamic', *command])}" in capsys.readouterr().out


def test_the_script_is_this_command():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["dynamic"].partition(":")
    assert getattr(import_module(module), name) is main


def test_a_ctrl_c_ends_it_quietly(monkeypatch, photos, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ndd.decoders, "image", interrupted)
    assert main(["inspect", str(photos), "--decode"]) == 130
    assert capsys.readouterr().err == ""
