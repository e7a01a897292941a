"""Where random numbers come from: a stream with a place (`RNG`), or a pure function of samples (`Keyed`).

Both answer one question, `draw(n)`: where do the words of the next random operator lie, for n samples? Everything
random in this library asks it once for each call, so one call advances a stream by the same 7 words whatever it draws.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import operator
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

import numpy

from dynamic._base import clock, places
from dynamic._base.locks import new_lock
from dynamic._base.state import State, untold
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, StateError, shown

from ._philox import Draw, sample_steps, words

__all__ = ["RNG", "Keyed", "Source", "Turn", "get_default_rng", "keyed_only", "lent_default", "set_seed", "source"]

_ALGORITHM = "philox4x32-10"
_FORM = re.compile(r"Philox_([0-9A-Fa-f]{16})_([0-9A-Fa-f]{16}):([0-9A-Fa-f]{16})_([0-3])")
_MASK64 = (1 << 64) - 1
_PERIOD = 1 << 130  # words of a key's stream
_PER_CALL = 7  # words that a random operator takes: 28 bytes, 25 of which are the key, counter and phase that it uses
_AHEAD = 256  # words computed at once; not part of the state, as they can be computed again

_lock = new_lock()  # guards the place of every stream, for an instant each
_numbers = itertools.count(1)  # of streams, in the order in which they were made, and of steps
_step: ContextVar[int] = ContextVar("dynamic.step", default=0)  # the number of the step under way


class RNG:
    """A stream of random numbers whose whole state is a key and a counter.

    The generator is Philox4x32-10, and every draw is DALI's: the same seed gives the same numbers, and states move both
    ways. A random operator takes 7 words, however many numbers it makes. Several threads may draw from one stream; each
    word goes to one of them.

    Args:
        seed: The key, an integer in [0, 2**64). By default the operating system chooses; the attribute `seed` tells it.
        state: Continue from here instead: a state of `get_state`, or DALI's text for one.

    Raises:
        ArgumentError: The seed is no such integer, or both arguments are given.
        StateError: The state is none.

    Two streams are equal only if they are the same object; compare their `state`.

    >>> rng = ndd.random.RNG(seed=1234)
    >>> rng(), rng.state
    (546353992, 'Philox_00000000000004D2_0000000000000000:0000000000000000_1')
    """

    __slots__ = ("__weakref__", "_at", "_number", "_window")

    def __init__(self, seed: int | None = None, state: State | str | None = None) -> None:
        self._number = next(_numbers)
        self._window: tuple[int, int, list[int]] = (-1, 0, [])  # key, place and words that were computed ahead
        if state is not None:
            if seed is not None:
                hint = "The key of a state is its seed."
                raise ArgumentError("RNG", "seed", "None where a state is given", shown(seed), hint)
            self._at = _parsed(state)
        else:
            self._at = _random_seed() if seed is None else _checked_seed("RNG", seed), 0

    @property
    def seed(self) -> int:
        """The seed, 0 to 2**64 - 1: the key of the generator, and in every state. Set it to start a stream anew."""
        return self._here[0]

    @seed.setter
    def seed(self, value: int) -> None:
        self._go_to(_checked_seed("RNG.seed", value), 0)

    def __call__(self) -> int:
        """Take the next word, an integer in [0, 2**32)."""
        _refuse_older("RNG", self)
        return self._take(1)[1][0]

    def advance(self, n: int) -> None:
        """Pass over n words, in no time.

        Args:
            n: The number of words, 0 or more, of any size.

        Raises:
            ArgumentError: This is no such number.

        >>> a, b = ndd.random.RNG(5), ndd.random.RNG(5)
        >>> a.advance(2); _ = b(), b()
        >>> a() == b()
        True
        """
        try:
            count = -1 if isinstance(n, bool) else operator.index(n)
        except TypeError:
            count = -1
        if count < 0:
            raise ArgumentError("RNG.advance", "n", "an integer of 0 or more", shown(n))
        with _lock:
            key, place = self._here
            _at.__set__(self, (key, (place + count) % _PERIOD))

    def clone(self) -> RNG:
        """Make an independent stream that continues from here.

        >>> a = ndd.random.RNG(5)
        >>> b = a.clone()
        >>> a() == b()
        True
        """
        return RNG(state=self.state)

    def keyed(self, samples: Any, epoch: int | None = None) -> Keyed:
        """Make draws that belong to samples: the same in any batch, and whatever was drawn before.

        Args:
            samples: A Batch or Tensor from a reader, or the ids of samples: a sequence or array of integers in
                [0, 2**64), or one such integer for a single sample.
            epoch: Number of the epoch; by default the reader's, and 0 for ids.

        Returns:
            A value for `rng=` of a random operator. Every draw from it is a pure function of the seed, the epoch, the
            id, the number of the draw (or its name, with ``keyed["angle"]``) and the element.

        Raises:
            ArgumentError: The batch came from no reader, or the ids are no integers in [0, 2**64).

        >>> ids = [7, 3]
        >>> one = ndd.random.uniform(rng=ndd.random.RNG(5).keyed(ids)["angle"])
        >>> two = ndd.random.uniform(rng=ndd.random.RNG(5).keyed(ids[::-1])["angle"])
        >>> one.tolist() == two.tolist()[::-1]
        True
        """
        origin = getattr(samples, "origin", None)
        if origin is None and isinstance(samples, (Batch, Tensor)):
            hint = "Its samples came from no reader; pass their ids instead: rng.keyed([17, 4])."
            got = f"a {type(samples).__name__} without one"
            raise ArgumentError("RNG.keyed", "samples", "a Batch that knows its origin, or ids", got, hint)
        if epoch is None:
            epoch = origin.epoch if origin is not None else 0
        if isinstance(epoch, bool) or not isinstance(epoch, (int, numpy.integer)) or not 0 <= epoch <= _MASK64:
            raise ArgumentError("RNG.keyed", "epoch", "an integer in [0, 2**64)", shown(epoch))
        if origin is not None:
            ids = numpy.asarray(origin.ids, numpy.uint64)
            return Keyed(self.seed, int(epoch), ids, single=isinstance(samples, Tensor))
        ids = _checked_ids(samples)
        return Keyed(self.seed, int(epoch), ids.reshape(-1), single=not ids.ndim)

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The place as a text of DALI: key, upper and lower half of the counter, and the word in its block."""
        key, place = self._here
        counter, word = divmod(place, 4)
        return f"Philox_{key:016X}_{counter >> 64:016X}:{counter & _MASK64:016X}_{word}"

    @state.setter
    def state(self, state: State | str) -> None:
        self.set_state(state)

    def get_state(self) -> State:
        """Return the place as JSON values, with the seed.

        >>> ndd.random.RNG(seed=1).get_state()["state"]
        'Philox_0000000000000001_0000000000000000:0000000000000000_0'
        """
        return {"algorithm": _ALGORITHM, "state": self.state}

    def set_state(self, state: State | str, /) -> None:
        """Go on from a place.

        Args:
            state: A result of `get_state`, here or in DALI, or the text of `state`.

        Raises:
            StateError: This is no state; the stream stays where it was.

        >>> rng = ndd.random.RNG(seed=1)
        >>> state, word = rng.get_state(), rng()
        >>> rng.set_state(state)
        >>> rng() == word
        True
        """
        self._go_to(*_parsed(state))

    def state_dict(self) -> State:
        """Return the place as JSON values, as `get_state`: the name of PyTorch."""
        return self.get_state()

    def load_state_dict(self, state_dict: State) -> None:
        """Go on from a place, as `set_state`: the name of PyTorch."""
        self.set_state(state_dict)

    def __repr__(self) -> str:
        return f"RNG(state={self.state!r})"

    def __reduce__(self) -> tuple[type[RNG], tuple[None, str]]:
        return RNG, (None, self.state)

    # -- words ----------------------------------------------------------------------------------------------------

    def draw(self, n: int | None) -> Draw:
        """Take the place of the words of one random operator on n samples (None: one). The stream moves by 7 words."""
        steps = sample_steps(1 if n is None else n)
        counters = numpy.empty_like(steps)  # before words are taken: there may be no memory for so many
        turn, (a, b, c, d, e, f, g) = self._take(_PER_CALL)
        numpy.add(steps, numpy.uint64(e | f << 32), out=counters)
        return Draw(a | b << 32, c | d << 32, counters, g & 3, turn)

    @property
    def turn(self) -> tuple[int, int]:
        """The key of the next draw, to be given back."""
        return self._here

    def give_back(self, turn: Any) -> None:
        """Go back to before a draw, unless others have drawn since."""
        key, place = turn
        with _lock:
            if self._here == (key, (place + _PER_CALL) % _PERIOD):
                _at.__set__(self, (key, place))

    def _take(self, count: int) -> tuple[tuple[int, int], list[int]]:
        """The key and the place so far, and the next words."""
        with _lock:
            if places.makers:
                key, place = self._here
                _at.__set__(self, (key, (place + count) % _PERIOD))
            else:
                key, place = self._at
                self._at = key, (place + count) % _PERIOD
        known_key, start, known = self._window
        skip = place - start
        if known_key != key or not 0 <= skip <= len(known) - count:
            skip, start = place % 4, place - place % 4
            known = words(key, start, _AHEAD)
            self._window = (key, start, known)
        return (key, place), known[skip : skip + count]

    def _go_to(self, key: int, place: int) -> None:
        with _lock:
            _at.__set__(self, (key, place))

    @property
    def _here(self) -> tuple[int, int]:
        """The key, and the number of words that were drawn, as this thread sees them."""
        return _at.__get__(self) if places.makers else self._at


