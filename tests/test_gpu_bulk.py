"""Batches of many tensors of other libraries on a GPU, without a copy and without a call for each."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import twin
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_dtype, arrays

import dynamic as ndd
from dynamic import ArgumentError, Batch, as_batch, as_tensor, batch
from dynamic._arrays.described import described

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch():
    with twin.with_torch() as module:
        yield module


def cupy():
    import cupy

    return cupy


@st.composite
def ragged(draw):
    dtype, ndim = draw(any_dtype), draw(st.integers(0, 3))
    shape = st.tuples(*[st.integers(0, 3)] * ndim)
    return [draw(arrays(dtype, shape, any_order=False)) for _ in range(draw(st.integers(1, 4)))]


class Interface:
    """Known by `__cuda_array_interface__` alone, but for its device."""

    def __init__(self, array, read_only=False, **more):
        self.array, self.read_only, self.more, self.dtype, self.ndim = array, read_only, more, array.dtype, array.ndim
        self.calls = 0

    @property
    def __cuda_array_interface__(self):
        interface = {**self.array.__cuda_array_interface__, **self.more}
        return {**interface, "data": (interface["data"][0], self.read_only)}

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls += 1
        return self.array.__dlpack__(**keywords)


class Producer:
    """Known by DLPack alone."""

    def __init__(self, array):
        self.array, self.dtype, self.shape, self.calls = array, array.dtype, array.shape, 0

    def __dlpack__(self, *, stream=None, **more):
        assert stream is not None
        self.calls += 1
        return self.array.__dlpack__(stream=stream, **more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyStream(Producer):
    """A producer from before DLPack 1.0, which takes `stream`, and by keyword alone."""

    def __dlpack__(self, *, stream):
        self.calls += 1
        return self.array.__dlpack__(stream=stream)


def same(b, samples):
    return len(b) == len(samples) and all(
        x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y)
        for x, y in zip(b.cpu().samples, samples, strict=True)
    )


@given(ragged())
def test_every_library_gives_the_same_and_shares_its_memory(samples):
    there = [cupy().asarray(s) for s in samples]
    with twin.with_torch() as torch:
        ways = {
            "cupy": there,
            "interface": [Interface(a) for a in there],
            "DLPack": [Producer(a) for a in there],
            "DLPack before 1.0": [OnlyStream(a) for a in there],
            "tensors": [as_tensor(a) for a in there],
            "mixed": [there[0], *map(Producer, there[1:])],
            "torch": [torch.from_dlpack(a) for a in there],
        }
        for name, way in ways.items():
            made = as_batch(way)
            assert same(made, samples), name
            assert made.device == "gpu:0"
            shared = [p == a.data.ptr for p, a in zip(described(made.samples).pointers.tolist(), there, strict=True)]
            assert all(yes or not a.size for yes, a in zip(shared, there, strict=True)), name
            if name in ("cupy", "interface", "tensors", "torch"):
                assert not any(getattr(item, calls, 0) for item in way for calls in ("calls", "dlpack_calls")), name
            own = batch(way)
            assert same(own, samples), name


def test_torch_is_never_called_for_each_element(torch):
    items = [torch.as_tensor(np.full((2 + i, 3), i, np.uint8), device="cuda:0") for i in range(5)]
    made = as_batch(items)
    assert made.shape == [(2 + i, 3) for i in range(5)]
    assert not any(getattr(item, "dlpack_calls", 0) for item in items)
    assert made.tolist() == [item.cpu().tolist() for item in items]


def test_transposed_torch_tensors(torch):
    items = [torch.as_tensor(np.arange(6).reshape(2, 3), device="cuda:0").transpose(0, 1) for _ in range(2)]
    assert as_batch(items).tolist() == [[[0, 3], [1, 4], [2, 5]]] * 2
    assert as_tensor(batch(items)).array.flags.c_contiguous


@pytest.mark.parametrize("library", ["torch", "cupy", "interface", "DLPack"])
@pytest.mark.parametrize("what", ["device", "dtype", "dimensions"])
def test_the_odd_one_is_named_before_any_is_used(torch, library, what):
    if what == "device" and ndd.devices.gpu_count() < 2:
        pytest.skip("one GPU")
    make = {"cupy": lambda a: a, "interface": Interface, "DLPack": Producer, "torch": lambda a: torch.from_dlpack(a)}
    first = cupy().asarray(np.zeros((2, 2), np.float32))
    with cupy().cuda.Device(1 if what == "device" else 0):
        host = {"device": np.zeros((2, 2), np.float32), "dtype": np.zeros((2, 2), np.uint8),
                "dimensions": np.zeros(2, np.float32)}[what]  # fmt: skip
        odd = make[library](cupy().asarray(host))
    items = [make[library](first), make[library](first), odd]
    with pytest.raises(ArgumentError, match=rf"as_batch\(\): argument 'tensors\[2\]' must be like .*{what}"):
        as_batch(items)
    assert not any(getattr(item, "calls", 0) for item in items)
    if what == "dtype":
        assert as_batch(items, dtype="f64").dtype == "f64"


def test_a_tensor_on_the_cpu_among_others_is_named(torch):
    there = cupy().asarray(np.zeros(2))
    for items in ([there, np.zeros(2)], [as_tensor(there), as_tensor(np.zeros(2))], [there, as_tensor(np.zeros(2))]):
        with pytest.raises(ArgumentError, match=r"tensors\[1\].*device"):
            as_batch(items)


def test_gradients_are_refused_and_negative_bits_resolved(torch):
    plain = torch.as_tensor(np.ones(2, np.float32), device="cuda:0")
    gradient = torch.as_tensor(np.ones(2, np.float32), device="cuda:0").requires_grad_()
    with pytest.raises(ArgumentError, match=r"tensors\[1\]' must be data without a gradient.*detach"):
        as_batch([plain, gradient])
    with pytest.raises(ArgumentError, match=r"'data' must be data without a gradient.*detach"):
        as_tensor(gradient)
    if twin.has_gpu():
        negative = torch.as_tensor([1 + 2j], device="cuda:0").conj().imag
    else:
        negative = torch.Tensor(cupy().asarray(np.array([2.0], np.float32)), neg=True)
    assert as_batch([negative, negative]).tolist() == [[-2.0], [-2.0]]
    assert as_tensor(negative).tolist() == [-2.0]


def test_element_types_without_a_place_here_are_refused_by_name(torch):
    raw = torch.as_tensor(np.ones(2, np.int16), device="cuda:0")
    if twin.has_gpu():
        odd = raw.to(torch.bfloat16)
    else:
        odd = torch.Tensor(raw._array, kind=torch.bfloat16)
    with pytest.raises(ArgumentError, match="bfloat16"):
        as_batch([odd, odd])


def test_a_sparse_tensor_is_refused(torch):
    dense = torch.as_tensor(np.eye(2, dtype=np.float32), device="cuda:0")
    if twin.has_gpu():
        odd = dense.to_sparse()
    else:
        odd = torch.as_tensor(np.eye(2, dtype=np.float32), device="cuda:0")
        odd.layout = torch.sparse_coo
    with pytest.raises(ArgumentError, match=r"tensors\[1\]' must be dense"):
        as_batch([dense, odd])


class Lost(RuntimeError):
    """What a library raises when CUDA fails."""


@pytest.mark.parametrize("kind", ["torch", "interface", "DLPack"])
def test_a_failure_of_cuda_surfaces_as_it_is(torch, kind, monkeypatch):
    def fails(*_, **__):
        raise Lost("an illegal memory access was encountered")

    there = cupy().asarray(np.zeros(2))
    if kind == "torch" and twin.has_gpu():
        pytest.skip("methods of torch's own tensors are not replaced everywhere")
    if kind == "torch":
        item = torch.from_dlpack(there)
        for name in ("data_ptr", "is_neg", "untyped_storage"):
            with monkeypatch.context() as patch:
                patch.setattr(type(item), name, fails)
                with pytest.raises(Lost):
                    as_batch([item, item])
        return
    made = Interface(there) if kind == "interface" else Producer(there)
    where = "__cuda_array_interface__" if kind == "interface" else "__dlpack__"
    monkeypatch.setattr(type(made), where, property(fails) if kind == "interface" else fails)
    with pytest.raises(Lost):
        as_batch([made, made])


def test_memory_that_is_read_only_is_copied(torch):
    there = cupy().asarray(np.arange(3))
    made = as_batch([Interface(there, read_only=True), Interface(there)])
    assert made.tolist() == [[0, 1, 2]] * 2
    assert there.data.ptr not in described(made.samples).pointers.tolist()
    with pytest.raises(ArgumentError, match=r"tensors\[0\].*mask"):
        as_batch([Interface(there, mask=there)])


def test_the_tensors_live_as_long_as_the_batch(torch):
    items = [Interface(cupy().asarray(np.full(3, i))) for i in range(3)]
    kept = [weakref.ref(item) for item in items]
    made = as_batch(items)
    part = made[1:]
    del items
    gc.collect()
    assert all(ref() is not None for ref in kept)
    one = part[0]
    del made, part
    gc.collect()
    assert one.tolist() == [1, 1, 1]
    del one
    gc.collect()
    assert all(ref() is None for ref in kept)


def test_as_tensor_of_a_list_is_one_array():
    there = [cupy().asarray(np.arange(i)) for i in (3, 2)]
    assert as_tensor(as_batch(there), pad=True).tolist() == [[0, 1, 2], [0, 1, 0]]
    with pytest.raises(ValueError, match="pad=True"):
        as_tensor(as_batch(there))
    assert Batch([there[0]] * 2).cupy().tolist() == [[0, 1, 2]] * 2
