"""A run of training by one of the trainers, which notes each batch and may be killed: for `test_trainers.py`.

    python trainers_job.py TRAINER FOLDER OUTPUT [--loader Loader] [--workers 0] [--processes 1] [--kill-at STEP]

FOLDER has the files of `counting.py`. Each process writes a line for each batch to OUTPUT/RANK.jsonl: the epoch as the
trainer counts it, the numbers of the files, and how many steps the weights have made before; at the end a hash of the
weights to OUTPUT/weights. Started again, it goes on from what the trainer saved last.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import distributed

sys.path.insert(0, str(Path(__file__).parent))
from counting import NAMES, numbers, reader_of
from ray_nodes import connect

from dynamic.pytorch import Dataset, GenericIterator, Loader
from dynamic.random import RNG, uniform

EVERY = 2  # steps from one checkpoint to the next


class Job:
    """What the runs of all trainers have in common."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.output, self.epochs = arguments, arguments.output, arguments.epochs
        self.steps = 0
        self.model = torch.nn.Linear(2, 1)

    def pipeline(self):
        """Of this process's share."""
        shard = "torch" if self.arguments.processes > 1 and not self.arguments.whole else None
        return numbers(self.arguments.folder, shard=shard)

    def loader(self) -> Any:
        """The one that was asked for."""
        kind, workers = self.arguments.loader, self.arguments.workers
        if kind == "Loader":
            return Loader(self.pipeline, output_map=NAMES, num_workers=workers)
        if kind == "iterator":
            return GenericIterator(self.pipeline(), NAMES, reader_name="reader", last_batch_policy="PARTIAL")
        dataset = Dataset(self.pipeline, NAMES)
        if kind == "torch":
            return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    def optimizer(self) -> torch.optim.Optimizer:
        """One with a state."""
        return torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def note(self, batch: Any, epoch: int, step: int) -> None:
        """Write down a batch that is trained on, with its epoch and the steps before it."""
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        with (self.output / f"{rank}.jsonl").open("a") as file:
            file.write(json.dumps([epoch, batch["data"].flatten().tolist(), step]) + "\n")

    def loss(self, model: Any, batch: Any, epoch: int, step: int) -> torch.Tensor:
        """The loss of a batch, which is written down."""
        batch = batch[0] if isinstance(batch, list) else batch
        self.note(batch, epoch, step)
        numbers, draws = batch["data"].float() / 23, batch["draw"].reshape(-1, 1)
        return ((model(torch.cat([numbers, draws], 1)) - numbers * draws) ** 2).mean()

    def step(self) -> None:
        """Count a step that was made; the process ends after some, at once or a little later."""
        self.steps += 1
        time.sleep(self.arguments.pause)
        if self.steps == self.arguments.kill_at:
            if not self.arguments.kill_in:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(self.arguments.kill_in, os.kill, [os.getpid(), signal.SIGKILL]).start()

    def weights(self) -> Iterable[Any]:
        """All weights."""
        return self.model.state_dict().values()

    def ended(self) -> None:
        """Write down the weights."""
        found = hashlib.sha256()
        for value in self.weights():
            found.update(numpy.asarray(value).tobytes())
        (self.output / "weights").write_text(found.hexdigest())


