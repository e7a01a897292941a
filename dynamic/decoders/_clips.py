"""Frames of videos in the bytes of files, as `decoders.video` gives them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy

from dynamic._arrays.array import Array
from dynamic._base import pool
from dynamic._lift.call import Call, Plan, Shape
from dynamic.errors import ArgumentError, DataError
from dynamic.io._video import MOST_FRAMES, Video, refused

from ._files import buffer

__all__ = ["Clip", "plan_video"]

OPERATOR = "decoders.video"
_WEIGHT = 64.0  # work for each byte of a frame, against copying it


class Clip(NamedTuple):
    """The frames that are wanted of an open video.

    Attributes:
        video: The video, which `decode` closes.
        numbers: A number for each frame of the result; -1 for one of `fill`.
        fill: The colour of such a frame.
    """

    video: Video
    numbers: Array
    fill: Array

    @property
    def shape(self) -> Shape:
        """That of the frames."""
        return (len(self.numbers), *self.video.table.shape, 3)

    def decode(self, out: Array) -> None:
        """Fill memory of its shape."""
        with self.video:
            self.video.read(self.numbers.tolist(), out)
            if (missing := self.numbers < 0).any():
                out[missing] = self.fill


def plan_video(call: Call) -> Plan:
    """The frames that are wanted of each video, by the tables of frames."""
    _check_arguments(call)
    clips = call.each(functools.partial(_wanted, iter(_opened(call))), of_values=True)
    on_error = call.fixed["on_error"]
    return Plan([clip.shape for clip in clips], call.dtype, "FHWC", data=clips, weight=_WEIGHT, on_error=on_error)


def _check_arguments(call: Call) -> None:
    """Refuse arguments that say the same."""
    given = {name for name in _WHERE if any(value is not None for value in call.column(name))}
    others = given - {"frames"}
    if "frames" in given and others:
        raise ArgumentError.either(call.name, "frames", min(others), both=True)
    if {"sequence_length", "end_frame"} <= given:
        raise ArgumentError.either(call.name, "sequence_length", "end_frame", both=True)


_WHERE = ("frames", "start_frame", "end_frame", "stride", "sequence_length")


def _opened(call: Call) -> list[Video | DataError]:
    """The videos, or the errors that say why they are none, opened on several threads."""
    columns, turn = call.columns()[0], call.fixed["adjust_orientation"]
    found: list[Any] = [None] * call.count

    def open_one(i: int) -> None:
        try:
            found[i] = Video(buffer(columns[i], OPERATOR), adjust_orientation=turn)
        except DataError as error:
            found[i] = error

    pool.run(open_one, call.count, sum(len(column) for column in columns) * _WEIGHT)
    return found


def _wanted(opened: Any, encoded: Array, /, *, fill_value: Any, max_values: int, **where: Any) -> Clip:
    video = next(opened)
    if isinstance(video, DataError):
        raise video
    fill = numpy.array([fill_value] if isinstance(fill_value, int) else fill_value, numpy.uint8)
    count, (height, width) = len(video.table), video.table.shape
    clip = Clip(video, _numbers(count, where), fill)
    values = len(clip.numbers) * height * width * 3
    if values > max_values:
        reason = (
            f"{len(clip.numbers)} frames of {height} x {width} pixels have more values than max_values={max_values}"
        )
        raise refused(video.format, f"{reason}; ask for fewer, or pass a larger max_values to accept it")
    return clip


def _numbers(count: int, where: dict[str, Any]) -> Array:
    """The numbers of the frames of a result, in a video of so many; -1 is a frame of one colour.

    Raises:
        ArgumentError: There are none, or some lie outside and are not padded.
    """
    frames, start, end = where["frames"], where["start_frame"] or 0, where["end_frame"]
    step, length, mode = where["stride"] or 1, where["sequence_length"], where["pad_mode"]
    if frames is not None:
        wanted = numpy.array([frames] if isinstance(frames, int) else frames, numpy.int64)
    else:
        if start >= count:
            raise ArgumentError(OPERATOR, "start_frame", f"less than {count}, the frames of the video", str(start))
        if end is not None and end <= start:
            raise ArgumentError(OPERATOR, "end_frame", f"more than the start_frame, {start}", str(end))
        if length is None:
            length = len(range(start, count if end is None else end, step))
        if mode == "none":
            length = min(length, len(range(start, count, step)))
        if length > MOST_FRAMES:
            raise ArgumentError(OPERATOR, "sequence_length", f"at most {MOST_FRAMES}", str(length))
        wanted = start + step * numpy.arange(length)
    outside = (wanted < 0) | (wanted >= count)
    if not outside.any():
        return wanted
    if mode == "none":
        argument, expected = (
            "start_frame" if frames is None else "frames",
            f"in [0, {count - 1}], the frames of the video",
        )
        hint = "Another pad_mode fills the places of those that are missing."
        raise ArgumentError(OPERATOR, argument, expected, str(wanted[outside][0]), hint)
    return numpy.where(outside, _PADDING[mode](wanted, count), wanted)


def _reflected(wanted: Array, count: int) -> Array:
    period = max(1, 2 * count - 2)
    return numpy.minimum(wanted % period, -wanted % period)


def _mirrored(wanted: Array, count: int) -> Array:
    return numpy.minimum(wanted % (2 * count), (-1 - wanted) % (2 * count))


#: The frames in the places of those that are missing, by the `pad_mode`.
_PADDING = {
    "constant": lambda wanted, _: numpy.full_like(wanted, -1),
    "edge": lambda wanted, count: wanted.clip(0, count - 1),
    "reflect_1001": _mirrored,
    "reflect_101": _reflected,
}
