"""Tensors: how they are made, what they answer."""

from __future__ import annotations

import array as python_array
import collections
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES, arrays, read_only

import dynamic as ndd
from dynamic import ArgumentError, Batch, Tensor, as_batch, as_tensor, tensor
from dynamic._arrays import memory
from dynamic.pipeline import newaxis


def native(a: np.ndarray) -> np.ndarray:
    return a.astype(a.dtype.newbyteorder("="))


def same(t: Tensor, a: np.ndarray) -> bool:
    a = native(a)
    return t.array.dtype == a.dtype and t.shape == a.shape and np.array_equal(t.array, a)


# -- construction


@given(arrays())
def test_as_tensor_shares_and_tensor_copies(a):
    shared, own = as_tensor(a), tensor(a)
    assert same(shared, a)
    assert same(own, a)
    assert np.may_share_memory(shared.array, a) or not a.size or not a.dtype.isnative
    assert not np.shares_memory(own.array, a)
    if a.dtype.isnative:
        assert shared.array is a
        assert not shared.numpy().flags.writeable
    assert own.array.flags.writeable


@given(arrays())
def test_every_protocol_gives_the_same(a):
    class OldDLPack:
        """A producer from before DLPack 1.0: its __dlpack__ takes a stream and nothing else."""

        def __dlpack__(self, stream=None):
            return np.array(native(a)).__dlpack__()

        def __dlpack_device__(self):
            return np.zeros(0).__dlpack_device__()

    class NewDLPack(OldDLPack):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return native(a).__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    class OnlyArray:
        def __array__(self, dtype=None, copy=None):
            return a

    class Refuses(OnlyArray):
        """Read-only memory: NumPy before 2.1 and JAX answer so."""

        def __dlpack__(self, **_):
            raise BufferError("read-only")

        def __dlpack_device__(self):
            return 1, 0

    class Interface:
        __array_interface__ = native(a).__array_interface__
        keep = native(a)

    Interface.__array_interface__ = Interface.keep.__array_interface__
    for producer in (OldDLPack(), NewDLPack(), OnlyArray(), Refuses(), Interface(), as_tensor(a)):
        assert same(as_tensor(producer), a)


def test_buffers():
    assert same(as_tensor(b"ab"), np.array([97, 98], np.uint8))
    assert same(as_tensor(b""), np.zeros(0, np.uint8))
    assert same(as_tensor(bytearray(b"a")), np.array([97], np.uint8))
    assert same(as_tensor(memoryview(b"a")), np.array([97], np.uint8))
    assert same(as_tensor(python_array.array("d", [1.5])), np.array([1.5]))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, "i32"), (3.0, "f32"), (True, "bool"), ([], "f32"), ([1, 2], "i32"), ([1, 2.5], "f32"), ([True, 2], "i32"),
        (range(3), "i32"), ([2**31], "u32"), ([-1, 2**31], "i64"), (2**32, "i64"), (2**63, "u64"), (-(2**63), "i64"),
        (np.int64(5), "i64"), (np.float64(5), "f64"), ([np.int64(5)], "i64"), ([np.float64(1)], "f64"),
        ([[1, 2], [3, 4]], "i32"), (((True,), (False,)), "bool"), (np.bool_(True), "bool"),
        ([np.ones(2, np.float64)], "f64"),
    ],
)  # fmt: skip
def test_numbers_get_dalis_types_or_keep_their_own(value, dtype):
    assert as_tensor(value).dtype == dtype
    assert np.array_equal(as_tensor(value).array, np.asarray(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 2**31 - 1, -(2**31), 2**64 - 1])
def test_numbers_keep_their_value(value):
    assert np.array_equal(np.asarray(as_tensor(value)), value, equal_nan=True)
    assert np.signbit(as_tensor(-0.0).array)


