"""Sequences of frames of video files: which frames they have, by arithmetic, and that these are the right ones."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import pickle
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from dali_oracle import Oracle, dali_fixture  # noqa: F401 - the fixture
from hypothesis import given, settings
from hypothesis import strategies as st
from twin import build
from videos import DALIS, made, number, video

import dynamic as ndd
from dynamic.errors import ArgumentError, DataError, DecodeError, EmptyClassWarning, OrderWarning, StateMismatch
from dynamic.readers import Video, VideoResize

Experimental = ndd.experimental.readers.Video
COUNT = 23


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with videos of two classes."""
    root = tmp_path_factory.mktemp("videos")
    for name, film in {
        "a/walk.mkv": made(codec="ffv1", format="matroska", frames=COUNT, key_every=5),
        "a/run.mp4": made(frames=12, key_every=5, b_frames=2),
        "b/sit.webm": made(codec="libvpx-vp9", format="webm", frames=9, height=32, width=48),
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(film.data)
    return root


@pytest.fixture(scope="module")
def walk(root):
    return root / "a" / "walk.mkv"


def all_of(reader, batch_size=4):
    """The outputs of all sequences of an epoch."""
    return [
        tuple(np.asarray(column[i].array) for column in batch)
        for batch in reader.next_epoch(batch_size)
        for i in range(len(batch[0]))
    ]


def clips(start, end, length, step, stride, *, pad, behind=0):
    """The frames of the sequences of a part, one by one; `behind` is how many a whole one needs after its last."""
    step, first, found = (length - 1) * stride + 1 + behind if step < 0 else step, start, []
    while first < end:
        places = [first + k * stride for k in range(length)]
        if places[-1] + behind >= end:
            if pad:
                found.append([place if place < end else -1 for place in places])
            break
        found.append(places)
        first += step
    return found


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(-1, 9).filter(bool), st.integers(1, 4), st.booleans(), st.integers(1, 5))
def test_sequences_have_the_frames_of_arithmetic(walk, length, step, stride, pad, batch_size):
    arguments = {"sequence_length": length, "step": step, "stride": stride, "pad_sequences": pad}
    expected = clips(0, COUNT, length, step, stride, pad=pad)
    if not expected:
        with pytest.raises(ArgumentError, match=f"a sequence spans {(length - 1) * stride + 1} frames.*: {COUNT}"):
            Video(filenames=walk, **arguments)
        return
    reader = Video(filenames=walk, enable_frame_num="sequence", enable_timestamps=True, **arguments)
    found = all_of(reader, batch_size)
    assert len(reader) == len(found) == len(expected)
    for (frames, numbers, times), places in zip(found, expected, strict=True):
        assert numbers.tolist() == places
        assert [number(frame) for frame, place in zip(frames, places, strict=True) if place >= 0] == [
            place for place in places if place >= 0
        ]
        assert not frames[np.array(places) < 0].any()
        np.testing.assert_allclose(times, [place * 0.04 if place >= 0 else -1 for place in places], atol=1e-9)


def ends(times, start, end, *, start_up, end_up):
    """The part between two times, by the frames that begin at some time and are shown at some time."""

    def frame(time, up):
        if time >= times[-1] + Fraction(1, 25):
            return len(times)
        begun = [i for i, each in enumerate(times) if each >= time]
        return (begun[0] if begun else len(times)) if up else [i for i, each in enumerate(times) if each <= time][-1]

    return frame(start, start_up), frame(end, end_up)


@settings(max_examples=40)
@given(st.integers(0, 100), st.integers(0, 120), st.booleans())
def test_parts_between_times(walk, tmp_path_factory, start, end, wide):
    """Times are exact: those of frames, and those between them."""
    lines = tmp_path_factory.mktemp("lines") / "list.txt"
    start, end = Fraction(start, 100), Fraction(end, 100)
    lines.write_text(f"{walk} 3 {float(start)} {float(end)}\n")
    times = [Fraction(i, 25) for i in range(COUNT)]
    first, last = ends(times, start, end, start_up=not wide, end_up=wide)
    arguments = {"file_list": lines, "sequence_length": 1, "enable_frame_num": True,
                 "file_list_include_preceding_frame": wide}  # fmt: skip
    if first >= last:
        with pytest.warns(OrderWarning, match="has no frames, and is left out"), pytest.raises(ArgumentError):
            Video(**arguments)
        return
    assert [numbers.item() for _, _, numbers in all_of(Video(**arguments))] == list(range(first, last))


