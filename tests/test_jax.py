"""Batches in JAX."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from counting import COUNT, NAMES, laid_out, numbers, reader_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from dynamic import ArgumentError, StateError, StateMismatch, as_batch, as_tensor

jax = pytest.importorskip("jax", reason="jax is not installed")

from dynamic.jax import Loader, as_jax  # noqa: E402

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_shapes_and_dtypes_stay(dtype):
    array = (np.arange(12).reshape(2, 2, 3) % 5).astype(dtype)
    array.flags.writeable = False
    for data in (as_batch(array), as_batch(list(array)), as_tensor(array)):
        for found in (data.jax(), as_jax(data)):
            assert isinstance(found, jax.Array)
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert np.array_equal(np.asarray(found), array)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_nothing_is_halved_silently(dtype):
    data = as_tensor(np.array([2**40], dtype))
    with pytest.raises(ArgumentError, match=rf"of at most 32 bits; got {dtype}"):
        as_jax(data)
    with jax.enable_x64(True):
        assert as_jax(data).tolist() == [2**40]


def test_ragged_batches_are_padded_or_refused():
    ragged = as_batch([np.ones(2, np.uint8), np.ones(1, np.uint8)])
    assert as_jax(ragged, pad=True).tolist() == ragged.jax(pad=True).tolist() == [[1, 1], [1, 0]]
    for call in (lambda: as_jax(ragged), ragged.jax):
        with pytest.raises(ValueError, match="shape"):
            call()
    with pytest.raises(ArgumentError, match="'data' must be a Batch or a Tensor"):
        as_jax([1, 2])


def test_importing_it_takes_no_jax():
    subprocess.run([sys.executable, "-c", "import sys, dynamic.jax; assert 'jax' not in sys.modules"], check=True)


# The loader


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def listed(batches):
    return [{name: value.tolist() for name, value in batch.items()} for batch in batches]


def flat(batches):
    return [x for batch in batches for x in batch["data"].ravel().tolist()]


@pytest.mark.parametrize("depth", [0, 2])
def test_epochs_are_whole_and_each_place_can_be_gone_on_from(folder, depth):
    for source, outputs in ((lambda: numbers(folder), NAMES), (reader_of(folder), NAMES[:2])):
        made = Loader(source, output_map=outputs, depth=depth)
        assert (len(made), made.epoch) == (6, 0)
        states, epochs = [made.state_dict()], []
        for _ in range(2):
            epochs.append([])
            for batch in made:
                assert all(isinstance(value, jax.Array) for value in batch.values())
                epochs[-1] += listed([batch])
                states.append(json.loads(json.dumps(made.state_dict())))
            assert sorted(x for batch in epochs[-1] for (x,) in batch["data"]) == list(range(COUNT))
        assert made.epoch == 2
        for taken, state in enumerate(states[:-1]):
            made.load_state_dict(state)
            epoch, place = divmod(taken, 6)
            assert made.epoch == epoch
            assert [listed(made) for _ in range(2 - epoch)] == [epochs[epoch][place:], *epochs[epoch + 1 :]][
                : 2 - epoch
            ]


@examples(1 / 2)
@given(stop=st.integers(0, 5), sizes=st.tuples(*[st.integers(1, 4)] * 2), shards=st.integers(1, 3),
       others=st.integers(1, 3))  # fmt: skip
def test_a_loader_goes_on_with_other_ranks_and_batches(folder, stop, sizes, shards, others):
    def made(size, rank, ranks):
        return Loader(reader_of(folder, shard_id=rank, num_shards=ranks), batch_size=size)

    before = [made(sizes[0], rank, shards) for rank in range(shards)]
    found = [x for loader in before for x in flat(itertools.islice(loader, stop))]
    after = [made(sizes[1], rank, others) for rank in range(others)]
    for loader in after:
        loader.load_state_dict(before[-1].state_dict())
    assert len({loader.epoch for loader in after}) == 1
    found = [] if after[0].epoch else found
    assert sorted(found + [x for loader in after for x in flat(loader)]) == list(range(COUNT))


@pytest.mark.parametrize("stop", [1, 4, 6])
@pytest.mark.parametrize("workers", [0, 2])
def test_states_pass_between_loaders_of_jax_and_torch(folder, stop, workers):
    pytest.importorskip("torch", reason="torch is not installed")
    from dynamic.pytorch import Loader as OfTorch

    def torchs():
        return OfTorch(reader_of(folder), batch_size=4, num_workers=workers)

    for first, second in ((Loader(reader_of(folder), batch_size=4), torchs()), (torchs(), Loader(reader_of(folder)))):
        taken = list(itertools.islice(first, stop))  # an epoch has 6
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert second.epoch == stop // 6
        given = [] if second.epoch else taken
        found = [int(x) for batch in [*given, *second] for x in np.asarray(batch["data"]).ravel()]
        assert sorted(found) == list(range(COUNT))


def test_a_step_and_an_error_at_its_batch(folder):
    def step(data, labels):
        if 7 in data.numpy():
            raise RuntimeError("a bad sample")
        return {"twice": data * 2}

    whole = listed(Loader(reader_of(folder)))
    bad = next(n for n, batch in enumerate(whole) if [7] in batch["data"])
    made, found = Loader(reader_of(folder), step), []
    with pytest.raises(RuntimeError, match="a bad sample"):
        for batch in made:
            found.append(batch["twice"].tolist())
    assert found == [[[2 * x] for (x,) in batch["data"]] for batch in whole[:bad]]
    mended = Loader(reader_of(folder))
    mended.load_state_dict(made.state_dict())
    assert listed(mended) == whole[bad:]
    assert made.epoch == 1
    made.load_state_dict(made.state_dict())
    with pytest.raises(RuntimeError, match="a bad sample"):
        list(made)
    assert made.epoch == 1  # as after one at another batch
    with pytest.raises(ArgumentError, match="got one that returned 1 output. Return a dict"):
        list(Loader(reader_of(folder), lambda data, _: data))


def test_a_loop_that_is_left_leaves_no_thread(folder):
    before = threading.active_count()
    made = Loader(reader_of(folder))
    assert len(flat(itertools.islice(made, 2))) == 8
    assert threading.active_count() == before
    assert made.epoch == 1
    left = itertools.islice(made, 1)
    next(left)
    assert threading.active_count() > before
    del left
    assert threading.active_count() == before


def test_batches_are_sharded_over_devices(folder):
    """Of four, which JAX makes of one processor where it is told before it starts."""
    code = f"""
