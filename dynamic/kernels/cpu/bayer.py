"""Colours of images whose sensor has one colour for each pixel: by OpenCV, and bilinear by slices, for GPUs too."""

from __future__ import annotations

import itertools
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import library

__all__ = ["ALGORITHMS", "LEAST", "bilinear", "demosaiced"]

#: The algorithms, and OpenCV's ends of their names.
ALGORITHMS = {"bilinear_ocv": "2RGB", "edgeaware_ocv": "2RGB_EA", "vng_ocv": "2RGB_VNG", "gray_ocv": "2GRAY"}
#: Pixels of a side; OpenCV leaves the results of smaller images black.
LEAST = 3
_PATTERNS = {(0, 0): "BG", (0, 1): "GB", (1, 0): "GR", (1, 1): "RG"}


def demosaiced(image: Any, blue: tuple[int, int], algorithm: str, out: Any) -> None:
    """Fill `out` with the colours, or the brightness, of an image.

    Args:
        image: (H, W), uint8 or uint16, both sides at least `LEAST`.
        blue: Row and column of the blue pixel in the tile of 2 x 2 that begins at the second row and column.
        algorithm: One of `ALGORITHMS`; on a GPU the first.
        out: (H, W, 3), red first, or (H, W, 1).
    """
    if library(image) is not numpy:
        bilinear(image, blue, out)
        return
    code = getattr(cv2, f"COLOR_Bayer{_PATTERNS[blue]}{ALGORITHMS[algorithm]}")
    out[...] = cv2.demosaicing(numpy.ascontiguousarray(image), code).reshape(out.shape)


def bilinear(image: Any, blue: tuple[int, int], out: Any) -> None:
    """As OpenCV has it: the mean of the two or four next pixels of a colour; the edge repeats the pixels beside it."""
    wide, inner = image.astype(numpy.uint32), out[1:-1, 1:-1]
    height, width = image.shape
    for row, column in itertools.product(range(2), range(2)):

        def beside(down: int, right: int, row: int = row, column: int = column) -> Any:
            return wide[1 + down + row : height - 1 + down : 2, 1 + right + column : width - 1 + right : 2]

        place, own = inner[row::2, column::2], beside(0, 0)
        across, along = beside(0, -1) + beside(0, 1), beside(-1, 0) + beside(1, 0)
        if (row == blue[0]) == (column == blue[1]):
            colour = 2 if row == blue[0] else 0
            corners = beside(-1, -1) + beside(-1, 1) + beside(1, -1) + beside(1, 1)
            means = {colour: own, 1: (across + along + 2) >> 2, 2 - colour: (corners + 2) >> 2}
        else:
            colour = 2 if row == blue[0] else 0  # of the pixels on the left and the right
            means = {colour: (across + 1) >> 1, 1: own, 2 - colour: (along + 1) >> 1}
        for channel, values in means.items():
            place[..., channel] = values
    out[1:-1, 0], out[1:-1, -1] = out[1:-1, 1], out[1:-1, -2]
    out[0], out[-1] = out[1], out[-2]
