"""Operators of your own, with the checks, errors and speed of those that are here.

>>> from dynamic.custom import Layout, PerSample, operator
>>> @operator(layouts=["HWC"], dtypes="uint8")
... def posterize(image, /, *, bits: PerSample[int] = 4):
...     return image & (256 - (1 << (8 - bits)))
>>> images = ndd.as_batch([[[[200]]], [[[100]]]], dtype="uint8")
>>> posterize(images, bits=ndd.as_batch([1, 2])).tolist()
[[[[128]]], [[[64]]]]
"""

from ._lift.argument import (
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
from ._lift.call import Call, Plan
from ._lift.operator import Operator, operator

__all__ = [
    "Between",
    "Call",
    "DTypeArgument",
    "Four",
    "ImageType",
    "Interp",
    "Layout",
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
]
