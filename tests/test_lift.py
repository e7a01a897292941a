"""The lift itself, on operators that exist for these tests only."""

from __future__ import annotations

import asyncio
import enum
import math
import os
import pickle
import threading
import time
import warnings
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, Batch, Tensor, as_batch, as_tensor
from dynamic._arrays.array import GATHERED
from dynamic._base import pool
from dynamic._base.origin import Origin
from dynamic._lift import operator as operator_
from dynamic._lift.argument import Between, DTypeArgument, Layout, PerItem, PerSample
from dynamic._lift.call import Plan
from dynamic.errors import CorruptImage, DataError, DecodeError, Failure, LayoutWarning, TruncatedImage

Array = Any


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch):
    monkeypatch.setattr(operator_, "registry", {})


def lift(**declaration):
    return operator_.operator(**declaration)


def same(call):
    return Plan(call.shapes, call.dtype)


def two_in_two_out():
    def plan(call):
        return Plan(outputs=[same(call), Plan([(n,) for n in call.column("times")], np.dtype("float32"), "N")])

    @lift(plan=plan)
    def pair(a: Array, b: Array, /, *, times: PerSample[int], out: Any) -> tuple[Array, Array]:
        out[0][...] = a + b
        out[1][...] = times
        return out

    return pair


def test_several_inputs_and_outputs():
    pair = two_in_two_out()
    added, counted = pair(as_batch([[1, 2], [3]], layout="W"), as_tensor([1]), times=as_batch([2, 3]))
    assert (added.tolist(), added.layout) == ([[2, 3], [4]], "W")
    assert (counted.tolist(), counted.layout, counted.dtype.name) == ([[2, 2], [3, 3, 3]], "N", "f32")
    one, other = pair([1, 2], [3, 4], times=1)
    assert isinstance(one, Tensor)
    assert (one.tolist(), other.tolist()) == ([4, 6], [1.0])
    none, no_counts = pair(as_batch([], dtype="i32", layout="W"), as_tensor([1]), times=1)
    assert (len(none), len(no_counts), none.ndim, no_counts.layout) == (0, 0, 1, "N")
    with pytest.raises(ArgumentError, match="2 positional arguments"):
        pair([1], times=1)
    with pytest.raises(ArgumentError, match="'b' must be a Batch of 2, like 'a'"):
        pair(as_batch([[1], [2]]), as_batch([[1]]), times=1)


def test_any_number_of_inputs():
    @lift(plan=lambda call: Plan((len(call.inputs),), call.dtype))
    def sums(*inputs: Array, out: Any) -> Array:
        out[...] = [a.sum() for a in inputs]
        return out

    assert sums([1, 2], 3).tolist() == [3, 3]
    assert sums(as_batch([[1], [2]]), as_batch([[3, 4], [5]]), 6).tolist() == [[1, 7, 6], [2, 5, 6]]
    with pytest.raises(ArgumentError, match="one or more positional arguments"):
        sums()
    with pytest.raises(ArgumentError, match=r"'inputs\[1\]' must be"):
        sums(1, None)
    with pytest.raises(ArgumentError, match=r"'inputs\[2\]' must be a Batch of 2, like 'inputs\[0\]'"):
        sums(as_batch([1, 2]), 3, as_batch([1]))


def test_no_inputs():
    def plan(call):
        return Plan(call.column("shape"), np.dtype("int16"), ndim=len(call.fixed.get("shape", ())))

    @lift(plan=plan)
    def zeros(*, shape: PerSample[tuple[int, ...]], out: Any) -> Array:
        out[...] = 0 // shape[0]
        return out

    one = zeros(shape=(2,))
    assert isinstance(one, Tensor)
    assert (one.tolist(), one.layout, one.dtype.name) == ([0, 0], None, "i16")
    assert zeros(shape=as_batch([[1], [2]])).tolist() == [[0], [0, 0]]
    assert zeros(shape=(2,), batch_size=3).shape == [(2,)] * 3
    assert (zeros(shape=(2, 2), batch_size=0).ndim, zeros(shape=(2, 2), batch_size=0).dtype.name) == (2, "i16")
    with pytest.raises(ArgumentError, match="takes no positional arguments; got 1"):
        zeros(1, shape=(2,))
    with pytest.raises(ndd.DeviceError, match="gpu:0"):
        zeros(shape=(1,), device="gpu")
    with pytest.raises(ZeroDivisionError) as caught:
        zeros(shape=as_batch([[1], [0]]))
    assert caught.value.__notes__ == ["In zeros(), sample 1 of 2."]


@pytest.mark.parametrize("unit", ["sample", "array"])
def test_a_plan_is_made_once_for_all_samples(unit):
    asked = []

    def plan(call):
        asked.append(call.count)
        rows = zip(call.samples(), call.column("times"), strict=True)
        return Plan(call.shapes, call.dtype, data=max((a.max() * times for (a,), times in rows), default=0))

    @lift(plan=plan, unit=unit)
    def scaled(a: Array, /, *, times: PerSample[int] = 1, plan: Any, out: Any) -> Array:
        out[...] = plan - a
        return out

    assert scaled(as_batch([[1, 2], [5, 0]])).tolist() == [[4, 3], [0, 5]]
    assert scaled(as_batch([[1], [5]]), times=as_batch([7, 1])).tolist() == [[6], [2]]
    assert scaled([1, 2]).tolist() == [1, 0]
    assert len(scaled(as_batch([], dtype="i32"))) == 0
    assert asked == [2, 2, 1, 0]
    with pytest.raises(ArgumentError, match="has"):
        scaled([1], plan=3)


