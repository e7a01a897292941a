"""The CUDA kernels, compiled for the host, against the kernels of the CPU."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy
import pytest
from hypothesis import given
from twin import bare, build

from dynamic import dtypes
from dynamic._arrays.described import described
from dynamic.kernels.cpu import resample as cpu_resample
from dynamic.kernels.cpu import rotations, windows
from dynamic.kernels.cpu import warp as cpu_warp
from dynamic.kernels.cpu.scaled import Along
from dynamic.kernels.gpu import _launch, copies, pixels, resample, warp
from dynamic.kernels.gpu._images import images
from dynamic.random import RNG, _distributions, _gpu
from dynamic.random._philox import Draw

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing"),
]

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
    lengths = generator.choice([0, 1, 15, 16, 17, 1000, 16384, 40001], count)
    sources = [generator.integers(0, 256, length, numpy.uint8)[k % 5 :] for k, length in enumerate(lengths)]
    sizes = numpy.array([len(s) for s in sources], numpy.int64)
    starts = numpy.cumsum(sizes + generator.integers(0, 20, count)) - sizes
    buffer = numpy.full(sum(sizes) + 20 * (count + 1), 7, numpy.uint8)
    expected = buffer.copy()
    for start, s in zip(starts, sources, strict=True):
        expected[start : start + len(s)] = s
    at = (buffer.ctypes.data + starts).astype(numpy.uint64)
    copies.pieces(numpy.array([s.ctypes.data for s in sources], numpy.uint64), at, sizes)
    numpy.testing.assert_array_equal(buffer, expected)


@pytest.mark.parametrize("start", range(17))
@pytest.mark.parametrize("size", [0, 1, 2, 15, 40])
def test_pieces_write_nothing_beside_them(start, size):
    source = numpy.arange(80, dtype=numpy.uint8) + 1
    target = numpy.zeros(80, numpy.uint8)
    target = target[-target.ctypes.data % 16 + source.ctypes.data % 16 :]  # both alike modulo 16
    places = (numpy.array([array.ctypes.data + start], numpy.uint64) for array in (source, target))
    copies.pieces(*places, numpy.array([size]))
    expected = numpy.zeros(len(target), numpy.uint8)
    expected[start : start + size] = source[start : start + size]
    numpy.testing.assert_array_equal(target, expected)


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
        numpy.testing.assert_array_equal(
            outs[i],
            reference(images[i], starts[i], steps[i], shapes[i], fill if fill.ndim == 1 else fill[i], channel, want),
        )


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


def exact_affine(source, matrix, out, fill, nearest):
    """In float64, as the kernel of the CPU has it for types that OpenCV does not take."""
    rows = [[*row[:-1], row[-1] + sum(row[:-1]) / 2 - 0.5] for row in matrix.tolist()]
    if fill is not None:
        fill = cpu_warp.filled(fill, source.dtype, source.shape[-1])
    nearest = nearest or all(number.is_integer() for row in rows for number in row)
    cpu_warp._gather(source, rows, out, fill, nearest)


def test_far_and_huge_coordinates_are_read_as_outside():
    source = numpy.arange(12, dtype=numpy.uint8).reshape(3, 4, 1) + 1
    for matrix in (
        [[1e30, 0, 0], [0, 1e30, 0]],
        [[1, 0, 1e300], [0, 1, 0]],
        [[1e300, 1e308, -1e308], [1e308, 1, 1e308]],
    ):
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
    source, target = (
        images("test", described([video, video[:0]]), "FCHW"),
        images("test", described([out, out[:0]]), "FCHW"),
    )
    matrix = numpy.array(rotations.rotation((20, 30), (20, 30), 25))
    warp.affine(source, target, source.each(numpy.array([matrix, matrix])))
    for frame, result in zip(video, out, strict=True):
        expected = numpy.empty((20, 30, 3), numpy.uint8)
        exact_affine(frame.transpose(1, 2, 0), matrix, expected, None, False)
        close(result.transpose(1, 2, 0), expected)


# -- pixels -----------------------------------------------------------------------------------------------------------


def test_bytes_become_the_same_floats_as_on_the_cpu():
    generator = numpy.random.default_rng(2)
    source = generator.integers(0, 256, (64, 48, 3), numpy.uint8)
    factors, shifts = (1 / 58.395, 1 / 57.12, 1 / 57.375), (-123.675 / 58.395, -116.28 / 57.12, -103.53 / 57.375)
    for want in ("float32", "float16"):
        out, expected = numpy.empty((3, 64, 48), want), numpy.empty((3, 64, 48), want)
        windows.normalised(source[None], factors, shifts, expected[:, None], [True])
        pixels.normalised(hwc(source[None]), hwc(out[None], "CHW"), numpy.array(factors), numpy.array(shifts),
                          mirror=numpy.array([True]))  # fmt: skip
        numpy.testing.assert_array_equal(out, expected)


NUMBERS = [dtype for dtype in DTYPES if dtype.kind != "b"]


# -- resizing and blurring --------------------------------------------------------------------------------------------

FILTERS = ("nn", "linear", "cubic", "lanczos3", "gaussian")


def resize_on_cpu(source, along, out):
    """The kernel of the CPU without its way for bytes, which rounds between the two passes."""
    steps, image = {}, source
    for axis, step in enumerate(along):
        if cpu_resample._is_identity(step, image.shape[axis], out.shape[axis]):
            continue
        if step.filter == "nn":
            image = cpu_resample._nearest(image, axis, step, out.shape[axis])
        else:
            steps[axis] = step
    if steps:
        cpu_resample._general(image, steps, out)
    else:
        dtypes.convert(numpy, image, out.dtype, out)


def along_all(extents, name="linear", running=False):
    extents = numpy.asarray(extents, numpy.float64)
    return resample.Along(extents * 0, extents, numpy.full(len(extents), name), True, running)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("extents", [(60, 80), (2000, 40), (30, 3000)])
def test_large_reductions_and_wide_filters(name, extents):
    generator = numpy.random.default_rng(6)
    source = generator.integers(0, 256, (*extents, 3), numpy.uint8)
    out, expected = numpy.full((9, 11, 3), 77, numpy.uint8), numpy.empty((9, 11, 3), numpy.uint8)
    along = [along_all([extent], name) for extent in extents]
    resample.resampled(hwc(source[None]), hwc(out[None]), *along)
    resize_on_cpu(source, [Along(0, extent, name, True) for extent in extents], expected)
    close(out, expected)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("kind", "value"), [("int32", 123456789), ("uint32", 2**32 - 1), ("float64", 0.1)])
def test_a_constant_stays_that_constant(name, kind, value):
    source = numpy.full((40, 300, 2), value, kind)
    for size in ((9, 11, 2), (50, 31, 2)):
        out = numpy.empty(size, kind)
        resample.resampled(hwc(source[None]), hwc(out[None]), along_all([40], name), along_all([300], name))
        numpy.testing.assert_allclose(out, value, rtol=0 if kind != "float64" else 1e-13)


def gaussian(radius):
    weights = numpy.exp(-0.5 * (numpy.arange(-radius, radius + 1) / (0.3 * radius + 0.5)) ** 2)
    return weights / weights.sum()


def test_windows_larger_than_the_image_and_than_shared_memory():
    generator = numpy.random.default_rng(9)
    source = generator.normal(0, 1, (20, 30, 2)).astype(numpy.float32)
    out, expected = numpy.empty_like(source), numpy.empty_like(source)
    windows = [gaussian(100), gaussian(15)]
    resample.blurred(hwc(source[None]), hwc(out[None]), windows, numpy.array([[201, 31]]))
    rows = numpy.pad(source.astype(numpy.float64), ((100, 100), (15, 15), (0, 0)), "reflect")
    rows = sum(weight * rows[i : i + 20] for i, weight in enumerate(windows[0]))
    expected[...] = sum(weight * rows[:, i : i + 30] for i, weight in enumerate(windows[1]))
    numpy.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


# -- random numbers ---------------------------------------------------------------------------------------------------


@st.composite
def draws(choose):
    """Where words lie, with counters that are about to overflow."""
    word = st.one_of(st.integers(0, 2**64 - 1), st.integers(2**64 - 600, 2**64 - 1))
    high = numpy.array(choose(st.lists(word, min_size=1, max_size=4)), numpy.uint64)
    return Draw(choose(word), choose(word), high, choose(st.integers(0, 3)))


counts = st.lists(st.sampled_from([0, 1, 2, 5, 1000, 1024, 1025, 2500]), min_size=4, max_size=4)


def parts_of(draw, sizes):
    """For each number its sample and its place in it."""
    samples = numpy.repeat(numpy.arange(len(sizes)), sizes)
    elements = numpy.concatenate([numpy.arange(size, dtype=numpy.uint64) for size in sizes])
    return samples, elements


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@given(draws(), counts, st.sampled_from(NUMBERS), st.floats(-1e4, 1e4), st.floats(1, 1e4), st.booleans())
def test_uniform(draw, sizes, dtype, low, width, alike):
    sizes = numpy.array(sizes[: len(draw.high)])
    samples, elements = parts_of(draw, sizes)
    shifts = numpy.zeros(len(sizes)) if alike else numpy.arange(len(sizes)) * 3.7
    low, high = (numpy.float64(low), numpy.float64(low + width)) if alike else (low + shifts, low + width + shifts)
    fine, limits = _distributions.uniform_limits(low, high, dtype)
    if not numpy.all(fine):
        return
    out = numpy.full(sizes.sum(), 77).astype(dtype)
    _gpu.uniform(draw, sizes, out.ctypes.data, limits, dtype)
    words = draw.words(numpy, samples, elements, 2 if _distributions.wide(dtype) else 1)
    each = tuple(limit[samples] if limit.ndim else limit for limit in limits)
    same_bits(out, dtypes.convert(numpy, _distributions.uniform(numpy, words, each), dtype))


@given(draws(), counts, st.sampled_from(NUMBERS), st.floats(-100, 100, width=32), st.floats(0, 100, width=32))
def test_normal(draw, sizes, dtype, mean, stddev):
    sizes = numpy.array(sizes[: len(draw.high)])
    samples, elements = parts_of(draw, sizes)
    means, stddevs = numpy.float32(mean) + numpy.arange(len(sizes), dtype="f4"), numpy.float32(stddev)
    out = numpy.full(sizes.sum(), 77).astype(dtype)
    _gpu.normal(draw, sizes, out.ctypes.data, means, stddevs, dtype)
    values = _distributions.normal(numpy, draw.words(numpy, samples, elements, 4 if _distributions.wide(dtype) else 2))
    centre, spread = means.astype(values.dtype)[samples], stddevs.astype(values.dtype)
    same_bits(out, dtypes.convert(numpy, _distributions.scaled(numpy, values, centre, spread), dtype))


def test_the_normal_number_of_a_word_that_is_zero(monkeypatch):
    text = _launch.source("random").replace(
        "words_of<Distribution::WORDS>(key, low, s.high, i * stride + phase, words);",
        "for (int k = 0; k < Distribution::WORDS; k++) words[k] = 2 * k < Distribution::WORDS ? (u32)key : (u32)low;",
    )
    assert text != _launch.source("random")
    module = build.RawModule(code=text)
    monkeypatch.setattr(_launch, "_function", lambda cupy, device, name, kernel: module.get_function(kernel))
    for pair in ((0, 0), (0, 5), (5, 0), (2**32 - 1, 2**32 - 1)):
        for count, kind in ((2, numpy.float32), (4, numpy.float64)):
            out = numpy.empty(1, kind)
            _gpu.normal(Draw(*pair, numpy.zeros(1, "u8"), 0), 1, out.ctypes.data, 0.0, 1.0, out.dtype)
            words = [numpy.array([pair[i * 2 // count]], numpy.uint32) for i in range(count)]
            expected = _distributions.normal(numpy, words)
            same_bits(out, _distributions.scaled(numpy, expected, numpy.zeros(1, kind), numpy.ones(1, kind)))


@given(draws(), counts, one_dtype, st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4))
def test_coin_flip(draw, sizes, dtype, probabilities):
    sizes = numpy.array(sizes[: len(draw.high)])
    samples, elements = parts_of(draw, sizes)
    threshold = numpy.floor(numpy.array(probabilities[: len(sizes)]) * 2.0**32)
    out = numpy.full(sizes.sum(), 77).astype(dtype)
    _gpu.coin_flip(draw, sizes, out.ctypes.data, threshold, dtype)
    (word,) = draw.words(numpy, samples, elements, 1)
    same_bits(out, (word < threshold[samples]).astype(dtype))


@given(draws(), counts, one_dtype, seeds)
def test_picked(draw, sizes, dtype, seed):
    generator = numpy.random.default_rng(seed)
    sizes = numpy.array(sizes[: len(draw.high)])
    samples, elements = parts_of(draw, sizes)
    own = generator.integers(1, 9, len(sizes)).astype(numpy.uint64)
    first = numpy.cumsum(own) - own
    table = values(generator, (int(own.sum()),), dtype)
    out = numpy.full(sizes.sum(), 77).astype(dtype)
    _gpu.picked(draw, sizes, out.ctypes.data, table, first, own)
    (word,) = draw.words(numpy, samples, elements, 1)
    index = first[samples] + (word * own[samples] >> numpy.uint64(32))
    same_bits(out, table[index.astype(numpy.intp)])


@pytest.mark.parametrize("phase", range(4))
def test_counters_that_overflow_between_the_words_of_a_number(phase):
    draw = Draw(5, 2**64 - 1, numpy.array([7, 2**64 - 1], numpy.uint64), phase)
    out = numpy.empty(2, numpy.float64)
    _gpu.normal(draw, 1, out.ctypes.data, 0.0, 1.0, out.dtype)
    expected = _distributions.normal(numpy, draw.words(numpy, slice(0, 2), None, 4))
    same_bits(out, _distributions.scaled(numpy, expected, numpy.zeros(2), numpy.ones(2)))


def test_one_number_each_for_many_samples():
    draw = RNG(5).draw(300)
    out = numpy.empty(300, numpy.float32)
    fine, limits = _distributions.uniform_limits(numpy.float64(-30), numpy.float64(30), out.dtype)
    _gpu.uniform(draw, 1, out.ctypes.data, limits, out.dtype)
    expected = _distributions.uniform(numpy, draw.words(numpy, slice(0, 300), None, 1), limits)
    assert fine
    same_bits(out, expected)


# -- what a GPU does and the host does not ----------------------------------------------------------------------------

BARRIER = """
extern "C" __global__ void turned(const int* in, int* out) {
  extern __shared__ int band[];
  band[threadIdx.x] = in[threadIdx.x];
  %s
  out[threadIdx.x] = band[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void uneven(const int* in, int* out) {
  if (threadIdx.x < 5) __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}
"""


def turned(module, reverse):
    module.reverse(reverse)
    values, out = numpy.arange(64, dtype=numpy.int32), numpy.zeros(64, numpy.int32)
    addresses = numpy.uint64(values.ctypes.data), numpy.uint64(out.ctypes.data)
    module.get_function("turned")((1,), (64,), addresses, shared_mem=256)
    module.reverse(False)
    return (out == values[::-1]).all()


def test_the_order_of_threads_does_not_matter_where_there_are_barriers():
    good, bad = (build.RawModule(code=BARRIER % barrier) for barrier in ("__syncthreads();", ""))
    assert turned(good, False)
    assert turned(good, True)
    assert not (turned(bad, False) and turned(bad, True))


def test_a_barrier_that_some_threads_do_not_reach_is_an_error():
    module, memory = build.RawModule(code=BARRIER % ""), numpy.zeros(8, numpy.int32)
    with pytest.raises(RuntimeError, match="barrier"):
        module.get_function("uneven")((1,), (8,), [numpy.uint64(memory.ctypes.data)] * 2)


def test_arguments_of_another_size_are_refused():
    kernel = build.RawModule(code=BARRIER % "").get_function("uneven")
    with pytest.raises(TypeError, match="arguments of"):
        kernel((1,), (8,), (numpy.uint32(1), numpy.uint64(2)))
    with pytest.raises(KeyError, match="nothing"):
        build.RawModule(code=BARRIER % "").get_function("nothing")


def test_resized_images_do_not_depend_on_the_order_of_threads():
    source = numpy.random.default_rng(1).integers(0, 256, (70, 50, 3), numpy.uint8)
    module = build.RawModule(code=_launch.source("resample"))
    found = []
    for reverse in (False, True):
        module.reverse(reverse)
        out = numpy.full((19, 40, 3), 77, numpy.uint8)
        resample.resampled(hwc(source[None]), hwc(out[None]), along_all([70], "lanczos3"), along_all([50]))
        found.append(out)
    module.reverse(False)
    numpy.testing.assert_array_equal(*found)
