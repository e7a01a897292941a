"""Decoding NumPy's files: every array comes back, and what is none is refused, sample by sample."""

from __future__ import annotations

import itertools
import pickle
import string
import tracemalloc
import warnings

import numpy as np
import pytest
from dali_oracle import DaliError, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES, any_dtype, arrays, npy_file, read_only

import dynamic as ndd
from dynamic import ArgumentError, Batch, DecodeError, Tensor, as_batch, as_tensor, decoders
from dynamic._lift.operator import registry
from dynamic.pipeline import fn, pipeline_def

VERSIONS = [(1, 0), (2, 0), (3, 0)]
shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def bytes_of(data):
    return np.frombuffer(bytes(data), np.uint8)


def file_of(text, body=bytes(64), version=1):
    """A file with a header of one's own."""
    data = text.encode("utf8" if version == 3 else "latin1")
    length = len(data).to_bytes(2 if version == 1 else 4, "little")
    return bytes_of(b"\x93NUMPY" + bytes([version, 0]) + length + data + body)


def described(shape="(1,)", descr="'<i4'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"


def reasons(files, **arguments):
    """Why each sample of a batch is refused, by its number."""
    with pytest.raises(DecodeError, match=r"decoders\.numpy\(\): \d+ of \d+ samples cannot be read") as caught:
        decoders.numpy(as_batch(files), **arguments)
    return {failure.index: failure.reason for failure in caught.value.failures}


# What is right


@given(array=arrays(any_dtype, shapes), version=st.sampled_from(VERSIONS))
def test_what_was_saved_comes_back(array, version):
    result = decoders.numpy(npy_file(array, version))
    np.testing.assert_array_equal(result.array, array.astype(array.dtype.newbyteorder("=")), strict=True)
    assert isinstance(result, Tensor)
    assert result.layout is None
    assert result.array.dtype.isnative
    assert result.array.flags.c_contiguous
    assert result.array.flags.aligned


@given(data=st.data(), dtype=any_dtype, ndim=st.integers(0, 3))
def test_a_batch_may_be_ragged_and_its_bytes_lie_anywhere(data, dtype, ndim):
    some = data.draw(st.lists(arrays(dtype, st.tuples(*[st.integers(0, 4)] * ndim)), min_size=1, max_size=4))
    ahead = data.draw(st.integers(0, 9))
    files = [np.concatenate([np.zeros(ahead, np.uint8), npy_file(array)])[ahead:] for array in some]
    result = decoders.numpy(as_batch(files, layout="X"))
    assert isinstance(result, Batch)
    assert result.layout is None
    for found, array in zip(result.samples, some, strict=True):
        np.testing.assert_array_equal(found, array.astype(dtype), strict=True)


@given(array=arrays(any_dtype, shapes), dtype=any_dtype, version=st.sampled_from(VERSIONS))
def test_values_are_converted_as_by_cast(array, dtype, version):
    found = decoders.numpy(npy_file(array, version), dtype=dtype)
    expected = ndd.cast(array.astype(array.dtype.newbyteorder("=")), dtype=dtype)
    np.testing.assert_array_equal(found.array, expected.array, strict=True)


def test_large_arrays_are_those_of_numpy():
    for array in (np.arange(3_000_000, dtype=">i4").reshape(1000, -1), np.arange(1_500_000.0).reshape(3, 5, -1).T):
        file = npy_file(array)
        np.testing.assert_array_equal(decoders.numpy(file).array, array)
        wanted = ndd.cast(array, dtype="int16").array
        np.testing.assert_array_equal(decoders.numpy(file, dtype="int16").array, wanted, strict=True)


def test_files_of_one_batch_may_be_of_several_dtypes_where_one_is_asked_for():
    files = [npy_file(np.array(values)) for values in ([1, 2], [2.5], [True, False, True])]
    assert decoders.numpy(as_batch(files), dtype="int32").tolist() == [[1, 2], [3], [1, 0, 1]]
    assert reasons(files) == {
        1: "holds float64 of 1 dimensions, where sample 0 holds int64 of 1 dimensions",
        2: "holds bool of 1 dimensions, where sample 0 holds int64 of 1 dimensions",
    }
    files = [npy_file(np.zeros((1,) * ndim)) for ndim in (2, 2, 0)]
    for dtype in ({}, {"dtype": "uint8"}):
        assert reasons(files, **dtype) == {
            2: "holds float64 of 0 dimensions, where sample 0 holds float64 of 2 dimensions"
        }
    assert decoders.numpy(as_batch([npy_file(np.zeros(1, order)) for order in ("<f4", ">f4")])).dtype == "float32"


def test_each_call_stands_by_itself():
    assert [decoders.numpy(npy_file(np.zeros(1, kind))).dtype for kind in ("i4", "f4")] == ["int32", "float32"]


def test_files_may_be_bytes_and_one_may_be_repeated():
    file = npy_file(np.array([1, 2]))
    for given_ in (file.tobytes(), bytearray(file), memoryview(file), as_tensor(file)):
        assert decoders.numpy(given_).tolist() == [1, 2]
    assert decoders.numpy(file, batch_size=2).tolist() == [[1, 2], [1, 2]]


def test_an_empty_batch_knows_what_it_is_told():
    nothing = as_batch([npy_file(np.zeros((2, 2)))])[:0]
    found, told = decoders.numpy(nothing), decoders.numpy(nothing, dtype="float16")
    assert (len(found), found.dtype, found.ndim) == (0, "uint8", 1)
    assert (len(told), told.dtype, told.ndim) == (0, "float16", 1)


def test_headers_may_be_written_in_other_ways():
    body = np.arange(2, dtype="<i4").tobytes()
    for text in (
        described("(2L, 1L)"),
        "{'shape': (2, 1), 'descr': '<i4', 'fortran_order': False}",
        described("(2, 1)", "'=i4'", "True"),
        described("(2, 1)").ljust(9000),
    ):
        assert decoders.numpy(file_of(text, body)).tolist() == [[0], [1]]


def test_bools_are_0_or_1(tmp_path):
    file = file_of(described("(4,)", "'|b1'"), bytes([0, 1, 2, 255]))
    assert decoders.numpy(file).array.view(np.uint8).tolist() == [0, 1, 1, 1]
    (tmp_path / "a.npy").write_bytes(bytes(file))
    (read,) = ndd.readers.Numpy(files=tmp_path / "a.npy")(1)
    assert read[0].array.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_the_decoder_is_public_and_pipelines_have_it():
    assert registry["decoders.numpy"] is decoders.numpy
    assert "numpy" in decoders.__all__
    files = [npy_file(np.array([1.5, 2.5])), npy_file(np.array([3.5]))]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def decode():
        return fn.decoders.numpy(fn.external_source(source=lambda: files, dtype=ndd.types.UINT8), dtype=ndd.types.INT32)

    (batch,) = decode().run()
    assert [sample.tolist() for sample in batch.samples] == [[2, 3], [4]]


# Like DALI


def of_dali(dali, files, dtype):
    """What DALI makes of a batch of files; its operator keeps the dtype of its first call, so there is one for each."""
    text = "with ndd.EvalContext():\n    result = ndd.decoders.numpy(files, dtype=dtype)\n"
    return dali.script(text + "    result.evaluate()", files=Samples(files), dtype=dtype).samples


@given(data=st.data(), kind=any_dtype, ndim=st.integers(0, 3), dtype=st.none() | any_dtype)
def test_arrays_are_those_of_dali(dali: Oracle, data, kind, ndim, dtype):
    some = data.draw(
        st.lists(arrays(kind, st.tuples(*[st.integers(0, 4)] * ndim), any_order=False), min_size=1, max_size=3)
    )
    files = [npy_file(array) for array in some]
    theirs = of_dali(dali, files, dtype and ndd.dtype(dtype).word)
    ours = decoders.numpy(as_batch(files), dtype=dtype).samples
    for array, mine, other in zip(some, ours, theirs, strict=True):
        apart = mine != other
        if mine.dtype == np.float16 and apart.any():  # ties, which go to even here and away from zero there
            exact = array[apart].astype(np.longdouble)
            np.testing.assert_array_equal(abs(mine[apart] - exact), abs(other[apart] - exact))
            mine = np.where(apart, other, mine)
        np.testing.assert_array_equal(mine, other, strict=True)


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("kinds", [("i4", "f4"), ("i4", "2,i4"), ("i4", "")])
def test_batches_that_dali_refuses_are_refused(dali: Oracle, kinds, dtype):
    files = [npy_file(np.zeros((1,) * (1 + ("," in kind)), kind[-2:])) if kind else bytes_of(b"text") for kind in kinds]
    try:
        theirs = of_dali(dali, files, dtype)
    except DaliError as error:
        told = str(error)
        assert any(words in told for words in ("same data type", "number of dimensions", "bad magic")), told
        assert set(reasons(files, dtype=dtype)) == {1}
    else:
        assert [a.tolist() for a in theirs] == decoders.numpy(as_batch(files), dtype=dtype).tolist()


@given(data=st.data())
def test_damage_that_dali_finds_is_found(dali: Oracle, data):
    """Where a byte of a file is another, or bytes are missing or too many: DALI lets more pass, and nothing else."""
    whole = npy_file(np.arange(6, dtype="<i4").reshape(2, 3)).tobytes()
    kind = data.draw(st.sampled_from(["cut", "longer", "changed"]))
    if kind == "cut":
        damaged = whole[: data.draw(st.integers(1, len(whole) - 1))]
    elif kind == "longer":
        damaged = whole + bytes(data.draw(st.integers(1, 9)))
    else:
        place = data.draw(st.integers(0, 80))
        damaged = whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :]
    try:
        ours = decoders.numpy(damaged).array
    except DecodeError:
        return
    assert kind == "changed"
    try:
        theirs = of_dali(dali, [bytes_of(damaged)], None)[0]
    except DaliError as error:
        told = str(error)
        assert any(
            words in told
            for words in ("Big Endian", "major version", "Expected", "actual size", "CUDA", "Got", "TrySkip")
        ), told
    else:
        np.testing.assert_array_equal(ours, theirs, strict=True)


