"""Batches through `tf.data`, and their place in `tf.train.Checkpoint`."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import re
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from counting import COUNT, FILES, NAMES, laid_out, numbers, reader_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from dynamic import ArgumentError, StateMismatch
from dynamic.errors import StateError
from dynamic.pipeline import fn, pipeline_def

tensorflow = pytest.importorskip("tensorflow", reason="tensorflow is not installed")

from dynamic.tensorflow import Dataset  # noqa: E402

SHAPES = [(3, 4), (2, 5), (1, 1), (4, 2), (3, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


@pipeline_def(batch_size=2, num_threads=1, seed=12)
def images(channels=(3,), **source):
    def image(info):
        if info.idx_in_epoch == len(SHAPES):
            raise StopIteration
        extents = (*SHAPES[info.idx_in_epoch], *channels)
        return np.arange(np.prod(extents), dtype=np.uint8).reshape(extents), np.int32(info.idx_in_epoch)

    return fn.external_source(image, batch=False, num_outputs=2, **source)


KINDS = {"pipeline": (lambda folder: functools.partial(numbers, folder), NAMES),
         "reader": (lambda folder: functools.partial(reader_of, folder), NAMES[:2])}  # fmt: skip


def listed(batches):
    return [{name: value.numpy().tolist() for name, value in batch.items()} for batch in batches]


def test_batches_are_dicts_of_tensors(folder):
    data = Dataset(functools.partial(numbers, folder), NAMES)
    assert isinstance(data.dataset, tensorflow.data.Dataset)
    batch = next(iter(data))
    assert {name: (value.dtype, tuple(value.shape)) for name, value in batch.items()} == {
        "data": (tensorflow.uint8, (4, 1)), "label": (tensorflow.int32, (4, 1)), "draw": (tensorflow.float32, (4,)),
    }  # fmt: skip
    with numbers(folder) as pipe:
        assert listed([batch]) == [{name: value.tolist() for name, value in zip(NAMES, pipe.run(), strict=True)}]


@examples(0.5)
@given(values=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_tensorflow_goes_on_where_it_was_taken(folder, tmp_path_factory, kind, values):
    """At any place, with any number of batches made ahead by `tf.data` and by the pipeline."""
    make, output_map = KINDS[kind]

    def made():
        ahead = values.draw(st.integers(0, 3))
        return Dataset(
            make(folder), output_map, transform=lambda dataset: dataset.prefetch(ahead) if ahead else dataset
        )

    if kind not in _whole:
        whole = Dataset(make(folder), output_map)
        _whole[kind] = [batch for _ in range(7) for batch in listed(whole)]
    found, place = [], str(tmp_path_factory.mktemp("tf"))
    for _ in range(3):
        data, count = made(), tensorflow.Variable(0)
        manager = tensorflow.train.CheckpointManager(tensorflow.train.Checkpoint(data=data, count=count), place, 2)
        if manager.latest_checkpoint:
            manager.checkpoint.restore(manager.latest_checkpoint).assert_consumed()
            assert count.numpy() == len(found)
        for _ in range(values.draw(st.integers(0, 1))):
            found += listed(data)
        found += listed(itertools.islice(data, values.draw(st.integers(0, 5))))
        manager.save(count.assign(len(found)))
    assert found == _whole[kind][: len(found)]


_whole = {}


def test_every_place_can_be_gone_on_from(folder):
    data = Dataset(functools.partial(numbers, folder), NAMES)
    states, batches = [], []
    for _ in range(2):
        for batch in data:
            batches += listed([batch])
            states.append(json.loads(json.dumps(data.state_dict())))
        assert data.state_dict()["states"]["pipeline"]["epoch"] == len(batches) // 6
    for k, state in enumerate(states, 1):
        data.load_state_dict(state)
        epoch = k // 6
        assert data.epoch == epoch
        if k < 12:
            assert listed(data) == batches[k : 6 * epoch + 6]
            assert data.epoch == epoch + 1


def test_a_chain_of_ones_own(folder):
    data = Dataset(functools.partial(numbers, folder), NAMES)
    whole = listed(data)
    data = Dataset(functools.partial(numbers, folder), NAMES)

    def half(batch):
        return {**batch, "draw": batch["draw"] / 2}

    found = []
    for batch in data.dataset.map(half, num_parallel_calls=2).prefetch(3):
        found.append(data.taken(batch))
        if len(found) == 2:
            break
    assert found[1]["draw"].numpy().tolist() == [x / 2 for x in whole[1]["draw"]]
    assert listed(data) == whole[2:]
    ended = data.dataset  # the epoch has just ended: this is the next
    assert sorted(x for batch in ended for (x,) in batch["data"].numpy().tolist()) == list(range(COUNT))
    with pytest.raises(tensorflow.errors.UnknownError, match="for one iteration"):
        list(ended)


def test_where_an_epoch_has_nothing_left_the_data_set_is_the_next(folder):
    data = Dataset(functools.partial(numbers, folder), NAMES)
    whole = Dataset(functools.partial(numbers, folder), NAMES)
    for epoch in range(3):  # whoever takes as many as there are asks for no more
        assert data.epoch == epoch
        batches = iter(data)
        assert listed(next(batches) for _ in range(6)) == listed(whole)
    assert len(list(data.dataset)) == 6


def test_samples_that_differ_are_ragged_padded_or_an_error():
    with images() as pipe:
        expected = [[sample.tolist() for sample in pipe.run()[0].samples] for _ in range(3)]
    for layout, rank in (("HWC", 2), (None, 3)):
        data = Dataset(lambda layout=layout: images(layout=[layout, None]), ragged=["data"])
        batches = list(data)
        assert [type(batch["data"]).__name__ for batch in batches] == ["RaggedTensor"] * 3
        assert [batch["data"].ragged_rank for batch in batches] == [rank] * 3
        assert [batch["data"].to_list() for batch in batches] == expected
        assert batches[0]["data"].shape[-1] == (3 if layout else None)
        assert batches[0]["label"].numpy().tolist() == [0, 1]
    padded = list(Dataset(images, dynamic_shape=True))
    assert padded[0]["data"].shape == (2, 3, 5, 3)
    assert padded[0]["data"][0, :3, :4].numpy().tolist() == expected[0][0]
    assert not padded[0]["data"][1, 2:].numpy().any()
    with pytest.raises(ArgumentError, match=r"'dynamic_shape' must be True for output 'data', .* \(\(2, 5, 3\)"):
        list(Dataset(images))


@given(shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
@examples(0.6)
def test_ragged_tensors_of_any_shapes(shapes):
    from dynamic import as_batch
    from dynamic.tensorflow import ragged_tensor

    arrays = [np.random.default_rng(1).random(shape).astype(np.float32) for shape in shapes]
    found = ragged_tensor(as_batch(arrays), 2)
    assert found.to_list() == [array.tolist() for array in arrays]
    tensorflow.RaggedTensor.from_nested_row_splits(found.flat_values, found.nested_row_splits, validate=True)


@pytest.mark.parametrize("ragged", [(), ("data",), ("label",)])
@pytest.mark.parametrize("bad", [{0, 1}, {2, 3}, {4, 5}, {1, 2}, {*range(6)}])
def test_batches_of_which_all_is_skipped_are_empty(tmp_path, bad, ragged):
    for i in {*range(6)} - bad:
        (tmp_path / f"{i}.ppm").write_bytes(b"P6 3 2 255 " + bytes(18))

    @pipeline_def(batch_size=2, num_threads=1)
    def photos():
        names = [f"{i}.ppm" for i in range(6)]
        files, labels = fn.readers.file(file_root=tmp_path, files=names, labels=[*range(6)], on_error="skip")
        return fn.decoders.image(files), labels

    data = Dataset(photos, ragged=ragged)
    for _ in range(2):
        batches = list(data)
        labels = [np.ravel(b["label"].to_list() if "label" in ragged else b["label"].numpy()).tolist() for b in batches]
        assert labels == [[i for i in pair if i not in bad] for pair in ((0, 1), (2, 3), (4, 5))]
        assert [len(b["data"].to_list() if "data" in ragged else b["data"]) for b in batches] == [*map(len, labels)]
        channels = {b["data"].shape[-1] for b in batches[1:] if not {0, 1} <= bad}
        assert channels <= {3}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                                   "float16", "float32", "float64"])  # fmt: skip
def test_values_and_dtypes_stay(dtype):
    values = (np.arange(6).reshape(2, 3) % 2).astype(dtype)

    def source(i):
        if i:
            raise StopIteration
        return values

    data = Dataset(lambda: pipeline_def(lambda: fn.external_source(source))(batch_size=2), ["x"])
    (batch,) = data
    assert batch["x"].dtype.as_numpy_dtype == values.dtype
    assert np.array_equal(batch["x"].numpy(), values)


def test_an_error_of_the_pipeline_arrives_with_its_words(tmp_path):
    (tmp_path / "a").write_bytes(b"a")

    def files():
        return pipeline_def(lambda: fn.readers.file(file_root=tmp_path, files=["a", "gone"]))(batch_size=1)

    data = Dataset(files)
    batches = iter(data)
    next(batches)
    with pytest.raises(tensorflow.errors.OpError, match="gone"):
        next(batches)
    assert data.state_dict()["states"]["pipeline"]["runs"] == 1


@pytest.mark.parametrize("how", ["left", "ended", "of its own", "of its own, left"])
def test_a_run_leaves_no_thread(folder, how):
    data = Dataset(functools.partial(numbers, folder), NAMES, transform=lambda dataset: dataset.prefetch(2))
    batches = iter(data.dataset.prefetch(2) if how.startswith("of") else data)
    next(batches)
    assert running()
    if not how.endswith("left"):
        assert len(list(batches)) == 5
    weak = weakref.ref(data)
    del data, batches
    for _ in range(500):
        gc.collect()
        if not running() and weak() is None:
            return
        time.sleep(0.01)
    raise AssertionError((weak(), running()))


def running():
    return [thread for thread in threading.enumerate() if thread.name == "dynamic pipeline"]


def test_what_is_refused(folder):
    make = functools.partial(numbers, folder)
    for arguments, told in [
        ({"source": 5}, "'source' must be a function"), ({"output_map": "data"}, "'output_map'"),
        ({"output_map": ["state", "x", "y"]}, "'output_map' must be names other than 'state'"),
        ({"ragged": ["other"]}, "'ragged' must be some of the names data, label, draw"),
        ({"ragged": "data"}, "'ragged'"), ({"ragged": 5}, "'ragged'"), ({"ragged": [["data"]]}, "'ragged'"),
        ({"transform": 5}, "'transform' must be a function of data sets; got int 5"),
        ({"batch_size": 3}, "'batch_size' must be left out"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            Dataset(**{"source": make, "output_map": NAMES, **arguments})
    lost = Dataset(make, NAMES, transform=lambda dataset: dataset.map(lambda batch: batch["data"]))
    with pytest.raises(ArgumentError, match="keep their entry 'state'"):
        next(iter(lost))
    with pytest.raises(ArgumentError, match="a list of 3 names"):
        next(iter(Dataset(make)))
    data = Dataset(make, NAMES)
    before = data.state_dict()
    of_reader = Dataset(functools.partial(reader_of, folder)).state_dict()
    other_seed = Dataset(functools.partial(numbers, folder, seed=13), NAMES).serialize()
    for text in ("", "5", "{}", json.dumps({**before, "version": 2}), '{"version": 1, "states": 5}', "\x80"):
        with pytest.raises(StateError, match="not a state of a data set"):
            data.deserialize(text)
    with pytest.raises(StateMismatch, match="not of a pipeline"):
        data.load_state_dict(of_reader)
    with pytest.raises(StateMismatch, match="seed: 13 in the state, 12 here"):
        data.deserialize(other_seed)
    assert data.state_dict() == before


def test_the_example_of_the_page(folder, tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "trainers.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "dynamic.tensorflow" in block]

    def augmented(_):
        return pipeline_def(batch_size=4, seed=12)(lambda: fn.readers.file(
            file_root=folder, files=FILES, random_shuffle=True))()  # fmt: skip

    class Stop(Exception):
        pass

    def run(place, stop):
        seen = []

        def train(data, labels):
            if len(seen) == stop:
                raise Stop
            seen.append(data.numpy().tolist())

        with contextlib.suppress(Stop):
            exec(code, known := {"augmented": augmented, "root": tmp_path / place, "train": train})
        return seen, int(known["step"])

    whole, _ = run("whole", 99)
    first, _ = run("stopped", 2)
    rest, step = run("stopped", 99)
    assert first + rest == whole
    assert (len(first), len(whole), step) == (2, 18, 18)
    assert run("stopped", 99) == ([], 18)


def test_importing_it_takes_no_tensorflow():
    code = "import sys, dynamic.tensorflow; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no 'Datset'"):
        from dynamic import tensorflow as module

        module.Datset
