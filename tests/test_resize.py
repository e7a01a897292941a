"""Resizing: how large results are, what is in them, by a plain float64 reference, and as DALI does it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, dali_fixture  # noqa: F401
from hypothesis import assume, given
from hypothesis import strategies as st

from dynamic import (
    ArgumentError,
    _core,
    as_batch,
    as_tensor,
    crop,
    flip,
    random,
    random_crop_generator,
    random_resized_crop,
    resize,
    resize_crop_mirror,
    tensor_resize,
)
from dynamic.kernels.cpu import resample, resizer, scaled
from dynamic.kernels.cpu.scaled import Along

FILTERS = ["nn", "linear", "cubic", "lanczos3", "gaussian"]
with_resizer = pytest.mark.skipif(not resizer.is_installed(), reason="cykooz-resizer is not installed")
PHOTO = np.random.default_rng(3).integers(0, 256, (37, 53, 3), dtype=np.uint8)
PHOTO.setflags(write=False)


@contextlib.contextmanager
def bands_of(size):
    """Images are resized so many bytes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaled, "_BAND", size)
        for found in (scaled._window, scaled._pieces):
            found.cache_clear()
        yield
    for found in (scaled._window, scaled._pieces):
        found.cache_clear()


def weight(filter, x):
    """The value of a filter at distances, in units of its width."""
    x = abs(x)
    if filter == "linear":
        return np.maximum(0, 1 - x)
    if filter == "gaussian":
        return np.exp(-4 * x**2) * (x <= 1)
    if filter == "lanczos3":
        return np.sinc(x) * np.sinc(x / 3) * (x < 3)
    return np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))


def resized(image, axis, size, start, end, filter, antialias=True):
    """One dimension resized by the definition: every pixel of the result from all pixels, far beyond the edges too."""
    extent, scale = image.shape[axis], (end - start) / size
    centres = start + (np.arange(size) + 0.5) * scale
    if filter == "nn":
        return image.take(np.clip(np.floor(centres), 0, extent - 1).astype(int), axis)
    wider = max(1.0, abs(scale)) if antialias else 1.0
    far = int(4 * wider + abs(end) + abs(start) + extent) + 2
    places = np.arange(-far, far)
    weights = weight(filter, (places + 0.5 - centres[:, None]) / wider)
    weights /= weights.sum(axis=1, keepdims=True)
    beyond = image.astype(np.float64).take(np.clip(places, 0, extent - 1), axis)
    return np.moveaxis(np.tensordot(weights, beyond, (1, axis)), 0, axis)


@given(data=st.data(), filter=st.sampled_from(["nn", "linear", "cubic", "lanczos3"]), antialias=st.booleans(),
       kind=st.sampled_from(["uint8", "int16", "float32", "float64", "uint16", "int64", "float16"]),
       layout=st.sampled_from(["HWC", "HW", "CHW", "FHWC", "FCHW", "CFHW", "DHW", "FDHWC"]))  # fmt: skip
def test_every_pixel_is_the_weighted_mean_around_it(data, filter, antialias, kind, layout):
    shape = [data.draw(st.integers(1, {"F": 2, "C": 5, "D": 4}.get(letter, 17))) for letter in layout]
    image = np.random.default_rng(1).integers(0, 200, shape).astype(kind)
    places = [layout.index(letter) for letter in "DHW" if letter in layout]
    size = [data.draw(st.integers(1, 19)) for _ in places]
    starts = [data.draw(st.floats(-2, 6, width=16)) for _ in places]
    ends = [start + data.draw(st.sampled_from([-3.0, 0.5, 2.25, 9.0])) for start in starts]
    found = resize(as_tensor(image, layout=layout), size=size, interp_type=filter, antialias=antialias,
                   roi_start=starts, roi_end=ends, dtype="float64")  # fmt: skip
    expected = image
    for place, extent, start, end in zip(places, size, starts, ends, strict=True):
        if filter == "nn":
            centres = start + (np.arange(extent) + 0.5) * (end - start) / extent
            assume((abs(centres - np.round(centres)) > 1e-3).all())
        expected = resized(expected, place, extent, start, end, filter, antialias)
    assert found.layout == layout
    np.testing.assert_allclose(found.array, expected, atol=0.2)  # the tables of the filters are not so fine
    whole = resize(as_tensor(image, layout=layout), size=size, interp_type=filter, antialias=antialias,
                   roi_start=starts, roi_end=ends)  # fmt: skip
    assert str(whole.dtype.dtype) == kind
    if image.dtype.kind in "iu":
        limits = np.iinfo(kind)
        assert abs(whole.array - np.clip(expected, limits.min, limits.max)).max() <= (1.2 if kind == "uint8" else 0.7)


