"""Bounding boxes: in plain arithmetic, by hand, and as DALI moves, matches and crops them."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import dynamic
from dynamic import (
    ArgumentError,
    Batch,
    as_batch,
    as_tensor,
    bb_flip,
    bbox_paste,
    bbox_rotate,
    box_encoder,
    random_bbox_crop,
    rotate,
)
from dynamic.random import RNG, _box_windows
from dynamic.random._distributions import below

units = st.floats(0, 1, width=16)


@st.composite
def boxes(draw, least=0, most=6, ndim=2, dtype="float32"):
    """Boxes, starts and ends in units of the image."""
    corners = draw(npst.arrays(np.float16, (draw(st.integers(least, most)), 2, ndim), elements=units))
    found = np.sort(corners, axis=1).reshape(-1, 2 * ndim).astype(dtype)
    found.flags.writeable = False
    return found


def with_extents(array):
    """Starts and extents of boxes."""
    half = array.shape[1] // 2
    found = array.copy()
    found[:, half:] -= found[:, :half]
    return found


# Flip and paste


@given(array=boxes(), horizontal=st.booleans(), vertical=st.booleans())
def test_flipped_boxes_are_those_of_the_flipped_image(array, horizontal, vertical):
    arguments = {"horizontal": int(horizontal), "vertical": int(vertical)}
    expected = array.astype(float)
    if horizontal:
        expected[:, [0, 2]] = 1 - expected[:, [2, 0]]
    if vertical:
        expected[:, [1, 3]] = 1 - expected[:, [3, 1]]
    found = bb_flip(array, ltrb=True, **arguments)
    np.testing.assert_allclose(found.array, expected, atol=1e-6)
    np.testing.assert_allclose(bb_flip(with_extents(array), **arguments).array, with_extents(expected), atol=1e-6)
    np.testing.assert_allclose(bb_flip(found, ltrb=True, **arguments).array, array, atol=1e-6)


@pytest.mark.parametrize(("ratio", "name"), [(0.5, "ratio"), (as_batch([1.0, 0.5]), r"ratio\[1\]")])
def test_boxes_are_pasted_on_nothing_smaller_than_their_image(ratio, name):
    with pytest.raises(ArgumentError, match=f"'{name}' must be a finite number of at least 1"):
        bbox_paste(as_batch([np.array([[0.25, 0.5, 0.25, 0.25]])] * 2), ratio=ratio)


@given(array=boxes(), ratio=st.floats(1, 5, width=32), x=units, y=units)
def test_pasted_boxes_are_where_the_image_is(array, ratio, x, y):
    room = np.array([x, y]) * (ratio - 1)  # of the canvas that is beside the image, in units of the image
    expected = (array.astype(float) + [*room, *room]) / ratio
    found = bbox_paste(array, ltrb=True, ratio=ratio, paste_x=x, paste_y=y).array
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.size == 0 or found.max() <= 1
    found = bbox_paste(with_extents(array), ratio=ratio, paste_x=x, paste_y=y).array
    np.testing.assert_allclose(found, with_extents(expected), atol=1e-6)


def test_boxes_may_be_in_any_array_whose_rows_are_boxes():
    flat = np.array([0.25, 0.5, 0.25, 0.125, 0.0, 0.0, 0.5, 1.0])
    assert bb_flip(flat).tolist() == [0.5, 0.5, 0.25, 0.125, 0.5, 0.0, 0.5, 1.0]
    frames = flat.reshape(2, 1, 4).astype(np.float16)
    assert bb_flip(frames).shape == frames.shape
    assert bbox_paste(frames, ratio=2).dtype.name == "f16"
    for operator, more in ((bb_flip, {}), (bbox_paste, {"ratio": 1})):
        with pytest.raises(ArgumentError, match=f"{operator.name}.*four numbers"):
            operator(np.zeros((4, 3), np.float32), **more)
        with pytest.raises(ArgumentError, match="of dtype float16"):
            operator(np.zeros((3, 4), np.int32), **more)


# Rotate


def turned(array, angle, size, canvas):
    """The boxes around turned boxes, corner by corner, in pixels."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    found = []
    for left, top, right, bottom in array.tolist():
        corners = [(x - size[0] / 2, y - size[1] / 2) for x in (left, right) for y in (top, bottom)]
        moved = np.array([(x * cos + y * sin, y * cos - x * sin) for x, y in corners]) + np.array(canvas) / 2
        found.append([*moved.min(0), *moved.max(0)])
    return np.array(found).reshape(-1, 4)


@given(array=boxes(), angle=st.floats(-400, 400, width=16) | st.sampled_from([90.0 * k for k in range(-4, 6)]),
       height=st.integers(1, 90), width=st.integers(1, 90), normalized=st.booleans(),
       extents=st.booleans())  # fmt: skip
