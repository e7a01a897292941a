"""DALI's names for data: classes of the CPU and the GPU for `isinstance`, and constructors from arrays.

>>> from dynamic.pipeline.tensors import TensorCPU, TensorListCPU, TensorListGPU
>>> images = TensorListCPU([TensorCPU(numpy.zeros((4, 6, 3), "uint8"), "HWC")])
>>> isinstance(images, TensorListCPU), isinstance(images, TensorListGPU), images[0].layout()
(True, False, 'HWC')
"""

from __future__ import annotations

from typing import Any

from dynamic import Batch, Tensor, as_batch, as_tensor

from ._output import Output, OutputTensor

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]


class _Kind(type):
    """Classes of data that other classes have: a Tensor or a Batch, on the CPU or on a GPU."""

    _of: type[Tensor | Batch]
    _device: str

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls._of) and value.device.device_type == cls._device

    def __call__(cls, data: Any, layout: str | None = None) -> Any:
        if cls._of is Tensor:
            return OutputTensor.of(as_tensor(data, layout=layout or None, device=cls._device))
        return Output.of(as_batch(data, layout=layout or None, device=cls._device))


class TensorCPU(metaclass=_Kind):
    """One array on the CPU."""

    _of, _device = Tensor, "cpu"


class TensorGPU(metaclass=_Kind):
    """One array on a GPU."""

    _of, _device = Tensor, "gpu"


class TensorListCPU(metaclass=_Kind):
    """Samples on the CPU."""

    _of, _device = Batch, "cpu"


class TensorListGPU(metaclass=_Kind):
    """Samples on a GPU."""

    _of, _device = Batch, "gpu"
