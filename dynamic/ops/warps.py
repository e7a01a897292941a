"""Operators that read pixels elsewhere: affine warps, perspectives, maps, sphere and water."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.layout import spatial
from dynamic._lift.argument import GIVEN, DTypeArgument, InterpName, Layout, Numbers, PerSample, Several, Word
from dynamic._lift.call import Call
from dynamic._lift.former import Spec, planned
from dynamic._lift.operator import operator
from dynamic.data import Batch
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import maps, warp
from dynamic.kernels.gpu import Images, images
from dynamic.kernels.gpu import maps as gpu_maps
from dynamic.kernels.gpu import warp as gpu_warp
from dynamic.types import DALIInterpType

from .geometry import LAYOUTS, Extent, WarpInterp, _frames

__all__ = ["remap", "sphere", "warp_affine", "warp_perspective", "water"]

#: Images and videos.
_IMAGES = tuple(layout for layout in LAYOUTS if "D" not in layout)
_LARGEST = float(numpy.finfo(numpy.float32).max)
_PERSPECTIVE, _REMAP = "experimental.warp_perspective", "experimental.remap"

_Interp: TypeAlias = Annotated[
    InterpName,
    Word(
        {"nn": ("nearest", "interp_nn"), "linear": ("interp_linear",), "cubic": ("interp_cubic",)},
        DALIInterpType,
    ),
]
_Border: TypeAlias = Annotated[str, Word(dict.fromkeys(maps.BORDERS, ()))]
_Origin: TypeAlias = Annotated[str, Word({"corner": (), "center": ()})]


def warped(
    operator: str, image: Array, layout: str, extents: Sequence[int], *, size: Sequence[float] | None, fill_value: Any,
    dtype: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of an image that is moved into another.

    Args:
        operator: Its name, for errors.
        image: The image.
        layout: Its layout.
        extents: Those of its spatial dimensions where there is no `size`.
        size: The argument of that name; fractions are cut off.
        fill_value: The argument of that name.
        dtype: The argument of that name.

    Raises:
        ArgumentError: There are too many or too few extents or values to fill with.
    """
    places = spatial(layout)
    if size is not None and len(size) != len(places):
        expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
        raise ArgumentError(operator, "size", expected, str(len(size)))
    channels = image.shape[layout.index("C")] if "C" in layout else 1
    if isinstance(fill_value, tuple) and len(fill_value) not in {1, channels}:
        raise ArgumentError(operator, "fill_value", f"one value or {channels}, one a channel", f"{len(fill_value)}")
    shape = list(image.shape)
    for place, extent in zip(places, extents if size is None else size, strict=True):
        shape[place] = int(extent)
    return tuple(shape), image.dtype if dtype is None else dtype.dtype


