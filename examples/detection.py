"""Train a small detector of coins on the CPU, be killed, and go on: the weights are those of a run without a stop.

    python examples/detection.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

Photos are turned, cropped and flipped together with their boxes, by draws that are keyed to photos. With --kill-at the
process ends itself by SIGKILL after that step.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

import dynamic as ndd

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE, CELL = 96, 8


def augmented(jpegs, boxes, rng):
    """Photos as a network takes them, and their boxes in pixels."""
    draws = rng.keyed(jpegs)
    images, turn = ndd.decoders.image(jpegs), ndd.random.uniform(range=(-10.0, 10.0), rng=draws["turn"])
    found = ndd.together(ndd.rotate, image=images, boxes=boxes, angle=turn, keep_size=True, fill_value=0)
    images, boxes, options = found["image"], found["boxes"], {"min_visible": 0.3, "rng": draws["crop"]}
    found = ndd.together(ndd.random_resized_crop, image=images, boxes=boxes, size=SIDE, **options)
    images, boxes = found["image"], found["boxes"]
    found = ndd.sometimes(0.5, ndd.together, ndd.flip, image=images, boxes=boxes, rng=draws["flip"])
    return ndd.crop_mirror_normalize(found["image"], mean=[100.0] * 3, std=[50.0] * 3).torch(), found["boxes"]


def loss_of(predicted, boxes):
    """Whether the centre of a coin lies in each cell, and of those that have one how far its edges are."""
    seen, edges = torch.zeros_like(predicted[:, 0]), torch.zeros_like(predicted[:, 1:])
    for i, own in enumerate(boxes):
        own = own.torch(copy=True)
        centres = (own[:, :2] + own[:, 2:]) / 2
        x, y = (centres // CELL).long().clamp(max=SIDE // CELL - 1).unbind(1)
        seen[i, y, x] = 1
        edges[i, :, y, x] = ((own - centres.repeat(1, 2)) / CELL).T
    off = nn.functional.smooth_l1_loss(predicted[:, 1:], edges, reduction="none").sum(1)
    found = nn.functional.binary_cross_entropy_with_logits(predicted[:, 0], seen)
    return found + (off * seen).sum() / seen.sum().clamp(min=1)


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.coins(options.output / "coins")
    path, part = options.output / "detection.pt", options.output / "detection.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    layers = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 5, 3, 1, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    marks = {"annotations_file": folder / "coins.json", "ltrb": True}
    reader = ndd.readers.COCO(file_root=folder / "images", random_shuffle=True, **marks)
    parts, step, rng = {"model": model, "optimizer": optimizer, "reader": reader}, 0, ndd.random.RNG(seed=7)
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < options.steps:
        for jpegs, boxes, _ in reader.next_epoch(batch_size=8):
            images, boxes = augmented(jpegs, boxes, rng)
            loss = loss_of(model(images), boxes)
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
