"""Filters: against plain sums over windows, by hand, and as DALI does it where DALI runs on the CPU."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays

import dynamic
from dynamic import ArgumentError, EvalContext, as_tensor, gaussian_blur, laplacian
from dynamic.dtypes import convert
from dynamic.experimental import dilate, erode, median_blur
from dynamic.kernels.cpu import filters as kernels
from dynamic.ops import filters

PADS = {"reflect_101": "reflect", "reflect_1001": "symmetric", "clamp": "edge", "wrap": "wrap", "constant": "constant"}
SHAPES = {"H": (1, 9), "W": (1, 9), "D": (1, 5), "F": (1, 2), "C": (1, 5)}


def windows_of(image, layout, size, anchor, border="reflect_101", fill=0):
    """For each place of a window the values that lie there, as float64, and the indices of the place."""
    around, spatial = [(0, 0)] * image.ndim, [i for i, letter in enumerate(layout) if letter not in "CF"]
    for axis, extent, before in zip(spatial, size, anchor, strict=True):
        around[axis] = (before, extent - 1 - before)
    values = {"constant_values": fill} if border == "constant" else {}
    padded = np.pad(image.astype(np.float64), around, PADS[border], **values)
    for place in itertools.product(*map(range, size)):
        part = [slice(None)] * image.ndim
        for axis, start in zip(spatial, place, strict=True):
            part[axis] = slice(start, start + image.shape[axis])
        yield place, padded[tuple(part)]


def correlated(image, layout, kernel, anchor=None, border="reflect_101", fill=0):
    anchor = [extent // 2 for extent in kernel.shape] if anchor is None else anchor
    around = windows_of(image, layout, kernel.shape, anchor, border, fill)
    return sum(kernel[place] * values for place, values in around)


def gaussian(size, sigma):
    weights = [math.exp(-((i - size // 2) ** 2) / (2 * sigma**2)) for i in range(size)]
    return np.array(weights) / sum(weights)


def outer(windows):
    return np.array(math.prod(np.ix_(*windows)))


@st.composite
def images(draw, layouts, dtypes=("uint8", "int16", "float32"), **extents):
    layout = draw(st.sampled_from(layouts))
    shape = tuple(draw(st.integers(*(SHAPES | extents).get(letter, (1, 9)))) for letter in layout)
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    values = np.random.default_rng(draw(st.integers(0, 99)))
    image = (values.integers(0, 255, shape) if dtype.kind in "iu" else values.normal(0, 9, shape)).astype(dtype)
    image.flags.writeable = False
    return image, layout


def agree(found, expected, dtype, levels=0.5001, largest=1.0):
    """Whether values are the expected ones after saturation: half a level off for integers, or rounding for floats.

    `largest` is what the terms may add up to that cancel each other.
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        np.testing.assert_allclose(found, np.clip(expected, limits.min, limits.max), rtol=0, atol=levels)
    else:
        scale = max(largest, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=scale * (2e-3 if dtype.itemsize == 2 else 1e-5))


LAYOUTS = ["HW", "HWC", "CHW", "FHWC", "FCHW", "W", "WC", "CW", "DHW", "DHWC", "CDHW", "FDHWC", "XY", "HCW"]


@given(image=images(LAYOUTS), data=st.data())
def test_a_blur_is_a_sum_of_weighted_neighbours(image, data):
    image, layout = image
    count = sum(letter not in "CF" for letter in layout)
    sizes = data.draw(st.lists(st.sampled_from([1, 3, 5, 9]), min_size=count, max_size=count))
    sigmas = [0.3 * ((size - 1) / 2 - 1) + 0.8 for size in sizes]
    expected = correlated(image, layout, outer(list(map(gaussian, sizes, sigmas))))
    found = gaussian_blur(as_tensor(image, layout=layout), window_size=tuple(sizes))
    assert (found.layout, found.dtype) == (layout, image.dtype.name)
    agree(found.array, expected, image.dtype, 0.501)
    whole = gaussian_blur(as_tensor(image, layout=layout), window_size=tuple(sizes), dtype="float32")
    agree(whole.array, expected, "float32")


def test_a_part_of_the_rows_is_all_that_a_thread_writes(monkeypatch):
    """Also where its windows reach all rows: what another thread wrote would be lost, or added to."""
    image = np.random.default_rng(1).integers(0, 9999, (7, 5, 1), dtype=np.uint64)
    terms = filters._derivatives(5, None, 1.5, 2, normalized=False)
    expected, out = np.empty(image.shape), np.full(image.shape, -1.0)
    kernels.laplacian(image, terms, expected)
    monkeypatch.setattr(kernels.pool, "WORTH_SPLITTING", 0)
    for rows in (slice(0, 5), slice(5, 7)):
        monkeypatch.setattr(kernels.pool, "split", lambda function, *_, rows=rows: function(rows))
        kernels.laplacian(image, terms, out)
        np.testing.assert_array_equal(out[: rows.stop], expected[: rows.stop])
        assert (out[rows.stop :] == -1).all()


