"""Sources of a pipeline: nothing that they give is lost, or changes afterwards; what they should give is checked."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.pipeline import fn, pipeline_def, types


class Rewound:
    """DALI's example of an iterator: it begins again whenever it is asked for one."""

    def __iter__(self):
        self.next = 0
        return self

    def __next__(self):
        self.next += 1
        if self.next > 3:
            raise StopIteration
        return [[self.next]]


def three_batches(number):
    if number == 3:
        raise StopIteration
    return [[number + 1]]


#: Sources of three batches, the argument `cycle`, and whether they begin again after `reset`, as in DALI.
ENDING = [
    (Rewound, None, False), (Rewound, "raise", True), (lambda: [[[1]], [[2]], [[3]]], None, False),
    (lambda: [[[1]], [[2]], [[3]]], "raise", True), (lambda: iter([[[1]], [[2]], [[3]]]), None, False),
    (lambda: three_batches, None, True)]  # fmt: skip


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize(("make", "cycle", "again"), ENDING)
@given(resets=st.sets(st.integers(3, 11)), looked=st.integers(0, 12), saved=st.integers(0, 12))
def test_a_source_that_has_ended_ends_each_run_until_a_reset(make, cycle, again, depth, resets, looked, saved):
    @pipeline_def(batch_size=1, prefetch_queue_depth=depth)
    def numbers():
        return fn.external_source(make(), cycle=cycle, name="x")

    found, expected, position = [], [], 0
    with numbers() as pipe:
        for step in range(12):
            if step == saved:
                pipe.checkpoint()  # neither this nor a look at the metadata begins an epoch
            if step == looked:
                pipe.reader_meta()
            try:
                found += np.ravel(pipe.run()[0].tolist()).tolist()
            except StopIteration:
                found.append(None)
            position = min(position + 1, 4)
            expected.append(position if position < 4 else None)
            if step in resets:
                pipe.reset()
                position = 0 if again and position == 4 else position
    assert found == expected


def test_a_checkpoint_at_the_end_of_a_source_goes_on_in_its_next_epoch():
    @pipeline_def(batch_size=1)
    def numbers():
        return fn.external_source(three_batches)

    with numbers() as pipe:
        assert len(list(pipe)) == 3
        text = pipe.checkpoint()
        with pytest.raises(StopIteration):
            pipe.run()
        assert [outputs[0].tolist() for outputs in pipe.next_epoch()] == [[[1]], [[2]], [[3]]]
        assert [len(list(pipe)) for _ in range(2)] == [3, 3]
    with numbers(checkpoint=text) as pipe:
        assert (pipe.epoch, pipe.run()[0].tolist()) == (1, [[1]])


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("samples", [False, True])
def test_a_function_that_says_when_an_epoch_ends_is_called_in_the_next(samples, depth):
    counter = itertools.count()

    def numbered():
        number = next(counter) % 4
        if number == 3:
            raise StopIteration
        return np.array([number]) if samples else [[number], [number]]

    @pipeline_def(batch_size=2, prefetch_queue_depth=depth)
    def numbers():
        return fn.external_source(numbered, batch=not samples)

    with numbers() as pipe:
        for _ in range(3):
            found = [output.tolist() for (output,) in pipe]
            assert found == ([[[0], [1]], [[2]]] if samples else [[[i], [i]] for i in range(3)])
            pipe.reset()


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("kind", ["iterator", "list", "function", "samples", "generator function"])
def test_failed_runs_lose_nothing_of_an_iterable(kind, depth):
    failing = itertools.cycle([False, True, False, False, True, True])
    numbered = iter(range(8))
    sources = {
        "iterator": lambda: iter([[i] for i in range(8)]), "list": lambda: [[i] for i in range(8)],
        "function": lambda: lambda: [next(numbered)],
        "samples": lambda: iter(range(8)), "generator function": lambda: generated}  # fmt: skip

    def generated():
        yield from ([i] for i in range(8))

    @pipeline_def(batch_size=1, prefetch_queue_depth=depth)
    def numbers(values):
        x = fn.external_source(values, name="x", batch=kind != "samples")
        if next(failing):
            raise OSError("unlucky")
        return x

    found = []
    with numbers(sources[kind]()) as pipe:
        while True:
            try:
                found += pipe.run()[0].tolist()
            except OSError:
                continue
            except StopIteration:
                break
    assert found == list(range(8))


