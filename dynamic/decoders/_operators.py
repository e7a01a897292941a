"""The operators: images from encoded bytes, windows of them, and NumPy's arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np  # noqa: ICN001 - `numpy` is an operator here

from dynamic._arrays.array import Array
from dynamic._base.docstrings import described_as
from dynamic._lift.argument import (
    GIVEN,
    Between,
    DTypeArgument,
    ImageType,
    PerSample,
    Several,
    Three,
    Two,
    Word,
    from_host,
    without_effect,
)
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.devices import DeviceLike
from dynamic.dtypes import convert
from dynamic.errors import ArgumentError, DataError
from dynamic.io.file import opened as opened_files
from dynamic.kernels.cpu import images, places
from dynamic.kernels.cpu.strips import shared
from dynamic.random._drawing import random_operator
from dynamic.random._rng import Source
from dynamic.random._windows import drawn

from ._arrays import OPERATOR, plan_arrays
from ._clips import Clip, plan_video
from ._files import File, Refused, buffer, on_gpu, opened, reduced
from ._photos import Photos, peeked, photos
from ._sound import Sound, plan_sound

__all__ = [
    "audio",
    "image",
    "image_crop",
    "image_random_crop",
    "image_slice",
    "imread",
    "numpy",
    "peek_image_shape",
    "video",
]


_AtLeastOne: TypeAlias = Annotated[int, Between(1)]
_Extent: TypeAlias = Annotated[float, Between(0)]
_Position: TypeAlias = Annotated[float, Between(0, 1)]
_Rounding: TypeAlias = Annotated[str, Word({"round": (), "truncate": ()})]
_Whole: TypeAlias = int | Several[int]
_Parts: TypeAlias = float | Several[float]
_Formats: TypeAlias = Several[Annotated[str, Word(images.FORMATS)]]
_OnError: TypeAlias = Annotated[str, Word({"raise": (), "skip": (), "null": ()})]
_Sides: TypeAlias = Two[_AtLeastOne]
_Whole8: TypeAlias = Annotated[int, Between(0, 255)]
_Padding: TypeAlias = Annotated[
    str,
    Word(
        {"none": (), "constant": (), "edge": ("repeat",), "reflect_1001": ("symmetric",), "reflect_101": ("reflect",)}
    ),
]
_LIMITS = images.Limits()


def _plan_files(call: Call, window: Callable[..., places.Window] | None = None) -> Plan:
    """The headers of files, and the size of the image or window in each."""
    found = photos(call, window)
    if found is not None:
        return _plan_of_photos(call, found)
    return _plan_of(call, call.each(functools.partial(opened, call.name, window), of_values=True))


def _plan_of_photos(call: Call, found: Photos) -> Plan:
    on_error, at_least = call.fixed["on_error"], call.fixed["at_least"]
    if at_least is not None:
        found.reduced(at_least)
    return Plan(found.shapes(), call.asked, "HWC", native=found.fill, weight=8.0, on_error=on_error)


def _plan_of(call: Call, found: Sequence[tuple[Shape, File | Refused]]) -> Plan:
    if call.fixed["at_least"] is not None:
        found = reduced(found, call.fixed["at_least"])
    shapes, files = [shape for shape, _ in found], [file for _, file in found]
    return Plan(shapes, call.asked, "HWC", data=files, weight=8.0, on_error=call.fixed["on_error"])


#: Arguments of DALI that change no result.
_OF_DECODERS = (
    "affine",
    "device_memory_padding",
    "device_memory_padding_jpeg2k",
    "host_memory_padding",
    "host_memory_padding_jpeg2k",
    "hw_decoder_load",
    "hybrid_huffman_threshold",
    "memory_stats",
    "preallocate_height_hint",
    "preallocate_width_hint",
    "split_stages",
    "use_chunk_allocator",
)
_OF_CACHES = ("cache_batch_copy", "cache_debug", "cache_size", "cache_threshold", "cache_type")


@operator(dtypes="uint8", plan=_plan_files, gpu=on_gpu, name="decoders.image")
@from_host
@without_effect(*_OF_DECODERS, *_OF_CACHES)
def image(
    encoded: Array,
    /,
    *,
    adjust_orientation: bool = True,
    dtype: DTypeArgument = "uint8",
    jpeg_fancy_upsampling: bool = False,
    output_type: ImageType = "RGB",
    use_fast_idct: bool = False,
    max_pixels: _AtLeastOne = _LIMITS.pixels,
    max_scans: _AtLeastOne = _LIMITS.scans,
    max_encoded_bytes: _AtLeastOne = _LIMITS.encoded_bytes,
    formats: _Formats | None = None,
    on_error: _OnError = "raise",
    at_least: _Sides | None = None,
    plan: File | Refused = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decode image files, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    With ``device="gpu"`` the images are on a GPU, and JPEG is decoded there: its pixels are a few levels off those of
    the CPU, and damage within its coded data may not be found.

    Args:
        adjust_orientation: Turn the image upright as its EXIF orientation says.
        dtype: Element type. The full range of the file's values becomes the full range of the type, [0, 1] for floats.
        jpeg_fancy_upsampling: Without effect, as on DALI's CPU decoder: colour is always interpolated.
        output_type: "RGB", "BGR", "GRAY", "YCbCr" (BT.601, limited range) or "ANY_DATA", the file's own channels.
        use_fast_idct: Decode JPEG a tenth faster, with values up to 7 off.
        max_pixels: The largest width times height.
        max_scans: The most passes over a progressive JPEG.
        max_encoded_bytes: The largest file.
        formats: The formats that are read, such as ``("JPEG", "PNG")``; by default all. Files of others are refused.
        on_error: For files that cannot be decoded: "raise" one error that names all of them; "skip" them,
            which leaves a smaller Batch; or "null", an image without pixels in the place of each.
        at_least: A height and width, for speed over exact pixels. Each JPEG is decoded at 1, 1/2, 1/4 or 1/8 of its
            size: the smallest at which the image, or the window, is at least so large. By default all are decoded as
            they are, and so are other formats.

    Returns:
        Images of shape (height, width, channels), layout "HWC". Alpha is dropped unless "ANY_DATA" is asked for. Pixels
        of a JPEG in RGB are those of libjpeg-turbo, bit for bit. The image of "null" has shape (0, 0, channels).

    Raises:
        DecodeError: Some samples are no image (UnsupportedImage), end too early (TruncatedImage), contradict their
            format (CorruptImage) or exceed a limit (ImageTooLarge); the message names all of them. A file that is not
            in a Batch cannot be skipped: "skip" raises its error.

    >>> ndd.decoders.image(b"P5 2 1 255 " + bytes([0, 255]), output_type="GRAY").tolist()
    [[[0], [255]]]
    """
    plan.decode(out)
    return out


