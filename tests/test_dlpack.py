"""DLPack: whatever is shared stays alive and equal, nothing is garbled, and what was read-only stays it."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from strategies import arrays, examples

import dynamic
from dynamic.errors import ArgumentError

NUMBERS = [np.dtype(t) for t in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]
OTHERS = [np.dtype(t) for t in ("c8", "c16", "S3", "U2", "M8[s]", "m8[s]", "V4", "i4,f4", "O", "g")]

ORDERS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "every second": lambda a: a[::2, 1::2],
    "backwards": lambda a: a[::-1, ::-1],
    "one axis backwards": lambda a: a[:, ::-1],
    "transposed": lambda a: a.T,
    "broadcast": lambda a: np.broadcast_to(a[:1], (3, *a.shape[1:])),
    "no dimensions": lambda a: a[0, 0, ...],
    "empty": lambda a: a[:0],
    "empty in the last": lambda a: a[:, :0],
    "one row": lambda a: a[1:2],
    "not aligned": lambda a: _unaligned(a),
    "a field of records": lambda a: _field(a, "u1"),
    "an aligned field of records": lambda a: _field(a, a.dtype),
    "read-only": lambda a: _frozen(a.copy()),
}


def _unaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    odd = memory[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    return odd


def _field(array, before):
    """The second field of records: strides of whole elements only if the first field is as large."""
    records = np.zeros(array.shape, [("before", before), ("own", array.dtype)])
    records["own"] = array
    return records["own"]


def _frozen(array):
    array.flags.writeable = False
    return array


def numbers(dtype):
    bits = np.random.default_rng(5).integers(0, 256, (4, 6, dtype.itemsize), np.uint8)
    if dtype.kind == "b":
        bits &= 1
    return bits.view(dtype)[..., 0]  # NaNs and infinities too


def same(a, b):
    """Equal bit for bit, whatever the byte orders."""
    a, b = np.asarray(a), np.asarray(b)
    native = a.dtype.newbyteorder("=")
    return (a.shape, native) == (b.shape, b.dtype.newbyteorder("=")) and (
        a.astype(native).tobytes() == b.astype(native).tobytes()
    )


class OnlyDLPack:
    """An array that offers nothing but DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_go_round(dtype, swapped, order):
    array = ORDERS[order](numbers(dtype).astype(dtype.newbyteorder("S")) if swapped else numbers(dtype))
    tensor = dynamic.as_tensor(array)
    assert same(tensor.array, array)
    assert tensor.array.dtype.isnative
    if tensor.array.flags.writeable:
        assert array.flags.writeable or not np.shares_memory(tensor.array, array)
    for back in (np.asarray(tensor), np.from_dlpack(tensor), tensor.numpy()):
        assert same(back, array)
        assert back.flags.writeable <= tensor.array.flags.writeable
    assert same(dynamic.as_tensor(OnlyDLPack(tensor)).array, array)
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    if array.dtype.isnative and whole:
        assert same(dynamic.as_tensor(OnlyDLPack(array)).array, array)
    else:
        with pytest.raises(ArgumentError, match=r"DLPack only supports (native byte order|strides)"):
            dynamic.as_tensor(OnlyDLPack(array))
    if array.ndim:
        batch = dynamic.as_batch(array)
        assert all(same(sample.array, row) for sample, row in zip(batch, array, strict=True))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_go_round_through_torch(dtype, order):
    torch = pytest.importorskip("torch")
    array = ORDERS[order](numbers(dtype))
    tensor = dynamic.as_tensor(array)
    for copy in (None, True):
        assert same(tensor.torch(copy=copy).numpy(), array)
    try:
        shared = tensor.torch(copy=False)
    except BufferError:
        whole = all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
        assert not (array.flags.writeable and whole)
    else:
        assert same(shared.numpy(), array)
    if array.flags.writeable:  # torch knows no other memory
        taken = torch.from_dlpack(tensor)
        assert same(taken.numpy(), array)
        assert same(dynamic.as_tensor(taken).array, array)
        assert same(dynamic.as_tensor(OnlyDLPack(tensor)).array, array)


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_other_types_are_refused(dtype):
    for array in (np.zeros(3, dtype), np.zeros((), dtype)):
        for made in (array, OnlyDLPack(array)):
            with pytest.raises((ArgumentError, RuntimeError)):
                dynamic.as_tensor(made)


@pytest.mark.parametrize(("arguments", "copied"), [({}, False), ({"copy": None}, False), ({"copy": True}, True),
                         ({"copy": False}, False), ({"max_version": (1, 0)}, False), ({"max_version": (9, 9)}, False),
                         ({"dl_device": (1, 0)}, False), ({"stream": None}, False)])  # fmt: skip
def test_arguments_of_an_export(arguments, copied):
    tensor = dynamic.as_tensor(np.arange(6))

    class Asking(OnlyDLPack):
        def __dlpack__(self, **_):
            return tensor.__dlpack__(**arguments)

    back = np.from_dlpack(Asking(tensor.array))
    assert back.tolist() == list(range(6))
    assert np.shares_memory(back, tensor.array) != copied


@pytest.mark.parametrize("arguments", [{"dl_device": (2, 0)}, {"stream": 1}])
def test_exports_that_are_not_possible_are_refused(arguments):
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        dynamic.as_tensor(np.arange(6)).__dlpack__(**arguments)


