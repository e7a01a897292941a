"""Operators and NumPy's universal functions on arrays: with DALI's promotion, and NumPy's rules for all else.

`evaluate` is the one entry: Tensors and Batches get their operators from NumPy's `NDArrayOperatorsMixin`, which calls a
ufunc for each, and hand the arrays on to here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import (
    SUPPORTED,
    Array,
    apart,
    are_small,
    current,
    device_of,
    from_numbers,
    library,
    values_of,
)
from dynamic._arrays.described import Views, apart_on_gpu, described
from dynamic._arrays.memory import empty
from dynamic._base import pool
from dynamic.devices import Device
from dynamic.dtypes import promote
from dynamic.errors import ArgumentError, DeviceError, shown

from ._transfer import gathered, moved

__all__ = ["evaluate", "evaluate_each", "operand", "spoken", "together"]

_LARGE = 1 << 16  # bytes; from so many on the memory of results is used again
_SHARED = 1 << 20  # bytes; from so many on threads share a result
_LONG = 32  # extents that are shared out about evenly
_SHORT = 64  # extents of dimensions along which NumPy should not go
_FEWER = 8  # times as few elements as a result has; an operand may be repeated to so many
_BUFFER = 1 << 10  # elements that NumPy converts at once: with their results they stay in the innermost cache

_BOOL, _FLOAT32 = numpy.dtype("bool"), numpy.dtype("float32")
_LARGEST = float(numpy.finfo(numpy.float32).max)

_SHAPED = "of a shape that broadcasts with the other's"
_SYMBOLS: dict[Any, str] = {
    numpy.add: "+",
    numpy.subtract: "-",
    numpy.multiply: "*",
    numpy.divide: "/",
    numpy.floor_divide: "//",
    numpy.remainder: "%",
    numpy.power: "**",
    numpy.left_shift: "<<",
    numpy.right_shift: ">>",
    numpy.bitwise_and: "&",
    numpy.bitwise_or: "|",
    numpy.bitwise_xor: "^",
}
_BITWISE = (numpy.bitwise_and, numpy.bitwise_or, numpy.bitwise_xor)
_SHIFTS = (numpy.left_shift, numpy.right_shift)
_WHOLE_DIVISIONS = (numpy.floor_divide, numpy.remainder, numpy.divmod)
_LOOKING = (*_WHOLE_DIVISIONS, numpy.power, numpy.positive)  # functions that look at values too, not only at types


def spoken(ufunc: numpy.ufunc) -> str:
    """The name of a function in errors: its symbol where it has one."""
    return _SYMBOLS.get(ufunc, ufunc.__name__)


def operand(value: Any) -> Array | None:
    """An operand that is neither Tensor nor Batch as an array, or None where it is nothing to calculate with."""
    kind = type(value)
    if kind is bool:
        return numpy.bool_(value)
    if kind is float and -_LARGEST <= value <= _LARGEST:
        return numpy.float32(value)
    if kind is int and -(2**31) <= value < 2**31:
        return numpy.int32(value)
    if isinstance(value, (int, float, list, tuple)) and not isinstance(value, numpy.generic):
        return from_numbers(value, "arithmetic", "operand")
    return None


def together(values: Sequence[Any], arrays: list[Array]) -> list[Array]:
    """Operands on one device: single numbers and lists go where the others are.

    Args:
        values: The operands as the caller gave them.
        arrays: The same as arrays.

    Raises:
        DeviceError: Arrays of different devices meet.
    """
    if _first_on_gpu(arrays) is None:
        return arrays
    fixed = {
        device_of(array)
        for value, array in zip(values, arrays, strict=True)
        if array.ndim and not isinstance(value, (list, tuple))
    }
    if len(fixed) > 1:
        raise DeviceError(f"Operands are on {' and '.join(sorted(map(str, fixed)))}; move them to one device first.")
    there = fixed.pop() if fixed else device_of(_first_on_gpu(arrays))
    return [_brought(array, there) for array in arrays]


def _brought(array: Array, device: Device) -> Array:
    if isinstance(array, numpy.generic) or device_of(array) == device:
        return array
    return moved(array, device) if array.ndim else moved(array, Device.CPU)[()]


def _first_on_gpu(arrays: Sequence[Array]) -> Array | None:
    for array in arrays:
        if not isinstance(array, (numpy.ndarray, numpy.generic)):
            return array
    return None


def evaluate(ufunc: numpy.ufunc, arrays: Sequence[Array], arguments: dict[str, Any], *, threads: bool = True) -> Any:
    """`ufunc` of the arrays: promoted as DALI does where it is an operator, by NumPy's rules where it is not.

    Overflow wraps or becomes infinite and 0/0 becomes NaN without a warning, as in DALI. Integers are divided, and
    their remainder taken, rounding towards negative infinity, as in Python.

    Args:
        ufunc: A function of NumPy; for arrays of CuPy theirs of the same name is called.
        arrays: Its operands.
        arguments: Its other arguments; with any, all is left to NumPy.
        threads: Whether several threads may share a large result.

    Raises:
        ArgumentError: The shapes do not broadcast, or the operator is not defined for such types or values.
        ZeroDivisionError: Integers are divided by 0.
    """
    if arguments.get("where", True) is not True:
        hint = "The elements that it leaves out would have any value; use numpy.where."
        raise ArgumentError(spoken(ufunc), "where", "left out unless out= is given", shown(arguments["where"]), hint)
    try:
        result = _result(ufunc, arrays, arguments, threads)
        for part in result if isinstance(result, tuple) else (result,):
            _check_kind(ufunc, getattr(part, "dtype", None))
        return result
    except ArgumentError:
        raise
    except TypeError as error:
        if arguments:
            raise
        got = " and ".join(str(array.dtype) for array in arrays)
        raise ArgumentError(spoken(ufunc), "operand", "of a type that it is defined for", got) from error
    except ValueError:
        shapes = [tuple(array.shape) for array in arrays]
        of_matrices = ufunc.signature is not None
        if arguments if of_matrices else _broadcast(shapes):
            raise
        expected = f"of shapes that fit {ufunc.signature}" if of_matrices else _SHAPED
        got = f"shapes {' and '.join(map(str, shapes))}"
        raise ArgumentError(spoken(ufunc), "operand", expected, got) from None


def _check_kind(ufunc: numpy.ufunc, kind: numpy.dtype[Any] | None) -> None:
    if kind not in SUPPORTED:
        hint = "An array of NumPy, as numpy.asarray(x) makes it, may have any."
        raise ArgumentError(spoken(ufunc), "dtype", "an element type of Tensors", str(kind or "a Python object"), hint)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        numpy.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _result(ufunc: numpy.ufunc, arrays: Sequence[Array], arguments: dict[str, Any], threads: bool) -> Any:
    """As `evaluate`, with NumPy's words where shapes do not broadcast."""
    on_gpu = _first_on_gpu(arrays)
    if on_gpu is not None:
        return _on_gpu(ufunc, arrays, arguments, on_gpu)
    with numpy.errstate(all="ignore"):
        if ufunc is numpy.positive and arrays[0].dtype == _BOOL:
            return arrays[0].copy()
        if not arguments:
            arrays, arguments = _prepared(ufunc, arrays)
        if max(a.nbytes for a in arrays) >= _LARGE and ufunc.nout == 1 and ufunc.signature is None:
            return _in_parts(ufunc, arrays, arguments, threads)
        return ufunc(*arrays, **arguments)


