"""DALI's enumerations, for which everywhere a word does as well (``interp_type="linear"``); arguments of sources."""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = [
    "ANY_DATA",
    "BGR",
    "BOOL",
    "FLOAT",
    "FLOAT16",
    "FLOAT64",
    "GRAY",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "INTERP_CUBIC",
    "INTERP_GAUSSIAN",
    "INTERP_LANCZOS3",
    "INTERP_LINEAR",
    "INTERP_NN",
    "INTERP_TRIANGULAR",
    "RGB",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BatchInfo",
    "DALIDataType",
    "DALIImageType",
    "DALIInterpType",
    "SampleInfo",
    "YCbCr",
]


class SampleInfo(NamedTuple):
    """Which sample a source is asked for."""

    idx_in_epoch: int  #: number of the sample in its epoch
    idx_in_batch: int
    iteration: int  #: number of the batch in the epoch
    epoch_idx: int


class BatchInfo(NamedTuple):
    """Which batch a source is asked for."""

    iteration: int  #: number of the batch in the epoch
    epoch_idx: int


class DALIInterpType(enum.IntEnum):
    """How a value between pixels is read: "nn", "linear", "cubic", "lanczos3", "triangular", "gaussian"."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class DALIImageType(enum.IntEnum):
    """The colour space of an image: "RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIDataType(enum.IntEnum):
    """Element types: "uint8", "float32" and so on."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11


INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = DALIInterpType
RGB, BGR, GRAY, YCbCr, ANY_DATA = DALIImageType
UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, FLOAT64, BOOL = DALIDataType
