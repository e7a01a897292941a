"""Sources of the user's own: what they are called with, what they may make, and which can be resumed."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import Batch, ExternalSource, Tensor, as_batch, checkpoint
from dynamic.errors import ArgumentError, StateError, StateMismatch, StateWarning
from dynamic.random import RNG, uniform
from dynamic.types import BatchInfo, SampleInfo

N = 11  # samples in an epoch
counts = st.integers(1, 13)


def of_sample(info):
    if info.idx_in_epoch >= N:
        raise StopIteration
    return np.array([info.epoch_idx, info.idx_in_epoch], np.int64)


def of_index(i):
    if i >= 4:
        raise StopIteration
    return np.full((3, 2), i, np.int64)


def of_batch(info):
    if info.iteration >= 3:
        raise StopIteration
    return [np.array([info.epoch_idx, info.iteration, i]) for i in range(3)]


COUNTED = {
    "sample": lambda: ExternalSource(of_sample, batch=False),
    "index": lambda: ExternalSource(of_index),
    "batch": lambda: ExternalSource(of_batch, batch_info=True),
}


def values(batch):
    return [sample.tolist() for sample in batch]


def moved_through_json(state):
    return json.loads(json.dumps(state, allow_nan=False))


# What a source is called with


def test_a_source_of_samples_is_told_which():
    told = []

    def source(info):
        told.append(info)
        if info.idx_in_epoch == 5:
            raise StopIteration
        return np.float32(info.idx_in_epoch)

    sizes = [[len(batch) for batch in external.next_epoch(3)] for external in [ExternalSource(source, batch=False)] * 2]
    assert sizes == [[3, 2], [3, 2]]
    first = [SampleInfo(0, 0, 0, 0), SampleInfo(1, 1, 0, 0), SampleInfo(2, 2, 0, 0), SampleInfo(3, 0, 1, 0)]
    assert told[:4] == first
    assert [info for info in told if info.epoch_idx == 1][3:5] == [SampleInfo(3, 0, 1, 1), SampleInfo(4, 1, 1, 1)]


def test_a_source_of_batches_is_told_which():
    assert [values(batch)[0] for batch in ExternalSource(of_index).next_epoch()] == [[i, i] for i in range(4)]
    external = ExternalSource(of_batch, batch_info=True)
    assert [values(batch)[2] for _ in range(2) for batch in external.next_epoch(3)] == [
        [epoch, i, 2] for epoch in range(2) for i in range(3)]  # fmt: skip
    assert BatchInfo(3, 1) == (3, 1)


def test_what_takes_no_argument_is_called_or_iterated():
    counter = itertools.count()
    external = ExternalSource(lambda: next(counter))
    assert isinstance(external(), Tensor)
    assert values(external(batch_size=3)) == [1, 1, 1]  # one Tensor is repeated
    assert [t.item() for t in ExternalSource([1, 2, 3]).next_epoch()] == [1, 2, 3]
    assert isinstance(ExternalSource([1], 1)(), Tensor)
    assert (ExternalSource(lambda: ())().shape, str(ExternalSource(lambda: ())().dtype)) == ((0,), "f32")
    assert values(ExternalSource([as_batch([[1], [2, 3]])])()) == [[1], [2, 3]]
    assert values(ExternalSource([[[1], [2, 3]]], batch=True)()) == [[1], [2, 3]]


def test_samples_are_taken_one_by_one_from_what_is_told_to_make_them():
    def five():
        yield from range(5)

    counter = itertools.count()
    for source in (five, [0, 1, 2, 3, 4], five(), functools.partial(five)):
        external = ExternalSource(source, batch=False)
        assert [values(batch) for batch in external.next_epoch(2)] == [[0, 1], [2, 3], [4]]
        assert list(external.next_epoch(2)) == []
        assert isinstance(ExternalSource([7], batch=False)(), Tensor)
    counted = ExternalSource(lambda: next(counter), batch=False)
    assert [values(counted(3)), counted().item(), values(counted(1))] == [[0, 1, 2], 3, [4]]
    pairs = ExternalSource(((i, [i]) for i in range(3)), 2, batch=False)
    assert [values(part) for part in pairs(2)] == [[0, 1], [[0], [1]]]


def test_a_generator_function_can_be_started_again():
    def three():
        yield from ([i, i] for i in range(3))

    class Three:
        def __call__(self):
            yield from three()

    for source in (three, Three(), functools.partial(three), functools.partial(Three())):
        quiet, raises, once = (ExternalSource(source, cycle=cycle, batch=True) for cycle in ("quiet", "raise", None))
        assert [values(quiet()) for _ in range(4)] == [[0, 0], [1, 1], [2, 2], [0, 0]]
        assert [len(list(raises.next_epoch())) for _ in range(2)] == [3, 3]
        assert [len(list(once.next_epoch())) for _ in range(2)] == [3, 0]
    cycling = ExternalSource(three, cycle="quiet", batch=False)
    assert [values(batch)[0] for batch in (cycling(2), cycling(2))] == [[0, 0], [2, 2]]


@pytest.mark.parametrize(("cycle", "expected"), [
    (None, [1, 2, None, None, None]), ("no", [1, 2, None, None, None]), (False, [1, 2, None, None, None]),
    ("quiet", [1, 2, 1, 2, 1]), (True, [1, 2, 1, 2, 1]), ("raise", [1, 2, None, 1, 2])])  # fmt: skip
def test_what_becomes_of_an_iterable_that_has_ended(cycle, expected):
    external, found = ExternalSource([1, 2], cycle=cycle), []
    for _ in expected:
        try:
            found.append(external().item())
        except StopIteration:
            found.append(None)
    assert found == expected


def test_a_source_with_its_place_goes_to_the_next_epoch_unless_it_is_told_not_to():
    external, for_good = ExternalSource(of_index), ExternalSource(of_index, cycle="no")
    assert [len(list(external.next_epoch())) for _ in range(3)] == [4, 4, 4]
    assert [len(list(for_good.next_epoch())) for _ in range(3)] == [4, 0, 0]
    assert (external.epoch, for_good.epoch) == (3, 0)


class Restarting:
    """Numbers below a limit, which end, and then come again: as a function, or as an iterator."""

    def __init__(self, limit):
        self.limit, self.next = limit, 0

    def __call__(self):
        if self.next == self.limit:
            self.next = 0
            raise StopIteration
        self.next += 1
        return [self.next] * 2


class RestartingIterator(Restarting):
    def __iter__(self):
        return self

    def __next__(self):
        return self()


@given(st.sampled_from([Restarting, RestartingIterator]), st.integers(0, 3), st.sampled_from([None, "no", "raise"]))
def test_what_says_again_and_again_that_it_has_ended_is_asked_again_and_again(kind, limit, cycle):
    source, epoch = ExternalSource(kind(limit), batch=True, cycle=cycle), [[i + 1] * 2 for i in range(limit)]
    epochs = [[batch.tolist() for batch in source.next_epoch(2)] for _ in range(3)]
    assert epochs == ([epoch] + [[]] * 2 if cycle == "no" else [epoch] * 3)
    assert source.epoch == (0 if cycle == "no" else 3)


class Rewound:
    """DALI's own example of an iterator: it begins again whenever it is asked for one, and not by itself."""

    def __init__(self, limit):
        self.limit = limit

    def __iter__(self):
        self.left = self.limit
        return self

    def __next__(self):
        if self.left <= 0:
            self.left -= 1
            raise StopIteration
        self.left -= 1
        return [self.left] * 2


