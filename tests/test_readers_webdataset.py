"""Readers of tar archives: what their samples are, with and without an index, and archives that are damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile

import numpy as np
import pytest
from dali_oracle import DaliError, Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

from dynamic import dtypes
from dynamic.errors import ArgumentError, DataError
from dynamic.io._bytes import Opened
from dynamic.readers import Webdataset, webdataset

#: Paths that do not begin with a dot in their last part, which DALI gives an empty sample for where they come first.
keys = st.sampled_from(["0", "1", "2", "a/0", "a/1", "a.b/0", "./3", "x" * 90, "ü", "7" + "y" * 120])
extensions = st.sampled_from(["jpg", "cls", "seg.png", "JPG", "txt"])
files = st.lists(st.tuples(keys, extensions, st.binary(max_size=9)), min_size=1, max_size=12)


def packed(path, members, format=tarfile.GNU_FORMAT, **arguments):
    """An archive of (name, bytes); None for a folder and text for a link."""
    with tarfile.open(path, "w", format=format, **arguments) as archive:
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


#: What is no file, beside what is: folders, links to files, and hard links.
others = st.tuples(keys, extensions, st.sampled_from([None, "0.jpg"]))


@given(members=st.lists(st.lists(files.map(lambda some: some[:3]) | st.tuples(others), max_size=4), min_size=1,
                        max_size=3).filter(lambda archives: all(holds_files(some) for some in archives)),
       ext=st.lists(st.sampled_from(["jpg", "cls;jpg", "seg.png", "txt;JPG", "jpg;"]), min_size=1, max_size=3),
       missing=st.sampled_from(["", "empty", "skip", "error"]), sensitive=st.booleans(),
       version=st.sampled_from([None, "v1.1", "v1.2"]))  # fmt: skip
def test_samples_are_those_of_dali(dali: Oracle, tmp_path_factory, members, ext, missing, sensitive, version):
    folded = [e if sensitive else e.lower() for some in ext for e in some.split(";") if e]
    missing = missing if len(set(folded)) == len(folded) else ""  # of one for two outputs DALI finds too few
    folder = tmp_path_factory.mktemp("d")
    paths = [packed(folder / f"{i}.tar", [(f"{k}.{e}", data) for some in archive for k, e, data in some])
             for i, archive in enumerate(members)]  # fmt: skip
    arguments = {"paths": [str(path) for path in paths], "ext": ext, "missing_component_behavior": missing,
                 "case_sensitive_extensions": sensitive}  # fmt: skip
    if version:
        arguments["index_paths"] = [str(index_of(path, path.with_suffix(".idx"), version)) for path in paths]
    try:
        reader = Webdataset(**arguments)
    except (ArgumentError, DataError):
        with pytest.raises(DaliError, match="number of input samples: 0|Underful sample"):
            of_dali(dali, 1, **arguments)
        return
    n = reader.get_metadata()["epoch_size"]
    theirs = of_dali(dali, n, **arguments)
    assert outputs(reader, n) == [tuple(array.tobytes() for array in sample)
                                  for sample in zip(*(batch.samples for batch in theirs), strict=True)]  # fmt: skip
    reader = Webdataset(**arguments)
    assert [(b.dtype, b.layout) for b in reader(1)] == [(dtypes.uint8, None)] * len(ext)
    assert {(batch.dtype, batch.layout) for batch in theirs} == {("u8", None)}


def holds_files(archive):
    """Whether DALI finds a sample in an archive without giving one that is not there."""
    return any(isinstance(data, bytes) for some in archive for _, _, data in some)


def of_dali(dali, batch_size, **arguments):
    """The first batch that DALI reads."""
    return dali.script(f"result = next(ndd.readers.Webdataset(**{arguments!r}).next_epoch(batch_size={batch_size}))")


def index_of(path, index, version="v1.2"):
    """The index of an archive, as DALI's script writes it."""
    lines = {}
    with tarfile.open(path) as archive:
        samples, before = [], None
        for entry in filter(tarfile.TarInfo.isreg, archive.getmembers()):
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
    arguments = {"ext": ["jpg", "cls;seg.png"], "missing_component_behavior": "empty"}
    alone, indexed = Webdataset(paths=path, **arguments), Webdataset(paths=[path], index_paths=[index], **arguments)
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


