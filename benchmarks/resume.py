"""Stops and resumes: this library against NVIDIA DALI, torchdata and Grain on the same chains.

    python benchmarks/resume.py [--chains 50] [--seed 1]

Each chain reads files in some batches and shards, stops after a random step, gives what was saved to new objects, and
goes on to the end of the epoch and through the next. The sizes are such that all batches are full in all settings,
because DALI fills the last batch of an epoch with samples of the next. Each library is used as its documentation shows:

- DALI: `readers.File(random_shuffle=True)` and `random.uniform` of its dynamic mode, with a `Checkpoint` on each shard;
- torchdata: `StatefulDataLoader` with a `StatefulDistributedSampler`, `set_epoch` each epoch, draws by `torch.rand`;
- Grain: `MapDataset.source(...).seed(...).shuffle()[shard::shards].random_map(...).batch(...)`, its iterator's state.

With another number of shards, shard k is given what shard k modulo the old number saved. Each library runs in a process
of its own with a time limit; one that is not installed is said to be so. The outcome of a chain is *exact* if every
sample that was still to come came once, epochs ended where they should, and, where nothing changed, order and draws are
those of a run without a stop; *refused* if there was an error; and else *wrong*, with the mean number of samples that
came again or never did (an epoch that runs on repeats samples).
"""

from __future__ import annotations

import argparse
import collections
import datetime
import importlib.metadata
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = {"dynamic": "dynamic-batch", "DALI": "nvidia-dali-cuda120", "torchdata": "torchdata", "Grain": "grain"}
KINDS = ["nothing", "batch size", "shards", "a file added", "a file removed", "a file renamed", "half the files gone",
         "seed", "no shuffle"]  # fmt: skip
LIMIT = 240  # seconds for a library


class Setting(NamedTuple):
    """What a run is made with."""

    names: list[str]
    shards: int
    batch_size: int
    seed: int
    shuffle: bool


# -- the libraries: each makes a run, whose step gives (name, draw) of all shards, and None at the end of an epoch --


class Dynamic:
    def __init__(self, root: str, setting: Setting) -> None:
        from dynamic import random as draws
        from dynamic import readers

        self._uniform = draws.uniform
        self._batch_size = setting.batch_size
        self._readers = [readers.File(files=setting.names, labels=[0] * len(setting.names), file_root=root,
                                      random_shuffle=setting.shuffle, seed=setting.seed, shard_id=k,
                                      num_shards=setting.shards) for k in range(setting.shards)]  # fmt: skip
        self._rng = draws.RNG(seed=setting.seed)
        self._loops: list[Any] = []

    def step(self) -> list[tuple[str, float]] | None:
        if not self._loops:
            self._loops = [reader.next_epoch(self._batch_size) for reader in self._readers]
        found = []
        for batch in [next(loop, None) for loop in self._loops]:
            if batch is not None:
                draws = self._uniform(rng=self._rng.keyed(batch[0])["draw"]).tolist()
                found += zip(batch[0].origin.names, draws, strict=True)
        if not found:
            self._loops = []
        return found or None

    def save(self) -> list[Any]:
        return [json.dumps([reader.get_state(), self._rng.get_state()]) for reader in self._readers]

    def load(self, states: list[Any]) -> None:
        for k, reader in enumerate(self._readers):
            place, rng = json.loads(states[k % len(states)])
            reader.set_state(place)
            self._rng.set_state(rng)


class Dali:
    def __init__(self, root: str, setting: Setting) -> None:
        import nvidia.dali.experimental.dynamic as ndd

        self._ndd, self._batch_size, self._root = ndd, setting.batch_size, root
        self._readers = [ndd.readers.File(files=setting.names, file_root=root, random_shuffle=setting.shuffle,
                                          seed=setting.seed, shard_id=k, num_shards=setting.shards,
                                          enable_checkpointing=True) for k in range(setting.shards)]  # fmt: skip
        self._rngs = [ndd.random.RNG(seed=setting.seed + k) for k in range(setting.shards)]
        self._loops: list[Any] = []

    def step(self) -> list[tuple[str, float]] | None:
        import numpy

        if not self._loops:
            self._loops = [reader.next_epoch(batch_size=self._batch_size) for reader in self._readers]
        found: list[tuple[str, float]] = []
        for rng, batch in zip(self._rngs, [next(loop, None) for loop in self._loops], strict=True):
            if batch is not None:
                draws = self._ndd.random.uniform(batch_size=self._batch_size, rng=rng).evaluate()
                contents = [bytes(numpy.asarray(sample)).decode() for sample in batch[0].evaluate().tensors]
                found += zip(contents, [float(numpy.asarray(draw)) for draw in draws.tensors], strict=True)
        if not found:
            self._loops = []
        return found or None

    def save(self) -> list[Any]:
        saved = []
        for reader, rng in zip(self._readers, self._rngs, strict=True):
            states = self._ndd.checkpoint.Checkpoint()
            states.register(reader, "reader")
            states.register(rng, "rng")
            states.collect()
            saved.append(states.serialize())
        return saved

    def load(self, saved: list[Any]) -> None:
        for k, (reader, rng) in enumerate(zip(self._readers, self._rngs, strict=True)):
            states = self._ndd.checkpoint.Checkpoint()
            states.deserialize(saved[k % len(saved)])
            states.register(reader, "reader")
            states.register(rng, "rng")


