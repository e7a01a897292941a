"""Batches of workers in memory that is used again: they keep their values, and nothing of them stays anywhere."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from counting import COUNT, FILES, laid_out, reader_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic.pipeline import fn, pipeline_def

torch = pytest.importorskip("torch", reason="torch is not installed")

from dynamic.pytorch import Dataset, _handover  # noqa: E402

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there are files in memory on Linux alone"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
SIZE = 400  # of images, of which 4 are larger than the smallest segment
MAPS, SHM = Path("/proc/self/maps"), Path("/dev/shm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def enlarged(files, labels, size=SIZE):
    """Images of one number, that of the file."""
    return ndd.cast(ndd.resize(ndd.reshape(files, shape=(1, 1), layout="HW"), size=size), dtype="float32"), labels


@pipeline_def(batch_size=4, num_threads=1)
def images(folder):
    files, labels = fn.readers.file(file_root=folder, files=FILES, name="reader")
    return fn.cast(fn.resize(fn.reshape(files, shape=(1, 1), layout="HW"), size=SIZE), dtype="float32"), labels


def data_set(folder, kind="reader", step=enlarged):
    if kind == "pipeline":
        return Dataset(functools.partial(images, folder))
    return Dataset(functools.partial(reader_of, folder), step=step)


def loader(dataset, workers=1, **arguments):
    return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, **arguments)


def numbers(batch):
    """The number of each image; all its pixels are that number."""
    pixels = batch["data"].flatten(1)
    assert (pixels == pixels[:, :1]).all()
    return pixels[:, 0].tolist()


def handed_over(tensor):
    """Whether a tensor has come without torch's way, whose tensors are shared in the sense of torch."""
    return not tensor.is_shared()


def segments(kind="sp"):
    """The addresses at which this process has mapped segments, as shared or privately, and their descriptors."""
    lines = [line.split() for line in MAPS.read_text().splitlines() if "memfd:dynamic" in line]
    mapped = [line[0] for line in lines if line[1][3] in kind]
    return mapped, [number for number in os.listdir("/proc/self/fd") if "memfd:dynamic" in target(number)]


def shared_files():
    """Files of shared memory, which torch names by processes, of this one and of those that have ended."""
    named = {path: path.name.split("_")[1:2] for path in SHM.glob("torch_*_*")}
    return {path for path, (pid,) in named.items() if pid == str(os.getpid()) or not Path("/proc", pid).exists()}


def remaining(files, seconds=10.0):
    """Those of some files of shared memory that stay."""
    comes_true(lambda: not files & shared_files(), seconds)
    return files & shared_files()


