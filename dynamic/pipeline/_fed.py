"""`fn.external_source`: sources of data from outside, and batches that are fed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dynamic import ArgumentError, Batch, ExternalSource
from dynamic._arrays.array import only_numbers
from dynamic._base.locks import new_lock
from dynamic.readers._checks import flag, natural

__all__ = ["Fed", "FedSource", "check_given", "external_source", "for_each_output"]

_OPERATOR = "fn.external_source"
#: Arguments without effect here.
_OF_DALIS = frozenset(
    ["seed", "cuda_stream", "use_copy_kernel", "blocking", "prefetch_queue_depth", "bytes_per_sample_hint", "preserve"]
)


class Fed:
    """Batches that wait under the names of sources, numbered from 0 in the order that they were fed.

    The place of a source is the number of its next batch: a run that is undone has used nothing, and a checkpoint tells
    where to feed on.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()  #: the names that a run has asked for
        self.waiting: dict[str, dict[int, tuple[Batch, object]]] = {}  #: each with the owner that gave it
        self._lock = new_lock()

    def put(self, name: str, batch: Batch, place: int, by: object) -> None:
        """Let a batch wait behind the others; the first has the number of the place."""
        with self._lock:
            waiting = self.waiting.get(name, {})
            self.waiting[name] = {**waiting, max(place, max(waiting, default=-1) + 1): (batch, by)}

    def take_back(self, by: object) -> None:
        """Forget the batches of one owner; those fed after them move up."""
        with self._lock:
            for name, waiting in self.waiting.items():
                left = [entry for _, entry in sorted(waiting.items()) if entry[1] is not by]
                self.waiting[name] = dict(zip(sorted(waiting), left, strict=False))

    def forget(self, names: Iterable[str]) -> None:
        """Forget all that waits under some names."""
        with self._lock:
            for name in names:
                self.waiting.pop(name, None)

    @property
    def unknown(self) -> list[str]:
        """Names under which batches wait that no run has asked for."""
        return sorted({name for name, entries in self.waiting.items() if entries} - self.asked)

    def refuse(self, name: str, number: int) -> None:
        """Take a wrong batch back, by its number."""
        with self._lock:
            entry = self.waiting.get(name, {}).get(number)
            if entry is not None:
                self.take_back(entry[1])

    def source(self, name: str, *, repeat: bool = False) -> Callable[[int], Batch]:
        """A source that gives the batch of a number, and forgets those before it.

        Args:
            name: The name.
            repeat: Let the batch before be the next one too, where none is given.
        """

        def fed(number: int) -> Batch:
            self.asked.add(name)
            with self._lock:
                known = self.waiting.get(name, {})
                last = max((place for place in known if place <= number), default=-1) if repeat else number
                if last in known:
                    used = max((place for place in known if repeat and place < number), default=last)  # before this run
                    self.waiting[name] = {place: entry for place, entry in known.items() if place >= min(used, last)}
                    return known[last][0]
            how = f"feed_input({name!r}, data) before each run, or run({name}=data)"
            others = f" There is data for {', '.join(map(repr, self.unknown))}." if self.unknown else ""
            raise RuntimeError(f"The pipeline's source {name!r} has no data: {how}.{others}")

        return fed


class _Source(ExternalSource):
    """A source that gives data as declared, or fails.

    Args:
        source: The source.
        num_outputs: How many outputs it gives in a tuple, even if that is one; by default one, in none.
        ndim: Number of dimensions that a sample must have, or a list with one for each output.
        layout: The layout of the samples, or a list with one for each output; the last may be left out.
        arguments: Of `ExternalSource`. Numbers of Python get its `dtype`, arrays of another are refused.
    """

    _operator = _OPERATOR

    def __init__(
        self, source: Any, num_outputs: int | None = None, *, ndim: Any = None, layout: Any = None, **arguments: Any
    ) -> None:
        if isinstance(layout, (list, tuple)):
            layout = [*(one or None for one in layout), *[None] * ((num_outputs or 1) - len(layout))]
        super().__init__(source, num_outputs, layout=layout or None, **arguments)
        self._outputs = num_outputs
        every = self._for_each_output("ndim", ndim)
        self._ndims = [None if one is None else natural(_OPERATOR, "ndim", one) for one in every]

    def _as_declared(self, index: int, output: Any, make: Callable[..., Any]) -> Any:
        dtype, layout = self._dtypes[index], self._layouts[index]
        made = make(output, dtype if only_numbers(output) else None)
        if layout is not None and not made.layout:
            made = make(made, layout=layout)
        for name, wanted in (("dtype", dtype), ("ndim", self._ndims[index]), ("layout", layout)):
            if wanted is not None and getattr(made, name) != wanted:
                expected = f"one that gives samples of {name} {wanted}, as declared"
                raise ArgumentError(_OPERATOR, "source", expected, f"{getattr(made, name)}")
        return made