def evaluate_each(
    ufunc: numpy.ufunc, operands: Sequence[Array | Sequence[Array]], n: int, arguments: dict[str, Any]
) -> list[Array | Sequence[Array]]:
    """`evaluate` for each of n samples: for each output of the function an (n, ...) array, or a sequence of arrays.

    Args:
        ufunc: As for `evaluate`.
        operands: For each of them the arrays of all samples, or one array for all.
        n: Number of samples.
        arguments: As for `evaluate`.
    """
    columns: list[Sequence[Array]] = [x if isinstance(x, Sequence) else [x] * n for x in operands]
    first = [column[0] for column in columns]
    on_gpu = _first_on_gpu(first) is not None
    if not arguments and ufunc.signature is None:
        if on_gpu:
            found: Any = _of_joined(ufunc, operands)
        else:
            found = _of_alike(ufunc, operands, n) or _of_values(ufunc, operands)
        if found is not None:
            return list(found)
    results: list[Any] = [None] * n

    def one(i: int) -> None:
        try:
            arrays = [column[i] for column in columns]
            result = evaluate(ufunc, together(arrays, arrays), arguments, threads=False)
        except Exception as error:
            error.add_note(f"In {ufunc.__name__}, sample {i} of {n}.")
            raise
        results[i] = result if isinstance(result, tuple) else (result,)

    pool.run(one, n, 0 if on_gpu else n * sum(int(array.nbytes) for array in first))
    return [[numpy.asarray(a) if isinstance(a, numpy.generic) else a for a in p] for p in zip(*results, strict=True)]


