"""The reader of frames in folders: sequences and their order as in DALI, formats, sizes, numbers, damage."""

from __future__ import annotations

import json
import os
import warnings

import cv2
import numpy as np
import pytest
from dali_oracle import Oracle, dali_fixture  # noqa: F401
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dynamic import decoders
from dynamic.errors import ArgumentError, DataError, DecodeError, OrderWarning, StateMismatch
from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import Sequence

ENDINGS = ["png", "jpg", "bmp", "tiff", "webp", "ppm"]


def frame(path, value, size=(3, 2)):
    """Write an image whose pixels have one value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((*size, 3), (value, value // 2, value // 3), np.uint8)
    (path).write_bytes(cv2.imencode(f".{path.suffix.lower()[1:]}", image)[1].tobytes())


def folder_of(root, name, count, ending="png", size=(3, 2)):
    for i in range(count):
        frame(root / name / f"{i:03}.{ending}", 10 * i + 5, size)


def sequences(root, **arguments):
    """All sequences, by name."""
    reader = Sequence(file_root=root, **arguments)
    return {name: video.numpy() for (videos,) in reader.next_epoch(3)
            for name, video in zip(videos.origin.names, videos, strict=True)}  # fmt: skip


THEIRS = """
from nvidia.dali import fn, pipeline_def
import numpy as np
@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def pipe():
    return fn.readers.sequence(name="reader", **{arguments!r})
