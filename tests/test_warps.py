"""Warps and maps of images, and points: in plain NumPy, and as DALI does them."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays, read_only

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor, coord_flip, coord_transform, rotate, warp_affine
from dynamic.experimental import remap, warp_perspective
from dynamic.kernels.cpu import maps, warp

BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")
SHIFT = ((1.0, 0.0, 1.0), (0.0, 1.0, 0.0))
any_dtype = st.sampled_from(ALL_DTYPES)
numbers = st.floats(-3, 3, width=16)


def noise(shape, dtype, seed=0) -> np.ndarray:
    """Values from 0 to 200, which every type holds, read-only; of bools and int8 fewer."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return read_only(generator.random(shape) < 0.5)
    return read_only((generator.random(shape) * (120 if dtype == np.int8 else 200)).astype(dtype))


def by_hand(image, x, y, fill, border, interpolation) -> np.ndarray:
    """What is at points of an image, (x, y) from the centre of the first pixel, in float64, tap by tap."""
    taps, weigh = {
        "nn": ([0], lambda t: [1.0 + 0 * t]),
        "linear": ([0, 1], lambda t: [1 - t, t]),
        "cubic": ([-1, 0, 1, 2], lambda t: [_cubic(1 + t), _cubic(t), _cubic(1 - t), _cubic(2 - t)]),
    }[interpolation]
    shift = 0.5 if interpolation == "nn" else 0.0
    left, top = np.floor(x + shift).astype(int), np.floor(y + shift).astype(int)
    across, down = weigh(x + shift - left), weigh(y + shift - top)
    result = 0.0
    for (i, dy), (j, dx) in itertools.product(zip(taps, down, strict=True), zip(taps, across, strict=True)):
        rows, above = _inside(top + i, image.shape[0], border)
        columns, beside = _inside(left + j, image.shape[1], border)
        tap = image[rows, columns].astype(np.float64)
        if border == "constant":
            tap[above | beside] = fill
        result = result + tap * (dy * dx)[..., None]
    return result


def _cubic(d):
    a = -0.75
    return np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)


def _inside(index, extent, border):
    outside = (index < 0) | (index >= extent)
    if border == "wrap":
        return index % extent, outside
    if border.startswith("reflect"):
        edge = int(border == "reflect_101")
        period = max(1, 2 * (extent - edge))
        index = index % period
        return np.where(index < extent, index, period - 1 + edge - index) % extent, outside
    return np.clip(index, 0, extent - 1), outside


def points(matrix, size):
    """The points that a perspective finds for the pixels of a result, from the centre of the first pixel."""
    y, x = np.indices(size) + 0.5
    u, v, w = np.tensordot(matrix, np.stack([x, y, np.ones(size)]), 1)
    return u / w - 0.5, v / w - 0.5


def close(found, expected, dtype, edges=None, level=0.0) -> bool:
    """Whether values are those of float64, rounded and saturated to a dtype."""
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype) if np.dtype(dtype).kind != "b" else np.iinfo("uint8")
        expected = np.clip(expected, info.min, info.max)
        level += 0.502
    tolerance = level + (0.2 if dtype == np.float16 else 2e-2 if dtype == np.float32 else 1e-9)
    good = np.abs(found.astype(np.float64) - expected).max(axis=-1) <= tolerance
    return bool((good if edges is None else good | edges).all())


# -- warp_affine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.int32(-(2**31)), np.uint32(2**32 - 1), np.int64(2**62 + 1), np.int64(-(2**63)),
                                   np.uint64(2**64 - 1), np.float64(0.1), np.float64(-1e300)], ids=repr)  # fmt: skip
def test_a_constant_stays_that_constant(value):
    image, matrix = np.broadcast_to(value, (13, 16, 3)), [[1.1, 0.2, 0.25], [-0.2, 0.9, 0.5]]
    laid = as_tensor(image, layout="HWC")
    found = [
        rotate(laid, angle=30.0),
        rotate(as_tensor(image[..., None], layout="DHWC"), angle=30.0, axis=(1.0, 2.0, 3.0)),
        warp_affine(laid, matrix=matrix),
        warp_perspective(laid, matrix=[*matrix, [0.001, 0.002, 1.0]], border_mode="replicate"),
        *(warp_perspective(laid, matrix=[*matrix, [0.001, 0.002, 1.0]], border_mode="wrap", interp_type=name)
          for name in ("linear", "cubic")),
    ]  # fmt: skip
    for result in found:
        assert (result.array == value).all()


@st.composite
def affine_warps(draw):
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)))
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    matrix = np.array(draw(st.lists(numbers, min_size=6, max_size=6))).reshape(2, 3) * [1, 1, 4]
    return shape, size, matrix, draw(st.none() | st.integers(0, 100))


@given(affine_warps(), any_dtype, st.sampled_from(["nn", "linear"]))
def test_an_affine_warp_is_that_of_numpy(case, dtype, interp_type):
    shape, size, matrix, fill = case
    image = noise(shape, dtype)
    found = warp_affine(image, matrix, size=size, fill_value=fill, interp_type=interp_type).array
    x, y = points(np.concatenate([matrix, [[0, 0, 1]]]), size)
    filled = fill if dtype.kind != "b" or fill is None else fill > 0
    expected = by_hand(image, x, y, filled, "replicate" if fill is None else "constant", interp_type)
    edges = (np.abs(np.stack([x, y]) - np.round(np.stack([x, y]) + 0.5) + 0.5) < 1e-6).any(axis=0)
    if dtype.kind == "b":
        assert (np.abs(found - expected).max(axis=-1) < 0.5001).all() or edges.any()
        return
    assert close(found, expected, dtype, edges if interp_type == "nn" else None)


