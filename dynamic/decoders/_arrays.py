"""Arrays in the bytes of ``.npy`` files, as `decoders.numpy` gives them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.call import Call, Plan
from dynamic.dtypes import DType
from dynamic.errors import DataError, DecodeError, Failure
from dynamic.io._npy import Header, NoArray, Opened, opened

from ._files import buffer

__all__ = ["OPERATOR", "plan_arrays"]

OPERATOR = "decoders.numpy"


def plan_arrays(call: Call) -> Plan:
    """The arrays in files, which must have as many dimensions, and the dtype, of the first that can be read.

    Of an empty batch nothing is known: it has one dimension, and is of uint8 unless the argument `dtype` says more.
    """
    wanted: DType | None = call.fixed["dtype"]
    first: tuple[int, Header] | None = None
    for i, (encoded,) in enumerate(call.samples()):
        with contextlib.suppress(DataError):
            first = i, _decodable(encoded).header
            break

    def opened_like(encoded: Array, /, **_: Any) -> Opened:
        file = _decodable(encoded)
        i, other = first or (0, file.header)
        own = file.header
        if len(own.shape) != len(other.shape) or (wanted is None and own.native != other.native):
            raise DecodeError(OPERATOR, [Failure(0, f"holds {own}, where sample {i} holds {other}")])
        return file

    files = call.each(opened_like, of_values=True)
    if not files:
        return Plan([], call.asked, None, ndim=1)
    kind = first[1].native if wanted is None and first is not None else call.asked
    return Plan([file.header.shape for file in files], kind, None, data=files)


def _decodable(encoded: Array) -> Opened:
    try:
        return opened(numpy.asarray(buffer(encoded, OPERATOR)))
    except NoArray as error:
        raise DecodeError(OPERATOR, [Failure(0, str(error))]) from None