def _of_alike(
    ufunc: numpy.ufunc, operands: Sequence[Array | Sequence[Array]], n: int
) -> list[Array | list[Array]] | None:
    """The same for samples that all have one shape, with nothing but the function between one and the next.

    None for others, for functions that look at values or convert operands, and where it fails.
    """
    columns = [operand for operand in operands if isinstance(operand, Sequence)]
    if ufunc in _LOOKING or ufunc.nout > 1 or any(len({array.shape for array in column}) > 1 for column in columns):
        return None
    first = [operand[0] if isinstance(operand, Sequence) else operand for operand in operands]
    try:
        arrays, arguments = _prepared(ufunc, first)
        shape, kind = _shape(first), _kind(ufunc, *(a.dtype for a in first), wanted=arguments.get("dtype"))
    except (ArgumentError, ValueError, TypeError):
        return None
    if any(array is not given for array, given in zip(arrays, first, strict=True)):
        return None
    out = empty((n, *shape), kind)
    columns = [
        [_with_long_rows(array, shape) for array in operand]
        if isinstance(operand, Sequence)
        else [_with_long_rows(operand, shape)] * n
        for operand in operands
    ]

    def some(part: slice) -> None:
        with numpy.errstate(all="ignore"):
            numpy.setbufsize(_BUFFER)
            for i in range(part.start, part.stop):
                ufunc(*(column[i] for column in columns), out=out[i, ...], **arguments)

    pool.run_parts(some, n, out.nbytes + n * sum(int(a.nbytes) for a in first))
    return [out]


def _of_values(ufunc: numpy.ufunc, operands: Sequence[Array | Sequence[Array]]) -> list[Array | list[Array]] | None:
    """The same for small samples that are alike in all operands, beside single numbers: of all their values at once.

    None for others, and where it fails: an error names the sample where they are calculated one by one.
    """
    columns = [operand for operand in operands if isinstance(operand, Sequence)]
    shapes = [array.shape for array in columns[0]]
    if any(operand.ndim for operand in operands if not isinstance(operand, Sequence)):
        return None
    if not all(are_small(column) and [array.shape for array in column] == shapes for column in columns):
        return None
    values = [values_of(operand) if isinstance(operand, Sequence) else operand for operand in operands]
    try:
        result = evaluate(ufunc, values, {})
    except (ArgumentError, ZeroDivisionError):
        return None
    return [apart(part, shapes) for part in (result if isinstance(result, tuple) else (result,))]


