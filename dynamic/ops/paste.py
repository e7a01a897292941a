"""Images on larger canvases, and grids over images: paste, multi_paste, grid_mask."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.layout import spatial
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, Layout, PerSample, Several
from dynamic._lift.call import Call, Moving, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.data import Batch
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import points, regions
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import regions as parts

from .geometry import LAYOUTS
from .slices import copy_on_gpu, filling

__all__ = ["grid_mask", "multi_paste", "paste"]

_Values: TypeAlias = float | Several[float]
_Extent: TypeAlias = Annotated[float, Between(0, 1e9)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Enlargement: TypeAlias = Annotated[float, Between(1, 1e9)]
_Size: TypeAlias = Annotated[int, Between(0)]
_Side: TypeAlias = Annotated[int, Between(1)]


def _plan_paste(call: Call) -> Plan:
    """Where each image begins on its canvas, in each dimension."""
    layout, canvases, corners = call.layout or "", [], []
    columns = map(call.column, ("ratio", "min_canvas_size", "paste_x", "paste_y"))
    for shape, ratio, least, x, y in zip(call.shapes, *columns, strict=True):
        canvas, corner, positions = list(shape), [0] * len(shape), {"D": 0.5, "H": y, "W": x}
        for place in spatial(layout):
            extent, position = shape[place], numpy.float32(positions[layout[place]])
            canvas[place] = max(int(numpy.float32(ratio) * numpy.float32(extent)), int(least))
            corner[place] = int(position * numpy.float32(canvas[place] - extent))
        canvases.append(tuple(canvas))
        corners.append(corner)
    return Plan(canvases, call.dtype, data=corners, weight=2.0)


def _map_paste(call: Call) -> Array:
    layout, corners = call.layout or "", numpy.array(call.plan.data, numpy.int64).reshape(-1, call.ndim)
    return points.scaled(1.0, corners[:, [layout.index("W"), layout.index("H")]])


def _paste_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    copy_on_gpu(call, inputs[0], target, -numpy.array(call.plan.data), "fill_value")


@operator(layouts=LAYOUTS, plan=Moving(_plan_paste, _map_paste), gpu=_paste_on_gpu)
def paste(
    image: Array,
    /,
    *,
    fill_value: PerSample[_Values],
    min_canvas_size: PerSample[_Extent] = 0.0,
    n_channels: int = 3,
    paste_x: PerSample[_Position] = 0.5,
    paste_y: PerSample[_Position] = 0.5,
    ratio: PerSample[_Enlargement],
    layout: Layout = GIVEN,
    plan: Sequence[int] = GIVEN,
    out: Array = None,
) -> Array:
    """Put each image onto a larger canvas.

    Args:
        fill_value: The colour of the canvas, one value or one for each channel, saturated to the type of the image.
        min_canvas_size: The least height and width of the canvas.
        n_channels: Without effect: an image has the channels that it has.
        paste_x: Where the image lies: 0 at the left edge, 1 at the right one.
        paste_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        ratio: How many times as high and wide the canvas is, 1 or more; fractions of pixels are cut off.

    Returns:
        Images of the same dtype and layout. A volume is centred in depth.

    Raises:
        ArgumentError: There are too many or too few values for the channels.

    >>> ndd.paste(numpy.ones((1, 2), "uint8"), ratio=2, fill_value=7, paste_x=1.0, paste_y=0.0).tolist()
    [[7, 7, 1, 1], [7, 7, 7, 7]]
    """
    fill = filling("paste", fill_value, out, layout)
    if out.size:
        regions.pasted(image, plan, fill, out)
    return out


_Corners: TypeAlias = Several[Several[int]]
_RelativeCorners: TypeAlias = Several[Several[float]]
_MULTI = "multi_paste"
#: Where a window begins in its image, how large it is, and where it begins on the canvas.
_Window: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _plan_composition(call: Call) -> Plan:
    """For each canvas the input and the sample of its images, their windows, and the arrays of all inputs."""
    layout, columns = call.layout or "", call.columns()
    places, shapes = spatial(layout), [x.shape if isinstance(x, Batch) else [x.shape] * call.count for x in call.inputs]
    canvases, data = [], []
    before: Any = None
    for i, arguments in enumerate(call.rows()):
        try:
            sources = _sources(i, call.count, len(shapes), arguments["in_ids"])
            images = [shapes[k][sample] for k, sample in sources]
            if before != [shapes[0][i], *images] or call.varying:
                canvas = _canvas(shapes[0][i], images, places, layout, arguments["output_size"])
                windows, before = _windows(images, places, canvas, **arguments), [shapes[0][i], *images]
            canvases.append(canvas)
            data.append((sources, windows, columns))
        except ArgumentError as error:
            raise call.noted(i, error) from None
    return Plan(canvases, call.asked, data=data, weight=2.0)


def _sources(i: int, count: int, inputs: int, in_ids: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """The input and the sample of each image that is pasted onto canvas i, in their order."""
    if in_ids is None:
        return [(k, i) for k in range(inputs)]
    if inputs > 1:
        raise ArgumentError(_MULTI, "in_ids", "left out where there is more than one input", shown(in_ids))
    if any(not 0 <= sample < count for sample in in_ids):
        raise ArgumentError(_MULTI, "in_ids", f"numbers of samples, less than {count}", shown(in_ids))
    return [(0, sample) for sample in in_ids]


def _canvas(own: Shape, images: Sequence[Shape], places: Sequence[int], layout: str, output_size: Any) -> Shape:
    """The shape of a canvas, given those of its images; `own` is that of the sample of the first input."""
    first = images[0] if images else own
    others = [i for i in range(len(own)) if i not in places]
    for image in images:
        if image != first and (len(image) != len(own) or any(image[i] != first[i] for i in others)):
            expected = "images with the same channels and dimensions"
            raise ArgumentError(_MULTI, "images", expected, f"shapes {first} and {image}")
    if output_size is None:
        if any(image != first for image in images):
            raise ArgumentError(_MULTI, "output_size", "given when images differ in size", "nothing")
        return first
    shape, extents, channels = list(first), output_size[: len(places)], list(output_size[len(places) :])
    if len(extents) < len(places) or (channels and (layout[-1] != "C" or channels != shape[-1:])):
        expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
        raise ArgumentError(_MULTI, "output_size", expected, shown(output_size))
    for place, extent in zip(places, extents, strict=True):
        shape[place] = extent
    return tuple(shape)


def _compose_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    places = list(spatial(call.layout or ""))
    layers: dict[tuple[int, int], list[Any]] = {}  # by their number from the canvas up, and the input
    for i, (sources, windows, _) in enumerate(call.plan.data):
        for number, ((k, sample), window) in enumerate(zip(sources, windows, strict=True)):
            layers.setdefault((number, k), []).append((sample, i, window))
    parts.filled(target, numpy.zeros((len(target), 1)), None)
    for (_, k), layer in sorted(layers.items()):
        samples, owners = (numpy.array([row[column] for row in layer]) for column in range(2))
        starts, targets = numpy.zeros((2, len(layer), target.ndim), numpy.int64)
        sizes = inputs[k].shapes[samples]
        starts[:, places], sizes[:, places], targets[:, places] = zip(*(window for _, _, window in layer), strict=True)
        parts.pasted(parts.part(inputs[k], samples, starts, sizes), parts.part(target, owners, targets, sizes))


@operator(layouts=LAYOUTS, plan=_plan_composition, gpu=_compose_on_gpu)
def multi_paste(
    *images: Array,
    dtype: DTypeArgument | None = None,
    in_anchors: PerSample[_Corners | None] = None,
    in_anchors_rel: PerSample[_RelativeCorners | None] = None,
    in_ids: PerSample[Several[int] | None] = None,
    out_anchors: PerSample[_Corners | None] = None,
    out_anchors_rel: PerSample[_RelativeCorners | None] = None,
    output_size: PerSample[Several[_Size] | None] = None,
    shapes: PerSample[_Corners | None] = None,
    shapes_rel: PerSample[_RelativeCorners | None] = None,
    layout: Layout = GIVEN,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Paste windows of several images onto each canvas: of all inputs, or of samples of one input.

    Where windows overlap the later one is seen, and where there is none the canvas is 0.

    Args:
        dtype: Element type of the result, by default the first input's; values are rounded and saturated to it.
        in_anchors: Where the window of each image begins: a row (y, x) for each, for volumes (z, y, x).
        in_anchors_rel: The same as parts of the image's extents, cut off to whole pixels.
        in_ids: The samples of the only input that are pasted; by default one of each input, of the sample itself.
        out_anchors: Where each window is put on the canvas.
        out_anchors_rel: The same as parts of the canvas's extents, cut off to whole pixels.
        output_size: Height and width of the canvas, for volumes depth first, and the channels or not; by default that
            of the images.
        shapes: The size of each window; by default all of the image behind the anchor.
        shapes_rel: The same as parts of the image's extents, rounded up.

    Returns:
        Canvases with the layout and the channels of the first input.

    Raises:
        ArgumentError: A window is not inside of its image or of the canvas, arguments contradict each other, or images
            do not go together.

    >>> left, right = numpy.full((2, 2), 1, "uint8"), numpy.full((2, 1), 2, "uint8")
    >>> ndd.multi_paste(left, right, output_size=(2, 4), out_anchors=[[0, 0], [0, 3]]).tolist()
    [[1, 1, 0, 2], [1, 1, 0, 2]]
    """
    sources, windows, columns = plan
    places = spatial(layout)
    if not _covered(tuple(out.shape[place] for place in places), windows):
        out.fill(0)
    for (k, sample), (start, size, target) in zip(sources, windows, strict=True):
        regions.copied_part(columns[k][sample], places, start, size, target, out)
    return out


