"""Blocks of LZ4: all of what they hold, or an error that names samples; and no more memory than a shape says."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lz4.block import compress

import dynamic as ndd
from dynamic import ArgumentError, DecodeError
from dynamic.decoders import inflate
from dynamic.pipeline import fn, pipeline_def

KINDS = ["uint8", "int16", "uint32", "float32", "float64"]


def block(array):
    return compress(np.ascontiguousarray(array), store_size=False)


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=2).map(tuple), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.sampled_from(KINDS),
    st.sampled_from(["sizes", "offsets", "both"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_blocks_of_samples_of_several_shapes(shapes, counts, kind, told, gap, seed):
    generator = np.random.default_rng(seed)
    arrays = [
        generator.integers(0, 9, (count + 1, *shape)).astype(kind) for count, shape in zip(counts, shapes, strict=False)
    ]
    gap = gap if told == "both" else 0  # bytes between blocks, which nothing reads
    encoded, sizes, offsets = [], [], []
    for array in arrays:
        blocks = [block(part) for part in array]
        sizes.append(np.array([*map(len, blocks)]))
        offsets.append(np.cumsum(sizes[-1] + gap) - sizes[-1] - gap)
        encoded.append(np.frombuffer(bytes(gap).join(blocks), np.uint8))
    given_ = {"chunk_sizes": ndd.as_batch(sizes)} if told != "offsets" else {}
    given_ |= {"chunk_offsets": ndd.as_batch(offsets)} if told != "sizes" else {}
    found = inflate(ndd.as_batch(encoded), shape=ndd.as_batch(shapes), dtype=kind, layout="HW", **given_)
    assert (found.layout, found.dtype) == ("FHW", kind)
    assert all(np.array_equal(one, other) for one, other in zip(found.samples, arrays, strict=True))


@given(st.binary(max_size=60), st.integers(0, 40))
def test_any_bytes_give_an_array_of_the_shape_or_an_error(data, extent):
    try:
        found = inflate(np.frombuffer(data, np.uint8), shape=extent)
    except (DecodeError, ArgumentError):
        return
    assert (found.shape, found.dtype) == ((extent,), "uint8")


@given(st.integers(0, 200), st.data())
def test_damaged_and_cut_blocks_are_whole_arrays_of_other_values_or_errors(size, data):
    encoded = bytearray(block(np.arange(size, dtype=np.uint8) // 3))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(encoded[: data.draw(st.integers(1, len(encoded)))])
    try:
        assert inflate(cut, shape=size).shape == (size,)
    except DecodeError:
        return


def test_a_bomb_is_refused_before_it_has_memory():
    bomb = block(np.zeros(10_000_000, np.uint8))
    with pytest.raises(DecodeError, match="holds more than the 100 bytes of shape"):
        inflate(bomb, shape=100)
    with pytest.raises(DecodeError, match="40 bytes at 0 cannot hold the 1048576000 of shape"):
        inflate(bomb[:40], shape=(1 << 20, 1000))
    with pytest.raises(ArgumentError, match="'shape' must be of at most 2113929216 bytes, which a block of LZ4 can"):
        inflate(bomb, shape=(1 << 20, 1 << 20))


def test_one_error_names_all_samples():
    good = np.frombuffer(block(np.arange(6, dtype=np.uint8)), np.uint8)
    bad = good.copy()
    bad[0] = 255
    with pytest.raises(DecodeError, match="2 of 3 samples cannot be read") as caught:
        inflate(ndd.as_batch([bad, good, good[:3]]), shape=6)
    assert [failure.index for failure in caught.value.failures] == [0, 2]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"chunk_sizes": 99}, "'chunk_sizes' must be chunks of at least one byte within the 8 bytes"),
    ({"chunk_sizes": (8, 0)}, "'chunk_sizes' must be chunks of at least one byte"),
    ({"chunk_offsets": (3, 1)}, "'chunk_offsets' must be chunks of at least one byte"),
    ({"chunk_offsets": (0, 8)}, "'chunk_offsets' must be chunks of at least one byte"),
    ({"chunk_offsets": 0, "chunk_sizes": (1, 2)}, "'chunk_sizes' must be as many numbers as 'chunk_offsets', 1"),
    ({"layout": "HW"}, "'layout' must be a letter for each of the 1 extents"),
    ({"sequence_axis_name": "FG"}, "'sequence_axis_name' must be one letter"),
    ({"algorithm": "deflate"}, "'algorithm' must be .*LZ4"),
])  # fmt: skip
def test_wrong_calls_are_refused_by_name(arguments, told):
    encoded = block(np.arange(7, dtype=np.uint8))
    assert len(encoded) == 8
    assert inflate(encoded, shape=7).tolist() == [*range(7)]
    with pytest.raises(ArgumentError, match=told):
        inflate(encoded, shape=7, **arguments)


def test_without_lz4_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lz4.block", None)
    with pytest.raises(DecodeError, match=r"this needs lz4: pip install 'dynamic-batch\[inflate\]'"):
        inflate(b"\0", shape=0)


@pytest.mark.parametrize("name", ["decoders.inflate", "experimental.inflate"])
def test_pipelines_have_it(name):
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    sizes = np.array([len(block(part)) for part in array])
    encoded = np.frombuffer(b"".join(map(block, array)), np.uint8)
    function = fn.decoders.inflate if name == "decoders.inflate" else fn.experimental.inflate

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def inflated():
        data, lengths = fn.external_source(lambda: ([encoded] * 2, [sizes] * 2), num_outputs=2)
        return function(data, chunk_sizes=lengths, shape=[3, 4], dtype="int16", layout="HW")

    (found,) = inflated().run()
    assert found.layout == "FHW"
    assert all(np.array_equal(sample, array) for sample in found.samples)
