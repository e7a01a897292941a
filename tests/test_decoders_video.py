"""`decoders.video`: frames of videos in memory."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import av
import numpy as np
import pytest
import videos
from dali_oracle import Oracle, dali_fixture  # noqa: F401 - the fixture
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, read_only

import dynamic as ndd
from dynamic import ArgumentError, DecodeError, as_batch
from dynamic.decoders import video as decode

FILE = Path(__file__).with_name("data") / "video_dali_2_4.json"
MODES = ("none", "constant", "edge", "reflect_1001", "reflect_101")


def data(name: str) -> np.ndarray:
    return read_only(np.frombuffer(videos.video(name).data, np.uint8))


def numbers(frames: np.ndarray) -> list[int]:
    """The numbers of frames; -1 for one of a single colour."""
    return [-1 if (frame == frame[0, 0]).all() else videos.number(frame) for frame in frames]


@pytest.mark.parametrize("name", videos.VIDEOS)
def test_the_test_videos_hold_their_numbers_at_their_times(name):
    video = videos.video(name)
    with av.open(io.BytesIO(video.data)) as file:
        frames = list(file.decode(video=0))
    assert tuple(frame.pts * frame.time_base for frame in frames) == video.times
    assert tuple(i for i, frame in enumerate(frames) if frame.key_frame) == video.keys
    pixels = [frame.to_ndarray(format="rgb24") for frame in frames]
    assert tuple(videos.number(each) for each in pixels) == video.numbers
    if video.lossless:
        assert all((videos.picture(n, video.height, video.width) == each).all() for n, each in enumerate(pixels))
    assert frames[0].rotation % 360 == video.rotation


def test_numbers_are_not_read_from_turned_or_foreign_frames():
    picture = videos.picture(677, 48, 64)
    assert videos.number(picture) == videos.number(videos.picture(677, 33, 51)) == 677
    for wrong in (picture[::-1], picture[..., ::-1], np.full_like(picture, 125)):
        with pytest.raises(ValueError, match="no frame with a number"):
            videos.number(wrong)


@pytest.mark.parametrize("name", videos.VIDEOS)
def test_all_frames_of_each_video_come_upright_in_their_order(name):
    video = videos.video(name)
    found = decode(data(name))
    assert (found.layout, found.dtype) == ("FHWC", "uint8")
    assert found.shape[1:] == video.frame(0).shape
    assert [videos.number(np.rot90(frame, -video.rotation // 90)) for frame in found.array] == list(video.numbers)
    stored = decode(data(name), adjust_orientation=False)
    assert numbers(stored.array) == list(video.numbers)
    if video.lossless:
        assert (found.array == [video.frame(i) for i in range(len(video))]).all()


# -- ranges of frames --------------------------------------------------------------------------------------------------


def padded(place: int, count: int, mode: str) -> int:
    """The frame at a place, by walking there: -1 is none, of a single colour."""
    if 0 <= place < count:
        return place
    if mode in ("constant", "edge"):
        return -1 if mode == "constant" else min(max(place, 0), count - 1)
    there, way = (0, 1) if place >= 0 else (0, -1)
    steps = place if place >= 0 else -place
    for _ in range(steps):
        if not 0 <= there + way < count:
            way = -way
            if mode == "reflect_1001" or count == 1:
                continue
        there += way
    return there


ranges = st.fixed_dictionaries(
    {"start_frame": st.integers(-4, 29)},
    optional={"stride": st.integers(1, 9), "sequence_length": st.integers(0, 70), "end_frame": st.integers(30, 50)},
)


def wanted(count: int, start_frame: int = 0, stride: int = 1, sequence_length=None, end_frame=None) -> list[int]:
    """The places of a range."""
    if sequence_length is not None:
        return [start_frame + k * stride for k in range(sequence_length)]
    return list(range(start_frame, count if end_frame is None else end_frame, stride))


@given(ranges.filter(lambda given: len(given.keys() & {"sequence_length", "end_frame"}) < 2), st.sampled_from(MODES))
def test_ranges_have_the_frames_of_their_places_and_the_others_are_padded(arguments, mode):
    places = wanted(30, **arguments)
    if mode == "none":
        places = [place for place in places if place < 30]
        if places and places[0] < 0:
            with pytest.raises(ArgumentError, match=r"argument 'start_frame' must be in \[0, 29\]"):
                decode(data("VP9"), pad_mode=mode, **arguments)
            return
    found = decode(data("VP9"), pad_mode=mode, fill_value=(1, 2, 3), **arguments)
    assert found.shape == (len(places), 48, 64, 3)
    assert numbers(found.array) == [padded(place, 30, mode) for place in places]
    assert all((frame[0, 0] == (1, 2, 3)).all() for frame in found.array if (frame == frame[0, 0]).all())


@given(
    st.lists(st.integers(-9, 200), max_size=9), st.sampled_from(MODES[1:]), st.sampled_from(["VP9", "H.264, one frame"])
)
def test_any_frames_come_in_any_order(frames, mode, name):
    found, count = decode(data(name), frames=frames, pad_mode=mode), len(videos.video(name))
    assert numbers(found.array) == [padded(place, count, mode) for place in frames]


@given(st.data())
def test_a_batch_of_any_videos_is_each_alone(draw):
    names = draw.draw(st.lists(st.sampled_from(list(videos.VIDEOS)), min_size=1, max_size=4))
    starts = [draw.draw(st.integers(0, len(videos.video(name)) - 1)) for name in names]
    lengths = [draw.draw(st.integers(0, 6)) for _ in names]
    files = as_batch([data(name) for name in names])
    found = decode(files, start_frame=as_batch(starts), sequence_length=as_batch(lengths), pad_mode="edge")
    for name, start, length, sample in zip(names, starts, lengths, found.samples, strict=True):
        alone = decode(data(name), start_frame=start, sequence_length=length, pad_mode="edge").array
        assert np.array_equal(sample, alone)


@examples(0.2)
@given(st.integers(1, 4), st.permutations(list(videos.VIDEOS)))
def test_results_do_not_depend_on_threads(threads, names):
    files = as_batch([data(name) for name in names[:6]])
    try:
        ndd.set_num_threads(threads)
        found = decode(files, sequence_length=5)
    finally:
        ndd.set_num_threads(None)
    assert all(np.array_equal(a, decode(b, sequence_length=5).array) for a, b in zip(found.samples, files, strict=True))


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    ({"frames": [0], "stride": 1}, "takes either 'frames' or 'stride'; got both"),
    ({"frames": [0], "start_frame": 0}, "takes either 'frames' or 'start_frame'; got both"),
    ({"sequence_length": 1, "end_frame": 2}, "takes either 'sequence_length' or 'end_frame'; got both"),
    ({"start_frame": 30}, "'start_frame' must be less than 30, the frames of the video; got 30"),
    ({"start_frame": 5, "end_frame": 5}, "'end_frame' must be more than the start_frame, 5; got 5"),
    ({"end_frame": 0}, "'end_frame' must be more than the start_frame, 0; got 0"),
    ({"frames": [3, -1], "pad_mode": "none"}, r"'frames' must be in \[0, 29\], the frames of the video; got -1"),
    ({"stride": 0}, "'stride' must be an integer of at least 1"),
    ({"sequence_length": 2**40}, "'sequence_length' must be at most"),
    ({"fill_value": 256}, r"'fill_value' must be an integer in \[0, 255\]"),
    ({"fill_value": [1, 2]}, "'fill_value' must be .* 3 integers"),
    ({"pad_mode": "wrap"}, "'pad_mode' must be one of 'none'"),
])  # fmt: skip
def test_ranges_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        decode(as_batch([data("VP9")]), **arguments)


def test_other_words_for_padding_are_those_of_dali():
    for word, meant in (("repeat", "edge"), ("symmetric", "reflect_1001"), ("reflect", "reflect_101")):
        found, expected = (decode(data("VP9"), start_frame=25, sequence_length=9, pad_mode=m) for m in (word, meant))
        assert np.array_equal(found.array, expected.array)


def test_bad_files_are_named_skipped_or_empty(tmp_path):
    good, bad = tmp_path / "good.webm", tmp_path / "bad.webm"
    good.write_bytes(data("VP9"))
    bad.write_bytes(data("VP9")[:-200])
    files = ndd.io.file.read([str(path) for path in (good, bad, good, bad)])
    with pytest.raises(DecodeError, match=r"2 of 4 samples cannot be read.\n.*sample 1 .*bad.webm.*Matroska") as error:
        decode(files)
    assert [failure.index for failure in error.value.failures] == [1, 3]
    assert len(decode(files, on_error="skip")) == 2
    assert [s.shape for s in decode(files, on_error="null", end_frame=4).samples] == [(4, 48, 64, 3), (0, 0, 0, 3)] * 2


def test_more_values_than_the_limit_are_refused_before_memory_is_taken():
    most = 30 * 48 * 64 * 3
    assert decode(data("VP9"), max_values=most).shape[0] == 30
    with pytest.raises(DecodeError, match="30 frames of 48 x 64 pixels have more values than max_values"):
        decode(data("VP9"), max_values=most - 1)
    with pytest.raises(DecodeError, match="pass a larger max_values"):
        decode(data("VP9"), sequence_length=2**24)


def test_videos_are_closed_whatever_happens(monkeypatch):
    from dynamic.io._video import Video

    opened, closed = [], set()
    close = Video.close
    monkeypatch.setattr(Video, "close", lambda self: closed.add(id(self)) or close(self))
    initial = Video.__init__
    monkeypatch.setattr(Video, "__init__", lambda self, *a, **k: opened.append(id(self)) or initial(self, *a, **k))
    decode(as_batch([data("VP9"), data("MJPEG")]), sequence_length=2)
    assert set(opened) <= closed


# -- DALI --------------------------------------------------------------------------------------------------------------

#: Asked of DALI's pipelines: in its dynamic mode `pad_mode` fails.
CASES = [
    dict(zip(("start_frame", "stride", "sequence_length", "pad_mode"), case, strict=True))
    for case in itertools.product((0, 25, 29, -2), (1, 4), (3, 40), MODES)
] + [
    *({"start_frame": start, "end_frame": end, "stride": step, "pad_mode": mode}
      for start, end, step, mode in itertools.product((0, 20), (1, 25, 45), (1, 6), MODES)),
    *({"frames": frames, "pad_mode": mode} for frames in ([29, 31, 0, 35, 59, 60, 61], [], [-1, 3]) for mode in MODES),
    *({"start_frame": 30, "pad_mode": mode} for mode in MODES), {"stride": 7}, {"end_frame": 0},
]  # fmt: skip

_SCRIPT = """
import json
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def

