"""Puts cases of DALI's own tests of sound to us and to DALI, and counts how far both agree.

    DYNAMIC_DALI_PYTHON=/path/to/python python tests/sound_agreement.py

Prints the table on sound of `docs/agreement.md`. Cases have the sizes, windows, rates, filters and types that DALI's
tests have, and combinations of these.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from agreement import Shares, ask_dali, ask_us
from corpus import recorded, sound
from dali_oracle import Oracle, Result, Samples, connect
from usage import Call

import dynamic

INTEGERS = ("uint8", "int8", "uint16", "int16")  # of 32 bits DALI has the first 24


class Case(NamedTuple):
    """A call of an operator, or of the reader."""

    operator: str
    samples: list[np.ndarray]
    arguments: dict[str, Any]
    layout: str | None = None

    def __str__(self) -> str:
        return f"{self.operator}{[sample.shape for sample in self.samples]} {self.arguments}"


def noise(*shape: int, kind: str = "float32", seed: int = 1) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, 0.25, shape).clip(-1, 1)
    return (values if kind == "float32" else np.rint(values * np.iinfo(kind).max)).astype(kind)


def wave(count: int) -> np.ndarray:
    """A tone of 4 kHz at 44.1 kHz."""
    return np.sin(2 * np.pi * 4000 / 44100 * np.arange(count)).astype(np.float32)


def spectra() -> list[Case]:
    found = []
    shapes = [(1, 4096), (4096,), (4096, 1), (1, 1, 4096, 1)]
    windows = [(256, 256, 128, shape) for shape in shapes] + [(n, 10 if n is None else n, (n or 10) // 2, (1, 1000))
                                                                for n in (16, 10, None)]  # fmt: skip
    for (nfft, length, step, shape), centred in itertools.product(windows, (False, True)):
        arguments = {"window_length": length, "window_step": step, "center_windows": centred, "power": 2}
        found.append(
            Case("spectrogram", [noise(*shape, seed=k) for k in range(3)], arguments | ({"nfft": nfft} if nfft else {}))
        )
    sines = tuple(np.sin((np.arange(100) + 0.5) * np.pi / 100).tolist())
    for layout, power, mirror, (nfft, length, step) in itertools.product(
        ("ft", "tf"), (1, 2), (False, True), ((256, 256, 128), (128, 100, 61))
    ):
        more = {"window_fn": sines} if length == 100 and mirror else {}
        arguments = {"nfft": nfft, "window_length": length, "window_step": step, "layout": layout, "power": power,
                     "reflect_padding": mirror, **more}  # fmt: skip
        found.append(Case("spectrogram", [wave(4096), wave(1000)], arguments))
    for axis, shape, power in itertools.product((0, 1), ((64, 5), (128, 64), (16, 16)), (1, 2)):
        found.append(Case("power_spectrum", [noise(*shape)], {"axis": axis, "power": power, "nfft": shape[axis]}))
    return found


def mel_and_cepstra() -> list[Case]:
    found = []
    banks = [
        (4, 16000.0, 0.0, 8000.0, (17, 1), "ft"), (128, 16000.0, 0.0, 8000.0, (513, 100), "ft"),
        (128, 48000.0, 0.0, 24000.0, (513, 100), "ft"), (128, 48000.0, 4000.0, 24000.0, (100, 513), "tf"),
        (128, 44100.0, 0.0, 22050.0, (100, 513), "tf"), (128, 44100.0, 1000.0, 22050.0, (100, 513), "tf"),
    ]  # fmt: skip
    for (filters, rate, low, high, shape, layout), formula, normalize in itertools.product(
        banks, ("htk", "slaney"), (False, True)
    ):
        arguments = {"nfilter": filters, "sample_rate": rate, "freq_low": low, "freq_high": high,
                     "mel_formula": formula, "normalize": normalize}  # fmt: skip
        found.append(Case("mel_filter_bank", [noise(*shape) ** 2], arguments, layout))
    for (axis, shape), kind, (count, lifter) in itertools.product(
        ((0, (17, 1)), (1, (80, 41)), (0, (513, 100))), (1, 2, 3, 4), ((20, 0.0), (13, 22.0))
    ):
        arguments = {"axis": axis, "dct_type": kind, "lifter": lifter, "n_mfcc": count, "normalize": kind in (2, 3)}
        found.append(Case("mfcc", [noise(*shape)], arguments))
    for multiplier, reference, cutoff, shape in itertools.product(
        (10.0, 20.0), (0.0, 1.0, 1.5), (-60.0, -200.0), ((1, 4096), (513, 100))
    ):
        arguments = {"multiplier": multiplier, "cutoff_db": cutoff} | ({"reference": reference} if reference else {})
        found.append(Case("to_decibels", [noise(*shape, seed=k) ** 2 for k in range(2)], arguments))
    return found


def signals() -> list[Case]:
    found = []
    for source, target in itertools.product(("float32", *INTEGERS), repeat=2):
        arguments = {"scale": 1.0, "quality": 0.0, "dtype": target}
        found.append(Case("audio_resample", [noise(100, kind=source)], arguments))
    for scale, quality, shape in itertools.product((0.5, 0.25, 2.0), (0.0, 50.0, 100.0), ((1000,), (543, 2))):
        found.append(
            Case("audio_resample", [noise(*shape, seed=k) for k in range(2)], {"scale": scale, "quality": quality})
        )
    for border, coefficient, kind in itertools.product(
        ("clamp", "zero", "reflect"), (0.0, 0.5, 0.97), ("float32", "int16")
    ):
        arguments = {"border": border, "preemph_coeff": coefficient}
        found.append(Case("preemphasis_filter", [noise(n, kind=kind) for n in (2, 100, 4097)], arguments))
    for cutoff, window, power, silence in itertools.product((-80.0, -40.0, -10.0), (1, 16, 256), (0.0, 1e6), (0, 700)):
        quiet = np.pad(noise(1000, kind="int16"), (silence, silence // 2))
        arguments = {"cutoff_db": cutoff, "window_length": window, "reset_interval": -1}
        arguments |= {"reference_power": power} if power else {}
        found.append(Case("nonsilent_region", [quiet], arguments))
    return found


def files() -> list[Case]:
    found = []
    kinds = (("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("AIFF", "PCM_16"))
    for (kind, code), channels, downmix, (rate, wanted) in itertools.product(
        kinds, (1, 2, 4), (False, True), ((16000, 0.0), (22050, 11025.0))
    ):
        data = np.frombuffer(recorded(sound(3000, channels, channels), kind, code, rate), np.uint8)
        arguments = {"downmix": downmix} | ({"sample_rate": wanted} if wanted else {})
        if not (kind == "OGG" and wanted):  # DALI's own copy of libvorbis rounds otherwise
            found.append(Case("decoders.audio", [data], arguments | ({} if code == "VORBIS" else {"dtype": "float32"})))
    return found


def speech() -> list[Case]:
    found = []
    for downmix, kind, (rate, read_rate), (text, indices), (least, most) in itertools.product(
        (True, False), ("float32", "int16"), ((-1.0, True), (4000.0, False)), ((True, False), (False, True)),
        ((0.0, 0.0), (0.04, 0.12)),
    ):  # fmt: skip
        found.append(Case("readers.NemoAsr", [], {
            "downmix": downmix, "dtype": kind, "sample_rate": rate, "read_sample_rate": read_rate, "read_text": text,
            "read_idxs": indices, "min_duration": least, "max_duration": most}))  # fmt: skip
    return found


FAMILIES: dict[str, Callable[[], list[Case]]] = {
    "spectra": spectra,
    "mel filters, cepstra, decibels": mel_and_cepstra,
    "resampling, emphasis, silence": signals,
    "sound files": files,
    "`readers.NemoAsr`": speech,
}


def compared(case: Case, dali: Oracle, shares: Shares) -> None:
    """Put one case to both, and count."""
    if case.operator == "readers.NemoAsr":
        ours, theirs = read_by_both(case.arguments, dali)
    else:
        call = Call([Samples(case.samples, case.layout)], {}, case.arguments)
        ours = ask_us(case.operator, Call(call.inputs, {}, _without(case.arguments, "reset_interval")), None)
        theirs = ask_dali(dali, case.operator, call, None)
    shares.add(ours, theirs, str(case))


def _without(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != name}


SCRIPT = """
from nvidia.dali import fn, pipeline_def, types
arguments["dtype"] = {"float32": types.FLOAT, "int16": types.INT16}[arguments["dtype"]]
@pipeline_def(batch_size=size, num_threads=1, device_id=None)
def speech():
    found = fn.readers.nemo_asr(manifest_filepaths=path, **arguments)
    return tuple(found) if isinstance(found, (list, tuple)) else found
