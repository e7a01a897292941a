"""The compiled library: which variant is loaded, and how its functions are called."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from dynamic._base import pool
from dynamic.errors import ArgumentError, shown

__all__ = ["address", "column", "function", "in_use", "info", "left_out", "threads"]

_FOLDER = Path(__file__).parent
_CHOICES = ("0", "1", "baseline")
_POINTER = ctypes.c_void_p
_left_out = False


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The best variant for this processor; None where there is none, or the environment says DYNAMIC_CORE=0."""
    wanted = os.environ.get("DYNAMIC_CORE", "1")
    if wanted not in _CHOICES:
        raise ArgumentError("dynamic", "DYNAMIC_CORE", f"one of {', '.join(_CHOICES)}", shown(wanted))
    if wanted == "0":
        return None
    baseline = _loaded("baseline")
    if baseline is None or wanted == "baseline" or not baseline.core_has_v3():
        return baseline
    return _loaded("v3") or baseline


def _loaded(variant: str) -> ctypes.CDLL | None:
    for path in _FOLDER.glob(f"dynamic-core-{variant}.*"):
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # of another system, in a folder that several share
            continue
    return None


def in_use() -> bool:
    """Whether the native path is in use.

    The environment variable DYNAMIC_CORE chooses: "0" for none, "baseline" for the variant of any x86-64 processor.
    """
    return not _left_out and _library() is not None


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Let all calls inside go the way of Python: for tests, which compare."""
    global _left_out
    before, _left_out = _left_out, True
    try:
        yield
    finally:
        _left_out = before


@functools.cache
def function(name: str, *arguments: Any, result: Any = None) -> Callable[..., Any]:
    """A function of the library, where `in_use`.

    Args:
        name: As in C.
        arguments: Its types of ctypes; `numpy.ndarray` stands for the address of an array, by `address`.
        result: The type of its result.
    """
    found = _library()[name]  # type: ignore[index] # it is loaded where it is in use
    found.argtypes = [_POINTER if kind is numpy.ndarray else kind for kind in arguments]
    found.restype = result
    return found


def _told(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def _read(array: NDArray[Any]) -> int:
    return _word_at(id(array) + _HEAD).value


_word_at, _HEAD = ctypes.c_size_t.from_address, object.__basicsize__


def _knows_arrays() -> bool:
    """Whether NumPy's arrays lie in memory as its C API says: first the address, behind the head of all objects."""
    array = numpy.empty(3, numpy.uint8)
    return sys.implementation.name == "cpython" and _read(array) == _told(array)


#: The address of the first element of an array, in an eighth of NumPy's own time. The caller keeps the array alive.
address: Callable[[NDArray[Any]], int] = _read if _knows_arrays() else _told


def column(values: Any, dtype: Any) -> NDArray[Any]:
    """Values as a contiguous column of a dtype, as C reads them."""
    return numpy.ascontiguousarray(values, dtype)


def threads(work: float) -> int:
    """How many threads share a call of so many bytes times weight, by the rule of `dynamic._base.pool`."""
    return pool.native_threads_for(work)


def info() -> dict[str, str]:
    """The variant in use, for `show_config`."""
    library = _library()
    if library is not None:
        return {"native library": Path(library._name).name}
    off = os.environ.get("DYNAMIC_CORE") == "0"
    return {"native library": "none: DYNAMIC_CORE=0" if off else "none: not compiled"}
