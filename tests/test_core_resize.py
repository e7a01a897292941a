"""Bytes resized natively: the same bits and errors as by cykooz-resizer, for any call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import calls, examples, read_only
from test_core import compiled
from test_core_pixels import alike, batch
from test_resize import bands_of

import dynamic as ndd
from dynamic import _core
from dynamic._arrays.described import described
from dynamic._core import resize
from dynamic._lift.operator import registry
from dynamic.kernels.cpu import resizer, scaled

pytestmark = [
    compiled,
    pytest.mark.skipif(not resizer.is_native(), reason="cykooz-resizer or AVX2 is missing"),
]

#: Arrays in which pixels, rows or channels lie apart, or run backwards.
STRIDES = ("plain", "reversed", "upside down", "apart", "planes")


@pytest.fixture(scope="module", autouse=True)
def few_are_many() -> Iterator[None]:
    """Small batches go the way of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynamic.ops.resize._MANY", 2)
        yield


def strided(image: np.ndarray, kind: str) -> np.ndarray:
    """The same image (H, W, C), otherwise in memory."""
    if kind == "reversed":
        return image[:, ::-1].copy()[:, ::-1]
    if kind == "upside down":
        return image[::-1].copy()[::-1]
    if kind == "apart":
        return np.repeat(np.repeat(image, 2, 1), 2, 0)[::2, ::2]
    if kind == "planes":
        return np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0)
    return image


@st.composite
def images(draw: st.DrawFn, channels: int | None = None, most: int = 90) -> np.ndarray:
    """A read-only image of bytes (H, W, C)."""
    count = channels or draw(st.integers(1, 4))
    extent = st.sampled_from([1, 2, 3, 10, 11, 31, 32, 33]) | st.integers(1, most)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    image = random.integers(0, 256, (draw(extent), draw(extent), count), np.uint8)
    if draw(st.booleans()):
        image = np.where(image > 127, 255, 0).astype(np.uint8)
    return read_only(strided(image, draw(st.sampled_from(STRIDES))))


def spans(extent: int) -> st.SearchStrategy[tuple[float, float]]:
    """A part of a dimension: whole, in whole pixels, or any, which may be partly or all outside."""
    whole = st.tuples(st.integers(0, extent - 1), st.integers(1, extent)).map(lambda ends: (ends[0], sum(ends)))
    low = st.floats(-1.5 * extent - 3, 1.5 * extent + 3)
    anywhere = st.tuples(low, st.floats(0.01, 2.0 * extent)).map(lambda part: (part[0], sum(part)))
    return st.sampled_from([(0, extent)]) | whole | anywhere


@given(data=st.data(), image=images())
@examples(8)
def test_windows(data: st.DataObject, image: np.ndarray) -> None:
    """Any window at any size, mirrored or not, by the functions of one image and of many."""
    height, width, channels = image.shape
    (top, bottom), (left, right) = data.draw(spans(height)), data.draw(spans(width))
    size = st.sampled_from([1, 2, 7, 8, 9]) | st.integers(1, 120)
    sizes = data.draw(st.sampled_from([round(bottom - top) or 1, 5])), data.draw(size)
    sizes = data.draw(st.tuples(size, size) | st.just(sizes))
    along = (scaled.Along(low, high, "linear", antialias=True) for low, high in ((top, bottom), (left, right)))
    window = scaled._window(*along, image.shape, (*sizes, channels))
    if window is None:
        return
    mirrored = data.draw(st.booleans())
    expected, found = (np.full((*sizes, channels), 7, np.uint8) for _ in range(2))
    with _core.left_out():
        scaled.show(image, window, expected, mirrored=mirrored)
    parts, boxes = np.array([[*window.inside, *window.padding]] * 2), np.array([window.box] * 2)
    outs = np.full((2, *sizes, channels), 9, np.uint8)
    target = outs[:, ::-1] if (flipped := data.draw(st.booleans())) else outs
    assert resize.many(
        described([image] * 2), parts, boxes, described(list(target)), np.array([mirrored, not mirrored])
    )
    assert np.array_equal(target[0], expected)
    assert np.array_equal(target[1], expected[:, ::-1]), flipped
    rows, columns = window.inside[:2], window.inside[2:]
    part, around = image[slice(*rows), slice(*columns)], np.full((sizes[0], sizes[1] + 2, channels), 5, np.uint8)
    for beyond, target in ((16, found), (0, found[:, ::-1]), (0, around[:, 1:-1])):
        target[...] = 3
        assert resize.shown([(part, window.padding, window.box, target, mirrored)], beyond)
        assert np.array_equal(target, expected)
    assert (around[:, [0, -1]] == 5).all()
    apart = np.repeat(found, 2, axis=1)[:, ::2]
    assert not resize.shown([(part, window.padding, window.box, apart, mirrored)])


