"""Eager tensors and image batches that stop anywhere and resume anywhere.

`import dynamic as ndd` runs scripts written for NVIDIA DALI's dynamic mode.
"""

from importlib.metadata import version as _version

from . import data, dtypes, errors, types
from ._interop import as_batch, as_tensor, batch, tensor
from ._pool import get_num_threads, set_num_threads
from .context import (
    EvalContext,
    EvalMode,
    Stream,
    ThreadPool,
    get_current_stream,
    get_default_stream,
    set_current_stream,
    set_default_stream,
    stream,
)
from .data import Batch, Tensor
from .devices import Device, device
from .dtypes import (
    DType,
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    type_id,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import bool_ as bool  # DALI's name; `from dynamic import *` leaves Python's alone
from .errors import ArgumentError, DataError, DecodeError, DeviceError, DynamicError, StateError
from .ops.geometry import flip, rotate
from .ops.values import cast, copy
from .types import DALIImageType as ImageType
from .types import DALIInterpType as InterpType

__version__ = _version("dynamic-batch")

__all__ = [
    "Batch",
    "Tensor",
    "as_batch",
    "as_tensor",
    "batch",
    "tensor",
    "cast",
    "copy",
    "flip",
    "rotate",
    "DType",
    "Device",
    "float32",
    "uint8",
    "dtype",
    "type_id",
    "EvalContext",
    "EvalMode",
    "get_num_threads",
    "set_num_threads",
]