def test_turned_boxes_hold_the_turned_corners(array, angle, height, width, normalized, extents):
    rows, columns = rotate(np.zeros((height, width), np.uint8), angle=angle).shape
    pixels = array * np.array([width, height] * 2, float)
    expected = np.clip(turned(pixels, angle, (width, height), (columns, rows)), 0, [columns, rows] * 2)
    given_ = array if normalized else pixels.astype(np.float32)
    found, kept = (
        each.array
        for each in bbox_rotate(
            with_extents(given_) if extents else given_, np.arange(len(array)), angle=angle,
            input_shape=(height, width), bbox_layout="xyWH" if extents else "xyXY", bbox_normalized=normalized,
            remove_threshold=0,
        )
    )  # fmt: skip
    solid = (array[:, 2:] - array[:, :2]).prod(1) > 1e-6  # boxes without area may come or go
    assert set(np.flatnonzero(solid)) <= set(kept)
    expected = expected[kept]
    if extents:
        found = np.concatenate([found[:, :2], found[:, :2] + found[:, 2:]], axis=1)
    scale = [columns, rows] * 2 if normalized else 1
    np.testing.assert_allclose(found * scale, expected, atol=2e-3)


def test_boxes_that_leave_the_canvas_are_cut_off_and_removed():
    array = np.array([[0.0, 0.0, 0.25, 0.25], [0.375, 0.375, 0.625, 0.625], [0.0, 0.375, 0.5, 0.625]], np.float32)
    labels = np.array([[5], [6], [7]], np.int64)
    found, kept = bbox_rotate(array, labels, angle=45, input_shape=(100, 100, 3), keep_size=True, remove_threshold=0.6)
    assert kept.tolist() == [[6], [7]]
    assert found.array.min() >= 0
    assert np.abs(found.array[0] - (0.5 + np.array([-1, -1, 1, 1]) * 0.125 * math.sqrt(2))).max() < 1e-6
    for threshold, expected in ((0.0, 3), (0.41, 3), (0.42, 2), (1.0, 2)):
        assert (
            len(bbox_rotate(array, angle=45, input_shape=(9, 9), keep_size=1, remove_threshold=threshold)) == expected
        )
    assert bbox_rotate(array, angle=90, input_shape=(7, 9), remove_threshold=1).shape == (
        3,
        4,
    )  # nothing is rounded off


def test_boxes_without_area_are_removed_whatever_the_threshold_is():
    array = np.array(
        [[0.5, 0.5, 0.5, 0.7], [0.1, 0.1, 0.3, 0.3], [0.2, 0.4, 0.6, 0.4], [0.5, 0.5, 0.5, 0.5]], np.float32
    )
    for threshold in (0.0, 0.1, 1.0):
        for angle in (0.0, 90.0):
            found = bbox_rotate(array, np.arange(4), angle=angle, input_shape=(10, 10), remove_threshold=threshold)
            assert found[1].tolist() == [1]
    turned_by_half = bbox_rotate(array, np.arange(4), angle=45.0, input_shape=(10, 10), remove_threshold=0)
    assert turned_by_half[1].tolist() == [0, 1, 2]  # what is around a turned line has an area


def test_boxes_may_keep_their_size_or_half_of_their_growth():
    box = np.array([[40, 45, 60, 55]], np.float32)
    for mode, width in (("expand", 30 / math.sqrt(2)), ("fixed", 20), ("halfway", (30 / math.sqrt(2) + 20) / 2)):
        for angle in (45, 135 + 1e-3):
            found = bbox_rotate(
                box, angle=angle, input_shape=(100, 100), bbox_normalized=False, keep_size=True, mode=mode
            )
            left, _, right, _ = found.tolist()[0]
            assert abs(right - left - width) < 0.01
            assert abs(left + right - 100) < 0.01
    tall = bbox_rotate(box, angle=80, input_shape=(100, 100), bbox_normalized=False, keep_size=True, mode="fixed")
    left, top, right, bottom = tall.tolist()[0]
    assert (round(right - left, 3), round(bottom - top, 3)) == (10, 20)


def test_the_image_and_the_canvas_are_told_in_several_ways():
    box = np.array([[0.0, 0.0, 0.5, 0.5]], np.float32)
    shapes = {"HW": (100, 200), "HWC": (100, 200, 3), "CHW": (3, 100, 200), "WH": (200, 100)}
    same = [bbox_rotate(box, angle=90, input_shape=shapes[layout], shape_layout=layout).tolist() for layout in shapes]
    assert same == [[[0.0, 0.5, 0.5, 1.0]]] * 4
    sized = bbox_rotate(box, angle=90, input_shape=(100, 200), size=(400.7, 100)).tolist()
    assert sized == [[0.0, 0.5, 0.5, 0.75]]
    batch = as_batch([box, box])
    found, labels = bbox_rotate(batch, as_batch([[1], [2]]), angle=as_batch([0.0, 90.0]),
                                input_shape=as_batch([[5, 7], [100, 200]]))  # fmt: skip
    assert found.tolist() == [[[0.0, 0.0, 0.5, 0.5]], [[0.0, 0.5, 0.5, 1.0]]]
    assert (found.whole is not None, labels.tolist()) == (True, [[1], [2]])
    none = Batch([], None, dtype=np.dtype("float32"), ndim=2)
    found, labels = bbox_rotate(none, as_batch([[1], [2]])[0:0], angle=1, input_shape=(5, 5))
    assert (len(found), found.ndim, len(labels), labels.ndim) == (0, 2, 0, 1)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"input_shape": (5,)}, "'input_shape' must be extents as 'HW' names"), ({"shape_layout": "HC"}, "'shape_layout'"),
    ({"size": (5, 5), "keep_size": True}, "'size' must be left out"), ({"size": (5,)}, "'size' must be a height"),
    ({"bbox_layout": "XYxy"}, "'bbox_layout'"), ({"mode": "shrink"}, "'mode'"),
    ({"remove_threshold": 1.5}, "'remove_threshold'")])  # fmt: skip
