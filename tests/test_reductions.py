"""Reductions: their values against exact and float64 ones, types, layouts and errors; and as DALI has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, FLOATS, INTEGERS, any_dtype, arrays

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor, reductions
from dynamic.dtypes import convert

NAMES = ("sum", "mean", "mean_square", "rms", "max", "min", "variance", "std_dev")
each = pytest.mark.parametrize("name", NAMES)
flags = st.booleans()


def reference(name, array, axes, *, ddof=0, keep_dims=False):
    """What float64 makes of it, or exact integers."""
    how = {"axis": axes, "keepdims": keep_dims}
    with np.errstate(all="ignore"):
        if name in {"max", "min"}:
            return (np.fmax if name == "max" else np.fmin).reduce(array, **how)
        if name == "sum":
            return np.add.reduce(array, dtype={"f": "f8", "i": "i8"}.get(array.dtype.kind, "u8"), **how)
        real = array.astype(np.float64)
        if name in {"variance", "std_dev"}:
            value = np.var(real, ddof=ddof, **how)
        else:
            value = np.mean(real if name == "mean" else real * real, **how)
        return np.sqrt(value) if name in {"rms", "std_dev"} else value


def usual(name, kind):
    """The dtype of a result where none is asked for."""
    kind = kind.newbyteorder("=")
    if name in {"max", "min"}:
        return kind
    if name == "sum" and kind.kind in "bui":
        return np.dtype("i8" if kind.kind == "i" else "u8")
    return np.dtype("f8" if kind == np.float64 else "f4")


@st.composite
def shaped(draw, kinds=any_dtype):
    """An array, some of its dimensions, and these as an argument."""
    kind = draw(kinds)
    extents = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 5, 7, 33, 70]), max_size=4))
    if extents and draw(flags):
        extents[draw(st.integers(0, len(extents) - 1))] = 1500
    while math.prod(extents) > 50000:
        extents[extents.index(max(extents))] = 2
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    if kind.kind == "f":
        array = generator.normal(3, 20, extents).astype(kind)
    else:
        array = np.asarray(generator.integers(0, 256, (*extents, kind.itemsize), np.uint8)).view(kind)[..., 0]
        array = array if kind.kind != "b" else np.asarray(generator.random(extents) < 0.5)
    if draw(flags):
        array = np.asarray(array.transpose(draw(st.permutations(range(array.ndim)))))
    array.flags.writeable = False
    axes = draw(st.none() | st.lists(st.integers(0, max(0, array.ndim - 1)), unique=True, max_size=array.ndim))
    argument = axes if axes is None else [a - array.ndim if draw(flags) else a for a in axes]
    return array, tuple(range(array.ndim)) if axes is None else tuple(axes), argument


def near(found, expected, scale):
    """As near as the type of the result allows; a sum of float64 as near as its order."""
    step = {2: 1e-3, 4: 3e-7, 8: 1e-12}[found.dtype.itemsize]
    with np.errstate(over="ignore"):
        expected = expected.astype(found.dtype).astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=step, atol=scale * 1e-12)


@each
@given(drawn=shaped(), keep_dims=flags)
def test_values_are_those_of_float64_and_integers_are_exact(name, drawn, keep_dims):
    array, axes, argument = drawn
    found = getattr(reductions, name)(array, axes=argument, keep_dims=keep_dims)
    expected = reference(name, array, axes, keep_dims=keep_dims)
    assert found.dtype == usual(name, array.dtype)
    assert found.shape == expected.shape
    if found.array.dtype.kind == "f":
        square = 2 if name in {"mean_square", "variance"} else 1
        scale = float(np.abs(array.astype(np.float64)).max(initial=0)) ** square * array.size
        near(found.array, expected, scale)
    else:
        assert np.array_equal(found.array, expected)


@given(value=st.floats(-1e100, 1e100, width=64) | st.integers(-(2**63), 2**63 - 1), count=st.integers(1, 99))
def test_a_constant_is_its_mean_and_has_no_deviation(value, count):
    for constant in (np.full(count, value), np.full((count, 2), value)):
        axes = 0 if constant.ndim > 1 else None
        assert (reductions.mean(constant, axes=axes, dtype="float64").array == np.float64(value)).all()
        assert (reductions.variance(constant, axes=axes).array == 0).all()
        assert (reductions.std_dev(as_batch([constant]), axes=axes).samples[0] == 0).all()


@each
@given(kind=any_dtype, letters=st.permutations("DHWC"), keep_dims=flags)
def test_letters_name_dimensions_and_go_with_them(name, kind, letters, keep_dims):
    image = as_tensor(np.arange(24).reshape(2, 3, 4).astype(kind), layout="HWC")
    names = "".join(letter for letter in letters[:2] if letter in "HWC")
    axes = ["HWC".index(letter) for letter in names]
    found = getattr(reductions, name)(image, axis_names=names, keep_dims=keep_dims)
    by_number = getattr(reductions, name)(image, axes=axes, keep_dims=keep_dims)
    assert found.layout == by_number.layout == ("HWC" if keep_dims else "".join(c for c in "HWC" if c not in names))
    assert np.array_equal(found.array, by_number.array)
    assert getattr(reductions, name)(image).layout is None
    assert getattr(reductions, name)(as_batch([image, image])[0:0], axes=axes, keep_dims=keep_dims).ndim == found.ndim


@given(arrays())
def test_no_dimensions_to_reduce_leave_the_values(array):
    for name in ("max", "min", "mean", "rms"):
        found = getattr(reductions, name)(array, axes=[]).array
        assert found.shape == array.shape
        expected = array.astype(usual(name, array.dtype))
        assert np.array_equal(found, np.abs(expected) if name == "rms" else expected)
    assert (reductions.variance(array, axes=[]).array == 0).all()
    distance = reductions.std_dev(array, 1, axes=[]).array
    assert np.allclose(distance, np.abs(array.astype(np.float64) - 1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ALL_DTYPES, ids=str)
def test_of_nothing(kind):
    nothing = np.zeros((0, 3), kind)
    for axes, shape in ((None, ()), (0, (3,)), (1, (0,))):
        found = {name: getattr(reductions, name)(nothing, axes=axes).array for name in NAMES}
        assert {result.shape for result in found.values()} == {shape}
        assert (found["sum"] == 0).all()
        for name in ("mean", "mean_square", "rms", "variance", "std_dev"):
            assert np.isnan(found[name]).all()
        limits = np.finfo(kind) if kind.kind == "f" else None if kind.kind == "b" else np.iinfo(kind)
        assert (found["max"] == (limits.min if limits else False)).all()
        assert (found["min"] == (limits.max if limits else True)).all()
    assert reductions.mean(nothing, dtype="uint8").tolist() == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ALL_DTYPES, ids=str)
def test_no_rows_have_no_results_however_long_they_would_be(name, kind):
    for shape, axes in (((0, 64), 1), ((4, 0, 8, 1), (0, 2)), ((0, 64, 3), 1), ((0, 5000, 4), 1)):
        kept = tuple(extent for axis, extent in enumerate(shape) if axis not in np.atleast_1d(axes))
        assert getattr(reductions, name)(np.zeros(shape, kind), axes=axes).shape == kept


def test_nan_and_infinity():
    inf, nan = np.inf, np.nan
    for values, least, most in (
        ([nan, 1, 2], 1, 2),
        ([1, nan], 1, 1),
        ([-inf, -inf], -inf, -inf),
        ([inf, nan], inf, inf),
    ):
        assert reductions.min(np.float32(values)).tolist() == least
        assert reductions.max(np.float32(values)).tolist() == most
    assert np.isnan(reductions.max(np.float32([nan, nan])).array)
    for name in ("sum", "mean", "rms", "variance"):
        assert np.isnan(getattr(reductions, name)(np.float32([nan, 1])).array)
    assert np.isnan(reductions.sum(np.float32([inf, -inf])).array)
    assert reductions.rms(np.float32([inf, 1])).tolist() == inf


@given(st.sampled_from(INTEGERS), st.sampled_from([d for d in ALL_DTYPES if d.kind != "b"]), shaped())
def test_a_dtype_that_is_asked_for_is_converted_to_as_by_cast(kind, want, drawn):
    array = np.asarray(drawn[0]).astype(kind)
    for name in ("sum", "mean", "mean_square", "rms"):
        exact = np.asarray(reference(name, array, drawn[1]))
        found = getattr(reductions, name)(array, axes=drawn[1], dtype=want.name)
        assert found.dtype == want
        expected = ndd.cast(exact, dtype=want.name).array
        if want.kind == "f":
            np.testing.assert_allclose(found.array, expected, rtol=1e-6 if want != np.float16 else 1e-3)
        else:
            assert (np.abs(found.array.astype(object) - expected.astype(object)) <= np.abs(exact) * 1e-14).all()


def test_integers_are_rounded_and_saturated():
    assert reductions.sum(np.uint8([200, 100]), dtype="uint8").tolist() == 255
    assert reductions.mean([-5, 0], dtype="int32").tolist() == -3
    assert reductions.mean(np.uint8([200, 100, 57, 255, 255, 3]), dtype="uint8").tolist() == 145
    assert reductions.sum(np.full(3, 2**62)).tolist() == 3 * 2**62 - 2**64
    assert reductions.rms(np.full(3, 2**40)).tolist() == 2**40
    assert reductions.mean(np.full(3, 2**62)).tolist() == 2**62


@given(drawn=shaped(st.sampled_from(FLOATS)), ddof=st.integers(0, 3), keep_dims=flags)
def test_distances_may_be_from_a_mean_that_is_given(drawn, ddof, keep_dims):
    array, axes, argument = drawn
    count = math.prod(array.shape[axis] for axis in axes)
    mean = reductions.mean(array.astype(np.float64), axes=argument, keep_dims=keep_dims)
    for name in ("variance", "std_dev"):
        operator = getattr(reductions, name)
        own = operator(array, axes=argument, ddof=ddof, keep_dims=keep_dims)
        given_ = operator(array, mean, axes=argument, ddof=ddof, keep_dims=keep_dims)
        np.testing.assert_allclose(given_.array, own.array, rtol=1e-6, atol=1e-10)
        if count < ddof or count == ddof == 0:
            assert not np.isfinite(own.array).any()
        assert own.shape == given_.shape
        if count > ddof:
            exact = reference(name, array, axes, ddof=ddof, keep_dims=keep_dims)
            near(own.array, exact, float(np.abs(array).max(initial=0)) ** 2)
    if count:
        assert np.allclose(
            reductions.std_dev(array, 0, axes=argument).array, reductions.rms(array, axes=argument).array
        )


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint16", "float16", "float32", "int32", "float64"])
def test_a_given_mean_keeps_all_its_digits(kind):
    constant = np.full(5000, 100 if np.dtype(kind).itemsize == 1 else 30000).astype(kind)
    drawn = np.random.default_rng(0).integers(90, 110, (70, 60, 3)).astype(kind)
    for array, axes in ((constant, (0,)), (drawn, (0, 1)), (drawn, (0, 1, 2)), (drawn, (2,)), (drawn, ())):
        exact = array.astype(np.float64)
        for mean in (100 + 1e-9, float(exact.flat[0]) + 1e-3, 99.123456789, 1e-9, -3e38, 1e39):
            distances = ((exact - mean) ** 2).mean(axis=axes)
            for name, expected in (("variance", distances), ("std_dev", distances**0.5)):
                found = getattr(reductions, name)(array, np.float64(mean), axes=axes).array
                np.testing.assert_allclose(found, convert(np, expected[None], found.dtype)[0], rtol=1e-6)
    given_ = as_batch(np.float64([100 + 1e-9, 100, np.inf, np.nan, 1e300]))
    each = reductions.variance(as_batch([drawn] * 5), given_, axes=(0, 1))
    alone = [reductions.variance(drawn, mean, axes=(0, 1)) for mean in given_]
    assert all(np.array_equal(a.array, b.array, equal_nan=True) for a, b in zip(each, alone, strict=True))
    assert np.isnan(each[3].array).all()
    assert np.isinf([each[2].array, each[4].array]).all()


def test_means_of_samples():
    images = [np.arange(24, dtype=np.uint8).reshape(4, 2, 3), np.arange(6, dtype=np.uint8).reshape(1, 2, 3)]
    whole = as_batch(np.stack([images[0], images[0] * 2]))
    for batch in (as_batch(images), whole):
        for axes in (None, (0, 1), 2, ()):
            for keep_dims in (False, True):
                mean = reductions.mean(batch, axes=axes, keep_dims=keep_dims)
                for centre in (mean, as_batch([1.0, 2.0]), as_batch([[3], [4]]), 5.0, np.int32([[6]])):
                    found = reductions.variance(batch, centre, axes=axes)
                    for i, result in enumerate(found):
                        one = centre[i] if isinstance(centre, ndd.Batch) else centre
                        assert np.array_equal(result.array, reductions.variance(batch[i], one, axes=axes).array)
    expected = [reference("std_dev", image, (0, 1)) for image in images]
    found = reductions.std_dev(as_batch(images, layout="HWC"), axis_names="HW")
    assert found.layout == "C"
    assert all(np.allclose(a, b) for a, b in zip(found.samples, expected, strict=True))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"axes": 3}, r"'axes' must be different dimensions in \[-3, 2\]; got int 3"),
    ({"axes": [0, -4]}, "'axes' must be different"),
    ({"axes": [0, -3]}, "'axes' must be different dimensions"), ({"axis_names": "X"}, "must be different letters of"),
    ({"axis_names": "HH"}, "different letters"), ({"axis_names": "H", "axes": 1}, "left out when 'axes' is given"),
    ({"axes": 1.5}, "'axes' must be an integer or a sequence")])  # fmt: skip
@each
def test_wrong_dimensions_are_named(name, arguments, told):
    image = as_tensor(np.zeros((2, 3, 4), np.float32), layout="HWC")
    for data in (image, as_batch([image] * 2), as_batch([image])[0:0]):
        with pytest.raises(ArgumentError, match=rf"reductions\.{name}\(\): argument .*{told}"):
            getattr(reductions, name)(data, **arguments)
    with pytest.raises(ArgumentError, match="no layout"):
        getattr(reductions, name)(np.zeros((2, 3)), axis_names="H")
    with pytest.raises(ArgumentError, match="no dimensions"):
        getattr(reductions, name)(np.zeros(()), axes=0)


def test_a_mean_of_another_shape_is_refused():
    for mean in (np.zeros(2), np.zeros((2, 3)), np.zeros((3, 1))):
        with pytest.raises(
            ArgumentError, match=r"reductions.std_dev\(\): argument 'mean' must be one number, or of shape"
        ):
            reductions.std_dev(np.zeros((2, 3)), mean, axes=0)
    with pytest.raises(ArgumentError, match="'ddof'"):
        reductions.variance(np.zeros(3), ddof=-1)


@given(st.integers(0, 1000), st.sampled_from(FLOATS[1:]), st.floats(-4, 6))
def test_sums_are_as_exact_as_their_type(seed, kind, exponent):
    array = np.random.default_rng(seed).normal(10**exponent, 1, (500, 41)).astype(kind)
    exact = math.fsum(array.ravel().tolist())
    found = reductions.sum(array).tolist()
    noise = math.fsum(np.abs(array).ravel().tolist()) * 1e-15
    assert abs(found - exact) <= noise + (np.spacing(np.float32(abs(exact))) / 2 if kind == np.float32 else 0)
    assert reductions.mean(array).tolist() == pytest.approx(exact / array.size, rel=6.1e-8, abs=noise)
    deviation = float(np.std(array.astype(np.longdouble)))
    assert reductions.std_dev(array).tolist() == pytest.approx(deviation, rel=1e-7)


@each
@pytest.mark.parametrize("kind", ["uint8", "uint16", "int16", "float32", "int32", "float64", "int8"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_images_of_usual_size(name, kind, channels):
    image = (np.random.default_rng(2).normal(60, 20, (131, 177, channels))).astype(kind)
    for axes in ((0, 1, 2), (0, 1), (1,), (0,), (2,), (0, 2)):
        found = getattr(reductions, name)(image, axes=axes).array
        np.testing.assert_allclose(found, reference(name, image, axes), rtol=1e-6, atol=1e-5)


def test_a_mean_that_is_no_number():
    for shape in ((300, 200, 3), (4, 2, 3)):
        for kind in ("uint8", "float32"):
            image = np.ones(shape, kind)
            for mean in (np.nan, np.inf):
                found = reductions.variance(image, np.array([0, mean, 1], np.float32), axes=(0, 1)).tolist()
                assert np.array_equal(found, [1, mean, 0], equal_nan=True)


@each
@given(kind=any_dtype, seed=st.integers(0, 99))
def test_whole_batches_are_their_samples_bit_for_bit(name, kind, seed):
    generator = np.random.default_rng(seed)
    extents = (3, 70, 80, 3) if seed % 2 else (3, 20, 45, 3)
    array = (generator.normal(size=extents) * 90).astype(kind)
    for axes in (None, (0, 1), (1, 2), 0, 1, 2, (0, 2)):
        operator = getattr(reductions, name)
        whole = operator(as_batch(array), axes=axes)
        assert whole.whole is not None
        for i, sample in enumerate(array):
            alone = operator(sample, axes=axes).array
            assert np.array_equal(whole[i].array, alone, equal_nan=kind.kind == "f")


@pytest.mark.parametrize("name", ["sum", "mean"])
@given(
    kind=st.sampled_from(["u1", "u2", "i2", "f4", "i4", "f8"]), channels=st.integers(1, 5), whole=flags, data=st.data()
)
def test_photos_are_added_up_as_if_alone(name, kind, channels, whole, data):  # fmt: skip
    """What is one call of OpenCV for each sample is done for all of a Batch in a loop of its own, in threads."""
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    sides = data.draw(st.lists(st.tuples(st.integers(20, 60), st.integers(40, 60)), min_size=2, max_size=4))
    sides = [sides[0]] * len(sides) if whole else sides
    samples = [generator.normal(60, 20, (*side, channels)).astype(kind) for side in sides]
    samples = [sample[::-1, ::-1] if data.draw(flags) else sample for sample in samples]
    axes = data.draw(st.sampled_from([None, (0, 1), (1, 0), 0, 2]))
    how = {"axes": axes, "keep_dims": data.draw(flags), "dtype": data.draw(st.sampled_from([None, None, ndd.int16]))}
    function = getattr(reductions, name)
    with ndd.EvalContext(num_threads=data.draw(st.integers(1, 3))), pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynamic._base.pool._worth_sharing", 0)
        found = function(as_batch(samples * 2), **how)
    for sample, result in zip(samples * 2, found, strict=True):
        alone = function(as_tensor(sample), **how).array
        assert (result.array.dtype, result.shape) == (alone.dtype, alone.shape)
        assert np.array_equal(result.array, alone)


# -- live


def test_types_that_dali_allows(dali: Oracle):
    for kind in (*INTEGERS, np.dtype(np.float32)):
        array = np.array([[3, 4], [5, 2]], kind)
        for want in {kind.name, usual("sum", kind).name, "float32"}:
            for name in ("sum", "mean", "rms"):
                if name != "sum" and want not in {kind.name, "float32"}:
                    continue
                if name == "sum" and want == "float32" and kind.itemsize == 8:
                    continue
                expected = dali.call(f"reductions.{name}", [array], dtype=want)
                found = getattr(reductions, name)(array, dtype=want)
                assert str(found.dtype) == expected.dtype
                away = 1 if name != "sum" and want == kind.name and kind.kind != "f" else 1e-6  # cut off there
                assert abs(float(found.array) - float(expected.array)) <= away, (name, kind, want)


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["max", "min"])
@given(height=st.integers(20, 50), width=st.integers(20, 80), kind=any_dtype, seed=st.integers(0, 99))
def test_extremes_of_the_channels_of_images(name, channels, height, width, kind, seed):
    rng = np.random.default_rng(seed)
    image = (rng.normal(0, 50, (height, width, channels)) if kind.kind == "f" else
             rng.integers(0, 2 if kind.kind == "b" else 120, (height, width, channels))).astype(kind)  # fmt: skip
    if kind.kind == "f":
        image[rng.random(image.shape) < 0.1] = np.nan
    place = tuple(rng.integers(image.shape))
    image[place] = {"max": 1, "min": 0}[name] if kind.kind == "b" else {"max": 121, "min": 0}[name]
    found = getattr(reductions, name)(as_tensor(image, layout="HWC"), axis_names="HW")
    np.testing.assert_array_equal(found, reference(name, image, (0, 1)))
