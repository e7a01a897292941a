"""What Tensors and Batches do, on the CPU and on a GPU: the same, by NumPy's and DALI's rules."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES, any_dtype, arrays

import dynamic as ndd
from dynamic import ArgumentError, Batch, DeviceError, Tensor, as_batch, as_tensor, batch, tensor
from dynamic._arrays.array import library
from dynamic._lift.operator import registry
from dynamic.data import _arithmetic

DEVICES = [pytest.param("cpu"), pytest.param("gpu", marks=pytest.mark.gpu)]
on_devices = pytest.mark.parametrize("device", DEVICES)

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
          operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor, divmod, operator.eq, operator.ne,
          operator.lt, operator.le, operator.gt, operator.ge, np.maximum, np.arctan2, np.hypot]  # fmt: skip
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert, np.sqrt, np.exp, np.sin, np.floor, np.rint,
         np.isnan, np.sign, np.log1p, np.square, np.logical_not]  # fmt: skip


def native(a):
    return np.array(a, a.dtype.newbyteorder("="))


def same(t, a):
    """Whether a Tensor has the elements of an array, of the same type."""
    found = t.cpu().array
    return (
        found.dtype == native(a).dtype
        and t.shape == a.shape
        and np.array_equal(found, a, equal_nan=a.dtype.kind == "f")
    )


def same_batch(b, samples):
    return len(b) == len(samples) and all(same(x, y) for x, y in zip(b, samples, strict=True))


def there(x, device):
    """Whether the data is on a device, in an array of its library."""
    array = x.array if isinstance(x, Tensor) else x.whole if x.whole is not None else x.samples[0]
    return x.device == device and library(array).__name__.endswith("numpy" if device == "cpu" else "cupy")


def outcome(call):
    """What a call gives, or the type of what it raises."""
    try:
        with np.errstate(all="ignore"):
            return call()
    except Exception as error:
        return type(error)


def alike(found, expected):
    """Whether two outcomes are the same, up to what floating-point functions of two devices differ by."""
    if isinstance(expected, type) or isinstance(found, type):
        return found is expected
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(expected, Batch):
        what = operator.attrgetter("layout", "ndim", "shape")
        return what(found) == what(expected) and all(map(alike, found, expected))
    if isinstance(expected, Tensor):
        a, b = found.cpu().array, expected.array
        if (a.dtype, a.shape, found.layout) != (b.dtype, b.shape, expected.layout):
            return False
        return np.allclose(a, b, rtol=1e-3 if a.dtype.itemsize == 2 else 1e-5, atol=0, equal_nan=True)
    return found == expected


@st.composite
def ragged(draw, min_size=1):
    dtype, ndim = draw(any_dtype), draw(st.integers(0, 3))
    shape = st.tuples(*[st.integers(0, 3)] * ndim)
    if draw(st.booleans()):
        shape = st.just(draw(shape))
    return [draw(arrays(dtype, shape)) for _ in range(draw(st.integers(min_size, 4)))]


@st.composite
def pairs(draw):
    first = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    return [draw(arrays(shape=shape)) for shape in first]


# Made, moved, exchanged


@on_devices
@given(a=arrays(), to=st.sampled_from(ALL_DTYPES))
def test_a_tensor_is_made_on_a_device(device, a, to):
    layout = "ABC"[: a.ndim]
    for make in (as_tensor, tensor):
        t = make(a, device=device, layout=layout)
        assert there(t, device)
        assert same(t, a)
        assert t.layout == (layout or None)
        assert same(make(t), a)
        assert same(make(a, device=device, dtype=to), ndd.cast(as_tensor(a), dtype=to).array)
        assert same(make(t, dtype=to), ndd.cast(as_tensor(a), dtype=to).array)
    assert as_tensor(t) is not t
    assert t.to_device(device) is t
    assert t.tolist() == native(a).tolist()
    assert (t.ndim, t.size, t.itemsize, t.nbytes) == (a.ndim, a.size, a.itemsize, a.nbytes)
    with pytest.raises(TypeError if device == "gpu" else pytest.fail.Exception):
        np.asarray(t)
        pytest.fail("is on the CPU")


@on_devices
@given(samples=ragged(), to=st.sampled_from(ALL_DTYPES))
def test_a_batch_is_made_on_a_device(device, samples, to):
    expected = [ndd.cast(as_tensor(s), dtype=to).array for s in samples]
    for make in (as_batch, batch):
        b = make(samples, device=device)
        assert there(b, device)
        assert same_batch(b, samples)
        assert same_batch(make(b), samples)
        assert same_batch(make(samples, device=device, dtype=to), expected)
        assert same_batch(make(list(b), dtype=to), expected)
    assert same_batch(b.to_device(device, force_copy=True), samples)
    assert b.cpu().device == "cpu"
    assert b.shape == [s.shape for s in samples]
    assert b.tolist() == [native(s).tolist() for s in samples]


@on_devices
@given(samples=ragged())
def test_copies_and_pickles_stay_on_their_device(device, samples):
    layout = "HWC"[: samples[0].ndim]
    b = as_batch(samples, device=device, layout=layout)
    for other in (pickle.loads(pickle.dumps(b)), copy.deepcopy(b), copy.copy(b)):
        assert there(other, device)
        assert same_batch(other, samples)
        assert other.layout == (layout or None)
    t = b[0]
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert there(other, device)
        assert same(other, samples[0])


@on_devices
@given(samples=ragged())
def test_dense_and_padded(device, samples):
    b = as_batch(samples, device=device)
    extents = np.max([s.shape for s in samples], axis=0, initial=0).astype(int) if samples[0].ndim else ()
    expected = np.zeros((len(samples), *extents), native(samples[0]).dtype)
    for row, s in zip(expected, samples, strict=True) if samples[0].ndim else ():
        row[tuple(map(slice, s.shape))] = s
    if not samples[0].ndim:
        expected = np.array([native(s) for s in samples])
    assert same(as_tensor(b, pad=True), expected)
    assert there(as_tensor(b, pad=True), device)
    if len({s.shape for s in samples}) > 1:
        with pytest.raises(ValueError, match="pad=True"):
            as_tensor(b)
    else:
        assert same(as_tensor(b), expected)
        assert same_batch(as_batch(as_tensor(b)), samples)


@on_devices
def test_broadcast(device):
    b = Batch.broadcast(as_tensor(np.arange(3), layout="W"), 4, device=device)
    assert (b.layout, b.tolist()) == ("W", [[0, 1, 2]] * 4)
    assert there(b, device)
    assert Batch.broadcast(as_tensor([1.5], device=device), 2, dtype="i32").tolist() == [[2], [2]]
    assert (b + 1).tolist() == [[1, 2, 3]] * 4
    assert b[[2, 0]].tolist() == [[0, 1, 2]] * 2
    assert as_tensor(b).tolist() == [[0, 1, 2]] * 4


@on_devices
def test_empty_batches(device):
    b = as_batch(np.zeros((0, 2, 3), np.uint8), device=device, layout="HW")
    assert (len(b), b.shape, b.ndim, b.dtype, b.layout, b.tolist()) == (0, [], 2, ndd.uint8, "HW", [])
    assert b.device == device
    assert len(b * 2) == 0
    assert len(b[0:0]) == len(b[[]]) == 0
    assert pickle.loads(pickle.dumps(b)).device == device
    ragged = as_batch([[1, 2], [3]], device=device)[0:0]
    assert (len(ragged), ragged.dtype, ragged.ndim, (ragged + 1).ndim) == (0, ndd.int32, 1, 1)


# Indexed


@on_devices
@given(a=arrays(), data=st.data())
def test_indexing_is_numpys(device, a, data):
    t = as_tensor(a, device=device, layout="HWC"[: a.ndim])
    index = data.draw(npst.basic_indices(a.shape, allow_newaxis=True))
    part = t[index]
    assert isinstance(part, Tensor)
    assert there(part, device)
    assert same(part, np.asarray(a[index]))
    assert part.layout == as_tensor(a, layout="HWC"[: a.ndim])[index].layout
    if a.size and a.ndim:
        places = data.draw(
            npst.integer_array_indices(a.shape[:1], result_shape=npst.array_shapes(max_dims=2, max_side=3))
        )[0]
        mask = data.draw(npst.arrays(bool, a.shape))
        for entry in (places, mask):
            for way in (entry, entry.tolist(), as_tensor(entry), as_tensor(entry, device=device)):
                if isinstance(way, list) and entry is mask and a.ndim > 1:
                    continue
                assert same(t[way], a[entry])


@on_devices
def test_what_is_out_of_bounds_is_an_error(device):
    t = as_tensor(np.arange(6).reshape(2, 3), device=device)
    places = [5], [-3], np.array([0, 2]), as_tensor([9], device=device), (slice(None), [3]), ([0], [3])
    masks = np.zeros(3, bool), np.zeros((2, 4), bool)
    for bad in (2, (0, 3), (0, 0, 0), 1.5, "a", True, as_tensor(0.5), *places, *masks):
        with pytest.raises((IndexError, TypeError)):
            t[bad]
    assert t[as_tensor(1, device=device), as_tensor(np.int64(2))].item() == 5
    assert t[[1, 0], [2, 1]].tolist() == [5, 1]
    assert t[..., [2, 0]].tolist() == [[2, 0], [5, 3]]
    assert t[t > 2].tolist() == [3, 4, 5]
    assert t[[]].shape == (0, 3)


@on_devices
def test_the_bounds_of_a_place_are_those_of_its_own_dimension(device):
    a = np.arange(24).reshape(2, 3, 4)
    t = as_tensor(a, device=device)
    mask, two = np.array([[True, False, True], [False, True, False]]), [[0, 1], [1, 0]]
    for good in ((mask, [3, 2, 0]), (mask, [-4, -1, 2]), (two, [2, -3], [3, -4]), (0, [2], [3]), (..., [3]),
                 (None, [1], [2]), (slice(None), [2], [3])):  # fmt: skip
        assert same(t[good], a[good])
    for bad in ((mask, [4, 0, 0]), (mask, [-5, 0, 0]), (two, [3, 0]), (two, [0, 0], [4, 0]), (two, [0, -4]), (0, [3]),
                (..., [4]), (None, [2]), (slice(None), [3]), (slice(None), [0], [4])):  # fmt: skip
        with pytest.raises(IndexError):
            t[bad]


@on_devices
@given(samples=ragged(), data=st.data())
def test_samples_are_selected(device, samples, data):
    b = as_batch(samples, device=device, layout="HWC"[: samples[0].ndim])
    n = len(samples)
    i = data.draw(st.integers(-n, n - 1))
    assert same(b[i], samples[i])
    places = data.draw(st.lists(st.integers(-n, n - 1), min_size=1))
    part = data.draw(st.slices(n))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    for index, expected in (
        (part, samples[part]),
        (places, [samples[j] for j in places]),
        (mask, [s for s, m in zip(samples, mask, strict=True) if m]),
        (as_tensor(places, device=device), [samples[j] for j in places]),
        (as_batch(places, device=device), [samples[j] for j in places]),
    ):
        ways = () if isinstance(index, (Tensor, Batch)) else (b.select(index), b.tensors[index].as_batch())
        for selected in (b[index], *ways):
            assert same_batch(selected, expected)
            assert (selected.dtype, selected.ndim, selected.layout) == (b.dtype, b.ndim, b.layout)
    assert b.select(...) is b
    for bad in (n, -n - 1, "a", None, 1.5, ..., (0, 0)):
        with pytest.raises((IndexError, TypeError)):
            b[bad]


@on_devices
@given(n=st.integers(1, 4), whole=st.booleans(), data=st.data())
def test_slice_indexes_inside_every_sample(device, n, whole, data):
    shapes = [(3, 4)] * n if whole else [(3 + i, 4 - i % 2) for i in range(n)]
    samples = [np.arange(np.prod(s)).reshape(s) for s in shapes]
    b = as_batch(np.stack(samples) if whole else samples, layout="HW", device=device)
    rows = data.draw(st.lists(st.integers(-3, 2), min_size=n, max_size=n))
    starts = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    assert same_batch(b.slice[0], [s[0] for s in samples])
    assert same_batch(b.slice[..., 1:3], [s[..., 1:3] for s in samples])
    for where in ("cpu", device):
        assert same_batch(b.slice[as_batch(rows, device=where)], [s[r] for s, r in zip(samples, rows, strict=True)])
        got = b.slice[as_batch(starts, device=where) :, 0]
        assert same_batch(got, [s[r:, 0] for s, r in zip(samples, starts, strict=True)])
    assert got.layout == "H"
    assert same_batch(b.slice[()], samples)
    with pytest.raises(ArgumentError, match="one for each"):
        b.slice[as_batch([0] * (n + 1))]
    with pytest.raises(IndexError):
        b.slice[as_batch([9] * n)]


# Calculated


@pytest.mark.gpu
@given(pair=pairs(), op=st.sampled_from(BINARY))
def test_operators_give_on_a_gpu_what_they_give_on_the_cpu(pair, op):
    a, b = map(as_tensor, pair)
    assume(
        op not in (operator.lshift, operator.rshift)
        or all(x.dtype.kind in "fb" or (abs(x.astype(int)) < 8).all() for x in pair)
    )
    expected = outcome(lambda: op(a, b))
    assert alike(outcome(lambda: op(a.gpu(), b.gpu())), expected)
    if all(x.ndim and x.dtype.isnative for x in pair):
        assert outcome(lambda: op(a.gpu(), b)) is DeviceError
        assert alike(
            outcome(lambda: op(as_batch([a, a], device="gpu"), b.gpu())), outcome(lambda: op(as_batch([a, a]), b))
        )


@pytest.mark.gpu
@given(a=arrays(), op=st.sampled_from(UNARY))
def test_functions_give_on_a_gpu_what_they_give_on_the_cpu(a, op):
    t = as_tensor(a, layout="HWC"[: a.ndim])
    assert alike(outcome(lambda: op(t.gpu())), outcome(lambda: op(t)))


@pytest.mark.gpu
@given(
    a=arrays(),
    op=st.sampled_from(BINARY),
    number=st.sampled_from([True, 0, 1, 3, -2, 2**20, 2**40, 0.5, np.float64(2), np.uint8(3)]),
)
def test_numbers_beside_a_gpu(a, op, number):
    t = as_tensor(a)
    assume(op not in (operator.pow, operator.lshift, operator.rshift))
    for f in (lambda x: op(x, number), lambda x: op(number, x)):
        assert alike(outcome(lambda f=f: f(t.gpu())), outcome(lambda f=f: f(t)))
    for way in (as_tensor(number), as_tensor(number).gpu(), [number]):
        assert alike(
            outcome(lambda way=way: op(t.gpu(), way)),
            outcome(lambda way=way: op(t, way.cpu() if isinstance(way, Tensor) else way)),
        )


@pytest.mark.gpu
@given(
    data=st.data(),
    samples=ragged(),
    op=st.sampled_from([operator.add, operator.mul, operator.lt, operator.floordiv, operator.pow]),
)
def test_batches_calculate_on_a_gpu_as_on_the_cpu(data, samples, op):
    b = as_batch(samples)
    others = [2, 0.5, b, as_batch(list(range(1, len(b) + 1))), [3], as_tensor(7), [1, 2, 3], as_batch(samples[::-1])]
    other = data.draw(st.sampled_from(others))
    moved_other = other.gpu() if isinstance(other, Batch) else other
    assert alike(outcome(lambda: op(b.gpu(), moved_other)), outcome(lambda: op(b, other)))
    assert alike(outcome(lambda: op(moved_other, b.gpu())), outcome(lambda: op(other, b)))


@pytest.mark.gpu
def test_ragged_batches_are_calculated_at_once(monkeypatch):
    calls = []
    one = _arithmetic._on_gpu
    monkeypatch.setattr(_arithmetic, "_on_gpu", lambda *given: calls.append(given[0]) or one(*given))
    images = [np.full((2 + i, 3, 3), i, np.uint8) for i in range(9)]
    b = as_batch(images, layout="HWC").gpu()
    for found, expected in (
        (b * 2.0 - [1, 2, 3], [image * np.float32(2) - [1, 2, 3] for image in images]),
        (b + b, [image + image for image in images]),
        (np.divmod(b, 4)[1], [image % 4 for image in images]),
    ):
        assert found.layout == "HWC"
        for a, e in zip(found.cpu().samples, expected, strict=True):
            np.testing.assert_array_equal(a, e)
    assert calls == [np.multiply, np.subtract, np.add, np.divmod]


@on_devices
def test_what_has_no_answer_says_so(device):
    bools, ints = as_tensor([True, False], device=device), as_tensor([1, 2], device=device)
    for wrong in (lambda: bools + bools, lambda: -bools, lambda: ints**-1, lambda: as_tensor(1.5, device=device) << 1):
        with pytest.raises(ArgumentError):
            wrong()
    for wrong in (lambda: ints // 0, lambda: ints % as_tensor([1, 0], device=device), lambda: divmod(ints, 0)):
        with pytest.raises(ZeroDivisionError):
            wrong()
    for wrong in (lambda: ints + "a", lambda: ints + None, lambda: object() + ints):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="broadcast"):
        ints + as_tensor([1, 2, 3], device=device)
    t = u = ints
    t += 1
    assert (t.tolist(), u.tolist()) == ([2, 3], [1, 2])
    assert (bools * bools).dtype == (~bools).dtype == (+bools).dtype == "bool"


@on_devices
def test_a_single_element_is_a_number(device):
    t = as_tensor([[2]], device=device)
    assert (t.item(), int(t), float(t), bool(t)) == (2, 2, 2.0, True)
    assert [10, 20, 30][as_tensor(1, device=device)] == 20
    assert f"{as_tensor(1.5, device=device):.2f}" == "1.50"
    assert type(t.item()) is int
    for size, f in ((2, bool), (2, int), (2, float), (0, bool), (2, operator.methodcaller("item"))):
        with pytest.raises(ValueError, match=r"elements|ambiguous"):
            f(as_tensor(np.zeros(size), device=device))
    for bad in (as_tensor(1.5, device=device), as_tensor([1], device=device)):
        with pytest.raises(TypeError):
            operator.index(bad)
    assert 2 in t
    assert 3 not in t
    assert 2 in as_batch([[1], [2]], device=device)
    assert (t == None) is False  # noqa: E711
    assert (t != "a") is True
    assert [row.tolist() for row in as_tensor([[1], [2]], device=device)] == [[1], [2]]


# Shown


@pytest.mark.gpu
@given(a=arrays(shape=npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=14)))
def test_a_gpu_shows_what_the_cpu_shows(a):
    t = as_tensor(a, layout="HWC"[: a.ndim])
    assert repr(t.gpu()) == repr(t).replace('device="cpu"', 'device="gpu:0"')
    b = as_batch([a, a])
    assert repr(b.gpu()) == repr(b).replace('device="cpu"', 'device="gpu:0"')
    assert t.gpu()._repr_html_().replace("gpu:0", "cpu") == t._repr_html_()


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2000,), (3, 700), (40, 5, 30), (6, 6, 6, 6), (0, 2000)])
def test_large_data_is_shown_by_its_edges(shape):
    t = as_tensor(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))
    assert repr(t.gpu()) == repr(t).replace('device="cpu"', 'device="gpu:0"')
    assert repr(as_batch([t] * 20).gpu()) == repr(as_batch([t] * 20)).replace('device="cpu"', 'device="gpu:0"')


# In operators


@on_devices
@given(samples=ragged(), to=st.sampled_from(ALL_DTYPES))
def test_operators_take_and_give_data_of_a_device(device, samples, to):
    b = as_batch(samples, device=device, layout="HWC"[: samples[0].ndim])
    made = ndd.cast(b, dtype=to)
    assert there(made, device)
    assert alike(made.cpu(), ndd.cast(b.cpu(), dtype=to))
    assert alike(ndd.cast(b[0], dtype=to).cpu(), ndd.cast(b[0].cpu(), dtype=to))
    assert alike(ndd.reshape(b, shape=[-1]).cpu(), ndd.reshape(b.cpu(), shape=[-1]))


@on_devices
def test_operators_keep_empty_batches_on_their_device(device):
    empty = ndd.cast(as_batch(np.zeros((0, 2), np.uint8), device=device), dtype="f32")
    assert (len(empty), empty.ndim, empty.dtype, empty.device) == (0, 1, ndd.float32, ndd.Device(device))


@pytest.mark.gpu
def test_an_operator_without_a_gpu_says_so():
    ragged_batch = as_batch([np.zeros((2, 2), np.uint8)], layout="HW").gpu()
    alone = next(op for op in registry.values() if op.devices == ("cpu",) and len(op.inputs) == 1)
    with pytest.raises(DeviceError, match="runs on cpu"):
        alone(ragged_batch)


@pytest.mark.gpu
def test_draws_of_a_gpu_are_those_of_the_cpu():
    for draw in (lambda **where: ndd.random.uniform(range=(-1, 2), batch_size=5, shape=[3], **where),
                 lambda **where: ndd.random.coin_flip(batch_size=50, **where)):  # fmt: skip
        a, b = (draw(rng=ndd.random.RNG(seed=7), **where) for where in ({}, {"device": "gpu"}))
        assert (a.device, b.device) == ("cpu", "gpu:0")
        assert a.tolist() == b.tolist()


@pytest.mark.gpu
def test_arguments_may_be_on_a_gpu():
    image = as_batch([np.zeros((4, 5, 3), np.uint8)] * 2, layout="HWC")
    angles = as_batch([0.0, 90.0])
    assert alike(ndd.rotate(image, angle=angles.gpu()), ndd.rotate(image, angle=angles))
