"""Frames of videos: dynamic, NVIDIA DALI on the CPU, torchcodec and decord, interleaved in one process.

    python benchmarks/videos.py [--rounds 7] [--only VP9] [--cpu]

Twelve videos of 640 x 360, 120 frames each, are made of moving photos: VP9 and H.264 with a key frame in 30, and MJPEG.
They are in memory. A round has three jobs: all frames of four videos, a clip of 16 frames from a place in each of the
twelve, and 8 frames spread over each. All give RGB of uint8, with one thread for each processor: dynamic and DALI share
a batch out themselves, the others are called by as many threads, with one thread in each decoder. Ratios are medians
over the rounds of our time to that of the other, so less than 1 is ahead. With `--cpu` all times are CPU time of all
threads, which other processes on the machine change less. DALI decodes no H.264 on the CPU.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import io
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy

import dynamic

COUNT, FRAMES, HEIGHT, WIDTH, CLIP, SPREAD = 12, 120, 360, 640, 16, 8
CODECS = {
    "VP9": ("libvpx-vp9", "webm", "yuv420p", {"deadline": "realtime", "cpu-used": "6", "b": "1500000", "row-mt": "1"}),
    "MJPEG": ("mjpeg", "avi", "yuvj420p", {"qscale": "4"}),
    "H.264": ("libx264", "mp4", "yuv420p", {"preset": "veryfast", "crf": "22", "bf": "2"}),
}
JOBS = ("all frames", "clips of 16", "8 spread frames")


def imported(name: str) -> Any:
    """A library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):
        return None


dali = imported("nvidia.dali.experimental.dynamic")
torchcodec = imported("torchcodec.decoders")
decord = imported("decord")
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
pool = concurrent.futures.ThreadPoolExecutor(THREADS)


def made(codec: str, image: numpy.ndarray, seed: int) -> bytes:
    """A video of a window that moves over a photo."""
    encoder, container, colours, options = CODECS[codec]
    wide = cv2.resize(image, (WIDTH * 2, HEIGHT * 2), interpolation=cv2.INTER_CUBIC)
    phases = numpy.random.default_rng(seed).uniform(0, 6, 2)
    memory = io.BytesIO()
    with av.open(memory, "w", container) as file:
        stream = file.add_stream(encoder, rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, colours
        stream.codec_context.gop_size, stream.codec_context.time_base = 30, Fraction(1, 25)
        for k in range(FRAMES):
            y, x = (numpy.sin(phases + k / 25) * (HEIGHT / 2, WIDTH / 2) + (HEIGHT / 2, WIDTH / 2)).astype(int)
            part = numpy.ascontiguousarray(wide[y : y + HEIGHT, x : x + WIDTH])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(part, format="rgb24")))
        file.mux(stream.encode(None))
    return memory.getvalue()


