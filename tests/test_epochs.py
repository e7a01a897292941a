"""Epochs as lists: any program of loops gives each of them once, however its loops end, are left and are resumed."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import File

EPOCHS = 3
MOST = 13
NAMES = [f"{i:02d}" for i in range(MOST)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("samples")
    for name in NAMES:
        (root / name).write_bytes(name.encode())
        (root / f"mask of {name}").write_bytes(name.encode())
    return root


class OfReader:
    """A reader, from a state on."""

    def __init__(self, folder, size, arguments, state=None):
        self._reader, self._size = File(file_root=folder, **arguments), size
        if state is not None:
            self._reader.set_state(json.loads(state))

    @property
    def epoch(self):
        return self._reader.epoch

    def next_epoch(self):
        return self._reader.next_epoch(self._size)

    def step(self):
        return self._reader(self._size)

    def length(self, epoch):
        return len(epoch)

    def state(self):
        return json.dumps(self._reader.get_state())


class OfPipeline(OfReader):
    """A pipeline of two readers that belong together, from a checkpoint on."""

    depth = 0

    def __init__(self, folder, size, arguments, state=None):
        masks = arguments | {"files": [f"mask of {name}" for name in arguments["files"]]}

        @pipeline_def(batch_size=size, prefetch_queue_depth=self.depth, seed=3)
        def pairs():
            images, masks_ = (
                fn.readers.file(name=name, file_root=folder, **of)[0]
                for name, of in (("images", arguments), ("masks", masks))
            )
            return images, masks_

        self._pipe = pairs(checkpoint=state)

    @property
    def epoch(self):
        return self._pipe.epoch

    def next_epoch(self):
        return self._pipe.next_epoch()

    def step(self):
        return self._pipe.run()

    def state(self):
        return self._pipe.checkpoint()


class OfPipelineAhead(OfPipeline):
    depth = 2


class OfIterator(OfPipeline):
    """DALI's iterator over such a pipeline. It is one for all epochs, and its length is that of a whole epoch."""

    def __init__(self, *given):
        pytest.importorskip("torch", reason="torch is not installed")
        super().__init__(*given)
        from dynamic.pytorch import GenericIterator, LastBatchPolicy

        policy = {"partial": "PARTIAL", "drop": "DROP", "pad": "FILL"}[given[2]["last_batch"]]
        self._batches = GenericIterator(
            self._pipe, ["images", "masks"], reader_name="images", last_batch_policy=LastBatchPolicy[policy]
        )

    def length(self, epoch):
        return len(self._batches)

    def next_epoch(self):
        return ((each["images"], each["masks"]) for (each,) in self._batches)


class OfIteratorState(OfIterator):
    """The same, by the states that trainers save of their loaders."""

    def __init__(self, folder, size, arguments, state=None):
        super().__init__(folder, size, arguments)
        if state is not None:
            next(self._batches)
            self._batches.load_state_dict(json.loads(state))

    def state(self):
        return json.dumps(self._batches.state_dict())


def samples(batch):
    """The names of the samples of a batch, whose other outputs belong to them."""
    values = [[sample.tolist() for sample in output] for output in batch]
    rows = [[bytes(x).decode() if len(x) > 1 else NAMES[x[0]] for x in row] for row in values]  # or of a label
    assert all(row == rows[0] for row in rows)
    return rows[0]


@st.composite
def settings(draw):
    """A batch size and arguments of readers, with some batch for this shard in some epoch."""
    shards, last_batch = draw(st.integers(1, 3)), draw(st.sampled_from(["partial", "drop", "pad"]))
    size = draw(st.integers(1, 4))
    count = draw(st.integers(shards * size if last_batch == "drop" else shards, MOST))
    return size, {
        "files": NAMES[:count],
        "num_shards": shards,
        "shard_id": draw(st.integers(0, shards - 1)),
        "random_shuffle": draw(st.booleans()),
        "stick_to_shard": draw(st.booleans()),
        "last_batch": last_batch,
        "seed": 5,
    }


