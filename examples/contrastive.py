"""Learn from photos without labels, be killed, and go on: the weights are those of a run without a stop.

    python examples/contrastive.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

As in SimCLR: two random views of each photo, and a network that shall find the other view of each among those of all
photos of the batch. Try it with --kill-at 25, then without: the last line is that of a run into another folder.
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

SIDE, TEMPERATURE = 48, 0.2


def view(images, draws):
    """A random part of each photo, in other colours, some mirrored and some gray."""
    crops = ndd.random_resized_crop(images, size=SIDE, random_area=(0.3, 1.0), rng=draws["crop"])
    light = ndd.random.uniform(range=(0.6, 1.4), rng=draws["light"])
    hue = ndd.random.uniform(range=(-20.0, 20.0), rng=draws["hue"])
    crops = ndd.color_twist(crops, brightness=light, hue=hue)
    crops = ndd.sometimes(0.2, ndd.saturation, crops, saturation=0.0, rng=draws["gray"])
    mirror = ndd.random.coin_flip(rng=draws["mirror"])
    return ndd.crop_mirror_normalize(crops, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3)


def two_views(jpegs, _):
    """Two views of each photo, as the network takes them. It runs in the workers."""
    images = ndd.decoders.image(jpegs)
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to photo and epoch, so no state has to be saved for them
    return {"first": view(images, draws["first"]), "second": view(images, draws["second"])}  # each name: draws anew


def loss_of(first, second):
    """How badly each view finds the other view of its photo, and the share that does."""
    features = nn.functional.normalize(torch.cat([first, second]))
    likeness = features @ features.T / TEMPERATURE
    likeness = likeness - 1e9 * torch.eye(len(features))  # none shall find itself
    partners = torch.arange(len(features)).roll(len(first))
    return nn.functional.cross_entropy(likeness, partners), (likeness.argmax(1) == partners).float().mean()


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.make(options.output / "photos")
    path, part = options.output / "contrastive.pt", options.output / "contrastive.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    layers = [nn.Conv2d(3, 32, 5, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(64 * 7 * 7, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    # Turned copies of a photo would be views of it, too: those without a turn alone.
    filters = ["*[!368].jpg"]
    reader = ndd.readers.File(file_root=folder, file_filters=filters, random_shuffle=True, seed=7)
    loader = Loader(reader, two_views, batch_size=8, num_workers=2)
    parts, step = {"model": model, "optimizer": optimizer, "loader": loader}, 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            loss, found = loss_of(model(batch["first"]), model(batch["second"]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: {found:.0%} of the views have found the other; loss {loss.item():.3f}", flush=True)
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