def test_wrong_arguments_of_rotate_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        bbox_rotate(np.zeros((1, 4), np.float32), **{"angle": 5, "input_shape": (5, 5), **arguments})
    with pytest.raises(ArgumentError, match=r"'labels' must be one for each of the 1 boxes; got shape \(2,\)"):
        bbox_rotate(np.zeros((1, 4), np.float32), [1, 2], angle=5, input_shape=(5, 5))
    with pytest.raises(ArgumentError, match=r"'bboxes' must be of shape \(N, 4\)"):
        bbox_rotate(np.zeros((2, 1, 4), np.float32), angle=5, input_shape=(5, 5))


# Anchors


def overlap(a, b):
    """The intersection of two boxes as a part of their union."""
    width, height = (min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1))
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return common / (sum(areas) - common) if common else 0


@given(array=boxes(dtype="float64"), anchors=boxes(least=1, most=9, dtype="float64"), criteria=units)
def test_anchors_stand_for_the_boxes_that_they_overlap_most(array, anchors, criteria):
    table = np.array([[overlap(box, anchor) for anchor in anchors] for box in array]).reshape(len(array), len(anchors))
    for row in table:
        row[len(row) - 1 - np.argmax(row[::-1])] = 2
    made, labels = box_encoder(array, np.arange(1, len(array) + 1), anchors=anchors, criteria=criteria)
    for j, anchor in enumerate(anchors):
        best = max((table[i, j], i) for i in range(len(array))) if len(array) else (0, 0)
        matched = len(array) > 0 and best[0] > criteria
        box = array[best[1]] if matched else anchor
        assert labels.array[j] == (best[1] + 1 if matched else 0)
        np.testing.assert_allclose(made.array[j], [*(box[:2] + box[2:]) / 2, *box[2:] - box[:2]], atol=1e-12)


def test_offsets_from_anchors():
    anchors = np.array([[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])
    arguments = {"anchors": anchors, "means": (0.5, 0, 0, 1), "stds": (1, 2, 0.5, 0.25), "scale": 300.0}
    made, labels = box_encoder(np.array([[0.125, 0.125, 0.625, 0.5]]), [3], offset=True, **arguments)
    assert labels.tolist() == [3, 0]
    assert labels.dtype.name == "i32"
    assert made.tolist()[1] == [0, 0, 0, 0]
    expected = [(0.125 / 0.5 - 0.5) / 1, 0.0625 / 0.5 / 2, 0, (math.log(0.375 / 0.5) - 1) / 0.25]
    np.testing.assert_allclose(made.array[0], expected, atol=1e-12)


def test_anchors_are_a_sequence_or_an_array():
    generator = np.random.default_rng(1)
    array, anchors = (np.sort(generator.random((n, 2, 2)), axis=1).reshape(n, 4) for n in (5, 40))
    expected = box_encoder(array, np.arange(5), anchors=anchors)
    for same in (anchors.reshape(-1).tolist(), anchors.reshape(-1), anchors.tolist(), as_tensor(anchors)):
        found = box_encoder(array, np.arange(5), anchors=same)
        assert all(np.array_equal(a.array, b.array) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"anchors": [0.0] * 6}, "'anchors'"), ({"anchors": []}, "'anchors' must be one or more of four"),
    ({"criteria": 2}, "'criteria'"),
    ({"stds": (1, 0, 1, 1)}, "'stds' must be four numbers that are not 0"), ({"means": (1,)}, "'means'")])  # fmt: skip
def test_wrong_arguments_of_anchors_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        box_encoder(np.zeros((1, 4), np.float32), [1], **{"anchors": [0.0] * 4, **arguments})
    with pytest.raises(ArgumentError, match="'labels' must be one for each of 1 boxes"):
        box_encoder(np.zeros((1, 4), np.float32), [1, 2], anchors=[0.0] * 4)
    with pytest.raises(ArgumentError, match=r"'bboxes' must be of shape \(N, 4\)"):
        box_encoder(np.zeros(4, np.float32), [1], anchors=[0.0] * 4)


# Random windows


def cropped(array, window):
    """Boxes in units of a window, in float64."""
    half = array.shape[1] // 2
    low, high = np.array(window[:half], float), np.array(window[half:], float)
    return np.clip((array.reshape(-1, 2, half).astype(float) - low) / (high - low), 0, 1).reshape(array.shape)


SCALES = {"scaling": (0.3, 0.9), "aspect_ratio": (0.5, 2.0), "allow_no_crop": False}


@given(array=boxes(least=1), seed=st.integers(0, 2**64 - 1), metric=st.sampled_from(["iou", "overlap"]),
       every=st.booleans(), threshold=st.floats(0, 0.5, width=16), attempts=st.integers(1, 20))  # fmt: skip
