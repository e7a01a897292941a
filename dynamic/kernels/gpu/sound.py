"""Sound in functions of arrays, for CuPy: each does the same as the one of its name in `kernels.cpu.sound`."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynamic._arrays.array import Array, library
from dynamic.kernels.cpu.sound import Bands, lobes_of, mirrored, tables

__all__ = ["decibels", "emphasised", "filtered", "frames", "resampled", "spectra"]

_FLOAT32 = numpy.dtype("float32")


@numpy.errstate(all="ignore")
def frames(signal: Array, before: int, length: int, step: int, count: int, *, mirror: bool) -> Array:
    """So many windows of a signal, one a row; the first begins before it."""
    xp, flat = library(signal), signal.reshape(-1)
    starts = xp.arange(count, dtype=numpy.int64).reshape(-1, 1) * step - before
    places = starts + xp.arange(length, dtype=numpy.int64)
    size = len(flat)
    found = flat[mirrored(places, size)].astype(_FLOAT32)
    return found if mirror else xp.where((places >= 0) & (places < size), found, _FLOAT32.type(0))


@numpy.errstate(all="ignore")
def spectra(frames: Array, window: Any, nfft: int, power: int, out: Array) -> None:
    """The magnitudes of the spectra of frames, or their squares."""
    xp, rows = library(out), frames.astype(_FLOAT32)
    if window is not None:
        rows = rows * xp.asarray(window)
    found = xp.abs(xp.fft.rfft(rows, nfft))
    out[...] = (found if power == 1 else xp.square(found)).T


@numpy.errstate(all="ignore")
def filtered(bands: Bands, values: Array, axis: int, out: Array) -> None:
    """A matrix times the vectors along a dimension."""
    if not values.size:
        out[...] = 0
        return
    matrix = numpy.zeros((out.shape[axis], values.shape[axis]), _FLOAT32)
    for rows, columns, block in bands:
        matrix[rows, columns] = block
    before, xp = math.prod(values.shape[:axis]), library(out)
    source = values.astype(_FLOAT32).reshape(before, values.shape[axis], -1)
    out[...] = xp.matmul(xp.asarray(matrix), source).reshape(out.shape)


@numpy.errstate(all="ignore")
def decibels(values: Array, multiplier: float, reference: float, cutoff: float, out: Array) -> None:
    """Magnitudes as decibels."""
    if not values.size:
        return
    xp, real = library(out), values.astype(_FLOAT32)
    largest = reference or float(xp.where(xp.isnan(real), _FLOAT32.type(-numpy.inf), real).max())
    scaled = real * _FLOAT32.type(1 / largest if largest > 0 or reference else 1)
    found = xp.log(scaled) * _FLOAT32.type(multiplier / math.log(10))
    out[...] = (xp.fmax if multiplier > 0 else xp.fmin)(found, _FLOAT32.type(cutoff))


@numpy.errstate(all="ignore")
def emphasised(signal: Array, coefficient: float, border: str, out: Array) -> None:
    """Each value less a part of the one before."""
    if not signal.size:
        return
    flat, target, kind = signal.astype(out.dtype).reshape(-1), out.reshape(-1), out.dtype.type
    target[...] = flat
    target[1:] -= kind(coefficient) * flat[:-1]
    place = {"zero": len(flat), "clamp": 0, "reflect": 1}[border]
    if place < len(flat):
        target[:1] -= kind(coefficient) * flat[place : place + 1]


@numpy.errstate(all="ignore")
def resampled(signal: Array, step: float, quality: float, out: Array) -> None:
    """Values of a signal between which there is a step."""
    if not out.size:
        return
    xp, (weights, changes), lobes = library(out), tables(lobes_of(quality)), lobes_of(quality)
    places = xp.arange(len(out), dtype=numpy.float64) * step
    first = xp.floor(places)
    distances = weights.shape[0] * (1 - (places - first))
    rows = xp.minimum(distances.astype(numpy.int64), weights.shape[0] - 1)
    parts = (distances - rows).astype(_FLOAT32).reshape(-1, 1)
    taps = xp.asarray(weights)[rows] + parts * xp.asarray(changes)[rows]
    neighbours = first.astype(numpy.int64).reshape(-1, 1) + xp.arange(1 - lobes, weights.shape[1] + 1 - lobes)
    taps = xp.where((neighbours >= 0) & (neighbours < len(signal)), taps, _FLOAT32.type(0))
    values = signal.astype(_FLOAT32).reshape(len(signal), -1)
    neighbours = xp.clip(neighbours, 0, len(signal) - 1)
    result = out.reshape(len(out), -1)
    for channel in range(result.shape[1]):
        result[:, channel] = (values[:, channel][neighbours] * taps).sum(axis=1)
