"""TrivialAugment: one augmentation of each image, of a strength that is drawn as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynamic import ArgumentError, Batch, Tensor
from dynamic._base.docstrings import described_as

from . import augmentations as a
from ._bins import SignedMagnitudeBin, bins_of
from ._draws import Source, drawn, laid_out, on_samples, sample_scheme, scheme, whole_number
from .core import Augmentation, check, select
from .rand_augment import rand_augment

__all__ = ["apply_trivial_augment", "get_trivial_augment_wide_suite", "trivial_augment_wide"]


@sample_scheme
@described_as(rand_augment)
def trivial_augment_wide(
    data: Any,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    excluded: Sequence[str] | None = None,
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
) -> Tensor | Batch:
    """Give each image one augmentation, drawn for it with its strength (https://arxiv.org/abs/2103.10158).

    Args:
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 32 by default.
        max_translate_rel: The same as a part of `shape`, 1 by default.

    Returns:
        Images of the same shapes, dtype and layout.

    Raises:
        ArgumentError: An argument is out of its range, or contradicts another.

    >>> from dynamic.auto_aug import trivial_augment
    >>> image = ndd.as_tensor(numpy.full((4, 4, 3), 99, "uint8"), layout="HWC")
    >>> trivial_augment.trivial_augment_wide(image, rng=ndd.random.RNG(5)).shape
    (4, 4, 3)
    """
    suite = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    own = {} if shape is None else {"shape": shape}
    suite = a.without("trivial_augment_wide", suite, excluded)
    further = {"fill_value": fill_value, "interp_type": interp_type, **own}
    return _applied("trivial_augment_wide", suite, data, num_magnitude_bins, batch_size, rng, further)


@scheme
@described_as(trivial_augment_wide)
def apply_trivial_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    num_magnitude_bins: int = 31,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
    **kwargs: Any,
) -> Tensor | Batch:
    """Give each image one augmentation of any strength, drawn for it from a list of one's own.

    Args:
        augmentations: The list.
        data: A Batch, or one image.
        kwargs: Further arguments of the augmentations; each gets those that it takes.

    Raises:
        ArgumentError: The list is empty, or none of the augmentations takes an argument.
    """
    return _applied("apply_trivial_augment", augmentations, data, num_magnitude_bins, batch_size, rng, kwargs)


def _applied(
    name: str,
    augmentations: Sequence[Augmentation],
    data: Any,
    num_magnitude_bins: int,
    batch_size: int | None,
    rng: Source | None,
    kwargs: dict[str, Any],
) -> Tensor | Batch:
    bins = bins_of(name, num_magnitude_bins)
    if not augmentations:
        raise ArgumentError(name, "augmentations", "at least one", "none")

    def augmented(batch: Batch) -> Batch:
        batch = laid_out(batch)
        check(name, augmentations, batch, bins, kwargs)
        with drawn(name, batch, 3, rng) as numbers:
            sign = Batch((numbers[:, 1] < 0.5).astype(numpy.int32))
            strength = SignedMagnitudeBin(Batch(whole_number(numbers[:, 2], bins)), sign)
            which = whole_number(numbers[:, 0], len(augmentations))
            found: Batch = select(
                augmentations, which, batch, magnitude_bin=strength, num_magnitude_bins=bins, **kwargs
            )
        return found

    return on_samples(name, augmented, data, rng, *kwargs.values(), batch_size=batch_size)


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The 14 augmentations of TrivialAugment in their wide ranges.

    Args:
        use_shape: Whether images are moved by a part of their shape.
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 32 by default.
        max_translate_rel: The same as a part of the shape, 1 by default.
    """
    moves = a.translations("trivial_augment_wide", use_shape, max_translate_abs, max_translate_rel, 32, 1.0)
    return a.suite(moves, shear=0.99, angle=135, enhance=(0.01, 0.99), bits=(8, 2), threshold=(256, 0))
