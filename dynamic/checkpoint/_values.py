"""Values of states: plain JSON values, checked on the way out and on the way in; and arrays written as such."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy

from dynamic._base.state import JSON
from dynamic.dtypes import ALL, numpy_dtype
from dynamic.errors import StateError, shown

__all__ = ["array_from_json", "array_to_json", "plain"]

DEEPEST = 32  # levels of dicts and lists in a state
LARGEST_INTEGER = 1 << 256
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")  # two surrogates that JSON takes for one character

_DTYPES = {t.word: numpy_dtype(t) for t in ALL}
_KEYS = {"dtype", "shape", "data"}


def plain(value: Any, where: str, depth: int = 0) -> JSON:
    """A copy of a value, of exactly the types that JSON brings back, with the keys of dicts sorted.

    Args:
        value: A value of a state.
        where: A name of the value, for the error.
        depth: How deep the value lies in the state.

    Raises:
        StateError: Something in it would not come back from JSON as it was: a tuple, a NumPy number or array, a key
            that is no string, NaN or infinity, a text with two surrogates that make one character.
    """
    if depth > DEEPEST:
        raise StateError(f"{where} is nested more than {DEEPEST} levels deep.")
    kind = type(value)
    known = value is None or kind is bool or (kind is str and not _PAIR.search(value))
    if known or (kind is int and abs(value) < LARGEST_INTEGER) or (kind is float and math.isfinite(value)):
        same: JSON = value
        return same
    if kind is list:
        return [plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise StateError(f"{where} has the key {shown(key)}; keys must be str.")
            plain(key, f"{where} has a key that", depth)
        return {key: plain(value[key], f"{where}[{key!r}]", depth + 1) for key in sorted(value)}
    hint = "A state holds dict, list, str, bool, None, integers of up to 256 bits and finite floats."
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        hint = "Write it with checkpoint.array_to_json."
    elif kind is str:
        hint = "It has a high surrogate before a low one, which JSON makes one character of."
    raise StateError(f"{where} is {shown(value)}, which would not come back from JSON as it is. {hint}")


def array_to_json(array: Any) -> dict[str, JSON]:
    """Write an array as a JSON value that keeps its dtype and shape.

    Args:
        array: A NumPy array or number, or an argument of `numpy.asarray`, of numbers or bools; without NaN or infinity.

    Returns:
        A dict of "dtype" (a word such as "int64"), "shape", and "data", the elements in C order.

    Raises:
        StateError: The array holds something else.

    >>> array_to_json = ndd.checkpoint.array_to_json
    >>> array_to_json(numpy.array([[1, 2**63]], "uint64"))
    {'dtype': 'uint64', 'shape': [1, 2], 'data': [1, 9223372036854775808]}
    """
    array = numpy.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise StateError(f"An array of {array.dtype} cannot be written as JSON. Use numbers or bools.")
    if array.dtype.kind == "f" and not numpy.isfinite(array).all():
        raise StateError("An array with NaN or infinity cannot be written as JSON.")
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.ravel().tolist()}


def array_from_json(value: Any) -> Any:
    """Read an array that `array_to_json` wrote.

    Args:
        value: The dict.

    Returns:
        A new NumPy array with the dtype, shape and elements of the first.

    Raises:
        StateError: The value is not a result of `array_to_json`.

    >>> ndd.checkpoint.array_from_json({"dtype": "float32", "shape": [2], "data": [0.5, 1.0]})
    array([0.5, 1. ], dtype=float32)
    """
    if not isinstance(value, dict) or value.keys() != _KEYS:
        raise StateError(f"An array is a dict with the keys dtype, shape and data; this is {shown(value)}.")
    dtype, shape, data = _DTYPES.get(str(value["dtype"])), value["shape"], value["data"]
    if dtype is None:
        raise StateError(f"The array has the dtype {shown(value['dtype'])}; it must be one of {', '.join(_DTYPES)}.")
    if type(shape) is not list or not all(type(n) is int and n >= 0 for n in shape):
        raise StateError(f"The array has the shape {shown(shape)}; it must be a list of integers.")
    if type(data) is not list or len(data) != math.prod(shape):
        raise StateError(f"The data of the array of shape {shape} is not a list of {math.prod(shape)} elements.")
    kinds = {"b": (bool,), "f": (int, float)}.get(dtype.kind, (int,))
    if not all(type(item) in kinds for item in data):
        raise StateError(f"The data of the array is not of {dtype}.")
    try:
        with numpy.errstate(over="raise"):
            return numpy.array(data, dtype).reshape(shape)
    except (OverflowError, FloatingPointError) as error:
        raise StateError(f"The data of the array has a number that is none of {dtype}.") from error
