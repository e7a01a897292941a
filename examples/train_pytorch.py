"""Train a small network on the CPU, be killed, and go on: the weights are those of a run that was not stopped.

    python examples/train_pytorch.py [FOLDER] [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

FOLDER holds photos in class folders (class/photo.jpg); without it, a small set is made as in resume.py. Every few steps
model, optimizer, loader, dropout and the losses so far go into one file, training.pt. If that is there, the run goes on
from it. With --kill-at the process ends itself by SIGKILL after that step. Try

    python examples/train_pytorch.py --output whole
    python examples/train_pytorch.py --output killed --kill-at 25; python examples/train_pytorch.py --output killed

and compare the last line and loss.png.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

import dynamic as ndd
from dynamic.pytorch import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE = 32


def augmented(jpegs, labels):
    """Photos, turned, cut to a square, mirrored and normalised; and their classes. It runs in the workers."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to the photos, whatever their batch
    angles = ndd.random.uniform(range=(-15.0, 15.0), rng=draws["angle"])
    mirror = ndd.random.coin_flip(probability=0.5, rng=draws["mirror"])
    images = ndd.rotate(ndd.decoders.image(jpegs), angle=angles, keep_size=True)
    images = ndd.resize(images, size=(SIDE, SIDE))
    return ndd.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3), labels


def main() -> None:
    """Train, from the start or from a checkpoint."""
    parser = photos.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="photos in class folders")
    options = parser.parse_args()
    folder = options.folder or photos.make(options.output / "photos")
    options.output.mkdir(parents=True, exist_ok=True)
    path, part = options.output / "training.pt", options.output / "training.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=7, scalar_labels=True)
    loader = Loader(reader, augmented, batch_size=8, num_workers=2)
    layers = [nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2)]
    model = nn.Sequential(*layers, nn.Linear(32 * 6 * 6, len(reader.classes)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    parts, losses = {"model": model, "optimizer": optimizer, "loader": loader}, []
    if path.exists():
        saved = torch.load(path, weights_only=True)
        losses = saved.pop("losses")
        torch.set_rng_state(saved.pop("dropout"))
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos in {folder}; {len(losses)} steps have been made")
    while (step := len(losses)) < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            loss = nn.functional.cross_entropy(model(batch["data"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            print(f"step {step}: loss {losses[-1]:.3f}", flush=True)
            if step % options.every == 0 or step == options.steps:
                beside = {"losses": losses, "dropout": torch.get_rng_state()}
                torch.save(beside | {name: each.state_dict() for name, each in parts.items()}, part)
                part.replace(path)  # a kill leaves the old file or the new one, never half of one
            if step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == options.steps:
                break
    photos.plot(options.output / "loss.png", losses)
    print(f"picture: {options.output / 'loss.png'}")
    print(f"weights: {photos.digest(model.state_dict())}")


if __name__ == "__main__":
    main()
