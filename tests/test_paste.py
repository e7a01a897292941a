"""paste, multi_paste and grid_mask: by hand, against plain NumPy, and as DALI does it."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import example, given
from hypothesis import strategies as st

from dynamic import ArgumentError, as_batch, as_tensor, grid_mask, multi_paste, paste
from dynamic.ops import paste as paste_module

RAMP = np.arange(1, 4 * 3 * 2 + 1, dtype=np.uint8).reshape(4, 3, 2)
RAMP.setflags(write=False)
IMAGE = as_tensor(RAMP, layout="HWC")
places = st.floats(0, 1, width=32)


def laid(array, layout):
    return as_tensor(array, layout=layout)


@given(ratio=st.floats(1, 3, width=32), x=places, y=places, least=st.integers(0, 9))
def test_an_image_lies_on_its_canvas(ratio, x, y, least):
    found = paste(IMAGE, ratio=ratio, paste_x=x, paste_y=y, min_canvas_size=least, fill_value=(7, 9)).array
    height, width = (max(int(np.float32(ratio) * np.float32(extent)), least) for extent in (4, 3))
    expected = np.broadcast_to(np.array([7, 9], np.uint8), (height, width, 2)).copy()
    top, left = (int(np.float32(p) * np.float32(room)) for p, room in ((y, height - 4), (x, width - 3)))
    expected[top : top + 4, left : left + 3] = RAMP
    assert np.array_equal(found, expected)
    planes = paste(laid(RAMP.transpose(2, 0, 1), "CHW"), ratio=ratio, paste_x=x, paste_y=y, min_canvas_size=least,
                   fill_value=(7, 9))  # fmt: skip
    assert np.array_equal(planes.array, expected.transpose(2, 0, 1))


def test_canvases_of_other_kinds():
    assert paste(RAMP[..., 0], ratio=1.5, fill_value=300).array[5, 3] == 255
    assert paste(laid(np.ones((2, 3, 3, 1), np.float32), "FHWC"), ratio=2, fill_value=0.5).shape == (2, 6, 6, 1)
    volume = paste(laid(np.ones((2, 2, 2)), "DHW"), ratio=2, fill_value=0).array
    assert volume[1:3, 1:3, 1:3].all()
    assert volume.sum() == 8
    batch = paste(as_batch([RAMP, RAMP[:2]], layout="HWC"), ratio=as_batch([1.0, 2.0]), fill_value=0)
    assert batch.shape == [(4, 3, 2), (4, 6, 2)]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"ratio": 0.5, "fill_value": 0}, "'ratio'"), ({"ratio": 2, "fill_value": 0, "paste_x": 2}, "'paste_x'"),
    ({"ratio": 2, "fill_value": (1, 2, 3)}, "'fill_value' must be one value or 2"), ({"ratio": 2}, "'fill_value'"),
    ({"fill_value": 0}, "'ratio'"),
    ({"ratio": 1, "fill_value": 0, "min_canvas_size": 1e39}, "'min_canvas_size'")])  # fmt: skip
def test_wrong_canvases_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"paste\(\): argument {told}"):
        paste(IMAGE, **arguments)


@given(data=st.data())
def test_windows_are_pasted_one_over_the_other(data):
    count = data.draw(st.integers(1, 3))
    images = [np.random.default_rng(i).integers(1, 255, (4, 3, 2)).astype(np.uint8) for i in range(3)]
    number = st.integers(0, 2)
    ids = data.draw(st.lists(number, min_size=count, max_size=count))
    starts, sizes, targets = (
        data.draw(st.lists(st.tuples(number, number), min_size=count, max_size=count)) for _ in "abc"
    )
    sizes = [(min(a, 4 - y), min(b, 3 - x)) for (a, b), (y, x) in zip(sizes, starts, strict=True)]
    expected = np.zeros((4, 5, 2), np.uint8)
    for i, (y, x), (height, width), (top, left) in zip(ids, starts, sizes, targets, strict=True):
        expected[top : top + height, left : left + width] = images[i][y : y + height, x : x + width]
    arguments = {"in_anchors": starts, "shapes": sizes, "out_anchors": targets, "output_size": (4, 5)}
    batch = as_batch(images, layout="HWC")
    from_ids = multi_paste(batch, in_ids=ids, **arguments)
    from_inputs = multi_paste(*(laid(images[i], "HWC") for i in ids), **arguments)
    assert len(from_ids) == 3
    assert all(np.array_equal(sample, expected) for sample in from_ids.samples)
    assert np.array_equal(from_inputs.array, expected)
    planes = multi_paste(*(laid(images[i].transpose(2, 0, 1), "CHW") for i in ids), **arguments)
    assert np.array_equal(planes.array, expected.transpose(2, 0, 1))


def test_what_is_not_said_is_all_of_an_image_at_the_corner():
    assert np.array_equal(multi_paste(IMAGE).array, RAMP)
    assert multi_paste(IMAGE, output_size=(5, 5), dtype="float32").array.sum() == RAMP.sum()
    assert multi_paste(IMAGE, output_size=(5, 6, 2)).shape == (5, 6, 2)
    behind = multi_paste(IMAGE, output_size=(5, 5), in_anchors=[[2, 1]]).array
    assert np.array_equal(behind[:2, :2], RAMP[2:, 1:])
    assert behind.sum() == RAMP[2:, 1:].sum()
    assert not multi_paste(IMAGE, in_ids=()).array.any()
    many = multi_paste(as_batch([IMAGE, IMAGE]), in_ids=as_batch([[1], [0]]), output_size=as_batch([[4, 3], [5, 5]]))
    assert many.shape == [(4, 3, 2), (5, 5, 2)]
    one_each = multi_paste(as_batch([IMAGE, IMAGE]), in_ids=as_batch([1, 0]), output_size=as_batch([[4, 3], [5, 5]]))
    assert one_each.tolist() == many.tolist()


def test_a_mosaic_covers_its_canvas_and_overlapping_windows_of_as_much_area_do_not():
    halves = {"output_size": (4, 6), "in_anchors": [[0, 0], [0, 0]], "shapes": [[4, 3], [4, 3]]}
    assert (multi_paste(IMAGE, IMAGE, out_anchors=[[0, 0], [0, 3]], **halves).array == np.hstack([RAMP, RAMP])).all()
    for _ in range(3):  # in memory that was used before
        found = multi_paste(IMAGE, IMAGE, out_anchors=[[0, 0], [0, 2]], **halves).array
        assert not found[:, 5].any()
        assert np.array_equal(found[:, 2:5], RAMP)
    empty = multi_paste(IMAGE, IMAGE, IMAGE, output_size=(4, 3), shapes=[[4, 3], [0, 3], [4, 0]])
    assert np.array_equal(empty.array, RAMP)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=6), st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_tiles_of_any_number_are_known_to_cover_their_canvas(heights, widths, moved, seed):
    ends = [np.cumsum([0, *lengths]).tolist() for lengths in (heights, widths)]
    rows, columns = list(zip(heights, ends[0][:-1], strict=True)), list(zip(widths, ends[1][:-1], strict=True))
    tiles = [((0, 0), (h, w), (y, x)) for h, y in rows for w, x in columns]
    canvas = ends[0][-1], ends[1][-1]
    tiles = [tiles[i] for i in np.random.default_rng(seed).permutation(len(tiles))]
    if moved and tiles[0][1] != canvas:  # onto one of the others
        other = next((start for _, size, start in tiles[1:] if size == tiles[0][1]), None)
        if other is not None:
            tiles[0] = (*tiles[0][:2], other)
            assert not paste_module._covered(canvas, tiles)
            return
    assert paste_module._covered(canvas, tiles)
    assert not paste_module._covered((canvas[0] + 1, canvas[1]), tiles)


def test_a_mosaic_of_a_thousand_tiles_is_compared_with_a_grid(monkeypatch):
    tiles = [((0, 0), (2, 3), (2 * i, 3 * j)) for i in range(32) for j in range(32)]
    monkeypatch.setattr(paste_module.itertools, "combinations", None)  # half a million pairs
    assert paste_module._covered((64, 96), tiles)
    cross = [((0, 0), (1, 600), (i, 0)) for i in range(300)] + [((0, 0), (600, 1), (300, j)) for j in range(600)]
    assert not paste_module._covered((900, 600), cross)  # there are too many cells to tell
    found = multi_paste(*[IMAGE] * 8, output_size=(8, 12), out_anchors=[[4 * (i % 2), 3 * (i // 2)] for i in range(8)])
    assert np.array_equal(found.array, np.tile(RAMP, (2, 4, 1)))


def test_parts_of_extents_are_cut_off_for_places_and_rounded_up_for_sizes():
    image = laid(np.arange(100, dtype=np.uint8).reshape(10, 10), "HW")
    found = multi_paste(image, output_size=(20, 20), in_anchors_rel=[[0.19, 0.35]], shapes_rel=[[0.19, 0.31]],
                        out_anchors_rel=[[0.19, 0.29]]).array  # fmt: skip
    assert np.array_equal(found[3:5, 5:9], image.array[1:3, 3:7])
    assert found.sum() == image.array[1:3, 3:7].sum()


@pytest.mark.parametrize(("arguments", "told"), [
    ({"in_ids": [1]}, "'in_ids' must be numbers of samples, less than 1"), ({"in_ids": [-1]}, "'in_ids'"),
    ({"in_anchors": [[0, 0]], "in_anchors_rel": [[0, 0]]}, "'in_anchors_rel' must be left out"),
    ({"out_anchors": [[0, 0], [1, 1]]}, "'out_anchors' must be 1 rows of 2 numbers"), ({"shapes": [[1]]}, "'shapes'"),
    ({"out_anchors": [[1, 0]]}, "'out_anchors' must be inside of"),
    ({"shapes": [[5, 1]]}, "'in_anchors'"), ({"shapes": [[-1, 1]]}, "'in_anchors'"),
    ({"output_size": [3]}, "'output_size' must be 2 extents"),
    ({"output_size": [4, 5, 3]}, "'output_size' must be 2 extents")])  # fmt: skip
def test_wrong_pastings_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"multi_paste\(\): argument {told}"):
        multi_paste(IMAGE, **arguments)


def test_images_that_do_not_go_together_are_refused():
    with pytest.raises(ArgumentError, match="'in_ids' must be left out where there is more than one input"):
        multi_paste(IMAGE, IMAGE, in_ids=[0])
    with pytest.raises(ArgumentError, match="'output_size' must be given when images differ in size"):
        multi_paste(IMAGE, laid(RAMP[:2], "HWC"))
    with pytest.raises(ArgumentError, match="'images' must be images with the same channels"):
        multi_paste(IMAGE, laid(RAMP[..., :1], "HWC"), output_size=(9, 9))


half_steps = st.integers(-40, 40).map(lambda i: i / 2)


@given(tile=st.integers(1, 9), ratio=st.floats(0, 1, width=32), x=half_steps, y=half_steps)
@example(5, 0.5, 12, 0)
def test_the_corner_of_each_tile_is_masked(tile, ratio, x, y):
    image = np.ones((7, 11, 2), np.uint8)
    expected = image.copy()
    part = np.float32(ratio)
    for row in range(7):
        for column in range(11):
            if (row - y) % tile / np.float32(tile) < part and (column - x) % tile / np.float32(tile) < part:
                expected[row, column] = 0
    close = [k for k in range(2 * tile) if abs(k / 2 / tile - ratio) < 1e-4]  # may be rounded to either side
    if not close:
        arguments = {"tile": tile, "ratio": ratio, "shift_x": x, "shift_y": y}
        exact = tile & (tile - 1) == 0  # else a tile's start may be rounded to the end of the one before, as in DALI
        rows, columns = (exact | ((np.arange(n) - by) % tile != 0) for n, by in ((7, y), (11, x)))
        sure = rows[:, None] & columns
        assert np.array_equal(grid_mask(laid(image, "HWC"), **arguments).array[sure], expected[sure])
        frames = grid_mask(laid(image[None, :, :, 0], "FHW"), **arguments).array
        assert np.array_equal(frames[0][sure], expected[sure, 0])


def test_a_grid_turns_about_the_corner_of_the_image():
    upright = grid_mask(np.ones((40, 60)), tile=20, ratio=0.5, shift_x=0.25, shift_y=0.25).array
    quarter = grid_mask(np.ones((40, 60)), tile=20, ratio=0.5, angle=np.pi / 2, shift_x=9.75, shift_y=0.25).array
    assert np.array_equal(upright, quarter)
    assert np.isnan(grid_mask(np.full((2, 2), np.nan), tile=1, ratio=0).array).all()
    assert not grid_mask(np.full((2, 2), np.nan), tile=1, ratio=1).array.any()
    with pytest.raises(ArgumentError, match="'tile'"):
        grid_mask(np.ones((2, 2)), tile=0)
