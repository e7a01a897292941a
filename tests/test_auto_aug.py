"""Policies of augmentation: what each does to an image, what is drawn for it, and runs that are stopped."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, dali_fixture
from hypothesis import given
from hypothesis import strategies as st
from test_dalis_scripts import dalis_python, for_dali, run

import dynamic as ndd
from dynamic import ArgumentError, StateError
from dynamic.auto_aug import augmentations as a
from dynamic.auto_aug import auto_augment as aa
from dynamic.auto_aug import rand_augment as ra
from dynamic.auto_aug import trivial_augment as ta
from dynamic.auto_aug.core import Augmentation, Policy, augmentation, select, signed_bin
from dynamic.pipeline import Pipeline, fn, pipeline_def, types
from dynamic.random import RNG

dali = dali_fixture
JOB = Path(__file__).with_name("auto_aug_job.py")
NAMES = [name for name in a.__all__ if name[0].islower()]
BINS = 11
COUNT = 7
#: What can be called on images, in all of its forms.
SCHEMES = {
    "rand": functools.partial(ra.rand_augment, n=2, m=9),
    "centre": functools.partial(ra.rand_augment, n=3, m=3, num_magnitude_bins=7, monotonic_mag=False, fill_value=None),
    "trivial": functools.partial(ta.trivial_augment_wide, shape=(20, 30), interp_type="nn"),
    "image_net": aa.auto_augment_image_net,
    "svhn": functools.partial(aa.auto_augment, policy_name="svhn", max_translate_abs=(3, 5)),
    "cifar": functools.partial(aa.auto_augment, policy_name="reduced_cifar10", shape=(20, 30), max_translate_rel=0.5),
    "reduced": functools.partial(aa.auto_augment, policy_name="reduced_image_net"),
}


def photos(count=COUNT, seed=5):
    """Images of several sizes, smooth ones as photos are, read-only."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        height, width = rng.integers(9, 40, 2)
        coarse = rng.integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), np.uint8)
        image = np.asarray(ndd.resize(coarse, size=[height, width])).copy()
        image.flags.writeable = False
        found.append(image)
    return found


IMAGES = photos()


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found.samples, expected, strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))


# -- what augmentations do ---------------------------------------------------------------------------------------------


def by_hand(name, image, magnitude):
    """What an augmentation does to an image of uint8, "HWC", said in another way."""
    wide, x = image.astype(np.int64), ndd.as_tensor(image, layout="HWC")
    if name == "invert":
        return 255 - wide
    if name == "identity":
        return wide
    if name == "posterize":
        kept = max(round(magnitude), 1)
        return wide >> (8 - kept) << (8 - kept)
    if name == "solarize":
        return np.where(wide < magnitude, wide, 255 - wide)
    if name == "solarize_add":
        return np.where(wide < 128, wide + int(magnitude), wide)
    if name == "auto_contrast":
        low, high = wide.min((0, 1)), wide.max((0, 1))
        return np.where(high > low, np.rint((wide - low) * 255 / np.maximum(high - low, 1)), wide)
    if name == "brightness":
        return np.clip(np.rint(wide * (1 + magnitude)), 0, 255)
    if name == "contrast":
        centre = (wide.mean((0, 1)) * [0.299, 0.587, 0.114]).sum()
        return np.clip(np.rint(centre + (wide - centre) * (1 + magnitude)), 0, 255)
    if name == "color":
        return ndd.saturation(x, saturation=1 + magnitude)
    if name == "equalize":
        return ndd.equalize(x)
    if name == "sharpness":
        blurred = np.ones((3, 3), np.float32)
        blurred[1, 1] = 5
        same = np.zeros((3, 3), np.float32)
        same[1, 1] = 1
        return ndd.filter(x, (1 + magnitude) * same - magnitude * blurred / 13)
    if name == "rotate":
        return ndd.rotate(x, angle=magnitude, fill_value=128, keep_size=True)
    height, width = image.shape[:2]
    across = magnitude if "_x" in name else 0
    down = magnitude if "_y" in name else 0
    if "shear" in name:
        matrix = [[1, across, 0], [down, 1, 0]]
    else:
        parts = (1, 1) if "no_shape" in name else (width, height)
        matrix = [[1, 0, across * parts[0]], [0, 1, down * parts[1]]]
    return ndd.warp_affine(x, matrix=matrix, fill_value=128, inverse_map=False)


@pytest.mark.parametrize("name", NAMES)
@given(bins=st.lists(st.integers(0, BINS - 1), min_size=COUNT, max_size=COUNT),
       signs=st.lists(st.integers(0, 1), min_size=COUNT, max_size=COUNT))  # fmt: skip
def test_each_sample_is_changed_by_its_own_magnitude(name, bins, signs):
    images, op = ndd.as_batch(IMAGES, layout="HWC"), getattr(a, name)
    strength = signed_bin(ndd.as_batch(bins), ndd.as_batch(signs))
    found = op(images, magnitude_bin=strength, num_magnitude_bins=BINS)
    assert (found.dtype, found.layout, found.shape) == (ndd.uint8, "HWC", images.shape)
    magnitudes = op.magnitudes(BINS)
    for image, one, k, sign in zip(IMAGES, found.samples, bins, signs, strict=True):
        magnitude = None if magnitudes is None else float(magnitudes[k]) * (-1 if sign and op.randomly_negate else 1)
        expected = np.asarray(by_hand(name, image, magnitude)).astype(np.int64)
        assert np.abs(one - expected).max() <= 1, (k, sign)


SUITES = """
from nvidia.dali import fn, pipeline_def
from nvidia.dali.auto_aug import augmentations as a, auto_augment as aa, rand_augment as ra, trivial_augment as ta
from nvidia.dali.auto_aug.core import signed_bin
samples, bins, signs = ([np.asarray(x.evaluate()) for x in data.tensors] for data in (images, bins, signs))
ops = {name: getattr(a, name) for name in names}
for kind, suite in (("rand", ra.get_rand_augment_suite()), ("wide", ta.get_trivial_augment_wide_suite(True)),
                    ("centre", ra.get_rand_augment_non_monotonic_suite())):
    ops.update({f"{kind} {op.name}": op for op in suite})
result = {}
for name, op in ops.items():
    @pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, enable_conditionals=True)
    def changed():
        x = fn.external_source(lambda: samples, layout="HWC")
        strength = signed_bin(fn.external_source(lambda: bins), fn.external_source(lambda: signs))
        return op(x, magnitude_bin=strength, num_magnitude_bins=11, shape=fn.shapes(x))
    pipe = changed()
    pipe.build()
    (output,) = pipe.run()
    result[name] = ndd.as_batch([np.array(output.at(i)) for i in range(len(samples))])
"""


