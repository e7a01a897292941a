"""slice, pad and erase: against plain NumPy, by hand, and as DALI does it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor, erase, pad
from dynamic.kernels.cpu import places

RAMP = np.arange(5 * 6 * 2, dtype=np.uint8).reshape(5, 6, 2)
RAMP.setflags(write=False)
IMAGE = as_tensor(RAMP, layout="HWC")
parts = st.floats(0, 1, width=32)


def half_up(value: float) -> int:
    return int(np.trunc(value + np.copysign(0.5, value)))


def window(image: np.ndarray, starts, extents, fill) -> np.ndarray:
    """A window by the plainest means: pad a lot, then index."""
    far = 100
    wide = np.stack([np.pad(image[..., c], far, constant_values=fill[c]) for c in range(image.shape[2])], axis=-1)
    return wide[tuple(slice(far + s, far + s + e) for s, e in zip(starts, extents, strict=True))]


@given(st.tuples(*[st.integers(-1, 7)] * 4), st.sampled_from(["error", "pad", "trim_to_shape"]))
def test_positions_of_all_dimensions_in_their_order_are_as_in_any(numbers, policy):
    """What needs no reckoning, as random crops are given, is what reckoning finds."""
    y, x, height, width = (np.int64(number) for number in numbers)

    def found(anchor, extent, axes):
        try:
            return places.sliced("slice", (5, 6), "HW", np.array(anchor), np.array(extent), axes=axes,
                                 out_of_bounds_policy=policy)  # fmt: skip
        except ArgumentError:  # of the axis that comes first
            return "refused"

    assert found([y, x], [height, width], (0, 1)) == found([x, y], [width, height], (1, 0))


PADS = {"edge": "edge", "reflect_1001": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}
OTHERS = {"edge": "clamp", "reflect_1001": "REFLECT"}


@pytest.mark.parametrize("policy", PADS)
@given(starts=st.tuples(*[st.integers(-20, 20)] * 3), shape=st.tuples(*[st.integers(0, 20)] * 3), data=st.data())
def test_a_window_may_go_on_with_the_array(policy, starts, shape, data):
    image = RAMP[: data.draw(st.integers(1, 5)), : data.draw(st.integers(1, 6)), : data.draw(st.integers(1, 2))]
    wide = np.pad(image.astype(np.float64), 60, PADS[policy])
    expected = wide[tuple(slice(60 + start, 60 + start + size) for start, size in zip(starts, shape, strict=True))]
    dtype = data.draw(st.sampled_from(["uint8", "float32", None]))
    arguments = {"start": starts, "shape": shape, "dtype": dtype}
    for axes in ([], (0, 1, 2)):
        found = ndd.slice(image, axes=axes, out_of_bounds_policy=OTHERS.get(policy, policy), **arguments)
        assert (found.shape, found.dtype) == (shape, dtype or "uint8")
        assert np.array_equal(found.array, expected)
    batch = ndd.slice(as_batch([image, image[:1]]), axes=[], out_of_bounds_policy=policy, **arguments)
    assert np.array_equal(batch.samples[0], expected)


@pytest.mark.parametrize("policy", PADS)
def test_nothing_cannot_be_repeated(policy):
    empty = np.zeros((0, 3), np.uint8)
    with pytest.raises(ArgumentError, match=rf"'out_of_bounds_policy' must be 'pad' for an image .* got '{policy}'"):
        ndd.slice(empty, start=0, shape=2, axes=0, out_of_bounds_policy=policy)
    assert ndd.slice(empty, start=-5, shape=0, axes=0, out_of_bounds_policy=policy).shape == (0, 3)
    for around in (np.zeros((0, 5, 3)), np.zeros((2, 0, 3))):  # nothing is asked for of the dimension that is empty
        shape = tuple(4 if extent else 0 for extent in around.shape[:2])
        found = ndd.slice(around, start=[0, 0], shape=shape, axes=[0, 1], out_of_bounds_policy=policy)
        assert found.shape == (*shape, 3)


@given(x=st.integers(-8, 8), y=st.integers(-8, 8), width=st.integers(0, 9), height=st.integers(0, 9))
def test_a_slice_is_a_part_of_the_array_and_of_what_is_around_it(x, y, width, height):
    expected = window(RAMP, (y, x), (height, width), (7, 9))
    outside = {"out_of_bounds_policy": "pad", "fill_values": (7, 9)}
    for found in (
        ndd.slice(IMAGE, start=(x, y), shape=(width, height), **outside),
        ndd.slice(IMAGE, start=(y, x), end=(y + height, x + width), axis_names="HW", **outside),
        ndd.slice(RAMP, [y, x], [height, width], axes=(0, -2), **outside),
        ndd.slice(IMAGE, [float(x), float(y)], [width, height], normalized_anchor=False, **outside),
    ):
        assert np.array_equal(found.array, expected)
    trimmed = ndd.slice(IMAGE, start=(x, y), shape=(width, height), out_of_bounds_policy="trim_to_shape").array
    inside = RAMP[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
    assert np.array_equal(trimmed, inside)
    if min(x, y) >= 0 and x + width <= 6 and y + height <= 5:
        assert np.array_equal(ndd.slice(IMAGE, start=(x, y), shape=(width, height)).array, inside)
    else:
        axes = ((y, height, 5), (x, width, 6))
        early = [start < 0 for start, extent, whole in axes if start < 0 or start + extent > whole]
        named = "start" if early[0] else "shape"
        with pytest.raises(ArgumentError, match=rf"slice\(\): argument '{named}' must be (inside of|no larger than)"):
            ndd.slice(IMAGE, start=(x, y), shape=(width, height))


@given(a=parts, b=parts, size=st.integers(1, 500))
def test_both_ends_of_relative_windows_are_rounded(a, b, size):
    array, low, high = np.arange(size), min(a, b), max(a, b)
    expected = array[half_up(low * size) : half_up(high * size)]
    assert np.array_equal(ndd.slice(array, np.array([low]), np.array([high - low]), axes=0).array, expected)
    first, last = (half_up(float(np.float32(part) * np.float32(size))) for part in (low, high))
    for arguments in ({"rel_end": high}, {"end": last}, {"shape": last - first}):
        if "shape" not in arguments or float(np.float32(low) * np.float32(size)) % 1 == 0:
            found = ndd.slice(array, rel_start=low, axes=[0], **arguments)
            assert np.array_equal(found.array, array[first:last])


@given(a=st.floats(0, 0.75), part=st.floats(-0.25, 0.25), size=st.integers(1, 500))
def test_a_relative_start_and_shape_are_added_before_they_are_rounded(a, part, size):
    array, low, more = np.arange(size), np.float32(a), np.float32(part)
    first, last = half_up(float(low * np.float32(size))), half_up((float(low) + float(more)) * size)
    if part >= 0:
        found = ndd.slice(array, rel_start=low, rel_shape=more, axes=0)
        assert np.array_equal(found.array, array[first : max(first, last)])
    else:
        assume(last < first)
        with pytest.raises(ArgumentError, match="'rel_shape' must be at or after the start of the window"):
            ndd.slice(array, rel_start=low, rel_shape=more, axes=0)


def test_without_a_layout_dimensions_are_those_of_images_up_to_three_and_then_the_first_two():
    four = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert np.array_equal(ndd.slice(four, start=(1, 0), shape=(2, 1)).array, four[0:1, 1:3])
    assert np.array_equal(ndd.slice(four, start=1, axis_names="H").array, four[:, 1:])
    assert np.array_equal(ndd.slice(four[0], start=(1, 0), shape=(2, 1)).array, four[0, 0:1, 1:3])
    assert np.array_equal(ndd.slice(four[0, 0], start=(1, 0), shape=(2, 1)).array, four[0, 0, 0:1, 1:3])


@pytest.mark.parametrize(("arguments", "told"), [
    ({"start": 2, "end": 9, "axes": 0}, r"'end' must be inside of 0\.\.5 in H, unless .* 'pad'; got 2\.\.9"),
    ({"start": 0, "end": 9, "axes": 0}, r"'end' must be inside of 0\.\.5 in H, unless .* 'pad'; got 0\.\.9"),
    ({"start": 2, "shape": 5, "axes": 0}, r"'shape' must be inside of 0\.\.5 in H, unless .* 'pad'; got 2\.\.7"),
    ({"start": 0, "shape": 6, "axes": 0}, r"'shape' must be no larger than 5 in H, unless .* 'pad'; got 6"),
    ({"start": -1, "shape": 5, "axes": 0}, r"'start' must be inside of 0\.\.5 in H, unless .* 'pad'; got -1\.\.4"),
    ({"start": -1, "end": 9, "axes": 0}, r"'start' must be inside of 0\.\.5 in H, unless .* 'pad'; got -1\.\.9"),
    ({"rel_start": -0.5, "rel_end": 2.0, "axes": 0}, r"'rel_start' must be inside of 0\.\.5 in H, .*; got -3\.\.10"),
])  # fmt: skip
def test_where_a_window_is_not_inside_is_told(arguments, told):
    with pytest.raises(ArgumentError, match=rf"slice\(\):? (argument )?{told}"):
        ndd.slice(IMAGE, **arguments)


def test_each_end_has_a_default_and_any_dimension_is_an_axis():
    assert np.array_equal(ndd.slice(IMAGE, start=(1, 2)).array, RAMP[2:, 1:])
    assert np.array_equal(ndd.slice(IMAGE, end=(3, 2)).array, RAMP[:2, :3])
    assert np.array_equal(ndd.slice(IMAGE, rel_shape=0.5).array, RAMP[:3, :3])
    assert np.array_equal(ndd.slice(IMAGE, start=1, axis_names="C").array, RAMP[..., 1:])
    assert np.array_equal(ndd.slice(RAMP[0, :, 0], start=[2], end=[4], axes=-1).array, RAMP[0, 2:4, 0])
    assert ndd.slice(IMAGE, start=1, axis_names="C").layout == "HWC"
    everywhere = RAMP[1:3, 2:4, :1]
    for how in ({"axis_names": ""}, {"axes": []}, {"axes": [0, 1, 2]}):
        assert np.array_equal(ndd.slice(IMAGE, start=[1, 2, 0], shape=[2, 2, 1], **how).array, everywhere)
    assert ndd.slice(RAMP, start=1).layout is None


def test_channels_that_are_sliced_have_as_many_fill_values_as_come_out():
    found = ndd.slice(IMAGE, start=-1, end=3, axis_names="C", out_of_bounds_policy="pad", fill_values=(1, 2, 3, 4))
    assert found.array[0, 1].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("arguments", "told"), [
    ({}, "takes a start"), ({"start": 1, "rel_start": 0.5}, "'rel_start' must be left out when 'start' is given"),
    ({"end": 3, "shape": 1}, "'shape' must be left out when 'end' is given"), ({"shape": -1}, "'shape' must be at or"),
    ({"start": (1, 2, 3)}, "'start' must be one value, or 2"),
    ({"start": 3, "end": 1}, "'end' must be at or after the start of the window"),
    ({"start": 0, "axis_names": "Q"}, "'axis_names' must be different letters of the layout 'HWC'"),
    ({"start": 0, "axis_names": "HH"}, "'axis_names'"), ({"start": 0, "axes": 3}, "'axes'"),
    ({"start": 0, "axes": (0, -3)}, "'axes' must be different dimensions"),
    ({"start": -1, "out_of_bounds_policy": "pad", "fill_values": (1, 2, 3)}, "'fill_values' must be one value or 2"),
    ({"start": 1, "axes": 0, "axis_names": "W"}, "'axis_names' must be left out when 'axes' is given; got str 'W'"),
])  # fmt: skip
def test_arguments_of_slice_that_contradict_each_other_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"slice\(\):? (argument )?{told}"):
        ndd.slice(IMAGE, **arguments)


@pytest.mark.parametrize(("inputs", "told"), [
    (([1, 2],), "'shape' must be given"), (([1], [2]), "'anchor' must be 2 numbers"),
    (([1, 2], [1, 2, 3]), "'shape' must be 2 numbers"), (([np.nan, 0.0], [0.0, 1.0]), "'anchor' must be finite"),
])  # fmt: skip
def test_wrong_anchors_are_named(inputs, told):
    with pytest.raises(ArgumentError, match=rf"slice\(\):? (argument )?{told}"):
        ndd.slice(IMAGE, *inputs)
    with pytest.raises(ArgumentError, match="'start' must be left out when an anchor"):
        ndd.slice(IMAGE, [1, 2], [1, 2], start=1)


@given(shapes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4),
       align=st.integers(1, 3), fill=st.integers(-2, 300))  # fmt: skip
def test_padded_samples_are_as_large_as_the_largest(shapes, align, fill):
    samples = [np.full(shape, i, np.uint8) for i, shape in enumerate(shapes)]
    found = pad(as_batch(samples), align=align, fill_value=fill)
    height, width = (-(-max(extents) // align) * align for extents in zip(*shapes, strict=True))
    for i, (sample, shape) in enumerate(zip(found.samples, shapes, strict=True)):
        assert sample.shape == (height, width)
        assert (sample[: shape[0], : shape[1]] == i).all()
        outside = np.ones(sample.shape, bool)
        outside[: shape[0], : shape[1]] = False
        assert (sample[outside] == min(max(fill, 0), 255)).all()


def test_extents_that_are_given_do_not_depend_on_the_batch():
    batch = as_batch([np.zeros((2, 3), np.uint8), np.zeros((4, 1), np.uint8)], layout="HW")
    assert pad(batch).shape == [(4, 3), (4, 3)]
    assert pad(batch, axes=[0]).shape == [(4, 3), (4, 1)]
    assert pad(batch, axis_names="W").shape == [(2, 3), (4, 3)]
    assert pad(batch, shape=(3, -1)).shape == [(3, 3), (4, 3)]
    assert pad(batch, shape=as_batch([[-1, 6], [3, -1]])).shape == [(4, 6), (4, 3)]
    assert pad(batch, axes=as_batch([[1], [0]]), shape=5).shape == [(2, 5), (5, 1)]
    assert pad(batch, axes=0, shape=4, align=3).shape == [(6, 3), (6, 1)]
    colours = pad(as_tensor(np.zeros((1, 1, 2), np.uint8), layout="HWC"), shape=(1, 2, 2), fill_value=(7.6, -3))
    assert colours.array[0, 1].tolist() == [8, 0]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"align": 0}, "'align'"), ({"shape": (1, 2)}, "'shape' must be one value, or 3"), ({"axes": 3}, "'axes'"),
    ({"axis_names": "X"}, "'axis_names'"), ({"fill_value": (1, 2, 3)}, "'fill_value' must be one value or 2"),
    *(({"axes": 0, "axis_names": names}, "'axis_names' must be left out when 'axes'") for names in ("W", "HW", "WH")),
])  # fmt: skip
def test_arguments_of_pad_that_do_not_fit_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"pad\(\): argument {told}"):
        pad(IMAGE, **arguments)


boxes = st.lists(st.tuples(*[st.integers(-3, 7)] * 4), min_size=1, max_size=3)


@given(boxes=boxes, fill=st.sampled_from([5, (7, 9)]))
def test_what_is_in_a_region_is_erased_and_nothing_else(boxes, fill):
    anchor = [number for y, x, _, _ in boxes for number in (y, x)]
    shape = [number for _, _, height, width in boxes for number in (height, width)]
    expected = RAMP.copy()
    for y in range(5):
        for x in range(6):
            if any(top <= y < top + height and left <= x < left + width for top, left, height, width in boxes):
                expected[y, x] = fill
    assert np.array_equal(erase(IMAGE, anchor=anchor, shape=shape, fill_value=fill).array, expected)
    assert np.array_equal(erase(RAMP, anchor=anchor, shape=shape, fill_value=fill).array, expected)  # DALI dies of it
    planes = erase(as_tensor(RAMP.transpose(2, 0, 1), layout="CHW"), anchor=anchor, shape=shape, fill_value=fill)
    assert np.array_equal(planes.array, expected.transpose(2, 0, 1))


def test_regions_by_parts_and_by_their_middle():
    found = erase(
        np.zeros((10, 10), np.uint8), anchor=(0.1, 0.25), shape=(0.5, 0.5), normalized=True, fill_value=1
    ).array
    assert (found[1:6, 2:7] == 1).all()
    assert found.sum() == 25
    middle = erase(np.zeros(9, np.uint8), anchor=4, shape=3, axes=0, centered_anchor=True, fill_value=1)
    assert middle.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0]  # from 2.5 to 5.5, both cut off
    assert erase(IMAGE, anchor=0, shape=1, axis_names="C", fill_value=3).array[2, 3].tolist() == [3, 31]
    assert np.array_equal(erase(IMAGE).array, RAMP)
    assert erase(IMAGE, shape=(1, 1), fill_value=300).array[0, 0].tolist() == [255, 255]


@given(axis=st.integers(0, 2), fill=st.integers(0, 255))
def test_regions_in_axes_that_are_counted_from_the_end(axis, fill):
    given, counted = (erase(IMAGE, anchor=1, shape=1, axes=[a], fill_value=fill).array for a in (axis, axis - 3))
    assert np.array_equal(counted, given)
    assert (np.take(counted, 1, axis) == fill).all()
    assert np.array_equal(np.delete(counted, 1, axis), np.delete(RAMP, 1, axis))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"anchor": (0, 0)}, "'shape' must be"), ({"anchor": (0, 0, 1, 1), "shape": (1, 1)}, "'shape' must be"),
    ({"anchor": (0, 0), "shape": (1, 1, 2, 2)}, "'anchor' must be"), ({"anchor": 1, "shape": 1}, "'anchor' must be"),
    ({"shape": (1, 1), "fill_value": (1, 2, 3)}, "'fill_value' must be one value or 2"),
    ({"shape": 1, "anchor": 1, "axes": 0, "axis_names": "W"}, "'axis_names' must be left out")])  # fmt: skip
def test_regions_that_do_not_fit_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"erase\(\): argument {told}"):
        erase(IMAGE, **arguments)


def test_a_relative_window_without_extent_ends_where_it_begins():
    start = float(np.float32(5 / 6))  # times 3 it is 2.5 in float32, and less in float64
    found = ndd.slice(np.arange(3), rel_start=start, rel_shape=0.0, axes=0)
    assert found.shape == (0,)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize(("inputs", "told"), [
    (([0, 0, 0],), "'shape' must be given"), (([0, 0], [1, 1, 1]), "'anchor' must be 3 numbers"),
    (([0, 0, 0], [1, 1]), "'shape' must be 3 numbers"), (([[0, 0, 0]], [1, 1, 1]), "'anchor' must be 3 numbers"),
    (([False] * 3, [1, 1, 1]), "'anchor' must be 3 numbers")])  # fmt: skip
def test_wrong_anchors_for_all_dimensions_are_named(inputs, told, axes):
    with pytest.raises(ArgumentError, match=rf"slice\(\):? (argument )?{told}"):
        ndd.slice(IMAGE, *inputs, axes=axes)


@given(starts=st.tuples(*[st.sampled_from([0.0, 0.25, 0.5])] * 3))
def test_a_relative_anchor_for_all_dimensions_goes_with_a_shape_in_pixels(starts):
    y, x, c = (half_up(start * size) for start, size in zip(starts, RAMP.shape, strict=True))
    assert np.array_equal(
        ndd.slice(IMAGE, starts, [2, 3, 1], axes=(0, 1, 2)).array, RAMP[y : y + 2, x : x + 3, c : c + 1]
    )


@pytest.mark.parametrize(
    "arguments", [{"rel_start": 1e300}, {"rel_start": 0.0, "rel_end": -1e300}, {"rel_shape": 1e39}]
)
def test_windows_out_of_reach_are_named(arguments):
    with pytest.raises(ArgumentError, match="must be between -2"):
        ndd.slice(IMAGE, **arguments)


@given(data=st.data(), count=st.integers(2, 4), kind=st.sampled_from(["int32", "uint8", "float32", "float64"]))
@examples(5)
def test_windows_of_many_anchors(data: st.DataObject, count: int, kind: str) -> None:
    """Windows that are found in columns are those of each sample alone; errors too."""
    whole = st.integers(-3, 12) if kind == "int32" else st.integers(0, 12)
    number = (
        whole if "int" in kind else st.floats(-0.5, 2, width=32) | st.sampled_from([0.5, 1.5, -0.5, 2.0**60, 1e300])
    )
    if kind == "float32":
        number = number.filter(lambda value: abs(value) < 1e38)
    axes = data.draw(st.sampled_from([{}, {"axis_names": "HW"}, {"axes": [0]}, {"axes": [2, -3]}, {"axes": []}]))
    pairs = st.tuples(*[number] * (len(axes["axes"]) or 3 if "axes" in axes else 2))
    anchors, sizes = (np.array(data.draw(st.lists(pairs, min_size=count, max_size=count)), kind) for _ in "ab")
    shapes = data.draw(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=count, max_size=count))
    images = [np.arange(np.prod(shape), dtype="int32").reshape(shape) for shape in shapes]
    arguments = axes | {
        "normalized_anchor": data.draw(st.booleans()),
        "normalized_shape": data.draw(st.booleans()),
        "out_of_bounds_policy": data.draw(st.sampled_from(["pad", "trim_to_shape", "error"])),
    }
    expected: list[np.ndarray] = []
    refused = ""
    for image, anchor, size in zip(images, anchors, sizes, strict=True):
        assume(max(map(abs, [*anchor.tolist(), *size.tolist()])) < 99 or arguments["out_of_bounds_policy"] != "pad")
        try:
            expected.append(ndd.slice(as_tensor(image, layout="HWC"), anchor, size, **arguments).numpy())
        except ArgumentError as error:
            refused = refused or str(error)
    batches = as_batch(images, layout="HWC"), as_batch(anchors), as_batch(sizes)
    if refused:
        with pytest.raises(ArgumentError, match=re.escape(refused)):
            ndd.slice(*batches, **arguments)
        return
    for one, other in zip(ndd.slice(*batches, **arguments).samples, expected, strict=True):
        assert one.shape == other.shape
        assert (one == other).all()
