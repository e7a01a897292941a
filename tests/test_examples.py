"""The examples, and the code of the README, as a newcomer runs them."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import installed
import numpy as np
import pytest
from stores import serving

import dynamic as ndd

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("photos")
    code = "import sys, pathlib, photos; photos.make(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, cwd=ROOT / "examples")
    return folder


@pytest.mark.parametrize("own", [False, True])
def test_the_demo_ends_with_its_sentence_and_its_picture(photos, tmp_path, own):
    folder = [str(photos)] if own else []
    command = [sys.executable, str(ROOT / "examples" / "resume.py"), *folder, "--output", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("File order and random angles match exactly.\n")
    angles = re.findall(r"^(?:reference|resumed) +angles (.*)$", run.stdout, re.M)
    assert len(angles) == 2
    assert angles[0] == angles[1]
    picture = ndd.imread(tmp_path / "resume.png")
    height, width, _ = picture.shape
    assert width > 8 * 200
    above, below = picture.array[26 : height // 2], picture.array[height // 2 + 22 :][: height // 2 - 26]
    assert above.std() > 20
    assert np.array_equal(above, below[: len(above)])


def test_wheels_are_tried_with_the_code_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    installed.make_photos(tmp_path / "photos")
    assert installed.run_readme() == 3 * 3  # epochs of 20 photos in batches of 8; the second start has nothing left


def test_the_demo_fails_where_the_folder_has_no_photos(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "resume.py"), str(tmp_path / "none"), "--output", str(tmp_path)]
    assert subprocess.run(command, capture_output=True).returncode != 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_training_that_is_killed_goes_on_to_the_same_weights(photos, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")

    def run(name: str, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, str(ROOT / "examples" / "train_pytorch.py"), str(photos), "--output", name]
        done = subprocess.run([*command, "--steps", "30", *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.stderr == ""
        return done.returncode, done.stdout

    whole = run("whole")[1]
    for kill in (random.randrange(1, 16), random.randrange(17, 30)):  # an epoch has 8 steps
        code, _ = run("killed", "--kill-at", str(kill), "--every", "4")
        assert code == -signal.SIGKILL, kill
    code, rest = run("killed", "--every", "4")
    assert code == 0
    assert f"{kill // 4 * 4} steps have been made" in rest
    assert rest.splitlines()[-1] == whole.splitlines()[-1]
    assert rest.splitlines()[-1].startswith("weights: ")
    assert (tmp_path / "whole" / "loss.png").read_bytes() == (tmp_path / "killed" / "loss.png").read_bytes()
    assert ndd.imread(tmp_path / "whole" / "loss.png").shape == (320, 640, 3)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("name", ["detection", "segmentation", "mixup"])
def test_training_with_boxes_masks_or_partners_that_is_killed_goes_on_to_the_same_weights(name, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")

    def run(output: str, *arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--output", output, "--steps", "16"]
        done = subprocess.run([*command, "--every", "3", *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    whole = run("whole")[1]
    kill = random.randrange(4, 16)  # an epoch has 6 to 8 steps
    assert run("killed", "--kill-at", str(kill))[0] == -signal.SIGKILL, kill
    code, rest = run("killed")
    assert code == 0
    assert rest[0].endswith(f" photos; {kill // 3 * 3} steps have been made")
    assert rest[-1] == whole[-1], kill
    assert rest[-1].startswith("weights: ")
    losses = [float(line.split()[-1]) for line in whole[1:-1]]
    assert len(losses) == 16
    assert sum(losses[-4:]) < 0.95 * sum(losses[:4])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("name", ["contrastive", "frames", "hugging_face", "bucket"])
def test_training_by_a_loader_with_workers_that_is_killed_goes_on_to_the_same_weights(name, photos, tmp_path):
    for library in ["torch", *{"hugging_face": ["datasets"], "bucket": ["s3fs"]}.get(name, [])]:
        pytest.importorskip(library, reason=f"{library} is not installed")

    def run(output: str, *arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--output", output, "--steps", "16"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "AWS_ENDPOINT_URL": store.url, "HF_HUB_OFFLINE": "1"}
        environment |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HF_HOME": str(tmp_path / "home")}
        done = subprocess.run([*command, "--every", "3", *arguments], capture_output=True, text=True, cwd=tmp_path,
                              env=environment)  # fmt: skip
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    with serving() as store:
        store.put(photos, "data/photos")
        (tmp_path / "here").symlink_to(photos)
        bucket, here = (["s3://data/photos"], ["here"]) if name == "bucket" else ([], [])
        whole = run("whole", *bucket)[1]
        asked = len(store.asked())
        assert bool(asked) == (name == "bucket")
        kill = random.randrange(4, 16)  # an epoch has 3, 12, 8 and 8 steps
        assert run("killed", *bucket, "--kill-at", str(kill))[0] == -signal.SIGKILL, kill
        asked = len(store.asked())
        code, rest = run("killed", *here)  # photos of the bucket, now on a disk
        assert len(store.asked()) == asked
    assert code == 0
    assert rest[0].endswith(f"; {kill // 3 * 3} steps have been made")
    assert rest[-1] == whole[-1], kill
    assert rest[-1].startswith("weights: ")
    losses = [float(line.split()[-1]) for line in whole[1:-1]]
    assert len(losses) == 16
    assert sum(losses[-4:]) < 0.98 * sum(losses[:4])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize(("name", "library"), [("keyword_spotting", "PIL"), ("clips", "av")])
def test_training_with_numpy_that_is_killed_goes_on_to_the_same_weights(name, library, tmp_path):
    pytest.importorskip(library)

    def run(output: str, *arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--output", output, "--steps", "40"]
        done = subprocess.run([*command, "--every", "3", *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    whole = run("whole")[1]
    kill = random.randrange(3, 40)  # an epoch has 5 steps, or 15
    assert run("killed", "--kill-at", str(kill))[0] == -signal.SIGKILL, kill
    code, rest = run("killed")
    assert (code, rest[0]) == (0, f"{kill // 3 * 3} steps have been made")
    assert rest[-1] == whole[-1], kill
    assert rest[-1].startswith("weights: ")
    assert int(whole[-2].split()[2].removesuffix("%")) >= 70


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_training_with_jax_that_is_killed_goes_on_to_the_same_weights(photos, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed")
    pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")

    def run(name: str, *arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(ROOT / "examples" / "train_jax.py"), str(photos), "--output", name]
        done = subprocess.run([*command, "--steps", "20", "--every", "3", *arguments], capture_output=True, text=True,
                              cwd=tmp_path)  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    whole = run("whole")[1]
    kill = random.randrange(3, 20)  # an epoch has 7 steps
    assert run("killed", "--kill-at", str(kill))[0] == -signal.SIGKILL, kill
    code, rest = run("killed")
    assert (code, rest[0]) == (0, f"{kill // 3 * 3} steps have been made")
    assert rest[-1] == whole[-1], kill
    assert rest[-1].startswith("weights: ")


def block_of_the_readme(word: str) -> str:
    """The first block of code of the README that has a word."""
    text = (ROOT / "README.md").read_text()
    return next(block for block in re.findall(r"```python\n(.*?)```", text, re.S) if word in block)


def test_the_training_of_the_readme_stops_and_goes_on_to_the_same_weights(photos, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    code = block_of_the_readme("import torch").replace("num_workers=2", "num_workers=0")
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.chdir(tmp_path)

    class Stop(Exception):
        pass

    def trained(stop: int) -> tuple[list[torch.Tensor], int]:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.AvgPool2d(56), torch.nn.Flatten(), torch.nn.Linear(48, 6))
        optimizer = torch.optim.Adam(model.parameters())
        steps = 0

        def counted(*_):
            nonlocal steps
            if steps == stop:
                raise Stop
            steps += 1

        model.register_forward_pre_hook(counted)
        try:
            exec(code, {"model": model, "optimizer": optimizer})
        except Stop:
            assert steps == stop
        return list(model.parameters()), steps

    whole, steps = trained(10000)
    Path("run.pt").unlink()
    found = [trained(stop) for stop in (3, steps // 3 - 3, 2, 10000)]  # the second at the end of an epoch
    assert sum(made for _, made in found) == steps
    assert all(map(torch.equal, whole, found[-1][0]))


def test_the_loop_of_the_readme_stops_and_goes_on(photos, tmp_path, monkeypatch):
    code = block_of_the_readme("next_epoch")
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.chdir(tmp_path)

    class Stop(Exception):
        pass

    def trained(code: str, stop: int) -> list:
        seen = []

        def train(images, labels):
            if len(seen) == stop:
                raise Stop
            seen.append([image.array for image in images])

        try:
            exec(code, {"ndd": ndd, "train": train})
        except Stop:
            assert len(seen) == stop
        return seen

    whole = trained(code, 100)
    steps, rest = divmod(len(whole), 3)
    assert (sum(map(len, whole)), rest) == (3 * len(list(photos.glob("*/*.jpg"))), 0)
    Path("run.json").unlink()
    stops = [3, steps - 3, steps + 2, 100]  # the second at the end of an epoch
    found = [batch for stop in stops for batch in trained(code, stop)]
    assert len(found) == len(whole)
    for a, b in zip(whole, found, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert trained(code, 100) == []


KILLED = """
import json
import os
import signal
import sys

