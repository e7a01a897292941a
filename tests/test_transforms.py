"""Affine transforms as matrices: what they do to points, in plain NumPy, and as DALI makes them."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

from dynamic import (
    ArgumentError,
    Batch,
    DeviceError,
    Tensor,
    as_batch,
    as_tensor,
    coord_transform,
    per_frame,
    transforms,
    warp_affine,
)
from dynamic.transforms import combine, crop, rotation, scale, shear, translation

numbers = st.floats(-9, 9, width=16)
FUNCTIONS = [getattr(transforms, name) for name in transforms.__all__]
SQUARE = np.array([[1, 2, 3], [4, 5, 6], [0, 0, 1]], np.float32)


def vectors(n: int) -> st.SearchStrategy[list[float]]:
    return st.lists(numbers, min_size=n, max_size=n)


@st.composite
def calls(draw, dims=None):
    """A function, its arguments, and what it does to a point, in float64."""
    dims = draw(st.integers(2, 3)) if dims is None else dims
    name = draw(st.sampled_from(["translation", "scale", "rotation", "shear", "crop"]))
    center = draw(vectors(dims))
    about = np.array(center)
    if name == "translation":
        offset = draw(vectors(dims))
        return name, {"offset": offset}, lambda p: p + offset
    if name == "scale":
        factors = draw(vectors(dims))
        return name, {"scale": factors, "center": center}, lambda p: factors * (p - about) + about
    if name == "rotation":
        angle = draw(st.floats(-400, 400, width=32))
        if dims == 2:
            turn = by_complex(math.radians(angle))
            return name, {"angle": angle, "center": center}, lambda p: turn(p - about) + about
        axis = draw(vectors(3).filter(lambda v: np.hypot.reduce(v) > 0.1))
        turn = by_rodrigues(math.radians(angle), np.array(axis) / np.linalg.norm(axis))
        return name, {"angle": angle, "axis": axis, "center": center}, lambda p: turn(p - about) + about
    if name == "shear":
        angles = draw(st.lists(st.floats(-64, 64, width=16), min_size=dims * (dims - 1), max_size=dims * (dims - 1)))
        factors = np.tan(np.radians(angles)).tolist()
        given_ = draw(st.sampled_from([{"angles": np.reshape(angles, (dims, -1)).tolist()}, {"shear": factors}]))
        return name, {**given_, "center": center}, lambda p: sheared(factors, p - about) + about
    start, extents, to = draw(vectors(dims)), draw(vectors(dims)), draw(vectors(dims))
    end = [s + (e if abs(e) > 0.1 else 1) for s, e in zip(start, extents, strict=True)]
    corners = {"from_start": start, "from_end": end, "to_start": to, "to_end": center}
    return name, corners, lambda p: to + (p - start) * (about - to) / (np.array(end) - start)


def by_complex(radians):
    def turn(p):
        turned = (p[..., 0] + 1j * p[..., 1]) * np.exp(1j * radians)
        return np.stack([turned.real, turned.imag], axis=-1)

    return turn


def by_rodrigues(radians, axis):
    cos, sin = math.cos(radians), math.sin(radians)
    return lambda p: p * cos + np.cross(axis, p) * sin + np.outer(p @ axis, axis) * (1 - cos)


def sheared(factors, p):
    dims = p.shape[-1]
    others = [[j for j in range(dims) if j != i] for i in range(dims)]
    each = np.reshape(factors, (dims, dims - 1))
    return np.stack([p[..., i] + p[..., others[i]] @ each[i] for i in range(dims)], axis=-1)


def near(found, expected) -> bool:
    scale_ = 1 + np.abs(expected).max(initial=0)
    return bool(np.abs(found - expected).max(initial=0) <= 1e-4 * scale_)


@given(st.data(), calls())
def test_a_transform_does_to_points_what_it_says(data, call):
    name, arguments, does = call
    dims = len(next(v for k, v in arguments.items() if k in {"offset", "center", "to_end"}))
    points = np.array(data.draw(st.lists(vectors(dims), min_size=1, max_size=4)))
    matrix = getattr(transforms, name)(**arguments)
    assert isinstance(matrix, Tensor)
    assert (matrix.shape, matrix.dtype, matrix.layout) == ((dims, dims + 1), "float32", "**")
    found = coord_transform(points, MT=matrix, dtype="float64").array
    size = 1 + np.abs(matrix.array).max() * (1 + np.abs(points).max())
    assert np.abs(found - does(points)).max() <= 1e-5 * size


@given(calls(), st.integers(1, 4), st.integers(0, 7), st.sampled_from(["float32", "float64", ">f4"]))
def test_a_batch_is_its_samples(call, n, which, dtype):
    name, arguments, _ = call
    function = getattr(transforms, name)
    varying = {key: np.array([np.multiply(value, 1 + i / 8) for i in range(n)], dtype)
               for i_, (key, value) in enumerate(arguments.items()) if which >> i_ & 1}  # fmt: skip
    batches = {key: as_batch(values) for key, values in varying.items()}
    one_by_one = {key: as_batch(list(values)) for key, values in varying.items()}
    more = {} if varying else {"batch_size": n}
    whole = function(**{**arguments, **batches}, **more)
    assert isinstance(whole, Batch)
    assert (len(whole), whole.layout, whole.dtype) == (n, "**", "float32")
    assert whole.whole is not None
    again = function(**{**arguments, **one_by_one}, **more)
    for i in range(n):
        alone = function(**{**arguments, **{key: values[i] for key, values in varying.items()}})
        np.testing.assert_allclose(whole[i].array, alone.array, rtol=1e-6, atol=1e-6)
        assert np.array_equal(again[i].array, whole[i].array)


@given(st.data(), st.integers(2, 3), st.booleans())
def test_an_input_is_applied_before_or_after(data, dims, reverse):
    first, second = data.draw(calls(dims)), data.draw(calls(dims))
    before = getattr(transforms, first[0])(**first[1])
    alone = getattr(transforms, second[0])(**second[1])
    together = getattr(transforms, second[0])(before, **second[1], reverse_order=reverse)
    order = (alone, before) if reverse else (before, alone)
    inner, outer = (np.vstack([m.array.astype(float), np.eye(dims + 1)[-1]]) for m in order)
    expected = (outer @ inner)[:-1]
    assert near(together.array, expected)
    assert near(combine(before, alone, reverse_order=reverse).array, expected)
    each = getattr(transforms, second[0])(as_batch([before, before]), **second[1], reverse_order=reverse)
    assert all(np.array_equal(sample, together.array) for sample in each.samples)


def test_many_are_combined_in_their_order():
    double, right, up = scale(scale=[2, 2]), translation(offset=[1, 0]), translation(offset=[0, 1])
    assert combine(double, right, up).tolist() == [[2, 0, 1], [0, 2, 1]]
    assert combine(right, up, double).tolist() == [[2, 0, 2], [0, 2, 2]]
    assert combine(right, up, double, reverse_order=True).tolist() == [[2, 0, 1], [0, 2, 1]]
    assert combine(right).tolist() == right.tolist()
    batch = combine(as_batch([double, right]), up)
    assert batch[0].tolist() == [[2, 0, 0], [0, 2, 1]]
    assert combine(up, up, batch_size=3).shape == [(2, 3)] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (2, 2), (3, 2), (3, 3), (4, 4), (5, 3)])
def test_a_point_becomes_the_same_wherever_it_is(dtype, rows, columns):
    """Among few or many, at the beginning or at the end."""
    generator = np.random.default_rng(rows)
    points = generator.uniform(-900, 900, (300, columns)).astype(dtype)
    matrix, shift = generator.normal(size=(rows, columns)), generator.normal(size=rows)
    expected = coord_transform(points, M=matrix, T=shift).numpy()
    for first, count in [*((0, n) for n in range(1, 135)), *((n, 200) for n in range(1, 20))]:
        some = slice(first, first + count)
        found = coord_transform(points[some], M=matrix, T=shift)
        np.testing.assert_array_equal(found.numpy(), expected[some])


@pytest.mark.parametrize("dims", [3, 5])
def test_points_beyond_float32_are_infinite(dims):
    points = np.full((2, dims), 3e38, np.float32)
    assert np.isposinf(coord_transform(points, M=np.full((dims, dims), 9.0)).numpy()).all()


def test_a_matrix_may_be_given_in_many_forms():
    expected = translation(SQUARE[:2], offset=[1, 1]).tolist()
    assert expected == [[1, 2, 4], [4, 5, 7]]
    for form in (SQUARE, SQUARE[:2].tolist(), SQUARE.ravel().tolist(), [1, 2, 3, 4, 5, 6], as_tensor(SQUARE),
                 SQUARE.astype(">f8"), SQUARE.astype("u1"), SQUARE[::-1][::-1][:2]):  # fmt: skip
        assert translation(form, offset=[1, 1]).tolist() == expected
        assert combine(form, translation(offset=1 + np.zeros(2))).tolist() == expected
        assert translation(as_batch([form]), offset=[1, 1])[0].tolist() == expected


def test_one_number_is_for_all_dimensions():
    assert scale(scale=2.0, ndim=2).tolist() == [[2, 0, 0], [0, 2, 0]]
    assert scale(scale=2.0).tolist() == [[2, 0]]
    assert scale(scale=2.0, center=[1, 1, 1]).shape == (3, 4)
    assert scale(SQUARE, scale=2.0).tolist() == (2 * SQUARE[:2]).tolist()
    assert scale(scale=[2, 3], center=1).tolist() == [[2, 0, -1], [0, 3, -2]]
    assert translation(SQUARE, offset=1).tolist() == [[1, 2, 4], [4, 5, 7]]
    assert crop(from_start=[1, 2], from_end=3).tolist() == [[0.5, 0, -0.5], [0, 1, -2]]
    assert crop().tolist() == [[1, 0]]
    assert rotation(angle=90, center=1).tolist() == [[0, -1, 2], [1, 0, 0]]


def test_quarter_turns_are_exact():
    for quarters in range(-5, 6):
        cos, sin = [(1, 0), (0, 1), (-1, 0), (0, -1)][quarters % 4]
        assert rotation(angle=90 * quarters).tolist() == [[cos, -sin, 0], [sin, cos, 0]]
    batch = rotation(angle=as_batch([90.0, 30.0]))
    assert batch[0].tolist() == [[0, -1, 0], [1, 0, 0]]
    assert batch[1].tolist() == rotation(angle=30.0).tolist()


def test_absolute_swaps_corners():
    corners = {"from_start": [1, 2], "from_end": [0, 5], "to_start": [0, 1], "to_end": [1, 0]}
    swapped = {"from_start": [0, 2], "from_end": [1, 5], "to_start": [0, 0], "to_end": [1, 1]}
    assert crop(**corners, absolute=True).tolist() == crop(**swapped).tolist()
    assert crop(**corners).tolist() != crop(**swapped).tolist()


@pytest.mark.parametrize(("call", "told"), [
    (lambda: translation(SQUARE, offset=[1, 2, 3]), r"transforms.translation\(\): argument 'offset' must be for 2 dim"),
    (lambda: translation(offset="ab"), "'offset' must be (a )?finite"),
    (lambda: translation(offset=[1, np.nan]), "'offset' must be (a )?finite"),
    (lambda: translation(offset=as_batch([[1.0, 2.0], [np.inf, 0.0]])), r"'offset\[1\]' must be (a )?finite"),
    (lambda: translation(offset=as_batch([[1.0, 2.0], [1.0]])), "'offset' must be as many numbers for one sample"),
    (lambda: translation(), "'offset' must be"), (lambda: translation(offset=None), "'offset' must be"),
    (lambda: translation(np.eye(2, 5), offset=[1, 2]), "'input' must be a finite matrix of n rows and n"),
    (lambda: translation([1, 2, 3], offset=[1, 2]), "'input' must be a finite matrix"),
    (lambda: combine([1, 2, 3, 4, 5]), r"'input' must be a finite matrix of n rows.*got shape \(5,\)"),
    (lambda: combine(as_batch(np.zeros((0, 5)))), r"'input' must be a finite matrix of n rows.*got shape \(0, 5\)"),
    (lambda: translation(offset=as_batch(np.array([1, np.inf], "f2"))), r"'offset\[1\]' must be (a )?finite"),
    (lambda: combine(np.array([[1, np.inf]], "f2")), "'input' must be a finite matrix of float32 numbers"),
    (lambda: translation(SQUARE * np.nan, offset=[1, 2]), "'input' must be a finite matrix"),
    (lambda: translation(2 * np.eye(3), offset=[1, 2]), "'input' must be affine"),
    (lambda: translation(SQUARE, SQUARE, offset=[1, 2]), r"takes 1 positional argument \(input\)"),
    (lambda: rotation(45), "'angle' must be a finite number.*A positional argument is a transform.*by name"),
    (lambda: translation(offset=10**400), "'offset' must be finite numbers"),
    (lambda: translation(offset=1e39), "'offset' must be finite float32 numbers"),
    (lambda: translation(offset=[1, -1e39]), "'offset' must be finite float32 numbers"),
    (lambda: translation(offset=as_batch(np.array([[1.0, 2.0], [0.0, 1e39]]))), r"'offset\[1\]' must be finite f"),
    (lambda: rotation(angle=10**400), "'angle' must be a finite number"),
    (lambda: rotation(angle=as_batch(np.array([1, 1e39]))), r"'angle\[1\]' must be finite float32"),
    (lambda: translation(np.eye(2, 3) * 1e39, offset=[1, 2]), "'input' must be a finite matrix of float32 numbers"),
    (lambda: translation(offset=[1], device="cpuu"), r"transforms.translation\(\): argument 'device'"),
    (lambda: translation(offset=[1], batch_size=10**30), r"transforms.translation\(\): argument 'batch_size'"),
    (lambda: translation(offset=[1], ofset=1), "Did you mean 'offset'"),
    (lambda: translation(offset=[1], reverse_order="no"), "'reverse_order' must be True or False"),
    (lambda: translation(offset=[1], batch_size=-1), "'batch_size' must be"),
    (lambda: translation(offset=as_batch([1.0]), batch_size=2), "'offset' must be a Batch of 2"),
    (lambda: rotation(angle=[1, 2]), "'angle' must be a finite number"),
    (lambda: rotation(angle=as_batch([[1.0, 2.0]])), r"'angle\[0\]' must be a finite number"),
    (lambda: rotation(angle=1, axis=[0, 0, 0]), "'axis' must be three numbers"),
    (lambda: rotation(angle=1, axis=[0, 1]), "'axis' must be three numbers"),
    (lambda: rotation(angle=1, center=[1, 2, 3]), "'center' must be one number or 2"),
    (lambda: rotation(np.eye(3, 4), angle=1), "'input' must be a transform of 2 dim.*need axis="),
    (lambda: scale(scale=[1, 2], ndim=3), "'scale' must be for 3 dimensions"),
    (lambda: scale(scale=1, ndim=0), "'ndim' must be an integer of at least 1"),
    (lambda: shear(), "either 'shear' or 'angles'; got n"), (lambda: shear(shear=[1, 2], angles=[1, 2]), "got both"),
    (lambda: shear(shear=[1, 2, 3]), "'shear' must be 2 numbers"),
    (lambda: shear(angles=[1, 100]), r"'angles' must be in"),
    (lambda: crop(from_start=1, from_end=1), "'from_end' must be different"),
    (lambda: crop(from_start=[1, 2], to_end=[1, 2, 3]), "'to_end' must be for 2 dimensions"),
    (lambda: combine(), "'inputs' must be one or more"),
    (lambda: combine(SQUARE, None), "'inputs' must be one or more"),
    (lambda: combine(SQUARE, np.eye(3, 4)), "'inputs' must be transforms of equal numbers"),
    (lambda: combine(as_batch([SQUARE]), as_batch([SQUARE] * 2)), r"'inputs\[1\]' must be a Batch of 1"),
])  # fmt: skip
def test_wrong_arguments_are_named(call, told):
    with pytest.raises(ArgumentError, match=told):
        call()


def test_they_are_made_on_the_cpu():
    for device in ("gpu", "gpu:0"):
        with pytest.raises((DeviceError, ArgumentError)):
            translation(offset=[1], device=device)
    assert translation(offset=[1], device="cpu").tolist() == [[1, 1]]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_empty_batches_give_empty_batches(function):
    column = {"translation": {"offset": 2}, "scale": {"scale": 2}, "rotation": {"angle": 1, "axis": 3, "center": 3},
              "shear": {"shear": 2}, "crop": {"from_start": 2}, "combine": {}}[function.__name__]  # fmt: skip
    inputs = [] if column else [SQUARE[None][:0]]
    for nothing in (lambda n: as_batch(np.zeros((0, n))), lambda n: Batch([], None, None, np.dtype("f4"), 1)):
        varying = {name: nothing(n) for name, n in column.items()}
        varying |= {"angle": as_batch(np.zeros(0))} if "angle" in column else {}
        result = function(*map(as_batch, inputs), **varying)
        assert (len(result), result.ndim, result.dtype, result.layout) == (0, 2, "float32", "**")
    if inputs:
        assert len(function(Batch([], "**", None, np.dtype("f4"), 2))) == 0
        assert function(as_batch(np.zeros((0, 6)))).ndim == 2


def test_what_float32_does_not_hold_becomes_infinite_without_a_warning():
    tiny = crop(from_start=[0, 0], from_end=[1e-320, 1], to_start=[1, 0], to_end=[2, 1])
    assert tiny.array[0, 0] == np.inf
    huge = combine(*[np.eye(2, 3, dtype="f4") * 3e38] * 9)
    assert huge.array[0, 0] == np.inf


def test_numbers_of_float16_are_taken_without_a_warning():
    offsets = as_batch(np.array([[1, 2], [3, 65504]], "f2"))
    assert [matrix[0][2] for matrix in translation(offset=offsets).tolist()] == [1, 3]
    assert translation(offset=offsets).tolist()[1][1][2] == 65504


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_is_documented_in_order(function):
    section = re.search(r"^Args:\n(.*?)\n\n", inspect.getdoc(function), re.M | re.S)
    keywords = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert re.findall(r"^ {4}(\w+): ", section.group(1), re.M) == keywords
    assert "Returns:" in function.__doc__
    assert ">>>" in function.__doc__


@given(st.data(), st.integers(2, 3), st.booleans(), st.booleans(), st.booleans())
def test_transforms_are_dalis(dali: Oracle, data, dims, reverse, with_input, batched):
    name, arguments, _ = data.draw(calls(dims))
    before = [np.array(data.draw(vectors(dims * (dims + 1))), np.float32).reshape(dims, dims + 1) for _ in range(2)]
    arguments = {key: value if key == "angle" else np.float32(value) for key, value in arguments.items()}
    if name == "shear" and dims == 3:
        arguments = {key: np.reshape(value, (3, -1)) if key == "shear" else value for key, value in arguments.items()}
    if name == "crop":
        arguments["absolute"] = data.draw(st.booleans())
    theirs, ours = dict(arguments), dict(arguments)
    if batched:
        key = next(k for k in arguments if k != "absolute")
        columns = [np.float32(np.multiply(arguments[key], 1 + i / 4)) for i in range(2)]
        theirs[key], ours[key] = Samples(columns), as_batch(columns)
    inputs = [Samples(before) if batched else before[0]] if with_input else []
    expected = dali.call(f"transforms.{name}", inputs, **theirs, reverse_order=reverse)
    inputs = [as_batch(before) if batched else before[0]] if with_input else []
    found = getattr(transforms, name)(*inputs, **ours, reverse_order=reverse)
    assert (found.layout, found.dtype, isinstance(found, Batch)) == (expected.layout, expected.dtype, expected.is_batch)
    for a, b in zip(found.samples if batched else [found.array], expected.samples, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert near(a, b)


# -- a matrix for each frame

counts_of_frames = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(counts_of_frames, st.booleans(), st.data())
def test_values_for_each_frame_make_a_matrix_for_each(counts, single, data):
    counts = counts[:1] if single else counts
    extents_of = {"rotation": {"angle": ()}, "translation": {"offset": (2,)}, "shear": {"angles": (2,)},
                  "scale": {"scale": (3,), "center": (3,)}}  # fmt: skip
    name, extents = data.draw(st.sampled_from(list(extents_of.items())))
    values = np.random.default_rng(len(counts))
    given = {key: [values.uniform(-40, 40, (n, *shape)).astype(np.float32) for n in counts]
             for key, shape in extents.items()}  # fmt: skip
    before = [values.normal(size=(n, 2 + (name == "scale"), 3 + (name == "scale"))) for n in counts]
    after = data.draw(st.booleans())
    function = getattr(transforms, name)

    def marked(samples):
        return per_frame(as_tensor(samples[0]) if single else as_batch(samples))

    inputs = [marked(before)] if after else []
    found = function(*inputs, **{key: marked(samples) for key, samples in given.items()})
    expected = [
        np.stack([function(*([before[i][k]] if after else []), **{key: x[i][k] for key, x in given.items()}).array
                  for k in range(n)])
        for i, n in enumerate(counts)
    ]  # fmt: skip
    assert found.layout == "F**"
    for one, other in zip([found.array] if single else found.samples, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_video_is_warped_by_the_matrix_of_each_frame():
    video = np.random.default_rng(1).integers(0, 255, (3, 9, 8, 3), np.uint8)
    angles = [10.0, 20.0, 30.0]
    found = warp_affine(as_tensor(video, layout="FHWC"), rotation(angle=per_frame(angles)))
    one_by_one = [warp_affine(frame, rotation(angle=angle)).array for frame, angle in zip(video, angles, strict=True)]
    assert found.layout == "FHWC"
    assert np.array_equal(found.array, np.stack(one_by_one))
    of_one = warp_affine(as_tensor(video[0], layout="HWC"), rotation(angle=per_frame(angles)))
    assert (of_one.layout, of_one.shape) == ("FHWC", (3, 9, 8, 3))
    assert np.array_equal(of_one.array[0], one_by_one[0])
    points = np.arange(8, dtype=np.float32).reshape(4, 2)
    moved = coord_transform(points, MT=rotation(angle=per_frame(angles)))
    assert moved.shape == (3, 4, 2)
    for k, angle in enumerate(angles):
        expected = coord_transform(points, MT=rotation(angle=angle)).array
        np.testing.assert_allclose(moved.array[k], expected, rtol=1e-5, atol=1e-5)
    batch = warp_affine(as_batch([video[0], video[1]]),
                            rotation(angle=per_frame(as_batch([[5.0], [6.0, 7.0]]))))  # fmt: skip
    assert [sample.shape for sample in batch.samples] == [(1, 9, 8, 3), (2, 9, 8, 3)]


def test_frames_that_do_not_fit_are_named():
    with pytest.raises(ArgumentError, match=r"scale\(\): argument 'scale' must be a value for each of the 3 frames"):
        scale(scale=per_frame([[1.0, 2.0]] * 2), center=per_frame([[1.0, 2.0]] * 3))
    with pytest.raises(ArgumentError, match=r"rotation\(\): argument 'center' must be a Batch of 2, like 'angle'"):
        rotation(angle=per_frame(as_batch([[1.0], [2.0]])), center=as_batch([[0.0, 0.0]] * 3))


@given(data=st.data())
def test_matrices_of_frames_are_dalis(dali: Oracle, data):
    angles = np.array(data.draw(st.lists(st.floats(-90, 90, width=32), min_size=1, max_size=4)), np.float32)
    made = "result = ndd.transforms.rotation(angle=ndd.per_frame(ndd.tensor(angles)), center=[1.0, 2.0])"
    expected = dali.script(made, angles=angles)
    found = rotation(angle=per_frame(angles), center=[1.0, 2.0])
    assert found.layout == expected.layout
    np.testing.assert_allclose(found.array, expected.array, rtol=1e-5, atol=1e-5)


def test_none_is_not_given():
    assert crop(from_start=None, from_end=[3.0], to_end=None, absolute=None).tolist() == crop(from_end=[3.0]).tolist()
    matrix = scale(scale=[2, 3])
    assert rotation(matrix, angle=30, reverse_order=None, center=None).tolist() == rotation(matrix, angle=30).tolist()
    with pytest.raises(ArgumentError, match="'angle'"):
        rotation(angle=None)