WIDE = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(-1e300, 1e300).filter(lambda value: value == 0 or abs(value) > 1e-300),
}
NARROW = [np.dtype(kind) for kind in ("bool", "uint8", "int8", "uint16", "int16", "float16", "float32")]


@st.composite
def constants(draw):
    """A value that all of an image has, of any dtype."""
    kind = draw(st.sampled_from([*map(np.dtype, WIDE), *NARROW]))
    if kind.name in WIDE:
        return kind.type(draw(WIDE[kind.name]))
    if kind.kind == "f":
        return kind.type(draw(st.floats(-1e4, 1e4)))
    return draw(
        st.sampled_from([kind.type(1), *([] if kind.kind == "b" else [np.iinfo(kind).min, np.iinfo(kind).max])])
    )


@given(
    data=st.data(),
    value=constants(),
    filter=st.sampled_from(FILTERS),
    antialias=st.booleans(),
    channels=st.integers(1, 5),
)
def test_a_constant_stays_that_constant(data, value, filter, antialias, channels):
    image = as_tensor(np.broadcast_to(value, (13, 16, channels)), layout="HWC")
    size, how = (
        data.draw(st.tuples(st.integers(1, 40), st.integers(1, 40))),
        {"interp_type": filter, "antialias": antialias},
    )
    region = data.draw(st.sampled_from([{}, {"roi_start": (-2.5, 3.25), "roi_end": (20.0, 9.5)}]))
    found = [
        resize(image, size=size, **region, **how),
        tensor_resize(image, sizes=(*size, 3), **how),
        random_resized_crop(image, size=size, rng=random.RNG(1), **how),
        resize_crop_mirror(image, size=size, crop=(3, 2), mirror=3, **how),
        resize(image, size=size, dtype="float64", **region, **how),
    ]
    *same, wide = (each.array for each in found)
    for array in same:
        if array.dtype == np.float32:  # as many digits as DALI's have
            np.testing.assert_allclose(array, value, rtol=1e-6)
        else:
            assert (array == value).all()
    assert (wide == np.float64(value)).all()


@pytest.mark.parametrize("kind", ["int64", "uint64", "float64"])
def test_small_differences_of_large_values_keep_their_digits(kind):
    low = np.dtype(kind).type(2.0**62 if kind == "float64" else 2**63 - 99 if kind == "int64" else 2**64 - 99)
    step = np.spacing(low) if kind == "float64" else np.dtype(kind).type(1)
    small = np.random.default_rng(4).integers(0, 90, (13, 16)).astype(kind)
    found = resize(low + step * small, size=(7, 30), interp_type="cubic").array
    expected = resize(small.astype(np.float64), size=(7, 30), interp_type="cubic").array
    assert abs((found - low) / np.float64(step) - expected)[expected >= 0].max() <= 0.5001


@given(data=st.data(), channels=st.integers(1, 4), antialias=st.booleans())
def test_bytes_are_within_one_of_the_exact_values(data, channels, antialias):
    height, width = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 90))
    values = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 256, (height, width, channels))
    image = np.where(values > 127, 255, 0) if data.draw(st.booleans()) else values
    out = np.empty((data.draw(st.integers(1, 99)), data.draw(st.integers(1, 99)), channels), np.uint8)
    steps = []
    for extent in (height, width):
        ends = data.draw(st.tuples(st.floats(-9, extent + 9), st.floats(-9, extent + 9)))
        assume(abs(ends[0] - ends[1]) > 0.1)
        steps.append(Along(*data.draw(st.sampled_from([(0.0, float(extent)), ends])), "linear", antialias))
    exact = np.empty(out.shape, np.float32)
    with bands_of(data.draw(st.sampled_from([1 << 8, 1 << 20]))):
        resample.resample(image.astype(np.uint8), [*steps, None], out)
    resample.resample(image.astype(np.float32), [*steps, None], exact)
    assert abs(out - exact).max() <= 1.01


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("pillow", [resizer._pillow(), None], ids=["with Pillow", "without"])
def test_edges_and_mirrors_of_large_images(monkeypatch, channels, pillow):
    """Each way to go through an image: rows first, bands, and edges apart, with and without what is outside."""
    monkeypatch.setattr(resizer, "_pillow", lambda: pillow)
    image = np.random.default_rng(2).integers(0, 256, (70, 90, channels), dtype=np.uint8)
    image.setflags(write=False)
    regions = {
        70: [(0, 70), (-3, 70), (2.5, 75), (70, 0)],
        90: [(0, 90), (-4, 60), (20, 95), (-4, 95), (90, 0), (95, -4)],
    }
    with bands_of(1 << 8):
        for down, across, height, width in itertools.product(*regions.values(), (20, 60, 100), (2, 40, 150)):
            steps = [Along(*map(float, ends), "linear", antialias=True) for ends in (down, across)]
            out, exact = np.zeros((height, width, channels), np.uint8), np.empty((height, width, channels), np.float32)
            resample.resample(image, [*steps, None], out)
            resample.resample(image.astype(np.float32), [*steps, None], exact)
            assert abs(out - exact).max() <= 1.01, (down, across, height, width)


