"""States go through what trainers save them with, and checkpoints of DALI go on here."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import killed
import pytest
from counting import COUNT, laid_out, numbers
from dali_oracle import Oracle, dali_fixture  # noqa: F401

from dynamic import checkpoint
from dynamic.checkpoint import Checkpoint
from dynamic.errors import StateError, StateWarning
from dynamic.random import RNG, uniform
from dynamic.readers import File

pytestmark = pytest.mark.slow

NAMES = [f"{i}.bin" for i in range(9)]


@pytest.fixture
def made(tmp_path):
    """A reader and a generator in the middle of their work, and a function that makes fresh ones."""
    for name in NAMES:
        (tmp_path / name).write_bytes(name.encode())

    def fresh():
        return {"reader": File(files=NAMES, file_root=tmp_path, random_shuffle=True), "rng": RNG(5)}

    objects = fresh()
    objects["reader"](4)
    uniform(rng=objects["rng"])
    return objects, fresh


def returned(states, fresh):
    """Fresh objects with the states."""
    objects = fresh()
    for name, value in objects.items():
        value.load_state_dict(states[name])
    return objects


def assert_go_on_alike(first, second):
    assert first["rng"].state == second["rng"].state
    assert first["reader"].get_state() == second["reader"].get_state()
    rest = [[name for jpegs, _ in objects["reader"].next_epoch(2) for name in jpegs.origin.names]
            for objects in (first, second)]  # fmt: skip
    assert rest[0] == rest[1]


@pytest.mark.parametrize("moved", [lambda s: json.loads(json.dumps(s, allow_nan=False)), copy.deepcopy,
                                   lambda s: pickle.loads(pickle.dumps(s))])  # fmt: skip
def test_states_are_plain_values(made, moved):
    objects, fresh = made
    states = {name: value.state_dict() for name, value in objects.items()}
    assert moved(states) == states
    assert_go_on_alike(returned(moved(states), fresh), objects)


def test_torch_saves_and_loads_states_without_running_code(made, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    objects, fresh = made
    torch.save({name: value.state_dict() for name, value in objects.items()}, tmp_path / "states.pt")
    states = torch.load(tmp_path / "states.pt", weights_only=True)
    assert_go_on_alike(returned(states, fresh), objects)


def test_torchs_distributed_checkpoint_saves_and_loads_objects(made, tmp_path):
    distributed = pytest.importorskip("torch.distributed.checkpoint", reason="torch is not installed")
    objects, fresh = made
    loaded = fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, that there is no process group
        distributed.save(dict(objects), checkpoint_id=str(tmp_path / "dcp"))
        distributed.load(loaded, checkpoint_id=str(tmp_path / "dcp"))
    assert_go_on_alike(loaded, objects)


def test_orbax_saves_and_loads_states(made, tmp_path):
    orbax = pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")
    objects, fresh = made
    states = {name: value.state_dict() for name, value in objects.items()}
    with orbax.Checkpointer(orbax.JsonCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "orbax", states)
        restored = checkpointer.restore(tmp_path / "orbax")
    assert restored == states
    assert_go_on_alike(returned(restored, fresh), objects)


# Runs of trainers, which are killed in the middle of an epoch and started again

ROOT = Path(__file__).parent.parent
EPOCHS = 3
SECONDS = 900  # after which a run has failed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def needs(*modules):
    """Skip a test where there is no such module, without importing it: Lightning beside tensorflow ends the process."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