@given(st.integers(0, 3), st.lists(numbers, min_size=6, max_size=6), st.booleans())
def test_a_matrix_may_be_given_in_many_forms(seed, flat, inverse_map):
    image = noise((5, 6, 3), "uint8", seed)
    if abs(flat[0] * flat[4] - flat[1] * flat[3]) < 1e-3:
        flat = [1, 0, 2, 0, 1, 3]
    nested = [flat[:3], flat[3:]]
    square = [*nested, [0, 0, 1]]
    forms = [flat, tuple(flat), nested, np.array(nested, np.float32), np.array(nested), as_tensor(nested), square,
             np.array(square).ravel().tolist(), as_tensor(np.array(nested, ">f8"))]  # fmt: skip
    first = warp_affine(image, matrix=flat, inverse_map=inverse_map).array
    for form in forms:
        assert np.array_equal(warp_affine(image, matrix=form, inverse_map=inverse_map).array, first)
        assert np.array_equal(warp_affine(image, form, inverse_map=inverse_map).array, first)
    batch = as_batch([image, image])
    for several in (as_batch([nested, nested]), as_batch([flat, flat]), as_batch([square, square])):
        for call in (lambda m: warp_affine(batch, m), lambda m: warp_affine(image, matrix=m)):
            assert all(np.array_equal(s, warp_affine(image, flat).array) for s in call(several).samples)


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)), size=st.tuples(*[st.integers(1, 12)] * 2),
    shift=st.tuples(*[st.integers(-15, 15) | st.sampled_from([-(2**40), 2**40])] * 2), dtype=any_dtype, to=any_dtype,
    fill=st.none() | st.integers(0, 1) | st.just(300), part=st.sampled_from([0.0, 0.25, 0.4999]),
)  # fmt: skip
def test_a_shift_by_whole_pixels_copies_them(shape, size, shift, dtype, to, fill, part):
    image = noise(shape, dtype)
    laid = as_tensor(image, layout="HWC")
    rows, columns = (np.arange(n) + by for n, by in zip(size, shift[::-1], strict=True))
    inside = ((rows >= 0) & (rows < shape[0]))[:, None] & ((columns >= 0) & (columns < shape[1]))
    expected = image[np.clip(rows, 0, shape[0] - 1)][:, np.clip(columns, 0, shape[1] - 1)]
    if fill is not None:
        outside = ndd.cast(np.full((1, 1, shape[2]), fill), dtype=dtype).array
        expected = np.where(inside[..., None], expected, outside)
    matrix = [[1, 0, shift[0] + part], [0, 1, shift[1] + part]]
    found = warp_affine(laid, matrix, size=size, fill_value=fill, interp_type="nn", dtype=to).array
    np.testing.assert_array_equal(found, ndd.cast(expected, dtype=to).array)
    if not part:
        found = warp_affine(laid, matrix, size=size, fill_value=fill, dtype=to).array
        np.testing.assert_array_equal(found, ndd.cast(expected, dtype=to).array)


def test_a_warp_and_its_inverse_are_one_another():
    image = noise((20, 30, 1), "float32")
    matrix = [[0.9, 0.2, -1.0], [-0.1, 1.1, 2.0]]
    inverse = np.linalg.inv([*matrix, [0, 0, 1]])
    a = warp_affine(image, matrix, fill_value=5).array
    np.testing.assert_allclose(warp_affine(image, inverse, fill_value=5, inverse_map=False).array, a, atol=1e-3)
    with pytest.raises(ArgumentError, match="'matrix' must be one that has an inverse"):
        warp_affine(image, [1, 2, 0, 2, 4, 0], inverse_map=False)


def test_frames_may_have_matrices_of_their_own():
    video = noise((2, 4, 5, 3), "uint8")
    matrices = np.array([SHIFT, ((1, 0, 0), (0, 1, 1))], np.float32)
    warped = warp_affine(as_tensor(video, layout="FHWC"), matrices).array
    assert np.array_equal(warped[0], warp_affine(video[0], SHIFT).array)
    assert np.array_equal(warped[1], warp_affine(video[1], matrices[1]).array)
    both = warp_perspective(as_tensor(video, layout="FHWC"), np.stack([np.eye(3)] * 2)).array
    assert np.array_equal(both, video)


def test_a_volume_is_moved_along_x_y_and_z():
    volume = np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)
    for axis, row in ((2, 0), (1, 1), (0, 2)):
        matrix = np.eye(3, 4)
        matrix[row, 3] = 1
        moved = warp_affine(as_tensor(volume, layout="DHW"), matrix, fill_value=-1).array
        expected = np.full_like(volume, -1)
        np.moveaxis(expected, axis, 0)[:-1] = np.moveaxis(volume, axis, 0)[1:]
        assert np.array_equal(moved, expected)
    assert warp_affine(as_tensor(volume, layout="DHW"), np.eye(3, 4), size=(1, 2, 5.9)).shape == (1, 2, 5)


