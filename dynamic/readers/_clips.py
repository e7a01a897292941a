"""Sequences of frames of video files: which videos there are, which parts of them, and the clips in each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._base.pool import get_num_threads, run
from dynamic.errors import (
    ArgumentError,
    DataError,
    DecodeError,
    Failure,
    OrderWarning,
    displayed,
    shown,
    warn_caller,
)
from dynamic.io._address import is_address
from dynamic.io._bytes import is_of_the_system
from dynamic.io._remote import Wanted
from dynamic.io._store import DISK, Store
from dynamic.io._video import Colours, Table, Video

from ._checks import natural
from ._labels import Labels, labels_given
from ._listing import (
    Listing,
    Packed,
    _lines,
    _Namer,
    _Once,
    as_it_is,
    listed_folder,
    packed,
    unlisted,
    versions_of,
)
from ._order import mix
from ._stored import PathLike, a_path, names_of_files, paths_of

__all__ = ["FILTERS", "Clips", "Form", "Padding", "Rounding", "Source", "listed"]

#: The endings of files that are videos, where no `file_filters` are given.
FILTERS = (
    "*.3gp",
    "*.avi",
    "*.flv",
    "*.h264",
    "*.h265",
    "*.hevc",
    "*.ivf",
    "*.m2ts",
    "*.m4v",
    "*.mjpeg",
    "*.mkv",
    "*.mov",
    "*.mp4",
    "*.mpeg",
    "*.mpg",
    "*.mts",
    "*.nut",
    "*.obu",
    "*.ogv",
    "*.ts",
    "*.vob",
    "*.webm",
    "*.wmv",
)
Padding: TypeAlias = Literal["none", "constant", "edge", "reflect_1001", "reflect_101"]
_MOST = 2**31 - 1
_NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+)"
_LINE = re.compile(rb"(.+?)\s+(-?\d{1,10})(?:\s+(%s))?(?:\s+(%s))?\s*" % (_NUMBER, _NUMBER))


class Form(NamedTuple):
    """Which frames clips have.

    Attributes:
        length: How many.
        stride: From one to the next.
        span: How many frames a part must have for a whole clip.
        step: From the first of a clip to that of the next.
        padding: The frames of a clip that reaches over the end of its part; "none" if there are no such clips.
        uniform: Whether there is one clip in each part, of frames at equal distances.
    """

    length: int
    stride: int
    span: int
    step: int
    padding: Padding
    uniform: bool = False

    @classmethod
    def checked(
        cls,
        operator: str,
        length: Any,
        stride: Any,
        step: Any,
        padding: Padding,
        *,
        uniform: bool = False,
        behind: bool,
    ) -> Form:
        """A form of arguments of a reader.

        Args:
            operator: Its name.
            length: The value of `sequence_length`.
            stride: That of `stride`.
            step: That of `step`.
            padding: The form's.
            uniform: The form's.
            behind: Whether a clip spans the frames up to one more that would follow at the stride.
        """
        length = natural(operator, "sequence_length", length, 1, _MOST)
        stride = natural(operator, "stride", 1 if stride is None else stride, 1, _MOST)
        step = -1 if step is None else step
        if not isinstance(step, (int, numpy.integer)) or isinstance(step, bool) or not (step == -1 or 0 < step < _MOST):
            expected = "an integer of 1 or more, or -1 for the frames of a sequence"
            raise ArgumentError(operator, "step", expected, shown(step))
        span = length * stride if behind else (length - 1) * stride + 1
        return cls(length, stride, span, span if step < 0 else int(step), padding, uniform)

    def firsts(self, start: int, end: int) -> Array:
        """The first frames of the clips in a part of a video."""
        if self.uniform:
            return numpy.arange(start, end)[:1]
        firsts = numpy.arange(start, end, self.step)
        whole = int((firsts + self.span <= end).sum())
        return firsts[: whole + (self.padding != "none")]

    def frames(self, firsts: Array, starts: Array, ends: Array) -> Array:
        """The numbers of the frames of clips, of shape (B, L); -1 for one that is missing.

        Args:
            firsts: Their first frames.
            starts: Where the parts that they are of begin.
            ends: Where these end.
        """
        firsts, starts, ends = firsts[:, None], starts[:, None], ends[:, None]
        steps, counts = numpy.arange(self.length), ends - starts
        if self.uniform:
            found = numpy.linspace(starts[:, 0], ends[:, 0] - 1, self.length, axis=1)
            numbers: Array = numpy.floor(found + 0.5).astype(numpy.int64)
            return numbers
        places = firsts - starts + steps * self.stride
        if self.padding == "edge":
            places = numpy.minimum(places, counts - 1)
        elif self.padding == "reflect_1001":
            places = places % (2 * counts)
            places = numpy.where(places < counts, places, 2 * counts - 1 - places)
        elif self.padding == "reflect_101":
            period = numpy.maximum(2 * (counts - 1), 1)
            places = places % period
            places = numpy.where(places < counts, places, period - places)
        return numpy.where(places < counts, places + starts, -1)


class Rounding(NamedTuple):
    """How the ends of a part become frames.

    Attributes:
        start_up: Whether a part begins with the first frame from its start on, rather than with the one shown then.
        end_up: Whether it ends with the frame that is shown at its end, rather than before that.
        in_frames: Whether ends are numbers of frames, rather than seconds.
    """

    start_up: bool
    end_up: bool
    in_frames: bool

    def part(self, table: Table, start: str | None, end: str | None) -> tuple[int, int]:
        """The first frame of a part, and the one behind its last."""
        count = len(table)
        first = 0 if start is None else self._frame(table, Fraction(start), up=self.start_up)
        last = count if end is None else self._frame(table, Fraction(end), up=self.end_up)
        return min(max(first, 0), count), min(max(last, 0), count)

    def _frame(self, table: Table, place: Fraction, *, up: bool) -> int:
        if self.in_frames:
            number = math.ceil(place) if up else math.floor(place)
            return number + len(table) if place < 0 else number
        ticks, times = place / table.base, table.times - table.times[0]
        if ticks >= table.end - int(table.times[0]):
            return len(table)
        if up:
            return int(numpy.searchsorted(times, math.ceil(ticks), "left"))
        return int(numpy.searchsorted(times, math.floor(ticks), "right")) - 1


class Source(NamedTuple):
    """Where the videos of a reader are, as its arguments say."""

    operator: str
    filenames: Sequence[str]
    file_root: str | None
    file_list: str | None
    labels: Any
    filters: tuple[str, ...]

    @classmethod
    def checked(
        cls,
        operator: str,
        filenames: Any,
        file_root: PathLike | None,
        file_list: PathLike | None,
        labels: Any,
        filters: Any,
    ) -> Source:
        """The arguments, of which one names videos."""
        named = {"filenames": filenames, "file_root": file_root, "file_list": file_list}
        given = [name for name, value in named.items() if not _is_empty(value)]
        if len(given) != 1:
            expected = "given, or else file_root or file_list" if not given else f"left out where {given[0]} is given"
            told = "nothing" if not given else shown(named[given[1]])
            raise ArgumentError(operator, given[1] if given else "filenames", expected, told)
        if labels is not None and given != ["filenames"]:
            raise ArgumentError(operator, "labels", "None unless filenames are given", shown(labels))
        patterns = FILTERS if filters is None else as_it_is(filters)
        if not isinstance(patterns, tuple) or not patterns or not all(isinstance(each, str) for each in patterns):
            raise ArgumentError(operator, "file_filters", "a list of at least one pattern", shown(filters))
        root, lines = (
            a_path(operator, name, value) if given == [name] else None
            for name, value in (("file_root", file_root), ("file_list", file_list))
        )
        paths = paths_of(operator, "filenames", filenames) if given == ["filenames"] else []
        return cls(operator, paths, root, lines, as_it_is(labels), patterns)

    @property
    def is_labelled(self) -> bool:
        """Whether videos have labels."""
        return not self.filenames or self.labels is not None

    def videos(self, store: Store) -> tuple[Listing, list[tuple[str | None, str | None]]]:
        """The files, and the part of each that is read, as the texts of its ends."""
        if self.file_list is not None:
            return _of_lines(self.operator, self.file_list, store)
        if self.file_root is not None:
            advice = "Remove such folders, or name the videos in a file_list=."
            found = listed_folder(
                self.operator, self.file_root, self.filters, None, store, case_sensitive=False, advice=advice
            )
        else:
            paths = [store.plain(path) for path in self.filenames]
            root, names = names_of_files(paths)
            labels = range(len(paths)) if self.labels is None or not len(self.labels) else self.labels
            numbers, _ = labels_given(self.operator, labels, len(paths), Labels("int"))
            far = store if any(map(is_address, paths)) else DISK
            found = Listing(root, packed(names), numbers, store=far)
        return found, [(None, None)] * len(found.names)


def _is_empty(value: Any) -> bool:
    """Whether an argument names nothing: None, an empty text or an empty list."""
    return value is None or (isinstance(value, (str, bytes, list, tuple)) and not value)


def _of_lines(operator: str, path: str, store: Store) -> tuple[Listing, list[tuple[str | None, str | None]]]:
    """The videos of a text file: a line for each, with its path, its label, and the ends of the part that is read."""
    expected = "a text file of lines 'path label [start [end]]'"
    path = store.plain(path)
    try:
        lines = _lines(path, store)
    except OSError as error:
        raise ArgumentError(operator, "file_list", expected, shown(path), f"{error.strerror}.") from error
    named = _Namer(operator, "file_list", os.path.dirname(path), store)  # noqa: PTH120
    names, labels, parts = list[str](), list[int](), list[tuple[str | None, str | None]]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None or b"\0" in line or abs(int(found[2])) > _MOST:
            told = f"line {number}: {shown(line.decode(errors='replace').strip())}"
            raise ArgumentError(operator, "file_list", expected, told)
        names.append(named(os.fsdecode(found[1])))
        labels.append(int(found[2]))
        start, end = (None if place is None else place.decode() for place in found.group(3, 4))
        parts.append((start, end))
    if not names:
        raise ArgumentError(operator, "file_list", expected, f"{shown(path)}, which is empty")
    listing = Listing(named.root, packed(names), numpy.array(labels, numpy.int32), store=named.store)
    return listing, parts


@dataclass(frozen=True)
class Clips(Packed):
    """Clips by their videos and first frames.

    Attributes:
        videos: The files.
        tables: The frames of each.
        form: The frames of a clip.
        of: The number of the video of each clip: int64 of shape (N,).
        firsts: Its first frame.
        starts: Where the part begins that it is of.
        ends: Where that ends.
    """

    videos: Listing
    tables: Sequence[Table]
    form: Form
    of: Any
    firsts: Any
    starts: Any
    ends: Any

    def frames_of(self, indices: Any) -> Array:
        """The numbers of the frames of some clips, of shape (B, L); -1 for one that is missing."""
        return self.form.frames(self.firsts[indices], self.starts[indices], self.ends[indices])

    def decode(
        self, video: int, clips: Sequence[tuple[list[int], Array]], colours: Colours, threads: int
    ) -> dict[int, DecodeError]:
        """Decode frames of a video.

        Args:
            video: Its number.
            clips: For each clip the numbers of its frames, and their memory.
            colours: Of the frames.
            threads: Of the decoder.

        Returns:
            Errors by the places of clips that cannot be decoded.

        Raises:
            OSError: The file cannot be read, or is another now.
            DecodeError: It is none that can be decoded.
        """
        failed: dict[int, DecodeError] = {}

        def run_through(source: Any) -> None:
            with Video(source, self.tables[video], threads=threads) as opened:
                try:
                    every = [number for numbers, _ in clips for number in numbers]
                    opened.read(every, [frame for _, out in clips for frame in out], colours)
                except DecodeError:  # of some of them
                    for place, (numbers, out) in enumerate(clips):
                        try:
                            opened.read(numbers, out, colours)
                        except DecodeError as error:
                            failed[place] = error

        _with_video(self.videos, video, self.versions, run_through)
        return failed

    def wanted(self, indices: list[int]) -> list[Wanted]:
        """The videos of some clips."""
        return self.videos.wanted(numpy.unique(self.of[indices]).tolist())

    def sizes_of(self, indices: Any) -> Any:
        """The bytes of the videos of some clips; -1 where one is missing."""
        numbers, where = numpy.unique(self.of[indices], return_inverse=True)
        return self.videos.sizes_of(numbers)[where]

    def labels_of(self, indices: Any) -> Any:
        """Hashes of the labels and frames of some clips: int32 of shape (B, 2)."""
        found = self.labels[indices].astype(numpy.int64).astype("<u8")
        mix(found)
        for column in self.frames_of(indices).T:
            found ^= column.astype("<u8")
            mix(found)
        return found.view("<i4").reshape(len(found), 2)

    @_Once
    def contents(self) -> Any:
        """A digest of the video of each clip, each read once: uint8 of shape (N, 16), 0 where it cannot be read."""
        used = numpy.unique(self.of[self.rows])
        digests = numpy.zeros((len(self.videos.names), 16), numpy.uint8)

        def one(i: int) -> None:
            try:
                digests[used[i]] = numpy.frombuffer(self.videos.digest(int(used[i])), numpy.uint8)
            except OSError as error:
                if not is_of_the_system(error):
                    raise

        self.store.each(one, len(used))
        return digests[self.of]


def _opened(videos: Listing, number: int, versions: Any) -> Any:
    """The bytes of an object, or an open file; an OSError if it is of another version."""
    path = videos.path(number)
    version = versions.get(path)
    if videos.store.far and is_address(path):
        return videos.store.contents(path, version=version).tobytes()
    file: BinaryIO = videos.store.file(path)
    if version is not None:
        try:
            version.check(os.fstat(file.fileno()))
        except BaseException:
            file.close()
            raise
    return file


def _with_video(videos: Listing, number: int, versions: Any, function: Callable[[Any], Any]) -> Any:
    """The result of a function of an open file, or of its bytes."""
    source = _opened(videos, number, versions)
    if isinstance(source, bytes):
        return function(source)
    with source:
        return function(source)


def listed(source: Source, form: Form, rounding: Rounding, store: Store, *, constant: bool, upright: bool) -> Clips:
    """The clips of videos.

    Args:
        source: The videos.
        form: The frames of a clip.
        rounding: How the ends of parts become frames.
        store: Where the files lie.
        constant: Whether a video of a variable frame rate is refused.
        upright: Whether frames are turned upright.
    """
    operator = source.operator
    videos, parts = source.videos(store)
    paths = videos.paths(range(len(videos.names)))
    versions = versions_of(operator, paths, videos.store)
    tables = _tables(operator, videos, versions, upright=upright)
    if constant:
        _check_rates(operator, videos, tables)
    of, firsts, starts, ends = list[Array](), list[Array](), list[int](), list[int]()
    for i, (table, (start, end)) in enumerate(zip(tables, parts, strict=True)):
        first, last = rounding.part(table, start, end)
        if last <= first:
            told = f"from {start} to {end or 'its end'} {displayed(paths[i])} has no frames, and is left out"
            warn_caller(f"{operator}(): {told}.", OrderWarning)
        found = form.firsts(first, last)
        firsts.append(found)
        of.append(numpy.full(len(found), i))
        starts.append(first)
        ends.append(last)
    numbers, places = numpy.concatenate(of), numpy.concatenate(firsts)
    if not len(numbers):
        longest = int(numpy.argmax([end - start for start, end in zip(starts, ends, strict=True)]))
        told = f"{len(paths)}, of which {displayed(paths[longest])} has most frames: {ends[longest] - starts[longest]}"
        raise ArgumentError(operator, "sequence_length", f"small enough: a sequence spans {form.span} frames", told)
    names = videos.take(range(len(paths)))
    titles = packed([f"{names[i]}#{k}" for i, k in zip(numbers.tolist(), places.tolist(), strict=True)])
    begins, stops = numpy.array(starts)[numbers], numpy.array(ends)[numbers]
    labels = videos.labels[numbers]
    return Clips(
        videos.root,
        titles,
        labels,
        versions,
        videos,
        tables,
        form,
        numbers,
        places,
        begins,
        stops,
        classes=videos.classes,
        store=videos.store,
    )


def _tables(operator: str, videos: Listing, versions: Any, *, upright: bool) -> list[Table]:
    """The frames of all videos; one error names all that are none. A file that occurs again is not opened again."""
    paths = videos.paths(range(len(videos.names)))
    firsts = {path: i for i, path in reversed(list(enumerate(paths)))}
    distinct = sorted(firsts.values())
    found, failures = dict[str, Table](), dict[int, Failure]()
    threads = max(1, get_num_threads() // len(distinct))

    def table(source: Any) -> Table:
        with Video(source, adjust_orientation=upright, threads=threads) as video:
            return video.table

    def one(k: int) -> None:
        i = distinct[k]
        try:
            found[paths[i]] = _with_video(videos, i, versions, table)
        except OSError as error:
            if not is_of_the_system(error):
                raise
            failures[i] = Failure(-1, error.strerror or str(error), source=paths[i])
        except DecodeError as error:
            failures[i] = Failure(-1, error.failures[0].reason, error.failures[0].format, paths[i])

    if videos.store.far:
        videos.store.each(one, len(distinct))
    else:
        run(one, len(distinct), len(distinct) << 24)
    if failures:
        raise DataError(operator, [failures[i] for i in sorted(failures)], 0)
    return [found[path] for path in paths]


def _check_rates(operator: str, videos: Listing, tables: Sequence[Table]) -> None:
    """Refuse videos of a variable frame rate."""
    for i, table in enumerate(tables):
        if not table.is_constant:
            steps = numpy.diff(table.times) * float(table.base)
            reason = (
                f"{table.format}: frames follow each other after {steps.min():.4g} to {steps.max():.4g} seconds: a "
                "variable frame rate. skip_vfr_check=True reads them as they come"
            )
            raise unlisted(operator, videos.path(i), reason)
