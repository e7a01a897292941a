"""Samples that a user's own function or iterable makes."""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, TypeAlias

import numpy

from dynamic._arrays.array import only_numbers
from dynamic._base import clock
from dynamic._base.locks import new_lock
from dynamic._base.origin import Origin
from dynamic._base.places import Shadowed
from dynamic._base.state import MOST_COUNTED, State, untold
from dynamic.data import Batch, Tensor, as_batch, as_tensor, batch, is_batch, tensor
from dynamic.data._transfer import copies
from dynamic.devices import DeviceLike
from dynamic.dtypes import DTypeLike
from dynamic.dtypes import dtype as dtype_of
from dynamic.errors import ArgumentError, StateError, StateMismatch, StateWarning, shown
from dynamic.types import BatchInfo, SampleInfo

from ._answers import Answers
from ._checks import flag, natural

__all__ = ["ExternalSource"]

Kind: TypeAlias = Literal["sample", "batch", "index", "call", "iterable"]
#: Kinds of sources that are called with a place, and so can be called with it again.
_COUNTED = ("sample", "batch", "index")
_VERSION = 1
_STATE = {
    "version": int,
    "source": str,
    "resumable": bool,
    "epoch": int,
    "iteration": int,
    "sample": int,
    "batch_size": int,
}
_CYCLES = {None: None, "no": "no", False: "no", "quiet": "quiet", True: "quiet", "raise": "raise"}

Output: TypeAlias = "Tensor | Batch"


class Place(NamedTuple):
    """All that a call changes, but for the source itself."""

    epoch: int = 0
    iteration: int = 0
    sample: int = 0
    batch_size: int = 0
    expected: int = 0  #: the batch size of a state that counts batches, until it is gone on from
    ended: bool = False  #: for good