def test_each_augmentation_is_dalis(dali: Oracle):
    images = photos(22, seed=9)
    bins, signs = np.arange(22) % BINS, np.arange(22) // BINS
    theirs = dali.script(SUITES, names=NAMES, images=Samples(images, "HWC"), bins=Samples(list(bins.astype(np.int32))),
                         signs=Samples(list(signs.astype(np.int32))))  # fmt: skip
    suites = {"rand": ra.get_rand_augment_suite(), "wide": ta.get_trivial_augment_wide_suite(use_shape=True),
              "centre": ra.get_rand_augment_non_monotonic_suite()}  # fmt: skip
    ours = {name: getattr(a, name) for name in NAMES}
    ours |= {f"{kind} {op.name}": op for kind, suite in suites.items() for op in suite}
    assert theirs.keys() == ours.keys()
    strength = signed_bin(ndd.as_batch(bins), ndd.as_batch(signs))
    for name, op in ours.items():
        found = op(ndd.as_batch(images, layout="HWC"), magnitude_bin=strength, num_magnitude_bins=BINS)
        for one, other in zip(found.samples, theirs[name].samples, strict=True):
            assert np.abs(one.astype(int) - other).max(initial=0) <= 1, name


POLICIES = """
from nvidia.dali.auto_aug import auto_augment as aa
def told(op):
    return [op.name, None if op.mag_range is None else [float(end) for end in op.mag_range], op.randomly_negate]
result = {}
for use_shape in (False, True):
    for name in ("image_net", "reduced_cifar10", "svhn"):
        policy = getattr(aa, f"get_{name}_policy")(use_shape)
        result[f"{name} {use_shape}"] = [[[*told(op), p, m] for op, p, m in steps] for steps in policy.sub_policies]
policy = aa.get_reduced_image_net_policy()
result["reduced_image_net"] = [[[*told(op), p, m] for op, p, m in steps] for steps in policy.sub_policies]
"""


def test_policies_are_dalis(dali: Oracle):
    told = POLICIES.replace("nvidia.dali", "dynamic")
    names: dict[str, dict] = {}
    exec(compile(told, "policies", "exec"), names)
    assert names["result"] == dali.script(POLICIES)


def test_policies_have_25_sequences_of_known_augmentations():
    for policy in (aa.get_image_net_policy(), aa.get_svhn_policy(use_shape=True), aa.get_reduced_cifar10_policy(),
                   aa.get_reduced_image_net_policy()):  # fmt: skip
        assert len(policy.sub_policies) == 25
        assert policy.num_magnitude_bins == 11
        assert {len(steps) for steps in policy.sub_policies} <= {1, 2}
        assert policy.augmentations.keys() <= {getattr(a, name).name for name in NAMES}
        assert repr(policy).count("[(") + 1 == 25 + repr(policy).count("[[(")


@pytest.mark.parametrize("name", NAMES)
def test_other_layouts_videos_and_grays_are_changed_alike(name):
    op, strength = getattr(a, name), {"magnitude_bin": 7, "num_magnitude_bins": BINS}
    frames = np.stack([np.asarray(ndd.resize(image, size=[12, 17])) for image in IMAGES[:3]])
    sign = {"magnitude_bin": signed_bin(7, ndd.as_batch([1])), "num_magnitude_bins": BINS}
    each = [np.asarray(op(ndd.as_batch(f[None], layout="HWC"), **sign)[0]) for f in frames]
    same(op(ndd.as_batch(frames[None], layout="FHWC"), **sign), [np.stack(each)])
    same(op(ndd.as_batch(frames[:1]), **sign), each[:1])
    flipped = op(ndd.as_batch(frames.transpose(0, 3, 1, 2)[:1], layout="CHW"), **sign)
    assert flipped.layout == "CHW"
    assert np.abs(np.asarray(flipped[0]).transpose(1, 2, 0).astype(int) - each[0]).max() <= 1
    plain = op(ndd.as_batch(frames[:1, ..., 0], layout="HW"), **sign)
    assert (plain.layout, plain.shape) == ("HW", [(12, 17)])
    same(op(ndd.as_batch(frames[:1, ..., :1], layout="HWC"), **sign), [np.asarray(plain[0])[..., None]])
    gray = op(ndd.as_tensor(frames[0][..., :1], layout="HWC"), rng=RNG(5), **strength)
    assert (type(gray), gray.shape) == (ndd.Tensor, (12, 17, 1))
    nothing = op(ndd.as_batch([], dtype="uint8", layout="HWC"), **strength)
    assert (len(nothing), nothing.dtype) == (0, ndd.uint8)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_images_without_a_layout_have_their_channels_last(scheme):
    pixels = np.random.default_rng(1).integers(0, 256, (40, 12, 17, 3), np.uint8)
    draws = RNG(3).keyed(range(40))
    expected = SCHEMES[scheme](ndd.as_batch(pixels, layout="HWC"), rng=draws["a"])
    found = SCHEMES[scheme](ndd.as_batch(pixels), rng=draws["a"])
    assert found.layout == "HWC"
    same(found, list(expected.samples))
    frames = ndd.as_batch(pixels.reshape(10, 4, 12, 17, 3))
    assert SCHEMES[scheme](frames, rng=RNG(3).keyed(range(10))).layout == "FHWC"


# -- what is drawn -----------------------------------------------------------------------------------------------------


def keyed(ids, seed=5):
    return RNG(seed).keyed(ids)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(order=st.permutations(range(COUNT)), count=st.integers(0, COUNT))
def test_what_a_sample_gets_depends_on_the_sample_alone(scheme, order, count):
    augmented = SCHEMES[scheme]
    whole = augmented(ndd.as_batch(IMAGES, layout="HWC"), rng=keyed(range(COUNT)))
    some = list(order[:count])
    batch = ndd.as_batch([IMAGES[i] for i in some], layout="HWC", dtype="uint8")
    same(augmented(batch, rng=keyed(some)), [whole[i] for i in some])
    for i in some[:2]:
        alone = augmented(ndd.as_tensor(IMAGES[i], layout="HWC"), rng=keyed(i))
        assert isinstance(alone, ndd.Tensor)
        np.testing.assert_array_equal(alone, whole[i])


@pytest.mark.parametrize("scheme", SCHEMES)
@given(count=st.integers(0, COUNT), said=st.sampled_from(["batch_size", "rng", "both"]))
def test_one_image_stands_for_as_many_as_are_asked_for(scheme, count, said):
    image, size = ndd.as_tensor(IMAGES[0], layout="HWC"), {} if said == "rng" else {"batch_size": count}
    given = (image, ndd.Batch.broadcast(image, count))
    found, expected = (SCHEMES[scheme](data, rng=RNG(5) if said == "batch_size" else keyed(range(count)), **size)
                       for data in given)  # fmt: skip
    assert isinstance(found, ndd.Batch)
    same(found, [*expected])