WITHOUT = """
import sys
for name in {hidden}:
    sys.modules[name] = None
import numpy, dynamic
photos = numpy.load({photos!r})
made = {{}}
for kind in ("uint8", "uint16", "float32"):
    for name in photos:
        photo = dynamic.as_tensor(photos[name].astype(kind), layout="HWC")
        for filter in ("linear", "cubic", "lanczos3"):
            for size in ((19, 30), (90, 20), (100, 140)):
                made[f"{{kind}} {{name}} {{filter}} {{size}}"] = dynamic.resize(photo, size=size, interp_type=filter)
        made[f"{{kind}} {{name}} random"] = dynamic.random_resized_crop(photo, size=24, rng=dynamic.random.RNG(3))
loaded = {{name for name in sys.modules if name.split(".")[0] in {{"cykooz_resizer", "PIL"}} and sys.modules[name]}}
numpy.savez({results!r}, loaded=sorted(loaded) or [""], **{{name: each.numpy() for name, each in made.items()}})
"""


@with_resizer
def test_resizing_needs_neither_cykooz_resizer_nor_pillow(tmp_path):
    """Bytes differ by one level at most, as they do from the exact values; the other types in their last digits."""
    np.savez(tmp_path / "photos.npz", rgb=PHOTO, gray=PHOTO[..., :1], large=np.tile(PHOTO, (9, 7, 1)))
    found = []
    for hidden in ([], ["cykooz_resizer", "PIL"], ["PIL"]):
        results = str(tmp_path / f"{len(hidden)}.npz")
        code = WITHOUT.format(hidden=hidden, photos=str(tmp_path / "photos.npz"), results=results)
        subprocess.run([sys.executable, "-c", code], check=True)
        with np.load(results) as arrays:
            found.append(dict(arrays))
    expected, without, without_pillow = found
    assert "cykooz_resizer" in expected.pop("loaded")
    assert without.pop("loaded").tolist() == [""]
    assert "PIL" not in without_pillow.pop("loaded")
    for name, array in expected.items():
        np.testing.assert_array_equal(without_pillow[name], array, err_msg=name)
        if array.dtype == np.float32:
            np.testing.assert_allclose(without[name], array, atol=1e-3, err_msg=name)
        else:
            assert abs(without[name].astype(int) - array).max() <= 1, name


@with_resizer
@pytest.mark.skipif(resizer._pillow() is None, reason="no Pillow whose images cykooz-resizer is known to read")
@given(st.data(), st.sampled_from([1, 3, 4]))
def test_images_of_pillow_make_no_difference(data, channels):
    """Memory that Pillow's images lend is used again: nothing of what was there before shows."""
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(3):
        shape, size = (data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60))) for _ in range(2))
        image = generator.integers(0, 256, (*shape, channels), dtype=np.uint8)
        image = data.draw(st.sampled_from([image, image[::-1, ::-1], np.asfortranarray(image)]))
        image.setflags(write=False)
        ends = [data.draw(st.tuples(*[st.floats(-9, extent + 9)] * 2)) for extent in shape]
        assume(all(abs(end - start) > 0.1 for start, end in ends))
        steps = {axis: Along(*where, "linear", antialias=True) for axis, where in enumerate(ends)}
        outs = [np.zeros((*size, channels), np.uint8) for _ in range(2)]
        with bands_of(data.draw(st.sampled_from([1 << 20, 1 << 10]))), _core.left_out():
            assert scaled.scale(image, steps, outs[0])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(resizer, "_pillow", lambda: None)
                assert scaled.scale(image, steps, outs[1])
        np.testing.assert_array_equal(*outs)


