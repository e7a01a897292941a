"""Checkpoint files of NVIDIA DALI's dynamic mode: states of RNGs are taken over, those of its readers cannot be.

Such a file is one JSON object, with no digest: ``{"version": 2, "states": {"rng": {"state": "Philox_...", "type":
"RNG"}, "reader": {"state": "<base64>", "type": "File"}}}``. Of a type that is null nothing is known but the text.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

from dynamic._base.state import JSON
from dynamic.errors import StateError, shown
from dynamic.random import RNG

__all__ = ["Foreign", "entries"]

_VERSION = 2
_READERS = frozenset(
    {
        "COCO",
        "Caffe",
        "Caffe2",
        "File",
        "Fits",
        "MXNet",
        "NemoAsr",
        "Numpy",
        "TFRecord",
        "Video",
        "VideoResize",
        "Webdataset",
    }
)
_PLACE = (
    "it counts samples of DALI's own shuffle and shards, an order that is not made here, and does not say where "
    "the epoch ends. Let a new reader begin an epoch instead"
)
_TEXT = "it is text that DALI made of a value of another class, which cannot be read back. Save that object anew"


class Foreign(NamedTuple):
    """One object's part of a file: the parts of an entry, and why the state cannot be given to an object, or ""."""

    type: str | None
    state: JSON
    refusal: str


def entries(document: Any, source: str) -> dict[str, Foreign] | None:
    """The states in a file that DALI's dynamic mode saved.

    Args:
        document: The value of the JSON text.
        source: Where it is from, for the errors.

    Returns:
        The states by name, those of RNGs as `RNG.get_state` gives them, others as their text with the reason why they
        cannot be used; None if the document is no such file.

    Raises:
        StateError: The file is damaged, or of a version that is not known here.
    """
    ours = {"format", "library", "digest"}
    if not isinstance(document, dict) or not document.keys() >= {"version", "states"} or document.keys() & ours:
        return None
    version, states = document["version"], document["states"]
    if type(version) is not int or version != _VERSION:
        raise StateError(
            f"{source} looks like a checkpoint of DALI, of version {shown(version)}; version {_VERSION} "
            "is known here. Load it with the version that saved it."
        )
    if len(document) != 2:
        raise _damaged(source, f"it has the keys {', '.join(map(repr, document))}")
    if not isinstance(states, dict) or not states:
        raise _damaged(source, "its states are no object with a state in it")
    generators = [name for name in states if _kind(states[name], f"{source}: {name!r}") == "RNG"]
    return {name: _entry(states[name], name, source, generators) for name in states}


def _kind(value: Any, where: str) -> str | None:
    """The type of one of the states: "RNG", another name, or None for an unknown one."""
    if not isinstance(value, dict) or value.keys() != {"state", "type"}:
        raise _damaged(where, "it is not a pair of a state and a type")
    if not isinstance(value["type"], str | None) or not isinstance(value["state"], str):
        raise _damaged(where, "its state and type are not text")
    if value["type"] is None and value["state"].startswith("Philox_"):
        return "RNG"
    kind: str | None = value["type"]
    return kind


def _entry(value: dict[str, Any], name: str, source: str, generators: list[str]) -> Foreign:
    text: str = value["state"]
    where = f"{source}: {name!r}"
    if name in generators:
        try:
            return Foreign("RNG", RNG(state=text).get_state(), "")
        except StateError as error:
            raise _damaged(where, str(error)) from None
    kind: str | None = value["type"]
    if kind in _READERS:
        try:
            base64.b64decode(text.encode(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise _damaged(where, f"the state of the reader is not base64: {error}") from None
    refusal = (
        f"{source} is a checkpoint of DALI, and its state of {name!r} ({kind or 'of no known type'}) cannot be "
        f"used: {_PLACE if kind in _READERS else _TEXT}."
    )
    if generators:
        refusal += (
            f" Only {', '.join(map(repr, generators))} can be taken: states = Checkpoint(); "
            f"states.load(path); states.register(rng, {generators[0]!r})."
        )
    return Foreign(kind, text, refusal)


def _damaged(where: str, reason: str) -> StateError:
    return StateError(f"{where} is damaged, or not a checkpoint of DALI: {reason}. Use an earlier checkpoint.")
