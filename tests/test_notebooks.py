"""The notebooks run, and have the results that are stored in them."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def pixels(text):
    return np.asarray(Image.open(io.BytesIO(b64decode(text)))).astype(int)


def parts(output):
    """A result without its pictures, and these."""
    data = dict(output.get("data", {}))
    page = "".join(data.pop("text/html", []))
    pictures = [*re.findall(r"base64,([^\"]*)", page), *filter(None, [data.pop("image/jpeg", "")])]
    page = re.sub(r"base64,[^\"]*", "", page)
    return {**output, "data": data, "page": page}, [pixels(picture) for picture in pictures]


def assert_equal(stored, found):
    """Compare two results of a cell: texts exactly, pictures to the rounding of an encoder."""
    (stored, old), (found, new) = parts(stored), parts(found)
    assert stored == found
    for before, after in zip(old, new, strict=True):
        assert before.shape == after.shape
        assert np.abs(before - after).max() <= 8


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_results_of_its_code(path, tmp_path):
    pytest.importorskip("IPython", reason="the group 'test' is not installed")
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    command = [sys.executable, DOCS / "make_notebooks.py", path, tmp_path / path.name]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    stored, found = code_cells(path), code_cells(tmp_path / path.name)
    assert [cell["source"] for cell in stored] == [cell["source"] for cell in found]
    for old, new in zip(stored, found, strict=True):
        assert old["execution_count"] == new["execution_count"]
        for pair in zip(old["outputs"], new["outputs"], strict=True):
            assert_equal(*pair)
    assert {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()} == before


def test_there_are_notebooks_and_they_are_small():
    assert len(NOTEBOOKS) >= 3
    for path in NOTEBOOKS:
        cells = code_cells(path)
        assert any(cell["outputs"] for cell in cells)
        assert all(cell["execution_count"] == count for count, cell in enumerate(cells, 1))
        assert path.stat().st_size < 200_000
    assert sum(file.stat().st_size for file in (DOCS / "notebooks").rglob("*.jpg")) < 100_000


def test_other_results_are_noticed():
    text = {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    assert_equal(text, text)
    with pytest.raises(AssertionError):
        assert_equal(text, {**text, "text": ["2\n"]})
    with pytest.raises(AssertionError):
        assert_equal(text, {"data": {"text/plain": ["1\n"]}, "output_type": "execute_result"})
    pictures = []
    for level in (0, 40):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (level,) * 3).save(file, "JPEG")
        pictures.append({"data": {"image/jpeg": b64encode(file.getvalue()).decode()}, "output_type": "execute_result"})
    with pytest.raises(AssertionError):
        assert_equal(*pictures)
