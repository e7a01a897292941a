"""The least of cupy that `kernels.gpu` calls, at once and on arrays of the host: for tests of the kernels alone."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from . import build


class _Memory:
    """A copy of an array, at an address."""

    device = types.SimpleNamespace(id=0)

    def __init__(self, array: numpy.ndarray[Any, Any]) -> None:
        self._array = array.copy()
        self.data = types.SimpleNamespace(ptr=self._array.__array_interface__["data"][0])
        self.shape = array.shape


def made() -> types.ModuleType:
    """A module to put into cupy's place."""
    module = types.ModuleType("cupy")
    module.RawModule = build.RawModule
    module.asarray = _Memory
    module.zeros = module.empty = lambda shape, dtype: _Memory(numpy.zeros(shape, dtype))
    module.fft = types.SimpleNamespace(rfft=lambda rows: _Memory(numpy.fft.rfft(rows._array)))
    module.cuda = types.SimpleNamespace(Device=lambda: types.SimpleNamespace(id=0))
    return module


_cupy = made()


@contextmanager
def in_place_of_cupy() -> Iterator[types.ModuleType]:
    """While it lasts, kernels run on the host."""
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = _cupy
    try:
        yield _cupy
    finally:
        del sys.modules["cupy"]
        if before is not None:
            sys.modules["cupy"] = before
