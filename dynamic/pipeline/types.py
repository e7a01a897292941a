"""`dynamic.types` and more of DALI's `types`: constants, and NumPy's types."""

from __future__ import annotations

from typing import Any

import numpy

from dynamic import types
from dynamic.dtypes import dtype, numpy_dtype
from dynamic.types import *  # noqa: F403

from ._added import Constant

__all__ = [  # noqa: PLE0604
    *types.__all__,
    "NCHW",
    "NFCHW",
    "NFHWC",
    "NHWC",
    "CPU_ONLY_DEVICE_ID",
    "Constant",
    "ScalarConstant",
    "to_dali_type",
    "to_numpy_type",
]

#: Layouts, as DALI calls them too.
NCHW, NHWC, NFCHW, NFHWC = "CHW", "HWC", "FCHW", "FHWC"

#: The `device_id` of a pipeline without a GPU.
CPU_ONLY_DEVICE_ID = -99999

_FRAMEWORK_WORDS = {"double": "float64", "float": "float32", "half": "float16", "long": "int64", "short": "int16"}

#: DALI's names of constants that are one number.
ScalarConstant = Constant


def to_dali_type(framework_type: Any) -> types.DALIDataType:
    """The constant for a type of NumPy or PyTorch, or for its name.

    >>> from dynamic.pipeline import types
    >>> types.to_dali_type("long"), types.to_dali_type(numpy.float32)
    (<DALIDataType.INT64: 7>, <DALIDataType.FLOAT: 9>)
    """
    known = framework_type
    if isinstance(known, str):
        known = _FRAMEWORK_WORDS.get(known.removeprefix("torch."), known.removeprefix("torch."))
    return types.DALIDataType(dtype(known).type_id)


def to_numpy_type(dali_type: Any) -> type[numpy.generic]:
    """NumPy's type for an element type.

    >>> from dynamic.pipeline import types
    >>> types.to_numpy_type(types.FLOAT16)
    <class 'numpy.float16'>
    """
    return numpy_dtype(dtype(dali_type)).type