def test_batches_that_are_made_again_take_what_an_iterable_gave_already():
    @pipeline_def(batch_size=1)
    def counted(values):
        return fn.external_source(values)

    with counted(iter([[0], [1], [2], [3], [4]])) as pipe:
        pipe.reader_meta()
        pipe._course.end_epochs("pad")
        assert pipe.run()[0].tolist() == [0]
        pipe.feed_input("nobody", [1])
        with pytest.raises(ArgumentError, match="'nobody'"):
            pipe.run()
        assert [run[0].tolist() for run in pipe] == [[1], [2], [3], [4]]

    @pipeline_def(batch_size=1)
    def fed(values):
        return fn.external_source(values), fn.external_source(name="x")

    with fed(iter([[0], [1], [2]])) as pipe:
        with pytest.raises(RuntimeError, match="has no data"):
            pipe.run()
        assert [[part.tolist() for part in pipe.run(x=[i])] for i in range(3)] == [[[i], [i]] for i in range(3)]


def test_only_what_may_be_asked_for_again_is_kept():
    given = []

    def numbered():
        for i in range(20):
            given.append(weakref.ref(array := np.array([i])))
            yield [array]
            del array

    @pipeline_def(batch_size=1)
    def numbers():
        return fn.external_source(numbered, no_copy=True)

    with numbers() as pipe:
        for i in range(12):
            pipe.run()
            gc.collect()
            assert sum(reference() is not None for reference in given[: max(0, i - 4)]) == 0


