"""The functions behind the names of `fn`."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import dynamic

from ._added import ADDED, FORMER
from ._films import FILMS, video

__all__ = ["SOURCES", "looked_up", "meant", "members", "paths", "reads", "unknown"]

#: Operators that ``from dynamic import *`` leaves out, as they have the names of builtins and modules.
_NOT_IMPORTED = ("copy", "filter", "slice")
_FAMILIES = ("decoders", "experimental", "io.file", "noise", "random", "reductions", "segmentation", "transforms")
#: Functions of DALI that are not here, and why.
_NOT_HERE = {"optical_flow": "NVIDIA's hardware computes it; call OpenCV's in fn.python_function"}
#: Readers, in DALI's spelling, and sources.
SOURCES: dict[str, Any] = {
    f"readers.{re.sub('(?<=[a-z])(?=[A-Z])', '_', name).lower()}": getattr(dynamic.readers, name)
    for name in dynamic.readers.__all__
    if name not in ("ExternalSource", "Reader")
} | {
    "experimental.readers.video": dynamic.experimental.readers.Video,
    FILMS: video,
    "external_source": dynamic.ExternalSource,
}


def reads(path: str) -> bool:
    """Whether a path is that of a reader or a source."""
    return path in SOURCES or path.startswith("readers.")


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
            raise AttributeError(unknown(path))
        found = getattr(found, part)
    if not callable(found) or isinstance(found, type):
        raise TypeError(f"fn.{path} is not an operator: call one of its family")
    return found, frozenset(inspect.signature(found).parameters)


def unknown(path: str) -> str:
    """The message for a name that `fn` has not, with the one that may be meant."""
    if path in _NOT_HERE:
        return f"fn has no {path!r}: {_NOT_HERE[path]}"
    family, _, name = path.rpartition(".")
    close = difflib.get_close_matches(name, members(family), 1)
    hint = f"; did you mean {path.removesuffix(name) + close[0]!r}?" if close else ": dynamic has none"
    return f"fn has no {path!r}{hint}"


def paths() -> list[str]:
    """The paths of all functions of `fn`, those of former names too."""
    own = [name for name in (*dynamic.__all__, *_NOT_IMPORTED) if _calls(getattr(dynamic, name))]
    inner = [f"{family}.{name}" for family in _FAMILIES for name in members(family)]
    return [*dict.fromkeys([*own, *inner, *ADDED, *SOURCES, *FORMER])]


def _calls(found: Any) -> bool:
    """Whether something is an operator, or another function of this library."""
    return callable(found) and not isinstance(found, type)


def meant(path: str) -> Any:
    """The function of a path, for its signature and its documentation.

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
        module: Any = dynamic
        for part in family.split("."):
            module = getattr(module, part, None)
        return [name for name in getattr(module, "__all__", ()) if not isinstance(getattr(module, name), type)]
    homes = {name: getattr(getattr(dynamic, name), "__module__", "") for name in (*dynamic.__all__, *_NOT_IMPORTED)}
    operators = [name for name, home in homes.items() if home.startswith(("dynamic.ops.", "dynamic.decoders"))]
    families = [family.partition(".")[0] for family in _FAMILIES]
    return sorted([*operators, *families, "readers", *ADDED, "external_source"])
