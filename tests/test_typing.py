"""What a type checker says of calls as users write them: all examples, every spelling of an argument, and mistakes."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dynamic import noise, random, segmentation
from dynamic._lift.operator import registry
from dynamic.auto_aug import auto_augment, core, rand_augment, trivial_augment

pytestmark = pytest.mark.slow

BEGINNING = """\
from typing import Any
import numpy
import numpy as np
import dynamic as ndd
from dynamic import types
images: ndd.Batch
image: ndd.Tensor
numbers: ndd.Batch
"""
#: What each line is, where it is no error.
SPELLINGS = {
    "ndd.resize(images, size=[4, 4])": "Batch",
    "ndd.resize(images, size=(4.5, 4.5), interp_type=types.INTERP_LINEAR)": "Batch",
    "ndd.resize(image, size=np.array([4, 4]))": "Tensor",
    "ndd.resize(images, size=numbers, mode='not_larger')": "Batch",
    "ndd.rotate(image, angle=30)": "Tensor",
    "ndd.rotate(images, angle=np.float32(30), fill_value=[0, 1, 2])": "Batch",
    "ndd.rotate(images, angle=ndd.random.uniform(range=[-30, 30], batch_size=2), size=[4, 4])": "Batch",
    "ndd.rotate(np.zeros((4, 4, 3), np.uint8), angle=3.5, axis=[0, 0, 1])": "Tensor",
    "ndd.rotate(image, angle=3.5, batch_size=2)": "Batch",
    "ndd.crop_mirror_normalize(images, mean=[0.5], std=[0.5, 0.5, 0.5], mirror=numbers, crop=[2, 2])": "Batch",
    "ndd.decoders.image(images, output_type='BGR')": "Batch",
    "ndd.decoders.image(b'', output_type=types.GRAY, dtype=np.float32)": "Tensor",
    "ndd.reductions.mean(images, axes=[0, 1])": "Batch",
    "ndd.reductions.max(image, axis_names='HW', keep_dims=True)": "Tensor",
    "ndd.transpose(images, perm=[2, 0, 1])": "Batch",
    "ndd.stack(images, images, axis=1)": "Batch",
    "ndd.warp_affine(images, matrix=[[1, 0, 0], [0, 1, 0]], size=[3, 3])": "Batch",
    "ndd.cast(images, dtype=types.FLOAT)": "Batch",
    "ndd.cast(image, dtype='float32')": "Tensor",
    "ndd.expand_dims(image, axes=[0])": "Tensor",
    "ndd.slice(images, start=[1, 1], end=numbers, axes=[0, 1])": "Batch",
    "ndd.pad(images, axes=(0, 1), shape=[4, 4])": "Batch",
    "ndd.math.sqrt(images)": "Batch",
    "ndd.color_twist(images, brightness=numbers, hue=3)": "Batch",
    "ndd.gaussian_blur(images, window_size=[3, 5])": "Batch",
    "ndd.random.uniform(batch_size=8)": "Batch",
    "ndd.random.normal(images, stddev=numbers)": "Batch",
    "ndd.random.coin_flip(probability=0.25)": "Tensor | Batch",
    "ndd.random.beta(alpha=2, beta=2, batch_size=None)": "Tensor | Batch",
    "ndd.random.choice(5, batch_size=8)": "Batch",
    "ndd.random_resized_crop(images, size=[4, 4], random_area=(0.1, 0.5))": "Batch",
    "ndd.random_resized_crop(image, size=4)": "Tensor | Batch",
    "ndd.decoders.image_random_crop(images, output_type='BGR')": "Batch",
    "ndd.noise.gaussian(images, stddev=numbers)": "Batch",
    "image[0]": "Tensor",
    "image / 255": "Tensor",
    "255 - image": "Tensor",
    "image * images": "Batch",
    "images + image": "Batch",
    "-(images % [2, 3, 5])": "Batch",
    "np.float32(2) ** images.cpu()": "Batch",
    "abs(image) < 3": "Tensor",
    "image >= images": "Batch",
    "1 << image": "Tensor",
}
MISTAKES = [
    "ndd.rotate(images)",
    "ndd.rotate(images, angel=30)",
    "ndd.rotate(images, angle='30')",
    "ndd.rotate(images, angle=30, layout='HWC')",
    "ndd.resize(images, size='large')",
    "ndd.crop(images, crop=[2, 2], crop_pos_x='left')",
    "ndd.reductions.mean(images, axes=[0.5])",
    "ndd.random.uniform(range=3)",
    "ndd.random.normal(images, sttdev=3)",
    "ndd.random_resized_crop(images)",
    "ndd.random_resized_crop(size=3)",
    "ndd.noise.gaussian(images, stddev='3')",
]


def told(lines: list[str], tmp_path) -> dict[int, str]:
    """What mypy says of the lines of a script, by their number from 0 on."""
    script = tmp_path / "script.py"
    script.write_text(BEGINNING + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context",
               "--disable-error-code=import-untyped", "--cache-dir", str(tmp_path.parent / "mypy"),
               str(script)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        match = re.match(r".*script\.py:(\d+): (?:error|note): (.*)", line)
        assert match, line
        number = int(match[1]) - 1 - BEGINNING.count("\n")
        found[number] = f"{found.get(number, '')}{match[2]}\n"
    return found


def functions():
    yield from registry.items()
    for module in (random, noise, segmentation):
        yield from ((f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__)
    policies = auto_augment.auto_augment, rand_augment.rand_augment, trivial_augment.trivial_augment_wide
    yield from ((function.__name__, function) for function in (*policies, core.augmentation, core.select, core.Policy))


def test_every_example_type_checks(tmp_path):
    lines: list[str] = []
    for i, (name, function) in enumerate(functions()):
        examples = doctest.DocTestParser().get_examples(function.__doc__ or "")
        assert examples, name
        body = "".join(example.source for example in examples)
        lines += [f"def f{i}() -> None:  # {name}", *textwrap.indent(body, "    ").splitlines()]
    found = told(lines, tmp_path)
    assert not found, [(lines[number], text) for number, text in found.items()]


def test_the_readme_type_checks(tmp_path):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    examples = doctest.DocTestParser().get_examples(readme)
    lines = "".join(example.source for example in examples if example.exc_msg is None).splitlines()
    assert lines
    found = told(lines, tmp_path)
    assert not found, [(lines[number], text) for number, text in found.items()]


#: A loop as users write it, and what its names are.
LOOP = """\
def loop() -> None:
    reader = ndd.readers.File(file_root="photos", random_shuffle=True)
    rng = ndd.random.RNG(seed=5)
    for jpegs, labels in reader.next_epoch(batch_size=8):
        decoded = ndd.decoders.image(jpegs)
        draws = rng.keyed(jpegs)
        angles = ndd.random.uniform(range=(-30, 30), rng=draws["angle"])
        rotated = ndd.rotate(decoded, angle=angles, keep_size=True)
        augmented = rand_augment.rand_augment(rotated, n=2, m=9, rng=draws)
        ready = ndd.crop_mirror_normalize(augmented, dtype=types.FLOAT, mean=[127.5], std=[64.0], output_layout="CHW")
        reveal_type((jpegs, decoded, rotated[0], rotated[1:], rotated.slice[0], next(iter(rotated)), ready))
    for jpegs, labels in reader.next_epoch():
        decoded = ndd.decoders.image(jpegs)
    ndd.checkpoint.save("run.json", reader=reader, rng=rng)
    ndd.checkpoint.load("run.json", reader=reader, rng=rng)
    features = ndd.readers.TFRecord(path="a", features={"x": ndd.readers.tfrecord.FixedLenFeature([], "string", "")})
    reveal_type([batch["x"] for batch in features.next_epoch(batch_size=2)])
    source = ndd.ExternalSource(lambda info: info.idx_in_epoch, batch=False)
    ndd.cast(source(batch_size=4), dtype="float32")
    reveal_type(ndd.cast(angles, dtype="float32"))
    reveal_type(reader.peek(4))
"""


def test_a_loop_type_checks_and_its_batches_are_batches(tmp_path):
    found = told(["from dynamic.auto_aug import rand_augment", *LOOP.splitlines()], tmp_path)
    kinds = [re.sub(r"dynamic\.data\._\w+\.", "", text).strip() for text in found.values()]
    assert kinds == [
        'Revealed type is "tuple[Batch, Batch, Tensor, Batch, Batch, Tensor, Batch]"',
        'Revealed type is "list[Batch]"',
        'Revealed type is "Batch | Tensor"',
        'Revealed type is "tuple[Batch, ...]"',
    ]


def test_arguments_may_be_spelled_as_they_are_taken(tmp_path):
    lines = [f"reveal_type({line})" for line in SPELLINGS]
    found = told(lines, tmp_path)
    for number, (line, kind) in enumerate(SPELLINGS.items()):
        said = re.sub(r"dynamic\.data\.\w+\.", "", found[number])
        assert said == f'Revealed type is "{kind}"\n', line


def test_mistakes_are_told(tmp_path):
    found = told(MISTAKES, tmp_path)
    assert found.keys() == set(range(len(MISTAKES))), [line for i, line in enumerate(MISTAKES) if i not in found]