def number(frame):
    height, width = frame.shape[:2]
    cells = frame[np.ix_((2 * np.arange(3) + 1) * height // 6, (2 * np.arange(4) + 1) * width // 8)].reshape(-1, 3)
    return -1 if (frame == frame[0, 0]).all() else int(((cells[1:-1].mean(1) > 125) << np.arange(10)).sum())

def asked(arguments):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        source = fn.external_source(lambda: [np.asarray(file)], batch=True)
        return fn.decoders.video(source, **arguments)
    try:
        made = pipeline()
        made.build()
        (output,) = made.run()
    except Exception:
        return None
    return [number(frame) for frame in np.asarray(output[0])]

result = json.dumps([asked(arguments) for arguments in json.loads(cases)])
"""


def asked(dali: Oracle) -> list[list[int] | None]:
    """The frames that DALI gives in each case; None where it refuses."""
    text = f"cases = {json.dumps(json.dumps(CASES))}\n{_SCRIPT}"
    return json.loads(dali.script(text, file=data("VP9"), timeout=300.0))


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: str(CASES[case]))
def test_frames_are_those_of_dali(case):
    arguments, expected = CASES[case], json.loads(FILE.read_text())[case]
    if expected is None:
        with pytest.raises(ArgumentError):
            decode(data("VP9"), **arguments)
    else:
        assert numbers(decode(data("VP9"), **arguments).array) == expected


def test_the_record_is_what_dali_answers(dali: Oracle):
    assert asked(dali) == json.loads(FILE.read_text())


@pytest.mark.parametrize("name", videos.DALIS)
def test_pixels_are_those_of_dali(name, dali: Oracle):
    found = decode(data(name), start_frame=3, stride=5)
    assert np.array_equal(found.array, dali.call("decoders.video", [data(name)], start_frame=3, stride=5).array)


if __name__ == "__main__":
    from dali_oracle import connect

    FILE.write_text(re.sub(r"\], ", "],\n", json.dumps(asked(connect()))) + "\n")