def test_channels_first_and_last_are_alike():
    image = noise((6, 7, 3), "uint8")
    matrix = [[0.8, 0.3, 1.0], [-0.2, 1.0, 0.5]]
    last = warp_affine(image, matrix, fill_value=(1, 2, 300), size=(4, 9)).array
    first = warp_affine(as_tensor(image.transpose(2, 0, 1), layout="CHW"), matrix, fill_value=(1, 2, 300), size=(4, 9))
    assert np.array_equal(first.array.transpose(1, 2, 0), last)
    gray = warp_affine(image[..., 1], matrix, fill_value=2, size=(4, 9)).array
    assert np.array_equal(gray, last[..., 1])


@given(st.lists(st.sampled_from([1, 3, 4]), min_size=2, max_size=5), st.none() | st.integers(0, 255))
def test_each_image_of_a_batch_is_what_it_is_alone(channels, fill):
    """Also where images differ in size and in the number of channels, and each has a matrix of its own."""
    images = [noise((9 + i, 12, count), np.uint8, i) for i, count in enumerate(channels)]
    matrices = [np.array([[1.0, 0.1 * i, 2.0], [0.2, 0.9, -i]]) for i in range(len(images))]
    batch = as_batch(images, layout="HWC")
    found = warp_affine(batch, matrix=as_batch(matrices), fill_value=fill)
    turned = rotate(batch, angle=30.0, fill_value=fill)
    for i, (image, matrix) in enumerate(zip(images, matrices, strict=True)):
        np.testing.assert_array_equal(found.samples[i], warp_affine(image, matrix=matrix, fill_value=fill).array)
        np.testing.assert_array_equal(turned.samples[i], rotate(image, angle=30.0, fill_value=fill).array)


def test_large_images_are_warped_in_tiles_without_seams():
    image = noise((700, 1300, 1), "uint8")
    matrix = [[1.0, 0.001, 0.25], [-0.002, 1.0, 0.5]]
    for interp_type in ("linear", "nn"):
        found = warp_affine(image, matrix, interp_type=interp_type).array
        x, y = points(np.array([*matrix, [0, 0, 1]]), (700, 1300))
        expected = by_hand(image, x, y, None, "replicate", interp_type)
        differences = np.abs(found - np.floor(expected + 0.5))
        assert differences.max() <= 1
        assert (differences > 0).mean() < 1e-3


@given(
    extents=st.tuples(*[st.integers(1, 40)] * 2), size=st.tuples(*[st.integers(1, 40)] * 2),
    channels=st.integers(1, 5), kind=st.sampled_from(["uint8", "uint16", "int8", "float32"]), seed=st.integers(0, 99),
    turn=st.sampled_from([[[0.9, 0.2, 3.3], [-0.3, 1.1, -1.7]], [[-0.5, 1.3, 9.1], [0.7, 0.1, 2.2]]]),
)  # fmt: skip
def test_images_are_warped_in_strips_and_tiles_without_seams(extents, size, channels, kind, seed, turn):
    image = np.random.default_rng(seed).integers(0, 120, (*extents, channels)).astype(kind)
    x, y = points(np.array([*turn, [0, 0, 1]]), size)
    calls = [
        lambda: warp_affine(image, turn, size=size, fill_value=5),
        lambda: warp_affine(image, turn, size=size),
        lambda: warp_perspective(image, [*turn, [0.001, 0.002, 1]], size=size, fill_value=5),
        lambda: remap(image, x.astype(np.float32), y.astype(np.float32)),
    ]
    whole = [call().array for call in calls]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warp, "_STRIP", 64)
        patch.setattr(warp, "_TILE", (3, 5))
        patch.setattr(warp, "_POINTS", (2, 7))
        patch.setattr(warp, "_MOST_WIDENED", 10**6)
        for call, expected in zip(calls, whole, strict=True):
            np.testing.assert_allclose(call().array, expected, atol=0.01 if kind == "float32" else 1)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_empty_images_and_results(dtype):
    empty = np.empty((0, 4, 3), dtype)
    assert (warp_affine(empty, SHIFT, size=(2, 2), fill_value=9).array == 9).all()
    assert warp_affine(noise((4, 4, 3), dtype), SHIFT, size=(0, 5)).shape == (0, 5, 3)
    assert (warp_perspective(empty, np.eye(3), size=(2, 2), fill_value=9).array == 9).all()
    for border in BORDERS[1:]:
        assert (warp_perspective(empty, np.eye(3), size=(2, 2), border_mode=border).array == 0).all()
    assert warp_perspective(noise((4, 4, 3), dtype), np.eye(3), size=(0, 5)).shape == (0, 5, 3)
    assert (remap(empty, np.zeros((2, 3)), np.zeros((2, 3))).array == 0).all()
    assert remap(noise((4, 4, 3), dtype), np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3, 3)


