"""Raw images: OpenCV's algorithms as DALI has them, and the slices that a GPU uses."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import DaliError, Laid, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import dynamic as ndd
from dynamic import ArgumentError, DeviceError
from dynamic.kernels.cpu import bayer

PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]
raw = st.sampled_from([np.uint8, np.uint16]).flatmap(
    lambda kind: npst.arrays(kind, st.tuples(st.integers(3, 9), st.integers(3, 40)))
)


@given(raw, st.sampled_from(PLACES))
def test_slices_give_the_bits_of_opencv(image, place):
    found = np.empty((*image.shape, 3), image.dtype)
    bayer.bilinear(image, place, found)
    assert np.array_equal(found, ndd.debayer(image, blue_position=place).numpy())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("algorithm", ["bilinear_ocv", "edgeaware_ocv", "vng_ocv"])
def test_one_colour_is_found_from_its_pattern(place, algorithm):
    colour = np.array([200, 90, 30], np.uint8)
    row, column = np.ogrid[:8, :10]
    own_row, own_column = (row + 1) % 2 == place[0], (column + 1) % 2 == place[1]
    image = np.where(own_row & own_column, colour[2], np.where(own_row | own_column, colour[1], colour[0]))
    found = ndd.debayer(image.astype(np.uint8), blue_position=place, algorithm=algorithm)
    assert (found.layout, found.shape) == ("HWC", (8, 10, 3))
    assert (found.numpy() == colour).all()


def test_wrong_calls_are_refused_by_name():
    image = np.zeros((4, 6), np.uint16)
    with pytest.raises(ArgumentError, match="'algorithm' must be 'bilinear_ocv' or 'edgeaware_ocv' for uint16"):
        ndd.debayer(image, blue_position=(0, 0), algorithm="vng_ocv")
    with pytest.raises(ArgumentError, match="at least 3 pixels high and wide; got shape .2, 6"):
        ndd.debayer(image[:2], blue_position=(0, 0))
    with pytest.raises(ArgumentError, match="of one channel; got 3 channels"):
        ndd.debayer(np.zeros((4, 6, 3), np.uint8), blue_position=(0, 0))
    with pytest.raises(ArgumentError, match="'algorithm' must be .*bilinear_ocv.*default_npp"):
        ndd.debayer(image, blue_position=(0, 0), algorithm="default_npp")


@pytest.mark.gpu
def test_a_gpu_leaves_other_algorithms_to_the_cpu():
    image = ndd.as_tensor(np.zeros((4, 6), np.uint8)).gpu()
    with pytest.raises(DeviceError, match=r"debayer\(\) with 'vng_ocv' runs on cpu"):
        ndd.debayer(image, blue_position=(0, 0), algorithm="vng_ocv")


@pytest.mark.parametrize("layout", ["HW", "HWC", "FHW", "FHWC"])
@pytest.mark.parametrize("kind", ["uint8", "uint16"])
@pytest.mark.parametrize("algorithm", bayer.ALGORITHMS)
def test_results_are_those_of_dali(dali, layout, kind, algorithm):
    generator = np.random.default_rng(len(layout))
    extents = {"F": 2, "C": 1}
    shapes = [tuple({**extents, "H": h, "W": w}[letter] for letter in layout) for h, w in ((6, 8), (4, 10), (30, 44))]
    images = [generator.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True) for shape in shapes]
    places = [np.array(place, np.int32) for place in PLACES[1:]]

    def asked():
        return dali.call("debayer", [Samples(images, layout)], blue_position=Samples(places), algorithm=algorithm)

    if (algorithm, kind) == ("vng_ocv", "uint16"):
        with pytest.raises(DaliError, match="only supported with UINT8"):
            asked()
        return
    theirs, batch = asked(), ndd.as_batch(images, layout=layout)
    ours = ndd.debayer(batch, blue_position=ndd.as_batch(places), algorithm=algorithm)
    assert ours.layout == theirs.layout
    for one, other in zip(ours.samples, theirs.samples, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
