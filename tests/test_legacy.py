"""Old pickled states: recognised without running anything, read back where they are harmless, refused where not."""

from __future__ import annotations

import collections
import contextlib
import datetime
import fractions
import json
import pickle
import subprocess
import sys

import numpy as np
import pickles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dynamic import checkpoint
from dynamic.checkpoint import legacy
from dynamic.errors import ArgumentError, StateError, StateWarning
from dynamic.random import RNG

HOSTILE, MALFORMED = pickles.hostile(), pickles.malformed()
HALF = pickle.dumps(fractions.Fraction(1, 2), 4)
HARMLESS = {f"{name}, protocol {protocol}": (pickle.dumps(value, protocol), value)
            for name, value in pickles.values().items() for protocol in range(6)}  # fmt: skip


def same(a, b):
    """Equal, in types, dtypes, shapes and orders too; OrderedDicts come back as dicts."""
    if isinstance(a, (np.ndarray, np.generic)):
        assert type(a) is type(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        if isinstance(a, np.ndarray) and a.flags.f_contiguous != a.flags.c_contiguous:
            assert b.flags.f_contiguous == a.flags.f_contiguous
            assert b.flags.writeable
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert type(b) is dict
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    else:
        assert type(a) is type(b)
        assert a == b
        assert isinstance(a, (set, frozenset)) or repr(a) == repr(b)  # -0.0 too


# What is harmless comes back


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_state_comes_back(name):
    data, value = HARMLESS[name]
    same(value, legacy.read(data, allow="plain"))
    old = pickles.of_old_numpy(data)
    assert b"numpy._core" not in old
    same(value, legacy.read(old, allow="plain"))
    assert legacy.recognise(data).complete


@pytest.mark.parametrize("name", pickles.of_python_2())
def test_a_state_of_python_2_comes_back(name):
    data, value = pickles.of_python_2()[name]
    same(value, legacy.read(data, allow="plain", classes={"old.State": "stateful"}))


def test_many_keys_that_nobody_chose_come_back():
    for value in (dict.fromkeys(range(50_000)), {f"{i}.jpg": i for i in range(50_000)},
                  {i * 7919 % 100_003: 1 for i in range(9000)}, set(range(50_000))):  # fmt: skip
        assert legacy.read(pickle.dumps(value), allow="plain") == value


def test_shared_parts_stay_shared():
    part = [1]
    read = legacy.read(pickle.dumps([part, part, np.arange(3)]), allow="plain")
    assert read[0] is read[1]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.binary().map(bytearray) | hnp.arrays(hnp.scalar_dtypes().filter(lambda t: t.kind in "biufc" and t.itemsize < 17
    ),
                                              hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text() | st.integers() | st.binary() | st.tuples(st.integers(), st.text()), inner, max_size=4)
    | st.sets(st.text() | st.integers(), max_size=4) | st.frozensets(st.binary(), max_size=4),
    max_leaves=12)  # fmt: skip


@given(value=plain, protocol=st.integers(0, 5))
def test_any_plain_value_comes_back(value, protocol):
    data = pickle.dumps(value, protocol)
    same(value, legacy.read(data, allow="plain"))
    assert legacy.recognise(data).protocol in (0, protocol)


# What is not is refused


@given(data=st.binary(max_size=60) | st.builds(bytes.__add__, st.just(b"\x80\x04"), st.binary(max_size=60)))
def test_any_bytes_are_a_value_or_refused(data):
    legacy.recognise(data)
    with contextlib.suppress(StateError):
        legacy.read(data, allow="plain")


