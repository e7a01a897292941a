"""A run of training by one of the trainers, which notes each batch and may be killed: for `test_trainers.py`.

    python trainers_job.py TRAINER FOLDER OUTPUT [--loader DataLoader] [--workers 0] [--processes 1] [--kill-at STEP]

FOLDER has the files of `counting.py`. Each process writes a line for each batch to OUTPUT/RANK.jsonl: the epoch as the
trainer counts it, and the numbers of the files. Started again, it goes on from what the trainer saved last.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed

sys.path.insert(0, str(Path(__file__).parent))
from counting import NAMES, numbers

from dynamic.pytorch import DataLoader, Dataset, GenericIterator

EPOCHS = 3


class Job:
    """What the runs of all trainers have in common."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.output = arguments, arguments.output
        self.steps = 0

    def pipeline(self):
        """Of this process's share."""
        shard = "torch" if self.arguments.processes > 1 and not self.arguments.whole else None
        return numbers(self.arguments.folder, shard=shard)

    def loader(self) -> Any:
        """The one that was asked for."""
        kind, workers = self.arguments.loader, self.arguments.workers
        if kind == "iterator":
            return GenericIterator(self.pipeline(), NAMES, reader_name="reader", last_batch_policy="PARTIAL")
        dataset = Dataset(self.pipeline, NAMES)
        if kind == "DataLoader":
            return DataLoader(dataset, num_workers=workers)
        if kind == "torch":
            return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    def note(self, epoch: int, batch: Any) -> torch.Tensor:
        """Write down a batch that is trained on."""
        batch = batch[0] if isinstance(batch, list) else batch
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        with (self.output / f"{rank}.jsonl").open("a") as file:
            file.write(json.dumps([epoch, batch["data"].flatten().tolist()]) + "\n")
        return batch["data"].float()

    def step(self) -> None:
        """Count a step that was made; the process ends after some."""
        self.steps += 1
        if self.steps == self.arguments.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def lightning(job: Job) -> None:
    """Lightning, which launches processes itself."""
    import lightning as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def train_dataloader(self):
            return job.loader()

        def training_step(self, batch, _):
            return self.layer(job.note(self.current_epoch, batch)).mean()

        def on_train_batch_end(self, *_) -> None:
            job.step()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    when: dict[str, Any] = {"save_on_train_epoch_end": True, "every_n_epochs": 1}
    when = when if job.arguments.save == "epochs" else {"every_n_train_steps": 2}
    folder = job.output / "checkpoints"
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=job.arguments.processes, logger=False,
        strategy="ddp" if job.arguments.processes > 1 else "auto", default_root_dir=job.output,
        callbacks=[ModelCheckpoint(folder, filename="{step}", save_top_k=-1, **when)],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    saved = sorted(folder.glob("*.ckpt"), key=lambda path: int(path.stem.split("=")[-1]))
    trainer.fit(Module(), ckpt_path=saved[-1] if saved else None, weights_only=False)


def transformers(job: Job) -> None:
    """The Trainer of transformers."""
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, data, label, draw):
            epoch = int(trainer.state.epoch or 0)
            scores = self.layer(job.note(epoch, {"data": data}))
            return {"loss": scores.mean(), "logits": scores}

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
        output_dir=str(folder), num_train_epochs=EPOCHS, save_steps=2, use_cpu=True, report_to=[], disable_tqdm=True,
        logging_steps=1000, remove_unused_columns=False,
    )  # fmt: skip
    trainer = Own(Model(), arguments)
    trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")) or None)


def accelerate(job: Job) -> None:
    """Accelerate, under torchrun."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Linear(1, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-6))
    loader = job.loader()
    path, start = job.output / "state.pt", 0
    if path.exists():
        loader.load_state_dict(torch.load(path, weights_only=True))
        start = loader.dataset.epoch
    if job.arguments.prepare:
        loader = accelerator.prepare(loader)
        if start:
            loader.set_epoch(start)
    for epoch in range(start, EPOCHS):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(job.note(epoch, batch)).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if not job.arguments.prepare:
                accelerator.wait_for_everyone()
                accelerator.save(batch.state, path)
            job.step()


def torchrun(job: Job) -> None:
    """A loop of one's own, under torchrun."""
    distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    path, loader = job.output / "state.pt", job.loader()
    if path.exists():
        loader.load_state_dict(torch.load(path, weights_only=True))
    for epoch in range(loader.dataset.epoch, EPOCHS):
        for batch in loader:
            loss = model(job.note(epoch, batch)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if distributed.get_rank() == 0:
                torch.save(loader.state_dict(), path)
            distributed.barrier()
            job.step()
    distributed.destroy_process_group()


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trainer", choices=["lightning", "transformers", "accelerate", "torchrun"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--loader", default="DataLoader", choices=["DataLoader", "torch", "torchdata", "iterator"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="give each process all samples")
    parser.add_argument("--save", default="steps", choices=["steps", "epochs"])
    parser.add_argument("--prepare", action="store_true", help="hand the loader to Accelerate")
    parser.add_argument("--kill-at", type=int, help="end the process after so many steps")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    globals()[arguments.trainer](Job(arguments))


if __name__ == "__main__":
    main()
