"""Train a small network on the CPU, be killed, and go on: the weights are those of a run that was not stopped.

    python examples/train_pytorch.py [FOLDER] [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

FOLDER holds photos in class folders (class/photo.jpg); without it, a small set is made as in resume.py. Every few steps
model, optimizer, loader and the losses so far go into one file, training.pt. If that is there, the run goes on from
it. With --kill-at the process ends itself by SIGKILL after that step, as a machine that fails would. Try

    python examples/train_pytorch.py --output whole
    python examples/train_pytorch.py --output killed --kill-at 25; python examples/train_pytorch.py --output killed

and compare the last line and loss.png.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image, ImageDraw

import dynamic as ndd
from dynamic.pytorch import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

BATCH_SIZE = 8
WORKERS = 2
SIDE = 32


def augmented(jpegs: ndd.Batch, labels: ndd.Batch) -> tuple[ndd.Batch, ndd.Batch]:
    """Photos, turned, cut to a square, mirrored and normalised; and their classes. It runs in the workers."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to the photos, whatever their batch
    angles = ndd.random.uniform(range=(-15.0, 15.0), rng=draws["angle"])
    mirror = ndd.random.coin_flip(probability=0.5, rng=draws["mirror"])
    images = ndd.rotate(ndd.decoders.image(jpegs), angle=angles, keep_size=True)
    images = ndd.resize(images, size=(SIDE, SIDE))
    return ndd.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3), labels


class Network(torch.nn.Sequential):
    """Two convolutions and a layer that decides."""

    def __init__(self, classes: int) -> None:
        super().__init__(
            torch.nn.Conv2d(3, 16, 5, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Dropout(0.2),
            torch.nn.LazyLinear(classes),
        )
        self(torch.zeros(1, 3, SIDE, SIDE))


class Training:
    """All that a run has, and what of it a checkpoint keeps."""

    def __init__(self, folder: Path, checkpoint: Path) -> None:
        torch.manual_seed(1234)
        torch.use_deterministic_algorithms(mode=True)
        self.path = checkpoint
        self.model = Network(sum(path.is_dir() for path in folder.iterdir()))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.losses: list[float] = []
        saved = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else None
        if saved is not None:
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.losses = saved["losses"]
        reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=7, scalar_labels=True)
        self.photos = len(reader)
        self.loader = Loader(reader, augmented, batch_size=BATCH_SIZE, num_workers=WORKERS)
        if saved is not None:
            self.loader.load_state_dict(saved["loader"])
            torch.set_rng_state(saved["dropout"])

    def save(self) -> None:
        """Write the file anew, whole or not at all."""
        part = self.path.with_suffix(".part")
        with part.open("wb") as file:
            torch.save(
                {
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "loader": self.loader.state_dict(),
                    "dropout": torch.get_rng_state(),
                    "losses": self.losses,
                },
                file,
            )
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)

    def run(self, steps: int, every: int, kill_at: int | None) -> None:
        """Train until so many steps have been made, in this process and in those before it."""
        while len(self.losses) < steps:
            for batch in self.loader:
                loss = torch.nn.functional.cross_entropy(self.model(batch["data"]), batch["label"].long())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
                step = len(self.losses)
                progress(step, steps, self.losses[-1])
                if step % every == 0 or step == steps:
                    self.save()
                if step == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == steps:
                    return


def progress(step: int, steps: int, loss: float) -> None:
    """Show how far the run is: a line that is written over in a terminal, a line now and then elsewhere."""
    done = 30 * step // steps
    line = f"step {step:4} of {steps} [{'#' * done}{'.' * (30 - done)}] loss {loss:.3f}"
    if sys.stdout.isatty():
        print(line, end="\n" if step == steps else "\r", flush=True)
    elif step % 10 == 0 or step == steps:
        print(line, flush=True)


def plot(path: Path, losses: Sequence[float], width: int = 640, height: int = 320) -> None:
    """Draw a curve of the losses: each of them, and their running mean."""
    left, top, right, bottom = 44, 14, width - 12, height - 30
    most = max(losses) * 1.05
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)

    def point(step: float, loss: float) -> tuple[float, float]:
        return left + (right - left) * step / max(len(losses) - 1, 1), bottom - (bottom - top) * loss / most

    for k in range(5):
        value = most * k / 4
        draw.line([point(0, value), point(len(losses) - 1, value)], fill="#dddddd")
        draw.text((6, point(0, value)[1] - 6), f"{value:.2f}", fill="black")
    for k in range(0, len(losses), max(len(losses) // 6, 1)):
        draw.text((point(k, 0)[0] - 4, bottom + 6), str(k + 1), fill="black")
    draw.text((right - 30, bottom + 18), "step", fill="black")
    draw.text((left, 0), "loss", fill="black")
    means = [sum(part) / len(part) for part in (losses[max(k - 4, 0) : k + 1] for k in range(len(losses)))]
    draw.line([point(k, loss) for k, loss in enumerate(losses)], fill="#9dbcd8")
    draw.line([point(k, loss) for k, loss in enumerate(means)], fill="#1f5f99", width=3)
    picture.save(path)


def main() -> None:
    """Train, from the start or from a checkpoint."""
    parser = photos.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="photos in class folders")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    folder = options.folder or photos.make(options.output / "photos")
    training = Training(folder, options.output / "training.pt")
    print(f"{training.photos} photos in {folder}; {len(training.losses)} steps have been made")
    training.run(options.steps, options.every, options.kill_at)
    plot(options.output / "loss.png", training.losses)
    print(f"picture: {options.output / 'loss.png'}")
    print(f"weights: {photos.digest(training.model.state_dict())}")


if __name__ == "__main__":
    main()
