"""Functions of the elements of Tensors and Batches: NumPy's, with the types that DALI gives.

Operands are Tensors, Batches, arrays, numbers and lists of them, in any mixture. They are broadcast as those of ``+``
are, sample by sample where one is a Batch; the result is a Batch then, else a Tensor. It has their common type, in
which ``+`` would add, but a function that calculates with fractions makes integers and bools float32. Where a function
has no value the result is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy

from ._arrays.array import asarray
from .data import Batch, Tensor
from .data._index import in_pipeline
from .dtypes import numpy_dtype, of_32_bits, promote
from .errors import ArgumentError

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "exp",
    "fabs",
    "floor",
    "fpow",
    "log",
    "log2",
    "log10",
    "max",
    "min",
    "pow",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


_FLOAT32 = numpy.dtype("float32")


def _applied(name: str, function: Callable[..., Any], *, fractions: bool, **operands: Any) -> Tensor | Batch:
    """A function of NumPy, or made of several, in the common type of its operands."""
    values = [_operand(name, argument, value) for argument, value in operands.items()]
    kinds = [numpy_dtype(value.dtype) for value in values]
    common = functools.reduce(promote, kinds)
    if fractions and common.kind != "f":
        common = _FLOAT32
    how: dict[str, Any] = {} if all(kind == common for kind in kinds) else {"dtype": common, "casting": "unsafe"}
    try:
        result: Tensor | Batch = function(*values, **how)
    except ArgumentError as error:
        named = ArgumentError(f"math.{name}", error.argument, error.expected, error.got, error.hint)
        named.__notes__ = getattr(error, "__notes__", [])
        raise named from error.__cause__
    return result


def _operand(name: str, argument: str, value: Any) -> Tensor | Batch:
    if isinstance(value, (Tensor, Batch)):
        return value
    array = asarray(value, f"math.{name}", argument)
    return Tensor(of_32_bits(array) if in_pipeline.get() and isinstance(value, numpy.ndarray) and value.ndim else array)


class _Unary(Protocol):
    """A function of one operand: a Batch gives a Batch, anything else a Tensor."""

    @overload
    def __call__(self, input: Batch) -> Batch: ...
    @overload
    def __call__(self, input: Any) -> Tensor: ...


def _is(function: Callable[..., Any], *, fractions: bool = True) -> Callable[[Callable[[Any], Any]], _Unary]:
    """Make a declaration the function of NumPy that it stands for."""

    def defined(declaration: Callable[[Any], Any]) -> _Unary:
        @functools.wraps(declaration)
        def applied(input: Any) -> Any:
            return _applied(declaration.__name__, function, fractions=fractions, input=input)

        return applied

    return defined


def _reciprocal_root(value: Any, **how: Any) -> Any:
    return numpy.reciprocal(numpy.sqrt(value, **how))


def _between(value: Any, lo: Any, hi: Any, **how: Any) -> Any:
    return numpy.minimum(numpy.maximum(value, lo, **how), hi, **how)


@_is(numpy.sqrt)
def sqrt(input: Any) -> Any:
    """Take the square root.

    >>> ndd.math.sqrt([1, 4]).tolist()
    [1.0, 2.0]
    """


@_is(_reciprocal_root)
def rsqrt(input: Any) -> Any:
    """Divide 1 by the square root.

    >>> ndd.math.rsqrt([1, 4]).tolist()
    [1.0, 0.5]
    """


@_is(numpy.cbrt)
def cbrt(input: Any) -> Any:
    """Take the cube root.

    >>> ndd.math.cbrt([8, -8]).tolist()
    [2.0, -2.0]
    """


@_is(numpy.exp)
def exp(input: Any) -> Any:
    """Raise e to the power of each element.

    >>> ndd.math.exp([0]).tolist()
    [1.0]
    """


@_is(numpy.log)
def log(input: Any) -> Any:
    """Take the natural logarithm.

    >>> ndd.math.log([1, 0]).tolist()
    [0.0, -inf]
    """


@_is(numpy.log2)
def log2(input: Any) -> Any:
    """Take the logarithm to the base 2.

    >>> ndd.math.log2([8]).tolist()
    [3.0]
    """


@_is(numpy.log10)
def log10(input: Any) -> Any:
    """Take the logarithm to the base 10.

    >>> ndd.math.log10([10]).tolist()
    [1.0]
    """


@_is(numpy.absolute, fractions=False)
def abs(input: Any) -> Any:
    """Take the absolute value, without changing the type; that of the smallest integer is itself.

    >>> ndd.math.abs([-3, 3]).tolist()
    [3, 3]
    """


@_is(numpy.fabs)
def fabs(input: Any) -> Any:
    """Take the absolute value as a float.

    >>> ndd.math.fabs([-3, 3]).tolist()
    [3.0, 3.0]
    """


@_is(numpy.floor)
def floor(input: Any) -> Any:
    """Round down, to a float.

    >>> ndd.math.floor([1.5, -1.5]).tolist()
    [1.0, -2.0]
    """


@_is(numpy.ceil)
def ceil(input: Any) -> Any:
    """Round up, to a float.

    >>> ndd.math.ceil([1.5, -1.5]).tolist()
    [2.0, -1.0]
    """


@_is(numpy.sin)
def sin(input: Any) -> Any:
    """Take the sine of angles in radians.

    >>> ndd.math.sin([0]).tolist()
    [0.0]
    """


@_is(numpy.cos)
def cos(input: Any) -> Any:
    """Take the cosine of angles in radians.

    >>> ndd.math.cos([0]).tolist()
    [1.0]
    """


@_is(numpy.tan)
def tan(input: Any) -> Any:
    """Take the tangent of angles in radians.

    >>> ndd.math.tan([0]).tolist()
    [0.0]
    """


@_is(numpy.arcsin)
def asin(input: Any) -> Any:
    """Take the inverse of the sine, in [-pi/2, pi/2]; NaN outside of [-1, 1].

    >>> ndd.math.asin([0, 2]).tolist()
    [0.0, nan]
    """


@_is(numpy.arccos)
def acos(input: Any) -> Any:
    """Take the inverse of the cosine, in [0, pi]; NaN outside of [-1, 1].

    >>> ndd.math.acos([1, 2]).tolist()
    [0.0, nan]
    """


@_is(numpy.arctan)
def atan(input: Any) -> Any:
    """Take the inverse of the tangent, in [-pi/2, pi/2].

    >>> ndd.math.atan([0]).tolist()
    [0.0]
    """


@_is(numpy.sinh)
def sinh(input: Any) -> Any:
    """Take the hyperbolic sine.

    >>> ndd.math.sinh([0]).tolist()
    [0.0]
    """


@_is(numpy.cosh)
def cosh(input: Any) -> Any:
    """Take the hyperbolic cosine.

    >>> ndd.math.cosh([0]).tolist()
    [1.0]
    """


@_is(numpy.tanh)
def tanh(input: Any) -> Any:
    """Take the hyperbolic tangent.

    >>> ndd.math.tanh([0, 100]).tolist()
    [0.0, 1.0]
    """


@_is(numpy.arcsinh)
def asinh(input: Any) -> Any:
    """Take the inverse of the hyperbolic sine.

    >>> ndd.math.asinh([0]).tolist()
    [0.0]
    """


@_is(numpy.arccosh)
def acosh(input: Any) -> Any:
    """Take the inverse of the hyperbolic cosine; NaN below 1.

    >>> ndd.math.acosh([1, 0]).tolist()
    [0.0, nan]
    """


@_is(numpy.arctanh)
def atanh(input: Any) -> Any:
    """Take the inverse of the hyperbolic tangent; NaN outside of [-1, 1].

    >>> ndd.math.atanh([0, 1]).tolist()
    [0.0, inf]
    """


def min(left: Any, right: Any) -> Tensor | Batch:
    """Take the smaller of two elements; NaN where one of them is.

    >>> ndd.math.min([1, 5], 3).tolist()
    [1, 3]
    """
    return _applied("min", numpy.minimum, fractions=False, left=left, right=right)


def max(left: Any, right: Any) -> Tensor | Batch:
    """Take the larger of two elements; NaN where one of them is.

    >>> ndd.math.max([1, 5], 2.5).tolist()
    [2.5, 5.0]
    """
    return _applied("max", numpy.maximum, fractions=False, left=left, right=right)


def pow(base: Any, exponent: Any) -> Tensor | Batch:
    """Raise to a power, as ``**`` does: integers to an integer.

    Raises:
        ArgumentError: A power of integers is negative.

    >>> ndd.math.pow([2, 3], 3).tolist()
    [8, 27]
    """
    return _applied("pow", lambda a, b, **_: numpy.power(a, b), fractions=False, base=base, exponent=exponent)


def fpow(base: Any, exponent: Any) -> Tensor | Batch:
    """Raise to a power as floats, so that the power of integers may be negative.

    >>> ndd.math.fpow(2, [3, -1]).tolist()
    [8.0, 0.5]
    """
    return _applied("fpow", numpy.power, fractions=True, base=base, exponent=exponent)


def atan2(x: Any, y: Any) -> Tensor | Batch:
    """Find the angle in [-pi, pi] whose tangent is x / y: that of the point with abscissa `y` and ordinate `x`.

    >>> ndd.math.atan2(1, 0).tolist()
    1.5707963705062866
    """
    return _applied("atan2", numpy.arctan2, fractions=True, x=x, y=y)


def clamp(value: Any, lo: Any, hi: Any) -> Tensor | Batch:
    """Limit values to a range: lower ones become `lo`, higher ones `hi`.

    >>> ndd.math.clamp([0, 5, 9], 2, 7).tolist()
    [2, 5, 7]
    """
    return _applied("clamp", _between, fractions=False, value=value, lo=lo, hi=hi)
