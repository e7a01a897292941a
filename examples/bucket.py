"""Train on photos in a bucket, be killed, and go on: the weights are those of a run without a stop.

    python examples/bucket.py s3://BUCKET/FOLDER [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

The photos are in class folders (class/photo.jpg). Keys, region and AWS_ENDPOINT_URL come from the environment. Start it
on a bucket with --kill-at 25, and go on without, or on a folder that has the same photos: order, crops and weights are
the same, for names and sizes make a data set, and not its place.
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

SIDE = 48


def augmented(jpegs, labels):
    """Photos as the network takes them, and their classes. It runs in the workers."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to photo and epoch, so no state has to be saved for them
    images = ndd.random_resized_crop(ndd.decoders.image(jpegs), size=SIDE, random_area=(0.3, 1.0), rng=draws["crop"])
    mirror = ndd.random.coin_flip(rng=draws["mirror"])
    return ndd.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3), labels


def main() -> None:
    """Train, from the start or from a checkpoint."""
    parser = photos.parser(__doc__)
    parser.add_argument("photos", help="address of a bucket, or a folder, with photos in class folders")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path, part = options.output / "bucket.pt", options.output / "bucket.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    # Photos of the bucket are kept on this machine: later epochs and runs read them here. Of a folder nothing is kept.
    order = {"random_shuffle": True, "seed": 7, "scalar_labels": True}
    reader = ndd.readers.File(file_root=options.photos, cache_dir=options.output / "cache", **order)
    layers = [nn.Conv2d(3, 16, 5, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(32 * 7 * 7, len(reader.classes)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = Loader(reader, augmented, batch_size=8, num_workers=2)
    parts, step = {"model": model, "optimizer": optimizer, "loader": loader}, 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            scores = model(batch["data"])
            loss = nn.functional.cross_entropy(scores, batch["label"])
            right = (scores.argmax(1) == batch["label"]).float().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: {right:.0%} right; loss {loss.item():.3f}", flush=True)
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