@pytest.mark.parametrize(("part", "expected"), [
    ("", (0, 23)), ("4", (4, 23)), ("4 9", (4, 9)), ("-5", (18, 23)), ("-5 -2", (18, 21)), ("2.5 7.5", (3, 7)),
    ("20 90", (20, 23)), ("0 -1", (0, 22)),
])  # fmt: skip
def test_parts_between_numbers_of_frames(walk, tmp_path, part, expected):
    (tmp_path / "list.txt").write_text(f"\n{walk} -3 {part}\n\n")
    reader = Video(file_list=tmp_path / "list.txt", file_list_frame_num=True, sequence_length=1, enable_frame_num=True)
    found = all_of(reader)
    assert [numbers.item() for _, _, numbers in found] == list(range(*expected))
    assert {label.item() for _, label, _ in found} == {-3}


@pytest.mark.parametrize(("rounding", "expected"), [
    ("start_down_end_up", (2, 8)), ("start_up_end_down", (3, 7)), ("all_up", (3, 8)), ("all_down", (2, 7)),
])  # fmt: skip
def test_roundings_of_the_experimental_reader(walk, tmp_path, rounding, expected):
    (tmp_path / "list.txt").write_text(f"{walk} 7 0.1 0.3\n")
    arguments = {"file_list": tmp_path / "list.txt", "file_list_rounding": rounding, "sequence_length": 1}
    reader = Experimental(**arguments, enable_frame_num=True)
    assert [numbers.item() for _, _, numbers in all_of(reader)] == list(range(*expected))
    (tmp_path / "list.txt").write_text(f"{walk} 7 2.5 7.5\n")
    reader = Experimental(**arguments, file_list_format="frames", enable_frame_num=True)
    up = {"all_up": (3, 8), "all_down": (2, 7), "start_down_end_up": (2, 8), "start_up_end_down": (3, 7)}[rounding]
    assert [numbers.item() for _, _, numbers in all_of(reader)] == list(range(*up))


def reflected(place, count, *, twice):
    """A place that is thrown back at both ends of a part, once by once."""
    while not 0 <= place < count:
        if count == 1:
            return 0
        place = -place - twice if place < 0 else 2 * count - 2 + twice - place
    return place


@settings(max_examples=60)
@given(
    st.sampled_from(["none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect"]),
    st.integers(0, 20), st.integers(1, 10), st.integers(1, 12), st.integers(1, 3), st.integers(1, 5),
)  # fmt: skip
def test_sequences_are_padded(walk, tmp_path_factory, mode, start, count, length, stride, step):
    lines = tmp_path_factory.mktemp("lines") / "list.txt"
    end = min(start + count, COUNT)
    lines.write_text(f"{walk} 0 {start} {end}\n")
    arguments = {"file_list": lines, "file_list_format": "frames", "sequence_length": length, "stride": stride,
                 "step": step, "pad_mode": mode, "enable_frame_num": "sequence", "fill_value": [1, 2, 3]}  # fmt: skip
    wanted = clips(0, end - start, length, step, stride, pad=mode != "none", behind=stride - 1)
    if not wanted:
        with pytest.raises(ArgumentError, match="a sequence spans"):
            Experimental(**arguments)
        return
    found = all_of(Experimental(**arguments))
    assert len(found) == len(wanted)
    for (frames, _, numbers), first in zip(found, [places[0] for places in wanted], strict=True):
        places = [first + k * stride for k in range(length)]
        if mode in ("edge", "repeat"):
            places = [min(place, end - start - 1) for place in places]
        elif mode.startswith(("reflect", "symmetric")):
            twice = mode in ("reflect_1001", "symmetric")
            places = [reflected(place, end - start, twice=twice) for place in places]
        expected = [place + start if place < end - start else -1 for place in places]
        assert numbers.tolist() == expected
        for frame, place in zip(frames, expected, strict=True):
            assert number(frame) == place if place >= 0 else (frame == [1, 2, 3]).all()


@given(st.integers(1, 40))
@settings(max_examples=20)
def test_uniform_sequences_reach_from_the_first_frame_to_the_last(root, length):
    names = [root / "a" / "walk.mkv", root / "a" / "run.mp4"]
    reader = Experimental(filenames=names, sequence_length=length, uniform_sample=True, enable_frame_num="sequence")
    for (frames, numbers), count in zip(all_of(reader), (COUNT, 12), strict=True):
        expected = [int(np.floor(x + 0.5)) for x in np.linspace(0, count - 1, length)]
        assert numbers.tolist() == expected == [number(frame) for frame in frames]


