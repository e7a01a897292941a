"""Random numbers on a GPU: the words of a `Draw`, and the distributions, bit for bit as on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic.kernels.gpu._launch import code, launch, table

from ._distributions import wide
from ._philox import ELEMENT_STRIDE, Draw

__all__ = ["coin_flip", "normal", "picked", "uniform"]

_NUMBERS = 1024  # of a block
_SAMPLE = numpy.dtype([("high", "u8"), ("target", "u8"), ("size", "u8"), ("a", "f8"), ("b", "f8"), ("c", "f8")])


def uniform(draw: Draw, sizes: Any, target: int, limits: tuple[Any, Any, Any], dtype: numpy.dtype[Any]) -> None:
    """Draw numbers of a range.

    Args:
        draw: Where the words lie.
        sizes: How many numbers each sample has, or all of them.
        target: The address of the numbers, one sample's behind those of the other.
        limits: The result of `_distributions.uniform_limits`, for all samples or for each.
        dtype: Of the numbers; they are computed in float32 or float64, and converted.
    """
    low, scale, top = limits
    _launch(f"uniform_{2 if wide(dtype) else 1}", draw, sizes, target, dtype, (low, scale, top))


def normal(draw: Draw, sizes: Any, target: int, mean: Any, stddev: Any, dtype: numpy.dtype[Any]) -> None:
    """Draw numbers with the normal distribution; arguments as for `uniform`."""
    _launch(f"normal_{4 if wide(dtype) else 2}", draw, sizes, target, dtype, (mean, stddev))


def coin_flip(draw: Draw, sizes: Any, target: int, threshold: Any, dtype: numpy.dtype[Any]) -> None:
    """Draw whether words are below thresholds, 1 or 0; other arguments as for `uniform`."""
    _launch("coin", draw, sizes, target, dtype, (threshold,))


def picked(draw: Draw, sizes: Any, target: int, values: NDArray[Any], first: Any, counts: Any) -> None:
    """Draw elements of an array, each as likely as any other.

    Args:
        draw: Where the words lie.
        sizes: As for `uniform`.
        target: As for `uniform`.
        values: The array, of one dimension and the type of the result.
        first: For each sample, or for all, where the elements begin that are its own.
        counts: How many these are.
    """
    bits = values.view(f"u{values.dtype.itemsize}").astype(numpy.uint64)
    _launch("pick", draw, sizes, target, values.dtype, (first, 0.0, counts), [bits])


def _launch(
    kernel: str,
    draw: Draw,
    sizes: Any,
    target: int,
    dtype: numpy.dtype[Any],
    numbers: Sequence[Any],
    sections: Sequence[NDArray[Any]] = (),
) -> None:
    high = numpy.asarray(draw.high, numpy.uint64)
    size = numpy.broadcast_to(numpy.asarray(sizes, numpy.int64), high.shape)
    rows = table(_SAMPLE, len(high), high=high, size=size, target=target + (numpy.cumsum(size) - size) * dtype.itemsize)
    for name, values in zip("abc", numbers, strict=False):
        rows[name] = values
    scalars = (
        numpy.uint64(draw.key),
        numpy.uint64(draw.low),
        numpy.uint32(draw.phase),
        numpy.uint32(ELEMENT_STRIDE),
        code(dtype),
    )
    launch("random", kernel, -(-size // _NUMBERS), [rows, *sections], scalars)