@given(limit=st.integers(0, 3), cycle=st.sampled_from([None, "no", "raise"]))
def test_an_iterator_that_has_ended_is_asked_anew_for_one_only_if_it_cycles(limit, cycle):
    source, epoch = ExternalSource(Rewound(limit), batch=True, cycle=cycle), [[i] * 2 for i in reversed(range(limit))]
    epochs = [[batch.tolist() for batch in source.next_epoch(2)] for _ in range(3)]
    assert epochs == [epoch] + ([epoch] * 2 if cycle == "raise" else [[], []])


def test_a_function_without_arguments_does_not_begin_again():
    with pytest.raises(ArgumentError, match="'cycle' must be None, 'no' or 'raise' for a function without arguments"):
        ExternalSource(lambda: [1, 2], cycle="quiet")


@pytest.mark.parametrize("cycle", ["quiet", True, "raise"])
def test_a_generator_cannot_begin_again(cycle):
    for passing in ((i for i in range(3)), iter([0, 1, 2]), map(int, range(3)), itertools.chain([0, 1], [2])):
        with pytest.raises(ArgumentError, match="'source' must be a source that can start again, with cycle; got"):
            ExternalSource(passing, cycle=cycle)

    rewound = ExternalSource(Rewound(3), cycle=cycle)
    if cycle == "raise":
        epochs = [list(rewound.next_epoch()) for _ in range(2)]
    else:
        epochs = [list(itertools.islice(rewound.next_epoch(), 6))]  # which goes on into the next
    assert [each.tolist() for epoch in epochs for each in epoch] == [[2, 2], [1, 1], [0, 0]] * 2
    assert [each.item() for each in ExternalSource(i for i in range(3)).next_epoch()] == [0, 1, 2]


