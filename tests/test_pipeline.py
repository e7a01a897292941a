"""Pipelines: what a function makes ahead of its consumer, stopped anywhere and resumed anywhere."""

from __future__ import annotations

import base64
import functools
import gc
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import weakref

import cv2
import numpy as np
import pytest
from counting import by_batch, by_index, by_sample
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, StateMismatch, StateWarning
from dynamic.checkpoint._file import decoded, encoded
from dynamic.errors import DecodeError, StateError
from dynamic.pipeline import Pipeline, fn, newaxis, pipeline_def, types
from dynamic.pipeline._course import Course

COUNT = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small photos in two classes."""
    root = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(1)
    for i in range(COUNT):
        path = root / "ab"[i % 2] / f"{i:02}.jpg"
        path.parent.mkdir(exist_ok=True)
        image = generator.integers(0, 255, (6 + i % 3, 9, 3), np.uint8)
        path.write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
    return root


@pipeline_def(batch_size=4, num_threads=1, seed=12, enable_checkpointing=True)
def rotated(folder, **reader):
    jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="image_reader", **reader)
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    angle = fn.random.uniform(range=(-30.0, 30.0))
    return fn.rotate(images, angle=angle, fill_value=0), labels, angle


def plain(outputs):
    """Batches as what can be compared: bytes of every sample."""
    return [[(s.shape, s.dtype.str, s.tobytes()) for s in output.samples] for output in outputs]


def samples(batches):
    """The samples of batches, one after the other."""
    return [sample for outputs in batches for sample in zip(*plain(outputs), strict=True)]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "dynamic pipeline"]


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    gc.collect()
    for _ in range(200):
        if not threads():
            break
        time.sleep(0.01)
    assert not threads()


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_restored_pipeline_goes_on_with_the_batch_after_the_last_that_was_taken(folder, tmp_path, depth):
    pipe = rotated(folder, prefetch_queue_depth=depth)
    pipe.build()
    for _ in range(3):
        pipe.run()
    text = pipe.checkpoint(tmp_path / "pipeline.json")
    assert (tmp_path / "pipeline.json").read_bytes() == text
    expected = [plain(pipe.run()) for _ in range(8)]
    pipe.close()
    for checkpoint in (text, text.decode(), tmp_path / "pipeline.json", str(tmp_path / "pipeline.json")):
        with rotated(folder, checkpoint=checkpoint, prefetch_queue_depth=2) as restored:
            assert [plain(restored.run()) for _ in range(8)] == expected


def test_a_restored_pipeline_takes_the_newest_whole_one_of_its_numbered_checkpoints(folder, tmp_path):
    pattern = tmp_path / "step-{seq:03d}.json"
    with rotated(folder) as pipe:
        for _ in range(3):
            pipe.run()
            pipe.checkpoint(pattern)
        expected = plain(pipe.run())
    for path in (pattern, str(pattern)):
        with rotated(folder, checkpoint=path) as restored:
            assert plain(restored.run()) == expected
    (tmp_path / "step-003.json").write_bytes(b"{")
    with (
        pytest.warns(StateWarning, match="Left out: .*step-003") as told,
        rotated(folder, checkpoint=pattern) as restored,
    ):
        assert plain(restored.run()) == expected
    assert told[0].filename == __file__
    with pytest.raises(FileNotFoundError, match="none-"):
        rotated(folder, checkpoint=tmp_path / "none-{seq}.json")


@examples(5)
@given(data=st.data())
def test_random_stops_change_nothing(folder, data):
    """Samples, draws and pixels are those of a run without a stop, whatever the depth and the size of batches."""
    expected, found, text = _whole_run(folder), [], None
    for _ in range(data.draw(st.integers(1, 4))):
        size, depth = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 4))
        with rotated(folder, batch_size=size, prefetch_queue_depth=depth, checkpoint=text) as pipe:
            found += samples(pipe.run() for _ in range(data.draw(st.integers(0, 6))))
            text = pipe.checkpoint()
    assert found == expected[: len(found)]


_runs = {}


def _whole_run(folder):
    """The samples of a run without a stop, of batches of one, made once."""
    if folder not in _runs:
        with rotated(folder, batch_size=1, prefetch_queue_depth=0) as pipe:
            _runs[folder] = samples(pipe.run() for _ in range(8 * COUNT))
    return _runs[folder]


def test_shards_share_an_epoch_and_another_number_of_them_takes_the_rest(folder):
    def names(batches):
        return sorted(name for outputs in batches for name in outputs[1].origin.names)

    given_, texts = [], []
    for shard in range(3):
        with rotated(folder, shard_id=shard, num_shards=3, batch_size=2) as pipe:
            given_ += names(pipe.run() for _ in range(2))
            texts.append(pipe.checkpoint())
    for shard in range(2):
        with rotated(folder, shard_id=shard, num_shards=2, checkpoint=texts[0]) as pipe:
            given_ += names(pipe.next_epoch())
    assert sorted(given_) == names(rotated(folder).next_epoch())


@given(epochs=st.integers(0, 3), batch_size=st.integers(1, 9), rank=st.integers(0, 4), ranks=st.integers(1, 5),
       others=st.integers(1, 5), depth=st.integers(0, 2), files=st.integers(1, 9), draws=st.booleans())  # fmt: skip
def test_all_ranks_are_at_the_same_place_at_the_end_of_an_epoch(
    folder, epochs, batch_size, rank, ranks, others, depth, files, draws
):
    names = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.jpg"))[:files]

    @pipeline_def(batch_size=batch_size, seed=5, prefetch_queue_depth=depth)
    def numbers(shard_id, num_shards):
        noise = fn.random.uniform() if draws else 0  # before the reader: in the first run it is called twice
        shard = {"shard_id": shard_id, "num_shards": num_shards}
        _, labels = fn.readers.file(file_root=str(folder), files=names, random_shuffle=True, **shard)
        return labels, noise

    with numbers(rank % ranks, ranks) as pipe:
        for _ in range(epochs):
            for _ in pipe.next_epoch():
                pass
        text = pipe.checkpoint()
    shards = [numbers(i, others, checkpoint=text) for i in range(others)]
    try:
        for epoch in range(epochs, epochs + 3):
            found = [[label for labels, _ in shard.next_epoch() for label in labels.tolist()] for shard in shards]
            assert sorted(label for each in found for label in each) == [[i] for i in range(files)]
            assert {shard._course.epoch for shard in shards} == {epoch + 1}
            for shard in shards:
                states = {k: entry["state"] for k, entry in json.loads(shard.checkpoint())["states"].items()}
                assert {state["epoch"] for state in states.values() if "epoch" in state} == {epoch + 1}
                assert {state["position"] for state in states.values() if "position" in state} == {0}
    finally:
        for shard in shards:
            shard.close()


@pytest.mark.parametrize("rank", range(4))
def test_the_first_reader_tells_the_epoch(folder, rank):
    """Checkpoints of earlier versions may have the number of the epoch before, of which nothing was left."""

    @pipeline_def(batch_size=2, seed=3, prefetch_queue_depth=0)
    def numbers():
        files = ["a/00.jpg", "b/01.jpg", "a/02.jpg"]
        return fn.readers.file(file_root=str(folder), files=files, name="reader", shard_id=rank, num_shards=4)

    pipe = numbers()
    while pipe._course.epoch < 2:
        list(pipe.next_epoch())
    states = ndd.checkpoint.Checkpoint()
    states.deserialize(pipe.checkpoint().decode())
    states.set_state("pipeline", {**states.get_state("pipeline"), "epoch": 1})
    again = numbers(checkpoint=states.serialize())
    assert [*again.next_epoch()] == []
    assert again._course.epoch == 2
    assert [plain(outputs) for outputs in again.next_epoch()] == [plain(outputs) for outputs in pipe.next_epoch()]
    assert again._course.epoch == pipe._course.epoch == 3


def test_epochs_end_where_they_did(folder):
    with rotated(folder) as pipe:
        assert [len(list(pipe.next_epoch())) for _ in range(3)] == [6, 6, 6]
        for k, _ in enumerate(pipe.next_epoch()):
            if k == 5:  # the last batch
                text = pipe.checkpoint()
    with rotated(folder, checkpoint=text, batch_size=3) as pipe:
        assert [len(list(pipe.next_epoch())) for _ in range(2)] == [0, 8]
        for _ in pipe.next_epoch():
            break
        assert len(list(pipe.next_epoch())) == 7


def test_draws_before_the_reader_belong_to_its_samples_too(folder):
    calls = []

    @pipeline_def(batch_size=4, seed=3)
    def early():
        calls.append(1)
        flag = fn.random.coin_flip(probability=0.5)
        number = fn.random.normal(name="number")
        jpegs, _ = fn.readers.file(file_root=str(folder))
        return flag, number, jpegs

    with early(prefetch_queue_depth=0) as one, early(batch_size=7) as other:
        first = [one.run() for _ in range(5)]
        assert len(calls) >= 6  # once more for the first batch
        assert samples(first)[:14] == samples(other.run() for _ in range(2))
        assert len(one.checkpoint()) < 2500


def test_a_second_reader_keeps_in_step(folder):
    @pipeline_def(batch_size=4, seed=1)
    def pair():
        first, _ = fn.readers.file(file_root=str(folder), name="first")
        files = [str(path) for path in sorted(folder.glob("a/*.jpg"))]
        second, _ = fn.readers.file(files=files, name="second", random_shuffle=True)
        return first, second

    with pair() as pipe:
        assert pipe.epoch_size() == {"first": COUNT, "second": 12}
        assert pipe.reader_meta("second")["number_of_shards"] == 1
        with rotated(folder, shard_id=1, num_shards=3, pad_last_batch=True) as padded:
            assert padded.epoch_size("image_reader") == -(-COUNT // 3) * 3
        sizes, names = [], []
        for first, second in pipe.next_epoch():
            sizes.append((len(first), len(second)))
            names += [bytes(sample) for sample in second.samples]
            if len(sizes) == 3:
                text = pipe.checkpoint()
    assert sizes == [(4, 4)] * 5 + [(3, 3)]
    assert [names[k : k + 12] for k in (0, 12)] != [names[:12]] * 2
    assert sorted(names[:12]) == sorted(set(names))  # an epoch of the second is all of it
    with pair(checkpoint=text) as pipe:
        assert [bytes(s) for _, second in pipe.next_epoch() for s in second.samples] == names[12:]


# Sources


SOURCES = {"SampleInfo": (by_sample, {"batch": False}, 2), "BatchInfo": (by_batch, {"batch_info": True}, 3),
           "batch index": (by_index, {}, 4)}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_source_that_is_called_with_its_place_resumes(kind, depth):
    source, arguments, steps = SOURCES[kind]

    @pipeline_def(batch_size=4, seed=5, prefetch_queue_depth=depth)
    def pipeline():
        x = fn.external_source(source=source, name="source", **arguments)
        return x, x + fn.random.uniform(range=(0.0, 1.0))

    with pipeline() as pipe:
        epochs = [[plain(outputs) for outputs in pipe.next_epoch()] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [steps] * 3
    assert epochs[0] != epochs[1] or kind == "batch index"
    for stop in range(steps * 2):
        with pipeline() as pipe:
            for _ in range(stop):
                _next(pipe)
            text = pipe.checkpoint()
        with pipeline(checkpoint=text) as pipe:
            rest = [plain(_next(pipe)) for _ in range(2 * steps - stop)]
        assert rest == [batch for epoch in epochs for batch in epoch][stop : 2 * steps]


def _next(pipe):
    """The next batch, of the next epoch where this one has ended."""
    try:
        return pipe.run()
    except StopIteration:
        pipe.reset()
        return pipe.run()


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_of_several_outputs_resume(kind):
    source, arguments, steps = SOURCES[kind]

    @pipeline_def(batch_size=4, seed=5)
    def pipeline():
        first, second = fn.external_source(
            source=lambda place: (source(place), source(place)), num_outputs=2, **arguments
        )
        return first, second * 2

    with pipeline() as pipe:
        epochs = [[plain(outputs) for outputs in pipe.next_epoch()] for _ in range(2)]
    assert len(epochs[0]) == steps
    with pipeline() as pipe:
        pipe.run()
        text = pipe.checkpoint()
    with pipeline(checkpoint=text) as pipe:
        assert [[plain(outputs) for outputs in pipe.next_epoch()] for _ in range(2)] == [epochs[0][1:], epochs[1]]


def test_a_source_beside_a_reader_resumes(folder):
    @pipeline_def(batch_size=4, seed=5)
    def pipeline():
        _, labels = fn.readers.file(file_root=str(folder))
        return labels, fn.external_source(lambda info: np.array(info.idx_in_epoch), batch=False, name="counted")

    def batches(pipe, count):
        return [plain(pipe.run()) for _ in range(count)]

    with pipeline() as pipe:
        expected = batches(pipe, 12)
    for stop in range(8):
        with pipeline() as pipe:
            batches(pipe, stop)
            text = pipe.checkpoint()
        with pipeline(checkpoint=text) as pipe:
            assert batches(pipe, 12 - stop) == expected[stop:]


@pytest.mark.parametrize("source", [lambda: lambda: [[1], [2]], lambda: [[[1], [2]], [[3], [4]]],
                                    lambda: (x for x in [[[1], [2]], [[3], [4]]])],
                         ids=["function without arguments", "iterable", "generator"])  # fmt: skip
def test_a_source_whose_place_nobody_knows_warns_when_it_is_restored(source):
    @pipeline_def(batch_size=2, seed=5)
    def pipeline():
        return fn.external_source(source=made)

    made = source()
    with pipeline() as pipe:
        pipe.run()
        text = pipe.checkpoint()
    made = source()
    with pipeline(checkpoint=text) as pipe, pytest.warns(StateWarning, match="no telling where"):
        pipe.run()


def test_a_source_that_has_ended_says_so_each_time():
    with pipeline_def(batch_size=2)(lambda: fn.external_source(source=iter([[1, 2], [3, 4]])))() as pipe:
        assert [outputs[0].tolist() for outputs in pipe] == [[1, 2], [3, 4]]
        pipe.reset()
        with pytest.raises(StopIteration):
            pipe.run()


# Errors


def test_an_error_arrives_where_its_batch_would_have_and_nothing_is_lost(folder, tmp_path):
    files = [str(path) for path in sorted(folder.glob("*/*.jpg"))[:6]]
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")

    @pipeline_def(batch_size=2, seed=1)
    def pipeline():
        jpegs, labels = fn.readers.file(files=[*files[:4], str(bad), *files[4:]])
        return fn.decoders.image(jpegs), labels

    with pipeline(prefetch_queue_depth=3) as pipe:
        assert [pipe.run()[1].tolist() for _ in range(2)] == [[[0], [1]], [[2], [3]]]
        for _ in range(2):
            with pytest.raises(DecodeError, match=r"bad\.jpg") as caught:
                pipe.run()
            assert "def pipeline" not in str(caught.value)
            assert any("fn.decoders.image(jpegs)" in line for line in traceback.format_exception(caught.value))
        bad.write_bytes((folder / "a" / "00.jpg").read_bytes())
        assert pipe.run()[1].tolist() == [[4], [5]]


@pytest.mark.parametrize("read", [True, False])
def test_a_seed_of_a_call_makes_its_numbers_alone(folder, read):
    """Whatever the seed of the pipeline is; under states of before that one decides, too, as it did."""

    @pipeline_def(batch_size=2)
    def drawn():
        files = fn.readers.file(file_root=str(folder), name="photos")[0] if read else None
        own, of_pipeline = fn.random.uniform(seed=7), fn.random.uniform()
        return (own, of_pipeline, files) if read else (own, of_pipeline)

    runs = {}
    for seed in (None, 3, 4):
        with drawn(seed=seed) as pipe:
            runs[seed] = [pipe.run() for _ in range(2)]
            text = pipe.checkpoint()
    own, of_pipeline = ([[run[i].tolist() for run in of_seed] for of_seed in runs.values()] for i in (0, 1))
    assert own[0] == own[1] == own[2]
    assert len(set(map(str, of_pipeline))) == 3

    if not read:
        return
    entries = decoded(text, "the text")
    entries["pipeline"].state["version"] = 3
    with drawn(seed=4, checkpoint=text) as now, drawn(seed=4, checkpoint=encoded(entries)) as former:
        for pipe, rng in ((now, ndd.random.RNG(7)), (former, ndd.random.RNG(4))):
            made, _, files = pipe.run()
            assert made.tolist() == ndd.random.uniform(rng=rng.keyed(files)["seed 7"]).tolist()
        assert decoded(former.checkpoint(), "the text")["pipeline"].state["version"] == 3


def test_calls_with_one_seed_draw_the_same(folder):
    """So that an image and its mask are cropped alike; with a reader or without."""

    @pipeline_def(batch_size=4, seed=3)
    def pairs(*, read, number=7):
        image = fn.readers.file(file_root=str(folder))[0] if read else None
        image = fn.decoders.image(image) if read else np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
        crops = [fn.random_resized_crop(image, size=[9, 9], seed=s) for s in (number, number, number + 1, -1, -1)]
        return *crops, fn.random.uniform(seed=number), fn.random.uniform(seed=number)

    for read in (True, False):
        with pairs(read=read) as pipe:
            for _ in range(3):
                one, same, other, unseeded, another, drawn, again = plain(pipe.run())
                assert one == same
                assert drawn == again
                assert len({str(crops) for crops in (one, other, unseeded, another)}) == 4
            text = pipe.checkpoint()
            rest = plain(pipe.run())
        with pairs(read=read, checkpoint=text) as pipe:
            assert plain(pipe.run()) == rest
        with pytest.raises(StateMismatch, match="seed=7"):
            pairs(read=read, number=8, checkpoint=text).run()


def test_an_index_is_one_inside_each_sample():
    @pipeline_def(batch_size=3, seed=1)
    def indexed():
        shapes = fn.external_source(lambda info: np.array([info.idx_in_epoch, 10, 20]), batch=False)
        first = shapes[0]
        chosen = [len(shapes), len(list(shapes)), len(shapes.tensors), shapes.select(1).tolist()]
        seen.append(chosen)
        column = fn.reshape(shapes, layout="C")[newaxis("H"), :]
        return first, shapes[1:], shapes[-1], shapes[fn.cast(first % 2, dtype=types.INT32)], (shapes + 1)[0], column

    seen = []
    with indexed() as pipe:
        *found, column = pipe.run()
    assert [output.tolist() for output in found] == [[0, 1, 2], [[10, 20]] * 3, [20] * 3, [0, 10, 2], [1, 2, 3]]
    assert (column.layout, column.shape) == ("HC", [(1, 3)] * 3)
    assert seen[0] == [3, 3, 3, [1, 10, 20]]
    assert ndd.as_batch([[1, 2], [3, 4]])[0].tolist() == [1, 2]  # elsewhere it is one over the samples


def test_operators_with_the_names_of_builtins_and_former_arguments(folder):
    @pipeline_def(batch_size=2, seed=1)
    def made():
        jpegs, _ = fn.readers.file(file_root=str(folder))
        images = fn.decoders.image(jpegs, device="cpu", hw_decoder_load=0.5, preallocate_width_hint=500, preserve=True)
        parts = fn.slice(images, start=[1], shape=[2], axes=[0], output_dtype=types.FLOAT, bytes_per_sample_hint=9)
        return fn.copy(parts), fn.filter(images, np.ones((3, 3), np.float32), border="101")

    with made(num_threads=1) as pipe:
        parts, filtered = pipe.run()
    assert (parts.dtype, parts.shape[0][0]) == (ndd.float32, 2)
    assert len(filtered) == 2
    for name in ("numpy", "nothing", "os"):
        with pytest.raises(AttributeError, match=f"fn has no '{name}'"):
            getattr(fn, name)
    with pytest.raises(AttributeError, match=r"fn has no 'random\.numpy'"):
        _ = fn.random.numpy


def test_checkpoints_of_other_pipelines_are_refused_by_name(folder):
    with rotated(folder) as pipe:
        pipe.run()
        text = pipe.checkpoint()

    @pipeline_def(batch_size=4, seed=12)
    def other():
        jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="image_reader")
        images = fn.decoders.image(jpegs, output_type=types.RGB)
        return fn.rotate(images, angle=fn.random.uniform(range=(-20.0, 30.0)), fill_value=0), labels

    with other(checkpoint=text) as pipe, pytest.raises(StateMismatch, match="another pipeline") as caught:
        pipe.run()
    assert "- random.uniform(range=[-30.0, 30.0])" in caught.value.differences
    assert "+ random.uniform(range=[-20.0, 30.0])" in caught.value.differences
    with rotated(folder, checkpoint=text, files=["a/00.jpg"]) as pipe, pytest.raises(StateMismatch, match="removed"):
        pipe.run()
    with pytest.raises(StateMismatch, match="seed: 12 in the state, 13 here"):
        rotated(folder, checkpoint=text, seed=13)
    with pytest.raises(StateMismatch, match="not of a pipeline"):
        rotated(folder, checkpoint=_of_an_rng())
    for damaged in (text[:-9], b"\x80\x04N.", b"", text.decode()[:-9]):
        with pytest.raises(StateError):
            rotated(folder, checkpoint=damaged)
    for path in (str(folder / "nothing.json"), str(folder), "", "a\0b", text.decode()[9:]):
        with pytest.raises(StateError, match="which is the path of no file"):
            rotated(folder, checkpoint=path)


@pytest.mark.parametrize(("change", "told"), [
    ("fewer", r"- random\.uniform"),
    ("argument", r"\+ rotate\(.*fill_value=1"),
    ("reader", "'image_reader', which this pipeline does not have"), ("second", r"\+ readers\.file"),
    ("source", r"\+ external_source\(.*\n- readers\.file\("), ("data", "names: 1 removed")])  # fmt: skip
def test_what_is_other_is_told(folder, tmp_path, change, told):
    """Operators, arguments, readers and data."""
    with rotated(folder) as pipe:
        pipe.run()
        text = pipe.checkpoint()
    root = folder
    if change == "data":
        root = tmp_path / "photos"
        shutil.copytree(folder, root)
        (root / "b" / "01.jpg").unlink()

    @pipeline_def(batch_size=4, seed=12)
    def other():
        if change == "source":
            jpegs, labels = fn.external_source(lambda i: ([1], [2]), num_outputs=2)
            return jpegs, labels
        name = "other_reader" if change == "reader" else "image_reader"
        jpegs, labels = fn.readers.file(file_root=str(root), random_shuffle=True, name=name)
        if change == "second":
            fn.readers.file(file_root=str(root), name="more")
        images = fn.decoders.image(jpegs, output_type=types.RGB)
        angle = 3.0 if change == "fewer" else fn.random.uniform(range=(-30.0, 30.0))
        images = fn.rotate(images, angle=angle, fill_value=int(change == "argument"))
        return images, labels

    with other(checkpoint=text) as pipe:
        for _ in range(2):  # and again, for nothing has been taken from it
            with pytest.raises(StateMismatch) as caught:
                pipe.run()
            assert re.search(told, str(caught.value), re.S), caught.value
            assert caught.value.differences


#: Of DALI 1.53 and 2.4: `rotated` after three batches.
OF_DALI = (
    "CiIKDGltYWdlX3JlYWRlchISChAKCjE3MjM0ODkzNzAQABgMCg0KCV9fSW1hZ2VfMBIACkoKC19fVW5pZm9ybV8xEjtQaGlsb3hfMDAwMDAwMDBGNDVF"
    "QjNBNl8wMDAwMDAwMDAwMDAwMDBDOjAwMDAwMDAwMDAwMDAwMDBfMAoOCgpfX1JvdGF0ZV8yEgAKKAokX19NYWtlQ29udGlndW91c19DcHVUb0NwdV9f"
    "X1JvdGF0ZV8yEgAKLQopX19NYWtlQ29udGlndW91c19DcHVUb0NwdV9pbWFnZV9yZWFkZXJbMV0SAAopCiVfX01ha2VDb250aWd1b3VzX0NwdVRvQ3B1"
    "X19fVW5pZm9ybV8xEgAS"
)
AROUND = {
    "DALI 1, which pickled": "KwongASVHAAAAAAAAAB9lCiMBGl0ZXKUSwOMCWVwb2NoX2lkeJRLAHUuEgA=",
    "DALI 2": "HwobeyJpdGVyIjogMywgImVwb2NoX2lkeCI6IDB9EgA=",
}


@pytest.mark.parametrize("version", AROUND)
def test_checkpoints_of_dalis_pipelines_are_refused_with_their_version(folder, tmp_path, version):
    data = base64.b64decode(OF_DALI + AROUND[version])
    (tmp_path / "dali").write_bytes(data)
    for checkpoint in (data, tmp_path / "dali"):
        with pytest.raises(ValueError, match=rf"written by {version}.*, after 3 batches of epoch 0") as caught:
            rotated(folder, checkpoint=checkpoint)
        assert "('image_reader', '__Uniform_1')" in str(caught.value)
        assert "begin the next one here without checkpoint=" in str(caught.value)
    for cut in range(0, len(data), 7):
        with pytest.raises(StateError, match="not a checkpoint"):
            rotated(folder, checkpoint=data[:cut])


@given(st.binary(max_size=60), st.integers(0, 300))
def test_other_bytes_and_damaged_checkpoints_of_dalis_are_refused(noise, place):
    data = base64.b64decode(OF_DALI + AROUND["DALI 2"])
    changed = data[:place] + noise + data[place + len(noise) :]
    for checkpoint in (noise, changed):
        with pytest.raises(StateError):
            pipeline_def(lambda: 1)(batch_size=1, checkpoint=checkpoint)


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_refused_with_what_to_do(folder, protocol):
    old = pickle.dumps({"iter": 3, "epoch_idx": 0}, protocol)
    with pytest.raises(
        ValueError, match=rf"a pickle of protocol [{protocol}0], .* See dynamic\.checkpoint\.legacy\.read"
    ):
        rotated(folder, checkpoint=old)


def test_a_checkpoint_of_a_later_library_names_it(folder):
    with rotated(folder) as pipe:
        text = pipe.checkpoint().decode()
    later = json.loads(text)
    later["version"], later["library"] = 2, "dynamic 9.1"
    with pytest.raises(StateError, match=r"of version int 2, written by 'dynamic 9\.1'"):
        rotated(folder, checkpoint=json.dumps(later))
    states = ndd.checkpoint.Checkpoint()
    states.deserialize(text)
    states.set_state("pipeline", {**states.get_state("pipeline"), "version": 5})
    with pytest.raises(StateMismatch, match="version 5; this library reads 4"):
        rotated(folder, checkpoint=states.serialize())


def _of_an_rng():
    states = ndd.checkpoint.Checkpoint()
    states.register(ndd.random.RNG(3), "rng")
    states.collect()
    return states.serialize()


@pytest.mark.parametrize(("arguments", "told"), [
    ({"batch_size": 0}, "'batch_size' must be an integer of 1 or more"), ({"seed": "x"}, "'seed'"),
    ({"prefetch_queue_depth": -1}, "'prefetch_queue_depth'"), ({"checkpoint": 5}, "'checkpoint'"),
    ({"num_threads": 0}, "num_threads"), ({"batch_size": 2.5}, "'batch_size' must be an integer"),
    ({"seed": 2**64}, r"'seed' must be an integer in \[0, 18446744073709551615\]"), ({"seed": -2}, "'seed'"),
    ({"seed": True}, "'seed'"), ({"seed": np.array([1, 2])}, "'seed'")])  # fmt: skip
def test_wrong_arguments_are_named(folder, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        rotated(folder, **arguments)


def test_numbers_of_numpy_do_as_arguments():
    def numbers():
        return fn.random.uniform(range=(0.0, 1.0))

    def drawn(kind):
        with Pipeline(function=numbers, batch_size=kind(3), seed=kind(7), output_ndim=kind(0)) as pipe:
            return pipe.run()[0].tolist()

    assert drawn(np.int64) == drawn(np.uint8) == drawn(int)


@pytest.mark.parametrize("make", [pipeline_def, pipeline_def(batch_size=1), lambda given: Pipeline(1, function=given)])
def test_what_is_no_function_is_refused(make):
    with pytest.raises(ArgumentError, match=r"Pipeline\(\): argument 'function' must be a function; got int 5"):
        make(5)


@pytest.mark.parametrize("name", ["serialize", "deserialize_and_build", "save_graph_to_dot_file"])
def test_members_of_dalis_that_are_not_here_say_what_there_is(folder, name):
    for asked in (Pipeline, rotated(folder)):
        assert not hasattr(asked, name)
        with pytest.raises(
            AttributeError, match=f"Pipeline has no '{name}'. (Import its function|A pipeline is its function)"
        ):
            getattr(asked, name)


@pytest.mark.parametrize(("depth", "told"), [(3, (3, 3, False)), ({"cpu_size": 3, "gpu_size": 2}, (3, 2, True))])
def test_settings_that_dalis_pipelines_tell_back(folder, depth, told):
    pipe = rotated(folder, prefetch_queue_depth=depth)
    assert (pipe.cpu_queue_size, pipe.gpu_queue_size, pipe.exec_separated) == told
    assert pipe.prefetch_queue_depth == 3
    assert (pipe.executor_statistics(), pipe.output_stream()) == ({}, None)
    assert pipe.external_source_shm_statistics() == {"capacities": [], "per_sample_capacities": []}
    pipe.enable_api_check(False)


def test_an_unknown_argument_is_named_with_one_that_is_like_it(folder):
    with pytest.raises(ArgumentError, match="bytes_per_sampel.*bytes_per_sample'"):
        Pipeline(function=rotated, batch_size=2, bytes_per_sampel=1)


def test_a_pipeline_without_a_seed_goes_on_with_that_of_the_checkpoint():
    @pipeline_def(batch_size=3)
    def draws():
        return fn.random.uniform(range=(0.0, 1.0))

    with draws() as pipe:
        pipe.run()
        text = pipe.checkpoint()
        expected = pipe.run()[0].tolist()
    with draws(checkpoint=text) as again:
        assert (again.seed, again.run()[0].tolist()) == (pipe.seed, expected)
    with draws() as other:
        assert other.seed != pipe.seed


def test_outputs_have_the_methods_of_dalis(folder):
    with rotated(folder) as pipe:
        images, labels, angles = pipe.run()
    assert images.as_cpu() is images
    assert all(np.array_equal(images.at(i), images[i].array) for i in range(4))
    assert np.array_equal(images.at(-1), images.at(3))
    for asked in (images.at, images.data_at, images.__getitem__):
        with pytest.raises(IndexError, match="sample 4 of a Batch of 4. The last batch of an epoch may be smaller"):
            asked(4)
    assert (labels.as_array().shape, labels.as_array().dtype) == ((4, 1), np.int32)
    assert angles.as_array().tolist() == angles.as_tensor().tolist() == angles.tolist()
    assert images.shape == images.shape() == [sample.shape for sample in images.samples]
    assert (angles.is_dense_tensor(), images.is_dense_tensor()) == (True, False)
    for call in (images.as_array, images.as_tensor):
        with pytest.raises(ValueError, match="different shapes"):
            call()
    again = pickle.loads(pickle.dumps(images))
    assert plain([again, images[:]]) == plain([images] * 2)
    assert images.origin is not None
    with pipeline_def(lambda: images)(batch_size=4) as pipe:
        assert pipe.run()[0].layout == "HWC"
    with pipeline_def(lambda: np.zeros((2, 3)))(batch_size=4) as pipe:
        assert pipe.run()[0].as_tensor().shape == (4, 2, 3)


@given(ndim=st.integers(0, 4), layout=st.booleans())
def test_the_layout_of_a_tensor_of_all_samples_is_dalis(ndim, layout):
    named = "FHWC"[4 - ndim :] if layout else ""
    with pipeline_def(lambda: fn.external_source([np.zeros((2,) * (ndim + 1))], layout=named))(batch_size=2) as pipe:
        output = pipe.run()[0]
    assert output.layout() == named
    assert output.as_tensor().layout() == ("N" + named if named or not ndim else "")


def test_names_are_looked_up_and_belong_to_pipelines():
    with pytest.raises(RuntimeError, match=r"fn\.rotate\(\) is for functions under pipeline_def"):
        fn.rotate(np.zeros((2, 2, 3), np.uint8), angle=1.0)

    def misspelt():
        return fn.random.unifrom(range=(0.0, 1.0))

    with (
        pipeline_def(misspelt)(batch_size=1) as pipe,
        pytest.raises(AttributeError, match="did you mean 'random.uniform'"),
    ):
        pipe.run()


def test_values_that_are_no_batch_become_one():
    @pipeline_def(batch_size=3, seed=1)
    def pipeline():
        return 5, np.arange(2), fn.random.coin_flip()

    with pipeline() as pipe:
        five, pair, flips = pipe.run()
    assert all(isinstance(output, Batch) for output in (five, pair, flips))
    assert (five.tolist(), pair.tolist(), len(flips)) == ([5, 5, 5], [[0, 1]] * 3, 3)


# The thread


def test_no_more_is_made_ahead_than_asked_for():
    made = []

    @pipeline_def(batch_size=1)
    def pipeline():
        made.append(1)
        return fn.random.uniform(range=(0.0, 1.0))

    with pipeline(prefetch_queue_depth=3) as pipe:
        pipe.run()
        for _ in range(100):
            time.sleep(0.002)
        assert 4 <= len(made) <= 5
    with pytest.raises(RuntimeError, match="closed"):
        pipe.run()


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("take", ["run", "next_epoch"])
def test_threads_share_a_pipeline(folder, monkeypatch, depth, take):
    """Each batch goes to one of them, though none has built it, and then it stands where it would alone."""

    together = threading.Barrier(3)

    def epoch_of(pipe):
        if take == "next_epoch":
            epoch = pipe.next_epoch()
            first = next(epoch)
            together.wait()  # else who comes late begins the next one
            return [first, *epoch]
        return [pipe.run() for _ in range(2)]

    graph_at = Course.graph_at
    monkeypatch.setattr(Course, "graph_at", lambda *given, **named: (time.sleep(0.01), graph_at(*given, **named))[1])
    with rotated(folder, prefetch_queue_depth=depth) as alone, rotated(folder, prefetch_queue_depth=depth) as shared:
        taken = []

        def work():
            together.wait()
            taken.extend(epoch_of(shared))

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        expected = list(alone.next_epoch()) if take == "next_epoch" else [alone.run() for _ in range(6)]
        assert sorted(samples(taken)) == sorted(samples(expected))
        assert shared.checkpoint() == alone.checkpoint()
        assert samples(list(shared.next_epoch())) == samples(list(alone.next_epoch()))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_where_the_function_runs(depth):
    """In the caller, when it is asked for; or in one thread, from `build` on or when the first is asked for."""
    ran = []

    @pipeline_def(batch_size=1, prefetch_queue_depth=depth)
    def pipeline():
        ran.append(threading.current_thread())
        return len(ran)

    with pipeline() as pipe:
        pipe.build()
        if not depth:
            assert not ran
        for k in range(1, 4):
            assert pipe.run()[0].tolist() == [k]
            assert depth or ran == [threading.main_thread()] * k
        assert depth or not threads()
        assert not depth or (threading.main_thread() not in ran and len(set(ran)) == 1)


@pytest.mark.parametrize("depth", [0, 2])
def test_a_batch_that_was_taken_is_let_go(depth):
    made = []

    @pipeline_def(batch_size=1, prefetch_queue_depth=depth)
    def pipeline():
        array = np.zeros((1, 1000))
        made.append(weakref.ref(array))
        return ndd.as_batch(array)

    with pipeline() as pipe:
        for number in range(3):
            (output,) = pipe.run()
            assert made[number]() is not None
        del output
        gc.collect()
        for _ in range(200):
            if len(made) == 3 + depth:
                break
            time.sleep(0.01)
        assert [reference() is not None for reference in made] == [False] * 3 + [True] * depth


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_is_raised_arrives_and_nothing_is_lost(folder, depth, kind):
    waiting = [kind()]

    @pipeline_def(batch_size=4, seed=1, prefetch_queue_depth=depth)
    def pipeline():
        jpegs, labels = fn.readers.file(file_root=str(folder))
        if labels.tolist()[-1] == [1] and waiting and jpegs.origin.ids[0] > 3:
            raise waiting.pop()
        return labels, fn.random.uniform(range=(0.0, 1.0))

    with pipeline() as pipe, pipeline() as other:
        found = []
        while len(found) < 5:
            try:
                found.append(plain(pipe.run()))
            except kind:
                assert not waiting
        assert not waiting
        assert found == [plain(other.run()) for _ in range(5)]


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("where", ["function", "operator"])
def test_a_stop_iteration_that_no_source_raised_ends_no_epoch(folder, depth, where):
    waiting = [1]

    def fails(x):
        if waiting:
            waiting.pop()
            next(iter([]))
        return x

    @pipeline_def(batch_size=4, seed=1, prefetch_queue_depth=depth)
    def pipeline():
        _, labels = fn.readers.file(file_root=str(folder))
        return fails(labels) if where == "function" else fn.python_function(labels, function=fails)

    with pipeline() as pipe:
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(pipe.next_epoch())
        assert pipe._course.epoch == 0
        assert sum(len(outputs[0]) for outputs in pipe.next_epoch()) == COUNT
        assert pipe._course.epoch == 1


INTERRUPTED = """
import os, signal, sys, threading, time
from dynamic.pipeline import fn, pipeline_def

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored

