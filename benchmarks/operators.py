"""What operators cost, against NVIDIA DALI and against libraries called directly, interleaved in one process.

    python benchmarks/operators.py [--rounds 9] [--threads 2] [--only rotate crop] [--size 64x64]
                                   [--dtype float32] [--sound]

Batches of 64 photos of 500 x 375 and single images of 1920 x 1080, the JPEG files of these, labels, boxes, points, and
random numbers. With a size, batches of 64 images of that width and height, and their files, alone; with a dtype, images
of that. With --sound, sounds of four seconds at 16 kHz, their files and spectra, alone.
Every library has the same number of threads: the direct calls are shared out to as many, each writing to memory of its
own. Where a library does the same thing it is a rival; one that is not installed is left out. Ratios are medians over
the rounds of our time to the other's. Rounds decode the same files; `training.py` decodes files that nobody has seen.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy
import simplejpeg

import dynamic
from dynamic import _core

Image = Any
Direct = Callable[[Image], Any]
SIZES = ("500x375", "1920x1080")  # of batches of 64 photos, and of single images


def imported(name: str) -> Any:
    """A library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


dali, torch, pillow = (imported(name) for name in ("nvidia.dali.experimental.dynamic", "torch", "PIL.Image"))
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
AVERAGE = numpy.array([124, 116, 104], numpy.float32)
MATRIX = numpy.array([[0.9, 0.2, 10.0], [-0.1, 1.1, -20.0]], numpy.float32)
COLOUR = numpy.array([[1.1, 0.1, -0.1], [0.05, 1.0, 0.1], [0.0, -0.1, 1.2]], numpy.float32)


@dataclass
class Case:
    """An operator with arguments, and the same thing done by hand with other libraries."""

    name: str
    call: Callable[[Any, Any], Any]
    rivals: dict[str, Direct] = field(default_factory=dict)
    of: str = "images"  #: what it is called with: "images", "files", "paths", "labels" and so on, see `data`


def rotated(image: Image) -> Image:
    """What `rotate` does by one call of OpenCV: the canvas grows, and the outside is 0."""
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 20, 1)
    h, w = (int(abs(turn[0, 1]) * a + abs(turn[0, 0]) * b) for a, b in ((width, height), (height, width)))
    turn[:, 2] += (w - width) / 2, (h - height) / 2
    return cv2.warpAffine(image, turn, (w, h))


def normalised(image: Image) -> Image:
    """What `crop_mirror_normalize` does with OpenCV and NumPy."""
    planes = cv2.split(image)
    out = numpy.empty((3, *image.shape[:2]), numpy.float32)
    for plane, mean, std, target in zip(planes, MEAN, STD, out, strict=True):
        numpy.multiply(plane, numpy.float32(1 / std), out=target)
        target -= numpy.float32(mean / std)
    return out


def torch_normalised(image: Image) -> Any:
    """The same with torch."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return torch.from_numpy(image).permute(2, 0, 1).float().sub_(mean).div_(std)


def torch_resized(image: Image) -> Any:
    """What `resize` does, with torch."""
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].contiguous(memory_format=torch.channels_last)
    return torch.nn.functional.interpolate(pixels, (224, 224), mode="bilinear", antialias=True)


def pillow_called(method: str, *arguments: Any, **keywords: Any) -> Direct:
    """A method of Pillow's images, from array to array."""
    return lambda image: numpy.asarray(getattr(pillow.fromarray(image), method)(*arguments, **keywords))


def rivals(**all_of_them: Direct) -> dict[str, Direct]:
    """Those whose library is installed."""
    there = {"torch": torch, "pillow": pillow}
    there |= {name: imported(name) for name in ("torchaudio", "librosa", "soundfile")}
    return {name: call for name, call in all_of_them.items() if there.get(name.split("_")[0], True) is not None}


def looked_up(image: Image) -> Image:
    """What `brightness_contrast` does, with a table."""
    table = numpy.clip(numpy.arange(256.0) * 1.2 * 0.9 + 10, 0, 255).astype(numpy.uint8)
    return cv2.LUT(image, table)


def decoded_by_pillow(file: Any) -> Image:
    """What `decoders.image` does, with Pillow."""
    return numpy.asarray(pillow.open(io.BytesIO(file.tobytes())))


