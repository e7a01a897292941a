"""Declarations of functions, read once, and the check of calls against them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, ParamSpec, TypeVar, get_type_hints

from dynamic.data import Batch, checked_batch_size
from dynamic.errors import ArgumentError, nearest

from .argument import IGNORED, KINDS, Argument, argument, ignored_by, is_layout

__all__ = ["Binder", "check_given", "common_size", "function", "signature_without"]

P = ParamSpec("P")
R = TypeVar("R")


class Binder:
    """The inputs and arguments of a function: positional-only and keyword-only parameters.

    Args:
        body: The function.
        name: Its name in errors.
        lent: Parameters that no caller gives.
        common: Arguments that every call takes, which are no part of `arguments`.
    """

    def __init__(
        self, body: Callable[..., Any], name: str, lent: Sequence[str] = (), common: Sequence[str] = ()
    ) -> None:
        self.name, self.common = name, common
        self.ignored = ignored_by(body)
        if self.ignored:
            IGNORED[name] = self.ignored
        hints = get_type_hints(body, include_extras=True)
        parameters = list(inspect.signature(body).parameters.values())
        for p in parameters:
            if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_KEYWORD):
                hint = "Inputs stand before a /, and arguments after a *."
                raise ArgumentError(name, p.name, "declared as an input or as an argument", str(p), hint)
            if p.kind is Parameter.KEYWORD_ONLY and p.name not in (*lent, *common) and p.name not in hints:
                raise ArgumentError(name, p.name, f"annotated: {KINDS}", "no annotation")
        self.inputs = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)]
        self.variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
        keyword = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name not in (*lent, *common)]
        self.layout_name = next((p.name for p in keyword if is_layout(hints[p.name])), None)
        self.lent = [p.name for p in parameters if p.name in lent]
        self.keyword = [p for p in keyword if p.name != self.layout_name]
        self.arguments: dict[str, Argument] = {p.name: argument(name, p, hints[p.name]) for p in self.keyword}
        self.required = [a for a in self.arguments.values() if a.required]
        self._defaults = {
            p.name: None if p.default is None else self.arguments[p.name].one(p.default)
            for p in self.keyword
            if p.default is not p.empty
        }
        self.least, self._most = sum(p.default is p.empty for p in self.inputs), len(self.inputs)
        if self.variadic:
            self._most = sys.maxsize

    def check_inputs(self, count: int) -> None:
        """Refuse too few or too many positional arguments."""
        if self.least <= count <= self._most:
            return
        if self.variadic:
            raise ArgumentError(self.name, "inputs", "takes one or more positional arguments; got none", "")
        names = [p.name for p in self.inputs]
        raise ArgumentError.inputs(self.name, names, count, self.arguments, [known.name for known in self.required])

    def input_name(self, index: int) -> str:
        """The name of an input in errors."""
        return f"{self.inputs[0].name}[{index}]" if self.variadic else self.inputs[index].name

    def check_names(self, arguments: Mapping[str, Any], hint: str = "") -> None:
        """Refuse unknown arguments, and the lack of required ones, with a hint."""
        for name in arguments:
            if name not in self.arguments and name not in self.common and name not in self.ignored:
                raise ArgumentError.unknown(self.name, name, [*self.arguments, *self.common])
        for known in self.required:
            if arguments.get(known.name) is None:
                raise ArgumentError(self.name, known.name, known.expected, "nothing", hint)

    def values(self, arguments: Mapping[str, Any], count: int) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Arguments as kernels see them: those of all samples, and those of each; None stands for the default."""
        fixed = self._defaults.copy()
        varying: dict[str, list[Any]] = {}
        for name, value in arguments.items():
            known = self.arguments.get(name)
            if known is None:
                if name in self.ignored:
                    continue
                raise ArgumentError.unknown(self.name, name, [*self.arguments, *self.common])
            if isinstance(value, Batch):
                varying[name] = known.each(value, count)
                fixed.pop(name, None)
            elif value is not None:
                fixed[name] = known.one(value)
        for known in self.required:
            if known.name not in fixed and known.name not in varying:
                raise ArgumentError(self.name, known.name, known.expected, "nothing")
        return fixed, varying


