"""`fn.experimental.inputs.video`: videos that are fed, in sequences, batch after batch."""

from __future__ import annotations

import json

import numpy as np
import pytest
import videos
from dali_oracle import Oracle, dali_fixture  # noqa: F401 - the fixture
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, DecodeError
from dynamic.pipeline import Pipeline, fn, pipeline_def

SMALL = ("VP9", "MJPEG, odd sizes", "H.264, turned by 90", "H.264, one frame", "H.264, open groups")
names = st.lists(st.sampled_from(SMALL), min_size=1, max_size=3)
policies = st.sampled_from(["partial", "pad"])


def data(name: str) -> np.ndarray:
    return np.frombuffer(videos.video(name).data, np.uint8)


def pipeline(batch_size: int, checkpoint: object = None, **arguments: object) -> Pipeline:
    @pipeline_def(batch_size=batch_size, num_threads=1, device_id=None, enable_checkpointing=True)
    def films():
        return fn.experimental.inputs.video(name="films", **arguments)

    return films(checkpoint=checkpoint)


def expected(name: str, length: int, policy: str) -> list[np.ndarray]:
    """The sequences of a video."""
    frames = ndd.decoders.video(data(name)).array
    found = [frames[at : at + length] for at in range(0, len(frames), length)]
    if policy == "pad":
        found = [np.concatenate([part, np.zeros((length - len(part), *part.shape[1:]), np.uint8)]) for part in found]
    return found


def batches(pipe: Pipeline, count: int) -> list[list[np.ndarray]]:
    return [[sample.copy() for sample in pipe.run()[0].samples] for _ in range(count)]


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return len(found) == len(wanted) and all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@examples(0.5)
@given(names, st.integers(1, 13), st.integers(1, 5), policies)
def test_files_come_one_after_the_other_in_sequences(files, length, size, policy):
    pipe = pipeline(size, sequence_length=length, last_sequence_policy=policy)
    for name in files:
        pipe.feed_input("films", [data(name)])
    for number, name in enumerate(files):
        wanted = expected(name, length, policy)
        for at in range(0, len(wanted), size):
            (found,) = pipe.run()
            assert found.layout == "FHWC"
            assert same(found.samples, wanted[at : at + size])
            assert found.origin.ids.tolist() == [(number << 32) + at + k for k in range(len(found))]
    with pytest.raises(RuntimeError, match="'films' has no data"):
        pipe.run()


