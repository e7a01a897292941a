"""rotate and flip, and the kernels under them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES, arrays, read_only

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor, flip, rotate
from dynamic.kernels.cpu import rotations, warp

IMAGE_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")
VOLUME_LAYOUTS = ("DHW", "DHWC", "CDHW", "FDHW", "FDHWC", "FCDHW")
EXTENTS = {"F": (1, 3), "D": (1, 5), "H": (1, 12), "W": (1, 12), "C": (1, 6)}
#: What OpenCV computes, in float32; the others are exact.
FAST = [np.dtype(t) for t in ("bool", "uint8", "int8", "uint16", "int16", "float16", "float32")]

angles = st.floats(-400, 400, width=32)
any_dtype = st.sampled_from(ALL_DTYPES)


def shapes(layout: str) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(*EXTENTS[letter]) for letter in layout))


@st.composite
def laid_out(draw, layouts=IMAGE_LAYOUTS, dtype=any_dtype):
    """An array with its layout."""
    layout = draw(st.sampled_from(layouts))
    return draw(arrays(dtype, shapes(layout))), layout


def noise(shape, dtype, seed=0) -> np.ndarray:
    """Values over the whole range of a type (of floats: from -1 to 1), read-only."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return read_only(generator.random(shape) < 0.5)
    if dtype.kind == "f":
        return read_only((generator.random(shape) * 2 - 1).astype(dtype))
    info = np.iinfo(dtype)
    return read_only(generator.integers(info.min, info.max, shape, dtype, endpoint=True))


def spread(dtype) -> float:
    """How far values of `noise` are apart."""
    return {"b": 1.0, "f": 2.0}.get(dtype.kind) or float(np.iinfo(dtype).max) - float(np.iinfo(dtype).min)


def by_hand(image, matrix, shape, fill, nearest) -> np.ndarray:
    """What `warp.affine` finds, in float64, pixel by pixel, in plain Python."""
    result = np.empty((*shape, image.shape[-1]))

    def read(place):
        inside = all(0 <= p < extent for p, extent in zip(place, image.shape, strict=False))
        if not inside and fill is not None:
            return np.broadcast_to(np.float64(fill), image.shape[-1])
        clamped = tuple(min(max(p, 0), extent - 1) for p, extent in zip(place, image.shape, strict=False))
        return image[clamped].astype(np.float64)

    for place in itertools.product(*map(range, shape)):
        centre = np.array([p + 0.5 for p in reversed(place)] + [1.0])
        point = (matrix @ centre)[::-1]
        if nearest:
            result[place] = read([math.floor(p) for p in point])
            continue
        corner = [math.floor(p - 0.5) for p in point]
        total = 0.0
        for steps in itertools.product((0, 1), repeat=len(point)):
            parts = [p - 0.5 - c if s else 1 - (p - 0.5 - c) for p, c, s in zip(point, corner, steps, strict=True)]
            total = total + math.prod(parts) * read([c + s for c, s in zip(corner, steps, strict=True)])
        result[place] = total
    return result


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 2000), angles | st.sampled_from([0.0, 90.0, -180.0])),
                min_size=1, max_size=5))  # fmt: skip
def test_the_matrices_of_many_rotations_are_those_of_each(cases):
    """A GPU is given the matrices of a whole batch, the CPU one after the other."""
    sizes = [(height, width) for height, width, _ in cases]
    outputs = [rotations.canvas((height, width), angle) for height, width, angle in cases]
    found = rotations.rotations(sizes, outputs, [angle for *_, angle in cases])
    each = map(rotations.rotation, sizes, outputs, [angle for *_, angle in cases])
    np.testing.assert_allclose(found, list(each), rtol=1e-14, atol=1e-11)


# -- the canvas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "angle", "expected"), [
    ((100, 200), 30, (188, 224)), ((100, 200), 45, (214, 214)), ((100, 200), 90, (200, 100)),
    ((101, 200), 30, (189, 224)), ((101, 200), 60, (224, 189)), ((480, 640), 10, (584, 714)),
    ((224, 224), 15, (276, 276)), ((4, 4), 45, (6, 6)), ((1, 1), 33, (3, 3)), ((0, 5), 0, (0, 5)),
])  # fmt: skip
def test_known_canvases(size, angle, expected):
    assert rotations.canvas(size, angle) == expected


