"""From a table of samples to a launch: sources are compiled, tables uploaded, and blocks shared out."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic.dtypes import convert, type_id
from dynamic.errors import DeviceError

__all__ = ["OPTIONS", "cells", "code", "launch", "source", "table"]

#: How NVRTC compiles: a product and a sum stay two operations, as on the CPU.
OPTIONS = ("--std=c++17", "--fmad=false")

_FOLDER = Path(__file__).parent
_THREADS = 256
_ALIGNMENT = 16  # bytes; of arrays that are uploaded together
_MOST_BLOCKS = (1 << 31) - 1


#: A line that makes a kernel of a template, and the macro that leaves it out where another kernel is wanted.
_MADE = re.compile(r"^([A-Z]+\((\w+), .*\))$", re.MULTILINE)
_GUARDED = r"#if !defined(ONE) || defined(ONE_\2)\n\1\n#endif"


@functools.cache
def source(name: str) -> str:
    """The text of a module of kernels: all of them, or one where ONE and ONE_ with its name are defined."""
    text = "".join((_FOLDER / f"{part}.cu").read_text(encoding="utf-8") for part in ("common", name))
    return _MADE.sub(_GUARDED, text)


@functools.lru_cache(256)
def _function(cupy: Any, device: int, module: str, kernel: str) -> Any:  # noqa: ARG001 - of the key
    """A kernel of a device, alone: to compile it at its first use takes half a second, and all of a module several.

    cupy keeps compiled code on the disk.
    """
    options = (*OPTIONS, "-DONE", f"-DONE_{kernel}")
    return cupy.RawModule(code=source(module), options=options).get_function(kernel)


def table(kind: numpy.dtype[Any], count: int, /, **columns: Any) -> NDArray[Any]:
    """A structure for each sample, of columns that broadcast to them."""
    rows = numpy.zeros(count, kind)
    for name, values in columns.items():
        rows[name] = values
    return rows


def cells(values: Any, dtype: numpy.dtype[Any]) -> NDArray[numpy.uint64]:
    """Numbers as elements of a type, each in eight bytes of its own."""
    return _cells(numpy.asarray(values, numpy.float64).tobytes(), dtype)


@functools.lru_cache(256)  # fills are mostly the same
def _cells(values: bytes, dtype: numpy.dtype[Any]) -> NDArray[numpy.uint64]:
    found = convert(numpy, numpy.frombuffer(values), dtype)
    elements: NDArray[numpy.uint64] = found.view(f"u{dtype.itemsize}").astype(numpy.uint64)
    return elements


@functools.cache
def code(dtype: numpy.dtype[Any]) -> numpy.int32:
    """The number by which kernels know an element type."""
    return numpy.int32(type_id(dtype))


def launch(
    module: str,
    kernel: str,
    tiles: NDArray[Any],
    sections: Sequence[NDArray[Any]],
    scalars: Sequence[Any] = (),
    shared: int = 0,
) -> None:
    """Run a kernel on the current stream of the current device.

    Its parameters are the table, the first block of each sample, the number of samples, how many blocks each has (0
    where that differs), the other sections, and the scalars.

    Args:
        module: The name of its source.
        kernel: Its name.
        tiles: How many blocks each sample has.
        sections: The table, and other arrays that the kernel reads; all are uploaded in one copy.
        scalars: NumPy scalars.
        shared: Bytes of shared memory of a block.

    Raises:
        DeviceError: There are more blocks than a GPU counts.
    """
    ends = numpy.cumsum(tiles, dtype=numpy.int64)
    blocks = int(ends[-1]) if len(ends) else 0
    if not blocks:
        return
    if blocks > _MOST_BLOCKS:
        raise DeviceError(f"{kernel}: this batch is too large for one launch; split it.")
    import cupy

    alike = int(tiles[0]) if (tiles == tiles[0]).all() else 0
    first = numpy.zeros(1 if alike else len(tiles) + 1, numpy.uint32)
    if not alike:
        first[1:] = ends
    places, memory = _uploaded(cupy, [sections[0], first, *sections[1:]])
    counts = numpy.uint32(len(tiles)), numpy.uint32(alike)
    function = _function(cupy, cupy.cuda.Device().id, module, kernel)
    arguments = (*places[:2], *counts, *places[2:], *scalars)
    function((blocks,), (_THREADS,), arguments, shared_mem=shared)
    del memory  # freed in the order of the stream


def _uploaded(cupy: Any, sections: Sequence[NDArray[Any]]) -> tuple[list[numpy.uint64], Any]:
    """The addresses of arrays on the device, and the memory that they are in."""
    starts, size = [], 0
    for section in sections:
        starts.append(size)
        size += -(-section.nbytes // _ALIGNMENT) * _ALIGNMENT
    host = numpy.zeros(max(size, _ALIGNMENT), numpy.uint8)
    for start, section in zip(starts, sections, strict=True):
        host[start : start + section.nbytes] = numpy.ascontiguousarray(section).reshape(-1).view(numpy.uint8)
    memory = cupy.asarray(host)  # through pinned memory of cupy's, which it keeps until the copy is done
    base = int(memory.data.ptr)
    return [numpy.uint64(base + start) for start in starts], memory
