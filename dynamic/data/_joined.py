"""Separate samples as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic import _cuda
from dynamic._array import Array, device_of, empty
from dynamic._described import Views
from dynamic._transfer import gathered


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
        hint = "Pass pad=True to fill the smaller ones with zeros."
        raise ValueError(f"The samples have different shapes: {told}. {hint}")
    if isinstance(samples, Views) or not isinstance(samples[0], numpy.ndarray):
        return _on_gpu(samples, (len(samples), *extents), dtype)
    out = empty((len(samples), *extents), dtype)
    for target, sample in zip(out, samples, strict=True) if ndim else ():
        if sample.shape != extents:
            target[...] = 0
        target[tuple(map(_up_to, sample.shape))] = sample
    if not ndim:
        out[...] = numpy.stack(samples)
    return out


def _on_gpu(samples: Sequence[Array], shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> Array:
    device_id = samples.device_id if isinstance(samples, Views) else device_of(samples[0]).device_id
    with _cuda.working(device_id):
        out = _cuda.cupy().empty(shape, dtype)
        gathered(samples, out)
    return out


def _up_to(extent: int) -> slice:
    return slice(0, extent)
