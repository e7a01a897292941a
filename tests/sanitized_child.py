"""Runs every kernel on images at the edges of their memory, or those that do something wrong; see the test."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile

import numpy
from twin import bare, build

from dynamic import dtypes
from dynamic._arrays.described import described
from dynamic.kernels.cpu import rotations
from dynamic.kernels.cpu import sound as cpu_sound
from dynamic.kernels.cpu.maps import BORDERS
from dynamic.kernels.gpu import (
    _launch,
    copies,
    filters,
    histograms,
    images,
    jpeg,
    maps,
    pixels,
    regions,
    resample,
    sound,
    warp,
)
from dynamic.random import RNG, _gpu

SHAPES = [(1, 1), (5, 7), (19, 40), (1, 37), (0, 4)]
#: Types with kernels of their own, and two of those that share one.
KINDS = ("uint8", "uint16", "int16", "float32", "float16", "int64")
#: How many channels, and what images become.
CASES = {"uint16": [(3, "uint16"), (5, "uint16")],
         "uint8": [(1, "uint8"), (3, "uint8"), (3, "float32"), (3, "float16"), (4, "uint8")],
         "float32": [(1, "float32"), (3, "float32"), (3, "uint8"), (3, "float16"), (4, "float32")],
         "float16": [(3, "float32")], "int64": [(2, "uint16"), (2, "int64")]}  # fmt: skip


def batches(dtype, channels):
    """Images whose memory is exactly theirs, contiguous or not."""
    generator = numpy.random.default_rng(1)
    arrays = [(generator.random((*shape, channels)) * 200).astype(dtype) for shape in SHAPES]
    yield arrays
    yield [numpy.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0)[::-1] for a in arrays]


def run(source, want):
    outs = [numpy.empty(a.shape, want) for a in source]
    have, there = described(source), described(outs)
    first, result = images("test", have, "HWC"), images("test", there, "HWC")
    count, channels = len(source), source[0].shape[2]
    copies.window(have, there)
    for start, step in ((-2, 1), (3, -1), (0, 2)):
        copies.window(have, there, numpy.full((count, 3), start), numpy.full((count, 3), step), 3.0)
    matrices = numpy.array([rotations.rotation((9, 9), (9, 9), 30.0 * i) for i in range(count)])
    for fill, nearest in itertools.product((None, 4.0), (True, False)):
        warp.affine(first, result, matrices, fill, nearest=nearest)
        warp.affine(first, result, matrices * 1e300, fill, nearest=nearest)  # too large for any integer
    factors = numpy.full(channels, 1.5)
    for start in (0, -3, 2):
        starts = numpy.full((count, 2), start)
        pixels.normalised(first, result, factors, factors, starts=starts, mirror=numpy.arange(count) % 2 == 0)
    if channels == 3:
        pixels.mixed(first, result, numpy.ones((count, 3, 4)))
    most = numpy.array([a.shape for a in source])
    whole, places = numpy.arange(count), most // 2
    regions.pasted(regions.part(have, whole, places, most - places), regions.part(there, whole, places, most - places))
    regions.filled(regions.part(there, whole, places * 0, places), numpy.ones((count, channels)), 2)
    if source[0].dtype == want:
        grids = numpy.tile(numpy.float32([0.3, 0.5, 2, -1, 7]), (count, 1))
        regions.masked(first, result, grids)
    if source[0].dtype == want and want.kind == "u" and want.itemsize < 4:
        histograms.equalized(first, result)
        for tiles, limit, luma_only in (((1, 1), 0.0, True), ((3, 2), 1.5, True), ((2, 4), 40.0, False)):
            histograms.equalized_in_tiles(first, result, tiles, limit, luma_only=luma_only)
    if source[0].dtype == want == numpy.uint8 and channels in (1, 3):
        for qualities in ([1, 10, 50, 90, 100], [100, 100, 1, 1, 1]):
            jpeg.compressed(first, result, numpy.array(qualities))
    if source[0].dtype == want:
        x = [numpy.linspace(-9, 50, a.shape[0] * a.shape[1]).reshape(a.shape[:2]) for a in source]
        y = [points.T.astype(numpy.float32).T for points in x]
        numbers = numpy.tile([1.1, 0.2, -3, 0.1, 0.9, 2, 0.001, 0, 1], (count, 1))
        for border, kind in itertools.product(BORDERS, ("nn", "linear", "cubic")):
            for way in range(5):
                by = numpy.full((count, 1), 19) if way == maps.WAVES else numbers
                maps.read(first, result, way, by, border=border, interpolation=kind, maps=[described(x), described(y)],
                          waves=[numpy.full(19, 1e300), numpy.full(40, numpy.nan)])  # fmt: skip
    if source[0].dtype == want:
        sizes = numpy.tile([3, 5], (count, 1))
        for which in ("largest", "smallest", "median"):
            filters.ranked(first, result, sizes, sizes - 1, "constant" if which == "largest" else "wrap", which)
    for border in ("reflect_101", "reflect_1001", "clamp", "wrap", "constant"):
        kernel = numpy.ones((4, 9))
        filters.correlated(first, result, [kernel] * count, numpy.tile([1, 8], (count, 1)), border, numpy.ones(count))
    sized = [a for a in source if a.size]
    keep = [numpy.empty((18, 35, channels), want) for _ in sized]
    target = images("test", described(keep), "HWC")
    some = images("test", described(sized), "HWC")
    for name, antialias in (("nn", True), ("linear", True), ("lanczos3", False)):
        steps = [resample.Along(some.shapes[:, axis] * -0.25, some.shapes[:, axis] * 1.5,
                                numpy.full(len(sized), name), antialias, axis == 0) for axis in range(2)]  # fmt: skip
        resample.resampled(some, target, *steps)
    back = [numpy.empty(a.shape, want) for a in sized]
    sizes = numpy.tile([5, 9], (len(sized), 1))
    weights = [numpy.full(n * len(sized), 1 / n) for n in (5, 9)]
    resample.blurred(some, images("test", described(back), "HWC"), weights, sizes)


def signals():
    """Every kernel for sound, on signals whose memory is exactly theirs."""
    random, alive = numpy.random.default_rng(2), []

    def known(arrays):
        alive.append(arrays)
        return described(arrays)

    for kind in ("float32", "int16", "float64"):
        arrays = [(random.random(n) * 9).astype(kind) for n in (1, 2, 63, 2048, 5001)]
        for given in (arrays, [numpy.repeat(a, 2)[::2] for a in arrays]):
            source, outs = known(given), [numpy.empty(a.shape, numpy.float32) for a in arrays]
            target = known(outs)
            for border in ("zero", "clamp", "reflect"):
                for real in (numpy.dtype("float32"), numpy.dtype("float64")):
                    sound.emphasised(source, target, [0.9] * 5, border, real)
            for reference in (0.0, 2.0):
                sound.decibels(source, target, 10.0, reference, -80.0)
            numbers = [known([numpy.empty((), numpy.int32) for _ in arrays]) for _ in range(2)]
            for window in (1, 64, 9000):
                sound.loud(source, (numbers[0], numbers[1]), window, -30.0, 0.0)
            for step, quality in ((1.0, 0.0), (0.4, 50.0), (3.7, 100.0)):
                made = known([numpy.empty(int(numpy.ceil(a.size / step)), numpy.float32) for a in arrays])
                sound.resampled(source, made, [step] * 5, quality, kind=numpy.dtype("float32"))
    for axis, shape in itertools.product(range(3), ((3, 40, 2), (1, 1, 1), (2, 7, 65))):
        source = known([random.random(shape).astype(numpy.float32)])
        made = known([numpy.empty((*shape[:axis], 5, *shape[axis + 1 :]), numpy.float32)])
        bank = lambda n, m: cpu_sound.mel_bank(n, m, 8000.0, 0.0, 4000.0, "slaney", normalized=True)  # noqa: E731
        sound.filtered(source, made, axis, bank)
        for nfft in (1, 16, 80):
            bins = nfft // 2 + 1
            made = known([numpy.empty((*shape[:axis], bins, *shape[axis + 1 :]), numpy.float32)])
            sound.vector_spectra(source, made, axis, nfft, 2)
    source = known([random.random(n).astype(numpy.float32) for n in (1, 5, 700)])
    for first, step, mirror in itertools.product((False, True), (1, 50), (False, True)):
        shapes = [(33, n // step + 1)[:: -1 if first else 1] for n in (1, 5, 700)]
        made = known([numpy.empty(shape, numpy.float32) for shape in shapes])
        sound.signal_spectra(source, made, cpu_sound.hann(60), step, 30, 64, 1, mirror=mirror, times_first=first)


def everything():
    signals()
    for have in KINDS:
        for channels, want in CASES.get(have, [(5, have)]):
            for source in batches(numpy.dtype(have), channels):
                run(source, numpy.dtype(want))
    for dtype in map(numpy.dtype, (t.word for t in dtypes.ALL if t.word != "bool")):
        sizes = numpy.array([0, 1, 5, 1025])
        out = numpy.empty(sizes.sum(), dtype)
        draw = RNG(5).draw(4)
        _gpu.uniform(draw, sizes, out.ctypes.data, (0.0, 2.0**-32, 1.0), dtype)
        _gpu.normal(draw, sizes, out.ctypes.data, 0.0, 1e30, dtype)
        _gpu.coin_flip(draw, sizes, out.ctypes.data, 2.0**31, dtype)
        _gpu.picked(draw, sizes, out.ctypes.data, numpy.arange(7).astype(dtype), 2, 5)
    memory = numpy.random.default_rng(1).integers(0, 256, 40001, numpy.uint8)
    for shift, size in itertools.product(range(5), (0, 1, 15, 16, 17, 16384, 39000)):
        source, target = memory[shift : shift + size].copy(), numpy.empty(size, numpy.uint8)
        copies.pieces(
            numpy.array([source.ctypes.data], "u8"), numpy.array([target.ctypes.data], "u8"), numpy.array([size])
        )
    modules = (
        "clahe",
        "copy",
        "filters",
        "histograms",
        "jpeg",
        "maps",
        "pixels",
        "random",
        "regions",
        "resample",
        "sound",
        "warp",
    )
    made = [name for module in modules for name in build.kernels(_launch.source(module))]
    unused = set(made) - build.used
    assert not unused, f"not run: {unused}"
    print(f"{len(made)} kernels without a finding")


FAULTS = """
extern "C" __global__ void read(float* p, int n, int* out) { out[0] = p[n - 1 + (threadIdx.x == 7)] > 0; }
extern "C" __global__ void shared(float* p, int n, int* out) {
  extern __shared__ float band[];
  band[threadIdx.x] = p[0];
  __syncthreads();
  out[0] = band[threadIdx.x + 1] > 0;
}
extern "C" __global__ void overflow(float* p, int n, int* out) { out[0] = (int)(p[0] * 1e30f); }
extern "C" __global__ void misaligned(float* p, int n, int* out) { out[0] = *(int*)((unsigned char*)p + n - 999); }
"""


def planted(fault):
    values, out = numpy.ones(1000, numpy.float32), numpy.zeros(1, numpy.int32)
    kernel = build.RawModule(code=FAULTS).get_function(fault)
    kernel(
        (1,),
        (32,),
        (numpy.uint64(values.ctypes.data), numpy.int32(1000), numpy.uint64(out.ctypes.data)),
        shared_mem=128,
    )


def in_children(faults):
    """How processes end that run a faulty kernel each, and what they say."""
    ends = {}
    for fault in faults:
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                os.dup2(said.fileno(), 2)
                planted(fault)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            ends[fault] = code, said.read().decode(errors="replace")[-4000:]
    return ends


if __name__ == "__main__":
    with bare.in_place_of_cupy():
        everything() if sys.argv[1:] == ["all"] else print(json.dumps(in_children(sys.argv[1:])))