@pytest.mark.parametrize(
    "bad",
    [None, "text", {1}, {1: 2}, 1j, [1j], [1, "a"], [None], 2**64, -(2**63) - 1, [-1, 2**63], [[1], [1, 2]], object(),
     np.zeros(2, complex), np.array(["a"]), np.array([None]), np.array(["2020"], "M8[s]"), np.zeros(2, "i4,i4"),
     np.zeros(2, np.longdouble), np.ma.masked_array([1, 2], [True, False]), [(np.ma.masked_array([1, 2], [1, 0]),)]],
    ids=lambda bad: type(bad).__name__,
)  # fmt: skip
def test_what_is_no_numbers_is_refused(bad):
    for make in (as_tensor, tensor):
        with pytest.raises(ArgumentError, match=rf"{make.__name__}\(\): argument 'data' must be "):
            make(bad)


def test_arrays_of_other_classes_become_plain():
    matrix = as_tensor(np.ma.masked_array([1, 2], [False, False])).array
    assert type(matrix) is np.ndarray
    listed = as_tensor([np.ma.masked_array([1, 2], [False, False]), [3, 4]])
    assert (type(listed.array), listed.tolist()) == (np.ndarray, [[1, 2], [3, 4]])
    assert type(as_tensor(np.zeros(3).view(np.recarray)).array) is np.ndarray


@given(arrays(), st.sampled_from(ALL_DTYPES))
def test_dtype_converts_as_cast_does(a, to):
    t = as_tensor(a, dtype=to)
    assert t.dtype == to
    assert np.array_equal(t.array, ndd.cast(as_tensor(a), dtype=to).array)


def test_python_numbers_with_a_dtype_keep_their_precision():
    assert as_tensor([0.1], dtype="f64").item() == 0.1
    assert as_tensor([2**40, 1.7, -300], dtype="u8").tolist() == [255, 2, 0]


def test_layouts():
    t = as_tensor(np.zeros((2, 3)), layout="HW")
    assert t.layout == "HW"
    assert as_tensor(t).layout == "HW"
    assert as_tensor(t, layout="").layout == "HW"
    assert as_tensor(t, layout="WH").layout == "WH"
    assert t.layout == "HW"
    for bad in ("H", "HWC", 3, b"HW"):
        with pytest.raises(ArgumentError, match="layout"):
            as_tensor(t, layout=bad)


def test_devices():
    t = as_tensor([1], device="cpu")
    assert t.device == "cpu" == ndd.Device("cpu")
    assert t.cpu() is t
    assert t.to_device("cpu") is t
    assert not np.shares_memory(t.to_device("cpu", force_copy=True).array, t.array)
    for bad in ("tpu", "gpu:-1", "", 3, "CPU"):
        with pytest.raises(ArgumentError, match="device"):
            as_tensor([1], device=bad)
    with pytest.raises(ArgumentError):
        t.to_device(None)
    if not ndd.devices.gpu_count():
        with pytest.raises(ndd.DeviceError, match="gpu:0"):
            t.gpu()
        with pytest.raises(ndd.DeviceError, match="no device .gpu:-1"):
            t.gpu(-1)
        with pytest.raises(ndd.DeviceError, match="gpu:1"):
            as_tensor([1], device="cuda:1")


# -- protocols


@given(arrays())
def test_there_and_back(a):
    t = as_tensor(a, layout="ABC"[: a.ndim])
    assert np.array_equal(np.asarray(t), a)
    assert np.array_equal(np.from_dlpack(t), a)
    assert np.array_equal(t.tolist(), a.tolist())


@pytest.mark.parametrize("view", [np.asarray, lambda data: data.numpy(), lambda data: np.asarray(data, copy=False)])
def test_arrays_of_numpy_over_its_memory_cannot_be_written_to(view):
    own = np.arange(6.0).reshape(2, 3)
    for data in (as_tensor(own), as_tensor(own)[0], as_batch(own)):
        before = data.tolist()
        array = view(data)
        assert np.shares_memory(array, own)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 99
        with pytest.raises(ValueError, match="read-only"):
            array += 1
        assert data.tolist() == before
        copied = np.array(data)
        copied[0] = 99
        assert data.tolist() == before
    own[0, 0] = 7  # whoever made the memory may write to it
    assert as_tensor(own).tolist()[0][0] == 7


