"""Pixels moved at random: where they come from, how often, and that no neighbour in a batch matters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.random import RNG

LAYOUTS = ["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW"]


def numbered(height, width, layout, frames=2, channels=3):
    """An image whose pixels are numbered from 1 on, all channels alike."""
    extents = {"F": frames, "H": height, "W": width, "C": channels}
    numbers = np.arange(1, height * width + 1).reshape([extents[x] if x in "HW" else 1 for x in layout])
    return np.broadcast_to(numbers, [extents[x] for x in layout]).astype(np.float32)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.sampled_from(LAYOUTS), st.integers(0, 99))
def test_each_pixel_is_one_near_it_or_the_fill(height, width, degree, layout, seed):
    image = numbered(height, width, layout)
    found = ndd.jitter(ndd.as_tensor(image, layout=layout), nDegree=degree, fill_value=0, rng=RNG(seed))
    assert (found.layout, found.shape, found.dtype) == (layout, image.shape, "float32")
    order = [layout.index(x) for x in "FHWC" if x in layout]
    array = found.numpy().transpose(order)
    array = array if "F" in layout else array[None]
    array = array if "C" in layout else array[..., None]
    assert (array == array[..., :1]).all()  # channels move together
    for frame in array[..., 0].astype(int):
        for y, x in np.ndindex(height, width):
            rows, columns = ({min(max(p - degree // 2 + k, 0), n) for k in range(degree)} for p, n in
                             ((y, height), (x, width)))  # fmt: skip
            source = frame[y, x] - 1
            if source < 0:
                assert height in rows or width in columns
            else:
                assert source // width in rows
                assert source % width in columns


def test_moves_are_equally_likely():
    image = numbered(200, 200, "HW")
    found = ndd.jitter(ndd.as_tensor(image, layout="HW"), nDegree=4, rng=RNG(3)).numpy().astype(int) - 1
    inner = np.s_[4:-4, 4:-4]
    y, x = np.indices(image.shape)
    down, across = (found // 200 - y)[inner], (found % 200 - x)[inner]
    counts = np.array([[((down == a) & (across == b)).sum() for b in range(-2, 2)] for a in range(-2, 2)])
    assert counts.sum() == down.size
    assert ((counts - down.size / 16) ** 2 / (down.size / 16)).sum() < 45  # chi squared of 15 degrees, p > 1e-4


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4), st.sampled_from(LAYOUTS))
def test_keyed_draws_belong_to_samples(sizes, layout):
    images = [numbered(h, w, layout) for h, w in sizes]
    masks = [i % 3 for i in range(len(images))]

    def moved(some, flags, first):
        keyed = RNG(7).keyed(range(first, first + len(some)))
        return ndd.jitter(ndd.as_batch(some, layout=layout), mask=flags, nDegree=5, rng=keyed)

    whole = moved(images, ndd.as_batch(masks), 100)
    for i, image in enumerate(images):
        alone = moved([image], masks[i], 100 + i)
        assert np.array_equal(whole.samples[i], alone.samples[0])
        if not masks[i]:
            assert np.array_equal(whole.samples[i], image)


def test_streams_go_on_and_go_back():
    image, rng = numbered(9, 9, "HW"), RNG(1)
    first, second = (ndd.jitter(image, nDegree=9, rng=rng).numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    rng = RNG(1)
    with pytest.raises(ArgumentError, match="fill_value"):
        ndd.jitter(image, fill_value=(1, 2), rng=rng)
    assert np.array_equal(ndd.jitter(image, nDegree=9, rng=rng).numpy(), first)
    with pytest.raises(ArgumentError, match="'nDegree' must be an integer in .1, 65535.; got int 0"):
        ndd.jitter(image, nDegree=0)


def test_an_empty_batch():
    found = ndd.jitter(ndd.as_batch([np.zeros((2, 3, 1), np.uint8)])[:0])
    assert (len(found), found.ndim, found.dtype) == (0, 3, "uint8")


@pytest.mark.gpu
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=3), st.sampled_from(LAYOUTS))
def test_a_gpu_moves_the_same_pixels(sizes, layout):
    images = ndd.as_batch([numbered(h, w, layout) for h, w in sizes], layout=layout)
    masks = ndd.as_batch([(i + 1) % 3 for i in range(len(sizes))])
    expected = ndd.jitter(images, nDegree=6, fill_value=-2, mask=masks, rng=RNG(5))
    found = ndd.jitter(images.gpu(), nDegree=6, fill_value=-2, mask=masks, rng=RNG(5))
    assert found.device.device_type == "gpu"
    for one, other in zip(found.cpu().samples, expected.samples, strict=True):
        assert np.array_equal(one, other)
