"""Readers of tar archives: what their samples are, with and without an index, and archives that are damaged."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from dali_oracle import DaliError, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

from dynamic import dtypes
from dynamic.errors import ArgumentError, DataError
from dynamic.readers import Webdataset

#: Paths that do not begin with a dot in their last part, which DALI gives an empty sample for where they come first.
keys = st.sampled_from(["0", "1", "2", "a/0", "a/1", "a.b/0", "./3", "x" * 90, "ü", "7" + "y" * 120])
extensions = st.sampled_from(["jpg", "cls", "seg.png", "JPG", "txt"])
files = st.lists(st.tuples(keys, extensions, st.binary(max_size=9)), min_size=1, max_size=12)


def packed(path, members, format=tarfile.GNU_FORMAT):
    """An archive of (name, bytes); None for a folder and text for a link."""
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            if data is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
            else:
                entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data) if isinstance(data, bytes) else None)
    return path


def grouped(members):
    """Files of one key that follow each other, in this order."""
    samples = []
    for key, extension, data in members:
        if not samples or samples[-1][0] != key:
            samples.append((key, []))
        samples[-1][1].append((extension, data))
    return samples


def outputs(reader, batch_size=3):
    """The samples of an epoch as bytes."""
    return [tuple(bytes(array.tobytes()) for array in sample)
            for batches in reader.next_epoch(batch_size)
            for sample in zip(*(batch.samples for batch in batches), strict=True)]  # fmt: skip


@given(members=files, format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
       ext=st.lists(st.lists(extensions, min_size=1, max_size=3, unique=True), min_size=1, max_size=3),
       missing=st.sampled_from(["", "empty", "skip"]), sensitive=st.booleans())  # fmt: skip
def test_samples_are_files_of_one_name_that_follow_each_other(
    tmp_path_factory, members, format, ext, missing, sensitive
):
    path = packed(tmp_path_factory.mktemp("d") / "a.tar", [(f"{k}.{e}", data) for k, e, data in members], format)

    def chosen(sample, some):
        folded = [e if sensitive else e.lower() for e in some]
        return next((data for e, data in sample if (e if sensitive else e.lower()) in folded), None)

    expected = [tuple(chosen(sample, some) for some in ext) for _, sample in grouped(members)]
    if missing == "skip":
        expected = [sample for sample in expected if None not in sample]
    arguments = {"paths": path, "ext": [";".join(some) for some in ext], "missing_component_behavior": missing,
                 "case_sensitive_extensions": sensitive}  # fmt: skip
    if not expected:
        with pytest.raises(ArgumentError, match=r"paths.*a\.tar"):
            Webdataset(**arguments)
        return
    reader = Webdataset(**arguments)
    assert outputs(reader) == [tuple(data or b"" for data in sample) for sample in expected]
    assert reader.get_metadata()["epoch_size"] == len(expected)


@given(members=files, ext=st.lists(st.sampled_from(["jpg", "cls;jpg", "seg.png", "txt;JPG"]), min_size=1, max_size=3),
       missing=st.sampled_from(["", "empty", "skip"]), sensitive=st.booleans(), indexed=st.booleans())  # fmt: skip
def test_samples_are_those_of_dali(dali: Oracle, tmp_path_factory, members, ext, missing, sensitive, indexed):
    folder = tmp_path_factory.mktemp("d")
    path = packed(folder / "a.tar", [(f"{k}.{e}", data) for k, e, data in members])
    arguments = {"paths": str(path), "ext": ext, "missing_component_behavior": missing,
                 "case_sensitive_extensions": sensitive}  # fmt: skip
    if indexed:
        arguments["index_paths"] = str(index_of(path, folder / "a.idx"))
    try:
        reader = Webdataset(**arguments)
    except ArgumentError:
        with pytest.raises(DaliError, match="number of input samples: 0"):
            of_dali(dali, 1, **arguments)
        return
    n = reader.get_metadata()["epoch_size"]
    theirs = of_dali(dali, n, **arguments)
    assert outputs(reader, n) == [tuple(array.tobytes() for array in sample)
                                  for sample in zip(*(batch.samples for batch in theirs), strict=True)]  # fmt: skip
    reader = Webdataset(**arguments)
    assert [(b.dtype, b.layout) for b in reader(1)] == [(dtypes.uint8, None)] * len(ext)
    assert {(batch.dtype, batch.layout) for batch in theirs} == {("u8", None)}


def of_dali(dali, batch_size, **arguments):
    """The first batch that DALI reads."""
    return dali.script(f"result = next(ndd.readers.Webdataset(**{arguments!r}).next_epoch(batch_size={batch_size}))")


def index_of(path, index, version="v1.2"):
    """The index of an archive, as DALI's script writes it."""
    lines = {}
    with tarfile.open(path) as archive:
        samples, before = [], None
        for entry in archive.getmembers():
            folder, slash, base = entry.name.rpartition("/")
            key = folder + slash + base.partition(".")[0]
            if key != before:
                samples.append([])
            before = key
            words = [
                base.partition(".")[2],
                entry.offset_data,
                entry.size,
                *([entry.name] if version == "v1.2" else []),
            ]
            samples[-1] += words
    lines = [" ".join(map(str, sample)) for sample in samples]
    index.write_text("\n".join([f"{version} {len(lines)}", *lines, ""]))
    return index