@pytest.mark.parametrize("kind", [Video, VideoResize, Experimental])
def test_folders_without_videos_are_told_of(root, tmp_path, kind):
    (tmp_path / "a").symlink_to(root / "a")
    (tmp_path / ".git").mkdir()
    with pytest.warns(EmptyClassWarning, match=r"1 of 2 folders .*'.git'.* Remove such folders, or .*file_list="):
        reader = kind(file_root=tmp_path, sequence_length=3)
    assert reader.classes == (".git", "a")


def test_videos_of_folders_have_classes_and_sizes_of_their_own(root):
    reader = Video(file_root=root, sequence_length=3)
    assert reader.classes == ("a", "b")
    found = all_of(reader, 20)
    assert len(found) == 4 + 7 + 3
    assert [label.item() for _, label in found] == [0] * 11 + [1] * 3
    assert {frames.shape for frames, _ in found} == {(3, 48, 64, 3), (3, 32, 48, 3)}
    (batch, _) = reader(14)
    assert (batch.layout, batch.origin.names[0], batch.origin.names[-1]) == ("FHWC", "a/run.mp4#0", "b/sit.webm#6")
    for kind in (Video, VideoResize, Experimental):
        (_, labels), (_, scalars) = (
            kind(file_root=root, sequence_length=3, scalar_labels=flag)(3) for flag in (False, True)
        )
        assert (labels.dtype, scalars.dtype) == (ndd.int32, ndd.int64)
        assert [[label] for label in scalars.tolist()] == labels.tolist()
    balanced = Video(file_root=root, sequence_length=3, weights={"a": 0, "b": 1})
    assert {name[0] for batch, _ in balanced.next_epoch(5) for name in batch.origin.names} == {"b"}


def test_labels_of_files(root):
    names = [root / "a" / "walk.mkv", root / "b" / "sit.webm"]
    for labels, expected in ((None, [()] * 2), ([], [(0,), (1,)]), ([7, -2], [(7,), (-2,)])):
        found = all_of(Video(filenames=names, labels=labels, sequence_length=9, step=100))
        assert [tuple(label.item() for label in others) for _, *others in found] == expected


def test_an_epoch_decodes_frames_that_several_sequences_of_a_batch_share_once(walk, monkeypatch):
    from dynamic.io import _video

    convert, converted = _video.Video._convert, []
    monkeypatch.setattr(_video.Video, "_convert", lambda self, n, *rest: converted.append(n) or convert(self, n, *rest))
    (frames,) = Video(filenames=walk, sequence_length=4, step=1)(20)
    assert converted == list(range(COUNT))
    assert [[number(frame) for frame in clip.array] for clip in frames] == [[i, i + 1, i + 2, i + 3] for i in range(20)]


@given(data=st.data())
@settings(max_examples=15)
def test_batches_in_any_order_are_the_sequences_of_their_names(root, data):
    arguments = {
        "file_root": root,
        "sequence_length": data.draw(st.integers(1, 4)),
        "step": data.draw(st.integers(1, 5)),
    }
    reader = Video(**arguments, random_shuffle=True, seed=data.draw(st.integers(0, 9)), enable_frame_num=True)
    for frames, _, numbers in reader.next_epoch(data.draw(st.integers(1, 7))):
        for clip, first, name in zip(frames, numbers, frames.origin.names, strict=True):
            assert name.endswith(f"#{first.array.item()}")
            assert [number(frame) for frame in clip.array] == list(
                range(first.array.item(), first.array.item() + len(clip.array))
            )


