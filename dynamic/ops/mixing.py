"""Images and labels mixed with those of partners: mixup and cutmix."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy

from dynamic._arrays.array import Array, library
from dynamic._lift.argument import GIVEN, Layout, PerSample
from dynamic._lift.binding import function
from dynamic._lift.call import Call, Plan
from dynamic._lift.operator import Operator
from dynamic.data import Batch, Tensor, as_batch, as_tensor
from dynamic.dtypes import convert
from dynamic.errors import ArgumentError, shown
from dynamic.random import beta, uniform
from dynamic.random._rng import Keyed, Source, source

from .geometry import LAYOUTS

__all__ = ["cutmix", "mixup"]

Data: TypeAlias = "Tensor | Batch"
#: Partners: images and labels, or "batch".
Partners: TypeAlias = "tuple[Any, Any] | str"
_LAYOUTS = tuple(layout for layout in LAYOUTS if "D" not in layout)


@function
def mixup(
    images: Any,
    labels: Any,
    /,
    *,
    partners: Partners,
    alpha: float = 1.0,
    num_classes: int | None = None,
    rng: Source | None = None,
) -> tuple[Any, Any]:
    """Mix each image, or another array, and its label with those of a partner (Zhang and others, 2018).

    Of an image and its label a share is kept, drawn for each sample from a beta distribution; the rest is the
    partner's.

    Args:
        images: Images, videos, sounds or any other samples.
        labels: The class of each, an integer; or numbers that have one for each class.
        partners: Images of the same shapes and their labels, as ``reader.partners(...)`` reads them for each sample: a
            pair. Or "batch": the sample before it in the batch, and for the first the last. Then the batch matters:
            another batch size gives other images.
        alpha: Both parameters of the beta distribution, above 0. Small ones keep nearly all or nearly nothing.
        num_classes: The number of classes, where labels are integers.
        rng: Where the shares are drawn from, by default this thread's stream. With keyed draws they belong to samples.

    Returns:
        Images of the same dtype, integers rounded; and labels as float32 with one number for each class.

    Raises:
        ArgumentError: Partners have other shapes or dtypes, or a label is no class.

    >>> images = ndd.as_batch(numpy.array([0, 100, 200], "float32").reshape(3, 1, 1, 1), layout="HWC")
    >>> mixed, labels = ndd.mixup(images, [0, 1, 2], partners="batch", num_classes=3, rng=ndd.random.RNG(5))
    >>> [[round(x, 2) for x in row] for row in labels.tolist()]
    [[0.45, 0.0, 0.55], [0.34, 0.66, 0.0], [0.0, 0.63, 0.37]]
    """
    mixing = _Mixing("mixup", images, labels, partners, alpha, num_classes)
    with mixing.drawing(rng) as draw:
        shares = draw(beta, alpha=float(alpha), beta=float(alpha))
        mixed = _mixed(mixing.images, mixing.others, share=Batch(shares) if mixing.batched else float(shares[0]))
        return mixed, mixing.labels(shares)


@function
def cutmix(
    images: Any,
    labels: Any,
    /,
    *,
    partners: Partners,
    alpha: float = 1.0,
    num_classes: int | None = None,
    rng: Source | None = None,
) -> tuple[Any, Any]:
    """Put a window of a partner into each image, and mix the labels by its area (Yun and others, 2019).

    The share of the image that is kept is drawn for each sample from a beta distribution, and then the centre of the
    window. The window is cut off at the edges of the image, and labels are mixed by the area that is left.

    Args:
        images: Images or videos.
        labels: See `mixup`.
        partners: See `mixup`.
        alpha: Both parameters of the beta distribution, above 0.
        num_classes: The number of classes, where labels are integers.
        rng: Where shares and centres are drawn from, see `mixup`.

    Returns:
        Images of the same dtype, and labels as float32 with one number for each class.

    Raises:
        ArgumentError: Partners have other shapes or dtypes, or a label is no class.

    >>> images = ndd.as_batch(numpy.repeat(numpy.array([1, 2], "uint8"), 9).reshape(2, 3, 3), layout="HW")
    >>> mixed, labels = ndd.cutmix(images, [0, 1], partners="batch", num_classes=2, rng=ndd.random.RNG(11))
    >>> mixed.tolist()[0], [round(x, 2) for x in labels.tolist()[0]]
    ([[1, 1, 1], [2, 2, 1], [2, 2, 1]], [0.56, 0.44])
    """
    mixing = _Mixing("cutmix", images, labels, partners, alpha, num_classes)
    extents = mixing.extents()
    with mixing.drawing(rng) as draw:
        shares = draw(beta, alpha=float(alpha), beta=float(alpha))
        centres = draw(uniform, range=(0.0, 1.0), shape=2, dtype="float64").reshape(-1, 2)
        boxes, kept = _windows(extents, shares, centres)
        mixed = _cut(mixing.images, mixing.others, box=Batch(boxes) if mixing.batched else tuple(boxes[0].tolist()))
        return mixed, mixing.labels(kept)


def _windows(extents: Array, shares: Array, centres: Array) -> tuple[Array, Array]:
    """The windows of partners, (left, top, right, bottom), and the part of each image that is left: as torchvision's.

    Args:
        extents: (N, 2), width and height of each image.
        shares: The part that should be left, (N,).
        centres: (N, 2) in [0, 1).
    """
    halves = (0.5 * numpy.sqrt(1.0 - shares.astype(numpy.float64)))[:, None] * extents
    middle, halves = (centres * extents).astype(numpy.int64), halves.astype(numpy.int64)
    low, high = numpy.maximum(middle - halves, 0), numpy.minimum(middle + halves, extents)
    areas = numpy.maximum(extents.prod(axis=1), 1)
    return numpy.concatenate([low, high], axis=1), 1.0 - (high - low).prod(axis=1) / areas


class _Mixing:
    """Images and labels, and those of partners, checked."""

    def __init__(self, name: str, images: Any, labels: Any, partners: Any, alpha: Any, num_classes: int | None) -> None:
        self._name = name
        self.images = _data(images)
        self.batched = isinstance(self.images, Batch)
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < math.inf:
            raise ArgumentError(name, "alpha", "a number above 0", shown(alpha))
        own = _vectors(name, "labels", labels, num_classes, self._count)
        if isinstance(partners, str) and partners == "batch":
            if not self.batched:
                raise ArgumentError(name, "partners", "images and labels, of images that are no Batch", "'batch'")
            places = numpy.roll(numpy.arange(self._count), 1)
            assert isinstance(self.images, Batch)
            self.others: Data = self.images.select(places)
            theirs = own[places]
        elif isinstance(partners, (tuple, list)) and len(partners) == 2:
            self.others = _data(partners[0])
            theirs = _vectors(name, "partners", partners[1], num_classes, self._count)
        else:
            hint = 'Read them by reader.partners(rng.keyed(images)["partners"]).'
            raise ArgumentError(name, "partners", "images and labels, or 'batch'", shown(partners), hint)
        self._labels, self._device = (own, theirs), getattr(labels, "device", None)
        self._check()

    @property
    def _count(self) -> int:
        return len(self.images) if isinstance(self.images, Batch) else 1

    def _check(self) -> None:
        """Refuse images and partners that do not fit."""
        kinds = [type(self.images).__name__, type(self.others).__name__]
        counts = [len(x) if isinstance(x, Batch) else 1 for x in (self.images, self.others)]
        if kinds[0] != kinds[1] or counts[0] != counts[1]:
            expected = f"a {kinds[0]} of {counts[0]}, as the images are"
            raise ArgumentError(self._name, "partners", expected, f"a {kinds[1]} of {counts[1]}")
        if self.images._numpy_dtype != self.others._numpy_dtype:
            got = str(self.others.dtype)
            raise ArgumentError(self._name, "partners", f"of dtype {self.images.dtype}, as the images are", got)
        shapes = [x.shape if isinstance(x, Batch) else [x.shape] for x in (self.images, self.others)]
        for i, (one, other) in enumerate(zip(*shapes, strict=True)):
            if one != other:
                origin = self.images.origin
                source = "" if origin is None else f" ({origin.names[i]})"
                expected = f"of the shape of the image, {one}, as sample {i}{source}"
                hint = "Resize or crop all to one size before."
                raise ArgumentError(self._name, "partners", expected, f"{other}", hint)
        one, other = self._labels
        if one.shape != other.shape:
            got = f"{other.shape[1]}"
            raise ArgumentError(self._name, "partners", f"with {one.shape[1]} numbers in a label", got)

    def extents(self) -> Array:
        """Width and height of each image."""
        layout = self.images.layout or {2: "HW", 3: "HWC", 4: "FHWC"}.get(self.images.ndim, "")
        if not {"H", "W"} <= set(layout):
            raise ArgumentError(self._name, "images", "laid out with H and W", f"layout {layout!r}")
        shapes = self.images.shape if isinstance(self.images, Batch) else [self.images.shape]
        places = [layout.index("W"), layout.index("H")]
        return numpy.array(shapes, numpy.int64).reshape(-1, self.images.ndim)[:, places]

    @contextlib.contextmanager
    def drawing(self, rng: Source | None) -> Iterator[Callable[..., Array]]:
        """A function that draws for each sample of a distribution. After an error nothing has been drawn."""
        stream = source(self._name, rng)
        size = stream.batch_size if isinstance(stream, Keyed) else self._count if self.batched else None
        if (1 if size is None else size) != self._count or (size is None) is self.batched:
            expected = f"for {self._count} samples, like the images"
            raise ArgumentError(self._name, "rng", expected, f"one for {1 if size is None else size}")
        turns = []

        def draw(distribution: Callable[..., Any], **arguments: Any) -> Array:
            turns.append(stream.turn)
            drawn = distribution(**arguments, batch_size=size, device="cpu", rng=stream)
            return numpy.asarray(drawn).reshape(-1)

        try:
            yield draw
        except BaseException:
            for turn in reversed(turns):
                stream.give_back(turn)
            raise

    def labels(self, shares: Array) -> Data:
        """The labels, mixed by the part of each that is kept."""
        kept = shares.astype(numpy.float32)[:, None]
        mixed = self._labels[0] * kept + self._labels[1] * (1 - kept)
        made: Data = Batch(mixed, None, self.images.origin) if self.batched else Tensor(mixed[0])
        return made if self._device is None else made.to_device(self._device)


def _data(given: Any) -> Data:
    return given if isinstance(given, (Tensor, Batch)) else as_tensor(given)


def _vectors(name: str, argument: str, given: Any, num_classes: int | None, count: int) -> Array:
    """Labels as float32 of shape (N, classes)."""
    data: Data = given if isinstance(given, (Tensor, Batch)) else as_batch(given) if count > 1 else as_tensor(given)
    host = data.cpu()
    rows = numpy.asarray(host.dense() if isinstance(host, Batch) else host.array)
    rows = rows[None] if isinstance(data, Tensor) and count == 1 and rows.shape[:1] != (1,) else rows
    rows = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    if len(rows) != count:
        raise ArgumentError(name, argument, f"labels of {count} samples, as the images are", f"of {len(rows)}")
    if rows.dtype.kind == "f":
        if num_classes not in (None, rows.shape[1]):
            raise ArgumentError(name, "num_classes", f"{rows.shape[1]}, as many as a label has", shown(num_classes))
        return rows.astype(numpy.float32)
    if num_classes is None:
        raise ArgumentError(name, "num_classes", "given where labels are integers", "nothing")
    if rows.dtype.kind not in "iu" or rows.shape[1] != 1:
        expected = "the class of each sample, or float numbers for each class"
        raise ArgumentError(name, argument, expected, f"{rows.dtype} of shape {rows.shape[1:]}")
    wrong = (rows < 0) | (rows >= num_classes)
    if wrong.any():
        i = int(wrong.argmax())
        raise ArgumentError(name, argument, f"classes of 0 to {num_classes - 1}", f"{rows[i, 0]} of sample {i}")
    return (rows == numpy.arange(num_classes)).astype(numpy.float32)


def _plan_of_pairs(call: Call) -> Plan:
    return Plan(call.shapes, call.dtype, weight=2.0)


def _mix(image: Array, other: Array, /, *, share: PerSample[float], out: Array = None) -> Array:
    """A part of an image and the rest of its partner."""
    xp, kind = library(image), numpy.dtype("float64" if image.dtype == numpy.float64 else "float32")
    kept: Any = kind.type(share)  # type: ignore[arg-type] # one number
    mixed = xp.multiply(image, kept, dtype=kind)
    mixed += xp.multiply(other, kind.type(1) - kept, dtype=kind)
    convert(xp, mixed, out.dtype, out)
    return out


def _put(
    image: Array, other: Array, /, *, box: PerSample[tuple[int, ...]], layout: Layout = GIVEN, out: Array = None
) -> Array:
    """An image with a window of its partner."""
    left, top, right, bottom = box  # type: ignore[misc] # those of one sample
    place: Sequence[slice] = [
        slice(top, bottom) if letter == "H" else slice(left, right) if letter == "W" else slice(None)
        for letter in layout
    ]
    out[...] = image
    out[tuple(place)] = other[tuple(place)]
    return out


_mixed: Any = Operator(_mix, plan=_plan_of_pairs, gpu=True, name="mixup")
_cut: Any = Operator(_put, _LAYOUTS, plan=_plan_of_pairs, gpu=True, name="cutmix")
