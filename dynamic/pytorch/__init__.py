"""Pipelines and readers for PyTorch: DALI's iterators, `Dataset` and `DataLoader`, and `nodes`.

torch is imported when a batch, `Dataset` or `DataLoader` is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import nodes as nodes
from ._iterator import ClassificationIterator as ClassificationIterator
from ._iterator import GenericIterator as GenericIterator
from ._iterator import LastBatchPolicy as LastBatchPolicy
from ._ragged import RaggedIterator as RaggedIterator

if TYPE_CHECKING:
    from ._dataset import Batches as Dataset
    from ._dataset import Loading as DataLoader

__all__ = ["ClassificationIterator", "DataLoader", "Dataset", "GenericIterator", "LastBatchPolicy", "RaggedIterator"]


def __getattr__(name: str) -> Any:
    """`Dataset` and `DataLoader`, which have base classes of torch's, are made when they are first asked for."""
    if name not in ("Dataset", "DataLoader"):
        raise AttributeError(f"dynamic.pytorch has no {name!r}")
    from ._dataset import made

    globals()[name] = made(__name__, name)
    return globals()[name]
