"""Readers as nodes of torchdata: stopped anywhere, behind threads that run ahead, and resumed."""

from __future__ import annotations

import itertools
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from counting import COUNT, FILES, laid_out
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import dynamic as ndd
from dynamic import ArgumentError, Batch, Tensor
from dynamic.errors import DeviceError, StateError, StateMismatch
from dynamic.readers import File, Numpy, TFRecord
from dynamic.readers.tfrecord import FixedLenFeature

torch = pytest.importorskip("torch", reason="torch is not installed")
tn = pytest.importorskip("torchdata.nodes", reason="torchdata is not installed")

from dynamic.pytorch.nodes import DictMapper, Reader, ToTorch  # noqa: E402

#: Threads of torchdata's that are dropped in the midst of an epoch may be joined by themselves.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. .function _.*Mapper.*:pytest.PytestUnraisableExceptionWarning"
)
SHUFFLED = {"random_shuffle": True, "seed": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def reader_of(folder, batch_size=4, **arguments):
    return Reader(File, batch_size=batch_size, file_root=folder, files=FILES, **{**SHUFFLED, **arguments})


def doubled(named):
    return named | {"data": named["data"] * 2}


#: What may stand between a reader and a loader, with what becomes of a number in it.
WAYS = {
    "alone": lambda node: node,
    "Prefetcher": lambda node: tn.Prefetcher(node, prefetch_factor=3),
    "snapshots now and then": lambda node: tn.Prefetcher(node, prefetch_factor=2, snapshot_frequency=3),
    "DictMapper": lambda node: tn.Prefetcher(DictMapper(node, lambda batch: batch * 2), prefetch_factor=2),
    "ParallelMapper": lambda node: tn.ParallelMapper(node, doubled, num_workers=2, in_order=True, method="thread"),
}
FACTOR = {"DictMapper": 2, "ParallelMapper": 2}


def loader_of(folder, way, batch_size=4):
    return tn.Loader(ToTorch(WAYS[way](reader_of(folder, batch_size))))


def told(batches):
    """The numbers in the files, and the labels."""
    return [
        pair
        for data, labels in batches
        for pair in zip(data.flatten().tolist(), labels.flatten().tolist(), strict=True)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_each_epoch_is_that_of_the_reader(folder, way):
    loader = loader_of(folder, way)
    reader = File(file_root=folder, files=FILES, **SHUFFLED)
    for _ in range(3):
        batches = [zip(*batch, strict=True) for batch in reader.next_epoch(4)]
        pairs = [pair for batch in batches for pair in batch]
        expected = [(FACTOR.get(way, 1) * int(file.array[0]), label.item()) for file, label in pairs]
        found = told(loader)
        assert found == expected
        assert len(found) == COUNT


@pytest.mark.parametrize("way", WAYS)
@examples(0.6)
@given(sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)), data=st.data())
def test_a_run_goes_on_with_the_batch_after_the_last_that_was_taken(folder, way, sizes, data):
    """Whatever had been made ahead; and the next epoch is the same."""
    whole = loader_of(folder, way, sizes[0])
    epochs = [told(whole), told(whole)]
    loader, taken = loader_of(folder, way, sizes[0]), []
    stop = data.draw(st.integers(1, -(-COUNT // sizes[0])))
    for batch in loader:
        taken.append(batch)
        if len(taken) == stop:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    again = loader_of(folder, way, sizes[0])
    again.load_state_dict(state)
    rest = told(again)
    if stop == -(-COUNT // sizes[0]):  # a loader that has nothing left begins the next epoch
        assert rest == epochs[1]
    else:
        assert told(taken) + rest == epochs[0]
        assert told(again) == epochs[1]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "snapshots now and then"])
@examples(0.25)
@given(size=st.integers(3, 9), stops=st.lists(st.integers(1, 7), max_size=4))
def test_runs_go_on_over_the_ends_of_epochs(folder, way, size, stops):
    """One that goes on from the end of an epoch has states of the next: a `Loader` alone would not ask for them."""
    whole = loader_of(folder, way, size)
    epochs = [pair for _ in range(len(stops) + 1) for pair in told(whole)]
    found, state = [], None
    for stop in [*stops, None]:
        loader = loader_of(folder, way, size)
        if state is not None:
            loader.load_state_dict(state)
        for batch in itertools.islice(loader, stop):
            found += told([batch])
            state = json.loads(json.dumps(loader.state_dict()))
    assert found == epochs[: len(found)]
    assert len(found) % COUNT == 0


def test_a_state_of_the_reader_is_good_for_other_batches(folder):
    first = reader_of(folder, 4)
    first.reset()
    taken = [first.next() for _ in range(3)]
    second = reader_of(folder, 5)
    second.reset(first.state_dict())
    rest = list(second)
    found = [int(file.array[0]) for batch in taken + rest for file in batch["data"]]
    assert found == [pair[0] for pair in told(loader_of(folder, "alone"))]
    assert [len(batch["data"]) for batch in rest] == [5, 5, 1]


def test_a_state_of_the_reader_is_good_for_other_shards_and_for_the_reader_alone(folder):
    loader = loader_of(folder, "Prefetcher")
    batches = iter(loader)
    taken = [next(batches) for _ in range(3)]
    state = loader.state_dict()["root"]["source"]["snapshot"]
    (epoch,) = [told(loader_of(folder, "alone"))]
    rest = []
    for shard in range(2):
        node = ToTorch(reader_of(folder, 3, shard_id=shard, num_shards=2))
        node.reset({"source": state})
        rest += told(node)
    assert sorted(told(taken) + rest) == sorted(epoch)
    reader = File(file_root=folder, files=FILES, **SHUFFLED)
    reader.set_state(state)
    assert [int(file.array[0]) for file, _ in reader.next_epoch()] == [
        number for number, _ in epoch[len(told(taken)) :]
    ]


@pytest.mark.parametrize("way", WAYS)
@examples(0.25)
@given(stops=st.lists(st.sampled_from([0, 1, 2, 6, None]), max_size=4))
def test_an_epoch_that_is_left_early_has_ended(folder, way, stops):
    """Also where nothing was taken, however far a thread was ahead: each `iter` begins the next epoch."""
    reader, loader = File(file_root=folder, files=FILES, **SHUFFLED), loader_of(folder, way)
    for stop in stops:
        batches = iter(loader)
        for _ in range(COUNT if stop is None else stop):
            next(batches, None)
    reader.set_epoch(len(stops))
    assert [label for _, label in told(loader)] == [label.item() for _, label in reader.next_epoch()]


def test_a_state_that_does_not_fit_leaves_the_node_as_it_was(folder):
    node, whole = reader_of(folder), reader_of(folder)
    whole.reset()
    expected = [batch["label"].tolist() for batch in whole]
    with pytest.raises(StateMismatch, match="seed"):
        node.reset(reader_of(folder, seed=6).state_dict())
    with pytest.raises(RuntimeError, match="before reset"):
        node.next()
    first = next(node)["label"].tolist()
    with pytest.raises(StateError, match=r"readers\.File"):
        node.reset({"source": {}})
    assert [first, *(batch["label"].tolist() for batch in node)] == expected
    for over in (ToTorch(node), DictMapper(node, lambda batch: batch)):
        for state in ({}, node.state_dict(), {"source": node.state_dict(), "more": 1}, "x"):
            with pytest.raises(StateError, match=r"nodes\.\w+: this is not a state of such a node"):
                over.reset(state)


def test_single_samples_are_tensors(folder):
    node = reader_of(folder, None)
    node.reset()
    named = node.next()
    assert {type(value) for value in named.values()} == {Tensor}
    assert ToTorch(node).next()[0].shape == (1,)


def test_outputs_have_names(folder, tmp_path):
    node = reader_of(folder, 4, output_names=["file", "class"])
    node.reset()
    assert list(node.next()) == ["file", "class"]
    np.save(tmp_path / "a.npy", np.arange(3))
    one = Reader(Numpy, batch_size=1, output_names=["array"], file_root=tmp_path)
    one.reset()
    assert one.next()["array"].tolist() == [[0, 1, 2]]
    for names in (["file"], ["file", "file"], ["file", "class", "more"], [1, 2], [[], []], 5):
        with pytest.raises(
            ArgumentError, match=r"nodes\.Reader\(\): argument 'output_names' must be 2 different names"
        ):
            reader_of(folder, 4, output_names=names)
    with pytest.raises(ArgumentError, match="'output_names' must be 1 different names; got None"):
        Reader(Numpy, batch_size=1, file_root=tmp_path)


def test_features_have_their_own_names(tmp_path):
    feature = bytes([10, 5, *b"label", 18, 5, 26, 3, 10, 1, 7])
    record = bytes([10, len(feature) + 2, 10, len(feature), *feature])
    with (tmp_path / "a").open("wb") as file:
        file.write(struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0))
    node = Reader(TFRecord, batch_size=1, path=tmp_path / "a", features={"label": FixedLenFeature([1], "int64", -1)})
    node.reset()
    named = node.next()
    assert (list(named), named["label"].tolist()) == (["label"], [[7]])
    assert ToTorch(node).reset() is None
    arguments = {"path": tmp_path / "a", "features": {"label": FixedLenFeature([1], "int64", -1)}}
    loader = tn.Loader(ToTorch(Reader(TFRecord, batch_size=1, output_names=["class"], **arguments)))
    for _ in range(2):
        ((label,),) = loader
        assert (label.tolist(), label.dtype) == ([[7]], torch.int64)
    with pytest.raises(ArgumentError, match="'output_names' must be 1 different names"):
        Reader(TFRecord, batch_size=1, output_names=["a", "b"], **arguments)


class Given(tn.BaseNode):
    """A node of given items."""

    def __init__(self, *items):
        super().__init__()
        self.items = items

    def reset(self, initial_state=None):
        super().reset(initial_state)
        self.at = iter(self.items)

    def next(self):
        return next(self.at)

    def get_state(self):
        return {}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_dtypes_and_values_stay(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    items = {"batch": ndd.as_batch(values), "list": ndd.batch(list(values)), "one": ndd.as_tensor(values)}
    (tensors,) = ToTorch(Given(items | {"tail": items["one"][1:]}))
    expected = [values, values, values, values[1:]]
    assert [(value.dtype, value.tolist()) for value in tensors] == [
        (getattr(torch, dtype), array.tolist()) for array in expected
    ]


def test_only_the_entry_that_is_named_changes(folder):
    named = {"data": ndd.as_batch(np.ones((2, 3))), "mask": ndd.as_batch(np.zeros((2, 3)))}
    for key in named:
        (found,) = DictMapper(Given(named), lambda batch: batch + 1, key=key)
        assert list(found) == ["data", "mask"]
        assert {name for name in named if found[name] is not named[name]} == {key}
    assert named["data"].tolist() == [[1.0] * 3] * 2  # the dict of the other node is as it was


@pytest.mark.gpu
def test_all_go_to_the_gpu_of_one(monkeypatch):
    for kind in (Tensor, Batch):
        monkeypatch.setattr(kind, "torch", lambda self: self)
    values = np.arange(6).reshape(2, 3)
    (found,) = ToTorch(Given({"a": ndd.as_batch(values), "b": ndd.as_tensor(values, device="gpu")}))
    assert [str(value.device) for value in found] == ["gpu:0"] * 2
    assert [value.cpu().tolist() for value in found] == [values.tolist()] * 2
    if ndd.devices.gpu_count() > 1:
        both = {f"on {k}": ndd.as_tensor(values, device=f"gpu:{k}") for k in range(2)}
        with pytest.raises(ArgumentError, match="dicts are on one GPU; got some on the GPUs 0, 1"):
            next(ToTorch(Given(both)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch has a GPU")
def test_a_stream_needs_a_gpu(folder):
    with pytest.raises(DeviceError, match="'output_stream' is int 1"):
        ToTorch(reader_of(folder), output_stream=1)


def test_what_is_wrong_is_named(folder):
    with pytest.raises(ArgumentError, match="'reader_type' must be a class of dynamic.readers; got str 'File'"):
        Reader("File", batch_size=1)
    with pytest.raises(ArgumentError, match="'reader_type' must be a class of dynamic.readers"):
        Reader(ndd.ExternalSource, batch_size=2)
    for size in (0, -1, "x", True):
        with pytest.raises(ArgumentError, match=r"nodes\.Reader\(\): argument 'batch_size'"):
            reader_of(folder, size)
    with pytest.raises(ArgumentError, match="'batch_size' must be"):
        reader_of(folder, 8, max_batch_size=4)
    for make in (lambda source: DictMapper(source, lambda batch: batch), ToTorch):
        for source in (File(file_root=folder, files=FILES), [{}], tn.Loader(reader_of(folder))):
            with pytest.raises(ArgumentError, match=r"nodes\.\w+\(\): argument 'source' must be a node of torchdata"):
                make(source)
        with pytest.raises(ArgumentError, match="'source' must be a node of dicts; got one of tuple"):
            next(make(Given((1, 2))))
    with pytest.raises(ArgumentError, match=r"nodes\.DictMapper\(\): argument 'map_fn' must be a function"):
        DictMapper(reader_of(folder), "data")
    with pytest.raises(
        ArgumentError, match=r"nodes\.ToTorch\(\): argument 'x' must be a Tensor or a Batch; got .*array"
    ):
        next(ToTorch(Given({"x": np.ones(3)})))
    ragged = ndd.batch([np.ones(2), np.ones(2), np.ones(3)])
    with pytest.raises(ArgumentError, match=r"'x' must be .* of one shape; got \(2,\) and \(3,\)\. .*dynamic\.pad"):
        next(ToTorch(Given({"x": ragged})))
    assert next(ToTorch(DictMapper(Given({"x": ragged}), ndd.pad, "x")))[0].shape == (3, 3)
    node = DictMapper(reader_of(folder), lambda batch: batch, key="image")
    with pytest.raises(RuntimeError, match="before reset"):
        node.next()
    node.reset()
    with pytest.raises(
        ArgumentError, match=r"nodes\.DictMapper\(\): argument 'key' must be one of 'data', 'label'; got str"
    ):
        node.next()
    with pytest.raises(ArgumentError, match=r"argument 'key' must be one of 'x'; got list \['x'\]"):
        next(DictMapper(Given({"x": ragged}), ndd.pad, ["x"]))
    with pytest.raises(AttributeError, match="has no 'Nothing'"):
        ndd.pytorch.nodes.Nothing


def test_metadata_and_types(folder):
    node = reader_of(folder)
    assert node.get_metadata()["epoch_size"] == COUNT
    assert isinstance(node, tn.BaseNode)
    assert (Reader.__name__, Reader.__module__) == ("Reader", "dynamic.pytorch.nodes")
    node.reset()
    assert isinstance(node.next()["data"], Batch)


def test_nothing_is_imported_before_it_is_needed_and_what_is_missing_is_told():
    code = """if True:
        import sys, dynamic.pytorch.nodes
        assert not {"torch", "torchdata"} & sys.modules.keys()
        sys.modules["torchdata"] = None
        try:
            from dynamic.pytorch.nodes import ToTorch
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "dynamic.pytorch.nodes.ToTorch needs torch and torchdata: pip install torch torchdata\n"


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parent.parent / "docs" / "trainers.md").read_text()
    (example,) = [block for block in re.findall("```python\n(.*?)```", page, re.DOTALL) if "pytorch.nodes" in block]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train" / "a").mkdir(parents=True)
    for number in range(70):
        image = np.full((8, 8, 3), 3 * number, np.uint8)
        (tmp_path / "train" / "a" / f"{number}.jpg").write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
    taken = []
    names = {"train": lambda *batch: taken.append(batch)}
    exec(example, names)
    assert [tuple(data.shape) for data, _ in taken] == [(64, 224, 224, 3), (6, 224, 224, 3)]
    assert sorted(round(int(image[0, 0, 0]) / 3) for data, _ in taken for image in data) == [*range(70)]
    assert {int(label) for _, labels in taken for label in labels.flatten()} == {0}
    assert names["state"] == json.loads(json.dumps(names["state"]))


def epochs_of(loader, sizes):
    """The batches of epochs without what fills up the last ones, with their dtypes."""
    for _ in range(3):
        yield [
            [(value.tolist()[:size], value.dtype) for value in batch] for batch, size in zip(loader, sizes, strict=True)
        ]


@pytest.mark.parametrize("way", ["alone", "Prefetcher", "DictMapper"])
@pytest.mark.parametrize("count", [20, COUNT])
def test_a_reader_is_the_same_as_dalis(folder, way, count):
    theirs = pytest.importorskip("nvidia.dali.experimental.dynamic", reason="the real DALI is not here")
    from nvidia.dali.experimental.dynamic.pytorch import nodes

    arguments = {"batch_size": 4, "file_root": str(folder), "files": FILES[:count], "pad_last_batch": True}
    over = {
        "alone": lambda node, _: node,
        "Prefetcher": lambda node, _: tn.Prefetcher(node, prefetch_factor=2),
        "DictMapper": lambda node, kind: kind(kind(node, lambda batch: batch), lambda batch: batch + 1, key="label"),
    }
    mine = Reader(File, **arguments)
    other = nodes.Reader(theirs.readers.File, **arguments)
    sizes = [min(4, count - i) for i in range(0, count, 4)]
    found = list(epochs_of(tn.Loader(ToTorch(over[way](mine, DictMapper))), sizes))
    assert found == list(epochs_of(tn.Loader(nodes.ToTorch(over[way](other, nodes.DictMapper))), sizes))
    assert mine.get_metadata() == other.get_metadata()
