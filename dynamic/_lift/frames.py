"""Arguments with a value for each frame of a video: the frames become samples, and their results videos again."""

from __future__ import annotations

import bisect
import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy

from dynamic._arrays.array import Array, library
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin
from dynamic.data import Batch, Tensor
from dynamic.errors import ArgumentError, DataError, Failure

__all__ = ["are_given", "are_in", "each", "each_of", "relaid"]


def are_given(inputs: tuple[Any, ...], arguments: dict[str, Any]) -> bool:
    """Whether an argument, or an input that is not the first, has been through `per_frame`."""
    for value in arguments.values():
        if _is_frames(value):
            return True
    return len(inputs) > 1 and any(isinstance(x, (Batch, Tensor)) and (x.layout or "")[:2] == "F*" for x in inputs[1:])


def _is_frames(value: Any) -> bool:
    return isinstance(value, (Batch, Tensor)) and (value.layout or "").startswith("F")


def each(operator: Any, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Call an operator on the frames of its first input, each with its own values of the arguments laid out as frames.

    A first input that is no video is every frame of one: an image with a matrix for each frame becomes a video.
    The results of the frames of one video must have one shape; a plan may see to that by the `frames` of the call.
    """
    batch_size, device = arguments.pop("batch_size", None), arguments.pop("device", None)
    given = [operator.data(i, value, device) for i, value in enumerate(inputs)]
    marked = next((name for name, value in arguments.items() if _is_frames(value)), None)
    count = operator.count(given, arguments, batch_size)
    values = [x for x in (*given[1:], *arguments.values()) if _is_frames(x)]
    video = _as_video(operator, given[0] if given else None, marked, values, count)
    counts = [len(sample) for sample in _samples(video, count)]
    frames = _frames(video, count, counts)
    others = [_spread(operator.name, operator.input_name(i), x, count, counts) for i, x in enumerate(given) if i]
    spread = {name: _spread(operator.name, name, value, count, counts) for name, value in arguments.items()}
    own = {operator.input_name(0): video} if inputs else {}
    own |= {operator.input_name(i): x for i, x in enumerate(given) if i} | arguments
    with _Numbers(count, counts, own).told():
        results = operator.called((frames, *others), spread, counts)
    several = isinstance(results, tuple)
    name = marked or operator.input_name(1)
    parts = results if several else [results]
    if len(parts[0]) < len(frames):
        expected = "'raise' or 'null' where there are values for each frame"
        raise ArgumentError(operator.name, "on_error", expected, "'skip', and frames that fail")
    videos = [_folded(operator, name, part, counts, video.origin, count) for part in parts]
    return tuple(videos) if several else videos[0]


def are_in(values: Iterable[Any]) -> bool:
    """Whether one of some values is laid out as frames."""
    return any(map(_is_frames, values))


def each_of(function: Callable[..., Batch], name: str, given: dict[str, Any], count: int | None) -> Tensor | Batch:
    """Call a function that takes no video once for all frames, with the values of each frame.

    Args:
        function: Called with the values in `given`, and the number of all frames as `batch_size`.
        name: Of the function.
        given: Inputs and arguments by name, some of them laid out as frames.
        count: Number of samples, or None where one result is asked for.
    """
    counts = _counts([x for x in given.values() if _is_frames(x)], count)
    spread = {key: _spread(name, key, value, count, counts) for key, value in given.items()}
    with _Numbers(count, counts, given).told():
        frames = function(spread, sum(counts))
    origin = next((x.origin for x in given.values() if isinstance(x, Batch)), None)
    return _folded(None, name, frames, counts, origin, count)


_ITEM = re.compile(r"(.*)\[(\d+)\]")
_SAMPLE = re.compile(r"\bsample (\d+) of \d+")
_SAMPLES = re.compile(r"\bsamples ([\d, to]+) of (\d+)")


class _Numbers:
    """The numbers of frames in a call, as its caller counts: by sample, and in each sample by frame.

    Args:
        count: Number of samples, or None where there is one that is no batch.
        counts: How many frames each has.
        given: Inputs and arguments of the caller by name.
    """

    def __init__(self, count: int | None, counts: Sequence[int], given: Mapping[str, Any]) -> None:
        self._count, self._counts, self._given = count, counts, given
        self._ends = list(accumulate(counts))

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Let errors of a call on all frames say samples and frames as the caller numbers them."""
        try:
            yield
        except (ArgumentError, DataError) as error:
            raise self._renamed(error).with_traceback(error.__traceback__) from error.__cause__
        except Exception as error:
            if notes := self._notes(error):
                error.__notes__ = notes
            raise

    def _place(self, number: int) -> tuple[int, int]:
        """The sample of a frame, and its place there."""
        sample = min(bisect.bisect_right(self._ends, number), len(self._ends) - 1)
        return sample, number - self._ends[sample] + self._counts[sample]

    def _renamed(self, error: ArgumentError | DataError) -> ArgumentError | DataError:
        found: ArgumentError | DataError
        if isinstance(error, ArgumentError):
            found = ArgumentError(error.operator, self._item(error.argument), error.expected, error.got, error.hint)
        else:
            failures = {(failure.index, failure.reason): failure for failure in map(self._failure, error.failures)}
            found = type(error)(error.operator, list(failures.values()), len(self._counts))
        for note in self._notes(error):
            found.add_note(note)
        return found

    def _item(self, argument: str) -> str:
        """``angle[4]`` as the caller indexes it: ``angle[1][0]``."""
        parts = _ITEM.fullmatch(argument)
        if parts is None or argument in self._given or int(parts[2]) >= self._ends[-1]:
            return argument
        sample, frame = self._place(int(parts[2]))
        value = self._given.get(parts[1])
        places = [f"[{sample}]"] * (self._count is not None)
        if isinstance(value, (Tensor, Batch)) and _is_frames(value):
            places.append(f"[{frame if len(_samples(value, self._count)[sample]) > 1 else 0}]")
        return parts[1] + "".join(places)

    def _failure(self, failure: Failure) -> Failure:
        return Failure(self._place(failure.index)[0], failure.reason, failure.format, failure.source)

    def _notes(self, error: Exception) -> list[str]:
        notes = [_SAMPLE.sub(self._one, note) for note in getattr(error, "__notes__", ())]
        return [_SAMPLES.sub(r"frames \1 of the \2 of all samples", note) for note in notes]

    def _one(self, found: re.Match[str]) -> str:
        sample, frame = self._place(int(found[1]))
        where = "" if self._count is None else f"sample {sample} of {self._count}, "
        return f"{where}frame {frame} of {self._counts[sample]}"


def _counts(values: Sequence[Tensor | Batch], count: int | None) -> list[int]:
    """How many frames there are for each sample."""
    return [max(map(len, of_sample)) for of_sample in zip(*(_samples(x, count) for x in values), strict=True)]


def _as_video(
    operator: Any, first: Tensor | Batch | None, marked: str | None, values: Sequence[Tensor | Batch], count: int | None
) -> Tensor | Batch:
    """The first input, laid out as frames; where it has no layout, as the operator takes it.

    An input that is no video is repeated where another one has values for each frame, or the operator takes no images.
    """
    layout = None if first is None else first.layout or operator.usual_layout(first.ndim)
    if first is not None and (layout or "").startswith("F"):
        return relaid(first, layout)
    if first is None or (marked and operator.layouts is not None):
        expected = "given only with a video, laid out as 'FHWC' or the like, for it has values for each frame"
        raise ArgumentError(operator.name, marked or "inputs", expected, f"an input laid out as {layout!r}")
    layout = f"F{layout or '*' * first.ndim}"
    whole = zip(_samples(first, count), _counts(values, count), strict=True)
    videos = [library(sample).broadcast_to(sample, (n, *sample.shape)) for sample, n in whole]
    if count is None:
        return Tensor(videos[0], layout, first.origin)
    return Batch(videos, layout, first.origin, first._numpy_dtype, first.ndim + 1)


def relaid(data: Tensor | Batch, layout: str | None) -> Tensor | Batch:
    """The same data with another layout."""
    if isinstance(data, Tensor):
        return Tensor(data.array, layout, data.origin)
    return Batch(data.samples if data.whole is None else data.whole, layout, data.origin, data._numpy_dtype, data.ndim)


def _samples(value: Tensor | Batch, count: int | None) -> Sequence[Array]:
    return value.samples if isinstance(value, Batch) else [value.array] * (1 if count is None else count)


def _frames(video: Tensor | Batch, count: int | None, counts: Sequence[int]) -> Batch:
    """The frames of all videos, as samples."""
    assert video.layout is not None, "a video has a layout"
    origin = video.origin
    if origin is not None:
        places = numpy.repeat(numpy.arange(len(counts)) if len(origin) > 1 else 0, counts)
        origin = origin.take(places.tolist())
    layout = video.layout[1:].strip("*") or None
    whole = video.whole if isinstance(video, Batch) else video.array[None] if count is None else None
    if whole is not None and whole.flags.c_contiguous:
        return Batch(whole.reshape(math.prod(whole.shape[:2]), *whole.shape[2:]), layout, origin)
    frames = [sample[i, ...] for sample in _samples(video, count) for i in range(len(sample))]
    return Batch(frames, layout, origin, video._numpy_dtype, video.ndim - 1)


def _spread(operator: str, name: str, value: Any, count: int | None, counts: Sequence[int]) -> Any:
    """An argument or input as a Batch with a value for each frame; itself where it is the same for all."""
    if not _is_frames(value):
        if not isinstance(value, Batch):
            return value
        repeated = [sample for sample, n in zip(value.samples, counts, strict=True) for _ in range(n)]
        return Batch(repeated, value.layout, None, value._numpy_dtype, value.ndim)
    values = []
    for i, (sample, n) in enumerate(zip(_samples(value, count), counts, strict=True)):
        if len(sample) not in (1, n):
            place = name if count is None else f"{name}[{i}]"
            raise ArgumentError(operator, place, f"a value for each of the {n} frames, or one", f"{len(sample)}")
        values += [sample[k if len(sample) > 1 else 0, ...] for k in range(n)]
    return Batch(values, value.layout[1:] or None, None, value._numpy_dtype, value.ndim - 1)


def _folded(
    operator: Any, name: str, frames: Batch, counts: Sequence[int], origin: Origin | None, count: int | None
) -> Tensor | Batch:
    """Videos of frames."""
    layout = f"F{frames.layout}" if frames.layout else None if frames.ndim else "F"
    parts = [_joined(operator, name, frames, start, stop) for start, stop in pairwise(accumulate(counts, initial=0))]
    if count is None:
        return Tensor(parts[0], layout, origin)
    whole = frames.whole
    if whole is not None and parts and len(set(counts)) == 1:
        return Batch(whole.reshape(len(parts), counts[0], *whole.shape[1:]), layout, origin)
    return Batch(parts, layout, origin, frames._numpy_dtype, frames.ndim + 1)


def _joined(operator: Any, name: str, frames: Batch, start: int, stop: int) -> Array:
    """The frames of one video as one array."""
    if frames.whole is not None:
        return frames.whole[start:stop]
    parts = frames.samples[start:stop]
    if not parts:
        return numpy.empty((0,) * (frames.ndim + 1), frames._numpy_dtype)
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        hint = "Pass arguments that say the size of the result, such as size=."
        expected = "a value that gives all frames of a video one shape"
        raise ArgumentError(operator.name, name, expected, f"shapes {sorted(shapes)}", hint)
    xp = library(parts[0])
    shape = (len(parts), *parts[0].shape)
    joined = empty(shape, parts[0].dtype) if xp is numpy else xp.empty(shape, parts[0].dtype)
    for i, part in enumerate(parts):
        joined[i] = part
    return joined