@given(arrays())
def test_array_protocol_keeps_numpys_promises(a):
    t = as_tensor(a)
    assert np.array(t, copy=True) is not t.array
    assert np.shares_memory(np.asarray(t), t.array) or not a.size
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    if t.dtype != "f64":
        with pytest.raises(ValueError, match="copy"):
            np.array(t, dtype=np.float64, copy=False)


@given(arrays())
def test_torch_gets_memory_that_it_can_have(a):
    torch = pytest.importorskip("torch")
    t = as_tensor(a)
    given_ = t.torch()
    assert np.array_equal(given_.numpy(), a)
    assert not np.shares_memory(given_.numpy(), a)  # read-only memory never reaches torch
    if a.dtype.isnative:
        with pytest.raises(BufferError, match="read-only"):
            t.torch(copy=False)
    own = tensor(a)
    assert np.shares_memory(own.torch(copy=False).numpy(), own.array) or not a.size
    assert not np.shares_memory(own.torch(copy=True).numpy(), own.array)
    assert np.array_equal(torch.from_dlpack(tensor(a)[::-1] if a.ndim else own).numpy(), a[::-1] if a.ndim else a)


def test_torch_tensors_are_taken_as_they_are_or_refused():
    torch = pytest.importorskip("torch")
    x = torch.arange(6).reshape(2, 3)
    assert np.shares_memory(as_tensor(x).array, x.numpy())
    assert as_tensor(x.T).tolist() == x.T.tolist()
    negated = torch.tensor([1 + 2j]).conj().imag
    assert as_tensor(negated).tolist() == [-2.0]
    for bad in (x.float().requires_grad_(), x.to_sparse(), x.to(torch.bfloat16), x.to(torch.complex64)):
        with pytest.raises(ArgumentError, match=r"as_tensor\(\): argument 'data'"):
            as_tensor(bad)


def test_dlpack_export():
    t = as_tensor(np.arange(4)[::-1])
    assert np.from_dlpack(t).tolist() == [3, 2, 1, 0]
    assert all(s >= 0 for s in np.from_dlpack(t).strides)
    with pytest.raises(BufferError, match="negative"):
        t.__dlpack__(copy=False)
    frozen = as_tensor(read_only(np.arange(3)))
    assert not np.from_dlpack(frozen).flags.writeable
    with pytest.raises(BufferError):
        frozen.__dlpack__()  # a consumer from before DLPack 1.0 could write through it
    assert t.__dlpack_device__() == (1, 0)
    assert not hasattr(t, "__cuda_array_interface__")


def test_a_producer_that_lies_about_its_device_is_refused():
    class Lies:
        def __dlpack__(self, **_):
            return np.zeros(2).__dlpack__()

        def __dlpack_device__(self):
            return 2, 0

    if not ndd.devices.gpu_count():
        with pytest.raises(ndd.DeviceError, match="cupy"):
            as_tensor(Lies())


# -- behaviour


@given(st.data())
def test_letters_stay_with_their_dimensions(data):
    """Each dimension has an extent of its own, which tells which it is in the result."""
    extents, count = {"F": 2, "H": 3, "W": 5, "C": 7}, 11
    video = as_tensor(np.zeros(tuple(extents.values()), np.uint8), layout="FHWC")
    entries = data.draw(st.lists(st.sampled_from([0, slice(None)]), max_size=4))
    if entries and data.draw(st.booleans()):
        entries[data.draw(st.integers(0, len(entries) - 1))] = np.zeros(count, int)
    places = [i for i, entry in enumerate(entries) if isinstance(entry, np.ndarray)]
    letter = "FHWC"[places[0]] if places else ""
    if data.draw(st.booleans()):
        after = data.draw(st.integers(0, len(entries)))
        if places and after <= places[0]:
            letter = "FHWC"[places[0] + 4 - len(entries)]
        entries.insert(after, ...)
    for _ in range(data.draw(st.integers(0, 2))):
        entries.insert(data.draw(st.integers(0, len(entries))), newaxis("N"))
    part = video[tuple(entries)]
    assert part.shape == video.array[tuple(None if isinstance(e, type(newaxis)) else e for e in entries)].shape
    letters = {extent: letter for letter, extent in extents.items()} | {count: letter, 1: "N"}
    assert part.layout == ("".join(letters[extent] for extent in part.shape) or None)
    batch = as_batch(np.zeros((2, *extents.values()), np.uint8), layout="FHWC").slice[tuple(entries)]
    assert (batch.layout, batch[0].shape) == (part.layout, part.shape)


