"""Checkpoints as they were saved once, and how runs went on from them, recorded in data/: they must do so for ever.

``python tests/record_checkpoint.py`` records them anew: for a new version of the format, beside what there is of older.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from dynamic import ExternalSource, checkpoint, readers
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG, coin_flip, normal, uniform

DATA = Path(__file__).with_name("data")
#: Of each version, the present one last; all of them went on alike.
SAVED = [DATA / f"checkpoint_{version}.json" for version in (1, 2, 3)]
OF_PIPELINE = [DATA / f"checkpoint_of_pipeline_{version}.json" for version in (1, 2, 3, 4, 5, 6)]
WENT_ON = DATA / "went_on_1.json"
NAMES = [
    *(f"cats/{i}.bin" for i in range(7)),
    *(f"dögs/{i}.bin" for i in range(6)),
    "cats/3.bin",
    "a.bin",
    "cats/3.bin",
]
LABELS = [*([0] * 7), *([1] * 6), 2, 3, 4]
READERS: dict[str, dict[str, Any]] = {
    "shuffled": {"random_shuffle": True, "seed": 7, "shard_id": 1, "num_shards": 3},
    "kept": {"random_shuffle": True, "seed": 2**40 + 1, "shard_id": 1, "num_shards": 2, "stick_to_shard": True},
    "listed": {"shard_id": 0, "num_shards": 2, "pad_last_batch": True},
}


def of_sample(info: Any) -> list[int]:
    if info.idx_in_epoch >= 5:
        raise StopIteration
    return [info.epoch_idx, info.idx_in_epoch]


@pipeline_def(batch_size=3, seed=12, prefetch_queue_depth=2)
def drawn(root: Path, seed: int | None) -> Any:
    files, labels = fn.readers.file(file_root=root, files=NAMES, labels=LABELS, random_shuffle=True, seed=seed)
    return files, labels, fn.random.uniform(range=(-30.0, 30.0)), fn.random.coin_flip()


class Objects:
    """All that the checkpoints are of, over files in a folder."""

    def __init__(self, root: Path, of_pipeline: bytes | None = None) -> None:
        for name in NAMES:
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(name.encode())
        self.readers = {
            name: readers.File(file_root=root, files=NAMES, labels=LABELS, **arguments)
            for name, arguments in READERS.items()
        }
        self.rng = RNG(2**63 + 5)
        self.source = ExternalSource(of_sample, batch=False)
        # Up to version 2 of its state a pipeline's own seed was that of its readers.
        former = of_pipeline is not None and json.loads(of_pipeline)["states"]["pipeline"]["state"]["version"] < 3
        self.pipeline = drawn(root, None if former else 12, checkpoint=of_pipeline)

    def states(self) -> dict[str, Any]:
        """What is saved in one checkpoint, by its name there; a pipeline has its own."""
        return {**self.readers, "rng": self.rng, "source": self.source}

    def begin(self) -> None:
        """Go somewhere in the middle."""
        for reader in self.readers.values():
            for _ in reader.next_epoch(batch_size=2):
                pass
            batches = reader.next_epoch(batch_size=2)
            next(batches), next(batches)
        normal(batch_size=5, rng=self.rng)
        self.source(3), self.source(1)
        self.pipeline.run(), self.pipeline.run()

    def go_on(self) -> dict[str, Any]:
        """What comes until the end of the next epoch: names, labels and numbers."""
        found: dict[str, Any] = {}
        for name, reader in self.readers.items():
            found[name] = [
                [batch.origin.names, labels.tolist(), uniform(rng=self.rng.keyed(batch)["angle"]).tolist()]
                for size in (1, 4)
                for batch, labels in reader.next_epoch(batch_size=size)
            ]
        found["rng"] = [uniform(batch_size=4, rng=self.rng).tolist(), coin_flip(batch_size=9, rng=self.rng).tolist()]
        found["source"] = [self.source(1).tolist(), self.source.get_state()]
        found["pipeline"] = [
            [bytes(sample.array).decode() for sample in files] + [part.tolist() for part in rest]
            for files, *rest in (self.pipeline.run() for _ in range(6))
        ]
        self.pipeline.close()
        return json.loads(json.dumps(found))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        objects = Objects(Path(folder))
        objects.begin()
        checkpoint.save(SAVED[-1], **objects.states())
        OF_PIPELINE[-1].write_bytes(objects.pipeline.checkpoint())
        WENT_ON.write_text(json.dumps(objects.go_on()) + "\n")


if __name__ == "__main__":
    main()
