"""Constants, functions of Python and names of before, in pipelines."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES
from test_dalis_scripts import dalis_python, for_dali, run

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.pipeline import Pipeline, fn, pipeline_def, types
from dynamic.pipeline._added import FORMER
from dynamic.pipeline._names import looked_up

JOB = Path(__file__).with_name("added_job.py")
NUMBERS = st.lists(st.integers(-1000, 1000) | st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6)


def made(function, batch_size=2):
    """What one run of a function gives."""
    with Pipeline(function=function, batch_size=batch_size, prefetch_queue_depth=0) as pipe:
        return pipe.run()


def lines(text):
    *outputs, kinds = text.splitlines()
    return [json.loads(line) for line in outputs], kinds


def test_a_job_of_constants_and_functions(tmp_path):
    (constants, functions, sets, numbers, *fed), kinds = lines(run(JOB.read_text(), tmp_path))
    assert [len(constants), len(functions), len(sets), len(numbers)] == [19, 8, 11, 12]
    assert [[len(samples) for _, samples in outputs] for outputs in fed] == [[2, 2], [3, 3], [1, 1], [1, 1]]
    assert fed[0] == [["X", [["int64", [2], [0, 2]], ["int64", [3], [0, 2, 4]]]],
                      ["", [["int32", [2], [1, 2]], ["int32", [2], [3, 4]]]]]  # fmt: skip
    assert constants[1] == ["HW", [["uint8", [2, 2], [[1, 2], [3, 4]]]] * 2]
    assert [sample[2] for sample in functions[0][1]] == [[[0, 2, 4], [6, 8, 10]], [[0, 2], [4, 6]]]
    assert kinds == "['float32', 'uint8', 'bool', 'float16']"


def test_a_job_of_constants_and_functions_is_dalis(tmp_path):
    python = dalis_python()
    text, exchanged = for_dali(JOB)
    assert len(exchanged) == 1
    assert lines(run(text, tmp_path, python=python)) == lines(run(JOB.read_text(), tmp_path))


@given(values=NUMBERS, dtype=st.none() | st.sampled_from(ALL_DTYPES), size=st.integers(1, 3), whole=st.booleans())
def test_a_constant_is_the_same_numbers_for_each_sample(values, dtype, size, whole):
    data = {"idata": [int(v) for v in values]} if whole else {"fdata": [float(v) for v in values]}
    (found,) = made(lambda: fn.constant(**data, dtype=dtype, shape=(1, len(values)), layout="HW"), size)
    expected = ndd.as_tensor(np.array([*data.values()], np.int32 if whole else np.float32))
    expected = expected if dtype is None else ndd.cast(expected, dtype=dtype)
    assert (len(found), found.layout, found.dtype) == (size, "HW", expected.dtype)
    assert all(np.array_equal(sample, expected.array) for sample in found.samples)
    if whole and expected.array.dtype.kind in "iu" and not np.array_equal(expected.array[0], data["idata"]):
        return  # out of range, which a Constant refuses
    for value in (np.array(*data.values()), *data.values()):
        constant = types.Constant(value, dtype=expected.dtype, shape=(len(values), 1))
        assert np.array_equal(constant.array.T, ndd.as_tensor(value, dtype=expected.dtype).array[None])


@given(npst.array_shapes(min_dims=0, max_dims=3, max_side=3), st.sampled_from(ALL_DTYPES))
def test_one_number_fills_a_shape_and_arrays_of_64_bits_have_32(shape, dtype):
    filled = types.Constant(1, dtype=dtype, shape=shape)
    assert types.Constant(1, shape=np.int64(2)).shape == types.Constant(1, shape=2).shape == (2,)
    assert np.array_equal(filled.array, np.ones(shape, dtype))
    short = {"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(str(np.dtype(dtype)), str(np.dtype(dtype)))
    assert types.Constant(np.ones((2, *shape), dtype)).array.dtype == short
    assert types.Constant(np.ones((), dtype)).array.dtype == dtype
    assert types.Constant(np.ones((0, *shape), dtype), dtype="uint8").shape == (0, *shape)
    assert types.Constant(0.25).bool().item() is True


@pytest.mark.parametrize(("call", "told"), [
    (lambda: fn.constant(), "takes either 'fdata' or 'idata'; got neither"),
    (lambda: fn.constant(idata=1, fdata=1.0), "got both"),
    (lambda: fn.constant(idata=[1, 2, 3], shape=(2, 2)), r"'idata' must be one number, or as many as .*\(2, 2\).* 3"),
    (lambda: fn.constant(idata=[1, 2], layout="HW"), "'layout'"),
    (lambda: types.Constant([1, 2, 3, 4], shape=(-2, -2)), "'shape' must be extents of at least 0"),
    (lambda: fn.constant(idata=[1.5]), r"'idata' must be integers; got list \[1\.5\]\. Pass others as fdata"),
    (lambda: fn.constant(idata=2**40), "'idata' must be integers in the range of int32"),
    (lambda: types.Constant([1, 2, 3], shape=2), r"Constant\(\): argument 'value' must be one number"),
    (lambda: fn.constant(5), "takes no positional arguments; got 1"),
    (lambda: fn.constant(idat=5), r"fn.constant\(\) has no argument 'idat'. .* 'idata'"),
    (lambda: fn.constant(idata=1, shape="ab"), "'shape' must be extents of at least 0; got str 'ab'"),
    (lambda: fn.constant(idata=1, shape=(2, 1.5)), "'shape' must be extents of at least 0"),
    (lambda: fn.shapes(), "'input' must be given once; got nothing"),
    (lambda: fn.shapes(np.ones(2), input=np.ones(2)), "'input' must be given once; got two values"),
    (lambda: fn.python_function(np.ones(2)), "'function' must be given once; got nothing"),
    (lambda: fn.python_function(np.ones(2), function=5), "'function' must be a function; got int 5"),
    (lambda: fn.python_function(np.ones(2), function=max, num_outputs=-1), "'num_outputs' must be an integer of 0"),
    (lambda: fn.python_function(np.ones(2), function=abs, output_layouts=5), "'layout' must be a string"),
    (lambda: fn.python_function(fn.constant(idata=1), function=lambda x: None, batch_processing=True),
     "'function' must be a function from 2 samples to 2; got None"),
    (lambda: fn.python_function(fn.constant(idata=1), function=lambda x: np.array(5), batch_processing=True),
     r"'function' must be a function from 2 samples to 2; got ndarray array\(5\)"),
    (lambda: types.Constant(np.inf).int32(), "'value' must be a number in the range of int32; got inf"),
    (lambda: types.Constant(np.nan).uint8(), "'value' must be a number in the range of uint8; got nan"),
    (lambda: fn.python_function(np.ones(2), function=lambda x: (x, x)), r"'function' .*num_outputs=1 results; got 2"),
    (lambda: fn.python_function(np.ones(2), function=lambda x: x, num_outputs=2), "num_outputs=2 results; got 1"),
    (lambda: fn.python_function(fn.constant(idata=1), function=lambda x: x[:1], batch_processing=True), "2 samples"),
    (lambda: fn.python_function(function=lambda: 1, output_layouts=["H", "W"]), "'output_layouts'"),
    (lambda: fn.python_function(ndd.as_batch([1]), ndd.as_batch([1, 2]), function=max), r"one size; .* \[1, 2\]"),
    (lambda: types.Constant(np.array([1, 2**40])), "'value' must be integers in the range of int32; got 1 to 109951"),
    (lambda: types.Constant(300, dtype="uint8"), "integers in the range of uint8"),
    (lambda: types.Constant(-1.5).uint8(), "integers in the range of uint8"),
])  # fmt: skip
def test_what_is_wrong_with_a_constant_or_a_function_is_told(call, told):
    with pytest.raises(ArgumentError, match=told):
        made(call)


@given(
    st.sampled_from(["float64", "int64", "uint64", "int16"]), st.sampled_from(ALL_DTYPES), st.sampled_from([9, 2**40])
)
def test_arrays_have_32_bits_in_pipelines_and_their_own_elsewhere(dtype, kind, most):
    a = np.array([0, most if dtype != "int16" else 9], dtype)
    held = dtype == "float64" or most == 9  # integers that need 64 bits keep them
    short = a.astype({"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(dtype, dtype)) if held else a
    data = ndd.as_batch(np.ones((1, 2), kind))

    def each():
        x = fn.constant(fdata=[1, 1], dtype=kind)
        return x + a, a + x, x == a, ndd.math.max(x, a), fn.copy(a), a, fn.pad(a, fill_value=0), fn.stack(a, a)

    expected = [data + short, short + data, data == short, ndd.math.max(data, short),
                *(ndd.as_batch([each]) for each in (short, short, short, [short, short]))]  # fmt: skip
    for found, wanted in zip(made(each, 1), expected, strict=True):
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    assert (ndd.as_batch([[True]]) + a).dtype == dtype


def test_lists_of_batches_are_inputs_of_one_call_each(tmp_path):
    for i in range(5):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]) * 8)

    @pipeline_def(batch_size=5, seed=3, enable_conditionals=True)
    def pairs(folder):
        files, labels = fn.readers.file(file_root=str(folder), files=[f"{i}.bin" for i in range(5)])
        several = fn.random.uniform([files, files, files], range=(0, 9))
        assert [type(several), len(several)] == [list, 3]
        other = fn.random.uniform(files, range=(0, 9))
        starts, extents = fn.random_crop_generator([fn.constant(idata=[40, 50]), fn.constant(idata=[40, 50])])
        several.append(other)  # it is the function's own
        if labels % 2 == 0:
            return *fn.cast(several, dtype=types.FLOAT), *starts, *extents
        return *fn.cast(tuple(several), dtype="float32"), *starts, *extents

    with pairs(tmp_path) as pipe:
        one, two, three, other, start, begin, extent, size = (np.asarray(output) for output in pipe.run())
    for first, second in ((one, two), (one, three), (start, begin), (extent, size)):
        assert np.array_equal(first, second)
    assert not np.array_equal(one, other)

    def unread():
        (a, b), c = fn.random.normal([fn.constant(idata=[1, 2, 3])] * 2), fn.random.normal(shape=3)
        return a, b, c

    a, b, c = made(unread)
    assert a.tolist() == b.tolist() != c.tolist()
    beside = made(lambda: fn.stack([types.Constant([1, 2]), fn.constant(idata=[3, 4])]), 2)
    assert [output.tolist() for output in beside] == [[[[1, 2]]] * 2, [[[3, 4]]] * 2]
    for wrong in ([[ndd.as_batch([1]), np.ones(1)]], [[ndd.as_batch([1])] * 2, [ndd.as_batch([1])] * 3]):
        with pytest.raises(ArgumentError, match=r"fn.stack.*'input' must be lists of equally many Batches"):
            made(functools.partial(fn.stack, *wrong), 1)


def test_outputs_are_what_they_are_declared_to_be():
    def two():
        return fn.constant(fdata=[1, 2], dtype="uint8"), fn.constant(fdata=1, shape=())

    def declared(**arguments):
        with Pipeline(function=two, batch_size=2, prefetch_queue_depth=0, **arguments) as pipe:
            return [output.dtype for output in pipe.run()]

    fine: tuple[dict[str, object], ...] = (
        {"output_dtype": [types.UINT8, None]}, {"output_ndim": (1, 0)}, {"output_dtype": [None, "f32"]},
        {"output_dtype": None, "output_layout": ""}, {"output_layout": [None, ""], "debug": True},
        {"output_ndim": [None, 0]},
    )  # fmt: skip
    for arguments in fine:
        assert declared(**arguments) == ["uint8", "float32"]
    for wrong, told in (
        ({"output_dtype": "uint8"}, "'output_dtype' must be f32, which output 1 has; got u8"),
        ({"output_ndim": [0, None]}, "'output_ndim' must be 1, which output 0 has; got 0"),
        ({"output_ndim": [1]}, "'output_ndim' must be one for each of the 2 outputs; got 1"),
        ({"output_dtype": ["uint8", "float32", None]}, "'output_dtype' must be one for each of the 2 outputs; got 3"),
        ({"output_dtype": "colour"}, r"Pipeline\(\): argument 'output_dtype' must be a dtype .*, or a list of them"),
        ({"output_ndim": -1}, "'output_ndim' must be an integer of at least 0"),
        ({"output_layout": ["H", ""]}, "'output_layout' must be no layout, which output 0 has; got H"),
        ({"output_layout": [3, ""]}, "'output_layout' must be a string such as"),
        ({"output_ndim": [1, True]}, "'output_ndim' must be an integer of at least 0"),
    ):
        with pytest.raises(ArgumentError, match=told):
            declared(**wrong)
    numbers, kinds = iter(range(3)), ["int8"]
    source = functools.partial(map, lambda number: [number], numbers)

    def function():
        return fn.cast(fn.external_source(source()), dtype=kinds[-1])

    with Pipeline(1, output_dtype="u8", prefetch_queue_depth=0, function=function) as pipe:
        for _ in range(2):
            with pytest.raises(ArgumentError, match="'output_dtype' must be i8, which output 0 has; got u8"):
                pipe.run()
        kinds.append("uint8")
        assert [pipe.run()[0].tolist() for _ in range(2)] == [[0], [1]]  # nothing is lost


def test_the_function_knows_its_pipeline():
    seen = []

    def one():
        pipe = Pipeline.current()
        seen.append((pipe, pipe.batch_size, pipe.num_threads, pipe.prefetch_queue_depth, pipe.device_id))
        return 1

    for depth in (0, 2):
        with Pipeline(function=one, batch_size=3, num_threads=2, prefetch_queue_depth=depth) as pipe:
            pipe.run()
        assert seen[-1] == (pipe, 3, 2, depth, None)
    assert Pipeline.current() is None
    with Pipeline(function=one, batch_size=3, prefetch_queue_depth={"cpu_size": 3, "gpu_size": 1}) as pipe:
        assert pipe.prefetch_queue_depth == 3
    for wrong in ({"cpu_size": 3}, {"cpu_size": 1, "gpu_size": -1}, {"cpu_size": 1.5, "gpu_size": 2}, {}):
        with pytest.raises(ArgumentError, match="'prefetch_queue_depth' must be a"):
            Pipeline(function=one, batch_size=3, prefetch_queue_depth=wrong)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("ask", [Pipeline.run, Pipeline.epoch_size, Pipeline.reader_meta, lambda pipe: next(pipe)])
def test_what_needs_a_batch_cannot_be_asked_for_where_it_is_made(ask, depth):
    asked = []

    def one():
        if not asked:
            asked.append(ask)
            ask(Pipeline.current())
        return 1

    with Pipeline(function=one, batch_size=3, prefetch_queue_depth=depth) as pipe:
        with pytest.raises(RuntimeError, match="its own function, which makes the batch, cannot ask"):
            pipe.run()
        assert pipe.run()[0].tolist() == [1, 1, 1]


def test_a_parameter_of_the_function_is_no_argument_of_the_pipeline():
    @pipeline_def(batch_size=2, seed=7, prefetch_queue_depth=0)
    def named(number, seed, debug=False):
        return number, seed, debug

    with named(3, seed=5, debug=True, num_threads=1) as pipe:
        assert [output.tolist() for output in pipe.run()] == [[3, 3], [5, 5], [True, True]]
        assert (pipe.seed, pipe.num_threads) == (7, 1)


@pytest.mark.parametrize("depth", [0, 2])
def test_a_run_has_two_halves(depth):
    def counted(stop=None):
        x = fn.external_source(lambda info: info.iteration, batch=False, name="x")
        if stop is not None and stop in x.tolist():
            raise ValueError("stop")
        return x

    with Pipeline(function=counted, batch_size=1, prefetch_queue_depth=depth) as pipe:
        pipe.start_py_workers()
        pipe.schedule_run()
        pipe.schedule_run()
        assert [pipe.share_outputs()[0].tolist(), pipe.outputs()[0].tolist()] == [[0], [1]]
        pipe.release_outputs()
        with pytest.raises(RuntimeError, match="no run is scheduled"):
            pipe.share_outputs()
        assert pipe.run()[0].tolist() == [2]
    with Pipeline(function=functools.partial(counted, stop=1), batch_size=1, prefetch_queue_depth=depth) as pipe:
        for _ in range(2):
            pipe.schedule_run()
        assert pipe.share_outputs()[0].tolist() == [0]
        for _ in range(3):  # it stays scheduled
            with pytest.raises(ValueError, match="stop"):
                pipe.share_outputs()


@pytest.mark.parametrize(("result", "told"), [
    ("word", "whose output 0 is a Batch, or numbers for all samples; got str 'word'"),
    (None, "whose output 0 is a Batch, or numbers for all samples; got None"),
    ((1, {"a": 1}), "whose output 1 is a Batch"),
    (([ndd.as_batch([1]), ndd.as_batch([2])], 1), "whose output 0 .* Each Batch is an output by itself: return "),
])  # fmt: skip
def test_what_a_function_may_not_return_is_told(result, told):
    with pytest.raises(ArgumentError, match=rf"Pipeline\(\): argument 'function' must be one {told}"):
        made(lambda: result, 1)


def test_a_former_name_beside_that_of_now_is_refused():
    with pytest.raises(
        ArgumentError, match=r"fn.cast\(\): argument 'output_dtype' must be left out when 'dtype' is given"
    ):
        made(lambda: fn.cast(1, dtype="uint8", output_dtype="int8"))


def test_all_samples_become_one_tensor_of_another_shape():
    (output,) = made(lambda: fn.constant(idata=[1, 2]), 3)
    assert output.as_reshaped_tensor([3, 1, 2]).shape == (3, 1, 2)
    with pytest.raises(ValueError, match="cannot reshape"):
        output.as_reshaped_tensor((4, 2))


def test_an_error_in_a_function_names_the_sample():
    def fails(x):
        return 1 / x

    numbers = ndd.as_batch([1, 2, 0])
    with pytest.raises(RuntimeWarning, match="divide by zero") as caught:
        made(lambda: fn.python_function(numbers, function=fails), 3)
    assert "In fn.python_function, sample 2 of 3." in caught.value.__notes__


def test_a_function_cannot_write_to_what_it_is_given():
    data = np.zeros(3)

    def writes(x):
        x[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        made(lambda: fn.python_function(ndd.as_batch([data, data]), function=writes))
    assert data.tolist() == [0, 0, 0]
    assert data.flags.writeable


def test_a_function_may_give_nothing():
    seen = []

    def pipeline():
        assert fn.python_function(np.arange(2), function=seen.append, num_outputs=0) is None
        return fn.constant(idata=1)

    assert made(pipeline)[0].tolist() == [[1], [1]]
    assert [list(x) for x in seen] == [[0, 1], [0, 1]]


@pipeline_def(batch_size=3, seed=4)
def doubled(root, files, uniform, reader):
    data, label = reader(file_root=root, files=files, random_shuffle=True)
    mixed = fn.python_function(data, label, function=lambda x, y: x * 2 + y.astype(np.uint8))
    return mixed, uniform(range=(0.0, 1.0)), data.shape()


def test_names_of_before_are_those_of_now_in_a_checkpoint_too(tmp_path):
    files = [f"{i}.bin" for i in range(7)]
    for i, name in enumerate(files):
        (tmp_path / name).write_bytes(bytes([i] * (i + 1)))
    with doubled(str(tmp_path), files, fn.uniform, fn.file_reader) as pipe:
        first = pipe.run()
        text = pipe.checkpoint()
        rest = [output.tolist() for outputs in pipe.next_epoch() for output in outputs]
    assert all(output.origin is not None for output in first[:1])
    with doubled(str(tmp_path), files, fn.random.uniform, fn.readers.file, checkpoint=text) as pipe:
        assert [output.tolist() for outputs in pipe.next_epoch() for output in outputs] == rest


def test_every_name_of_before_is_one_of_now():
    for now in FORMER.values():
        if now.startswith("readers."):
            assert now.removeprefix("readers.") in {
                re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in ndd.readers.__all__
            }
        else:
            assert callable(looked_up(now)[0])
    (image,) = made(lambda: fn.experimental.resize(np.zeros((4, 4, 3), np.uint8), size=(2, 2)))
    assert image.shape[0] == (2, 2, 3)
    with pytest.raises(AttributeError, match=r"fn has no 'experimental.rezise'"):
        made(lambda: fn.experimental.rezise(np.zeros((4, 4, 3))))
    with pytest.raises(TypeError, match=r"fn\.random is not an operator"):
        made(lambda: fn.random())


@given(st.lists(npst.array_shapes(min_dims=2, max_dims=2, max_side=4), max_size=4), st.sampled_from(["int64", "int32"]))
def test_shapes_are_lists_and_data(shapes, dtype):
    batch = ndd.Batch([np.zeros(shape, np.uint8) for shape in shapes], dtype=np.dtype("uint8"), ndim=2)
    assert batch.shape == shapes
    found = batch.shape(dtype)
    assert (found.ndim, found.dtype) == (1, ndd.dtype(dtype))
    assert found.tolist() == [list(shape) for shape in shapes]
    if shapes:
        assert made(lambda: fn.shapes(batch, dtype=dtype), len(shapes))[0].tolist() == found.tolist()


def test_the_extents_of_what_is_the_same_for_all_samples_are_those_of_each():
    for data in (np.zeros((3, 5)), [[1] * 5] * 3, types.Constant(1, shape=(3, 5))):
        assert made(lambda data=data: fn.shapes(data), 2)[0].tolist() == [[3, 5]] * 2


def test_names_are_completed_and_documented():
    for name in dir(fn):
        family = getattr(fn, name)
        paths = [f"{name}.{member}" for member in dir(family)] if inspect.ismodule(family) else [name]
        for path in paths:
            meant = functools.reduce(getattr, path.split("."), fn)
            assert inspect.getdoc(meant), path
            assert path == "random.get_default_rng" or inspect.signature(meant).parameters, path
    assert {"rotate", "slice", "constant", "readers", "random", "external_source"} <= {*dir(fn)}
    classes = {*ndd.readers.__all__} - {"ExternalSource", "Reader"}
    assert dir(fn.readers) == sorted(
        {"NemoAsr": "nemo_asr", "VideoResize": "video_resize"}.get(name, name.lower()) for name in classes
    )
    assert inspect.signature(fn.rotate) == inspect.signature(ndd.rotate)
    assert inspect.getdoc(fn.file_reader) == inspect.getdoc(ndd.readers.File)


def fed_pipeline(seen=None, **how):
    @pipeline_def(batch_size=3, **how)
    def made():
        x = fn.external_source(name="x")
        if seen is not None:
            seen.append(x.tolist())
            if x.tolist() == [13]:
                raise ValueError("unlucky")
        return x, fn.external_source(lambda info: info.idx_in_epoch, batch=False, name="counted")

    return made()


@pytest.mark.parametrize("depth", [0, 1, 3])
@given(batches=st.lists(st.lists(st.integers(-99, 99), min_size=1, max_size=3), max_size=6), before=st.integers(0, 6),
       built=st.booleans())  # fmt: skip
def test_batches_that_are_fed_come_in_their_order(depth, batches, before, built):
    with fed_pipeline(prefetch_queue_depth=depth) as pipe:
        if built:
            pipe.build()
        found = []
        for batch in batches[:before]:
            pipe.feed_input("x", batch)
        for batch in batches[before:]:
            pipe.feed_input("x", batch)
            found.append(pipe.run()[0].tolist())
        for _ in batches[:before]:
            found.append(pipe.run()[0].tolist())
        assert found == batches
        with pytest.raises(RuntimeError, match=r"source 'x' has no data: feed_input\('x', data\) before each run"):
            pipe.run()
        assert pipe.run(x=[5, 6])[0].tolist() == [5, 6]


def test_what_is_fed_is_copied_and_stays_where_the_function_fails():
    seen = []
    with fed_pipeline(seen=seen) as pipe:
        data = np.array([[1], [2]])
        pipe.feed_input("x", data, layout="X")
        data[:] = 0
        x, counted = pipe.run()
        assert (x.tolist(), x.layout, counted.tolist()) == ([[1], [2]], "X", [0, 1])
        pipe.feed_input("x", [13])
        for _ in range(2):
            with pytest.raises(ValueError, match="unlucky"):
                pipe.run()
        assert seen[1:] == [[13], [13]]


def test_a_run_that_fails_keeps_nothing_of_what_it_was_given():
    with fed_pipeline(seen=[]) as pipe:
        with pytest.raises(ValueError, match="unlucky"):
            pipe.run(x=[13])
        assert pipe.run(x=[1])[0].tolist() == [1]
        pipe.feed_input("x", [2])
        with pytest.raises(ArgumentError, match="got .*'y'"):
            pipe.run(x=[3], y=[4])
        assert [output.tolist() for output in pipe.run(x=[5])] == [[2], [1]]
        assert [output.tolist() for output in pipe.run()] == [[5], [2]]
    with fed_pipeline() as pipe:  # the first run, which tells the names
        with pytest.raises(ArgumentError, match="got .*'y'"):
            pipe.run(x=[1], y=[2])
        assert [output.tolist() for output in pipe.run(x=[3])] == [[3], [0]]


def test_sources_that_are_fed_are_known_by_name():
    with fed_pipeline() as pipe:
        pipe.feed_input("y", [1])
        with pytest.raises(ArgumentError, match="'data_node' must be the name of a source without a function; got 'y'"):
            pipe.run(x=[1])
    with fed_pipeline() as pipe:
        assert pipe.run(x=[1])[0].tolist() == [1]
        for name in ("y", "counted", 3):
            with pytest.raises(ArgumentError, match=r"'data_node' must be .*; the pipeline has \['x'\]"):
                pipe.feed_input(name, [1])
        with pytest.raises(ArgumentError, match="'data' must be at most 3 samples, the batch size; got 4"):
            pipe.run(x=[1, 2, 3, 4])
    with pytest.raises(ArgumentError, match="takes either 'source' or 'name'; got neither"):
        made(lambda: fn.external_source())


def test_what_is_known_of_readers_needs_no_more_data(tmp_path):
    names = [f"{i}.bin" for i in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")

    @pipeline_def(batch_size=2)
    def made():
        return fn.external_source(name="x"), fn.readers.file(files=names, file_root=tmp_path, name="files")[1]

    with made() as pipe:
        with pytest.raises(RuntimeError, match="has no data"):  # nobody has asked for the reader yet
            pipe.epoch_size("files")
        pipe.run(x=[1, 2])
        assert pipe.epoch_size("files") == 5
        assert [output.tolist() for output in pipe.run(x=[3, 4])] == [[3, 4], [[2], [3]]]


def test_a_checkpoint_of_a_pipeline_that_is_fed_goes_on_with_its_other_sources():
    with fed_pipeline() as pipe:
        pipe.run(x=[1])
        text = pipe.checkpoint()
    with Pipeline(function=pipe._function, batch_size=3, checkpoint=text) as again:
        x, counted = again.run(x=[7])
        assert (x.tolist(), counted.tolist()) == ([7], [1])


def test_two_readers_or_sources_have_not_one_name(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a")
    reader = lambda: fn.readers.file(files=["a.bin"], file_root=tmp_path, name="r")  # noqa: E731
    source = lambda values: fn.external_source(lambda i: values, name="r")  # noqa: E731
    for function in (lambda: (*reader(), *reader()), lambda: (source([1]), source([2])),
                     lambda: (*reader(), fn.external_source(name="r"))):  # fmt: skip
        with pytest.raises(ArgumentError, match=r"'name' must be another than .*sources above; got str 'r'"):
            made(function)


def test_a_source_gives_as_many_samples_as_the_first_reader(tmp_path):
    names = [f"{i}.bin" for i in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")

    @pipeline_def(batch_size=2)
    def pairs():
        return fn.readers.file(files=names, file_root=tmp_path, name="r")[1], fn.external_source(name="x")

    with pairs() as pipe:
        pipe.run(x=[1, 2])
        with pytest.raises(ArgumentError, match="one that makes as many as 'r' gives, 1; got a batch of 2"):
            pipe.run(x=[3, 4])
        assert [output.tolist() for output in pipe.run(x=[3])] == [[[2]], [3]]


@pytest.mark.parametrize("depth", [0, 2])
def test_a_pipeline_that_is_closed_gives_nothing_more(depth):
    @pipeline_def(batch_size=2, prefetch_queue_depth=depth)
    def numbers():
        return fn.external_source(lambda i: [i, i])

    pipe = numbers()
    assert pipe.run()[0].tolist() == [0, 0]
    pipe.reader_meta()
    pipe.close()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            pipe.run()


def test_batches_may_be_fed_by_another_thread():
    @pipeline_def(batch_size=1)
    def numbers():
        return fn.external_source(name="x")

    interval, count = sys.getswitchinterval(), 400
    with numbers() as pipe:
        pipe.feed_input("x", [0])
        thread = threading.Thread(target=lambda: [pipe.feed_input("x", [i]) for i in range(1, count)])
        sys.setswitchinterval(1e-6)
        try:
            thread.start()
            found = []
            while len(found) < count:
                try:
                    found += pipe.run()[0].tolist()
                except RuntimeError:
                    assert thread.is_alive() or pipe._course.fed.waiting["x"].keys() - {len(found) - 1}
        finally:
            sys.setswitchinterval(interval)
            thread.join()
    assert found == list(range(count))


def test_a_name_that_nobody_asks_for_is_told_once():
    with fed_pipeline() as pipe:
        pipe.feed_input("y", [1])
        with pytest.raises(RuntimeError, match=r"source 'x' has no data: .* There is data for 'y'\."):
            pipe.run()
        with pytest.raises(ArgumentError, match="'data_node' must be the name of a source without a function; got 'y'"):
            pipe.run(x=[1])
        assert pipe.run(x=[2])[0].tolist() == [2]


@pytest.mark.parametrize("batch_processing", [False, True])
def test_functions_of_dlpack_get_and_give_its_objects_and_capsules(batch_processing):
    def doubled(x, y):
        assert all(hasattr(part, "__dlpack_device__") for part in (x, y))
        return np.from_dlpack(x) * 2, y.__dlpack__()

    def of_batch(xs, ys):
        pairs = [doubled(x, y) for x, y in zip(xs, ys, strict=True)]
        return [x for x, _ in pairs], [y for _, y in pairs]

    data = ndd.as_batch([np.ones(3, np.float32), np.ones(2, np.float32)])
    labels = ndd.as_batch([5, 6])
    first, second = made(
        lambda: fn.dl_tensor_python_function(
            data, labels, function=of_batch if batch_processing else doubled, num_outputs=2, synchronize_stream=False,
            batch_processing=batch_processing, output_layouts=["W"],
        )
    )  # fmt: skip
    assert (first.tolist(), second.tolist(), first.layout) == ([[2, 2, 2], [2, 2]], [5, 6], "W")
    with pytest.raises(ArgumentError, match="'function' must be a function; got int 5"):
        made(lambda: fn.dl_tensor_python_function(data, function=5))
