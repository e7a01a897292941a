"""What nvcc says of the kernels: whether they compile for a GPU, and what registers and memory they take."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

NVCC = shutil.which("nvcc")
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_USED = re.compile(r"Used (\d+) registers")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What a kernel takes."""

    registers: int
    stack: int
    spilled: int
    shared: int


def compiled(code: str, architecture: str, *options: str) -> dict[str, Usage]:
    """What each kernel of a source takes on an architecture; raises where it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cu"
        path.write_text(code)
        command = [
            "nvcc",
            "-cubin",
            f"-arch={architecture}",
            "-Xptxas",
            "-v",
            *options,
            "-o",
            "kernels.cubin",
            path.name,
        ]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    text = result.stdout + result.stderr
    if result.returncode or "warning" in text:
        raise RuntimeError(f"nvcc says:\n{text}")
    found = {}
    for part in text.split("ptxas info    : Compiling")[1:]:
        name = _ENTRY.search("Compiling" + part)
        used, stack, shared = _USED.search(part), _STACK.search(part), _SHARED.search(part)
        if name and used and stack:
            found[name[1]] = Usage(
                int(used[1]), int(stack[1]), int(stack[2]) + int(stack[3]), int(shared[1]) if shared else 0
            )
    return found