@given(st.tuples(st.integers(0, 500), st.integers(0, 500)), angles)
def test_a_canvas_holds_the_corners_and_keeps_the_centre(size, angle):
    height, width = rotations.canvas(size, angle)
    radians = math.radians(angle)
    cos, sin = abs(math.cos(radians)), abs(math.sin(radians))
    for extent, needed in ((height, cos * size[0] + sin * size[1]), (width, cos * size[1] + sin * size[0])):
        assert -0.02 <= extent - needed <= 2
    if abs(cos - sin) > 1e-3:
        same = size if sin < cos else size[::-1]
        assert (height - same[0]) % 2 == (width - same[1]) % 2 == 0


@given(st.tuples(*[st.integers(1, 40)] * 3), angles, st.sampled_from(["x", "y", "z"]))
def test_a_volume_turns_in_the_plane_across_its_axis(size, angle, name):
    index = "xyz".index(name)
    axis = tuple(float(i == index) for i in range(3))
    kept = 2 - index
    plane = tuple(extent for i, extent in enumerate(size) if i != kept)
    grown = rotations.canvas(size, angle, axis)
    assert grown[kept] == size[kept]
    assume(abs(abs(math.cos(math.radians(angle))) - abs(math.sin(math.radians(angle)))) > 1e-6)
    assert tuple(extent for i, extent in enumerate(grown) if i != kept) == rotations.canvas(plane, angle)


# -- the warp -----------------------------------------------------------------------------------------------------


@st.composite
def warps(draw):
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6)))
    fill = draw(st.none() | st.integers(0, 100))
    return shape, draw(angles), fill, draw(st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)))


@given(warps(), any_dtype)
def test_linear_interpolation_is_that_of_plain_python(case, dtype):
    shape, angle, fill, size = case
    image = noise(shape, dtype)
    size = size or rotations.canvas(shape[:2], angle)
    matrix = np.array(rotations.rotation(shape[:2], size, angle))
    out = np.empty((*size, shape[2]), dtype)
    warp.affine(image, matrix, out, fill=fill)
    if dtype.kind == "b":
        expected = by_hand(image, matrix, size, None if fill is None else fill > 0, False)
        assert ((out == (expected >= 0.5)) | (abs(expected - 0.5) < 1e-3)).all()
        return
    expected = by_hand(image, matrix, size, fill, False)
    exact = {"f": 0.0}.get(dtype.kind, 0.5)  # half a level is lost in rounding
    tolerance = max(spread(dtype), float(fill or 0)) * (1e-4 if dtype in FAST else 1e-14)
    if dtype == np.float16:
        tolerance += 0.05  # one part in 2048 of a fill of 100
    assert np.abs(out.astype(np.longdouble) - expected).max() <= exact + tolerance


@given(warps(), any_dtype)
def test_the_nearest_pixel_is_that_of_plain_python(case, dtype):
    shape, angle, fill, size = case
    image = noise(shape, dtype)
    size = size or rotations.canvas(shape[:2], angle)
    matrix = np.array(rotations.rotation(shape[:2], size, angle))
    out = np.empty((*size, shape[2]), dtype)
    warp.affine(image, matrix, out, fill=fill, nearest=True)
    places = np.arange(1, 1 + shape[0] * shape[1]).reshape(*shape[:2], 1)
    found = by_hand(places, matrix, size, None if fill is None else 0, True)[..., 0].astype(int)
    pixels = np.concatenate([np.full((1, shape[2]), fill or 0, dtype), image.reshape(-1, shape[2])])
    unclear = _on_an_edge(matrix, size)
    assert ((out == pixels[found]).all(axis=-1) | unclear).all()


def _on_an_edge(matrix, size) -> np.ndarray:
    """Output pixels whose centres fall between two input pixels, which rounding decides about."""
    centres = np.moveaxis(np.indices(size), 0, -1)[..., ::-1] + 0.5
    points = np.concatenate([centres, np.ones((*size, 1))], axis=-1) @ matrix.T
    return (np.abs(points - np.round(points)) < 1e-9).any(axis=-1)


@given(st.tuples(*[st.integers(1, 4)] * 4), angles, npst.arrays(np.float64, 3, elements=st.floats(-1, 1, width=16)),
       st.none() | st.just(7), st.booleans())  # fmt: skip