def test_each_sample_gets_its_own_part_of_the_plan():
    def plan(call):
        return Plan(call.shapes, call.dtype, data=call.each(lambda a, *, times: len(a) * times))

    @lift(plan=plan, unit="array")
    def filled(a: Array, /, *, times: PerSample[int] = 1, plan: int, out: Any) -> Array:
        out[...] = plan

    assert filled(as_batch([[1, 2], [5, 0]]), times=as_batch([1, 2])).tolist() == [[2, 2], [4, 4]]
    assert filled(as_batch([[1], [2, 3]])).tolist() == [[1], [2, 2]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8))
def test_samples_that_are_alike_are_planned_once(drawn):
    asked = []

    def plan(call):
        def spec(a, *, times):
            asked.append((a.shape, times))
            return a.shape

        return Plan(call.each(spec), call.dtype)

    @lift(plan=plan)
    def zeroed(a: Array, /, *, times: PerSample[int], out: Any) -> Array:
        out[...] = 0

    batch = Batch([np.zeros(n, "u1") for n, _ in drawn], None, None, np.dtype("u1"), 1)
    result = zeroed(batch, times=as_batch([times for _, times in drawn], dtype="i32"))
    assert result.shape == batch.shape
    assert sorted(asked) == sorted({((n,), times) for n, times in drawn})


def test_arguments_may_differ_between_samples_that_are_given_at_once():
    seen = []

    @lift(plan=same, unit="array")
    def scaled(a: Array, /, *, times: PerItem[int] = 1, more: PerSample[int] = 0, out: Any) -> Array:
        seen.append((a.ndim, times))
        out[...] = a * np.reshape(times, (-1, 1)) + more
        return out

    batch = as_batch(np.array([[1, 2], [3, 4], [5, 6]]))
    assert scaled(batch, times=as_batch([1, 0, 2])).tolist() == [[1, 2], [0, 0], [10, 12]]
    assert scaled(batch, times=as_batch([1, 0, 2]), more=1).tolist() == [[2, 3], [1, 1], [11, 13]]
    assert seen == [(2, [1, 0, 2])] * 2
    assert scaled(batch, more=as_batch([1, 0, 2])).tolist() == [[2, 3], [3, 4], [7, 8]]
    assert scaled(as_batch([[1], [2, 3]]), times=as_batch([5, 6])).tolist() == [[5], [12, 18]]
    assert seen[2:] == [(1, 1)] * 3 + [(1, 5), (1, 6)]


def test_small_samples_of_one_shape_are_given_at_once():
    seen = []

    @lift(plan=same, unit="array")
    def added(a: Array, b: Array, /, *, times: PerItem[int] = 1, out: Any) -> Array:
        seen.append(a.shape)
        out[...] = a + b * np.reshape(times, (-1,) + (1,) * (b.ndim - 1))
        return out

    for shape in ((), (2,), (3, 1)):
        arrays = [np.full(shape, i, "i4") for i in range(3)]
        for b in (arrays, np.stack(arrays)):
            result = added(as_batch(arrays), as_batch(b), times=as_batch([1, 2, 3]))
            assert np.array_equal(result.whole, np.stack([i + i * (i + 1) + np.zeros(shape) for i in range(3)]))
    large = [np.ones(GATHERED, "i4")] * 2
    assert added(as_batch(large), as_batch(large)).tolist() == [[2] * GATHERED] * 2
    assert added(as_batch([[1], [2, 3]]), as_batch([[1], [1, 1]])).tolist() == [[2], [3, 4]]
    assert added(as_batch([[1], [2]]), as_tensor([1])).tolist() == [[2], [3]]
    large_shapes = [(GATHERED,)] * 2
    together = [(3,), (3,), (3, 2), (3, 2), (3, 3, 1), (3, 3, 1)]
    assert seen == [*together, *large_shapes, (1,), (2,), (1,), (1,)]


@pytest.mark.parametrize("wide", [False, True])
def test_small_samples_of_a_few_shapes_are_given_shape_by_shape(wide):
    seen = []

    @lift(plan=lambda call: Plan(call.shapes if wide else (), call.dtype), unit="array")
    def most(a: Array, /, *, times: PerItem[int] = 1, out: Any) -> Array:
        seen.append(a.shape)
        if a.max() > 99:
            raise ArgumentError("most", "a", "less than 100", str(a.max()))
        if a.min() < 0:
            raise ZeroDivisionError
        found = a.max(-1, keepdims=True) * np.reshape(times, (-1, 1)[: a.ndim])
        out[...] = found if wide else found[..., 0]
        return out

    ragged = [np.arange(n) + i for i, n in enumerate([2, 1, 2, 2, 1, 1, 2, 2])]
    result = most(as_batch(ragged), times=as_batch(list(range(8))))
    assert result.tolist() == [[(x[-1] * i).tolist()] * len(x) if wide else x[-1] * i for i, x in enumerate(ragged)]
    assert (result.whole is None) == wide
    assert seen == [(5, 2), (3, 1)]
    del seen[:]
    most(as_batch([*ragged[:4], np.arange(3)]))  # three shapes of five samples: as fast one by one
    assert seen == [(2,), (1,), (2,), (2,), (3,)]
    with pytest.raises(ArgumentError, match="less than 100") as refused:
        most(as_batch([*ragged, np.full(2, 100)]))
    assert refused.value.__notes__[0].startswith("In most(), sample 8 of 9: shape (2,)")
    with pytest.raises(ZeroDivisionError) as failed:
        most(as_batch([*ragged, np.full(1, -1)]))
    assert failed.value.__notes__ == ["In most(), samples 0 to 3 of 4.", "These are samples 1, 4, 5, 8 of 9."]


