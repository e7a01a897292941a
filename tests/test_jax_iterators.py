"""DALI's iterators for JAX, and its functions of JAX and PyTorch in pipelines."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from counting import COUNT, FILES, NAMES, by_sample, laid_out, numbers

from dynamic import ArgumentError, as_tensor
from dynamic.pipeline import Pipeline, fn, pipeline_def

jax = pytest.importorskip("jax", reason="jax is not installed")

from dynamic.jax import (  # noqa: E402
    DALIGenericIterator,
    DALIGenericPeekableIterator,
    clu,
    data_iterator,
    peekable_data_iterator,
)
from dynamic.jax.fn import jax_function  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def flat(batches):
    return [x for batch in batches for x in batch["data"].ravel().tolist()]


@pytest.mark.parametrize(("policy", "batches"), [("fill", 6), ("drop", 5)])
@pytest.mark.parametrize("kind", [DALIGenericIterator, DALIGenericPeekableIterator])
def test_epochs_are_whole(folder, policy, batches, kind):
    with numbers(folder) as pipe:
        made = kind(pipe, NAMES, reader_name="reader", auto_reset=True, last_batch_policy=policy)
        assert len(made) == batches
        for _ in range(2):
            epoch = list(made)
            assert all(isinstance(x, jax.Array) and len(x) == 4 for batch in epoch for x in batch.values())
            assert len(epoch) == batches
            found = flat(epoch)
            assert len(set(found)) == (COUNT if policy == "fill" else 20)
            assert policy == "drop" or found[-1] == found[-2]


def test_an_iterator_goes_on_in_mid_epoch(folder):
    with numbers(folder) as pipe:
        made = DALIGenericIterator(pipe, NAMES, reader_name="reader")
        first = [next(made) for _ in range(2)]
        checkpoints = made.checkpoints()
        rest = list(made)
    with numbers(folder, checkpoint=checkpoints[0]) as pipe:
        again = list(DALIGenericIterator(pipe, NAMES, reader_name="reader"))
    assert [batch["draw"].tolist() for batch in again] == [batch["draw"].tolist() for batch in rest]
    assert sorted(set(flat([*first, *rest]))) == list(range(COUNT))


def test_a_source_ends_an_epoch():
    def numbers_of_samples():
        return fn.cast(fn.external_source(by_sample, batch=False), dtype="int32")

    made = DALIGenericIterator(Pipeline(3, 1, None, function=numbers_of_samples), ["data"], auto_reset="yes")
    for epoch in range(2):
        found = [batch["data"].tolist() for batch in made]
        assert [x for batch in found for x in batch][:6] == [[i, epoch] for i in range(6)]


def test_the_next_batch_can_be_looked_at(folder):
    with numbers(folder) as pipe:
        made = DALIGenericPeekableIterator(pipe, NAMES, reader_name="reader")
        assert {name: spec.shape for name, spec in made.element_spec.items()} == {
            "data": (4, 1), "label": (4, 1), "draw": (4,)
        }  # fmt: skip
        looked, later = made.peek(), made.peek_async()
        assert looked is made.peek() is later.result()
        with pytest.raises(RuntimeError, match="take the batch that was peeked at"):
            made.checkpoints()
        assert next(iter(made)) is looked
        assert made.checkpoints()
        rest = [next(made) for _ in range(5)]
        assert sorted(set(flat([looked, *rest]))) == list(range(COUNT))
        assert made.is_nonpadding.tolist() == [True, True, True, False]
        with pytest.raises(StopIteration):
            made.peek()


def test_padding_is_told_of_every_batch(folder):
    with numbers(folder) as pipe:
        made = DALIGenericPeekableIterator(pipe, NAMES, reader_name="reader", auto_reset=True)
        with pytest.raises(RuntimeError, match="is known after a batch"):
            _ = made.is_nonpadding
        for _ in range(2):
            real = []
            for batch in made:
                real += batch["data"][made.is_nonpadding].ravel().tolist()
            assert sorted(real) == list(range(COUNT))


def test_batches_of_other_shapes_cannot_be_peeked_at():
    def growing():
        return fn.external_source(lambda info: np.zeros((2, info.iteration + 1), np.float32), batch_info=True)

    made = DALIGenericPeekableIterator(Pipeline(2, 1, None, function=growing), ["data"])
    next(made)
    with pytest.raises(ArgumentError, match="'pipelines' must be batches of the shapes and dtypes of the first"):
        next(made)


@pytest.mark.parametrize("make", [data_iterator, peekable_data_iterator, clu.peekable_data_iterator])
def test_iterators_of_functions(folder, make):
    @make(output_map=["data"], reader_name="reader", auto_reset=True)
    def loaded(root, **reader):
        return fn.readers.file(file_root=root, files=FILES, name="reader", **reader)[0]

    made = loaded(folder, batch_size=5, num_threads=1)
    assert isinstance(made, DALIGenericPeekableIterator if "peek" in make.__name__ else DALIGenericIterator)
    assert loaded.__name__ == "loaded"
    found = [next(made), next(made)]
    assert flat(found) == list(range(10))
    rest = loaded(folder, batch_size=5, num_threads=1, checkpoints=made.checkpoints())
    assert flat([next(rest)]) == list(range(10, 15))


@pytest.mark.parametrize(("arguments", "told"), [
    ({"last_batch_policy": "partial"}, "'last_batch_policy' must be FILL or DROP"),
    ({"devices": [1, 2]}, "'devices' must be one for each of the 1 pipelines; got 2"),
    ({"devices": [1], "sharding": object()}, "'devices' must be left out with sharding="),
    ({"output_map": "data"}, "'output_map' must be a list of distinct names"),
])  # fmt: skip
def test_wrong_arguments_are_refused(folder, arguments, told):
    with numbers(folder) as pipe, pytest.raises(ArgumentError, match=told):
        DALIGenericIterator(pipe, **{"output_map": NAMES, "reader_name": "reader", **arguments})


DEVICES = """
import sys, jax, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from counting import COUNT, FILES
from dynamic.jax import DALIGenericIterator, data_iterator, peekable_data_iterator
from dynamic.pipeline import fn

