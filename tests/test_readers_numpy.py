"""Readers of NumPy's files: what is listed, every kind of file, regions, and files that are damaged."""

from __future__ import annotations

import os

import numpy as np
import pytest
from dali_oracle import DaliError, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dynamic as ndd
from dynamic import as_batch
from dynamic.errors import ArgumentError, DataError
from dynamic.readers import Numpy

KINDS = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
#: Without NaN, whose bits may change on the way through Python.
kinds = st.sampled_from(KINDS)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def arrays_of(kind, shape):
    return hnp.arrays(np.dtype(kind), shape, elements={"allow_nan": False} if kind[0] == "f" else None)


def read(path, **arguments):
    """The array of one file."""
    (batch,) = Numpy(files=path, **arguments)(1)
    (array,) = batch.samples
    return array


def of_dali(dali, batch_size, **arguments):
    """The arrays of the first batch that DALI reads."""
    text = f"next(ndd.readers.Numpy(**{arguments!r}).next_epoch(batch_size={batch_size}))"
    (batch,) = dali.script(f"result = {text}")
    return batch.samples


@given(data=st.data(), kind=kinds, shape=shapes, fortran=st.booleans(), order=st.sampled_from("<>"),
       version=st.sampled_from([(1, 0), (2, 0), (3, 0)]))  # fmt: skip
def test_what_is_read_is_what_numpy_reads(tmp_path_factory, data, kind, shape, fortran, order, version):
    array = data.draw(arrays_of(kind, shape))
    stored = np.asarray(array.astype(array.dtype.newbyteorder(order)), order="F" if fortran else "C")
    path = tmp_path_factory.mktemp("d") / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, stored, version=version)
    found = read(path)
    np.testing.assert_array_equal(found, array, strict=True)
    assert found.dtype.isnative
    assert found.flags.c_contiguous
    assert found.flags.aligned


@given(data=st.data(), kind=kinds, shape=shapes, fortran=st.booleans())
def test_arrays_are_those_of_dali(dali: Oracle, tmp_path_factory, data, kind, shape, fortran):
    array = data.draw(arrays_of(kind, shape))
    path = tmp_path_factory.mktemp("d") / "a.npy"
    np.save(path, np.asarray(array, order="F" if fortran else "C"))
    (theirs,) = of_dali(dali, 1, files=[str(path)])
    np.testing.assert_array_equal(read(path), theirs, strict=True)


# Regions