_at = places.Shadowed[tuple[int, int]](vars(RNG)["_at"])


class Keyed:
    """Draws that are a pure function of samples: made by `RNG.keyed`, taken by ``rng=`` of random operators.

    Each call of a random operator is a new draw, numbered from 0. ``keyed["angle"]`` names a draw, so others may be
    added or left out without a change to it. ``batch_size=`` is not needed: the samples are known.

    >>> keyed = ndd.random.RNG(seed=5).keyed([17, 4, 9])
    >>> len(ndd.random.coin_flip(rng=keyed["mirror"]))
    3
    """

    __slots__ = ("__weakref__", "_epoch", "_ids", "_next", "_path", "_seed", "_single")

    def __init__(self, seed: int, epoch: int, ids: Any, path: bytes = b"", *, single: bool = False) -> None:
        self._seed, self._epoch, self._ids, self._path, self._single = seed, epoch, ids, path, single
        self._next = 0

    @property
    def batch_size(self) -> int | None:
        """The number of samples; None for a single sample that is no batch."""
        return None if self._single else len(self._ids)

    @property
    def epoch(self) -> int:
        """The epoch of the draws."""
        return self._epoch

    def take(self, places: Any) -> Keyed:
        """Make the draws of some of the samples, equal to those among all.

        Args:
            places: Their places in the batch: an index of NumPy.
        """
        found = Keyed(self._seed, self._epoch, self._ids[places], self._path)
        found._next = self._next
        return found

    def __getitem__(self, name: str) -> Keyed:
        """The draws of a name, numbered from 0 again; the same name always means the same draws."""
        if not isinstance(name, str):
            raise ArgumentError("Keyed", "name", "a string", shown(name))
        text = name.encode("utf-8", "surrogatepass")
        path = self._path + len(text).to_bytes(8, "little") + text
        return Keyed(self._seed, self._epoch, self._ids, path, single=self._single)

    __iter__ = None  # or Python would try names 0, 1, 2, ...

    def draw(self, n: int | None) -> Draw:  # noqa: ARG002 - as of `RNG`
        """Take the place of the words of the next random operator; n is `batch_size`."""
        counters = numpy.empty_like(self._ids)  # before a number is taken, as of `RNG`
        with _lock:
            if places.makers:
                ordinal = self.turn
                _number.__set__(self, ordinal + 1)
            else:
                ordinal = self._next
                self._next = ordinal + 1
        message = b"".join(x.to_bytes(8, "little") for x in (self._seed, self._epoch, ordinal)) + self._path
        digest = hashlib.blake2b(message, digest_size=24, person=b"dynamic.keyed").digest()
        key, low, high = (int.from_bytes(digest[i : i + 8], "little") for i in (0, 8, 16))
        numpy.add(self._ids, numpy.uint64(high), out=counters)
        return Draw(key, low, counters, 0, ordinal)

    @property
    def turn(self) -> int:
        """The key of the next draw, to be given back."""
        return _number.__get__(self) if places.makers else self._next

    def give_back(self, turn: Any) -> None:
        """Let the next draw be this one again, unless others have drawn since."""
        with _lock:
            if self.turn == turn + 1:
                _number.__set__(self, turn)

    def __repr__(self) -> str:
        return f"<{len(self._ids)} keyed samples, seed={self._seed}, epoch={self._epoch}>"


