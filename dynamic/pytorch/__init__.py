"""Pipelines and readers for PyTorch: DALI's iterators, a data set for `torch.utils.data.DataLoader`, and `nodes`.

torch is imported when a batch, or `Dataset`, is first asked for.
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

__all__ = ["ClassificationIterator", "Dataset", "GenericIterator", "LastBatchPolicy", "RaggedIterator"]


def __getattr__(name: str) -> Any:
    """`Dataset`, which has a base class of torch's, is made when it is first asked for."""
    if name != "Dataset":
        raise AttributeError(f"dynamic.pytorch has no {name!r}")
    from ._dataset import made

    globals()[name] = made(__name__, name)
    return globals()[name]
