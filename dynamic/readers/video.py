"""The readers of sequences of frames of video files."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from inspect import Parameter
from typing import Any, ClassVar, Literal, Unpack, cast

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin
from dynamic._base.pool import get_num_threads, run
from dynamic._lift.argument import DTypeArgument, ImageType, argument
from dynamic._lift.operator import registry
from dynamic.data import Batch
from dynamic.devices import Device, DeviceLike, device_of_call
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DataError, DecodeError, Failure, shown
from dynamic.io._bytes import NotOfTheSample, is_of_the_system
from dynamic.io._video import Colours

from ._checks import flag, natural, word
from ._clips import Clips, Form, Padding, Rounding, Source, listed
from ._reader import Replaced
from ._stored import Common, PathLike, Stored, called_with

__all__ = ["Video", "VideoResize"]

FrameNumbers = bool | Literal["none", "scalar", "sequence"] | None
_BYTE, _FLOAT = numpy.dtype(numpy.uint8), numpy.dtype(numpy.float32)
_WORK = 64  # for each byte of a frame that is decoded
_RESIZE = (
    "antialias",
    "interp_type",
    "mag_filter",
    "max_size",
    "min_filter",
    "mode",
    "resize_longer",
    "resize_shorter",
    "resize_x",
    "resize_y",
    "resize_z",
    "roi_end",
    "roi_relative",
    "roi_start",
    "size",
    "subpixel_scale",
)


class Video(Stored[Clips, tuple[Batch, ...]]):
    """Reads sequences of frames of video files.

    The outputs are a Batch of the frames, layout "FHWC"; of the labels (int32, shape (1,)), where videos have labels;
    and where they are asked for of the numbers (int32) and the times (float64, seconds after the first frame of the
    video) of frames. All frames of a sequence are of one file. Frames are decoded from the key frame before them on,
    bit for bit as FFmpeg decodes them, by PyAV: ``pip install "dynamic-batch[video]"``.

    A number counts frames in the order in which they are shown, from 0. The name of a sequence is its file and its
    first frame, such as ``"walk.mp4#120"``. A state of sequences of other frames, as with another `stride`, is refused,
    as is a file that changes after it was listed.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu"; or "gpu", to which outputs are sent. Frames are decoded on the CPU.
        num_inputs: 0; readers have none.
        filenames: A path, or several.
        file_root: The folder whose folders are classes: each video has the number of its class as its label.
        file_list: A text file with a line ``path label [start [end]]`` for each part of a video that is read; relative
            paths start from its folder. Start and end are seconds after the first frame. A part without frames is left
            out with a warning.
        labels: A label for each of `filenames`; an empty list stands for 0, 1, and so on. Without it there are none.
        sequence_length: How many frames a sequence has.
        step: From the first frame of a sequence to that of the next; by default sequences follow each other.
        stride: From one frame of a sequence to the next.
        pad_sequences: Read the last sequence of a part, too, that is cut short by its end: its other frames are of
            zeros, and their numbers and times -1.
        enable_frame_num: "scalar" or True, to give the number of the first frame, shape (1,); "sequence" for those of
            all frames.
        enable_timestamps: Give the times of frames.
        file_list_frame_num: Start and end are numbers of frames; negative ones count from the end. Fractions are
            rounded into the part.
        file_list_include_preceding_frame: Round times out of the part: begin with the frame that is shown at the start,
            and end with that at the end. By default only frames that begin within the part belong to it.
        dtype: Element type of frames, uint8 or float32.
        normalized: Divide float32 by 255.
        image_type: "RGB", or "YCbCr": the values that are stored, in limited range.
        skip_vfr_check: Take videos of a variable frame rate.
        adjust_orientation: Turn frames upright, as the file says of those of phones. DALI leaves them as they are.
        file_filters: Shell patterns, in either case; in folders, files that match none are no videos. By default the
            endings of usual containers.
        channels: 3.
        additional_decode_surfaces: Makes no difference.
        scalar_labels: Whether to give labels without dimensions, as int64: ``labels.torch()`` of a batch suits
            `cross_entropy` of PyTorch. By default they are of shape (1,) and int32, as in DALI.

    Raises:
        ArgumentError: An argument is wrong, or no video is long enough.
        DataError: A file is no video that can be decoded, or has a variable frame rate.

    >>> import pathlib, tempfile
    >>> import av
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "walk.avi"
    >>> with av.open(path, "w") as file:
    ...     stream = file.add_stream("mjpeg", rate=25)
    ...     stream.width, stream.height, stream.pix_fmt = 32, 16, "yuvj420p"
    ...     for packet in [*stream.encode(av.VideoFrame(32, 16, "yuvj420p")), *stream.encode()] * 5:
    ...         file.mux(packet)
    >>> reader = ndd.readers.Video(filenames=path, sequence_length=3, step=1, enable_frame_num="sequence")
    >>> for videos, numbers in reader.next_epoch(batch_size=2):
    ...     print(videos.origin.names, videos.layout, videos.shape, numbers.tolist())
    ['walk.avi#0', 'walk.avi#1'] FHWC [(3, 16, 32, 3), (3, 16, 32, 3)] [[0, 1, 2], [1, 2, 3]]
    ['walk.avi#2'] FHWC [(3, 16, 32, 3)] [[2, 3, 4]]
    """

    _operator: ClassVar[str] = "readers.Video"
    _told_of: ClassVar[str] = "the name and the label"
    _scalar_labels = False  # of one that was pickled before there was the argument

    @called_with("filenames", "file_root", "file_list")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: DeviceLike = "cpu",
        num_inputs: int | None = None,
        *,
        filenames: PathLike | Sequence[PathLike] | None = None,
        file_root: PathLike | None = None,
        file_list: PathLike | None = None,
        labels: Sequence[int] | None = None,
        sequence_length: int,
        step: int | None = -1,
        stride: int | None = 1,
        pad_sequences: bool | None = False,
        enable_frame_num: FrameNumbers = "none",
        enable_timestamps: bool | None = False,
        file_list_frame_num: bool | None = False,
        file_list_include_preceding_frame: bool | None = False,
        dtype: Any = "uint8",
        normalized: bool | None = False,
        image_type: Any = "RGB",
        skip_vfr_check: bool | None = False,
        adjust_orientation: bool | None = True,
        file_filters: Sequence[str] | None = None,
        channels: int | None = 3,
        additional_decode_surfaces: int | None = 2,
        scalar_labels: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        self._scalar_labels = flag(self._operator, "scalar_labels", scalar_labels)
        self._begin(
            (max_batch_size, name, device, num_inputs),
            (filenames, file_root, file_list, labels, file_filters),
            (sequence_length, stride, step, pad_sequences),
            (enable_frame_num, enable_timestamps),
            (file_list_frame_num, file_list_include_preceding_frame),
            (dtype, normalized, image_type, skip_vfr_check, adjust_orientation),
            (channels, additional_decode_surfaces),
            common,
        )

    def _begin(
        self, first: Any, source: Any, form: Any, beside: Any, parts: Any, pixels: Any, other: Any, common: Common
    ) -> None:
        """Take the arguments of DALI's readers for GPUs."""
        operator = self._operator
        in_frames = flag(operator, "file_list_frame_num", parts[0])
        wide = flag(operator, "file_list_include_preceding_frame", parts[1]) and not in_frames
        dtype, normalized, image_type, unchecked, upright = pixels
        self._set_pixels(dtype, normalized, image_type)
        if natural(operator, "channels", 3 if other[0] is None else other[0]) != 3:
            raise ArgumentError(operator, "channels", "3", shown(other[0]))
        natural(operator, "additional_decode_surfaces", 2 if other[1] is None else other[1])
        padding: Padding = "constant" if flag(operator, "pad_sequences", form[3]) else "none"
        self._start(
            first,
            Source.checked(operator, *source),
            Form.checked(operator, form[0], form[1], form[2], padding, behind=False),
            Rounding(not wide, wide, in_frames),
            beside,
            common,
            constant=not flag(operator, "skip_vfr_check", unchecked),
            upright=flag(operator, "adjust_orientation", upright, default=True),
        )

    def _set_pixels(self, dtype: Any, normalized: Any, image_type: Any, fill: tuple[int, ...] = (0,)) -> None:
        """The type, range and colours of frames, and the colour of those that are missing."""
        operator = self._operator
        kind = argument(operator, Parameter("dtype", Parameter.KEYWORD_ONLY, default=None), DTypeArgument)
        self._dtype = numpy_dtype(kind.one("uint8" if dtype is None else dtype))
        if self._dtype not in (_BYTE, _FLOAT):
            raise ArgumentError(operator, "dtype", "uint8 or float32", shown(dtype))
        self._normalized = flag(operator, "normalized", normalized)
        if self._normalized and self._dtype == _BYTE:
            raise ArgumentError(operator, "normalized", "False unless dtype is 'float32'", "True")
        colours = argument(operator, Parameter("image_type", Parameter.KEYWORD_ONLY, default="RGB"), ImageType)
        self._colours = cast("Colours", colours.one("RGB" if image_type is None else image_type))
        if self._colours not in ("RGB", "YCbCr"):
            raise ArgumentError(operator, "image_type", "'RGB' or 'YCbCr'", shown(image_type))
        self._fill = fill

    def _start(
        self,
        first: Any,
        source: Source,
        form: Form,
        rounding: Rounding,
        beside: Any,
        common: Common,
        *,
        constant: bool,
        upright: bool,
    ) -> None:
        """List the sequences."""
        operator, (max_batch_size, name, device, num_inputs) = self._operator, first
        try:
            self._device = device_of_call(device, operator) or Device.CPU
        except ArgumentError as error:
            raise ArgumentError(operator, "device", "'cpu' or 'gpu'", shown(device), error.hint) from None
        numbers = {None: "none", False: "none", True: "scalar"}.get(beside[0], beside[0])
        self._numbers = word(operator, "enable_frame_num", numbers, ("none", "scalar", "sequence"))
        self._times = flag(operator, "enable_timestamps", beside[1])
        self._labelled = source.is_labelled
        list_samples = functools.partial(listed, source, form, rounding, constant=constant, upright=upright)
        super().__init__(max_batch_size, name, "cpu", num_inputs, list_samples, **common)

    def _told(self, listed: Any, rows: Any) -> Iterable[tuple[Any, ...]]:
        return zip(listed.take(rows.tolist()), listed.labels[rows].tolist(), strict=True)

    def _groups(self, listed: Any, rows: Any) -> Iterable[tuple[Array, Sequence[Any]]]:
        labels, numbers = numpy.unique(listed.labels[rows], return_inverse=True)
        if listed.classes is not None:
            yield numbers, [listed.classes[label] for label in labels.tolist()]
        yield numbers, labels.tolist()

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, by label, where `file_root` has their folders; else None."""
        classes: tuple[str, ...] | None = self._listing.classes
        return classes

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        numbers = listing.frames_of(numpy.array(indices, numpy.int64))
        outputs = [self._converted(self._decoded(indices, numbers), origin)]
        if self._labelled:
            labels = listing.labels[indices]
            given = labels.astype(numpy.int64) if self._scalar_labels else labels.astype(numpy.int32)[:, None]
            outputs.append(Batch(given, origin=origin))
        if self._numbers != "none":
            given = numbers if self._numbers == "sequence" else listing.firsts[indices][:, None]
            outputs.append(Batch(given.astype(numpy.int32), origin=origin))
        if self._times:
            times = numpy.full(numbers.shape, -1.0)
            for row, video in enumerate(listing.of[indices].tolist()):
                there = numbers[row] >= 0
                times[row, there] = listing.tables[video].seconds[numbers[row, there]]
            outputs.append(Batch(times, origin=origin))
        return tuple(outputs if self._device == Device.CPU else [each.to_device(self._device) for each in outputs])

    def _converted(self, videos: Any, origin: Origin) -> Batch:
        """Frames in the type that is asked for."""
        if self._dtype == _FLOAT:
            dense = isinstance(videos, numpy.ndarray)
            outs = empty(videos.shape, _FLOAT) if dense else [empty(video.shape, _FLOAT) for video in videos]
            for video, out in zip([videos] if dense else videos, [outs] if dense else outs, strict=True):
                if self._normalized:
                    numpy.divide(video, _FLOAT.type(255), out=out)
                else:
                    out[...] = video
            videos = outs
        return Batch(videos, "FHWC", origin, dtype=self._dtype, ndim=4)

    def _decoded(self, indices: list[int], numbers: Array) -> Any:
        """The frames of sequences, in one piece of memory where all have one shape."""
        listing = self._listing
        of = listing.of[indices].tolist()
        shapes = [(numbers.shape[1], *listing.tables[video].shape, 3) for video in of]
        if len(set(shapes)) == 1:
            outs = empty((len(shapes), *shapes[0]), _BYTE)
        else:
            outs = [empty(shape, _BYTE) for shape in shapes]
        for out, row in zip(outs, numbers, strict=True):
            if (missing := row < 0).any():
                out[missing] = self._fill
        groups: dict[int, list[int]] = {}
        for place, video in enumerate(of):
            groups.setdefault(video, []).append(place)
        failures: dict[int, Failure] = {}
        kind: type[DataError] = DecodeError
        threads = max(1, get_num_threads() // max(1, len(groups)))

        def decode(video: int) -> None:
            nonlocal kind
            places = groups[video]
            clips = [(numbers[place].tolist(), outs[place]) for place in places]
            try:
                failed: dict[int, Any] = listing.decode(video, clips, self._colours, threads)
            except OSError as error:
                if not is_of_the_system(error):
                    raise
                kind = Replaced if isinstance(error, NotOfTheSample) else kind
                failed = dict.fromkeys(range(len(places)), error)
            except DecodeError as error:
                failed = dict.fromkeys(range(len(places)), error)
            for k, why in failed.items():
                failures[places[k]] = _failure(places[k], why, listing.source(indices[places[k]]))

        videos, store = list(groups), listing.videos.store
        if store.far:
            store.each(lambda k: decode(videos[k]), len(videos))
        else:
            run(lambda k: decode(videos[k]), len(videos), _WORK * sum(out.nbytes for out in outs))
        if failures:
            raise kind(self._operator, [failures[i] for i in sorted(failures)], len(indices))
        return outs


def _failure(place: int, error: Exception, source: str) -> Failure:
    """The failure of a sample, by the error of its file."""
    if isinstance(error, DecodeError):
        return Failure(place, error.failures[0].reason, error.failures[0].format, source)
    return Failure(place, getattr(error, "strerror", None) or str(error), source=source)


class VideoResize(Video):
    """Reads sequences of frames of video files, and resizes them.

    It is `readers.Video` with the arguments of `resize`, which makes the frames another size: those without a size stay
    as they are.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu"; or "gpu", to which frames are sent and where they are resized.
        num_inputs: 0; readers have none.
        filenames: A path, or several.
        file_root: The folder whose folders are classes.
        file_list: A text file with a line ``path label [start [end]]`` for each part of a video that is read.
        labels: A label for each of `filenames`.
        sequence_length: How many frames a sequence has.
        step: From the first frame of a sequence to that of the next; by default sequences follow each other.
        stride: From one frame of a sequence to the next.
        pad_sequences: Read the last sequence of a part, too, that is cut short by its end.
        enable_frame_num: "scalar", "sequence" or "none".
        enable_timestamps: Give the times of frames.
        file_list_frame_num: Start and end are numbers of frames.
        file_list_include_preceding_frame: Round times out of the part.
        dtype: Element type of frames, uint8 or float32.
        normalized: Divide float32 by 255.
        image_type: "RGB" or "YCbCr".
        skip_vfr_check: Take videos of a variable frame rate.
        adjust_orientation: Turn frames upright before they are resized.
        file_filters: Shell patterns of the names of videos in folders.
        antialias: As of `resize`, and so are the others down to `subpixel_scale`.
        interp_type: Kind of interpolation.
        mag_filter: That of enlarging.
        max_size: Limit of the size.
        min_filter: That of reducing.
        mode: "default", "stretch", "not_larger" or "not_smaller".
        resize_longer: The longer side.
        resize_shorter: The shorter side.
        resize_x: The width.
        resize_y: The height.
        resize_z: The depth, which frames have not.
        roi_end: End of the region that is resized.
        roi_relative: Whether the region is relative to the size of frames.
        roi_start: Start of the region.
        size: Height and width.
        subpixel_scale: Whether the region is adjusted to rounded sizes.
        channels: 3.
        additional_decode_surfaces: Makes no difference.
        minibatch_size: Makes no difference.
        temp_buffer_hint: Makes no difference.
        scalar_labels: Whether to give labels without dimensions, as int64: ``labels.torch()`` of a batch suits
            `cross_entropy` of PyTorch. By default they are of shape (1,) and int32, as in DALI.

    Raises:
        ArgumentError: An argument is wrong, or no video is long enough.
        DataError: A file is no video that can be decoded, or has a variable frame rate.
    """

    _operator: ClassVar[str] = "readers.VideoResize"

    @called_with("filenames", "file_root", "file_list")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: DeviceLike = "cpu",
        num_inputs: int | None = None,
        *,
        filenames: PathLike | Sequence[PathLike] | None = None,
        file_root: PathLike | None = None,
        file_list: PathLike | None = None,
        labels: Sequence[int] | None = None,
        sequence_length: int,
        step: int | None = -1,
        stride: int | None = 1,
        pad_sequences: bool | None = False,
        enable_frame_num: FrameNumbers = "none",
        enable_timestamps: bool | None = False,
        file_list_frame_num: bool | None = False,
        file_list_include_preceding_frame: bool | None = False,
        dtype: Any = "uint8",
        normalized: bool | None = False,
        image_type: Any = "RGB",
        skip_vfr_check: bool | None = False,
        adjust_orientation: bool | None = True,
        file_filters: Sequence[str] | None = None,
        antialias: bool | None = None,
        interp_type: Any = None,
        mag_filter: Any = None,
        max_size: Any = None,
        min_filter: Any = None,
        mode: Any = None,
        resize_longer: Any = None,
        resize_shorter: Any = None,
        resize_x: Any = None,
        resize_y: Any = None,
        resize_z: Any = None,
        roi_end: Any = None,
        roi_relative: bool | None = None,
        roi_start: Any = None,
        size: Any = None,
        subpixel_scale: bool | None = None,
        channels: int | None = 3,
        additional_decode_surfaces: int | None = 2,
        minibatch_size: int | None = 32,
        temp_buffer_hint: int | None = 0,
        scalar_labels: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        self._scalar_labels = flag(self._operator, "scalar_labels", scalar_labels)
        for hint, number in (("minibatch_size", minibatch_size), ("temp_buffer_hint", temp_buffer_hint)):
            natural(self._operator, hint, number or 0)
        given = locals()
        self._resizing = {name: given[name] for name in _RESIZE if given[name] is not None}
        self._begin(
            (max_batch_size, name, device, num_inputs),
            (filenames, file_root, file_list, labels, file_filters),
            (sequence_length, stride, step, pad_sequences),
            (enable_frame_num, enable_timestamps),
            (file_list_frame_num, file_list_include_preceding_frame),
            (dtype, normalized, image_type, skip_vfr_check, adjust_orientation),
            (channels, additional_decode_surfaces),
            common,
        )

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        videos, *others = super()._read(indices, origin)
        if self._resizing:
            videos = registry["resize"](videos, **self._resizing)
        return (videos, *others)
