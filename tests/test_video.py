"""The frames of videos by their numbers: the same as FFmpeg's own, in any order, from any key frame."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from videos import VIDEOS, chunks, made, number, video

from dynamic.errors import DecodeError
from dynamic.io import _video
from dynamic.io._video import SCALING, Damaged, Video

names = pytest.mark.parametrize("name", VIDEOS)


def decoded(data):
    """All frames, in order, by FFmpeg alone."""
    with av.open(io.BytesIO(data)) as file:
        return [
            frame.reformat(format="rgb24", interpolation=SCALING, threads=1).to_ndarray()
            for frame in file.decode(file.streams.best("video"))
            if not frame.is_corrupt
        ]


def read(opened, numbers, colours="RGB"):
    out = np.zeros((len(numbers), *opened.table.shape, 3), np.uint8)
    opened.read(numbers, out, colours)
    return out


@names
def test_frames_are_those_of_ffmpeg_and_have_their_numbers_and_times(name):
    truth = video(name)
    with Video(truth.data) as opened:
        table = opened.table
        frames = read(opened, range(len(table)))
    turned = truth.rotation // 90
    assert [number(np.rot90(frame, -turned)) for frame in frames] == list(truth.numbers)
    times = np.array([float(time - truth.times[0]) for time in truth.times])
    np.testing.assert_allclose(table.seconds, times, atol=0.0006)  # Matroska counts milliseconds
    assert table.is_constant == (len(times) < 3 or np.ptp(np.diff(times)) < 0.001)
    expected = [np.rot90(frame, turned) for frame in decoded(truth.data)]
    np.testing.assert_array_equal(frames, expected)
    if truth.lossless:
        np.testing.assert_array_equal(frames, [truth.frame(i) for i in range(len(truth))])


@names
@settings(max_examples=15)
@given(data=st.data())
def test_any_frames_in_any_order_are_the_same(name, data):
    truth = video(name)
    numbers = data.draw(st.lists(st.integers(0, len(truth) - 1), min_size=1, max_size=6))
    threads = data.draw(st.sampled_from([1, 2]))
    with Video(truth.data) as opened:
        table, frames = pickle.loads(pickle.dumps(opened.table)), read(opened, range(len(truth)))
        again = read(opened, numbers)
    with Video(memoryview(truth.data), table, threads=threads) as opened:
        np.testing.assert_array_equal(read(opened, numbers), again)
        np.testing.assert_array_equal(again, frames[numbers])


def test_a_frame_costs_no_more_than_those_from_the_key_frame_before(monkeypatch):
    truth = made(frames=120, key_every=10, b_frames=2)
    decode, packets = Video._decoded, []
    monkeypatch.setattr(Video, "_decoded", lambda self, packet: packets.append(packet) or decode(self, packet))
    with Video(truth.data) as opened:
        for position in (119, 3, 55, 61, 60, 0):
            packets.clear()
            assert number(read(opened, [position])[0]) == position
            assert len(packets) <= position % 10 + 1 + 3  # and those that the decoder holds back
        packets.clear()
        read(opened, [2, 112])
        assert len(packets) <= 12


@names
@given(data=st.data())
def test_reads_after_each_other_go_on_or_seek(name, data):
    truth = video(name)
    reads = data.draw(st.lists(st.lists(st.integers(0, len(truth) - 1), max_size=4).map(sorted), max_size=6))
    with Video(truth.data) as opened:
        frames = read(opened, range(len(truth)))
    with Video(truth.data) as opened:
        for numbers in reads:
            np.testing.assert_array_equal(read(opened, numbers), frames[numbers])


@pytest.mark.parametrize("name", ["H.264, one long group", "MPEG-4, in AVI", "H.264, no key frame first"])
def test_a_video_that_is_read_bit_by_bit_is_decoded_once(name, monkeypatch):
    truth = video(name)
    with Video(truth.data) as opened:
        decode, packets = Video._decoded, []
        monkeypatch.setattr(Video, "_decoded", lambda self, packet: packets.append(packet) or decode(self, packet))
        found = [number(read(opened, [position])[0]) for position in range(len(truth))]
    assert found == list(truth.numbers)
    assert len(packets) <= len(truth) + 10  # those before the first key frame too


@names
@pytest.mark.parametrize("part", [0.3, 0.8])
def test_a_file_that_is_cut_off_is_refused_or_has_fewer_of_the_frames(name, part):
    truth = video(name)
    data = truth.data[: int(len(truth.data) * part)]
    try:
        with Video(data) as opened:
            frames = read(opened, range(len(opened.table)))
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017
        return
    assert opened.table.counted or "a transport stream" in name or "MPEG-TS" in opened.format or "fragments" in name
    assert [number(np.rot90(f, -truth.rotation // 90)) for f in frames[:-1]] == list(truth.numbers)[: len(frames) - 1]


def moved(data):
    """An MP4 file whose table stands before its frames, as on the web."""
    frames, table = data.index(b"mdat") - 4, data.index(b"moov") - 4
    moov = bytearray(data[table:])
    (place,) = chunks(moov, b"stco")
    count = int.from_bytes(moov[place + 4 : place + 8])
    for k in range(count):
        at = place + 8 + 4 * k
        moov[at : at + 4] = (int.from_bytes(moov[at : at + 4]) + len(moov)).to_bytes(4)
    return data[:frames] + bytes(moov) + data[frames:table]


@pytest.mark.parametrize(("format", "told"), [
    ("mp4", "it ends after \\d+ of 30 frames"), ("matroska", "it ends after \\d+ of \\d+ bytes"),
    ("avi", "it ends after \\d+ of \\d+ bytes"),
])  # fmt: skip
def test_a_file_that_ends_early_is_told_how_early(format, told):
    data = made(format=format, codec="mjpeg").data
    with pytest.raises(Damaged, match=told):
        Video(data[:-2000] if format != "mp4" else moved(data)[:-2000])


@pytest.mark.parametrize("data", [b"", b"RIFF", bytes(1000), b"#EXTM3U\n#EXT-X-VERSION:3\nhttp://127.0.0.1/a.ts\n"])
def test_bytes_that_are_no_video_are_refused(data):
    with pytest.raises(DecodeError, match="cannot be opened|no video stream|no frames"):
        Video(data)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["H.264, B frames", "MPEG-2", "VP9", "MJPEG", "FFV1", "HEVC"]))
def test_damaged_frames_are_told_or_decoded_and_never_fail_otherwise(seed, name):
    random, truth = np.random.RandomState(seed), video(name)
    data = bytearray(truth.data)
    for place in random.randint(0, len(data), 3):
        data[place] ^= random.randint(1, 256)
    try:
        with Video(bytes(data)) as opened:
            read(opened, random.randint(0, len(opened.table), 2).tolist())
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017


def test_a_damaged_frame_is_named():
    truth = made(codec="mjpeg", format="matroska")
    with Video(truth.data) as opened:
        table = opened.table
        with av.open(io.BytesIO(truth.data)) as file:
            packets = [packet for packet in file.demux(video=0) if packet.size]
            place = packets[17].pos
    data = bytearray(truth.data)
    data[place + 20 : place + 220] = bytes(200)
    with Video(bytes(data), table) as opened:
        assert number(read(opened, [16])[0]) == 16
        with pytest.raises(Damaged, match="Matroska \\(mjpeg\\): frame 17 of 30 cannot be decoded"):
            read(opened, [16, 17])


@pytest.mark.parametrize(("field", "shown"), [((8, 600), range(15)), ((12, 1024 + 512 * 8), range(8, 30))])
def test_a_video_that_a_phone_has_trimmed_has_the_frames_of_its_edit_list(field, shown):
    """Its end, or its beginning, is left out by a list, and still there."""
    data = bytearray(made(frames=30, key_every=6, b_frames=2).data)
    (place,) = chunks(data, b"elst")
    data[place + field[0] : place + field[0] + 4] = field[1].to_bytes(4)
    with Video(bytes(data)) as opened:
        assert [number(frame) for frame in read(opened, range(len(opened.table)))] == list(shown)
        assert [number(frame) for frame in read(opened, [9, 0, 14])] == [shown[9], shown[0], shown[14]]
    np.testing.assert_array_equal(len(decoded(bytes(data))), len(shown))


def test_damage_that_hides_the_end_of_a_file_is_told():
    data = bytearray(made(codec="mjpeg", format="matroska", frames=60).data)
    places = [i for i in range(len(data)) if data[i : i + 3] == b"\xff\xd8\xff"]
    data[places[20] - 20 :] = bytes(len(data) - places[20] + 20)
    with pytest.raises(Damaged, match="it ends after 0.8\\d* of 2.4 seconds"):
        Video(bytes(data))


def test_a_change_of_size_names_the_frame():
    data = video("MJPEG").data
    with Video(data) as opened, pytest.raises(Damaged, match="frame 0 has 48 x 64 pixels"):
        opened.read([0], np.zeros((1, 40, 64, 3), np.uint8))


def test_the_values_of_a_video_in_limited_range():
    truth = made(codec="mjpeg", format="avi", frames=1)
    with Video(truth.data) as opened:
        pixels = read(opened, [0], "YCbCr")[0].astype(float)
        rgb = read(opened, [0])[0].astype(float)
    luma = 16 + rgb @ np.array([65.481, 128.553, 24.966]) / 255
    assert np.abs(pixels[..., 0] - luma).max() < 2.5
    assert pixels.min() >= 16
    assert pixels.max() <= 240


def test_frames_turned_by_a_phone_are_left_as_they_are_if_asked_for():
    truth = video("H.264, turned by 90")
    with Video(truth.data, adjust_orientation=False) as opened:
        frames = read(opened, range(3))
    assert frames.shape == (3, truth.height, truth.width, 3)
    np.testing.assert_array_equal(frames, decoded(truth.data)[:3])


def test_a_file_on_disk_is_as_its_bytes(tmp_path):
    truth = video("H.264, B frames")
    (tmp_path / "a.mp4").write_bytes(truth.data)
    with (tmp_path / "a.mp4").open("rb", buffering=0) as file, Video(file) as opened:
        assert [number(frame) for frame in read(opened, [7, 3])] == [7, 3]


def test_without_pyav_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(DecodeError, match=r"this needs PyAV: pip install 'dynamic-batch\[video\]'"):
        Video(video("MJPEG").data)


def test_pyav_is_imported_late():
    code = "import sys, dynamic, dynamic.io._video; print('av' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_file_of_more_frames_than_allowed_is_refused(monkeypatch):
    monkeypatch.setattr(_video, "MOST_FRAMES", 20)
    with pytest.raises(DecodeError, match="more than 20 frames"):
        Video(video("MJPEG").data)


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="this system has no policies of scheduling")
def test_a_video_of_av1_is_made_without_a_lasting_priority():
    before = os.sched_getscheduler(0)
    made(codec="libsvtav1", height=64, width=80)
    assert os.sched_getscheduler(0) == before
