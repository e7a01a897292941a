"""Element types: names, promotion, conversion."""

from __future__ import annotations

import functools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, FLOATS, INTEGERS, any_dtype, arrays

import dynamic as ndd
from dynamic import ArgumentError, dtypes
from dynamic.dtypes import convert, promote

TYPES = [*dtypes.ALL]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_a_type_goes_by_many_names(t):
    numpy_dtype = np.dtype(t.word)
    for name in (t, t.name, t.word, numpy_dtype, numpy_dtype.type, numpy_dtype.newbyteorder()):
        assert ndd.dtype(name) is t
        assert t == name
    assert np.dtype(t) == numpy_dtype
    assert (t.bits, t.bytes) == (numpy_dtype.itemsize * 8, numpy_dtype.itemsize)
    assert pickle.loads(pickle.dumps(t)) is t
    assert str(t) == t.name
    assert hash(t) == hash(ndd.dtype(t.word))


def test_words_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert ndd.dtype(torch.float16) is ndd.float16
    assert ndd.dtype(torch.bool) is ndd.bool


def test_words_of_python_and_dali():
    assert [ndd.dtype(x) for x in (bool, int, float)] == [ndd.bool, ndd.int32, ndd.float32]
    assert ndd.dtype(ndd.types.FLOAT) is ndd.float32
    for kind in (ndd.uint8, ndd.int64, ndd.bool, ndd.float16):
        assert (kind.exponent_bits is None) == (kind.significand_bits is None) == (kind is not ndd.float16)
        assert ndd.dtype(kind.type_id) is kind
        assert kind.type_id is ndd.types.DALIDataType(kind.type_id)
    theirs = type("DALIDataType", (), {"name": "FLOAT16"})()  # no enumeration of Python, as in nvidia.dali.types
    assert ndd.dtype(theirs) is ndd.float16
    assert ndd.dtype(ndd.types.UINT8) is ndd.uint8
    integers = [f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)]
    assert [ndd.type_id(word) for word in (*integers, "float16", "float32", "float64", "bool")] == [*range(12)]
    assert ndd.type_id(ndd.bfloat16) == -1


@pytest.mark.parametrize("bad", [None, "x", "float31", complex, np.complex64, str, object(), 3, "datetime64[s]", [1]])
def test_what_is_no_type_is_refused(bad):
    with pytest.raises(ArgumentError, match=r"dtype\(\): argument 'value' must be a dtype"):
        ndd.dtype(bad)
    assert ndd.float32 != bad


@pytest.mark.parametrize("call", [
    ndd.as_tensor, ndd.tensor, ndd.cast, ndd.zeros_like, lambda x, dtype: ndd.as_batch([x], dtype=dtype),
    lambda _, dtype: ndd.as_batch([], dtype=dtype), lambda x, dtype: ndd.Batch.broadcast(x, 2, dtype=dtype),
    lambda x, dtype: ndd.Batch.broadcast(x, 2).shape(dtype), lambda _, dtype: ndd.zeros(dtype=dtype),
    lambda _, dtype: ndd.random.uniform(dtype=dtype),
])  # fmt: skip
def test_a_type_without_storage_is_refused_by_the_argument(call):
    for kind in (ndd.bfloat16, "bfloat16"):
        with pytest.raises(ArgumentError, match=r"^(?!dtype\()[\w.]+\(\): argument 'dtype'"):
            call(1, dtype=kind)


def test_repr_is_dalis():
    assert repr(ndd.int8) == "DType(kind=Kind.signed, bits=8)"
    assert repr(ndd.float16) == "DType(kind=Kind.float, bits=16, exponent_bits=5, significand_bits=10)"
    with pytest.raises(ArgumentError):
        np.dtype(ndd.bfloat16.dtype)


@given(any_dtype, any_dtype)
def test_promotion_is_symmetric_and_idempotent(a, b):
    c = promote(a, b)
    assert c == promote(b, a)
    assert promote(c, a) == promote(c, b) == c
    if "f" in (a.kind, b.kind):
        assert c in [d for d in (a, b) if d.kind == "f"]


@given(any_dtype, any_dtype)
def test_promotion_of_integers_keeps_every_value_up_to_64_bits(a, b):
    if a.kind in "iu" and b.kind in "iu":
        c = np.iinfo(promote(a, b))
        for d in map(np.iinfo, (a, b)):
            assert c.min <= d.min
            assert c.max >= d.max or (d.dtype == np.uint64 and c.dtype == np.int64)


def exact(value: float | int, to: np.dtype) -> int | bool:
    """Conversion of one number to an integer or bool, in Python's own arithmetic."""
    if isinstance(value, float):
        if math.isnan(value):
            return to.kind == "b"
        if math.isinf(value):
            value = 10**30 if value > 0 else -(10**30)
        else:
            whole = math.trunc(value)
            value = whole + (math.copysign(1, value) if abs(value - whole) >= 0.5 else 0)
            value = int(value) if abs(value) < 2**63 else int(value)
    if to.kind == "b":
        return value != 0
    limits = np.iinfo(to)
    return min(max(int(value), limits.min), limits.max)