@pytest.mark.parametrize(("arguments", "told"), [
    ({}, "'matrix' must be given"), ({"matrix": [1, 2]}, "'matrix' must be 2 rows of 3 numbers, or 3 rows"),
    ({"matrix": np.eye(3) * 2}, "'matrix' must be affine"), ({"matrix": np.eye(3, 4)}, "'matrix' must be 2 rows"),
    ({"matrix": [np.inf] * 6}, "'matrix' must be .*finite"), ({"matrix": SHIFT, "size": (1,) * 3}, "'size' must be 2"),
    ({"matrix": SHIFT, "fill_value": (1, 2)}, "'fill_value' must be one value or 3"),
    ({"matrix": SHIFT, "interp_type": "cubic"}, "'interp_type'"), ({"matrix": [SHIFT] * 2}, "'matrix' must be 2 rows"),
    ({"matrix": "SHIFT"}, "'matrix'"), ({"matrix": as_batch([SHIFT, ((np.nan,) * 3,) * 2])}, r"'matrix\[1\]' must be"),
])  # fmt: skip
def test_wrong_arguments_of_warps_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        warp_affine(noise((4, 5, 3), "uint8"), **arguments)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int64"])
def test_matrices_beyond_float32_are_refused_by_name(dtype):
    image = as_tensor(noise((4, 5, 1), dtype), layout="HWC")
    for number in (1e39, -1e308):
        for inverse in (False, True):
            with pytest.raises(
                ArgumentError, match=r"warp_affine\(\): argument 'matrix' must be finite numbers in the range"
            ):
                warp_affine(image, matrix=(number, 1, number, -number, 1, 0), inverse_map=inverse)
            with pytest.raises(ArgumentError, match=r"warp_perspective\(\): argument 'matrix' must be finite numbers"):
                warp_perspective(image, matrix=((1, 0, 0), (0, 1, 0), (0, number, 1)), inverse_map=inverse)
    with pytest.raises(ArgumentError, match="'matrix' must be one that has an inverse"):
        warp_affine(image, matrix=(1e-308, 0, 0, 0, 1e-308, 0), inverse_map=False)
    for interp_type in ("nn", "linear"):
        far = warp_affine(image, matrix=(3e38, -3e38, 3e38, 3e38, 3e38, -3e38), interp_type=interp_type, fill_value=7)
        assert set(far.array.ravel().tolist()) <= {7, *image.array.ravel().tolist()}
        warp_perspective(image, matrix=((3e38, -3e38, 0), (0, 3e38, 0), (1, 3e38, 3e38)), interp_type=interp_type)


def test_two_matrices_are_refused():
    with pytest.raises(ArgumentError, match="'matrix' must be left out"):
        warp_affine(noise((4, 5, 3), "uint8"), SHIFT, matrix=SHIFT)
    with pytest.raises(ArgumentError, match="'matrix' must be finite"):
        warp_affine(noise((4, 5, 3), "uint8"), np.full((2, 3), np.nan))


# -- perspectives and maps ----------------------------------------------------------------------------------------


@st.composite
def perspectives(draw):
    """A matrix whose points are in front of the eye, an image, and a size."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)))
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    matrix = np.array(draw(st.lists(numbers, min_size=9, max_size=9))).reshape(3, 3) * [1, 1, 4]
    matrix[2] = [matrix[2, 0] / 64, matrix[2, 1] / 64, 1 + abs(matrix[2, 2])]
    return shape, size, matrix


@pytest.mark.parametrize("interp_type", ["nn", "linear", "cubic"])
@pytest.mark.parametrize("border", BORDERS)
def test_what_is_far_outside_of_an_image_is_that_of_numpy(border, interp_type):
    """In steps of an eighth of a pixel, which OpenCV has weights for, and never half way."""
    image, size = noise((20, 33, 3), np.uint8), (90, 120)
    for scale, shift in ((2.25, -100.25), (1.0, -30.25), (5.25, -300.25), (1.0, 0.25)):
        matrix = np.array([[scale, 0, shift], [0, scale, shift], [0, 0, 1]])
        x, y = points(matrix, size)
        found = warp_perspective(image, matrix, size=size, border_mode=border, interp_type=interp_type).array
        assert close(found, by_hand(image, x, y, 0, border, interp_type), np.uint8)


@given(perspectives(), any_dtype, st.sampled_from(BORDERS), st.sampled_from(["nn", "linear", "cubic"]))
def test_a_perspective_is_that_of_numpy(case, dtype, border, interp_type):
    shape, size, matrix = case
    image = noise(shape, dtype)
    found = warp_perspective(
        as_tensor(image, layout="HWC"), matrix, size=size, border_mode=border, fill_value=1, interp_type=interp_type
    ).array
    assert found.shape == (*size, shape[2])
    assert found.dtype == dtype
    x, y = points(matrix, size)
    expected = by_hand(image, x, y, 1, border, interp_type)
    edges = (np.abs(np.stack([x, y]) - np.round(np.stack([x, y]) + 0.5) + 0.5) < 1e-3).any(axis=0)
    if dtype.kind == "b":
        assert found.dtype == bool
    elif interp_type == "cubic":  # OpenCV has its weights in steps of 1/32 pixel
        assert close(found, expected, dtype, level=20.0)
    else:
        assert close(found, expected, dtype, edges if interp_type == "nn" else None)


@given(perspectives(), st.sampled_from(["uint8", "float64"]), st.sampled_from(["corner", "center"]), st.booleans())
def test_origins_and_inverses(case, dtype, origin, inverse):
    shape, size, matrix = case
    image = noise(shape, dtype)
    if abs(np.linalg.det(matrix)) < 0.1:
        matrix = np.eye(3)
    shift = maps.moved(0.5) if origin == "center" else np.eye(3)
    plain = warp_perspective(
        as_tensor(image, layout="HWC"), shift @ matrix @ np.linalg.inv(shift), size=size
    ).array.astype(float)
    given_ = np.linalg.inv(matrix) if inverse else matrix
    found = warp_perspective(
        as_tensor(image, layout="HWC"), given_, size=size, inverse_map=not inverse, pixel_origin=origin
    ).array
    assert np.abs(found - plain).max() <= (1 if dtype == "uint8" else 1e-3)


@pytest.mark.parametrize("border", BORDERS)
def test_a_perspective_has_many_matrices(border):
    """Those that are one times a number; OpenCV's float32 does not hold what it computes of large ones."""
    image, matrix = noise((9, 9, 1), "uint8"), np.array([[1.9, -1.5, 0.0], [2.5, -0.7, 2.6], [0.8, 1.0, 2.3]])
    for kind in ("nn", "linear", "cubic"):
        read = functools.partial(warp_perspective, image, border_mode=border, interp_type=kind)
        for exponent in (-120, 120, 126):
            assert np.array_equal(read(matrix=np.ldexp(matrix, exponent)).array, read(matrix=matrix).array)


