"""Values to test with: arrays of every kind, and arguments of any operator, drawn from its own declaration."""

from __future__ import annotations

import functools
import io
import types
from typing import Annotated, Any, Union, get_args, get_origin

import corpus
import numpy as np
import pytest
from fitting import FITTING
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dynamic import dtypes
from dynamic._lift.argument import Between, Numbers, Word
from dynamic._lift.operator import Operator

ALL_DTYPES = [np.dtype(t.word) for t in dtypes.ALL]
INTEGERS = [d for d in ALL_DTYPES if d.kind in "iu"]
FLOATS = [d for d in ALL_DTYPES if d.kind == "f"]
EXTENTS = {"H": (1, 9), "W": (1, 9), "D": (1, 4), "F": (1, 3), "C": (1, 5), "f": (1, 9), "t": (1, 9)}

IMAGES = (None, None, "HW", "HWC", "CHW", "FHW", "DHWC", "WC")
SOUND = (None, None, "f", "ft", "tf")

any_dtype = st.sampled_from(ALL_DTYPES)
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def examples(share: float) -> settings:
    """So many times the examples that other properties are tried with, in each profile of `conftest.py`."""
    return settings(max_examples=max(1, round(settings.default.max_examples * share)))


def elements(dtype: np.dtype[Any]) -> st.SearchStrategy[Any] | None:
    """Numbers of a dtype without NaN, which is equal to nothing; small floats, so that sums stay finite."""
    if dtype.kind == "f":
        return st.floats(-1000, 1000, width=16).map(dtype.type)
    return None


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@functools.cache
def a_few(dtype: np.dtype[Any]) -> st.SearchStrategy[list[Any]]:
    """Some numbers of a dtype, of which arrays are filled."""
    numbers = elements(dtype)
    return st.lists(npst.from_dtype(dtype) if numbers is None else numbers, min_size=1, max_size=4)


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], values: list[Any], seed: int, rarity: int) -> np.ndarray:
    """An array of some values in any places; with a high rarity, most places have the first.

    Hypothesis draws the values and NumPy the places: drawing each place took most of the time of all tests.
    """
    places = np.asarray(np.random.default_rng(seed).random(shape) ** rarity * len(values)).astype(int)
    return np.array(values, dtype)[places]


