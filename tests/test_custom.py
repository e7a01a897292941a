"""Operators of a user's own: what the page shows, and that `assert_operator` finds what is wrong with one."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, as_batch
from dynamic.custom import Between, Call, Layout, PerItem, PerSample, Plan, operator
from dynamic.pipeline import pipeline_def
from dynamic.testing import assert_operator


@operator(layouts=["HWC", "HW"], dtypes="uint8")
def posterized(image, /, *, bits: PerSample[int] = 4):
    """Keep the upper bits of each value."""
    return image & np.uint8(256 - (1 << (8 - bits)))


def _plan_bordered(call: Call) -> Plan:
    widths = call.column("width")
    shapes = [(h + 2 * n, w + 2 * n, *rest) for (h, w, *rest), n in zip(call.shapes, widths, strict=True)]
    return Plan(shapes, call.dtype, data=widths)


@operator(layouts=["HWC", "HW"], plan=_plan_bordered)
def bordered(image, /, *, width: PerSample[int] = 1, fill: float = 0.0, plan, out):
    """Put a border around each image."""
    out[...] = fill
    out[plan : plan + image.shape[0], plan : plan + image.shape[1]] = image


def _plan_scaled(call: Call) -> Plan:
    return Plan(call.shapes, np.dtype("float32"))


@operator(plan=_plan_scaled, unit="value")
def halved(values, /, *, out):
    np.multiply(values, 0.5, out=out, casting="unsafe")


@operator(plan=_plan_scaled, unit="array", layouts=["HWC"])
def scaled(image, /, *, by: PerItem[float] = 1.0, layout: Layout, out):
    factor = np.reshape(by, (-1, 1, 1, 1)) if isinstance(by, list) else by
    np.multiply(image, factor, out=out, casting="unsafe")


@st.composite
def images(draw):
    n = draw(st.integers(1, 5))
    shapes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=n, max_size=n))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    return as_batch([rng.integers(0, 256, (*shape, 3), np.uint8) for shape in shapes], layout="HWC")


@given(images(), st.data())
def test_operators_hold_what_all_hold(batch, data):
    def own(low, high, dtype="int32"):
        each = st.lists(st.integers(low, high), min_size=len(batch), max_size=len(batch))
        return data.draw(st.integers(low, high) | each.map(lambda values: as_batch(values, dtype=dtype)))

    assert_operator(posterized, batch, bits=own(1, 8))
    assert_operator(bordered, batch, width=own(0, 3), fill=7.0)
    assert_operator(halved, batch)
    assert_operator(scaled, batch, by=own(1, 3, "float32"))


def test_they_refuse_as_others_do():
    image = np.zeros((2, 2, 3), np.uint8)
    for call, told in (
        (lambda: posterized(image, bit=1), r"posterized\(\) has no argument 'bit'. Did you mean 'bits'"),
        (lambda: posterized(image, bits="x"), r"posterized\(\): argument 'bits' must be an integer"),
        (lambda: posterized(image.astype(float)), "of dtype uint8; got float64"),
        (lambda: posterized(image[0, 0]), "laid out as HWC, HW; got 1 dimensions"),
        (lambda: bordered(as_batch([image] * 2), width=as_batch([1])), "'width' must be a Batch of 2"),
    ):
        with pytest.raises(ArgumentError, match=told):
            call()
    with pytest.raises(ArgumentError, match=r"wrong\(\): argument 'x' must be an integer of at least 1; got int 0"):

        @operator()
        def wrong(a, /, *, x: Annotated[int, Between(1)] = 0): ...


@pytest.mark.parametrize(("declaration", "told"), [
    ({"unit": "rows"}, "'unit' must be one of 'sample', 'array'"), ({"layouts": "HWC"}, r"Write \['HWC'\]"),
    ({"unit": "value"}, "'plan' must be given for unit='value'"),
])  # fmt: skip
def test_wrong_declarations_are_refused(declaration, told):
    with pytest.raises(ArgumentError, match=told):

        @operator(**declaration)
        def wrong(a, /): ...


def test_wrong_functions_are_refused():
    def no_slash(a, *, x: int = 1): ...
    def no_annotation(a, /, *, x=1): ...
    def unknown_annotation(a, /, *, x: list[int]): ...
    def no_plan(a, /, *, out): ...

    for body, told in (
        (no_slash, "Inputs stand before a /"), (no_annotation, "got no annotation"),
        (unknown_annotation, "'x' must be annotated: float"), (no_plan, "'plan' must be given for the parameter 'out'"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            operator()(body)


@given(st.floats(0.01, 100), st.sampled_from([0.01, 100.0, 0.1]))
def test_bounds_may_be_rounded(drawn, bound):
    @operator()
    def take(a, /, *, x: PerSample[Annotated[float, Between(0.01, 100.0)]] = 1.0):
        return np.float64(x).reshape(1)

    for value in (drawn, bound):
        for given_ in (value, np.float32(value), as_batch([value])):
            assert float(take(np.zeros(1), x=given_).numpy().reshape(-1)[0]) == pytest.approx(value, rel=1e-6)
    with pytest.raises(ArgumentError, match="'x' must be a finite number in"):
        take(np.zeros(1), x=100.1)


def test_a_plan_that_is_none_and_unknown_columns_are_named():
    batch = as_batch([np.zeros(2), np.ones(3)])
    with pytest.raises(TypeError, match=r"The plan of f\(\) returned tuple; return a Plan"):
        operator(plan=lambda call: (Plan(), Plan()), name="f")(lambda a, /: a)(batch)
    with pytest.raises(ArgumentError, match=r"f\(\) has no argument 'widht'"):
        operator(plan=lambda call: Plan(call.column("widht")), name="f")(lambda a, /: a)(batch)


def test_wrong_results_are_refused():
    batch = as_batch([np.zeros(2), np.ones(3)])
    for plan, body, told in (
        (None, lambda a, /: None, "returned NoneType for sample [01]; return an array"),
        (Plan([(2,)], "float64"), lambda a, /, *, out: None, "has 1 shapes for 2 samples"),
        (Plan((2,)), lambda a, /, *, out: None, "has shapes and no dtype"),
        (Plan((2,), "float64", data=[1]), lambda a, /, *, out: None, "has 1 items of data for 2"),
        (Plan((2,), "float64"), lambda a, /, *, out: np.zeros(2), "returned a new array for sample [01]"),
    ):
        wrong = operator(plan=None if plan is None else lambda _, plan=plan: plan)(body)
        with pytest.raises(TypeError, match=told):
            wrong(batch)


def test_results_that_differ_are_told_by_the_operator():
    @operator()
    def grown(values, /):
        return values * 1.5 if values.any() else values

    @operator()
    def smaller(values, /):
        return values[0] if values.any() else values

    batch = as_batch([[[0, 0]], [[1, 2]]], dtype="uint8")
    with pytest.raises(TypeError, match=r"^grown\(\) returned uint8 for sample 0 and float64 for sample 1; return one"):
        grown(batch)
    with pytest.raises(TypeError, match=r"^smaller\(\) returned 2 dimensions for sample 0 and 1 dimensions for"):
        smaller(batch)


@pytest.mark.parametrize("unit", ["sample", "array", "row", "value", None])
@pytest.mark.parametrize("shapes", [[(2, 3)], [(2, 3)] * 3, [(2, 3), (4, 3)]])
def test_a_function_cannot_write_to_the_memory_of_the_caller(unit, shapes):
    planned, unit = unit is not None, unit or "sample"

    def body(values, /, *, out=None, wrong: bool = True):
        if wrong:
            values[...] = 0
        if out is None:
            return values.copy()
        out[...] = values
        return out

    def unplanned(values, /, *, wrong: bool = True):
        return body(values, wrong=wrong)

    plan = (lambda call: Plan(call.shapes, call.dtype)) if planned else None
    made = operator(plan=plan, unit=unit, name="writer")(body if planned else unplanned)
    arrays = [np.ones(shape, np.uint8) for shape in shapes]
    for value in (arrays[0], as_batch(arrays)):
        if len(shapes) > 1 and unit in ("row", "value") and len(set(shapes)) > 1 and value is not arrays[0]:
            continue  # it gets a copy of the rows of all samples
        with pytest.raises(ValueError, match="read-only") as caught:
            made(value)
        assert "In writer(), sample" in caught.value.__notes__[0]
        assert "Copy one before you write" in caught.value.__notes__[1]
        result = made(value, wrong=False)
        assert all(sample.numpy().all() for sample in (result if isinstance(result, ndd.Batch) else [result]))
    assert all(array.all() and array.flags.writeable for array in arrays)


def test_the_function_may_belong_to_no_module():
    names = {}
    exec("def doubled(values, /):\n    return values * 2", names)
    assert names["doubled"].__module__ is None or "__name__" in names
    assert operator()(names["doubled"])([1, 2]).tolist() == [2, 4]


def test_opencv_takes_read_only_images():
    cv2 = pytest.importorskip("cv2")

    @operator(layouts=["HWC"], dtypes="uint8")
    def smoothed(image, /, *, sigma: PerSample[Annotated[float, Between(1, 200)]] = 50.0):
        return cv2.bilateralFilter(image, 5, sigma, sigma)

    @operator(layouts=["HWC"])
    def framed(image, /):
        return cv2.rectangle(image, (0, 0), (2, 2), (1, 1, 1))

    image = np.random.default_rng(1).integers(0, 255, (8, 9, 3), np.uint8)
    assert np.array_equal(smoothed(image).numpy(), cv2.bilateralFilter(image, 5, 50.0, 50.0))
    with pytest.raises(cv2.error, match="readonly") as caught:
        framed(image)
    assert "Copy one before you write" in caught.value.__notes__[1]


def test_they_pickle_run_in_pipelines_and_stay_out_of_the_library():
    from dynamic._lift.operator import registry

    assert pickle.loads(pickle.dumps(posterized)) is posterized
    assert "posterized" not in registry

    @pipeline_def(batch_size=2, seed=1)
    def pipeline():
        return posterized(ndd.zeros(shape=(2, 2, 3), dtype="uint8", batch_size=2), bits=1)

    with pipeline() as pipe:
        (out,) = pipe.run()
    assert out.tolist() == np.zeros((2, 2, 2, 3)).tolist()


@pytest.mark.parametrize("fault", ["order", "input", "empty", "threads", "alone"])
def test_faults_are_found(fault):
    seen = []

    def plan(call: Call) -> Plan:
        kind = np.dtype("float32") if fault == "empty" and call.count else call.dtype
        return Plan(call.shapes, kind, data=list(range(call.count)))

    @operator(plan=plan)
    def faulty(values, /, *, plan, out):
        out[...] = values
        seen.append(values)
        if fault == "order":
            out[...] = plan
        if fault == "input" and values.base is not None and values.base.flags.writeable:
            values.base[...] += 1  # past the read-only view
        if fault == "threads" and ndd.get_num_threads() > 1:
            out[...] = 9
        if fault == "alone" and len(seen) > 2:
            out[...] = 8

    batch = as_batch([np.zeros(2, np.int32), np.ones(3, np.int32)])
    with ndd.EvalContext(num_threads=1), pytest.raises(AssertionError):
        assert_operator(faulty, batch)


def test_the_page_runs():
    page = Path(__file__).parents[1].joinpath("docs", "custom_operators.md").read_text()
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    assert eval("border(images, width=2).shape", names) == [(6, 7, 3), (8, 9, 3)]
    assert eval("posterize(images, bits=ndd.as_batch([1, 3])).samples[0].max()", names) == 128
