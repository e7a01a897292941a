"""Batches: the three ways of making them, and what they answer."""

from __future__ import annotations

import array
import base64
import html
import pickle
import re
import types
import weakref

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from strategies import ALL_DTYPES, any_dtype, arrays, read_only

import dynamic as ndd
from dynamic import ArgumentError, Batch, as_batch, as_tensor, batch

try:
    import torch
except ImportError:
    torch = None


def str_of_type(value):
    return f"{type(value).__name__}"


class Producer:
    """An array that is only known through DLPack, and remembers whether it was taken."""

    def __init__(self, array):
        self.array, self.dtype, self.shape, self.taken = array, array.dtype, array.shape, False

    def __dlpack__(self, **keywords):
        self.taken = True
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@st.composite
def ragged(draw, min_size=1):
    """Arrays of one dtype and number of dimensions."""
    dtype, ndim = draw(any_dtype), draw(st.integers(0, 3))
    shape = st.tuples(*[st.integers(0, 3)] * ndim)
    return [draw(arrays(dtype, shape)) for _ in range(draw(st.integers(min_size, 4)))]


def native(a):
    return np.array(a, a.dtype.newbyteorder("="))


def same(b: Batch, samples) -> bool:
    return len(b) == len(samples) and all(
        x.array.dtype == native(y).dtype and x.shape == y.shape and np.array_equal(x.array, y)
        for x, y in zip(b, samples, strict=True)
    )


@given(ragged())
def test_every_path_gives_the_same(samples):
    ways = {
        "arrays": samples,
        "tensors": [as_tensor(s) for s in samples],
        "generator": (s for s in samples),
        "tuple": tuple(samples),
        "DLPack": [Producer(native(s)) for s in samples],
        "mixed": [samples[0], *map(as_tensor, samples[1:])],
        "batch": as_batch(samples),
    }
    if torch is not None:
        ways["torch"] = [torch.from_numpy(native(s)) for s in samples]
    for name, way in ways.items():
        made = as_batch(way)
        assert same(made, samples), name
        assert made.ndim == samples[0].ndim
    own = batch(samples)
    assert same(own, samples)
    assert not any(np.shares_memory(x, y) for x in own.samples for y in samples)


@given(ragged())
def test_as_batch_shares_memory_and_read_only_stays_so(samples):
    made = as_batch(samples)
    for mine, given_ in zip(made.samples, samples, strict=True):
        assert np.shares_memory(mine, given_) or not given_.size or not given_.dtype.isnative
        if given_.dtype.isnative:
            assert not mine.flags.writeable
    assert as_batch(made) is made


@given(arrays(shape=st.tuples(st.integers(1, 4), st.integers(0, 3))))
def test_the_outermost_dimension_of_an_array_becomes_the_samples(a):
    plain = native(a)
    interface = types.SimpleNamespace(__array_interface__=plain.__array_interface__)
    for data in (a, as_tensor(a), as_tensor(a, layout="NW"), Producer(plain), interface):
        b = as_batch(data)
        assert same(b, list(a))
        assert as_tensor(b).array.tolist() == a.tolist()
    assert as_batch(as_tensor(a, layout="NW")).layout == "W"
    with pytest.raises(ArgumentError, match="at least one dimension"):
        as_batch(np.float32(1))


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        ([1, 2.5], "f32", [1.0, 2.5]), ([1, 2], "i32", [1, 2]), ([True, False], "bool", [True, False]),
        ([[1, 2], [3]], "i32", [[1, 2], [3]]), ([[1], [2.5, 3]], "f32", [[1.0], [2.5, 3.0]]),
        ([[1], []], "i32", [[1], []]), ([[], []], "f32", [[], []]), (range(3), "i32", [0, 1, 2]),
        ([[1], [2**31]], "u32", [[1], [2**31]]), ([np.int64(1), np.int64(2)], "i64", [1, 2]),
        ([[[1]], [[2]]], "i32", [[[1]], [[2]]]), ([np.float64(1.5)], "f64", [1.5]),
    ],
)  # fmt: skip
def test_numbers_are_promoted_together(data, dtype, values):
    b = as_batch(data)
    assert b.dtype == dtype
    assert b.tolist() == values


