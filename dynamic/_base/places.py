"""Places while batches are made ahead: their maker sees places move on, everybody else those of the batch taken last.

Readers and RNGs keep their place in an attribute that is `Shadowed`. While a `Making` is under way, moves of its thread
are kept in it, batch by batch. Whoever takes a batch takes the moves that belong to it. So a loop that is left early
has nothing to undo.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, overload

from .locks import new_lock

__all__ = ["Making", "Move", "Shadowed", "give", "is_ahead", "standing"]

P = TypeVar("P")

#: Those that are under way. While there are none, places are plain attributes.
makers: tuple[Making, ...] = ()
_current: ContextVar[Making | None] = ContextVar("dynamic.making", default=None)
_lock = new_lock()
_NOWHERE = object()


class _Slot(Protocol):
    """The descriptor of a slot."""

    __get__: Callable[..., Any]
    __set__: Callable[[Any, Any], None]


class Move(NamedTuple):
    """The place of an object after a batch."""

    attribute: Shadowed[Any]
    thing: Any
    place: Any


class Shadowed(Generic[P]):
    """An attribute whose value is a place: one value, replaced as a whole.

    Args:
        slot: Of a class with slots, the one that holds the place. By default the `__dict__` of the object holds it.
    """

    def __init__(self, slot: Any = None) -> None:
        self._slot: _Slot | None = slot
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, thing: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, thing: object, owner: type | None = None) -> P: ...
    def __get__(self, thing: Any, owner: type | None = None) -> P | Self:
        if thing is None:
            return self
        making = _current.get() if makers else None
        while making is not None:
            place: P = making.places.get(thing, _NOWHERE)
            if place is not _NOWHERE:
                return place
            making = making.outer
        return self.own(thing)

    def __set__(self, thing: object, place: P) -> None:
        if makers:
            here = _current.get()
            for making in makers:
                if not making.over and thing in making.places and not making.is_around(here):
                    raise RuntimeError(
                        f"{thing!r} is used ahead by a loop of prefetch() that is under way, and cannot move here "
                        "meanwhile: its place would depend on chance. Use another one here, or end that loop first."
                    )
        self.stand(thing, place)

    def own(self, thing: object) -> P:
        """The place after the batch taken last, for whoever is no maker."""
        place: P = vars(thing)[self._name] if self._slot is None else self._slot.__get__(thing)
        return place

    def stand(self, thing: object, place: P) -> None:
        """Let an object have a place, as this thread sees it, whoever uses the object."""
        here = _current.get() if makers else None
        if here is not None and (self._slot is not None or self._name in vars(thing)):  # else it is being made
            here.note(Move(self, thing, place))
        else:
            self.put(thing, place)

    def put(self, thing: object, place: P) -> None:
        """Set the object's own place."""
        if self._slot is None:
            vars(thing)[self._name] = place
        else:
            self._slot.__set__(thing, place)


class Making:
    """The moves of a thread that makes batches ahead.

    Attributes:
        outer: That of the thread that takes the batches, where it is a maker too.
        places: The places that objects have here.
        context: The thread runs in it: a copy of that of whoever made this.
        over: Whether its objects are everybody's again. Moves of a thread that is still at work are nobody's then.
    """

    def __init__(self) -> None:
        self.outer = _current.get()
        self.places: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.over = False
        self.context = copy_context()
        self.context.run(_current.set, self)
        self._attributes: weakref.WeakKeyDictionary[Any, Shadowed[Any]] = weakref.WeakKeyDictionary()
        self._moves: dict[int, Move] = {}

    def run(self, work: Callable[[], None]) -> None:
        """Make batches in this thread."""
        global makers
        with _lock:
            makers = (*makers, self)
        try:
            self.context.run(work)
        finally:
            with _lock:
                makers = tuple(making for making in makers if making is not self)

    def note(self, move: Move) -> None:
        """Let an object have a place here."""
        self.places[move.thing], self._attributes[move.thing] = move.place, move.attribute
        self._moves[id(move.thing)] = move

    def moves(self) -> list[Move]:
        """Those since this was asked last."""
        moves, self._moves = self._moves, {}
        return list(moves.values())

    def is_around(self, inner: Making | None) -> bool:
        """Whether another one is this, or takes part in making this one's batches."""
        while inner is not None and inner is not self:
            inner = inner.outer
        return inner is self

    def settle(self) -> None:
        """Let objects stand where they are here."""
        for thing, place in self.places.items():
            self._attributes[thing].put(thing, place)


def is_ahead() -> bool:
    """Whether this thread makes batches ahead."""
    return _current.get() is not None


def standing(moves: Sequence[Move]) -> list[Move]:
    """The places that objects have here before they are moved."""
    return [move._replace(place=move.attribute.__get__(move.thing)) for move in moves]


def give(moves: Sequence[Move]) -> None:
    """Let objects have the places of a batch that is taken here."""
    for attribute, thing, place in moves:
        attribute.stand(thing, place)


def _forked() -> None:
    """In a child nobody makes anything ahead. It goes on from where the thread stood that has forked."""
    global makers
    here, makers = _current.get(), ()
    chain = []
    while here is not None:
        chain.append(here)
        here = here.outer
    for making in reversed(chain):
        making.settle()
    _current.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
