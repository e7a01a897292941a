"""Iterators for loops of CLU, under DALI's name of the module."""

from ._iterators import DALIGenericPeekableIterator, get_spec_for_array, peekable_data_iterator

__all__ = ["DALIGenericPeekableIterator", "get_spec_for_array", "peekable_data_iterator"]
