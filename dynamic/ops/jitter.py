"""Pixels moved at random, each by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays import cuda
from dynamic._arrays.array import Array, library
from dynamic._arrays.described import Described, described
from dynamic._lift.argument import GIVEN, Between, Layout, PerSample, Several
from dynamic._lift.call import Call, Plan
from dynamic.data import Batch, Tensor
from dynamic.devices import DeviceLike
from dynamic.kernels.cpu import maps
from dynamic.kernels.gpu import images
from dynamic.kernels.gpu import maps as gpu_maps
from dynamic.random._drawing import draw_of, random_operator
from dynamic.random._philox import Draw
from dynamic.random._rng import Source

from .geometry import WarpInterp, _frames, check_fill
from .warps import _IMAGES, _map_of

__all__ = ["jitter"]

if TYPE_CHECKING:
    Flag: TypeAlias = int | Batch | Tensor | numpy.ndarray[Any, Any]
    Degree: TypeAlias = int
    Fill: TypeAlias = float | Several[float]
    Interp: TypeAlias = Any
else:
    Flag, Fill, Interp = PerSample[int], float | Several[float], WarpInterp
    Degree = Annotated[int, Between(1, 65535)]

_WORDS = 2  # of each pixel


class _Moves(NamedTuple):
    """The moves of the pixels of a sample, all frames one after the other."""

    draw: Draw
    sample: int
    degree: int

    def near(self, words: Any, place: Any, extent: int) -> Any:
        """Where pixels are read along one dimension: beyond the end is outside, before the start is the first pixel."""
        moved = place + (words % numpy.uint32(self.degree)).astype(numpy.int64) - self.degree // 2
        xp = library(moved)
        return xp.minimum(xp.maximum(moved, 0), extent)

    def points(self, frame: int, height: int, width: int) -> maps.Points:
        """The points that the pixels of a frame read."""

        def found(rows: slice) -> tuple[Any, Any]:
            first, shape = (frame * height + rows.start) * width, (rows.stop - rows.start, width)
            numbers, own = range(first, first + shape[0] * width), slice(self.sample, self.sample + 1)
            across, down = self.draw.words(numpy, own, numbers, _WORDS, _WORDS)
            x, y = numpy.arange(width), numpy.arange(rows.start, rows.stop)[:, None]
            near = self.near(across.reshape(shape), x, width), self.near(down.reshape(shape), y, height)
            return near[0].astype(numpy.float64), near[1].astype(numpy.float64)

        return found

    def maps(self, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """The same of all frames of a sample on a GPU: x and y of each pixel, (height, width) or (frames, ...)."""
        cupy = cuda.cupy()
        numbers = cupy.arange(math.prod(shape), dtype=cupy.uint64)
        own = cupy.full(len(numbers), self.sample, cupy.int64)
        across, down = (word.reshape(shape) for word in self.draw.words(cupy, own, numbers, _WORDS, _WORDS))
        height, width = shape[-2:]
        return self.near(across, cupy.arange(width), width), self.near(down, cupy.arange(height)[:, None], height)


def _plan(call: Call) -> Plan:
    check_fill(call)
    draw = draw_of(call)
    moves = [_Moves(draw, i, call.fixed["nDegree"]) for i in range(call.count)]
    return Plan(call.shapes, call.dtype, data=moves, weight=16.0)


def _on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    layout = call.layout or ""
    source, result = (images(call.name, data, layout) for data in (inputs[0], target))
    own = numpy.arange(call.count) if source.owners is None else source.owners
    frames = numpy.arange(len(own)) - numpy.searchsorted(own, own)
    places = [layout.index(letter) for letter in "FHW" if letter in layout]
    shapes = [tuple(shape[place] for place in places) for shape in call.shapes]
    kept = [moves.maps(shape) for moves, shape in zip(call.plan.data, shapes, strict=True)]  # until the launch
    points = [_map_of(described(list(each)), layout, own, frames) for each in zip(*kept, strict=True)]
    ways = source.each(numpy.where(numpy.array(call.column("mask")) != 0, gpu_maps.GIVEN, gpu_maps.KEPT))
    shift, fill = numpy.zeros((len(own), 1)), call.fixed["fill_value"]
    gpu_maps.read(source, result, ways, shift, fill=fill, interpolation="nn", maps=points)


@random_operator(layouts=_IMAGES, plan=_plan, gpu=_on_gpu)
def jitter(
    image: Any,
    /,
    *,
    fill_value: Fill = 0.0,
    interp_type: Interp = "nn",
    mask: Flag = 1,
    nDegree: Degree = 2,  # noqa: N803, as in DALI
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    layout: Layout = GIVEN,
    plan: _Moves = GIVEN,
    out: Array = GIVEN,
) -> None:
    """Replace each pixel by one at random near it.

    With n for `nDegree`, the pixel at x reads one of the n pixels from x - n // 2 on, all with one chance. So it is
    with y. Before the first row and column the nearest pixel is read, behind the last the fill.

    Args:
        image: Images or videos.
        fill_value: Pixels behind the last row and column, one value or one for each channel, saturated to the type of
            the image.
        interp_type: Without effect: pixels move by whole pixels.
        mask: Whether to change the image; any integer but 0 means yes.
        nDegree: How many places there are along each dimension, 1 to 65535.
        batch_size: Number of samples; a Batch of images, and a keyed `rng`, say it too.
        device: Where the images are moved to before, by default nowhere.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        ArgumentError: There are too few or too many values to fill with.

    >>> ndd.jitter(numpy.array([[1, 2, 3, 4, 5, 6, 7]], "uint8"), nDegree=3, rng=ndd.random.RNG(5)).tolist()
    [[1, 1, 4, 5, 4, 7, 7]]
    """
    if not mask:
        out[...] = image
        return
    height, width = (image.shape[layout.index(letter)] for letter in "HW")
    for number, (frame, result) in enumerate(zip(_frames(image, layout), _frames(out, layout), strict=True)):
        maps.read(frame, plan.points(number, height, width), result, fill=fill_value, interpolation="nn")