import dynamic as ndd

steps = 0


def train(images, labels):
    global steps
    if steps == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps += 1
    print(reader.epoch, *labels.origin.names, flush=True)


"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_the_loop_of_the_readme_is_killed_and_started_again_until_it_has_trained(photos, tmp_path):
    """Every start trains, also where an epoch has just ended, until nothing is left."""
    code = block_of_the_readme("next_epoch")
    for place in ("whole", "killed"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "photos").symlink_to(photos)
        (tmp_path / place / "train.py").write_text(KILLED + code)

    def lines(place: str, kill: int) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "train.py", str(kill)],
            cwd=tmp_path / place, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    code, whole = lines("whole", 100)
    assert code == 0
    steps = len(whole) // 3
    starts = [lines("killed", kill) for kill in (steps, steps, 100, 100)]
    assert [code for code, _ in starts] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
    assert [len(found) for _, found in starts] == [steps, steps, steps, 0]
    assert [line for _, found in starts for line in found] == whole


def test_the_detector_of_the_page_takes_a_step(tmp_path, monkeypatch):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    page = (ROOT / "docs" / "boxes_and_masks.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "torchvision" in block]
    code = code.replace("large(num_classes", "large(weights_backbone=None, num_classes").replace(
        "num_workers=2", "num_workers=0"
    )
    images, objects = [], []
    (tmp_path / "photos").mkdir()
    for i in range(10):
        picture = np.random.default_rng(i).integers(0, 255, (60, 80, 3), np.uint8)
        (tmp_path / "photos" / f"{i}.ppm").write_bytes(b"P6 80 60 255 " + picture.tobytes())
        images.append({"id": i, "file_name": f"{i}.ppm", "width": 80, "height": 60})
        objects += [{"image_id": i, "category_id": 5 + k, "bbox": [10, 20, 40, 30]} for k in range(i % 3)]
    file = {"images": images, "annotations": objects, "categories": [{"id": 5, "name": "a"}, {"id": 6, "name": "b"}]}
    (tmp_path / "objects.json").write_text(json.dumps(file))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    assert names["loss"].isfinite()
    assert names["reader"].explain(names["batch"]["id"].tolist()[0]).name.endswith(".ppm")
    assert {int(label) for target in names["targets"] for label in target["labels"]} <= {1, 2}


def test_the_loop_of_the_page_on_pytorch_takes_labels_as_they_come(photos, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "trainers.md").read_text().partition("All of them resume exactly")[2]
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], names)
    assert len(names["labels"].torch().shape) == 1
    assert names["loss"].item() > 0