# Damage


def test_every_truncation_and_all_that_follows_is_refused():
    whole = npy_file(np.arange(4, dtype=np.int16))
    found = reasons([whole[:size] for size in range(len(whole))])
    assert set(found) == set(range(len(whole)))
    assert {reason.split(":")[0] for reason in found.values()} == {
        "is not a .npy file", "ends within its header", "ends too early"
    }  # fmt: skip
    assert found[130] == "ends too early: 130 bytes of 136 are there"
    assert reasons([np.append(whole, np.uint8(0))]) == {
        0: "goes on where its array ends: 137 bytes are there, and it has 136"
    }


def test_one_error_names_every_sample_and_its_file(tmp_path):
    good = npy_file(np.zeros(3))
    for name, data in {
        "a": b"text",
        "b": bytes(good),
        "c": bytes(good[:-1]),
        "d": bytes(npy_file(np.zeros(3, "i4"))),
    }.items():
        (tmp_path / name).write_bytes(data)
    (files, _) = ndd.readers.File(files=["a", "b", "c", "d"], file_root=tmp_path)(4)
    with pytest.raises(DecodeError) as caught:
        decoders.numpy(files)
    assert str(caught.value).splitlines() == [
        "decoders.numpy(): 3 of 4 samples cannot be read.",
        "  sample 0 (a): is not a .npy file",
        "  sample 2 (c): ends too early: 151 bytes of 152 are there",
        "  sample 3 (d): holds int32 of 1 dimensions, where sample 1 holds float64 of 1 dimensions",
    ]
    with pytest.raises(DecodeError, match="1 of 1 samples"):
        decoders.numpy(b"")
    assert set(reasons([bytes_of(b"text"), bytes_of(b"")])) == {0, 1}


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_changed_bytes_are_refused_or_an_array(data, version):
    whole = bytearray(npy_file(np.arange(12, dtype=np.int32).reshape(3, 4), version))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 130), st.integers(0, 255)), min_size=1)):
        whole[place] = value
    try:
        found = decoders.numpy(bytes(whole), dtype=data.draw(st.sampled_from([None, "float64"])))
    except DecodeError as error:
        told = str(error)
        assert told.startswith("decoders.numpy(): 1 of 1 samples cannot be read.\n  sample 0: ")
    else:
        assert found.size <= 48


