"""The order of samples in a batch and of frames in a video, and the metadata of data."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, TypeAlias

import numpy

from dynamic._arrays.array import Array, asarray
from dynamic._arrays.described import Described
from dynamic._lift.argument import GIVEN, PerSample, Several
from dynamic._lift.binding import function
from dynamic._lift.call import Call, Plan
from dynamic._lift.frames import relaid
from dynamic._lift.operator import operator
from dynamic.data import Batch, Tensor, checked_batch_size
from dynamic.devices import DeviceLike, device_of_call
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.gpu import copies

__all__ = ["element_extract", "get_property", "per_frame", "permute_batch", "sequence_rearrange"]

_Integers: TypeAlias = Several[int] | int


def _data(operator: str, value: Any, batch_size: int | None, device: DeviceLike) -> Tensor | Batch:
    """An input as a Tensor or Batch, a Tensor repeated where a batch size is given."""
    data = value if isinstance(value, (Tensor, Batch)) else Tensor(asarray(value, operator, "input"))
    there = device_of_call(device, operator)
    data = data if there is None else data.to_device(there)
    if batch_size is None:
        return data
    count = checked_batch_size(operator, batch_size)
    if isinstance(data, Tensor):
        return Batch.broadcast(data, count)
    if count != len(data):
        raise ArgumentError(operator, "batch_size", f"{len(data)}, or left out", shown(batch_size))
    return data


@function
def permute_batch(
    input: Any, /, *, indices: Any, batch_size: int | None = None, device: DeviceLike = None
) -> Tensor | Batch:
    """Put the samples of a Batch into another order.

    Args:
        input: A Batch, or one sample, which is taken as a batch of one.
        indices: For each sample of the result which one of the input it is: integers, a Tensor or a Batch of them.
            Samples may be repeated or left out.
        batch_size: Number of samples, where the input is one.
        device: Where to.

    Returns:
        As many samples, in the input's memory, with their origins.

    Raises:
        ArgumentError: There are more or fewer indices than samples, or one that is out of range.

    >>> ndd.permute_batch(ndd.as_batch([1, 2, 3]), indices=[2, 0, 0]).tolist()
    [3, 1, 1]
    """
    data = _data("permute_batch", input, batch_size, device)
    count = len(data) if isinstance(data, Batch) else 1
    if isinstance(indices, Batch) and len(set(indices.shape)) > 1:
        expected = f"{count} integers, one for each sample"
        raise ArgumentError("permute_batch", "indices", expected, f"samples of shapes {shown(indices.shape)}")
    places = indices.dense() if isinstance(indices, Batch) else asarray(indices, "permute_batch", "indices")
    places = asarray(Tensor(places).cpu().array).reshape(-1)
    if len(places) != count or (places.dtype.kind not in "iu" and len(places)):
        expected = f"{count} integers, one for each sample"
        raise ArgumentError("permute_batch", "indices", expected, shown(places.tolist()))
    if len(places) and not 0 <= places.min() <= places.max() < count:
        raise ArgumentError("permute_batch", "indices", f"in [0, {count - 1}]", shown(places.tolist()))
    return data.select(places.astype(numpy.intp)) if isinstance(data, Batch) else data


@function
def per_frame(
    input: Any, /, *, replace: bool | None = None, batch_size: int | None = None, device: DeviceLike = None
) -> Tensor | Batch:
    """Mark values as one for each frame: given as an argument to an operator, each frame of a video gets its own.

    Args:
        input: The values; their first dimension is that of the frames.
        replace: Whether the first letter of a layout may be another one than F, and is replaced.
        batch_size: Number of samples, where the input is one.
        device: Where to.

    Returns:
        The input's memory, with a layout that begins with F.

    Raises:
        ArgumentError: The input has no dimensions, or its layout begins with another letter and `replace` is False.

    >>> video = ndd.as_tensor(numpy.zeros((2, 4, 6, 3), "uint8"), layout="FHWC")
    >>> ndd.rotate(video, angle=ndd.per_frame([10.0, 20.0]), keep_size=True).shape
    (2, 4, 6, 3)
    """
    data = _data("per_frame", input, batch_size, device)
    layout = data.layout or "F" + "*" * (data.ndim - 1)
    if not data.ndim:
        raise ArgumentError("per_frame", "input", "of one or more dimensions, the first of them frames", "none")
    if not isinstance(replace, (bool, numpy.bool_, NoneType)):
        raise ArgumentError("per_frame", "replace", "True or False", shown(replace))
    if layout[0] != "F" and not replace:
        hint = "Pass replace=True to replace it."
        raise ArgumentError("per_frame", "input", "laid out with F first", f"layout {layout!r}", hint)
    return relaid(data, f"F{layout[1:]}")


def _refuse_others(operator: str, layout: str | None, ndim: int) -> None:
    if not ndim or (layout or "F")[0] != "F":
        got = f"layout {layout!r}" if ndim else "no dimensions"
        raise ArgumentError(operator, "input", "a sequence, laid out with F first or not at all", got)


@function
def element_extract(
    input: Any, /, *, element_map: int | Sequence[int], batch_size: int | None = None, device: DeviceLike = None
) -> Tensor | Batch | tuple[Tensor | Batch, ...]:
    """Take single frames of sequences.

    Args:
        input: A sequence, or a Batch of them.
        element_map: Which frames; negative numbers count from the last.
        batch_size: Number of samples, where the input is one.
        device: Where to.

    Returns:
        For each number a Tensor or Batch of that frame, in the input's memory; a tuple where there are several.

    Raises:
        ArgumentError: The input is laid out as something else, or a sequence has no such frame.

    >>> first, last = ndd.element_extract([[1, 2], [3, 4], [5, 6]], element_map=[0, -1])
    >>> first.tolist(), last.tolist()
    ([1, 2], [5, 6])
    """
    data = _data("element_extract", input, batch_size, device)
    _refuse_others("element_extract", data.layout, data.ndim)
    given: Any = element_map
    if isinstance(given, Batch):
        raise ArgumentError("element_extract", "element_map", "one or more integers for all samples", "a Batch")
    places = asarray(element_map, "element_extract", "element_map").reshape(-1)
    least = min((shape[0] for shape in data.shape), default=None) if isinstance(data, Batch) else data.shape[0]
    if not len(places) or places.dtype.kind not in "iu":
        raise ArgumentError("element_extract", "element_map", "one or more integers", shown(element_map))
    if least is not None and not -least <= places.min() <= places.max() < least:
        expected = f"in [{-least}, {least - 1}], frames that all sequences have"
        raise ArgumentError("element_extract", "element_map", expected, shown(element_map))
    found = tuple(_frame(data, place) for place in places.tolist())
    return found if len(found) > 1 else found[0]


def _frame(data: Tensor | Batch, place: int) -> Tensor | Batch:
    if isinstance(data, Tensor):
        return data[place]
    layout = (data.layout or "")[1:] or None
    if data.whole is not None:
        return Batch(
            data.whole[:, place] if len(data) else data.whole.reshape(0, *data.whole.shape[2:]), layout, data.origin
        )
    samples = [sample[place, ...] for sample in data.samples]
    return Batch(samples, layout, data.origin, numpy_dtype(data.dtype), data.ndim - 1)


def _plan_rearrangement(call: Call) -> Plan:
    """The numbers of the frames of each result."""
    _refuse_others(call.name, call.layout, call.ndim)
    orders = call.each(_order)
    shapes = [(len(order), *shape[1:]) for order, shape in zip(orders, call.shapes, strict=True)]
    return Plan(shapes, call.dtype, data=orders)


def _order(input: Array, /, *, new_order: Any, **_: Any) -> Array:
    count, places = input.shape[0], new_order if isinstance(new_order, tuple) else (new_order,)
    if places and not -count <= min(places) <= max(places) < count:
        expected = f"in [{-count}, {count - 1}], the numbers of its frames"
        expected = expected if count else "empty, for there are no frames"
        raise ArgumentError("sequence_rearrange", "new_order", expected, shown(new_order))
    return numpy.array(places, numpy.intp)


def _rearrange_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    """A copy of frames, each to its place."""
    source, orders = inputs[0], call.plan.data
    counts = numpy.array([len(order) for order in orders], numpy.int64)
    owners = numpy.repeat(numpy.arange(len(orders)), counts)
    places = numpy.arange(len(owners)) - (numpy.cumsum(counts) - counts)[owners]
    frames = _frames(source, owners, numpy.concatenate(orders) % source.shapes[owners, 0])
    copies.window(frames, _frames(target, owners, places))


def _frames(videos: Described, owners: Any, places: Any) -> Described:
    """Some frames: of which video each is, and which of its frames."""
    pointers = videos.pointers[owners] + (places * videos.strides[owners, 0]).astype(numpy.uint64)
    shapes, strides = videos.shapes[owners].copy(), videos.strides[owners]
    shapes[:, 0] = 1
    return Described(pointers, shapes, strides, videos.dtype)


@operator(plan=_plan_rearrangement, gpu=_rearrange_on_gpu)
def sequence_rearrange(
    input: Array, /, *, new_order: PerSample[_Integers], plan: Array = GIVEN, out: Array = GIVEN
) -> Array:
    """Put the frames of sequences into another order.

    Args:
        new_order: For each frame of the result which one of the input it is. Frames may be repeated or left out;
            negative numbers count from the last.

    Returns:
        As many frames as numbers; the same dtype and layout.

    Raises:
        ArgumentError: The input is laid out as something else than a sequence, or has no such frame.

    >>> ndd.sequence_rearrange([[1, 2], [3, 4]], new_order=[1, 0, 1]).tolist()
    [[3, 4], [1, 2], [3, 4]]
    """
    return numpy.take(input, plan, axis=0, out=out, mode="wrap")  # "raise" would copy the result once more


@function
def get_property(
    input: Any, /, *, key: str, batch_size: int | None = None, device: DeviceLike = None
) -> Tensor | Batch:
    """The metadata of data, as bytes of text.

    Args:
        input: A Tensor or Batch.
        key: "source_info", the names of the files that the samples come from, or "layout".
        batch_size: Number of samples, where the input is one.
        device: Where the result is, by default on the CPU.

    Returns:
        For each sample uint8 in one dimension; none where nothing is known.

    Raises:
        ArgumentError: There is no such property.

    >>> bytes(ndd.get_property(ndd.as_tensor([[1]], layout="HW"), key="layout").numpy())
    b'HW'
    """
    data, there = _data("get_property", input, batch_size, None), device_of_call(device, "get_property")
    if not isinstance(key, str) or key not in ("source_info", "layout"):
        raise ArgumentError("get_property", "key", "'source_info' or 'layout'", shown(key))
    count = len(data) if isinstance(data, Batch) else 1
    if key == "layout":
        texts = [data.layout or ""] * count
    else:
        texts = list(data.origin.names) if data.origin is not None and len(data.origin) == count else [""] * count
    arrays = [numpy.frombuffer(text.encode("utf-8", "surrogateescape"), numpy.uint8) for text in texts]
    if not isinstance(data, Batch):
        found: Tensor | Batch = Tensor(arrays[0], None, data.origin)
    else:
        found = Batch(arrays, None, data.origin, numpy.dtype(numpy.uint8), 1)
    return found if there is None else found.to_device(there)