def test_the_page_on_data_sets_trains_on_one_of_hugging_face(photos, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    files = sorted(photos.glob("*/*.jpg"))
    columns = {
        "image": [{"bytes": file.read_bytes()} for file in files],
        "label": [file.parent.name for file in files],
        "id": range(len(files)),
    }
    table = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    table.class_encode_column("label").to_parquet("train.parquet")
    page = (ROOT / "docs" / "map.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if ">>>" not in block]
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2
    assert len(names["images"]) == len(files) % 64
    assert names["batch"]["label"].shape == (len(files) % 64,)
    assert names["loss"].item() > 0


def blocks_of(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tutorial" / f"{page}.md").read_text(), re.M | re.S)


def test_the_tutorial_runs_page_after_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    for page in ("train", "resume", "speed"):
        for block in blocks_of(page):
            exec(compile(block, page, "exec"), names)
    printed = capsys.readouterr().out
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss (.*)", printed)]
    assert len(losses) == 6
    assert losses[-1] < losses[0] / 4
    assert int(re.search(r"(\d+) of 192 pictures are recognised", printed)[1]) > 170
    assert len(blocks_of("train")[1].splitlines()) <= 60


def test_the_run_of_the_tutorial_is_stopped_and_ends_with_the_same_weights(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    exec(blocks_of("train")[0], {})
    script = blocks_of("train")[1].partition("for epoch in")[0] + blocks_of("resume")[0]
    script = script.replace("range(loader.epoch, 6)", "range(loader.epoch, 2)")

    def run(stop: int) -> dict:
        """The weights after so many batches, or after the whole run."""
        names: dict = {"__name__": "__main__"}
        saved = script.replace('save("training.pt")', 'save("training.pt"); count()')
        taken = iter(range(1, 1000))

        def count() -> None:
            if next(taken) == stop:
                raise KeyboardInterrupt

        try:
            names["count"] = count
            exec(saved, names)
        except KeyboardInterrupt:
            assert stop
        return names["model"].state_dict()

    whole = run(0)
    Path("training.pt").unlink()
    for stop in (5, 9):
        run(stop)
    again = run(0)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_the_last_page_of_the_tutorial_trains_on_two_ranks_and_goes_on(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    exec(blocks_of("train")[0], {})
    (script,) = blocks_of("ranks")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for epochs, ranks in ((1, 2), (2, 1)):
        Path("ranks.py").write_text(script.replace("range(loader.epoch, 2)", f"range(loader.epoch, {epochs})"))
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        done = subprocess.run([*launch, "ranks.py"], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert re.findall(r"epoch (\d): loss", done.stdout) == [str(epochs - 1)]


def test_the_page_on_migrating_runs_and_names_what_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(blocks_of("train")[0], {})
    page = (ROOT / "docs" / "migrating.md").read_text()
    names: dict = {}
    step, pipeline = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    exec(step, names)
    files, labels = names["reader"](batch_size=4)
    images, _ = names["step"](files, labels)
    assert (images.shape, images.layout) == ([(3, 224, 224)] * 4, "CHW")
    assert abs(np.concatenate([image.array.ravel() for image in images]).mean()) < 2
    found = set(re.findall(r"`(?:ndd|dynamic)\.([\w.]+)", page))
    assert len(found) > 40
    adapters = {"pytorch.Loader", "tensorflow.Dataset"}  # which import torch and tensorflow
    assert [name for name in sorted(found - adapters) if attrgetter(name)(ndd) is None] == []
    imports = re.findall(r"`((?:import|from) dynamic[^`]+)`", page)
    assert len(imports) > 10
    torch = importlib.util.find_spec("torch") is not None
    for line in imports:
        if torch or "pytorch" not in line:
            exec(line, {})
    pytest.importorskip("torch", reason="torch is not installed")
    exec(pipeline, names)
    batches = [batch[0] for batch in names["train_loader"]]
    assert sum(len(batch["label"]) for batch in batches) == 192
    assert batches[0]["data"].shape == (32, 3, 224, 224)