def places(job: str, count: int, round: int) -> list[list[int]]:
    """The frames of each video."""
    chance = numpy.random.default_rng(round)
    if job == "all frames":
        return [list(range(FRAMES))] * (count // 3)
    if job == "clips of 16":
        return [list(range(start, start + CLIP)) for start in chance.integers(0, FRAMES - CLIP, count).tolist()]
    return [sorted(chance.choice(FRAMES, SPREAD, replace=False).tolist()) for _ in range(count)]


def by_batch(library: Any, files: list[numpy.ndarray], wanted: list[list[int]], job: str) -> list[numpy.ndarray]:
    """Frames by `decoders.video` of dynamic or DALI."""
    batch = library.as_batch(files[: len(wanted)])
    if job == "all frames":
        found = library.decoders.video(batch)
    elif job == "clips of 16":
        starts = library.as_batch([numpy.array(each[0]) for each in wanted])
        found = library.decoders.video(batch, start_frame=starts, sequence_length=CLIP)
    else:
        found = library.decoders.video(batch, frames=library.as_batch([numpy.array(each) for each in wanted]))
    if library is dynamic:
        return list(found.samples)
    return [numpy.asarray(sample) for sample in found.evaluate()]


def by_torchcodec(files: list[numpy.ndarray], wanted: list[list[int]], job: str) -> list[numpy.ndarray]:
    def one(file: bytes, frames: list[int]) -> numpy.ndarray:
        decoder = torchcodec.VideoDecoder(file, num_ffmpeg_threads=1, dimension_order="NHWC")
        if job == "8 spread frames":
            return decoder.get_frames_at(frames).data.numpy()
        return decoder.get_frames_in_range(frames[0], frames[-1] + 1).data.numpy()

    return list(pool.map(one, [file.tobytes() for file in files], wanted))


def by_decord(files: list[numpy.ndarray], wanted: list[list[int]], job: str) -> list[numpy.ndarray]:  # noqa: ARG001
    def one(file: bytes, frames: list[int]) -> numpy.ndarray:
        return decord.VideoReader(io.BytesIO(file), num_threads=1).get_batch(frames).asnumpy()

    return list(pool.map(one, [file.tobytes() for file in files], wanted))


def main() -> None:
    """Print a row for each codec and job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="one codec")
    parser.add_argument("--cpu", action="store_true", help="CPU time of all threads")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    ways: dict[str, Callable[..., list[numpy.ndarray]]] = {
        "dynamic": lambda *given: by_batch(dynamic, *given),
        "DALI": lambda *given: by_batch(dali, *given),
        "torchcodec": by_torchcodec,
        "decord": by_decord,
    }
    there = {"dynamic": dynamic, "DALI": dali, "torchcodec": torchcodec, "decord": decord}
    if dali is not None:
        dali.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as place:
        sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
        from photos import make

        paths = sorted(make(Path(place)).glob("*/*.jpg"))
        images = [cv2.imread(str(path), cv2.IMREAD_COLOR_RGB) for path in paths]
    print(f"| {'CPU time' if options.cpu else 'time'}, ms | {' | '.join(ways)} | to DALI | to torchcodec | to decord |")
    print("|---|" + "---|" * (len(ways) + 3))
    for codec in CODECS if options.only is None else [options.only]:
        files = [numpy.frombuffer(made(codec, images[i % len(images)], i), numpy.uint8) for i in range(COUNT)]
        for job in JOBS:
            times: dict[str, list[float]] = {name: [] for name in ways}
            for number in range(options.rounds + 1):
                wanted, results = places(job, COUNT, number), {}
                order = list(ways.items())
                random.Random(number).shuffle(order)
                for name, way in order:
                    if there[name] is None or (name == "DALI" and codec == "H.264"):
                        continue
                    time.sleep(0.1)  # threads of the one before end
                    start = clock()
                    found = way(files, wanted, job)
                    if number:  # the first round loads libraries
                        times[name].append(clock() - start)
                    else:
                        results[name] = found
                    del found  # as a loop over batches does, so that memory is used again
                if not number:
                    check(results, codec)
            print(row(f"{codec}, {job}", times), flush=True)


def check(results: dict[str, list[numpy.ndarray]], codec: str) -> None:
    """Refuse results of other frames; those of DALI are equal."""
    ours = results["dynamic"]
    for name, theirs in results.items():
        for a, b in zip(ours, theirs, strict=True):
            off = numpy.abs(a.astype(int) - b).mean()
            assert a.shape == b.shape, (name, codec, a.shape, b.shape)
            assert off < 3, (name, codec, off)
            assert name != "DALI" or not off, (name, codec, off)


def row(name: str, times: dict[str, list[float]]) -> str:
    """A line of the table."""
    medians = [f"{1000 * statistics.median(each):.0f}" if each else "-" for each in times.values()]
    ratios = [
        f"{statistics.median(a / b for a, b in zip(times['dynamic'], other, strict=True)):.2f}" if other else "-"
        for key, other in times.items()
        if key != "dynamic"
    ]
    return f"| {name} | {' | '.join([*medians, *ratios])} |"


if __name__ == "__main__":
    main()
