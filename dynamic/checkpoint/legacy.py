"""Old states that were saved as pickles: recognised and read without running anything.

A pickle is a program. Unpickling one from a stranger, or one that a stranger could have written to, gives them the
machine. So this library never unpickles by itself: `recognise` knows kinds of files, and `read` rebuilds plain data and
NumPy arrays by a machine of its own that calls nothing and imports nothing.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dynamic.errors import ArgumentError, StateError, StateWarning, shown

from ._atomic import read as read_file
from ._pickled_values import rebuilt
from ._pickles import LARGEST, Item, Machine, Refused

__all__ = ["Pickle", "Pickled", "Policy", "read", "recognise"]

_SWITCH = "DYNAMIC_ALLOW_UNSAFE_PICKLE"

#: Opcodes that a pickle which does not say its protocol can begin with.
_FIRST = frozenset(b"()]}NIJKMLGFSVTUXBCcQP\x82\x83\x84\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x95\x96\x97")


@dataclass(frozen=True)
class Pickle:
    """The contents of a pickle, found without running it. Nothing here says that it would be safe to load."""

    protocol: int
    names: tuple[str, ...]  #: names that it would import, as far as it could be followed
    reason: str  #: why it is no whole pickle of bounded size; empty if it is one

    @property
    def complete(self) -> bool:
        """Whether it could be followed to its end."""
        return not self.reason


@dataclass(frozen=True)
class Pickled:
    """An object of some class in a pickle, its parts rebuilt as plain data; the argument of a decoder."""

    name: str  #: of the class, or of the function that would make the object
    arguments: tuple[Any, ...]
    state: Any  #: the argument of its `__setstate__`, or its `__dict__`; None if there is none
    has_state: bool
    items: list[Any]  #: items to append to it, or pairs to set in it


#: The treatment of objects of a class: "stateless" ignores them with a notice; "stateful" takes their state in their
#: place, and refuses them if they have none; a function takes a `Pickled` and returns the replacement.
Policy: TypeAlias = "Literal['stateless', 'stateful'] | Callable[[Pickled], Any]"


def recognise(data: bytes) -> Pickle | None:
    """Tell whether some bytes are a pickle, and the names it refers to. Nothing is run or imported.

    Args:
        data: The bytes.

    Returns:
        The contents of the pickle; None if the bytes are none. Bytes of which unpickling would call something
        before it finds them malformed are a pickle too.

    >>> import fractions, pickle
    >>> from dynamic.checkpoint import legacy
    >>> legacy.recognise(pickle.dumps(fractions.Fraction(1, 2), protocol=4))
    Pickle(protocol=4, names=('fractions.Fraction',), reason='')
    >>> legacy.recognise(b'{"epoch": 3}') is None
    True
    """
    return _examined(data)[0]


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    allow: Literal["plain", "unsafe"] | None = None,
    classes: Mapping[str, Policy] | None = None,
) -> Any:
    """Read a state that was saved as a pickle.

    Args:
        source: A file, or its bytes.
        allow: None refuses every pickle, and describes it. "plain" rebuilds None, bools, numbers, text, bytes,
            lists, tuples, dicts, sets, and NumPy's arrays and numbers with their dtypes and orders, and refuses
            anything else; nothing is called or imported. "unsafe" unpickles: whoever wrote the file can run any code.
            It needs the environment variable DYNAMIC_ALLOW_UNSAFE_PICKLE to be 1 as well.
        classes: With "plain", the treatment of objects of other classes, by the name of the class, such as
            ``"mylib.Sampler"``, which is compared as text and never imported.

    Returns:
        The state. OrderedDicts come back as dicts.

    Raises:
        StateError: It is not a pickle, or is refused; the message says why, and names its references.
        OSError: The file cannot be read.

    Warns:
        StateWarning: An object was ignored, as `classes` says; or a pickle was really unpickled.

    >>> import pickle
    >>> old = pickle.dumps({"epoch": 3, "order": numpy.array([2, 0, 1], "int64")}, protocol=4)
    >>> from dynamic.checkpoint import legacy
    >>> legacy.read(old)
    Traceback (most recent call last):
        ...
    dynamic.errors.StateError: The state is a pickle of protocol 4, which refers to numpy..._reconstruct, numpy.ndarray,
    numpy.dtype. Nothing of it has been run. Read it with dynamic.checkpoint.legacy.read(..., allow="plain"), and save
    the result with dynamic.checkpoint.
    >>> legacy.read(old, allow="plain")
    {'epoch': 3, 'order': array([2, 0, 1])}
    """
    _check_arguments(allow, classes or {})
    where = "The state" if isinstance(source, bytes) else str(source)
    if allow == "unsafe":  # the switch is looked at before anything else, so that nothing asked for is passed over
        return _unpickled(source, where)
    data = source if isinstance(source, bytes) else read_file(Path(source), LARGEST)
    known, content, items = _examined(data)
    if known is None:
        raise StateError(f"{where} is not a pickle. Name a file that was saved with pickle.")
    if allow is None:
        raise StateError(
            f"{described(known, where)} Nothing of it has been run. Read it with "
            'dynamic.checkpoint.legacy.read(..., allow="plain"), and save the result with '
            "dynamic.checkpoint."
        )
    if not known.complete:
        raise _refusal(known, where, known.reason)
    ignored: list[str] = []
    try:
        value = rebuilt(content, items, lambda item, place: _decoded(item, place, classes or {}, ignored))
    except Refused as error:
        raise _refusal(known, where, str(error)) from None
    except RecursionError as error:
        raise _refusal(known, where, "it is nested too deep for the call stack") from error
    except MemoryError as error:
        raise _refusal(known, where, "there is not enough memory for it") from error
    for notice in ignored:
        warnings.warn(f"{where}: {notice}", StateWarning, stacklevel=2)
    return value


def _check_arguments(allow: Any, classes: Mapping[str, Policy]) -> None:
    if allow not in (None, "plain", "unsafe"):
        raise ArgumentError("legacy.read", "allow", "None, 'plain' or 'unsafe'", shown(allow))
    if allow == "unsafe" and classes:
        raise ArgumentError("legacy.read", "classes", "left out with allow='unsafe', which ignores nothing", "some")
    for name, policy in classes.items():
        if policy not in ("stateless", "stateful") and not callable(policy):
            raise ArgumentError(
                "legacy.read", f"classes[{name!r}]", "'stateless', 'stateful' or a function", shown(policy)
            )


def _examined(data: bytes) -> tuple[Pickle | None, Any, list[Item]]:
    """The contents of a pickle, its value, and its calls."""
    if not data or (data[0] != 0x80 and data[0] not in _FIRST):
        return None, None, []
    machine = Machine(data)
    content, reason = None, ""
    try:
        content = machine.run()
    except Refused as error:
        if data[0] != 0x80 and not machine.called:
            return None, None, []
        reason = str(error)
    return Pickle(machine.protocol, tuple(machine.names), reason), content, machine.items


def described(known: Pickle, where: str) -> str:
    """A sentence about a pickle."""
    names = ", ".join(known.names[:10]) + (", ..." if len(known.names) > 10 else "")
    return f"{where} is a pickle of protocol {known.protocol}, which refers to {names or 'no names'}."


def _refusal(known: Pickle, where: str, reason: str) -> StateError:
    return StateError(f"{described(known, where)} It is refused: {reason}. Nothing of it has been run.")


def _decoded(item: Item, place: str, classes: Mapping[str, Policy], ignored: list[str]) -> Any:
    """The replacement of an object, by the policy for its class."""
    name = item.name
    policy = classes.get(name)
    if policy is None:
        raise Refused(f"{place} is made by {name}, for which classes= has no policy")
    if policy == "stateless":
        ignored.append(f"{place}, of the class {name}, was ignored, as such objects are said to have no state.")
        return None
    if policy == "stateful":
        if not item.has_state or item.items or item.arguments:
            raise Refused(f"{place}, of the class {name}, is more or less than its state")
        return item.state
    return policy(Pickled(name, item.arguments, item.state, item.has_state, item.items))


def _unpickled(source: str | os.PathLike[str] | bytes, where: str) -> Any:
    if os.environ.get(_SWITCH) != "1":
        raise StateError(
            f"{where} is not unpickled: allow='unsafe' needs {_SWITCH}=1 in the environment as well. "
            "Whoever wrote it could run any code."
        )
    warnings.warn(f"{where} is unpickled, which runs whatever its author wanted.", StateWarning, stacklevel=3)
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return pickle.loads(data)  # noqa: S301 - asked for twice
