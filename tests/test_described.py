"""Samples as kernels see them: reading memory by what is told of it gives the samples back."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_dtype, arrays

from dynamic._arrays.described import Described, described


def read(table: Described, i: int) -> np.ndarray:
    """Sample i, element by element, from nothing but the addresses."""
    sample = np.empty(table.shapes[i], table.dtype)
    for place in np.ndindex(*table.shapes[i]):
        address = int(table.pointers[i]) + int(np.dot(place, table.strides[i]) if place else 0)
        sample[place] = np.frombuffer(ctypes.string_at(address, table.dtype.itemsize), table.dtype)[0]
    return sample


def holds(table: Described, samples) -> bool:
    return len(table) == len(samples) and all(np.array_equal(read(table, i), s) for i, s in enumerate(samples))


@given(st.data(), any_dtype, st.integers(0, 3))
def test_a_list_is_described(data, dtype, ndim):
    shape = st.tuples(*[st.integers(0, 3)] * ndim)
    samples = [data.draw(arrays(dtype, shape)) for _ in range(data.draw(st.integers(1, 4)))]
    samples = [s.astype(dtype, copy=False) for s in samples]
    table = described(samples)
    assert holds(table, samples)
    assert (table.ndim, table.dtype) == (ndim, dtype)
    assert (table.pointers.dtype, table.shapes.dtype, table.strides.dtype) == (np.uint64, np.int64, np.int64)


@given(arrays(shape=st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 3))))
def test_one_array_is_described_without_a_loop_to_the_same(a):
    a = a.astype(a.dtype.newbyteorder("="), copy=False)
    table = described(a)
    assert holds(table, list(a))
    if len(a):
        one_by_one = described(list(a))
        assert np.array_equal(table.pointers, one_by_one.pointers)
        assert np.array_equal(table.strides, one_by_one.strides)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_one_sample_many_times_has_one_address(n):
    table = described(np.broadcast_to(np.arange(3), (n, 3)))
    assert table.pointers.tolist() == [table.pointers[0]] * n if n else not len(table)
    assert table.shapes.tolist() == [[3]] * n
