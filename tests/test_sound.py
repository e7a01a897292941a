"""Sound: spectra, filter banks, resampling, silence, and sound files."""

from __future__ import annotations

import contextlib
import io
import struct
import sys
import tracemalloc

import corpus
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, read_only

import dynamic as ndd
from dynamic import ArgumentError, DecodeError, _core, as_batch

seeds = st.integers(0, 2**20)
sizes = st.integers(1, 90)


def noise(shape, seed: int, kind: str = "float32") -> np.ndarray:
    return read_only(np.random.default_rng(seed).normal(0, 1, shape).astype(kind))


def near(found, expected, part: float = 2e-6) -> None:
    found = np.asarray(found.array if isinstance(found, ndd.Tensor) else found)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= part * max(1e-6, np.abs(expected).max(initial=0))


# -- spectra -----------------------------------------------------------------------------------------------------------


def spectrum_of(values, nfft: int, power: int) -> np.ndarray:
    """By the definition, in float64."""
    time = np.arange(values.shape[-1])
    waves = np.exp(-2j * np.pi / nfft * np.arange(nfft // 2 + 1)[:, None] * time)
    return np.abs(values.astype(float) @ waves.T) ** power


@given(seeds, sizes, st.integers(1, 70), st.integers(1, 2))
def test_spectra_are_those_of_the_definition(seed, count, nfft, power):
    rows = noise((3, count), seed)
    expected = spectrum_of(rows[:, :nfft], nfft, power)
    near(ndd.power_spectrum(rows, nfft=nfft, power=power), expected)
    near(ndd.power_spectrum(rows.T, nfft=nfft, power=power, axis=0), expected.T)
    middle = ndd.power_spectrum(np.stack([rows.T, rows.T]), nfft=nfft, power=power, axis=1)
    near(middle, np.stack([expected.T, expected.T]))


@pytest.mark.skipif(not _core.in_use(), reason="the native library is not in use")
@given(seeds, st.integers(1, 3000), st.sampled_from([16, 40, 97, 512]), st.integers(1, 200), st.integers(1, 2),
       st.sampled_from(["ft", "tf"]), st.integers(1, 90))  # fmt: skip
def test_spectra_and_banks_have_the_same_bits_without_the_native_library(
    seed, count, length, step, power, layout, filters
):
    def found():
        spectra = ndd.spectrogram(
            signal, window_length=length, nfft=length + 8, window_step=step, power=power, layout=layout
        )
        bank = {"nfilter": filters, "sample_rate": 16000.0}
        column = spectra[:, 0] if layout == "ft" else spectra[0]
        return (
            spectra.numpy(),
            ndd.power_spectrum(signal, nfft=length, power=power).numpy(),
            ndd.mel_filter_bank(spectra, **bank).numpy(),
            ndd.mel_filter_bank(column.numpy(), **bank).numpy(),
            ndd.mel_filter_bank(np.stack([spectra.numpy()] * 2), **bank).numpy(),
        )

    signal = noise(count, seed)
    with _core.left_out():
        expected = found()
    for a, b in zip(found(), expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@given(seeds, sizes)
def test_spectra_have_the_energy_of_the_signal(seed, count):
    signal = noise(count, seed)
    weights = np.full(count // 2 + 1, 2.0)
    weights[0], weights[count // 2] = 1, 2 if count % 2 and count > 1 else 1
    energy = (ndd.power_spectrum(signal).array * weights).sum() / count
    assert energy == pytest.approx((signal.astype(float) ** 2).sum(), rel=1e-5)


@given(
    seeds, sizes, st.integers(1, 30), st.integers(1, 20), st.booleans(), st.booleans(), st.sampled_from(["ft", "tf"])
)
def test_spectrograms_are_spectra_of_windows(seed, count, length, step, centred, mirror, layout):
    signal, window = noise(count, seed), noise(length, seed + 1)
    padded = np.pad(signal, length, mode="reflect" if mirror and count > 1 else "edge" if mirror else "constant")
    padded = padded[length - length // 2 :] if centred else signal
    frames = count // step + 1 if centred else (count - length) // step + 1
    arguments = {"window_length": length, "window_step": step, "window_fn": tuple(window.tolist()), "layout": layout,
                 "center_windows": centred, "reflect_padding": mirror}  # fmt: skip
    if not centred and count < length:
        return
    windows = np.stack([padded[k * step : k * step + length] * window for k in range(frames)])
    found = ndd.spectrogram(signal, nfft=length + 3, **arguments)
    expected = spectrum_of(windows, length + 3, 2)
    near(found, expected if layout == "tf" else expected.T)
    assert found.layout == layout


def test_a_tone_is_one_frequency():
    signal = np.cos(2 * np.pi * 8 * np.arange(640) / 64).astype(np.float32)
    found = ndd.spectrogram(signal, window_length=64, window_step=64, center_windows=False).array
    assert (found.argmax(axis=0) == 8).all()
    assert found[8] == pytest.approx(np.full(10, 16.0**2), rel=1e-3)  # half of the half that a Hann window leaves
    assert found[[0, 4, 12, 32]].max() < 1e-6


@pytest.mark.parametrize(("signal", "arguments", "message"), [
    (np.zeros(0), {}, "a signal: one dimension that is not empty"),
    (np.zeros((8, 2)), {}, "a signal: one dimension"),
    (np.zeros(9), {"window_length": 8, "nfft": 7}, "'nfft' must be at least the window_length, 8"),
    (np.zeros(9), {"window_length": 2, "window_fn": [1.0]}, "'window_fn' must be 2 numbers"),
    (np.zeros(9), {"window_length": 30, "window_step": 4, "center_windows": False}, "longer than 26 values"),
])  # fmt: skip
def test_spectrograms_that_cannot_be_are_refused(signal, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        ndd.spectrogram(as_batch([signal.astype(np.float32)]), **arguments)


# -- filter banks and cosine transforms --------------------------------------------------------------------------------


@given(seeds, st.integers(2, 90), st.integers(1, 40), st.booleans(), st.sampled_from(["slaney", "htk"]))
def test_filter_banks_are_linear_and_keep_what_is_between_their_ends(seed, bins, filters, normalize, formula):
    arguments = {"nfilter": filters, "sample_rate": 16000.0, "normalize": normalize, "mel_formula": formula}
    spectrum = noise((bins, 3), seed)
    matrix = ndd.mel_filter_bank(np.eye(bins, dtype=np.float32), **arguments).array
    near(ndd.mel_filter_bank(spectrum, **arguments), matrix @ spectrum, 1e-5)
    near(ndd.mel_filter_bank(ndd.as_tensor(spectrum.T, layout="tf"), **arguments), (matrix @ spectrum).T, 1e-5)
    near(ndd.mel_filter_bank(spectrum[:, 0], **arguments), matrix @ spectrum[:, 0], 1e-5)
    assert (matrix >= 0).all()
    if not normalize:
        assert (matrix <= 1 + 1e-6).all()
        assert (matrix.sum(axis=0) <= 1 + 1e-6).all()  # neighbours are complements of each other


def test_mel_filters_of_slaney_and_htk():
    eye = np.eye(201, dtype=np.float32)
    slaney = ndd.mel_filter_bank(eye, nfilter=40, sample_rate=16000.0).array
    steps = np.diff(slaney.argmax(axis=1) * 40.0)  # linear below 1000 Hz, wider above
    assert steps[:11].max() - steps[:11].min() <= 40
    assert steps[-1] > 3 * steps[0]
    assert slaney[3:].sum(axis=1) * 40 == pytest.approx(np.ones(37), abs=0.1)  # the area is 1
    htk = ndd.mel_filter_bank(eye, nfilter=40, sample_rate=16000.0, mel_formula="htk", normalize=False).array
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 42) / 2595) - 1)
    expected = np.array([np.interp(np.arange(201) * 40.0, edges[k : k + 3], [0, 1, 0], 0, 0) for k in range(40)])
    near(htk, expected, 1e-5)


@pytest.mark.parametrize("kind", [2, 3, 4])
@given(seed=seeds, extent=st.integers(1, 40))
def test_orthonormal_cosines_have_an_inverse(kind, seed, extent):
    values, back = noise((extent, 3), seed), {2: 3, 3: 2, 4: 4}[kind]
    found = ndd.mfcc(values, dct_type=kind, n_mfcc=extent, normalize=True)
    near(ndd.mfcc(found, dct_type=back, n_mfcc=extent, normalize=True), values, 1e-5)


def test_cosines_of_each_kind_by_hand():
    values = np.array([1.0, 2.0, 4.0], np.float32)
    root = np.sqrt(3) / 2
    known = {1: [4.5, -1.5, 0.5], 2: [7.0, -3 * root, 0.5], 3: [4.5 - 2 + root * 2, -3.5, 2.5 - 2 * root]}
    for kind, expected in known.items():
        assert ndd.mfcc(values, dct_type=kind, n_mfcc=9).tolist() == pytest.approx(expected, abs=1e-5)
    liftered = ndd.mfcc(values, n_mfcc=2, lifter=4.0).tolist()
    assert liftered == pytest.approx([7.0 * (1 + 2 * np.sin(np.pi / 4)), -3 * root * 3], abs=1e-5)


# -- values ------------------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([10.0, 20.0, -3.0]), st.floats(0.125, 100, width=32))
def test_decibels_have_an_inverse(seed, multiplier, reference):
    values = noise(50, seed) ** 2 + np.float32(1e-3)
    found = ndd.to_decibels(values, multiplier=multiplier, reference=reference, cutoff_db=-np.sign(multiplier) * 900.0)
    near(reference * 10 ** (found.array.astype(float) / multiplier), values, 1e-4)
    largest = ndd.to_decibels(values).array
    assert largest.max() == pytest.approx(0, abs=1e-5)


def test_silence_in_decibels_is_the_cutoff():
    odd = np.array([0.0, -1.0, np.nan, 1e-30, 1.0], np.float32)
    assert ndd.to_decibels(odd, cutoff_db=-90.0).tolist() == [-90, -90, -90, -90, 0]
    assert ndd.to_decibels(np.zeros(2, np.float32)).tolist() == [-200, -200]


@given(seeds, sizes, st.floats(-0.875, 0.875, width=16), st.sampled_from(["zero", "clamp", "reflect"]))
def test_emphasis_has_an_inverse(seed, count, part, border):
    signal = noise(count, seed)
    found = ndd.preemphasis_filter(signal, preemph_coeff=part, border=border, dtype="float64").array
    values = np.empty(count)
    values[0] = signal[0]
    for i in range(1, count):
        values[i] = found[i] + np.float64(part) * values[i - 1]
    near(values, signal, 1e-4)
    before = {"zero": 0.0, "clamp": signal[0], "reflect": signal[1] if count > 1 else 0.0}[border]
    assert found[0] == pytest.approx(signal[0] - part * before, abs=1e-5)


def loud(signal, window: int, part: float, reference: float) -> tuple[int, int]:
    """By the definition: the values of windows that are not silent."""
    padded = np.concatenate([np.zeros(window - 1), signal.astype(float)])
    means = np.array([(padded[i : i + window] ** 2).sum() / window for i in range(len(signal))])
    places = np.flatnonzero(means >= part * (reference or means.max(initial=0)) * (1 - 1e-12))
    if not len(places):
        return 0, 0
    first = max(0, int(places[0]) - window + 1)
    return first, int(places[-1]) + 1 - first


@given(seeds, st.integers(1, 60), st.integers(0, 40), st.integers(1, 40), st.sampled_from([0.0, 1.0, 1e4]))
def test_regions_are_those_of_the_definition(seed, count, silence, window, reference):
    signal = np.pad(np.rint(noise(count, seed) * 30), (silence, 40 - silence)).astype(np.int16)
    expected = loud(signal, window, 10**-2.05, reference)
    arguments = {"window_length": window, "cutoff_db": -20.5, "reference_power": reference}
    assert tuple(x.item() for x in ndd.nonsilent_region(signal, **arguments)) == expected
    with _core.left_out():
        assert tuple(x.item() for x in ndd.nonsilent_region(signal, **arguments)) == expected


def test_no_values_are_silent():
    assert [x.item() for x in ndd.nonsilent_region(np.zeros(0, np.float32))] == [0, 0]


# -- resampling --------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 200), st.floats(0.1, 5), st.floats(0, 100), st.integers(1, 2))
@examples(1 / 2)
def test_signals_are_resampled_natively_as_in_python(seed, count, scale, quality, channels):
    signal = noise((count, channels), seed)
    found = ndd.audio_resample(signal, scale=scale, quality=quality).array
    with _core.left_out():
        assert np.array_equal(found, ndd.audio_resample(signal, scale=scale, quality=quality).array)
    assert len(found) == np.ceil(count * float(np.float32(scale)))


@given(seeds, st.integers(1, 300), st.integers(1, 4))
def test_values_stay_where_they_are(seed, count, times):
    signal = noise(count, seed)
    near(ndd.audio_resample(signal, scale=float(times)).array[::times], signal)
    near(ndd.audio_resample(signal, out_length=count), signal)
    near(ndd.audio_resample(signal, in_rate=8000, out_rate=8000.0 / times), signal[::times])


@pytest.mark.parametrize(("into", "per"), [(44100, 16000), (16000, 44100), (1, 1.2345)])
def test_a_tone_stays_a_tone(into, per):
    signal = np.sin(np.arange(4000) * 0.3).astype(np.float32)
    found = ndd.audio_resample(signal, in_rate=per, out_rate=into).array
    expected = np.sin(np.arange(len(found)) * (per / into) * 0.3)
    inner = slice(200, len(found) - 200)
    near(found[inner], expected[inner], 2e-3)  # what a sinc of 16 lobes leaves


def test_rates_may_be_tiny():
    for arguments in ({"scale": 1e-40}, {"in_rate": 1.0, "out_rate": 1e-310}, {"in_rate": 1e300, "out_rate": 1.0}):
        assert ndd.audio_resample([3.0, 4.0], **arguments).tolist() == pytest.approx([3.0])


def test_types_are_ranges():
    signal = np.array([-1, -0.5, 0, 0.5, 1], np.float32)
    known = {"int16": [-32767, -16384, 0, 16384, 32767], "uint8": [0, 64, 128, 191, 255]}
    for kind, expected in known.items():
        found = ndd.audio_resample(signal, scale=1.0, dtype=kind)
        assert found.tolist() == expected
        near(ndd.audio_resample(found, scale=1.0, dtype="float32"), signal, 1e-2)
    assert ndd.audio_resample(np.array([5, 250], np.uint8), scale=1.0).tolist() == [5, 250]


@pytest.mark.parametrize(
    "given_", [{}, {"in_rate": 1.0}, {"scale": 2.0, "out_length": 4}, {"scale": 2.0, "in_rate": 1.0}]
)
def test_one_way_to_say_a_length_is_needed(given_):
    with pytest.raises(ArgumentError, match="'scale' must be given alone, or out_length, or in_rate and out_rate"):
        ndd.audio_resample([1.0, 2.0], **given_)


def test_lengths_that_cannot_be_are_refused_by_sample():
    for arguments, message in (({"in_rate": 0.0, "out_rate": 1.0}, "'in_rate' must be more than 0"),
                               ({"scale": 1e30}, "'scale' must be small enough for 2147483647 values")):  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            ndd.audio_resample([1.0, 2.0], **arguments)
    with pytest.raises(ArgumentError, match="must be not empty, as the result has 3 values") as caught:
        ndd.audio_resample(as_batch([[1.0], []], dtype="float32"), out_length=3)
    assert "sample 1 of 2" in "".join(caught.value.__notes__)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "code"), corpus.SOUNDS)
@pytest.mark.parametrize("channels", [1, 3])
def test_files_are_read_as_by_libsndfile(kind, code, channels):
    file = corpus.recorded(corpus.sound(150, 1 if code == "IMA_ADPCM" else channels % 3 + 1), kind, code)
    own = code in ("FLOAT", "DOUBLE", "VORBIS", "OPUS", "MPEG_LAYER_III")  # whose integers are not scaled, or wrap
    for dtype in ("float32", "int16", "int32"):
        expected, rate = soundfile.read(io.BytesIO(file), dtype="float32" if own else dtype, always_2d=True)
        found, found_rate = ndd.decoders.audio(file, dtype=dtype)
        if own and dtype != "float32":
            most = np.iinfo(dtype).max
            near(found.array.astype(float), np.clip(expected * float(most), -most - 1, most), 1e-4)
        elif own:
            near(found, expected)
        else:
            assert np.array_equal(found.array, expected)
        assert found_rate.item() == rate
        assert found_rate.dtype == ndd.float32
    mixed, _ = ndd.decoders.audio(file, downmix=True)
    near(mixed, ndd.decoders.audio(file)[0].array.mean(axis=1), 1e-5)


@given(seeds, st.integers(0, 60), st.integers(1, 3), st.sampled_from(["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT"]))
def test_wav_files_are_read_without_soundfile(seed, count, channels, code):
    file = corpus.recorded(corpus.sound(count, channels, seed), "WAV", code)
    expected, _ = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "soundfile", None)
        assert np.array_equal(ndd.decoders.audio(file)[0].array, expected)


def flac(values: np.ndarray, code: str, level: float) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, values, 16000, format="FLAC", subtype=code, compression_level=level)
    return file.getvalue()