@given(st.sampled_from(sorted(HARMLESS)), st.data())
def test_a_damaged_pickle_is_a_value_or_refused(name, data):
    good = bytearray(HARMLESS[name][0])
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(StateError):
        legacy.read(bytes(good), allow="plain")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_pickle_that_runs_code_is_recognised_and_refused(name):
    found = legacy.recognise(HOSTILE[name])
    assert found.names
    with pytest.raises(StateError, match="Nothing of it has been run"):
        legacy.read(HOSTILE[name])
    with pytest.raises(StateError, match="It is refused: "):
        legacy.read(HOSTILE[name], allow="plain")


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_pickle_is_refused(name):
    with pytest.raises(StateError) as caught:
        legacy.read(MALFORMED[name], allow="plain")
    assert len(str(caught.value)) < 5000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("name", "told"), [
    ("lists of 2**60 leaves", "repeats parts"), ("tuples of 2**60 leaves", "repeats parts"),
    ("keys of one hash", "too many keys"), ("many tuples as keys", "too many keys"),
    ("a million marks", "opcodes"), ("lists in 1000 lists", "levels deep"), ("a list in itself", "contains itself"),
    ("many dicts", "hold more"), ("many long names", "more than 1000 names"), ("two values", "left on its stack"),
    ("an array of 10**12 numbers", "has the shape|a shape"), ("a second pickle", "after its end"),
    ("a frame of 2**62 bytes", "longer than the data"), ("a shared tuple as a key", "a key of the state is"),
    ("keys of long texts", "a tuple of a long text"), ("a long key, many times", "occurs twice"),
    ("keys in each other's places", "numbers in no order"),
    ("an empty array of 2**200 rows", "too large")])  # fmt: skip
def test_what_explodes_is_refused_for_its_own_reason(name, told):
    with pytest.raises(StateError, match=f"It is refused: .*({told})"):
        legacy.read(MALFORMED[name], allow="plain")


def test_what_is_nested_deeper_than_the_stack_has_room_for_is_refused():
    deep = pickle.dumps([[[[[[[[[[]]]]]]]]]])

    def called(levels):
        return legacy.read(deep, allow="plain") if levels == 0 else called(levels - 1)

    assert called(10) == pickle.loads(deep)
    refused = 0
    for levels in range(sys.getrecursionlimit(), 0, -1):
        try:
            called(levels)
        except StateError as error:
            refused += "nested too deep" in str(error)
        except RecursionError:  # before there was anything to read
            assert not refused
        else:
            break
    assert refused


CHILD = """
import glob, json, os, pickle, resource, sys, time
corpus, folder = sys.argv[1:]
with open(corpus, "rb") as file:
    corpus = pickle.load(file)  # made by the test: bytes by name
def forked(name, function):
    os.makedirs(f"{folder}/{name}")
    child = os.fork()
    if not child:
        os.chdir(f"{folder}/{name}")
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        try:
            function()
        except BaseException as error:
            os._exit(3 if type(error).__name__ == "StateError" else 4)
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), bool(glob.glob(f"{folder}/{name}/canary*")), used
"""
RUN = (
    CHILD
    + """
ran = {name: forked(str(i), lambda: pickle.loads(data))[1] for i, (name, data) in enumerate(corpus.items())}
print(json.dumps(ran))
"""
)
READ = (
    CHILD
    + """
import dynamic
from dynamic.checkpoint import legacy
watched = ("exec", "compile", "import", "os.", "subprocess.", "ctypes.", "pickle.", "marshal.",
           "code.", "open", "socket.")
def read(data):
    events = []
    def watch(event, arguments):
        if not done and event.startswith(watched):
            events.append(event)
    done = False
    legacy.read(b"Vx\\n0S'x'\\n.", allow="plain")  # what the library imports, it has imported
    sys.addaudithook(watch)
    try:
        legacy.recognise(data)
        legacy.read(data, allow="plain")
    finally:
        done = True
        if events:
            os._exit(5)
nothing = max(forked(f"nothing{i}", lambda: read(b"N."))[2].ru_maxrss for i in range(2))
read_ = {}
for i, (name, data) in enumerate(corpus.items()):
    code, canary, used = forked(str(i), lambda: read(data))
    read_[name] = code, canary, used.ru_utime + used.ru_stime, (used.ru_maxrss - nothing) / 1024
print(json.dumps(read_))
"""
)