@with_resizer
@pytest.mark.parametrize("pillow", [resizer._pillow(), None], ids=["with Pillow", "without"])
def test_a_handler_of_a_signal_may_resize_in_the_midst_of_it(monkeypatch, pillow):
    other = PHOTO[::-1, ::-1].copy()
    expected = [resize(image, size=(20, 30)).array for image in (PHOTO, other)]
    within = []
    own = resizer._Resizer()

    class Core:
        """Of cykooz-resizer, with a signal before it works and one after that."""

        real = own._resizer

        def __getattr__(self, name):
            def call(*arguments):
                within.append(resize(other, size=(20, 30)).array)
                getattr(self.real, name)(*arguments)
                within.append(resize(other, size=(20, 30)).array)

            return call

    own._resizer = Core()
    monkeypatch.setattr(resizer, "_pillow", lambda: pillow)
    monkeypatch.setattr(resizer._of_thread, "resizer", own)
    with _core.left_out():
        np.testing.assert_array_equal(resize(PHOTO, size=(20, 30)).array, expected[0])
    assert len(within) == 2
    for found in within:
        np.testing.assert_array_equal(found, expected[1])


def test_large_images_are_resized_in_bands_and_their_edges_alone():
    image = np.random.default_rng(1).integers(0, 256, (700, 1100, 3), dtype=np.uint8)
    for arguments in ({"size": (90, 120)}, {"size": (-90, 1500)}, {"size": (800, -300), "roi_start": 3.5,
                      "roi_end": (500.25, 900.0)}, {"size": (9, 9), "roi_start": -20.0, "roi_end": 710.0}):  # fmt: skip
        found = resize(image, **arguments).array
        exact = resize(image, **arguments, dtype="float32").array
        assert abs(found - exact).max() <= 1.01


def test_the_right_edge_is_not_missed_by_a_rounding_error():
    image = np.random.default_rng(1).integers(0, 256, (16, 1500, 3), dtype=np.uint8)
    widths = [width for width in range(300, 1500) if width / 224 * 224 > width]
    assert len(widths) > 10
    for width in widths:
        region = {"size": (12, 224), "roi_start": (0.0, 1500.0 - width), "roi_end": (16.0, 1500.0)}
        with bands_of(1 << 8):
            found = resize(image, **region).array
        assert abs(found - resize(image, **region, dtype="float32").array).max() <= 1.01


@pytest.mark.parametrize(("shape", "arguments", "expected"), [
    ((100, 200), {"resize_x": 50}, (25, 50)), ((100, 201), {"resize_shorter": 50}, (50, 101)),
    ((375, 500), {"resize_shorter": 256}, (256, 341)), ((333, 500), {"resize_longer": 256}, (170, 256)),
    ((100, 200), {"size": [50, 60], "mode": "not_larger"}, (30, 60)),
    ((100, 200), {"size": [50, 60], "mode": "not_smaller"}, (50, 100)),
    ((100, 200), {"size": [50, 60], "mode": "not_smaller", "max_size": 80}, (40, 80)),
    ((100, 400), {"resize_shorter": 80, "max_size": 200}, (50, 200)), ((7, 9), {"size": [0, 0]}, (7, 9)),
    ((7, 9), {"size": 5}, (5, 5)), ((7, 9), {"size": [0.2, 0]}, (1, 1)), ((7, 9), {"size": [2.5, 3.49]}, (3, 3)),
    ((7, 9), {"resize_y": 3, "mode": "stretch"}, (3, 9)), ((7, 9), {"resize_z": 3}, (7, 9)),
    ((8, 9), {"size": [2, 0], "roi_start": [1, 2], "roi_end": [3, 5]}, (2, 3)),
    ((6, 9), {"size": [2, 0], "roi_start": [0.1, 0.2], "roi_end": [0.3, 0.5], "roi_relative": True}, (2, 4)),
    ((6, 9), {"size": [4, 4], "max_size": [0, 3]}, (4, 3)), ((0, 9), {"size": [2, 3]}, (0, 3))])  # fmt: skip
def test_sizes(shape, arguments, expected):
    assert resize(np.zeros(shape, np.uint8), **arguments).shape == expected


def test_a_region_may_be_a_point_or_far_away():
    image = np.arange(100, dtype=np.uint8)[None]
    for at, level in ((0.5, 0), (30.5, 30), (-9000, 0), (9000, 99)):
        found = resize(image, size=[1, 3], roi_start=[0, at], roi_end=[1, at])
        assert found.tolist() == [[level] * 3]
    assert resize(image[:0], size=[0, 3], roi_start=0, roi_end=9).shape == (0, 3)
    found = tensor_resize(image, sizes=3, axes=1, roi_start=0.5, roi_end=0.53, roi_relative=True)
    assert found.tolist() == [[50, 51, 52]]


def test_volumes_have_a_depth():
    volume = as_tensor(np.zeros((4, 6, 8, 2)), layout="DHWC")
    assert resize(volume, resize_z=2).shape == (2, 3, 4, 2)
    assert resize(volume, size=[2, 3, 5]).shape == (2, 3, 5, 2)
    assert resize(volume, resize_shorter=8).shape == (8, 12, 16, 2)


