"""Train a small segmenter of coins on the CPU, be killed, and go on: the weights are those of a run without a stop.

    python examples/segmentation.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

Two readers give photos and their masks in one order, and a loader makes batches of both ahead. Both are turned and
cropped by one draw, masks by the nearest pixel, with 255 outside of the photo, which the loss ignores. With --kill-at
the process ends itself by SIGKILL after that step.
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

SIDE, NOTHING = 64, 255


def augmented(jpegs, _, pngs, __):
    """Photos as a network takes them, and the class of each pixel. It runs in the workers."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)
    masks = ndd.decoders.image(pngs, output_type=ndd.ImageType.GRAY)
    turn = ndd.random.uniform(range=(-30.0, 30.0), rng=draws["turn"])
    outside = {"fill_value": 0.0, "mask_fill": NOTHING}
    found = ndd.together(ndd.rotate, image=ndd.decoders.image(jpegs), masks=masks, angle=turn, **outside)
    found = ndd.together(ndd.random_resized_crop, **found, size=SIDE, random_area=(0.3, 1.0), rng=draws["crop"])
    images = ndd.sometimes(0.3, ndd.gaussian_blur, found["image"], sigma=1.0, rng=draws["blur"])
    images = ndd.crop_mirror_normalize(images, mean=[100.0] * 3, std=[50.0] * 3)
    return {"image": images, "classes": found["masks"]}


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.coins(options.output / "coins")
    path, part = options.output / "segmentation.pt", options.output / "segmentation.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    layers = [nn.Conv2d(3, 16, 5, 1, 2), nn.ReLU(), nn.Conv2d(16, 16, 5, 1, 2), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(16, 2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    reader = ndd.readers.File(file_root=folder, dir_filters=["images"], random_shuffle=True, seed=7)
    masks = ndd.readers.File(file_root=folder, dir_filters=["masks"], order_of=reader)
    loader = Loader([reader, masks], augmented, batch_size=6, num_workers=2)
    parts, step = {"model": model, "optimizer": optimizer, "loader": loader}, 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            classes = batch["classes"][..., 0].long()
            loss = nn.functional.cross_entropy(model(batch["image"]), classes, ignore_index=NOTHING)
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
