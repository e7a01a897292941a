"""Train a keyword spotter on mel spectrograms, be killed, and go on: the weights are those of an uninterrupted run.

    python examples/keyword_spotting.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

The "words" are made here: WAV files of two gliding tones in noise, silent before and after, 20 of each of four classes.
Reader, random numbers and weights go into one file every few steps; where it is there, the run goes on from it.
"""

from __future__ import annotations

import os
import signal
import sys
import wave
from pathlib import Path

import numpy

import dynamic as ndd

sys.path.insert(0, str(Path(__file__).parent))
import photos

RATE, FRAMES, FILTERS = 8000, 32, 24
WORDS = {"up": (400, 900), "down": (900, 400), "high": (1200, 1300), "low": (300, 320)}  # hertz, at the start and end


def make(folder: Path) -> Path:
    """Write the sound files, in a folder for each word."""
    for word, (start, end) in WORDS.items():
        (folder / word).mkdir(parents=True, exist_ok=True)
        for number in range(20):
            chance = numpy.random.default_rng([number, start])
            count = int(chance.integers(3000, 5000))
            pitch = numpy.linspace(start, end, count) * chance.uniform(0.8, 1.25)
            phase = 2 * numpy.pi * numpy.cumsum(pitch) / RATE
            sound = (numpy.sin(phase) + 0.5 * numpy.sin(2.5 * phase)) * numpy.hanning(count)
            sound = numpy.pad(sound, chance.integers(200, 2000, 2)) + chance.normal(0, 1e-4, 1)
            with wave.open(str(folder / word / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", ""))
                file.writeframes((sound * 8000).astype("<i2").tobytes())
    return folder


def features(files: ndd.Batch, rng: ndd.random.RNG) -> numpy.ndarray:
    """Mel spectrograms of the words, spoken a little faster or slower: (N, FILTERS * FRAMES)."""
    sounds, _ = ndd.decoders.audio(files, downmix=True)
    begin, length = ndd.nonsilent_region(sounds, window_length=256, cutoff_db=-40)
    words = ndd.slice(sounds, begin, length, axes=0)
    words = ndd.audio_resample(words, scale=ndd.random.uniform(range=(0.85, 1.15), batch_size=len(files), rng=rng))
    spectra = ndd.spectrogram(ndd.preemphasis_filter(words), nfft=256, window_length=256, window_step=128)
    mel = ndd.to_decibels(ndd.mel_filter_bank(spectra, nfilter=FILTERS, sample_rate=RATE), cutoff_db=-60)
    mel = ndd.resize(ndd.reshape(mel, layout="HW"), size=(FILTERS, FRAMES))
    return 1 + mel.dense().reshape(len(files), -1) / 60


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    reader = ndd.readers.File(file_root=make(options.output / "words"), random_shuffle=True, seed=3)
    rng, weights, step = ndd.random.RNG(seed=5), numpy.zeros((FILTERS * FRAMES + 1, len(WORDS))), 0
    saved, part = options.output / "keywords.npz", options.output / "part.npz"
    if saved.exists():
        with numpy.load(saved) as file:
            weights, step = file["weights"], int(file["step"])
            reader.set_state(str(file["reader"]))
            rng.set_state(str(file["rng"]))
    print(f"{step} steps have been made")
    while step < options.steps:
        for files, labels in reader.next_epoch(batch_size=16):
            inputs = numpy.pad(features(files, rng), [(0, 0), (0, 1)], constant_values=1)
            truth = numpy.eye(len(WORDS))[labels.dense().reshape(-1)]
            scores = numpy.exp(inputs @ weights - (inputs @ weights).max(axis=1, keepdims=True))
            error = scores / scores.sum(axis=1, keepdims=True) - truth
            weights, step = weights - 0.01 * inputs.T @ error / len(files), step + 1
            if step % 10 == 0:
                print(f"step {step}: {(scores.argmax(axis=1) == truth.argmax(axis=1)).mean():.0%} right")
            if step % options.every == 0 or step == options.steps:
                states = {"reader": str(reader.get_state()), "rng": str(rng.get_state())}
                numpy.savez(part, weights=weights, step=step, **states)
                part.replace(saved)  # a kill leaves the old file or the new one, never half of one
            if step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)  # as a scheduler does that needs the machine
            if step == options.steps:
                break
    print(f"weights: {photos.digest({'weights': weights})}")


if __name__ == "__main__":
    main()
