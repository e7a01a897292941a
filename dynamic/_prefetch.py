"""Loops that are made ahead by a thread, with the places of the batch taken last."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar, overload

from ._base.ahead import Ahead
from ._base.locks import new_lock
from ._base.places import Making, Move, give, standing
from .errors import ArgumentError, shown
from .random._rng import lent_default
from .readers._checks import natural

__all__ = ["Prefetch", "prefetch"]

_STATES = ("state_dict", "get_state")  # of loaders, and of data sets in loaders of torch
X = TypeVar("X")
Y = TypeVar("Y")


class _Made(NamedTuple):
    """A batch, or an error in its place, with the places after it."""

    batch: Any
    error: BaseException | None
    moves: list[Move]


class Prefetch(Generic[Y]):
    """A loop that is made ahead: made by `prefetch`. Each `iter` begins a pass over the iterable, with its thread."""

    def __init__(self, iterable: Iterable[Any], step: Callable[[Any], Y] | None, depth: int) -> None:
        self._iterable, self._step, self._depth = iterable, step, depth

    def __iter__(self) -> Iterator[Y]:
        return _Pass(self._iterable, self._step, self._depth)

    def __len__(self) -> int:
        """As of the iterable: of an epoch of a reader how many batches have not been taken."""
        return len(self._iterable)  # type: ignore[arg-type] # a TypeError of its own where it has none

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<prefetch of {self._iterable!r}>"


@overload
def prefetch(iterable: Iterable[X], step: None = None, depth: int = 2) -> Prefetch[X]: ...
@overload
def prefetch(iterable: Iterable[X], step: Callable[[X], Y], depth: int = 2) -> Prefetch[Y]: ...
def prefetch(iterable: Any, step: Any = None, depth: int = 2) -> Prefetch[Any]:
    """Make the batches of a loop ahead, in a thread, while the batch before them is used.

    Readers, sources and RNGs stand where the batch taken last left them, whatever is made ahead: states that are saved
    in the loop are those of a loop without `prefetch`, and so are batches and draws. A loop that is left early, by a
    ``break``, an error or a Ctrl-C, loses none: the next one has the batches that were not taken. An error comes where
    its batch would have come, and ends the loop.

    Args:
        iterable: Batches: an epoch of a reader, a generator, a `zip` of several, a loader. It is iterated in the
            thread. Pipelines make their batches ahead by themselves.
        step: A function of a batch, for decoding, cropping and the like, which gives the batch to take. It is called in
            the thread. Its default RNG is that of the thread that takes the batches.
        depth: How many batches may wait; one more is being made.

    Returns:
        An iterable, whose thread ends with the loop over it.

    Raises:
        ArgumentError: An argument is wrong; or the iterable has a state of its own, which would run ahead.
        RuntimeError: In the loop, a reader or RNG that is used in the thread as well was moved. Looking at it is fine.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in "abcde":
    ...     _ = (root / name).write_bytes(name.encode())
    >>> reader = ndd.readers.File(files=list("abcde"), file_root=root)
    >>> def step(batch):
    ...     files, labels = batch
    ...     return labels + 1
    >>> for labels in ndd.prefetch(reader.next_epoch(2), step):
    ...     print(labels.tolist(), reader.position)
    [[1], [2]] 2
    [[3], [4]] 4
    [[5]] 0
    """
    if not isinstance(iterable, Iterable):
        hint = "Readers give one by next_epoch(batch_size)."
        raise ArgumentError("prefetch", "iterable", "an iterable of batches", shown(iterable), hint)
    if any(hasattr(each, name) for each in (iterable, getattr(iterable, "dataset", None)) for name in _STATES):
        hint = "Iterate it without prefetch(), or a loop over its readers."
        raise ArgumentError(
            "prefetch", "iterable", "one without a state of its own, which would run ahead", shown(iterable), hint
        )
    if step is not None and not callable(step):
        raise ArgumentError("prefetch", "step", "a function of a batch, or None", shown(step))
    return Prefetch(iterable, step, natural("prefetch", "depth", depth, 1))


class _Maker:
    """Makes the batches of a pass, one for each call; after an error no more."""

    def __init__(self, iterable: Iterable[Any], step: Callable[[Any], Any] | None, making: Making) -> None:
        self._iterable, self._step, self._making = iterable, step, making
        self._borrow_default = lent_default()
        self._iterator: Iterator[Any] | None = None
        self._over = False

    def __call__(self) -> _Made:
        if self._over:
            raise StopIteration
        batch, error = None, None
        try:
            if self._iterator is None:
                self._borrow_default()
                self._iterator = iter(self._iterable)
            batch = next(self._iterator)
            if self._step is not None:
                batch = self._stepped(self._step, batch)
        except BaseException as caught:  # noqa: BLE001 - raised where the batch is taken
            error, self._over = caught, True
        return _Made(batch, error, self._making.moves())

    @staticmethod
    def _stepped(step: Callable[[Any], Any], batch: Any) -> Any:
        try:
            return step(batch)
        except StopIteration as end:  # it would end the loop as if there were no more batches
            raise RuntimeError("prefetch(): the step raised StopIteration") from end


class _Pass(Iterator[Y]):
    """One pass over an iterable."""

    def __init__(self, iterable: Iterable[Any], step: Callable[[Any], Y] | None, depth: int) -> None:
        making = Making()
        maker = _Maker(iterable, step, making)
        self._ahead = ahead = Ahead(maker, depth, "prefetch", making.run)
        self._closing = weakref.finalize(self, _end, making, ahead)
        self._making, self._taking = making, new_lock()
        self._last: _Made | None = None  # the error that ends it, until that is raised
        self._over = False
        ahead.start()

    def __next__(self) -> Y:
        if self._over:
            raise StopIteration
        made = self._taken()
        if made.error is None:
            batch: Y = made.batch
            return batch
        error = made.error
        self.close()
        self._over, self._last = True, None
        try:
            raise error
        finally:
            del error, made  # their frames would keep each other

    def _taken(self) -> _Made:
        """The next batch, or the error that ends the loop, with its places: both, or neither if this is interrupted."""
        made = before = None
        try:
            with self._taking:
                if self._last is not None:
                    return self._last
                if self._over:
                    raise StopIteration
                made = self._ahead.peek()
                before = standing(made.moves)
                give(made.moves)
                if made.error is None:
                    self._ahead.take()
                else:
                    self._last = made
        except BaseException:
            if made is not None and before is not None:
                self._last = None
                give(before)
                self._ahead.put_back(made)
            raise
        return made

    def close(self) -> None:
        """Leave the loop: the thread ends, once the batch that is under way is made."""
        _end(self._making, self._ahead)


def _end(making: Making, ahead: Ahead[_Made]) -> None:
    making.over = True
    ahead.close()