@pytest.mark.parametrize("number", [True, False, np.uint8(1), np.int64(-1)])
def test_a_tensor_of_one_number_is_an_index_as_numpys_is(number):
    array = np.arange(6).reshape(2, 3)
    for before in ((), (slice(0, 1),)):
        assert np.array_equal(as_tensor(array)[*before, as_tensor(number)].array, array[*before, np.array(number)])


def test_a_new_axis_may_have_a_letter():
    image, plain = as_tensor(np.zeros((2, 3)), layout="HW"), as_tensor(np.zeros((2, 3)))
    assert [image[newaxis].layout, image[newaxis()].layout, image[newaxis("F"), newaxis].layout] == [None] * 3
    assert plain[1, 2, newaxis("C")].layout == "C"
    batch = as_batch([np.zeros((2, 3)), np.zeros((1, 3))], layout="HW")
    for some in (batch, batch[:0]):
        part = some.slice[:, :, newaxis("C")]
        assert (part.layout, part.shape) == ("HWC", [(*extents, 1) for extents in some.shape])
    with pytest.raises(IndexError, match=r"newaxis\('C'\) has a letter, but there is no layout"):
        plain[:, newaxis("C")]
    for wrong in ("", "HW", 3):
        with pytest.raises(ArgumentError, match="newaxis.*'name' must be one letter"):
            newaxis(wrong)
    assert [repr(newaxis), repr(newaxis("C"))] == ["newaxis", "newaxis('C')"]


def test_layouts_of_what_an_index_takes():
    t = as_tensor(np.arange(6).reshape(2, 3), layout="HW")
    assert t[as_tensor(1) :, : as_tensor(np.int64(2))].tolist() == [[3, 4]]
    assert t[[1, 0]].layout == "HW"
    assert t[t > 2].layout is None
    assert t[..., -1].layout == "H"
    video = as_tensor(np.zeros((2, 3, 4, 5), np.uint8), layout="FHWC")
    for index, layout in (
        ((..., 0), "FHW"), ((0, ..., 0), "HW"), ((0, ...), "HWC"), ((slice(1), ..., [0]), "FHWC"),
        ((..., 0, [1, 2]), "FHC"), ((..., [0], [1]), None), ((slice(None), 0), "FWC"), ((0, 0, 0, 0, ...), None),
        ((..., None), None), ((0, ..., [1, 2]), "CHW"), ((slice(None), [0], slice(1), 0), "HFW"),
    ):  # fmt: skip
        assert video[index].layout == layout
    with pytest.raises(TypeError):
        t[0] = 1


def test_length_and_iteration_end():
    t = as_tensor([[1, 2], [3, 4]])
    assert len(t) == 2
    assert [row.tolist() for row in t] == [[1, 2], [3, 4]]
    for f in (len, iter):
        with pytest.raises(TypeError):
            f(as_tensor(1))
    assert 3 in t
    assert 5 not in t
    assert "a" not in t


def test_equality_is_elementwise_with_numbers_only():
    t = as_tensor([1, 2])
    assert (t == [1, 3]).tolist() == [True, False]
    assert (t != 1).tolist() == [False, True]
    assert (t == None) is False  # noqa: E711
    assert (t != "a") is True
    with pytest.raises(TypeError):
        hash(t)


def test_members():
    t = as_tensor(np.zeros((2, 3), np.int16))
    assert (t.shape, t.ndim, t.size, t.itemsize, t.nbytes) == ((2, 3), 2, 6, 2, 12)
    assert (t.dtype, t.layout, t.evaluate() is t) == (ndd.int16, None, True)


