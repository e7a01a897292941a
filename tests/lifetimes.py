"""Producers of DLPack whose memory is poisoned once it is given back, and what may happen to what they produce."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import importlib.util
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from goals import goal

import dynamic
from dynamic.errors import ArgumentError, DeviceError

ROOT = Path(__file__).resolve().parent.parent
CPU, CUDA = 1, 2
READ_ONLY = 1  # a flag
SKIPPED = 77  # the exit status of a situation that this machine does not have

_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_c = ctypes.CDLL(None)
_c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]  # fmt: skip


_alive = []  # what C refers to must outlive everything, also the end of Python, which clears modules in any order
_python.Py_IncRef(ctypes.py_object(_alive))
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Producer:
    """Six bytes 0 to 5 of shape (2, 3), or what is said otherwise, in pages that nobody may touch once they are back.

    Attributes:
        deleted: How often the deleter was called.
    """

    def __init__(self, versioned=True, read_only=False, says=(CPU, 0), name=None, **changes):
        self.versioned, self.says, self.name, self.deleted, self.capsules = versioned, says, name, 0, []
        self.pages = mmap.mmap(-1, mmap.PAGESIZE)
        self.pages[:6] = bytes(range(6))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.changes = {"data": self.address, "device_type": CPU, "device_id": 0, "ndim": 2, "code": 1, "bits": 8,
                        "lanes": 1, "shape": (2, 3), "strides": (3, 1), "byte_offset": 0} | changes  # fmt: skip
        self.flags = READ_ONLY if read_only else 0
        if read_only:
            self.protect(mmap.PROT_READ)
        _alive.append(self)

    def protect(self, mode, mprotect=_c.mprotect, size=mmap.PAGESIZE):
        assert mprotect(self.address, size, mode) == 0

    def _delete(self, _):
        self.deleted += 1
        self.protect(0)

    def capsule(self):
        managed = (ManagedVersioned if self.versioned else Managed)()
        for field, value in self.changes.items():
            if isinstance(value, tuple):
                numbers = (ctypes.c_int64 * max(len(value), 1))(*value)
                _alive.append(numbers)
                value = ctypes.addressof(numbers)
            setattr(managed.tensor, field, value)
        deleter = _Deleter(self._delete)
        managed.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
        if self.versioned:
            managed.major, managed.minor, managed.flags = 1, 0, self.flags
        name = self.name or (b"dltensor_versioned" if self.versioned else b"dltensor")
        pointer = ctypes.addressof(managed)

        def destroy(capsule, is_valid=_python.PyCapsule_IsValid):
            if is_valid(capsule, name):  # nobody took it
                deleter(pointer)

        destructor = _Destructor(destroy)
        _alive.extend([managed, deleter, destructor, name])
        made = _python.PyCapsule_New(pointer, name, ctypes.cast(destructor, ctypes.c_void_p))
        self.capsules.append(made)  # Python must not be called by its destructor while an error is on the way
        return made

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.capsule()

    def __dlpack_device__(self):
        return self.says


class OnlyStream(Producer):
    def __dlpack__(self, *, stream=None):
        return self.capsule()


class Nothing(Producer):
    def __dlpack__(self):
        return self.capsule()


class Raising(Producer):
    def __dlpack__(self, **_):
        raise ValueError("mine")


class RaisingDevice(Producer):
    def __dlpack_device__(self):
        raise ValueError("mine")


class Twice(Producer):
    @functools.cached_property
    def same(self):
        return self.capsule()

    def __dlpack__(self, **_):
        return self.same


class Returning(Producer):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def __dlpack__(self, **_):
        return self.value


VALUES = [[0, 1, 2], [3, 4, 5]]


def right(data, values=VALUES):
    assert data.tolist() == values, data.tolist()


def given_back(producer, times=1):
    producer.capsules.clear()
    gc.collect()
    assert producer.deleted == times, f"the deleter was called {producer.deleted} times, not {times}"


def shared(producer, values=VALUES, take=lambda tensor: tensor):
    """What is made of a producer's Tensor has these values, and gives it back when it is dropped, not earlier."""
    taken = take(dynamic.as_tensor(producer))
    gc.collect()
    right(taken, values)
    assert producer.deleted == 0
    del taken
    given_back(producer)


def refused(make, kind=(ArgumentError, DeviceError, RuntimeError)):
    """An error of a kind that we word, or NumPy's RuntimeError with a note of ours."""
    with pytest.raises(kind) as caught:
        make()
    assert caught.type is not RuntimeError or "(): this is about argument" in caught.value.__notes__[0]


class Skipped(Exception):
    """A situation that this machine does not have, and why."""


SITUATIONS = {}


def situation(function):
    SITUATIONS[function.__name__.replace("_", " ")] = function
    return function


@situation
def dropped():
    for versioned in (True, False):
        shared(Producer(versioned))


