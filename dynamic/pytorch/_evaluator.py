"""`LoaderEvaluator`: the times of a loader's batches, and the times that a loop would have without loading."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynamic import ArgumentError
from dynamic.errors import shown
from dynamic.readers._checks import natural

__all__ = ["LoaderEvaluator"]

_MODES = ("log", "replay")


class LoaderEvaluator:
    """Wraps a loader of PyTorch, to measure it, or to show how fast a loop is where batches cost nothing.

    With ``mode="log"`` it gives the loader's batches, and notes how long each takes. With ``mode="replay"`` it takes
    some batches when it is made, and gives those again and again, as many as the loader has. `dynamic.measure` tells
    both at once.

    Args:
        dataloader: Anything with a length that is iterated in epochs, such as a `Loader`.
        mode: "log" or "replay".
        num_cached_batches: How many batches are kept to be replayed.
        metrics_file: Where `save_metrics` writes to.

    Raises:
        ArgumentError: There is no such mode, or no batch to replay.
    """

    def __init__(
        self,
        dataloader: Any,
        mode: str = "log",
        num_cached_batches: int = 20,
        metrics_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ArgumentError("LoaderEvaluator", "mode", "'log' or 'replay'", shown(mode))
        self.dataloader, self.mode, self.metrics_file = dataloader, mode, metrics_file
        self.num_cached_batches = natural("LoaderEvaluator", "num_cached_batches", num_cached_batches, 1)
        self.cached_batches: list[Any] = []
        self.batch_times: list[float] = []
        self._total = 0.0
        if mode == "replay":
            self.cached_batches = list(itertools.islice(dataloader, self.num_cached_batches))
            if not self.cached_batches:
                raise ArgumentError("LoaderEvaluator", "dataloader", "one with at least one batch", "none")

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch; the times of the epoch before are forgotten."""
        self.batch_times, self._total = [], 0.0
        start = time.perf_counter()
        some = iter(self.dataloader) if self.mode == "log" else self._replayed()
        while True:
            before = time.perf_counter()
            try:
                batch = next(some)
            except StopIteration:
                return
            finally:
                self._total = time.perf_counter() - start
            self.batch_times.append(time.perf_counter() - before)
            yield batch

    def _replayed(self) -> Iterator[Any]:
        return itertools.islice(itertools.cycle(self.cached_batches), len(self.dataloader))

    def get_metrics(self) -> dict[str, Any]:
        """Numbers of the last epoch, in seconds; empty before the first."""
        times = self.batch_times
        if not times:
            return {}
        return {
            "mode": self.mode,
            "total_batches": len(times),
            "total_time": self._total,
            "avg_batch_time": sum(times) / len(times),
            "min_batch_time": min(times),
            "max_batch_time": max(times),
            "batch_times": list(times),
            "cached_batches": len(self.cached_batches),
            "cache_ready": bool(self.cached_batches),
        }

    def save_metrics(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write `get_metrics` as JSON.

        Args:
            filename: Where to; by default `metrics_file`.

        Raises:
            ArgumentError: There is neither.
        """
        file = self.metrics_file if filename is None else filename
        if file is None:
            raise ArgumentError("LoaderEvaluator.save_metrics", "filename", "a path, or metrics_file= given", "None")
        Path(file).write_text(json.dumps(self.get_metrics(), indent=2), encoding="utf-8")

    def print_summary(self) -> None:
        """Print the numbers but those of each batch."""
        lines = [f"{name}: {value}" for name, value in self.get_metrics().items() if name != "batch_times"]
        sys.stdout.write("\n".join([f"LoaderEvaluator of {len(self)} batches, mode {self.mode}", *lines, ""]))