@given(archives=st.lists(files, min_size=2, max_size=3), zeros=st.lists(st.integers(0, 60), min_size=3, max_size=3),
       format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))  # fmt: skip
def test_archives_in_one_file_are_all_read(tmp_path_factory, archives, zeros, format):
    """As `cat` puts them there; DALI and most programs stop at the end of the first. No sample is of two of them."""
    folder = tmp_path_factory.mktemp("d")
    parts = [packed(folder / f"{i}.tar", [(f"{k}.{e}", data) for k, e, data in some], format).read_bytes()
             for i, some in enumerate(archives)]  # fmt: skip
    (folder / "all.tar").write_bytes(b"".join(part + bytes(512 * n) for part, n in zip(parts, zeros, strict=False)))
    arguments = {"ext": ["jpg", "cls;txt"], "missing_component_behavior": "empty"}
    each = [Webdataset(paths=folder / f"{i}.tar", **arguments) for i in range(len(parts))]
    assert outputs(Webdataset(paths=folder / "all.tar", **arguments)) == [s for one in each for s in outputs(one)]


def test_what_follows_an_archive_and_is_none_is_refused(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    whole = path.read_bytes()
    for more in (b"more" * 200, FILE[:200], FILE, bytes(700) + b"x"):
        path.write_bytes(whole + more)
        with pytest.raises(DataError, match=r"a\.tar: is (damaged|cut off)"):
            Webdataset(paths=path, ext="jpg")
    with path.open("wb") as file:
        file.write(whole)
        file.truncate(1 << 40)
    with pytest.raises(DataError, match=r"a\.tar: is damaged at byte \d+: more than 16777216 zeros follow"):
        Webdataset(paths=path, ext="jpg")


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_as_programs_make_them(tmp_path, format):
    """Of a folder, by ``tar -C folder .``, with long names, and with what a Mac puts beside each file."""
    long, beside = "./" + "d" * 120 + "/" + "n" * 130, b"\0\5\26\7"
    members = [("./", None), ("./._0.jpg", beside), ("./0.jpg", b"0"), ("./._0.cls", beside), ("./0.cls", b"7")]
    members += [(f"{long}.jpg", b"1"), (f"{long}.cls", b"8")]
    reader = Webdataset(paths=packed(tmp_path / "a.tar", members, format), ext=["jpg", "cls"])
    assert outputs(reader) == [(b"0", b"7"), (b"1", b"8")]
    assert list(reader._listing.names) == ["a.tar/./0", f"a.tar/{long}"]


def test_a_batch_may_be_of_more_archives_than_files_may_be_open(tmp_path):
    paths = [packed(tmp_path / f"{i:03}.tar", [("a.jpg", b"%d" % i)]) for i in range(200)]
    reader = Webdataset(paths=paths, ext="jpg", random_shuffle=True)
    resource = pytest.importorskip("resource", reason="this system has no limits of files")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (there + 100, limits[1]))
    try:
        found = outputs(reader, 200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sorted(found) == sorted((b"%d" % i,) for i in range(200))
    assert len(os.listdir("/proc/self/fd")) == there


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


def test_one_file_may_serve_two_outputs(tmp_path):
    path = packed(tmp_path / "a.tar", [("1.jpg", b"one"), ("1.cls", b"7"), ("2.cls", b"8")])
    for ext in (["jpg;cls", "cls"], ["jpg", "cls;jpg"]):
        found = outputs(Webdataset(paths=path, ext=ext, missing_component_behavior="skip"))
        assert found == {"jpg;cls": [(b"one", b"7"), (b"8", b"8")], "jpg": [(b"one", b"one")]}[ext[0]]


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
    with pytest.raises(DataError, match=r"a\.tar: sample 'b/1' has no file for output 1, with the extension 'cls'"):
        Webdataset(paths=path, ext=["jpg", "cls"], missing_component_behavior="error", **index)
    assert len(outputs(Webdataset(paths=path, ext=["jpg"], missing_component_behavior="error", **index))) == 2


@pytest.mark.parametrize("version", [None, "v1.1", "v1.2"])
@pytest.mark.parametrize(("ext", "place", "advice"), [
    (["jpg", "clas"], 1, "missing_component_behavior='empty'"), ("cls;JPG", None, None), ("png;txt", 0, "missing_com"),
    (["SEG.png", "jpg"], 0, "case_sensitive_extensions=False"), ("Q", 0, "missing_component_behavior"),
])  # fmt: skip
def test_an_extension_that_no_sample_has_is_refused(tmp_path, ext, place, advice, version):
    paths = [packed(tmp_path / f"{i}.tar", [(f"0.{e}", b"0") for e in some])
             for i, some in enumerate([["jpg", "cls"], ["jpg", "seg.png", "cls"]])]  # fmt: skip
    arguments = {"paths": paths, "ext": ext}
    if version:
        arguments["index_paths"] = [index_of(path, path.with_suffix(".idx"), version) for path in paths]
    expected = [b"" if advice else b"0"]
    if advice:
        told = rf"'ext\[{place}\]' must be an extension in .*: 'cls', 'jpg', 'seg.png'; got .*{advice}"
        for given in ({}, {"missing_component_behavior": None}):
            with pytest.raises(ArgumentError, match=told):
                Webdataset(**arguments, **given)
        arguments["missing_component_behavior"] = ""
    assert [sample[place or 0] for sample in outputs(Webdataset(**arguments))] == expected * 2


def test_few_of_many_extensions_are_named(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), *((f"0.{i:03}\n", b"") for i in range(100))])
    with pytest.raises(ArgumentError, match=r"a\.tar: '000\\n', .*'011\\n', \.\.\.; got str 'cls'"):
        Webdataset(paths=path, ext="cls")


