"""DLPack capsules: their contents, and the rules for giving and taking them.

NumPy and CuPy make and read them; here is the rest: flags that CuPy does not know, element types by their
names, strides that no capsule can have or that end some consumers' process, and streams.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from dynamic.dtypes import ALL, numpy_dtype
from dynamic.errors import ArgumentError, shown

from . import cuda

__all__ = ["Given", "Head", "exported", "has_whole_strides", "is_capsule", "taken"]

_CPU = (1, 0)
_READ_ONLY, _COPIED = 1, 2
_LATEST = (1, 0)  # the version of capsules that we ask for

#: Address in a capsule of a name, and whether a capsule has that name.
address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


class DLTensor(ctypes.Structure):
    """``DLTensor`` of the standard."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned`` of the standard."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


#: The element types that arrays here can have, by their names.
DTYPES = {t.word: numpy_dtype(t) for t in ALL}
#: Codes of element types: how they are called, without the number of bits.
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_FLOATS8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")  # codes 7 to 14


def dtype_of(code: int, bits: int, lanes: int) -> numpy.dtype[Any] | None:
    """The NumPy dtype of an element type in a capsule; None where arrays here have none."""
    word = "bool" if code == 6 and bits == 8 else f"{_KINDS.get(code)}{bits}"
    return DTYPES.get(word) if lanes == 1 else None


def name_of(code: int, bits: int, lanes: int) -> str:
    """The name of an element type."""
    word = f"float8_{_FLOATS8[code - 7]}" if 7 <= code <= 14 else f"{_KINDS.get(code, f'type {code} of ')}{bits}"
    return word if lanes == 1 else f"{word} x {lanes}"


class Head:
    """The description in a capsule.

    Args:
        capsule: Named "dltensor" or "dltensor_versioned", and not used yet.
    """

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule
        if _is_valid(capsule, b"dltensor_versioned"):
            self._managed: _Versioned | None = _Versioned.from_address(address_in(capsule, b"dltensor_versioned"))
            self.tensor = self._managed.tensor
        else:
            self._managed = None
            self.tensor = DLTensor.from_address(address_in(capsule, b"dltensor"))

    @property
    def is_read_only(self) -> bool:
        """Whether nobody may write to the memory."""
        return self._managed is not None and bool(self._managed.flags & _READ_ONLY)

    @property
    def element(self) -> tuple[int, int, int]:
        """Code, bits and lanes of the element type."""
        return self.tensor.code, self.tensor.bits, self.tensor.lanes

    def mark_copied(self) -> None:
        """Say that the memory is a copy, which nobody else has."""
        if self._managed is not None:
            self._managed.flags |= _COPIED


def is_capsule(value: object) -> bool:
    """Whether a value is a capsule, as torch.utils.dlpack.to_dlpack gives."""
    return type(value).__name__ == "PyCapsule"


class Given:
    """A capsule as a producer; where nothing else is said, of the CPU, which is checked when it is taken."""

    def __init__(self, capsule: Any, device: tuple[int, int] = _CPU) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def taken(producer: Any, device_id: int, operator: str, argument: str) -> Any:
    """A cupy array over a producer's memory; over a copy of it where the memory must not be written to.

    The producer makes the current stream wait for the data. Its exceptions are not caught.
    """
    with cuda.working(device_id):
        cupy = cuda.cupy()
        stream = cupy.cuda.get_current_stream().ptr or 1
        try:
            capsule = producer.__dlpack__(stream=stream, max_version=_LATEST)
        except TypeError:  # a producer from before DLPack 1.0
            capsule = producer.__dlpack__(stream=stream)
        head = Head(capsule)
        if dtype_of(*head.element) is None:
            got = f"{shown(type(producer))} of {name_of(*head.element)}"
            raise ArgumentError(
                operator,
                argument,
                "of an element type that arrays here can have",
                got,
                "Convert it first, for example to float32.",
            )
        array = cupy.from_dlpack(Given(capsule, producer.__dlpack_device__()))
        return array.copy() if head.is_read_only else array


def has_whole_strides(array: Any) -> bool:
    """Whether an array's strides are whole elements forward: torch.from_dlpack aborts the process on others."""
    size = array.itemsize
    return all(stride >= 0 and stride % size == 0 for stride in array.strides)


def exported(
    array: Any,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule over an array's memory, by all rules of the standard; of a copy where it cannot be shared as it is."""
    on_cpu = isinstance(array, numpy.ndarray)
    wanted = None if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if not on_cpu and wanted == _CPU:
        return _copied_to_host(array, max_version, copy)
    if not has_whole_strides(array):
        if copy is False:
            reason = "Strides that are negative or no multiples of an element"
            raise BufferError(f"{reason} cannot be exported through DLPack without a copy.")
        copy = True
    if on_cpu:
        if copy:
            array = array.copy()
        return _marked(array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device), copied=copy)
    device_id = array.device.id
    if wanted not in (None, array.__dlpack_device__()):
        raise BufferError(f"This Tensor is on gpu:{device_id}; DLPack device {wanted} is another. Move it first.")
    with cuda.working(device_id):
        if copy:
            array = array.copy()
        cuda.handed_over(device_id, stream, "__dlpack__")
        return _marked(array.__dlpack__(stream=-1, max_version=max_version), copied=copy)


def _copied_to_host(array: Any, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
    if copy is False:
        raise BufferError("This Tensor is on a GPU; the CPU cannot have its memory without a copy.")
    with cuda.working(array.device.id):
        return _marked(array.get().__dlpack__(max_version=max_version), copied=True)


def _marked(capsule: Any, *, copied: bool | None) -> Any:
    if copied:
        Head(capsule).mark_copied()
    return capsule