class TorchData:
    def __init__(self, root: str, setting: Setting) -> None:
        import torch
        from torchdata.stateful_dataloader import StatefulDataLoader
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        class Files(torch.utils.data.Dataset[Any]):
            def __len__(self) -> int:
                return len(setting.names)

            def __getitem__(self, i: int) -> tuple[str, float]:
                return (Path(root) / setting.names[i]).read_text(), float(torch.rand(()))

        torch.manual_seed(setting.seed)
        self._samplers = [StatefulDistributedSampler(Files(), setting.shards, k, shuffle=setting.shuffle,
                                                     seed=setting.seed) for k in range(setting.shards)]  # fmt: skip
        self._loaders = [StatefulDataLoader(Files(), setting.batch_size, sampler=sampler, collate_fn=list)
                         for sampler in self._samplers]  # fmt: skip
        self._epoch, self._loops = 0, []

    def step(self) -> list[tuple[str, float]] | None:
        if not self._loops:
            for sampler in self._samplers:
                sampler.set_epoch(self._epoch)
            self._loops = [iter(loader) for loader in self._loaders]
        found = [pair for loop in self._loops for pair in next(loop, [])]
        if not found:
            self._loops, self._epoch = [], self._epoch + 1
        return found or None

    def save(self) -> list[Any]:
        return [(self._epoch, loader.state_dict()) for loader in self._loaders]

    def load(self, states: list[Any]) -> None:
        for k, loader in enumerate(self._loaders):
            self._epoch, state = states[k % len(states)]
            loader.load_state_dict(state)


class Grain:
    def __init__(self, root: str, setting: Setting) -> None:
        import grain

        def drawn(name: str, rng: Any) -> tuple[str, float]:
            return (Path(root) / name).read_text(), float(rng.uniform())

        source = grain.MapDataset.source(setting.names).seed(setting.seed)
        if setting.shuffle:
            source = source.shuffle()
        self._steps = len(setting.names) // (setting.shards * setting.batch_size)
        self._made = 0
        self._loops = [iter(source.repeat(3)[k :: setting.shards].random_map(drawn)
                            .batch(setting.batch_size, batch_fn=list).to_iter_dataset())
                       for k in range(setting.shards)]  # fmt: skip
        self._per_epoch = setting.shards * setting.batch_size, len(setting.names)

    def step(self) -> list[tuple[str, float]] | None:
        if self._made == self._steps:
            self._made = 0
            return None
        self._made += 1
        return [pair for loop in self._loops for pair in next(loop, [])]

    def save(self) -> list[Any]:
        return [loop.get_state() for loop in self._loops]

    def load(self, states: list[Any]) -> None:
        for k, loop in enumerate(self._loops):
            loop.set_state(states[k % len(states)])
        place = self._loops[0].get_state()
        step, n = self._per_epoch
        self._made = place["next_index"] * step % n // step if isinstance(place, dict) and "next_index" in place else 0


RUNS = {"dynamic": Dynamic, "DALI": Dali, "torchdata": TorchData, "Grain": Grain}


# -- the chains -------------------------------------------------------------------------------------------------------


def epochs(run: Any, count: int, most: int) -> list[list[tuple[str, float]]]:
    """What is left of this epoch, and of so many in all; no more than `most` steps of any."""
    found = []
    for _ in range(count):
        found.append([])
        for _ in range(most):
            step = run.step()
            if step is None:
                break
            found[-1] += step
    return found


def changed(setting: Setting, kind: str, chance: random.Random) -> Setting:
    """The setting of the run that goes on."""
    names = list(setting.names)
    at = chance.randrange(len(names))
    if kind == "batch size":
        return setting._replace(batch_size=chance.choice([b for b in (1, 2, 3) if b != setting.batch_size]))
    if kind == "shards":
        return setting._replace(shards=chance.choice([s for s in (1, 2, 4) if s != setting.shards]))
    if kind == "seed":
        return setting._replace(seed=setting.seed + 1)
    if kind == "no shuffle":
        return setting._replace(shuffle=False)
    if kind == "a file added":
        names.append("zz.bin")
    elif kind == "a file removed":
        del names[at]
    elif kind == "a file renamed":
        names[at] = "zz.bin"
    elif kind == "half the files gone":
        names = names[::2]
    return setting._replace(names=names)


