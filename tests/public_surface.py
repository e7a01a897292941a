"""The public surface of the package as text, a line for each name: `python tests/public_surface.py` records it.

A module is public if no part of its path begins with an underscore and it has an `__all__`; so is a name that stands
there, and each attribute of such a class without an underscore.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

RECORD = Path(__file__).parent / "data" / "public_surface.txt"
#: Rooms that users reach by other names.
INSIDE = ("dynamic.kernels", "dynamic.data", "dynamic.ops", "dynamic.context", "dynamic.__main__")
#: Adapters, some of whose names are made with the library that they adapt: their signatures are not recorded.
ADAPTERS = ("dynamic.jax", "dynamic.pytorch", "dynamic.ray", "dynamic.tensorflow")


def modules() -> list[str]:
    """The public modules, by name."""
    import dynamic

    found = [module.name for module in pkgutil.walk_packages(dynamic.__path__, "dynamic.")]
    public = [name for name in found if not any(part[:1] == "_" for part in name.split("."))]
    return ["dynamic", *sorted(name for name in public if not f"{name}.".startswith(tuple(f"{n}." for n in INSIDE)))]


def default(value: object) -> str:
    """A default as text that is the same everywhere."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value).__name__ == "DType":
        return repr(value)
    plain = (type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset)
    return repr(value) if isinstance(value, plain) and " at 0x" not in repr(value) else f"<{type(value).__name__}>"


def signature(function: object) -> str:
    """Names, kinds and defaults of parameters."""
    try:
        found = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    parameters = []
    for parameter in found.parameters.values():
        given = parameter.default
        if given is not parameter.empty:
            given = type("Text", (), {"__repr__": lambda _self, text=default(given): text})()
        parameters.append(parameter.replace(annotation=parameter.empty, default=given))
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def described(name: str, value: object) -> Iterator[str]:
    """A name, and the attributes of a class."""
    if hasattr(value, "__origin__"):
        yield f"{name}: an alias"
        return
    if not isinstance(value, type):
        yield f"{name}{signature(value)}" if callable(value) else f"{name}: {type(value).__name__}"
        return
    above = [base for base in value.__mro__[1:] if base.__module__.startswith("dynamic")]
    bases = [base.__name__ for base in above if base.__name__[0] != "_"]
    yield f"class {name}({', '.join(bases)})" + ("" if issubclass(value, enum.Enum) else f" = {signature(value)}")
    attributes: dict[str, object] = {}
    for owner in reversed(value.__mro__):
        if owner.__module__.startswith("dynamic"):
            attributes |= vars(owner)
    for attribute, found in sorted(attributes.items()):
        if attribute[0] == "_":
            continue
        inner = getattr(found, "__func__", found)
        if isinstance(found, (staticmethod, classmethod)) or inspect.isfunction(inner):
            yield f"{name}.{attribute}{signature(inner)}"
        else:
            yield f"{name}.{attribute}"


def surface() -> str:
    """All public names."""
    lines = list[str]()
    for module in map(importlib.import_module, modules()):
        for name in sorted(getattr(module, "__all__", ())):
            whole = f"{module.__name__}.{name}"
            lines += [whole] if module.__name__.startswith(ADAPTERS) else described(whole, getattr(module, name))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    RECORD.write_text(surface(), encoding="utf-8")
