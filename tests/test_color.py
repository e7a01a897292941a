"""Colours and values of pixels: against plain arithmetic in float64, by hand, and as DALI does it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import dynamic
from dynamic import ArgumentError, as_tensor
from dynamic.dtypes import convert
from dynamic.kernels.cpu import color
from dynamic.kernels.cpu.color import _bytes

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
NUMBERS = [*INTEGERS, "float16", "float32", "float64"]
SPACES = ["RGB", "BGR", "GRAY", "YCbCr"]
LUMA = np.array([0.299, 0.587, 0.114])
YIQ = np.array([LUMA, [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
RANDOM = np.random.default_rng(0)
PHOTO = cv2.resize(RANDOM.normal(128, 70, (9, 11, 3)), (96, 77), interpolation=cv2.INTER_CUBIC)
PHOTO = (PHOTO + RANDOM.normal(0, 5, PHOTO.shape)).clip(0, 255).astype(np.uint8)
PHOTO.setflags(write=False)

factors = st.floats(-3, 3, width=32)
angles = st.floats(-400, 400, width=32)


def rounded(values, dtype):
    """Values as a dtype, rounded half away from zero and saturated."""
    return convert(np, np.asarray(values, float), np.dtype(dtype))


def numbers(dtype: str, shape) -> np.ndarray:
    """Numbers over the whole range of a type."""
    random = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        return random.uniform(-0.5, 1.5, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def close(found: np.ndarray, expected: np.ndarray, *, share: float, bits: int = 22) -> bool:
    """Whether few integers are off, by one, and floats by their last bits; wide integers have the digits of floats."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.itemsize > 2 or found.dtype.kind == "f":
        bits = 9 if found.dtype == np.float16 else bits
        scale = max(1.0, np.abs(expected.astype(float)).max(initial=0.0))
        return bool((np.abs(found.astype(float) - expected.astype(float)) <= scale * 2.0**-bits).all())
    off = np.abs(found.astype(int) - expected.astype(int))
    return bool(off.max(initial=0) <= 1) and (off > 0).mean() <= share


