"""The same questions to DALI and to us: its recorded answers always, and the real one where it is installed."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import agreement
import cv2
import numpy as np
import pytest
import usage
from dali_oracle import DaliError, Laid, Oracle, Samples, dali_fixture  # noqa: F401
from record_dali import DTYPES, NUMBERS, OPERATORS, operands, record, recorded, telling_values, unpack

import dynamic as ndd
from dynamic.kernels.cpu import rotations

ANSWERS = recorded()
PYTHON = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
          "%": operator.mod, "**": operator.pow, "<<": operator.lshift, "&": operator.and_, "==": operator.eq,
          "<": operator.lt}  # fmt: skip
#: DALI turns angles in float32: its interpolation is off by this much of the distance between two neighbours.
FLOAT32_ANGLES = 1e-4


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


# -- recorded -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
def test_types_of_results(name):
    answers = ANSWERS["promotion"]["arrays"][name]
    asked = 0
    for a in DTYPES:
        for b in DTYPES:
            # Where DALI refuses (float16, sums of bools) we may do better; a bool is never shifted by a bool here.
            if answers[a][b] is not None and not (name == "<<" and a == b == "bool"):
                left, right = map(ndd.as_tensor, operands(a, b))
                assert str(PYTHON[name](left, right).dtype) == answers[a][b], (a, b)
                asked += 1
    assert asked >= 80


@pytest.mark.parametrize("name", OPERATORS)
def test_types_of_results_with_python_numbers(name):
    answers = ANSWERS["promotion"]["numbers"][name]
    for a in DTYPES:
        for word, number in NUMBERS.items():
            if answers[a][word] is not None and not (name == "<<" and a == "bool" and word == "True"):
                assert str(PYTHON[name](ndd.as_tensor(operands(a, a)[0]), number).dtype) == answers[a][word], (a, word)


@pytest.mark.parametrize("have", DTYPES)
def test_converted_values(have):
    answers = ANSWERS["conversion"][have]
    values = unpack(answers["values"])
    assert same(values, telling_values(have))
    for want in DTYPES:
        expected = np.frombuffer(bytes.fromhex(answers["to"][want]), want)
        same_conversion(values, ndd.cast(values, dtype=want).array, expected)


def same_conversion(values: np.ndarray, found: np.ndarray, expected: np.ndarray) -> None:
    """DALI rounds ties to float16 away from zero, and what NaN becomes in its wide integers is up to the processor."""
    assert found.dtype == expected.dtype
    alike = (found == expected) | ((found != found) & (expected != expected))
    if found.dtype == np.float16 and values.dtype.itemsize > 1:
        with np.errstate(all="ignore"):
            exact = values.astype(np.longdouble)
            alike |= np.abs(exact - found) == np.abs(exact - expected)
    if found.dtype.kind in "iu":
        alike |= (values != values) & (found == 0)
    assert alike.all(), (found.dtype, values[~alike], found[~alike], expected[~alike])


def test_types_that_operators_accept():
    for name, answers in ANSWERS["accepted"].items():
        for dtype, expected in answers.items():
            found = getattr(ndd, name)(np.ones((2, 3, 1), dtype), **({"angle": 10.0} if name == "rotate" else {}))
            assert str(found.dtype) == (expected or str(ndd.dtype(dtype)))  # all types, not just DALI's


def test_rotated_sizes():
    for size, angle, axis, expected in ANSWERS["canvases"]:
        assert list(rotations.canvas(size, angle, axis)) == expected, (size, angle, axis)


def test_rotated_images():
    for case in ANSWERS["rotations"]:
        image = ndd.as_tensor(unpack(case["image"]), layout=case["layout"])
        found = ndd.rotate(image, **case["arguments"]).array
        close(found, unpack(case["rotated"]))


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """Within one level for integers, and 1/10000 of the range for floats."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    span = float(np.ptp(expected)) if expected.size else 0.0
    level = 1.0 if expected.dtype.kind in "iu" else 0.0
    assert np.abs(found.astype(np.float64) - expected).max(initial=0) <= level + FLOAT32_ANGLES * span


def test_random_numbers():
    for case in ANSWERS["draws"]:
        draw = getattr(ndd.random, case["name"])
        rng = ndd.random.RNG(case["seed"])
        for batch in case["draws"]:
            found = draw(**case["arguments"], batch_size=case["batch_size"], rng=rng)
            for ours, theirs in zip(found.samples, map(unpack, batch), strict=True):
                _equal_draws(case["name"], ours, theirs)


