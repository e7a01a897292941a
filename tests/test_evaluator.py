"""DALI's measure of loaders."""

from __future__ import annotations

import json
import time

import pytest

from dynamic import ArgumentError
from dynamic.pytorch import LoaderEvaluator


class Slow:
    """A loader of numbers, each epoch from where the last one ended."""

    def __init__(self, count):
        self.count, self.taken = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            time.sleep(0.002)
            self.taken += 1
            yield self.taken


def test_logged_batches_are_those_of_the_loader(tmp_path, capsys):
    made = LoaderEvaluator(Slow(5), metrics_file=tmp_path / "times.json")
    assert (len(made), made.get_metrics()) == (5, {})
    assert [list(made), list(made)] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    found = made.get_metrics()
    assert (found["mode"], found["total_batches"], found["cached_batches"]) == ("log", 5, 0)
    assert found["total_time"] >= sum(found["batch_times"]) >= 5 * 0.002
    assert found["min_batch_time"] <= found["avg_batch_time"] <= found["max_batch_time"]
    made.save_metrics()
    assert json.loads((tmp_path / "times.json").read_text()) == found
    made.print_summary()
    assert "total_batches: 5" in capsys.readouterr().out


def test_replayed_batches_are_the_first_ones_again_and_again():
    loader = Slow(7)
    made = LoaderEvaluator(loader, "replay", num_cached_batches=3)
    assert [list(made), list(made)] == [[1, 2, 3, 1, 2, 3, 1]] * 2
    assert loader.taken == 3
    assert made.get_metrics()["cached_batches"] == 3


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="'mode' must be 'log' or 'replay'"):
        LoaderEvaluator(Slow(1), "lag")
    with pytest.raises(ArgumentError, match="'dataloader' must be one with at least one batch"):
        LoaderEvaluator([], "replay")
    with pytest.raises(ArgumentError, match="'filename' must be a path"):
        LoaderEvaluator([]).save_metrics()