def test_windows_overlap_the_boxes_as_they_should(array, seed, metric, every, threshold, attempts):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        anchor, shape, left, kept = random_bbox_crop(
            array, all_boxes_above_threshold=every, threshold_type=metric, thresholds=threshold, rng=RNG(seed),
            num_attempts=attempts, total_num_attempts=200, output_bbox_indices=True, **SCALES)  # fmt: skip
    if not caught:
        window = [*anchor.tolist(), *(anchor.array + shape.array).tolist()]
        assert all(0.2999 <= extent <= 0.9001 for extent in shape.tolist())
        assert 0.499 <= shape.array[0] / shape.array[1] <= 2.001
        assert min(window) >= -1e-6
        assert max(window) <= 1.000001
        overlaps = [overlap(window, box) for box in array.tolist()]
        if metric == "overlap":
            areas = np.prod(array[:, 2:].astype(float) - array[:, :2], axis=1)
            sums = np.prod(shape.array, dtype=float) + areas  # of box and window; the intersection is o / (1 + o) of it
            overlaps = [o / (1 + o) * s / a if o else 0 for o, s, a in zip(overlaps, sums, areas, strict=True)]
        assert (min if every else max)(overlaps) >= threshold - 1e-4
        np.testing.assert_allclose(left.array, cropped(array, window)[kept.array], atol=1e-4)
        centres = (array[:, :2] + array[:, 2:]) / 2
        inside = ((centres >= window[:2]) & (centres < window[2:])).all(1)
        near = (np.abs(centres[:, None] - np.array(window).reshape(2, 2)) < 1e-5).any((1, 2))
        assert np.array_equal(np.isin(np.arange(len(array)), kept.array) | near, inside | near)
        assert len(left) > 0


@given(seed=st.integers(0, 2**64 - 1), ratio=st.floats(0.5, 2, width=16), width=st.integers(50, 900),
       height=st.integers(50, 900), ndim=st.sampled_from([2, 3]))  # fmt: skip
def test_a_ratio_is_that_of_pixels_where_the_image_is_known(seed, ratio, width, height, ndim):
    box, image = np.array([[0.0] * ndim + [1.0] * ndim], np.float32), np.array([width, height, 70][:ndim])
    draw = functools.partial(random_bbox_crop, aspect_ratio=(ratio, ratio), scaling=(0.3, 1.0), allow_no_crop=False,
                             batch_size=9, total_num_attempts=1, quiet=True, rng=RNG(seed))  # fmt: skip
    for arguments, pixels in (({"input_shape": image.tolist()}, image), ({}, 1)):
        anchors, shapes, _ = draw(box, **arguments)
        sides = shapes.whole * pixels
        drawn = (shapes.whole < 1).any(1)  # else no window was good, and the whole image is taken
        np.testing.assert_allclose(sides[drawn, 0] / sides[drawn, 1], ratio, rtol=1e-4)
        assert (anchors.whole >= 0).all()
        assert (anchors.whole + shapes.whole <= 1.00001).all()


@given(data=st.data(), seed=st.integers(0, 2**32), attempts=st.integers(1, 9), ndim=st.sampled_from([2, 3]),
       fixed=st.booleans(), most=st.integers(1, 60), prune=st.none() | units)  # fmt: skip
def test_windows_do_not_depend_on_what_is_drawn_at_once(data, seed, attempts, ndim, fixed, most, prune):
    arrays = data.draw(st.lists(boxes(ndim=ndim), min_size=1, max_size=5))
    scales = {"scaling": (0.3, 1.0), "aspect_ratio": data.draw(st.sampled_from([(0.5, 2.0), (0.8, 0.8)]))}
    sizes = {"crop_shape": (30, 50, 40)[:ndim], "input_shape": (60, 40, 90)[:ndim]}
    arguments = {"thresholds": (0.0, 0.3, 0.6), "num_attempts": attempts, "total_num_attempts": most, "quiet": True}
    arguments |= {"bbox_prune_threshold": prune, "output_bbox_indices": True, **(sizes if fixed else scales)}
    rng, ids = RNG(seed), list(range(len(arrays)))
    with pytest.MonkeyPatch.context() as patch:
        together = random_bbox_crop(as_batch(arrays), rng=rng.keyed(ids)["windows"], **arguments)
        for name, value in {"_AT_ONCE": 1, "_FIRST_ROUNDS": 1, "_PAIRS": 1}.items():
            patch.setattr(_box_windows, name, value)
        apart = random_bbox_crop(as_batch(arrays), rng=rng.keyed(ids)["windows"], **arguments)
        alone = [random_bbox_crop(array, rng=rng.keyed(i)["windows"], **arguments) for i, array in enumerate(arrays)]
    for a, b, *each in zip(together, apart, *alone, strict=True):
        assert a.tolist() == b.tolist() == [one.tolist() for one in each]


