"""Batches in JAX."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dynamic import ArgumentError, as_batch, as_tensor

jax = pytest.importorskip("jax", reason="jax is not installed")

from dynamic.jax import as_jax  # noqa: E402

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_shapes_and_dtypes_stay(dtype):
    array = (np.arange(12).reshape(2, 2, 3) % 5).astype(dtype)
    array.flags.writeable = False
    for data in (as_batch(array), as_batch(list(array)), as_tensor(array)):
        for found in (data.jax(), as_jax(data)):
            assert isinstance(found, jax.Array)
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert np.array_equal(np.asarray(found), array)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_nothing_is_halved_silently(dtype):
    data = as_tensor(np.array([2**40], dtype))
    with pytest.raises(ArgumentError, match=rf"of at most 32 bits; got {dtype}"):
        as_jax(data)
    with jax.enable_x64(True):
        assert as_jax(data).tolist() == [2**40]


def test_ragged_batches_are_padded_or_refused():
    ragged = as_batch([np.ones(2, np.uint8), np.ones(1, np.uint8)])
    assert as_jax(ragged, pad=True).tolist() == ragged.jax(pad=True).tolist() == [[1, 1], [1, 0]]
    for call in (lambda: as_jax(ragged), ragged.jax):
        with pytest.raises(ValueError, match="shape"):
            call()
    with pytest.raises(ArgumentError, match="'data' must be a Batch or a Tensor"):
        as_jax([1, 2])


def test_importing_it_takes_no_jax():
    subprocess.run([sys.executable, "-c", "import sys, dynamic.jax; assert 'jax' not in sys.modules"], check=True)


def test_names_of_dali_that_are_not_here_say_what_there_is():
    import dynamic.jax

    for name in ("DALIGenericIterator", "data_iterator", "clu"):
        with pytest.raises(AttributeError, match=f"no '{name}'. Loop over the pipeline instead.*jax"):
            getattr(dynamic.jax, name)
    with pytest.raises(AttributeError, match=r"dynamic\.jax has no 'nothing'\.$"):
        _ = dynamic.jax.nothing
