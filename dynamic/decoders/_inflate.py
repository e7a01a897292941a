"""Arrays that were compressed by LZ4, as `decoders.inflate` gives them."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array, device_of
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, PerSample, Several, Word, without_effect
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.data import Tensor
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DecodeError, Failure, shown

__all__ = ["inflate"]

_NAME = "decoders.inflate"
_Extent: TypeAlias = Annotated[int, Between(0)]
_Extents: TypeAlias = _Extent | Several[_Extent]
_Algorithm: TypeAlias = Annotated[str, Word({"LZ4": ("lz4",)})]
_DENSEST = 255  # bytes that a byte of a block of LZ4 stands for, at most
_SPARE = 64  # and a few more of its first and last ones
_LARGEST = 0x7E000000  # bytes in a block, by its format


class _Chunks(NamedTuple):
    """The blocks of a sample.

    Attributes:
        places: Where each begins, and how long it is.
        shape: Of the array in each.
    """

    places: list[tuple[int, int]]
    shape: Shape


def _numbers(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _chunks(encoded: Array, /, *, shape: Any, chunk_offsets: Any, chunk_sizes: Any, dtype: Any, **_: Any) -> _Chunks:
    """The blocks of a sample, checked against its length, and whether they can hold so much."""
    if encoded.ndim != 1:
        raise ArgumentError(_NAME, "encoded", "bytes, of one dimension", f"shape {encoded.shape}")
    length = len(encoded)
    sizes = None if chunk_sizes is None else _numbers(chunk_sizes)
    if chunk_offsets is not None:
        starts = _numbers(chunk_offsets)
    else:
        starts = (0,) if sizes is None else tuple(itertools.accumulate(sizes, initial=0))[:-1]
    if sizes is None:
        sizes = tuple(end - start for start, end in itertools.pairwise((*starts, length)))
    if len(sizes) != len(starts):
        expected = f"as many numbers as 'chunk_offsets', {len(starts)}"
        raise ArgumentError(_NAME, "chunk_sizes", expected, str(len(sizes)))
    for start, size in zip(starts, sizes, strict=True):
        if size < 1 or start + size > length:
            name = "chunk_sizes" if chunk_sizes is not None else "encoded" if chunk_offsets is None else "chunk_offsets"
            expected = f"chunks of at least one byte within the {length} bytes of the sample"
            raise ArgumentError(_NAME, name, expected, f"one of {size} at {start}")
    extents = _numbers(shape)
    needed = math.prod(extents) * numpy_dtype(dtype).itemsize
    if needed > _LARGEST:
        raise ArgumentError(_NAME, "shape", f"of at most {_LARGEST} bytes, which a block of LZ4 can hold", str(needed))
    for start, size in zip(starts, sizes, strict=True):
        if needed > _DENSEST * size + _SPARE:
            raise _failed(f"{size} bytes at {start} cannot hold the {needed} of shape {extents}")
    return _Chunks(list(zip(starts, sizes, strict=True)), extents)


def _failed(reason: str) -> DecodeError:
    return DecodeError(_NAME, [Failure(0, reason, "LZ4")])


def _plan(call: Call) -> Plan:
    found, layout = call.each(_chunks), call.fixed["layout"]
    several = any(call.fixed.get(name, ()) is not None for name in ("chunk_offsets", "chunk_sizes"))
    ndims = {len(chunks.shape) for chunks in found} or {len(layout or _numbers(call.fixed.get("shape", ())))}
    if len(ndims) > 1:
        expected = "of one number of dimensions in all samples"
        raise ArgumentError(_NAME, "shape", expected, shown(sorted(ndims)))
    (ndim,) = ndims
    if layout and len(layout) != ndim:
        raise ArgumentError(_NAME, "layout", f"a letter for each of the {ndim} extents of 'shape'", shown(layout))
    if len(call.fixed["sequence_axis_name"]) != 1:
        raise ArgumentError(_NAME, "sequence_axis_name", "one letter", shown(call.fixed["sequence_axis_name"]))
    if layout and several:
        layout = call.fixed["sequence_axis_name"] + layout
    shapes = [(len(chunks.places),) * several + chunks.shape for chunks in found]
    return Plan(shapes, call.asked, layout or None, ndim + several, data=found, weight=2.0)


@operator(dtypes="uint8", plan=_plan, gpu=True, name=_NAME)
@without_effect("check_output_size")
def inflate(
    encoded: Array,
    /,
    *,
    algorithm: _Algorithm = "LZ4",
    chunk_offsets: PerSample[_Extents | None] = None,
    chunk_sizes: PerSample[_Extents | None] = None,
    dtype: DTypeArgument = "uint8",
    layout: str = "",
    sequence_axis_name: str = "F",
    shape: PerSample[_Extents],
    plan: _Chunks = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decompress arrays, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    A sample is one block of LZ4, or several of one shape and dtype, such as the frames of a video. Blocks have no
    header: `lz4.block.compress(array, store_size=False)` makes them. No block gets more memory than its shape says.
    The package lz4, ``pip install 'dynamic-batch[inflate]'``, decompresses on the CPU, also the data on a GPU.

    Args:
        algorithm: "LZ4".
        chunk_offsets: Where each block begins. Without `chunk_sizes`, each ends where the next begins.
        chunk_sizes: The length of each block in bytes. Without `chunk_offsets`, each begins where the one before ends.
        dtype: Element type of the array.
        layout: A letter for each dimension of the array in a block; by default none.
        sequence_axis_name: The letter of the dimension of blocks, for results with a layout.
        shape: Extents of the array in a block.

    Returns:
        Arrays of the shape; with `chunk_offsets` or `chunk_sizes` of one more dimension, the first, of blocks.

    Raises:
        ArgumentError: Blocks reach out of a sample, or arguments contradict each other.
        DecodeError: Blocks are damaged, or hold fewer or more bytes than the array has; or lz4 is not installed. The
            message names all samples.

    >>> from lz4.block import compress
    >>> block = compress(numpy.arange(6, dtype="int16"), store_size=False)
    >>> ndd.decoders.inflate(block, shape=(2, 3), dtype="int16").tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    data = numpy.ascontiguousarray(Tensor(encoded).cpu().numpy()).data
    parts = [_inflated(data[start : start + size], plan.shape, dtype) for start, size in plan.places]
    whole = numpy.frombuffer(b"".join(parts), numpy.uint8 if out.dtype == bool else out.dtype).reshape(out.shape)
    out[...] = Tensor(whole != 0 if out.dtype == bool else whole).to_device(device_of(out)).array
    return out


def _inflated(block: memoryview, shape: Shape, dtype: Any) -> bytes:
    """The bytes in a block.

    Raises:
        DecodeError: They are others than the shape says.
    """
    try:
        from lz4.block import LZ4BlockError, decompress
    except ImportError as error:
        raise _failed(f"this needs lz4: pip install 'dynamic-batch[inflate]' ({error})") from None
    needed = math.prod(shape) * numpy_dtype(dtype).itemsize
    try:
        found: bytes = decompress(block, uncompressed_size=max(needed, 1))
    except LZ4BlockError:
        raise _failed(f"a block is damaged, or holds more than the {needed} bytes of shape {shape}") from None
    if len(found) != needed:
        raise _failed(f"a block holds {len(found)} bytes, and its shape {shape} has {needed}")
    return found
