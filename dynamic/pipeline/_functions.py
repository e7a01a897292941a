"""The functions of `fn`, and the modules that hold them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import numpy

from dynamic import Batch, Tensor

from ._fed import for_each_output
from ._names import meant, members, paths, reads, unknown
from ._nodes import drawing, is_node, record
from ._run import called_in_run, in_run

__all__ = ["add_families", "found"]


class Family(ModuleType):
    """A module of `fn` such as ``fn.readers``.

    Args:
        name: The name of the module.
        path: The path in `fn`.
    """

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, f"The functions ``fn.{path}``.")
        self.__path__ = []  # a package, so that those within it can be imported
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return found(f"{self.__dict__['_path']}.{name}", self.__name__)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"fn.{self._path} is not an operator: call one of its family")

    def __dir__(self) -> list[str]:
        return members(self._path)


def add_families(name: str) -> None:
    """Put the families of `fn` into its module, and where `import` finds them.

    Args:
        name: The name of the module.
    """
    for family in sorted({path.rpartition(".")[0] for path in _paths()} - {""}):
        parts = family.split(".")
        for count in range(1, len(parts) + 1):
            path = ".".join([name, *parts[:count]])
            if path not in sys.modules:
                sys.modules[path] = Family(path, ".".join(parts[:count]))
                setattr(sys.modules[path.rpartition(".")[0]], parts[count - 1], sys.modules[path])


@functools.cache
def _paths() -> frozenset[str]:
    return frozenset(paths())


@functools.cache
def found(path: str, module: str) -> Callable[..., Any]:
    """The function of `fn` of a path: always the same one.

    Args:
        path: The path, such as ``"random.uniform"``.
        module: The name of the module that has it.

    Raises:
        AttributeError: There is none.
    """
    if path not in _paths():
        raise AttributeError(unknown(path))

    def called(*inputs: Any, **arguments: Any) -> Any:
        if path == "external_source" and not inputs and (several := for_each_output(arguments)) is not None:
            return tuple(called(**each) for each in several)
        if drawing.get() is not None or (not in_run() and (reads(path) or _belongs_to_a_graph(inputs, arguments))):
            return record(path, called, inputs, arguments)
        return called_in_run(path, inputs, arguments)

    called.__name__ = called.__qualname__ = path.rpartition(".")[2]
    called.__module__ = module
    called.__wrapped__ = meaning = meant(path)  # type: ignore[attr-defined] # for its signature
    called.__doc__ = meaning.__doc__
    return called


def _belongs_to_a_graph(inputs: tuple[Any, ...], arguments: dict[str, Any]) -> bool:
    """Whether a call outside of all blocks is one of a graph: it is given nodes, or no data at all."""
    if is_node((inputs, arguments)):
        return True
    return not any(isinstance(x, (Batch, Tensor, numpy.ndarray)) for x in (*inputs, *arguments.values()))
