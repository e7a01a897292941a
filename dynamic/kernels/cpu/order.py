"""Copying with the dimensions in another order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from dynamic._array import Array

__all__ = ["permuted"]


def permuted(source: Array, places: Sequence[int], out: Array) -> None:
    """Copy with dimension `places[i]` as dimension i.

    Args:
        source: What to copy.
        places: For each dimension of the result which one of the source it is.
        out: Where to, C-contiguous.
    """
    numpy.copyto(out, source.transpose(places))