def near(found: np.ndarray, expected: np.ndarray, *scales: float, bits: int = 18) -> bool:
    """Whether values are off by no more than the last bits of what was added up for them, and integers by one more."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    apart = found != expected  # beyond float16 both are infinite
    off = np.abs(found[apart].astype(float) - expected[apart].astype(float)).max(initial=0.0)
    return bool(off <= max(1.0, *map(abs, scales)) * 2.0**-bits + (found.dtype.kind != "f"))


@given(have=st.sampled_from(NUMBERS), want=st.sampled_from(NUMBERS), brightness=factors, contrast=factors,
       shift=st.floats(-0.5, 0.5, width=32), center=st.none() | st.floats(-10, 300, width=32))  # fmt: skip
def test_brightness_and_contrast_are_a_factor_and_a_shift(have, want, brightness, contrast, shift, center):
    image = numbers(have, (5, 7, 2))
    middle = center if center is not None else 0.5 if have[0] == "f" else np.iinfo(have).max // 2 + 1
    full = 1.0 if want[0] == "f" else float(np.iinfo(want).max)
    exact = shift * full + brightness * (middle + contrast * (image.astype(float) - middle))
    found = dynamic.brightness_contrast(
        as_tensor(image, layout="HWC"), brightness=brightness, contrast=contrast, brightness_shift=shift,
        contrast_center=center, dtype=want,
    )  # fmt: skip
    high = np.abs(image.astype(float)).max()
    sums = [brightness * contrast * high, brightness * contrast * middle, brightness * middle, shift * full]
    assert near(found.array, rounded(exact, want), *sums, bits=9 if want == "float16" else 20)


def test_bytes_are_rounded_half_away_from_zero_whatever_computes_them():
    every = np.arange(256, dtype=np.uint8).repeat(60).reshape(48, 320)
    for factor, shift in [(0.5, 0.0), (1.5, -0.1), (-1.0, 1.0), (0.3, 0.2), (1.0, 1 / 3), (1e6, -3.0), (0.0, 0.0)]:
        exact = np.float32(factor) * every.astype(np.float32) + np.float32(shift * 255)
        for image in (every, every[:2], every[:, ::2]):
            found = dynamic.brightness(image, brightness=factor, brightness_shift=shift).array
            assert np.array_equal(found, rounded(exact[: len(image), :: every.shape[1] // image.shape[1]], "uint8"))


@given(st.lists(st.one_of(st.integers(-2, 257).map(lambda i: i + 0.5), st.floats(-1e9, 1e9)), min_size=1),
       st.integers(-9, 9), st.integers(1, 40))  # fmt: skip
def test_sums_are_rounded_to_bytes_but_for_a_last_place_below_a_half(values, places, repeats):
    near = (np.array(values, np.float32) + np.float32(places * 2.0**-16)).repeat(repeats)  # by vectors, and one by one
    found = np.empty((1, len(near), 1), np.uint8)
    _bytes(near.reshape(found.shape).copy(), found)
    inside = near.clip(0, 255).astype(np.float64)
    below = 0.5 - inside % 1
    clear = (below <= 0) | (below > 2.0**-16)
    assert np.array_equal(found.ravel()[clear], rounded(inside[clear], "uint8"))
    assert np.abs(found.ravel() - inside).max() <= 0.5 + 2.0**-16


def test_brightness_and_contrast_are_special_cases():
    assert np.array_equal(dynamic.brightness(PHOTO, brightness=1.3, brightness_shift=-0.1).array,
                          dynamic.brightness_contrast(PHOTO, brightness=1.3, brightness_shift=-0.1).array)  # fmt: skip
    assert np.array_equal(dynamic.contrast(PHOTO, contrast=0.7, contrast_center=99.0).array,
                          dynamic.brightness_contrast(PHOTO, contrast=0.7, contrast_center=99.0).array)  # fmt: skip
    assert (dynamic.contrast(np.full((1, 2), 9, np.int16), contrast=0.0).array == 16384).all()
    for dtype in NUMBERS:
        image = numbers(dtype, (4, 5)) if np.dtype(dtype).itemsize < 8 else np.arange(20, dtype=dtype).reshape(4, 5)
        assert np.array_equal(dynamic.brightness_contrast(image).array, image)


def twist(image, hue=0.0, saturation=1.0, brightness=1.0, contrast=1.0):
    """What a colour twist makes of RGB, in float64."""
    angle = np.radians(hue)
    turn = np.array([[1, 0, 0], [0, np.cos(angle), np.sin(angle)], [0, -np.sin(angle), np.cos(angle)]])
    matrix = np.linalg.inv(YIQ) @ np.diag([1, saturation, saturation]) @ turn @ YIQ
    center = 0.5 if image.dtype.kind == "f" else 128
    return brightness * (center + contrast * (image.astype(float) @ matrix.T - center))


@given(have=st.sampled_from(NUMBERS), want=st.sampled_from(["uint8", "int16", "float16", "float32", "float64"]),
       hue=angles, saturation=st.floats(0, 3), brightness=st.floats(0, 2), contrast=st.floats(0, 2))  # fmt: skip
def test_hues_turn_about_grey(have, want, hue, saturation, brightness, contrast):
    image = numbers(have, (6, 17, 3))
    arguments = {"hue": hue, "saturation": saturation, "brightness": brightness, "contrast": contrast}
    found = dynamic.color_twist(as_tensor(image, layout="HWC"), dtype=want, **arguments)
    expected = twist(image, **arguments)
    if want[0] == "f":
        scale = max(1.0, np.abs(image.astype(float)).max())
        with np.errstate(over="ignore"):
            expected = expected.astype(want)
        finite = np.isfinite(expected)
        assert np.array_equal(np.isfinite(found.array), finite)
        off = np.abs(found.array[finite].astype(float) - expected[finite].astype(float))
        assert (off <= scale * (2.0**-9 if want == "float16" else 2.0**-17)).all()
    else:
        assert close(found.array, rounded(expected, want), share=0.4 if have == want == "uint8" else 0.1)


def test_hue_saturation_and_hsv_are_special_cases():
    image = as_tensor(PHOTO.astype(np.float32), layout="HWC")
    for found, arguments in [
        (dynamic.hue(image, hue=40.0), {"hue": 40.0}),
        (dynamic.saturation(image, saturation=0.3), {"saturation": 0.3}),
        (dynamic.hsv(image, hue=-20.0, saturation=2.0, value=0.5, dtype="float32"),
         {"hue": -20.0, "saturation": 2.0, "brightness": 0.5}),
    ]:  # fmt: skip
        np.testing.assert_allclose(found.array, twist(image.array, **arguments), atol=1e-3)
    assert dynamic.hsv(image).dtype == "uint8"
    assert np.array_equal(dynamic.hsv(image).array, PHOTO)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_other_spaces_are_twisted_as_rgb_is(dtype):
    full = 255 if dtype == "uint8" else 1
    image = (PHOTO if dtype == "uint8" else PHOTO / np.float32(255)).clip(full * 0.2, full * 0.8).astype(dtype)
    arguments = {"hue": 12.0, "saturation": 0.8, "brightness": 0.9, "contrast": 0.95}
    expected = dynamic.color_twist(image, **arguments)
    for space in ("BGR", "YCbCr"):
        there = dynamic.color_space_conversion(image, image_type="RGB", output_type=space)
        back = dynamic.color_space_conversion(
            dynamic.color_twist(there, image_type=space, **arguments), image_type=space, output_type="RGB"
        )
        assert np.abs(back.array.astype(float) - expected.array).max() <= (3 if dtype == "uint8" else 1e-5)


@given(st.lists(st.tuples(angles, factors, factors, factors), min_size=1, max_size=5), st.sampled_from(SPACES))
def test_matrices_of_many_images_are_those_of_each(arguments, space):
    kind = np.dtype("uint8")
    if space != "GRAY":
        many = color.twist(kind, *np.array(arguments).T, space)
        assert [matrix.tobytes() for matrix in many] == [color.twist(kind, *own, space).tobytes() for own in arguments]
    factors = color.linear(kind, kind, *np.array(arguments).T)
    assert np.array([color.linear(kind, kind, *own) for own in arguments]).T.tobytes() == np.array(factors).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_a_pixel_becomes_the_same_wherever_it_is(dtype):
    """OpenCV's vectors find other last bits than its single steps, which do the last pixels of an array."""
    pixels = np.random.default_rng(1).uniform(0, 255, (1, 400, 3)).astype(dtype)
    arguments = {"hue": 20.0, "saturation": 1.7, "brightness": 1.1, "contrast": 0.9, "dtype": "float32"}
    expected = dynamic.color_twist(as_tensor(pixels, layout="HWC"), **arguments).numpy()
    for first, count in [*((0, n) for n in range(1, 135)), *((n, 200) for n in range(1, 20))]:
        some = np.s_[:, first : first + count]
        found = dynamic.color_twist(as_tensor(pixels[some], layout="HWC"), **arguments)
        np.testing.assert_array_equal(found.numpy(), expected[some])


