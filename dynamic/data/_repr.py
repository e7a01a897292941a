"""How Tensors and Batches show themselves: text as DALI's, with pictures in a notebook; both bounded in length."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Any

import cv2
import numpy

from dynamic._arrays.array import current, device_of, library
from dynamic.devices import Device

from ._transfer import moved

__all__ = ["html_of", "of_batch", "of_tensor"]

_EDGE = 2  # items shown at either end of a gap
_LINE = 25  # elements that a line counts as
_INDENT = "    "


def _text(array: Any, samples: int = 1) -> str:
    """The numbers of an array that is one of so many, all or those at its edges."""
    many = array.ndim > 2  # of images the corners are enough
    most = numpy.get_printoptions()["threshold"] // (samples * (1 + 3 * many))
    edge = 1 if many else _EDGE
    if not isinstance(array, numpy.ndarray):
        whole = array.size <= most
        array = moved(array if whole else _edges(array, edge), Device.CPU)
        most = array.size if whole else 0
    text = numpy.array2string(array, edgeitems=edge, separator=" ", threshold=most)
    first, *lines = text.split("\n")
    return "\n".join([first, *(_INDENT + line if line else "" for line in lines)])


def _edges(array: Any, edge: int) -> Any:
    """A small array of which the same is shown as of one on a GPU."""
    with current(device_of(array)):
        for axis, extent in enumerate(array.shape):
            if extent > 2 * edge + 1:
                lead = (slice(None),) * axis
                ends = [array[(*lead, slice(edge + 1))], array[(*lead, slice(-edge, None))]]
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
    edge = 1 if batch.ndim > 2 else _EDGE
    threshold = numpy.get_printoptions()["threshold"]
    many = n > 2 * edge and (elements > threshold or n * _LINE > threshold)
    shown = [*range(edge), *range(n - edge, n)] if many else range(n)
    texts = [_text(batch._sample(i).array, len(shown)) for i in shown]
    if many:
        texts.insert(edge, "...")
    gap = f",\n\n{_INDENT}" if batch.ndim > 1 else f",\n{_INDENT}"
    lines = ["[" + gap.join(texts) + "]", *_properties(batch), f"num_samples={n}", f"shape={_shapes(batch)})"]
    return f"Batch(\n{_INDENT}" + f",\n{_INDENT}".join(lines)


def _properties(data: Any) -> list[str]:
    layout = [f'layout="{data.layout}"'] if data.layout else []
    return [f"dtype={data.dtype}", *layout, f'device="{data.device}"']


def _shapes(batch: Any) -> str:
    shapes = batch.shape
    if len(shapes) > 8:
        shapes = [*shapes[:_EDGE], "...", *shapes[-_EDGE:]]
    return "[" + ", ".join(map(str, shapes)) + "]"


# Notebooks

SHOWN = 8  # samples of a batch that are drawn
_THUMBNAIL = 160  # pixels of the longer side of a picture
_ENLARGED = 64  # to which a smaller picture is drawn, pixel by pixel
_LINES = 24  # of a text that is not folded
_ROW = "display:flex; flex-wrap:wrap; gap:8px; align-items:flex-end; margin-bottom:4px"
_CHANNELS = (1, 3, 4)
_PLAIN = 8  # pixels, of which an image without a layout has as many at least in height and width


def html_of(data: Any, samples: Sequence[Any], text: str) -> str:
    """Pictures of samples, where they are images, with their names and shapes, above the text, folded if it is long.

    Args:
        data: A Tensor or a Batch.
        samples: The arrays to draw.
        text: Its text.
    """
    layout = _image_layout(samples, data.layout)
    pictures = "" if not layout else _pictures(data, samples, layout)
    numbers = f"<pre>{html.escape(text)}</pre>"
    if not pictures and text.count("\n") < _LINES:
        return numbers
    is_batch = hasattr(data, "batch_size")
    kind = f"Batch of {len(data)}" if is_batch else f"Tensor {_by(data.shape)}"
    summary = ", ".join([kind, str(data._numpy_dtype), *([data.layout] if data.layout else []), str(data.device)])
    if pictures and is_batch and len(data) > len(samples):
        summary += f"; the first {len(samples)} are shown"
    return f"<div>{pictures}<details><summary>{html.escape(summary)}</summary>{numbers}</details></div>"


def _by(shape: Sequence[int]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(map(str, shape))


def _image_layout(samples: Sequence[Any], layout: str | None) -> str | None:
    """The layout of samples that are images, gray, in colour or with transparency; None of others."""
    if not samples or any(sample.dtype.kind not in "buif" or not sample.size for sample in samples):
        return None
    shapes = [sample.shape for sample in samples]
    if not layout and samples[0].dtype.kind in "uf" and samples[0].ndim == 3:
        if all(shape[2] in _CHANNELS and min(shape[:2]) >= _PLAIN for shape in shapes):
            return "HWC"
        return "CHW" if all(shape[0] in _CHANNELS and min(shape[1:]) >= _PLAIN for shape in shapes) else None
    if layout is None or layout.removeprefix("F") not in ("HW", "HWC", "CHW"):
        return None
    if "C" in layout and any(shape[layout.index("C")] not in _CHANNELS for shape in shapes):
        return None
    return layout


def _pictures(data: Any, samples: Sequence[Any], layout: str) -> str:
    small = [_small(sample, layout) for sample in samples]
    low, high = _range(small)
    names = data.origin.names if data.origin is not None else [None] * len(small)
    each = zip(small, samples, names, strict=False)  # of the names, the first
    figures = [_figure(image, sample.shape, name, low, high) for image, sample, name in each]
    scale = "" if (low, high) == (0, 255) else f"<small>{low:.4g} is black, {high:.4g} is white.</small>"
    return f'<div style="{_ROW}">{"".join(figures)}</div>{scale}'


def _small(image: Any, layout: str) -> Any:
    """Every n-th pixel of an image, or of the first frame of a video, on the host: an array (H, W, C)."""
    with current(device_of(image)):
        if layout[0] == "F":
            image, layout = image[0], layout[1:]
        image = image.transpose(1, 2, 0) if layout == "CHW" else image.reshape(*image.shape[:2], -1)
        step = max(1, max(image.shape[:2]) // (2 * _THUMBNAIL))  # the rest is averaged
        return moved(image[::step, ::step], Device.CPU)


def _range(images: Sequence[Any]) -> tuple[float, float]:
    """The values that are black and white in all images: of bytes, or of [0, 1], or all that are there."""
    if images[0].dtype == numpy.uint8:
        return 0, 255
    if images[0].dtype == numpy.bool_:
        return 0, 1
    finite = [image[numpy.isfinite(image)] for image in images]
    values = [float(edge) for part in finite if part.size for edge in (part.min(), part.max())]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if images[0].dtype.kind == "f" and low >= 0 and high <= 255:
        return (0, 1) if high <= 1 else (0, 255)
    return low, high if high > low else low + 1


def _figure(image: Any, shape: Sequence[int], name: str | None, low: float, high: float) -> str:
    """One image with its name and shape."""
    if image.dtype != numpy.uint8:
        with numpy.errstate(all="ignore"):
            levels = (image.astype(numpy.float64) - low) * (255 / (high - low))
        image = numpy.clip(numpy.nan_to_num(levels), 0, 255).round().astype(numpy.uint8)
    height, width = image.shape[:2]
    factor = min(1.0, _THUMBNAIL / max(height, width))
    if factor < 1:
        size = max(1, round(width * factor)), max(1, round(height * factor))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        image = image.reshape(*image.shape[:2], -1)
    order = {3: [2, 1, 0], 4: [2, 1, 0, 3]}.get(image.shape[2], [0])
    _, png = cv2.imencode(".png", numpy.ascontiguousarray(image[..., order]))
    height, width = image.shape[:2]
    times = max(1, _ENLARGED // max(height, width))
    caption = html.escape(f"{name}, {_by(shape)}" if name else _by(shape))
    title = f"{html.escape(name)}<br>" if name else ""
    return (
        f'<figure style="margin:0"><img alt="{caption}" width="{width * times}" height="{height * times}" '
        f'style="image-rendering:{"pixelated" if times > 1 else "auto"}" '
        f'src="data:image/png;base64,{base64.b64encode(png.tobytes()).decode()}">'
        f'<figcaption style="font-size:smaller;max-width:{_THUMBNAIL}px;overflow-wrap:anywhere">'
        f"{title}{_by(shape)}</figcaption></figure>"
    )
