"""Operators and NumPy's functions on Tensors and Batches."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from dali_oracle import DaliError, Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES, any_dtype, arrays

import dynamic as ndd
from dynamic import ArgumentError, Batch, EvalContext, Tensor, as_batch, as_tensor
from dynamic.data import _arithmetic
from dynamic.dtypes import promote

BINARY = [operator.add, operator.sub, operator.mul]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor]


@st.composite
def pairs(draw):
    shape = npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)
    a, b = draw(shape).input_shapes
    return draw(arrays(shape=a)), draw(arrays(shape=b))


@given(pairs(), st.sampled_from(BINARY))
def test_arithmetic_promotes_as_dali_and_computes_as_numpy(pair, op):
    a, b = pair
    common = promote(*(np.dtype(x.dtype.newbyteorder("=")) for x in pair))
    assume(common.kind != "b")
    result = op(as_tensor(a), as_tensor(b))
    with np.errstate(all="ignore"):
        expected = op(a.astype(common), b.astype(common))
    assert result.dtype == common
    assert np.array_equal(result.array, expected, equal_nan=common.kind == "f")
    for other in (op(as_tensor(a), b), op(a, as_tensor(b))):
        assert isinstance(other, Tensor)
        assert np.array_equal(other.array, result.array, equal_nan=common.kind == "f")


@given(pairs(), st.sampled_from(COMPARISONS))
def test_comparisons_give_bools(pair, op):
    result = op(as_tensor(pair[0]), as_tensor(pair[1]))
    assert result.dtype == "bool"
    assert np.array_equal(result.array, op(*pair))


@given(pairs(), st.sampled_from(BITWISE))
def test_bitwise_is_for_integers_and_bools(pair, op):
    a, b = map(as_tensor, pair)
    if "f" in (pair[0].dtype.kind, pair[1].dtype.kind):
        with pytest.raises(ArgumentError):
            op(a, b)
    else:
        common = promote(a.array.dtype, b.array.dtype)
        assert np.array_equal(op(a, b).array, op(a.array.astype(common), b.array.astype(common)))


@given(arrays(dtype=st.sampled_from([d for d in ALL_DTYPES if d.kind in "iuf"])), st.integers(1, 9))
def test_division_floors_and_its_remainder_fits(a, divisor):
    t = as_tensor(a)
    quotient, remainder = divmod(t, divisor)
    assert np.array_equal((t // divisor).array, quotient.array)
    assert np.array_equal((t % divisor).array, remainder.array)
    common = a.astype(quotient.array.dtype)  # of uint64 and a number int64, which wraps around
    assert np.array_equal(quotient.array, np.floor_divide(common, np.asarray(divisor, common.dtype)), equal_nan=True)
    if a.dtype.kind != "f":
        assert np.array_equal(quotient.array * divisor + remainder.array, common)
    assert (t / divisor).dtype == (t.dtype if a.dtype.kind == "f" else "f32")


@given(pairs(), st.sampled_from([*BINARY, operator.truediv, operator.lt, np.maximum, np.arctan2]))
def test_much_data_is_calculated_in_parts(pair, op):
    assume(not all(x.dtype.kind == "b" for x in pair))
    assume(any(x.ndim for x in pair))  # single numbers are never much
    a, b = map(as_tensor, pair)
    batches = [(as_batch([a, a, a]), as_batch([b, b, b])), (as_batch([a, a]), b)]
    few = [op(a, b), *(op(*batch) for batch in batches)]
    with pytest.MonkeyPatch.context() as patch, EvalContext(num_threads=3):
        for name in (
            "data._arithmetic._LARGE",
            "data._arithmetic._SHARED",
            "_base.pool._worth_sharing",
        ):
            patch.setattr(f"dynamic.{name}", 0)
        many = [op(a, b), *(op(*batch) for batch in batches)]
    for one, other in zip(few, many, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.array_equal(one.numpy(), other.numpy(), equal_nan=one.dtype.name[0] == "f")


def test_large_results_have_memory_of_their_own():
    a = np.random.default_rng(1).integers(0, 255, (700, 500, 3), np.uint8)
    t, ragged = as_tensor(a), as_batch([a, a[1:], a])
    results = [t + 1, t + 2, np.sqrt(t), t * 2.0, t < 9]
    for result, expected in zip(results, (a + 1.0, a + 2.0, np.sqrt(a.astype("f4")), a * 2.0, a < 9), strict=True):
        assert np.array_equal(result.array, expected)
    assert all(np.array_equal(x, y.astype("i4") * 3) for x, y in zip((ragged * 3).samples, ragged.samples, strict=True))
    with pytest.raises(ValueError, match="broadcast") as caught:
        ragged + np.zeros((700, 500, 3))
    assert "sample 1 of 3" in caught.value.__notes__[0]


def test_what_python_numbers_do():
    u8, f32, f64, i64 = (as_tensor(np.array([7], d)) for d in ("u1", "f4", "f8", "i8"))
    assert [(x + 1).dtype.name for x in (u8, f32, f64, i64)] == ["i32", "f32", "f64", "i64"]
    assert [(x * 0.5).dtype.name for x in (u8, f32, f64, i64)] == ["f32", "f32", "f64", "f32"]
    assert (u8 + True).dtype == "u8"
    assert (u8 + 2**40).dtype == "i64"
    assert (u8 + [1, 2]).tolist() == [8, 9]
    assert (u8 + u8 * 40).dtype == "i32"
    assert (-u8).tolist() == [249]
    assert (as_tensor([-7]) // 2).tolist() == [-4]
    assert (as_tensor([-7]) % 3).tolist() == [2]
    assert (as_tensor(np.float16([1.5])) * np.float16(2)).dtype == "f16"
    assert (2 ** as_tensor([3])).tolist() == [8]
    assert (as_tensor([1, 0]) / 0).tolist()[0] == float("inf")
    assert (1 << as_tensor([3])).tolist() == [8]


def test_what_has_no_answer_says_so():
    bools, ints = as_tensor([True, False]), as_tensor([1, 2])
    for wrong in (lambda: bools + bools, lambda: -bools, lambda: abs(bools), lambda: bools / bools,
                  lambda: ints ** -1, lambda: as_tensor(1.5) << 1, lambda: divmod(bools, bools)):  # fmt: skip
        with pytest.raises(ArgumentError):
            wrong()
    for wrong in (lambda: ints // 0, lambda: ints % as_tensor([1, 0]), lambda: divmod(ints, 0)):
        with pytest.raises(ZeroDivisionError):
            wrong()
    for wrong in (lambda: ints + "a", lambda: ints + None, lambda: ints < None, lambda: object() + ints):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="broadcast"):
        ints + as_tensor([1, 2, 3])
    with pytest.raises(ArgumentError, match="layout"):
        as_tensor([[1]], layout="HW") + as_tensor([[1]], layout="WH")
    assert (bools * bools).dtype == (bools & True).dtype == (~bools).dtype == (+bools).dtype == "bool"


def test_operators_never_write():
    a = np.array([1, 2])
    t = u = as_tensor(a)
    t += 1
    t *= 2
    assert (t.tolist(), u.tolist(), a.tolist()) == ([4, 6], [1, 2], [1, 2])
    with pytest.raises(TypeError):
        np.add(u, 1, out=u)
    with pytest.raises(TypeError):
        np.add.at(u, [0], 1)
    assert a.tolist() == [1, 2]


@pytest.mark.parametrize("made", [as_tensor, as_batch])
def test_a_function_that_has_not_such_types_is_refused_by_name(made):
    for call in (lambda: ~made([1.5]), lambda: np.gcd(made([1.5]), 2), lambda: np.sign(made([True]))):
        with pytest.raises(ArgumentError, match=r"'operand' must be of a type that it is defined for; got \w+"):
            call()
    assert np.ldexp(made([1.5, 2.0]), made([1, 2])).tolist() == [3.0, 8.0]  # one operand is of integers
    assert np.ldexp(made([3]), 1).dtype == "float32"


@pytest.mark.parametrize("number", [1e39, -1e300, 3.4028236e38, math.inf])
def test_numbers_beyond_float32_are_infinite(number):
    infinite = math.copysign(math.inf, number)
    assert as_tensor(number).item() == (as_tensor(1.0) * number).item() == infinite
    assert as_batch([number, 1]).tolist() == (as_batch([1, 2]) * number)[:1].tolist() + [1.0] == [infinite, 1.0]
    assert as_batch([[number], [1]]).tolist() == [[infinite], [1.0]]
    assert (as_tensor([1.0], "float64") < number).item() is (number > 0)
    assert math.isnan((as_tensor(1.0) + math.nan).item())


@given(arrays(dtype=st.sampled_from([d for d in ALL_DTYPES if d.kind in "iuf"])))
def test_numpys_functions(a):
    t = as_tensor(a, layout="HWC"[: a.ndim])
    root = np.sqrt(t)
    assert isinstance(root, Tensor)
    assert root.layout == (t.layout if a.ndim else None)
    with np.errstate(all="ignore"):
        expected = np.sqrt(a if a.dtype.kind == "f" else a.astype(np.float32))
    assert np.array_equal(root.array, expected, equal_nan=True)
    assert np.array_equal(np.add.reduce(t, axis=None).array, np.add.reduce(a, axis=None), equal_nan=True)
    assert np.array_equal(np.maximum(t, 1).array, np.maximum(t.array, np.int32(1)))


def test_each_sample_is_broadcast_by_itself():
    for function in (operator.add, operator.mul, operator.pow, operator.lt):
        found = function(as_batch([[1, 2, 3], [4]]), as_batch([[1, 2, 3], [4, 5]]))
        assert found.tolist() == [
            [function(a, b) for a, b in ((1, 1), (2, 2), (3, 3))], [function(4, 4), function(4, 5)]
        ]  # fmt: skip
    with pytest.raises(ValueError, match="broadcast") as caught:
        as_tensor([1, 2]) + as_tensor([1, 2, 3])
    assert caught.value.__notes__ == ["In add."]


@given(n=st.integers(1, 3), ragged=st.booleans(), shared=st.booleans(), large=st.booleans())
def test_an_error_of_shapes_names_the_operator_the_shapes_and_the_sample(n, ragged, shared, large):
    columns = 40_000 if large else 2
    wrong, other = (n - 1 if ragged else 0), np.ones((3, columns + 1), np.float32)
    samples = [np.ones((1 if i < wrong else 3, 1 if i < wrong else columns), np.float32) for i in range(n)]
    batch, operand = as_batch(samples), other if shared else as_batch([other] * n)
    told = rf"argument 'operand' must be .*broadcasts.* shapes \(3, {columns}\) and \(3, {columns + 1}\)"
    for function, name in ((operator.add, r"\+"), (np.maximum, "maximum"), (ndd.math.max, r"math\.max")):
        with pytest.raises(ArgumentError, match=rf"{name}\(\): {told}") as caught:
            function(batch, operand)
        assert [note.endswith(f"sample {wrong} of {n}.") for note in caught.value.__notes__] == [True]
    with pytest.raises(ArgumentError, match="exponent") as caught:
        as_batch([[2]] * n) ** as_batch([[1]] * (n - 1) + [[-1]])
    assert caught.value.__notes__ == [f"In power, sample {n - 1} of {n}."]


OF_MATRICES = {np.matmul: [(2, 2), (1, 2), (2, 1), (1, 1)], np.vecdot: [(1, 1), (2, 2)], np.matvec: [(2, 1), (3, 2)],
               np.vecmat: [(1, 2), (2, 3)]}  # fmt: skip


@given(st.data(), st.sampled_from(list(OF_MATRICES)), st.sampled_from(["whole", "list", "ragged", "tensor"]))
def test_functions_of_matrices_are_those_of_each_sample(data, function, kind):
    ndims = data.draw(st.sampled_from(OF_MATRICES[function]))
    pairs = [
        [data.draw(npst.arrays("f8", (extent,) * ndim, elements=st.integers(-9, 9))) for ndim in ndims]
        for extent in ([2, 2] if kind != "ragged" else [2, 3])
    ]
    if kind == "tensor":
        pairs[1][1] = pairs[0][1]
    as_data = {"whole": lambda samples: as_batch(np.stack(samples))}.get(kind, as_batch)
    left, right = (as_data(list(samples)) for samples in zip(*pairs, strict=True))
    made = function(left, as_tensor(pairs[0][1]) if kind == "tensor" else right)
    alone = [function(as_tensor(a), as_tensor(b)) for a, b in pairs]
    assert made.shape == [each.shape for each in alone]
    assert made.tolist() == [each.tolist() for each in alone]
    nothing = function(left[:0], right[:0])
    assert (len(nothing), nothing.ndim, nothing.dtype) == (0, made.ndim, made.dtype)
    with pytest.raises(ArgumentError, match=r"operand.*of shapes that fit") as caught:
        function(left, as_batch(np.zeros((2, *(7,) * ndims[1]))))
    assert f"In {function.__name__}, sample 0 of 2." in caught.value.__notes__


def test_layouts_follow_broadcasting():
    image = as_tensor(np.zeros((2, 3, 4)), layout="HWC")
    row = as_tensor(np.zeros(4), layout="C")
    assert (image + row).layout == (row + image).layout == (image + np.zeros(4)).layout == "HWC"
    assert (row + np.zeros((2, 3, 4))).layout is None


# -- batches


@given(st.data(), any_dtype, any_dtype, st.sampled_from([operator.add, operator.mul, operator.lt]))
def test_batches_calculate_sample_by_sample(data, d1, d2, op):
    assume(promote(d1, d2).kind != "b" or op is not operator.add)
    n = data.draw(st.integers(1, 3))
    whole = data.draw(st.booleans())
    left, right = data.draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3)).input_shapes
    lefts = [data.draw(arrays(d1, left, any_order=False)) for _ in range(n)]
    rights = [data.draw(arrays(d2, right, any_order=False)) for _ in range(n)]
    a, b = as_batch(lefts), as_batch(rights)
    if whole:
        a, b = as_batch(np.stack(lefts)), as_batch(np.stack(rights))
    expected = [op(as_tensor(x), as_tensor(y)) for x, y in zip(lefts, rights, strict=True)]
    for result in (op(a, b), op(as_batch(lefts), as_batch(np.stack(rights)))):
        for sample, one in zip(result.samples, expected, strict=True):
            np.testing.assert_array_equal(sample, one.array, strict=True)
        assert result.dtype == expected[0].dtype
    right = as_tensor(rights[0])
    expected = [op(as_tensor(x), right) for x in lefts]
    for result in (op(a, right), op(a, rights[0])):
        assert isinstance(result, Batch)
        for sample, one in zip(result.samples, expected, strict=True):
            np.testing.assert_array_equal(sample, one.array, strict=True)


#: Functions of two operands, and of one: what is calculated in steps, and by instructions for many numbers at once.
OF_TWO = [*BINARY, *COMPARISONS, operator.truediv, operator.floordiv, operator.mod, divmod, np.arctan2, np.fmax]
OF_ONE = [operator.neg, abs, np.sqrt, np.exp, np.log, np.sin, np.tanh, np.cbrt, np.isfinite, np.rint, np.modf]


def outcome(function, *operands):
    """The results, or what was raised."""
    try:
        found = function(*operands)
    except (ArgumentError, ZeroDivisionError) as error:
        return error
    return list(found) if isinstance(found, tuple) else [found]


def as_if_alone(function, operands, alone):
    """What a function makes of Batches: what it makes of each sample alone, or the error of the first that fails."""
    expected = [outcome(function, *x) for x in alone]
    results = outcome(function, *operands)
    if isinstance(results, Exception):
        first = next(i for i, found in enumerate(expected) if isinstance(found, Exception))
        assert str(results) == str(expected[first])
        assert f"sample {first} of {len(alone)}" in results.__notes__[0]
        return []
    for k, result in enumerate(results):
        assert isinstance(result, Batch)
        for sample, own in zip(result.samples, expected, strict=True):
            np.testing.assert_array_equal(sample, own[k].array, strict=True)
    return results


@given(st.data(), st.lists(st.tuples(*[st.integers(0, 40)] * 2), min_size=2, max_size=4, unique=True),
       any_dtype, any_dtype, st.sampled_from([*OF_TWO, *OF_ONE]))  # fmt: skip
def test_ragged_samples_are_calculated_as_if_alone(data, shapes, d1, d2, op):
    """Small ones are calculated all at once, which must not show: neither in a bit, nor in what an error says."""
    columns = [[data.draw(arrays(d, shape)) for shape in shapes] for d in (d1, d2)]
    one = data.draw(arrays(d2, ()))
    operands = [as_batch(columns[0])]
    alone = [(as_tensor(x),) for x in columns[0]]
    if op in OF_TWO:
        kind = data.draw(st.sampled_from(["batch", "number", "rows"]))
        column = {"batch": columns[1], "number": [one] * len(shapes), "rows": [x[:1] for x in columns[1]]}[kind]
        assume(all(len(x) for x in columns[0]))
        operands.append(as_tensor(one) if kind == "number" else as_batch(column))
        alone = [(*x, as_tensor(y)) for x, y in zip(alone, column, strict=True)]
        if data.draw(st.booleans()):
            operands, alone = operands[::-1], [x[::-1] for x in alone]
    as_if_alone(op, operands, alone)


@given(st.data(), st.integers(2, 3), any_dtype, any_dtype, st.sampled_from([*OF_TWO, *OF_ONE]))
def test_separate_samples_of_one_shape_are_calculated_as_if_alone(data, n, d1, d2, op):
    """With little between one and the next; operands that stand still along short rows are repeated first."""
    shape = data.draw(st.sampled_from([(3, 500, 3), (2, 300, 1, 7), (5000, 1), (2, 40, 64), (4100,)]))
    values = [[data.draw(arrays(d, (5,))) for _ in range(n)] for d in (d1, d2)]
    lefts = [np.resize(some, shape) for some in values[0]]
    operands, alone = [as_batch(lefts)], [(as_tensor(x),) for x in lefts]
    if op in OF_TWO:
        other = data.draw(st.sampled_from([
            shape, (), shape[-1:], (1,) * (len(shape) - 1) + shape[-1:], (1,) + shape[1:], shape[:-1] + (1,),
            (1,) * len(shape), shape[-2:-1] + (1,),
        ]))  # fmt: skip
        assume(np.broadcast_shapes(shape, other) == shape)
        column = [np.resize(some, other) for some in values[1]]
        if data.draw(st.booleans()):
            operands.append(as_batch(column))
        else:
            column = column[:1] * n
            operands.append(as_tensor(column[0]))
        alone = [(*x, as_tensor(y)) for x, y in zip(alone, column, strict=True)]
        if data.draw(st.booleans()):
            operands, alone = operands[::-1], [x[::-1] for x in alone]
    for result in as_if_alone(op, operands, alone):
        assert result.whole is not None or op not in (
            operator.add,
            operator.mul,
            operator.lt,
            np.fmax,
            abs,
            np.isfinite,
        )


@pytest.mark.parametrize(("have", "whole", "made"), [
    ((3,), (9, 500, 3), (500, 3)), ((1, 1, 3), (9, 500, 3), (1, 500, 3)), ((4, 1, 1, 2), (4, 9, 50, 2), (4, 1, 50, 2)),
    ((2,), (16, 2), (16, 2)), ((), (9, 3), None), ((3,), (3,), None), ((1,), (9, 3), None), ((64,), (9, 64), None),
    ((63,), (9, 63), (9, 63)), ((3,), (9, 1, 3), None), ((9, 1, 3), (9, 500, 3), None), ((1, 3), (7, 3), None),
    ((1, 3), (8, 3), None), ((1, 1, 3), (8, 5, 3), (1, 5, 3)), ((1, 1, 3), (7, 5, 3), None),
    ((9, 5, 3), (9, 5, 3), None),
])  # fmt: skip
def test_short_rows_are_repeated_to_long_ones(have, whole, made):
    """Unless that takes more than an eighth of the memory of the result; single rows of few numbers never matter."""
    operand = np.arange(1, 1 + math.prod(have), dtype=np.float32).reshape(have)
    found = _arithmetic._with_long_rows(operand, whole)
    assert found is operand if made is None else found.shape == made and found.flags.c_contiguous
    assert np.array_equal(np.broadcast_to(found, whole), np.broadcast_to(operand, whole))


def test_ragged_batches_and_everything_else():
    b = as_batch([[1, 2, 3], [4, 5]], layout="W")
    assert (b + 1).tolist() == (1 + b).tolist() == [[2, 3, 4], [5, 6]]
    assert (b * as_batch([10, 100])).tolist() == [[10, 20, 30], [400, 500]]
    assert (np.arange(3) + as_batch([[1], [2]])).tolist() == [[1, 2, 3], [2, 3, 4]]
    assert (-b).layout == "W"
    assert (b == 2).tolist() == [[False, True, False], [False, False]]
    assert (b == None) is False  # noqa: E711
    assert np.exp(as_batch([0, 0])).tolist() == [1.0, 1.0]
    assert [x.tolist() for x in divmod(as_batch([7, 8]), 4)] == [[1, 2], [3, 0]]
    b += b
    assert b.tolist() == [[2, 4, 6], [8, 10]]
    with pytest.raises(ArgumentError, match=r"^\+\(\): argument 'operand' must be Batches of one size; got sizes"):
        b + as_batch([1, 2, 3])
    for one, other in ((as_tensor([1], layout="H"), as_tensor([1], layout="W")),
                       (as_batch([[1]], layout="H"), as_batch([[1]], layout="W"))):  # fmt: skip
        with pytest.raises(ArgumentError, match=r"^\*\(\): argument 'layout' must be a suffix of 'H'"):
            one * other
    with pytest.raises(ValueError, match="broadcast") as caught:
        b + as_tensor([1, 2, 3, 4])
    assert "sample 0 of 2" in caught.value.__notes__[0]
    with pytest.raises(TypeError):
        b + "a"
    with pytest.raises(ValueError, match="ambiguous"):
        bool(b)


@pytest.mark.parametrize("d", ["u1", "f4", "bool"])
def test_empty_batches_calculate(d):
    for b in (as_batch([], dtype=np.dtype(d)), as_batch(np.zeros((0, 2, 2), d))):
        assert len(b * 2) == 0
        assert (b * 2).dtype == (as_tensor(np.zeros(1, d)) * 2).dtype
        assert (b / 2).ndim == b.ndim


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.truediv])
@pytest.mark.parametrize("shape", [(), (3,), (1, 70, 1), (7, 90, 70, 3)])
def test_large_results_are_those_of_small_ones(op, shape):
    """Large results are made in parts, in memory that is used again; those of single pixels are not."""
    a = np.arange(7 * 90 * 70 * 3, dtype=np.uint8).reshape(7, 90, 70, 3)
    b = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    a.setflags(write=False)
    spread = np.broadcast_to(b, a.shape)
    with EvalContext(num_threads=3):
        for result in (op(as_tensor(a), as_tensor(b)), op(as_tensor(b), as_tensor(a))):
            assert result.shape == a.shape
        left, right = op(as_tensor(a), as_tensor(b)).array, op(as_tensor(b), as_tensor(a)).array
    for place in [(0, 0, 0), (3, 89, 0), (6, 0, 69)]:
        assert np.array_equal(left[place], op(as_tensor(a[place]), as_tensor(spread[place])).array)
        assert np.array_equal(right[place], op(as_tensor(spread[place]), as_tensor(a[place])).array, equal_nan=True)
    ragged = [a[0], a[1, :80]]
    doubled = op(as_batch(ragged), 2)
    assert all(np.array_equal(x.array, op(as_tensor(y), 2).array) for x, y in zip(doubled, ragged, strict=True))


# -- live

SYMBOLS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
           "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
           "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
           "<=": operator.le, ">": operator.gt, ">=": operator.ge}  # fmt: skip


def operands_of(symbol, a, b):
    """The operands, changed where DALI means something else by the symbol or the C language does not say what."""
    if symbol in {"//", "%"}:  # rounded to zero there, and floats not at all
        assume("f" not in (a.dtype.kind, b.dtype.kind))
        a, b = (x if x.dtype.kind == "b" else np.maximum(x, 0) for x in (a, b))
        a, b = (x >> 1 if x.dtype == np.uint64 else x for x in (a, b))  # which beside int8 would be negative
        b = b | np.array(1, b.dtype)
    if symbol == "**" and b.dtype.kind != "f":
        b = b % np.array(4, b.dtype) if b.dtype.kind != "b" else b
    if symbol in {"<<", ">>"} and b.dtype.kind in "iu":
        b = b % np.array(7, b.dtype)
    if symbol[0] in "<>" and {a.dtype.kind, b.dtype.kind} == {"i", "f"}:  # a negative integer is less than any float
        a, b = (np.maximum(x, 0) if x.dtype.kind == "i" else x for x in (a, b))
    return np.asarray(a), np.asarray(b)


@pytest.mark.parametrize("symbol", SYMBOLS)
@given(data=st.data())
def test_operators_are_dalis(dali: Oracle, symbol, data):
    kinds = st.sampled_from([d for d in ALL_DTYPES if d != np.float16])
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3)).input_shapes
    drawn = [data.draw(arrays(kinds, st.just(shape), any_order=False)) for shape in shapes]
    a, b = operands_of(symbol, *drawn)
    try:
        expected = dali.binary(symbol, a, b).array
    except DaliError:
        with pytest.raises(ArgumentError):
            SYMBOLS[symbol](as_tensor(a), as_tensor(b))
        return
    assume(not (symbol in {"<<", ">>"} and a.dtype == b.dtype == bool))
    found = SYMBOLS[symbol](as_tensor(a), as_tensor(b)).array
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)
    else:
        assert np.array_equal(found, expected)


@given(data=st.data())
def test_broadcasting_and_layouts_are_dalis(dali: Oracle, data):
    n = data.draw(st.integers(1, 3))
    kinds = [data.draw(st.sampled_from(["batch", "tensor"])) for _ in range(2)]
    shapes = data.draw(
        npst.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=3, max_side=3)
    ).input_shapes
    theirs, ours = [], []
    for kind, shape in zip(kinds, shapes, strict=True):
        layout = data.draw(st.sampled_from(["DHW"[-len(shape) :], None]))
        samples = [data.draw(arrays(np.int32, st.just(shape), any_order=False)) % 100 for _ in range(n)]
        theirs.append(Samples(samples, layout) if kind == "batch" else Laid(samples[0], layout or ""))
        ours.append(as_batch(samples, layout=layout) if kind == "batch" else as_tensor(samples[0], layout=layout))
    expected = dali.binary("-", *theirs)
    found = ours[0] - ours[1]
    assert isinstance(found, Batch) == expected.is_batch
    assert found.layout == expected.layout
    for a, b in zip(found.samples if isinstance(found, Batch) else [found.array], expected.samples, strict=True):
        assert np.array_equal(a, b)


@given(arrays(any_dtype.filter(lambda t: t.kind in "iuf"), npst.array_shapes(max_dims=3, max_side=3)),
       st.sampled_from(["+=", "out", "at"]), st.booleans())  # fmt: skip
def test_arrays_of_numpy_are_written_into_by_numpys_rules(a, way, many):
    data = as_batch(a) if many else as_tensor(a)
    total, expected = np.ones(a.shape), np.ones(a.shape)
    with np.errstate(all="ignore"):
        if way == "+=":
            total += data
            expected += a
        elif way == "out":
            assert np.multiply(data, 2, out=total) is total
            np.multiply(a, 2, out=expected)
        else:
            np.add.at(total, ..., data)
            np.add.at(expected, ..., a)
    np.testing.assert_array_equal(total, expected)


def test_data_is_never_written_into():
    for data in (as_tensor([1, 2]), as_batch([1, 2])):
        with pytest.raises(TypeError, match=r"numpy\.add cannot write into a Tensor or Batch"):
            np.add(data, 1, out=data)
        with pytest.raises(TypeError, match=r"numpy\.add cannot write into a Tensor or Batch"):
            np.add.at(data, [0], 1)
        assert data.tolist() == [1, 2]


@pytest.mark.parametrize("value", ["a", None, b"a", object(), {"a": 1}, [1, None]])
def test_what_is_no_number_is_no_operand(value):
    for data in (as_tensor([1, 2]), as_batch([1, 2])):
        for call in (lambda: data + value, lambda: value * data, lambda: data < value, lambda: np.maximum(data, value)):
            with pytest.raises(TypeError) as caught:
                call()
            assert len(str(caught.value)) < 200
            assert type(value).__name__ in str(caught.value) or "operand" in str(caught.value)


class Knowing:
    """Has arithmetic with anything."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "known"