def test_volumes_are_those_of_plain_python(shape, angle, axis, fill, nearest):
    assume(np.abs(axis).max() > 0.01)
    image = noise(shape, "uint8")
    size = rotations.canvas(shape[:3], angle, tuple(axis))
    assume(math.prod(size) < 400)
    matrix = np.array(rotations.rotation(shape[:3], size, angle, tuple(axis)))
    out = np.empty((*size, shape[3]), np.float64)
    warp.affine(image, matrix, out, fill=fill, nearest=nearest)
    difference = np.abs(out - by_hand(image, matrix, size, fill, nearest)).max(axis=-1)
    assert ((difference < 1e-9) | (nearest & _on_an_edge(matrix, size))).all()


@pytest.mark.parametrize(("dtype", "channels", "fill", "level"), [
    ("uint8", 3, None, 1), ("uint8", 2, 5, 1), ("uint8", 5, 5, 1), ("int8", 1, 5, 1), ("uint16", 1, 5, 8),
    ("int16", 2, None, 8), ("float16", 1, None, 1e-3), ("float32", 1, 5, 1e-3),
])  # fmt: skip
def test_large_images_are_as_exact_as_small_ones(dtype, channels, fill, level, monkeypatch):
    image = noise((400, 1100, channels), dtype)
    size = rotations.canvas((400, 1100), 33.3)
    matrix = np.array(rotations.rotation((400, 1100), size, 33.3))
    fast, exact = np.empty((2, *size, channels), dtype)
    warp.affine(image, matrix, fast, fill=fill)
    monkeypatch.setattr(warp, "OPENCV_LIMIT", 0)
    warp.affine(image, matrix, exact, fill=fill)
    difference = np.abs(fast.astype(np.float64) - exact)
    assert difference.max() <= level
    if dtype == "uint8":
        assert (difference > 0).mean() < 2e-3


