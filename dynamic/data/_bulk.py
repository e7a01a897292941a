"""Many tensors of other libraries on a GPU, described in one pass: no call of `__dlpack__` for each of them.

The properties of all are read and compared before any is used. Tensors of torch, and of whoever else offers
DLPack's exchange table, are read through it, half a microsecond each; without it by their attributes, or by
``__cuda_array_interface__``. Nothing is copied: the tensors are kept alive.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._arrays import cuda
from dynamic._arrays.described import Described, Views, packed
from dynamic._arrays.dlpack import DTYPES, address_in, dtype_of, name_of
from dynamic.devices import Device
from dynamic.errors import ArgumentError

from ._transfer import moved_samples

__all__ = ["on_gpu", "refuse_first_different"]

_HINT = "Convert it first, for example to float32."
_ONE_DEVICE = "Move them to one device first."
_ONE_DTYPE = "Pass dtype= to convert all samples to one."


class _Kept:
    """Owners of memory, which live as long as the views of it."""

    def __init__(self, *owners: Any) -> None:
        self.owners = owners


def on_gpu(operator: str, items: Sequence[Any]) -> Views | None:
    """Views of the memory of tensors on one GPU; None where they are not on a GPU, or cannot be told at once.

    Raises:
        ArgumentError: One has another device, dtype or number of dimensions than the first, or is no plain data.
    """
    torch, kinds = sys.modules.get("torch"), set(map(type, items))
    if torch is not None and any(issubclass(kind, torch.Tensor) for kind in kinds):
        of_torch = all(issubclass(kind, torch.Tensor) for kind in kinds)
        return _of_torch(torch, operator, items) if of_torch and items[0].device.type == "cuda" else None
    if all(hasattr(kind, "__cuda_array_interface__") for kind in kinds) and _on_gpu(items[0]):
        return _of_interfaces(operator, items)
    return None


def _on_gpu(item: Any) -> bool:
    return hasattr(item, "__dlpack_device__") and Device.type_from_dlpack(int(item.__dlpack_device__()[0])) == "gpu"


def refuse_first_different(operator: str, values: Sequence[Any], name: str, hint: str) -> None:
    """Raise an error for the first of some values that is not as the first of all, if there is one."""
    if len(set(values)) > 1:
        i = next(i for i, value in enumerate(values) if value != values[0])
        expected = f"like tensors[0], with {name} {values[0]}"
        raise ArgumentError(operator, f"tensors[{i}]", expected, f"{name} {values[i]}", hint)


# torch


def _of_torch(torch: Any, operator: str, items: Sequence[Any]) -> Views:
    _refuse_any(
        operator,
        items,
        attrgetter("requires_grad"),
        "data without a gradient",
        "requires_grad",
        "Pass tensor.detach().",
    )
    _refuse_any(
        operator, items, lambda item: item.layout != torch.strided, "dense", "is not", "Pass tensor.to_dense()."
    )
    refuse_first_different(operator, list(map(attrgetter("device"), items)), "device", _ONE_DEVICE)
    if any(map(methodcaller("is_neg"), items)):
        items = [item.resolve_neg() if item.is_neg() else item for item in items]
    device_id = int(items[0].device.index)
    table = _exchanged(operator, items)
    if table is None:
        table = _by_attributes(operator, items)
    kept = _Kept(list(items), list(map(methodcaller("untyped_storage"), items)))
    with cuda.working(device_id):
        here, theirs = cuda.cupy().cuda.get_current_stream(), cuda.stream_of_torch(device_id)
        if theirs is not None and theirs != here.ptr:
            producer = cuda.of_handle(theirs)
            here.wait_event(producer.record())
            cuda.release_after(kept, device_id, producer, here)
    return Views(table, device_id, kept)


def _refuse_any(
    operator: str, items: Sequence[Any], is_wrong: Callable[[Any], bool], expected: str, flaw: str, hint: str
) -> None:
    wrong = list(map(is_wrong, items))
    if any(wrong):
        raise ArgumentError(operator, f"tensors[{wrong.index(True)}]", expected, f"a tensor that {flaw}", hint)


def _by_attributes(operator: str, items: Sequence[Any]) -> Described:
    kinds = list(map(attrgetter("dtype"), items))
    refuse_first_different(operator, kinds, "dtype", _ONE_DTYPE)
    dtype = DTYPES.get(str(kinds[0]).removeprefix("torch."))
    if dtype is None:
        raise ArgumentError(operator, "tensors[0]", f"of dtype {', '.join(DTYPES)}", str(kinds[0]), _HINT)
    refuse_first_different(operator, list(map(methodcaller("dim"), items)), "dimensions", "")
    count, ndim = len(items), items[0].dim()
    pointers = numpy.fromiter(map(methodcaller("data_ptr"), items), numpy.uint64, count)
    shapes = numpy.array(list(map(methodcaller("size"), items)), numpy.int64).reshape(count, ndim)
    strides = numpy.array(list(map(methodcaller("stride"), items)), numpy.int64).reshape(count, ndim)
    return Described(pointers, shapes, strides * dtype.itemsize, dtype)


# DLPack's exchange table: C functions of a type of tensors

_TABLE = numpy.dtype(
    {
        "names": ["data", "device_type", "device_id", "ndim", "code", "bits", "lanes", "shape", "strides", "offset"],
        "formats": ["u8", "i4", "i4", "i4", "u1", "u1", "u2", "u8", "u8", "u8"],
        "offsets": [0, 8, 12, 16, 20, 21, 22, 24, 32, 40],
        "itemsize": 48,
    }
)
_FUNCTION = 5  # place of `dltensor_from_py_object_no_sync` among the pointers of the table


_START = 4096


class _Memory:
    """All memory as numbers of 64 bits, of which those are read whose addresses a producer gives."""

    def __init__(self) -> None:
        numbers = (1 << 44) - _START
        self.__array_interface__ = {"data": (_START, True), "shape": (numbers,), "typestr": "<i8", "version": 3}


def _exchange(kind: type) -> int | None:
    """Address of the C function that describes a tensor of a type; None where the type has none."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    address = address_in(capsule, b"dlpack_exchange_api")
    table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
    return table[_FUNCTION] if ctypes.c_uint32.from_address(address).value == 1 else None