def run_of(trainer, folder, output, *arguments, processes=1, launched=False):
    """Run `trainers_job.py`, under torchrun where the trainer does not launch processes itself."""
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if launched else []
    command += [str(ROOT / "tests" / "trainers_job.py"), trainer, str(folder), str(output)]
    command += ["--processes", str(processes), *map(str, arguments)]
    of_here = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
               "MASTER_ADDR": "127.0.0.1"}  # fmt: skip
    output.mkdir(exist_ok=True)
    return subprocess.run([sys.executable, *command], env={**os.environ, **of_here}, timeout=SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def noted(output, rank=0):
    """The batches that a process has trained on, each with the epoch that the trainer was in."""
    return [json.loads(line)[:2] for line in (output / f"{rank}.jsonl").read_text().splitlines()]


def expected(folder, rank=0, processes=1):
    """The same of a process that is given every epoch whole."""
    found = []
    with numbers(folder, shard_id=rank, num_shards=processes) as pipe:
        for epoch in range(EPOCHS):
            found += [[epoch, data.numpy().ravel().tolist()] for data, *_ in pipe.next_epoch()]
    return found


def assert_killed_and_gone_on(trainer, folder, output, *arguments, kill, place, processes=1, launched=False):
    """A run that is killed after some steps, and started again at a place, trains on what one would that is not."""
    how = {"processes": processes, "launched": launched}
    killed = run_of(trainer, folder, output, *arguments, "--kill-at", kill, **how)
    assert killed.returncode, killed.stdout
    finished = run_of(trainer, folder, output, *arguments, **how)
    assert finished.returncode == 0, finished.stdout
    for rank in range(processes):
        whole = expected(folder, rank, processes)
        assert noted(output, rank) == whole[:kill] + whole[place:], finished.stdout


def test_epochs_are_whole_and_in_new_orders(folder):
    """What the runs below are compared with."""
    for processes in (1, 2):
        for epoch in range(EPOCHS):
            ranks = [
                [batch for e, batch in expected(folder, rank, processes) if e == epoch] for rank in range(processes)
            ]
            assert len({len(batches) for batches in ranks}) == 1
            assert sorted(x for batches in ranks for batch in batches for x in batch) == list(range(COUNT))
    epochs = [batch for _, batch in expected(folder)]
    assert len({str(epochs[6 * e : 6 * e + 6]) for e in range(EPOCHS)}) == EPOCHS


@pytest.mark.parametrize(("loader", "workers", "save"), [
    ("Loader", 0, "steps"), ("Loader", 2, "steps"), ("Loader", 2, "epochs"), ("torchdata", 2, "steps"),
    ("torch", 0, "epochs"), ("iterator", 0, "steps"), ("iterator", 0, "epochs"),
])  # fmt: skip
def test_lightning(folder, tmp_path, loader, workers, save):
    """Also from a checkpoint at the end of an epoch, which is where Lightning makes them by default."""
    needs("lightning")
    place = 8 if save == "steps" else 6
    arguments = ["--loader", loader, "--workers", workers, "--save", save]
    if loader == "torch":  # which has no state that Lightning knows: it begins with the first epoch
        whole = run_of("lightning", folder, tmp_path / "whole", *arguments)
        assert noted(tmp_path / "whole") == expected(folder), whole.stdout
        return
    assert_killed_and_gone_on("lightning", folder, tmp_path / "run", *arguments, kill=9, place=place)


def test_lightnings_own_processes(folder, tmp_path):
    needs("lightning")
    assert_killed_and_gone_on("lightning", folder, tmp_path / "run", kill=5, place=4, processes=2)


@pytest.mark.parametrize(("loader", "workers"), [("Loader", 0), ("Loader", 2), ("torch", 2)])
def test_the_trainer_of_transformers(folder, tmp_path, loader, workers):
    needs("transformers", "accelerate")
    arguments = ["--loader", loader, "--workers", workers, "--prepare"]
    assert_killed_and_gone_on("transformers", folder, tmp_path / "run", *arguments, kill=9, place=8)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_the_trainer_of_transformers_tells_no_epoch_is_named(folder, tmp_path, workers):
    needs("transformers", "accelerate")
    arguments = ["--loader", "Loader", "--workers", workers]
    told = "Accelerate passes over 2 batches of epoch 0, as no other was told"
    killed = run_of("transformers", folder, tmp_path / "run", *arguments, "--kill-at", 9)
    assert killed.returncode
    assert told not in killed.stdout
    finished = run_of("transformers", folder, tmp_path / "run", *arguments)
    assert (finished.returncode, finished.stdout.count(told)) == (0, 1), finished.stdout


def test_fabric(folder, tmp_path):
    needs("lightning")
    assert_killed_and_gone_on("fabric", folder, tmp_path / "run", "--workers", 2, kill=9, place=8)


@pytest.mark.parametrize("workers", [0, 2])
def test_accelerate(folder, tmp_path, workers):
    """It saves the loader's state after every second step, and after the last of an epoch."""
    needs("accelerate")
    arguments = ["--prepare", "--workers", workers]
    kill, place = (5, 5) if workers else (7, 6)  # three batches an epoch
    assert_killed_and_gone_on(
        "accelerate", folder, tmp_path / "run", *arguments, kill=kill, place=place, processes=2, launched=True
    )


def test_accelerate_deals_out_all_samples_or_none(folder, tmp_path):
    needs("accelerate")
    how = {"processes": 2, "launched": True}
    twice = run_of("accelerate", folder, tmp_path / "twice", "--loader", "torch", "--prepare", **how)
    assert twice.returncode
    assert "one of 2 shards, which a DataLoaderDispatcher would share out again" in twice.stdout
    assert not list((tmp_path / "twice").glob("*.jsonl"))
    once = run_of("accelerate", folder, tmp_path / "once", "--loader", "torch", "--prepare", "--whole", **how)
    assert once.returncode == 0, once.stdout
    for epoch in range(EPOCHS):
        found = [batch for rank in range(2) for e, batch in noted(tmp_path / "once", rank) if e == epoch]
        assert {x for batch in found for x in batch} == set(range(COUNT))
        assert sum(map(len, found)) == COUNT + 1  # Accelerate gives all processes as many samples
    whole = run_of("accelerate", folder, tmp_path / "whole", "--prepare", "--whole", **how)
    assert whole.returncode
    assert "must be of a reader with 2 shards; got one of all samples in each process" in whole.stdout


@pytest.mark.parametrize(("before", "after", "workers"), [(2, 1, 0), (1, 2, 2)])
def test_another_number_of_processes_goes_on(folder, tmp_path, before, after, workers):
    pytest.importorskip("torch", reason="torch is not installed")
    output, kill = tmp_path / "run", 8 // before  # in the second epoch
    arguments = ["--workers", workers]
    killed = run_of("torchrun", folder, output, *arguments, "--kill-at", kill, processes=before, launched=True)
    assert killed.returncode, killed.stdout
    parts = [[noted(output, rank) for rank in range(before)]]
    for rank in range(before):
        (output / f"{rank}.jsonl").unlink()
    finished = run_of("torchrun", folder, output, *arguments, processes=after, launched=True)
    assert finished.returncode == 0, finished.stdout
    parts.append([noted(output, rank) for rank in range(after)])
    lines = [line for ranks in parts for rank in ranks for line in rank]
    for epoch in range(EPOCHS):
        assert sorted(x for e, batch in lines if e == epoch for x in batch) == list(range(COUNT))


@pytest.mark.parametrize("trainer", killed.MODULES)
def test_training_that_is_killed_at_random_ends_with_the_same_weights(trainer):
    needs("torch", *{name.partition(".")[0] for name in killed.MODULES[trainer]})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "killed.py"), trainer, "--kills", "2"]
    done = subprocess.run(command, env=environment, timeout=SECONDS, text=True, capture_output=True)
    assert f"{trainer}: 2 kills" in done.stdout, done.stderr
    assert "same batches, same weights" in done.stdout


