"""Kernels compiled for the host by g++: what stands in for `cupy.RawModule` where there is no GPU."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

HEADER = Path(__file__).with_name("cuda_on_host.h")
COMPILER = shutil.which("g++")
#: Where libraries are kept from one run to the next.
CACHE = Path(os.environ.get("DYNAMIC_TWIN_CACHE", Path(tempfile.gettempdir()) / f"dynamic-twin-{os.getuid()}"))
#: Set to "1" in a child process that preloads the sanitizers' libraries.
SANITIZED = "DYNAMIC_TWIN_SANITIZED"
SANITIZERS = (
    "-g1",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)

#: The names of all kernels that were launched.
used: set[str] = set()

_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(\w+)\s*\(')
_DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;")


def _run(command: Sequence[str], text: str) -> str:
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
    return result.stdout


def kernels(code: str, defines: Sequence[str] = ()) -> list[str]:
    """The names of all kernels in a source, also of those that macros make."""
    return _KERNEL.findall(_run(["g++", "-E", "-P", "-x", "c++", "-std=c++17", *defines, "-"], code))


@functools.cache
def build(code: str, sanitized: bool, defines: tuple[str, ...] = ()) -> ctypes.PyDLL:
    """The library with the kernels of a source; calls of it hold Python's lock, so that one kernel runs at a time."""
    text = _DYNAMIC_SHARED.sub(r"\1* \2 = (\1*)twin::shared;", code)
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fvisibility=hidden", "-w", *defines]
    flags += SANITIZERS if sanitized else ()
    digest = hashlib.sha256("\0".join([text, HEADER.read_text(), *flags]).encode()).hexdigest()[:24]
    path = CACHE / f"{digest}.so"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        entries = "\n".join(f"TWIN_ENTRY({name})" for name in kernels(code, defines))
        with tempfile.NamedTemporaryFile(dir=CACHE, suffix=".so", delete=False) as file:
            made = Path(file.name)
        command = ["g++", "-x", "c++", *flags, "-include", str(HEADER), "-shared", "-fPIC", "-o", str(made), "-"]
        _run(command, f"{text}\n{entries}\n")
        made.replace(path)
    return ctypes.PyDLL(str(path))


def _bytes_of(value: Any) -> bytes:
    """A kernel's argument as the bytes that a GPU would see."""
    if isinstance(value, numpy.generic):
        return value.tobytes()
    if isinstance(value, numpy.ndarray):
        raise TypeError("a kernel is given arrays of the device, or their addresses, and no numpy arrays")
    pointer = getattr(getattr(value, "data", None), "ptr", None)
    if pointer is not None:
        return numpy.uint64(pointer).tobytes()
    if isinstance(value, bool):
        return numpy.bool_(value).tobytes()
    if isinstance(value, int):
        return numpy.int64(value).tobytes()
    if isinstance(value, float):
        return numpy.float64(value).tobytes()
    raise TypeError(f"a kernel cannot be given {type(value).__name__}")


def _three(extents: Sequence[int]) -> Any:
    extents = [int(extent) for extent in extents]
    if min(extents) < 1 or max(extents) >= 1 << 31:
        raise ValueError(f"a grid or block of {extents}")
    return (ctypes.c_uint * 3)(*extents, *[1] * (3 - len(extents)))


class Kernel:
    """A kernel that is called as cupy's are."""

    def __init__(self, library: ctypes.PyDLL, name: str) -> None:
        try:
            self._launch, sizes = library[f"twin_launch_{name}"], library[f"twin_sizes_{name}"]
        except AttributeError:
            raise KeyError(f"no kernel is called {name}") from None
        found = (ctypes.c_int * 64)()
        self.name, self.sizes = name, found[: sizes(found)]

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0,
                 stream: Any = None) -> None:  # fmt: skip
        values = list(map(_bytes_of, args))
        if list(map(len, values)) != self.sizes:
            raise TypeError(f"{self.name} takes arguments of {self.sizes} bytes; got {list(map(len, values))}")
        shape = _three(block)
        if shape[0] * shape[1] * shape[2] > 1024 or shared_mem > 48 * 1024:
            raise ValueError(
                f"{self.name}: no GPU has {list(shape)} threads in a block and {shared_mem} bytes for them"
            )
        buffers = [ctypes.create_string_buffer(value, 16 * -(-len(value) // 16)) for value in values]
        used.add(self.name)
        pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        if self._launch(pointers, _three(grid), shape, ctypes.c_size_t(shared_mem)):
            raise RuntimeError(f"{self.name}: a barrier that not all threads of a block reach")


class RawModule:
    """Kernels from their source, with the part of `cupy.RawModule` that the library uses."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), reverse: bool = False) -> None:
        # All kernels of a source are compiled at once: the library asks for one at a time.
        defines = tuple(option for option in options if option.startswith("-D") and not option.startswith("-DONE"))
        self._library = build(code, os.environ.get(SANITIZED) == "1", defines)

    def get_function(self, name: str) -> Kernel:
        return Kernel(self._library, name)

    def reverse(self, yes: bool) -> None:
        """Whether the last thread of each block goes first: results that change lack a barrier."""
        self._library.twin_reverse(int(yes))
