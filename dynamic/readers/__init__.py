"""Readers: sources of samples, visited in exact epochs, with a place that can be saved."""

from ._reader import Reader
from .caffe import Caffe, Caffe2
from .coco import COCO
from .external import ExternalSource
from .files import File
from .fits import Fits
from .mapped import Map
from .mix import Mix
from .mxnet import MXNet
from .nemo_asr import NemoAsr
from .npy import Numpy
from .sequence import Sequence
from .tfrecord import TFRecord
from .video import Video, VideoResize
from .webdataset import Webdataset

__all__ = [
    "COCO",
    "Caffe",
    "Caffe2",
    "ExternalSource",
    "File",
    "Fits",
    "MXNet",
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
