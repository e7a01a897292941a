"""Operators on a GPU, or on what stands in for one: the results are those of the CPU."""

from __future__ import annotations

import functools
import itertools

import hypothesis.strategies as st
import numpy
import pytest
from hypothesis import given
from twin import build

import dynamic
from dynamic import random
from dynamic.errors import ArgumentError, DeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing"),
]

seeds = st.integers(0, 2**32 - 1)


def smooth(generator, shape, layout, dtype):
    """Images in which neighbours are alike."""
    grids = numpy.ogrid[tuple(slice(0, extent) for extent in shape)]
    wave = numpy.zeros(shape)
    for letter, grid in zip(layout, grids, strict=True):
        wave = wave + numpy.sin(grid / 14 + generator.random()) * (40 if letter in "HW" else 10)
    dtype = numpy.dtype(dtype)
    return (wave / 100 + 0.5).astype(dtype) if dtype.kind == "f" else (wave + 128).clip(0, 255).astype(dtype)


def batch(generator, layout="HWC", dtype="uint8", count=4, channels=3, uniform=False):
    extents = {"C": channels, "F": 2}
    shapes = [tuple(extents.get(letter, int(generator.integers(20, 70))) for letter in layout) for _ in range(count)]
    shapes = shapes[:1] * count if uniform else shapes
    return dynamic.as_batch([smooth(generator, shape, layout, dtype) for shape in shapes], layout=layout)


def alike(found, expected, part=0.05):
    """Whether a result is that of the CPU: bytes within one level and nearly all equal, floats nearly so."""
    assert found.device.device_type == "gpu"
    assert (found.dtype, found.layout) == (expected.dtype, expected.layout)
    found = found.cpu()
    samples = (
        zip(found.samples, expected.samples, strict=True)
        if hasattr(found, "samples")
        else [(found.array, expected.array)]
    )
    for one, other in samples:
        assert one.shape == other.shape
        apart = numpy.abs(one.astype(numpy.float64) - other.astype(numpy.float64))
        if one.dtype.kind in "iu":
            assert apart.max(initial=0) <= 1
            assert apart.mean() <= part if apart.size else True
        else:
            limit = 2e-3 if one.dtype.itemsize == 2 else 1e-3
            assert (apart > limit * (1 + numpy.abs(other))).sum() == 0


def nearly_alike(found, expected, part=0.5):
    """The same of the nearest pixels: on the CPU points are rounded to float32, so few may fall on another side."""
    for one, other in zip(found.cpu().samples, expected.samples, strict=True):
        assert one.shape == other.shape
        assert (one != other).mean() <= part / 100


LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FCHW")


