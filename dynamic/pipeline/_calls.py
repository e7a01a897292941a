"""The record of a pipeline's calls, by which a checkpoint is known to be of the same function."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy

import dynamic
from dynamic import Batch, Tensor
from dynamic.auto_aug.core import Augmentation, Policy

__all__ = ["told", "worded"]


def told(path: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> str:
    """A call as the checkpoint records it: what would be compared, without devices, data and seeds."""
    given = [worded(value) for value in inputs] + [
        f"{name}={worded(value)}" for name, value in sorted(arguments.items()) if name not in _NOT_COMPARED
    ]
    return f"{path}({', '.join(given)})"


#: Arguments that may differ after a resume: where things are done, and what a reader compares by itself.
_NOT_COMPARED = frozenset(
    ["device", "shard", "shard_id", "num_shards", "file_root", "files", "labels", "file_list", "random_shuffle",
     "on_mismatch", "lazy_init", "prefetch_queue_depth", "source", "num_threads", "read_ahead", "dont_use_mmap"]
)  # fmt: skip


def worded(value: Any) -> str:
    """A value as the record has it: numbers and words as they are, of all else only what kind of thing it is."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(worded, value))}]"
    if isinstance(value, (bool, int, float, str, type(None), numpy.generic)):
        return repr(value.item() if isinstance(value, numpy.generic) else value)
    if isinstance(value, (Batch, Tensor)):
        return "Batch" if isinstance(value, Batch) else "Tensor"
    if isinstance(value, dynamic.DType):
        return str(value)
    if isinstance(value, Augmentation):
        return repr(value)
    if isinstance(value, Policy):
        return f"{value!r} of {[*value.augmentations.values()]}"
    return f"<{type(value).__name__}>"
