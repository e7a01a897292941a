"""`readers.Map` over data sets of real libraries: every row once, exact places, errors that name rows."""

from __future__ import annotations

import pickle
from collections import UserDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic import cast, pad, random, readers
from dynamic.errors import ArgumentError, DataError, StateMismatch
from dynamic.testing import assert_resumable

COUNT = 29
FILES = [f"{i:03}".encode() * (1 + i % 3) for i in range(COUNT)]


def of_hugging_face(folder):
    datasets = pytest.importorskip("datasets")
    path = folder / "rows.parquet"
    datasets.Dataset.from_dict({"file": [{"bytes": f} for f in FILES], "number": list(range(COUNT))}).to_parquet(path)
    data = datasets.load_dataset("parquet", data_files=str(path), cache_dir=str(folder / "cache"), split="train")
    return data, ["file.bytes", "number"]


def of_arrow(folder):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({"file": FILES, "number": list(range(COUNT))}), ["file", "number"]


def of_lance(folder):
    lance = pytest.importorskip("lance")
    table, outputs = of_arrow(folder)
    return lance.write_dataset(table, folder / "rows.lance"), outputs


def of_pandas(folder):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"file": FILES, "number": range(COUNT)}), ["file", "number"]


def of_h5py(folder):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "rows.h5", "w")
    file["file"] = np.stack([np.frombuffer(f.ljust(9, b"\0"), np.uint8) for f in FILES])
    file["number"] = np.arange(COUNT)
    return {"file": file["file"], "number": file["number"]}, ["file", "number"]


def of_torch(folder):
    torch = pytest.importorskip("torch")
    rows = torch.stack([torch.frombuffer(bytearray(f.ljust(9, b"\0")), dtype=torch.uint8) for f in FILES])
    return torch.utils.data.TensorDataset(rows, torch.arange(COUNT)), None


def of_numpy(folder):
    rows = np.stack([np.frombuffer(f.ljust(9, b"\0"), np.uint8) for f in FILES])
    return {"file": rows, "number": np.arange(COUNT)}, None


def of_list(folder):
    return [{"file": UserDict(bytes=f), "number": i} for i, f in enumerate(FILES)], ["file.bytes", "number"]


def of_tuples(folder):
    return list(zip(FILES, range(COUNT), strict=True)), None


SETS = [of_hugging_face, of_arrow, of_lance, of_pandas, of_h5py, of_torch, of_numpy, of_list, of_tuples]
sets = pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__.removeprefix("of_"))


def files(batch):
    return [array.tobytes().rstrip(b"\0") for array in batch.samples]


@sets
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_row_comes_once_with_its_values(make, shuffle, tmp_path):
    dataset, outputs = make(tmp_path)
    reader = readers.Map(dataset=dataset, outputs=outputs, random_shuffle=shuffle, seed=5)
    assert len(reader) == COUNT
    seen = []
    for data, numbers in reader.next_epoch(batch_size=4):
        places = [int(number) for number in numbers.samples]
        assert files(data) == [FILES[i] for i in places]
        seen += places
    assert sorted(seen) == list(range(COUNT))
    assert (seen == list(range(COUNT))) is not shuffle


@sets
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_labels_suit_losses_if_asked(make, on_error, tmp_path):
    dataset, outputs = make(tmp_path)
    reader = readers.Map(dataset=dataset, outputs=outputs, scalar_labels=True, on_error=on_error)
    plain = readers.Map(dataset=dataset, outputs=outputs)
    for (data, labels), (same, numbers) in zip(reader.next_epoch(8), plain.next_epoch(8), strict=True):
        assert (labels.dtype, labels.ndim, labels.tolist()) == ("int64", 0, numbers.tolist())
        assert (data.dtype, data.tolist()) == (same.dtype, same.tolist())
    assert reader.get_state() == plain.get_state()


