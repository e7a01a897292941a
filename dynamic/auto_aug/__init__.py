"""Policies of augmentation: AutoAugment, RandAugment and TrivialAugment, with draws for each image.

`from dynamic.auto_aug import rand_augment` is the migration from DALI's, which has them in pipelines only. Here they
work everywhere: with ``rng=``, as random operators do, or in the function of a pipeline.
"""

from . import augmentations, auto_augment, core, rand_augment, trivial_augment

__all__ = ["augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"]