def _equal_draws(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    if name == "normal":  # its sines and logarithms are not rounded alike everywhere
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_max_ulp(ours, theirs, maxulp=4)
    else:
        assert same(ours, theirs)


# -- live ---------------------------------------------------------------------------------------------------------


def test_the_record_is_what_dali_answers(dali: Oracle):
    assert record(dali) == ANSWERS


@pytest.mark.parametrize("have", DTYPES)
def test_cast_of_random_values(dali: Oracle, have):
    generator = np.random.default_rng(6)
    bits = np.frombuffer(generator.bytes(800), have) if have != "bool" else generator.random(100) < 0.5
    small = (generator.random(200) * 700 - 300).round(1).astype(have) if have.startswith("float") else bits
    for want in DTYPES:
        for values in (bits, small):
            expected = dali.call("cast", [values], dtype=want).array
            same_conversion(values, ndd.cast(values, dtype=want).array, expected)


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 7])
def test_streams_of_random_numbers(dali: Oracle, seed):
    for name, arguments in (
        ("uniform", {"range": [-30.0, 30.0]}), ("uniform", {"range": [0.0, 1000.0], "dtype": "int32", "shape": [7]}),
        ("uniform", {"range": [0.0, 1.0], "dtype": "float64"}), ("uniform", {"values": [1.0, 5.0, 9.0], "shape": [9]}),
        ("coin_flip", {"probability": 0.25, "shape": [3, 4]}), ("normal", {"shape": [50]}),
    ):  # fmt: skip
        expected = dali.call(f"random.{name}", seed=seed, calls=3, batch_size=5, **arguments)
        rng = ndd.random.RNG(seed)
        for batch in expected:
            found = getattr(ndd.random, name)(**arguments, batch_size=5, rng=rng)
            for ours, theirs in zip(found.samples, batch.samples, strict=True):
                _equal_draws(name, ours, theirs)


def test_states_of_streams(dali: Oracle):
    text = "r = ndd.random.RNG(77); [ndd.random.uniform(batch_size=2, rng=r).evaluate() for _ in range(3)]; "
    state = dali.script(text + "result = str(r.state)")
    rng = ndd.random.RNG(77)
    for _ in range(3):
        ndd.random.uniform(batch_size=2, rng=rng)
    assert str(rng.state) == state
    follow = "r = ndd.random.RNG(state=str(s)); result = ndd.random.uniform(batch_size=2, rng=r)"
    expected = dali.script(follow.replace("str(s)", repr(str(rng.state))))
    found = ndd.random.uniform(batch_size=2, rng=rng)
    assert all(same(a, b) for a, b in zip(found.samples, expected.samples, strict=True))


@pytest.mark.parametrize("quality", [30, 95])
def test_pixels_of_jpegs(dali: Oracle, quality):
    generator = np.random.default_rng(8)
    for shape in ((37, 53, 3), (8, 8, 3), (1, 17, 3), (64, 48)):
        image = cv2.GaussianBlur(generator.integers(0, 255, shape, np.uint8), (5, 5), 1)
        encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].ravel()
        for output_type in ("RGB", "GRAY"):
            expected = dali.call("decoders.image", [encoded], output_type=output_type)
            found = ndd.decoders.image(encoded, output_type=output_type)
            assert found.layout == expected.layout
            assert same(found.array, expected.array)


# -- as people use them ------------------------------------------------------------------------------------------------


def test_each_operator_is_compared_or_it_is_told_why_not():
    pages = Path(__file__).parents[1].joinpath("docs", "operators").glob("*.md")
    operators = {name for page in pages for name in re.findall(r"^## (\S+)$", page.read_text(), re.MULTILINE)} - {
        "random.get_default_rng",
        "random.set_seed",
    }
    compared = {name.partition(",")[0] for name in usage.USED} - agreement.SIGNS.keys()
    assert not compared & usage.APART.keys()
    assert compared | usage.APART.keys() == operators


@pytest.mark.parametrize("name", usage.USED | usage.WIDE)
def test_operators_agree_as_people_use_them(dali: Oracle, name):
    found = agreement.used(dali, name, (usage.USED | usage.WIDE)[name], 15)
    assert found.unlike == 0, found.against
    for values, close in found.values.values():
        least = 0.98 if name.endswith(", nn") else 0.9999  # sizes that are rounded have places between two pixels
        assert close >= values * least, found.against