def target(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except FileNotFoundError:  # that of the listing
        return ""


def comes_true(condition, seconds=20.0):
    """Whether a condition does so in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(autouse=True)
def nothing_stays():
    before = shared_files()
    yield
    gc.collect()
    assert segments() == ([], [])
    assert not remaining(shared_files() - before)


HOLDERS = {
    "the tensor": lambda x: x,
    "a view": lambda x: x[1:, 5],
    "a transposed view": lambda x: x.mT[..., :3],
    "an array": lambda x: x.numpy(),
    "a view of an array": lambda x: x.numpy()[:, 7:9],
    "a memoryview": lambda x: memoryview(x.numpy())[1:],
    "a storage": lambda x: x.untyped_storage(),
    "a detached tensor": lambda x: x.detach(),
    "an array from DLPack": lambda x: np.from_dlpack(x),
    "a graph": lambda x: x * torch.ones(1, requires_grad=True),
    "a copy": copy.deepcopy,
    "a pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


def value_of(held):
    """The one number in it."""
    if isinstance(held, torch.UntypedStorage):
        held = torch.empty(0).set_(held)[: SIZE * SIZE]
    found = np.unique(held.detach() if isinstance(held, torch.Tensor) else np.asarray(held))
    return found.tolist()


@given(
    kind=st.sampled_from(["reader", "pipeline"]),
    workers=st.integers(1, 2),
    how=st.fixed_dictionaries({"prefetch_factor": st.integers(1, 3), "persistent_workers": st.booleans()}),
    kept=st.integers(0, 5),
    chance=st.randoms(use_true_random=False),
)
@examples(0.1)
def test_batches_keep_their_values_in_whatever_order_they_are_released(folder, kind, workers, how, kept, chance):
    """Also where the trainer writes into some of them."""
    batches, held = loader(data_set(folder, kind), workers, **how), []
    for epoch in range(2):
        found = []
        for batch in batches:
            assert handed_over(batch["data"])
            found += numbers(batch)
            sample = int(batch["data"][0, 0, 0])
            if chance.random() < 0.3:
                batch["data"].add_(100)
                sample += 100
            holder = chance.choice(list(HOLDERS.values()))
            if holder is not HOLDERS["a storage"]:
                batch["data"] = batch["data"][:1]
            held.append((sample, holder(batch["data"][0])))
            del batch
            while len(held) > kept:
                held.pop(chance.randrange(len(held)))
            for known, each in held:
                assert value_of(each)[:1] == [known]
        assert sorted(found) == list(range(COUNT)), epoch


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "persistent"), [("fork", False), ("fork", True), ("spawn", True), ("forkserver", False)]
)
def test_memory_is_used_again(folder, method, persistent):
    """However workers are started; in the next epoch too, if they stay."""
    batches = loader(data_set(folder), 1, multiprocessing_context=method, persistent_workers=persistent)
    for _ in range(2):
        places = []
        for batch in batches:
            places.append(batch["data"].data_ptr())
            assert handed_over(batch["data"])
        assert len(set(places)) <= 6 == len(places)
        if persistent:
            assert len(segments()[0]) <= 6
        else:
            del batch
            assert segments() == ([], [])


def test_many_batches_need_few_segments(folder):
    dataset = Dataset(lambda: ndd.readers.File(file_root=folder, files=FILES * 3, max_batch_size=2), step=enlarged)
    places = []
    for batch in loader(dataset, 1):
        places.append(batch["data"].data_ptr())
        assert batch["data"].unique().tolist() == sorted(set(batch["data"][:, 0, 0].tolist()))
    assert len(places) == -(-3 * COUNT // 2)
    assert len(set(places)) <= 8
    del batch


class Constant:
    """A step that gives a result of its own with each batch."""

    def __call__(self, files, labels):
        if not hasattr(self, "images"):
            self.images = enlarged(files, labels)[0]
        return self.images, self.images


def test_no_trainer_writes_into_memory_that_its_worker_keeps(folder):
    """It may write into its own, and sees nothing of what others write."""
    found = []
    for batch in loader(data_set(folder, step=Constant()), 1):
        one, other = batch["data"], batch["label"]
        assert handed_over(one)
        found.append(one[0, 0, 0].item())
        one.mul_(0).sub_(1)
        assert (other == other[:, :1, :1]).all()
        assert (one == -1).all()
        assert not (other == -1).any()
    assert len(set(found)) == 1
    del batch, one, other


@pipeline_def(batch_size=4, num_threads=1, prefetch_queue_depth=0)
def arrays(folder):
    return fn.readers.numpy(file_root=folder, file_filter="*.npy", name="reader"), fn.random.uniform()


def of_arrays(folder):
    return ndd.readers.Numpy(file_root=folder, file_filter="*.npy", max_batch_size=4)


@pytest.mark.parametrize("kind", ["reader", "pipeline", "reader of arrays", "pipeline of arrays", "kept"])
def test_memory_is_mapped_as_shared_where_its_worker_does_not_keep_it(folder, tmp_path, kind):
    for number in range(8):
        np.save(tmp_path / f"{number}.npy", np.full((SIZE, SIZE), number, np.float32))
    made = {
        "reader of arrays": lambda: Dataset(lambda: of_arrays(tmp_path), ["data"]),
        "pipeline of arrays": lambda: Dataset(lambda: arrays(tmp_path)),
        "kept": lambda: data_set(folder, step=Constant()),
    }
    for batch in loader(made.get(kind, lambda: data_set(folder, kind))(), 1):
        assert handed_over(batch["data"])
        assert set(segments("p")[0] if kind == "kept" else segments("s")[0]) == set(segments()[0]) != set()
    del batch


@pytest.mark.parametrize("workers", [1, 2])
def test_no_segment_stays_mapped_that_its_worker_has_no_more(folder, workers, monkeypatch):
    monkeypatch.setattr(_handover, "_LIMIT", 1 << 23)  # in the workers too, which are forked
    sizes = itertools.count(SIZE, 80)
    dataset = data_set(folder, step=lambda *batch: enlarged(*batch, size=next(sizes)))
    for batch in loader(dataset, workers, prefetch_factor=1, persistent_workers=True):
        assert handed_over(batch["data"])
        numbers(batch)
        assert len(segments()[0]) <= 3 * workers
    del batch


class Repeated(torch.utils.data.IterableDataset):
    """Parts of each batch of a data set, and the whole."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        for batch in self.dataset:
            yield batch["data"], batch["data"][1:, 3], batch


def test_batches_that_another_data_set_passes_on(folder):
    for whole, part, batch in loader(Repeated(data_set(folder)), 2, prefetch_factor=1):
        assert handed_over(whole)
        assert numbers(batch) == whole[:, 0, 0].tolist()
        assert part.unique().tolist() == whole[1:, 3].unique().tolist()
    del whole, part, batch


KINDS_OF_TENSORS = {
    "bytes": lambda x: x[0].to(torch.uint8),
    "none": lambda x: x[:0],
    "a number": lambda x: x[0, 0, 0],
    "truths": lambda x: x[0, :4] > 5,
    "bfloat16": lambda x: x.to(torch.bfloat16),
    "a view of other bytes": lambda x: x.view(torch.int16),
    "between elements": lambda x: torch.from_numpy(x.numpy().view(np.uint8).ravel()[2:-2].view(np.float32)),
    "transposed": lambda x: x.mT,
    "every third": lambda x: x[:, 1::3, ::3],
    "every third, few": lambda x: x[0, 1:20:3, :9:3],
    "expanded": lambda x: x[:1].expand(3, 5, SIZE, SIZE),
    "complex": lambda x: torch.view_as_complex(x[0, :, :2]),
    "conjugate": lambda x: torch.view_as_complex(x[0, :, :2]).conj().resolve_conj(),
    "sparse": lambda x: x[0, :2].to_sparse(),
    "of a graph": lambda x: x[0, :2].clone().requires_grad_(),
    "in a segment and of a graph": lambda x: x.detach().requires_grad_(),
    "a parameter": lambda x: torch.nn.Parameter(x),
}


class Odd(Repeated):
    """Tensors of all kinds, made of the tensors of a data set."""

    def __iter__(self):
        for batch in self.dataset:
            for kind, made in KINDS_OF_TENSORS.items():
                yield kind, batch["data"].clone(), made(batch["data"])


@pytest.mark.filterwarnings("ignore:Sparse invariant:UserWarning")
def test_tensors_of_all_kinds(folder):
    kinds = []
    for kind, whole, found in loader(Odd(data_set(folder)), 1):
        expected = KINDS_OF_TENSORS[kind](whole)
        assert (found.dtype, found.shape, found.layout, found.requires_grad, type(found)) == (
            expected.dtype, expected.shape, expected.layout, expected.requires_grad, type(expected)
        )  # fmt: skip
        assert torch.equal(*(each.to_dense() for each in (found, expected)))
        kinds.append(kind)
    assert kinds == [*KINDS_OF_TENSORS] * 6
    del whole, found, expected


def test_small_tensors_need_no_descriptor(folder):
    labels = [batch["label"] for batch in loader(data_set(folder), 1)]
    assert all(map(handed_over, labels))
    assert sorted(itertools.chain(*(each.flatten().tolist() for each in labels))) == list(range(COUNT))
    labels[0] += 1


def without_room(*_):
    raise OSError("no room")


def without_meaning(*_):
    """A lock that nobody respects."""


@pytest.mark.parametrize("why", ["room", "descriptors", "locks", "memfd", "limit"])
def test_the_rest_goes_torchs_way(folder, why, monkeypatch):
    """The workers are forked, and have what is patched here."""
    if why == "room":
        monkeypatch.setattr(os, "posix_fallocate", without_room)
    elif why == "memfd":
        monkeypatch.setattr(os, "memfd_create", without_room)
    elif why == "descriptors":
        monkeypatch.setattr(_handover, "DupFd", without_room)
    elif why == "locks":
        monkeypatch.setattr(_handover.fcntl, "flock", without_meaning)
    else:
        monkeypatch.setattr(_handover, "_MOST", 2)
    held = list(loader(data_set(folder), 1))
    assert sorted(itertools.chain(*map(numbers, held))) == list(range(COUNT))
    assert sum(handed_over(batch["data"]) for batch in held) == (2 if why == "limit" else 0)


def program(tmp_path, folder, lines):
    """A trainer in a process of its own."""
    text = "\n".join([
        "import os, signal, sys, time",
        "from test_handover import data_set, loader, numbers, segments",
        'if __name__ == "__main__":',
        *(f"    {line}" for line in lines.strip().splitlines()),
    ])  # fmt: skip
    (tmp_path / "trainer.py").write_text(text)
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    command = [sys.executable, "-W", "ignore", tmp_path / "trainer.py", folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})


