"""DALI's `feed_ndarray`: an output's elements, copied into a tensor that is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamic import ArgumentError, Batch, Tensor
from dynamic.errors import shown

if TYPE_CHECKING:
    import torch

__all__ = ["feed_ndarray", "to_torch_tensor"]


def feed_ndarray(dali_tensor: Tensor | Batch, arr: torch.Tensor, cuda_stream: Any = None) -> torch.Tensor:  # noqa: ARG001
    """Copy the elements of a Tensor, or the samples of a Batch, into a tensor of torch.

    Args:
        dali_tensor: The data. The samples of a Batch must have one shape; it is (N, ...) then.
        arr: The tensor, of the same shape and element type, on any device.
        cuda_stream: Makes no difference: the copy is done on torch's current stream.

    Returns:
        The tensor.

    Raises:
        ArgumentError: Shape or element type of the tensor is another.
    """
    import torch

    if not isinstance(dali_tensor, (Tensor, Batch)):
        raise ArgumentError("feed_ndarray", "dali_tensor", "a Tensor or a Batch", shown(dali_tensor))
    given = dali_tensor.torch()
    if not isinstance(arr, torch.Tensor) or (arr.dtype, arr.shape) != (given.dtype, given.shape):
        got = f"{arr.dtype} of shape {tuple(arr.shape)}" if isinstance(arr, torch.Tensor) else shown(arr)
        raise ArgumentError("feed_ndarray", "arr", f"a {given.dtype} tensor of shape {tuple(given.shape)}", got)
    return arr.copy_(given)


def to_torch_tensor(dali_tensor: Tensor | Batch, copy: bool = True) -> torch.Tensor:
    """``dali_tensor.torch()``, by DALI's name.

    Args:
        dali_tensor: The data. The samples of a Batch must have one shape; it is (N, ...) then.
        copy: Whether the tensor has memory of its own in any case.
    """
    found: torch.Tensor = dali_tensor.torch()
    return found.clone() if copy else found
