"""Files and sources of numbers, by which it can be told what came when; and a pipeline and a reader over the files."""

from __future__ import annotations

import numpy as np

from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import File

COUNT = 23
FILES = [f"{i:02}" for i in range(COUNT)]
NAMES = ["data", "label", "draw"]  # of what `numbers` gives


def laid_out(root):
    """Make files of one byte, their number, in a folder."""
    for i, name in enumerate(FILES):
        (root / name).write_bytes(bytes([i]))
    return root


@pipeline_def(batch_size=4, num_threads=1, seed=12)
def numbers(folder, **reader):
    data, labels = fn.readers.file(file_root=folder, files=FILES, random_shuffle=True, name="reader", **reader)
    return data, labels, fn.random.uniform(range=(0.0, 1.0))


def reader_of(folder, **arguments):
    return File(file_root=folder, files=FILES, random_shuffle=True, seed=5, max_batch_size=4, **arguments)


def by_sample(info):
    """A source of 7 samples an epoch."""
    if info.idx_in_epoch == 7:
        raise StopIteration
    return np.array([info.idx_in_epoch, info.epoch_idx])


def by_batch(info):
    """A source of 3 batches an epoch."""
    if info.iteration == 3:
        raise StopIteration
    return np.array([[info.iteration, info.epoch_idx]] * 3)


def by_index(number):
    """A source of 4 batches an epoch, the same in each."""
    if number == 4:
        raise StopIteration
    return [[number], [number, 1]]