def decoded_by_soundfile(file: Any) -> Any:
    """What `decoders.audio` does, with soundfile."""
    return imported("soundfile").read(io.BytesIO(file.tobytes()), dtype="float32", always_2d=True)


def torch_called(name: str, *arguments: Any, **keywords: Any) -> Direct:
    """A transform of torchaudio, from array to tensor."""
    transforms = imported("torchaudio.transforms")
    transform = transforms and getattr(transforms, name)(*arguments, **keywords)
    return lambda sound: transform(torch.from_numpy(sound))


def librosa_spectrogram(sound: Any) -> Any:
    """What `spectrogram` does, with librosa."""
    return numpy.abs(imported("librosa").stft(sound, n_fft=512, win_length=400, hop_length=160)) ** 2


def drawn(name: str, shape: list[int]) -> Callable[[Any, Any], Any]:
    """A batch of 64 of random numbers or arrays."""
    return lambda lib, _: getattr(lib.random, name)(batch_size=64, **({"shape": shape} if shape else {}))


def anchors() -> list[float]:
    """The 8732 anchors of SSD300 (Liu and others, 2016), in one list."""
    found: list[float] = []
    for cells, size, many in ((38, 0.1, 4), (19, 0.2, 6), (10, 0.375, 6), (5, 0.55, 6), (3, 0.725, 4), (1, 0.9, 4)):
        for ratio in (1, 1.2, 2, 1 / 2, 3, 1 / 3)[:many]:
            y, x = (numpy.indices((cells, cells)).reshape(2, -1) + 0.5) / cells
            half = size * ratio**0.5 / 2, size / ratio**0.5 / 2
            ends = [x - half[0], y - half[1], x + half[0], y + half[1]]
            found += numpy.clip(numpy.stack(ends, 1), 0, 1).reshape(-1).tolist()
    return found


ANCHORS = anchors()
#: How SSD is trained.
WINDOWS = {"aspect_ratio": [0.5, 2.0], "thresholds": [0.0, 0.1, 0.3, 0.5, 0.7, 0.9], "scaling": [0.3, 1.0],
           "bbox_layout": "xyXY", "allow_no_crop": True}  # fmt: skip
