"""DLPack and its kin on a GPU: what a producer must do, and what a consumer may rely on."""

from __future__ import annotations

import ctypes
import math
import sys
import types

import numpy as np
import pytest
import twin
from hypothesis import given
from strategies import arrays, read_only

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor
from dynamic._arrays.dlpack import Head, name_of

gpu = pytest.mark.gpu


def cupy():
    import cupy

    return cupy


class Given:
    """A capsule as a producer."""

    def __init__(self, capsule, device=(2, 0)):
        self.capsule, self.device, self.asked = capsule, device, None

    def __dlpack__(self, **asked):
        self.asked = asked
        return self.capsule

    def __dlpack_device__(self):
        return self.device


@gpu
@given(arrays())
def test_there_and_back(a):
    t = as_tensor(a, device="gpu", layout="ABC"[: a.ndim])
    for other in (as_tensor(Given(t.__dlpack__(max_version=(1, 0)))), as_tensor(Given(t.__dlpack__())),
                  as_tensor(cupy().from_dlpack(t)), as_tensor(t.cupy())):  # fmt: skip
        assert other.device == "gpu:0"
        assert np.array_equal(other.cpu().array, a)
        assert other.array.data.ptr == t.array.data.ptr or not a.size
    assert t.__dlpack_device__() == (2, 0)


def extents(tensor):
    return list((ctypes.c_int64 * tensor.ndim).from_address(tensor.shape))


def packed(tensor):
    return [math.prod(extents(tensor)[i + 1 :]) for i in range(tensor.ndim)]


def strides(tensor):
    """Those that a capsule says; NumPy before 2.4 says none where there are no gaps."""
    return list((ctypes.c_int64 * tensor.ndim).from_address(tensor.strides)) if tensor.strides else packed(tensor)


@gpu
def test_what_a_capsule_says():
    t = as_tensor(np.arange(6, dtype=np.int16).reshape(2, 3)).gpu()
    head = Head(t.__dlpack__(max_version=(1, 0)))
    assert (head.tensor.device_type, head.tensor.device_id, head.tensor.ndim, head.element) == (2, 0, 2, (0, 16, 1))
    assert head.tensor.data + head.tensor.byte_offset == t.array.data.ptr
    assert (extents(head.tensor), strides(head.tensor)) == ([2, 3], [3, 1])
    assert head._managed.major == 1
    assert head._managed.flags == 0
    assert Head(t.__dlpack__())._managed is None
    copied = Head(t.__dlpack__(max_version=(1, 0), copy=True))
    assert copied._managed.flags == 2
    assert copied.tensor.data != t.array.data.ptr


@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=gpu)])
def test_a_negative_stride_is_never_exported(device):
    t = as_tensor(np.arange(4), device=device)[::-1]
    capsule = t.__dlpack__(max_version=(1, 0))
    head = Head(capsule)
    assert strides(head.tensor) == [1]
    assert head._managed.flags == 2
    where = (2, 0) if device == "gpu" else (1, 0)
    assert as_tensor(Given(capsule, where)).tolist() == [3, 2, 1, 0]
    with pytest.raises(BufferError, match="negative"):
        t.__dlpack__(copy=False)


@gpu
def test_a_consumer_on_the_cpu_gets_a_copy():
    t = as_tensor(np.arange(4), layout="W").gpu()
    capsule = t.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert Head(capsule)._managed.flags == 2
    assert np.from_dlpack(Given(capsule, (1, 0))).tolist() == [0, 1, 2, 3]
    assert np.from_dlpack(t, device="cpu").tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="without a copy"):
        t.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="another"):
        t.__dlpack__(dl_device=(2, 7))
    assert t.__dlpack__(dl_device=(2, 0)) is not None


