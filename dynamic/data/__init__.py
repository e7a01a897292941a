"""Tensor and Batch: the inputs and results of every operator."""

from ._batch import Batch, Shapes, TensorList
from ._interop import as_batch, as_tensor, batch, is_batch, tensor
from ._joined import as_one
from ._operators import checked_batch_size, first_shape
from ._tensor import Tensor

__all__ = [
    "Batch",
    "Shapes",
    "Tensor",
    "TensorList",
    "as_batch",
    "as_one",
    "as_tensor",
    "batch",
    "checked_batch_size",
    "first_shape",
    "is_batch",
    "tensor",
]