def test_elements_must_agree_and_the_odd_one_is_named():
    f32, u8 = np.zeros(2, np.float32), np.zeros(2, np.uint8)
    for wrap in (lambda a: a, as_tensor, Producer):
        for odd, word in ((u8, "dtype"), (np.zeros((2, 2), np.float32), "dimensions")):
            items = [wrap(f32), wrap(f32), wrap(odd)]
            with pytest.raises(ArgumentError, match=rf"as_batch\(\): argument 'tensors\[2\]' must be like .*{word}"):
                as_batch(items)
            if wrap is Producer:
                assert not any(item.taken for item in items)
    assert as_batch([f32, u8], dtype="f32").dtype == "f32"
    assert as_batch([as_tensor(f32), as_tensor(u8)], dtype="i16").dtype == "i16"
    layouts = [as_tensor(np.zeros((1, 1)), layout=x) for x in ("HW", "WH")]
    with pytest.raises(ArgumentError, match=r"tensors\[1\]"):
        as_batch(layouts)
    assert as_batch(layouts, layout="XY").layout == "XY"
    for other in (np.zeros((1, 1)), [[np.float64(0)]], Producer(np.zeros((1, 1)))):  # has no layout
        with pytest.raises(ArgumentError, match=r"tensors\[1\]' must be like .*layout HW; got layout None"):
            as_batch([layouts[0], other])
        assert as_batch([other, layouts[0]], layout="XY").layout == "XY"
        assert as_batch([other, as_tensor(np.zeros((1, 1)))]).layout is None


@pytest.mark.parametrize("bad", [None, "ab", [as_batch([1])], "text", object()], ids=str_of_type)
def test_an_element_that_is_no_sample_is_named(bad):
    with pytest.raises(ArgumentError, match=r"as_batch\(\): argument 'tensors\[1\]'"):
        as_batch([np.zeros(2), bad])


@pytest.mark.parametrize("bad", [None, 3, "text", {1: 2}, {1}, 1.5])
def test_what_is_no_batch_is_refused(bad):
    with pytest.raises(ArgumentError, match=r"(as_)?batch\(\): argument 'tensors'"):
        as_batch(bad)


def test_foreign_tensors_that_cannot_be_taken():
    pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"tensors\[1\]"):
        as_batch([torch.zeros(2), torch.zeros(2, requires_grad=True)])

    class OnAnotherDevice(Producer):
        def __dlpack_device__(self):
            return 2, 0

    if not ndd.devices.gpu_count():
        with pytest.raises(ndd.DeviceError):
            as_batch([Producer(np.zeros(2)), OnAnotherDevice(np.zeros(2))])

    class Fails(Producer):
        def __dlpack__(self, **_):
            raise RuntimeError("the device is lost")

    with pytest.raises(RuntimeError, match="device is lost"):
        as_batch([Producer(np.zeros(2)), Fails(np.zeros(2))])


def test_empty_batches():
    b = as_batch([], dtype="u8", layout="HWC")
    assert (len(b), b.shape, b.ndim, b.dtype, b.layout, b.tolist()) == (0, [], 3, ndd.uint8, "HWC", [])
    assert b.device == "cpu"
    assert as_tensor(b).shape == (0, 0, 0, 0)
    assert len(b[0:0]) == len(b[[]]) == 0
    with pytest.raises(ArgumentError, match="dtype"):
        as_batch([])
    with pytest.raises(IndexError):
        b[0]
    again = pickle.loads(pickle.dumps(b))
    assert (len(again), again.dtype, again.layout) == (0, b.dtype, b.layout)


# -- a sequence of samples


def test_tensors_is_a_list_of_tensors():
    b = as_batch([[1, 2], [3], [4]])
    assert [t.tolist() for t in b.tensors] == [t.tolist() for t in b.tensors.tolist()] == [[1, 2], [3], [4]]
    assert len(b.tensors[1:]) == 2
    assert b.tensors[-1].tolist() == [4]
    assert b.tensors[[2, 0]].as_batch(copy=True).tolist() == [[4], [1, 2]]
    assert b.tensors.select(0).tolist() == [1, 2]
    assert len(b.tensors.select(...)) == 3
    assert 3 in b
    assert 9 not in b


def test_samples_of_different_shapes_are_told():
    with pytest.raises(ValueError, match=r"sample 0 has \(3,\), sample 2 has \(1,\). pad=True, as in"):
        as_tensor(as_batch([[1, 2, 3], [4, 5, 6], [7]]))


def test_batches_are_referred_to_weakly():
    batch = as_batch([1])
    assert weakref.ref(batch)() is batch