def test_types_and_ranges_of_values(walk):
    frames = all_of(Video(filenames=walk, sequence_length=2))[0][0]
    floats = all_of(Video(filenames=walk, sequence_length=2, dtype="float32"))[0][0]
    unit = all_of(Video(filenames=walk, sequence_length=2, dtype=ndd.float32, normalized=True))[0][0]
    assert (floats.dtype, unit.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(floats, frames.astype(np.float32))
    np.testing.assert_array_equal(unit, frames.astype(np.float32) / np.float32(255))
    stored = all_of(Video(filenames=walk, sequence_length=2, image_type="YCbCr"))[0][0]
    luma = 16 + frames @ np.array([65.481, 128.553, 24.966]) / 255
    assert np.abs(stored[..., 0] - luma).max() <= 1.5


@pytest.mark.parametrize("arguments", [{"size": [20, 30]}, {"resize_shorter": 24, "interp_type": "cubic"}, {},
                                       {"resize_x": 16, "antialias": False, "dtype": "float32"}])  # fmt: skip
def test_frames_are_resized_as_by_resize(root, arguments):
    common = {"file_root": root, "sequence_length": 3, "dtype": arguments.get("dtype", "uint8")}
    resizing = {name: value for name, value in arguments.items() if name != "dtype"}
    (plain, _), (resized, labels) = Video(**common)(14), VideoResize(**common, **resizing)(14)
    expected = ndd.resize(plain, **resizing) if resizing else plain
    for one, other in zip(resized, expected, strict=True):
        np.testing.assert_array_equal(one.array, other.array)
    assert (resized.origin.names, len(labels)) == (plain.origin.names, 14)


def test_the_arguments_of_resizing_are_those_of_resize():
    own = set(VideoResize.__signature__.parameters) - set(Video.__signature__.parameters)
    beside = {"image", "dtype", "save_attrs", "device", "batch_size"}
    assert own - {"minibatch_size", "temp_buffer_hint"} == {
        name for name in inspect.signature(ndd.resize).parameters if name not in beside
    }


def test_frames_turned_by_a_phone_are_upright_unless_asked_for(tmp_path):
    truth = video("H.264, turned by 90")
    (tmp_path / "a.mp4").write_bytes(truth.data)
    (upright,) = Video(filenames=tmp_path / "a.mp4", sequence_length=2)()
    (stored,) = Video(filenames=tmp_path / "a.mp4", sequence_length=2, adjust_orientation=False)()
    assert upright.shape == (2, truth.width, truth.height, 3)
    np.testing.assert_array_equal(upright.array, np.rot90(stored.array, axes=(1, 2)))


def test_a_variable_rate_is_refused_unless_asked_for(tmp_path):
    truth = video("H.264, variable rate")
    (tmp_path / "a.mp4").write_bytes(truth.data)
    arguments = {"filenames": tmp_path / "a.mp4", "sequence_length": 1, "enable_timestamps": True}
    with pytest.raises(DataError, match=r"a.mp4: MP4 \(h264\): frames follow each other after .* skip_vfr_check=True"):
        Video(**arguments)
    for reader in (Video(**arguments, skip_vfr_check=True), Experimental(**arguments)):
        assert np.allclose([float(time[0]) for _, time in all_of(reader)], [float(time) for time in truth.times])


def test_a_frame_that_is_damaged_is_named_and_its_sequences_alone_are_skipped(tmp_path):
    data = bytearray(made(codec="mjpeg", format="matroska", frames=12).data)
    places = [i for i in range(len(data)) if data[i : i + 3] == b"\xff\xd8\xff"]
    data[places[7] + 20 : places[7] + 60] = bytes(40)
    (tmp_path / "a.mkv").write_bytes(data)
    reader = Video(filenames=tmp_path / "a.mkv", sequence_length=3, on_error="skip")
    (frames,) = reader(4)
    assert frames.origin.names == ["a.mkv#0", "a.mkv#3", "a.mkv#9"]
    assert [number(frame) for frame in frames[2].array] == [9, 10, 11]
    (failure,) = reader.skipped
    assert "frame 7 of 12 cannot be decoded" in failure.reason
    with pytest.raises(DecodeError, match=r"sample 2 \(.*a.mkv#6\): Matroska \(mjpeg\): frame 7 of 12 cannot be"):
        Video(filenames=tmp_path / "a.mkv", sequence_length=3)(4)


def test_files_that_are_no_videos_are_all_named(root, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    names = [root / "a" / "walk.mkv", tmp_path / "text.mp4", tmp_path / "missing.mp4"]
    with pytest.raises(DataError) as told:
        Video(filenames=names, sequence_length=2)
    assert "text.mp4: cannot be opened" in str(told.value)
    assert "missing.mp4: No such file" in str(told.value)
    assert "walk" not in str(told.value)


@pytest.mark.parametrize("how", ["replaced", "rewritten"])
def test_a_file_that_is_another_in_mid_epoch_gives_no_other_frames(tmp_path, how):
    path = tmp_path / "a.mkv"
    path.write_bytes(made(codec="ffv1", format="matroska", frames=6).data)
    reader = Video(filenames=path, sequence_length=2, on_error="skip")
    reader(1)
    os.utime(path, ns=(1, 1))
    if how == "replaced":
        (tmp_path / "b.mkv").write_bytes(path.read_bytes())
        (tmp_path / "b.mkv").replace(path)
    with pytest.raises(DataError, match="is no more the file that was listed"):
        reader(1)
    assert (reader.position, reader.skipped) == (1, [])
    copied = pickle.loads(pickle.dumps(reader))  # as on a machine with a copy of the files
    assert [number(frame) for frame in copied(1)[0][0].array] == [2, 3]


@pytest.mark.parametrize(("change", "told"), [
    ({"stride": 2}, "labels"), ({"step": 2}, "samples"), ({"pad_sequences": True}, "samples: 7 in the state, 8 here"),
    ({"sequence_length": 2}, "samples"),
])  # fmt: skip
def test_a_state_of_other_sequences_is_refused(walk, change, told):
    arguments = {"filenames": walk, "sequence_length": 3, "step": 3}
    state = Video(**arguments).get_state()
    other = Video(**{**arguments, **change} if "stride" not in change else {**arguments, **change, "step": 3})
    with pytest.raises(StateMismatch, match=told):
        other.set_state(state)


def test_a_state_of_videos_that_grew_is_adapted_to(tmp_path):
    (tmp_path / "c").mkdir()
    for name in "ab":
        (tmp_path / "c" / f"{name}.avi").write_bytes(made(codec="mjpeg", format="avi", frames=6).data)
    arguments = {"file_root": tmp_path, "sequence_length": 2, "random_shuffle": True}
    reader = Video(**arguments)
    given_names = list(reader(3)[0].origin.names)
    state = reader.get_state()
    (tmp_path / "c" / "c.avi").write_bytes(made(codec="mjpeg", format="avi", frames=4).data)
    more = Video(**arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more.set_state(state, on_mismatch="adapt")
    names = [name for batch, _ in more.next_epoch(2) for name in batch.origin.names]
    assert sorted(given_names + names) == [f"c/{name}.avi#{i}" for name in "ab" for i in (0, 2, 4)] + [
        "c/c.avi#0", "c/c.avi#2"
    ]  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), [
    ({}, "'filenames' must be given, or else file_root or file_list; got nothing"),
    ({"filenames": []}, "'filenames' must be given"),
    ({"filenames": "a", "file_root": "b"}, "'file_root' must be left out where filenames is given"),
    ({"filenames": 3}, "'filenames' must be a path"),
    ({"file_root": ".", "labels": [1]}, "'labels' must be None unless filenames are given"),
    ({"filenames": "a", "sequence_length": 0}, "'sequence_length' must be an integer"),
    ({"filenames": "a", "step": 0}, "'step' must be an integer of 1 or more, or -1"),
    ({"filenames": "a", "stride": 0}, "'stride' must be an integer"),
    ({"filenames": "a", "enable_frame_num": "all"}, "'enable_frame_num' must be 'none', 'scalar' or 'sequence'"),
    ({"filenames": "a", "dtype": "int16"}, "'dtype' must be uint8 or float32"),
    ({"filenames": "a", "normalized": True}, "'normalized' must be False unless dtype is 'float32'"),
    ({"filenames": "a", "image_type": "GRAY"}, "'image_type' must be 'RGB' or 'YCbCr'"),
    ({"filenames": "a", "channels": 1}, "'channels' must be 3"),
    ({"filenames": "a", "file_filters": "x"}, "'file_filters' must be a list of at least one pattern"),
    ({"filename": "a"}, "has no argument 'filename'. Did you mean 'filenames'"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        Video(**{"sequence_length": 2} | arguments)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"pad_mode": "mirror"}, "'pad_mode' must be"), ({"fill_value": 256}, "'fill_value' must be an integer of 0 to"),
    ({"fill_value": [1, 2]}, "'fill_value' must be"), ({"file_list_format": "words"}, "'file_list_format' must be"),
    ({"file_list_rounding": "up"}, "'file_list_rounding' must be"), ({"normalized": True}, "has no argument"),
])  # fmt: skip
def test_wrong_arguments_of_the_experimental_reader_are_named(arguments, told):
    with pytest.raises(ArgumentError, match=rf"experimental.readers.Video\(\):? .*{told}|experimental.readers.*{told}"):
        Experimental(filenames="a", sequence_length=2, **arguments)


