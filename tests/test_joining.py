"""Stacking, joining and one-hot vectors: by hand, against NumPy, and as DALI does it."""

from __future__ import annotations

import numpy as np
import pytest
from alike import alike
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays

from dynamic import ArgumentError, as_batch, as_tensor, cat, one_hot, stack

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
IMAGE.setflags(write=False)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@given(data=st.data())
def test_joining_is_numpys(data):
    dtype, count = data.draw(st.sampled_from(ALL_DTYPES)), data.draw(st.integers(1, 4))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3).map(tuple))
    inputs = [data.draw(arrays(dtype, shape)) for _ in range(count)]
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    stacked = stack(*inputs, axis=axis)
    assert same(stacked.array, np.stack(inputs, axis))
    assert stacked.dtype.dtype == dtype
    batches = [as_batch(np.stack([x, x])) for x in inputs]
    whole = stack(*batches, axis=axis)
    assert whole.whole is not None
    assert all(same(sample, stacked.array) for sample in whole.samples)
    assert all(same(x, stacked.array) for x in stack(batches[0], *inputs[1:], axis=axis).samples)
    if shape:
        axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        joined = cat(*inputs, inputs[0], axis=axis)
        assert same(joined.array, np.concatenate([*inputs, inputs[0]], axis))
        assert all(same(x, joined.array) for x in cat(*batches, batches[0], axis=axis).samples)


def test_layouts_of_joined_images():
    image, plain = as_tensor(IMAGE, layout="HWC"), as_tensor(IMAGE)
    assert stack(image, image).layout is None
    for axis, expected in ((0, "FHWC"), (-1, "HWCF"), (-3, "HFWC"), (3, "HWCF"), (-4, "FHWC")):
        assert stack(image, image, axis=axis, axis_name="F").layout == expected
    assert stack(1.0, 2.0, axis_name="F").layout == "F"
    assert stack(as_batch([IMAGE, IMAGE], layout="HWC"), plain, axis_name="F").layout == "FHWC"
    assert cat(image, plain).layout == "HWC"
    assert cat(plain, image).layout is None
    assert cat(image, image, axis_name="W").shape == (2, 6, 4)
    assert len(stack(as_batch([IMAGE], layout="HWC")[:0], plain, axis_name="F")) == 0


def test_samples_of_different_shapes_are_joined():
    a, b = as_batch([[1, 2], [3]]), as_batch([[4], [5, 6]])
    assert cat(a, b).tolist() == [[1, 2, 4], [3, 5, 6]]
    assert stack(a, a, axis=-1).tolist() == [[[1, 1], [2, 2]], [[3, 3]]]


