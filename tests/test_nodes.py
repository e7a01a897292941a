"""Readers as nodes of torchdata: stopped anywhere, behind threads that run ahead, and resumed."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from counting import COUNT, FILES, laid_out
from hypothesis import given, settings
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, Batch, Tensor
from dynamic.readers import File, Numpy, TFRecord
from dynamic.readers.tfrecord import FixedLenFeature

pytest.importorskip("torch", reason="torch is not installed")
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
@settings(max_examples=25)
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


def test_an_epoch_that_is_left_early_has_ended(folder):
    for way in ("alone", "Prefetcher"):
        loader, whole = loader_of(folder, way), loader_of(folder, "alone")
        next(iter(loader))
        epochs = [told(whole) for _ in range(2)]
        assert told(loader) == epochs[1]


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
    for names in (["file"], ["file", "file"], ["file", "class", "more"], [1, 2]):
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


def test_what_is_wrong_is_named(folder):
    with pytest.raises(ArgumentError, match="'reader_type' must be a class of dynamic.readers"):
        Reader(ndd.ExternalSource, batch_size=2)
    for size in (0, -1, "x", True):
        with pytest.raises(ArgumentError, match=r"nodes\.Reader\(\): argument 'batch_size'"):
            reader_of(folder, size)
    node = DictMapper(reader_of(folder), lambda batch: batch, key="image")
    with pytest.raises(RuntimeError, match="before reset"):
        node.next()
    node.reset()
    with pytest.raises(
        ArgumentError, match=r"nodes\.DictMapper\(\): argument 'key' must be one of 'data', 'label'; got str"
    ):
        node.next()
    with pytest.raises(AttributeError, match="has no 'Nothing'"):
        ndd.pytorch.nodes.Nothing


def test_metadata_and_types(folder):
    node = reader_of(folder)
    assert node.get_metadata()["epoch_size"] == COUNT
    assert isinstance(node, tn.BaseNode)
    assert (Reader.__name__, Reader.__module__) == ("Reader", "dynamic.pytorch.nodes")
    node.reset()
    assert isinstance(node.next()["data"], Batch)


def test_a_reader_is_the_same_as_dalis(folder):
    theirs = pytest.importorskip("nvidia.dali.experimental.dynamic", reason="the real DALI is not here")
    from nvidia.dali.experimental.dynamic.pytorch import nodes

    arguments = {"batch_size": 4, "file_root": str(folder), "files": FILES}
    for mapped in (lambda node, cls: node, lambda node, cls: cls(node, lambda batch: batch)):
        ours = ToTorch(mapped(Reader(File, **arguments), DictMapper))
        expected = nodes.ToTorch(mapped(nodes.Reader(theirs.readers.File, **arguments), nodes.DictMapper))
        for mine, other in zip(tn.Loader(ours), tn.Loader(expected), strict=True):
            size = len(mine[0])  # DALI fills up the last batch
            assert [a.tolist() for a in mine] == [b.tolist()[:size] for b in other]
            assert [a.dtype for a in mine] == [b.dtype for b in other]
