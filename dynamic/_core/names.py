"""Ids of names: the hashes of `dynamic._base.origin`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from ._library import address, function, in_use, threads

__all__ = ["ids_of", "in_use"]

_ARRAY, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_BYTES_OF_WORK = 1024  # memory to copy in the time of hashing a name, about


def ids_of(groups: Sequence[bytes], firsts: NDArray[Any], own: bytes | None, ends: NDArray[Any]) -> NDArray[Any]:
    """The ids of names that come in groups: uint64 of shape (N,).

    Args:
        groups: The beginning of the names of each group.
        firsts: Where each group begins, and behind it where the last ends: int64.
        own: The other parts of the names, one after the other; None for their numbers, from 0 in each group.
        ends: Where each of these begins, and where the last ends: int64.
    """
    count = int(firsts[-1])
    found = numpy.empty(count, numpy.uint64)
    if not count:
        return found
    beginnings = numpy.frombuffer(b"".join(groups) + b"\0", numpy.uint8)
    lengths = numpy.concatenate([[0], numpy.cumsum(list(map(len, groups)), dtype=numpy.int64)])
    parts = None if own is None else numpy.frombuffer(own or b"\0", numpy.uint8)
    call = function("core_name_ids", _LONG, _LONG, *[_ARRAY] * 6, _INT)
    call(
        count,
        len(groups),
        address(beginnings),
        address(lengths),
        address(firsts),
        None if parts is None else address(parts),
        address(ends),
        address(found),
        threads(count * _BYTES_OF_WORK),
    )
    return found
