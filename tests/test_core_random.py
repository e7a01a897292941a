"""Random numbers, noise and random windows by the native path have the bits of the Python path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import _core
from dynamic._base import pool
from dynamic._core import random as native_random
from dynamic.dtypes import convert
from dynamic.random import _distributions
from dynamic.random._philox import Draw, blocks

pytestmark = pytest.mark.skipif(not _core.in_use(), reason="the native library is not compiled, or DYNAMIC_CORE=0")

KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
#: Extents that end within groups of four, sixteen and sixty-four numbers, and in them.
SHAPES = [(), (0,), (1,), (3,), (7, 5), (31,), (32,), (33,), (2, 3, 11), (64,), (65,), (130,), (8193,), (9000, 2)]
FLOATS = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1e-45, -3e38, 3e38, 0.5])
PROBABILITIES = st.floats(0, 1, width=32)


def values_of(result: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Types, shapes and bits of results."""
    results = result if isinstance(result, tuple) else (result,)
    arrays = [a for x in results for a in (x.samples if isinstance(x, ndd.Batch) else [x.array])]
    return [(str(a.dtype), a.shape, a.tobytes()) for a in arrays]


@st.composite
def sources(draw: st.DrawFn) -> Callable[[int | None], Any]:
    """A function of the number of samples that makes a source, anew each time."""
    seed = draw(st.integers(0, 2**64 - 1))
    passed = draw(st.integers(0, 600) | st.integers(2**66 - 40, 2**66 + 40) | st.integers(2**130 - 40, 2**130 - 1))
    keyed = draw(st.booleans())
    ids = draw(st.integers(0, 2**64 - 1000))

    def made(n: int | None) -> Any:
        rng = ndd.random.RNG(seed)
        rng.advance(passed)
        if not keyed:
            return rng
        return rng.keyed(ids if n is None else [ids + 7 * i for i in range(n)])["name"]

    return made


def alike(make: Callable[[int | None], Any], n: int | None, call: Callable[..., Any]) -> None:
    """Compare both ways, on several numbers of threads, and where the sources stand after them."""
    native, python = make(n), make(n)
    sized = {} if n is None or not isinstance(native, ndd.random.RNG) else {"batch_size": n}
    found = values_of(call(rng=native, **sized))
    with _core.left_out():
        expected = values_of(call(rng=python, **sized))
    assert found == expected
    assert native.turn == python.turn
    with pool.sharing_all(), pool.limited(3):
        assert values_of(call(rng=make(n), **sized)) == expected


counts = st.none() | st.integers(0, 5) | st.integers(60, 70)


@st.composite
def parameters(draw: st.DrawFn, n: int | None, of: Any) -> Any:
    """A number for all samples, or a Batch of one for each."""
    if not n or draw(st.booleans()):
        return draw(of)
    values = draw(st.lists(of, min_size=1, max_size=4))
    return ndd.batch([values[i % len(values)] for i in range(n)], dtype="float64")


@st.composite
def shapes(draw: st.DrawFn, n: int | None) -> Any:
    """One shape, or a Batch whose shapes differ."""
    if not n or draw(st.booleans()):
        few = SHAPES if n is None or n < 10 else SHAPES[:-2]
        return {"shape": draw(st.sampled_from(few))}
    extents = draw(st.lists(st.sampled_from([0, 1, 5, 31, 33, 64, 100, 2500]), min_size=1, max_size=5))
    return ndd.batch([numpy.zeros(extents[i % len(extents)], numpy.uint8) for i in range(n)])


def called(function: Callable[..., Any], like: Any, arguments: dict[str, Any]) -> Callable[..., Any]:
    """A function of the source alone."""

    def call(rng: Any, batch_size: int | None = None) -> Any:
        if isinstance(like, dict):
            return function(**arguments, **like, rng=rng, batch_size=batch_size)
        return function(like, **arguments, rng=rng)

    return call


