"""What holds for every operator, drawn from its declaration: a new one is tested by being declared."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import pickle
import pydoc
import re

import cv2
import numpy as np
import pytest
from fitting import FURTHER_INPUTS
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from strategies import calls, examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, DecodeError, DeviceError, as_batch, as_tensor
from dynamic._lift.argument import IGNORED
from dynamic._lift.operator import registry
from dynamic.pipeline._output import Output

# Means and deviations that are drawn may be fractions.
pytestmark = pytest.mark.filterwarnings("ignore::dynamic.errors.ScaleWarning")

#: What is done at once of one sample, where that is no more than a few pixels.
SIZES_OF_PARTS = {
    "color._STRIP": 64, "maps._BLOCK": 16, "maps._FEW": 16, "regions._AT_ONCE": 16, "scaled._BAND": 1 << 8,
    "strips._STEP": 64, "warp._BLOCK": 16, "warp._POINTS": (4, 4), "warp._STRIP": 1 << 8, "windows._CACHE": 1 << 6,
}  # fmt: skip
every = pytest.mark.parametrize("operator", registry.values(), ids=lambda operator: operator.name)
#: For what the lift does, whatever the values are.
fewer = examples(1 / 4)
#: Those without inputs, and one whose empty Batch is of no kind, as its files tell it.
peculiar = [o for o in registry.values() if not o.inputs or o.name == "decoders.numpy"]


def attempt(function, *args):
    """The result; a call whose arguments do not go together, or with their sample, is refused and is no example."""
    try:
        return function(*args)
    except (ArgumentError, DecodeError):
        assume(False)


def batches(varying):
    return {name: as_batch(values) for name, values in varying.items()}


def on_batch(operator, samples, layout, varying, fixed):
    """The results on a Batch of samples; an operator without inputs gives as many.

    Whatever a property is about: inputs are not written, results have memory of their own, and are as declared.
    """
    given_ = {} if operator.inputs else {"batch_size": len(samples)}
    before = copy.deepcopy(samples)
    results = listed(
        operator(*inputs_of(operator, as_batch(samples, layout=layout)), **given_, **fixed, **batches(varying))
    )
    assert all(equal(x, y) for x, y in zip(samples, before, strict=True))
    for result in results:
        assert len(result) == len(samples)
        assert_alike(result)
        for sample in result.samples:
            if operator.unit == "view":  # the input itself in another shape
                assert not any(
                    np.shares_memory(sample, x) and sample.flags.writeable and not x.flags.writeable for x in samples
                )
            else:
                assert not any(np.shares_memory(sample, x) for x in samples)
    return results


def assert_alike(result):
    assert {s.dtype for s in result.samples} == {result.dtype.dtype}
    assert {s.ndim for s in result.samples} == {result.ndim}
    assert result.layout is None or len(result.layout) == result.ndim


def on_tensor(operator, sample, layout, arguments):
    """The results on a Tensor."""
    return listed(operator(*inputs_of(operator, as_tensor(sample, layout=layout)), **arguments))


def inputs_of(operator, value):
    """As many inputs as the operator must have: the value, and others that are made from it, or are the same."""
    further = FURTHER_INPUTS.get(operator.name, lambda value: [value] * (operator.least - 1))
    return [value, *further(value)][: len(operator.inputs)]


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def equal(a, b) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("operator", [o for o in registry.values() if o not in peculiar], ids=lambda o: o.name)
@given(data=st.data())
def test_operators_have_the_properties_that_are_told_to_users(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, data.draw(st.integers(1, 3))))
    attempt(on_batch, operator, samples, layout, varying, fixed)
    inputs = inputs_of(operator, as_batch(samples, layout=layout))
    inputs = [x if isinstance(x, Batch) else Batch.broadcast(x, len(samples)) for x in inputs]
    ndd.testing.assert_operator(operator, *inputs, **fixed, **batches(varying))


@pytest.mark.parametrize("operator", peculiar, ids=lambda o: o.name)
@given(data=st.data())
def test_a_batch_is_its_samples(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator))
    wholes = attempt(on_batch, operator, samples, layout, varying, fixed)
    assert all(isinstance(whole, Batch) for whole in wholes)
    for i, sample in enumerate(samples):
        own = {name: values[i] for name, values in varying.items()}
        for one, whole in zip(on_tensor(operator, sample, layout, {**fixed, **own}), wholes, strict=True):
            assert equal(whole[i].array, one.array)
            assert one.layout == whole.layout


@every
@pytest.mark.filterwarnings("ignore::dynamic.errors.LayoutWarning")
@settings(max_examples=8)
@given(data=st.data())
def test_what_a_pipeline_gives_is_data_like_any_other(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator))
    told = data.draw(st.sampled_from([layout, None]))
    batch = attempt(lambda: as_batch(samples, layout=told))
    arguments = {**fixed, **batches(varying)}
    expected = attempt(lambda: listed(operator(*inputs_of(operator, batch), **arguments)))
    found = listed(operator(*inputs_of(operator, Output.of(batch)), **arguments))
    for one, other in zip(found, expected, strict=True):
        arrays = [each.samples if isinstance(each, Batch) else [each.array] for each in (one, other)]
        assert all(map(equal, *arrays))
        assert (one.layout, type(one)) == (other.layout, type(other))  # no output of a pipeline comes out


def scaled(value, factor):
    """Floats, in tuples and arrays too, times a factor; none becomes an extent that takes minutes to fill."""
    if isinstance(value, tuple):
        return tuple(scaled(each, factor) for each in value)
    if not isinstance(value, (float, np.ndarray)):
        return value
    product = value * np.float64(factor)
    return np.where((np.abs(product) > 400) & (np.abs(product) < 1e15), np.copysign(1e15, product), product)[()]


@pytest.mark.parametrize("operator", [o for o in registry.values() if o.__module__ != "dynamic.decoders"],
                         ids=lambda operator: operator.name)  # fmt: skip
@given(data=st.data())
def test_what_is_empty_huge_or_no_number_is_taken_or_refused_without_a_warning(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator))
    for i, sample in enumerate(samples):
        if sample.ndim and data.draw(st.booleans()):
            samples[i] = sample.take([], axis=data.draw(st.integers(0, sample.ndim - 1)))
        elif sample.dtype.kind == "f":
            odd = data.draw(st.sampled_from([0, np.nan, np.inf, -np.inf, np.finfo(sample.dtype).max]))
            samples[i] = np.where(sample > data.draw(st.sampled_from([-2000, 0, 2000])), sample, sample.dtype.type(odd))
    factors = st.sampled_from([1.0, 1e38, 1e300])
    fixed = {name: scaled(value, data.draw(factors)) for name, value in fixed.items()}
    varying = {name: [np.asarray(scaled(v, data.draw(factors))) for v in values] for name, values in varying.items()}
    with contextlib.suppress(ndd.errors.DynamicError, MemoryError):  # named, or no memory has so much room
        on_batch(operator, samples, layout, varying, fixed)


@every
@given(data=st.data())
def test_results_do_not_depend_on_the_order_of_memory(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, 2))
    results = attempt(on_batch, operator, samples, layout, varying, fixed)
    plain = [np.array(s, s.dtype.newbyteorder("="), order="C") for s in samples]
    for a, b in zip(results, on_batch(operator, plain, layout, varying, fixed), strict=True):
        assert all(equal(x, y) for x, y in zip(a.samples, b.samples, strict=True))


@every
@fewer
@given(data=st.data())
def test_samples_of_one_shape_become_one_array(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, 1))
    fixed |= {name: values[0] for name, values in varying.items()}
    samples = np.stack(samples * 3) if operator.unit == "view" else samples * 3
    for result in attempt(on_batch, operator, samples, layout, {}, fixed):
        assert result.whole is not None
        assert as_tensor(result).array is result.whole


@every
@given(data=st.data())
def test_threads_change_nothing(operator, data):
    """Neither where samples are shared between them, nor the rows of one; with parts so small that these have many."""
    samples, layout, varying, fixed = data.draw(calls(operator, 4))
    with pytest.MonkeyPatch.context() as patch:
        for name, size in SIZES_OF_PARTS.items():
            patch.setattr(f"dynamic.kernels.cpu.{name}", size)
        with ndd.EvalContext(num_threads=1):
            results = attempt(on_batch, operator, samples, layout, varying, fixed)
        for name in ("_worth_sharing", "WORTH_SPLITTING"):
            patch.setattr(f"dynamic._base.pool.{name}", 0)
        with ndd.EvalContext(num_threads=data.draw(st.sampled_from([2, 4, 12]))):
            again = on_batch(operator, samples, layout, varying, fixed)
    for one, many in zip(results, again, strict=True):
        assert all(equal(x, y) for x, y in zip(one.samples, many.samples, strict=True))


@every
@fewer
@given(data=st.data())
def test_an_empty_batch_gives_an_empty_batch_of_the_same_kind(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, 1))
    results = attempt(on_batch, operator, samples, layout, varying, fixed)
    empty = as_batch(samples, layout=layout)[0:0]
    nothing = {name: as_batch(values)[0:0] for name, values in varying.items()}
    for given_ in (empty, Batch([], empty.layout, None, empty.dtype.dtype, empty.ndim)):
        found = listed(operator(*inputs_of(operator, given_), batch_size=0, **fixed, **nothing))
        for result, full in zip(found, results, strict=True):
            kind = (full.dtype, full.ndim)
            if operator.name == "decoders.numpy":  # its files tell, of which there are none
                kind = (fixed.get("dtype", "uint8"), 1)
            assert (len(result), result.dtype, result.ndim, result.layout) == (0, *kind, full.layout)


@every
@fewer
@given(data=st.data())
def test_batch_size_repeats_a_tensor(operator, data):
    samples, layout, _, fixed = data.draw(calls(operator, 1))
    assume(all(a.name in fixed for a in operator.arguments.values() if a.required))
    once = attempt(on_tensor, operator, samples[0], layout, fixed)
    for one, three in zip(once, on_tensor(operator, samples[0], layout, {**fixed, "batch_size": 3}), strict=True):
        assert len(three) == 3
        assert all(equal(x, one.array) for x in three.samples)


def an_input(operator):
    """One input that the operator accepts, in a list; none where it takes none."""
    layout = operator.layouts[0] if operator.layouts else None
    kind = sorted(operator.dtypes, key=str)[-1]
    return inputs_of(operator, as_tensor(np.zeros((2,) * len(layout or "HW"), kind), layout=layout))


def accepts(argument, value):
    try:
        argument.one(value)
    except ArgumentError:
        return False
    return True


def example(argument):
    """A value that an argument may have."""
    values = [1.0, "float32", "W", "RGB", *((1,) * n for n in range(1, 7))]
    return next(value for value in values if accepts(argument, value))


@every
@pytest.mark.parametrize("bad", [object(), "?", float("nan"), [1, "a"], {}], ids=lambda bad: type(bad).__name__)
def test_errors_name_the_operator_and_the_argument(operator, bad):
    for name, argument in operator.arguments.items():
        if accepts(argument, bad):
            continue
        others = {a.name: example(a) for a in operator.arguments.values() if a.required and a is not argument}
        with pytest.raises(ArgumentError, match=re.escape(f"{operator.name}(): argument {name!r} must be ")):
            operator(*an_input(operator), **others, **{name: bad})


@pytest.mark.parametrize("name", IGNORED)
def test_what_only_says_how_dali_works_is_taken(name):
    operator = functools.reduce(getattr, name.split("."), ndd)
    image = np.random.default_rng(1).integers(0, 255, (9, 8, 3), np.uint8)
    given = np.frombuffer(cv2.imencode(".png", image)[1], np.uint8) if name.startswith("decoders.") else image
    given = image.reshape(-1) if name == "nonsilent_region" else given
    if name == "decoders.inflate":
        given = pytest.importorskip("lz4.block", reason="lz4 is not installed").compress(image, store_size=False)
    if name == "decoders.video":
        pytest.importorskip("av", reason="PyAV is not installed")
        import videos

        given = np.frombuffer(videos.video("VP9").data, np.uint8)
    needed = {"random_resized_crop": {"size": (5, 4)}, "resize_crop_mirror": {"size": 6}, "resize": {"size": 5},
              "tensor_resize": {"sizes": (5, 4, 3)}, "slice": {"start": 1, "axes": 0},
              "decoders.image_slice": {"rel_start": 0.5, "axes": 0},
              "decoders.inflate": {"shape": (9, 8, 3)}}.get(name, {})  # fmt: skip
    seed = {"rng": 3} if "random" in name else {}
    expected = operator(given, **needed, **{key: ndd.random.RNG(value) for key, value in seed.items()})
    found = operator(given, **needed, **{key: ndd.random.RNG(value) for key, value in seed.items()},
                     **dict.fromkeys(IGNORED[name], 1))  # fmt: skip
    assert all(np.array_equal(a.array, b.array) for a, b in zip(listed(found), listed(expected), strict=True))
    with pytest.raises(ArgumentError, match="has no argument '"):
        operator(given, **needed, no_such_hint=1)


@every
def test_unknown_and_missing_arguments(operator):
    required = {a.name: example(a) for a in operator.arguments.values() if a.required}
    for name in operator.arguments:
        with pytest.raises(ArgumentError, match=re.escape(f"Did you mean {name!r}?")):
            operator(*an_input(operator), **required, **{name + "x": 1})
    for name in required:
        with pytest.raises(ArgumentError, match=re.escape(f"{operator.name}(): argument {name!r}")):
            operator(*an_input(operator), **{k: v for k, v in required.items() if k != name})
    with pytest.raises(ArgumentError, match="positional argument"):
        operator(*[1] * (100 if not operator.variadic else 0), **required)
    for size in (-1, 1.5, "2", True):
        with pytest.raises(ArgumentError, match=re.escape(f"{operator.name}(): argument 'batch_size'")):
            operator(*an_input(operator), **required, batch_size=size)


def varying_numbers(operator):
    """The arguments that are one number, which may differ from sample to sample."""
    return [a for a in operator.arguments.values() if a.per_sample and a.plain in (int, float)]


@pytest.mark.parametrize("operator", list(filter(varying_numbers, registry.values())), ids=lambda o: o.name)
@fewer
@given(data=st.data())
def test_a_bad_value_for_one_sample_is_named(operator, data):
    argument = data.draw(st.sampled_from(varying_numbers(operator)))
    place = data.draw(st.integers(0, 2))
    values = [1.0, 1.0, 1.0]
    values[place] = float("nan")
    inputs = an_input(operator)
    others = {a.name: example(a) for a in operator.arguments.values() if a.required and a is not argument}
    with pytest.raises(ArgumentError, match=re.escape(f"{operator.name}(): argument '{argument.name}[{place}]' must")):
        operator(*inputs, **others, **{argument.name: as_batch(values)})
    with pytest.raises(ArgumentError, match=f"'{argument.name}'"):
        operator(*inputs, batch_size=2, **others, **{argument.name: as_batch([1.0, 1.0, 1.0])})


@pytest.mark.parametrize("operator", [o for o in registry.values() if o.inputs], ids=lambda operator: operator.name)
def test_wrong_inputs_are_refused(operator):
    required = {a.name: example(a) for a in operator.arguments.values() if a.required}
    for bad in (None, "text", {1}, [1, "a"], np.zeros(2, complex), np.array(["a"])):
        with pytest.raises(
            ArgumentError, match=rf"{re.escape(operator.name)}\(\): argument '{operator.inputs[0].name}(\[0\])?'"
        ):
            operator(*inputs_of(operator, bad), **required)
    if operator.layouts is not None:
        with pytest.raises(ArgumentError, match="laid out as"):
            operator(*inputs_of(operator, np.zeros((2,) * 7, sorted(operator.dtypes, key=str)[-1])), **required)


@every
def test_every_argument_is_documented_in_order(operator):
    section = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(operator) + "\n\n", re.M | re.S)
    documented = re.findall(r"^ {4}(\w+): ", section.group(1), re.M) if section else []
    assert documented == list(operator.arguments)
    assert ">>>" in operator.__doc__
    assert "Returns:" in operator.__doc__


@every
def test_help_begins_with_the_signature_and_one_line_of_purpose(operator):
    name = operator.__name__
    first = operator.__doc__.splitlines()[0]
    _, _, told = pydoc.plain(pydoc.render_doc(operator)).partition("\n\n")
    title, _, _ = told.partition(f"\n    {first}\n")
    bare = functools.partial(re.sub, r"[\s']", "")  # versions of Python differ in lines and quotes
    assert bare(title) == bare(f"{name}{inspect.signature(operator)}")
    assert len(first) <= 116
    assert first.endswith(".")


@every
def test_it_is_found_under_its_name_and_pickles(operator):
    assert pickle.loads(pickle.dumps(operator)) is operator
    assert list(operator.__signature__.parameters)[-2:] == ["batch_size", "device"]


on_gpus = pytest.mark.parametrize(
    "operator", [o for o in registry.values() if "gpu" in o.devices], ids=lambda operator: operator.name
)
few = settings(examples(1 / 8), phases=[Phase.explicit, Phase.generate, Phase.shrink])
#: Modules whose operators put elements elsewhere and calculate nothing.
MOVING = ("dynamic.ops.shape", "dynamic.ops.joining", "dynamic.ops.sequences", "dynamic.ops.constants")


#: Modules whose operators weigh pixels: whether a sum is more than nothing, which is True, a last digit may tell.
WEIGHING = ("dynamic.ops.resize", "dynamic.ops.filters", "dynamic.ops.warps")
#: Arguments that colours are multiplied by before they are added up, where they may cancel out.
GAINS = ("brightness", "contrast", "saturation", "value")


def near(a, b, samples, arguments) -> bool:
    """Whether a result of a GPU is that of the CPU: floats but for their last digits, others by 1 or a millionth.

    What is interpolated may also be off by a millionth of the samples: their weights are differences of places. And
    mixed colours by the last digits of what is added up, of which nothing may be left.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    scale, given_ = (max(np.abs(x[np.isfinite(x)].astype(float)).max(initial=0) for x in xs) for xs in ([b], samples))
    given_ *= math.prod(max(1.0, np.abs(arguments[name]).max()) for name in GAINS if name in arguments)
    if a.dtype.kind != "f":
        if a.dtype.kind == "b" or not a.size:
            return np.array_equal(a, b)
        values = b.astype(object).reshape(-1)
        apart = 1 + max(np.abs(values).max() * 1e-6, given_ * 1e-15)
        return np.abs(a.astype(object).reshape(-1) - values).max() <= apart
    tolerance = 1e-3 if a.dtype.itemsize == 2 else 1e-5
    with np.errstate(all="ignore"):
        apart = {"rtol": tolerance, "atol": max(tolerance * scale, 1e-6 * given_)}
        return np.allclose(a.astype(float), b.astype(float), **apart, equal_nan=True)