@pytest.mark.parametrize(("line", "told"), [
    ("a.mkv", "line 1: str 'a.mkv'"), ("a.mkv x", "line 1"), ("a.mkv 1 2 3 4 x", "line 1"), ("", "which is empty"),
])  # fmt: skip
def test_a_wrong_line_is_named(tmp_path, line, told):
    (tmp_path / "list.txt").write_text(line)
    with pytest.raises(ArgumentError, match=f"'file_list' must be a text file of lines .*{told}"):
        Video(file_list=tmp_path / "list.txt", sequence_length=1)


def test_paths_of_a_list_may_hold_spaces_and_start_from_its_folder(tmp_path):
    (tmp_path / "a film.avi").write_bytes(made(codec="mjpeg", format="avi", frames=2).data)
    (tmp_path / "list.txt").write_text("a film.avi 5\n")
    ((frames, label),) = all_of(Video(file_list=tmp_path / "list.txt", sequence_length=2))
    assert (len(frames), label.tolist()) == (2, [5])


def test_a_pipeline_reads_videos(root):
    from dynamic.pipeline import fn, pipeline_def

    @pipeline_def(batch_size=2, seed=1)
    def decoded():
        frames, labels = fn.readers.video(name="r", file_root=root, sequence_length=3)
        small, _ = fn.video_reader_resize(file_root=root, sequence_length=3, size=[8, 8])
        again, _ = fn.experimental.readers.video(file_root=root, sequence_length=3)
        return frames, labels, small, again

    frames, labels, small, again = decoded().run()
    assert np.array_equal(again[1].array, frames[1].array)
    assert [number(frame) for frame in frames[0].array] == [0, 1, 2]
    assert (labels.tolist(), small[1].shape) == ([[0], [0]], (3, 8, 8, 3))


