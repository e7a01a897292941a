"""Eager tensors and image batches that stop anywhere and resume anywhere."""

from ._interop import as_batch, as_tensor, batch, tensor
from .data import Batch, Tensor

__all__ = ["Batch", "Tensor", "as_batch", "as_tensor", "batch", "tensor"]
