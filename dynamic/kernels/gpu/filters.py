"""Filters of the window around each pixel: correlation with kernels, and extremes and medians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from ._images import Images, tiles_of
from ._launch import code, launch, table

__all__ = ["correlated", "ranked"]

_TILE = 32
_FILTER = numpy.dtype(
    [
        ("source", "u8"),
        ("target", "u8"),
        ("from", "i8", 3),
        ("to", "i8", 3),
        ("weights", "u4"),
        ("size", "u4", 2),
        ("shift", "i4", 2),
        ("extents", "i4", 2),
        ("rows", "u4"),
        ("columns", "u4"),
        ("channels", "u4"),
        ("fill", "u4"),
        ("across", "u4"),
    ],
    align=True,
)
#: Types that have kernels of their own, which compute in float32.
_OWN = frozenset({("uint8", "uint8"), ("uint8", "float32"), ("float32", "float32")})
_RANKED = ("uint8", "float32")  # with kernels of their own
_RANKS = ("largest", "smallest", "median")
_BORDERS = ("constant", "clamp", "reflect_1001", "reflect_101", "wrap")


def correlated(
    source: Images,
    target: Images,
    kernels: Sequence[NDArray[Any]],
    anchors: NDArray[Any],
    border: str,
    fills: NDArray[Any] | None = None,
) -> None:
    """Fill each target with an image that is correlated with a kernel, as `kernels.cpu.filters` does.

    Args:
        source: Images that have pixels.
        target: Of as many channels each; smaller ones begin where the anchor of the first pixel says.
        kernels: For each image its weights: (rows, columns).
        anchors: Which of the weights lies on the pixel that is computed: (M, 2).
        border: Pixels outside of the images, as for `filter`.
        fills: For each image the value outside where `border` is "constant": (M,). With it integers are rounded half to
            even; without it half away from zero, and pixels outside do not matter.
    """
    if not len(source):  # videos without frames
        return
    pair = (source.dtype.name, target.dtype.name)
    real = numpy.dtype(numpy.float32 if pair in _OWN else numpy.float64)
    own = {id(kernel): kernel for kernel in kernels}  # images often have the same
    ends = numpy.cumsum([kernel.size for kernel in own.values()])
    begins = dict(zip(own, (ends - [kernel.size for kernel in own.values()]).tolist(), strict=True))
    rows, tiles = _rows(source, target, [kernel.shape for kernel in kernels], anchors)
    rows["weights"] = [begins[id(kernel)] for kernel in kernels]
    rows["fill"] = numpy.arange(len(source))
    even = fills is not None and target.dtype.kind in "iu"
    outside = numpy.zeros(len(source)) if fills is None else fills
    types = (numpy.int32(-1), numpy.int32(-1)) if pair in _OWN else (code(source.dtype), code(target.dtype))
    with numpy.errstate(over="ignore"):
        weights = numpy.concatenate([kernel.reshape(-1) for kernel in own.values()]).astype(real)
        sections = [rows, weights, outside.astype(real)]
    numbers = numpy.uint32(_BORDERS.index(border)), numpy.uint32(even)
    launch("filters", f"filter_{'_'.join(pair)}" if pair in _OWN else "filter_any", tiles, sections, (*numbers, *types))


def ranked(source: Images, target: Images, sizes: NDArray[Any], anchors: NDArray[Any], border: str, which: str) -> None:
    """Fill each target with one element of the window around each pixel.

    Args:
        source: Images that have pixels.
        target: Of the same shapes and type.
        sizes: Rows and columns of the window of each image: (M, 2).
        anchors: Which place of the window lies on the pixel that is computed: (M, 2).
        border: Pixels outside of the images, as for `filter`; for "constant" there is nothing.
        which: "largest", "smallest" or "median".
    """
    rows, tiles = _rows(source, target, sizes.reshape(-1, 2), anchors.reshape(-1, 2))
    name = source.dtype.name if source.dtype.name in _RANKED else "any"
    numbers = numpy.uint32(_BORDERS.index(border)), numpy.uint32(_RANKS.index(which))
    launch("filters", f"rank_{name}", tiles, [rows], (*numbers, code(source.dtype)))


def _rows(source: Images, target: Images, sizes: Any, anchors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The table but for kernels, and the number of tiles."""
    tiles, across = tiles_of(target.shapes, _TILE, _TILE)
    rows = table(
        _FILTER,
        len(source),
        source=source.pointers,
        target=target.pointers,
        to=target.strides,
        size=sizes,
        shift=-anchors,
        extents=source.shapes[:, :2],
        rows=target.shapes[:, 0],
        columns=target.shapes[:, 1],
        channels=target.shapes[:, 2],
        across=across,
    )
    rows["from"] = source.strides
    return rows, tiles
