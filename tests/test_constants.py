"""New arrays: by hand, and as DALI does it."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays

from dynamic import (
    ArgumentError,
    Batch,
    as_batch,
    as_tensor,
    cast_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from dynamic.random import coin_flip, uniform

WORDS = [str(d) for d in ALL_DTYPES]


@given(value=arrays(any_order=True), more=st.lists(st.integers(0, 3), max_size=2), dtype=st.sampled_from(WORDS))
def test_full_is_numpys(value, more, dtype):
    shape = (*more, *value.shape)
    for found in (full(value, shape=shape), *full(value, shape=shape, batch_size=2)):
        assert np.array_equal(found.array, np.full(shape, value), equal_nan=value.dtype.kind == "f")
        assert found.dtype.dtype == value.dtype.newbyteorder("=")
    like = full_like(np.zeros(shape, dtype), value)
    assert (like.shape, str(like.dtype.dtype)) == (shape, dtype)
    for name, function, other in (("zeros", zeros, zeros_like), ("ones", ones, ones_like)):
        expected = getattr(np, name)(shape, dtype)
        made = [function(shape=shape, dtype=dtype), *function(shape=shape, dtype=dtype, batch_size=2)]
        for found in [*made, other(np.zeros(shape), dtype=dtype), other(expected), *other(as_batch([expected] * 2))]:
            assert np.array_equal(found.array, expected)
            assert found.array.dtype == expected.dtype


def test_shapes_and_layouts():
    assert full(3).tolist() == 3
    assert full([1, 2]).tolist() == [1, 2]
    assert zeros().tolist() == 0
    assert (ones().tolist(), str(ones().dtype)) == (1, "i32")
    assert full(3, shape=2).tolist() == [3, 3]
    assert full(3.5, shape=()).tolist() == 3.5
    assert full(3, shape=(2, 3), layout="HW").layout == zeros(shape=(1, 1), layout="HW").layout == "HW"
    assert full(as_tensor([1, 2], layout="X"), shape=(2,)).layout is None
    assert full(3, shape=(2,), layout="").layout is None
    assert ones_like(as_tensor([1], layout="W")).layout == full_like(as_tensor([1], layout="W"), 3).layout == "W"
    assert full(3, shape=as_batch([[1, 2], [2, 1]])).tolist() == [[[3, 3]], [[3], [3]]]
    assert full(as_batch([1, 2]), shape=2).tolist() == [[1, 1], [2, 2]]
    assert zeros(shape=as_batch([1, 2])).tolist() == [[0], [0, 0]]
    assert zeros(shape=(3,), batch_size=2).whole is not None
    assert isinstance(full(3, shape=2, batch_size=3), Batch)
    assert full_like(as_batch([[1], [1, 2]]), 7).tolist() == [[7], [7, 7]]


def test_values_are_saturated_and_rounded():
    assert full_like(np.zeros(1, "uint8"), 300).tolist() == [255]
    assert full_like(np.zeros(1, "uint8"), -2.5).tolist() == [0]
    assert full_like(np.zeros(1, "int8"), -2.5).tolist() == [-3]
    assert full_like(np.zeros((2, 2), "int8"), [0, 1]).tolist() == [[0, 1], [0, 1]]
    assert cast_like([0.5, -1.5, 300.0], np.zeros(1, "uint8")).tolist() == [1, 0, 255]
    assert cast_like(as_batch([1, 2], layout=None), as_batch([1.5, 2.5])).tolist() == [1.0, 2.0]
    assert cast_like(3, as_batch([1.5, 2.5])).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("call", "told"), [
    (lambda: full([1, 2, 3], shape=(2, 2)), r"'fill_value' must be a number or an array that repeats to \(2, 2\)"),
    (lambda: full(np.zeros((2, 3)), shape=(3,)), "'fill_value'"),
    (lambda: full_like(np.zeros((2, 2)), np.zeros((2, 2, 2))), r"full_like\(\): argument 'fill_value'"),
    (lambda: full(3, shape=(2,), layout="HW"), "'layout' must be a letter for each of the 1"),
    (lambda: zeros(layout="HW"), r"zeros\(\): argument 'layout'"), (lambda: zeros(shape=(-1,)), "'shape'"),
    (lambda: ones(shape=(1,), layout="HW"), r"ones\(\): argument 'layout'"),
    (lambda: zeros(shape=[1] * 64), r"zeros\(\): argument 'shape' must be at most 63 extents"),
    (lambda: full(3, shape=[1] * 99), r"full\(\): argument 'shape' must be at most 63 extents"),
    (lambda: ones(shape=(2**64, 0)), r"ones\(\): argument 'shape' must be at most 63 extents, of arrays that"),
    (lambda: zeros(shape=[1] * 64, batch_size=0), "'shape'"),
    (lambda: uniform(shape=[1] * 65), r"^uniform\(\): argument 'shape' must be at most 63 extents"),
    (lambda: coin_flip(shape=as_batch([[1] * 64])), r"^coin_flip\(\): argument 'shape'"),
    (lambda: cast_like(as_batch([1, 2]), as_batch([1])), r"cast_like\(\): argument 'like' must be a Batch of 2"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(call, told):
    with pytest.raises(ArgumentError, match=told):
        call()


# -- as DALI does it