_CROP, _SLICE = "decoders.image_crop", "decoders.image_slice"


def _window_of_crop(size: tuple[int, ...], **where: Any) -> places.Window:
    """The window that the arguments of `image_crop` say, in an image of some height and width."""
    return places.cropped(_CROP, size, "HW", out_of_bounds_policy="inside", **where)


@operator(dtypes="uint8", plan=functools.partial(_plan_files, window=_window_of_crop), gpu=on_gpu, name=_CROP)
@from_host
@without_effect(*_OF_DECODERS)
@described_as(image)
def image_crop(
    encoded: Array,
    /,
    *,
    adjust_orientation: bool = True,
    crop: PerSample[Two[_Extent] | None] = None,
    crop_d: PerSample[_Extent | None] = None,
    crop_h: PerSample[_Extent | None] = None,
    crop_w: PerSample[_Extent | None] = None,
    crop_pos_x: PerSample[_Position] = 0.5,
    crop_pos_y: PerSample[_Position] = 0.5,
    crop_pos_z: PerSample[_Position] = 0.5,
    dtype: DTypeArgument = "uint8",
    jpeg_fancy_upsampling: bool = False,
    output_type: ImageType = "RGB",
    rounding: _Rounding = "round",
    use_fast_idct: bool = False,
    max_pixels: _AtLeastOne = _LIMITS.pixels,
    max_scans: _AtLeastOne = _LIMITS.scans,
    max_encoded_bytes: _AtLeastOne = _LIMITS.encoded_bytes,
    formats: _Formats | None = None,
    on_error: _OnError = "raise",
    at_least: _Sides | None = None,
    plan: File | Refused = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decode a window of each image file: as `image` and then `crop`, and faster.

    Rows of a JPEG below the window are not decoded, so damage there is not found; progressive files are decoded whole.

    Args:
        adjust_orientation: Turn the image upright as its EXIF orientation says; the window is one of the upright image.
        crop: Height and width of the window; 0 is all, and fractions are cut off.
        crop_d: Without effect: images have no depth.
        crop_h: Its height, instead of `crop`.
        crop_w: Its width, instead of `crop`.
        crop_pos_x: Where it lies: 0 at the left edge, 1 at the right one.
        crop_pos_y: Where it lies: 0 at the upper edge, 1 at the lower one.
        crop_pos_z: Without effect.
        rounding: How the place becomes whole: "round" (half away from zero) or "truncate".
        max_pixels: The largest width times height of the whole image.

    Returns:
        Windows of shape (height, width, channels), layout "HWC": the pixels that `image` would give, bit for bit.

    Raises:
        ArgumentError: A window is larger than its image.
        DecodeError: Some samples are no image; the message names all of them. See `image`.

    >>> file = b"P5 3 1 255 " + bytes([5, 6, 7])
    >>> ndd.decoders.image_crop(file, crop=(1, 2), crop_pos_x=1.0, output_type="GRAY").tolist()
    [[[6], [7]]]
    """
    plan.decode(out)
    return out


def _window_of_slice(size: Shape, anchor: Array = None, extent: Array = None, **where: Any) -> places.Window:
    """The window that the arguments of `image_slice` say, in an image of some height and width."""
    return places.sliced(_SLICE, size, "HW", anchor, extent, out_of_bounds_policy="inside", **where)


@operator(dtypes="uint8", plan=functools.partial(_plan_files, window=_window_of_slice), gpu=on_gpu, name=_SLICE)
@from_host
@without_effect(*_OF_DECODERS)
@described_as(image)
def image_slice(
    encoded: Array,
    anchor: Array = None,
    extent: Array = None,
    /,
    *,
    adjust_orientation: bool = True,
    axes: PerSample[int | Several[int] | None] = None,
    axis_names: str = "WH",
    dtype: DTypeArgument = "uint8",
    end: PerSample[_Whole | None] = None,
    jpeg_fancy_upsampling: bool = False,
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    output_type: ImageType = "RGB",
    rel_end: PerSample[_Parts | None] = None,
    rel_shape: PerSample[_Parts | None] = None,
    rel_start: PerSample[_Parts | None] = None,
    shape: PerSample[_Whole | None] = None,
    start: PerSample[_Whole | None] = None,
    use_fast_idct: bool = False,
    max_pixels: _AtLeastOne = _LIMITS.pixels,
    max_scans: _AtLeastOne = _LIMITS.scans,
    max_encoded_bytes: _AtLeastOne = _LIMITS.encoded_bytes,
    formats: _Formats | None = None,
    on_error: _OnError = "raise",
    at_least: _Sides | None = None,
    plan: File | Refused = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decode a window of each image file: as `image` and then `slice`, and faster.

    An anchor and an extent may be given as inputs instead of by name: integers are positions, floats parts of the
    whole, in the order of the axes. Rows of a JPEG below the window are not decoded, so damage there is not found;
    progressive files are decoded whole.

    Args:
        adjust_orientation: Turn the image upright as its EXIF orientation says; the window is one of the upright image.
        axes: The dimensions that are sliced, by number: 0 is the height and 1 the width.
        axis_names: The same by letters, where `axes` is not given. Width comes first by default.
        end: Where the window ends; by default where the image does.
        normalized_anchor: Whether an anchor of floats is a part of the whole, and not a position.
        normalized_shape: Whether an extent of floats is a part of the whole, and not a size.
        rel_end: Where the window ends, as a part of the whole.
        rel_shape: The size of the window, as a part of the whole.
        rel_start: Where the window begins, as a part of the whole.
        shape: The size of the window.
        start: Where the window begins; by default where the image does.
        max_pixels: The largest width times height of the whole image.

    Returns:
        Windows of shape (height, width, channels), layout "HWC": the pixels that `image` would give, bit for bit.

    Raises:
        ArgumentError: A window is not inside of its image, arguments contradict each other, or there are too many or
            too few numbers for the axes.
        DecodeError: Some samples are no image; the message names all of them. See `image`.

    >>> file = b"P5 3 1 255 " + bytes([5, 6, 7])
    >>> ndd.decoders.image_slice(file, start=1, axis_names="W", output_type="GRAY").tolist()
    [[[6], [7]]]
    """
    plan.decode(out)
    return out


if TYPE_CHECKING:
    _Range: TypeAlias = Sequence[float]
    _Count: TypeAlias = int
    _Attempts: TypeAlias = int
    _DType: TypeAlias = Any
    _ImageType: TypeAlias = Any
    _Word: TypeAlias = str
    _Names: TypeAlias = Sequence[str] | None
    _Least: TypeAlias = Sequence[int] | None
else:
    _Range = tuple[float, float]
    _Count = Annotated[int, Between(1)]
    _Attempts = Annotated[int, Between(1, 10_000)]
    _DType, _ImageType, _Word, _Names, _Least = DTypeArgument, ImageType, _OnError, _Formats | None, _Sides | None


def _plan_random(call: Call) -> Plan:
    """As `_plan_files`, with a random window of each image; a file that is no image has a draw too."""
    at_once = photos(call, parts=True)
    if at_once is not None:
        return _plan_of_photos(call, at_once.at(drawn(call, at_once.sizes())))
    found = call.each(functools.partial(opened, call.name, None), of_values=True)
    extents = [(shape[0], shape[1]) if isinstance(file, File) else (1, 1) for shape, file in found]
    windows = drawn(call, extents).tolist()
    parts = [
        ((*size, shape[2]), file._replace(corner=corner)) if isinstance(file, File) else (shape, file)
        for (shape, file), (corner, size) in zip(found, windows, strict=True)
    ]
    return _plan_of(call, parts)


@random_operator(dtypes="uint8", plan=_plan_random, gpu=on_gpu, name="decoders.image_random_crop")
@from_host
@without_effect(*_OF_DECODERS)
@described_as(image)
def image_random_crop(
    encoded: Any,
    /,
    *,
    adjust_orientation: bool = True,
    dtype: _DType = "uint8",
    jpeg_fancy_upsampling: bool = False,
    num_attempts: _Attempts = 10,
    output_type: _ImageType = "RGB",
    random_area: _Range = (0.08, 1.0),
    random_aspect_ratio: _Range = (3 / 4, 4 / 3),
    use_fast_idct: bool = False,
    max_pixels: _Count = _LIMITS.pixels,
    max_scans: _Count = _LIMITS.scans,
    max_encoded_bytes: _Count = _LIMITS.encoded_bytes,
    formats: _Names = None,
    on_error: _Word = "raise",
    at_least: _Least = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    rng: Source | None = None,
    plan: File | Refused = GIVEN,
    out: Array = GIVEN,
) -> None:
    """Decode a random window of each image file: the one that `random_crop_generator` draws, as `image_slice` decodes.

    Args:
        encoded: Files, each as its bytes.
        adjust_orientation: Turn the image upright as its EXIF orientation says; the window is one of the upright image.
        num_attempts: How often to draw before giving up, at most 10,000.
        random_area: The least and the most area, as a part of that of the image.
        random_aspect_ratio: The least and the largest width / height, more than 0.
        max_pixels: The largest width times height of the whole image.
        batch_size: Number of samples; a Batch of files, and a keyed `rng`, say it too.
        device: Where the result is; by default on the CPU, as the files are.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Returns:
        Windows of shape (height, width, channels), layout "HWC": the pixels that `image` would give, bit for bit.

    Raises:
        ArgumentError: A range is empty or not positive.
        DecodeError: Some samples are no image; the message names all of them. See `image`. With "skip" and "null"
            there is a draw for every file, and the others stay the same.

    >>> file = b"P5 3 1 255 " + bytes([5, 6, 7])
    >>> ndd.decoders.image_random_crop(file, output_type="GRAY", rng=ndd.random.RNG(1)).shape
    (1, 1, 1)
    """
    plan.decode(out)


def _plan_peek(call: Call) -> Plan:
    return Plan((3,), call.asked, None, ndim=1, native=peeked, weight=0.0, on_error=call.fixed["on_error"])


@operator(dtypes="uint8", plan=_plan_peek)
@described_as(image)
def peek_image_shape(
    encoded: Array,
    /,
    *,
    adjust_orientation: bool = True,
    dtype: DTypeArgument = "int64",
    image_type: ImageType = "RGB",
    max_pixels: _AtLeastOne = _LIMITS.pixels,
    max_encoded_bytes: _AtLeastOne = _LIMITS.encoded_bytes,
    formats: _Formats | None = None,
    on_error: _OnError = "raise",
    out: Array = GIVEN,
) -> Array:
    """Read the shape of images from the headers of their files, without decoding them.

    Args:
        adjust_orientation: Give the shape of the image turned upright as its EXIF orientation says.
        dtype: Element type of the result.
        image_type: Colour space that it would be decoded to; it decides the number of channels.
        on_error: As of `image`; "null" gives an empty shape, of no numbers.

    Returns:
        Height, width and channels of each image: shape (3,).

    Raises:
        DecodeError: Some samples are no image; the message names all of them.

    >>> ndd.peek_image_shape(b"P5 2 1 255 " + bytes([0, 255])).tolist()
    [1, 2, 3]
    """
    allowed: Any = formats
    limits = images.Limits(max_pixels, _LIMITS.scans, max_encoded_bytes, allowed)
    head = images.header(buffer(encoded, "peek_image_shape"), limits)
    channels = images.convert.channels(head.colours, str(image_type), head.extra)
    out[...] = head.shape(channels, adjust_orientation=adjust_orientation)
    return out


@operator(dtypes="uint8", plan=plan_sound, name="decoders.audio")
def audio(
    encoded: Array,
    /,
    *,
    downmix: bool = False,
    dtype: DTypeArgument = "float32",
    quality: Annotated[float, Between(0, 100)] = 50.0,
    sample_rate: PerSample[_Extent] = 0.0,
    max_values: _AtLeastOne = 2**28,
    plan: Sound = GIVEN,
    out: tuple[Array, Array] = GIVEN,
) -> None:
    """Decode sound files, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    WAV of plain numbers needs nothing else, nor does ordinary FLAC where the native library is compiled. OGG (Vorbis
    and Opus), MP3, AIFF and WAV of other codes need the extra `sound`.

    Args:
        downmix: Make one channel of all, by their mean.
        dtype: Element type. The range of the file's values becomes the range of the type, [-1, 1] for floats.
        quality: Of the resampling, as in `audio_resample`.
        sample_rate: The rate to resample to, in hertz; 0 leaves that of the file.
        max_values: The most values of a file and of its result, those of all channels together.

    Returns:
        Sound of shape (values, channels), of shape (values,) with `downmix`; and the sample rate of each, of float32.

    Raises:
        DecodeError: Some samples are no sound, end too early, contradict their format or exceed the limit; the message
            names all of them.

    >>> import io, wave
    >>> file = io.BytesIO()
    >>> with wave.open(file, "wb") as made:
    ...     made.setparams((1, 2, 8000, 0, "NONE", ""))
    ...     made.writeframes(numpy.array([0, 16384, -32768], "<i2").tobytes())
    >>> sound, rate = ndd.decoders.audio(file.getvalue())
    >>> sound.tolist(), rate.item()
    ([[0.0], [0.5], [-1.0]], 8000.0)
    """
    plan.decode(out[0])
    out[1][...] = plan.rate


@operator(dtypes="uint8", plan=plan_arrays, name=OPERATOR)
def numpy(
    encoded: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    plan: Any = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decode ``.npy`` files, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    All arrays of a batch must have one number of dimensions and, without `dtype`, one element type; their shapes may
    differ. Arrays in Fortran order and of big-endian numbers come as others do. Nothing is ever unpickled: files of
    Python objects, strings, dates, structures and complex numbers are refused.

    Args:
        dtype: Element type, which values are converted to as by `cast`; by default that of the files.

    Returns:
        The arrays, without a layout. Of an empty batch nothing is known: it has one dimension, and is of uint8 unless
        `dtype` says more.

    Raises:
        DecodeError: Some samples are no array, end too early or too late, or are unlike the first that can be read; the
            message names all of them.

    >>> import io
    >>> file = io.BytesIO()
    >>> numpy.save(file, numpy.array([[1.5, -2], [300, 4]]))
    >>> ndd.decoders.numpy(file.getvalue(), dtype="uint8").tolist()
    [[2, 0], [255, 4]]
    """
    shared(lambda part, there: convert(np, part, there.dtype, there), plan.array, out)
    return out


@operator(dtypes="uint8", plan=plan_video, name="decoders.video")
@from_host
@without_effect("affine", "build_index")
def video(
    encoded: Array,
    /,
    *,
    adjust_orientation: bool = True,
    end_frame: PerSample[int | None] = None,
    fill_value: _Whole8 | Three[_Whole8] = 0,
    frames: PerSample[_Whole | None] = None,
    pad_mode: _Padding = "constant",
    sequence_length: PerSample[Annotated[int, Between(0)] | None] = None,
    start_frame: PerSample[int | None] = None,
    stride: PerSample[_AtLeastOne | None] = None,
    max_values: _AtLeastOne = 2**32,
    on_error: _OnError = "raise",
    plan: Clip = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Decode frames of video files, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    By default all frames are decoded. A range of them is chosen by `start_frame`, `stride`, and either `end_frame` or
    `sequence_length`; any others by their numbers, `frames`. Frames are numbered from 0 on in the order in which they
    are shown. Only frames that are needed are decoded, from the key frames before them on. This needs the extra
    `video`.

    Args:
        adjust_orientation: Turn frames upright as the file says, which phones write.
        end_frame: The frame before which a range ends; by default it ends with the video.
        fill_value: The colour of frames that `pad_mode` "constant" adds: one number, or one of each channel.
        frames: The numbers of the frames, in any order; some may come several times.
        pad_mode: Treatment of frames outside of the video: "none" leaves out those after the end, and refuses
            others; "constant" gives frames of one colour; "edge" repeats the first or the last frame; "reflect_1001"
            and "reflect_101" go back from the end, with and without the last frame once more.
        sequence_length: How many frames a range has.
        start_frame: The first frame of a range; by default 0.
        stride: How far the frames of a range are apart; by default 1.
        max_values: The most values of a result: of its frames, rows, columns and channels together.
        on_error: As of `image`; "null" gives a video without frames or pixels.

    Returns:
        Frames of shape (frames, height, width, 3) in RGB, layout "FHWC".

    Raises:
        ArgumentError: A range is empty or begins after the end, or arguments exclude each other.
        DecodeError: Some samples are no video, end too early, contradict their format or exceed the limit; the message
            names all of them.

    >>> import av, io
    >>> film = io.BytesIO()
    >>> with av.open(film, "w", format="avi") as file:
    ...     stream = file.add_stream("mjpeg", rate=25, width=64, height=48, pix_fmt="yuvj420p")
    ...     for k in range(5):
    ...         frame = av.VideoFrame.from_ndarray(numpy.full((48, 64, 3), 50 * k, "uint8"))
    ...         file.mux(stream.encode(frame))
    >>> frames = ndd.decoders.video(film.getvalue(), start_frame=3, sequence_length=3, fill_value=10)
    >>> frames.shape, frames.array.mean(axis=(1, 2, 3)).round(-1).tolist()
    ((3, 48, 64, 3), [150.0, 200.0, 10.0])
    """
    plan.decode(out)
    return out


def imread(path: Any, /, **arguments: Any) -> Any:
    """Read and decode image files.

    Args:
        path: A path, or a sequence of paths. A Tensor or Batch of bytes holds a path or one in each sample.
        **arguments: Those of `image`, and `device`.

    Returns:
        A Tensor for one path, a Batch for a sequence; see `image`.

    Raises:
        DataError: Some files cannot be read; the message names all of them, and those that are no image.
        DecodeError: All files can be read, but some are no image.

    >>> ndd.imread("missing.png")
    Traceback (most recent call last):
    dynamic.errors.DataError: imread(): 1 of 1 samples cannot be read.
      sample 0 (missing.png): No such file or directory
    """
    limit = arguments.get("max_encoded_bytes")
    limit = limit if isinstance(limit, int) and limit > 0 else _LIMITS.encoded_bytes
    files = opened_files("imread", "path", path, limit, images.is_known)
    try:
        return image(files.data, **arguments)
    except ArgumentError as error:
        expected = error.expected.replace("decoders.image()", "imread()")
        raise ArgumentError("imread", error.argument, expected, error.got, error.hint) from None
    except DataError as error:
        unread = files.failures
        failures = [unread.get(failure.index, failure) for failure in error.failures]
        raise (DataError if unread else type(error))("imread", failures, error.total) from None