_CELLS = 1 << 16  # of a grid
_FEW = 6  # windows that are compared with each other


def _windows(
    images: Sequence[Sequence[int]],
    places: Sequence[int],
    canvas: Sequence[int],
    *,
    in_anchors: Any,
    in_anchors_rel: Any,
    shapes: Any,
    shapes_rel: Any,
    out_anchors: Any,
    out_anchors_rel: Any,
    **_: Any,
) -> list[_Window]:
    """The windows of the images that are pasted onto one canvas, from the shapes of these."""
    wholes = [tuple(image[place] for place in places) for image in images]
    canvases = [tuple(canvas[place] for place in places)] * len(images)
    origin = [(0,) * len(places)] * len(images)
    starts = _rows("in_anchors", in_anchors, in_anchors_rel, wholes, numpy.floor) or origin
    rest = [tuple(b - a for a, b in zip(*pair, strict=True)) for pair in zip(starts, wholes, strict=True)]
    sizes = _rows("shapes", shapes, shapes_rel, wholes, numpy.ceil) or rest
    targets = _rows("out_anchors", out_anchors, out_anchors_rel, canvases, numpy.floor) or origin
    _check_inside("in_anchors", starts, sizes, wholes)
    _check_inside("out_anchors", targets, sizes, canvases)
    return list(zip(starts, sizes, targets, strict=True))