@given(data=st.data(), image=images())
@examples(4)
def test_bands(data: st.DataObject, image: np.ndarray) -> None:
    """Images that are resized in parts, however small the parts are."""
    steps = {}
    for axis, extent in enumerate(image.shape[:2]):
        start, end = data.draw(spans(extent))
        steps[axis] = scaled.Along(*data.draw(st.permutations([start, end])), "linear", antialias=True)
    size = st.integers(1, 60)
    outs = [np.zeros((data.draw(size), data.draw(size), image.shape[2]), np.uint8)]
    outs.append(np.ones_like(outs[0]))
    with bands_of(data.draw(st.sampled_from([1 << 10, 1 << 8, 1 << 12]))):
        with _core.left_out():
            taken = scaled.scale(image, steps, outs[0])
        assert scaled.scale(image, steps, outs[1]) == taken
    if taken:
        np.testing.assert_array_equal(outs[1], outs[0])


def test_filters_that_reach_too_far_are_refused() -> None:
    """There would be values that nobody has set."""
    image, out = np.zeros((1, 60, 3), np.uint8), np.zeros((1, 1, 3), np.uint8)
    box = 0.0, 0.0, 60.0, 1.0
    assert not resize.shown([(image, (0, 0, 0, 0), box, out, False)], 16)
    assert resize.shown([(image, (0, 0, 0, 0), box, out, False)])


@pytest.mark.parametrize("name", ["resize", "resize_crop_mirror"])
@given(data=st.data())
def test_any_call(name: str, data: st.DataObject) -> None:
    """Any call of an operator."""
    samples, layout, varying, fixed = data.draw(calls(registry[name]))
    if data.draw(st.booleans()):
        samples, fixed = [read_only(sample.astype(np.uint8)) for sample in samples], fixed | {"dtype": None}
    given = batch(samples, layout, dense=data.draw(st.booleans()))
    arguments = fixed | {key: ndd.as_batch(list(values)) for key, values in varying.items()}
    alike(lambda: called(name, given, arguments), shared=data.draw(st.booleans()))


def called(name: str, given: Any, arguments: dict[str, Any], *, rng: int | None = None) -> Any:
    """An operator, with a stream of its own if it is random."""
    stream = {} if rng is None else {"rng": ndd.random.RNG(rng)}
    return getattr(ndd, name)(given, **arguments, **stream)


_SIDES = st.integers(1, 40)


