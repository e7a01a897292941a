"""Readers: sources of samples, visited in exact epochs, with a place that can be saved."""

from ._reader import Reader
from .coco import COCO
from .external import ExternalSource
from .files import File
from .npy import Numpy
from .tfrecord import TFRecord
from .webdataset import Webdataset

__all__ = ["COCO", "ExternalSource", "File", "Numpy", "Reader", "TFRecord", "Webdataset"]
