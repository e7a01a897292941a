"""The CUDA kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a child process that preloads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from twin import build

ROOT = Path(__file__).parent.parent
_CHILD = Path(__file__).with_name("sanitized_child.py")


def _library(name: str) -> str:
    """Where the compiler has a sanitizer's library; empty where it has none."""
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if Path(found).is_absolute() else ""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        build.SANITIZED: "1",
        "LD_PRELOAD": " ".join(map(_library, ("libasan.so", "libubsan.so"))),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=0:exitcode=66",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    return subprocess.run([sys.executable, str(_CHILD), *arguments], capture_output=True, text=True, env=environment,
                          check=False)  # fmt: skip


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(build.COMPILER is None, reason="g++, which compiles the kernels here, is missing"),
    pytest.mark.skipif(build.COMPILER is not None and not _library("libasan.so"), reason="g++ has no AddressSanitizer"),
]


def test_all_kernels_stay_inside_of_their_memory():
    result = _run("all")
    assert result.returncode == 0, result.stderr[-4000:]
    assert "kernels without a finding" in result.stdout


def test_what_is_planted_is_found():
    faults = ["read", "shared", "overflow", "misaligned"]
    result = _run(*faults)
    assert result.returncode == 0, result.stdout + result.stderr[-4000:]
    ends = json.loads(result.stdout)
    assert {fault: code for fault, (code, _) in ends.items()} == dict.fromkeys(faults, 66)
    for _, said in ends.values():
        assert "runtime error" in said or "AddressSanitizer" in said