# Checkpoints of DALI

#: Written by DALI 2.4: an RNG of seed 1234 after one draw; and with a reader in the middle of an epoch.
OF_RNG = (
    '{"version": 2, "states": {"rng": {"state": "Philox_00000000000004D2_0000000000000000:0000000000000001_3", '
    '"type": "RNG"}}}'
)
OF_BOTH = (
    '{"version": 2, "states": {"reader": {"state": "Cg8KCTUzNzQxMzE4MhAAGAI=", "type": "File"}, "rng": {"state": '
    '"Philox_00000000000004D2_0000000000000000:0000000000000001_3", "type": "RNG"}}}'
)
#: What DALI draws next.
NEXT = [0.7710539102554321, 0.8838280439376831, 0.9778004884719849]


def test_dalis_generators_go_on(tmp_path):
    path = tmp_path / "dali-{seq}.json"
    (tmp_path / "dali-0.json").write_text(OF_RNG)
    for load in (lambda rng: checkpoint.load(tmp_path / "dali-0.json", rng=rng),
                 lambda rng: checkpoint.load_latest(path, rng=rng)):  # fmt: skip
        rng = RNG(1)
        load(rng)
        assert uniform(batch_size=3, rng=rng).tolist() == NEXT
    states, rng = Checkpoint(), RNG(1)
    states.load(path)
    states.register(rng, "rng")
    assert uniform(batch_size=3, rng=rng).tolist() == NEXT
    unknown = json.loads(OF_RNG)
    unknown["states"]["rng"]["type"] = None
    (tmp_path / "dali-0.json").write_text(json.dumps(unknown))
    checkpoint.load(tmp_path / "dali-0.json", rng=rng)
    assert rng.seed == 1234