def test_dense_and_padded():
    b = as_batch([[1, 2, 3], [4]], layout="W")
    for dense in (as_tensor, np.asarray, lambda x: x.numpy()):
        with pytest.raises(ValueError, match="pad=True"):
            dense(b)
    for padded in (as_tensor(b, pad=True), b.numpy(pad=True)):
        assert padded.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert as_tensor(b, pad=True).layout == "NW"
    assert as_tensor(as_batch([1, 2])).layout == "N"
    assert as_tensor(as_batch([[1], [2]])).layout is None
    whole = as_batch(np.zeros((2, 3)))
    assert as_tensor(whole).array is whole.whole
    assert np.shares_memory(np.asarray(whole), whole.whole)
    with pytest.raises(ValueError, match="copy"):
        np.array(as_batch([[1], [2]])[[1, 0]], copy=False)


def test_torch_shares_a_whole_batch():
    pytest.importorskip("torch")
    whole = ndd.batch(np.zeros((2, 3), np.float32))
    assert np.shares_memory(whole.torch(copy=False).numpy(), whole.whole)
    assert not np.shares_memory(whole.torch(copy=True).numpy(), whole.whole)
    with pytest.raises(BufferError):
        as_batch([[1], [2]])[[0, 1]].torch(copy=False)
    assert as_batch(read_only(np.ones((2, 1)))).torch().tolist() == [[1], [1]]
    ragged = as_batch([[1, 2], [3]])
    assert ragged.torch(pad=True).tolist() == [[1, 2], [3, 0]]
    with pytest.raises(ValueError, match="pad=True"):
        ragged.torch()


def test_extents_as_data_are_saturated():
    assert as_batch([np.zeros((300, 0)), np.zeros((2, 3))]).shape("uint8").tolist() == [[255, 0], [2, 3]]


def test_broadcast():
    b = Batch.broadcast(np.arange(3), 4)
    assert b.tolist() == [[0, 1, 2]] * 4
    assert np.shares_memory(b.samples[0], b.samples[3])
    assert not b.whole.flags.writeable
    assert Batch.broadcast([1.5], 2, dtype="i32", device="cpu").tolist() == [[2], [2]]
    assert Batch.broadcast(as_tensor([1], layout="W"), 0).layout == "W"
    assert Batch.broadcast([0.1, 2**24 + 1], 1, dtype="f64").tolist() == [[0.1, 2**24 + 1]]  # from what they are
    with pytest.raises(ArgumentError, match=r"Batch.broadcast\(\): argument 'dtype'"):
        Batch.broadcast(1, 2, dtype="text")
    for bad in (-1, 1.5, None, "2", True):
        with pytest.raises(ArgumentError, match="batch_size"):
            Batch.broadcast(1, bad)
    with pytest.raises(ArgumentError, match="sample"):
        Batch.broadcast(b, 2)


@given(ragged(), st.sampled_from(ALL_DTYPES))
def test_dtype_converts_as_cast_does(samples, to):
    made = as_batch(samples, dtype=to)
    assert made.dtype == to
    assert same(made, [ndd.cast(as_tensor(s), dtype=to).array for s in samples])


def test_repr_is_dalis_and_bounded():
    assert repr(as_batch([np.arange(3), np.arange(2)])) == (
        'Batch(\n    [[0 1 2],\n    [0 1]],\n    dtype=i64,\n    device="cpu",\n    num_samples=2,\n'
        "    shape=[(3,), (2,)])"
    )
    assert repr(as_batch([np.zeros((1, 2))] * 2, layout="HW")) == (
        'Batch(\n    [[[0. 0.]],\n\n    [[0. 0.]]],\n    dtype=f64,\n    layout="HW",\n    device="cpu",\n'
        "    num_samples=2,\n    shape=[(1, 2), (1, 2)])"
    )
    assert len(repr(as_batch([np.zeros((200, 200, 3))] * 100))) < 10_000
    assert "..." in repr(as_batch(np.zeros((1000, 3))))


def test_much_is_shown_and_searched_without_an_array_for_each_sample():
    b = as_batch(np.arange(3_000_000, dtype=np.uint8))
    assert repr(b).startswith("Batch(\n    [0,\n    1,\n    ...,\n    190,\n    191],\n")
    assert "shape=[(), (), ..., (), ()]" in repr(b)
    assert "pre" in b._repr_html_()
    assert b._samples is None
    assert 255 in b
    assert 2.5 not in b
    assert True in as_batch([[0, 1], [0, 0]])
    assert 1 not in b[:0]
    assert b._samples is None


