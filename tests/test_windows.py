"""Windows of images: where they lie, what is outside, and normalising; by hand, and as DALI does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, as_batch, as_tensor, crop, crop_mirror_normalize, roi_random_crop
from dynamic.kernels.cpu import places, windows
from dynamic.random import RNG

RAMP = np.arange(7 * 9 * 3, dtype=np.uint8).reshape(7, 9, 3)
RAMP.setflags(write=False)


@given(height=st.integers(1, 7), width=st.integers(1, 9), x=st.floats(0, 1, width=32), y=st.floats(0, 1, width=32))
def test_a_window_is_a_part_of_the_image(height, width, x, y):
    top, left = (int(np.floor(np.float32(p) * np.float32(room) + 0.5)) for p, room in ((y, 7 - height), (x, 9 - width)))
    expected = RAMP[top : top + height, left : left + width]
    for arguments in ({"crop": (height, width)}, {"crop_h": height, "crop_w": width + 0.9}):
        found = crop(as_tensor(RAMP, layout="HWC"), crop_pos_x=x, crop_pos_y=y, **arguments)
        assert np.array_equal(found.array, expected)
    planes = crop(as_tensor(RAMP.transpose(2, 0, 1), layout="CHW"), crop=(height, width), crop_pos_x=x, crop_pos_y=y)
    assert np.array_equal(planes.array, expected.transpose(2, 0, 1))


def test_all_of_an_image_is_taken_where_nothing_is_said():
    assert np.array_equal(crop(RAMP).array, RAMP)
    assert crop(RAMP, crop_h=3).shape == (3, 9, 3)
    assert crop(as_tensor(np.zeros((4, 5, 6)), layout="DHW"), crop=(0, 2, 3)).shape == (4, 2, 3)
    assert crop(as_tensor(np.zeros((2, 5, 6, 1)), layout="FHWC"), crop=(2, 3)).shape == (2, 2, 3, 1)


@given(data=st.data(), layout=st.sampled_from(["FHWC", "FCHW", "FHW", "CFHW", "DHWC", "CDHW", "DHW"]))
def test_frames_are_as_depth_where_a_window_says_how_many(data, layout):
    extents = dict(zip("FDHWC", (5, 5, 4, 6, 3), strict=True))
    shape = tuple(extents[letter] for letter in layout)
    video = as_tensor(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape), layout=layout)
    front = layout[layout.find("D")] if "D" in layout else "F"
    taken = {letter: data.draw(st.integers(1, extents[letter]), letter) for letter in (front, "H", "W")}
    places = {letter: data.draw(st.sampled_from([0.0, 0.5, 1.0]), f"place in {letter}") for letter in taken}
    starts = {letter: int(places[letter] * (extents[letter] - taken[letter]) + 0.5) for letter in taken}
    where = dict(zip(("crop_pos_z", "crop_pos_y", "crop_pos_x"), places.values(), strict=True))
    expected = video.array[tuple(slice(starts[x], starts[x] + taken[x]) if x in taken else slice(None) for x in layout)]
    each = dict(zip(("crop_d", "crop_h", "crop_w"), taken.values(), strict=True))
    for window in ({"crop": tuple(taken.values())}, each):
        found = crop(video, **window, **where)
        assert (found.layout, found.array.tolist()) == (layout, expected.tolist())
        if "C" in layout and layout != "CFHW":
            planes = crop_mirror_normalize(video, **window, **where)
            order = [layout.index(letter) for letter in planes.layout]
            assert np.array_equal(planes.array, expected.transpose(order))
    flat = crop(video, crop=(taken["H"], taken["W"]), **where)
    assert flat.shape == tuple({**extents, "H": taken["H"], "W": taken["W"]}[letter] for letter in layout)
    assert np.array_equal(crop(as_batch([video]), **each, **where).samples[0], expected)


def test_frames_outside_of_a_video_are_padded_trimmed_or_refused():
    video = as_tensor(np.ones((2, 3, 3, 1), np.uint8), layout="FHWC")
    padded = crop(video, crop=(5, 3, 3), crop_pos_z=0.0, out_of_bounds_policy="pad", fill_values=7.0)
    assert padded.array[:, 0, 0, 0].tolist() == [1, 1, 7, 7, 7]
    assert crop(video, crop=(5, 3, 3), out_of_bounds_policy="trim_to_shape").shape == (2, 3, 3, 1)
    normalised = crop_mirror_normalize(video, crop=(3, 3, 3), crop_pos_z=0.0, out_of_bounds_policy="pad", mean=1.0)
    assert normalised.array[:, 0, 0, 0].tolist() == [0, 0, 0]
    for operator in (crop, crop_mirror_normalize):
        with pytest.raises(ArgumentError, match=r"argument 'crop' must be no larger than 2 in F"):
            operator(video, crop=(5, 3, 3))


def test_a_place_between_two_is_rounded_or_cut_off():
    assert crop(np.arange(7)[None], crop_w=4, rounding="round").array[0, 0] == 2
    assert crop(np.arange(7)[None], crop_w=4, rounding="truncate").array[0, 0] == 1


def test_what_is_outside_is_padded_trimmed_or_refused():
    image = as_tensor(np.full((2, 2, 3), 9, np.uint8), layout="HWC")
    padded = crop(image, crop=(4, 3), crop_pos_x=0.0, out_of_bounds_policy="pad", fill_values=(1, 2, 300)).array
    assert padded.shape == (4, 3, 3)
    assert (padded[1:3, :2] == 9).all()
    assert padded[0, 0].tolist() == padded[1, 2].tolist() == [1, 2, 255]
    trimmed = crop(image, crop=(4, 1), out_of_bounds_policy="trim_to_shape")
    assert trimmed.shape == (2, 1, 3)
    with pytest.raises(ArgumentError, match=r"crop\(\): argument 'crop' must be no larger than 2 in H"):
        crop(image, crop=(4, 1))


@pytest.mark.parametrize("operator", [crop, crop_mirror_normalize], ids=lambda operator: operator.__name__)
@given(data=st.data(), layout=st.sampled_from(["HWC", "CHW", "FHWC", "DHWC", "CDHW"]))
def test_an_extent_that_is_too_large_is_refused_by_the_argument_that_says_it(operator, layout, data):
    extents = dict.fromkeys("DHW" if {"D", "F"} & set(layout) else "HW", 2)
    letter = data.draw(st.sampled_from(list(extents)))
    shape = [data.draw(st.integers(2, 4)) for _ in layout]
    extents[letter] = 4 + data.draw(st.integers(1, 5))
    array = as_tensor(np.zeros(shape, np.uint8), layout=layout)
    where = "F" if letter == "D" and "F" in layout else letter
    apart = {f"crop_{name.lower()}": extent for name, extent in extents.items()}
    for argument, window in ((f"crop_{letter.lower()}", apart), ("crop", {"crop": list(extents.values())})):
        with pytest.raises(ArgumentError, match=f"no larger than [234] in {where}.*; got {extents[letter]}") as caught:
            operator(array, **window)
        assert caught.value.argument == argument


def test_a_window_of_an_image_without_pixels_is_refused_by_what_says_it():
    for window, argument in (({"crop": (2, 2)}, "crop"), ({"crop_h": 2, "crop_w": 2}, "crop_h")):
        with pytest.raises(ArgumentError) as caught:
            ndd.resize_crop_mirror(as_tensor(np.zeros((0, 3, 3), np.uint8), layout="HWC"), size=(4, 4), **window)
        assert caught.value.argument == argument


@pytest.mark.parametrize(("arguments", "told"), [
    ({"crop": (1, 1, 1)}, "'crop' must be 2 extents"), ({"crop": (1, 1), "crop_h": 1}, "'crop' must be left out"),
    ({"crop_pos_x": 1.5}, "'crop_pos_x'"), ({"fill_values": (1, 2)}, "'fill_values' must be one value or 3"),
    ({"rounding": "floor"}, "'rounding'"), ({"out_of_bounds_policy": "clip"}, "'out_of_bounds_policy'")])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told):
    for operator in (crop, crop_mirror_normalize):
        with pytest.raises(ArgumentError, match=told):
            operator(as_tensor(RAMP, layout="HWC"), **arguments)


@pytest.mark.parametrize("operator", [crop, ndd.slice, crop_mirror_normalize], ids=lambda operator: operator.__name__)
def test_values_to_fill_with_are_checked_where_nothing_is_filled(operator):
    how = {"shape": (2, 2)} if operator is ndd.slice else {"crop": (2, 2)}
    samples = [np.arange(h * 12, dtype=np.uint8).reshape(h, 4, 3) for h in (3, 5, 4)]
    batch = as_batch(samples, layout="HWC")
    for values in (7.0, (7.0,), (1.0, 2.0, 3.0)):
        result = operator(batch, fill_values=values, **how)
        assert result.tolist() == [operator(sample, fill_values=values, **how).tolist() for sample in batch]
    for wrong in (batch, batch[0]):
        with pytest.raises(ArgumentError, match="'fill_values' must be one value or 3"):
            operator(wrong, fill_values=(1.0, 2.0), **how)


@given(order=st.sampled_from(["CHW", "HWC"]), mirror=st.booleans(), mean=st.floats(-9, 9, width=16))
def test_a_fill_for_each_channel_goes_with_one_mean_for_all(order, mirror, mean):
    how = {"crop": (7, 9), "out_of_bounds_policy": "pad", "crop_pos_y": 0.0, "mirror": mirror, "output_layout": order}
    image = as_tensor(RAMP[:4], layout="HWC")
    found = crop_mirror_normalize(image, mean=mean, std=2.0, fill_values=(1, 2, 3), **how)
    channels = found.array if order == "HWC" else found.array.transpose(1, 2, 0)
    inside = (RAMP[:4, ::-1] if mirror else RAMP[:4]) / np.float32(2) - np.float32(mean) / 2
    np.testing.assert_allclose(channels[:4], inside, rtol=1e-5, atol=1e-5)
    assert (channels[4:] == (1, 2, 3)).all()


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64"])
def test_wide_integers_keep_the_digits_in_which_they_differ_from_the_mean(kind):
    image = as_tensor(np.array([2**30, 2**30 + 1, 2**30 + 5], kind).reshape(1, 1, 3), layout="HWC")
    found = crop_mirror_normalize(image, mean=2.0**30, shift=0.5)
    assert found.array.ravel().tolist() == [0.5, 1.5, 5.5]


@given(mirror=st.booleans(), dtype=st.sampled_from(["float32", "float16", "uint8", "float64"]),
       order=st.sampled_from(["CHW", "HWC"]), kind=st.sampled_from(["uint8", "int16", "float32"]),
       scale=st.floats(0.5, 2, width=16), shift=st.floats(-2, 2, width=16))  # fmt: skip
def test_channels_are_normalised(mirror, dtype, order, kind, scale, shift):
    mean, std = (10.0, 20.5, 30.0), (2.0, 3.0, 0.5)
    image = RAMP.astype(kind)
    found = crop_mirror_normalize(as_tensor(image, layout="HWC"), crop=(5, 4), mirror=mirror, mean=mean, std=std,
                                  scale=scale, shift=shift, dtype=dtype, output_layout=order)  # fmt: skip
    expected = scale * (image[1:6, 3:7].astype(float) - mean) / std + shift  # (9 - 4) / 2 is rounded to 3
    expected = expected[:, ::-1] if mirror else expected
    assert (found.layout, str(found.dtype.dtype)) == (order, dtype)
    expected = expected.transpose(2, 0, 1) if order == "CHW" else expected
    if dtype == "uint8":
        assert abs(found.array - np.clip(expected, 0, 255)).max() <= 0.5001
    else:
        np.testing.assert_allclose(found.array, expected, rtol=2e-3 if dtype == "float16" else 1e-5, atol=2e-3)


@given(data=st.data(), extents=st.tuples(st.integers(1, 5), st.integers(1, 6)), order=st.sampled_from(["CHW", "HWC"]),
       channels=st.sampled_from([1, 2, 3, 4, 128, 129, 513]), together=st.sampled_from([1, 60, 1 << 20]))  # fmt: skip
def test_each_image_of_a_batch_is_mirrored_or_not_and_normalised(data, extents, order, channels, together):
    mirrors = data.draw(st.lists(st.booleans(), min_size=1, max_size=9))
    crop = data.draw(st.none() | st.tuples(*(st.integers(1, n) for n in extents)))
    images = np.random.default_rng(channels).integers(0, 256, (len(mirrors), *extents, channels), dtype=np.uint8)
    images.setflags(write=False)
    flags = as_batch([np.int32(mirror) for mirror in mirrors])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynamic.kernels.cpu.windows._CACHE", together)  # how many images are in the cache
        found = crop_mirror_normalize(as_batch(images, layout="HWC"), crop=crop, crop_pos_x=0.0, crop_pos_y=0.0,
                                      mirror=flags, mean=9.0, std=4.0, output_layout=order)  # fmt: skip
    rows, columns = crop or extents
    for image, mirror, result in zip(images, mirrors, found.samples, strict=True):
        window = (image[:rows, :columns].astype(np.float32) - 9) / 4
        window = window[:, ::-1] if mirror else window
        assert np.array_equal(result, window.transpose(2, 0, 1) if order == "CHW" else window)


@given(data=st.data(), have=st.sampled_from(["uint8", "uint16", "float32", "float64"]),
       to=st.sampled_from(["uint8", "float16", "float32", "float64"]), layout=st.sampled_from(["HWC", "CHW"]),
       order=st.sampled_from(["CHW", "HWC"]), policy=st.sampled_from(["error", "pad", "trim_to_shape"]))  # fmt: skip
def test_separate_images_are_normalised_as_if_alone(data, have, to, layout, order, policy):
    """Those whose windows are alike are done some at a time."""
    sizes = data.draw(st.lists(st.tuples(st.integers(3, 9), st.integers(4, 9)), min_size=2, max_size=6))
    random, sizes = np.random.default_rng(0), sizes if data.draw(st.booleans()) else sizes[:1] * len(sizes)
    images = [as_tensor(np.asarray(random.uniform(0, 255, size + (3,)), have), layout="HWC") for size in sizes]
    images = images if layout == "HWC" else [ndd.transpose(image, perm=[2, 0, 1]) for image in images]
    each = {name: data.draw(st.lists(values, min_size=len(sizes), max_size=len(sizes))) for name, values in (
        ("crop_pos_x", st.floats(0, 1, width=32)), ("crop_pos_y", st.floats(0, 1, width=32)),
        ("mirror", st.integers(0, 1)), ("mean", st.floats(-9, 200, width=32)))}  # fmt: skip
    each = {name: each[name] for name in data.draw(st.sets(st.sampled_from(sorted(each))))}
    more = {"crop": (data.draw(st.integers(1, 10)), 4), "std": (9.0, 3.0, 50.0), "shift": 2.5, "dtype": to,
            "output_layout": order, "out_of_bounds_policy": policy}  # fmt: skip
    if policy == "error":
        more["crop"] = (3, 4)
    counts, normalised = [], windows.normalised
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            windows, "normalised", lambda *arguments: [counts.append(len(arguments[0])), normalised(*arguments)]
        )
        found = crop_mirror_normalize(as_batch(images, layout=layout), **more,
                                      **{name: as_batch(values) for name, values in each.items()})  # fmt: skip
    assert counts == [len(sizes)] or policy != "error" or "mean" in each or len(set(sizes)) == 1  # which are gathered
    for i, image in enumerate(images):
        alone = crop_mirror_normalize(image, **more, **{name: values[i] for name, values in each.items()})
        np.testing.assert_array_equal(found.samples[i], alone.array, strict=True)


def test_channels_are_added_and_what_is_outside_is_not_normalised():
    image = as_tensor(np.full((2, 2, 3), 9, np.uint8), layout="HWC")
    outside = {"crop_pos_x": 0.0, "out_of_bounds_policy": "pad", "fill_values": 7.0}
    found = crop_mirror_normalize(image, crop=(2, 4), mean=9, pad_output=True, mirror=1, **outside)
    assert found.shape == (4, 2, 4)
    assert found.array[0, 0].tolist() == found.array[2, 1].tolist() == [7, 7, 0, 0]
    assert (found.array[3] == 7).all()
    for policy, values, added in (("pad", 7.0, 7), ("pad", (1, 2, 3), 0), ("error", 7.0, 0), ("trim_to_shape", 7, 0),
                                  ("pad", (1, 2, 3, 4), 4), ("error", (1, 2, 3, 4), 0)):  # fmt: skip
        more = {"out_of_bounds_policy": policy, "fill_values": values, "pad_output": True}
        assert (crop_mirror_normalize(image, **more).array[3] == added).all()
    for layout in ("HWC", "CHW"):
        wide = crop_mirror_normalize(image, crop=(2, 4), pad_output=True, output_layout=layout,
                                     **{**outside, "fill_values": (1, 2, 3, 4)}).array  # fmt: skip
        planes = wide.transpose(2, 0, 1) if layout == "HWC" else wide
        assert planes[:, 0].tolist() == [[9, 9, 1, 1], [9, 9, 2, 2], [9, 9, 3, 3], [4, 4, 4, 4]]
    for values, more in (((1, 2, 3, 4), {}), ((1, 2), {"pad_output": True}), ((1, 2, 3, 4, 5), {"pad_output": True})):
        with pytest.raises(ArgumentError, match="'fill_values' must be one value or 3"):
            crop_mirror_normalize(image, fill_values=values, **more)
    with pytest.raises(ArgumentError, match="'mean' must be one value or 3"):
        crop_mirror_normalize(image, mean=(1, 2))


def starts_of(count, **arguments):
    """The places in one dimension where windows begin, of so many draws."""
    found = roi_random_crop(batch_size=count, rng=RNG(3), **{name: [value] for name, value in arguments.items()})
    return set(found.numpy()[:, 0].tolist())


@given(crop=st.integers(0, 6), start=st.integers(0, 5), size=st.integers(0, 5), more=st.integers(0, 4))
def test_windows_lie_in_a_region_or_around_it(crop, start, size, more):
    low, high = min(start, start + size - crop), max(start, start + size - crop)
    assert starts_of(300, crop_shape=crop, roi_start=start, roi_end=start + size) == set(range(low, high + 1))
    whole = max(crop, start + size) + more
    low, high = max(low, 0), min(high, whole - crop)
    inside = {"crop_shape": crop, "roi_start": start, "roi_shape": size}
    assert starts_of(300, in_shape=whole, **inside) == set(range(low, high + 1))
    images = as_batch([np.zeros((whole, 3), np.uint8)] * 2)
    arguments = {name: [value] for name, value in inside.items()}
    assert all(low <= int(place[0]) <= high for place in roi_random_crop(images, rng=RNG(1), **arguments))


def test_places_of_windows_are_drawn_evenly_and_by_the_keys():
    arguments = {"crop_shape": [2, 3], "roi_start": [1, 0], "roi_end": [5, 6]}
    found = roi_random_crop(**arguments, batch_size=4000, rng=RNG(5)).numpy()
    assert found.dtype == np.int64
    for column, values in ((0, [1, 2, 3]), (1, [0, 1, 2, 3])):
        counts = [(found[:, column] == value).sum() for value in values]
        assert sum(counts) == 4000
        assert max(abs(count - 4000 / len(values)) for count in counts) < 200
    one, other = (roi_random_crop(**arguments, rng=RNG(5).keyed(keys)["x"]).numpy() for keys in ([1, 2], [2, 1]))
    assert np.array_equal(one, other[::-1])
    assert roi_random_crop(**arguments, rng=RNG(5)).shape == (2,)
    mixed = roi_random_crop(crop_shape=as_batch([[1], [2]]), roi_start=[4], roi_shape=as_batch([[1], [2]]), rng=RNG(1))
    assert mixed.numpy().tolist() == [[4], [4]]
    empty = roi_random_crop(Batch([], dtype=np.dtype("uint8"), ndim=2), **arguments)
    assert (len(empty), empty.dtype, empty.ndim) == (0, "int64", 1)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"roi_start": [1]}, "takes either 'roi_end' or 'roi_shape'; got neither"), ({"roi_end": [5]}, "'roi_start'"),
    ({"roi_start": [1], "roi_end": [5], "roi_shape": [4]}, "takes either 'roi_end' or 'roi_shape'; got both"),
    ({"roi_start": [1, 2], "roi_end": [5, 6]}, "'roi_start' must be 1 numbers"),
    ({"roi_start": [3], "roi_end": [2]}, "'roi_start' must be at most the end"),
    ({"roi_start": [3], "roi_end": [6], "in_shape": [5]}, "'roi_start' must be .* within 0..5"),
    ({"roi_start": [0], "roi_end": [1], "in_shape": [1]}, "'crop_shape' must be between 0 and the 1"),
    ({"roi_start": [2**64], "roi_shape": [4]}, "'roi_start' must be in the range of int64"),
    ({"roi_start": [0], "roi_end": [1], "in_shape": []}, "'in_shape'")])  # fmt: skip
def test_wrong_regions_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"roi_random_crop\(\):? (argument )?{told}"):
        roi_random_crop(crop_shape=[2], **arguments)


@given(crop=st.integers(1, 6), start=st.integers(0, 5), size=st.integers(1, 5), more=st.integers(0, 4))
def test_places_are_those_that_dali_draws(dali: Oracle, crop, start, size, more):
    arguments = {"crop_shape": crop, "roi_start": start, "roi_shape": size, "in_shape": max(crop, start + size) + more}
    drawn = dali.call("roi_random_crop", seed=4, batch_size=100, **{name: [v] for name, v in arguments.items()})
    assert {int(sample[0]) for sample in drawn.samples} <= starts_of(300, **arguments)
    assert drawn.dtype == "i64"


@pytest.mark.parametrize(("rounding", "row"), [("round", 10), ("truncate", 10)])
def test_places_are_reckoned_in_double(rounding, row):
    """A position is a float32, and 15 times the one next to 0.7 is a little less than 10.5."""
    image = as_tensor(np.repeat(np.arange(20, dtype=np.uint8), 30).reshape(20, 30))
    assert crop(image, crop=(5, 7), crop_pos_y=0.7, rounding=rounding).array[0, 0] == row


@given(data=st.data())
def test_windows_near_ties_are_dalis(dali: Oracle, data):
    room, size = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 9))
    position = data.draw(st.integers(0, 20)) / 20
    image = np.repeat(np.arange(room + size, dtype=np.uint8), 4).reshape(-1, 4, 1)
    arguments = {
        "crop": [size, 4],
        "crop_pos_y": position,
        "rounding": data.draw(st.sampled_from(["round", "truncate"])),
    }
    expected = dali.call("crop", [Laid(image, "HWC")], **arguments)
    assert np.array_equal(crop(as_tensor(image, layout="HWC"), **arguments).array, expected.array)


@given(data=st.data(), layout=st.sampled_from(["HW", "HWC", "CHW", "FHWC", "DHW"]), count=st.integers(1, 4))
@examples(5)
def test_windows_of_many(data: st.DataObject, layout: str, count: int) -> None:
    """Windows that are found in columns are those that are found one by one; others are left to that."""
    extent = st.floats(0, 12) | st.sampled_from([0.0, 1.0, 2.9999999999999996, 2.0**53, 1e300])

    def column(values: st.SearchStrategy[Any]) -> Any:
        return data.draw(st.lists(values, min_size=count, max_size=count) | values)

    both = data.draw(st.booleans())
    crop = column(st.tuples(extent, extent)) if both else None
    sizes = [crop, None, *(None if both else column(extent) for _ in "HW")]
    positions = [column(st.floats(0, 1)) for _ in "xy"]
    shapes = data.draw(st.lists(st.tuples(*[st.integers(0, 11)] * len(layout)), min_size=count, max_size=count))
    policy = data.draw(st.sampled_from(["error", "pad", "trim_to_shape"]))
    rounding = data.draw(st.sampled_from(["round", "truncate"]))
    columns = [values if isinstance(values, list) else [values] * count for values in (*sizes, *positions)]
    found = places.cropped_at_once(shapes, layout, sizes, positions, policy, rounding)
    expected: Any = []
    for shape, *values in zip(shapes, *columns, strict=True):
        try:
            expected.append(places.cropped("crop", shape, layout, *values, 0.5, policy, rounding))
        except ArgumentError:
            expected = None
            break
    if found is not None:
        assert found == expected
    else:
        given = [size for each in columns[:4] for values in each if values is not None for size in np.ravel(values)]
        assert expected is None or set(layout) & set("DF") or max(given) >= 2.0**53
