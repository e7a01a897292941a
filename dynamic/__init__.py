"""Eager tensors and image batches that stop anywhere and resume anywhere.

`import dynamic as ndd` runs scripts written for NVIDIA DALI's dynamic mode.
"""

import sys as _sys

from . import capture as capture
from . import checkpoint as checkpoint
from . import decoders as decoders
from . import devices as devices
from . import dtypes as dtypes
from . import errors as errors
from . import experimental as experimental
from . import io as io
from . import math as math
from . import noise as noise
from . import random as random
from . import readers as readers
from . import reductions as reductions
from . import segmentation as segmentation
from . import transforms as transforms
from . import types as types
from ._base.origin import Origin
from ._base.pool import get_num_threads, set_num_threads
from ._core.config import show_config
from ._measure import measure
from ._prefetch import prefetch
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
from .data import Batch, Tensor, as_batch, as_tensor, batch, tensor
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
    EmptyClassWarning,
    LayoutWarning,
    OrderWarning,
    ScaleWarning,
    StateError,
    StateMismatch,
    StateWarning,
)
from .ops.bayer import debayer
from .ops.box_crops import random_bbox_crop
from .ops.boxes import bb_flip, bbox_paste, bbox_rotate, box_encoder
from .ops.chance import sometimes
from .ops.color import (
    brightness,
    brightness_contrast,
    color_space_conversion,
    color_twist,
    contrast,
    hsv,
    hue,
    saturation,
)
from .ops.constants import full, full_like, ones, ones_like, zeros, zeros_like
from .ops.coordinates import coord_flip, coord_transform
from .ops.dump import dump_image
from .ops.filters import filter as filter
from .ops.filters import gaussian_blur, laplacian
from .ops.geometry import flip, rotate
from .ops.histograms import clahe, equalize, jpeg_compression_distortion, lookup_table
from .ops.jitter import jitter
from .ops.joining import cat, one_hot, stack
from .ops.mixing import cutmix, mixup
from .ops.normalize import normalize
from .ops.paste import grid_mask, multi_paste, paste
from .ops.random_windows import random_crop_generator, roi_random_crop
from .ops.resize import random_resized_crop, resize, resize_crop_mirror, tensor_resize
from .ops.sequences import element_extract, get_property, per_frame, permute_batch, sequence_rearrange
from .ops.shape import expand_dims, reinterpret, reshape, squeeze, transpose
from .ops.slices import erase, pad
from .ops.slices import slice as slice
from .ops.sound import (
    audio_resample,
    mel_filter_bank,
    mfcc,
    nonsilent_region,
    power_spectrum,
    preemphasis_filter,
    spectrogram,
    to_decibels,
)
from .ops.ssd_crop import ssd_random_crop
from .ops.together import together
from .ops.values import cast, cast_like
from .ops.values import copy as copy
from .ops.warps import sphere, warp_affine, water
from .ops.windows import crop, crop_mirror_normalize
from .random import batch_permutation
from .readers import ExternalSource
from .types import DALIDataType as DataType
from .types import DALIImageType as ImageType
from .types import DALIInterpType as InterpType

#: Where names are that DALI has elsewhere, in its pipeline mode.
_ELSEWHERE = {
    **{
        name: f"; pipelines have it: from dynamic.pipeline import {name}" for name in ("Pipeline", "fn", "pipeline_def")
    },
    "external_source": "; write ExternalSource, or dynamic.pipeline.fn.external_source",
    "optical_flow": "; NVIDIA's hardware computes it: call OpenCV's in an operator of your own, by dynamic.custom",
    "plugin": "; write dynamic.pytorch, dynamic.jax or dynamic.tensorflow",
}
#: Modules that moved: pickles of earlier versions have these names for them.
_FORMER = {"_interop": "data._interop", "_origin": "_base.origin", "_rng": "random._rng"}
_sys.modules.update({f"dynamic.{former}": _sys.modules[f"dynamic.{module}"] for former, module in _FORMER.items()})

_LATER = ("auto_aug", "jax", "pipeline", "pytorch", "ray", "tensorflow", "testing")


def __dir__() -> list[str]:
    """The names that completion offers: public ones, not the rooms behind them."""
    return sorted({*globals(), *_LATER} - {"context", "data", "kernels", "ops"})


def __getattr__(name: str) -> object:
    """`__version__`, pipelines and adapters when they are asked for: each takes longer than the rest of the import."""
    if name in _LATER:
        from importlib import import_module

        return import_module(f"dynamic.{name}")
    if name != "__version__":
        told = f"module 'dynamic' has no attribute {name!r}{_ELSEWHERE.get(name, '')}"
        question = "" if name.startswith("_") or name in _ELSEWHERE else errors.nearest(name, __dir__())
        raise AttributeError(f"{told}. {question}" if question else told)
    from importlib.metadata import version

    return version("dynamic-batch")


__all__ = [
    "ArgumentError",
    "Batch",
    "DType",
    "DataError",
    "DataType",
    "DecodeError",
    "Device",
    "DeviceError",
    "DynamicError",
    "EmptyClassWarning",
    "EvalContext",
    "EvalMode",
    "ExternalSource",
    "ImageType",
    "InterpType",
    "LayoutWarning",
    "OrderWarning",
    "Origin",
    "ScaleWarning",
    "StateError",
    "StateMismatch",
    "StateWarning",
    "Stream",
    "Tensor",
    "ThreadPool",
    "as_batch",
    "as_tensor",
    "audio_resample",
    "batch",
    "batch_permutation",
    "bb_flip",
    "bbox_paste",
    "bbox_rotate",
    "bfloat16",
    "box_encoder",
    "brightness",
    "brightness_contrast",
    "cast",
    "cast_like",
    "cat",
    "clahe",
    "color_space_conversion",
    "color_twist",
    "contrast",
    "coord_flip",
    "coord_transform",
    "crop",
    "crop_mirror_normalize",
    "cutmix",
    "debayer",
    "device",
    "dtype",
    "dump_image",
    "element_extract",
    "equalize",
    "erase",
    "expand_dims",
    "flip",
    "float16",
    "float32",
    "float64",
    "full",
    "full_like",
    "gaussian_blur",
    "get_current_stream",
    "get_default_stream",
    "get_num_threads",
    "get_property",
    "grid_mask",
    "hsv",
    "hue",
    "imread",
    "int8",
    "int16",
    "int32",
    "int64",
    "jitter",
    "jpeg_compression_distortion",
    "laplacian",
    "lookup_table",
    "measure",
    "mel_filter_bank",
    "mfcc",
    "mixup",
    "multi_paste",
    "nonsilent_region",
    "normalize",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "paste",
    "peek_image_shape",
    "per_frame",
    "permute_batch",
    "power_spectrum",
    "preemphasis_filter",
    "prefetch",
    "random_bbox_crop",
    "random_crop_generator",
    "random_resized_crop",
    "reinterpret",
    "reshape",
    "resize",
    "resize_crop_mirror",
    "roi_random_crop",
    "rotate",
    "saturation",
    "sequence_rearrange",
    "set_current_stream",
    "set_default_stream",
    "set_num_threads",
    "show_config",
    "sometimes",
    "spectrogram",
    "sphere",
    "squeeze",
    "ssd_random_crop",
    "stack",
    "stream",
    "tensor",
    "tensor_resize",
    "to_decibels",
    "together",
    "transpose",
    "type_id",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "warp_affine",
    "water",
    "zeros",
    "zeros_like",
]