def _of_joined(ufunc: numpy.ufunc, operands: Sequence[Array | Sequence[Array]]) -> list[Views] | None:
    """The same for samples on a GPU that are alike in all operands, beside numbers and arrays of their last dimensions.

    They are copied into one array: a launch for each would take longer. None for others, and where it fails.
    """
    columns = [operand for operand in operands if isinstance(operand, Sequence)]
    places = {None if isinstance(column[0], numpy.ndarray) else device_of(column[0]).device_id for column in columns}
    tables = [described(column) for column in columns]
    shapes, ndim = tables[0].shapes, tables[0].ndim
    if None in places or len(places) > 1 or any(not numpy.array_equal(table.shapes, shapes) for table in tables):
        return None
    others = [operand for operand in operands if not isinstance(operand, Sequence)]
    depth = max((operand.ndim for operand in others), default=0)
    last = tuple(shapes[0, ndim - depth :].tolist()) if depth <= ndim else ()
    if depth > ndim or (shapes[:, ndim - depth :] != last).any() or not shapes.prod(axis=1).all():
        return None
    both = [last, *(operand.shape for operand in others)]
    if not _broadcast(both) or numpy.broadcast_shapes(*both) != last:
        return None
    try:
        with cuda.working(places.pop()):
            arrays = [_joined(x, shapes).reshape(-1, *last) if isinstance(x, Sequence) else x for x in operands]
            result = evaluate(ufunc, together(arrays, arrays), {})
    except (ArgumentError, DeviceError, ZeroDivisionError):
        return None
    return [apart_on_gpu(part, shapes) for part in (result if isinstance(result, tuple) else (result,))]


def _joined(samples: Sequence[Array], shapes: Any) -> Array:
    """The elements of samples on the current GPU, one after the other."""
    whole = cuda.cupy().empty(int(shapes.prod(axis=1).sum()), samples[0].dtype)
    gathered(samples, apart_on_gpu(whole, shapes))
    return whole


def _on_gpu(ufunc: numpy.ufunc, arrays: Sequence[Array], arguments: dict[str, Any], one: Array) -> Any:
    """`evaluate` for arrays of CuPy, which has most of NumPy's functions."""
    function = getattr(library(one), ufunc.__name__, None)
    if function is None:
        hint = "Move it with .cpu()."
        raise ArgumentError(ufunc.__name__, "operand", "on the CPU: CuPy has no such function", "data on a GPU", hint)
    with current(device_of(one)):
        if ufunc is numpy.positive and arrays[0].dtype == _BOOL:
            return arrays[0].copy()
        if not arguments:
            arrays, arguments = _prepared(ufunc, arrays)
        if not arguments:  # CuPy has loops for types that NumPy has none for, such as the sign of a bool
            ufunc.resolve_dtypes((*(array.dtype for array in arrays), *[None] * ufunc.nout))
        return function(*arrays, **arguments)


def _prepared(ufunc: numpy.ufunc, arrays: Sequence[Array]) -> tuple[Sequence[Array], dict[str, Any]]:
    """The operands as `ufunc` takes them, and its arguments."""
    if ufunc in _SYMBOLS or ufunc is numpy.divmod:
        common = _common(ufunc, *arrays)
        return (arrays, {"dtype": common}) if ufunc.nout == 1 else ([a.astype(common) for a in arrays], {})
    if ufunc in (numpy.negative, numpy.absolute) and arrays[0].dtype == _BOOL:
        hint = "Use ~, or make it a number with cast()."
        raise ArgumentError(ufunc.__name__, "operand", "a number", "a bool", hint)
    return [
        a.astype(_FLOAT32) if a.dtype.kind != "f" and _takes_floats(ufunc, i) else a for i, a in enumerate(arrays)
    ], {}