def noise(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> np.ndarray:
    """Numbers all different and of many digits: in what is drawn else, ways to round seldom differ."""
    generator = np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.asarray(
        generator.uniform(-1000, 1000, shape) if dtype.kind == "f" else generator.random(shape) < 0.5, dtype
    )


@st.composite
def arrays(draw: st.DrawFn, dtype: Any = any_dtype, shape: Any = shapes, *, any_order: bool = True) -> np.ndarray:
    """A read-only array: contiguous, transposed, reversed or strided, in either byte order."""
    dtype = draw(dtype) if isinstance(dtype, st.SearchStrategy) else np.dtype(dtype)
    shape = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    seed = draw(st.integers(0, 999))
    if draw(st.booleans()):
        array = noise(shape, dtype, seed)
    else:
        array = np.asarray(filled(shape, dtype, draw(a_few(dtype)), seed, draw(st.integers(1, 4))))
    if any_order and array.ndim:
        kind = draw(st.sampled_from(["as it is", "Fortran", "reversed", "strided", "swapped"]))
        if kind == "Fortran":
            array = np.asfortranarray(array)
        elif kind == "reversed":
            array = array[::-1].copy()[::-1]
        elif kind == "strided":
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        elif kind == "swapped":
            array = array.astype(array.dtype.newbyteorder())
    return read_only(array)


def argument_values(plain: Any) -> st.SearchStrategy[Any]:
    """Values that an annotation allows."""
    origin, parts = get_origin(plain), get_args(plain)
    if origin is Annotated:
        return _marked(*parts)
    if origin in (Union, types.UnionType):
        return st.one_of([argument_values(p) for p in parts if p is not type(None)])
    if origin is tuple and parts[1:] == (...,):
        return st.lists(argument_values(parts[0]), min_size=1, max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(argument_values, parts))
    return {
        float: st.floats(-400, 400, width=32),
        int: st.integers(-3, 3),
        bool: st.booleans(),
        str: st.text(max_size=3),
    }[plain]


def _marked(inner: Any, mark: Any) -> st.SearchStrategy[Any]:
    if isinstance(mark, Word):
        return st.sampled_from(list(mark.spellings))
    if isinstance(mark, Between):
        low, high = max(mark.low, -400), min(mark.high, 12 if mark.low >= 0 else 400)
        if inner is int:
            return st.integers(int(low), int(high)) | st.just(2**31 if mark.high > 2**31 else int(high))
        return st.floats(low, high, width=32)
    if mark == get_args(Numbers)[1]:
        shapes = npst.array_shapes(min_dims=0, max_dims=2, max_side=4)
        return st.floats(-400, 400, width=32) | npst.arrays(np.float32, shapes, elements=st.floats(-9, 9, width=16))
    return st.sampled_from([t.word for t in dtypes.ALL if t.kind is not dtypes.DType.Kind.bool])


def npy_file(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> np.ndarray:
    """The bytes of a ``.npy`` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return read_only(np.frombuffer(file.getvalue(), np.uint8))


@st.composite
def files_of_arrays(draw: st.DrawFn, n: int) -> list[np.ndarray]:
    """Files of `n` arrays of one dtype and number of dimensions; their bytes lie side by side, or apart."""
    dtype, ndim = draw(any_dtype), draw(st.integers(0, 3))
    shapes = st.tuples(*[st.integers(0, 4)] * ndim)
    versions = st.sampled_from([(1, 0), (2, 0), (3, 0)])
    files = [npy_file(draw(arrays(dtype, shapes)), draw(versions)) for _ in range(n)]
    return [read_only(np.repeat(file, 2)[::2]) if draw(st.booleans()) else file for file in files]


@st.composite
def images(draw: st.DrawFn, operator: Operator, n: int) -> tuple[list[np.ndarray], str | None]:
    """`n` samples that an operator accepts, of one dtype and layout, ragged or alike."""
    if operator.name == "decoders.numpy":
        return draw(files_of_arrays(n)), None
    if operator.name == "decoders.audio":
        files = [read_only(np.frombuffer(file, np.uint8)) for file in corpus.small_sounds().values()]
        return draw(st.lists(st.sampled_from(files), min_size=n, max_size=n)), None
    if operator.name == "decoders.video":
        pytest.importorskip("av", reason="PyAV is not installed")
        import videos

        files = [read_only(np.frombuffer(videos.video(name).data, np.uint8)) for name in videos.SMALL]
        return draw(st.lists(st.sampled_from(files), min_size=n, max_size=n)), None
    if operator.__module__ == "dynamic.decoders":
        files = [read_only(np.frombuffer(file, np.uint8)) for file in corpus.small_files().values()]
        return draw(st.lists(st.sampled_from(files), min_size=n, max_size=n)), None
    usual = (
        SOUND if operator.__module__ == "dynamic.ops.sound" else (None, None, "HW", "HWC", "CHW", "FHW", "DHWC", "WC")
    )
    layout = draw(st.sampled_from(operator.layouts or usual))
    dtype = draw(st.sampled_from(sorted(operator.dtypes, key=str)))
    ndim = len(layout) if layout else draw(st.integers(0, 3))
    extents = [st.integers(*EXTENTS[letter]) for letter in layout] if layout else [st.integers(1, 4)] * ndim
    shape = st.tuples(*extents)
    if draw(st.booleans()):
        shape = st.just(draw(shape))
    return [draw(arrays(dtype, shape)) for _ in range(n)], layout


def _like_first(first: Any, value: Any) -> Any:
    """A value as long as the first one: a tuple of as many, or a single one."""
    if isinstance(first, tuple):
        return (value * len(first))[: len(first)] if isinstance(value, tuple) else (value,) * len(first)
    return value[0] if isinstance(value, tuple) else value


@st.composite
def calls(draw: st.DrawFn, operator: Operator, n: int | None = None) -> Any:
    """Samples with their layout, arguments for each sample, and arguments for all, of one call."""
    n = draw(st.integers(1, 4)) if n is None else n
    samples, layout = draw(images(operator, n))
    varying: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    for name, argument in operator.arguments.items():
        if not argument.required and draw(st.booleans()):
            continue
        values = argument_values(argument.plain)
        if argument.per_sample and draw(st.booleans()):
            first = draw(values)
            values = values.map(functools.partial(_like_first, first))
            varying[name] = [first, *(draw(values) for _ in range(n - 1))]
        else:
            fixed[name] = draw(values)
    _put_together(operator, samples, layout, varying, fixed)
    if operator.name in FITTING:
        FITTING[operator.name](draw, samples, layout, varying, fixed)
    return samples, layout, varying, fixed


def _put_together(
    operator: Operator,
    samples: list[np.ndarray],
    layout: str | None,
    varying: dict[str, list[Any]],
    fixed: dict[str, Any],
) -> None:
    """Make arguments that go together: extents for all spatial dimensions, values for all channels."""
    letters = layout or ""
    spatial = sum(letter in "DHW" for letter in letters)
    channels = {sample.shape[letters.index("C")] for sample in samples} if "C" in letters else {1}

    def fitting(argument: Any, value: Any) -> Any:
        if not isinstance(value, tuple) or not _is_open(argument.plain):
            return value
        extents = "Between(low=0" in str(argument.plain)
        length = spatial if extents else (min(channels) if len(value) > 1 and len(channels) == 1 else 1)
        return (value * 5)[: max(1, length)]

    for name, argument in operator.arguments.items():
        if name in fixed:
            fixed[name] = fitting(argument, fixed[name])
        if name in varying:
            varying[name] = [fitting(argument, value) for value in varying[name]]
    for name in [*fixed, *varying]:
        for letter in "dhw":  # an extent for all dimensions excludes those for each
            fixed.pop(f"{name}_{letter}", None)
            varying.pop(f"{name}_{letter}", None)
    fixed.pop("on_error", None)  # a batch that leaves samples out is not its samples
    if "out_of_bounds_policy" in operator.arguments and fixed.get("out_of_bounds_policy", "error") == "error":
        fixed["out_of_bounds_policy"] = "pad"


def _is_open(plain: Any) -> bool:
    """Whether an annotation allows sequences of any length."""
    return "..." in str(plain) or "Ellipsis" in str(plain)