def test_a_forked_child_goes_on_with_what_an_iterable_gave():
    @pipeline_def(batch_size=1)
    def numbers(values):
        return fn.external_source(values)

    with numbers(iter([[0], [1], [2], [3]])) as pipe:
        assert pipe.run()[0].tolist() == [0]
        pipe._course.peek()
        time.sleep(0.2)  # until what is made ahead is made
        child = os.fork()
        if not child:
            os._exit(int([run[0].tolist() for run in pipe] != [[1], [2], [3]]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# What a source gives


@pytest.mark.parametrize("kind", ["batches", "lists", "samples", "tensors"])
@pytest.mark.parametrize("depth", [0, 3])
def test_a_source_may_use_its_memory_again(kind, depth):
    memory = np.zeros((2, 3), np.int32)

    def by_batch(i):
        if i == 5:
            raise StopIteration
        memory[:] = i
        return memory if kind == "batches" else list(memory) if kind == "lists" else ndd.as_batch(memory)

    def by_sample(info):
        if info.idx_in_epoch == 10:
            raise StopIteration
        memory[0] = info.iteration
        return memory[0]

    @pipeline_def(batch_size=2, prefetch_queue_depth=depth)
    def numbers():
        return fn.external_source(by_sample if kind == "samples" else by_batch, batch=kind != "samples")

    with numbers() as pipe:
        pipe.build()
        runs = [run[0] for run in pipe]
    assert [run.tolist() for run in runs] == [[[i] * 3] * 2 for i in range(5)]
    eager = ndd.ExternalSource(by_sample if kind == "samples" else by_batch, batch=kind != "samples")
    assert [made.tolist() for made in list(eager.next_epoch(2))] == [[[i] * 3] * 2 for i in range(5)]


def test_memory_is_shared_where_that_is_asked_for():
    memory = np.zeros((2, 3), np.int32)
    assert np.shares_memory(ndd.ExternalSource(lambda i: memory, no_copy=True)().whole, memory)
    shared = ndd.ExternalSource(lambda info: memory[info.idx_in_batch], no_copy=True, batch=False)(2)
    assert all(np.shares_memory(sample, memory) for sample in shared.samples)
    assert not np.shares_memory(ndd.ExternalSource(lambda i: memory)().whole, memory)


@pytest.mark.parametrize("source", [lambda i: ([[i]],), lambda: ([[7]],), [([[1]],)]])
def test_one_output_that_is_asked_for_is_in_a_tuple(source):
    @pipeline_def(batch_size=1)
    def numbers():
        (x,) = fn.external_source(source, num_outputs=1)
        return x

    with numbers() as pipe:
        assert len(pipe.run()) == 1
        assert pipe.seed is not None
    with pipeline_def(lambda: fn.external_source([np.zeros((1, 3))], num_outputs=1))(batch_size=1) as pipe:  # noqa: SIM117
        with pytest.raises(ArgumentError, match="a tuple of 1 output, its 'num_outputs'; got"):
            pipe.run()


@pytest.mark.parametrize("depth", [0, 2])
def test_sources_are_called_on_the_thread_that_runs_ahead(depth):
    threads = []

    def source():
        threads.append(threading.get_ident())
        return np.zeros((2, 3))

    with pipeline_def(lambda: fn.external_source(source))(batch_size=2, prefetch_queue_depth=depth) as pipe:
        pipe.run(), pipe.run()
    assert set(threads) == {threading.get_ident()} if depth == 0 else threading.get_ident() not in threads


@given(st.lists(st.integers(0, 4), min_size=2, max_size=3), st.booleans())
def test_all_outputs_of_a_source_have_as_many_samples(counts, fed):
    given_ = tuple([[i] for i in range(count)] or np.zeros((0, 1), np.int32) for count in counts)

    def sourced():
        source = {} if fed else {"source": lambda: given_}
        return tuple(fn.external_source(**source, num_outputs=len(counts), name="x"))

    with pipeline_def(batch_size=4, prefetch_queue_depth=0)(sourced)() as pipe:
        for i, samples in enumerate(given_ if fed else ()):
            pipe.feed_input(f"x[{i}]", samples)
        if len(set(counts)) == 1:
            assert [len(output) for output in pipe.run()] == counts
        else:
            with pytest.raises(ArgumentError, match="one whose outputs have as many samples|one that makes as many as"):
                pipe.run()


IMAGES = np.zeros((2, 4, 4, 3), np.uint8)


@pytest.mark.parametrize(("declared", "given", "told"), [
    ({"dtype": types.FLOAT}, IMAGES, "dtype f32, as declared; got u8"),
    ({"dtype": types.FLOAT}, list(IMAGES), "dtype f32, as declared; got u8"),
    ({"ndim": 2}, IMAGES, "ndim 2, as declared; got 3"),
    ({"layout": "HW"}, IMAGES, "a letter for each of the 3 dimensions of the sample; got 2"),
    ({"layout": "CHW"}, ndd.as_batch(IMAGES, layout="HWC"), "layout CHW, as declared; got HWC"),
])  # fmt: skip
def test_what_a_source_should_give_is_checked(declared, given, told):
    @pipeline_def(batch_size=2, prefetch_queue_depth=0)
    def numbers(source):
        return fn.external_source(source, name="x", **declared)

    with numbers(lambda i: given) as pipe, pytest.raises(ArgumentError, match="fn.external_source") as caught:
        pipe.run()
    assert told in str(caught.value)
    assert str(caught.value).endswith("The source is 'x'.")
    with numbers(None) as pipe:
        pipe.feed_input("x", given)
        with pytest.raises(ArgumentError, match="Pipeline.feed_input") as caught:
            pipe.run()
        assert told in str(caught.value)
        assert str(caught.value).endswith("The source is 'x'.")
        with pytest.raises(RuntimeError, match="'x' has no data"):  # it has been taken back
            pipe.run()
    right = {"dtype": types.UINT8, "ndim": 3, "layout": "HWC"}
    with numbers(None) as pipe:
        pipe._function = lambda: fn.external_source(name="x", **right)
        assert pipe.run(x=IMAGES)[0].layout == "HWC"


def test_numbers_of_python_are_made_of_the_dtype_that_is_asked_for():
    sources = [(lambda info: [info.idx_in_epoch], {"batch": False, "ndim": 1}), ([[1.5, 2], []], {})]
    for source, arguments in sources:
        with pipeline_def(lambda: fn.external_source(source, dtype=types.FLOAT64, **arguments))(batch_size=2) as pipe:
            assert [str(pipe.run()[0].dtype) for _ in range(2)] == ["f64", "f64"]
    assert str(ndd.ExternalSource(lambda: np.full(3, 1.7), dtype="int32")().dtype) == "i32"  # outside all is converted


def test_the_last_outputs_may_have_no_layout():
    @pipeline_def(batch_size=1)
    def pairs():
        return fn.external_source(lambda i: ([[i]], [[i]]), num_outputs=2, layout=["X"])

    with pairs() as pipe:
        assert [output.layout for output in pipe.run()] == ["X", None]
    with pipeline_def(lambda: fn.external_source(lambda i: [[i]], layout=["X"]))(batch_size=1) as pipe:
        assert pipe.run()[0].layout == "X"


@pytest.mark.parametrize("arguments", [{"batch": False}, {"batch_info": True}, {"no_copy": False}])
def test_a_source_that_is_fed_gets_batches(arguments):
    with pipeline_def(lambda: fn.external_source(name="x", **arguments))(batch_size=2) as pipe:
        assert pipe.run(x=[1, 2])[0].tolist() == [1, 2]


def test_parallel_sources_make_samples_unless_they_are_told_to_make_batches():
    @pipeline_def(batch_size=2)
    def numbers(**arguments):
        return fn.external_source(lambda place: [getattr(place, "idx_in_epoch", place)], parallel=True, **arguments)

    with numbers() as pipe:
        assert pipe.run()[0].tolist() == [[0], [1]]
    with numbers(batch=True) as pipe:
        assert pipe.run()[0].tolist() == [0]


def test_a_source_that_is_fed_repeats_its_last_batch_where_it_is_told_to():
    @pipeline_def(batch_size=1)
    def numbers():
        return fn.external_source(None, name="x", repeat_last=True)

    with numbers() as pipe:
        assert pipe.input_feed_count("x") == 1
        with pytest.raises(RuntimeError, match="has no data"):
            pipe.run()
        pipe.feed_input("x", [1])
        assert [pipe.run()[0].tolist() for _ in range(3)] == [[1]] * 3
        pipe.feed_input("x", [2])
        pipe.feed_input("x", [3])
        assert [pipe.run()[0].tolist() for _ in range(3)] == [[2], [3], [3]]
        checkpoint = pipe.checkpoint()
    with numbers(checkpoint=checkpoint) as pipe:
        pipe.feed_input("x", [4])
        assert [pipe.run()[0].tolist() for _ in range(2)] == [[4], [4]]


@pytest.mark.parametrize(("call", "told"), [
    (lambda: fn.external_source(), "takes either 'source' or 'name'; got neither"),
    (lambda: fn.external_source(None), "takes either 'source' or 'name'; got neither"),
    (lambda: fn.external_source([[1]], repeat_last=True), "'repeat_last' must be False, but for a source that is fed"),
    (lambda: fn.external_source([[1]], laoyut="X"), "'laoyut'"),
    (lambda: fn.external_source([[1]], ndim=-1), "'ndim' must be an integer of 0 or more; got int -1"),
    (lambda: fn.external_source([[1]], 1, 2), "takes 2 positional arguments (source, num_outputs); got 3"),
    (lambda: fn.external_source([[1]], source=[[2]]), "'source' must be given once; got two values"),
    (lambda: fn.external_source([[1]], name=5), "'name' must be a string; got int 5"),
    (lambda: fn.external_source([[1]], 2, layout=["X"] * 3), "'layout' must be one, or a list of 2; got a list of 3"),
])  # fmt: skip
def test_sources_that_cannot_be_are_refused(call, told):
    with pipeline_def(call)(batch_size=1) as pipe, pytest.raises(ArgumentError, match="fn.external_source") as caught:
        pipe.run()
    assert told in str(caught.value)


def test_the_metadata_of_a_reader_that_is_none_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))

    @pipeline_def(batch_size=1)
    def files():
        return fn.readers.numpy(file_root=tmp_path, name="photos")

    with files() as pipe:
        assert pipe.epoch_size("photos") == pipe.epoch_size()["photos"] == pipe.reader_meta("photos")["epoch_size"]
        for ask in (pipe.epoch_size, pipe.reader_meta):
            for name in ("phtos", ["photos"]):
                with pytest.raises(ArgumentError, match=r"'name' must be that of a reader, one of \['photos'\]; got"):
                    ask(name)


