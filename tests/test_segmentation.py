"""Masks: random pixels and objects, by flood fill and by hand, bit for bit as DALI's; polygons of selected masks."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dynamic import ArgumentError, Batch, as_batch, segmentation
from dynamic.kernels.cpu import masks
from dynamic.random import RNG

random_mask_pixel, random_object_bbox = segmentation.random_mask_pixel, segmentation.random_object_bbox
select_masks = segmentation.select_masks

LABELS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


@st.composite
def label_maps(draw, most=4, dtypes=("uint8", "int32", "int64"), least_side=0):
    shape = draw(npst.array_shapes(min_dims=1, max_dims=most, min_side=least_side, max_side=7))
    array = draw(npst.arrays("int8", shape, elements=st.sampled_from([0, 0, 1, 1, 2, 3])))
    array = array.astype(draw(st.sampled_from(dtypes)))
    array.flags.writeable = False
    return array


def flooded(mask, wanted):
    """The boxes of what is connected, has one value and is wanted, found element by element."""
    left, found = wanted.copy(), []
    for first in np.ndindex(mask.shape):
        if not left[first]:
            continue
        todo, low, high = [first], list(first), list(first)
        left[first] = False
        while todo:
            place = todo.pop()
            low, high = [*map(min, low, place)], [*map(max, high, place)]
            for axis in range(mask.ndim):
                for step in (-1, 1):
                    other = (*place[:axis], place[axis] + step, *place[axis + 1 :])
                    inside = 0 <= other[axis] < mask.shape[axis]
                    if inside and left[other] and mask[other] == mask[first]:
                        left[other] = False
                        todo.append(other)
        found.append([low, [h + 1 for h in high]])
    return np.array(found, np.int64).reshape(-1, 2, mask.ndim)


# Objects


@given(mask=label_maps())
def test_objects_are_what_flood_fill_finds(mask):
    for label in range(4):
        assert np.array_equal(masks.objects(mask, label), flooded(mask, mask == label))
        assert np.array_equal(masks.regions(mask, label), flooded(mask, mask != label))
    assert masks.labels(mask) == sorted(set(mask.reshape(-1).tolist()))


@pytest.mark.parametrize("shape", [(400, 300), (9, 60, 70), (3, 4, 20, 30)])
def test_objects_of_large_masks(shape):
    mask = (np.random.default_rng(1).random(shape) < 0.55).astype(np.uint8)  # long ways through slices
    assert np.array_equal(masks.objects(mask, 1), flooded(mask, mask == 1))


@given(mask=label_maps(least_side=1), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_a_drawn_object_is_one_of_its_class_that_is_large_enough(mask, seed, data):
    least = data.draw(st.integers(0, 3) | st.tuples(*[st.integers(0, 3)] * mask.ndim))
    classes = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
    most = data.draw(st.none() | st.integers(1, 3))
    form = data.draw(st.sampled_from(["anchor_shape", "start_end", "box"]))
    *box, label = random_object_bbox(mask, classes=classes, threshold=least, k_largest=most, output_class=True,
                                     format=form, rng=RNG(seed))  # fmt: skip
    flat = np.concatenate([part.array for part in box])
    start, end = flat[: mask.ndim], flat[mask.ndim :] + (flat[: mask.ndim] if form == "anchor_shape" else 0)
    assert len(box) == (1 if form == "box" else 2)
    assert str(label.dtype) == ("i64" if mask.dtype == np.int64 else "i32")
    background = 0 if classes is None or 0 not in classes else -1

    def good(value):
        boxes = flooded(mask, mask == value)
        boxes = boxes[(boxes[:, 1] - boxes[:, 0] >= least).all(1)]
        volumes = np.prod(boxes[:, 1] - boxes[:, 0], axis=1)
        return boxes[volumes >= np.sort(volumes)[::-1][:most][-1]] if len(boxes) and most else boxes

    if label.item() == background:
        assert (start.tolist(), end.tolist()) == ([0] * mask.ndim, list(mask.shape))
        assert all(len(good(value)) == 0 for value in (classes or range(1, 4)))
    else:
        assert classes is None or label.item() in classes
        assert [start.tolist(), end.tolist()] in good(label.item()).tolist()


MASK = np.array([[1, 0, 1, 0, 2, 2], [0, 0, 0, 0, 2, 2], [3, 3, 3, 0, 0, 0]], np.uint8)


def shares(count=2000, **arguments):
    """How often each box is drawn."""
    boxes = random_object_bbox(MASK, format="box", batch_size=count, rng=RNG(3), **arguments)
    found, counts = np.unique(boxes.whole, axis=0, return_counts=True)
    return {tuple(box): n / count for box, n in zip(found.tolist(), counts.tolist(), strict=True)}


ONE, OTHER, TWO, THREE, ALL = (0, 0, 1, 1), (0, 2, 1, 3), (0, 4, 2, 6), (2, 0, 3, 3), (0, 0, 3, 6)


@pytest.mark.parametrize(("arguments", "expected"), [
    ({}, {ONE: 1 / 6, OTHER: 1 / 6, TWO: 1 / 3, THREE: 1 / 3}),
    ({"ignore_class": True}, {ONE: 1 / 4, OTHER: 1 / 4, TWO: 1 / 4, THREE: 1 / 4}),
    ({"ignore_class": True, "k_largest": 2}, {TWO: 1 / 2, THREE: 1 / 2}),
    ({"k_largest": 1}, {ONE: 1 / 3, TWO: 1 / 3, THREE: 1 / 3}),
    ({"class_weights": (0, 1, 3)}, {TWO: 1 / 4, THREE: 3 / 4}),
    ({"classes": (3, 1, 9), "class_weights": (3, 1, 50)}, {THREE: 3 / 4, ONE: 1 / 8, OTHER: 1 / 8}),
    ({"class_weights": (1, 1), "background": 1, "classes": (2, 3)}, {TWO: 1 / 2, THREE: 1 / 2}),
    ({"class_weights": (0, 3, 1), "background": 1}, {TWO: 3 / 4, THREE: 1 / 4}),  # of 0, 2 and 3
    ({"foreground_prob": 0.25, "classes": 2}, {TWO: 1 / 4, ALL: 3 / 4}),
    ({"threshold": 2}, {TWO: 1}), ({"threshold": (1, 3)}, {THREE: 1}), ({"threshold": 4}, {ALL: 1}),
    ({"classes": ()}, {ALL: 1}), ({"class_weights": 0.0, "classes": 1}, {ALL: 1}),
    ({"background": 3, "classes": 9}, {ALL: 1})])  # fmt: skip
@pytest.mark.parametrize("cache", [False, True])
def test_objects_have_their_chances(arguments, expected, cache):
    found = shares(cache_objects=cache, **arguments)
    assert found.keys() == expected.keys()
    assert all(abs(found[box] - share) < 0.05 for box, share in expected.items())


def test_the_background_is_told_where_there_is_no_object():
    least, most = -(2**31), 2**31 - 1
    for arguments, expected in (
        ({}, 0), ({"background": 7}, 7), ({"classes": (0, 2)}, -1), ({"classes": (-3, 0)}, -4),
        ({"classes": (least, 0)}, most), ({"classes": (least, most, 0, most - 1)}, most - 2),
    ):  # fmt: skip
        label = random_object_bbox(MASK, threshold=9, output_class=True, rng=RNG(1), **arguments)[-1]
        assert (label.item(), label.shape) == (expected, ())


def test_labels_of_every_type_and_memory_order():
    for dtype in LABELS:
        for mask in (MASK.astype(dtype), np.asfortranarray(MASK.astype(dtype)), MASK[::-1].astype(dtype)[::-1]):
            swapped = mask.astype(mask.dtype.newbyteorder())
            found = random_object_bbox(swapped, classes=1, k_largest=1, format="box", rng=RNG(1)).array
            assert found.tolist() == ([0, 0, 1, 1] if dtype != "bool" else [0, 4, 2, 6])
    with pytest.raises(ArgumentError, match="'input' must be of dtype bool.*; got float32"):
        random_object_bbox(MASK.astype("float32"))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 5), st.booleans())
def test_the_cache_gives_what_is_found_and_stays_small(masks, entries, ignored):
    """However many masks come again in which order: it holds no more bytes than it may."""
    maps, most = [np.roll(MASK, k, axis=1).repeat(k + 1, axis=0) for k in range(10)], entries << 10
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segmentation, "_cache", cache := segmentation._Remembered(most))
        for mask in (maps[k] for k in masks):
            for _ in range(2):
                arguments = {"ignore_class": ignored, "output_class": not ignored}
                again = random_object_bbox(mask, cache_objects=True, rng=RNG(5), **arguments)
                plain = random_object_bbox(mask, rng=RNG(5), **arguments)
                assert [x.tolist() for x in again] == [x.tolist() for x in plain]
            assert sum(size for size, _ in cache._found.values()) == cache.size <= most


def test_what_the_cache_holds_has_a_bound_in_bytes(monkeypatch):
    """Masks of many small objects, whose boxes take more than the masks."""
    monkeypatch.setattr(segmentation, "_cache", cache := segmentation._Remembered(1 << 20))
    values = np.random.default_rng(1)
    for _ in range(5):
        mask = values.integers(0, 2, (200, 200), np.uint8)
        random_object_bbox(mask, cache_objects=True, ignore_class=True)
    held = [found for _, found in cache._found.values()]
    assert 0 < sum(found.nbytes for found in held) <= 1 << 20
    assert all(found.base is None for found in held)


def test_masks_that_come_again_are_looked_at_once(monkeypatch):
    seen = []
    labels = segmentation.masks.labels

    def counted(mask):
        seen.append(mask.shape)
        return labels(mask)

    monkeypatch.setattr(segmentation, "_cache", segmentation._Remembered(1 << 20))
    monkeypatch.setattr(segmentation.masks, "labels", counted)
    for _ in range(3):
        random_object_bbox(MASK, cache_objects=True)
    assert len(seen) == 1


@pytest.mark.parametrize("output_class", [False, True, 1, 0])
@pytest.mark.parametrize("format", ["anchor_shape", "start_end", "box", "BOX", "Start_End"])
def test_an_empty_batch_gives_as_many_results_as_any(format, output_class):
    batch, how = as_batch([MASK, MASK]), {"format": format, "output_class": output_class}
    one, none = (random_object_bbox(data, **how) for data in (batch, batch.select([])))
    assert isinstance(one, tuple) == isinstance(none, tuple)
    one, none = (x if isinstance(x, tuple) else (x,) for x in (one, none))
    assert [(x.ndim, x.dtype) for x in none] == [(x.ndim, x.dtype) for x in one]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"ignore_class": True, "classes": (1,)}, "'classes' must be left out"),
    ({"ignore_class": True, "output_class": True}, "'output_class' must be left out"),
    ({"background": 2**31}, "'background' must be an int32"), ({"background": 1e300}, "'background' must be an int32"),
    ({"classes": (0, 1), "background": 0}, "'background' must be none of"), ({"format": "xyXY"}, "'format'"),
    ({"classes": (1, 2), "class_weights": (1,)}, "'class_weights' must be 2"), ({"threshold": (1, 2, 3)}, "'thr"),
    ({"class_weights": (-1, 2)}, "'class_weights'"), ({"k_largest": 0}, "'k_largest'"),
    ({"foreground_prob": 1.5}, "'foreground_prob'"),
    ({"class_weights": (1e39, 1)}, "'class_weights' must be numbers whose sum is a finite float32"),
    ({"class_weights": (3e38, 3e38)}, "'class_weights' must be numbers whose sum is a finite float32"),
    ({"class": 1}, "Did you mean 'classes'")])  # fmt: skip
def test_wrong_arguments_of_objects_are_named_and_draw_nothing(arguments, told):
    rng = RNG(1)
    before = rng.state
    with pytest.raises(ArgumentError, match=rf"segmentation\.random_object_bbox\(\).*{told}"):
        random_object_bbox(MASK, rng=rng, **arguments)
    with pytest.raises(ArgumentError, match="'input' must be of one dimension or more"):
        random_object_bbox(np.array(3), rng=rng)
    assert rng.state == before


# Pixels


@pytest.mark.parametrize("dtype", [*LABELS, "float16", "float32", "float64"])
@pytest.mark.parametrize("beyond", [1e39, 1e300, 10**30, -(10**30), 2**40 + 1])
def test_what_a_mask_cannot_hold_is_not_in_it(dtype, beyond):
    mask = np.ones((2, 3), dtype)
    for arguments in ({"threshold": abs(float(beyond))}, {"value": int(beyond)}):
        found = random_mask_pixel(mask, foreground=1, rng=RNG(3), **arguments)
        assert found.tolist() == random_mask_pixel(mask, rng=RNG(3)).tolist()


@given(mask=label_maps(least_side=1, dtypes=(*LABELS, "float16", "float32", "float64")), seed=st.integers(0, 2**64 - 1),
       threshold=st.integers(-1, 4), value=st.none() | st.sampled_from([-7, 0, 1, 2, 300]))  # fmt: skip
def test_pixels_are_of_the_foreground(mask, seed, threshold, value):
    arguments = {"threshold": threshold - 0.5} if value is None else {"value": value}
    wanted = mask > threshold - 0.5 if value is None else mask == value
    found = random_mask_pixel(mask, foreground=2, rng=RNG(seed), **arguments).array
    assert found.dtype == np.int64
    place = tuple(found.tolist())
    assert all(0 <= index < extent for index, extent in zip(place, mask.shape, strict=True))
    assert wanted[place] or not wanted.any()


@given(wanted=npst.arrays(bool, npst.array_shapes(min_dims=1, max_dims=4)), data=st.data())
def test_pixels_are_numbered_in_order(wanted, data):
    places = np.argwhere(wanted)
    if len(places):
        number = data.draw(st.integers(0, len(places) - 1))
        assert masks.pixel(wanted, number) == tuple(places[number].tolist())


def test_pixels_are_equally_likely():
    for arguments, places in (({}, np.ones_like(MASK)), ({"foreground": 1, "value": 2}, MASK == 2),
                              ({"foreground": 1, "threshold": 1.5}, MASK > 1.5),
                              ({"foreground": 1, "value": 9}, MASK >= 0)):  # fmt: skip
        found = random_mask_pixel(MASK, batch_size=3600, rng=RNG(2), **arguments).whole
        counts = np.zeros(MASK.shape)
        np.add.at(counts, tuple(found.T), 1)
        assert (counts[~places.astype(bool)] == 0).all()
        expected = 3600 / places.astype(bool).sum()
        assert ((counts[places.astype(bool)] - expected) ** 2 / expected).sum() < 50


def test_pixels_and_objects_belong_to_samples():
    ids, rng = [5, 2**63, 7], RNG(3)
    arrays = [MASK, np.roll(MASK, 2, axis=1)[:, :4], MASK.T]
    batch, keyed = as_batch(arrays), rng.keyed(ids)
    pixels = random_mask_pixel(batch, foreground=as_batch([1, 0, 1]), rng=keyed["pixel"])
    boxes = random_object_bbox(batch, rng=keyed["box"], threshold=as_batch([[1, 1], [1, 2], [2, 1]]))
    assert pixels.whole is not None
    for i in range(3):
        one = rng.keyed(ids[i])
        assert random_mask_pixel(arrays[i], foreground=(1, 0, 1)[i], rng=one["pixel"]).tolist() == pixels[i].tolist()
        own = random_object_bbox(arrays[i], threshold=((1, 1), (1, 2), (2, 1))[i], rng=one["box"])
        assert [x.tolist() for x in own] == [x[i].tolist() for x in boxes]
    none = Batch([], None, dtype=np.dtype("int32"), ndim=3)
    assert [(len(x), x.ndim) for x in random_object_bbox(none, rng=rng, output_class=True)] == [(0, 1), (0, 1), (0, 0)]
    assert (len(random_mask_pixel(none, rng=rng)), random_mask_pixel(none, rng=rng).ndim) == (0, 1)


def test_threads_change_no_draws(monkeypatch):
    batch = as_batch([np.roll(MASK, k, axis=1) for k in range(6)])
    alone = [x.tolist() for x in random_object_bbox(batch, rng=RNG(8))]
    monkeypatch.setattr("dynamic._base.pool._worth_sharing", 0)
    assert [x.tolist() for x in random_object_bbox(batch, rng=RNG(8))] == alone


def test_masks_without_pixels_and_two_kinds_of_foreground_are_refused():
    rng = RNG(1)
    before = rng.state
    with pytest.raises(
        ArgumentError, match=r"random_mask_pixel\(\): argument 'input' must be a mask with at least one"
    ):
        random_mask_pixel(as_batch([MASK, MASK[:0]]), rng=rng)
    with pytest.raises(ArgumentError, match="'threshold' must be left out"):
        random_mask_pixel(MASK, threshold=1, value=2, rng=rng)
    assert rng.state == before
    assert random_object_bbox(MASK[:0], format="box", rng=rng).tolist() == [0, 0, 0, 6]
    assert random_mask_pixel(np.array(3), rng=rng).shape == (0,)


# Polygons

POLYGONS = np.array([[0, 0, 3], [1, 3, 7], [2, 7, 10], [1, 1, 2]], np.int32)
VERTICES = np.arange(30).reshape(10, 3)


@given(wanted=st.lists(st.integers(0, 2), unique=True), dtype=st.sampled_from(LABELS[1:]), anew=st.booleans(),
       kind=st.sampled_from(["int16", "float32", "float64"]))  # fmt: skip
def test_selected_polygons_have_their_vertices(wanted, dtype, anew, kind):
    vertices = VERTICES.astype(kind)
    polygons, points = select_masks(np.array(wanted, dtype), POLYGONS, vertices, reindex_masks=anew)
    assert (polygons.array.dtype, points.array.dtype) == (np.int32, kind)
    expected = [
        (mask, vertices[start:end].tolist()) for mask in wanted for m, start, end in POLYGONS.tolist() if m == mask
    ]
    assert [(wanted[m] if anew else m, points.array[a:b].tolist()) for m, a, b in polygons.tolist()] == expected
    assert points.shape == (sum(len(part) for _, part in expected), 3)


def test_polygons_of_a_batch():
    polygons, points = select_masks(as_batch([[1, 0], [2]]), POLYGONS, as_batch([VERTICES, VERTICES + 100]))
    assert polygons.tolist() == [[[1, 0, 4], [1, 4, 5], [0, 5, 8]], [[2, 0, 3]]]
    assert points[1].tolist() == (VERTICES[7:] + 100).tolist()


@pytest.mark.parametrize(("inputs", "told"), [
    (([2, 2], POLYGONS, VERTICES), "'mask_ids' must be masks that are all different"),
    (([5], POLYGONS, VERTICES), "'mask_ids' must be masks that have"), (([1], POLYGONS, VERTICES[0]), "'vertices'"),
    (([[1]], POLYGONS, VERTICES), "'mask_ids' must be of one"), (([0.5], POLYGONS, VERTICES), "'mask_ids' must be of"),
    (([1], POLYGONS[:, :2], VERTICES), "'polygons' must be integers"), (([0], POLYGONS + 0.5, VERTICES), "'polygons'"),
    (([0], [[0, 0, 11]], VERTICES), "'polygons' must be ranges of the 10 vertices"),
    (([0], [[0, 5, 4]], VERTICES), "'polygons' must be ranges"),
    (([0], [[0, -1, 4]], VERTICES), "'polygons' must be ranges")])  # fmt: skip
def test_polygons_that_do_not_fit_are_refused(inputs, told):
    with pytest.raises(ArgumentError, match=rf"segmentation\.select_masks\(\).*{told}"):
        select_masks(*inputs)


# DALI


@given(mask=label_maps(least_side=1, dtypes=("uint8", "int32")), seed=st.integers(0, 2**32), data=st.data())
def test_objects_and_pixels_are_dalis_bit_for_bit(dali: Oracle, mask, seed, data):
    arguments = data.draw(st.sampled_from([
        {"output_class": True}, {"ignore_class": True}, {"ignore_class": True, "k_largest": 2},
        {"k_largest": 2, "output_class": True, "format": "box"}, {"foreground_prob": 0.5, "output_class": True},
        {"classes": [1, 3], "class_weights": [0.3, 0.7], "output_class": True, "format": "start_end"},
        {"class_weights": [1.0, 2.0, 1.0], "output_class": True, "background": 2}, {"threshold": [2] * mask.ndim},
        {"classes": [0, 2], "output_class": True, "cache_objects": True}]))  # fmt: skip
    pixels = data.draw(st.sampled_from([
        {}, {"foreground": 1}, {"foreground": 1, "threshold": 1.5}, {"foreground": 1, "value": 2},
        {"foreground": 1, "value": 9}]))  # fmt: skip
    assume(mask.size > 1)  # its box of a mask of one element is empty
    for operator, given_ in ((random_object_bbox, arguments), (random_mask_pixel, pixels)):
        rng = RNG(seed)
        for expected in dali.call(
            f"segmentation.{operator.__name__}", [Samples([mask, mask])], seed=seed, calls=2, **given_
        ):
            found = operator(as_batch([mask, mask]), rng=rng, **given_)
            found, expected = ([x] if not isinstance(x, tuple) else x for x in (found, expected))
            for a, b in zip(found, expected, strict=True):
                assert [x.tolist() for x in a.samples] == [x.tolist() for x in b.samples]
                assert str(a.dtype) == b.dtype


def test_a_threshold_of_no_extents_is_refused():
    with pytest.raises(ArgumentError, match="'threshold' must be one extent or 2"):
        segmentation.random_object_bbox(np.ones((4, 4), np.int32), threshold=[])