class ExternalSource:
    """Reads from a function or an iterable of yours, sample by sample or batch by batch.

    A function that takes its place resumes exactly:

    - with ``batch=False`` it gets a `SampleInfo` for each sample. The state counts samples: the batch size may change,
      and draws can be keyed to samples;
    - else it makes whole batches. It gets the number of the batch in the epoch, or with ``batch_info=True`` a
      `BatchInfo`. The state counts batches.

    StopIteration ends an epoch. An iterable, or a function without an argument, has no place: its state says so, and
    `set_state` warns that it goes on from its current place. After an error the next call gets the same items again.

    Args:
        source: A function of one argument, a function without, or an iterable. A generator function is an iterable that
            can be started again.
        num_outputs: The number of outputs of a call, a tuple or list; by default one output, in no tuple.
        cycle: The treatment of a source that has ended: with "no" (or False) it has ended for good, "quiet" (or True)
            goes on from the start, "raise" ends once and then goes on from the start. By default an iterable has ended
            for good; an iterator, and a function without arguments, are asked for more in the next epoch, which is
            empty unless they have some; and a source that is called with its place goes to its next epoch.
        name: A name to show.
        device: The device of the outputs: "cpu".
        layout: The layout of the samples, or a list with one for each output.
        dtype: Element type to convert to, or a list with one for each output.
        no_copy: Whether outputs may share memory with the data of the source, which then must not change. By default
            they are copies, and the source may use its memory again.
        batch: Whether the source makes batches (lists of samples, or arrays whose outermost dimension are the samples)
            or single samples, of which as many are taken as are asked for. By default functions of one argument make
            batches, and other data is one Tensor, unless it is a Batch.
        batch_info: Whether a function of one argument that makes batches gets a `BatchInfo` instead of a number.

    Raises:
        ArgumentError: This is no source, or it does not fit the other arguments.

    >>> def source(info):
    ...     if info.idx_in_epoch == 5:
    ...         raise StopIteration
    ...     return [info.idx_in_epoch, info.epoch_idx]
    >>> squares = ndd.ExternalSource(source, batch=False)
    >>> [batch.tolist() for batch in squares.next_epoch(batch_size=3)]
    [[[0, 0], [1, 0], [2, 0]], [[3, 0], [4, 0]]]
    """

    _operator: ClassVar[str] = "ExternalSource"
    _place = Shadowed[Place]()

    def __init__(
        self,
        source: Callable[..., Any] | Iterable[Any],
        num_outputs: int | None = 1,
        *,
        cycle: str | bool | None = None,
        name: str | None = None,
        device: DeviceLike = "cpu",
        layout: str | Sequence[str | None] | None = None,
        dtype: DTypeLike | Sequence[DTypeLike] = None,
        no_copy: bool | None = False,
        batch: bool | None = None,
        batch_info: bool | None = False,
        **others: Any,
    ) -> None:
        operator = self._operator
        for argument in others:
            raise _unknown(argument)
        self._source: Any = source
        outputs = natural(operator, "num_outputs", 1 if num_outputs is None else num_outputs, 1)
        self._outputs = outputs if outputs > 1 else None
        self._name, self._device, self._no_copy = name, device, flag(operator, "no_copy", no_copy)
        self._layouts = self._for_each_output("layout", layout)
        self._dtypes = [None if to is None else dtype_of(to) for to in self._for_each_output("dtype", dtype)]
        self._batch = None if batch is None else flag(operator, "batch", batch)
        self._kind: Kind = _kind(source, self._batch, batch_info=flag(operator, "batch_info", batch_info))
        if not isinstance(cycle, str | bool | None) or cycle not in _CYCLES:
            raise ArgumentError(operator, "cycle", "None, 'no', 'quiet' or 'raise'", shown(cycle))
        self._cycle = _CYCLES[cycle]
        if self._cycle == "quiet" and self._kind == "call":
            expected = "None, 'no' or 'raise' for a function without arguments, which ends when it says so"
            raise ArgumentError(operator, "cycle", expected, shown(cycle))
        passes = isinstance(source, Iterator) and type(source).__module__ in ("builtins", "itertools")
        if self._cycle in ("quiet", "raise") and passes:  # classes of users' own may begin again in __iter__
            hint = "Give a list, or a function that makes a generator: it is called for each epoch."
            raise ArgumentError(operator, "source", "a source that can start again, with cycle", shown(source), hint)
        self._place = self._here = Place()  # between calls, and in the midst of one
        self._asked_on = self._cycle is None and isinstance(source, Iterator)  # it decides whether it has more
        self._answers = None if self.resumable else Answers(self._begun, self._own, asked_on=self._asked_on)
        self._lock = new_lock()

    @property
    def epoch(self) -> int:
        """The epoch of the next sample, from 0 on."""
        return self._place.epoch

    @property
    def resumable(self) -> bool:
        """Whether a state has a place to go on from."""
        return self._kind in _COUNTED

    def __call__(self, batch_size: int | None = None) -> Any:
        """Take the next sample or batch from the source.

        Args:
            batch_size: Number of samples. A source of samples is asked for so many, and gives fewer at the end of an
                epoch. A source of batches must give so many; a single Tensor is repeated.

        Returns:
            A Batch, or without `batch_size` a Tensor from a source that makes no batches; with `num_outputs` a tuple.

        Raises:
            StopIteration: The source has ended the epoch.
            ArgumentError: It has made something else than it should.
            StateMismatch: It makes batches, and a state was taken with another `batch_size`.
        """
        size = None if batch_size is None else natural(self._operator, "batch_size", batch_size, 1)
        call = clock.begin(self._operator) if clock.watching else None
        before = after = None
        try:
            with self._lock:
                before = self._here = self._place
                if self._answers is not None:
                    self._answers.forget(type(self)._place.own(self).sample)
                try:
                    outputs = self._taken(size)
                except StopIteration:
                    self._place = self._here
                    raise
                after = self._place = self._here
            if call is not None:
                clock.end(call)
        except BaseException:
            if before is not None and self._place is after:  # a Ctrl-C as the lock was given back, and nobody went on
                self._place = before
            raise
        return outputs if self._outputs is not None else outputs[0]

    def _taken(self, size: int | None) -> tuple[Output, ...]:
        """The items of a call from the source."""
        if self._here.ended:
            raise StopIteration
        if size and self._here.expected not in (0, size):
            difference = f"batch_size: {self._here.expected} in the state, {size} here"
            raise StateMismatch(
                f"{self._operator}: {difference}. The place of a source of batches counts batches; let "
                "it make samples, with batch=False.",
                [difference],
            )
        one_by_one = self._kind == "sample" or (self._batch is False and size is not None)
        outputs = self._samples(size) if one_by_one else self._whole(size)
        self._here = self._here._replace(iteration=self._here.iteration + 1, expected=0)
        return outputs

    def next_epoch(self, batch_size: int | None = None) -> Iterator[Output | tuple[Output, ...]]:
        """Iterate until the source ends the epoch. The place belongs to the source: the next loop goes on there.

        Args:
            batch_size: Number of samples, as of a call.

        Yields:
            The outputs of a call.

        Raises:
            Exception: An error of a call. The next loop gets the same items again.
        """
        while True:
            try:
                outputs = self(batch_size)
            except StopIteration:
                return
            yield outputs

    def captured(self, batch_size: int, ctx: Any = None) -> Iterator[Output | tuple[Output, ...]]:  # noqa: ARG002
        """Iterate over an epoch, as `next_epoch`: a name of DALI. `ctx` makes no difference."""
        return self.next_epoch(natural(f"{self._operator}.captured", "batch_size", batch_size, 1))

    def _samples(self, size: int | None) -> tuple[Output, ...]:
        """Samples that are asked for one by one."""
        found: list[tuple[Any, ...]] = []
        first = self._here.sample
        while len(found) < (size or 1):
            try:
                found.append(self._next(len(found)))
            except StopIteration:
                break
        if not found:
            self._end()
        origin = None
        if self.resumable:
            ids = numpy.arange(first, first + len(found), dtype=numpy.uint64)
            origin = Origin(self._here.epoch, ids, [f"sample {i}" for i in ids])
            self._here = self._here._replace(sample=first + len(found))
        batches = []
        for i, samples in enumerate(zip(*found, strict=True)):
            made = self._made(i, list(samples), as_batch)
            batches.append(Batch(made.samples if made.whole is None else made.whole, made.layout, origin))
        return tuple(batches) if size is not None else tuple(made._sample(0) for made in batches)

    def _whole(self, size: int | None) -> tuple[Output, ...]:
        """The unit of the source's items."""
        try:
            outputs = self._next()
        except StopIteration:
            self._end()
        if self._batch is False:
            outputs = tuple(self._made(i, output, as_tensor) for i, output in enumerate(outputs))
        if size is not None:
            outputs = tuple(self._of_size(output, size) for output in outputs)
            self._here = self._here._replace(batch_size=size)
        return outputs

    def _next(self, index: int = 0) -> tuple[Any, ...]:
        """The next item of the source, the sample of an index in the batch where it makes samples."""
        if self._answers is not None:
            try:
                given = self._answers[self._here.sample]
            except StopIteration:
                if index and self._cycle != "quiet":
                    raise  # the samples before it come first, and then the end
                self._here = self._here._replace(sample=self._here.sample + 1)
                if self._cycle != "quiet":
                    raise
                self._here = self._here._replace(epoch=self._here.epoch + 1, iteration=0)
                given = self._answers[self._here.sample]
            self._here = self._here._replace(sample=self._here.sample + 1)
            return given
        here = self._here
        place: Any = here.iteration
        if self._kind == "sample":
            place = SampleInfo(here.sample + index, index, here.iteration, here.epoch)
        elif self._kind == "batch":
            place = BatchInfo(here.iteration, here.epoch)
        return self._own(self._source(place))

    def _begun(self) -> Iterator[Any]:
        """An iterator from the start of an iterable source."""
        if self._kind == "call":
            return itertools.starmap(self._source, itertools.repeat(()))
        return iter(self._source() if _makes_generators(self._source) else self._source)

    def _end(self) -> NoReturn:
        """End the epoch, or for good."""
        here = self._here
        if self._cycle == "no" or (self._cycle is None and self._kind == "iterable" and not self._asked_on):
            self._here = here._replace(ended=True)
        else:
            self._here = here._replace(epoch=here.epoch + 1, iteration=0, sample=0 if self.resumable else here.sample)
        raise StopIteration

    def _own(self, given: Any) -> tuple[Any, ...]:
        """The outputs in an item of the source, in memory of their own: samples as they are, or Batches."""
        outputs = self._split(given)
        if self._batch is False:
            return outputs if self._no_copy else tuple(map(_copied, outputs))
        batches = self._batch if self._batch is not None else self.resumable
        return tuple(
            self._made(i, output, as_batch if batches or is_batch(output) else as_tensor)
            for i, output in enumerate(outputs)
        )

    def _made(self, index: int, output: Any, make: Callable[..., Any]) -> Any:
        """One of the outputs, checked."""
        try:
            made = self._as_declared(index, output, make)
        except ArgumentError as error:
            argument = error.argument.replace("tensors", "source").replace("data", "source")
            hint = error.hint if self._name is None else f"{error.hint} The source is {self._name!r}.".strip()
            raise ArgumentError(self._operator, argument, error.expected, error.got, hint) from error
        moved = made.to_device(self._device)
        if moved is not made or self._no_copy or only_numbers(output) or self._batch is False:
            return moved
        return batch(made) if isinstance(made, Batch) else tensor(made)

    def _as_declared(self, index: int, output: Any, make: Callable[..., Any]) -> Any:
        return make(output, self._dtypes[index], layout=self._layouts[index])

    def _split(self, made: Any) -> tuple[Any, ...]:
        if self._outputs is None:
            return (made,)
        if not isinstance(made, (tuple, list)) or len(made) != self._outputs:
            got = f"{len(made)}" if isinstance(made, (tuple, list)) else shown(made)
            expected = f"one that makes a tuple of {self._outputs} output{'s' * (self._outputs > 1)}, its 'num_outputs'"
            raise ArgumentError(self._operator, "source", expected, got)
        return tuple(made)

    def _of_size(self, output: Output, size: int) -> Batch:
        if isinstance(output, Tensor):
            return Batch([output.array] * size, output.layout)
        if len(output) != size:
            raise ArgumentError(
                self._operator,
                "source",
                f"one that makes batches of {size} samples, as asked for",
                f"a batch of {len(output)}",
            )
        return output

    def _for_each_output(self, argument: str, value: Any) -> list[Any]:
        count = self._outputs or 1
        if not isinstance(value, (list, tuple)):
            return [value] * count
        if len(value) != count:
            raise ArgumentError(self._operator, argument, f"one, or a list of {count}", f"a list of {len(value)}")
        return list(value)

    def get_state(self) -> State:
        """Return the place as JSON values. Only with "resumable" True a source can go on from it."""
        place = self._place  # no lock: others may take long to read a batch
        return {
            "version": _VERSION,
            "source": self._kind,
            "resumable": self.resumable,
            "epoch": place.epoch,
            "iteration": place.iteration,
            "sample": place.sample,
            "batch_size": place.batch_size,
        }

    def set_state(self, state: State) -> None:
        """Return to the place of a state.

        Args:
            state: A result of `get_state`, of a source of the same kind.

        Raises:
            StateMismatch: The state is of another kind of source.
            StateError: The state is not one of a source.

        Warns:
            StateWarning: The source has no places; it goes on from where it is.
        """
        operator, state = self._operator, untold(state)
        if not isinstance(state, dict) or state.keys() != _STATE.keys():
            raise StateError(
                f"{operator}: this is not a state of a source: {shown(state)}. Use a state from get_state()."
            )
        for key, kind in _STATE.items():
            value = state[key]
            if type(value) is not kind or (isinstance(value, int) and not 0 <= value <= MOST_COUNTED):
                raise StateError(f"{operator}: this is not a state of a source: {key!r} is {shown(value)}.")
        if state["version"] != _VERSION:
            raise StateError(
                f"{operator}: the state has version {shown(state['version'])}; this library reads "
                f"{_VERSION}. Use the version that wrote it, or a newer one."
            )
        if state["source"] != self._kind:
            difference = f"source: {state['source']!r} in the state, {self._kind!r} here"
            raise StateMismatch(f"{operator}: the state is of another kind of source. {difference}.", [difference])
        if not self.resumable:
            warnings.warn(
                f"{operator}: there is no telling where its source was: it had given {state['iteration']} in "
                f"epoch {state['epoch']}, and goes on from wherever it is. A function of one argument can go "
                "on exactly.",
                StateWarning,
                stacklevel=2,
            )
        before = self._place.sample
        self._go_to(state)
        if self._answers is not None:
            sample: Any = state["sample"]
            self._answers.renumber(before, sample)

    def _way_back(self) -> Callable[[], None]:
        with self._lock:
            moved = 0 if self._answers is None else self._answers.moved
            place = self._place
        return functools.partial(self._return_to, place, moved)

    def _return_to(self, place: Place, moved: int) -> None:
        with self._lock:
            self._place = place
            if self._answers is not None:
                self._answers.moved = moved

    def _go_to(self, place: Any) -> None:
        """Return to a place of this source's own, which is one that it can go to."""
        with self._lock:
            size = place["batch_size"]
            expected = size if self._kind in ("batch", "index") else 0
            self._place = Place(place["epoch"], place["iteration"], place["sample"], size, expected)

    def state_dict(self) -> State:
        """Return the place as JSON values, as `get_state`: the name of PyTorch."""
        return self.get_state()

    def load_state_dict(self, state_dict: State) -> None:
        """Return to the place of a state, as `set_state`: the name of PyTorch."""
        self.set_state(state_dict)

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name is not None else ""
        place = (
            f"epoch {self._place.epoch}, batch {self._place.iteration}"
            if self.resumable
            else "at a place that cannot be saved"
        )
        return f"<{self._operator}{name}: {self._kind} {getattr(self._source, '__name__', 'source')}, {place}>"


