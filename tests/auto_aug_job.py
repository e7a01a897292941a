"""Augmentations in DALI's words, where chance leaves one way: run here, and under DALI with the imports exchanged."""

import json

import numpy as np

from dynamic.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from dynamic.auto_aug.core import Policy, augmentation, select, signed_bin
from dynamic.pipeline import fn, pipeline_def, types

N = 4


def images():
    ramp = np.arange(9 * 12 * 3, dtype=np.uint8).reshape(9, 12, 3)
    return [np.roll(ramp, i, axis=1) for i in range(N)]


def numbers():
    return [np.int32(i) for i in range(N)]


@augmentation(mag_range=(0, 10), mag_to_param=lambda magnitude: np.array([magnitude, 2], dtype=np.float32))
def scaled(samples, parameter, shape, unit=1):
    return fn.cast(samples * parameter[1] + parameter[0] * unit + shape[0], dtype=types.UINT8)


@augmentation
def mirrored(samples, _):
    return fn.flip(samples, horizontal=1)


@pipeline_def(batch_size=N, num_threads=1, device_id=None, enable_conditionals=True)
def schemes():
    x = fn.external_source(images, layout="HWC")
    shapes = fn.shapes(x)
    one = rand_augment.apply_rand_augment([scaled], x, n=2, m=3, num_magnitude_bins=11, shape=shapes, unit=3)
    two = trivial_augment.apply_trivial_augment([mirrored], x)
    policy = Policy("mine", 11, [[(augmentations.posterize, 1.0, 2), (mirrored, 1.0, None)]])
    three = auto_augment.apply_auto_augment(policy, x)
    four = rand_augment.rand_augment(x, n=1, m=0, excluded=["equalize", "auto_contrast"])
    return one, two, three, four


@pipeline_def(batch_size=N, num_threads=1, device_id=None, enable_conditionals=True)
def chosen():
    x = fn.external_source(images, layout="HWC")
    i = fn.external_source(numbers)
    sign = signed_bin(i, i // 2)
    moved = augmentations.translate_x_no_shape.augmentation(mag_range=(0, 40))
    one = moved(x, magnitude_bin=sign, num_magnitude_bins=11, fill_value=7)
    two = select([augmentations.invert, mirrored, augmentations.identity, mirrored], i, x)
    three = augmentations.rotate(x, magnitude_bin=signed_bin(10, i // 2), num_magnitude_bins=11, rotate_keep_size=False)
    constant = types.Constant(images()[0], layout="HWC")
    four = scaled(constant, magnitude_bin=i, num_magnitude_bins=11, shape=[1])
    five = select([augmentations.invert, mirrored, augmentations.identity, mirrored], i, constant)
    six = auto_augment.apply_auto_augment(Policy("mine", 11, [[(mirrored, 1.0, None)]]), constant)
    return one, two, fn.shapes(three), four, five, six


for made in (schemes, chosen):
    pipe = made()
    outputs = [[np.asarray(output.as_cpu().at(i)) for i in range(N)] for output in pipe.run()]
    print(json.dumps([[[str(array.dtype), array.tolist()] for array in each] for each in outputs]))