def test_a_captured_epoch_is_an_epoch():
    assert [batch.tolist() for batch in ExternalSource([[1, 2], [3, 4]], batch=True).captured(2)] == [[1, 2], [3, 4]]
    with pytest.raises(ArgumentError, match="'batch_size'"):
        ExternalSource([1]).captured(0)


def test_the_text_of_a_state_is_one():
    one, other = ExternalSource(of_index), ExternalSource(of_index)
    one()
    other.set_state(str(one.get_state()))
    assert other.get_state() == one.get_state()


def test_an_iterable_that_has_nothing_ends_even_if_it_cycles():
    with pytest.raises(StopIteration):
        ExternalSource([], cycle="quiet")()


def test_several_outputs_have_layouts_and_dtypes_of_their_own():
    def source(info):
        return np.zeros((2, 3, 3), np.uint8), [info.idx_in_epoch]

    external = ExternalSource(source, 2, batch=False, layout=["HWC", None], dtype=[None, "float64"])
    images, numbers = external(batch_size=4)
    assert (images.layout, str(images.dtype), images.shape) == ("HWC", "u8", [(2, 3, 3)] * 4)
    assert (numbers.layout, values(numbers)) == (None, [[0.0], [1.0], [2.0], [3.0]])
    image, number = external()
    assert (image.layout, number.tolist(), str(number.dtype)) == ("HWC", [4.0], "f64")
    assert [type(output) for output in ExternalSource(lambda: ([1], [2, 3]), 2)()] == [Tensor, Tensor]


def test_samples_know_which_they_are_so_that_draws_can_be_keyed_by_them():
    def draws(batch_size):
        external, rng = ExternalSource(of_sample, batch=False), RNG(5)
        return [x for _ in range(2) for batch in external.next_epoch(batch_size)
                for x in uniform(rng=rng.keyed(batch)).tolist()]  # fmt: skip

    assert draws(3) == draws(4)
    assert len(set(draws(2))) == 2 * N


# Where it can be resumed


