"""Checkpoints: what is saved comes back, what is damaged does not, and a save that fails leaves what was there."""

from __future__ import annotations

import functools
import json
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from record_checkpoint import OF_PIPELINE, SAVED, WENT_ON, Objects

from dynamic import EvalContext, checkpoint
from dynamic.checkpoint import Checkpoint, _atomic, _file, array_from_json, array_to_json
from dynamic.errors import ArgumentError, StateError, StateWarning
from dynamic.random import RNG, uniform
from dynamic.readers import File


class Counter:
    """A stateful object whose state is any JSON value; it refuses the state "bad", after it has half taken it."""

    def __init__(self, value=0):
        self.value = value

    def get_state(self):
        return {"value": self.value}

    def set_state(self, state):
        self.value = state["value"]
        if self.value == "bad":
            raise StateError("Counter: bad.")


class Other(Counter):
    pass


numbers = st.integers(-(2**256) + 1, 2**256 - 1) | st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(), max_size=6)  # surrogates too
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def same(a, b):
    """Equal, of equal types, down to the sign of zero and the order of keys in sorted dicts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return repr(a) == repr(b)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for i in range(7):
        (root / f"{i}.bin").write_bytes(b"%d" % i)
    return root


def reader_of(folder, **arguments):
    return File(files=[f"{i}.bin" for i in range(7)], file_root=folder, random_shuffle=True, **arguments)


def names(folder):
    return sorted(entry.name for entry in os.scandir(folder))


# Values


@given(value=values)
def test_any_plain_value_comes_back_as_it_was(value, tmp_path_factory):
    path = tmp_path_factory.mktemp("value") / "c.json"
    checkpoint.save(path, a=Counter(value))
    other = Counter()
    checkpoint.load(path, a=other)
    assert same(other.value, value)
    first = path.read_bytes()
    checkpoint.save(path, a=other)
    assert path.read_bytes() == first
    assert json.loads(first)["states"]["a"]["type"] == "Counter"


@pytest.mark.parametrize("value", [
    (1, 2), {1: 2}, {"a": {True: 1}}, float("nan"), [float("inf")], 2**256, -(2**256), np.float64(1), np.int64(1),
    np.zeros(2), b"", {1}, 1j, np.bool_(True), object()])  # fmt: skip
def test_what_would_not_come_back_is_refused_by_its_place(tmp_path, value):
    with pytest.raises(StateError, match=r"The state of 'a'\['value'\]"):
        checkpoint.save(tmp_path / "c.json", a=Counter(value))
    assert names(tmp_path) == []


halves = st.text(st.sampled_from("a\ud800\udbff\udc00\udfff\U0001f600"), max_size=5)


@given(value=st.dictionaries(halves, halves, max_size=4), name=halves)
@example(value={"\ud83d\ude00": "", "\U0001f600": ""}, name="")
@example(value={"": "\ud83d\ude00"}, name="")
@example(value={}, name="\ud83d\ude00")
def test_halves_of_characters_come_back_as_they_were_or_are_refused(value, name):
    """JSON makes one character of a high surrogate before a low one."""
    texts = [name, *value, *value.values()]
    joined = any(json.loads(json.dumps(text)) != text for text in texts)
    states = Checkpoint()
    if joined:
        with pytest.raises(StateError, match="high surrogate"):
            states.set_state(name, value) or states.serialize()
        return
    states.set_state(name, value)
    again = Checkpoint()
    again.deserialize(states.serialize())
    assert again.get_state(name) == value


def test_a_state_that_is_too_deep_or_too_large_is_refused(tmp_path, monkeypatch):
    for nested in (lambda inner: [inner], lambda inner: {"a": inner}):
        deep = functools.reduce(lambda inner, _: nested(inner), range(31), 0)
        checkpoint.save(tmp_path / "c.json", a=Counter(deep))  # in a dict of its own: 32 levels
        (tmp_path / "c.json").unlink()
        with pytest.raises(StateError, match="32 levels"):
            checkpoint.save(tmp_path / "c.json", a=Counter(nested(deep)))
    monkeypatch.setattr(_file, "LARGEST", 10_000)
    with pytest.raises(StateError, match="at most 10000"):
        checkpoint.save(tmp_path / "c.json", a=Counter("x" * 10_000))
    monkeypatch.setattr(_file, "_MOST_VALUES", 100)
    monkeypatch.setattr(_file, "_MOST_NESTED", 50)
    for many, told in (([0] * 100, r"10\d values, where a checkpoint has at most 100"), ([[]] * 50, "lists and dicts")):
        with pytest.raises(StateError, match=f"The states have .*{told}"):  # what could not be loaded again
            checkpoint.save(tmp_path / "c.json", a=Counter(many))
    assert names(tmp_path) == []


@given(st.data())
def test_arrays_keep_their_dtype_and_shape(data):
    dtype = data.draw(st.sampled_from(["bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64"]))
    shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
    bits = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, (*shape, 8), np.uint8)
    array = np.nan_to_num(bits.view(dtype)[..., 0] if dtype != "bool" else bits[..., 0] > 9, posinf=0, neginf=0)
    back = array_from_json(json.loads(json.dumps(array_to_json(array))))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)
    counter = Counter(array_to_json(array))
    taken = Counter()
    taken.set_state(_file.decoded(_file.encoded({"a": _file.Entry(None, counter.get_state())}), "x")["a"].state)
    assert np.array_equal(array_from_json(taken.value), array)


@pytest.mark.parametrize("value", [
    3, {}, {"dtype": "int8", "shape": [1], "data": [200]}, {"dtype": "int8", "shape": [2], "data": [1]},
    {"dtype": "object", "shape": [1], "data": [1]}, {"dtype": "int8", "shape": [-1], "data": []},
    {"dtype": "int8", "shape": [1], "data": [1.5]}, {"dtype": "bool", "shape": [1], "data": [1]},
    {"dtype": "float32", "shape": [1], "data": [1e300]}, {"dtype": "int8", "shape": [1], "data": ["1"]},
    {"dtype": "uint64", "shape": [1], "data": [-1]}, {"dtype": [], "shape": [], "data": [0]},
    {"dtype": "int8", "shape": 1, "data": [1]}, {"dtype": "int8", "shape": [True], "data": [1]},
    {"dtype": "int8", "shape": ["1"], "data": [1]}, {"dtype": "int8", "shape": [1.0], "data": [1]},
    {"dtype": "int8", "shape": [1], "data": (1,)}, {"dtype": "int8", "shape": [0, -1], "data": []}])  # fmt: skip
def test_what_is_no_array_is_refused(value):
    with pytest.raises(StateError):
        array_from_json(value)


@pytest.mark.parametrize("value", [np.array([np.nan]), np.array(["a"]), np.array([1j])])
def test_arrays_that_json_cannot_hold_are_refused(value):
    with pytest.raises(StateError, match="cannot be written"):
        array_to_json(value)


# Objects


def test_all_objects_come_back_together_fresh_and_used(tmp_path, folder):
    reader, counter = reader_of(folder), Counter(5)
    reader(3)
    checkpoint.save(tmp_path / "run.json", reader=reader, counter=counter)
    place = reader.get_state()
    rest = [jpegs.origin.names for jpegs, _ in reader.next_epoch(2)]
    for other in (reader, reader_of(folder)):
        count = Counter(9)
        checkpoint.load(tmp_path / "run.json", counter=count, reader=other)
        assert (other.get_state(), count.value) == (place, 5)
        assert [jpegs.origin.names for jpegs, _ in other.next_epoch(2)] == rest


@pytest.mark.parametrize(("given_to_load", "told"), [
    (lambda c: {"a": Counter(7)}, "holds the states of 'a', 'b'; the objects given are 'a'"),
    (lambda c: {"a": Counter(7), "b": Counter(8), "c": Counter(9)}, "given are 'a', 'b', 'c'"),
    (lambda c: {"a": Counter(7), "b": Other(8)}, "'b' is that of a Counter, not of a Other"),
    (lambda c: {"a": Counter(7), "b": Counter(8)}, "Counter: bad")])  # fmt: skip
def test_a_load_that_fails_changes_nothing(tmp_path, given_to_load, told):
    checkpoint.save(tmp_path / "run.json", a=Counter(1), b=Counter("bad"))
    objects = given_to_load(None)
    before = [o.value for o in objects.values()]
    with pytest.raises(StateError, match=told) as caught:
        checkpoint.load(tmp_path / "run.json", **objects)
    assert [o.value for o in objects.values()] == before
    if "bad" in told:
        assert caught.value.__notes__ == ["This was the state of 'b'; all objects are as they were before."]


@given(batch_sizes=st.lists(st.integers(1, 4), max_size=6), seed=st.integers(0, 2**32))
def test_a_run_that_draws_goes_on_with_the_same_draws(batch_sizes, seed, folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.json"

    def step(reader, rng, size):
        jpegs, _ = reader(size)
        return jpegs.origin.names, uniform(batch_size=len(jpegs), rng=rng).tolist()

    reader, rng = reader_of(folder), RNG(seed)
    for size in batch_sizes:
        step(reader, rng, size)
    checkpoint.save(path, reader=reader, rng=rng)
    others = reader_of(folder), RNG(1)
    step(*others, 3)
    checkpoint.load(path, reader=others[0], rng=others[1])
    for _ in range(5):
        assert step(*others, 2) == step(reader, rng, 2)


def test_what_is_not_stateful_is_refused(tmp_path):
    for call in (checkpoint.save, checkpoint.load):
        with pytest.raises(ArgumentError, match="'rng' must be an object with get_state"):
            call(tmp_path / "run.json", rng=object())
        with pytest.raises(ArgumentError, match="'rng'"):
            call(tmp_path / "run.json", rng=Counter)
        with pytest.raises(ArgumentError, match="at least one object"):
            call(tmp_path / "run.json")
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "run.json", a=Counter())
    assert names(tmp_path) == []


# Damage


@pytest.fixture(scope="module")
def good(folder):
    reader = reader_of(folder)
    reader(3)
    state = Counter({"é\udcff": [1.5e-7, -0.0, 2**70, None, True]})
    return _file.encoded(
        {"reader": _file.Entry("File", reader.get_state()), "counter": _file.Entry("Counter", state.get_state())}
    )


def refused(data):
    with pytest.raises(StateError) as caught:
        _file.decoded(data, "run.json")
    assert "run.json" in str(caught.value)
    assert str(caught.value).endswith(
        (" checkpoint.", "saved.", "newer one.", "legacy.read.", "torch.load.", f"{_file.LARGEST} bytes.")
    )
    return str(caught.value)


def test_every_flipped_bit_is_refused(good):
    assert set(_file.decoded(good, "run.json")) == {"reader", "counter"}
    damaged = bytearray(good)
    for i in range(len(good)):
        for bit in range(8):
            damaged[i] ^= 1 << bit
            refused(bytes(damaged))
            damaged[i] ^= 1 << bit
    assert damaged == good


def test_every_cut_and_every_addition_is_refused(good):
    for i in range(len(good)):
        refused(good[:i])
        refused(good[:i] + b" " + good[i:])
        refused(good[:i] + good[i + 1 :])
    refused(good + good)
    refused(b"\xef\xbb\xbf" + good)
    refused(good.replace(b"\n", b"\r\n"))


@given(st.data())
def test_any_bytes_are_refused(good, data):
    start, end = sorted([data.draw(st.integers(0, len(good))), data.draw(st.integers(0, len(good)))])
    middle = data.draw(st.binary(max_size=9) | st.text(max_size=9).map(str.encode))
    mixed = good[:start] + middle + good[end:]
    if mixed != good:
        refused(mixed)
    refused(middle)


HEAD = b'{"format": "dynamic-checkpoint", "version": 1, "digest": "", "library": '


@pytest.mark.parametrize(("data", "told"), [
    (b"PK\x03\x04", "a ZIP archive, as torch.save writes"),
    (b"", "not a checkpoint"), (b"\x80\x04\x95", "is a pickle of protocol"), (b"[" * 100_000, "nested too deep"),
    (b'{"a":' * 100_000, "nested too deep"), (b'{"format": 1, "format": 2}', "a key occurs twice"),
    (b'{"format": NaN}', "NaN is not a JSON number"), (b'{"format": 1e999}', "too large"), (b"9" * 5000, "5000 digits"),
    (b"[" + b"1," * 4_200_000 + b"1]", "it has 4200001 values, where a checkpoint has at most 4194304"),
    (b"[" + b"[]," * 1_100_000 + b"1]", "it has 1100001 lists and dicts, where a checkpoint has at most 1048576"),
    (b"[" + b"{}," * 1_100_000 + b"1]", "1100001 lists and dicts"), (b"[" * 1_100_000, "1100000 lists and dicts"),
    (b"[]", "its format is not 'dynamic-checkpoint'"), (b'{"version": 2, "states": {}}', "not a checkpoint of DALI"),
    (b'{"format": "dynamic-checkpoint"}', "version None"),
    (b'{"format": "dynamic-checkpoint", "version": 2}', "version int 2; this library reads 1"),
    (b'{"format": "dynamic-checkpoint", "version": true}', "version bool True"),
    (b'{"format": "dynamic-checkpoint", "version": 1}', "it has the keys"),
    (HEAD + b'"", "states": []}', "not pairs"),
    (HEAD + b'"", "states": {"a": {"type": 1, "state": 1}}}', "not pairs"),
    (HEAD + b'"", "states": {"a": {"type": null, "state": ' + b"[" * 90 + b"]" * 90 + b"}}}", "32 levels"),
    (HEAD + b'3, "states": {}}', "digest"), (HEAD + b'"", "states": {}}', "digest")])  # fmt: skip
def test_what_is_no_checkpoint_is_told_apart(data, told):
    assert told in refused(data)


def test_a_file_that_is_not_read_is_refused_by_name(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "folder"):
        with pytest.raises(StateError, match=f"{name} is not a checkpoint: it is not a regular file"):
            checkpoint.load(tmp_path / name, a=Counter())
    checkpoint.save(tmp_path / "c.json", a=Counter())
    (tmp_path / "big").write_bytes(b" " * 2000 + (tmp_path / "c.json").read_bytes())
    with pytest.raises(StateError, match="larger than 2000 bytes"):
        _atomic.read(tmp_path / "big", 2000)
    assert len(_atomic.read(tmp_path / "c.json", 2000)) == (tmp_path / "c.json").stat().st_size


def test_damaged_files_leave_the_objects_as_they_were(tmp_path, folder, good):
    reader, counter = reader_of(folder), Counter(3)
    reader(2)
    before = reader.get_state()
    for i in range(0, len(good), 7):
        (tmp_path / "run.json").write_bytes(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
        with pytest.raises(StateError):
            checkpoint.load(tmp_path / "run.json", reader=reader, counter=counter)
    assert (reader.get_state(), counter.value) == (before, 3)
    (tmp_path / "run.json").write_bytes(good)
    checkpoint.load(tmp_path / "run.json", reader=reader, counter=counter)
    assert reader.position == 3


# Files

CALLS = ["open", "fstat", "fchmod", "write", "fsync", "rename", "close", "unlink", "stat", "scandir"]
LATE = {"fchmod", "write", "fsync", "rename", "close"}  # which can fail after they have had their effect


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_the_old_file_or_the_new_one_and_nothing_else(tmp_path, monkeypatch, call, there):
    """Each call of the system that a save makes fails once, in turn, before and after it has had its effect."""
    path = tmp_path / "c.json"
    for late in (False, True) if call in LATE else (False,):
        for turn in range(10):
            path.unlink(missing_ok=True)
            if there:
                checkpoint.save(path, a=Counter("old"))
            old = path.read_bytes() if there else None
            count = fail(monkeypatch, call, turn, late)
            try:
                checkpoint.save(path, a=Counter("new"))
                failed = False
            except OSError as error:
                failed = error
            monkeypatch.undo()
            new = path.read_bytes() if path.exists() else None
            assert names(tmp_path) == (["c.json"] if new else [])
            if not failed or new != old:
                checkpoint.load(path, a=(counter := Counter()))
                assert counter.value == "new"
            if failed and new != old:
                assert late or "may not outlive" in failed.__notes__[0]
            if count() <= turn:
                break
        else:
            pytest.fail("a save makes too many calls to try all of them")


def fail(monkeypatch, call, turn, late, number=5):
    original, calls = getattr(os, call), [0]

    def failing(*arguments, **keywords):
        calls[0] += 1
        if calls[0] - 1 != turn:
            return original(*arguments, **keywords)
        if late:
            original(*arguments, **keywords)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, failing)
    return lambda: calls[0]


@pytest.mark.parametrize(
    ("saved", "of_pipeline"),
    [*zip([SAVED[i] for i in (0, 0, 1, 1, 1, 2)], OF_PIPELINE, strict=True)],
    ids=lambda path: path.stem,
)
def test_a_run_goes_on_from_checkpoints_of_each_version_as_it_did(tmp_path, saved, of_pipeline):
    objects = Objects(tmp_path, of_pipeline.read_bytes())
    checkpoint.load(saved, **objects.states())
    assert objects.go_on() == json.loads(WENT_ON.read_text())


def test_what_is_saved_has_the_version_of_what_was_saved_so(tmp_path):
    """A state that looks otherwise needs a new version, and a record of its own beside that of the old one."""
    objects = Objects(tmp_path)
    objects.begin()
    recorded = [json.loads(path.read_text())["states"] for path in (SAVED[-1], OF_PIPELINE[-1])]
    checkpoint.save(tmp_path / "c.json", **objects.states())
    saved = json.loads((tmp_path / "c.json").read_text())["states"]
    assert [saved, json.loads(objects.pipeline.checkpoint())["states"]] == recorded
    objects.pipeline.close()


def test_the_data_is_on_the_disk_before_it_gets_its_name_and_then_the_name(tmp_path, monkeypatch):
    seen = []
    kinds = {True: "folder", False: "file"}
    write, fsync, rename = os.write, os.fsync, os.rename
    monkeypatch.setattr(os, "write", lambda fd, data: seen.append("write") or write(fd, data[:100]))
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(kinds[stat.S_ISDIR(os.fstat(fd).st_mode)]) or fsync(fd))
    monkeypatch.setattr(os, "rename", lambda a, b: seen.append("rename") or rename(a, b))
    checkpoint.save(tmp_path / "new" / "c.json", a=Counter("x" * 150))
    assert [what for what in seen if what != "write"] == ["folder", "folder", "file", "rename", "folder"]
    assert seen.index("file") > len(seen) - seen[::-1].index("write") - 1
    assert seen.count("write") > 2  # a write that writes only a part goes on
    checkpoint.load(tmp_path / "new" / "c.json", a=(counter := Counter()))
    assert counter.value == "x" * 150


def test_the_mode_of_the_file_is_that_of_the_old_one_or_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    checkpoint.save(tmp_path / "c.json", a=Counter())
    assert (tmp_path / "c.json").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "c.json").chmod(0o640)
    checkpoint.save(tmp_path / "c.json", a=Counter())
    assert stat.S_IMODE((tmp_path / "c.json").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "latest.json").symlink_to("c.json")
    for i in range(2):
        checkpoint.save(tmp_path / "latest.json", a=Counter(i))
        checkpoint.load(tmp_path / "c.json", a=(counter := Counter()))
        assert counter.value == i
    assert (tmp_path / "latest.json").is_symlink()


def test_parts_that_are_being_written_are_not_swept(tmp_path):
    path = tmp_path / "c.json"
    descriptor, part = _atomic._new(path)
    (tmp_path / ".c.json.0123456789abcdef.part").touch()
    (tmp_path / ".c.json.mine.part").touch()
    checkpoint.save(path, a=Counter())
    assert names(tmp_path) == sorted([".c.json.mine.part", part.name, "c.json"])
    os.close(descriptor)
    checkpoint.save(path, a=Counter())
    assert names(tmp_path) == [".c.json.mine.part", "c.json"]


def test_saves_work_where_there_are_no_locks_and_no_links(tmp_path, monkeypatch):
    def unsupported(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_atomic, "_locks", None)
    monkeypatch.setattr(os, "link", unsupported)
    states = Checkpoint()
    states.set_state("a", 3)
    assert [Path(states.save(tmp_path / "c{seq}.json")).name for _ in range(2)] == ["c0.json", "c1.json"]
    assert names(tmp_path) == ["c0.json", "c1.json"]


@pytest.mark.parametrize("filename", ["c.json", "c-{seq:03d}.json"])
def test_many_may_save_at_once(tmp_path, filename):
    written, errors = [], []

    def save(me):
        try:
            states = Checkpoint()
            for i in range(12):
                states.set_state("a", [me, i])
                written.append(states.save(tmp_path / filename))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(me,)) for me in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == sorted({Path(path).name for path in written})
    values = []
    for path in set(written):
        states = Checkpoint()
        states.load(path)
        values.append(tuple(states.get_state("a")))
    if "seq" in filename:
        assert sorted(values) == [(me, i) for me in range(6) for i in range(12)]
        assert names(tmp_path) == [f"c-{i:03d}.json" for i in range(72)]


# The class Checkpoint


def test_states_are_collected_saved_loaded_and_given_back(tmp_path, folder):
    reader, counter = reader_of(folder), Counter(1)
    states = Checkpoint()
    assert (states.register(reader, "reader"), states.register(counter)) == ("reader", "__op_1")
    assert (states.register(reader), states.register(counter), states.names) == (
        "reader",
        "__op_1",
        ("reader", "__op_1"),
    )
    assert (len(states), "reader" in states, "rng" in states) == (2, True, False)
    reader(2)
    states.collect()
    assert (states.is_complete, states.is_loaded) == (True, False)
    path = states.save(tmp_path / "run-{seq:04d}.json")
    assert path == str(tmp_path / "run-0000.json")
    place = reader.get_state()
    reader(2)
    counter.value = 2
    states.restore()  # back to what was collected
    assert (reader.get_state(), counter.value) == (place, 1)
    again = Checkpoint()
    assert again.load(tmp_path / "run-{seq}.json") == path
    assert (again.is_complete, again.is_loaded, len(again)) == (False, True, 0)
    assert again.get_state("reader") == place
    fresh, count = reader_of(folder), Counter(5)
    fresh(3)
    again.register(fresh, "reader")
    assert fresh.get_state() == place
    with pytest.raises(KeyError, match="__op_0"):
        Checkpoint.register(loaded(path), count)
    with pytest.raises(RuntimeError, match="__op_1"):
        again.restore()
    again.register(count)
    assert count.value == 1
    again.clear()
    assert (len(again), again.is_loaded, again.names) == (0, False, ())


def loaded(path):
    states = Checkpoint()
    states.load(path)
    return states


def test_a_file_of_the_function_is_one_of_the_class_and_back(tmp_path):
    checkpoint.save(tmp_path / "c.json", a=Counter(4))
    states = loaded(tmp_path / "c.json")
    states.register(counter := Counter(), "a")
    assert counter.value == 4
    counter.value = 6
    states.collect()
    assert states.save(tmp_path / "c.json") == str(tmp_path / "c.json")
    assert states.save(str(tmp_path / "c.json")) == str(tmp_path / "c.json")  # a plain path is replaced
    assert states.serialize().encode() == (tmp_path / "c.json").read_bytes()
    checkpoint.load(tmp_path / "c.json", a=(other := Counter()))
    assert other.value == 6


def test_what_was_collected_is_not_changed_by_who_gave_it_or_who_asks_for_it():
    class Own:
        def __init__(self):
            self.state = {"step": 0, "seen": [1]}

        def get_state(self):
            return self.state

        def set_state(self, state):
            self.state = state

    own, states = Own(), Checkpoint()
    states.register(own, "own")
    states.collect()
    text = states.serialize()
    for _ in range(2):
        own.state["step"] = 7
        own.state["seen"].append(2)
        states.get_state("own")["seen"].clear()
        assert states.get_state("own") == {"step": 0, "seen": [1]}
        assert states.serialize() == text
        states.restore()
        assert own.state == {"step": 0, "seen": [1]}
    own.state["step"] = (1, 2)
    with pytest.raises(StateError, match=r"The state of 'own'\['step'\] is tuple"):
        states.collect()
    assert states.serialize() == text


def test_text_goes_both_ways_and_damage_changes_nothing():
    states = Checkpoint()
    with pytest.raises(RuntimeError, match="no states"):
        states.serialize()
    states.restore()
    states.set_state("a", {"value": 3}, Counter)
    text = states.serialize()
    other = Checkpoint()
    other.deserialize(text)
    for damaged in (text[:-1], text.replace("3", "4"), "é", "\ud800"):
        with pytest.raises(StateError, match="the text"):
            other.deserialize(damaged)
    with pytest.raises(ArgumentError):
        other.deserialize(text.encode())
    other.register(counter := Counter(), "a")
    assert counter.value == 3


def test_what_does_not_fit_is_not_registered():
    states = Checkpoint()
    states.set_state("a", {"value": "bad"})
    states.set_state("b", {"value": 1}, "Other")
    counter = Counter(7)
    with pytest.raises(StateError, match="bad"):
        states.register(counter, "a")
    with pytest.raises(StateError, match="'b' is that of a Other, not of a Counter"):
        states.register(counter, "b")
    assert (counter.value, len(states)) == (7, 0)
    for name in ("", "__op_3", 4):
        with pytest.raises(ArgumentError, match="'name'"):
            states.register(counter, name)
    with pytest.raises(ArgumentError, match="'op'"):
        states.register(object(), "c")
    states.register(counter, "c")
    with pytest.raises(ArgumentError, match="'c', by which this object is there already"):
        states.register(counter, "d")
    with pytest.raises(ArgumentError, match="a Counter, as 'c' is"):
        states.register(Other(), "c")
    assert states.register(Counter(8), "c") == "c"
    with pytest.raises(RuntimeError, match="'a', 'b'"):
        states.collect()
    with pytest.raises(ArgumentError, match="'op_type'"):
        states.set_state("a", 1, 3)
    with pytest.raises(StateError, match="The state of 'a' is tuple"):
        states.set_state("a", (1,))
    with pytest.raises(KeyError):
        states.get_state("nothing")


def test_restoring_is_all_or_nothing():
    states, first, second = Checkpoint(), Counter(1), Counter(2)
    states.register(first, "a")
    states.register(second, "b")
    states.collect()
    with pytest.raises(RuntimeError, match="clear"):
        states.register(Counter(), "c")
    with pytest.raises(KeyError):
        states.set_state("c", 1)
    first.value = second.value = 5
    states.set_state("b", {"value": "bad"})
    with pytest.raises(StateError, match="bad"):
        states.restore()
    assert (first.value, second.value) == (5, 5)
    states.set_state("b", {"value": 9})
    states.restore()
    assert (first.value, second.value) == (1, 9)


def test_numbered_files_are_never_replaced_and_the_newest_whole_one_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    states = Checkpoint()
    with pytest.raises(FileNotFoundError, match="c"):
        states.load("deep/c{seq}.json")
    for i in range(11):
        states.set_state("a", i)
        assert states.save("deep/c{seq}.json") == f"deep/c{i}.json"
    (tmp_path / "deep" / "cx.json").touch()
    (tmp_path / "deep" / "c99.json.bak").touch()
    assert states.load("deep/c{seq:04d}.json") == "deep/c10.json"
    (tmp_path / "deep" / "c10.json").write_bytes(b"")
    with pytest.raises(StateError, match="c10"):
        states.load("deep/c{seq}.json", strict=True)
    with pytest.warns(StateWarning, match="Left out: deep/c10.json is damaged"):
        assert states.load("deep/c{seq}.json") == "deep/c9.json"
    assert states.get_state("a") == 9
    for i in range(10):
        (tmp_path / "deep" / f"c{i}.json").write_bytes(b"")
    with pytest.raises(StateError, match="c10"):
        states.load("deep/c{seq}.json")
    assert states.get_state("a") == 9
    assert states.save("deep/c{seq}.json") == "deep/c11.json"


@pytest.mark.parametrize("pattern", ["c{seq:018d}", "c{seq:019d}", "c{seq:020d}.json", "{seq:099d}"])
def test_numbers_of_any_width_are_read_as_they_are_written(tmp_path, pattern):
    states = Checkpoint()
    for i in range(4):
        states.set_state("a", i)
        path = states.save(tmp_path / pattern, keep=2)
        assert path == str(tmp_path / pattern.format(seq=i))
        assert Checkpoint().load(tmp_path / pattern) == path
    assert names(tmp_path) == [pattern.format(seq=i) for i in (2, 3)]


def test_numbers_grow_beyond_18_digits(tmp_path):
    states = Checkpoint()
    states.set_state("a", 1)
    (tmp_path / f"c{'9' * 18}").write_text(states.serialize())
    for number in (10**18, 10**18 + 1):
        assert states.save(tmp_path / "c{seq}") == str(tmp_path / f"c{number}")
        assert Checkpoint().load(tmp_path / "c{seq}") == str(tmp_path / f"c{number}")


PATTERNS = [
    "{step}.json",
    "{seq}-{seq}.json",
    "{seq.__class__}.json",
    "{seq!r}",
    "{seq:x}",
    "{}",
    "a{seq}/c",
    "",
    3,
    "a/",
]


@pytest.mark.parametrize("filename", PATTERNS)
def test_other_patterns_are_refused(filename):
    states = Checkpoint()
    states.set_state("a", 1)
    for call in (states.save, states.load):
        with pytest.raises(ArgumentError, match="at most one"):
            call(filename)


def test_each_context_has_a_checkpoint_of_its_own():
    outside = checkpoint.current()
    assert outside is checkpoint.current() is EvalContext.default().checkpoint
    with EvalContext() as outer:
        assert checkpoint.current() is outer.checkpoint is not outside
        with EvalContext() as inner:
            inner.checkpoint.set_state("a", 1)
            assert checkpoint.current() is inner.checkpoint
        assert checkpoint.current() is outer.checkpoint
        with pytest.raises(KeyError):
            checkpoint.current().get_state("a")
    assert checkpoint.current() is outside
    others = []
    thread = threading.Thread(target=lambda: others.append(checkpoint.current()))
    thread.start()
    thread.join()
    assert others[0] is not outside


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no fifos")
def test_what_is_no_regular_file_does_not_make_way(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(StateError, match="fifo is not a regular file: no checkpoint is put in its place"):
        checkpoint.save(path, rng=RNG(1))
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


@pytest.mark.parametrize("error", [KeyError, ValueError, StateError])
def test_an_object_that_takes_no_state_any_more_keeps_no_other_from_its_own(tmp_path, error):
    class Broken:
        def get_state(self):
            return 1

        def set_state(self, state):
            raise error("broken")

    rng = RNG(1)
    checkpoint.save(tmp_path / "run.json", a=rng, b=Broken(), c=RNG(2))
    uniform(shape=3, rng=rng)
    before = rng.state
    with pytest.raises(error, match="broken") as caught:
        checkpoint.load(tmp_path / "run.json", a=rng, b=Broken(), c=RNG(3))
    assert rng.state == before
    (note,) = caught.value.__notes__
    assert note == ("This was the state of 'b'; all but 'b', which took no state any more, are as they were before.")


def test_an_object_with_a_state_of_its_own_goes_back_by_it(tmp_path, folder):
    class Counted(File):
        count = 0

        def get_state(self):
            return {"count": self.count, "reader": super().get_state()}

        def set_state(self, state):
            self.count = state["count"]
            super().set_state(state["reader"])

    class Broken:
        def get_state(self):
            return 1

        def set_state(self, state):
            raise StateError("broken")

    reader = Counted(file_root=folder, files=sorted(os.listdir(folder)))
    path = checkpoint.save(tmp_path / "run.json", reader=reader, broken=Broken())
    reader(2)
    reader.count = 1
    before = reader.get_state()
    with pytest.raises(StateError, match="broken"):
        checkpoint.load(path, reader=reader, broken=Broken())
    assert (reader.get_state(), reader.count, reader.position) == (before, 1, 2)


@pytest.mark.parametrize("function", [checkpoint.save, checkpoint.load, checkpoint.load_latest])
def test_objects_without_a_name_are_told_to_have_one(function, tmp_path):
    rng = RNG(5)
    for arguments in ((tmp_path / "run.json", rng), (rng, tmp_path / "run.json")):
        with pytest.raises(
            ArgumentError, match=rf"{function.__name__}\(\) takes objects by name.*\(path, reader=reader"
        ):
            function(*arguments)


@pytest.mark.parametrize("function", [checkpoint.save, checkpoint.load, checkpoint.load_latest])
def test_an_address_is_no_folder_of_this_machine(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("s3://bucket/run.json", "gs://bucket/deep/run.json", b"https://host/run.json"):
        with pytest.raises(ArgumentError, match="must be a path on this machine, not an address"):
            function(path, rng=RNG(5))
    assert not list(tmp_path.iterdir())