BILINEAR = 2  # of Pillow
FRAMES = {"nfft": 512, "window_length": 400, "window_step": 160}  # of speech at 16 kHz: 25 ms, each 10 ms
CASES = [
    Case("decoders.image", lambda lib, x: lib.decoders.image(x),
         rivals(simplejpeg=simplejpeg.decode_jpeg, cv2=lambda file: cv2.imdecode(file, cv2.IMREAD_COLOR_RGB),
                pillow=decoded_by_pillow), of="files"),
    Case("decoders.image_random_crop", lambda lib, x: lib.decoders.image_random_crop(x), of="files"),
    Case("imread", lambda lib, x: lib.imread(x),
         rivals(cv2=lambda path: cv2.imread(path, cv2.IMREAD_COLOR_RGB)), of="paths"),
    Case("copy", lambda lib, x: lib.copy(x), rivals(numpy=lambda image: image.copy())),
    Case("cast to float32", lambda lib, x: lib.cast(x, dtype=lib.float32),
         rivals(numpy=lambda image: image.astype(numpy.float32))),
    Case("flip", lambda lib, x: lib.flip(x),
         rivals(cv2=lambda image: cv2.flip(image, 1), pillow=pillow_called("transpose", 0))),
    Case("crop 224", lambda lib, x: lib.crop(x, crop=[224, 224]),
         rivals(numpy=lambda image: image[75:299, 138:362].copy())),
    Case("slice 224", lambda lib, x: lib.slice(x, start=[10, 20], shape=[224, 224]),
         rivals(numpy=lambda image: image[20:244, 10:234].copy())),
    Case("pad to 1100 x 2000", lambda lib, x: lib.pad(x, axis_names="HW", shape=[1100, 2000])),
    Case("erase", lambda lib, x: lib.erase(x, anchor=[50.0, 60.0], shape=[100.0, 100.0], axis_names="HW")),
    Case("crop_mirror_normalize", lambda lib, x: lib.crop_mirror_normalize(x, mean=MEAN, std=STD),
         rivals(cv2=normalised, torch=torch_normalised)),
    Case("crop_mirror_normalize to float16",
         lambda lib, x: lib.crop_mirror_normalize(x, mean=MEAN, std=STD, dtype=lib.float16)),
    Case("resize 224", lambda lib, x: lib.resize(x, size=[224, 224]),
         rivals(torch=torch_resized, pillow=pillow_called("resize", (224, 224), BILINEAR))),
    Case("resize 224 cubic", lambda lib, x: lib.resize(x, size=[224, 224], interp_type=dynamic.InterpType.INTERP_CUBIC),
         rivals(pillow=pillow_called("resize", (224, 224), 3))),
    Case("resize 224 without antialiasing", lambda lib, x: lib.resize(x, size=[224, 224], antialias=False),
         rivals(cv2=lambda image: cv2.resize(image, (224, 224)))),
    Case("resize 224 to the nearest pixel",
         lambda lib, x: lib.resize(x, size=[224, 224], interp_type=dynamic.InterpType.INTERP_NN),
         rivals(cv2=lambda image: cv2.resize(image, (224, 224), interpolation=cv2.INTER_NEAREST_EXACT))),
    Case("resize, twice as large", lambda lib, x: lib.resize(x, size=[2.0 * extent for extent in x.shape[0][:2]]),
         rivals(cv2=lambda image: cv2.resize(image, None, fx=2, fy=2))),
    Case("random_resized_crop 224", lambda lib, x: lib.random_resized_crop(x, size=[224, 224])),
    Case("resize_crop_mirror 224",
         lambda lib, x: lib.resize_crop_mirror(x, resize_shorter=256.0, crop=[224.0, 224.0], mirror=1)),
    Case("rotate 20", lambda lib, x: lib.rotate(x, angle=20.0, fill_value=0.0),
         rivals(cv2=rotated, pillow=pillow_called("rotate", 20, BILINEAR, expand=True))),
    Case("warp_affine", lambda lib, x: lib.warp_affine(x, matrix=MATRIX.tolist(), fill_value=0.0),
         rivals(cv2=lambda image: cv2.warpAffine(image, MATRIX, image.shape[1::-1], flags=cv2.WARP_INVERSE_MAP | 1))),
    Case("color_twist", lambda lib, x: lib.color_twist(x, brightness=1.1, contrast=0.9, hue=20.0, saturation=1.2),
         rivals(cv2=lambda image: cv2.transform(image, COLOUR))),
    Case("hsv", lambda lib, x: lib.hsv(x, hue=20.0, saturation=1.2, value=0.9),
         rivals(cv2=lambda image: cv2.transform(image, COLOUR))),
    Case("brightness_contrast", lambda lib, x: lib.brightness_contrast(x, brightness=1.2, contrast=0.9),
         rivals(cv2=looked_up)),
    Case("gaussian_blur 5", lambda lib, x: lib.gaussian_blur(x, window_size=5),
         rivals(cv2=lambda image: cv2.GaussianBlur(image, (5, 5), 1.1, borderType=cv2.BORDER_REFLECT_101))),
    Case("gaussian_blur 11", lambda lib, x: lib.gaussian_blur(x, window_size=11),
         rivals(cv2=lambda image: cv2.GaussianBlur(image, (11, 11), 2, borderType=cv2.BORDER_REFLECT_101))),
    Case("laplacian", lambda lib, x: lib.laplacian(x, dtype=lib.float32),
         rivals(cv2=lambda image: cv2.Laplacian(image, cv2.CV_32F, ksize=3))),
    Case("normalize", lambda lib, x: lib.normalize(x)),
    Case("transpose to CHW", lambda lib, x: lib.transpose(x, perm=[2, 0, 1]),
         rivals(cv2=lambda image: cv2.merge(cv2.split(image)), numpy=lambda i: i.transpose(2, 0, 1).copy())),
    Case("reshape", lambda lib, x: lib.reshape(x, shape=[-1])),
    Case("stack", lambda lib, x: lib.stack(x, x), rivals(numpy=lambda image: numpy.stack([image, image]))),
    Case("cat", lambda lib, x: lib.cat(x, x), rivals(numpy=lambda image: numpy.concatenate([image, image]))),
    Case("one_hot", lambda lib, x: lib.one_hot(x, num_classes=1000), of="labels"),
    Case("cast of labels", lambda lib, x: lib.cast(x, dtype=lib.float32), of="labels"),
    Case("x + 1 of labels", lambda _, x: x + 1, of="labels"),
    Case("bb_flip", lambda lib, x: lib.bb_flip(x[0], ltrb=True), of="boxes"),
    Case("bbox_paste", lambda lib, x: lib.bbox_paste(x[0], ratio=2.0, paste_x=0.3, paste_y=0.2, ltrb=True), of="boxes"),
    Case("bbox_rotate", lambda lib, x: lib.bbox_rotate(*x, angle=20.0, input_shape=[375, 500]), of="boxes"),
    Case("random_bbox_crop", lambda lib, x: lib.random_bbox_crop(*x, **WINDOWS), of="boxes"),
    Case("random_bbox_crop, 50 attempts", lambda lib, x: lib.random_bbox_crop(*x, num_attempts=50, **WINDOWS),
         of="boxes"),
    Case("box_encoder, 8732 anchors", lambda lib, x: lib.box_encoder(*x, anchors=ANCHORS, offset=True), of="boxes"),
    Case("coord_flip", lambda lib, x: lib.coord_flip(x), of="points"),
    Case("coord_transform", lambda lib, x: lib.coord_transform(x, M=[0.9, 0.1, 0.1, 0.8], T=[1.0, 2.0]), of="points"),
    Case("transforms.rotation", lambda lib, x: lib.transforms.rotation(angle=x), of="angles"),
    *(Case(f"random.{name}{f' of {shape}' if shape else ''}", drawn(name, shape), of="nothing")
      for name in ("uniform", "normal", "coin_flip") for shape in ([], [100], [100, 1000])),
    *(Case(f"decoders.audio of {kind}", lambda lib, x: lib.decoders.audio(x), rivals(soundfile=decoded_by_soundfile),
           of=f"{kind} files") for kind in ("WAV", "FLAC", "OGG")),
    Case("audio_resample to 8 kHz", lambda lib, x: lib.audio_resample(x, in_rate=16000.0, out_rate=8000.0),
         rivals(torchaudio=torch_called("Resample", 16000, 8000)), of="sounds"),
    Case("audio_resample to 44.1 kHz", lambda lib, x: lib.audio_resample(x, in_rate=16000.0, out_rate=44100.0),
         rivals(torchaudio=torch_called("Resample", 16000, 44100)), of="sounds"),
    Case("spectrogram", lambda lib, x: lib.spectrogram(x, **FRAMES),
         rivals(torchaudio=torch_called("Spectrogram", 512, 400, 160), librosa=librosa_spectrogram), of="sounds"),
    Case("spectrogram, times first", lambda lib, x: lib.spectrogram(x, layout="tf", **FRAMES), of="sounds"),
    Case("power_spectrum", lambda lib, x: lib.power_spectrum(x, nfft=512), of="spectra"),
    Case("mel_filter_bank", lambda lib, x: lib.mel_filter_bank(x, nfilter=80, sample_rate=16000.0),
         rivals(torchaudio=torch_called("MelScale", 80, 16000, n_stft=257)), of="spectra"),
    Case("mfcc", lambda lib, x: lib.mfcc(x, n_mfcc=20), of="spectra"),
    Case("to_decibels", lambda lib, x: lib.to_decibels(x, cutoff_db=-80.0),
         rivals(torchaudio=torch_called("AmplitudeToDB", "power", 80.0)), of="spectra"),
    Case("preemphasis_filter", lambda lib, x: lib.preemphasis_filter(x),
         rivals(torchaudio=torch_called("Preemphasis")), of="sounds"),
    Case("nonsilent_region", lambda lib, x: lib.nonsilent_region(x), of="sounds"),
    Case("equalize", lambda lib, x: lib.equalize(x)),
    Case("jpeg_compression_distortion", lambda lib, x: lib.jpeg_compression_distortion(x, quality=50)),
    Case("lookup_table", lambda lib, x: lib.lookup_table(x, keys=list(range(256)), values=[*map(float, range(256))]),
         rivals(cv2=lambda image: cv2.LUT(image, numpy.arange(256, dtype=numpy.float32)))),
    Case("grid_mask", lambda lib, x: lib.grid_mask(x, tile=50, ratio=0.4, angle=0.3)),
    Case("noise.gaussian", lambda lib, x: lib.noise.gaussian(x, stddev=10.0)),
    Case("reductions.mean", lambda lib, x: lib.reductions.mean(x),
         rivals(numpy=lambda image: image.mean(dtype=numpy.float32))),
    Case("reductions.mean of H and W", lambda lib, x: lib.reductions.mean(x, axis_names="HW"),
         rivals(cv2=cv2.mean)),
    Case("x * 2.0 + 1.0", lambda _, x: x * 2.0 + 1.0,
         rivals(numpy=lambda image: image * numpy.float32(2) + numpy.float32(1))),
    Case("x - [124, 116, 104]", lambda lib, x: x - lib.as_tensor(AVERAGE),
         rivals(numpy=lambda image: image - AVERAGE)),
]  # fmt: skip


