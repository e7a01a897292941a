"""Train a small detector of coins on the CPU, be killed, and go on: the weights are those of a run without a stop.

    python examples/detection.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

Photos are turned, cropped and flipped together with their boxes, by draws that are keyed to photos. With --kill-at the
process ends itself by SIGKILL after that step.
"""

from __future__ import annotations

import argparse
import hashlib
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where to write")
    parser.add_argument("--steps", type=int, default=60, help="how many steps to make in all")
    parser.add_argument("--every", type=int, default=7, help="steps between checkpoints")
    parser.add_argument("--kill-at", type=int, help="end the process after this step")
    arguments = parser.parse_args()
    folder, path = photos.coins(arguments.output / "coins"), arguments.output / "detection.pt"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    layers = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 5, 3, 1, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    options = {"annotations_file": folder / "coins.json", "ltrb": True, "random_shuffle": True}
    reader = ndd.readers.COCO(file_root=folder / "images", **options)
    parts, step, rng = {"model": model, "optimizer": optimizer, "reader": reader}, 0, ndd.random.RNG(seed=7)
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    print(f"{len(reader)} photos; {step} steps have been made")
    while step < arguments.steps:
        for jpegs, boxes, _ in reader.next_epoch(batch_size=8):
            images, boxes = augmented(jpegs, boxes, rng)
            loss = loss_of(model(images), boxes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} loss {loss.item():.3f}", flush=True)
            if step % arguments.every == 0 or step == arguments.steps:
                torch.save({"step": step} | {name: part.state_dict() for name, part in parts.items()}, f"{path}.part")
                Path(f"{path}.part").replace(path)
            if step == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == arguments.steps:
                break
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    print(f"weights: {hashlib.sha256(weights).hexdigest()}")


if __name__ == "__main__":
    main()
