"""Scripts in the words of DALI's pipeline mode: they run here, and under the real DALI with their imports exchanged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dali_oracle import VARIABLE

import dynamic as ndd

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "checkpointing.py"
ITERATORS = Path(__file__).with_name("iterators_job.py")
#: All that differs between a script for this library and one for DALI.
EXCHANGED = {
    "from dynamic.pipeline import fn, pipeline_def, types": "from nvidia.dali import fn, pipeline_def, types",
    "from dynamic.pipeline import Pipeline, fn, math, newaxis, pipeline_def, types":
        "from nvidia.dali import Pipeline, fn, math, newaxis, pipeline_def, types",
    "from dynamic.pipeline import fn, pipeline_def": "from nvidia.dali import fn, pipeline_def",
    "from dynamic.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment":
        "from nvidia.dali.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment",
    "from dynamic.auto_aug.core import Policy, augmentation, select, signed_bin":
        "from nvidia.dali.auto_aug.core import Policy, augmentation, select, signed_bin",
    "from dynamic.pytorch import ClassificationIterator, GenericIterator, LastBatchPolicy, RaggedIterator":
        "from nvidia.dali.plugin.pytorch import DALIClassificationIterator as ClassificationIterator\n"
        "from nvidia.dali.plugin.pytorch import DALIRaggedIterator as RaggedIterator\n"
        "from nvidia.dali.plugin.pytorch import DALIGenericIterator as GenericIterator, LastBatchPolicy",
}  # fmt: skip


def for_dali(path):
    """The text of a script with the import lines of DALI, and the lines that were exchanged."""
    lines = path.read_text().splitlines()
    exchanged = [line for line in lines if line in EXCHANGED]
    return "\n".join(EXCHANGED.get(line, line) for line in lines), exchanged


def run(text, tmp_path, *arguments, python=sys.executable):
    """What a script prints, once it has ended well."""
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [python, "-W", "ignore", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dalis_python(*needed):
    """The Python that has DALI and some other libraries, or a skip."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"the real DALI is not here: {VARIABLE} names no Python that has it")
    for name in needed:
        if subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode:
            pytest.skip(f"the Python that has DALI has no {name}")
    return python


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos in class folders."""
    for name in ("skimage", "sklearn", "PIL"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    folder = tmp_path_factory.mktemp("photos")
    code = "import sys, pathlib, photos; photos.make(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, cwd=ROOT / "examples")
    return folder


def said(text):
    """What the script about checkpoints says, by the first words of its lines."""
    return dict(re.findall(r"^(reference|restored) +(.*)$", text, re.M)), [
        re.findall(rf"^{name} +(\w+) (.*)$", text, re.M) for name in ("reference", "restored")
    ]


def test_the_job_of_dalis_checkpointing_notebook(photos, tmp_path):
    text = run(NOTEBOOK.read_text(), tmp_path, str(photos), "--output", "here")
    _, (reference, restored) = said(text)
    assert text.endswith("Pixels, labels and angles are equal.\n")
    assert reference == restored
    assert [name for name, _ in reference] == ["images", "labels", "angles"]
    picture = ndd.imread(tmp_path / "here" / "checkpointing.png").array
    assert picture.shape == (2 * 252 + 8, 8 * 208 + 8, 3)
    above, below = picture[26:252], picture[278:504]
    assert above.std() > 50
    assert np.array_equal(above, below)


def test_it_differs_from_the_script_for_dali_in_its_imports_alone(photos, tmp_path):
    text, exchanged = for_dali(NOTEBOOK)
    assert len(exchanged) == 1
    assert "dynamic" not in text.split('"""', 2)[2]
    assert EXCHANGED[exchanged[0]] in NOTEBOOK.read_text().split('"""')[1]  # as it says itself
    python = dalis_python("numpy", "PIL")
    theirs = run(text, tmp_path, str(photos), "--output", "there", python=python)
    ours = run(NOTEBOOK.read_text(), tmp_path, str(photos), "--output", "here")
    assert theirs.endswith("Pixels, labels and angles are equal.\n")
    assert theirs.splitlines()[0] == ours.splitlines()[0]  # how many photos there are

    def kinds(text):
        """Dtypes and shapes, and how many there are: not the values, for the orders and the draws differ."""
        return [(name, value.count(","), value.split("]")[-1]) for name, value in said(text)[1][0]]

    assert kinds(theirs) == kinds(ours)
    sizes = [ndd.imread(tmp_path / where / "checkpointing.png").shape for where in ("here", "there")]
    assert sizes[0] == sizes[1]