@examples(0.5)
@given(names, st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), policies, st.data())
def test_a_restart_goes_on_at_the_next_sequence_with_any_batch_size(files, length, size, other, policy, draw):
    arguments = {"sequence_length": length, "last_sequence_policy": policy}
    whole = [part for name in files for part in expected(name, length, policy)]
    pipe = pipeline(size, **arguments)
    for name in files:
        pipe.feed_input("films", [data(name)])
    runs = draw.draw(st.integers(1, sum(-(-len(expected(n, length, policy)) // size) for n in files)))
    taken = sum(map(len, batches(pipe, runs)))
    checkpoint = pipe.checkpoint()
    place = json.loads(checkpoint)["states"]["films"]["state"]
    again = pipeline(other, checkpoint, **arguments)
    for name in files[place["iteration"] :]:
        again.feed_input("films", [data(name)])
    found = []
    while taken + len(found) < len(whole):
        found += batches(again, 1)[0]
    assert same(found, whole[taken:])


def test_a_run_that_fails_uses_nothing():
    fail = [False, True, False]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def films():
        frames = fn.experimental.inputs.video(name="films", sequence_length=8)
        if fail.pop(0):
            raise KeyError("a fault")
        return frames

    pipe = films()
    pipe.feed_input("films", [data("VP9")])
    wanted = expected("VP9", 8, "partial")
    assert same(pipe.run()[0].samples, wanted[:2])
    with pytest.raises(KeyError, match="a fault"):
        pipe.run()
    assert same(pipe.run()[0].samples, wanted[2:])


def test_a_file_that_is_none_is_taken_back():
    pipe = pipeline(2, sequence_length=15)
    for wrong, error, message in (
        ([np.zeros(50, np.uint8)], DecodeError, "cannot be opened"),
        ([data("VP9"), data("VP8")], ArgumentError, "one file as its bytes .for 'films'.; got 2 samples"),
        ([data("VP9").astype(float)], ArgumentError, "one file as its bytes"),
        ([data("VP9")[None]], ArgumentError, "one file as its bytes .for 'films'.; got 1 samples of 2 dimensions"),
    ):
        pipe.feed_input("films", wrong)
        with pytest.raises(error, match=message):
            pipe.run()
    assert same(pipe.run(films=[data("VP9")])[0].samples, expected("VP9", 15, "partial"))


def test_another_file_after_a_restart_is_told():
    pipe = pipeline(2, sequence_length=4)
    pipe.feed_input("films", [data("VP9")])
    batches(pipe, 2)
    again = pipeline(2, pipe.checkpoint(), sequence_length=4)
    again.feed_input("films", [data("H.264, one frame")])
    with pytest.raises(ArgumentError, match="the file whose sequence 4 comes next .*; got one of 1 frames"):
        again.run()
    again.feed_input("films", [data("VP9")])
    assert same(again.run()[0].samples, expected("VP9", 4, "partial")[4:6])


def test_keyed_draws_belong_to_sequences():
    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=5)
    def films():
        frames = fn.experimental.inputs.video(name="films", sequence_length=5)
        return fn.random.uniform(range=(0.0, 1.0)), frames

    def drawn(size: int) -> list[float]:
        pipe = films(batch_size=size)
        pipe.feed_input("films", [data("VP9")])
        return [float(x) for _ in range(6 // size) for x in pipe.run()[0].samples]

    assert drawn(1) == drawn(2) == drawn(3)


def test_graphs_have_it_too():
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=None)
    with pipe:
        node = fn.experimental.inputs.video(name="films", sequence_length=10)
        pipe.set_outputs(fn.resize(node, size=(6, 8)))
    pipe.feed_input(node, [data("VP9")])
    (found,) = pipe.run()
    assert [sample.shape for sample in found.samples] == [(10, 6, 8, 3)] * 3


@pytest.mark.parametrize(("arguments", "message"), [
    ({}, "'sequence_length'"), ({"sequence_length": 0}, "'sequence_length' must be an integer of 1 or more"),
    ({"sequence_length": 1, "last_sequence_policy": "x"}, "'last_sequence_policy' must be 'partial' or 'pad'"),
    ({"sequence_length": 1, "last_policy": "x"}, "has no argument 'last_policy'. Did you mean"),
])  # fmt: skip
def test_arguments_that_cannot_be_are_refused(arguments, message):
    pipe = pipeline(1, **arguments)
    pipe.feed_input("films", [data("VP9")])
    with pytest.raises(ArgumentError, match=message):
        pipe.run()


def test_what_is_of_dalis_inside_is_taken():
    pipe = pipeline(2, sequence_length=15, affine=False, blocking=True, no_copy=True)
    pipe.feed_input("films", [data("VP9")])
    assert same(pipe.run()[0].samples, expected("VP9", 15, "partial"))


_SCRIPT = """
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def

@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def films():
    return fn.experimental.inputs.video(name="films", sequence_length=7, last_sequence_policy=policy)

pipe = films()
pipe.build()
pipe.feed_input("films", [np.asarray(first)])
pipe.feed_input("films", [np.asarray(second)])
result = []
for _ in range(4):
    (output,) = pipe.run()
    result.append(tuple(ndd.as_tensor(np.array(output[i])) for i in range(len(output))))
result = tuple(sample for batch in result for sample in batch)
"""


@pytest.mark.parametrize("policy", ["partial", "pad"])
def test_sequences_are_those_of_dali(policy, dali: Oracle):
    files = ("VP9", "MJPEG, odd sizes")
    text = f"policy = {policy!r}\n{_SCRIPT}"
    theirs = dali.script(text, first=data(files[0]), second=data(files[1]))
    pipe = pipeline(3, sequence_length=7, last_sequence_policy=policy)
    for name in files:
        pipe.feed_input("films", [data(name)])
    ours = [sample for batch in batches(pipe, 4) for sample in batch]
    assert same(ours, [each.array for each in theirs])
