"""Operators that read pixels elsewhere: affine warps, perspectives, maps, sphere and water."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.layout import spatial
from dynamic._lift.argument import GIVEN, DTypeArgument, InterpName, Layout, Numbers, PerSample, Several, Word
from dynamic._lift.call import Call, Moving, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.data import Batch
from dynamic.errors import ArgumentError
from dynamic.kernels.cpu import maps, points, warp
from dynamic.kernels.gpu import Images, images
from dynamic.kernels.gpu import maps as gpu_maps
from dynamic.kernels.gpu import warp as gpu_warp
from dynamic.types import DALIInterpType

from .geometry import LAYOUTS, Extent, WarpInterp, _frames, _turn_photos, check_fill, warped

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


def _plan_affine(call: Call) -> Plan:
    """The matrix of each image from the result to the input."""
    layout, shapes = call.layout or "", call.shapes
    places, inverse_map = spatial(layout), call.fixed["inverse_map"]
    matrices = _matrices(call, lambda given: _affine_rows(given, inverse_map=inverse_map).tolist())
    results = warped(call, places, [shape[places[0] : places[-1] + 1] for shape in shapes])
    plan = Plan(results, call.asked, data=matrices, weight=4.0)
    nearest = call.fixed["interp_type"] == "nn"
    if layout == "HWC" and not nearest and warp.are_photos(call.dtype, plan.dtype, shapes, results):
        plan.kernel = functools.partial(_turn_photos, fill=call.fixed["fill_value"])
    return plan


def _map_affine(call: Call) -> Array:
    return _back(call, call.plan.data)


def _back(call: Call, matrices: list[Any]) -> Array:
    """The maps of matrices from results to inputs; of videos of one for all frames."""
    if "F" in (call.layout or ""):
        for i, own in enumerate(matrices):
            if len(own) != 1:
                expected = "one matrix for all frames of a video, where boxes or points move with it"
                raise call.noted(i, ArgumentError(call.name, "matrix", expected, f"{len(own)}"))
        matrices = [own[0] for own in matrices]
    found = points.inverses(matrices)
    if found is None:
        i = next(i for i, own in enumerate(matrices) if points.inverses([own]) is None)
        hint = "Boxes and points go from the image to the result."
        raise call.noted(i, ArgumentError(call.name, "matrix", "one that has an inverse", "a singular matrix", hint))
    return found


def _matrices(call: Call, finished: Callable[[Any], Any]) -> list[Any]:
    """The matrix of each image; of a video one for each frame, or one for all.

    Args:
        call: The call.
        finished: Makes the matrices from the result to the input of those that are given, both (M, rows, columns).
    """
    name, layout, count = call.name, call.layout or "", call.count
    given, dims, video = _given(call), len(spatial(layout)), "F" in layout
    if not video and count > 1 and given[0] is not given[-1] and len({numpy.shape(one) for one in given}) == 1:
        rows = numpy.array(given, numpy.float64)
        with contextlib.suppress(ArgumentError, ValueError):  # which the loop below raises with its sample
            rows = rows if rows.ndim == 3 else rows.reshape(count, -1, dims + 1)
            return list(finished(_checked(name, rows, dims, count)))
    found: list[Any] = []
    for i, (one, shape) in enumerate(zip(given, call.shapes, strict=True)):
        if found and one is given[i - 1] and not (video and shape[0] != call.shapes[i - 1][0]):
            found.append(found[-1])
            continue
        try:
            own = finished(_checked(name, one, dims, shape[layout.index("F")] if video else None))
        except ArgumentError as error:
            raise call.noted(i, error) from None
        found.append(own if video else own[0])
    return found


def _given(call: Call) -> list[Any]:
    """The matrix, or matrices, that each sample is given; a GPU is waited for."""
    named = "matrix" in call.varying or call.fixed["matrix"] is not None
    if len(call.inputs) < 2:
        if not named and call.count:
            raise ArgumentError(call.name, "matrix", "given, as an argument or as the second input", "nothing")
        return call.column("matrix")
    if named:
        raise ArgumentError(call.name, "matrix", "left out when the second input is given", "both")
    own = call.inputs[1].cpu()
    return list(own.samples) if isinstance(own, Batch) else [own.array] * call.count


def _checked(operator: str, given: Any, dims: int, frames: int | None) -> Any:
    """Numbers as float64 matrices, one for all frames or one for each, with the last row or without.

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
        raise ArgumentError(operator, "matrix", "finite numbers in the range of float32", "others")
    return array