@given(st.lists(st.sampled_from(["feed", "run", "fail", "run with"]), max_size=20), st.booleans())
def test_each_run_uses_the_next_batch_that_was_fed_or_the_last_again(steps, repeat):
    fails, fed, waiting, last = [False], itertools.count(), [], None

    @pipeline_def(batch_size=1)
    def numbers():
        x = fn.external_source(name="x", repeat_last=repeat)
        if fails[0]:
            raise OSError("unlucky")
        return x

    with numbers() as pipe:
        for step in steps:
            if step == "feed":
                waiting.append(next(fed))
                pipe.feed_input("x", [waiting[-1]])
                continue
            given_ = {"x": [next(fed)]} if step == "run with" else {}
            available = waiting + [value for (value,) in given_.values()]
            fails[0] = step == "fail"
            if fails[0] or not (available or (repeat and last is not None)):
                with pytest.raises((OSError, RuntimeError)):
                    pipe.run(**given_)
                continue
            found = pipe.run(**given_)[0].tolist()
            last, waiting = (available[0], available[1:]) if available else (last, [])
            assert found == [last]


def test_a_run_that_fails_forgets_what_it_was_given_by_a_wrong_name():
    fails = [True]

    @pipeline_def(batch_size=2, prefetch_queue_depth=0)
    def numbers():
        if fails[0]:
            raise OSError("unlucky")
        return fn.external_source(source=[[1, 2], [3, 4]])

    with numbers() as pipe:
        with pytest.raises(OSError, match="unlucky"):
            pipe.run(wrong=[1, 2])
        fails[0] = False
        assert pipe.run()[0].tolist() == [1, 2]
        with pytest.raises(ArgumentError, match="got 'wrong'"):
            pipe.run(wrong=[1, 2])
        assert pipe.run()[0].tolist() == [3, 4]


