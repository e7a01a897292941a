"""CPU time of the batches of `pytorch.Dataset`, in this process and from workers of torch's DataLoader.

    python benchmarks/workers.py [--rounds 3] [--images 2048]

The job is that of `training.py`: JPEG bytes to batches of 64 random crops of 224 x 224, of uint8, or of normalised
float32. Beside it are the same workers when they hand batches over as torch does. All processes count, but not the
start of the workers; interleaved.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from training import BATCH_SIZE, MEAN, SIZE, STD, files

import dynamic
from dynamic.pytorch import Dataset, _dataset
from dynamic.readers import File

#: Workers and threads of each.
WAYS = {
    "this process": (0, 1),
    "1 worker": (1, 1),
    "1 worker, torch's way": (1, 1),
    "this process, 2 threads": (0, 2),
    "2 workers": (2, 1),
    "2 workers, torch's way": (2, 1),
}


def job(jpegs: Any, labels: Any, *, dtype: str) -> tuple[Any, Any]:
    """Of bytes a batch for a trainer."""
    rng = dynamic.random.RNG(seed=1).keyed(jpegs)
    images = dynamic.random_resized_crop(dynamic.decoders.image(jpegs), size=[SIZE, SIZE], rng=rng)
    mirror = dynamic.random.coin_flip(batch_size=len(jpegs), rng=rng)
    if dtype == "uint8":
        return dynamic.flip(images, horizontal=mirror), labels
    return dynamic.crop_mirror_normalize(images, mirror=mirror, mean=MEAN, std=STD), labels


def cpu() -> float:
    """CPU seconds of this process and of its workers."""
    others = (time.clock_gettime((~child.pid << 3) | 2) for child in multiprocessing.active_children() if child.pid)
    return time.process_time() + sum(others)


def run(folder: str, way: str, dtype: str, consume: Callable[[Any], object], images: int) -> float:
    """CPU microseconds an image, after an epoch that is not counted."""
    hand_over = _dataset.hand_over_results
    if "torch" in way:
        _dataset.hand_over_results = lambda: None
    reader = File(file_root=folder, scalar_labels=True)
    dataset = Dataset(lambda: reader, batch_size=BATCH_SIZE, step=functools.partial(job, dtype=dtype))
    workers, threads = WAYS[way]
    dynamic.set_num_threads(threads)
    loader = torch.utils.data.DataLoader(dataset, None, num_workers=workers, persistent_workers=workers > 0)
    epochs = -(-images // len(reader))
    for number in range(1 + epochs):
        for batch in loader:
            consume(batch["data"])
        if not number:
            start = cpu()
    used = cpu() - start
    _dataset.hand_over_results = hand_over
    return used / (epochs * len(reader)) * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2048)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds: dict[str, tuple[str, Callable[[Any], object]]] = {
        "uint8, read": ("uint8", torch.Tensor.max),
        "float32, read": ("float32", torch.Tensor.max),
        "float32, changed in place": ("float32", lambda data: data.mul_(2)),
    }
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "photos").mkdir()
        for number, data in enumerate(files()):
            (Path(folder) / "photos" / f"{number}.jpg").write_bytes(data.tobytes())
        for round in range(options.rounds):
            cases = list(itertools.product(kinds, WAYS))
            for kind, way in random.Random(round).sample(cases, len(cases)):
                found = run(folder, way, *kinds[kind], options.images)
                times.setdefault((kind, way), []).append(found)
    print(f"CPU microseconds an image{'':8}" + "".join(f"{kind:>26}" for kind in kinds))
    for way in WAYS:
        print(f"{way:32}" + "".join(f"{statistics.median(times[kind, way]):26.0f}" for kind in kinds))


if __name__ == "__main__":
    main()
