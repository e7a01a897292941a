"""Numbers of magnitudes, with signs that several augmentations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import dynamic
from dynamic import ArgumentError, Batch, Tensor
from dynamic.errors import shown
from dynamic.random import Keyed

from ._draws import Source, handed

__all__ = [
    "SignedMagnitudeBin",
    "bins_of",
    "chosen",
    "each_of",
    "is_range",
    "is_whole",
    "plain",
    "signed_bin",
    "sizes_of",
]


def chosen(value: Any, places: NDArray[numpy.intp]) -> Any:
    """The bins of some of the samples."""
    return value._selected(places) if isinstance(value, (Batch, SignedMagnitudeBin)) else value


class SignedMagnitudeBin:
    """A magnitude and its sign, for each sample: made by `signed_bin`.

    Args:
        magnitude_bin: An integer, or one for each sample.
        random_sign: 1 for each sample whose magnitude is negated, and 0 for others.
    """

    __slots__ = ("_bin", "_sign")

    def __init__(self, magnitude_bin: int | Batch, random_sign: Batch) -> None:
        self._bin, self._sign = magnitude_bin, random_sign

    @property
    def bin(self) -> int | Batch:
        """The magnitude."""
        return self._bin

    @property
    def random_sign(self) -> Batch:
        """1 for each sample whose magnitude is negated, and 0 for others."""
        return self._sign

    def __getitem__(self, index: int) -> SignedMagnitudeBin:
        """The magnitude of one of several augmentations, each of which has a number in every sample."""
        own = self._bin.slice[index] if isinstance(self._bin, Batch) and self._bin.ndim else self._bin
        return SignedMagnitudeBin(own, self._sign.slice[index])

    def _beside(self) -> tuple[int | Batch, ...]:
        """The Batch that gives the number of samples; one sign may be that of one sample."""
        return (self._bin, self._sign) if len(self._sign) > 1 else (self._bin,)

    def _selected(self, places: NDArray[numpy.intp]) -> SignedMagnitudeBin:
        return SignedMagnitudeBin(chosen(self._bin, places), chosen(self._sign, places))


def signed_bin(
    magnitude_bin: int | Batch,
    random_sign: Batch | None = None,
    seed: int | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
) -> SignedMagnitudeBin:
    """Give magnitudes signs, so that several augmentations negate alike.

    Args:
        magnitude_bin: An integer of 0 or more, or a Batch of them.
        random_sign: A Batch of 0 and 1, which is negated; by default drawn.
        seed: In pipelines only: calls of one seed draw alike.
        shape: How many signs a sample has, for several augmentations.
        batch_size: Number of samples where the magnitude is no Batch.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Raises:
        ArgumentError: The magnitude is no integer of 0 or more; a sign is neither 0 nor 1; there are signs, and a shape
            or seed for others; or nobody knows how many samples there are.

    >>> from dynamic.auto_aug.core import signed_bin
    >>> signed_bin(3, batch_size=4, rng=ndd.random.RNG(5)).random_sign.tolist()
    [0, 0, 0, 1]
    """
    name = "auto_aug.signed_bin"
    if not isinstance(magnitude_bin, Batch) and not (is_whole(magnitude_bin) and magnitude_bin >= 0):
        raise ArgumentError(name, "magnitude_bin", "an integer of 0 or more, or a Batch of them", shown(magnitude_bin))
    if random_sign is not None:
        if seed is not None or shape is not None:
            got = "both"
            raise ArgumentError(name, "random_sign", "left out when 'seed' or 'shape' is given", got)
        if not isinstance(random_sign, Batch) or any(((s != 0) & (s != 1)).any() for s in random_sign.samples):
            raise ArgumentError(name, "random_sign", "a Batch of 0 and 1", shown(random_sign))
        return SignedMagnitudeBin(magnitude_bin, random_sign)
    if isinstance(magnitude_bin, Batch):
        if batch_size not in (None, len(magnitude_bin)):
            raise ArgumentError(name, "batch_size", f"{len(magnitude_bin)}, like 'magnitude_bin'", shown(batch_size))
        batch_size = len(magnitude_bin)
    arguments: dict[str, Any] = {"batch_size": batch_size, "shape": shape, "rng": rng, "seed": seed}
    signs = handed(name, _signs, (), {k: value for k, value in arguments.items() if value is not None})
    return SignedMagnitudeBin(magnitude_bin, signs)


def _signs(*, batch_size: int | None = None, shape: Any = None, rng: Source | None = None) -> Batch:
    if batch_size is None and not isinstance(rng, Keyed):
        raise ArgumentError("auto_aug.signed_bin", "batch_size", "given when 'magnitude_bin' is not a Batch", "nothing")
    found = dynamic.random.uniform(
        values=[0, 1], dtype="int32", shape=shape, batch_size=batch_size, device="cpu", rng=rng
    )
    return found if isinstance(found, Batch) else dynamic.as_batch([found])


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)


def bins_of(name: str, value: Any) -> int:
    """A number of magnitudes."""
    if not is_whole(value) or value < 1:
        raise ArgumentError(name, "num_magnitude_bins", "an integer of 1 or more", shown(value))
    return int(value)


def each_of(name: str, argument: str, value: Any, count: int) -> NDArray[numpy.int64]:
    """An integer for each sample."""
    if isinstance(value, Batch):
        if len(value) != count or any(sample.size != 1 for sample in value.samples):
            raise ArgumentError(name, argument, f"one number for each of {count} samples", shown(value.shape))
        value = numpy.concatenate([sample.reshape(1) for sample in value.cpu().samples])
    elif isinstance(value, Tensor):
        value = value.cpu().array
    numbers = numpy.asarray(value)
    if numbers.dtype.kind not in "iu":
        raise ArgumentError(name, argument, "an integer, or one for each sample", shown(value))
    if numbers.shape not in ((), (1,), (count,)):
        raise ArgumentError(name, argument, f"one number for each of {count} samples", shown(value))
    return numpy.broadcast_to(numbers.astype(numpy.int64), (count,))


def sizes_of(shape: Any, count: int) -> NDArray[numpy.float32]:
    """Width and height of each sample, in shape (N, 2), where the shape of all or of each is given."""
    given = shape.cpu().samples if isinstance(shape, Batch) else [numpy.asarray(shape)] * count
    for one in given:
        if one.ndim != 1 or one.size < 2 or one.dtype.kind not in "iuf" or not ((one >= 0) & numpy.isfinite(one)).all():
            raise ArgumentError("auto_aug.translate", "shape", "height and width", shown(shape))
    return numpy.array([[one[1], one[0]] for one in given], numpy.float32)


def is_range(span: Any) -> bool:
    """Whether these are the first and the last magnitude, or an array of all."""
    try:
        numbers = numpy.asarray(span)
    except ValueError:  # lists of different lengths
        return False
    several = isinstance(span, numpy.ndarray) and len(numbers.shape) == 1 and len(span) > 0
    return numbers.dtype.kind in "iuf" and (several or numbers.shape == (2,))


def plain(number: Any) -> Any:
    """A number of Python, which each version of NumPy shows alike."""
    return number.item() if isinstance(number, numpy.generic) else number
