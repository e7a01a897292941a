"""Train a small network with JAX on the CPU, be killed, and go on: the weights are those of a run that was not stopped.

    python examples/train_jax.py [FOLDER] [--output FOLDER] [--steps 60] [--every 7] [--kill-at STEP]

FOLDER holds photos in class folders (class/photo.jpg); without it, a small set is made as in resume.py. Every few steps
Orbax saves weights, momentum and losses together with the place of the loader, and keeps the last two. If there are
some, the run goes on from the last. With --kill-at the process ends itself by SIGKILL after that step. Try

    python examples/train_jax.py --output whole
    python examples/train_jax.py --output killed --kill-at 25; python examples/train_jax.py --output killed

and compare the last line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import numpy
import orbax.checkpoint as orbax
from jax import numpy as jnp

import dynamic as ndd
from dynamic.jax import Loader

sys.path.insert(0, str(Path(__file__).parent))
import photos

BATCH_SIZE = 8
SIDE = 24


def augmented(jpegs: ndd.Batch, labels: ndd.Batch) -> tuple[ndd.Batch, ndd.Batch]:
    """Photos, turned, cut to a square, mirrored and normalised; and their classes. It runs in the loader's thread."""
    draws = ndd.random.RNG(seed=7).keyed(jpegs)  # they belong to the photos, whatever their batch
    angles = ndd.random.uniform(range=(-15.0, 15.0), rng=draws["angle"])
    mirror = ndd.random.coin_flip(probability=0.5, rng=draws["mirror"])
    images = ndd.rotate(ndd.decoders.image(jpegs), angle=angles, keep_size=True)
    images = ndd.resize(images, size=(SIDE, SIDE))
    how = {"mean": [128.0] * 3, "std": [64.0] * 3, "output_layout": "HWC"}
    return ndd.crop_mirror_normalize(images, mirror=mirror, **how), ndd.cast(labels, dtype="int32")


def begun(classes: int) -> dict[str, Any]:
    """Weights at the start: a convolution, and a layer that decides."""
    first, second = jax.random.split(jax.random.key(1234))
    return {
        "filters": 0.1 * jax.random.normal(first, (5, 5, 3, 16)),
        "weights": 0.02 * jax.random.normal(second, (10 * 10 * 16, classes)),
        "biases": jnp.zeros(classes),
    }


def loss_of(model: dict[str, Any], images: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross entropy of a batch."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    seen = jax.nn.relu(
        jax.lax.conv_general_dilated(images, model["filters"], (2, 2), "VALID", dimension_numbers=dimensions)
    )
    scores = seen.reshape(len(images), -1) @ model["weights"] + model["biases"]
    return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels])


@jax.jit
def step(training: dict[str, Any], images: jax.Array, labels: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    """One step of gradient descent with momentum."""
    loss, gradients = jax.value_and_grad(loss_of)(training["model"], images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, training["momentum"], gradients)
    model = jax.tree.map(lambda w, m: w - 0.01 * m, training["model"], momentum)
    return {"model": model, "momentum": momentum}, loss


def train(folder: Path, output: Path, steps: int, every: int, kill_at: int | None) -> str:
    """Train, from the start or from the last checkpoint; a hash of the weights."""
    model = begun(sum(path.is_dir() for path in folder.iterdir()))
    training = {"model": model, "momentum": jax.tree.map(jnp.zeros_like, model)}
    losses: list[float] = []
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=7, scalar_labels=True, last_batch="drop")
    loader = Loader(reader, augmented, batch_size=BATCH_SIZE)
    options = orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    with orbax.CheckpointManager(output.absolute() / "checkpoints", options=options) as manager:
        if manager.latest_step() is not None:
            wanted = orbax.args.Composite(training=orbax.args.StandardRestore(training), data=orbax.args.JsonRestore())
            saved = manager.restore(manager.latest_step(), args=wanted)
            training, losses = saved["training"], saved["data"]["losses"]
            loader.load_state_dict(saved["data"]["loader"])
        print(f"{len(losses)} steps have been made")
        while len(losses) < steps:
            for batch in loader:
                training, loss = step(training, batch["data"], batch["label"])
                losses.append(float(loss))
                made = len(losses)
                if made % 10 == 0 or made == steps:
                    print(f"step {made}/{steps}: loss {losses[-1]:.3f}", flush=True)
                if made % every == 0 or made == steps:
                    data = {"loader": loader.state_dict(), "losses": losses}
                    args = orbax.args.Composite(
                        training=orbax.args.StandardSave(training), data=orbax.args.JsonSave(data)
                    )
                    manager.save(made, args=args)
                if made == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if made == steps:
                    break
    arrays = jax.tree_util.tree_leaves_with_path({"training": training, "losses": numpy.array(losses)})
    return photos.digest({jax.tree_util.keystr(path): value for path, value in arrays})


def main() -> None:
    """Train, and print a hash of the weights."""
    parser = photos.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="photos in class folders")
    options = parser.parse_args()
    folder = options.folder or photos.make(options.output / "photos")
    print("weights:", train(folder, options.output, options.steps, options.every, options.kill_at))


if __name__ == "__main__":
    main()
