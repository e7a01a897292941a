"""Shapes and layouts: other ones for the same data, and the order of dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy

from dynamic._arrays.array import SMALL, Array
from dynamic._arrays.described import Described
from dynamic._arrays.memory import checked_extents
from dynamic._base.docstrings import described_as
from dynamic._base.pool import run_steps
from dynamic._lift.argument import GIVEN, DTypeArgument, PerSample, Several
from dynamic._lift.call import Call, Plan
from dynamic._lift.kernels import Memory
from dynamic._lift.operator import operator
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import order
from dynamic.kernels.gpu import copies as gpu_copies

from . import _copies as copies

__all__ = ["expand_dims", "reinterpret", "reshape", "squeeze", "transpose"]

_Integers: TypeAlias = Several[int] | int
_Factors: TypeAlias = Several[float] | float
_MOST = 63  # dimensions of a sample: NumPy has 64, of which a Batch needs one


def _each(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple) else [values]


def place_of(operator: str, argument: str, place: int, ndim: int) -> int:
    """The number of a dimension, which may be counted from the last."""
    if ndim > _MOST:
        raise ArgumentError(operator, argument, f"among at most {_MOST} dimensions", f"{ndim} of them")
    if not -ndim <= place < ndim:
        raise ArgumentError(operator, argument, f"in [{-ndim}, {ndim - 1}]", str(place))
    return place % ndim


@functools.lru_cache(256)
def _places(operator: str, argument: str, places: Any, ndim: int) -> tuple[int, ...]:
    """The numbers of some dimensions, all different."""
    found = [place_of(operator, argument, place, ndim) for place in _each(places)]
    if len(set(found)) < len(found):
        raise ArgumentError(operator, argument, "different dimensions", shown(places))
    return tuple(found)


@functools.lru_cache(256)
def _order(layout: str | None, ndim: int, perm: Any, output_layout: str | None) -> tuple[int, ...]:
    """For each dimension of the result which one of the input it is."""
    if perm is not None:
        places = _places("transpose", "perm", perm, ndim)
        if len(places) != ndim:
            raise ArgumentError("transpose", "perm", f"a permutation of {ndim} dimensions", shown(perm))
        return places
    if not output_layout:
        return tuple(reversed(range(ndim)))
    if layout is None or sorted(layout) != sorted(output_layout) or len(set(layout)) < ndim:
        expected = f"the letters of the input's layout, {layout!r}, in another order"
        raise ArgumentError("transpose", "output_layout", expected, repr(output_layout), "Or pass perm too.")
    return tuple(layout.index(letter) for letter in output_layout)


def _plan_transpose(call: Call) -> Plan:
    """The order of the dimensions."""
    layout, wanted = call.layout, call.fixed["output_layout"]
    places = _order(layout, call.ndim, call.fixed["perm"], wanted)
    if wanted and len(wanted) != call.ndim:
        expected = f"a letter for each of the {call.ndim} dimensions"
        raise ArgumentError("transpose", "output_layout", expected, repr(wanted))
    if not wanted:
        wanted = "".join(layout[i] for i in places) if layout and call.fixed["transpose_layout"] else layout
    shapes = call.shapes_by(lambda shape: tuple([shape[i] for i in places]))
    size = max(map(math.prod, set(shapes)), default=0) * call.dtype.itemsize
    apart = size > SMALL and call.device.device_type == "cpu"  # then a sample is one call of OpenCV, but not several
    kernel = functools.partial(_transpose_many, places=places)
    colours = apart and call.count >= copies.MANY // 2 and size <= _CACHED and _are_colours(call, places)
    native = functools.partial(_transposed, places=places) if colours else None
    data = [places] * call.count if apart else places
    return Plan(shapes, call.dtype, wanted, data=data, kernel=kernel, native=native)


_CACHED = 1 << 18  # bytes of a sample; of a larger one OpenCV splits the channels as fast


def _are_colours(call: Call, places: Sequence[int]) -> bool:
    """Whether three channels of bytes change places with pixels."""
    if call.dtype != numpy.uint8 or tuple(places) not in {(2, 0, 1), (1, 2, 0)}:
        return False
    return {shape[2 if places[0] == 2 else 0] for shape in call.shapes} == {3}


def _transposed(_: Call, inputs: list[Described], memory: Memory, places: tuple[int, ...]) -> bool:
    return copies.copied(inputs[0].ordered(places), memory.described(), 2 * memory.nbytes)


def _transpose_many(call: Call, memory: Memory, places: tuple[int, ...]) -> None:
    """Prepare a call of a library for each sample, and share them out."""
    pairs = zip(*call.columns(), memory.outs, strict=True)
    steps = [order.permuting(data, places, out) or (order.permuted, (data, places, out)) for data, out in pairs]
    run_steps(steps, call.plan.weight * (call.bytes() + memory.nbytes))


def _transpose_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    """`transpose` on a GPU: a copy of arrays whose dimensions are in another order."""
    (source,), places = inputs, call.plan.data
    turned = Described(source.pointers, source.shapes[:, places], source.strides[:, places], source.dtype)
    gpu_copies.window(turned, target)


@operator(plan=_plan_transpose, gpu=_transpose_on_gpu, unit="array")
def transpose(
    data: Array,
    /,
    *,
    perm: _Integers | None = None,
    transpose_layout: bool = True,
    output_layout: str | None = None,
    plan: tuple[int, ...] = (),
    out: Array = GIVEN,
) -> Array:
    """Change the order of the dimensions.

    Args:
        perm: For each dimension of the result which one of the input it is; negative ones count from the last. By
            default the order is the one that `output_layout` asks for, else the reverse.
        transpose_layout: Whether the letters of the layout change places too; else the layout is the input's.
        output_layout: The layout of the result. Without `perm`, the dimensions are put into its order.

    Returns:
        New memory, in the order of its dimensions; the same dtype.

    Raises:
        ArgumentError: `perm` is no permutation, or `output_layout` has other letters than the input's layout.

    >>> image = ndd.as_tensor(numpy.zeros((4, 6, 3), "uint8"), layout="HWC")
    >>> ndd.transpose(image, perm=[2, 0, 1]).shape, ndd.transpose(image, output_layout="CHW").shape
    ((3, 4, 6), (3, 4, 6))
    """
    order.permuted(data, plan if data.ndim == len(plan) else (0, *[1 + place for place in plan]), out)
    return out


@functools.lru_cache(256)
def _shape_of(
    operator: str,
    have: tuple[int, ...],
    ndim: int,
    kind: numpy.dtype[Any],
    dtype: Any,
    layout: str | None,
    shape: Any,
    rel_shape: Any,
    src_dims: Any,
) -> tuple[numpy.dtype[Any] | None, tuple[int, ...]]:
    """The new dtype, unless it is the same, and the new shape of an array whose last dimensions are those of a sample.

    Photos of a batch are often alike.
    """
    if shape is None and rel_shape is None and src_dims is None and dtype is layout is None:
        raise ArgumentError(operator, "shape", "takes at least one argument, such as shape; got none", "")
    to = kind if dtype is None else dtype.dtype
    before = len(have) - ndim
    extents = _extents(operator, have[before:], (kind.itemsize, to.itemsize), shape, rel_shape, src_dims)
    if layout and len(layout) != len(extents):
        expected = f"a letter for each of the {len(extents)} dimensions of the result"
        raise ArgumentError(operator, "layout", expected, repr(layout))
    return None if to == kind else to, have[:before] + extents


def _extents(
    operator: str, extents: tuple[int, ...], sizes: tuple[int, int], shape: Any, rel_shape: Any, src_dims: Any
) -> tuple[int, ...]:
    """The new extents of a sample, of the same bytes.

    Args:
        operator: For errors.
        extents: The extents of the sample.
        sizes: Bytes of an element, and of one of the result.
        shape: As given.
        rel_shape: As given.
        src_dims: As given.
    """
    if shape is not None:
        if rel_shape is not None or src_dims is not None:
            other = "rel_shape" if rel_shape is not None else "src_dims"
            raise ArgumentError(operator, other, "left out when 'shape' is given", shown(rel_shape or src_dims))
        wanted = _each(shape)
    else:
        source = list(extents)
        if src_dims is not None:
            ndim = len(extents)
            if not all(-1 <= place < ndim for place in _each(src_dims)):
                expected = f"numbers of dimensions in [0, {ndim - 1}], or -1 for a new one"
                raise ArgumentError(operator, "src_dims", expected, shown(src_dims))
            source = [1 if place < 0 else extents[place] for place in _each(src_dims)]
        if rel_shape is None:
            wanted = source
            if wanted:
                wanted[-1] = wanted[-1] * sizes[0] // sizes[1]
        else:
            wanted = _scaled(operator, source, _each(rel_shape), src_dims is not None)
    return _without_wildcard(operator, extents, sizes, wanted)


def _scaled(operator: str, source: list[int], factors: list[float], all_of_them: bool) -> list[int]:
    """Extents times factors, rounded half up; a negative factor is a wildcard."""
    if all_of_them and len(factors) != len(source):
        raise ArgumentError(operator, "rel_shape", f"{len(source)} factors, as many as src_dims", str(len(factors)))
    if len(factors) > len(source) and not (len(factors) == len(source) + 1 and factors[-1] < 0):
        expected = f"at most {len(source)} factors, or one more if it is negative"
        hint = "New dimensions are asked for with -1 in src_dims."
        raise ArgumentError(operator, "rel_shape", expected, str(len(factors)), hint)
    extents = [*source, 1]
    most = 2.0**62  # more than any extent: of a factor that is huge, the product may be infinite
    return [-1 if f < 0 else math.floor(min(f * e, most) + 0.5) for f, e in zip(factors, extents, strict=False)]


def _without_wildcard(
    operator: str, extents: tuple[int, ...], sizes: tuple[int, int], wanted: list[int]
) -> tuple[int, ...]:
    """Extents of which one may be negative, to be found from the others; checked to be as many bytes."""
    size = math.prod(extents) * sizes[0]
    unknown = [i for i, extent in enumerate(wanted) if extent < 0]
    if len(unknown) > 1:
        raise ArgumentError(operator, "shape", "a shape with at most one negative extent", str(tuple(wanted)))
    result = wanted.copy()
    if unknown:
        others = math.prod(extent for extent in wanted if extent >= 0) * sizes[1]
        result[unknown[0]] = size // others if others else -1
    if math.prod(result) * sizes[1] != size or min(result, default=0) < 0:
        unit = "elements" if sizes[0] == sizes[1] else "bytes"
        many = math.prod(extents) if sizes[0] == sizes[1] else size
        expected = f"a shape of {many} {unit}, like the input of shape {extents}"
        raise ArgumentError(operator, "shape", expected, str(tuple(wanted)))
    return checked_extents(operator, tuple(result))


def _reshaped(
    operator: str,
    data: Array,
    ndim: int,
    dtype: Any = None,
    shape_input: Array | None = None,
    layout: str | None = None,
    rel_shape: Any = None,
    shape: Any = None,
    src_dims: Any = None,
) -> Array | list[Array]:
    """The same data with other extents and another dtype, one sample or many at once; or many in a list."""
    if shape_input is not None:
        samples = data.shape[: data.ndim - ndim]
        if shape is not None or rel_shape is not None:
            name = "shape" if shape is not None else "rel_shape"
            raise ArgumentError(operator, name, "left out when 'shape_input' is given", shown(shape or rel_shape))
        if shape_input.dtype.kind not in "iu" or shape_input.ndim > 1 + len(samples):
            expected = "one-dimensional, of integers"
            raise ArgumentError(operator, "shape_input", expected, f"{shape_input.dtype} of shape {shape_input.shape}")
        if samples and len(shape_input) and (shape_input != shape_input[:1]).any():
            parts = zip(data, shape_input, strict=True)
            return [_reshaped(operator, part, ndim, dtype, own, layout, None, None, src_dims) for part, own in parts]
        given = (shape_input[0] if samples else shape_input).tolist()
        shape = tuple(given) if isinstance(given, list) else given
    to, extents = _shape_of(operator, data.shape, ndim, data.dtype, dtype, layout, shape, rel_shape, src_dims)
    if to is not None:
        data = (data if data.flags.c_contiguous else data.copy(order="C")).reshape(-1).view(to)
        data = data if getattr(data.flags, "aligned", True) else data.copy()
    return data.reshape(extents)


def _plan_reshape(call: Call) -> Plan:
    """Layout and dimensions of the result, and dimensions of a sample."""
    layout, known = call.fixed["layout"], [call.fixed.get(name) for name in ("shape", "rel_shape", "src_dims")]
    told = next((value for value in known if value is not None), None)
    ndim = len(_each(told)) if told is not None else len(layout) if layout else call.ndim
    plan = Plan(layout=call.layout if layout is None else layout or None, ndim=ndim, data=call.ndim)
    if call.name == "reshape" and len(call.inputs) == 1 and not call.varying:
        plan.kernel = _reshape_many
    return plan


def _reshape_many(call: Call, _: Memory | None) -> list[list[Array]]:
    """`reshape` of separate samples."""
    kind, given = call.dtype, [call.fixed[name] for name in ("layout", "shape", "rel_shape", "src_dims")]
    results = call.shapes_by(lambda shape: _shape_of("reshape", shape, len(shape), kind, None, *given)[1])
    return [[sample.reshape(extents) for sample, extents in zip(call.columns()[0], results, strict=True)]]


@operator(plan=_plan_reshape, gpu=True, unit="view")
def reshape(
    data: Array,
    shape_input: Array | None = None,
    /,
    *,
    layout: str | None = None,
    rel_shape: PerSample[_Factors | None] = None,
    shape: PerSample[_Integers | None] = None,
    src_dims: PerSample[_Integers | None] = None,
    plan: int = GIVEN,
) -> Array:
    """Give the same elements another shape, or another layout, or both; `shape_input` stands for `shape`.

    Args:
        layout: Layout of the result; "" for none. By default the input's where the number of dimensions stays.
        rel_shape: The extents as multiples of the input's, rounded. A negative one is found from the others.
        shape: The extents. A negative one is found from the others.
        src_dims: For each extent of the result the dimension of the input that it is taken from, or -1 for a new
            dimension of extent 1. Extents change places, elements do not.

    Returns:
        The input's memory; a copy where its elements do not lie in order.

    Raises:
        ArgumentError: The number of elements would change.

    >>> ndd.reshape(ndd.as_tensor(numpy.arange(6), layout="W"), shape=(-1, 2), layout="HW").shape
    (3, 2)
    """
    return _reshaped("reshape", data, plan, None, shape_input, layout, rel_shape, shape, src_dims)


@operator(plan=_plan_reshape, gpu=True, unit="view")
@described_as(reshape)
def reinterpret(
    data: Array,
    shape_input: Array | None = None,
    /,
    *,
    dtype: DTypeArgument | None = None,
    layout: str | None = None,
    rel_shape: PerSample[_Factors | None] = None,
    shape: PerSample[_Integers | None] = None,
    src_dims: PerSample[_Integers | None] = None,
    plan: int = GIVEN,
) -> Array:
    """Read the same bytes as another element type, shape or layout; `shape_input` stands for `shape`.

    Args:
        dtype: The element type. Without a shape, the last extent changes with it.
        src_dims: For each extent of the result the dimension of the input that it is taken from, or -1 for a new
            dimension of extent 1.

    Returns:
        The input's memory; a copy where its elements do not lie in order.

    Raises:
        ArgumentError: The number of bytes would change.

    >>> ndd.reinterpret(numpy.array([1, 0, 2, 0], "<u1"), dtype="uint16").shape
    (2,)
    """
    return _reshaped("reinterpret", data, plan, dtype, shape_input, layout, rel_shape, shape, src_dims)


def _squeezed(layout: str | None, ndim: int, axes: Any, axis_names: str | None) -> Sequence[int]:
    """The dimensions that are removed."""
    if (axes is None) == (axis_names is None):
        raise ArgumentError.either("squeeze", "axes", "axis_names", both=axes is not None)
    if axis_names is None:
        return _places("squeeze", "axes", axes, ndim)
    if layout is None or not set(axis_names) <= set(layout):
        raise ArgumentError("squeeze", "axis_names", f"letters of the input's layout, {layout!r}", repr(axis_names))
    return [layout.index(letter) for letter in axis_names]


def _plan_squeeze(call: Call) -> Plan:
    """The dimensions of a sample, and those that are removed."""
    removed = _squeezed(call.layout, call.ndim, call.fixed["axes"], call.fixed["axis_names"])
    layout = "".join(letter for i, letter in enumerate(call.layout or "") if i not in removed) or None
    return Plan(layout=layout, ndim=call.ndim - len(set(removed)), data=(call.ndim, removed))


@operator(plan=_plan_squeeze, gpu=True, unit="view")
def squeeze(
    data: Array,
    /,
    *,
    axes: _Integers | None = None,
    axis_names: str | None = None,
    plan: tuple[int, Sequence[int]] = GIVEN,
) -> Array:
    """Remove dimensions of extent 1.

    Args:
        axes: Their numbers; negative ones count from the last.
        axis_names: Their letters in the layout, instead of `axes`.

    Returns:
        The input's memory.

    Raises:
        ArgumentError: A dimension is not there or has another extent, except where the input has no elements and the
            result has none.

    >>> ndd.squeeze(ndd.as_tensor(numpy.zeros((1, 4, 6, 1)), layout="FHWC"), axis_names="FC")
    Tensor(
        [[0. 0. 0. 0. 0. 0.]
         [0. 0. 0. 0. 0. 0.]
         [0. 0. 0. 0. 0. 0.]
         [0. 0. 0. 0. 0. 0.]],
        dtype=f64,
        layout="HW",
        device="cpu",
        shape=(4, 6))
    """
    ndim, removed = plan
    samples, extents = data.shape[: data.ndim - ndim], data.shape[data.ndim - ndim :]
    kept = tuple(extent for i, extent in enumerate(extents) if i not in removed)
    if math.prod(kept) != math.prod(extents):
        name = "axes" if axis_names is None else "axis_names"
        expected = f"dimensions of extent 1 of the shape {extents}"
        raise ArgumentError("squeeze", name, expected, shown(axes or axis_names))
    return data.reshape(samples + kept)


def _plan_expansion(call: Call) -> Plan:
    """The dimensions of the result, and those that are new."""
    axes, names, layout = call.fixed["axes"], call.fixed["new_axis_names"], call.layout or ""
    ndim = call.ndim + len(_each(axes))
    places = _places(call.name, "axes", axes, ndim)
    if names and len(names) != len(places):
        raise ArgumentError(call.name, "new_axis_names", f"{len(places)} letters", repr(names))
    if names and call.ndim and not layout:
        expected = "left out where the input has no layout"
        raise ArgumentError(call.name, "new_axis_names", expected, repr(names))
    letters = iter(layout)
    added = dict(zip(places, names, strict=False))
    result = "".join(added[i] if i in added else next(letters) for i in range(ndim)) if names else ""
    return Plan(layout=result or (call.layout if not places else None), ndim=ndim, data=(ndim, places))


@operator(plan=_plan_expansion, gpu=True, unit="view")
def expand_dims(
    data: Array, /, *, axes: _Integers, new_axis_names: str = "", plan: tuple[int, Sequence[int]] = GIVEN
) -> Array:
    """Insert dimensions of extent 1.

    Args:
        axes: Where they are in the result; negative numbers count from its last dimension.
        new_axis_names: A letter for each, to be inserted in the layout; without, the result has no layout.

    Returns:
        The input's memory.

    Raises:
        ArgumentError: A place is beyond the end, or taken twice, or there are not as many letters as places.

    >>> image = ndd.as_tensor(numpy.zeros((4, 6)), layout="HW")
    >>> ndd.expand_dims(image, axes=-1, new_axis_names="C").layout
    'HWC'
    """
    ndim, places = plan
    samples = data.ndim + len(places) - ndim
    extents = iter(data.shape[samples:])
    return data.reshape(data.shape[:samples] + tuple([1 if i in places else next(extents) for i in range(ndim)]))
