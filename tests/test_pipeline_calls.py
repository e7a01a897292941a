"""What a checkpoint knows of a pipeline's function: the calls that it made, and which of them plain Python changes."""

from __future__ import annotations

import contextlib
import json
import shutil
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_readers_tfrecord import LABEL, labelled, write

from dynamic import StateError, StateMismatch, StateWarning
from dynamic.errors import DataError
from dynamic.pipeline import fn, pipeline_def
from dynamic.pipeline._calls import Call, Record


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for i in range(9):
        (root / str(i)).write_bytes(bytes([i]))
    return root


def labels_of(folder, **arguments):
    return fn.readers.file(file_root=folder, files=[str(i) for i in range(9)], name="reader", **arguments)[1]


def run_of(*calls):
    return [Call(path, tuple(arguments), path != "random.uniform") for path, arguments in calls]


CALLS = st.tuples(
    st.sampled_from(["cast", "flip", "random.uniform"]),
    st.dictionaries(st.sampled_from(["0", "1", "a", "b"]), st.integers(0, 5).map(str), max_size=2)
    .map(lambda arguments: sorted(arguments.items())),
)  # fmt: skip
RUNS = st.lists(st.lists(CALLS, max_size=4).map(lambda calls: run_of(*calls)), min_size=1, max_size=12)


@given(runs=RUNS, again=st.data())
def test_what_a_record_has_learned_it_knows(runs, again):
    """Each of the runs is one of its own, also after the record was saved; and it stays small."""
    record = Record()
    for run in runs:
        record.learn(run)
    if not record:
        return
    saved = Record.of({"version": 2, **json.loads(json.dumps(record.entries))})
    assert saved.entries == record.entries
    for run in again.draw(st.permutations(runs)):
        saved.compare(run)  # a warning is an error
    kinds = {(call.path, *(name for name, _ in call.arguments)) for run in runs for call in run}
    most = max(map(len, runs))
    assert len(record.calls) <= most * max(len(kinds), 1)


@given(
    st.lists(CALLS, min_size=1, max_size=5, unique_by=lambda call: call[0]),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
def test_a_call_that_is_there_or_not_is_told(calls, place, plain, gone):
    run = run_of(*calls)
    other = [*run[:place], Call("other", (), plain), *run[place:]]
    record = Record()
    record.learn(other if gone else run)
    told = pytest.warns(StateWarning, match="other") if plain else pytest.raises(StateMismatch, match="other")
    with told:
        record.compare(run if gone else other)


def test_an_argument_that_has_varied_is_not_compared(folder):
    """A schedule: the checkpoint does not grow, and a run goes on from any but the first."""

    def scheduled(start, text=None):
        number = [start]

        @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)
        def made():
            number[0] += 1
            labels = labels_of(folder)
            return (
                labels + 0 * number[0],
                fn.random.uniform(range=(0.0, number[0] / 1000)),
                fn.constant(idata=number[0]),
            )

        return made(checkpoint=text)

    pipe, texts, found = scheduled(0), [], []
    for _ in range(40):
        found.append([output.tolist() for output in pipe.run()])
        texts.append(pipe.checkpoint())
    assert max(map(len, texts[1:])) <= len(texts[1]) + 20
    for taken in (2, 3, 20):
        again = scheduled(taken, texts[taken - 1])
        assert [[output.tolist() for output in again.run()] for _ in range(5)] == found[taken : taken + 5]
    with pytest.raises(StateMismatch, match="may be given as arrays") as caught:
        scheduled(1, texts[0]).run()
    assert "- random.uniform(range=[0.0, 0.001])" in caught.value.differences


def test_what_differs_is_told_in_few_lines(folder):
    @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)
    def long(count, value):
        labels = labels_of(folder)
        return [fn.random.uniform(values=[value] * 500) if i else labels for i in range(count)]

    with long(60, 0.0) as pipe:
        pipe.run()
        text = pipe.checkpoint()
    with long(60, 1.0, checkpoint=text) as pipe, pytest.raises(StateMismatch, match="and 98 more") as caught:
        pipe.run()
    assert len(str(caught.value)) < 6000


@given(ways=st.lists(st.booleans(), min_size=9, max_size=9), stop=st.integers(1, 8))
def test_plain_python_may_go_another_way_after_a_resume(folder, ways, stop):
    """What draws nothing may come or not; a warning tells of it where the checkpoint has not seen both."""

    @pipeline_def(batch_size=1, seed=1, prefetch_queue_depth=0)
    def branching():
        labels = labels_of(folder)
        if ways[labels.tolist()[0][0]]:
            labels = fn.cast(labels, dtype="int64")
        return fn.cast(labels, dtype="float64"), fn.random.uniform(range=(0.0, 1.0))

    with branching() as pipe:
        whole = [[output.tolist() for output in pipe.run()] for _ in range(9)]
    with branching() as pipe:
        for _ in range(stop):
            pipe.run()
        text = pipe.checkpoint()
    known = ways[stop] in ways[:stop]
    told = contextlib.nullcontext() if known else pytest.warns(StateWarning, match=r"cast\(Batch, dtype='int64'\)")
    with branching(checkpoint=text) as pipe, told:
        found = [[output.tolist() for output in pipe.run()] for _ in range(9 - stop)]
    assert found == whole[stop:]