def test_videos_in_a_store_are_read_whole(walk):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for name, frames in (("a/walk.mkv", COUNT), ("b/other.mkv", 6)):
        store.pipe(f"/films/{name}", made(codec="ffv1", format="matroska", frames=frames).data)
    reader = Video(file_root="memory://films", sequence_length=3, random_shuffle=True, retries=0)
    found = {
        name: [number(frame) for frame in clip.array]
        for clips, _ in reader.next_epoch(4)
        for name, clip in zip(clips.origin.names, clips, strict=True)
    }
    assert found == {f"{n}#{i}": [i, i + 1, i + 2] for n, m in (("a/walk.mkv", 7), ("b/other.mkv", 2)) for i in
                     range(0, 3 * m, 3)}  # fmt: skip
    store.pipe("/films/b/other.mkv", made(codec="ffv1", format="matroska", frames=7).data)
    with pytest.raises(DataError, match="bytes came"):
        reader(9)
    store.rm("/films", recursive=True)


@pytest.mark.gpu
@pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing")
def test_clips_are_sent_to_a_gpu_and_resized_there(root):
    arguments = {"file_root": root, "sequence_length": 3, "size": [16, 16], "enable_timestamps": True}
    there, here = VideoResize(**arguments, device="gpu")(14), VideoResize(**arguments)(14)
    assert {column.device.device_type for column in there} == {"gpu"}
    assert there[0].origin.names == here[0].origin.names
    for one, other in zip(there[0].to_device("cpu"), here[0], strict=True):
        assert np.abs(one.array.astype(int) - other.array).max() <= 1
    assert there[1].to_device("cpu").tolist() == here[1].tolist()


# -- DALI --------------------------------------------------------------------------------------------------------------

RECORD = Path(__file__).with_name("data") / "video_reader_dali_2_4.json"
#: Parts of a video of 30 frames, 25 a second, and arguments that are asked of DALI's CPU.
ASKED = [
    *((part, {"sequence_length": length, "stride": stride, "step": step, "pad_mode": mode,
              "file_list_format": "frames"})
      for part, (length, stride, step), mode in itertools.product(
          ("", "3 10", "-9 -2", "4 200"), ((3, 1, -1), (4, 2, -1), (8, 1, 2), (2, 3, 5)),
          ("none", "constant", "edge", "reflect_1001", "reflect_101"))),
    *((part, {"sequence_length": 1, "file_list_rounding": rounding})
      for part, rounding in itertools.product(
          ("0.1 0.3", "0.33 0.91", "0.05 1.13", "0.01 0.03"),
          ("start_down_end_up", "start_up_end_down", "all_up", "all_down"))),
    *((part, {"sequence_length": 1, "file_list_rounding": rounding, "file_list_format": "frames"})
      for part, rounding in itertools.product(("2.5 7.5",), ("start_down_end_up", "start_up_end_down", "all_up"))),
    *((part, {"sequence_length": length, "uniform_sample": True, "file_list_format": "frames"})
      for part, length in itertools.product(("", "3 10", "5 6"), (1, 4, 9))),
]  # fmt: skip

