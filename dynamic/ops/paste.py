"""Images on larger canvases, and grids over images: paste, multi_paste, grid_mask."""

# A kernel sees one value where a caller may give a Batch of them.
# mypy: disable-error-code="arg-type"

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
from dynamic._lift.call import Call
from dynamic._lift.former import Spec, planned
from dynamic._lift.operator import operator
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import regions
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import regions as parts

from .geometry import LAYOUTS
from .slices import copy_on_gpu
from .windows import _fill

__all__ = ["grid_mask", "multi_paste", "paste"]

_Values: TypeAlias = float | Several[float]
_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Enlargement: TypeAlias = Annotated[float, Between(1, 1e9)]
_Size: TypeAlias = Annotated[int, Between(0)]
_Side: TypeAlias = Annotated[int, Between(1)]


def _on_canvas(image: Array, /, *, ratio: float, min_canvas_size: float = 0.0, layout: str = "HWC", **_: Any) -> Spec:
    """Shape and dtype of what `paste` makes of an image."""
    shape = list(image.shape)
    for letter in "DHW":
        if letter in layout:
            place = layout.index(letter)
            shape[place] = max(int(numpy.float32(ratio) * numpy.float32(shape[place])), int(min_canvas_size))
    return tuple(shape), image.dtype


def _corner(layout: str, canvas: Sequence[int], image: Sequence[int], paste_x: float, paste_y: float) -> list[int]:
    """Where an image lies on its canvas, in each of its dimensions."""
    positions = {"D": 0.5, "H": paste_y, "W": paste_x}
    return [
        int(numpy.float32(positions[letter]) * numpy.float32(size - extent)) if letter in positions else 0
        for letter, size, extent in zip(layout, canvas, image, strict=True)
    ]


def _paste_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    columns = target.shapes.tolist(), inputs[0].shapes.tolist(), call.column("paste_x"), call.column("paste_y")
    corners = [_corner(call.layout or "", *sample) for sample in zip(*columns, strict=True)]
    copy_on_gpu("paste", call, inputs[0], target, -numpy.array(corners), "fill_value")


