"""Pixels natively: the same bits and errors as the way of Python, for any call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import calls, examples, read_only
from test_core import compiled

import dynamic as ndd
from dynamic import _core
from dynamic._arrays import described as arrays
from dynamic._base import pool
from dynamic._core.described import described
from dynamic._lift.operator import registry

pytestmark = compiled
OPERATORS = [
    "cast",
    "cat",
    "copy",
    "crop",
    "crop_mirror_normalize",
    "erase",
    "flip",
    "pad",
    "slice",
    "stack",
    "transpose",
]


def outcome(call: Callable[[], Any]) -> Any:
    """The bits of a result, or the words of an error."""
    try:
        found = call()
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", [])
    samples = found.samples if isinstance(found, ndd.Batch) else [found.array]
    return found.layout, found.dtype, [(sample.shape, sample.tobytes()) for sample in samples]


def alike(call: Callable[[], Any], *, shared: bool) -> None:
    """Both ways come to the same, on one thread or on several."""
    with _core.left_out():
        expected = outcome(call)
    assert outcome(call) == expected
    if shared:
        with pool.sharing_all(), pool.limited(3):
            found = outcome(call)
        refused = isinstance(expected[0], type)  # a note tells which samples a thread had
        assert found[: 2 if refused else None] == expected[: 2 if refused else None]


@st.composite
def photos(draw: st.DrawFn) -> tuple[list[np.ndarray], str]:
    """Read-only images of bytes in one layout, ragged or alike, narrow or wider than a block, in any strides."""
    height, width = st.integers(0, 5), st.integers(0, 9) | st.sampled_from([15, 16, 17, 511, 512, 513, 1030])
    sizes = draw(st.lists(st.tuples(height, width), min_size=1, max_size=4))
    sizes = draw(st.sampled_from([sizes, sizes[:1] * len(sizes)]))
    layout, channels = draw(st.sampled_from(["HWC", "HWC", "CHW"])), draw(st.sampled_from([3, 3, 3, 1, 2, 4]))
    random, found = np.random.default_rng(draw(st.integers(0, 9))), []
    for size in sizes:
        image = random.integers(0, 256, (*size, channels), np.uint8)
        kind = draw(st.sampled_from(["plain", "reversed", "upside down", "strided", "planes", "unaligned"]))
        if kind == "reversed":
            image = image[:, ::-1].copy()[:, ::-1]
        elif kind == "upside down":
            image = image[::-1].copy()[::-1]
        elif kind == "strided":
            image = np.repeat(np.repeat(image, 2, 1), 2, 2)[:, ::2, 1::2]
        elif kind == "planes":
            image = np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0)
        elif kind == "unaligned":
            image = np.concatenate([np.zeros(1, np.uint8), image.reshape(-1)])[1:].reshape(image.shape)
        found.append(read_only(image if layout == "HWC" else image.transpose(2, 0, 1)))
    return found, layout


def batch(samples: list[np.ndarray], layout: str | None, *, dense: bool) -> ndd.Batch:
    """One array where samples are alike and it is asked for."""
    whole = dense and len({sample.shape for sample in samples}) == 1
    return ndd.as_batch(read_only(np.stack(samples)) if whole else samples, layout=layout)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_any_call(name: str, data: st.DataObject) -> None:
    """Any call of an operator, of so many samples that it is done natively, or of few."""
    samples, layout, varying, fixed = data.draw(calls(registry[name]))
    times = data.draw(st.sampled_from([1, 32, 32]))
    samples, varying = samples * times, {name: list(values) * times for name, values in varying.items()}
    if name == "crop_mirror_normalize" and data.draw(st.booleans()):
        samples = [sample.astype(np.uint8) for sample in samples]
    images = batch(samples, layout, dense=data.draw(st.booleans()))
    arguments = fixed | {key: ndd.as_batch(values) for key, values in varying.items()}
    alike(lambda: getattr(ndd, name)(images, **arguments), shared=data.draw(st.booleans()))


_NUMBERS = st.sampled_from([0.0, 0.5, 123.675, -3.0, 1e-3, 255.0]) | st.floats(-300, 300)


@given(data=st.data(), images=photos())
@examples(4)
def test_normalised_photos(data: st.DataObject, images: tuple[list[np.ndarray], str]) -> None:
    """Of all types, orders and windows, mirrored or not."""
    samples, layout = images[0] * data.draw(st.sampled_from([1, 4])), images[1]
    channels, count = samples[0].shape[layout.index("C")], len(samples)
    one_each = st.lists(_NUMBERS, min_size=channels, max_size=channels)
    flags = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    arguments = {
        "mean": data.draw(one_each | _NUMBERS),
        "std": data.draw(st.sampled_from([1.0, 58.395, 1e-30, [0.3] * channels])),
        "scale": data.draw(st.sampled_from([1.0, 3.7, 1e38, -1e300])),
        "shift": data.draw(st.sampled_from([0.0, -0.25])),
        "dtype": data.draw(st.sampled_from(["float32", "float32", "float16", "uint8", "int16", "float64"])),
        "output_layout": data.draw(st.sampled_from(["CHW", "HWC"])),
        "mirror": data.draw(st.sampled_from([0, 1, ndd.as_batch(flags)])),
        "pad_output": data.draw(st.booleans()),
        "fill_values": data.draw(st.sampled_from([0.0, 7.5, [1.0] * channels, [1.0, 2.0, 3.0]])),
        "out_of_bounds_policy": data.draw(st.sampled_from(["pad", "trim_to_shape", "error"])),
    }
    if data.draw(st.booleans()):
        arguments["crop"] = data.draw(st.tuples(st.integers(0, 7), st.integers(0, 7)))
        arguments["crop_pos_x"] = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    one = data.draw(st.booleans())
    given = samples[0] if one else batch(samples, layout, dense=data.draw(st.booleans()))
    given = ndd.as_tensor(given, layout=layout) if one else given
    if one and not isinstance(arguments["mirror"], int):
        del arguments["mirror"]
    call = lambda: ndd.crop_mirror_normalize(given, **arguments)  # noqa: E731 - of this example
    alike(call, shared=data.draw(st.booleans()))


@given(data=st.data())
def test_joined(data: st.DataObject) -> None:
    """Samples as one array, smaller ones with zeros behind them."""
    samples, layout, _, _ = data.draw(calls(registry["copy"]))
    samples = samples * data.draw(st.sampled_from([1, 16]))
    pad = data.draw(st.booleans())
    alike(lambda: ndd.as_tensor(ndd.as_batch(samples, layout=layout).dense(pad)), shared=data.draw(st.booleans()))


@given(data=st.data(), images=photos())
def test_described(data: st.DataObject, images: tuple[list[np.ndarray], str]) -> None:
    """Columns of separate arrays are read where NumPy keeps them."""
    samples = images[0]
    if data.draw(st.booleans()):
        samples = [sample[0, 0, 0, ...] for sample in samples if sample.size] or [np.array(1)]
    found, expected = described(samples), arrays.described(samples)
    for name in ("pointers", "shapes", "strides"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.dtype == expected.dtype


def test_described_of_others() -> None:
    """Arrays of several types or numbers of dimensions are left to the way of Python."""
    one = np.zeros((2, 3), np.uint8)
    for other in (np.zeros((2, 3), np.float64), np.zeros(2, np.uint8), np.zeros((2, 3), np.int8)):
        assert described([one, other, one]) is None
    unpickled = np.zeros((2, 3), np.dtype("uint8", copy=True))
    found = described([one, unpickled])
    assert found is not None
    assert found.shapes.tolist() == [[2, 3], [2, 3]]


_SIDE = st.integers(1, 40)


@given(sizes=st.tuples(_SIDE, _SIDE), ragged=st.booleans(), seed=st.integers(0, 9), data=st.data())
def test_batches_of_photos(sizes: tuple[int, int], ragged: bool, seed: int, data: st.DataObject) -> None:
    """Batches as large as in training, whose columns are no small blocks of memory."""
    random, (height, width) = np.random.default_rng(seed), sizes
    shapes = [(height + ragged * (i % 3), width + ragged * (i % 5), 3) for i in range(64)]
    photos = ndd.as_batch([read_only(random.integers(0, 256, shape, np.uint8)) for shape in shapes], layout="HWC")
    flags = ndd.as_batch(random.integers(0, 2, 64).astype(np.int32))
    values = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}
    ways: list[Callable[[], Any]] = [
        lambda: ndd.crop_mirror_normalize(photos, mirror=flags, **values),
        lambda: ndd.crop_mirror_normalize(ndd.transpose(photos, perm=[2, 0, 1]), mirror=flags, dtype="float16"),
        lambda: ndd.crop_mirror_normalize(photos, crop=(9, 9), mirror=flags, out_of_bounds_policy="pad", **values),
        lambda: ndd.flip(photos, horizontal=flags, vertical=1),
        lambda: ndd.pad(photos, axis_names="HW", fill_value=[1.0, 2.0, 3.0]),
        lambda: ndd.erase(photos, anchor=[1.0, 2.0], shape=[5.0, 6.0], axis_names="HW", fill_value=7.0),
        lambda: ndd.slice(photos, start=[-3, 2], shape=[30, 9], out_of_bounds_policy="pad"),
        lambda: ndd.transpose(ndd.transpose(photos, perm=[2, 0, 1]), perm=[1, 2, 0]),
        lambda: ndd.cat(photos, photos),
        lambda: ndd.equalize(photos),
        lambda: ndd.as_tensor(photos.dense(pad=True)),
    ]
    alike(data.draw(st.sampled_from(ways)), shared=data.draw(st.booleans()))