def each(images, values):
    """A value for each image, which repeat."""
    return dynamic.as_batch([values[i % len(values)] for i in range(len(images))])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_histograms(layout, dtype):
    generator = numpy.random.default_rng(8)
    images = batch(generator, layout, "uint8", channels=2)
    values = generator.integers(0, 60, 256) * (1 if dtype == "uint8" else 1000)
    images = dynamic.as_batch([values.astype(dtype)[image] for image in images.samples], layout=layout)
    alike(dynamic.equalize(images.gpu()), dynamic.equalize(images), part=0)
    same = dynamic.as_batch([numpy.full((2, 3, 5, 6)[: len(layout)], 7, dtype)] * 2, layout=layout)
    alike(dynamic.equalize(same.gpu()), same, part=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("border", ["reflect_101", "reflect_1001", "clamp", "wrap", "constant"])
def test_any_filter(layout, border):
    generator = numpy.random.default_rng(9)
    for dtype, more in (("uint8", {}), ("uint8", {"dtype": "float32"}), ("float32", {}), ("int16", {"mode": "valid"})):
        images = batch(generator, layout, dtype)
        kernels = dynamic.as_batch([generator.uniform(-0.2, 0.4, shape) for shape in [(3, 3), (1, 7), (4, 2), (3, 3)]])
        call = lambda x, k, v, border=border, more=more: dynamic.filter(x, k, v, border=border, anchor=0, **more)  # noqa: E731
        expected = call(images, kernels, 7)
        for on in (kernels, kernels.gpu()):
            alike(call(images.gpu(), on, 7), expected)
        one = numpy.float32([[0, 0.53, 0], [0, 0.31, 0.171]])
        alike(
            dynamic.filter(images.gpu(), one, border=border, **more), dynamic.filter(images, one, border=border, **more)
        )
    tiny = dynamic.as_batch([numpy.arange(1, 3, dtype="float32").reshape(1, 2)], layout="HW")
    far = numpy.ones((5, 9), "float32")
    alike(dynamic.filter(tiny.gpu(), far, border=border), dynamic.filter(tiny, far, border=border))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16", "uint16", "float64", "int8"])
def test_extremes_and_medians_of_windows(layout, dtype):
    generator = numpy.random.default_rng(11)
    images = batch(generator, layout, "uint8")
    values = generator.permutation(256) - (100 if dtype not in ("uint8", "uint16") else 0)
    images = dynamic.as_batch([values.clip(-128, 127 if dtype == "int8" else 255).astype(dtype)[image] for image in
                               images.samples], layout=layout)  # fmt: skip
    if dtype.startswith("f"):
        images = images / 3
    for size in ((3, 5), 1, 5):
        call = functools.partial(dynamic.experimental.median_blur, window_size=size)
        alike(call(images.gpu()), call(images), part=0)
    sizes, anchors = each(images, [[3, 2], [1, 4]]), each(images, [[2, 1], [0, -1]])
    for name, border in itertools.product(
        ("dilate", "erode"), ("constant", "replicate", "reflect", "reflect_101", "wrap")
    ):
        function = getattr(dynamic.experimental, name)
        for more in ({}, {"iterations": 2}, {"mask_size": sizes, "anchor": anchors, "iterations": 3}):
            alike(function(images.gpu(), border_mode=border, **more), function(images, border_mode=border, **more), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["nn", "linear", "cubic"])
def test_maps(layout, kind):
    generator = numpy.random.default_rng(10)
    same = nearly_alike if kind == "nn" else alike
    turned = [[0.93, 0.21, 3.1], [-0.12, 1.13, 2.2], [0.0007, -0.0004, 1.0]]
    for dtype in ("uint8", "float32", "int16"):
        images = batch(generator, layout, dtype)
        for border, more in itertools.product(
            ("constant", "replicate", "reflect", "reflect_101", "wrap"),
            ({}, {"size": (30, 90), "pixel_origin": "center", "fill_value": 9.0, "inverse_map": False}),
        ):
            call = functools.partial(
                dynamic.experimental.warp_perspective, border_mode=border, interp_type=kind, **more
            )
            matrices = each(images, [turned, numpy.eye(3).tolist()])
            same(call(images.gpu(), matrix=matrices), call(images, matrix=matrices), part=0.5)
            same(call(images.gpu(), matrices.gpu()), call(images, matrices), part=0.5)
        shapes = [(17, 40), (17, 40, 1), (1, 17, 40)][: 2 if "F" in layout else 3]
        shapes = [(*((2,) if "F" in layout and len(shape) == 3 else ()), *shape) for shape in shapes]
        for shape, origin in itertools.product(shapes, ("corner", "center")):
            points = [dynamic.as_batch(generator.uniform(-5, 75, (4, *shape))) for _ in range(2)]
            call = functools.partial(dynamic.experimental.remap, interp=kind, pixel_origin=origin)
            same(call(images.gpu(), *points), call(images, *points), part=0.5)
            same(call(images.gpu(), *(each.gpu() for each in points)), call(images, *points), part=0.5)
        if kind != "cubic":
            for name, more in (("sphere", {}), ("water", {"ampl_x": 4.0, "phase_y": 0.3, "freq_x": 0.2})):
                call = functools.partial(getattr(dynamic, name), interp_type=kind, fill_value=3.0, **more)
                masks = each(images, [1, 0])
                same(call(images.gpu(), mask=masks), call(images, mask=masks), part=0.5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "int32"])
def test_colour_spaces(layout, dtype):
    spaces = ("RGB", "BGR", "GRAY", "YCbCr")
    for have, want in itertools.product(spaces, spaces):
        if "C" in layout or have == "GRAY":
            images = batch(numpy.random.default_rng(6), layout, dtype, channels=1 if have == "GRAY" else 3)
            convert = functools.partial(dynamic.color_space_conversion, image_type=have, output_type=want)
            alike(convert(images.gpu()), convert(images), part=0.5)


def test_a_window_by_an_anchor():
    images = batch(numpy.random.default_rng(3))
    anchors = dynamic.as_batch(numpy.random.default_rng(4).uniform(0, 0.4, (4, 2)).astype(numpy.float32))
    expected = dynamic.slice(images, anchors, [0.5, 0.5])
    alike(dynamic.slice(images.gpu(), anchors.gpu(), [0.5, 0.5]), expected)


def test_random_windows_resized():
    images = batch(numpy.random.default_rng(3))
    found, expected = (dynamic.random_resized_crop(x, size=(20, 24), rng=random.RNG(5)) for x in (images.gpu(), images))
    alike(found, expected, part=0.5)
    alike(dynamic.random_resized_crop(images, size=(20, 24), rng=random.RNG(5), device="gpu"), expected, part=0.5)


