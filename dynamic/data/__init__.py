"""Tensor and Batch: what every operator takes and gives."""

from ._batch import Batch, Shapes, TensorList
from ._joined import as_one
from ._operators import checked_batch_size, first_shape
from ._tensor import Tensor

__all__ = ["Batch", "Shapes", "Tensor", "TensorList", "as_one", "checked_batch_size", "first_shape"]