@given(seeds, st.sampled_from(["PCM_S8", "PCM_16", "PCM_24"]), st.integers(1, 8), st.sampled_from([0.0, 0.5, 1.0]),
       st.sampled_from(["tones", "noise", "silence", "steps", "loud"]),
       st.sampled_from(["float32", "int16", "int32"]))  # fmt: skip
@examples(2)
def test_flac_files_are_read_natively_as_by_libsndfile(seed, code, channels, level, kind, dtype):
    count = 1 + seed % 9000
    values = corpus.sound(count, channels, seed)
    if kind == "noise":
        values = np.random.default_rng(seed).uniform(-1, 1, (count, channels))
    elif kind == "loud":  # neighbours are as far apart as can be
        values = np.where(np.random.default_rng(seed).random((count, channels)) < 0.5, -1.0, 1.0)
    elif kind in ("silence", "steps"):
        values = np.round(values * 8) / 64 if kind == "steps" else values * 0
    file = flac(values, code, level)
    with pytest.MonkeyPatch.context() as patch:
        if _core.in_use():
            patch.setitem(sys.modules, "soundfile", None)
        found = ndd.decoders.audio(file, dtype=dtype)[0].array
    assert np.array_equal(found, soundfile.read(io.BytesIO(file), dtype=dtype, always_2d=True)[0])
    with _core.left_out():
        assert np.array_equal(ndd.decoders.audio(file, dtype=dtype)[0].array, found)


