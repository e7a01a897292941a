"""Hostile files: none gives wrong pixels, crashes or costs much, all are refused with a reason; good ones decode."""

from __future__ import annotations

import dataclasses
import sys

import fuzzing
import hostile
import hostile_files
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import DecodeError, decoders, errors

FILES = hostile_files.files()
NAMES = st.sampled_from([name for name, file in FILES.items() if file.must == "decode"])


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_decoded_or_refused_as_it_should_be(name, capfd):
    file = FILES[name]
    try:
        pixels = decoders.image(file.data).array
        answer = hostile.Answer(pixels, pixels.shape)
    except DecodeError as error:
        answer = hostile.Answer(error=str(error), kind=type(error).__name__)
    assert not hostile.fault(file, answer), answer.error
    if file.must == "limit":
        assert answer.kind == "ImageTooLarge"
        assert "max_" in answer.error
    assert capfd.readouterr() == ("", "")


def test_the_files_are_many_and_the_same_every_time():
    assert len(FILES) >= 420
    assert {file.format for file in FILES.values()} == set(hostile_files.FORMATS)
    hostile_files.files.cache_clear()
    assert {name: file.data for name, file in hostile_files.files().items()} == {n: f.data for n, f in FILES.items()}


@given(name=NAMES, data=st.data())
def test_cuts_are_refused_or_leave_the_image_whole(name, data):
    file = FILES[name]
    end = data.draw(st.integers(0, len(file.data) - 1))
    try:
        found = decoders.image(np.frombuffer(file.data[:end], np.uint8)).array
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017
    else:  # what was cut off did not belong to the image
        assert not hostile.fault(file, hostile.Answer(found, found.shape))


@given(name=NAMES, seed=st.integers(0, 2**32), repair=st.booleans())
def test_damage_gives_an_image_or_an_error(name, seed, repair):
    chance = fuzzing.random.Random(seed)
    data = fuzzing.damaged(FILES[name].data, [FILES[name].data], chance)
    fuzzing.check("decode", fuzzing.repaired(data) if repair else data)


SIGNATURES = (
    b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"II*\0", b"MM\0*", b"P5 ", b"P1 ", b"\xff\x4f\xff\x51",
    b"RIFF\x40\0\0\0WEBPVP8L", b"\0\0\0\x0cjP  \r\n\x87\n",
)  # fmt: skip


@given(content=st.binary(max_size=200), start=st.sampled_from(SIGNATURES))
def test_any_bytes_give_an_image_or_an_error(content, start):
    fuzzing.check("decode", start + content)


def test_faults_of_decoders_are_seen():
    """The judge itself: what crashes, hangs, is wrong, refused or costly is called so."""
    good, bad = FILES["PNG: filter 0"], FILES["PNG: no pixels"]
    right = hostile.Answer(good.pixels, good.pixels.shape)
    assert hostile.fault(good, right) == ""
    assert hostile.fault(good, hostile.Answer(255 - good.pixels, good.pixels.shape)) == "garbage"
    assert hostile.fault(good, hostile.Answer(good.pixels[1:], good.pixels[1:].shape)) == "garbage"
    assert hostile.fault(good, hostile.Answer(error="no")) == "refused"
    assert hostile.fault(bad, right) == "garbage"
    assert hostile.fault(bad, hostile.Answer(error="no", seconds=0.6)) == "costly"
    assert hostile.fault(bad, hostile.Answer(error="no", memory=65 << 20)) == "costly"
    assert hostile.fault(FILES["JPEG: 300 scans"], right) == "bomb"
    assert hostile.fault(bad, hostile.Answer(kind="crash")) == "crash"
    choice = FILES["WebP: moving"]
    assert hostile.fault(choice, right) == "garbage"
    assert hostile.fault(choice, right, ours=False) == ""


def test_a_child_that_crashes_or_hangs_is_survived():
    with hostile.Child("ours", seconds=20) as child:
        assert child.decode(FILES["PNG: filter 0"].data).pixels is not None
        child._process.kill()
        child._process.wait()
        assert child.decode(b"text").kind == "crash"
        answer = child.decode(b"text")
        assert (answer.kind, answer.printed) == ("UnsupportedImage", 0)
    with hostile.Child("ours", seconds=0.2) as child:
        child._command = [sys.executable, "-c", "import time; time.sleep(60)"]
        assert child.decode(b"text").kind == "hang"


def test_goals_are_missed_where_they_are(monkeypatch):
    file = dataclasses.replace(FILES["PNG: filter 0"], must="refuse", pixels=None)
    monkeypatch.setattr(hostile_files, "files", lambda: FILES | {file.name: file})
    figure, holds = hostile.told.measure(True)
    assert not holds, figure


def test_limits_are_arguments_and_told_by_name():
    flat = FILES["PNG: 144 million pixels in a few kilobytes"].data
    with pytest.raises(errors.ImageTooLarge, match="max_pixels=134217728; pass a larger max_pixels"):
        decoders.image(flat)
    scans = FILES["JPEG: 300 scans, not progressive"].data
    with pytest.raises(errors.ImageTooLarge, match="max_scans=100"):
        decoders.image(scans)
