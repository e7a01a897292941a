"""Shapes, layouts and the order of dimensions: by hand, against NumPy, and as DALI does it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from alike import alike
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays

from dynamic import (
    ArgumentError,
    Batch,
    as_batch,
    as_tensor,
    expand_dims,
    reinterpret,
    reshape,
    squeeze,
    transpose,
)

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
IMAGE.setflags(write=False)
LETTERS = "HWCDF"
small_shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def values(shape, dtype="float32"):
    array = np.random.default_rng(math.prod(shape)).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    array.setflags(write=False)
    return array


# -- transpose


@given(data=st.data())
def test_transpose_is_numpys(data):
    array = data.draw(arrays(shape=st.lists(st.integers(0, 5), max_size=5).map(tuple)))
    perm = data.draw(st.permutations(range(array.ndim)))
    negative = [i - array.ndim if data.draw(st.booleans()) else i for i in perm]
    for given_ in (perm, negative, np.asarray(perm, np.int64)):
        result = transpose(array, perm=given_)
        assert np.array_equal(result.array, array.transpose(perm), equal_nan=array.dtype.kind == "f")
        assert result.array.flags.c_contiguous
        assert result.dtype.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(transpose(array).array, array.T, equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 40])
@pytest.mark.parametrize("dtype", ["uint8", "bool", "int16", "float16", "float32", "int32", "float64", "uint64"])
def test_large_images_go_from_one_layout_to_the_other_and_back(dtype, channels):
    image = as_tensor(values((37, 53, channels), dtype), layout="HWC")
    planes = transpose(image, output_layout="CHW")
    assert np.array_equal(planes.array, image.array.transpose(2, 0, 1))
    assert np.array_equal(transpose(planes, output_layout="HWC").array, image.array)
    assert np.array_equal(transpose(image, perm=(1, 0, 2)).array, image.array.transpose(1, 0, 2))
    mirrored = as_tensor(image.array[:, ::-1], layout="HWC")
    assert np.array_equal(transpose(mirrored, output_layout="CHW").array, image.array[:, ::-1].transpose(2, 0, 1))
    video = as_tensor(np.stack([image.array, image.array[::-1]]), layout="FHWC")
    assert np.array_equal(transpose(video, output_layout="FCHW").array, video.array.transpose(0, 3, 1, 2))
    assert np.array_equal(transpose(video, output_layout="CFHW").array, video.array.transpose(3, 0, 1, 2))


def test_the_layout_goes_along_or_says_the_order():
    image = as_tensor(IMAGE, layout="HWC")
    assert transpose(image, perm=(2, 0, 1)).layout == "CHW"
    assert transpose(image).layout == "CWH"
    assert transpose(image, perm=(2, 0, 1), transpose_layout=False).layout == "HWC"
    named = transpose(image, perm=(2, 0, 1), output_layout="ABC")
    assert (named.layout, named.shape) == ("ABC", (4, 2, 3))
    ordered = transpose(image, output_layout="CHW")
    assert (ordered.layout, ordered.shape) == ("CHW", (4, 2, 3))
    assert transpose(IMAGE, perm=(2, 0, 1)).layout is None


@pytest.mark.parametrize(("arguments", "told"), [
    ({"perm": (0, 0, 1)}, "'perm' must be different"), ({"perm": (1, 0)}, "'perm' must be a permutation of 3"),
    ({"perm": (0, 1, 3)}, r"'perm' must be in \[-3, 2\]"),
    ({"output_layout": "CHX"}, "'output_layout' must be the letters"),
    ({"perm": (2, 0, 1), "output_layout": "CH"}, "'output_layout' must be a letter for each of the 3")])  # fmt: skip
def test_what_is_no_order_is_refused(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        transpose(as_tensor(IMAGE, layout="HWC"), **arguments)
    with pytest.raises(ArgumentError, match="'output_layout' must be the letters"):
        transpose(IMAGE, output_layout="CHW")


# -- reshape, reinterpret, squeeze, expand_dims


def test_separate_samples_are_reshaped_in_their_own_memory_or_the_wrong_one_is_named():
    """What is too large to be copied to one array, of several shapes and orders of memory."""
    samples = [
        np.arange(480_000, dtype=np.uint8).reshape(shape) for shape in ((400, 400, 3), (300, 400, 4), (400, 400, 3))
    ]
    samples[2] = np.asfortranarray(samples[2])
    samples[0].flags.writeable = samples[2].flags.writeable = False
    found = reshape(as_batch(samples, layout="HWC"), shape=(-1, 2))
    for sample, before in zip(found.samples, samples, strict=True):
        assert np.array_equal(sample, before.reshape(-1, 2))
        assert np.shares_memory(sample, before) == before.flags.c_contiguous
        assert sample.flags.writeable == (before.flags.writeable or not before.flags.c_contiguous)
    with pytest.raises(ArgumentError, match="a shape of 9 elements") as caught:
        reshape(as_batch([samples[0], samples[1], np.zeros((3, 3, 1), np.uint8)]), shape=(-1, 2))
    assert any("sample 2 of 3" in note for note in caught.value.__notes__)


@given(array=arrays(), data=st.data())
def test_reshape_is_numpys(array, data):
    size = array.size
    first = data.draw(st.sampled_from([d for d in range(1, 25) if size % d == 0]))
    for shape in ((first, size // first), (-1, first), (first, 1, -1), -1, size):
        expected = array.reshape(shape)
        for result in (reshape(array, shape=shape), reshape(array, np.atleast_1d(shape))):
            assert np.array_equal(result.array, expected, equal_nan=array.dtype.kind == "f")
            assert result.dtype.dtype == array.dtype.newbyteorder("=")


def test_extents_of_0_are_extents():
    empty = np.zeros((0, 3), np.float32)
    assert reshape(empty, shape=(3, 0)).shape == (3, 0)
    assert reshape(empty, shape=(-1, 3)).shape == (0, 3)
    assert reshape(empty, rel_shape=(1, 1)).shape == (0, 3)
    assert reinterpret(empty, dtype="uint8").shape == (0, 12)
    assert reinterpret(np.zeros((3, 0), np.uint8), dtype="int64").shape == (3, 0)
    assert squeeze(np.zeros((0, 3)), axes=1).shape == (0,)
    assert expand_dims(empty, axes=1).shape == (0, 1, 3)
    with pytest.raises(ArgumentError, match="'shape'"):
        reshape(empty, shape=(-1, 0))


def test_nothing_is_copied():
    data, image = np.arange(24, dtype=np.float32), as_tensor(IMAGE, layout="HWC")
    batch = as_batch(np.arange(24, dtype=np.uint8).reshape(2, 3, 4), layout="HW")
    for result in (reshape(data, shape=(4, 6)), reinterpret(data, dtype="uint8"), expand_dims(data, axes=0),
                   squeeze(data[None], axes=0)):  # fmt: skip
        assert np.shares_memory(result.array, data)
        assert result.array.flags.writeable
    assert not reshape(image, shape=-1).array.flags.writeable
    for result in (reshape(batch, shape=-1), reinterpret(batch, dtype="uint16"), reshape(batch, layout="AB"),
                   squeeze(reshape(batch, shape=(1, 3, 4)), axes=0), expand_dims(batch, axes=-1)):  # fmt: skip
        assert result.whole is not None
        assert np.shares_memory(result.whole, batch.whole)
    turned = as_batch(np.asfortranarray(batch.whole))
    assert reshape(turned, shape=-1).tolist() == reshape(batch, shape=-1).tolist()
    assert reinterpret(turned, dtype="uint16").tolist() == reinterpret(batch, dtype="uint16").tolist()
    assert reinterpret(np.arange(9, dtype=np.uint8)[1:], dtype="int64").array.flags.aligned


def test_factors_and_places():
    image = as_tensor(np.zeros((480, 640, 3), np.uint8), layout="HWC")
    assert reshape(image, rel_shape=(0.5, -1)).shape == (240, 3840)
    assert reshape(image, rel_shape=(0.5, 2, 1)).layout == "HWC"
    assert reshape(as_tensor(np.zeros((300, 200, 1))), src_dims=(-1, 1, 0)).shape == (1, 200, 300)
    assert reshape(np.zeros((300, 200, 1)), src_dims=(-1, 1, 0), rel_shape=(-1, 0.5, 2)).shape == (1, 100, 600)
    assert reshape(np.zeros((2, 3)), rel_shape=(1, 1, -1)).shape == (2, 3, 1)
    assert reshape(np.zeros(6), rel_shape=as_batch([[0.5, -1], [1 / 3, -1]])).shape == [(3, 2), (2, 3)]
    assert reshape(np.zeros((1, 4)), src_dims=(0, 1, 0)).shape == (1, 4, 1)
    assert reshape(np.zeros(()), src_dims=(-1, -1)).shape == (1, 1)
    assert reshape(np.zeros(20_000_001, np.uint8), rel_shape=(1.0,)).shape == (20_000_001,)
    bytes_ = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert reinterpret(bytes_, dtype="int32", rel_shape=(1, -1)).shape == (2, 3)
    assert reinterpret(bytes_, dtype="int32", src_dims=(1, 0, 2)).shape == (3, 2, 1)
    assert reinterpret(np.float32(1), dtype="int32").tolist() == 0x3F800000


def test_layouts_of_other_shapes():
    image = as_tensor(IMAGE, layout="HWC")
    assert reshape(image, shape=(3, 2, 4)).layout == "HWC"
    assert reshape(image, shape=(6, 4)).layout is None
    assert reshape(image, shape=(6, 4), layout="AB").layout == "AB"
    assert reshape(image, layout="ABC").layout == "ABC"
    assert reshape(image, layout="").layout is None
    assert reinterpret(image, dtype="uint16").layout == "HWC"
    assert squeeze(as_tensor(IMAGE[:1, :, :1], layout="HWC"), axes=(0, -1)).layout == "W"
    assert squeeze(as_tensor(IMAGE[:1, :, :1], layout="HWC"), axis_names="CH").layout == "W"
    assert squeeze(as_tensor(IMAGE[:1, :1, :1], layout="HWC"), axis_names="CHW").layout is None
    assert expand_dims(image, axes=(1, 4), new_axis_names="AB").layout == "HAWCB"
    assert expand_dims(image, axes=(1, 0), new_axis_names="AB").layout == "BAHWC"
    assert expand_dims(image, axes=-1, new_axis_names="X").layout == "HWCX"
    assert expand_dims(image, axes=0).layout is None
    assert expand_dims(image, axes=()).layout == "HWC"
    assert expand_dims(3, axes=0, new_axis_names="X").layout == "X"


def test_samples_may_have_shapes_of_their_own():
    batch = as_batch([np.arange(6), np.arange(4)], layout="W")
    shapes = as_batch([[2, 3], [4, 1]])
    for result in (reshape(batch, shape=shapes), reshape(batch, shapes), reinterpret(batch, shape=shapes)):
        assert result.shape == [(2, 3), (4, 1)]
    whole = as_batch(np.arange(12).reshape(2, 6))
    assert reshape(whole, as_batch(np.array([[2, 3], [6, 1]]))).shape == [(2, 3), (6, 1)]
    assert reshape(whole, as_batch(np.array([[2, 3], [2, 3]]))).whole is not None
    assert reshape(np.arange(4), shape=as_batch([[2, 2], [4, 1]])).shape == [(2, 2), (4, 1)]
    assert isinstance(reshape(np.arange(4), shape=(2, 2), batch_size=3), Batch)


@pytest.mark.parametrize(("call", "told"), [
    (lambda: reshape(IMAGE), "takes at least one argument, such as shape"),
    (lambda: reshape(IMAGE, shape=(5, 4)), r"'shape' must be a shape of 24 elements, like .*; got \(5, 4\)"),
    (lambda: reshape(IMAGE, shape=(-1, 5)), "'shape' must be a shape of 24 elements"),
    (lambda: reshape(IMAGE, shape=(-1, -1)), "at most one negative"),
    (lambda: reshape(IMAGE, shape=(6, 4), layout="HWC"), "'layout' must be a letter for each of the 2"),
    (lambda: reshape(IMAGE, shape=(6, 4), rel_shape=(1, 1)), "'rel_shape' must be left out"),
    (lambda: reshape(IMAGE, shape=(6, 4), src_dims=(0, 1)), "'src_dims' must be left out"),
    (lambda: reshape(IMAGE, [6, 4], shape=(6, 4)), "'shape' must be left out"),
    (lambda: reshape(IMAGE, [6.0, 4.0]), "'shape_input' must be one-dimensional, of integers"),
    (lambda: reshape(IMAGE, rel_shape=(1, 1, 1, 1)), "'rel_shape' must be at most 3"),
    (lambda: reshape(IMAGE, rel_shape=(1, 1, 1), src_dims=(0, 1)), "'rel_shape' must be 2 factors"),
    (lambda: reshape(IMAGE, rel_shape=1e308), "'shape' must be a shape of 24 elements"),
    (lambda: reshape(IMAGE, src_dims=(0, 3)), "'src_dims' must be numbers of dimensions"),
    (lambda: reshape(IMAGE, src_dims=(0, 1)), "a shape of 24 elements"),
    (lambda: reinterpret(IMAGE), "takes at least one argument, such as shape"),
    (lambda: reinterpret(IMAGE, dtype="int64"), "a shape of 24 bytes"),
    (lambda: reinterpret(np.uint8(3), dtype="int64"), "a shape of 1 bytes"),
    (lambda: squeeze(IMAGE), "takes either 'axes' or 'axis_names'; got neither"),
    (lambda: squeeze(IMAGE, axes=0, axis_names="H"), "got both"),
    (lambda: squeeze(IMAGE, axes=1), "'axes' must be dimensions of extent 1"),
    (lambda: squeeze(IMAGE, axes=3), r"'axes' must be in \[-3, 2\]"),
    (lambda: squeeze(IMAGE[:1], axes=(0, -3)), "'axes' must be different"),
    (lambda: squeeze(IMAGE, axis_names="H"), "'axis_names' must be letters of the input's layout, None"),
    (lambda: squeeze(np.zeros((0, 3)), axes=0), "'axes' must be dimensions of extent 1"),
    (lambda: expand_dims(IMAGE, axes=(0, 5)), r"'axes' must be in \[-5, 4\]"),
    (lambda: expand_dims(IMAGE, axes=(0, 0)), "'axes' must be different"),
    (lambda: expand_dims(IMAGE, axes=range(61)), "'axes' must be among at most 63 dimensions.*; got 64 of them"),
    (lambda: expand_dims(as_batch([IMAGE]), axes=range(61)), "'axes' must be among at most 63 dimensions"),
    (lambda: expand_dims(IMAGE, axes=0, new_axis_names="AB"), "'new_axis_names' must be 1 letters"),
    (lambda: expand_dims(IMAGE, axes=0, new_axis_names="A"), "'new_axis_names' must be left out")])  # fmt: skip
def test_what_does_not_fit_is_refused(call, told):
    with pytest.raises(ArgumentError, match=told):
        call()


# -- as DALI does it


def inputs_of(data, shape, dtype=None, layout=True):
    """A Tensor or a Batch with samples of one shape."""
    dtype = str(data.draw(st.sampled_from(ALL_DTYPES))) if dtype is None else dtype
    letters = data.draw(st.sampled_from(["", LETTERS[: len(shape)]])) if layout else ""
    if data.draw(st.booleans()):
        return Laid(values(shape, dtype), letters)
    return Samples([values(shape, dtype)] * 2, letters or None)


@given(data=st.data())
def test_shapes_are_dalis(dali: Oracle, data):
    shape = data.draw(small_shapes)
    size, ndim = math.prod(shape), len(shape)
    first = data.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    arguments = data.draw(  # DALI takes `src_dims` as a literal only
        st.sampled_from(
            [
                {"shape": [first, size // first]},
                {"shape": [first, -1, 1]},
                {"shape": [-2]},
                {"shape": list(reversed(shape))},
                {"rel_shape": [1.0] * ndim + [-1.0]},
                {"rel_shape": [0.5] * (ndim - 1) + [-1.0]},
                {"rel_shape": [1.5, -1.0][-ndim:]},
            ]
        )
    )
    if data.draw(st.booleans()):
        count = max(len(value) for value in arguments.values())
        arguments |= {"layout": data.draw(st.sampled_from(["", "ABCDE"[:count]]))}
    source = inputs_of(data, shape)
    factors = arguments.get("rel_shape", [])
    found = [math.floor(f * extent + 0.5) for f, extent in zip(factors, shape, strict=False)]
    others = math.prod(extent for extent, f in zip(found, factors, strict=False) if f >= 0)
    assume(others and size % others == 0)
    alike(dali, "reshape", [source], **arguments)


@given(data=st.data())
def test_shapes_for_each_sample_are_dalis(dali: Oracle, data):
    sizes = [data.draw(st.sampled_from([6, 8, 12])) for _ in range(3)]
    shapes = Samples([np.array(data.draw(st.sampled_from([[2, -1], [-1, 2], [n, 1], [n // 2, 2]]))) for n in sizes])
    samples = Samples([values((n,), "int16") for n in sizes], data.draw(st.sampled_from([None, "W"])))
    layout = data.draw(st.sampled_from([{}, {"layout": "HW"}]))
    alike(dali, "reshape", [samples], shape=shapes, **layout)
    alike(dali, "reshape", [samples, shapes], **layout)
    alike(dali, "reinterpret", [samples, shapes], **layout)


@given(data=st.data())
def test_dimensions_of_extent_1_are_dalis(dali: Oracle, data):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 1, 3]), min_size=1, max_size=5)))
    ones = [i for i, extent in enumerate(shape) if extent == 1]
    axes = data.draw(st.lists(st.sampled_from(ones), unique=True)) if ones else []
    source = inputs_of(data, shape)
    laid = source.layout or ""
    if laid and axes:  # DALI takes `axes` as a literal only
        alike(dali, "squeeze", [source], axis_names="".join(laid[i] for i in axes))
    count = data.draw(st.integers(1, 2))
    places = data.draw(st.permutations(range(len(shape) + count)))[:count]
    names = {"new_axis_names": "XY"[:count]} if laid and data.draw(st.booleans()) else {}
    alike(dali, "expand_dims", [source], axes=places, **names)