class Expected:
    """Each epoch as a list of its batches."""

    def __init__(self, folder, size, arguments):
        self._reader, self._size = File(file_root=folder, **arguments), size
        self._epochs = {}

    def __getitem__(self, epoch):
        if epoch not in self._epochs:
            self._reader.seek(0, epoch)
            self._epochs[epoch] = [samples(batch[:1]) for batch in self._reader.next_epoch(self._size)]
        return self._epochs[epoch]


KINDS = pytest.mark.parametrize(("kind", "share"), [(OfReader, 3), (OfPipeline, 1), (OfPipelineAhead, 0.2)])


@KINDS
def test_any_program_of_loops_gives_epochs_one_after_another(folder, kind, share):
    steps = st.tuples(st.sampled_from(["for", "len", "take", "step", "restore"]), st.integers(1, 5))

    @examples(share)
    @given(setting=settings(), program=st.lists(steps, max_size=12))
    def run(setting, program):
        expected, source = Expected(folder, *setting), kind(folder, *setting)
        epoch, place, over = 0, 0, False
        for step, count in program:
            if step == "restore":
                source, over = kind(folder, *setting, source.state()), False
                continue
            if over:
                epoch, place, over = epoch + 1, 0, False
            while step == "step" and not expected[epoch][place:]:
                epoch, place = epoch + 1, 0
            left = expected[epoch][place:]
            if step == "step":
                assert samples(source.step()) == left[0]
                place, over = place + 1, len(left) == 1
                assert source.epoch == epoch + over
                continue
            loop = source.next_epoch()
            if step == "for":
                found = [samples(batch) for batch in loop]
                epoch, place = epoch + 1, 0
            elif step == "len":
                found = [samples(next(loop)) for _ in range(len(loop))]
                place, over = len(expected[epoch]), True
            else:
                left, more = left[:count], count > len(left)
                found = [samples(batch) for batch in itertools.islice(loop, count)]
                place, over = place + len(left), bool(left) and place + len(left) == len(expected[epoch])
                if more:
                    epoch, place, over = epoch + 1, 0, False
            assert found == left
            assert source.epoch == epoch + over
            del loop

    run()


def ended_so(way, loop, length, count):
    """The batches of a loop that ends in some way: when there are no more, at its length, or at the last batch."""
    if way == "len":
        yield from (batch for _, batch in zip(range(length), loop, strict=False))
        return
    for number, batch in enumerate(loop, 1):
        yield batch
        if way == "break" and number == count:
            break


@pytest.mark.parametrize(("kind", "share"), [*KINDS.args[1], (OfIterator, 0.5), (OfIteratorState, 0.5)])
def test_training_gives_every_epoch_once_however_it_is_stopped(folder, kind, share):
    """The README's loop: killed after any batches and started again, or left and run again where it is."""
    ways = st.lists(st.sampled_from(["for", "len", "break"]), min_size=1, max_size=4)

    @examples(share)
    @given(setting=settings(), ways=ways, stops=st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=6))
    def run(setting, ways, stops):
        expected, source = Expected(folder, *setting), kind(folder, *setting)
        found, state, ways = {epoch: [] for epoch in range(EPOCHS)}, None, itertools.cycle(ways)
        for stop, killed in [*stops, (None, True), (None, False)]:
            taken = 0
            for epoch in range(source.epoch, EPOCHS):
                loop, way = source.next_epoch(), next(ways)
                length = source.length(loop) if way == "len" else None
                for batch in ended_so(way, loop, length, len(expected[epoch]) - len(found[epoch])):
                    found[epoch] += [names] if (names := samples(batch)) else []
                    state, taken = source.state(), taken + 1
                    if taken == stop:
                        break
                if taken == stop:
                    break
            if killed:
                source = kind(folder, *setting, state)
        assert found == {epoch: expected[epoch] for epoch in range(EPOCHS)}

    run()
