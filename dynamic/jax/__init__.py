"""Batches for JAX: `Loader` makes them ahead, with an exact state; DALI's iterators.

Import it by name, ``import dynamic.jax``; jax is imported when a batch is handed over.
"""

from . import clu as clu
from . import fn as fn
from ._iterators import (
    DALIGenericIterator,
    DALIGenericPeekableIterator,
    data_iterator,
    get_spec_for_array,
    peekable_data_iterator,
)
from ._loader import Loader, as_jax

__all__ = [
    "DALIGenericIterator",
    "DALIGenericPeekableIterator",
    "Loader",
    "as_jax",
    "data_iterator",
    "get_spec_for_array",
    "peekable_data_iterator",
]
