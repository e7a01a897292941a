"""Operators of your own, with the checks, errors and speed of those that are here.

>>> from dynamic.custom import Layout, PerSample, operator
>>> @operator(layouts=["HWC"], dtypes="uint8")
... def posterize(image, /, *, bits: PerSample[int] = 4):
...     return image & (256 - (1 << (8 - bits)))
>>> images = ndd.as_batch([[[[200]]], [[[100]]]], dtype="uint8")
>>> posterize(images, bits=ndd.as_batch([1, 2])).tolist()
[[[[128]]], [[[64]]]]
"""

from ._arrays.array import Array, asarray, library
from ._lift.argument import (
    GIVEN,
    Between,
    DTypeArgument,
    Four,
    ImageType,
    Interp,
    Layout,
    Numbers,
    PerItem,
    PerSample,
    Several,
    Three,
    Two,
    Word,
    from_host,
)
from ._lift.call import Call, Moving, Plan
from ._lift.operator import Operator, operator
from .dtypes import convert

__all__ = [
    "GIVEN",
    "Between",
    "Call",
    "DTypeArgument",
    "Four",
    "ImageType",
    "Interp",
    "Layout",
    "Moving",
    "Numbers",
    "Operator",
    "PerItem",
    "PerSample",
    "Plan",
    "Several",
    "Three",
    "Two",
    "Word",
    "from_host",
    "operator",
    "store",
]


def store(values: Array | float, out: Array) -> None:
    """Write numbers to the memory of a result; integers are rounded half to even and saturated.

    Args:
        values: An array that broadcasts to `out`, or a number.
        out: The memory.

    >>> from dynamic.custom import store
    >>> out = numpy.empty(3, "uint8")
    >>> store(numpy.array([-1.0, 1.5, 300.0]), out)
    >>> out.tolist()
    [0, 2, 255]
    """
    xp = library(out)
    values = asarray(values) if isinstance(values, (int, float)) else values
    convert(xp, xp.broadcast_to(xp.asarray(values), out.shape), out.dtype, out)