def test_videos_without_frames_and_regions_in_channels():
    videos, erase = dynamic.as_batch([numpy.ones((0, 5, 6, 3), "uint8")] * 2, layout="FHWC"), dynamic.erase
    colours = {"anchor": (5.0, 1.0), "shape": (9.0, 2.0), "fill_value": (1.0, 2.0, 3.0), "axis_names": "HC"}
    calls = [dynamic.equalize, dynamic.crop_mirror_normalize, dynamic.experimental.dilate, erase]
    for call in (
        *calls,
        lambda x: dynamic.filter(x, numpy.ones((2, 3))),
        lambda x: dynamic.clahe(x, tiles_x=2, tiles_y=3, clip_limit=2),
    ):
        alike(call(videos.gpu()), call(videos))
    images = batch(numpy.random.default_rng(1))
    alike(erase(images.gpu(), **colours), erase(images, **colours))


def test_grey_and_coloured_images_in_one_batch():
    generator = numpy.random.default_rng(4)
    images = dynamic.as_batch([smooth(generator, (20, 30, channels), "HWC", "uint8") for channels in (1, 3, 1, 3)])
    call = lambda x: dynamic.color_twist(x, hue=20.0, brightness=1.2, contrast=0.8)  # noqa: E731
    alike(call(images.gpu()), call(images), part=0.5)


@given(seeds, st.sampled_from(["uint8", "float32", "float64", "float16", "int32", "int64", "uint16"]))
def test_random_numbers_are_the_same_bits(seed, dtype):
    shapes = dynamic.as_batch([[2, 3], [1000, 2], [0, 1], [5, 1]])
    ranges = dynamic.as_batch([[0, 9], [1, 3], [5, 60], [-1, 1]])
    draws = {
        "uniform": lambda **more: random.uniform(range=(-3, 90), dtype=dtype, **more),
        "each": lambda **more: random.uniform(range=ranges, dtype=dtype, **more),
        "values": lambda **more: random.uniform(values=[1, 5, 7, 100], dtype=dtype, **more),
        "normal": lambda **more: random.normal(mean=50, stddev=dynamic.as_batch([1, 2, 3, 4]), dtype=dtype, **more),
        "coin": lambda **more: random.coin_flip(probability=0.3, dtype=dtype, **more),
    }
    for name, draw in draws.items():
        for how in (shapes, None):
            one, other = random.RNG(seed), random.RNG(seed)
            found = draw(shape=how, batch_size=4, device="gpu", rng=one)
            expected = draw(shape=how, batch_size=4, device="cpu", rng=other)
            assert found.device.device_type == "gpu"
            assert one.get_state() == other.get_state()
            for a, b in zip(found.cpu().samples, expected.samples, strict=True):
                assert a.dtype == b.dtype, name
                assert a.tobytes() == b.tobytes(), name


def test_keyed_draws_are_the_same_bits():
    keyed = lambda: random.RNG(7).keyed([17, 4, 9])  # noqa: E731
    found, expected = (random.uniform(shape=3, rng=keyed(), device=device) for device in ("gpu", "cpu"))
    assert found.cpu().tolist() == expected.tolist()


@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
def test_frames_of_a_window(layout):
    videos = batch(numpy.random.default_rng(5), layout, "uint8", uniform=False)
    frames = min(shape[0] for shape in videos.shape)
    for window in ({"crop_d": frames - 1}, {"crop_d": 1, "crop_h": 9, "crop_w": 8, "crop_pos_z": 1.0}):
        for operator in (dynamic.crop, dynamic.crop_mirror_normalize):
            alike(operator(videos.gpu(), **window), operator(videos, **window))
    with pytest.raises(DeviceError, match=r"pads with frames on cpu.*\.cpu\(\)"):
        dynamic.crop_mirror_normalize(videos.gpu(), crop_d=99, out_of_bounds_policy="pad")


def test_volumes_say_where_they_run():
    volume = dynamic.as_tensor(numpy.zeros((3, 4, 5, 1), "uint8"), layout="DHWC").gpu()
    with pytest.raises(DeviceError, match=r"rotate\(\) of volumes runs on cpu.*\.cpu\(\)"):
        dynamic.rotate(volume, angle=10.0, axis=(0, 0, 1))
    with pytest.raises(DeviceError, match=r"resize\(\) of volumes runs on cpu"):
        dynamic.resize(volume, size=(2, 2, 2))
    with pytest.raises(DeviceError, match=r"gaussian_blur\(\) on a GPU is for images"):
        dynamic.gaussian_blur(volume, sigma=1.0)
    assert dynamic.flip(volume, depthwise=1).shape == (3, 4, 5, 1)