def test_words_that_choose_no_threshold_are_passed_over():
    class Draw:
        words = np.array([0, 0, 3 << 30, 1 << 31, 1 << 31, 1 << 30, 1 << 30, 0, 5, 6, 7, 8, 9] * 4, np.uint32)

        def following(self, count, samples, starts):
            return np.stack([self.words[start : start + count] for start in starts])

    rules = _box_windows.Rules((0.5,) * 3, 1, 9, (0.5, 1.0), ((0.5, 2.0),), of_boxes=False, all_boxes=True, prune=None)
    rounds = _box_windows._Random(Draw(), rules, 2, np.array([0]), None).draw(2)
    stream = iter(Draw.words.tolist())
    first = below(stream, 3)
    next(stream), next(stream), next(stream), next(stream)
    assert rounds.chosen.tolist() == [[first, below(stream, 3)]]


def test_the_whole_image_is_one_of_the_outcomes():
    array, rng = np.array([[0.25, 0.25, 0.75, 0.75]], np.float32), RNG(1)
    arguments = {"scaling": (0.8, 0.9), "thresholds": (0.0, 0.1)}
    found = [random_bbox_crop(array, [7], rng=rng, **arguments)[1].tolist() for _ in range(600)]
    assert 150 < sum(shape == [1, 1] for shape in found) < 250
    once = random_bbox_crop(array, scaling=(0.3, 0.5), thresholds=1, total_num_attempts=1, quiet=True, rng=RNG(4))
    assert len(once) == 3


def test_windows_of_a_fixed_size_are_in_pixels():
    array = np.array([[0.25, 0.25, 0.5, 0.5], [0.75, 0.75, 1.0, 1.0]], np.float32)
    for seed in range(20):
        anchor, shape, left, indices = random_bbox_crop(
            array, crop_shape=(60, 100, 3), input_shape=(120, 80, 3), shape_layout="HWC", output_bbox_indices=True,
            all_boxes_above_threshold=False, rng=RNG(seed))  # fmt: skip
        assert shape.tolist() == [100, 60]
        (x, y), window = anchor.tolist(), [anchor.array[0] / 80, anchor.array[1] / 120]
        assert -20 <= x <= 0 <= y <= 60
        assert (x, y) == (int(x), int(y))
        expected = cropped(array, [*window, window[0] + 100 / 80, window[1] + 60 / 120])
        np.testing.assert_allclose(left.array, expected[indices.array], atol=1e-5)


@pytest.mark.parametrize(("prune", "kept"), [(None, [0]), (0.0, [0, 1]), (0.3, [0, 1]), (0.4, [0])])
def test_boxes_are_left_by_their_centre_or_by_the_part_inside(prune, kept):
    array = np.array([[0.0, 0.0, 0.5, 1.0], [0.25, 0.0, 1.0, 1.0]], np.float32)
    found = random_bbox_crop(array, crop_shape=(50, 100), input_shape=(100, 100), bbox_prune_threshold=prune,
                             all_boxes_above_threshold=False, output_bbox_indices=True, thresholds=0.999,
                             threshold_type="overlap", num_attempts=1000, rng=RNG(1))  # fmt: skip
    assert found[0].tolist() == [0, 0]  # only there is the first box inside as a whole
    assert found[-1].tolist() == kept


def test_layouts_of_boxes_and_labels_of_any_shape():
    array = np.array([[0.25, 0.125, 0.5, 0.75], [0.5, 0.25, 0.75, 0.5]])
    labels = np.array([[1, 2], [3, 4]], np.int16)
    expected = random_bbox_crop(array, labels, rng=RNG(3), **SCALES)
    assert [str(x.dtype) for x in expected] == ["f32", "f32", "f64", "i16"]
    for layout, form in (("xXyY", array[:, [0, 2, 1, 3]]), ("WxyH", with_extents(array)[:, [2, 0, 1, 3]])):
        found = random_bbox_crop(form, labels, bbox_layout=layout, rng=RNG(3), **SCALES)
        back = found[2].array[:, [layout.index(letter) for letter in ("xyXY" if "X" in layout else "xyWH")]]
        plain = expected[2].array if "X" in layout else with_extents(expected[2].array)
        np.testing.assert_allclose(back, plain, atol=1e-12)
        assert np.array_equal(found[3].array, expected[3].array)
    found = random_bbox_crop(with_extents(array), ltrb=False, rng=RNG(3), **SCALES)
    np.testing.assert_allclose(found[2].array, with_extents(expected[2].array), atol=1e-12)


def test_boxes_may_reach_out_by_rounding_only():
    array = np.array([[0.3, 0.2, 0.7000001, 0.6]], np.float32)
    assert random_bbox_crop(array, bbox_layout="xyWH", rng=RNG(1))[2].shape == (1, 4)
    with pytest.raises(ArgumentError, match="'boxes' must be in units of the image"):
        random_bbox_crop(array + 0.01, bbox_layout="xyWH", rng=RNG(1))


@pytest.mark.parametrize("arguments", [{"input_shape": (2**64, 3)}, {"crop_shape": (2, 2**31), "input_shape": (4, 4)}])
def test_extents_beyond_int32_are_named_and_draw_nothing(arguments):
    rng = RNG(1)
    before = rng.state
    with pytest.raises(ArgumentError, match="_shape' must be extents below 2\\*\\*31"):
        random_bbox_crop([[0, 0, 0.5, 0.5]], **arguments, rng=rng)
    assert rng.state == before