def _exchanged(operator: str, items: Sequence[Any]) -> Described | None:
    """The samples, read through the exchange table; None where their types have none."""
    functions = set(map(_exchange, set(map(type, items))))
    function = functions.pop()
    if functions or function is None:
        return None
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(function)
    count = len(items)
    table = numpy.empty(count, _TABLE)
    start = table.ctypes.data
    deque(map(describe, items, range(start, start + _TABLE.itemsize * count, _TABLE.itemsize)), maxlen=0)
    _refuse_rows(
        operator, table[["device_type", "device_id"]], "device", lambda row: f"DLPack {tuple(row)}", _ONE_DEVICE
    )
    _refuse_rows(operator, table[["code", "bits", "lanes"]], "dtype", lambda row: name_of(*map(int, row)), _ONE_DTYPE)
    _refuse_rows(operator, table[["ndim"]], "dimensions", lambda row: str(row[0]), "")
    element, ndim = tuple(map(int, table[["code", "bits", "lanes"]][0])), int(table["ndim"][0])
    dtype = dtype_of(*element)
    if dtype is None:
        raise ArgumentError(operator, "tensors[0]", f"of dtype {', '.join(DTYPES)}", name_of(*element), _HINT)
    if ndim and not table["strides"].all():
        return None
    shapes, strides = (_read(table[name], ndim) for name in ("shape", "strides"))
    return Described(table["data"] + table["offset"], shapes, strides * dtype.itemsize, dtype)


def _refuse_rows(operator: str, rows: Any, name: str, word: Callable[[Any], str], hint: str) -> None:
    different = rows != rows[0]
    if different.any():
        i = int(numpy.flatnonzero(different)[0])
        expected = f"like tensors[0], with {name} {word(rows[0])}"
        raise ArgumentError(operator, f"tensors[{i}]", expected, f"{name} {word(rows[i])}", hint)


def _read(addresses: NDArray[numpy.uint64], ndim: int) -> NDArray[numpy.int64]:
    """The numbers at some addresses, so many each."""
    if not ndim:
        return numpy.empty((len(addresses), 0), numpy.int64)
    places = ((addresses.astype(numpy.int64) - _START) // 8)[:, None] + numpy.arange(ndim)
    found: NDArray[numpy.int64] = numpy.asarray(_Memory()).take(places)
    return found


# __cuda_array_interface__


def _of_interfaces(operator: str, items: Sequence[Any]) -> Views:
    devices = [Device.from_dlpack(item.__dlpack_device__()) for item in items]
    refuse_first_different(operator, devices, "device", _ONE_DEVICE)
    interfaces = [item.__cuda_array_interface__ for item in items]
    refuse_first_different(operator, [i["typestr"] for i in interfaces], "dtype", _ONE_DTYPE)
    shapes = [i["shape"] for i in interfaces]
    refuse_first_different(operator, list(map(len, shapes)), "dimensions", "")
    masked = [i.get("mask") is not None for i in interfaces]
    if any(masked):
        raise ArgumentError(
            operator, f"tensors[{masked.index(True)}]", "an array without masked values", "one with a mask"
        )
    dtype = numpy.dtype(interfaces[0]["typestr"])
    if dtype not in DTYPES.values():
        raise ArgumentError(operator, "tensors[0]", f"of dtype {', '.join(DTYPES)}", str(dtype), _HINT)
    count, ndim = len(items), len(shapes[0])
    pointers = numpy.fromiter((i["data"][0] for i in interfaces), numpy.uint64, count)
    table = packed(numpy.array(shapes, numpy.int64).reshape(count, ndim), dtype)
    table.pointers = pointers
    for row, interface in zip(table.strides, interfaces, strict=True):
        if interface.get("strides") is not None:
            row[:] = interface["strides"]
    device_id = int(devices[0].device_id or 0)
    kept = _Kept(list(items), interfaces)
    with cuda.working(device_id):
        here = cuda.cupy().cuda.get_current_stream()
        for handle in {interface.get("stream") for interface in interfaces} - {None}:
            producer = cuda.of_handle(int(handle))
            if producer.ptr != here.ptr:
                here.wait_event(producer.record())
                cuda.release_after(kept, device_id, producer, here)
    views = Views(table, device_id, kept)
    if any(interface["data"][1] for interface in interfaces):  # nobody may write to it, which CuPy cannot remember
        return moved_samples(views, devices[0])  # type: ignore[return-value] # Views, as from a GPU to itself
    return views
