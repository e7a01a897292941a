"""Hostile videos: none crashes, hangs, opens other files or costs much; all bad ones are refused with a reason."""

from __future__ import annotations

import fuzzing
import hostile
import hostile_videos
import numpy as np
import pytest
import videos
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import DecodeError, decoders
from dynamic._base.origin import Origin

FILES = hostile_videos.files()
SECONDS, MEMORY = 1.0, 128 << 20  #: CPU time and memory that a file of a few kilobytes may take, read or refused


def fault(file: hostile_videos.File, answer: hostile.Answer) -> str:
    """What is wrong with an answer; nothing where it is right."""
    if answer.kind in ("crash", "hang"):
        return answer.kind
    if answer.seconds > SECONDS or answer.memory > MEMORY:
        return "costly"
    if answer.printed:
        return "printed"
    if answer.shape is None:
        return "refused" if file.must == "decode" else "" if answer.kind in ("DecodeError", "Damaged") else "raised"
    if file.must in ("refuse", "limit"):
        return "garbage"
    if file.must == "decode":
        found = tuple(videos.number(frame) for frame in answer.pixels)
        return "" if found == file.numbers[:4] else "garbage"
    return ""


def test_each_file_is_read_or_refused_at_little_cost():
    wrong = {}
    with hostile.Child("films", seconds=60) as child:
        child.decode(FILES["WebM: good"].data)  # what is loaded at the first is no cost of a file
        for name, file in FILES.items():
            answer = child.decode(file.data)
            if fault(file, answer) == "costly":  # the machine may have been busy
                answer = child.decode(file.data)
            if word := fault(file, answer):
                wrong[name] = word, answer.error, answer.shape, answer.seconds, answer.memory
    assert not wrong


def test_the_files_are_many_and_of_all_kinds():
    assert len(FILES) >= 300
    kinds = {verdict: sum(file.must == verdict for file in FILES.values()) for verdict in ("decode", "refuse", "limit")}
    assert kinds["decode"] >= 6
    assert kinds["refuse"] >= 30
    assert kinds["limit"] >= 1


def test_one_error_names_all_bad_files_of_a_batch():
    bad = [file for file in FILES.values() if file.must in ("refuse", "limit")]
    good = FILES["WebM: good"].data
    data = [np.frombuffer(part, np.uint8) for file in bad for part in (good, file.data)]
    names = [part for i, file in enumerate(bad) for part in ("good", f"{i}/{file.name}")]
    origin = Origin(0, np.arange(len(data), dtype=np.uint64), names)
    with pytest.raises(DecodeError) as error:
        decoders.video(ndd.Batch(data, None, origin), sequence_length=1)
    failures = error.value.failures
    assert [failure.source for failure in failures] == names[1::2]
    assert all(failure.reason for failure in failures)


@pytest.mark.parametrize("text", [
    "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n", "ffconcat version 1.0\nfile '{}'\n",
])  # fmt: skip
def test_a_video_never_opens_another(text, tmp_path):
    other = tmp_path / "other.ts"
    other.write_bytes(videos.video("H.264, a transport stream").data)
    for name in (other, other.as_uri(), other.name):
        with pytest.raises(DecodeError):
            decoders.video(text.format(name).encode() + b"\n" * 4000)


def test_frames_without_end_are_read_where_they_are_asked_for():
    many = FILES["VP8: 50000 frames alike"].data
    found = decoders.video(many, frames=[0, 49_999])
    assert [videos.number(frame) for frame in found.array] == [5, 5]
    with pytest.raises(DecodeError, match="50005 frames of 48 x 64 pixels have more values than max_values=1000000"):
        decoders.video(many, max_values=10**6)


@examples(0.5)
@given(st.integers(0, 2**32), st.sampled_from(fuzzing.TARGETS["film"][1]()))
def test_damage_gives_frames_or_an_error(seed, data):
    fuzzing.check("film", fuzzing.damaged(data, [data], fuzzing.random.Random(seed)))
