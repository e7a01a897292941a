"""AutoAugment: of each image one sequence of augmentations out of a policy that was found for a data set."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from dynamic import ArgumentError, Batch, Tensor
from dynamic._base.docstrings import described_as
from dynamic.errors import shown

from . import augmentations as a
from ._bins import SignedMagnitudeBin
from ._draws import Source, drawn, laid_out, on_samples, sample_scheme, scheme, whole_number
from .core import Augmentation, Policy, check, select

__all__ = [
    "apply_auto_augment",
    "auto_augment",
    "auto_augment_image_net",
    "get_image_net_policy",
    "get_reduced_cifar10_policy",
    "get_reduced_image_net_policy",
    "get_svhn_policy",
]

_BINS = 11
# The tables of the paper: augmentation, probability and magnitude of each step; "-" is no magnitude.
_IMAGE_NET = """\
equalize 0.8 -, shear_y 0.8 4
color 0.4 9, equalize 0.6 -
color 0.4 1, rotate 0.6 8
solarize 0.8 3, equalize 0.4 -
solarize 0.4 2, solarize 0.6 2
color 0.2 0, equalize 0.8 -
equalize 0.4 -, solarize_add 0.8 3
shear_x 0.2 9, rotate 0.6 8
color 0.6 1, equalize 1.0 -
invert 0.4 -, rotate 0.6 0
equalize 1.0 -, shear_y 0.6 3
color 0.4 7, equalize 0.6 -
posterize 0.4 6, auto_contrast 0.4 -
solarize 0.6 8, color 0.6 9
solarize 0.2 4, rotate 0.8 9
rotate 1.0 7, translate_y 0.8 9
solarize 0.8 4
shear_y 0.8 0, color 0.6 4
color 1.0 0, rotate 0.6 2
equalize 0.8 -
equalize 1.0 -, auto_contrast 0.6 -
shear_y 0.4 7, solarize_add 0.6 7
posterize 0.8 2, solarize 0.6 10
solarize 0.6 8, equalize 0.6 -
color 0.8 6, rotate 0.4 5"""
_REDUCED_CIFAR10 = """\
invert 0.1 -, contrast 0.2 6
rotate 0.7 2, translate_x 0.3 9
sharpness 0.8 1, sharpness 0.9 3
shear_y 0.5 8, translate_y 0.7 9
auto_contrast 0.5 -, equalize 0.9 -
shear_y 0.2 7, posterize 0.3 7
color 0.4 3, brightness 0.6 7
sharpness 0.3 9, brightness 0.7 9
equalize 0.6 -, equalize 0.5 -
contrast 0.6 7, sharpness 0.6 5
color 0.7 7, translate_x 0.5 8
equalize 0.3 -, auto_contrast 0.4 -
translate_y 0.4 3, sharpness 0.2 6
brightness 0.9 6, color 0.2 8
solarize 0.5 2
equalize 0.2 -, auto_contrast 0.6 -
equalize 0.2 -, equalize 0.6 -
color 0.9 9, equalize 0.6 -
auto_contrast 0.8 -, solarize 0.2 8
brightness 0.1 3, color 0.7 0
solarize 0.4 5, auto_contrast 0.9 -
translate_y 0.9 9, translate_y 0.7 9
auto_contrast 0.9 -, solarize 0.8 3
equalize 0.8 -, invert 0.1 -
translate_y 0.7 9, auto_contrast 0.9 -"""
_SVHN = """\
shear_x 0.9 4, invert 0.2 -
shear_y 0.9 8, invert 0.7 -
equalize 0.6 -, solarize 0.6 6
invert 0.9 -, equalize 0.6 -
equalize 0.6 -, rotate 0.9 3
shear_x 0.9 4, auto_contrast 0.8 -
shear_y 0.9 8, invert 0.4 -
shear_y 0.9 5, solarize 0.2 6
invert 0.9 -, auto_contrast 0.8 -
equalize 0.6 -, rotate 0.9 3
shear_x 0.9 4, solarize 0.3 3
shear_y 0.8 8, invert 0.7 -
equalize 0.9 -, translate_y 0.6 6
invert 0.9 -, equalize 0.6 -
contrast 0.3 3, rotate 0.8 4
invert 0.8 -
shear_y 0.7 6, solarize 0.4 8
invert 0.6 -, rotate 0.8 4
shear_y 0.3 7, translate_x 0.9 3
shear_x 0.1 6, invert 0.6 -
solarize 0.7 2, translate_y 0.6 7
shear_y 0.8 4, invert 0.8 -
shear_x 0.7 9, translate_y 0.8 3
shear_y 0.8 5, auto_contrast 0.7 -
shear_x 0.7 2, invert 0.1 -"""
_REDUCED_IMAGE_NET = """\
posterize 0.4 8, rotate 0.6 9
solarize 0.6 5, auto_contrast 0.6 -
equalize 0.8 -, equalize 0.6 -
posterize 0.6 7, posterize 0.6 6
equalize 0.4 -, solarize 0.2 4
equalize 0.4 -, rotate 0.8 8
solarize 0.6 3, equalize 0.6 -
posterize 0.8 5, equalize 1.0 -
rotate 0.2 3, solarize 0.6 8
equalize 0.6 -, posterize 0.4 6
rotate 0.8 8, color 0.4 0
rotate 0.4 9, equalize 0.6 -
equalize 0.8 -
invert 0.6 -, equalize 1.0 -
color 0.6 4, contrast 1.0 8
rotate 0.8 8, color 1.0 2
color 0.8 8, solarize 0.8 7
sharpness 0.4 7, invert 0.6 -
shear_x 0.6 5, equalize 1.0 -
color 0.4 0, equalize 0.6 -
equalize 0.4 -, solarize 0.2 4
solarize 0.6 5, auto_contrast 0.6 -
invert 0.6 -, equalize 1.0 -
color 0.6 4, contrast 1.0 8
equalize 0.8 -, equalize 0.6 -"""


@sample_scheme
def auto_augment(
    data: Any,
    policy_name: str = "image_net",
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
) -> Tensor | Batch:
    """Give each image the augmentations of one sequence out of a policy (https://arxiv.org/abs/1805.09501).

    Args:
        data: A Batch, or one image: uint8, "HWC", or a video, "FHWC".
        policy_name: "image_net", "reduced_image_net", "svhn" or "reduced_cifar10".
        shape: Height and width, for all samples or as a Batch; then images are moved by a part, else by pixels.
        fill_value: Pixels from outside of turned and moved images; None repeats the edge.
        interp_type: How they are read: "linear", the default, or "nn".
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 250 by default.
        max_translate_rel: The same as a part of `shape`, 1 by default.
        seed: In pipelines only: calls of one seed draw alike.
        batch_size: Number of samples, where `data` is one image; a keyed `rng` says it too.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream, in pipelines the sample's.

    Returns:
        Images of the same shapes, dtype and layout.

    Raises:
        ArgumentError: There is no such policy, or it moves no images and there is a limit for that.

    >>> from dynamic.auto_aug import auto_augment
    >>> images = ndd.as_batch(numpy.full((2, 4, 4, 3), 99, "uint8"), layout="HWC")
    >>> auto_augment.auto_augment(images, rng=ndd.random.RNG(5)).shape
    [(4, 4, 3), (4, 4, 3)]
    """
    if not isinstance(policy_name, str) or policy_name not in _POLICIES:
        expected = f"one of {', '.join(map(repr, _POLICIES))}"
        raise ArgumentError("auto_augment", "policy_name", expected, shown(policy_name))
    own = {} if shape is None else {"shape": shape}
    if policy_name == "reduced_image_net":
        moved = {"shape": shape, "max_translate_abs": max_translate_abs, "max_translate_rel": max_translate_rel}
        for argument, value in moved.items():
            if value is not None:
                expected = "left out for the policy 'reduced_image_net', which moves no image"
                raise ArgumentError("auto_augment", argument, expected, shown(value))
        policy = get_reduced_image_net_policy()
    else:
        policy = _POLICIES[policy_name](shape is not None, max_translate_abs, max_translate_rel)
    further = {"fill_value": fill_value, "interp_type": interp_type, **own}
    return _applied("auto_augment", policy, data, batch_size, rng, further)


@sample_scheme
def auto_augment_image_net(
    data: Any,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
) -> Tensor | Batch:
    """The same as `auto_augment` with the policy "image_net"."""
    further = shape, fill_value, interp_type, max_translate_abs, max_translate_rel, seed
    found: Tensor | Batch = auto_augment(data, "image_net", *further, batch_size=batch_size, rng=rng)
    return found


@scheme
@described_as(auto_augment)
def apply_auto_augment(
    policy: Policy,
    data: Any,
    seed: int | None = None,  # noqa: ARG001 - of `scheme`
    *,
    batch_size: int | None = None,
    rng: Source | None = None,
    **kwargs: Any,
) -> Tensor | Batch:
    """Give each image the augmentations of one sequence out of a policy of one's own.

    Args:
        policy: The policy. Of a sequence, each step is done with its probability.
        data: A Batch, or one image.
        kwargs: Further arguments of the augmentations; each gets those that it takes.

    Raises:
        ArgumentError: The policy is empty, or none of its augmentations takes an argument.
    """
    return _applied("apply_auto_augment", policy, data, batch_size, rng, kwargs)


def _applied(
    name: str, policy: Policy, data: Any, batch_size: int | None, rng: Source | None, kwargs: dict[str, Any]
) -> Tensor | Batch:
    if not isinstance(policy, Policy) or not policy.sub_policies:
        raise ArgumentError(name, "policy", "a Policy with sequences", shown(policy))
    steps = max(map(len, policy.sub_policies))
    nothing: tuple[Augmentation, float, int | None] = (a.identity, 0.0, None)
    padded = [[*sequence, *[nothing] * (steps - len(sequence))] for sequence in policy.sub_policies]

    def augmented(batch: Batch) -> Batch:
        batch = laid_out(batch)
        check(name, [*policy.augmentations.values()], batch, policy.num_magnitude_bins, kwargs)
        with drawn(name, batch, 1 + 2 * steps, rng) as numbers:
            sequence = whole_number(numbers[:, 0], len(padded))
            for step in range(steps):
                here = [each[step] for each in padded]
                kinds = list(dict.fromkeys([a.identity, *(kind for kind, _, _ in here)]))
                done = numbers[:, 1 + 2 * step] < numpy.array([p for _, p, _ in here])[sequence]
                which = numpy.where(done, numpy.array([kinds.index(kind) for kind, _, _ in here])[sequence], 0)
                magnitude = Batch(numpy.array([magnitude or 0 for _, _, magnitude in here])[sequence])
                sign = Batch((numbers[:, 2 + 2 * step] < 0.5).astype(numpy.int32))
                batch = select(
                    kinds,
                    which,
                    batch,
                    magnitude_bin=SignedMagnitudeBin(magnitude, sign),
                    num_magnitude_bins=policy.num_magnitude_bins,
                    **kwargs,
                )
        return batch

    return on_samples(name, augmented, data, rng, *kwargs.values(), batch_size=batch_size)


def _policy(name: str, steps: str, moves: list[Augmentation]) -> Policy:
    """A policy of the paper.

    Args:
        name: Its name.
        steps: For each sequence a line with, for each step, augmentation, probability and magnitude; "-" is none.
        moves: The augmentations that move images.
    """
    return Policy(name, _BINS, _parsed(steps, *moves))


@functools.lru_cache(256)
def _parsed(steps: str, *moves: Augmentation) -> tuple[tuple[tuple[Augmentation, float, int | None], ...], ...]:
    suite = a.suite([*moves], shear=0.3, angle=30, enhance=(0.1, 1.9), bits=(0, 4), threshold=(0, 256), centred=False)
    kinds = {each.name: each for each in (*suite, a.solarize_add, a.invert)}
    sequences = []
    for line in steps.split("\n"):
        words = [step.split() for step in line.split(",")]
        sequences.append(tuple((kinds[kind], float(p), None if m == "-" else int(m)) for kind, p, m in words))
    return tuple(sequences)


def get_image_net_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """The policy that was found for ImageNet.

    Args:
        use_shape: Whether images are moved by a part of their shape.
        max_translate_abs: The most that images are moved, in pixels, or (by height, by width). 250 by default.
        max_translate_rel: The same as a part of the shape, 1 by default.
    """
    moves = a.translations("auto_augment", use_shape, max_translate_abs, max_translate_rel, 250, 1.0)
    return _policy("ImageNetPolicy", _IMAGE_NET, moves)


@described_as(get_image_net_policy)
def get_reduced_cifar10_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """The policy that was found for a part of CIFAR-10."""
    moves = a.translations("auto_augment", use_shape, max_translate_abs, max_translate_rel, 250, 1.0)
    return _policy("ReducedCifar10Policy", _REDUCED_CIFAR10, moves)


@described_as(get_image_net_policy)
def get_svhn_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """The policy that was found for SVHN, house numbers."""
    moves = a.translations("auto_augment", use_shape, max_translate_abs, max_translate_rel, 250, 1.0)
    return _policy("SvhnPolicy", _SVHN, moves)


def get_reduced_image_net_policy() -> Policy:
    """The policy that was found for a part of ImageNet; it moves no image."""
    return _policy("ReducedImageNetPolicy", _REDUCED_IMAGE_NET, [])


_POLICIES: Mapping[str, Callable[..., Policy]] = {
    "image_net": get_image_net_policy,
    "reduced_image_net": get_reduced_image_net_policy,
    "svhn": get_svhn_policy,
    "reduced_cifar10": get_reduced_cifar10_policy,
}
