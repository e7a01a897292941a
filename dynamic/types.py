"""DALI's enumerations, for scripts that use them; everywhere a word does as well: ``interp_type="linear"``."""

from __future__ import annotations

import enum

__all__ = ["DALIDataType", "DALIImageType", "DALIInterpType"]


class DALIInterpType(enum.IntEnum):
    """How a value between pixels is read: "nn", "linear", "cubic", "lanczos3", "triangular", "gaussian"."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class DALIImageType(enum.IntEnum):
    """What the channels of an image are: "RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"."""

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


for _enumeration in (DALIInterpType, DALIImageType, DALIDataType):
    globals().update(_enumeration.__members__)
    __all__ += list(_enumeration.__members__)
