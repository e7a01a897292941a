"""Readers: what is listed, in which order it is visited, and that a place can be left and returned to."""

from __future__ import annotations

import errno
import hashlib
import inspect
import itertools
import json
import math
import ntpath
import os
import pickle
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import Batch, Tensor
from dynamic._base.origin import sample_ids
from dynamic.errors import ArgumentError, DataError, DeviceError, EmptyClassWarning, StateError, displayed
from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import COCO, Caffe, Caffe2, File, Fits, MXNet, Numpy, TFRecord, Webdataset, _listing
from dynamic.readers._order import Order, keys
from dynamic.readers.tfrecord import VarLenFeature

MOST = 41


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """41 files in the folder "c", whose contents are their names."""
    root = tmp_path_factory.mktemp("data")
    (root / "c").mkdir()
    for i in range(MOST):
        (root / "c" / f"{i:02d}.jpg").write_bytes(b"%02d" % i)
    return root


def written(root, *names):
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(os.fsencode(name))
    return root


def some(folder, n, **arguments):
    return File(files=[f"c/{i:02d}.jpg" for i in range(n)], file_root=folder, **arguments)


def contents(jpegs):
    return [bytes(sample) for sample in jpegs.samples]


def pulled(reader, batch_size=3):
    return [name for jpegs, _ in reader.next_epoch(batch_size) for name in contents(jpegs)]


def listed(**arguments):
    """Names and labels in the order of an epoch."""
    return [(name, label) for jpegs, labels in File(**arguments).next_epoch(3)
            for name, label in zip(jpegs.origin.names, labels.whole[:, 0].tolist(), strict=True)]  # fmt: skip


def moved_through_json(state):
    return json.loads(json.dumps(state, allow_nan=False))


# Listing


@pytest.mark.filterwarnings("ignore::dynamic.EmptyClassWarning")
def test_folders_are_classes_in_the_order_of_their_bytes(tmp_path):
    written(tmp_path, "b/1.jpg", "b/.h.jpg", "a/2.PNG", "a/3.txt", "a-b/x.jpg", ".hid/y.jpg", "B/z.jpg", "a/sub/n.jpg",
            "top.jpg", "a/dir.jpg/in.jpg")  # fmt: skip
    (tmp_path / "empty").mkdir()
    (tmp_path / "a" / "link.jpg").symlink_to(tmp_path / "b" / "1.jpg")
    (tmp_path / "zlink").symlink_to(tmp_path / "b")
    expected = [(".hid/y.jpg", 0), ("B/z.jpg", 1), ("a/2.PNG", 2), ("a/link.jpg", 2), ("a-b/x.jpg", 3),
                ("b/.h.jpg", 4), ("b/1.jpg", 4), ("zlink/.h.jpg", 6), ("zlink/1.jpg", 6)]  # fmt: skip
    assert listed(file_root=tmp_path) == expected
    assert listed(file_root=str(tmp_path) + "/") == listed(file_root=os.fsencode(tmp_path)) == expected
    assert listed(file_root=tmp_path, lazy_init=True) == expected
    assert listed(file_root=tmp_path, case_sensitive_filter=True) == [e for e in expected if e[0] != "a/2.PNG"]
    assert ("a/3.txt", 2) in listed(file_root=tmp_path, file_filters=["*.jpg", "*"])
    assert listed(file_root=tmp_path, file_filters=["[^1-9z]*.jpg"]) == [
        (".hid/y.jpg", 0), ("a/link.jpg", 2), ("a-b/x.jpg", 3), ("b/.h.jpg", 4), ("zlink/.h.jpg", 6)]  # fmt: skip
    assert listed(file_root=tmp_path, dir_filters=["B"]) == [("B/z.jpg", 0), ("b/.h.jpg", 1), ("b/1.jpg", 1)]
    assert listed(file_root=tmp_path, dir_filters=["B"], case_sensitive_filter=True) == [("B/z.jpg", 0)]


@pytest.mark.filterwarnings("ignore::dynamic.EmptyClassWarning")
def test_the_classes_of_labels_have_the_names_of_their_folders(tmp_path):
    written(tmp_path, "b/1.jpg", "a/2.PNG", "B/z.jpg", "top.jpg")
    (tmp_path / "empty").mkdir()
    for reader in (File(file_root=tmp_path), File(file_root=tmp_path, lazy_init=True, random_shuffle=True)):
        assert reader.classes == ("B", "a", "b", "empty")
        for files, labels in pickle.loads(pickle.dumps(reader)).next_epoch(1):
            assert files.origin.names[0].startswith(reader.classes[labels[0].item()] + "/")
    assert File(file_root=tmp_path, dir_filters=["[aB]"]).classes == ("B", "a", "b")
    (tmp_path / "list.txt").write_text("b/1.jpg 7\n")
    for reader in (File(file_root=tmp_path, files=["b/1.jpg"]), File(file_root=tmp_path, files=["b/1.jpg"], labels=[7]),
                   File(file_list=tmp_path / "list.txt")):  # fmt: skip
        assert reader.classes is None


def test_folders_without_samples_are_told_of_unless_they_were_asked_for(tmp_path):
    written(tmp_path, "cat/1.jpg", "dog/2.jpg", ".git/config", "cow/notes.txt")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    with pytest.warns(EmptyClassWarning) as caught:
        reader = File(file_root=tmp_path)
    (warning,) = caught
    assert "3 of 5 folders" in str(warning.message)
    assert "'.git', '.ipynb_checkpoints', 'cow'. Labels of later folders are shifted." in str(warning.message)
    assert "dir_filters=" in str(warning.message)
    assert warning.filename == __file__
    asked = File(file_root=tmp_path, dir_filters=["*"])  # in silence
    assert asked.classes == reader.classes
    assert asked.get_state() == reader.get_state()
    assert [label for _, labels in reader.next_epoch(2) for label in labels.tolist()] == [[2], [4]]
    assert listed(file_root=tmp_path, dir_filters=["[!.]*"]) == [("cat/1.jpg", 0), ("dog/2.jpg", 2)]


