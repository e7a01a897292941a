"""Equalizing the histograms of whole batches."""

from __future__ import annotations

import numpy

from ._images import Images
from ._launch import launch, table

__all__ = ["equalized"]

_BLOCK = 4096  # pixels
_PLANE = numpy.dtype([
    ("source", "u8"), ("target", "u8"), ("from", "i8", 2), ("to", "i8", 2), ("rows", "u4"), ("columns", "u4"),
])  # fmt: skip


def equalized(source: Images, target: Images) -> None:
    """Spread the values of each channel over their range, as `kernels.cpu.histograms.equalized` does.

    Args:
        source: Images of uint8 or uint16.
        target: Of the same shapes and type.
    """
    import cupy

    pixels = source.shapes[:, :2].prod(axis=1)
    counts = numpy.where(pixels > 0, source.shapes[:, 2], 0)
    owners = numpy.repeat(numpy.arange(len(source)), counts)  # of each channel its image
    channels = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    if not len(owners):
        return
    rows = table(_PLANE, len(owners), rows=source.shapes[owners, 0], columns=source.shapes[owners, 1],
                 to=target.strides[owners, :2])  # fmt: skip
    rows["from"] = source.strides[owners, :2]
    for name, images in (("source", source), ("target", target)):
        rows[name] = images.pointers[owners] + (channels * images.strides[owners, 2]).astype(numpy.uint64)
    size, tiles = source.dtype.itemsize, -(-pixels[owners] // _BLOCK)
    bins = cupy.zeros((len(owners), 1 << 8 * size), numpy.uint32)
    values = cupy.empty(bins.shape, source.dtype)
    places = [numpy.uint64(array.data.ptr) for array in (bins, values)]
    launch("histograms", f"count_{size}", tiles, [rows], places[:1])
    launch("histograms", f"spread_{size}", numpy.ones(len(owners), numpy.int64), [rows], places)
    launch("histograms", f"look_up_{size}", tiles, [rows], places[1:])
