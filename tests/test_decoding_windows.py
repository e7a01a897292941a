"""Decoding windows: the pixels of decoding all and cutting, the draws of random_crop_generator, and DALI's windows."""

from __future__ import annotations

import contextlib
import random

import corpus
import numpy as np
import pytest
import simplejpeg
from dali_oracle import Laid, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, Batch, DecodeError, _core, as_batch, crop, decoders, random_crop_generator
from dynamic._core import jpeg as core
from dynamic.decoders import _photos
from dynamic.random import RNG

FORMATS = corpus.small_files()
BAD = corpus.bad()
FORMATS |= {
    f"JPEG {name} {sampling}": corpus.encoded(corpus.photo(70, 57), "JPEG", subsampling=sampling, quality=90, **options)
    for sampling in (0, 1, 2)
    for name, options in {"baseline": {}, "progressive": {"progressive": True}, "optimised": {"optimize": True}}.items()
}
FORMATS["JPEG restarts"] = corpus.encoded(corpus.photo(70, 57), "JPEG", restart_marker_rows=1)
OUTPUTS = ["RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"]
parts = st.floats(0, 1, width=32)


needs_core = pytest.mark.skipif(not core.is_here(), reason="no native path is here")


@pytest.fixture(autouse=True, scope="module", params=[False, pytest.param(True, marks=needs_core)])
def with_core(request):
    """Every test without the native path, and with it."""
    with contextlib.nullcontext() if request.param else _core.left_out(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_photos, "_FEW", 1)
        yield request.param


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_a_window_is_a_part_of_the_image(name, data):
    file = FORMATS[name]
    arguments = {
        "output_type": data.draw(st.sampled_from(OUTPUTS)), "use_fast_idct": data.draw(st.booleans()),
        "dtype": data.draw(st.sampled_from(["uint8", "float32", "uint16"])),
    }  # fmt: skip
    whole = decoders.image(file, **arguments)
    height, width = whole.shape[:2]
    rows, columns = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    window = {"crop": (rows, columns), "crop_pos_x": data.draw(parts), "crop_pos_y": data.draw(parts)}
    found = decoders.image_crop(file, **arguments, **window)
    assert found.layout == "HWC"
    assert np.array_equal(found.array, crop(whole, **window).array)
    y, x = data.draw(st.integers(0, height - rows)), data.draw(st.integers(0, width - columns))
    expected = whole.array[y : y + rows, x : x + columns]
    sliced = decoders.image_slice(file, start=(x, y), shape=(columns, rows), **arguments)
    assert sliced.dtype == whole.dtype
    assert np.array_equal(sliced.array, expected)
    by_anchor = decoders.image_slice(file, [y, x], [rows, columns], axes=(0, 1), **arguments)
    assert np.array_equal(by_anchor.array, expected)


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("upright", [False, True])
def test_windows_are_those_of_upright_images(format, orientation, upright):
    file = corpus.encoded(corpus.photo(40, 27), format, orientation)
    whole = decoders.image(file, adjust_orientation=upright).array
    for y, x, rows, columns in ((0, 0, 9, 5), (3, 6, 4, 20), (11, 2, 13, 1), (20, 20, 7, 7)):
        found = decoders.image_slice(file, [y, x], [rows, columns], axes=(0, 1), adjust_orientation=upright)
        assert np.array_equal(found.array, whole[y : y + rows, x : x + columns])
    drawn = decoders.image_random_crop(file, adjust_orientation=upright, rng=RNG(3)).array
    (y, x), (rows, columns) = random_crop_generator(whole.shape, rng=RNG(3))
    assert np.array_equal(drawn, whole[y : y + rows, x : x + columns])


def test_rows_of_a_jpeg_below_the_window_are_not_decoded(with_core, monkeypatch):
    if with_core:
        pytest.skip("the native path decodes windows by itself")
    seen = []
    decode = simplejpeg.decode_jpeg

    def spy(data, *args, **kwargs):
        seen.append(simplejpeg.decode_jpeg_header(bytes(data))[0])
        return decode(data, *args, **kwargs)

    monkeypatch.setattr("dynamic.kernels.cpu.images.jpeg.simplejpeg.decode_jpeg", spy)
    for name, rows in (("baseline 2", [32]), ("baseline 0", [24]), ("progressive 2", [70])):
        seen.clear()
        decoders.image_slice(FORMATS[f"JPEG {name}"], end=24, axis_names="H")
        assert seen == rows  # of blocks, and one more row where colour has half the height
    seen.clear()
    decoders.image_slice(FORMATS["JPEG baseline 2"], start=40, axis_names="H")
    decoders.image_slice(FORMATS["JPEG restarts"], end=24, axis_names="H")
    assert seen == [70, 70]


