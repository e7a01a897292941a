"""Arrays in the bytes of ``.npy`` files, as `decoders.numpy` gives them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.call import Call
from dynamic._lift.former import Planned
from dynamic.dtypes import DType, numpy_dtype
from dynamic.errors import DataError, DecodeError, Failure
from dynamic.io._npy import Header, NoArray, Opened, opened

from ._files import buffer

__all__ = ["OPERATOR", "first", "opened_like"]

OPERATOR = "decoders.numpy"


def first(call: Call) -> tuple[int, Header] | None:
    """The first sample of a call of the decoder that is an array: all others must be like it."""
    for i, (encoded,) in enumerate(call.samples()):
        with contextlib.suppress(DataError):
            return i, _decodable(encoded).header
    return None


def opened_like(encoded: Array, /, *, across: Any, dtype: DType | None = None) -> Planned:
    """What the decoder makes of a file: its shape and dtype, and the file.

    Args:
        encoded: Its bytes.
        across: What `first` has found.
        dtype: Of the result; by default that of the file.

    Raises:
        DecodeError: It is no array, or not like the first.
    """
    file = _decodable(encoded)
    i, other = across
    own = file.header
    if len(own.shape) != len(other.shape) or (dtype is None and own.native != other.native):
        raise DecodeError(OPERATOR, [Failure(0, f"holds {own}, where sample {i} holds {other}")])
    return Planned((own.shape, own.native if dtype is None else numpy_dtype(dtype)), file)


def _decodable(encoded: Array) -> Opened:
    try:
        return opened(numpy.asarray(buffer(encoded, OPERATOR)))
    except NoArray as error:
        raise DecodeError(OPERATOR, [Failure(0, str(error))]) from None
