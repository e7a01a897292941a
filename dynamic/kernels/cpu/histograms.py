"""Equalizing histograms, of whole images and of the tiles of one."""

from __future__ import annotations

import math

import cv2
import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty

__all__ = ["equalized", "equalized_in_tiles"]


def equalized(image: Array, out: Array) -> None:
    """Spread the values of each channel over their range; equal values stay equal.

    Args:
        image: uint8 or uint16, channels last, with a pixel at least.
        out: Where to, of the same shape and dtype.
    """
    planes = _planes(image)
    for plane in planes:
        if plane.dtype == numpy.uint8:
            cv2.equalizeHist(plane, plane)
        else:
            plane[...] = _spread(plane)
    _merged(planes, out)


def _planes(image: Array) -> Array:
    """A copy of the channels, one after the other, each of two dimensions."""
    planes = empty((image.shape[-1], math.prod(image.shape[:-2]), image.shape[-2]), image.dtype)
    if image.flags.c_contiguous:
        cv2.split(image.reshape(-1, *image.shape[-2:]), list(planes))
    else:
        planes.reshape(-1, *image.shape[:-1])[...] = numpy.moveaxis(image, -1, 0)
    return planes


def _merged(planes: Array, out: Array) -> None:
    if out.flags.c_contiguous:
        cv2.merge(list(planes), out.reshape(-1).reshape(*planes.shape[1:], len(planes)))
    else:
        out[...] = numpy.moveaxis(planes.reshape(-1, *out.shape[:-1]), 0, -1)


def _spread(plane: Array) -> Array:
    """OpenCV's function of bytes, for two of them."""
    most = 65535
    histogram = numpy.bincount(plane.reshape(-1), minlength=most + 1)
    lowest = int(numpy.flatnonzero(histogram)[0])
    others = plane.size - int(histogram[lowest])
    if not others:
        return plane
    histogram[lowest] = 0
    table = numpy.rint(numpy.cumsum(histogram) * (most / others)).astype(numpy.uint16)
    return table[plane]


def equalized_in_tiles(image: Array, tiles: tuple[int, int], limit: float, out: Array, *, luma_only: bool) -> None:
    """Spread the values of each tile by its own histogram, and go over from tile to tile.

    Args:
        image: uint8 or uint16 of shape (H, W, C), with a pixel at least.
        tiles: Number of tiles across and down.
        limit: The most that a bin may hold, as a multiple of the mean; 0 or less is no limit.
        out: Where to, of the same shape and dtype.
        luma_only: Whether to spread the lightness of red, green and blue, and not each of these.
    """
    most = numpy.iinfo(image.dtype).max
    spread = cv2.createCLAHE(min(limit, most + 1.0), tiles)  # beyond, OpenCV's integers would overflow
    if not luma_only or image.shape[2] == 1:
        planes = _planes(image)
        for plane in planes:
            plane[...] = _applied(spread, plane)
        _merged(planes, out)
        return
    whole = image.dtype != numpy.uint8
    pixels = image.astype(numpy.float32) / most if whole else numpy.ascontiguousarray(image)
    lab = cv2.cvtColor(pixels, cv2.COLOR_RGB2Lab)
    lightness = cv2.extractChannel(lab, 0)
    if whole:
        fine = numpy.rint(lightness * (most / 100)).astype(image.dtype)
        cv2.insertChannel(_applied(spread, fine) * numpy.float32(100 / most), lab, 0)
        out[...] = numpy.rint(numpy.clip(cv2.cvtColor(lab, cv2.COLOR_Lab2RGB), 0, 1) * most)
        return
    cv2.insertChannel(_applied(spread, lightness), lab, 0)
    if out.flags.c_contiguous:
        cv2.cvtColor(lab, cv2.COLOR_Lab2RGB, out.reshape(-1).reshape(out.shape))  # strides as OpenCV wants them
    else:
        out[...] = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)


def _applied(spread: cv2.CLAHE, plane: Array) -> Array:
    """A plane equalized in its tiles, of which each has a table: of bytes 256 numbers, else 65536."""
    try:
        return spread.apply(plane)
    except cv2.error as error:
        if error.code != cv2.Error.StsNoMem:
            raise
        raise MemoryError("Not enough memory for the tables of so many tiles.") from error
