"""Stops and resumes: this library against NVIDIA DALI, torchdata and Grain on the same chains.

    python benchmarks/resume.py [--chains 200] [--seed 1]

A chain reads small files on one to four shards, stops after random steps, gives the text of what was saved to new
objects, and goes on to the end of the epoch and through one more. Every library is used as its documentation shows:

- DALI: `readers.File(random_shuffle=True, enable_checkpointing=True)` and `random.uniform`, a `Checkpoint` for each
  shard;
- torchdata: `StatefulDataLoader` with a `StatefulDistributedSampler` and `set_epoch`; the number of the epoch is
  saved too. It has no random facility of its own: draws are left to torch's generators, which are not in its state;
- Grain: `MapDataset.source().seed().shuffle().random_map()[shard::shards].batch().repeat()`, the state of its
  iterator and, as it has no epochs, the number of the step. Where the batch size or the number of shards is to
  change, its `experimental.ElasticIterator`, which is made for that.

Nobody is asked for what is hard for him alone: all shards have equally many samples, stops are where the rest of the
epoch can be shared out evenly, and what DALI and Grain's ElasticIterator take from the next epoch to fill the last
batch does not count. With another number of shards, shard k is given what shard k modulo the old number saved.

With the same settings, what comes is compared with a run that was never stopped. Where something has changed, a chain
is exact if each sample that was still to come came once, and the epoch ended after as many steps as these take;
DALI's samples are counted before the place where the epoch should end, wherever it does. A file that was added or
renamed may come in this epoch or not. Each library runs in a process of its own, which is ended if a chain takes more
than 30 seconds.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import importlib.metadata
import io
import itertools
import json
import math
import random
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = {"dynamic": "dynamic-batch", "dynamic, on_mismatch='adapt'": "dynamic-batch", "DALI": "nvidia-dali-cuda120",
             "torchdata": "torchdata", "Grain": "grain"}  # fmt: skip
SAME, LAST, BETWEEN = "nothing", "nothing; stopped after the last batch", "nothing; stopped between two epochs"
ELASTIC = ("the batch size", "the number of shards")
DATA = ("a file was added", "a file was removed", "a file was renamed", "half of the files are gone")
KINDS = (SAME, LAST, BETWEEN, *ELASTIC, *DATA, "the seed", "the shuffle is off")
NEW = "new"  # a file that was added or renamed: it may come in this epoch or the next, and is not counted
LIMIT = 30  # seconds for a chain
MOST = 41  # files

Step = list[list[tuple[str, float | None]]]  # for each shard the name and draw of each sample


class Setting(NamedTuple):
    """What a run is made with."""

    names: list[str]
    shards: int
    batch_size: int
    seed: int
    shuffle: bool
    elastic: bool  #: whether the batch size or the number of shards is going to change

    @property
    def steps(self) -> int:
        """In an epoch."""
        return math.ceil(math.ceil(len(self.names) / self.shards) / self.batch_size)


# -- the libraries: `step` gives what all shards are given, and None at the end of an epoch ---------------------------


class Dynamic:
    on_mismatch = "raise"

    def __init__(self, root: str, setting: Setting) -> None:
        import dynamic

        self._library, self._batch_size = dynamic, setting.batch_size
        self._readers = [
            dynamic.readers.File(file_root=root, files=setting.names, labels=[0] * len(setting.names),
                                 random_shuffle=setting.shuffle, seed=setting.seed, shard_id=k,
                                 num_shards=setting.shards, on_mismatch=self.on_mismatch)
            for k in range(setting.shards)
        ]  # fmt: skip
        self._rngs = [dynamic.random.RNG(seed=setting.seed) for _ in range(setting.shards)]
        self._loops: list[Any] = []

    def step(self) -> Step | None:
        self._loops = self._loops or [reader.next_epoch(batch_size=self._batch_size) for reader in self._readers]
        found: Step = [[] for _ in self._loops]
        for shard, rng, loop in zip(found, self._rngs, self._loops, strict=True):
            for jpegs, _ in itertools.islice(loop, 1):
                draws = self._library.random.uniform(range=[0.0, 1.0], rng=rng.keyed(jpegs))
                shard += zip([bytes(jpeg.array).decode() for jpeg in jpegs], draws.tolist(), strict=True)
        self._loops = self._loops if any(found) else []
        return found if any(found) else None

    def save(self) -> list[Any]:
        saved = []
        for reader, rng in zip(self._readers, self._rngs, strict=True):
            states = self._library.checkpoint.Checkpoint()
            states.register(reader, "reader")
            states.register(rng, "rng")
            states.collect()
            saved.append(states.serialize())
        return saved

    def load(self, saved: list[Any]) -> None:
        for k, (reader, rng) in enumerate(zip(self._readers, self._rngs, strict=True)):
            states = self._library.checkpoint.Checkpoint()
            states.deserialize(saved[k % len(saved)])
            states.register(reader, "reader")
            states.register(rng, "rng")


class Adapting(Dynamic):
    on_mismatch = "adapt"


class Dali(Dynamic):
    def __init__(self, root: str, setting: Setting) -> None:
        import nvidia.dali.experimental.dynamic as library

        library.EvalMode.sync_cpu.__enter__()
        self._library, self._batch_size = library, setting.batch_size
        self._readers = [
            library.readers.File(file_root=root, files=setting.names, random_shuffle=setting.shuffle, seed=setting.seed,
                                 shard_id=k, num_shards=setting.shards, enable_checkpointing=True)
            for k in range(setting.shards)
        ]  # fmt: skip
        self._rngs = [library.random.RNG(seed=setting.seed + k) for k in range(setting.shards)]
        self._loops = []

    def step(self) -> Step | None:
        import numpy

        self._loops = self._loops or [reader.next_epoch(batch_size=self._batch_size) for reader in self._readers]
        found: Step = [[] for _ in self._loops]
        for shard, rng, loop in zip(found, self._rngs, self._loops, strict=True):
            for jpegs, _ in itertools.islice(loop, 1):
                draws = self._library.random.uniform(range=[0.0, 1.0], batch_size=self._batch_size, rng=rng)
                contents = [bytes(numpy.asarray(jpeg)).decode() for jpeg in jpegs.evaluate().tensors]
                shard += zip(contents, [float(numpy.asarray(draw)) for draw in draws.evaluate().tensors], strict=True)
        self._loops = self._loops if any(found) else []
        return found if any(found) else None


class TorchData:
    def __init__(self, root: str, setting: Setting) -> None:
        import torch
        from torchdata.stateful_dataloader import StatefulDataLoader
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        class Files(torch.utils.data.Dataset[Any]):
            def __len__(self) -> int:
                return len(setting.names)

            def __getitem__(self, i: int) -> tuple[str, None]:
                return Path(root, setting.names[i]).read_text(), None

        self._torch = torch
        self._samplers = [StatefulDistributedSampler(Files(), setting.shards, k, shuffle=setting.shuffle,
                                                     seed=setting.seed) for k in range(setting.shards)]  # fmt: skip
        self._loaders = [StatefulDataLoader(Files(), setting.batch_size, sampler=sampler, collate_fn=list)
                         for sampler in self._samplers]  # fmt: skip
        self._epoch, self._loops = 0, []

    def step(self) -> Step | None:
        if not self._loops:
            for sampler in self._samplers:
                sampler.set_epoch(self._epoch)
            self._loops = [iter(loader) for loader in self._loaders]
        found = [next(loop, []) for loop in self._loops]
        if not any(found):
            self._loops, self._epoch = [], self._epoch + 1
        return found if any(found) else None

    def save(self) -> list[Any]:
        files = [io.BytesIO() for _ in self._loaders]
        for file, loader in zip(files, self._loaders, strict=True):
            self._torch.save({"epoch": self._epoch, "loader": loader.state_dict()}, file)
        return [file.getvalue() for file in files]

    def load(self, saved: list[Any]) -> None:
        for k, loader in enumerate(self._loaders):
            state = self._torch.load(io.BytesIO(saved[k % len(saved)]))
            self._epoch = state["epoch"]
            loader.load_state_dict(state["loader"])


class Grain:
    def __init__(self, root: str, setting: Setting) -> None:
        import grain

        def read(name: str, rng: Any) -> tuple[str, float]:
            return Path(root, name).read_text(), float(rng.uniform())

        source = grain.MapDataset.source(setting.names).seed(setting.seed)
        drawn = (source.shuffle() if setting.shuffle else source).random_map(read)
        self._loops = []
        options = grain.ReadOptions(num_threads=0)  # by default 16, which read 500 samples ahead
        for k in range(setting.shards):
            if setting.elastic:
                shard = grain.sharding.ShardOptions(k, setting.shards)
                size = setting.batch_size * setting.shards
                self._loops.append(iter(grain.experimental.ElasticIterator(drawn.repeat(), size, shard,
                                                                            read_options=options)))  # fmt: skip
            else:
                batches = drawn[k :: setting.shards].batch(setting.batch_size, batch_fn=list)
                self._loops.append(iter(batches.repeat().to_iter_dataset(options)))
        self._setting, self._given = setting, 0  # how many samples of the epoch: the training loop's own count

    def step(self) -> Step | None:
        if self._given >= len(self._setting.names):
            self._given = 0
            return None
        self._given += self._setting.batch_size * self._setting.shards
        batches = [next(loop) for loop in self._loops]
        if self._setting.elastic:  # its batches are a pair of arrays
            batches = [list(zip(names.tolist(), draws.tolist(), strict=True)) for names, draws in batches]
        return batches

    def save(self) -> list[Any]:
        return [json.dumps([self._given, loop.get_state()]) for loop in self._loops]

    def load(self, saved: list[Any]) -> None:
        for k, loop in enumerate(self._loops):
            self._given, state = json.loads(saved[k % len(saved)])
            loop.set_state(state)


RUNS = dict(zip(LIBRARIES, (Dynamic, Adapting, Dali, TorchData, Grain), strict=True))


# -- the chains -------------------------------------------------------------------------------------------------------


def settings(kind: str, chance: random.Random) -> tuple[Setting, Setting]:
    """What the first run of a chain is made with, and what those after a stop are."""
    shards, new_shards = chance.randint(1, 4), chance.randint(1, 4)
    batch_size, new_batch_size = chance.randint(1, 5), chance.randint(1, 5)
    if kind == ELASTIC[0]:
        new_shards = shards
        new_batch_size += new_batch_size == batch_size
    elif kind == ELASTIC[1]:
        new_batch_size = batch_size
        new_shards = new_shards % 4 + 1 if new_shards == shards else new_shards
    elif kind in DATA:
        shards = 1  # or the shards would have unequal numbers of samples
    each = math.lcm(shards, new_shards) if kind in ELASTIC else shards
    fewest = math.ceil((math.lcm(shards * batch_size, each) + 1) / each)  # there is a step to stop after, and one more
    count = each * chance.randint(fewest, max(fewest, MOST // each))
    names = [f"{i:03d}" for i in range(count)]
    chance.shuffle(names)
    first = Setting(names, shards, batch_size, chance.getrandbits(31), shuffle=True, elastic=kind in ELASTIC)
    if kind in ELASTIC:
        return first, first._replace(shards=new_shards, batch_size=new_batch_size)
    return first, changed(first, kind, chance)


def changed(setting: Setting, kind: str, chance: random.Random) -> Setting:
    """The same with other data or another order."""
    names, at = list(setting.names), chance.randrange(len(setting.names))
    if kind == DATA[0]:
        names.insert(at, NEW)
    elif kind == DATA[1]:
        del names[at]
    elif kind == DATA[2]:
        names[at] = NEW
    elif kind == DATA[3]:
        names = names[: len(names) // 2]
    elif kind == "the seed":
        return setting._replace(seed=setting.seed + 1)
    elif kind == "the shuffle is off":
        return setting._replace(shuffle=False)
    return setting._replace(names=names)


def epochs(run: Any, count: int, setting: Setting) -> list[list[Step]]:
    """What is left of this epoch, and of so many in all; of none more than three times as many steps as it has."""
    found: list[list[Step]] = []
    for _ in range(count):
        found.append(list(itertools.islice(iter(run.step, None), 3 * setting.steps + 3)))
    return found


def outcome(library: Any, root: str, kind: str, seed: str) -> dict[str, Any]:
    """What became of one chain."""
    chance = random.Random(seed)
    first, second = settings(kind, chance)
    run, steps = library(root, first), 0
    before: list[Step] = []
    try:
        for stop in stops(kind, first, second, chance):
            before += [step for _ in range(stop - steps) if (step := run.step()) is not None]
            saved, steps = run.save(), stop
            run = library(root, second)
            run.load(saved)
        after = epochs(run, 2, second)
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {str(error)[:150]}"}
    if kind in (SAME, LAST, BETWEEN):
        after = [[], *after] if kind == BETWEEN else after
        return compared(before, after, epochs(library(root, first), 4, first))
    found, rest = counted(before, after[0], second)
    if kind in ELASTIC:
        whole = shared(epochs(library(root, first), 1, first)[0], first, len(first.names))
        wanted = dict(pair for shard in whole for pair in shard)
        found["draws"] = all(wanted.get(name) == draw for name, draw in rest)
        found["none"] = all(draw is None for _, draw in rest)
    return found


def stops(kind: str, first: Setting, second: Setting, chance: random.Random) -> list[int]:
    """After which steps a chain stops."""
    last = first.steps - 1
    if kind == SAME:
        return sorted(chance.sample(range(1, last + 1), min(last, chance.randint(1, 3))))
    if kind in (LAST, BETWEEN):
        return [first.steps + (kind == BETWEEN)]  # that one more step is the end of the loop
    each = first.shards * first.batch_size
    return [chance.choice([stop for stop in range(1, last + 1) if stop * each % second.shards == 0 or kind in DATA])]


def flat(steps: list[Step]) -> list[tuple[str, float | None]]:
    """The samples of all shards."""
    return [pair for step in steps for shard in step for pair in shard]


def compared(before: list[Step], after: list[list[Step]], reference: list[list[Step]]) -> dict[str, Any]:
    """A run that was stopped and one that was not: order and draws, wherever epochs end, and where they do."""
    came = flat([step for steps in (before, *after) for step in steps])
    wanted = flat([step for steps in reference for step in steps])[: len(came)]
    return {
        "order": [name for name, _ in came] == [name for name, _ in wanted],
        "draws": [draw for _, draw in came] == [draw for _, draw in wanted],
        "none": all(draw is None for _, draw in wanted),
        "end": [len(before) + len(after[0]), len(after[1])] == [len(reference[0]), len(reference[1])],
    }


def shared(steps: list[Step], setting: Setting, count: int) -> Step:
    """What each shard was given, up to its share of so many samples."""
    share = count // setting.shards
    return [[pair for step in steps for pair in step[k]][:share] for k in range(setting.shards)]


def counted(before: list[Step], rest: list[Step], setting: Setting) -> tuple[dict[str, Any], list[Any]]:
    """How many samples were repeated and lost in an epoch that went on with something changed; and what came of it."""
    due = set(setting.names) - {name for name, _ in flat(before)} - {NEW}
    known = [[[pair for pair in shard if pair[0] != NEW] for shard in step] for step in rest]
    shards = shared(known, setting, len(due))
    came = collections.Counter(name for shard in shards for name, _ in shard)
    repeated = sum(came.values()) - len(came.keys() & due)
    steps = {
        math.ceil(count / (setting.shards * setting.batch_size))
        for count in (len(due), len(due) + (NEW in setting.names))
    }
    return {"repeated": repeated, "lost": len(due - came.keys()), "end": len(rest) in steps}, [
        pair for shard in shards for pair in shard
    ]


# -- the table --------------------------------------------------------------------------------------------------------


def chains(name: str, count: int, seed: int, start: int) -> None:
    """Print the outcome of each chain of one library, from one of them on, as a line of JSON."""
    with tempfile.TemporaryDirectory() as root:
        for file in [f"{i:03d}" for i in range(500)] + [NEW]:
            Path(root, file).write_text(file)
        for number, (kind, i) in enumerate(itertools.product(KINDS, range(count))):
            if number >= start:
                print(json.dumps(outcome(RUNS[name], root, kind, f"{seed}/{kind}/{i}")), flush=True)


def version(name: str) -> str | None:
    """Of a library; None if it is not installed."""
    try:
        return importlib.metadata.version(LIBRARIES[name])
    except importlib.metadata.PackageNotFoundError:
        return None


def measured(name: str, count: int, seed: int) -> dict[str, list[dict[str, Any]]] | None:
    """The outcomes of the chains of a library, by kind. A chain that hangs or crashes its process is one."""
    if version(name) is None:
        return None
    found: list[dict[str, Any]] = []
    while len(found) < count * len(KINDS):
        command = [sys.executable, __file__, "--chains", str(count), "--seed", str(seed), "--only", name, "--from",
                   str(len(found))]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            for line in lines(process):
                found.append(json.loads(line) if line else {"hung": True})
            if process.returncode > 0:
                raise RuntimeError(
                    f"The chains of {name} ended with exit status {process.returncode}: " + " ".join(command)
                )
            if process.returncode < 0:
                found.append({"crashed": True})
    return {kind: found[i * count : (i + 1) * count] for i, kind in enumerate(KINDS)}


def lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """The lines that a process prints; an empty one if none comes for too long, and then it is killed."""
    assert process.stdout is not None
    while True:
        if not select.select([process.stdout], [], [], LIMIT)[0]:
            process.kill()
            process.wait()
            process.returncode = 0
            yield b""
            return
        if not (line := process.stdout.readline()):
            process.wait()
            return
        yield line


def rows(kind: str) -> Iterator[tuple[str, Any]]:
    """The rows of a kind of chain: what they are called, and what makes their cells of outcomes."""
    if kind == SAME:
        yield f"{kind}: order of the samples", lambda found: cell(found, "order")
        yield f"{kind}: random draws", lambda found: cell(found, "draws")
        yield f"{kind}: where the epoch ends", lambda found: cell(found, "end")
    elif kind in (LAST, BETWEEN):
        yield kind, lambda found: cell(found, "order", "end")
    else:
        yield kind, lambda found: cell(found, "repeated", "lost", "end")
    if kind in ELASTIC:
        yield f"{kind}: draws of each sample", lambda found: cell(found, "draws")


def cell(outcomes: list[dict[str, Any]], *keys: str) -> str:
    """What a cell of the table says."""
    total = len(outcomes)
    done = [found for found in outcomes if "end" in found]
    if keys == ("draws",) and done and all(found["none"] for found in done):
        return "has none"
    wrong = [
        found
        for found in done
        if not all(found[key] is True or (type(found[key]) is int and not found[key]) for key in keys)
    ]
    parts = [f"{len(done) - len(wrong)}/{total} exact"]
    details = []
    if wrong and "lost" in keys:
        repeated, lost = (sum(found[key] for found in wrong) / len(wrong) for key in ("repeated", "lost"))
        details.append(f"{repeated:.1f} repeated, {lost:.1f} lost on average")
    if "order" in keys and (others := sum(not found["order"] for found in wrong)):
        details.append(f"another order in {others}")
    if ends := sum(not found["end"] for found in wrong) if len(keys) > 1 else 0:
        details.append(f"epoch's end wrong in {ends}")
    text = parts[0] + (f": {'; '.join(details)}" if details else "")
    others = [
        f"{number} {word}" for word in ("refused", "hung", "crashed") if (number := sum(word in f for f in outcomes))
    ]
    if len(others) == 1 and others[0] == f"{total} refused":
        return f"{total}/{total} refused"
    return ", ".join([text, *others])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--chains", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--raw", type=Path, help="write all outcomes to this file, as JSON")
    parser.add_argument("--only", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="start", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        chains(chosen.only, chosen.chains, chosen.seed, chosen.start)
        return
    with ThreadPoolExecutor(2) as pool:
        found = {
            f"{name} {version(name) or 'is not installed'}": pool.submit(measured, name, chosen.chains, chosen.seed)
            for name in reversed(LIBRARIES)  # the slow ones first
        }
    columns = {name: found[name].result() for name in reversed(found)}
    print(f"{chosen.chains} chains of each kind, seed {chosen.seed}, {datetime.date.today()}\n")
    print(f"| what has changed after a stop | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for kind in KINDS:
        for title, made in rows(kind):
            print(f"| {title} | {' | '.join('' if c is None else made(c[kind]) for c in columns.values())} |")
    if chosen.raw:
        chosen.raw.write_text(json.dumps(columns))


if __name__ == "__main__":
    main()