def test_a_flat_perspective_is_an_affine_warp():
    image = noise((30, 40, 3), "uint8")
    matrix = [[0.9, 0.1, 2.0], [-0.05, 1.1, -3.0]]
    for form in (matrix, [*matrix, [0, 0, 1]], [[4 * v for v in row] for row in [*matrix, [0, 0, 1]]]):
        found = warp_perspective(image, form).array.astype(int)
        assert np.abs(found - warp_affine(image, matrix, fill_value=0).array).max() <= 1


def test_points_on_and_beyond_the_horizon():
    image = noise((6, 6, 1), "float32")
    vanishing = [[1, 0, 0], [0, 1, 0], [0.25, 0, -0.625]]  # w is 0 where x is 2.5
    for border in BORDERS:
        for interp_type in ("nn", "linear", "cubic"):
            found = warp_perspective(image, vanishing, border_mode=border, interp_type=interp_type).array
            assert np.isfinite(found).all()
            far = warp_perspective(image, [[1, 0, 1e12], [0, 1, -1e12], [0, 0, 1]], border_mode=border).array
            assert np.isfinite(far).all()
            if border == "constant":
                assert (far == 0).all()
                assert (found[:, 2] == 0).all()
            if border == "replicate":
                assert (far == image[0, -1]).all()
    with pytest.raises(ArgumentError, match="inverse"):
        warp_perspective(image, np.zeros((3, 3)), inverse_map=False)


@given(st.data(), any_dtype, st.sampled_from(["nn", "linear", "cubic"]), st.sampled_from(["corner", "center"]))
def test_maps_name_the_points_to_read(data, dtype, interp, origin):
    size = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    image = noise((5, 7, data.draw(st.integers(1, 5))), dtype)
    x, y = (data.draw(arrays(kind, size)) / 100 for kind in ("float32", "float64"))
    found = remap(image, x, y, interp=interp, pixel_origin=origin).array
    shift = 0.5 if origin == "corner" else 0.0
    x, y = x.astype(np.float64) - shift, y.astype(np.float64) - shift
    expected = by_hand(image, x, y, 0, "constant", interp)
    edges = (np.abs(np.stack([x, y]) - np.round(np.stack([x, y]) + 0.5) + 0.5) < 1e-6).any(axis=0)
    if dtype.kind != "b":
        assert close(found, expected, dtype, edges if interp == "nn" else None, 20.0 if interp == "cubic" else 0.0)


def test_maps_are_for_all_frames_or_for_each():
    video = as_tensor(noise((2, 3, 4, 1), "uint8"), layout="FHWC")
    y, x = (np.indices((3, 4)) + 0.5).astype(np.float32)
    assert np.array_equal(remap(video, x, y).array, video.array)
    each = remap(video, np.stack([x, x + 1]), np.stack([y, y])[..., None]).array
    assert np.array_equal(each[0], video.array[0])
    assert np.array_equal(each[1, :, :3], video.array[1, :, 1:])
    planes = as_tensor(video.array.transpose(0, 3, 1, 2), layout="FCHW")
    assert np.array_equal(remap(planes, x, y).array, planes.array)
    for wrong in (x[None, None], np.stack([x] * 3), x[0]):
        with pytest.raises(ArgumentError, match="'mapx' must be a number for each pixel"):
            remap(video, wrong, y)
    with pytest.raises(ArgumentError, match="'mapy' must be of the shape of mapx"):
        remap(video, x, y[:2])


@pytest.mark.parametrize("interpolation", ["nn", "linear", "cubic"])
def test_images_beyond_the_limits_of_opencv_and_within_are_alike(interpolation, monkeypatch):
    image = noise((40, 50, 3), "uint8")
    matrix = np.array([[0.9, 0.1, 0.3], [-0.1, 1.0, 0.7], [1e-4, -1e-4, 1.0]])
    for border in BORDERS:
        fast, exact = np.empty((2, 60, 70, 3), np.uint8)
        maps.perspective(image, matrix, fast, fill=3, border=border, interpolation=interpolation)
        with monkeypatch.context() as patch:
            patch.setattr(warp, "OPENCV_LIMIT", 0)
            maps.perspective(image, matrix, exact, fill=3, border=border, interpolation=interpolation)
        differences = np.abs(fast.astype(int) - exact).max(axis=-1)
        assert (differences > (12 if interpolation == "cubic" else 1)).mean() <= (1e-3 if interpolation == "nn" else 0)


