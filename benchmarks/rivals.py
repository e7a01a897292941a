"""The job of `training.py` in other libraries, each as its documentation shows it.

A function takes the list of files, whose elements are replaced between rounds, and the number of threads or worker
processes. It returns a function without arguments that does the job once. It raises ImportError where its library is
not installed. Processes are started before there are threads, so those that need them come first in `RIVALS`.
"""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

BATCH_SIZE, SIZE = 64, 224
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)

Files = list[Any]
Job = Callable[[], None]


def batches_of(data: Files) -> Iterator[Files]:
    """The files, so many at a time."""
    return (data[start : start + BATCH_SIZE] for start in range(0, len(data), BATCH_SIZE))


class Batches:
    """The files in batches, as often as they are iterated over."""

    def __init__(self, data: Files) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Files]:
        return batches_of(self.data)


def consumed(batches: Any) -> None:
    """Take all batches."""
    for _ in batches:
        pass


class Items:
    """A data set of torch: a function of the bytes of a file, one file at a time."""

    def __init__(self, data: Files, function: Callable[[Any], Any]) -> None:
        self.data, self.function = data, function

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        return self.function(self.data[i])


def torch_loader(dataset: Any, workers: int, after: Callable[[Any], Any] | None = None) -> Job:
    """Batches of a data set from torch's DataLoader, whose worker processes are started now."""
    import torch

    batches = torch.utils.data.DataLoader(dataset, BATCH_SIZE, num_workers=workers, persistent_workers=True)

    def run() -> None:
        for batch in batches:
            if after is not None:
                after(batch)

    run()
    return run


def window(generator: Any, height: int, width: int) -> tuple[int, int, int, int]:
    """A random window as most libraries draw it: left, upper, right, lower."""
    for _ in range(10):
        area = generator.uniform(*AREA) * height * width
        ratio = numpy.exp(generator.uniform(*numpy.log(RATIO)))
        w, h = round(float(numpy.sqrt(area * ratio))), round(float(numpy.sqrt(area / ratio)))
        if 0 < w <= width and 0 < h <= height:
            x, y = generator.integers(0, width - w + 1), generator.integers(0, height - h + 1)
            return int(x), int(y), int(x + w), int(y + h)
    return 0, 0, width, height


def with_pillow(generator: Any, file: Any) -> Any:
    """The job on one file, with Pillow and NumPy."""
    from PIL import Image

    image = Image.open(io.BytesIO(file.tobytes())).convert("RGB")
    image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=window(generator, image.height, image.width))
    if generator.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return normalised(numpy.asarray(image))


def normalised(image: Any) -> Any:
    """Bytes HWC as normalised float32 CHW."""
    values = (image.astype(numpy.float32) - numpy.float32(MEAN)) / numpy.float32(STD)
    return numpy.ascontiguousarray(values.transpose(2, 0, 1))


def with_opencv(generator: Any, file: Any) -> Any:
    """The job on one file, with OpenCV, whose resizing of large windows averages areas."""
    import cv2

    image = cv2.imdecode(file, cv2.IMREAD_COLOR_RGB)
    left, top, right, bottom = window(generator, *image.shape[:2])
    image = cv2.resize(image[top:bottom, left:right], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return normalised(cv2.flip(image, 1) if generator.random() < 0.5 else image)


def pillow(data: Files, threads: int) -> Job:
    """Torch's DataLoader with Pillow."""
    return torch_loader(Items(data, functools.partial(with_pillow, numpy.random.default_rng(1))), threads)


def albumentations(data: Files, threads: int) -> Job:
    """Torch's DataLoader with albumentations, whose resizing does not antialias."""
    import albumentations
    import cv2

    mean, std = ([value / 255 for value in values] for values in (MEAN, STD))
    steps = [albumentations.RandomResizedCrop(size=(SIZE, SIZE)), albumentations.HorizontalFlip()]
    transform = albumentations.Compose([*steps, albumentations.Normalize(mean=mean, std=std)])

    def job(file: Any) -> Any:
        cv2.setNumThreads(0)
        image = transform(image=cv2.imdecode(file, cv2.IMREAD_COLOR_RGB))["image"]
        return numpy.ascontiguousarray(image.transpose(2, 0, 1))

    return torch_loader(Items(data, job), threads)


def torchvision(data: Files, threads: int, *, of_bytes: bool = False) -> Job:
    """Torch's DataLoader with torchvision's v2; of bytes, a batch is normalised in the trainer's process."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    crop = v2.Compose([v2.RandomResizedCrop(SIZE, scale=AREA, ratio=RATIO, antialias=True), v2.RandomHorizontalFlip()])
    mean, std = ([value / 255 for value in values] for values in (MEAN, STD))
    normal = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])

    def job(file: Any) -> Any:
        pixels = crop(decode_jpeg(torch.from_numpy(file), mode=ImageReadMode.RGB))
        return pixels if of_bytes else normal(pixels)

    return torch_loader(Items(data, job), threads, normal if of_bytes else None)


def hugging_face(data: Files, threads: int) -> Job:
    """A data set of Hugging Face with Pillow as its transform, in torch's DataLoader."""
    from datasets import Dataset

    rows = Dataset.from_dict({"image": [file.tobytes() for file in data]})
    generator = numpy.random.default_rng(1)

    def transform(batch: Any) -> Any:
        files = (numpy.frombuffer(file, numpy.uint8) for file in batch["image"])
        return {"pixels": [with_pillow(generator, file) for file in files]}

    return torch_loader(rows.with_transform(transform), threads)


def grain(data: Files, threads: int) -> Job:
    """Grain's MapDataset with OpenCV, in its threads."""
    import grain

    generator = numpy.random.default_rng(1)
    job = grain.MapDataset.source(data).map(functools.partial(with_opencv, generator)).batch(BATCH_SIZE)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2)
    return lambda: consumed(job.to_iter_dataset(options))


