"""Noise, beta numbers, permutations and random windows: DALI's numbers, their distributions, and what they refuse.

What DALI 2.4 gives is recorded in data/noise_dali_2_4.json; with one (`DYNAMIC_DALI_PYTHON`) the record is compared
with it. `python tests/test_noise.py` records anew.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dali_oracle import Laid, Oracle, Samples, connect, dali_fixture  # noqa: F401
from hypothesis import example, given
from hypothesis import strategies as st

import dynamic
from dynamic import Batch, Tensor, as_batch, batch_permutation, noise, random_crop_generator
from dynamic._base.origin import Origin
from dynamic.errors import ArgumentError, DeviceError
from dynamic.random import RNG, _drawing, beta, normal

FILE = Path(__file__).with_name("data") / "noise_dali_2_4.json"
NOISES = ["gaussian", "shot", "salt_and_pepper"]
DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


def images(dtype, layout="HWC", seed=1, n=3):
    generator = np.random.default_rng(seed)
    arrays = []
    for _ in range(n):
        h, w = generator.integers(1, 9, 2)
        shape = {"HWC": (h, w, 3), "CHW": (3, h, w), "HW": (h, w), None: (h, w, 2)}[layout]
        array = generator.integers(0, 120, shape).astype(dtype)
        array.setflags(write=False)
        arrays.append(array)
    return arrays


# DALI's numbers


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    arguments = {
        "gaussian": [{"mean": 2.0, "stddev": 30.0}],
        "shot": [{"factor": 7.3}, {"factor": 0.9}],
        "salt_and_pepper": [{"prob": 0.4, "salt_vs_pepper": 0.2},
                            {"prob": 0.4, "per_channel": True, "salt_val": 77.0, "pepper_val": 3.0}],
    }  # fmt: skip
    for name in NOISES:
        for dtype in ("uint8", "int16", "int32", "float32"):
            found += [{"name": f"noise.{name}", "dtype": dtype, "arguments": given} for given in arguments[name]]
    for alpha, second in ((1.0, 1.0), (2.0, 3.0), (0.5, 2.0), (1.0, 0.4)):
        for dtype in ("float32", "float64"):
            found.append({"name": "random.beta", "arguments": {"alpha": alpha, "beta": second, "dtype": dtype,
                                                               "shape": [9], "batch_size": 3}})  # fmt: skip
    for n in (1, 2, 7, 30):
        for flags in ({}, {"allow_repetitions": True}, {"no_fixed_points": True},
                      {"allow_repetitions": True, "no_fixed_points": True}):  # fmt: skip
            found.append({"name": "batch_permutation", "arguments": {"batch_size": n, **flags}})
    return found


def asked_of_dali(dali: Oracle, case: dict[str, Any]) -> list[Any]:
    inputs = [Samples(images(case["dtype"]), "HWC")] if "dtype" in case else []
    results = dali.call(case["name"], inputs, seed=1234, calls=2, **case["arguments"])
    return [[sample.reshape(-1).tolist() for sample in result.samples] for result in results]


@pytest.mark.parametrize("record", json.loads(FILE.read_text()) if FILE.exists() else [],
                         ids=lambda r: json.dumps(r["case"])[:70])  # fmt: skip
def test_numbers_are_dalis(record):
    case, rng = record["case"], RNG(1234)
    function: Any = dynamic
    for part in case["name"].split("."):
        function = getattr(function, part)
    inputs = [as_batch(images(case["dtype"]), layout="HWC")] if "dtype" in case else []
    for call in record["calls"]:
        found = function(*inputs, rng=rng, **case["arguments"])
        assert len(found) == len(call)
        for ours, theirs in zip(found.samples, call, strict=True):
            if ours.dtype.kind == "f":  # logarithms and powers are as exact as the C library
                np.testing.assert_allclose(ours.reshape(-1), theirs, rtol=2e-6)
            else:
                assert ours.reshape(-1).tolist() == theirs


def test_the_record_is_complete():
    assert [record["case"] for record in json.loads(FILE.read_text())] == cases()


def test_the_record_is_dalis(dali: Oracle):
    for record in json.loads(FILE.read_text()):
        assert asked_of_dali(dali, record["case"]) == record["calls"]


@pytest.mark.parametrize("seed", range(3))
def test_large_images_get_dalis_noise(dali: Oracle, seed):
    """Counts of photons below and above 12, which are drawn in different ways."""
    array = np.random.default_rng(seed).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    for name, arguments in (("shot", {"factor": 20.0}), ("shot", {"factor": 0.5}), ("gaussian", {"stddev": 20.0}),
                            ("salt_and_pepper", {})):  # fmt: skip
        (expected,) = dali.call(f"noise.{name}", [Laid(array, "HWC")], seed=seed, calls=1, **arguments)
        found = getattr(noise, name)(Tensor(array, "HWC"), rng=RNG(seed), **arguments)
        assert np.array_equal(found.array, expected.array)


# What holds for all noise


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NOISES)
def test_shapes_dtypes_layouts_and_origins_stay(name, dtype):
    function = getattr(noise, name)
    for layout in ("HWC", "CHW", "HW", None):
        arrays = images(dtype, layout)
        made = function(as_batch(arrays, layout=layout), rng=RNG(3))
        assert ([s.shape for s in made.samples], made.layout) == ([a.shape for a in arrays], layout)
        assert all(s.dtype == dtype for s in made.samples)
        alone = function(Tensor(arrays[0], layout), rng=RNG(3))
        assert np.array_equal(alone.array, made.samples[0])
        assert alone.layout == layout
    whole = function(as_batch(np.zeros((4, 5, 6, 3), dtype)), rng=RNG(3))
    assert whole.whole.shape == (4, 5, 6, 3)
    empty = function(Batch([], "HWC", dtype=np.dtype(dtype), ndim=3), rng=RNG(3))
    assert (len(empty), empty.ndim, empty.layout, str(empty.dtype)) == (0, 3, "HWC", str(dynamic.dtype(dtype)))
    origin = Origin(0, np.arange(3, dtype=np.uint64), ["a", "b", "c"])
    assert function(Batch(images(dtype), "HWC", origin), rng=RNG(3)).origin.names == origin.names


@given(name=st.sampled_from(NOISES), order=st.permutations(range(4)), seed=st.integers(0, 2**64 - 1))
def test_keyed_noise_belongs_to_the_sample(name, order, seed):
    arrays, ids, rng = images("uint8", n=4), [5, 2**63, 7, 0], RNG(seed)
    function = getattr(noise, name)
    arguments = {"shot": {"factor": 2.0}, "gaussian": {"stddev": 9.0}, "salt_and_pepper": {"prob": 0.5}}[name]
    whole = function(as_batch(arrays, layout="HWC"), rng=rng.keyed(ids)["noise"], **arguments)
    keyed = rng.keyed([ids[i] for i in order])["noise"]
    mixed = function(as_batch([arrays[i] for i in order], layout="HWC"), rng=keyed, **arguments)
    for place, i in enumerate(order):
        assert np.array_equal(whole.samples[i], mixed.samples[place])
    alone = function(Tensor(arrays[2], "HWC"), rng=rng.keyed(ids[2])["noise"], **arguments)
    assert np.array_equal(alone.array, whole.samples[2])


@pytest.mark.parametrize("name", NOISES)
def test_arguments_may_differ_from_sample_to_sample(name):
    argument, values = {"gaussian": ("stddev", [0.0, 5.0, 50.0]), "shot": ("factor", [0.0, 1.0, 30.0]),
                        "salt_and_pepper": ("prob", [0.0, 0.5, 1.0])}[name]  # fmt: skip
    arrays, function = images("int16"), getattr(noise, name)
    each = function(as_batch(arrays, layout="HWC"), rng=RNG(7), **{argument: as_batch(values)})
    for i, value in enumerate(values):
        same = function(as_batch(arrays, layout="HWC"), rng=RNG(7), **{argument: value})
        assert np.array_equal(each.samples[i], same.samples[i])
    assert np.array_equal(each.samples[0], arrays[0])  # none
    repeated = function(arrays[1], rng=RNG(7), **{argument: as_batch(values)})
    assert len(repeated) == len(function(arrays[1], batch_size=3, rng=RNG(7))) == 3
    assert np.array_equal(repeated.samples[1], each.samples[1]) or arrays[0].shape != arrays[1].shape


# Distributions


def test_gaussian_noise_has_its_mean_and_deviation():
    made = noise.gaussian(np.zeros(100_000, np.float32), mean=3.0, stddev=2.0, rng=RNG(1)).array
    assert abs(made.mean() - 3) < 0.03
    assert abs(made.std() - 2) < 0.02
    assert noise.gaussian(np.full(99, 250, np.uint8), stddev=100, rng=RNG(1)).array.max() == 255


@pytest.mark.parametrize("mean", [0.3, 5.0, 11.99, 12.0, 40.0, 1000.0])
def test_shot_noise_has_the_moments_and_chances_of_poisson(mean):
    n = 100_000
    made = noise.shot(np.full(n, mean, np.float64), factor=1.0, rng=RNG(2)).array
    assert np.array_equal(made, np.round(made))
    assert abs(made.mean() - mean) < 5 * math.sqrt(mean / n)
    assert abs(made.var() / mean - 1) < 5 * math.sqrt((2 + 1 / mean) / n)
    mode = math.floor(mean)
    chance = math.exp(mode * math.log(mean) - mean - math.lgamma(mode + 1))
    assert abs((made == mode).mean() - chance) < 5 * math.sqrt(chance / n)


def test_gaussian_noise_of_the_largest_deviations():
    zeros = np.zeros((2, 500))
    large, usual = (noise.gaussian(zeros, stddev=stddev, rng=RNG(5)).array for stddev in (3e38, 1.0))
    assert np.allclose(large, usual * 3e38, rtol=1e-6, atol=0)
    for dtype in ("uint8", "int32"):
        limits = np.iinfo(dtype)
        found = noise.gaussian(zeros.astype(dtype), stddev=3e38, rng=RNG(5)).array
        assert np.array_equal(found, np.where(found > 0, limits.max, limits.min))
    assert np.isinf(normal(stddev=3e38, shape=500, rng=RNG(5)).array).any()


def test_shot_noise_has_a_factor_of_20_by_default():
    values = np.full(1000, 100.0, np.float32)
    made = noise.shot(values, rng=RNG(2)).array
    assert np.array_equal(made, noise.shot(values, factor=20.0, rng=RNG(2)).array)
    assert set(np.unique(made % 20)) == {0.0}


def test_shot_noise_of_nothing_negative_and_infinite():
    values = np.array([0.0, -3.0, np.inf, np.nan, -np.inf, 2.0], np.float32)
    made = noise.shot(values, factor=0.5, rng=RNG(2)).array
    assert made[:2].tolist() == [0, 0]
    assert np.array_equal(made[2:5], values[2:5], equal_nan=True)
    assert np.array_equal(noise.shot(values, factor=0.0, rng=RNG(2)).array, values, equal_nan=True)
    large = noise.shot(np.full(5, 1e30, np.float64), factor=1.0, rng=RNG(2)).array
    np.testing.assert_allclose(large, 1e30, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_of_nothing_changes_nothing(dtype):
    kind = np.dtype(dtype)
    limits = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
    values = np.array([limits.min, limits.max, 0, 1, 77, limits.max // 3 if kind.kind in "iu" else np.inf], kind)
    if kind.itemsize == 8 and kind.kind in "iu":
        values = np.append(values, np.array([2**60 + 1, 2**53 + 1], kind))
        assert noise.gaussian(values, stddev=0.05, rng=RNG(2)).tolist() == values.tolist()
    for data in (values, as_batch([values, values[:3]])):
        expected = data.tolist()
        assert noise.gaussian(data, stddev=0, rng=RNG(2)).tolist() == expected
        assert noise.shot(data, factor=0, rng=RNG(2)).tolist() == expected
        assert noise.salt_and_pepper(data, prob=0, rng=RNG(2)).tolist() == expected


def test_salt_and_pepper_have_their_shares():
    made = noise.salt_and_pepper(np.full((500, 200, 3), 7, np.uint8), prob=0.3, salt_vs_pepper=0.8, rng=RNG(3)).array
    assert abs((made == 255).all(-1).mean() - 0.24) < 0.01
    assert abs((made == 0).all(-1).mean() - 0.06) < 0.005
    assert ((made == 255).all(-1) | (made == 0).all(-1) | (made == 7).all(-1)).all()
    each = noise.salt_and_pepper(np.full((500, 200, 3), 7, np.uint8), prob=0.5, per_channel=True, rng=RNG(3)).array
    assert 0.2 < ((each == 7).sum(-1) == 1).mean() < 0.5
    first = noise.salt_and_pepper(Tensor(np.full((3, 50, 20), 7, np.uint8), "CHW"), prob=0.5, rng=RNG(3)).array
    assert ((first == first[:1]).all(0)).all()
    flags = noise.salt_and_pepper(np.zeros((50, 50), bool), prob=1.0, rng=RNG(3)).array
    assert flags.dtype == bool
    assert 0 < flags.mean() < 1


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 5.0), (0.5, 0.5), (0.2, 3.0), (30.0, 30.0)])
def test_beta_has_its_moments(a, b):
    n = 20_000
    made = beta(alpha=a, beta=b, shape=n, rng=RNG(4), dtype="float64").array
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    assert ((made >= 0) & (made <= 1)).all()
    assert abs(made.mean() - mean) < 5 * math.sqrt(variance / n)
    assert abs(made.var() / variance - 1) < 0.1


def test_beta_numbers_belong_to_samples_and_may_differ_in_shape_and_parameters():
    ids, rng = [4, 9, 2], RNG(5)
    whole = beta(alpha=as_batch([1.0, 2.0, 0.5]), shape=as_batch([2, 0, 3]), rng=rng.keyed(ids)["mixup"])
    assert whole.shape == [(2,), (0,), (3,)]
    alone = beta(alpha=0.5, shape=3, rng=rng.keyed(2)["mixup"])
    assert np.array_equal(alone.array, whole.samples[2])
    assert str(beta(batch_size=2, dtype="float16", rng=RNG(1)).dtype) == "f16"
    assert len(beta(batch_size=0, rng=RNG(1))) == 0


@given(n=st.integers(0, 40), repeat=st.booleans(), fixed=st.booleans(), seed=st.integers(0, 2**64 - 1))
def test_permutations(n, repeat, fixed, seed):
    order = batch_permutation(
        batch_size=n, allow_repetitions=repeat or None, no_fixed_points=not fixed or None, rng=RNG(seed)
    ).tolist()
    assert len(order) == n
    assert all(0 <= i < n for i in order)
    assert repeat or sorted(order) == list(range(n))
    assert fixed or n == 1 or all(j != i for i, j in enumerate(order))


def test_all_permutations_are_equally_likely():
    rng, seen = RNG(6), {}
    for _ in range(4800):
        order = tuple(batch_permutation(batch_size=4, rng=rng).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 60  # chi-square of 23 degrees: 1 in 40,000


# Windows

sides = st.integers(1, 700)


@given(height=sides, width=sides, low=st.just(0.0) | st.floats(0.01, 1), more=st.floats(0, 0.5),
       narrow=st.floats(0.1, 3), wide=st.floats(0, 3), attempts=st.integers(1, 10),
       seed=st.integers(0, 2**64 - 1))  # fmt: skip
def test_windows_lie_in_their_image(height, width, low, more, narrow, wide, attempts, seed):
    anchor, shape = random_crop_generator([height, width, 3], random_area=[low, low + more], num_attempts=attempts,
                                          random_aspect_ratio=[narrow, narrow + wide], rng=RNG(seed))  # fmt: skip
    (y, x), (h, w) = anchor.tolist(), shape.tolist()
    assert 0 <= y <= y + h <= height
    assert 0 <= x <= x + w <= width
    assert min(h, w) >= 1
    fits = narrow - 1e-6 <= w / h <= narrow + wide + 1e-6
    assert fits or h * w <= (low + more) * height * width + max(height, width) + 1
    assert (str(anchor.dtype), str(shape.dtype)) == ("i32", "i32")


def test_windows_have_the_areas_and_ratios_that_are_asked_for():
    anchors, shapes = random_crop_generator(np.array([480, 640]), batch_size=3000, rng=RNG(1))
    h, w = np.array(shapes.tolist(), float).T
    assert ((h * w / (480 * 640) > 0.079) & (h * w / (480 * 640) <= 1)).all()
    assert ((w / h >= 0.75) & (w / h <= 4 / 3)).all()
    assert abs(np.log(w / h).mean() - math.log(359.7 / 345.4)) < 0.03  # large ones fit better if they are wide
    assert abs(h.mean() - 345.6) < 5  # DALI's mean of 4,000, within three deviations
    assert abs(np.array(anchors.tolist())[:, 1].mean() - 140) < 7


def test_where_no_window_has_the_area_the_largest_is_taken():
    for shape, ratio, expected in (([100, 1000], [0.75, 1.0], [100, 100]), ([1000, 90], [1.0, 2.0], [90, 90])):
        _, found = random_crop_generator(shape, random_area=[0.5, 0.9], random_aspect_ratio=ratio, rng=RNG(1))
        assert found.tolist() == expected
    _, found = random_crop_generator([200, 300], random_area=[1.2, 1.5], rng=RNG(1))
    assert found.tolist() == [200, 266]  # as DALI's


@given(extents=st.lists(st.tuples(sides, sides), min_size=16, max_size=24), low=st.just(0.0) | st.floats(0.01, 1),
       more=st.floats(0, 0.5), narrow=st.floats(0.1, 3), wide=st.floats(0, 3), attempts=st.integers(1, 10),
       seed=st.integers(0, 2**64 - 1))  # fmt: skip
@example(extents=[(1, 2), (2, 1)] * 8, low=0.6, more=0.0, narrow=1.0, wide=0.0, attempts=3, seed=5)  # none is so large
def test_windows_of_many_images_are_those_of_each(extents, low, more, narrow, wide, attempts, seed):
    arguments = {"random_area": [low, low + more], "random_aspect_ratio": [narrow, narrow + wide]}
    keys = list(range(len(extents)))
    anchors, shapes = random_crop_generator(as_batch(extents), rng=RNG(seed).keyed(keys)["crop"],
                                            num_attempts=attempts, **arguments)  # fmt: skip
    for i in keys:
        alone = random_crop_generator(as_batch(extents[i : i + 1]), rng=RNG(seed).keyed([i])["crop"],
                                      num_attempts=attempts, **arguments)  # fmt: skip
        assert [part.tolist() for part in alone] == [[anchors[i].tolist()], [shapes[i].tolist()]]


def test_windows_belong_to_samples():
    sizes = np.array([[480, 640], [30, 40], [333, 500]])
    rng = RNG(8)
    anchors, shapes = random_crop_generator(as_batch(sizes), rng=rng.keyed([3, 1, 2])["crop"])
    again = random_crop_generator(as_batch(sizes[::-1]), rng=rng.keyed([2, 1, 3])["crop"])
    assert (anchors.tolist(), shapes.tolist()) == (again[0].tolist()[::-1], again[1].tolist()[::-1])
    assert [len(part) for part in random_crop_generator(Batch([], dtype=np.dtype("int64"), ndim=1), rng=rng)] == [0, 0]


# What is refused

GRAY = np.zeros((2, 3), np.uint8)


@pytest.mark.parametrize(("call", "told"), [
    (lambda rng: noise.gaussian(GRAY, stddev=math.nan, rng=rng), r"noise\.gaussian\(\): argument 'stddev'"),
    (lambda rng: noise.gaussian(GRAY > 0, rng=rng), r"noise\.gaussian\(\): argument 'image' must be of numbers"),
    (lambda rng: noise.gaussian(GRAY, sigma=1, rng=rng), r"noise\.gaussian\(\) has no argument 'sigma'"),
    (lambda rng: noise.gaussian(as_batch([GRAY]), stddev=as_batch([1.0, 2.0]), rng=rng), "'stddev'"),
    (lambda rng: noise.shot(GRAY, factor=-1, rng=rng), r"noise\.shot\(\): argument 'factor' must be 0 or more"),
    (lambda rng: noise.shot(as_batch([GRAY, GRAY]), factor=as_batch([1.0, -1.0]), rng=rng), r"'factor\[1\]'"),
    (lambda rng: noise.salt_and_pepper(GRAY, prob=1.5, rng=rng), r"salt_and_pepper\(\): argument 'prob'.*\[0, 1\]"),
    (lambda rng: noise.salt_and_pepper(GRAY, per_channel=3, rng=rng), "'per_channel'"),
    (lambda rng: beta(alpha=0.0, rng=rng), r"beta\(\): argument 'alpha' must be a positive float32"),
    (lambda rng: beta(beta=as_batch([1.0, -1.0]), rng=rng), r"'beta\[1\]'"),
    (lambda rng: beta(dtype="int32", rng=rng), "'dtype' must be a floating-point type"),
    (lambda rng: batch_permutation(rng=rng), "'batch_size' must be an integer of 0 or more"),
    (lambda rng: batch_permutation(batch_size=2.0, rng=rng), "'batch_size'"),
    (lambda rng: batch_permutation(batch_size=2, rng=rng.keyed([1, 2])), "'rng' must be an RNG"),
    (lambda rng: batch_permutation(batch_size=2, no_fixed_points=3, rng=rng), "'no_fixed_points'"),
    (lambda rng: random_crop_generator([480], rng=rng), "'shape' must be the height and width"),
    (lambda rng: random_crop_generator([480.0, 2.0], rng=rng), "'shape' must be the height and width"),
    (lambda rng: random_crop_generator(as_batch([[4, 5], [0, 5]]), rng=rng), "(?s)'shape'.*sample 1 of 2"),
    (lambda rng: random_crop_generator([4, 5], random_area=[0.5, 0.1], rng=rng), "'random_area' must be two finite"),
    (lambda rng: random_crop_generator([4, 5], random_area=[-0.1, 0.5], rng=rng), "'random_area' must be two finite"),
    (lambda rng: random_crop_generator([4, 5], random_aspect_ratio=[0.0, 0.5], rng=rng), "numbers above 0"),
    (lambda rng: random_crop_generator([4, 5], random_aspect_ratio=[0.0, 1.0], rng=rng), "'random_aspect_ratio'"),
    (lambda rng: random_crop_generator([4, 5], num_attempts=0, rng=rng), "'num_attempts'"),
    (lambda rng: random_crop_generator([4, 5], num_attempts=10**9, rng=rng), "'num_attempts'"),
    (lambda rng: dynamic.random_resized_crop(np.zeros((4, 5)), size=3, num_attempts=10**9, rng=rng), "'num_attempts'"),
])  # fmt: skip
def test_errors_name_the_argument_and_draw_nothing(call, told):
    rng = RNG(1)
    before = rng.state
    with pytest.raises(ArgumentError, match=told):
        call(rng)
    assert rng.state == before


if __name__ == "__main__":
    oracle = connect()
    assert oracle is not None, "DYNAMIC_DALI_PYTHON names no Python that has DALI"
    rows = [json.dumps({"case": case, "calls": asked_of_dali(oracle, case)}) for case in cases()]
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("ragged", [False, True])
def test_noise_on_a_gpu_is_that_of_the_cpu(dtype, ragged):
    values = np.arange(120).reshape(2, 4, 5, 3).astype(dtype)
    images = as_batch([values[0], values[1][:3] if ragged else values[1]], layout="HWC")
    per_sample = as_batch([5.0, 20.0])
    for function, arguments in (
        (noise.gaussian, {"stddev": per_sample, "mean": 3.0}),
        (noise.salt_and_pepper, {"prob": 0.3}),
        (noise.salt_and_pepper, {"prob": 0.3, "per_channel": True, "salt_val": per_sample}),
    ):
        expected = function(images, rng=RNG(3), **arguments)
        found = function(images.gpu(), rng=RNG(3), **arguments)
        assert (found.device, found.layout, found.dtype) == ("gpu:0", "HWC", expected.dtype)
        for a, b in zip(found.cpu().samples, expected.samples, strict=True):
            assert np.allclose(a.astype(float), b.astype(float), rtol=1e-3 if dtype == "float16" else 1e-6)
        nothing = function(as_batch(values[:0], layout="HWC").gpu(), rng=RNG(3))
        assert (nothing.device, len(nothing), nothing.ndim) == ("gpu:0", 0, 3)
    with pytest.raises(DeviceError, match=r"noise\.shot\(\) runs on cpu"):
        noise.shot(images.gpu())


@pytest.mark.parametrize("large", [1, 500, 10**6])  # each sample by itself, some, none
@pytest.mark.parametrize("make", [
    lambda **k: noise.shot(np.full((3, 700), 50.0), factor=20.0, **k),
    lambda **k: noise.shot(np.full((3, 700), 2000.0), factor=20.0, **k),
    lambda **k: noise.shot(as_batch(np.linspace(0, 900, 2400).reshape(40, 60)), factor=20.0, **k),
    lambda **k: noise.shot(as_batch([np.full(n, 9.0 * n) for n in (90, 5, 0, 120, 30)]), factor=20.0, **k),
    lambda **k: noise.shot(as_batch(np.linspace(0, 900, 2100)), factor=20.0, **k),
    lambda **k: beta(alpha=0.5, beta=2.0, shape=(7, 90), **k),
    lambda **k: beta(alpha=0.5, beta=2.0, shape=60, batch_size=9, **k),
])  # fmt: skip
def test_what_rejects_words_is_made_in_parts(make, large, monkeypatch):
    expected = make(rng=RNG(5))
    monkeypatch.setattr(_drawing, "_PART", 100)
    monkeypatch.setattr(_drawing, "_LARGE", large)
    found = make(rng=RNG(5))
    assert found.tolist() == expected.tolist()
    numbers = np.concatenate([np.ravel(x) for x in (found.samples if isinstance(found, Batch) else [found.array])])
    assert len(np.unique(numbers)) > 5


@pytest.mark.parametrize(("value", "dtype", "factor"), [
    (255, "uint8", 1e-38), (1e38, "float32", 1e-2), (1e300, "float64", 1e-10), (1e300, "float64", 1.0),
    (1.7e308, "float64", 1.0)])  # fmt: skip
def test_more_photons_than_anybody_counts_have_no_noise(value, dtype, factor):
    image = np.full(3, value, dtype)
    assert noise.shot(image, factor=factor, rng=RNG(1)).tolist() == image.tolist()
    assert noise.shot(np.float64([1e30]), factor=1.0, rng=RNG(1)).item() == pytest.approx(1e30, rel=1e-13)
