"""Filters of images, videos and volumes: blurring, edges, and any kernel."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._base.layout import warn_of_channels_first
from dynamic._lift.argument import Between, DTypeArgument, PerSample, Several, Word
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.data import Batch
from dynamic.dtypes import convert
from dynamic.errors import ArgumentError, DeviceError, shown
from dynamic.kernels.cpu import filters
from dynamic.kernels.gpu import Images, images, resample
from dynamic.kernels.gpu import filters as correlation

__all__ = ["filter", "gaussian_blur", "laplacian"]

_USUAL = {1: "W", 2: "HW", 3: "HWC", 4: "FHWC", 5: "FDHWC"}
_LARGEST = 31  # of the windows of a Laplacian
_Extent: TypeAlias = Annotated[int, Between(0, 65535)]
_Extents: TypeAlias = _Extent | Several[_Extent]
_Sigma: TypeAlias = Annotated[float, Between(0, 10000)]
_Window: TypeAlias = Annotated[int, Between(1, _LARGEST)]
_Windows: TypeAlias = _Window | Several[_Window]
_Place: TypeAlias = Annotated[int, Between(-1)]
_BORDERS = {"reflect_101": ("101",), "reflect_1001": ("1001",), "clamp": ("edge",), "wrap": (), "constant": ("fill",)}
_Border: TypeAlias = Annotated[str, Word(_BORDERS)]
_Mode: TypeAlias = Annotated[str, Word({"same": (), "valid": ()})]
_OF_DERIVATIVES = ("window_size", "smoothing_size", "scale")


def _spatial(call: Call, argument: str = "image") -> tuple[int, ...]:
    """The dimensions of images that are spatial: all but channels and frames.

    Images without a layout that look channels first are warned of.
    """
    letters = call.layout or _USUAL.get(call.ndim, "")
    places = tuple([i for i, letter in enumerate(letters) if letter not in "CF"])
    if not 1 <= len(places) <= 3:
        expected = "an array with one to three spatial dimensions"
        got = f"layout {call.layout!r}" if call.layout else f"{call.ndim} dimensions, no layout"
        raise ArgumentError(call.name, argument, expected, got, "Letters other than C and F are spatial.")
    if not call.layout and call.count:
        warn_of_channels_first(call.name, call.shapes[0], letters)
    return places


def _each(name: str, argument: str, value: Any, count: int) -> tuple[Any, ...]:
    """One value for each of `count` spatial dimensions."""
    values = value if isinstance(value, tuple) else (value,)
    if len(values) not in (1, count):
        raise ArgumentError(name, argument, f"one value or {count}, one for each spatial dimension", shown(value))
    return values * count if len(values) == 1 else values


def _images(call: Call, data: Described, target: Described) -> tuple[Images, Images, list[int]]:
    """The images of an input and of the result, and which of the spatial dimensions are their height and width."""
    letters = call.layout or _USUAL.get(data.ndim, "")
    if not set("HW") <= set(letters) <= set("FCHW"):
        got = f"layout {call.layout!r}" if call.layout else f"{data.ndim} dimensions"
        takes = f"{call.name}() on a GPU is for images and videos (HW, HWC, CHW, FHWC, FCHW)"
        raise DeviceError(f"{takes}; got {got}. Move it with .cpu().")
    order = [0, 1] if letters.index("H") < letters.index("W") else [1, 0]
    return images(call.name, data, letters), images(call.name, target, letters), order


def _plan_blur(call: Call) -> Plan:
    """The spatial dimensions of images, and a window along each."""
    spatial = _spatial(call)
    pairs = call.each(functools.partial(_blurred, len(spatial)))
    distinct = dict.fromkeys(pairs)
    gaussians = _gaussians if len(distinct) == 1 else _gaussians.__wrapped__  # many are not remembered
    windows = iter(gaussians(tuple(itertools.chain.from_iterable(distinct))))
    found = {own: tuple(itertools.islice(windows, len(spatial))) for own in distinct}
    return Plan(call.shapes, call.asked, data=[(spatial, found[own]) for own in pairs], weight=8.0)


def _blurred(count: int, _: Array, /, *, sigma: Any, window_size: Any, **__: Any) -> tuple[tuple[float, int], ...]:
    """The sigma and the size of the window along each of so many dimensions."""
    name = "gaussian_blur"
    sigmas, sizes = _each(name, "sigma", sigma, count), _each(name, "window_size", window_size, count)
    for deviation, size in zip(sigmas, sizes, strict=True):
        if size % 2 == 0 and size:
            raise ArgumentError(name, "window_size", "odd", str(size))
        if not size and not deviation:
            raise ArgumentError(name, "sigma", "above 0 where window_size is 0", "0")
    return tuple(zip(sigmas, sizes, strict=True))


@functools.lru_cache(64)
@numpy.errstate(over="ignore")
def _gaussians(pairs: tuple[tuple[float, int], ...]) -> list[Array]:
    """The windows of sigmas and sizes, of which one may be 0."""
    sigmas, sizes = numpy.array(pairs, numpy.float64).reshape(-1, 2).T
    radii = numpy.where(sizes > 0, (sizes - 1) // 2, numpy.ceil(3 * sigmas)).astype(int)
    deviations = numpy.where(sigmas > 0, sigmas, 0.3 * (radii - 1) + 0.8)
    counts = 2 * radii + 1
    ends = numpy.cumsum(counts)
    starts = ends - counts
    places = numpy.arange(counts.sum()) - numpy.repeat(starts + radii, counts)
    weights = numpy.exp(-0.5 * (places / numpy.repeat(deviations, counts)) ** 2)
    weights /= numpy.repeat(numpy.add.reduceat(weights, starts), counts)
    weights.flags.writeable = False  # shared by all who ask
    return [weights[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _blur_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result, order = _images(call, inputs[0], target)
    owners = range(call.count) if source.owners is None else source.owners.tolist()
    found = [[call.plan.data[i][1][axis] for i in owners] for axis in order]
    sizes = numpy.array([list(map(len, windows)) for windows in found]).T
    resample.blurred(source, result, [numpy.concatenate([numpy.empty(0), *windows]) for windows in found], sizes)


@operator(plan=_plan_blur, gpu=_blur_on_gpu)
def gaussian_blur(
    image: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    sigma: PerSample[_Sigma | Several[_Sigma]] = 0.0,
    window_size: PerSample[_Extents] = 0,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Blur with a Gaussian along every spatial dimension, which are all but channels and frames.

    Without a layout, images are HW, HWC or FHWC. Images are reflected about their edge pixels.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        sigma: Standard deviation in pixels: one value, or one for each spatial dimension in the order of the layout; 0
            follows from `window_size`: 0.3 * ((window_size - 1) / 2 - 1) + 0.8.
        window_size: How many pixels count, an odd number: one, or one for each spatial dimension; 0 follows from
            `sigma`: 2 * ceil(3 * sigma) + 1.

    Returns:
        Images of the same shape and layout.

    Raises:
        ArgumentError: A window is even, both it and its sigma are 0, or there are too many or too few of them.

    >>> image = numpy.array([[0, 0, 0, 100, 0, 0, 0]], "float32")
    >>> ndd.gaussian_blur(image, sigma=1.0).numpy().round().tolist()
    [[1.0, 5.0, 24.0, 40.0, 24.0, 5.0, 1.0]]
    """
    spatial, windows = plan
    for plane, result in filters.planes(image, spatial, out):
        filters.separable(plane, windows, result)
    return out