@pytest.mark.parametrize(("arguments", "told"), [
    ({"paths": []}, "argument 'paths' must be a path, or a list of at least one; got"),
    ({"paths": 3}, "argument 'paths' must be a path"),
    ({"paths": ["a.tar", 3]}, r"argument 'paths\[1\]' must be a path; got int 3"),
    ({"ext": []}, "argument 'ext' must be an extension"),
    *(({"ext": ext}, "argument 'ext' must be an extension") for ext in (["jpg", 3], 3, {"jpg"}, None, b"jpg")),
    ({"ext": ["jpg", " ; ."]}, r"argument 'ext\[1\]' must be extensions with ';'"),
    ({"ext": ""}, r"argument 'ext\[0\]'"),
    ({"index_paths": ["a", "b"]}, "argument 'index_paths' must be one for each of the 1 archives; got 2 paths"),
    ({"dtypes": ["uint8", "uint8"]}, "argument 'dtypes' must be one for each of the 1 outputs; got 2"),
    ({"dtypes": "bytes"}, r"argument 'dtypes\[0\]' must be a dtype such as .*got str 'bytes'"),
    ({"dtypes": ["bfloat16"]}, r"argument 'dtypes\[0\]' must be a dtype"),
    ({"ext": ["jpg", "cls"], "dtypes": ["u8", None]}, r"argument 'dtypes\[1\]' must be a dtype"),
    ({"missing_component_behavior": "fill"}, "argument 'missing_component_behavior' must be"),
    ({"case_sensitive_extensions": "no"}, "argument 'case_sensitive_extensions' must be True or False"),
    ({"extt": 1}, "has no argument 'extt'. Did you mean 'ext'"),
    ({"ext": "png", "missing_component_behavior": "skip"}, r"argument 'paths' must be archives with.*none in .*a\.tar"),
])  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, told):
    packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"readers\.Webdataset\(\):? {told}"):
        Webdataset(**({"paths": "a.tar", "ext": "jpg"} | arguments))