@settings(max_examples=60)
@given(st.data(), sources(), counts, st.sampled_from(KINDS))
def test_uniform(data: st.DataObject, make: Any, n: int | None, kind: str) -> None:
    """Numbers of a range: of one range, or one of each sample."""
    low, extent = data.draw(st.floats(-100, 90, width=32)), data.draw(st.floats(0.125, 300, width=32))
    bounds: Any = (low, low + extent) if not kind.startswith("u") else (abs(low), abs(low) + extent + 2)
    if n and data.draw(st.booleans()):
        bounds = ndd.batch([numpy.array([bounds[0], bounds[1] + i]) for i in range(n)])
    like = data.draw(shapes(n))
    alike(make, n, called(ndd.random.uniform, like, {"range": bounds, "dtype": kind}))


@pytest.mark.parametrize(
    "bounds", [(0, 1), (-1, 1), (0.1, 0.3), (-1e-40, 1e-40), (1e-45, 3e-45), (-3e38, 1e37), (1, 1.5)]
)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_uniform_of_ranges_where_rounding_matters(bounds: tuple[float, float], kind: str) -> None:
    """Products and sums are rounded once, also between two float32 and below the normal ones."""
    alike(lambda _: ndd.random.RNG(7), 3, lambda **k: ndd.random.uniform(range=bounds, shape=70_000, dtype=kind, **k))


@settings(max_examples=60)
@given(st.data(), sources(), counts, st.sampled_from(KINDS))
def test_normal(data: st.DataObject, make: Any, n: int | None, kind: str) -> None:
    """Moments of all samples or of each, as large as float32 holds."""
    moments = {"mean": data.draw(parameters(n, FLOATS)), "stddev": data.draw(parameters(n, FLOATS))}
    alike(make, n, called(ndd.random.normal, data.draw(shapes(n)), {**moments, "dtype": kind}))


@settings(max_examples=60)
@given(st.data(), sources(), counts, st.sampled_from([*KINDS, "bool"]))
def test_coin_flip(data: st.DataObject, make: Any, n: int | None, kind: str) -> None:
    """Any probability, any dtype."""
    arguments = {"probability": data.draw(parameters(n, PROBABILITIES)), "dtype": kind}
    alike(make, n, called(ndd.random.coin_flip, data.draw(shapes(n)), arguments))


@st.composite
def images(draw: st.DrawFn, kind: str) -> Any:
    """A Tensor or Batch of images: dense or ragged, contiguous or not, read-only."""
    rng = numpy.random.default_rng(draw(st.integers(0, 100)))
    channels = draw(st.sampled_from([1, 3, 4]))

    def image(height: int, width: int) -> Any:
        values = rng.integers(0, 256, (height, width, channels)).astype(kind)
        values = values[::-1, :, :] if draw(st.booleans()) else values
        if values.size and draw(st.booleans()):  # in memory that is not aligned
            values = numpy.frombuffer(b"\0" + values.tobytes(), kind, offset=1).reshape(values.shape)
        values.setflags(write=False)
        return values

    extents = draw(st.lists(st.sampled_from([(1, 1), (5, 6), (17, 33), (0, 4), (64, 64)]), min_size=1, max_size=4))
    way = draw(st.sampled_from(["tensor", "dense", "ragged"]))
    if way == "tensor":
        return ndd.tensor(image(*extents[0]), layout="HWC")
    if way == "dense":
        return ndd.batch([image(*extents[0]) for _ in range(3)], layout="HWC")
    return ndd.batch([image(*each) for each in extents], layout="HWC")


@settings(max_examples=60)
@given(st.data(), sources(), st.sampled_from(KINDS))
def test_gaussian_noise(data: st.DataObject, make: Any, kind: str) -> None:
    """Of any dtype."""
    image = data.draw(images(kind))
    n = len(image) if isinstance(image, ndd.Batch) else None
    moments = {"mean": data.draw(parameters(n, FLOATS)), "stddev": data.draw(parameters(n, FLOATS))}
    alike(make, n, lambda **k: ndd.noise.gaussian(image, **moments, **k))