def spdl(data: Files, threads: int) -> Job:
    """SPDL's pipeline: OpenCV's functions in its threads, collated by NumPy."""
    from spdl.pipeline import PipelineBuilder

    generator = numpy.random.default_rng(1)

    def run() -> None:
        builder = (
            PipelineBuilder().add_source(data).pipe(functools.partial(with_opencv, generator), concurrency=threads)
        )
        pipeline = builder.aggregate(BATCH_SIZE).pipe(numpy.stack).add_sink(2).build(num_threads=threads)
        with pipeline.auto_stop():
            consumed(pipeline)

    return run


def dali_pipeline(data: Files, threads: int, *, windows: bool = False) -> Job:
    """DALI's pipeline mode, two batches ahead."""
    from nvidia.dali import fn, pipeline_def, types

    return as_pipeline(pipeline_def, fn, types.UINT8, data, threads, windows=windows)


def dali_iterator(data: Files, threads: int) -> Job:
    """The same, whose batches are torch's tensors by DALI's iterator."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    pipe = as_pipeline(pipeline_def, fn, types.UINT8, data, threads, windows=False)
    batches = DALIGenericIterator(pipe.args[0], ["data"])

    def run() -> None:
        batches.reset()  # here, as it makes batches ahead
        consumed(batches)

    consumed(batches)
    return run


def our_loader(data: Files, threads: int) -> Job:
    """Our loader for PyTorch with as many workers. It reads the files of a folder, where others have them in memory."""
    import dynamic
    from dynamic.pytorch import Loader

    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "photos").mkdir()
    for number, file in enumerate(data):
        (Path(folder.name) / "photos" / f"{number:03}.jpg").write_bytes(file.tobytes())
    reader = dynamic.readers.File(file_root=folder.name, random_shuffle=True, seed=1)
    batches = Loader(reader, normal_batch, batch_size=BATCH_SIZE, num_workers=threads, persistent_workers=True)

    def run() -> None:
        assert folder.name, "the folder is kept"
        consumed(batches)

    run()
    return run


def normal_batch(jpegs: Any, labels: Any) -> Any:
    """The job as a step of our loader."""
    import dynamic

    rng = dynamic.random.RNG(seed=1).keyed(jpegs)
    images = dynamic.random_resized_crop(dynamic.decoders.image(jpegs), size=[SIZE, SIZE], rng=rng)
    mirror = dynamic.random.coin_flip(batch_size=len(jpegs), rng=rng)
    return dynamic.crop_mirror_normalize(images, mirror=mirror, mean=MEAN, std=STD), labels


def our_pipeline(data: Files, threads: int, *, windows: bool = False) -> Job:
    """The same pipeline with this library."""
    from dynamic.pipeline import fn, pipeline_def, types

    return as_pipeline(pipeline_def, fn, types.UINT8, data, threads, windows=windows)


def as_pipeline(pipeline_def: Any, fn: Any, kind: Any, data: Files, threads: int, *, windows: bool) -> Job:
    """The job as a pipeline of a library that has DALI's names."""

    @pipeline_def(batch_size=BATCH_SIZE, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1)
    def job() -> Any:
        files = fn.external_source(source=Batches(data), cycle="raise", dtype=kind)
        return normal_crops(fn, files, windows=windows)

    pipe = job()
    pipe.build()
    return functools.partial(of_an_epoch, pipe)


def normal_crops(fn: Any, files: Any, *, windows: bool) -> Any:
    """The job as a graph of DALI's functions."""
    if windows:
        images = fn.resize(fn.decoders.image_random_crop(files), size=[SIZE, SIZE])
    else:
        images = fn.random_resized_crop(fn.decoders.image(files), size=[SIZE, SIZE])
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=MEAN, std=STD)


def of_an_epoch(pipe: Any) -> None:
    """Take all batches of a pipeline up to the end of its source."""
    try:
        while True:
            pipe.run()
    except StopIteration:
        pipe.reset()


RIVALS: dict[str, Callable[[Files, int], Job]] = {
    "torch DataLoader, Pillow": pillow,
    "torch DataLoader, albumentations": albumentations,
    "torch DataLoader, torchvision v2": torchvision,
    "torch DataLoader, torchvision v2, uint8": functools.partial(torchvision, of_bytes=True),
    "Hugging Face datasets, Pillow": hugging_face,
    "Grain, OpenCV": grain,
    "SPDL, OpenCV": spdl,
    "dynamic Loader for PyTorch": our_loader,
    "DALI pipeline": dali_pipeline,
    "DALI pipeline, iterator for PyTorch": dali_iterator,
    "DALI pipeline, cropped while decoding": functools.partial(dali_pipeline, windows=True),
    "dynamic pipeline": our_pipeline,
    "dynamic pipeline, cropped while decoding": functools.partial(our_pipeline, windows=True),
}