def test_independent_rows_of_small_samples_are_given_as_one():
    seen = []

    @lift(plan=lambda call: Plan([(n, 1) for n, *_ in call.shapes], np.dtype("i8")), unit="row")
    def total(a: Array, /, *, times: PerItem[int] = 1, more: PerSample[int] = 0, out: Any) -> Array:
        seen.append(a.shape)
        if a.size and a.max() > 99:
            raise ZeroDivisionError
        out[:, 0] = a.sum(1) * times + more
        return out

    ragged = as_batch([np.ones((n, 3), "i8") for n in (2, 0, 3)])
    assert total(ragged, times=as_batch([1, 2, 3])).tolist() == [[[3], [3]], [], [[9], [9], [9]]]
    assert total(ragged).shape == [(2, 1), (0, 1), (3, 1)]
    assert seen == [(5, 3)] * 2
    assert total(ragged, more=as_batch([1, 2, 3])).tolist() == [[[4], [4]], [], [[6], [6], [6]]]
    assert seen[2:] == [(2, 3), (0, 3), (3, 3)]
    wide = as_batch([np.ones((1, 2), "i8"), np.ones((2, 3), "i8"), np.ones((1, 1 << 12), "i8")])
    assert total(wide).tolist() == [[[2]], [[3], [3]], [[1 << 12]]]
    assert total(as_tensor(np.ones((2, 2), "i8"))).tolist() == [[2], [2]]
    with pytest.raises(ZeroDivisionError) as caught:
        total(as_batch([np.ones((1, 3), "i8"), np.full((2, 3), 100, "i8")]))
    assert caught.value.__notes__ == ["In total(), samples 0 to 1 of 2."]


def test_independent_values_of_small_samples_are_given_as_one():
    seen = []

    @lift(plan=lambda call: Plan(call.shapes, np.dtype("f4")), unit="value")
    def half(a: Array, /, *, out: Any) -> Array:
        seen.append(a.shape)
        out[...] = a / 2
        return out

    arrays = [np.arange(6).reshape(2, 3), np.arange(4)[::-1].reshape(2, 2).T, np.empty((0, 5), int)]
    result = half(as_batch(arrays, layout="HW"))
    assert [a.tolist() for a in result] == [(a / 2).tolist() for a in arrays]
    assert (result.shape, result.layout, result.dtype.name) == ([(2, 3), (2, 2), (0, 5)], "HW", "f32")
    assert seen == [(10,)]


def test_a_plan_may_choose_a_kernel_for_all_samples():
    seen = []

    def of_many(call, memory):
        (samples,), times = call.columns(), call.column("times")
        seen.append((times, [a.shape for a in samples], memory is not None))
        results = [a * n for a, n in zip(samples, times, strict=True)]
        if memory is None:
            return [results]
        for out, result in zip(memory.outs, results, strict=True):
            out[...] = result
        return None

    @lift(plan=lambda call: Plan(call.shapes, call.dtype, kernel=of_many))
    def with_memory(a: Array, /, *, times: PerSample[int] = 1, out: Any) -> Array:
        out[...] = a * times

    @lift(plan=lambda call: Plan(kernel=of_many))
    def without(a: Array, /, *, times: PerSample[int] = 1) -> Array:
        return a * times

    for operator in (with_memory, without):
        batch = as_batch([[1], [2, 3]])
        assert operator(batch, times=as_batch([5, 6])).tolist() == [[5], [12, 18]]
        assert operator(as_batch([[1], [2]]), times=3).tolist() == [[3], [6]]
        assert operator(batch[:1], times=3).tolist() == [[3]], "one sample is done by the function itself"
        assert operator([1, 2], times=3).tolist() == [3, 6]
    assert seen == [
        ([*times], shapes, given)
        for given in (True, False)
        for times, shapes in (((5, 6), [(1,), (2,)]), ((3, 3), [(1,), (1,)]))
    ]


def test_the_number_of_results_may_depend_on_the_call():
    @lift(plan=lambda call: Plan(outputs=[Plan(), Plan(layout=None)]) if call.fixed["both"] else Plan())
    def split(a: Array, /, *, both: bool = False) -> Any:
        return (a, a[:1]) if both else a

    batch = as_batch([[1, 2], [3]], layout="W")
    assert split(batch).tolist() == [[1, 2], [3]]
    whole, first = split(batch, both=True)
    assert (whole.layout, first.layout, first.tolist()) == ("W", None, [[1], [3]])
    assert [x.ndim for x in split(batch[:0], both=True)] == [1, 1]


def test_what_an_empty_batch_becomes_may_be_declared():
    def plan(call):
        keep = call.fixed["keep"]
        return Plan(dtype=np.dtype("f8"), layout=call.layout if keep else None, ndim=call.ndim if keep else 0)

    @lift(plan=plan)
    def total(a: Array, /, *, keep: bool = False) -> Array:
        return a.astype(float).sum(keepdims=keep)

    empty = as_batch([[1, 2]], layout="W")[:0]
    for keep, expected in ((True, (1, "f64", "W")), (False, (0, "f64", None))):
        result = total(empty, keep=keep)
        assert (result.ndim, result.dtype.name, result.layout) == expected


def test_views_are_made_of_many_samples_at_once():
    asked = []

    @lift(plan=lambda call: Plan(data=call.ndim), unit="view")
    def flat(a: Array, /, *, plan: int) -> Array:
        asked.append(a.shape)
        return a.reshape((*a.shape[: a.ndim - plan], -1))

    whole = as_batch(np.zeros((2, 3, 4)), layout="HW")
    result = flat(whole)
    assert np.shares_memory(result.whole, whole.whole)
    assert result.layout is None, "it has one letter too many"
    assert flat(as_batch([np.zeros((3, 4)), np.zeros((2, 2))])).shape == [(12,), (4,)]
    assert flat(as_batch([np.zeros(3), np.zeros(2)], layout="W")).layout == "W"
    assert flat(np.zeros((3, 4))).shape == (12,)
    assert asked == [(2, 3, 4), (3, 4), (2, 2), (3,), (2,), (3, 4)]