class FedSource(_Source):
    """A source of batches that were fed.

    Args:
        fed: Those.
        name: The name that they were fed under.
        repeat: Let the last batch be the next one too, where none is given.
        arguments: Of `ExternalSource`.
    """

    def __init__(self, fed: Fed, name: str, *, repeat: bool, **arguments: Any) -> None:
        arguments |= {"batch": True, "batch_info": False, "no_copy": True}  # it has been copied
        super().__init__(fed.source(name, repeat=repeat), name=name, **arguments)
        self._fed, self._label = fed, name

    def _own(self, given: Any) -> tuple[Any, ...]:
        try:
            return super()._own(given)
        except ArgumentError as error:
            self._fed.refuse(self._label, self._here.iteration)
            argument, expected = error.argument.replace("source", "data"), error.expected.replace("one that gives ", "")
            raise ArgumentError("Pipeline.feed_input", argument, expected, error.got, error.hint) from error


def check_given(inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> None:
    """Refuse a source without a function and without a name."""
    if (inputs[0] if inputs else arguments.get("source")) is None:
        raise ArgumentError.either(_OPERATOR, "source", "name", both=False)


def for_each_output(arguments: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The arguments of the sources that a source of several outputs is, where it is fed: "x[0]", "x[1]" and so on."""
    if arguments.get("source") is not None or arguments.get("num_outputs") is None:
        return None
    count, name = natural(_OPERATOR, "num_outputs", arguments["num_outputs"], 1), arguments.get("name")
    found = []
    for i in range(count):
        own = {key: value for key, value in arguments.items() if key != "num_outputs"}
        for key in ("dtype", "ndim", "layout"):
            if isinstance(own.get(key), (list, tuple)):
                own[key] = own[key][i] if i < len(own[key]) else None
        found.append(own | ({} if name is None else {"name": f"{name}[{i}]"}))
    return found


def external_source(name: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any], fed: Fed) -> ExternalSource:
    """The source of a call of ``fn.external_source``.

    Args:
        name: Its name.
        inputs: The source, and the number of its outputs, if they are given without their names.
        arguments: The others.
        fed: Batches for sources that are none.
    """
    by_place = ("source", "num_outputs")
    if len(inputs) > 2:
        raise ArgumentError.inputs(_OPERATOR, by_place, len(inputs), [])
    for key in by_place[: len(inputs)]:
        if key in arguments:
            raise ArgumentError(_OPERATOR, key, "given once", "two values")
    given = dict(zip(by_place, inputs, strict=False)) | dict(arguments)
    given = {key: value for key, value in given.items() if value is not None and key not in _OF_DALIS}
    repeat = flag(_OPERATOR, "repeat_last", given.pop("repeat_last", False))
    parallel = flag(_OPERATOR, "parallel", given.pop("parallel", False))
    known = [*inspect.signature(ExternalSource).parameters, "ndim", "parallel", "repeat_last"]
    for key in given:
        if key not in known:
            raise ArgumentError.unknown(_OPERATOR, key, known)
    if "source" not in given:
        return FedSource(fed, name, repeat=repeat, **given)
    if repeat:
        raise ArgumentError(_OPERATOR, "repeat_last", "False, but for a source that is fed", "bool True")
    return _Source(given.pop("source"), **{"batch": not parallel, **given}, name=name)