def _common(ufunc: Any, a: Array, b: Array) -> numpy.dtype[Any]:
    """The dtype that an operator calculates in."""
    common = promote(a.dtype, b.dtype)
    if common == _BOOL and not (ufunc in _BITWISE or ufunc is numpy.multiply):
        hint = "Use & | ^, or make one of them a number with cast()."
        raise ArgumentError(spoken(ufunc), "operand", "a number beside a bool", "two bools", hint)
    if common.kind == "f":
        if ufunc in _BITWISE or ufunc in _SHIFTS:
            raise ArgumentError(_SYMBOLS[ufunc], "operand", "integers or bools", f"{a.dtype} and {b.dtype}")
    elif ufunc is numpy.divide:
        return _FLOAT32
    elif ufunc in _WHOLE_DIVISIONS:
        if not (b != 0).all():
            raise ZeroDivisionError("integer division or modulo by zero")
    elif ufunc is numpy.power and (b.astype(common, copy=False) < 0).any():
        hint = "Make the base a float: a negative power of an integer is a fraction."
        if b.dtype.kind == "u":
            raise ArgumentError("**", "exponent", f"at most {2**63 - 1} beside int64", str(int(b.max())))
        raise ArgumentError("**", "exponent", "0 or more for integers", str(int(b.min())), hint)
    return common


def _in_parts(ufunc: Any, arrays: Sequence[Array], arguments: dict[str, Any], threads: bool) -> Array:
    """A large result, in recycled memory: for each thread a part of the first dimension that is long enough."""
    if not arguments.keys() <= {"dtype", "casting"}:
        return ufunc(*arrays, **arguments)
    shape = _shape(arrays)
    out = empty(shape, _kind(ufunc, *(a.dtype for a in arrays), wanted=arguments.get("dtype")))
    arrays = [_with_long_rows(a, shape) for a in arrays]

    def some(parts: Sequence[Array], there: Array) -> None:
        with numpy.errstate(all="ignore"):  # which puts the size of buffers back too
            numpy.setbufsize(_BUFFER)
            ufunc(*parts, out=there, **arguments)

    if not threads or out.nbytes < _SHARED:
        some(arrays, out)
        return out
    arrays = [numpy.broadcast_to(a, shape) for a in arrays]
    longest = max(range(len(shape)), key=shape.__getitem__)
    axis = next((axis for axis, extent in enumerate(shape) if extent >= _LONG), longest)
    before = (slice(None),) * axis
    work = out.nbytes + sum(a.nbytes for a in arrays)
    pool.run_parts(lambda p: some([a[(*before, p)] for a in arrays], out[(*before, p)]), shape[axis], work)
    return out


def _with_long_rows(array: Array, shape: Sequence[int]) -> Array:
    """An operand that differs along a short last dimension, and not along the one before, repeated along that.

    NumPy goes through arrays in rows along which none of them begins anew: beside three colours they are short.
    """
    if not array.ndim or len(shape) < 2 or not 1 < array.shape[-1] == shape[-1] < _SHORT or shape[-2] == 1:
        return array
    if array.ndim > 1 and (array.shape[-2] > 1 or array.size * shape[-2] * _FEWER > math.prod(shape)):
        return array
    return numpy.ascontiguousarray(numpy.broadcast_to(array, (*array.shape[:-2], *shape[-2:])))


def _shape(arrays: Sequence[Array]) -> tuple[int, ...]:
    """The shape that arrays broadcast to; mostly they are alike, or one is a number."""
    shapes = {a.shape for a in arrays if a.ndim}
    return shapes.pop() if len(shapes) == 1 else numpy.broadcast_shapes(*shapes)


@functools.lru_cache(maxsize=1024)
def _kind(ufunc: numpy.ufunc, *kinds: numpy.dtype[Any], wanted: Any) -> numpy.dtype[Any]:
    """The dtype of the result of a function of such arrays."""
    signature = (*(None for _ in kinds), wanted)
    found: numpy.dtype[Any] = ufunc.resolve_dtypes((*kinds, None), casting="unsafe", signature=signature)[-1]
    _check_kind(ufunc, found)
    return found


@functools.lru_cache(maxsize=256)
def _takes_floats(ufunc: Any, place: int) -> bool:
    """Whether no loop of a function has integers as an operand (sqrt, exp, ...); they are float32 then, DALI's rule."""
    return not any(signature[place] in "bBhHiIlLqQ?" for signature in ufunc.types)