@pytest.mark.parametrize(("call", "told"), [
    (lambda: stack([1], [2.5]), r"stack\(\): argument 'inputs\[1\]' must be of dtype int32.*cast_like"),
    (lambda: stack([1], [2, 3]), r"'inputs\[1\]' must be of shape \(1,\), like the first; got \(2,\)"),
    (lambda: stack([1], 2), r"'inputs\[1\]' must be of shape"),
    (lambda: stack([1], [2], axis=2), r"'axis' must be in \[-2, 1\]"),
    (lambda: stack(np.ones((1,) * 63), axis=0), "'axis' must be among at most 63 dimensions.*; got 64 of them"),
    (lambda: one_hot(as_batch([[1], [2]])), "'num_classes' must be an integer of at least 0; got nothing"),
    (lambda: one_hot(as_batch([np.ones((1,) * 63)]), axis=0, num_classes=2), "'axis' must be among at most 63 dim"),
    (lambda: stack([1], [2], axis_name="F"), "'axis_name' must be left out"),
    (lambda: stack(1, 2, axis_name="FG"), "'axis_name' must be one letter"),
    (lambda: cat(1, 2), "'axis' must be in"), (lambda: cat([1], [2], axis=1), r"'axis' must be in \[-1, 0\]"),
    (lambda: cat([1], [2.5]), r"'inputs\[1\]' must be of dtype"),
    (lambda: cat([[1]], [2]), r"'inputs\[1\]' must be of shape"),
    (lambda: cat([[1, 2]], [[1]]), r"'inputs\[1\]' must be of shape \(1, 2\), like the first but for dimension 0"),
    (lambda: cat([1], [2], axis_name="F"), "'axis_name' must be a letter of the first input's layout, None"),
    (lambda: cat(as_tensor([1], layout="F"), [2], axis=0, axis_name="F"), "'axis' must be left out"),
    (lambda: one_hot([1, 2], axis=2, num_classes=3), r"'axis' must be in \[-2, 1\]"),
    (lambda: one_hot([1, 2], axis_name="C", num_classes=3), "'axis_name' must be left out"),
    (lambda: one_hot(1, axis_name="CD", num_classes=3), "'axis_name' must be one letter"),
    (lambda: one_hot(1, num_classes=-1), "'num_classes' must be an integer of at least 0"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(call, told):
    with pytest.raises(ArgumentError, match=told):
        call()


# -- one_hot


@given(data=st.data())
def test_one_hot_vectors(data):
    numbers = data.draw(arrays(shape=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)))
    axis, count = data.draw(st.integers(-numbers.ndim - 1, numbers.ndim)), data.draw(st.integers(0, 6))
    found = one_hot(numbers, axis=axis, num_classes=count, dtype="int16", on_value=7, off_value=-2).array
    classes = np.trunc(numbers.astype(np.float64))
    expected = np.where(np.moveaxis(classes[..., None] == np.arange(count), -1, axis), 7, -2)
    assert found.shape[axis] == count
    assert found.dtype == np.int16
    assert same(found, expected.astype(np.int16))
    batch = one_hot(as_batch(np.stack([numbers, numbers])), axis=axis, num_classes=count, dtype="int16", on_value=7,
                    off_value=-2)  # fmt: skip
    assert all(same(sample, found) for sample in batch.samples)


def test_single_numbers_become_one_vector_each():
    assert one_hot(2, num_classes=3).tolist() == one_hot([2], num_classes=3).tolist() == [0, 0, 1]
    assert one_hot([[2]], num_classes=3).shape == (3,)
    assert one_hot([2], num_classes=3, axis=-1).shape == (1, 3)
    labels = as_batch(np.array([[1], [2]], np.int32))
    assert one_hot(labels, num_classes=3).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert one_hot(labels[:0], num_classes=3).ndim == 1
    assert one_hot(as_batch([[1], [2, 0]]), num_classes=3).shape == [(1, 3), (2, 3)]
    assert one_hot(as_tensor([1], layout="X"), num_classes=3, axis_name="C").layout == "C"
    assert one_hot(as_tensor([1, 2], layout="X"), num_classes=3, axis_name="C", axis=0).layout == "CX"
    assert one_hot(as_tensor([1, 2], layout="X"), num_classes=3).layout is None


def test_values_of_one_hot_vectors():
    assert one_hot([1, 2], num_classes=3, dtype="uint8", on_value=300, off_value=-1.5).tolist() == [
        [0, 255, 0],
        [0, 0, 255],
    ]
    assert one_hot([1], num_classes=3, dtype="int8", on_value=2.5, off_value=-2.5).tolist() == [-3, 3, -3]
    assert one_hot([True, False], num_classes=2, dtype="bool").tolist() == [[False, True], [True, False]]
    numbers = [0.5, 1.9, -0.4, -1.0, float("nan"), float("inf"), 9]
    found = one_hot(np.array(numbers, np.float16), num_classes=2, dtype="uint8").tolist()
    assert found == [[1, 0], [0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert one_hot(np.array([2**64 - 1, 1], np.uint64), num_classes=2).tolist() == [[0, 0], [0, 1]]


# -- as DALI does it


def drawn(data, shape, dtype, layout, count):
    rng = np.random.default_rng(sum(shape) + count)
    arrays_ = [rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype) for _ in range(count)]
    if data.draw(st.booleans()):
        return [Samples([array, array[::-1].copy()], layout or None) for array in arrays_]
    return [Laid(array, layout) for array in arrays_]


@given(data=st.data())
def test_joining_is_dalis(dali: Oracle, data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    dtype = str(data.draw(st.sampled_from([d for d in ALL_DTYPES if d != np.float16])))
    layout = data.draw(st.sampled_from(["", "HWC"[: len(shape)]]))
    inputs = drawn(data, shape, dtype, layout, data.draw(st.integers(1, 4)))
    name = {"axis_name": "F"} if layout and data.draw(st.booleans()) else {}
    alike(dali, "stack", inputs, axis=data.draw(st.integers(-len(shape), len(shape))), **name)
    if layout and data.draw(st.booleans()):
        alike(dali, "cat", inputs, axis_name=data.draw(st.sampled_from(layout)))
    else:
        alike(dali, "cat", inputs, axis=data.draw(st.integers(-len(shape), len(shape) - 1)))