def test_members_and_devices():
    b = as_batch([[1, 2], [3]], layout="W", device="cpu")
    assert (b.batch_size, b.ndim, b.dtype, b.layout, b.device) == (2, 1, ndd.int32, "W", ndd.Device("cpu"))
    with pytest.raises(ArgumentError, match="layout"):
        as_batch([[1]], layout="HW")
    with pytest.raises(TypeError):
        hash(b)


def drawn(data):
    """The pictures of a notebook as RGB images, and the text of all of it."""
    shown = data._repr_html_()
    pictures = [base64.b64decode(part.split('"')[0]) for part in shown.split("base64,")[1:]]
    images = [cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_UNCHANGED) for picture in pictures]
    return [image if image.ndim == 2 else image[..., [2, 1, 0, 3][: image.shape[2]]] for image in images], shown


IMAGES = st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4])).flatmap(
    lambda shape: npst.arrays(np.uint8, shape)
)


@given(
    image=IMAGES,
    layout=st.sampled_from(["HWC", "CHW", "FHWC", "FCHW", "HW"]),
    kind=st.sampled_from(["uint8", "float32"]),
)
def test_a_notebook_draws_images_of_every_layout_as_they_are(image, layout, kind):
    expected = image[..., 0] if layout == "HW" or image.shape[2] == 1 else image
    given_ = image[..., 0] if layout == "HW" else image.transpose(2, 0, 1) if "CHW" in layout else image
    if layout[0] == "F":
        given_ = np.stack([given_, given_ // 2])
    if kind != "uint8":
        given_ = (given_ / 255).astype(kind)
    given_.flags.writeable = False
    for data in (as_tensor(given_, layout=layout), as_batch([given_] * 9, layout=layout)):
        pictures, shown = drawn(data)
        assert len(pictures) == (8 if isinstance(data, Batch) else 1)
        assert all(np.array_equal(picture, expected) for picture in pictures)
        assert html.escape(repr(data)) in shown
        assert " \N{MULTIPLICATION SIGN} ".join(map(str, given_.shape)) in shown
        assert ("0 is black, 1 is white" in shown) == (kind != "uint8")


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, -1e-2), kind=st.sampled_from(["float32", "float64", "int16"]))
def test_a_notebook_stretches_values_that_are_no_colours(scale, shift, kind):
    levels = np.arange(256).reshape(16, 16, 1).repeat(3, 2)
    image = (levels * 10 - 1000 if kind == "int16" else levels * scale + shift * scale).astype(kind)
    ((picture,), shown) = drawn(as_tensor(image, layout="HWC"))
    assert np.abs(picture.astype(int) - levels).max() <= 1
    assert f"{image.min():.4g} is black, {image.max():.4g} is white" in shown


def test_a_notebook_draws_what_is_plainly_an_image_and_nothing_else():
    image = np.zeros((300, 200, 3), np.uint8)
    for data in (as_tensor(image), as_tensor(image.transpose(2, 0, 1)), as_tensor(np.full((3, 9, 9), np.nan, "f4")),
                 as_batch(np.zeros((4, 3, 9, 8), "f2")), as_tensor(np.ones((4, 4), bool), layout="HW"),
                 as_tensor(np.full((2, 2), 7), layout="HW")):  # fmt: skip
        assert drawn(data)[0]
    for data in (as_tensor([1.5]), as_tensor(np.zeros((9, 9), "u1")), as_tensor(np.zeros((3, 4, 4), "f4")),
                 as_batch([], dtype="u8", layout="CHW"), as_batch([[1], [2, 3]]), as_tensor(np.zeros((9, 9, 2), "u1")),
                 as_tensor(np.zeros((0, 9, 3), "u1"), layout="HWC"), as_tensor(np.zeros((9, 9, 7), "u1"), layout="HWC"),
                 as_tensor(np.zeros((3, 9, 9), "i4"))):  # fmt: skip
        assert not drawn(data)[0]
        assert "dtype=" in drawn(data)[1]
    assert "&lt;" not in as_tensor(1)._repr_html_()


