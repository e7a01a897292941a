"""Readers of TFRecord files: what their features are, with and without an index, and records that are damaged."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import struct
import threading

import numpy as np
import pytest
from dali_oracle import DaliError, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import dynamic
from dynamic import Batch, dtypes, types
from dynamic.errors import ArgumentError, DataError, StateError
from dynamic.io import _bytes
from dynamic.readers import _example, _stored, tfrecord
from dynamic.readers.tfrecord import FixedLenFeature, TFRecord, VarLenFeature

NUMBER = {"string": 1, "float32": 2, "int64": 3}
LABEL = {"label": FixedLenFeature([1], "int64")}


# Records, as Protocol Buffers write them


def varint(value):
    value &= 2**64 - 1
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def a_list(kind, values, packed=True):
    """The list of a feature."""
    if kind == "string":
        return b"".join(field(1, value) for value in values)
    each = [varint(v) if kind == "int64" else np.float32(v).tobytes() for v in values]
    if packed:
        return field(1, b"".join(each)) if each else b""
    return b"".join((b"\x08" if kind == "int64" else b"\x0d") + value for value in each)


def feature(kind, values, packed=True):
    return field(NUMBER[kind], a_list(kind, values, packed))


def entry(name, data):
    return field(1, field(1, name.encode()) + field(2, data))


def example(**features):
    """A record of features that are stored so."""
    return field(1, b"".join(entry(name, data) for name, data in features.items()))


def labelled(label):
    return example(label=feature("int64", [label]))


def framed(record):
    """With the checksum of its length where it is empty, which tells it from zeros; nobody looks at the others."""
    return struct.pack("<QI", len(record), 0 if record else 0x07980329) + record + bytes(4)


def write(path, records):
    path.write_bytes(b"".join(map(framed, records)))
    return path


def index_of(path, index):
    """The index of a file, as DALI's script writes it."""
    data, at, lines = path.read_bytes(), 0, []
    while at < len(data):
        size = 16 + struct.unpack_from("<Q", data, at)[0]
        lines.append(f"{at} {size}\n")
        at += size
    index.write_text("".join(lines))
    return index


def outputs(reader, batch_size=3):
    """The samples of an epoch, a dict of arrays each."""
    return [dict(zip(batch, arrays, strict=True)) for batch in reader.next_epoch(batch_size)
            for arrays in zip(*(column.samples for column in batch.values()), strict=True)]  # fmt: skip


def labels(reader, batch_size=3):
    return [int(sample["label"][0]) for sample in outputs(reader, batch_size)]


def alike(found, expected):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert list(mine) == list(other)
        for name in mine:
            np.testing.assert_array_equal(mine[name], other[name], strict=True)


# What a message holds, found out step by step


class Damaged(Exception):
    pass


def number_at(data, at):
    for k in range(10):
        if at + k >= len(data):
            raise Damaged
        if data[at + k] < 0x80:
            return sum((data[at + i] & 0x7F) << 7 * i for i in range(k + 1)) % 2**64, at + k + 1
    raise Damaged


def fields(data):
    at, found = 0, []
    while at < len(data):
        tag, at = number_at(data, at)
        wire = tag & 7
        if wire not in (0, 1, 2, 5) or not tag >> 3 or tag >= 2**32:
            raise Damaged
        start = at
        if wire == 0:
            at = number_at(data, at)[1]
        elif wire == 2:
            size, start = number_at(data, at)
            at = start + size
        else:
            at += 8 if wire == 1 else 4
        if at > len(data):
            raise Damaged
        found.append((tag >> 3, wire, data[start:at]))
    return found


def reference(record, name, kind):
    """The values of a feature of a record, None where it is of another kind."""
    stored = b""
    for number, wire, features in fields(record):
        for n, w, data in fields(features) if (number, wire) == (1, 2) else ():
            if (n, w) == (1, 2):
                parts = fields(data)
                if ([b""] + [part for n, w, part in parts if (n, w) == (1, 2)])[-1] == name.encode():
                    stored = b"".join(part for n, w, part in parts if (n, w) == (2, 2))
    held, parts = 0, b""
    for number, wire, data in fields(stored):
        if wire == 2 and number in NUMBER.values():
            parts, held = (parts if number == held else b"") + data, number
    if parts and held != NUMBER[kind]:
        return None
    values = []
    for number, wire, data in fields(parts):
        if number != 1 or wire not in ((2,) if kind == "string" else (0, 2) if kind == "int64" else (2, 5)):
            continue
        at = 0
        while kind == "int64" and at < len(data):
            value, at = number_at(data, at)
            values.append(value if value < 2**63 else value - 2**64)
        if kind == "string":
            values.append(data)
        if kind == "float32":
            if len(data) % 4:
                raise Damaged
            values += np.frombuffer(data, "<f4").tolist()
    return values


# What is drawn

int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
float32s = st.floats(width=32, allow_nan=False)
kinds = st.sampled_from(["int64", "float32"])
names = st.sampled_from(["a", "label", "image/encoded", "ü" * 3, "", "n" * 140])


def values_of(kind, **sizes):
    return st.lists({"int64": int64s, "float32": float32s, "string": st.binary(max_size=200)}[kind], **sizes)


@st.composite
def data_sets(draw, whole=False):
    """Features that are asked for, and records with their values; in `whole` records none are missing."""
    features, kinds_of = {}, {}
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        kind = draw(kinds | st.just("string"))
        kinds_of[name] = kind
        shape = draw(st.lists(st.integers(1, 3), max_size=3))
        if kind == "string":
            features[name] = FixedLenFeature(draw(st.sampled_from([[], [1]])), kind, draw(st.binary(max_size=3)))
        elif draw(st.booleans()):
            default = draw(values_of(kind, min_size=1, max_size=1))[0]
            features[name] = FixedLenFeature(shape, kind, default)
        else:
            features[name] = VarLenFeature(shape, kind) if shape else VarLenFeature(kind)
    records = []
    for _ in range(draw(st.integers(1, 7))):
        values = {}
        for name, asked in features.items():
            if isinstance(asked, VarLenFeature):
                n = draw(st.integers(0, 4)) * int(np.prod(asked.partial_shape))
                n = 60 if n and not asked.partial_shape and draw(st.booleans()) else n
            else:
                n = 1 if asked.dtype == "string" else int(np.prod(asked.shape))
            if whole or draw(st.integers(0, 4)):
                values[name] = draw(values_of(kinds_of[name], min_size=n, max_size=n))
        records.append(values)
    return features, records


