"""`measure`: sums of a clock that the tests move, the names of all that takes time, and no cost where it is off."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, _measure, measure, prefetch
from dynamic._base import clock
from dynamic.custom import operator
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG
from dynamic.readers import Map


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time(monkeypatch):
    moved = Clock()
    monkeypatch.setattr(clock, "perf_counter", moved)
    monkeypatch.setattr(_measure, "perf_counter", moved)
    return moved


@pytest.fixture(autouse=True)
def _nothing_is_measured_afterwards():
    yield
    assert clock.watching == 0
    assert clock.current.get() is None


TICKS = st.integers(0, 50)


@given(data=st.data(), ticks=st.lists(st.tuples(TICKS, TICKS), max_size=8))
def test_waits_and_steps_add_up(data, ticks):
    moved = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "perf_counter", moved)
        patch.setattr(_measure, "perf_counter", moved)

        def batches():
            for load, _ in ticks:
                moved.now += load
                yield ndd.as_tensor(1)

        stop = data.draw(st.integers(0, len(ticks)), "stop")
        report = measure(batches())
        for number, _ in enumerate(report):
            moved.now += ticks[number][1]
            if number + 1 == stop:
                break
    taken = ticks[:stop] if stop > 0 else ticks
    assert report.batches == len(taken)
    assert report.seconds == sum(map(sum, taken))
    assert report.first == (taken[0][0] if taken else 0)
    waited, stepped = (sum(column) for column in zip((0, 0), *taken[1:], strict=True))
    assert (report.waited, report.stepped) == (waited, stepped)
    assert report.waiting == (waited / (waited + stepped) if waited + stepped else 0)
    assert report.steps_per_second == ((len(taken) - 1) / stepped if stepped else None)
    told = report.as_dict()
    assert json.loads(json.dumps(told)) == told
    assert str(report).endswith(report.verdict)
    if waited + stepped and stepped:
        assert ("The step sets the pace" in report.verdict) == (report.waiting < 0.05)


def test_time_is_that_of_the_operator_which_is_under_way(time):
    class Rows:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            time.now += 1
            return np.full(3, index, np.float32)

    @operator()
    def inner(x, /):
        time.now += 2
        return x

    @operator()
    def outer(x, /):
        time.now += 4
        return inner(x).numpy()

    def batches():
        for (rows,) in Map(dataset=Rows()).next_epoch(2):
            time.now += 8
            yield outer(rows)

    report = measure(batches())
    for _ in report:
        time.now += 16
        inner(np.ones(3))  # of the step
    assert {part.name: (part.calls, part.seconds) for part in report.parts} == {
        "readers.Map": (4, 3 * 2),
        "inner": (6, 6 * 2),
        "outer": (3, 6 * 4),
        _measure._OTHER: (4, 3 * 8),
    }
    assert sum(part.share for part in report.parts) == pytest.approx(1)
    assert report.parts[0].seconds == 24
    assert report.loads_per_second == pytest.approx(3 / (6 + 12 + 24 + 24))
    assert report.steps_per_second == pytest.approx(1 / 18)
    assert "take turns" in report.verdict
    assert "prefetch() would save" in report.verdict


def test_random_operators_and_sources_are_named():
    source = ndd.ExternalSource(lambda info: [info.idx_in_epoch] if info.idx_in_epoch < 12 else next(iter(())),
                                batch=False)  # fmt: skip
    image, rng = np.zeros((8, 8, 3), np.uint8), RNG(5)

    def step(batch):
        images = ndd.as_batch([image] * len(batch), layout="HWC")
        ndd.random.uniform(batch_size=2, rng=rng)
        return ndd.random_resized_crop(ndd.flip(images), size=(4, 4), rng=rng)

    for loop in (map(step, source.next_epoch(3)), prefetch(source.next_epoch(3), step),
                 prefetch(prefetch(source.next_epoch(3)), step)):  # fmt: skip
        report = measure(loop)
        assert [len(batch) for batch in report] == [3] * 4
        names = {span.name for span in report._watch.spans}
        assert {"ExternalSource", "uniform", "random_resized_crop", "flip", "step", clock.TAKING} <= names
        assert report.loads_per_second is None or report.loads_per_second > 0


def test_what_is_made_ahead_is_measured_in_its_thread(tmp_path):
    report = measure(
        prefetch(Map(dataset=[np.float32(i) for i in range(40)]).next_epoch(2), lambda batch: batch[0] + 1)
    )
    assert len(report) == 20
    assert len(list(report)) == 20
    assert report.is_made_ahead
    spans = report._watch.spans
    maker = {span.thread for span in spans if span.name == clock.MAKING}
    assert len(maker) == 1
    assert {span.thread for span in spans if span.name == "readers.Map"} == maker
    assert {span.thread for span in spans if span.name in ("step", clock.TAKING)} == {threading.get_ident()}
    report.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} >= {"dynamic prefetch"}
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == len(spans)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in complete)
    assert {"pid", "tid", "name", "cat"} <= set(complete[0])


def test_pipelines_are_measured(tmp_path):
    for i in range(24):
        (tmp_path / f"{i}.bin").write_bytes(bytes(8))

    @pipeline_def(batch_size=2, num_threads=1)
    def files():
        return fn.cast(fn.readers.file(files=[f"{i}.bin" for i in range(24)], file_root=tmp_path)[1], dtype=fn_type)

    fn_type = ndd.float32
    with files() as pipe:
        report = measure(pipe.next_epoch())
        assert len(list(report)) == 12
    assert {"readers.File", "cast"} <= {span.name for span in report._watch.spans}


def test_loops_inside_of_each_other_are_measured_apart():
    outer = measure(ndd.as_tensor(i) * 1 for i in range(4))
    for _ in outer:
        inner = measure(ndd.flip(np.zeros((4, 4, 1), np.uint8)) for _ in range(3))
        assert len(list(inner)) == 3
        assert [part.name for part in inner.parts if part.calls == 2] == ["flip"]
    assert "flip" not in {part.name for part in outer.parts}


def test_nothing_is_noted_where_no_loop_is_measured(monkeypatch):
    def refused(*_):
        raise AssertionError("asked for the time")

    for name in ("begin", "noted", "perf_counter"):
        monkeypatch.setattr(clock, name, refused)
    reader = Map(dataset=[np.zeros((4, 4, 3), np.uint8)] * 4)
    for (images,) in prefetch(reader.next_epoch(2)):
        ndd.random_resized_crop(ndd.reshape(images, shape=(4, 4, 3), layout="HWC"), size=(2, 2), rng=RNG(1))
        ndd.random.uniform(batch_size=2)


def test_errors_end_the_measuring():
    def bad():
        yield 1
        raise ZeroDivisionError

    report = measure(bad())
    with pytest.raises(ZeroDivisionError):
        list(report)
    assert report.batches == 1
    assert report.verdict == "There are too few batches to tell."
    with pytest.raises(ZeroDivisionError):
        for _ in measure([1, 2]):
            raise ZeroDivisionError
    with pytest.raises(ArgumentError, match="argument 'loop'"):
        measure(3)
    with pytest.raises(TypeError):
        len(measure(iter(())))
    assert measure([])


def test_rates_that_nobody_knows_are_not_made_up(time):
    class Loader(list):
        num_workers = 2

    for loop in (Loader([1, 2, 3]), iter([1, 2, 3])):
        report = measure(loop)
        for _ in report:
            time.now += 2
        assert report.loads_per_second is None
        assert "not known: at least 0.5" in str(report)
        assert report.verdict == "The step sets the pace: the trainer waited 0% of the time for data."
        assert _measure._OTHER not in str(report)

    class Alone(list):
        num_workers = 0

        def __iter__(self):
            for each in super().__iter__():
                time.now += 3
                yield each

    report = measure(Alone([1, 2, 3]))
    for _ in report:
        time.now += 1
    assert report.loads_per_second == pytest.approx(1 / 3)
    report = measure(iter([1, 2]))
    list(report)
    assert report.verdict == "There are too few batches to tell."


def test_an_uneven_loader_is_told_from_a_slow_one(time):
    report = measure(prefetch([1]))
    report.batches, report.waited, report.stepped = 11, 5.0, 10.0
    thread = 1
    for seconds, told in ((5.0, "not evenly"), (15.0, "100% of the loader's time goes to other Python")):
        report._watch.totals = {(thread, clock.MAKING): clock.Total(10, seconds, seconds)}
        assert told in report.verdict
        assert report.loads_per_second == 10 / seconds