def test_many_samples_without_a_layout_have_none():
    seen = []

    @lift(plan=same, unit="array")
    def probe(a: Array, /, *, layout: Layout, out: Any) -> Array:
        seen.append(layout)

    probe(as_batch(np.zeros((2, 3))))
    probe(as_batch(np.zeros((2, 3)), layout="W"))
    assert seen == [None, "NW"]


def test_outputs_without_declared_shape():
    @lift(plan=lambda _: Plan(outputs=[Plan(), Plan()]))
    def split(a: Array, /) -> tuple[Array, Array]:
        return a[:1], a[1:]

    head, tail = split(as_batch([[1, 2], [3, 4, 5]]))
    assert (head.tolist(), tail.tolist()) == ([[1], [3]], [[2], [4, 5]])


@pytest.mark.parametrize("operator", [
    lambda x: ndd.flip(x), lambda x: ndd.resize(x, size=8), lambda x: ndd.gaussian_blur(x, sigma=1.0),
    lambda x: ndd.crop_mirror_normalize(x, crop=(2, 4)), lambda x: ndd.random_resized_crop(x, size=8)])  # fmt: skip
def test_data_without_a_layout_that_looks_channels_first_is_warned_of(operator):
    image = np.zeros((3, 32, 48), np.float32)
    several = image[None].repeat(2, axis=0)
    for data, fix in ((image, "as_tensor"), (as_batch(several), "as_tensor"), (as_batch([image] * 2), "as_tensor"),
                      (several, "as_batch")):  # fmt: skip
        read = "read as FHWC" if fix == "as_batch" else "read as HWC"
        with pytest.warns(LayoutWarning, match=rf'{read}, with 48 channels.*{fix}\(x, layout="CHW"\)') as told:
            operator(data)
        assert all(warning.filename == __file__ for warning in told)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default", LayoutWarning)
        for _ in range(3):
            operator(image)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LayoutWarning)
        operator(image)


@given(shape=st.tuples(*[st.integers(1, 9)] * 3), layout=st.sampled_from(["HWC", "CHW"]))
def test_nothing_is_said_of_data_with_a_layout_or_with_channels_last(shape, layout):
    image = np.zeros(shape, np.uint8)
    assert ndd.flip(as_tensor(image, layout=layout)).shape == shape
    if shape[-1] <= 4 or shape[0] not in (1, 3, 4):
        assert ndd.flip(image).shape == shape
    assert ndd.flip(as_batch([image])[:0]).shape == []


def test_optional_inputs_defaults_and_layout():
    seen = []

    @lift(layouts=("HWC", "HW"), dtypes="uint8")
    def probe(a: Array, b: Array = None, /, *, dtype: DTypeArgument = "float32", layout: Layout) -> Array:
        seen.append((b is None, dtype, layout))
        return a

    probe(np.zeros((2, 2), np.uint8))
    probe(np.zeros((2, 2, 1), np.uint8), [1], dtype="u8")
    assert seen == [(True, ndd.float32, "HW"), (False, ndd.uint8, "HWC")]
    with pytest.raises(ArgumentError, match=r"of dtype uint8; got float32.*cast"):
        probe(np.zeros((2, 2), np.float32))
    with pytest.raises(ArgumentError, match="laid out as HWC, HW; got layout 'CHW'"):
        probe(as_tensor(np.zeros((2, 2, 2), np.uint8), layout="CHW"))
    assert "layout" not in probe.arguments
    assert list(probe.__signature__.parameters) == ["a", "b", "dtype", "batch_size", "device"]


def failing(error):
    @lift()
    def check(a: Array, /) -> Array:
        if a.size and a.max() > 1:
            raise error
        return a

    return check


def origin(n):
    return Origin(0, np.arange(n, dtype=np.uint64), [f"class/{i}.jpg" for i in range(n)])


def test_an_error_of_a_kernel_says_where():
    check = failing(KeyError("inside"))
    with pytest.raises(KeyError) as caught:
        check(Batch([np.zeros(1, np.int32), np.full(2, 5, np.int32)], None, origin(2)))
    (note,) = caught.value.__notes__
    assert note == "In check(), sample 1 of 2 (class/1.jpg): shape (2,) int32, layout None."


def test_a_kernel_that_takes_many_samples_says_which():
    @lift(plan=same, unit="array")
    def check(a: Array, /, *, out: Array) -> Array:
        raise KeyError("inside")

    with pytest.raises(KeyError) as caught:
        check(as_batch(np.zeros((3, 2))))
    assert caught.value.__notes__ == ["In check(), samples 0 to 2 of 3."]


def test_samples_that_cannot_be_read_are_all_named():
    check = failing(TruncatedImage("check", [Failure(0, "it ends", "JPEG")]))
    batch = Batch([np.full(1, i % 2 * 5, np.int32) for i in range(30)], None, origin(30))
    with pytest.raises(TruncatedImage) as caught:
        check(batch)
    error = caught.value
    assert [f.index for f in error.failures] == list(range(1, 30, 2))
    assert error.failures[0] == Failure(1, "it ends", "JPEG", "class/1.jpg")
    assert str(error).splitlines()[:2] == [
        "check(): 15 of 30 samples cannot be read.", "  sample 1 (class/1.jpg): JPEG: it ends",
    ]  # fmt: skip
    assert "... and 5 more" in str(error)


def test_different_reasons_meet_in_their_common_class():
    @lift()
    def check(a: Array, /) -> Array:
        raise (TruncatedImage, CorruptImage, DataError)[int(a)]("check", [Failure(0, "bad")])

    for values, kind in (([0, 0], TruncatedImage), ([0, 1], DecodeError), ([0, 2], DataError)):
        with pytest.raises(DataError) as caught:
            check(as_batch(values))
        assert type(caught.value) is kind