@pytest.mark.parametrize("arguments", [
    {"aspect_ratio": (1e30, 1e30), "scaling": (0.5, 0.5)}, {"scaling": (1e30, 1e30)}, {"scaling": (0, 0)},
    {"aspect_ratio": (0, 0), "scaling": (0, 0)}, {"aspect_ratio": (1e30, 1e30), "scaling": (1e30, 1e30)},
    {"scaling": (1e30, 1e30), "input_shape": (4, 5)}])  # fmt: skip
def test_windows_without_area_or_beyond_numbers_give_no_warning(arguments):
    boxes = np.array([[0, 0, 0.5, 0.5], [0.2, 0.3, 0.7, 0.9]], "f4")
    start, shape, left = random_bbox_crop(
        boxes, **arguments, allow_no_crop=False, total_num_attempts=5, quiet=True, rng=RNG(3)
    )
    assert all(np.isfinite(part.array).all() for part in (start, shape, left))


def test_where_nothing_fits_the_best_window_is_taken_and_told():
    array = np.array([[0.0, 0.0, 0.125, 0.125], [0.875, 0.875, 1.0, 1.0]], np.float32)
    with pytest.warns(UserWarning, match="no window overlaps the boxes enough"):
        found = random_bbox_crop(array, thresholds=1, num_attempts=50, rng=RNG(1), **SCALES)  # DALI goes on for ever
    assert found[1].array.max() <= 0.9
    impossible = {"aspect_ratio": (5.0, 5.1), "scaling": (0.9, 1.0), "allow_no_crop": False, "quiet": True}
    anchor, shape, left = random_bbox_crop(array, rng=RNG(1), **impossible)
    assert (anchor.tolist(), shape.tolist()) == ([0, 0], [1, 1])  # DALI's window has no pixel
    assert np.array_equal(left.array, array)
    none = np.zeros((0, 4), np.float32)
    assert random_bbox_crop(none, np.zeros(0, np.int32), rng=RNG(1), thresholds=0, **SCALES)[2].shape == (0, 4)


def test_windows_belong_to_samples_whatever_the_batch():
    generator = np.random.default_rng(3)
    arrays = [np.sort(generator.random((n, 2, 2)), axis=1).reshape(n, 4).astype(np.float32) for n in (3, 1, 4, 2)]
    ids, rng = [4, 9, 2, 7], RNG(5)
    whole = random_bbox_crop(
        as_batch(arrays), as_batch([np.arange(len(a)) for a in arrays]), rng=rng.keyed(ids)["c"], **SCALES
    )
    order = [2, 0, 3, 1]
    mixed = random_bbox_crop(
        as_batch([arrays[i] for i in order]), rng=rng.keyed([ids[i] for i in order])["c"], **SCALES
    )
    alone = random_bbox_crop(arrays[2], rng=rng.keyed(2)["c"], **SCALES)
    for k in range(3):
        assert [mixed[k][place].tolist() for place in range(4)] == [whole[k][i].tolist() for i in order]
        assert alone[k].tolist() == whole[k][2].tolist()
    assert len(random_bbox_crop(arrays[0], batch_size=3, rng=RNG(1))[2]) == 3
    empty = random_bbox_crop(as_batch(arrays)[0:0], rng=RNG(1), output_bbox_indices=True)
    assert [(len(x), x.ndim, str(x.dtype)) for x in empty] == [
        (0, 1, "f32"),
        (0, 1, "f32"),
        (0, 2, "f32"),
        (0, 1, "i32"),
    ]
    assert whole[0].whole is not None


BOX = np.array([[0.25, 0.25, 0.5, 0.5]], np.float32)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"scaling": (0.5,)}, "'scaling' must be 2 numbers"), ({"scaling": (0.5, 0.2)}, "'scaling'"),
    ({"aspect_ratio": (1, 2, 3)}, "'aspect_ratio' must be 2 or 6"), ({"thresholds": ()}, "'thresholds' must be one"),
    ({"thresholds": (0.5, 1.5)}, "'thresholds'"), ({"num_attempts": 0}, "'num_attempts'"),
    ({"total_num_attempts": 0}, "'total_num_attempts'"), ({"bbox_prune_threshold": 2}, "'bbox_prune_threshold'"),
    ({"crop_shape": (5, 5)}, "'input_shape' must be given"), ({"bbox_layout": "xyxy"}, "'bbox_layout'"),
    ({"bbox_layout": "xyXY", "ltrb": False}, "'ltrb'"), ({"input_shape": (5, 5, 3)}, "'input_shape' must be 2 extents"),
    ({"input_shape": (5, 5), "shape_layout": "WD"}, "'shape_layout'"), ({"threshold_type": "x"}, "'threshold_type'"),
    ({"crop_shape": (5, 5), "input_shape": (9, 9), "scaling": (0.1, 0.5)}, "'scaling' must be left out"),
    ({"treshold": 1}, "Did you mean 'thresholds'"), ({"batch_size": -1}, "'batch_size'")])  # fmt: skip