def test_arrays_of_many_dimensions_say_what_a_gpu_takes():
    array = dynamic.as_tensor(numpy.arange(2**7, dtype="uint8").reshape((2,) * 7))
    for erased in (array, array[0]):
        call = lambda x, ndim=erased.ndim: dynamic.erase(x, axes=[ndim - 1, 0], anchor=[1, 0], shape=[1, 1])  # noqa: E731
        if erased.ndim > 6:
            with pytest.raises(DeviceError, match="at most 6 dimensions"):
                call(erased.gpu())
        else:
            alike(call(erased.gpu()), call(erased), part=0)


def test_errors_are_those_of_the_cpu():
    image = dynamic.as_tensor(numpy.zeros((4, 5, 3), "uint8"), layout="HWC").gpu()
    with pytest.raises(ArgumentError, match="matrix"):
        dynamic.warp_affine(image, matrix=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="fill_values"):
        dynamic.crop(image, crop=(2, 2), fill_values=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="std"):
        dynamic.crop_mirror_normalize(image, std=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="window_size"):
        dynamic.gaussian_blur(image, window_size=4)
    with pytest.raises(ArgumentError, match="fill_value"):
        dynamic.pad(image, fill_value=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="fill_value"):
        dynamic.erase(image, fill_value=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="fill_value"):
        dynamic.paste(image, ratio=2.0, fill_value=[1.0, 2.0])
    with pytest.raises(ArgumentError, match=r"'out_anchors' must be inside of \(9, 9\) for window 0") as caught:
        dynamic.multi_paste(image, output_size=(9, 9), out_anchors=[[7, 0]])
    assert "In multi_paste(), sample 0 of 1" in caught.value.__notes__[0]
    with pytest.raises(ArgumentError, match="'anchor' must be less than the extent of the filter, 2; got 2"):
        dynamic.filter(image, numpy.ones((2, 2)), anchor=2)
    with pytest.raises(ArgumentError, match="'fill_value' must be one number"):
        dynamic.filter(image, numpy.ones((2, 2)), [1.0, 2.0], border="constant")
    with pytest.raises(ArgumentError, match="'window_size' must be odd; got .*2"):
        dynamic.experimental.median_blur(image, window_size=2)
    with pytest.raises(ArgumentError, match="'anchor' must be less than the extent of the mask, 3; got 3"):
        dynamic.experimental.dilate(image, anchor=3)
    with pytest.raises(ArgumentError, match="window_size"):
        dynamic.laplacian(image, window_size=4)
    with pytest.raises(DeviceError, match=r"'images\[0\]' is on gpu:0 and 'images\[1\]' on cpu"):
        dynamic.multi_paste(image, image.cpu())
    for call in (dynamic.equalize, dynamic.grid_mask):
        volume = dynamic.as_tensor(numpy.zeros((3, 4, 5, 1), "uint8"), layout="DHWC").gpu()
        with pytest.raises(DeviceError, match=rf"{call.__name__}\(\) of volumes runs on cpu"):
            call(volume)


def test_inputs_on_different_devices_are_refused_and_numbers_go_along():
    here = dynamic.as_tensor([[1.0, 2.0]])
    for first, second in ((here, here.gpu()), (here.gpu(), here)):
        places = f"'.*' is on {first.device} and '.*' on {second.device}; move them to one device first"
        for call in (dynamic.cat, dynamic.stack):
            with pytest.raises(DeviceError, match=rf"{call.__name__}\(\): {places}"):
                call(first, second)
    for pair in (([[3.0, 4.0]], here.gpu()), (here.gpu(), [[3.0, 4.0]])):
        found, expected = (dynamic.cat(*inputs) for inputs in (pair, [dynamic.as_tensor(x).cpu() for x in pair]))
        assert (found.device, found.tolist()) == ("gpu:0", expected.tolist())
    image, anchor = dynamic.as_tensor(numpy.arange(12.0).reshape(3, 4), layout="HW"), dynamic.as_tensor([1.0, 2.0])
    for start in (anchor, anchor.gpu(), [1.0, 2.0]):  # what comes after the data may stay where it is
        found = dynamic.slice(image.gpu(), start, (2, 2), axes=(0, 1), normalized_anchor=False, normalized_shape=False)
        assert (found.device, found.tolist()) == ("gpu:0", [[6.0, 7.0], [10.0, 11.0]])


def test_matrices_from_the_gpu_and_for_frames():
    generator = numpy.random.default_rng(5)
    images = batch(generator, "FHWC")
    matrices = dynamic.as_batch([generator.uniform(0.8, 1.2, (2, 2, 3)) for _ in range(4)])
    expected = dynamic.warp_affine(images, matrices)
    alike(dynamic.warp_affine(images.gpu(), matrices.gpu()), expected)
