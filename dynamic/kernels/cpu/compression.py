"""Images compressed with loss."""

from __future__ import annotations

import cv2
import numpy
import simplejpeg

from dynamic._arrays.array import Array

__all__ = ["LARGEST", "compressed"]

#: The most pixels of a side that libjpeg writes.
LARGEST = 65500


def compressed(image: Array, quality: int, out: Array) -> None:
    """Write a JPEG file and read it: colours of half the resolution, the exact transforms and smooth upsampling.

    Args:
        image: uint8 of shape (H, W, 3), red, green and blue, or (H, W, 1), with a pixel at least.
        quality: 1 to 100.
        out: Where to, of the same shape and dtype.
    """
    pixels = numpy.ascontiguousarray(image)
    colours = pixels.shape[2] == 3
    if colours:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    # simplejpeg would compress with the fast transform, which gives other values.
    _, file = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    results = out if out.flags.c_contiguous else numpy.empty(out.shape, out.dtype)
    simplejpeg.decode_jpeg(file, "RGB" if colours else "GRAY", buffer=results)
    if results is not out:
        out[...] = results
