"""What operators and NumPy's universal functions do to arrays: DALI's promotion, NumPy's everything else.

`evaluate` is the one entry: Tensors and Batches get their operators from NumPy's `NDArrayOperatorsMixin`, which calls a
ufunc for each, and hand the arrays on to here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy

from . import _pool
from ._array import Array, empty, from_numbers, library
from .dtypes import promote
from .errors import ArgumentError

__all__ = ["evaluate", "operand"]

_BOOL, _INT32, _FLOAT32 = (numpy.dtype(t) for t in ("bool", "int32", "float32"))

_LARGE = 1 << 16  # elements of a result that is worth memory of its own and threads
_ON_CPU = (numpy.ndarray, numpy.generic)
_SYMBOLS = {
    numpy.add: "+", numpy.subtract: "-", numpy.multiply: "*", numpy.divide: "/", numpy.floor_divide: "//",
    numpy.remainder: "%", numpy.power: "**", numpy.left_shift: "<<", numpy.right_shift: ">>",
    numpy.bitwise_and: "&", numpy.bitwise_or: "|", numpy.bitwise_xor: "^",
}  # fmt: skip
_BITWISE = (numpy.bitwise_and, numpy.bitwise_or, numpy.bitwise_xor)
_SHIFTS = (numpy.left_shift, numpy.right_shift)
_WHOLE_DIVISIONS = (numpy.floor_divide, numpy.remainder, numpy.divmod)
_COMPARISONS = (numpy.equal, numpy.not_equal, numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal)


def operand(value: Any) -> Array | None:
    """An operand that is neither Tensor nor Batch as an array, or None where it is nothing to calculate with."""
    kind = type(value)
    if kind is bool:
        return numpy.bool_(value)
    if kind is float:
        return numpy.float32(value)
    if kind is int and -(2**31) <= value < 2**31:
        return numpy.int32(value)
    if isinstance(value, (int, float, list, tuple)) and not isinstance(value, numpy.generic):
        return from_numbers(value, "arithmetic", "operand")
    return None


def evaluate(ufunc: numpy.ufunc, arrays: Sequence[Array], arguments: dict[str, Any]) -> Any:
    """`ufunc` of the arrays: promoted as DALI does where it is an operator, by NumPy's rules where it is not.

    Overflow wraps or becomes infinite and 0/0 becomes NaN without a warning, as in DALI. Integers are divided, and
    their remainder taken, rounding towards negative infinity, as in Python.
    """
    xp = numpy if isinstance(arrays[0], numpy.generic) else library(arrays[0])
    if xp is not numpy:
        ufunc = getattr(xp, ufunc.__name__)
    with numpy.errstate(all="ignore"):
        if arguments:
            return ufunc(*arrays, **arguments)
        if ufunc in _SYMBOLS or ufunc is numpy.divmod:
            return _binary(ufunc, *arrays)
        if ufunc in _COMPARISONS:
            return ufunc(*arrays)
        if len(arrays) == 1 and arrays[0].dtype == _BOOL and ufunc in (numpy.negative, numpy.positive, numpy.absolute):
            return _unary_of_bools(ufunc, arrays[0])
        if _is_for_floats(ufunc):
            arrays = [a if a.dtype.kind == "f" else a.astype(numpy.float32) for a in arrays]
        return ufunc(*arrays)


def _binary(ufunc: Any, a: Array, b: Array) -> Any:
    common = promote(a.dtype, b.dtype)
    if common == _BOOL:
        return _binary_of_bools(ufunc, a, b)
    if common.kind == "f":
        if ufunc in _BITWISE or ufunc in _SHIFTS:
            raise ArgumentError(_SYMBOLS[ufunc], "operand", "integers or bools", f"{a.dtype} and {b.dtype}")
    elif ufunc is numpy.divide:
        common = _FLOAT32
    elif ufunc in _WHOLE_DIVISIONS:
        if not (b != 0).all():
            raise ZeroDivisionError("integer division or modulo by zero")
    elif ufunc is numpy.power and (b < 0).any():
        hint = "Make the base a float: a negative power of an integer is a fraction."
        raise ArgumentError("**", "exponent", "0 or more for integers", str(int(b.min())), hint)
    if ufunc.nout > 1:
        return ufunc(a.astype(common), b.astype(common))
    shape = numpy.broadcast_shapes(a.shape, b.shape)
    if math.prod(shape) < _LARGE or not (isinstance(a, _ON_CPU) and isinstance(b, _ON_CPU)):
        return ufunc(a, b, dtype=common)
    return _in_parts(ufunc, a, b, shape, common)


def _in_parts(ufunc: Any, a: Array, b: Array, shape: tuple[int, ...], common: numpy.dtype[Any]) -> Array:
    """A large result, in memory that is used again, several parts of its first dimension at once."""
    out = empty(shape, common)

    def some(part: slice) -> None:
        own = [x[part] if x.ndim == len(shape) and x.shape[0] > 1 else x for x in (a, b)]
        with numpy.errstate(all="ignore"):  # which holds for one thread
            ufunc(*own, out=out[part], dtype=common)

    _pool.run_parts(some, shape[0], out.nbytes)
    return out


def _binary_of_bools(ufunc: Any, a: Array, b: Array) -> Any:
    if ufunc in _BITWISE or ufunc is numpy.multiply:
        return ufunc(a, b)
    hint = "Use & | ^, or make one of them a number with cast()."
    raise ArgumentError(_SYMBOLS.get(ufunc, ufunc.__name__), "operand", "a number beside a bool", "two bools", hint)


def _unary_of_bools(ufunc: Any, a: Array) -> Any:
    if ufunc is numpy.positive:
        return a.copy()
    hint = "Use ~, or make it a number with cast()."
    raise ArgumentError(ufunc.__name__, "operand", "a number", "a bool", hint)


@functools.cache
def _is_for_floats(ufunc: Any) -> bool:
    """Whether a function has no loop for integers (sqrt, exp, ...); theirs then is float32, DALI's rule."""
    return not any(signature[0] in "bBhHiIlLqQ?" for signature in ufunc.types)
