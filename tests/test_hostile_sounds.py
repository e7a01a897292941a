"""Hostile sound files: none crashes, hangs, costs much or gives a part of a sound in silence."""

from __future__ import annotations

import io

import corpus
import hostile
import hostile_sounds
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import DecodeError

FILES = hostile_sounds.files()
GOOD = {name: file for name, file in corpus.small_sounds().items() if "FLAC" not in name or "24" in name}


def test_each_file_is_decoded_or_refused_as_it_should_be():
    assert len(FILES) >= 140
    assert {file.format for file in FILES.values()} == set(hostile_sounds.FORMATS)
    wrong = []
    with hostile.Child("sounds", seconds=60) as child:
        for data in GOOD.values():  # libraries are loaded
            assert child.decode(data).shape is not None
        for name, file in FILES.items():
            answer = child.decode(file.data)
            # A decoder of MP3 prints a line on damage, which libsndfile does not let us turn off.
            if answer.seconds > hostile.SECONDS:
                answer = child.decode(file.data)  # the machine was busy
            problems = {
                "decoded": answer.shape is not None and file.must != "either",
                "another error": answer.shape is None and answer.kind != "DecodeError",
                "no limit": file.must == "limit" and "max_values" not in answer.error,
                "slow": answer.seconds > hostile.SECONDS,
                "large": answer.memory > hostile.MEMORY,
                "printed": answer.printed and file.format != "MP3",
            }
            wrong += [(name, answer) for told in problems.values() if told]
    assert wrong == []


@given(st.sampled_from(sorted(GOOD)), st.floats(0, 1))
@examples(2)
def test_cut_files_are_refused_or_whole(name, part):
    data = GOOD[name]
    cut = data[: int(part * len(data))]
    whole = ndd.decoders.audio(data)[0].array
    if name.startswith("OGG") and len(cut) in np.cumsum([0, *map(len, cut_pages(data))]):
        return  # where a page ends a stream may end
    try:
        found = ndd.decoders.audio(np.frombuffer(cut, np.uint8))[0].array
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017
    else:
        assert np.array_equal(found, whole)


def cut_pages(data: bytes) -> list[bytes]:
    return [hostile_sounds.page(*one) for one in hostile_sounds.pages(data)]


def test_pages_are_made_as_libogg_makes_them():
    data = corpus.recorded(corpus.sound(9000, 2), "OGG")
    assert b"".join(cut_pages(data)) == data


@pytest.mark.parametrize("damage", ["a fault", "another stream", "another place"])
def test_a_page_that_is_lost_is_an_error(damage):
    data = corpus.recorded(corpus.sound(150_000, 1), "OGG")
    middle = len(hostile_sounds.pages(data)) // 2
    places = {"another stream": {"serial": 9}, "another place": {"number": 99}}
    bad = hostile_sounds.flipped(data, len(data) // 2) if damage == "a fault" else None
    bad = bad or hostile_sounds._changed(data, middle, **places[damage])
    with pytest.raises(DecodeError, match=r"OGG: it ends after \d+ of 150000 values"):
        ndd.decoders.audio(bad)


@pytest.mark.parametrize("rate", [8000, 22050, 32000, 48000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("tag", [b"", b"ID3\4\0\0\0\0\1\0" + bytes(128)])
def test_mp3_files_of_several_bitrates_are_read_to_their_end(rate, channels, tag):
    """Without a count of frames libsndfile takes all for as long as the first, a quiet one."""
    values, file = corpus.sound(40_000, channels), io.BytesIO()
    values[:20_000] *= 0.001
    soundfile.write(file, values, rate, format="MP3", bitrate_mode="VARIABLE")
    counted = file.getvalue()
    frames = hostile_sounds.without_count(counted)
    found = ndd.decoders.audio(tag + frames)[0].array
    expected = ndd.decoders.audio(counted)[0].array
    assert len(expected) == 40_000
    assert 0 <= len(found) - 40_000 < 2400
    shift = 576  # values of an encoder's delay, which the removed frame told
    assert np.abs(found[shift + 5000 : shift + 39_000] - expected[5000:39_000]).max() < 1e-4
