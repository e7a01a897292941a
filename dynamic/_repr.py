"""How Tensors and Batches print themselves: as DALI's do, in bounded time and length."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["of_batch", "of_tensor"]

_EDGE = 2  # items shown at either end of what is left out
_INDENT = "    "


def _text(array: Any) -> str:
    host = array if isinstance(array, numpy.ndarray) else array.get()
    text = numpy.array2string(host, edgeitems=_EDGE, separator=" ")
    first, *lines = text.split("\n")
    return "\n".join([first, *(_INDENT + line if line else "" for line in lines)])


def of_tensor(tensor: Any) -> str:
    """The text of a Tensor."""
    lines = [_text(tensor.array), *_properties(tensor), f"shape={tensor.shape})"]
    return f"Tensor(\n{_INDENT}" + f",\n{_INDENT}".join(lines)


def of_batch(batch: Any) -> str:
    """The text of a Batch."""
    n = len(batch)
    samples = batch.samples
    many = n > 2 * _EDGE and sum(s.size for s in samples) > numpy.get_printoptions()["threshold"]
    texts = [_text(s) for s in (samples[:_EDGE] if many else samples)]
    if many:
        texts += ["...", *(_text(s) for s in samples[-_EDGE:])]
    gap = f",\n\n{_INDENT}" if batch.ndim > 1 else f",\n{_INDENT}"
    lines = ["[" + gap.join(texts) + "]", *_properties(batch), f"num_samples={n}", f"shape={_shapes(batch)})"]
    return f"Batch(\n{_INDENT}" + f",\n{_INDENT}".join(lines)


def _properties(data: Any) -> list[str]:
    layout = [f'layout="{data.layout}"'] if data.layout else []
    return [f"dtype={data.dtype}", *layout, f'device="{data.device}"']


def _shapes(batch: Any) -> str:
    shapes = [str(shape) for shape in batch.shape]
    if len(shapes) > 16:
        shapes = [*shapes[:_EDGE], "...", *shapes[-_EDGE:]]
    return "[" + ", ".join(shapes) + "]"
