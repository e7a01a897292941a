"""Going through two arrays part by part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from dynamic._array import Array

__all__ = ["strips"]

_MOST = 1 << 24  # what OpenCV takes as one row


def strips(image: Array, out: Array, size: int = _MOST, channels: int | None = None) -> Iterator[tuple[Array, Array]]:
    """Parts of two arrays, each contiguous, of so many elements; of so many pixels in one row where channels are told.

    Where `out` is not contiguous, what was written to a part is copied to it once the next one is asked for.

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