@given(size=st.tuples(st.integers(1, 40), st.integers(1, 40)), filter=st.sampled_from(FILTERS), bytes_=st.booleans())
def test_less_than_nothing_mirrors(size, filter, bytes_):
    image = as_tensor(PHOTO if bytes_ else PHOTO.astype(np.float32), layout="HWC")
    plain = resize(image, size=size, interp_type=filter).array
    for signs in itertools.product((1, -1), repeat=2):
        found = resize(image, size=[n * sign for n, sign in zip(size, signs, strict=True)], interp_type=filter).array
        start, end = ([0 if sign == s else n for sign, n in zip(signs, (37, 53), strict=True)] for s in (1, -1))
        other = resize(image, size=size, roi_start=start, roi_end=end, interp_type=filter).array
        assert np.array_equal(found, other)
        if filter in {"linear", "cubic", "lanczos3"}:
            np.testing.assert_allclose(found, plain[:: signs[0], :: signs[1]], atol=1 if bytes_ else 0.02)


@given(kind=st.sampled_from(["bool", "int8", "uint64", "int64", "float64", "uint8"]), filter=st.sampled_from(FILTERS))
def test_what_keeps_its_size_keeps_its_values(kind, filter):
    assume(filter != "gaussian")
    big = 2**62 + 1 if kind.endswith("64") and kind != "float64" else 1
    image = (np.arange(12).reshape(3, 4) * big // 3).astype(kind)
    assert np.array_equal(resize(image, size=[3, 4], interp_type=filter).array, image)
    assert np.array_equal(resize(image, size=[3, -4], interp_type="nn").array, image[:, ::-1])


def test_infinity_and_nan_reach_no_farther_than_the_filter():
    image = np.zeros((40, 60), np.float32)
    image[20, 30] = np.nan
    found = resize(image, size=[20, 30]).array
    assert 0 < np.isnan(found).sum() <= 16
    image[20, 30] = np.inf
    assert np.isfinite(resize(image, size=[80, 120], interp_type="cubic").array).sum() > 80 * 120 - 150


def test_filters_are_chosen_for_each_dimension():
    image = as_tensor(PHOTO.astype(np.float32), layout="HWC")
    found = resize(image, size=[20, 80], min_filter="lanczos3", mag_filter="nn").array
    expected = resized(resized(PHOTO, 0, 20, 0, 37, "lanczos3"), 1, 80, 0, 53, "nn")
    np.testing.assert_allclose(found, expected, atol=0.2)
    assert np.array_equal(
        resize(image, size=[20, 80], interp_type="triangular").array, resize(image, size=[20, 80]).array
    )
    words = as_batch([np.int32(0), np.int32(2)])  # DALI's numbers of "nn" and "cubic"
    both = resize(as_batch([PHOTO, PHOTO], layout="HWC"), size=[20, 20], interp_type=words)
    for i, word in enumerate(["nn", "cubic"]):
        assert np.array_equal(both[i].array, resize(PHOTO, size=[20, 20], interp_type=word).array)


def test_the_nearest_pixel_in_one_dimension_of_a_region_and_a_mean_in_the_other():
    image = np.random.default_rng(1).random((27, 16, 3), np.float32)
    arguments = {"roi_start": (0.2, 0.1), "roi_end": (0.9, 0.8), "roi_relative": True, "interp_type": "linear"}
    found = resize(image, size=(44, 9), **arguments, min_filter="nn").array
    y = 5.4 + (np.arange(44) + 0.5) * 18.9 / 44 - 0.5
    above, part = np.floor(y).astype(int), (y % 1)[:, None, None]
    x = np.floor(1.6 + (np.arange(9) + 0.5) * 11.2 / 9).astype(int)
    expected = image[above][:, x] * (1 - part) + image[above + 1][:, x] * part
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_scale_stays_where_a_size_is_rounded():
    image = np.arange(10, dtype=np.float32)[None]
    kept = resize(image, size=[1, 4.4]).array[0]
    np.testing.assert_allclose(np.diff(kept)[1:-1], 10 / 4.4, rtol=0.1)
    fitted = resize(image, size=[1, 4.4], subpixel_scale=False).array[0]
    np.testing.assert_allclose(fitted, resize(image, size=[1, 4]).array[0])


def test_the_extents_are_told_where_they_are_asked_for():
    made, extents = resize(as_batch([PHOTO, PHOTO[:9]], layout="HWC"), size=[4, 5], save_attrs=True)
    assert made.shape == [(4, 5, 3)] * 2
    assert (extents.whole.tolist(), str(extents.dtype.dtype)) == ([[37, 53], [9, 53]], "int32")
    _, extents = resize(as_tensor(PHOTO.transpose(2, 0, 1), layout="CHW"), size=[4, 5], save_attrs=True)
    assert extents.tolist() == [37, 53]
    _, extents = resize(PHOTO, size=as_batch([[4.0, 5.0], [1.0, 2.0]]), save_attrs=True)
    assert extents.whole.tolist() == [[37, 53]] * 2


@pytest.mark.parametrize(("operator", "arguments", "told"), [
    (resize, {}, "'size' must be one of"), (resize, {"size": 3, "resize_x": 3}, "'size' must be one of"),
    (resize, {"size": [1, 2, 3]}, "'size' must be one number or 2"), (resize, {"size": 3, "roi_start": 0}, "'roi_end'"),
    (resize, {"resize_shorter": 3, "mode": "stretch"}, "'mode' must be left out"),
    (resize, {"size": 3, "max_size": (1, 2, 3)}, "'max_size'"), (resize, {"size": 3, "mode": "fit"}, "'mode'"),
    (resize_crop_mirror, {"size": 3, "crop": (1, 1, 1)}, "'crop' must be 2 extents"),
    (tensor_resize, {}, "either 'sizes' or 'scales'"), (tensor_resize, {"sizes": 1, "scales": 1}, "'sizes'.*got both"),
    (tensor_resize, {"scales": 1, "mode": "not_larger"}, "'mode'"), (tensor_resize, {"sizes": 1, "axes": 3}, "'axes'"),
    (tensor_resize, {"sizes": 1, "axes": (0, 0)}, "'axes' must be different"),
    (tensor_resize, {"sizes": 1, "axis_names": "X"}, "'axis_names'"),
    (tensor_resize, {"sizes": 1, "axis_names": "H", "axes": 0}, "'axis_names' must be left out"),
    (random_resized_crop, {}, "'size'"), (random_resized_crop, {"size": (1, 2, 3)}, "'size'"),
    (random_resized_crop, {"size": 4, "random_area": (0.5, 0.1)}, "'random_area'"),
    (random_resized_crop, {"size": 0}, "'size'")])  # fmt: skip
def test_wrong_arguments_are_named(operator, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        operator(as_tensor(PHOTO, layout="HWC"), **arguments)


def test_nothing_cannot_be_shown():
    with pytest.raises(ArgumentError, match="'crop' must be 0 where the image has no pixels"):
        resize_crop_mirror(PHOTO[:0], size=3, crop=(2, 2))
    with pytest.raises(ArgumentError, match=r"'image' must be an image with pixels"):
        random_resized_crop(PHOTO[:0], size=3)
    with pytest.raises(ArgumentError, match=r"'size' must be an integer of at least 1"):
        random_resized_crop(PHOTO, size=(0, 5))
    with pytest.raises(ArgumentError, match="'image' must be laid out as"):
        random_resized_crop(as_tensor(np.zeros((2, 3, 4)), layout="DHW"), size=3)


@given(
    data=st.data(),
    mirror=st.integers(0, 3),
    filter=st.sampled_from(FILTERS),
    kind=st.sampled_from(["uint8", "float32"]),
)
def test_a_window_of_the_resized_image_mirrored(data, mirror, filter, kind):
    image = as_tensor(PHOTO.astype(kind), layout="HWC")
    shorter, window = data.draw(st.integers(10, 50)), [data.draw(st.integers(1, 10)) for _ in range(2)]
    places = {f"crop_pos_{axis}": data.draw(st.floats(0, 1, width=32)) for axis in "xy"}
    found = resize_crop_mirror(image, resize_shorter=shorter, interp_type=filter, crop=window, mirror=mirror, **places)
    whole = resize(image, resize_shorter=shorter, interp_type=filter)
    expected = flip(crop(whole, crop=window, **places), horizontal=mirror & 1, vertical=mirror >> 1).array
    if filter in {"linear", "cubic", "lanczos3"}:
        np.testing.assert_allclose(found.array, expected, atol=1 if kind == "uint8" else 0.1)
    assert found.shape == expected.shape


def test_a_window_beyond_the_edges_repeats_them():
    image = as_tensor(np.arange(1, 5, dtype=np.uint8)[None, :, None], layout="HWC")
    found = resize_crop_mirror(image, size=[1, 4], crop=[3, 8]).array[..., 0]
    assert found.tolist() == [[1, 1, 1, 2, 3, 4, 4, 4]] * 3
    found = resize_crop_mirror(image, size=[1, 4], crop=[1, 6], crop_pos_x=0.0, mirror=1, interp_type="nn")
    assert found.array[0, :, 0].tolist() == [4, 4, 4, 3, 2, 1]
    volume = as_tensor(np.arange(8.0).reshape(2, 2, 2), layout="DHW")
    assert np.array_equal(resize_crop_mirror(volume, size=2, mirror=5).array, volume.array[::-1, :, ::-1])


def test_any_dimensions_of_an_array():
    array = np.arange(24.0).reshape(2, 3, 4)
    assert tensor_resize(array, sizes=[4, 2], axes=[0, -1]).shape == (4, 3, 2)
    assert tensor_resize(as_tensor(array, layout="ABC"), scales=0.5, axis_names="CA").shape == (1, 3, 2)
    for rounding, expected in (("truncate", 2), ("round", 2), ("ceil", 3)):
        assert tensor_resize(array, scales=[0.6], axes=2, size_rounding=rounding).shape[2] == expected
    assert tensor_resize(array, sizes=[3], axes=[1], mode="not_larger").shape == (2, 3, 4)
    assert tensor_resize(array, sizes=[6], axes=[1], mode="not_smaller").shape == (4, 6, 8)
    arguments = {"sizes": [6], "axes": [1], "mode": "not_smaller"}
    given = tensor_resize(array, **arguments, alignment=0.5)  # which is the default, of all axes
    assert np.array_equal(given.array, tensor_resize(array, **arguments).array)
    found = tensor_resize(
        np.arange(6, dtype=np.float32), scales=0.4, alignment=as_batch([0.0, 0.5, 1.0]), antialias=False
    )
    np.testing.assert_allclose(found.whole, [[0.75, 3.25], [1.25, 3.75], [1.75, 4.25]], atol=1e-5)


@given(data=st.data(), seed=st.integers(0, 99), kind=st.sampled_from(["uint8", "float32"]),
       layout=st.sampled_from(["HWC", "CHW", "FHWC"]), channels=st.integers(1, 5))  # fmt: skip
def test_a_random_window_is_that_of_the_generator(data, seed, kind, layout, channels):
    size = data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60)))
    area = tuple(sorted(data.draw(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)))))
    photo = np.concatenate([PHOTO, 255 - PHOTO], axis=2)[..., :channels].astype(kind)
    places = {"HWC": (0, 1, 2), "CHW": (2, 0, 1)}.get(layout)
    laid = as_tensor(photo.transpose(places) if places else photo[None], layout=layout)
    with bands_of(data.draw(st.sampled_from([1 << 10, 1 << 20]))):
        found = random_resized_crop(laid, size=size, rng=random.RNG(seed), random_area=area)
        anchor, shape = random_crop_generator([37, 53], rng=random.RNG(seed), random_area=area)
        expected = resize(laid, size=size, roi_start=anchor, roi_end=anchor + shape)
    assert found.layout == layout
    assert np.array_equal(found.array, expected.array)


