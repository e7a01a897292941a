"""Train a small classifier with mixup on the CPU, be killed, and go on: the weights are those of a run without a stop.

    python examples/mixup.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

The partner of a photo is drawn from the whole data set, and cropped as it is when it comes by itself. Partners and
shares are keyed to photos. With --kill-at the process ends itself by SIGKILL after that step.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn

import dynamic as ndd
from dynamic.pytorch import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE, CLASSES = 48, 6


def cropped(jpegs, rng):
    """Random windows of photos, normalised."""
    draws = rng.keyed(jpegs)
    images = ndd.decoders.image_random_crop(jpegs, random_area=(0.3, 1.0), rng=draws["crop"])
    mirror = ndd.random.coin_flip(rng=draws["mirror"])
    images = ndd.resize(images, size=(SIDE, SIDE))
    return ndd.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3)


def mixed(reader, jpegs, labels):
    """Images mixed with those of partners, and labels that tell both classes. It runs in the workers."""
    rng = ndd.random.RNG(seed=7)
    draws = rng.keyed(jpegs)
    others, theirs = reader.partners(draws["partners"])
    how = {"partners": (cropped(others, rng), theirs), "alpha": 0.4, "num_classes": CLASSES, "rng": draws["mixup"]}
    return ndd.mixup(cropped(jpegs, rng), labels, **how)


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.make(options.output / "photos")
    path, part = options.output / "mixup.pt", options.output / "mixup.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    layers = [nn.Conv2d(3, 16, 5, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(32 * 7 * 7, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=7)
    loader = Loader(reader, partial(mixed, reader), batch_size=8, num_workers=2)
    parts, step = {"model": model, "optimizer": optimizer, "loader": loader}, 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            loss = nn.functional.cross_entropy(model(batch["data"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step % options.every == 0 or step == options.steps:
                torch.save({"step": step} | {name: each.state_dict() for name, each in parts.items()}, part)
                part.replace(path)  # a kill leaves the old file or the new one, never half of one
            if step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)  # as a scheduler does that needs the machine
            if step == options.steps:
                break
    print(f"weights: {photos.digest(model.state_dict())}")


if __name__ == "__main__":
    main()