def _unknown(argument: str) -> ArgumentError:
    if argument in ("where", "weights", "replacement", "num_samples"):
        hint = "Its source decides which samples it makes: choose there, or give rows to readers.Map."
        return ArgumentError(ExternalSource._operator, argument, f"has no argument {argument!r}", "", hint)
    known = list(inspect.signature(ExternalSource).parameters)[:-1]
    return ArgumentError.unknown(ExternalSource._operator, argument, known)


def _kind(source: Any, batch: bool | None, *, batch_info: bool) -> Kind:
    """The arguments of a source."""
    counted: Kind = "sample" if batch is False else "batch" if batch_info else "index"
    if not isinstance(source, Iterable) and not _makes_generators(source):
        if not callable(source):
            raise ArgumentError(
                "ExternalSource", "source", "a function of at most one argument, or an iterable", shown(source)
            )
        arguments = _positional(source)
        if arguments == 1:
            return counted
        if arguments == 0:
            return "call"
        raise ArgumentError("ExternalSource", "source", "a function of at most one argument", f"one of {arguments}")
    return "iterable"


def _copied(sample: Any) -> Any:
    """A sample in memory of its own."""
    if sample.__class__ is numpy.ndarray and sample.dtype.kind in "biuf":
        return copies([sample])[0]
    if isinstance(sample, numpy.ndarray):
        return sample.copy()
    if isinstance(sample, (list, tuple)):
        return list(map(_copied, sample))
    if isinstance(sample, (bool, int, float, bytes, str, numpy.generic, Batch, type(None))):
        return sample
    try:
        return tensor(sample)
    except ArgumentError:
        return sample  # which is refused with its place, and the name of the source


def _makes_generators(source: Any) -> bool:
    """Whether it is a generator function, or an object that is called like one."""
    function = source.func if isinstance(source, functools.partial) else source
    if not callable(function) or _positional(source):
        return False
    return inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(type(function).__call__)


def _positional(source: Callable[..., Any]) -> int:
    """How many arguments a function must be called with."""
    try:
        parameters = inspect.signature(source).parameters.values()
    except ValueError as error:
        hint = "Wrap it: lambda i: f(i)."
        expected = "a function with a readable signature"
        raise ArgumentError("ExternalSource", "source", expected, shown(source), hint) from error
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)