def in_a_child(program, corpus, folder):
    (folder / "corpus").write_bytes(pickle.dumps(corpus))
    done = subprocess.run([sys.executable, "-c", program, str(folder / "corpus"), str(folder)], capture_output=True,
                          text=True, timeout=300, check=True)  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork, and the names of Linux")
def test_all_of_the_hostile_ones_would_run_and_none_does(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "read").mkdir()
    ran = in_a_child(RUN, HOSTILE, tmp_path / "run")
    assert [name for name, canary in ran.items() if not canary] == []
    assert len(ran) >= 60
    read = in_a_child(READ, HOSTILE, tmp_path / "read")
    assert {name: result[:2] for name, result in read.items()} == {name: [3, False] for name in HOSTILE}


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
@pytest.mark.slow
def test_the_malformed_ones_take_little_time_and_memory(tmp_path):
    read = in_a_child(READ, MALFORMED, tmp_path)
    assert len(read) >= 30
    assert {name: result[:2] for name, result in read.items()} == {name: [3, False] for name in MALFORMED}
    most = {name: result[2:] for name, result in read.items()}
    assert [name for name, (_, megabytes) in most.items() if megabytes > 64] == []
    assert [name for name, (seconds, _) in most.items() if seconds > 15] == []  # 2 on a quiet machine


# Telling what a file is


def test_what_is_no_pickle_is_none():
    for data in (b"", b'{"a": 1}', b"[1]", b"hello", b"Note: this is text.\n", b"(c) 2026 nobody\n", b"\xff\xd8\xff",
                 b"cats\nand dogs\nand more\n", b"0", b"2", b"t", b"\x89PNG\r\n\x1a\n", "Ä".encode()):  # fmt: skip
        assert legacy.recognise(data) is None
        with pytest.raises(StateError, match="is not a pickle"):
            legacy.read(data, allow="plain")


def test_a_pickle_is_described():
    found = legacy.recognise(pickle.dumps(fractions.Fraction(1, 2), 2))
    assert found == legacy.Pickle(2, ("fractions.Fraction",), "")
    assert not legacy.recognise(b"\x80\x04cut").complete
    with pytest.raises(StateError, match=r"a pickle of protocol 4, which refers to datetime.date"):
        legacy.read(pickle.dumps(datetime.date(2026, 1, 1), 4))


def test_files_are_read_and_a_checkpoint_that_is_a_pickle_is_refused_as_such(tmp_path):
    path = tmp_path / "old.pkl"
    for protocol in (0, 4):
        path.write_bytes(pickle.dumps({"epoch": 3, "at": np.arange(2)}, protocol))
        assert legacy.read(path, allow="plain")["epoch"] == legacy.read(str(path), allow="plain")["epoch"] == 3
        with pytest.raises(StateError, match=r"is not a checkpoint: it is a pickle of protocol .*legacy\.read"):
            checkpoint.load(path, rng=RNG(1))
    with pytest.raises(FileNotFoundError):
        legacy.read(tmp_path / "none", allow="plain")


# Classes


class Sampler:
    def __init__(self, seed=5):
        self.seed = seed


class Listed(list):
    pass


class Keyed(dict):
    pass


HERE = Sampler.__module__


@pytest.mark.parametrize("protocol", range(6))
def test_objects_are_taken_by_the_policy_for_their_class(protocol):
    data = pickle.dumps({"sampler": Sampler(7), "epoch": 3}, protocol)
    name = f"{HERE}.Sampler"
    with pytest.raises(StateError, match=rf"made by {name}, for which classes= has no policy"):
        legacy.read(data, allow="plain")
    read = legacy.read(data, allow="plain", classes={name: "stateful"})
    assert read == {"sampler": {"seed": 7}, "epoch": 3}
    with pytest.warns(StateWarning, match=rf"the state\['sampler'\], of the class {name}, was ignored"):
        assert legacy.read(data, allow="plain", classes={name: "stateless"}) == {"sampler": None, "epoch": 3}
    made = legacy.read(data, allow="plain", classes={name: lambda found: Sampler(found.state["seed"] + 1)})
    assert made["sampler"].seed == 8


