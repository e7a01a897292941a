"""The libraries and processor of this installation."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, overload

from dynamic._base.pool import get_num_threads
from dynamic.errors import ArgumentError, shown

from ._library import info

__all__ = ["show_config"]

#: The libraries that results or speed depend on, as packages are named.
_LIBRARIES = {
    "numpy": ["numpy"],
    "opencv": ["opencv-python-headless", "opencv-python", "opencv-contrib-python"],
    "pillow": ["pillow"],
    "simplejpeg": ["simplejpeg"],
    "cykooz-resizer": ["cykooz-resizer"],
    "cupy": ["cupy-cuda13x", "cupy-cuda12x", "cupy"],
    "nvimgcodec": ["nvidia-nvimgcodec-cu13", "nvidia-nvimgcodec-cu12"],
}


@overload
def show_config() -> None: ...
@overload
def show_config(mode: Literal["stdout"]) -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, dict[str, str]]: ...
def show_config(mode: str = "stdout") -> dict[str, dict[str, str]] | None:
    """Tell the versions of this library and of those below it, the native library in use, and the threads.

    Args:
        mode: "stdout" prints them, "dicts" returns them, as of ``numpy.show_config``.

    Returns:
        By section the names and their values.

    Raises:
        ArgumentError: The mode is another.

    >>> sorted(ndd.show_config("dicts"))
    ['dynamic', 'libraries', 'machine']
    """
    if mode not in ("stdout", "dicts"):
        raise ArgumentError("show_config", "mode", '"stdout" or "dicts"', shown(mode))
    sections = {
        "dynamic": {"version": _version(["dynamic-batch"]), **info(), "threads": str(get_num_threads())},
        "libraries": {name: _version(packages) for name, packages in _LIBRARIES.items()},
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "processor": platform.machine(),
        },
    }
    if mode == "dicts":
        return sections
    for section, values in sections.items():
        print(f"{section}:")  # noqa: T201 - this is its purpose
        for name, value in values.items():
            print(f"  {name}: {value}")  # noqa: T201
    return None


def _version(packages: list[str]) -> str:
    """The version of the first of some packages that is installed."""
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "not installed"