def _affine(
    image: Array, matrix_input: Array = None, /, *, matrix: Any = None, dtype: Any = None, fill_value: Any = None,
    size: tuple[float, ...] | None = None, layout: str, **_: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of what `warp_affine` makes of an image."""
    _given("warp_affine", matrix_input, matrix)
    extents = [image.shape[place] for place in spatial(layout)]
    return warped("warp_affine", image, layout, extents, size=size, fill_value=fill_value, dtype=dtype)


def _affine_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("warp_affine", data, call.layout or "") for data in (inputs[0], target))
    matrices = _matrices_of(call, source)
    fill, nearest = call.fixed["fill_value"], call.fixed["interp_type"] == "nn"
    gpu_warp.affine(source, result, matrices, fill, nearest=nearest)


def _matrices_of(call: Call, source: Images) -> Any:
    """The matrix of each image, (M, 2, 3)."""
    given, images = _given_to(call), source.owners is None
    if images and len({numpy.shape(each) for each in given}) == 1 and numpy.ndim(given[0]) < 3:  # all at once
        rows = numpy.array(given, numpy.float64)
        each = [rows.reshape(call.count, -1, 3) if rows[0].size in {6, 9} else rows]
    else:
        each = _of_images("warp_affine", given, source)
    inverse = call.fixed["inverse_map"]
    found = [
        _affine_rows("warp_affine", _matrices("warp_affine", one, 2, len(one)), inverse_map=inverse) for one in each
    ]
    return numpy.concatenate([numpy.empty((0, 2, 3)), *found])


def _given_to(call: Call) -> list[Any]:
    """What each sample is given as its matrix; those that are on the GPU are waited for."""
    if len(call.inputs) < 2:
        return call.column("matrix")
    own = call.inputs[1].cpu()
    return list(own.samples) if isinstance(own, Batch) else [own.array] * call.count


def _of_images(operator: str, given: list[Any], source: Images) -> list[Any]:
    """The matrices of each sample, one for an image or for each frame of a video."""
    if source.owners is None:
        return [_matrices(operator, one, 2, None) for one in given]
    counts = numpy.bincount(source.owners, minlength=len(given)).tolist()
    found = [(_matrices(operator, one, 2, count), count) for one, count in zip(given, counts, strict=True)]
    return [numpy.broadcast_to(matrices, (count, *matrices.shape[1:])) for matrices, count in found if count]


def _affine_rows(operator: str, matrices: Any, *, inverse_map: bool) -> Any:
    """Affine matrices from the result to the input, without their last rows."""
    dims = matrices.shape[2] - 1
    if matrices.shape[1] > dims and (matrices[:, -1] != numpy.eye(dims + 1)[-1]).any():
        expected = f"affine: its last row is {[0] * dims + [1]}, or left out"
        raise ArgumentError(operator, "matrix", expected, str(matrices[0, -1].tolist()))
    return matrices[:, :dims] if inverse_map else _inverted(operator, matrices[:, :dims])


@operator(layouts=LAYOUTS, plan=planned(_affine, weight=4), gpu=_affine_on_gpu)
def warp_affine(
    image: Array, matrix_input: Array = None, /, *, dtype: DTypeArgument | None = None,
    fill_value: float | Several[float] | None = None, interp_type: WarpInterp = "linear", inverse_map: bool = True,
    matrix: PerSample[Numbers | None] = None, size: PerSample[Several[Extent] | None] = None,
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Fill each image, or volume, with what a matrix finds in it.

    The matrix of two rows and three columns (three and four for volumes) maps a point of the result, (x, y) or
    (x, y, z), to the point of the input that is read. Points are in pixels from the corner of the first pixel, whose
    centre is at 0.5. The matrix may be nested lists or one list row by row, may have a last row (0, 0, 1), and is given
    as the second input or as `matrix`. An array with one more dimension has a matrix for each frame of a video.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        fill_value: What is outside the image, one value or one for each channel, saturated to the type of the image; by
            default the nearest pixel of the image.
        interp_type: How a value between pixels is read: "linear" or "nn", the nearest.
        inverse_map: Whether the matrix maps from the result to the input; otherwise its inverse does.
        matrix: The matrix.
        size: Height and width of the result, for volumes depth first, by default the input's; fractions are cut off.

    Returns:
        Images of the same layout, and of the size that `size` says.

    Raises:
        ArgumentError: There is no matrix, or two; it has no inverse where that is needed; or it, or another argument,
            has too few or too many values.

    >>> ndd.warp_affine(ndd.as_tensor([[1, 2, 3]], dtype="uint8"), matrix=[1, 0, 1, 0, 1, 0], fill_value=9).tolist()
    [[2, 3, 9]]
    """
    images, results = _frames(image, layout), _frames(out, layout)
    dims = images.ndim - 2
    given = matrix if matrix_input is None else matrix_input
    matrices = _matrices("warp_affine", given, dims, len(images) if "F" in layout else None)
    matrices = _affine_rows("warp_affine", matrices, inverse_map=inverse_map).tolist()
    for i, (frame, result) in enumerate(zip(images, results, strict=True)):
        warp.affine(frame, matrices[i % len(matrices)], result, fill=fill_value, nearest=interp_type == "nn")
    return out


def _given(operator: str, matrix_input: Any, matrix: Any) -> None:
    """Refuse a call that has no matrix, or two."""
    if matrix_input is None and matrix is None:
        raise ArgumentError(operator, "matrix", "given, as an argument or as the second input", "nothing")
    if matrix_input is not None and matrix is not None:
        raise ArgumentError(operator, "matrix", "left out where the second input is one", "both")


def _matrices(operator: str, given: Any, dims: int, frames: int | None) -> Any:
    """What a caller gave as float64 matrices, one for all frames or one for each, with the last row or without.

    Args:
        operator: Its name, for errors.
        given: Numbers in one of the shapes that are allowed.
        dims: The number of dimensions of a point.
        frames: The number of frames where the input is a video.
    """
    array = numpy.asarray(given, numpy.float64)
    columns = dims + 1
    if array.ndim == 1 and array.size in {dims * columns, columns * columns}:
        array = array.reshape(-1, columns)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[1:] not in {(dims, columns), (columns, columns)} or len(array) not in {1, frames}:
        expected = f"{dims} rows of {columns} numbers, or {columns} rows"
        expected += ", or one such matrix for each frame" if frames is not None else ""
        raise ArgumentError(operator, "matrix", expected, f"numbers in shape {numpy.shape(given)}")
    if not (numpy.abs(array) <= _LARGEST).all():
        raise ArgumentError(operator, "matrix", "finite numbers that float32 holds", "others")
    return array


def _homogeneous(matrices: Any) -> Any:
    """Matrices with their last rows."""
    missing = numpy.eye(matrices.shape[2])[matrices.shape[1] :]
    return numpy.concatenate([matrices, numpy.broadcast_to(missing, (len(matrices), *missing.shape))], axis=1)


def _inverted(operator: str, matrices: Any) -> Any:
    try:
        inverses = numpy.linalg.inv(_homogeneous(matrices))[:, : matrices.shape[1]]
    except numpy.linalg.LinAlgError:
        inverses = numpy.array(math.nan)
    if not (numpy.abs(inverses) <= _LARGEST).all():
        hint = "With inverse_map=True it maps points of the result to points of the input, and needs no inverse."
        raise ArgumentError(operator, "matrix", "one that has an inverse", "a singular matrix", hint)
    return inverses


def _perspective(
    image: Array, matrix_input: Array = None, /, *, matrix: Any = None, fill_value: Any = None,
    size: tuple[float, ...] | None = None, layout: str, **_: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of what `warp_perspective` makes of an image."""
    _given(_PERSPECTIVE, matrix_input, matrix)
    extents = [image.shape[layout.index(letter)] for letter in "HW"]
    size = None if size is None else tuple(math.floor(extent + 0.5) for extent in size)
    return warped(_PERSPECTIVE, image, layout, extents, size=size, fill_value=fill_value, dtype=None)


def _perspective_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images(_PERSPECTIVE, data, call.layout or "") for data in (inputs[0], target))
    given = [_homogeneous(one) for one in _of_images(_PERSPECTIVE, _given_to(call), source)]
    how = {name: call.fixed[name] for name in ("inverse_map", "pixel_origin")}
    matrices = _found_by(numpy.concatenate([numpy.empty((0, 3, 3)), *given]), **how)
    gpu_maps.read(source, result, gpu_maps.PERSPECTIVE, matrices.reshape(-1, 9), fill=call.fixed["fill_value"],
                  border=call.fixed["border_mode"], interpolation=call.fixed["interp_type"])  # fmt: skip


def _found_by(matrices: Any, *, inverse_map: bool, pixel_origin: str) -> Any:
    """Matrices of three rows from indices of pixels of the result to those of the input."""
    matrices = matrices if inverse_map else _inverted(_PERSPECTIVE, matrices)
    return maps.moved(-0.5) @ matrices @ maps.moved(0.5) if pixel_origin == "corner" else matrices


@operator(layouts=_IMAGES, plan=planned(_perspective, weight=4), gpu=_perspective_on_gpu, name=_PERSPECTIVE)
def warp_perspective(
    image: Array, matrix_input: Array = None, /, *, border_mode: _Border = "constant",
    fill_value: float | Several[float] = 0.0, interp_type: _Interp = "linear", inverse_map: bool = True,
    matrix: PerSample[Numbers | None] = None, pixel_origin: _Origin = "corner",
    size: PerSample[Several[Extent] | None] = None, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Fill each image with what a perspective finds in it.

    The matrix of three rows and columns maps a point (x, y, 1) of the result to (u, v, w), and the point (u / w, v / w)
    of the input is read. The matrix may be nested lists or one list row by row, and is given as the second input or as
    `matrix`. An array with one more dimension has a matrix for each frame of a video.

    Args:
        border_mode: What is outside the image: "constant" is `fill_value`, "replicate" the nearest pixel, "reflect" and
            "reflect_101" the image mirrored, with and without its edge twice, "wrap" the image again.
        fill_value: One value or one for each channel, saturated to the type of the image.
        interp_type: How a value between pixels is read: "linear", "cubic", or "nn", the nearest.
        inverse_map: Whether the matrix maps from the result to the input; otherwise its inverse does.
        matrix: The matrix.
        pixel_origin: Which point of the first pixel is (0, 0): its "corner" or its "center".
        size: Height and width of the result, by default the input's; fractions are rounded.

    Returns:
        Images of the same layout and dtype, and of the size that `size` says.

    Raises:
        ArgumentError: There is no matrix, or two; it has no inverse where that is needed; or it, or another argument,
            has too few or too many values.

    >>> image = ndd.as_tensor([[10, 20, 30]], dtype="uint8")
    >>> ndd.experimental.warp_perspective(image, [[1, 0, 1], [0, 1, 0], [0, 0, 1]]).tolist()
    [[20, 30, 0]]
    """
    images, results = _frames(image, layout), _frames(out, layout)
    given = matrix if matrix_input is None else matrix_input
    matrices = _homogeneous(_matrices(_PERSPECTIVE, given, 2, len(images) if "F" in layout else None))
    matrices = _found_by(matrices, inverse_map=inverse_map, pixel_origin=pixel_origin)
    for i, (frame, result) in enumerate(zip(images, results, strict=True)):
        maps.perspective(frame, matrices[i % len(matrices)], result, fill=fill_value, border=border_mode,
                         interpolation=interp_type)  # fmt: skip
    return out


def _remapped(image: Array, mapx: Array, mapy: Array, /, *, layout: str, **_: Any) -> Spec:
    """Shape and dtype of what `remap` makes of an image."""
    shapes = [_map(name, array, image, layout).shape for name, array in (("mapx", mapx), ("mapy", mapy))]
    if shapes[0] != shapes[1]:
        raise ArgumentError(_REMAP, "mapy", f"of the shape of mapx, {mapx.shape}", str(mapy.shape))
    shape = list(image.shape)
    shape[layout.index("H")], shape[layout.index("W")] = shapes[0][1:]
    return tuple(shape), image.dtype


def _map(name: str, array: Array, image: Array, layout: str) -> Array:
    """A map with its frames first, one where it is for all."""
    frames = image.shape[0] if "F" in layout else 1
    if array.ndim == (4 if "F" in layout else 3) and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in {1, frames}:
        expected = "a number for each pixel of the result, (H, W)"
        expected += " or, for each frame, (F, H, W)" if "F" in layout else ""
        raise ArgumentError(_REMAP, name, expected, f"of shape {array.shape}")
    return array


def _remap_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images(_REMAP, data, call.layout or "") for data in (inputs[0], target))
    own = numpy.arange(call.count) if source.owners is None else source.owners
    frames = numpy.arange(len(own)) - numpy.searchsorted(own, own)  # the number of each in its video
    there = replace(call, inputs=[each.to_device(call.device) for each in call.inputs])  # kept until the launch
    points = [_map_of(each, call.layout or "", own, frames) for each in there.described()[1:]]
    shift = numpy.full((len(own), 1), 0.5 if call.fixed["pixel_origin"] == "corner" else 0.0)
    gpu_maps.read(source, result, gpu_maps.GIVEN, shift, interpolation=call.fixed["interp"], maps=points)


def _map_of(data: Described, layout: str, own: Any, frames: Any) -> Described:
    """The map of each image: that of its sample, or of its frame."""
    single = (data.shapes[:, -1] == 1) & (data.ndim == (4 if "F" in layout else 3))  # a last dimension that is none
    strides = numpy.where(single[:, None], data.strides[:, -3:-1], data.strides[:, -2:])
    several = (data.ndim - single > 2) & (data.shapes[:, 0] > 1)
    steps = numpy.where(several, data.strides[:, 0], 0)
    pointers = data.pointers[own] + (steps[own] * frames).astype(numpy.uint64)
    return Described(pointers, data.shapes[own], strides[own], data.dtype)


@operator(layouts=_IMAGES, plan=planned(_remapped, weight=4), gpu=_remap_on_gpu, name=_REMAP)
def remap(
    image: Array, mapx: Array, mapy: Array, /, *, interp: _Interp = "linear", pixel_origin: _Origin = "corner",
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Fill each image with the pixels that two maps name: for each pixel of the result x and y of the point to read.

    What is outside the image is 0.

    Args:
        interp: How a value between pixels is read: "linear", "cubic", or "nn", the nearest.
        pixel_origin: Which point of the first pixel is (0, 0): its "corner" or its "center".

    Returns:
        Images of the same layout and dtype, and of the height and width of the maps.

    Raises:
        ArgumentError: The maps differ in shape, or are not of the shape of an image.

    >>> image = ndd.as_tensor([[10, 20, 30]], dtype="uint8")
    >>> x, y = [[2.5, 1.0, 9.0]], [[0.5, 0.5, 0.5]]
    >>> ndd.experimental.remap(image, x, y).tolist()
    [[30, 15, 0]]
    """
    images, results = _frames(image, layout), _frames(out, layout)
    shift = 0.5 if pixel_origin == "corner" else 0.0
    points = [
        numpy.broadcast_to(_map(name, array, image, layout), results.shape[:3])
        for name, array in (("mapx", mapx), ("mapy", mapy))
    ]
    for frame, x, y, result in zip(images, *points, results, strict=True):
        maps.remap(frame, x, y, result, shift=shift, interpolation=interp)
    return out


def _as_image(image: Array, /, *, fill_value: Any, layout: str, operator: str, **_: Any) -> Spec:
    extents = [image.shape[layout.index(letter)] for letter in "HW"]
    return warped(operator, image, layout, extents, size=None, fill_value=fill_value, dtype=None)


def _distort_on_gpu(
    operator: str, call: Call, inputs: list[Described], target: Described, way: int, numbers: Any, waves: Any = ()
) -> None:
    source, result = (images(operator, data, call.layout or "") for data in (inputs[0], target))
    ways = numpy.where(numpy.array(call.column("mask")) != 0, way, gpu_maps.KEPT)
    gpu_maps.read(source, result, source.each(ways), numbers(source), fill=call.fixed["fill_value"],
                  interpolation=call.fixed["interp_type"], waves=waves)  # fmt: skip


def _sphere_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    def numbers(source: Images) -> Any:
        height, width = source.shapes[:, :2].T
        return numpy.stack([(width - 1) / 2, (height - 1) / 2, maps.radius_of(height, width)], axis=1)

    _distort_on_gpu("sphere", call, inputs, target, gpu_maps.SPHERE, numbers)


@operator(layouts=_IMAGES, plan=planned(functools.partial(_as_image, operator="sphere"), weight=4), gpu=_sphere_on_gpu)
def sphere(
    image: Array, /, *, fill_value: float | Several[float] = 0.0, interp_type: WarpInterp = "nn",
    mask: PerSample[int] = 1, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Show each image as if on a sphere: what is near its centre is enlarged.

    Args:
        fill_value: What is outside the image, one value or one for each channel, saturated to the type of the image.
        interp_type: How a value between pixels is read: "linear" or "nn", the nearest.
        mask: Whether to change the image; any integer but 0 means yes.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: There are too few or too many values to fill with.

    >>> ndd.sphere(ndd.as_tensor([[1, 2, 3, 4, 5]], dtype="uint8")).tolist()
    [[1, 3, 3, 4, 5]]
    """
    return _distorted(image, layout, out, maps.on_a_sphere(*_extents(image, layout)) if mask else None, fill_value,
                      interp_type)  # fmt: skip


def _water_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    across, down = (tuple(call.fixed[f"{name}_{axis}"] for name in ("ampl", "freq", "phase")) for axis in "xy")
    rows, columns = (int(inputs[0].shapes[:, (call.layout or "").index(letter)].max()) for letter in "HW")
    y, x = (numpy.arange(extent, dtype=numpy.float32) for extent in (rows, columns))
    waves = maps.waves(y, x, across, down)
    _distort_on_gpu("water", call, inputs, target, gpu_maps.WAVES, lambda source: numpy.full((len(source), 1), rows),
                    waves)  # fmt: skip


@operator(layouts=_IMAGES, plan=planned(functools.partial(_as_image, operator="water"), weight=4), gpu=_water_on_gpu)
def water(
    image: Array, /, *, ampl_x: float = 10.0, ampl_y: float = 10.0, fill_value: float | Several[float] = 0.0,
    freq_x: float = math.pi / 64, freq_y: float = math.pi / 64, interp_type: WarpInterp = "nn",
    mask: PerSample[int] = 1, phase_x: float = 0.0, phase_y: float = 0.0, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
    """Show each image as if under water: it reads x + ampl_x * sin(freq_x * y + phase_x), and y with a cosine of x.

    Args:
        ampl_x: How many pixels the waves move to the side.
        ampl_y: How many pixels they move up and down.
        fill_value: What is outside the image, one value or one for each channel, saturated to the type of the image.
        freq_x: Radians from one row to the next.
        freq_y: Radians from one column to the next.
        interp_type: How a value between pixels is read: "linear" or "nn", the nearest.
        mask: Whether to change the image; any integer but 0 means yes.
        phase_x: Radians at the first row.
        phase_y: Radians at the first column.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: There are too few or too many values to fill with.

    >>> ndd.water(ndd.as_tensor([[1, 2, 3, 4]], dtype="uint8"), ampl_x=1, ampl_y=0, phase_x=numpy.pi / 2).tolist()
    [[2, 3, 4, 0]]
    """
    waves = maps.in_waves(image.shape[layout.index("W")], (ampl_x, freq_x, phase_x), (ampl_y, freq_y, phase_y))
    return _distorted(image, layout, out, waves if mask else None, fill_value, interp_type)


def _extents(image: Array, layout: str) -> tuple[int, int]:
    return image.shape[layout.index("H")], image.shape[layout.index("W")]


def _distorted(image: Array, layout: str, out: Array, points: Any, fill: Any, interpolation: str) -> Array:
    """Fill `out` with what is at points of an image, or with the image where there are none."""
    if points is None:
        out[...] = image
        return out
    for frame, result in zip(_frames(image, layout), _frames(out, layout), strict=True):
        maps.read(frame, points, result, fill=fill, interpolation=interpolation)
    return out
