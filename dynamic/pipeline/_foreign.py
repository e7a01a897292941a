"""Checkpoints that DALI's pipeline mode wrote: recognised, and refused with the reason.

Such a checkpoint is a message of Protocol Buffers: a field 1 for each operator, with its name and its state, and a
field 2 with additions of the pipeline (1) and the iterator around it (2), pickled by DALI 1 and written as JSON by
DALI 2.
"""

from __future__ import annotations

import json
from typing import Any

from dynamic import StateError
from dynamic.checkpoint import legacy

__all__ = ["refuse"]

_WORDS = 2  # the wire type of text and messages


def refuse(data: bytes) -> None:
    """Raise if these bytes are a checkpoint of DALI's pipeline mode.

    Raises:
        StateError: They are; it says which DALI wrote them, and gives advice.
    """
    fields = _fields(data)
    if not fields or {number for number, _ in fields} != {1, 2}:
        return
    operators = [dict(_fields(content) or ()) for number, content in fields if number == 1]
    around = [part for number, content in fields if number == 2 for _, part in _fields(content) or () if part]
    if not all(1 in operator for operator in operators) or not around:
        return
    pickled = [part for part in around if legacy.recognise(part) is not None]
    written = "DALI 1, which pickled a part of it" if pickled else "DALI 2"
    names = ", ".join(repr(operator[1].decode(errors="replace")) for operator in operators if operator.get(2))
    raise StateError(
        f"Pipeline: the checkpoint was written by {written}, in pipeline mode{_place(around[0])}. Its "
        f"states ({names}) are places in DALI's own shuffle and random numbers, where nothing can go on "
        "here. Let DALI end that epoch, and begin the next one here without checkpoint=."
    )


def _place(data: bytes) -> str:
    """Where the pipeline was, as far as it is told."""
    try:
        known: Any = json.loads(data) if data[:1] == b"{" else legacy.read(data, allow="plain")
    except ValueError:
        return ""
    if not isinstance(known, dict) or not known.keys() >= {"iter", "epoch_idx"}:
        return ""
    return f", after {known['iter']} batches of epoch {known['epoch_idx']}"


def _fields(data: bytes) -> list[tuple[int, bytes]] | None:
    """The numbers and contents of the fields of a message; None if it is none, or has others than texts."""
    found, place = [], 0
    while place < len(data):
        key, place = _number(data, place)
        length, place = _number(data, place)
        if key & 7 != _WORDS or not key >> 3 or place + length > len(data):
            return None
        found.append((key >> 3, data[place : place + length]))
        place += length
    return found


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place after it."""
    value = 0
    for count, byte in enumerate(data[place : place + 5]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, place + count + 1
    return 0, place