folder = sys.argv[1]
mesh = Mesh(numpy.array(jax.devices()), ("data",))
sharding = NamedSharding(mesh, PartitionSpec("data"))

def loaded(shard_id=0, num_shards=1):
    return fn.readers.file(file_root=folder, files=FILES, name="reader", shard_id=shard_id, num_shards=num_shards)[0]

how = {"output_map": ["data"], "reader_name": "reader"}
made = data_iterator(loaded, sharding=sharding, **how)(batch_size=8, num_threads=1)
batches = list(made)
assert len(batches) == 3 and all(b["data"].sharding == sharding and b["data"].shape == (8, 1) for b in batches)
assert {x for b in batches for x in b["data"].ravel().tolist()} == set(range(COUNT))

looking = peekable_data_iterator(loaded, sharding=sharding, **how)(batch_size=8, num_threads=1)
real = [x for b in looking for x in numpy.asarray(b["data"])[numpy.asarray(looking.is_nonpadding)].ravel().tolist()]
assert sorted(real) == list(range(COUNT)), real

made = data_iterator(loaded, devices=jax.devices(), **how)(batch_size=8, num_threads=1)
batches = list(made)
assert all(b["data"].shape == (4, 2, 1) for b in batches)
assert len({d for b in batches for d in b["data"].devices()}) == 4
summed = jax.pmap(lambda x: jax.lax.psum(x.sum(), "i"), axis_name="i")(batches[0]["data"].astype("int32"))
assert summed.shape == (4,) and int(summed[0]) == int(numpy.asarray(batches[0]["data"]).astype(int).sum())
made = data_iterator(loaded, devices=jax.devices(), **how)
first = made(batch_size=8, num_threads=1)
next(first)
rest = list(made(batch_size=8, num_threads=1, checkpoints=first.checkpoints()))
assert [b["data"].tolist() for b in rest] == [b["data"].tolist() for b in batches[1:]]

one = data_iterator(loaded, pmap_compatible=True, **how)(batch_size=4, num_threads=1)
assert next(one)["data"].shape == (1, 4, 1)
try:
    data_iterator(loaded, sharding=sharding, **how)(batch_size=6, num_threads=1)
except TypeError as error:
    print(error)
"""


def test_batches_for_several_devices(folder):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
                   "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", DEVICES, folder], capture_output=True, text=True,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "'batch_size' must be a multiple of the number of devices, 4; got int 6" in done.stdout


# Functions of other libraries


def test_functions_of_jax_in_pipelines():
    @jax_function(output_layouts="HW")
    @jax.jit
    @jax.vmap
    def flipped(image):
        return image[:, ::-1]

    @jax_function(num_outputs=2)
    def both(x, y):
        return x + y, x[:, 0]

    images = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made():
        image = fn.external_source(lambda: images)
        return flipped(image), *both(image, image)

    turned, added, column = made().run()
    assert turned.layout == "HW"
    assert np.array_equal(np.stack(turned.samples), images[:, :, ::-1])
    assert np.array_equal(np.stack(added.samples), images * 2)
    assert np.array_equal(np.stack(column.samples), images[:, 0])


def test_functions_of_pytorch_in_pipelines():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from dynamic.pytorch import TorchPythonFunction, to_torch_tensor
    from dynamic.pytorch.fn import torch_python_function

    arrays = [np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made():
        x = fn.external_source(lambda: arrays)
        one = torch_python_function(x, function=lambda t: t.softmax(0))
        two = TorchPythonFunction(lambda t: (t + 1, t.sum()), num_outputs=2)(x)
        all_ = torch_python_function(x, function=lambda ts: [t - max(map(len, ts)) for t in ts], batch_processing=True)
        return one, *two, all_

    soft, more, total, less = made().run()
    for i, array in enumerate(arrays):
        assert np.allclose(soft.samples[i], np.exp(array) / np.exp(array).sum())
        assert np.array_equal(more.samples[i], array + 1)
        assert total.samples[i] == array.sum()
        assert np.array_equal(less.samples[i], array - 5)
    given = as_tensor(arrays[0])
    copied, shared = to_torch_tensor(given, True), to_torch_tensor(given, False)
    assert isinstance(copied, torch.Tensor)
    assert copied.tolist() == shared.tolist() == arrays[0].tolist()
    copied += 1
    assert given.tolist() == arrays[0].tolist()
