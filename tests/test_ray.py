"""Batches that a cluster of Ray makes are those of the reader, and every place can be gone on from."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from counting import COUNT, FILES, laid_out, reader_of
from hypothesis import given, settings
from hypothesis import strategies as st
from ray_nodes import connect, started

import dynamic as ndd
from dynamic import ArgumentError, DataError, StateMismatch, as_batch
from dynamic.pipeline._run import columns as outputs_of
from dynamic.ray import _OWN, Loader, Step, _arrays, _batches, _Rows, read
from dynamic.readers import File, Map
from dynamic.readers._order import Order
from dynamic.readers._reader import order_of, take_order

_RAYS_OWN = ("DeprecationWarning", "FutureWarning", "UserWarning")
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}:ray[.]") for kind in _RAYS_OWN]
RNG = ndd.random.RNG(seed=3)
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes on this machine, each with one processor."""
    pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray.data is not installed")
    made = started()
    ray = connect(made.address)
    yield made
    ray.shutdown()
    made.shutdown()


def drawn(data, labels):
    return {"data": data, "label": labels, "draw": ndd.random.uniform(range=(0.0, 1.0), rng=RNG.keyed(data))}


class Drawn:
    """The same in an actor."""

    def __call__(self, data, labels):
        return drawn(data, labels)


def found(batches):
    """The samples of batches, their labels and draws."""
    return [
        row
        for batch in batches
        for row in zip(*(batch[name].numpy().ravel().tolist() for name in ("data", "label", "draw")), strict=True)
    ]


def of_one_process(folder, epoch=0):
    """The same of a loop."""
    reader = reader_of(folder)
    reader.seek(0, epoch)
    return found(drawn(*batch) for batch in reader.next_epoch(4))


def any_size(folder):
    return File(file_root=folder, files=FILES, random_shuffle=True, seed=5)


def columns_of(reader, size):
    """The columns of the rest of an epoch, batch by batch, as the cluster has them."""
    for outputs in reader.next_epoch(size):
        n, origin = len(outputs[0]), outputs[0].origin
        own = {"epoch": np.full(n, origin.epoch, np.uint64), "position": np.full(n, reader._progress.place.position)}
        own |= {"sample_id": origin.ids, "sample_name": np.array(origin.names)}
        yield own | _arrays(dict(zip(("data", "label"), outputs, strict=True)))


# Without a cluster


def test_importing_it_takes_no_ray():
    subprocess.run([sys.executable, "-c", "import sys, dynamic.ray; assert 'ray' not in sys.modules"], check=True)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 6), cuts=st.lists(st.integers(0, COUNT), max_size=8))
def test_batches_are_put_together_however_rows_are_cut(folder, size, cuts):
    whole = list(columns_of(any_size(folder), size))
    rows = {name: np.concatenate([columns[name] for columns in whole]) for name in whole[0]}
    bounds = [0, *sorted(cuts), COUNT]

    class Cut:
        def iter_batches(self, **_):
            return ({k: v[a:b] for k, v in rows.items()} for a, b in itertools.pairwise(bounds))

    taken = _Rows(Cut(), 0)
    for expected in whole:
        columns = taken.of(int(expected["position"][0]), len(expected["position"]))
        assert {k: v.tolist() for k, v in columns.items()} == {k: v.tolist() for k, v in expected.items()}
    assert taken.of(COUNT + 1, size) is None
    with pytest.raises(RuntimeError, match="out of order"):
        _Rows(Cut(), 0).of(COUNT + 1, size)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), n=st.integers(1, 4), dtype=st.sampled_from(["bool", "uint8", "int64", "float16", "float32"]))
def test_columns_bring_samples_and_layouts_back(data, n, dtype):
    shapes = [data.draw(st.tuples(*[st.integers(0, 3)] * 2)) for _ in range(n)]
    samples = [np.ones((*shape, 2), dtype) for shape in shapes]
    batch = as_batch(samples, layout="HWC")
    origin = dict.fromkeys(_OWN[:3], np.arange(n, dtype=np.uint64) * 0) | {"sample_name": np.array(["a"] * n)}
    again = _batches(origin | _arrays({"data": batch}))["data"]
    assert (again.layout, again.dtype, again.shape) == ("HWC", batch.dtype, batch.shape)
    assert all(np.array_equal(a, b) for a, b in zip(again.samples, samples, strict=True))


def test_a_step_draws_for_its_samples_whatever_comes_together(folder):
    expected = of_one_process(folder)
    for size in (1, 5, COUNT):
        results = [Step(drawn)(columns) for columns in columns_of(any_size(folder), size)]
        assert found([_batches(columns) for columns in results]) == expected


