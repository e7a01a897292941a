"""Tensor and Batch: what every operator takes and gives."""

from ._batch import Batch, TensorList
from ._tensor import Tensor

__all__ = ["Batch", "Tensor", "TensorList"]
