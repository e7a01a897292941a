"""Checkpoint files of DALI's dynamic mode (2.x): their random number generators go on here, their readers cannot."""

from __future__ import annotations

from typing import Any

from dynamic.errors import StateError, shown

__all__ = ["READER", "is_dalis", "states_of_dali"]

_VERSION = 2
#: What follows the type of a state that is not for our objects.
READER = " of DALI, whose place counts what one shard was given in an order of DALI's own"


def is_dalis(document: Any) -> bool:
    """Whether the JSON value of a file looks like a checkpoint of DALI."""
    return isinstance(document, dict) and document.keys() == {"version", "states"} and bool(document["states"])


def states_of_dali(document: dict[str, Any], source: str) -> dict[str, tuple[str, Any]]:
    """For each name the type and the state; that of an RNG as an RNG here has it, of anything else no state.

    Raises:
        StateError: It is of another version, or is damaged.
    """
    if type(document["version"]) is not int or document["version"] != _VERSION:
        raise StateError(f"{source} is a checkpoint of DALI of version {shown(document['version'])}, and this library "
                         f"reads {_VERSION}.")  # fmt: skip
    states = document["states"]
    if not isinstance(states, dict):
        raise _damaged(source, "its states are no dict")
    found: dict[str, tuple[str, Any]] = {}
    for name, entry in states.items():
        if not isinstance(entry, dict) or entry.keys() != {"state", "type"} or type(entry["state"]) is not str:
            raise _damaged(source, f"the state of {name!r} is not a pair of a text and a type")
        kind, text = entry["type"], entry["state"]
        if kind == "RNG" or (kind is None and text.startswith("Philox_")):
            found[name] = "RNG", {"algorithm": "philox4x32-10", "state": text}
        elif type(kind) is str:
            found[name] = f"{kind}{READER}", None
        else:
            raise _damaged(source, f"the type of {name!r} is {shown(kind)}")
    return found


def _damaged(source: str, reason: str) -> StateError:
    return StateError(f"{source} is a damaged checkpoint of DALI: {reason}. Use an earlier one.")