def test_failures_while_sizes_are_found_are_collected_too():
    tried = []

    def shape(a, /):
        if a == 1:
            raise CorruptImage("x", [Failure(0, "no header")])
        return a.shape

    @lift(plan=lambda call: Plan(call.each(shape, of_values=True), call.dtype))
    def check(a: Array, /, *, out: Array) -> Array:
        tried.append(int(a))
        if a == 2:
            raise CorruptImage("x", [Failure(0, "no data")])
        out[...] = a

    with pytest.raises(CorruptImage) as caught:
        check(as_batch([0, 1, 2, 3]))
    assert [(f.index, f.reason) for f in caught.value.failures] == [(1, "no header"), (2, "no data")]
    assert sorted(tried) == [0, 2, 3]


def test_origins_are_handed_on():
    check = failing(None)
    batch = Batch(np.zeros((3, 1), np.int32), None, origin(3))
    assert list(check(batch).origin.names) == list(batch.origin.names)
    assert check(batch[1]).origin.names == ["class/1.jpg"]
    assert as_batch([batch[2], batch[0]]).origin.ids.tolist() == [2, 0]
    assert check(np.zeros(1, np.int32)).origin is None


def numbers():
    @lift()
    def take(
        a: Array, /, *, f: PerSample[float] = 0.0, i: PerSample[int] = 0, b: bool = False, s: str = "",
        pair: PerSample[tuple[int, int]] = (0, 0), many: tuple[float, ...] = (),
        part: Annotated[float, Between(0, 1)] = 0.5, either: float | tuple[float, float] = 0.0,
    ) -> Array:  # fmt: skip
        return np.asarray([f, i, b, *pair, len(many), part])

    return take


@pytest.mark.parametrize(
    ("name", "good", "value"),
    [
        ("f", 2, 2.0), ("f", np.float16(2), 2.0), ("f", as_tensor([2.5]), 2.5), ("f", np.array(7), 7.0),
        ("f", True, 1.0),
        ("i", 3.0, 3), ("i", np.int8(3), 3), ("i", as_tensor(2.0), 2), ("i", np.array([-2.0]), -2), ("i", True, 1),
        ("b", 1, True), ("b", np.bool_(True), True), ("pair", [1, 2], (1, 2)), ("pair", np.array([1.0, 2]), (1, 2)),
        ("pair", as_tensor([3, 4]), (3, 4)), ("many", [1, 2.5], (1.0, 2.5)), ("many", (), ()), ("part", 1, 1.0),
        ("many", 3, (3.0,)), ("many", np.float16(3), (3.0,)), ("many", as_tensor(3), (3.0,)),
        ("many", {"a": 1, "b": 2}.values(), (1.0, 2.0)),
        ("either", [1, 2], (1.0, 2.0)), ("either", 3, 3.0), ("s", "x", "x"), ("f", [2], 2.0), ("i", (3.0,), 3),
        ("either", [1], 1.0), ("part", [0.5], 0.5),
    ],
)  # fmt: skip
def test_what_arguments_take(name, good, value):
    argument = numbers().arguments[name]
    assert argument.one(good) == value
    assert type(argument.one(good)) is type(value)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("f", "2"), ("f", float("nan")), ("f", float("inf")), ("f", [1.0, 2.0]), ("f", None.__class__), ("f", 1j),
        ("i", 2.5), ("i", "2"), ("i", as_tensor(float("nan"))), ("i", as_tensor(2.5)), ("i", np.float16(2.5)),
        ("i", np.array([-2.5])),        ("pair", np.array([1.6, 2])), ("b", 0.5), ("b", as_tensor(0.5)), ("b", 2),
        ("b", "yes"), ("b", 1.0),
        ("pair", 3),        ("pair", [1]), ("pair", [1, 2, 3]), ("pair", "ab"), ("pair", {1, 2}), ("pair", [1, 2.5]),
        ("many", ["a"]), ("part", 1.5), ("part", -1), ("either", "a"), ("f", [[1.0]]), ("s", 3), ("s", b"x"),
        ("b", as_batch([1])), ("s", as_batch([1])),
    ],
)  # fmt: skip
def test_what_arguments_refuse(name, bad):
    with pytest.raises(ArgumentError, match=rf"take\(\): argument '{name}' must be"):
        numbers()(np.zeros(1), **{name: bad})


def test_batches_of_arguments():
    take = numbers()
    result = take(np.zeros(1), f=as_batch([1.5, 2.5]), pair=as_batch([[1, 2], [3, 4]]), i=as_batch([1.0, -2.0]))
    assert isinstance(result, Batch)
    assert result.tolist() == [[1.5, 1, 0, 1, 2, 0, 0.5], [2.5, -2, 0, 3, 4, 0, 0.5]]
    assert take(np.zeros(1), f=as_batch([[1.5], [2.5]])).tolist()[1][0] == 2.5
    with pytest.raises(ArgumentError, match=r"take\(\): argument 'pair\[1\]' must be a sequence of 2"):
        take(np.zeros(1), pair=as_batch([[1, 2], [1, 2, 3]]))
    with pytest.raises(ArgumentError, match="as_batch"):
        take(as_batch([[1], [2]]), f=[1.0, 2.0])
    for fractions in (as_batch([1.0, 2.5]), as_batch([[1.0], [2.5]])):
        with pytest.raises(ArgumentError, match=r"take\(\): argument 'i\[1\]' must be an integer; got float 2.5. Draw"):
            take(np.zeros(1), i=fractions)
    with pytest.raises(ArgumentError, match="same for all samples"):
        take(np.zeros(1), part=as_batch([0.5]))


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_minus_zero_is_zero(zeros):
    """They are equal: what is remembered for one would be taken for the other, or not, by what was called before."""
    take = numbers()
    for zero in zeros:
        for value in (zero, np.float32(zero), as_tensor(zero), as_batch([zero, 1]), as_batch([[zero], [1, 2]])[:1]):
            result = take(np.zeros(1), f=value, part=zero)
            assert not np.signbit(result.tolist()).any()
        looked_up = ndd.lookup_table(np.uint8(0), keys=[0], values=[zero], default_value=zero)
        assert not np.signbit(looked_up.numpy())


