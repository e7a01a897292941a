"""The one protocol that everything with a state follows."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import json
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["JSON", "MOST_COUNTED", "State", "Stateful", "untold", "way_back"]

#: The highest number of an epoch, and of whatever else is counted in a state; keyed draws have 64 bits for it.
MOST_COUNTED = 2**64 - 1

#: The values of a state. An array is a dict: ``{"dtype": "int64", "shape": [2], "data": [1, 2]}``.
JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
State: TypeAlias = "dict[str, JSON]"


@runtime_checkable
class Stateful(Protocol):
    """Something whose place can be written down as JSON and returned to."""

    def get_state(self) -> State:
        """The place, as JSON values whose shape does not change from step to step."""

    def set_state(self, state: State, /) -> None:
        """Return to a place, or raise StateError and stay."""


def way_back(value: Stateful) -> Callable[[], None]:
    """A function that returns an object to where it stands now, whatever is done to its place in between.

    A state is for others that go on from it, and does not tell all: neither the samples given to a shard before, nor
    why samples were skipped. So a class that defines `set_state` may define `_way_back` beside it; others are given
    their state.
    """
    kind = next((kind for kind in type(value).__mro__ if "set_state" in vars(kind)), object)
    if "_way_back" in vars(kind):
        own: Callable[[], None] = value._way_back()  # type: ignore[attr-defined] # it was just looked for
        return own
    return functools.partial(value.set_state, copy.deepcopy(value.get_state()))


def untold(state: Any) -> Any:
    """The state that a text tells, as ``str(state)`` or JSON, or its bytes; anything else stays as it is."""
    if isinstance(state, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            state = state.decode()
    if not isinstance(state, str) or not state.startswith("{"):
        return state
    for parse in (json.loads, ast.literal_eval):  # neither runs code
        try:
            return parse(state)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return state
