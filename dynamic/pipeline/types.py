"""`dynamic.types` and more of DALI's `types`: constants, and NumPy's types."""

from __future__ import annotations

from typing import Any

import numpy

from dynamic import types
from dynamic.dtypes import dtype, numpy_dtype
from dynamic.types import *  # noqa: F403

from ._added import Constant

__all__ = [*types.__all__, "NCHW", "NFCHW", "NFHWC", "NHWC", "Constant", "ScalarConstant", "to_numpy_type"]  # noqa: PLE0604

#: Layouts, as DALI calls them too.
NCHW, NHWC, NFCHW, NFHWC = "CHW", "HWC", "FCHW", "FHWC"

#: What DALI calls constants that are one number.
ScalarConstant = Constant


def to_numpy_type(dali_type: Any) -> type[numpy.generic]:
    """NumPy's type for an element type.

    >>> from dynamic.pipeline import types
    >>> types.to_numpy_type(types.FLOAT16)
    <class 'numpy.float16'>
    """
    return numpy_dtype(dtype(dali_type)).type
