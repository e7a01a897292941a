"""Images as files to look at."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from dali_oracle import Samples, dali_fixture  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.pipeline import fn, pipeline_def


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3),
    st.sampled_from([("HWC", 3), ("HWC", 1), ("CHW", 3), ("CHW", 1), ("HW", 1)]),
    st.integers(0, 99),
)
def test_other_programs_read_the_images(monkeypatch, tmp_path_factory, sizes, kind, seed):
    folder = tmp_path_factory.mktemp("images")
    monkeypatch.chdir(folder)
    (layout, channels), generator = kind, np.random.default_rng(seed)
    extents = [{"H": h, "W": w, "C": channels} for h, w in sizes]
    images = [generator.integers(0, 256, [each[x] for x in layout], np.uint8) for each in extents]
    found = ndd.dump_image(ndd.as_batch(images, layout=layout), suffix="some")
    assert sorted(path.name for path in folder.iterdir()) == [f"{i}-some-0.ppm" for i in range(len(images))]
    assert found.layout == layout
    for i, image in enumerate(images):
        assert np.array_equal(found.samples[i], image)
        assert not np.shares_memory(found.samples[i], image)
        read = cv2.imread(f"{i}-some-0.ppm", cv2.IMREAD_COLOR_RGB if channels == 3 else cv2.IMREAD_GRAYSCALE)
        plain = image.transpose(1, 2, 0) if layout == "CHW" else image
        assert np.array_equal(read.reshape(*read.shape[:2], -1), plain.reshape(*plain.shape[:2], -1))


@pytest.mark.parametrize(("image", "arguments", "told"), [
    (np.zeros((2, 3, 2), np.uint8), {}, "'image' must be of 1 or 3 channels"),
    (np.zeros((2, 3, 3), np.uint8), {"suffix": "../x"}, "'suffix' must be a part of the name"),
    (np.zeros((2, 3, 3), np.int16), {}, "'image' must be of dtype uint8"),
    (np.zeros((2, 2, 3, 3), np.uint8), {}, "'image' must be laid out as HWC, CHW, HW"),
    (np.zeros((2, 3, 3), np.uint8), {"input_layout": "CWH"}, "'input_layout' must be one of"),
])  # fmt: skip
def test_wrong_calls_write_nothing(monkeypatch, tmp_path, image, arguments, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=told):
        ndd.dump_image(ndd.as_batch([image]), **arguments)
    assert not [*tmp_path.iterdir()]


def test_pipelines_have_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=0)
    def dumped():
        return fn.dump_image(fn.external_source(lambda: [image, image]), suffix="of")

    (found,) = dumped().run()
    assert np.array_equal(found.samples[1], image)
    assert {path.name for path in tmp_path.iterdir()} == {"0-of-0.ppm", "1-of-0.ppm"}


def test_files_have_the_pixels_of_those_of_dali(dali, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(3)
    images = [generator.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((2, 30), (5, 4))]
    dali.script(
        f"import os; os.chdir({str(tmp_path)!r}); ndd.dump_image(ndd.as_batch([a, b], layout='HWC'), "
        "suffix='theirs').evaluate(); os.chdir('/'); result = 0",
        a=images[0], b=images[1],
    )  # fmt: skip
    ndd.dump_image(ndd.as_batch(images), suffix="ours")
    for i in range(2):
        theirs, ours = ((tmp_path / f"{i}-{name}-0.ppm").read_text().split() for name in ("theirs", "ours"))
        assert ours == theirs