def stored(features, values, data):
    """A record of these values, written in one of several ways, among others that nobody asks for."""
    entries = [entry(name, feature(features[name].dtype, some, data.draw(st.booleans())))
               for name, some in values.items()]  # fmt: skip
    others = [entry("other", feature("float32", [1.0])), entry("bytes", feature("string", [b"x" * 200, b"y"])),
              entry("nothing", b""), field(7, b"unknown"), b"\x18\x96\x01"]  # fmt: skip
    entries += data.draw(st.lists(st.sampled_from(others), max_size=3))
    return field(1, b"".join(data.draw(st.permutations(entries))))


def arrays_of(features, values):
    """What should be read."""
    found = {}
    for name, asked in features.items():
        some, kind = values.get(name) or [], asked.dtype
        if kind == "string":
            found[name] = np.frombuffer(some[0] if some else asked.default_value, np.uint8)
        elif isinstance(asked, VarLenFeature):
            found[name] = np.array(some, kind).reshape(-1, *asked.partial_shape)
        else:
            found[name] = np.array(some or np.full(asked.shape, asked.default_value), kind).reshape(asked.shape)
    return found


@given(drawn=data_sets(), data=st.data(), indexed=st.booleans(), parts=st.integers(1, 3), batch_size=st.integers(1, 4))
def test_what_was_written_is_read(tmp_path_factory, drawn, data, indexed, parts, batch_size):
    features, records = drawn
    folder = tmp_path_factory.mktemp("d")
    split = [records[k * len(records) // parts : (k + 1) * len(records) // parts] for k in range(parts)]
    paths = [write(folder / f"{k}.rec", [stored(features, r, data) for r in some]) for k, some in enumerate(split)]
    index = {"index_path": [index_of(path, path.with_suffix(".idx")) for path in paths]} if indexed else {}
    reader = TFRecord(path=paths, features=features, **index)
    alike(outputs(reader, batch_size), [arrays_of(features, values) for values in records])
    batch = reader(1)
    assert {name: (type(b), b.dtype, b.layout) for name, b in batch.items()} == {
        name: (Batch, dtypes.uint8 if asked.dtype == "string" else dtypes.dtype(asked.dtype), None)
        for name, asked in features.items()
    }
    expected = [f"{k}.rec#{i}" for k, some in enumerate(split) for i in range(len(some))]
    reader.seek(0)
    assert [name for b in reader.next_epoch(2) for name in next(iter(b.values())).origin.names] == expected


@given(drawn=data_sets(), data=st.data(), seed=st.integers(0, 9))
def test_samples_are_the_same_in_any_order(tmp_path_factory, drawn, data, seed):
    """Records that follow each other are read at once, and others one by one."""
    features, records = drawn
    path = write(tmp_path_factory.mktemp("d") / "a", [stored(features, values, data) for values in records])
    reader = TFRecord(path=path, features=features, random_shuffle=True, seed=seed)
    for batch in reader.next_epoch(4):
        places = [int(name.rpartition("#")[2]) for name in next(iter(batch.values())).origin.names]
        found = [dict(zip(batch, row, strict=True)) for row in zip(*(b.samples for b in batch.values()), strict=True)]
        alike(found, [arrays_of(features, records[place]) for place in places])


@given(drawn=data_sets(whole=True), data=st.data(), shards=st.integers(1, 2))
def test_features_are_those_of_dali(dali: Oracle, tmp_path_factory, drawn, data, shards):
    features, records = drawn
    folder = tmp_path_factory.mktemp("d")
    path = write(folder / "a.tfrecord", [stored(features, values, data) for values in records])
    index = index_of(path, folder / "a.idx")
    arguments = {"path": str(path), "index_path": str(index), "num_shards": 1}
    theirs = of_dali(dali, features, len(records), **arguments)
    ours = next(TFRecord(features=features, **arguments).next_epoch(len(records)))
    assert list(ours) == list(theirs)
    for name, batch in ours.items():
        assert (str(batch.dtype), batch.layout) == (theirs[name].dtype, theirs[name].layout)
        for mine, other in zip(batch.samples, theirs[name].samples, strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)


def of_dali(dali, features, batch_size, **arguments):
    """The first batch that DALI reads."""
    words = []
    for name, asked in features.items():
        default = {"int64": 0, "float32": 0.0, "string": ""}[asked.dtype]
        kind, shape = (
            ("FixedLen", asked.shape) if isinstance(asked, FixedLenFeature) else ("VarLen", asked.partial_shape)
        )
        extents = f"{list(shape)}, " if shape or kind == "FixedLen" else ""
        words.append(f"{name!r}: t.{kind}Feature({extents}t.{asked.dtype}, {default!r})")
    return dali.script(
        "import nvidia.dali.tfrecord as t\n"
        f"reader = ndd.readers.TFRecord(**{arguments!r}, features={{{', '.join(words)}}})\n"
        f"result = dict(next(iter(reader.next_epoch(batch_size={batch_size}))))"
    )


RECORD = example(
    label=feature("int64", [7, -1, 300]), boxes=feature("float32", [1.5, -2.0]), image=feature("string", [b"\n\x05abc"])
)
WANTED = {
    "label": VarLenFeature("int64"),
    "boxes": VarLenFeature([2], "float32"),
    "image": FixedLenFeature([], "string", ""),
}


@given(flips=st.lists(st.tuples(st.integers(0, len(RECORD) - 1), st.integers(0, 255)), max_size=3),
       cut=st.integers(0, len(RECORD)) | st.just(len(RECORD)))  # fmt: skip
def test_a_damaged_record_is_refused_or_read_as_dali_reads_it(dali: Oracle, tmp_path_factory, flips, cut):
    folder = tmp_path_factory.mktemp("d")
    record = bytearray(RECORD)
    for place, value in flips:
        record[place] = value
    path = write(folder / "a", [bytes(record[:cut])])
    index = index_of(path, folder / "a.idx")
    features = {name: asked for name, asked in WANTED.items() if name != "image"}  # of a wrong kind it crashes DALI
    try:
        mine = TFRecord(path=path, features=features)(1)
    except DataError:
        return
    try:
        theirs = of_dali(dali, features, 1, path=str(path), index_path=str(index))
    except DaliError:
        return
    for name, batch in mine.items():
        if theirs[name].samples[0].ndim:  # else it is missing
            np.testing.assert_array_equal(batch.samples[0], theirs[name].samples[0], strict=True)
        else:
            assert not batch.samples[0].size


# The wire format


pieces = st.recursive(
    st.sampled_from([b"", b"\x08\x01", b"\x08", b"\x0a", b"\x00", b"\xff" * 9 + b"\x01", b"\xff" * 10 + b"\x01",
                     b"\x0d\x00\x00\x80\x3f", b"\x19" + bytes(8), b"\x13", b"\x14", b"\x17", b"\x80\x80\x00", b"label",
                     b"\x0a\x05label", b"\x8a\x80\x00\x02\x05\x06", b"\xff" * 5]) | st.binary(max_size=6),
    lambda inner: st.builds(field, st.integers(1, 4), st.lists(inner, max_size=4).map(b"".join)), max_leaves=20,
)  # fmt: skip
lists = st.one_of(st.builds(a_list, st.just(kind), values_of(kind, max_size=9), st.booleans()) for kind in NUMBER)
stored_lists = st.builds(field, st.integers(1, 4), st.lists(lists | pieces, max_size=3).map(b"".join))
entries = st.builds(
    lambda *parts: field(1, b"".join(parts)),
    st.sampled_from([field(1, b"label"), field(1, b"other"), b"", b"\x0a\x05lab"]),
    st.builds(field, st.just(2), st.lists(stored_lists | pieces, max_size=2).map(b"".join)),
    pieces,
)
examples = st.lists(
    st.builds(field, st.just(1), st.lists(entries | pieces, max_size=4).map(b"".join)) | pieces, min_size=1, max_size=2
).map(b"".join)


def read_by_us(record, name, kind):
    column = _example.columns(
        "t", {name: FixedLenFeature([], kind, "none") if kind == "string" else VarLenFeature(kind)}
    )[0]
    view = memoryview(record)
    return _example.values(column, _example.stored_features(view, {name.encode()}).get(name.encode()))


def read_as_the_reference(record, kind):
    """Whether a record was read as it should, or refused as it should."""
    try:
        expected = reference(record, "label", kind)
    except Damaged:
        expected = None
    try:
        found = read_by_us(record, "label", kind)
    except tfrecord.Unusable:
        assert expected is None or (kind == "string" and len(expected) > 1)
        return
    if expected is None:  # it is damaged where nobody looked
        return
    if kind == "string":
        expected = [np.frombuffer(value, np.uint8) for value in expected] or [np.frombuffer(b"none", np.uint8)]
        assert len(expected) == 1
        np.testing.assert_array_equal(found, expected[0], strict=True)
    else:
        np.testing.assert_array_equal(found, np.array(expected, kind), strict=True)


@given(record=examples | st.binary(max_size=30), kind=st.sampled_from(sorted(NUMBER)))
def test_any_message_is_read_as_protocol_buffers_are(record, kind):
    read_as_the_reference(record, kind)


@pytest.mark.parametrize("kind", sorted(NUMBER))
@pytest.mark.parametrize("packed", [True, False])
def test_every_truncation_and_every_changed_byte_of_a_record(kind, packed):
    values = {"int64": [1, -1, 300], "float32": [1.0, 2.5], "string": [b"abcd"]}[kind]
    record = example(
        first=feature("int64", [3]), label=feature(kind, values, packed), last=feature("string", [b"x" * 130])
    )
    for cut in range(len(record)):
        with pytest.raises(tfrecord.Unusable):
            if not cut:
                raise tfrecord.Unusable  # an empty record is one without features
            read_by_us(record[:cut], "label", kind)
    for place, value in itertools.product(range(len(record) - 120), (0, 1, 0x0A, 0x12, 0x13, 0x7F, 0x80, 0xFF)):
        changed = bytearray(record)
        changed[place] = value
        read_as_the_reference(bytes(changed), kind)


@given(values=st.lists(st.sampled_from([1, -1, 127, 128, 2**31, 2**63 - 1, -(2**63)]) | int64s, max_size=80))
def test_many_numbers_are_read_at_once(values):
    for packed in (True, False):
        found = read_by_us(example(label=feature("int64", values, packed)), "label", "int64")
        assert found.tolist() == values


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize(("data", "told"), [
    (b"\x80", "ends within a field"), (b"\xff" * 9 + b"\x80\x00", "more than 10 bytes"),
    (b"\xff" * 11, "ends within|more than 10")])  # fmt: skip
def test_numbers_that_cannot_be_are_refused(n, data, told):
    record = example(label=field(3, field(1, b"\x05" * (n - 1) + data)))
    with pytest.raises(tfrecord.Unusable, match=told):
        read_by_us(record, "label", "int64")


@pytest.mark.parametrize(("record", "expected"), [
    (example(label=feature("int64", [1]) + feature("int64", [2])), [1, 2]),
    (example(label=feature("int64", [1]) + feature("float32", [2]) + feature("int64", [3])), [3]),
    (example(label=feature("float32", [1]) + feature("int64", [3])), [3]),
    (labelled(1) + example(other=b"") + labelled(2), [2]),
    (field(1, entry("label", feature("int64", [1, 2])) + entry("label", feature("int64", [3]))), [3]),
    (field(1, entry("label", feature("int64", [1])) + entry("label", b"")), []),
    (field(1, field(1, field(2, feature("int64", [1])) + field(1, b"label") + field(2, feature("int64", [2])))),
     [1, 2]),
    (field(1, field(1, field(1, b"old") + field(1, b"label") + field(2, feature("int64", [4])))), [4]),
    (field(1, field(1, b"\x08\x01" + field(1, b"label") + field(2, feature("int64", [4])))), [4]),
    (field(1, field(1, b"\x10\x1a" + field(1, b"label") + field(2, feature("int64", [4])) + b"\x10\x05")), [4]),
    (b"\x10\x05\x25abcd\x19abcdefgh" + labelled(6), [6]),
    (example(label=field(3, field(1, b"\x01\x02") + b"\x08\x07" + field(1, b"\x03"))), [1, 2, 7, 3]),
    (example(label=field(3, b"\x0dabcd\x08\x05")), [5]),
    (example(label=field(3, field(1, b"\x81\x80\x80\x00"))), [1]),
    (example(label=field(3, field(1, b"\xff" * 9 + b"\x7f"))), [-1]),
    (example(label=b""), []), (example(), []), (b"", []), (example(label=feature("float32", [])), []),
])  # fmt: skip
def test_what_writers_may_do(record, expected, tmp_path):
    reader = TFRecord(path=write(tmp_path / "a", [record]), features={"label": VarLenFeature("int64", 0)})
    assert outputs(reader)[0]["label"].tolist() == expected
    assert reference(record, "label", "int64") == expected


def test_a_name_of_no_bytes_is_one(tmp_path):
    record = field(1, field(1, field(2, feature("int64", [4]))))
    assert outputs(TFRecord(path=write(tmp_path / "a", [record]), features={"": VarLenFeature("int64")}))[0][""] == [4]


def test_names_and_values_may_be_of_any_length():
    for name in ("n", "n" * 9, "n" * 127, "n" * 128):
        for size in (*range(1, 300), *range(1200, 1400), 20_000):
            assert len(read_by_us(example(**{name: feature("string", [bytes(size)])}), name, "string")) == size


@pytest.mark.parametrize("broken", [
    b"\x02\x00", b"\x00\x00", b"\x13\x14", b"\x14", b"\x16\x00", b"\x17\x00", b"\x82\x80\x80\x80\x10\x00",
    b"\xff" * 10, b"\x0a", b"\x08", b"\x0d\x00", b"\x0a\x01", b"\x0a" + b"\xff" * 9 + b"\x01"])  # fmt: skip
def test_a_message_that_cannot_be_is_refused_where_it_is_looked_at(broken):
    value, named = feature("int64", [1]), field(1, b"label")
    for record in (labelled(1) + broken, field(1, entry("label", value) + broken),
                   field(1, field(1, named + broken + field(2, value))), example(label=value + broken),
                   example(label=field(3, a_list("int64", [1]) + broken))):  # fmt: skip
        with pytest.raises(tfrecord.Unusable):
            read_by_us(record, "label", "int64")


@pytest.mark.parametrize(("stored", "kind"), [
    (field(2, field(1, bytes(5))), "float32"), (field(2, field(1, bytes(3)) + field(1, bytes(5))), "float32"),
    (field(3, field(1, b"\x81") + field(1, b"\x01")), "int64"), (field(3, field(1, b"\x81") + b"\x08\x01"), "int64"),
])  # fmt: skip
def test_parts_of_numbers_are_refused(stored, kind):
    with pytest.raises(tfrecord.Unusable):
        read_by_us(example(label=stored), "label", kind)


def test_many_parts_take_no_longer_each(tmp_path):
    """A quadratic step would take minutes."""
    n = 60_000
    lots = [example(label=feature("int64", [1]) * n), example(label=feature("float32", [1]) * n),
            field(1, field(1, field(1, b"label") + field(2, feature("int64", [1])) * n)), labelled(1) * n,
            field(1, entry("label", feature("int64", [1])) * n)]  # fmt: skip
    reader = TFRecord(path=write(tmp_path / "a", lots), features={"label": VarLenFeature("int64")}, on_error="skip")
    assert [len(sample["label"]) for sample in outputs(reader, 9)] == [n, n, 1, 1]
    assert [failure.index for failure in reader.skipped] == [1]


# Features


@pytest.mark.parametrize(("features", "told"), [
    ({"a": FixedLenFeature([2], "int64", 0)}, r"feature 'a' has 3 values, where the shape \[2\] needs 2"),
    ({"a": FixedLenFeature([], "int64", 0)}, r"feature 'a' has 3 values, where the shape \[\] needs 1"),
    ({"a": FixedLenFeature([2, 2], "int64", 0)}, r"feature 'a' has 3 values, where the shape \[2, 2\] needs 4"),
    ({"a": FixedLenFeature([0], "int64", 0)}, "feature 'a' has 3 values, where"),
    ({"a": VarLenFeature([2], "int64", 0)}, r"feature 'a' has 3 values, where the shape \[2\] needs a multiple of 2"),
    ({"a": VarLenFeature("float32", 0)}, "feature 'a' holds int64, where float32 is asked for"),
    ({"a": FixedLenFeature([], "string", "")}, "feature 'a' holds int64, where string is asked for"),
    ({"s": FixedLenFeature([2], "int64", 0)}, "feature 's' holds string, where int64 is asked for"),
    ({"l": FixedLenFeature([], "string", "")}, "feature 'l' has 3 strings, where one is asked for"),
    ({"l": FixedLenFeature([1], "string")}, "feature 'l' has 3 strings, where one is asked for"),
    ({"m": FixedLenFeature([2], "int64")}, "has no feature 'm', which has no default value"),
    ({"e": FixedLenFeature([], "string")}, "has no feature 'e', which has no default value"),
])  # fmt: skip
def test_a_record_that_is_not_as_asked_for_is_named(tmp_path, features, told):
    good = {name: feature(f.dtype, [b"x"] if f.dtype == "string" else [1] * int(np.prod(getattr(f, "shape", None) or
            getattr(f, "partial_shape", [])))) for name, f in features.items()}  # fmt: skip
    bad = example(a=feature("int64", [1, 2, 3]), s=feature("string", [b"x"]), e=feature("string", []),
                  l=feature("string", [b"ab", b"", b"c"]))  # fmt: skip
    path = write(tmp_path / "a.tfrecord", [example(**good), bad, example(**good)])
    with pytest.raises(DataError, match=rf"1 of 3 .*\n  sample 1 \(.*a\.tfrecord: record 1\): {told}"):
        TFRecord(path=path, features=features)(3)
    skipping = TFRecord(path=path, features=features, on_error="skip")
    assert len(outputs(skipping)) == 2
    assert [failure.source for failure in skipping.skipped] == [f"{path}: record 1"]
    skipping.seek(1)
    ((batch,),) = (b.values() for b in itertools.islice(skipping.next_epoch(1), 1))
    column = _example.columns("t", features)[0]
    assert (len(batch), batch.dtype, batch.ndim) == (0, column.dtype, column.ndim)
    assert len(outputs(TFRecord(path=path, features=features, on_error="replace"))) == 3


def test_a_feature_that_is_missing_is_its_default(tmp_path):
    features = {"one": FixedLenFeature([1], "int64", -7), "all": FixedLenFeature([2, 1], "float32", [1, 2.5]),
                "scalar": FixedLenFeature([], "float32", 0), "s": FixedLenFeature([], "string", "né"),
                "var": VarLenFeature([2], "int64", 5), "none": FixedLenFeature([0], "int64")}  # fmt: skip
    nothing = field(3, field(1, b""))
    path = write(tmp_path / "a", [b"", example(one=b"", all=feature("float32", []), s=feature("string", [])),
                                  example(one=nothing, var=nothing, none=nothing)])  # fmt: skip
    for sample in outputs(TFRecord(path=path, features=features)):
        alike([sample], [{"one": np.int64([-7]), "all": np.float32([[1], [2.5]]), "scalar": np.float32(0)[...],
                          "s": np.frombuffer("né".encode(), np.uint8), "var": np.empty((0, 2), np.int64),
                          "none": np.empty(0, np.int64)}])  # fmt: skip


def test_samples_without_a_feature_do_not_share_their_default(tmp_path):
    path = write(tmp_path / "a", [b"", b""])
    first, second = TFRecord(path=path, features={"s": FixedLenFeature([], "string", "abc")})(2)["s"].samples
    assert not np.shares_memory(first, second)


def test_several_strings_are_refused_where_dali_takes_the_first(dali: Oracle, tmp_path):
    path = write(tmp_path / "a", [example(s=feature("string", [b"ab", b"cde"])), example(s=feature("string", [b""]))])
    features = {"s": FixedLenFeature([], "string", "")}
    theirs = of_dali(dali, features, 2, path=str(path), index_path=str(index_of(path, tmp_path / "i")))
    assert [s.tobytes() for s in theirs["s"].samples] == [b"ab", b""]
    ours = outputs(TFRecord(path=path, features=features, on_error="skip"))
    assert [s["s"].tobytes() for s in ours] == [b""]


@given(kind=st.sampled_from(sorted(NUMBER)), shape=st.lists(st.integers(0, 3), max_size=3), n=st.integers(0, 28),
       default=st.booleans(), packed=st.booleans())  # fmt: skip
def test_a_shape_takes_as_many_values_as_it_has_or_the_default(kind, shape, n, default, packed):
    """Of any kind; nothing is left out and nothing made up."""
    wanted = int(np.prod(shape))
    values = [b"%d" % i for i in range(n)] if kind == "string" else np.arange(n).astype(kind).tolist()
    missing = {"string": "none", "int64": -1, "float32": -1.0}[kind] if default else None
    if kind == "string" and wanted != 1:
        with pytest.raises(ArgumentError, match="'shape' must be a shape of one element"):
            FixedLenFeature(shape, kind, missing)
        return
    (column,) = _example.columns("t", {"a": FixedLenFeature(shape, kind, missing)})
    stored = feature(kind, values, packed)
    if n == wanted and n:
        expected = np.frombuffer(values[0], np.uint8) if kind == "string" else np.array(values, kind).reshape(shape)
        np.testing.assert_array_equal(_example.values(column, memoryview(stored)), expected, strict=True)
    elif not n and (default or not wanted):
        expected = np.frombuffer(b"none", np.uint8) if kind == "string" else np.full(shape, missing or 0, kind)
        np.testing.assert_array_equal(_example.values(column, memoryview(stored)), expected, strict=True)
    else:
        with pytest.raises(tfrecord.Unusable, match="has no feature 'a'|feature 'a' has"):
            _example.values(column, memoryview(stored))


@pytest.mark.parametrize("word", [
    "int64", "i64", tfrecord.int64, dynamic.int64, np.int64, np.dtype("int64"), types.DALIDataType.INT64,
    0])  # fmt: skip
def test_dtypes_may_be_told_in_many_ways(word):
    assert VarLenFeature(word, 0) == VarLenFeature("int64", 0) == VarLenFeature(dtype=word, default_value=0)
    assert FixedLenFeature((1,), word) == FixedLenFeature([1], "int64", None)
    assert VarLenFeature([2], word).dtype == "int64"


@pytest.mark.parametrize(
    "word", ["float32", "f32", tfrecord.float32, np.float32, dynamic.float32, types.DALIDataType.FLOAT, 2]
)
def test_a_float_may_be_told_in_many_ways(word):
    assert FixedLenFeature(np.array([2, 3]), word, 1.0) == FixedLenFeature([2, 3], "float32", 1.0)


def record_type(name, *attributes):
    return dataclasses.make_dataclass(name, attributes, frozen=True)


def test_features_of_tensorflow_are_understood(tmp_path):
    fixed = record_type("FixedLenFeature", "shape", "dtype", "default_value")
    var = record_type("VarLenFeature", "dtype")
    sparse = record_type("SparseFeature", "index_key", "value_key", "dtype", "size")
    kind = record_type("DType", "name")
    path = write(tmp_path / "a", [example(s=feature("string", [b"x"]), v=feature("float32", [1, 2]))])
    features = {"s": fixed([], kind("string"), None), "v": var(kind("float32"))}
    found = outputs(TFRecord(path=path, features=features))[0]
    assert (found["s"].tobytes(), found["v"].tolist()) == (b"x", [1, 2])
    with pytest.raises(
        ArgumentError, match=r"argument \"features\['s'\]\" must be a FixedLenFeature or a VarLenFeature"
    ):
        TFRecord(path=path, features={"s": sparse("i", "v", kind("int64"), 3)})


def test_features_of_dali_are_refused_with_what_to_do(tmp_path):
    class Feature:
        pass

    with pytest.raises(ArgumentError, match="import FixedLenFeature from here"):
        TFRecord(path=write(tmp_path / "a", [b""]), features={"s": Feature()})


@pytest.mark.parametrize(("made", "told"), [
    (lambda: FixedLenFeature(1, "int64"), r"FixedLenFeature\(\): argument 'shape' must be a list of extents; got int"),
    (lambda: FixedLenFeature([-1], "int64"), r"argument 'shape\[0\]' must be an integer of 0 or more; got int -1"),
    (lambda: FixedLenFeature([True], "int64"), r"argument 'shape\[0\]' must be an integer"),
    (lambda: FixedLenFeature([1 << 20, 1 << 20], "int64", 0), "argument 'shape' must be at most 32 extents"),
    (lambda: FixedLenFeature([1] * 33, "int64", 0), "argument 'shape' must be at most 32 extents"),
    (lambda: FixedLenFeature("1", "int64"), "argument 'shape' must be a list"),
    (lambda: FixedLenFeature(np.array(1), "int64"), "argument 'shape' must be a list"),
    (lambda: FixedLenFeature([], "int32"), "argument 'dtype' must be 'int64', 'float32' or 'string'; got str"),
    (lambda: FixedLenFeature([], types.DALIDataType.UINT8), "argument 'dtype' must be"),
    (lambda: FixedLenFeature([], True), "argument 'dtype' must be"),
    (lambda: FixedLenFeature([], 3), "argument 'dtype' must be"),
    (lambda: FixedLenFeature([], None), "argument 'dtype' must be"),
    (lambda: FixedLenFeature([], "string", 0), "argument 'default_value' must be a string; got int 0"),
    (lambda: FixedLenFeature([], "string", "\ud800"), "argument 'default_value' must be a string"),
    (lambda: FixedLenFeature([], "int64", 0.5), "argument 'default_value' must be one int64, or 1 for the shape"),
    (lambda: FixedLenFeature([], "int64", 2**63), "argument 'default_value' must be one int64"),
    (lambda: FixedLenFeature([3], "float32", [1, 2]), "argument 'default_value' must be one float32, or 3 for the"),
    (lambda: FixedLenFeature([3], "float32", [[1], [2, 3]]), "argument 'default_value' must be one float32"),
    (lambda: FixedLenFeature([], "float32", "0"), "argument 'default_value' must be one float32"),
    (lambda: FixedLenFeature([2], "string", ""), "argument 'shape' must be a shape of one element"),
    (lambda: VarLenFeature("string", ""), "argument 'dtype' must be 'int64' or 'float32'; got 'string'. A string"),
    (lambda: VarLenFeature([0], "int64", 0), r"argument 'partial_shape\[0\]' must be an integer of 1 or more"),
    (lambda: VarLenFeature(2, "int64", 0), "argument 'partial_shape' must be a list of extents; got int 2"),
    (lambda: VarLenFeature(), "argument 'dtype' must be"),
    (lambda: VarLenFeature([2]), "argument 'dtype' must be"),
])  # fmt: skip
def test_wrong_features_are_named(made, told):
    with pytest.raises(ArgumentError, match=told):
        made()


@pytest.mark.parametrize(("arguments", "told"), [
    ({"path": []}, "argument 'path' must be a path, or a list of at least one"),
    ({"path": 3}, "argument 'path' must be a path"),
    ({"path": ["a", 3]}, r"argument 'path\[1\]' must be a path; got int 3"),
    ({"index_path": ["a", "b"]}, "argument 'index_path' must be one for each of the 1 files; got 2 paths"),
    ({"index_path": 3}, "argument 'index_path' must be a path"),
    ({"features": {}}, "argument 'features' must be a dict from names to features; got dict {}"),
    ({"features": ["label"]}, "argument 'features' must be a dict from names to features"),
    ({"features": {3: VarLenFeature("int64")}}, "argument 'features' must be a dict whose keys are names; got the key"),
    ({"features": {"\ud800": VarLenFeature("int64")}}, "argument 'features' must be a dict whose keys are names"),
    ({"features": {"a": "int64"}}, r"argument \"features\['a'\]\" must be a FixedLenFeature or a VarLenFeature"),
    ({"use_o_direct": 1}, "argument 'use_o_direct' must be True or False"),
    ({"feature": 1}, "has no argument 'feature'. Did you mean 'features'"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    write(tmp_path / "a", [labelled(1)])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"readers\.TFRecord\(\):? {told}"):
        TFRecord(**({"path": "a", "features": LABEL} | arguments))


def test_no_index_is_none_or_an_empty_list(tmp_path):
    path = write(tmp_path / "a", [labelled(1)])
    assert labels(TFRecord(path=str(path), features=LABEL, index_path=[], use_o_direct=None)) == [1]


# Files


def test_records_are_named_by_file_and_number_wherever_the_folder_is(tmp_path):
    (tmp_path / "here" / "more").mkdir(parents=True)
    paths = ["here/b.rec", "here/more/a.rec"]
    for k, path in enumerate(paths):
        write(tmp_path / path, [labelled(2 * k), labelled(2 * k + 1)])
    reader = TFRecord(path=[tmp_path / path for path in paths], features=LABEL)
    assert next(reader.next_epoch(4))["label"].origin.names == ["b.rec#0", "b.rec#1", "more/a.rec#0", "more/a.rec#1"]
    (tmp_path / "here").rename(tmp_path / "there")
    moved = TFRecord(path=[tmp_path / path.replace("here", "there") for path in paths], features=LABEL)
    moved.set_state(json.loads(json.dumps(reader.get_state())))
    moved.seek(0)
    index = [index_of(tmp_path / p.replace("here", "there"), tmp_path / f"{k}.idx") for k, p in enumerate(paths)]
    indexed = TFRecord(path=[tmp_path / p.replace("here", "there") for p in paths], features=LABEL, index_path=index)
    assert indexed.get_state() == moved.get_state()  # a run may go on with an index, or without


def test_an_empty_file_among_others_has_no_records(tmp_path):
    paths = [write(tmp_path / name, some) for name, some in [("a", []), ("b", [labelled(1)]), ("c", [])]]
    assert labels(TFRecord(path=paths, features=LABEL)) == [1]
    with pytest.raises(ArgumentError, match=r"argument 'path' must be files with records; got none in .*a"):
        TFRecord(path=paths[0], features=LABEL)


@pytest.mark.parametrize("indexed", [True, False])
def test_zeros_are_no_records(tmp_path, indexed):
    """As where a file was given its size and never written to, or lost what was in it."""
    path = tmp_path / "a"
    path.write_bytes(bytes(1 << 20))
    arguments = {"path": path, "features": {"label": FixedLenFeature([1], "int64", -1)}}
    if indexed:
        (tmp_path / "i").write_text("".join(f"{16 * i} 16\n" for i in range(9)))
        with pytest.raises(DataError, match=r"9 of 9 .*\n  sample 0 \(.*a: record 0\): is of zeros"):
            TFRecord(**arguments, index_path=tmp_path / "i")(9)
        return
    with pytest.raises(DataError, match="a: record 0, at byte 0 of 1048576, is of zeros: nothing was written there"):
        TFRecord(**arguments)
    path.write_bytes(framed(labelled(1)) + framed(b"") + bytes(64))
    with pytest.raises(DataError, match="record 2, at byte .*, is of zeros"):
        TFRecord(**arguments)


def test_every_truncation_of_a_file_is_refused_unless_it_is_between_records(tmp_path):
    records = [labelled(k) for k in range(3)]
    whole = write(tmp_path / "a", records).read_bytes()
    ends = np.cumsum([16 + len(record) for record in records]).tolist()
    for size in range(1, len(whole)):
        (tmp_path / "cut").write_bytes(whole[:size])
        if size in ends:
            assert labels(TFRecord(path=tmp_path / "cut", features=LABEL)) == list(range(ends.index(size) + 1))
        else:
            with pytest.raises(DataError, match=rf"cut: record \d, at byte \d+ of {size}, is damaged or cut off"):
                TFRecord(path=tmp_path / "cut", features=LABEL)


@given(place=st.integers(0, 99), value=st.integers(0, 255))
def test_a_file_with_a_changed_byte_is_refused_or_read(tmp_path_factory, place, value):
    path = write(tmp_path_factory.mktemp("d") / "a.rec", [labelled(k) for k in range(3)])
    whole = bytearray(path.read_bytes())
    whole[place % len(whole)] = value
    path.write_bytes(whole)
    try:
        found = labels(TFRecord(path=path, features=LABEL), 1)
    except DataError as error:
        told = str(error)
        assert "a.rec" in told
    else:
        assert len(found) == 3


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**64 - 16, 2**32, 31])
def test_a_length_that_cannot_be_is_refused(tmp_path, size):
    (tmp_path / "a").write_bytes(struct.pack("<QI", size, 0) + labelled(1) + bytes(4))
    with pytest.raises(DataError, match="a: record 0, at byte 0 of 34, is damaged or cut off"):
        TFRecord(path=tmp_path / "a", features=LABEL)


def test_what_is_no_file_of_records_is_refused_by_name(tmp_path):
    (tmp_path / "gz").write_bytes(b"\x1f\x8b\x08" + b"\x08" * 40)
    for path, told in [("none", "No such file"), ("gz", "is compressed, which is not supported"), (".", "directory")]:
        with pytest.raises(DataError, match=told):
            TFRecord(path=tmp_path / path, features=LABEL)
        write(tmp_path / "i", [])
        if path != "gz":
            with pytest.raises(DataError, match=told):
                TFRecord(path=tmp_path / path, features=LABEL, index_path=tmp_path / "i")
    with pytest.raises(DataError, match="no.idx: No such file"):
        TFRecord(path=write(tmp_path / "a", [labelled(1)]), features=LABEL, index_path=tmp_path / "no.idx")


@pytest.mark.parametrize(("text", "told"), [
    ("x y\n", r"line 1 should be an offset and a size; got bytes b'x y'"),
    ("0 30\n30\n", "line 2 should be an offset and a size"),
    ("0 30 7\n", "line 1 should be"),
    ("-3 30\n", "line 1 should be"),
    ("0 1e1\n", "line 1 should be"),
    ("9999999999999999999 30\n", "line 1 should be"),
    ("0 9999\n", "line 1: there is no record of 9999 bytes from byte 0 on in .*a"),
    ("\n999999999999999999 999999999999999999\n", "line 2: there is no record"),
    ("34 35\n", "line 1: there is no record of 35 bytes from byte 34 on"),
    ("0 15\n", "line 1: there is no record of 15 bytes"),
    ("0 0\n", "line 1: there is no record of 0 bytes"),
])  # fmt: skip
def test_an_index_that_does_not_fit_is_refused(tmp_path, text, told):
    path = write(tmp_path / "a", [labelled(1), labelled(2)])
    (tmp_path / "a.idx").write_text(text)
    with pytest.raises(DataError, match=rf"a\.idx: {told}"):
        TFRecord(path=path, features=LABEL, index_path=tmp_path / "a.idx")


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError, match="fifo: is a fifo, not a regular file"):
        TFRecord(path=tmp_path / "fifo", features=LABEL)
    with pytest.raises(DataError, match="fifo: is a fifo, not a regular file"):
        TFRecord(path=write(tmp_path / "a", [labelled(1)]), features=LABEL, index_path=tmp_path / "fifo")


def test_an_index_that_lists_no_records_is_refused(tmp_path):
    (tmp_path / "a.idx").write_text("\n \n")
    with pytest.raises(ArgumentError, match="files with records"):
        TFRecord(path=write(tmp_path / "a", [labelled(1)]), features=LABEL, index_path=tmp_path / "a.idx")


@pytest.mark.parametrize("line", ["0 {}", "3 {}", "{} {}"])
def test_an_index_of_another_file_is_told_by_the_record(tmp_path, line):
    path = write(tmp_path / "a", [labelled(1), labelled(2)])
    (tmp_path / "a.idx").write_text(line.format(33, 33))
    with pytest.raises(DataError, match=r"a: record 0\): has \d+ bytes of data, where 17 were listed"):
        TFRecord(path=path, features=LABEL, index_path=tmp_path / "a.idx")(1)


def test_an_index_says_which_records_are_read_and_in_what_order(dali: Oracle, tmp_path):
    path = write(tmp_path / "a", [labelled(k) for k in range(4)])
    lines = index_of(path, tmp_path / "a.idx").read_text().splitlines()
    (tmp_path / "a.idx").write_text("\r\n\n".join([lines[k] for k in (3, 1, 2, 1)]))
    reader = TFRecord(path=path, features=LABEL, index_path=[tmp_path / "a.idx"])
    assert labels(reader, 4) == [3, 1, 2, 1]
    theirs = of_dali(dali, LABEL, 4, path=str(path), index_path=str(tmp_path / "a.idx"))
    assert [int(label[0]) for label in theirs["label"].samples] == [3, 1, 2, 1]


def test_a_file_that_was_cut_off_after_it_was_listed_is_told(tmp_path):
    path = write(tmp_path / "a", [labelled(k) for k in range(4)])
    reader = TFRecord(path=path, features=LABEL)
    path.write_bytes(path.read_bytes()[:80])
    for on_error in ("raise", "skip", "replace"):
        reader._on_error = on_error
        with pytest.raises(DataError, match=r"a: record 0\): is no more the file that was listed: .* of 80 bytes"):
            reader(4)


def test_large_records_are_read_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(_stored, "_SLOW", 10.0)
    records = [example(label=feature("int64", [k]), image=feature("string", [bytes(100 * k)])) for k in range(6)]
    path = write(tmp_path / "a", records)
    features = LABEL | {"image": FixedLenFeature([], "string", "")}
    expected = outputs(TFRecord(path=path, features=features), 6)
    parts = []
    real = _bytes._filled_from

    def counted(data, descriptor, start):
        parts.append(len(data))
        return real(data, descriptor, start)

    monkeypatch.setattr(_bytes, "_filled_from", counted)
    for most, calls in [(0, 6), (450, 5), (1000, 4), (1 << 20, 2)]:  # the first of a batch is read alone
        monkeypatch.setattr(_bytes, "_AT_ONCE", most)
        parts.clear()
        alike(outputs(TFRecord(path=path, features=features), 6), expected)
        assert (len(parts), sum(parts)) == (calls, path.stat().st_size)


@given(drawn=data_sets(), data=st.data())
def test_records_at_once_are_those_one_by_one(drawn, data):
    """Of whatever layout, and damaged or cut off."""
    features, records = drawn
    if data.draw(st.booleans()):
        records = records[:1] * len(records)
    choice = st.integers(0, 2**32).map(random.Random)
    written = [bytearray(stored(features, values, data)) for values in records]
    for record in written:
        chance = data.draw(choice)
        if record and chance.random() < 0.3:
            record[chance.randrange(len(record))] = chance.choice([0, 1, 10, 18, 127, 128, 255])
        if chance.random() < 0.1:
            del record[chance.randrange(len(record) + 1) :]
    between = data.draw(st.binary(max_size=3))
    memory = np.frombuffer(bytearray(between + b"".join(bytes(record) + between for record in written)), np.uint8)
    ends = np.cumsum([len(record) + len(between) for record in written])
    starts = ends - [len(record) for record in written]
    asked = _example.columns("test", features)
    found = _example.plain_rows(memory, starts, ends, asked) if len(memory) else []
    for row, record in zip(found, written, strict=False):
        if row is None:
            continue
        alone = _example.stored_features(memoryview(record), [column.stored_name for column in asked])
        for value, column in zip(row, asked, strict=True):
            expected = _example.values(column, alone.get(column.stored_name))
            value = np.full(column.shape, value, column.dtype) if isinstance(value, int) else value
            np.testing.assert_array_equal(value, expected, strict=True)


def test_records_of_one_layout_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(_stored, "_SLOW", 10.0)
    made = [(k % 128, bytes(100 * k + 1)) for k in range(300)]
    records = [example(label=feature("int64", [k]), image=feature("string", [image])) for k, image in made]
    path = write(tmp_path / "a", records)
    alone = []
    real = _example.stored_features
    monkeypatch.setattr(tfrecord, "stored_features", lambda *record: alone.append(1) or real(*record))
    found = outputs(TFRecord(path=path, features=LABEL | {"image": FixedLenFeature([], "string", "")}), 300)
    assert [(int(one["label"][0]), len(one["image"])) for one in found] == [(k, len(image)) for k, image in made]
    assert len(alone) == 1  # the first of the batch


def test_records_may_be_read_on_several_threads(tmp_path, monkeypatch):
    """Where files are slow to come; nothing may then wait for the reader's own lock."""
    path = write(tmp_path / "a", [labelled(k) for k in range(8)])
    threads = set()

    def slow(*arguments):
        threads.add(threading.get_ident())
        threading.Event().wait(0.003)
        return tfrecord_record(*arguments)

    tfrecord_record = tfrecord._record
    monkeypatch.setattr(tfrecord, "_record", slow)
    assert labels(TFRecord(path=path, features=LABEL), 8) == list(range(8))
    assert len(threads) > 1


# States


def test_a_changed_data_set_is_refused_by_what_changed(tmp_path):
    path = write(tmp_path / "a.rec", [labelled(1), labelled(2)])
    reader = TFRecord(path=path, features=LABEL, fingerprint="contents")
    reader(1)
    state = reader.get_state()
    for values, told in [([1], "1 removed"), ([1, 2, 3], r"1 added \('a\.rec#2'\)"), ([1, 300], "sizes"),
                         ([1, 3], "contents")]:  # fmt: skip
        write(path, map(labelled, values))
        other = TFRecord(path=path, features=LABEL)
        with pytest.raises(StateError, match=told):
            other.set_state(state)
    write(path, [labelled(1), labelled(2)])
    data = bytearray(path.read_bytes())
    data[8:12] = b"crc?"  # checksums are no part of the records
    path.write_bytes(data)
    TFRecord(path=path, features=LABEL).set_state(state)


def test_a_damaged_record_behind_others_is_not_called_compressed(tmp_path):
    path = write(tmp_path / "a", [labelled(1)])
    path.write_bytes(path.read_bytes() + b"\x1f\x8b\x08" + bytes(9))
    with pytest.raises(DataError, match="record 1, at byte 34 of 46, is damaged"):
        TFRecord(path=path, features=LABEL)