def there(operator, inputs, where="gpu"):
    """Inputs on a GPU, and the arguments that say so where an operator has none, or takes them from the host."""
    if operator.on_host or not operator.inputs:
        return inputs, {"device": where}
    return [(as_tensor(value) if isinstance(value, np.ndarray) else value).to_device(where) for value in inputs], {}


def refused(function, *args, **arguments):
    """The result; what a GPU says that it does not do is no example, and says where it is done."""
    try:
        return function(*args, **arguments)
    except DeviceError as error:
        if ".cpu()" not in str(error) and "dimensions" not in str(error):
            raise
        assume(False)


def enlarged(operator, samples, layout, factor):
    """Images so large that a GPU takes several blocks of threads for each."""
    for axis in (i for i, letter in enumerate(layout if operator.layouts else "") if letter in "HW"):
        samples = [np.repeat(sample, factor, axis) for sample in samples]
    return samples


@pytest.mark.gpu
@on_gpus
@fewer
@given(data=st.data(), factor=st.sampled_from([1, 2, 9]))
def test_a_gpu_gives_what_the_cpu_gives(operator, data, factor):
    samples, layout, varying, fixed = data.draw(calls(operator))
    samples = enlarged(operator, samples, layout, factor)
    if factor == 2 and samples[0].ndim:  # nothing in one of its dimensions
        samples[0] = samples[0].take([], data.draw(st.integers(0, samples[0].ndim - 1)))
    # The middle of the range of wide integers, which is subtracted from chroma, has more digits than a float64 holds.
    assume("image_type" not in fixed or samples[0].dtype.kind == "f" or samples[0].dtype.itemsize <= 2)
    assume(samples[0].dtype.kind != "b" or operator.__module__ not in WEIGHING)
    expected = attempt(on_batch, operator, samples, layout, varying, fixed)
    alike = (
        equal if operator.__module__ in MOVING else functools.partial(near, samples=samples, arguments=fixed | varying)
    )
    inputs, where = there(operator, inputs_of(operator, as_batch(samples, layout=layout)))
    size = {} if operator.inputs else {"batch_size": len(samples)}
    found = listed(refused(operator, *inputs, **where, **size, **fixed, **batches(varying)))
    for one, other in zip(found, expected, strict=True):
        assert (one.layout, one.dtype, str(one.device)) == (other.layout, other.dtype, "gpu:0")
        for a, b in zip(one.cpu().samples, other.samples, strict=True):
            assert alike(a, b), (a, b)