def data(folder: Path, size: str | None, dtype: str) -> dict[str, dict[str, Any]]:
    """What cases are called with, by how it is called in the table: photos as arrays, their files, labels."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from photos import make

    originals = [cv2.imread(str(path), cv2.IMREAD_COLOR_RGB) for path in sorted(make(folder).glob("*/*.jpg"))]
    batch, single = (tuple(map(int, each.split("x"))) for each in (size or SIZES[0], SIZES[1]))
    images = [cv2.resize(image, batch, interpolation=cv2.INTER_LINEAR) for image in originals]
    images = (images * (64 // len(images) + 1))[:64]
    of_each = {f"64 x {size or SIZES[0]}": images}
    if size is None:
        of_each[f"1 x {SIZES[1]}"] = [cv2.resize(images[0], single)]
    how = {"quality": 90, "colorspace": "RGB", "colorsubsampling": "420"}
    files = {title: [numpy.frombuffer(simplejpeg.encode_jpeg(image, **how), numpy.uint8) for image in some]
             for title, some in of_each.items()}  # fmt: skip
    paths = {title: [str(folder / f"{title}-{i}.jpg") for i in range(len(some))] for title, some in files.items()}
    for title, some in files.items():
        for file, path in zip(some, paths[title], strict=True):
            file.tofile(path)
    if dtype != "uint8":
        most = 1.0 if dtype.startswith("f") else numpy.iinfo(dtype).max
        of_each = {title: [(image * (most / 255)).astype(dtype) for image in some] for title, some in of_each.items()}
    if size is not None:
        return {"images": of_each, "files": files, "paths": paths}
    small = {
        "labels": {"64 numbers": [numpy.int64(13 * i % 1000) for i in range(64)]},
        "angles": {"64 numbers": [numpy.float32(i) for i in range(64)]},
        "boxes": {"64 x 1 to 7 boxes": [detected(i) for i in range(64)]},
        "points": {"64 x 50 points": [numpy.random.default_rng(i).random((50, 2), numpy.float32) for i in range(64)]},
        "nothing": {"64 samples": [None] * 64},
    }
    return {"images": of_each, "files": files, "paths": paths, **small}


def heard() -> dict[str, dict[str, Any]]:
    """Sounds of 4 seconds at 16 kHz, their files and their spectra."""
    time = numpy.arange(64_000, dtype=numpy.float32)
    noises = [numpy.random.default_rng(i).normal(0, 0.02, len(time)).astype(numpy.float32) for i in range(64)]
    sounds = [0.3 * numpy.sin(time / (20 + i)) + noise for i, noise in enumerate(noises)]
    spectra = [sample.array for sample in dynamic.spectrogram(dynamic.as_batch(sounds), **FRAMES)]
    kinds: dict[str, dict[str, Any]] = {"sounds": {"64 x 4 s": sounds}, "spectra": {"64 x 257 x 401": spectra}}
    soundfile = imported("soundfile")
    for kind in ("WAV", "FLAC", "OGG") if soundfile is not None else ():
        files = [io.BytesIO() for _ in sounds]
        for file, sound in zip(files, sounds, strict=True):
            soundfile.write(file, sound, 16_000, format=kind)
        found = [numpy.frombuffer(file.getvalue(), numpy.uint8) for file in files]
        kinds[f"{kind} files"] = {"64 x 4 s": found}
    return kinds


def detected(seed: int) -> tuple[Any, Any]:
    """Boxes and labels as a photo has them."""
    chance = numpy.random.default_rng(seed)
    starts, extents = chance.random((2, int(chance.integers(1, 8)), 2), numpy.float32) / 2
    return numpy.concatenate([starts, starts + extents], 1), numpy.arange(len(starts), dtype=numpy.int32)


def given(library: Any, case: Case, samples: list[Any]) -> Any:
    """What a library calls the samples of a case."""
    if case.of in ("paths", "nothing"):
        return samples
    if case.of == "boxes":
        return tuple(library.as_batch(list(column)) for column in zip(*samples, strict=True))
    return library.as_batch(samples, **({"layout": "HWC"} if case.of == "images" else {}))


def has(library: Any, case: Case, samples: Any) -> bool:
    """Whether a library can do it."""
    try:
        evaluated(case.call(library, samples))
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        print(f"{case.name}: {library.__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        return False
    return True


def evaluated(result: Any) -> None:
    """Wait until a result is there."""
    for part in result if isinstance(result, tuple) else (result,):
        part.evaluate()


def in_threads(pool: ThreadPoolExecutor, threads: int, call: Direct, samples: list[Any]) -> None:
    """Call it for every sample, in so many threads."""
    parts = [samples[k::threads] for k in range(threads)]
    list(pool.map(lambda part: [call(sample) for sample in part], parts))


def measured(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Wall and CPU seconds of each way in each round, in random order; a round more before, which does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for round in range(rounds + 1):
        for name, way in random.Random(round).sample([*ways.items()], len(ways)):  # nobody always follows the same one
            start, cpu = time.perf_counter(), time.process_time()
            way()
            spent = time.perf_counter() - start, time.process_time() - cpu
            if round:
                times[name].append(spent)
    return times


def ratio(ours: list[tuple[float, float]], theirs: list[tuple[float, float]], which: int) -> float:
    """The median over the rounds of our time to theirs: wall (0) or CPU (1)."""
    return statistics.median(a[which] / max(b[which], 1e-9) for a, b in zip(ours, theirs, strict=True))


def without_core(call: Callable[[], Any]) -> None:
    """Call with the Python path alone."""
    with _core.left_out():
        call()


def row(case: Case, title: str, samples: list[Any], options: argparse.Namespace, pool: ThreadPoolExecutor) -> str:
    """One line of the table."""
    here = given(dynamic, case, samples)
    if not has(dynamic, case, here):
        return ""
    ways: dict[str, Callable[[], Any]] = {"ours": lambda: evaluated(case.call(dynamic, here))}
    if _core.in_use():
        ways["without"] = lambda: without_core(lambda: evaluated(case.call(dynamic, here)))
    if dali is not None:
        there = given(dali, case, samples)
        if has(dali, case, there):
            ways["DALI"] = lambda: evaluated(case.call(dali, there))
    for name, call in case.rivals.items() if options.dtype == "uint8" else ():  # they are for bytes
        ways[name] = functools.partial(in_threads, pool, options.threads, call, samples)
    times = measured(ways, options.rounds)
    ours = times.pop("ours")
    wall = statistics.median(wall for wall, _ in ours) / len(samples) * 1e3
    cells = [case.name, title, f"{wall:.{2 if wall >= 0.01 else 4}f}"]
    without, theirs = times.pop("without", None), times.pop("DALI", None)
    for mine, which in ((ours, 0), (ours, 1), (without, 0)):
        cells.append("" if mine is None or theirs is None else f"{ratio(mine, theirs, which):.2f}")
    cells.append(", ".join(f"{name} {ratio(ours, found, 0):.2f}" for name, found in times.items()))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--size")
    parser.add_argument("--dtype", default="uint8")
    parser.add_argument("--sound", action="store_true")
    options = parser.parse_args()
    dynamic.set_num_threads(options.threads)
    if dali is not None:
        dali.set_num_threads(options.threads)
    if torch is not None:
        torch.set_num_threads(1)  # the pool is what shares out the images
    print("| operator | samples | ms each | DALI | DALI, CPU | without the native library | direct calls |")
    print("|---|---|--:|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.threads) as pool:
        kinds = heard() if options.sound else data(Path(folder), options.size, options.dtype)
        for case in CASES:
            if not options.only or any(word in case.name for word in options.only):
                for title, samples in kinds.get(case.of, {}).items():
                    if line := row(case, title, samples, options, pool):
                        print(line, flush=True)


if __name__ == "__main__":
    main()
