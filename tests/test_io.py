"""Whole files as bytes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, DataError, as_batch, as_tensor
from dynamic.io import _bytes
from dynamic.random import RNG

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
CONTENTS = st.lists(st.binary(max_size=50), max_size=5)


def letters(path):
    return np.frombuffer(os.fsencode(path), np.uint8)


@SHARED
@given(CONTENTS, st.booleans())
def test_files_are_read_as_they_are(tmp_path, contents, mapped):
    paths = [tmp_path / f"{i}.bin" for i in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    ways = [paths, [str(path) for path in paths], [os.fsencode(path) for path in paths], iter(paths)]
    ways += [as_batch([letters(path) for path in paths])] if paths else []
    ways += [as_batch([letters(path).view(np.int8) for path in paths])] if paths else []
    for way in ways:
        found = ndd.io.file.read(way, dont_use_mmap=not mapped)
        assert (found.dtype, found.ndim, len(found)) == (ndd.uint8, 1, len(paths))
        assert [sample.tobytes() for sample in found.samples] == contents
    for path, data in zip(paths, contents, strict=True):
        for one in (path, str(path), as_tensor(letters(path)), letters(path), letters(path).view(np.int8)):
            assert ndd.io.file.read(one).array.tobytes() == data
        repeated = ndd.io.file.read(path, batch_size=3)
        assert [sample.tobytes() for sample in repeated.samples] == [data] * 3


def test_each_file_has_numbers_of_its_own(tmp_path):
    paths = [tmp_path / name for name in "aba"]
    for path in paths:
        path.write_bytes(b"P5 1 1 255 a")
    for files in (ndd.io.file.read(paths), ndd.imread(paths)):
        first, second, again = ndd.random.uniform(rng=RNG(3).keyed(files)["x"]).tolist()
        assert len({first, second, again}) == 3  # the third is another sample of the first file
    assert ndd.random.uniform(rng=RNG(3).keyed(ndd.io.file.read(paths[:1]))["x"]).tolist() == [first]


def test_files_that_cannot_be_read_are_all_named(tmp_path):
    good = tmp_path / "good"
    good.write_bytes(b"abc")
    with pytest.raises(DataError, match=r"io\.file\.read\(\): 3 of 4 samples cannot be read") as caught:
        ndd.io.file.read([tmp_path / "none", good, tmp_path, "nul\0"])
    assert [failure.index for failure in caught.value.failures] == [0, 2, 3]
    for batch_size in (2, -1, True, 1.0, 10**30, np.array([3, 3])):
        with pytest.raises(ArgumentError, match=r"io\.file\.read\(\): argument 'batch_size' must be"):
            ndd.io.file.read([good] * 3, batch_size=batch_size)
    assert len(ndd.io.file.read([good] * 3, batch_size=3)) == len(ndd.io.file.read(good, batch_size=np.int64(3))) == 3
    with pytest.raises(ArgumentError, match=r"io\.file\.read\(\): argument 'device' must be"):
        ndd.io.file.read(good, device="cpuu")
    for bad in (5, None, [5], "\ud800", [good, "\ud800"], as_batch([1, 2]), np.zeros(3)):
        with pytest.raises(ArgumentError, match=r"io\.file\.read\(\): argument 'filepaths"):
            ndd.io.file.read(bad)


def test_errors_are_in_the_order_of_the_files_whatever_thread_is_first(tmp_path):
    with pytest.raises(DataError) as caught:
        ndd.io.file.read([tmp_path / f"none{i}" for i in range(40)])
    assert [failure.index for failure in caught.value.failures] == list(range(40))


def test_a_file_that_is_cut_off_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    original = _bytes._read_into

    def cut(data, descriptor):
        path.write_bytes(b"ab")
        return original(data, descriptor)

    monkeypatch.setattr(_bytes, "_read_into", cut)
    for read in (ndd.io.file.read, ndd.imread):
        path.write_bytes(b"abc")
        with pytest.raises(DataError, match="changed while it was read: 2 bytes came of 3"):
            read(path)


def test_bytes_of_files_are_decoded_with_the_names_of_the_files(tmp_path):
    paths = [tmp_path / "a.ppm", tmp_path / "b.ppm"]
    paths[0].write_bytes(b"P6 1 1 255 abc")
    paths[1].write_bytes(b"P6 1 1 255 a")
    assert ndd.decoders.image(ndd.io.file.read(paths[0])).tolist() == [[[97, 98, 99]]]
    with pytest.raises(ndd.DecodeError, match=r"sample 1 \(.*b\.ppm\)"):
        ndd.decoders.image(ndd.io.file.read(paths))


def test_what_left_dalis_experimental_module_is_there_too():
    assert ndd.experimental.resize is ndd.resize
    assert ndd.experimental.peek_image_shape is ndd.peek_image_shape
    assert ndd.experimental.decoders is ndd.decoders


@SHARED
@given(contents=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5))
def test_files_are_those_that_dali_reads(dali: Oracle, tmp_path, contents):
    paths = [tmp_path / f"{i}.bin" for i in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    found = dali.call("io.file.read", [Samples([letters(path) for path in paths])])
    assert [sample.tobytes() for sample in found.samples] == contents


def one_by_one(span):
    try:
        return _bytes.contents(*((span,) if isinstance(span, str) else span)).tobytes()
    except OSError as error:
        return repr(error)


@SHARED
@given(
    st.lists(st.none() | st.binary(max_size=200), max_size=40), st.sampled_from([0, 30, 1 << 20]), st.integers(1, 20)
)
def test_many_files_at_once_are_those_one_by_one(tmp_path, contents, small, at_once):
    paths = [str(tmp_path / f"{i}.bin") for i in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        if data is not None:
            Path(path).write_bytes(data)
    paths += [str(tmp_path), "none"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bytes, "_SMALL", small)
        patch.setattr(_bytes, "_TOGETHER", at_once)
        found, errors = _bytes.together(paths)
    alone = [one_by_one(path) for path in paths]
    assert [repr(errors[i]) if i in errors else data.tobytes() for i, data in enumerate(found)] == alone
    for i, data in enumerate(found):
        data[...] = i % 256
    assert all((data == i % 256).all() for i, data in enumerate(found))  # none lies in another
    for path in tmp_path.iterdir():
        path.unlink()


def test_a_file_that_changes_while_many_are_read_is_refused_alone(tmp_path, monkeypatch):
    paths = [str(tmp_path / name) for name in "abc"]
    original = _bytes._read_into

    def cut(data, descriptor):
        Path(paths[1]).write_bytes(b"ab")
        return original(data, descriptor)

    monkeypatch.setattr(_bytes, "_read_into", cut)
    for path in paths:
        Path(path).write_bytes(b"abc")
    found, errors = _bytes.together(paths)
    assert [data.tobytes() for data in found] == [b"abc", b"", b"abc"]
    assert [(i, error.strerror) for i, error in errors.items()] == [(1, "changed while it was read: 2 bytes came of 3")]


def test_a_handler_that_ends_what_takes_too_long_ends_many_reads(tmp_path, monkeypatch):
    def late(data, descriptor):
        raise TimeoutError

    (tmp_path / "a").write_bytes(b"a")
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(_bytes, "_read_into", late)
    with pytest.raises(TimeoutError):
        _bytes.together([str(tmp_path / "a")])
    assert os.listdir("/proc/self/fd") == before


def test_parts_that_memory_does_not_hold_are_noted_each(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    real = _bytes.empty
    monkeypatch.setattr(
        _bytes, "empty", lambda shape, dtype: real(shape, dtype) if shape[0] < 4 else real((1 << 62,), dtype)
    )
    spans = [(str(path), 0, 3), (str(path), 3, 2), (str(path), 0, 5), (str(tmp_path / "none"), 0, 1)]
    for at_once, told in [(1 << 20, {0, 1, 2, 3}), (3, {2, 3})]:
        monkeypatch.setattr(_bytes, "_AT_ONCE", at_once)
        errors, found = {}, []
        with _bytes.Opened({}) as files:
            for piece in files.pieces(spans):
                assert piece.first == len(found)
                errors |= piece.errors
                found += [piece.memory[i:k].tobytes() for i, k in itertools.pairwise(piece.offsets)]
        assert errors.keys() == told
        assert all("memory" in error.strerror for i, error in errors.items() if i < 3)
        assert at_once > 3 or found[:2] == [b"abc", b"de"]


@SHARED
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 12)), max_size=12), st.integers(0, 30))
def test_parts_at_once_are_those_one_by_one(tmp_path, spans, at_once):
    """Also those that are in no file, beyond its end, or follow each other."""
    for i in range(2):
        (tmp_path / str(i)).write_bytes(bytes(range(i, 30 + i)))
    spans = [(str(tmp_path / str(i)), start, size) for i, start, size in spans]
    spans += [(path, start + size, 3) for path, start, size in spans]
    found, errors = [], {}
    with pytest.MonkeyPatch.context() as patch, _bytes.Opened({}) as files:
        patch.setattr(_bytes, "_AT_ONCE", at_once)
        patch.setattr(_bytes, "_MOST_OPEN", at_once % 3)
        for piece in files.pieces(spans):
            errors |= piece.errors
            assert piece.first == len(found)
            found += [piece.memory[i:k].tobytes() for i, k in itertools.pairwise(piece.offsets)]
    assert [repr(errors[i]) if i in errors else data for i, data in enumerate(found)] == list(map(one_by_one, spans))