def test_dalis_readers_are_refused_with_the_reason(made, tmp_path):
    objects, _ = made
    before = objects["reader"].get_state(), objects["rng"].state
    path = tmp_path / "dali.json"
    path.write_text(OF_BOTH)
    with pytest.raises(
        StateError, match=r"its state of 'reader' \(File\) cannot be used: it counts .* Let a new reader begin"
    ):
        checkpoint.load(path, **objects)
    states = Checkpoint()
    states.load(path)
    states.register(objects["rng"], "rng")
    with pytest.raises(StateError, match=r"'reader' \(File\) cannot be used"):
        states.register(objects["reader"], "reader")
    objects["rng"].set_state(before[1])
    with pytest.warns(StateWarning, match=r"Left out: .*its state of 'reader' \(File\) cannot be used"):
        checkpoint.load(path, rng=objects["rng"])
    assert uniform(batch_size=3, rng=objects["rng"]).tolist() == NEXT
    assert objects["reader"].get_state() == before[0]


@pytest.mark.parametrize(("change", "told"), [
    ({"version": 1}, "checkpoint of DALI, of version int 1"), ({"version": "2"}, "of version str '2'"),
    ({"states": [1]}, "its states are no object"), ({"states": {"rng": {"state": 3, "type": "RNG"}}}, "not text"),
    ({"states": {"rng": {"state": "x"}}}, "not a pair"),
    ({"states": {"rng": {"state": "x", "type": 3}}}, "not text"),
    ({"states": {"rng": {"state": "x", "type": None}}}, "of no known type"),
    ({"states": {"rng": {"state": "Philox_12", "type": "RNG"}}}, "Philox_12")])  # fmt: skip
def test_a_damaged_checkpoint_of_dali_is_refused(tmp_path, change, told):
    (tmp_path / "dali.json").write_text(json.dumps(json.loads(OF_RNG) | change))
    rng = RNG(7)
    before = rng.state
    with pytest.raises(StateError, match=told):
        checkpoint.load(tmp_path / "dali.json", rng=rng)
    assert rng.state == before


def test_generators_move_both_ways(dali: Oracle):
    """DALI takes a state of ours, draws, and we go on from what it saves."""
    rng = RNG(99)
    uniform(batch_size=5, rng=rng)
    text = dali.script(
        "rng = ndd.random.RNG(state=start)\n"
        "numbers = [float(np.asarray(t.evaluate())) for t in ndd.random.uniform(batch_size=4, rng=rng)]\n"
        "saved = ndd.checkpoint.Checkpoint(); saved.register(rng, 'rng'); saved.collect()\n"
        "result = [numbers, saved.serialize()]",
        start=rng.state,
    )
    numbers, saved = text
    assert uniform(batch_size=4, rng=rng).tolist() == numbers
    states, other = Checkpoint(), RNG(1)
    states.deserialize(saved)
    states.register(other, "rng")
    assert other.state == rng.state