@pytest.mark.parametrize("kind", ["draws", "seed", "name", "reader", "source"])
@pytest.mark.parametrize("there", [False, True])
def test_what_draws_or_reads_must_be_there_or_not(folder, kind, there):
    @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)
    def some(*, more):
        labels = labels_of(folder)
        if more and kind == "draws":
            fn.random.coin_flip()
        elif more and kind == "seed":
            fn.random.coin_flip(seed=3)
        elif more and kind == "name":
            fn.cast(labels, dtype="int64", name="mine")
        elif more and kind == "reader":
            fn.readers.file(file_root=folder, files=["1"], name="more")
        elif more:
            fn.external_source(lambda i: [1, 2])
        return labels

    with some(more=there) as pipe:
        pipe.run()
        text = pipe.checkpoint()
    with some(more=not there, checkpoint=text) as pipe, pytest.raises(StateMismatch):
        pipe.run()
    with some(more=there, checkpoint=text) as pipe:
        assert pipe.run()[0].tolist() == [[2], [3]]


def test_a_call_of_another_name_is_another(folder):
    """The name is the key of its draws."""

    @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)
    def named(name):
        return labels_of(folder), fn.random.uniform(name=name)

    with named("one") as pipe:
        pipe.run()
        text = pipe.checkpoint()
    with named("other", checkpoint=text) as pipe, pytest.raises(StateMismatch, match="name='other'"):
        pipe.run()


@pytest.mark.parametrize(
    "calls", [[1], [[1]], [{}], [{"call": "x", "arguments": {"a": 1}, "plain": True, "always": True}]]
)
def test_a_record_that_is_none_is_refused(calls):
    with pytest.raises(StateError, match="'calls' is"):
        Record.of({"version": 2, "calls": calls, "varying": [], "ordered": True})


# What may differ


def _archives(root):
    with tarfile.open(root / "a.tar", "w") as archive:
        for i in range(5):
            (root / f"{i}.cls").write_bytes(bytes([i]))
            archive.add(root / f"{i}.cls", f"{i}.cls")
            (root / f"{i}.cls").unlink()


def _records(root):
    write(root / "x.tfrecord", map(labelled, range(5)))


def _annotated(root):
    for name in "abcde":
        (root / f"{name}.jpg").write_bytes(name.encode())
    images = [{"id": i, "file_name": f"{name}.jpg", "width": 6, "height": 4} for i, name in enumerate("abcde")]
    (root / "o.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))


def _listed(root):
    for i in range(5):
        (root / str(i)).write_bytes(bytes([i]))
    (root / "list.txt").write_text("".join(f"{i} {i}\n" for i in range(5)))


DATA_SETS = {
    "webdataset": (_archives, lambda root: fn.readers.webdataset(paths=str(root / "a.tar"), ext=["cls"])),
    "webdatasets": (_archives, lambda root: fn.readers.webdataset(paths=[str(root / "a.tar")], ext=["cls"])),
    "tfrecord": (_records, lambda root: fn.readers.tfrecord(path=str(root / "x.tfrecord"), features=LABEL)["label"]),
    "coco": (_annotated, lambda root: fn.readers.coco(file_root=str(root), annotations_file=str(root / "o.json"))[0]),
    "file": (_listed, lambda root: fn.readers.file(file_list=str(root / "list.txt"))[0]),
}


@pytest.mark.parametrize("kind", DATA_SETS)
def test_a_data_set_may_lie_elsewhere_after_a_resume(tmp_path, kind):
    make, read = DATA_SETS[kind]
    (tmp_path / "here").mkdir()
    make(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    made = pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)(read)
    with made(tmp_path / "here") as pipe:
        pipe.run()
        text = pipe.checkpoint()
        rest = [output.tolist() for (output,) in pipe.next_epoch()]
    shutil.rmtree(tmp_path / "here")
    with made(tmp_path / "there", checkpoint=text) as pipe:
        assert [output.tolist() for (output,) in pipe.next_epoch()] == rest


def test_what_becomes_of_bad_samples_and_how_work_is_done_may_differ(tmp_path):
    """A run that a bad file ended goes on without it."""
    for i in range(5):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    (tmp_path / "3").unlink()

    @pipeline_def(batch_size=2, seed=1, prefetch_queue_depth=0)
    def read(how=None, resize=None, **reader):
        images, labels = fn.readers.file(file_root=tmp_path, files=list("01234"), **reader)
        images = fn.resize(fn.reshape(images, shape=[1, 1, 1], layout="HWC"), size=[2, 2], **(resize or {}))
        return fn.cast(images, dtype="uint8", **(how or {})), labels

    with read() as pipe:
        pipe.run()
        with pytest.raises(DataError, match="3"):
            pipe.run()
        text = pipe.checkpoint()
    other = {"on_error": "skip", "initial_fill": 9, "read_ahead": True, "dont_use_mmap": True}
    with read({"device": "cpu"}, {"minibatch_size": 3}, checkpoint=text, **other) as pipe:
        assert [labels.tolist() for _, labels in pipe.next_epoch()] == [[[2]], [[4]]]