def lightning(job: Job) -> None:
    """Lightning, which launches processes itself."""
    import lightning as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = job.model

        def train_dataloader(self):
            return job.loader()

        def training_step(self, batch, _):
            return job.loss(self.model, batch, self.current_epoch, self.global_step)

        def on_train_batch_end(self, *_) -> None:
            job.step()

        def configure_optimizers(self):
            return job.optimizer()

    class InTheMidst(ModelCheckpoint):
        """After a checkpoint of an epoch's last step Lightning does not count the next epoch as begun.

        From a checkpoint in the midst of that it would begin it again.
        """

        def on_train_batch_end(self, trainer, *arguments) -> None:
            if not trainer.is_last_batch:
                super().on_train_batch_end(trainer, *arguments)

    kept: dict[str, Any] = {"dirpath": job.output / "checkpoints", "save_top_k": -1, "filename": "{step}"}
    saving = [ModelCheckpoint(save_on_train_epoch_end=True, every_n_epochs=1, **kept)]
    if job.arguments.save == "steps":
        saving.append(InTheMidst(every_n_train_steps=EVERY, **kept))
    trainer = pl.Trainer(
        max_epochs=job.epochs, accelerator="cpu", devices=job.arguments.processes, logger=False,
        strategy="ddp" if job.arguments.processes > 1 else "auto", default_root_dir=job.output,
        callbacks=saving,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    saved = sorted(kept["dirpath"].glob("*.ckpt"), key=lambda path: int(path.stem.split("=")[1]))
    while saved and not _is_whole(saved[-1]):
        saved.pop()
    trainer.fit(Module(), ckpt_path=saved[-1] if saved else None, weights_only=False)


def _is_whole(path: Path) -> bool:
    """Whether a file of torch can be read: a kill while Lightning wrote it leaves a part."""
    try:
        torch.load(path, weights_only=False)
    except (RuntimeError, EOFError):
        return False
    return True


def fabric(job: Job) -> None:
    """Fabric, Lightning's loop of one's own."""
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup(job.model, job.optimizer())
    loader = fabric.setup_dataloaders(job.loader())
    path, state = job.output / "state.ckpt", {"model": model, "optimizer": optimizer, "loader": loader, "steps": 0}
    if path.exists():
        fabric.load(path, state)
    for epoch in range(loader.dataset.epoch, job.epochs):
        for batch in loader:
            loss = job.loss(model, batch, epoch, state["steps"])
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            state["steps"] += 1
            if not state["steps"] % EVERY:
                fabric.save(part := path.with_suffix(".part"), state)
                part.replace(path)
            job.step()


def transformers(job: Job) -> None:
    """The Trainer of transformers."""
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = job.model

        def forward(self, data, label, draw):
            state = trainer.state
            return {
                "loss": job.loss(self.layer, {"data": data, "draw": draw}, int(state.epoch or 0), state.global_step)
            }

    class Own(Trainer):
        def get_train_dataloader(self):
            loader = job.loader()
            return self.accelerator.prepare(loader) if job.arguments.prepare else loader

        def training_step(self, *arguments, **named):
            loss = super().training_step(*arguments, **named)
            job.step()
            return loss

    folder = job.output / "checkpoints"
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=job.epochs, save_steps=EVERY, use_cpu=True, report_to=[],
        disable_tqdm=True, logging_steps=1000, remove_unused_columns=False, learning_rate=0.05, optim="sgd",
        optim_args="momentum=0.9",
    )  # fmt: skip
    trainer = Own(Model(), arguments)
    saved = sorted(folder.glob("checkpoint-*/trainer_state.json"), key=lambda path: int(path.parent.name.split("-")[1]))
    while saved and not saved[-1].read_text().rstrip().endswith("}"):
        saved.pop()
    trainer.train(resume_from_checkpoint=str(saved[-1].parent) if saved else None)