WORKER_KILLED = """
batches = iter(loader(data_set(sys.argv[1]), 1))
held = [next(batches) for _ in range(3)]
expected = list(map(numbers, held))
signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises an error, anywhere
os.kill(batches._workers[0].pid, signal.SIGKILL)
try:
    for batch in batches:
        numbers(batch)
except (RuntimeError, OSError, EOFError):  # of torch, or of the connection
    print("stopped")
del batches
held[0]["data"].zero_()
print([numbers(batch) for batch in held] == [[0] * 4, *expected[1:]])
held = batch = None
print(segments())
"""


@pytest.mark.slow
def test_batches_outlive_a_worker_that_is_killed(folder, tmp_path):
    lines = program(tmp_path, folder, WORKER_KILLED).communicate(timeout=100)[0].splitlines()
    assert lines == ["stopped", "True", "([], [])"]


TRAINER_KILLED = """
loaders = [iter(loader(data_set(sys.argv[1]), 1, multiprocessing_context=how)) for how in ("fork", "spawn")]
held = [next(batches) for batches in loaders for _ in range(3)]
print(*map(numbers, held), flush=True)
print(*(worker.pid for batches in loaders for worker in batches._workers), flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_nothing_stays_of_a_trainer_that_is_killed(folder, tmp_path):
    trainer = program(tmp_path, folder, TRAINER_KILLED)
    try:
        assert trainer.stdout.readline().count("[") == 6
        workers = trainer.stdout.readline().split()
        assert len(workers) == 2
    finally:
        trainer.kill()
        trainer.communicate()
    assert comes_true(lambda: not any(Path("/proc", worker).exists() for worker in workers), 60)


def test_a_forked_child_reads_what_its_parent_has_let_go(folder):
    """The lock of a batch lasts as long as a child of the trainer has it."""
    batches = iter(loader(data_set(folder), 1, prefetch_factor=1))
    batch = next(batches)
    expected, array = numbers(batch), batch["data"].numpy()  # a child that was forked has none of torch's threads
    (ready, told), (result, tell) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.read(ready, 1)
            os.write(tell, b"same" if (array == np.reshape(expected, (-1, 1, 1))).all() else b"other")
        finally:
            os._exit(0)
    del batch, array
    for _ in batches:
        pass
    os.write(told, b"1")
    assert os.read(result, 9) == b"same"
    os.waitpid(child, 0)
    for each in (ready, told, result, tell):
        os.close(each)
    del batches, _