def outcome(library: Any, root: str, kind: str, chance: random.Random) -> dict[str, Any]:
    """One chain: "exact", "refused", or how many samples were repeated and lost."""
    shards = chance.choice([1, 2, 4])
    names = [f"{i:02d}.bin" for i in range(chance.choice([24, 48]))]
    setting = Setting(names, shards, chance.choice([1, 2, 3]), chance.getrandbits(20), shuffle=True)
    run = library(root, setting)
    steps = len(names) // (shards * setting.batch_size)
    stop = chance.randint(1, max(1, steps - 1))
    before = [pair for _ in range(stop) for pair in run.step()]
    if stop == steps:
        return {"skipped": True}  # a single step: there is no middle
    saved = run.save()
    other = changed(setting, kind, chance)
    try:
        new = library(root, other)
        new.load(saved)
        rest, following = epochs(new, 2, 3 * len(names))
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {str(error)[:100]}"}
    seen, wanted = collections.Counter(name for name, _ in before), set(other.names)
    came = collections.Counter(name for name, _ in rest)
    repeated = sum(max(0, seen[name] + came[name] - 1) for name in came)
    lost = sum(not seen[name] and not came[name] for name in wanted)
    whole = collections.Counter(name for name, _ in following) == collections.Counter(other.names)
    if kind == "nothing" and not repeated and not lost and whole:
        reference = epochs(library(root, setting), 2, 3 * len(names))
        same = [before + rest, following]
        draws = same == reference
        order = [[n for n, _ in e] for e in same] == [[n for n, _ in e] for e in reference]
        return {"exact": order and draws} if draws or not order else {"exact": False, "draws": True}
    return {"exact": not repeated and not lost and whole, "repeated": repeated, "lost": lost, "boundary": not whole}


def measure(name: str, chains: int, seed: int) -> dict[str, Any]:
    """The outcomes of a library by kind of chain."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as root:
        for file in [f"{i:02d}.bin" for i in range(48)] + ["zz.bin"]:
            (Path(root) / file).write_text(file)
        for kind in KINDS:
            chance = random.Random(f"{seed}/{kind}")
            results[kind] = []
            while len(results[kind]) < chains:
                found = outcome(RUNS[name], root, kind, chance)
                if "skipped" not in found:
                    results[kind].append(found)
    return results


def cell(outcomes: list[dict[str, Any]]) -> str:
    """What a cell of the table says."""
    exact = sum(bool(found.get("exact")) for found in outcomes)
    refused = sum("refused" in found for found in outcomes)
    wrong = [found for found in outcomes if "refused" not in found and not found.get("exact")]
    text = [f"{exact}/{len(outcomes)} exact"] if exact or not refused else []
    if refused:
        text.append(f"{refused}/{len(outcomes)} refused")
    if wrong:
        repeated, lost = (sum(found.get(key, 0) for found in wrong) / len(wrong) for key in ("repeated", "lost"))
        ends = sum(bool(found.get("boundary")) for found in wrong)
        draws = sum(bool(found.get("draws")) for found in wrong)
        details = [f"{repeated:.1f} repeated, {lost:.1f} lost"] if repeated or lost else []
        details += [f"next epoch wrong in {ends}"] if ends else []
        details += [f"other draws in {draws}"] if draws else []
        text.append(f"{len(wrong)} wrong ({'; '.join(details) or 'another order'})")
    return ", ".join(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--chains", type=int, default=50, help="chains of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=RUNS, help="run one library, and print its outcomes as JSON")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments.only, arguments.chains, arguments.seed)))
        return
    columns: dict[str, Any] = {}
    for name, distribution in LIBRARIES.items():
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            columns[f"{name} (not installed)"] = None
            continue
        command = [
            sys.executable,
            __file__,
            "--only",
            name,
            "--chains",
            str(arguments.chains),
            "--seed",
            str(arguments.seed),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
            columns[f"{name} {version}"] = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.SubprocessError, ValueError, IndexError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            sys.exit(f"{name}: {reason}")
    print(f"{arguments.chains} chains of each kind, seed {arguments.seed}, {datetime.date.today()}\n")
    print(f"| what changed | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for kind in KINDS:
        print(f"| {kind} | {' | '.join('' if found is None else cell(found[kind]) for found in columns.values())} |")


if __name__ == "__main__":
    main()
