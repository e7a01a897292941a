"""Train on clips of videos, be killed, and go on: the weights are those of an uninterrupted run.

    python examples/clips.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

The videos are made here: a light that leaves the middle for one of four sides, 12 for each. A sample is a clip of eight
frames. Reader and weights go into one file every few steps; where it is there, the run goes on from it. Random numbers
belong to the clips and need no state.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import av
import numpy

import dynamic as ndd

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDES = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
LENGTH, SIZE = 8, 32  # frames of a clip; rows and columns of a frame


def make(folder: Path) -> Path:
    """Write the videos, in a folder for each side."""
    rows, columns = numpy.mgrid[:SIZE, :SIZE]
    for label, (side, way) in enumerate(SIDES.items()):
        (folder / side).mkdir(parents=True, exist_ok=True)
        for number in range(12):
            chance = numpy.random.default_rng([number, label])
            start, speed = SIZE / 2 + chance.uniform(-3, 3, 2), chance.uniform(0.4, 0.7)
            with av.open(str(folder / side / f"{number}.avi"), "w") as file:
                stream = file.add_stream("mjpeg", rate=25)
                stream.height = stream.width = SIZE
                stream.pix_fmt = "yuvj420p"
                for time in range(24):
                    y, x = start + speed * time * numpy.array(way)
                    light = 220 * numpy.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 12)
                    noisy = numpy.clip(light[..., None] + chance.normal(20, 8, (SIZE, SIZE, 3)), 0, 255)
                    file.mux(stream.encode(av.VideoFrame.from_ndarray(noisy.astype("uint8"), format="rgb24")))
                file.mux(stream.encode(None))
    return folder


def features(clips: ndd.Batch, rng: ndd.random.RNG) -> numpy.ndarray:
    """Small gray frames, of another brightness for each clip: (N, LENGTH * 64)."""
    light = ndd.random.uniform(range=(0.7, 1.3), rng=rng.keyed(clips)["light"])  # it belongs to clip and epoch
    clips = ndd.brightness_contrast(ndd.resize(clips, size=(8, 8)), brightness=light)
    gray = ndd.color_space_conversion(clips, image_type="RGB", output_type="GRAY")
    return gray.dense().reshape(len(clips), -1) / 255


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = make(options.output / "videos")
    reader = ndd.readers.Video(file_root=folder, sequence_length=LENGTH, step=4, random_shuffle=True, seed=3)
    rng, weights, step = ndd.random.RNG(seed=5), numpy.zeros((LENGTH * 64 + 1, len(SIDES))), 0
    saved, part = options.output / "clips.npz", options.output / "part.npz"
    if saved.exists():
        with numpy.load(saved) as file:
            weights, step = file["weights"], int(file["step"])
            reader.set_state(str(file["reader"]))
    print(f"{step} steps have been made")
    while step < options.steps:
        for clips, labels in reader.next_epoch(batch_size=16):
            inputs = numpy.pad(features(clips, rng), [(0, 0), (0, 1)], constant_values=1)
            truth = numpy.eye(len(SIDES))[labels.dense().reshape(-1)]
            scores = numpy.exp(inputs @ weights - (inputs @ weights).max(axis=1, keepdims=True))
            error = scores / scores.sum(axis=1, keepdims=True) - truth
            weights, step = weights - 0.1 * inputs.T @ error / len(clips), step + 1
            if step % 10 == 0:
                print(f"step {step}: {(scores.argmax(axis=1) == truth.argmax(axis=1)).mean():.0%} right")
            if step % options.every == 0 or step == options.steps:
                numpy.savez(part, weights=weights, step=step, reader=str(reader.get_state()))
                part.replace(saved)  # a kill leaves the old file or the new one, never half of one
            if step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)  # as a scheduler does that needs the machine
            if step == options.steps:
                break
    print(f"weights: {photos.digest({'weights': weights})}")


if __name__ == "__main__":
    main()