@operator(layouts=LAYOUTS, plan=planned(_on_canvas, weight=2), gpu=_paste_on_gpu)
def paste(
    image: Array, /, *, fill_value: PerSample[_Values], min_canvas_size: PerSample[_Extent] = 0.0, n_channels: int = 3,
    paste_x: PerSample[_Position] = 0.5, paste_y: PerSample[_Position] = 0.5, ratio: PerSample[_Enlargement],
    layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
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
    corner = _corner(layout, out.shape, image.shape, paste_x, paste_y)
    place = layout.index("C") if "C" in layout else None
    channels = image.shape[place] if place is not None else 1
    fill = _fill("paste", fill_value, channels, place, image.ndim, "fill_value")
    if out.size:
        regions.pasted(image, corner, fill, out)
    return out


_Corners: TypeAlias = Several[Several[int]]
_RelativeCorners: TypeAlias = Several[Several[float]]
_MULTI = "multi_paste"


def _all_of(call: Call) -> Sequence[tuple[Array, ...]]:
    """The inputs of all samples: `in_ids` may say any of them."""
    return call.samples()


def _sources(
    images: tuple[Array, ...], in_ids: tuple[int, ...] | None, across: Sequence[tuple[Array, ...]]
) -> list[Array]:
    """The images that are pasted, in their order."""
    sources = list(images)
    if in_ids is not None:
        if len(images) > 1:
            raise ArgumentError(_MULTI, "in_ids", "left out where there is more than one input", shown(in_ids))
        if any(not 0 <= i < len(across) for i in in_ids):
            raise ArgumentError(_MULTI, "in_ids", f"numbers of samples, less than {len(across)}", shown(in_ids))
        sources = [across[i][0] for i in in_ids]
    return sources


def _composed(
    *images: Array, dtype: Any = None, in_ids: Any = None, output_size: Any = None, layout: str, across: Any, **_: Any
) -> Spec:
    """Shape and dtype of what `multi_paste` makes of the images of a sample."""
    sources, places = _sources(images, in_ids, across), spatial(layout)
    shape = list(images[0].shape)
    for source in sources:
        if source.shape == sources[0].shape:
            continue
        alike = len(source.shape) == len(shape) and all(
            source.shape[i] == sources[0].shape[i] for i in range(len(shape)) if i not in places
        )
        if not alike:
            expected = "images with the same channels and dimensions"
            raise ArgumentError(_MULTI, "images", expected, f"shapes {sources[0].shape} and {source.shape}")
    if sources:
        shape = list(sources[0].shape)
    if output_size is None:
        if any(source.shape != sources[0].shape for source in sources):
            raise ArgumentError(_MULTI, "output_size", "given where images differ in size", "nothing")
    else:
        extents, channels = list(output_size[: len(places)]), list(output_size[len(places) :])
        if len(extents) < len(places) or (channels and (layout[-1] != "C" or channels != shape[-1:])):
            expected = f"{len(places)} extents, one for each spatial dimension of {layout}"
            raise ArgumentError(_MULTI, "output_size", expected, shown(output_size))
        for place, extent in zip(places, extents, strict=True):
            shape[place] = extent
    return tuple(shape), images[0].dtype if dtype is None else dtype.dtype


def _compose_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    places = list(spatial(call.layout or ""))
    shapes, canvases = [each.shapes.tolist() for each in inputs], target.shapes.tolist()
    layers: dict[tuple[int, int], list[Any]] = {}  # by their number from the canvas up, and the input
    for i, (canvas, arguments) in enumerate(zip(canvases, call.rows(), strict=True)):
        ids = arguments["in_ids"]
        sources = [(k, i) for k in range(len(inputs))] if ids is None else [(0, sample) for sample in ids]
        try:
            windows = _windows([shapes[k][sample] for k, sample in sources], places, canvas, **arguments)
        except ArgumentError as error:
            raise call.noted(i, error) from None
        for number, ((k, sample), window) in enumerate(zip(sources, windows, strict=True)):
            layers.setdefault((number, k), []).append((sample, i, window))
    parts.filled(target, numpy.zeros((len(target), 1)), None)
    for (_, k), layer in sorted(layers.items()):
        samples, owners = (numpy.array([row[column] for row in layer]) for column in range(2))
        starts, targets = numpy.zeros((2, len(layer), target.ndim), numpy.int64)
        sizes = inputs[k].shapes[samples]
        starts[:, places], sizes[:, places], targets[:, places] = zip(*(window for _, _, window in layer), strict=True)
        parts.pasted(parts.part(inputs[k], samples, starts, sizes), parts.part(target, owners, targets, sizes))


@operator(layouts=LAYOUTS, plan=planned(_composed, across=_all_of, weight=2), gpu=_compose_on_gpu)
def multi_paste(
    *images: Array, dtype: DTypeArgument | None = None, in_anchors: PerSample[_Corners | None] = None,
    in_anchors_rel: PerSample[_RelativeCorners | None] = None, in_ids: PerSample[Several[int] | None] = None,
    out_anchors: PerSample[_Corners | None] = None, out_anchors_rel: PerSample[_RelativeCorners | None] = None,
    output_size: PerSample[Several[_Size] | None] = None, shapes: PerSample[_Corners | None] = None,
    shapes_rel: PerSample[_RelativeCorners | None] = None, layout: Layout = GIVEN, plan: Any = None,
    out: Array = None,
) -> Array:  # fmt: skip
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
    sources, places = _sources(images, in_ids, plan), spatial(layout)
    windows = _windows(
        [source.shape for source in sources], places, out.shape, in_anchors=in_anchors, in_anchors_rel=in_anchors_rel,
        shapes=shapes, shapes_rel=shapes_rel, out_anchors=out_anchors, out_anchors_rel=out_anchors_rel,
    )  # fmt: skip
    if not _covered(tuple(out.shape[place] for place in places), windows):
        out.fill(0)
    for source, (start, size, target) in zip(sources, windows, strict=True):
        regions.copied_part(source, places, start, size, target, out)
    return out


_CELLS = 1 << 16  # of a grid
_FEW = 6  # windows that are compared with each other
#: Where a window begins in its image, how large it is, and where it begins on the canvas.
_Window: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _windows(
    images: Sequence[Sequence[int]], places: Sequence[int], canvas: Sequence[int], *, in_anchors: Any,
    in_anchors_rel: Any, shapes: Any, shapes_rel: Any, out_anchors: Any, out_anchors_rel: Any, **_: Any,
) -> list[_Window]:  # fmt: skip
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
    argument: str, absolute: _Corners | None, relative: _RelativeCorners | None, wholes: list[tuple[int, ...]],
    rounding: Any,
) -> list[tuple[int, ...]]:  # fmt: skip
    """The rows of an argument, one for each image; none where it is not given. Parts are of `wholes`, in float32."""
    if absolute is not None and relative is not None:
        raise ArgumentError(_MULTI, f"{argument}_rel", f"left out beside {argument!r}", shown(relative))
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
        parts = [numpy.array(row).astype(numpy.float32) * numpy.array(whole, numpy.float32)
                 for row, whole in zip(rows, wholes, strict=True)]  # fmt: skip
    if not all(numpy.isfinite(part).all() for part in parts):
        raise ArgumentError(_MULTI, name, "parts that float32 can hold", shown(rows))
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
            expected = f"such that window {i} is inside of {whole}"
            raise ArgumentError(_MULTI, argument, expected, f"a window of {size} at {start}")


def _as_input(image: Array, /, **_: Any) -> Spec:
    return image.shape, image.dtype


def _mask_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result = (images("grid_mask", data, call.layout or "") for data in (inputs[0], target))
    names = ("angle", "ratio", "shift_x", "shift_y", "tile")
    grids = regions.grid_of(numpy.array([call.column(name) for name in names], numpy.float64).T)
    parts.masked(source, result, source.each(grids))


@operator(layouts=LAYOUTS, plan=planned(_as_input, weight=2), gpu=_mask_on_gpu)
def grid_mask(
    image: Array, /, *, angle: PerSample[float] = 0.0, ratio: PerSample[float] = 0.5, shift_x: PerSample[float] = 0.0,
    shift_y: PerSample[float] = 0.0, tile: PerSample[_Side] = 100, layout: Layout = GIVEN, out: Array = None,
) -> Array:  # fmt: skip
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
    regions.masked(pixels, tile, ratio, angle, (shift_x, shift_y), results)
    return out