@pipeline_def(batch_size=1, prefetch_queue_depth=int(sys.argv[1]))
def slow():
    number = fn.external_source(lambda info: info.idx_in_epoch, batch=False)
    if number.tolist() == [1] and not interrupted:
        print("waits", flush=True)
        time.sleep(0.5)
    return number

interrupted = False
pipe = slow()
found = pipe.run()[0].tolist()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    pipe.run()
except KeyboardInterrupt:
    interrupted = True
print(found, interrupted, pipe.run()[0].tolist(), pipe.run()[0].tolist())
if sys.argv[2] == "close":
    pipe.close()
    print([thread.name for thread in threading.enumerate() if "pipeline" in thread.name])
"""


@pytest.mark.parametrize("depth", ["0", "2"])
@pytest.mark.parametrize("end", ["close", "leave it to Python"])
@pytest.mark.slow
def test_an_interrupt_loses_nothing_and_leaves_nothing(depth, end):
    command = [sys.executable, "-c", INTERRUPTED, depth, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == ["[0] True [1] [2]"] + ["[]"] * (end == "close")


def test_closing_waits_for_the_batch_that_is_being_made():
    begun, ended = threading.Event(), []

    def slow():
        begun.set()
        time.sleep(0.05)
        ended.append(1)
        return 1

    pipe = pipeline_def(slow)(batch_size=1)
    pipe.run()
    begun.clear()
    begun.wait()
    pipe.close()
    pipe.close()
    assert not threads()
    count = len(ended)
    time.sleep(0.1)
    assert len(ended) == count >= 2


def test_a_pipeline_that_is_forgotten_ends_its_thread(folder):
    pipe = rotated(folder)
    pipe.run()
    assert threads()
    del pipe
    gc.collect()
    for _ in range(200):
        if not threads():
            return
        time.sleep(0.01)
    raise AssertionError(threads())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_child_goes_on_from_what_was_taken(folder):
    with rotated(folder) as pipe:
        for _ in range(2):
            pipe.run()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.write(writing, repr(pipe.run()[2].tolist()).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as answers:
            text = answers.read()
        assert os.waitpid(child, 0)[1] == 0
        assert text == repr(pipe.run()[2].tolist())


class Nameless:
    """What is called like a function, and has no name."""

    def __call__(self):
        return [1]


def test_a_pipeline_names_its_function():
    def numbers():
        return [1]

    made = pipeline_def(batch_size=1, seed=5)(numbers)()
    for pipe in (made, Pipeline(function=numbers, batch_size=1, seed=5)):
        assert repr(pipe) == "<Pipeline numbers: batch size 1, seed 5, epoch 0>"
    assert repr(Pipeline(function=Nameless(), batch_size=1, seed=5)).startswith("<Pipeline function:")


@pytest.mark.parametrize("name", ["pipeline", "iterator", "stream x"])
def test_names_that_a_checkpoint_has_for_other_things_are_refused(name):
    @pipeline_def(batch_size=2)
    def numbers():
        return fn.external_source(lambda i: [i], name=name)

    with numbers() as pipe, pytest.raises(ArgumentError, match=f"'name' must be another than .*; got str '{name}'"):
        pipe.run()


@pytest.mark.parametrize("call", [fn.random.coin_flip, functools.partial(fn.cast, 1, dtype="u8")])
@pytest.mark.parametrize("name", [5, ["x"], b"x"])
def test_names_are_strings(call, name):
    pipe = Pipeline(function=functools.partial(call, name=name), batch_size=1, prefetch_queue_depth=0)
    with pytest.raises(ArgumentError, match="'name' must be a string; got"):
        pipe.run()


def test_a_former_name_stays_where_an_operator_has_no_such_argument():
    @pipeline_def(batch_size=2)
    def numbers():
        return fn.flip(fn.external_source(lambda i: [[[i]]]), output_dtype=types.FLOAT)

    with numbers() as pipe, pytest.raises(ArgumentError, match="output_dtype"):
        pipe.run()


@given(batch_size=st.integers(1, 9), shards=st.integers(1, 4), stop=st.integers(0, 9), shard=st.integers(0, 3),
       last_batch=st.sampled_from(["partial", "drop", "pad"]))  # fmt: skip
@examples(3 / 8)
def test_an_epoch_of_a_pipeline_tells_how_many_batches_are_left(folder, batch_size, shards, stop, shard, last_batch):
    @pipeline_def(batch_size=batch_size, num_threads=1)
    def labels():
        return fn.readers.file(file_root=str(folder), random_shuffle=True, num_shards=shards, shard_id=shard % shards,
                               last_batch=last_batch)[1]  # fmt: skip

    with labels() as pipe:
        for number in range(3):
            epoch = pipe.next_epoch()
            assert pipe.epoch == number
            left, least = len(epoch), 1 if last_batch == "pad" else 0
            assert left >= least
            assert f"the rest of epoch {number} of" in repr(epoch)
            for k, _ in enumerate(epoch, 1):
                assert len(epoch) == left - k
                if k == stop and number == 0:
                    with labels(checkpoint=pipe.checkpoint()) as again:
                        assert (len(again.next_epoch()), again.epoch) == (left - k, 0)
            assert len(epoch) == 0
            assert epoch
        assert pipe.epoch == 3


def test_an_epoch_without_a_reader_has_no_length():
    with pipeline_def(batch_size=2)(
        lambda: fn.external_source(lambda info: [info.idx_in_epoch], batch=False)
    )() as pipe:
        epoch = pipe.next_epoch()
        with pytest.raises(TypeError, match="where its first source is a reader"):
            len(epoch)
        assert len(next(epoch)[0]) == 2
