"""`pipeline_def`: functions that make pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ._calls import function_of
from ._nodes import of_values
from ._pipeline import Pipeline
from ._settings import ARGUMENTS, SETTINGS

__all__ = ["do_not_convert", "pipeline_def"]

F = TypeVar("F")


@overload
def pipeline_def(function: Callable[..., Any], /) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(
    function: None = None, /, **arguments: Any
) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Make a function that makes a `Pipeline` of the one below.

    Args:
        function: Called for each batch.
        arguments: Those of `Pipeline`, which a call may override; further arguments of a call, and those that
            the function has a parameter for, go to the function.

    >>> from dynamic.pipeline import fn, pipeline_def
    >>> @pipeline_def(batch_size=3, seed=5)
    ... def numbers(source):
    ...     x = fn.external_source(source, batch=False)
    ...     return x * 2
    >>> with numbers(lambda info: [info.idx_in_epoch]) as pipe:
    ...     pipe.run()[0].tolist(), pipe.run()[0].tolist()
    ([[0], [2], [4]], [[6], [8], [10]])
    """
    if function is None:
        return functools.partial(_defined, arguments)
    return _defined(arguments, function)


def _defined(defaults: Mapping[str, Any], function: Callable[..., Any]) -> Callable[..., Pipeline]:
    pipelines = {*ARGUMENTS, *SETTINGS} - inspect.signature(function_of(function)).parameters.keys()

    @functools.wraps(function)
    def make(*inputs: Any, **given: Any) -> Pipeline:
        own = {name: value for name, value in given.items() if name in pipelines}
        rest = {name: value for name, value in given.items() if name not in own}
        return Pipeline(**{**defaults, **own}, function=of_values(function, inputs, rest))

    return make


def do_not_convert(function: F) -> F:
    """Leave a function as it is: conditions never change the source of a function here."""
    return function
