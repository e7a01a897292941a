"""Train on a data set of Hugging Face, be killed, and go on: the weights are those of a run without a stop.

    python examples/hugging_face.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

Photos lie with labels and ids in a Parquet file, as data sets on the Hub do. It is read by `datasets`, whose rows the
reader asks for: Parquet and Arrow stay its business, decoding, order and place are the library's.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import datasets
import torch
from torch import nn

import dynamic as ndd
from dynamic.pytorch import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE = 48


def parquet(folder: Path) -> Path:
    """Photos of class folders as a Parquet file, with the columns image, label and id."""
    path = folder / "photos.parquet"
    if not path.exists():
        files = sorted(photos.make(folder / "photos").glob("*/*.jpg"))
        columns = {"image": [{"bytes": file.read_bytes(), "path": None} for file in files]}
        columns |= {"label": [file.parent.name for file in files], "id": [file.stem for file in files]}
        made = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
        made.class_encode_column("label").to_parquet(path)
    return path


def augmented(jpegs, labels):
    """Photos as the network takes them, and their classes. It runs in the workers."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to photo and epoch, so no state has to be saved for them
    images = ndd.random_resized_crop(ndd.decoders.image(jpegs), size=SIDE, random_area=(0.3, 1.0), rng=draws["crop"])
    mirror = ndd.random.coin_flip(rng=draws["mirror"])
    return ndd.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3), labels


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    path, part = options.output / "hugging_face.pt", options.output / "hugging_face.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    datasets.disable_progress_bars()
    files, cache = str(parquet(options.output)), str(options.output / "cache")
    table = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    table = table.cast_column("image", datasets.Image(decode=False))  # bytes: they are decoded in augmented()
    layers = [nn.Conv2d(3, 16, 5, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(32 * 7 * 7, table.features["label"].num_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    # By the key a run goes on where rows were added or sorted, on_mismatch="adapt".
    rows = {"dataset": table, "outputs": ["image.bytes", "label"], "key": "id", "scalar_labels": True}
    reader = ndd.readers.Map(**rows, random_shuffle=True, seed=7)
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
