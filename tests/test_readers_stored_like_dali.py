"""Readers of RecordIO, LMDB and FITS files against DALI, as it was recorded and as it answers now."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import dali_fixture  # noqa: F401
from record_dali import unpack
from record_stored import asked, recorded, written

from dynamic import experimental, readers
from dynamic.errors import DataError

CASES = recorded()
#: DALI reads the planes of a raw image of Caffe as if they were pixels.
PLANES = {"raw, of several": (3, 2, 4)}
HOLES = ("not a number",)  # for which DALI gives other numbers in compressed images
cases = pytest.mark.parametrize("name", CASES)


def read(case, folder):
    """The samples that are read here; None where they are refused."""
    module = experimental.readers if case["reader"] == "Fits" else readers
    reader = getattr(module, case["reader"])(**written(case, folder))
    try:
        return [[np.asarray(tensor.array) for tensor in sample] for sample in reader.next_epoch()]
    except DataError:
        return None


def compare(name, found, answer):
    """As DALI's samples, bit for bit."""
    assert (found is None) == (answer is None)
    for mine, other in zip(found or (), answer or (), strict=True):
        if name in PLANES:
            other[0] = other[0].reshape(PLANES[name]).transpose(1, 2, 0)
        for array, expected in zip(mine, other, strict=True):
            if name in HOLES:
                assert np.isnan(array).sum() == 2 * 3
                expected = np.where(np.isnan(array), array, expected)
            np.testing.assert_array_equal(array, expected, strict=True)


@cases
def test_as_dali_was_recorded(name, tmp_path):
    answer = CASES[name]["answer"]
    answer = None if answer is None else [[unpack(array) for array in sample] for sample in answer]
    compare(name, read(CASES[name], tmp_path), answer)


@pytest.mark.slow
@cases
def test_as_dali_answers(name, dali, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    compare(name, read(CASES[name], tmp_path / "a"), asked(dali, CASES[name], tmp_path / "b"))
