"""Batches for JAX.

Import it by name, ``import dynamic.jax``; jax is imported when a batch is handed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from dynamic import ArgumentError, Batch, Tensor
from dynamic.errors import shown

if TYPE_CHECKING:
    import jax

__all__ = ["as_jax"]


def __getattr__(name: str) -> NoReturn:
    hint = "Loop over the pipeline instead: `for images, labels in pipe.next_epoch(): images.jax()`."
    iterators = ("DALIGenericIterator", "data_iterator", "peekable_data_iterator", "clu", "iterator")
    raise AttributeError(f"dynamic.jax has no {name!r}. {hint if name in iterators else ''}".rstrip())


def as_jax(data: Batch | Tensor, *, pad: bool = False) -> jax.Array:
    """The samples as one array of JAX, (N, ...), or the elements of a Tensor: ``data.jax()`` as a function.

    Args:
        data: A Batch or a Tensor.
        pad: Fill samples that are smaller than the largest with zeros at the end of each dimension.

    Returns:
        An array of the same dtype on JAX's default device, or on the GPU where the data is.

    Raises:
        ArgumentError: The dtype has 64 bits, which JAX would halve without a word unless ``jax_enable_x64`` is set.
        ValueError: The shapes differ and `pad` is False.
    """
    if not isinstance(data, (Batch, Tensor)):
        raise ArgumentError("jax.as_jax", "data", "a Batch or a Tensor", shown(data))
    return data.jax(pad) if isinstance(data, Batch) else data.jax()
