"""CUDA without a GPU: kernels compiled for the host, and as much of cupy as the library uses over host memory."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

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
def with_gpu() -> Iterator[None]:
    """Run a test on the GPU of this machine, or on two that are made of host memory where it has none.

    With DYNAMIC_REQUIRE_GPU=1 in the environment a machine without one fails the test.
    """
    if has_gpu():
        yield
        return
    if os.environ.get("DYNAMIC_REQUIRE_GPU") == "1":
        pytest.fail("DYNAMIC_REQUIRE_GPU is set, and cupy finds no GPU")
    if shutil.which("g++") is None:
        pytest.skip("there is no GPU, and no g++ to compile kernels for the host")
    device = importlib.import_module("twin.device")
    real = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    for name in real:  # all of it, for parts of it import others when they are looked at
        del sys.modules[name]
    sys.modules["cupy"] = importlib.import_module("twin.cupy")
    devices.gpu_count.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "nvidia.nvimgcodec", None)  # the real one would look for a GPU of its own
            yield
    finally:
        device.reset()
        del sys.modules["cupy"]
        sys.modules.update(real)
        devices.gpu_count.cache_clear()


@contextlib.contextmanager
def with_torch() -> Iterator[Any]:
    """torch with CUDA tensors: the real one where there is a GPU, else a stand-in. Inside of `with_gpu` only."""
    if has_gpu():
        real = pytest.importorskip("torch", reason="torch is not installed")
        if not real.cuda.is_available():
            pytest.skip("torch is installed without CUDA")
        yield real
        return
    with pytest.MonkeyPatch.context() as patch:
        module = importlib.import_module("twin.torch")
        patch.setitem(sys.modules, "torch", module)
        yield module