def _affine_rows(matrices: Any, *, inverse_map: bool) -> Any:
    """Affine matrices from the result to the input, without their last rows."""
    dims = matrices.shape[2] - 1
    if matrices.shape[1] > dims and (matrices[:, -1] != numpy.eye(dims + 1)[-1]).any():
        expected = f"affine: its last row is {[0] * dims + [1]}, or left out"
        raise ArgumentError("warp_affine", "matrix", expected, str(matrices[0, -1].tolist()))
    return matrices[:, :dims] if inverse_map else _inverted("warp_affine", matrices[:, :dims])


def _of_images(call: Call, source: Images) -> Any:
    """The matrices of all images one after the other, one row each."""
    found = call.plan.data
    if source.owners is not None:
        counts = numpy.bincount(source.owners, minlength=call.count).tolist()
        found = [own[i % len(own)] for own, count in zip(found, counts, strict=True) for i in range(count)]
    return numpy.array(found, numpy.float64)


def _affine_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("warp_affine", data, call.layout or "") for data in (inputs[0], target))
    fill, nearest = call.fixed["fill_value"], call.fixed["interp_type"] == "nn"
    gpu_warp.affine(source, result, _of_images(call, source).reshape(-1, 2, 3), fill, nearest=nearest)


@operator(layouts=LAYOUTS, plan=Moving(_plan_affine, _map_affine), gpu=_affine_on_gpu)
def warp_affine(
    image: Array,
    matrix_input: Array = None,
    /,
    *,
    dtype: DTypeArgument | None = None,
    fill_value: float | Several[float] | None = None,
    interp_type: WarpInterp = "linear",
    inverse_map: bool = True,
    matrix: PerSample[Numbers | None] = None,
    size: PerSample[Several[Extent] | None] = None,
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Transform each image, or volume, by an affine matrix.

    The matrix maps a point of the result, (x, y) or (x, y, z), to the point of the input that is read. It has two rows
    and three columns, for volumes three and four. Points are in pixels from the corner of the first pixel, whose centre
    is at 0.5. The matrix may be nested lists or one list row by row, and may have a last row (0, 0, 1). It is the
    second input or `matrix`. An array with one more dimension has a matrix for each frame of a video.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        fill_value: Pixels outside the image, one value or one for each channel, saturated to the type of the image; by
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
    matrices = plan if "F" in layout else [plan]
    for i, (frame, result) in enumerate(zip(_frames(image, layout), _frames(out, layout), strict=True)):
        warp.affine(frame, matrices[i % len(matrices)], result, fill=fill_value, nearest=interp_type == "nn")
    return out


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


def _plan_perspective(call: Call) -> Plan:
    """The matrix of each image, of three rows, from indices of pixels of the result to those of the input."""
    layout, how = call.layout or "", {name: call.fixed[name] for name in ("inverse_map", "pixel_origin")}
    matrices = _matrices(call, lambda given: _found_by(_homogeneous(given), **how))
    places = spatial(layout)
    extents = [shape[places[0] : places[-1] + 1] for shape in call.shapes]
    return Plan(warped(call, places, extents, rounded=True), call.dtype, data=matrices, weight=4.0)


def _map_perspective(call: Call) -> Array:
    return maps.moved(0.5) @ _back(call, call.plan.data) @ maps.moved(-0.5)  # indices are those of centres


def _perspective_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images(_PERSPECTIVE, data, call.layout or "") for data in (inputs[0], target))
    gpu_maps.read(
        source,
        result,
        gpu_maps.PERSPECTIVE,
        _of_images(call, source).reshape(-1, 9),
        fill=call.fixed["fill_value"],
        border=call.fixed["border_mode"],
        interpolation=call.fixed["interp_type"],
    )


