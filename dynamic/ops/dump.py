"""Images as files to look at, for finding mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from dynamic._arrays.array import Array
from dynamic.data import Batch, Tensor, as_tensor
from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError, shown

from .values import copy

__all__ = ["dump_image"]

_NAME = "dump_image"
_LAYOUTS = ("HWC", "CHW", "HW")
_NOT_IN_NAMES = frozenset("/\\\0")


def dump_image(
    image: Any,
    /,
    *,
    input_layout: str = "HWC",
    suffix: str = "",
    batch_size: int | None = None,
    device: DeviceLike = None,
) -> Tensor | Batch:
    """Write images to files in the working folder, to look at them, and pass them on.

    The file of sample 3 is ``3-SUFFIX-0.ppm``, in the text form of PPM, whatever was there before.

    Args:
        image: uint8 images of 1 or 3 channels.
        input_layout: "HWC", "CHW" or "HW": of images without a layout.
        suffix: The middle part of the names of files.
        batch_size: Number of samples to make of an image that is no Batch.
        device: Where the result is; by default where the image is.

    Returns:
        A copy of the images.

    Raises:
        ArgumentError: The data are no such images, or the suffix leads to another folder. No file is written.
        OSError: A file cannot be written.

    >>> ndd.dump_image(numpy.zeros((2, 2, 2), "uint8"))
    Traceback (most recent call last):
    dynamic.errors.ArgumentError: dump_image(): argument 'image' must be of 1 or 3 channels; got 2 channels.
    """
    data = image if isinstance(image, (Batch, Tensor)) else as_tensor(image)
    copied: Tensor | Batch = copy(data, batch_size=batch_size, device=device)
    if input_layout not in _LAYOUTS:
        raise ArgumentError(_NAME, "input_layout", f"one of {', '.join(map(repr, _LAYOUTS))}", shown(input_layout))
    if not isinstance(suffix, str) or _NOT_IN_NAMES & set(suffix):
        raise ArgumentError(_NAME, "suffix", "a part of the name of a file, without '/'", shown(suffix))
    layout = copied.layout or ("HW" if copied.ndim == 2 else input_layout)
    if layout not in _LAYOUTS or len(layout) != copied.ndim:
        got = f"layout {layout!r} of {copied.ndim} dimensions"
        raise ArgumentError(_NAME, "image", f"laid out as {', '.join(_LAYOUTS)}", got)
    if copied.dtype != "uint8":
        hint = "Convert it with cast(x, dtype='uint8')."
        raise ArgumentError(_NAME, "image", "of dtype uint8", str(copied.dtype.dtype), hint)
    here = copied.cpu()
    samples = [_pixels(sample, layout) for sample in (here.samples if isinstance(here, Batch) else [here.numpy()])]
    for i, pixels in enumerate(samples):
        height, width, channels = pixels.shape
        rows = "".join(" ".join(map(str, row)) + "\n" for row in pixels.reshape(height, -1).tolist())
        text = f"{'P2' if channels == 1 else 'P3'}\n{width} {height}\n255\n{rows}"
        Path(f"{i}-{suffix}-0.ppm").write_text(text, encoding="ascii")
    return copied


def _pixels(sample: Array, layout: str) -> Array:
    """An image with its channels last.

    Raises:
        ArgumentError: It has others than 1 or 3.
    """
    pixels = sample[..., None] if layout == "HW" else sample.transpose(1, 2, 0) if layout == "CHW" else sample
    if pixels.shape[-1] not in (1, 3):
        raise ArgumentError(_NAME, "image", "of 1 or 3 channels", f"{pixels.shape[-1]} channels")
    return numpy.ascontiguousarray(pixels)
