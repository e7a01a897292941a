"""Train a small network with JAX on the CPU, be killed, and go on: the weights are those of a run that was not stopped.

    python examples/train_jax.py [FOLDER] [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

FOLDER holds photos in class folders (class/photo.jpg); without it, a small set is made as in resume.py. Every few steps
Orbax saves weights and momentum together with the place of the loader, and keeps the last two. If there are some, the
run goes on from the last. With --kill-at the process ends itself by SIGKILL after that step.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import jax
import orbax.checkpoint as orbax
from jax import numpy as jnp

import dynamic as ndd
from dynamic.jax import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

SIDE = 24


def augmented(jpegs, labels):
    """Photos, turned, cut to a square, mirrored and normalised; and their classes. It runs in the loader's thread."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to the photos, whatever their batch
    angles = ndd.random.uniform(range=(-15.0, 15.0), rng=draws["angle"])
    mirror = ndd.random.coin_flip(probability=0.5, rng=draws["mirror"])
    images = ndd.rotate(ndd.decoders.image(jpegs), angle=angles, keep_size=True)
    images = ndd.resize(images, size=(SIDE, SIDE))
    how = {"mean": [128.0] * 3, "std": [64.0] * 3, "output_layout": "HWC"}
    return ndd.crop_mirror_normalize(images, mirror=mirror, **how), ndd.cast(labels, dtype="int32")


def loss_of(model, images, labels):
    """The cross entropy of a batch, by a convolution and a layer that decides."""
    how = {"window_strides": (2, 2), "padding": "VALID", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    seen = jax.nn.relu(jax.lax.conv_general_dilated(images, model["filters"], **how))
    scores = seen.reshape(len(images), -1) @ model["weights"] + model["biases"]
    return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels])


@jax.jit
def step(training, images, labels):
    """One step of gradient descent with momentum."""
    loss, gradients = jax.value_and_grad(loss_of)(training["model"], images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, training["momentum"], gradients)
    model = jax.tree.map(lambda w, m: w - 0.01 * m, training["model"], momentum)
    return {"model": model, "momentum": momentum}, loss


def main() -> None:
    """Train, from the start or from the last checkpoint, and print a hash of the weights."""
    parser = photos.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="photos in class folders")
    options = parser.parse_args()
    folder = options.folder or photos.make(options.output / "photos")
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=7, scalar_labels=True, last_batch="drop")
    loader = Loader(reader, augmented, batch_size=8)
    first, second = jax.random.split(jax.random.key(1234))
    weights = 0.02 * jax.random.normal(second, (10 * 10 * 16, len(reader.classes)))
    filters = 0.1 * jax.random.normal(first, (5, 5, 3, 16))
    model = {"filters": filters, "weights": weights, "biases": jnp.zeros(len(reader.classes))}
    training = {"model": model, "momentum": jax.tree.map(jnp.zeros_like, model)}
    keeping = orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    with orbax.CheckpointManager(options.output.absolute() / "checkpoints", options=keeping) as manager:
        made = manager.latest_step() or 0
        if made:
            wanted = orbax.args.Composite(training=orbax.args.StandardRestore(training), data=orbax.args.JsonRestore())
            saved = manager.restore(made, args=wanted)
            training = saved["training"]
            loader.load_state_dict(saved["data"])
        print(f"{made} steps have been made")
        while made < options.steps:
            for batch in loader:  # the next epoch, or the rest of one that was stopped
                training, loss = step(training, batch["data"], batch["label"])
                made += 1
                print(f"step {made}: loss {loss:.3f}", flush=True)
                if made % options.every == 0 or made == options.steps:
                    saving = {"training": orbax.args.StandardSave(training)}
                    saving["data"] = orbax.args.JsonSave(loader.state_dict())
                    manager.save(made, args=orbax.args.Composite(**saving))
                if made == options.kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if made == options.steps:
                    break
    arrays = jax.tree_util.tree_leaves_with_path(training)
    print("weights:", photos.digest({jax.tree_util.keystr(path): value for path, value in arrays}))


if __name__ == "__main__":
    main()
