"""Affine warps of whole batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from ._images import Images, tiles_of
from ._launch import cells, code, launch, table

__all__ = ["affine"]

_TILE = 32
_WARP = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("matrix", "f8", (2, 3)),
        ("height", "i4"),
        ("width", "i4"),
        ("rows", "u4"),
        ("columns", "u4"),
        ("channels", "u4"),
        ("nearest", "u4"),
        ("across", "u4"),
    ],
    align=True,
)
_OWN = ("uint8", "uint16", "int16", "float32")  # with kernels of their own
_OF_THREE = ("uint8", "float32")  # and one for three channels


def affine(
    source: Images,
    target: Images,
    matrices: NDArray[numpy.float64],
    fill: float | Sequence[float] | None = None,
    *,
    nearest: bool = False,
) -> None:
    """Fill each target with the pixels that a matrix finds in an image, as `kernels.cpu.warp.affine` does.

    Args:
        source: Images.
        target: Of as many channels each.
        matrices: For each image, from points of the result to points of the input: (M, 2, 3).
        fill: Pixels outside, one value or one for each channel, saturated to the type of the source; if None, the
            nearest pixel.
        nearest: Take the pixel that a point lies in; otherwise interpolate linearly between the centres around it.
    """
    matrix = matrices.astype(numpy.float64)
    matrix[:, :, 2] = matrix[:, :, 2] + matrix[:, :, :2].sum(axis=2) / 2 - 0.5  # from here on it maps indices
    whole = (matrix == numpy.floor(matrix)).all(axis=(1, 2))  # pixels only move
    empty = (source.shapes[:, :2] == 0).any(axis=1)
    tiles, across = tiles_of(target.shapes, _TILE, _TILE)
    rows = table(
        _WARP,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        matrix=matrix,
        height=source.shapes[:, 0],
        width=source.shapes[:, 1],
        rows=target.shapes[:, 0],
        columns=target.shapes[:, 1],
        channels=target.shapes[:, 2],
        nearest=whole | empty | nearest,
        across=across,
    )
    rows["from"] = source.strides
    outside = numpy.asarray(0.0 if fill is None else fill, numpy.float64).reshape(-1)
    outside = numpy.broadcast_to(outside, max(1, source.most_channels)) if len(outside) == 1 else outside
    name = "any"
    if source.dtype == target.dtype and source.dtype.name in _OWN:
        three = source.dtype.name in _OF_THREE and bool((source.shapes[:, 2] == 3).all())
        name = source.dtype.name + "_3" * three
    types = code(source.dtype), code(target.dtype)
    launch(
        "warp", f"warp_{name}", tiles, [rows, cells(outside, source.dtype)], (numpy.uint32(fill is not None), *types)
    )