@settings(max_examples=60)
@given(st.data(), sources(), st.sampled_from(["uint8", "int8", "float32", "uint16"]))
def test_shot_noise(data: st.DataObject, make: Any, kind: str) -> None:
    """Of few photons, of many, and of none."""
    image = data.draw(images(kind))
    n = len(image) if isinstance(image, ndd.Batch) else None
    factors = st.sampled_from([0.0, 20.0, 22.5, 100.0, 3.0, 1e-44, 3e38]) | st.floats(0, 300, width=32)
    alike(make, n, lambda factor=data.draw(parameters(n, factors)), **k: ndd.noise.shot(image, factor=factor, **k))


@settings(max_examples=60)
@given(st.data(), sources(), st.sampled_from([*KINDS, "bool"]))
def test_salt_and_pepper(data: st.DataObject, make: Any, kind: str) -> None:
    """Of pixels and of channels, with levels of all samples or of each."""
    image = data.draw(images(kind))
    n = len(image) if isinstance(image, ndd.Batch) else None
    arguments = {name: data.draw(parameters(n, PROBABILITIES)) for name in ("prob", "salt_vs_pepper")}
    if data.draw(st.booleans()):
        arguments["salt_val"] = data.draw(parameters(n, st.floats(-300, 300, width=32)))
    apart = data.draw(st.booleans())
    alike(make, n, lambda **k: ndd.noise.salt_and_pepper(image, **arguments, per_channel=apart, **k))


EXTENTS = st.integers(1, 40) | st.integers(100, 5000) | st.sampled_from([1 << 20, (1 << 20) + 1, (1 << 31) - 1])
RATIOS = st.floats(0.0625, 100, width=32) | st.sampled_from([1e-44, 1e-3, 1.0, 1e4, 3e38])


@settings(max_examples=150)
@given(st.data(), sources(), st.none() | st.integers(1, 40))
def test_windows_of_images(data: st.DataObject, make: Any, n: int | None) -> None:
    """Of any images, also such that never fit, or only by the words of many attempts."""
    image = st.tuples(EXTENTS, EXTENTS)
    if n is None:
        shape: Any = numpy.array(data.draw(image))
    else:
        some = data.draw(st.lists(image, min_size=1, max_size=5))
        shape = ndd.batch([numpy.array(some[i % len(some)]) for i in range(n)])
    area = sorted(data.draw(st.tuples(*[st.floats(0, 1.5, width=32) | st.sampled_from([0.0, 5000.0, 3e38])] * 2)))
    ratio = sorted(data.draw(st.tuples(RATIOS, RATIOS)))
    attempts = data.draw(st.integers(1, 40))
    arguments = {"random_area": area, "random_aspect_ratio": ratio, "num_attempts": attempts}
    alike(make, n, called(ndd.random_crop_generator, shape, arguments))


@settings(max_examples=150)
@given(st.data(), sources(), st.none() | st.integers(1, 20), st.sampled_from([2, 3]))
def test_windows_of_boxes(data: st.DataObject, make: Any, n: int | None, dims: int) -> None:
    """Of boxes that lie anywhere, also of none, for any rules, with and without extents of images."""
    numbers = numpy.random.default_rng(data.draw(st.integers(0, 1000)))

    def boxes(count: int) -> Any:
        ends = numpy.sort(numbers.random((2, count, dims)) ** data.draw(st.sampled_from([1, 4])), axis=0)
        return numpy.concatenate(list(ends), axis=1).astype("float32")

    counted = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    given_boxes = boxes(counted[0]) if n is None else ndd.batch([boxes(counted[i % len(counted)]) for i in range(n)])
    scaling = data.draw(st.sampled_from([(0.3, 1.0), (0.01, 0.1), (0.0, 2.0), (0.0, 0.0), (1.0, 1.0)]))
    ratios = data.draw(st.sampled_from([(0.5, 2.0), (0.9, 1.1), (1.0, 1.0), (0.0, 1e30), (5.0, 6.0)]))
    thresholds = data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), min_size=1, max_size=4))
    arguments = {
        "scaling": scaling,
        "aspect_ratio": ratios,
        "thresholds": thresholds,
        "num_attempts": data.draw(st.integers(1, 20)),
        "total_num_attempts": data.draw(st.integers(1, 200)),
        "allow_no_crop": data.draw(st.booleans()),
        "all_boxes_above_threshold": data.draw(st.booleans()),
        "threshold_type": data.draw(st.sampled_from(["iou", "overlap"])),
        "bbox_prune_threshold": data.draw(st.sampled_from([None, 0.0, 0.4, 1.0])),
        "output_bbox_indices": True,
        "quiet": True,
    }
    if data.draw(st.booleans()):
        arguments["input_shape"] = [300, 200, 100][:dims]
    alike(make, n, called(ndd.random_bbox_crop, given_boxes, arguments))


