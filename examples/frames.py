"""Train a robot's policy on windows of episodes, be killed, and go on: the weights are those of a run without a stop.

    python examples/frames.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

An episode has two cameras, states and actions, as in a data set of LeRobot. A sample is a moment of an episode: frames
and states up to it, by which the network learns the actions from it on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy
import torch
from torch import nn

import dynamic as ndd
from dynamic.pytorch import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

CAMERAS, SEEN, PLANNED = ("top", "hand"), numpy.array([-2, 0]), 4  # frames up to a moment, actions from it on
FRAMES = {f"{camera}{time:+}": (camera, time) for camera in CAMERAS for time in SEEN}  # by "top-2", "top+0" ...


class Moments:
    """All moments that have a whole window. `readers.Map` needs a length and rows; it shuffles and shards them."""

    def __init__(self, folder: Path) -> None:
        self.moments = []
        for path in sorted(folder.glob("*/numbers.npz")):
            states, actions = (numpy.load(path)[name] for name in ("state", "action"))
            self.moments += [(path.parent, states, actions, i) for i in range(-SEEN[0], len(actions) - PLANNED + 1)]

    def __len__(self) -> int:
        return len(self.moments)

    def __getitem__(self, i: int) -> dict:
        episode, states, actions, now = self.moments[i]
        row = {name: (episode / cam / f"{now + time:03}.jpg").read_bytes() for name, (cam, time) in FRAMES.items()}
        return row | {"key": f"{episode.name}/{now}", "state": states[now + SEEN], "action": actions[now:][:PLANNED]}


def prepared(state, action, *frames):
    """Frames of all cameras as one video, and the numbers as they are. It runs in the workers."""
    draws, views = ndd.random.RNG(seed=7).keyed(state), []  # they belong to moment and epoch: no state is saved
    for (camera, _), jpegs in zip(FRAMES.values(), frames, strict=True):
        light = ndd.random.uniform(range=(0.8, 1.2), rng=draws[camera])  # the same for all frames of a camera
        views.append(ndd.brightness_contrast(ndd.resize(ndd.decoders.image(jpegs), size=(32, 32)), brightness=light))
    video = ndd.crop_mirror_normalize(ndd.stack(*views, axis_name="F"), mean=[128.0] * 3, std=[64.0] * 3)
    return {"video": video, "state": state, "action": action}


def main() -> None:
    """Train, from the start or from a checkpoint."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.episodes(options.output / "episodes")
    path, part = options.output / "frames.pt", options.output / "frames.part"
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=True)
    eyes = nn.Sequential(nn.Flatten(1, 2), nn.Conv2d(3 * len(FRAMES), 16, 5, 3), nn.ReLU(), nn.Flatten())
    hand = nn.Sequential(nn.Linear(16 * 10 * 10 + 4, 64), nn.ReLU(), nn.Linear(64, 2 * PLANNED))
    model = nn.ModuleDict({"eyes": eyes, "hand": hand})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    outputs = ["state", "action", *FRAMES]
    reader = ndd.readers.Map(dataset=Moments(folder), outputs=outputs, key="key", random_shuffle=True, seed=7)
    loader = Loader(reader, prepared, batch_size=16, num_workers=2)
    parts, step = {"model": model, "optimizer": optimizer, "loader": loader}, 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{len(reader)} moments; {step} steps have been made")
    while step < options.steps:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            actions = model["hand"](torch.cat([model["eyes"](batch["video"]), batch["state"].flatten(1)], 1))
            loss = nn.functional.mse_loss(actions, batch["action"].flatten(1))
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