@given(sigma=st.floats(0.25, 3, width=32))
def test_a_sigma_says_how_large_the_window_is(sigma):
    impulse = np.zeros(41, np.float64)
    impulse[20] = 1
    size = 2 * math.ceil(3 * sigma) + 1
    found = gaussian_blur(as_tensor(impulse, layout="W"), sigma=sigma).array
    np.testing.assert_allclose(found[20 - size // 2 : 21 + size // 2], gaussian(size, sigma), atol=1e-12)
    assert np.count_nonzero(found) <= size
    both = gaussian_blur(as_tensor(impulse, layout="W"), sigma=sigma, window_size=5).array
    np.testing.assert_allclose(both[18:23], gaussian(5, sigma), atol=1e-12)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_is_filtered(dtype):
    image = np.random.default_rng(3).integers(0, 2, (6, 7, 2)).astype(dtype)
    values = correlated(image, "HWC", outer([gaussian(3, 0.8)] * 2))
    kernel, edges = np.array([[1.0, -3.0], [0.5, 2.0]]), np.array([[2, 0, 2], [0, -8, 0], [2, 0, 2]])
    laid = as_tensor(image, layout="HWC")
    for made, expected in [
        (gaussian_blur(laid, window_size=3), values),
        (dynamic.filter(laid, kernel), correlated(image, "HWC", kernel)),
        (laplacian(laid), correlated(image, "HWC", edges)),
    ]:
        if dtype.kind == "b":
            assert set(np.unique(made.array)) <= {False, True}
        else:
            agree(made.array, expected, dtype)
    for operator, best in ((dilate, np.max), (erode, np.min), (median_blur, np.median)):
        expected = best([values for _, values in windows_of(image, "HWC", (3, 3), (1, 1), "clamp")], 0)
        assert np.array_equal(operator(as_tensor(image, layout="HWC")).array, expected.astype(dtype))


def test_large_integers_keep_more_than_24_bits():
    image = np.full((5, 5), 2**30 + 1, np.int32)
    assert (gaussian_blur(image, window_size=3).array == 2**30 + 1).all()
    assert (dynamic.filter(np.full((3, 3), 2**40 + 1), np.eye(1)).array == 2**40 + 1).all()
    top = np.full((2, 2), 2**64 - 1, np.uint64)
    top[0, 0] -= 1
    assert erode(top).array.tolist() == [[2**64 - 2] * 2] * 2


@pytest.mark.parametrize("layout", ["HWC", "CHW", "WC"])
def test_images_may_have_many_channels(layout):
    image = np.random.default_rng(4).integers(0, 255, [{"C": 300, "H": 4, "W": 3}[letter] for letter in layout])
    image = image.astype(np.uint8)
    windows = outer([gaussian(3, 0.8)] * (len(layout) - 1))
    expected, laid = correlated(image, layout, windows), as_tensor(image, layout=layout)
    agree(gaussian_blur(laid, window_size=3).array, expected, "uint8", 0.501)
    agree(dynamic.filter(laid, windows).array, expected, "uint8", 0.501)
    if layout != "WC":
        assert (dilate(laid).array >= image).all()
        assert median_blur(laid).shape == image.shape


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_infinities_and_the_largest_numbers_are_filtered_without_a_word(dtype):
    for value in (np.inf, np.nan, np.finfo(dtype).max):
        image = np.full((5, 6), value, dtype)
        image[0] = 0
        for made in (gaussian_blur(image, window_size=3), laplacian(image, scale=1e300), laplacian(image, dtype="int8"),
                     dynamic.filter(image, np.full((2, 2), 1e300)), dynamic.filter(image, np.full((2, 2), np.inf)),
                     dynamic.filter(image[..., None, None], np.full((2, 2), 3.0), dtype="uint8"),
                     dynamic.filter(as_tensor(image[None], layout="DHW"), np.full((1, 2, 2), 1e300)),
                     dilate(image), erode(image), median_blur(image)):  # fmt: skip
            assert made.shape[:2] in {image.shape, (1, 5)}
    assert gaussian_blur(np.ones((3, 3), dtype), sigma=1e-300).tolist() == [[1.0] * 3] * 3


def test_float16_is_filtered_in_float32():
    """In float16 the sums along one dimension are infinite, of which others make NaN."""
    image = as_tensor(np.full((1, 1, 1), 18.38, np.float16), layout="DHW")
    assert laplacian(image, window_size=7).tolist() == [[[0.0]]]


def test_without_a_layout_images_have_their_channels_last():
    image = np.random.default_rng(5).normal(size=(6, 5, 3)).astype(np.float32)
    laid = as_tensor(image, layout="HWC")
    for operator, arguments in ((gaussian_blur, {"sigma": 1.0}), (laplacian, {})):
        assert np.array_equal(operator(image, **arguments).array, operator(laid, **arguments).array)
        assert operator(image, **arguments).layout is None
        video = operator(image[None], **arguments)
        assert np.array_equal(video.array[0], operator(laid, **arguments).array)
        for bad in (np.zeros(()), np.zeros((1,) * 6), as_tensor(np.zeros((2, 2)), layout="FC")):
            with pytest.raises(ArgumentError, match="one to three spatial dimensions"):
                operator(bad, **arguments)


def second(size):
    return np.convolve([1, -2, 1], [math.comb(size - 3, k) for k in range(size - 2)])


def binomial(size):
    return np.array([math.comb(size - 1, k) for k in range(size)])


@given(image=images(LAYOUTS), data=st.data())
def test_a_laplacian_sums_second_derivatives(image, data):
    image, layout = image
    count = sum(letter not in "CF" for letter in layout)

    def each(*values):
        return tuple(data.draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    sizes, smoothing = each(3, 5, 7), data.draw(st.sampled_from([None, each(1, 3, 5)]))
    normalized = data.draw(st.booleans())
    scale = (1.0,) * count if normalized else each(0.25, 1.0, -2.0, 0.1)
    kernel = 0
    for axis in range(count):
        lengths = [sizes[axis] if i == axis or smoothing is None else smoothing[i] for i in range(count)]
        term = outer([second(n) if i == axis else binomial(n) for i, n in enumerate(lengths)])
        term = term * (2.0 ** (count + 2 - sum(lengths)) if normalized else scale[axis])
        room = [(max([*sizes, *(smoothing or ())]) - n) // 2 for n in lengths]
        kernel = kernel + np.pad(term, [(n, n) for n in room])
    arguments = {"window_size": sizes, "smoothing_size": smoothing, "normalized_kernel": normalized, "scale": scale}
    expected = correlated(image, layout, kernel)
    found = laplacian(as_tensor(image, layout=layout), **arguments)
    largest = max(1.0, float(np.abs(image.astype(np.float64)).max(initial=0) * np.abs(kernel).sum()))
    agree(found.array, expected, image.dtype, largest=largest)
    real = laplacian(as_tensor(image, layout=layout), dtype="float32", **arguments).array
    agree(real, expected, "float32", largest=largest)


@pytest.mark.parametrize("whole", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_each_value_is_rounded_by_itself(real, whole):
    limits = np.iinfo(whole)
    halves = np.arange(limits.min - 2, limits.max + 2, dtype=real) + np.array(0.5, real)
    around = [halves]
    for _ in range(3):
        around = [np.nextafter(around[0], -np.inf, dtype=real), *around, np.nextafter(around[-1], np.inf, dtype=real)]
    values = np.concatenate([*around, np.array([-0.0, 0.0, 5e-324, -1e-300], real)])
    cut = np.trunc(values)
    exact = np.clip(cut + np.copysign(np.abs(values - cut) >= 0.5, values), limits.min, limits.max).astype(whole)

    def found(values):
        out = np.empty(values.shape, whole)
        kernels.stored(values.copy(), out)
        return out

    np.testing.assert_array_equal(found(values), exact)
    np.testing.assert_array_equal(convert(np, values, np.dtype(whole)), exact)
    for odd, becomes in ((np.nan, 0), (np.inf, limits.max), (-np.inf, limits.min), (1e30, limits.max)):
        np.testing.assert_array_equal(found(np.append(values, np.array(odd, real))), np.append(exact, [becomes]))
    for part in (values < 0, values >= 0, np.abs(values) < 100):  # of which other ways may be taken
        np.testing.assert_array_equal(found(values[part]), exact[part])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_a_pixel_changes_only_those_around_it(dtype):
    image = np.full((600, 1200, 3), 100.49999, np.float32)  # so large that its rows are shared
    plain = gaussian_blur(as_tensor(image, layout="HWC"), window_size=1, dtype=dtype).numpy()
    assert (plain == 100).all()
    image[300, 300] = np.nan
    for threads in (1, 2, 3):
        with EvalContext(num_threads=threads):
            found = np.array(gaussian_blur(as_tensor(image, layout="HWC"), window_size=1, dtype=dtype))
        assert (found[300, 300] == 0).all()
        found[300, 300] = 100
        np.testing.assert_array_equal(found, plain)


def test_halves_are_rounded_away_from_zero_and_large_values_saturate():
    image = np.pad(np.array([[1, 2]], np.int8), 2)
    values = laplacian(image, dtype="float32", scale=0.25).array
    assert (np.abs(values % 1) == 0.5).any()
    assert np.array_equal(laplacian(image, scale=0.25).array, np.trunc(values + np.copysign(0.5, values)))
    for dtype in ("uint8", "int16", "int32"):
        limits = np.iinfo(dtype)
        found = laplacian(as_tensor(image, dtype=dtype), scale=1e30).array
        assert set(np.unique(found)) == {limits.min, 0, limits.max}


@given(image=images(LAYOUTS), data=st.data())
def test_a_filter_sums_what_is_around_each_pixel(image, data):
    image, layout = image
    count = sum(letter not in "CF" for letter in layout)
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))
    kernel = np.random.default_rng(7).integers(-4, 5, shape) / np.float32(8)
    anchor = tuple(data.draw(st.integers(-1, extent - 1)) for extent in shape)
    border, fill = data.draw(st.sampled_from(list(PADS))), data.draw(st.sampled_from([0, 7]))
    places = [extent // 2 if place < 0 else place for place, extent in zip(anchor, shape, strict=True)]
    expected = correlated(image, layout, kernel, places, border, fill)
    found = dynamic.filter(as_tensor(image, layout=layout), kernel, fill, anchor=anchor, border=border)
    assert (found.layout, found.dtype) == (layout, image.dtype.name)
    agree(found.array, expected, image.dtype)
    found = dynamic.filter(as_tensor(image, layout=layout), kernel, fill, anchor=anchor, border=border, dtype="float32")
    agree(found.array, expected, "float32")


@given(image=images(["HW", "HWC", "CHW", "DHW"], H=(4, 9), W=(4, 9), D=(4, 5)), data=st.data())
def test_only_whole_windows_are_valid(image, data):
    image, layout = image
    count = sum(letter not in "CF" for letter in layout)
    shape = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    kernel = np.random.default_rng(8).normal(size=shape)
    same = correlated(image, layout, kernel, [0] * count)
    extents = dict(zip([letter for letter in layout if letter != "C"], shape, strict=True))
    pairs = zip(layout, image.shape, strict=True)
    inside = tuple(slice(extent - extents.get(letter, 1) + 1) for letter, extent in pairs)
    found = dynamic.filter(as_tensor(image, layout=layout), kernel, mode="valid", anchor=0)
    agree(found.array, same[inside], image.dtype)


def test_a_filter_rounds_halves_to_even_and_saturates():
    image = np.arange(8, dtype=np.uint8)[None]
    assert dynamic.filter(image, np.full((1, 1), 0.5)).tolist() == [[0, 0, 1, 2, 2, 2, 3, 4]]
    assert dynamic.filter(image, np.full((1, 1), 0.5), dtype="int32").tolist() == [[0, 0, 1, 2, 2, 2, 3, 4]]
    assert dynamic.filter(image, np.full((1, 1), 1e12)).tolist() == [[0] + [255] * 7]
    assert dynamic.filter(image, np.full((1, 1), -1e12), dtype="int16").tolist() == [[0] + [-32768] * 7]


@given(image=images(["HW", "HWC", "CHW", "FHWC", "FCHW"], ("uint8", "int16", "float32", "int32")), data=st.data())
def test_extremes_and_medians_of_windows(image, data):
    image, layout = image
    border = data.draw(st.sampled_from(["constant", "replicate", "reflect", "reflect_101", "wrap"]))
    width, height = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    x, y = data.draw(st.integers(-1, width - 1)), data.draw(st.integers(-1, height - 1))
    places = height // 2 if y < 0 else y, width // 2 if x < 0 else x
    words = {"constant": "clamp", "replicate": "clamp", "reflect": "reflect_1001"}
    arguments = {"mask_size": (width, height), "anchor": (x, y), "border_mode": border}
    laid = as_tensor(image, layout=layout)
    for operator, best in ((dilate, np.max), (erode, np.min)):
        expected = image
        for times in (1, 2):
            around = windows_of(expected, layout, (height, width), places, words.get(border, border))
            expected = best([values for _, values in around], 0)
            assert np.array_equal(operator(laid, iterations=times, **arguments).array, expected)
    sizes = 2 * width - 1, 2 * height - 1
    around = windows_of(image, layout, sizes[::-1], (height - 1, width - 1), "clamp")
    expected = np.median([values for _, values in around], 0)
    assert np.array_equal(median_blur(laid, window_size=sizes).array, expected)


@given(image=arrays("float32", (5, 6)))
def test_eroding_is_dilating_the_negative(image):
    assert np.array_equal(erode(image, mask_size=(2, 3)).array, -dilate(-image, mask_size=(2, 3)).array)


def test_what_is_outside_is_never_the_largest():
    image = np.full((3, 3), -5, np.float32)
    assert (dilate(image).array == -5).all()
    assert (erode(-image).array == 5).all()


@pytest.mark.parametrize("size", [3, 5, 7, 9])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_square_medians_of_bytes(size, channels):
    image = np.random.default_rng(9).integers(0, 255, (6, 5, channels)).astype(np.uint8)
    expected = np.median([v for _, v in windows_of(image, "HWC", (size, size), (size // 2,) * 2, "clamp")], 0)
    assert np.array_equal(median_blur(image, window_size=size).array, expected)


@pytest.mark.parametrize(("call", "told"), [
    (lambda x: gaussian_blur(x), "'sigma' must be above 0 where window_size is 0"),
    (lambda x: gaussian_blur(x, window_size=(3, 0)), "'sigma' must be above 0"),
    (lambda x: gaussian_blur(x, window_size=4), "'window_size' must be odd; got 4"),
    (lambda x: gaussian_blur(x, sigma=-1.0), "'sigma' must be"),
    (lambda x: gaussian_blur(x, sigma=(1.0, 1.0, 1.0)), "'sigma' must be one value or 2"),
    (lambda x: laplacian(x, window_size=1), "'window_size' must be an odd integer in"),
    (lambda x: laplacian(x, window_size=33), "'window_size' must be"),
    (lambda x: laplacian(x, smoothing_size=2), "'smoothing_size' must be an odd integer in"),
    (lambda x: laplacian(x, scale=2.0, normalized_kernel=True), "'scale' must be left out with normalized_kernel=True"),
    (lambda x: dynamic.filter(x, np.ones(3)), "'filter' must be of 2 dimensions"),
    (lambda x: dynamic.filter(x, np.ones((0, 3))), "'filter' must be of at least one weight"),
    (lambda x: dynamic.filter(x, np.ones((9, 1)), mode="valid"), "'filter' must be no larger than the image"),
    (lambda x: dynamic.filter(x, np.ones((2, 3)), anchor=(2, 0)), "'anchor' must be less than"),
    (lambda x: dynamic.filter(x, np.ones((2, 3)), [1, 2]), "'fill_value' must be one number"),
    (lambda x: dynamic.filter(x, np.ones((2, 3)), border="mirror"), "'border' must be one of"),
    (lambda x: median_blur(x, window_size=(3, 4)), "'window_size' must be odd"),
    (lambda x: dilate(x, mask_size=(3, 2), anchor=(2, 2)), "'anchor' must be less than the extent of the mask"),
    (lambda x: erode(x, border_mode="mirror"), "'border_mode' must be one of"),
])  # fmt: skip
def test_wrong_arguments_are_named(call, told):
    with pytest.raises(ArgumentError, match=told):
        call(np.zeros((4, 5), np.uint8))


@given(st.lists(st.tuples(st.just(0.0) | st.floats(2**-10, 9, width=32), st.sampled_from([1, 3, 5, 31])), min_size=1,
                max_size=5))  # fmt: skip
def test_the_windows_of_many_blurs_are_those_of_each(cases):
    """Windows do not depend on what else is in a batch."""
    cases = (*cases, (2.5, 0))
    together = filters._gaussians(cases)
    assert [window.tobytes() for window in together] == [filters._gaussians((each,))[0].tobytes() for each in cases]


@pytest.mark.parametrize(("other", "word"), [("101", "reflect_101"), ("1001", "reflect_1001"), ("edge", "clamp"),
                                             ("fill", "constant")])  # fmt: skip
def test_borders_have_other_names(other, word):
    image, kernel = np.random.default_rng(1).integers(0, 255, (7, 8, 3), np.uint8), np.ones((5, 3), np.float32) / 15
    found, expected = (dynamic.filter(image, kernel, 9, border=border).array for border in (other, word))
    assert np.array_equal(found, expected)