def test_repr_is_dalis_and_bounded():
    t = as_tensor(np.arange(24).reshape(2, 3, 4), layout="HWC")
    assert repr(t) == str(t) == format(t) == (
        "Tensor(\n    [[[ 0  1  2  3]\n      [ 4  5  6  7]\n      [ 8  9 10 11]]\n\n     [[12 13 14 15]\n"
        "      [16 17 18 19]\n      [20 21 22 23]]],\n    dtype=i64,\n    layout=\"HWC\",\n    device=\"cpu\",\n"
        "    shape=(2, 3, 4))"
    )  # fmt: skip
    assert repr(as_tensor(5)) == 'Tensor(\n    5,\n    dtype=i32,\n    device="cpu",\n    shape=())'
    assert len(repr(as_tensor(np.zeros((500, 500, 3))))) < 2000


def test_pad_makes_one_tensor_of_ragged_lists():
    assert as_tensor([[1], [2, 3]], pad=True).tolist() == [[1, 0], [2, 3]]
    assert isinstance(as_tensor(Batch.broadcast(1, 2)), Tensor)


def test_memory_of_results_is_used_again_only_when_nobody_has_it(monkeypatch):
    monkeypatch.setattr(memory, "_free", collections.defaultdict(collections.deque))  # nothing of other tests
    big = np.zeros((512, 512), np.uint8)
    first = ndd.copy(big)
    address = first.array.ctypes.data
    view = first[1:]
    del first
    second = ndd.copy(big)
    assert second.array.ctypes.data != address
    exported = memoryview(view.array)
    del view
    assert ndd.copy(big).array.ctypes.data != address
    del exported
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        assert ndd.copy(big).array.ctypes.data == address


@given(arrays(), st.sampled_from([None, "float64", "int16", np.float32]))
def test_the_class_makes_what_as_tensor_makes(array, dtype):
    for data in (array, as_tensor(array), array.astype(array.dtype.newbyteorder(">"))):
        made, wanted = ndd.Tensor(data, dtype=dtype, device="cpu"), as_tensor(array, dtype)
        assert np.array_equal(made, wanted, equal_nan=made.dtype.kind is ndd.DType.Kind.float)
        assert (made.dtype, made.device, made.shape) == (wanted.dtype, wanted.device, wanted.shape)


def test_the_class_takes_numbers_and_batches_and_refuses_what_as_tensor_refuses():
    assert ndd.Tensor(5, dtype=ndd.uint8, device="cpu").item() == 5
    assert ndd.Tensor(ndd.as_batch([[1, 2], [3, 4]], layout="X")).layout == "NX"
    assert ndd.Tensor(as_tensor([1, 2], layout="X")).layout == "X"
    for wrong in (np.array([1j]), np.array(["a"]), np.array([None])):
        with pytest.raises(ArgumentError, match="numbers of one of the types"):
            ndd.Tensor(wrong)
    for layout in ("XYZ", ndd.float32):
        with pytest.raises(ArgumentError, match=r"Tensor\(\): argument 'layout'"):
            ndd.Tensor(np.zeros((2, 3)), layout)


def test_a_number_is_rounded_as_pythons_are():
    assert (round(as_tensor(1.26), 1), round(as_tensor(1.6)), round(as_tensor(7))) == (1.3, 2, 7)
    with pytest.raises(ValueError, match="2 elements"):
        round(as_tensor([1.0, 2.0]))


def test_text_and_lists_of_files_are_told_where_they_belong():
    with pytest.raises(ArgumentError, match=r"Several files are a Batch: as_batch\(\[...\]\)"):
        ndd.decoders.image([b"abc", b"de"])
    with pytest.raises(ArgumentError, match="imread and readers take paths"):
        as_tensor(["abc"])


def test_lists_of_numbers_are_tensors():
    """As in DALI's examples, and of the types that `tensor` gives them."""
    for numbers in ([[1.0, 0.8], [0.0, 1.2]], [1, 2], (True, False), [2**40], [], [[]]):
        made = ndd.Tensor(numbers, "HW" if np.ndim(numbers) == 2 else None)
        assert made.tolist() == ndd.tensor(numbers).tolist()
        assert made.dtype == ndd.tensor(numbers).dtype
    with pytest.raises(ArgumentError, match=r"Tensor\(\): argument 'data' must be sequences of equal lengths"):
        ndd.Tensor([[1], [2, 3]])
