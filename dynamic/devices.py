"""Devices: their names, and which of them this machine has. Nothing here imports cupy unless a GPU is asked for."""

from __future__ import annotations

import functools
import re
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from .errors import ArgumentError, DeviceError, shown

__all__ = ["Device", "DeviceLike", "device"]

#: A Device, a word ("cpu", "gpu", "gpu:1", "cuda:1"), a torch.device, or None for the default.
DeviceLike: TypeAlias = Any

_WORDS = "a device such as 'cpu', 'gpu' or 'gpu:1'"
_CUDA = (2, 13)  # DLPack's numbers: CUDA, CUDA managed
_HOST = (1, 3)  # CPU, pinned host memory


#: The contexts entered in a thread, or in one of its asyncio tasks.
_entered: ContextVar[tuple[Device, ...]] = ContextVar("dynamic.devices", default=())


class Device:
    """The CPU, or one GPU.

    Args:
        name: "cpu", "gpu" or "gpu:N"; "cuda" is another word for "gpu".
        device_id: Number of the GPU, where the name has none.

    Raises:
        ArgumentError: The name is no device.
        DeviceError: This machine has no such GPU.

    As a context manager it is the device of operators that have no input, in this thread or asyncio task.

    >>> ndd.Device("cpu")
    Device(device_type='cpu')
    >>> ndd.Device("cpu") == "cpu"
    True
    """

    CPU: ClassVar[Device]
    __slots__ = ("device_id", "device_type")

    device_type: str
    device_id: int | None

    def __init__(self, name: str, device_id: int | None = None) -> None:
        match = re.fullmatch(r"(cpu|gpu|cuda)(?::(\d+))?", name) if isinstance(name, str) else None
        if match is None:
            raise ArgumentError("Device", "name", _WORDS, shown(name))
        kind, number = match.groups()
        if number is not None and device_id is not None and int(number) != device_id:
            raise ArgumentError("Device", "device_id", f"{number}, as the name says, or None", shown(device_id))
        if device_id is not None and (isinstance(device_id, bool) or not isinstance(device_id, int)):
            raise ArgumentError("Device", "device_id", "an integer or None", shown(device_id))
        index = int(number) if number is not None else device_id
        if kind == "cpu":
            if index is not None:
                raise ArgumentError("Device", "device_id", "None for the CPU", shown(index))
            self.device_type, self.device_id = "cpu", None
        else:
            self.device_type, self.device_id = "gpu", _existing(0 if index is None else index)

    @staticmethod
    def current() -> Device:
        """The device of the innermost ``with Device(...)`` of this thread or task, else the CPU."""
        entered = _entered.get()
        return entered[-1] if entered else Device.CPU

    @staticmethod
    def default_device_id(device_type: str) -> int | None:
        """The number of the device that a bare word means: None for the CPU, 0 for a GPU."""
        return Device(device_type).device_id

    @staticmethod
    def type_from_dlpack(dlpack_device_type: int) -> str:
        """The word for a DLPack device type: 1 and 3 (pinned) are the CPU, 2 and 13 (managed) are GPUs."""
        if dlpack_device_type in _HOST:
            return "cpu"
        if dlpack_device_type in _CUDA:
            return "gpu"
        raise DeviceError(f"DLPack device type {dlpack_device_type} is neither a CPU nor a CUDA GPU.")

    @staticmethod
    def from_dlpack(dlpack_device: Any) -> Device:
        """The device of an object that has ``__dlpack_device__()``, or that this method of it names."""
        if hasattr(dlpack_device, "__dlpack_device__"):
            dlpack_device = dlpack_device.__dlpack_device__()
        kind = Device.type_from_dlpack(int(dlpack_device[0]))
        return Device.CPU if kind == "cpu" else Device("gpu", int(dlpack_device[1]))

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _entered.set(_entered.get()[:-1])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other.replace("cuda", "gpu") or (other in ("gpu", "cuda") and self.device_id == 0)
        if not isinstance(other, Device):
            return NotImplemented
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __str__(self) -> str:
        return self.device_type if self.device_id is None else f"{self.device_type}:{self.device_id}"

    def __repr__(self) -> str:
        number = "" if self.device_id is None else f", device_id={self.device_id}"
        return f"Device(device_type={self.device_type!r}{number})"

    def __reduce__(self) -> tuple[type[Device], tuple[str]]:
        return Device, (str(self),)


Device.CPU = Device("cpu")


def device(obj: DeviceLike, id: int | None = None) -> Device | None:
    """The device that a value names; None stays None, which means "wherever the inputs are".

    Args:
        obj: A Device, a word, a torch.device or None.
        id: Number of the GPU, where the word has none.

    >>> ndd.device("cpu"), ndd.device(None)
    (Device(device_type='cpu'), None)
    """
    if obj is None or isinstance(obj, Device):
        return obj
    if type(obj).__module__ == "torch" and type(obj).__name__ == "device":
        obj = str(obj)
    if not isinstance(obj, str):
        raise ArgumentError("device", "obj", _WORDS, shown(obj))
    return Device.CPU if obj == "cpu" and id is None else Device(obj, id)


def device_of_call(value: DeviceLike, operator: str, argument: str = "device") -> Device | None:
    """The device that an argument of an operator names; None stays None."""
    try:
        return device(value)
    except ArgumentError:
        mixed = isinstance(value, str) and value == "mixed"
        hint = "Write 'gpu' for DALI's 'mixed'." if mixed else ""
        raise ArgumentError(operator, argument, f"{_WORDS}, or None", shown(value), hint) from None


@functools.cache
def gpu_count() -> int:
    """How many GPUs this process can use: 0 without cupy or without a driver."""
    try:
        import cupy
    except ImportError:
        return 0
    return int(cupy.cuda.runtime.getDeviceCount()) if cupy.cuda.is_available() else 0


def _existing(index: int) -> int:
    count = gpu_count()
    if not 0 <= index < count:
        if count:
            raise DeviceError(f"There is no device 'gpu:{index}': this machine has {count}, counted from 0.")
        advice = "On a GPU pip install 'dynamic-batch[cuda13]'; without one leave out .gpu() and device=."
        raise DeviceError(f"There is no device 'gpu:{index}': cupy finds no GPU here, or is not installed. {advice}")
    return index
