"""What is found out about all files of an archive at once is what one file after the other says."""

from __future__ import annotations

import io
import tarfile
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_readers_webdataset import index_of, outputs, packed, summed

from dynamic.errors import DataError
from dynamic.io._store import DISK
from dynamic.readers import Webdataset, _archived, _stored, _tar
from dynamic.readers._archived import File, Rule, all_differ, grouped, indexed, one_by_one
from dynamic.readers._words import Text
from dynamic.readers.webdataset import _indexed, _parted

NAMES = st.text("ab./ü", min_size=1, max_size=9) | st.sampled_from(["0.jpg", "0.cls", "1.jpg", "x" * 100, "y/" * 70])
CONTENTS = st.binary(max_size=9) | st.just(b"x" * 600) | st.none() | st.just("link")


def rule_of(extensions, case_sensitive=True):
    wanted = [some if case_sensitive else [one.lower() for one in some] for some in extensions]
    columns = {word: [k for k, some in enumerate(wanted) if word in some] for some in wanted for word in some}
    return Rule(columns, wanted, case_sensitive, "empty")


RULES = st.builds(rule_of, st.lists(st.lists(st.sampled_from(["jpg", "cls", "a", "B", "b.a", ""]), min_size=1),
                                    min_size=1, max_size=3), st.booleans())  # fmt: skip


def same(found, expected):
    assert found.keys == expected.keys
    for mine, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(mine, other)


def text_of(parts):
    return Text(np.frombuffer(b"".join(parts), np.uint8))