READERS = [
    ("rotate", 1, lambda image: rotate(image, angle=30.0, keep_size=True)),
    ("warp_affine", 1, lambda image: warp_affine(image, matrix=(1, 0.001, 0.5, 0, 1, 0.5))),
    ("linear", 1, lambda image: warp_perspective(image, ((1, 0, 0.25), (0, 1, 0.25), (0, 0, 1)))),
    ("cubic", 2, lambda image: warp_perspective(image, ((1, 0, 0.25), (0, 1, 0), (0, 0, 1)), interp_type="cubic")),
    ("water", 1, lambda image: ndd.water(image, interp_type="linear")),
    ("resize", 1, lambda image: ndd.resize(image, size=(7, 9), antialias=False)),
]


@pytest.mark.parametrize(("name", "reach", "read"), READERS, ids=[name for name, *_ in READERS])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float64", (9, 11)), ("float16", (2, 33_000)), ("float32", (2, 33_000)), ("float64", (40, 33_000))],
)
def test_infinities_and_the_largest_numbers_are_read_without_a_word(dtype, shape, name, reach, read):
    middle, most = (shape[0] // 2, shape[1] // 2), np.finfo(dtype).max
    with np.errstate(all="ignore"), ndd.EvalContext(num_threads=3):  # threads know nothing of this state
        plain = read(as_tensor(noise(shape, dtype)[..., None], layout="HWC")).numpy()
    for numbers in ((np.inf,), (np.inf, -np.inf), (most, -most), (np.nan,)):
        image = noise(shape, dtype).copy()
        image[middle[0], middle[1] : middle[1] + len(numbers)] = numbers
        with ndd.EvalContext(num_threads=3):
            found = read(as_tensor(image[..., None], layout="HWC")).numpy()
        changed = np.argwhere((found != plain) | np.isnan(found))
        if name in ("linear", "cubic"):
            assert len(changed)
            assert np.abs(changed[:, :2] - middle).max() <= reach + len(numbers)
        assert len(changed) <= 100


# -- points -------------------------------------------------------------------------------------------------------


@given(arrays(any_dtype, st.tuples(st.integers(0, 4), st.integers(1, 3))), st.tuples(*[st.integers(0, 1)] * 3),
       st.tuples(*[numbers] * 3), st.permutations("xyz"))  # fmt: skip
def test_points_are_mirrored_about_a_centre(array, flips, centers, order):
    layout = "".join(order)[: array.shape[-1]]
    arguments = {f"flip_{c}": f for c, f in zip("xyz", flips, strict=True)}
    arguments |= {f"center_{c}": f for c, f in zip("xyz", centers, strict=True)}
    found = coord_flip(array, layout=layout, **arguments).array
    assert found.dtype == (array.dtype.newbyteorder("=") if array.dtype.kind == "f" else np.float32)
    expected = array.astype(np.float64)
    for i, letter in enumerate(layout):
        if arguments[f"flip_{letter}"]:
            expected[:, i] = 2 * arguments[f"center_{letter}"] - expected[:, i]
    np.testing.assert_allclose(found, expected, rtol=2e-3 if found.itemsize == 2 else 1e-6, atol=1e-2)
    if layout == "xyz"[: len(layout)]:
        assert np.array_equal(coord_flip(array, **arguments).array, found)


@pytest.mark.parametrize(("array", "layout", "told"), [
    (np.zeros((2, 4)), "", "'points'"), (np.float32(1), "", "'points'"), (np.zeros((2, 2)), "xyz", "'layout'"),
    (np.zeros((2, 2)), "xx", "'layout'"), (np.zeros((2, 0)), "", "'points'")])  # fmt: skip
def test_points_that_are_none(array, layout, told):
    with pytest.raises(ArgumentError, match=told):
        coord_flip(array, layout=layout)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_mirrored_points_do_not_depend_on_those_of_other_samples(dtype):
    """And centres that float16 cannot hold are infinite without a warning."""
    large = 60000 if dtype == "float16" else 2**53 + 1
    arrays = [np.array([[3, 2]], dtype), np.array([[large, 1], [0, 5]], dtype)]
    for flags in ([0, 0], [0, 1]):
        for center in (0.5, -1e6):
            found = coord_flip(as_batch(arrays), flip_x=as_batch(flags), center_x=center, center_y=center)
            for array, flag, mirrored in zip(arrays, flags, found, strict=True):
                alone = coord_flip(array, flip_x=flag, center_x=center, center_y=center)
                assert np.array_equal(alone.array, mirrored.array)
                assert np.array_equal(alone.array[:, 0], array[:, 0].astype(alone.array.dtype)) or flag


@given(st.data(), any_dtype, any_dtype, st.integers(1, 6), st.integers(2, 6))
def test_points_are_multiplied_and_moved(data, kind, dtype, columns, rows):
    array = data.draw(arrays(kind, st.tuples(st.integers(0, 3), st.integers(0, 3), st.just(columns))))
    matrix = np.array(data.draw(st.lists(numbers, min_size=rows * columns, max_size=rows * columns)))
    matrix = matrix.reshape(rows, columns)
    vector = np.array(data.draw(st.lists(numbers, min_size=rows, max_size=rows)))
    both = np.column_stack([matrix, vector])
    forms = [
        {"M": matrix, "T": vector}, {"M": matrix.tolist(), "T": vector.tolist()}, {"M": matrix.ravel(), "T": vector},
        {"MT": both}, {"MT": both.ravel().tolist()},
    ]  # fmt: skip
    expected = array.astype(np.float64) @ matrix.T + vector
    found = [coord_transform(array, dtype=dtype.name, **form).array for form in forms]
    assert all(np.array_equal(one, found[0]) for one in found)
    assert found[0].shape == (*array.shape[:-1], rows)
    assert found[0].dtype == dtype
    scale = 1 + np.abs(array.astype(np.float64)).max(initial=0) * np.abs(matrix).sum(axis=1).max()
    if dtype.kind == "f":
        limit = {2: 6e4, 4: 1e38, 8: 1e308}[dtype.itemsize]
        tolerance = {2: 1e-3, 4: 1e-5, 8: 1e-5}[dtype.itemsize] * scale
        assert np.abs(np.clip(found[0].astype(np.float64), -limit, limit) - np.clip(expected, -limit, limit)).max(
            initial=0) <= tolerance  # fmt: skip
    elif dtype.kind != "b":
        info = np.iinfo(dtype)
        assert (
            np.abs(found[0] - np.clip(expected, float(info.min), float(info.max))).max(initial=0) <= 0.5 + 1e-5 * scale
        )


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_points_without_coordinates_become_the_vector(dtype):
    image, batch = np.zeros((7, 9, 0), dtype), as_batch([np.zeros((2, 0), dtype), np.zeros((0, 0), dtype)])
    shifts = np.float32([0.1, 0.9])
    assert (coord_transform(image, MT=[0.1, 0.9]).array == np.broadcast_to(shifts, (7, 9, 2))).all()
    assert (coord_transform(image, M=np.zeros((2, 0)), T=[0.1, 0.9], dtype="uint8").array == [0, 1]).all()
    assert coord_transform(image, M=2.0, T=1.0).shape == (7, 9, 0)
    assert coord_transform(batch, MT=[[0.1], [0.9]]).tolist() == [[shifts.tolist()] * 2, []]


def test_numbers_are_factors_and_are_added_to_all():
    array = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert coord_transform(array).tolist() == array.tolist()
    assert coord_transform(array, M=2, T=1).tolist() == [[3, 5, 7]]
    assert coord_transform(array, MT=2).tolist() == [[2, 4, 6]]
    assert coord_transform(array, T=[1, 2, 3]).tolist() == [[2, 4, 6]]
    assert coord_transform(array, M=[[1, 1, 1]], T=1).tolist() == [[7]]
    assert coord_transform(array[0], M=as_batch([2, 3])).tolist() == [[2, 4, 6], [3, 6, 9]]
    assert coord_transform(np.array([[2**53 + 1]]), dtype="int64").tolist() == [[2**53]]
    assert coord_transform(np.array([[2**24 + 1]]), dtype="int64").tolist() == [[2**24 + 1]]
    image = as_tensor(np.full((2, 2, 3), 100, np.uint8), layout="HWC")
    gray = coord_transform(image, M=[[0.5, 0.25, 0.25]], dtype="uint8")
    assert (gray.layout, gray.shape) == ("HWC", (2, 2, 1))
    assert (gray.array == 100).all()


@pytest.mark.parametrize(("arguments", "told"), [
    ({"M": [1, 2]}, "'M' must be one number, or rows of 3"), ({"MT": np.eye(3)}, "'MT' must be"),
    ({"MT": np.eye(3, 4), "T": 1}, "'MT' must be left out"), ({"MT": 1, "M": 1}, "'MT' must be left out"),
    ({"M": np.eye(3), "T": [1, 2]}, "'T' must be one number or 3"), ({"T": np.nan}, "'T' must be")])  # fmt: skip
def test_wrong_matrices_of_points_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        coord_transform(np.zeros((2, 3)), **arguments)


# -- as DALI does it ----------------------------------------------------------------------------------------------

extents = {"F": st.integers(1, 3), "D": st.integers(1, 4), "H": st.integers(1, 24), "W": st.integers(1, 24)}


def _alike(found, expected, level=1.0, share=1e-4):
    """Whether values are DALI's, but for one level, or for a few that lie on an edge between two pixels."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    difference = np.abs(found.astype(np.float64) - expected)
    allowed = level if found.dtype.kind != "f" else (level - 1) + 1e-4 * np.maximum(100, np.abs(expected))
    assert (difference > allowed).sum() <= max(3, share * found.size)


@given(data=st.data(), dtype=st.sampled_from(["uint8", "uint16", "int16", "float32"]),
       layout=st.sampled_from(["HWC", "FHWC", "CHW", "HW", "FCHW"]))  # fmt: skip
def test_perspectives_are_dalis(dali: Oracle, data, dtype, layout):
    # But for uint8, DALI interpolates in steps of 1/32 pixel: slopes of at most 5 a pixel keep it within a level.
    channels = data.draw(st.sampled_from([1, 3, 4]))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = [channels if c == "C" else data.draw(extents[c]) + 4 * (c != "F") for c in layout]
    places = np.indices(shape)
    image = (20 + 3 * places[layout.index("W")] + 2 * places[layout.index("H")]).astype(dtype)
    if dtype == "uint8" and data.draw(st.booleans()):
        image = noise(shape, dtype)
    deviations = np.array([[0.1, 0.1, 2], [0.1, 0.1, 2], [0.002, 0.002, 0]])
    matrix = (np.eye(3) + generator.normal(0, 1, (3, 3)) * deviations).astype("f4")
    border = data.draw(st.sampled_from(BORDERS))
    arguments = {
        "interp_type": data.draw(st.sampled_from(["nn", "linear"])),
        "pixel_origin": data.draw(st.sampled_from(["corner", "center"])),
        "inverse_map": data.draw(st.booleans()),
        "border_mode": border,
    }
    if data.draw(st.booleans()):
        arguments["fill_value"] = [data.draw(st.floats(0, 100, width=16))]
    if data.draw(st.booleans()):
        arguments["size"] = data.draw(st.lists(st.floats(1, 9, width=16), min_size=2, max_size=2))
    expected = dali.call("experimental.warp_perspective", [Laid(image, layout)], matrix=matrix, **arguments)
    found = warp_perspective(as_tensor(image, layout=layout), matrix=matrix, **arguments)
    assert found.layout == expected.layout
    steps = 1.0 if dtype == "uint8" or border not in {"constant", "wrap"} else 5.0  # at an edge slopes are steeper
    _alike(found.array, expected.array, level=1.0 + steps * (dtype != "uint8"))


def test_a_sphere_keeps_its_centre_and_its_poles():
    image = noise((9, 9, 3), "uint8")
    found = ndd.sphere(image).array
    assert np.array_equal(found[4, [0, 4, 8]], image[4, [0, 4, 8]])
    assert np.array_equal(found[[0, 8], 4], image[[0, 8], 4])
    assert np.array_equal(found[4, 6], image[4, 5])  # half a radius from the centre it reads at a quarter
    assert (found[0, 0] == 0).all()
    assert np.array_equal(ndd.sphere(image, mask=0).array, image)
    assert np.array_equal(ndd.sphere(as_tensor(image.transpose(2, 0, 1), layout="CHW")).array, found.transpose(2, 0, 1))


def test_waves_move_rows_and_columns():
    image = noise((8, 9, 1), "float32")
    still = ndd.water(image, ampl_x=0, ampl_y=0).array
    assert np.array_equal(still, image)
    moved = ndd.water(image, ampl_x=2, freq_x=0, phase_x=np.pi / 2, ampl_y=0, fill_value=-1).array
    assert np.array_equal(moved[:, :7], image[:, 2:])
    assert (moved[:, 7:] == -1).all()
    moved = ndd.water(image, ampl_x=0, ampl_y=1, freq_y=np.pi, phase_y=1, interp_type="linear").array
    step = np.cos(1.0)  # up and down by turns; half a pixel is missing
    place = 3 + step - 0.5
    row = int(np.floor(place))
    assert moved[3, 4, 0] == pytest.approx(_between(image[:, :, 0], row, place - row, 4), rel=1e-4)
    assert np.array_equal(ndd.water(image, mask=0).array, image)


def _between(image, row, part, column):
    """What is half a pixel before a column, and between two rows."""
    rows = image[row] * (1 - part) + image[row + 1] * part
    return (rows[column] + rows[column - 1]) / 2


def test_names():
    assert ndd.experimental.warp_perspective is warp_perspective
    assert ndd.experimental.remap is remap


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("interpolation", ["nn", "linear", "cubic"])
@pytest.mark.parametrize("border", ["reflect", "reflect_101", "wrap", "replicate"])
def test_a_row_of_pixels_is_reflected_in_the_end(shape, interpolation, border):
    """OpenCV never comes back from a cubic read of one that is reflected about its only pixel."""
    image = np.full(shape, 7, np.uint8)
    matrix = [[1.1, 0.02, 0.1], [0.01, 0.9, -0.2], [0.01, 0.002, 1]]
    arguments = {"matrix": matrix, "size": [5.0, 7.0], "border_mode": border, "interp_type": interpolation}
    assert (warp_perspective(image, **arguments).numpy() == 7).all()


@pytest.mark.parametrize("fill", [None, -1])
@pytest.mark.parametrize("kind", ["nn", "linear"])
@pytest.mark.parametrize("axis", [0, 1])
def test_whole_pixels_may_be_many(fill, kind, axis):
    image = np.arange(70000, dtype=np.int32).reshape((70000, 1, 1) if axis == 0 else (1, 70000, 1))
    for shift in (40000, -80000, 32000, -32001, 10**12, -(10**38)):
        matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        matrix[1 - axis][2] = float(shift)
        found = warp_affine(image, matrix=matrix, fill_value=fill, interp_type=kind).numpy().reshape(-1)
        places = np.arange(70000) + max(min(shift, 10**6), -(10**6))
        expected = image.reshape(-1)[places.clip(0, 69999)]
        if fill is not None:
            expected = np.where((places >= 0) & (places < 70000), expected, fill)
        assert np.array_equal(found, expected), shift