@given(seeds, st.integers(1, 3))
def test_a_damaged_frame_of_flac_is_found(seed, channels):
    file = bytearray(flac(corpus.sound(9000, channels, 1), "PCM_16", 0.5))
    begin = file.index(b"\xff\xf8", 42)
    file[begin + seed % (len(file) - begin)] ^= 1 + seed % 255
    with pytest.raises(DecodeError, match="FLAC"):
        ndd.decoders.audio(bytes(file))


def test_huge_and_odd_floats_are_read_without_a_warning():
    values = np.array([1e300, -np.inf, np.nan, 0.5])
    form = struct.pack("<HHIIHH", 3, 1, 8000, 64000, 8, 64)
    assert ndd.decoders.audio(wav(values.tobytes(), form=form), dtype="int16")[0].tolist() == [
        [32767],
        [-32768],
        [0],
        [16384],
    ]
    found = ndd.decoders.audio(wav(values.tobytes(), form=form), sample_rate=16000.0)[0]
    assert found.shape == (8, 1)


def test_a_file_may_be_resampled_as_it_is_decoded():
    files = as_batch([np.frombuffer(corpus.recorded(corpus.sound(n, 2, n)), np.uint8) for n in (40, 90)])
    found, rates = ndd.decoders.audio(files, sample_rate=as_batch([16000.0, 0.0]), downmix=True)
    assert found.shape == [(80,), (90,)]
    assert rates.tolist() == [16000.0, 8000.0]
    plain = ndd.decoders.audio(files, downmix=True)[0]
    assert np.array_equal(found[0].array, ndd.audio_resample(plain[0], scale=2.0).array)


