"""Images on larger canvases, and grids over images: paste, multi_paste, grid_mask."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._argument import Between, Layout, PerSample
from dynamic._array import Array
from dynamic._operator import Spec, operator
from dynamic.kernels.cpu import regions

from .geometry import LAYOUTS
from .windows import _fill

__all__ = ["grid_mask", "paste"]

_Values: TypeAlias = float | tuple[float, ...]
_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Enlargement: TypeAlias = Annotated[float, Between(1)]
_Side: TypeAlias = Annotated[int, Between(1)]


def _on_canvas(image: Array, /, *, ratio: float, min_canvas_size: float = 0.0, layout: str = "HWC", **_: Any) -> Spec:
    """Shape and dtype of what `paste` makes of an image."""
    shape = list(image.shape)
    for letter in "DHW":
        if letter in layout:
            place = layout.index(letter)
            shape[place] = max(int(numpy.float32(ratio) * numpy.float32(shape[place])), int(min_canvas_size))
    return tuple(shape), image.dtype


@operator(layouts=LAYOUTS, output=_on_canvas)
def paste(
    image: Array, /, *, fill_value: PerSample[_Values], min_canvas_size: PerSample[_Extent] = 0.0, n_channels: int = 3,
    paste_x: PerSample[_Position] = 0.5, paste_y: PerSample[_Position] = 0.5, ratio: PerSample[_Enlargement],
    layout: Layout = "HWC", out: Array = None,
) -> Array:  # fmt: skip
    """Put each image onto a larger canvas.

    Args:
        fill_value: The colour of the canvas, one value or one for each channel, saturated to the type of the image.
        min_canvas_size: The least height and width of the canvas.
        n_channels: Without effect: an image has the channels that it has.
        paste_x: Where the image lies: 0 at the left edge, 1 at the right one.
        paste_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        ratio: How many times as high and wide the canvas is, 1 or more; fractions of pixels are cut off.

    Returns:
        Images of the same dtype and layout. A volume is centred in depth.

    Raises:
        ArgumentError: There are too many or too few values for the channels.

    >>> paste(numpy.ones((1, 2), "uint8"), ratio=2, fill_value=7, paste_x=1.0, paste_y=0.0).tolist()
    [[7, 7, 1, 1], [7, 7, 7, 7]]
    """
    positions = {"D": 0.5, "H": paste_y, "W": paste_x}
    corner = [
        int(numpy.float32(positions[letter]) * numpy.float32(size - extent)) if letter in positions else 0
        for letter, size, extent in zip(layout, out.shape, image.shape, strict=True)
    ]
    place = layout.index("C") if "C" in layout else None
    channels = image.shape[place] if place is not None else 1
    regions.pasted(image, corner, _fill("paste", fill_value, channels, place, image.ndim, "fill_value"), out)
    return out


def _as_input(image: Array, /, **_: Any) -> Spec:
    return image.shape, image.dtype


@operator(layouts=LAYOUTS, output=_as_input)
def grid_mask(
    image: Array, /, *, angle: PerSample[float] = 0.0, ratio: PerSample[float] = 0.5, shift_x: PerSample[float] = 0.0,
    shift_y: PerSample[float] = 0.0, tile: PerSample[_Side] = 100, layout: Layout = "HWC", out: Array = None,
) -> Array:  # fmt: skip
    """Set a square in each tile of a grid to 0, as augmentation by hiding does.

    Args:
        angle: How far the grid is rotated about the upper left corner of the image, in radians.
        ratio: The side of a square, as a part of that of its tile.
        shift_x: How many pixels the grid is moved to the right.
        shift_y: How many pixels the grid is moved down.
        tile: The side of a tile in pixels.

    Returns:
        Images of the same shape, dtype and layout; all frames of a video are masked alike, and all slices of a volume.

    >>> grid_mask(numpy.ones((2, 6), "uint8"), tile=3, ratio=0.4).tolist()
    [[0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 1]]
    """
    last = [layout.index(letter) for letter in "FDHWC" if letter in layout]
    pixels, results = image.transpose(last), out.transpose(last)
    if "C" not in layout:
        pixels, results = pixels[..., None], results[..., None]
    regions.masked(pixels, tile, ratio, angle, (shift_x, shift_y), results)
    return out