@given(data=st.data(), dense=st.booleans(), layout=st.sampled_from(["HWC", "HWC", "HW", "FHWC", "FHW", "CHW"]))
@examples(4)
def test_batches(data: st.DataObject, layout: str, *, dense: bool) -> None:
    """Batches of images and videos, shown in whole or in part, mirrored, at one size or at several."""
    channels, count = data.draw(st.integers(1, 5)) if "HWC" in layout else 1, data.draw(st.integers(2, 4))
    samples = [data.draw(images(channels)) for _ in range(count)]
    samples = samples[:1] * count if dense else samples
    if layout != "HWC":
        frames = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
        frames = frames[:1] * count if dense else frames
        samples = [np.stack([x, *[255 - x] * (n - 1)]) for n, x in zip(frames, samples, strict=True)]
        samples = [x if "HWC" in layout else x[..., 0] for x in samples]
        samples = [read_only(x[0] if layout == "HW" else x) for x in samples]
    given = batch(samples, layout, dense=dense)
    per_sample = lambda values: ndd.as_batch([data.draw(values) for _ in range(count)])  # noqa: E731
    signs = st.sampled_from([1, 1, -1])
    sizes = st.tuples(_SIDES, _SIDES, signs, signs).map(lambda x: [float(x[0] * x[2]), float(x[1] * x[3])])
    fixed: dict[str, Any] = {"interp_type": data.draw(st.sampled_from(["linear", "linear", "triangular", "cubic"]))}
    if data.draw(st.booleans()):
        corners = st.tuples(st.floats(-20, 60), st.floats(-20, 60)).map(list)
        fixed |= {"roi_start": per_sample(corners), "roi_end": per_sample(corners)}
    name = data.draw(st.sampled_from(["resize", "resize_crop_mirror", "random_resized_crop"]))
    if name == "random_resized_crop":
        arguments = {"size": data.draw(st.tuples(_SIDES, _SIDES)), "interp_type": fixed["interp_type"]}
    else:
        shorter = {"resize_shorter": per_sample(_SIDES.map(float))}
        arguments = fixed | data.draw(st.sampled_from([{"size": per_sample(sizes)}, {"size": [33, 9]}, shorter]))
    if name == "resize_crop_mirror":
        arguments |= {"crop": [9, 20], "mirror": per_sample(st.integers(0, 3))}
    seed = {"rng": data.draw(st.integers(0, 9))} if name.startswith("random") else {}
    alike(lambda: called(name, given, arguments, **seed), shared=data.draw(st.booleans()))


@given(data=st.data(), samples=st.lists(images(3), min_size=1, max_size=3))
def test_one_size(data: st.DataObject, samples: list[np.ndarray]) -> None:
    """A size of all images is as that size of each."""
    size = data.draw(st.tuples(_SIDES, _SIDES) | _SIDES)
    arguments = {"dtype": data.draw(st.sampled_from([None, "float32"])), "antialias": data.draw(st.booleans())}
    given = batch(samples, "HWC", dense=data.draw(st.booleans()))
    both = size if isinstance(size, tuple) else (size, size)
    found, expected = (
        ndd.resize(given, size=x, **arguments) for x in (size, ndd.as_batch([list(both)] * len(samples)))
    )
    assert all(map(np.array_equal, found.samples, expected.samples))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((1100, 1300), {"size": [224, 300]}),  # rows are made first
        ((900, 1300), {"size": [800, 300]}),  # in bands, and the edges by themselves
        ((700, 900), {"size": [1000, 1200], "roi_start": [-3.5, 2.25], "roi_end": [690.0, 899.5]}),
        ((40, 30_000), {"size": [40, 1500], "roi_start": [0.5, 7.0], "roi_end": [39.5, 29_000.0]}),
        ((1000, 1000), {"size": [-333, -777], "roi_start": [900.5, -9.0], "roi_end": [33.0, 1009.0]}),
    ],
)
def test_large_images(channels: int, shape: tuple[int, int], arguments: dict[str, Any]) -> None:
    """Images that are resized in parts, by themselves and beside small ones."""
    image = read_only(np.random.default_rng(channels).integers(0, 256, (*shape, channels), np.uint8))
    alike(lambda: ndd.resize(ndd.as_tensor(image, layout="HWC"), **arguments), shared=True)
    mixed = ndd.as_batch([image[:60, :70], image, image[:1, :1]], layout="HWC")
    alike(lambda: ndd.resize(mixed, **arguments), shared=True)
    alike(lambda: ndd.random_resized_crop(mixed, size=[200, 100], rng=ndd.random.RNG(3)), shared=True)
