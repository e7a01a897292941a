"""Encoded images: their headers, their windows, and decoding on the CPU or, for JPEG, on a GPU.

Every file is checked by our own readers before anything is decoded: nvImageCodec says of a file that it does not like
no more than that, and decodes some that are damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from dynamic._arrays.array import Array, library
from dynamic._arrays.described import Described, described
from dynamic._base import pool
from dynamic._lift.call import Call, Shape
from dynamic.data._transfer import moved_samples
from dynamic.errors import ArgumentError, DataError
from dynamic.kernels.cpu import images
from dynamic.kernels.cpu.places import Window
from dynamic.kernels.gpu import copies, jpeg

__all__ = ["File", "Refused", "buffer", "for_each", "of_jpeg", "on_gpu", "opened", "reduced"]

_WHOLE_SAMPLINGS = {(1, 1), (2, 1), (2, 2), (1, 2), (4, 1)}
_FLIPS = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}


class File(NamedTuple):
    """An encoded image whose header is read, and the window that is wanted."""

    encoded: Array
    head: images.Header
    limits: images.Limits
    corner: Sequence[int] | None  #: where (y, x) the window of the upright image begins; None for the whole image
    output_type: str
    adjust_orientation: bool
    fast_idct: bool
    scale: int = 1  #: how many rows and columns become one; the window is one of the reduced image

    @property
    def orientation(self) -> int:
        """The EXIF orientation to turn the image upright from."""
        return self.head.orientation if self.adjust_orientation else 1

    @property
    def gray(self) -> bool:
        """Whether the luma alone is wanted."""
        return images.jpeg_target(self.head, self.output_type) == "GRAY"

    @property
    def data(self) -> memoryview:
        """The bytes."""
        return numpy.ascontiguousarray(self.encoded).data

    def decode(self, out: Array) -> None:
        """Decode here."""
        images.decode(
            self.data,
            self.head,
            self.limits,
            self.output_type,
            adjust_orientation=self.adjust_orientation,
            fast_idct=self.fast_idct,
            out=out,
            corner=self.corner,
            scale=self.scale,
        )


class Refused(NamedTuple):
    """A file that is no image, where that is no reason to stop before the others are decoded."""

    error: DataError

    def decode(self, _: Array) -> None:
        """Raise the error."""
        raise self.error


def buffer(encoded: Array, operator: str) -> memoryview:
    """The bytes of a file."""
    if encoded.ndim != 1:
        got = f"{encoded.ndim} dimensions, shape {encoded.shape}"
        raise ArgumentError(operator, "encoded", "the bytes of one file, of one dimension", got)
    return numpy.ascontiguousarray(encoded).data


def opened(
    operator: str,
    window: Callable[..., Window] | None,
    encoded: Array,
    /,
    *others: Array | None,
    adjust_orientation: bool,
    output_type: str,
    use_fast_idct: bool,
    max_pixels: int,
    max_scans: int,
    max_encoded_bytes: int,
    formats: tuple[str, ...] | None,
    on_error: str,
    at_least: Sequence[int] | None,
    jpeg_fancy_upsampling: bool,
    **arguments: Any,
) -> tuple[Shape, File | Refused]:
    """Read the header of a file: the shape of the image, or of the window in it, and the file.

    Args:
        operator: For errors.
        window: Tells from the height and width of the image, the other inputs and arguments which part is wanted.
        encoded: Its bytes.
        others: The other inputs.
        adjust_orientation: Whether to turn the image upright.
        output_type: Colour space of the result.
        use_fast_idct: Whether to decode JPEG faster and less exactly, on the CPU.
        max_pixels: The most pixels.
        max_scans: The most scans.
        max_encoded_bytes: The most bytes.
        formats: Allowed formats; None: all.
        on_error: Unless it is "raise", a file that is no image is `Refused`, and has no pixels.
        at_least: See `reduced`.
        jpeg_fancy_upsampling: Without effect.
        arguments: The other arguments of the operator.
    """
    limits = images.Limits(max_pixels, max_scans, max_encoded_bytes, formats)
    try:
        head = images.header(buffer(encoded, operator), limits)
    except DataError as error:
        if on_error == "raise":
            raise
        return (0, 0, images.convert.channels("RGB", output_type)), Refused(error)
    channels = images.convert.channels(head.colours, output_type, head.extra)
    height, width, channels = head.shape(channels, adjust_orientation=adjust_orientation)
    whole = height, width
    corner, extents = (None, whole) if window is None else window(whole, *others, **arguments)
    file = File(encoded, head, limits, corner, output_type, adjust_orientation, use_fast_idct)
    return (*extents, channels), file


def of_jpeg(file: File | Refused) -> tuple[int, int, int]:
    """Orientation, height and width of the upright image in a JPEG; zeros for a file that is none."""
    if isinstance(file, Refused) or file.head.format != "JPEG":
        return 0, 0, 0
    return (file.orientation, *file.head.shape(0, adjust_orientation=file.adjust_orientation)[:2])


def reduced(
    found: Sequence[tuple[Shape, File | Refused]], at_least: Sequence[int]
) -> list[tuple[Shape, File | Refused]]:
    """Windows as `opened` gives them, at the smallest scales at which they are at least so large."""
    facts = numpy.array([of_jpeg(file) for _, file in found], numpy.int64).reshape(-1, 3)
    corners = [file.corner or (0, 0) if isinstance(file, File) else (0, 0) for _, file in found]
    windows = numpy.array([(corner, shape[:2]) for corner, (shape, _) in zip(corners, found, strict=True)], numpy.int64)
    windows = windows.reshape(-1, 2, 2)
    places = images.reduced(facts[:, 1:], facts[:, 0], windows[:, 0], windows[:, 1], at_least)
    return [
        ((*extents, shape[2]), file._replace(corner=corner, scale=scale)) if isinstance(file, File) else (shape, file)
        for (shape, file), scale, corner, extents in zip(found, *(column.tolist() for column in places), strict=True)
    ]


def on_gpu(call: Call, _: list[Described], target: Described) -> None:
    """Decode the files of a call into memory of a GPU."""
    files: dict[int, File] = {}
    for i, plan in enumerate(call.plan.data):
        if isinstance(plan, Refused):
            call.failures[i] = plan.error
        elif i not in call.failures:
            files[i] = plan
    _decode(call, files, target)


def _decode(call: Call, files: Mapping[int, File], target: Described) -> None:
    """Decode files, by the numbers of their samples, into memory of the wanted shapes and dtype."""
    codec, size = jpeg.library(), sum(len(file.data) for file in files.values())
    there = [i for i, file in files.items() if codec is not None and _suits(file)]
    for_each(call, there, size, lambda i: images.check_scans(files[i].data, files[i].head, files[i].limits))
    pixels: dict[int, Array] = {}
    for gray in (False, True):
        some = [i for i in there if files[i].gray is gray and i not in call.failures]
        pixels |= _decoded_there(call, codec, files, some, target, gray=gray)
    here = [i for i in files if i not in pixels and i not in call.failures]
    arrays = {i: numpy.empty(target.shapes[i], target.dtype) for i in here}
    for_each(call, here, size, lambda i: files[i].decode(arrays[i]))
    done = [i for i in here if i not in call.failures]
    if pixels:
        copies.window(described(list(pixels.values())), target.take(list(pixels)))
    if done:
        sent = moved_samples([arrays[i] for i in done], call.device)  # kept until the copy is queued
        copies.window(described(sent), target.take(done))


def _suits(file: File) -> bool:
    """Whether a GPU decodes such a file: as JPEG files mostly are, with colours that it makes itself."""
    head = file.head
    if head.format != "JPEG" or head.colours not in ("GRAY", "RGB") or file.output_type == "YCbCr" or file.scale > 1:
        return False
    luma, *chroma = head.detail.components.values()
    usual = luma in _WHOLE_SAMPLINGS and all(factors == (1, 1) for factors in chroma)
    return usual and head.detail.transform in (None, 1) and (not chroma or set(head.detail.components) == {1, 2, 3})


def for_each(call: Call, chosen: Sequence[int], work: int, function: Callable[[int], None]) -> None:
    """Call a function for some samples, on threads; those that it refuses are failures of the call."""

    def one(k: int) -> None:
        try:
            function(chosen[k])
        except DataError as error:
            call.failures[chosen[k]] = error
        except Exception as error:
            error.add_note(call.note(chosen[k]))
            raise

    pool.run(one, len(chosen), 8 * work)


def _decoded_there(
    call: Call, codec: Any, files: Mapping[int, File], chosen: Sequence[int], target: Described, *, gray: bool
) -> dict[int, Array]:
    """Pixels of the files that the GPU decodes, ready to be copied."""
    windows = {
        i: images.window(files[i].head, files[i].orientation, files[i].corner, target.shapes[i].tolist())
        for i in chosen
        if target.shapes[i].all()
    }
    if not windows:
        return {}
    data = [numpy.frombuffer(files[i].data, numpy.uint8) for i in windows]
    found = jpeg.decoded(codec, data, list(windows.values()), gray=gray, device_id=call.device.device_id)
    results = {}
    for (i, window), array in zip(windows.items(), found, strict=True):
        head = files[i].head
        extents = (head.height, head.width) if window is None else window[2:]
        if array is not None and array.shape[:2] == extents:
            results[i] = _valued(_turned(array, files[i]), target.dtype)
    return results


def _turned(pixels: Array, file: File) -> Array:
    """A view of pixels the right way up, and with channels in their order."""
    if file.orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    down, across = _FLIPS.get(file.orientation, (1, 1))
    return pixels[::down, ::across, :: -1 if file.output_type == "BGR" else 1]


def _valued(pixels: Array, dtype: numpy.dtype[Any]) -> Array:
    """Bytes as another type, the full range of theirs as the full range of that."""
    if dtype == pixels.dtype:
        return pixels
    made = library(pixels).empty(pixels.shape, dtype)
    images.convert.values(pixels, made)
    return made
