"""The augmentations of AutoAugment, RandAugment and TrivialAugment, in DALI's ranges.

Each is called with samples and the number of a magnitude; ``rotate.augmentation(mag_range=(0, 45))`` is one with other
magnitudes. Samples are uint8, images "HWC" or videos "FHWC", or with their channels first.

>>> from dynamic.auto_aug import augmentations
>>> image = numpy.array([[[10], [200]]], "uint8")
>>> augmentations.solarize(image, magnitude_bin=5, num_magnitude_bins=11).tolist()
[[[10], [55]]]
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy
from numpy.typing import NDArray

import dynamic
from dynamic import ArgumentError, Batch
from dynamic.errors import shown

from ._bins import sizes_of
from ._draws import laid_out
from .core import Augmentation, augmentation

__all__ = [
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "invert",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "solarize_add",
    "translate_x",
    "translate_x_no_shape",
    "translate_y",
    "translate_y_no_shape",
]

_LUMA = [0.299, 0.587, 0.114]  # of red, green and blue: ITU-R BT.601
_LEAST = numpy.finfo(numpy.float32).min
_BLUR = numpy.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], numpy.float32) / 13  # the smoothing of Pillow's sharpness
_SAME = numpy.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], numpy.float32)


# -- geometry ----------------------------------------------------------------------------------------------------------


def _across(magnitude: float) -> NDArray[numpy.float32]:
    return numpy.array([magnitude, 0], numpy.float32)


def _down(magnitude: float) -> NDArray[numpy.float32]:
    return numpy.array([0, magnitude], numpy.float32)


def _warped(samples: Batch, matrix: Any, fill_value: Any, interp_type: Any) -> Any:
    kind = "linear" if interp_type is None else interp_type
    return dynamic.warp_affine(samples, matrix=matrix, fill_value=fill_value, interp_type=kind, inverse_map=False)


def _sheared(samples: Batch, shear: Batch, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(samples, dynamic.transforms.shear(shear=shear), fill_value, interp_type)


def _moved(samples: Batch, offset: Batch, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(samples, dynamic.transforms.translation(offset=offset), fill_value, interp_type)


def _moved_by_shape(
    samples: Batch, rel_offset: Batch, shape: Any = None, fill_value: Any = 128, interp_type: Any = None
) -> Any:
    return _moved(samples, Batch(rel_offset.dense() * _sizes(samples, shape)), fill_value, interp_type)


def _sizes(samples: Batch, shape: Any) -> NDArray[numpy.float32]:
    """Width and height of each sample, in shape (N, 2): by default its own."""
    if shape is None:
        layout = samples.layout or ("FHWC" if samples.ndim == 4 else "HWC")
        places = [layout.index("W"), layout.index("H")]
        return numpy.array([[extents[i] for i in places] for extents in samples.shape], numpy.float32)
    return sizes_of(shape, len(samples))


def _axis(name: str, function: Any, param: Any, most: float) -> Augmentation:
    return augmentation(mag_range=(0, most), randomly_negate=True, mag_to_param=param, name=name)(function)


shear_x = _axis("shear_x", _sheared, _across, 0.3)
shear_y = _axis("shear_y", _sheared, _down, 0.3)
#: By a part of the width, that of `shape` where it is given.
translate_x = _axis("translate_x", _moved_by_shape, _across, 1.0)
translate_y = _axis("translate_y", _moved_by_shape, _down, 1.0)
#: By a number of pixels.
translate_x_no_shape = _axis("translate_x", _moved, _across, 250)
translate_y_no_shape = _axis("translate_y", _moved, _down, 250)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(
    samples: Batch, angle: Batch, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True
) -> Any:
    """Turn images by an angle in degrees."""
    kind = "linear" if interp_type is None else interp_type
    return dynamic.rotate(samples, angle=angle, fill_value=fill_value, interp_type=kind, keep_size=rotate_keep_size)


# -- colours: magnitudes are the distance from no change ---------------------------------------------------------------


def shift_enhance_range(magnitude: float) -> float:
    """The factor of a magnitude that is 0 where nothing changes."""
    return 1 + magnitude


def sharpness_kernel(magnitude: float) -> NDArray[numpy.float32]:
    """The kernel that blurs (-1), leaves (0) or sharpens (1)."""
    kernel: NDArray[numpy.float32] = ((1 + magnitude) * _SAME - magnitude * _BLUR).astype(numpy.float32)
    return kernel


def sharpness_kernel_shifted(magnitude: float) -> NDArray[numpy.float32]:
    """The kernel of a factor that is 1 where nothing changes, as those of other colours are."""
    return sharpness_kernel(magnitude - 1)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(samples: Batch, parameter: Batch) -> Any:
    """Make images brighter by a factor."""
    return dynamic.brightness(samples, brightness=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(samples: Batch, parameter: Batch) -> Any:
    """Move values away from the mean luma of their image, by a factor."""
    laid = laid_out(samples)
    centre: Any = dynamic.reductions.mean(laid, axis_names="HW")
    if "C" in (laid.layout or ""):
        if centre.shape[0][-1] not in (1, 3):
            raise ArgumentError("auto_aug.contrast", "data", "of 1 or 3 channels", f"{centre.shape[0][-1]} channels")
        centre = dynamic.reductions.sum(centre * _LUMA, axes=-1)
    centre = numpy.fmax(centre, _LEAST)  # of an image without pixels it is no number
    centre = dynamic.per_frame(centre) if centre.ndim else centre
    return dynamic.contrast(samples, contrast=parameter, contrast_center=centre)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(samples: Batch, parameter: Batch) -> Any:
    """Make colours stronger by a factor; 0 makes grays."""
    return dynamic.saturation(samples, saturation=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel)
def sharpness(samples: Batch, kernel: Batch) -> Any:
    """Blur or sharpen images."""
    return dynamic.filter(samples, kernel)


# -- values ------------------------------------------------------------------------------------------------------------


def poster_mask_uint8(magnitude: float) -> NDArray[numpy.uint8]:
    """The bits that stay of so many, 1 to 8; 0 counts as 1, so that no image becomes black."""
    kept = min(max(round(float(magnitude)), 1), 8)
    return numpy.array(0xFF << (8 - kept) & 0xFF, numpy.uint8)


def solarize_add_shift(shift: float) -> NDArray[numpy.uint8]:
    """How much is added to dark values, as uint8."""
    if not 0 <= shift < 128:
        raise ArgumentError("auto_aug.solarize_add", "mag_range", "of 0 to 127", str(shift))
    return numpy.array(shift, numpy.uint8)


def _bytes(name: str, samples: Batch) -> Batch:
    if samples.dtype != dynamic.uint8:
        raise ArgumentError(f"auto_aug.{name}", "data", "of uint8", str(samples.dtype))
    return samples


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8, param_device="auto")
def posterize(samples: Batch, mask: Batch) -> Any:
    """Leave only the highest bits of values."""
    return _bytes("posterize", samples) & mask


@augmentation(mag_range=(256, 0), param_device="auto")
def solarize(samples: Batch, threshold: Batch) -> Any:
    """Invert values from a threshold on."""
    return _bytes("solarize", samples) ^ (samples >= threshold) * numpy.uint8(255)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift, param_device="auto")
def solarize_add(samples: Batch, shift: Batch) -> Any:
    """Add to values below 128."""
    return _bytes("solarize_add", samples) + (samples < numpy.uint8(128)) * shift


@augmentation
def invert(samples: Batch, _: None) -> Any:
    """Make the negative."""
    return _bytes("invert", samples) ^ numpy.uint8(255)


@augmentation
def equalize(samples: Batch, _: None) -> Any:
    """Spread the histogram of each channel."""
    return dynamic.equalize(samples)


@augmentation
def auto_contrast(samples: Batch, _: None) -> Any:
    """Spread the values of each channel over their whole range; a channel of one value stays."""
    laid = _bytes("auto_contrast", laid_out(samples))
    least = dynamic.reductions.min(laid, axis_names="HW", keep_dims=True)
    span = dynamic.reductions.max(laid, axis_names="HW", keep_dims=True) - least
    flat = span == 0
    scaled = dynamic.normalize(
        laid,
        axis_names="HW",
        mean=least * (flat ^ True),
        stddev=span + flat * numpy.uint8(255),
        scale=255.0,
        dtype="uint8",
    )
    return scaled


@augmentation
def identity(samples: Batch, _: None) -> Any:
    """Change nothing."""
    return samples


# -- suites ------------------------------------------------------------------------------------------------------------


def suite(
    moves: list[Augmentation],
    *,
    shear: float,
    angle: float,
    enhance: tuple[float, float],
    bits: tuple[float, float],
    threshold: tuple[float, float],
    centred: bool = True,
) -> list[Augmentation]:
    """The augmentations that all policies have, in the ranges of one.

    Args:
        moves: Those that move images.
        shear: The largest shear.
        angle: The largest angle.
        enhance: The range of colours.
        bits: How many bits stay.
        threshold: From where on values are inverted.
        centred: Whether the range of colours begins where nothing changes, and goes both ways.
    """
    return [*moves, *_suite(shear, angle, enhance, bits, threshold, centred)]


@functools.cache
def _suite(
    shear: float,
    angle: float,
    enhance: tuple[float, float],
    bits: tuple[float, float],
    threshold: tuple[float, float],
    centred: bool,
) -> tuple[Augmentation, ...]:
    param, kernel = (shift_enhance_range, sharpness_kernel) if centred else (None, sharpness_kernel_shifted)
    return (
        *(each.augmentation((0, shear)) for each in (shear_x, shear_y)),
        rotate.augmentation((0, angle)),
        *(each.augmentation(enhance, centred, param) for each in (brightness, contrast, color)),
        sharpness.augmentation(enhance, centred, kernel),
        posterize.augmentation(bits),
        solarize.augmentation(threshold),
        equalize,
        auto_contrast,
        identity,
    )


def translations(
    name: str, use_shape: bool, most_abs: Any, most_rel: Any, default_abs: float, default_rel: float
) -> list[Augmentation]:
    """`translate_x` and `translate_y` by pixels, or by parts of the shape, up to one limit or two (height, width)."""
    if not isinstance(use_shape, bool):
        raise ArgumentError(name, "use_shape", "True or False", shown(use_shape))
    wrong, given = ("max_translate_abs", most_abs) if use_shape else ("max_translate_rel", most_rel)
    if given is not None:
        expected = f"left out where translations are by {'parts of the shape' if use_shape else 'pixels'}"
        raise ArgumentError(name, wrong, expected, shown(given))
    own, default = (most_rel, default_rel) if use_shape else (most_abs, default_abs)
    limits = numpy.asarray(default if own is None else own)
    if limits.dtype.kind not in "iuf" or limits.shape not in ((), (2,)) or not ((limits >= 0) & (limits < inf)).all():
        argument = "max_translate_rel" if use_shape else "max_translate_abs"
        raise ArgumentError(name, argument, "a number of 0 or more, or two, by height and by width", shown(own))
    high, wide = numpy.broadcast_to(limits, 2).tolist()
    across, down = (translate_x, translate_y) if use_shape else (translate_x_no_shape, translate_y_no_shape)
    return [_up_to(across, wide), _up_to(down, high)]


@functools.lru_cache(256)
def _up_to(move: Augmentation, limit: float) -> Augmentation:
    return move.augmentation((0, limit))


def without(name: str, suite: list[Augmentation], excluded: Sequence[str] | None) -> list[Augmentation]:
    """The augmentations of a suite that are not excluded by name."""
    names = [each.name for each in suite]
    if not isinstance(excluded, Iterable | None) or isinstance(excluded, str):
        raise ArgumentError(name, "excluded", "a list of names", shown(excluded))
    for word in excluded or ():
        if word not in names:
            raise ArgumentError.unknown(name, str(word), names, "augmentation")
    return [each for each in suite if each.name not in (excluded or ())]
