"""Conditions of pipelines on samples: each goes its own way, whatever the others of its batch do."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_dalis_scripts import dalis_python, for_dali, run
from test_readers_tfrecord import LABEL, labelled, write
from twin import build

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.pipeline import Pipeline, fn, pipeline_def

JOB = Path(__file__).with_name("conditionals_job.py")
COUNT = 11
#: What may be done on a way: names of `fn`, drawing from the sample's own numbers or not.
LEAVES = st.sampled_from(["double", "uniform", "crop", "shape", "nothing"])
CONDITIONS = st.sampled_from(["place", "coin", "sum"])
#: A way, or a condition with a number, the two ways behind it, and what comes after.
PROGRAMS = st.recursive(
    LEAVES, lambda ways: st.tuples(CONDITIONS, st.integers(0, 9), ways, ways, ways), max_leaves=8
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for i in range(COUNT):
        (root / f"{i:02}.bin").write_bytes(bytes(range(i, i + 6)))
    return root


def done(program, data, place):
    """What a program makes of data, in the function of a pipeline."""
    if isinstance(program, tuple):
        kind, number, first, second, after = program
        if kind == "place":
            condition = place % 10 > number
        elif kind == "coin":
            condition = fn.random.coin_flip(probability=number / 10)
        else:
            condition = fn.reductions.sum(data, axes=[0]) > number * 3.0
        data = done(first, data, place) if condition else done(second, data, place)
        return done(after, data, place)
    if program == "double":
        return data * 2.0
    if program == "uniform":
        return data + fn.random.uniform(range=(0.0, 1.0))
    if program == "crop":
        return fn.slice(data, start=fn.random.coin_flip(shape=1), end=[99.0], axes=[0],
                        out_of_bounds_policy="trim_to_shape")  # fmt: skip
    return data + fn.cast(data.shape()[0], dtype="float32") if program == "shape" else data


def pipeline(folder, program, **how):
    @pipeline_def(seed=5, enable_conditionals=True, prefetch_queue_depth=0)
    def made():
        data, label = fn.readers.file(file_root=folder, file_filters=["*.bin"], files=sorted(
            path.name for path in folder.iterdir()), random_shuffle=True)  # fmt: skip
        place = fn.cast(data[0], dtype="int32")
        return done(program, fn.cast(data, dtype="float32"), place), place, label

    return made(**how)


def samples(batches):
    """Every sample of every output, as bytes with its shape."""
    return [[(a.shape, a.dtype.str, a.tobytes()) for a in row] for outputs in batches
            for row in zip(*(output.samples for output in outputs), strict=True)]  # fmt: skip


@given(program=PROGRAMS, batch_size=st.integers(2, COUNT), stop=st.integers(0, 3), more=st.integers(1, COUNT))
def test_a_sample_goes_the_way_that_it_goes_alone_wherever_the_run_was_stopped(folder, program, batch_size, stop, more):
    with pipeline(folder, program, batch_size=1) as alone:
        expected = samples(alone.next_epoch())
    with pipeline(folder, program, batch_size=batch_size) as pipe:
        epoch = iter(pipe.next_epoch())
        first = samples(outputs for _, outputs in zip(range(stop), epoch, strict=False))
        text = pipe.checkpoint()
    with pipeline(folder, program, batch_size=more, checkpoint=text) as pipe:
        rest = [] if len(first) == COUNT else samples(pipe.next_epoch())
    assert first + rest == expected


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_job_of_conditions(tmp_path):
    nested, logical = lines(run(JOB.read_text(), tmp_path))
    assert [value for _, value in nested[1]] == [[0, -1], [1, 2], [2, 3], [7, 9], [41, 51], [11, 13]]
    assert [value for _, value in logical[2]] == [7, 7, 5, 5, 5, 5]


def test_a_job_of_conditions_is_dalis(tmp_path):
    python = dalis_python()
    text, exchanged = for_dali(JOB)
    assert len(exchanged) == 1
    assert lines(run(text, tmp_path, python=python)) == lines(run(JOB.read_text(), tmp_path))


def made(function, size=3, **how):
    with Pipeline(function=function, batch_size=size, enable_conditionals=True, prefetch_queue_depth=0, **how) as pipe:
        return pipe.run()


def numbers():
    return ndd.as_batch([0, 1, 2])


def test_loops_end_for_each_sample_when_its_condition_does():
    def function():
        x, steps = fn.external_source([numbers()] * 2) * 3, 0
        while x > 1:
            x, steps = x // 2, steps + 1
        return x, steps

    x, steps = made(function)
    assert (x.tolist(), steps.tolist()) == ([0, 1, 1], [0, 1, 2])


def test_calls_before_a_condition_are_made_once_whatever_the_ways():
    seen = []

    def function():
        x = fn.external_source([numbers()] * 2)
        y = fn.python_function(x, function=lambda a: (seen.append(int(a)), a)[1])
        if y == 1:
            return y * 10
        return fn.python_function(y, function=lambda a: (seen.append(10 + int(a)), a)[1])

    assert made(function)[0].tolist() == [0, 10, 2]
    assert seen == [0, 1, 2, 10, 12]


#: Compiled by its test alone, since Python 3.14 warns where a `return` in a `finally:` is compiled.
KEEPS_FINALLY = """
def keeps(x):
    try:
        y = x * 10 if x > 1 else x
    finally:
        return y if "y" in locals() else x