def test_one_sample_stands_for_as_many_as_there_are_magnitudes():
    bins, signs = ndd.as_batch([1, 2, 3]), ndd.as_batch([0, 1, 0])
    assert SCALED(5, magnitude_bin=bins, num_magnitude_bins=11).tolist() == [6.0, 7.0, 8.0]
    op = SCALED.augmentation(randomly_negate=True)
    assert op(5, magnitude_bin=signed_bin(2, signs), num_magnitude_bins=11).tolist() == [7.0, 3.0, 7.0]
    assert op(5, magnitude_bin=signed_bin(2, signs[:1].evaluate()), num_magnitude_bins=11).item() == 7.0
    drawn = op(5, magnitude_bin=2, num_magnitude_bins=11, batch_size=40, rng=RNG(1))
    assert len(drawn) == 40
    assert {*drawn.tolist()} == {3.0, 7.0}
    assert len(op(5, magnitude_bin=bins, num_magnitude_bins=11, rng=RNG(1))) == 3
    assert SCALED(5, magnitude_bin=2, num_magnitude_bins=11, batch_size=2).tolist() == [7.0, 7.0]
    assert select([abs, lambda x: -x], ndd.as_batch([0, 1, 0]), 5).tolist() == [5, -5, 5]


def numbered(count, **how):
    """Augmentations that write down which they are, and their magnitude."""

    def write(samples, magnitude, place):
        return ndd.Batch(np.stack([np.append(one, [place, m]) for one, m in zip(samples.samples, magnitude.samples,
                                                                             strict=True)]))  # fmt: skip

    return [augmentation(functools.partial(write, place=i), name=f"number {i}", mag_range=(0, 10), **how)
            for i in range(count)]  # fmt: skip


def blank(count):
    return ndd.as_batch(np.zeros((count, 0)), dtype="float64")


def near(counts, chance, of):
    """Whether so many of so many happen by that chance, but for one case in a million."""
    return np.all(np.abs(np.asarray(counts) - of * chance) < 5 * np.sqrt(of * chance * (1 - chance)) + 1)


def test_rand_augment_draws_each_augmentation_and_sign_as_often():
    found = np.asarray(ra.apply_rand_augment(numbered(7, randomly_negate=True), blank(6000), 2, 6, 11, rng=RNG(3)))
    assert found.shape == (6000, 4)
    for step in (0, 2):
        assert near(np.bincount(found[:, step].astype(int), minlength=7), 1 / 7, 6000)
        assert set(found[:, step + 1]) == {-6.0, 6.0}
        assert near((found[:, step + 1] < 0).sum(), 1 / 2, 6000)
    assert near((found[:, 0] == found[:, 2]).sum(), 1 / 7, 6000)
    assert near((found[:, 1] == found[:, 3]).sum(), 1 / 2, 6000)


def test_trivial_augment_draws_each_augmentation_magnitude_and_sign_as_often():
    found = np.asarray(ta.apply_trivial_augment(numbered(5, randomly_negate=True), blank(6000), 11, rng=RNG(4)))
    assert near(np.bincount(found[:, 0].astype(int), minlength=5), 1 / 5, 6000)
    assert near(np.bincount(np.abs(found[:, 1]).astype(int), minlength=11), 1 / 11, 6000)
    assert near((found[:, 1] < 0).sum(), 10 / 11 / 2, 6000)


def test_auto_augment_draws_a_sequence_and_does_its_steps_by_chance():
    first, second, third = (SCALED.augmentation(name=str(k), mag_range=(k, k + 10)) for k in (100, 200, 300))
    policy = Policy("mine", 11, [[(first, 0.25, 3), (second, 1, 4)], [(third, 0.5, 5)]])
    counts = dict(zip(*np.unique(np.asarray(aa.apply_auto_augment(policy, ndd.as_batch(np.zeros(8000)), rng=RNG(6))),
                                 return_counts=True), strict=True))  # fmt: skip
    assert counts.keys() == {204, 307, 0, 305} or counts.keys() == {204, 103 + 204, 0, 305}
    assert near(counts[204], 0.5 * 0.75, 8000)
    assert near(counts[307], 0.5 * 0.25, 8000)
    assert near(counts[0], 0.25, 8000)
    assert near(counts[305], 0.25, 8000)


@augmentation(mag_range=(0, 10))
def SCALED(samples, magnitude):
    return samples + magnitude


def test_signs_are_drawn_where_they_are_needed_and_not_given():
    data = ndd.as_batch(np.zeros(4000))
    op = SCALED.augmentation(randomly_negate=True)
    found = np.asarray(op(data, magnitude_bin=3, num_magnitude_bins=11, rng=RNG(2)))
    assert set(found) == {3.0, -3.0}
    assert near((found < 0).sum(), 1 / 2, 4000)
    again = op(data, magnitude_bin=3, num_magnitude_bins=11, rng=RNG(2))
    np.testing.assert_array_equal(found, again)
    assert set(np.asarray(SCALED(data, magnitude_bin=3, num_magnitude_bins=11))) == {3.0}
    several = signed_bin(ndd.as_batch([[1, 2], [3, 4]]), ndd.as_batch([[0, 1], [1, 0]]))
    assert [several[1].bin.tolist(), several[1].random_sign.tolist()] == [[2, 4], [1, 0]]
    one = signed_bin(ndd.as_batch([3, 4]), ndd.as_batch([[0, 1], [1, 0]]))
    assert [one[0].bin.tolist(), one[0].random_sign.tolist()] == [[3, 4], [0, 1]]
    assert signed_bin(0, ndd.as_batch([1])).bin == 0
    assert signed_bin(ndd.as_batch([1, 2, 3]), rng=RNG(5)).random_sign.shape == [()] * 3
    assert signed_bin(2, rng=RNG(5).keyed([4, 5])).random_sign.shape == [()] * 2
    assert signed_bin(2, shape=3, batch_size=4, rng=RNG(5)).random_sign.shape == [(3,)] * 4


def test_a_parameter_is_of_any_shape_and_of_32_bits():
    seen = []

    @augmentation(mag_range=np.array([1.0, 4.0, 9.0]), mag_to_param=lambda magnitude: [magnitude, 1])
    def kept(samples, parameter, *, unit, other=2):
        seen.append((parameter.dtype, parameter.shape, unit, other))
        return samples * parameter.slice[0]

    found = kept(ndd.as_batch([1.0, 2.0]), magnitude_bin=ndd.as_batch([2, 0]), unit=3, nobody="takes this")
    assert found.tolist() == [9.0, 2.0]
    assert seen == [(ndd.float32, [(2,), (2,)], 3, 2)]
    assert repr(kept) == "<augmentation kept, magnitudes [1.0, 4.0, 9.0]>"
    assert repr(a.rotate) == "<augmentation rotate, magnitudes 0 to 30, negated or not>"
    assert kept(ndd.as_batch([1.0, 2.0]), magnitude_bin=ndd.as_tensor(1), unit=3).tolist() == [4.0, 8.0]
    assert isinstance(kept.augmentation(name="other", augmentation_cls=type("Own", (Augmentation,), {})), Augmentation)