@pytest.mark.parametrize(("text", "told"), [
    ("", "should begin with 'v1.2' and the number of samples; got"),
    ("v2 1\njpg 512 1 0.jpg\n", "should begin with 'v1.2'"),
    ("v1.2 x\n", "should begin with 'v1.2'"),
    ("v1.2 2\njpg 512 1 0.jpg\n", "says that there are 2 samples, and lists 1"),
    ("v1.2 99999999999999999999999\n", "says that there are 9+ samples, and lists 0"),
    ("v1.2 1\njpg 512 1 0.jpg\njpg 512 1 0.jpg\n", "says that there are 1 samples, and lists 2"),
    ("v1.2 1\n\n", "says that there are 1 samples, and lists 0"),
    ("v1.2 2\n\njpg 512 1 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 1\n", "line 2 lists no files as extension, offset, size"),
    ("v1.2 1\njpg -512 1 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 -1 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 1 0.jpg cls\n", "line 2 lists no files"),
    ("v1.2 1\njpg 513 1 0.jpg\n", r"line 2: .*a\.tar has no file of 1 bytes at byte 513"),
    ("v1.2 1\njpg 512 99999999 0.jpg\n", r"line 2: .*a\.tar has no file of 99999999 bytes at byte 512"),
    ("v1.2 1\njpg 512 2 0.jpg\n", r"line 2: .*a\.tar has no file of 2 bytes at byte 512"),
    ("v1.2 1\njpg 0 1 0.jpg\n", r"line 2: .*a\.tar has no file of 1 bytes at byte 0"),
    ("v1.2 1\njpg 10240 0 0.jpg\n", r"line 2: .*a\.tar has no file of 0 bytes at byte 10240"),
    ("v1.2 1\njpg 512 1 a b.png\n", "line 2 lists no files"),
    ("v1.1 1\njpg 512 1 a b.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 \u0661 0.jpg\n", "line 2 lists no files"),
    ("v1.2 1\njpg 512 1000000000000000000 0.jpg\n", "line 2 lists no files"),
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


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_truncation_of_an_archive_is_refused(tmp_path, format):
    path = packed(tmp_path / "a.tar", [("a" * 120 + ".jpg", b"first"), ("2.jpg", b"last")], format)
    with tarfile.open(path) as archive:
        end = archive.getmembers()[-1].offset_data + 512
    for size in reversed(range(end + 1030)):
        os.truncate(path, size)
        if size < end + 512:
            with pytest.raises(DataError, match=r"a\.tar: is .*cut off"):
                Webdataset(paths=path, ext="jpg")
        else:
            assert outputs(Webdataset(paths=path, ext="jpg")) == [(b"first",), (b"last",)]


def summed(data, at=0):
    """With the checksum of the header there put right."""
    data = bytearray(data)
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


def changed(data, at, place, field):
    """With a field of the header there changed, and its checksum right."""
    return summed(data[: at + place] + field + data[at + place + len(field) :], at)


@given(data=st.data(), format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_a_damaged_archive_is_refused_or_read(tmp_path_factory, data, format):
    path = packed(
        tmp_path_factory.mktemp("d") / "a.tar",
        [("0.jpg", b"0"), ("ü" * 90 + ".jpg", b"1" * 600), ("2.jpg", b"2")],
        format,
    )
    whole = bytearray(path.read_bytes())
    block = data.draw(st.integers(0, 12))
    places = st.integers(0, 511) | st.sampled_from([0, 124, 125, 135, 156, 257, 345, 482])
    for _ in range(data.draw(st.integers(1, 3))):
        whole[512 * block + data.draw(places)] = data.draw(
            st.integers(0, 255) | st.sampled_from(list(b"SxLKg127/\x80"))
        )
    whole = summed(whole, 512 * block) if data.draw(st.booleans()) else whole
    path.write_bytes(whole[: data.draw(st.sampled_from([len(whole), 512 * block + 700]))])
    try:
        found = outputs(Webdataset(paths=path, ext="jpg"))
    except (ArgumentError, DataError) as error:
        told = str(error)
        assert "a.tar" in told
    else:
        assert sum(len(data) for sample in found for data in sample) <= len(whole)


def record(key, value):
    """A record of a pax header."""
    line = b" %s=%s\n" % (key, value)
    size = len(line) + 1
    while len(b"%d" % size) + len(line) != size:
        size += 1
    return b"%d" % size + line


def header(name, size, kind, **fields):
    """A header of an archive."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    data = bytearray(entry.tobuf(tarfile.GNU_FORMAT)[:512])
    data[156:157] = kind
    return summed(data)


def filled(data):
    return data + bytes(-len(data) % 512)


FILE, END = header("0.jpg", 5, b"0") + filled(b"hello"), bytes(1024)


@pytest.mark.parametrize(("records", "told"), [
    (b"11111111" * 50_000, "is damaged at byte 512"), (b"9" * 5000 + b" path=x\n", "is damaged"),
    (b"0 a=b\n", "is damaged"), (b"-3 path=x\n", "is damaged"), (b"9999 path=x.jpg\n", "is damaged"),
    (b"11 path", "is damaged"), (b"8 path=x", "is damaged"), (b"7 path\n", "is damaged"), (b" path=x\n", "is damaged"),
    (record(b"size", b"-5"), "a size of str '-5'"), (record(b"size", b"9" * 30), "a size of str '9"),
    (record(b"size", b"6000"), "6000 bytes should follow byte"),
    (record(b"GNU.sparse.major", b"1"), r"has holes in 0\.jpg"), (record(b"GNU.sparse.map", b"x"), "has holes"),
    (record(b"path", b"7.jpg"), ("a.tar/7", b"hello")), (record(b"path", b""), ("a.tar/0", b"hello")),
    (record(b"size", b"3"), ("a.tar/0", b"hel")), (record(b"mtime", b"x") + bytes(9), ("a.tar/0", b"hello")),
    (record(b"comment", b"a=b\nc") + record(b"path", "ü d/é.jpg".encode()), ("a.tar/ü d/é", b"hello")),
    (record(b"path", b"\xff.jpg"), ("a.tar/\udcff", b"hello")), (b"", ("a.tar/0", b"hello")),
])  # fmt: skip
def test_records_before_a_file_are_applied_or_refused(tmp_path, records, told):
    """`tarfile` hangs at the first, and takes what it cannot read for nothing."""
    (tmp_path / "a.tar").write_bytes(header("pax", len(records), b"x") + filled(records) + FILE + END)
    if isinstance(told, str):
        with pytest.raises(DataError, match=rf"a\.tar: .*{told}"):
            Webdataset(paths=tmp_path / "a.tar", ext="jpg")
    else:
        (found,) = Webdataset(paths=tmp_path / "a.tar", ext="jpg")(1)
        assert (found.origin.names[0], found[0].array.tobytes()) == told


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"])
def test_a_header_that_says_it_is_huge_is_refused_before_it_is_read(tmp_path, kind):
    with (tmp_path / "a.tar").open("wb") as file:
        file.write(header("pax", 5 << 30, kind))
        file.truncate(6 << 30)
    with pytest.raises(DataError, match=r"a\.tar: is damaged at byte 512: headers of more than 1048576 bytes for one"):
        Webdataset(paths=tmp_path / "a.tar", ext="jpg")


def test_headers_may_follow_each_other_and_must_lead_to_a_file(tmp_path):
    path, many = tmp_path / "a.tar", (header("././@LongLink", 6, b"L") + filled(b"7.jpg\0")) * 3000
    path.write_bytes(many + header("k", 3, b"K") + filled(b"abc") + FILE + FILE + END)
    (found,) = Webdataset(paths=path, ext="jpg")(2)
    assert found.origin.names == ["a.tar/7", "a.tar/0"]  # what is told of the next file is told of no other
    records = record(b"comment", b"c" * 600_000)
    path.write_bytes((header("pax", len(records), b"x") + filled(records)) * 2 + FILE + END)
    with pytest.raises(DataError, match=r"a\.tar: is damaged at byte \d+: headers of more than"):
        Webdataset(paths=path, ext="jpg")
    path.write_bytes(FILE + many + END)
    with pytest.raises(DataError, match=r"a\.tar: is damaged at byte \d+: it ends where a file should follow"):
        Webdataset(paths=path, ext="jpg")


def test_fields_of_headers(tmp_path):
    """Types, sizes and names as GNU's tar reads them."""

    def found(data, after=FILE + END):
        (tmp_path / "a.tar").write_bytes(data + after)
        reader = Webdataset(paths=tmp_path / "a.tar", ext="jpg")
        return list(zip(reader.peek(9)[0].origin.names, outputs(reader), strict=True))[:-1]

    one = header("1.jpg", 5, b"0") + filled(b"first")
    expected = [("a.tar/1", (b"first",))]
    assert found(one) == found(changed(one, 0, 156, b"\0")) == found(changed(one, 0, 156, b"7")) == expected
    for kind in (b"A", b"D", b"M", b"V"):
        assert found(changed(one, 0, 156, kind)) == []
    for kind in (b"1", b"2", b"5"):  # of which there are no bytes
        assert found(changed(one, 0, 156, kind)[:512]) == []
    assert found(changed(one, 0, 0, b"1.jpg/")) == []
    for size in (b"5\0" + b"7" * 10, b"          5 ", b"\x80" + bytes(10) + b"\5"):
        assert found(changed(one, 0, 124, size)) == expected
    assert found(changed(one, 0, 345, b"14712345670")) == expected  # GNU has a time there
    assert found(changed(changed(one, 0, 257, b"ustar\x0000"), 0, 345, b"a/b")) == [("a.tar/a/b/1", (b"first",))]
    signed = bytearray(header("ü.jpg", 0, b"0"))
    signed[148:156] = b"%06o\0 " % (sum(signed[:148]) + sum(signed[156:]) + 256 - 2 * 256)
    assert found(bytes(signed)) == [("a.tar/ü", (b"",))]
    for place, field, told in ((124, b"5x", "is no tar archive"), (156, b"S", r"has holes in 1\.jpg")):
        with pytest.raises(DataError, match=rf"a\.tar: {told}"):
            found(changed(one, 0, place, field))


def test_one_block_of_zeros_ends_nothing(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(FILE + bytes(512) + FILE.replace(b"0.jpg", b"0.jpg") + END)
    assert outputs(Webdataset(paths=path, ext="jpg")) == [(b"hello",)]  # of two files with one name, the first
    path.write_bytes(FILE + bytes(512) + header("1.jpg", 0, b"0") + END)
    assert outputs(Webdataset(paths=path, ext="jpg")) == [(b"hello",), (b"",)]
    path.write_bytes(FILE + bytes(512) + b"more" * 200)
    with pytest.raises(DataError, match=r"a\.tar: is damaged at byte 1536"):
        Webdataset(paths=path, ext="jpg")


@pytest.mark.parametrize(("pack", "told"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz")])
@pytest.mark.parametrize("more", [b"", np.random.default_rng(0).bytes(2000)])
def test_a_compressed_archive_is_called_so(tmp_path, pack, told, more):
    (tmp_path / "a.tar").write_bytes(pack(FILE + END + more))
    with pytest.raises(DataError, match=rf"a\.tar: is compressed \({told}\), and must be unpacked first"):
        Webdataset(paths=tmp_path / "a.tar", ext="jpg")


def test_what_is_no_regular_file_is_refused_and_does_not_hang(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    os.mkfifo(tmp_path / "fifo")
    for arguments in ({"paths": tmp_path / "fifo"}, {"paths": path, "index_paths": tmp_path / "fifo"},
                      {"paths": tmp_path / "fifo", "index_paths": index_of(path, tmp_path / "a.idx")}):  # fmt: skip
        with pytest.raises(DataError, match="fifo: is a fifo, not a regular file"):
            Webdataset(ext="jpg", **arguments)
    with pytest.raises(DataError, match="null: is a device, not a regular file"):
        Webdataset(paths="/dev/null", ext="jpg")


def test_an_index_may_have_names_with_spaces(tmp_path):
    """DALI's script writes them, and DALI does not read them."""
    members = [("a b.jpg", b"0"), ("a b.seg.png", b"1"), ("c\u3000d e.jpg", b"2"), ("f.", b"3")]
    path = packed(tmp_path / "a.tar", members)
    arguments = {"paths": path, "ext": ["jpg", "seg.png"]}
    expected = Webdataset(**arguments)
    index = index_of(path, tmp_path / "a.idx")
    for text in (index.read_bytes(), index.read_bytes().replace(b"\n", b"\r\n"), index.read_bytes().rstrip(b"\n")):
        index.write_bytes(text)
        reader = Webdataset(**arguments, index_paths=index)
        assert reader.get_state() == expected.get_state()
        assert outputs(reader) == [(b"0", b"1"), (b"2", b""), (b"", b"")]


words = st.sampled_from(["a", "jpg", "a.jpg", "a.jpg b", " ", "  ", ".", ".jpg", "5", "12 7", "x y.jpg", "\u3000"])


@given(words=st.lists(words, max_size=12), spaced=st.booleans())
def test_a_line_of_an_index_is_read_as_its_grammar_says(words, spaced):
    """The names with spaces in them, that is; the grammar is a pattern, which takes too long for a hostile line."""
    line = (" " if spaced else "").join(words).encode().removesuffix(b"\r")
    grammar = re.compile(rb"(\S*) (\d{1,18}) (\d{1,18}) ([^ \s].*?\.\1)(?: |$)", re.DOTALL)
    expected, place = [], 0
    while found := grammar.match(line, place):
        expected.append(list(found.groups()))
        place = found.end()
    assert webdataset._with_spaces(line) == (expected if place >= len(line) else [])


@pytest.mark.parametrize("line", [
    b"jpg 512 5 a" + b" .jpg.jp" * 60_000, b"a 512 5 a.a " * 40_000 + b"x",
    b"." * 240_000 + b" 512 5 a" + b"." * 240_000 + b" x",
    b" " * 480_000 + b"x", b"jpg 512 5 a b.jpg " * 25_000 + b"!", b"5 " * 240_000])  # fmt: skip
def test_a_long_line_of_an_index_takes_no_longer_for_each_byte(tmp_path, line):
    """A quadratic step would take a minute."""
    path = packed(tmp_path / "a.tar", [("a.jpg", b"hello")])
    (tmp_path / "a.idx").write_bytes(b"v1.2 1\n" + line)
    with pytest.raises(DataError, match="line 2 lists no files|has no file of"):
        Webdataset(paths=path, index_paths=tmp_path / "a.idx", ext="jpg")


def test_an_index_of_another_archive_is_refused(tmp_path):
    def written(name, size, n=500):
        return packed(tmp_path / name, [(f"{i:03}.jpg", bytes(size)) for i in range(n)])

    index = index_of(written("a.tar", 100), tmp_path / "a.idx")
    for other in (written("b.tar", 101), written("b.tar", 600)):
        with pytest.raises(DataError, match=r"a\.idx: line 2: .*b\.tar has no file of 100 bytes at byte 512"):
            Webdataset(paths=other, ext="jpg", index_paths=index)
    lines = index.read_text().split("\n")
    for number in (2, 251, 500):
        spoilt = [*lines[:number], f"jpg 512 9999999 {number - 1:03}.jpg", *lines[number + 1 :]]
        (tmp_path / "spoilt.idx").write_text("\n".join(spoilt))
        with pytest.raises(DataError, match=rf"spoilt\.idx: line {number + 1}: .*a\.tar has no file of 9999999 bytes"):
            Webdataset(paths=tmp_path / "a.tar", ext="jpg", index_paths=tmp_path / "spoilt.idx")
    (tmp_path / "d.idx").write_text("v1.2 1\njpg 512 0 d.jpg\n")
    with pytest.raises(DataError, match=r"d\.idx: line 2: .*d\.tar has no file of 0 bytes at byte 512"):
        Webdataset(paths=packed(tmp_path / "d.tar", [("d.jpg", None), ("0.jpg", b"0")]), ext="jpg",
                   index_paths=tmp_path / "d.idx")  # fmt: skip
    members = [(f"{i:03}.jpg", bytes(100 + (i > 250))) for i in range(500)]
    with pytest.raises(DataError, match=r"a\.idx: line \d+: .*c\.tar has no file of 100 bytes"):
        Webdataset(paths=packed(tmp_path / "c.tar", members), ext="jpg", index_paths=index)


@given(data=st.data())
def test_a_damaged_index_is_refused_or_read(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("d")
    path = packed(folder / "a.tar", [("0.jpg", b"0"), ("0.cls", b"12"), ("a b.jpg", b"3" * 600)])
    index = index_of(path, folder / "a.idx")
    text = bytearray(index.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(
            st.integers(0, 255) | st.sampled_from(list(b" \n09.-"))
        )
    index.write_bytes(text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))])
    try:
        found = outputs(Webdataset(paths=path, ext=["jpg", "cls"], index_paths=index))
    except (ArgumentError, DataError) as error:
        told = str(error)
        assert "a.idx" in told or "a.tar" in told
    else:
        assert {sample[0] for sample in found} <= {b"", b"0", b"12", b"3" * 600}


def test_extensions_may_be_given_with_their_dot_and_with_spaces(tmp_path):
    members = [("0.jpg", b"0"), ("1.cls", b"1"), ("2..jpg", b"2"), ("3. cls", b"3")]
    path = packed(tmp_path / "a.tar", members)
    assert outputs(Webdataset(paths=path, ext=[".jpg", "jpg; cls;", "jpg"])) == [
        (b"0", b"0", b"0"), (b"", b"1", b""), (b"2", b"", b""), (b"", b"3", b"")]  # fmt: skip


def test_any_byte_but_0_is_true(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.x", bytes([0, 1, 2, 48, 255]))])
    (found,) = Webdataset(paths=path, ext="x", dtypes="bool")(1)
    assert found.dtype == dtypes.dtype("bool")
    assert found[0].array.view(np.uint8).tolist() == [0, 1, 1, 1, 1]


def test_samples_of_an_archive_that_is_gone_are_named(tmp_path):
    first = packed(tmp_path / "a.tar", [("0.jpg", b"0")])
    second = packed(tmp_path / "b", [("1.tar/2.jpg", b"1"), ("3.jpg", b"2")])
    reader = Webdataset(paths=[first, second], ext="jpg", on_error="skip")
    second.unlink()
    assert outputs(reader) == [(b"0",)]
    assert [(failure.source, failure.reason) for failure in Webdataset(paths=[first], ext="jpg").skipped] == []
    reader(3)
    assert [(failure.source, failure.reason) for failure in reader.skipped] == [
        (f"{second}: 1.tar/2", "No such file or directory"), (f"{second}: 3", "No such file or directory")]  # fmt: skip


def test_a_size_that_cannot_be_is_refused(tmp_path):
    """Negative sizes and sizes beyond the file, with a right checksum: tarfile would go back, or far ahead."""
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("1.jpg", b"1")])
    for field in (b"\xff" * 12, b"\xff" * 10 + b"\xfc\x00", b"\x80" + b"\x00" * 6 + b"\x7f" * 5, b"77777777777\0"):
        for start in (0, 1024):
            (tmp_path / "b.tar").write_bytes(changed(path.read_bytes(), start, 124, field))
            with pytest.raises(DataError, match=r"b\.tar: "):
                Webdataset(paths=tmp_path / "b.tar", ext="jpg")


def test_an_archive_that_was_cut_off_after_it_was_listed_is_told(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0" * 900), ("1.jpg", b"1" * 900)])
    reader = Webdataset(paths=path, ext="jpg")
    path.write_bytes(path.read_bytes()[:2000])
    for on_error in ("raise", "skip", "replace"):
        reader._on_error = on_error
        with pytest.raises(DataError, match=r"a\.tar: 0\): is no more the file that was listed: .* of 2000 bytes"):
            reader(2)


def test_components_that_are_far_apart_are_read_one_by_one(tmp_path, monkeypatch):
    members = [("0.jpg", b"0"), ("0.big", bytes(1 << 17)), ("0.cls", b"7"), ("0.none", b"")]
    arguments = {"ext": ["jpg", "cls", "none", "no"], "missing_component_behavior": ""}
    reader = Webdataset(paths=packed(tmp_path / "a.tar", members), **arguments)
    taken = []
    part = Opened.part
    monkeypatch.setattr(
        Opened, "part", lambda self, path, start, size: taken.append(size) or part(self, path, start, size)
    )
    assert outputs(reader) == [(b"0", b"7", b"", b"")]
    assert sum(taken) == 2


def test_an_edit_that_keeps_all_sizes_is_told_by_contents(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("0.txt", b"x"), ("1.jpg", b"1")])
    arguments = {"paths": path, "ext": "jpg", "fingerprint": "contents"}
    state = Webdataset(**arguments).get_state()
    packed(path, [("0.jpg", b"0"), ("0.txt", b"y"), ("1.jpg", b"1")])
    Webdataset(**arguments).set_state(state)  # what is not read may change
    packed(path, [("0.jpg", b"0"), ("0.txt", b"x"), ("1.jpg", b"2")])
    with pytest.raises(ValueError, match="contents"):
        Webdataset(**arguments).set_state(state)


def test_no_index_and_no_word_on_case_are_defaults(tmp_path):
    path = packed(tmp_path / "a.tar", [("0.jpg", b"0"), ("1.JPG", b"1")])
    how = {"paths": path, "ext": "jpg", "missing_component_behavior": "skip"}
    assert outputs(Webdataset(**how, index_paths=[], case_sensitive_extensions=None)) == [(b"0",)]


def test_an_index_may_have_long_extensions(tmp_path):
    path = packed(tmp_path / "a.tar", [("0." + "x" * 30, b"0")])
    index = index_of(path, tmp_path / "a.idx", "v1.1")
    assert outputs(Webdataset(paths=path, ext="x" * 30, index_paths=index)) == [(b"0",)]
