"""What operators hold while they work: their inputs, their results, and the temporaries of one sample a thread."""

from __future__ import annotations

import collections
import gc
import tracemalloc

import numpy as np
import pytest
import simplejpeg
from operators import CASES, given

import dynamic
from dynamic._arrays import memory
from dynamic._base import pool

HEIGHT, WIDTH = 246, 250
FEW, MANY = 3, 9
OF_PYTHON = 8 << 10  # bytes that each sample may add: views, tuples, arguments
OF_IMAGES = [c for c in CASES if c.of in ("images", "files", "paths") and c.name != "x * 2.0 + 1.0"]


@pytest.fixture(autouse=True)
def _one_thread_and_nothing_used_again(monkeypatch):
    monkeypatch.setattr(memory, "_limit", 0)
    monkeypatch.setattr(memory, "_free", collections.defaultdict(collections.deque))
    with pool.limited(1):
        yield


def held(case, samples):
    """Bytes at the peak of a call beyond what was there before and what is its result, and those of the result."""
    data = given(dynamic, case, samples)
    gc.collect()
    tracemalloc.start()
    result = case.call(dynamic, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(sample.nbytes for sample in result)
    return peak - size, size


def written(path, file):
    """A path with the bytes of a file there."""
    file.tofile(path)
    return str(path)


@pytest.mark.parametrize("ragged", [False, True], ids=["alike", "ragged"])
@pytest.mark.parametrize("case", OF_IMAGES, ids=lambda case: case.name)
@pytest.mark.slow
def test_no_operator_holds_temporaries_of_all_samples(case, ragged, tmp_path):
    drawn = np.random.default_rng(0)
    images = [drawn.integers(0, 255, (HEIGHT + 2 * ragged * i, WIDTH, 3), np.uint8) for i in range(MANY)]
    samples, read = images, 0
    if case.of != "images":
        samples = [np.frombuffer(simplejpeg.encode_jpeg(image), np.uint8) for image in images]
    if case.of == "paths":
        read = sum(map(len, samples[FEW:]))  # its inputs too
        samples = [written(tmp_path / f"{i}.jpg", file) for i, file in enumerate(samples)]
    case.call(dynamic, given(dynamic, case, samples[:2]))  # what is kept for all calls is there now
    few, _ = held(case, samples[:FEW])
    many, _ = held(case, samples)
    assert many - few < read + 2 * images[-1].nbytes + (MANY - FEW) * OF_PYTHON  # windows of random size differ


def test_it_would_be_seen():
    """Arithmetic in two steps holds the result of the first."""
    case = next(c for c in CASES if c.name == "x * 2.0 + 1.0")
    images = [np.zeros((HEIGHT, WIDTH, 3), np.uint8)] * MANY
    few, its_size = held(case, images[:FEW])
    many, size = held(case, images)
    assert many - few > (size - its_size) / 2