@given(members=files, version=st.sampled_from(["v1.1", "v1.2"]))
def test_an_index_says_what_the_archive_says(tmp_path_factory, members, version):
    folder = tmp_path_factory.mktemp("d")
    path = packed(folder / "a.tar", [(f"{k}.{e}", data) for k, e, data in members])
    index = index_of(path, folder / "a.idx", version)
    ext = ["jpg", "cls;seg.png"]
    alone, indexed = Webdataset(paths=path, ext=ext), Webdataset(paths=[path], ext=ext, index_paths=[index])
    assert outputs(indexed) == outputs(alone)
    if version == "v1.2":
        assert indexed.get_state() == alone.get_state()  # a run may go on with an index, or without


def test_what_is_no_sample_is_passed_over(tmp_path):
    members = [(".hidden.jpg", b"h"), ("a/.h.jpg", b"h"), ("folder.jpg", None), ("0.jpg", b"0"), (".in/1.jpg", b"1"),
               ("link.jpg", "0.jpg"), ("none", b"n"), ("2.jpg", b"2"), ("2.jpg", b"twice")]  # fmt: skip
    reader = Webdataset(paths=packed(tmp_path / "a.tar", members), ext="jpg")
    assert outputs(reader) == [(b"0",), (b"1",), (b"",), (b"2",)]
    assert reader.next_epoch(4).__next__()[0].origin.names == ["a.tar/0", "a.tar/.in/1", "a.tar/none", "a.tar/2"]


def test_several_archives_follow_each_other(tmp_path):
    (tmp_path / "more").mkdir()
    first = packed(tmp_path / "b.tar", [("0.jpg", b"0"), ("1.jpg", b"1")])
    second = packed(tmp_path / "more" / "a.tar", [("1.jpg", b"2")])
    reader = Webdataset(paths=[first, str(second)], ext=["jpg"])
    assert outputs(reader) == [(b"0",), (b"1",), (b"2",)]
    assert reader.next_epoch(3).__next__()[0].origin.names == ["b.tar/0", "b.tar/1", "more/a.tar/1"]


@given(data=st.data(), kind=st.sampled_from(["uint8", "int16", "float32", "int64", "float64", "float16", "bool"]))
def test_bytes_are_of_an_element_type(tmp_path_factory, data, kind):
    size = dtypes.numpy_dtype(dtypes.dtype(kind)).itemsize
    counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    arrays = [np.arange(n * size, dtype=np.uint8) % 2 for n in counts]
    members = [(f"{i}.{e}", a.tobytes()) for i, a in enumerate(arrays) for e in ("x", "y")]
    reader = Webdataset(
        paths=packed(tmp_path_factory.mktemp("d") / "a.tar", members), ext=["x", "y"], dtypes=[kind, "uint8"]
    )
    ((typed, plain),) = reader.next_epoch(len(counts))
    assert (typed.dtype, plain.dtype) == (dtypes.dtype(kind), dtypes.uint8)
    for array, here, beside in zip(arrays, typed.samples, plain.samples, strict=True):
        assert here.tobytes() == array.tobytes() == beside.tobytes()
        assert here.flags.aligned