def test_a_function_of_any_arguments_gets_all():
    seen = []

    @augmentation
    def curious(samples, _, **arguments):
        seen.append(arguments)
        return samples

    data = ndd.as_batch([1.0, 2.0])
    ra.apply_rand_augment(
        [curious, a.identity.augmentation(name="other")], data, 1, 3, rng=RNG(1), unit=3, fill_value=5
    )
    ra.apply_rand_augment([curious], data, 1, 3, unit=3)
    assert seen[-1] == {"unit": 3}
    assert all(arguments.items() >= {"unit": 3}.items() for arguments in seen)


def test_augmentations_of_one_name_get_numbers_in_a_policy():
    one, two = (a.rotate.augmentation(mag_range=(0, most)) for most in (10, 20))
    policy = Policy("p", 3, [[(two, 0.5, 1), (a.invert, 1, None)], [(one, 0.5, 1), (two, 0.5, 2)]])
    assert policy.augmentations == {"invert": a.invert, "rotate 1": two, "rotate 2": one}
    assert list(policy.augmentations) == ["invert", "rotate 1", "rotate 2"]


@given(which=st.lists(st.integers(0, 2), max_size=9))
def test_select_gives_each_sample_to_its_function(which):
    functions = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y]
    x = ndd.as_batch([np.full(i % 3 + 1, i, np.int32) for i in range(len(which))], dtype="int32", layout="X")
    y = ndd.as_batch([i + 5 for i in range(len(which))], dtype="int32")
    found = select(functions, ndd.as_batch(which, dtype="int32"), x, y=y)
    same(found, [functions[k](x[i], y[i]) for i, k in enumerate(which)])
    assert found.layout == "X"


# -- pipelines ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    for i, image in enumerate(IMAGES):
        (root / f"{i}.ppm").write_bytes(b"P6 %d %d 255 " % image.shape[1::-1] + image.tobytes())
    return root


def pipeline(folder, policy, **how):
    @pipeline_def(seed=5, enable_conditionals=True, prefetch_queue_depth=0)
    def made():
        files, labels = fn.readers.file(file_root=folder, files=[f"{i}.ppm" for i in range(COUNT)], random_shuffle=True)
        images = fn.decoders.image(files)
        if policy == "own":
            images = ra.apply_rand_augment(OWN, images, 2, 5, 11, shape=images.shape(), fill_value=3)
        elif policy == "conditional":
            if labels > 2:
                images = ra.rand_augment(images, n=1, m=20)
            else:
                images = aa.auto_augment(images)
            if fn.random.coin_flip():
                images = ta.trivial_augment_wide(images)
        else:
            images = SCHEMES[policy](images)
        if labels > 3:
            images = a.rotate(images, magnitude_bin=5, num_magnitude_bins=11)
        return images, labels

    return made(**how)


@augmentation(mag_range=(0, 1), randomly_negate=True, mag_to_param=lambda magnitude: [magnitude, 0])
def _moved(images, part, shape, fill_value):
    matrix = fn.transforms.translation(offset=part * fn.cast(shape[1], dtype="float32"))
    return fn.warp_affine(images, matrix=matrix, fill_value=fill_value, inverse_map=False, device="cpu")


@augmentation
def _grainy(images, _):
    return ndd.noise.gaussian(images, stddev=9, rng=RNG(3).keyed(images))


OWN = [_moved, a.invert, _grainy]


def samples(batches):
    return [(np.asarray(image).tobytes(), int(label[0])) for images, labels in batches
            for image, label in zip(images.samples, labels.samples, strict=True)]  # fmt: skip


@pytest.mark.parametrize("policy", ["rand", "image_net", "own", "conditional"])
@given(batch_size=st.integers(2, COUNT), stop=st.integers(0, 3), more=st.integers(1, COUNT))
def test_a_run_that_is_stopped_goes_on_with_the_same_augmentations(folder, policy, batch_size, stop, more):
    with pipeline(folder, policy, batch_size=1) as alone:
        expected = samples(alone.next_epoch())
    with pipeline(folder, policy, batch_size=batch_size) as pipe:
        epoch = iter(pipe.next_epoch())
        first = samples(outputs for _, outputs in zip(range(stop), epoch, strict=False))
        text = pipe.checkpoint()
    with pipeline(folder, policy, batch_size=more, checkpoint=text) as pipe:
        rest = [] if len(first) == COUNT else samples(pipe.next_epoch())
    assert first + rest == expected


@pytest.mark.parametrize("policy", SCHEMES)
def test_a_pipeline_does_what_is_done_elsewhere(folder, policy):
    @pipeline_def(batch_size=COUNT, seed=5, prefetch_queue_depth=0)
    def made():
        files, _ = fn.readers.file(file_root=folder, files=[f"{i}.ppm" for i in range(COUNT)])
        images = fn.decoders.image(files)
        return files, images, SCHEMES[policy](images)

    with made() as pipe:
        files, images, found = pipe.run()
    call = "auto_augment_image_net" if policy == "image_net" else SCHEMES[policy].func.__name__
    expected = SCHEMES[policy](images, rng=RNG(5).keyed(files)[f"auto_aug.{call} 1"])
    same(found, list(expected.samples))


def test_a_checkpoint_of_other_augmentations_is_refused(folder):
    with pipeline(folder, "rand", batch_size=2) as pipe:
        pipe.run()
        text = pipe.checkpoint()
    with pytest.raises(StateError, match=r"auto_aug\.rand_augment.*n=2"):
        pipeline(folder, "centre", batch_size=2, checkpoint=text).run()
    with pipeline(folder, "own", batch_size=2) as pipe:
        pipe.run()
        text = pipe.checkpoint()
    before = OWN[:]
    try:
        OWN[0] = _moved.augmentation(mag_range=(0, 0.5))
        with pytest.raises(StateError, match="magnitudes 0 to 0.5"):
            pipeline(folder, "own", batch_size=2, checkpoint=text).run()
    finally:
        OWN[:] = before


def made(function, **how):
    with Pipeline(function=function, batch_size=4, prefetch_queue_depth=0, seed=3, **how) as pipe:
        return pipe.run()


