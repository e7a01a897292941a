"""Tensor and Batch: what every operator takes and gives."""

from ._batch import Batch, TensorList
from ._joined import as_one
from ._tensor import Tensor

__all__ = ["Batch", "Tensor", "TensorList", "as_one"]
