"""Eager tensors and image batches that stop anywhere and resume anywhere.

`import dynamic as ndd` runs scripts written for NVIDIA DALI's dynamic mode.
"""

from . import checkpoint as checkpoint
from . import decoders as decoders
from . import devices as devices
from . import dtypes as dtypes
from . import errors as errors
from . import experimental as experimental
from . import math as math
from . import noise as noise
from . import random as random
from . import readers as readers
from . import reductions as reductions
from . import segmentation as segmentation
from . import types as types
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
from .decoders import imread, peek_image_shape
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
from .dtypes import bool_ as bool  # noqa: F401 - DALI's name; not in __all__, so that `import *` leaves Python's alone
from .errors import (
    ArgumentError,
    DataError,
    DecodeError,
    DeviceError,
    DynamicError,
    StateError,
    StateMismatch,
    StateWarning,
)
from .ops.box_crops import random_bbox_crop
from .ops.boxes import bb_flip, bbox_paste, bbox_rotate, box_encoder
from .ops.filters import filter as filter
from .ops.filters import gaussian_blur, laplacian
from .ops.geometry import flip, rotate
from .ops.normalize import normalize
from .ops.values import cast
from .ops.values import copy as copy
from .ops.windows import crop, crop_mirror_normalize, random_crop_generator
from .random import batch_permutation
from .readers import ExternalSource
from .types import DALIImageType as ImageType
from .types import DALIInterpType as InterpType


def __getattr__(name: str) -> str:
    """`__version__`, read when it is asked for: looking it up takes longer than the rest of the import."""
    if name != "__version__":
        raise AttributeError(f"module 'dynamic' has no attribute {name!r}")
    from importlib.metadata import version

    return version("dynamic-batch")


__all__ = [
    "ArgumentError",
    "Batch",
    "DType",
    "DataError",
    "DecodeError",
    "Device",
    "DeviceError",
    "DynamicError",
    "EvalContext",
    "EvalMode",
    "ExternalSource",
    "ImageType",
    "InterpType",
    "StateError",
    "StateMismatch",
    "StateWarning",
    "Stream",
    "Tensor",
    "ThreadPool",
    "as_batch",
    "as_tensor",
    "batch",
    "batch_permutation",
    "bb_flip",
    "bbox_paste",
    "bbox_rotate",
    "bfloat16",
    "box_encoder",
    "cast",
    "crop",
    "crop_mirror_normalize",
    "device",
    "dtype",
    "flip",
    "float16",
    "float32",
    "float64",
    "gaussian_blur",
    "get_current_stream",
    "get_default_stream",
    "get_num_threads",
    "imread",
    "int8",
    "int16",
    "int32",
    "int64",
    "laplacian",
    "normalize",
    "peek_image_shape",
    "random_bbox_crop",
    "random_crop_generator",
    "rotate",
    "set_current_stream",
    "set_default_stream",
    "set_num_threads",
    "stream",
    "tensor",
    "type_id",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