@pytest.mark.parametrize("values", [[True, False], [0.5, 1.5], np.ones((2, 1), "i4"), np.array([2**64 - 1], "u8")])
def test_only_integers_that_fit_become_labels(values):
    (found,), (plain,) = (readers.Map(dataset=values, scalar_labels=wide)(2) for wide in (True, False))
    assert found.tolist() == plain.tolist()
    assert found.dtype == plain.dtype


NUMBERS = {
    "f": st.floats() | st.floats(-1e39, 1e39) | st.sampled_from([3.4028235677973366e38, -(2.0**128)]),
    "i": st.integers(-(2**31) - 2, 2**31 + 1) | st.sampled_from([2**40, -(2**63)]),
}


@given(st.data(), st.sampled_from("fi"), st.integers(1, 5), st.sampled_from([(), (2,), (1, 2)]), st.booleans())
def test_numbers_of_rows_have_one_type_or_are_refused_by_name(data, kind, size, shape, by_lists):
    values = data.draw(st.lists(st.lists(NUMBERS[kind], min_size=2, max_size=2), min_size=1, max_size=9))
    values = [value[0] if shape == () else value if shape == (2,) else [value] for value in values]
    dataset = {"a": values} if by_lists else [{"a": value} for value in values]
    with np.errstate(over="ignore"):
        exact = [np.array(value, float) for value in values]
        bad = [
            np.isinf(x.astype("f4")) & np.isfinite(x) if kind == "f" else (x < -(2**31)) | (x >= 2**31) for x in exact
        ]
    bad, place = [bool(some.any()) for some in bad], 0
    reader = readers.Map(dataset=dataset, outputs=["a"])
    while place < len(values):
        some = slice(place, place + size)
        if any(bad[some]):
            with pytest.raises(DataError) as caught:
                reader(size)
            assert [failure.index for failure in caught.value.failures] == np.flatnonzero(bad[some]).tolist()
            told = "infinite as float32" if kind == "f" else "beyond int32"
            assert told in str(caught.value)
            assert ("scalar_labels=True" in str(caught.value)) is (kind == "i" and shape == ())
            return
        (batch,) = reader(size)
        assert (batch.dtype, batch.shape) == ("float32" if kind == "f" else "int32", [shape] * len(batch))
        np.testing.assert_array_equal(batch.numpy(), np.array(values[some], batch.numpy().dtype))
        place += size


@given(st.lists(NUMBERS["i"] | st.just(2**63), min_size=1, max_size=9), st.integers(1, 5))
def test_labels_are_int64_in_every_batch(values, size):
    reader = readers.Map(dataset=values, scalar_labels=True)
    for place in range(0, len(values), size):
        some = values[place : place + size]
        if 2**63 in some:
            with pytest.raises(DataError, match="has 9223372036854775808, which is beyond int64"):
                reader(size)
            return
        assert (batch := reader(size)[0]).dtype == "int64"
        assert batch.tolist() == some


def test_integers_among_floats_are_checked_alike():
    assert readers.Map(dataset=[1, 2.5, True])(3)[0].tolist() == [1, 2.5, 1]
    for value, told in ((2**40, "beyond int32"), (1e39, "infinite")):
        with pytest.raises(DataError, match=rf"1 of 2 samples.*\n  sample 1 \(row 1\).*{told}"):
            readers.Map(dataset=[1 if value == 1e39 else 1.5, value])(2)
    reader = readers.Map(dataset=[1.5, 1e39, 2.5], on_error="skip")
    assert reader(3)[0].tolist() == [1.5, 2.5]
    assert [failure.index for failure in reader.skipped] == [1]


#: The types of columns, and of the outputs; a number that has no digits to lose in these alone.
DECLARED = {
    "float64": ("float64", 0.1),
    "float32": ("float32", float(np.float32(0.1))),
    "float16": ("float16", float(np.float16(0.1))),
    "int64": ("int32", -7),
    "uint64": ("int32", 7),
    "uint8": ("int32", 200),
    "bool_": ("bool", True),
}


