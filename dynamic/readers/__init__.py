"""Readers: sources of samples, visited in exact epochs, with a place that can be saved."""

from ._reader import Reader
from .coco import COCO
from .external import ExternalSource
from .files import File
from .mapped import Map
from .mix import Mix
from .nemo_asr import NemoAsr
from .npy import Numpy
from .sequence import Sequence
from .tfrecord import TFRecord
from .video import Video, VideoResize
from .webdataset import Webdataset

__all__ = [
    "COCO",
    "ExternalSource",
    "File",
    "Map",
    "Mix",
    "NemoAsr",
    "Numpy",
    "Reader",
    "Sequence",
    "TFRecord",
    "Video",
    "VideoResize",
    "Webdataset",
]

_NOT_HERE = frozenset(("Caffe", "Caffe2", "MXNet"))


def __getattr__(name: str) -> object:
    """Advice for readers of DALI that are not here."""
    hint = "; take its samples from readers.ExternalSource, or write them to files for readers.File"
    raise AttributeError(f"module 'dynamic.readers' has no attribute {name!r}{hint if name in _NOT_HERE else ''}")