def test_bytes_that_are_no_number_of_elements_are_a_fault_of_their_sample(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.x", bytes(8)), ("1.x", bytes(7)), ("2.x", b"")])
    with pytest.raises(DataError, match=r"a\.tar: 1.*output 0 has 7 bytes, which is no number of float32"):
        Webdataset(paths=path, ext="x", dtypes="float32")(3)
    reader = Webdataset(paths=path, ext="x", dtypes="float32", on_error="skip")
    assert [batch.shape for (batch,) in reader.next_epoch(3)] == [[(2,), (0,)]]
    assert [failure.source for failure in reader.skipped] == [f"{path}: 1"]


def test_dtypes_are_those_of_dali(dali: Oracle, tmp_path):
    path = packed(tmp_path / "a.tar", [("0.a", np.float32([1, 2.5]).tobytes()), ("0.b", b"123")])
    words = "from nvidia.dali import types\n"
    made = f"ndd.readers.Webdataset(paths={str(path)!r}, ext=['a', 'b'], dtypes=[types.FLOAT, types.UINT8])"
    theirs = dali.script(f"{words}result = next({made}.next_epoch(batch_size=1))")
    ours = Webdataset(paths=path, ext=["a", "b"], dtypes=["float32", "uint8"])(1)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.samples[0], other.samples[0], strict=True)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_file_that_is_missing_and_must_not_is_named(tmp_path, indexed):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("0.cls", b"0"), ("b/1.jpg", b"1")])
    index = {"index_paths": index_of(path, tmp_path / "a.idx")} if indexed else {}
    with pytest.raises(DataError, match=r"a\.tar: sample 'b/1' has no file for output 1"):
        Webdataset(paths=path, ext=["jpg", "cls"], missing_component_behavior="error", **index)
    assert len(outputs(Webdataset(paths=path, ext=["jpg"], missing_component_behavior="error", **index))) == 2


@pytest.mark.parametrize(("arguments", "told"), [
    ({"paths": []}, "argument 'paths' must be a path, or a list of at least one; got"),
    ({"paths": 3}, "argument 'paths' must be a path"),
    ({"paths": ["a.tar", 3]}, r"argument 'paths\[1\]' must be a path; got int 3"),
    ({"ext": []}, "argument 'ext' must be an extension"),
    ({"ext": ["jpg", 3]}, "argument 'ext' must be an extension"),
    ({"ext": ["jpg;;cls"]}, r"argument 'ext\[0\]' must be extensions with ';'"),
    ({"ext": ""}, r"argument 'ext\[0\]'"),
    ({"index_paths": ["a", "b"]}, "argument 'index_paths' must be one for each of the 1 archives; got 2 paths"),
    ({"dtypes": ["uint8", "uint8"]}, "argument 'dtypes' must be one for each of the 1 outputs; got 2"),
    ({"missing_component_behavior": "fill"}, "argument 'missing_component_behavior' must be"),
    ({"case_sensitive_extensions": "no"}, "argument 'case_sensitive_extensions' must be True or False"),
    ({"extt": 1}, "argument 'extt' .*Did you mean 'ext'"),
    ({"ext": "png", "missing_component_behavior": "skip"}, r"argument 'paths' must be archives with.*none in .*a\.tar"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"readers\.Webdataset\(\): {told}"):
        Webdataset(**({"paths": "a.tar", "ext": "jpg"} | arguments))


@pytest.mark.parametrize(("text", "told"), [
    ("", "should begin with 'v1.2' and the number of samples; got"),
    ("v2 1\njpg 512 1 0.jpg\n", "should begin with 'v1.2'"),
    ("v1.2 x\n", "should begin with 'v1.2'"),
    ("v1.2 2\njpg 512 1 0.jpg\n", "says that there are 2 samples, and lists 1"),
    ("v1.2 99999999999999999999999\n", "says that there are 9+ samples, and lists 0"),
    ("v1.2 1\n\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 1\n", "line 2 lists no files as extension, offset, size"),
    ("v1.2 1\njpg -512 1 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 -1 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 513 1 0.jpg\n", "line 2: 1 bytes from byte 513 on are not in"),
    ("v1.2 1\njpg 512 99999999 0.jpg\n", "line 2: 99999999 bytes from byte 512 on are not in .*a.tar"),
    ("v1.2 1\njpg 512 1 a b.jpg\n", "line 2 lists no files"),
])  # fmt: skip
def test_an_index_that_does_not_fit_is_refused(tmp_path, text, told):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    (tmp_path / "a.idx").write_text(text)
    with pytest.raises(DataError, match=rf"a\.idx: {told}"):
        Webdataset(paths=path, ext="jpg", index_paths=tmp_path / "a.idx")


def test_no_archive_is_refused_by_name(tmp_path):
    for name, data in {"empty": b"", "text": b"text " * 300, "zeros": bytes(100)}.items():
        (tmp_path / name).write_bytes(data)
    packed(tmp_path / "none.tar", [])
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("0.jpg"))
    for name in ("empty", "text", "zeros", "a.tar.gz", "no.tar"):
        with pytest.raises(DataError, match=rf"{name}: "):
            Webdataset(paths=tmp_path / name, ext="jpg")
    with pytest.raises(ArgumentError, match="paths"):
        Webdataset(paths=tmp_path / "none.tar", ext="jpg")
    with pytest.raises(DataError, match="Is a directory|not a regular file"):
        Webdataset(paths=tmp_path, ext="jpg")


def test_every_truncation_of_an_archive_is_refused(tmp_path):
    members = [("0.jpg", b"first"), ("0.cls", b"1"), ("a" * 120 + ".jpg", b"x" * 700), ("2.jpg", b"last")]
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        whole = packed(tmp_path / "a.tar", members, format).read_bytes()
        with tarfile.open(tmp_path / "a.tar") as archive:
            end = archive.getmembers()[-1].offset_data + 512
        cut = tmp_path / "cut.tar"
        for size in {
            *range(0, len(whole), 101),
            *range(0, len(whole), 512),
            *range(511, len(whole), 512),
            end,
            end + 1,
        }:
            cut.write_bytes(whole[:size])
            if size > end:
                assert len(outputs(Webdataset(paths=cut, ext="jpg"))) == 3
            else:
                with pytest.raises(DataError, match=r"cut\.tar: "):
                    Webdataset(paths=cut, ext="jpg")


@given(
    place=st.integers(0, 3000),
    value=st.integers(0, 255),
    format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_a_damaged_archive_is_refused_or_read(tmp_path_factory, place, value, format):
    path = packed(
        tmp_path_factory.mktemp("d") / "a.tar",
        [("0.jpg", b"0"), ("ü" * 90 + ".jpg", b"1" * 600), ("2.jpg", b"2")],
        format,
    )
    whole = bytearray(path.read_bytes())
    whole[place] = value
    path.write_bytes(whole)
    try:
        found = outputs(Webdataset(paths=path, ext="jpg"))
    except (ArgumentError, DataError) as error:
        told = str(error)
        assert "a.tar" in told
    else:
        assert sum(len(data) for sample in found for data in sample) <= 602


def test_a_size_that_cannot_be_is_refused(tmp_path):
    """Negative sizes and sizes beyond the file, with a right checksum: tarfile would go back, or far ahead."""
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("1.jpg", b"1")])
    for field in (b"\xff" * 12, b"\xff" * 10 + b"\xfc\x00", b"\x80" + b"\x00" * 6 + b"\x7f" * 5, b"77777777777\0"):
        for start in (0, 1024):
            whole = bytearray(path.read_bytes())
            whole[start + 124 : start + 136] = field
            whole[start + 148 : start + 156] = b" " * 8
            whole[start + 148 : start + 156] = b"%06o\0 " % sum(whole[start : start + 512])
            (tmp_path / "b.tar").write_bytes(whole)
            with pytest.raises(DataError, match=r"b\.tar: "):
                Webdataset(paths=tmp_path / "b.tar", ext="jpg")