def test_what_a_notebook_shows_is_bounded_and_folded():
    generator = np.random.default_rng(5)
    image = cv2.blur(generator.integers(0, 255, (3000, 2000, 3), np.uint8), (99, 99))
    ((picture,), shown) = drawn(as_tensor(image, layout="HWC"))
    assert picture.shape == (160, 107, 3)
    assert np.abs(picture.astype(int) - cv2.resize(image, (107, 160), interpolation=cv2.INTER_AREA)).max() < 9
    assert len(shown) < 100_000
    batch = as_batch([image[: 10 + i, :9] for i in range(20)], layout="HWC")
    shown = batch._repr_html_()
    assert "the first 8 are shown" in shown
    assert shown.index("<img") < shown.index("<details><summary>Batch of 20, uint8, HWC, cpu") < shown.index("<pre>")
    assert as_batch(np.arange(12))._repr_html_().startswith("<pre>")


def test_a_picture_has_the_name_of_its_file(tmp_path):
    (tmp_path / "a<b").mkdir()
    (tmp_path / "a<b" / "1.png").write_bytes(cv2.imencode(".png", np.zeros((9, 8, 3), np.uint8))[1].tobytes())
    images = ndd.decoders.image(ndd.readers.File(file_root=tmp_path)(1)[0])
    for data in (images, images[0]):
        assert "a&lt;b/1.png<br>9 \N{MULTIPLICATION SIGN} 8 \N{MULTIPLICATION SIGN} 3" in data._repr_html_()


@pytest.mark.parametrize("shape", [(64, 28, 28), (8, 224, 224, 3), (8, 3, 64, 64), (256, 1), (2, 8, 9, 9, 3), (1000,)])
@pytest.mark.parametrize("kind", ["uint8", "float32", "int64"])
def test_a_batch_prints_few_lines(shape, kind):
    assert repr(as_batch(np.zeros(shape, kind))).count("\n") < 64
    assert repr(as_tensor(np.zeros(shape[1:], kind))).count("\n") < 64


@pytest.mark.parametrize("index", [
    np.s_[:, 0], 0, np.s_[0, 0], np.s_[..., None], np.s_[None, :, 1:], np.s_[[0, 1], [2, 0]], np.s_[[0, 1]],
    np.s_[:, [0, 1]], np.ones((3, 4), bool), np.s_[np.array([[0, 1]])], np.s_[()],
])  # fmt: skip
def test_an_empty_batch_is_indexed_inside_like_one_with_samples(index):
    full = as_batch([np.zeros((3, 4), "float32")] * 2, layout="XY").slice[index]
    for empty in (as_batch([], dtype="float32", layout="XY"), as_batch(np.zeros((0, 3, 4), "float32"), layout="XY")):
        found = empty.slice[index]
        assert (len(found), found.dtype, found.ndim, found.layout) == (0, full.dtype, full.ndim, full.layout)


def test_an_empty_batch_is_indexed_by_empty_batches():
    empty, none = as_batch([], dtype="float32", layout="XY"), as_batch([], dtype="int32")
    assert [empty.slice[none].ndim, empty.slice[none:].ndim, empty.slice[0, none].ndim] == [1, 2, 0]
    with pytest.raises(IndexError, match="too many indices: samples have 2 dimensions"):
        empty.slice[0, 0, 0]


def test_an_index_out_of_bounds_names_the_sample_and_its_axis():
    for samples in (np.zeros((2, 3, 4)), [np.zeros((3, 4)), np.zeros((2, 4))]):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3") as caught:
            as_batch(samples).slice[7]
        assert "sample 0 of 2" in caught.value.__notes__[0]


@pytest.mark.parametrize(("index", "told"), [
    (as_batch([0, 1]), "a Batch is not an index of a Tensor"), (slice(as_batch([0, 1]), None), "Batch .*not an index"),
    (np.s_[0:1.5], "float 1.5 is not an index"), (np.s_["x":], "str 'x' is not an index")])  # fmt: skip
def test_what_is_no_index_is_told(index, told):
    with pytest.raises(IndexError, match=told):
        as_tensor([1, 2, 3])[index]


def test_buffers_keep_their_dtype():
    numbers = array.array("d", [0.1, 1e300])
    for made in (as_batch(numbers), as_batch(memoryview(numbers))):
        assert (made.dtype, made.tolist()) == ("float64", [0.1, 1e300])
    assert as_batch(memoryview(np.zeros((2, 3)))).shape == [(3,), (3,)]
    assert as_batch(bytearray(b"ab")).dtype == "uint8"