def test_classes_of_folders_are_selected_by_filters(tmp_path):
    written(tmp_path, "cat/1.jpg")
    with pytest.raises(ArgumentError, match=r"'classes' must be None unless .*select them by dir_filters="):
        File(file_root=tmp_path, classes=["cat"])


@given(names=st.sets(st.binary(min_size=1, max_size=9).map(lambda b: b.replace(b"/", b"-").replace(b"\0", b"\n")),
                     max_size=5))  # fmt: skip
def test_names_may_hold_any_bytes(names, tmp_path_factory):
    root = written(tmp_path_factory.mktemp("names"), b"k/a b\n\xff.jpg", *(b"k/" + name + b".jpg" for name in names))
    expected = sorted({b"a b\n\xff", *names}, key=lambda name: name + b".jpg")
    (jpegs, _) = next(File(file_root=root).next_epoch(9))
    assert contents(jpegs) == [b"k/" + name + b".jpg" for name in expected]
    assert [os.fsencode(name) for name in moved_through_json(jpegs.origin.names)] == contents(jpegs)
    first, second = File(file_root=root, random_shuffle=True), File(file_root=root, random_shuffle=True)
    first()
    second.set_state(moved_through_json(first.get_state()))
    assert pulled(second) == ([] if first.epoch else pulled(first))
    assert displayed(jpegs.origin.names[0]).isprintable()


def test_files_may_be_listed_by_the_caller(tmp_path, monkeypatch):
    written(tmp_path, "a/1.jpg", "b.bin")
    files = ["b.bin", Path("a/1.jpg"), b"b.bin", str(tmp_path / "a" / "1.jpg")]
    expected = [("b.bin", 0), ("a/1.jpg", 1), ("b.bin", 2), ("a/1.jpg", 3)]
    assert listed(files=files, file_root=tmp_path) == expected
    assert listed(files=files, file_root=tmp_path, labels=np.array([7, -3, 2**31 - 1, 0]))[1:3] == [
        ("a/1.jpg", -3), ("b.bin", 2**31 - 1)]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    reader = File(files=files)
    monkeypatch.chdir("/")
    assert pulled(reader) == [b"b.bin", b"a/1.jpg", b"b.bin", b"a/1.jpg"]


def test_files_may_be_listed_in_a_text_file(tmp_path):
    written(tmp_path, "a b/1 2.jpg", "a b/3.jpg")
    (tmp_path / "list.txt").write_bytes(b"a b/1 2.jpg   4\r\n\n  \na b/3.jpg\t-5")
    assert listed(file_list=tmp_path / "list.txt") == [("a b/1 2.jpg", 4), ("a b/3.jpg", -5)]
    (tmp_path / "other.txt").write_bytes(b"3.jpg 1\n")
    assert listed(file_list=str(tmp_path / "other.txt"), file_root=tmp_path / "a b") == [("3.jpg", 1)]
    for one in (str(tmp_path / "a b/3.jpg"), tmp_path / "a b/3.jpg"):
        assert listed(files=one) == [(str(tmp_path / "a b/3.jpg"), 0)]
    (tmp_path / "bad.txt").write_bytes(b"3.jpg 1\n4.jpg one\n")
    with pytest.raises(ArgumentError, match=r"'4.jpg one' in line 2 of .*bad.txt"):
        File(file_list=tmp_path / "bad.txt")


