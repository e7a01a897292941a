"""Normalising by mean and deviation: against plain NumPy, by hand, and as DALI does it."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES

from dynamic import (
    ArgumentError,
    EvalContext,
    ScaleWarning,
    as_batch,
    as_tensor,
    cast,
    crop_mirror_normalize,
    normalize,
)

LAYOUTS = ["HWC", "CHW", "HW", "FHWC", "FCHW", "W", "XYZW"]


def kept(image, axes):
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(image.shape))


def normalized(image, axes, mean=None, stddev=None, ddof=0, epsilon=0.0, scale=1.0, shift=0.0):
    """The definition, in float64."""
    x = image.astype(np.float64)
    axes = tuple(axes)
    mean = x.mean(axes, keepdims=True) if mean is None else mean
    if stddev is None:
        count = np.prod([x.shape[axis] for axis in axes], dtype=int) - ddof
        variance = ((x - mean) ** 2).sum(axes, keepdims=True) / count if count > 0 else np.zeros(kept(x, axes))
        stddev = np.sqrt(variance + epsilon)
    elif epsilon:
        stddev = np.sqrt(np.square(stddev) + epsilon)
    stddev = np.asarray(stddev, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return scale * np.where(stddev == 0, 0, (x - mean) / stddev) + shift


def close(found, expected):
    atol = 2e-5 * max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@st.composite
def images(draw, dtypes=("uint8", "int16", "float32", "uint16", "int32"), layouts=LAYOUTS, most=9):
    layout = draw(st.sampled_from(layouts))
    shape = draw(st.tuples(*[st.integers(1, 5 if letter in "FC" else most) for letter in layout]))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 100, shape)
    image = values.astype(draw(st.sampled_from(dtypes)))
    image.flags.writeable = False
    return image, layout, sorted(draw(st.sets(st.integers(0, len(layout) - 1), min_size=1)))


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "ddof": st.integers(0, 3),
        "epsilon": st.sampled_from([0.0, 0.5, 9.0]),
        "scale": st.floats(-3, 3, width=16),
        "shift": st.floats(-3, 3, width=16),
    },
)


@given(image=images(), options=OPTIONS)
def test_values_are_normalised_over_some_dimensions(image, options):
    image, layout, axes = image
    expected = normalized(image, axes, **options)
    laid = as_tensor(image, layout=layout)
    names = "".join(layout[axis] for axis in reversed(axes))
    for arguments in ({"axes": axes}, {"axis_names": names}, {"axes": [axis - image.ndim for axis in axes]}):
        found = normalize(laid, **arguments, **options)
        assert (found.layout, found.dtype) == (layout, "float32")
        close(found.array, expected)
    close(normalize(laid, **options).array, normalized(image, range(image.ndim), **options))
    close(normalize(laid, axes=axes, dtype="float64", **options).array, expected)


@pytest.mark.parametrize("shape", [(300, 500, 3), (3, 300, 500), (300, 500), (2, 3, 200, 200), (150000,), (99, 300, 7)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_large_arrays_are_normalised_part_by_part(shape, dtype):
    image = np.random.default_rng(1).integers(0, 255, shape).astype(dtype)
    for axes in {(0,), tuple(range(len(shape))), tuple(range(len(shape) - 1)), (len(shape) - 1,), (len(shape) // 2,)}:
        if axes:
            close(normalize(image, axes=axes).array, normalized(image, axes))


def test_what_has_no_deviation_becomes_the_shift():
    for image in (np.full((3, 4), 7, np.uint8), np.full((3, 4), 0.1, np.float32), np.zeros((2, 2), np.int16)):
        assert (normalize(image, shift=3.0).array == 3).all()
    assert (normalize(np.arange(6.0), ddof=6, shift=2.0).array == 2).all()
    given_ = normalize(np.float32([[1, 2], [3, 4]]), mean=0, stddev=[[0, 1], [2, 0]])
    assert given_.tolist() == [[0, 2], [1.5, 0]]
    assert np.isfinite(normalize(np.zeros((0, 3), np.float32)).array).all()
    assert normalize(np.float32(4), shift=1.0).tolist() == 1.0


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int32"])
def test_means_of_fractions_for_integers_are_warned_of(kind):
    image = as_tensor(np.full((8, 9, 3), 100, kind), layout="HWC")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    fractions = {"mean": mean, "stddev": std}
    with pytest.warns(ScaleWarning, match=rf"normalize\(\): arguments 'mean' and 'stddev' are below 1.*{kind}") as told:
        normalize(image, **fractions)
    assert told[0].filename == __file__
    with pytest.warns(ScaleWarning, match="crop_mirror_normalize.*'mean' and 'std'"):
        crop_mirror_normalize(as_batch([image, image]), mean=mean, std=std)
    for values in (cast(image, dtype="float32"), cast(image, dtype="bool")):  # they may be such fractions
        normalize(values, **fractions)
    fine = ((0.0, 1.0), (0.0, 0.5), ([0.5, 100.0], 0.5), (0.5, [0.5, 50.0]), (-0.5, 0.5), (124.0, 58.0))
    for mean, std in fine:
        normalize(image, mean=np.resize(mean, 3), stddev=np.resize(std, 3))
        crop_mirror_normalize(image, mean=np.resize(mean, 3), std=np.resize(std, 3))


@given(data=st.data(), dtype=st.sampled_from(ALL_DTYPES), shift=st.sampled_from([0.0, 0.5, 3.0]),
       scale=st.sampled_from([1.0, 64.0, 1e6]), to=st.sampled_from(["float32", "float64", "int16"]),
       pooled=st.booleans(), ddof=st.integers(0, 1))  # fmt: skip
def test_a_constant_becomes_exactly_the_shift(data, dtype, shift, scale, to, pooled, ddof):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 19, 64]), min_size=1, max_size=3))
    axes = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1), min_size=1).map(sorted))
    apart = [1 if axes is None or i in axes else extent for i, extent in enumerate(shape)]
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    if dtype.kind == "f":
        magnitude = data.draw(st.sampled_from([1e-3, 1.0, 1e3, 1e3 if dtype.itemsize == 2 else 1e18]))
        constants = (generator.normal(size=apart) * magnitude).astype(dtype)
    else:
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        constants = generator.integers(least, most, apart, dtype, endpoint=True)
    image = np.broadcast_to(constants, shape)
    how = {"axes": axes, "ddof": ddof, "scale": scale, "shift": shift, "dtype": to,
           "stddev": data.draw(st.sampled_from([None, 1e-3]))}  # fmt: skip
    expected = cast(np.float64(shift), dtype=to).item()
    assert (normalize(image, **how).array == expected).all()
    for sample in normalize(as_batch([image, image]), batch=pooled, **how).samples:
        assert (sample == expected).all()


@given(
    level=st.sampled_from([1e18, -1e18, 2.0**62, 123456.789, 1 / 3]),
    steps=st.lists(st.integers(-9, 9), min_size=2).filter(lambda steps: len(set(steps)) > 1),
    dtype=st.sampled_from(["float64", "int64", "uint64"]),
)
def test_small_differences_of_large_values_keep_their_digits(level, steps, dtype):
    whole = dtype != "float64"
    first, step = (2**62 + 11, 1) if whole else (level, np.spacing(abs(level)))
    values = np.array([first + by * step for by in steps], dtype)
    found = normalize(values, dtype="float64").array
    if not whole:  # sums of float64 are rounded to its steps
        steps = (values - first) / step
    close(found, normalized(np.array(steps), [0]))


@pytest.mark.parametrize("std", [0.0, [1.0, 0.0, 2.0], 1e-39, -1e-300, 1e39])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_what_cannot_be_divided_by_is_refused_by_name(std, dtype):
    image = as_tensor(np.full((2, 3, 3), 7, dtype), layout="HWC")
    with pytest.raises(ArgumentError, match=r"crop_mirror_normalize\(\): argument 'std' must be") as told:
        crop_mirror_normalize(image, mean=7.0, std=std)
    assert "sample 0 of 1" in told.value.__notes__[0]
    several = as_batch(np.stack([np.ones(3), np.broadcast_to(std, 3)]))
    with pytest.raises(ArgumentError, match="argument 'std' must be") as told:
        crop_mirror_normalize(as_batch([image, image]), std=several)
    assert "sample 1 of 2" in told.value.__notes__[0]
    assert np.isfinite(crop_mirror_normalize(image, std=-1e-37).array).all()


@given(image=images(layouts=["HWC", "CHW", "FHWC"]), data=st.data(), options=OPTIONS)
def test_mean_and_deviation_may_be_given(image, data, options):
    image, layout, axes = image
    laid, values = as_tensor(image, layout=layout), np.random.default_rng(2)
    mean, stddev = (values.uniform(1, 50, kept(image, axes)).astype(np.float32) for _ in range(2))
    which = data.draw(st.sampled_from([("mean",), ("stddev",), ("mean", "stddev")]))
    arrays = {name: array for name, array in (("mean", mean), ("stddev", stddev)) if name in which}
    expected = normalized(image, axes, **arrays, **options)
    inferred = [axis for axis in range(image.ndim) if mean.shape[axis] == 1]
    close(normalize(laid, axes=axes, **arrays, **options).array, expected)
    close(normalize(laid, **arrays, **options).array, normalized(image, inferred, **arrays, **options))
    other = kept(image, data.draw(st.sets(st.integers(0, image.ndim - 1))))
    arrays = {name: values.uniform(1, 50, other) for name in which}
    close(normalize(laid, axes=axes, **arrays, **options).array, normalized(image, axes, **arrays, **options))
    numbers = {name: float(array.flat[0]) for name, array in arrays.items()}
    expected = normalized(image, range(image.ndim), **numbers, **options)
    close(normalize(laid, **numbers, **options).array, expected)
    close(normalize(laid, axes=axes, **numbers, **options).array, normalized(image, axes, **numbers, **options))


def test_a_mean_for_each_channel_needs_no_more_dimensions():
    image = np.random.default_rng(3).integers(0, 255, (5, 6, 3)).astype(np.uint8)
    for mean in ([10, 20, 30], np.array([10, 20, 30]), as_tensor([10, 20, 30]), [[[10, 20, 30]]]):
        found = normalize(image, mean=mean, stddev=(1.0, 2.0, 4.0))
        close(found.array, (image - np.array([10.0, 20, 30])) / [1, 2, 4])


@given(first=images(), options=OPTIONS, data=st.data())
def test_a_batch_may_have_one_mean_and_deviation(first, options, data):
    first, layout, axes = first
    values = np.random.default_rng(4)
    shapes = [tuple(data.draw(st.integers(1, 9)) if axis in axes else extent for axis, extent in enumerate(first.shape))
              for _ in range(2)]  # fmt: skip
    samples = [first, *(values.integers(0, 200, shape).astype(first.dtype) for shape in shapes)]
    flat = [np.moveaxis(x, axes, range(len(axes))).reshape(-1, *kept_part(x, axes)) for x in samples]
    pooled = np.concatenate(flat)
    given_ = data.draw(st.sampled_from([{}, {"mean": 30.0}, {"stddev": 4.0}, {"mean": 30.0, "stddev": 4.0}]))
    expected = normalized(pooled, [0], **given_, **options)
    found = normalize(as_batch(samples, layout=layout), axes=axes, batch=True, **given_, **options)
    start = 0
    for sample, result, part in zip(samples, found.samples, flat, strict=True):
        own = np.moveaxis(result, axes, range(len(axes))).reshape(part.shape)
        close(own, expected[start : start + len(part)])
        start += len(part)
        assert result.shape == sample.shape


def kept_part(image, axes):
    return [extent for axis, extent in enumerate(image.shape) if axis not in axes]


def test_a_pooled_batch_may_have_empty_samples_and_own_means():
    samples = [np.zeros((0, 2), np.float32), np.float32([[1, 2], [3, 6]])]
    found = normalize(as_batch(samples), axes=[0], batch=True)
    assert [x.tolist() for x in found.samples] == [[], [[-1, -1], [1, 1]]]
    found = normalize(as_batch([samples[1], samples[1]]), batch=True, mean=as_batch([0.0, 1.0]))
    deviation = np.sqrt((np.square(samples[1]).mean() + np.square(samples[1] - 1).mean()) / 2)
    close(found.samples[1], (samples[1] - 1) / deviation)
    assert normalize(as_batch([samples[0]] * 2), batch=True).shape == [(0, 2)] * 2


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_is_normalised_to_every_other(dtype):
    image = np.random.default_rng(5).integers(0, 2, (4, 5)).astype(dtype)
    expected = normalized(image, [0, 1], scale=20.0, shift=40.0)
    for to in ALL_DTYPES:
        found = normalize(image, dtype=to, scale=20.0, shift=40.0)
        assert found.array.dtype == to
        if to.kind != "b":
            assert np.abs(found.array - expected).max() <= (0.5001 if to.kind in "iu" else 0.05)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_values_are_rounded_as_cast_rounds_them_whatever_is_beside_them(dtype):
    values = np.array([[100.49999, 100.5, 101.5], [-0.49999997, -0.5, 126.50001], [0.49999997, 2.5, 99.0]], np.float32)
    plain = cast(values, dtype=dtype).numpy()
    np.testing.assert_array_equal(normalize(values, mean=0, stddev=1, dtype=dtype).numpy(), plain)
    for odd in (np.nan, np.inf, -1e30):
        values[2, 2] = odd
        found = normalize(values, mean=0, stddev=1, dtype=dtype).numpy()
        np.testing.assert_array_equal(found.ravel()[:-1], plain.ravel()[:-1])
        assert found[2, 2] == cast(values, dtype=dtype).numpy()[2, 2]


def test_values_are_rounded_and_saturated():
    image = np.float32([[-3, -0.5, 0.5, 1.5, 3]])
    given_ = {"mean": 0, "stddev": 1}
    assert normalize(image, dtype="int8", **given_).tolist() == [[-3, -1, 1, 2, 3]]
    assert normalize(image, dtype="uint8", scale=1000.0, **given_).tolist() == [[0, 0, 255, 255, 255]]
    assert normalize(image, dtype="uint8", scale=1e30, **given_).tolist() == [[0, 0, 255, 255, 255]]
    assert normalize(np.float32([np.nan, 1]), dtype="uint8", **given_).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8"])
def test_infinities_and_the_largest_numbers_are_normalised_without_a_word(dtype):
    largest = np.finfo(dtype).max if dtype != "uint8" else 255
    for value in (np.inf, np.nan, largest) if dtype != "uint8" else (255,):
        image = np.full((5, 6, 3), value, dtype)
        image[0] = 0
        for axes in ((0, 1, 2), (0, 1), (1,), (0,), (2,), (0, 2)):
            for more in ({}, {"mean": 1e300}, {"stddev": 1e-300}, {"scale": 1e300, "dtype": "uint8"}, {"batch": True}):
                assert normalize(image, axes=axes, **more).shape == image.shape
    assert np.abs(normalize(np.array([largest, 0], dtype)).array).max() <= 1.0001


def test_a_small_deviation_beside_a_large_mean_is_found():
    image = np.array([10**9, 10**9 + 1, 10**9 + 7], np.int32)
    close(normalize(image).array, normalized(image, [0]))
    image = np.float32([1e6, 1e6 + 1, 1e6 + 2])
    close(normalize(image).array, normalized(image, [0]))
    image = np.full((200, 300), 250, np.uint8)
    image[0, 0] = 251
    close(normalize(image).array, normalized(image, [0, 1]))
    for dtype, level in (("uint8", 250), ("int16", -32000), ("uint16", 65000)):  # few, which are rows of float32
        image = np.full((30, 40), level, dtype)
        image[0, 0] += 1
        close(normalize(image).array, normalized(image, [0, 1]))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"axes": [2]}, "'axes' must be different dimensions in"), ({"axes": [0, -2]}, "'axes' must be different"),
    ({"axes": []}, "'axes' must be at least one"), ({"axes": 0, "axis_names": "W"}, "'axis_names' must be left out"),
    ({"axis_names": "C"}, "'axis_names' must be different letters of the layout 'HW'"),
    ({"axis_names": ""}, "'axis_names' must be"), ({"axis_names": "HH"}, "'axis_names' must be"),
    ({"mean": [1, 2]}, "'mean' must be a number, or an array that broadcasts"), ({"mean": np.nan}, "'mean' must be"),
    ({"stddev": np.zeros((2, 3, 4))}, "'stddev' must be"), ({"epsilon": -1.0}, "'epsilon' must be"),
    ({"mean": [[1], [2, 3]]}, "'mean' must be finite numbers")])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"normalize\(\): argument {told}"):
        normalize(as_tensor(np.zeros((3, 4)), layout="HW"), **arguments)


def test_samples_that_cannot_be_pooled_are_named():
    batch = as_batch([np.zeros((3, 4)), np.zeros((5, 4))])
    with pytest.raises(ArgumentError, match=r"argument 'image\[1\]' must be of an extent the same in all samples"):
        normalize(batch, axes=[1], batch=True)


@pytest.mark.parametrize("threads", [1, 4])
def test_pooled_values_do_not_depend_on_threads_or_on_the_order_of_memory(threads):
    values = np.random.default_rng(8)
    samples = [values.normal(size=(200, 300, 3)).astype(np.float32) for _ in range(5)]
    expected = normalize(as_batch(samples), axes=[0, 1], batch=True)
    with EvalContext(num_threads=threads):
        found = normalize(as_batch([np.asfortranarray(x) for x in samples]), axes=[0, 1], batch=True)
    assert all(np.array_equal(a, b) for a, b in zip(found.samples, expected.samples, strict=True))


@given(
    seed=st.integers(0, 2**32),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    axes=st.sampled_from([[1], [0, 1]]),
)
def test_the_order_of_memory_changes_no_bit(seed, shape, axes):
    array = np.random.default_rng(seed).normal(3, 2, shape).astype(np.float32)
    found = normalize(array, axes=axes).array
    assert np.array_equal(normalize(np.asfortranarray(array), axes=axes).array, found)
    apart = np.zeros((shape[0], 2 * shape[1]), np.float32)[:, ::2]
    apart[...] = array
    assert np.array_equal(normalize(apart, axes=axes).array, found)