def test_each_sample_has_a_window_of_its_own():
    batch = as_batch([PHOTO, PHOTO[:20], PHOTO], layout="HWC")
    found = random_resized_crop(batch, size=16, rng=random.RNG(5))
    anchors, shapes = random_crop_generator(as_batch([[37, 53], [20, 53], [37, 53]]), rng=random.RNG(5))
    assert np.array_equal(found.whole, resize(batch, size=16, roi_start=anchors, roi_end=anchors + shapes).whole)
    assert not np.array_equal(found[0].array, found[2].array)
    keyed = random.RNG(5).keyed([7, 8, 9])
    again = random_resized_crop(batch[1:2], size=16, rng=random.RNG(5).keyed([8]))
    assert np.array_equal(random_resized_crop(batch, size=16, rng=keyed)[1].array, again[0].array)
    assert len(random_resized_crop(PHOTO, size=[4], batch_size=3, rng=random.RNG(1))) == 3
    filters = as_batch([np.int32(0), np.int32(1), np.int32(2)])
    random_resized_crop(batch, size=16, interp_type=filters, antialias=False, dtype="float32")
    empty = random_resized_crop(batch[0:0], size=16)
    assert (len(empty), empty.layout, empty.ndim) == (0, "HWC", 3)


@pytest.mark.parametrize("kind", ["nn", "linear", "cubic", "lanczos3"])
def test_an_image_that_is_enlarged_beyond_measure(kind):
    image = as_tensor(np.arange(600, dtype="uint8").reshape(20, 30), layout="HW")
    found = resize_crop_mirror(image, size=[1e8, 1e8], crop=[2.0, 2.0], interp_type=kind)
    assert (np.ptp(found.numpy()), found.shape) == (0, (2, 2))


