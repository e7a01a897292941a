"""The text of a checkpoint: its contents, and its checks. `docs/checkpoints.md` describes it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dynamic._base.state import JSON
from dynamic.errors import StateError, shown

from ._dali import entries
from ._values import plain
from .legacy import recognise

__all__ = ["LARGEST", "Entry", "decoded", "encoded"]

FORMAT = "dynamic-checkpoint"
VERSION = 1
LARGEST = 64 << 20  # bytes
_MOST_VALUES, _MOST_NESTED = 1 << 22, 1 << 20  # values, and lists and dicts among them: each takes many bytes of memory
_DIGITS = 80  # of an integer: more than 256 bits have
_KEYS = ("format", "version", "library", "states", "digest")
_EARLIER = "Use an earlier checkpoint."


class Entry(NamedTuple):
    """One object's part of a checkpoint."""

    type: str | None  #: name of the object's class, where it is known
    state: JSON
    refusal: str = ""  #: why the state cannot be given to any object here, if it cannot


@functools.cache
def _library() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return "dynamic " + version("dynamic-batch")
    except PackageNotFoundError:
        return "dynamic"


def encoded(entries: Mapping[str, Entry]) -> bytes:
    """The text of a checkpoint; the same entries give the same bytes.

    Raises:
        StateError: A state holds something that would not come back as it is, or the text is too long to be read back.
    """
    for entry in entries.values():
        if entry.refusal:
            raise StateError(entry.refusal)
    data = _text(_library(), entries)
    if len(data) > LARGEST:
        raise StateError(
            f"The states are {len(data)} bytes of JSON; a checkpoint has at most {LARGEST}. "
            "Keep data in files of its own."
        )
    if told := _too_many(data):
        raise StateError(f"The states have {told}. Keep data in files of its own.")
    return data


def _too_many(data: bytes) -> str:
    """The excess of a text of JSON, counted by signs, in texts too: too many parts to parse; or nothing."""
    values, nested = data.count(b",") + 1, data.count(b"[") + data.count(b"{")
    if values > _MOST_VALUES:
        return f"{values} values, where a checkpoint has at most {_MOST_VALUES}"
    return f"{nested} lists and dicts, where a checkpoint has at most {_MOST_NESTED}" if nested > _MOST_NESTED else ""


def decoded(data: bytes, source: str) -> dict[str, Entry]:
    """The entries of the text of a checkpoint.

    Args:
        data: The text.
        source: Where it is from, for the error.

    Returns:
        The entries by name; of a checkpoint of DALI too, of which those of RNGs alone can be used.

    Raises:
        StateError: Not one that `encoded` gave: something else, or changed since, or of a version not known here.
    """
    document = _parsed(data, source)
    of_dali = entries(document, source)
    if of_dali is not None:
        return {name: Entry(*entry) for name, entry in of_dali.items()}
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError(
            f"{source} is not a checkpoint: its format is not {FORMAT!r}. Name a file that dynamic.checkpoint saved."
        )
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        library = document.get("library")
        written = f", written by {library[:40]!r}" if isinstance(library, str) else ""
        raise StateError(
            f"{source} is a checkpoint of version {shown(version)}{written}; this library reads "
            f"{VERSION}. Load it with the version that saved it, or a newer one."
        )
    if document.keys() != set(_KEYS):
        raise _damaged(source, f"it has the keys {', '.join(map(repr, document))}")
    states = document["states"]
    if not isinstance(states, dict) or not all(map(_is_entry, states.values())):
        raise _damaged(source, "its states are not pairs of a type and a state")
    found = {name: Entry(value["type"], value["state"]) for name, value in states.items()}
    try:
        same = type(document["library"]) is str and _text(document["library"], found) == data
    except StateError as error:
        raise _damaged(source, str(error)) from None
    if not same:
        raise _damaged(source, "its digest is not that of its text")
    return found


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"type", "state"} and isinstance(value["type"], str | None)


def _text(library: str, entries: Mapping[str, Entry]) -> bytes:
    """The one text for these entries. So a digest that fits is not all: no other byte may differ either."""
    document: dict[str, JSON] = {"format": FORMAT, "version": VERSION, "library": library}
    plain({name: entry.type for name, entry in entries.items()}, "The saved value")
    document["states"] = {
        name: {"type": entries[name].type, "state": plain(entries[name].state, f"The state of {name!r}")}
        for name in sorted(entries)
    }
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    document["digest"] = "sha256:" + hashlib.sha256(canonical).hexdigest()
    return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"


def _parsed(data: bytes, source: str) -> Any:
    """The JSON value of a text, read strictly."""
    if len(data) > LARGEST:
        raise StateError(f"{source} is not a checkpoint: it is larger than {LARGEST} bytes.")
    if data.startswith(b"PK\3\4"):
        raise StateError(f"{source} is not a checkpoint: it is a ZIP archive, as torch.save writes. Use torch.load.")
    pickle = recognise(data)
    if pickle is not None:
        raise StateError(
            f"{source} is not a checkpoint: it is a pickle of protocol {pickle.protocol}, which could run "
            "any code if it were loaded. See dynamic.checkpoint.legacy.read."
        )
    if told := _too_many(data):
        raise _damaged(source, f"it has {told}")
    if not data.strip(b"\0 \t\r\n"):
        raise _damaged(source, f"it has {len(data)} bytes, all of them zeros or blanks" if data else "it is empty")
    try:
        return json.loads(
            data.decode("ascii"),
            object_pairs_hook=_unique,
            parse_constant=_refused,
            parse_int=_integer,
            parse_float=_finite,
        )
    except RecursionError:
        raise _damaged(source, "it is nested too deep") from None
    except UnicodeDecodeError as error:
        raise _damaged(source, f"it is not JSON: byte {error.start} is {data[error.start]:#x}") from None
    except json.JSONDecodeError as error:
        raise _damaged(source, f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise _damaged(source, str(error)) from None


def _damaged(source: str, reason: str) -> StateError:
    return StateError(f"{source} is damaged, or not a checkpoint: {reason}. {_EARLIER}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key occurs twice")
    return unique


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
