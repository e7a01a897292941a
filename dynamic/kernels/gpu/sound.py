"""Sound: spectra, filter banks, decibels, emphasis, resampling and silence, a few launches for a batch.

Kernels read contiguous float32. Other signals are converted first, by one launch more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described, Views, allocated
from dynamic.kernels.cpu.sound import Bank, half_range, lobes_of, tables

from . import copies
from ._images import contiguous
from ._launch import code, launch, table

__all__ = ["decibels", "emphasised", "filtered", "loud", "resampled", "signal_spectra", "vector_spectra"]

_FLOAT32, _FLOAT64 = numpy.dtype("float32"), numpy.dtype("float64")
_BLOCK = 1024  # values of a block of most kernels
_THREADS = 256
_TILE = 32
_PARTS = 64  # the most blocks that look for the largest value of a sample
_NONE = numpy.zeros(1, _FLOAT32)  # weights of filters that have none
_MEMORY = 1 << 28  # bytes of windows that are transformed at once

_WINDOWS = numpy.dtype(
    [
        ("source", "u8"),
        ("row", "u8"),
        ("count", "i8"),
        ("begin", "i8"),
        ("hop", "i8"),
        ("stride", "i8"),
        ("skip", "i8"),
        ("windows", "u4"),
        ("length", "u4"),
    ]
)
_SPECTRA = numpy.dtype([("target", "u8"), ("row", "u8"), ("to", "i8", 2), ("windows", "u4"), ("across", "u4")])
_VECTORS = numpy.dtype([("source", "u8"), ("target", "u8"), ("values", "u8"), ("behind", "u4")], align=True)
_BAND = numpy.dtype([("first", "u4"), ("count", "u4"), ("at", "u4")])
_VALUES = numpy.dtype([("source", "u8"), ("target", "u8"), ("count", "u8"), ("part", "u4"), ("parts", "u4")])
_EMPHASIS = numpy.dtype([("source", "u8"), ("target", "u8"), ("count", "u8"), ("part", "f8"), ("before", "i8")])
_RESAMPLED = numpy.dtype(
    [("source", "u8"), ("target", "u8"), ("count", "i8"), ("values", "i8"), ("step", "f8"), ("channels", "u4")],
    align=True,
)
_SILENCE = numpy.dtype([("source", "u8"), ("sums", "u8"), ("begin", "u8"), ("length", "u8"), ("count", "i8")])


class _Packed:
    """Samples as contiguous values of a type, converted where they are others.

    Attributes:
        table: Where they are.
    """

    def __init__(self, source: Described, kind: numpy.dtype[Any]) -> None:
        self._kept: Views | None = None
        self.table = source
        if source.dtype != kind or not contiguous(source):
            self._kept = allocated(source.shapes, kind)
            self.table = self._kept.table
            copies.window(source, self.table)


def _into(target: Described, kind: numpy.dtype[Any], fill: Callable[[Described], None]) -> None:
    """Fill results through memory of another type, which is converted, rounded and saturated to theirs."""
    if target.dtype == kind:
        fill(target)
        return
    made = allocated(target.shapes, kind)
    fill(made.table)
    copies.window(made.table, target)


def _sizes(samples: Described) -> NDArray[numpy.int64]:
    """The number of values of each."""
    found: NDArray[numpy.int64] = samples.shapes.prod(axis=1, dtype=numpy.int64)
    return found


def _blocks(values: Any, block: int = _BLOCK) -> NDArray[numpy.int64]:
    return -(-numpy.asarray(values, numpy.int64) // block)


# -- spectra -----------------------------------------------------------------------------------------------------------


def signal_spectra(
    source: Described,
    target: Described,
    window: NDArray[numpy.float32],
    step: int,
    before: int,
    nfft: int,
    power: int,
    *,
    mirror: bool,
    times_first: bool,
) -> None:
    """Fill each target with the spectra of the windows of a signal, as `spectrogram` does.

    Args:
        source: Signals.
        target: (frequencies, windows), or turned.
        window: Weights of the values of a window.
        step: From one window to the next.
        before: Values of the first window that lie before the signal.
        nfft: Size of the transform.
        power: 1 for magnitudes, 2 for their squares.
        mirror: Whether values beyond a signal are mirrored, rather than 0.
        times_first: Whether targets are turned.
    """
    signals, axes = _Packed(source, _FLOAT32), (1, 0) if times_first else (0, 1)
    rows = table(_WINDOWS, len(source), source=signals.table.pointers, count=_sizes(source), begin=-before, hop=step)
    rows["stride"], rows["length"], rows["windows"] = 1, len(window), target.shapes[:, axes[1]]
    _transformed(rows, target.pointers, target.strides[:, axes], window, nfft, power, mirror=mirror)


def vector_spectra(source: Described, target: Described, axis: int, nfft: int | None, power: int) -> None:
    """Fill each target with the spectra of vectors along a dimension, as `power_spectrum` does."""
    arrays = _Packed(source, _FLOAT32)
    before, extents, behind = _around(source.shapes, axis)
    bins, size = target.shapes[:, axis], _FLOAT32.itemsize
    # The vectors of a plane are windows; where nothing is behind the axis all are those of one plane.
    planes = numpy.where(behind == 1, 1, before) * (before * behind > 0)
    owners = numpy.repeat(numpy.arange(len(source)), planes)
    places = numpy.arange(len(owners)) - (numpy.cumsum(planes) - planes)[owners]
    flat = behind[owners] == 1
    steps = numpy.stack([behind, numpy.ones_like(behind)], 1)[owners] * size
    steps[flat, 1] = bins[owners][flat] * size
    rows = table(_WINDOWS, len(owners), count=extents[owners], stride=behind[owners])
    rows["source"] = arrays.table.pointers[owners] + (places * (extents * behind)[owners] * size).astype(numpy.uint64)
    rows["skip"] = numpy.where(flat, extents[owners], 1)
    rows["windows"] = numpy.where(flat, before[owners], behind[owners])
    targets = target.pointers[owners] + (places * (bins * behind)[owners] * size).astype(numpy.uint64)
    sizes = numpy.full(len(owners), nfft) if nfft is not None else extents[owners]
    rows["length"] = numpy.minimum(sizes, extents[owners])
    for each in numpy.unique(sizes).tolist():
        some = sizes == each
        _transformed(rows[some], targets[some], steps[some], None, each, power, mirror=False)


def _around(shapes: NDArray[numpy.int64], axis: int) -> tuple[Any, Any, Any]:
    """The values before a dimension, its extent, and the values behind, for each sample."""
    return shapes[:, :axis].prod(axis=1), shapes[:, axis], shapes[:, axis + 1 :].prod(axis=1)


def _transformed(
    rows: NDArray[Any],
    targets: NDArray[numpy.uint64],
    strides: NDArray[numpy.int64],
    window: NDArray[numpy.float32] | None,
    nfft: int,
    power: int,
    *,
    mirror: bool,
) -> None:
    """Transform the windows of a table, in parts that fit into memory.

    Args:
        rows: The windows, without their places in the buffer.
        targets: Where the spectra of each are written.
        strides: Bytes from one frequency to the next, and from one window to the next.
        window: Weights of the values of a window, or None.
        nfft: Size of the transform.
        power: 1 or 2.
        mirror: Whether values beyond a signal are mirrored, rather than 0.
    """
    import cupy

    bins, weights = nfft // 2 + 1, numpy.zeros(1, _FLOAT32) if window is None else window
    flags = numpy.uint32(nfft), numpy.uint32(window is not None), numpy.uint32(mirror)
    for part, first in _parts(rows, max(1, _MEMORY // (_FLOAT32.itemsize * nfft))):
        own = rows[part]
        own["begin"] += first["from"] * own["hop"]
        own["source"] += (first["from"] * own["skip"] * _FLOAT32.itemsize).astype(numpy.uint64)
        own["windows"], own["row"] = first["count"], first["row"]
        total = int(first["count"].sum())
        buffer = cupy.empty((total, nfft), _FLOAT32)
        tiles = _blocks(first["count"] * nfft)
        launch("sound", "frames", tiles, [own, weights], (numpy.uint64(buffer.data.ptr), *flags))
        found = cupy.fft.rfft(buffer)
        across = -(-bins // _TILE)
        spectra = table(_SPECTRA, len(own), row=first["row"], to=strides[part], windows=first["count"], across=across)
        spectra["target"] = targets[part] + (first["from"] * strides[part][:, 1]).astype(numpy.uint64)
        scalars = numpy.uint64(found.data.ptr), numpy.uint32(bins), numpy.uint32(power)
        launch("sound", "magnitudes", across * _blocks(first["count"], _TILE), [spectra], scalars)


def _parts(rows: NDArray[Any], most: int) -> Iterator[tuple[NDArray[numpy.intp], NDArray[Any]]]:
    """Parts of a table of at most so many windows: which rows, and of each the first window, how many, and its row."""
    ends = numpy.cumsum(rows["windows"], dtype=numpy.int64)
    starts, total = ends - rows["windows"], int(ends[-1]) if len(ends) else 0
    kind = numpy.dtype([("from", "i8"), ("count", "i8"), ("row", "i8")])
    for begin in range(0, total, most):
        low, high = numpy.maximum(starts, begin), numpy.minimum(ends, begin + most)
        part = numpy.flatnonzero(low < high)
        low, high = low[part], high[part]
        yield part, table(kind, len(part), count=high - low, row=low - begin, **{"from": low - starts[part]})


# -- filter banks and cosine transforms --------------------------------------------------------------------------------


def filtered(source: Described, target: Described, axis: int, bank: Callable[[int, int], Bank]) -> None:
    """Fill each target with the filters of a bank of the vectors along a dimension, as `kernels.cpu.sound` does.

    Args:
        source: Arrays.
        target: With another extent in this dimension.
        axis: The dimension.
        bank: The filters for an extent of the source and one of the target.
    """
    arrays, counts = _Packed(source, _FLOAT32), _sizes(target)
    pairs = numpy.stack([source.shapes[:, axis], target.shapes[:, axis]], 1)
    for columns, filters in numpy.unique(pairs, axis=0).tolist():
        some = numpy.flatnonzero((pairs == (columns, filters)).all(axis=1) & (counts > 0))
        rows = table(
            _VECTORS,
            len(some),
            source=arrays.table.pointers[some],
            target=target.pointers[some],
            values=counts[some],
            behind=_around(target.shapes[some], axis)[2],
        )
        firsts, lengths, weights = bank(columns, filters)
        parts = table(_BAND, filters, first=firsts, count=lengths, at=numpy.cumsum(lengths) - lengths)
        numbers = numpy.uint32(filters), numpy.uint32(columns)
        launch("sound", "mix", _blocks(counts[some]), [rows, parts, weights if len(weights) else _NONE], numbers)


# -- values ------------------------------------------------------------------------------------------------------------


def decibels(source: Described, target: Described, multiplier: float, reference: float, cutoff: float) -> None:
    """Fill each target with magnitudes as decibels, as `kernels.cpu.sound.decibels` does."""
    import cupy

    magnitudes, counts = _Packed(source, _FLOAT32), _sizes(source)
    parts = numpy.minimum(_blocks(counts, 16 * _THREADS), _PARTS)
    rows = table(_VALUES, len(source), source=magnitudes.table.pointers, target=target.pointers, count=counts)
    rows["parts"], rows["part"] = parts, numpy.cumsum(parts) - parts
    partial = cupy.empty(max(1, int(parts.sum())), _FLOAT32)
    place = numpy.uint64(partial.data.ptr)
    if not reference:
        launch("sound", "largest", parts, [rows], (place,))
    with numpy.errstate(over="ignore"):
        factor, limit = numpy.float32(multiplier / math.log(10)), numpy.float32(cutoff)
    numbers = numpy.float64(reference), factor, limit, numpy.uint32(multiplier > 0)
    launch("sound", "decibels", _blocks(counts), [rows], (place, *numbers))


def emphasised(
    source: Described, target: Described, coefficients: Sequence[float], border: str, kind: numpy.dtype[Any]
) -> None:
    """Fill each target with values less a part of the one before, computed in floats of a type."""
    signals, counts = _Packed(source, kind), _sizes(source)

    def fill(results: Described) -> None:
        rows = table(_EMPHASIS, len(source), source=signals.table.pointers, target=results.pointers, count=counts)
        rows["part"], place = coefficients, {"zero": -1, "clamp": 0, "reflect": 1}[border]
        rows["before"] = numpy.where(place < counts, place, -1)
        launch("sound", f"emphasis_{kind.name}", _blocks(counts), [rows])

    _into(target, kind, fill)


def loud(source: Described, targets: tuple[Described, Described], window: int, cutoff: float, reference: float) -> None:
    """Fill int32 with the first value and the number of those that are not silent, as `kernels.cpu.sound.loud` does."""
    signals, counts = _Packed(source, _FLOAT32), _sizes(source)
    sums = allocated(counts.reshape(-1, 1), _FLOAT64)
    rows = table(_SILENCE, len(source), source=signals.table.pointers, sums=sums.table.pointers, count=counts)
    rows["begin"], rows["length"] = (target.pointers for target in targets)
    with numpy.errstate(all="ignore"):
        numbers = numpy.float64(10) ** (cutoff / 10), numpy.float64(reference), numpy.int64(window)
    launch("sound", "loud", numpy.ones(len(source), numpy.int64), [rows], numbers)


# -- resampling --------------------------------------------------------------------------------------------------------


def resampled(
    source: Described, target: Described, steps: Sequence[float], quality: float, *, kind: numpy.dtype[Any] | None
) -> None:
    """Fill each target with values of a signal between which there is a step, as `kernels.cpu.sound.resampled` does.

    Args:
        source: (n,) or (n, channels).
        target: Results, which are rounded and saturated.
        steps: From one value to the next, for each signal.
        quality: 0 to 100.
        kind: The type whose range values get first; None leaves them.
    """
    signals = _Packed(source, _FLOAT32) if kind is None else _ranged(source, kind)
    lobes = lobes_of(quality)
    weights, changes = tables(lobes)

    def fill(results: Described) -> None:
        rows = table(_RESAMPLED, len(source), source=signals.table.pointers, target=results.pointers, step=steps)
        rows["count"], rows["values"] = source.shapes[:, 0], _sizes(results)
        rows["channels"] = numpy.maximum(1, source.shapes[:, 1:].prod(axis=1))
        numbers = numpy.uint32(weights.shape[1]), numpy.uint32(lobes)
        launch("sound", "resample", _blocks(rows["values"]), [rows, weights, changes], numbers)

    _into(target, _FLOAT32, fill)


def _ranged(source: Described, kind: numpy.dtype[Any]) -> _Packed | Views:
    """Numbers in the range of another type, as `kernels.cpu.sound.ranged` gives them."""
    if source.dtype == kind or (source.dtype.kind, kind.kind) == ("f", "f"):
        return _Packed(source, _FLOAT32)
    (own, middle), (wanted, centre) = half_range(source.dtype), half_range(kind)
    values, made, counts = _Packed(source, source.dtype), allocated(source.shapes, _FLOAT32), _sizes(source)
    rows = table(_VALUES, len(source), source=values.table.pointers, target=made.table.pointers, count=counts)
    numbers = numpy.float64(middle), numpy.float64(wanted / own), numpy.float64(centre), code(source.dtype)
    launch("sound", "ranged", _blocks(counts), [rows], numbers)
    return made