def _found_by(matrices: Any, *, inverse_map: bool, pixel_origin: str) -> Any:
    """Matrices of three rows from indices of pixels of the result to those of the input."""
    matrices = matrices if inverse_map else _inverted(_PERSPECTIVE, matrices)
    return maps.moved(-0.5) @ matrices @ maps.moved(0.5) if pixel_origin == "corner" else matrices


@operator(layouts=_IMAGES, plan=Moving(_plan_perspective, _map_perspective), gpu=_perspective_on_gpu, name=_PERSPECTIVE)
def warp_perspective(
    image: Array,
    matrix_input: Array = None,
    /,
    *,
    border_mode: _Border = "constant",
    fill_value: float | Several[float] = 0.0,
    interp_type: _Interp = "linear",
    inverse_map: bool = True,
    matrix: PerSample[Numbers | None] = None,
    pixel_origin: _Origin = "corner",
    size: PerSample[Several[Extent] | None] = None,
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Transform each image by a perspective matrix.

    The matrix of three rows and columns maps a point (x, y, 1) of the result to (u, v, w). The point (u / w, v / w) of
    the input is read. The matrix may be nested lists or one list row by row, and is the second input or `matrix`. An
    array with one more dimension has a matrix for each frame of a video.

    Args:
        border_mode: Pixels outside the image: "constant" is `fill_value`, "replicate" the nearest pixel, "reflect" and
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
    matrices = plan if "F" in layout else [plan]
    for i, (frame, result) in enumerate(zip(_frames(image, layout), _frames(out, layout), strict=True)):
        matrix_of_frame = matrices[i % len(matrices)]
        maps.perspective(
            frame, matrix_of_frame, result, fill=fill_value, border=border_mode, interpolation=str(interp_type)
        )
    return out


def _plan_remap(call: Call) -> Plan:
    layout, results = call.layout or "", []
    height, width = (layout.index(letter) for letter in "HW")
    shapes = [x.shape if isinstance(x, Batch) else [x.shape] * call.count for x in call.inputs]
    for i, (image, *both) in enumerate(zip(*shapes, strict=True)):
        maps_of_sample = [_shape_of_map(call, i, image, k, shape) for k, shape in enumerate(both, 1)]
        if maps_of_sample[0] != maps_of_sample[1]:
            raise call.noted(i, ArgumentError(_REMAP, "mapy", f"of the shape of mapx, {both[0]}", str(both[1])))
        result = list(image)
        result[height], result[width] = maps_of_sample[0][1:]
        results.append(tuple(result))
    return Plan(results, call.dtype, weight=4.0)


def _shape_of_map(call: Call, i: int, image: Shape, k: int, shape: Shape) -> Shape:
    """The frames, height and width of the map that input number k is for a sample."""
    video = "F" in (call.layout or "")
    own = shape[:-1] if len(shape) == (4 if video else 3) and shape[-1] == 1 else shape
    own = (1, *own) if len(own) == 2 else own
    if len(own) != 3 or own[0] not in {1, image[0] if video else 1}:
        expected = "a number for each pixel of the result, (H, W)" + (" or, for each frame, (F, H, W)" if video else "")
        raise call.noted(i, ArgumentError(_REMAP, ("mapx", "mapy")[k - 1], expected, f"of shape {shape}"))
    return own


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


@operator(layouts=_IMAGES, plan=_plan_remap, gpu=_remap_on_gpu, name=_REMAP)
def remap(
    image: Array,
    mapx: Array,
    mapy: Array,
    /,
    *,
    interp: _Interp = "linear",
    pixel_origin: _Origin = "corner",
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Fill each image with the pixels that two maps name: for each pixel of the result x and y of the point to read.

    Pixels outside the image are 0.

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
    if not out.size:
        return out
    images, results = _frames(image, layout), _frames(out, layout)
    shift = 0.5 if pixel_origin == "corner" else 0.0
    x, y = (numpy.broadcast_to(each.reshape(-1, *results.shape[1:3]), results.shape[:3]) for each in (mapx, mapy))
    for frame, across, down, result in zip(images, x, y, results, strict=True):
        maps.remap(frame, across, down, result, shift=shift, interpolation=str(interp))
    return out


def _plan_distortion(call: Call) -> Plan:
    check_fill(call)
    return Plan(call.shapes, call.dtype, weight=4.0)


def _distort_on_gpu(call: Call, source: Images, target: Described, way: int, numbers: Any, waves: Any = ()) -> None:
    ways = source.each(numpy.where(numpy.array(call.column("mask")) != 0, way, gpu_maps.KEPT))
    fill, interpolation = call.fixed["fill_value"], call.fixed["interp_type"]
    result = images(call.name, target, call.layout or "")
    gpu_maps.read(source, result, ways, numbers, fill=fill, interpolation=interpolation, waves=waves)


def _sphere_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source = images("sphere", inputs[0], call.layout or "")
    height, width = source.shapes[:, :2].T
    numbers = numpy.stack([(width - 1) / 2, (height - 1) / 2, maps.radius_of(height, width)], axis=1)
    _distort_on_gpu(call, source, target, gpu_maps.SPHERE, numbers)


@operator(layouts=_IMAGES, plan=_plan_distortion, gpu=_sphere_on_gpu)
def sphere(
    image: Array,
    /,
    *,
    fill_value: float | Several[float] = 0.0,
    interp_type: WarpInterp = "nn",
    mask: PerSample[int] = 1,
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Show each image as if on a sphere: its centre is enlarged.

    Args:
        fill_value: Pixels outside the image, one value or one for each channel, saturated to the type of the image.
        interp_type: How a value between pixels is read: "linear" or "nn", the nearest.
        mask: Whether to change the image; any integer but 0 means yes.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: There are too few or too many values to fill with.

    >>> ndd.sphere(ndd.as_tensor([[1, 2, 3, 4, 5]], dtype="uint8")).tolist()
    [[1, 3, 3, 4, 5]]
    """
    height, width = (image.shape[layout.index(letter)] for letter in "HW")
    return _distorted(image, layout, out, maps.on_a_sphere(height, width) if mask else None, fill_value, interp_type)


def _water_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source = images("water", inputs[0], call.layout or "")
    across, down = (tuple(call.fixed[f"{name}_{axis}"] for name in ("ampl", "freq", "phase")) for axis in "xy")
    rows, columns = (int(inputs[0].shapes[:, (call.layout or "").index(letter)].max()) for letter in "HW")
    y, x = (numpy.arange(extent, dtype=numpy.float32) for extent in (rows, columns))
    waves = maps.waves(y, x, across, down)
    _distort_on_gpu(call, source, target, gpu_maps.WAVES, numpy.full((len(source), 1), rows), waves)


@operator(layouts=_IMAGES, plan=_plan_distortion, gpu=_water_on_gpu)
def water(
    image: Array,
    /,
    *,
    ampl_x: float = 10.0,
    ampl_y: float = 10.0,
    fill_value: float | Several[float] = 0.0,
    freq_x: float = math.pi / 64,
    freq_y: float = math.pi / 64,
    interp_type: WarpInterp = "nn",
    mask: PerSample[int] = 1,
    phase_x: float = 0.0,
    phase_y: float = 0.0,
    layout: Layout = GIVEN,
    out: Array = None,
) -> Array:
    """Show each image as if under water: it reads x + ampl_x * sin(freq_x * y + phase_x), and y with a cosine of x.

    By default a wave is 128 pixels long: its frequency is 2 pi / 128. Only `mask` may differ between samples.

    Args:
        ampl_x: How many pixels the waves move to the side.
        ampl_y: How many pixels they move up and down.
        fill_value: Pixels outside the image, one value or one for each channel, saturated to the type of the image.
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


def _distorted(image: Array, layout: str, out: Array, points: Any, fill: Any, interpolation: Any) -> Array:
    """Fill `out` with the values at points of an image, or with the image where there are none."""
    if points is None:
        out[...] = image
        return out
    for frame, result in zip(_frames(image, layout), _frames(out, layout), strict=True):
        maps.read(frame, points, result, fill=fill, interpolation=interpolation)
    return out