_SCRIPT = """
import json
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def

def read(**arguments):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        both = {"enable_frame_num": "sequence", "enable_timestamps": True}
        return tuple(fn.experimental.readers.video(name="r", **both, **arguments))
    made = pipeline()
    made.build()
    batches = [made.run() for _ in range(made.reader_meta("r")["epoch_size"])]
    return [[np.asarray(output[0]) for output in batch] for batch in batches]
"""
_NUMBERS = """
def numbers(part, arguments):
    with open(folder + "/list.txt", "w") as file:
        file.write(f"{folder}/vp9.webm 3 {part}\\n")
    try:
        found = read(file_list=folder + "/list.txt", **arguments)
    except Exception:
        return None
    return [frames.tolist() for _, _, frames, _ in found]

result = json.dumps([numbers(part, arguments) for part, arguments in json.loads(cases)])
"""


def answers(dali: Oracle, folder: Path) -> list[list[list[int]] | None]:
    """The numbers of the frames of DALI's sequences in each case; None where it has none."""
    (folder / "vp9.webm").write_bytes(video("VP9").data)
    told = f"cases, folder = {json.dumps(json.dumps(ASKED))}, {json.dumps(str(folder))}\n"
    return json.loads(dali.script(told + _SCRIPT + _NUMBERS, timeout=300.0))


@pytest.mark.parametrize("case", range(len(ASKED)), ids=lambda case: str(ASKED[case]))
def test_sequences_are_those_of_dali(case, tmp_path):
    (part, arguments), expected = ASKED[case], json.loads(RECORD.read_text())[case]
    (tmp_path / "vp9.webm").write_bytes(video("VP9").data)
    (tmp_path / "list.txt").write_text(f"vp9.webm 3 {part}\n")
    arguments = {"file_list": tmp_path / "list.txt", "enable_frame_num": "sequence", **arguments}
    if expected is None:
        with warnings.catch_warnings(), pytest.raises(ArgumentError):
            warnings.simplefilter("ignore")
            Experimental(**arguments)
    else:
        assert [numbers.tolist() for _, _, numbers in all_of(Experimental(**arguments))] == expected


def test_the_record_is_what_dali_answers(dali: Oracle, tmp_path):
    assert answers(dali, tmp_path) == json.loads(RECORD.read_text())


@pytest.mark.parametrize("name", DALIS)
def test_frames_labels_and_times_are_those_of_dali(name, dali: Oracle, tmp_path):
    truth = video(name)
    (tmp_path / "film").write_bytes(truth.data)
    text = _SCRIPT + "\nresult = [array for outputs in read(**json.loads(arguments)) for array in outputs]"
    arguments = {"filenames": [str(tmp_path / "film")], "labels": [5], "sequence_length": 4, "step": 3, "stride": 2}
    given_there = dali.script(f"arguments = {json.dumps(json.dumps(arguments))}\n{text}", timeout=300.0)
    reader = Experimental(**arguments, enable_frame_num="sequence", enable_timestamps=True)
    found = [array for outputs in all_of(reader) for array in outputs]
    assert len(found) == len(given_there) > 4
    for i, (mine, theirs) in enumerate(zip(found, given_there, strict=True)):
        theirs = np.asarray(theirs.array if hasattr(theirs, "array") else theirs)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), i
        if mine.dtype == np.float64:
            np.testing.assert_allclose(mine, theirs, atol=1e-9)
        else:
            np.testing.assert_array_equal(mine, theirs)


if __name__ == "__main__":
    from dali_oracle import connect

    with tempfile.TemporaryDirectory() as there:
        found = json.dumps(answers(connect(), Path(there)))
    RECORD.write_text(found.replace("]], ", "]],\n").replace("null, ", "null,\n") + "\n")