def test_what_is_too_large_for_integers_is_saturated():
    for arguments in (
        {"brightness": 1e6, "contrast": 1e-6},
        {"brightness": 1e9},
        {"contrast": -1e6, "brightness": -1.0},
    ):
        found = dynamic.color_twist(PHOTO, **arguments).array
        assert np.array_equal(found, rounded(twist(PHOTO, **arguments), "uint8"))
    bright = np.array(
        [[[1e30, 1e30, 1e30], [np.inf, np.inf, np.inf], [-np.inf, -1e30, 1e30], [np.nan, 1, 1]]], np.float32
    )
    found = dynamic.hsv(bright).array
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[0, 3, 0] == 0
    assert (dynamic.color_twist(np.full((2, 2, 3), 1e10, np.float32), dtype="uint8").array == 255).all()


def test_grey_images_have_no_hue():
    gray = PHOTO[..., :1]
    expected = dynamic.brightness_contrast(gray, brightness=0.8, contrast=1.2).array
    for image, layout in ((gray, "HWC"), (gray[..., 0], "HW"), (gray.transpose(2, 0, 1), "CHW")):
        laid = as_tensor(image, layout=layout)
        found = dynamic.color_twist(laid, brightness=0.8, contrast=1.2, hue=77.0, saturation=3.0, image_type="GRAY")
        assert np.array_equal(found.array.reshape(expected.shape), expected)
        assert np.array_equal(dynamic.hue(laid, hue=50.0).array, image)
    for channels in (2, 4):
        for operator in (dynamic.color_twist, dynamic.hue, dynamic.saturation, dynamic.hsv):
            with pytest.raises(ArgumentError, match=rf"'image' must be of 3 channels .* got {channels} channels"):
                operator(np.zeros((2, 2, channels), np.uint8))
    with pytest.raises(ArgumentError, match=r"of 1 channel \(GRAY\)"):
        dynamic.color_twist(PHOTO, image_type="GRAY")