def test_a_result_that_no_memory_holds_is_told_with_the_operator():
    with pytest.raises(MemoryError, match=r"Not enough memory for an array of shape \(\d+, \d+\)") as caught:
        resize(np.zeros((2, 2), "uint8"), size=[1e15, 1e15])
    assert caught.value.__notes__ == ["This was resize() of 1 samples."]


@pytest.mark.parametrize("number", [1e39, -1e39, 1e300])
def test_numbers_beyond_float32_and_any_memory_are_refused_by_name(number):
    image = as_tensor(np.zeros((8, 9, 3), "uint8"), layout="HWC")
    large = float(np.copysign(3e38, number))
    for name in ("size", "resize_x", "resize_y", "resize_shorter", "resize_longer"):
        for value in (number, large):
            with pytest.raises(
                ArgumentError, match=rf"resize\(\): argument '{name}' must be a size that fits in memory"
            ):
                resize(image, **{name: value})
    for arguments in ({"size": [0, number]}, {"size": [2, 3], "crop": [2, 2], "max_size": number}):
        with pytest.raises(
            ArgumentError, match=r"resize_crop_mirror\(\): .*'(size|max_size)' must be (numbers|a size)"
        ):
            resize_crop_mirror(image, **arguments)
    for name in ("roi_start", "roi_end"):
        region = {"roi_start": [0, 0], "roi_end": [1, 1], name: [1, number]}
        with pytest.raises(ArgumentError, match=f"'{name}' must be numbers in the range of float32"):
            resize(image, size=[2, 3], **region)
    with pytest.raises(ArgumentError, match="'roi_end' must be within"):
        resize(image, size=[2, 3], roi_start=[0, 0], roi_end=[1, large], roi_relative=True)
    for name, value in (("sizes", number), ("scales", number), ("scales", large), ("scales", [1, -1e18, 1])):
        with pytest.raises(ArgumentError, match=rf"tensor_resize\(\): argument '{name}' must be"):
            tensor_resize(image, **{name: value})
    with pytest.raises(ArgumentError, match="'alignment' must be numbers in the range of float32"):
        tensor_resize(image, sizes=[2.5, 3, 3], alignment=number)
    with pytest.raises(MemoryError, match="Not enough memory"):
        resize_crop_mirror(image, size=9, crop=[abs(number), 2])