def test_other_classes_may_know_what_to_do():
    assert as_tensor([1]) + Knowing() == "known" == Knowing.__array_ufunc__(None, None, None)
    assert as_batch([[1]]) + Knowing() == "known"


LARGE = np.ones((2, 300, 300))


@pytest.mark.parametrize(
    "data", [as_tensor([1, 2]), as_batch([1, 2]), as_batch([[1, 2], [3]]), as_tensor(LARGE), as_batch(LARGE)], ids=repr
)
def test_results_that_no_data_can_hold_are_refused(data):
    objects = np.frompyfunc(lambda x: (x, None), 1, 1)
    for call in (lambda: np.add(data, 1, dtype=complex), lambda: np.add(data, 1, dtype="longdouble"),
                 lambda: objects(data)):  # fmt: skip
        with pytest.raises(ArgumentError, match="argument 'dtype' must be an element type of Tensors"):
            call()
    with pytest.raises(ArgumentError, match="argument 'where' must be left out"):
        np.add(data, 1, where=[True, False])
    with pytest.raises(ArgumentError, match="argument 'where' must be left out"):
        np.add(data, 1, where=False)
    assert np.array_equal(np.add(data[0], 1, where=True).numpy(), data[0].numpy() + 1)


def test_functions_of_numpy_take_data_for_arrays():
    a = np.arange(6.0).reshape(2, 3)
    for function in (np.mean, np.std, lambda x: np.clip(x, 1, 2), lambda x: np.where(x, 1, 0), np.median):
        for data in (as_tensor(a), as_batch(a)):
            found = function(data)
            assert isinstance(found, (np.ndarray, np.generic))
            np.testing.assert_array_equal(found, function(a))
    for function in (np.sum, np.min, np.any):
        assert isinstance(function(as_tensor(a)), Tensor)
        with pytest.raises(TypeError, match=r"dynamic.reductions has it for each sample"):
            function(as_batch(a))
