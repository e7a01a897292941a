"""The stand-in for cupy beside the real one, where that is installed, with or without a GPU."""

from __future__ import annotations

import importlib
import inspect
import types

import numpy as np
import pytest
from strategies import ALL_DTYPES

from dynamic._arrays.described import Described, Views, described
from dynamic._arrays.dlpack import Head

cupy = pytest.importorskip("cupy", reason="cupy is not installed: the stand-in for it is not compared with it")
stand_in = importlib.import_module("twin.cupy")


def public(thing):
    return {
        name for name in vars(thing) if not name.startswith("_") and not isinstance(vars(thing)[name], types.ModuleType)
    }


#: Names of Python's and of NumPy's that the module needs itself.
OWN = {"annotations", "Any", "math", "operator", "types", "numpy", "builtins"}


def test_the_real_one_has_every_name():
    for name in public(stand_in) - OWN:
        assert hasattr(cupy, name), name
    for kind in (stand_in.ndarray, stand_in.cuda.Event, stand_in.cuda.MemoryPointer):
        real = getattr(cupy, kind.__name__, None) or getattr(cupy.cuda, kind.__name__)
        for name in vars(kind):
            assert hasattr(real, name) or name in {"__dict__", "__weakref__", "__annotations__", "__index__"} or (
                name.startswith("_") and not name.startswith("__")), f"{kind.__name__}.{name}"  # fmt: skip
    for name in vars(stand_in.cuda):
        assert hasattr(cupy.cuda, name), name
    for name in vars(stand_in.cuda.runtime):
        assert hasattr(cupy.cuda.runtime, name), name
    for name in ("use", "record", "wait_event", "synchronize", "done", "ptr", "device_id", "from_external"):
        assert hasattr(cupy.cuda.Stream(null=True), name), name


@pytest.mark.parametrize("name", ["asarray", "array", "empty", "zeros", "broadcast_to", "clip", "stack", "concatenate"])
def test_arguments_are_the_real_ones(name):
    real, mine = (inspect.signature(getattr(module, name)) for module in (cupy, stand_in))
    names = [p.name for p in mine.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    assert [n for n in names if n not in real.parameters] == []


def test_functions_take_the_types_that_the_library_gives_them():
    """For each type that arrays here can have, what NumPy has a loop for CuPy has one for, or for a wider one."""
    letters = {dtype.char for dtype in ALL_DTYPES} | {"l", "L"}
    wider = {"l": "q", "L": "Q"}
    missing = []
    for name in stand_in._UFUNCS:
        mine, real = getattr(np, name), getattr(cupy, name)
        if not hasattr(real, "types"):
            continue
        inputs = {loop.partition("->")[0] for loop in real.types if set(loop) <= {*np.typecodes["All"], *"->"}}
        for loop in mine.types:
            letter = loop[0]
            first = loop.partition("->")[0]
            if set(first) <= letters and first not in inputs and wider.get(letter, letter) * len(first) not in inputs:
                larger = [
                    i
                    for i in inputs
                    if len(i) == len(first) and all(np.can_cast(a, b) for a, b in zip(first, i, strict=True))
                ]
                missing += [(name, loop)] * (not larger)
    assert missing == []


def real_view(host):
    """A real cupy array over host memory, which needs no driver for what it says of itself."""
    memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 0)
    return cupy.ndarray(host.shape, host.dtype, cupy.cuda.MemoryPointer(memory, 0), host.strides)


def test_real_arrays_are_described():
    hosts = [np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1), np.zeros((0, 2, 2), np.int16)]
    mine, theirs = described(hosts), described([real_view(host) for host in hosts])
    for name in ("pointers", "shapes", "strides"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    whole, real = described(hosts[0]), described(real_view(hosts[0]))
    assert np.array_equal(whole.pointers, real.pointers)
    assert np.array_equal(whole.strides, real.strides)


def test_views_are_made_of_real_arrays():
    host = np.arange(24, dtype=np.int16).reshape(4, 6)
    table = described([host[0:2], host[1:4, ::2]])
    views = Views(table, 0, host)
    made = [views[0], views[1]]
    for array, part in zip(made, (host[0:2], host[1:4, ::2]), strict=True):
        assert isinstance(array, cupy.ndarray)
        assert (array.shape, array.strides, array.data.ptr) == (part.shape, part.strides, part.ctypes.data)
        assert (array.device.id, array.dtype) == (0, np.int16)
    assert views[0] is made[0]
    empty = Views(
        Described(np.zeros(1, np.uint64), np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64), host.dtype), 0, host
    )
    assert empty[0].shape == (0, 0)


def test_weak_references_and_bases_are_as_the_library_expects():
    import weakref

    array = real_view(np.arange(6).reshape(2, 3))
    assert weakref.ref(array)() is array
    assert array.base is None
    assert array[1:].base is array
    assert array[1:][0].base is array


def test_capsules_of_numpy_are_read():
    head = Head(np.arange(3, dtype=np.float32).__dlpack__(max_version=(1, 0)))
    assert head.element == (2, 32, 1)