@pytest.mark.parametrize("shape", [(2, 33000, 1), (33000, 2, 3)])
def test_images_beyond_the_limits_of_opencv(shape):
    image = noise(shape, "uint8")
    size = rotations.canvas(shape[:2], 90.25)
    matrix = np.array(rotations.rotation(shape[:2], size, 90.25))
    rows = slice(size[0] // 2 - 20, size[0] // 2 + 20)
    columns = slice(size[1] // 2 - 20, size[1] // 2 + 20)
    out = np.empty((*size, shape[2]), np.uint8)
    warp.affine(image, matrix, out, fill=3)
    part = np.empty((40, 40, shape[2]))
    matrix[:, 2] += matrix[:, :2] @ (columns.start, rows.start)
    warp._gather(
        image, matrix + [[0, 0, d] for d in (matrix[:, :2].sum(axis=1) - 1) / 2], part, np.full(shape[2], 3), False
    )
    assert np.abs(out[rows, columns] - part).max() < 0.6


def test_a_great_reduction_is_exact():
    image = noise((40, 40, 3), "uint8")
    matrix = np.array([[1000.0, 0.0, 0.0], [0.0, 1000.0, 0.0]])
    out = np.empty((3, 3, 3), np.uint8)
    warp.affine(image, matrix, out, fill=9)
    assert (out == 9).all()
    warp.affine(image, matrix, out)
    assert (out == image[-1, -1]).all()


# -- rotate -------------------------------------------------------------------------------------------------------


@given(laid_out(IMAGE_LAYOUTS), st.integers(-9, 9), st.sampled_from(["linear", "nn"]), st.none() | st.just(1))
def test_quarter_turns_only_move_pixels(image, quarters, interp_type, fill_value):
    array, layout = image
    turned = rotate(
        as_tensor(array, layout=layout), angle=90 * quarters, interp_type=interp_type, fill_value=fill_value
    )
    assert turned.layout == layout
    assert np.array_equal(turned.array, np.rot90(array, quarters, (layout.index("H"), layout.index("W"))))


@given(laid_out(VOLUME_LAYOUTS), st.integers(-9, 9), st.sampled_from(["linear", "nn"]))
def test_quarter_turns_of_volumes_only_move_pixels(image, quarters, interp_type):
    array, layout = image
    d, h, w = map(layout.index, "DHW")
    for axis, plane in (((0, 0, 2), (h, w)), ((0.1, 0, 0), (d, h)), ((0, 1, 0), (w, d))):
        turned = rotate(as_tensor(array, layout=layout), angle=90 * quarters, axis=axis, interp_type=interp_type)
        assert np.array_equal(turned.array, np.rot90(array, -quarters, plane))


def test_quarter_turns_keep_all_digits_and_spread_no_infinities():
    big = np.array([[2**53 + 1, 2**62 + 1], [-(2**63), 3]])
    assert rotate(big, angle=-90).tolist() == np.rot90(big, -1).tolist()
    volume = as_tensor(big[None], layout="DHW")
    assert rotate(volume, angle=180, axis=(0, 0, 1)).array[0].tolist() == np.rot90(big, 2).tolist()
    odd = np.array([[1.0, np.inf, 2.0], [np.nan, -np.inf, 3.0], [4.0, 5.0, 6.0]], np.float32)
    assert np.array_equal(rotate(odd, angle=450).array, np.rot90(odd), equal_nan=True)
    assert np.array_equal(rotate(odd, angle=0, size=(1, 3)).array, odd[1:2], equal_nan=True)


@given(arrays(any_dtype, st.tuples(st.integers(1, 9), st.integers(1, 9))), angles)
@example(np.array([[2**63 + 607]], "u8"), 1.0)
def test_a_constant_image_stays_constant(array, angle):
    constant = np.full_like(array, array[0, 0])
    turned = rotate(constant, angle=angle).array
    assert turned.dtype == array.dtype.newbyteorder("=")
    precision = 1e-6 if array.dtype.kind == "f" else 2.0**-52 if array.dtype.itemsize == 8 else 0  # those by float64
    close = precision * abs(float(array[0, 0]))
    assert np.abs(turned.astype(np.longdouble) - np.longdouble(array[0, 0])).max(initial=0) <= close


@given(laid_out(("HWC", "CHW", "FHWC")), angles, st.integers(0, 9))
def test_what_is_far_outside_is_the_fill(image, angle, fill):
    array, layout = image
    size = (60, 60)
    turned = rotate(as_tensor(array, layout=layout), angle=angle, size=size, fill_value=fill).array
    h, w = layout.index("H"), layout.index("W")
    corner = turned.take(range(3), axis=h).take(range(3), axis=w)
    assert (corner == np.array(fill).astype(array.dtype)).all()


def test_a_fill_for_each_channel():
    image = noise((3, 4, 3), "uint8")
    for layout, array, channel in (("HWC", image, 2), ("CHW", image.transpose(2, 0, 1), 0)):
        turned = rotate(as_tensor(array, layout=layout), angle=45, size=(40, 40), fill_value=(10, 300, 2.5)).array
        corner = np.moveaxis(turned, channel, -1)[0, 0]
        assert corner.tolist() == [10, 255, 3]  # saturated and rounded to the type of the image


def test_the_fill_is_mixed_with_the_edge():
    # A pixel whose centre lies half a pixel outside is half the edge and half the fill; further out it is the fill.
    turned = rotate(np.full((2, 2, 1), 100, np.uint8), angle=0, size=(2, 3), fill_value=50).array[..., 0]
    assert turned.tolist() == [[75, 100, 75]] * 2
    assert rotate(np.full((2, 2, 1), 100, np.uint8), angle=0, size=(2, 3)).array[..., 0].tolist() == [[100] * 3] * 2


def test_sizes():
    image = noise((5, 8, 3), "uint8")
    assert rotate(image, angle=20, keep_size=True).shape == (5, 8, 3)
    assert rotate(image, angle=20, size=(3.9, 10.2)).shape == (3, 10, 3)
    assert rotate(image, angle=20, size=(3, 4), keep_size=True).shape == (3, 4, 3)
    assert rotate(as_tensor(image.transpose(2, 0, 1), layout="CHW"), angle=90).shape == (3, 8, 5)
    assert rotate(image, angle=1e300).shape[2] == 3
    batch = as_batch([image, image[:3]], layout="HWC")
    assert [s.shape for s in rotate(batch, angle=20, size=as_batch([[3, 4], [5, 6]])).samples] == [(3, 4, 3), (5, 6, 3)]
    assert rotate(batch, angle=as_batch([0.0, 90.0])).shape == [(5, 8, 3), (8, 3, 3)]


@pytest.mark.parametrize("fill_value", [None, 7])
@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (0, 0, 1), (4, 5, 0)])
def test_images_without_pixels(shape, fill_value):
    image = np.zeros(shape, np.uint8)
    turned = rotate(image, angle=20, fill_value=fill_value)
    assert turned.shape == (*rotations.canvas(shape[:2], 20), shape[2])
    assert (turned.array == (fill_value or 0)).all()
    assert rotate(np.ones((3, 3, 1), np.uint8), angle=20, size=(0, 5)).shape == (0, 5, 1)
    assert flip(image, vertical=1).shape == shape
    assert rotate(image, angle=90).shape == (shape[1], shape[0], shape[2])