@pytest.mark.parametrize(("arguments", "told"), [
    ({}, "'file_root'"), ({"file_root": 3}, "'file_root'"), ({"file_root": "nowhere"}, "No such file"),
    ({"file_root": "."}, "no file in 1 folders matches"), ({"file_root": ".", "file_filters": []}, "'file_filters'"),
    ({"file_root": ".", "dir_filters": "c"}, "'dir_filters'"), ({"files": []}, "'files'"), ({"files": 3}, "'files'"),
    ({"files": [3]}, r"files\[0\]"), ({"files": ["a"], "labels": [1, 2]}, "'labels'"),
    ({"file_root": ".", "labels": [1]}, "'labels'"), ({"files": ["a"], "labels": [2**31]}, r"'labels\[0\]'"),
    ({"files": ["a"], "file_list": "b"}, "'files'"), ({"file_list": "nowhere"}, "'file_list'"),
    ({"files": ["a"], "seed": 2**64}, "'seed'"),
    ({"files": ["a"], "stick_to_shard": True, "shuffle_after_epoch": True}, "'shuffle_after_epoch'"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told, tmp_path, monkeypatch):
    written(tmp_path, "c/a.xyz")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=told):
        File(**arguments)


# Batches


def test_a_batch_is_bytes_and_labels_that_know_where_they_are_from(folder):
    reader = File(file_root=folder)
    jpegs, labels = next(reader.next_epoch(batch_size=4))
    assert isinstance(jpegs, Batch)
    assert contents(jpegs) == [b"00", b"01", b"02", b"03"]
    assert (jpegs.dtype, jpegs.ndim, labels.dtype, labels.shape) == ("uint8", 1, "int32", [(1,)] * 4)
    for output in (jpegs, labels):
        assert output.origin.epoch == 0
        assert output.origin.names == ["c/00.jpg", "c/01.jpg", "c/02.jpg", "c/03.jpg"]
        assert output.origin.ids.tolist() == sample_ids([b"c/00.jpg", b"c/01.jpg", b"c/02.jpg", b"c/03.jpg"]).tolist()


def test_labels_may_be_numbers_without_dimensions(folder):
    plain, scalar = (File(file_root=folder, random_shuffle=True, scalar_labels=flag) for flag in (False, True))
    for (_, labels), (files, numbers) in zip(plain.next_epoch(3), scalar.next_epoch(3), strict=True):
        assert (labels.dtype, set(labels.shape)) == ("int32", {(1,)})
        assert (numbers.dtype, set(numbers.shape)) == ("int64", {()})
        assert numbers.numpy().tolist() == [label for (label,) in labels.tolist()]
        assert numbers.origin is files.origin
    assert plain.get_state() == scalar.get_state()
    assert File(file_root=folder, scalar_labels=True).peek()[1].shape == ()
    with pytest.raises(ArgumentError, match="'scalar_labels' must be True or False"):
        File(file_root=folder, scalar_labels="int64")


@pytest.mark.parametrize("make", [None, "pipeline"])
def test_labels_without_dimensions_are_those_of_cross_entropy(make, folder):
    torch = pytest.importorskip("torch")
    if make:
        with pipeline_def(batch_size=4)(
            lambda: fn.readers.file(file_root=str(folder), scalar_labels=True)[1]
        )() as pipe:
            (labels,) = pipe.run()
    else:
        _, labels = File(file_root=folder, scalar_labels=True)(4)
    scores = torch.zeros(4, 99)
    assert torch.nn.functional.cross_entropy(scores, labels.torch()).item() == pytest.approx(np.log(99))


def test_without_a_batch_size_samples_come_as_tensors(folder):
    reader = some(folder, 2)
    steps = list(reader.next_epoch())
    assert [(type(jpeg), bytes(jpeg.array), label.tolist(), jpeg.origin.names) for jpeg, label in steps] == [
        (Tensor, b"00", [0], ["c/00.jpg"]), (Tensor, b"01", [1], ["c/01.jpg"])]  # fmt: skip
    assert [len(jpegs) for jpegs, _ in some(folder, 5, max_batch_size=3).next_epoch()] == [3, 2]
    with pytest.raises(ArgumentError, match=r"\[1, 3\]"):
        some(folder, 5, max_batch_size=3).next_epoch(4)
    with pytest.raises(ArgumentError, match="'batch_size'"):
        reader.next_epoch(0)


def test_empty_and_large_files_are_read_whole(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, 3_000_001, np.uint8)
    (tmp_path / "large").write_bytes(noise.tobytes())
    (tmp_path / "empty").touch()
    large, empty = next(File(files=["large", "empty"], file_root=tmp_path).next_epoch(2))[0].samples
    assert np.array_equal(large, noise)
    assert empty.shape == (0,)


def test_a_fifo_among_the_files_is_refused_and_a_dangling_link_is_a_sample(tmp_path):
    written(tmp_path, "c/1.jpg")
    (tmp_path / "c" / "2.jpg").symlink_to("nowhere")
    reader = File(file_root=tmp_path)
    assert reader.get_metadata()["epoch_size"] == 2
    with pytest.raises(DataError, match=r"sample 1 .*2\.jpg"):
        reader(2)
    for loop in (tmp_path / "c" / "3.jpg", tmp_path / "d"):  # below a class, and in the place of one
        loop.symlink_to(loop)
    with pytest.raises(DataError, match=r"sample 1 .*2\.jpg[^\0]*sample 2 .*3\.jpg"):
        File(file_root=tmp_path)(3)
    os.mkfifo(tmp_path / "c" / "4.jpg")
    with pytest.raises(DataError, match=r"4\.jpg.*is a fifo"):
        File(file_root=tmp_path)
    for reader in (File, Numpy):
        with pytest.raises(ArgumentError, match="'file_list' must be .* is a fifo, not a regular file"):
            reader(file_list=tmp_path / "c" / "4.jpg")


@pytest.mark.parametrize("path", ["a\0b", "\ud800", b"\0"])
def test_what_is_no_path_is_refused_by_name(path):
    for reader, arguments in (
        (File, {"file_root": path}), (File, {"file_list": path}), (File, {"files": ["a", path]}),
        (Numpy, {"file_root": path}), (Numpy, {"file_list": path}), (Numpy, {"files": ["a", path]}),
        (Webdataset, {"paths": ["a", path], "ext": "a"}), (Webdataset, {"index_paths": path, "paths": "a", "ext": "a"}),
        (TFRecord, {"path": path, "features": {}}), (TFRecord, {"index_path": path, "path": "a", "features": {}}),
        (MXNet, {"path": path}), (MXNet, {"index_path": path, "path": "a"}), (Caffe, {"path": path}),
        (Caffe2, {"path": ["a", path]}), (Fits, {"file_root": path}), (Fits, {"files": ["a", path]}),
        (COCO, {"file_root": path, "annotations_file": "a"}), (COCO, {"annotations_file": path, "file_root": "a"}),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=rf"readers\.{reader.__name__}\(\): argument '{next(iter(arguments))}"):
            reader(**arguments)(1)


ODD = [
    np.array([1, 2]),
    np.array(2),
    Tensor(np.array([1, 2])),
    Batch([np.array([1]), np.array([2])]),
    [[1]],
    {1: 2},
    1j,
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("reader", [File, Numpy, Webdataset, TFRecord, COCO, MXNet, Caffe, Caffe2, Fits])
def test_arguments_that_make_no_sense_are_refused_by_name(reader, value, tmp_path):
    """Arrays, which are neither true nor false, among them."""
    own = {File: {"file_root": tmp_path}, Numpy: {"file_root": tmp_path}, Webdataset: {"paths": "a", "ext": "b"},
           TFRecord: {"path": "a", "features": {"b": VarLenFeature("int64")}},
           COCO: {"file_root": tmp_path, "annotations_file": "a"}, MXNet: {"path": "a"}, Caffe: {"path": "a"},
           Caffe2: {"path": "a"}, Fits: {"file_root": tmp_path}}[reader]  # fmt: skip
    passed = {"name", "labels", "roi_start", "roi_end", "roi_shape", "rel_roi_start", "rel_roi_end", "rel_roi_shape",
              "roi_axes", "max_batch_size"}  # fmt: skip
    for name in set(inspect.signature(reader).parameters) - passed:
        with pytest.raises((ArgumentError, DeviceError, DataError), match=rf"readers\.{reader.__name__}\(\)"):
            reader(**own | {"lazy_init": True, name: value})(1)


def test_a_class_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    written(tmp_path, "c/1.jpg", "d/1.jpg")
    scandir = os.scandir

    def refused(path):
        if os.fsdecode(path).endswith("d"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(DataError, match=r"readers\.File\(\).*\n.*/d: Permission denied"):
        File(file_root=tmp_path)


# Order


def test_a_shuffled_order_is_uniform():
    """All 120 orders of 5 samples are equally likely, over epochs, seeds and ids alike: chi-square, fixed seeds."""
    names = [b"%d" % i for i in range(5)]
    draws = {
        "epochs": [Order(sample_ids(names), seed=3).of(epoch) for epoch in range(12000)],
        "seeds": [Order(sample_ids(names), seed=seed).of(0) for seed in range(12000)],
        "ids": [Order(np.arange(5 * i, 5 * i + 5, dtype=np.uint64), seed=3).of(1) for i in range(12000)],
    }
    for orders in draws.values():
        counts = dict.fromkeys(itertools.permutations(range(5)), 0)
        for order in orders:
            counts[tuple(order.tolist())] += 1
        chi_square = sum((count - 100) ** 2 / 100 for count in counts.values())
        assert abs(chi_square - 119) < 4.5 * math.sqrt(2 * 119)


def test_a_large_order_has_no_trend():
    n = 1_000_000
    order = Order(np.arange(n, dtype=np.uint64), seed=1).of(0)
    assert np.array_equal(np.sort(order), np.arange(n))
    counts = np.bincount(order[: n // 2] * 100 // n, minlength=100)  # of the first half, where they come from
    assert ((counts - n / 200) ** 2 / (n / 400)).sum() < 170
    assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 0.005
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.005


@given(st.sets(st.integers(0, 2**64 - 1), min_size=2, max_size=30), st.data())
def test_removing_a_sample_leaves_the_order_of_the_others(ids, data):
    ids = data.draw(st.permutations(sorted(ids)))
    seed, epoch, gone = data.draw(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9), st.sampled_from(ids)))

    def order(ids):
        return [ids[i] for i in Order(np.array(ids, np.uint64), seed).of(epoch)]

    left = [i for i in ids if i != gone]
    assert order(left) == [i for i in order(ids) if i != gone]
    assert len(set(keys(np.array(ids, np.uint64), seed, epoch).tolist())) == len(ids)


@given(n=st.integers(0, 20), more=st.sampled_from([0, 1, 7, 2**31, 2**64, 10**40]), seed=st.integers(0, 9))
def test_shards_without_samples_cost_nothing(n, more, seed):
    ids = np.arange(n, dtype=np.uint64)
    expected = Order(ids, seed, max(1, n)).of(1)
    assert np.array_equal(Order(ids, seed, max(1, n) + more).of(1), expected)
    assert sorted(expected) == list(range(n))


def test_a_file_more_leaves_the_order_of_the_others(tmp_path):
    written(tmp_path, *(f"c/{i}.jpg" for i in range(20)))
    before = [pulled(r) for r in [File(file_root=tmp_path, random_shuffle=True, seed=4)] for _ in range(3)]
    written(tmp_path, "a/new.jpg", "c/new.jpg")
    reader = File(file_root=tmp_path, random_shuffle=True, seed=4)
    assert [[name for name in pulled(reader) if b"new" not in name] for _ in range(3)] == before


def key_by_hand(name, seed, epoch):
    """The key by which a sample is sorted, as docs/checkpoints.md has it: part of the format of a state."""
    value = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
    words = hashlib.blake2b(b"%d/%d" % (seed, epoch), digest_size=16).digest()
    for word in (words[:8], words[8:]):
        value ^= int.from_bytes(word, "little")
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value


def test_orders_differ_by_epoch_and_seed_and_are_the_same_everywhere(folder):
    def orders(**arguments):
        reader = some(folder, MOST, **arguments)
        return [tuple(pulled(reader)) for _ in range(3)]

    default, other = orders(random_shuffle=True), orders(random_shuffle=True, seed=9)
    assert len({*default, *other}) == 6
    assert default == orders(random_shuffle=True, seed=-1) == orders(random_shuffle=True, seed=0, initial_fill=1)
    assert other == orders(shuffle_after_epoch=True, shuffle_after_epoch_seed=9, seed=5)
    assert len(set(orders(seed=9))) == 1
    names = [b"%02d" % i for i in range(MOST)]
    assert list(other[1]) == sorted(names, key=lambda name: key_by_hand(b"c/" + name + b".jpg", seed=9, epoch=1))
    assert default[0][:6] == (b"13", b"05", b"20", b"25", b"24", b"11")


def test_one_path_twice_is_two_samples(folder):
    reader = File(files=["c/01.jpg", "c/02.jpg", "c/01.jpg", "./c/01.jpg"], file_root=folder, random_shuffle=True)
    for _ in range(3):
        ids = [int(i) for jpegs, _ in reader.next_epoch(3) for i in jpegs.origin.ids]
        assert len(set(ids)) == 4
    assert len(set(sample_ids([b"a"] * 1000).tolist())) == 1000


def test_how_a_path_is_spelled_does_not_matter(folder):
    spelled = [["c/01.jpg", "c/02.jpg", "c/03.jpg"], ["./c/01.jpg", "c//02.jpg", "c/../c/03.jpg"]]
    readers = [File(files=files, file_root=folder, random_shuffle=True, seed=5) for files in spelled]
    plain, other = ([sorted(jpegs.origin.ids.tolist()) for jpegs, _ in reader.next_epoch(3)] for reader in readers)
    assert plain == other
    state = readers[0].state_dict()
    readers[1].load_state_dict(state)
    assert readers[1].state_dict() == state


between = st.lists(st.sampled_from(["/", "/./"]), min_size=1, max_size=3).map("".join)


@given(seams=st.lists(between, min_size=12, max_size=12), name=st.sampled_from([b"a/1.jpg", b"\xff\n/.b", b"c"]))
def test_a_path_in_full_is_the_same_however_it_is_spelled(seams, name, tmp_path_factory):
    root = written(tmp_path_factory.mktemp("spelled"), name)
    parts = [part for part in os.fsdecode(root / os.fsdecode(name)).split("/") if part]
    spelled = "".join(seam + part for seam, part in zip(itertools.cycle(seams), parts, strict=False))
    for path in (spelled, os.fsencode(spelled)):
        reader, plain = File(file_root=root, files=[path]), File(file_root=root, files=[name])
        assert reader.get_state() == plain.get_state()
        (jpegs, _) = reader(1)
        assert (contents(jpegs), jpegs.origin.names) == ([name], [os.fsdecode(name)])
    if b"\n" not in name:
        (root / "list.txt").write_bytes(os.fsencode(spelled) + b" 0\n")
        assert listed(file_root=root, file_list=root / "list.txt") == [(os.fsdecode(name), 0)]


@pytest.mark.parametrize(("path", "name"), [
    ("/r//x", "x"), ("//r/x", "x"), ("///r/./x", "x"), ("/r/../r/x", "../r/x"), ("/r/l/../x", "l/../x"),
    ("/q//x", "/q/x"), ("/rr/x", "/rr/x"), ("x//y", "x//y"), ("./x", "./x"), ("/r/x/", "x/"), ("/r/..x//.y", "..x/.y"),
])  # fmt: skip
def test_what_a_path_in_full_is_called(path, name):
    """Two points stay: what is before them may be a link."""
    assert _listing._relative(path, "/r") == name
    assert _listing._relative(path, "//r") == name


@pytest.mark.parametrize(("path", "name"), [
    ("C:\\r\\a\\x", "a/x"), ("C:/r/a/x", "a/x"), ("C:\\r\\\\x", "x"), ("C:\\r/./x", "x"), ("D:\\\\q\\x", "D:/q/x"),
    ("\\\\server\\share\\\\x", "//server/share/x"), ("a\\x", "a/x"),
])  # fmt: skip
def test_what_a_path_of_windows_is_called(path, name, monkeypatch):
    monkeypatch.setattr(_listing, "os", types.SimpleNamespace(path=ntpath, sep="\\"))
    assert _listing._relative(path, "C:\\r") == name


def test_a_list_is_taken_as_it_is_when_the_reader_is_made(tmp_path):
    written(tmp_path, "a", "b")
    for files, labels in ((["a", "b"], [4, 5]), (np.array(["a", "b"]), np.array([4, 5]))):
        reader = File(file_root=tmp_path, files=files, labels=labels, lazy_init=True)
        files[0], labels[0] = "gone", 9
        jpegs, found = reader(2)
        assert (contents(jpegs), found.tolist()) == ([b"a", b"b"], [[4], [5]])
    for wrong in (3, np.array(3), {4: 5, 6: 7}.items):
        with pytest.raises(ArgumentError, match="'labels' must be a list of integers"):
            File(file_root=tmp_path, files=["a", "b"], labels=wrong)


def test_a_mark_before_a_list_is_no_part_of_a_name(tmp_path):
    written(tmp_path, "a", "b")
    np.save(tmp_path / "c.npy", np.arange(3))
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfa 0\r\nb 1\r\n")
    assert listed(file_list=tmp_path / "list.txt") == [("a", 0), ("b", 1)]
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbfc.npy\r\n")
    assert Numpy(file_list=tmp_path / "names.txt")(1)[0].tolist() == [[0, 1, 2]]


# Epochs and shards

batches = st.integers(1, 9)
sizes = st.integers(1, MOST)
shuffles = st.booleans()


@given(n=sizes, shards=st.integers(1, 5), batch_size=batches, shuffle=shuffles, stick=st.booleans())
def test_an_epoch_gives_every_sample_once(folder, n, shards, batch_size, shuffle, stick):
    readers = [some(folder, n, num_shards=shards, shard_id=k, random_shuffle=shuffle, stick_to_shard=stick)
               for k in range(shards)]  # fmt: skip
    whole = some(folder, n, random_shuffle=shuffle)
    own = None
    for _ in range(3):
        parts = [pulled(reader, batch_size) for reader in readers]
        assert sorted(itertools.chain(*parts)) == [b"%02d" % i for i in range(n)]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        order = pulled(whole)
        own = own or [set(part) for part in parts]
        if stick:
            assert [set(part) for part in parts] == own
        if not (stick and shuffle):  # one order for all, dealt out
            dealt = itertools.chain(*itertools.zip_longest(*sorted(parts, key=lambda p: order.index(p[0]) if p else n)))
            assert [name for name in dealt if name] == order
        assert {reader.epoch for reader in [*readers, whole]} == {whole.epoch}


@given(n=sizes, shards=st.integers(1, 5), batch_size=batches, epochs=st.integers(0, 3))
def test_padding_and_dropping_keep_shards_alike(folder, n, shards, batch_size, epochs):
    for last_batch in ("pad", "drop"):
        readers = [some(folder, n, num_shards=shards, shard_id=k, random_shuffle=True, last_batch=last_batch)
                   for k in range(shards)]  # fmt: skip
        for _ in range(epochs + 1):
            order = pulled(some(folder, n, random_shuffle=True)) if readers[0].epoch == 0 else None
            parts = [[contents(jpegs) for jpegs, _ in reader.next_epoch(batch_size)] for reader in readers]
            chunk = shards * batch_size
            steps = -(-n // chunk) if last_batch == "pad" else n // chunk
            assert [len(part) for part in parts] == [steps] * shards
            assert all(len(batch) == batch_size for part in parts for batch in part)
            given_out = [name for part in parts for batch in part for name in batch]
            if last_batch == "pad":
                assert set(given_out) == {b"%02d" % i for i in range(n)}
                repeated = {name for name in given_out if given_out.count(name) > 1}
                assert len(repeated) <= 1
                assert order is None or repeated <= {order[-1]}
            else:
                assert len(set(given_out)) == len(given_out)


@given(n=sizes, shards=st.integers(1, 3), size=st.none() | batches, stop=st.integers(0, 9), shuffle=shuffles,
       last_batch=st.sampled_from(["partial", "drop", "pad"]), data=st.data())  # fmt: skip
def test_an_iterator_knows_its_length(folder, n, shards, size, stop, shuffle, last_batch, data):
    reader = some(folder, n, num_shards=shards, shard_id=data.draw(st.integers(0, shards - 1)), random_shuffle=shuffle,
                  last_batch=last_batch)  # fmt: skip
    list(itertools.islice(reader.next_epoch(2), stop))
    for _ in range(3):
        steps, epoch = reader.next_epoch(size), reader.epoch
        left = len(steps)
        assert sum(1 for _ in steps) == left
        assert (len(steps), reader.epoch, reader.position) == (0, epoch + 1, 0)


def test_iterators_share_the_place_of_their_reader(folder):
    reader = some(folder, 10)
    first, second = reader.next_epoch(3), reader.next_epoch(2)
    pairs = [contents(next(steps)[0]) for steps in (first, second, first)]
    assert pairs == [[b"00", b"01", b"02"], [b"03", b"04"], [b"05", b"06", b"07"]]
    del first
    assert pulled(reader, 4) == [b"08", b"09"]
    assert list(second) == []
    assert len(pulled(reader)) == 10
    assert list(second) == []


def test_an_epoch_whose_last_batch_was_given_is_over_but_not_for_a_reader_that_is_restored(folder):
    reader, other = some(folder, 6), some(folder, 6)
    epoch = reader.next_epoch(6)
    next(epoch)
    state = reader.get_state()
    other.set_state(state)
    assert (state["epoch"], state["position"]) == (0, 6)
    assert (reader.epoch, reader.position, len(epoch), len(reader.next_epoch(2))) == (1, 0, 0, 3)
    assert (other.epoch, other.position, len(other.next_epoch(2)), len(other.next_epoch(2))) == (0, 6, 0, 3)
    assert reader.get_state() == other.get_state() == state
    reader.set_epoch(1)
    assert reader.get_state() == state
    reader.set_epoch(0)  # once more
    assert reader.get_state()["position"] == 0
    other.seek(6)
    assert [pulled(other), pulled(other)] == [[], pulled(some(folder, 6))]


@given(n=sizes, batch_size=batches, shuffle=shuffles)
def test_single_steps_go_from_epoch_to_epoch(folder, n, batch_size, shuffle):
    stepping, looping = some(folder, n, random_shuffle=shuffle), some(folder, n, random_shuffle=shuffle)
    for _ in range(4):
        for jpegs, _ in looping.next_epoch(batch_size):
            stepped = stepping(batch_size)
            assert contents(stepped[0]) == contents(jpegs)
            assert stepped[1].origin.epoch == jpegs.origin.epoch
    assert len(stepping._orders) <= 2  # memory does not grow with the epochs


def test_a_step_that_can_never_be_made_is_an_error(folder):
    with pytest.raises(ArgumentError, match="2 samples on 3 shards"):
        some(folder, 2, num_shards=3, shard_id=2, stick_to_shard=True)(1)
    with pytest.raises(ArgumentError, match="'batch_size'"):
        some(folder, 2, last_batch="drop")(3)


def test_threads_may_share_an_epoch(folder):
    steps = some(folder, MOST).next_epoch(2)
    seen = []
    threads = [threading.Thread(target=lambda: seen.extend(contents(b[0]) for b in steps)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*seen)) == [b"%02d" % i for i in range(MOST)]


def test_metadata_and_repr(folder):
    reader = some(folder, 10, num_shards=3, shard_id=1, pad_last_batch=True, name="train", random_shuffle=True, seed=7)
    assert reader.get_metadata(batch_size=4) == {
        "epoch_size": 10, "epoch_size_padded": 12, "number_of_shards": 3, "shard_id": 1, "pad_last_batch": 1,
        "stick_to_shard": 0}  # fmt: skip
    assert some(folder, 10, num_shards=3).get_metadata()["epoch_size_padded"] == 10
    reader(2)
    assert repr(reader) == (
        "<readers.File 'train': 10 samples shuffled with seed 7, shard 1 of 3, epoch 0, position 6>"
    )
    assert repr(some(folder, 3).next_epoch(2)) == (
        "<2 more steps of <readers.File: 3 samples in listed order, shard 0 of 1, epoch 0, position 0>>")  # fmt: skip


# States


@st.composite
def runs(draw):
    """A run in several parts: (shards, batch size, steps before it is stopped, whether its readers were used)."""
    part = st.tuples(st.integers(1, 5), batches, st.integers(0, 12), st.booleans())
    return draw(sizes), draw(shuffles), draw(st.integers(0, 2**64 - 1)), draw(st.lists(part, min_size=1, max_size=8))


@given(run=runs())
def test_a_run_stopped_anywhere_gives_every_sample_once_an_epoch(folder, run):
    n, shuffle, seed, parts = run
    state, seen = None, []
    epochs_of_loop = 0
    for shards, batch_size, steps, used in parts:
        readers = [some(folder, n, num_shards=shards, shard_id=k, random_shuffle=shuffle, seed=seed)
                   for k in range(shards)]  # fmt: skip
        for reader in readers:
            if used:
                for _ in range(3):
                    reader(2) if n >= shards else list(reader.next_epoch(2))
            if used or state is not None:
                reader.set_state(state or some(folder, n, random_shuffle=shuffle, seed=seed).get_state())
        loops, ended = [], 1
        for _ in range(steps):
            loops = [reader.next_epoch(batch_size) for reader in readers] if ended else loops
            ended = 0
            for loop in loops:  # a step of all shards in lock step
                batch = next(loop, None)
                ended += batch is None
                seen += [(batch[0].origin.epoch, name) for name in contents(batch[0])] if batch else []
            for loop in loops if 0 < ended < shards else ():
                assert next(loop, None) is None  # it was the last step: some shards had nothing in it
            assert len({(state["epoch"], state["position"]) for state in map(File.get_state, readers)}) == 1
            epochs_of_loop += bool(ended)
        states = [moved_through_json(reader.get_state()) for reader in readers]
        assert all(each == states[0] | {"given": each["given"]} for each in states)
        state = states[0]
    assert state["epoch"] == epochs_of_loop
    full = [(epoch, b"%02d" % i) for epoch in range(state["epoch"]) for i in range(n)]
    assert sorted(seen)[: len(full)] == full
    rest = [name for epoch, name in seen if epoch == state["epoch"]]
    assert (len(rest), len(seen)) == (state["position"], len(full) + len(rest))
    reader = some(folder, n, random_shuffle=shuffle, seed=seed)
    reader.set_state(state)
    assert sorted(rest + pulled(reader)) == [b"%02d" % i for i in range(n)]
    assert (reader.epoch, reader.position) == (state["epoch"] + 1, 0)


@given(n=sizes, shards=st.integers(1, 4), batch_size=batches, steps=st.integers(0, 20), shuffle=shuffles,
       last_batch=st.sampled_from(["partial", "drop", "pad"]), stick=st.booleans())  # fmt: skip
def test_a_restored_reader_goes_on_as_the_first(folder, n, shards, batch_size, steps, shuffle, last_batch, stick):
    """Same batches, same ends of epochs, through two epochs more; also for a reader that was elsewhere."""

    def made():
        return some(folder, n, num_shards=shards, shard_id=shards - 1, random_shuffle=shuffle, last_batch=last_batch,
                    stick_to_shard=stick, seed=3)  # fmt: skip

    def loops(reader):
        return [[contents(jpegs) for jpegs, _ in reader.next_epoch(batch_size)] for _ in range(3)]

    first = made()
    for _, _ in zip(range(steps), itertools.chain.from_iterable(first.next_epoch(batch_size) for _ in range(5)),
                    strict=False):  # fmt: skip
        pass
    state = moved_through_json(first.get_state())
    empty = [[]] * (first.epoch - state["epoch"])  # the rest of an epoch whose last batch was given
    fresh, used = made(), made()
    list(used.next_epoch(2))
    used.load_state_dict(state)
    fresh.set_state(state)
    assert fresh.state_dict() == used.get_state() == state
    expected = [*empty, *loops(first)][:3]
    assert loops(fresh) == loops(used) == expected
    first.set_state(state)  # back in time
    assert loops(first) == expected


def test_a_state_is_small_and_plain(folder):
    reader = some(folder, 5, random_shuffle=True)
    start = reader.get_state()
    assert start == reader.get_state() == moved_through_json(start)
    assert (start["epoch"], start["position"], start["last"], start["samples"]) == (0, 0, "0" * 16, 5)
    jpegs, _ = reader(3)
    after = reader.get_state()
    assert after["last"] == f"{int(jpegs.origin.ids[-1]):016x}"
    assert {key: type(value) for key, value in start.items()} == {key: type(value) for key, value in after.items()}
    assert {key for key in start if start[key] != after[key]} == {"position", "last", "given"}


def _edit(tmp_path, what):
    if what == "added":
        written(tmp_path, "c/new.jpg")
    elif what == "removed":
        (tmp_path / "c" / "3.jpg").unlink()
    elif what == "renamed":
        (tmp_path / "c" / "3.jpg").rename(tmp_path / "c" / "33.jpg")
    elif what == "edited":
        (tmp_path / "c" / "3.jpg").write_bytes(b"longer than before")
    elif what == "class":
        (tmp_path / "a").mkdir()


@pytest.mark.filterwarnings("ignore::dynamic.EmptyClassWarning")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("what", "told"), [
    ("added", r"samples: 10 in the state, 11 here; names: 1 added \('c/new\.jpg'\)\."),
    ("removed", r"samples: 10 in the state, 9 here; names: 1 removed\."),
    ("renamed", r"reader\. names: 1 added \('c/33\.jpg'\) and 1 removed\."),
    ("edited", r"reader\. sizes: the same samples with other sizes"),
    ("class", r"reader\. labels: the same samples with other labels")])  # fmt: skip
def test_another_data_set_is_refused_by_what_changed(tmp_path, what, told, shuffle):
    written(tmp_path, *(f"c/{i}.jpg" for i in range(10)))
    reader = File(file_root=tmp_path, random_shuffle=shuffle)
    reader(4)
    state = reader.get_state()
    _edit(tmp_path, what)
    other = File(file_root=tmp_path, random_shuffle=shuffle)
    other(2)
    before = other.get_state()
    with pytest.raises(StateError, match=told):
        other.set_state(state)
    assert other.get_state() == before


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_file_that_was_edited_and_has_its_old_size_is_told_by_contents(tmp_path, shuffle):
    written(tmp_path, *(f"c/{i}.jpg" for i in range(5)))
    (tmp_path / "c" / "none.jpg").symlink_to(tmp_path / "nothing")  # cannot be read, which is for reading to say
    reader = File(file_root=tmp_path, random_shuffle=shuffle, fingerprint="contents")
    reader.seek(4)
    by_size, by_contents = File(file_root=tmp_path, random_shuffle=shuffle).get_state(), reader.get_state()
    (tmp_path / "c" / "3.jpg").write_bytes(b"C/3.JPG")
    other = File(file_root=tmp_path, random_shuffle=shuffle)
    with pytest.raises(
        StateError, match=r"reader\. contents: samples of the same names and sizes with other contents\."
    ):
        other.set_state(by_contents)
    other.set_state(by_size)
    other.set_state(by_contents, on_mismatch="adapt")
    assert other.position == 4


@pytest.mark.parametrize(("made", "given_to", "told"), [
    ({"random_shuffle": True, "seed": 1}, {"random_shuffle": True, "seed": 2}, "seed: 1 in the state, 2 here"),
    ({"random_shuffle": True}, {}, "shuffle: True in the state, False here"),
    ({}, {"random_shuffle": True}, "shuffle: False in the state, True here"),
    ({"random_shuffle": True, "stick_to_shard": True, "num_shards": 2},
     {"random_shuffle": True, "stick_to_shard": True}, "dealt: 2 in the state, 1 here")])  # fmt: skip
def test_another_order_is_refused_by_what_changed(folder, made, given_to, told):
    first, second = some(folder, 9, **made), some(folder, 9, **given_to)
    first(2)
    before = second.get_state()
    with pytest.raises(StateError, match=rf"reader\. {told}. Give"):
        second.set_state(first.get_state())
    assert second.get_state() == before


def test_without_a_shuffle_the_order_of_the_list_counts_and_the_seed_does_not(folder):
    first = File(files=["c/01.jpg", "c/02.jpg"], labels=[1, 1], file_root=folder, seed=1)
    first()
    swapped = File(files=["c/02.jpg", "c/01.jpg"], labels=[1, 1], file_root=folder)
    with pytest.raises(StateError, match=r"names: the same, listed in another order"):
        swapped.set_state(first.get_state())
    same = File(files=["c/01.jpg", "c/02.jpg"], labels=[1, 1], file_root=folder, seed=2)
    same.set_state(first.get_state())
    assert pulled(same) == [b"02"]


@given(data=st.data())
def test_what_is_no_state_is_refused_and_changes_nothing(folder, data):
    reader = some(folder, 9, random_shuffle=True)
    reader(4)
    good = reader.get_state()
    reader(2)
    before = reader.get_state()
    anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.none())
    key = data.draw(st.sampled_from(sorted(good)))
    changed = anything.filter(
        lambda value: type(value) is not type(good[key]) or (key != "epoch" and value != good[key])
    )
    value = data.draw(changed)
    bad = data.draw(
        st.sampled_from(
            [good | {key: value}, {k: v for k, v in good.items() if k != key}, good | {"more": 1}, value, good | {3: 4}]
        )
    )
    with pytest.raises(StateError, match=r"readers\.File"):
        reader.set_state(bad)
    assert reader.get_state() == before


@pytest.mark.parametrize("change", [{"position": 10}, {"position": 5}, {"epoch": 2}, {"version": 4}, {"version": 0}])
def test_a_place_that_cannot_be_is_refused(folder, change):
    reader = some(folder, 9, random_shuffle=True)
    reader(4)
    with pytest.raises(StateError, match=r"'position'|'last'|version int [04]; this library reads 1 to 3"):
        some(folder, 9, random_shuffle=True).set_state(reader.get_state() | change)


@pytest.mark.parametrize("size", [10**9, 2**62, 2**63, 10**30])
@pytest.mark.parametrize("last_batch", ["partial", "drop"])
def test_a_batch_size_beyond_all_samples_gives_all_that_are_left(tmp_path, size, last_batch):
    names = [f"{i}.bin" for i in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    for shards in (1, 2):
        found = []
        for shard in range(shards):
            reader = File(files=names, file_root=tmp_path, last_batch=last_batch, shard_id=shard, num_shards=shards)
            found += [label for _, labels in reader.next_epoch(size) for label in labels.tolist()]
        assert len(found) == (0 if last_batch == "drop" else 5)


def test_files_without_class_folders_are_told(tmp_path):
    for name in ("1.jpg", "2.jpg", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ArgumentError, match=r"The folder itself has 2 such files: .* pass files=\[\.\.\.\]"):
        File(file_root=tmp_path)
