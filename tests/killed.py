"""Kill training by SIGKILL at random, again and again, and compare its weights with those of a run that was not killed.

    python tests/killed.py [lightning fabric transformers accelerate torchrun jax ray] [--kills 20] [--seed 0]

The job is `trainers_job.py`, with a checkpoint every two steps. Each run is a child that is forked from this process,
which has imported the trainer, but has not used it. A run is killed up to 50 ms after one of its first steps: in a
step, while a batch is fetched, or while a checkpoint is written. What counts of a step is the last time it was made.
A cluster of Ray, of two nodes, outlives the runs that use it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
from counting import COUNT, laid_out
from ray_nodes import apart

MODULES = {
    "lightning": ["lightning"],
    "fabric": ["lightning.fabric"],
    "transformers": ["transformers.trainer", "accelerate"],
    "accelerate": ["accelerate"],
    "torchrun": [],
    "jax": ["jax", "orbax.checkpoint"],
    "ray": ["ray.data"],
}


def run(words: list[str]) -> int:
    """The exit status of a run of the job in a child; minus the signal that ended it."""
    child = os.fork()
    if not child:
        status = 1
        try:
            importlib.import_module("trainers_job").main(words)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def history(output: Path) -> list[Any]:
    """Epoch and samples of each step, as it was made last."""
    steps = {}
    for line in (output / "0.jsonl").read_text().splitlines():
        epoch, samples, step = json.loads(line)
        steps[step] = [epoch, samples]
    if sorted(steps) != list(range(len(steps))):
        raise ValueError(f"steps are missing: {sorted(steps)}")
    return [steps[step] for step in range(len(steps))]


def killed(trainer: str, folder: Path, output: Path, kills: int, workers: int, rng: random.Random) -> int:
    """Train with so many kills, compare with a run that is not killed, and tell the steps that were made again.

    Raises:
        AssertionError: Weights or samples are others.
    """
    epochs = 6 + kills
    prepare = ["--prepare"] if trainer in ("transformers", "accelerate") else []
    common = ["--workers", str(workers), "--epochs", str(epochs), *prepare]
    for name in ("whole", "killed"):
        (output / name).mkdir()
    status = run([trainer, str(folder), str(output / "whole"), *common])
    assert status == 0, f"{trainer}: the run that is not killed ends with {status}"
    words = [trainer, str(folder), str(output / "killed"), *common]
    for number in range(kills):
        when = ["--kill-at", str(rng.randint(1, 6)), "--kill-in", str(rng.uniform(0.001, 0.05)), "--pause", "0.01"]
        status = run([*words, *when])
        assert status == -signal.SIGKILL, f"{trainer}: kill {number} ends with {status}"
    status = run(words)
    assert status == 0, f"{trainer}: the last run ends with {status}"
    found, expected = history(output / "killed"), history(output / "whole")
    for epoch in range(epochs):
        samples = [x for e, part in found if e == epoch for x in part]
        assert sorted(samples) == list(range(COUNT)), f"{trainer}: epoch {epoch} has {sorted(samples)}"
    assert found == expected, f"{trainer}: other batches"
    weights = [(output / name / "weights").read_text() for name in ("killed", "whole")]
    assert weights[0] == weights[1], f"{trainer}: other weights"
    return len((output / "killed" / "0.jsonl").read_text().splitlines()) - len(found)


def main() -> None:
    """Print a line for each trainer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trainers", nargs="*", default=list(MODULES), help="by default all")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for trainer in options.trainers:
        for name in ["trainers_job", *MODULES[trainer]]:
            importlib.import_module(name)
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as place, apart() if trainer == "ray" else nullcontext("") as address:
            os.environ["RAY_ADDRESS"] = address
            folder, output = laid_out(Path(place)), Path(place) / "output"
            output.mkdir()
            rng = random.Random(f"{trainer} {options.seed}")
            again = killed(trainer, folder, output, options.kills, options.workers, rng)
        seconds = time.perf_counter() - start
        print(
            f"{trainer}: {options.kills} kills, {again} steps made again, same batches, same weights; {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