def test_what_is_missing_is_told(monkeypatch):
    file = corpus.recorded(corpus.sound(), "OGG")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(DecodeError, match=r"OGG: this needs soundfile: pip install 'dynamic-batch\[sound\]'"):
        ndd.decoders.audio(file)


def wav(data: bytes, size: int | None = None, form: bytes = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)) -> bytes:
    """A WAV file, which may say another size than it has."""
    chunks = (
        b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data) if size is None else size)
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks) + len(data)) + b"WAVE" + chunks + data


def test_sizes_of_programs_that_did_not_know_are_those_of_the_file():
    for size in (0xFFFFFFFF, 0x7FFFF000):
        assert ndd.decoders.audio(wav(b"\0\x40" * 3, size), dtype="int16")[0].tolist() == [[0x4000]] * 3


def flac_of(values: int) -> bytes:
    """A FLAC file that says so many values."""
    file = bytearray(corpus.recorded(corpus.sound(50, 1), "FLAC"))
    packed = int.from_bytes(file[18:26], "big") >> 36 << 36
    file[18:26] = (packed | values).to_bytes(8, "big")
    return bytes(file)


REFUSED = {
    "no bytes": (b"", "there are no bytes"),
    "an image": (corpus.small_files()["PNG"], r"bytes that begin with b'\\x89PNG"),
    "ends in its header": (wav(b"")[:30], "WAV: its format ends too early"),
    "no data": (wav(b"")[:36], "WAV: it has no values, or ends before they begin"),
    "declared size": (wav(b"\0\0\0", 2000), "WAV: it ends after 1 of 1000 values"),
    "no channels": (wav(b"\0\0", form=struct.pack("<HHIIHH", 1, 0, 8000, 0, 0, 16)), "its header contradicts itself"),
    "no rate": (wav(b"\0\0", form=struct.pack("<HHIIHH", 1, 1, 0, 0, 2, 16)), "its header contradicts itself"),
    "blocks": (wav(b"\0\0", form=struct.pack("<HHIIHH", 1, 1, 8000, 0, 7, 16)), "its header contradicts itself"),
    "empty chunks": (wav(b"")[:12] + b"junk\0\0\0\0" * 5000, "WAV: it has no values"),
    "FLAC of 2**36": (flac_of(2**36 - 1), "FLAC: .* bytes cannot hold the 68719476735 values"),
    "FLAC of 2**28": (flac_of(2**28), "FLAC: .* bytes cannot hold the 268435456 values"),
    "FLAC of more than it has": (flac_of(60), "FLAC: libsndfile says: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_are_refused_by_name(name, tmp_path):
    file, message = REFUSED[name]
    with pytest.raises(DecodeError, match=message):
        ndd.decoders.audio(file)
    path = tmp_path / "broken.sound"
    path.write_bytes(file)
    with pytest.raises(DecodeError, match=f"sample 0 .*broken.sound.*{message}"):
        ndd.decoders.audio(ndd.io.file.read(as_batch([np.frombuffer(str(path).encode(), np.uint8)])))


def test_files_of_more_than_the_limit_are_refused():
    silence = corpus.recorded(np.zeros((3_000_000, 1)), "FLAC")
    assert len(silence) < 20_000
    for arguments in ({}, {"sample_rate": 4000.0}):
        with pytest.raises(DecodeError, match="3000000 values of 1 channels are more than max_values=1000000"):
            ndd.decoders.audio(silence, max_values=10**6, **arguments)
    with pytest.raises(DecodeError, match="are more than max_values"):
        ndd.decoders.audio(wav(b"\0\0"), sample_rate=1e30)


def damaged() -> list[bytes]:
    """Good files of all kinds: cut off, with changed bytes, and with bytes that say sizes set to large ones."""
    generator, found = np.random.default_rng(5), []
    for file in corpus.small_sounds().values():
        found += [file[: int(share * len(file))] for share in (0.1, 0.5, 0.95)]
        for _ in range(3):
            changed = np.frombuffer(file, np.uint8).copy()
            changed[generator.integers(4, min(len(file), 200), 4)] = generator.choice([0, 1, 127, 128, 255], 4)
            found.append(changed.tobytes())
    return found


def test_damaged_files_are_read_or_refused_with_little_memory():
    files = damaged()
    assert len(files) >= 200
    read = 0
    for file in files:
        tracemalloc.start()
        with contextlib.suppress(DecodeError):
            read += ndd.decoders.audio(file)[0].array.size > 0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 << 20, len(file)
    assert 0 < read < len(files)