def of_declared_columns(folder, kind):
    """Rows of which the data set declares the types, alone, in a struct "of" and in lists of lists."""
    pyarrow = pytest.importorskip("pyarrow")
    types = {name: getattr(pyarrow, name)() for name in DECLARED}
    columns = {name: pyarrow.array([DECLARED[name][1]] * 5, kind) for name, kind in types.items()}
    lists = {
        f"{name}s": pyarrow.array([[[DECLARED[name][1]]]] * 5, pyarrow.list_(pyarrow.list_(kind)))
        for name, kind in types.items()
    }
    structs = {"of": pyarrow.StructArray.from_arrays(list(columns.values()), list(columns))}
    table = pyarrow.table({**columns, **lists, **structs})
    if kind == "lance":
        return pytest.importorskip("lance").write_dataset(table, folder / "typed.lance")
    return pytest.importorskip("datasets").Dataset(table) if kind == "datasets" else table


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("kind", ["pyarrow", "lance", "datasets"])
@pytest.mark.parametrize("form", ["{}", "of.{}", "{}s"])
def test_floats_of_declared_columns_keep_their_types(kind, form, on_error, tmp_path):
    dataset, paths = of_declared_columns(tmp_path, kind), [form.format(name) for name in DECLARED]
    for batch in readers.Map(dataset=dataset, outputs=paths, on_error=on_error).next_epoch(2):
        assert [column.samples[0].dtype.name for column in batch] == [name for name, _ in DECLARED.values()]
        assert [np.ravel(column.numpy()).tolist() for column in batch] == [
            [value] * len(batch[0]) for _, value in DECLARED.values()
        ]