OPERATORS = [
    (dynamic.brightness_contrast, {"brightness": 1.2, "contrast": 0.7}),
    (dynamic.color_twist, {"hue": 33.0, "saturation": 1.4, "contrast": 1.1}),
    (dynamic.color_space_conversion, {"image_type": "RGB", "output_type": "YCbCr"}),
    (dynamic.color_space_conversion, {"image_type": "RGB", "output_type": "BGR"}),
    (dynamic.color_space_conversion, {"image_type": "RGB", "output_type": "GRAY"}),
    (dynamic.equalize, {}),
    (dynamic.clahe, {"tiles_x": 3, "tiles_y": 2, "clip_limit": 2.0}),
    (dynamic.jpeg_compression_distortion, {"quality": 20}),
]


@pytest.mark.parametrize(("operator", "arguments"), OPERATORS, ids=lambda x: getattr(x, "name", None))
def test_layouts_and_frames_change_nothing(operator, arguments):
    frames = [PHOTO[:40, :50], PHOTO[30:70, 40:90]]
    expected = np.stack([operator(as_tensor(frame, layout="HWC"), **arguments).array for frame in frames])
    for layout in ("FHWC", "FCHW", "FDHWC", "FCDHW"):
        video = np.stack(frames).reshape(2, 1, 40, 50, 3)  # FDHWC
        order = [("FDHWC").index(letter) for letter in layout]
        missing = tuple(i for i, letter in enumerate("FDHWC") if letter not in layout)
        found = operator(
            as_tensor(video.squeeze(missing).transpose(np.argsort(np.argsort(order))), layout=layout), **arguments
        )
        assert found.layout == layout
        kept = [letter for letter in "FDHWC" if letter in layout]
        back = found.array.transpose([layout.index(letter) for letter in kept])
        assert np.array_equal(back.reshape(expected.shape), expected), layout


def converted(image, have, want):
    """A conversion in float64, of bytes."""
    matrix = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    offset = np.array([16.0, 128.0, 128.0])
    image = image.astype(float)
    rgb = {"RGB": lambda: image, "BGR": lambda: image[..., ::-1], "GRAY": lambda: image.repeat(3, -1),
           "YCbCr": lambda: (image - offset) @ np.linalg.inv(matrix).T}[have]()  # fmt: skip
    return {"RGB": lambda: rgb, "BGR": lambda: rgb[..., ::-1], "GRAY": lambda: rgb @ LUMA[:, None],
            "YCbCr": lambda: rgb @ matrix.T + offset}[want]()  # fmt: skip


@pytest.mark.parametrize("want", SPACES)
@pytest.mark.parametrize("have", SPACES)
def test_colour_spaces(have, want):
    image = numbers("uint8", (40, 50, 1 if have == "GRAY" else 3))
    found = dynamic.color_space_conversion(as_tensor(image, layout="HWC"), image_type=have, output_type=want)
    exact = converted(image, have, want)
    assert found.shape == exact.shape
    assert close(found.array, rounded(exact, "uint8") if have != want else image, share=0.01)
    floats = dynamic.color_space_conversion((image / 255).astype(np.float32), image_type=have, output_type=want)
    np.testing.assert_allclose(floats.array * 255, exact, atol=2e-3)
    wide = dynamic.color_space_conversion(image.astype(np.uint16) * 257, image_type=have, output_type=want)
    assert np.abs(wide.array - (exact * 257).clip(0, 65535)).max() <= 0.51


def test_images_without_channels_get_them_last():
    gray = as_tensor(PHOTO[..., 0], layout="HW")
    for space, shape in (("RGB", (77, 96, 3)), ("YCbCr", (77, 96, 3)), ("GRAY", (77, 96))):
        found = dynamic.color_space_conversion(gray, image_type="GRAY", output_type=space)
        assert (found.shape, found.layout) == (shape, "HWC"[: len(shape)])
    with pytest.raises(ArgumentError, match=r"'image' must be of 3 channels \(BGR\); got 1 channels"):
        dynamic.color_space_conversion(gray, image_type="BGR", output_type="RGB")
    with pytest.raises(ArgumentError, match="'image_type' must be one of 'RGB'"):
        dynamic.color_space_conversion(gray, image_type="ANY_DATA", output_type="RGB")


@given(dtype=st.sampled_from(["uint8", "uint16"]), data=st.data())
def test_equal_values_stay_equal_and_are_spread(dtype, data):
    values = data.draw(st.lists(st.integers(0, np.iinfo(dtype).max), min_size=1, max_size=30))
    image = np.array([values], dtype)
    found = dynamic.equalize(image).array[0]
    lowest = values.count(min(values))
    below = [sum(v <= value for v in values) - lowest for value in values]
    if lowest == len(values):
        assert found.tolist() == values
    else:
        scale = np.iinfo(dtype).max / (len(values) - lowest)
        assert np.abs(found - np.array(below) * scale).max() <= 0.51