def by_place(stop):
    def source(info):
        if info.idx_in_epoch >= stop:
            raise StopIteration
        return [info.epoch_idx, info.idx_in_epoch]

    return source


@pytest.mark.parametrize("depth", [0, 2])
def test_a_source_that_ends_with_the_epochs_of_the_reader_goes_on_in_the_next(tmp_path, depth):
    for i in range(7):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]))

    @pipeline_def(batch_size=3, seed=1, prefetch_queue_depth=depth)
    def beside():
        _, labels = fn.readers.file(file_root=str(tmp_path), files=[f"{i}.bin" for i in range(7)])
        return labels, fn.external_source(source=by_place(7), batch=False)

    with beside() as pipe:
        for epoch in range(3):
            found = [(labels.tolist(), x.tolist(), pipe.checkpoint()) for labels, x in pipe.next_epoch()]
            assert [labels for labels, _, _ in found] == [[[0], [1], [2]], [[3], [4], [5]], [[6]]]
            assert [x for _, each, _ in found for x in each] == [[epoch, i] for i in range(7)]
    with beside(checkpoint=found[-1][-1]) as pipe:
        assert pipe.epoch_size() == {"readers.file 1": 7}
        assert list(pipe.next_epoch()) == []
        assert [x for _, each in pipe.next_epoch() for x in each.tolist()] == [[3, i] for i in range(7)]


@pytest.mark.parametrize("conditionals", [False, True])
@pytest.mark.parametrize("depth", [0, 2])
@given(stops=st.lists(st.integers(1, 3), max_size=3), beside=st.booleans())
def test_draws_before_a_source_of_batches_go_on(depth, conditionals, stops, beside):
    @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=depth, enable_conditionals=conditionals)
    def early():
        first = fn.random.uniform(range=(0.0, 1.0)), fn.random.normal(name="second")
        numbers = fn.external_source(source=lambda i: np.array([[i], [-i]]))
        other = [fn.external_source(source=lambda i: np.array([[i], [i]])) for _ in range(beside)]
        return *first, numbers, fn.random.uniform(range=(0.0, 1.0)), *other

    def taken(pipe, count):
        return [[output.tolist() for output in pipe.run()] for _ in range(count)]

    with early() as pipe:
        whole = taken(pipe, 12)
    text, found = None, []
    for stop in [*stops, 12 - sum(stops)]:
        with early(checkpoint=text) as pipe:
            found += taken(pipe, stop)
            text = pipe.checkpoint()
    assert found == whole


