"""Separate samples as one array, and functions of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic import _core
from dynamic._arrays import cuda
from dynamic._arrays.array import SMALL, Array, device_of, stacked
from dynamic._arrays.described import Views
from dynamic._arrays.memory import empty
from dynamic._core.described import described as read
from dynamic._core.pixels import copied
from dynamic.errors import ArgumentError

from ._arithmetic import evaluate, evaluate_each, together
from ._operators import Data
from ._transfer import gathered, moved


def joined(
    samples: Sequence[Array], shapes: list[tuple[int, ...]], dtype: numpy.dtype[Any], ndim: int, *, pad: bool
) -> Array:
    """One (N, ...) array of separate samples, each at the beginning of every dimension, and zeros behind it."""
    if not shapes:
        return numpy.empty((0,) * (1 + ndim), dtype)
    extents = tuple(map(max, zip(*shapes, strict=True)))
    if len(set(shapes)) > 1 and not pad:
        i = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
        told = f"sample 0 has {shapes[0]}, sample {i} has {shapes[i]}"
        hint = "pad=True, as in batch.numpy(pad=True), fills the smaller ones with zeros."
        raise ValueError(f"The samples have different shapes: {told}. {hint}")
    if isinstance(samples, Views) or not isinstance(samples[0], numpy.ndarray):
        return _on_gpu(samples, (len(samples), *extents), dtype)
    out = empty((len(samples), *extents), dtype)
    if len(samples) >= _MANY and ndim and _core.in_use() and _joined_natively(samples, out):
        return out
    for target, sample in zip(out, samples, strict=True) if ndim else ():
        if sample.shape != extents:
            target[...] = 0
        target[tuple(map(_up_to, sample.shape))] = sample
    if not ndim:
        out[...] = numpy.stack(samples)
    return out


_MANY = 16  # samples from which on a native call is faster


def _joined_natively(samples: Sequence[Array], out: Array) -> bool:
    source, target = read(samples), read(out)
    if source is None or target is None or source.dtype != out.dtype:
        return False
    begin, zero = numpy.zeros((1, source.ndim), numpy.int64), numpy.zeros((1, 1), out.dtype)
    return copied(source, target, 2 * out.nbytes, begin, zero)


def _on_gpu(samples: Sequence[Array], shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> Array:
    device_id = samples.device_id if isinstance(samples, Views) else device_of(samples[0]).device_id
    with cuda.working(device_id):
        out = cuda.cupy().empty(shape, dtype)
        gathered(samples, out)
    return out


def _up_to(extent: int) -> slice:
    return slice(0, extent)


def evaluated(ufunc: Any, operands: Sequence[Any], n: int, kwargs: dict[str, Any]) -> list[Array | Sequence[Array]]:
    """For each output of the ufunc one (n, ...) array, or a sequence of arrays."""
    of_matrices = ufunc.signature is not None  # whose last dimensions are not broadcast as others are
    if of_matrices and not n:
        return _of_nothing(ufunc, operands, kwargs)
    wholes = [as_one(x) if isinstance(x, Data) else x for x in operands]
    if not of_matrices and all(whole is not None for whole in wholes):
        ndim = max(x.ndim for x in operands)
        both = zip(operands, wholes, strict=True)
        arrays = [_aligned(whole, ndim) if isinstance(x, Data) else x for x, whole in both]
        try:
            result = evaluate(ufunc, together(operands, arrays), kwargs)
            return list(result) if isinstance(result, tuple) else [result]
        except (ArgumentError, ZeroDivisionError):
            if not n:  # others are calculated one by one, for an error that names the sample
                raise
    columns: list[Any] = [getattr(x, "samples", x) for x in operands]
    return list(evaluate_each(ufunc, columns, n, kwargs))


def _of_nothing(ufunc: Any, operands: Sequence[Any], kwargs: dict[str, Any]) -> list[Array]:
    """The result of a function of matrices for empty Batches: as many dimensions as for samples of one element."""
    device = next(x.device for x in operands if isinstance(x, Data))
    single = [numpy.ones((1,) * x.ndim, x._numpy_dtype if isinstance(x, Data) else x.dtype) for x in operands]
    result = evaluate(ufunc, single, kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    return [moved(numpy.empty((0,) * (1 + part.ndim), part.dtype), device) for part in parts]


def as_one(batch: Any, most: int = SMALL) -> Array | None:
    """The samples of a Batch as one array, where they are one or there are none, or alike and small on the CPU.

    Args:
        batch: The Batch.
        most: Bytes of a sample that is small.
    """
    if batch.whole is None and not len(batch):
        return numpy.empty((0, *(1,) * batch.ndim), batch._numpy_dtype)
    return stacked(batch.samples, most) if batch.whole is None and batch._ready is None else batch.whole


def _aligned(whole: Array, ndim: int) -> Array:
    """The whole of a Batch with extents of 1 put in, so that samples are broadcast to `ndim` dimensions."""
    missing = ndim + 1 - whole.ndim
    return whole.reshape(len(whole), *(1,) * missing, *whole.shape[1:]) if missing else whole