@pytest.mark.gpu
@on_gpus
@few
@given(data=st.data())
def test_a_gpu_gives_the_same_for_a_sample_alone(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, 1))
    fixed |= {name: values[0] for name, values in varying.items()}
    assume(samples[0].dtype.kind != "b" or operator.__module__ not in WEIGHING)
    expected = attempt(on_tensor, operator, samples[0], layout, fixed)
    alike = equal if operator.__module__ in MOVING else functools.partial(near, samples=samples, arguments=fixed)
    inputs = inputs_of(operator, as_tensor(samples[0], layout=layout))
    last = f"gpu:{ndd.devices.gpu_count() - 1}"
    found = listed(refused(operator, *inputs, device=last, **fixed))
    for one, other in zip(found, expected, strict=True):
        assert (one.layout, one.dtype, str(one.device)) == (other.layout, other.dtype, last)
        assert alike(one.cpu().array, other.array)


@pytest.mark.gpu
@on_gpus
@few
@given(data=st.data())
def test_views_on_a_gpu_are_like_others(operator, data):
    samples, layout, varying, fixed = data.draw(calls(operator, 1))
    fixed |= {name: values[0] for name, values in varying.items()}
    attempt(on_tensor, operator, samples[0], layout, fixed)
    plain = as_tensor(samples[0], layout=layout)
    if not plain.ndim or not operator.inputs or operator.on_host:
        return
    inputs = there(operator, inputs_of(operator, plain))[0]
    expected = listed(refused(operator, *inputs, **fixed))
    turned = as_tensor(plain.array[::-1].copy(), layout=layout).gpu()
    view = ndd.Tensor(turned.array[::-1], layout)
    views = [view if one is plain else other for one, other in zip(inputs_of(operator, plain), inputs, strict=True)]
    for a, b in zip(listed(refused(operator, *views, **fixed)), expected, strict=True):
        assert equal(a.cpu().array, b.cpu().array)


