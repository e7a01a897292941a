"""The CUDA kernels as nvcc compiles them: for which GPUs, without spills, and with nothing that NVRTC has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from twin import build, cubin

from dynamic.kernels.gpu import _launch

pytestmark = pytest.mark.slow

FOLDER = Path(_launch.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.cu") if path.stem != "common")

with_nvcc = pytest.mark.skipif(cubin.NVCC is None, reason="nvcc is missing: the kernels are not compiled for a GPU")


@with_nvcc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("module", MODULES)
def test_kernels_compile_for_gpus_and_spill_no_registers(module, architecture):
    usage = cubin.compiled(_launch.source(module), architecture, *_launch.OPTIONS)
    assert usage
    for name, used in usage.items():
        assert used.spilled == 0, f"{name} spills"
        assert used.stack == 0, f"{name} has a stack"
        assert used.registers <= 64, f"{name}: fewer than 1024 threads would be on a multiprocessor"


@with_nvcc
def test_a_spill_would_be_seen():
    code = """
extern "C" __global__ __launch_bounds__(1024, 2) void greedy(const float* in, float* out, int n) {
  float v[64];
  for (int i = 0; i < 64; i++) v[i] = in[threadIdx.x + i * n];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < 64; i++) v[i] = v[i] * v[(i + 7) & 63] + in[k];
  for (int i = 0; i < 64; i++) out[threadIdx.x + i * n] = v[i];
}
"""
    usage = cubin.compiled(code, "sm_90")["greedy"]
    assert usage.spilled + usage.stack > 0


@with_nvcc
def test_what_does_not_compile_is_seen():
    with pytest.raises(RuntimeError, match="error"):
        cubin.compiled("__global__ void f() { nothing(); }", "sm_90")


@pytest.mark.parametrize("module", MODULES)
def test_sources_need_no_headers(module):
    """NVRTC has none of the standard library's, and NumPy's and CUDA's may not be where it looks."""
    assert "#include" not in _launch.source(module)


@pytest.mark.skipif(build.COMPILER is None, reason="g++, which lists the kernels, is missing")
@pytest.mark.parametrize("module", MODULES)
def test_every_kernel_begins_with_the_same_parameters(module):
    """As `launch` passes them: a table, the first blocks, the number of samples and of the blocks of each."""
    module = build.RawModule(code=(code := _launch.source(module)))
    names = build.kernels(code)
    assert names
    for name in names:
        assert module.get_function(name).sizes[:4] == [8, 8, 4, 4]


def test_the_benchmark_runs_without_a_gpu_and_says_so():
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    script = [sys.executable, str(root / "benchmarks" / "gpu_kernels.py")]
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=True)
    assert "There is no GPU here" in done.stdout or "of a copy" in done.stdout
    if build.COMPILER is not None:
        done = subprocess.run([*script, "--stand-in"], capture_output=True, text=True, env=environment, check=True)
        assert "no figures" in done.stdout