def test_wrong_arguments_of_windows_are_named_and_draw_nothing(arguments, told):
    rng = RNG(1)
    before = rng.state
    with pytest.raises(ArgumentError, match=rf"random_bbox_crop\(\).*{told}"):
        random_bbox_crop(BOX, rng=rng, **arguments)
    for bad in ((BOX, [1, 2]), (BOX[0],), (BOX[:, :2],), (BOX.astype(int),), (as_batch([BOX]), as_batch([[1], [2]]))):
        with pytest.raises(ArgumentError):
            random_bbox_crop(*bad, rng=rng)
    assert rng.state == before


# DALI


@given(data=st.data())
def test_boxes_are_turned_as_dali_turns_them(dali: Oracle, data):
    height, width = data.draw(st.integers(1, 700)), data.draw(st.integers(1, 700))
    normalized, ltrb = data.draw(st.booleans()), data.draw(st.booleans())
    array = data.draw(boxes(least=1))
    array = array[((array[:, 2:] - array[:, :2]) > 0.01).all(1)]
    array = array if ltrb else with_extents(array)
    array = array if normalized else (array * np.array([width, height] * 2, np.float32)).astype(np.float32)
    arguments = {
        "angle": data.draw(st.floats(-400, 400, width=16) | st.sampled_from([0.0, 45.0, 90.0, -180.0])),
        "input_shape": [height, width], "bbox_layout": "xyXY" if ltrb else "xyWH", "bbox_normalized": normalized,
        "mode": data.draw(st.sampled_from(["expand", "halfway", "fixed"])),
        "remove_threshold": data.draw(st.sampled_from([0.0, 0.1003, 0.5007])),
        **data.draw(st.sampled_from([{}, {"keep_size": True}, {"size": [123.4, 77.0]}])),
    }  # fmt: skip
    labels = np.arange(len(array), dtype=np.int32)
    expected, kept = dali.call("bbox_rotate", [array, labels], **arguments)
    found, ours = bbox_rotate(array, labels, **arguments)
    if ours.tolist() != kept.array.tolist():  # the part that is left is that of the threshold, but for rounding
        around = [max(0, arguments["remove_threshold"] + change) for change in (1e-3, -1e-3)]
        loose = [bbox_rotate(array, labels, **{**arguments, "remove_threshold": r})[1].tolist() for r in around]
        assert set(loose[0]) <= set(kept.array.tolist()) <= set(loose[1])
        return
    np.testing.assert_allclose(found.array, expected.array, rtol=1e-5, atol=1e-6 if normalized else 1e-3)