_number = places.Shadowed[int](vars(Keyed)["_next"])


#: The type of ``rng=``. None is this thread's default.
Source: TypeAlias = RNG | Keyed


def source(operator_name: str, rng: Any) -> Source:
    """The source of random numbers that an argument ``rng=`` means."""
    if rng is None:
        return get_default_rng()
    if not isinstance(rng, (RNG, Keyed)):
        hint = "Make one with dynamic.random.RNG(seed)."
        raise ArgumentError(operator_name, "rng", "an RNG, or the draws of RNG.keyed", shown(rng), hint)
    _refuse_older(operator_name, rng)
    return rng


@contextlib.contextmanager
def keyed_only() -> Iterator[None]:
    """Refuse draws from streams that are older than this block: a step of a loader, whose state does not hold them.

    A copy in each worker would repeat the numbers of the others, and of the last epoch.
    """
    token = _step.set(next(_numbers))
    try:
        yield
    finally:
        _step.reset(token)


def _refuse_older(operator_name: str, rng: Source) -> None:
    if isinstance(rng, RNG) and rng._number < _step.get() and rng is not _default.rng:
        expected = 'rng.keyed(jpegs)["name"] in the step of a loader, by a batch of its reader'
        hint = "Workers and epochs would repeat the numbers of a stream, and no state of the loader holds its place."
        raise ArgumentError(operator_name, "rng", expected, "a stream that was made before the step", hint)