def accelerate(job: Job) -> None:
    """Accelerate, under torchrun. It saves the state of a `Loader` that it prepares."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = job.model, job.optimizer(), job.loader()
    if job.arguments.prepare:
        loader = accelerator.prepare(loader)
    model, optimizer = accelerator.prepare(model, optimizer)
    part, steps = job.output / "part", max((int(path.name[6:]) for path in job.output.glob("state-*")), default=0)
    if steps:
        accelerator.load_state(job.output / f"state-{steps}")
    for epoch in range(loader.dataset.epoch, job.epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(job.loss(model, batch, epoch, steps))
                optimizer.step()
                optimizer.zero_grad()
            steps += 1
            if accelerator.sync_gradients and not job.arguments.whole:
                accelerator.save_state(part)
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    part.rename(job.output / f"state-{steps}")
                accelerator.wait_for_everyone()
            job.step()


def torchrun(job: Job) -> None:
    """A loop of one's own, under torchrun or in one process."""
    model: Any = job.model
    if job.arguments.processes > 1:
        distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(job.model)
    optimizer, loader, path, steps = job.optimizer(), job.loader(), job.output / "state.pt", 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        job.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
    for epoch in range(loader.epoch, job.epochs):
        for batch in loader:
            loss = job.loss(model, batch, epoch, steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if not distributed.is_initialized() or distributed.get_rank() == job.arguments.saver:
                saved = {"model": job.model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}
                torch.save({**saved, "loader": loader.state_dict()}, part := path.with_suffix(".part"))
                part.replace(path)
            if distributed.is_initialized():
                distributed.barrier()
            job.step()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def jax(job: Job) -> None:
    """A loop of one's own in JAX, with Orbax."""
    import jax
    import orbax.checkpoint as orbax
    from jax import numpy as jnp

    from dynamic.jax import Loader

    def loss_of(weights: Any, numbers: Any, draws: Any) -> Any:
        scores = jnp.concatenate([numbers, draws], 1) @ weights["w"] + weights["b"]
        return jnp.mean((scores - numbers * draws) ** 2)

    @jax.jit
    def step(training: Any, data: Any, draw: Any) -> Any:
        gradients = jax.grad(loss_of)(training["weights"], data.astype(jnp.float32) / 23, draw.reshape(-1, 1))
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, training["momentum"], gradients)
        weights = jax.tree.map(lambda w, m: w - 0.05 * m, training["weights"], momentum)
        return {"weights": weights, "momentum": momentum}

    weights = {"w": jnp.array([[0.5], [-0.25]]), "b": jnp.zeros(1)}
    training = {"weights": weights, "momentum": jax.tree.map(jnp.zeros_like, weights)}
    loader, steps = Loader(job.pipeline, output_map=NAMES), 0
    options = orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    with orbax.CheckpointManager((job.output / "checkpoints").absolute(), options=options) as manager:
        if (latest := manager.latest_step()) is not None:
            wanted = orbax.args.Composite(training=orbax.args.StandardRestore(training), data=orbax.args.JsonRestore())
            saved = manager.restore(latest, args=wanted)
            training, steps = saved.training, latest
            loader.load_state_dict(saved.data)
        for epoch in range(loader.epoch, job.epochs):
            for batch in loader:
                job.note(batch, epoch, steps)
                training = step(training, batch["data"], batch["draw"])
                steps += 1
                if not steps % EVERY:
                    data = orbax.args.JsonSave(loader.state_dict())
                    args = orbax.args.Composite(training=orbax.args.StandardSave(training), data=data)
                    manager.save(steps, args=args)
                job.step()
    job.weights = lambda: jax.tree.leaves(training["weights"])


def ray(job: Job) -> None:
    """A loop of one's own, whose batches the cluster of RAY_ADDRESS makes."""
    from dynamic.ray import Loader

    rng = RNG(seed=12)

    def drawn(data: Any, labels: Any) -> dict[str, Any]:
        return {"data": data, "label": labels, "draw": uniform(range=(0.0, 1.0), rng=rng.keyed(data))}

    cluster = connect(os.environ["RAY_ADDRESS"])
    optimizer, path, steps = job.optimizer(), job.output / "state.pt", 0
    loader = Loader(reader_of(job.arguments.folder), drawn)
    if path.exists():
        saved = torch.load(path, weights_only=True)
        job.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
    for epoch in range(loader.epoch, job.epochs):
        for batch in loader:
            loss = job.loss(job.model, {name: each.torch() for name, each in batch.items()}, epoch, steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if not steps % EVERY:
                saved = {"model": job.model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}
                torch.save({**saved, "loader": loader.state_dict()}, part := path.with_suffix(".part"))
                part.replace(path)
            job.step()
    cluster.shutdown()


TRAINERS = {each.__name__: each for each in (lightning, fabric, transformers, accelerate, torchrun, jax, ray)}


def main(words: list[str] | None = None) -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trainer", choices=list(TRAINERS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--loader", default="Loader", choices=["Loader", "torch", "torchdata", "iterator"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="give each process all samples")
    parser.add_argument("--save", default="steps", choices=["steps", "epochs"])
    parser.add_argument("--saver", type=int, default=0, help="the rank that saves, under torchrun")
    parser.add_argument("--prepare", action="store_true", help="hand the loader to Accelerate")
    parser.add_argument("--kill-at", type=int, help="end the process after so many steps")
    parser.add_argument("--kill-in", type=float, default=0, help="seconds from there")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    arguments = parser.parse_args(words)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    job = Job(arguments)
    TRAINERS[arguments.trainer](job)
    job.ended()


if __name__ == "__main__":
    main()
