"""Windows in images: which part of them to take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from dynamic._argument import Between
from dynamic._array import Array, asarray
from dynamic._distributions import below
from dynamic._drawing import Call, distribution
from dynamic._rng import Source
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError, DeviceError, shown

__all__ = ["random_crop_generator"]

if TYPE_CHECKING:
    Pair: TypeAlias = Sequence[float]
    Count: TypeAlias = int
else:
    from typing import Annotated

    Pair = tuple[float, float]
    Count = Annotated[int, Between(1)]


@distribution
def random_crop_generator(
    shape: Any,
    /,
    *,
    random_area: Pair = (0.08, 1.0),
    random_aspect_ratio: Pair = (3 / 4, 4 / 3),
    num_attempts: Count = 10,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
) -> tuple[Tensor | Batch, Tensor | Batch]:
    """Draw a window of random area and aspect ratio for images of given shapes, as for training classifiers.

    The area is uniform in its range, the aspect ratio log-uniform, and both are drawn again until the window fits.
    Where no window can have so much area, or none was found, it is as large as the aspect ratios and the area allow.

    Args:
        shape: Height and width of the image, and more extents that do not matter: integers, shape (2,) or longer.
        random_area: The least and the most area, as a part of that of the image, more than 0.
        random_aspect_ratio: The least and the largest width / height, more than 0.
        num_attempts: How often to draw before giving up, 1 or more.
        batch_size: Number of samples; a Batch of shapes, and a keyed `rng`, say it too.
        device: The CPU.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        The upper left corner (y, x) of the window and its shape (height, width): int32 of shape (2,) each.

    Raises:
        ArgumentError: A range is empty or not positive, or a shape is none of an image.

    >>> anchor, shape = dynamic.random_crop_generator([480, 640], rng=dynamic.random.RNG(5))
    >>> anchor.tolist(), shape.tolist()
    ([2, 429], [178, 152])
    """
    name = "random_crop_generator"
    if not isinstance(shape, (Tensor, Batch)):
        shape = Tensor(asarray(shape, name, "shape"))
    given = {"random_area": random_area, "random_aspect_ratio": random_aspect_ratio, "num_attempts": num_attempts}
    call = Call(name, None, batch_size, device, rng, shape if isinstance(shape, Batch) else None, **given)
    if call.device.device_type != "cpu" or shape.device.device_type != "cpu":
        raise DeviceError("random_crop_generator() runs on cpu; pass device='cpu', and its input as shape.cpu().")
    area, ratio = _range(call, "random_area"), _range(call, "random_aspect_ratio")
    images = [_image(f"shape[{i}]" if isinstance(shape, Batch) else "shape", array)
              for i, array in enumerate(shape.samples if isinstance(shape, Batch) else [shape.array])]  # fmt: skip
    n = 1 if call.n is None else call.n
    draw = call.source.draw(call.n)
    images = images * n if isinstance(shape, Tensor) else images
    windows = [_window(draw.stream(i), *images[i], area, ratio, call.values["num_attempts"]) for i in range(n)]
    both = numpy.array(windows, numpy.int32).reshape(n, 2, 2)
    anchors, shapes = both[:, 0].copy(), both[:, 1].copy()
    if call.n is None:
        return Tensor(anchors[0]), Tensor(shapes[0])
    origin = shape.origin
    return Batch(anchors, origin=origin), Batch(shapes, origin=origin)


def _range(call: Call, argument: str) -> tuple[float, float]:
    low, high = call.values[argument]
    if not 0 < low <= high < math.inf:
        expected = "two finite numbers above 0, the first no larger than the second"
        raise ArgumentError(call.name, argument, expected, shown(call.values[argument]))
    return low, high


def _image(argument: str, array: Array) -> tuple[int, int]:
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in "iu" or (array[:2] < 1).any():
        expected = "the height and width of an image, integers above 0"
        raise ArgumentError("random_crop_generator", argument, expected, shown(array.tolist()))
    return int(array[0]), int(array[1])


def _window(
    words: Iterator[int], height: int, width: int, area: tuple[float, float], ratio: tuple[float, float], attempts: int
) -> list[tuple[int, int]]:
    """The anchor and the shape of a window."""
    widest, tallest = max(1, int(height * ratio[1])), max(1, int(width / ratio[0]))
    least = area[0] * height * width
    if height * widest < least:  # no window in such a wide image is so large
        shape = height, widest
    elif tallest * width < least:
        shape = tallest, width
    else:
        shape = _tried(words, height, width, area, ratio, attempts) or _limited(height, width, area[1], ratio)
    shape = min(shape[0], height), min(shape[1], width)
    anchor = below(words, height - shape[0] + 1), below(words, width - shape[1] + 1)
    return [anchor, shape]


def _tried(
    words: Iterator[int], height: int, width: int, area: tuple[float, float], ratio: tuple[float, float], attempts: int
) -> tuple[int, int] | None:
    """A window of random area and aspect ratio that fits, or None if so many have not."""
    logarithms = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(attempts):
        pixels = _between(words, *area) * height * width
        wanted = math.exp(_between(words, *logarithms))
        w, h = (
            max(1, math.floor(math.sqrt(pixels * wanted) + 0.5)),
            max(1, math.floor(math.sqrt(pixels / wanted) + 0.5)),
        )
        if w <= width and h <= height and ratio[0] <= w / h <= ratio[1]:
            return h, w
    return None


def _limited(height: int, width: int, most: float, ratio: tuple[float, float]) -> tuple[int, int]:
    """The largest window of an allowed aspect ratio, made smaller if it has too much area."""
    h, w = height, width
    if width / height > ratio[1]:
        w = max(1, int(height * ratio[1]))
    elif width / height < ratio[0]:
        h = max(1, int(width / ratio[0]))
    scale = math.sqrt(min(1.0, most * height * width / (h * w)))
    return max(1, int(h * scale)), max(1, int(w * scale))


def _between(words: Iterator[int], low: float, high: float) -> float:
    return low + (high - low) * next(words) * 2.0**-32
