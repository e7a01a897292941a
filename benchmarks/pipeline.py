"""What running ahead gains: JPEG files of a folder, decoded and turned by random angles, in batches of 8.

    python benchmarks/pipeline.py [--rounds 7] [--threads 2] [--consumer 2.0]

A pipeline that makes two batches ahead against one that makes each when it is asked for, with checkpointing enabled and
not, with a checkpoint after each batch, and the same work in torch's DataLoader with worker processes; interleaved. The
consumer waits so many milliseconds an image, as for a GPU, which is the time that running ahead can hide; with 0 it
takes batches as fast as they come. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

BATCH_SIZE = 8
COPIES = 4  # of each photo
UNTIMED = 3  # the batch after which the clock is started: those before may have been made while others were measured


def folder_of_photos(folder: Path) -> Path:
    """Photos of the examples in class folders, each several times."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import photos

    for path in list(photos.make(folder).glob("*/*.jpg")):
        for number in range(1, COPIES):
            shutil.copy(path, path.with_stem(f"{path.stem}_{number}"))
    return folder


def batches_of_pipeline(folder: Path, threads: int, depth: int, *, enabled: bool) -> Any:
    """The job as a pipeline."""
    from dynamic.pipeline import fn, pipeline_def, types

    @pipeline_def(
        batch_size=BATCH_SIZE, num_threads=threads, seed=12, prefetch_queue_depth=depth, enable_checkpointing=enabled
    )
    def rotated() -> Any:
        jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="image_reader")
        images = fn.decoders.image(jpegs, output_type=types.RGB)
        return fn.rotate(images, angle=fn.random.uniform(range=(-30.0, 30.0)), fill_value=0), labels

    return rotated()


class Photos:
    """The job as a data set of torch, one image at a time, with the same decoder and warp."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*/*.jpg"))
        self.labels = {name: k for k, name in enumerate(sorted({path.parent.name for path in self.paths}))}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        import dynamic

        image = dynamic.decoders.image(dynamic.as_tensor(self.paths[i].read_bytes()))
        angle = float(numpy.random.default_rng().uniform(-30, 30))
        return dynamic.rotate(image, angle=angle, fill_value=0).numpy(), self.labels[self.paths[i].parent.name]


def one_thread(_: int) -> None:
    """Let a worker process of torch use one thread."""
    import dynamic

    dynamic.set_num_threads(1)


def loader(folder: Path, workers: int) -> Any:
    """The job in torch's DataLoader, whose processes are started now; None where torch is not installed."""
    try:
        import torch.utils.data
    except ImportError:
        return None
    made = torch.utils.data.DataLoader(
        Photos(folder), BATCH_SIZE, shuffle=True, num_workers=workers, persistent_workers=True, collate_fn=list,
        worker_init_fn=one_thread,
    )  # fmt: skip
    for _ in made:
        pass
    return made


def seconds(epoch: Callable[[], Iterator[int]], waiting: float) -> float:
    """How long an image of an epoch takes once it is under way, with a consumer that waits."""
    start, count = 0.0, 0
    for number, size in enumerate(epoch()):
        count += size
        if waiting:
            time.sleep(waiting * size)
        if number == UNTIMED:
            start, count = time.perf_counter(), 0
    return (time.perf_counter() - start) / count


def of_pipeline(pipe: Any, *, saving: bool = False) -> Callable[[], Iterator[int]]:
    """Sizes of the batches of an epoch of a pipeline."""

    def epoch() -> Iterator[int]:
        for _, labels in pipe.next_epoch():
            if saving:
                pipe.checkpoint()
            yield len(labels)

    return epoch


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--consumer", type=float, default=2.0, help="milliseconds that the consumer waits an image")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = folder_of_photos(Path(place))
        torchs = loader(folder, options.threads)  # first of all, before there are threads that a fork would lose
        pipes = {
            "depth 2": batches_of_pipeline(folder, options.threads, 2, enabled=False),
            "depth 0": batches_of_pipeline(folder, options.threads, 0, enabled=False),
            "depth 2, checkpointing": batches_of_pipeline(folder, options.threads, 2, enabled=True),
            "depth 2, a checkpoint a batch": batches_of_pipeline(folder, options.threads, 2, enabled=True),
        }
        ways = {name: of_pipeline(pipe, saving="a batch" in name) for name, pipe in pipes.items()}
        if torchs is not None:
            ways[f"torch DataLoader, {options.threads} workers"] = lambda: map(len, torchs)
        for waiting in (0.0, options.consumer / 1e3):
            times: dict[str, list[float]] = {name: [] for name in ways}
            for round in range(options.rounds + 1):
                for name, epoch in random.Random(round).sample([*ways.items()], len(ways)):
                    found = seconds(epoch, waiting)
                    if round:
                        times[name].append(found)
            title = f"consumer waits {waiting * 1e3:.1f} ms an image"
            print(f"\n| {title} | images/s | depth 2 is ... as fast |\n|---|--:|--:|")
            for name, found in times.items():
                gain = statistics.median(b / a for a, b in zip(times["depth 2"], found, strict=True))
                print(f"| {name} | {1 / statistics.median(found):,.0f} | {gain:.2f} |")
        for pipe in pipes.values():
            pipe.close()


if __name__ == "__main__":
    main()
