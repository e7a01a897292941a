"""Measures kernels on a GPU: their share of the bandwidth of a copy, and the host's time for a call.

    python benchmarks/gpu_kernels.py [--stand-in] [--registers]

A batch is 256 images of 500 x 375 x 3 in bytes, 144 MB, or 256 sounds of ten seconds in float32, 164 MB; four of them
take turns, so that no input is in a cache.
Times are between two CUDA events around many calls, which queue up behind a kernel that waits: the median of several
such spans; the share is the bytes that a kernel reads
and writes at the least, divided by its time and by the rate of a copy in the memory of the same GPU. Host times are
those until a call returns. What torch and torchvision have of the same is measured beside it where they are installed,
on tensors that are batched and in planes already. Without a GPU it says so and ends; ``--stand-in`` runs the same
code on one that is made of host memory, to see that it runs. ``--registers`` prints what nvcc says of the kernels.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).parent.parent
STAND_IN = "--stand-in" in sys.argv
COUNT, HEIGHT, WIDTH = (3, 24, 32) if STAND_IN else (256, 375, 500)
VALUES, RATE = 800 if STAND_IN else 160_000, 16_000  # of a sound
TURNS = 2 if STAND_IN else 4  # batches that take turns
CALLS, SPANS = (2, 1) if STAND_IN else (20, 7)
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
Call = Callable[[Any], Any]


@dataclass
class Case:
    """An operator, how many bytes it moves for each pixel that it reads and writes, and what torch does instead."""

    name: str
    call: Call
    read: float  #: bytes of the input
    written: float
    rival: Call | None = None


@contextlib.contextmanager
def gpu() -> Iterator[Any]:
    """cupy, or what stands in for it; None where there is no GPU."""
    if STAND_IN:
        sys.path.insert(0, str(ROOT / "tests"))
        import twin

        with twin.with_gpu():
            import cupy

            yield cupy
        return
    try:
        import cupy
    except ImportError:
        yield None
        return
    yield cupy if cupy.cuda.is_available() else None


@functools.cache
def _spin(cupy: Any) -> Any:
    code = """extern "C" __global__ void spin(long long wanted) {
        long long begun, now;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
        do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < wanted);
    }"""
    return cupy.RawKernel(code, "spin")


def busy(cupy: Any, seconds: float) -> None:
    """Keep the GPU busy, so that calls queue up behind and their time is that of the GPU, not of the host."""
    if not STAND_IN:
        _spin(cupy)((1,), (1,), (numpy.int64(seconds * 1e9),))


def timed(cupy: Any, calls: Callable[[int], Any]) -> tuple[float, float]:
    """Seconds of a call on the GPU, and of the host until it returns."""
    calls(0)
    cupy.cuda.Device().synchronize()
    before = time.perf_counter()
    calls(0)
    cupy.cuda.Device().synchronize()
    alone = time.perf_counter() - before
    count = max(2, min(CALLS, int(0.1 / alone)))
    spans, host = [], []
    for _ in range(SPANS):
        cupy.cuda.Device().synchronize()
        begun = cupy.cuda.Event()
        busy(cupy, min(0.2, 1.5 * count * alone))
        before = time.perf_counter()
        begun.record()
        for i in range(count):
            calls(i % TURNS)
        host.append((time.perf_counter() - before) / count)
        ended = cupy.cuda.Event()
        ended.record()
        ended.synchronize()
        elapsed = host[-1] * 1e3 if STAND_IN else cupy.cuda.get_elapsed_time(begun, ended) / count
        spans.append(elapsed / 1e3)
    return statistics.median(spans), statistics.median(host)


def cases(dynamic: Any, torch: Any, transforms: Any) -> list[Case]:
    """What is measured."""
    pixels = 3 * COUNT * HEIGHT * WIDTH
    small = (HEIGHT * 3 // 5, WIDTH * 9 // 20)  # 225 x 225
    some = 3 * COUNT * small[0] * small[1]
    angles = dynamic.as_batch(numpy.linspace(-45, 45, COUNT))
    flags = dynamic.as_batch([i % 2 for i in range(COUNT)])
    theirs = dict.fromkeys(("flip", "resize", "normalize", "blur", "rotate", "equalize"))
    tilted = [[0.9, 0.1, 3.0], [-0.1, 0.9, 20.0], [0.0002, 0.0001, 1.0]]
    sharp = numpy.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], numpy.float32)
    if torch is not None:
        functional = torch.nn.functional
        mean, std = (torch.tensor(values, device="cuda").view(3, 1, 1) for values in (MEAN, STD))
        tilt = torch.tensor([[0.9, -0.3, 0.0], [0.3, 0.9, 0.0]], device="cuda").expand(COUNT, 2, 3)
        theirs["flip"] = lambda x: x.flip(3)
        theirs["resize"] = lambda x: (
            functional.interpolate(x.float(), small, mode="bilinear", antialias=True).round().byte()
        )
        theirs["normalize"] = lambda x: (x[:, :, : small[0], : small[1]].float() - mean) / std
        theirs["rotate"] = lambda x: functional.grid_sample(
            x.float(), functional.affine_grid(tilt, x.shape, align_corners=False), align_corners=False)  # fmt: skip
    if transforms is not None:
        theirs["blur"] = lambda x: transforms.gaussian_blur(x, [7, 7], [1.0, 1.0])
        theirs["equalize"] = transforms.equalize
    return [
        Case("copy (copies.pieces)", dynamic.copy, pixels, pixels),
        Case("flip", dynamic.flip, pixels, pixels, theirs["flip"]),
        Case("crop", lambda x: dynamic.crop(x, crop=small, crop_pos_x=0.31), some, some),
        Case("cast to float32", lambda x: dynamic.cast(x, dtype="float32"), pixels, 4 * pixels),
        Case("rotate, the size kept", lambda x: dynamic.rotate(x, angle=angles, keep_size=True, fill_value=0.0),
             pixels, pixels, theirs["rotate"]),
        Case("rotate by 90", lambda x: dynamic.rotate(x, angle=90.0), pixels, pixels),
        Case("resize to 0.45, linear", lambda x: dynamic.resize(x, size=small), pixels, some, theirs["resize"]),
        Case("resize to 0.45, lanczos3", lambda x: dynamic.resize(x, size=small, interp_type="lanczos3"), pixels, some),
        Case("random_resized_crop", lambda x: dynamic.random_resized_crop(x, size=small), pixels / 2, some),
        Case("crop_mirror_normalize to float32", lambda x: dynamic.crop_mirror_normalize(
            x, crop=small, mirror=flags, mean=MEAN, std=STD), some, 4 * some, theirs["normalize"]),
        Case("crop_mirror_normalize to float16", lambda x: dynamic.crop_mirror_normalize(
            x, crop=small, mirror=flags, mean=MEAN, std=STD, dtype="float16"), some, 2 * some),
        Case("color_twist", lambda x: dynamic.color_twist(x, hue=angles, saturation=1.2), pixels, pixels),
        Case("brightness_contrast", lambda x: dynamic.brightness_contrast(x, brightness=1.1, contrast=0.9), pixels,
             pixels),
        Case("gaussian_blur of 7", lambda x: dynamic.gaussian_blur(x, sigma=1.0), pixels, pixels, theirs["blur"]),
        Case("filter of 3 x 3", lambda x: dynamic.filter(x, sharp), pixels, pixels),
        Case("laplacian of 3 x 3", lambda x: dynamic.laplacian(x, window_size=3), pixels, pixels),
        Case("median_blur of 3 x 3", dynamic.experimental.median_blur, pixels, pixels),
        Case("dilate of 3 x 3", dynamic.experimental.dilate, pixels, pixels),
        Case("warp_perspective", lambda x: dynamic.experimental.warp_perspective(x, matrix=tilted), pixels, pixels),
        Case("equalize", dynamic.equalize, 2 * pixels, pixels, theirs["equalize"]),
        Case("clahe of lightness, 8 x 8 tiles", lambda x: dynamic.clahe(x, tiles_x=8, tiles_y=8, clip_limit=2.0),
             2 * pixels, pixels),
        Case("jpeg_compression_distortion", lambda x: dynamic.jpeg_compression_distortion(x, quality=50),
             2 * pixels, pixels),
        Case("tensor_resize of rows to 0.45", lambda x: dynamic.tensor_resize(x, sizes=small[0], axes=x.ndim - 3),
             pixels, pixels * small[0] / HEIGHT),
        Case("color_space_conversion to YCbCr", lambda x: dynamic.color_space_conversion(
            x, image_type="RGB", output_type="YCbCr"), pixels, pixels),
        Case("erase", lambda x: dynamic.erase(x, anchor=[0.3, 0.3], shape=[0.2, 0.2], normalized=True), pixels, pixels),
        Case("grid_mask", lambda x: dynamic.grid_mask(x, tile=50), pixels, pixels),
        Case("uniform float32", lambda _: dynamic.random.uniform(shape=pixels // COUNT, batch_size=COUNT, device="gpu"),
             0, 4 * pixels),
        Case("normal float32", lambda _: dynamic.random.normal(shape=pixels // COUNT, batch_size=COUNT, device="gpu"),
             0, 4 * pixels),
    ]  # fmt: skip


def sound_cases(dynamic: Any, torch: Any) -> tuple[list[Case], list[Case]]:
    """Those of sounds, and those of their spectra: speech in windows of 25 ms, each 10 ms."""
    values, frames = 4 * COUNT * VALUES, 4 * COUNT * (VALUES // 160 + 1)
    window = {"window_length": 400, "window_step": 160, "nfft": 512}
    rival = None
    if torch is not None:
        weights = torch.hann_window(400, device="cuda")
        rival = lambda x: torch.stft(x, 512, 160, 400, weights, return_complex=True).abs().square()  # noqa: E731
    sounds = [
        Case("spectrogram", lambda x: dynamic.spectrogram(x, **window), values, 257 * frames, rival),
        Case("spectrogram, times first", lambda x: dynamic.spectrogram(x, layout="tf", **window), values, 257 * frames),
        Case("preemphasis_filter", dynamic.preemphasis_filter, values, values),
        Case("nonsilent_region", dynamic.nonsilent_region, values, 0),
        Case("audio_resample to 8 kHz", lambda x: dynamic.audio_resample(x, scale=0.5), values, values / 2),
        Case("audio_resample to 44.1 kHz", lambda x: dynamic.audio_resample(x, in_rate=RATE, out_rate=44_100),
             values, values * 44_100 / RATE),
    ]  # fmt: skip
    spectra = [
        Case("mel_filter_bank of 80", lambda x: dynamic.mel_filter_bank(x, nfilter=80, sample_rate=RATE), 257 * frames,
             80 * frames),
        Case("mfcc of 20", lambda x: dynamic.mfcc(x, n_mfcc=20), 257 * frames, 20 * frames),
        Case("to_decibels", lambda x: dynamic.to_decibels(x, cutoff_db=-80.0), 2 * 257 * frames, 257 * frames),
        Case("power_spectrum of rows", lambda x: dynamic.power_spectrum(x, nfft=512), 257 * frames,
             257 * 257 * 4 * COUNT),
    ]  # fmt: skip
    return sounds, spectra


def imported(name: str) -> Any:
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        return None


def on_gpu(cupy: Any) -> None:
    """Measure all, and print a table."""
    import dynamic

    torch = None if STAND_IN else imported("torch")
    torch = torch if torch is not None and torch.cuda.is_available() else None
    transforms = imported("torchvision.transforms.functional") if torch is not None else None
    rng = numpy.random.default_rng(0)
    size = HEIGHT * WIDTH * 3
    bulk = [cupy.asarray(rng.integers(0, 256, COUNT * size, numpy.uint8)) for _ in range(TURNS)]
    target = cupy.empty(COUNT * size, numpy.uint8)

    def copy(i: int) -> None:
        target.data.copy_from_device_async(bulk[i].data, target.nbytes, cupy.cuda.get_current_stream())

    seconds, _ = timed(cupy, copy)
    rate = 2 * target.nbytes / seconds
    print(f"copy of {target.nbytes / 1e6:.0f} MB: {rate / 1e9:.0f} GB/s, read and written")
    arrays = [array.reshape(COUNT, HEIGHT, WIDTH, 3) for array in bulk]
    alike = [dynamic.as_batch(array, layout="HWC") for array in arrays]
    # Views that end where others do not: every sample has a shape of its own.
    shapes = [(HEIGHT - i % 7, WIDTH - i % 5) for i in range(COUNT)]
    ragged = [dynamic.as_batch([array[i, :h, :w] for i, (h, w) in enumerate(shapes)], layout="HWC") for array in arrays]
    tensors = [torch.as_tensor(array, device="cuda") for array in arrays] if torch else []
    planes = [tensor.permute(0, 3, 1, 2).contiguous() for tensor in tensors]
    print(f"{'':36} {'us a batch':>11} {'of a copy':>10} {'host us':>9} {'ragged, host us':>16} {'torch us':>10}")
    show(cupy, cases(dynamic, torch, transforms), alike, ragged, planes, rate)
    bulk.clear()
    arrays.clear()
    tensors.clear()
    planes.clear()
    waves = [cupy.asarray(rng.normal(0, 0.1, (COUNT, VALUES)).astype(numpy.float32)) for _ in range(TURNS)]
    alike = [dynamic.as_batch(wave) for wave in waves]
    ragged = [dynamic.as_batch([wave[i, : VALUES - i % 7] for i in range(COUNT)]) for wave in waves]
    of_sounds, of_spectra = sound_cases(dynamic, torch)
    show(
        cupy, of_sounds, alike, ragged, [torch.as_tensor(wave, device="cuda") for wave in waves] if torch else [], rate
    )
    window = {"window_length": 400, "window_step": 160, "nfft": 512}
    alike, ragged = ([dynamic.spectrogram(x, **window) for x in batches] for batches in (alike, ragged))
    show(cupy, of_spectra, alike, ragged, [], rate)
    if STAND_IN:
        print("Without a GPU: these are no figures of one.")


def show(cupy: Any, made: list[Case], alike: list[Any], ragged: list[Any], theirs: list[Any], rate: float) -> None:
    """Print a row for each case."""
    for case in made:
        kernel, host = timed(cupy, lambda i, case=case: case.call(alike[i]))
        _, ragged_host = timed(cupy, lambda i, case=case: case.call(ragged[i]))
        other = "-"
        if case.rival is not None:
            other = f"{timed(cupy, lambda i, case=case: case.rival(theirs[i]))[0] * 1e6:.0f}"
        share = (case.read + case.written) / kernel / rate
        times = f"{kernel * 1e6:11.0f} {share:10.2f} {host * 1e6:9.0f} {ragged_host * 1e6:16.0f}"
        print(f"{case.name:36} {times} {other:>10}")


def registers() -> None:
    """What nvcc says of each kernel, for sm_80 and sm_90."""
    sys.path.insert(0, str(ROOT / "tests"))
    from twin import cubin

    from dynamic.kernels.gpu import _launch

    folder = Path(_launch.__file__).parent
    for module in sorted(path.stem for path in folder.glob("*.cu") if path.stem != "common"):
        found = [cubin.compiled(_launch.source(module), name, *_launch.OPTIONS) for name in ("sm_80", "sm_90")]
        for name in sorted(found[0]):
            print(f"| {module} | {name} | {found[0][name].registers} | {found[1][name].registers} |")


def main() -> None:
    if "--registers" in sys.argv:
        registers()
        return
    with gpu() as cupy:
        if cupy is None:
            print("There is no GPU here: nothing was measured. --stand-in shows that this runs.")
            return
        on_gpu(cupy)


if __name__ == "__main__":
    main()
