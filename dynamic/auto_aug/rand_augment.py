"""RandAugment: a few augmentations of each image, by chance, all of one strength."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic import ArgumentError, Batch, Tensor
from dynamic._base.docstrings import described_as
from dynamic.errors import shown

from . import augmentations as a
from ._bins import SignedMagnitudeBin, bins_of
from ._draws import Source, drawn, laid_out, on_samples, sample_scheme, scheme, whole_number
from .auto_augment import auto_augment
from .core import Augmentation, check, select

__all__ = [
    "apply_rand_augment",
    "get_rand_augment_non_monotonic_suite",
    "get_rand_augment_suite",
    "rand_augment",
]


@sample_scheme
@described_as(auto_augment)
def rand_augment(
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    monotonic_mag: bool = True,
    excluded: Sequence[str] | None = None,
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
) -> Tensor | Batch:
    """Give each image `n` augmentations, drawn for it, of strength `m` (https://arxiv.org/abs/1909.13719).

    Args:
        n: How many augmentations, 0 or more.
        m: Their strength, 0 to `num_magnitude_bins` - 1.
        num_magnitude_bins: How many strengths there are.
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 100 by default.
        max_translate_rel: The same as a part of `shape`, 100 / 224 by default.
        monotonic_mag: Whether a larger `m` always changes more; the ranges of AutoAugment do not.
        excluded: Names of augmentations to leave out.

    Returns:
        Images of the same shapes, dtype and layout.

    Raises:
        ArgumentError: An argument is out of its range, or contradicts another.

    >>> from dynamic.auto_aug import rand_augment
    >>> images = ndd.as_batch(numpy.full((2, 4, 4, 3), 99, "uint8"), layout="HWC")
    >>> augmented = rand_augment.rand_augment(images, n=2, m=9, rng=ndd.random.RNG(5).keyed([17, 4]))
    >>> augmented.shape
    [(4, 4, 3), (4, 4, 3)]
    """
    kind = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    suite = a.without("rand_augment", kind(shape is not None, max_translate_abs, max_translate_rel), excluded)
    own = {} if shape is None else {"shape": shape}
    further = {"fill_value": fill_value, "interp_type": interp_type, **own}
    return _applied("rand_augment", suite, data, n, m, num_magnitude_bins, batch_size, rng, further)


@scheme
@described_as(rand_augment)
def apply_rand_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
    **kwargs: Any,
) -> Tensor | Batch:
    """Give each image `n` augmentations of strength `m`, drawn for it from a list of one's own.

    Args:
        augmentations: The list.
        data: A Batch, or one image.
        kwargs: Further arguments of the augmentations; each gets those that it takes.

    Raises:
        ArgumentError: An argument is out of its range, or none of the augmentations takes it.
    """
    return _applied("apply_rand_augment", augmentations, data, n, m, num_magnitude_bins, batch_size, rng, kwargs)


def _applied(
    name: str,
    augmentations: Sequence[Augmentation],
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int,
    batch_size: int | None,
    rng: Source | None,
    kwargs: dict[str, Any],
) -> Tensor | Batch:
    bins = bins_of(name, num_magnitude_bins)
    for argument, value, most in (("n", n, None), ("m", m, bins - 1)):
        whole = isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)
        if not whole or value < 0 or (most is not None and value > most):
            expected = "an integer of 0 or more" if most is None else f"an integer of 0 to {most}"
            raise ArgumentError(name, argument, expected, shown(value))
    if n and not augmentations:
        raise ArgumentError(name, "augmentations", "at least one", "none")

    def augmented(batch: Batch) -> Batch:
        batch = laid_out(batch)
        check(name, augmentations, batch, bins, kwargs)
        with drawn(name, batch, 2 * n, rng) as numbers:
            for step in range(n):
                which, sign = whole_number(numbers[:, 2 * step], len(augmentations)), numbers[:, 2 * step + 1] < 0.5
                strength = SignedMagnitudeBin(int(m), Batch(sign.astype(numpy.int32)))
                batch = select(augmentations, which, batch, magnitude_bin=strength, num_magnitude_bins=bins, **kwargs)
        return batch

    return on_samples(name, augmented, data, rng, *kwargs.values(), batch_size=batch_size)


def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The augmentations of RandAugment, each stronger with its magnitude.

    Args:
        use_shape: Whether images are moved by a part of their shape.
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 100 by default.
        max_translate_rel: The same as a part of the shape, 100 / 224 by default.
    """
    moves = a.translations("rand_augment", use_shape, max_translate_abs, max_translate_rel, 100, 100 / 224)
    return a.suite(moves, shear=0.3, angle=30, enhance=(0, 0.9), bits=(8, 4), threshold=(256, 0))


@described_as(get_rand_augment_suite)
def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The same with the ranges of AutoAugment: colours change least in the middle, and fewer bits stay at first."""
    moves = a.translations("rand_augment", use_shape, max_translate_abs, max_translate_rel, 100, 100 / 224)
    return a.suite(moves, shear=0.3, angle=30, enhance=(0.1, 1.9), bits=(0, 4), threshold=(0, 256), centred=False)
