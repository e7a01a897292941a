"""Going through two arrays part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy

from dynamic._arrays.array import Array
from dynamic._base import pool

__all__ = ["shared", "strips"]

_MOST = 1 << 24  # the longest row of OpenCV
_STEP = 1 << 14  # parts begin at its multiples: there the vectors of OpenCV begin as in the whole


def shared(function: Callable[[Array, Array], None], image: Array, out: Array, *, pixels: bool = False) -> None:
    """Call a function for parts of two arrays, in as many threads as there are where they are large.

    Args:
        function: Called with a part of `image` and the part of `out` that it fills, each in one row.
        image: Any array.
        out: Another of as many elements, or pixels.
        pixels: Whether the last dimension are channels, which stay together; else elements are shared out.
    """
    work = image.nbytes + out.nbytes
    if work < pool.WORTH_SPLITTING or not (image.flags.c_contiguous and out.flags.c_contiguous):
        function(image, out)
        return
    flat, results = (x.reshape((-1, x.shape[-1]) if pixels else -1) for x in (image, out))
    pool.split(lambda part: function(flat[part], results[part]), len(flat), work, _STEP)


def strips(image: Array, out: Array, size: int = _MOST, channels: int | None = None) -> Iterator[tuple[Array, Array]]:
    """Parts of two arrays, each contiguous, of so many elements; of so many pixels in one row where channels are told.

    Where `out` is not contiguous, a part is copied to it once the next one is asked for.

    Args:
        image: Any array, with its channels last.
        out: Another of as many elements, or pixels.
        size: Elements, or pixels, of a part.
        channels: Of `out`.
    """
    if image.ndim > 3 and not (image.flags.c_contiguous and out.flags.c_contiguous):
        for one, there in zip(image, out, strict=True):
            yield from strips(one, there, size, channels)
        return
    results = out if out.flags.c_contiguous else numpy.empty(out.shape, out.dtype)
    image = numpy.ascontiguousarray(image)
    if channels is None:
        flat, flat_results = image.reshape(-1), results.reshape(-1)
    else:
        flat, flat_results = image.reshape(-1, image.shape[-1]), results.reshape(-1, channels)
    for start in range(0, len(flat), size):
        part, there = flat[start : start + size], flat_results[start : start + size]
        yield (part, there) if channels is None else (part[None], there[None])
    if results is not out:
        out[...] = results