@pytest.mark.parametrize("kind", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("size", [1, 70])
def test_normal_numbers_of_a_word_that_is_zero(kind: str, size: int) -> None:
    """Its logarithm is that of another number. One word of 2**32 is zero: this place has been searched for."""
    key, low, high, phase = 13114280178994312041, 17645874947059531727, 10872105802456032359, 3
    draw = Draw(key, low, numpy.array([high], numpy.uint64), phase)
    dtype = numpy.dtype(kind)
    found = native_random.normal(draw, size, size, (numpy.float32(3), numpy.float32(2)), dtype)
    words = draw.words(numpy, slice(0, 1), range(size), 4 if kind == "float64" else 2)
    assert words[0][0] == 0
    values = _distributions.normal(numpy, words)
    expected = convert(numpy, _distributions.scaled(numpy, values, numpy.float32(3), numpy.float32(2)), dtype)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_call_that_fails_gives_its_draw_back(monkeypatch: pytest.MonkeyPatch, *, keyed: bool) -> None:
    """Also where it fails as the native path has begun."""

    def none(shape: tuple[int, ...], dtype: Any) -> Any:
        if len(shape) == 1:  # results: words come before them
            raise MemoryError("There is none.")
        return empty(shape, dtype)

    stream = ndd.random.RNG(5)
    source = stream.keyed([3, 4, 5]) if keyed else stream
    before, empty = source.turn, native_random.empty
    image = numpy.zeros((5, 6, 3), numpy.uint8)
    monkeypatch.setattr(native_random, "empty", none)
    calls = (ndd.random.uniform, ndd.random.normal, ndd.random.coin_flip)
    for function in calls:
        with pytest.raises(MemoryError):
            function(batch_size=3, rng=source)
    for noise in (ndd.noise.gaussian, ndd.noise.shot, ndd.noise.salt_and_pepper):
        with pytest.raises(MemoryError):
            noise(ndd.batch([image] * 3), rng=source)
    assert source.turn == before


WORDS64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64 - 1])


@given(WORDS64, st.lists(WORDS64, max_size=70), WORDS64 | st.none(), st.permutations(range(4)))
def test_blocks_of_words(key: int, upper: list[int], low: int | None, wanted: list[int]) -> None:
    """Of any counters, with lower halves for all or for each."""
    high = numpy.array(upper, numpy.uint64)
    lower = high[::-1] if low is None else low
    found = blocks(numpy, key, lower, high, wanted)
    with _core.left_out():
        expected = blocks(numpy, key, lower, high, wanted)
    assert [words.tolist() for words in found] == [words.tolist() for words in expected]


@given(st.data(), sources(), st.none() | st.integers(1, 5))
def test_choices(data: st.DataObject, make: Any, n: int | None) -> None:
    """Items, with probabilities and without, and numbers that reject some of their words."""
    items = data.draw(st.sampled_from([1, 7, 3_000_000_000, 2**40, [[1, 2], [3, 4], [5, 6]]]))
    p = data.draw(st.sampled_from([None, [0.25, 0.25, 0.5]])) if isinstance(items, list) else None
    shape = data.draw(st.sampled_from([(), (3,), (700,)]))
    alike(make, n, lambda **k: ndd.random.choice(items, p=p, shape=shape, **k))