def test_calls_of_one_seed_draw_alike():
    def function():
        data = fn.external_source([ndd.as_batch(np.zeros((4, 1)))] * 2)
        ops = numbered(9)
        one, two, three = (ra.apply_rand_augment(ops, data, 2, 3, seed=seed) for seed in (5, 5, 6))
        sign = signed_bin(3, seed=7)
        return (
            one,
            two,
            three,
            SCALED.augmentation(randomly_negate=True)(data, magnitude_bin=sign, num_magnitude_bins=4),
        )

    one, two, three, signed = made(function)
    assert one.tolist() == two.tolist() != three.tolist()
    assert {abs(value[0]) for value in signed.tolist()} == {10.0}


def test_a_constant_of_a_pipeline_is_augmented_for_each_sample():
    def function():
        data, ops = types.Constant(np.zeros(1)), numbered(9)
        return ra.apply_rand_augment(ops, data, 2, 3), ta.apply_trivial_augment(ops, data)

    for found in made(function):
        assert len(found) == 4
        assert len({str(sample) for sample in found.tolist()}) > 1


def test_augmentations_of_pipelines_may_draw_from_what_they_name():
    @augmentation
    def nested(data, _):
        return ra.apply_rand_augment(numbered(9), data, 1, 3, rng=RNG(5).keyed(range(len(data))))

    def function():
        data = fn.external_source([ndd.as_batch(np.zeros((4, 1)))] * 2)
        return ra.apply_rand_augment([nested], data, 1, 3)

    (found,) = made(function)
    expected = ra.apply_rand_augment(numbered(9), ndd.as_batch(np.zeros((4, 1))), 1, 3, rng=RNG(5).keyed(range(4)))
    assert found.tolist() == expected.tolist()


def test_augmentations_of_pipelines_call_fn_as_pipelines_do():
    @augmentation
    def named(data, _):
        one, two = fn.flip([data, data], horizontal=0, name="flipped", seed=3)
        return fn.cast(
            one + two + fn.constant(idata=[5], shape=[1, 1, 1]) + fn.shapes(types.Constant([1, 2])), dtype="f32"
        )

    def function():
        return ra.apply_rand_augment([named], fn.external_source([ndd.as_batch(np.ones((4, 2, 2, 1)))]), 1, 3)

    (found,) = made(function)
    assert found.tolist() == np.full((4, 2, 2, 1), 9.0).tolist()


def test_augmentations_of_pipelines_do_not_draw_or_read():
    def drawing(data, _):
        return data + fn.random.uniform()

    def reading(data, _):
        return fn.external_source([data])

    def choosing(data, _):
        return ra.apply_rand_augment([a.identity], data, 1, 3)

    def negating(data, _):
        return SCALED.augmentation(randomly_negate=True)(data, magnitude_bin=1, num_magnitude_bins=3)

    for function, word in ((drawing, "fn.random.uniform.*'rng'"), (reading, "fn.external_source.*before any augment"),
                           (choosing, "apply_rand_augment.*'rng'"), (negating, "SCALED.*'rng'")):  # fmt: skip
        op = augmentation(function, name="wrong")

        def run(op=op):
            data = fn.external_source([ndd.as_batch(np.zeros((4, 1)))] * 2)
            return ra.apply_rand_augment([op], data, 1, 3)

        with pytest.raises(ArgumentError, match=word):
            made(run)


def test_a_job_in_dalis_words(tmp_path):
    schemes, chosen = map(json.loads, run(JOB.read_text(), tmp_path).splitlines())
    ramp = np.arange(9 * 12 * 3, dtype=np.uint8).reshape(9, 12, 3)
    twice = np.minimum(np.minimum(ramp * 2.0 + 18, 255) * 2 + 18, 255)
    np.testing.assert_array_equal(schemes[0][0][1], twice)
    np.testing.assert_array_equal(schemes[1][0][1], ramp[:, ::-1])
    np.testing.assert_array_equal(schemes[2][0][1], (ramp >> 7 << 7)[:, ::-1])
    np.testing.assert_array_equal(chosen[1][0][1], 255 - ramp)
    assert [shape for _, shape in chosen[2]] == [[15, 16, 3]] * 4


