"""What iterators around pipelines give: run as it is, and with its import lines exchanged by the real DALI."""

from __future__ import annotations

import json
import sys

import torch

from dynamic.pipeline import fn, pipeline_def
from dynamic.pytorch import ClassificationIterator, GenericIterator, LastBatchPolicy, RaggedIterator


@pipeline_def(num_threads=1, device_id=None, seed=3, enable_checkpointing=True)
def numbers(folder, count, shard, shards, pad):
    data, labels = fn.readers.file(file_root=folder, files=[f"{i:02}" for i in range(count)], name="reader",
                                   shard_id=shard, num_shards=shards, pad_last_batch=pad)  # fmt: skip
    return data, labels


@pipeline_def(num_threads=1, device_id=None, enable_checkpointing=True)
def counted(stop):
    def source(info):
        if info.idx_in_epoch == stop:
            raise StopIteration
        return torch.tensor([info.idx_in_epoch]).numpy()

    return fn.external_source(source=source, batch=False)


def plain(batches):
    return [[each["label"].flatten().tolist() for each in batch] for batch in batches]


def epochs(folder, count, size, shards, policy, pad):
    """Length, size, and the labels of three epochs; and of what a checkpoint after each batch of two goes on with."""

    def made(checkpoints=None):
        pipes = [
            numbers(folder, count, k, shards, pad, batch_size=size, checkpoint=checkpoints and checkpoints[k])
            for k in range(shards)
        ]
        return ClassificationIterator(pipes, reader_name="reader", auto_reset=True, last_batch_policy=policy)

    run = made()
    found = [plain(run) for _ in range(3)]
    run, kept = made(), []
    for epoch in range(2):
        for k, _ in enumerate(run, 1):
            kept.append((epoch, k, run.checkpoints()))
    for epoch, k, checkpoints in kept:
        if k < len(found[epoch]):  # at the end of an epoch it may end once more, or not
            rest = plain(made(checkpoints))
            assert rest == found[epoch][k:], (epoch, k, rest, found)
    return [len(run), run.size, found]


def manners(folder):
    """What ends and begins an epoch."""
    pipe = numbers(folder, 7, 0, 1, True, batch_size=2)
    run = GenericIterator(pipe, ["data", "label"], reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL)
    told = [plain(run)]
    for _ in range(2):
        try:
            next(run)
        except StopIteration:
            told.append("ended")
    run.reset()
    batch = run.next()
    told += [
        [(name, str(value.dtype), list(value.shape), value.device.type) for name, value in each.items()]
        for each in batch
    ]
    told.append(plain(run))
    told += [len(run.checkpoints()), run.batch_size if hasattr(run, "batch_size") else None]
    return told


def sized(policy, size):
    """Epochs of a source without an end, of a size that is given; and of one that ends."""
    run = GenericIterator([counted(10**6, batch_size=4)], ["label"], size=size, auto_reset=True,
                          last_batch_policy=policy)  # fmt: skip
    lengths = [len(run), *[len(plain(run)) for _ in range(2)]]
    first = plain(GenericIterator([counted(10**6, batch_size=4)], ["label"], size=size, last_batch_policy=policy))
    ends = GenericIterator([counted(8, batch_size=4)], ["label"], auto_reset=True)
    return [lengths, first, [plain(ends) for _ in range(2)]]


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def ragged(folder):
    _, labels = fn.readers.file(file_root=folder, files=[f"{i:02}" for i in range(7)], name="reader",
                                pad_last_batch=True)  # fmt: skip
    boxes = fn.random.uniform(range=(3.0, 3.00001), shape=fn.cat((labels + 1) % 3, labels % 2 + 1))
    return labels, boxes, fn.reshape(boxes, shape=[-1])


def of_different_shapes(folder, policy):
    """Batches of outputs whose samples have different shapes."""
    tags = RaggedIterator.DENSE_TAG, RaggedIterator.SPARSE_LIST_TAG, RaggedIterator.SPARSE_COO_TAG
    run = RaggedIterator(ragged(folder), ["label", "boxes", "numbers"], reader_name="reader", auto_reset=True,
                         output_types=tags, last_batch_policy=policy)  # fmt: skip
    return [
        [
            each["label"].tolist(), [[list(box.shape), str(box.dtype)] for box in each["boxes"]],
            each["numbers"].coalesce().indices().tolist(), each["numbers"].coalesce().values().round().tolist(),
        ]
        for _ in range(2) for (each,) in run
    ]  # fmt: skip


def main(folder):
    policies = {policy.name: policy for policy in LastBatchPolicy}
    return {
        "manners": manners(folder),
        **{
            f"different shapes {name}": of_different_shapes(folder, policy)
            for name, policy in policies.items()
            if name != "PARTIAL"
        },
        **{f"size {size} {name}": sized(policy, size) for size in (8, 10) for name, policy in policies.items()},
        **{
            f"{count} samples, batches of {size}, {shards} shards, {name}, pad {pad}": epochs(
                folder, count, size, shards, policy, pad
            )
            for count in (7, 8)
            for size in (2, 3)
            for shards in (1, 2)
            for name, policy in policies.items()
            for pad in (False, True)
        },
    }


if __name__ == "__main__":
    json.dump(main(sys.argv[1]), sys.stdout)
