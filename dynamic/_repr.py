"""How Tensors and Batches show themselves: text as DALI's, with pictures in a notebook; both bounded in length."""

from __future__ import annotations

import base64
import html
from typing import Any

import cv2
import numpy

from ._array import current, device_of, library
from ._transfer import moved
from .devices import Device

__all__ = ["html_of", "of_batch", "of_tensor"]

_EDGE = 2  # items shown at either end of what is left out
_INDENT = "    "


def _text(array: Any) -> str:
    if isinstance(array, numpy.ndarray):
        text = numpy.array2string(array, edgeitems=_EDGE, separator=" ")
    else:
        part = _edges(array)
        most = part.size if part is array else 0
        text = numpy.array2string(moved(part, Device.CPU), edgeitems=_EDGE, separator=" ", threshold=most)
    first, *lines = text.split("\n")
    return "\n".join([first, *(_INDENT + line if line else "" for line in lines)])


def _edges(array: Any) -> Any:
    """An array of a GPU, or where not all of it is shown a small one of which the same is."""
    if array.size <= numpy.get_printoptions()["threshold"]:
        return array
    with current(device_of(array)):
        for axis, extent in enumerate(array.shape):
            if extent > 2 * _EDGE + 1:
                lead = (slice(None),) * axis
                ends = [array[(*lead, slice(_EDGE + 1))], array[(*lead, slice(-_EDGE, None))]]
                array = library(array).concatenate(ends, axis)
        return array.copy()


def of_tensor(tensor: Any) -> str:
    """The text of a Tensor."""
    lines = [_text(tensor.array), *_properties(tensor), f"shape={tensor.shape})"]
    return f"Tensor(\n{_INDENT}" + f",\n{_INDENT}".join(lines)


def of_batch(batch: Any) -> str:
    """The text of a Batch."""
    n, whole = len(batch), batch.whole
    elements = sum(max(s.size, 1) for s in batch.samples) if whole is None else max(whole.size, n)
    many = n > 2 * _EDGE and elements > numpy.get_printoptions()["threshold"]
    shown = [*range(_EDGE), *range(n - _EDGE, n)] if many else range(n)
    texts = [_text(batch._sample(i).array) for i in shown]
    if many:
        texts.insert(_EDGE, "...")
    gap = f",\n\n{_INDENT}" if batch.ndim > 1 else f",\n{_INDENT}"
    lines = ["[" + gap.join(texts) + "]", *_properties(batch), f"num_samples={n}", f"shape={_shapes(batch)})"]
    return f"Batch(\n{_INDENT}" + f",\n{_INDENT}".join(lines)


def _properties(data: Any) -> list[str]:
    layout = [f'layout="{data.layout}"'] if data.layout else []
    return [f"dtype={data.dtype}", *layout, f'device="{data.device}"']


def _shapes(batch: Any) -> str:
    shapes = batch.shape
    if len(shapes) > 16:
        shapes = [*shapes[:_EDGE], "...", *shapes[-_EDGE:]]
    return "[" + ", ".join(map(str, shapes)) + "]"


_THUMBNAIL = 128  # pixels of its longer side
SHOWN = 8  # samples of a batch that are drawn


def html_of(text: str, samples: list[Any], layout: str | None) -> str:
    """The text for a notebook, with pictures of the samples above it where they are images."""
    pictures = "".join(map(_picture, samples[:SHOWN])) if _is_image(samples, layout) else ""
    return f"<div>{pictures}</div><pre>{html.escape(text)}</pre>" if pictures else f"<pre>{html.escape(text)}</pre>"


def _is_image(samples: list[Any], layout: str | None) -> bool:
    """Whether samples are host images of bytes, gray or in colour."""
    return layout in ("HW", "HWC") and all(
        isinstance(s, numpy.ndarray) and s.dtype == numpy.uint8 and s.size and (s.ndim == 2 or s.shape[2] in (1, 3))
        for s in samples
    )


def _picture(image: Any) -> str:
    step = -(-max(image.shape[:2]) // _THUMBNAIL)
    small = image[::step, ::step]
    if small.ndim == 3 and small.shape[2] == 3:
        small = small[..., ::-1]
    _, png = cv2.imencode(".png", numpy.ascontiguousarray(small))
    data = base64.b64encode(png.tobytes()).decode()
    return f'<img alt="{image.shape[0]} x {image.shape[1]}" src="data:image/png;base64,{data}">'