def test_a_wrong_default_is_found_when_it_is_declared():
    with pytest.raises(ArgumentError, match=r"wrong\(\): argument 'x' must be an integer in \[1, 2\]; got int 3"):

        @lift()
        def wrong(a: Array, /, *, x: Annotated[int, Between(1, 2)] = 3) -> Array: ...


# -- threads


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(pool, "_worth_sharing", 0)
    with ndd.EvalContext(num_threads=4):
        yield


@given(st.integers(0, 50), st.integers(1, 8))
def test_the_pool_calls_once_for_each(n, threads_):
    seen = []
    with ndd.EvalContext(num_threads=threads_):
        pool.run(seen.append, n, 1 << 30)
    assert sorted(seen) == list(range(n))


@pytest.mark.parametrize("way", [pool.run, lambda f, n, work: pool.run_steps([(f, (i,)) for i in range(n)], work)])
def test_threads_share_what_is_enough_work(way, monkeypatch):
    monkeypatch.setattr(pool, "_oversubscribed", True)
    with ndd.EvalContext(num_threads=2):
        for work, shared in ((pool._worth_sharing, True), (pool._worth_sharing - 1, False)):
            seen, both = set(), threading.Barrier(2)

            def task(_, seen=seen, both=both, shared=shared):
                seen.add(threading.get_ident())
                if shared:
                    both.wait(60)

            way(task, 2, work)
            assert len(seen) == 1 + shared


def test_there_are_no_more_threads_than_processors(monkeypatch):
    """And of those that run Python no more than are useful."""
    for wanted, processors, most, expected in ((4, 2, 1024, 2), (4, 64, 1024, 4), (64, 64, 16, 16), (1, 1, 16, 1)):
        monkeypatch.setattr(pool, "_processors", lambda processors=processors: processors)
        with ndd.EvalContext(num_threads=wanted):
            assert pool.threads_for(pool._worth_sharing, most) == expected
            assert pool.threads_for(pool._worth_sharing - 1, most) == 1
            assert pool.native_threads_for(pool._OF_A_THREAD - 1) == 1
            assert pool.native_threads_for(3 * pool._OF_A_THREAD) == min(wanted, processors, 3)


def test_a_large_sample_is_shared_by_rows_unless_its_batch_is(monkeypatch):
    """Parts are all of it, begin at multiples of the step, and are as many as there are threads for each sample."""
    monkeypatch.setattr(pool, "_oversubscribed", True)
    with ndd.EvalContext(num_threads=4):
        large = pool.WORTH_SPLITTING
        for n, step, work, parts in (
            (100, 1, large, [25, 25, 25, 25]), (100, 16, large, [16, 32, 32, 20]), (100, 1, large - 1, [100]),
            (3, 1, large, [1, 1, 1]), (0, 1, large, []), (5, 16, large, [5]),
        ):  # fmt: skip
            seen = []
            pool.split(seen.append, n, work, step)
            assert [part.stop - part.start for part in sorted(seen, key=lambda part: part.start)] == parts
            assert sorted(i for part in seen for i in range(n)[part]) == list(range(n))
        for samples, each in ((1, 4), (2, 2), (3, 1), (4, 1), (9, 1)):
            counts = []
            pool.run(lambda i, counts=counts: counts.append(pool.get_num_threads()), samples, 1 << 30)
            assert counts == samples * [each]
            counts.clear()
            pool._share(lambda i, counts=counts: counts.append(pool.get_num_threads()), range(samples), 2, each)
            assert counts == samples * [each]
        assert pool.get_num_threads() == 4


