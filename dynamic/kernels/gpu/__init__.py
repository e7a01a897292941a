"""Kernels in CUDA C++, each launched once for a whole batch however ragged it is.

A function here is given descriptions of samples and columns of arguments, writes one table of them, and launches. The
sources are compiled where they are first used; `common.cu` is a part of each.
"""

from ._images import Images, images

__all__ = ["Images", "images"]