def common_size(
    operator: str, batch_size: Any, given: Mapping[str, Any], drawn: Mapping[str, int | None] | None = None
) -> int | None:
    """Number of samples of all Batches of a call; None where nothing is a Batch and the result is one Tensor.

    Args:
        operator: For errors.
        batch_size: The argument of that name.
        given: Inputs and arguments by name.
        drawn: The number of samples of a keyed source by the name of its argument; None is one sample.
    """
    sizes = dict(drawn or {})
    if batch_size is not None:
        sizes["batch_size"] = checked_batch_size(operator, batch_size)
    sizes |= {name: len(value) for name, value in given.items() if isinstance(value, Batch)}
    if not sizes:
        return None
    first, count = next(iter(sizes.items()))
    for name, size in sizes.items():
        if size != count:
            number = name == "batch_size"
            if count is None:
                expected = f"{'None' if number else 'one value'}, as {first!r} is for one sample"
            else:
                expected = f"{'' if number else 'a Batch of '}{count}, like {first!r}"
            skipped = first == "rng" and None not in (count, size) and not number
            hint = "Where a decoder has left samples out, key by the images: rng.keyed(images)." if skipped else ""
            raise ArgumentError(operator, name, expected, str(size) if number else f"a Batch of {size}", hint)
    return count


def signature_without(function: Callable[..., Any], name: str) -> inspect.Signature:
    """The signature of a function for its callers, who do not give one parameter."""
    signature = inspect.signature(function)
    return signature.replace(parameters=[p for p in signature.parameters.values() if p.name != name])


def function(body: Callable[P, R]) -> Callable[P, R]:
    """Check the calls of a function that is not an operator as those of operators; its arguments it converts itself."""
    parameters = inspect.signature(body).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    keywords = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    required = [p.name for p in keywords.values() if p.default is p.empty]
    kinds = {p.kind for p in parameters}
    more, others = Parameter.VAR_POSITIONAL in kinds, Parameter.VAR_KEYWORD in kinds

    @functools.wraps(body)
    def checked(*inputs: P.args, **arguments: P.kwargs) -> R:
        if len(inputs) < len(names) or (len(inputs) > len(names) and not more):
            raise ArgumentError.inputs(body.__name__, names, len(inputs), keywords, required)
        for name in arguments if not others else ():
            if name not in keywords:
                raise ArgumentError.unknown(body.__name__, name, keywords)
        for name in required:
            if name not in arguments:
                meant = next((given for given in arguments if given not in keywords and nearest(given, [name])), None)
                if meant is not None:
                    raise ArgumentError.unknown(body.__name__, meant, [name])
                raise ArgumentError(body.__name__, name, "given", "nothing")
        return body(*inputs, **arguments)

    return checked


def check_given(
    operator: str, parameters: Mapping[str, Parameter], inputs: Sequence[Any], arguments: Mapping[str, Any]
) -> None:
    """Refuse unknown, missing and doubled arguments of a function that takes some by position or by name."""
    named = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    kinds = {p.kind for p in parameters.values()}
    by_place = [name for name, p in named.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    unknown = next((name for name in arguments if name not in named), None)
    if unknown is not None and Parameter.VAR_KEYWORD not in kinds:
        raise ArgumentError.unknown(operator, unknown, named)
    if len(inputs) > len(by_place) and Parameter.VAR_POSITIONAL not in kinds:
        raise ArgumentError.inputs(operator, by_place, len(inputs), [])
    given = [*by_place[: len(inputs)], *arguments]
    for name, p in named.items():
        count = given.count(name)
        if count > 1 or (not count and p.default is p.empty):
            raise ArgumentError(operator, name, "given once", "two values" if count else "nothing")