def test_a_job_in_dalis_words_is_dalis(tmp_path):
    python = dalis_python()
    text, exchanged = for_dali(JOB)
    assert len(exchanged) == 3
    assert run(text, tmp_path, python=python) == run(JOB.read_text(), tmp_path)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "match"), [
    (lambda x: ra.rand_augment(x, n=-1, m=3), "'n' must be an integer of 0 or more"),
    (lambda x: ra.rand_augment(x, n=True, m=3), "'n'"),
    (lambda x: ra.rand_augment(x, n=1, m=31), r"^rand_augment\(\): .*'m' must be an integer of 0 to 30; got int 31"),
    (lambda x: ra.apply_rand_augment([a.invert], x, 1, 31), r"^apply_rand_augment\(\): argument 'm'"),
    (lambda x: ta.trivial_augment_wide(x, num_magnitude_bins=0), r"^trivial_augment_wide\(\): .*'num_magnitude_bins'"),
    (lambda x: aa.auto_augment(x, rng=5), r"^auto_augment\(\): argument 'rng' must be an RNG"),
    (lambda x: ra.rand_augment(x, 1), r"auto_aug.rand_augment\(\): argument 'm' must be given once; got nothing"),
    (lambda x: ra.rand_augment(x, 1, 2, n=2), "'n' must be given once; got two values"),
    (lambda x: ra.rand_augment(*[x] * 20), r"12 positional arguments \(data, n, .*got 20"),
    (lambda x: ra.rand_augment(x, n=1, m=1, num_magnitude_bins=0), "'num_magnitude_bins' must be an integer of 1"),
    (lambda x: ra.rand_augment(x, n=1, m=1, excluded=["rotat"]), "rotat"),
    (lambda x: ra.rand_augment(x, n=1, m=1, max_translate_rel=0.5), "'max_translate_rel' must be left out"),
    (lambda x: ra.rand_augment(x, n=1, m=1, shape=(3, 4), max_translate_abs=5), "'max_translate_abs' must be left out"),
    (lambda x: ra.rand_augment(x, n=1, m=1, seed=5), "'seed'.*rng=dynamic.random.RNG"),
    (lambda x: ra.rand_augment(x, n=1, m=1, rng=5), "'rng' must be an RNG"),
    (lambda x: ra.rand_augment(x, n=1, m=1, rng=RNG(5).keyed([1])), "'rng' must be for 2 samples"),
    (lambda x: ra.get_rand_augment_suite(use_shape=1), "'use_shape' must be True or False"),
    (lambda x: ra.apply_rand_augment([], x, 1, 3), "'augmentations' must be at least one"),
    (lambda x: ra.apply_rand_augment([a.rotate], x, 1, 3, angle=4), "angle.*fill_value, interp_type"),
    (lambda x: ta.apply_trivial_augment([], x), "'augmentations' must be at least one"),
    (lambda x: ta.trivial_augment_wide(x, excluded=["everything"]), "everything"),
    (lambda x: aa.auto_augment(x, "imagenet"), "'policy_name' must be one of 'image_net'"),
    (lambda x: aa.auto_augment(x, "reduced_image_net", shape=(3, 4)), "'shape' must be left out"),
    (lambda x: aa.apply_auto_augment(Policy("none", 3, []), x), "'policy' must be a Policy with sequences"),
    (lambda x: Policy("p", 0, []), "'num_magnitude_bins'"),
    (lambda x: Policy("p", 3, "abc"), "'sub_policies' must be lists of steps"),
    (lambda x: Policy("p", 3, [[(a.rotate, 0.5)]]), r"'sub_policies\[0\]\[0\]'.*@augmentation"),
    (lambda x: Policy("p", 3, [[(a.rotate, 1.5, 2)]]), "a probability between 0 and 1"),
    (lambda x: Policy("p", 3, [[(a.rotate, 0.5, None)]]), "with a magnitude of 0 to 2, as rotate has those"),
    (lambda x: Policy("p", 3, [[(a.invert, 0.5, 3)]]), "of a magnitude of 0 to 2; got int 3"),
    (lambda x: a.rotate(x, num_magnitude_bins=3), "'magnitude_bin' must be given"),
    (lambda x: a.rotate(x, magnitude_bin=3), "'num_magnitude_bins' must be an integer of 1 or more"),
    (lambda x: a.rotate(x, magnitude_bin=3, num_magnitude_bins=3), "'magnitude_bin' must be 0 to 2; got 3"),
    (lambda x: a.posterize(x, magnitude_bin=1.5, num_magnitude_bins=3), "'magnitude_bin' must be an integer"),
    (lambda x: a.posterize(x, magnitude_bin=ndd.as_batch([1.0, 2.0]), num_magnitude_bins=3), "must be an integer"),
    (lambda x: a.posterize(x, magnitude_bin=ndd.as_batch([1]), num_magnitude_bins=3), "for each of 2 samples"),
    (lambda x: a.translate_x(x, magnitude_bin=1, num_magnitude_bins=3, shape=4), "'shape' must be height and width"),
    (lambda x: a.invert(ndd.cast(x, dtype="int16")), "'data' must be of uint8; got i16"),
    (lambda x: a.contrast(ndd.pad(x, axes=[2], shape=[5]), magnitude_bin=1, num_magnitude_bins=3), "1 or 3 channels"),
    (lambda x: a.solarize_add.augmentation((0, 200))(x, magnitude_bin=2, num_magnitude_bins=3), "of 0 to 127"),
    (lambda x: signed_bin(1.5), "'magnitude_bin' must be an integer"),
    (lambda x: signed_bin(1), "'batch_size' must be given"),
    (lambda x: signed_bin(ndd.as_batch([1, 2]), batch_size=3), "'batch_size' must be 2, like 'magnitude_bin'"),
    (lambda x: signed_bin(1, ndd.as_batch([1]), shape=3), "'random_sign' must be left out"),
    (lambda x: augmentation(lambda x: x), "'function' must be a function that takes samples and a parameter"),
    (lambda x: augmentation(a.rotate), "a function that is no augmentation yet"),
    (lambda x: augmentation(lambda x, y: x, mag_range=(1, 2, 3)), "'mag_range' must be the first and the last"),
    (lambda x: augmentation(lambda x, y: x, param_device="tpu"), "'param_device'"),
    (lambda x: select([a.invert], ndd.as_batch([0, 1]), x), "'selected_op_idx' must be 0 to 0; got 1"),
    (lambda x: select([a.invert], ndd.as_batch([0]), x), "one number for each of 2 samples"),
    (lambda x: select([a.invert], 0, x, y=ndd.as_batch([1])), "Batches of 2 samples"),
    (lambda x: select([a.invert], [0.0, 0.0], x), "'selected_op_idx' must be an integer"),
    (lambda x: select([a.invert, lambda x: ndd.cast(x, dtype="int8")], [0, 1], x), r"'ops\[1\]'.*dtype u8.*got i8"),
    (lambda x: select([a.invert, lambda x: ndd.cast(x, dtype="int8")], [0, 1], x), r"like those of ops\[0\]; got i8"),
    (lambda x: select([a.invert], ndd.as_batch([[0, 0], [0, 0]]), x), "'selected_op_idx' must be one number for each"),
    (lambda x: select([a.invert, lambda x: 3], [0, 1], x), r"'ops\[1\]' must be a function that gives 1 samples"),
    (lambda x: select([a.invert, lambda x: 3], 1, x), r"'ops\[1\]' must be a function that gives 2 samples"),
    (lambda x: select([a.invert], [0, 0, 0], x), "'selected_op_idx' must be one number for each of 2 samples"),
    (lambda x: select([a.invert], [0, 0], ndd.as_tensor(IMAGES[0])), "one number for each of 1 samples"),
    (lambda x: ra.rand_augment(x, n=1, m=1, num_magnitude_bins=1), "'m' must be an integer of 0 to 0; got int 1"),
    (lambda x: ra.rand_augment(x, n=1, m=1, seeed=5), "'seeed'.*'seed'"),
    (lambda x: ra.rand_augment(x, n=1, m=1, excluded=5), "'excluded' must be a list of names"),
    (lambda x: ra.rand_augment(x, n=1, m=1, excluded=[5]), "rand_augment.* has no augmentation '5'"),
    (lambda x: ra.rand_augment(x, n=1, m=1, max_translate_abs=np.inf), "'max_translate_abs' must be a number of 0"),
    (lambda x: ra.rand_augment(x, n=1, m=1, shape=(np.inf, 12)), "'shape' must be height and width"),
    (lambda x: ra.apply_rand_augment(a.rotate, x, 1, 3), "'augmentations' must be a list of augmentations"),
    (lambda x: ra.apply_rand_augment([lambda x, p: x], x, 1, 3), "must be a list of augmentations.*@augmentation"),
    (lambda x: ta.apply_trivial_augment(5, x), "'augmentations' must be a list of augmentations; got int 5"),
    (lambda x: a.rotate(x, magnitude_bin=ndd.as_tensor([1] * 3), num_magnitude_bins=3), "for each of 2 samples"),
    (lambda x: augmentation(dict), "'function' must be a function that takes samples and a parameter"),
    (lambda x: augmentation(lambda x, y: x, mag_range=("a", "b")), "'mag_range' must be the first and the last"),
    (lambda x: augmentation(lambda x, y: x, mag_range=([1], [1, 2])), "'mag_range' must be the first and the last"),
    (lambda x: augmentation(lambda x, y: x, mag_range=np.array([])), "'mag_range' must be the first and the last"),
    (lambda x: augmentation(lambda x, y: x, mag_to_param=5), "'mag_to_param' must be a function of a magnitude"),
    (lambda x: augmentation(lambda x, y: x, mag_range=(1, 2), mag_to_param=lambda magnitude: None)(
        x, magnitude_bin=1, num_magnitude_bins=3), "'mag_to_param' must be a function that gives numbers; got"),
    (lambda x: augmentation(lambda x, _: None)(x), "'function' must be one that gives 2 samples for as many; got None"),
    (lambda x: augmentation(lambda x, _: x.samples)(x[0]), "'function' must be one that gives 1 samples for as many"),
    (lambda x: ra.rand_augment(x, n=1, m=1, excluded="rotate"), "'excluded' must be a list of names"),
    (lambda x: ra.rand_augment(x, n=1, m=1, max_translate_abs=(3, 4, 5)), "'max_translate_abs' must be a number of 0"),
    (lambda x: ra.rand_augment(x, n=1, m=1, max_translate_abs="x"), "'max_translate_abs' must be a number of 0"),
    (lambda x: ra.rand_augment(x, n=1, m=1, max_translate_abs=-3), "'max_translate_abs' must be a number of 0"),
    (lambda x: ra.rand_augment(x, n=1, m=1, shape=(-9, 12)), "'shape' must be height and width"),
    (lambda x: ra.rand_augment(x, n=1, m=1, batch_size=3), "'batch_size' must be 2, like the data; got 3"),
    (lambda x: ra.rand_augment(x[0], n=1, m=1, batch_size=True), "'batch_size' must be an integer of 0 or more"),
    (lambda x: ra.rand_augment(x[0], n=1, m=1, batch_size=-1), "'batch_size' must be an integer of 0 or more"),
    (lambda x: ra.rand_augment(x[0], n=1, m=1, batch_size=3, rng=keyed([1, 2])), "'rng' must be for 3 samples"),
    (lambda x: signed_bin(-3), "'magnitude_bin' must be an integer of 0 or more"),
    (lambda x: signed_bin(3, ndd.as_batch([0, 2])), "'random_sign' must be a Batch of 0 and 1"),
    (lambda x: signed_bin(3, 1), "'random_sign' must be a Batch of 0 and 1"),
])  # fmt: skip
def test_what_is_wrong_is_named(call, match):
    with pytest.raises(ArgumentError, match=match):
        call(ndd.as_batch(IMAGES[:2], layout="HWC"))