class WithKeywords:
    def __init__(self, *arguments, **keywords):
        self.made_of = arguments, keywords

    def __new__(cls, *_, **__):
        return super().__new__(cls)

    def __getnewargs_ex__(self):
        return self.made_of


@pytest.mark.parametrize("protocol", [4, 5])
def test_objects_may_be_made_with_arguments_but_not_by_name(protocol):
    name = f"{HERE}.WithKeywords"
    data = pickle.dumps(WithKeywords(3, 4), protocol)
    assert legacy.read(data, allow="plain", classes={name: lambda found: found.arguments}) == (3, 4)
    with pytest.raises(StateError, match="makes an object with keyword arguments"):
        legacy.read(pickle.dumps(WithKeywords(3, a=4), protocol), allow="plain", classes={name: "stateful"})


def test_a_decoder_gets_all_parts():
    data = pickle.dumps([fractions.Fraction(1, 2), Listed([1, 2]), Keyed(a=1)], 4)
    found = legacy.read(data, allow="plain", classes={
        "fractions.Fraction": lambda part: part.arguments, f"{HERE}.Listed": lambda part: part.items,
        f"{HERE}.Keyed": lambda part: part.items})  # fmt: skip
    assert found[1:] == [[1, 2], [("a", 1)]]
    assert found[0] in ((1, 2), ("1/2",))


def test_a_state_that_is_asked_for_must_be_there():
    with pytest.raises(StateError, match="more or less than its state"):
        legacy.read(
            pickle.dumps(fractions.Fraction(1, 2), 4), allow="plain", classes={"fractions.Fraction": "stateful"}
        )
    with pytest.raises(StateError, match="has no policy"):  # decided by what it is, not by what is in it
        legacy.read(pickle.dumps(Keyed(state={"version": 1}), 4), allow="plain")


@pytest.mark.parametrize(("arguments", "told"), [
    ({"allow": "all"}, "'allow' must be None, 'plain' or 'unsafe'"),
    ({"allow": "plain", "classes": {"a.B": "ignore"}}, r"classes\['a.B'\]"),
    ({"allow": "unsafe", "classes": {"a.B": "stateless"}}, "'classes' must be left out")])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        legacy.read(b"N.", **arguments)


# Really unpickling


def test_unpickling_needs_the_argument_and_the_environment(monkeypatch):
    data = pickle.dumps(collections.Counter("aab"), 4)
    monkeypatch.delenv("DYNAMIC_ALLOW_UNSAFE_PICKLE", raising=False)
    with pytest.raises(StateError, match="needs DYNAMIC_ALLOW_UNSAFE_PICKLE=1"):
        legacy.read(data, allow="unsafe")
    monkeypatch.setenv("DYNAMIC_ALLOW_UNSAFE_PICKLE", "true")
    with pytest.raises(StateError, match="needs DYNAMIC_ALLOW_UNSAFE_PICKLE=1"):
        legacy.read(data, allow="unsafe")
    monkeypatch.setenv("DYNAMIC_ALLOW_UNSAFE_PICKLE", "1")
    for _ in range(2):  # each time
        with pytest.warns(StateWarning, match="runs whatever its author wanted") as caught:
            assert legacy.read(data, allow="unsafe") == {"a": 2, "b": 1}
        assert caught[0].filename == __file__
    with pytest.raises(StateError, match="It is refused"):  # the environment alone changes nothing
        legacy.read(data, allow="plain")
    with pytest.raises(StateError, match="Nothing of it has been run"):
        legacy.read(data)