p = speech()
p.build()
result = {str(i): {str(k): np.asarray(t) for k, t in enumerate(column)} for i, column in enumerate(p.run())}
"""


def read_by_both(arguments: dict[str, Any], dali: Oracle) -> tuple[list[Any], list[Any]]:
    """The utterances of a manifest of six, of one channel or two, whole and in parts."""
    with tempfile.TemporaryDirectory() as folder:
        path, entries = Path(folder) / "all.json", []
        for number, (count, channels, kind) in enumerate([(800, 1, "WAV"), (400, 2, "FLAC"), (1200, 1, "WAV")] * 2):
            name = Path(folder) / f"{number}.{kind}"
            name.write_bytes(recorded(sound(count, channels, number), kind))
            entry = {"audio_filepath": str(name), "duration": count / 8000, "text": f"utterance {number}"}
            entries.append(entry | ({"offset": 0.01, "duration": 0.03} if number == 4 else {}))
        path.write_text("\n".join(map(json.dumps, entries)))
        found = dynamic.readers.NemoAsr(manifest_filepaths=path, **arguments)
        size = sum(arguments["min_duration"] <= e["duration"] and not 0 < arguments["max_duration"] < e["duration"]
                   for e in entries)  # fmt: skip
        text = f"path, size, arguments = {str(path)!r}, {size}, {arguments!r}\n{SCRIPT}"
        theirs = dali.script(text)
        batches = found(size)
        ours = list(batches) if isinstance(batches, tuple) else [batches]
    there = [Result([column[str(k)] for k in range(size)], one.layout, "", True)
             for one, column in zip(ours, theirs.values(), strict=True)]  # fmt: skip
    return ours, there


def of_family(name: str, dali: Oracle) -> Shares:
    shares = Shares()
    for case in FAMILIES[name]():
        compared(case, dali, shares)
    return shares


def main() -> None:
    """Print the table."""
    dali = connect()
    if dali is None:
        sys.exit("set DYNAMIC_DALI_PYTHON to a Python that has DALI")
    print("| sound | cases | bytes | within 1 | other integers | within 1 | floats | within 1e-4 | unlike |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in FAMILIES:
        shares = of_family(name, dali)
        print(shares.row(name), flush=True)
        for text in shares.against[:20] if "--show" in sys.argv else ():
            print("   ", text)


if __name__ == "__main__":
    main()
