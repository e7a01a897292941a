"""Functions of elements: their values against float64, their types, what they take; and as DALI has them."""

from __future__ import annotations

import inspect
from functools import reduce
from typing import get_type_hints

import numpy as np
import pytest
from dali_oracle import DaliError, Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import arrays

import dynamic as ndd
from dynamic import ArgumentError, Batch, Tensor, as_batch, as_tensor
from dynamic.dtypes import promote

UNARY = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp, "log": np.log, "log2": np.log2,
    "log10": np.log10, "fabs": np.fabs, "floor": np.floor, "ceil": np.ceil, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
BINARY = {"fpow": np.power, "atan2": np.arctan2}
#: Relative errors: a few units in the last place.
PRECISION = {2: 2e-3, 4: 1e-6, 8: 1e-14}

each_unary = pytest.mark.parametrize("name", UNARY)


def function(name):
    return getattr(ndd.math, name)


def of_fractions(*kinds):
    common = reduce(promote, (np.dtype(kind).newbyteorder("=") for kind in kinds))
    return common if common.kind == "f" else np.dtype(np.float32)


def close(found, expected):
    """Whether values of a float type are those of float64, as far as it can have them."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(found.dtype)
        step = PRECISION[found.dtype.itemsize]
        near = np.isclose(found.astype(np.float64), expected, rtol=step, atol=0, equal_nan=True)
        small = np.abs(expected) <= float(np.finfo(found.dtype).tiny)
        edge = np.abs(expected) >= float(np.finfo(found.dtype).max) * (1 - step)
    return found.shape == expected.shape and bool((near | (found == rounded) | small | edge).all())


@each_unary
@given(data=st.data())
def test_values_are_those_of_float64_and_integers_become_float32(name, data):
    array = data.draw(arrays())
    found = function(name)(array)
    kind = of_fractions(array.dtype)
    assert isinstance(found, Tensor)
    assert found.dtype == kind
    with np.errstate(all="ignore"):
        expected = UNARY[name](array.astype(kind).astype(np.float64))
    if name in {"sin", "cos", "tan"}:  # of a large angle no more is known than it has digits
        known = np.abs(array.astype(np.float64)) < 1000
        assert close(np.where(known, found.array, 0), np.where(known, expected, 0)) or np.allclose(
            np.where(known, found.array, 0), np.where(known, expected, 0), rtol=0.01, atol=PRECISION[kind.itemsize]
        )
    else:
        assert close(found.array, expected)


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_two_operands_become_floats(name, data):
    shape = data.draw(npst.array_shapes(max_dims=2, max_side=3))
    left, right = (data.draw(arrays(shape=st.just(shape))) for _ in range(2))
    if name == "fpow":  # what is not beyond float16
        left, right = left % np.array(5, left.dtype) if left.dtype.kind != "b" else left, right.astype(bool)
    found = function(name)(left, right)
    kind = of_fractions(left.dtype, right.dtype)
    assert found.dtype == kind
    with np.errstate(all="ignore"):
        expected = BINARY[name](left.astype(kind).astype(np.float64), right.astype(kind).astype(np.float64))
    assert close(found.array, expected)


@given(data=st.data())
def test_extremes_and_clamping_are_in_the_common_type(data):
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3)).input_shapes
    a, b, c = (data.draw(arrays(shape=st.just(shape))) for shape in shapes)
    kinds = [x.dtype.newbyteorder("=") for x in (a, b, c)]
    two = promote(kinds[0], kinds[1])
    three = promote(two, kinds[2])
    for name, expected in (("min", np.minimum), ("max", np.maximum)):
        found = function(name)(a, b)
        assert found.dtype == two
        with np.errstate(over="ignore"):
            assert np.array_equal(found.array, expected(a.astype(two), b.astype(two)))
    found = ndd.math.clamp(a, b, c)
    assert found.dtype == three
    with np.errstate(over="ignore"):
        assert np.array_equal(found.array, np.clip(*(x.astype(three) for x in (a, b, c))))


@given(arrays())
def test_the_absolute_value_keeps_its_type(array):
    if array.dtype == bool:
        with pytest.raises(ArgumentError, match=r"^math\.abs\(\): argument 'operand'"):
            ndd.math.abs(array)
        return
    found = ndd.math.abs(array)
    assert found.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(found.array, np.abs(array))
    assert ndd.math.abs(np.int8([-128])).tolist() == [-128]
    assert ndd.math.fabs(np.int8([-128])).tolist() == [128.0]


@given(arrays(), st.integers(0, 3))
def test_powers_are_those_of_the_operator(array, exponent):
    if array.dtype.kind != "b":
        assert np.array_equal(ndd.math.pow(array, exponent).array, (as_tensor(array) ** exponent).array, equal_nan=True)
    with pytest.raises(ArgumentError, match=r"^math\.pow\(\): argument 'exponent' must be at most 92233720368547758"):
        ndd.math.pow([2, 3], 2**63)
    with pytest.raises(ArgumentError, match=r"^math\.pow\(\): argument 'exponent'.*negative power"):
        ndd.math.pow([2], -1)
    assert ndd.math.fpow([2], -1).tolist() == [0.5]


def test_where_there_is_no_number_it_is_nan_or_infinite():
    nan = float("nan")
    with np.errstate(all="raise"):
        assert np.isnan(ndd.math.sqrt([-1.0]).array).all()
        assert ndd.math.log([0, 0]).tolist() == [-np.inf] * 2
        assert ndd.math.rsqrt([0, 4]).tolist() == [np.inf, 0.5]
        assert ndd.math.rsqrt(np.float32([2.0**-140])).tolist() == [2.0**70]
        assert ndd.math.exp(np.float16([100])).tolist() == [np.inf]
        for name in ("min", "max"):
            assert np.isnan(function(name)([nan, 1.0, nan], [1.0, nan, nan]).array).all()
        assert ndd.math.clamp([0, 2, 9], 3, 1).tolist() == [1, 1, 1]
        assert np.isnan(ndd.math.clamp([nan], 0, 1).array).all()


@pytest.mark.parametrize("name", [*UNARY, "abs"])
def test_batches_are_taken_sample_by_sample(name):
    ragged = as_batch([np.array([1, 2, 3], "int16"), np.array([4], "int16")], layout="W")
    whole = as_batch(np.arange(6, dtype="uint8").reshape(3, 2), layout="W")
    for batch in (ragged, whole, whole[0:0], as_batch([[0.5], [1.5, 2.0]])):
        found = function(name)(batch)
        assert isinstance(found, Batch)
        assert (len(found), found.ndim, found.layout) == (len(batch), batch.ndim, batch.layout)
        for sample, result in zip(batch, found, strict=True):
            assert np.array_equal(result.array, function(name)(sample).array, equal_nan=True)
    assert function(name)(as_tensor([[1.0]], layout="HW")).layout == "HW"


@given(st.permutations(["batch", "tensor", "array", "number", "list"]))
def test_operands_of_all_sorts_go_together(sorts):
    values = {"batch": as_batch([[1, 5], [9]]), "tensor": as_tensor([4]), "array": np.array([3], "int64"), "number": 2,
              "list": [6]}  # fmt: skip
    low, high, other = (values[sort] for sort in sorts[:3])
    plain = [{"batch": [[1, 5], [9]], "tensor": 4, "array": 3, "number": 2, "list": 6}[sort] for sort in sorts[:3]]
    found = ndd.math.clamp(low, high, other)
    assert isinstance(found, Batch) == ("batch" in sorts[:3])
    for i in range(2):
        expected = np.clip(*(np.array(p[i] if isinstance(p, list) else p) for p in plain))
        assert np.array_equal(np.ravel(found[i].array if isinstance(found, Batch) else found.array), np.ravel(expected))
    maximum = ndd.math.max(low, high)
    assert maximum.dtype == ("i64" if "array" in sorts[:2] else "i32")


def test_python_numbers_are_operands_like_those_of_operators():
    byte = as_tensor(np.uint8([7]))
    assert [ndd.math.max(byte, x).dtype.name for x in (True, 1, 1.0)] == ["u8", "i32", "f32"]
    assert [ndd.math.sqrt(x).dtype.name for x in (True, 4, 4.0, np.float64(4), np.float16(4))] == [
        "f32", "f32", "f32", "f64", "f16"]  # fmt: skip
    assert ndd.math.max(2**40, 1).dtype == "i64"
    assert ndd.math.max(byte, [1, 9]).tolist() == [7, 9]


@pytest.mark.parametrize("name", ndd.math.__all__)
def test_wrong_operands_are_named(name):
    names = list(inspect.signature(function(name)).parameters)
    for bad in (None, "text", np.zeros(2, complex), [1, "a"]):
        for wrong in names:
            arguments = {one: bad if one == wrong else 1 for one in names}
            with pytest.raises(ArgumentError, match=rf"math\.{name}\(\): argument '{wrong}'"):
                function(name)(**arguments)
    with pytest.raises(TypeError):
        function(name)()


def test_operands_that_do_not_go_together():
    with pytest.raises(ValueError, match=r"^math\.max\(\): argument 'operand' must be of a shape that broadcasts"):
        ndd.math.max([1, 2], [1, 2, 3])
    with pytest.raises(ArgumentError, match=r"^math\.max\(\)") as caught:
        ndd.math.max(as_batch([[1], [1, 2]]), [1, 2, 3])
    assert caught.value.__notes__ == ["In maximum, sample 1 of 2."]
    with pytest.raises(ArgumentError, match="one size"):
        ndd.math.max(as_batch([1, 2]), as_batch([1, 2, 3]))
    with pytest.raises(ArgumentError, match="layout"):
        ndd.math.max(as_tensor([[1]], layout="HW"), as_tensor([[1]], layout="WH"))


@pytest.mark.parametrize("name", ndd.math.__all__)
def test_every_function_is_documented_and_typed(name):
    assert ">>>" in function(name).__doc__
    assert function(name).__name__ == name
    assert get_type_hints(function(name), {**vars(ndd.math), "Any": object}).keys() >= {"return"}


# -- live