SAMPLINGS = ["444", "422", "420", "440", "411", "gray"]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.slow
def test_every_window_is_a_part_of_the_image(sampling):
    noise = np.random.default_rng(1).integers(0, 256, (37, 71, 3), np.uint8)
    how = {"colorspace": "GRAY"} if sampling == "gray" else {"colorspace": "RGB", "colorsubsampling": sampling}
    pixels = noise[..., :1].copy() if sampling == "gray" else noise
    file = simplejpeg.encode_jpeg(pixels, 95, **how)
    whole = decoders.image(file).array
    rows, columns = ([(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in whole.shape[:2])
    chance = random.Random(2)
    for (y, bottom), (x, right) in [(r, chance.choice(columns)) for r in rows] + [
        (chance.choice(rows), c) for c in columns
    ]:
        found = decoders.image_slice(file, start=(x, y), end=(right, bottom))
        assert np.array_equal(found.array, whole[y:bottom, x:right]), (y, bottom, x, right)


def test_damage_above_the_end_of_the_window_is_found():
    file = bytearray(FORMATS["JPEG baseline 0"])
    scan = file.index(b"\xff\xda")
    found = 0
    for position in range(scan + 200, len(file) - 200, 60):
        damaged = file.copy()
        damaged[position : position + 8] = b"\xff\x00" * 4
        try:
            whole = decoders.image(bytes(damaged)).array
        except DecodeError:
            found += 1
            continue
        part = decoders.image_slice(bytes(damaged), end=24, axis_names="H").array
        assert np.array_equal(part, whole[:24])
    assert found
    for cut in (scan + 100, len(file) - 300, len(file) - 2):
        with pytest.raises(DecodeError):
            decoders.image_slice(bytes(file[:cut]), end=24, axis_names="H")


def damaged(file, chance):
    """A file in which some bytes are others, or are left out, or are put in."""
    file = bytearray(file)
    for _ in range(chance.randint(1, 4)):
        at, how = chance.randrange(len(file)), chance.random()
        if how < 0.5:
            file[at] = chance.randrange(256)
        elif how < 0.7:
            del file[at : at + chance.randint(1, 8)]
        elif how < 0.9:
            file[at:at] = chance.randbytes(chance.randint(1, 8))
        else:
            file[at : at + 2] = bytes([0xFF, chance.choice([0x00, 0xC0, 0xC4, 0xD0, 0xD9, 0xDA])])
    return bytes(file)


def both_ways(file, **arguments):
    """A window without the native path and with it: None where it is refused."""
    for way in (_core.left_out, contextlib.nullcontext):
        with way():
            try:
                yield decoders.image_slice(file, **arguments).array
            except (DecodeError, ArgumentError):  # no image, or a smaller one
                yield None


@needs_core
def test_damage_is_found_alike_in_both_ways(with_core):
    """A data set has the same samples on every machine: what "skip" leaves out does not depend on a native path."""
    if with_core:
        pytest.skip("both ways are tried at once")
    chance, found = random.Random(4), []
    files = [file for name, file in FORMATS.items() if "JPEG baseline" in name or name == "JPEG restarts"]
    for _ in range(1000):
        file = damaged(chance.choice(files), chance)
        y, x = chance.randrange(70), chance.randrange(57)
        window = {"start": (x, y), "shape": (chance.randint(1, 57 - x), chance.randint(1, 70 - y))}
        one, two = both_ways(file, **window)
        assert (one is None) == (two is None)
        assert one is None or np.array_equal(one, two)
        found.append(one is None)
    assert 200 < sum(found) < 900


@needs_core
@pytest.mark.parametrize("sampling", ["baseline 0", "baseline 1", "baseline 2", "440"])
@pytest.mark.parametrize("damage", ["zeros", "a restart", "an end", "a taller frame"])
def test_damage_at_any_place_is_found_alike_above_any_row(sampling, damage, with_core):
    """Rows of blocks below the window count in neither way, and those of its lowest row in both."""
    if with_core:
        pytest.skip("both ways are tried at once")
    good = FORMATS.get(f"JPEG {sampling}") or simplejpeg.encode_jpeg(corpus.photo(70, 57), 90, colorsubsampling="440")
    start, frame, found = good.index(b"\xff\xda") + 14, good.index(b"\xff\xc0"), set()
    taller = good[: frame + 5] + b"\x01\x00" + good[frame + 7 :]
    for at in range(start + 60, len(good) - 2, 150):
        file = {
            "zeros": good[:at] + bytes(6) + good[at + 6 :],
            "a restart": good[:at] + b"\xff\xd0" + good[at + 2 :],
            "an end": good[:at] + b"\xff\xd9",
            "a taller frame": taller[: len(good) - 2 - (at - start) // 40] + b"\xff\xd9",
        }[damage]
        for bottom in range(1, 70, 3 if at % 2 else 2):
            one, two = both_ways(file, end=(40, bottom))
            assert (one is None) == (two is None), (at, bottom)
            assert one is None or np.array_equal(one, two), (at, bottom)
            found.add(one is None)
    assert found == ({True} if damage == "a restart" else {True, False})


@needs_core
def test_a_bad_profile_counts_in_neither_way(with_core):
    if with_core:
        pytest.skip("both ways are tried at once")
    good = FORMATS["JPEG baseline 0"]
    profile = b"\xff\xe2\0\x40ICC_PROFILE\0\x05\x01" + bytes(48)
    for file, refused in ((good, False), (good[:-60] + b"\xff\xd9", True)):
        for bottom in (20, 70):
            for found in both_ways(file[:2] + profile + file[2:], end=(30, bottom)):
                assert (found is None) is (refused and bottom == 70)
                if found is not None:
                    assert np.array_equal(found, decoders.image(good).array[:bottom, :30])


@needs_core
def test_no_file_is_decoded_with_the_tables_of_another(with_core):
    if with_core:
        pytest.skip("both ways are tried at once")
    good = FORMATS["JPEG baseline 0"]
    bare = good.replace(b"\xff\xdb", b"\xff\xec")
    for file, refused in ((good, False), (bare, True), (good, False), (bare, True)):
        for found in both_ways(file, end=(30, 20)):
            assert (found is None) is refused


def test_random_windows_are_those_of_random_crop_generator():
    files = [FORMATS["JPEG baseline 2"], FORMATS["PNG"], FORMATS["JPEG progressive 1"], FORMATS["JPEG"]] * 3
    arguments = {"random_area": (0.2, 0.6), "random_aspect_ratio": (0.5, 2.0), "num_attempts": 5}
    batch = as_batch([np.frombuffer(file, np.uint8) for file in files])
    rng, other = RNG(7), RNG(7)
    found = decoders.image_random_crop(batch, rng=rng, output_type="GRAY", **arguments)
    anchors, shapes = random_crop_generator(ndd.peek_image_shape(batch), rng=other, **arguments)
    expected = decoders.image_slice(batch, anchors, shapes, axis_names="HW", output_type="GRAY")
    assert isinstance(found, Batch)
    assert all(np.array_equal(a, b) for a, b in zip(found.samples, expected.samples, strict=True))
    assert rng.state == other.state
    again = decoders.image_random_crop(batch, rng=RNG(7).keyed(range(12))["x"])
    reordered = decoders.image_random_crop(as_batch(batch.samples[::-1]), rng=RNG(7).keyed(range(11, -1, -1))["x"])
    assert all(np.array_equal(a, b) for a, b in zip(again.samples, reordered.samples[::-1], strict=True))
    assert len(decoders.image_random_crop(files[0], batch_size=5, rng=RNG(1))) == 5
    assert len(decoders.image_random_crop(Batch([], dtype=np.dtype("uint8"), ndim=1), rng=RNG(1))) == 0


def test_files_that_are_no_images_are_all_named_and_nothing_is_drawn():
    (bad, _), *_ = BAD.values()
    batch = as_batch([np.frombuffer(file, np.uint8) for file in (FORMATS["PNG"], bad, b"text", FORMATS["JPEG"])])
    rng = RNG(2)
    before = rng.state
    for function in (decoders.image_random_crop, decoders.image_crop, decoders.image_slice):
        arguments = {"rng": rng} if function is decoders.image_random_crop else {}
        arguments |= {"end": 2} if function is decoders.image_slice else {}
        with pytest.raises(DecodeError, match="2 of 4 samples cannot be read") as caught:
            function(batch, **arguments)
        assert caught.value.operator == f"decoders.{function.__name__}"
        assert [failure.index for failure in caught.value.failures] == [1, 2]
    assert rng.state == before
    with pytest.raises(DecodeError, match="max_pixels=10") as caught:
        decoders.image_random_crop(FORMATS["PNG"], max_pixels=10)
    with pytest.raises(DecodeError, match=r"^decoders.image_random_crop\(\)"):
        decoders.image_random_crop(FORMATS["JPEG restarts"][:-300] + b"\xff\xd9")


def test_empty_windows_have_no_pixels():
    assert decoders.image_slice(FORMATS["JPEG"], shape=(0, 3)).shape == (3, 0, 3)
    assert decoders.image_slice(FORMATS["PNG"], start=(2, 2), shape=0, output_type="GRAY").shape == (0, 0, 1)


@pytest.mark.parametrize(("function", "arguments", "told"), [
    (decoders.image_crop, {"crop": (22, 1)}, "'crop' must be no larger than 5 in H; got 22"),
    (decoders.image_crop, {"crop_h": 22, "crop_w": 1}, "'crop_h' must be no larger than 5 in H; got 22"),
    (decoders.image_crop, {"crop_h": 2, "crop_w": 99}, "'crop_w' must be no larger than 7 in W; got 99"),
    (decoders.image_crop, {"crop": (2, 1), "crop_h": 1}, "'crop' must be left out"),
    (decoders.image_slice, {"start": -1, "shape": 2}, "'start' must be inside of 0..5 in H; got -1..1"),
    (decoders.image_slice, {"start": 0, "axis_names": "C"}, "'axis_names'"),
    (decoders.image_slice, {}, "takes a start"),
    (decoders.image_random_crop, {"random_area": (0.5, 0.1)}, "'random_area' must be two finite"),
    (decoders.image_random_crop, {"random_aspect": 1}, "'random_aspect'"),
    (decoders.image_random_crop, {"dtype": "text"}, "'dtype'")])  # fmt: skip
def test_wrong_windows_are_named(function, arguments, told):
    with pytest.raises(ArgumentError, match=rf"decoders.{function.__name__}\(\)(:| has no)? (argument )?{told}"):
        function(FORMATS["PNG"], **arguments)


def near(found, expected):
    """Whether windows are equal; those of DALI that are one pixel wide may be a level off its own whole images."""
    if found.shape[1] == 1:
        return np.abs(found.astype(int) - expected).max() <= 1
    return np.array_equal(found, expected)


@given(data=st.data())
def test_windows_are_dalis(dali: Oracle, data):
    name = data.draw(st.sampled_from(["JPEG baseline 0", "JPEG baseline 1", "JPEG baseline 2", "JPEG progressive 2"]))
    file = np.frombuffer(FORMATS[name], np.uint8)
    width, height = data.draw(st.integers(1, 57)), data.draw(st.integers(1, 70))
    kind = {"output_type": data.draw(st.sampled_from(["RGB", "BGR", "GRAY"]))}
    window = {"crop": [height, width], "crop_pos_x": data.draw(parts), "crop_pos_y": data.draw(parts),
              "rounding": data.draw(st.sampled_from(["round", "truncate"]))}  # fmt: skip
    expected = dali.call("decoders.image_crop", [Laid(file, "")], **window, **kind)
    found = decoders.image_crop(file, **window, **kind)
    assert found.layout == expected.layout
    assert near(found.array, expected.array)
    start = [data.draw(st.integers(0, 57 - width)), data.draw(st.integers(0, 70 - height))]
    window = {"start": start, "shape": [width, height]}
    expected = dali.call("decoders.image_slice", [Laid(file, "")], **window, **kind)
    assert near(decoders.image_slice(file, **window, **kind).array, expected.array)