@given(st.binary(max_size=40), st.sampled_from([1, 2, 3]), st.binary(max_size=9))
def test_any_header_is_refused_or_an_array(text, version, body):
    data = b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + body
    with pytest.raises(DecodeError):
        decoders.numpy(data)


@given(
    shape=st.lists(st.sampled_from([0, 0, 1, 2, 3, -1, 1 << 31, 1 << 32, 1 << 61, 1 << 64]), max_size=6),
    descr=st.sampled_from([t.str for t in ALL_DTYPES]), fortran=st.booleans(), count=st.sampled_from([1, 3, 1000]),
    dtype=st.sampled_from([None, "float64"]),
)  # fmt: skip
def test_a_header_that_lies_costs_no_memory(shape, descr, fortran, count, dtype):
    text = described(repr(tuple(shape)), repr(descr), str(fortran))
    tracemalloc.start()
    try:
        found = decoders.numpy(file_of(text, b""), batch_size=count, dtype=dtype)
    except DecodeError:
        found = []
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 1 << 22
    assert all(sample.size == 0 for sample in getattr(found, "samples", ()))


@pytest.mark.parametrize("text", [
    described("(-1,)"), described("(99,)"), described("(1 << 62, 4)"), described("1"), described("('a',)"),
    described(repr((1,) * 70)), described("(" + "9" * 5000 + ",)"), described(descr="'x'"), described(descr="[]"),
    described(descr="('<i4', (2,))"), described(descr="'M8[s/0]'"), described(descr="[('a', 'm8[7s/00]')]"),
    described(descr="()"), described(descr="('<i4',)"), described(descr="[(([], 'b'), '<i4')]"),
    described(descr="'\xff,i4'"), described(fortran="3"), described()[:-9], "(" * 5000, "-" * 9000 + "1",
    "[" * 150, "", "__import__('os')", "\0", "é", " " * 20_000,
])  # fmt: skip
@pytest.mark.parametrize("version", [1, 2, 3])
def test_hostile_headers_are_refused(text, version):
    assert list(reasons([npy_file(np.zeros(1)), file_of(text, version=version)], dtype="int8")) == [1]