import jax, sys
sys.path.insert(0, {str(folder.parent)!r})
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from counting import reader_of
from dynamic import ArgumentError
from dynamic.jax import Loader
import pathlib, numpy
folder = pathlib.Path({str(folder)!r})
sharding = NamedSharding(Mesh(numpy.array(jax.devices()), ("data",)), PartitionSpec("data"))
found = []
for batch in Loader(reader_of(folder, last_batch="drop"), sharding=sharding):
    assert batch["data"].sharding == sharding and batch["data"].shape == (4, 1), batch
    assert {{shard.data.shape for shard in batch["data"].addressable_shards}} == {{(1, 1)}}
    found += batch["data"].ravel().tolist()
assert len(found) == len(set(found)) == 20
try:
    list(Loader(reader_of(folder), sharding=sharding))
except ArgumentError as error:
    print(error)
"""
    root = Path(__file__).parent
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
                   "PYTHONPATH": f"{root.parent}{os.pathsep}{root}"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "batches of 4 samples with a sharding; got one of 3. Give the reader last_batch='drop'" in done.stdout, done


def test_some_outputs_are_padded(folder):
    def step(data, _):
        rows = as_batch([np.ones(1 + i, np.uint8) for i in range(len(data))])
        return {"rows": rows, "id": data.origin.ids.astype("uint32")}

    batch = next(iter(Loader(reader_of(folder), step, batch_size=3, dynamic_shape=["rows"])))
    assert batch["rows"].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert batch["id"].shape == (3,)
    with pytest.raises(ArgumentError, match="'dynamic_shape' must be True for output 'rows'"):
        next(iter(Loader(reader_of(folder), step, batch_size=3)))


def test_what_a_loader_refuses(folder):
    for arguments, told in [
        ({"step": 5}, "'step' must be a function"), ({"depth": -1}, "'depth'"), ({"output_map": "x"}, "'output_map'"),
        ({"source": 5}, "'source'"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            Loader(**{"source": reader_of(folder), **arguments})
    made = Loader(reader_of(folder))
    with pytest.raises(StateError, match="not a state"):
        made.load_state_dict({})
    with pytest.raises(StateMismatch, match="workers: 2 in the state"):
        made.load_state_dict({**made.state_dict(), "workers": 2})
    with pytest.raises(StateMismatch, match="of a pipeline"):
        made.load_state_dict(Loader(lambda: numbers(folder)).state_dict())


def test_the_example_of_the_page(folder, tmp_path):
    """It is stopped in the middle of an epoch, and goes on from what Orbax saved."""
    pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")
    page = (Path(__file__).parent.parent / "docs" / "trainers.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "from dynamic.jax" in block]
    seen: list[list[int]] = []

    def run(stop):
        def train(data, labels):
            if len(seen) == stop:
                raise KeyboardInterrupt
            seen.append(data.ravel().tolist())
            return {"weights": data}

        exec(code, {"root": tmp_path, "augmented": lambda _: numbers(folder), "train": train})

    code = code.replace("Loader(lambda", f"Loader(output_map={NAMES}, source=lambda")
    with pytest.raises(KeyboardInterrupt):
        run(8)
    run(99)
    assert seen == [x["data"].ravel().tolist() for loader in [Loader(lambda: numbers(folder), output_map=NAMES)]
                    for _ in range(3) for x in loader]  # fmt: skip


def test_samples_drawn_by_weights_come_with_draws_of_their_own():
    """A loop over a reader with weights, stopped and gone on with another batch size, gives the same arrays."""
    from dynamic import random, readers

    def made():
        return readers.Map(dataset=np.arange(9, dtype=np.float32), weights=np.arange(9), num_samples=24, seed=1)

    def rows(reader, batch_size, steps=None):
        rng, found = random.RNG(3), []
        for (batch,) in itertools.islice(reader.next_epoch(batch_size), steps):
            moved = as_jax(batch) + as_jax(random.uniform(rng=rng.keyed(batch)["shift"]))
            found += moved.tolist()
        return found

    expected = rows(made(), 24)
    assert len(set(expected)) == 24
    reader = made()
    first = rows(reader, 5, 1)
    later = made()
    later.set_state(reader.get_state())
    assert first + rows(later, 7) == expected
