"""Readers of LMDB databases: what is in records of Caffe and Caffe2, keys, and files that are damaged."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_stored import BYTE, FILED, FLOAT, INT32, INT64, ONE, STRING, datum, field, tensor, tensors

from dynamic.errors import ArgumentError, DataError
from dynamic.readers import Caffe, Caffe2

int32s = st.integers(-(2**31), 2**31 - 1)
floats = st.floats(width=32, allow_nan=False)


def write(path, records, subdir=True):
    """A database of records by their keys, or in order."""
    if not isinstance(records, dict):
        records = {b"%08d" % i: record for i, record in enumerate(records)}
    made = lmdb.open(str(path), subdir=subdir, map_size=1 << 24, sync=False)
    with made as database, database.begin(write=True) as transaction:
        for key, record in records.items():
            transaction.put(key, record)
    return path


def read(reader, batch_size=3):
    """The samples of an epoch."""
    steps = [
        [[np.asarray(array) for array in column.samples] for column in step] for step in reader.next_epoch(batch_size)
    ]
    return [sample for columns in steps for sample in zip(*columns, strict=True)]


keys = st.binary(min_size=1, max_size=30)
files = st.tuples(st.binary(max_size=9000), int32s)


@given(
    written=st.dictionaries(keys, files, min_size=1, max_size=9), batch_size=st.integers(1, 4), parts=st.integers(1, 2)
)
def test_files_and_labels_come_in_the_order_of_keys(tmp_path_factory, written, batch_size, parts):
    folder = tmp_path_factory.mktemp("d")
    keys = sorted(written)
    some = [keys[k * len(keys) // parts : (k + 1) * len(keys) // parts] for k in range(parts)]
    for k, chosen in enumerate(some):
        write(folder / f"{k}", {key: datum(*written[key], encoded=True) for key in chosen}, subdir=k == 0)
    reader = Caffe(path=[folder / f"{k}" for k in range(parts)])
    assert [(file.tobytes(), label.tolist()) for file, label in read(reader, batch_size)] == [
        (data, [label]) for data, label in map(written.__getitem__, keys)
    ]
    reader.seek(0)
    batches = list(reader.next_epoch(batch_size))
    assert [os.fsencode(name) for batch in batches for name in batch[0].origin.names] == [
        b"%d#" % k + key for k, chosen in enumerate(some) for key in chosen
    ]
    assert len({i for batch in batches for i in batch[0].origin.ids.tolist()}) == len(keys)


@given(shape=st.tuples(*[st.integers(0, 4)] * 3), seed=st.integers(0, 99))
def test_a_raw_image_of_caffe_has_its_channels_last(tmp_path_factory, shape, seed):
    image = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    record = datum(image.tobytes(), 1, False, shape)
    ((found, _),) = read(Caffe(path=write(tmp_path_factory.mktemp("d"), [record])))
    np.testing.assert_array_equal(found, image.transpose(1, 2, 0))


@given(data=st.data(), classes=st.integers(1, 9), weighted=st.booleans(), kind=st.sampled_from([INT32, FLOAT]))
def test_sparse_labels_are_spread(tmp_path_factory, data, classes, weighted, kind):
    labels = data.draw(st.lists(st.integers(0, classes - 1), max_size=5, unique=True))
    weights = data.draw(st.lists(floats, min_size=len(labels), max_size=len(labels)))
    parts = [FILED, tensor(kind, labels), *([tensor(FLOAT, weights)] if weighted else []), tensor(INT64, [5, 6])]
    path = write(tmp_path_factory.mktemp("d"), [tensors(*parts)])
    reader = Caffe2(path=path, label_type=3 if weighted else 1, num_labels=classes, additional_inputs=1)
    ((_, found, more),) = read(reader)
    expected = np.zeros(classes, "float32" if weighted or kind == FLOAT else "int32")
    expected[labels] = np.array(weights, "float32") if weighted else 1
    np.testing.assert_array_equal(found, expected, strict=True)
    assert more.tolist() == [5, 6]


@pytest.mark.parametrize(("record", "arguments", "told"), [
    (datum(None, 1), {}, "has no image"),
    (datum(None, 1) + b"\x35" + bytes(4), {}, "has floats for an image, which are not supported"),
    (datum(b"a"), {}, "has no label"),
    (datum(b"a", 1, False, (3, -1, 2)), {}, "has 1 bytes for a raw image of 3 channels, height -1 and width 2"),
    (datum(b"a", 1)[:-1], {}, "holds no Datum: it ends within a field"),
    (b"\x0b", {}, "holds no Datum: a field of wire type 3"),
])  # fmt: skip
def test_a_record_of_caffe_that_cannot_be_read_is_named(tmp_path, record, arguments, told):
    with pytest.raises(DataError, match=rf"sample 1 \(.*data\.mdb: key bytes b'00000001'\): {told}"):
        Caffe(path=write(tmp_path, [datum(b"a", 1), record]), **arguments)(2)
    reader = Caffe(path=tmp_path, on_error="skip", **arguments)
    assert len(read(reader)) == len(reader.skipped) == 1


@pytest.mark.parametrize(("record", "arguments", "told"), [
    (tensors(FILED), {}, "has 1 tensors, where 2 are asked for"),
    (tensors(FILED, tensor(INT32, [1, 2])), {}, r"has 2 labels, where one is asked for \(label_type=0\)"),
    (tensors(FILED, tensor(STRING, [b"a"])), {}, "the label should be of the type FLOAT or INT32; got STRING"),
    (tensors(FILED, tensor(FLOAT, [0.5])), {"label_type": 1}, "has label 0.5, where num_labels is 1"),
    (tensors(FILED, tensor(FLOAT, [float("nan")])), {"label_type": 1}, "has label nan, where num_labels is 1"),
    (tensors(FILED, tensor(INT32, [-1])), {"label_type": 1}, "has label -1, where num_labels is 1"),
    (tensors(FILED, tensor(INT32, [0]), tensor(FLOAT, [])), {"label_type": 3}, "has 0 weights for 1 labels"),
    (tensors(FILED, ONE, tensor(INT32, [1])), {"bbox": True}, "has a box of 1 numbers, where 4 are asked for"),
    (tensors(FILED, ONE, FILED), {"additional_inputs": 1}, "additional input 0 should be of the type FLOAT or"),
    (tensors(tensor(FLOAT, [1]), ONE), {}, "has an image of the type FLOAT, not STRING or BYTE"),
    (tensors(tensor(STRING, []), ONE), {}, "has no string for the image"),
    (tensors(tensor(BYTE, b"a", [2**62, 4, 4]), ONE), {}, r"has 1 bytes for a raw image of the dimensions \[4611"),
    (tensors(FILED, field(2, FLOAT) + field(3, b"abc")), {}, "holds no TensorProtos: a list of floats is cut off"),
])  # fmt: skip
def test_a_record_of_caffe2_that_cannot_be_read_is_named(tmp_path, record, arguments, told):
    with pytest.raises(DataError, match=rf"sample 0 \(.*data\.mdb: key bytes b'00000000'\): {told}"):
        Caffe2(path=write(tmp_path, [record]), **arguments)(1)


def test_what_a_batch_cannot_hold_is_named_or_left_out(tmp_path):
    write(tmp_path, [datum(b"ab", 1), datum(b"ab", 2, False, (1, 1, 2)), datum(b"cd", 3)])
    told = r"sample 1 .*output 0 is uint8 of 3 dimensions, where that of .*b'00000000' is uint8 of 1 dimensions"
    with pytest.raises(DataError, match=told):
        Caffe(path=tmp_path)(3)
    for batch_size in (1, 3):
        reader = Caffe(path=tmp_path, on_error="skip")
        assert [label.tolist() for _, label in read(reader, batch_size)] == [[1], [3]]


@pytest.mark.parametrize(("reader", "arguments", "told"), [
    (Caffe, {"path": "s3://bucket/db"}, "'path' must be a path on this machine, not an address"),
    (Caffe2, {"path": ["a", "s3://bucket/db"]}, r"'path\[1\]' must be a path on this machine, not an address"),
    (Caffe, {"path": []}, "'path' must be a path, or a list of at least one; got none"),
    (Caffe, {"path": "a", "image_available": False, "label_available": False}, "'label_available' must be True with"),
    (Caffe2, {"path": "a", "label_type": 5}, r"'label_type' must be an integer in \[0, 4\]"),
    (Caffe2, {"path": "a", "num_labels": 0}, "'num_labels' must be an integer in"),
    (Caffe2, {"path": "a", "label_type": 4, "image_available": False}, "'label_type' must be 0 to 3"),
])  # fmt: skip
def test_wrong_arguments_are_named(reader, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        reader(**arguments)


def test_a_database_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing: No such file"):
        Caffe(path=tmp_path / "nothing")
    with pytest.raises(ArgumentError, match="'path' must be databases with records; got none in"):
        Caffe(path=write(tmp_path / "empty", []))
    (tmp_path / "text").write_text("no database")
    with pytest.raises(DataError, match=r"text: is damaged: not an LMDB data file"):
        Caffe(path=tmp_path / "text")
    with pytest.raises(DataError, match="text: (is damaged: )?.*MDB_INVALID"):
        Caffe(path=tmp_path / "text", verify=False)


@pytest.mark.parametrize("verify", [False, True])
def test_a_database_that_is_cut_off_is_refused(tmp_path, verify):
    path = write(tmp_path, [datum(bytes(9000), i) for i in range(20)]) / "data.mdb"
    os.truncate(path, path.stat().st_size - 4096)
    with pytest.raises(DataError, match=r"data\.mdb: is (cut off|damaged)"):
        Caffe(path=tmp_path, verify=verify)


def test_two_readers_and_threads_share_a_database(tmp_path):
    write(tmp_path, [datum(b"%d" % i, i) for i in range(9)])
    first, second = Caffe(path=tmp_path), Caffe(path=[tmp_path, tmp_path])
    for mine, other in zip(first.next_epoch(9), second.next_epoch(9), strict=False):
        assert mine[1].tolist() == other[1].tolist() == [[i] for i in range(9)]


def test_a_database_that_is_open_elsewhere_in_the_process_is_told(tmp_path):
    write(tmp_path, [datum(b"a", 1)])
    with lmdb.open(str(tmp_path)), pytest.raises(DataError, match="is already open in this process"):
        Caffe(path=tmp_path)
    write(tmp_path, [datum(b"a", 1)] * 2)  # readers do not keep it open
    assert len(Caffe(path=tmp_path)) == 2


def test_a_forked_child_reads_on(tmp_path):
    reader = Caffe(path=write(tmp_path, [datum(b"%d" % i, i) for i in range(9)]))
    reader(2)
    if not (pid := os.fork()):
        os._exit(0 if reader(2)[1].tolist() == [[2], [3]] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert reader(2)[1].tolist() == [[2], [3]]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_bytes_that_were_changed_end_no_process(tmp_path):
    """Each file is read in a child; one that was ended by a signal would be told by its status."""
    write(tmp_path / "a", {b"%08d" % i: datum(bytes([i]) * (10 ** (i % 5)), i) for i in range(60)})
    stored = (tmp_path / "a" / "data.mdb").read_bytes()
    pages = [k for k in range(len(stored) // 4096) if stored[4096 * k + 10] in (1, 2, 8)]  # trees, and the beginning
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    chance = random.Random(5)
    for _ in range(24):
        changed = bytearray(stored)
        for _ in range(chance.choice([1, 1, 3])):
            at = 4096 * chance.choice(pages) + chance.randrange(chance.choice([40, 4096]))
            changed[at] = chance.choice([0, 255, chance.randrange(256)])
        (tmp_path / "b" / "data.mdb").write_bytes(changed)
        if not (pid := os.fork()):
            with contextlib.suppress(DataError, ArgumentError):
                read(Caffe(path=tmp_path / "b"))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
