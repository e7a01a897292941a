"""Descriptions of samples say what the arrays say."""

from __future__ import annotations

import ctypes

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dynamic._described import described

DTYPES = st.sampled_from(["uint8", "int16", "float32", "float64"])


def element(found, i, place):
    """The element of a sample that a description names, read from memory."""
    address = int(found.pointers[i]) + sum(
        int(k) * int(stride) for k, stride in zip(place, found.strides[i], strict=True)
    )
    return np.frombuffer((ctypes.c_char * found.dtype.itemsize).from_address(address), found.dtype)[0]


def agrees(found, samples):
    assert len(found) == len(samples)
    for i, sample in enumerate(samples):
        assert tuple(found.shapes[i]) == sample.shape
        assert found.dtype == sample.dtype
        for place in np.ndindex(sample.shape):
            assert element(found, i, place) == sample[place]


@st.composite
def strided(draw, shape):
    array = draw(arrays.arrays(draw(DTYPES), shape, elements=st.integers(0, 100)))
    order = draw(st.permutations(range(array.ndim)))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 2, -1, -2]))) for _ in range(array.ndim))
    return array.transpose(order)[steps]


@given(strided(st.just((3, 2, 4))))
def test_one_array(array):
    agrees(described(array), list(array))


@given(st.data(), DTYPES)
def test_many_arrays(data, dtype):
    shapes = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
    samples = [np.arange(h * w).reshape(h, w).astype(dtype)[::-1] for h, w in shapes]
    agrees(described(samples), samples)


def test_samples_without_dimensions():
    agrees(described(np.arange(3.0)), [np.float64(i) for i in range(3)])
    found = described([np.array(5), np.array(6)])
    assert found.shapes.shape == (2, 0)
    assert element(found, 1, ()) == 6