def test_without_a_shuffle_its_labels_are_dalis(photos, tmp_path):
    python = dalis_python("numpy", "PIL")
    texts = [text.replace("random_shuffle=True", "random_shuffle=False") for text in
             (NOTEBOOK.read_text(), for_dali(NOTEBOOK)[0])]  # fmt: skip
    found = [said(run(text, tmp_path, str(photos), python=which))[1][1][1]
             for text, which in zip(texts, (sys.executable, python), strict=True)]  # fmt: skip
    assert found[0] == found[1]
    assert found[0][0] == "labels"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_iterators_do_what_dalis_do(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    python = dalis_python("torch")
    for i in range(12):
        (tmp_path / f"{i:02}").write_bytes(bytes([i]))
    theirs = json.loads(run(for_dali(ITERATORS)[0], tmp_path, str(tmp_path), python=python))
    ours = json.loads(run(ITERATORS.read_text(), tmp_path, str(tmp_path)))
    assert ours.keys() == theirs.keys()
    same = 0
    for key, value in theirs.items():
        if key == "size 10 FILL":  # DALI takes what went beyond the size from the next epoch
            assert (value[0], ours[key][0]) == ([3, 3, 2], [3, 3, 3])
            assert ours[key][1:] == value[1:]
        elif "shards" not in key or (("pad True" in key or is_whole(key)) and "1 shards" in key):
            assert ours[key] == value, key
            same += 1
        elif "1 shards" in key:  # DALI goes on into the next epoch, and begins that later
            assert "FILL" in key or ours[key][2][0] == value[2][0], key
        elif "pad True" in key and "DROP" not in key:  # DALI's shards are parts, ours take turns
            assert ours[key][:2] == value[:2], key
            assert sizes(ours[key]) == sizes(value), key
            same += 1
    assert same > 20


def is_whole(key):
    """Whether the samples are full batches."""
    count, size = map(int, re.findall(r"\d+", key)[:2])
    return count % size == 0


def sizes(found):
    """Of each batch of each epoch, over all shards."""
    return [[sorted(map(len, batch)) for batch in epoch] for epoch in found[2]]


CONSTANTS = """
import numpy
import dynamic as ndd
from nvidia.dali import types

image = numpy.arange(48, dtype=numpy.uint8).reshape(4, 4, 3)
for constant, word in [(types.INTERP_NN, "nn"), (types.INTERP_CUBIC, "cubic")]:
    got, expected = (ndd.resize(image, size=(7, 9), interp_type=one).numpy() for one in (constant, word))
    assert (got == expected).all()
grey = ndd.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)
assert (grey.numpy() == ndd.color_space_conversion(image, image_type="rgb", output_type="gray").numpy()).all()
for name in ndd.types.DALIDataType.__members__:
    assert ndd.cast(image, dtype=getattr(types, name)).dtype == ndd.dtype(getattr(ndd.types, name))
kinds = ndd.as_batch([numpy.int32(types.INTERP_NN), numpy.int32(types.INTERP_LINEAR)])
assert ndd.resize(ndd.as_batch([image, image]), size=5, interp_type=kinds).shape == [(5, 5, 3)] * 2
"""


def test_dalis_own_constants_are_understood(tmp_path):
    python = dalis_python("cv2", "simplejpeg", "cykooz_resizer")
    run(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CONSTANTS}", tmp_path, python=python)


def test_runs_after_the_end_of_a_source_are_dalis(tmp_path):
    job = ROOT / "tests" / "ending_job.py"
    ours = run(job.read_text(), tmp_path)
    assert len(ours.splitlines()) == 15
    text, exchanged = for_dali(job)
    assert len(exchanged) == 1
    assert run(text, tmp_path, python=dalis_python()) == ours


OBJECTS = """
import numpy
import dynamic as ndd
import nvidia.dali.experimental.dynamic as theirs
from nvidia.dali import fn, pipeline_def, types

@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def made():
    numbers = fn.random.uniform(range=[0.0, 255.0], shape=[2, 4, 3], seed=1)
    return fn.reshape(fn.cast(numbers, dtype=types.UINT8), layout="HWC")

found, = made().run()
samples = [numpy.asarray(found[i]) for i in range(3)]
for batch in (found, theirs.as_batch(found)):
    ours = ndd.as_batch(batch)
    assert (ours.layout, ours.dtype, len(ours)) == ("HWC", ndd.uint8, 3)
    assert all((a == b).all() for a, b in zip(ours.samples, samples, strict=True))
    assert ndd.as_tensor(batch).layout == "NHWC"
    assert ndd.as_batch(batch, dtype="float32", layout="ABC").layout == "ABC"
for one in (found[0], theirs.as_tensor(found[0])):
    assert ndd.as_tensor(one).layout == "HWC"
    assert (ndd.as_tensor(one).numpy() == samples[0]).all()
    assert ndd.as_batch(one).layout == "WC"

@pipeline_def(batch_size=2, num_threads=1, device_id=None, exec_dynamic=False)  # which uses its memory again
def counting():
    return fn.external_source(source=lambda i: [numpy.full(2, i)] * 2)

pipe = counting()
output, = pipe.run()
batch, tensor = ndd.as_batch(output), ndd.as_tensor(output[0])
for _ in range(6):
    pipe.run()
assert batch.tolist() == [[0, 0]] * 2
assert tensor.tolist() == [0, 0]
"""


def test_what_dali_gives_is_taken_with_its_layout(tmp_path):
    python = dalis_python("cv2", "simplejpeg", "cykooz_resizer")
    run(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{OBJECTS}", tmp_path, python=python)
