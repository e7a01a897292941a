"""The reader of sequences of frames, which lie as images in folders."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from dataclasses import dataclass, replace
from inspect import Parameter
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin
from dynamic._base.pool import run
from dynamic._lift.argument import ImageType, argument
from dynamic.data import Batch
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
from dynamic.io._remote import Wanted
from dynamic.io._store import Store
from dynamic.kernels.cpu import images

from ._checks import flag, natural
from ._listing import Listing, _Once, as_it_is, folders_in, listed_below, matcher, unlisted
from ._order import mix
from ._stored import Common, PathLike, Stored, a_path, called_with

__all__ = ["Sequence"]

_OPERATOR = "readers.Sequence"
_FILTERS = (
    "*.jpg",
    "*.jpeg",
    "*.png",
    "*.bmp",
    "*.tif",
    "*.tiff",
    "*.pnm",
    "*.ppm",
    "*.pgm",
    "*.pbm",
    "*.jp2",
    "*.webp",
    "*.gif",
)
_NUMBER = re.compile(rb"(.*?)(\d+)(\D*)", re.DOTALL)  # of the part of a name before its extension
_LIMITS = images.Limits()
_MOST = 2**31 - 1
_WORK = 8  # for each byte of an image that is decoded
_BYTE = numpy.dtype(numpy.uint8)


class Sequence(Stored["_Sequences", tuple[Batch]]):
    """Reads sequences of frames: each folder of `file_root` is a video, and each image in it a frame.

    The output is a tuple of one Batch of uint8, layout "FHWC": the decoded frames of each sequence, all of one size.
    Folders, and the frames in each, come in the order of the bytes of their names. A sequence lies within one
    folder; frames at its end that fill no sequence are left out, as are hidden files and folders.

    The name of a sequence is its folder and its first frame, such as ``"walk#0007.png"``. A state of sequences of other
    frames, as with another `stride`, is refused.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu", where files are read and decoded.
        num_inputs: 0; readers have none.
        file_root: The folder of the folders.
        sequence_length: The number of frames of a sequence.
        step: Frames from the start of a sequence to the start of the next.
        stride: Frames from one frame of a sequence to the next.
        image_type: "RGB", "BGR", "GRAY", "YCbCr" or "ANY_DATA", the channels of the files.
        adjust_orientation: Whether to turn each frame upright, by its EXIF orientation.
        numbered: Frames come in the order of the last number in their names, "9.jpg" before "10.jpg". A frame without a
            number, one that is missing among the others of its folder, and a folder without frames are errors.
        file_filters: Shell patterns, in either case; files that match none are no frames. By default the endings of the
            formats that are read.

    Raises:
        ArgumentError: An argument is wrong, or no folder has enough frames.
        DataError: A folder cannot be listed, or is not `numbered` as it is said to be.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "walk").mkdir()
    >>> for i in range(5):
    ...     _ = (root / "walk" / f"{i}.pgm").write_bytes(b"P5 2 1 255 " + bytes([i, 9]))
    >>> reader = ndd.readers.Sequence(file_root=root, sequence_length=3, step=2, image_type="GRAY")
    >>> for videos, in reader.next_epoch(batch_size=2):
    ...     print(videos.origin.names, videos.layout, [video.numpy()[:, 0, 0, 0].tolist() for video in videos])
    ['walk#0.pgm', 'walk#2.pgm'] FHWC [[0, 1, 2], [2, 3, 4]]
    """

    _operator: ClassVar[str] = _OPERATOR

    @called_with("file_root")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        file_root: PathLike,
        sequence_length: int,
        step: int | None = 1,
        stride: int | None = 1,
        image_type: Any = "RGB",
        adjust_orientation: bool | None = False,
        numbered: bool | None = False,
        file_filters: Any = None,
        **common: Unpack[Common],
    ) -> None:
        parameter = Parameter("image_type", Parameter.KEYWORD_ONLY, default="RGB")
        self._image_type = argument(_OPERATOR, parameter, ImageType).one(image_type)
        self._upright = flag(_OPERATOR, "adjust_orientation", adjust_orientation)
        form = _Form(
            natural(_OPERATOR, "sequence_length", sequence_length, 1, _MOST),
            natural(_OPERATOR, "step", 1 if step is None else step, 1, _MOST),
            natural(_OPERATOR, "stride", 1 if stride is None else stride, 1, _MOST),
        )
        patterns = _FILTERS if file_filters is None else as_it_is(file_filters)
        if not isinstance(patterns, tuple) or not patterns or not all(isinstance(each, str) for each in patterns):
            raise ArgumentError(_OPERATOR, "file_filters", "a list of at least one pattern", shown(file_filters))
        root, in_order = a_path(_OPERATOR, "file_root", file_root), flag(_OPERATOR, "numbered", numbered)
        list_samples = functools.partial(_listed, root, form, patterns, numbered=in_order)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch]:
        if not indices:  # all were skipped
            return (Batch([], "FHWC", origin, dtype=_BYTE, ndim=4),)
        places = self._listing.frames_of(indices)
        numbers, where = numpy.unique(places, return_inverse=True)
        where = where.reshape(places.shape)
        files, heads = self._opened(indices, numbers, where)
        shapes = list(map(self._shape, heads))
        self._check_sizes(indices, numbers, where, shapes)
        videos = _memory([(where.shape[1], *shapes[row[0]]) for row in where.tolist()])
        self._decode(indices, numbers, where, files, heads, videos)
        return (Batch(videos, "FHWC", origin),)

    def _shape(self, head: images.Header) -> tuple[int, ...]:
        """The shape of a decoded frame."""
        channels = images.convert.channels(head.colours, self._image_type, head.extra)
        return head.shape(channels, adjust_orientation=self._upright)

    def _opened(self, indices: list[int], numbers: Array, where: Array) -> tuple[list[Array], list[images.Header]]:
        """The bytes of frames, and their headers.

        Args:
            indices: Of the sequences.
            numbers: Of the frames, each once.
            where: Which of these are the frames of each sequence, of shape (B, L).
        """
        frames = self._listing.frames
        try:
            files = self._files(numbers.tolist(), frames)
        except DataError as error:
            bad = {failure.index: failure for failure in error.failures}
            raise self._unread(indices, where, bad, type(error)) from None
        heads, failed = list[Any](files), dict[int, Failure]()

        for i, file in enumerate(files):
            try:
                heads[i] = images.header(numpy.ascontiguousarray(file).data, _LIMITS)
            except DecodeError as error:
                failed[i] = _of_frame(error, frames, numbers[i])
        if failed:
            raise self._unread(indices, where, failed, DecodeError)
        return files, heads

    def _check_sizes(self, indices: list[int], numbers: Array, where: Array, shapes: list[tuple[int, ...]]) -> None:
        """Refuse sequences whose frames differ in size."""
        frames, failures = self._listing.frames, list[Failure]()
        for i, row in enumerate(where.tolist()):
            other = next((k for k in row if shapes[k] != shapes[row[0]]), None)
            if other is not None:
                first, second = (displayed(frames.names[numbers[k]]) for k in (row[0], other))
                reason = f"frame {second} has the shape {shapes[other]}, where {first} has {shapes[row[0]]}"
                failures.append(Failure(i, reason, source=self._listing.source(indices[i])))
        if failures:
            raise DataError(_OPERATOR, failures, len(indices))

    def _decode(
        self,
        indices: list[int],
        numbers: Array,
        where: Array,
        files: list[Array],
        heads: list[images.Header],
        videos: Any,
    ) -> None:
        """Decode each frame once, into the first sequence that has it, and copy it to the others."""
        flat, length = where.reshape(-1), where.shape[1]
        first = numpy.unique(flat, return_index=True)[1]
        failed: dict[int, Failure] = {}

        def decode(i: int) -> None:
            sequence, place = divmod(int(first[i]), length)
            try:
                images.decode(
                    numpy.ascontiguousarray(files[i]).data,
                    heads[i],
                    _LIMITS,
                    self._image_type,
                    adjust_orientation=self._upright,
                    fast_idct=False,
                    out=videos[sequence][place],
                )
            except DecodeError as error:
                failed[i] = _of_frame(error, self._listing.frames, numbers[i])

        run(decode, len(files), _WORK * sum(video.nbytes for video in videos))
        if failed:
            raise self._unread(indices, where, failed, DecodeError)
        for again in numpy.setdiff1d(numpy.arange(len(flat)), first).tolist():
            (sequence, place), (source, at) = divmod(again, length), divmod(int(first[flat[again]]), length)
            videos[sequence][place] = videos[source][at]

    def _unread(self, indices: list[int], where: Array, failed: dict[int, Failure], kind: type[DataError]) -> DataError:
        """The error for the sequences of frames that cannot be read."""
        failures = []
        for i, row in enumerate(where.tolist()):
            bad = next((failed[k] for k in row if k in failed), None)
            if bad is not None:
                reason = f"frame {displayed(bad.source or '')}: {bad.reason}"
                failures.append(Failure(i, reason, bad.format, self._listing.source(indices[i])))
        return kind(_OPERATOR, failures, len(indices))


class _Form(NamedTuple):
    """Which frames sequences have."""

    length: int
    step: int
    stride: int

    @property
    def span(self) -> int:
        """From the first frame to the last, both included."""
        return (self.length - 1) * self.stride + 1


@dataclass(frozen=True)
class _Sequences(Listing):
    """Sequences by their folders and first frames.

    Attributes:
        frames: The frames of all folders.
        firsts: Which of these each sequence begins with.
        form: Which follow.
    """

    frames: Listing
    firsts: Array
    form: _Form

    def frames_of(self, indices: Any) -> Array:
        """The numbers of the frames of some sequences, of shape (B, L)."""
        behind = numpy.arange(self.form.length) * self.form.stride
        found: Array = self.firsts[indices][:, None] + behind
        return found

    def wanted(self, indices: list[int]) -> list[Wanted]:
        """The frames of some sequences."""
        return self.frames.wanted(list(dict.fromkeys(self.frames_of(indices).ravel().tolist())))

    def sizes_of(self, indices: Any) -> Any:
        """The bytes of the frames of some sequences; -1 where one is missing."""
        numbers, where = numpy.unique(self.frames_of(indices), return_inverse=True)
        sizes = self.frames.sizes_of(numbers)[where].reshape(len(indices), -1)
        return numpy.where((sizes < 0).any(axis=1), -1, sizes.sum(axis=1))

    def labels_of(self, indices: Any) -> Any:
        """Hashes of the names of all frames of some sequences: int32 of shape (B, 2)."""
        ids, firsts = self.frames.ids, self.firsts[indices]
        found = numpy.full(len(firsts), self.form.length, "<u8")
        for k in range(self.form.length):
            found ^= ids[firsts + k * self.form.stride]
            mix(found)
        return found.view("<i4").reshape(len(firsts), 2)

    @_Once
    def contents(self) -> Any:
        """A digest of the frames of each sequence, each read once: uint8 of shape (N, 16), 0 where one is missing."""
        digests = replace(self.frames, chosen=numpy.unique(self.frames_of(self.rows))).contents
        found = numpy.zeros((len(self.firsts), 16), numpy.uint8)
        for i in self.rows.tolist():
            own = digests[self.frames_of([i])[0]]
            if own.any(axis=1).all():
                found[i] = numpy.frombuffer(hashlib.blake2b(own.tobytes(), digest_size=16).digest(), numpy.uint8)
        return found


def _of_frame(error: DecodeError, frames: Listing, number: int) -> Failure:
    """The failure of a frame."""
    (failure,) = error.failures
    return Failure(int(number), failure.reason, failure.format, frames.path(number))


def _memory(shapes: list[tuple[int, ...]]) -> Any:
    """Memory for frames: in one piece where all sequences have one shape."""
    if all(shape == shapes[0] for shape in shapes):
        return empty((len(shapes), *shapes[0]), _BYTE)
    return [empty(shape, _BYTE) for shape in shapes]


def _listed(root: str, form: _Form, patterns: tuple[str, ...], store: Store, *, numbered: bool) -> _Sequences:
    """The sequences of the folders in a folder."""
    root = store.plain(root)
    folders = folders_in(_OPERATOR, root, store, "a folder with a folder of frames for each video")
    folders = [name for name in folders if not name.startswith(".")]
    matches = matcher(patterns, case_sensitive=False)
    found, columns = listed_below(
        _OPERATOR,
        root,
        folders,
        lambda name: name[:1] != b"." and matches(name),
        lambda path, error: unlisted(_OPERATOR, path, error.strerror or str(error)),
        store,
        functools.partial(_arrange, numbered=numbered),
    )
    counts = numpy.maximum((found.counts - form.span) // form.step + 1, 0)
    if not counts.any():
        longest = int(found.counts.argmax()) if folders else 0
        most = f", of which {folders[longest]!r} has most frames: {found.counts[longest]}" if folders else ""
        expected = f"a folder with folders of {form.span} or more frames each"
        raise ArgumentError(_OPERATOR, "file_root", expected, f"{shown(root)} with {len(folders)} folders{most}")
    offsets = numpy.arange(counts.sum()) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    firsts = numpy.repeat(numpy.cumsum(found.counts) - found.counts, counts) + offsets * form.step
    groups = [os.fsencode(f"{folder}#") for folder in folders]
    sequences = found.regrouped(groups, counts, firsts, distinct=not any("#" in folder for folder in folders))
    none = numpy.zeros((0, 0), numpy.int32)
    frames = Listing(root, found, none, **columns)
    return _Sequences(root, sequences, none, frames, firsts, form, store=frames.store)


def _arrange(folder: str, names: list[bytes], *, numbered: bool) -> None:
    """Put the frames of a folder in order."""
    names.sort()
    if not numbered:
        _warn_of_numbers(folder, names)
        return
    if not names:
        raise unlisted(_OPERATOR, folder, "holds no frames")
    parts = [_NUMBER.fullmatch(_stem(name)) for name in names]
    for name, found in zip(names, parts, strict=True):
        if found is None:
            reason = "has no number in its name, by which the frames of its folder are in order"
            raise unlisted(_OPERATOR, os.path.join(folder, os.fsdecode(name)), reason)  # noqa: PTH118
    numbers = [int(found[2]) for found in parts if found is not None]
    order = sorted(range(len(names)), key=numbers.__getitem__)
    names[:] = [names[i] for i in order]
    numbers = [numbers[i] for i in order]
    gaps = [later - earlier for earlier, later in pairwise(numbers)]
    least = min(gaps, default=0)
    wrong = next((i for i, gap in enumerate(gaps) if (gap > least if least else not gap)), None)
    if wrong is not None:
        first, second = (displayed(os.fsdecode(name)) for name in names[wrong : wrong + 2])
        reason = f"has two frames of number {numbers[wrong]}: {first} and {second}"
        if least:
            reason = f"lacks frame {numbers[wrong] + least}, between {first} and {second}"
        raise unlisted(_OPERATOR, folder, reason)


def _stem(name: bytes) -> bytes:
    """A name without its extension."""
    return name.rpartition(b".")[0] or name


def _warn_of_numbers(folder: str, names: list[bytes]) -> None:
    """Warn of frames such as 1, 10, 2, that are numbered in another order than that of their names."""
    if len(set(map(len, names))) < 2:
        return
    parts = [_NUMBER.fullmatch(_stem(name)) for name in names]
    numbers = [int(found[2]) for found in parts if found is not None]
    alike = len(numbers) == len(names) and len({(found[1], found[3]) for found in parts if found is not None}) == 1
    for i, (earlier, later) in enumerate(pairwise(numbers) if alike else ()):
        if later < earlier:
            first, second = (displayed(os.fsdecode(name)) for name in names[i : i + 2])
            warn_caller(
                f"{_OPERATOR}(): frames come in the order of their names, as in DALI: in {displayed(folder)} {second} "
                f"comes after {first}. Give numbered=True for the order of numbers.",
                OrderWarning,
            )
            return
