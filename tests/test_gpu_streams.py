"""Work on several streams: nobody reads what is not there yet, and no memory is used again while it is read."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import twin

import dynamic as ndd
from dynamic import ArgumentError, as_batch, as_tensor

pytestmark = pytest.mark.gpu


def cupy():
    import cupy

    return cupy


def stream():
    return cupy().cuda.Stream(non_blocking=True)


@pytest.fixture
def torch():
    with twin.with_torch() as module:
        yield module


def busy(*streams):
    """Give a stream work for a while, so that what comes after it is late."""
    if twin.has_gpu():
        for one in streams:
            with one:
                a = cupy().ones((2048, 2048), np.float32)
                for _ in range(20):
                    a = a @ a * 1e-4


only_stand_in = pytest.mark.skipif(twin.has_gpu(), reason="looks into the queues of the stand-in for a GPU")


@only_stand_in
def test_the_stand_in_shows_what_lacks_an_event():
    """A reader on another stream that does not wait sees memory that nobody has written."""
    one, two = stream(), stream()
    with one:
        a = cupy().asarray(np.arange(4, dtype=np.uint8))
    with two:
        assert a.get().tolist() == [0xCD] * 4
        two.wait_event(one.record())
        assert a.get().tolist() == [0, 1, 2, 3]


MAKE = {
    "tensor": lambda: as_tensor(np.arange(1000, dtype=np.int32)).gpu(),
    "ragged": lambda: as_batch([np.arange(1000, dtype=np.int32)[:n] for n in (1000, 7, 500)]).gpu(),
    "whole": lambda: as_batch(np.arange(1000, dtype=np.int32).reshape(10, 100)).gpu(),
    "list": lambda: as_batch([as_tensor(np.arange(1000, dtype=np.int32)[:n], device="gpu") for n in (1000, 7, 500)]),
}
USE = {
    "tolist": lambda x: x.tolist(),
    "add": lambda x: (x + 1).tolist(),
    "cpu": lambda x: x.cpu().tolist(),
    "first": lambda x: x[0].tolist(),
    "repr": repr,
    "part": lambda x: x[1:].tolist(),
    "some": lambda x: x[[1, 0]].tolist(),
    "cast": lambda x: ndd.cast(x, dtype="f32").tolist(),
    "copy": lambda x: x.to_device("gpu", force_copy=True).tolist(),
    "compare": lambda x: (x == 3).tolist(),
    "iterate": lambda x: list(map(str, x[:2])),
    "dense": lambda x: (x if isinstance(x, ndd.Tensor) else as_tensor(x, pad=True)).tolist(),
}


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("use", USE)
def test_data_is_ready_wherever_it_is_used(make, use):
    make, use = MAKE[make], USE[use]
    expected = use(make())
    one, two = stream(), stream()
    busy(one)
    with one:
        data = make()
    with two:
        assert use(data) == expected
    assert use(data) == expected


@only_stand_in
def test_memory_is_not_used_again_while_another_stream_reads_it():
    one, two = stream(), stream()
    with one:
        t = as_tensor(np.arange(1000, dtype=np.int32)).gpu()
    with two:
        result = cupy().empty(1000, np.int32)
        source = t.array
        target = result.data
        target.copy_from_device_async(source.data, source.nbytes, two)
        del source, t
    gc.collect()
    one.synchronize()  # where the freed memory is spoiled, in the order of this stream
    two.synchronize()
    assert result._view().tolist() == list(range(1000))


@only_stand_in
def test_views_of_a_batch_keep_the_order_of_its_streams():
    one, two, three = stream(), stream(), stream()
    with one:
        b = as_batch([np.arange(n, dtype=np.int32) for n in (3, 4)]).gpu()
    with two:
        t = b[1]
    with three:
        result = cupy().empty(4, np.int32)
        source = t.array
        result.data.copy_from_device_async(source.data, source.nbytes, three)
    del b, t, source
    gc.collect()
    one.synchronize()
    three.synchronize()
    assert result._view().tolist() == [0, 1, 2, 3]


def test_a_staging_buffer_is_not_filled_before_its_copy_is_over():
    rng = np.random.default_rng(1)
    hosts = [[rng.integers(0, 255, n, np.uint8) for n in (100, 3000, 7)] for _ in range(12)]
    one = stream()
    busy(one)
    with one:
        batches = [as_batch(host).gpu() for host in hosts]
    for b, host in zip(batches, hosts, strict=True):
        assert b.tolist() == [h.tolist() for h in host]


def test_batches_larger_than_a_staging_buffer_go_in_parts(monkeypatch):
    monkeypatch.setattr("dynamic.data._transfer._LARGEST", 5000)
    hosts = [np.arange(n, dtype=np.int32) for n in (1000, 3, 900, 0, 2000, 5)]
    there = as_batch(hosts).gpu()
    assert [s.tolist() for s in there.cpu().samples] == [h.tolist() for h in hosts]


def test_threads_have_streams_of_their_own():
    wrong: list[object] = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with cupy().cuda.Device(0), stream():
            for _ in range(10):
                hosts = [rng.integers(0, 255, n, np.uint8) for n in rng.integers(0, 2000, 5)]
                there = as_batch(hosts).gpu()
                if [s.tolist() for s in (there + 1).cpu().samples] != [(h.astype(int) + 1).tolist() for h in hosts]:
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# torch


def test_work_runs_on_torchs_stream(torch):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        items = [torch.as_tensor(np.arange(n, dtype=np.int32), device="cuda:0") * 2 for n in (5, 3)]
        b = as_batch(items) + 1
        assert b._ready.latest.ptr == side.cuda_stream
        out = b[0].torch()
        assert (out * 2).tolist() == [2, 6, 10, 14, 18]
    assert b.tolist() == [[1, 3, 5, 7, 9], [1, 3, 5]]
    assert cupy().cuda.get_current_stream().ptr == 0  # CuPy's own choice is left alone


def test_a_stream_of_cupy_that_was_chosen_comes_before_torchs(torch):
    side, chosen = torch.cuda.Stream(), stream()
    with torch.cuda.stream(side), chosen:
        item = torch.as_tensor(np.arange(5, dtype=np.int32), device="cuda:0") * 2
        b = as_batch([item, item])
        assert b._ready.latest.ptr == chosen.ptr
        assert (b + 1).tolist() == [[1, 3, 5, 7, 9]] * 2
        assert as_tensor(item).tolist() == [0, 2, 4, 6, 8]


@only_stand_in
def test_memory_of_torch_is_not_used_again_while_we_read_it(torch):
    side, chosen = torch.cuda.Stream(), stream()
    with torch.cuda.stream(side):
        items = [torch.as_tensor(np.arange(4, dtype=np.int32), device="cuda:0")]
    with torch.cuda.stream(side), chosen:
        b = as_batch(items)
        source = b.samples[0]
        result = cupy().empty(4, np.int32)
        result.data.copy_from_device_async(source.data, source.nbytes, chosen)
    del items, b, source
    gc.collect()
    side.synchronize()
    chosen.synchronize()
    assert result._view().tolist() == [0, 1, 2, 3]


# DLPack: the consumer's stream


@pytest.mark.parametrize("which", [None, 1, 2, "handle", -1])
def test_a_consumers_stream_waits_for_the_data(which):
    one, two = stream(), stream()
    busy(one)
    with one:
        t = as_tensor(np.arange(1000, dtype=np.int32)).gpu()
        capsule = t.__dlpack__(stream=two.ptr if which == "handle" else which, max_version=(1, 0))

    class Given:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return t.__dlpack_device__()

    null, own = cupy().cuda.Stream.null, cupy().cuda.Stream.ptds
    consumer = {None: null, 1: null, 2: own, "handle": two, -1: two}
    with consumer[which]:
        if which == -1:
            one.synchronize()
        assert cupy().from_dlpack(Given()).get().tolist() == list(range(1000))


@pytest.mark.parametrize("wrong", [0, -2, True, "1", 1.5])
def test_a_stream_that_is_none_is_refused(wrong):
    t = as_tensor([1, 2]).gpu()
    with pytest.raises(ArgumentError, match=r"__dlpack__\(\): argument 'stream'"):
        t.__dlpack__(stream=wrong)
    with pytest.raises(ArgumentError, match=r"__dlpack__\(\): argument 'stream'"):
        as_batch([t, t]).__dlpack__(stream=wrong)


def test_interfaces_name_the_stream():
    one = stream()
    with one:
        t = as_tensor([1, 2]).gpu()
    two = stream()
    with two:
        interface = t.__cuda_array_interface__
        assert (interface["stream"], interface["shape"], interface["version"]) == (two.ptr, (2,), 3)
        assert cupy().asarray(t).get().tolist() == [1, 2]


# Several GPUs


@pytest.fixture
def second():
    if ndd.devices.gpu_count() < 2:
        pytest.skip("one GPU")
    return "gpu:1"


def test_data_moves_between_gpus(second):
    for data in (as_tensor(np.arange(12).reshape(3, 4)), as_batch([[1, 2, 3], [4]]), as_batch(np.eye(3)), as_tensor(2)):
        there = data.gpu().to_device(second)
        assert there.device == second
        assert there.tolist() == data.tolist()
        assert there.gpu() is there
        assert there.gpu(0).tolist() == (there * 1).gpu(0).tolist() == (there * 1).tolist() == data.tolist()
        assert (there + there).device == second
    with pytest.raises(ndd.DeviceError, match="gpu:0 and gpu:1"):
        as_tensor([1, 2]).gpu() + as_tensor([1, 2], device=second)
    with pytest.raises(ndd.DeviceError, match="gpu:0 and gpu:1"):
        as_batch([[1], [2, 3]], device="gpu") + as_batch([[1], [2, 3]], device=second)
    assert (as_tensor([1, 2]).gpu() + as_tensor(1, device=second)).tolist() == [2, 3]
    assert cupy().cuda.Device().id == 0


@only_stand_in
def test_memory_is_not_used_again_before_another_gpu_has_read_it(second):
    there = as_tensor(np.arange(100, dtype=np.int32)).gpu().to_device(second)
    with cupy().cuda.Device(0):
        cupy().cuda.Stream.null.synchronize()
    assert there.tolist() == list(range(100))


def test_lists_of_a_second_gpu(second, torch):
    items = [torch.as_tensor(np.arange(n), device="cuda:1") for n in (2, 3)]
    b = as_batch(items)
    assert b.device == second
    assert b.tolist() == [[0, 1], [0, 1, 2]]
    assert as_tensor(b, pad=True).tolist() == [[0, 1, 0], [0, 1, 2]]


def test_a_new_stream_can_be_the_current_one():
    made = ndd.stream()
    assert made.handle == made._owner.ptr
    before = ndd.get_current_stream()
    try:
        ndd.set_current_stream(made)
        assert ndd.get_current_stream().handle == made.handle
        made.synchronize()
    finally:
        ndd.set_current_stream(before)
    assert ndd.stream(made) is made
    assert ndd.stream(made.handle).handle == made.handle
