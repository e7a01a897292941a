"""Operators that the CPU computes by libraries of integers, on a GPU or on what stands in for one: bit for bit."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy
import pytest
from hypothesis import given
from twin import build

import dynamic
from dynamic.errors import ArgumentError, DeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing"),
]

LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FCHW")
seeds = st.integers(0, 2**32 - 1)


def read_only(array):
    array.flags.writeable = False
    return array


def pictures(seed, layout, dtype="uint8", channels=3, least=1, most=70, uniform=False):
    """A batch of images, some of them noise and some smooth, in strides of several kinds; nobody may write to them."""
    generator = numpy.random.default_rng(seed)
    extents = {"C": channels, "F": 2}
    images = []
    for _ in range(3):
        if not images or not uniform:
            shape = tuple(extents.get(letter) or int(generator.integers(least, most + 1)) for letter in layout)
        top = numpy.iinfo(dtype).max
        image = generator.integers(0, generator.integers(1, top + 1), shape, endpoint=True)
        for axis in range(len(shape)) if generator.random() < 0.5 else ():
            image = (image + numpy.roll(image, 1, axis) + numpy.roll(image, 3, axis)) // 3
        image = image.astype(dtype)
        images.append(
            read_only(image[tuple(slice(None, None, int(step)) for step in generator.choice([-1, 1], len(shape)))])
        )
    return dynamic.as_batch(images, layout=layout)


def on_gpu(images, way):
    """Images on a GPU: as they are, or every second element of larger arrays, which is no contiguous view."""
    moved = images.gpu()
    if way == "whole" or not len(images):
        return moved
    import cupy

    views = []
    for sample in images.samples:
        wide = cupy.empty(tuple(2 * extent for extent in sample.shape), sample.dtype)
        view = wide[(slice(None, None, 2),) * sample.ndim]
        view[...] = cupy.asarray(sample)
        views.append(view)
    return dynamic.as_batch(views, layout=images.layout)


def apart(found, expected):
    """How far values are from those of the CPU, of all samples."""
    assert found.device.device_type == "gpu"
    assert (found.dtype, found.layout, found.shape) == (expected.dtype, expected.layout, expected.shape)
    pairs = zip(found.cpu().samples, expected.samples, strict=True)
    return numpy.concatenate([numpy.abs(a.astype(numpy.float64) - b).reshape(-1) for a, b in pairs])


ways = st.sampled_from(["whole", "parts"])


@given(seeds, st.sampled_from(LAYOUTS), st.sampled_from(["uint8", "uint16"]), st.integers(1, 9), st.integers(1, 9),
       st.sampled_from([0.0, 0.3, 1.0, 2.0, 40.0, 1e9]), st.booleans(), ways)  # fmt: skip
def test_clahe(seed, layout, dtype, tiles_x, tiles_y, limit, luma_only, way):
    images = pictures(seed, layout, dtype, channels=seed % 2 * 2 + 1 if luma_only else seed % 4 + 1)
    arguments = {"tiles_x": tiles_x, "tiles_y": tiles_y, "clip_limit": limit, "luma_only": luma_only}
    found = apart(dynamic.clahe(on_gpu(images, way), **arguments), dynamic.clahe(images, **arguments))
    # OpenCV computes the colours of the last pixels of a row, those that fill no vector, with other roundings.
    assert found.max(initial=0) <= (1 if dtype == "uint16" and luma_only else 0)
    assert (found > 0).mean() < 0.02


def test_clahe_of_every_colour():
    colours = numpy.indices((32, 32, 32)).reshape(3, -1).T.reshape(128, 256, 3)
    for dtype, by in (("uint8", 8.23), ("uint16", 2114.0)):
        images = dynamic.as_batch([read_only((colours * by).astype(dtype))], layout="HWC")
        arguments = {"tiles_x": 4, "tiles_y": 3, "clip_limit": 2.0}
        assert apart(dynamic.clahe(images.gpu(), **arguments), dynamic.clahe(images, **arguments)).max() == 0


def test_clahe_of_grey_and_coloured_images_with_two_bytes_in_parts(monkeypatch):
    from dynamic.kernels.gpu import histograms

    images = dynamic.as_batch([pictures(c, "HWC", "uint16", c).samples[0] for c in (1, 3, 1, 3, 3)], layout="HWC")
    arguments = {"tiles_x": 2, "tiles_y": 2, "clip_limit": 1.5}
    expected = dynamic.clahe(images, **arguments)
    assert apart(dynamic.clahe(images.gpu(), **arguments), expected).max() <= 1
    monkeypatch.setattr(histograms, "_MEMORY", 1 << 21)
    assert apart(dynamic.clahe(images.gpu(), **arguments), expected).max() <= 1


def test_errors_of_clahe_are_those_of_the_cpu():
    for images in (pictures(1, "HWC", channels=2), pictures(1, "HWC", channels=2).gpu()):
        with pytest.raises(
            ArgumentError, match=r"'image' must be of 3 channels \(RGB\) or of 1 \(GRAY\); got 2"
        ) as caught:
            dynamic.clahe(images, tiles_x=1, tiles_y=1, clip_limit=1)
        assert "In clahe(), sample 0 of 3" in caught.value.__notes__[0]
        with pytest.raises(ArgumentError, match="'bins' must be a power of two; got 100"):
            dynamic.clahe(images, tiles_x=1, tiles_y=1, clip_limit=1, bins=100)
    volume = dynamic.as_tensor(numpy.zeros((3, 4, 5, 1), "uint8"), layout="DHWC").gpu()
    with pytest.raises(DeviceError, match=r"clahe\(\) of volumes runs on cpu"):
        dynamic.clahe(volume, tiles_x=1, tiles_y=1, clip_limit=1)


@given(seeds, st.sampled_from(LAYOUTS), st.lists(st.integers(-5, 120), min_size=3, max_size=3), st.booleans(), ways)
def test_jpeg_compression(seed, layout, qualities, grey, way):
    images = pictures(seed, layout, channels=1 if grey else 3)
    for quality in (dynamic.as_batch(qualities), qualities[0]):
        found = dynamic.jpeg_compression_distortion(on_gpu(images, way), quality=quality)
        assert apart(found, dynamic.jpeg_compression_distortion(images, quality=quality)).max(initial=0) == 0


@pytest.mark.parametrize("quality", [1, 30, 100])
def test_jpeg_compression_of_extremes(quality):
    """Blocks that are as far from grey as can be, each of one wave; and every width and height at which an edge is."""
    y, x = numpy.ogrid[:64, :64]
    waves = numpy.cos((2 * (y % 8) + 1) * (y // 8) * numpy.pi / 16) * numpy.cos(
        (2 * (x % 8) + 1) * (x // 8) * numpy.pi / 16
    )
    signs = numpy.where(waves >= 0, 255, 0).astype("uint8")
    images = [numpy.stack([signs, signs.T, 255 - signs], 2), numpy.stack([signs] * 3, 2), signs[..., None]]
    generator = numpy.random.default_rng(quality)
    images += [
        generator.integers(0, 256, (int(i), int(k), 3), "uint8")
        for i in range(1, 19)
        for k in (1, 2, 3, 4, 5, 16, 17, 66)
    ]
    images = dynamic.as_batch([read_only(image) for image in images], layout="HWC")
    found = dynamic.jpeg_compression_distortion(images.gpu(), quality=quality)
    assert apart(found, dynamic.jpeg_compression_distortion(images, quality=quality)).max() == 0


def test_errors_of_jpeg_compression_are_those_of_the_cpu():
    for move in (lambda x: x, lambda x: x.gpu()):
        with pytest.raises(ArgumentError, match="of 3 channels"):
            dynamic.jpeg_compression_distortion(move(pictures(1, "HWC", channels=2)))
        wide = dynamic.as_tensor(numpy.zeros((1, 65501), "uint8"), layout="HW")
        with pytest.raises(ArgumentError, match="at most 65500 pixels high and wide; got 1 x 65501"):
            dynamic.jpeg_compression_distortion(move(wide))
    volume = dynamic.as_tensor(numpy.zeros((3, 4, 5, 1), "uint8"), layout="DHWC").gpu()
    with pytest.raises(DeviceError, match=r"jpeg_compression_distortion\(\) of volumes runs on cpu"):
        dynamic.jpeg_compression_distortion(volume)


def test_resizing_along_different_dimensions_in_one_batch():
    shapes = [(6, 7, 8), (6, 9, 8), (5, 7, 8), (6, 7, 3), (5, 9, 8), (6, 7, 8)]
    arrays = dynamic.as_batch([numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape) for shape in shapes])
    for kind in ("nn", "cubic"):
        expected = dynamic.tensor_resize(arrays, sizes=(6, 7, 8), interp_type=kind)
        found = dynamic.tensor_resize(arrays.gpu(), sizes=(6, 7, 8), interp_type=kind)
        assert (apart(found, expected) < 0.01).all()


def test_resizing_by_a_filter_that_blurs_counts_dimensions_that_keep_their_size():
    arrays = dynamic.as_batch([numpy.arange(30, dtype="float32").reshape(5, 6)] * 2)
    expected = dynamic.tensor_resize(arrays, sizes=9, axes=0, interp_type="gaussian")
    assert (apart(dynamic.tensor_resize(arrays.gpu(), sizes=9, axes=0, interp_type="gaussian"), expected) < 0.01).all()
    three = dynamic.as_batch([numpy.zeros((3, 4, 5))])
    for arguments in ({"sizes": 2}, {"sizes": 2, "axes": 0, "interp_type": "gaussian"}):
        assert dynamic.tensor_resize(three, **arguments).ndim == 3
        message = r"tensor_resize\(\) along more than two dimensions runs on cpu.*Move it with \.cpu\(\)"
        with pytest.raises(DeviceError, match=message):
            dynamic.tensor_resize(three.gpu(), **arguments)


def test_resizing_numbers_and_nothing():
    for array in (numpy.float32(3), numpy.zeros((0, 3)), numpy.zeros((2, 0, 3), "uint8")):
        arrays, size = dynamic.as_batch([array] * 2), {"scales": 1.0}
        assert (apart(dynamic.tensor_resize(arrays.gpu(), **size), dynamic.tensor_resize(arrays, **size)) == 0).all()
    empty = dynamic.as_batch([numpy.zeros((4, 5), "uint8")])[:0]
    assert dynamic.tensor_resize(empty.gpu(), scales=2.0).ndim == 2