@given(st.sampled_from(FLOATS), st.sampled_from([*INTEGERS, np.dtype(bool)]), st.data())
def test_floats_become_integers_as_exact_arithmetic_says(have, to, data):
    width = have.itemsize * 8
    near = st.integers(-(2**65), 2**65).map(float) | st.integers(-600, 600).map(lambda i: i / 2)
    values = data.draw(st.lists(st.floats(width=width) | near, max_size=8))
    with np.errstate(over="ignore"):
        array = np.array(values, have)
    expected = [exact(float(v), to) for v in array]
    assert convert(np, array, to).tolist() == expected
    out = np.zeros(len(values), to)
    convert(np, array, to, out=out)
    assert out.tolist() == expected


@pytest.mark.parametrize("have", FLOATS, ids=str)
def test_what_lies_beside_a_half_is_rounded_to_its_own_side(have):
    most = float(2 ** np.finfo(have).nmant)  # beyond it there are no halves
    halves = np.array([i / 2 for i in range(-300, 300)] + [sign * (most / 2 + i / 4) for i in range(9)
                      for sign in (1, -1)] + [most - 1, most + 1, 1 - most], have)  # fmt: skip
    array = np.concatenate([halves, *(np.nextafter(halves, have.type(to)) for to in (-np.inf, np.inf))])
    assert convert(np, array, np.dtype("int64")).tolist() == [exact(float(v), np.dtype("int64")) for v in array]


@given(st.sampled_from(INTEGERS), st.sampled_from([*INTEGERS, np.dtype(bool)]), st.data())
def test_integers_saturate(have, to, data):
    limits = np.iinfo(have)
    edges = st.sampled_from([limits.min, limits.max, 0, 1])
    values = data.draw(st.lists(edges | st.integers(limits.min, limits.max), max_size=8))
    assert convert(np, np.array(values, have), to).tolist() == [exact(v, to) for v in values]


@given(arrays(), st.sampled_from(ALL_DTYPES))
def test_conversion_keeps_shapes_and_never_writes_its_input(array, to):
    native = array.astype(array.dtype.newbyteorder("="))
    native.flags.writeable = False
    result = convert(np, native, to)
    assert (result.shape, result.dtype) == (array.shape, to)
    assert result is native if to == native.dtype else not np.shares_memory(result, native)


def all_that_round(have):
    """All numbers of a dtype of up to two bytes; of float32 all that begin alike, at and beside each place to round."""
    if have.itemsize <= 2:
        return np.arange(1 << 8 * have.itemsize, dtype=f"u{have.itemsize}").view(have)
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = [kept << 13 | rest for kept in range(8) for rest in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)]
    return (upper[:, None] | np.array(lower, np.uint32)).view(np.float32)


@pytest.mark.parametrize("have", ["float32", "uint8", "int8", "uint16", "int16", "float16"])
def test_conversion_to_and_from_float16_gives_the_bits_of_numpy(have):
    """Large arrays take another way: infinities, signs of zero, subnormals and ties are as before; NaN is NaN."""
    values = np.resize(all_that_round(np.dtype(have)), 1 << 22 if have == "float32" else 1 << 16).reshape(
        2, 1 << 10, -1
    )
    values.flags.writeable = False
    to = np.dtype("float32" if have == "float16" else "float16")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(to)
    strided, repeated = np.zeros((*values.shape[:2], 2 * values.shape[2]), to), np.zeros((2, *values.shape), to)
    found = [
        convert(np, values, to),
        convert(np, values, to, out=np.zeros(values.shape, to)),
        convert(np, values[:, ::-1], to)[:, ::-1],
        convert(np, values, to, out=strided[..., ::2]),
        *convert(np, values, to, out=repeated),
    ]
    for result in found:
        assert np.array_equal(result, expected, equal_nan=True)
        assert np.array_equal(np.signbit(result) & ~np.isnan(result), np.signbit(expected) & ~np.isnan(expected))
    assert not strided[..., 1::2].any()
    assert ndd.cast(values, dtype=to).array.tobytes() == found[0].tobytes()


@pytest.mark.parametrize(
    "wrong", ["foo", "HWC", 3.5, np.zeros(3), np.zeros((2, 2)), [1, 2], ndd.as_batch([[1]]), complex]
)
def test_a_wrong_dtype_or_device_names_the_function_that_was_called(wrong):
    image = np.zeros((2, 2, 3), np.uint8)
    calls = {
        **{name: functools.partial(getattr(ndd, name), image) for name in ("as_tensor", "tensor")},
        **{name: functools.partial(getattr(ndd, name), [image]) for name in ("as_batch", "batch")},
        "cast": lambda **a: ndd.cast(image, **{"dtype": "uint8", **a}),
        "uniform": ndd.random.uniform,
    }
    for name, call in calls.items():
        for argument in ("dtype", "device"):
            with pytest.raises(ArgumentError, match=rf"^{name}\(\): argument '{argument}' must be a") as caught:
                call(**{argument: wrong})
            assert (caught.value.operator, caught.value.argument) == (name, argument)


def test_layouts_are_words():
    for wrong in (np.zeros(3), np.zeros((2, 2)), 5):
        with pytest.raises(ArgumentError, match=r"^as_tensor\(\): argument 'layout' must be a string"):
            ndd.as_tensor([1], layout=wrong)


def test_dalis_word_for_decoding_on_the_gpu_is_explained():
    with pytest.raises(ArgumentError, match="Write 'gpu' for DALI's 'mixed'"):
        ndd.as_tensor([1], device="mixed")