def test_an_archive_that_was_cut_off_after_it_was_listed_is_told(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0" * 900), ("1.jpg", b"1" * 900)])
    reader = Webdataset(paths=path, ext="jpg")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"sample 1 \(.*a\.tar: 1\): has 2000 bytes, where 900 from byte"):
        reader(2)


def test_components_that_are_far_apart_are_read_one_by_one(tmp_path):
    members = [("0.jpg", b"0"), ("0.big", bytes(1 << 17)), ("0.cls", b"7"), ("0.none", b"")]
    reader = Webdataset(paths=packed(tmp_path / "a.tar", members), ext=["jpg", "cls", "none", "no"])
    assert outputs(reader) == [(b"0", b"7", b"", b"")]


def test_holes_are_refused(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    whole = bytearray(path.read_bytes())
    whole[156] = ord("S")
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole[:512])
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"a\.tar: '0\.jpg' has holes"):
        Webdataset(paths=path, ext="jpg")


def test_an_edit_that_keeps_all_sizes_is_told_by_contents(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("0.txt", b"x"), ("1.jpg", b"1")])
    arguments = {"paths": path, "ext": "jpg", "fingerprint": "contents"}
    state = Webdataset(**arguments).get_state()
    packed(path, [("0.jpg", b"0"), ("0.txt", b"y"), ("1.jpg", b"1")])
    Webdataset(**arguments).set_state(state)  # what is not read may change
    packed(path, [("0.jpg", b"0"), ("0.txt", b"x"), ("1.jpg", b"2")])
    with pytest.raises(ValueError, match="contents"):
        Webdataset(**arguments).set_state(state)
