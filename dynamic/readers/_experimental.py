"""The readers that DALI has among its experimental ones: of videos, and of FITS files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Unpack

from dynamic.devices import DeviceLike
from dynamic.errors import ArgumentError, shown

from . import video
from ._checks import flag, word
from ._clips import Form, Rounding, Source
from ._stored import Common, PathLike, called_with
from .fits import Fits

__all__ = ["Fits", "Video"]

_PADDING = {"repeat": "edge", "symmetric": "reflect_1001", "reflect": "reflect_101"}
_PADDINGS = ("none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect")
_ROUNDINGS = {
    "start_down_end_up": (False, True),
    "start_up_end_down": (True, False),
    "all_up": (True, True),
    "all_down": (False, False),
}


class Video(video.Video):
    """Reads sequences of frames of video files: `readers.Video` with more kinds of padding, and uniform sampling.

    Videos may have a variable frame rate. The outputs are those of `readers.Video`. As in DALI, a whole sequence spans
    `sequence_length` times `stride` frames, also those behind its last one.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu"; or "gpu", to which outputs are sent. Frames are decoded on the CPU.
        num_inputs: 0; readers have none.
        filenames: A path, or several.
        file_root: The folder whose folders are classes: each video has the number of its class as its label.
        file_list: A text file with a line ``path label [start [end]]`` for each part of a video that is read; relative
            paths start from its folder. A part without frames is left out with a warning.
        labels: A label for each of `filenames`; an empty list stands for 0, 1, and so on. Without it there are none.
        sequence_length: How many frames a sequence has.
        step: From the first frame of a sequence to that of the next; by default sequences follow each other.
        stride: From one frame of a sequence to the next.
        pad_mode: The last sequence of a part that its end cuts short: "none" leaves it out; "constant" fills it up with
            frames of `fill_value`, "edge" or "repeat" with the last frame, "reflect_1001" or "symmetric" with the
            frames in turned order, and "reflect_101" or "reflect" with these but for the last.
        fill_value: A number of 0 to 255, or one for each channel.
        uniform_sample: Read one sequence of each part, of frames at equal distances from its first to its last.
        enable_frame_num: "scalar" or True, to give the number of the first frame, shape (1,); "sequence" for those of
            all frames, -1 for those of `fill_value`.
        enable_timestamps: Give the times of frames, in seconds after the first frame of the video; -1 for those of
            `fill_value`.
        file_list_format: "timestamps", or "frames": start and end are numbers of frames; negative ones count from the
            end.
        file_list_include_end: Makes no difference, as in DALI: a part ends before the frame of its end.
        file_list_rounding: How start and end become frames: "start_down_end_up", "start_up_end_down", "all_up" or
            "all_down".
        image_type: "RGB", or "YCbCr": the values that are stored, in limited range.
        adjust_orientation: Turn frames upright, as the file says of those of phones. DALI leaves them as they are.
        file_filters: Shell patterns, in either case; in folders, files that match none are no videos. By default the
            endings of usual containers.
        scalar_labels: Whether to give labels without dimensions, as int64: ``labels.torch()`` of a batch suits
            `cross_entropy` of PyTorch. By default they are of shape (1,) and int32, as in DALI.

    Raises:
        ArgumentError: An argument is wrong, or no video is long enough.
        DataError: A file is no video that can be decoded.
    """

    _operator: ClassVar[str] = "experimental.readers.Video"

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
        pad_mode: str | None = "none",
        fill_value: int | Sequence[int] | None = 0,
        uniform_sample: bool | None = False,
        enable_frame_num: bool | Literal["none", "scalar", "sequence"] | None = "none",
        enable_timestamps: bool | None = False,
        file_list_format: Literal["timestamps", "frames"] | None = "timestamps",
        file_list_include_end: bool | None = True,
        file_list_rounding: str | None = "start_down_end_up",
        image_type: Any = "RGB",
        adjust_orientation: bool | None = True,
        file_filters: Sequence[str] | None = None,
        scalar_labels: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        self._scalar_labels = flag(operator, "scalar_labels", scalar_labels)
        padding: Any = word(operator, "pad_mode", "none" if pad_mode is None else pad_mode, _PADDINGS)
        fills: Any = fill_value if isinstance(fill_value, (list, tuple)) else [0 if fill_value is None else fill_value]
        if len(fills) not in (1, 3) or not all(isinstance(value, int) and 0 <= value <= 255 for value in fills):
            expected = "an integer of 0 to 255, or one for each of 3 channels"
            raise ArgumentError(operator, "fill_value", expected, shown(fill_value))
        self._set_pixels("uint8", normalized=False, image_type=image_type, fill=tuple(fills))
        unit = word(operator, "file_list_format", file_list_format or "timestamps", ("timestamps", "frames"))
        rounding = word(operator, "file_list_rounding", file_list_rounding or "start_down_end_up", tuple(_ROUNDINGS))
        flag(operator, "file_list_include_end", file_list_include_end)
        uniform = flag(operator, "uniform_sample", uniform_sample)
        self._start(
            (max_batch_size, name, device, num_inputs),
            Source.checked(operator, filenames, file_root, file_list, labels, file_filters),
            Form.checked(
                operator, sequence_length, stride, step, _PADDING.get(padding, padding), uniform=uniform, behind=True
            ),
            Rounding(*_ROUNDINGS[rounding], unit == "frames"),
            (enable_frame_num, enable_timestamps),
            common,
            constant=False,
            upright=flag(operator, "adjust_orientation", adjust_orientation, default=True),
        )