made = pipe()
made.build()
result = tuple(np.array(made.run()[0][0]) for _ in range(made.reader_meta("reader")["epoch_size"]))
"""

words = st.text("aB1.-ä", min_size=1, max_size=4).filter(lambda text: text[0] != "." and text.strip("."))
trees = st.dictionaries(words, st.lists(st.tuples(words, st.sampled_from([*ENDINGS, "txt", "PNG"])), max_size=5),
                        min_size=1, max_size=3)  # fmt: skip


@given(tree=trees, length=st.integers(1, 3), step=st.integers(1, 3), stride=st.integers(1, 2),
       kind=st.sampled_from(["RGB", "BGR", "GRAY"]))  # fmt: skip
@settings(max_examples=20)
def test_sequences_are_those_of_dali(dali: Oracle, tmp_path_factory, tree, length, step, stride, kind):
    root, value = tmp_path_factory.mktemp("videos"), 0
    for name, files in tree.items():
        (root / name).mkdir()
        for stem, ending in files:
            value += 16
            path = root / name / f"{stem}.{ending}"
            path.write_text("no frame") if ending == "txt" else frame(path, value)
    (root / "beside.png").write_bytes(b"no frame")
    asked = {"file_root": str(root), "sequence_length": length, "step": step, "stride": stride}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OrderWarning)
        try:
            ours = sequences(**{"root": root, **{n: v for n, v in asked.items() if n != "file_root"}}, image_type=kind)
        except ArgumentError:
            ours = None
    assume(ours is not None)
    number = {"RGB": 0, "BGR": 1, "GRAY": 2}[kind]
    theirs = dali.script(THEIRS.format(arguments=asked | {"image_type": number}))
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    assert len(theirs) == len(ours)
    for (name, mine), their in zip(ours.items(), theirs, strict=True):
        np.testing.assert_array_equal(mine, getattr(their, "array", their), err_msg=name)


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=4), length=st.integers(1, 4), step=st.integers(1, 5),
       stride=st.integers(1, 3), batch=st.integers(1, 9), shuffle=st.booleans())  # fmt: skip
@settings(max_examples=30)
def test_frames_are_every_so_many_of_a_folder(tmp_path_factory, counts, length, step, stride, batch, shuffle):
    root = tmp_path_factory.mktemp("videos")
    for k, count in enumerate(counts):
        (root / f"{k}").mkdir()
        for i in range(count):
            (root / f"{k}" / f"{i}.pgm").write_bytes(b"P5 1 1 255 " + bytes([16 * k + i]))
    span = (length - 1) * stride + 1
    expected = {f"{k}#{i}.pgm": list(range(16 * k + i, 16 * k + i + span, stride))
                for k, count in enumerate(counts) for i in range(0, count - span + 1, step)}  # fmt: skip
    arguments = {"file_root": root, "sequence_length": length, "step": step, "stride": stride, "image_type": "GRAY"}
    if not expected:
        with pytest.raises(ArgumentError, match=rf"folders of {span} or more frames .*'{int(np.argmax(counts))}' has"):
            Sequence(**arguments)
        return
    reader = Sequence(**arguments, random_shuffle=shuffle)
    assert len(reader) == len(expected)
    found = {}
    for (videos,) in reader.next_epoch(batch):
        assert (videos.layout, videos.dtype) == ("FHWC", "uint8")
        found |= {name: video.numpy().ravel().tolist() for name, video in zip(videos.origin.names, videos, strict=True)}
    assert found == expected
    assert shuffle or list(found) == list(expected)


@pytest.mark.parametrize("ending", [*ENDINGS, "gif", "pgm", "jp2", "JPEG", "TIF"])
@pytest.mark.parametrize("kind", ["RGB", "GRAY", "YCbCr", "ANY_DATA"])
def test_frames_are_as_the_decoder_gives_them(tmp_path, ending, kind):
    path = tmp_path / "a" / f"0.{ending}"
    path.parent.mkdir()
    gradient = np.arange(33 * 40 * 3, dtype=np.uint8).reshape(33, 40, 3)
    path.write_bytes(cv2.imencode(f".{ending.lower()}", gradient[..., 0] if ending == "pgm" else gradient)[1].tobytes())
    (video,) = sequences(tmp_path, sequence_length=1, image_type=kind).values()
    alone = decoders.image(path.read_bytes(), output_type=kind, adjust_orientation=False)
    np.testing.assert_array_equal(video, alone.numpy()[None], strict=True)


def test_frames_are_turned_upright_only_if_that_is_asked_for(tmp_path):
    image = cv2.imencode(".jpg", np.zeros((3, 5, 3), np.uint8))[1].tobytes()
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(
        image[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + image[2:]
    )
    shapes = [next(iter(sequences(tmp_path, sequence_length=1, adjust_orientation=flag).values())).shape
              for flag in (False, True)]  # fmt: skip
    assert shapes == [(1, 3, 5, 3), (1, 5, 3, 3)]


def test_folders_may_differ_in_size_but_frames_of_a_sequence_not(tmp_path):
    folder_of(tmp_path, "a", 2)
    folder_of(tmp_path, "b", 2, size=(4, 4))
    (videos,) = Sequence(file_root=tmp_path, sequence_length=2)(2)
    assert videos.shape == [(2, 3, 2, 3), (2, 4, 4, 3)]
    frame(tmp_path / "b" / "002.png", 9, (5, 6))
    reader = Sequence(file_root=tmp_path, sequence_length=2, on_error="skip")
    told = r"sample 2 \(.*b#001.png\): frame b/002.png has the shape \(5, 6, 3\), where b/001.png has \(4, 4, 3\)"
    with pytest.raises(DataError, match=told):
        Sequence(file_root=tmp_path, sequence_length=2)(3)
    assert reader(3)[0].origin.names == ["a#000.png", "b#000.png"]
    assert [failure.source.rpartition("/")[2] for failure in reader.skipped] == ["b#001.png"]


def test_a_frame_that_is_missing_or_damaged_is_named_with_each_of_its_sequences(tmp_path):
    folder_of(tmp_path, "a", 4)
    reader = Sequence(file_root=tmp_path, sequence_length=2)
    (tmp_path / "a" / "001.png").unlink()
    with pytest.raises(
        DataError, match=r"2 of 3 samples.*\n.*0 .*a#000.png\): frame .*a/001.png: No such file.*\n.*a#001"
    ):
        reader(3)
    (tmp_path / "a" / "001.png").write_bytes((tmp_path / "a" / "000.png").read_bytes()[:-20])
    with pytest.raises(DecodeError, match=r"2 of 3 samples.*\n.*frame .*a/001.png: .*end"):
        reader(3)
    (tmp_path / "a" / "001.png").write_bytes(b"no image")
    with pytest.raises(DecodeError, match=r"2 of 3 samples.*\n.*frame .*a/001.png: .*no image format"):
        reader(3)
    skipping = Sequence(file_root=tmp_path, sequence_length=2, on_error="skip")
    found = [videos for (videos,) in skipping.next_epoch(2)]
    assert [(len(videos), videos.layout, videos.ndim) for videos in found] == [(0, "FHWC", 4), (1, "FHWC", 4)]


def test_numbered_frames_come_in_the_order_of_numbers(tmp_path):
    for i in (0, 5, 10, 100, 105):
        (tmp_path / ("a" if i < 50 else "b")).mkdir(exist_ok=True)
        (tmp_path / ("a" if i < 50 else "b") / f"f2_{i}.pgm").write_bytes(b"P5 1 1 255 " + bytes([i]))
    arguments = {"file_root": tmp_path, "sequence_length": 2, "image_type": "GRAY"}
    with pytest.warns(OrderWarning, match=r"in .*a f2_5.pgm comes after f2_10.pgm. Give numbered=True"):
        plain = sequences(tmp_path, sequence_length=2, image_type="GRAY")
    assert [video.ravel().tolist() for video in plain.values()] == [[0, 10], [10, 5], [100, 105]]
    numbered = sequences(tmp_path, sequence_length=2, image_type="GRAY", numbered=True)
    assert [video.ravel().tolist() for video in numbered.values()] == [[0, 5], [5, 10], [100, 105]]
    state = Sequence(**arguments, numbered=True).get_state()
    with pytest.warns(OrderWarning), pytest.raises(StateMismatch):
        Sequence(**arguments).set_state(state)


@pytest.mark.parametrize(("names", "told"), [
    (["1.png", "2.png", "4.png"], "a: lacks frame 3, between 2.png and 4.png"),
    (["00.png", "05.png", "20.png", "10.png"], "a: lacks frame 15, between 10.png and 20.png"),
    (["1.png", "01.png", "7.png"], "a: has two frames of number 1: 01.png and 1.png"),
    (["1.png", "cover.png"], "a/cover.png: has no number in its name"),
    ([], "a: holds no frames"),
])  # fmt: skip
def test_what_is_not_numbered_is_named(tmp_path, names, told):
    (tmp_path / "a").mkdir()
    folder_of(tmp_path, "b", 3)
    for name in names:
        frame(tmp_path / "a" / name, 3)
    with pytest.raises(DataError, match=told):
        Sequence(file_root=tmp_path, sequence_length=1, numbered=True)
    assert len(Sequence(file_root=tmp_path, sequence_length=1)) == 3 + len(names)  # as in DALI


@pytest.mark.parametrize(("arguments", "told"), [
    ({"sequence_length": 0}, "'sequence_length' must be an integer in"),
    ({"step": 0}, "'step'"),
    ({"stride": -1}, "'stride'"),
    ({"image_type": "HSV"}, "'image_type' must be"),
    ({"numbered": 1.5}, "'numbered'"),
    ({"file_filters": []}, "'file_filters'"),
    ({"sequence_length": 4}, r"folders of 4 or more frames each; .* 1 folders, of which 'a' has most frames: 3"),
    ({"file_root": "nowhere"}, "No such file"),
    ({"channels": 3}, "'channels'"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    folder_of(tmp_path, "a", 3)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=told):
        Sequence(**{"file_root": ".", "sequence_length": 2} | arguments)


@pytest.mark.parametrize("change", [{"sequence_length": 3}, {"stride": 2}])
def test_a_state_of_other_frames_is_refused(tmp_path, change):
    folder_of(tmp_path, "a", 9)
    arguments = {"file_root": tmp_path, "sequence_length": 2, "step": 6, "random_shuffle": True}
    state = json.loads(json.dumps(Sequence(**arguments).get_state()))
    with pytest.raises(StateMismatch, match="labels: the same samples with other labels"):
        Sequence(**arguments | change).set_state(state)


def test_a_frame_that_joins_or_changes_changes_its_sequences(tmp_path):
    folder_of(tmp_path, "a", 4)
    folder_of(tmp_path, "b", 4)
    arguments = {"file_root": tmp_path, "sequence_length": 2, "step": 2}
    before = Sequence(**arguments, fingerprint="contents").get_state()
    frame(tmp_path / "b" / "001a.png", 1)
    with pytest.raises(StateMismatch, match="names: "):
        Sequence(**arguments).set_state(before)
    os.unlink(tmp_path / "b" / "001a.png")
    Sequence(**arguments, fingerprint="contents").set_state(before)
    frame(tmp_path / "b" / "003.png", 77)
    with pytest.raises(StateMismatch, match="contents"):
        Sequence(**arguments, fingerprint="contents").set_state(before)
    frame(tmp_path / "b" / "003.png", 77, (9, 9))
    with pytest.raises(StateMismatch, match="sizes"):
        Sequence(**arguments).set_state(before)


def test_a_folder_with_a_number_sign_has_ids_of_its_own(tmp_path):
    for name in ("a/b#1.pgm", "a#b/1.pgm"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"P5 1 1 255 " + bytes([len(name)]))
    (videos,) = Sequence(file_root=tmp_path, sequence_length=1)(2)
    assert videos.origin.names == ["a#b#1.pgm", "a#b#1.pgm"]
    assert len(set(videos.origin.ids.tolist())) == 2


def test_a_pipeline_reads_sequences(tmp_path):
    folder_of(tmp_path, "a", 5)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe():
        return fn.resize(fn.readers.sequence(file_root=str(tmp_path), sequence_length=2, step=2), size=[4, 4])

    (videos,) = pipe().run()
    assert videos.layout() == "FHWC"
    assert [np.array(video).shape for video in videos] == [(2, 4, 4, 3)] * 2