APPLIED = {
    "rand": functools.partial(ra.rand_augment, n=1, m=9),
    "trivial": ta.trivial_augment_wide,
    "auto": aa.auto_augment,
}


@pytest.mark.parametrize(("change", "arguments", "match"), [
    (lambda x: ndd.cast(x, dtype="float32"), {}, "'data' must be of uint8; got f32"),
    (lambda x: ndd.pad(x, axes=[2], shape=[5]), {}, "channels"),
    (lambda x: ndd.as_batch([*x.samples[:1], *ndd.pad(x, axes=[2], shape=[5]).samples], layout="HWC"), {}, "channels"),
    (lambda x: x, {"interp_type": "cubist"}, "interp_type"),
    (lambda x: x, {"fill_value": "red"}, "fill_value"),
    (lambda x: x, {"shape": [[1, 2]]}, "'shape' must be height and width"),
    (lambda x: ndd.as_batch([*x.samples] * 2, layout="HWC"), {"shape": ndd.as_batch([[1.0, 2.0], [3.0, 4.0]])}, None),
    *((lambda x: ndd.as_batch([*x.samples] * 2, layout="HWC"), {"shape": ndd.as_batch([[1.0, one], [3.0, 4.0]])},
       "'shape' must be height and width") for one in (-2.0, np.nan, np.inf)),
])  # fmt: skip
@pytest.mark.parametrize("scheme", APPLIED)
def test_what_one_augmentation_refuses_is_refused_whatever_is_drawn(scheme, change, arguments, match):
    data, rng = change(ndd.as_batch(IMAGES[:1], layout="HWC")), RNG(5)
    if match is None:  # so that it has been looked at already where the next one comes
        APPLIED[scheme](data, rng=rng, **arguments)
        return
    for seed in range(5):
        with pytest.raises(ArgumentError, match=match):
            APPLIED[scheme](data, rng=RNG(seed).keyed(np.arange(len(data))), **arguments)
    with pytest.raises(ArgumentError, match=match):
        APPLIED[scheme](data, rng=rng, **arguments)
    assert rng.state == RNG(5).state


def test_what_the_strongest_magnitude_would_refuse_is_refused_whatever_is_drawn():
    bright, rng = a.solarize_add.augmentation((0, 200)), RNG(5)
    for apply in (functools.partial(ra.apply_rand_augment, n=1, m=0), ta.apply_trivial_augment):
        with pytest.raises(ArgumentError, match="of 0 to 127"):
            apply([a.identity] * 99 + [bright], ndd.as_batch(IMAGES, layout="HWC"), rng=rng)
    assert rng.state == RNG(5).state


def test_probabilities_of_numpy_are_those_of_python():
    steps = [[(a.rotate, np.float32(0.5), np.int64(2)), (a.invert, 1, None)]]
    assert repr(Policy("p", 3, steps)) == "Policy('p', 3, [[(rotate, 0.5, 2), (invert, 1, None)]])"


def test_own_augmentations_are_told_what_they_miss_before_anything_is_drawn():
    needy = augmentation(lambda x, p, unit: x, name="needy")
    three = augmentation(lambda x, p: x, name="three", mag_range=np.array([1.0, 2.0, 3.0]))
    data, rng = ndd.as_batch(IMAGES, layout="HWC"), RNG(5)
    for wrong, match in ((needy, "'unit' must be given"), (three, "'num_magnitude_bins' must be 3")):
        with pytest.raises(ArgumentError, match=match):
            ra.apply_rand_augment([a.identity] * 99 + [wrong], data, 1, 2, 4, rng=rng)
    assert rng.state == RNG(5).state


def test_a_stream_goes_back_where_an_augmentation_fails():
    def failing(images, _):
        raise OSError("unlucky")

    data, rng = ndd.as_batch(IMAGES, layout="HWC"), RNG(5)
    with pytest.raises(OSError, match="unlucky"):
        ta.apply_trivial_augment([augmentation(failing)], data, rng=rng)
    assert rng.state == RNG(5).state

    def drawing(images, _):
        ndd.random.uniform(rng=rng)
        raise OSError("unlucky")

    with pytest.raises(OSError, match="unlucky"):
        ta.apply_trivial_augment([augmentation(drawing)], data, rng=rng)
    assert rng.state != RNG(5).state  # others have drawn


