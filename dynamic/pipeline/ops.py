"""DALI's operators as classes: ``ops.Rotate(angle=30)`` is `fn.rotate` with arguments that are given beforehand.

A class has the name of its function in another spelling: ``ops.readers.File``, ``ops.CropMirrorNormalize``,
``ops.FileReader`` and so on. Its objects are called in a graph, or in a function under `pipeline_def`.

>>> from dynamic.pipeline import Pipeline, ops
>>> rotate = ops.Rotate(angle=90)
>>> pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
>>> with pipe:
...     images = ops.ExternalSource(lambda: [[[1, 2], [3, 4]]])()
...     pipe.set_outputs(rotate(images))
>>> pipe.run()[0].tolist()
[[[2, 4], [1, 3]]]
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import fn
from ._names import paths

__all__ = ["Operator"]


class Operator:
    """An operator with some of its arguments.

    Args:
        inputs: For sources: the source, and the number of its outputs.
        arguments: Arguments of the function, for every call.
    """

    _function: Callable[..., Any]

    def __init__(self, *inputs: Any, **arguments: Any) -> None:
        self._inputs, self._arguments = inputs, arguments

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Call the function with these arguments too."""
        return type(self)._function(*self._inputs, *inputs, **{**self._arguments, **arguments})

    def __repr__(self) -> str:
        words = [f"{name}={value!r}" for name, value in self._arguments.items()]
        return f"ops.{type(self).__qualname__}({', '.join(words)})"


class _Family(ModuleType):
    """A module of classes, such as ``ops.readers``."""

    def __getattr__(self, name: str) -> Any:
        return _found(self.__name__.removeprefix(f"{__name__}."), name)

    def __dir__(self) -> list[str]:
        return _classes(self.__name__.removeprefix(f"{__name__}."))


def _spelled(path: str) -> str:
    """A path without the differences of spellings."""
    return path.replace("_", "").lower()


@functools.cache
def _paths() -> dict[str, str]:
    """The paths of functions by their spelling as classes."""
    return {_spelled(path): path for path in paths()}


@functools.cache
def _class(path: str) -> type[Operator]:
    """The class of a function."""
    function: Any = fn
    for part in path.split("."):
        function = getattr(function, part)
    name = "".join(map(str.capitalize, path.rpartition(".")[2].split("_")))
    body: dict[str, Any] = {"_function": staticmethod(function), "__doc__": function.__doc__, "__wrapped__": function}
    return type(name, (Operator,), body)


def _found(family: str, name: str) -> type[Operator]:
    path = _paths().get(_spelled(f"{family}.{name}" if family else name))
    if path is None or not name[:1].isupper():
        raise AttributeError(f"ops has no {f'{family}.{name}' if family else name!r}: dynamic has none")
    return _class(path)


def _classes(family: str) -> list[str]:
    of_family = [path for path in paths() if path.rpartition(".")[0] == family]
    return sorted({_class(path).__name__ for path in of_family})


for _family in sorted({path.rpartition(".")[0] for path in paths()} - {""}):
    _above, _, _last = f"{__name__}.{_family}".rpartition(".")
    sys.modules[f"{__name__}.{_family}"] = _Family(f"{__name__}.{_family}", f"Classes of `fn.{_family}`.")
    if _above in sys.modules:
        setattr(sys.modules[_above], _last, sys.modules[f"{__name__}.{_family}"])

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _found("", name)

else:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return ["Operator", *_classes("")]
