"""Readers of RecordIO files: what is in records, with and without an index, and files that are damaged."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_stored import framed

from dynamic.errors import ArgumentError, DataError
from dynamic.readers import MXNet

MAGIC = struct.pack("<I", 0xCED7230A)
#: Bytes with the magic number in places where a record is split, and in others.
texts = st.lists(st.sampled_from([MAGIC, b"a", b"bc", bytes(4)]) | st.binary(max_size=9), max_size=6).map(b"".join)
float32s = st.floats(width=32, allow_nan=False) | st.just(struct.unpack("<f", MAGIC)[0])
samples = st.tuples(texts, st.lists(float32s, min_size=1, max_size=4), st.booleans())


def record(data, labels, listed=False):
    """A record of an image and its labels; one label may stand in the header or behind it."""
    many = len(labels) > 1 or listed
    header = struct.pack("<IfQQ", len(labels) if many else 0, 0 if many else labels[0], 7, 0)
    return header + (np.array(labels, "<f4").tobytes() if many else b"") + data


def write(path, records):
    """A file, and where its records begin."""
    data, offsets = framed(records)
    path.write_bytes(data)
    return offsets


def index(path, offsets):
    path.write_text("".join(f"{key}\t{offset}\n" for key, offset in enumerate(offsets)))
    return path


def read(reader, batch_size=3):
    return [(bytes(image), labels.tolist()) for images, labels in reader.next_epoch(batch_size)
            for image, labels in zip(images.samples, labels.samples, strict=True)]  # fmt: skip


@given(
    written=st.lists(samples, min_size=1, max_size=6),
    parts=st.integers(1, 3),
    how=st.sampled_from(["", "each", "all"]),
    batch_size=st.integers(1, 4),
)
def test_what_was_written_is_read(tmp_path_factory, written, parts, how, batch_size):
    folder, paths, indices, every, whole = tmp_path_factory.mktemp("d"), [], [], [], 0
    for k in range(parts):
        some = written[k * len(written) // parts : (k + 1) * len(written) // parts]
        paths.append(folder / f"{k}.rec")
        offsets = write(paths[-1], [record(*sample) for sample in some])
        indices.append(index(folder / f"{k}.idx", offsets))
        every += [whole + offset for offset in offsets]
        whole += paths[-1].stat().st_size
    given_indices = {"": None, "each": indices, "all": index(folder / "all.idx", every)}[how]
    reader = MXNet(path=paths, index_path=given_indices)
    expected = [(data, labels) for data, labels, _ in written]
    assert read(reader, batch_size) == expected
    names = [name for images, _ in reader.next_epoch(2) for name in images.origin.names]
    numbers = [f"{k}.rec#{i}" for k in range(parts)
               for i in range((k + 1) * len(written) // parts - k * len(written) // parts)]  # fmt: skip
    assert names == numbers


def test_an_index_and_no_index_have_one_state(tmp_path):
    offsets = write(tmp_path / "a.rec", [record(b"12345" * i, [i]) for i in range(5)])
    without = MXNet(path=tmp_path / "a.rec", random_shuffle=True)
    reader = MXNet(path=tmp_path / "a.rec", index_path=index(tmp_path / "a.idx", offsets[::-1]), random_shuffle=True)
    without(2)
    reader.set_state(without.get_state())
    assert read(reader) == read(without)


def test_an_index_may_list_some_of_the_records(tmp_path):
    offsets = write(tmp_path / "a.rec", [record(b"%d" % i, [i]) for i in range(5)])
    some = index(tmp_path / "a.idx", [offsets[3], offsets[0], offsets[3]])
    assert read(MXNet(path=tmp_path / "a.rec", index_path=some)) == [(b"0", [0]), (b"3", [3])]


@pytest.mark.parametrize(("text", "told"), [
    ("0\t0\nx\t4\n", r"line 2 should be a key and an offset"),
    ("0\t0\n1\t4000\n", r"line 2: there is no record at byte 4000, as .*a\.rec ends before"),
    ("0\t4\n", r"a\.rec: record 0\): has not the magic number of RecordIO at its byte 0"),
    ("0\t0\n1\t20\n", r"record 0\): is cut off: of 26 bytes 12 are there"),
])  # fmt: skip
def test_an_index_that_does_not_fit_is_refused(tmp_path, text, told):
    write(tmp_path / "a.rec", [record(b"12", [1]), record(b"34", [2])])
    (tmp_path / "a.idx").write_text(text)
    with pytest.raises(DataError, match=told):
        MXNet(path=tmp_path / "a.rec", index_path=tmp_path / "a.idx")(1)


@pytest.mark.parametrize(("change", "told"), [
    (lambda data: data[:-4], r"record 2, at byte \d+ of \d+, is damaged or cut off"),
    (lambda data: data + b"\n#", r"record 3, at byte \d+ of \d+, is damaged or cut off"),
    (lambda data: data + bytes(8), r"record 3, at byte \d+ of \d+, has not the magic number of RecordIO"),
    (lambda data: data + framed([MAGIC])[0][:8], r"record 3 has no end"),
    (lambda data: data + framed([MAGIC])[0][8:], r"record 3, at byte \d+ of \d+, is damaged or cut off"),
    (lambda data: b"", "'path' must be files with records; got none"),
    (lambda data: b"\x1f\x8b" + data, "record 0, at byte 0 of .*has not the magic number"),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, change, told):
    write(tmp_path / "a.rec", [record(b"%d" % i, [i]) for i in range(3)])
    (tmp_path / "a.rec").write_bytes(change((tmp_path / "a.rec").read_bytes()))
    with pytest.raises((DataError, ArgumentError), match=told):
        MXNet(path=tmp_path / "a.rec")


@pytest.mark.parametrize(("data", "told"), [
    (b"12345", "holds no image record: it has 5 bytes, and the header alone 24"),
    (struct.pack("<IfQQ", 2**32 - 1, 0, 0, 0) + bytes(9), "holds no image record: of 4294967295 labels"),
])  # fmt: skip
def test_a_record_of_something_else_is_named_or_left_out(tmp_path, data, told):
    write(tmp_path / "a.rec", [record(b"a", [1]), data, record(b"b", [2])])
    with pytest.raises(DataError, match=rf"sample 1 \(.*a\.rec: record 1\): {told}"):
        MXNet(path=tmp_path / "a.rec")(3)
    reader = MXNet(path=tmp_path / "a.rec", on_error="skip")
    assert read(reader) == [(b"a", [1]), (b"b", [2])]
    assert [told in skipped.reason for skipped in reader.skipped] == [True]


@given(data=st.data())
def test_bytes_that_were_changed_are_read_or_refused_by_name(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("d")
    offsets = write(folder / "a.rec", [record(b"12345" + MAGIC, [1, 2]), record(MAGIC * 2, [3])])
    stored = bytearray((folder / "a.rec").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    (folder / "a.rec").write_bytes(stored[: data.draw(st.integers(0, len(stored)) | st.just(len(stored)))])
    for listed in (None, index(folder / "a.idx", offsets)):
        with contextlib.suppress(DataError, ArgumentError):
            for images, labels in MXNet(path=folder / "a.rec", index_path=listed).next_epoch(2):
                assert all(image.nbytes + label.nbytes <= len(stored)
                           for image, label in zip(images.samples, labels.samples, strict=True))  # fmt: skip


def test_as_many_indices_as_files(tmp_path):
    with pytest.raises(
        ArgumentError, match="'index_path' must be one path, or one for each of the 3 files; got 2 paths"
    ):
        MXNet(path=["a", "b", "c"], index_path=["a", "b"])