def test_each_channel_and_frame_has_a_histogram_and_a_volume_has_one():
    found = dynamic.equalize(PHOTO).array
    assert np.array_equal(found, np.dstack([cv2.equalizeHist(PHOTO[..., i].copy()) for i in range(3)]))
    slices = np.stack([PHOTO[..., 0], PHOTO[..., 1]])
    video = dynamic.equalize(as_tensor(slices, layout="FHW")).array
    assert np.array_equal(video[1], found[..., 1])
    volume = dynamic.equalize(as_tensor(slices, layout="DHW")).array
    assert np.array_equal(volume.reshape(154, 96), cv2.equalizeHist(slices.reshape(154, 96)))
    constant = np.full((3, 4), 300, np.uint16)
    assert np.array_equal(dynamic.equalize(constant).array, constant)


def test_tiles_are_equalized_by_lightness_or_by_channel():
    arguments = {"tiles_x": 4, "tiles_y": 3, "clip_limit": 2.5}
    spread = cv2.createCLAHE(2.5, (4, 3))
    lab = cv2.cvtColor(PHOTO, cv2.COLOR_RGB2Lab)
    lab[..., 0] = spread.apply(lab[..., 0].copy())
    assert np.array_equal(dynamic.clahe(PHOTO, **arguments).array, cv2.cvtColor(lab, cv2.COLOR_Lab2RGB))
    channels = np.dstack([spread.apply(PHOTO[..., i].copy()) for i in range(3)])
    assert np.array_equal(dynamic.clahe(PHOTO, luma_only=False, **arguments).array, channels)
    two = dynamic.clahe(PHOTO[..., :2], luma_only=False, **arguments)
    assert np.array_equal(two.array, channels[..., :2])
    wide = PHOTO.astype(np.uint16) * 257
    off = np.abs(dynamic.clahe(wide, tiles_x=4, tiles_y=3, clip_limit=0).array / 257
                 - dynamic.clahe(PHOTO, tiles_x=4, tiles_y=3, clip_limit=0).array)  # fmt: skip
    assert np.median(off) < 1.5
    assert np.percentile(off, 99) < 10
    assert np.array_equal(dynamic.clahe(wide[..., 0], **arguments).array, spread.apply(wide[..., 0].copy()))


def test_tables_of_wide_tiles_are_bounded():
    image = np.zeros((40, 40), np.uint16)
    with pytest.raises(ArgumentError, match=r"'tiles_x' must be .* at most 1024 tiles of uint16.*; got 33 x 32"):
        dynamic.clahe(image, tiles_x=33, tiles_y=32, clip_limit=2.0)
    assert dynamic.clahe(image.astype(np.uint8), tiles_x=33, tiles_y=32, clip_limit=2.0).shape == (40, 40)
    assert dynamic.clahe(image, tiles_x=32, tiles_y=32, clip_limit=2.0).shape == (40, 40)


def test_a_limit_that_is_huge_is_none():
    for image in (PHOTO, PHOTO[..., 0], PHOTO[..., 0].astype(np.uint16) * 257):
        free = dynamic.clahe(image, tiles_x=2, tiles_y=2, clip_limit=0.0).array
        assert np.array_equal(dynamic.clahe(image, tiles_x=2, tiles_y=2, clip_limit=1e30).array, free)


