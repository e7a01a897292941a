"""What the names of `fn` stand for."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import dynamic

from ._added import ADDED, FORMER

__all__ = ["SOURCES", "has", "looked_up", "meant", "members", "reads"]

#: Operators that ``from dynamic import *`` leaves out, as they have the names of builtins and modules.
_NOT_IMPORTED = ("copy", "filter", "slice")
#: Readers, in DALI's spelling, and sources.
SOURCES: dict[str, Any] = {
    f"readers.{name.lower()}": getattr(dynamic.readers, name)
    for name in dynamic.readers.__all__ if name not in ("ExternalSource", "Reader")
} | {"external_source": dynamic.ExternalSource}  # fmt: skip


def reads(path: str) -> bool:
    """Whether a path is that of a reader or a source."""
    return path == "external_source" or path.startswith("readers.")


def has(family: Any, name: str) -> bool:
    """Whether this library, or a family of it, has an operator or a family of that name."""
    found = getattr(family, name, None)
    if inspect.ismodule(found):
        return found.__name__.startswith("dynamic.")
    return name in getattr(family, "__all__", ()) or (family is dynamic and name in _NOT_IMPORTED)


@functools.cache
def looked_up(path: str) -> tuple[Callable[..., Any], frozenset[str]]:
    """The function of a path, and the names of its parameters.

    Raises:
        AttributeError: There is none.
        TypeError: The path is that of a family.
    """
    found: Any = ADDED.get(path, dynamic)
    for part in () if path in ADDED else path.split("."):
        if not has(found, part):
            close = difflib.get_close_matches(part, getattr(found, "__all__", ()), 1)
            hint = f"; did you mean {path.removesuffix(part) + close[0]!r}?" if close else ": dynamic has none"
            raise AttributeError(f"fn has no {path!r}{hint}")
        found = getattr(found, part)
    if not callable(found) or isinstance(found, type):
        raise TypeError(f"fn.{path} is no operator: call one of its family")
    return found, frozenset(inspect.signature(found).parameters)


def meant(path: str) -> Any:
    """What a path stands for, for its signature and its documentation.

    Raises:
        AttributeError: It is a family, or nothing.
    """
    path = FORMER.get(path, path)
    try:
        return SOURCES.get(path.lower()) or looked_up(path)[0]
    except TypeError as error:
        raise AttributeError(str(error)) from None


def members(family: str) -> list[str]:
    """The names in a family, for completion; those of `fn` itself where the name is empty."""
    if family == "readers":
        return sorted(path.removeprefix("readers.") for path in SOURCES if path.startswith("readers."))
    if family:
        module = getattr(dynamic, family, None)
        return [name for name in getattr(module, "__all__", ()) if not isinstance(getattr(module, name), type)]
    homes = {name: getattr(getattr(dynamic, name), "__module__", "") for name in (*dynamic.__all__, *_NOT_IMPORTED)}
    operators = [name for name, home in homes.items() if home.startswith(("dynamic.ops.", "dynamic.decoders"))]
    families = ("decoders", "experimental", "noise", "random", "readers", "reductions", "segmentation", "transforms")
    return sorted([*operators, *families, *ADDED, "external_source"])
