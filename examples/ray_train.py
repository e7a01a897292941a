"""Train on two workers of Ray Train, be killed, and go on: the weights are those of a run that was not stopped.

    python examples/ray_train.py [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

A cluster makes the batches (`dynamic.ray.Loader`), each worker has a shard. Ray Train keeps the checkpoints of the
first worker, whose loader's state is good for all. With --kill-at the first worker ends itself by SIGKILL after that
step, and the run fails; started again, Ray Train hands its last checkpoint to both workers.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

import dynamic as ndd
from dynamic.ray import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE, CLASSES = 32, 6


def augmented(jpegs, labels):
    """Random windows of photos, normalised; and their classes. It runs on the cluster."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to the photos, whatever their batch
    images = ndd.random_resized_crop(ndd.decoders.image(jpegs), size=(SIDE, SIDE), rng=draws["crop"])
    return ndd.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3), labels


def train(config):
    """The work of a worker, from the start or from the last checkpoint."""
    torch.manual_seed(1234)
    shard = {"shard": "torch", "last_batch": "pad"}  # equally many steps on both
    photos_of = {"file_root": config["folder"], "random_shuffle": True, "seed": 7, "scalar_labels": True}
    reader = ndd.readers.File(**photos_of, **shard)
    loader = Loader(reader, augmented, batch_size=4, num_cpus=0.5)
    layers = [nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()]
    network = nn.Sequential(*layers, nn.Linear(32 * 6 * 6, CLASSES))
    model = prepare_model(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    parts, step, first = (
        {"model": network, "optimizer": optimizer, "loader": loader},
        0,
        not ray.train.get_context().get_world_rank(),
    )
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"), weights_only=True)
        step = saved.pop("step")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    print(f"{step} steps have been made")
    while step < config["steps"]:
        for batch in loader:  # the next epoch, or the rest of one that was stopped
            loss = nn.functional.cross_entropy(model(batch["data"].torch()), batch["label"].torch())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % config["every"] == 0 or step == config["steps"]:
                with tempfile.TemporaryDirectory() as folder:
                    torch.save(
                        {"step": step} | {k: part.state_dict() for k, part in parts.items()}, f"{folder}/state.pt"
                    )
                    saved = ray.train.Checkpoint.from_directory(folder) if first else None
                    told = {"step": step, "loss": loss.item(), "weights": photos.digest(network.state_dict())}
                    ray.train.report(told, checkpoint=saved)
            if step == config["kill_at"] and first:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == config["steps"]:
                break


def main() -> None:
    """Train by two workers, which go on where an earlier run in the same folder has got to."""
    options = photos.parser(__doc__).parse_args()
    folder = photos.make(options.output / "photos").absolute()
    ray.init("local", num_cpus=4, runtime_env={"env_vars": {"PYTHONPATH": ":".join(sys.path)}})
    config = {"folder": str(folder), "steps": options.steps, "every": options.every, "kill_at": options.kill_at}
    run = ray.train.RunConfig(name="ray_train", storage_path=str(options.output.absolute()))
    workers = ray.train.ScalingConfig(num_workers=2)
    result = TorchTrainer(train, train_loop_config=config, run_config=run, scaling_config=workers).fit()
    print(f"step {result.metrics['step']}: loss {result.metrics['loss']:.3f}")
    print("weights:", result.metrics["weights"])


if __name__ == "__main__":
    main()