def _plan_laplacian(call: Call) -> Plan:
    """The spatial dimensions of images, and the windows of the second derivative along each."""
    spatial = _spatial(call)

    def derived(_: Array, /, *, normalized_kernel: bool, **arguments: Any) -> tuple[Any, ...]:
        given = [arguments[name] for name in _OF_DERIVATIVES]
        return spatial, _derivatives(*given, len(spatial), normalized=normalized_kernel)

    return Plan(call.shapes, call.asked, data=call.each(derived), weight=8.0)


def _laplacian_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    source, result, order = _images(call, inputs[0], target)
    columns, normalized = map(call.column, _OF_DERIVATIVES), call.fixed["normalized_kernel"]
    kernels = [_laplacian(*arguments, normalized=normalized) for arguments in zip(*columns, strict=True)]
    middles = source.each(numpy.array([kernel.shape for kernel in kernels])[:, order] // 2)
    correlation.correlated(source, result, _of_each(source, kernels, order), middles, "reflect_101")


def _of_each(source: Images, kernels: Sequence[Array], order: list[int]) -> list[Array]:
    """The kernel of each image, its height first; those that were one array still are."""
    turned = {id(kernel): kernel.transpose(order) for kernel in kernels}
    return [turned[id(kernels[i])] for i in source.each(numpy.arange(len(kernels)))]


@functools.lru_cache(64)
@numpy.errstate(over="ignore", invalid="ignore")
def _laplacian(window_size: Any, smoothing_size: Any, scale: Any, *, normalized: bool) -> Array:
    """The sum of all derivatives of an image as one kernel."""
    terms = _derivatives(window_size, smoothing_size, scale, 2, normalized=normalized)
    sizes = [max(len(term[axis]) for term in terms) for axis in range(2)]
    total = numpy.zeros(sizes)
    for term in terms:
        around = [(size - len(window)) // 2 for size, window in zip(sizes, term, strict=True)]
        part = total[around[0] : sizes[0] - around[0], around[1] : sizes[1] - around[1]]
        part += numpy.outer(*term)
    total.flags.writeable = False
    return total


@operator(plan=_plan_laplacian, gpu=_laplacian_on_gpu)
def laplacian(
    image: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    normalized_kernel: bool = False,
    scale: PerSample[float | Several[float]] = 1.0,
    smoothing_size: PerSample[_Windows | None] = None,
    window_size: PerSample[_Windows] = 3,
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Sum the second derivatives along the spatial dimensions, which are all but channels and frames.

    The derivative along one dimension is smoothed along the others. Without a layout, images are HW, HWC or FHWC.
    Images are reflected about their edge pixels.

    Args:
        dtype: Element type of the result, by default the image's; values are rounded and saturated to it.
        normalized_kernel: Scale each derivative by 2 ** (n + 2 - s), with n spatial dimensions and windows whose sizes
            have the sum s.
        scale: Factor of the derivatives: one, or one for each spatial dimension in the order of the layout.
        smoothing_size: How many pixels smooth, an odd number up to 31: one, or one for each dimension; 1 does not
            smooth. By default as many as the derivative has.
        window_size: How many pixels a derivative takes, an odd number from 3 to 31: one, or one for each dimension.

    Returns:
        Images of the same shape and layout.

    Raises:
        ArgumentError: A size is even, a window smaller than 3, `scale` is given beside `normalized_kernel`, or there
            are too many or too few values.

    >>> image = numpy.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], "float32")
    >>> ndd.laplacian(image, smoothing_size=1).tolist()[1]
    [2.0, -4.0, 2.0]
    """
    spatial, terms = plan
    for plane, result in filters.planes(image, spatial, out):
        filters.laplacian(plane, terms, result)
    return out


@functools.lru_cache(64)
def _derivatives(
    window_size: Any, smoothing_size: Any, scale: Any, count: int, *, normalized: bool
) -> tuple[list[Array], ...]:
    """The windows of the second derivatives along each of so many dimensions."""
    name, given = "laplacian", (window_size, smoothing_size, scale)
    sizes, smoothing, factors = (_each(name, *pair, count) for pair in zip(_OF_DERIVATIVES, given, strict=True))
    if normalized and factors != (1.0,) * count:
        raise ArgumentError(name, "scale", "left out with normalized_kernel=True", shown(scale))
    for size in sizes:
        if size % 2 == 0 or size < 3:
            raise ArgumentError(name, "window_size", f"an odd integer in [3, {_LARGEST}]", str(size))
    for size in smoothing:
        if size is not None and size % 2 == 0:
            raise ArgumentError(name, "smoothing_size", f"an odd integer in [1, {_LARGEST}]", str(size))
    return tuple(_derivative(i, sizes[i], smoothing, factors[i], normalized=normalized) for i in range(count))


@numpy.errstate(over="ignore", invalid="ignore")
def _derivative(
    axis: int, size: int, smoothing: tuple[int | None, ...], scale: float, *, normalized: bool
) -> list[Array]:
    """The windows of the second derivative along one of the spatial dimensions."""
    sizes = [size if i == axis or other is None else other for i, other in enumerate(smoothing)]
    windows = [_binomial(other) for other in sizes]
    windows[axis] = numpy.convolve([1.0, -2.0, 1.0], _binomial(size - 2)) * scale
    if normalized:
        windows[axis] *= 2.0 ** (len(sizes) + 2 - sum(sizes))
    windows[axis].flags.writeable = False
    return windows


@functools.lru_cache(64)
def _binomial(size: int) -> Array:
    weights = numpy.array([float(math.comb(size - 1, k)) for k in range(size)])
    weights.flags.writeable = False
    return weights


def _plan_filter(call: Call) -> Plan:
    """The spatial dimensions of images, and which weight of the kernel lies on the pixel that is computed."""
    spatial = _spatial(call, "data")
    found = call.each(functools.partial(_filtered, spatial))
    data = [(spatial, anchors) for _, anchors in found]
    return Plan([shape for shape, _ in found], call.asked, data=data, weight=8.0)


def _filtered(
    spatial: tuple[int, ...], data: Array, filter: Array, _: Any = None, /, *, anchor: Any, mode: str, **__: Any
) -> tuple[Shape, list[int]]:
    """The shape of a filtered image, and the anchor of the kernel in each dimension."""
    if filter.ndim != len(spatial):
        expected = f"of {len(spatial)} dimensions, one for each spatial dimension"
        raise ArgumentError("filter", "filter", expected, f"{filter.ndim} dimensions")
    if not filter.size:
        raise ArgumentError("filter", "filter", "of at least one weight", f"shape {filter.shape}")
    shape = list(data.shape)
    for place, extent in zip(spatial, filter.shape, strict=True) if mode == "valid" else ():
        shape[place] -= extent - 1
        if shape[place] < 1:
            expected = f"no larger than the image, {data.shape[place]}, where mode is 'valid'"
            raise ArgumentError("filter", "filter", expected, f"an extent of {extent}")
    anchors = []
    for place, extent in zip(_each("filter", "anchor", anchor, filter.ndim), filter.shape, strict=True):
        if place >= extent:
            raise ArgumentError("filter", "anchor", f"less than the extent of the filter, {extent}", str(place))
        anchors.append(extent // 2 if place < 0 else place)
    return tuple(shape), anchors


def _filter_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    """Kernels and values to fill with that are on the GPU are waited for."""
    source, result, order = _images(call, inputs[0], target)
    given = [each.cpu() for each in call.inputs[1:]]
    weights, *more = [each.samples if isinstance(each, Batch) else [each.array] * call.count for each in given]
    fills = [_fill(value, inputs[0].dtype) for value in more[0]] if more else [0] * call.count
    border = call.fixed["border"]
    places = source.each(numpy.array([anchors for _, anchors in call.plan.data])[:, order])
    if call.fixed["mode"] == "valid":
        places, border = numpy.zeros_like(places), "clamp"
    values = source.each(numpy.array(fills, numpy.float64))
    correlation.correlated(source, result, _of_each(source, weights, order), places, border, values)


def _fill(value: Array, dtype: numpy.dtype[Any]) -> Any:
    """The value to fill with, as images of a type can have it."""
    if value.size != 1:
        raise ArgumentError("filter", "fill_value", "one number", f"shape {value.shape}")
    return convert(numpy, value.reshape(1), dtype)[0]


@operator(plan=_plan_filter, gpu=_filter_on_gpu)
def filter(
    data: Array,
    filter: Array,
    fill_value: Array = None,
    /,
    *,
    anchor: PerSample[_Place | Several[_Place]] = -1,
    border: _Border = "reflect_101",
    dtype: DTypeArgument | None = None,
    mode: _Mode = "same",
    plan: Any = None,
    out: Array = None,
) -> Array:
    """Correlate each image, each frame of a video, or each volume with a kernel of its own or the same for all.

    The inputs are the image, the kernel, and a number to fill with where `border` is "constant", 0 by default. The
    kernel has the spatial dimensions, which are all but channels and frames. It is not flipped. Without a layout,
    images are HW, HWC or FHWC.

    Args:
        anchor: Which weight lies on the pixel that is computed: an index for each dimension, or one for all; -1 is the
            middle, rounded up. It does not matter where `mode` is "valid".
        border: Pixels outside of the image: "reflect_101" reflects it about the edge pixels, "reflect_1001" about the
            edge, "clamp" takes the nearest pixel, "wrap" the other side, "constant" the third input.
        dtype: Element type of the result, by default the image's; values are rounded half to even, and saturated.
        mode: "same" keeps the size, "valid" takes only windows inside of the image.

    Returns:
        Images of the same layout.

    Raises:
        ArgumentError: The kernel has another number of dimensions, is empty, or larger than the image where `mode` is
            "valid"; or the anchor is not on it.

    >>> image = numpy.array([[1, 2, 3], [4, 5, 6]], "float32")
    >>> ndd.filter(image, numpy.ones((2, 2), "float32"), mode="valid").tolist()
    [[12.0, 16.0]]
    """
    spatial, anchors = plan
    fill = 0 if fill_value is None else _fill(fill_value, data.dtype)
    border = "none" if mode == "valid" else border
    for plane, result in filters.planes(data, spatial, out):
        filters.correlated(plane, filter, anchors, border, fill, result)
    return out
