"""The page of the operators: made from the declarations, complete, and with the pictures that the operators make."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import make_operators
import numpy as np
import pytest

from dynamic._operator import registry

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_what_the_declarations_make():
    hint = "run `python docs/make_operators.py`"
    assert (DOCS / "operators.md").read_text() == make_operators.page(), hint


def test_every_operator_is_on_the_page():
    headings = re.findall(r"^### (.*)$", make_operators.page(), re.M)
    assert len(headings) == len(set(headings))
    assert set(registry) <= set(headings)
    assert set(make_operators.SHOWN) <= set(headings)


def test_every_entry_has_an_example_and_operators_tell_what_they_return():
    for entry in re.split(r"^### ", make_operators.page(), flags=re.M)[1:]:
        assert "\n>>> " in entry, entry.split("\n", 1)[0]
        assert "**Returns**" in entry or entry.split("\n", 1)[0] not in registry


@pytest.mark.parametrize("name", make_operators.SHOWN)
def test_pictures_show_what_the_operators_do(name):
    pytest.importorskip("skimage")
    photo = make_operators.photo()
    expected = make_operators.picture(name, photo)
    file = cv2.imread(str(DOCS / "pictures" / f"{name}.jpg"))[..., ::-1]
    assert file.shape == expected.shape
    blurred = [cv2.blur(image, (5, 5)).astype(int) for image in (file, expected)]
    assert np.abs(blurred[0] - blurred[1]).mean() < 4  # it was stored as a JPEG
    assert name == "crop" or expected.shape != photo.shape or np.abs(expected.astype(int) - photo.numpy()).mean() > 1
