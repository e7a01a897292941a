"""Windows of images that are normalised, brightness and contrast, and colours that are mixed."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays.described import Described

from ._images import Images, contiguous
from ._launch import cells, code, launch, table

__all__ = ["flat", "mixed", "normalised"]

_PIXELS = 2048  # of a block
_NORMALIZE = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("rows", "u4"),
        ("quads", "u4"),
        ("columns", "u4"),
        ("low", "i4", 2),
        ("high", "i4", 2),
        ("channels", "u4"),
        ("all", "u4"),
        ("numbers", "u4"),
    ],
    align=True,
)
_MIX = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("matrix", "f8", 12),
        ("rows", "u4"),
        ("quads", "u4"),
        ("columns", "u4"),
        ("words", "u4"),
        ("have", "u4"),
        ("want", "u4"),
    ],
    align=True,
)
#: Types with kernels of their own, and the types that these compute in.
_NORMALIZED = {
    ("uint8", "uint8"): numpy.float32,
    ("uint8", "float16"): numpy.float64,
    ("uint8", "float32"): numpy.float64,
    ("float32", "float16"): numpy.float32,
    ("float32", "float32"): numpy.float32,
}
_MIXED = frozenset({("uint8", "uint8"), ("uint8", "float32"), ("float32", "float32")})


def flat(data: Described) -> Images | None:
    """Samples as images of one row and one channel; None where they are not contiguous, or too long."""
    if not contiguous(data):
        return None
    sizes = data.shapes.prod(axis=1)
    if sizes.max(initial=0) >= 1 << 31:
        return None
    ones = numpy.ones_like(sizes)
    steps = ones * data.dtype.itemsize
    shapes, strides = numpy.stack([ones, sizes, ones], 1), numpy.stack([sizes * steps, steps, steps], 1)
    return Images(data.pointers, shapes, strides, data.dtype, None)


def _tiles(target: Images) -> tuple[Any, Any]:
    """How many blocks images have, and how many times four pixels a row."""
    quads = -(-target.shapes[:, 1] // 4)
    return numpy.where(target.shapes[:, 2] > 0, -(-4 * quads * target.shapes[:, 0] // _PIXELS), 0), quads


def normalised(
    source: Images,
    target: Images,
    factors: NDArray[Any],
    shifts: NDArray[Any],
    *,
    starts: NDArray[Any] | None = None,
    mirror: NDArray[Any] | None = None,
    fill: Any = 0.0,
) -> None:
    """Multiply the channels of windows by factors and add shifts.

    Args:
        source: Images.
        target: Images of the windows' sizes, of as many channels or more.
        factors: One for each channel: (C,), or (M, C) where images differ; C is the most channels of a source.
        shifts: Of the same shape.
        starts: The row and the column where each window begins, which may be outside: (M, 2).
        mirror: Which windows to mirror, (M,).
        fill: Pixels outside, and in channels that are added: one value; or one for each channel, then those that are
            added are 0.
    """
    count, sizes = len(source), target.shapes[:, :2]
    start = numpy.zeros((count, 2), numpy.int64) if starts is None else numpy.asarray(starts, numpy.int64)
    flags = numpy.zeros(count, bool) if mirror is None else numpy.asarray(mirror, bool)
    low = numpy.clip(-start, 0, sizes)
    high = numpy.clip(source.shapes[:, :2] - start, low, sizes)
    width = sizes[:, 1]
    low[:, 1], high[:, 1] = (
        numpy.where(flags, width - high[:, 1], low[:, 1]),
        numpy.where(flags, width - low[:, 1], high[:, 1]),
    )
    base = (start * source.strides[:, :2]).sum(axis=1) + numpy.where(flags, (width - 1) * source.strides[:, 1], 0)
    strides = source.strides.copy()
    strides[:, 1] = numpy.where(flags, -strides[:, 1], strides[:, 1])
    tiles, quads = _tiles(target)
    most = int(target.shapes[:, 2].max(initial=1))
    rows = table(
        _NORMALIZE,
        count,
        target=target.pointers,
        to=target.strides,
        rows=sizes[:, 0],
        quads=quads,
        columns=width,
        low=low,
        high=high,
        channels=source.shapes[:, 2],
        all=target.shapes[:, 2],
    )
    rows["source"], rows["from"] = (source.pointers.astype(numpy.int64) + base).astype(numpy.uint64), strides
    real = _NORMALIZED.get((source.dtype.name, target.dtype.name))
    own = real is not None
    with numpy.errstate(over="ignore"):
        numbers = numpy.stack([factors, shifts], axis=-1).astype(real or numpy.float64)
    if numbers.ndim == 3:
        rows["numbers"] = numpy.arange(count) * (2 * numbers.shape[1])
    outside = numpy.asarray(fill, numpy.float64).reshape(-1)
    outside = numpy.repeat(outside, most) if len(outside) == 1 else numpy.pad(outside, (0, max(0, most - len(outside))))
    kernel = f"normalize_{source.dtype.name}_{target.dtype.name}" if own else "normalize_any"
    launch("pixels", kernel, tiles, [rows, numbers, cells(outside, target.dtype)], _types(source, target, own=own))


def mixed(source: Images, target: Images, matrices: NDArray[Any]) -> None:
    """Make each channel a sum of all channels, each with a factor, and of a shift.

    Args:
        source: Images of up to three channels.
        target: Images of the same sizes, of up to three channels.
        matrices: A row for each channel of the result, a factor for each channel and the shift: (M, want, have + 1).
    """
    tiles, quads = _tiles(target)
    want, have = matrices.shape[1], matrices.shape[2] - 1
    whole = numpy.zeros((len(source), 3, 4))
    whole[:, :want, :have], whole[:, :want, 3] = matrices[:, :, :-1], matrices[:, :, -1]
    words = numpy.full(len(source), have == want == 3)
    for each in (source, target):
        words &= (each.strides[:, 1:] == (3, 1)).all(axis=1) & (each.strides[:, 0] % 4 == 0)
        words &= each.pointers % 4 == 0
    rows = table(
        _MIX,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        matrix=whole.reshape(-1, 12),
        rows=target.shapes[:, 0],
        quads=quads,
        columns=target.shapes[:, 1],
        words=words,
        have=have,
        want=want,
    )
    rows["from"] = source.strides
    own = (source.dtype.name, target.dtype.name) in _MIXED
    kernel = f"mix_{source.dtype.name}_{target.dtype.name}" if own else "mix_any"
    launch("pixels", kernel, tiles, [rows], _types(source, target, own=own))


def _types(source: Images, target: Images, *, own: bool) -> tuple[numpy.int32, numpy.int32]:
    """The element types for a kernel that is told them; -1 for one that knows them."""
    if own:
        return numpy.int32(-1), numpy.int32(-1)
    return code(source.dtype), code(target.dtype)