def test_nested_calls_and_many_callers_do_not_wait_for_each_other(threads):
    def outer(i):
        pool.run(lambda j: results.append((i, j)), 5, 1)

    results = []
    callers = [threading.Thread(target=pool.run, args=(outer, 5, 1)) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert len(results) == 8 * 25


def test_the_first_error_ends_the_call(threads):
    done = []

    def work(i):
        if i == 10:
            raise KeyError(i)
        time.sleep(1e-3)
        done.append(i)

    with pytest.raises(KeyError):
        pool.run(work, 1000, 1)
    finished = len(done)
    assert 0 < finished < 500
    pool.run(done.append, 10, 1)
    assert len(done) == finished + 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_works(threads):
    x = as_batch(np.zeros((8, 64, 64, 3), np.uint8))
    expected = ndd.flip(x).tolist()
    child = os.fork()
    if not child:
        try:
            os._exit(0 if ndd.flip(x).tolist() == expected else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("DALI_NUM_THREADS", "3")
    assert ndd.get_num_threads() == 3
    monkeypatch.setenv("DYNAMIC_NUM_THREADS", "5")
    assert ndd.get_num_threads() == 5
    monkeypatch.setenv("DYNAMIC_NUM_THREADS", "none")
    with pytest.raises(ArgumentError, match="DYNAMIC_NUM_THREADS"):
        ndd.get_num_threads()
    try:
        for two in (2, np.int64(2), ndd.tensor(2)):
            ndd.set_num_threads(two)
            assert ndd.get_num_threads() == ndd.EvalContext(num_threads=two).num_threads == 2
    finally:
        ndd.set_num_threads(None)
    for bad in (0, -1, 1.5, "2", True, 10_000):
        for function, argument in ((ndd.set_num_threads, "n"), (ndd.ThreadPool, "num_threads")):
            with pytest.raises(ArgumentError, match=f"'{argument}'"):
                function(**{argument: bad})


def test_as_many_threads_help_as_a_call_may_use():
    """How many there were was decided by the first call, for all that came later."""
    try:
        ndd.set_num_threads(4)
        for wanted in (2, 4, 3, 6):
            together = threading.Barrier(wanted)
            with ndd.EvalContext(num_threads=wanted):
                pool._share(lambda _, gate=together: gate.wait(10), range(wanted), pool.get_num_threads())
    finally:
        ndd.set_num_threads(None)


# -- the shells for scripts written for DALI


def test_contexts_belong_to_asyncio_tasks():
    """What one has entered is nothing to the others, which go on in the midst of it, nor to what runs them."""

    def here():
        return (ndd.EvalContext.current(), ndd.checkpoint.current(), ndd.get_num_threads(), ndd.EvalMode.current(),
                ndd.Device.current())  # fmt: skip

    async def main():
        turns = [asyncio.Event() for _ in range(3)]

        async def task(number):
            await turns[number].wait()
            assert here() == outside
            with ndd.EvalContext(num_threads=number + 5) as own, ndd.EvalMode(number + 1), ndd.Device("cpu"):
                mine = here()
                assert mine[:3] == (own, own.checkpoint, number + 5)
                for _ in range(4):
                    turns[(number + 1) % 3].set()
                    turns[number].clear()
                    await turns[number].wait()
                    assert here() == mine
                    with ndd.EvalContext(num_threads=1) as inner:
                        assert ndd.EvalContext.current() is inner
                turns[(number + 1) % 3].set()
                await asyncio.sleep(0)
            assert here() == outside
            turns[(number + 1) % 3].set()

        await asyncio.gather(*map(task, range(3)), first(turns))

    async def first(turns):
        turns[0].set()

    outside = here()
    asyncio.run(main())
    assert here() == outside


def test_threads_may_share_a_context():
    """One that left it before the other once took what the other was to return to."""
    shared, inside, left = ndd.EvalContext(num_threads=2), threading.Event(), threading.Event()
    seen = []

    def first():
        with ndd.EvalContext(num_threads=5) as own:
            with shared:
                inside.set()
                assert left.wait(10)
                seen.append(ndd.get_num_threads() == 2)
            seen.append(ndd.get_num_threads() == 5)
            seen.append(ndd.EvalContext.current() is own)
            seen.append(ndd.checkpoint.current() is own.checkpoint)

    thread = threading.Thread(target=first)
    before = ndd.get_num_threads()
    thread.start()
    assert inside.wait(10)
    with shared:
        left.set()
        thread.join()
        assert (ndd.get_num_threads(), ndd.EvalContext.current()) == (2, shared)
    assert (ndd.get_num_threads(), ndd.EvalContext.current()) == (before, ndd.EvalContext.default())
    assert seen == [True] * 4


def test_modes_contexts_and_pools():
    assert ndd.EvalMode.current() is ndd.EvalMode.eager
    with ndd.EvalMode.deferred:
        assert ndd.EvalMode.current() is ndd.EvalMode.deferred
        with ndd.EvalMode.sync_full:
            assert ndd.EvalMode.current() > ndd.EvalMode.sync_cpu
    assert ndd.EvalMode.current() is ndd.EvalMode.eager is ndd.EvalMode.default
    assert f"{ndd.EvalMode.eager} {ndd.EvalMode.sync_cpu!s}" == "EvalMode.eager EvalMode.sync_cpu"
    outside = ndd.get_num_threads()
    with ndd.EvalContext(num_threads=1) as outer, ndd.EvalContext(thread_pool=ndd.ThreadPool(3)) as inner:
        assert ndd.EvalContext.current() is inner
        assert (ndd.get_num_threads(), outer.num_threads, inner.thread_pool.num_threads) == (3, 1, 3)
        inner.evaluate_all()
    assert ndd.EvalContext.current() is ndd.EvalContext.default()
    assert ndd.get_num_threads() == outside
    assert ndd.EvalContext.default().device_id is None
    with pytest.raises(ArgumentError, match="thread_pool"):
        ndd.EvalContext(num_threads=1, thread_pool=ndd.ThreadPool(1))
    if not ndd.devices.gpu_count():
        with pytest.raises(ndd.DeviceError):
            ndd.EvalContext(device_id=0)
        with pytest.raises(ndd.DeviceError):
            ndd.stream()
        assert ndd.get_current_stream() is ndd.get_default_stream() is None
        ndd.set_current_stream(None)


def test_devices():
    cpu = ndd.Device("cpu")
    assert (str(cpu), repr(cpu), cpu.device_type, cpu.device_id) == ("cpu", "Device(device_type='cpu')", "cpu", None)
    assert cpu == ndd.Device.CPU == ndd.Device.current() == "cpu"
    assert cpu != "gpu"
    assert ndd.device(cpu) is cpu
    assert ndd.device(None) is None
    assert ndd.Device.from_dlpack((1, 0)) == cpu
    assert ndd.Device.from_dlpack(np.zeros(1)) == ndd.Device.from_dlpack((1, 0)) == ndd.Device("cpu")
    assert ndd.Device.type_from_dlpack(3) == "cpu"
    assert ndd.Device.type_from_dlpack(2) == "gpu"
    assert ndd.Device.default_device_id("cpu") is None
    with ndd.Device("cpu"):
        assert ndd.Device.current() == cpu
    for bad in ("mixed", "cpu:0", 3, "gpu:x", b"cpu", object()):
        with pytest.raises(ArgumentError):
            ndd.device(bad)
    with pytest.raises(ArgumentError):
        ndd.Device("cpu", 0)
    with pytest.raises(ndd.DeviceError):
        ndd.Device.type_from_dlpack(99)


def test_a_device_of_torch_is_one():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert ndd.device(torch.device("cpu")) == ndd.Device("cpu")


def test_constants_of_another_enumeration_are_refused():
    image = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ArgumentError, match="'interp_type' must be one of 'nn', 'linear'.*; got DALIImageType"):
        ndd.resize(image, size=[2, 2], interp_type=ndd.types.DALIImageType.RGB)
    with pytest.raises(ArgumentError, match="'output_type' must be one of .*; got DALIInterpType"):
        ndd.color_space_conversion(image, image_type="RGB", output_type=ndd.types.DALIInterpType.INTERP_LINEAR)


def test_what_counts_dimensions_is_whole():
    array = np.ones((2, 3))
    assert ndd.reductions.sum(array, axes=np.array([1.0])).shape == (2,)
    for axes in (np.array([0.6]), as_tensor([0.6]), np.array([np.nan]), [0.6]):
        with pytest.raises(ArgumentError, match="'axes' must be an integer or a sequence"):
            ndd.reductions.sum(array, axes=axes)


def test_a_batch_is_offered_where_there_are_values_for_many():
    image, hint = np.zeros((4, 4, 3), np.uint8), "One value for each sample is a Batch"
    for call in (lambda: ndd.rotate(image, angle=[1, 2]), lambda: ndd.rotate(image, angle=np.ones(3)),
                 lambda: ndd.random.uniform(range=[[0, 1], [1, 2]]),
                 lambda: ndd.resize(image, size=[[4, 4], [5, 5]])):  # fmt: skip
        with pytest.raises(ArgumentError, match=hint):
            call()
    for call in (lambda: ndd.resize(image, size=(math.nan, 3)), lambda: ndd.rotate(image, angle=1, size=(-1, 4)),
                 lambda: ndd.random.uniform(shape=(-1,)), lambda: ndd.rotate(image, angle="1")):  # fmt: skip
        with pytest.raises(ArgumentError) as caught:
            call()
        assert hint not in str(caught.value)


@pytest.mark.parametrize(("angle", "hint"), [
    (np.complex64(1), "Pass the real and the imaginary part"),
    (np.ma.masked_array([1.0], [True]), "Fill the masked values first")])  # fmt: skip
def test_why_an_array_gives_no_numbers_is_told_for_an_argument_too(angle, hint):
    with pytest.raises(ArgumentError, match=rf"rotate\(\): argument 'angle' must be a finite number.*{hint}"):
        ndd.rotate(np.zeros((4, 4, 3), np.uint8), angle=angle)


def test_tensors_of_torch_with_values_for_many_are_offered_a_batch_too():
    torch = pytest.importorskip("torch")
    image = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ArgumentError, match="One value for each sample is a Batch"):
        ndd.rotate(image, angle=torch.tensor([1.0, 2.0]))
    with pytest.raises(ArgumentError, match=r"Pass tensor\.detach\(\)"):
        ndd.rotate(image, angle=torch.tensor(1.0, requires_grad=True))


