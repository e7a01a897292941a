"""Images that move together with masks, boxes and points: told by rectangles that are painted into them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, as_batch, together
from dynamic._lift.operator import movers
from dynamic.custom import Moving, PerSample, Plan, operator
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG

ANGLES = st.one_of(st.floats(-400, 400, width=32), st.sampled_from([0.0, 90.0, 180.0, -90.0]))
SHARES = st.floats(0, 1, width=16)
FLAGS = st.integers(0, 1)


def numbers(draw, values, n):
    """One for all samples, or a Batch of one for each."""
    if n and draw(st.booleans()):
        return as_batch([draw(values) for _ in range(n)])
    return draw(values)


def flipped(draw, n):
    return {"horizontal": numbers(draw, FLAGS, n), "vertical": numbers(draw, FLAGS, n)}


def turned(draw, n):
    given = {"angle": numbers(draw, ANGLES, n), "fill_value": 0.0}
    size = draw(st.sampled_from([{}, {"keep_size": True}, {"size": (40, 30)}]))
    return {**given, **size}


def cropped(draw, n):
    window = {"crop_h": numbers(draw, st.integers(1, 24), n), "crop_w": numbers(draw, st.integers(1, 24), n)}
    if draw(st.booleans()):
        window |= {"crop": (70, 20), "out_of_bounds_policy": "pad", "fill_values": 0.0}
        del window["crop_h"], window["crop_w"]
    places = {"crop_pos_x": numbers(draw, SHARES, n), "crop_pos_y": numbers(draw, SHARES, n)}
    return {**window, **places}


def sliced(draw, n):
    start = st.tuples(st.integers(-9, 20), st.integers(-9, 20))
    how = {"start": start, "shape": st.tuples(st.integers(1, 50), st.integers(1, 50))}
    relative = {"rel_start": st.tuples(SHARES, SHARES), "rel_shape": st.tuples(SHARES, SHARES)}
    chosen = draw(st.sampled_from([how, relative]))
    axes = draw(st.sampled_from([{}, {"axis_names": "HW"}, {"axes": (0, 1)}]))
    given = {name: numbers(draw, values, n) for name, values in chosen.items()}
    return {**given, **axes, "out_of_bounds_policy": "pad"}


def resized(draw, n):
    size = st.tuples(st.integers(1, 70), st.integers(1, 70))
    given = {"size": numbers(draw, size, n)}
    if draw(st.booleans()):
        given |= {"roi_start": (20.0, 1.5), "roi_end": (3.0, 19.0)}
    elif draw(st.booleans()):
        given = {"resize_shorter": numbers(draw, st.integers(1, 60).map(float), n), "max_size": (100.0, 80.0)}
    return {**given, "interp_type": draw(st.sampled_from(["linear", "cubic"])), "min_filter": "triangular"}


def extended(draw, n):
    how = st.sampled_from([{}, {"axis_names": "HW", "align": 32}, {"axes": (0, 1), "shape": (70, 80)}])
    return {**draw(how), "fill_value": 0.0}


def pasted(draw, n):
    places = {"paste_x": numbers(draw, SHARES, n), "paste_y": numbers(draw, SHARES, n)}
    return {"ratio": numbers(draw, st.floats(1, 2, width=16), n), "fill_value": 0.0, **places}


def matrix(draw, last):
    """A matrix that shears and stretches a little."""
    part = st.floats(-0.5, 0.5, width=16)
    rows = np.eye(3) + np.array([[draw(part) for _ in range(3)] for _ in range(3)])
    rows[:2, 2] *= 40
    rows[2] = 0, 0, 1
    if last:
        rows[2, :2] = draw(st.floats(-0.01, 0.01)), draw(st.floats(-0.01, 0.01))
    if abs(np.linalg.det(rows)) < 0.2:
        rows = np.eye(3)
    return rows


def sheared(draw, n):
    rows = as_batch([matrix(draw, False) for _ in range(n)]) if n and draw(st.booleans()) else matrix(draw, False)
    return {"matrix": rows, "inverse_map": draw(st.booleans()), "fill_value": 0.0}


def seen(draw, n):
    rows = as_batch([matrix(draw, True) for _ in range(n)]) if n and draw(st.booleans()) else matrix(draw, True)
    return {
        "matrix": rows,
        "inverse_map": draw(st.booleans()),
        "pixel_origin": draw(st.sampled_from(["corner", "center"])),
    }


def drawn(draw, n):
    return {"size": draw(st.sampled_from([(40, 30), 64])), "rng": RNG(draw(st.integers(0, 99)))}


def cut(draw, n):
    given = {"size": numbers(draw, st.tuples(st.integers(20, 70), st.integers(20, 70)), n)}
    window = {"crop": (20, 18), "crop_pos_x": numbers(draw, SHARES, n), "mirror": numbers(draw, st.integers(0, 3), n)}
    return {**given, **window}


CALLS = {
    "flip": flipped,
    "rotate": turned,
    "crop": cropped,
    "slice": sliced,
    "resize": resized,
    "pad": extended,
    "paste": pasted,
    "warp_affine": sheared,
    "experimental.warp_perspective": seen,
    "random_resized_crop": drawn,
    "resize_crop_mirror": cut,
}
UPRIGHT = {"flip", "crop", "slice", "resize", "pad", "paste", "random_resized_crop", "resize_crop_mirror"}


def test_all_that_move_pixels_are_tried():
    assert movers.keys() == CALLS.keys()


@st.composite
def samples(draw, least=0):
    """Images of noise, boxes in them, and a mask of each box."""
    images, boxes, masks = [], [], []
    for _ in range(draw(st.integers(least, 3))):
        height, width = draw(st.integers(24, 60)), draw(st.integers(24, 60))
        generator = np.random.default_rng(draw(st.integers(0, 99)))
        images.append(generator.integers(0, 256, (height, width, 3), np.uint8))
        corners = generator.integers(0, [width, height], (draw(st.integers(0, 4)), 2, 2))
        corners.sort(axis=1)
        corners[:, 1] += 1
        boxes.append(corners.reshape(-1, 4).astype(np.float32))
        layers = np.zeros((len(corners), height, width), np.uint8)
        for layer, ((x, y), (end_x, end_y)) in zip(layers, corners, strict=True):
            layer[y:end_y, x:end_x] = 1
        masks.append(layers)
    for array in (*images, *boxes, *masks):
        array.setflags(write=False)
    return (
        Batch(images, "HWC", dtype=np.dtype("uint8"), ndim=3),
        Batch(boxes, dtype=np.dtype("float32"), ndim=2),
        Batch(masks, "FHW", dtype=np.dtype("uint8"), ndim=3),
    )


def painted(layer):
    """The box around painted pixels, None where there are none."""
    rows, columns = np.flatnonzero(layer.any(1)), np.flatnonzero(layer.any(0))
    return (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1) if len(rows) else None


@examples(2)
@given(st.sampled_from(sorted(CALLS)), samples(), st.data())
def test_boxes_are_around_the_pixels_that_they_were_painted_on(name, data, drawing):
    images, boxes, masks = data
    call, arguments = movers[name], CALLS[name](drawing.draw, len(images))
    labels = Batch([np.arange(len(own)) for own in boxes.samples], dtype=np.dtype("int64"), ndim=1)
    found = together(call, image=images, masks=masks, boxes=boxes, labels=labels, **arguments)
    assert list(found) == ["image", "masks", "boxes", "labels", "kept"]
    rng = {"rng": RNG(int(arguments["rng"].seed))} if "rng" in arguments else {}
    alone = call(images, **{**arguments, **rng})
    for one, other in zip(found["image"], alone, strict=True):
        assert np.array_equal(one.array, other.array)
    turned = name == "rotate" and all(float(a) % 90 == 0 for a in np.ravel(arguments["angle"]))
    for image, layers, own, kept, rest, given_layers in zip(
        *(found[key] for key in ("image", "masks", "boxes", "kept", "labels")), masks, strict=True
    ):
        assert rest.tolist() == kept.tolist()
        assert layers.shape == (len(own), *image.shape[:2])
        height, width = image.shape[:2]
        for layer, box in zip(layers.array, own.tolist(), strict=True):
            assert 0 <= box[0] < box[2] <= width
            assert 0 <= box[1] < box[3] <= height
            there = painted(layer)
            if there is None:
                assert name not in UPRIGHT or min(box[2] - box[0], box[3] - box[1]) <= 1
                continue
            assert all(low >= edge - 0.51 for low, edge in zip(there[:2], box[:2], strict=True))
            assert all(high <= edge + 0.51 for high, edge in zip(there[2:], box[2:], strict=True))
            if name in UPRIGHT or turned:
                assert np.abs(np.subtract(there, box)).max() <= 1
            elif (
                min(*box[:2], width - box[2], height - box[3]) > 0 and min(there[2] - there[0], there[3] - there[1]) > 4
            ):
                assert np.abs(np.subtract(there, box)).max() <= (2 if name == "rotate" else 4)  # corners are sharp
        lost = np.setdiff1d(np.arange(len(given_layers.array)), kept.array)
        assert len(lost) + len(kept.array) == len(given_layers.array)


@examples(1)
@given(st.sampled_from(sorted(CALLS)), samples(), st.data())
def test_no_box_of_which_pixels_are_seen_is_dropped(name, data, drawing):
    """Masks "HW" are kept whatever becomes of the boxes."""
    images, boxes, masks = data
    first = [int(len(own) > 0) for own in boxes.samples]
    one = Batch([own[:n] for own, n in zip(boxes.samples, first, strict=True)], dtype=np.dtype("float32"), ndim=2)
    layers = [own[:n].max(0, initial=0) for own, n in zip(masks.samples, first, strict=True)]
    flat = Batch(layers, "HW", dtype=np.dtype("uint8"), ndim=2)
    arguments = CALLS[name](drawing.draw, len(images))
    found = together(movers[name], image=images, masks=flat, boxes=one, **arguments)
    for mask, kept, n in zip(found["masks"], found["kept"], first, strict=True):
        assert len(kept.array) == n or not mask.array.any()


@given(st.sampled_from(sorted(CALLS)), samples(1), st.data())
def test_boxes_are_the_same_in_any_layout_and_unit_and_alone(name, data, drawing):
    images, boxes, _ = data
    arguments = CALLS[name](drawing.draw, len(images))
    seed = int(arguments.pop("rng").seed) if "rng" in arguments else None

    def called(**given):
        rng = {} if seed is None else {"rng": RNG(seed).keyed(np.arange(len(images)))}
        return together(movers[name], image=images, **given, **arguments, **rng)

    known = called(boxes=boxes)
    extents = as_batch([own.astype(np.float64) for own in boxes.samples])
    extents = Batch([np.concatenate([own[:, :2], own[:, 2:] - own[:, :2]], 1) for own in extents.samples])
    sizes = [np.array(shape[1::-1] * 2, np.float64) for shape in images.shape]
    parts = Batch([own / size for own, size in zip(extents.samples, sizes, strict=True)])
    other = called(boxes=extents, bbox_layout="xyWH")
    relative = called(boxes=parts, bbox_layout="xyWH", normalized=True)
    for i in range(len(images)):
        own = known["boxes"].samples[i]
        for found, scale in ((other, 1), (relative, np.array(known["image"].shape[i][1::-1] * 2))):
            assert found["kept"][i].tolist() == known["kept"][i].tolist()
            rows = found["boxes"].samples[i] * scale
            rows[:, 2:] += rows[:, :2]
            assert np.allclose(rows, own, atol=1e-3)


@given(st.sampled_from(sorted(CALLS)), samples(1), st.data())
def test_corners_that_are_points_bound_the_boxes_that_are_not_cut(name, data, drawing):
    images, boxes, _ = data
    arguments = CALLS[name](drawing.draw, len(images))
    corners = Batch([own[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2) for own in boxes.samples])
    free = Batch([own.reshape(-1, 2) for own in corners.samples])
    seeds = [{}] * 3
    if "rng" in arguments:
        seed = int(arguments.pop("rng").seed)
        seeds = [{"rng": RNG(seed)} for _ in range(3)]
    call = movers[name]
    both = together(call, image=images, boxes=boxes, points=corners, **arguments, **seeds[0])
    alone = together(call, image=images, points=free, **arguments, **seeds[1])
    lonely = together(call, image=images, boxes=boxes, **arguments, **seeds[2])
    assert list(alone) == ["image", "points", "inside"]
    for i, (height, width, _) in enumerate(alone["image"].shape):
        points, inside = alone["points"].samples[i].reshape(-1, 4, 2), alone["inside"].samples[i].reshape(-1, 4)
        kept, own = both["kept"].samples[i], both["boxes"].samples[i]
        assert np.array_equal(own, lonely["boxes"].samples[i])
        assert np.array_equal(points[kept], both["points"].samples[i])
        assert np.array_equal(inside[kept], both["inside"].samples[i])
        where = (points >= 0).all(-1) & (points < (width, height)).all(-1)
        assert np.array_equal(inside, where)
        if name != "experimental.warp_perspective":
            bounds = np.concatenate([points.min(1), points.max(1)], axis=1)[kept]
            assert np.allclose(np.clip(bounds, 0, [width, height] * 2), own, atol=1e-3)


@given(samples(1), st.data())
def test_a_sample_alone_gets_the_same(data, drawing):
    images, boxes, masks = data
    angles = [drawing.draw(ANGLES) for _ in images]
    found = together(ndd.rotate, image=images, masks=masks, boxes=boxes, angle=as_batch(angles), fill_value=7)
    for i, angle in enumerate(angles):
        one = together(ndd.rotate, image=images[i], masks=masks[i], boxes=boxes[i], angle=angle, fill_value=7)
        for key, value in one.items():
            assert isinstance(value, ndd.Tensor)
            assert np.array_equal(value.array, found[key].samples[i]), key


@given(samples(1), st.floats(0, 1), st.data())
def test_boxes_are_dropped_by_the_part_that_is_left(data, least, drawing):
    images, boxes, _ = data
    arguments = {**cropped(drawing.draw, 0)}
    found = together(ndd.crop, image=images, boxes=boxes, min_visible=least, **arguments)
    everything = together(ndd.crop, image=images, boxes=boxes, **arguments)
    for i, own in enumerate(boxes.samples):
        areas = (own[:, 2] - own[:, 0]) * (own[:, 3] - own[:, 1])
        rows, kept = everything["boxes"].samples[i], everything["kept"].samples[i]
        shares = (rows[:, 2] - rows[:, 0]) * (rows[:, 3] - rows[:, 1]) / areas[kept]
        left = found["kept"].samples[i]
        assert set(kept[shares > least + 1e-6]) <= set(left) <= set(kept[shares >= least - 1e-6])


def test_a_box_on_both_sides_of_a_horizon_is_around_both_parts():
    mask = np.zeros((40, 40), np.uint8)
    mask[10:30, 5:35] = 1
    matrix = [[1, 0, 0], [0, 1, 0], [1 / 20, 0, -1]]  # of the result: its columns from 20 on see the image
    for inverse in (True, False):
        found = together(
            ndd.experimental.warp_perspective, image=mask, masks=mask, boxes=[[5, 10, 35, 30]], matrix=matrix,
            inverse_map=inverse, size=(200, 300),
        )  # fmt: skip
        there = painted(found["masks"].array)
        (box,) = found["boxes"].tolist()
        assert all(low >= edge - 0.51 for low, edge in zip(there[:2], box[:2], strict=True))
        assert all(high <= edge + 0.51 for high, edge in zip(there[2:], box[2:], strict=True))


def test_masks_get_the_nearest_pixel_and_a_fill_of_their_own():
    image = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    mask = np.random.default_rng(2).choice(np.array([0, 7, 200], np.uint8), (20, 30))
    for dtype in ("uint8", "int64", "bool", "float32"):
        own = mask.astype(dtype)
        found = together(ndd.rotate, image=image, masks=own, angle=33.0, fill_value=(1, 2, 3), dtype="float32")
        assert found["image"].dtype == "float32"
        assert found["masks"].dtype == ndd.as_tensor(own).dtype
        assert set(np.unique(found["masks"])) <= set(np.unique(own))
        assert found["masks"].array[0, 0] == 0
        repeated = together(ndd.rotate, image=image, masks=np.full_like(own, True), angle=33.0)
        assert repeated["masks"].array.all()
        filled = together(ndd.rotate, image=image, masks=own, angle=33.0, mask_fill=1)
        assert filled["masks"].array[0, 0] == 1


def test_videos_move_as_one():
    video = as_batch(np.random.default_rng(1).integers(0, 256, (2, 3, 20, 30, 3), np.uint8), layout="FHWC")
    masks = as_batch((video.dense()[..., 0] > 99).astype(np.uint8), layout="FHW")
    boxes = as_batch(np.array([[[2, 3, 9, 9]], [[0, 0, 30, 20]]], np.float32))
    found = together(ndd.flip, image=video, masks=masks, boxes=boxes)
    assert np.array_equal(found["masks"].dense(), masks.dense()[..., ::-1])
    assert found["boxes"].tolist() == [[[21, 3, 28, 9]], [[0, 0, 30, 20]]]
    with pytest.raises(ArgumentError, match="one matrix for all frames"):
        together(ndd.warp_affine, image=video, boxes=boxes, matrix=np.stack([np.eye(3)] * 3)[None].repeat(2, 0)[0])


def test_inputs_after_the_image_are_those_of_the_operator():
    image = np.zeros((20, 30, 3), np.uint8)
    by_input = together(ndd.slice, [5, 4], [10, 8], image=image, boxes=[[4, 4, 9, 9]])
    by_name = together(ndd.slice, image=image, boxes=[[4, 4, 9, 9]], start=(5, 4), shape=(10, 8))
    assert by_input["boxes"].tolist() == by_name["boxes"].tolist() == [[0, 0, 4, 5]]


def test_your_own_operators_move_boxes_by_the_map_of_their_plan():
    def shifted(call):
        maps = np.tile(np.eye(3), (call.count, 1, 1))
        maps[:, 0, 2] = call.column("by")
        return maps

    @operator(layouts=["HWC", "HW"], plan=Moving(lambda call: Plan(call.shapes, call.dtype), shifted))
    def roll(image, /, *, by: PerSample[int] = 0, out=None):
        out[...] = np.roll(image, by, axis=1)

    found = together(roll, image=np.zeros((9, 9, 1), np.uint8), boxes=[[1, 1, 3, 3]], by=2)
    assert found["boxes"].tolist() == [[3, 1, 5, 3]]


def test_what_does_not_fit_is_refused_by_name():
    image, boxes = np.zeros((20, 30, 3), np.uint8), np.array([[1, 2, 3, 4]], np.float32)
    images, several = as_batch([image, image]), as_batch([boxes, boxes])
    for call in (ndd.gaussian_blur, ndd.random.uniform, ndd.crop_mirror_normalize, 5, "flip"):
        with pytest.raises(ArgumentError, match=r"one of crop, .*flip.*warp_affine"):
            together(call, image=image)
    with pytest.raises(ArgumentError, match="gaussian_blur"):
        together(ndd.gaussian_blur, image=image)
    wrong = {
        "as the images are": {"image": images, "boxes": boxes},
        "as the image is": {"image": image, "boxes": several},
        "a Batch of 2": {"image": images, "boxes": several[:1]},
        r"of shape \(n, 4\)": {"boxes": boxes[:, :3]},
        r"No boxes are numpy.zeros\(\(0, 4\)\)": {"boxes": [], "labels": []},
        r"No points are numpy.zeros\(\(0, 2\)\)": {"points": []},
        "left <= right": {"boxes": boxes[:, ::-1]},
        "finite": {"boxes": boxes * np.nan},
        "0 to 1": {"boxes": boxes, "normalized": True},
        "one for each of the 1 boxes": {"boxes": boxes, "labels": [1, 2]},
        "given with boxes": {"labels": [1]},
        "bbox_layout": {"boxes": boxes, "bbox_layout": "cxcywh"},
        "min_visible": {"boxes": boxes, "min_visible": 2},
        "height and width": {"masks": np.zeros((20, 31), np.uint8)},
        r"of shape \(n, 2\)": {"points": boxes},
        "angle": {"angle": 3},
        "batch_size": {"batch_size": 3},
    }
    for text, arguments in wrong.items():
        with pytest.raises(ArgumentError, match=text):
            together(ndd.flip, **{"image": image, **arguments})
    with pytest.raises(ArgumentError, match="inverse"):
        together(ndd.warp_affine, image=image, boxes=boxes, matrix=[[1, 0, 0], [1, 0, 0]])
    none = together(ndd.flip, image=image, boxes=np.zeros((0, 4)), points=np.zeros((0, 2)), labels=[])
    assert [none[name].shape for name in ("boxes", "points", "labels", "kept")] == [(0, 4), (0, 2), (0,), (0,)]
    with pytest.raises(ArgumentError, match="images or videos"):
        together(ndd.flip, image=ndd.as_tensor(np.zeros((4, 4, 4)), layout="DHW"))
    with pytest.warns(ndd.ScaleWarning, match="normalized"):
        together(ndd.flip, image=image, boxes=boxes / 30)


def test_a_call_that_fails_has_drawn_nothing():
    rng = RNG(5)
    state = rng.get_state()
    with pytest.raises(ArgumentError):
        together(ndd.random_resized_crop, image=np.zeros((9, 9, 3), np.uint8), boxes=[[0, 0, 1, 1, 1]], size=4, rng=rng)
    assert rng.get_state() == state
    together(ndd.random_resized_crop, image=np.zeros((9, 9, 3), np.uint8), boxes=[[0, 0, 9, 1]], size=4, rng=rng)
    once = rng.get_state()
    rng.set_state(state)
    ndd.random_resized_crop(np.zeros((9, 9, 3), np.uint8), size=4, rng=rng)
    assert rng.get_state() == once


def test_in_pipelines_draws_are_those_of_the_samples(tmp_path):
    for i in range(5):
        np.save(tmp_path / f"{i}.npy", np.random.default_rng(i).integers(0, 256, (20, 30, 3), np.uint8))
    boxes = as_batch([np.array([[3, 4, 25, 18]], np.float32)])

    def made(batch_size, call):
        @pipeline_def(batch_size=batch_size, seed=5)
        def moved():
            images = fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy")
            images = as_batch(images, layout="HWC")
            own = as_batch([boxes.samples[0]] * len(images))
            found = fn.together(call, image=images, boxes=own, size=9)
            return found["image"], found["boxes"]

        pipeline = moved()
        runs = [pipeline.run() for _ in range(-(-5 // batch_size))]
        assert b"random_resized_crop" in pipeline.checkpoint()
        return [[sample.tolist() for run in runs for sample in run[k]][:5] for k in range(2)]

    known = made(5, fn.random_resized_crop)
    assert known == made(2, fn.random_resized_crop) == made(3, ndd.random_resized_crop)
    assert len({str(image) for image in known[0]}) == 5


BOX = np.array([[5, 6, 30, 20], [0, 0, 60, 40], [40, 10, 59, 39]], np.float32)
#: Results of torchvision 0.29 for these boxes: the operator, its arguments, the boxes, and the call of torchvision.
KNOWN = {
    "flip": (ndd.flip, {}, [[30, 6, 55, 20], [0, 0, 60, 40], [1, 10, 20, 39]], ("horizontal_flip", {})),
    "upside down": (
        ndd.flip, {"horizontal": 0, "vertical": 1}, [[5, 20, 30, 34], [0, 0, 60, 40], [40, 1, 59, 30]],
        ("vertical_flip", {}),
    ),
    "window": (
        ndd.slice, {"start": (4, 3), "shape": (50, 30)}, [[1, 3, 26, 17], [0, 0, 50, 30], [36, 7, 50, 30]],
        ("crop", {"top": 3, "left": 4, "height": 30, "width": 50}),
    ),
    "canvas": (
        ndd.paste, {"ratio": 2, "fill_value": 0}, [[35, 26, 60, 40], [30, 20, 90, 60], [70, 30, 89, 59]],
        ("pad", {"padding": [30, 20, 30, 20]}),
    ),
    "size": (
        ndd.resize, {"size": (80, 30)}, [[2.5, 12, 15, 40], [0, 0, 30, 80], [20, 20, 29.5, 78]],
        ("resize", {"size": [80, 30]}),
    ),
    "quarter": (
        ndd.rotate, {"angle": 90.0, "fill_value": 0}, [[6, 30, 20, 55], [0, 0, 40, 60], [10, 1, 39, 20]],
        ("rotate", {"angle": 90.0, "expand": True}),
    ),
    "turn": (
        ndd.rotate, {"angle": 30.0, "fill_value": 0, "keep_size": True},
        [[1.34936, 7.87564, 30, 32.5], [0, 0, 60, 40], [33.66025, 0, 60, 31.45448]],
        ("rotate", {"angle": 30.0}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_boxes_and_masks_are_those_of_torchvision(name):
    call, arguments, known, (theirs, given) = KNOWN[name]
    mask = np.random.default_rng(1).integers(0, 9, (40, 60), np.uint8)
    found = together(call, image=np.zeros((40, 60, 3), np.uint8), boxes=BOX, masks=mask, **arguments)
    assert np.allclose(found["boxes"], known, atol=1e-4)
    tv_tensors = pytest.importorskip("torchvision.tv_tensors", reason="torchvision is not installed")
    import torch
    from torchvision.transforms.v2 import functional

    boxes = tv_tensors.BoundingBoxes(torch.tensor(BOX), format="XYXY", canvas_size=(40, 60))
    moved, turned = (getattr(functional, theirs)(x, **given) for x in (boxes, tv_tensors.Mask(torch.tensor(mask))))
    assert np.allclose(found["boxes"], moved.numpy(), atol=1e-4)
    if name != "size":  # where torchvision takes the pixel above and to the left
        assert np.array_equal(found["masks"], turned.numpy())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["flip", "warp_affine", "slice", "resize"])
def test_a_gpu_moves_alike(name):
    generator = np.random.default_rng(1)
    images = as_batch(list(generator.integers(0, 256, (3, 20, 30, 3), np.uint8)), layout="HWC")
    masks = as_batch(list(generator.integers(0, 2, (3, 2, 20, 30), np.uint8)), layout="FHW")
    boxes = as_batch([BOX[:2] / 2] * 3)
    arguments = {
        "flip": {"horizontal": as_batch([1, 0, 1])},
        "warp_affine": {"matrix": [[0.5, 0.1, 3], [0, 0.7, 2]], "fill_value": 0},
        "slice": {"start": (4, 3), "shape": (9, 8)},
        "resize": {"size": (13, 17)},
    }[name]
    known = together(movers[name], image=images, masks=masks, boxes=boxes, labels=as_batch([[1, 2]] * 3), **arguments)
    found = together(
        movers[name], image=images.gpu(), masks=masks.gpu(), boxes=boxes.gpu(), labels=as_batch([[1, 2]] * 3).gpu(),
        **arguments,
    )  # fmt: skip
    for key, batch in known.items():
        assert found[key].device == ("cpu" if key == "kept" else "gpu:0"), key
        differences = [
            np.abs(one.astype(float) - other.astype(float)).max(initial=0)
            for one, other in zip(found[key].cpu().samples, batch.samples, strict=True)
        ]
        assert max(differences) <= (1 if key == "image" else 0), key


def test_names_and_operators_that_are_meant_are_told():
    image, boxes = np.zeros((4, 6, 3), np.uint8), [[0, 0, 1, 1]]
    with pytest.raises(ArgumentError, match=r"together\(\) has no argument 'images'. Did you mean 'image'\?"):
        together(ndd.flip, images=image, boxes=boxes)
    with pytest.raises(ArgumentError, match="'image' must be given; got nothing"):
        together(ndd.flip, boxes=boxes)
    with pytest.raises(ArgumentError, match="Flip and crop with together first, then normalise the image with"):
        together(ndd.crop_mirror_normalize, image=image, boxes=boxes)
