"""The CUDA kernels, compiled for the host, against the kernels of the CPU."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy
import pytest
from hypothesis import given
from twin import bare, build

from dynamic import dtypes
from dynamic._described import described
from dynamic.kernels.cpu import warp as cpu_warp
from dynamic.kernels.cpu import windows
from dynamic.kernels.gpu import copies, warp
from dynamic.kernels.gpu._images import images

pytestmark = pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing")

DTYPES = [numpy.dtype(kind.word) for kind in dtypes.ALL]


@pytest.fixture(autouse=True)
def _on_the_host():
    with bare.in_place_of_cupy():
        yield


def values(generator, shape, dtype):
    """Numbers of a type, with its extremes and, of floats, what is no number."""
    if dtype.kind == "b":
        return numpy.asarray(generator.random(shape) < 0.5)
    if dtype.kind == "f":
        found = numpy.asarray(generator.normal(0, 100, shape)).astype(dtype)
        special = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 0.5, -0.5, 1.5, 2.5, 254.5, 0.49999997], dtype)
    else:
        limits = numpy.iinfo(dtype)
        found = generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        special = numpy.array([limits.min, limits.max, 0, 1], dtype)
    at = generator.random(shape) < 0.1
    return numpy.asarray(numpy.where(at, generator.choice(special, shape), found))


def strided(array, order):
    """The same array with its dimensions in another order in memory, and a gap or a reversal in the last one there."""
    if array.ndim == 0 or order == 0:
        return array
    turned = numpy.ascontiguousarray(array.transpose(numpy.roll(numpy.arange(array.ndim), order % array.ndim)))
    if order % 3 == 1:
        turned = numpy.repeat(turned, 2, -1)[..., ::2]
    elif order % 3 == 2:
        turned = numpy.ascontiguousarray(turned[..., ::-1])[..., ::-1]
    return turned.transpose(numpy.argsort(numpy.roll(numpy.arange(array.ndim), order % array.ndim)))


def empty_like_all(shapes, dtype):
    return [numpy.full(shape, 77, dtype) for shape in shapes]


seeds = st.integers(0, 2**32 - 1)
one_dtype = st.sampled_from(DTYPES)


@given(seeds, st.integers(0, 9))
def test_pieces(seed, count):
    generator = numpy.random.default_rng(seed)
    sources = [generator.integers(0, 256, generator.choice([0, 1, 15, 16, 17, 1000, 16384, 40001]), numpy.uint8)[k % 5 :]
               for k in range(count)]  # fmt: skip
    sizes = numpy.array([len(s) for s in sources], numpy.int64)
    starts = numpy.cumsum(sizes + generator.integers(0, 20, count)) - sizes
    buffer = numpy.full(sum(sizes) + 20 * (count + 1), 7, numpy.uint8)
    expected = buffer.copy()
    for start, s in zip(starts, sources, strict=True):
        expected[start : start + len(s)] = s
    at = (buffer.ctypes.data + starts).astype(numpy.uint64)
    copies.pieces(numpy.array([s.ctypes.data for s in sources], numpy.uint64), at, sizes)
    numpy.testing.assert_array_equal(buffer, expected)


@given(seeds, st.integers(0, 5), st.integers(0, 4), one_dtype, one_dtype, st.booleans())
def test_windows(seed, count, ndim, have, want, same):
    generator = numpy.random.default_rng(seed)
    want = have if same else want
    extents = [0, 1, 2, 3, 5, 8, 20] if ndim > 2 else [1, 3, 40, 200, 3000][: 5 if ndim < 2 else 4]
    images, starts, steps, shapes = [], [], [], []
    channel, width = int(generator.integers(ndim)) if ndim and generator.random() < 0.5 else None, 4
    for _ in range(count):
        shape = tuple(generator.choice(extents, ndim))
        images.append(strided(values(generator, shape, have), int(generator.integers(0, 6))))
        step = generator.choice([1, 1, 1, -1, 2, -3], ndim)
        starts.append([int(generator.integers(-2, e + 3)) if generator.random() < 0.5 else 0 if s > 0 else e - 1
                       for e, s in zip(shape, step, strict=True)])  # fmt: skip
        steps.append(step)
        wanted = [e if generator.random() < 0.5 else int(generator.choice(extents)) for e in shape]
        shapes.append(tuple(width if axis == channel else e for axis, e in enumerate(wanted)))
    if not count:
        return
    fill = values(generator, (count, width) if generator.random() < 0.5 else width, numpy.dtype("float64"))
    fill = fill if channel is not None else fill.reshape(-1)[:1]
    outs = empty_like_all(shapes, want)
    copies.window(described(images), described(outs), numpy.array(starts, numpy.int64).reshape(count, ndim),
                  numpy.array(steps, numpy.int64).reshape(count, ndim), fill, channel)  # fmt: skip
    for i in range(count):
        numpy.testing.assert_array_equal(outs[i], reference(images[i], starts[i], steps[i], shapes[i], fill if fill.ndim == 1 else fill[i], channel, want))


def reference(image, starts, steps, shape, fill, channel, dtype):
    """A window by NumPy's indexing."""
    indices = [start + step * numpy.arange(size) for start, step, size in zip(starts, steps, shape, strict=True)]
    inside = numpy.ones(shape, bool)
    for axis, (index, extent) in enumerate(zip(indices, image.shape, strict=True)):
        inside &= ((index >= 0) & (index < extent)).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    fill = dtypes.convert(numpy, fill, dtype)
    places = numpy.arange(shape[channel]) % len(fill) if channel is not None else numpy.zeros(1, int)
    outside = fill[places].reshape([-1 if axis == channel else 1 for axis in range(len(shape))])
    if not image.size or not inside.size:
        return numpy.broadcast_to(outside, shape)
    clipped = numpy.ix_(*(numpy.clip(i, 0, e - 1) for i, e in zip(indices, image.shape, strict=True)))
    return numpy.where(inside, dtypes.convert(numpy, numpy.asarray(image[clipped]), dtype), outside)


