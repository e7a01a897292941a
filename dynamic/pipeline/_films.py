"""`fn.experimental.inputs.video`: sequences of frames of video files that are fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from dynamic import ArgumentError, Batch, DecodeError
from dynamic._base.origin import Origin
from dynamic.errors import shown
from dynamic.io._video import Video
from dynamic.readers._checks import natural

from ._fed import Fed, FedSource

__all__ = ["FILMS", "Films", "video"]

FILMS = "experimental.inputs.video"  #: its path in `fn`
OPERATOR = f"fn.{FILMS}"
_POLICIES = ("partial", "pad")
#: Arguments without effect here.
_OF_DALIS = frozenset(("affine", "blocking", "bytes_per_sample_hint", "no_copy", "preserve"))


def video(
    *, sequence_length: int, last_sequence_policy: str = "partial", device: str = "cpu", name: str | None = None
) -> Any:
    """Sequences of frames of video files that are fed, one after the other.

    ``pipe.feed_input(name, [file])`` gives it a file as its bytes; several may wait. Each run has the next sequences of
    a file, as many as the batch size of the pipeline, and fewer at its end; then comes the next file. So a long video
    needs memory for a batch of its frames only. After a restart feed the file that a run would have gone on with: its
    sequences go on exactly where they were.

    Args:
        sequence_length: How many frames a sequence has.
        last_sequence_policy: "partial" lets the last sequence of a file be shorter, "pad" adds black frames.
        device: Where the frames are put: "cpu", or "gpu".
        name: The name by which files are fed.

    Returns:
        Frames of shape (frames, height, width, 3) in RGB, layout "FHWC". Keyed draws belong to the number of the file
        and that of the sequence in it.
    """
    raise NotImplementedError  # a pipeline makes `Films` of its arguments


class Films(FedSource):
    """A source of the sequences of frames of video files that were fed.

    Its place is the number of the file, and that of the next sequence in it.

    Args:
        fed: Those files.
        name: The name that they were fed under.
        batch_size: How many sequences a run has.
        arguments: Of `video`.
    """

    _operator = OPERATOR

    def __init__(self, fed: Fed, name: str, batch_size: int, arguments: Mapping[str, Any]) -> None:
        given = {key: value for key, value in arguments.items() if value is not None and key not in _OF_DALIS}
        known = ("sequence_length", "last_sequence_policy", "device")
        for key in given:
            if key not in known:
                raise ArgumentError.unknown(OPERATOR, key, [*known, "name"])
        self._length = natural(OPERATOR, "sequence_length", given.get("sequence_length"), 1)
        policy = given.get("last_sequence_policy", "partial")
        if policy not in _POLICIES:
            raise ArgumentError(OPERATOR, "last_sequence_policy", "'partial' or 'pad'", shown(policy))
        self._pads, self._size = policy == "pad", batch_size
        self._open: tuple[Batch, Video] | None = None
        device = given.get("device", "cpu")
        super().__init__(fed, name, repeat=False, device="gpu" if device == "mixed" else device)

    def _taken(self, size: int | None) -> tuple[Any, ...]:  # noqa: ARG002 - the sizes of the pipeline, and the rest of a file
        here, length = self._here, self._length
        number, first = here.iteration, here.sample
        try:
            video = self._opened(self._source(number))
        except DecodeError:
            self._refuse()
            raise
        count = len(video.table)
        if first and first * length >= count:
            got = f"one of {count} frames, of which none is left"
            raise self._wrong(f"the file whose sequence {first} comes next", got)
        sequences = range(first, min(first + self._size, -(-count // length)))
        stop = min(sequences.stop * length, count)
        there = stop - first * length
        frames = numpy.zeros((len(sequences) * length if self._pads else there, *video.table.shape, 3), numpy.uint8)
        video.read(range(first * length, stop), frames[:there])
        samples = [frames[k * length : (k + 1) * length] for k in range(len(sequences))]
        ids = numpy.array([(number << 32) + k for k in sequences], numpy.uint64)
        names = [f"{self._label}, file {number}, sequence {k}" for k in sequences]
        made = Batch(samples, "FHWC", Origin(here.epoch, ids, names))
        ended = stop == count
        if ended:
            video.close()
            self._open = None
        self._here = here._replace(iteration=number + ended, sample=0 if ended else sequences.stop)
        return (made.to_device(self._device),)

    def _opened(self, files: Batch) -> Video:
        """The file of a batch, open; it stays open from run to run."""
        if self._open is None or self._open[0] is not files:
            (file,) = files.samples if len(files) == 1 else (None,)
            if file is None or file.dtype != numpy.uint8 or file.ndim != 1:
                raise self._wrong("one file as its bytes", f"{len(files)} samples of {files.ndim} dimensions")
            self._open = files, Video(numpy.ascontiguousarray(file).data)
        return self._open[1]

    def _wrong(self, expected: str, got: str) -> ArgumentError:
        """The error of data that was fed, which is taken back."""
        self._refuse()
        return ArgumentError("Pipeline.feed_input", "data", f"{expected} (for {self._label!r})", got)

    def _refuse(self) -> None:
        self._fed.refuse(self._label, self._here.iteration)