CROPS = [
    {"scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "thresholds": [0.0, 0.1, 0.3, 0.5], "num_attempts": 50},
    {"scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "num_attempts": 1, "all_boxes_above_threshold": False},
    {"scaling": [0.5, 1.3], "aspect_ratio": [0.8, 1.25], "thresholds": [0.4], "threshold_type": "overlap",
     "num_attempts": 3, "total_num_attempts": 40, "quiet": True},
    {"scaling": [0.3, 1.0], "bbox_prune_threshold": 0.3, "allow_no_crop": False, "total_num_attempts": 100,
     "quiet": True, "output_bbox_indices": True},
    {"scaling": [0.3, 1.0], "input_shape": [300, 300], "allow_no_crop": False, "total_num_attempts": 300,
     "quiet": True},
    {"scaling": [0.3, 1.0], "input_shape": [300, 200], "shape_layout": "HW", "aspect_ratio": [0.7, 1.6],
     "num_attempts": 7},
    {"crop_shape": [50, 90], "input_shape": [120, 70], "shape_layout": "HW", "allow_no_crop": False,
     "all_boxes_above_threshold": False, "total_num_attempts": 50, "quiet": True},
]  # fmt: skip


@given(data=st.data(), arguments=st.sampled_from(CROPS), seed=st.integers(0, 2**32))
def test_windows_are_dalis_bit_for_bit(dali: Oracle, data, arguments, seed):
    arrays = [data.draw(boxes(least=1)) for _ in range(4)]  # it refuses shapes for 3 or 5 samples
    arrays = [array[((array[:, 2:] - array[:, :2]) > 0.01).all(1)] for array in arrays]
    labels = [np.arange(len(array), dtype=np.int32) for array in arrays]
    if any(len(array) == 0 for array in arrays):
        return
    calls = dali.call("random_bbox_crop", [Samples(arrays), Samples(labels)], seed=seed, calls=2, **arguments)
    rng = RNG(seed)
    for expected in calls:
        found = random_bbox_crop(as_batch(arrays), as_batch(labels), rng=rng, **arguments)
        for a, b in zip(found, expected, strict=True):
            assert all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(a.samples, b.samples, strict=True))


@pytest.mark.parametrize("ratios", [[0.7, 1.3], [0.7, 0.7, 0.5, 2, 0.3, 3], [0.3, 3, 1.4, 1.4, 0.7, 0.7]], ids=str)
def test_windows_of_volumes_are_dalis_bit_for_bit(dali: Oracle, ratios):
    array = np.array([[0.1, 0.2, 0.3, 0.5, 0.6, 0.7], [0.3, 0.3, 0.1, 0.9, 0.8, 0.8]], np.float32)
    arguments = {"scaling": [0.3, 1.0], "aspect_ratio": ratios, "thresholds": [0.05], "num_attempts": 20,
                 "total_num_attempts": 500, "output_bbox_indices": True, "quiet": True}  # fmt: skip
    for seed in range(10):
        (expected,) = dali.call("random_bbox_crop", [array], seed=seed, calls=1, **arguments)
        found = random_bbox_crop(array, rng=RNG(seed), **arguments)
        assert all(np.array_equal(a.array, b.array) for a, b in zip(found, expected, strict=True))


def test_windows_of_a_fixed_ratio_lie_in_the_image_and_dalis_do_not(dali: Oracle):
    arguments = {"scaling": [0.5, 1.0], "input_shape": [300, 100], "allow_no_crop": False, "quiet": True}
    whole = np.array([[0, 0, 1, 1]], np.float32)
    (expected,) = dali.call("random_bbox_crop", [whole], seed=3, calls=1, **arguments)
    found = random_bbox_crop(whole, rng=RNG(3), **arguments)
    (their_start, their_shape), (start, shape) = ([part.array for part in parts[:2]] for parts in (expected, found))
    assert their_start[1] < 0
    assert their_shape[1] > 1
    assert (start >= 0).all()
    assert (start + shape <= 1).all()
    np.testing.assert_allclose(their_shape[0] / their_shape[1], shape[0] / shape[1], rtol=1e-6)


def test_words_are_used_as_randomness_says():
    """A window for a threshold: the threshold, the extents, x and y of the start."""
    rng = RNG(11)
    words = rng.clone().draw(None).some(0, 0, 5)
    anchor, shape, _ = random_bbox_crop(BOX, scaling=(0.5, 1.0), aspect_ratio=(0.1, 9.0), allow_no_crop=False, rng=rng,
                                        total_num_attempts=1, quiet=True)  # fmt: skip
    units_ = [word * 2.0**-32 for word in words[1:]]
    extents = [0.5 + 0.5 * unit for unit in units_[:2]]
    np.testing.assert_allclose(shape.array, extents, rtol=1e-5)
    np.testing.assert_allclose(
        anchor.array, [u * (1 - e) for u, e in zip(units_[2:], extents, strict=False)], rtol=1e-4, atol=1e-6
    )
    assert dynamic.random_bbox_crop is random_bbox_crop
    assert as_tensor(anchor).ndim == 1


@given(seed=st.integers(0, 2**32), settings=st.sampled_from([{"thresholds": (0.5,)}, {"thresholds": (0.3, 1.0)}, {}]))
def test_any_window_of_an_image_without_boxes_is_good(dali: Oracle, seed, settings):
    none = np.zeros((0, 4), np.float32)
    arguments = {"bbox_layout": "xyXY", "scaling": (0.3, 1.0), "aspect_ratio": (0.5, 2.0), **settings}
    expected = dali.call("random_bbox_crop", [none], seed=seed, **arguments)
    found = random_bbox_crop(none, rng=RNG(seed), **arguments)
    for mine, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(mine.array, other.array, rtol=1e-6, atol=1e-6)


def test_images_without_boxes_are_cropped():
    none = np.zeros((0, 4), np.float32)
    found = [random_bbox_crop(none, thresholds=(0.9,), rng=RNG(seed), **SCALES)[1].tolist() for seed in range(9)]
    assert len(set(map(tuple, found))) == 9


@pytest.mark.parametrize("ltrb", [True, False])
def test_boxes_that_rounding_has_put_a_little_outside_are_taken(ltrb):
    one = np.float32(1)
    edges = np.array([[-1e-7, 0.25, np.nextafter(one, one * 2), 0.75], [0.5, 0.5, 1.0, 1 + 1e-6]], np.float32)
    boxes = edges if ltrb else np.concatenate([edges[:, :2], edges[:, 2:] - edges[:, :2]], axis=1)
    for seed in range(20):
        start, extents, left, *_ = random_bbox_crop(boxes, ltrb=ltrb, rng=RNG(seed), quiet=True, **SCALES)
        assert ((start.array >= 0) & (start.array + extents.array <= 1 + 1e-6)).all()
        assert np.isfinite(left.array).all()
    for wrong in (-1e-4, 1 + 1e-4):
        with pytest.raises(ArgumentError, match="'boxes' must be in units of the image"):
            random_bbox_crop(np.array([[wrong, 0.25, wrong, 0.75]], np.float32), rng=RNG(1), **SCALES)


def test_a_ratio_of_nothing_and_too_many_attempts():
    boxes = np.float32([[0.1, 0.1, 0.6, 0.7]])
    start, extents, *_ = dynamic.random_bbox_crop(boxes, aspect_ratio=[0.0, 0.0], rng=RNG(1), num_attempts=3)
    assert (start.tolist(), extents.tolist()) == ([0.0, 0.0], [1.0, 1.0])  # no window has it
    with pytest.raises(ArgumentError, match="'num_attempts' must be at most 1000000; got 10000000"):
        dynamic.random_bbox_crop(boxes, num_attempts=10**7)
    with pytest.raises(ArgumentError, match="'total_num_attempts' must be at most 100000; got 10000000"):
        dynamic.random_bbox_crop(boxes, total_num_attempts=10**7)