@gpu
def test_a_batch_is_exported_whole():
    whole, ragged = as_batch(np.arange(6).reshape(2, 3)).gpu(), as_batch([[1, 2], [3, 4]]).gpu()
    assert cupy().from_dlpack(whole).get().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert cupy().from_dlpack(ragged).get().tolist() == [[1, 2], [3, 4]]
    assert cupy().from_dlpack(whole).data.ptr == whole.whole.data.ptr
    with pytest.raises(BufferError, match="without a copy"):
        as_batch([as_tensor([1]), as_tensor([2])]).gpu()[[1, 0]].__dlpack__(copy=False)
    with pytest.raises(ValueError, match="pad=True"):
        as_batch([[1], [2, 3]]).gpu().__dlpack__()
    assert np.from_dlpack(as_batch([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    assert ragged.__dlpack_device__() == (2, 0)
    assert as_batch([[1]]).__dlpack_device__() == (1, 0)
    assert as_batch([[1], [2, 3]]).gpu().cupy(pad=True).get().tolist() == [[1, 0], [2, 3]]


@gpu
def test_read_only_memory_of_a_gpu_is_copied():
    there = cupy().asarray(np.arange(3))
    capsule = there.__dlpack__(stream=-1, max_version=(1, 0))
    Head(capsule)._managed.flags |= 1
    t = as_tensor(Given(capsule))
    assert t.tolist() == [0, 1, 2]
    assert t.array.data.ptr != there.data.ptr


@gpu
@pytest.mark.parametrize(
    "element", [(4, 16, 1), (10, 8, 1), (12, 8, 1), (14, 8, 1), (5, 64, 1), (0, 8, 4), (2, 128, 1)]
)
def test_element_types_without_a_place_here_are_refused_by_name(element):
    there = cupy().asarray(np.arange(3, dtype=np.uint8))
    capsule = there.__dlpack__(stream=-1, max_version=(1, 0))
    tensor = Head(capsule).tensor
    tensor.code, tensor.bits, tensor.lanes = element
    with pytest.raises(ArgumentError, match=name_of(*element)):
        as_tensor(Given(capsule))


def test_element_types_have_names():
    assert [name_of(*e) for e in ((4, 16, 1), (10, 8, 1), (12, 8, 1), (0, 4, 2), (99, 8, 1))] == [
        "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4 x 2", "type 99 of 8"]  # fmt: skip


@gpu
def test_a_producer_is_asked_for_the_newest_version_on_our_stream():
    there = cupy().asarray(np.arange(3))
    one = cupy().cuda.Stream(non_blocking=True)
    producer = Given(there.__dlpack__(stream=-1, max_version=(1, 0)))
    with one:
        as_tensor(producer)
    assert producer.asked == {"stream": one.ptr, "max_version": (1, 0)}


def test_a_producer_on_the_cpu_is_given_no_stream():
    asked = []

    class Producer:
        def __dlpack__(self, **keywords):
            asked.append(keywords)
            return np.arange(3).__dlpack__(max_version=(1, 0))

        def __dlpack_device__(self):
            return 1, 0

    assert as_tensor(Producer()).tolist() == as_batch([Producer()])[0].tolist() == [0, 1, 2]
    assert all(keywords.get("stream") is None for keywords in asked)


def test_read_only_arrays_of_the_cpu():
    frozen = [read_only(np.arange(n)) for n in (3, 2)]
    for b in (as_batch(frozen), as_batch([as_tensor(a) for a in frozen])):
        assert all(np.shares_memory(mine, theirs) for mine, theirs in zip(b.samples, frozen, strict=True))
        assert not any(mine.flags.writeable for mine in b.samples)
        assert not np.from_dlpack(b[0]).flags.writeable
        with pytest.raises(BufferError):
            b[0].__dlpack__()


@gpu
def test_read_only_arrays_of_the_cpu_move():
    frozen = [read_only(np.arange(n)) for n in (3, 2)]
    assert as_batch(frozen).gpu().tolist() == [[0, 1, 2], [0, 1]]


@gpu
def test_torch_gets_memory_without_a_copy():
    with twin.with_torch() as torch:
        for data in (as_tensor(np.arange(4)).gpu(), as_batch(np.arange(4).reshape(2, 2)).gpu()):
            shared = data.torch()
            array = data.array if isinstance(data, ndd.Tensor) else data.whole
            assert shared.data_ptr() == array.data.ptr
            assert shared.cpu().tolist() == data.tolist()
            copied = data.torch(copy=True)
            assert copied.data_ptr() != array.data.ptr
            assert copied.cpu().tolist() == data.tolist()
        assert torch.from_dlpack(as_tensor(np.arange(3)).gpu()[::-1]).cpu().tolist() == [2, 1, 0]
        assert as_batch([[1], [2, 3]]).gpu().torch(pad=True).cpu().tolist() == [[1, 0], [2, 3]]
        with pytest.raises(BufferError):
            as_batch([[1], [2]]).gpu()[[0, 1]].torch(copy=False)


@pytest.fixture
def jax(monkeypatch):
    """As much of JAX as takes data from a GPU, on a stream of its own; what it makes are arrays of cupy."""

    def from_dlpack(producer):
        assert producer.__dlpack_device__() == (2, 0)
        capsule = producer.__dlpack__(stream=module.stream.ptr)
        tensor = Head(capsule).tensor
        steps = zip(extents(tensor), strides(tensor), packed(tensor), strict=True)
        assert all(n < 2 or a == b for n, a, b in steps), "JAX takes no gaps"
        return cupy().from_dlpack(Given(capsule))

    module = types.ModuleType("jax")
    module.stream = cupy().cuda.Stream(non_blocking=True)
    module.config = types.SimpleNamespace(jax_enable_x64=False)
    module.dlpack = types.SimpleNamespace(from_dlpack=from_dlpack)
    monkeypatch.setitem(sys.modules, "jax", module)
    return module


@gpu
@pytest.mark.parametrize("kind", ["tensor", "whole", "ragged"])
def test_jax_waits_for_the_stream_that_made_the_data(jax, kind):
    """Torch's, which only our own capsules know of."""
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    make = {"tensor": as_tensor, "whole": as_batch, "ragged": lambda a: as_batch(list(a))}[kind]
    with twin.with_torch() as torch, torch.cuda.stream(torch.cuda.Stream()):
        data = make(a).gpu()
        found = data.jax()
        with jax.stream:
            assert found.get().tolist() == a.tolist()
    if kind != "ragged":
        assert found.data.ptr == (data.array if kind == "tensor" else data.whole).data.ptr


@gpu
def test_jax_gets_no_strides_that_it_refuses(jax):
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    for part in (np.s_[::-1], np.s_[:, ::2], np.s_[1:2, 1:3]):
        t = as_tensor(a).gpu()[part]
        assert t.jax().get().tolist() == a[part].tolist()
    assert as_batch(a).gpu().slice[::-1].jax().get().tolist() == a[:, ::-1].tolist()


@gpu
def test_jax_halves_nothing_silently(jax):
    for data in (as_tensor(np.arange(2)).gpu(), as_batch(np.zeros((2, 2))).gpu()):
        with pytest.raises(ArgumentError, match="of at most 32 bits; got (int|float)64"):
            data.jax()
    jax.config.jax_enable_x64 = True
    assert as_tensor(np.arange(2)).gpu().jax().get().tolist() == [0, 1]


@gpu
def test_interfaces():
    t = as_tensor(np.arange(6, dtype=np.uint8).reshape(2, 3)).gpu()
    assert cupy().asarray(t).data.ptr == t.array.data.ptr
    interface = t[:, 1].__cuda_array_interface__
    assert (interface["typestr"], interface["strides"]) == ("|u1", (3,))

    class Other:
        __cuda_array_interface__ = interface
        keep = t

    assert as_tensor(Other()).tolist() == [1, 4]
    assert not hasattr(as_tensor([1]), "__cuda_array_interface__")
    for on_cpu in (as_tensor([1]), as_batch([[1]])):
        with pytest.raises(TypeError, match="gpu"):
            on_cpu.cupy()


def test_the_exchange_table_of_torch_describes_its_tensors():
    """On the CPU, where torch can be without a GPU: the same functions describe tensors of a GPU."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no exchange table")
    from dynamic.data import _bulk

    shapes = [(2, 3, 4), (1, 5, 2), (0, 3, 1)]
    items = [torch.arange(np.prod(s), dtype=torch.int16).reshape(s).transpose(0, 1) for s in shapes]
    for table in (_bulk._exchanged("test", items), _bulk._by_attributes("test", items)):
        assert table.dtype == np.int16
        assert table.pointers.tolist() == [item.data_ptr() for item in items]
        assert table.shapes.tolist() == [list(item.shape) for item in items]
        assert table.strides.tolist() == [[2 * step for step in item.stride()] for item in items]
    assert _bulk._exchanged("test", [torch.tensor(1.0)] * 2).shapes.shape == (2, 0)
    for odd, word in ((torch.zeros(2, 2, 2), "dtype"), (torch.zeros(1, dtype=torch.int16), "dimensions")):
        with pytest.raises(ArgumentError, match=rf"tensors\[2\]' must be like tensors\[0\].*{word}"):
            _bulk._exchanged("test", [*items[:2], odd])
    halves = [torch.zeros(2, dtype=torch.bfloat16)] * 2
    for describe in (_bulk._exchanged, _bulk._by_attributes):
        with pytest.raises(ArgumentError, match="bfloat16"):
            describe("test", halves)
    assert _bulk._exchanged("test", [np.zeros(2)]) is None