@pytest.mark.parametrize("depth", [0, 2])
def test_sources_that_end_together_begin_together(depth):
    @pipeline_def(batch_size=2, prefetch_queue_depth=depth)
    def pairs():
        first, other = [fn.external_source(source=by_place(4), batch=False) for _ in range(2)]
        return first, other

    with pairs() as pipe:
        for epoch in range(3):
            found = [(a.tolist(), b.tolist()) for a, b in pipe]
            pipe.reset()
            assert found == [([[epoch, i], [epoch, i + 1]],) * 2 for i in (0, 2)]


@pytest.mark.parametrize("depth", [0, 2])
@given(stops=st.sets(st.integers(0, 9)), beside=st.booleans(), lengths=st.sampled_from([(2, 2), (2, 2, 2), (2, 4, 3)]))
def test_sources_that_end_together_do_so_wherever_the_run_was_stopped(depth, stops, beside, lengths):
    def numbered(length, info):
        if info.idx_in_epoch == 2 * length:
            raise StopIteration
        return [info.epoch_idx, info.idx_in_epoch]

    @pipeline_def(batch_size=2, seed=7, prefetch_queue_depth=depth)
    def numbers():
        first = [fn.readers.file(files=[__file__] * 4, labels=[0, 1, 2, 3])[1]] * beside
        return *first, *[fn.external_source(functools.partial(numbered, n), batch=False) for n in lengths]

    def outcomes(stops):
        pipe, found = numbers(), []
        for step in range(10):
            if step in stops:
                pipe.close()
                pipe = numbers(checkpoint=pipe.checkpoint())
            try:
                found.append([output.tolist() for output in pipe.run()])
            except StopIteration:
                found.append("end")
                pipe.reset()
        pipe.close()
        return found

    assert outcomes(stops) == outcomes(())


@pytest.mark.parametrize("depth", [0, 2])
@given(stops=st.sets(st.integers(0, 9)), lengths=st.lists(st.sampled_from([2, 4, 6]), min_size=1, max_size=3),
       beside=st.booleans())  # fmt: skip
def test_loops_end_with_sources_of_any_lengths_wherever_the_run_was_stopped(depth, stops, lengths, beside):
    def numbered(length, info):
        if info.idx_in_epoch == length:
            raise StopIteration
        return [info.epoch_idx, info.idx_in_epoch]

    @pipeline_def(batch_size=2, seed=7, prefetch_queue_depth=depth)
    def numbers():
        first = [fn.readers.file(files=[__file__] * 6, labels=[*range(6)])[1]] * beside
        return *first, *[fn.external_source(functools.partial(numbered, n), batch=False) for n in lengths]

    def epochs(stops):
        pipe, found, place = numbers(), [], 0
        for _ in range(4):
            found.append([])
            rest = pipe.next_epoch()
            while (outputs := next(rest, None)) is not None:
                found[-1].append([output.tolist() for output in outputs])
                place += 1
                if place in stops:
                    pipe.close()
                    pipe = numbers(checkpoint=pipe.checkpoint())
                    pipe.reader_meta()
                    rest = pipe.next_epoch()
        pipe.close()
        return found

    assert epochs(stops) == epochs(())


def test_lists_that_calls_of_several_sets_gave_belong_to_the_way():
    @pipeline_def(batch_size=2, enable_conditionals=True, seed=1)
    def ways():
        condition = fn.external_source(source=[[0, 1]])
        shape = fn.constant(idata=[9, 9])
        anchors, _ = fn.random_crop_generator([shape, shape])
        anchors.append(anchors[0])
        if condition:
            return fn.constant(idata=len(anchors))
        return fn.constant(idata=-len(anchors))

    with ways() as pipe:
        assert [abs(x) for (x,) in pipe.run()[0].tolist()] == [3, 3]


def test_a_bad_sample_is_told_with_its_place_and_source():
    @pipeline_def(batch_size=3)
    def photos():
        return fn.external_source(source=[[1, 2], [3, 4], [object(), 5]], batch=False, name="photos")

    with photos() as pipe, pytest.raises(ArgumentError, match=r"'source\[2\]' must be numbers.*'photos'"):
        pipe.run()