"""


def _keeps_finally(x):
    names = {}
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
        exec(KEEPS_FINALLY, names)
    return names["keeps"](x)


def _keeps(kind, x):
    """Ways behind which the function keeps to itself that it is to be left."""
    if kind == "except":
        try:
            return x * 10 if x > 1 else x
        except:  # noqa: E722 - as users write it
            return x
    if kind == "raise":
        try:
            return x * 10 if x > 1 else x
        except BaseException:
            raise ValueError("mine") from None
    if kind == "finally":
        return _keeps_finally(x)
    with contextlib.suppress(BaseException):
        x = x * 10 if x > 1 else x
    return x


@pytest.mark.parametrize("kind", ["except", "raise", "finally", "suppress"])
def test_a_function_that_catches_all_there_is_is_told_so(kind):
    with pytest.raises(RuntimeError, match="has caught the signal for it"):
        made(lambda: _keeps(kind, fn.external_source([numbers()] * 2)))
    assert made(lambda: _keeps(kind, fn.external_source([numbers() * 0] * 2)))[0].tolist() == [0, 0, 0]


def test_errors_that_a_function_catches_are_its_own_on_each_way():
    def function():
        x = fn.external_source([numbers()] * 2)
        try:
            if x > 1:
                raise ValueError("mine")
        except ValueError:
            x = x * 10
        return x

    assert made(function)[0].tolist() == [0, 1, 20]


def test_draws_before_the_reader_are_not_those_of_a_function_that_kept_it(folder):
    def early():
        drawn = fn.random.uniform(range=(0.0, 1.0))
        with contextlib.suppress(BaseException):
            fn.readers.file(file_root=folder, files=["00.bin", "01.bin"])
        return drawn

    pipe = Pipeline(function=early, batch_size=2, prefetch_queue_depth=0)
    with pipe, pytest.raises(RuntimeError, match="has caught"):
        pipe.run()


def test_what_was_read_may_be_asked_for_again_on_a_way():
    def function():
        x = fn.external_source([numbers()] * 2, name="x")
        return fn.external_source(name="x") * 10 if x > 0 else x

    assert made(function)[0].tolist() == [0, 10, 20]


def test_inside_of_calls_a_batch_is_no_condition():
    def decides(_):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(numbers())
        return 1

    assert made(lambda: fn.python_function(fn.external_source([numbers()]), function=decides))[0].tolist() == [1, 1, 1]


@pytest.mark.gpu
@pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing")
def test_data_on_a_gpu_stays_there_and_may_be_a_condition():
    images = ndd.as_batch([np.full((4 + i, 5, 3), 40 * i, np.uint8) for i in range(3)], layout="HWC")

    def function(device):
        x, i = fn.external_source([images], name="x"), fn.external_source([numbers()], name="i")
        x, i = (x.gpu(), i.gpu()) if device == "gpu" else (x, i)
        x = fn.crop(x, crop=(2, 3))
        if i > 0:
            x = fn.flip(x, horizontal=i == 1)
            return (
                fn.brightness(x, brightness=0.5) if i == 2 else x + fn.constant(idata=1, dtype="uint8", device=device)
            )
        return fn.python_function(x, function=lambda a: a * 2, output_layouts="HWC")

    (found,), (expected,) = (made(functools.partial(function, device)) for device in ("gpu", "cpu"))
    assert found.device.device_type == "gpu"
    assert found.cpu().tolist() == expected.tolist()


@pytest.mark.parametrize("fails", [None, 1, 2, 3])
def test_streams_of_a_way_that_nobody_goes_for_a_while_are_kept(fails):
    """Draws that belong to no sample: their state waits in the checkpoint until the way is gone again."""
    failing = []

    def boom(value):
        if failing:
            failing.pop()
            raise ValueError("boom")
        return value

    @pipeline_def(batch_size=2, seed=1, enable_conditionals=True, prefetch_queue_depth=0)
    def drawn():
        if fn.external_source(lambda i: [np.array(i % 2 == 0)] * 2):
            return fn.python_function(fn.random.uniform(range=(0.0, 1.0)), function=boom)
        return fn.constant(fdata=0.0, shape=[])

    with drawn() as pipe:
        whole = [pipe.run()[0].tolist() for _ in range(6)]
    with drawn() as pipe:
        assert pipe.run()[0].tolist() == whole[0]
        text = pipe.checkpoint()
    with drawn(checkpoint=text) as pipe:
        rest = []
        for i in range(1, 6):
            if i == fails and i % 2 == 0:
                failing.append(True)
                with pytest.raises(ValueError, match="boom"):
                    pipe.run()
            rest.append(pipe.run()[0].tolist())
    assert rest == whole[1:]


def test_what_a_reader_gave_by_name_may_be_changed_on_a_way(tmp_path):
    path = write(tmp_path / "x.tfrecord", map(labelled, range(3)))

    def function():
        record = fn.readers.tfrecord(path=path, features=LABEL)
        x = record.pop("label")
        return x * 10 if x > 1 else x

    assert made(function)[0].tolist() == [[0], [1], [20]]


def test_the_origin_of_samples_stays(folder):
    with pipeline(folder, ("place", 4, "double", "nothing", "nothing"), batch_size=5) as pipe:
        data, place, _ = pipe.run()
    assert [Path(name).name for name in data.origin.names] == [f"{number:02}.bin" for number in place.tolist()]


@pytest.mark.parametrize(("function", "told"), [
    (lambda x: (x * 2.0 if x > 1 else x), "one dtype for output 0, whichever way a sample goes; got f32 and i32"),
    (lambda x: ((x, x) if x > 1 else x), "as many outputs, whichever way a sample goes; got 2 and 1"),
    (lambda x: (fn.stack(x, x) if x > 1 else x), "one number of dimensions for output 0"),
    (lambda x: (fn.reshape(fn.stack(x, x), layout="X") if x > 1 else fn.stack(x, x)), "one layout for output 0"),
    (lambda x: (fn.external_source([x]) if x > 1 else x), "'name' must be .* before any condition"),
    (lambda x: (fn.permute_batch(x, indices=[0]) if x > 1 else x), r"fn\.permute_batch\(\): argument 'input'"),
    (lambda x: (fn.python_function(x, function=list, batch_processing=True) if x > 1 else x), "'batch_processing'"),
    (lambda x: (fn.decoders.image(fn.constant(idata=[1], dtype="uint8"), on_error="skip"), x * 2 if x > 1 else x)[1],
     r"calls before a condition all give 3 samples; got 0 of fn\.decoders\.image\(\)"),
    (lambda x: (fn.decoders.image(fn.constant(idata=[1], dtype="uint8"), on_error="skip") if x > 1 else x),
     "one whose outputs have as many samples as there are, or go this way: 1; got one of 0"),
    (lambda x: (fn.multi_paste(fn.zeros(shape=[2, 2, 3]), in_ids=x) if x > 1 else x), "'in_ids'"),
    (lambda x: (fn.normalize(x, batch=True) if x > 1 else x), r"fn\.normalize\(\): argument 'batch'"),
])  # fmt: skip
def test_what_ways_must_not_do_is_told(function, told):
    with pytest.raises(ArgumentError, match=told):
        made(lambda: function(fn.external_source([numbers()] * 2)))


def unset(x, unused=True):
    if unused:
        kept = x
    if x == 1:
        fine = x
    elif kept == 2:
        fine = other = x
    return fine, other


def other_ways(x):
    def helper():
        if x > 1:
            y = x
        return y

    return helper()


def without_a_condition(x, unused=False):
    if x == 1:
        x = -x

    def helper():
        if unused:
            y = x
        return y

    return helper()


@pytest.mark.parametrize(("function", "variable", "samples", "condition", "line"), [
    (lambda x: unset(x * 2), "fine", "0, 2", 5, 7), (lambda x: unset(x + 1), "other", "0", 3, 7),
    (lambda x: unset(x * 0 + 2)[0] + unset(x * 0 + 1)[1], "other", "any sample", 3, 7),
    (other_ways, "y", "0, 1", 2, 4)])  # fmt: skip
def test_a_variable_that_is_not_set_on_a_way_is_named_with_its_place(function, variable, samples, condition, line):
    first = (other_ways if function is other_ways else unset).__code__.co_firstlineno
    told = (rf"'function' must be one that sets '{variable}' whichever way a sample goes; got no value of it for "
            rf"(samples )?{samples}, in {re.escape(__file__)}, line {first + line}\. Set it in both branches, or "
            rf"before the condition\. The last one was in line {first + condition}")  # fmt: skip
    with pytest.raises(ArgumentError, match=told):
        made(lambda: function(fn.external_source([numbers()] * 2)))


def test_a_variable_that_no_condition_decides_on_is_pythons_own_error():
    with pytest.raises(UnboundLocalError, match="'y'"):
        made(lambda: without_a_condition(fn.external_source([numbers()] * 2)))


def test_a_variable_that_no_sample_needs_may_be_unset():
    assert made(lambda: unset(fn.external_source([numbers()] * 2) * 0 + 2)[1])[0].tolist() == [2, 2, 2]


def test_a_condition_is_one_number_for_each_sample():
    for condition in ([[1, 2], [3, 4], [5, 6]], [1, 2]):
        with pytest.raises(ValueError, match="A condition is one number for each sample"):
            made(lambda condition=condition: 1 if ndd.as_batch(condition) and fn.external_source([numbers()]) else 2)
    told = r"ambiguous.*pipeline_def\(enable_conditionals=True\)"
    without = Pipeline(function=lambda: 1 if numbers() else 2, batch_size=3, prefetch_queue_depth=0)
    with without as pipe, pytest.raises(ValueError, match=told):
        pipe.run()
    with pytest.raises(ValueError, match=r"ambiguous: use len\(batch\), or compare its samples\.$"):
        bool(numbers())


def test_a_function_that_calls_something_else_the_second_time_is_found_out():
    calls = []

    def function():
        x = fn.external_source([numbers()] * 2)
        calls.append(1)
        z = fn.copy(x) if len(calls) == 1 else fn.cast(x, dtype="int32")
        return z if x > 1 else -z

    with pytest.raises(RuntimeError, match=r"fn\.cast\(\) is called where fn\.copy\(\) was"):
        made(function)


def test_a_loader_of_torch_gives_the_same_with_any_number_of_workers(folder):
    pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils.data import DataLoader

    from dynamic.pytorch import Dataset

    program = ("coin", 5, "uniform", ("place", 4, "double", "nothing", "nothing"), "nothing")

    def given(workers, state=None, stop=COUNT):
        """Batches and the state after the last of them."""
        data = Dataset(lambda: pipeline(folder, program, batch_size=2), output_map=["data", "place", "label"])
        if state is not None:
            data.load_state_dict(state)
        batches = list(itertools.islice(DataLoader(data, batch_size=None, num_workers=workers), stop))
        return [batch["data"].tolist() for batch in batches], batches[-1].state

    expected, _ = given(0)
    assert len(expected) == -(-COUNT // 2)
    first, state = given(2, stop=3)
    assert first + given(1, state)[0] == first + given(0, state)[0] == given(2)[0] == expected