class Turn:
    """The source of one call of a random operator, as a context: after an error it stands where it did before."""

    __slots__ = ("_call", "_draw", "rng")

    def __init__(self, operator_name: str, rng: Any) -> None:
        self._call = clock.begin(operator_name) if clock.watching else None
        self.rng = source(operator_name, rng)
        self._draw: Draw | None = None

    @property
    def sizes(self) -> dict[str, int | None]:
        """The number of samples by the name of the argument, where the source is keyed; None: one sample."""
        return {"rng": self.rng.batch_size} if isinstance(self.rng, Keyed) else {}

    def draw(self, n: int | None) -> Draw:
        """Where the words of the call lie, for n samples (None: one). Here the source moves on."""
        self._draw = self.rng.draw(n)
        return self._draw

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._draw is not None:
            self.rng.give_back(self._draw.turn)
        if self._call is not None:
            clock.end(self._call)


class Repeated:
    """The source of another call that draws the numbers of one that was made."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @property
    def sizes(self) -> dict[str, int | None]:
        """As of the turn."""
        return self._turn.sizes

    def draw(self, n: int | None) -> Draw:
        """Where the words of the call lie; n is that of the first one."""
        assert self._turn._draw is not None, "repeats a call that has drawn"
        assert n is None or n == len(self._turn._draw.high), "is of as many samples"
        return self._turn._draw


class _Default(threading.local):
    rng: RNG | None = None
    random_key: int | None = None  # the seed that the system gave it
    forks = 0  # of this thread since its seed was set
    of_program = False  # whether a program that begins anew in each child has set the seed


_default = _Default()


def get_default_rng() -> RNG:
    """Return the default stream of this thread, for random operators without `rng`. Its first seed is random.

    >>> ndd.random.get_default_rng() is ndd.random.get_default_rng()
    True
    """
    if _default.rng is None:
        _default.rng = RNG()
        _default.random_key = _default.rng.seed
    if _default.of_program:
        _default.of_program = False
        _default.rng._go_to(*_of_child(_default.rng, getattr(_process(), "_identity", ())))
    return _default.rng


def lent_default() -> Callable[[], None]:
    """A function that makes the default stream of this thread that of another one, where it is called there."""
    rng, random_key = get_default_rng(), _default.random_key

    def borrow() -> None:
        _default.rng, _default.random_key = rng, random_key

    return borrow


def set_seed(seed: int) -> None:
    """Start this thread's default stream anew from a seed. Other threads keep theirs.

    A process that is forked later has a stream of its own, by the seed and the number of the fork. So has a spawned
    one, if its program sets the seed as it begins. Workers of a loader draw different numbers, also in later epochs,
    and the next run draws the same.

    Args:
        seed: An integer in [0, 2**64).

    Raises:
        ArgumentError: The seed is no such integer.

    >>> ndd.random.set_seed(5)
    >>> ndd.random.get_default_rng().seed
    5
    """
    get_default_rng()._go_to(_checked_seed("set_seed", seed), 0)
    _default.forks = 0
    _default.of_program = getattr(_process(), "_inheriting", False)  # as long as the program is imported there


def _process() -> Any:
    """This process, as multiprocessing knows it, which need not be imported here: it is in each child of its own."""
    known = sys.modules.get("multiprocessing.process")
    return None if known is None else known.current_process()


def _before_fork() -> None:
    _default.forks += 1


def _after_fork() -> None:
    """A child repeats the draws neither of its parent nor of other children; by a seed, if its parent has one."""
    if _default.rng is None:
        return
    if _default.rng.seed == _default.random_key:
        _default.random_key = _random_seed()
        _default.rng._go_to(_default.random_key, 0)
    else:
        _default.rng._go_to(*_of_child(_default.rng, (_default.forks,)))
    _default.forks = 0


def _of_child(rng: RNG, numbers: Sequence[int]) -> tuple[int, int]:
    """Key and place of the stream of a child process, which is told from others by numbers."""
    text = f"{rng.state} {' '.join(map(str, numbers))}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"dynamic.child").digest()
    return int.from_bytes(digest, "little"), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _random_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _checked_seed(function: str, seed: Any) -> int:
    expected = "an integer in [0, 2**64)"
    try:
        value = operator.index(seed)
    except TypeError:
        raise ArgumentError(function, "seed", expected, shown(seed)) from None
    if isinstance(seed, bool):
        raise ArgumentError(function, "seed", expected, shown(seed))
    if not 0 <= value <= _MASK64:
        raise ArgumentError(function, "seed", expected, shown(seed), f"DALI would take {value & _MASK64} for it.")
    return value


def _checked_ids(samples: Any) -> Any:
    """Ids as a uint64 array, which has no dimension for one id."""
    expected = "a Batch from a reader, or ids: integers in [0, 2**64)"
    if isinstance(samples, Iterable) and not hasattr(samples, "__array__") and not hasattr(samples, "__dlpack__"):
        samples = samples if isinstance(samples, (str, bytes)) else list(samples)
    try:
        ids = numpy.asarray(samples)
        if ids.dtype == object or ids.dtype.kind == "f":  # lists that mix integers above and below 2**63
            ids = numpy.array(
                [operator.index(i) for i in samples] if ids.ndim else operator.index(samples), numpy.uint64
            )
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError("RNG.keyed", "samples", expected, shown(samples)) from None
    if not ids.size and ids.ndim == 1:
        ids = ids.astype(numpy.uint64)
    if ids.dtype.kind not in "iu" or ids.ndim > 1 or (ids.dtype.kind == "i" and ids.size and ids.min() < 0):
        raise ArgumentError("RNG.keyed", "samples", expected, shown(samples))
    return ids.astype(numpy.uint64)


def _parsed(state: Any) -> tuple[int, int]:
    """Key and place of a state."""
    text = state = untold(state)
    if isinstance(state, dict):
        if set(state) != {"algorithm", "state"}:
            raise StateError(
                f"An RNG's state has the entries 'algorithm' and 'state'; this one has {sorted(map(str, state))}."
            )
        if state["algorithm"] != _ALGORITHM:
            raise StateError(f"This state is of the generator {shown(state['algorithm'])}; an RNG is {_ALGORITHM!r}.")
        text = state["state"]
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        form = "Philox_<16 hex digits>_<16 hex digits>:<16 hex digits>_<0 to 3>"
        raise StateError(f"An RNG's state has the form {form}; got {shown(text)}.")
    key, high, low = (int(part, 16) for part in match.groups()[:3])
    return key, (high << 64 | low) * 4 + int(match[4])
