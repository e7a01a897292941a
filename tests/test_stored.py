"""What all readers of stored samples have in common, tried with each of them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import av
import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interrupts import Interruption

import dynamic
from dynamic import Batch, EvalContext, Tensor, readers
from dynamic.checkpoint import load, save, verify_epoch
from dynamic.errors import ArgumentError, DataError, DeviceError, StateError, StateMismatch
from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import _stored, tfrecord
from dynamic.testing import assert_resumable

MOST = 23
HELD = {i: f"{i:04}".encode() * (1 + i % 3) for i in range(MOST + 1)}  # what is in each sample


class Kind(NamedTuple):
    """A reader, and what the tests have to know of it."""

    name: str
    write: Callable  #: write the samples of some numbers to a folder
    arguments: Callable  #: what the reader of that folder is made with
    spoil: Callable  #: damage the last sample; before it is listed where it lies in a file among others
    number: Callable  #: which sample its first output is of

    @property
    def packed(self):
        return self.name in ("Webdataset", "TFRecord", "MXNet", "Caffe", "Caffe2")

    @property
    def function(self):
        """Its name in pipelines."""
        return {"NemoAsr": "nemo_asr"}.get(self.name, self.name.lower())

    def spoilt(self, root, i, **arguments):
        """A reader whose last sample is damaged."""
        reader = None if self.packed else self.made(root, **arguments)
        self.spoil(root, i)
        return self.made(root, **arguments) if reader is None else reader

    def made(self, root, **arguments):
        return getattr(readers, self.name)(**self.arguments(Path(root)), **arguments)

    def numbers(self, batches):
        return [self.number(array) for array in columns(batches)[0].samples]


def write_files(root, numbers):
    (root / "c").mkdir(exist_ok=True)
    for i in numbers:
        (root / "c" / f"{i:02}.jpg").write_bytes(HELD[i])


def write_arrays(root, numbers):
    for i in numbers:
        np.save(root / f"{i:02}.npy", np.full(1 + i % 3, i))


def write_archive(root, numbers):
    with tarfile.open(root / "a.tar", "w") as archive:
        for i in numbers:
            for extension, data in {"bin": HELD[i], "n": np.int32(i).tobytes()}.items():
                entry = tarfile.TarInfo(f"{i:02}.{extension}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


def varint(value):
    """A number as Protocol Buffers write it."""
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def write_records(root, numbers):
    with (root / "a.tfrecord").open("wb") as file:
        for i in numbers:
            held = field(1, b"bytes") + field(2, field(1, field(1, HELD[i])))
            number = field(1, b"number") + field(2, field(3, field(1, varint(i))))
            record = field(1, field(1, held) + field(1, number))
            file.write(struct.pack("<QI", len(record), 0) + record + bytes(4))


def spoil_records(root, i):
    data = bytearray((root / "a.tfrecord").read_bytes())
    data[data.rindex(HELD[i]) - 2] ^= 1  # the tag of the string, which is of no type then
    (root / "a.tfrecord").write_bytes(data)


def write_annotated(root, numbers):
    (root / "images").mkdir(exist_ok=True)
    for i in numbers:
        (root / "images" / f"{i:02}.jpg").write_bytes(HELD[i])
    images = [{"id": 7 * i, "file_name": f"{i:02}.jpg", "width": 9, "height": 9} for i in numbers]
    boxes = [{"id": 3 * i + k, "image_id": 7 * i, "category_id": 1 + k, "bbox": [k, i, 2, 3], "iscrowd": 0,
              "segmentation": [[k, i, k + 2, i, k, i + 3]]} for i in numbers for k in range(i % 3)]  # fmt: skip
    categories = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    page = {"images": images, "annotations": boxes, "categories": categories}
    (root / "annotations.json").write_text(json.dumps(page))


class Folder:
    """A data set of its own: rows are files, and their numbers."""

    def __init__(self, root):
        self.root = Path(root).absolute()
        self.names = sorted(path.stem for path in self.root.glob("*.bin"))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        data = (self.root / f"{self.names[i]}.bin").read_bytes()
        return {"file": {"bytes": data, "name": self.names[i]}, "size": len(data)}


def write_rows(root, numbers):
    for i in numbers:
        (root / f"{i:02}.bin").write_bytes(HELD[i])


def write_frames(root, numbers):
    for i in numbers:
        (root / f"{i:02}").mkdir(exist_ok=True)
        for k in range(2):
            (root / f"{i:02}" / f"{k}.pgm").write_bytes(b"P5 %d 1 255 " % (1 + i % 3) + bytes([i, 7, k])[: 1 + i % 3])


def write_speech(root, numbers):
    lines = []
    for i in numbers:
        values = np.full(10 + i % 3, 100 * i, "<i2").tobytes()
        head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(values), b"WAVEfmt ", 16, 1, 1, 8000, 16000, 2, 16,
                           b"data", len(values))  # fmt: skip
        (root / f"{i:02}.wav").write_bytes(head + values)
        lines.append(json.dumps({"audio_filepath": f"{i:02}.wav", "duration": 0.001, "text": f"word {i}"}))
    (root / "all.json").write_text("\n".join(lines))


@functools.cache
def film(i):
    """A video of two frames that show its number."""
    memory = io.BytesIO()
    with av.open(memory, "w", "nut", options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream("rawvideo", rate=25)
        stream.width, stream.height, stream.pix_fmt = 16, 16 + 2 * (i % 3), "rgb24"
        pixels = np.full((stream.height, stream.width, 3), i, np.uint8)
        frames = [stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")) for _ in range(2)]
        for packet in [*frames[0], *frames[1], *stream.encode()]:
            file.mux(packet)
    return memory.getvalue()


def write_films(root, numbers):
    (root / "c").mkdir(exist_ok=True)
    for i in numbers:
        (root / "c" / f"{i:02}.nut").write_bytes(film(i))


def write_recordio(root, numbers):
    with (root / "a.rec").open("wb") as file:
        for i in numbers:
            record = struct.pack("<IfQQ", 0, i, i, 0) + HELD[i]
            file.write(struct.pack("<II", 0xCED7230A, len(record)) + record + bytes(-len(record) % 4))


def spoil_recordio(root, i):
    data = bytearray((root / "a.rec").read_bytes())
    data[data.rindex(HELD[i]) - 24] = 0xFF  # the number of labels
    (root / "a.rec").write_bytes(data)


def put(path, records):
    """Write records by their keys to a database of one file."""
    made = lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 22, sync=False)
    with made as database, database.begin(write=True) as transaction:
        for key, record in records.items():
            transaction.put(key, record)


def datum(data, label):
    """A record of Caffe: of a file and its label."""
    return field(4, data) + varint(5 << 3) + varint(label) + varint(7 << 3) + b"\1"


def tensors(data, label):
    """The same of Caffe2."""
    image = varint(2 << 3) + varint(4) + field(6, data)
    return field(1, image) + field(1, varint(2 << 3) + varint(2) + field(4, varint(label)))


def database_of(record):
    def write(root, numbers):
        (root / "a.mdb").unlink(missing_ok=True)
        put(root / "a.mdb", {f"{i:02}".encode(): record(HELD[i], i) for i in numbers})

    return write


def spoil_database(root, i):
    put(root / "a.mdb", {f"{i:02}".encode(): b"\xff"})


def write_fits(root, numbers):
    from astropy.io import fits

    for i in numbers:
        image = fits.ImageHDU(np.full((2, 1 + i % 3), i, np.int16))
        fits.HDUList([fits.PrimaryHDU(), image]).writeto(root / f"{i:02}.fits", overwrite=True)


def spoil_fits(root, i):
    (root / f"{i:02}.fits").write_bytes(b"no FITS file")


def named(row):
    """The key of a row of `Folder`."""
    return row["file"]["name"]


def of_bytes(array):
    return int(array.tobytes()[:4])


def spoil_file(name):
    def spoil(root, i):
        path = root / name.format(i)
        path.unlink()
        path.mkdir()

    return spoil


def spoil_array(root, i):
    (root / f"{i:02}.npy").write_bytes(b"no array")


def spoil_archive(root, i):
    data = (root / "a.tar").read_bytes()
    start = data.index(f"{i:02}.n".encode())
    entry = tarfile.TarInfo(f"{i:02}.n")
    entry.size = 3  # bytes, which are no int32
    (root / "a.tar").write_bytes(data[:start] + entry.tobuf(tarfile.GNU_FORMAT) + data[start + 512 :])


KINDS = [
    Kind("File", write_files, lambda root: {"file_root": root}, spoil_file("c/{:02}.jpg"), of_bytes),
    Kind("Numpy", write_arrays, lambda root: {"file_root": root}, spoil_array, lambda array: int(array[0])),
    Kind("Webdataset", write_archive,
         lambda root: {"paths": root / "a.tar", "ext": ["bin", "n"], "dtypes": ["uint8", "int32"]},
         spoil_archive, of_bytes),
    Kind("TFRecord", write_records,
         lambda root: {"path": root / "a.tfrecord", "features": {"bytes": tfrecord.FixedLenFeature([], "string", ""),
                                                                 "number": tfrecord.FixedLenFeature([1], "int64", 0)}},
         spoil_records, of_bytes),
    Kind("COCO", write_annotated,
         lambda root: {"file_root": root / "images", "annotations_file": root / "annotations.json", "image_ids": True,
                       "pixelwise_masks": True},
         spoil_file("images/{:02}.jpg"), of_bytes),
    Kind("Map", write_rows,
         lambda root: {"dataset": Folder(root), "outputs": ["file.bytes", "size"], "key": named},
         spoil_file("{:02}.bin"), of_bytes),
    Kind("Sequence", write_frames, lambda root: {"file_root": root, "sequence_length": 2},
         spoil_file("{:02}/1.pgm"), lambda array: int(array[0, 0, 0, 0])),
    Kind("NemoAsr", write_speech,
         lambda root: {"manifest_filepaths": root / "all.json", "dtype": "int16", "read_idxs": True},
         spoil_file("{:02}.wav"), lambda array: int(array[0]) // 100),
    Kind("Video", write_films, lambda root: {"file_root": root, "sequence_length": 2, "enable_frame_num": True},
         spoil_file("c/{:02}.nut"), lambda array: int(array[0, 0, 0, 0])),
    Kind("MXNet", write_recordio, lambda root: {"path": root / "a.rec"}, spoil_recordio, of_bytes),
    Kind("Caffe", database_of(datum), lambda root: {"path": root / "a.mdb"}, spoil_database, of_bytes),
    Kind("Caffe2", database_of(tensors), lambda root: {"path": root / "a.mdb"}, spoil_database, of_bytes),
    Kind("Fits", write_fits, lambda root: {"file_root": root}, spoil_fits, lambda array: int(array[0, 0])),
]  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """For each kind a folder with samples."""
    found = {}
    for kind in KINDS:
        found[kind.name] = tmp_path_factory.mktemp(kind.name)
        kind.write(found[kind.name], range(MOST))
    return found


def columns(outputs):
    """The Batches of a step."""
    return tuple(outputs.values()) if isinstance(outputs, dict) else outputs


def moved(state):
    return json.loads(json.dumps(state, allow_nan=False))


def test_each_reader_is_tried_here():
    assert {kind.name for kind in KINDS} == set(readers.__all__) - {"Reader", "ExternalSource", "Mix", "VideoResize"}


@kinds
def test_an_epoch_is_every_sample_in_order_and_knows_where_it_is_from(kind, roots):
    reader = kind.made(roots[kind.name])
    batches = list(reader.next_epoch(5))
    assert [i for batch in batches for i in kind.numbers(batch)] == list(range(MOST))
    for batch in map(columns, batches):
        assert all(isinstance(column, Batch) for column in batch)
        assert len({(c.origin.epoch, *c.origin.names, *c.origin.ids.tolist()) for c in batch}) == 1
    ids = np.concatenate([columns(batch)[0].origin.ids for batch in batches])
    assert len(set(ids.tolist())) == MOST
    assert reader.explain(int(ids[3])).place == 3


@kinds
@pytest.mark.parametrize("late", [False, True])
def test_the_length_of_a_reader_is_that_of_its_data_set_and_of_an_epoch_its_steps(kind, late, roots):
    reader = kind.made(roots[kind.name], num_shards=2, random_shuffle=True, lazy_init=late)
    assert reader  # an empty one would be true as well
    assert len(reader.next_epoch(5)) == -(-MOST // 10)
    reader(5)
    assert len(reader) == MOST == reader.get_metadata()["epoch_size"]


@kinds
def test_without_a_batch_size_samples_come_as_tensors(kind, roots):
    reader = kind.made(roots[kind.name])
    for sample in (next(reader.next_epoch()), reader(), reader.peek()):
        assert all(isinstance(tensor, Tensor) for tensor in columns(sample))
    assert isinstance(sample, type(next(kind.made(roots[kind.name]).next_epoch(2))))
    assert reader.position == 2


@pytest.mark.parametrize("shuffle", [False, True])
@kinds
@pytest.mark.slow
def test_a_run_may_be_stopped_and_go_on_with_other_shards_and_batches(kind, shuffle, tmp_path):
    kind.write(tmp_path, range(7))

    def job(batch_size, shard_id, num_shards):
        reader = kind.made(tmp_path, random_shuffle=shuffle, seed=4, shard_id=shard_id, num_shards=num_shards)

        def epoch():
            for outputs in reader.next_epoch(batch_size):
                yield columns(outputs)

        return {"reader": reader}, epoch

    assert assert_resumable(job, batch_sizes=(1, 3)).samples == 7


@kinds
def test_shards_share_an_epoch_and_prove_it(kind, roots):
    rank = [kind.made(roots[kind.name], random_shuffle=True, num_shards=3, shard_id=k) for k in range(3)]
    seen = [i for reader in rank for batch in reader.next_epoch(4) for i in kind.numbers(batch)]
    assert sorted(seen) == list(range(MOST))
    assert verify_epoch([reader.get_state() for reader in rank]).samples == MOST


@kinds
@pytest.mark.parametrize("told", [str, json.dumps, lambda state: str(state).encode()])
def test_a_state_may_be_given_back_as_a_text(kind, told, roots):
    reader, other = kind.made(roots[kind.name]), kind.made(roots[kind.name])
    reader(3)
    other.set_state(told(reader.get_state()))
    assert other.get_state() == reader.get_state()
    for wrong in ("", "{", "{'version': __import__('os')}", "{" * 10_000, "[1]", told({})):
        with pytest.raises(StateError, match="not a state of a reader"):
            other.set_state(wrong)
    assert other.get_state() == reader.get_state()


@kinds
def test_an_epoch_left_early_goes_on_with_the_next_loop(kind, roots):
    reader = kind.made(roots[kind.name])
    given = kind.numbers(next(reader.next_epoch(2))) + kind.numbers(reader(3))
    for batch in reader.next_epoch(4):
        given += kind.numbers(batch)
    assert (given, reader.epoch) == (list(range(MOST)), 1)


@kinds
def test_an_epoch_takes_what_dalis_scripts_say_of_it(kind, roots):
    reader = kind.made(roots[kind.name])
    batches = list(reader.next_epoch(2, dynamic.EvalContext.current(), capture=True))
    assert [kind.numbers(batch) for batch in batches] == [
        kind.numbers(batch) for batch in kind.made(roots[kind.name]).next_epoch(batch_size=2, ctx=None, capture=False)
    ]
    with pytest.raises(ArgumentError, match=r"next_epoch\(\): argument 'capture' must be True or False"):
        reader.next_epoch(2, capture="yes")


@kinds
def test_a_checkpoint_on_disk_goes_on(kind, roots, tmp_path):
    reader = kind.made(roots[kind.name], random_shuffle=True, seed=2)
    kind.numbers(reader(6))
    save(tmp_path / "run.json", reader=reader)
    rest = [kind.numbers(batch) for batch in reader.next_epoch(4)]
    again = kind.made(roots[kind.name], random_shuffle=True, seed=2)
    load(tmp_path / "run.json", reader=again)
    assert [kind.numbers(batch) for batch in again.next_epoch(4)] == rest


@kinds
def test_a_changed_data_set_is_told_by_what_changed_and_may_be_adapted_to(kind, tmp_path):
    kind.write(tmp_path, range(9))
    reader = kind.made(tmp_path, random_shuffle=True)
    given = kind.numbers(reader(4))
    state = moved(reader.get_state())
    kind.write(tmp_path, range(10))
    grown = kind.made(tmp_path, random_shuffle=True)
    with pytest.raises(StateMismatch, match=r"samples: 9 in the state, 10 here; names: 1 added"):
        grown.set_state(state)
    assert (grown.epoch, grown.position) == (0, 0)
    grown.set_state(state, on_mismatch="adapt")
    rest = [i for batch in grown.next_epoch(3) for i in kind.numbers(batch)]
    assert sorted(given + rest) == list(range(10))


@pytest.mark.parametrize("count", [2, 20])
def test_an_archive_of_another_folder_gives_all_samples_other_names_and_is_refused(count, tmp_path):
    for folder, numbers in (("train", range(count)), ("extra", [50])):
        (tmp_path / folder).mkdir()
        with tarfile.open(tmp_path / folder / "0.tar", "w") as archive:
            for number in numbers:
                entry = tarfile.TarInfo(f"{number}.cls")
                entry.size = 1
                archive.addfile(entry, io.BytesIO(bytes([number])))
    reader = readers.Webdataset(paths=tmp_path / "train" / "0.tar", ext="cls", random_shuffle=True)
    assert reader(1)[0].origin.names[0].startswith("0.tar/")
    paths = [tmp_path / "train" / "0.tar", tmp_path / "extra" / "0.tar"]
    both = readers.Webdataset(paths=paths, ext="cls", random_shuffle=True, on_mismatch="adapt")
    before = both.get_state()
    with pytest.raises(StateMismatch, match="as where a file of another folder joins"):
        both.set_state(reader.get_state())
    assert both.get_state() == before
    assert sum(len(batch) for (batch,) in both.next_epoch(3)) == count + 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was just being opened
@kinds
def test_what_the_handler_of_a_signal_raises_is_no_fault_of_a_file(kind, roots):
    """One that ends what takes too long raises TimeoutError, which is an OSError."""

    def run(interruption):
        reader = kind.made(roots[kind.name], on_error="skip", fingerprint="contents")
        given = []
        with EvalContext(num_threads=1), contextlib.suppress(TimeoutError), interruption:
            given.append(reader(2))
            reader.get_state()
        state = reader.get_state()
        given += reader.next_epoch(30)
        assert [i for batch in given for i in kind.numbers(batch)] == list(range(MOST)), interruption.turn
        assert not reader.skipped
        return state

    run(Interruption(None))  # the first call does more than the others
    alone = run(counting := Interruption(None))
    turns = sorted(places[0] for places in counting.found.values())
    for turn in turns[:: len(turns) // 99 + 1]:
        assert run(Interruption(turn, TimeoutError))["contents"] == alone["contents"]


@kinds
def test_a_data_set_that_was_moved_is_the_same(kind, tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        kind.write(tmp_path / name, range(6))
    reader = kind.made(tmp_path / "here", random_shuffle=True, fingerprint="contents")
    reader(2)
    there = kind.made(tmp_path / "there", random_shuffle=True, fingerprint="contents")
    there.set_state(reader.get_state())
    assert [kind.numbers(b) for b in there.next_epoch(2)] == [kind.numbers(b) for b in reader.next_epoch(2)]


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@kinds
def test_a_sample_that_is_spoilt_after_it_was_listed(kind, on_error, tmp_path):
    kind.write(tmp_path, range(6))
    reader = kind.spoilt(tmp_path, 5, on_error=on_error)
    if on_error == "raise":
        with pytest.raises(DataError, match=r"1 of 6 samples cannot be read.\n  sample 5 \(") as caught:
            reader(6)
        assert (caught.value.failures[0].index, reader.position) == (5, 0)
        return
    assert kind.numbers(reader(6)) == [0, 1, 2, 3, 4] + [0] * (on_error == "replace")
    assert [failure.index for failure in reader.skipped] == [5]
    assert ("row 5" if kind.name == "Map" else str(tmp_path)) in reader.skipped[0].source
    if on_error == "skip":
        reader.seek(5)
        batch = next(reader.next_epoch(1))
        assert [(len(column), column.dtype is None, column.ndim is None) for column in columns(batch)] == [
            (0, False, False) for _ in columns(batch)
        ]


@pytest.mark.parametrize("how", ["replaced", "rewritten", "touched", "grown"])
@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.packed], ids=lambda kind: kind.name)
def test_a_file_that_is_another_in_mid_epoch_gives_no_other_samples(kind, how, on_error, tmp_path):
    """Its places are those of other samples; nothing is left out for that, so it is an error however that is set."""
    kind.write(tmp_path, range(6))
    (path,) = tmp_path.iterdir()
    reader = kind.made(tmp_path, on_error=on_error)
    assert kind.numbers(reader(2)) == [0, 1]
    before, data = path.stat(), path.read_bytes()
    if how == "replaced":  # by a file of the same size and time
        (tmp_path / "other").write_bytes(data)
        os.utime(tmp_path / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
        (tmp_path / "other").replace(path)
    elif how == "touched":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    else:
        kind.write(tmp_path, [5, 4, 3, 2, 1, 0] if how == "rewritten" else range(7))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    for _ in range(2):
        with pytest.raises(DataError, match="is no more the file that was listed"):
            reader(2)
    assert (reader.position, reader.skipped) == (2, [])
    again = kind.made(tmp_path)
    again.seek(2)
    assert len(kind.numbers(again(2))) == 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.packed], ids=lambda kind: kind.name)
def test_a_pickled_reader_takes_copies_of_its_files(kind, tmp_path):
    """As on another machine, where they have other times and numbers; of another size they are others."""
    kind.write(tmp_path, range(6))
    (path,) = tmp_path.iterdir()
    reader = pickle.loads(pickle.dumps(kind.made(tmp_path)))
    (tmp_path / "copy").write_bytes(path.read_bytes())
    os.utime(tmp_path / "copy", ns=(1, 1))
    (tmp_path / "copy").replace(path)
    assert kind.numbers(reader(2)) == [0, 1]
    with path.open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(DataError, match="is no more the file that was listed"):
        reader(2)


@kinds
def test_threads_read_and_fail_while_a_batch_is_being_given_out(kind, tmp_path, monkeypatch):
    """As where files are slow; a thread that waited for what the caller holds would wait for ever."""
    kind.write(tmp_path, range(20))
    monkeypatch.setattr(_stored, "_SLOW", 0.0)
    reader = kind.spoilt(tmp_path, 19, on_error="skip")
    dynamic.set_num_threads(4)
    try:
        assert [kind.numbers(reader(20)) for _ in range(20) if not reader.seek(0)] == [list(range(19))] * 20
    finally:
        dynamic.set_num_threads(None)


@kinds
def test_a_reader_can_be_pickled_and_listed_late(kind, roots, monkeypatch):
    monkeypatch.chdir(roots[kind.name])
    reader = kind.made(".", random_shuffle=True, lazy_init=True, max_batch_size=5)
    assert reader._listed is None
    again = pickle.loads(pickle.dumps(reader))
    monkeypatch.chdir("/")
    first = kind.numbers(reader())
    assert kind.numbers(again()) == first
    third = pickle.loads(pickle.dumps(again))
    assert [kind.numbers(b) for b in third.next_epoch()] == [kind.numbers(b) for b in reader.next_epoch()]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"random_shuffle": 2}, "argument 'random_shuffle' must be True or False"),
    ({"seed": -2}, "argument 'seed' must be an integer"),
    ({"num_shards": 0}, "argument 'num_shards' must be an integer of 1 or more"),
    ({"shard_id": 1}, "argument 'shard_id' must be an integer in"),
    ({"last_batch": "fill"}, "argument 'last_batch' must be"),
    ({"last_batch": "drop", "pad_last_batch": True}, "argument 'last_batch' must be 'pad' with pad_last_batch=True"),
    ({"on_error": "ignore"}, "argument 'on_error' must be"),
    ({"fingerprint": "names"}, "argument 'fingerprint' must be"),
    ({"shuffle_after_epoch": True, "random_shuffle": True}, "argument 'shuffle_after_epoch' must be False with"),
    ({"initial_fill": -1}, "argument 'initial_fill' must be an integer"),
    ({"read_ahead": 3}, "argument 'read_ahead' must be True or False"),
    ({"max_batch_size": 0}, "argument 'max_batch_size' must be an integer of 1 or more"),
    ({"device": "tpu"}, "argument 'device' must be 'cpu'"),
    ({"num_inputs": 1}, "argument 'num_inputs' must be 0"),
    ({"random_shufle": True}, "has no argument 'random_shufle'. Did you mean 'random_shuffle'"),
])  # fmt: skip
@kinds
def test_wrong_arguments_are_named(kind, arguments, told, roots):
    with pytest.raises(ArgumentError, match=rf"readers\.{kind.name}\(\):? {told}"):
        kind.made(roots[kind.name], **arguments)


#: What other libraries call what is read.
_ELSEWHERE = ["path", "paths", "root", "folder", "data_dir", "file", "filenames", "file_names", "url", "urls"]


@pytest.mark.parametrize("argument", ["random_shufle", *_ELSEWHERE])
@kinds
def test_a_name_that_is_unknown_is_told_before_what_is_missing(kind, argument, tmp_path):
    reader = getattr(readers, kind.name)
    if argument in reader.__signature__.parameters:
        return
    with pytest.raises(ArgumentError, match=rf"readers.{kind.name}\(\) has no argument '{argument}'") as caught:
        reader(**{argument: tmp_path})
    if argument in _ELSEWHERE:
        meant = caught.value.hint.removeprefix("Did you mean '").removesuffix("'?")
        sources = ("file_root", "files", "filenames", "file_list", "path", "paths", "dataset", "manifest_filepaths")
        assert meant in sources
        assert meant in reader.__signature__.parameters


@kinds
def test_a_path_in_the_place_of_the_batch_size_is_told_its_name(kind, tmp_path):
    reader = getattr(readers, kind.name)
    files = "file_root= or files= or file_list=."
    videos = "filenames= or file_root= or file_list=."
    expected = {"File": files, "Numpy": files, "COCO": "file_root=.", "TFRecord": "path=.", "Webdataset": "paths=.",
                "Map": "dataset=.", "Sequence": "file_root=.",
                "NemoAsr": "manifest_filepaths=.", "MXNet": "path=.", "Caffe": "path=.", "Caffe2": "path=.",
                "Fits": files, "Video": videos}[kind.name]  # fmt: skip
    for path in (tmp_path, str(tmp_path), bytes(tmp_path), [tmp_path]):
        with pytest.raises(
            ArgumentError, match="argument 'max_batch_size' must be an integer of 1 or more; got"
        ) as told:
            reader(path)
        assert told.value.hint == f"Give the source by name: {expected}"
    with pytest.raises(ArgumentError, match="'max_batch_size' must be an integer of 1 or more; got float 1.5"):
        reader(1.5)


@pytest.mark.parametrize(("kind", "arguments", "told"), [
    ("TFRecord", {"paths": "a", "features": {}}, r"has no argument 'paths'. Did you mean 'path'\?"),
    ("TFRecord", {"features": {}}, "'path' must be given; got nothing"),
    ("TFRecord", {"path": "a"}, "'features' must be given; got nothing"),
    ("Webdataset", {"urls": "a", "ext": "jpg"}, r"has no argument 'urls'. Did you mean 'paths'\?"),
    ("Webdataset", {"ext": "jpg"}, "'paths' must be given; got nothing"),
    ("Webdataset", {"paths": "a"}, "'ext' must be given; got nothing"),
    ("File", {"path": "a"}, r"has no argument 'path'. Did you mean 'file_root'\?"),
    ("File", {"filenames": ["a"]}, r"has no argument 'filenames'. Did you mean 'files'\?"),
    ("COCO", {"fileroot": "a"}, r"has no argument 'fileroot'. Did you mean 'file_root'\?"),
])  # fmt: skip
def test_what_is_missing_and_what_was_meant_are_told(kind, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        getattr(readers, kind)(**arguments)


@kinds
def test_a_gpu_is_refused_that_is_not_there_or_of_no_use(kind, roots):
    told = rf"readers\.{kind.name}\(\): files are read on the CPU; got 'gpu'"
    if kind.name == "Video":  # its frames are sent to one
        told = "no device 'gpu:0'"
    with pytest.raises(DeviceError, match=told):
        kind.made(roots[kind.name], device="gpu")


@kinds
def test_all_arguments_stand_in_signature_and_documentation(kind):
    reader = getattr(readers, kind.name)
    documented = inspect.getdoc(reader).partition("\nArgs:\n")[2].partition("\n\nRaises:")[0]
    names = [line.split(":")[0].strip() for line in documented.splitlines() if line[4:5].strip()]
    assert names == list(inspect.signature(reader).parameters)


@kinds
def test_a_pipeline_reads_from_it(kind, roots):
    @pipeline_def(batch_size=4, seed=1)
    def made():
        outputs = getattr(fn.readers, kind.function)(name="reader", **kind.arguments(roots[kind.name]))
        return columns(outputs)

    pipe = made()
    assert [i for outputs in pipe.next_epoch() for i in kind.numbers(outputs)] == list(range(MOST))
    pipe.close()


@pytest.mark.parametrize(("kind", "argument", "others"), [
    ("File", "file_root", {}), ("File", "file_list", {}), ("File", "files", {}), ("Numpy", "file_root", {}),
    ("Numpy", "files", {}), ("Webdataset", "paths", {"ext": "jpg"}), ("TFRecord", "path", {"features": {}}),
    ("COCO", "file_root", {"annotations_file": "a.json"}), ("COCO", "annotations_file", {"file_root": "."}),
])  # fmt: skip
@given(scheme=st.sampled_from(["s4", "bucket", "HTTPZ", "az+blob", "abfs.x"]), rest=st.text("ab/.", max_size=9))
def test_an_address_is_refused_by_name(kind, argument, others, scheme, rest):
    address = f"{scheme}://{rest}"
    for value in [address, address.encode()] if argument != "files" else [[address], [address.encode()]]:
        with pytest.raises(ArgumentError, match=rf"'{argument}(\[0\])?' must be a path.*an addr"):
            getattr(readers, kind)(**{argument: value, **others})


@pytest.mark.parametrize(("kind", "line"), [("File", "{} 0"), ("Numpy", "{}")])
def test_an_address_in_a_list_of_files_is_refused_by_name(tmp_path, kind, line):
    path = tmp_path / "list.txt"
    path.write_text(f"{line.format('here.npy')}\n\n{line.format('s4://bucket/a.npy')}\n")
    with pytest.raises(ArgumentError, match=r"'file_list\[1\]' must be a path, or an addr.*'s4://bucket/a"):
        getattr(readers, kind)(file_list=path)


def test_the_path_of_a_file_address_is_told():
    for call in (lambda x: readers.File(files=[x]), dynamic.imread, dynamic.io.file.read):
        with pytest.raises(ArgumentError, match=r"not an address; got str 'file:///a/b.jpg'. Write '/a/b.jpg'.$"):
            call("file:///a/b.jpg")


def test_a_name_with_a_colon_is_a_path(tmp_path):
    for name in ("a:b", "s3:", "1://x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
        (files, _) = readers.File(files=[name], file_root=tmp_path)(1)
        assert files.tolist() == [[120]]