def _rows(
    argument: str,
    absolute: _Corners | None,
    relative: _RelativeCorners | None,
    wholes: list[tuple[int, ...]],
    rounding: Any,
) -> list[tuple[int, ...]]:
    """The rows of an argument, one for each image; none where it is not given. Parts are of `wholes`, in float32."""
    if absolute is not None and relative is not None:
        raise ArgumentError(_MULTI, f"{argument}_rel", f"left out when {argument!r} is given", shown(relative))
    rows = absolute if absolute is not None else relative
    if rows is None:
        return []
    name = argument if absolute is not None else f"{argument}_rel"
    if len(rows) != len(wholes) or any(len(row) != len(whole) for row, whole in zip(rows, wholes, strict=True)):
        dimensions = len(wholes[0]) if wholes else 0
        expected = f"{len(wholes)} rows of {dimensions} numbers, one for each image"
        raise ArgumentError(_MULTI, name, expected, shown(rows))
    if absolute is not None:
        return list(absolute)
    with numpy.errstate(over="ignore", invalid="ignore"):
        parts = [
            numpy.array(row).astype(numpy.float32) * numpy.array(whole, numpy.float32)
            for row, whole in zip(rows, wholes, strict=True)
        ]
    if not all(numpy.isfinite(part).all() for part in parts):
        raise ArgumentError(_MULTI, name, "numbers in the range of float32", shown(rows))
    return [tuple(int(value) for value in rounding(part)) for part in parts]


