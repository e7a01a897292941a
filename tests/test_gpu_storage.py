"""Tensors and Batches move to a GPU and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_dtype, arrays

from dynamic import as_batch, as_tensor
from dynamic.data import _transfer

pytestmark = pytest.mark.gpu


def native(a):
    return np.array(a, a.dtype.newbyteorder("="))


@st.composite
def ragged(draw, min_size=1):
    dtype, ndim = draw(any_dtype), draw(st.integers(0, 3))
    shape = st.tuples(*[st.integers(0, 3)] * ndim)
    return [draw(arrays(dtype, shape)) for _ in range(draw(st.integers(min_size, 4)))]


@given(arrays())
def test_a_tensor_moves_there_and_back(a):
    t = as_tensor(a, layout="HWC"[: a.ndim])
    there = t.gpu()
    assert (there.device, there.shape, there.dtype, there.layout) == ("gpu:0", t.shape, t.dtype, t.layout)
    assert there.gpu() is there
    assert there.to_device("cuda:0") is there
    back = there.cpu()
    assert np.array_equal(back.array, native(a))
    assert back.array.flags.writeable


@given(ragged())
def test_a_batch_moves_there_and_back(samples):
    b = as_batch(samples, layout="HWC"[: samples[0].ndim])
    there = b.gpu()
    assert (there.device, there.shape, there.dtype, there.layout) == ("gpu", b.shape, b.dtype, b.layout)
    for back in (there.cpu(), there.to_device("gpu:0", force_copy=True).cpu()):
        assert all(np.array_equal(x, native(y)) for x, y in zip(back.samples, samples, strict=True))
    assert [t.tolist() for t in there] == b.tolist() == there.tolist()


@given(ragged())
def test_an_empty_batch_moves_there_and_back(samples):
    b = as_batch(samples, layout="HWC"[: samples[0].ndim])[:0]
    there = b.gpu()
    assert (len(there), there.device, there.ndim, there.dtype, there.layout) == (0, "gpu:0", b.ndim, b.dtype, b.layout)
    assert (there == there).device == "gpu:0"
    back = there.cpu()
    assert (len(back), back.device, back.ndim, back.dtype, back.layout) == (0, "cpu", b.ndim, b.dtype, b.layout)


def test_moves_share_the_blocks_of_a_gpu(monkeypatch):
    as_tensor([1]).gpu()
    monkeypatch.delattr(_transfer, "_Ring")  # no other is made
    assert as_tensor([2]).gpu().tolist() == [2]
    assert {_transfer._slot(0) for _ in range(2 * _transfer._SLOTS)} == set(_transfer._rings[0]._slots)
