"""Names of samples in one piece of memory, and what is told of samples by their names."""

from __future__ import annotations

import hashlib
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynamic import StateMismatch, _core
from dynamic._base.origin import sample_ids
from dynamic.readers import File, _names, _placed
from dynamic.readers._listing import Listing, matcher
from dynamic.readers._names import Names, normal

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
PARTS = st.text("ab./é\udcff", max_size=6).map(os.fsencode)


@st.composite
def grouped(draw):
    """Names, and the same in a list."""
    groups = draw(st.lists(PARTS, max_size=4))
    if draw(st.booleans()):
        counts = [draw(st.integers(0, 12)) for _ in groups]
        plain = [b"%b%d" % (group, i) for group, count in zip(groups, counts, strict=True) for i in range(count)]
        return Names(groups, counts), [os.fsdecode(name) for name in plain]
    own = [draw(st.lists(PARTS, max_size=5)) for _ in groups]
    lengths = [len(part) for parts in own for part in parts]
    plain = [group + part for group, parts in zip(groups, own, strict=True) for part in parts]
    names = Names(groups, [len(parts) for parts in own], b"".join(part for parts in own for part in parts), lengths)
    return names, [os.fsdecode(name) for name in plain]


@SHARED
@given(grouped(), st.data())
def test_names_are_those_of_a_list(both, data):
    names, plain = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_names, "_AT_ONCE", data.draw(st.integers(1, 3)))
        assert (len(names), list(names)) == (len(plain), plain)
        assert list(names.normal()) == list(names.normal()) == [os.fsencode(normal(name)) for name in plain]
    chosen = data.draw(st.lists(st.integers(0, len(plain) - 1), max_size=5)) if plain else []
    assert names.take(chosen) == [plain[i] for i in chosen] == [names[i] for i in chosen]
    assert list(names.normal(chosen)) == [os.fsencode(normal(plain[i])) for i in chosen]
    assert names[1:3] == plain[1:3]
    assert list(pickle.loads(pickle.dumps(names))) == plain
    with pytest.raises(IndexError):
        names[len(plain)]


@pytest.mark.skipif(not _core.in_use(), reason="the native library is not here")
@given(grouped(), st.integers(0, 300), st.sampled_from([1, 5000]))
def test_hashes_are_those_of_python(both, longer, times):
    names, _ = both
    groups = [b"g" * longer + group for group in names._groups]
    names = Names(groups * times, list(names.counts) * times, None if names._own is None else names._own * times,
                  list(np.diff(names._ends)) * times)  # fmt: skip
    found = names.hashes()
    if found is None:
        assert not names.plain
        return
    plain = [hashlib.blake2b(name, digest_size=8).digest() for name in names.normal()]
    assert found.tolist() == np.frombuffer(b"".join(plain), "<u8").tolist()
    with _core.left_out():
        assert names.hashes() is None


@SHARED
@given(grouped(), st.data())
def test_ids_of_some_samples_are_those_among_all(both, data):
    names, plain = both
    names.distinct = len(set(map(normal, plain))) == len(plain)
    labels = np.zeros(len(plain), np.int32)
    listing = Listing("/root", names, labels)
    expected = Listing("/root", plain, labels).ids
    for _ in range(3):
        chosen = data.draw(st.lists(st.integers(0, len(plain) - 1), max_size=9)) if plain else []
        assert listing.ids_of(np.array(chosen, np.int64)).tolist() == expected[np.array(chosen, int)].tolist()
    assert listing.ids.tolist() == expected.tolist()
    assert listing.paths(range(len(plain))) == [os.path.join("/root", name) for name in plain]


@given(st.lists(st.binary(max_size=2), max_size=12))
def test_a_name_that_occurs_again_is_another_sample(names):
    told_apart = [
        name + (b"\0%d" % names[:i].count(name) if name in names[:i] else b"") for i, name in enumerate(names)
    ]
    ids = sample_ids(names).tolist()
    assert sample_ids(iter(names)).tolist() == ids
    assert ids == [sample_ids([name]).tolist()[0] for name in told_apart]
    assert len(set(ids)) == len(set(told_apart))


FILTERS = st.lists(
    st.text("*?.[]!^abAß", min_size=1, max_size=5) | st.sampled_from(["*.jpg", "*", "*.PNG"]), min_size=1
)


@given(FILTERS, st.booleans(), st.lists(st.text(".abAßjpgG\u017f", min_size=1, max_size=6), max_size=6))
def test_names_match_as_by_regular_expressions(filters, case_sensitive, names):
    matches = matcher(filters, case_sensitive=case_sensitive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynamic.readers._listing._ENDING", __import__("re").compile("(?!)"))
        plain = matcher(filters, case_sensitive=case_sensitive)
    assert [matches(os.fsencode(name)) for name in names] == [plain(os.fsencode(name)) for name in names]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("changed", [0, 4, 5, 11])
def test_sizes_are_compared_of_as_many_samples_as_a_state_tells(tmp_path, monkeypatch, shuffle, changed):
    (tmp_path / "c").mkdir()
    for i in range(12):
        (tmp_path / "c" / f"{i:02}.jpg").write_bytes(b"x")

    def some(**arguments):
        return File(file_root=tmp_path, random_shuffle=shuffle, **arguments)

    whole = some().get_state()
    monkeypatch.setattr(_placed, "_SIZED", 5)
    states = {"some": some().get_state(), "sizes": some(fingerprint="sizes").get_state()}
    of_version_2 = {key: value for key, value in whole.items() if key != "sized"} | {"version": 2}
    assert states["sizes"] == whole
    assert [state["sized"] for state in states.values()] == [5, 12]
    asked = []
    sizes_of = Listing.sizes_of
    monkeypatch.setattr(Listing, "sizes_of", lambda self, which: asked.append(len(which)) or sizes_of(self, which))
    for state, count in ((states["some"], 5), (whole, 12), (of_version_2, 12)):
        some().set_state(state)
        assert asked.pop() == count
    number = int(np.argsort(some()._ids)[changed])
    (tmp_path / "c" / f"{number:02}.jpg").write_bytes(b"more")
    for state, told in ((states["some"], changed < 5), (states["sizes"], True), (of_version_2, True)):
        for reader in (some(), some(fingerprint="sizes")):
            if told:
                with pytest.raises(StateMismatch, match="the same samples with other sizes"):
                    reader.set_state(state)
            else:
                reader.set_state(state)
