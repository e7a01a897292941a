"""CPU time of a row: `readers.Map` and `readers.Mix` against torch's DataLoader, Grain and Hugging Face's datasets.

    python benchmarks/rows.py [--rounds 5] [--rows 50000] [--only Mix]

Rows of 32 floats and a label, in arrays and behind ``__getitem__``, and a local Parquet data set of Hugging Face with
the bytes of an image and a label. All are shuffled and read in batches of 64, without workers, in turn in one process;
CPU time of all threads, medians over the rounds. A ratio is our time to theirs. Those who take more than 100 us for a
row read a tenth of the rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import grain
import numpy
import pyarrow
import pyarrow.parquet
import torch
from torch.utils.data import DataLoader, TensorDataset

from dynamic.readers import Map, Mix

BATCH = 64
FEATURES = 32
WEIGHTS = {"a": 0.7, "b": 0.3}
Ways = dict[str, tuple[Callable[[], Iterable[Any]], int]]  #: epochs of each library, and how many rows these have


class Rows:
    """Rows that are asked for one by one."""

    def __init__(self, features: Any, labels: Any) -> None:
        self.features, self.labels = features, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return self.features[i], int(self.labels[i])


def arrays(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Features and labels."""
    features = numpy.random.default_rng(seed).random((count, FEATURES), dtype=numpy.float32)
    return features, numpy.arange(count) % 10


def of_grain(dataset: Any) -> Iterable[Any]:
    """Batches of a data set of Grain, in this thread."""
    found: Iterable[Any] = dataset.batch(BATCH).to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )
    return found


def loader_of_grain(rows: Rows) -> Iterable[Any]:
    """The same of Grain's DataLoader."""
    sampler = grain.samplers.IndexSampler(len(rows), shuffle=True, seed=1, num_epochs=1)
    found: Iterable[Any] = grain.DataLoader(
        data_source=rows, sampler=sampler, operations=[grain.transforms.Batch(BATCH)], worker_count=0
    )
    return found


def of_arrays(count: int, _: Path) -> Ways:
    """Arrays in memory."""
    features, labels = arrays(count)
    reader = Map(dataset={"features": features, "label": labels}, random_shuffle=True)
    tensors = TensorDataset(torch.from_numpy(features), torch.from_numpy(labels))
    return {
        "dynamic": (lambda: reader.next_epoch(BATCH), count),
        "torch DataLoader": (lambda: DataLoader(tensors, batch_size=BATCH, shuffle=True), count),
    }


def of_rows(count: int, _: Path) -> Ways:
    """A class with ``__getitem__``."""
    rows = Rows(*arrays(count))
    few = Rows(*arrays(count // 10))
    reader = Map(dataset=rows, random_shuffle=True)
    return {
        "dynamic": (lambda: reader.next_epoch(BATCH), count),
        "torch DataLoader": (lambda: DataLoader(rows, batch_size=BATCH, shuffle=True), count),  # type: ignore[arg-type]
        "Grain MapDataset": (lambda: of_grain(grain.MapDataset.source(rows).shuffle(seed=1)), count),
        "Grain DataLoader": (lambda: loader_of_grain(few), count // 10),
    }


def collated(rows: list[dict[str, Any]]) -> tuple[list[Any], Any]:
    """Rows of bytes and labels as tensors."""
    return [torch.frombuffer(row["image"], dtype=torch.uint8) for row in rows], torch.tensor(
        [row["label"] for row in rows]
    )


def converted(batch: dict[str, list[Any]]) -> tuple[list[Any], Any]:
    """The same of columns, as arrays."""
    return [numpy.frombuffer(image, numpy.uint8) for image in batch["image"]], numpy.array(batch["label"])


def of_parquet(count: int, folder: Path) -> Ways:
    """A local data set of Hugging Face."""
    chance = numpy.random.default_rng(0)
    images = [chance.bytes(2000) for _ in range(count)]
    table = pyarrow.table({"image": images, "label": [i % 10 for i in range(count)]})
    pyarrow.parquet.write_table(table, folder / "train.parquet")
    rows = datasets.load_dataset(
        "parquet", data_files=str(folder / "train.parquet"), split="train", cache_dir=str(folder)
    )
    reader = Map(dataset=rows, outputs=["image", "label"], random_shuffle=True)
    shuffled = rows.shuffle(seed=1)
    return {
        "dynamic": (lambda: reader.next_epoch(BATCH), count),
        "torch DataLoader": (lambda: DataLoader(rows, batch_size=BATCH, shuffle=True, collate_fn=collated), count),
        "Hugging Face iter": (lambda: map(converted, shuffled.iter(BATCH)), count),
        "Grain MapDataset": (lambda: of_grain(grain.MapDataset.source(rows).shuffle(seed=1)), count // 10),
    }


def of_mixtures(count: int, _: Path) -> Ways:
    """Two arrays, mixed by weights."""
    parts = {name: arrays(count // 2, seed) for seed, name in enumerate(WEIGHTS)}
    children = {
        name: Map(dataset=dict(zip("xy", part, strict=True)), random_shuffle=True) for name, part in parts.items()
    }
    mix = Mix(children, weights=WEIGHTS)
    sources = [grain.MapDataset.source(Rows(*part)).shuffle(seed=1) for part in parts.values()]
    tables = [
        datasets.Dataset.from_dict({"x": x, "y": y}).with_format("numpy").shuffle(seed=1) for x, y in parts.values()
    ]
    probabilities = list(WEIGHTS.values())
    mixed, interleaved = (
        grain.MapDataset.mix(sources, probabilities),
        datasets.interleave_datasets(tables, probabilities, seed=1),
    )
    return {
        "dynamic": (lambda: mix.next_epoch(BATCH), len(mix)),
        "Grain mix": (lambda: of_grain(mixed), len(mixed)),
        "Hugging Face interleave": (lambda: interleaved.iter(BATCH), len(interleaved)),
    }


ROWS = {"Map, arrays": of_arrays, "Map, rows": of_rows, "Map, Parquet": of_parquet, "Mix, arrays": of_mixtures}


def seconds(epoch: Callable[[], Iterable[Any]], count: int) -> float:
    """CPU seconds of an epoch, for each row."""
    start = time.process_time()
    for step, _ in enumerate(epoch(), 1):
        if step * BATCH >= count:
            break
    return (time.process_time() - start) / count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    datasets.disable_progress_bars()
    torch.set_num_threads(1)
    print("| rows | library | us a row | dynamic's time to it |")
    print("|---|---|--:|--:|")
    for name, make in ROWS.items():
        if options.only and not any(name.startswith(word) for word in options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            ways = make(options.rows, Path(folder))
            times: dict[str, list[float]] = {way: [] for way in ways}
            for round in range(options.rounds + 1):
                for way, (epoch, count) in ways.items():
                    spent = seconds(epoch, count)
                    times[way] += [spent] * (round > 0)
            for way, found in times.items():
                ratio = statistics.median(a / b for a, b in zip(times["dynamic"], found, strict=True))
                median = statistics.median(found) * 1e6
                print(f"| {name} | {way} | {median:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