@pytest.mark.gpu
@pytest.mark.parametrize("operator", [o for o in registry.values() if "gpu" in o.devices and o.inputs],
                         ids=lambda operator: operator.name)  # fmt: skip
def test_nothing_on_a_gpu_is_nothing_there(operator):
    required = {a.name: example(a) for a in operator.arguments.values() if a.required}
    inputs = [as_batch(x.array[None])[:0] if isinstance(x, ndd.Tensor) else x for x in an_input(operator)]
    inputs = [Batch(x.whole, an_input(operator)[0].layout) if isinstance(x, Batch) else x for x in inputs]
    try:
        expected = listed(operator(*inputs, **required))
    except ArgumentError:
        pytest.skip(f"the example of an argument of {operator.name}() does not fit")
    inputs, where = there(operator, inputs)
    for one, other in zip(listed(operator(*inputs, **where, **required)), expected, strict=True):
        assert (len(one), one.dtype, one.ndim, str(one.device)) == (0, other.dtype, other.ndim, "gpu:0")


@pytest.mark.gpu
@every
def test_devices_are_refused_by_name(operator):
    required = {a.name: example(a) for a in operator.arguments.values() if a.required}
    if "gpu" not in operator.devices:
        inputs, where = there(operator, an_input(operator))
        with pytest.raises(DeviceError, match=re.escape(f"{operator.name}() runs on cpu")):
            operator(*inputs, **where, **required)
        return
    inputs = an_input(operator)
    if operator.on_host:
        with pytest.raises(DeviceError, match=re.escape(f"{operator.name}() takes inputs from cpu")):
            operator(*(x.gpu() for x in inputs), **required)
    elif len(inputs) > 1 and isinstance(inputs[1], ndd.Tensor):
        several = [[inputs[0].gpu(0), inputs[1].gpu(1), *inputs[2:]]] if ndd.devices.gpu_count() > 1 else []
        for mixed in ([inputs[0].gpu(0), *inputs[1:]], *several):
            with pytest.raises(DeviceError, match=rf"^{re.escape(operator.name)}\(\): '.*' is on gpu:0 and '.*' on "):
                operator(*mixed, **required)