def test_lists_that_hold_themselves_are_refused():
    endless = [1]
    endless.append(endless)
    for make in (as_tensor, as_batch):
        with pytest.raises(ArgumentError, match="sequences of equal lengths"):
            make(endless)


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_torch_tensors_go_with_arrays_and_tensors():
    ones = np.ones(2, np.float32)
    for samples in ([torch.ones(2), ones], [ones, torch.ones(2)], [as_tensor(ones), torch.ones(2), ones]):
        made = as_batch(samples)
        assert (made.dtype, made.tolist()) == ("float32", [[1.0, 1.0]] * len(samples))
    with pytest.raises(ArgumentError, match="with dtype float32; got dtype float64"):
        as_batch([torch.ones(2), np.ones(2)])


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_tensors_in_lists_that_hold_no_numbers_are_refused_by_name():
    for bad in (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, requires_grad=True), torch.ones(2, device="meta")):
        for make in (as_tensor, as_batch):
            with pytest.raises(ArgumentError, match=make.__name__):
                make([bad, bad])
    with pytest.raises(ArgumentError, match="'meta', which has none"):
        as_tensor(torch.ones(2, device="meta"))


@pytest.mark.parametrize("function", [np.sum, np.max, np.add.accumulate])
def test_numpys_reductions_of_a_batch_tell_what_is_meant_instead(function):
    with pytest.raises(TypeError, match=r"of a Batch: dynamic\.reductions has it for each sample, and as_tensor"):
        function(as_batch([[1, 2], [3, 4]]))


def test_a_batch_of_many_samples_is_shown_in_short():
    for samples in (np.zeros((100_000, 0)), np.zeros((100_000, 1)), np.zeros((100_000, 3, 0))):
        assert len(repr(as_batch(samples))) < 400


@given(ragged(), st.sampled_from([None, "float64", "int16", np.float32]), st.booleans())
def test_the_class_makes_what_as_batch_makes(samples, dtype, as_tensors):
    given = [as_tensor(sample) for sample in samples] if as_tensors else samples
    for data in (given, tuple(given), as_batch(given), iter(given)):
        made = Batch(data, dtype=dtype, device="cpu")
        wanted = as_batch(given, dtype=dtype)
        assert same(made, [np.asarray(sample) for sample in wanted])
        assert (made.dtype, made.layout, made.device) == (wanted.dtype, wanted.layout, wanted.device)


def test_the_class_takes_numbers_and_layouts_and_refuses_what_as_batch_refuses():
    assert Batch([[1, 2], [3]], layout="X").tolist() == [[1, 2], [3]]
    assert Batch(np.zeros((2, 3, 4)), layout="HW").layout == "HW"
    assert Batch(np.zeros((2, 3)).astype(">f4")).dtype == ndd.float32
    for data, words in (
        (iter([np.zeros(3), np.zeros((1, 1))]), "like tensors[0]"),
        ([np.zeros(3), np.zeros(3, "uint8")], "like tensors[0]"),
        ([np.array(["a"])], "numbers of one of the types"),
        ("abc", "iterable of samples"),
        ([], "a Batch without samples"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(words)):
            Batch(data)
    for layout in ("XYZ", ndd.float32):
        with pytest.raises(ArgumentError, match=r"Batch\(\): argument 'layout'"):
            Batch(np.zeros((2, 3)), layout)


def test_arrays_of_numpy_tell_how_samples_are_filled():
    ragged = as_batch([[1], [2, 3]])
    for call in (np.asarray, np.from_dlpack, lambda b: b.numpy(), as_tensor):
        with pytest.raises(ValueError, match=r"pad=True, as in batch.numpy\(pad=True\), fills the smaller ones"):
            call(ragged)


def test_mistakes_of_beginners_are_told_the_way():
    with pytest.raises(ArgumentError, match=r"An empty list has one dimension: for no boxes write numpy.zeros"):
        as_batch([[], [[1, 2, 3, 4]]])
    with pytest.raises(ArgumentError, match="For names of samples take their numbers, origin.ids"):
        as_batch(["a.jpg", "b.jpg"])
    with pytest.raises(ArgumentError, match="Are these bytes of a file\\? Decode them first, with decoders.image"):
        ndd.resize(as_batch([np.zeros(9, np.uint8)]), size=3)
    with pytest.raises(TypeError, match=r"readers.File is no iterator; write: for batch in reader.next_epoch"):
        iter(ndd.readers.File(files=[__file__]))
    with pytest.raises(AttributeError, match="has no attribute 'reader'. Did you mean 'readers'\\?"):
        ndd.reader