@given(st.lists(st.tuples(NAMES, CONTENTS), max_size=12), st.data())
def test_headers_at_once_are_those_one_by_one(tmp_path_factory, members, data):
    path = packed(tmp_path_factory.mktemp("d") / "a.tar", members, data.draw(st.sampled_from([0, 1, 2])))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 2))):
        block = data.draw(st.integers(0, len(whole) // 512 - 1)) * 512
        whole[block + data.draw(st.integers(0, 511) | st.sampled_from([0, 99, 124, 135, 148, 154, 155, 156, 345]))] = (
            data.draw(st.integers(0, 255) | st.sampled_from(list(b"\0 0157x")))
        )
        whole = bytearray(summed(whole, block)) if data.draw(st.booleans()) else whole
    path.write_bytes(whole[: data.draw(st.just(len(whole)) | st.integers(0, len(whole)))])

    def told(members):
        found = []
        try:
            for member in members:
                found.append(member)
        except ValueError as error:
            found.append(str(error))
        return found

    with pytest.MonkeyPatch.context() as patch, DISK.file(str(path), _tar.AHEAD) as file:
        patch.setattr(_tar, "_FEW", data.draw(st.integers(1, 4)))
        patch.setattr(_tar, "_WINDOW", 512 * data.draw(st.integers(1, 4)))
        names, lengths, starts, sizes, at = _tar.plain_members(file)
        ends = np.cumsum(lengths)
        titles = [_tar.text(names[end - n : end].tobytes()) for n, end in zip(lengths, ends, strict=True)]
        plain = [(*member, 0) for member in zip(titles, starts.tolist(), sizes.tolist(), strict=True)]
        assert [*plain, *told(_tar.members(file, at))] == told(_tar.members(file))


@given(st.lists(st.tuples(NAMES, st.integers(0, 1)), max_size=12), RULES)
def test_files_are_grouped_as_one_by_one(files, rule):
    parts = list(accumulate(part for _, part in files))
    samples, before = [], None
    for i, (name, _) in enumerate(files):
        key, extension = _parted(name)
        if not key.rpartition("/")[2]:
            continue
        if (key, parts[i]) != before:
            samples.append((key, []))
        before = key, parts[i]
        samples[-1][1].append(File(extension, 512 * i, i))
    names = [name.encode() for name, _ in files]
    numbers = np.arange(len(files))
    lengths = np.array([len(name) for name in names], np.int64)
    found = grouped(text_of(names), lengths, np.array(parts, np.int64), 512 * numbers, numbers, rule)
    same(found, one_by_one(samples, rule))


WORDS = st.sampled_from(["jpg", "cls", "a", "B", "b.a", "long extension".replace(" ", "_")])
ROWS = st.tuples(WORDS, st.integers(0, 30).map(lambda i: 512 * i) | st.integers(0, 9), st.integers(0, 900), NAMES)


@given(st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=5), RULES, st.data())
def test_lines_of_an_index_at_once_are_those_one_by_one(lines, rule, data):
    text = bytearray("".join(" ".join(f"{e} {o} {s} {n}" for e, o, s, n in line) + "\n" for line in lines).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(list(b" \n\r\t0a.\0/-")))
    found = indexed(text_of([bytes(text)]), 10_000, rule)
    if found is not None:
        rows = [_indexed(line, 4) for line in bytes(text).removesuffix(b"\n").split(b"\n")]
        assert all(files for files, _ in rows)
        assert all(o % 512 == 0 and o + s <= 10_000 for files, _ in rows for _, o, s in files)
        same(found, one_by_one([(_parted(key)[0], files) for files, key in rows], rule))


def test_an_index_as_it_mostly_is_is_read_at_once():
    line = b"jpg 512 24 a/0001.jpg cls 1536 1 a/0001.cls\n"
    found = indexed(text_of([line] * 3), 4096, rule_of([["cls"], ["png", "jpg"], ["txt"]]))
    assert (found.keys, found.lengths.tolist()) == (b"a/0001" * 3, [6] * 3)
    assert (found.offsets.tolist(), found.sizes.tolist()) == ([[1536, 512, -1]] * 3, [[1, 24, 0]] * 3)


@given(st.lists(st.lists(st.text("ab", max_size=3) | st.text("0123456789", min_size=9, max_size=12)), max_size=3))
def test_names_that_all_differ_do(groups):
    names = [name.encode() for group in groups for name in group]
    lengths = np.array([len(name) for name in names], np.int64)
    told = all_differ(text_of(names), lengths, [len(group) for group in groups])
    assert told == all(len(set(group)) == len(group) for group in groups)


@pytest.mark.parametrize("slow", [0.0, 10.0])
def test_what_an_index_says_is_compared_where_a_sample_is_read(tmp_path, monkeypatch, slow):
    """Also of samples that are not looked for at first."""
    monkeypatch.setattr(_stored, "_SLOW", slow)
    members = [(f"{i:03}.{ext}", bytes(100 + i)) for i in range(300) for ext in ("jpg", "cls")]
    path = packed(tmp_path / "a.tar", members)
    lines = index_of(path, tmp_path / "a.idx").read_text().split("\n")
    assert len(outputs(Webdataset(paths=path, ext=["jpg", "cls"], index_paths=tmp_path / "a.idx"), 300)) == 300
    lines[3] = lines[3].replace(" 102 002.cls", " 101 002.cls")
    lines[5] = lines[5].replace(lines[5].split()[5], "0")
    (tmp_path / "a.idx").write_text("\n".join(lines))
    reader = Webdataset(paths=path, ext=["jpg", "cls"], index_paths=tmp_path / "a.idx")
    with pytest.raises(DataError, match="2 of 300 samples cannot be read") as caught:
        reader(300)
    assert [(failure.index, failure.reason.partition(", where")[0]) for failure in caught.value.failures] == [
        (2, "has no file of 101 bytes at byte 5632"), (4, "has no file of 104 bytes at byte 0")]  # fmt: skip


def test_of_many_archives_few_samples_are_looked_for_at_first(tmp_path, monkeypatch):
    paths = [packed(tmp_path / f"{i}.tar", [(f"{k}.jpg", b"x") for k in range(20)]) for i in range(40)]
    indices = [index_of(path, path.with_suffix(".idx")) for path in paths]
    looked = []
    monkeypatch.setattr("dynamic.readers.webdataset.begins", lambda file, start, size: looked.append(start) or True)
    Webdataset(paths=paths, ext="jpg", index_paths=indices)
    assert looked == [512, 512 + 1024 * 10] * 40


def test_large_numbers_in_headers_are_read(tmp_path):
    entry = tarfile.TarInfo("0.jpg")
    entry.size = 5
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT)[:512])
    block[124:136] = b"\x80" + (5).to_bytes(11, "big")
    with io.BytesIO(bytes(summed(block)) + b"hello" + bytes(507) + bytes(1024)) as file:
        (tmp_path / "a.tar").write_bytes(file.getvalue())
    (tmp_path / "a.idx").write_text("v1.2 1\njpg 512 5 0.jpg\n")
    for index in ({}, {"index_paths": tmp_path / "a.idx"}):
        assert outputs(Webdataset(paths=tmp_path / "a.tar", ext="jpg", **index)) == [(b"hello",)]
    assert _archived.BLOCK == 512