@pytest.mark.parametrize("text", [
    described("(1if 1else 2,)"), described("(0x1f,)"), described("(2 L,)"), described(descr=r"'\d'"),
    described(descr="'a4'"), "\n " + described(),
    described("(1 or 2,)"), described().replace("'shape'", "b'shape'"), described() + "\n ,",
])  # fmt: skip
def test_python_and_numpy_warn_of_no_header(text):
    """Whatever is done with warnings, which are errors here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(reasons([file_of(text)])) == [0]
    assert not caught
    spaces = described("(1,)", "u'<i4'") + " \n  "
    assert decoders.numpy(file_of(spaces, bytes(4), 2)).tolist() == [0]


class Trap:
    """What must not come to life."""

    def __reduce__(self):
        return pytest.fail, ("was unpickled",)


def test_arrays_that_are_no_numbers_are_refused_and_never_unpickled():
    some = {"object": np.array([Trap()], object), "complex64": np.zeros(1, "c8"), "U1": np.array(["a"]),
            "S1": np.array([b"a"]), "datetime64": np.array(["2020"], "M8[D]"), "'a'": np.zeros(1, [("a", "i4")]),
            "V3": np.zeros(1, "V3"), "float128": np.zeros(1, "longdouble")}  # fmt: skip
    found = reasons([npy_file(array) for array in some.values()])
    assert len(found) == len(some)
    for name, reason in zip(some, found.values(), strict=True):
        assert name in reason
        assert reason.startswith("holds ")
        assert reason.endswith("which is not supported")


@pytest.mark.parametrize("letter", string.ascii_letters + "?")
def test_every_letter_of_a_type_is_read_or_refused_by_name(letter):
    """NumPy knows types that have no order of bytes, such as "T", and raises errors of its own about them."""
    for before, after in itertools.product(("", "<", ">", "|", "="), ("", "1", "4", "8", "16")):
        file = file_of(described("(0,)", f"'{before}{letter}{after}'"), b"")
        try:
            assert decoders.numpy(file).shape == (0,)
        except DecodeError as error:
            assert error.failures[0].reason.startswith(("holds ", "has a header that cannot be understood"))  # noqa: PT017


def test_what_are_no_bytes_is_refused():
    file = npy_file(np.zeros(3))
    with pytest.raises(ArgumentError, match=r"decoders\.numpy\(\): argument 'encoded' must be the bytes of one file"):
        decoders.numpy(file[None])
    with pytest.raises(ArgumentError, match="argument 'encoded' must be of dtype uint8; got int8"):
        decoders.numpy(file.view(np.int8))
    with pytest.raises(ArgumentError, match="argument 'dtype' must be"):
        decoders.numpy(file, dtype="no type")


def test_errors_pickle_whole():
    with pytest.raises(DecodeError) as caught:
        decoders.numpy(read_only(np.zeros(3, np.uint8)))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (DecodeError, str(caught.value))


@given(place=st.integers(0, 5), bit=st.integers(0, 7), version=st.sampled_from(VERSIONS))
def test_only_the_magic_word_makes_an_array(place, bit, version):
    data = np.array(npy_file(np.arange(3), version))
    data[place] ^= 1 << bit
    assert reasons([data]) == {0: "is not a .npy file"}


@pytest.mark.parametrize(("shape", "right"), [
    ((0, 2**32), True), ((0, 2**32 + 1), False), ((2**16, 0, 2**16), True), ((2**16, 0, 2**16 + 1), False),
    ((-1, 3), False), ((3, -1), False), ((0, -1), False), ((1,) * 32, True), ((1,) * 33, False), ((2**61, 4), False),
])  # fmt: skip
def test_shapes_that_cannot_be_are_refused(shape, right):
    file = file_of(described(str(shape)), bytes(0 if 0 in shape else 4))
    if right:
        assert decoders.numpy(file).shape == shape
        assert decoders.numpy(file, dtype="float64").shape == shape
    else:
        assert reasons([file])[0].startswith("has a shape that cannot be: ")


@pytest.mark.parametrize("byte", [2, 3, 128, 255])
def test_any_byte_of_a_bool_but_0_is_true(byte):
    file = file_of(described("(2,)", "'|b1'"), bytes([0, byte]))
    assert decoders.numpy(file).array.view(np.uint8).tolist() == [0, 1]