def test_windows_agree_with_the_kernel_of_the_cpu():
    generator = numpy.random.default_rng(5)
    image = generator.integers(0, 256, (37, 53, 3), numpy.uint8)
    out = numpy.empty((50, 30, 3), numpy.uint8)
    expected = out.copy()
    windows.copied(image, [-5, 7, 0], numpy.array([1.0, 2.0, 3.0]), expected)
    copies.window(described(image[None]), described(out[None]), numpy.array([[-5, 7, 0]]), None, [1.0, 2.0, 3.0], 2)
    numpy.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("have", DTYPES, ids=str)
@pytest.mark.parametrize("want", DTYPES, ids=str)
def test_conversions(have, want):
    array = values(numpy.random.default_rng(1), (2000,), have)
    out = numpy.full(2000, 77).astype(want)
    copies.window(described(array[None]), described(out[None]))
    numpy.testing.assert_array_equal(out, dtypes.convert(numpy, array, want))


# -- warps ------------------------------------------------------------------------------------------------------------


def hwc(array, layout="HWC"):
    return images("test", described(array), layout)


def close(found, expected, where=""):
    """Whether bytes are within one level and almost all equal, and floats equal but for rounding."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "b":
        assert (found != expected).mean() <= 0.02
        return
    if found.dtype.kind in "iu":
        apart = numpy.abs(found.astype(numpy.float64) - expected.astype(numpy.float64))
        size = 1 if found.dtype.itemsize < 4 else 1 + 1e-6 * numpy.abs(expected.astype(numpy.float64)).max(initial=0)
        assert apart.max(initial=0) <= size, where
        assert (apart > 0).mean() <= 0.05 or (apart > 0).sum() <= 2, where
        return
    tolerance = {2: 2e-3, 4: 1e-5, 8: 1e-5}[found.dtype.itemsize]
    numpy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 100, err_msg=where)


def smooth(generator, shape, dtype):
    """An image in which neighbours are alike, so that a hundredth of a pixel makes no difference."""
    height, width, channels = shape
    y, x, c = numpy.ogrid[:height, :width, :channels]
    wave = 100 * numpy.sin(x / 15 + c) * numpy.cos(y / 20 - c) + 20 * generator.random()
    if dtype.kind == "b":
        return wave > 0
    return dtypes.convert(numpy, wave + (128 if dtype.kind == "u" else 0), dtype)


def some_images(generator, count, dtype, sizes=(1, 2, 7, 31, 32, 33, 64, 90), channels=(1, 2, 3, 4, 5)):
    width = int(generator.choice(channels))
    shapes = [(*generator.choice(sizes, 2), width) for _ in range(count)]
    return [strided(smooth(generator, shape, dtype), int(generator.choice([0, 0, 1, 2, 4]))) for shape in shapes]


@given(seeds, st.integers(0, 4), one_dtype, one_dtype, st.booleans(), st.booleans(), st.booleans())
def test_affine(seed, count, have, want, same, nearest, clamp):
    generator = numpy.random.default_rng(seed)
    want = have if same else want
    sources = some_images(generator, count, have)
    if not count:
        return
    outs = empty_like_all([(*generator.choice([1, 5, 33, 64, 70], 2), s.shape[2]) for s in sources], want)
    matrices = []
    for source, out in zip(sources, outs, strict=True):
        kind = generator.integers(4)
        angle = [float(generator.uniform(-200, 200)), 90.0, 180.0, 0.0][kind]
        matrices.append(cpu_warp.rotation(source.shape[:2], out.shape[:2], angle) * [[1, 1, 1], [1, 1, 1]])
        if kind == 3:
            matrices[-1] = matrices[-1] * generator.uniform(0.2, 3, (2, 3)) + generator.uniform(-4, 4, (2, 3)) * [0, 0, 1]
    fill = None if clamp else generator.uniform(-20, 300, sources[0].shape[2]).tolist()
    warp.affine(hwc(sources), hwc(outs), numpy.array(matrices), fill, nearest=nearest)
    for source, matrix, out in zip(sources, matrices, outs, strict=True):
        expected = numpy.empty_like(out)
        exact_affine(source, matrix, expected, fill, nearest)
        close(out, expected)


def exact_affine(source, matrix, out, fill, nearest):
    """In float64, as the kernel of the CPU has it for types that OpenCV does not take."""
    rows = [[*row[:-1], row[-1] + sum(row[:-1]) / 2 - 0.5] for row in matrix.tolist()]
    if fill is not None:
        fill = cpu_warp.filled(fill, source.dtype, source.shape[-1])
    nearest = nearest or all(number.is_integer() for row in rows for number in row)
    cpu_warp._gather(source, rows, out, fill, nearest)


@pytest.mark.parametrize("have", ["uint8", "float32"])
def test_a_rotation_agrees_with_the_kernel_of_the_cpu(have):
    generator = numpy.random.default_rng(3)
    source = smooth(generator, (120, 150, 3), numpy.dtype(have))
    for angle in (0, 30, 90, 123.4, 180):
        shape = (*cpu_warp.canvas(source.shape[:2], angle), 3)
        matrix = cpu_warp.rotation(source.shape[:2], shape[:2], angle)
        for fill in (None, 9.0):
            out, expected = numpy.empty(shape, have), numpy.empty(shape, have)
            warp.affine(hwc(source[None]), hwc(out[None]), matrix[None], fill)
            cpu_warp.affine(source, matrix, expected, fill=fill)
            apart = numpy.abs(out.astype("f8") - expected)
            assert apart.max() <= (1 if have == "uint8" else 0.02)
            assert (apart > 0.01).mean() < 0.01


def test_far_and_huge_coordinates_are_read_as_outside():
    source = numpy.arange(12, dtype=numpy.uint8).reshape(3, 4, 1) + 1
    for matrix in ([[1e30, 0, 0], [0, 1e30, 0]], [[1, 0, 1e300], [0, 1, 0]], [[1e300, 1e308, -1e308], [1e308, 1, 1e308]]):
        out = numpy.full((40, 40, 1), 5, numpy.uint8)
        warp.affine(hwc(source[None]), hwc(out[None]), numpy.array([matrix]), 7.0)
        assert (out[1:, 1:] == 7).all()


def test_images_without_pixels_are_filled():
    source = numpy.empty((0, 4, 2), numpy.int16)
    out = numpy.full((5, 6, 2), 3, numpy.int16)
    warp.affine(hwc(source[None]), hwc(out[None]), numpy.eye(3)[None, :2], [4.0, 5.0])
    assert (out == [4, 5]).all()
    warp.affine(hwc(source[None]), hwc(out[None]), numpy.eye(3)[None, :2])
    assert (out == 0).all()


def test_frames_are_images():
    generator = numpy.random.default_rng(8)
    video = numpy.stack([smooth(generator, (20, 30, 3), numpy.dtype("uint8")) for _ in range(4)])
    video = numpy.ascontiguousarray(video.transpose(0, 3, 1, 2))
    out = numpy.empty_like(video)
    source, target = images("test", described([video, video[:0]]), "FCHW"), images("test", described([out, out[:0]]), "FCHW")
    matrix = cpu_warp.rotation((20, 30), (20, 30), 25)
    warp.affine(source, target, source.each(numpy.array([matrix, matrix])))
    for frame, result in zip(video, out, strict=True):
        expected = numpy.empty((20, 30, 3), numpy.uint8)
        exact_affine(frame.transpose(1, 2, 0), matrix, expected, None, False)
        close(result.transpose(1, 2, 0), expected)