def _covered(canvas: tuple[int, ...], windows: list[_Window]) -> bool:
    """Whether windows that do not overlap cover a canvas, as those of a mosaic do.

    Of more than a few it is found on a grid of their edges. Where that has many cells the answer is no: to fill a
    canvas takes less.
    """
    if sum(math.prod(size) for _, size, _ in windows) != math.prod(canvas):
        return False
    boxes = [[(a, a + b) for a, b in zip(target, size, strict=True)] for _, size, target in windows]
    if len(boxes) <= _FEW:
        return not any(
            all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))
            for one, other in itertools.combinations(boxes, 2)
        )
    edges = [sorted(set(itertools.chain.from_iterable(along))) for along in zip(*boxes, strict=True)]
    if math.prod(map(len, edges)) > _CELLS:
        return False
    cells = [{edge: i for i, edge in enumerate(along)} for along in edges]
    marked = numpy.zeros(list(map(len, edges)), bool)
    for box in boxes:
        part = marked[tuple(slice(cell[a], cell[b]) for cell, (a, b) in zip(cells, box, strict=True))]
        if part.any():
            return False
        part[...] = True
    return True


def _check_inside(
    argument: str, starts: list[tuple[int, ...]], sizes: list[tuple[int, ...]], wholes: list[tuple[int, ...]]
) -> None:
    for i, (start, size, whole) in enumerate(zip(starts, sizes, wholes, strict=True)):
        if any(a < 0 or b < 0 or a + b > c for a, b, c in zip(start, size, whole, strict=True)):
            expected = f"inside of {whole} for window {i}"
            raise ArgumentError(_MULTI, argument, expected, f"a window of {size} at {start}")


def _plan_mask(call: Call) -> Plan:
    """The grid of each image."""
    columns = [call.column(name) for name in ("angle", "ratio", "shift_x", "shift_y", "tile")]
    alike = not call.varying and call.count > 1 and len(set(call.shapes)) == 1
    data = [(grid, alike) for grid in regions.grid_of(numpy.array(columns).T)]
    return Plan(call.shapes, call.dtype, data=data, weight=2.0)


def _mask_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("grid_mask", data, call.layout or "") for data in (inputs[0], target))
    parts.masked(source, result, source.each(numpy.array([grid for grid, _ in call.plan.data])))


@operator(layouts=LAYOUTS, plan=_plan_mask, gpu=_mask_on_gpu)
def grid_mask(
    image: Array,
    /,
    *,
    angle: PerSample[float] = 0.0,
    ratio: PerSample[float] = 0.5,
    shift_x: PerSample[float] = 0.0,
    shift_y: PerSample[float] = 0.0,
    tile: PerSample[_Side] = 100,
    layout: Layout = GIVEN,
    plan: tuple[Array, bool] = GIVEN,
    out: Array = None,
) -> Array:
    """Set a square in each tile of a grid to 0, as augmentation by hiding does.

    Args:
        angle: How far the grid is rotated about the upper left corner of the image, in radians.
        ratio: The side of a square, as a part of that of its tile.
        shift_x: How many pixels the grid is moved to the right.
        shift_y: How many pixels the grid is moved down.
        tile: The side of a tile in pixels.

    Returns:
        Images of the same shape, dtype and layout; all frames of a video are masked alike, and all slices of a volume.

    >>> ndd.grid_mask(numpy.ones((2, 6), "uint8"), tile=3, ratio=0.4).tolist()
    [[0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 1]]
    """
    pixels, results = (image, out) if layout.endswith("HWC") else (image[..., None], out[..., None])
    regions.masked(pixels, *plan, results)
    return out