@situation
def dropped_in_another_thread():
    producer = Producer()
    held = [dynamic.as_tensor(producer)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    given_back(producer)


@situation
def dropped_with_a_cycle():
    producer = Producer()
    held = [dynamic.as_tensor(producer)]
    held.append(held)
    del held
    given_back(producer)


@situation
def a_view_outlives_it():
    producer = Producer()
    tensor = dynamic.as_tensor(producer)
    view = tensor[1:, ::2]
    del tensor
    gc.collect()
    right(view, [[3, 5]])
    assert producer.deleted == 0
    del view
    given_back(producer)


@situation
def a_copy_is_independent():
    producer = Producer()
    tensor = dynamic.tensor(producer)
    given_back(producer)
    right(tensor)


@situation
def another_dtype_is_independent():
    producer = Producer()
    tensor = dynamic.as_tensor(producer, dtype="float32")
    given_back(producer)
    right(tensor)


@situation
def a_batch_of_them():
    producers = [Producer() for _ in range(3)]
    batch = dynamic.as_batch(producers)
    sample = batch[1]
    del batch
    gc.collect()
    right(sample)
    assert [producer.deleted for producer in producers][1] == 0
    del sample
    for producer in producers:
        given_back(producer)


@situation
def a_batch_with_one_that_is_refused():
    producers = [Producer(), Producer(), Producer(lanes=2)]
    refused(lambda: dynamic.as_batch(producers))
    for producer in producers:
        assert producer.deleted <= 1
    given_back(producers[2])


@situation
def operators_take_it():
    producer = Producer(shape=(2, 1, 3), strides=(3, 3, 1), ndim=3)
    flipped = dynamic.flip(dynamic.as_tensor(producer, layout="HWC"), horizontal=1, vertical=1)
    given_back(producer)
    right(flipped, [[[3, 4, 5]], [[0, 1, 2]]])


@situation
def views_by_operators_keep_it():
    producer = Producer()
    reshaped = dynamic.reshape(dynamic.as_tensor(producer), shape=[6])
    gc.collect()
    right(reshaped, [0, 1, 2, 3, 4, 5])
    del reshaped
    given_back(producer)


@situation
def arithmetic_makes_new_memory():
    producer = Producer()
    more = dynamic.as_tensor(producer) + 1
    given_back(producer)
    right(more, [[1, 2, 3], [4, 5, 6]])


@situation
def handed_on_to_numpy():
    for take in (np.from_dlpack, np.asarray, lambda t: memoryview(t.numpy()), lambda t: t.numpy()):
        shared(Producer(), take=take)


@situation
def handed_on_in_a_capsule_that_nobody_takes():
    producer = Producer()
    capsule = dynamic.as_tensor(producer).__dlpack__()
    gc.collect()
    assert producer.deleted == 0
    del capsule
    given_back(producer)


@situation
def handed_on_to_torch():
    if importlib.util.find_spec("torch") is None:
        raise Skipped("torch is not installed")
    import torch

    for take in (torch.from_dlpack, lambda t: t.torch(copy=False)):
        shared(Producer(), take=take)


@situation
def never_taken():
    producer = Producer()
    capsule = producer.capsule()
    del capsule
    given_back(producer)


@situation
def taken_twice():
    producer = Twice()
    tensor = dynamic.as_tensor(producer)
    refused(lambda: dynamic.as_tensor(producer))
    right(tensor)
    del tensor
    given_back(producer)


@situation
def only_to_be_read():
    producer = Producer(read_only=True)
    tensor = dynamic.as_tensor(producer)
    assert not tensor.array.flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    right(tensor * 2, [[0, 2, 4], [6, 8, 10]])
    right(dynamic.flip(tensor[:, None], horizontal=0), [[[0, 1, 2]], [[3, 4, 5]]])
    right(dynamic.as_batch([tensor, tensor]), [VALUES, VALUES])
    del tensor
    given_back(producer)


@situation
def strides_that_are_null():
    shared(Producer(strides=None))


@situation
def an_offset():
    shared(Producer(byte_offset=2, shape=(2, 2), strides=(2, 1)), [[2, 3], [4, 5]])


@situation
def no_dimensions_and_no_elements():
    shared(Producer(ndim=0, shape=(), strides=()), 0)
    shared(Producer(shape=(0, 3)), [])
    shared(Producer(shape=(0, 3), data=0), [])


@situation
def negative_strides():
    producer = Producer(byte_offset=5, shape=(6,), strides=(-1,), ndim=1)
    tensor = dynamic.as_tensor(producer)
    right(np.from_dlpack(tensor), [5, 4, 3, 2, 1, 0])  # a copy
    right(tensor, [5, 4, 3, 2, 1, 0])
    del tensor
    given_back(producer)


WRONG = {"two lanes": {"lanes": 2}, "4 bits": {"bits": 4}, "no bits": {"bits": 0}, "an opaque type": {"code": 3},
         "bfloat16": {"code": 4, "bits": 16}, "complex numbers": {"code": 5, "bits": 64, "shape": (0, 3)},
         "an unknown type": {"code": 99}, "65 dimensions": {"ndim": 65, "shape": (1,) * 65, "strides": (0,) * 65},
         "a negative extent": {"shape": (-1, 3)}, "a size beyond 2**63": {"shape": (1 << 62, 3)},
         "a device that is none": {"device_type": 99}, "memory of a GPU": {"device_type": CUDA}}  # fmt: skip


def _wrong(changes):
    for versioned in (True, False):
        producer = Producer(versioned, **changes)
        refused(lambda producer=producer: dynamic.as_tensor(producer))
        given_back(producer)


for _name, _changes in WRONG.items():
    SITUATIONS[_name] = functools.partial(_wrong, _changes)


@situation
def says_that_it_is_on_a_gpu():
    if "cupy" in sys.modules:
        raise Skipped("CuPy would take it")
    producer = Producer(says=(CUDA, 0))
    refused(lambda: dynamic.as_tensor(producer), DeviceError)
    refused(lambda: dynamic.as_batch([producer]), DeviceError)
    given_back(producer, 0)


@situation
def says_what_is_no_device():
    for says in ((99, 0), (CPU,), None, "cpu", ("cpu", 0), 1):
        producer = Producer(says=says)
        refused(lambda producer=producer: dynamic.as_tensor(producer))
        given_back(producer, 0)


@situation
def a_wrong_name():
    producer = Producer(name=b"tensor")
    refused(lambda: dynamic.as_tensor(producer))
    given_back(producer)


@situation
def returns_no_capsule():
    for value in (None, "dltensor", 3, b"", object()):
        refused(lambda value=value: dynamic.as_tensor(Returning(value)))


@situation
def raises():
    for producer in (Raising(), RaisingDevice()):
        refused(lambda producer=producer: dynamic.as_tensor(producer), ValueError)
        given_back(producer, 0)


@situation
def knows_few_keywords():
    for kind in (OnlyStream, Nothing):
        shared(kind(versioned=False))


@situation
def a_version_to_come():
    class Later(Producer):
        def capsule(self):
            made = super().capsule()
            managed = next(thing for thing in reversed(_alive) if isinstance(thing, ManagedVersioned))
            managed.major = 9
            return made

    producer = Later()
    refused(lambda: dynamic.as_tensor(producer))
    given_back(producer)


@situation
def interrupted():
    class Interrupted(Producer):
        def __dlpack__(self, **_):
            self.capsule()
            raise KeyboardInterrupt

    for take in (dynamic.as_tensor, dynamic.tensor, lambda producer: dynamic.as_batch([producer])):
        producer = Interrupted()
        refused(lambda take=take, producer=producer: take(producer), KeyboardInterrupt)
        given_back(producer)


@situation
def an_error_after_it_was_taken():
    producer = Producer()
    refused(lambda: dynamic.as_tensor(producer, layout="HWC"))
    given_back(producer)


@situation
def from_a_source():
    made = []

    def source(info):
        made.append(Producer())
        return made[-1]

    source = dynamic.ExternalSource(source, batch=False)
    batch = source(2)
    right(batch, [VALUES, VALUES])
    del batch
    for producer in made:
        given_back(producer)


@situation
def alive_at_the_end_of_the_process():
    globals()["kept"] = [dynamic.as_tensor(Producer()), dynamic.as_batch([Producer()])]


@situation
def many_threads():
    producers = [Producer() for _ in range(64)]

    def work(k):
        for producer in producers[k::8]:
            tensor = dynamic.as_tensor(producer)
            right(tensor[0], [0, 1, 2])
            right(tensor + tensor, [[0, 2, 4], [6, 8, 10]])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for producer in producers:
        given_back(producer)


def outcomes(names):
    """How processes end that each go through one of these situations.

    Returns:
        What went wrong in each, "" where all was well; and why others were skipped.
    """
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    done = subprocess.run([sys.executable, __file__, json.dumps(names)], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    ended = json.loads(done.stdout.splitlines()[-1])
    skipped = {name: told for name, (code, told) in ended.items() if code == SKIPPED}
    found = {name: f"exit status {code}: {told}" if code or told else "" for name, (code, told) in ended.items()}
    return {name: outcome for name, outcome in found.items() if name not in skipped}, skipped


def _in_children(names):
    """The exit status of each and what it printed, from a process without threads; a crash of one is its outcome."""
    found = {}
    for name in names:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(writing, 2)
            faulthandler.enable()
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(30)
            try:
                SITUATIONS[name]()
            except Skipped as reason:
                os.write(2, str(reason).encode())
                os._exit(SKIPPED)
            sys.exit(0)
        os.close(writing)
        with open(reading) as pipe:
            told = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found[name] = code, told[-1500:]
    return found


@goal(
    "G18 DLPack", "memory that is poisoned when it is given back, in all situations: no crash, given back exactly once"
)
def lifetimes(sample):
    left_out = {"handed on to torch": "it takes its time, left out of a sample"} if sample else {}
    found, skipped = outcomes([name for name in SITUATIONS if name not in left_out])
    wrong = [name for name, outcome in found.items() if outcome]
    for name in wrong:
        print(name, found[name], file=sys.stderr)
    return (
        f"{len(found) - len(wrong)} of {len(found)} situations{': not ' if wrong else ''}{', '.join(wrong)}"
        + "".join(f"; skipped: {name} ({reason})" for name, reason in (left_out | skipped).items()),
        not wrong,
    )


if __name__ == "__main__":
    print(json.dumps(_in_children(json.loads(sys.argv[1]))))