def test_what_is_given_by_position_too_much_goes_by_name():
    image = np.zeros((4, 4, 3), np.uint8)
    for call, text in ((lambda: ndd.rotate(image, 10), r"1 positional argument \(image\); got 2\. .* such as angle="),
                       (lambda: ndd.zeros((2, 3)), "no positional arguments; got 1. The others .* such as shape="),
                       (lambda: ndd.resize(image, 224), r"1 positional argument \(image\); got 2\. .* such as size="),
                       (lambda: ndd.crop(image, (1, 1)), r"by name, such as crop=\.$"),
                       (lambda: ndd.random.uniform(0, 1), r"by name, such as range=\.$"),
                       (lambda: ndd.flip(), r"1 positional argument \(image\); got 0\.$")):  # fmt: skip
        with pytest.raises(ArgumentError, match=text):
            call()


@pytest.mark.parametrize("size", [2**64, -1, 1.0, True, "2", np.array([2, 3])])
def test_a_wrong_batch_size_is_named(size):
    for call in (lambda: ndd.flip(np.zeros((2, 2, 3), np.uint8), batch_size=size), lambda: ndd.zeros(batch_size=size),
                 lambda: Batch.broadcast([1], size)):  # fmt: skip
        with pytest.raises(ArgumentError, match="argument 'batch_size' must be an integer of 0 or more"):
            call()


@pytest.mark.parametrize(("theirs", "here"), [
    ("bilinear", "linear"), ("BICUBIC", "cubic"), ("Linaer", "linear"), ("lanczos", "lanczos3"),
    ("nearest-exact", "nn"), ("box", "triangular"), (enum.Enum("InterpolationMode", ["BILINEAR"]).BILINEAR, "linear"),
])  # fmt: skip
def test_a_word_of_another_library_is_told_in_the_words_of_this_one(theirs, here):
    with pytest.raises(ArgumentError, match=rf"'interp_type' must be one of 'nn', .* Did you mean '{here}'\?$"):
        ndd.resize(np.zeros((2, 2, 3), "uint8"), size=3, interp_type=theirs)


def test_no_word_is_suggested_that_is_not_taken():
    with pytest.raises(ArgumentError, match=r"must be one of 'nn', 'linear'; got str 'bicubic'\.$"):
        ndd.rotate(np.zeros((2, 2, 3), "uint8"), angle=3, interp_type="bicubic")


@pytest.mark.parametrize(("call", "text"), [
    (lambda image: ndd.rotate(image, degrees=10), "rotate() has no argument 'degrees'. Did you mean 'angle'?"),
    (lambda image: ndd.resize(image, size=3, interpolation="linear"),
     "resize() has no argument 'interpolation'. Did you mean 'interp_type'?"),
    (lambda image: ndd.expand_dims(image, axes="x"),
     "expand_dims(): argument 'axes' must be an integer or a sequence of integers; got str 'x'."),
])  # fmt: skip
def test_messages_are_sentences(call, text):
    with pytest.raises(ArgumentError) as caught:
        call(np.zeros((2, 2, 3), "uint8"))
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
