"""The class `Checkpoint`: states by name, collected from objects and given back to them, in numbered files."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from dynamic._base.state import JSON, Stateful
from dynamic.errors import ArgumentError, shown

from ._file import Entry, decoded, encoded
from ._numbered import newest, written
from ._save import applied, collected, type_name
from ._values import plain

__all__ = ["Checkpoint", "current", "default", "entered", "innermost"]

_AUTOMATIC = "__op_"


class Checkpoint:
    """The states of a set of objects, collected from them or loaded from a file.

    To write: `register` the objects, `collect` their states, `save` them. To go on: `load` a file, then `register` the
    objects under the same names, which gives each its state. `restore` gives all of them their states again.

    For most programs `checkpoint.save` and `checkpoint.load` are enough; this class has the names of DALI's.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "a.txt").touch()
    >>> reader = ndd.readers.File(files=["a.txt"], file_root=root)
    >>> states = ndd.checkpoint.Checkpoint()
    >>> states.register(reader, "reader")
    'reader'
    >>> states.collect()
    >>> states.save(root / "run-{seq:04d}.json").removeprefix(str(root))
    '/run-0000.json'
    """

    def __init__(self) -> None:
        self.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the registered objects."""
        return tuple(self._objects)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the states that are here."""
        return tuple(self._entries)

    @property
    def is_complete(self) -> bool:
        """Whether the states are those that `collect` took."""
        return self._complete

    @property
    def is_loaded(self) -> bool:
        """Whether the states are those that `load` or `deserialize` brought."""
        return self._loaded

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __repr__(self) -> str:
        return f"<Checkpoint: objects {list(self._objects)}, states {list(self._entries)}>"

    def clear(self) -> None:
        """Forget all objects and states."""
        self._objects: dict[str, Stateful] = {}
        self._entries: dict[str, Entry] = {}
        self._pending: set[str] = set()
        self._complete = self._loaded = False

    def register(self, op: Stateful, name: str | None = None) -> str:
        """Add an object. If a state of its name was loaded or set, the object gets it at once.

        Args:
            op: A reader, an RNG, or anything with `get_state` and `set_state`.
            name: Its name; by default one is made from the number of objects. An object of that name and of the same
                type is replaced.

        Returns:
            The name.

        Raises:
            ArgumentError: `op` has no state, is there under another name, or `name` is taken, empty or reserved.
            StateError: The state of this name does not fit; the object is as it was, and is not added.
            KeyError: A loaded checkpoint has no such name.
            RuntimeError: The states have been collected; `clear` first.
        """
        name = self._name_for(op, name)
        if name not in self._objects:
            if self._complete:
                raise RuntimeError(f"The states are collected: {name!r} would have none. Call clear() first.")
            if self._loaded and name not in self._entries:
                raise KeyError(f"The loaded checkpoint has no state for {name!r}; it has {sorted(self._entries)}.")
        if name in self._pending:
            applied(self._entries, {name: op})
            self._pending.discard(name)
        self._objects[name] = op
        return name

    def _name_for(self, op: Any, name: str | None) -> str:
        if isinstance(op, type) or not isinstance(op, Stateful):
            raise ArgumentError("Checkpoint.register", "op", "an object with get_state() and set_state()", shown(op))
        known = next((key for key, value in self._objects.items() if value is op), None)
        if name is None:
            return f"{_AUTOMATIC}{len(self._objects)}" if known is None else known
        if not isinstance(name, str) or not name or name.startswith(_AUTOMATIC):
            raise ArgumentError(
                "Checkpoint.register", "name", f"a str that does not start with {_AUTOMATIC!r}", shown(name)
            )
        if known not in (None, name):
            raise ArgumentError(
                "Checkpoint.register", "name", f"{known!r}, by which this object is there already", shown(name)
            )
        other = self._objects.get(name)
        if other is not None and type(other) is not type(op):
            raise ArgumentError("Checkpoint.register", "op", f"a {type_name(other)}, as {name!r} is", shown(op))
        return name

    def collect(self) -> None:
        """Take the states of all registered objects.

        Raises:
            RuntimeError: There are states of objects that are not registered.
            StateError: A state is not plain JSON; the states that are here stay.

        >>> states = ndd.checkpoint.Checkpoint()
        >>> _ = states.register(ndd.random.RNG(seed=5), "rng")
        >>> states.collect()
        >>> states.get_state("rng")["algorithm"]
        'philox4x32-10'
        """
        self._refuse_states_without_objects()
        self._entries = collected(self._objects)
        self._pending.clear()
        self._complete, self._loaded = True, False

    def restore(self) -> None:
        """Give all objects their states: all of them, or none after an error. Without any state this does nothing.

        Raises:
            RuntimeError: There are states without objects, or objects without states.
            StateError: A state does not fit its object.
        """
        if not self._entries:
            return
        self._refuse_states_without_objects()
        if missing := sorted(self._objects.keys() - self._entries.keys()):
            raise RuntimeError(
                f"There are no states for {missing}. Call collect(), or load a checkpoint that has them."
            )
        applied(self._entries, self._objects)
        self._pending.clear()

    def _refuse_states_without_objects(self) -> None:
        if extra := sorted(self._entries.keys() - self._objects.keys()):
            raise RuntimeError(f"The states of {extra} have no objects. Register those, or call clear() first.")

    def get_state(self, name: str) -> JSON:
        """Return a copy of the state under a name.

        Returns:
            JSON values; None if there is an object of that name, but no state.

        Raises:
            KeyError: There is nothing of that name.
        """
        if name not in self._objects and name not in self._entries:
            raise KeyError(f"There is no object or state {name!r}.")
        return copy.deepcopy(self._entries[name].state) if name in self._entries else None

    def set_state(self, name: str, value: JSON, op_type: type | str | None = None) -> None:
        """Put a state under a name. The object gets it by `restore`, or when it is registered.

        Args:
            name: A name of an object that is registered or will be.
            value: The argument of its `set_state`.
            op_type: The object's class or its name, which is compared before the state is given to it.

        Raises:
            KeyError: The states are collected, and none is of that name.
            StateError: The value is not plain JSON.
        """
        if self._complete and name not in self._objects:
            raise KeyError(f"The states are collected, and there is no object {name!r}.")
        if op_type is not None and not isinstance(op_type, (str, type)):
            raise ArgumentError("Checkpoint.set_state", "op_type", "a class or its name", shown(op_type))
        kind = op_type.__qualname__ if isinstance(op_type, type) else op_type
        self._entries[str(name)] = Entry(kind, plain(value, f"The state of {name!r}"))
        self._pending.add(str(name))

    def serialize(self) -> str:
        """Return the text of the file that `save` would write.

        Returns:
            JSON in ASCII.

        Raises:
            RuntimeError: There are no states.
        """
        return self._text().decode()

    def _text(self) -> bytes:
        if not self._entries:
            raise RuntimeError("There are no states to write. Call collect() or set_state() first.")
        return encoded(self._entries)

    def deserialize(self, data: str) -> None:
        """Take the states from the text of a checkpoint, for objects that will be registered.

        Args:
            data: A text of `serialize`, or of a file.

        Raises:
            ArgumentError: This is not a str.
            StateError: The text is damaged, or is no checkpoint; the states that are here stay.

        >>> states, later = ndd.checkpoint.Checkpoint(), ndd.checkpoint.Checkpoint()
        >>> _ = states.register(ndd.random.RNG(seed=5), "rng")
        >>> states.collect()
        >>> later.deserialize(states.serialize())
        >>> later.state_names
        ('rng',)
        """
        if not isinstance(data, str):
            raise ArgumentError("Checkpoint.deserialize", "data", "a str from serialize()", shown(data))
        self._take(decoded(data.encode("utf-8", "surrogatepass"), "the text"))

    def _take(self, entries: dict[str, Entry]) -> None:
        self._entries, self._pending = entries, set(entries)
        self._complete, self._loaded = False, True

    def save(self, filename: str | os.PathLike[str], *, keep: int | None = None) -> str:
        """Write the states to a file, whole and durable.

        Args:
            filename: A path, whose file is replaced; or one whose last part has ``{seq}`` in it (or ``{seq:04d}``, for
                four digits), for which the next free number is put: no file is replaced then, even if several
                processes save at once.
            keep: How many whole files of a pattern are left, the highest numbers, once this one is durable; by default
                all of them.

        Returns:
            The path that was written.

        Raises:
            RuntimeError: There are no states.
            ArgumentError: The path has other braces than one ``{seq}``.
        """
        if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 1):
            raise ArgumentError("Checkpoint.save", "keep", "an integer of 1 or more", shown(keep))
        return written(filename, self._text(), keep)

    def load(self, filename: str | os.PathLike[str], *, strict: bool = False) -> str:
        """Read the states from a file, for objects that will be registered.

        Args:
            filename: A path; or one with ``{seq}``, of whose files the one with the highest number is read.
            strict: Whether it is an error that a file with a higher number is damaged; otherwise it is a warning, and
                the highest that is whole is read.

        Returns:
            The path that was read.

        Raises:
            FileNotFoundError: There is no such file.
            StateError: The file is damaged, or no checkpoint; the states that are here stay.
            ArgumentError: The path has other braces than one ``{seq}``.
        """
        path, entries = newest(filename, strict=strict, stacklevel=2)
        self._take(entries)
        return path


class _OfThread(threading.local):
    default: Checkpoint | None = None


_of_thread = _OfThread()
#: That of the innermost context, in a thread or in one of its asyncio tasks.
innermost: ContextVar[Checkpoint | None] = ContextVar("dynamic.checkpoint", default=None)


def current() -> Checkpoint:
    """The checkpoint of the innermost `EvalContext` that this thread or task has entered, else one of the thread.

    >>> with ndd.EvalContext() as context:
    ...     ndd.checkpoint.current() is context.checkpoint
    True
    """
    found = innermost.get()
    return default() if found is None else found


def default() -> Checkpoint:
    """The checkpoint of this thread outside of any context."""
    if _of_thread.default is None:
        _of_thread.default = Checkpoint()
    return _of_thread.default


@contextlib.contextmanager
def entered(checkpoint: Checkpoint) -> Iterator[None]:
    """Make a checkpoint the current one."""
    before = innermost.get()
    innermost.set(checkpoint)
    try:
        yield
    finally:
        innermost.set(before)