def test_memory_that_is_used_again_is_kept_by_a_capsule():
    batch = dynamic.as_batch(np.zeros((4, 200, 200, 3), np.uint8), layout="HWC") + 7
    capsule = dynamic.as_tensor(batch).__dlpack__()
    del batch
    others = [dynamic.as_batch(np.zeros((4, 200, 200, 3), np.uint8), layout="HWC") + 9 for _ in range(3)]

    class Kept(OnlyDLPack):
        def __dlpack__(self, **_):
            return capsule

    assert (np.from_dlpack(Kept(np.zeros(1, np.uint8))) == 7).all()
    assert all((sample.array == 9).all() for other in others for sample in other)


# Lifetimes


class Owner(np.ndarray):
    """Memory of which it can be told whether it is alive."""


class Held:
    """A thing that shares memory, and what it must hold."""

    def __init__(self, thing, values, owner, writeable):
        self.thing, self.values, self.owner, self.writeable = thing, values, owner, writeable

    def array(self):
        thing = self.thing
        if isinstance(thing, (dynamic.Batch, dynamic.Tensor)):
            return np.asarray(dynamic.as_tensor(thing).array)
        return thing


some = st.integers(0, 99)  # which of those there are: Hypothesis would keep what it has drawn alive
KINDS = ("as_tensor", "as_batch", "numpy", "dlpack", "capsule", "memoryview")


class Sharing(RuleBasedStateMachine):
    """Arrays, views, Tensors, Batches and capsules over one memory, made of each other and dropped in any order."""

    def __init__(self):
        super().__init__()
        self.held, self.owners = [], {}
        self.numbers = iter(range(1000))

    @rule(read_only=st.booleans(), rows=st.integers(2, 5))
    def new(self, read_only, rows):
        values = np.arange(rows * 3) + next(self.numbers)
        memory = values.reshape(rows, 3).view(Owner).copy()
        number = len(self.owners)
        self.owners[number] = weakref.ref(memory)
        array = np.frombuffer(memory, memory.dtype).reshape(rows, 3)
        if read_only:
            array.flags.writeable = False
        self.held.append(Held(array, array.tolist(), number, array.flags.writeable))

    @precondition(lambda self: self.held)
    @rule(which=some, kind=st.sampled_from(KINDS))
    def share(self, which, kind):
        source = self.held[which % len(self.held)]
        thing = source.thing
        if kind == "as_tensor":
            made = dynamic.as_tensor(thing)
        elif kind == "as_batch":
            made = dynamic.as_batch(thing if len(source.values) else dynamic.as_tensor(thing))
        elif kind == "numpy":
            made = np.asarray(source.array())
        elif kind == "dlpack":
            made = np.from_dlpack(dynamic.as_tensor(thing))
        elif kind == "capsule":
            made = dynamic.as_tensor(_Capsule(dynamic.as_tensor(thing)))
        else:
            made = np.asarray(memoryview(source.array()))
        self.held.append(Held(made, source.values, source.owner, source.writeable))

    @precondition(lambda self: self.held)
    @rule(which=some, start=some)
    def cut(self, which, start):
        source = self.held[which % len(self.held)]
        start %= len(source.values)
        if isinstance(source.thing, dynamic.Batch):
            part, values = source.thing[start], source.values[start : start + 1]
            part = dynamic.as_tensor(part.array[None])
        else:
            part, values = source.thing[start:], source.values[start:]
        self.held.append(Held(part, values, source.owner, source.writeable))

    @precondition(lambda self: self.held)
    @rule(which=some)
    def copy(self, which):
        source = self.held[which % len(self.held)]
        copied = dynamic.tensor(source.thing)
        assert not np.shares_memory(copied.array, source.array())
        assert copied.tolist() == source.values

    @precondition(lambda self: self.held)
    @rule(which=some, elsewhere=st.booleans())
    def drop(self, which, elsewhere):
        dropped = [self.held.pop(which % len(self.held))]
        if elsewhere:
            thread = threading.Thread(target=dropped.clear)
            thread.start()
            thread.join()

    @invariant()
    def all_is_as_it_was(self):
        for held in self.held:
            array = held.array()
            assert array.tolist() == held.values
            assert array.flags.writeable <= held.writeable
        array = held = None
        alive = {each.owner for each in self.held}
        assert {number for number, owner in self.owners.items() if owner() is not None} == alive


class _Capsule(OnlyDLPack):
    def __init__(self, tensor):
        super().__init__(tensor.array)
        self._capsule = tensor.__dlpack__(max_version=(1, 0))

    def __dlpack__(self, **_):
        return self._capsule


TestSharing = Sharing.TestCase
TestSharing.settings = settings(examples(0.75), stateful_step_count=25)


@given(arrays(), st.booleans())
def test_capsules_are_taken_once(array, versioned):
    """As `torch.utils.dlpack.to_dlpack` gives them, and DALI's tensors take them."""

    array = array.astype(array.dtype.newbyteorder("="))

    def capsule():
        return array.copy().__dlpack__(max_version=(1, 0)) if versioned else array.copy().__dlpack__()

    assert np.array_equal(dynamic.as_tensor(capsule()), array, equal_nan=array.dtype.kind == "f")
    assert [np.shape(sample) for sample in dynamic.as_batch([capsule(), capsule()])] == [array.shape] * 2
    if array.ndim:
        assert len(dynamic.as_batch(capsule())) == len(array)
    used = capsule()
    dynamic.as_tensor(used)
    with pytest.raises(ArgumentError, match="'data' must be data that DLPack can share"):
        dynamic.as_tensor(used)
