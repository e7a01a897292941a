"""Sound on a GPU, or on the emulator of one: several blocks for a signal, any strides, and transforms in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, read_only
from twin import build

import dynamic as ndd
from dynamic import as_batch
from dynamic.kernels.gpu import sound

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing"),
]

seeds = st.integers(0, 2**20)
ways = st.sampled_from(["one array", "of several lengths", "every second value"])


def signals(seed: int, way: str = "of several lengths", kind: str = "float32", channels: int = 0) -> ndd.Batch:
    """Signals of 1 to 5,000 values, silent before and after."""
    random = np.random.default_rng(seed)
    lengths = [int(random.integers(1, 5000))] * 3 if way == "one array" else random.integers(1, 5000, 4).tolist()
    found = []
    for length in lengths:
        values = random.normal(0, 0.3, (length, channels) if channels else length)
        values[: length // 5] = 0
        values[length - length // 7 :] *= 1e-4
        values = values if kind.startswith("f") else np.rint(values.clip(-1, 1) * np.iinfo(kind).max)
        found.append(read_only(values.astype(kind)))
    return as_batch(np.stack(found) if way == "one array" else found)


def on_gpu(batch: ndd.Batch, way: str) -> ndd.Batch:
    if way != "every second value":
        return batch.gpu()
    import cupy

    views = []
    for sample in batch.samples:
        wide = cupy.zeros([2 * extent for extent in sample.shape], sample.dtype)
        view = wide[(slice(None, None, 2),) * sample.ndim]
        view[...] = cupy.asarray(sample)
        views.append(view)
    return as_batch(views, layout=batch.layout)


def near(found, expected, part: float = 2e-6) -> None:
    """The values of the CPU, up to a part of the largest of each sample."""
    assert found.device == "gpu"
    assert (found.layout, found.dtype, found.shape) == (expected.layout, expected.dtype, expected.shape)
    for one, other in zip(found.cpu().samples, expected.samples, strict=True):
        most = np.abs(other.astype(float)).max(initial=0)
        limit = part * most if one.dtype.kind == "f" else 1
        assert np.abs(one.astype(float) - other).max(initial=0) <= limit


@given(seeds, ways, st.sampled_from(["float32", "int16"]), st.sampled_from(["ft", "tf"]), st.booleans(), st.booleans(),
       st.integers(1, 2), st.integers(1, 300), st.integers(17, 400))  # fmt: skip
@examples(1 / 4)
def test_spectrograms(seed, way, kind, layout, centred, mirror, power, length, step):
    batch = signals(seed, way, kind)
    if not centred:
        length = min(length, *(sample.size for sample in batch.samples))
    arguments = {"window_length": length, "window_step": step, "nfft": length + seed % 40, "layout": layout,
                 "center_windows": centred, "reflect_padding": mirror, "power": power}  # fmt: skip
    near(ndd.spectrogram(on_gpu(batch, way), **arguments), ndd.spectrogram(batch, **arguments), 4e-6)


@given(seeds, st.integers(1, 3), st.sampled_from([None, 64, 90]), st.integers(-3, 2))
@examples(1 / 8)
def test_spectra_along_a_dimension(seed, power, nfft, axis):
    random = np.random.default_rng(seed)
    arrays = as_batch([random.normal(0, 1, random.integers(1, 90, 3)).astype("float32") for _ in range(3)])
    arguments = {"axis": axis, "nfft": nfft, "power": 1 + power % 2}
    near(ndd.power_spectrum(arrays.gpu(), **arguments), ndd.power_spectrum(arrays, **arguments), 4e-6)


def test_transforms_in_parts_are_those_of_all(monkeypatch):
    batch, arguments = signals(3), {"window_length": 64, "window_step": 16}
    expected = ndd.spectrogram(batch.gpu(), **arguments).cpu()
    rows = ndd.power_spectrum(expected.gpu(), axis=0).cpu()
    for most in (1, 64 * 4 * 7, 64 * 4 * 300):
        monkeypatch.setattr(sound, "_MEMORY", most)
        found = ndd.spectrogram(batch.gpu(), **arguments).cpu()
        assert all(map(np.array_equal, found.samples, expected.samples))
        found = ndd.power_spectrum(expected.gpu(), axis=0).cpu()
        assert all(map(np.array_equal, found.samples, rows.samples))


@given(seeds, st.sampled_from(["ft", "tf", "f"]), st.sampled_from(["float32", "float64"]), ways)
@examples(1 / 4)
def test_filter_banks_and_cosines(seed, layout, kind, way):
    random = np.random.default_rng(seed)
    extents = [{"f": 65 if seed % 2 else int(random.integers(1, 90)), "t": int(random.integers(0, 40))}
               for _ in range(1 if way == "one array" else 4)]  # fmt: skip
    arrays = [(random.random([each[letter] for letter in layout]) ** 4).astype(kind) for each in extents]
    batch = as_batch(arrays, layout=layout)
    mel = {"nfilter": 40, "sample_rate": 16000.0, "normalize": bool(seed % 3)}
    near(ndd.mel_filter_bank(on_gpu(batch, way), **mel), ndd.mel_filter_bank(batch, **mel))
    cosines = {"n_mfcc": 13, "axis": layout.index("f"), "lifter": float(seed % 30), "dct_type": 2 + seed % 3}
    near(ndd.mfcc(on_gpu(batch, way), **cosines), ndd.mfcc(batch, **cosines), 4e-6)


@given(seeds, ways, st.sampled_from(["float32", "int16"]), st.sampled_from([10.0, 20.0, -10.0]),
       st.sampled_from([0.0, 2.0, -1.0]))  # fmt: skip
@examples(1 / 4)
def test_decibels(seed, way, kind, multiplier, reference):
    batch = signals(seed, way, kind)
    arguments = {"multiplier": multiplier, "reference": reference, "cutoff_db": -80.0}
    near(ndd.to_decibels(on_gpu(batch, way), **arguments), ndd.to_decibels(batch, **arguments))


def test_the_largest_of_many_values_and_of_none():
    odd = np.full(300_000, 0.25, np.float32)
    odd[[5, 299_999]] = np.nan, 8.0
    batch = as_batch([odd, np.full(70, np.nan, np.float32), np.zeros(9, np.float32), np.zeros(0, np.float32)])
    near(ndd.to_decibels(batch.gpu()), ndd.to_decibels(batch))


@given(seeds, ways, st.sampled_from(["float32", "int16", "int32", "float64"]),
       st.sampled_from(["zero", "clamp", "reflect"]), st.sampled_from(["float32", "int16", "float64"]))  # fmt: skip
@examples(1 / 4)
def test_emphasis(seed, way, kind, border, dtype):
    batch = signals(seed, way, kind)
    arguments = {"preemph_coeff": as_batch([0.9, 0.0, -1.5, 2.0][: len(batch)]), "border": border, "dtype": dtype}
    near(ndd.preemphasis_filter(on_gpu(batch, way), **arguments), ndd.preemphasis_filter(batch, **arguments))


@given(seeds, ways, st.sampled_from(["int16", "float32"]), st.sampled_from([1, 8, 2048, 9000]),
       st.sampled_from([0.0, 1e-3, 1e9]))  # fmt: skip
@examples(1 / 4)
def test_silence(seed, way, kind, window, reference):
    batch = signals(seed, way, kind)
    arguments = {"window_length": window, "reference_power": reference, "cutoff_db": -31.7}
    found, expected = ndd.nonsilent_region(on_gpu(batch, way), **arguments), ndd.nonsilent_region(batch, **arguments)
    for one, other in zip(found, expected, strict=True):
        assert one.device == "gpu"
        assert one.dtype == ndd.int32
        assert one.tolist() == other.tolist()


@given(seeds, ways, st.sampled_from(["float32", "int16", "uint8"]), st.sampled_from([None, "float32", "int16"]),
       st.floats(0, 100), st.integers(0, 2), st.floats(0.3, 3))  # fmt: skip
@examples(1 / 4)
def test_resampling_to_the_same_bits(seed, way, kind, dtype, quality, channels, scale):
    batch = signals(seed, way, "int16" if kind == "uint8" else kind, channels)
    batch = ndd.cast(batch, dtype=kind)
    arguments = {"scale": as_batch([scale, 1.0, 0.5, 2.0][: len(batch)]), "quality": quality, "dtype": dtype}
    found, expected = ndd.audio_resample(on_gpu(batch, way), **arguments), ndd.audio_resample(batch, **arguments)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert all(map(np.array_equal, found.cpu().samples, expected.samples))


def test_features_of_speech_stay_on_the_gpu():
    speech = ndd.preemphasis_filter(signals(8, kind="int16").gpu())
    begin, length = ndd.nonsilent_region(speech, cutoff_db=-40)
    spectra = ndd.spectrogram(ndd.audio_resample(speech, scale=0.5), window_length=200, window_step=80, nfft=256)
    mel = ndd.to_decibels(ndd.mel_filter_bank(spectra, nfilter=20, sample_rate=8000.0), cutoff_db=-80)
    features = ndd.mfcc(mel, n_mfcc=13)
    assert {x.device.device_type for x in (begin, length, spectra, mel, features)} == {"gpu"}
    assert features.layout == "ft"