@st.composite
def regions(draw, most=3):
    """An array's shape, and arguments for a region of it, which may lie outside."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=most, min_side=1, max_side=6))
    axes = draw(st.none() | st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    count = len(shape if axes is None else axes)
    whole = st.lists(st.integers(-3, 8), min_size=count, max_size=count)
    part = st.lists(st.integers(-4, 12).map(lambda n: n / 8), min_size=count, max_size=count)
    arguments = {}
    start = draw(st.sampled_from(["roi_start", "rel_roi_start", None]))
    end = draw(st.sampled_from(["roi_end", "roi_shape", "rel_roi_end", "rel_roi_shape", None]))
    for name in filter(None, (start, end)):
        arguments[name] = draw(part if name.startswith("rel_") else whole)
    if axes is not None:
        arguments["roi_axes"] = [axis - len(shape) * draw(st.booleans()) for axis in axes]
    policy = draw(st.sampled_from(["error", "pad", "trim_to_shape"]))
    return shape, arguments | {"out_of_bounds_policy": policy, "fill_value": draw(st.sampled_from([0, 7, 7.6, -3.0]))}


@given(region=regions(), fortran=st.booleans(), kind=st.sampled_from(["i4", "u1", "f4", "f8"]))
def test_regions_are_those_of_dali(dali: Oracle, tmp_path_factory, region, fortran, kind):
    shape, arguments = region
    path = tmp_path_factory.mktemp("d") / "a.npy"
    np.save(path, np.asarray(np.arange(np.prod(shape)).reshape(shape).astype(kind), order="F" if fortran else "C"))
    try:
        (theirs,) = of_dali(dali, 1, files=[str(path)], **arguments)
    except DaliError as error:
        told = str(error)
        assert any(words in told for words in ("out of bounds", "before start", "out of range", "negative shapes"))
        try:
            found = read(path, **arguments)
        except DataError as ours:
            refused = str(ours)
            assert "a.npy): its shape is" in refused
        except ArgumentError as ours:
            refused = str(ours)
            assert "shape' must be 0 or more" in refused
        else:  # it ends before it begins by less than half an element
            assert "out of bounds" not in told
            assert found.size == 0
        return
    arguments["fill_value"] = float(np.float32(arguments["fill_value"]))  # all that DALI keeps of it
    np.testing.assert_array_equal(read(path, **arguments), theirs, strict=True)


def test_what_is_outside_keeps_all_digits(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(1))
    found = read(tmp_path / "a.npy", roi_shape=2, out_of_bounds_policy="pad", fill_value=0.1)
    assert found.tolist() == [1.0, 0.1]


def test_whole_floats_and_arrays_say_where_a_region_is(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    for start in ([1.0, 2.0], (1, 2), np.array([1, 2]), np.array([1.0, 2.0], np.float32), np.array([1, 2], np.uint8)):
        assert read(tmp_path / "a.npy", roi_start=start).tolist() == [[5]]


@given(region=regions(), fortran=st.booleans(), order=st.sampled_from("<>"))
def test_a_region_is_what_slicing_gives(tmp_path_factory, region, fortran, order):
    shape, arguments = region
    array = np.arange(np.prod(shape), dtype=f"{order}i4").reshape(shape)
    path = tmp_path_factory.mktemp("d") / "a.npy"
    np.save(path, np.asarray(array, order="F" if fortran else "C"))
    chosen = [axis % len(shape) for axis in arguments.get("roi_axes", range(len(shape)))]
    index, outside = [slice(None)] * len(shape), False
    for k, axis in enumerate(chosen):
        low = arguments.get("roi_start", [0] * 9)[k]
        low = arguments["rel_roi_start"][k] * shape[axis] if "rel_roi_start" in arguments else low
        high = shape[axis]
        high = arguments["roi_end"][k] if "roi_end" in arguments else high
        high = low + arguments["roi_shape"][k] if "roi_shape" in arguments else high
        high = arguments["rel_roi_end"][k] * shape[axis] if "rel_roi_end" in arguments else high
        high = low + arguments["rel_roi_shape"][k] * shape[axis] if "rel_roi_shape" in arguments else high
        if low % 1 or high % 1 or low < 0 or high > shape[axis] or high < low:
            outside = True  # or to be rounded: DALI says what is right
        else:
            index[axis] = slice(int(low), int(high))
    if not outside:
        np.testing.assert_array_equal(read(path, **arguments), array[tuple(index)].astype("i4"), strict=True)


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("start", [[9, 0], [0, 9], [-9, 0], [0, -9], [9, -9]])
def test_a_region_that_lies_beside_an_array_is_filled(tmp_path, start, fortran):
    np.save(tmp_path / "a.npy", np.asarray(np.arange(6).reshape(2, 3), order="F" if fortran else "C"))
    where = {"roi_start": start, "roi_shape": [2, 1]}
    assert read(tmp_path / "a.npy", **where, out_of_bounds_policy="pad", fill_value=7).tolist() == [[7], [7]]
    assert read(tmp_path / "a.npy", **where, out_of_bounds_policy="trim_to_shape").size == 0


def test_of_a_region_only_its_rows_are_read(tmp_path, monkeypatch):
    from dynamic.io._store import DISK

    asked = []
    original = DISK.contents
    monkeypatch.setattr(DISK, "contents", lambda *at, **more: asked.append(at[1:]) or original(*at, **more))
    array = np.arange(3000, dtype=np.int32).reshape(1000, 3)
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(read(tmp_path / "a.npy", roi_start=[990, 1]), array[990:, 1:])
    assert asked == [(0, 4096), (128 + 990 * 12, 120)]


# Listing


def test_files_of_a_folder_and_of_its_folders_are_listed(tmp_path):
    names = ["z.npy", "A.npy", "b/1.npy", "b/c/2.npy", ".h.npy", ".hid/3.npy", "a/10.npy", "a/9.npy", "x.NPY", "t.txt"]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            np.save(file, np.int32(number))
    (tmp_path / "l.npy").symlink_to("z.npy")
    (tmp_path / "lb").symlink_to("b")
    (batch,) = Numpy(file_root=tmp_path)(9)
    assert batch.tolist() == [4, 1, 0, 0, 5, 6, 7, 2, 2]
    assert batch.origin.names == [".h.npy", "A.npy", "l.npy", "z.npy", ".hid/3.npy", "a/10.npy", "a/9.npy", "b/1.npy",
                                  "lb/1.npy"]  # fmt: skip
    assert Numpy(file_root=tmp_path, file_filter="1*")(3)[0].tolist() == [6, 2, 2]
    for others in ("[^Az.l]*.npy", "[!Az.l]*.npy"):
        assert Numpy(file_root=tmp_path, file_filter=others)(5)[0].tolist() == [5, 6, 7, 2, 2]


def test_a_folder_is_listed_as_by_dali(dali: Oracle, tmp_path):
    names = ["z.npy", "A.npy", "b/1.npy", "b/c/2.npy", "a/10.npy", "a/9.npy", "+/5.npy", "~/0.npy", ".x.npy", "x.NPY"]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            np.save(file, np.int32(number))
    ours = Numpy(file_root=tmp_path)
    n = ours.get_metadata()["epoch_size"]
    assert [a.tolist() for a in ours(n)[0].samples] == [a.tolist() for a in of_dali(dali, n, file_root=str(tmp_path))]


def test_files_may_be_listed_in_words_or_in_a_text_file(tmp_path, monkeypatch):
    for number, name in enumerate(["a b.npy", " c.npy", "d.npy"]):
        np.save(tmp_path / name, np.int32(number))
    (tmp_path / "list.txt").write_bytes(b"d.npy\r\n\n c.npy\na b.npy")
    assert Numpy(file_list=tmp_path / "list.txt")(3)[0].tolist() == [2, 1, 0]
    assert Numpy(files=["d.npy", "a b.npy", "d.npy"], file_root=tmp_path)(3)[0].tolist() == [2, 0, 2]
    monkeypatch.chdir(tmp_path)
    assert Numpy(files="d.npy")(1)[0].tolist() == [2]
    os.mkdir("other")
    (tmp_path / "other" / "list.txt").write_text("d.npy")
    assert Numpy(file_list="other/list.txt", file_root=".")(1)[0].tolist() == [2]


@pytest.mark.parametrize(("arguments", "told"), [
    ({}, "argument 'file_root' must be a path, unless files or file_list is given; got None"),
    ({"file_root": 3}, "argument 'file_root' must be a path"),
    ({"file_root": "none"}, "argument 'file_root' must be a folder with arrays; got .*No such file"),
    ({"file_root": "empty"}, r"argument 'file_root' must be a folder with arrays.*no file matches '\*\.npy'"),
    ({"files": []}, "argument 'files' must be at least one path"),
    ({"files": [3]}, r"argument 'files\[0\]' must be a path"),
    ({"files": "a", "file_list": "b"}, "argument 'files' must be None where file_list is given"),
    ({"file_list": "none.txt"}, "argument 'file_list' must be a text file .*No such file"),
    ({"file_list": "blank.txt"}, "argument 'file_list' must be a text file .*an empty one"),
    ({"file_list": "nul.txt"}, "argument 'file_list' must be .*NUL in path 1"),
    ({"files": "a", "file_filter": 3}, "argument 'file_filter' must be a pattern"),
    ({"files": "a", "roi_start": 1, "rel_roi_start": 0.5}, "argument 'rel_roi_start' must be left out when 'roi_st"),
    ({"files": "a", "roi_end": 1, "roi_shape": 1}, "argument 'roi_shape' must be left out when 'roi_end' is given"),
    ({"files": "a", "roi_start": [1, 0.5]}, r"argument 'roi_start\[1\]' must be an integer; got float 0.5"),
    ({"files": "a", "roi_shape": [1, -1]}, "argument 'roi_shape' must be 0 or more; got list"),
    ({"files": "a", "rel_roi_shape": -0.01}, "argument 'rel_roi_shape' must be 0 or more; got float -0.01"),
    ({"files": "a", "roi_start": as_batch([1, 1])}, "argument 'roi_start' must be a number, .*got a Batch"),
    ({"files": "a", "roi_start": "1"}, "argument 'roi_start' must be an integer; got str"),
    ({"files": "a", "rel_roi_end": float("nan")}, "argument 'rel_roi_end' must be a finite number"),
    ({"files": "a", "roi_axes": [True], "roi_start": 1}, "argument 'roi_axes' must be an integer"),
    ({"files": "a", "out_of_bounds_policy": "fill"}, "argument 'out_of_bounds_policy' must be 'error', 'pad' or"),
    ({"files": "a", "fill_value": "0"}, "argument 'fill_value' must be a finite number"),
    ({"files": "a", "use_o_direct": 2}, "argument 'use_o_direct' must be True or False"),
    ({"files": "a", "register_buffers": 2}, "argument 'register_buffers' must be True or False"),
    ({"files": "a", "cache_header_information": 2}, "argument 'cache_header_information' must be True or False"),
    ({"files": "a", "roi_begin": 2}, "has no argument 'roi_begin'"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "nul.txt").write_bytes(b"a\nb\0c\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"readers\.Numpy\(\):? {told}"):
        Numpy(**arguments)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"roi_start": [1, 1, 1]}, r"its shape is \(2, 3\), and roi_start must be one value, or 2"),
    ({"roi_axes": [2], "roi_start": 0}, r"its shape is \(2, 3\), and roi_axes must be different dimensions"),
    ({"roi_axes": [0, -2], "roi_start": 0}, "and roi_axes must be different dimensions"),
    ({"roi_start": [1, 1], "roi_end": [0, 2]}, "and roi_end must be at or after the start of the window"),
    ({"rel_roi_start": [0.5, 0.5], "rel_roi_end": [1, 1.5]}, "and rel_roi_.* must be"),
])  # fmt: skip
def test_a_region_that_a_file_does_not_have_is_a_fault_of_that_file(tmp_path, arguments, told):
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    with pytest.raises(DataError, match=rf"sample 0 \(.*a\.npy\): .*{told}"):
        read(tmp_path / "a.npy", **arguments)


# Damage


def test_arrays_that_are_no_numbers_are_refused_and_never_unpickled(tmp_path):
    arrays = {"O": np.array([{}, []], dtype=object), "complex": np.complex64([1]), "U1": np.array(["a"]),
              "S1": np.array([b"a"]), "datetime": np.array(["2020"], "M8[D]"), "'a'": np.zeros(2, [("a", "i4")]),
              "V3": np.zeros(2, "V3"), "float128": np.zeros(2, "longdouble")}  # fmt: skip
    for name, array in arrays.items():
        np.save(tmp_path / "a.npy", array, allow_pickle=True)
        for region in ({}, {"roi_start": 0}):
            with pytest.raises(
                DataError, match=rf"a\.npy\): holds .*{'object' if name == 'O' else name}.*not supported"
            ):
                read(tmp_path / "a.npy", **region)


def test_every_truncation_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.int16))
    whole = (tmp_path / "a.npy").read_bytes()
    for region in ({}, {"roi_start": 1}, {"roi_end": 1}):
        for size in range(len(whole)):
            (tmp_path / "b.npy").write_bytes(whole[:size])
            with pytest.raises(DataError, match=r"b\.npy\): (is no|ends)"):
                read(tmp_path / "b.npy", **region)
    (tmp_path / "b.npy").write_bytes(whole + b"more")
    assert read(tmp_path / "b.npy").tolist() == [0, 1, 2, 3]


def test_a_truncated_array_without_dimensions_is_refused_where_a_region_is_asked_for(tmp_path):
    np.save(tmp_path / "a.npy", np.float64(2.5))
    assert read(tmp_path / "a.npy", roi_start=0).tolist() == 2.5
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match="ends too early: 135 bytes of 136"):
        read(tmp_path / "a.npy", roi_start=0)


def described(shape="(1,)", descr="'<i4'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"


@pytest.mark.parametrize("length", [100, 4085, 4086, 4087, 5000, 10_000])
def test_a_long_header_is_read_whatever_region_is_asked_for(tmp_path, length):
    header = described("(2, 3)").ljust(length).encode()
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    whole = b"\x93NUMPY\1\0" + length.to_bytes(2, "little") + header + array.tobytes()
    (tmp_path / "a.npy").write_bytes(whole)
    found = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, array, strict=True)
    assert found.flags.aligned
    np.testing.assert_array_equal(read(tmp_path / "a.npy", roi_start=[1, 0]), array[1:], strict=True)
    (tmp_path / "a.npy").write_bytes(whole[: 10 + length - 1])
    for region in ({}, {"roi_start": 1}):
        with pytest.raises(DataError, match="ends within its header"):
            read(tmp_path / "a.npy", **region)


def test_what_follows_an_array_is_not_read_and_what_memory_cannot_hold_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3))
    os.truncate(path, 1 << 40)  # a file with holes takes no room
    assert read(path).tolist() == [0, 1, 2]
    np.save(path, np.zeros((2, 3)))
    for shape, told in (
        ([1 << 60, 1 << 60], "and the region one that cannot be"),
        ([1 << 50, 8], "is too large: Unable"),
    ):
        with pytest.raises(DataError, match=told):
            read(path, roi_shape=shape, out_of_bounds_policy="pad")


def test_empty_lists_say_nothing_of_a_region_and_words_are_of_any_case(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    assert read(tmp_path / "a.npy", roi_start=[], roi_shape=[], roi_axes=[]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read(tmp_path / "a.npy", roi_shape=3, out_of_bounds_policy="PAD").shape == (3, 3)


def test_arrays_that_no_batch_can_hold_are_named(tmp_path):
    for name, array in {"a": np.zeros(2, "i4"), "b": np.zeros(2, "f4"), "c": np.zeros((2, 2), "i4")}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = ["a.npy", "b.npy", "a.npy", "c.npy"]
    with pytest.raises(DataError) as caught:
        Numpy(files=files, file_root=tmp_path)(4)
    assert [failure.index for failure in caught.value.failures] == [1, 3]
    assert f"holds float32 of 1 dimensions, where {tmp_path / 'a.npy'} holds int32 of 1 dimensions" in str(caught.value)
    assert [b.shape for (b,) in Numpy(files=files, file_root=tmp_path).next_epoch(1)][1::2] == [[(2,)], [(2, 2)]]
    assert Numpy(files=files, file_root=tmp_path, on_error="skip")(4)[0].shape == [(2,), (2,)]


@given(kinds=st.lists(st.sampled_from(["i4", "f4", "2d", "damaged"]), min_size=1, max_size=6), size=st.integers(1, 7))
def test_what_is_left_out_does_not_depend_on_batches(tmp_path_factory, kinds, size):
    folder = tmp_path_factory.mktemp("mixed")
    arrays = {"i4": np.zeros(2, "i4"), "f4": np.zeros(2, "f4"), "2d": np.zeros((2, 2), "i4")}
    for i, kind in enumerate(kinds):
        if kind == "damaged":
            (folder / f"{i}.npy").write_bytes(b"no array")
        else:
            np.save(folder / f"{i}.npy", arrays[kind])
    first = next((kind for kind in kinds if kind != "damaged"), None)
    expected = arrays[first] if first else np.zeros(0, "u1")
    reader = Numpy(file_root=folder, on_error="skip")
    batches = [batch for (batch,) in reader.next_epoch(size)]
    assert {(batch.dtype, batch.ndim) for batch in batches} == {(ndd.dtype(expected.dtype), expected.ndim)}
    assert sum(map(len, batches)) == kinds.count(first)
    assert sorted(failure.index for failure in reader.skipped) == [i for i, kind in enumerate(kinds) if kind != first]


def test_none_is_the_default_of_what_a_region_is_filled_with(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(1))
    found = read(tmp_path / "a.npy", roi_shape=2, out_of_bounds_policy="pad", fill_value=None, file_filter=None)
    assert found.tolist() == [1.0, 0.0]


def test_a_state_is_good_however_the_same_files_are_listed(tmp_path):
    for name in ("b.npy", "a.npy"):
        np.save(tmp_path / name, np.zeros(1))
    (tmp_path / "list.txt").write_text("a.npy\nb.npy\n")
    ways = (
        {"files": ["a.npy", "b.npy"], "file_root": tmp_path},
        {"file_list": tmp_path / "list.txt"},
        {"file_root": tmp_path},
    )
    first, second, third = (Numpy(**way).get_state() for way in ways)
    assert first == second == third


def test_names_are_in_the_order_of_their_bytes_also_where_they_are_no_text(tmp_path):
    names = [b"\xf0\x9f\x98\x80", b"\xff"]  # as text the second comes first
    for folder in names:
        (tmp_path / os.fsdecode(folder)).mkdir()
        for name in names:
            np.save(tmp_path / os.fsdecode(folder) / os.fsdecode(name + b".npy"), np.zeros(1))
    (batch,) = Numpy(file_root=tmp_path)(4)
    assert [os.fsencode(name) for name in batch.origin.names] == [f + b"/" + n + b".npy" for f in names for n in names]


def test_a_batch_all_of_which_was_skipped_has_an_origin(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"no array")
    (batch,) = Numpy(files=tmp_path / "a.npy", on_error="skip")(1)
    assert (len(batch), batch.origin.names) == (0, [])