@pytest.mark.parametrize(("code", "told"), [(cv2.Error.StsNoMem, MemoryError), (cv2.Error.StsAssert, cv2.error)])
def test_tables_of_tiles_that_no_memory_has_room_for_are_told_as_such(code, told, monkeypatch):
    class Failing:
        def apply(self, plane):
            error = cv2.error("Insufficient memory")
            error.code = code
            raise error

    monkeypatch.setattr(cv2, "createCLAHE", lambda limit, tiles: Failing())
    with pytest.raises(told):
        dynamic.clahe(PHOTO, tiles_x=1024, tiles_y=1024, clip_limit=0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"tiles_x": 0}, "'tiles_x'"), ({"tiles_y": 5000}, "'tiles_y'"), ({"bins": 100}, "'bins' must be a power of two")],
)
def test_wrong_tiles_are_refused(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        dynamic.clahe(PHOTO, **({"tiles_x": 2, "tiles_y": 2, "clip_limit": 1.0} | arguments))
    with pytest.raises(ArgumentError, match="got 2 channels"):
        dynamic.clahe(PHOTO[..., :2], tiles_x=2, tiles_y=2, clip_limit=1.0)


@given(dtype=st.sampled_from(["bool", *INTEGERS]), want=st.sampled_from(["bool", *NUMBERS]), data=st.data())
def test_tables_map_integers(dtype, want, data):
    keys = data.draw(st.lists(st.integers(0, 65535) | st.integers(0, 5), max_size=9))
    values = data.draw(st.lists(st.floats(-300, 300, width=16), min_size=len(keys), max_size=len(keys)))
    limits = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    inside = st.integers(*limits) | st.sampled_from([k for k in keys if k <= limits[1]] or [limits[0]])
    integers = np.array(data.draw(st.lists(inside | st.integers(max(limits[0], -9), min(limits[1], 9)))), dtype)
    default = data.draw(st.floats(-10, 10, width=16))
    found = dynamic.lookup_table(integers, keys=keys, values=values, default_value=default, dtype=want)
    table = dict(zip(keys, values, strict=True))
    assert found.dtype == want
    assert np.array_equal(found.array, rounded([table.get(int(i), default) for i in integers], want))


def test_a_table_may_have_one_key_or_none():
    data = np.array([[0, 1], [2, 1]])
    assert dynamic.lookup_table(data, keys=1, values=2.5).tolist() == [[0, 2.5], [0, 2.5]]
    assert dynamic.lookup_table(data, default_value=3).tolist() == [[3, 3], [3, 3]]
    assert dynamic.lookup_table(data[:, ::-1], keys=[0], values=[1.0]).tolist() == [[0, 1], [0, 0]]
    assert dynamic.lookup_table(data, keys=0, values=0.1, dtype="float64").tolist()[0][0] == 0.1
    with pytest.raises(ArgumentError, match="'values' must be one for each of the 2 keys"):
        dynamic.lookup_table(data, keys=[1, 2], values=[1.0])
    with pytest.raises(ArgumentError, match="'keys'"):
        dynamic.lookup_table(data, keys=[65536], values=[1.0])
    with pytest.raises(ArgumentError, match="of dtype bool, int16"):
        dynamic.lookup_table(data.astype(float))


def test_compression_loses_more_at_lower_quality():
    errors = [np.abs(dynamic.jpeg_compression_distortion(PHOTO, quality=quality).array.astype(int) - PHOTO).mean()
              for quality in (1, 10, 50, 90, 100)]  # fmt: skip
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 6 < errors[0]
    for beyond, nearest in ((-5, 1), (0, 1), (1000, 100)):
        assert np.array_equal(dynamic.jpeg_compression_distortion(PHOTO, quality=beyond).array,
                              dynamic.jpeg_compression_distortion(PHOTO, quality=nearest).array)  # fmt: skip


def test_compression_takes_grey_images_and_refuses_what_no_file_holds():
    gray = PHOTO[..., 0]
    found = dynamic.jpeg_compression_distortion(gray, quality=90).array
    assert 0 < np.abs(found.astype(int) - gray).mean() < 4
    assert np.array_equal(dynamic.jpeg_compression_distortion(gray[..., None], quality=90).array[..., 0], found)
    with pytest.raises(ArgumentError, match="got 4 channels"):
        dynamic.jpeg_compression_distortion(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(ArgumentError, match="'image' must be at most 65500 pixels high and wide; got 65501 x 1"):
        dynamic.jpeg_compression_distortion(np.zeros((65501, 1, 3), np.uint8))


NAMES = ["brightness", "contrast", "hue", "saturation", "color_twist", "hsv", "equalize"]
EVERY = [
    *((getattr(dynamic, name), {}) for name in NAMES),
    *OPERATORS,
    (dynamic.lookup_table, {"keys": [1], "values": [2.0]}),
]


@pytest.mark.parametrize(("operator", "arguments"), EVERY, ids=lambda x: getattr(x, "name", None))
@pytest.mark.parametrize("layout", ["HWC", "CHW", "FCHW"])
def test_images_may_have_one_pixel(operator, arguments, layout):
    pixel = np.array([7, 99, 250], np.uint8)
    found = operator(
        as_tensor(pixel.reshape([3 if letter == "C" else 1 for letter in layout]), layout=layout), **arguments
    )
    expected = operator(as_tensor(pixel.reshape(1, 1, 3), layout="HWC"), **arguments)
    assert np.array_equal(found.array.ravel(), expected.array.ravel())


# --- against DALI itself
