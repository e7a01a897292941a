"""Save and load the states of objects under names, all or nothing."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Never

from dynamic._base.state import Stateful, way_back
from dynamic.errors import ArgumentError, StateError, StateWarning, shown
from dynamic.io._bytes import refuse_address

from ._atomic import read
from ._file import LARGEST, Entry, decoded, encoded
from ._numbered import newest, written
from ._values import plain

__all__ = ["applied", "collected", "load", "load_latest", "save", "type_name"]


def save(path: str | os.PathLike[str], /, *unnamed: Never, **objects: Stateful) -> str:
    """Write the states of objects to a file, under the names that they are given here.

    The file is whole at any time: after a crash, or loss of power, it is the old one or the new one.

    Args:
        path: The file; an old one is replaced. In its last part ``{seq}`` or ``{seq:04d}`` becomes the next free
            number, and no file is replaced. Missing folders are made.
        objects: Objects with a state: readers, RNGs, anything with `get_state` and `set_state`.

    Returns:
        The path that was written.

    Raises:
        ArgumentError: An object has no state, or none was given.
        StateError: A state holds a value that JSON does not keep.
        OSError: The file cannot be written; an old one stays as it was.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "a.txt").touch()
    >>> reader = ndd.readers.File(files=["a.txt"], file_root=root)
    >>> for jpegs, labels in reader.next_epoch(batch_size=1):
    ...     path = ndd.checkpoint.save(root / "run.json", reader=reader)
    >>> ndd.checkpoint.load(root / "run.json", reader=reader)
    >>> reader.position
    1
    """
    _check("save", unnamed, objects)
    return written(path, encoded(collected(objects)))


def load(path: str | os.PathLike[str], /, *unnamed: Never, **objects: Stateful) -> None:
    """Return objects to the states in a file: all of them, or none after an error.

    Args:
        path: A file that `save` wrote; or a checkpoint of DALI's dynamic mode, whose RNGs go on here.
        objects: The objects, under the names that they were saved by. They may be new or used.

    Raises:
        ArgumentError: An object has no state, or none was given.
        StateError: The file is damaged or no checkpoint, it has other names or types, or a state does not fit its
            object.
        FileNotFoundError: There is no such file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
    >>> rng = ndd.random.RNG(seed=5)
    >>> _ = ndd.checkpoint.save(path, rng=rng)
    >>> word = rng()
    >>> ndd.checkpoint.load(path, rng=rng)
    >>> rng() == word
    True
    """
    _check("load", unnamed, objects)
    refuse_address("checkpoint.load", "path", os.fsdecode(path))
    _give(decoded(read(Path(path), LARGEST), str(path)), str(path), objects)


def load_latest(pattern: str | os.PathLike[str], /, *unnamed: Never, **objects: Stateful) -> str:
    """Return objects to the states in the newest whole file that was saved under a pattern: all of them, or none.

    Args:
        pattern: The path with ``{seq}`` that `save` was given.
        objects: The objects, under the names that they were saved by.

    Returns:
        The path of the file.

    Raises:
        ArgumentError: An object has no state, or none was given.
        FileNotFoundError: There is no file of that pattern.
        StateError: All files are damaged; or the newest whole one has other names or types, or a state that does not
            fit its object, for which no older file is taken.

    Warns:
        StateWarning: For each newer file that is damaged, with the reason.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> rng = ndd.random.RNG(seed=5)
    >>> for step in range(3):
    ...     path = ndd.checkpoint.save(root / "step-{seq:03d}.json", rng=rng)
    >>> ndd.checkpoint.load_latest(root / "step-{seq:03d}.json", rng=rng).removeprefix(str(root))
    '/step-002.json'
    """
    _check("load_latest", unnamed, objects)
    path, entries = newest(pattern, stacklevel=2)
    _give(entries, path, objects)
    return path


def _give(entries: Mapping[str, Entry], path: str, objects: Mapping[str, Stateful]) -> None:
    for name, entry in [*entries.items()]:
        if name not in objects and entry.refusal:
            warnings.warn(f"Left out: {entry.refusal}", StateWarning, stacklevel=3)
            entries = {key: entries[key] for key in entries if key != name}
    if entries.keys() != objects.keys():
        raise StateError(
            f"{path} holds the states of {_listed(entries)}; the objects given are {_listed(objects)}. "
            "Give it the objects that were saved, by the same names."
        )
    applied(entries, objects)


def type_name(value: object) -> str:
    """The name of the type of an object in a checkpoint."""
    return type(value).__qualname__


def collected(objects: Mapping[str, Stateful]) -> dict[str, Entry]:
    """The types and states of objects, copied: an object may go on writing to them.

    Raises:
        StateError: A state holds something that JSON does not bring back as it was.
    """
    return {
        name: Entry(type_name(value), plain(value.get_state(), f"The state of {name!r}"))
        for name, value in objects.items()
    }


def applied(entries: Mapping[str, Entry], objects: Mapping[str, Stateful]) -> None:
    """Give objects the states of the entries of their names; on an error give all that they had before.

    Raises:
        StateError: An entry is of an object of another type, or its state does not fit.
    """
    for name, value in objects.items():
        if entries[name].refusal:
            raise StateError(entries[name].refusal)
        kind = entries[name].type
        if kind is not None and kind != type_name(value):
            raise StateError(
                f"The state of {name!r} is that of a {kind}, not of a {type_name(value)}. "
                "Give the object that it was saved from, or one like it."
            )
    back = {name: way_back(value) for name, value in objects.items()}
    touched: list[str] = []
    try:
        for name, value in objects.items():
            touched.append(name)
            value.set_state(copy.deepcopy(entries[name].state))  # type: ignore[arg-type] # checked there
    except BaseException as error:
        changed = [name for name in reversed(touched) if not _returned(back[name])]
        rest = f"all but {', '.join(map(repr, changed))}, which took no state any more," if changed else "all objects"
        error.add_note(f"This was the state of {touched[-1]!r}; {rest} are as they were before.")
        raise


def _returned(back: Callable[[], None]) -> bool:
    """Whether an object is again where it was."""
    try:
        back()
    except Exception:  # noqa: BLE001 - the error that matters is the one on its way, whose note tells of this
        return False
    return True


def _check(function: str, unnamed: Sequence[Any], objects: Mapping[str, Any]) -> None:
    example = f"Write {function}(path, reader=reader, rng=rng)."
    if unnamed:
        raise ArgumentError(
            f"checkpoint.{function}", "objects", "takes objects by name, as they are in the file", "", example
        )
    if not objects:
        raise ArgumentError(
            f"checkpoint.{function}", "objects", "at least one object with a state, by a name", "none", example
        )
    for name, value in objects.items():
        if isinstance(value, type) or not isinstance(value, Stateful):
            is_loader = hasattr(value, "state_dict") and not isinstance(value, type)
            hint = f"torch.save and json.dump take {name}.state_dict(); here save a reader." if is_loader else ""
            raise ArgumentError(
                f"checkpoint.{function}", name, "an object with get_state() and set_state()", shown(value), hint
            )


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "nothing"
