"""CUDA without a GPU: kernels compiled for the host, and as much of cupy as the library uses over host memory."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator

import pytest

from dynamic import devices


@functools.cache
def has_gpu() -> bool:
    """Whether cupy, the real one, finds a GPU."""
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


@contextlib.contextmanager
def gpu() -> Iterator[None]:
    """Run a test on the GPU of this machine, or on two that are made of host memory where it has none.

    With DYNAMIC_REQUIRE_GPU=1 in the environment a machine without one fails the test.
    """
    if has_gpu():
        yield
        return
    if os.environ.get("DYNAMIC_REQUIRE_GPU") == "1":
        pytest.fail("DYNAMIC_REQUIRE_GPU is set, and cupy finds no GPU")
    device = importlib.import_module("twin.device")
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = importlib.import_module("twin.cupy")
    devices.gpu_count.cache_clear()
    try:
        yield
    finally:
        device.reset()
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before
        devices.gpu_count.cache_clear()
