"""The one protocol that everything with a state follows."""

from __future__ import annotations

import ast
import json
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["JSON", "State", "Stateful", "untold"]

#: What a state may hold. An array is a dict: ``{"dtype": "int64", "shape": [2], "data": [1, 2]}``.
JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
State: TypeAlias = "dict[str, JSON]"


@runtime_checkable
class Stateful(Protocol):
    """Something whose place can be written down as JSON and returned to."""

    def get_state(self) -> State:
        """The place, as JSON values whose shape does not change from step to step."""

    def set_state(self, state: State, /) -> None:
        """Return to a place, or raise StateError and stay."""


def untold(state: Any) -> Any:
    """The state that a text tells, as ``str(state)`` or JSON; anything else stays what it is."""
    if not isinstance(state, str) or not state.startswith("{"):
        return state
    for parse in (json.loads, ast.literal_eval):  # neither runs what it reads
        try:
            return parse(state)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return state