@given(st.sampled_from(ALL_DTYPES), st.sampled_from(ALL_DTYPES), angles)
def test_the_result_is_converted_once_at_the_end(have, want, angle):
    image = noise((4, 5, 1), have)
    if have.kind == "f":
        image = (image * 300).astype(have)
    turned = rotate(image, angle=angle, dtype=want.name).array
    in_float = rotate(image, angle=angle, dtype="float64").array
    expected = ndd.dtypes.convert(np, in_float, want)
    assert turned.dtype == want
    if want.kind == "b":
        assert ((turned == expected) | (np.abs(np.abs(in_float) - 0.5) < 0.05)).all()
    else:
        allowed = (1 if want.kind in "iu" else 1e-3) + 1e-6 * np.abs(expected.astype(np.longdouble))
        with np.errstate(invalid="ignore"):
            apart = np.abs(turned.astype(np.longdouble) - expected)
        assert ((apart <= allowed) | (turned == expected)).all()


def test_interpolation_of_bytes_to_floats_is_not_rounded():
    turned = rotate(np.array([[0, 1]], np.uint8), angle=0, size=(1, 3), dtype="float32").array
    assert turned.tolist() == [[0.0, 0.5, 1.0]]


@pytest.mark.parametrize(("arguments", "match"), [
    ({"angle": "ten"}, "'angle' must be a finite number"),
    ({"angle": math.nan}, "'angle' must be a finite number"),
    ({}, "'angle' must be"),
    ({"angle": 3, "size": (3,)}, "'size' must be 2 extents"),
    ({"angle": 3, "size": (3, -4)}, "'size' must be"),
    ({"angle": 3, "fill_value": (1, 2)}, "'fill_value' must be one value or 3"),
    ({"angle": 3, "interp_type": "cubic"}, "'interp_type' must be one of 'nn', 'linear'"),
    ({"angel": 3}, "'angle'"),
])  # fmt: skip
def test_refusals(arguments, match):
    with pytest.raises(ArgumentError, match=match):
        rotate(noise((4, 5, 3), "uint8"), **arguments)


def test_a_volume_needs_an_axis_and_an_image_ignores_it():
    volume = as_tensor(noise((3, 4, 5), "uint8"), layout="DHW")
    with pytest.raises(ArgumentError, match=r"'axis' must be the \(x, y, z\)"):
        rotate(volume, angle=30)
    with pytest.raises(ArgumentError, match="'axis' must be a vector other than zero"):
        rotate(volume, angle=30, axis=(0, 0, 0))
    with pytest.raises(ArgumentError, match="'axis' must be a sequence of 3"):
        rotate(volume, angle=30, axis=(0, 1))
    image = noise((4, 5), "uint8")
    assert rotate(image, angle=30, axis=(1, 2, 3)).tolist() == rotate(image, angle=30).tolist()


# -- flip ---------------------------------------------------------------------------------------------------------

flags = st.integers(0, 1)


@given(laid_out(IMAGE_LAYOUTS + VOLUME_LAYOUTS), flags, flags, flags)
def test_flip_reverses_axes(image, horizontal, vertical, depthwise):
    array, layout = image
    asked = {"W": horizontal, "H": vertical, "D": depthwise}
    axes = tuple(layout.index(letter) for letter in asked if asked[letter] and letter in layout)
    tensor = as_tensor(array, layout=layout)
    arguments = {"horizontal": horizontal, "vertical": vertical, "depthwise": depthwise}
    flipped = flip(tensor, **arguments)
    assert flipped.layout == layout
    assert np.array_equal(flipped.array, np.flip(array, axes))
    assert np.array_equal(flip(flipped, **arguments).array, array)


@pytest.mark.parametrize("channels", [1, 3, 5, 130])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "int64"])
def test_flip_and_quarter_turns_of_whole_images(dtype, channels):
    image = noise((40, 50, channels), dtype)
    assert np.array_equal(flip(image).array, image[:, ::-1])
    assert np.array_equal(flip(image, vertical=1).array, image[::-1, ::-1])
    assert np.array_equal(flip(image, horizontal=0, vertical=1).array, image[::-1])
    for quarters in range(4):
        assert np.array_equal(rotate(image, angle=90 * quarters).array, np.rot90(image, quarters))