@given(kind=st.sampled_from(sorted(COUNTED)), made=st.integers(0, 12), used=st.booleans())
def test_a_source_that_is_called_with_its_place_resumes(kind, made, used, tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "run.json"
    size = 3
    first, second = COUNTED[kind](), COUNTED[kind]()
    steps = itertools.chain.from_iterable(first.next_epoch(size) for _ in range(9))
    for _ in range(made):
        next(steps)
    checkpoint.save(path, source=first)
    if used:
        list(second.next_epoch(size))
    checkpoint.load(path, source=second)
    assert second.get_state() == first.get_state() == moved_through_json(second.state_dict())
    expected = [[values(batch) for batch in first.next_epoch(size)] for _ in range(2)]
    assert [[values(batch) for batch in second.next_epoch(size)] for _ in range(2)] == expected
    assert second.epoch == first.epoch


@given(parts=st.lists(st.tuples(counts, st.integers(0, 4)), min_size=1, max_size=6))
def test_a_source_of_samples_resumes_with_any_batch_size(parts):
    state, found = None, []
    for size, steps in parts:
        external = ExternalSource(of_sample, batch=False)
        if state is not None:
            external.load_state_dict(state)
        epochs = itertools.chain.from_iterable(external.next_epoch(size) for _ in range(9))
        found += [value for _ in range(steps) for value in values(next(epochs))]
        state = moved_through_json(external.get_state())
    assert found == [[i // N, i % N] for i in range(len(found))]


@pytest.mark.parametrize("kind", ["index", "batch"])
def test_a_source_of_batches_refuses_another_batch_size_after_a_resume(kind):
    first, second = COUNTED[kind](), COUNTED[kind]()
    first(batch_size=3)
    second.set_state(first.get_state())
    with pytest.raises(StateMismatch, match="batch_size: 3 in the state, 4 here"):
        second(batch_size=4)
    assert values(second(batch_size=3)) == values(first(batch_size=3))
    with pytest.raises(ArgumentError, match="as asked for; got a batch of 3"):  # in one run it is the source's matter
        second(batch_size=4)


@pytest.mark.parametrize("source", [lambda: [1, 2, 3], lambda: iter([1, 2, 3]), lambda: lambda: 4])
def test_the_place_of_other_sources_is_not_known_and_a_load_says_so(source, tmp_path):
    first = ExternalSource(source())
    first()
    checkpoint.save(tmp_path / "run.json", source=first)
    state = first.get_state()
    assert (state["resumable"], first.resumable, state["iteration"]) == (False, False, 1)
    second = ExternalSource(source())
    expected = ExternalSource(source())().item()
    with pytest.warns(StateWarning, match="no telling where its source was: it had given 1 in epoch 0"):
        checkpoint.load(tmp_path / "run.json", source=second)
    assert second().item() == expected  # it goes on from wherever it is
    assert "cannot be saved" in repr(second)


@given(st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_an_iterable_goes_on_from_wherever_it_is_after_a_load(before, after, by_samples):
    source, size = ExternalSource(list(range(20)), batch=False), 2 if by_samples else None
    given_ = [source(size) for _ in range(before)]
    state = source.get_state()
    given_ += [source(size) for _ in range(after)]
    with pytest.warns(StateWarning, match="goes on from wherever it is"):
        source.set_state(state)
    given_ += list(source.next_epoch(size))
    assert np.concatenate([np.ravel(np.asarray(x)) for x in given_]).tolist() == list(range(20))


def test_a_source_that_fails_stays():
    broken = True

    def source(info):
        if broken and info.idx_in_epoch == 4:
            raise OSError("gone")
        return of_sample(info)

    external = ExternalSource(source, batch=False)
    assert values(external(3))[-1] == [0, 2]
    before = external.get_state()
    with pytest.raises(OSError, match="gone"):
        external(3)
    assert external.get_state() == before
    broken = False
    assert values(external(3)) == [[0, 3], [0, 4], [0, 5]]


def test_what_a_call_that_fails_got_from_an_iterable_comes_again():
    batches = ExternalSource(iter([[1, 2, 3], [4, 5]]), batch=True)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="batches of 2 samples, as asked for; got a batch of 3"):
            batches(batch_size=2)
    assert (values(batches(3)), values(batches(2))) == ([1, 2, 3], [4, 5])
    mixed = ExternalSource(iter([np.zeros(1, np.int32), np.ones(1, np.int64), np.ones(1, np.int64)]), batch=False)
    for size in (2, 3):
        with pytest.raises(ArgumentError, match=r"source\[1\]"):
            mixed(size)
    assert [values(mixed(size)) for size in (1, 2)] == [[[0]], [[1], [1]]]
    unlucky = iter([OSError("unlucky"), 0, 1, OSError("unlucky"), 2])

    def one():
        given = next(unlucky)
        if isinstance(given, OSError):
            raise given
        return given

    failing, found = ExternalSource(one, batch=False), []
    while len(found) < 3:
        with contextlib.suppress(OSError):
            found += values(failing(3))
    assert found == [0, 1, 2]


# What is refused


@pytest.mark.parametrize(("arguments", "told"), [
    ((3,), "'source' must be a function of at most one argument, or an iterable; got int 3"),
    ((lambda a, b: a,), "'source' must be a function of at most one argument; got one of 2"),
    (([1], None, {"cycle": "always"}), "'cycle' must be None, 'no', 'quiet' or 'raise'"),
    (([1], None, {"cycle": 2}), "'cycle' must be"),
    (([1], 0), "'num_outputs' must be an integer of 1 or more"),
    ((max,), "'source' must be a function with a readable signature; got builtin_function_or_method"),
    (([1], 2, {"layout": ["HWC"]}), "'layout' must be one, or a list of 2; got a list of 1"),
    (([1], 2, {"dtype": ["uint8"]}), "'dtype' must be one, or a list of 2; got a list of 1"),
    (([1], None, {"no_copy": 3}), "'no_copy' must be True or False"),
    (([1], None, {"batch": 1}), "'batch' must be True or False"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told):
    source, outputs, *keywords = (*arguments, None)[: max(2, len(arguments))]
    with pytest.raises(ArgumentError) as caught:
        ExternalSource(source, outputs, **(keywords[0] if keywords else {}))
    assert told in str(caught.value)


def test_what_a_source_should_not_make_is_told():
    with pytest.raises(ArgumentError, match="batches of 2 samples, as asked for; got a batch of 3"):
        ExternalSource(of_index)(batch_size=2)
    with pytest.raises(ArgumentError, match="'num_outputs'; got 3"):
        ExternalSource([(1, 2, 3)], 2)()
    with pytest.raises(ArgumentError, match="'num_outputs'; got int 1"):
        ExternalSource([1], 2)()
    with pytest.raises(ArgumentError, match="'batch_size' must be an integer of 1 or more"):
        ExternalSource([1])(batch_size=0)
    with pytest.raises(ArgumentError, match=r"\[1\]"):
        ExternalSource(lambda info: np.zeros(2, [np.int32, np.int64][info.idx_in_batch]), batch=False)(batch_size=2)


@pytest.mark.parametrize("change", [{"source": "sample"}, {"version": 2}, {"epoch": -1}, {"epoch": 2**64},
                                    {"iteration": "1"}, {"more": 1}, {"resumable": 1}])  # fmt: skip
def test_a_state_that_does_not_fit_is_refused(change):
    external = ExternalSource(of_index)
    external()
    before = external.get_state()
    with pytest.raises(StateError, match="ExternalSource: "):
        external.set_state(before | change)
    assert external.get_state() == before
    assert repr(external) == "<ExternalSource: index of_index, epoch 0, batch 1>"
    assert isinstance(external(), Batch)


class Broken:
    """What takes no state, so that a load of it fails."""

    def get_state(self):
        return {}

    def set_state(self, state):
        raise StateError("broken")


def fail_to_load(source, path):
    """A load of the state that the source was saved in, and of what takes none."""
    with pytest.raises(StateError, match="broken") as caught:
        checkpoint.load(path, source=source, broken=Broken())
    (note,) = caught.value.__notes__
    assert note.endswith("all but 'broken', which took no state any more, are as they were before.")


def test_a_load_that_fails_leaves_the_batch_size_to_the_source(tmp_path):
    size = 3
    source = ExternalSource(lambda i: [i] * size)
    source(3)
    fail_to_load(source, checkpoint.save(tmp_path / "run.json", source=source, broken=Broken()))
    size = 4
    assert values(source(4)) == [1] * 4
    source.set_state(source.get_state())
    fail_to_load(source, tmp_path / "run.json")
    size = 3
    with pytest.raises(StateMismatch, match="batch_size: 4 in the state, 3 here"):
        source(3)


@pytest.mark.parametrize("cycle", ["no", "raise"])
@given(saved=st.integers(0, 3), made=st.integers(0, 4), fails=st.integers(1, 4))
@pytest.mark.filterwarnings("ignore:.*goes on from wherever it is")
def test_a_load_that_fails_takes_nothing_from_an_iterable(cycle, saved, made, fails, tmp_path_factory):
    """Nor does one that has ended begin again."""
    path = tmp_path_factory.getbasetemp() / "failing.json"
    one, other = (ExternalSource([[0], [1], [2]], batch=True, cycle=cycle) for _ in range(2))
    for number in range(max(saved, made) + fails):
        if number == saved:
            checkpoint.save(path, source=other, broken=Broken())
        if number >= max(saved, made):
            fail_to_load(other, path)
            assert other.get_state() == one.get_state()
        first, second = (next(source.next_epoch(1), None) for source in (one, other))
        assert (first is None, first is None or values(first)) == (second is None, second is None or values(second))


def test_where_warnings_are_errors_a_source_that_is_not_known_stays(tmp_path):
    source, rng = ExternalSource([[1], [2], [3]]), RNG(1)
    source()
    checkpoint.save(tmp_path / "run.json", rng=rng, source=source)
    rng()
    before = rng.state, source.get_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StateWarning) as caught:
            checkpoint.load(tmp_path / "run.json", rng=rng, source=source)
    assert caught.value.__notes__ == ["This was the state of 'source'; all objects are as they were before."]
    assert (rng.state, source.get_state()) == before
    assert values(source()) == [2]
