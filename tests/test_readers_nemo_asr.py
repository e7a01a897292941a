"""Speech and transcripts of NeMo's manifests: what a reader of them has beside others (`test_stored.py`)."""

from __future__ import annotations

import json
import re

import corpus
import numpy as np
import pytest
from dali_oracle import Oracle, dali_fixture  # noqa: F401

import dynamic as ndd
from dynamic import ArgumentError, DataError, DecodeError
from dynamic.readers import NemoAsr

ENTRIES = [
    {"audio_filepath": "a.wav", "duration": 0.1, "text": "one"},
    {"audio_filepath": "a.wav", "offset": 0.01, "duration": 0.02, "text": "größer"},
    {"audio_filepath": "deep/b.flac", "offset": 0.02},
    {"audio_filepath": "a.wav", "duration": 3.0, "text": "long"},
]


@pytest.fixture
def manifest(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.wav").write_bytes(corpus.recorded(corpus.sound(800, 1)))
    (tmp_path / "deep" / "b.flac").write_bytes(corpus.recorded(corpus.sound(400, 2), "FLAC"))
    path = tmp_path / "all.json"
    path.write_text("\n".join(json.dumps(entry, indent=1) for entry in ENTRIES))  # an entry may have several lines
    return path


def whole(path, **arguments):
    return ndd.decoders.audio(path.read_bytes(), **arguments)[0].array


def test_parts_of_files_are_read_with_their_texts(manifest):
    reader = NemoAsr(manifest_filepaths=manifest, read_idxs=True)
    sounds, rates, texts, numbers = reader(4)
    a = whole(manifest.with_name("a.wav"), downmix=True)
    b = whole(manifest.parent / "deep" / "b.flac", downmix=True)
    for found, expected in zip(sounds.samples, [a, a[80:240], b[160:], a], strict=True):
        assert np.array_equal(found, expected)
    assert rates.tolist() == [8000.0] * 4
    assert [bytes(text).decode() for text in texts.samples] == ["one", "größer", "", "long"]
    assert numbers.tolist() == [[0], [1], [2], [3]]
    assert sounds.origin.names == ["a.wav", "a.wav", "deep/b.flac", "a.wav"]
    assert len(set(sounds.origin.ids.tolist())) == 4


def test_outputs_channels_types_and_rates_are_as_asked_for(manifest):
    (sounds,) = NemoAsr(manifest_filepaths=[manifest], downmix=False, dtype="int16", sample_rate=16000, read_text=False,
                        read_sample_rate=False)(3)  # fmt: skip
    assert (sounds.dtype, sounds.shape) == (ndd.int16, [(1600, 1), (320, 1), (480, 2)])
    _, rates, _ = NemoAsr(manifest_filepaths=manifest, sample_rate=4000.0)(1)
    assert rates.tolist() == [4000.0]


def test_durations_choose_samples(manifest):
    numbers = NemoAsr(manifest_filepaths=[manifest, manifest], read_idxs=True, min_duration=0.05, max_duration=1.0)(2)[
        3
    ]
    assert numbers.tolist() == [[0], [4]]
    with pytest.raises(ArgumentError, match="must be manifests with an entry of an allowed duration"):
        NemoAsr(manifest_filepaths=manifest, min_duration=9.0)


def test_a_state_of_other_parts_or_texts_is_refused(manifest):
    state = NemoAsr(manifest_filepaths=manifest).get_state()
    for change in ({"offset": 0.02}, {"text": "another"}):
        entries = [ENTRIES[0], ENTRIES[1] | change, *ENTRIES[2:]]
        manifest.write_text("\n".join(map(json.dumps, entries)))
        with pytest.raises(ndd.StateMismatch):
            NemoAsr(manifest_filepaths=manifest).set_state(state)


@pytest.mark.parametrize(("text", "message"), [
    ("", "with an entry of an allowed duration"),
    ("[1, 2]", "entry 0 has no audio_filepath"),
    ('{"duration": 1}', "entry 0 has no audio_filepath"),
    ('{"audio_filepath": "a.wav"} {"audio_filepath": ', "entry 1 is no JSON"),
    ('{"audio_filepath": "a.wav", "offset": -1}', "entry 0 has a wrong offset: int -1"),
    ('{"audio_filepath": "a.wav", "duration": "1"}', "entry 0 has a wrong duration: str '1'"),
    ('{"audio_filepath": "a.wav", "text": 5}', "entry 0 has a wrong text: int 5"),
    ('{"audio_filepath": ""}', "entry 0 has a wrong audio_filepath"),
    ('{"audio_filepath": "\udcff"}', "entry 0 or a later one is no UTF-8, at byte 20"),
    ("[" * 100_000, "entry 0 is no JSON"),
])  # fmt: skip
def test_what_is_wrong_in_a_manifest_is_named(manifest, text, message):
    manifest.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises((DataError, ArgumentError), match=message) as caught:
        NemoAsr(manifest_filepaths=manifest)
    assert "all.json" in str(caught.value)


def test_files_that_cannot_be_decoded_are_named_or_skipped(manifest):
    manifest.with_name("a.wav").write_bytes(b"RIFF....WAVE")
    path = re.escape(str(manifest.with_name("a.wav")))
    with pytest.raises(DecodeError, match=rf"3 of 4 samples cannot be read.\n  sample 0 \({path}\): WAV: it has no"):
        NemoAsr(manifest_filepaths=manifest)(4)
    assert len(NemoAsr(manifest_filepaths=manifest, on_error="skip")(4)[0]) == 1


def test_a_pipeline_has_it(manifest):
    from dynamic.pipeline import fn, pipeline_def

    @pipeline_def(batch_size=2)
    def speech():
        sounds, _, texts = fn.readers.nemo_asr(manifest_filepaths=str(manifest))
        return fn.spectrogram(sounds, window_length=64, window_step=32), texts

    spectra, texts = speech().run()
    assert spectra.as_cpu()[0].shape() == [33, 26]
    assert bytes(np.asarray(texts.as_cpu()[1])).decode() == "größer"


SCRIPT = """
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def speech():
    return tuple(fn.readers.nemo_asr(manifest_filepaths=path, read_idxs=True))
p = speech()
p.build()
result = {str(i): {str(k): np.asarray(t) for k, t in enumerate(column)} for i, column in enumerate(p.run())}
"""


def test_speech_is_that_of_dali(manifest, dali: Oracle):
    entries = [e | {"audio_filepath": str(manifest.parent / e["audio_filepath"])} for e in ENTRIES[:2]]
    entries.append({"audio_filepath": str(manifest.parent / "deep" / "b.flac"), "offset": 0.02, "duration": 0.03})
    manifest.write_text("\n".join(map(json.dumps, entries)))
    expected = dali.script(f"path = {str(manifest)!r}\n{SCRIPT}")
    found = NemoAsr(manifest_filepaths=manifest, read_idxs=True)(3)
    for i, column in enumerate(found):
        for k, sample in enumerate(column.samples):
            theirs = expected[str(i)][str(k)]
            assert (sample.shape, sample.dtype) == (theirs.shape, theirs.dtype)
            assert np.allclose(sample, theirs, atol=1e-6)