@pytest.mark.parametrize(
    "region", [{"roi_start": [0, 0], "roi_end": [1e7, 5]}, {"roi_start": [0, -2e6], "roi_end": [5, 5]}]
)
def test_a_region_farther_outside_than_there_is_memory_for_is_refused(region):
    image = as_tensor(np.zeros((8, 9), "uint8"), layout="HW")
    for call in (lambda **x: resize(image, size=[2, 3], **x), lambda **x: tensor_resize(image, sizes=[2, 3], **x)):
        with pytest.raises(ArgumentError, match="'roi_end' must be within 1048576 pixels"):
            call(**region)
    assert resize(image, size=[2, 3], roi_start=[0, 0], roi_end=[1e5, 1e5]).shape == (2, 3)


def forgotten():
    for cache in (resample._many_taps, resample._few_taps):
        cache.cache_clear()


@pytest.mark.parametrize("filter", ["linear", "cubic", "lanczos3", "gaussian"])
@pytest.mark.parametrize("shape", [(900,), (700, 3), (2, 800, 70), (3, 5, 600)])
def test_long_dimensions_are_computed_in_parts_that_change_no_bit(shape, filter, monkeypatch):
    sizes = [[-(extent * by // 10) if extent > 100 else extent for extent in shape] for by in (4, 13)]
    for dtype, odd in itertools.product(("float32", "float64", "int16"), (False, True)):
        array = (np.random.default_rng(0).random(shape) * 99).astype(dtype)
        if odd and dtype != "int16":
            array.flat[array.size // 2] = np.inf
        found = []
        for kept in (1 << 30, 5000, 1):
            monkeypatch.setattr(resample, "_KEPT", kept)
            forgotten()
            found.append([tensor_resize(array, sizes=size, interp_type=filter).numpy() for size in sizes])
        for some in found[1:]:
            for one, other in zip(found[0], some, strict=True):
                np.testing.assert_array_equal(one, other)
    forgotten()


@pytest.mark.slow
def test_what_is_found_of_long_dimensions_is_not_kept():
    forgotten()
    tracemalloc.start()
    for i in range(20):
        tensor_resize(np.ones(200_000 + i, np.float32), sizes=[100_000 + i])
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1 << 20
    assert peak < 16 << 20  # of which the array is 1 MB
    for i in range(40):
        tensor_resize(np.ones(20_000 + i, np.float32), sizes=[10_000 + i])
    held = [taps for taps in gc.get_objects() if isinstance(taps, resample._Taps)]
    assert sum(block.nbytes for taps in held for matrix in taps._matrices.values() for *_, block in matrix) < 32 << 20