def test_keyed_draws_go_on_as_before_where_an_augmentation_fails():
    def failing(images, _):
        raise OSError("unlucky")

    data, ids = ndd.as_batch(IMAGES, layout="HWC"), np.arange(len(IMAGES))
    keyed, known = RNG(5).keyed(ids), RNG(5).keyed(ids)
    for _ in range(2):
        with pytest.raises(OSError, match="unlucky"):
            ta.apply_trivial_augment([augmentation(failing)], data, rng=keyed)
        assert ndd.random.uniform(rng=keyed).tolist() == ndd.random.uniform(rng=known).tolist()


def test_in_augmentations_an_index_is_one_of_each_sample_and_a_condition_none():
    @augmentation(mag_range=(0, 10), mag_to_param=lambda m: np.array([m, 2 * m], np.float32))
    def second(samples, parameter):
        return samples * 0 + parameter[1]

    @augmentation
    def undecided(samples, _):
        return samples or -samples

    data = ndd.as_batch([1.0, 2.0, 3.0])
    assert second(data, magnitude_bin=ndd.as_batch([1, 2, 3]), num_magnitude_bins=11).tolist() == [2.0, 4.0, 6.0]
    assert data[1].tolist() == 2.0

    @pipeline_def(batch_size=3, enable_conditionals=True)
    def piped():
        x = fn.external_source([data], cycle="quiet")
        return second(x, magnitude_bin=2, num_magnitude_bins=11), ra.apply_rand_augment([undecided], x, 1, 0, 1)

    told = r"undecided\(\) is called for 3 samples at once.*core.select"
    with piped() as pipe, pytest.raises(ValueError, match=told):
        pipe.run()


@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y"])
def test_the_nearest_pixel_may_be_asked_for_by_dalis_constant(name):
    images = ndd.as_batch([np.tile(np.array([0, 255], np.uint8), (32, 16))[..., None].repeat(3, 2)], layout="HWC")
    found = getattr(a, name)(images, magnitude_bin=signed_bin(5, ndd.as_batch([0])), num_magnitude_bins=11,
                             interp_type=types.INTERP_NN, fill_value=0)  # fmt: skip
    assert {*np.unique(found.samples[0])} == {0, 255}


def test_a_callable_without_a_hash_is_an_augmentation_and_batches_of_other_sizes_are_named():
    @dataclasses.dataclass
    class Added:
        amount: int

        def __call__(self, samples, _):
            return samples + self.amount

    data = ndd.as_batch([1, 2])
    assert ra.apply_rand_augment([augmentation(Added(3), name="added")], data, 1, 0, 1).tolist() == [4, 5]
    images = ndd.as_batch(IMAGES[:4], layout="HWC")
    with pytest.raises(ArgumentError, match="'shape' must be of 4 samples, like the data; got a Batch of 2"):
        aa.auto_augment(images, shape=ndd.as_batch([[9, 9], [8, 8]]))


def test_one_sample_goes_through_the_function_that_is_selected():
    image = ndd.as_tensor(IMAGES[0], layout="HWC")
    assert np.array_equal(np.asarray(select([lambda x: x, a.invert], 1, image)), 255 - IMAGES[0])


def test_parameters_of_several_shapes_and_missing_arguments_are_named():
    data = ndd.as_batch([1.0, 2.0])
    ragged = augmentation(lambda x, p: x, name="ragged", mag_range=(0, 2), mag_to_param=lambda m: np.zeros(int(m)))
    with pytest.raises(ArgumentError, match="arrays have one dtype and shape; got float64 of shape"):
        ragged(data, magnitude_bin=ndd.as_batch([1, 2]), num_magnitude_bins=3)
    with pytest.raises(ArgumentError, match="needy.*'unit' must be given"):
        augmentation(lambda x, p, unit: x, name="needy")(data)
    with pytest.raises(ArgumentError, match="'num_magnitude_bins' must be 2, as many as 'mag_range' has"):
        SCALED.augmentation(mag_range=np.array([1.0, 2.0]))(data, magnitude_bin=1, num_magnitude_bins=3)


def test_nothing_is_done_of_strength_none():
    images = ndd.as_batch(IMAGES, layout="HWC")
    same(ra.rand_augment(images, n=0, m=3), IMAGES)
    policy = Policy("never", 3, [[(a.invert, 0.0, None)]])
    same(aa.apply_auto_augment(policy, images, rng=RNG(1)), IMAGES)


def alike():
    return ndd.as_batch([np.asarray(ndd.resize(image, size=[12, 17])) for image in IMAGES], layout="HWC")


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_each_augmentation_does_the_same_on_a_gpu(name):
    strength = {"magnitude_bin": signed_bin(7, ndd.as_batch([0, 1] * 3 + [0])), "num_magnitude_bins": BINS}
    found, expected = (getattr(a, name)(images, **strength) for images in (alike().gpu(), alike()))
    assert found.device.device_type == "gpu"
    assert np.abs(np.asarray(found.cpu()).astype(int) - np.asarray(expected)).max() <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_is_drawn_for_a_gpu(scheme):
    found, expected = (SCHEMES[scheme](images, rng=keyed(range(COUNT))) for images in (alike().gpu(), alike()))
    assert found.device.device_type == "gpu"
    for one, other in zip(found.cpu().samples, expected.samples, strict=True):
        far = np.abs(one.astype(int) - other) > 1  # one level before a threshold is many behind it
        assert far.mean() < 0.05


def test_the_sign_of_a_bare_magnitude_is_drawn_from_the_stream_that_is_given():
    images = ndd.as_batch(IMAGES, layout="HWC")
    before = ndd.random.get_default_rng().state
    results = []
    for seed in [*range(8), 0]:
        turned = a.rotate(images, magnitude_bin=9, num_magnitude_bins=BINS, rng=RNG(seed))
        results.append([sample.tobytes() for sample in turned.samples])
    assert results[0] == results[-1]
    assert all(len({result[i] for result in results}) == 2 for i in range(COUNT))  # both ways, for each image
    assert ndd.random.get_default_rng().state == before


@pytest.mark.parametrize("policy", SCHEMES.values(), ids=SCHEMES)
def test_images_without_pixels_stay_so_whatever_is_drawn(policy):
    images = ndd.as_batch([np.full((6, 5, 3), 7, np.uint8), np.zeros((0, 0, 3), np.uint8)], layout="HWC")
    for seed in range(60):
        assert policy(images, rng=RNG(seed)).shape == images.shape


@pytest.mark.parametrize("policy", SCHEMES.values(), ids=SCHEMES)
def test_two_dimensions_without_a_layout_are_a_gray_image(policy):
    gray = np.arange(48, dtype=np.uint8).reshape(6, 8)
    for seed in range(30):
        found = [None, None]
        for k, data in enumerate((gray, ndd.as_tensor(gray, layout="HW"))):
            try:
                found[k] = policy(data, rng=RNG(seed)).tolist()
            except ArgumentError as error:  # augmentations of colours
                found[k] = str(error)
        assert found[0] == found[1]