def test_a_copy_of_a_reader_takes_the_order_without_sorting(folder, monkeypatch):
    reader = any_size(folder)
    reader.seek(5, 2)
    order, copy = order_of(reader), pickle.loads(pickle.dumps(reader))
    expected = [batch[0].origin.names for batch in reader.next_epoch(4)]
    take_order(copy, order)
    monkeypatch.delattr(Order, "of")
    assert [batch[0].origin.names for batch in copy.next_epoch(4)] == expected


def test_wrong_arguments_are_refused(folder):
    columns = next(columns_of(reader_of(folder), 4))
    for call, message in [
        (lambda: Loader(3), "'source' must be a reader"),
        (lambda: Loader(reader_of(folder), 3), "'step' must be a function of Batches"),
        (lambda: Loader(reader_of(folder), concurrency=2), "'step' must be given with 'concurrency'"),
        (lambda: Loader(reader_of(folder), output_map=["position"]), "names other than epoch, position"),
        (lambda: Loader(File(files=FILES, file_root=folder)), "'batch_size' must be given"),
        (lambda: Step(lambda data, _: data[:1], ["data"])(columns), "as many samples as it takes, 4; got 1 for 'data'"),
        (lambda: Step(None)({"data": columns["data"]}), "rows without epoch"),
        (lambda: Step(None)(columns | {"epoch": np.arange(4)}), "rows of one epoch"),
        (lambda: read(3), "'reader' must be a reader"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            call()
    other = Loader(File(files=FILES[:5], file_root=folder, max_batch_size=4)).state_dict()
    with pytest.raises(StateMismatch):
        Loader(reader_of(folder)).load_state_dict(other)


# On a cluster of two nodes


def test_epochs_are_those_of_one_process_on_both_nodes(cluster, folder):
    def where(data, labels):
        import ray

        time.sleep(0.1)
        node = int(ray.get_runtime_context().get_node_id()[:8], 16)
        return drawn(data, labels) | {"node": as_batch([np.uint32(node)] * len(data))}

    loader, nodes = Loader(reader_of(folder), where), set()
    reader = reader_of(folder)
    assert (len(loader), loader.epoch) == (6, 0)
    for epoch in range(2):
        batches = []
        for batch, _ in zip(loader, reader.next_epoch(4), strict=True):
            batches.append(batch)
            nodes |= set(batch["node"].numpy().tolist())
            assert loader.state_dict()["states"]["reader"] == reader.get_state()  # as of a loop
            assert batch["data"].origin.names == [FILES[int(i)] for i in batch["data"].numpy().ravel()]
        assert found(batches) == of_one_process(folder, epoch)
    assert loader.epoch == 2
    assert len(nodes) == 2


@settings(max_examples=4, deadline=None)
@given(stop=st.integers(1, 5), sizes=st.tuples(*[st.integers(2, 4)] * 2), blocks=st.tuples(*[st.integers(1, 9)] * 2),
       shards=st.integers(1, 2), others=st.integers(1, 2))  # fmt: skip
def test_a_run_goes_on_with_other_blocks_ranks_and_batches(cluster, folder, stop, sizes, blocks, shards, others):
    def made(k, rank, ranks):
        reader = reader_of(folder, shard_id=rank, num_shards=ranks)
        return Loader(reader, drawn, batch_size=sizes[k], blocks=blocks[k])

    before = [made(0, rank, shards) for rank in range(shards)]
    rows = [row for loader in before for row in found(itertools.islice(loader, stop))]
    after = [made(1, rank, others) for rank in range(others)]
    state = json.loads(json.dumps(before[-1].state_dict()))
    for loader in after:
        loader.load_state_dict(state)
    (epoch,) = {loader.epoch for loader in after}
    rows = [] if epoch else rows
    rows += [row for loader in after for row in found(loader)]
    assert sorted(rows) == sorted(of_one_process(folder, epoch))


def test_a_run_goes_on_with_actors(cluster, folder):
    loader = Loader(reader_of(folder), drawn, blocks=2)
    rows = found(itertools.islice(loader, 3))
    actors = Loader(reader_of(folder), Drawn, batch_size=3, concurrency=1)
    actors.load_state_dict(loader.state_dict())
    assert rows + found(actors) == of_one_process(folder)


@pytest.mark.parametrize("arguments", [{"num_cpus": 0.5, "concurrency": 1}, {"num_gpus": 0}])
def test_a_step_runs_where_samples_are_read_or_is_a_stage_of_its_own(cluster, folder, arguments):
    loader = Loader(reader_of(folder), drawn, **arguments)
    assert ("MapBatches" in repr(loader._dataset(reader_of(folder), 4))) == ("num_gpus" in arguments)
    assert found(loader) == of_one_process(folder)


def test_samples_of_many_shapes_come_back_where_blocks_are_cut(cluster, folder):
    import ray

    rows = [np.full((1 + i % 4 // 2, 2000, 3), i, np.uint8) for i in range(17)]
    context = ray.data.DataContext.get_current()
    before, context.target_max_block_size = context.target_max_block_size, 10_000
    try:
        reader = Map(dataset=rows, max_batch_size=4, random_shuffle=True)
        loader = Loader(reader, lambda data: data * 2, output_map=["data"], blocks=2)
        batches = list(loader)
    finally:
        context.target_max_block_size = before
    assert [len(batch["data"]) for batch in batches] == [4, 4, 4, 4, 1]
    reader.seek(0, 0)
    expected = [sample * 2 for (data,) in map(outputs_of, reader.next_epoch(4)) for sample in data.samples]
    for sample, one in zip((sample for batch in batches for sample in batch["data"].samples), expected, strict=True):
        assert np.array_equal(sample, one)


def test_bad_samples_are_skipped_or_named(cluster, tmp_path):
    laid_out(tmp_path)
    whole = [x for x, _, _ in of_one_process(tmp_path)]
    gone = [FILES[int(x)] for x in (*whole[4:8], whole[13])]

    def made(**arguments):
        reader = reader_of(tmp_path, **arguments)
        for name in gone:
            (tmp_path / name).unlink(missing_ok=True)
        return reader

    loader = Loader(made(on_error="skip"), drawn)
    batches = []
    for batch in loader:
        batches.append(batch)
        if len(batches) == 3:
            state = loader.state_dict()
    assert [len(batch["data"]) for batch in batches] == [4, 0, 4, 3, 4, 3]
    loader.load_state_dict(state)
    assert found(loader) == found(batches[3:])
    with pytest.raises(Exception, match=gone[0]) as caught:
        list(Loader(made(), drawn))
    assert isinstance(caught.value, DataError)


def test_rows_of_the_reader_go_through_ray_data(cluster, folder):
    reader = reader_of(folder)
    reader.seek(8)
    dataset = read(reader, blocks=2).map_batches(Step(drawn), batch_size=5)
    rows = dataset.take_all()
    expected = of_one_process(folder)[8:]
    assert [(int(row["data"][0]), int(row["label"][0]), float(row["draw"])) for row in rows] == expected
    assert [row["position"] for row in rows] == [12] * 4 + [16] * 4 + [20] * 4 + [COUNT] * 3
    assert reader.position == 8
    reader.seek(COUNT)
    assert read(reader).count() == 0


def test_the_code_of_the_page_runs(cluster, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    for k in range(6):
        (tmp_path / f"{k % 2}").mkdir(exist_ok=True)
        (tmp_path / f"{k % 2}" / f"{k}.ppm").write_bytes(b"P6 8 8 255 " + bytes([40 * k]) * 192)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(), re.S)
    code, batches = code.replace('"s3://bucket/photos"', "root"), []
    exec(code, {"root": tmp_path, "train": lambda images, labels: batches.append((images, labels))})
    assert [tuple(images.shape) for images, _ in batches] == [(6, 224, 224, 3)] * 3
    assert sorted(batches[0][1].tolist()) == [0, 0, 0, 1, 1, 1]


def test_a_node_that_is_lost_changes_nothing(cluster, folder):
    def slow(data, labels):
        time.sleep(0.3)
        return drawn(data, labels)

    node = cluster.add_node(num_cpus=2, object_store_memory=2**28)
    loader = Loader(reader_of(folder), slow)
    batches = [next(ahead := iter(loader))]
    cluster.remove_node(node, allow_graceful=False)
    batches += ahead
    assert found(batches) == of_one_process(folder)


def test_ray_train_that_is_killed_goes_on_to_the_same_weights(tmp_path):
    for library in ("ray.train", "torch", "skimage", "sklearn"):
        pytest.importorskip(library, reason=f"{library} is not installed", exc_type=ImportError)

    def run(output, *arguments):
        command = [sys.executable, str(ROOT / "examples" / "ray_train.py"), "--output", output, "--steps", "8"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "RAY_worker_niceness": "0"}
        done = subprocess.run([*command, "--every", "2", *arguments], env=environment, cwd=tmp_path,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        return done.returncode, set(re.findall("weights: [0-9a-f]{64}", done.stdout)), done.stdout

    code, whole, text = run("whole")
    assert (code, len(whole)) == (0, 1), text
    code, none, text = run("killed", "--kill-at", "5")
    assert (code, none) == (1, set()), text
    code, found, text = run("killed")
    assert (code, found) == (0, whole), text
    assert "0 steps have been made" not in text
