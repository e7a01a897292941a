"""Sound on the CPU: spectra, filter banks, decibels, resampling and silence.

OpenCV transforms frames in a fraction of NumPy's time; sizes that it has no fast form for are left to NumPy. Frames
are transformed a fixed number at once, so a sample has the same bits alone and in a batch.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import cv2
import numpy
from numpy.typing import NDArray

from dynamic import _core
from dynamic._arrays.array import Array
from dynamic._core import sound as native

from .resample import product

__all__ = [
    "Bank",
    "banked",
    "cosines",
    "decibels",
    "emphasised",
    "filtered",
    "frames_of",
    "half_range",
    "hann",
    "lobes_of",
    "loud",
    "mel_bank",
    "mirrored",
    "padded",
    "powers",
    "ranged",
    "resampled",
    "spectra",
    "summed",
    "tables",
    "weighted",
    "windowed",
]

Floats: TypeAlias = NDArray[numpy.float32]

_FLOAT32 = numpy.dtype(numpy.float32)
_ROWS = 1 << 18  # values of the frames that are transformed at once
_RESOLUTION = 32  # weights of a sinc for each step between two values
_LANES = 8  # sums that a weighted sum is made of, as `_core/sound.c` has them
_OUTPUTS = 1 << 12  # resampled values that are made at once


# -- spectra -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(32)
def hann(length: int) -> Floats:
    """A Hann window, sampled in the middle of each step as DALI has it."""
    found = (0.5 - 0.5 * numpy.cos(2 * numpy.pi * (numpy.arange(length) + 0.5) / length)).astype(_FLOAT32)
    found.flags.writeable = False
    return found


def frames_of(count: int, length: int, step: int, *, centred: bool) -> int:
    """The number of windows in a signal: of centred ones one begins at each step; others lie inside of it."""
    return count // step + 1 if centred else max(0, int((count - length) / step) + 1)


def mirrored(places: Any, count: int) -> Any:
    """Places beyond a signal, which is mirrored at its first and last value again and again."""
    if count == 1:
        return places * 0
    turned = abs(places) % (2 * count - 2)
    return turned + (turned >= count) * (2 * (count - 1 - turned))


@numpy.errstate(all="ignore")
def padded(signal: Floats, before: int, after: int, *, mirror: bool) -> Floats:
    """A signal with more values at both ends: those of the signal, mirrored, or zeros."""
    count = len(signal)
    found = numpy.empty(before + count + after, _FLOAT32)
    found[before : before + count] = signal
    if not mirror:
        found[:before], found[before + count :] = 0, 0
    elif count > max(before, after):
        found[:before] = signal[before:0:-1]
        found[before + count :] = signal[-2 : -2 - after : -1] if after else 0
    else:
        found[:before] = signal[mirrored(numpy.arange(-before, 0), count)]
        found[before + count :] = signal[mirrored(numpy.arange(count, count + after), count)]
    return found


def windowed(signal: Floats, length: int, step: int) -> Floats:
    """A view of all windows of a signal, one a row."""
    shape = ((len(signal) - length) // step + 1, length)
    return numpy.lib.stride_tricks.as_strided(signal, shape, (step * signal.strides[0], signal.strides[0]))


@numpy.errstate(all="ignore")
def spectra(frames: Array, window: Floats | None, nfft: int, power: int, out: Array) -> None:
    """The magnitudes of the spectra of frames, or their squares.

    Args:
        frames: (T, n) of real numbers, of any strides, with n of at most `nfft`.
        window: (n,) which they are multiplied by.
        nfft: Size of the transform; zeros follow the frames.
        power: 1 or 2.
        out: (nfft // 2 + 1, T).
    """
    count, length = frames.shape
    step = max(1, _ROWS // nfft)
    fast = nfft > 1 and cv2.getOptimalDFTSize(nfft) == nfft
    memory = buffer, packed = _taken(min(step, count), nfft)
    buffer[:, length:] = 0
    packed[:, :1], packed[:, nfft + 1 :] = 0, 0  # the imaginary parts that OpenCV leaves out
    for start in range(0, count, step):
        part = frames[start : start + step]
        rows = buffer[: len(part)]
        if window is not None:
            weighted(part, window, rows)
        elif length < nfft or part.dtype != _FLOAT32 or not part.flags.c_contiguous:
            rows[:, :length] = part
        else:
            rows = part
        if fast:
            cv2.dft(rows, packed[: len(part), 1 : nfft + 1], cv2.DFT_ROWS)
            found: Array = packed.view(numpy.complex64)[: len(part)]
        else:
            found = numpy.ascontiguousarray(numpy.fft.rfft(rows), numpy.complex64)
        powers(found, power, out[:, start : start + step])
    _of_thread.memory = memory


class _OfThread(threading.local):
    """Memory for frames and their spectra, while nobody uses it: another thread's is in another processor's cache."""

    memory: tuple[Floats, Floats] | None = None


_of_thread = _OfThread()


def _taken(rows: int, nfft: int) -> tuple[Floats, Floats]:
    """That of this thread, which is to be given back; a handler of a signal has another meanwhile."""
    memory, _of_thread.memory = _of_thread.memory, None
    if memory is None or len(memory[0]) < rows or memory[0].shape[1] != nfft:
        memory = numpy.empty((rows, nfft), _FLOAT32), numpy.empty((rows, 2 * (nfft // 2 + 1)), _FLOAT32)
    return memory


def weighted(frames: Floats, window: Floats, out: Floats) -> None:
    """Fill the beginnings of rows with frames times a window."""
    if _core.in_use() and frames.strides[1] == frames.itemsize and frames.dtype == _FLOAT32:
        native.weighted(frames, window, out)
    else:
        numpy.multiply(frames, window, out=out[:, : len(window)])


@numpy.errstate(all="ignore")
def powers(spectra: Array, power: int, out: Array) -> None:
    """The magnitudes of complex numbers, or their squares.

    Args:
        spectra: (T, n) of complex64, in C order.
        power: 1 or 2.
        out: (n, T) of float32.
    """
    if _core.in_use():
        native.powers(spectra, power, out)
        return
    real, imaginary = spectra.real.T, spectra.imag.T
    if power == 2:
        numpy.add(numpy.square(real), numpy.square(imaginary), out=out)
    else:
        squares = numpy.square(real, dtype=numpy.float64) + numpy.square(imaginary, dtype=numpy.float64)
        out[...] = numpy.sqrt(squares)


# -- filter banks and cosine transforms --------------------------------------------------------------------------------


def _mel(hertz: Any, formula: str) -> Any:
    """Frequencies on a mel scale."""
    if formula == "htk":
        return 2595.0 * numpy.log10(1 + numpy.asarray(hertz) / 700.0)
    above = 15 + numpy.log(numpy.maximum(hertz, 1e-9) / 1000) * (27 / math.log(6.4))
    return numpy.where(numpy.asarray(hertz) < 1000, numpy.asarray(hertz) * 0.015, above)


def _hertz(mel: Any, formula: str) -> Any:
    """Frequencies of a mel scale."""
    if formula == "htk":
        return 700.0 * (10.0 ** (mel / 2595.0) - 1)
    return numpy.where(mel < 15, mel / 0.015, 1000 * numpy.exp((mel - 15) * (math.log(6.4) / 27)))


class Bank(NamedTuple):
    """Filters, each a weighted sum of values that follow each other.

    Attributes:
        firsts: The first value of each: int64 of shape (M,).
        counts: How many it weighs: int64 of shape (M,).
        weights: Those of all filters, one after the other.
    """

    firsts: NDArray[numpy.int64]
    counts: NDArray[numpy.int64]
    weights: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Bank:
        """The rows of a matrix, each from its first weight that is not 0 to its last."""
        used, columns = matrix != 0, matrix.shape[1]
        if not columns:
            none = numpy.zeros(len(matrix), numpy.int64)
            return cls(none, none, matrix.reshape(-1))
        firsts = used.argmax(axis=1)
        counts = numpy.where(used.any(axis=1), columns - used[:, ::-1].argmax(axis=1) - firsts, 0)
        places = numpy.arange(columns) - firsts[:, None]
        return cls(firsts, counts, matrix[(places >= 0) & (places < counts[:, None])])


@functools.lru_cache(32)
@numpy.errstate(all="ignore")
def mel_bank(bins: int, filters: int, rate: float, low: float, high: float, formula: str, *, normalized: bool) -> Bank:
    """Triangular filters at equal distances on a mel scale, for spectra of so many frequencies up to half the rate."""
    edges = _hertz(numpy.linspace(_mel(low, formula), _mel(high, formula), filters + 2), formula)
    hertz = numpy.arange(bins) * (rate / max(1, 2 * (bins - 1)))
    up = (hertz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - hertz) / (edges[2:] - edges[1:-1])[:, None]
    weights = numpy.fmax(0, numpy.minimum(up, down))
    if normalized:
        weights *= (2 / (edges[2:] - edges[:-2]))[:, None]
    return Bank.of(weights.astype(_FLOAT32))


@functools.lru_cache(32)
@numpy.errstate(over="ignore")
def cosines(extent: int, count: int, kind: int, lifter: float, *, normalized: bool) -> Floats:
    """The first rows of a discrete cosine transform, as Wikipedia numbers its kinds, with liftered coefficients."""
    row, column = numpy.arange(count)[:, None], numpy.arange(extent)
    if kind == 1:
        matrix = numpy.cos(math.pi / max(1, extent - 1) * row * column)
        matrix[:, [0, -1][: min(extent, 2)]] /= 2
    else:
        shifts = {2: (0.0, 0.5), 3: (0.5, 0.0), 4: (0.5, 0.5)}[kind]
        matrix = numpy.cos(math.pi / max(1, extent) * (row + shifts[0]) * (column + shifts[1]))
        if kind == 3:
            matrix[:, :1] /= math.sqrt(2) if normalized else 2
        if normalized:
            matrix *= math.sqrt(2 / max(1, extent))
            if kind == 2:
                matrix[:1] /= math.sqrt(2)
    if lifter:
        matrix *= 1 + lifter / 2 * numpy.sin(math.pi / lifter * (row + 1))
    found: Floats = matrix.astype(_FLOAT32)
    return found


@numpy.errstate(all="ignore")
def filtered(matrix: Floats, values: Array, axis: int, out: Array) -> None:
    """A matrix times the vectors along a dimension."""
    whole = ((slice(0, matrix.shape[0]), slice(0, matrix.shape[1]), matrix),)
    for vectors, result in _vectors(values, axis, out):
        product(whole, vectors, result)


@numpy.errstate(all="ignore")
def banked(bank: Bank, values: Array, axis: int, out: Array) -> None:
    """The filters of a bank of the vectors along a dimension."""
    for vectors, result in _vectors(values, axis, out):
        if vectors.flags.c_contiguous and result.flags.c_contiguous:
            summed(bank, vectors, result)
        else:
            turned: Any = cv2.transpose(vectors.T)
            result[...] = summed(bank, turned, numpy.empty(result.shape, _FLOAT32))


def _vectors(values: Array, axis: int, out: Array) -> Iterator[tuple[Floats, Floats]]:
    """Matrices of the vectors along a dimension of an array, one a column, and those of the result."""
    if not values.size:
        out[...] = 0
        return
    before = math.prod(values.shape[:axis])
    source = numpy.ascontiguousarray(values, _FLOAT32).reshape(before, values.shape[axis], -1)
    target = out.reshape(before, out.shape[axis], -1)
    if source.shape[2] == 1:
        yield source[:, :, 0].T, target[:, :, 0].T
    else:
        yield from zip(source, target, strict=True)


def summed(bank: Bank, source: Floats, out: Floats) -> Floats:
    """Weighted sums of rows, in the order of these.

    Args:
        bank: The filters.
        source: (n, T), in C order.
        out: (M, T), in C order.
    """
    if _core.in_use():
        native.summed(source, *bank, out)
        return out
    at = 0
    for target, first, count in zip(out, bank.firsts.tolist(), bank.counts.tolist(), strict=True):
        products = bank.weights[at : at + count, None] * source[first : first + count]
        if len(target) > 1:
            numpy.add.reduce(products, axis=0, out=target)
        else:  # of single values it would add up pairs
            target[...] = numpy.add.accumulate(products, axis=0)[-1:].sum()
        at += count
    return out


# -- values ------------------------------------------------------------------------------------------------------------


@numpy.errstate(all="ignore")
def decibels(values: Array, multiplier: float, reference: float, cutoff: float, out: Array) -> None:
    """`multiplier` * log10(values / reference), where 0 stands for the largest value; none is beyond the cutoff."""
    if not values.size:
        return
    largest = reference or float(numpy.fmax.reduce(values, axis=None))
    numpy.multiply(values, _FLOAT32.type(1 / largest if largest > 0 or reference else 1), out=out, casting="unsafe")
    numpy.log(out, out=out)
    numpy.multiply(out, _FLOAT32.type(multiplier / math.log(10)), out=out)
    (numpy.fmax if multiplier > 0 else numpy.fmin)(out, _FLOAT32.type(cutoff), out=out)


@numpy.errstate(all="ignore")
def emphasised(signal: Array, coefficient: float, border: str, out: Array) -> None:
    """Each value less a part of the one before, in floats; that before the first is as `border` says."""
    if not signal.size:
        return
    flat, target = numpy.ascontiguousarray(signal, out.dtype).reshape(-1), out.reshape(-1)
    place = {"zero": len(flat), "clamp": 0, "reflect": 1}[border]
    target[0] = float(flat[0]) - (coefficient * float(flat[place]) if place < len(flat) else 0.0)
    if out.dtype == _FLOAT32 and len(flat) > 1:
        cv2.scaleAdd(flat[:-1], -coefficient, flat[1:], target[1:])
    else:
        numpy.multiply(flat[:-1], -coefficient, out=target[1:])
        target[1:] += flat[1:]


@numpy.errstate(all="ignore")
def loud(signal: Array, window: int, cutoff: float, reference: float) -> tuple[int, int]:
    """The first value and the number of those in windows whose mean square is no less than a part of the reference.

    Args:
        signal: One dimension.
        window: Number of values that a mean is of.
        cutoff: The part, in decibels.
        reference: A power; 0 stands for the largest mean.
    """
    if not len(signal):
        return 0, 0
    part = float(numpy.float64(10) ** (cutoff / 10))
    if _core.in_use():
        return native.loud(numpy.ascontiguousarray(signal, numpy.float32), window, part, reference)
    sums = numpy.cumsum(numpy.square(signal, dtype=numpy.float64))
    sums[window:] -= sums[:-window].copy()
    least = part * (reference * window if reference else float(numpy.fmax.reduce(sums)))
    places = numpy.flatnonzero(sums >= least)
    if not len(places):
        return 0, 0
    first = max(0, int(places[0]) - window + 1)
    return first, int(places[-1]) + 1 - first


# -- resampling --------------------------------------------------------------------------------------------------------


def lobes_of(quality: float) -> int:
    """The number of lobes of the sinc on either side that DALI has for a quality of 0 to 100."""
    return round(0.007 * quality * quality - 0.09 * quality + 3)


@functools.lru_cache(16)
def tables(lobes: int) -> tuple[Floats, Floats]:
    """Weights of the neighbours of a place for each of 32 distances from them, and how they change up to the next.

    They are those of a windowed sinc in DALI's resolution, and as many as are summed up at once: others are 0.
    """
    centre = lobes * _RESOLUTION
    places = numpy.arange(2 * centre + 1) - centre
    table = numpy.sinc(places / _RESOLUTION) * (0.5 + 0.5 * numpy.cos(2 * numpy.pi * places / (2 * centre + 1)))
    taps = numpy.arange(2 * lobes) * _RESOLUTION
    rows = table[numpy.arange(_RESOLUTION + 1)[:, None] + taps]
    full = numpy.zeros((_RESOLUTION + 1, -(-2 * lobes // _LANES) * _LANES))
    full[:, : 2 * lobes] = rows
    return full[:-1].astype(_FLOAT32), numpy.diff(full, axis=0).astype(_FLOAT32)


@numpy.errstate(all="ignore")
def resampled(signal: Array, step: float, quality: float, out: Array) -> None:
    """Values of a signal between which there is a step, by a windowed sinc; beyond its ends it is 0.

    Args:
        signal: (n,) or (n, channels).
        step: From one value to the next, in values of the signal.
        quality: 0 to 100.
        out: Memory of float32.
    """
    lobes = lobes_of(quality)
    weights, changes = tables(lobes)
    taps = weights.shape[1]
    for channel in numpy.ndindex(signal.shape[1:]):
        place = (slice(None), *channel)
        source, target = padded(signal[place], lobes - 1, taps + 1, mirror=False), out[place]
        if _core.in_use():
            native.resampled(source, step, weights, changes, target)
            continue
        for start in range(0, len(target), _OUTPUTS):
            part = target[start : start + _OUTPUTS]
            part[...] = _interpolated(source, step, numpy.arange(start, start + len(part)), weights, changes)


def _interpolated(source: Floats, step: float, numbers: Array, weights: Floats, changes: Floats) -> Floats:
    """The values of some numbers, as `core_resample` finds them."""
    places = numbers * step
    first = numpy.floor(places)
    distances = _RESOLUTION * (1 - (places - first))
    rows = numpy.minimum(distances.astype(numpy.intp), _RESOLUTION - 1)
    parts = (distances - rows).astype(_FLOAT32)[:, None]
    neighbours = windowed(source, weights.shape[1], 1)[first.astype(numpy.intp)]
    products = (neighbours * (weights[rows] + parts * changes[rows])).reshape(len(places), -1, _LANES)
    sums = products[:, 0]
    for some in range(1, products.shape[1]):
        sums = sums + products[:, some]
    for half in (4, 2, 1):
        sums = sums[:, :half] + sums[:, half:]
    found: Floats = sums[:, 0]
    return found


@numpy.errstate(all="ignore")
def ranged(values: Array, kind: numpy.dtype[Any]) -> Array:
    """Numbers in the range of another type, as floats: that of floats is [-1, 1], whose 0 is the middle of others."""
    if values.dtype == kind or (values.dtype.kind, kind.kind) == ("f", "f"):
        return values
    (own, middle), (wanted, centre) = half_range(values.dtype), half_range(kind)
    return ((values.astype(numpy.float64) - middle) * (wanted / own) + centre).astype(_FLOAT32)


def half_range(kind: numpy.dtype[Any]) -> tuple[float, float]:
    """The largest distance from the middle of a type's range, and the middle."""
    if kind.kind == "f":
        return 1.0, 0.0
    most = float(numpy.iinfo(kind).max)
    return (most, 0.0) if kind.kind == "i" else (most / 2, most / 2)
