"""Readers: sources of samples, visited in exact epochs, with a place that can be saved."""

from ._reader import Reader
from .external import ExternalSource
from .files import File
from .npy import Numpy
from .webdataset import Webdataset

__all__ = ["ExternalSource", "File", "Numpy", "Reader", "Webdataset"]