def test_floats_of_declared_columns_may_be_large(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    dataset = pyarrow.table({"t": [1e300, 1700000001.25], "n": [2**40, 1]})
    assert readers.Map(dataset=dataset, outputs=["t"])(2)[0].tolist() == [1e300, 1700000001.25]
    with pytest.raises(DataError, match="row 0.*scalar_labels=True"):
        readers.Map(dataset=dataset, outputs=["n"])(2)
    assert readers.Map(dataset=dataset, outputs=["n"], scalar_labels=True)(2)[0].tolist() == [2**40, 1]


def test_declared_types_are_not_those_of_formats_and_functions(tmp_path):
    dataset = of_declared_columns(tmp_path, "datasets")
    changed = dataset.with_transform(lambda rows: {"float16": [value + 7e4 for value in rows["float16"]]})
    for reader in (
        readers.Map(dataset=dataset, outputs=[lambda row: row["float16"] + 7e4]),
        readers.Map(dataset=changed, outputs=["float16"]),
    ):
        (sums,) = reader(2)
        assert (sums.dtype, sums.tolist()) == ("float32", [float(np.float32(7e4 + np.float16(0.1).item()))] * 2)


def test_missing_numbers_of_declared_columns_are_named():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": pyarrow.array([1.5, None], pyarrow.float64())})
    with pytest.raises(DataError, match="1 of 2 samples") as caught:
        readers.Map(dataset=table, outputs=["a"])(2)
    assert [failure.index for failure in caught.value.failures] == [1]


def test_broken_labels_are_skipped_and_none_is_left():
    reader = readers.Map(dataset=[None, 3, "no"], scalar_labels=True, on_error="skip")
    (empty,), (labels,) = reader(1), reader(2)
    assert [(len(batch), batch.dtype, batch.ndim) for batch in (empty, labels)] == [(0, "int64", 0), (1, "int64", 0)]


def test_a_data_set_of_hugging_face_is_classified_without_a_cast(tmp_path):
    torch = pytest.importorskip("torch")
    from dynamic.pytorch import Loader

    dataset, outputs = of_hugging_face(tmp_path)
    reader = readers.Map(dataset=dataset, outputs=outputs, scalar_labels=True, random_shuffle=True)
    loader = Loader(reader, lambda files, labels: (pad(cast(files, dtype="float32")), labels), batch_size=8)
    model = torch.nn.Linear(9, COUNT)
    for batch in loader:
        padded = torch.nn.functional.pad(batch["data"], (0, 9 - batch["data"].shape[1]))
        torch.nn.functional.cross_entropy(model(padded), batch["label"]).backward()
    assert model.weight.grad.any()


@sets
def test_it_stops_and_resumes_anywhere(make, tmp_path):
    dataset, outputs = make(tmp_path)

    def job(batch_size, shard_id, num_shards):
        shards = {"shard_id": shard_id, "num_shards": num_shards}
        reader = readers.Map(dataset=dataset, outputs=outputs, random_shuffle=True, seed=7, **shards)
        rng = random.RNG(seed=3)

        def epoch():
            for data, numbers in reader.next_epoch(batch_size):
                angles = random.uniform(range=[0.0, 90.0], rng=rng.keyed(data)["angle"])
                yield data, numbers, angles

        return {"reader": reader, "rng": rng}, epoch

    assert assert_resumable(job, batch_sizes=(3, 5), epochs=1).samples == COUNT


@sets
def test_keys_name_samples_and_survive_another_order(make, tmp_path):
    dataset, outputs = make(tmp_path)
    key = 1 if make is of_torch or make is of_tuples else "number"
    if make is of_torch:
        key = numbered
    before = readers.Map(dataset=dataset, outputs=outputs, key=key, random_shuffle=True)
    assert before.explain("17").name == "17"
    _, given_first = before(10)
    rows = [{"file": f, "number": i} for i, f in enumerate(FILES)][::-1]
    after = readers.Map(dataset=rows, outputs=["file", "number"], key="number", random_shuffle=True)
    after.set_state(before.get_state())
    rest = [int(n) for _, numbers in after.next_epoch(4) for n in numbers.samples]
    assert sorted([*map(int, given_first.samples), *rest]) == list(range(COUNT))


def numbered(row):
    """The key of a row of tensors."""
    return int(row[1])


@given(count=st.integers(1, 40), size=st.integers(1, 9), seed=st.integers(0, 99), stop=st.integers(0, 9))
def test_arrays_come_in_any_batches(count, size, seed, stop):
    rows = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    rows.flags.writeable = False
    reader = readers.Map(dataset=rows, random_shuffle=True, seed=seed)
    found = [reader(size)[0] for _ in range(min(stop, -(-count // size) - 1))]
    again = readers.Map(dataset=rows, random_shuffle=True, seed=seed)
    again.set_state(reader.get_state())
    found += [batch for (batch,) in again.next_epoch(size)]
    values = np.concatenate([batch.numpy() for batch in found])
    assert np.array_equal(np.sort(values[:, 0]), rows[:, 0])


class Faulty:
    """Rows of which one cannot be read, and one now and then."""

    def __init__(self, bad=(), flaky=()):
        self.bad, self.flaky = set(bad), set(flaky)

    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i in self.bad:
            raise RuntimeError(f"no such shard {i}")
        if i in self.flaky:
            self.flaky.discard(i)
            raise ConnectionError("reset")
        return np.full((2, 2), i)


class Several(Faulty):
    """The same, several at a time."""

    def __getitems__(self, indices):
        return [self[i] for i in indices]


@pytest.mark.parametrize("kind", [Faulty, Several])
def test_errors_name_rows(kind):
    reader = readers.Map(dataset=kind(bad=[3, 5]))
    with pytest.raises(DataError, match=r"2 of 10 samples") as caught:
        reader(10)
    assert "sample 3 (row 3): RuntimeError: no such shard 3" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert reader.position == 0


@pytest.mark.parametrize("kind", [Faulty, Several])
def test_rows_are_skipped_or_replaced(kind):
    reader = readers.Map(dataset=kind(bad=[3]), on_error="skip")
    assert [int(x[0, 0]) for batch in reader.next_epoch(4) for x in batch[0].samples] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [failure.index for failure in reader.skipped] == [3]
    assert len(readers.Map(dataset=kind(bad=[3]), on_error="replace")(5)[0]) == 5
    empty = readers.Map(dataset=kind(bad=[0, 1]), on_error="skip")(2)[0]
    assert (len(empty), empty.ndim, empty.dtype.name) == (0, 2, "i64")


@pytest.mark.parametrize("kind", [Faulty, Several])
def test_an_error_that_passes_loses_nothing(kind):
    reader = readers.Map(dataset=kind(flaky=[1]), on_error="skip")
    with pytest.raises(ConnectionError):
        reader(4)
    assert len(reader(4)[0]) == 4
    assert not reader.skipped


def test_rows_unlike_others_are_refused_by_name():
    reader = readers.Map(dataset=[np.zeros(2), np.zeros(3), np.zeros((2, 2)), np.zeros(2, np.int32)])
    with pytest.raises(DataError) as caught:
        reader(4)
    assert "sample 2 (row 2): has float64 of 2 dimensions as output 0, where row 0 has float64 of 1 dimensions" in str(
        caught.value
    )
    assert [failure.index for failure in caught.value.failures] == [2, 3]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ([], "at least one row"),
        (iter([1]), "__len__ and __getitem__"),
        ("path", "__len__ and __getitem__"),
        ({"a": [1], "b": [1, 2]}, "columns of one length"),
        (5, "__len__ and __getitem__"),
    ],
)
def test_data_sets_that_are_none(dataset, expected):
    with pytest.raises(ArgumentError, match=expected):
        readers.Map(dataset=dataset)


def test_parts_that_are_missing_say_which_there_are():
    rows = [{"image": {"bytes": b"1"}}]
    with pytest.raises(DataError, match="has no part 'image.data'; it has 'bytes'"):
        readers.Map(dataset=rows, outputs="image.data")(1)
    with pytest.raises(DataError, match=r"is a mapping; name its parts: outputs=\['image'\]"):
        readers.Map(dataset=rows)(1)
    with pytest.raises(DataError, match="row 0: its key cannot be had: has no part 'id'"):
        readers.Map(dataset=rows, outputs="image.bytes", key="id")
    with pytest.raises(ArgumentError, match="outputs"):
        readers.Map(dataset=rows, outputs=[2.5])


def test_memory_of_rows_may_be_used_again():
    class Reused:
        row = np.zeros(3)

        def __len__(self):
            return 4

        def __getitem__(self, i):
            self.row[:] = i
            return self.row

    reader = readers.Map(dataset=Reused())
    (batch,), (single,) = reader(3), reader(1)
    assert [x[0] for x in (*batch.samples, *single.samples)] == [0, 1, 2, 3]


def test_other_rows_are_another_data_set():
    state = readers.Map(dataset=np.zeros((5, 2))).get_state()
    with pytest.raises(StateMismatch):
        readers.Map(dataset=np.zeros((6, 2))).set_state(state)
    contents = readers.Map(dataset=np.zeros((5, 2)), fingerprint="contents").get_state()
    with pytest.raises(StateMismatch, match="other contents"):
        readers.Map(dataset=np.ones((5, 2)), fingerprint="contents").set_state(contents)


def test_digests_of_contents_are_those_of_the_first_version():
    rows = [{"a": 0.1 * i, "b": [i, 2**33], "c": [[0.5, 1e300]], "d": b"x", "e": "ü", "f": True, "g": 2**40,
             "h": np.float64(3)} for i in range(4)]  # fmt: skip
    state = readers.Map(dataset=rows, outputs=list("abcdefgh"), fingerprint="contents").get_state()
    assert state["contents"] == "b6945855c5a72b51320b992331565a70"


def test_lists_without_numbers_are_of_floats():
    for value in ([], (), range(0), [[]], [range(0)]):
        (batch,) = readers.Map(dataset=[{"a": value}], outputs=["a"])(1)
        assert (batch.samples[0].size, batch.dtype) == (0, "float32")


def test_a_fingerprint_of_hugging_face_tells_data_sets_apart(tmp_path):
    dataset, outputs = of_hugging_face(tmp_path)
    state = readers.Map(dataset=dataset, outputs=outputs).get_state()
    other = dataset.map(lambda row: {"number": row["number"] + 1})
    with pytest.raises(StateMismatch):
        readers.Map(dataset=other, outputs=outputs).set_state(state)
    keyed = readers.Map(dataset=dataset, outputs=outputs, key="number").get_state()
    readers.Map(dataset=dataset.with_format(None), outputs=outputs, key="number").set_state(keyed)


@sets
def test_it_pickles_with_its_data_set(make, tmp_path):
    dataset, outputs = make(tmp_path)
    if make is of_h5py:
        pytest.skip("h5py: files are not pickled")
    reader = readers.Map(dataset=dataset, outputs=outputs, random_shuffle=True)
    reader(3)
    copy = pickle.loads(pickle.dumps(reader))
    assert [files(data) for data, _ in copy.next_epoch(5)] == [files(data) for data, _ in reader.next_epoch(5)]


@sets
def test_rows_are_selected_and_drawn_by_their_parts(make, tmp_path):
    """By functions that see a column alone, where the data set has columns."""
    data, outputs = make(tmp_path)
    if outputs is None and not isinstance(data, dict):
        number = 1
    else:
        number = "number"
    reader = readers.Map(
        dataset=data,
        outputs=outputs,
        where=lambda row: int(row[number]) % 3 == 1,
        weights=lambda row: 0 if int(row[number]) == 4 else 1 + int(row[number]),
        num_samples=40,
    )
    found = [int(n) for _, numbers in reader.next_epoch(7) for n in numbers.samples]
    assert len(found) == 40
    assert {n % 3 for n in found} == {1}
    assert 4 not in found
    taken = [bytes(f).rstrip(b"\0") for batch, _ in reader.next_epoch(7) for f in files(batch)]
    again = readers.Map(
        dataset=data,
        outputs=outputs,
        where=lambda row: int(row[number]) % 3 == 1,
        weights=[0 if n == 4 else 1 + n for n in range(1, COUNT, 3)],
        num_samples=40,
    )
    again.set_state({**reader.get_state(), "epoch": 1, "position": 0, "last": "0" * 16})
    assert [bytes(f).rstrip(b"\0") for batch, _ in again.next_epoch(5) for f in files(batch)] == taken
    with pytest.raises(ArgumentError, match="Error.* for sample '0'"):
        readers.Map(dataset=data, outputs=outputs, where=lambda row: row["none"] == 1 or row.nothing)


@pytest.mark.parametrize("form", [None, "numpy", "torch", "a transform"])
def test_columns_of_hugging_face_are_as_its_rows(form):
    datasets = pytest.importorskip("datasets")
    if form == "torch":
        pytest.importorskip("torch")
    table = {"a.b": [b"%d" % i for i in range(9)], "a": [{"c": i, "d": [i, i]} for i in range(9)],
             "n": [2**30 + i for i in range(9)], "x": [[0.5 * i] * (i % 2 + 1) for i in range(9)]}  # fmt: skip
    dataset = datasets.Dataset.from_dict(table)
    if form == "a transform":
        dataset.set_transform(lambda batch: batch | {"more": [row["c"] for row in batch["a"]]})
    elif form:
        dataset.set_format(form)
    outputs = ["a.b", "a.c", "a.d", "n"] if form != "torch" else ["a.c", "n"]
    for parts in (outputs, outputs[1:2], [*outputs, lambda row: row["n"]], [*outputs, "x"]):
        ours = readers.Map(dataset=dataset, outputs=parts, random_shuffle=True)
        plain = readers.Map(dataset=[dataset[i] for i in range(9)], outputs=parts, random_shuffle=True)
        for _ in range(3):
            for part, mine, theirs in zip(parts, ours(4), plain(4), strict=True):
                assert mine.origin.names == theirs.origin.names
                if form is None and part == "x":  # in the type of its column
                    theirs = cast(theirs, dtype="float64")
                for one, other in zip(mine, theirs, strict=True):
                    np.testing.assert_array_equal(one.numpy(), other.numpy(), strict=True)
    if form == "a transform":
        assert readers.Map(dataset=dataset, outputs=["more"])(9)[0].tolist() == list(range(9))
