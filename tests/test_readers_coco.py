"""The reader of COCO's annotations: what is listed, what masks are made, and what is refused."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pycocotools.mask
import pytest
from dali_oracle import dali_fixture  # noqa: F401 - the fixture `dali`
from hypothesis import given
from hypothesis import strategies as st

from dynamic.errors import ArgumentError, DataError, StateError
from dynamic.readers import _masks, coco
from dynamic.readers.coco import COCO

CATEGORIES = [30, 10, 20, 7]
SQUARE, OTHER = [1, 1, 5, 1, 5, 4, 1, 4], [2, 2, 9, 2, 9, 7, 2, 7]


def image(number, name=None, width=10, height=8):
    return {"id": number, "file_name": name or f"{number}.jpg", "width": width, "height": height}


def thing(image_id, category, bbox=(1, 1, 4, 3), **more):
    return {"image_id": image_id, "category_id": category, "bbox": list(bbox), "id": 77, "iscrowd": 0} | more


def document(*things, images=None):
    categories = [{"id": number, "name": str(number)} for number in CATEGORIES]
    images = [image(5), image(2)] if images is None else images
    return {"info": {}, "images": images, "annotations": list(things), "categories": categories}


def written(root, file):
    """The reader's arguments for a data set; each image file holds its name."""
    for each in file.get("images", ()):
        path = os.path.join(root, each["file_name"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(os.fsencode(each["file_name"]))
    with open(os.path.join(root, "objects.json"), "w") as out:
        json.dump(file, out)
    return {"file_root": str(root), "annotations_file": os.path.join(root, "objects.json")}


def samples(**arguments):
    """Every sample of an epoch as a list of arrays, with the bytes of its file first."""
    found = []
    for batch in COCO(**arguments).next_epoch(3):
        found += [[bytes(files[0]).decode(), *files[1:]] for files in zip(*(b.samples for b in batch), strict=True)]
    return found


def told(found):
    return [[sample[0], *(array.tolist() for array in sample[1:])] for sample in found]


def mask_of(*things, size=(8, 10), **arguments):
    """The mask of an image with these objects."""
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        file = document(*(each | {"image_id": 1} for each in things), images=[image(1, None, size[1], size[0])])
        (sample,) = samples(**written(root, file), pixelwise_masks=True, **arguments)
        assert sample[3].dtype == np.int32
        assert sample[3].shape == (*size, 1)
        return sample[3][..., 0]


def object_of(segmentation, category=30, **more):
    return thing(1, category, segmentation=segmentation, **more)


def run_lengths(mask, *, text):
    """A mask of booleans in COCO's RLE."""
    flat = np.asarray(mask, bool).ravel(order="F")
    changes = np.flatnonzero(np.diff(np.concatenate([[False], flat])))
    counts = np.diff(np.concatenate([[0], changes, [len(flat)]])).tolist()
    return {"size": list(mask.shape), "counts": compressed(counts) if text else counts}


def compressed(counts):
    characters = []
    for i, count in enumerate(counts):
        left = count - counts[i - 2] if i > 2 else count
        while True:
            bits, left = left & 31, left >> 5
            more = left != (-1 if bits & 16 else 0)
            characters.append(chr(48 + bits + 32 * more))
            if not more:
                break
    return "".join(characters)


def by_the_api(encoded):
    """The mask of the COCO API, which takes a way to NumPy that is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pycocotools.mask.decode(encoded)


def walked(polygon, height, width):
    """The pixels in a polygon, by walking around it step by step: the rule that the COCO API publishes."""
    points = np.trunc(5 * np.array(polygon, float).reshape(-1, 2) + 0.5)
    steps = []
    for (x, y), (x_end, y_end) in zip(points, np.roll(points, -1, axis=0), strict=True):
        across, down = abs(x_end - x), abs(y_end - y)
        back = x > x_end if across >= down else y > y_end
        if back:
            x, y, x_end, y_end = x_end, y_end, x, y
        t = np.arange(max(across, down) + 1)
        if across >= down:
            edge = [x + t, np.trunc(y + (y_end - y) / max(across, 1) * t + 0.5)]
        else:
            edge = [np.trunc(x + (x_end - x) / down * t + 0.5), y + t]
        steps.append(np.array(edge)[:, :: -1 if back else 1])
    x, y = np.concatenate([*steps], axis=1) if steps else np.zeros((2, 0))
    low_x, low_y = np.minimum(x[1:], x[:-1]), np.minimum(y[1:], y[:-1])
    passes = (x[1:] != x[:-1]) & (low_x % 5 == 2) & (low_x >= 0) & (low_x < 5 * width)
    columns = (low_x[passes] // 5).astype(int)
    rows = np.clip(np.ceil((low_y[passes] - 2) / 5), 0, height).astype(int)
    flips = np.bincount(columns * height + rows, minlength=height * width + 1)[: height * width]
    return (np.cumsum(flips) % 2 == 1).reshape(width, height).T


# What is listed


def test_images_come_by_id_with_their_objects_in_the_order_of_the_file(tmp_path):
    file = document(thing(5, 30, [1, 2, 3, 4]), thing(2, 10, [0.5, 1.25, 2, 2]), thing(5, 20, [0, 0, 1, 1]),
                    thing(999, 10), images=[image(5), image(9, "a b/ü.jpg"), image(-2)])  # fmt: skip
    file["annotations"][1]["image_id"] = -2
    where = written(tmp_path, file)
    reader = COCO(**where, image_ids=True)
    jpegs, boxes, labels, ids = next(reader.next_epoch(3))
    assert [bytes(jpeg.array).decode() for jpeg in jpegs] == ["-2.jpg", "5.jpg", "a b/ü.jpg"]
    assert boxes.tolist() == [[[0.5, 1.25, 2, 2]], [[1, 2, 3, 4], [0, 0, 1, 1]], []]
    assert (labels.tolist(), ids.tolist()) == ([[2], [1, 3], []], [[-2], [5], [9]])
    assert [(b.dtype, b.ndim) for b in (jpegs, boxes, labels, ids)] == [("uint8", 1), ("float32", 2), ("int32", 1),
                                                                       ("int32", 1)]  # fmt: skip
    assert jpegs.origin.names == ids.origin.names == ["-2.jpg", "5.jpg", "a b/ü.jpg"]
    assert [sample[2].tolist() for sample in samples(**where, avoid_class_remapping=True)] == [[10], [30, 20], []]
    assert [sample[0] for sample in samples(**where, skip_empty=True)] == ["-2.jpg", "5.jpg"]
    boxes.samples[0][:] = 7  # what was given out belongs to who got it
    assert told(samples(**where))[0][1] == [[0.5, 1.25, 2, 2]]


def test_boxes_may_be_corners_and_relative(tmp_path):
    where = written(tmp_path, document(thing(2, 30, [1, 2, 3, 4])))
    assert samples(**where, ltrb=True)[0][1].tolist() == [[1, 2, 4, 6]]
    assert np.array_equal(samples(**where, ratio=True)[0][1], np.float32([[0.1, 0.25, 0.3, 0.5]]))
    assert np.array_equal(samples(**where, ratio=True, ltrb=True)[0][1], np.float32([[0.1, 0.25, 0.4, 0.75]]))


def test_a_category_that_is_listed_twice_has_its_first_place(tmp_path):
    file = document(thing(2, 30), thing(2, 20), thing(2, 7))
    file["categories"].insert(3, {"id": 30})
    assert samples(**written(tmp_path, file))[0][2].tolist() == [1, 3, 5]


def test_small_and_crowded_objects_may_be_left_out(tmp_path):
    where = written(tmp_path, document(thing(2, 30, [0, 0, 2, 5]), thing(2, 10, [0, 0, 5, 2.5], iscrowd=1),
                                       thing(2, 20, [0, 0, 0.0999, 5]),
                                       thing(2, 7, [0, 0, 5, 0.1], iscrowd=True)))  # fmt: skip
    assert samples(**where)[0][2].tolist() == [1, 2, 4]
    assert samples(**where, size_threshold=None, include_iscrowd=None)[0][2].tolist() == [1, 2, 4]
    assert samples(**where, size_threshold=2)[0][2].tolist() == [1, 2]
    assert samples(**where, size_threshold=2.25, ratio=True)[0][2].tolist() == [2]
    assert samples(**where, size_threshold=-1.0)[0][2].tolist() == [1, 2, 3, 4]
    assert samples(**where, include_iscrowd=False)[0][2].tolist() == [1]
    assert len(samples(**where, size_threshold=3, skip_empty=False)) == 2
    with pytest.raises(ArgumentError, match="with objects in them"):
        COCO(**where, size_threshold=9, skip_empty=True)


def test_images_may_be_chosen(tmp_path):
    where = written(tmp_path, document(thing(5, 30), thing(2, 10), thing(2, 20)))
    assert [(s[0], s[2].tolist()) for s in samples(**where, images=["5.jpg", "2.jpg", "5.jpg"])] == [
        ("5.jpg", [1]), ("2.jpg", [2, 3]), ("5.jpg", [1])]  # fmt: skip
    assert [s[0] for s in samples(**where, images="5.jpg")] == ["5.jpg"]
    with pytest.raises(ArgumentError, match=r"'images\[1\]' .*str '6\.jpg', which none of the images has"):
        COCO(**where, images=["5.jpg", "6.jpg"])
    assert [s[0] for s in samples(**where, images=[])] == ["2.jpg", "5.jpg"]


def test_images_of_one_name_keep_their_own_objects(tmp_path):
    where = written(tmp_path, document(thing(5, 30), thing(2, 10), images=[image(5, "a.jpg"), image(2, "a.jpg")]))
    assert [s[2].tolist() for s in samples(**where)] == [[2], [1]]
    with pytest.raises(ArgumentError, match="which 2 of the images has"):
        COCO(**where, images=["a.jpg"])


def test_numbers_may_be_written_as_floats_and_keys_that_nothing_needs_may_be_missing(tmp_path):
    file = document(thing(5.0, 30.0), images=[{"id": 5.0, "file_name": "a.jpg"}])
    del file["annotations"][0]["iscrowd"], file["annotations"][0]["id"]
    where = written(tmp_path, file)
    assert told(samples(**where, image_ids=True, include_iscrowd=False)) == [["a.jpg", [[1, 1, 4, 3]], [1], [5]]]
    with pytest.raises(DataError, match=r"image 0 \(id 5\.0\): 'height' must be .*no such key"):
        COCO(**where, ratio=True)
    del file["categories"]
    where = written(tmp_path, file)
    assert told(samples(**where, avoid_class_remapping=True))[0][2] == [30]
    del file["annotations"]
    assert told(samples(**written(tmp_path, file))) == [["a.jpg", [], []]]


def test_paths_of_images_are_followed(tmp_path):
    (tmp_path / "beside.jpg").write_bytes(b"beside")
    (tmp_path / "root").mkdir()
    images = [image(1, "../beside.jpg"), image(2, str(tmp_path / "root" / "in.jpg"))]
    where = written(tmp_path / "root", document(images=images))
    reader = COCO(**where)
    assert next(reader.next_epoch(2))[0].origin.names == ["../beside.jpg", "in.jpg"]


# Masks


def test_polygons_and_vertices_belong_to_objects(tmp_path):
    file = document(thing(5, 30, segmentation=[SQUARE]), thing(5, 10, segmentation={"size": [8, 10], "counts": [80]}),
                    thing(5, 20, segmentation=[OTHER, [0, 0, 1, 0, 1, 1]]), thing(2, 7, segmentation=[]))  # fmt: skip
    where = written(tmp_path, file)
    nothing, found = samples(**where, polygon_masks=True, image_ids=True)
    assert [array.shape for array in nothing[1:]] == [(1, 4), (1,), (0, 3), (0, 2), (1,)]
    assert found[3].tolist() == [[0, 0, 4], [2, 4, 8], [2, 8, 11]]
    vertices = np.float32([*SQUARE, *OTHER, 0, 0, 1, 0, 1, 1]).reshape(-1, 2)
    assert np.array_equal(found[4], vertices)
    assert (found[3].dtype, found[4].dtype) == (np.int32, np.float32)
    assert samples(**where, masks=True)[1][3].tolist() == [[0, 0, 8], [2, 8, 16], [2, 16, 22]]
    assert np.array_equal(samples(**where, polygon_masks=True, ratio=True)[1][4], vertices / np.float32([10, 8]))


numbers = st.one_of(st.integers(-8, 45), st.integers(-80, 450).map(lambda n: n / 10), st.floats(-8, 45, width=32),
                    st.integers(-20, 90).map(lambda n: n / 2), st.floats(-400, 400, width=32))  # fmt: skip
polygons = st.lists(st.tuples(numbers, numbers).map(list), max_size=9).map(
    lambda points: [number for point in points for number in point]
)
heights = widths = st.integers(1, 39)


@given(polygon=polygons, height=heights, width=widths)
def test_a_polygon_is_filled_as_by_walking_around_it(polygon, height, width):
    assert np.array_equal(mask_of(object_of([polygon]), size=(height, width)), walked(polygon, height, width))


@given(parts=st.lists(st.tuples(st.sampled_from(CATEGORIES), st.lists(polygons, max_size=3), st.sampled_from("plt")),
                      max_size=4), height=heights, width=widths)  # fmt: skip
def test_where_objects_overlap_the_largest_label_counts(parts, height, width):
    things, expected = [], np.zeros((height, width), np.int32)
    for category, shapes, form in parts:
        covered = np.zeros((height, width), bool)
        for shape in shapes:
            covered |= walked(shape, height, width)
        np.maximum(expected, covered * (CATEGORIES.index(category) + 1), out=expected)
        things.append(object_of(shapes if form == "p" else run_lengths(covered, text=form == "t"), category))
    assert np.array_equal(mask_of(*things, size=(height, width)), expected)


digits = st.one_of(st.integers(-20, 700), st.integers(-200, 7000).map(lambda n: n / 10), st.floats(-20, 700),
                   st.integers(-20_000, 700_000).map(lambda n: n / 1000))  # fmt: skip


@given(shapes=st.lists(st.lists(st.tuples(digits, digits), min_size=3, max_size=20), min_size=1, max_size=3),
       height=st.integers(1, 480), width=st.integers(1, 640), form=st.sampled_from(["polygons", "counts", "text"]),
       crowd=st.integers(0, 1))  # fmt: skip
def test_masks_are_those_of_the_coco_api(shapes, height, width, form, crowd):
    """To the pixel, whatever digits vertices have; of polygons, and of both kinds of run lengths."""
    flat = [[number for point in shape for number in point] for shape in shapes]
    merged = pycocotools.mask.merge(pycocotools.mask.frPyObjects(flat, height, width))
    expected = by_the_api(merged)
    segmentation = {"polygons": flat, "counts": run_lengths(expected, text=False),
                    "text": merged | {"counts": merged["counts"].decode()}}[form]  # fmt: skip
    if form == "counts":
        again = pycocotools.mask.frPyObjects(segmentation, height, width)
        assert np.array_equal(by_the_api(again), expected)
    found = mask_of(object_of(segmentation, CATEGORIES[0], iscrowd=crowd), size=(height, width))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("polygon", "size"), [
    ([3.1, 4.8, 0.9, 4.7, 1.9, 2.1], (5, 6)), ([0.1, 0.1, 5.9, 0.1, 5.9, 4.9, 0.1, 4.9], (5, 6)),
    ([2.5] * 6, (5, 6)), ([1, 1, 1, 1, 4, 1, 4, 4, 4, 4, 1, 4], (5, 6)), ([-9, -9, 20, -9, 20, 20, -9, 20], (5, 6)),
    ([0.5, 0.5, 0.5, 4.5, 4.5, 4.5, 4.5, 0.5], (1, 1))])  # fmt: skip
def test_polygons_whose_last_digits_tell(polygon, size, tmp_path):
    expected = by_the_api(pycocotools.mask.frPyObjects([polygon], *size))[..., 0]
    assert np.array_equal(mask_of(object_of([polygon], CATEGORIES[0]), size=size), expected)
    file = document(object_of([polygon], CATEGORIES[0]), images=[image(1, None, size[1], size[0])])
    where = written(tmp_path, file)
    (tmp_path / "m").mkdir()
    saved(where, tmp_path / "m", pixelwise_masks=True)
    again = {"file_root": tmp_path, "preprocessed_annotations": tmp_path / "m"}
    assert np.array_equal(samples(**again, pixelwise_masks=True)[0][3][..., 0], expected)
    (given,) = samples(**where, polygon_masks=True)
    assert np.array_equal(given[4], np.float32(polygon).reshape(-1, 2))


def test_digits_that_another_writer_replaced_are_not_taken(tmp_path):
    """DALI, which writes its own files to the folder, knows nothing of ours."""
    where = written(tmp_path, document(object_of([[0.1, 0.1, 5, 0, 5, 5]], CATEGORIES[0]), images=[image(1)]))
    for name, polygon in (("m", [0.1, 0.1, 5, 0, 5, 5]), ("n", [0.5, 0.5, 3, 0, 3, 3])):
        (tmp_path / name).mkdir()
        file = document(object_of([polygon], CATEGORIES[0]), images=[image(1)])
        saved(written(tmp_path, file), tmp_path / name, pixelwise_masks=True)
    assert (tmp_path / "m" / "vertices_float64.dat").exists()
    assert not (tmp_path / "n" / "vertices_float64.dat").exists()  # float32 holds them
    (tmp_path / "n" / "vertices_float64.dat").write_bytes((tmp_path / "m" / "vertices_float64.dat").read_bytes())
    found = samples(file_root=tmp_path, preprocessed_annotations=tmp_path / "n", pixelwise_masks=True)
    assert np.array_equal(found[0][3], samples(**where, pixelwise_masks=True)[0][3])


@given(corners=st.lists(st.tuples(st.integers(-3, 12), st.integers(-300_000, 300_000)), min_size=2, max_size=4))
def test_steep_and_long_edges_are_exact(corners):
    polygon = [number + 0.3 for corner in corners for number in corner]
    flat = [number for corner in corners for number in corner[::-1]]
    for shape in (polygon, flat):
        assert np.array_equal(mask_of(object_of([shape]), size=(7, 9)), walked(shape, 7, 9))


def test_labels_of_categories_may_be_negative_or_nothing():
    things = [object_of([SQUARE], -7), object_of([OTHER], 0)]
    found = mask_of(*things, avoid_class_remapping=True)
    assert (found[1, 1], found[3, 3], found[6, 6], found[0, 0]) == (-7, 0, 0, 0)
    assert mask_of(object_of(None), object_of([[]])).max() == 0


def test_run_lengths_that_end_early_leave_the_rest_outside():
    for counts in ([10, 3], compressed([10, 3])):
        found = mask_of(object_of({"size": [8, 10], "counts": counts}))
        assert np.flatnonzero(found.ravel(order="F")).tolist() == [10, 11, 12]
    for counts in ([], ""):
        assert mask_of(object_of({"counts": counts, "size": [8, 10]})).max() == 0


@pytest.mark.parametrize(("counts", "size", "reason"), [
    ([81], [8, 10], "not of 80 pixels"), ([10, 30], [4, 10], "are of 4 x 10 pixels, its image is of 8 x 10"),
    (compressed([79, 2]), [8, 10], "not of 80 pixels"), ("\x1f", [8, 10], "no compressed text"),
    ("P", [8, 10], "no compressed text"), ("12 ", [8, 10], "no compressed text"), ("zzzzzzz1", [8, 10], "no comp"),
    ("N", [8, 10], "not of 80"), ("12N", [8, 10], "not of 80"), ("p", [8, 10], "no compressed text")])  # fmt: skip
def test_a_mask_that_cannot_be_is_refused_when_it_is_made(tmp_path, counts, size, reason):
    file = document(thing(2, 30, segmentation={"size": size, "counts": counts}), thing(5, 30, segmentation=[SQUARE]))
    where = written(tmp_path, file)
    with pytest.raises(DataError, match=rf"sample 0 \(.*2\.jpg\): .*object 0 .*{reason}"):
        samples(**where, pixelwise_masks=True)
    (left,) = samples(**where, pixelwise_masks=True, on_error="skip")
    assert left[0] == "5.jpg"
    assert len(samples(**where, polygon_masks=True)) == 2


def test_masks_that_would_take_too_much_are_refused(tmp_path, monkeypatch):
    far, wide = (
        document(thing(2, 30, segmentation=[[0, 0, 2**23, 3, 4, 5]])),
        document(images=[image(1, None, 2**14, 2**14)]),
    )
    with pytest.raises(DataError, match=r"vertex \[8388608\.0, 3\.0\], more than 4194304 pixels away"):
        samples(**written(tmp_path, far), pixelwise_masks=True)
    with pytest.raises(DataError, match="16384 x 16384 pixels has more than"):
        samples(**written(tmp_path, wide), pixelwise_masks=True)
    monkeypatch.setattr(_masks, "_MOST_CROSSINGS", 15)
    with pytest.raises(DataError, match="cross 16 columns of pixels, more than 15"):
        mask_of(object_of([SQUARE, SQUARE]))
    assert mask_of(object_of([SQUARE])).max() == 1
    monkeypatch.setattr(_masks, "_MOST_FILLED", 100)
    lots = [object_of({"size": [8, 10], "counts": [0, 60]}, 30)] * 1000  # each pixel counts once for each label
    assert mask_of(*lots).sum() == 60 * CATEGORIES.index(30) + 60
    with pytest.raises(DataError, match="the masks of its 2 labels fill 120 pixels, more than 100"):
        mask_of(*lots, object_of({"size": [8, 10], "counts": [0, 60]}, 10))


def test_large_masks_are_filled_in_parts(monkeypatch):
    things = [object_of([OTHER, SQUARE]), object_of({"size": [8, 10], "counts": [0, 20, 3, 8]}, 300)]
    for more in ({}, {"avoid_class_remapping": True}):
        things[1]["category_id"] = 300 if more else 10
        whole = mask_of(*things, **more)
        assert whole.max() == (300 if more else 2)
        for at_once, long in ((3, 64), (3, 4), (1, 1)):
            monkeypatch.setattr(_masks, "_AT_ONCE", at_once)
            monkeypatch.setattr(_masks, "_LONG", long)
            assert np.array_equal(mask_of(*things, **more), whole)


# What is refused


def changed(change):
    file = document(thing(5, 30, segmentation=[SQUARE]), thing(2, 10, segmentation={"size": [8, 10], "counts": [80]}))
    change(file)
    return file


def put(key, value, where="annotations", row=0):
    def change(file):
        if value is ...:
            del file[where][row][key]
        else:
            file[where][row][key] = value

    return change


@pytest.mark.parametrize(("change", "told"), [
    *((put("bbox", value), r"annotation 0 \(id 77\): 'bbox' must be")
      for value in (..., None, 3, "1234", [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, "4"], [1, 2, 3, None], [1, 2, 3, 1e39],
                    [10**400, 1, 1, 1], [True, 1, 2, 3], [[1], 2, 3, 4])),
    *((put("image_id", value), r"annotation 0 \(id 77\): 'image_id' must be an integer")
      for value in (..., None, "5", 5.5, True, 2**63, -(2**63) - 1, [5], 1e300)),
    *((put("category_id", value, row=1), r"annotation 1 \(id 77\): 'category_id' must be")
      for value in (..., None, "10", 10.5, 11, 2**63, False)),
    *((put("iscrowd", value), r"annotation 0 \(id 77\): 'iscrowd' must be 0 or 1") for value in (2, "0", [], -1)),
    *((put("id", value, "images"), r"image \d.*: 'id' must be") for value in (..., None, "5", 2, 5.5, 2**64, 2**31)),
    *((put("file_name", value, "images", 1), r"image 1 \(id 2\): 'file_name' must be")
      for value in (..., None, 3, "", "a\0b", "\ud800.jpg", ["a"])),
    *((put(key, value, "images"), rf"image 0 \(id 5\): '{key}' must be an integer from 1")
      for key in ("width", "height") for value in (..., None, 0, -3, 2.5, 2**31, "10", 2**63)),
    *((put("id", value, "categories"), "category 0.*: 'id' must be") for value in (..., None, "30")),
    *((put("segmentation", value), r"annotation 0 \(id 77\): 'segmentation' must be")
      for value in (3, "abc", [1, 2, 3, 4, 5, 6], [["1", 2]], [[1, 2, 3]], [[1, None]], [{"counts": [1]}], [[1, 1e39]],
                    [[10**400, 1]], [[True, 1]], {}, {"size": [8, 10]}, {"counts": [80]}, [[1, [2]]],
                    {"size": [8], "counts": [80]}, {"size": [8, 0], "counts": [80]}, {"size": [8, 1.5], "counts": [80]},
                    {"size": "810", "counts": [80]}, {"size": [8, 10], "counts": [8.5]},
                    {"size": [8, 10], "counts": [-1]}, {"size": [8, 10], "counts": [2**32]},
                    {"size": [8, 10], "counts": "ü"}, {"size": [8, 10], "counts": None},
                    {"size": [8, 2**31], "counts": [1]}, {"size": [True, 10], "counts": [1]})),
    *((lambda file, key=key, value=value: file.update({key: value}), rf"{told} must be")
      for key, told in (("images", "'images'"), ("annotations", "'annotations'"), ("categories", "'categories'"))
      for value in (None, {}, 3, "x")),
    *((lambda file, key=key: file[key].insert(1, 3), rf"{told} 1 must be an object; got int 3")
      for key, told in (("images", "image"), ("annotations", "annotation"), ("categories", "category"))),
    (lambda file: file.pop("images"), "'images' must be"),
])  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(tmp_path, change, told):
    where = written(tmp_path, document())
    (tmp_path / "objects.json").write_text(json.dumps(changed(change)))
    with pytest.raises(DataError, match=rf"objects\.json.*{told}"):
        COCO(**where, pixelwise_masks=True, image_ids=True, include_iscrowd=False)


@pytest.mark.parametrize(("text", "told"), [
    ("", "not a JSON file"), ("[]", "JSON object"), ("3", "JSON object"), ('{"images": [NaN]}', "NaN is no number"),
    ('{"images": [-Infinity]}', "no number"), ("[" * 100_000, "nested too deeply"),
    ('{"images":' + '{"a":' * 100_000, "nested too deeply"), ('{"images": [1' + "0" * 5000 + "]}", "not a JSON file"),
    ('{"images": []} x', "Extra data"), ('{"images": ["\\ud800', "not a JSON file"),
    ("\xff\x00", "not a JSON file")])  # fmt: skip
def test_what_is_no_json_is_refused(tmp_path, text, told):
    (tmp_path / "objects.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=told):
        COCO(file_root=tmp_path, annotations_file=tmp_path / "objects.json")


def test_a_file_without_images_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="a file with images"):
        COCO(**written(tmp_path, document(images=[])))
    os.mkfifo(tmp_path / "fifo")
    for path in ("nowhere.json", "fifo", "."):
        with pytest.raises(ArgumentError, match="'annotations_file' must be a JSON file"):
            COCO(file_root=tmp_path, annotations_file=tmp_path / path)


def small():
    """A file of all kinds of masks in few bytes."""
    shapes = [[0, 0, 2, 0, 2, 3]], {"size": [2, 3], "counts": [1, 2]}, {"size": [2, 3], "counts": "123"}
    things = [{"image_id": i, "category_id": 7, "bbox": [0, 1, 2.5, 3], "iscrowd": 1, "segmentation": shape}
              for i, shape in zip((1, 2, 2), shapes, strict=True)]  # fmt: skip
    images = [image(1, "a", 3, 2), image(2, "b", 3, 2)]
    return {"images": images, "annotations": things, "categories": [{"id": 7}]}


ways = [{}, {"polygon_masks": True, "ratio": True}, {"pixelwise_masks": True, "image_ids": True}]


@pytest.mark.parametrize("way", ways)
def test_every_truncation_and_every_flipped_byte_is_refused_or_read(tmp_path, way):
    where = written(tmp_path, small())
    path = tmp_path / "objects.json"
    data = path.read_bytes()
    damaged = [data[:end] for end in range(len(data))]
    rng = np.random.default_rng(5)
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= int(rng.integers(1, 256))
        damaged.append(bytes(flipped))
    outcomes = []
    for bad in damaged:
        path.write_bytes(bad)
        try:
            list(COCO(**where, **way).next_epoch(2))
            outcomes.append("read")
        except (DataError, ArgumentError):
            outcomes.append("refused")
    assert set(outcomes[: len(data)]) == {"refused"}
    assert {"read", "refused"} == set(outcomes)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"file_root": None}, "'file_root'"), ({"file_root": 3}, "'file_root'"),
    ({"annotations_file": None}, "'annotations_file'"), ({"annotations_file": ["a"]}, "'annotations_file'"),
    ({"annotations_file": ""}, "'annotations_file'"), ({"preprocessed_annotations": "m"}, "'annotations_file'"),
    ({"meta_files_path": "m"}, "'annotations_file'"), ({"images": 3}, "'images'"), ({"images": [3]}, "'images'"),
    ({"images": {"5.jpg"}}, "'images'"), ({"ltrb": 1}, "'ltrb'"), ({"ratio": "x"}, "'ratio'"),
    ({"size_threshold": "x"}, "'size_threshold'"), ({"size_threshold": float("nan")}, "'size_threshold'"),
    ({"size_threshold": float("inf")}, "'size_threshold'"), ({"size_threshold": True}, "'size_threshold'"),
    ({"size_threshold": [1]}, "'size_threshold'"),
    ({"include_iscrowd": 0}, "'include_iscrowd'"), ({"skip_empty": 0}, "'skip_empty'"),
    ({"avoid_class_remapping": "no"}, "'avoid_class_remapping'"), ({"polygon_masks": 2}, "'polygon_masks'"),
    ({"pixelwise_masks": 2}, "'pixelwise_masks'"), ({"masks": 2}, "'masks'"), ({"image_ids": 2}, "'image_ids'"),
    ({"polygon_masks": True, "pixelwise_masks": True}, "'pixelwise_masks'"),
    ({"masks": True, "pixelwise_masks": True}, "'pixelwise_masks'"),
    ({"image_ids": True, "save_img_ids": True}, "'save_img_ids'"), ({"save_img_ids": 3}, "'image_ids'"),
    ({"save_preprocessed_annotations": True}, "'save_preprocessed_annotations_dir'"),
    ({"dump_meta_files": True}, "'save_preprocessed_annotations_dir'"),
    ({"save_preprocessed_annotations_dir": "."}, "'save_preprocessed_annotations_dir'"),
    ({"save_preprocessed_annotations": 1, "save_preprocessed_annotations_dir": "."}, "'save_preprocessed_annotations'"),
    ({"dump_meta_files": True, "dump_meta_files_path": "nowhere"}, "'save_preprocessed_annotations_dir'"),
    ({"image": ["5.jpg"]}, "Did you mean 'images'"), ({"annotations_file": "nowhere"}, "No such file"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    where = written(tmp_path, document())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=told):
        COCO(**(where | arguments))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"images": ["5.jpg"]}, "'images'"), ({"ltrb": True}, "'ltrb'"), ({"ratio": True}, "'ratio'"),
    ({"size_threshold": 3}, "'size_threshold'"), ({"skip_empty": True}, "'skip_empty'"),
    ({"include_iscrowd": False}, "'include_iscrowd'"), ({"avoid_class_remapping": True}, "'avoid_class_remapping'"),
    ({"image_ids": True}, r"original_ids\.dat\. Was it asked for"), ({"masks": True}, r"polygons_count\.dat"),
    ({"pixelwise_masks": True}, r"heights\.dat"), ({"preprocessed_annotations": "nowhere"}, r"filenames\.dat"),
])  # fmt: skip
def test_binary_files_cannot_give_what_they_were_not_made_with(tmp_path, arguments, told):
    where = written(tmp_path, document())
    (tmp_path / "m").mkdir()
    saved(where, tmp_path / "m")
    with pytest.raises(ArgumentError, match=told):
        COCO(**({"file_root": tmp_path, "preprocessed_annotations": tmp_path / "m"} | arguments))


# Binary files


def saved(where, folder, **arguments):
    COCO(**where, save_preprocessed_annotations=True, save_preprocessed_annotations_dir=folder, **arguments)


OUTPUTS = [{}, {"image_ids": True}, {"polygon_masks": True}, {"masks": True}, {"pixelwise_masks": True}]
FIXED = [{}, {"ltrb": True, "ratio": True}, {"avoid_class_remapping": True, "include_iscrowd": False},
         {"images": ["b c", "a", "b c"], "size_threshold": 2.5}, {"skip_empty": True}]  # fmt: skip


def several(root):
    file = small()
    file["images"].append(image(3, "b c", 4, 5))
    file["annotations"] += [thing(3, 7, [0, 0, 2, 3], segmentation=[SQUARE, OTHER]), thing(3, 7, [0, 0, 4, 3])]
    return written(root, file)


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("fixed", FIXED)
def test_what_is_saved_is_read_again(tmp_path, outputs, fixed):
    where = several(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "heights.dat").write_bytes(b"old")
    (tmp_path / "m" / "mine.txt").touch()
    saved(where, tmp_path / "m", **outputs, **fixed)
    again = {"file_root": tmp_path, "preprocessed_annotations": tmp_path / "m"}
    assert told(samples(**again, **outputs)) == told(samples(**where, **outputs, **fixed))
    assert (tmp_path / "m" / "heights.dat").exists() == ("pixelwise_masks" in outputs)
    assert (tmp_path / "m" / "mine.txt").exists()
    assert not [name for name in os.listdir(tmp_path / "m") if not name.endswith((".dat", ".txt"))]
    (tmp_path / "n").mkdir()
    saved(again, tmp_path / "n", **outputs)
    for name in os.listdir(tmp_path / "n"):
        assert (tmp_path / "n" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_what_cannot_be_saved_leaves_nothing_behind(tmp_path):
    where = several(tmp_path)
    (tmp_path / "m" / "labels.dat").mkdir(parents=True)
    with pytest.raises(ArgumentError, match="'save_preprocessed_annotations_dir' must be a folder that can be written"):
        saved(where, tmp_path / "m")
    assert all(name.endswith(".dat") for name in os.listdir(tmp_path / "m"))


def test_links_in_the_folder_are_replaced_and_not_followed(tmp_path, monkeypatch):
    """Whoever else may write to the folder cannot make other files of one's own be overwritten."""
    where, folder, mine = several(tmp_path), tmp_path / "m", tmp_path / "mine"
    folder.mkdir()
    mine.write_bytes(b"mine")
    (folder / "boxes.dat").symlink_to(mine)
    (folder / "heights.dat").symlink_to(mine)
    (folder / f"labels.dat.{os.getpid()}").symlink_to(mine)
    saved(where, folder)
    assert mine.read_bytes() == b"mine"
    assert not (folder / "boxes.dat").is_symlink()
    assert not (folder / "heights.dat").is_symlink()
    monkeypatch.setattr(coco.secrets, "token_hex", lambda _: "known")
    (folder / "labels.dat.known.part").symlink_to(tmp_path / "new")
    with pytest.raises(ArgumentError, match="File exists"):
        saved(where, folder)
    assert not (tmp_path / "new").exists()
    assert (folder / "labels.dat.known.part").is_symlink()


def test_the_former_names_of_arguments_mean_the_same(tmp_path):
    where = several(tmp_path)
    (tmp_path / "m").mkdir()
    COCO(**where, dump_meta_files=True, dump_meta_files_path=tmp_path / "m", save_img_ids=True)
    again = {"file_root": tmp_path, "meta_files_path": tmp_path / "m"}
    assert told(samples(**again, save_img_ids=True)) == told(samples(**where, image_ids=True))


def test_a_run_may_go_on_from_binary_files(tmp_path):
    where = several(tmp_path)
    (tmp_path / "m").mkdir()
    saved(where, tmp_path / "m", polygon_masks=True, image_ids=True)
    reader = COCO(**where, polygon_masks=True, image_ids=True)
    reader(1)
    other = COCO(file_root=tmp_path, preprocessed_annotations=tmp_path / "m", polygon_masks=True, image_ids=True)
    other.set_state(reader.get_state())
    assert [bytes(step[0].samples[0]) for step in other.next_epoch(1)] == [b"b", b"b c"]


def test_names_of_two_lines_and_masks_that_cannot_be_are_not_saved(tmp_path):
    for name, runs in (("a\nb", [80]), ("a", [81])):
        file = document(thing(1, 30, segmentation={"size": [8, 10], "counts": runs}), images=[image(1, name)])
        (tmp_path / "m").mkdir(exist_ok=True)
        with pytest.raises(DataError, match="two lines|not of 80 pixels"):
            saved(written(tmp_path, file), tmp_path / "m", pixelwise_masks=True)
        assert os.listdir(tmp_path / "m") == []


@pytest.mark.slow
def test_every_truncation_and_flipped_byte_of_binary_files_is_refused_or_read(tmp_path):
    where = several(tmp_path)
    (tmp_path / "m").mkdir()
    arguments = {"pixelwise_masks": True, "image_ids": True}
    saved(where, tmp_path / "m", **arguments)
    rng = np.random.default_rng(6)

    def outcome():
        try:
            list(COCO(file_root=tmp_path, preprocessed_annotations=tmp_path / "m", **arguments).next_epoch(2))
        except (DataError, ArgumentError):
            return "refused"
        return "read"

    for path in sorted((tmp_path / "m").iterdir()):
        data = path.read_bytes()
        for end in range(len(data)):
            if path.name == "filenames.dat":
                continue
            path.write_bytes(data[:end])
            assert outcome() == "refused", (path.name, end)
        for at in range(len(data)):
            for value in (0xFF, 0x80, int(rng.integers(1, 256))):
                flipped = bytearray(data)
                flipped[at] ^= value
                path.write_bytes(flipped)
                outcome()
        path.write_bytes(data + b"\0\0\0\0")
        assert outcome() == "refused"
        path.unlink()
        assert outcome() == "refused"
        path.write_bytes(data)
    assert outcome() == "read"


# Places and states


def many(root, n):
    rng = np.random.default_rng(n)
    things = [
        thing(int(i) * 2, 30, rng.integers(1, 9, 4).tolist(), segmentation=[SQUARE]) for i in rng.integers(0, n, 2 * n)
    ]
    return written(root, document(*things, images=[image(2 * i, f"{i:02d}.jpg") for i in range(n)]))


def edited(file, what):
    if what == "box":
        file["annotations"][0]["bbox"][0] += 1
    elif what == "category":
        file["annotations"][0]["category_id"] = 10
    elif what == "vertex":
        file["annotations"][0]["segmentation"][0] = [2, *SQUARE[1:]]
    elif what == "runs":
        file["annotations"][1]["segmentation"]["counts"][1] += 1
    elif what == "object":
        file["annotations"].append(thing(5, 30))
    elif what == "size":
        file["images"][0]["width"] += 1
    elif what == "id":
        file["images"][0]["id"] = file["annotations"][0]["image_id"] = 6


@pytest.mark.parametrize("what", ["box", "category", "vertex", "runs", "object", "size", "id", "name"])
def test_other_annotations_are_told_from_those_of_a_state(tmp_path, what):
    file = document(thing(5, 30, segmentation=[SQUARE]), thing(2, 30, segmentation={"size": [8, 10], "counts": [1, 2]}))
    where = written(tmp_path, file)
    arguments = {"pixelwise_masks": True, "image_ids": True, "random_shuffle": True}
    reader = COCO(**where, **arguments)
    reader(1)
    state = reader.get_state()
    COCO(**where, **arguments).set_state(state)
    if what == "name":
        file["images"][0]["file_name"] = "new.jpg"
    else:
        edited(file, what)
    other = COCO(**written(tmp_path, file), **arguments)
    expected = "1 added .*1 removed" if what == "name" else "labels: the same samples with other labels"
    with pytest.raises(StateError, match=expected):
        other.set_state(state)


@pytest.mark.parametrize("shape", [[SQUARE, OTHER], [], [[]], "x", [[1], ["x"]], [[1, 2], {"a": [3]}], {"counts": [1]}])
@pytest.mark.parametrize("indent", [None, 2])
def test_masks_are_not_looked_at_where_they_are_not_wanted(tmp_path, shape, indent):
    file = document(thing(2, 30, segmentation=shape), {"segmentation": shape} | thing(5, 30))
    file["info"] = {"note": 'a "segmentation": [1, 2], "x"', "segmentation": shape}
    where = written(tmp_path, file)
    (tmp_path / "objects.json").write_text(json.dumps(file, indent=indent))
    assert [sample[2].tolist() for sample in samples(**where)] == [[1], [1]]


def test_what_is_not_given_out_makes_no_other_labels(tmp_path):
    file = document(thing(5, 30, segmentation=[SQUARE]), thing(2, 30))
    state = COCO(**written(tmp_path, file)).get_state()
    for what in ("vertex", "size", "id"):
        edited(file, what)
    file["categories"].append({"id": 99})
    COCO(**written(tmp_path, file)).set_state(state)


@pytest.mark.parametrize("way", ways)
def test_empty_batches_are_like_others(tmp_path, way):
    where = many(tmp_path, 2)
    full = COCO(**where, **way)(2)
    (tmp_path / "00.jpg").unlink()
    (tmp_path / "01.jpg").unlink()
    empty = next(COCO(**where, **way, on_error="skip").next_epoch(2))
    assert [len(batch) for batch in empty] == [0] * len(full)
    assert [(b.dtype, b.ndim, b.layout) for b in empty] == [(b.dtype, b.ndim, b.layout) for b in full]


# The real DALI


SCRIPT = """
import warnings
warnings.simplefilter("ignore")
reader = ndd.readers.COCO(**{name: globals()[name] for name in names})
result = [tuple(step) for step in reader.next_epoch()]
"""


def of_dali(dali, **arguments):
    found = dali.script(SCRIPT, names=list(arguments), **arguments)
    return [[bytes(sample[0].array).decode(), *(tensor.array for tensor in sample[1:])] for sample in found]


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[0] == other[0]
        for a, b in zip(mine[1:], other[1:], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.array_equal(a, b)


floats = st.one_of(st.integers(0, 12), st.integers(0, 120).map(lambda n: n / 10), st.floats(-1, 40))


@st.composite
def files(draw, *, pixels):
    """Files that DALI reads right: where objects overlap, it is wrong about the last pixels, and about labels that two
    objects with run lengths have, or one without a mask."""
    images, things = [], []
    for number in draw(st.lists(st.integers(-50, 99), min_size=1, max_size=5, unique=True)):
        height, width = draw(heights), 1 + draw(widths)
        images.append(image(number, None, width, height))
        one = pixels and draw(st.booleans())
        for i in range(1 if one else draw(st.integers(0, 4))):
            shapes = draw(st.lists(polygons.filter(len), min_size=int(pixels), max_size=3))
            shapes = [np.float32(shape).tolist() for shape in shapes]  # more digits are lost in DALI
            if pixels and not one:
                for shape in shapes:
                    shape[::2] = [min(x, width - 1.5) for x in shape[::2]]
            category = draw(st.sampled_from(CATEGORIES[1:]))
            if i == 0 and draw(st.booleans()):
                mask = np.zeros((height, width), bool)
                for shape in shapes:
                    mask |= walked(shape, height, width)
                mask[:, -1] &= one
                if mask.any():
                    shapes, category = run_lengths(mask, text=draw(st.booleans())), CATEGORIES[0]
            things.append(thing(number, category, draw(st.lists(floats, min_size=4, max_size=4)), segmentation=shapes,
                                iscrowd=draw(st.integers(0, 1))))  # fmt: skip
    things.append(thing(100, CATEGORIES[0], segmentation=[]))
    return document(*draw(st.permutations(things)), images=images)


@given(file=files(pixels=False), data=st.data(), masks=st.sampled_from([None, "polygon_masks", "masks"]))
def test_boxes_and_polygons_are_as_in_dali(dali, tmp_path_factory, file, data, masks):
    where = written(tmp_path_factory.mktemp("dali"), file)
    flags = ["ltrb", "ratio", "include_iscrowd", "avoid_class_remapping", "image_ids"]
    arguments = {name: data.draw(st.booleans()) for name in flags} | ({masks: True} if masks else {})
    arguments["size_threshold"] = data.draw(st.sampled_from([0.1, -2.0, 0.5, 3.0, 7.25]))
    if data.draw(st.booleans()):
        names = [each["file_name"] for each in file["images"]]
        arguments["images"] = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=6))
    ours = samples(**where, **arguments)
    arguments["skip_empty"] = all(sample[2].size for sample in ours) or data.draw(st.booleans())
    if any(sample[2].size for sample in ours):
        same(samples(**where, **arguments), of_dali(dali, **where, **arguments))


@given(file=files(pixels=True), remapped=st.booleans())
def test_masks_are_as_in_dali(dali, tmp_path_factory, file, remapped):
    where = written(tmp_path_factory.mktemp("dali"), file)
    arguments = {"pixelwise_masks": True, "avoid_class_remapping": not remapped, "size_threshold": -2.0}
    same(samples(**where, **arguments), of_dali(dali, **where, **arguments))


@given(file=files(pixels=False), masks=st.sampled_from(OUTPUTS), ltrb=st.booleans(), ratio=st.booleans())
def test_each_reads_the_binary_files_of_the_other(dali, tmp_path_factory, file, masks, ltrb, ratio):
    root = tmp_path_factory.mktemp("dali")
    where = written(root, file)
    fixed = {"ltrb": ltrb, "ratio": ratio and "pixelwise_masks" not in masks}
    folders = {name: str(root / name) for name in ("ours", "theirs")}
    for folder in folders.values():
        os.mkdir(folder)
    saved(where, folders["ours"], **masks, **fixed)
    of_dali(dali, **where, **masks, **fixed, save_preprocessed_annotations=True,
            save_preprocessed_annotations_dir=folders["theirs"])  # fmt: skip
    assert sorted(os.listdir(folders["ours"])) == sorted(os.listdir(folders["theirs"]))
    for name in os.listdir(folders["ours"]):
        contents = [Path(folder, name).read_bytes() for folder in folders.values()]
        assert contents[0] == contents[1], name
    expected = samples(**where, **masks, **fixed)
    same(samples(file_root=root, preprocessed_annotations=folders["theirs"], **masks), expected)
    if "pixelwise_masks" not in masks:
        same(expected, of_dali(dali, file_root=str(root), preprocessed_annotations=folders["ours"], **masks))


OVERLAPS = {
    "the end of the image": ([object_of({"size": [8, 10], "counts": [0, 80]}, 30),
                              object_of({"size": [8, 10], "counts": [70, 10]}, 10)], 70, 2, 1),
    "two run lengths of one label": ([object_of({"size": [8, 10], "counts": [0, 5, 75]}, 30),
                                      object_of({"size": [8, 10], "counts": [9, 5, 66]}, 30)], 0, 1, 0),
    "a label without a mask": ([object_of({"size": [8, 10], "counts": [0, 5, 75]}, 10), object_of([], 30)], 0, 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("what", OVERLAPS)
def test_masks_are_whole_where_those_of_dali_are_not(tmp_path, what):
    things, pixel, ours, _ = OVERLAPS[what]
    assert mask_of(*things).ravel(order="F")[pixel] == ours


@pytest.mark.parametrize("what", OVERLAPS)
def test_dali_loses_parts_of_masks(dali, tmp_path, what):
    things, pixel, _, theirs = OVERLAPS[what]
    where = written(tmp_path, document(*things, images=[image(1)]))
    (sample,) = of_dali(dali, **where, pixelwise_masks=True)
    assert sample[3].ravel(order="F")[pixel] == theirs


def test_dali_reads_half_a_file(dali, tmp_path):
    where = written(tmp_path, document(thing(5, 30)))
    text = (tmp_path / "objects.json").read_text()
    (tmp_path / "objects.json").write_text(text[: text.index('"categories"')])
    assert of_dali(dali, **where)[1][2].tolist() == [0]
    with pytest.raises(DataError, match="not a JSON file"):
        COCO(**where)


@pytest.mark.parametrize(("categories", "by_place", "by_id"), [
    ([{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}], {1: "cat", 2: "dog"}, {7: "cat", 3: "dog"}),
    ([{"id": 7}, {"id": 3, "name": "dog"}, {"id": 9, "name": None}], {2: "dog"}, {3: "dog"}),
    ([{"id": 7, "name": "cat"}, {"id": 7, "name": "late"}, {"id": 3}], {1: "cat"}, {7: "cat"}),
])  # fmt: skip
def test_categories_have_their_names_by_label(tmp_path, categories, by_place, by_id):
    file = document(thing(5, 7), thing(2, 3)) | {"categories": categories}
    arguments = written(tmp_path, file)
    assert COCO(**arguments).classes == by_place
    assert COCO(**arguments, avoid_class_remapping=True, random_shuffle=True).classes == by_id
    (stored := tmp_path / "stored").mkdir()
    COCO(**arguments, save_preprocessed_annotations=True, save_preprocessed_annotations_dir=stored)
    assert COCO(file_root=tmp_path, preprocessed_annotations=stored).classes is None
    del file["categories"]
    assert COCO(**written(tmp_path, file), avoid_class_remapping=True).classes == {}
